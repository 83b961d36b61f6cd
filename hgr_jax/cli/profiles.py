"""What each column of a table looks like, and what in it may be a mistake."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Mapping
from typing import Any

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax._texts import shortened
from hgr_jax.cli.html.contents import Profile, Sample
from hgr_jax.scanning.result import Scan
from hgr_jax.tables.columns import Columns
from hgr_jax.tables.encoding import Category

BARS = 16
MAX_CODES = 12
"""Distinct whole numbers that may be codes."""

MIN_ROWS = 20
"""Of fewer an identifier is not told from a measurement."""

IDENTIFIER = 0.98
"""The part of the values that are distinct."""

SPREAD = 0.1
"""How far the median of identifiers is from the ends of their range; most amounts are small."""

MARKS = frozenset(sign * (10**digits - 1) for digits in range(2, 7) for sign in (-1, 1)) | {-1, -9}
"""Numbers that stand for a missing value in some tables: -1, -9, -99, 99, ..."""

MARK_GAP = 0.5
"""Between such a number and its next, in ranges of the rest: more is far."""

MAX_WHOLE = 1e12

LEVELS_SHOWN = 3
LEVEL_LETTERS = 18
DAY = 86400


def profiles_of(found: Scan, table: Any = None) -> list[Profile]:
    """Return a summary of each column of a scan, of the ``table`` that was read."""
    columns = found.data
    places = {int(position): i for i, position in enumerate(columns.number_positions)}
    of_categories = {int(position): i for i, position in enumerate(columns.category_positions)}
    profiles = []
    for position, name in enumerate(columns.names):
        if position in places and name not in found.skipped:
            values = np.asarray(columns.numbers[:, places[position]], np.float64)
            profiles.append(_of_numbers(name, values, columns.dates.get(name)))
            continue
        distinct, missing, alerts = _of_raw(_raw(table, columns, position))
        if position in of_categories and name not in found.skipped:
            category = columns.categories[of_categories[position]]
            profiles.append(_of_category(name, category, distinct))
        else:
            reasons = [found.skipped.get(name, ""), *alerts]
            profiles.append(Profile(name, "left out", distinct, missing, "", (), reasons))
    return profiles


def _of_numbers(name: str, column: Floats, first: float | None) -> Profile:
    present = column[~np.isnan(column)]
    values, counts = np.unique(present, return_counts=True)
    low, high = float(values[0]), float(values[-1])
    whole = bool((values == np.floor(values)).all())
    if first is not None:
        kind, ends = "date", [as_date(first, value) for value in (low, high)]
    else:
        kind, ends = "whole number" if whole else "number", [_number(v) for v in (low, high)]
    return Profile(
        name=name,
        kind=kind,
        distinct=len(values),
        missing=len(column) - len(present),
        values=" to ".join(ends),
        bars=np.histogram(present, BARS)[0].tolist() if np.isfinite(high - low) else (),
        alerts=[] if first is not None else _of_values(name, values, counts, whole=whole),
    )


def _of_values(name: str, values: Floats, counts: Integers, *, whole: bool) -> list[str]:
    """Return what to look at in a column of these distinct numbers."""
    alerts = []
    rows, distinct = int(counts.sum()), len(values)
    if whole and rows >= MIN_ROWS and distinct >= IDENTIFIER * rows and _is_spread(values):
        alerts.append("nearly all values are distinct whole numbers: an identifier?")
    if whole and 2 < distinct <= MAX_CODES and rows >= MIN_ROWS:
        option = f"--categories {shlex.quote(name)}"
        alerts.append(f"{distinct} whole numbers: codes? read as a number; {option} makes levels")
    marks = np.isin(values, list(MARKS))
    rest = values[~marks]
    if marks.any() and len(rest) > 1:
        low, high = _middle(rest, counts[~marks])
        for mark, count in zip(values[marks], counts[marks], strict=True):
            if np.abs(rest - mark).min() > MARK_GAP * (high - low):
                held = f"{count:,} row{'' if count == 1 else 's'}"
                alerts.append(f"{mark:g} in {held}, far from the rest: a missing value?")
    return alerts


def _is_spread(values: Floats) -> bool:
    """Return whether values lie about their range, as numbers that are given out do."""
    return bool(SPREAD <= (np.median(values) - values[0]) / (values[-1] - values[0]) <= 1 - SPREAD)


def _number(value: float) -> str:
    """Return a number in words: whole ones with all their digits, if there are not too many."""
    return f"{value:,.0f}" if value == round(value) and abs(value) < MAX_WHOLE else f"{value:.6g}"


def _middle(values: Floats, counts: Integers) -> tuple[float, float]:
    """Return between which values 98% of the rows are."""
    part = np.cumsum(counts) / counts.sum()
    return float(values[part >= 0.01][0]), float(values[part >= 0.99][0])


def _of_category(name: str, category: Category, distinct: int | None) -> Profile:
    codes = category.codes
    counts = np.bincount(codes[codes >= 0], minlength=len(category.levels))
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    listed = [
        f"{shortened(category.levels[i], LEVEL_LETTERS)} ({counts[i]:,})"
        for i in order[:LEVELS_SHOWN]
    ]
    return Profile(
        name=name,
        kind="category",
        distinct=len(order) if distinct is None else distinct,
        missing=int((codes < 0).sum()),
        values=", ".join(listed) + (", …" if len(order) > LEVELS_SHOWN else ""),
        bars=counts[order[:BARS]].tolist(),
    )


def _raw(table: Any, columns: Columns, position: int) -> list[Any] | None:
    """Return the values of a column as they came, or None where they were not kept."""
    if isinstance(table, Mapping):
        return list(list(table.values())[position])
    if columns.frame is not None:
        return list(columns.frame[:, position].to_list())
    return None


def _of_raw(values: list[Any] | None) -> tuple[int | None, int | None, list[str]]:
    """Return how many values are distinct and how many are missing, and what to look at."""
    if values is None:
        return None, None, []
    texts = [str(v) for v in values if v is not None and v != "" and type(v).__name__ != "NAType"]
    texts = [text for text in texts if text not in ("nan", "NaT")]
    distinct = len(set(texts))
    many = len(texts) >= MIN_ROWS and distinct >= IDENTIFIER * len(texts)
    alerts = ["nearly all texts are distinct: an identifier?"] if many else []
    return distinct, len(values) - len(texts), alerts


def as_date(first: float, days: float) -> str:
    """Return a date in the words of ISO 8601: some days after a moment in seconds since 1970."""
    seconds = round(first + days * DAY)
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    except OverflowError:  # a year that Python has no date of
        return f"year {1970 + seconds / DAY / 365.2425:.0f}"
    return f"{moment:%Y-%m-%d}" if seconds % DAY == 0 else f"{moment:%Y-%m-%d %H:%M}"


def samples_of(found: Scan, rows: Integers) -> list[Sample]:
    """Return some rows of every column that was used, as they were read."""
    columns = found.data
    of: dict[int, Sample] = {}
    for i, position in enumerate(columns.number_positions):
        name = columns.names[position]
        values = np.asarray(columns.numbers[rows, i], np.float64).tolist()
        of[int(position)] = Sample(name, values, first=columns.dates.get(name))
    for category, position in zip(columns.categories, columns.category_positions, strict=True):
        levels = (*category.levels, "")  # -1, where it is missing, is the last
        texts = [levels[code] for code in category.codes[rows].tolist()]
        of[int(position)] = Sample(columns.names[position], texts, category.levels)
    return [of[position] for position in sorted(of) if columns.names[position] not in found.skipped]
