"""HGR itself: of ranks, with degrees chosen by the data, and without what chance adds.

HGR depends on the copula only, so functions of the ranks estimate it.

1. *Functions.*  Of the share u of the rows below a row (ties in the middle), in this order: a
   bounded quantile function, ``(u - 1/2)^2``, and ``cos(pi j u)`` from j = 3 on.  All are bounded:
   no corner of the square of the ranks has a say of its own, as it has with polynomials.  They are
   made orthonormal in the sample; a function that the earlier ones nearly determine is left out,
   as that of a rare level is.
2. *Blocks.*  The top singular value sigma of the first h rows and k columns of the cross moments is
   an estimate of HGR for every (h, k); `Blocks` lists those that are looked at.
3. *Debiasing.*  Among h and k functions chance adds to sigma what the limit law of a canonical
   correlation says (`debias`).
4. *Averaging.*  Block (h, k) has the score ``-n log(1 - sigma^2) - 4 (h + k - 1)``, and
   independence, with the value 0, has one of its own.  Where the best score is high, the noise that
   further functions add after debiasing is small beside the standard error, and what too few of
   them leave out is not: the penalty of a function then falls from 4 to 2.  The estimate is the
   average of the debiased values by weights ``exp(score / 2)``.
5. *Interval.*  The low end starts from the correlation, on rows held out, of functions found on the
   other rows (`_Folds`); the high end from the largest value that a block supports (`_highest`).

What is proved and what is a rule of thumb stands in the theory pages.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike, NDArray

from hgr_jax._arrays import as_dtype, is_traced
from hgr_jax._checks import as_pair, as_real_array, check_count, check_level, one_or_pair
from hgr_jax.core.fits import TransformedPair, check_single, normal_quantile, standard_error
from hgr_jax.core.linalg import factorise, half_lower, matmul
from hgr_jax.core.numerics import (
    fill_padding,
    row_count,
    safe_divide,
    safe_sqrt,
    sign_of,
)
from hgr_jax.core.rows import (
    first_rows,
    inner_products,
    mean_product,
    over_rows,
    pad_rows,
    padded_length,
    row_by_row,
    sum_over_rows,
)
from hgr_jax.core.solvers import top_pair

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

INDEPENDENCE = -1.0
"""Score of independence; that of one function of each variable is the statistic less 4."""

FOLDS = 5
"""Number of parts of the rows, each of which is held out once."""

LOW_WIDTH, HIGH_WIDTH = 1.1, 1.35
"""Standard errors at the ends of an interval, in units of the normal quantile: for the choice of
the numbers of functions, and for what bounded functions miss."""

RESOLVED_PER_ROOT = 5.0
"""Largest number of functions at the high end, as a multiple of the fourth root of the rows: with
as many as `SIZE_PER_ROOT` allows, chance hides too much."""

LEAST_SIZE = 4
"""Smallest number of functions that may show what further functions would add."""


_Two = tuple[Array, Array]
"""One array of either variable."""


def hgr(a: ArrayLike, b: ArrayLike, *, degrees: int | tuple[int, int] | None = None) -> Array:
    """Estimate HGR, the largest correlation between any functions of ``a`` and of ``b``.

        HGR(a, b) = sup over f, g of rho(f(a), g(b))

    by functions of the ranks, as many as the data support, without the bias that choosing them
    among many has.  Strictly monotone maps of ``a`` or ``b`` change nothing.

    Args:
      a, b: real arrays ``(n,)``, traced.  Integers and booleans are numbers.
      degrees: numbers of functions, static: one, or a pair (of a, of b).  None for an average over
        the numbers, by how well the data support each.

    Returns:
      A scalar in [0, 1], of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for shapes, dtypes or degrees other than the above.

    Derivatives: forward and reverse, with respect to ``a`` and ``b``: those of the estimate in the
    shares of the rows below a row, times the slope of the empirical distribution, which is linear
    between the middles of neighbouring values (the values themselves are constants).  Ties have
    slope 0.  Second derivatives exist, and are not those of the estimate.

    Degenerate data: a constant gives 0 with zero derivatives; NaN, infinity, or fewer than 5 rows
    give NaN.

    Cost: two sorts, and one pass over the rows in blocks.

    Source: Rényi, "On measures of dependence" (1959); Bao, Hu, Pan & Zhou, "Canonical correlation
    coefficients of high-dimensional Gaussian vectors" (2019), for the bias.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> angle = jnp.linspace(0, 2 * jnp.pi, 500, endpoint=False)
      >>> print(f"{hgr_jax.hgr(jnp.cos(angle), jnp.exp(jnp.sin(angle))):.3f}")  # a bent circle
      1.000
    """
    a, b = as_pair(a, b, max_ndim=1)
    value: Array = _estimate_of_ranks(a, b, degrees=_checked_degrees(degrees), fit=False)
    return value


def hgr_fit(a: ArrayLike, b: ArrayLike, *, degrees: int | tuple[int, int] | None = None) -> HGRFit:
    """Fit HGR: its estimate, an interval, and the transformations of the best numbers of functions.

    Degenerate data, cost and source as in `hgr`, whose value is the ``correlation`` of the result.

    Args:
      a, b, degrees: as in `hgr`.

    Returns:
      An `HGRFit`.

    Raises:
      TypeError, ValueError: as `hgr` does.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 401)
      >>> fit = hgr_jax.hgr_fit(a, jnp.exp(a**2))
      >>> print(f"{fit.correlation:.3f} {fit.score(a[::2], jnp.exp(a[::2] ** 2)):.3f}")
      1.000 1.000
    """
    a, b = as_pair(a, b, max_ndim=1)
    fit: HGRFit = _estimate_of_ranks(a, b, degrees=_checked_degrees(degrees), fit=True)
    f, g = (side.of_rows(a.shape[0]) for side in (fit.f, fit.g))
    return dataclasses.replace(fit, f=f, g=g)


def _checked_degrees(degrees: Any) -> tuple[int, int] | None:
    if degrees is None:
        return None
    h, k = one_or_pair("degrees", degrees, check_count)
    for size in (h, k):
        if size > SIZES[-1]:
            raise ValueError(f"degrees must be at most {SIZES[-1]}; got {degrees!r}.")
    return h, k


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RankTransform:
    """A transformation of `hgr_fit`: a combination of functions of the ranks in the sample.

    Between two values of the sample it is linear in the share of the rows; outside it is constant.
    It has zero mean and unit variance on the data of the fit.  Differentiable in ``x``.

    Attributes:
      sample: the data in increasing order, ``(n,)``.
      shares: their shares of the rows below, ties in the middle, ``(n,)``.
      coefficients: ``(1 + d,)`` of 1 and of the functions of the share.
    """

    sample: Array
    shares: Array
    coefficients: Array

    def __call__(self, x: ArrayLike) -> Array:
        """Return values ``(m,)`` at ``x (m,)``."""
        check_single(self.sample.shape[:-1])
        x = as_dtype(as_real_array("x", x, max_ndim=1), self.sample.dtype)
        transform = self
        if not is_traced(self, x):
            length = padded_length(self.sample.shape[0])
            transform = dataclasses.replace(
                self, sample=pad_rows(self.sample, length), shares=pad_rows(self.shares, length)
            )
        return _values_at(x, transform)

    def of_rows(self, rows: int) -> RankTransform:
        """Return the transformation without padded rows."""
        return dataclasses.replace(
            self, sample=first_rows(self.sample, rows), shares=first_rows(self.shares, rows)
        )


@row_by_row(columns=1)
def _values_at(x: Array, transform: RankTransform) -> Array:
    share = jnp.interp(x, transform.sample, transform.shares)
    values = matmul(transform.coefficients[1:], functions(share, len(transform.coefficients) - 1))
    return jnp.where(jnp.isnan(x), jnp.nan, values + transform.coefficients[0])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HGRFit(TransformedPair):
    """A fit of `hgr_fit`: an estimate of HGR, transformations that nearly attain it, an `interval`.

    Attributes:
      correlation: the estimate of HGR, in [0, 1].
      f, g: transformations of a and of b, of the block with the highest score; the sign of the
        pair makes f correlate positively with the ranks of a.
      raw: the correlation of ``f(a)`` and ``g(b)`` in the data of the fit, which is too high.
      standard_error: standard deviation of ``raw`` over samples, with f and g held fixed.
      degrees: numbers of functions of that block, ``(2,)``.
      dependence: weight of dependence in the average, from 0 to 1; independence has the rest.
      pvalue: p-value of independence, by the highest score.
      held_out: correlation, on rows held out, of functions found on the other rows.
      held_out_error: its standard error.
      highest: where the high end of the interval starts: the largest value that a block supports.
      rows: number of rows.
    """

    f: RankTransform
    g: RankTransform
    raw: Array
    standard_error: Array
    degrees: Array
    dependence: Array
    pvalue: Array
    held_out: Array
    held_out_error: Array
    highest: Array
    rows: Array

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return an interval for HGR.

            tanh(atanh(held_out) - 1.1 z se)  to  tanh(atanh(highest) + 1.35 z se),
            se = held_out_error / (1 - held_out^2)

        with z the normal quantile of ``(1 + level) / 2``.  The low end is 0 exactly where
        independence is not rejected: ``pvalue >= 1 - level``.  It is at most 2 ((1 - level) / 2)^(1
        / n) - 1: n tosses of two coins of this correlation may all agree.  A high end above 1 - 1 /
        n is 1.

        Args:
          level: asked coverage, above 0 and below 1, static.

        Returns:
          Both ends, scalars in [0, 1]; the estimate is between them.

        Raises:
          TypeError, ValueError: for a level other than the above.

        With ``degrees`` it is an interval for the largest correlation of so many functions, which
        is at most HGR.

        Coverage: that of 95% intervals, and their width, are in `python -m bench.truth`.  No
        interval covers what the rows can't show: functions that vary faster than all that are
        looked at, or a few rows that decide (the theory pages have both).

        Degenerate data: a constant shows nothing, and has the interval 0 to 1.  Fewer than 32 rows
        have the high end 1.  NaN where the estimate is.

        Example:
          >>> import numpy as np, hgr_jax
          >>> a, noise = np.random.default_rng(0).normal(size=(2, 1000))
          >>> low, high = hgr_jax.hgr_fit(a, a**2 + noise).interval()
          >>> print(f"{low:.2f} to {high:.2f}")
          0.85 to 0.96
        """
        level = check_level("level", level)
        z = normal_quantile((1 + level) / 2)
        error = z * safe_divide(self.held_out_error, 1 - self.held_out**2)
        agreeing = 2 * ((1 - level) / 2) ** (1 / self.rows) - 1
        low = jnp.minimum(_moved(self.held_out, -LOW_WIDTH * error), agreeing)
        tiny = float(jnp.finfo(low.dtype).eps)
        low = jnp.maximum(jnp.minimum(low, self.correlation), tiny)
        low = jnp.where(self.pvalue < 1 - level, low, 0)
        high = jnp.maximum(_moved(self.highest, HIGH_WIDTH * error), self.correlation)
        high = jnp.where(high < 1 - 1 / self.rows, high, 1)
        unknown = jnp.isnan(self.correlation)
        low, high = (jnp.where(unknown, jnp.nan, end) for end in (low, jnp.maximum(low, high)))
        return low, high


