"""HGR of two variables given others: the largest correlation of residuals, on the host.

The residuals are those of `hgr_jax.independence_test` given other variables
(`hgr_jax.core.host.conditioning`); the estimate and its interval those of `hgr_jax.hgr_fit`.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from hgr_jax._arrays import Floats
from hgr_jax._checks import check_level
from hgr_jax._threads import one_blas_thread
from hgr_jax.core.host.conditioning import (
    Conditioning,
    Variable,
    noise_of_ranks,
)
from hgr_jax.core.host.estimates import HGREstimate
from hgr_jax.core.host.polynomials import PolynomialPair

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

    @one_blas_thread()
    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return an interval for HGR given c.

        Formula: that of `hgr_jax.HGRFit.interval`, for the residuals.  The high end is then divided
        by the squared share of the rows that the regression on c does not use up: this allows for a
        bias of the regression of twice its variance, which makes residuals look less dependent.  A
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
            return low, min(high / self._spare_share**2, 1.0)
        return (math.nan, math.nan) if math.isnan(self.correlation) else (0.0, 1.0)


def unknown_fit(
    reason: str, rows: float, explained: tuple[float, float] = (math.nan, math.nan)
) -> ConditionalHGRFit:
    """Return a fit without a value, and the reason."""
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
        return unknown_fit(
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
