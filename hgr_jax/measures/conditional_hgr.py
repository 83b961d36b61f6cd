"""HGR of two variables given others: the largest correlation of residuals, on the host.

The residuals are those of `hgr_jax.independence_test` given other variables
(`hgr_jax.core.host.conditioning`); the estimate and its interval those of `hgr_jax.hgr_fit`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hgr_jax._arrays import Floats, is_traced
from hgr_jax._checks import as_host_weights, check_indexes, check_level, warn_of_counts
from hgr_jax.core.host.conditioning import (
    LEAST_GIVEN_ROWS,
    Conditioning,
    Variable,
    noise_of_ranks,
)
from hgr_jax.core.host.estimates import HGREstimate
from hgr_jax.core.host.explained import MAX_SHARE_EXPLAINED, GivenVariables
from hgr_jax.core.host.polynomials import PolynomialPair
from hgr_jax.core.host.ranks import effective_row_count

LEAST_UNEXPLAINED = 0.01
"""Share of the variance of ranks that the given variables must leave: of less, the regression makes
as much as a and b do."""


@dataclasses.dataclass(frozen=True)
class ConditionalHGRFit:
    """HGR of two variables given others, and an `interval`: the result of ``hgr_fit(given=c)``.

    Attributes:
      correlation: the estimate, in [0, 1], or NaN.
      reason: why the estimate is NaN, or empty.
      pvalue: of conditional independence, that of `hgr_jax.independence_test`; NaN where the
        estimate is.
      degrees: numbers of functions of a and of b with the highest score.
      explained: shares of the variance of the ranks of a and of b (of a category, of the indicator
        of its first level) that c explains.
      rows: the effective number of rows, less those that the regression on c uses up.
    """

    correlation: float
    degrees: tuple[int, int]
    explained: tuple[float, float]
    rows: float
    pvalue: float = math.nan
    reason: str = ""
    _estimate: HGREstimate | None = dataclasses.field(repr=False, compare=False, default=None)
    _spare_share: float = dataclasses.field(repr=False, compare=False, default=1.0)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return an interval for HGR given c.

        Formula: that of `hgr_jax.HGRFit.interval`, for the residuals.  The high end is then divided
        by the share of the rows that the regression on c does not use up: this allows for a bias of
        the regression as large as its variance, which makes residuals look less dependent.  A
        regression that misses a jump of c, or what depends on many columns at once, has a larger
        one.

        Args:
          level: asked coverage, above 0 and below 1.

        Returns:
          Both ends, in [0, 1]; the estimate is between them.

        Raises:
          TypeError, ValueError: for a level other than the above.

        Degenerate data: a constant shows nothing, and has the interval 0 to 1.  NaN where the
        estimate is.

        Source: see `hgr_jax.HGRFit.interval`.

        Example:
          >>> import numpy as np, hgr_jax
          >>> cause, e, f = np.random.default_rng(0).normal(size=(3, 1000))
          >>> fit = hgr_jax.hgr_fit(cause**2 + e, cause + 0.5 * e + f, given=cause)
          >>> low, high = fit.interval()
          >>> print(f"{fit.correlation:.2f}, {low:.2f} to {high:.2f}")
          0.45, 0.40 to 0.53
        """
        level = check_level("level", level)
        if self._estimate is not None:
            low, high = self._estimate.interval(self.pvalue, level)
            return low, min(high / self._spare_share, 1.0)
        return (math.nan, math.nan) if math.isnan(self.correlation) else (0.0, 1.0)


