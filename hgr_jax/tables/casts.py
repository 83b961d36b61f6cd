"""A column of CSV as numbers, dates or texts: by Arrow, which is fast, where all is plain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax.tables.delimited import Cells, arrow
from hgr_jax.tables.forms import COMMA, Form
from hgr_jax.tables.moments import ISO_DATE
from hgr_jax.tables.texts import (
    MISSING,
    NEARLY_ALL,
    Inferred,
    as_integer,
    as_number,
    in_seconds,
    infer,
    is_number,
    say_how,
    say_odd,
    tell_lost_digits,
)

_PLAIN = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"


def typed(
    cells: Cells,
    place: int,
    also_missing: Sequence[str],
    point: str | None,
    form: Form | None = None,
) -> Inferred:
    """Return what a column is: by Arrow where all texts are plain, else by `infer`.

    Args:
      cells: of the file.
      place: of the column.
      also_missing: texts, in lower case, that stand for a missing value beside `MISSING`.
      point: the decimal point; None to find it out.
      form: how the column is written, which has a point of its own; None to find it out.
    """
    if form is not None:
        point = form.point or "."
    compute, column = arrow().compute, cells.columns[place]
    trim = compute.utf8_trim_whitespace(column)
    known = arrow().array(sorted(MISSING.union(also_missing)))
    missing = compute.is_in(compute.utf8_lower(trim), value_set=known)
    present = compute.if_else(missing, None, trim)
    values = _cast(present) if point != "," else None
    if values is not None:
        lost = tell_lost_digits(values, _integers_of(present))
        return Inferred(values, lost, Form("numbers", _point_seen(present)))
    values = _cast_commas(present, sure=point == ",") if point != "." else None
    if values is not None:
        commas = compute.match_substring(present.fill_null(""), ",").to_numpy()
        row, note = int(np.argmax(commas)), ""
        if commas[row] and not point:
            note = say_how(present[row].as_py(), values[row], COMMA)
        return Inferred(values, note, Form("numbers", ","))
    moments = _cast_dates(present) if form is None or form.order != "zone" else None
    if moments is not None:
        return Inferred(moments, form=Form("dates", order="iso"))

    def where(row: int) -> str:
        return f"in line {cells.line(row)}"

    found = _cast_but_few(present, where) if point != "," else None
    if found is not None:
        return found
    texts = np.asarray(present.fill_null("").to_numpy(), object)
    return infer(texts, point=point, form=form, where=where)


def _point_seen(present: Any) -> str:
    """Return the decimal point of numbers that are plain, nothing if none of them shows it."""
    compute = arrow().compute
    return "." if compute.any(compute.match_substring(present, ".")).as_py() else ""


def _cast(present: Any) -> NDArray[np.float64] | None:
    """Return texts as numbers if all are, None if not."""
    try:
        numbers = arrow().compute.cast(present, arrow().float64())
    except arrow().ArrowInvalid:
        return None
    return np.asarray(numbers.to_numpy(), np.float64)


def _cast_but_few(present: Any, where: Callable[[int], str]) -> Inferred | None:
    """Return numbers as `infer` does, of texts nearly all plain; None for any others."""
    plain = arrow().compute.match_substring_regex(present, _PLAIN)
    odd = np.flatnonzero(~plain.fill_null(True).to_numpy())
    count = len(present) - present.null_count
    texts = present.take(arrow().array(odd)).to_pylist()
    if len(odd) > (1 - NEARLY_ALL) * count or any("," in text for text in texts):
        return None
    values = _cast(arrow().compute.if_else(plain, present, None))
    if values is None:
        return None
    values = values.copy()
    shown, missing = [], []
    for row, text in zip(odd.tolist(), texts, strict=True):
        value = as_number(text)
        if value is None:
            missing.append((row, text))
            continue
        values[row] = value
        shown += [] if is_number(text) else [say_how(text, value)]
    notes = shown[:1]
    if missing:
        row, text = missing[0]
        notes.append(say_odd(count - len(missing), count, "numbers", text, where(row)))
    lost = tell_lost_digits(values, _integers_of(present))
    notes += [lost] if lost else []
    return Inferred(values, "; ".join(notes), Form("numbers", _point_seen(present)))


def _integers_of(present: Any) -> Callable[[NDArray[np.intp]], list[int | None]]:
    """Return what gives the integers of rows."""

    def integers(rows: NDArray[np.intp]) -> list[int | None]:
        return [as_integer(text) for text in present.take(arrow().array(rows)).to_pylist()]

    return integers


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
    thousands = r"^[-+]?[1-9][0-9]{0,2},[0-9]{3}$|^[^,]*$"
    if not sure and compute.all(compute.match_substring_regex(present, thousands)).as_py():
        return None
    return _cast(compute.replace_substring(present, ",", "."))
