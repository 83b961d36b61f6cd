"""Distance correlation and HSIC: sums over all pairs of rows.

Both are inner products of two centred n x n matrices, one of each variable.  Blocks of rows of the
matrices are computed whenever they are needed, so that no n x n array is in memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import DTypeLike
from numpy.typing import ArrayLike

from hgr_jax._checks import check_flag, one_or_pair
from hgr_jax.core.arrays import as_host_pair, as_pair, as_positive, scalar_of
from hgr_jax.core.host.correlations import distance_correlation_of
from hgr_jax.core.numerics import (
    extremes,
    fill_padding,
    reciprocal_power,
    row_mean,
    safe_divide,
    safe_sqrt,
)
from hgr_jax.core.rows import over_rows

MEDIAN_ROWS = 256
"""Largest number of rows whose distances give the median."""

BLOCK_ENTRIES = 2**18
"""Number of entries in a block of rows of a matrix of all pairs."""

Entries = Callable[[Array, Array], Array]
"""A function that maps one row, ``()`` or ``(p,)``, and all rows to ``(n,)``, 0 for equal rows."""


def distance_correlation(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the distance correlation, from the Euclidean distances between rows.

        dCor(a, b) = sqrt( dCov^2(a, b) / sqrt(dCov^2(a, a) dCov^2(b, b)) )
        dCov^2(a, b) = 1 / n^2  sum_ij A_ij B_ij

    with A and B the matrices of distances |a_i - a_j| and |b_i - b_j|, centred: less their row
    and column means, plus their mean.  In the population, where both have a mean, it is 0 if and
    only if a and b are independent, and 1 for an affine map that keeps angles; on any data it does
    not change when a or b is shifted, scaled, rotated or reflected, or the rows permuted.

    Args:
      a, b: real arrays ``(n,)``, or ``(n, p)`` for several variables at once, traced; their p
        may differ.

    Returns:
      A scalar in [0, 1], of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for other shapes or dtypes.

    Derivatives: exact, in both modes and of every order, where the value is not 0.  The
    derivative of a distance between equal rows is taken as 0.

    Degenerate data: a constant ``a`` or ``b`` gives 0, with zero derivatives; NaN or infinity
    gives NaN.  Between independent variables it is of order 1 / sqrt(n), and for few rows of many
    variables it is near 1, whatever they are.

    Cost: of concrete ``(n,)`` arrays on the CPU O(n log n), by NumPy and in float64, unless one row
    is so far from the others that its sums cancel.  Then, and of other arrays, O(n^2 p) time and
    O(n p) memory: sums over all pairs of rows, in blocks; of float32 data that are traced they are
    in float32, with errors of some 1e-7.

    Source: Székely, Rizzo & Bakirov, "Measuring and testing dependence by correlation of
    distances" (2007); Huo & Székely, "Fast computing for distance covariance" (2016), for a sum
    over pairs in O(n log n).

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 101)
      >>> print(f"{hgr_jax.distance_correlation(a, 3 - 2 * a):.4f}")
      1.0000
      >>> print(f"{hgr_jax.distance_correlation(a, a**2):.4f}")
      0.4915
    """
    if np.ndim(a) == np.ndim(b) == 1:
        host = as_host_pair(a, b)
        if host is not None:  # NumPy sorts in less time than XLA
            value = distance_correlation_of(*host)
            if value is None:  # all pairs, whose sums do not cancel
                with jax.enable_x64(True):
                    both = (jnp.asarray(x, jnp.float64) for x in host)
                    value = float(_distance_correlation(*both))
            return scalar_of(value, host[0].dtype)
    return _distance_correlation(*as_pair(a, b))


@over_rows(columns=2)
def _distance_correlation(a: Array, b: Array, *, count: Array | None) -> Array:
    a, b = (_scaled(x.reshape(-1) if x.size == x.shape[0] else x) for x in (a, b))
    return safe_sqrt(ratio_of_products(centred_products(distances, a, b, count)))


