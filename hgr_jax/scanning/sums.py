"""Sums over rows of products of functions, from which all pairs are estimated.

A *tile* is a set of columns of one kind (`Layout`).  Features are computed block by block, so that
no array of all rows times all degrees is ever in memory:

* numbers: ``p_1 .. p_d`` of each column, near-orthonormal functions, 0 where it is missing;
* categories: an indicator of each level, 0 where it is missing;
* patterns: the weight of a row where a pattern of missing values has it, else 0.

Blocks are summed in double precision.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers, groups
from hgr_jax._threads import can_limit_blas, in_threads
from hgr_jax.scanning.features import Kernels, RowFunctions


@dataclasses.dataclass(frozen=True)
class Layout:
    """Columns, numbers first and then categories, and the tiles in which products are taken.

    Attributes:
      n_numeric: number of numeric columns.
      levels: number of levels of each category.
      kernels: kernels of the numbers.
      degree: number of functions of a number; at least what the kernels need.
      patterns: ``(p + q,)``, pattern of missing values of each column.
      count: number of patterns.
      tiles: ``(p + q,)``, tile of each column; no tile has both numbers and categories.
    """

    n_numeric: int
    levels: tuple[int, ...]
    kernels: Kernels
    degree: int
    patterns: Integers
    count: int
    tiles: Integers

    @classmethod
    def of(
        cls,
        n_numeric: int,
        levels: tuple[int, ...],
        kernels: Kernels,
        patterns: Integers,
        dtype: np.dtype,
        memory: int,
    ) -> Layout:
        """Assign columns to tiles, so that a pair of tiles takes at most ``memory`` bytes."""
        # A pair of tiles takes a matrix of (columns x degree)^2 values, copies of it in double
        # precision and arrays of whitened blocks: about 40 values for each of its entries.
        degree = kernels.largest
        most = max(1, int(np.sqrt(memory / (40 * dtype.itemsize * degree**2))))
        numbers = np.arange(n_numeric) // most
        first = numbers[-1] + 1 if len(numbers) else 0
        most_features = max(1, int(np.sqrt(memory / (8 * dtype.itemsize))))
        categories = np.cumsum(levels) // most_features
        tiles = np.concatenate([numbers, first + categories]).astype(np.intp)
        count = int(patterns.max(initial=-1)) + 1
        return cls(n_numeric, levels, kernels, degree, patterns, count, tiles)

    @property
    def width(self) -> int:
        """The largest number of levels."""
        return max(self.levels, default=0)

    @property
    def single_pattern(self) -> bool:
        """Whether all columns are present in the same rows."""
        return self.count == 1

    def is_number(self, columns: Integers) -> bool:
        """Return whether the columns of a tile are numbers."""
        return bool(columns[0] < self.n_numeric)

    def columns_of(self, tile: int) -> Integers:
        """Return the columns of a tile."""
        return np.flatnonzero(self.tiles == tile)

    def patterns_of(self, columns: Integers) -> Integers:
        """Return the patterns of missing values of some columns, rising."""
        return np.unique(self.patterns[columns])

    def levels_of(self, columns: Integers) -> tuple[Integers, Integers, Integers]:
        """Return column and level of each indicator of categories, and their positions by column.

        Positions ``(width, c)`` are padded with the position after the last indicator.
        """
        counts = [self.levels[c - self.n_numeric] for c in columns]
        column = np.repeat(columns - self.n_numeric, counts)
        level = np.concatenate([np.arange(count) for count in counts])
        index = np.full((len(columns), self.width), sum(counts))
        start = 0
        for row, count in zip(index, counts, strict=True):
            row[:count] = np.arange(start, start + count)
            start += count
        return column, level, index.T


TILE_ROWS = 2048
"""Number of rows whose features are in memory at a time."""

TILE_NUMBERS = 2**22
"""Largest number of values of a block: it has fewer rows if there are many features."""

PARALLEL_NUMBERS = 2**21
"""Number of values of features, or 32 times as many products, per thread.

