"""HGR itself: of ranks, with degrees chosen by the data, and without what chance adds.

HGR depends on the copula only, so functions of the ranks estimate it (`hgr_jax.core.ranks`).  The
estimate of concrete data is made by NumPy, in double precision, for whatever dtype and device:
`hgr_jax.core.host.estimates`, which scans and fits share.  Here is the same estimate where it is
traced:

1. *Functions.*  `rank_functions` of the share of the rows below a row (ties in the middle) are made
   orthonormal in the sample, by a QR decomposition, as moments lose the digits of functions that
   earlier ones nearly determine (`_Basis`); such a function is left out, as that of a rare level.
2. *Blocks.*  The top singular values of blocks of their cross moments, and of long blocks.
3. *Average* of both looks, of which one decides.

What is proved and what is a rule of thumb stands in the theory pages.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike

from hgr_jax._arrays import is_traced
from hgr_jax._checks import check_indexes
from hgr_jax._threads import one_blas_thread
from hgr_jax.core.arrays import as_pair, as_weights, scalar_of
from hgr_jax.core.host.estimates import HGREstimate
from hgr_jax.core.host.ranks import (
    FEW_TIES,
    MANY_ROWS,
    MIN_EFFECTIVE_ROWS,
    largest_squares,
    maps_of_untied,
)
from hgr_jax.core.linalg import half_lower, matmul
from hgr_jax.core.numerics import on_shards_of, safe_divide
from hgr_jax.core.ranks import (
    EXACT,
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
    cell_count,
    cosine_moments,
    largest_size,
    long_sizes,
    look_again,
    rank_functions,
)
from hgr_jax.core.rows import sum_over_rows
from hgr_jax.tables.variables import read_pair

BLOCK_OF_ROWS = 2**14
"""Largest number of rows whose functions are in memory together."""

_Two = tuple[Array, Array]
"""One array of either variable."""


def hgr(
    a: ArrayLike,
    b: ArrayLike,
    *,
    weights: ArrayLike | None = None,
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
      given: c, ``(n,)``, several columns ``(n, p)`` or a data frame, concrete, or None: numbers,
        text or categorical series.

    Returns:
      A scalar in [0, 1], of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for shapes or dtypes other than the above, for series of pandas with
        different indexes, impossible weights, and a category with missing levels, or most of whose
        rows have levels of fewer than 5 rows or 1% of them, as names have.

    With weights n is the effective number of rows, ``(sum w)^2 / sum w^2``: it decides how many
    functions are looked at, and what chance adds.  Up to n / 8 functions of one variable are looked
    at beside few of the other, so that oscillations of up to n / 16 periods are found; a faster one
    looks like noise, and `hgr_jax.hgr_fit` has an interval that says how much may be hidden.

    Of independent pairs it is mostly near 0, and above 0.1 in a third at n = 50, in an eighth
    at 200: `hgr_jax.independence_test` says whether a value is more than chance.

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

    Degenerate data: a constant gives 0 with zero derivatives; NaN, infinity and fewer than 5
    (effective) rows (10 with ``given``) give NaN.  So does what c explains to 99% of the variance
    of its ranks, with a warning that says so.  Negative weights, or none above 0, are an error, and
    under `jit` NaN.

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

        fit = conditional_hgr_fit(a, b, given, weights)
        if np.isfinite(fit.explained).all() and fit.reason:
            warnings.warn(f"hgr is NaN: {fit.reason}.", UserWarning, stacklevel=2)
        return scalar_of(fit.correlation, _dtype_of(a, b))
    if is_traced(a, b, weights):
        x, y = as_pair(a, b, max_ndim=1)
        return _traced(x, y, as_weights(weights, len(x), x.dtype))
    check_indexes(a=a, b=b, weights=weights)
    with one_blas_thread():
        estimate = HGREstimate.of_rows(*read_pair(a, b), weights)
        value = np.nan if estimate is None else estimate.value
    return scalar_of(value, _dtype_of(a, b))


def _dtype_of(*variables: Any) -> np.dtype:
    """Return the dtype of the value: the widest of the variables that are floats."""
    dtypes = [getattr(x, "dtype", None) for x in variables]
    floats = [d for d in dtypes if isinstance(d, np.dtype) and jnp.issubdtype(d, jnp.floating)]
    if not floats:
        return jnp.result_type(float)
    dtype = functools.reduce(np.promote_types, floats, np.dtype(np.float32))
    return jax.dtypes.canonicalize_dtype(dtype)


def hgr_across_neighbours(
    a: Array, b: Array, neighbours: int, weights: Array | None = None
) -> Array:
    """Return `hgr` for training: without long blocks where it is traced, and smoother.

    The slope of the empirical distribution is that of the line through the rows ``neighbours``
    below and above: ties have one too.
    """
    if not is_traced(a, b, weights):
        return hgr(a, b, weights=weights)
    a, b = as_pair(a, b, max_ndim=1)
    return _traced(a, b, as_weights(weights, len(a), a.dtype), neighbours)


@functools.partial(jax.jit, static_argnames="neighbours")
def _traced(a: Array, b: Array, weights: Array | None, neighbours: int = 1) -> Array:
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
    slopes = _Slopes(weights is None, neighbours)
    sides = [_Ranked.of(jnp.where(jnp.isfinite(x), x, 0), shares, slopes) for x in (a, b)]
    # Slopes across many rows are not those of long blocks.
    value = _estimate_traced(sides[0], sides[1], shares, rows, with_long=neighbours == 1)
    return jnp.where(valid, value, jnp.nan)


def _scaled_to_effective_rows(weights: Array) -> _Two:
    """Return weights whose sum is the effective number of rows, and whether they are valid.

    Equal weights are 1, exactly: the largest is, before sums are taken.
    """
    largest = lax.stop_gradient(jnp.max(weights))
    valid = (jnp.min(weights) >= 0) & (largest > 0) & (largest < jnp.inf)
    w = jnp.where(valid, weights / jnp.where(valid, largest, 1), 1)
    return w * (jnp.sum(w) / jnp.sum(w * w)), valid


class _Slopes(NamedTuple):
    """How the share of the rows below moves with a value.

    Attributes:
      equal: whether rows have equal weights.
      neighbours: number of rows of weight on either side to which the line is drawn.
    """

    equal: bool
    neighbours: int


class _Ranked(NamedTuple):
    """A variable.

    Attributes:
      share: ``(n,)``, of the weight below each row.
      shift: ``(n,)``, 0, with the derivatives of ``share`` with respect to the values.
      order: the rows in the order of the values.
      equal: whether all rows have the same weight.
    """

    share: Array
    shift: Array
    order: _Order
    equal: bool

    @classmethod
    def of(cls, x: Array, shares: Array, slopes: _Slopes) -> _Ranked:
        """Rank a finite ``x (n,)``; rows have ``shares`` of the weight."""
        order = _Order.of(lax.stop_gradient(x), shares)
        fixed = order._replace(edges=lax.stop_gradient(order.edges))
        of_values = _share_below(x, lax.stop_gradient(shares), fixed, slopes)
        shift = of_values - lax.stop_gradient(of_values)
        return cls(_share_below(x, shares, fixed, slopes), shift, order, slopes.equal)


class _Order(NamedTuple):
    """The rows in the order of a variable.

    Attributes:
      order, place: ``(n,)``, the rows in order, and the place of each row in it.
      ordered: ``(n,)``, their values.
      below, up_to: ``(n,)``, numbers of rows with values below, and up to, each one in order.
      edges: ``(n + 1,)``, the shares of the weight of the first rows in order.
    """

    order: Array
    place: Array
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
        place = jnp.zeros_like(order).at[order].set(lax.iota(jnp.int32, len(x)))
        return cls(order, place, x[order], below, up_to, edges)

    @property
    def levels(self) -> Array:
        """The number of values."""
        return jnp.sum(self.below == lax.iota(jnp.int32, len(self.below)), dtype=jnp.int32)

    @property
    def ties(self) -> Array:
        """The sum of t^3 - t over groups of t equal values."""
        equal = (self.up_to - self.below).astype(self.ordered.dtype)
        return jnp.sum(equal * equal - 1)

    def sums(self, mass: Array) -> Array:
        """Return the sums of ``mass (m, n)`` of the first rows in order, ``(m, n + 1)``."""
        first = jnp.zeros((len(mass), 1), mass.dtype)
        return jnp.concatenate([first, jnp.cumsum(mass[:, self.order], axis=1)], axis=1)

    def cells(self, mass: Array) -> Array:
        """Return sums of ``mass (m, n)`` in cells of equal share; ties spread over their range."""
        count = len(self.order)
        cells = cell_count(count)
        ends = np.arange(cells + 1, dtype=mass.dtype) / cells
        place = jnp.searchsorted(self.edges, ends, side="right").clip(1, count) - 1
        first, last = self.below[place], self.up_to[place]
        width = self.edges[last] - self.edges[first]
        part = safe_divide(ends - self.edges[first], width).clip(0, 1)[None]
        sums = self.sums(mass)
        return jnp.diff(sums[:, first] + part * (sums[:, last] - sums[:, first]), axis=1)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def _share_below(x: Array, shares: Array, order: _Order, slopes: _Slopes) -> Array:
    """Return the share of the weight below each row, ties in the middle."""
    if slopes.equal:
        middles = (order.below + order.up_to).astype(x.dtype) / (2 * len(x))
        return middles[order.place]
    least = float(jnp.finfo(x.dtype).eps)  # at 0 and 1, slopes of the functions are infinite
    middles = (order.edges[order.below] + order.edges[order.up_to]) / (2 * order.edges[-1])
    return jnp.clip(middles, least, 1 - least)[order.place]


@_share_below.defjvp
def _share_below_jvp(slopes: _Slopes, primals: Any, tangents: Any) -> tuple[Array, Array]:
    """The share follows the line through rows below and above that have weight."""
    x, shares, order = primals
    share = _share_below(x, shares, order, slopes)
    count, neighbours = len(x), slopes.neighbours
    before, after = order.below - neighbours, order.up_to - 1 + neighbours
    if slopes.equal:
        before, after = jnp.maximum(before, 0), jnp.minimum(after, count - 1)
    else:
        weighted = jnp.cumsum(shares[order.order] > 0, dtype=jnp.int32)
        rows = jnp.concatenate([jnp.zeros(1, jnp.int32), weighted])  # of the first in order
        place = jnp.searchsorted(weighted, lax.iota(jnp.int32, count) + 1).clip(0, count - 1)
        before = place[jnp.maximum(rows[order.below] - neighbours, 0)]
        after = place[jnp.minimum(rows[order.up_to] - 1 + neighbours, rows[-1] - 1)]
    width = order.ordered[after] - order.ordered[before]
    tiny = 2**20 * float(jnp.finfo(x.dtype).tiny)
    usable = jnp.isfinite(width) & (width > tiny)
    if neighbours == 1:
        whole = order.edges[order.up_to] - order.edges[order.below]
        usable &= whole <= shares[order.order] * (1 + 1e-3)  # no ties
    middles = share[order.order]
    rise = middles[after] - middles[before]
    slope = safe_divide(rise, jnp.where(usable, width, 0))
    moved = slope[order.place] * tangents[0]
    if slopes.equal:
        return share, moved
    total = order.edges[-1]
    sums = jnp.concatenate([jnp.zeros(1, x.dtype), jnp.cumsum(tangents[1][order.order])])
    middle = (sums[order.below] + sums[order.up_to]) / (2 * total)
    of_shares = middle - middles * sums[-1] / total
    return share, moved + of_shares[order.place]


def _estimate_traced(
    one: _Ranked, other: _Ranked, shares: Array, rows: Array, *, with_long: bool
) -> Array:
    """Return the average of the blocks of the look that decides."""
    most = int(largest_size(np.float64(len(shares))))
    limit = largest_size(rows).astype(jnp.int32)  # with weights there are fewer rows
    few = min(most, OF_ONE)
    moments = _CrossMoments.of((one, other), shares, rows, few, limit)
    m = moments.matrix
    inside = [np.arange(few, dtype=np.int32) < count for count in moments.in_first]
    first = jnp.where(inside[0][:, None] & inside[1][None, :], m, 0)

    def sizes_in(blocks: Blocks, counts: _Two) -> _Two:
        h, k = (np.array(sizes, np.int32) for sizes in (blocks.rows, blocks.columns))
        return jnp.minimum(h, counts[0]), jnp.minimum(k, counts[1])

    def look_at(blocks: Blocks, look: int) -> _Two:
        squares = top_squares(first, blocks)
        average = average_of_blocks(squares, *sizes_in(blocks, moments.in_first), rows)
        return average.value, look_again(average, blocks, look)

    sides, alike = ((one, moments.few[1]), (other, moments.few[0])), jnp.zeros((), bool)
    for side, (ordered, g) in enumerate(sides):
        explaining = m if side else m.T
        alike |= _is_alike(ordered.order, g, explaining, moments.in_first[side], rows)

    def last_look() -> Array:
        wide = moments
        if most > few:  # they take most of the time, and are seldom needed
            wide = _CrossMoments.of((one, other), shares, rows, most, limit)
        blocks, available = Blocks.all(most), wide.available
        parts = [(top_squares(wide.matrix, blocks), *sizes_in(blocks, available))]
        for side, (ordered, g) in enumerate(sides if with_long else ()):
            found, cosines = _long_squares(ordered, g * shares[None], available[side], rows)
            thin = np.tile(np.arange(1, THIN + 1, dtype=np.int32), len(cosines) // THIN)
            count = jnp.minimum(thin, _reliable(g, shares, rows))
            sizes = (cosines, count) if side == 0 else (count, cosines)
            parts.append((found, *sizes))
        every, h, k = (jnp.concatenate(each) for each in zip(*parts, strict=True))
        return jnp.asarray(average_of_blocks(every, h, k, rows).value)

    def second_look() -> Array:
        value, is_large = look_at(Blocks.all(few), 1)
        return lax.cond(alike | is_large, last_look, lambda: value)

    value, is_small = look_at(Blocks.first(most), 0)
    many = jnp.maximum(*moments.in_first) > OF_BOTH
    return lax.cond(many & (alike | is_small), second_look, lambda: value)


def _is_alike(order: _Order, g: Array, m: Array, size: Array, rows: Array) -> Array:
    """Return whether neighbours are more alike than the first look explains."""
    last = len(order.order) - 1
    products = g[:, order.order[:-1]] * g[:, order.order[1:]]
    some = np.arange(min(last, NEIGHBOURS)) * last // max(min(last, NEIGHBOURS), 1)
    counts = jnp.minimum(np.array([OF_ONE, OF_FEW, OF_FEW], np.int32)[: len(g)], size)
    inside = np.arange(m.shape[1], dtype=np.int32)[None] < counts[:, None]
    explained = jnp.sum(jnp.where(inside, m[:THIN] ** 2, 0), axis=1)
    beyond = jnp.ones(len(g), bool)
    for part in (products[:, some], products):
        alike, error = jnp.mean(part, axis=1), jnp.std(part, axis=1) / part.shape[1] ** 0.5
        beyond &= alike_beyond(alike, error, explained, counts, rows)
    return jnp.any(beyond)


def _reliable(g: Array, shares: Array, rows: Array) -> Array:
    """Return how many of few functions ``g (3, n)`` do not single out a few rows."""
    largest = jnp.max(jnp.cumsum(g * g, axis=0) * (shares * rows)[None], axis=1)
    untied = largest_squares()[: len(g)].astype(g.dtype)
    share = jnp.minimum(safe_divide(untied, largest), 1)
    enough = rows * share**2 >= jnp.minimum(MIN_EFFECTIVE_ROWS, rows) * (1 - 1e-5)
    used = enough & (jnp.max(g * g, axis=1) > 0)
    return jnp.sum(jnp.cumprod(used.astype(jnp.int32)), dtype=jnp.int32)


def _long_squares(side: _Ranked, mass: Array, size: Array, rows: Array) -> _Two:
    """Return squared top values of long blocks, and their numbers of cosines, 0 if not listed.

    Of each number of cosines, and of all functions of the values, with 1 to 3 functions.

    ``mass (3, n)`` are few functions of the other variable times the shares of the rows.
    """
    order = side.order
    sums = order.sums(mass)
    of_level = sums[:, order.up_to] - sums[:, order.below]
    weight = order.edges[order.up_to] - order.edges[order.below]
    first = order.below == lax.iota(jnp.int32, len(order.below))
    root = lax.rsqrt(jnp.where(weight > 0, weight, 1))
    means = jnp.where(first[None], of_level * root[None], 0)
    grams = jnp.einsum("an,bn->ab", means, means, precision=lax.Precision.HIGHEST)[None]
    ends = np.array(long_sizes(len(side.share)), np.int32)
    if len(ends):
        m = _cosines_of_order(mass, side, int(ends[-1])).T
        partial = jnp.cumsum(m[:, :, None] * m[:, None, :], axis=0)
        grams = jnp.concatenate([partial[ends - 1], grams])
    cosines = jnp.append(ends, order.levels - 1)
    counts = (cosines > size) & (cosines.astype(rows.dtype) * ROWS_PER_SIZE <= rows)
    few = np.arange(THIN) < np.arange(1, THIN + 1)[:, None]
    few = few[:, : len(mass)]
    leading = jnp.where((few[:, :, None] & few[:, None, :])[None], grams[:, None], 0)
    tops = _top_eigenvalues(leading.reshape(-1, len(mass), len(mass)))
    tops = jnp.minimum(tops, 1).reshape(-1, len(few))
    rarest = jnp.min(jnp.where(first & (weight > 0), weight, 1)) * rows
    by_level = (rarest >= LEAST_ROWS - 1e-3) | (tops[-1] >= EXACT)
    listed = jnp.concatenate([jnp.ones((len(ends), len(few)), bool), by_level[None]])
    found = jnp.where(counts[:, None] & listed, cosines[:, None], 0)
    return tops.reshape(-1), found.reshape(-1)


def _cosines_of_order(mass: Array, side: _Ranked, most: int) -> Array:
    """Return the sums of ``mass (m, n)`` times ``sqrt(2) cos(pi j share)``, ``(m, most)``."""
    cosines, _ = cosine_moments(side.order.cells(mass), most)
    _, sines = cosine_moments(side.order.cells(mass * side.shift[None]), most)
    return cosines - np.pi * np.arange(1, most + 1, dtype=mass.dtype)[None] * sines


class _CrossMoments(NamedTuple):
    """Cross moments of orthonormal functions of two variables.

    Attributes:
      matrix: ``(h, k)``; rows and columns of functions left out come last, and are 0.
      available: number of functions of each variable that are not left out.
      in_first: number of those that the first looks have.
      few: the first functions of each variable at the rows, ``(3, n)``.
    """

    matrix: Array
    available: _Two
    in_first: _Two
    few: _Two

    @classmethod
    def of(
        cls, sides: Sequence[_Ranked], shares: Array, rows: Array, most: int, limit: Array
    ) -> _CrossMoments:
        """Make ``most`` functions orthonormal, and keep those among the first ``limit``."""
        fixed = lax.stop_gradient(shares)
        bases = [_Basis.of(side, fixed, rows, most, limit) for side in sides]
        columns = [side.share for side in sides]

        def products(inside: Array | None, u: Array, v: Array, w: Array) -> Array:
            w = (w if inside is None else w * inside)[None, :]
            a, b = jnp.concatenate([jnp.ones_like(w), bases[0](u)]), bases[1](v)
            weighted = a * w
            ab = matmul(weighted, b.T)
            return jnp.block([[matmul(weighted, a.T), ab], [ab.T, matmul(b * w, b.T)]])

        gram = sum_over_rows(products, [*columns, shares])
        mean, moments = gram[0, 1:], gram[1:, 1:] - gram[0, 1:, None] * gram[0, None, 1:]
        maps, available, in_first, few = [], [], [], []
        for place, (u, basis) in enumerate(zip(columns, bases, strict=True)):
            own = slice(place * most, (place + 1) * most)
            kept = basis.kept
            w = _orthonormalising(moments[own, own], kept)[jnp.argsort(~kept, stable=True)]
            maps.append(w)
            available.append(jnp.sum(kept, dtype=jnp.int32))
            in_first.append(jnp.sum(kept[:OF_ONE], dtype=jnp.int32))
            few.append(_at_rows(u, w[:THIN], mean[own], basis))
        matrix = matmul(matmul(maps[0], moments[:most, most:]), maps[1].T)
        pairs = [(x[0], x[1]) for x in (available, in_first, few)]
        return cls(matrix, *pairs)


def _at_rows(u: Array, w: Array, mean: Array, basis: _Basis) -> Array:
    """Return few orthonormal functions at the rows, ``(3, n)``, without all functions of them."""

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def of_block(u: Array) -> Array:
        return matmul(w, basis(u) - mean[:, None])

    if len(u) <= BLOCK_OF_ROWS:
        return of_block(u)
    blocks = lax.map(of_block, _cut_rows(u, "edge"))
    return jnp.moveaxis(blocks, 0, 1).reshape(len(w), -1)[:, : len(u)]


def _cut_rows(x: Array, fill: str) -> Array:
    """Return ``x (n,)`` in blocks ``(blocks, BLOCK_OF_ROWS)``, padded as `jax.numpy.pad` does."""
    blocks = -(-len(x) // BLOCK_OF_ROWS)
    return jnp.pad(x, (0, blocks * BLOCK_OF_ROWS - len(x)), mode=fill).reshape(blocks, -1)


class _Basis(NamedTuple):
    """Functions of the ranks of a sample that are orthonormal there, but for rounding.

    Attributes:
      mean: ``(d,)``, of the functions of ranks.
      map: ``(d, d)``, lower triangular, from these, less their means.
      kept: ``(d,)``, which are not left out: one whose residual variance, given the earlier ones,
        is at most ``1 / sqrt(n)`` of the largest variance in the first looks is, and its row is 0.
    """

    mean: Array
    map: Array
    kept: Array

    @classmethod
    def of(cls, side: _Ranked, shares: Array, rows: Array, most: int, limit: Array) -> _Basis:
        """Make ``most`` functions of the ranks of a variable orthonormal.

        Those after the first ``limit`` are not kept.  Those of ranks with few ties are known
        beforehand.
        """
        u = lax.stop_gradient(side.share)
        inside = np.arange(most, dtype=np.int32) < limit

        def of_sample() -> _Basis:
            return cls._of_sample(u, shares, rows, inside)

        if not side.equal:
            return of_sample()
        mean, maps = (x.astype(u.dtype) for x in maps_of_untied(min(len(u), MANY_ROWS), most))

        def of_untied() -> _Basis:
            return cls(jnp.asarray(mean[:, 0]), jnp.asarray(maps), jnp.asarray(inside))

        few = side.order.ties <= FEW_TIES * len(u) ** 3
        return lax.cond(few, lambda: on_shards_of(u, of_untied()), of_sample)

    @classmethod
    def _of_sample(cls, u: Array, shares: Array, rows: Array, inside: Any) -> _Basis:
        most = len(inside)

        def weighted(u: Array, w: Array) -> Array:
            f = jnp.concatenate([jnp.ones((1, len(u)), u.dtype), rank_functions(u, most)])
            return (f * jnp.sqrt(w)[None, :]).T

        if len(u) <= BLOCK_OF_ROWS:
            triangle = jnp.linalg.qr(weighted(u, shares), mode="r")
        else:
            blocks = _cut_rows(u, "edge"), _cut_rows(shares, "constant")

            def add(triangle: Array, block: _Two) -> tuple[Array, None]:
                both = jnp.concatenate([triangle, weighted(*block)])
                return jnp.linalg.qr(both, mode="r"), None

            start = on_shards_of(u, jnp.zeros((most + 1, most + 1), u.dtype))
            triangle, _ = lax.scan(add, start, blocks)
        mean = triangle[0, 1:] * triangle[0, 0]
        functions = triangle[1:, 1:].T  # as coordinates in orthonormal functions
        variances = jnp.sum(functions * functions, axis=1)
        counted = inside & (np.arange(most) < OF_ONE)
        largest = jnp.max(jnp.where(counted, variances, 0))
        varies = largest > 100 * float(jnp.finfo(u.dtype).eps)
        least = jnp.where(varies, largest, 1) / jnp.sqrt(rows)
        one = jnp.eye(most, dtype=u.dtype)

        def step(j: Array, found: _Two) -> _Two:
            units, maps = found
            rest, row = functions[j], one[j]
            for _ in range(2):  # twice, as the first time loses digits
                along = matmul(units, rest)
                rest, row = rest - matmul(along, units), row - matmul(along, maps)
            variance = jnp.sum(rest * rest)
            usable = varies & (variance > least)
            scale = jnp.where(usable, lax.rsqrt(jnp.where(usable, variance, 1)), 0)
            return units.at[j].set(rest * scale), maps.at[j].set(row * scale)

        start = on_shards_of(u, (jnp.zeros_like(functions), jnp.zeros_like(one)))
        _, maps = lax.fori_loop(0, most, step, start)
        return cls(mean, maps, (jnp.diagonal(maps) > 0) & inside)

    def __call__(self, u: Array) -> Array:
        """Return the functions ``(d, n)`` of shares ``(n,)``."""
        return matmul(self.map, rank_functions(u, len(self.map)) - self.mean[:, None])


@jax.custom_jvp
def _orthonormalising(s: Array, kept: Array) -> Array:
    """Return lower triangular W with ``W S W^T`` the identity but for functions not kept.

    ``s`` are the moments of functions that are nearly orthonormal.
    """
    both, one = kept[:, None] & kept[None, :], jnp.eye(len(s), dtype=s.dtype)
    root = jnp.linalg.cholesky(jnp.where(both, s, one))
    inverse = jax.scipy.linalg.solve_triangular(root, one, lower=True)
    return jnp.where(both, inverse, 0)


@_orthonormalising.defjvp
def _orthonormalising_jvp(primals: Any, tangents: Any) -> _Two:
    w = _orthonormalising(*primals)
    return w, -matmul(half_lower(matmul(matmul(w, tangents[0]), w.T)), w)


def top_squares(m: Array, blocks: Blocks) -> Array:
    """Return the squared largest singular value of each of the blocks of ``m``."""
    shorter = np.minimum(blocks.rows, blocks.columns)
    order = np.argsort(shorter > THIN, kind="stable").tolist()
    tops = [_top_eigenvalues(grams) for grams in _grams(m, blocks, order)]
    return jnp.minimum(jnp.concatenate(tops)[np.argsort(order)], 1)


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
