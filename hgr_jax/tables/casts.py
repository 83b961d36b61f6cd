"""A column of CSV as numbers, dates or texts: by Arrow, which is fast, where all is plain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax.tables.delimited import Cells, arrow
from hgr_jax.tables.texts import (
    ISO_DATE,
    MISSING,
    Inferred,
    as_integer,
    in_seconds,
    infer,
    tell_lost_digits,
)


def typed(cells: Cells, place: int, also_missing: Sequence[str], point: str | None) -> Inferred:
    """Return what a column is: by Arrow where all texts are plain, else by `infer`.

    Args:
      cells: of the file.
      place: of the column.
      also_missing: texts, in lower case, that stand for a missing value beside `MISSING`.
      point: the decimal point; None to find it out.
    """
    compute, column = arrow().compute, cells.columns[place]
    trim = compute.utf8_trim_whitespace(column)
    known = arrow().array(sorted(MISSING.union(also_missing)))
    missing = compute.is_in(compute.utf8_lower(trim), value_set=known)
    present = compute.if_else(missing, None, trim)
    values = _cast(present) if point != "," else None
    if values is not None:

        def integers(rows: NDArray[np.intp]) -> list[int | None]:
            return [as_integer(text) for text in present.take(arrow().array(rows)).to_pylist()]

        return Inferred(values, tell_lost_digits(values, integers), ".")
    values = _cast_commas(present, sure=point == ",") if point != "." else None
    if values is not None:
        commas = compute.match_substring(present.fill_null(""), ",").to_numpy()
        row, note = int(np.argmax(commas)), ""
        if commas[row] and not point:
            note = f"{present[row].as_py()!r} is read as {values[row]:.15g} (a decimal comma)"
        return Inferred(values, note, ",")
    moments = _cast_dates(present)
    if moments is not None:
        return Inferred(moments)
    texts = np.asarray(present.fill_null("").to_numpy(), object)
    return infer(texts, point=point, where=lambda row: f"in line {cells.line(row)}")


def _cast(present: Any) -> NDArray[np.float64] | None:
    """Return texts as numbers if all are, None if not."""
    try:
        numbers = arrow().compute.cast(present, arrow().float64())
    except arrow().ArrowInvalid:
        return None
    return np.asarray(numbers.to_numpy(), np.float64)


def _cast_dates(present: Any) -> NDArray[Any] | None:
    """Return texts as dates if all are, as ISO writes them, None if not."""
    compute = arrow().compute
    if not compute.all(compute.match_substring_regex(present, f"^{ISO_DATE}$")).as_py():
        return None
    try:
        return in_seconds(compute.cast(present, arrow().timestamp("us")).to_numpy())
    except arrow().ArrowInvalid:  # there is no such day or time
        return None


def _cast_commas(present: Any, *, sure: bool) -> NDArray[np.float64] | None:
    """Return texts with decimal commas as numbers, unless the commas may be between thousands."""
    compute = arrow().compute
    if compute.any(compute.match_substring(present, ".")).as_py():
        return None
    thousands = r"^[-+]?[0-9]{1,3},[0-9]{3}$|^[^,]*$"
    if not sure and compute.all(compute.match_substring_regex(present, thousands)).as_py():
        return None
    return _cast(compute.replace_substring(present, ",", "."))
