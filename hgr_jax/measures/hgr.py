"""HGR itself: of ranks, with degrees chosen by the data, and without what chance adds.

HGR depends on the copula only, so functions of the ranks estimate it.

1. *Functions.*  `rank_functions` of the share of the rows below a row (ties in the middle) are made
   orthonormal in the sample; a function that the earlier ones nearly determine is left out, as that
   of a rare level is.
2. *Blocks.*  The top singular value sigma of the first h rows and k columns of the cross moments is
   an estimate of HGR for every (h, k); `Blocks` lists those that are looked at.
3. *Debiasing, averaging.*  `average_of_blocks` removes what chance adds to sigma, and averages.
4. *Interval.*  The low end starts from the correlation, on rows held out, of functions found on the
   other rows (`_Folds`); the high end from the largest value that a block supports.

What is proved and what is a rule of thumb stands in the theory pages.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike

from hgr_jax._arrays import as_dtype, is_traced
from hgr_jax._checks import (
    as_pair,
    as_real_array,
    as_repeats,
    as_weights,
    check_count,
    check_indexes,
    check_level,
    one_or_pair,
    rows_at,
)
from hgr_jax.core.fits import TransformedPair, check_single, standard_error, takes_one_value
from hgr_jax.core.linalg import factorise, half_lower, matmul
from hgr_jax.core.numerics import (
    fill_padding,
    row_count,
    row_mask,
    safe_divide,
    safe_sqrt,
    sign_of,
)
from hgr_jax.core.ranks import (
    FOLDS,
    LEAST_ROWS,
    SIZES,
    THIN,
    Blocks,
    average_of_blocks,
    ends_of_interval,
    highest_supported,
    independence_pvalue,
    largest_size,
    rank_functions,
)
from hgr_jax.core.rows import (
    first_rows,
    inner_products,
    over_rows,
    pad_rows,
    padded_length,
    row_by_row,
    sum_over_rows,
)
from hgr_jax.core.solvers import top_pair

if TYPE_CHECKING:
    from hgr_jax.measures.conditional_hgr import ConditionalHGRFit

ROUNDING_OF_MOMENTS, MAX_ERROR_OF_NORM = 32, 0.01
"""Rounding error of the moments in units of the last place, and largest error of the norm of a
function that it may make: beyond, as of many functions of few levels, the function is left out."""

_Two = tuple[Array, Array]
"""One array of either variable."""


def hgr(
    a: ArrayLike,
    b: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    counts: ArrayLike | None = None,
    given: Any = None,
    degrees: int | tuple[int, int] | None = None,
    neighbours: int = 1,
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
      degrees: numbers of functions, static: one, or a pair (of a, of b).  None for an average over
        the numbers, by how well the data support each.  For numbers only, and not with ``given``.
      neighbours: for derivatives only, static: the number of rows below and above a row over which
        the slope of the empirical distribution is taken.

    Returns:
      A scalar in [0, 1], of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for shapes, dtypes, degrees or neighbours other than the above, for
        series of pandas with different indexes, and beside a category for a missing level or
        impossible weights.

    With weights n is the effective number of rows, ``(sum w)^2 / sum w^2``: it decides how many
    functions are looked at, and what chance adds.

    With ``given`` it is the largest partial correlation,

        sup over f, g of rho(f(a) - E[f(a) | c], g(b) - E[g(b) | c])

    0 where a and b are independent given c.  It may be 0 elsewhere: where c decides the sign of the
    dependence, say, which `hgr_jax.independence_test` looks for.  The conditional means are the
    regression of that test.  What it misses of c makes strong dependence look weaker (.9 given
    three columns, 1,000 rows: .87), and may make independence look like a little dependence.

    Derivatives: forward and reverse, with respect to ``weights``, and to ``a`` and ``b``: those of
    the estimate in the shares of the rows below a row, times the slope of the empirical
    distribution, which is linear between the middles of neighbouring values (the values themselves
    are constants).  Ties have slope 0.  Between near ties this slope is huge; with more
    ``neighbours`` it is that of the line through rows farther apart, ties have a slope too, and
    what functions beyond the largest block add counts as a constant.
    Second derivatives exist, and are not those of the estimate.  A category has none.

    Degenerate data: a constant gives 0 with zero derivatives; NaN, infinity, fewer than 5
    (effective) rows (10 with ``given``), and a category most of whose rows have levels of fewer
    than 5 rows or 1% of them, as names have (with ``given`` an error), give NaN.  Negative
    weights, or none above 0, are an error, and under `jit` NaN.

    Cost: two sorts, and one pass over the rows in blocks.

    Source: Rényi, "On measures of dependence" (1959); Bao, Hu, Pan & Zhou, "Canonical correlation
    coefficients of high-dimensional Gaussian vectors" (2019), for the bias.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> angle = jnp.linspace(0, 2 * jnp.pi, 500, endpoint=False)
      >>> print(f"{hgr_jax.hgr(jnp.cos(angle), jnp.exp(jnp.sin(angle))):.3f}")  # a bent circle
      1.000
    """
    sizes, neighbours = _checked_degrees(degrees), check_count("neighbours", neighbours)
    if given is not None:
        if neighbours > 1:
            raise ValueError("neighbours are for derivatives, which HGR given others has not.")
        floats = [
            x for x in (a, b) if isinstance(x, Array) and jnp.issubdtype(x.dtype, jnp.floating)
        ]
        dtype = jnp.result_type(*floats) if floats else jnp.result_type(float)
        fit = hgr_fit(a, b, weights=weights, counts=counts, given=given, degrees=degrees)
        return jnp.asarray(fit.correlation, dtype)
    a, b, weights, _ = _counted(a, b, weights, counts)
    x, y = _read_pair(a, b, weights)
    if not (isinstance(x, Array) and isinstance(y, Array)):
        from hgr_jax.measures._levels import hgr_with_levels  # numbers do without its imports

        if sizes is not None:
            raise ValueError("degrees are of two numbers; a category has all of its levels.")
        return hgr_with_levels(x, y, weights)
    w = as_weights(weights, x.shape[0], x.dtype)
    value: Array = _estimate_of_ranks(x, y, w, degrees=sizes, neighbours=neighbours, fit=False)
    return value


