"""Two variables and those that they are given, as columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hgr_jax._arrays import Floats
from hgr_jax._checks import as_host_column, check_same_rows
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
    pair, of_pair = read_pair(a, b)
    rows = len(pair[0])
    others = [read_column("given", column, rows) for column in _given_columns(given, rows)]
    is_level = [*of_pair, *(of for _, of in others)]
    return [*pair, *(x for x, _ in others)], frozenset(np.flatnonzero(is_level).tolist())


def read_pair(a: Any, b: Any) -> tuple[tuple[Floats, Floats], tuple[bool, bool]]:
    """Read two variables ``(n,)``: numbers, or codes of levels (which of them); NaN is missing.

    In float64, as distinct numbers may be equal in float32.
    """
    (x, of_x), (y, of_y) = read_column("a", a), read_column("b", b)
    check_same_rows(x, y)
    return (x, y), (of_x, of_y)


def read_column(name: str, value: Any, rows: int | None = None) -> tuple[Floats, bool]:
    """Read a variable ``(n,)``, NaN where missing: numbers, or codes of levels (True)."""
    if getattr(getattr(value, "dtype", None), "kind", "O") not in "biuf":
        value = _with_pooled_levels(name, read_variable(name, value))
    return as_host_column(name, as_codes(value), rows), isinstance(value, Category)


def _with_pooled_levels(name: str, value: Any) -> Any:
    """Pool rare levels of a category, as `hgr_jax.scan` does; a constant one stays."""
    if not isinstance(value, Category) or len(value.levels) == 1:
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
