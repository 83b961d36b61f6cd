"""From a scan to its page: all pairs, the first of them in full, copies, and each column."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax._texts import shortened
from hgr_jax.cli.html.contents import Curve, Detail, HtmlPage, Profile, Sample
from hgr_jax.scanning.fits import HostTransformation, Influence, PairDetails
from hgr_jax.scanning.result import FALSE_DISCOVERY_RATE, Pair, Scan
from hgr_jax.tables.columns import Category, Columns

ALMOST_ONE = 0.9995
"""Shown as 1.000."""


def copies_of(found: Scan) -> dict[str, list[str]]:
    """Return the group of every column: the names of its copies and its own, in their order.

    Two columns are copies where ranks of both are (a |Spearman| and an HGR of 1.000), or where
    HGR is 1.000 and each value of one, of those that occur again, goes with one of the other.
    """
    parent = list(range(len(found.names)))

    def first(i: int) -> int:
        while parent[i] != i:
            i = parent[i]
        return i

    value = np.fmax(found.correlation, found.rank_correlation)
    i, j = found.pairs.T
    for a, b in found.pairs[value[i, j] >= ALMOST_ONE].tolist():
        one, other = sorted((first(a), first(b)))
        if one != other and _are_copies(found, a, b):
            parent[other] = one
    groups: dict[int, list[str]] = {}
    for i, name in enumerate(found.names):
        groups.setdefault(first(i), []).append(name)
    return {name: group for group in groups.values() for name in group}


def _are_copies(found: Scan, i: int, j: int) -> bool:
    monotone = min(found.spearman[i, j], found.rank_correlation[i, j])  # NaN with a category
    if monotone >= ALMOST_ONE:
        return True
    a, b = (found.values(found.names[k]) for k in (i, j))
    return found.correlation[i, j] >= ALMOST_ONE and _one_to_one(a, b)


def _one_to_one(a: Floats, b: Floats) -> bool:
    """Return whether values determine each other, which says nothing where all are distinct."""
    present = ~(np.isnan(a) | np.isnan(b))
    (u, x), (v, y) = (np.unique(c[present], return_inverse=True) for c in (a, b))
    if len(u) != len(v) or 2 * len(u) > len(x):
        return False
    return len(np.unique(x * len(v) + y)) == len(u)


def without_copies(pairs: list[Pair], groups: dict[str, list[str]], count: int) -> list[Pair]:
    """Return the first pairs, at most ``count``, one for each two groups (or within one)."""
    kept: dict[frozenset[str], Pair] = {}
    for pair in pairs:
        if len(kept) == count:
            break
        kept.setdefault(frozenset((groups[pair.a][0], groups[pair.b][0])), pair)
    return list(kept.values())


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


POINTS = 600
"""Rows of a pair that its picture shows."""

GRID = 120
DETAILS = 12

MAX_LISTED = 100_000
"""Pairs in the table of the page: each takes some 100 letters of it."""

MAX_MAPPED = 1000
"""Columns of its heat map: each two take some 14 letters."""

HEADERS = {
    "column a": ("a", ""),
    "column b": ("b", ""),
    "KB": ("correlation", "HGR-KB: the largest correlation between polynomials of the two columns"),
    "of ranks": (
        "rank_correlation",
        "the same of the ranks of their values, which no single row can make",
    ),
    "|Spearman|": ("spearman", "what a monotone relation explains; none with a category"),
    "excess": (
        "rank_excess",
        "HGR-KB of ranks, less its bias, above |Spearman| or level means: what is not monotone",
    ),
    "|Pearson|": ("pearson", "what a straight line explains; none with a category"),
    "p-value": ("pvalue", "how often independent columns show as much dependence, by their ranks"),
    "adjusted p": (
        "adjusted_pvalue",
        "the p-value for so many pairs (Benjamini-Hochberg): at most 0.05 is more than chance",
    ),
    "null 95%": (
        "null_95",
        "what HGR-KB of ranks stays below, 95 times of 100, where columns are independent",
    ),
    "corrected": ("corrected", "HGR-KB less its upward bias"),
    "one row": (
        "one_row",
        "the largest part of the correlation that one row makes (of the first pairs)",
    ),
    "rows": ("n_obs", "rows where both columns are present"),
    "p-value from": (
        "pvalue_source",
        (
            "a law of ranks, of several degrees at once; beside a category, Roy's law; exact of"
            " two columns of two values; permutations of ranks (sampled: of a sample of the rows);"
            " or, given other columns, random signs"
        ),
    ),
}
"""Headers of the table of pairs: the attribute of a `Pair` below each, and what it means."""

PROBABILITIES = ("p-value", "adjusted p")

ORDERED_BY = {
    "rank_excess": ("excess", "what ranks show beyond |Spearman|, those more than chance first"),
    "correlation": ("KB", "largest HGR-KB"),
    "excess": ("KB", "largest excess of HGR-KB over |Pearson|"),
    "pvalue": ("p-value", "smallest p-value"),
}
"""The header that an order is by, and the order in words."""

InFull = Mapping[tuple[str, str], PairDetails | None]
"""Pairs that are shown, by their names; None where there is no correlation."""


def influence_in(in_full: InFull, a: str, b: str) -> Influence | None:
    """Return what one row makes of a pair, if it is among those that are shown."""
    pair = in_full.get((a, b))
    return None if pair is None else pair.influence


def more_than_chance(found: Scan) -> int:
    """Return how many pairs are, at the false discovery rate."""
    return int(np.sum(found.to_dict()["adjusted_pvalue"] <= FALSE_DISCOVERY_RATE))


def as_report(
    found: Scan,
    title: str,
    in_full: InFull | None = None,
    table: Any = None,
    *,
    by: str = "rank_excess",
) -> HtmlPage:
    """Return a scan as a page: its pairs, the heat map, the first pairs in full, and the columns.

    Of very many pairs the first are listed, and the heat map is of their columns.  Of columns that
    are copies of one another, the pairs in full show one.  ``table`` is what was scanned, for what
    is said of columns left out.
    """
    in_full = {} if in_full is None else in_full
    settings = found.settings
    similar, left_out = found.clustered(), []
    order = _mapped(found, similar, by)
    part = np.ix_(order, order)
    pairs = found.top(MAX_LISTED, by=by)
    if len(pairs) < len(found):
        left_out.append(
            f"The table lists, searches and sorts the first {len(pairs):,} of {len(found):,} pairs;"
            " pairs.csv has all of them."
        )
    if len(order) < len(similar):
        left_out.append(f"The heat map is of {len(order):,} columns, those of the first pairs.")
    summary = {
        "rows": f"{settings['rows']:,}",
        "columns": f"{len(found.used):,}",
        "pairs": f"{len(found):,}",
        "more than chance": f"{more_than_chance(found):,}",
        "degrees": f"{settings['h']} and {settings['k']}",
    }
    if "top" in settings:
        of_all = settings["top"]
        summary["the first of"] = f"{of_all['pairs']:,} pairs of {of_all['columns']:,} columns"
        summary["of these more than chance"] = f"{of_all['discoveries']:,}"
    if "sample_rows" in settings:
        summary["pictures"] = f"of {settings['sample_rows']:,} rows"
    if settings["measure"].startswith("rank_"):
        summary["values"] = "ranks"
    if settings["given"]:
        summary["given"] = ", ".join(settings["given"])
    messages = (("left out", found.skipped), ("note", found.notes))
    groups = copies_of(found)
    sample = _rows_to_draw(np.arange(found.data.rows), ())
    skipped = [(n, f"{label}: {text}") for label, texts in messages for n, text in texts.items()]
    return HtmlPage(
        title=title,
        summary=summary,
        names=[found.names[i] for i in order],
        correlation=found.correlation[part],
        pearson=found.pearson[part],
        columns=tuple(HEADERS),
        rows=[_row(pair, in_full) for pair in pairs],
        details=[
            as_detail(found, pair, in_full, groups)
            for pair in without_copies(pairs, groups, DETAILS)
        ],
        skipped=skipped,
        explanations={header: text for header, (_, text) in HEADERS.items()},
        probabilities=PROBABILITIES,
        ordered_by=ORDERED_BY[by][0],
        pairs=len(found),
        left_out=left_out,
        profiles=profiles_of(found, table),
        samples=samples_of(found, sample) if len(found) else (),
    )


def _mapped(found: Scan, columns: Integers, by: str) -> Integers:
    """Return those of some columns that the heat map is of: where they are many, of first pairs."""
    if len(columns) <= MAX_MAPPED:
        return columns
    paired, places = np.unique(found.order(by), return_index=True)
    return columns[np.isin(columns, paired[np.argsort(places)[:MAX_MAPPED]])]


def _row(pair: Pair, in_full: InFull) -> list[Any]:
    influence = influence_in(in_full, pair.a, pair.b)
    own = {"one_row": None if influence is None else influence.share}
    return [own.get(name, getattr(pair, name, None)) for name, _ in HEADERS.values()]


def as_detail(
    found: Scan,
    pair: Pair,
    in_full: InFull,
    groups: Mapping[str, Sequence[str]] | None = None,
) -> Detail:
    """Return a pair in full: its data and its transformations, and the copies of its columns."""
    names = (pair.a, pair.b)
    shown = in_full.get(names) or found.details(*names)
    assert shown is not None, "only a pair with a correlation is in the list"
    values = [found.values(name) for name in names]
    categories = [found.category(name) for name in names]
    present = ~(np.isnan(values[0]) | np.isnan(values[1]))
    if shown.residuals is not None:
        present &= ~np.isnan(shown.residuals[0])
    influence = shown.influence
    rows = _rows_to_draw(np.flatnonzero(present), influence.rows)
    transforms = (shown.f, shown.g)
    transformed = [t(v[rows]) for t, v in zip(transforms, values, strict=True)]
    if shown.residuals is not None:
        transformed = [values[rows] for values in shown.residuals]
    points = [_points(v[rows], category) for v, category in zip(values, categories, strict=True)]
    curves = [
        _curve(t, v[present], category)
        for t, v, category in zip(transforms, values, categories, strict=True)
    ]
    note = "" if any(categories) else f"f = {shown.f.formula('a')};  g = {shown.g.formula('b')}"
    ranked = found.settings["measure"].startswith("rank_")
    dates = [None if ranked else found.data.dates.get(name) for name in names]
    since = [
        f"{letter} in days since {as_date(first, 0)}"
        for letter, first in zip("ab", dates, strict=True)
        if first is not None and note
    ]
    note = "; ".join(filter(None, [note, *since]))
    group_a, group_b = ((groups or {}).get(name, ()) for name in names)
    marked = None
    if influence.dominates:
        marked = int(np.searchsorted(rows, influence.row))
    signed = None
    if not any(categories) and shown.residuals is None:
        with np.errstate(invalid="ignore"):  # of a column that is constant on these rows
            signed = float(np.corrcoef(values[0][present], values[1][present])[0, 1])
    return Detail(
        a=pair.a,
        b=pair.b,
        facts=_facts(pair, influence),
        pearson=signed,
        correlation=pair.correlation,
        marked=marked,
        points=list(zip(*points, strict=True)),
        f=curves[0],
        g=curves[1],
        transformed=list(zip(*(t.tolist() for t in transformed), strict=True)),
        note=note,
        dates=(dates[0], dates[1]),
        copies=(
            [name for name in group_a if name not in names],
            [name for name in group_b if name not in (*names, *group_a)],
        ),
    )


def _rows_to_draw(rows: Integers, influential: Sequence[int]) -> Integers:
    """Return a sample of the rows, with those that make most of the correlation."""
    if len(rows) <= POINTS:
        return rows
    sample = np.random.default_rng(0).choice(rows, POINTS, replace=False)
    return np.union1d(sample, np.asarray(influential, rows.dtype))


def _facts(pair: Pair, influence: Influence) -> str:
    """Return a pair in a line."""
    facts = [f"KB {pair.correlation:.3f}"]
    if not np.isnan(pair.rank_correlation):
        facts.append(f"of ranks {pair.rank_correlation:.3f}")
    if not np.isnan(pair.pearson):
        facts.append(f"|Pearson| {pair.pearson:.3f}")
    if influence.dominates:
        facts.append(
            f"row {influence.row} makes {influence.share:.0%} of it:"
            f" {influence.value_without:.3f} without"
        )
    return " · ".join(facts)


def _points(values: Any, category: Category | None) -> list[Any]:
    if category is None:
        return list(values.tolist())
    return [category.levels[level] for level in values.astype(int)]


def _curve(transform: HostTransformation, values: Any, category: Category | None) -> Curve:
    if category is None:
        grid = np.linspace(values.min(), values.max(), GRID)
        return Curve(grid.tolist(), transform(grid).tolist())
    levels = np.unique(values.astype(int))
    return Curve([category.levels[level] for level in levels], transform(levels).tolist())