@overload
def hgr_fit(
    a: ArrayLike,
    b: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    counts: ArrayLike | None = None,
    given: None = None,
    degrees: int | tuple[int, int] | None = None,
) -> HGRFit: ...


@overload
def hgr_fit(
    a: ArrayLike,
    b: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    counts: ArrayLike | None = None,
    given: Any,
    degrees: int | tuple[int, int] | None = None,
) -> ConditionalHGRFit: ...


def hgr_fit(
    a: ArrayLike,
    b: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    counts: ArrayLike | None = None,
    given: Any = None,
    degrees: int | tuple[int, int] | None = None,
) -> HGRFit | ConditionalHGRFit:
    """Fit HGR: its estimate, an interval, and the transformations of the best numbers of functions.

    Degenerate data, cost and source as in `hgr`, whose value is the ``correlation`` of the result.

    Args:
      a, b, weights, counts, given, degrees: as in `hgr`, but categories only with ``given``.

    Returns:
      An `HGRFit`.  With ``weights`` its interval, p-value and ``rows`` are of the effective number
      of rows.  With ``given`` a `ConditionalHGRFit`.

    Raises:
      TypeError, ValueError: as `hgr` does.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 401)
      >>> fit = hgr_jax.hgr_fit(a, jnp.exp(a**2))
      >>> print(f"{fit.correlation:.3f} {fit.score(a[::2], jnp.exp(a[::2] ** 2)):.3f}")
      1.000 1.000
    """
    sizes = _checked_degrees(degrees)
    a, b, weights, given = _counted(a, b, weights, counts, given)
    if given is not None:
        from hgr_jax.measures.conditional_hgr import conditional_hgr_fit

        if sizes is not None:
            raise ValueError("degrees are of two variables alone: leave them out with given.")
        return conditional_hgr_fit(a, b, given, weights)
    x, y = _read_pair(a, b, weights)
    if not (isinstance(x, Array) and isinstance(y, Array)):
        raise TypeError(
            "hgr_fit is of two numbers, and a or b is a category:"
            ' hgr_jax.scan({"a": a, "b": b}).fit("a", "b") has functions of its levels.'
        )
    rows = x.shape[0]
    w = as_weights(weights, rows, x.dtype)
    fit: HGRFit = _estimate_of_ranks(x, y, w, degrees=sizes, neighbours=1, fit=True)
    f, g = (side.of_rows(rows) for side in (fit.f, fit.g))
    return dataclasses.replace(fit, f=f, g=g)


