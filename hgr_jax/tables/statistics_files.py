"""Read the files of SPSS, Stata and SAS: raw numbers, their formats and their labels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._optional import require
from hgr_jax._texts import counted
from hgr_jax.tables.faults import printable, unreadable
from hgr_jax.tables.levels import object_array
from hgr_jax.tables.packed import Contents

STATISTICS_FORMATS = {
    "SPSS": "read_sav",
    "portable SPSS": "read_por",
    "Stata": "read_dta",
    "SAS": "read_sas7bdat",
    "SAS transport": "read_xport",
}
"""Functions of pyreadstat by format."""

LABELS_SHOWN = 8

_HOURS = re.compile(r"M?TIME|DTIME|HHMM|TOD|E8601TM|%tcHH")
_SECONDS = re.compile(r"DATETIME|YMDHMS|E8601DT|DATEAMPM|%tc|%tC")
_DAYS = re.compile(
    r"[AESJ]?DATE|DDMMYY|MMDDYY|YYMMDD|[BE]8601DA|WORDDATE|WEEKDATE|JULIAN|MONYY|YYMM|YYQ|YYMON|MMYY"
    r"|EURDFDD|MOYR|QYR|WKYR|%t?d"
)
"""What numbers with a format are, by its beginning."""

_PERIODS = {"%tw": 52, "%tm": 12, "%tq": 4, "%th": 2, "%ty": 1}
"""Numbers of periods of Stata in a year."""


def read_statistics_file(
    contents: Contents, kind: str
) -> tuple[list[str], list[Any], dict[str, str]]:
    """Read a file of one of the `STATISTICS_FORMATS`: names, columns, notes.

    Durations are hours.  A scale of labelled values stays numbers, in their order; a column of
    labels without an order becomes these.  User-missing values are missing.
    """
    read = getattr(require("pyreadstat"), STATISTICS_FORMATS[kind])
    options: dict[str, Any] = {"user_missing": True} if kind == "SPSS" else {}
    options |= {"output_format": "dict", "disable_datetime_conversion": True}
    try:
        columns, description = read(str(contents.path), **options)
    except Exception as error:  # a damaged file may raise anything
        raise unreadable(contents.shown, kind, error) from None
    found, notes = [], {}
    for name, values in columns.items():
        values, said = object_array(values), []
        if ranges := description.missing_ranges.get(name):
            values, note = _without_user_missing(values, ranges)
            said.append(note)
        form = str(description.original_variable_types.get(name) or "")
        values, note = _of_format(values, form, kind)
        said.append(note)
        if labels := description.variable_value_labels.get(name):
            measure = description.variable_measure.get(name, "unknown")
            is_scale = kind == "Stata" or measure in ("ordinal", "scale")
            values, note = _labelled(values, labels, is_scale=is_scale)
            said.append(note)
        found.append(values)
        notes[name] = "; ".join(filter(None, said))
    return list(columns), found, notes


def _without_user_missing(
    values: NDArray[Any], ranges: Sequence[Mapping[str, Any]]
) -> tuple[NDArray[Any], str]:
    """Return values without those that the author calls missing, and their number."""
    missing = np.zeros(len(values), bool)
    for bounds in ranges:
        low, high = bounds["lo"], bounds["hi"]
        missing |= [
            v is not None and type(v) is type(low) and low <= v <= high for v in values.tolist()
        ]
    values[missing] = None
    count = int(missing.sum())
    return values, f"{counted(count, 'user-missing value')} left out" if count else ""


def _of_format(values: NDArray[Any], form: str, kind: str) -> tuple[NDArray[Any], str]:
    """Return numbers as the dates or hours that their format says, with a note."""
    numbers = np.array([np.nan if v is None or v == "" else v for v in values], object)
    if any(isinstance(value, str) for value in numbers):
        return values, ""
    numbers, in_seconds = numbers.astype(float), "SPSS" in kind
    present = np.isfinite(numbers)
    if _HOURS.match(form):
        return numbers / (3.6e6 if kind == "Stata" else 3600), "hours"
    if periods := _PERIODS.get(form[:3]):
        year, part = np.divmod(np.where(present, numbers, 0), periods)
        year += 0 if periods == 1 else 1960
        months = 12 * (year - 1970) + (0 if periods == 52 else part * 12 // periods)
        dates = months.astype("M8[M]").astype("M8[us]")
        dates += (7 * part).astype("m8[D]") if periods == 52 else np.timedelta64(0)
        return np.where(present, dates, np.datetime64("NaT")), "the first day of the period"
    if _SECONDS.match(form):
        unit = 1e-3 if kind == "Stata" else 1.0
    elif _DAYS.match(form):
        unit = 1.0 if in_seconds else 86_400.0
    else:
        return values, ""
    spans = np.round(np.where(present, numbers, 0) * unit * 1e6).astype("m8[us]")
    start = np.datetime64("1582-10-14" if in_seconds else "1960-01-01", "us")
    return np.where(present, start + spans, np.datetime64("NaT")), ""


def _labelled(
    values: NDArray[Any], labels: Mapping[Any, str], *, is_scale: bool
) -> tuple[NDArray[Any], str]:
    """Return the labels of values if every value has one and they have no order, with a note.

    A scale, and numbers of which only some have a label, stay numbers.
    """
    present = {value for value in values.tolist() if value is not None and value == value}
    labelled = sorted(present & labels.keys(), key=lambda value: (str(type(value)), value))
    if not labelled:
        return values, ""
    shown = [
        f"{value:g}" if isinstance(value, float) else printable(str(value)) for value in labelled
    ]
    if len(labelled) < len(present):
        return values, (
            f"{len(labelled)} of its {len(present):,} values have a label and stay what they are,"
            f" as {shown[0]} ({printable(str(labels[labelled[0]]))[:60]})"
        )
    words = [printable(str(labels[value]))[:40] for value in labelled]
    listed = ", ".join(f"{code} {word}" for code, word in zip(shown, words, strict=True))
    if is_scale and len(labelled) > 2 and not any(isinstance(v, str) for v in labelled):
        dots = ", ..." if len(labelled) > LABELS_SHOWN else ""
        first = ", ".join(listed.split(", ")[:LABELS_SHOWN])
        return values, f"a scale, in the order of its codes: {first}{dots}"
    texts = object_array(
        [None if value not in labels else str(labels[value]) for value in values.tolist()]
    )
    double = sorted({word for word in words if words.count(word) > 1})
    if not double:
        return texts, ""
    codes = [code for code, word in zip(shown, words, strict=True) if word == double[0]]
    return texts, f"the codes {' and '.join(codes)} have one label, {double[0]!r}: one level"