def _moved(correlation: Array, step: Array) -> Array:
    """Return ``tanh(atanh(correlation) + step)``."""
    shift = jnp.tanh(step)
    return (correlation + shift) / (1 + correlation * shift)


@over_rows(columns=2, static=("degrees", "fit"))
def _estimate_of_ranks(
    a: Array, b: Array, *, degrees: tuple[int, int] | None, fit: bool, count: Array | None
) -> Any:
    """Return the estimate, or the fit."""
    finite = jnp.all(jnp.isfinite(a)) & jnp.all(jnp.isfinite(b))
    sides = tuple(_Ranked.of(jnp.where(finite, x, 0), count) for x in (a, b))
    rows = jnp.asarray(row_count(count, a), a.dtype)
    blocks = Blocks.up_to(_largest_size(a.shape[0])) if degrees is None else Blocks.only(*degrees)
    folds = _Folds.of(sides, blocks, rows) if fit else None
    if folds is None:
        moments = _CrossMoments.of(_gram(sides, blocks, count), blocks, rows)
    else:
        every_moments = folds.moments(blocks)
        moments = jax.tree.map(lambda x: x[0], every_moments)
    squares = top_squares(moments.matrix, blocks)
    used = tuple(jnp.diagonal(w) > 0 for w in moments.maps)
    average = _average(squares, blocks, rows, (used[0], used[1]))
    valid = finite & (rows >= LEAST_ROWS)
    value = jnp.where(valid, average.value, jnp.nan)
    if folds is None:
        return value
    of_best, of_all = (blocks.weight(each) for each in (average.is_best, average.weights))
    weights = jnp.stack([of_best] + [of_all] * FOLDS)
    top = jax.vmap(_CrossMoments.top)(every_moments, weights)
    coefficients = [jnp.where(valid, c, jnp.nan) for c in top]
    x, y = folds.values(coefficients)
    sign = sign_of(jnp.sum(x[:, 0] * (folds.shares[0] - 0.5)))
    f, g = (side.transform(sign * c[0]) for side, c in zip(sides, coefficients, strict=True))
    raw, error = _correlation(x[:, 0], y[:, 0])
    held_out, held_out_error = _correlation(x[:, 1], y[:, 1])
    used_functions = jnp.stack([number[average.best] for number in average.functions])
    return HGRFit(
        correlation=value,
        f=f,
        g=g,
        raw=raw,
        standard_error=error,
        degrees=used_functions,
        dependence=average.dependence,
        pvalue=jnp.where(valid, _independence_pvalue(average.score, rows), jnp.nan),
        held_out=held_out,
        held_out_error=held_out_error,
        highest=_highest(average, blocks, rows, asked=degrees is not None),
        rows=rows,
    )