def hsic(
    a: ArrayLike,
    b: ArrayLike,
    *,
    bandwidth: ArrayLike | None = None,
    normalized: bool = True,
) -> Array:
    """Return the Hilbert-Schmidt independence criterion of ``a`` and ``b``, with Gaussian kernels.

        HSIC(a, b) = 1 / n^2  tr(K H L H),    K_ij = exp(-|a_i - a_j|^2 / (2 s_a^2)),  L of b

    with H the centring matrix, and, normalised, HSIC(a, b) / sqrt(HSIC(a, a) HSIC(b, b)).  In
    the population it is 0 if and only if a and b are independent, as for every characteristic
    kernel.

    Args:
      a, b: real arrays ``(n,)``, or ``(n, p)`` for several variables at once, traced; their p
        may differ.
      bandwidth: s, in the units of the data: a positive number for both, or a pair for
        ``(a, b)``, traced.  None, alone or in a pair, is the median heuristic: the median
        distance between different rows, or 1 if that is 0; beyond 256 rows that of 256 evenly
        spaced order statistics for ``(n,)``, and of evenly spaced rows for ``(n, p)``.
      normalized: static. False gives HSIC(a, b) itself.

    Returns:
      A scalar in [0, 1], of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for shapes, dtypes or arguments other than the above.  A traced
        bandwidth that is not positive gives NaN instead.

    Derivatives: exact, in both modes, with respect to ``a``, ``b`` and the bandwidth, that of
    the median heuristic included.

    Degenerate data: a constant ``a`` or ``b`` gives 0, with zero derivatives; NaN or infinity
    gives NaN.  Between independent variables it is, normalised, of order 1 / n, and near 1 for a
    bandwidth so small that every row stands alone.

    Cost: O(n^2 p) time and O(n p) memory.

    Source: Gretton, Bousquet, Smola & Schölkopf, "Measuring statistical dependence with
    Hilbert-Schmidt norms" (2005); Cortes, Mohri & Rostamizadeh, "Algorithms for learning kernels
    based on centered alignment" (2012), for the normalised form.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 101)
      >>> print(f"{hgr_jax.hsic(a, a**2):.3f} {hgr_jax.hsic(a, a**2, bandwidth=(0.1, None)):.3f}")
      0.324 0.511
    """
    a, b = as_pair(a, b)
    widths = one_or_pair("bandwidth", bandwidth, _as_bandwidth, a.dtype)
    return _hsic(a, b, widths, normalized=check_flag("normalized", normalized))


def _as_bandwidth(name: str, value: Any, dtype: DTypeLike) -> Array | None:
    """Return a bandwidth; None for the median heuristic."""
    return None if value is None else as_positive(name, value, dtype)


@over_rows(columns=2, static=("normalized",))
def _hsic(
    a: Array,
    b: Array,
    bandwidths: tuple[Array | None, Array | None],
    *,
    normalized: bool,
    count: Array | None,
) -> Array:
    a, b = (_in_units_of_bandwidth(x, s, count) for x, s in zip((a, b), bandwidths, strict=True))
    products = centred_products(_gaussian, a, b, count)
    value = ratio_of_products(products) if normalized else products[0]
    return jnp.where(value < 0, 0, value)  # by rounding only


def _gaussian(row: Array, rows: Array) -> Array:
    """Return the Gaussian kernel minus 1, the same once centred, with more digits near 1."""
    return jnp.expm1(-0.5 * _squared_distances(row, rows))


def _in_units_of_bandwidth(x: Array, bandwidth: Array | None, count: Array | None) -> Array:
    """Return ``x`` over its bandwidth, None for the median heuristic; infinity becomes NaN."""
    x = jnp.where(jnp.isfinite(x), x, jnp.nan)
    if bandwidth is not None:
        return _divide(x, jnp.where(bandwidth > 0, bandwidth, jnp.nan))
    scaled = _scaled(x)
    median = _median_distance(*_sample_for_median(scaled, count))
    typical = median != 0
    return jnp.where(typical, _divide(scaled, jnp.where(typical, median, 1)), x)


def _divide(x: Array, unit: Array) -> Array:
    """Return ``x / unit``; in its derivative the square of ``unit`` does not underflow."""
    constant = lax.stop_gradient(unit)
    return x / constant / (unit / constant)


def _scaled(x: Array) -> Array:
    """Return ``x`` with a range of 1/2 to 1 (0 of a constant), by a power of two that is fixed."""
    low, high = extremes(x / 2)  # so that the range of any data is a finite number
    reach = jnp.max(high - low)
    return x / 2 * jnp.where(reach > 0, reciprocal_power(reach), 1)


