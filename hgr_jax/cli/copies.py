"""Columns that are copies of one another: the same but for their unit, or their labels."""

from __future__ import annotations

import numpy as np

from hgr_jax._arrays import Floats
from hgr_jax.scanning.result import Pair, Scan

ALMOST_ONE = 0.9995
"""Shown as 1.000."""


def copies_of(found: Scan) -> dict[str, list[str]]:
    """Return the group of every column: the names of its copies and its own, in their order.

    Two columns are copies where ranks of both are (a |Spearman| and an HGR of 1.000), or where
    HGR is 1.000 and each value of one, of those that occur again, goes with one of the other.
    """
    parent = list(range(len(found.names)))

    def first(i: int) -> int:
        while parent[i] != i:
            i = parent[i]
        return i

    value = np.fmax(found.correlation, found.rank_correlation)
    i, j = found.pairs.T
    for a, b in found.pairs[value[i, j] >= ALMOST_ONE].tolist():
        one, other = sorted((first(a), first(b)))
        if one != other and _are_copies(found, a, b):
            parent[other] = one
    groups: dict[int, list[str]] = {}
    for i, name in enumerate(found.names):
        groups.setdefault(first(i), []).append(name)
    return {name: group for group in groups.values() for name in group}


def _are_copies(found: Scan, i: int, j: int) -> bool:
    monotone = min(found.spearman[i, j], found.rank_correlation[i, j])  # NaN with a category
    if monotone >= ALMOST_ONE:
        return True
    a, b = (found.values(found.names[k]) for k in (i, j))
    return found.correlation[i, j] >= ALMOST_ONE and _one_to_one(a, b)


def _one_to_one(a: Floats, b: Floats) -> bool:
    """Return whether values determine each other, which says nothing where all are distinct."""
    present = ~(np.isnan(a) | np.isnan(b))
    (u, x), (v, y) = (np.unique(c[present], return_inverse=True) for c in (a, b))
    if len(u) != len(v) or 2 * len(u) > len(x):
        return False
    return len(np.unique(x * len(v) + y)) == len(u)


def without_copies(pairs: list[Pair], groups: dict[str, list[str]], count: int) -> list[Pair]:
    """Return the first pairs, at most ``count``, one for each two groups (or within one)."""
    kept: dict[frozenset[str], Pair] = {}
    for pair in pairs:
        if len(kept) == count:
            break
        kept.setdefault(frozenset((groups[pair.a][0], groups[pair.b][0])), pair)
    return list(kept.values())
