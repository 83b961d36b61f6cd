"""Two variables and those that they are given, as columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hgr_jax._arrays import Floats
from hgr_jax._checks import as_host_column
from hgr_jax.tables.arrays import read_variable
from hgr_jax.tables.levels import Category, Unusable, as_codes, pool_rare_levels


def read_given(a: Any, b: Any, given: Any) -> tuple[list[Floats], frozenset[int]]:
    """Read two variables ``(n,)``, and given ones: ``(n,)``, ``(n, p)`` or a frame.

    Returns:
      Columns ``(n,)`` of a, b and each given variable, numbers or codes, NaN where missing; and the
      places of those that are codes.

    Raises:
      TypeError, ValueError: for shapes and dtypes other than the above.
    """
    rows = len(np.asarray(a))
    others = [("given", column) for column in _given_columns(given, rows)]
    named = [("a", a), ("b", b), *others]
    read = [read_variable(name, x) for name, x in named]
    values = [_with_pooled_levels(name, x) for (name, _), x in zip(named, read, strict=True)]
    columns: list[Floats] = [
        as_host_column(name, as_codes(x), rows if name == "given" else None)
        for (name, _), x in zip(named, values, strict=True)
    ]
    if len(columns[0]) != len(columns[1]):
        raise ValueError(
            f"a and b must have the same number of rows; got {len(columns[0])}, {len(columns[1])}."
        )
    levels = frozenset(i for i, x in enumerate(values) if isinstance(x, Category))
    return columns, levels


def read_column(name: str, value: Any) -> tuple[Floats, bool]:
    """Read a variable ``(n,)``, NaN where missing: numbers, or codes of levels (True)."""
    column = read_variable(name, value)
    if not isinstance(column, Category):
        return as_host_column(name, column, None), False
    return np.asarray(as_codes(_with_pooled_levels(name, column))), True


def _with_pooled_levels(name: str, value: Any) -> Any:
    """Pool rare levels of a category, as `hgr_jax.scan` does."""
    if not isinstance(value, Category):
        return value
    pooled, _ = pool_rare_levels(value)
    if isinstance(pooled, Unusable):
        raise ValueError(f"{name} cannot be used: {pooled.reason}.")
    return pooled


def _given_columns(given: Any, rows: int) -> list[Any]:
    """Return the given variables one by one."""
    if hasattr(given, "columns") or isinstance(given, Mapping):
        names = [*(given if isinstance(given, Mapping) else given.columns)]
        if len({*names}) < len(names):
            raise ValueError(f"given has several columns of one name: {names}.")
        return [given[name] for name in names]
    array = given if hasattr(given, "ndim") else np.asarray(given)
    if array.ndim == 2:
        return [*array.T] if array.shape[0] == rows else [array]  # which is refused with its shape
    return [given]