def _largest_size(rows: int) -> int:
    """Return the largest size of a block for at most so many rows."""
    allowed = min(SIZE_PER_ROOT * rows**0.25, rows / ROWS_PER_SIZE)
    return max(size for size in SIZES if size <= max(allowed, 1))


@dataclasses.dataclass(frozen=True)
class _Ranked:
    """A variable, and the share ``(n,)`` of the rows below each row, ties in the middle."""

    x: Array
    share: Array
    count: Array | None

    @classmethod
    def of(cls, x: Array, count: Array | None) -> _Ranked:
        """Rank a finite ``x (n,)``.

        The share has the derivative of the line through the shares of the next values below and
        above: that of a distribution that is linear between the middles of neighbours.
        """
        fixed = lax.stop_gradient(fill_padding(x, count, jnp.inf))
        rows = row_count(count, x)
        ordered = jnp.sort(fixed)
        below, up_to = (jnp.searchsorted(ordered, fixed, side=side) for side in ("left", "right"))
        share = (below + up_to).astype(x.dtype) / (2 * rows)
        previous, following = jnp.maximum(below - 1, 0), jnp.minimum(up_to, len(x) - 1)
        last = ordered[following]
        last = jnp.where(jnp.isfinite(last), last, fixed)
        width = last - jnp.minimum(ordered[previous], fixed)
        tiny = 2**20 * float(jnp.finfo(x.dtype).tiny)
        usable = jnp.isfinite(width) & (width > tiny) & (up_to - below == 1)
        slope = safe_divide(1 / jnp.asarray(rows, x.dtype), jnp.where(usable, width, 0))
        # Two steps of 1 / n between neighbours, one at the ends.
        ends = (below == 0) | (up_to == (len(x) if count is None else count))
        slope = slope * jnp.where(ends, 1, 2)
        return cls(x, fill_padding(share + slope * (x - lax.stop_gradient(x)), count, 0.5), count)

    def values(self, coefficients: Array) -> Array:
        """Return ``(n,)`` values of a combination of 1 and functions of the share."""
        parts = functions(self.share, len(coefficients) - 1)
        return coefficients[0] + matmul(coefficients[1:], parts)

    def transform(self, coefficients: Array) -> RankTransform:
        """Return the combination of 1 and functions of the share as a function of new values."""
        order = jnp.argsort(fill_padding(self.x, self.count, jnp.inf))
        sample, shares = lax.stop_gradient((self.x[order], self.share[order]))
        if self.count is not None:  # later rows repeat the last one
            last = jnp.minimum(lax.iota(jnp.int32, len(sample)), self.count - 1)
            sample, shares = sample[last], shares[last]
        return RankTransform(sample, shares, lax.stop_gradient(coefficients))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _CrossMoments:
    """The matrix of cross moments of orthonormal functions of two variables.

    Attributes:
      matrix: ``(h, k)``; rows and columns of functions left out are 0.
      means: means of the functions of each variable, ``(h,)`` and ``(k,)``.
      maps: from the functions to orthonormal ones, lower triangular.
    """

    matrix: Array
    means: _Two
    maps: _Two

    @classmethod
    def of(cls, gram: Array, blocks: Blocks, rows: Array) -> _CrossMoments:
        """Orthonormalise functions by the means of products ``(1 + h + k, 1 + h + k)``."""
        sizes = blocks.h, blocks.k
        mean, moments = gram[0, 1:], gram[1:, 1:] - gram[0, 1:, None] * gram[0, None, 1:]
        (aa, ab), (_, bb) = (
            jnp.split(part, [sizes[0]], axis=1) for part in jnp.split(moments, [sizes[0]])
        )
        left, right = (_orthonormalising(x, 1 / jnp.sqrt(rows)) for x in (aa, bb))
        means = mean[: sizes[0]], mean[sizes[0] :]
        return cls(matmul(matmul(left, ab), right.T), means, (left, right))

    def top(self, weight: Array) -> _Two:
        """Return coefficients of 1 and of the functions, of the top pair of the weighted matrix."""
        pair = top_pair(lax.stop_gradient(self.matrix) * weight, "svd")
        coefficients = []
        for w, means, direction in zip(self.maps, self.means, (pair.u, pair.v), strict=True):
            of_functions = matmul(w.T, direction)
            constant = -matmul(of_functions, means)[None]
            coefficients.append(jnp.concatenate([constant, of_functions]))
        return coefficients[0], coefficients[1]


