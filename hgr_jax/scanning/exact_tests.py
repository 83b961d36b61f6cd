"""Fisher's exact test of many pairs of columns of 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax.inference._fisher import fisher_log_pvalues
from hgr_jax.scanning.features import groups

TILE = 256
"""Columns that are counted with as many others at a time."""

BLOCK = 2**22
"""Numbers of the columns that are counted at a time."""


def exact_log_pvalues(columns: Sequence[Integers], pairs: Integers) -> Floats:
    """Return logarithms of the p-values of ``pairs (N, 2)`` of columns ``(n,)``."""
    found = np.zeros(len(pairs))
    tiles = pairs // TILE
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
    size = min(max(1, BLOCK // (len(one) + len(other))), 2**24)  # float32 counts no further
    for start in range(0, rows, size):
        left, right = (
            np.array([column[start : start + size] for column in side], np.float32)
            for side in (one, other)
        )
        total += (left @ right.T).astype(np.int64)
    return total
