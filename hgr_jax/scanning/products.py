"""Mean products of functions of columns, tile by tile of the pairs, and block by block of the rows.

No array of all rows times all functions need be in memory.  Blocks are summed in double precision.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers, groups
from hgr_jax._threads import can_limit_blas, in_threads
from hgr_jax.core.host.ranks import RankedColumn
from hgr_jax.inference.level_tables import functions_of_counts

TILE = 128
"""Largest number of columns on each side whose products are taken at a time."""

SUMMED_ROWS = 2048
"""Number of rows whose functions are in memory at a time."""

BLOCK_NUMBERS = 2**22
"""Largest number of values of a block: it has fewer rows if there are many functions."""

PARALLEL_NUMBERS = 2**21
"""Number of values of functions, or 32 times as many products, per thread.

To wake a thread may take a millisecond.
"""

Block = Callable[[slice], Floats]


class Tile(NamedTuple):
    """Pairs of two sets of columns, each of which are numbers or categories.

    Attributes:
      places: ``(N,)``, positions of the pairs.
      columns: both sets, of columns in rising order; one object if they are the same.
      sides: ``(N,)`` each, positions of the columns of each pair in these.
    """

    places: Integers
    columns: tuple[Integers, Integers]
    sides: tuple[Integers, Integers]


def tiles_of(pairs: Integers, places: Integers, n_numeric: int, side: int) -> Iterator[Tile]:
    """Yield the pairs at ``places`` of ``pairs (N, 2)``, numbers before categories, in tiles.

    A tile has at most ``side`` columns on each side.
    """
    first_tile = np.where(pairs < n_numeric, 0, 1 + n_numeric // side)
    tile = first_tile + np.where(pairs < n_numeric, pairs, pairs - n_numeric) // side
    count = 1 + int(tile.max(initial=0))
    for key, part in groups(tile[places, 0] * count + tile[places, 1]):
        chosen = places[part]
        left, right = (np.unique(each) for each in pairs[chosen].T)
        if key // count == key % count:
            left = right = np.union1d(left, right)
        i, j = np.searchsorted(left, pairs[chosen, 0]), np.searchsorted(right, pairs[chosen, 1])
        yield Tile(chosen, (left, right), (i, j))


def sum_in_blocks(block: Block, rows: int, width: int, *, products: int = 0) -> NDArray[np.float64]:
    """Sum ``block(part)`` over parts of the ``rows``, each with ``width`` functions.

    ``products`` is the number of products of a row, if these take longer than its functions.
    """
    size = min(SUMMED_ROWS, max(128, BLOCK_NUMBERS // max(width, 1)))

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


class RowFunctions(Protocol):
    """The same number of functions of each of some columns, 0 beyond those that a column has."""

    @property
    def rows(self) -> int:
        """The number of rows."""

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of columns and of functions of each."""

    def __call__(self, rows: slice) -> Floats:
        """Return the functions ``(rows, columns * functions)``, column by column."""


def column_products(
    left: RowFunctions, right: RowFunctions, weights: Floats | None
) -> NDArray[np.float64]:
    """Return the mean products ``(p, k, q, m)`` of functions of two sets of columns."""
    widths = int(np.prod(left.shape)), int(np.prod(right.shape))

    def block(part: slice) -> Floats:
        wide = right(part)
        # A product of one array with itself takes half as long.
        side = wide if left is right else left(part)
        if weights is not None:
            side = side * weights[part, None].astype(side.dtype)
        return side.T @ wide

    total = sum_in_blocks(block, left.rows, max(widths), products=widths[0] * widths[1])
    whole = left.rows if weights is None else weights.sum()
    return (total / whole).reshape(*left.shape, *right.shape)


@dataclasses.dataclass(frozen=True)
class LevelColumn:
    """A category on some rows.

    Attributes:
      codes: ``(n,)``, the level of every row, of those that occur.
      table: ``(levels - 1, levels)``, orthonormal functions.
    """

    codes: Integers
    table: Floats

    @classmethod
    def of(cls, codes: Integers, weights: Floats | None) -> LevelColumn:
        """Take the levels ``(n,)`` of a category, with positive weights or None."""
        present = np.unique(codes, return_inverse=True)[1]
        counts = np.bincount(present, weights)
        return cls(present, functions_of_counts(tuple(counts.tolist())))

    @property
    def count(self) -> int:
        """The number of functions."""
        return len(self.table)

    def functions(self) -> Floats:
        """Return the functions of every row, ``(d, n)``."""
        return self.table[:, self.codes]


@dataclasses.dataclass(frozen=True)
class Lookup:
    """Functions of columns by their levels.

    Attributes:
      table: ``(levels, width)``, the functions of the levels of all columns.
      codes: ``(n, c)``, the level of each row in each column.
    """

    table: Floats
    codes: NDArray[np.intp]

    @classmethod
    def of_levels(cls, columns: Sequence[LevelColumn]) -> Lookup:
        """Join the functions of categories."""
        width = max(1, *(column.count for column in columns))
        return cls._joined(columns, [column.table.T for column in columns], width, np.float64)

    @classmethod
    def of_ranks(cls, columns: Sequence[RankedColumn], most: int, dtype: Any) -> Lookup:
        """Join up to ``most`` functions of ranks; the rank follows.

        Columns without ties share their levels.
        """
        tables: dict[int, Floats] = {}
        for column in columns:
            if id(column.table) not in tables:
                table = tables[id(column.table)] = np.zeros((len(column.linear), most + 1), dtype)
                table[:, : min(column.count, most)] = column.table[:most].T
                table[:, -1] = column.linear
        return cls._joined(columns, [tables[id(c.table)] for c in columns], most + 1, dtype)

    @classmethod
    def _joined(
        cls,
        columns: Sequence[RankedColumn | LevelColumn],
        tables: Sequence[Floats],
        width: int,
        dtype: Any,
    ) -> Lookup:
        distinct = {id(table): table for table in tables}
        starts = dict(zip(distinct, np.cumsum([0, *map(len, distinct.values())]), strict=False))
        joined = np.zeros((sum(map(len, distinct.values())), width), dtype)
        codes = np.empty((len(columns), len(columns[0].codes)), np.intp)
        for place, (column, table) in enumerate(zip(columns, tables, strict=True)):
            first = starts[id(table)]
            joined[first : first + len(table), : table.shape[1]] = table
            np.add(column.codes, first, out=codes[place])
        return cls(joined, codes.T)

    def select(self, functions: slice) -> Lookup:
        """Select functions."""
        return Lookup(np.ascontiguousarray(self.table[:, functions]), self.codes)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.codes)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of columns and of functions of each."""
        return self.codes.shape[1], self.table.shape[1]

    def __call__(self, rows: slice) -> Floats:
        """Return the functions ``(rows, columns * functions)``, column by column."""
        codes = self.codes[rows]
        return self.table.take(codes, axis=0).reshape(len(codes), -1)
