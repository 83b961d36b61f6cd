"""HSIC, the Hilbert-Schmidt independence criterion with Gaussian kernels."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import DTypeLike
from numpy.typing import ArrayLike

from hgr_jax._checks import as_pair, as_positive, check_flag, one_or_pair
from hgr_jax.core.numerics import fill_padding, row_mask, safe_divide
from hgr_jax.core.rows import over_rows
from hgr_jax.measures._pair_sums import (
    centred_products,
    correlation_of,
    distances,
    squared_distances,
)

MEDIAN_ROWS = 1024
"""Largest number of rows whose distances give the median."""


def hsic(
    a: ArrayLike,
    b: ArrayLike,
    *,
    bandwidth: ArrayLike | None = None,
    unbiased: bool = False,
    normalized: bool = True,
) -> Array:
    """Return the Hilbert-Schmidt independence criterion of ``a`` and ``b``, with Gaussian kernels.

        HSIC(a, b) = 1 / n^2  tr(K H L H),    K_ij = exp(-|a_i - a_j|^2 / (2 s_a^2)),  L of b

    with H the centring matrix, and, normalised, HSIC(a, b) / sqrt(HSIC(a, a) HSIC(b, b)).  In
    the population it is 0 if and only if a and b are independent.

    Args:
      a, b: real arrays ``(n,)``, or ``(n, p)`` for several variables at once, traced; their p
        may differ.
      bandwidth: s, in the units of the data: a positive number for both, or a pair for
        ``(a, b)``, traced.  None, alone or in a pair, is the median heuristic: the median
        distance between different rows, or 1 if that is 0.  Beyond 1024 rows it is the median
        distance of 1024 of them: of evenly spaced order statistics for ``(n,)``, whatever the
        order of the rows, and of evenly spaced rows for ``(n, p)``.
      unbiased: static. The sum over pairs of different rows whose mean is the HSIC of the
        population, by U-centred kernels; it needs n >= 4.  (The ratio of unbiased
        estimates is not quite unbiased.)
      normalized: static. False gives HSIC(a, b) itself.

    Returns:
      A scalar of the floating dtype of ``a`` and ``b``: in [0, 1] as it is by default, in
      [-1, 1] unbiased and normalised.

    Raises:
      TypeError, ValueError: for shapes, dtypes or arguments other than the above.  A traced
        bandwidth that is not positive gives NaN instead.

    Derivatives: exact, in both modes, with respect to ``a``, ``b`` and the bandwidth, that of
    the median heuristic included.  (Where several pairs are at the median distance, each is
    counted alike.)

    Degenerate data: a constant ``a`` or ``b`` gives 0, with zero derivatives; NaN or infinity
    gives NaN.  Between independent variables the biased form is not 0 but, normalised, of order
    1 / n, and near 1 for a bandwidth so small that every row stands alone.

    Cost: O(n^2 p) time and O(n p) memory: the kernels are made in blocks of rows.

    Source: Gretton, Bousquet, Smola & Schölkopf, "Measuring statistical dependence with
    Hilbert-Schmidt norms" (2005); Song, Smola, Gretton, Bedo & Borgwardt, "Feature selection
    via dependence maximization" (2012), for the unbiased form; Cortes, Mohri & Rostamizadeh,
    "Algorithms for learning kernels based on centered alignment" (2012), for the normalised one.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 101)
      >>> print(f"{hgr_jax.hsic(a, a**2):.3f} {hgr_jax.hsic(a, a**2, bandwidth=(0.1, None)):.3f}")
      0.324 0.511
      >>> print(f"{hgr_jax.hsic(a, -a, unbiased=True):.3f}")
      1.000
    """
    a, b = as_pair(a, b)
    unbiased = check_flag("unbiased", unbiased)
    if unbiased and a.shape[0] < 4:
        raise ValueError(f"unbiased needs at least 4 rows; a and b have {a.shape[0]}.")
    return _hsic(
        a,
        b,
        one_or_pair("bandwidth", bandwidth, _as_bandwidth, a.dtype),
        unbiased=unbiased,
        normalized=check_flag("normalized", normalized),
    )


def _as_bandwidth(name: str, value: Any, dtype: DTypeLike) -> Array | None:
    """Return a bandwidth; None for the median heuristic."""
    return None if value is None else as_positive(name, value, dtype)


@over_rows(columns=2, static=("unbiased", "normalized"))
def _hsic(
    a: Array,
    b: Array,
    bandwidths: tuple[Array | None, Array | None],
    *,
    unbiased: bool,
    normalized: bool,
    count: Array | None,
) -> Array:
    a, b = (_scaled(x, s, count) for x, s in zip((a, b), bandwidths, strict=True))
    products = centred_products(_gaussian, unbiased, a, b, count)
    value = correlation_of(products) if normalized else products[0]
    # The biased form is less than zero by rounding only.
    return value if unbiased else jnp.where(value < 0, 0, value)


def _gaussian(rows: Array, others: Array) -> Array:
    """Return the Gaussian kernel minus 1: centring makes it the same, with more digits near 1."""
    return jnp.expm1(-0.5 * squared_distances(rows, others))


def _scaled(x: Array, bandwidth: Array | None, count: Array | None) -> Array:
    """Return ``x`` in units of its bandwidth; NaN where it is infinite."""
    x = jnp.where(jnp.isfinite(x), x, jnp.nan)
    if bandwidth is not None:
        return _divided(x, jnp.where(bandwidth > 0, bandwidth, jnp.nan))
    reach = lax.stop_gradient(jnp.max(jnp.abs(x - x[:1])))
    framed = safe_divide(x, reach)
    median = _median_distance(*_sample(framed, count))
    typical = median != 0
    return jnp.where(typical, _divided(framed, jnp.where(typical, median, 1)), x)


def _divided(x: Array, unit: Array) -> Array:
    """Return ``x / unit``, with a derivative in which the square of ``unit`` cannot underflow."""
    constant = lax.stop_gradient(unit)
    return x / constant / (unit / constant)


def _sample(x: Array, count: Array | None) -> tuple[Array, Array | None]:
    """Choose at most `MEDIAN_ROWS` rows: evenly spaced order statistics, or evenly spaced rows.

    Second, how many of these are data; None if all are.
    """
    if x.shape[0] <= MEDIAN_ROWS:
        return x, count
    steps = MEDIAN_ROWS - 1
    whole, part = jnp.divmod(jnp.int32(x.shape[0] if count is None else count) - 1, steps)
    index = lax.iota(jnp.int32, MEDIAN_ROWS)
    index = index * whole + (2 * index * part + steps) // (2 * steps)  # index * rows would overflow
    return (jnp.sort(fill_padding(x, count, jnp.inf)) if x.ndim == 1 else x)[index], None


def _median_distance(x: Array, count: Array | None) -> Array:
    """Return the median of the distances between different rows; NaN where x holds NaN."""
    rows = x.shape[0] if count is None else count
    matrix = distances(x, x)
    mask = row_mask(count, x.shape[0])
    if mask is not None:
        matrix = jnp.where(mask[:, None] & mask[None, :], matrix, jnp.inf)
    # The matrix holds each distance twice, and a zero for each row with itself.
    middle = rows + rows * (rows - 1) // 2
    constant = lax.stop_gradient(matrix)
    low = _smallest(constant, middle)
    beyond = jnp.min(jnp.where(constant > low, constant, jnp.inf))
    high = jnp.where(jnp.sum(constant <= low, dtype=jnp.int32) > middle, low, beyond)

    def mean_at(value: Array) -> Array:
        there = constant == value
        total = jnp.sum(jnp.where(there, matrix, 0))
        return total / jnp.sum(there, dtype=jnp.int32).astype(x.dtype)

    return jnp.where(rows == 1, 0, (mean_at(low) + mean_at(high)) / 2)


def _smallest(x: Array, count: Array | int) -> Array:
    """Find the ``count``-th smallest of entries ``(m, n)`` that are not negative: bit by bit.

    The order of such floats is that of their bits, read as integers.
    """
    size = x.dtype.itemsize * 8
    unsigned = jnp.dtype(f"uint{size}")
    bits = lax.bitcast_convert_type(x, unsigned)
    ones = jnp.ones(x.shape[1], x.dtype)

    def add(i: Array, found: Array) -> Array:
        trial = found | (jnp.ones((), unsigned) << (size - 2 - i).astype(unsigned))
        below = jnp.where(bits < trial, ones[0], 0) @ ones  # a product is faster than a sum
        enough = jnp.sum(below.astype(jnp.int32), dtype=jnp.int32) >= count
        return jnp.where(enough, found, trial)

    found = lax.fori_loop(0, size - 1, add, jnp.zeros((), unsigned))
    return lax.bitcast_convert_type(found, x.dtype)
