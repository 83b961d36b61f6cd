"""Columns as numeric arrays, the rows that they share, and estimates of pairs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._arrays import Floats, Integers, groups
from hgr_jax.core.host.ranks import ranks
from hgr_jax.core.indicators import Indicators
from hgr_jax.scanning.products import sum_in_blocks
from hgr_jax.tables.columns import Columns

SINGLE_ROWS = 2**16
"""Number of rows beyond which ranks are in single precision."""


@dataclasses.dataclass(frozen=True)
class Features:
    """Columns of a table as numeric arrays: numbers first, then categories.

    Attributes:
      x: ``(n, p)``, NaN where missing.
      codes: ``(n, q)``, levels of the categories, -1 where missing.
      levels: ``(q,)``, number of levels of each category.
      weights: ``(n,)`` non-negative, or None.
      conditioning: ``(1 + r, n)``, 1 and orthonormal functions of the given columns, or None.
    """

    x: Floats
    codes: Integers
    levels: tuple[int, ...]
    weights: Floats | None
    conditioning: NDArray[np.float64] | None = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.x.shape[0]

    @functools.cached_property
    def patterns(self) -> Patterns:
        """The patterns of missing values of the columns."""
        return Patterns.of(self)

    @property
    def n_numeric(self) -> int:
        """The number of numeric columns."""
        return self.x.shape[1]

    def values(self, column: int) -> NDArray[Any]:
        """Return a column ``(n,)``: numbers, NaN where missing, or levels, -1 where missing."""
        number = column < self.n_numeric
        return self.x[:, column] if number else self.codes[:, column - self.n_numeric]

    def present(self, column: int) -> NDArray[np.bool_]:
        """Return the rows ``(n,)`` where a column is present."""
        values = self.values(column)
        return ~np.isnan(values) if column < self.n_numeric else values >= 0

    def ranked(self) -> Features:
        """Replace numbers by their ranks."""
        rank = ranks(self.x)
        # Products of many rows are taken in single precision, which takes half the memory.
        return dataclasses.replace(
            self, x=rank.astype(np.float32) if self.rows > SINGLE_ROWS else rank
        )

    def by_shared_rows(self, pairs: Integers) -> Iterator[tuple[Integers, NDArray[np.bool_]]]:
        """Yield the places of ``pairs (N, 2)`` that share the same rows, and the mask ``(n,)``."""
        index, present = self.patterns.index, self.patterns.present
        one, other = np.sort(index[pairs], axis=1).T
        count = present.shape[1]
        for key, places in groups(one * count + other):
            first, second = divmod(key, count)
            yield places, present[:, first] & present[:, second]

    def rows_of(self, shared: NDArray[np.bool_]) -> tuple[Any, Floats | None]:
        """Return which rows are ``shared (n,)``, and their weights, None if equal."""
        rows = slice(None) if shared.all() else np.flatnonzero(shared)
        if self.weights is None:
            return rows, None
        weights = self.weights[rows]
        return rows, weights if np.ptp(weights) else None

    def over_shared_rows(self, pairs: Integers, power: int) -> Floats:
        """Sum a power of the weights over the rows that ``pairs (N, 2)`` of columns share."""
        powers = None if self.weights is None or not power else self.weights**power
        present = self.patterns.present

        def block(rows: slice) -> Floats:
            masks = np.ascontiguousarray(present[rows].T, np.float32)  # exact, as counts of a block
            left = masks if powers is None else masks * powers[rows]
            return left @ masks.T

        sums = sum_in_blocks(block, self.rows, present.shape[1])
        first, second = self.patterns.index[pairs].T
        return sums[first, second]

    def level_count(self, column: int) -> int | None:
        """Return the number of levels of a category; None for a number."""
        return None if column < self.n_numeric else self.levels[column - self.n_numeric]

    def kernel(self, column: int, kernel: Any) -> Any:
        """Return ``kernel`` for a number, and the indicators of its levels for a category."""
        if column < self.n_numeric:
            return kernel
        return Indicators(self.levels[column - self.n_numeric])


def as_features(columns: Columns, weights: Any, *, scaled: bool = True) -> Features:
    """Return the columns of a table in memory in double precision, by default `within_range`.

    ``weights (n,)`` may be None.
    """
    x = np.asarray(columns.numbers, np.float64)
    if x.size and scaled:
        x = within_range(x)
    dropped = None if weights is None or weights.all() else weights == 0
    if dropped is not None:
        x = np.where(dropped[:, None], np.nan, x)
    codes = [category.codes for category in columns.categories]
    whole = np.stack(codes, axis=1) if codes else np.zeros((columns.rows, 0), np.int32)
    if dropped is not None:
        whole = np.where(dropped[:, None], -1, whole)
    return Features(
        x=np.ascontiguousarray(x),
        codes=np.asarray(whole, np.int32),
        levels=tuple(len(category.levels) for category in columns.categories),
        weights=None if weights is None else np.asarray(weights, np.float64),
    )


def within_range(x: ArrayLike, *, least: int = 30) -> Any:
    """Scale columns by powers of 2, exactly, if some are beyond ``2**least`` or ``2**-least``.

    Their powers then neither overflow nor vanish, nor are they denormal, which XLA takes for 0.
    """
    host = np.asarray(x)
    reach = np.maximum(np.fmax.reduce(host, axis=0), -np.fmin.reduce(host, axis=0))
    exponent = np.frexp(reach)[1]
    return x if (np.abs(exponent) <= least).all() else np.ldexp(host, -exponent)


@dataclasses.dataclass(frozen=True)
class Kernels:
    """Functions of the first and of the second column of a pair.

    Attributes:
      h, k: degrees of polynomials.
      ranked: whether values are HGR, by functions of ranks, and not HGR-KB.
    """

    h: int
    k: int
    ranked: bool = False


@dataclasses.dataclass(frozen=True)
class Estimates:
    """Estimates of N pairs.

    Attributes:
      value: ``(N,)``, the measure.
      statistic: ``(N,)``, the top correlation of functions, by which pairs are tested.
      pearson: |Pearson|, of ranks where values are HGR; NaN with a category.
      linear: HGR of functions that are linear on ranks and arbitrary on categories: |Spearman| of
        two numbers, the correlation ratio of ranks and a category.
      degrees: ``(N, 2)``, number of directions of each column that the pair's rows support.
      rows: number of rows where both are present.
    """

    value: Floats
    statistic: Floats
    pearson: Floats
    linear: Floats
    degrees: Integers
    rows: Integers

    @staticmethod
    def none(count: int) -> Estimates:
        """Return estimates of ``count`` pairs without any value."""
        value, statistic, pearson, linear = np.full((4, count), np.nan)
        degrees, rows = np.zeros((count, 2), np.intp), np.zeros(count, np.intp)
        return Estimates(value, statistic, pearson, linear, degrees, rows)

    def put(self, places: Integers, others: Estimates) -> None:
        """Replace the estimates of the pairs at ``places``."""
        for field in dataclasses.fields(self):
            getattr(self, field.name)[places] = getattr(others, field.name)

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Which pairs have a value."""
        return np.asarray(np.isfinite(self.value) & (self.degrees > 0).all(axis=1))

    def select(self, chosen: NDArray[Any]) -> Estimates:
        """Select pairs."""
        return Estimates(*(getattr(self, f.name)[chosen] for f in dataclasses.fields(self)))


@dataclasses.dataclass(frozen=True)
class Patterns:
    """Distinct patterns of missing values of the columns of a table.

    Rows of zero weight count as missing in all columns.

    Attributes:
      index: ``(p + q,)``, the pattern of each column.
      present: ``(n, u)``, the mask of present rows of each pattern.
    """

    index: Integers
    present: NDArray[np.bool_]

    @classmethod
    def of(cls, features: Features) -> Patterns:
        """Return the patterns of all columns, in order of appearance."""
        position: dict[bytes, int] = {}
        patterns: list[NDArray[np.bool_]] = []
        index = []
        x, codes = features.x, features.codes
        whole = [*~np.isnan(x.min(axis=0, initial=np.inf)), *(codes.min(axis=0, initial=0) >= 0)]
        for i, complete in enumerate(whole):
            rows = np.ones(features.rows, bool) if complete else features.present(i)
            key = b"" if rows.all() else np.packbits(rows).tobytes()
            if key not in position:
                position[key] = len(patterns)
                patterns.append(rows)
            index.append(position[key])
        present = np.stack(patterns, axis=1) if patterns else np.zeros((features.rows, 0), bool)
        return cls(np.array(index, np.intp), present)
