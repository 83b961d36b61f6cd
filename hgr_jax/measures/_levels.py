"""HGR where a variable is a category: on the host, as scans estimate it."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from hgr_jax._arrays import is_traced, scalar_of
from hgr_jax._checks import as_host_weights, as_real_array
from hgr_jax.core.host.estimates import HGREstimate
from hgr_jax.core.host.ranks import effective_row_count
from hgr_jax.core.ranks import LEAST_ROWS
from hgr_jax.tables.levels import Category, pool_rare_levels


def hgr_with_levels(a: Any, b: Any, weights: ArrayLike | None) -> Array:
    """Estimate HGR of two variables, numbers ``(n,)`` or a `Category`."""
    if is_traced(a, b, weights):
        raise TypeError("a category is for the host: a, b and weights must not be traced.")
    is_number = not isinstance(a, Category), not isinstance(b, Category)
    a, b = (
        as_real_array(name, x, max_ndim=1) if number else x
        for name, x, number in zip("ab", (a, b), is_number, strict=True)
    )
    dtype = next((x.dtype for x in (a, b) if isinstance(x, Array)), jnp.result_type(float))
    rows, others = (len(x.codes if isinstance(x, Category) else x) for x in (a, b))
    if rows != others:
        raise ValueError(f"a and b must have the same number of rows; got {rows} and {others}.")
    w = as_host_weights(weights, rows)
    w = np.ones(rows) if w is None else w
    (x, of_a), (y, of_b) = (_values_and_levels(n, c, w > 0) for n, c in (("a", a), ("b", b)))
    if x is None or y is None or effective_row_count(rows, w) < LEAST_ROWS:
        return scalar_of(np.nan, dtype)
    return scalar_of(HGREstimate.of((x, y), (of_a, of_b), w[w > 0]).value, dtype)


def _values_and_levels(
    name: str, x: Array | Category, kept: NDArray[np.bool_]
) -> tuple[NDArray[Any] | None, int | None]:
    """Return the values of the rows that are kept, or codes and their number of levels.

    The former are None for values that are not finite, and for levels most of which are rare.
    """
    if not isinstance(x, Category):
        values = np.asarray(x, np.float64)[kept]
        return (values if np.isfinite(values).all() else None), None
    codes = x.codes[kept]
    missing = int((codes < 0).sum())
    if missing:
        raise ValueError(
            f"{name} is a category that misses a level in {missing} row(s): leave these out, or"
            " use hgr_jax.scan, which takes the rows where both columns are present."
        )
    if (codes == codes[0]).all():
        return np.zeros(len(codes), np.intp), 1
    pooled, _ = pool_rare_levels(Category(codes, x.levels))
    if not isinstance(pooled, Category):
        return None, None
    return pooled.codes, len(pooled.levels)