def _counted(a: Any, b: Any, weights: Any, counts: Any, given: Any = None) -> tuple[Any, ...]:
    """Return a, b, the weights and the given variables with each row as often as it occurred."""
    if counts is None:
        return a, b, weights, given
    if is_traced(a, b, weights, counts, given):
        raise TypeError("counts are of concrete data: repeat the rows before tracing.")
    check_indexes(a=a, b=b, weights=weights, counts=counts, given=given)
    order = as_repeats(counts, len(a))
    a, b, weights, given = (rows_at(x, order) for x in (a, b, weights, given))
    return a, b, weights, given


def _read_pair(a: Any, b: Any, weights: Any) -> tuple[Any, Any]:
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

    @takes_one_value
    def __call__(self, x: ArrayLike) -> Array:
        """Return values ``(m,)`` at ``x (m,)``; a scalar at one number."""
        check_single(self.sample.shape[:-1])
        x = as_dtype(as_real_array("x", x, max_ndim=1), self.sample.dtype)
        transform = self
        if not is_traced(self, x):
            length = padded_length(self.sample.shape[0])
            transform = dataclasses.replace(
                self, sample=pad_rows(self.sample, length), shares=pad_rows(self.shares, length)
            )
        return _values_at(x, transform)

    def formula(self, name: str, digits: int = 2, least: float = 0.05) -> str:
        """Return the transformation as text, of the share u of the rows below a value.

        Args:
          name: of the variable.
          digits: of the coefficients.
          least: coefficients below this are left out; the transformation has unit variance.
        """
        check_single(self.sample.shape[:-1])
        constant, *terms = np.asarray(self.coefficients, np.float64)
        scales = [np.sqrt(12.6), np.sqrt(180), *[np.sqrt(2)] * len(terms)]
        texts = ["sin(asin(2 u - 1) / 3)", "(u - 1/2)^2"]
        texts += [f"cos({j} pi u)" for j in range(3, len(terms) + 1)]
        if len(terms) > 1:
            constant -= terms[1] * np.sqrt(180) / 12
        parts = [
            f"{'-' if term < 0 else '+'} {abs(term * scale):.{digits}f} {text}"
            for term, scale, text in zip(terms, scales, texts[: len(terms)], strict=False)
            if abs(term * scale) >= least
        ]
        whole = " ".join([f"{constant:.{digits}f}", *parts])
        return f"{whole},  u = share of the values below {name}"

    def of_rows(self, rows: int) -> RankTransform:
        """Return the transformation without padded rows."""
        return dataclasses.replace(
            self, sample=first_rows(self.sample, rows), shares=first_rows(self.shares, rows)
        )


