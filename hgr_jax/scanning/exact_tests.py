"""Fisher's exact test of many pairs of columns of 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax.inference._fisher import fisher_log_pvalues
from hgr_jax.scanning.features import groups

COUNTED_AT_ONCE = 256
"""Columns that are counted with as many others at a time."""

COUNTED_NUMBERS = 2**22
"""Numbers of the columns that are counted at a time."""


def exact_log_pvalues(columns: Sequence[Integers], pairs: Integers) -> Floats:
    """Return logarithms of the p-values of ``pairs (N, 2)`` of columns ``(n,)``."""
    found = np.zeros(len(pairs))
    tiles = pairs // COUNTED_AT_ONCE
    for _, part in groups(tiles[:, 0] * len(columns) + tiles[:, 1]):
        (left, i), (right, j) = (np.unique(side, return_inverse=True) for side in pairs[part].T)
        f, g = ([columns[c] for c in side] for side in (left, right))
        ones, others = np.sum(f, axis=1)[i], np.sum(g, axis=1)[j]
        found[part] = fisher_log_pvalues(len(f[0]), both_counts(f, g)[i, j], ones, others)
    return found


def both_counts(one: Sequence[Integers], other: Sequence[Integers]) -> Integers:
    """Return in how many rows two columns of 0 and 1 both have 1: ``(p, q)``, of p with q."""
    rows = len(one[0])
    total = np.zeros((len(one), len(other)), np.int64)
    # float32 counts no further than the latter.
    size = min(max(1, COUNTED_NUMBERS // (len(one) + len(other))), 2**24)
    for start in range(0, rows, size):
        left, right = (
            np.array([column[start : start + size] for column in side], np.float32)
            for side in (one, other)
        )
        total += (left @ right.T).astype(np.int64)
    return total


class ExactScreen:
    """Columns of 0 and 1 in parts, of which all pairs of two parts are tested."""

    def __init__(self, parts: Sequence[Sequence[Integers]]) -> None:
        """Keep them, each ``(n,)``."""
        self.parts = parts

    def log_pvalues(self, left: int, right: int) -> Floats:
        """Return the logarithms of the p-values of two parts ``(p, q)``.

        Of one part with itself, they are NaN but above the diagonal.
        """
        f, g = self.parts[left], self.parts[right]
        ones, others = np.sum(f, axis=1)[:, None], np.sum(g, axis=1)
        log_p = fisher_log_pvalues(len(f[0]), both_counts(f, g), ones, others)
        return above_diagonal(log_p) if left == right else log_p


def above_diagonal(log_p: Floats) -> Floats:
    """Return a square with NaN but above the diagonal."""
    return np.where(np.tri(len(log_p), dtype=bool), np.nan, log_p)
