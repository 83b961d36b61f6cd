"""Fits of HGR: an estimate, an interval, a p-value, and transformations that nearly attain it."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._arrays import Floats, is_traced
from hgr_jax._checks import (
    as_host_column,
    as_host_weights,
    check_indexes,
    check_level,
    check_same_rows,
)
from hgr_jax._texts import pvalue_as_text
from hgr_jax._threads import one_blas_thread
from hgr_jax.core.describe import (
    MAX_PVALUE,
    NO_DEPENDENCE,
    Levels,
    Means,
    describe,
    in_full,
)
from hgr_jax.core.host.conditional_hgr import ConditionalHGRFit
from hgr_jax.core.host.estimates import HGREstimate
from hgr_jax.inference.independence import independence_test
from hgr_jax.tables.levels import Category, codes_of_labels
from hgr_jax.tables.variables import read_pair


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


@one_blas_thread()
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
        from hgr_jax.measures.conditional_hgr import conditional_hgr_fit  # loads JAX

        fit = conditional_hgr_fit(a, b, given, weights)
        if not math.isnan(fit.correlation):
            test = independence_test(a, b, given=given, weights=weights)
            fit = dataclasses.replace(fit, pvalue=test.pvalue)
        return fit
    check_indexes(a=a, b=b, weights=weights)
    (x, y), is_level = read_pair(a, b)
    if any(is_level):
        raise TypeError(
            "hgr_fit is of two numbers, and a or b is a category:"
            ' hgr_jax.scan({"a": a, "b": b}).fit("a", "b") has functions of its levels.'
        )
    estimate = HGREstimate.of_rows((x, y), is_level, weights)
    if estimate is None:
        return HGRFit.unknown()
    kept = slice(None) if weights is None else np.asarray(weights) > 0
    return HGRFit.of(estimate, (x[kept], y[kept]), (None, None))


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
        at = as_host_column("x", np.atleast_1d(np.asarray(x)))
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
class HGRFit:
    """A fit of `hgr_fit`: an estimate of HGR, transformations that nearly attain it, an `interval`.

    Attributes:
      correlation: the estimate of HGR, in [0, 1].
      f, g: transformations of a and of b, of the block with the highest score; the sign of the
        pair makes f correlate positively with the ranks of a.
      rows: number of rows; with weights the effective one.
    """

    correlation: float
    f: RankTransform | LevelTransform = dataclasses.field(repr=False)
    g: RankTransform | LevelTransform = dataclasses.field(repr=False)
    rows: float
    _estimate: HGREstimate | None = dataclasses.field(repr=False, compare=False)
    _columns: tuple[Floats, Floats] = dataclasses.field(repr=False, compare=False)
    _pvalue: float | None = dataclasses.field(default=None, repr=False, compare=False)

    @classmethod
    def unknown(cls) -> HGRFit:
        """Return the fit of data without a value."""
        nan, none = math.nan, np.zeros(0)
        nowhere = RankTransform(np.zeros(1), np.full(1, nan))
        return cls(nan, nowhere, nowhere, nan, None, (none, none))

    @classmethod
    def of(
        cls,
        estimate: HGREstimate,
        columns: tuple[Floats, Floats],
        categories: Sequence[Category | None],
        pvalue: float | None = None,
    ) -> HGRFit:
        """Return the fit of an estimate, of values or codes; ``pvalue`` if it is known."""
        f, g = (
            transform_of(x, z, category)
            for x, z, category in zip(columns, estimate.functions, categories, strict=True)
        )
        return cls(estimate.value, f, g, estimate.rows, estimate, columns, pvalue)

    @functools.cached_property
    def pvalue(self) -> float:
        """The p-value of independence: that of `independence_test`, or of the scan of the fit."""
        if self._estimate is None:
            return math.nan
        if self._pvalue is not None:
            return self._pvalue
        return independence_test(*self._columns, weights=self._estimate.weights).pvalue

    def score(self, a: ArrayLike, b: ArrayLike, *, weights: ArrayLike | None = None) -> float:
        """Return the Pearson correlation of ``f(a)`` and ``g(b)`` on data that were not fitted.

        In [-1, 1], and 0 where ``f(a)`` or ``g(b)`` does not vary.  On held-out rows it is not
        biased upward, as the sample value of HGR is.

        Args:
          a, b: as in the fit, any number of rows.
          weights: non-negative ``(n,)``, or None.
        """
        f, g = (np.atleast_1d(side(x)) for side, x in ((self.f, a), (self.g, b)))
        check_same_rows(f, g)
        w = as_host_weights(weights, len(f))
        w = np.ones(len(f)) if w is None else w
        f, g, w = f[w > 0], g[w > 0], w[w > 0] / w.sum()
        f, g = f - w @ f, g - w @ g
        scale = math.sqrt((w @ f**2) * (w @ g**2))
        return float(np.clip(w @ (f * g) / scale, -1, 1)) if scale > np.finfo(float).eps else 0.0

    @one_blas_thread()
    def describe(self, names: tuple[str, str] = ("a", "b")) -> str:
        """Say in words, in units of the variables, what the relation is.

        The mean of one variable along the other, where that is half of the dependence, else where
        the transformations of both turn: in bins of as many rows, between 1 and 99% of the rows, by
        a fifth of their range.  Of a category, the medians of its levels; of two, the levels that
        go together most.

        Args:
          names: of the variables.

        Returns:
          A sentence; ``"no dependence found"`` where `pvalue` is above 5%, and why there is no
          estimate where it is NaN.

        Example:
          >>> import numpy as np, hgr_jax
          >>> a, noise = np.random.default_rng(0).normal(size=(2, 1000))
          >>> hgr_jax.hgr_fit(a, noise / 4 - a**2).describe(("age", "score"))[:28]
          'score is highest near age = '
        """
        if self._estimate is None:
            return "no estimate: a value is missing or infinite, or there are fewer than 5 rows"
        if not self.pvalue <= MAX_PVALUE:
            return NO_DEPENDENCE
        means = Means.of(*self._estimate.pair.sides, self._estimate.pair.shares)
        return describe(names, self._columns, self._levels, self._estimate.functions, means)

    @property
    def _levels(self) -> tuple[Levels, Levels]:
        f, g = (
            side.levels if isinstance(side, LevelTransform) else None for side in (self.f, self.g)
        )
        return f, g

    def __str__(self) -> str:
        """Say it in full: value, interval and p-value, the sentence, and f and g in numbers.

        As polynomials of degree 3 at most where such are near, with 95% of the correlation.
        """
        if self._estimate is None:
            return self.describe()
        low, high = self.interval()
        value = f"HGR {self.correlation:.3f}, 95% interval {low:.3f} to {high:.3f}"
        law = f"p-value {pvalue_as_text(self.pvalue)}, {self.rows:,.0f} rows"
        lines = [f"{value}, {law}", self.describe()]
        if self.pvalue <= MAX_PVALUE:
            functions = self._estimate.functions
            lines += in_full(("a", "b"), self._columns, self._levels, functions)
        return "\n".join(lines)

    @property
    def held_out(self) -> float:
        """The correlation, on rows held out, of functions found on the other rows."""
        return math.nan if self._estimate is None else self._estimate.held_out[0]

    @one_blas_thread()
    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return an interval for HGR.

            tanh(atanh(held_out) - 1.1 z se)  to  tanh(atanh(highest) + 1.35 z se),
            se = held_out_error / (1 - held_out^2)

        with ``highest`` the largest value that the rows support, and z the normal quantile of ``(1
        + level) / 2``.  The low end is 0 exactly where independence is not rejected: ``pvalue >= 1
        - level``.  It is at most 2 ((1 - level) / 2)^(1 / n) - 1: n tosses of two coins of this
        correlation may all agree.  A high end above 1 - 1 / n is 1.

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
          0.86 to 0.97
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