To wake a thread may take a millisecond.
"""

Block = Callable[[slice], Floats]


def sum_in_blocks(block: Block, rows: int, width: int, *, products: int = 0) -> NDArray[np.float64]:
    """Sum ``block(part)`` over parts of the ``rows``, each with ``width`` features.

    ``products`` is the number of products of a row, if these take longer than its features.
    """
    size = min(TILE_ROWS, max(128, TILE_NUMBERS // max(width, 1)))

    def total(start: int, end: int) -> NDArray[np.float64]:
        summed = np.asarray(block(slice(start, min(start + size, end))), np.float64)
        for first in range(start + size, end, size):
            summed += block(slice(first, min(first + size, end)))
        return summed

    count = min(os.cpu_count() or 1, rows * (width + products // 32) // PARALLEL_NUMBERS)
    if count < 2 or not can_limit_blas():
        return total(0, rows)
    ends = [rows * i // count for i in range(count + 1)]
    return functools.reduce(np.add, in_threads(total, ends[:-1], ends[1:]))


def number_products(
    left: RowFunctions, right: RowFunctions, weights: Floats | None
) -> NDArray[np.float64]:
    """Sum ``w p_a(x_i) p_b(y_j)`` over rows, ``(d c, d e)``, by degree, then by column."""

    def both(rows: slice) -> tuple[Floats, Floats]:
        f, g = left(rows)[1:], right(rows)[1:]
        g = _weighted(g.reshape(-1, g.shape[-1]), weights, rows)
        return f.reshape(-1, f.shape[-1]), g

    widths = left.count * left.shape[1], right.count * right.shape[1]
    return _row_products(both, left.shape[0], widths)


def _row_products(
    both: Callable[[slice], tuple[Floats, Floats | None]],
    rows: int,
    widths: tuple[int, int],
) -> NDArray[np.float64]:
    """Sum ``f g^T`` over rows, or ``f f^T`` where there is no g."""

    def block(part: slice) -> Floats:
        f, g = both(part)
        return f @ (f if g is None else g).T

    return sum_in_blocks(block, rows, max(widths), products=widths[0] * widths[1])


def own_products(functions: RowFunctions, weights: Floats | None) -> NDArray[np.float64]:
    """Return `number_products` of a tile with itself, p_0 = 1 first: ``(1 + d c, 1 + d c)``.

    All columns are present in the same rows.
    """
    n, columns = functions.shape

    def both(rows: slice) -> tuple[Floats, Floats | None]:
        p = functions(rows)
        f = p.reshape(-1, p.shape[-1])[columns - 1 :]
        return (f, None) if weights is None else (f, f * weights[rows])

    return _row_products(both, n, (1 + functions.count * columns,) * 2)


def own_moments(functions: RowFunctions, weights: Floats | None) -> NDArray[np.float64]:
    """Sum ``w p_a p_b`` of each column over the rows where it is present, ``(d+1, d+1, c)``."""

    def block(rows: slice) -> Floats:
        p = functions(rows).swapaxes(0, 1)
        return np.matmul(p, _weighted(p, weights, rows).swapaxes(1, 2))

    n, columns = functions.shape
    return np.moveaxis(sum_in_blocks(block, n, (functions.count + 1) * columns), 0, -1)


def pattern_moments(functions: RowFunctions, patterns: Block, count: int) -> Floats:
    """Sum ``w_u p_a p_b`` of each column over rows, ``(d + 1, d + 1, c, u)``, with p_0 = 1.

    ``patterns`` returns the weights ``(u, rows)`` of rows in each of ``count`` patterns.
    """
    size, (n, columns) = functions.count + 1, functions.shape
    ends = np.cumsum(np.arange(size, -1, -1))  # of the products of each p_a with p_a, p_a+1, ...

    def block(rows: slice) -> Floats:
        p, weights = functions(rows), patterns(rows).T
        products = np.empty_like(p)
        moments = np.empty((ends[-1] * columns, count), p.dtype)
        # The products of one p_a at a time, so that they are summed while in the cache.
        for a, out in enumerate(np.split(moments, columns * ends[:-2])):
            of_a = np.multiply(p[a], p[a:], out=products[a:])
            np.matmul(of_a.reshape(-1, p.shape[-1]), weights, out=out)
        return moments

    sums = sum_in_blocks(block, n, ends[-1] * columns).reshape(-1, columns, count)
    moments = np.empty((size, size, columns, count))
    for (a, b), part in zip(combinations_with_replacement(range(size), 2), sums, strict=True):
        moments[a, b] = moments[b, a] = part
    return moments


def mixed_products(
    functions: RowFunctions,
    codes: Integers,
    levels: tuple[Integers, Integers],
    weights: Floats | None,
) -> NDArray[np.float64]:
    """Sum ``w p_a(x_i) [level l]`` over rows, ``(d c, m)``."""

    def block(rows: slice) -> Floats:
        f = functions(rows)[1:]
        g = _weighted(level_features(codes[rows], levels, functions.dtype), weights, rows)
        return f.reshape(-1, f.shape[-1]) @ g.T

    n, columns = functions.shape
    return sum_in_blocks(block, n, functions.count * columns + len(levels[0]))


def category_products(
    codes: Integers,
    left: tuple[Integers, Integers],
    right: tuple[Integers, Integers],
    weights: Floats | None,
    dtype: np.dtype,
) -> NDArray[np.float64]:
    """Sum the weights over rows of level l and level r, ``(m, q)``."""

    def block(rows: slice) -> Floats:
        g = level_features(codes[rows], right, dtype)
        f = g if left is right else level_features(codes[rows], left, dtype)
        return f @ _weighted(g, weights, rows).T

    return sum_in_blocks(block, len(codes), len(left[0]) + len(right[0]))


def category_counts(
    codes: Integers, levels: tuple[Integers, Integers], patterns: Block
) -> NDArray[np.float64]:
    """Sum the weights over rows of level l in pattern u, ``(m, u)``."""

    def block(rows: slice) -> Floats:
        weights = patterns(rows)
        return level_features(codes[rows], levels, weights.dtype) @ weights.T

    return sum_in_blocks(block, len(codes), len(levels[0]))


def level_features(codes: Integers, levels: tuple[Integers, Integers], dtype: np.dtype) -> Floats:
    """Return features ``(m, rows)``: feature l is 1 where ``codes[:, column[l]] == level[l]``."""
    column, level = levels
    return (codes.T[column] == level.astype(codes.dtype)[:, None]).astype(dtype)


def _weighted(f: Floats, weights: Floats | None, rows: slice) -> Floats:
    return f if weights is None else f * weights[rows]


@dataclasses.dataclass(frozen=True)
class Batch:
    """Rows of a table, for sums.

    Attributes:
      functions: functions of the numeric columns.
      codes: ``(n, q)``, levels of the categories, -1 where missing.
      weights: ``(n,)`` or None.
      present: ``(n, u)``, mask of the rows of each pattern of missing values.
    """

    functions: RowFunctions
    codes: Integers
    weights: Floats | None
    present: NDArray[np.bool_]

    def weights_of(self, patterns: Integers) -> Block:
        """Return the function that computes weights ``(u, rows)`` of rows in each pattern."""
        present, weights, dtype = self.present, self.weights, self.functions.dtype

        def block(rows: slice) -> Floats:
            part_sum = np.ascontiguousarray(present[rows, patterns].T, dtype)
            return part_sum if weights is None else part_sum * weights[rows]

        return block


def own_sums(layout: Layout, batch: Batch, columns: Integers, patterns: Integers) -> Floats:
    """Sum the moments of each column of a tile over the rows of each of some patterns.

    Moments of numbers are ``(d + 1, d + 1, c, u)``; of categories, weights of levels ``(m, u)``.
    """
    weights = batch.weights_of(patterns)
    if layout.is_number(columns):
        own = batch.functions.take(columns)
        return pattern_moments(own, weights, len(patterns))
    column, level, _ = layout.levels_of(columns)
    return category_counts(batch.codes, (column, level), weights)


def cross_sums(layout: Layout, batch: Batch, left: Integers, right: Integers) -> Floats:
    """Sum the cross moments of the features of two tiles.

    With categories, a last row and column of 0 follows, to which padded positions refer.
    """
    functions, codes, weights = batch.functions, batch.codes, batch.weights
    if layout.is_number(right):
        own = functions.take(left)
        if left[0] == right[0]:
            return own_products(own, weights)[1:, 1:]
        return number_products(own, functions.take(right), weights)
    of_right = layout.levels_of(right)[:2]
    if layout.is_number(left):
        own = functions.take(left)
        cross = mixed_products(own, codes, of_right, weights)
    else:
        of_left = of_right if left[0] == right[0] else layout.levels_of(left)[:2]
        cross = category_products(codes, of_left, of_right, weights, functions.dtype)
    return np.pad(cross, (0, 1))


def shared_weights(
    present: NDArray[np.bool_],
    weights: Floats | None,
    left: Integers,
    right: Integers,
    power: int = 1,
) -> Floats:
    """Sum a power of the weights over the rows that each two patterns share.

    ``present (n, u)`` is the mask of the rows of all patterns.
    """
    powers = None if weights is None else np.asarray(weights, np.float64) ** power
    # float32 counts the rows of a block exactly.
    dtype: np.dtype[Any] = np.dtype(np.float32 if powers is None else np.float64)

    def block(rows: slice) -> Floats:
        masks: Floats = np.ascontiguousarray(present[rows, left].T, dtype)
        weighted = masks if powers is None else masks * powers[rows]
        return weighted @ present[rows, right].astype(dtype)

    return sum_in_blocks(block, len(present), len(left) + len(right))


PATTERNS_AT_ONCE = 512
"""Number of patterns on each side whose shared rows are counted at a time."""


def shared_by_pairs(
    present: NDArray[np.bool_], weights: Floats | None, pairs: Integers, power: int = 1
) -> Floats:
    """Return `shared_weights` of ``pairs (N, 2)`` of patterns alone, ``(N,)``."""
    sums = np.empty(len(pairs))
    tiles = pairs // PATTERNS_AT_ONCE
    for _, part in groups(tiles[:, 0] * present.shape[1] + tiles[:, 1]):
        (left, i), (right, j) = (np.unique(side, return_inverse=True) for side in pairs[part].T)
        sums[part] = shared_weights(present, weights, left, right, power)[i, j]
    return sums
