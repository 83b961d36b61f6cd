"""Select the rows, and check the columns, that a command trains on or measures."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from hgr_jax._arrays import size_fault
from hgr_jax._texts import first_names, shortened
from hgr_jax.tables.columns import Frame
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.levels import differ_by_rounding, rounding_reason
from hgr_jax.tables.texts import MISSING_LEVEL

MIN_COMPLETE_ROWS = 20


def check_numbers(frame: Frame, names: Sequence[str], *, needed: Sequence[str]) -> None:
    """Raise a `TableError` for numbers whose squares overflow or vanish.

    In ``needed`` columns, also for numbers that vary, but by rounding only.
    """
    for name in names:
        column = frame.column(name)
        if frame.is_text(name):
            continue
        values = column[np.isfinite(column)]
        if fault := size_fault(values):
            fault += "; change its unit, or name by --na what stands for a missing value"
        elif name in needed and len(set(values)) > 1 and differ_by_rounding(values):
            fault = rounding_reason(values)
        if fault:
            raise TableError(f"{frame.source}: column {name!r} cannot be used: {fault}")


def with_missing_level(frame: Frame, needed: Sequence[str]) -> Frame:
    """Return the table with a text in place of missing texts, but in the ``needed`` columns."""
    columns = {
        name: np.where(column == "", MISSING_LEVEL, column)
        if frame.is_text(name) and name not in needed
        else column
        for name, column in frame.columns.items()
    }
    return dataclasses.replace(frame, columns=columns)


def usable_rows(frame: Frame, needed: Sequence[str]) -> Frame:
    """Select the rows without a missing value; a `TableError` if they are too few.

    A column without any value is an error; the message advises to drop it unless it is ``needed``.
    """
    missing = {name: frame.missing(name) for name in frame.columns}
    for name, rows in missing.items():
        if rows.all():
            raise TableError(
                f"{frame.source}: every value of column {name!r} is missing"
                + ("" if name in needed else f"; leave it out with --drop {name!r}")
            )
    kept = ~np.any(list(missing.values()), axis=0)
    if kept.sum() < MIN_COMPLETE_ROWS:
        most = max(missing, key=lambda name: int(missing[name].sum()))
        hint = ""
        if missing[most].any():
            hint = f"; {most!r} misses most, {missing[most].sum()} of {frame.rows}"
        raise TableError(
            f"{frame.source} has {kept.sum()} row(s) without a missing value, at least"
            f" {MIN_COMPLETE_ROWS} are needed{hint}"
        )
    return frame.take(kept)


def rows_left_out(frame: Frame, usable: Frame) -> str:
    """Say how many rows are left out for a missing value, and in which columns; or nothing."""
    if usable.rows == frame.rows:
        return ""
    counts = {name: int(frame.missing(name).sum()) for name in frame.columns}
    most = sorted((name for name in counts if counts[name]), key=lambda name: -counts[name])
    columns = [f"{shortened(printable(name), 28, '...')} ({counts[name]:,})" for name in most]
    return (
        f"; {frame.rows - usable.rows:,} of {frame.rows:,} have a missing or infinite value and are"
        f" left out: in {first_names(columns, 40)}"
    )


def as_data_frame(frame: Frame) -> Any:
    """Return a data frame of pandas: texts are categories, as they were read, infinity missing."""
    columns = {
        name: np.where(np.isfinite(column), column, np.nan) if column.dtype.kind == "f" else column
        for name, column in frame.columns.items()
    }
    texts = [name for name in columns if frame.is_text(name)]
    table = dataclasses.replace(frame, columns=columns).to_frame()
    return table.astype(dict.fromkeys(texts, "category"))


def shown(value: Any) -> str:
    """Return a value as messages show it."""
    return repr(value) if isinstance(value, str) else f"{value:g}"
