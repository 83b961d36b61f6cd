"""Which features the columns of a scan have, in which tiles: all but the rows themselves."""

from __future__ import annotations

import dataclasses

import numpy as np

from hgr_jax._arrays import Integers
from hgr_jax.scanning.features import Kernels


@dataclasses.dataclass(frozen=True)
class Layout:
    """Columns, numbers first and then categories, and the tiles in which products are taken.

    Attributes:
      n_numeric: the number of numeric columns.
      levels: how many levels each category has.
      kernels: of the numbers.
      degree: functions of a number; at least what the kernels need.
      patterns: ``(p + q,)``, which pattern of missing values each column has.
      count: the number of patterns.
      tiles: ``(p + q,)``, to which tile each column belongs: numbers and categories apart.
      dtype: of the features.
    """

    n_numeric: int
    levels: tuple[int, ...]
    kernels: Kernels
    degree: int
    patterns: Integers
    count: int
    tiles: Integers
    dtype: np.dtype

    @classmethod
    def of(
        cls,
        n_numeric: int,
        levels: tuple[int, ...],
        kernels: Kernels,
        patterns: Integers,
        dtype: np.dtype,
        memory: int,
        *,
        degree: int | None = None,
    ) -> Layout:
        """Assign columns to tiles, each within the budget of ``memory`` bytes."""
        # A pair of tiles takes a matrix of (columns x degree)^2 numbers, copies of it in double
        # precision and arrays of whitened blocks: about 40 numbers for each of its entries.
        degree = kernels.largest if degree is None else degree
        most = max(1, int(np.sqrt(memory / (40 * dtype.itemsize * degree**2))))
        numbers = np.arange(n_numeric) // most
        if kernels.differ:
            one = np.arange(n_numeric // 2) // most
            numbers = np.concatenate([one, 1 + one.max(initial=0) + one])
        first = numbers[-1] + 1 if len(numbers) else 0
        most_features = max(1, int(np.sqrt(memory / (8 * dtype.itemsize))))
        categories = np.cumsum(levels) // most_features
        tiles = np.concatenate([numbers, first + categories]).astype(np.intp)
        count = int(patterns.max(initial=-1)) + 1
        return cls(n_numeric, levels, kernels, degree, patterns, count, tiles, dtype)

    @property
    def width(self) -> int:
        """The largest number of levels."""
        return max(self.levels, default=0)

    @property
    def alike(self) -> bool:
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
        """Return column and level of every feature of some categories, and the features of each.

        ``(width, c)``, filled up with the position after the last feature.
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
