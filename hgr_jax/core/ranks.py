"""Functions of the ranks of a variable, and HGR from their cross moments: of JAX or of NumPy.

`rank_functions` are the functions; `Blocks` lists the leading blocks of the matrix M of their cross
moments that are looked at; `average_of_blocks` turns the squared top singular values of the blocks
into an estimate of HGR.  How, and what of it is proved, is in the theory page "HGR of ranks".
All three take arrays of JAX, traced or not, or of NumPy, and return such.

Source: Bao, Hu, Pan & Zhou, "Canonical correlation coefficients of high-dimensional Gaussian
vectors" (2019), for the bias.
"""

from __future__ import annotations

import dataclasses
import functools
from statistics import NormalDist
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from hgr_jax._arrays import Floats

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of functions of one variable in a block."""

THIN = 3
"""Blocks with at most so many functions of one variable are looked at for every size of the other;
thicker ones only with as many functions of both."""

SIZE_PER_ROOT = 6.0
"""Largest size of a block, as a multiple of the fourth root of the number of rows."""

ROWS_PER_SIZE = 8
"""Smallest number of rows for each function of one variable."""

LEAST_ROWS = 5
"""Smallest number of rows for which there is a value."""

PENALTY, PENALTY_OF_STRONG = 4.0, 2.0
"""Penalty of each function for weak and for strong dependence, in units of a block's statistic."""

STRONG_SCORE = 20.0
"""Score above independence at which most of the way to `PENALTY_OF_STRONG` is gone."""

FOLDS = 5
"""Number of parts of the rows, each of which is held out once for an interval."""

INDEPENDENCE = -1.0
"""Score of independence; that of one function of each variable is the statistic less 4."""

LOW_WIDTH, HIGH_WIDTH = 1.1, 1.35
"""Standard errors at the ends of an interval, in units of the normal quantile: for the choice of
the numbers of functions, and for what bounded functions miss."""

RESOLVED_PER_ROOT = 5.0
"""Largest number of functions at the high end, as a multiple of the fourth root of the rows: with
as many as `hgr` looks at, chance hides too much."""

LEAST_SIZE = 4
"""Smallest number of functions that may show what further functions would add."""

LEAST_EXTRAPOLATED_SIZE = 32
"""Smallest number of functions whose two last doublings say how fast their gains shrink."""

EXTRAPOLATED_SHARE = 0.75
"""Share of the extrapolated gain that is added: gains of smooth functions end sooner."""


def _library_of(x: Any) -> Any:
    return jnp if isinstance(x, Array) else np


def rank_functions(share: Any, degree: int) -> Any:
    """Return functions ``(degree, ...)`` of shares of the rows below, of mean near 0, variance 1.

    In this order: a bounded quantile function, ``(u - 1/2)^2``, and ``cos(pi j u)`` from j = 3 on.
    All are bounded: no corner of the square of the ranks has a say of its own, as it has with
    polynomials.
    """
    xp = _library_of(share)
    quantile = np.sqrt(12.6) * xp.sin(xp.arcsin(xp.clip(2 * share - 1, -1, 1)) / 3)
    square = np.sqrt(180) * ((share - 0.5) ** 2 - 1 / 12)
    if xp is np:
        waves = _waves(share, degree)
    else:
        j = np.arange(3, max(degree, 3) + 1).astype(share.dtype)
        angles = j.reshape(-1, *[1] * share.ndim) * _repeated(share, len(j))
        waves = np.sqrt(2) * _cos_pi(angles)
    return xp.concatenate([quantile[None], square[None], waves])[:degree]


def _waves(share: Floats, degree: int) -> Floats:
    """Return ``sqrt(2) cos(pi j u)`` for j = 3 .. ``degree`` by recurrence, of NumPy arrays."""
    waves = np.empty((max(degree - 2, 0), *share.shape), share.dtype)
    first = np.cos(np.pi * share)
    last, wave = np.sqrt(2) * first, np.sqrt(2) * (2 * first * first - 1)
    for place in range(len(waves)):
        last, wave = wave, np.subtract(2 * first * wave, last, out=waves[place])
    return waves


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _repeated(x: Array, count: int) -> Array:
    """Return ``count`` times ``x``, ``(count, ...)``."""
    return jnp.broadcast_to(x[None], (count, *x.shape))


