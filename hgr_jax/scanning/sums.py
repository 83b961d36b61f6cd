"""Sums over rows, from which the pairs of two tiles are estimated: they add up over batches.

A table in memory is one batch; a stream has many.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.scanning import products
from hgr_jax.scanning.functions import RowFunctions
from hgr_jax.scanning.layout import Layout


@dataclasses.dataclass(frozen=True)
class Batch:
    """Rows of a table, as sums are taken over them.

    Attributes:
      functions: of the numeric columns.
      codes: ``(n, q)``, the level of every category, -1 where missing.
      weights: ``(n,)`` or None.
      present: ``(n, u)``, the rows of each pattern of missing values.
    """

    functions: RowFunctions
    codes: Integers
    weights: Floats | None
    present: NDArray[np.bool_]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.present)

    def weights_of(self, patterns: Integers) -> products.Block:
        """Return weights ``(u, rows)`` of some rows in each of some patterns."""
        present, weights, dtype = self.present, self.weights, self.functions.dtype

        def block(rows: slice) -> Floats:
            found = np.ascontiguousarray(present[rows, patterns].T, dtype)
            return found if weights is None else found * weights[rows]

        return block


@dataclasses.dataclass(frozen=True)
class TileSums:
    """Sums over rows of two tiles, or of one with itself.

    Attributes:
      cross: cross moments of their features, ``(features + 1, features + 1)``: the last row and
        column are 0, for what fills up a shorter list of features.
      own: as of `own_sums`, of the left tile in the patterns of the right one, and of the right one
        in those of the left one; of a tile with itself, one alone.
    """

    cross: Floats
    own: tuple[Floats, ...]

    def __add__(self, other: TileSums) -> TileSums:
        """Return the sums over the rows of both."""
        own = tuple(a + b for a, b in zip(self.own, other.own, strict=True))
        return TileSums(self.cross + other.cross, own)


def sums_of_tiles(
    layout: Layout, batch: Batch, tiles: Mapping[str, tuple[Integers, Integers]]
) -> dict[str, TileSums]:
    """Return the sums over some rows of pairs of tiles; the same columns twice for one with itself.

    The sums of a tile alone are taken once, in all patterns.
    """
    own: dict[int, Floats] = {}
    found = {}
    for name, (left, right) in tiles.items():
        for columns in (left, right):
            if columns[0] not in own:
                own[columns[0]] = own_sums(layout, batch, columns, np.arange(layout.count))
        others = [(left, right)] if left[0] == right[0] else [(left, right), (right, left)]
        parts = (own[columns[0]][..., layout.patterns_of(other)] for columns, other in others)
        found[name] = TileSums(cross_sums(layout, batch, left, right), tuple(parts))
    return found


def own_sums(layout: Layout, batch: Batch, columns: Integers, patterns: Integers) -> Floats:
    """Return moments of each column of a tile over the rows of each of some patterns.

    Of numbers ``(d + 1, d + 1, c, u)``; of categories the weight of each level, ``(m, u)``.
    """
    weights = batch.weights_of(patterns)
    if layout.is_number(columns):
        own = batch.functions.take(columns)
        return products.pattern_moments(own, weights, len(patterns))
    column, level, _ = layout.levels_of(columns)
    return products.category_counts(batch.codes, (column, level), weights)


def cross_sums(layout: Layout, batch: Batch, left: Integers, right: Integers) -> Floats:
    """Return cross moments of the features of two tiles, as `TileSums` has them."""
    functions, codes, weights = batch.functions, batch.codes, batch.weights
    if layout.is_number(right):
        own = functions.take(left)
        if left[0] == right[0]:
            return products.own_products(own, weights)[1:, 1:]
        return products.number_products(own, functions.take(right), weights)
    of_right = layout.levels_of(right)[:2]
    if layout.is_number(left):
        own = functions.take(left)
        cross = products.mixed_products(own, codes, of_right, weights)
    else:
        of_left = of_right if left[0] == right[0] else layout.levels_of(left)[:2]
        cross = products.category_products(codes, of_left, of_right, weights, functions.dtype)
    return np.pad(cross, (0, 1))


def shared_weights(batch: Batch, left: Integers, right: Integers, power: int = 1) -> Floats:
    """Return sums of a power of the weights over the rows that two patterns share."""
    present = batch.present
    weights = None if batch.weights is None else np.asarray(batch.weights, np.float64) ** power

    def block(rows: slice) -> Floats:
        there = np.ascontiguousarray(present[rows, left].T, np.float64)
        weighted = there if weights is None else there * weights[rows]
        return weighted @ present[rows, right].astype(np.float64)

    return products.sum_in_blocks(block, batch.rows, len(left) + len(right))
