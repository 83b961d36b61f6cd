"""What is kept of many p-values: how many there are of each size, and the pairs that come first."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers

BINS_OF_E = 2**11
"""Bins for each factor e of a p-value: what is read off them is at most 0.05% too large."""

SLACK = 1e-6
"""Of a bin: a logarithm may have been rounded across its edge on the way through a p-value."""

LEAST = -800.0
"""Of the logarithms that are told apart; e to this is no longer a double."""


@dataclasses.dataclass
class Family:
    """How many p-values of a family there are in each of many bins of their logarithm.

    Attributes:
      counts: from the largest p-values to the least.
    """

    counts: NDArray[np.int64] = dataclasses.field(
        default_factory=lambda: np.zeros(1 - int(LEAST * BINS_OF_E), np.int64)
    )

    @property
    def size(self) -> int:
        """The number of p-values."""
        return int(self.counts.sum())

    def add(self, log_p: Floats) -> None:
        """Count some more, by their logarithms ``(N,)``, of which NaN are none."""
        self._count(log_p, 1)

    def replace(self, old: Floats, new: Floats) -> None:
        """Count some, with logarithms ``old (N,)``, by ``new`` ones."""
        self._count(old, -1)
        self._count(new, 1)

    def _count(self, log_p: Floats, times: int) -> None:
        log_p = log_p[~np.isnan(log_p)]
        if len(log_p):
            found = np.bincount(self._bins(log_p))
            self.counts[: len(found)] += times * found

    def adjusted(self, pvalues: Floats) -> Floats:
        """Return p-values ``(N,)`` of the family as Benjamini and Hochberg adjust them.

        Of the p-values in a bin the largest is taken to be as large as the bin allows: what is
        returned is too large by 0.05% at most.
        """
        known = ~np.isnan(pvalues)
        with np.errstate(divide="ignore"):
            bins = self._bins(np.log(pvalues[known]) - SLACK / BINS_OF_E)
        found = np.full(len(pvalues), np.nan)
        found[known] = np.exp(np.minimum(np.minimum.accumulate(self._by_bin()[0])[bins], 0))
        return np.maximum(found, pvalues)

    def discoveries(self, rate: float) -> int:
        """Return how many have an adjusted p-value of at most ``rate``."""
        adjusted, at_most = self._by_bin()
        fine = adjusted <= np.log(rate)
        return int(at_most[np.argmax(fine)]) if fine.any() else 0

    def _by_bin(self) -> tuple[Floats, Integers]:
        """Return log(p m / j) of the largest p-value that a bin may hold, inf if it holds none.

        And j, how many p-values are no larger.
        """
        at_most = np.cumsum(self.counts[::-1])[::-1]
        held = np.flatnonzero(self.counts)
        found = np.full(len(self.counts), np.inf)
        found[held] = np.log(max(self.size, 1)) - held / BINS_OF_E - np.log(at_most[held])
        return found, at_most

    @staticmethod
    def _bins(logs: Floats) -> Integers:
        return np.floor(-np.maximum(logs, LEAST) * BINS_OF_E).astype(np.intp)


@dataclasses.dataclass
class FirstPairs:
    """The pairs of the least scores so far.

    Attributes:
      most: how many are kept.
      scores, log_p, pairs: ``(N,)``, ``(N,)`` and ``(N, 2)`` of these; of equal scores, those that
        came first.
    """

    most: int
    scores: Floats = dataclasses.field(default_factory=lambda: np.zeros(0))
    log_p: Floats = dataclasses.field(default_factory=lambda: np.zeros(0))
    pairs: Integers = dataclasses.field(default_factory=lambda: np.zeros((0, 2), np.intp))

    @property
    def bound(self) -> float:
        """A score that is no longer among the first."""
        return float(self.scores[-1]) if len(self.scores) >= self.most else np.inf

    def add(self, scores: Floats, log_p: Floats, first: Integers, second: Integers) -> None:
        """Keep those of some pairs that are among the first; of a NaN score, none.

        Args:
          scores, log_p: of one shape.
          first, second: columns of each; they broadcast to this shape.
        """
        chosen = scores < self.bound
        found = [np.broadcast_to(side, scores.shape)[chosen] for side in (first, second)]
        scores = np.concatenate([self.scores, scores[chosen]])
        log_p = np.concatenate([self.log_p, log_p[chosen]])
        pairs = np.concatenate([self.pairs, np.stack(found, axis=1)])
        order = np.argsort(scores, kind="stable")[: self.most]
        self.scores, self.log_p, self.pairs = scores[order], log_p[order], pairs[order]
