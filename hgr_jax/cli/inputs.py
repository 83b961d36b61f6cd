"""Refuse columns of numbers that a command cannot compute with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hgr_jax._arrays import size_fault
from hgr_jax.tables.columns import Frame
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.levels import differ_by_rounding, rounding_reason


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
