"""Read the files of SPSS, Stata and SAS: raw numbers, their formats and their labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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

_1582, _1960 = np.datetime64("1582-10-14T00", "us"), np.datetime64("1960-01-01T00", "us")


def _since(start: Any, seconds: float) -> Callable[[NDArray[Any]], NDArray[Any]]:
    return lambda x: start + np.round(x * seconds * 1e6).astype("m8[us]")


def _months(months: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
    first = np.datetime64("1960-01", "M")
    return lambda x: (first + (x * months).astype(int)).astype("M8[us]")


def _stata_weeks(x: NDArray[Any]) -> NDArray[Any]:
    """Return the first days of weeks, of which the last of a year has eight or nine."""
    years = np.datetime64("1960", "Y") + np.floor(x / 52).astype(int)
    return (years.astype("M8[D]") + 7 * (x % 52).astype(int)).astype("M8[us]")


def _stata_years(x: NDArray[Any]) -> NDArray[Any]:
    return (np.datetime64("1970", "Y") + (x - 1970).astype(int)).astype("M8[us]")


_STATA = {
    "%tcHH": ("hours", lambda x: x / 3.6e6),
    "%tc": ("", _since(_1960, 1e-3)),
    "%tC": ("", _since(_1960, 1e-3)),
    "%td": ("", _since(_1960, 86_400)),
    "%d": ("", _since(_1960, 86_400)),
    "%tw": ("the first day of the week", _stata_weeks),
    "%tm": ("the first day of the month", _months(1)),
    "%tq": ("the first day of the quarter", _months(3)),
    "%th": ("the first day of the half year", _months(6)),
    "%ty": ("the first day of the year", _stata_years),
}
_SPSS = {
    **dict.fromkeys(("DTIME", "TIME", "MTIME"), ("hours", lambda x: x / 3600)),
    "MOYR": ("the first day of the month", _since(_1582, 1)),
    "QYR": ("the first day of the quarter", _since(_1582, 1)),
    "WKYR": ("the first day of the week", _since(_1582, 1)),
    **dict.fromkeys(
        ("DATETIME", "YMDHMS", "DATE", "ADATE", "EDATE", "SDATE", "JDATE"), ("", _since(_1582, 1))
    ),
}
_SAS = {
    **dict.fromkeys(("DATETIME", "E8601DT", "DATEAMPM"), ("", _since(_1960, 1))),
    **dict.fromkeys(("TIME", "HHMM", "E8601TM", "TOD"), ("hours", lambda x: x / 3600)),
    **dict.fromkeys(
        (
            *("DATE", "DDMMYY", "MMDDYY", "YYMMDD", "E8601DA", "WORDDATE", "WEEKDATE", "JULIAN"),
            *("MONYY", "YYMM", "YYQ", "YYMON", "MMYY", "B8601DA", "EURDFDD"),
        ),
        ("", _since(_1960, 86_400)),
    ),
}
"""What numbers with a format are, by its beginning, and how they become that."""

_FORMATS = {"Stata": _STATA, "SAS": _SAS, "SAS transport": _SAS}


def read_statistics_file(
    contents: Contents, kind: str
) -> tuple[list[str], list[Any], list[tuple[str, str]]]:
    """Read a file of one of the `STATISTICS_FORMATS`: names, columns, notes.

    Durations are hours.  A scale of labelled values stays numbers, in their order; a column of
    labels without an order becomes these.  User-missing values are missing.
    """
    read = getattr(require("pyreadstat"), STATISTICS_FORMATS[kind])
    options = {"user_missing": True} if kind == "SPSS" else {}
    with contents.on_disk() as path:
        try:
            columns, description = read(
                str(path), output_format="dict", disable_datetime_conversion=True, **options
            )
        except Exception as error:  # a damaged file may raise anything
            raise unreadable(contents.shown, kind, error) from None
    found, notes = [], []
    for name, values in columns.items():
        values, said = object_array(values), []
        if ranges := description.missing_ranges.get(name):
            values, note = _without_user_missing(values, ranges)
            said.append(note)
        form = str(description.original_variable_types.get(name) or "")
        values, note = _of_format(values, form, _FORMATS.get(kind, _SPSS))
        said.append(note)
        if labels := description.variable_value_labels.get(name):
            measure = description.variable_measure.get(name, "unknown")
            is_scale = kind == "Stata" or measure in ("ordinal", "scale")
            values, note = _labelled(values, labels, is_scale=is_scale)
            said.append(note)
        found.append(values)
        notes.append((name, "; ".join(filter(None, said))))
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


def _of_format(
    values: NDArray[Any], form: str, formats: Mapping[str, tuple[str, Any]]
) -> tuple[NDArray[Any], str]:
    """Return numbers as the dates or hours that their format says, with a note."""
    known = max((begin for begin in formats if form.startswith(begin)), key=len, default=None)
    numbers = np.array([np.nan if v is None or v == "" else v for v in values], object)
    if known is None or any(isinstance(value, str) for value in numbers):
        return values, ""
    numbers = numbers.astype(float)
    what, convert = formats[known]
    present = np.isfinite(numbers)
    converted = convert(np.where(present, numbers, 0.0))
    if converted.dtype.kind == "M":
        return np.where(present, converted, np.datetime64("NaT")), what
    return np.where(present, converted, np.nan), what


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
