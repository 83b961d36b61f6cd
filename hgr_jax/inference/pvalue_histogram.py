"""Adjusted p-values of a family that is too large to be kept: by a histogram."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.inference.multiplicity import dependence_factor

BINS_OF_E = 2**11
"""Number of bins for each factor e of a p-value: adjusted values are at most 0.05% too large."""

BIN_SLACK = 1e-6
"""Share of a bin by which the logarithm of a p-value may differ by rounding."""

LEAST_LOG = -800.0
"""Smallest logarithm with a bin of its own; smaller than that of any double."""


@dataclasses.dataclass
class PValueHistogram:
    """Counts of the p-values of a family in bins of their logarithm, largest p-values first.

    ``method`` adjusts them, as in `hgr_jax.inference.adjust`.
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