@_repeated.defjvp
def _repeated_jvp(count: int, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """The transpose of a concatenation is a sum of its parts.

    XLA uses vector instructions for that, but not for the sum over an axis of a broadcast.
    """
    return _repeated(*primals, count), jnp.concatenate([tangents[0][None]] * count)


@jax.custom_jvp
def _cos_pi(x: Array) -> Array:
    """Return ``cos(pi x)`` by a polynomial, in a tenth of the time of `jax.numpy.cos`."""
    y = 0.5 - jnp.abs(x - 2 * jnp.round(x / 2))  # cos(pi x) = sin(pi y)
    square, total = (np.pi * y) ** 2, jnp.ones_like(y)
    for i in range(20 if x.dtype == np.float64 else 12, 0, -2):  # to the last digit of the dtype
        total = 1 - total * square * (1 / (i * (i + 1)))
    return np.pi * y * total


@_cos_pi.defjvp
def _cos_pi_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,) = primals
    return _cos_pi(x), np.pi * _cos_pi(x + 0.5) * tangents[0]


@dataclasses.dataclass(frozen=True)
class Blocks:
    """Leading blocks of a matrix: block i has ``rows[i]`` rows and ``columns[i]`` columns.

    Attributes:
      h, k: largest numbers of rows and of columns.
      rows, columns: sizes of the blocks.
    """

    h: int
    k: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @functools.cached_property
    def order(self) -> NDArray[np.intp]:
        """The order that has thin blocks first."""
        return np.argsort(np.minimum(self.rows, self.columns) > THIN, kind="stable")

    @functools.cached_property
    def growing(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Places of the blocks whose two sides grow together, and their sizes.

        Those with as many rows as columns; where one side has a single size, all.
        """
        rows, columns = np.array(self.rows), np.array(self.columns)
        single = rows.min() == rows.max() or columns.min() == columns.max()
        places = np.flatnonzero((rows == columns) | single)
        other = columns if rows.min() == rows.max() else rows
        return places, other[places]

    @classmethod
    def only(cls, h: int, k: int) -> Blocks:
        """Return the whole matrix as the only block."""
        return cls(h, k, (h,), (k,))

    @classmethod
    @functools.cache
    def within(cls, h: int, k: int) -> Blocks:
        """Return thin blocks of all `SIZES`, and square ones, of a matrix ``(h, k)``."""
        sizes = [(i, j) for i in SIZES for j in SIZES if i <= h and j <= k]
        sizes = [(i, j) for i, j in sizes if min(i, j) <= THIN or i == j]
        rows, columns = zip(*sizes, strict=True)
        return cls(h, k, rows, columns)


def largest_size(rows: Any, per_root: float = SIZE_PER_ROOT) -> Any:
    """Return the largest size of a block for numbers of rows ``(...)``."""
    xp = _library_of(rows)
    allowed = xp.minimum(per_root * rows**0.25, rows / ROWS_PER_SIZE)
    sizes = np.reshape(np.array(SIZES, allowed.dtype), (-1, *[1] * np.ndim(rows)))
    return xp.max(xp.where(sizes <= allowed, sizes, 1), axis=0)


@dataclasses.dataclass(frozen=True)
class Average:
    """Estimates of HGR.

    Attributes:
      value: ``(...)``, the estimates.
      of_blocks: ``(...)``, the estimates before they move to the limit of ever more functions.
      values: ``(blocks, ...)``, the debiased values of single blocks.
      score: ``(...)``, the highest scores.
      best: ``(...)``, places of the blocks with the highest scores.
      weights: ``(blocks, ...)``, of sum 1, or all 0.
      functions: numbers of functions of both variables in each block ``(blocks, ...)``.
      dependence: ``(...)``, weight of dependence beside independence.
    """

    value: Any
    of_blocks: Any
    values: Any
    score: Any
    best: Any
    weights: Any
    functions: tuple[Any, Any]
    dependence: Any


def average_of_blocks(
    squares: Any, blocks: Blocks, rows: Any, available: tuple[Any, Any], *, asked: bool = False
) -> Average:
    """Average the debiased values of blocks by their scores.

    Block (h, k) has the score ``-n log(1 - sigma^2) - 4 (h + k - 1)``, and independence, with the
    value 0, has one of its own.  Where the best score is high, the penalty falls from 4 to 2.  The
    estimate is the average of the debiased values by weights ``exp(score / 2)``; where doubling the
    functions still adds to it, it moves to the limit of the blocks (`_towards_limit`).

    Args:
      squares: squared top singular values of the blocks, ``(blocks, ...)``.
      blocks: the blocks.
      rows: number of rows, ``(...)``.
      available: number of functions of both variables that their values and `largest_size` allow,
        ``(...)``.
      asked: whether the only block is asked for: it has no rivals, not even independence.
    """
    xp = _library_of(squares)
    beside = [1] * (squares.ndim - 1)
    h, k = (
        xp.minimum(np.reshape(np.array(sizes, np.int32), (-1, *beside)), count[None])
        for sizes, count in zip((blocks.rows, blocks.columns), available, strict=True)
    )
    values = debias(squares, h, k, rows)
    listed = _first_of_its_sizes(h, k) & (h > 0) & (k > 0)

    below_1 = xp.minimum(squares, 1 - float(jnp.finfo(squares.dtype).eps))
    statistic, further = -rows * xp.log1p(-below_1), (h + k - 1).astype(squares.dtype)
    score = xp.where(listed, statistic - PENALTY * further, -np.inf)
    best, place = xp.max(score, axis=0), xp.argmax(score, axis=0)
    if asked:
        one = xp.ones(best.shape, squares.dtype)
        return Average(values[0], values[0], values, best, place, one[None], (h, k), one)
    top = xp.maximum(best, INDEPENDENCE)
    total = xp.sum(xp.exp((score - top) / 2), axis=0)
    dependence = total / (total + xp.exp((INDEPENDENCE - top) / 2))

    weak = xp.exp(-xp.maximum(best, 0) / STRONG_SCORE)
    penalty = weak * PENALTY + (1 - weak) * PENALTY_OF_STRONG
    second = xp.where(listed, statistic - penalty * further, -np.inf)
    highest = xp.where(xp.any(listed, axis=0), xp.max(second, axis=0), 0)
    weights = xp.exp((second - highest) / 2)
    whole = xp.sum(weights, axis=0)
    whole = xp.where(whole > 0, whole, 1)
    of_blocks = dependence * (xp.sum(weights * values, axis=0) / whole)
    value = _towards_limit(of_blocks, values, blocks, rows, available)
    return Average(value, of_blocks, values, best, place, weights / whole, (h, k), dependence)


def _towards_limit(
    value: Any, values: Any, blocks: Blocks, rows: Any, available: tuple[Any, Any]
) -> Any:
    """Move an estimate towards the limit of the values of ever more functions.

    The error of d smooth functions for a jump shrinks as 1/d.  So let the doublings to s/2 and s
    functions gain g and h; the further ones gain ``h (q + q^2 + ...) = h q / (1 - q)`` with
    ``q = h / g``, at most 1/2.  The estimate moves there as h passes 2 to 3 standard deviations of
    what chance gains, and the value 2 to 3 times what chance hides.

    Args:
      value: the estimates, ``(...)``.
      values: debiased values of the blocks, ``(blocks, ...)``.
      blocks, rows, available: as for `average_of_blocks`.
    """
    xp = _library_of(value)
    places, sizes = blocks.growing
    if sizes[-1] < LEAST_EXTRAPOLATED_SIZE:
        return value
    size = xp.minimum(largest_size(rows), float(sizes[-1]))

    def value_of(size: Any) -> Any:
        place = xp.asarray(places)[xp.searchsorted(xp.asarray(sizes, value.dtype), size)]
        return xp.take_along_axis(values, xp.broadcast_to(place, value.shape)[None], axis=0)[0]

    last, half, quarter = (value_of(size / part) for part in (1, 2, 4))
    gain, earlier = last - half, half - quarter
    hidden = size / rows
    chance = _root(hidden / rows / 2) * (1 - last**2) / xp.maximum(last, 0.1)
    used = xp.clip(gain / xp.maximum(chance, 1e-6) - 2, 0, 1)
    used = used * xp.clip(last / _root(hidden) - 2, 0, 1)
    many = xp.maximum(*available).astype(value.dtype) >= size
    used = xp.where(many & (size >= LEAST_EXTRAPOLATED_SIZE), used, 0)
    shrinking = xp.clip(gain / xp.where(earlier > 0, earlier, 1), 0, 0.5)
    shrinking = xp.where(earlier > 0, shrinking, 0.5)
    limit = last + EXTRAPOLATED_SHARE * gain * shrinking / (1 - shrinking)
    return xp.where(used > 0, value + used * xp.maximum(xp.minimum(limit, 1) - value, 0), value)


def _first_of_its_sizes(h: Any, k: Any) -> Any:
    """Return which blocks ``(blocks, ...)`` of sizes h and k are the first of their sizes.

    Where functions are left out, blocks have the same others; only the first of these counts.
    """
    xp = _library_of(h)
    if xp is np:  # in few passes over many pairs
        sizes = h.astype(np.int64) * (1 + k.max(initial=0)) + k
        if (sizes == sizes[:, :1]).all():
            first = np.zeros(len(h), bool)
            first[np.unique(sizes[:, 0], return_index=True)[1]] = True
            return np.broadcast_to(first[:, None], h.shape)
    same = (h[:, None] == h[None, :]) & (k[:, None] == k[None, :])
    earlier = np.tri(len(h), k=-1, dtype=bool).reshape(*same.shape[:2], *[1] * (h.ndim - 1))
    return ~xp.any(same & earlier, axis=1)


def debias(square: Any, h: Any, k: Any, n: Any) -> Any:
    """Return the correlation whose sample value among h and k functions tends to this one.

    The limit of a squared canonical correlation r is (Bao, Hu, Pan & Zhou 2019)

        (r (1 - h/n) + h/n) (r (1 - k/n) + k/n) / r,

    here with h - 1 and k - 1: one function of each variable has no bias to remove.  The result is
    0, with zero derivatives, below what chance alone reaches.
    """
    xp = _library_of(square)
    a, b = (h.astype(square.dtype) - 1) / n, (k.astype(square.dtype) - 1) / n
    c, d = 1 - a, 1 - b
    p = square - c * b - d * a
    discriminant = p * p - 4 * c * d * a * b
    above = (discriminant >= 0) & (p > 0)
    root = _root(xp.where(above, discriminant, 0))
    r = xp.where(above, (p + root) / (2 * c * d), 0)
    return _root(xp.minimum(r, 1))


def _root(x: Any) -> Any:
    """Return the square root of ``x >= 0``, with zero derivatives where it is 0."""
    xp = _library_of(x)
    return xp.where(x > 0, xp.sqrt(xp.where(x > 0, x, 1)), 0)


def highest_supported(average: Average, blocks: Blocks, rows: Any, *, asked: bool = False) -> Any:
    """Return the largest value that a block supports, before the sampling error.

    That is the average, or the value of the largest block (or what chance hides there).  To the
    latter is added what the last doubling of the functions gained, as further ones may gain it too;
    nothing where the block was asked for.  1 where there are too few functions to say so.
    """
    xp = _library_of(average.value)
    place, gain, few = 0, xp.zeros_like(average.value), xp.zeros_like(average.value) > 0
    if not asked:
        places, sizes = blocks.growing
        half = np.maximum(np.searchsorted(sizes, sizes / 2, side="right") - 1, 0)
        resolved = largest_size(rows, RESOLVED_PER_ROOT)
        last = xp.minimum(xp.sum(sizes.astype(average.value.dtype) < resolved), len(places) - 1)
        place, few = xp.asarray(places)[last], resolved < LEAST_SIZE
        gain = average.values[place] - average.values[xp.asarray(places[half])[last]]
    h, k = (number[place].astype(average.value.dtype) for number in average.functions)
    a, b = ((xp.maximum(number, 1) - 1) / rows for number in (h, k))
    below = xp.maximum((1 - a) * (1 - b), float(jnp.finfo(average.value.dtype).tiny))
    hidden = _root(_root(a * b / below))  # the largest correlation that looks like noise
    value = xp.maximum(average.values[place], hidden) + xp.maximum(gain, 0)
    few = few | (h == 0) | (k == 0)
    mean = xp.sum(average.weights * average.values, axis=0)
    return xp.where(few, 1, xp.minimum(xp.maximum(value, mean), 1))


def independence_pvalue(score: Any, rows: Any) -> Any:
    """Return the p-value of independence by the highest score.

    Its law under independence is free of the margins without ties; this is a fit to simulations of
    20 to 10,000 rows.
    """
    xp = _library_of(score)
    return xp.minimum(0.08 * (1 + 20 / rows) * xp.exp(-score / 2), 1)


def ends_of_interval(
    value: Any, held_out: tuple[Any, Any], highest: Any, pvalue: Any, rows: Any, level: float
) -> tuple[Any, Any]:
    """Return both ends of an interval for HGR, as `hgr_jax.measures.hgr.HGRFit.interval` says.

    Args:
      value: the estimate.
      held_out: the correlation on rows held out, and its standard error.
      highest: of `highest_supported`.
      pvalue: of independence.
      rows: number of rows.
      level: asked coverage.
    """
    xp = _library_of(value)
    z = NormalDist().inv_cdf((1 + level) / 2)
    below_1 = 1 - held_out[0] ** 2
    error = xp.where(below_1 > 0, z * held_out[1] / xp.where(below_1 > 0, below_1, 1), 0)
    agreeing = 2 * ((1 - level) / 2) ** (1 / rows) - 1
    low = xp.minimum(_moved(held_out[0], -LOW_WIDTH * error), agreeing)
    low = xp.maximum(xp.minimum(low, value), float(jnp.finfo(low.dtype).eps))
    low = xp.where(pvalue < 1 - level, low, 0)
    high = xp.maximum(_moved(highest, HIGH_WIDTH * error), value)
    high = xp.where(high < 1 - 1 / rows, high, 1)
    unknown = xp.isnan(value)
    return xp.where(unknown, np.nan, low), xp.where(unknown, np.nan, xp.maximum(low, high))


def _moved(correlation: Any, step: Any) -> Any:
    """Return ``tanh(atanh(correlation) + step)``."""
    shift = _library_of(step).tanh(step)
    return (correlation + shift) / (1 + correlation * shift)
