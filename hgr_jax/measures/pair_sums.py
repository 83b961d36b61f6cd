"""Distance correlation and HSIC: sums over all pairs of rows.

Both are inner products of two centred n x n matrices, one of each variable.  Blocks of rows of the
matrices are computed whenever they are needed, so that no n x n array is in memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
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
    row_count,
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
"""A function that maps rows ``(m,)`` or ``(m, p)`` and all rows to ``(m, n)``, 0 for equal rows."""


def distance_correlation(a: ArrayLike, b: ArrayLike, *, unbiased: bool = False) -> Array:
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
      unbiased: static. True takes the unbiased estimates of dCov^2, by U-centred distances,
        which scatter around 0 for independent variables: the value is the root of the ratio R*
        with its sign, sign(R*) sqrt(|R*|).  It needs n >= 4.

    Returns:
      A scalar of the floating dtype of ``a`` and ``b``, in [0, 1], or in [-1, 1] if unbiased.

    Raises:
      TypeError, ValueError: for shapes, dtypes or static arguments other than the above.

    Derivatives: exact, in both modes and of every order, where the value is not 0.  The
    derivative of a distance between equal rows is taken as 0.

    Degenerate data: a constant ``a`` or ``b`` gives 0, with zero derivatives; NaN or infinity
    gives NaN.  Between independent variables the biased form is of order 1 / sqrt(n), and for few
    rows of many variables it is near 1, whatever they are.

    Cost: of concrete ``(n,)`` arrays on the CPU O(n log n), by NumPy and in float64, unless one row
    is so far from the others that its sums cancel.  Then, and of other arrays, O(n^2 p) time and
    O(n p) memory: sums over all pairs of rows, in blocks; of float32 data that are traced they are
    in float32, with errors of some 1e-7.

    Source: Székely, Rizzo & Bakirov, "Measuring and testing dependence by correlation of
    distances" (2007); Székely & Rizzo, "Partial distance correlation with methods for
    dissimilarities" (2014), for the unbiased form; Huo & Székely, "Fast computing for distance
    covariance" (2016), for a sum over pairs in O(n log n).

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
            _check_enough_rows(host[0], unbiased)
            value = distance_correlation_of(*host, unbiased=bool(unbiased))
            if value is None:  # all pairs, whose sums do not cancel
                with jax.enable_x64(True):
                    both = (jnp.asarray(x, jnp.float64) for x in host)
                    value = float(_distance_correlation(*both, unbiased=bool(unbiased)))
            return scalar_of(value, host[0].dtype)
    a, b = _as_enough_rows(a, b, unbiased)
    return _distance_correlation(a, b, unbiased=bool(unbiased))


@over_rows(columns=2, static=("unbiased",))
def _distance_correlation(a: Array, b: Array, *, unbiased: bool, count: Array | None) -> Array:
    a, b = (shift_and_scale(x.reshape(-1) if x.size == x.shape[0] else x) for x in (a, b))
    squared = ratio_of_products(centred_products(distances, unbiased, a, b, count))
    return jnp.sign(squared) * safe_sqrt(jnp.abs(squared)) if unbiased else safe_sqrt(squared)


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
    the population it is 0 if and only if a and b are independent, as for every characteristic
    kernel.

    Args:
      a, b: real arrays ``(n,)``, or ``(n, p)`` for several variables at once, traced; their p
        may differ.
      bandwidth: s, in the units of the data: a positive number for both, or a pair for
        ``(a, b)``, traced.  None, alone or in a pair, is the median heuristic: the median
        distance between different rows, or 1 if that is 0; beyond 256 rows that of 256 evenly
        spaced order statistics for ``(n,)``, and of evenly spaced rows for ``(n, p)``.
      unbiased: static. True takes U-centred kernels, whose sum over pairs of different rows has
        the HSIC of the population as its mean; it needs n >= 4.  (Their ratio is not quite
        unbiased.)
      normalized: static. False gives HSIC(a, b) itself.

    Returns:
      A scalar of the floating dtype of ``a`` and ``b``: in [0, 1] as it is by default, in
      [-1, 1] unbiased and normalised.

    Raises:
      TypeError, ValueError: for shapes, dtypes or arguments other than the above.  A traced
        bandwidth that is not positive gives NaN instead.

    Derivatives: exact, in both modes, with respect to ``a``, ``b`` and the bandwidth, that of
    the median heuristic included.

    Degenerate data: a constant ``a`` or ``b`` gives 0, with zero derivatives; NaN or infinity
    gives NaN.  Between independent variables the biased form is, normalised, of order 1 / n, and
    near 1 for a bandwidth so small that every row stands alone.

    Cost: O(n^2 p) time and O(n p) memory.

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
    a, b = _as_enough_rows(a, b, unbiased)
    widths = one_or_pair("bandwidth", bandwidth, _as_bandwidth, a.dtype)
    check_flag("normalized", normalized)
    return _hsic(a, b, widths, unbiased=bool(unbiased), normalized=bool(normalized))


def _as_enough_rows(a: ArrayLike, b: ArrayLike, unbiased: bool) -> tuple[Array, Array]:
    a, b = as_pair(a, b)
    _check_enough_rows(a, unbiased)
    return a, b


def _check_enough_rows(a: Any, unbiased: bool) -> None:
    if check_flag("unbiased", unbiased) and a.shape[0] < 4:
        raise ValueError(f"unbiased needs at least 4 rows; a and b have {a.shape[0]}.")


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
    a, b = (_in_units_of_bandwidth(x, s, count) for x, s in zip((a, b), bandwidths, strict=True))
    products = centred_products(_gaussian, unbiased, a, b, count)
    value = ratio_of_products(products) if normalized else products[0]
    # The biased form is less than zero by rounding only.
    return value if unbiased else jnp.where(value < 0, 0, value)


def _gaussian(rows: Array, others: Array) -> Array:
    """Return the Gaussian kernel minus 1, the same once centred, with more digits near 1."""
    return jnp.expm1(-0.5 * squared_distances(rows, others))


def _in_units_of_bandwidth(x: Array, bandwidth: Array | None, count: Array | None) -> Array:
    """Return ``x`` over its bandwidth, None for the median heuristic; infinity becomes NaN."""
    x = jnp.where(jnp.isfinite(x), x, jnp.nan)
    if bandwidth is not None:
        return _divide(x, jnp.where(bandwidth > 0, bandwidth, jnp.nan))
    reach = lax.stop_gradient(jnp.max(jnp.abs(x - x[:1])))
    framed = safe_divide(x, reach)
    median = _median_distance(*_sample_for_median(framed, count))
    typical = median != 0
    return jnp.where(typical, _divide(framed, jnp.where(typical, median, 1)), x)


def _divide(x: Array, unit: Array) -> Array:
    """Return ``x / unit``; in its derivative the square of ``unit`` does not underflow."""
    constant = lax.stop_gradient(unit)
    return x / constant / (unit / constant)


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
    apart = distances(x, x)[one, other]
    rows = x.shape[0] if count is None else count
    if count is not None:
        apart = jnp.where(other.astype(np.int32) < count, apart, jnp.inf)
    pairs = rows * (rows - 1) // 2
    if not one.size:
        return jnp.zeros((), x.dtype)
    apart = jnp.sort(apart)
    return jnp.where(pairs > 0, (apart[(pairs - 1) // 2] + apart[pairs // 2]) / 2, 0)


def distances(rows: Array, others: Array) -> Array:
    """Return Euclidean distances ``(m, n)``; their derivative is 0 where two rows are equal."""
    if rows.ndim == 1:
        difference = rows[:, None] - others[None, :]
        return jnp.where(difference != 0, jnp.abs(difference), 0)
    return safe_sqrt(squared_distances(rows, others))


def squared_distances(rows: Array, others: Array) -> Array:
    """Return squared distances ``(m, n)``, from differences: close rows keep their digits."""
    if rows.ndim == 1:
        return jnp.square(rows[:, None] - others[None, :])
    return jnp.sum(jnp.square(rows.T[:, :, None] - others.T[:, None, :]), axis=0)


def per_row(block: Callable[..., Array], rows: Sequence[Array], width: int) -> Array:
    """Return ``block(*rows)`` by blocks of rows, of ``width`` intermediate values each."""
    count = rows[0].shape[0]
    size = max(1, BLOCK_ENTRIES // width)
    if count <= size:
        return block(*rows)
    blocks = -(-count // size)
    size = -(-count // blocks)
    stacked = []
    for x in rows:
        filled = jnp.pad(x, [(0, blocks * size - count)] + [(0, 0)] * (x.ndim - 1), mode="edge")
        stacked.append(filled.reshape(blocks, size, *x.shape[1:]))
    compute = jax.checkpoint(lambda parts: block(*parts), prevent_cse=False)
    results = lax.map(compute, stacked)
    return results.reshape(blocks * size, *results.shape[2:])[:count]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def centred_products(
    entries: Entries, unbiased: bool, a: Array, b: Array, count: Array | None = None
) -> Array:
    """Return mean products of the centred matrices A of ``a`` and B of ``b``: of A B, A A and B B.

        A_ij = K_ij - mean_j K_ij - mean_i K_ij + mean_ij K_ij,  the mean over n^2 pairs

    with K by ``entries``.  The unbiased form sets A_ii = 0 and divides sums over a row by n - 2,
    the sum over all pairs by (n - 1)(n - 2), and the sum of products by n (n - 3) (Szekely & Rizzo
    2014).  Mean squares that are rounding become 0.  Not differentiable with ``count``.
    """
    means = _centres(entries, unbiased, a, count), _centres(entries, unbiased, b, count)
    return _products(entries, unbiased, a, b, *means, count)


@centred_products.defjvp
def _centred_products_jvp(
    entries: Entries, unbiased: bool, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Array, Array]:
    """Differentiate with the means as constants, which is exact: centring is a projection."""
    mean_a, mean_b = (_centres(entries, unbiased, x, None) for x in primals[:2])

    def products(a: Array, b: Array) -> Array:
        return _products(entries, unbiased, a, b, mean_a, mean_b, None)

    return jax.jvp(products, primals[:2], tangents[:2])


def _centres(
    entries: Entries, unbiased: bool, x: Array, count: Array | None
) -> tuple[Array, Array]:
    """Return the row means ``(n,)`` that centring subtracts, and the mean ``()`` that it adds."""
    index = lax.iota(jnp.int32, x.shape[0])

    def block(index_m: Array, part: Array) -> Array:
        return jnp.sum(_pairs_only(entries(part, x), index_m, index, count), axis=1)

    sums = per_row(block, [index, x], x.size)
    rows, mean = row_count(count, x), row_mean(sums, count)
    if unbiased:
        return sums / (rows - 2), mean * (rows / ((rows - 1) * (rows - 2)))
    return sums / rows, mean / rows


def _products(
    entries: Entries,
    unbiased: bool,
    a: Array,
    b: Array,
    centres_a: tuple[Array, Array],
    centres_b: tuple[Array, Array],
    count: Array | None,
) -> Array:
    index = lax.iota(jnp.int32, a.shape[0])

    def block(index_m: Array, a_m: Array, b_m: Array, mean_a: Array, mean_b: Array) -> Array:
        """Return sums of the products over the entries of each row ``(m, 3)``."""
        centred = []
        for part, x, mean, (means, total) in (
            (a_m, a, mean_a, centres_a),
            (b_m, b, mean_b, centres_b),
        ):
            matrix = _without_self(entries(part, x), index_m, index)
            matrix = matrix - mean[:, None] - (means - total)[None, :]
            if unbiased or count is not None:
                matrix = _pairs_only(matrix, index_m, index, count, keep_self=not unbiased)
            centred.append(matrix)
        left, right = centred
        products = (left * right, left * left, right * right)
        return jnp.stack([jnp.sum(product, axis=1) for product in products], axis=1)

    columns = [index, a, b, centres_a[0], centres_b[0]]
    sums = jnp.sum(fill_padding(per_row(block, columns, a.size + b.size), count), axis=0)
    rows = row_count(count, a)
    products = sums / rows / (rows - 3 if unbiased else rows)
    # Mean squares that are rounding, of the squared mean distances, are 0.
    floor = jnp.square(lax.stop_gradient(jnp.stack([centres_a[1], centres_b[1]])))
    floor = floor * (16 * float(jnp.finfo(products.dtype).eps)) ** 2
    squares = jnp.where(products[1:] <= floor, 0, products[1:])
    products = jnp.concatenate([products[:1], squares])
    # A single row is in no pair, but NaN in it must give NaN.
    finite = jnp.all(jnp.isfinite(a[:1])) & jnp.all(jnp.isfinite(b[:1]))
    return jnp.where(finite, products, jnp.nan)


def _without_self(matrix: Array, rows: Array, others: Array) -> Array:
    """Set the entries of a row with itself to 0, which compiled code may round."""
    return jnp.where(rows[:, None] == others[None, :], 0, matrix)


def _pairs_only(
    matrix: Array, rows: Array, others: Array, count: Array | None, *, keep_self: bool = False
) -> Array:
    """Set entries of padding, and of a row with itself (unless ``keep_self``), to 0."""
    if not keep_self:
        matrix = _without_self(matrix, rows, others)
    return matrix if count is None else jnp.where(others[None, :] < count, matrix, 0)


def ratio_of_products(products: Array) -> Array:
    """Return ``ab / sqrt(aa bb)`` of `centred_products`, in [-1, 1]; 0 where aa or bb is 0."""
    ratio = safe_divide(products[0], safe_sqrt(products[1]) * safe_sqrt(products[2]))
    # Beyond 1 by rounding only; a clip would make the derivative there zero or a half.
    return ratio / jnp.maximum(lax.stop_gradient(jnp.abs(ratio)), 1)


def shift_and_scale(x: Array) -> Array:
    """Shift ``x``, if it is far from 0, by its first row, and divide it by a power of two.

    Both are constants to derivatives.  Differences of rows keep all digits, as numbers within a
    factor of two of each other have exact differences.
    """
    x = x / 2  # so that the range of any data is a finite number
    first = lax.stop_gradient(x[:1])
    low, high = extremes(x)
    least = jnp.minimum(jnp.sign(first) * low, jnp.sign(first) * high)
    most = jnp.maximum(jnp.sign(first) * low, jnp.sign(first) * high)
    shift = jnp.where(most <= 2 * least, first, 0)
    x = x - shift
    first, low, high = first - shift, low - shift, high - shift
    reach = jnp.max(jnp.maximum(high - first, first - low))
    unit = jnp.ldexp(jnp.ones_like(reach), jnp.frexp(reach)[1] - 1)
    return x / jnp.where(reach < jnp.finfo(x.dtype).tiny, 1, unit)
