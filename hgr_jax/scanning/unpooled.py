"""Exact relations of categories that pooling their rare levels would hide.

Every zone lies in one borough, but not the pool of all rare zones.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from hgr_jax._arrays import Integers
from hgr_jax.scanning.features import Estimates
from hgr_jax.tables.columns import Columns
from hgr_jax.tables.convert import add_note


def exact_pairs(columns: Columns, pairs: Integers, found: Estimates) -> list[tuple[int, int]]:
    """Return the pairs ``(N, 2)`` of which one column, before pooling, determines the other.

    Both are categories, one was pooled, and both vary on the rows of the pair.  The first of each
    returned pair of positions in the table determines the second.
    """
    if not any(category.unpooled for category in columns.categories):
        return []
    place = dict(zip(columns.category_positions.tolist(), columns.categories, strict=True))
    both = np.isin(pairs, columns.category_positions).all(axis=1)
    both &= np.asarray((found.degrees > 0).all(axis=1))
    exact = []
    for i, j in pairs[both].tolist():
        for first, second in ((i, j), (j, i)):
            fine = place[first].unpooled
            if fine is not None and fine.determines(place[second].unpooled or place[second]):
                exact.append((first, second))
                break
    return exact


def with_exact(
    columns: Columns,
    pairs: Integers,
    exact: list[tuple[int, int]],
    notes: dict[str, str],
    *estimates: Estimates,
) -> list[Estimates]:
    """Return estimates whose value is 1 for `exact_pairs`, and say so in ``notes``."""
    for i, j in exact:
        add_note(
            notes,
            columns.names[i],
            f"beside {columns.names[j]} its rare levels are not pooled: each of its levels lies in"
            " one level of that",
        )
    count = len(columns.names)
    known = [min(pair) * count + max(pair) for pair in exact]
    ones = np.isin(pairs.min(axis=1) * count + pairs.max(axis=1), known)
    return [
        dataclasses.replace(
            each,
            correlation=np.where(ones, 1.0, each.correlation),
            error=np.where(ones & ~np.isnan(each.error), 0.0, each.error),
        )
        for each in estimates
    ]
