"""Many p-values at once: `adjust`, and `PValueHistogram`, for more than memory holds."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._checks import check_choice

ADJUSTMENTS = ("bh", "by")


def dependence_factor(method: str, tests: int) -> float:
    """Return the factor of adjusted p-values of ``"by"``, 1 + 1/2 + ... + 1/m; 1 of ``"bh"``."""
    return float(np.sum(1 / np.arange(1.0, tests + 1))) if method == "by" else 1.0


def adjust(pvalues: ArrayLike, method: str = "bh") -> Floats:
    """Adjust p-values so that all tests together keep a false discovery rate.

    With p_(1) <= ... <= p_(m) the p-values of the m tests of the family, adjusted values are

        bh    p_(i) -> min over j >= i of  p_(j) m / j
        by    the same times 1 + 1/2 + ... + 1/m

    and at most 1.  Rejecting where the adjusted value is at most q keeps the rate at most q:
    Benjamini and Hochberg's (``"bh"``) for independent tests and for those that depend positively,
    Benjamini and Yekutieli's (``"by"``) always.

    Args:
      pvalues: numbers in [0, 1] of any shape, all of one family.  NaN is no test: it is not
        counted, and stays NaN.  (Of a symmetric matrix take one triangle.)
      method: ``"bh"`` or ``"by"``.

    Returns:
      Adjusted p-values, float64, of the shape of ``pvalues``; none is below its p-value.

    Raises:
      TypeError: if ``pvalues`` are not real numbers.
      ValueError: if one is outside [0, 1], or for another method.

    Degenerate cases: a family of at most one test is not changed.

    Source: Benjamini & Hochberg, "Controlling the false discovery rate" (1995); Benjamini &
    Yekutieli, "The control of the false discovery rate in multiple testing under dependency"
    (2001).

    Example:
      >>> from hgr_jax.inference import adjust
      >>> p = [0.01, 0.02, 0.03, 0.5, float("nan")]
      >>> print(adjust(p).round(3))
      [0.04 0.04 0.04 0.5   nan]
      >>> print(adjust(p, method="by").round(3))
      [0.083 0.083 0.083 1.      nan]
    """
    check_choice("method", method, ADJUSTMENTS)
    values = np.asarray(pvalues)
    if values.dtype.kind not in "fiu":
        raise TypeError(f"pvalues must be real numbers; got dtype {values.dtype}.")
    values = values.astype(np.float64)
    outside = (values < 0) | (values > 1)
    if outside.any():
        raise ValueError(
            f"pvalues must be from 0 to 1, or NaN; {np.count_nonzero(outside)} of {values.size}"
            f" are not, the first of them {values[outside][0]}."
        )
    tested = ~np.isnan(values)
    p = values[tested]
    order = np.argsort(p)
    # As scipy.stats.false_discovery_control, which takes a third of a second to load.
    factors = dependence_factor(method, p.size) * p.size / np.arange(1, p.size + 1)
    steps = np.minimum.accumulate((p[order] * factors)[::-1])[::-1]
    p[order] = np.minimum(steps, 1)
    values[tested] = p
    return values


BINS_OF_E = 2**11
"""Number of bins for each factor e of a p-value: adjusted values are at most 0.05% too large."""

BIN_SLACK = 1e-6
"""Share of a bin by which the logarithm of a p-value may differ by rounding."""

LEAST_LOG = -800.0
"""Smallest logarithm with a bin of its own; smaller than that of any double."""


@dataclasses.dataclass
class PValueHistogram:
    """Counts of the p-values of a family in bins of their logarithm, largest p-values first.

    ``method`` adjusts them, as in `adjust`.
    """

    method: str = "bh"
    counts: NDArray[np.int64] = dataclasses.field(
        default_factory=lambda: np.zeros(1 - int(LEAST_LOG * BINS_OF_E), np.int64)
    )

    @property
    def size(self) -> int:
        """The number of p-values."""
        return int(self.counts.sum())

    def add(self, log_p: Floats) -> None:
        """Count p-values by their logarithms ``(N,)``, without NaN."""
        self._count(log_p, 1)

    def recount(self, old: Floats, new: Floats) -> None:
        """Replace p-values with logarithms ``old (N,)`` by others."""
        self._count(old, -1)
        self._count(new, 1)

    def _count(self, log_p: Floats, times: int) -> None:
        log_p = log_p[~np.isnan(log_p)]
        if len(log_p):
            counts = np.bincount(self._bins(log_p))
            self.counts[: len(counts)] += times * counts

    def adjusted(self, pvalues: Floats) -> Floats:
        """Adjust p-values ``(N,)`` of the family; at most 0.05% too large.

        The largest p-value in a bin is taken to be as large as the bin allows.
        """
        tested = ~np.isnan(pvalues)
        with np.errstate(divide="ignore"):
            bins = self._bins(np.log(pvalues[tested]) - BIN_SLACK / BINS_OF_E)
        filled, log_ratio, _ = self._filled()
        least = np.append(np.inf, np.minimum.accumulate(log_ratio))
        adjusted = np.full(len(pvalues), np.nan)
        adjusted[tested] = np.exp(np.minimum(least[np.searchsorted(filled, bins, "right")], 0))
        return np.maximum(adjusted, pvalues)

    def discoveries(self, rate: float) -> int:
        """Count the adjusted p-values of at most ``rate``."""
        _, log_ratio, at_most = self._filled()
        return int(at_most[log_ratio <= np.log(rate)].max(initial=0))

    def _filled(self) -> tuple[Integers, Floats, Integers]:
        """Return the bins that are not empty, log(p m / j) of the largest p-value of each, and j.

        j is the number of p-values that are no larger.
        """
        filled = np.flatnonzero(self.counts)
        at_most = np.cumsum(self.counts[filled][::-1])[::-1]
        factor = dependence_factor(self.method, self.size)
        log_ratio = np.log(max(self.size, 1) * factor) - filled / BINS_OF_E - np.log(at_most)
        return filled, log_ratio, at_most

    @staticmethod
    def _bins(logs: Floats) -> Integers:
        return np.floor(-np.maximum(logs, LEAST_LOG) * BINS_OF_E).astype(np.intp)
