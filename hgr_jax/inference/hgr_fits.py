"""Fits of HGR: an estimate, an interval, a p-value, and transformations that nearly attain it."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from hgr_jax._arrays import Floats, is_traced
from hgr_jax._checks import as_host_weights, as_real_array, check_level
from hgr_jax.core.describe import Means, describe
from hgr_jax.core.fits import TransformedPair
from hgr_jax.core.host.estimates import HGREstimate, correlation_of
from hgr_jax.inference.independence import independence_test
from hgr_jax.measures.conditional_hgr import ConditionalHGRFit, conditional_hgr_fit
from hgr_jax.measures.hgr import estimate_of_numbers, read_pair
from hgr_jax.tables.levels import Category, codes_of_labels


@overload
def hgr_fit(
    a: ArrayLike,
    b: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    given: None = None,
) -> HGRFit: ...


@overload
def hgr_fit(
    a: ArrayLike,
    b: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    given: Any,
) -> ConditionalHGRFit: ...


def hgr_fit(
    a: ArrayLike,
    b: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    given: Any = None,
) -> HGRFit | ConditionalHGRFit:
    """Fit HGR: its estimate, an interval, a p-value and the transformations.

    Degenerate data, cost and source as in `hgr`, whose value is the ``correlation`` of the result.

    Args:
      a, b, weights, given: as in `hgr`, but concrete, and categories only with ``given``.

    Returns:
      An `HGRFit`.  With ``weights`` its interval and ``rows`` are of the effective number of rows.
      With ``given`` a `ConditionalHGRFit`.

    Raises:
      TypeError, ValueError: as `hgr` does; a TypeError where an argument is traced.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 401)
      >>> fit = hgr_jax.hgr_fit(a, jnp.exp(a**2))
      >>> print(f"{fit.correlation:.3f} {fit.score(a[::2], jnp.exp(a[::2] ** 2)):.3f}")
      1.000 1.000
    """
    if is_traced(a, b, weights, given):
        raise TypeError("hgr_fit is for the host: its arguments must not be traced; hgr can be.")
    if given is not None:
        fit = conditional_hgr_fit(a, b, given, weights)
        if not math.isnan(fit.correlation):
            test = independence_test(a, b, given=given, weights=weights)
            fit = dataclasses.replace(fit, pvalue=test.pvalue)
        return fit
    x, y = read_pair(a, b, weights)
    if not all(isinstance(each, (Array, np.ndarray)) for each in (x, y)):
        raise TypeError(
            "hgr_fit is of two numbers, and a or b is a category:"
            ' hgr_jax.scan({"a": a, "b": b}).fit("a", "b") has functions of its levels.'
        )
    estimate = estimate_of_numbers(x, y, weights)
    if estimate is None:
        return HGRFit.unknown()
    w = as_host_weights(weights, len(x))
    kept = slice(None) if w is None else w > 0
    values = np.asarray(x, np.float64)[kept], np.asarray(y, np.float64)[kept]
    return HGRFit.of(estimate, values, (None, None))


@dataclasses.dataclass(frozen=True)
class RankTransform:
    """A transformation of a number: linear between the values of a sample, constant outside.

    It has zero mean and unit variance on the data of the fit.

    Attributes:
      points: the values of the sample, ``(m,)``, rising.
      values: the transformation there.
    """

    points: Floats
    values: Floats

    def __call__(self, x: ArrayLike) -> Any:
        """Return values ``(m,)`` at ``x (m,)``, NaN at NaN; a number at one number."""
        at = np.asarray(as_real_array("x", np.atleast_1d(np.asarray(x)), max_ndim=1), np.float64)
        values = np.where(np.isnan(at), np.nan, np.interp(at, self.points, self.values))
        return values if np.ndim(x) else float(values[0])


@dataclasses.dataclass(frozen=True)
class LevelTransform:
    """A transformation of a category: a value for each of its levels.

    Attributes:
      levels: labels of the levels.
      pooled: rare labels, which the last level replaces.
      values: ``(levels,)``.
    """

    levels: tuple[str, ...]
    pooled: tuple[str, ...]
    values: Floats

    def __call__(self, x: ArrayLike) -> Any:
        """Return values ``(m,)`` at labels, or at positions in ``levels``; a number at one."""
        given = np.asarray(x)
        at = np.atleast_1d(given)
        if at.dtype.kind in "OUT":
            codes = codes_of_labels(at, self.levels, self.pooled)
        else:
            codes = at.astype(np.intp)
        values = self.values[codes]
        return values if given.ndim else float(values[0])


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
      degrees: numbers of functions of that block.
      dependence: weight of dependence in the average, from 0 to 1; independence has the rest.
      rows: number of rows; with weights the effective one.
    """

    correlation: float  # type: ignore[assignment]
    f: RankTransform | LevelTransform = dataclasses.field(repr=False)
    g: RankTransform | LevelTransform = dataclasses.field(repr=False)
    raw: float
    standard_error: float
    degrees: tuple[int, int]
    dependence: float
    rows: float
    _estimate: HGREstimate | None = dataclasses.field(repr=False, compare=False)
    _columns: tuple[Floats, Floats] = dataclasses.field(repr=False, compare=False)
    _pvalue: float | None = dataclasses.field(default=None, repr=False, compare=False)

    @classmethod
    def unknown(cls) -> HGRFit:
        """Return the fit of data without a value."""
        nowhere = RankTransform(np.zeros(1), np.full(1, np.nan))
        none = np.zeros(0)
        return cls(
            math.nan,
            nowhere,
            nowhere,
            math.nan,
            math.nan,
            (0, 0),
            math.nan,
            math.nan,
            None,
            (none, none),
        )

    @classmethod
    def of(
        cls,
        estimate: HGREstimate,
        columns: tuple[Floats, Floats],
        categories: Sequence[Category | None],
        pvalue: float | None = None,
    ) -> HGRFit:
        """Return the fit of an estimate, of values or codes; ``pvalue`` if it is known."""
        f, g = estimate.functions()
        raw, error = correlation_of(f, g, estimate.pair.shares)
        sides = [
            transform_of(x, z, category)
            for x, z, category in zip(columns, (f, g), categories, strict=True)
        ]
        return cls(
            correlation=estimate.value,
            f=sides[0],
            g=sides[1],
            raw=raw,
            standard_error=error,
            degrees=estimate.degrees,
            dependence=float(estimate.average.dependence[0]),
            rows=estimate.rows,
            _estimate=estimate,
            _columns=columns,
            _pvalue=pvalue,
        )

    @functools.cached_property
    def pvalue(self) -> float:
        """The p-value of independence: that of `independence_test`, or of the scan of the fit."""
        if self._estimate is None:
            return math.nan
        if self._pvalue is not None:
            return self._pvalue
        weights = self._estimate.weights
        return independence_test(*self._columns, weights=weights).pvalue

    def describe(self, names: tuple[str, str] = ("a", "b")) -> str:
        """Say in words, in units of the variables, what the relation is.

        The mean of one variable along the other, where that is half of the dependence, else where
        the transformations of both turn: in bins of as many rows, between 1 and 99% of the rows, by
        a fifth of their range.  Of a category, the medians of its levels; of two, the levels that
        go together most.

        Args:
          names: of the variables.

        Returns:
          A sentence; ``"no dependence found"`` where `pvalue` is above 5%.

        Example:
          >>> import numpy as np, hgr_jax
          >>> a, noise = np.random.default_rng(0).normal(size=(2, 1000))
          >>> hgr_jax.hgr_fit(a, noise / 4 - a**2).describe(("age", "score"))[:28]
          'score is highest near age = '
        """
        if self._estimate is None or not self.pvalue <= 0.05:
            return "no dependence found"
        levels = [
            side.levels if isinstance(side, LevelTransform) else None for side in (self.f, self.g)
        ]
        transformed = self._estimate.functions()
        means = Means.of(*self._estimate.pair.sides, self._estimate.pair.shares)
        return describe(names, self._columns, (levels[0], levels[1]), transformed, means)

    @property
    def held_out(self) -> float:
        """The correlation, on rows held out, of functions found on the other rows."""
        return math.nan if self._estimate is None else self._estimate.held_out[0]

    @property
    def highest(self) -> float:
        """Where the high end of the interval starts: the largest value that the rows support."""
        return math.nan if self._estimate is None else self._estimate.highest

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return an interval for HGR.

            tanh(atanh(held_out) - 1.1 z se)  to  tanh(atanh(highest) + 1.35 z se),
            se = held_out_error / (1 - held_out^2)

        with z the normal quantile of ``(1 + level) / 2``.  The low end is 0 exactly where
        independence is not rejected: ``pvalue >= 1 - level``.  It is at most 2 ((1 - level) / 2)^(1
        / n) - 1: n tosses of two coins of this correlation may all agree.  A high end above 1 - 1 /
        n is 1.

        Args:
          level: asked coverage, above 0 and below 1.

        Returns:
          Both ends, in [0, 1]; the estimate is between them.

        Raises:
          TypeError, ValueError: for a level other than the above.

        Coverage: that of 95% intervals, and their width, are in `python -m bench.truth`.  No
        interval covers what the rows can't show: functions that vary faster than neighbouring rows
        can show, or a few rows that decide (the theory pages have both).

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
        if self._estimate is None:
            return math.nan, math.nan
        return self._estimate.interval(self.pvalue, level)


def transform_of(
    x: NDArray[Any], values: Floats, category: Category | None
) -> RankTransform | LevelTransform:
    """Return the transformation that has ``values (n,)`` at numbers or codes ``x (n,)``."""
    points, first = np.unique(x, return_index=True)
    if category is None:
        return RankTransform(points, values[first])
    of_levels = np.zeros(len(category.levels))
    of_levels[points.astype(np.intp)] = values[first]
    return LevelTransform(category.levels, category.pooled, of_levels)
