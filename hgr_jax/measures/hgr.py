"""HGR itself: of ranks, with degrees chosen by the data, and without what chance adds.

HGR depends on the copula only, so functions of the ranks estimate it (`hgr_jax.core.ranks`).  The
estimate of concrete data is made by NumPy, in double precision, for whatever dtype and device:
`hgr_jax.core.host.estimates`, which scans and fits share.  Here is the same estimate where it is
traced:

1. *Functions.*  `rank_functions` of the share of the rows below a row (ties in the middle) are made
   orthonormal in the sample, in several passes over the rows, as one loses the digits of functions
   that the earlier ones nearly determine (`_Basis`); such a function is left out, as that of a rare
   level is.
2. *Blocks.*  The top singular values of blocks of their cross moments, and of long blocks.
3. *Average* of both looks, of which one decides.

What is proved and what is a rule of thumb stands in the theory pages.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike

from hgr_jax._arrays import is_traced, scalar_of
from hgr_jax._checks import (
    as_host_weights,
    as_pair,
    as_repeats,
    as_weights,
    check_indexes,
    rows_at,
)
from hgr_jax.core.host.estimates import HGREstimate
from hgr_jax.core.host.ranks import effective_row_count
from hgr_jax.core.linalg import half_lower, matmul
from hgr_jax.core.numerics import safe_divide
from hgr_jax.core.ranks import (
    CELLS,
    LEAST_ROWS,
    NEIGHBOURS,
    OF_BOTH,
    OF_FEW,
    OF_ONE,
    ROWS_PER_SIZE,
    THIN,
    Blocks,
    alike_beyond,
    average_of_blocks,
    cosine_moments,
    largest_size,
    look_again,
    most_cosines,
    rank_functions,
)
from hgr_jax.core.rows import inner_products, sum_over_rows

PASSES, SHIFT = 2, 1024
"""Number of passes over the rows before the last one, and what they add to variances, in units of
the last place."""

_Two = tuple[Array, Array]
"""One array of either variable."""


def hgr(
    a: ArrayLike,
    b: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    counts: ArrayLike | None = None,
    given: Any = None,
) -> Array:
    """Estimate HGR, the largest correlation between any functions of ``a`` and of ``b``.

        HGR(a, b) = sup over f, g of rho(f(a), g(b))

    by functions of the ranks, as many as the data support, without the bias that choosing them
    among many has.  Strictly monotone maps of ``a`` or ``b`` change nothing.  A category has all
    functions of its levels.

    Args:
      a, b: real arrays ``(n,)``, traced.  Integers and booleans are numbers.  On the host, text or
        objects ``(n,)`` (an array, a list, a series of pandas or polars) or a categorical series:
        read as a column of `scan`, which pools rare levels, and takes texts of dates for dates.
      weights: non-negative weights of the rows ``(n,)``, traced, or None.  Only ratios matter; a
        row of weight 0 counts as dropped, even if it holds NaN.
      counts: how often each row occurred, whole numbers ``(n,)``, concrete, or None: the value is
        that of the repeated rows.
      given: c, ``(n,)``, several columns ``(n, p)`` or a data frame, concrete, or None: numbers,
        text or categorical series.

    Returns:
      A scalar in [0, 1], of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for shapes or dtypes other than the above, for series of pandas with
        different indexes, and beside a category for a missing level or impossible weights.

    With weights n is the effective number of rows, ``(sum w)^2 / sum w^2``: it decides how many
    functions are looked at, and what chance adds.  Up to n / 8 functions of one variable are looked
    at beside few of the other, so that oscillations of up to n / 16 periods are found; a faster one
    looks like noise, and `hgr_jax.hgr_fit` has an interval that says how much may be hidden.

    With ``given`` it is the largest partial correlation,

        sup over f, g of rho(f(a) - E[f(a) | c], g(b) - E[g(b) | c])

    0 where a and b are independent given c.  It may be 0 elsewhere: where c decides the sign of the
    dependence, say, which `hgr_jax.independence_test` looks for.  The conditional means are the
    regression of that test.  What it misses of c makes strong dependence look weaker (.9 given
    three columns, 1,000 rows: .87), and may make independence look like a little dependence.

    Derivatives: forward and reverse, with respect to ``weights``, and to ``a`` and ``b``: those of
    the estimate in the shares of the rows below a row, times the slope of the empirical
    distribution, which is linear between the middles of neighbouring values (the values themselves
    are constants).  Ties have slope 0.  Second derivatives exist, and are not those of the
    estimate.  A category has none.

    Degenerate data: a constant gives 0 with zero derivatives; NaN, infinity, fewer than 5
    (effective) rows (10 with ``given``), and a category most of whose rows have levels of fewer
    than 5 rows or 1% of them, as names have (with ``given`` an error), give NaN.  Negative
    weights, or none above 0, are an error, and under `jit` NaN.

    Cost: of concrete data some milliseconds for 1,000 rows, without compiling; traced, two sorts
    and two passes over the rows in blocks.

    Source: Rényi, "On measures of dependence" (1959); Bao, Hu, Pan & Zhou, "Canonical correlation
    coefficients of high-dimensional Gaussian vectors" (2019), for the bias.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> angle = jnp.linspace(0, 2 * jnp.pi, 500, endpoint=False)
      >>> print(f"{hgr_jax.hgr(jnp.cos(angle), jnp.exp(jnp.sin(angle))):.3f}")  # a bent circle
      1.000
    """
    if given is not None:
        from hgr_jax.measures.conditional_hgr import conditional_hgr_fit

        floats = [
            x for x in (a, b) if isinstance(x, Array) and jnp.issubdtype(x.dtype, jnp.floating)
        ]
        dtype = jnp.result_type(*floats) if floats else jnp.result_type(float)
        a, b, weights, given = repeated(a, b, weights, counts, given)
        return jnp.asarray(conditional_hgr_fit(a, b, given, weights).correlation, dtype)
    a, b, weights, _ = repeated(a, b, weights, counts)
    if is_traced(a, b, weights):
        x, y = as_pair(a, b, max_ndim=1)
        return _traced(x, y, as_weights(weights, x.shape[0], x.dtype))
    x, y = read_pair(a, b, weights)
    if not (isinstance(x, Array) and isinstance(y, Array)):
        from hgr_jax.measures._levels import hgr_with_levels  # numbers do without its imports

        return hgr_with_levels(x, y, weights)
    estimate = estimate_of_numbers(x, y, weights)
    return scalar_of(np.nan if estimate is None else estimate.value, x.dtype)


def repeated(a: Any, b: Any, weights: Any, counts: Any, given: Any = None) -> tuple[Any, ...]:
    """Return a, b, the weights and the given variables with each row as often as it occurred."""
    if counts is None:
        return a, b, weights, given
    if is_traced(a, b, weights, counts, given):
        raise TypeError("counts are of concrete data: repeat the rows before tracing.")
    check_indexes(a=a, b=b, weights=weights, counts=counts, given=given)
    order = as_repeats(counts, len(a))
    a, b, weights, given = (rows_at(x, order) for x in (a, b, weights, given))
    return a, b, weights, given


def read_pair(a: Any, b: Any, weights: Any) -> tuple[Any, Any]:
    """Return both variables as arrays of one dtype; or one as a `Category`, the other as it is."""
    check_indexes(a=a, b=b, weights=weights)
    if not (_holds_numbers(a) and _holds_numbers(b)):
        # Numbers do without these imports.
        from hgr_jax.tables.columns import read_variable
        from hgr_jax.tables.levels import Category

        a, b = read_variable("a", a), read_variable("b", b)
        if isinstance(a, Category) or isinstance(b, Category):
            return a, b
    return as_pair(a, b, max_ndim=1)


def _holds_numbers(x: Any) -> bool:
    return isinstance(x, Array) or (isinstance(x, np.ndarray) and x.dtype.kind in "fiub")


def estimate_of_numbers(a: Array, b: Array, weights: ArrayLike | None) -> HGREstimate | None:
    """Estimate HGR of concrete numbers ``(n,)``; None where it is not known."""
    x, y = (np.asarray(z, np.float64) for z in (a, b))
    w = as_host_weights(weights, len(x))
    if w is not None:
        x, y, w = x[w > 0], y[w > 0], w[w > 0]
    known = np.isfinite(x).all() and np.isfinite(y).all()
    if not known or effective_row_count(len(x), w) < LEAST_ROWS:
        return None
    return HGREstimate.of((x, y), (None, None), w)


@jax.jit
def _traced(a: Array, b: Array, weights: Array | None) -> Array:
    """Return the estimate of numbers ``(n,)``, of which there is a program for each length."""
    finite = jnp.isfinite(a) & jnp.isfinite(b)
    valid = jnp.all(finite if weights is None else finite | (weights == 0))
    count = len(a)
    if weights is None:
        rows, shares = jnp.asarray(count, a.dtype), jnp.full(count, 1 / count, a.dtype)
    else:
        weights, are_weights = _scaled_to_effective_rows(weights)
        rows, valid = jnp.sum(weights), valid & are_weights
        shares = weights / rows
    valid &= rows >= LEAST_ROWS
    sides = [_Side.of(jnp.where(jnp.isfinite(x), x, 0), shares, weights is None) for x in (a, b)]
    value = _estimate(sides[0], sides[1], shares, rows)
    return jnp.where(valid, value, jnp.nan)


def _scaled_to_effective_rows(weights: Array) -> _Two:
    """Return weights whose sum is the effective number of rows, and whether they are valid.

    Equal weights are 1, exactly: the largest is, before sums are taken.
    """
    largest = lax.stop_gradient(jnp.max(weights))
    valid = (jnp.min(weights) >= 0) & (largest > 0) & (largest < jnp.inf)
    w = jnp.where(valid, weights / jnp.where(valid, largest, 1), 1)
    return w * (jnp.sum(w) / jnp.sum(w * w)), valid


class _Side(NamedTuple):
    """A variable: the share ``(n,)`` of the weight below each row, and the `_Order` of its rows."""

    share: Array
    order: _Order

    @classmethod
    def of(cls, x: Array, shares: Array, equal: bool) -> _Side:
        """Rank a finite ``x (n,)``; rows have ``shares`` of the weight, ``equal`` or not."""
        order = _Order.of(lax.stop_gradient(x), lax.stop_gradient(shares))
        return cls(_share_below(x, shares, order, equal), order)


class _Order(NamedTuple):
    """The rows in the order of a variable.

    Attributes:
      order: ``(n,)``, the rows in order.
      ordered: ``(n,)``, their values.
      below, up_to: ``(n,)``, numbers of rows with values below, and up to, each one in order.
      edges: ``(n + 1,)``, the shares of the weight of the first rows in order.
    """

    order: Array
    ordered: Array
    below: Array
    up_to: Array
    edges: Array

    @classmethod
    def of(cls, x: Array, shares: Array) -> _Order:
        """Order the rows of ``x (n,)``."""
        bits = f"int{8 * x.dtype.itemsize}"  # XLA sorts integers in a fifth of the time of floats
        code = lax.bitcast_convert_type(jnp.where(x == 0, 0, x), bits)
        code = jnp.where(code < 0, code ^ jnp.iinfo(bits).max, code)
        ordered, order = lax.sort((code, lax.iota(jnp.int32, len(x))), num_keys=1)
        below, up_to = (jnp.searchsorted(ordered, ordered, side=side) for side in ("left", "right"))
        edges = jnp.concatenate([jnp.zeros(1, x.dtype), jnp.cumsum(shares[order])])
        return cls(order, x[order], below, up_to, edges)

    @property
    def levels(self) -> Array:
        """The number of values."""
        return jnp.sum(self.below == lax.iota(jnp.int32, len(self.below)), dtype=jnp.int32)

    def sums(self, mass: Array) -> Array:
        """Return the sums of ``mass (m, n)`` of the first rows in order, ``(m, n + 1)``."""
        first = jnp.zeros((len(mass), 1), mass.dtype)
        return jnp.concatenate([first, jnp.cumsum(mass[:, self.order], axis=1)], axis=1)

    def cells(self, mass: Array) -> Array:
        """Return sums of ``mass (m, n)`` in cells of equal share; ties spread over their range."""
        count = len(self.order)
        cells = min(count, CELLS)
        ends = np.arange(cells + 1, dtype=mass.dtype) / cells
        place = jnp.searchsorted(self.edges, ends, side="right").clip(1, count) - 1
        first, last = self.below[place], self.up_to[place]
        width = self.edges[last] - self.edges[first]
        part = safe_divide(ends - self.edges[first], width).clip(0, 1)
        sums = self.sums(mass)
        return jnp.diff(sums[:, first] + part * (sums[:, last] - sums[:, first]), axis=1)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def _share_below(x: Array, shares: Array, order: _Order, equal: bool) -> Array:
    """Return the share of the weight below each row, ties in the middle."""
    count, dtype = len(x), x.dtype
    middle = jnp.zeros(count, dtype).at[order.order]
    if equal:
        return middle.set((order.below + order.up_to).astype(dtype) / (2 * count))
    least = float(jnp.finfo(dtype).eps)  # at 0 and 1, slopes of the functions are infinite
    middles = (order.edges[order.below] + order.edges[order.up_to]) / (2 * order.edges[-1])
    return middle.set(jnp.clip(middles, least, 1 - least))


@_share_below.defjvp
def _share_below_jvp(equal: bool, primals: Any, tangents: Any) -> tuple[Array, Array]:
    """The share follows the line through the next rows below and above that have weight."""
    x, shares, order = primals
    share = _share_below(x, shares, order, equal)
    count = len(x)
    if equal:
        before = jnp.maximum(lax.iota(jnp.int32, count) - 1, 0)
        after = jnp.minimum(lax.iota(jnp.int32, count) + 1, count - 1)
    else:
        weighted = shares[order.order] > 0
        place = lax.iota(jnp.int32, count)
        last = lax.cummax(jnp.where(weighted, place, -1))
        following = lax.cummin(jnp.where(weighted, place, count), reverse=True)
        before = jnp.concatenate([jnp.full(1, -1, jnp.int32), last[:-1]])
        after = jnp.concatenate([following[1:], jnp.full(1, count, jnp.int32)])
        before, after = jnp.where(before < 0, place, before), jnp.where(after < count, after, place)
    width = order.ordered[after] - order.ordered[before]
    tiny = 2**20 * float(jnp.finfo(x.dtype).tiny)
    alone = order.edges[order.up_to] - order.edges[order.below] <= shares[order.order] * (1 + 1e-3)
    usable = jnp.isfinite(width) & (width > tiny) & alone
    middles = share[order.order]
    rise = middles[after] - middles[before]
    slope = safe_divide(rise, jnp.where(usable, width, 0))
    moved = jnp.zeros_like(x).at[order.order].set(slope) * tangents[0]
    if equal:
        return share, moved
    total = order.edges[-1]
    sums = jnp.concatenate([jnp.zeros(1, x.dtype), jnp.cumsum(tangents[1][order.order])])
    middle = (sums[order.below] + sums[order.up_to]) / (2 * total)
    of_shares = middle - middles * sums[-1] / total
    return share, moved + jnp.zeros_like(x).at[order.order].set(of_shares)


def _estimate(one: _Side, other: _Side, shares: Array, rows: Array) -> Array:
    """Return the average of the blocks of the look that decides."""
    most = int(largest_size(np.float64(len(shares))))
    limit = largest_size(rows).astype(jnp.int32)  # with weights there are fewer rows
    moments = _Moments.of((one.share, other.share), shares, rows, most, limit)
    m, available = moments.matrix, moments.available
    blocks = Blocks.all(most, most)
    squares = top_squares(m, blocks)
    h, k = (
        jnp.minimum(np.array(sizes, np.int32), count)
        for sizes, count in zip((blocks.rows, blocks.columns), available, strict=True)
    )
    few = min(most, OF_ONE)
    looks = []
    for look in (Blocks.first(most, most), Blocks.all(few, few)):
        place = np.array(blocks.places(look))
        average = average_of_blocks(squares[place], h[place], k[place], rows)
        looks.append((average.value, look_again(average, np.array(look.at_edge))))
    alike, parts = jnp.zeros((), bool), [(squares, h, k)]
    for side, (ordered, g) in enumerate(zip((one, other), reversed(moments.few), strict=True)):
        of_side, of_other = available[side], available[1 - side]
        alike |= _is_alike(ordered.order, g, m if side else m.T, of_side, rows)
        found, cosines = _long_squares(ordered, g * shares, of_side, rows)
        count = jnp.minimum(jnp.tile(np.arange(1, THIN + 1), len(cosines)), of_other)
        cosines = jnp.repeat(cosines, THIN)
        sizes = (cosines, count) if side == 0 else (count, cosines)
        parts.append((found, *sizes))
    by_all = average_of_blocks(*map(jnp.concatenate, zip(*parts, strict=True)), rows)
    (by_first, is_small), (by_second, is_large) = looks
    again = jnp.maximum(*available) > OF_BOTH
    value = jnp.where(again & (alike | is_small & is_large), by_all.value, by_second)
    return jnp.where(again & (alike | is_small), value, by_first)


def _is_alike(order: _Order, g: Array, m: Array, size: Array, rows: Array) -> Array:
    """Return whether neighbours are more alike than the first look explains."""
    last = len(order.order) - 1
    places = np.arange(min(last, NEIGHBOURS)) * last // max(min(last, NEIGHBOURS), 1)
    products = g[:, order.order[places]] * g[:, order.order[places + 1]]
    alike, error = jnp.mean(products, axis=1), jnp.std(products, axis=1) / len(places) ** 0.5
    counts = jnp.minimum(np.array([OF_ONE, OF_FEW, OF_FEW]), size)
    inside = np.arange(m.shape[1]) < counts[:, None]
    explained = jnp.sum(m[:THIN] ** 2 * inside, axis=1)
    return jnp.any(alike_beyond(alike, error, explained, counts, rows))


def _long_squares(side: _Side, mass: Array, size: Array, rows: Array) -> _Two:
    """Return squared top values of long blocks, and their numbers of cosines, 0 if not listed.

    ``mass (3, n)`` are few functions of the other variable times the shares of the rows.
    """
    blocks = Blocks.long(THIN, most_cosines(len(side.share)))
    order = side.order
    sums = order.sums(mass)
    of_level = sums[:, order.up_to] - sums[:, order.below]
    weight = order.edges[order.up_to] - order.edges[order.below]
    first = order.below == lax.iota(jnp.int32, len(order.below))
    means = jnp.where(first, of_level * lax.rsqrt(jnp.where(weight > 0, weight, 1)), 0)
    grams = jnp.einsum("an,bn->ab", means, means, precision=lax.Precision.HIGHEST)[None]
    sizes = [order.levels - 1]
    if blocks.rows:
        most = max(blocks.columns)
        m = _cosines_of_order(mass, side.share, order, most)
        ends = np.unique(blocks.columns)
        grams = jnp.concatenate(
            [jnp.cumsum(m.T[:, :, None] * m.T[:, None, :], axis=0)[ends - 1], grams]
        )
        sizes = [*ends, *sizes]
    cosines = jnp.stack([jnp.asarray(each, jnp.int32) for each in sizes])
    counts = (cosines > size) & (cosines <= rows / ROWS_PER_SIZE)
    few = np.arange(THIN) < np.arange(1, THIN + 1)[:, None]
    leading = grams[:, None] * (few[:, :, None] & few[:, None, :])
    tops = _top_eigenvalues(leading.reshape(-1, THIN, THIN))
    return jnp.minimum(tops, 1), jnp.where(counts, cosines, 0)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def _cosines_of_order(mass: Array, share: Array, order: _Order, most: int) -> Array:
    """Return the sums of ``mass (m, n)`` times ``sqrt(2) cos(pi j share)``, ``(m, most)``."""
    return cosine_moments(order.cells(mass), most)[0]


@_cosines_of_order.defjvp
def _cosines_of_order_jvp(most: int, primals: Any, tangents: Any) -> _Two:
    mass, share, order = primals
    cosines = cosine_moments(order.cells(tangents[0]), most)[0]
    sines = cosine_moments(order.cells(mass * tangents[1]), most)[1]
    speed = np.pi * np.arange(1, most + 1).astype(mass.dtype)
    return _cosines_of_order(mass, share, order, most), cosines - speed * sines


class _Moments(NamedTuple):
    """Cross moments of orthonormal functions of two variables.

    Attributes:
      matrix: ``(h, k)``; rows and columns of functions left out come last, and are 0.
      available: number of functions of each variable that are not left out.
      few: the first functions of each variable at the rows, ``(3, n)``.
    """

    matrix: Array
    available: _Two
    few: _Two

    @classmethod
    def of(cls, columns: _Two, shares: Array, rows: Array, most: int, limit: Array) -> _Moments:
        """Orthonormalise ``most`` functions of shares; those after the first ``limit`` do not count."""
        fixed = [lax.stop_gradient(u) for u in (*columns, shares)]
        first = [_Basis.of(u, fixed[2], most) for u in fixed[:2]]
        one, other = (each.functions for each in first)

        def products(inside: Array | None, u: Array, v: Array, w: Array) -> Array:
            w = (w if inside is None else w * inside)[None, :]
            a, b = jnp.concatenate([jnp.ones_like(w), one(u)]), other(v)
            weighted = a * w
            ab = matmul(weighted, b.T)
            return jnp.block([[matmul(weighted, a.T), ab], [ab.T, matmul(b * w, b.T)]])

        gram = sum_over_rows(products, [*columns, shares])
        mean, moments = gram[0, 1:], gram[1:, 1:] - gram[0, 1:, None] * gram[0, None, 1:]
        maps, available, few = [], [], []
        for place, (u, each) in enumerate(zip(columns, first, strict=True)):
            own = slice(place * most, (place + 1) * most)
            w = _orthonormalising(moments[own, own], each.coordinates, each.scale, rows)
            kept = (jnp.sum(lax.stop_gradient(w) ** 2, axis=1) > 0) & (np.arange(most) < limit)
            w = jnp.where(kept[:, None], w, 0)[jnp.argsort(~kept, stable=True)]
            maps.append(w)
            available.append(jnp.sum(kept, dtype=jnp.int32))
            few.append(_at_rows(u, w[:THIN], mean[own], each))
        matrix = matmul(matmul(maps[0], moments[:most, most:]), maps[1].T)
        return cls(matrix, (available[0], available[1]), (few[0], few[1]))


def _at_rows(u: Array, w: Array, mean: Array, basis: _Basis) -> Array:
    """Return few orthonormal functions at the rows, ``(3, n)``, without all functions of them."""

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def of_block(u: Array) -> Array:
        return matmul(w, basis.functions(u) - mean[:, None])

    count, size = len(u), 2**14
    if count <= size:
        return of_block(u)
    blocks = -(-count // size)
    padded = jnp.pad(u, (0, blocks * size - count), mode="edge").reshape(blocks, size)
    return jnp.moveaxis(lax.map(of_block, padded), 0, 1).reshape(len(w), -1)[:, :count]


class _Basis(NamedTuple):
    """Near orthonormal functions of shares, of which none is left out.

    Each pass divides by the root of a shifted matrix of moments, and makes what rounding left of
    small residuals larger.

    Attributes:
      mean: ``(d,)``, of the functions of ranks.
      map: ``(d, d)``, lower triangular, from these, less their means.
      coordinates: ``(d, d)``, lower triangular: the inverse of ``map``.
      scale: the largest variance of the functions of ranks of a first look, 0 for a constant.
    """

    mean: Array
    map: Array
    coordinates: Array
    scale: Array

    @classmethod
    def of(cls, u: Array, shares: Array, most: int) -> _Basis:
        """Make ``most`` functions of shares ``u (n,)`` of the rows below near orthonormal."""
        one = jnp.eye(most, dtype=u.dtype)
        basis = cls(jnp.zeros(most, u.dtype), one, one, jnp.ones((), u.dtype))
        gram = basis._products(u, shares)
        mean = gram[0, 1:]
        scale = jnp.max(jnp.diagonal(gram)[1 : 1 + OF_ONE] - mean[:OF_ONE] ** 2)
        eps = float(jnp.finfo(u.dtype).eps)
        varies = scale > 100 * eps
        basis = cls(mean, one, one, jnp.where(varies, scale, 0))
        size = jnp.where(varies, scale, 1)
        for _ in range(PASSES):
            gram = basis._products(u, shares)
            moments = gram[1:, 1:] - gram[1:, :1] * gram[:1, 1:]
            shifted = jnp.where(varies, moments, 0) + SHIFT * eps * size * one
            root = jnp.linalg.cholesky(shifted)
            inverse = jax.scipy.linalg.solve_triangular(root, one, lower=True)
            coordinates = matmul(basis.coordinates, root)
            basis = basis._replace(map=matmul(inverse, basis.map), coordinates=coordinates)
            size = jnp.ones_like(size)
        return basis

    def functions(self, u: Array) -> Array:
        """Return the functions ``(d, n)`` of shares ``(n,)``."""
        return matmul(self.map, rank_functions(u, len(self.map)) - self.mean[:, None])

    def _products(self, u: Array, shares: Array) -> Array:
        """Return the means of products of 1 and the functions."""

        def products(inside: Array | None, u: Array, w: Array) -> Array:
            w = w if inside is None else w * inside
            f = jnp.concatenate([jnp.ones((1, len(u)), u.dtype), self.functions(u)])
            return inner_products(f * jnp.sqrt(w)[None, :])

        return sum_over_rows(products, [u, shares])


@jax.custom_jvp
def _orthonormalising(s: Array, coordinates: Array, scale: Array, rows: Array) -> Array:
    """Return W with ``W S W^T`` the identity but for functions left out, whose rows are 0.

    Args:
      s: moments of near orthonormal functions.
      coordinates: of the functions in these; they are made orthonormal in their order.
      scale: their largest variance: one of residual variance up to ``scale / sqrt(rows)`` is left
        out.
      rows: number of rows.
    """
    size = len(s)
    varies = scale > 0
    # Half of the variance of a function whose residual is rounding is the shift of the first pass.
    alive = (jnp.diagonal(s) > 0.5) & varies
    both = alive[:, None] & alive[None, :]
    root = jnp.linalg.cholesky(jnp.where(both, s, jnp.eye(size, dtype=s.dtype)))
    of_functions = matmul(jnp.where(alive[None, :], coordinates, 0), root)
    least = jnp.where(varies, scale, 1) / jnp.sqrt(rows)

    def step(j: Array, kept: Array) -> Array:
        rest = of_functions[j]
        for _ in range(2):
            rest = rest - matmul(matmul(kept, rest), kept)
        variance = jnp.sum(rest * rest)
        usable = varies & (variance > least)
        unit = jnp.where(usable, rest * lax.rsqrt(jnp.where(usable, variance, 1)), 0)
        return kept.at[j].set(unit)

    kept = lax.fori_loop(0, size, step, jnp.zeros_like(s))
    return jax.scipy.linalg.solve_triangular(root, kept.T, lower=True, trans=1).T


@_orthonormalising.defjvp
def _orthonormalising_jvp(primals: Any, tangents: Any) -> _Two:
    w = _orthonormalising(*primals)
    return w, -matmul(half_lower(matmul(matmul(w, tangents[0]), w.T)), w)


def top_squares(m: Array, blocks: Blocks) -> Array:
    """Return the squared largest singular value of each of the blocks of ``m``."""
    shorter = np.minimum(blocks.rows, blocks.columns)
    order = np.argsort(shorter > THIN, kind="stable").tolist()
    tops = [_top_eigenvalues(grams) for grams in _grams(m, blocks, order)]
    return jnp.concatenate(tops)[np.argsort(order)]


def _grams(m: Array, blocks: Blocks, order: Sequence[int]) -> list[Array]:
    """Return Gram matrices of the blocks, of rows or of columns, whichever are fewer.

    First all thin blocks, ``(t, 3, 3)``, padded by 0: those of one width are partial sums of one
    another.  Then the others, each alone.
    """
    thin, others = [], []
    width = min(THIN, *blocks.shape)
    sums = [
        jnp.cumsum(part[:, :, None] * part[:, None, :], axis=0)
        for part in (m[:, :width], m[:width].T)
    ]
    for place in order:
        h, k = blocks.rows[place], blocks.columns[place]
        if min(h, k) > THIN:
            part = m[:h, :k] if h < k else m[:h, :k].T
            others.append(matmul(part, part.T)[None])
        else:
            thin.append((int(h < k), max(h, k) - 1, min(h, k)))
    of_rows, last, number = np.array(thin).T
    longest = max(len(part) for part in sums)
    stacked = jnp.stack([jnp.pad(x, [(0, longest - len(x)), (0, 0), (0, 0)]) for x in sums])
    inside = np.arange(width) < number[:, None]
    grams = jnp.where(inside[:, :, None] & inside[:, None, :], stacked[of_rows, last], 0)
    return [grams, *others]


@jax.custom_jvp
def _top_eigenvalues(grams: Array) -> Array:
    """Return the largest eigenvalues ``(N,)`` of symmetric matrices ``(N, d, d)``."""
    return jnp.maximum(jnp.linalg.eigvalsh(grams)[:, -1], 0)


@_top_eigenvalues.defjvp
def _top_eigenvalues_jvp(primals: tuple[Array], tangents: tuple[Array]) -> _Two:
    """An eigenvalue moves by ``v^T dS v``, with v its vector."""
    values, vectors = jnp.linalg.eigh(lax.stop_gradient(primals[0]))
    top = vectors[..., -1]
    moved = jnp.einsum("na,nab,nb->n", top, tangents[0], top, precision=lax.Precision.HIGHEST)
    return jnp.maximum(values[:, -1], 0), moved
