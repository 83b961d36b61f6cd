"""Ranks of a column that is too long to be sorted: a fixed map that never falls, from a sample.

Equal values have one rank, so ties stay ties; other values have the rank that lies between.  A
sample of m rows knows the share of the rows below a value to some ``0.5 / sqrt(m)`` (0.2% for
2^16).  No test rests on that: whatever the map, it is a function of one column alone, and its
polynomials are made orthonormal on all rows.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from hgr_jax.core.host.ranks import ranks

KNOTS = 2048
"""Values of a column at which its ranks are kept, beside those that many rows hold."""


@dataclasses.dataclass(frozen=True)
class RankMap:
    """Values of a column, rising, and their ranks in [-1, 1]; between two, along a line."""

    values: NDArray[np.float64]
    ranks: NDArray[np.float64]

    @classmethod
    def of(cls, sample: NDArray[np.float64], low: float, high: float) -> RankMap:
        """Return the map of a column with a sample ``(m,)``, NaN where missing, and its ends."""
        present = np.sort(sample[~np.isnan(sample)])
        values, places = np.unique(present, return_index=True)
        if not len(values):
            return cls(np.array([low, high]), np.array([-1.0, 1.0]))
        rank = ranks(present[:, None])[places, 0]
        share = np.diff(np.append(places, len(present))) / len(present)
        tied = np.flatnonzero(share > 1 / KNOTS)
        steps = np.concatenate([np.nextafter(values[tied], end) for end in (-np.inf, np.inf)])
        sides = np.concatenate([rank[tied] - share[tied], rank[tied] + share[tied]])
        if len(values) > 2 * KNOTS:
            even = np.searchsorted(rank, np.linspace(-1, 1, KNOTS)).clip(max=len(values) - 1)
            kept = np.union1d(tied, even)
            values, rank = values[kept], rank[kept]
        # A value that many rows hold has a step on both of its sides.
        values, rank = np.concatenate([values, steps]), np.concatenate([rank, sides])
        beyond = [end for end in (low, high) if not values.min() <= end <= values.max()]
        rank = np.concatenate([rank, np.sign(np.array(beyond) - values[0])])
        values = np.concatenate([values, beyond])
        order = np.argsort(values)
        return cls(values[order], rank[order])

    def __call__(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the ranks of values, NaN of NaN."""
        return np.asarray(np.interp(x, self.values, self.ranks), np.float64)