@row_by_row(columns=1)
def _values_at(x: Array, transform: RankTransform) -> Array:
    share = jnp.interp(x, transform.sample, transform.shares)
    values = matmul(
        transform.coefficients[1:], rank_functions(share, len(transform.coefficients) - 1)
    )
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
      standard_error: standard deviation of ``raw`` over samples, with f and g held fixed; with
        weights that of a weighted mean, ``sqrt(sum w^2 psi^2) / sum w``.
      degrees: numbers of functions of that block, ``(2,)``.
      dependence: weight of dependence in the average, from 0 to 1; independence has the rest.
      pvalue: p-value of independence, by the highest score.
      held_out: correlation, on rows held out, of functions found on the other rows.
      held_out_error: its standard error.
      highest: where the high end of the interval starts: the largest value that a block supports.
      rows: number of rows; with weights the effective one.
    """

    f: RankTransform = dataclasses.field(repr=False)
    g: RankTransform = dataclasses.field(repr=False)
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
        return ends_of_interval(
            self.correlation,
            (self.held_out, self.held_out_error),
            self.highest,
            self.pvalue,
            self.rows,
            check_level("level", level),
        )


@over_rows(columns=3, static=("degrees", "neighbours", "fit"), weights=2)
def _estimate_of_ranks(
    a: Array,
    b: Array,
    weights: Array | None,
    *,
    degrees: tuple[int, int] | None,
    neighbours: int,
    fit: bool,
    count: Array | None,
) -> Any:
    """Return the estimate, or the fit."""
    finite = jnp.isfinite(a) & jnp.isfinite(b)
    valid = jnp.all(finite if weights is None else finite | (weights == 0))
    if weights is None:
        rows = jnp.asarray(row_count(count, a), a.dtype)
    else:
        weights, are_weights = _scaled_to_effective_rows(weights)
        rows, count, valid = jnp.sum(weights), None, valid & are_weights
    valid &= rows >= LEAST_ROWS
    sides = tuple(
        _Ranked.of(jnp.where(jnp.isfinite(x), x, 0), count, neighbours, weights) for x in (a, b)
    )
    largest = int(largest_size(a.shape[0]))
    blocks = Blocks.within(largest, largest) if degrees is None else Blocks.only(*degrees)
    # With padded rows there are more functions than the rows allow.
    most = largest_size(rows) if degrees is None else max(degrees)
    folds = _Folds.of(sides, blocks, rows, weights) if fit else None
    if folds is None:
        moments = _CrossMoments.of(_gram(sides, blocks, count, weights), blocks, rows, most)
    else:
        every_moments = folds.moments(blocks, most)
        moments = jax.tree.map(lambda x: x[0], every_moments)
    squares = top_squares(moments.matrix, blocks)
    average = average_of_blocks(squares, blocks, rows, moments.available, asked=degrees is not None)
    value = average.value
    if neighbours > 1:  # slopes across many rows are not those of the fastest functions
        value = average.of_blocks + lax.stop_gradient(value - average.of_blocks)
    value = jnp.where(valid, value, jnp.nan)
    if folds is None:
        return value
    is_best = jax.nn.one_hot(average.best, len(squares), dtype=squares.dtype)
    of_best, of_all = (_weights_of_entries(each, blocks) for each in (is_best, average.weights))
    of_entries = jnp.stack([of_best] + [of_all] * FOLDS)
    top = jax.vmap(_CrossMoments.top)(every_moments, of_entries)
    coefficients = [jnp.where(valid, c, jnp.nan) for c in top]
    x, y = folds.values(coefficients)
    sign = sign_of(jnp.sum(x[:, 0] * folds.roots * (folds.shares[0] - 0.5)))
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
        pvalue=jnp.where(valid, independence_pvalue(average.score, rows), jnp.nan),
        held_out=held_out,
        held_out_error=held_out_error,
        highest=highest_supported(average, blocks, rows, asked=degrees is not None),
        rows=rows,
    )


def _scaled_to_effective_rows(weights: Array) -> _Two:
    """Return weights whose sum is the effective number of rows, and whether they are valid.

    Equal weights are 1, exactly: the largest is, before sums are taken.
    """
    largest = lax.stop_gradient(jnp.max(weights))
    valid = (jnp.min(weights) >= 0) & (largest > 0) & (largest < jnp.inf)
    w = jnp.where(valid, weights / jnp.where(valid, largest, 1), 1)
    return w * (jnp.sum(w) / jnp.sum(w * w)), valid


@dataclasses.dataclass(frozen=True)
class _Ranked:
    """A variable, and the share ``(n,)`` of the (weighted) rows below each row, ties in the middle.

    ``inside`` is the mask of the rows that are data of positive weight, or None for all.
    """

    x: Array
    share: Array
    inside: Array | None

    @classmethod
    def of(
        cls, x: Array, count: Array | None, neighbours: int = 1, weights: Array | None = None
    ) -> _Ranked:
        """Rank a finite ``x (n,)``."""
        share = _share_below(x, weights, count, neighbours)
        inside = row_mask(count, len(x)) if weights is None else weights > 0
        return cls(x, fill_padding(share, count, 0.5), inside)

    def transform(self, coefficients: Array) -> RankTransform:
        """Return the combination of 1 and functions of the share as a function of new values."""
        x = self.x if self.inside is None else jnp.where(self.inside, self.x, jnp.inf)
        order = jnp.argsort(x)
        sample, shares = lax.stop_gradient((self.x[order], self.share[order]))
        if self.inside is not None:  # later rows repeat the last one
            last = jnp.sum(self.inside, dtype=jnp.int32) - 1
            last = jnp.minimum(lax.iota(jnp.int32, len(sample)), last)
            sample, shares = sample[last], shares[last]
        return RankTransform(sample, shares, lax.stop_gradient(coefficients))


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def _share_below(x: Array, weights: Array | None, count: Array | None, neighbours: int) -> Array:
    """Return the share of the (weighted) rows below each row, ties in the middle."""
    if weights is not None:
        share = _weighted_share(weights, _Places.of(x, None, ordered_rows=True))
        least = float(jnp.finfo(x.dtype).eps)  # at 0 and 1, slopes of the functions are infinite
        return jnp.clip(share, least, 1 - least)
    places = _Places.of(x, row_mask(count, len(x)))
    return (places.below + places.up_to).astype(x.dtype) / (2 * row_count(count, x))


def _weighted_share(weights: Array, places: _Places) -> Array:
    total = jnp.cumsum(weights[places.order])
    total = jnp.concatenate([jnp.zeros(1, total.dtype), total])
    return (total[places.below] + total[places.up_to]) / (2 * total[-1])


@_share_below.defjvp
def _share_below_jvp(neighbours: int, primals: Any, tangents: Any) -> tuple[Array, Array]:
    """The share follows the line through the rows ``neighbours`` below and above."""
    x, weights, count = primals
    share = _share_below(x, weights, count, neighbours)
    if weights is None:
        places, rows = _Places.of(x, row_mask(count, len(x))), row_count(count, x)
    else:
        places = _Places.of(x, weights > 0, ordered_rows=True)
        rows = jnp.sum(weights > 0, dtype=jnp.int32)
    first = jnp.maximum(places.below - neighbours, 0)
    last = jnp.minimum(places.up_to - 1 + neighbours, rows - 1)
    width = places.ordered[last] - places.ordered[first]
    tiny = 2**20 * float(jnp.finfo(x.dtype).tiny)
    usable = jnp.isfinite(width) & (width > tiny)
    if neighbours == 1:
        usable &= places.up_to - places.below == 1
    if weights is None:
        rise, of_weights = (last - first).astype(x.dtype) / rows, 0.0
    else:
        w = weights[places.order]
        middle = (jnp.cumsum(w) - w / 2) / jnp.sum(w)
        rise = middle[last] - middle[first]
        of_all = functools.partial(_weighted_share, places=_Places.of(x, None, ordered_rows=True))
        of_weights = jax.jvp(of_all, (weights,), (tangents[1],))[1]
    return share, safe_divide(rise, jnp.where(usable, width, 0)) * tangents[0] + of_weights


class _Places(NamedTuple):
    """The places of values in order: ``ordered (n,)``, and where the values stand in it.

    Attributes:
      ordered: values that are data, in order, and then infinity.
      below, up_to: numbers of these below and up to each value.
      order: the rows of ``ordered``, if asked for.
    """

    ordered: Array
    below: Array
    up_to: Array
    order: Array | None

    @classmethod
    def of(cls, x: Array, inside: Array | None, *, ordered_rows: bool = False) -> _Places:
        """Order the rows of ``x (n,)`` that are ``inside``, or all."""
        bits = f"int{8 * x.dtype.itemsize}"  # XLA sorts integers in a fifth of the time of floats

        def flip(code: Array) -> Array:
            return jnp.where(code < 0, code ^ jnp.iinfo(bits).max, code)

        def encode(x: Array) -> Array:
            return flip(lax.bitcast_convert_type(jnp.where(x == 0, 0, x), bits))

        code = encode(lax.stop_gradient(x))
        last = encode(jnp.full((), jnp.inf, x.dtype))
        filled = code if inside is None else jnp.where(inside, code, last)
        if ordered_rows:
            ordered, order = lax.sort((filled, lax.iota(jnp.int32, len(x))), num_keys=1)
        else:
            ordered, order = jnp.sort(filled), None
        below, up_to = (jnp.searchsorted(ordered, code, side=side) for side in ("left", "right"))
        return cls(lax.bitcast_convert_type(flip(ordered), x.dtype), below, up_to, order)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _CrossMoments:
    """The matrix of cross moments of orthonormal functions of two variables.

    Attributes:
      matrix: ``(h, k)``; rows and columns of functions left out come last, and are 0.
      means: means of the functions of each variable, ``(h,)`` and ``(k,)``.
      maps: from the functions to orthonormal ones, in the order of ``matrix``.
      available: number of functions of each variable that are not left out.
    """

    matrix: Array
    means: _Two
    maps: _Two
    available: _Two

    @classmethod
    def of(cls, gram: Array, blocks: Blocks, rows: Array, most: Any) -> _CrossMoments:
        """Orthonormalise functions by the means of products ``(1 + h + k, 1 + h + k)``.

        Functions of either variable after the first ``most`` are left out.
        """
        sizes = blocks.h, blocks.k
        mean, moments = gram[0, 1:], gram[1:, 1:] - gram[0, 1:, None] * gram[0, None, 1:]
        (aa, ab), (_, bb) = (
            jnp.split(part, [sizes[0]], axis=1) for part in jnp.split(moments, [sizes[0]])
        )
        maps, available = [], []
        for moments_of_side in (aa, bb):
            counted = np.arange(len(moments_of_side)).astype(moments_of_side.dtype) < most
            variances = lax.stop_gradient(jnp.diagonal(moments_of_side))
            share = safe_divide(jnp.max(jnp.where(counted, variances, 0)), jnp.max(variances))
            w = _orthonormalising(moments_of_side, share / jnp.sqrt(rows))
            # Rounding of the moments, times the square of a row of the map, is its error of norm.
            rounding = lax.stop_gradient(jnp.sum(w * w, axis=1)) * ROUNDING_OF_MOMENTS
            kept = (jnp.diagonal(w) > 0) & counted
            kept &= rounding * float(jnp.finfo(w.dtype).eps) < MAX_ERROR_OF_NORM
            maps.append(jnp.where(kept[:, None], w, 0)[jnp.argsort(~kept, stable=True)])
            available.append(jnp.sum(kept, dtype=jnp.int32))
        matrix = matmul(matmul(maps[0], ab), maps[1].T)
        means = mean[: sizes[0]], mean[sizes[0] :]
        return cls(matrix, means, (maps[0], maps[1]), (available[0], available[1]))

    def top(self, weight: Array) -> _Two:
        """Return coefficients of 1 and of the functions, of the top pair of the weighted matrix."""
        pair = top_pair(lax.stop_gradient(self.matrix) * weight, "svd")
        coefficients = []
        for w, means, direction in zip(self.maps, self.means, (pair.u, pair.v), strict=True):
            of_functions = matmul(w.T, direction)
            constant = -matmul(of_functions, means)[None]
            coefficients.append(jnp.concatenate([constant, of_functions]))
        return coefficients[0], coefficients[1]


def _weights_of_entries(weights: Array, blocks: Blocks) -> Array:
    """Return the sum of the weights of the blocks that an entry is in, ``(h, k)``."""
    first, second = (
        (np.arange(size)[:, None] < np.array(sizes)).astype(weights.dtype)
        for size, sizes in ((blocks.h, blocks.rows), (blocks.k, blocks.columns))
    )
    return matmul(first * weights[None, :], second.T)


def _gram(
    sides: Sequence[_Ranked], blocks: Blocks, count: Array | None, weights: Array | None = None
) -> Array:
    """Return the means of products of 1 and the functions of both shares."""
    columns = [side.share for side in sides]
    if weights is not None:
        columns.append(weights)
    total = sum_over_rows(functools.partial(_products_of_functions, blocks), columns, count)
    return total / total[0, 0]


def _products_of_functions(
    blocks: Blocks, inside: Array | None, u: Array, v: Array, weights: Array | None = None
) -> Array:
    """Return the (weighted) sums of products of 1 and the functions of both shares."""
    one = jnp.ones((1, len(u)), u.dtype)
    a, b = jnp.concatenate([one, rank_functions(u, blocks.h)]), rank_functions(v, blocks.k)
    if weights is not None:
        w = (weights if inside is None else weights * inside)[None, :]
        weighted = a * w
        ab = matmul(weighted, b.T)
        return jnp.block([[matmul(weighted, a.T), ab], [ab.T, matmul(b * w, b.T)]])
    if inside is not None:
        a, b = a * inside[None, :], b * inside[None, :]
    ab = matmul(a, b.T)  # in parts: where only b has derivatives, that of a a^T is none
    return jnp.block([[inner_products(a), ab], [ab.T, inner_products(b)]])


@dataclasses.dataclass(frozen=True)
class _Folds:
    """The rows in `FOLDS` parts, each of which is held out once.

    Of every `FOLDS` rows that follow each other, each part has one.  Which one changes from group
    to group, as if at random, whatever the values and however many rows follow.  Rows of weight 0
    are in no part.

    Attributes:
      shares: of both variables, ``(FOLDS, m)``.
      weights: 0 for padding; without weights 1 for data, ``(FOLDS, m)``.
      grams: sums of products of 1 and the functions of both shares, ``(FOLDS, d, d)``.
    """

    shares: _Two
    weights: Array
    grams: Array

    @classmethod
    def of(
        cls, sides: Sequence[_Ranked], blocks: Blocks, rows: Array, weights: Array | None
    ) -> _Folds:
        """Sum the products of the functions of the shares, part by part."""
        length = len(sides[0].share)
        group = lax.iota(jnp.uint32, -(-length // FOLDS))[None, :]
        turn = (group * np.uint32(0x9E3779B9) >> 16) * FOLDS >> 16  # of the golden ratio
        part = jnp.arange(FOLDS, dtype=jnp.uint32)[:, None]
        place = (group * FOLDS + (part + turn) % FOLDS).astype(jnp.int32)
        row = jnp.minimum(place, length - 1)
        if weights is None:
            weights = (place < rows.astype(jnp.int32)).astype(rows.dtype)
        else:
            row = jnp.argsort(weights == 0, stable=True)[row]
            weights = jnp.where(place < length, weights[row], 0)
        u, v = (side.share[row] for side in sides)

        def products(inside: Array | None, w: Array, u: Array, v: Array) -> Array:
            return _products_of_functions(blocks, inside, u, v, w)

        grams = lax.map(lambda parts: sum_over_rows(products, parts), (weights, u, v))
        return cls((u, v), weights, grams)

    @property
    def roots(self) -> Array:
        """The square roots of the weights, ``(FOLDS, m)``."""
        return safe_sqrt(self.weights)

    def moments(self, blocks: Blocks, most: Any) -> _CrossMoments:
        """Return the cross moments of all rows, and then those without each of the parts."""
        total = jnp.sum(self.grams, axis=0, keepdims=True)
        sums = jnp.concatenate([total, total - self.grams])
        rows = jnp.maximum(sums[:, 0, 0], 1)
        return jax.vmap(lambda gram, n: _CrossMoments.of(gram / n, blocks, n, most))(sums, rows)

    def values(self, coefficients: Sequence[Array]) -> _Two:
        """Return values ``(FOLDS, 2, m)`` of f and of g, found on all rows and on the other parts.

        They are times the roots of the weights.

        Args:
          coefficients: of 1 and of functions of both shares, ``(1 + FOLDS, 1 + h)``, ``(1 + FOLDS,
            1 + k)``, in the order of `moments`.
        """

        def of_part(part: tuple[Array, ...]) -> _Two:
            root, *pairs = part
            f, g = (
                (matmul(c[:, 1:], rank_functions(share, c.shape[1] - 1)) + c[:, :1]) * root[None, :]
                for c, share in zip(pairs[:2], pairs[2:], strict=True)
            )
            return f, g

        both = (jnp.stack([jnp.broadcast_to(c[:1], c[1:].shape), c[1:]], 1) for c in coefficients)
        f, g = lax.map(of_part, (self.roots, *both, *self.shares))
        return f, g


def _correlation(f: Array, g: Array) -> _Two:
    """Return the correlation of functions of mean near 0, and its standard error.

    The functions are times the roots of the weights: 0 for padding.
    """
    f, g = (x * safe_divide(1, safe_sqrt(jnp.sum(x * x))) for x in (f, g))
    correlation = jnp.clip(jnp.sum(f * g), -1, 1)
    return correlation, standard_error(f, g, correlation)


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
    (m,) = primals
    rows, columns = np.array(blocks.rows)[:, None], np.array(blocks.columns)[:, None]
    by_rows = rows < columns
    size = max(blocks.h, blocks.k)
    tops = []
    for grams in _grams(lax.stop_gradient(m), blocks):
        vectors = jnp.linalg.eigh(grams)[1][..., -1].reshape(-1, grams.shape[-1])
        tops.append(jnp.pad(vectors, [(0, 0), (0, size - vectors.shape[1])]))
    top = jnp.concatenate(tops)[np.argsort(blocks.order)]
    u, v = top[:, : blocks.h], top[:, : blocks.k]
    image_u = jnp.where(np.arange(blocks.k) < columns, matmul(u, m), 0)
    image_v = jnp.where(np.arange(blocks.h) < rows, matmul(v, m.T), 0)
    squares = jnp.sum(jnp.where(by_rows, image_u, 0) ** 2, axis=1)
    squares += jnp.sum(jnp.where(by_rows, 0, image_v) ** 2, axis=1)
    u, v = lax.stop_gradient((jnp.where(by_rows, u, image_v), jnp.where(by_rows, image_u, v)))
    return squares, 2 * jnp.sum(matmul(u, tangents[0]) * v, axis=1)


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