def _gram(sides: Sequence[_Ranked], blocks: Blocks, count: Array | None) -> Array:
    """Return the means of products of 1 and the functions of both shares."""

    def values(inside: Array | None, u: Array, v: Array) -> Array:
        every = _functions_of_pair(u, v, blocks)
        return every if inside is None else every * inside[None, :]

    return mean_product(values, [side.share for side in sides], None, count)


def _functions_of_pair(u: Array, v: Array, blocks: Blocks) -> Array:
    """Return 1 and the functions of both shares, ``(1 + h + k, n)``."""
    one = jnp.ones((1, len(u)), u.dtype)
    return jnp.concatenate([one, functions(u, blocks.h), functions(v, blocks.k)])


@dataclasses.dataclass(frozen=True)
class _Folds:
    """The rows in `FOLDS` parts, each of which is held out once.

    Of every `FOLDS` rows that follow each other, each part has one.  Which one changes from group
    to group, as if at random, whatever the values and however many rows follow.

    Attributes:
      shares: of both variables, ``(FOLDS, m)``.
      inside: 1 for data and 0 for padding, ``(FOLDS, m)``.
      grams: sums of products of 1 and the functions of both shares, ``(FOLDS, d, d)``.
    """

    shares: _Two
    inside: Array
    grams: Array

    @classmethod
    def of(cls, sides: Sequence[_Ranked], blocks: Blocks, rows: Array) -> _Folds:
        """Sum the products of the functions of the shares, part by part."""
        length = len(sides[0].share)
        group = lax.iota(jnp.uint32, -(-length // FOLDS))[None, :]
        turn = (group * np.uint32(0x9E3779B9) >> 16) * FOLDS >> 16  # of the golden ratio
        part = jnp.arange(FOLDS, dtype=jnp.uint32)[:, None]
        place = (group * FOLDS + (part + turn) % FOLDS).astype(jnp.int32)
        inside = (place < rows.astype(jnp.int32)).astype(rows.dtype)
        u, v = (side.share[jnp.minimum(place, length - 1)] for side in sides)

        def products(more: Array | None, inside: Array, u: Array, v: Array) -> Array:
            data = inside if more is None else inside * more
            return inner_products(_functions_of_pair(u, v, blocks) * data[None, :])

        grams = lax.map(lambda parts: sum_over_rows(products, parts), (inside, u, v))
        return cls((u, v), inside, grams)

    def moments(self, blocks: Blocks) -> _CrossMoments:
        """Return the cross moments of all rows, and then those without each of the parts."""
        total = jnp.sum(self.grams, axis=0, keepdims=True)
        sums = jnp.concatenate([total, total - self.grams])
        rows = jnp.maximum(sums[:, 0, 0], 1)
        return jax.vmap(lambda gram, n: _CrossMoments.of(gram / n, blocks, n))(sums, rows)

    def values(self, coefficients: Sequence[Array]) -> _Two:
        """Return values ``(FOLDS, 2, m)`` of f and of g, found on all rows and on the other parts.

        Args:
          coefficients: of 1 and of functions of both shares, ``(1 + FOLDS, 1 + h)``, ``(1 + FOLDS,
            1 + k)``, in the order of `moments`.
        """

        def of_part(part: tuple[Array, ...]) -> _Two:
            inside, *pairs = part
            f, g = (
                (matmul(c[:, 1:], functions(share, c.shape[1] - 1)) + c[:, :1]) * inside[None, :]
                for c, share in zip(pairs[:2], pairs[2:], strict=True)
            )
            return f, g

        both = (jnp.stack([jnp.broadcast_to(c[:1], c[1:].shape), c[1:]], 1) for c in coefficients)
        f, g = lax.map(of_part, (self.inside, *both, *self.shares))
        return f, g


def _correlation(f: Array, g: Array) -> _Two:
    """Return the correlation of functions of mean near 0, 0 for padding, and its standard error."""
    f, g = (x * safe_divide(1, safe_sqrt(jnp.sum(x * x))) for x in (f, g))
    correlation = jnp.clip(jnp.sum(f * g), -1, 1)
    return correlation, standard_error(f, g, correlation)


def functions(u: Array, degree: int) -> Array:
    """Return functions ``(degree, n)`` of shares ``(n,)``, of mean near 0 and variance near 1."""
    quantile = np.sqrt(12.6) * jnp.sin(jnp.arcsin(jnp.clip(2 * u - 1, -1, 1)) / 3)
    square = np.sqrt(180) * ((u - 0.5) ** 2 - 1 / 12)
    j = np.arange(3, max(degree, 2) + 1).astype(u.dtype)[:, None]
    waves = np.sqrt(2) * jnp.cos(np.pi * j * u[None, :])
    return jnp.concatenate([quantile[None], square[None], waves])[:degree]


@jax.custom_jvp
def _orthonormalising(s: Array, least: Array) -> Array:
    """Return lower triangular W with ``W S W^T`` the identity but for functions left out.

    A function of residual variance up to ``least`` times the largest variance is left out: its row
    is 0.
    """
    largest = jnp.max(jnp.diagonal(s))  # near 1, but where one value is frequent
    varies = largest > 100 * float(jnp.finfo(s.dtype).eps)
    scale = jnp.sqrt(safe_divide(1, jnp.where(varies, largest, 0)))
    return factorise(s * scale * scale, least)[1] * scale


@_orthonormalising.defjvp
def _orthonormalising_jvp(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
    w = _orthonormalising(*primals)
    return w, -matmul(half_lower(matmul(matmul(w, tangents[0]), w.T)), w)


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
        """The order that has thin blocks first, as `_grams` has them."""
        return np.argsort(np.minimum(self.rows, self.columns) > THIN, kind="stable")

    def weight(self, of_blocks: Array) -> Array:
        """Return the sum of the weights of the blocks that an entry is in, ``(h, k)``."""
        first, second = (
            (np.arange(size)[:, None] < np.array(sizes)).astype(of_blocks.dtype)
            for size, sizes in ((self.h, self.rows), (self.k, self.columns))
        )
        return matmul(first * of_blocks[None, :], second.T)

    @classmethod
    def only(cls, h: int, k: int) -> Blocks:
        """Return the whole matrix as the only block."""
        return cls(h, k, (h,), (k,))

    @classmethod
    @functools.cache
    def up_to(cls, size: int) -> Blocks:
        """Return thin blocks of all `SIZES`, and square ones."""
        sizes = [each for each in SIZES if each <= size]
        pairs = [(h, k) for h in sizes for k in sizes if min(h, k) <= THIN or h == k]
        rows, columns = zip(*pairs, strict=True)
        return cls(size, size, rows, columns)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def top_squares(m: Array, blocks: Blocks) -> Array:
    """Return the squared largest singular value of each leading block of ``m``."""
    tops = [jnp.linalg.eigvalsh(grams)[..., -1].ravel() for grams in _grams(m, blocks)]
    return jnp.maximum(jnp.concatenate(tops)[np.argsort(blocks.order)], 0)


@top_squares.defjvp
def _top_squares_jvp(
    blocks: Blocks, primals: tuple[Array], tangents: tuple[Array]
) -> tuple[Array, Array]:
    """A block's square ``v^T B^T B v`` moves by ``2 v^T B^T dB v``, with v its top vector."""
    m = lax.stop_gradient(primals[0])
    rows, columns = np.array(blocks.rows)[:, None], np.array(blocks.columns)[:, None]
    by_rows = rows < columns
    size = max(blocks.h, blocks.k)
    tops = []
    for grams in _grams(m, blocks):
        vectors = jnp.linalg.eigh(grams)[1][..., -1].reshape(-1, grams.shape[-1])
        tops.append(jnp.pad(vectors, [(0, 0), (0, size - vectors.shape[1])]))
    top = jnp.concatenate(tops)[np.argsort(blocks.order)]
    u, v = top[:, : blocks.h], top[:, : blocks.k]
    u, v = (
        jnp.where(by_rows, u, jnp.where(np.arange(blocks.h) < rows, matmul(v, m.T), 0)),
        jnp.where(by_rows, jnp.where(np.arange(blocks.k) < columns, matmul(u, m), 0), v),
    )
    return top_squares(m, blocks), 2 * jnp.sum(matmul(u, tangents[0]) * v, axis=1)


def _grams(m: Array, blocks: Blocks) -> list[Array]:
    """Return Gram matrices of the blocks, of rows or of columns, whichever are fewer.

    First all thin blocks, ``(t, 3, 3)``, padded by 0: those of one width are partial sums of one
    another.  Then the others, each alone.
    """
    thin, others = [], []
    width = min(THIN, blocks.h, blocks.k)
    sums = [
        jnp.cumsum(part[:, :, None] * part[:, None, :], axis=0)
        for part in (m[:, :width], m[:width].T)
    ]
    for place in blocks.order:
        h, k = blocks.rows[place], blocks.columns[place]
        if min(h, k) > THIN:
            part = m[:h, :k] if h < k else m[:h, :k].T
            others.append(matmul(part, part.T))
        else:
            thin.append((int(h < k), max(h, k) - 1, min(h, k)))
    if not thin:
        return others
    of_rows, last, number = np.array(thin).T
    longest = max(len(part) for part in sums)
    stacked = jnp.stack([jnp.pad(x, [(0, longest - len(x)), (0, 0), (0, 0)]) for x in sums])
    inside = np.arange(width) < number[:, None]
    grams = jnp.where(inside[:, :, None] & inside[:, None, :], stacked[of_rows, last], 0)
    return [grams, *others]


@dataclasses.dataclass(frozen=True)
class _Average:
    """An estimate of HGR.

    Attributes:
      value: the estimate.
      best: place of the block with the highest score.
      functions: numbers of functions of both variables in each block, less those left out.
      dependence: weight of dependence beside independence.
      values: debiased value of each block.
      weights: weight of each block in the average.
      mean: the average over the blocks, without independence.
      score: the highest score.
    """

    value: Array
    best: Array
    functions: tuple[Array, Array]
    dependence: Array
    values: Array
    weights: Array
    mean: Array
    score: Array

    @property
    def is_best(self) -> Array:
        """1 for the block with the highest score, 0 for the others."""
        return (jnp.arange(len(self.values)) == self.best).astype(self.values.dtype)


def _average(squares: Array, blocks: Blocks, rows: Array, used: tuple[Array, Array]) -> _Average:
    """Average the debiased values of blocks by their scores.

    Args:
      squares: squared top singular value of each block.
      blocks: the blocks.
      rows: number of rows.
      used: which functions of each variable were not left out, ``(h,)`` and ``(k,)``.
    """
    h, k = (
        jnp.cumsum(kept.astype(jnp.int32))[np.array(sizes) - 1]
        for sizes, kept in zip((blocks.rows, blocks.columns), used, strict=True)
    )
    values = debias(squares, h, k, rows)
    below_1 = jnp.minimum(squares, 1 - float(jnp.finfo(squares.dtype).eps))
    statistic, further = -rows * jnp.log1p(-below_1), (h + k - 1).astype(squares.dtype)
    listed = (h > 0) & (k > 0)
    if len(squares) == 1:  # asked for: it has no rivals, not even independence
        one = jnp.ones((), squares.dtype)
        best = jnp.where(listed, statistic - PENALTY * further, -jnp.inf)[0]
        return _Average(
            value=values[0],
            best=jnp.zeros((), jnp.int32),
            functions=(h, k),
            dependence=one,
            values=values,
            weights=one[None],
            mean=values[0],
            score=best,
        )
    # Where functions are left out, blocks have the same others; only the first of these counts.
    same = (h[:, None] == h[None, :]) & (k[:, None] == k[None, :])
    listed &= ~jnp.any(same & np.tri(len(squares), k=-1, dtype=bool), axis=1)
    size = np.maximum(blocks.rows, blocks.columns).astype(squares.dtype)
    listed &= size <= _size_for(rows, SIZE_PER_ROOT)

    score = jnp.where(listed, statistic - PENALTY * further, -jnp.inf)
    best = jnp.max(score)
    top = jnp.maximum(best, INDEPENDENCE)
    total = jnp.sum(jnp.exp((score - top) / 2))
    dependence = total / (total + jnp.exp((INDEPENDENCE - top) / 2))

    weak = jnp.exp(-jnp.maximum(best, 0) / STRONG_SCORE)
    penalty = weak * PENALTY + (1 - weak) * PENALTY_OF_STRONG
    second = jnp.where(listed, statistic - penalty * further, -jnp.inf)
    highest = jnp.where(jnp.any(listed), jnp.max(second), 0)
    weights = jnp.exp((second - highest) / 2)
    mean = safe_divide(jnp.sum(weights * values), jnp.sum(weights))
    return _Average(
        value=dependence * mean,
        best=jnp.argmax(score),
        functions=(h, k),
        dependence=dependence,
        values=values,
        weights=weights,
        mean=mean,
        score=best,
    )


def _size_for(rows: Array, per_root: float) -> Array:
    """Return a bound on the sizes of blocks for this number of rows."""
    return jnp.maximum(jnp.minimum(per_root * rows**0.25, rows / ROWS_PER_SIZE), 1)


def _independence_pvalue(score: Array, rows: Array) -> Array:
    """Return the p-value of independence by the highest score.

    Its distribution under independence is free of the law without ties; this is a fit to
    simulations of 20 to 10,000 rows.
    """
    return jnp.minimum(0.08 * (1 + 20 / rows) * jnp.exp(-score / 2), 1)


def _highest(average: _Average, blocks: Blocks, rows: Array, *, asked: bool) -> Array:
    """Return the largest value that a block supports, before the sampling error.

    That is the average, or the value of the largest block (or what chance hides there).  To the
    latter is added what the last doubling of the functions gained, as further ones may gain it too;
    nothing where the block was asked for.  1 where there are too few functions to say so.
    """
    place: Any = 0
    gain, few = jnp.zeros((), rows.dtype), jnp.zeros((), bool)
    if not asked:
        square = np.flatnonzero(np.equal(blocks.rows, blocks.columns))
        sizes = np.array(blocks.rows)[square]
        half = np.maximum(np.searchsorted(sizes, sizes / 2, side="right") - 1, 0)
        largest = jnp.sum(sizes.astype(rows.dtype) <= _size_for(rows, RESOLVED_PER_ROOT)) - 1
        place, few = jnp.array(square)[largest], jnp.array(sizes)[largest] < LEAST_SIZE
        gain = average.values[place] - average.values[jnp.array(square[half])[largest]]
    h, k = (number[place].astype(rows.dtype) for number in average.functions)
    value = jnp.maximum(average.values[place], _hidden(h, k, rows)) + jnp.maximum(gain, 0)
    few |= (h == 0) | (k == 0)
    return jnp.where(few, 1, jnp.minimum(jnp.maximum(value, average.mean), 1))


def _hidden(h: Array, k: Array, n: Array) -> Array:
    """Return the largest correlation among h and k functions that looks like noise (`debias`)."""
    a, b = ((jnp.maximum(number, 1) - 1) / n for number in (h, k))
    return safe_sqrt(safe_sqrt(safe_divide(a * b, (1 - a) * (1 - b))))


def debias(square: Array, h: Array, k: Array, n: Array) -> Array:
    """Return the correlation whose sample value among h and k functions tends to this one.

    The limit of a squared canonical correlation r is (Bao, Hu, Pan & Zhou 2019)

        (r (1 - h/n) + h/n) (r (1 - k/n) + k/n) / r,

    here with h - 1 and k - 1: one function of each variable has no bias to remove.  The result is
    0, with zero derivatives, below what chance alone reaches.
    """
    a, b = (h.astype(square.dtype) - 1) / n, (k.astype(square.dtype) - 1) / n
    c, d = 1 - a, 1 - b
    p = square - c * b - d * a
    discriminant = p * p - 4 * c * d * a * b
    above = (discriminant >= 0) & (p > 0)
    root = safe_sqrt(jnp.where(above, discriminant, 0))
    r = jnp.where(above, (p + root) / (2 * c * d), 0)
    return safe_sqrt(jnp.minimum(r, 1))