def conditional_hgr_fit(a: Any, b: Any, given: Any, weights: ArrayLike | None) -> ConditionalHGRFit:
    """Fit HGR of two variables given others; see `hgr_jax.hgr`."""
    from hgr_jax.tables.given import read_given  # other measures do without its imports

    if is_traced(a, b, given, weights):
        raise TypeError(
            "hgr given other variables is for the host: a, b, given and weights must not be traced."
            " hgr_jax.kb(a, b, given=c) can be traced."
        )
    check_indexes(a=a, b=b, weights=weights, given=given)
    columns, levels = read_given(a, b, given)
    w = as_host_weights(weights, len(columns[0]))
    if w is not None:
        warn_of_counts(weights)
        columns, w = [x[w > 0] for x in columns], w[w > 0]
        w = w if np.ptp(w) else None
    rows = effective_row_count(len(columns[0]), w)
    if rows < LEAST_GIVEN_ROWS or not all(np.isfinite(x).all() for x in columns):
        return _unknown("a value is missing or infinite, or there are fewer than 10 rows", rows)
    variables = [
        Variable.of_levels(x.astype(np.int64), w) if i in levels else Variable.of_number(x, w)
        for i, x in enumerate(columns)
    ]
    others = [z for z in variables[2:] if len(z.functions)]
    conditioning = Conditioning(others, len(columns[0]), w)
    sides = residuals_of(variables[0], conditioning), residuals_of(variables[1], conditioning)
    fit = fit_of_residuals(*sides, conditioning)
    if math.isnan(fit.correlation) or max(fit.explained) < 1 - MAX_SHARE_EXPLAINED:
        return fit
    places = range(2, len(columns))
    numbers = [columns[i] for i in places if i not in levels]
    known = GivenVariables(numbers, [columns[i] for i in places if i in levels])
    for i, name in enumerate("ab"):
        if fit.explained[i] and known.explains(columns[i], is_level=i in levels):
            return _unknown(f"{name} is a function of what is given", rows, fit.explained)
    return fit


def _unknown(
    reason: str, rows: float, explained: tuple[float, float] = (math.nan, math.nan)
) -> ConditionalHGRFit:
    return ConditionalHGRFit(math.nan, (0, 0), explained, rows, reason=reason)


@dataclasses.dataclass(frozen=True)
class RankResiduals:
    """Residuals of the functions of a variable given others; empty of a constant one.

    Attributes:
      values: the residuals, ``(k, n)``.
      noise: variance that is added to each, ``(k,)``.
      unfitted: shares of the directions of the regression that are not taken out of the first.
      explained: share of the variance of the first that the others explain.
      is_number: whether the variable is no category.
    """

    values: Floats
    noise: Floats
    unfitted: Floats
    explained: float
    is_number: bool


def residuals_of(variable: Variable, conditioning: Conditioning) -> RankResiduals:
    """Regress the functions of a variable on others."""
    f = variable.functions[:-1] if variable.is_category else variable.functions
    if not len(f):
        return RankResiduals(f, np.zeros(0), np.zeros(0), 0.0, not variable.is_category)
    values, of_directions, _ = conditioning.regress(f)
    share, variance = conditioning.unexplained_shares(f, values), (f * f) @ conditioning.shares
    noise = noise_of_ranks(variable.places[: len(f)]) * (1 - share) * variance
    explained = float(1 - share[0])
    return RankResiduals(values, noise, of_directions[0], explained, not variable.is_category)


def fit_of_residuals(
    a: RankResiduals, b: RankResiduals, conditioning: Conditioning
) -> ConditionalHGRFit:
    """Fit HGR of two variables by their residuals given others."""
    rows, explained = conditioning.effective_rows, (a.explained, b.explained)
    if not (len(a.values) and len(b.values)):
        return ConditionalHGRFit(0.0, (0, 0), explained, rows, pvalue=1.0)
    if max(explained) > 1 - LEAST_UNEXPLAINED:
        name = "ab"[int(np.argmax(explained))]
        return _unknown(
            f"what is given explains {max(explained):.1%} of the variance of the ranks of {name},"
            " and the little that is left says nothing for sure",
            rows,
            explained,
        )
    spare_share = _residual_rows(conditioning, a.unfitted, b.unfitted) / conditioning.rows
    rows *= spare_share
    pair = PolynomialPair((a.values, b.values), conditioning.shares)
    noise = np.concatenate([np.zeros(1), a.noise, b.noise])[:, None]
    estimate = HGREstimate(pair, (a.is_number, b.is_number), rows, noise=noise)
    return ConditionalHGRFit(
        estimate.value,
        estimate.degrees,
        explained,
        rows,
        _estimate=estimate,
        _spare_share=spare_share,
    )


def _residual_rows(conditioning: Conditioning, of_a: Floats, of_b: Floats) -> float:
    """Return the number of rows, less those that the two regressions use up."""
    spare = conditioning.rows - conditioning.map.shape[1] - 1
    return float((spare + of_a.sum()) * (spare + of_b.sum()) / (spare + np.sum(of_a * of_b)))