def _sample_for_median(x: Array, count: Array | None) -> tuple[Array, Array | None]:
    """Return evenly spaced order statistics (or rows), and how many are data (None for all)."""
    if x.shape[0] <= MEDIAN_ROWS:
        return x, count
    steps = MEDIAN_ROWS - 1
    whole, part = jnp.divmod(jnp.int32(x.shape[0] if count is None else count) - 1, steps)
    index = lax.iota(jnp.int32, MEDIAN_ROWS)
    index = index * whole + (2 * index * part + steps) // (2 * steps)  # index * rows would overflow
    return (jnp.sort(fill_padding(x, count, jnp.inf)) if x.ndim == 1 else x)[index], None


def _median_distance(x: Array, count: Array | None) -> Array:
    """Return the median of the distances between different rows; 0 of a single row."""
    one, other = np.triu_indices(x.shape[0], 1)
    if not one.size:
        return jnp.zeros((), x.dtype)
    apart = jax.vmap(distances, (0, None))(x, x)[one, other]
    rows = x.shape[0] if count is None else count
    if count is not None:
        apart = jnp.where(other.astype(np.int32) < count, apart, jnp.inf)
    pairs = rows * (rows - 1) // 2
    apart = jnp.sort(apart)
    return jnp.where(pairs > 0, (apart[(pairs - 1) // 2] + apart[pairs // 2]) / 2, 0)


def distances(row: Array, rows: Array) -> Array:
    """Return Euclidean distances ``(n,)``; their derivative is 0 where two rows are equal."""
    if rows.ndim == 1:
        return jnp.abs(rows - row)
    return safe_sqrt(_squared_distances(row, rows))


def _squared_distances(row: Array, rows: Array) -> Array:
    """Return squared distances ``(n,)``, from differences: close rows keep their digits."""
    if rows.ndim == 1:
        return jnp.square(rows - row)
    return jnp.sum(jnp.square(rows.T - row[:, None]), axis=0)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def centred_products(entries: Entries, a: Array, b: Array, count: Array | None = None) -> Array:
    """Return mean products of the centred matrices A of ``a`` and B of ``b``: of A B, A A and B B.

        A_ij = K_ij - mean_j K_ij - mean_i K_ij + mean_ij K_ij,  the mean over n^2 pairs

    with K by ``entries``.  Not differentiable with ``count``.
    """
    return _products(entries, a, b, _centres(entries, a, count), _centres(entries, b, count), count)


@centred_products.defjvp
def _centred_products_jvp(
    entries: Entries, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Array, Array]:
    """Differentiate with the means as constants, which is exact: centring is a projection."""
    center_a, center_b = (_centres(entries, x, None) for x in primals[:2])

    def products(a: Array, b: Array) -> Array:
        return _products(entries, a, b, center_a, center_b, None)

    return jax.jvp(products, primals[:2], tangents[:2])


def _centres(entries: Entries, x: Array, count: Array | None) -> Array:
    """Return c ``(n,)`` with ``A_ij = K_ij - c_i - c_j``: means of rows less half of their mean."""
    means = _map_rows(lambda row: row_mean(entries(row, x), count), (x,), x.size)
    return means - row_mean(means, count) / 2


def _products(
    entries: Entries, a: Array, b: Array, center_a: Array, center_b: Array, count: Array | None
) -> Array:
    def of_row(row_a: Array, row_b: Array, own_a: Array, own_b: Array) -> Array:
        left = entries(row_a, a) - own_a - center_a
        right = entries(row_b, b) - own_b - center_b
        products = (left * right, left * left, right * right)
        return jnp.stack([row_mean(product, count) for product in products])

    return row_mean(_map_rows(of_row, (a, b, center_a, center_b), a.size + b.size), count)


def _map_rows(of_row: Callable[..., Array], columns: tuple[Array, ...], width: int) -> Array:
    """Return ``of_row`` of each row, by blocks of rows, of ``width`` intermediate values each."""
    rows = len(columns[0])
    blocks = -(-rows // max(1, BLOCK_ENTRIES // width))
    compute = jax.checkpoint(lambda parts: of_row(*parts), prevent_cse=False)
    return lax.map(compute, columns, batch_size=-(-rows // blocks))


def ratio_of_products(products: Array) -> Array:
    """Return ``ab / sqrt(aa bb)`` of `centred_products`, in [-1, 1]; 0 where aa or bb is 0."""
    ratio = safe_divide(products[0], safe_sqrt(products[1]) * safe_sqrt(products[2]))
    # Beyond 1 by rounding only; a clip would make the derivative there zero or a half.
    return ratio / jnp.maximum(lax.stop_gradient(jnp.abs(ratio)), 1)
