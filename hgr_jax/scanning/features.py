"""Columns as numeric arrays, functions of columns, and estimates of pairs."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.polynomials import Polynomials
from hgr_jax.core.host.ranks import codes_of, ranks, ranks_of_levels
from hgr_jax.core.kernels import Indicators
from hgr_jax.core.ranks import OF_BOTH, rank_functions
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

    def among_weights(self) -> Features:
        """Replace ranks by those among the weighted rows."""
        if self.weights is None:
            return self
        rank = self.x.copy()
        for values in rank.T:
            present = ~np.isnan(values)
            codes = codes_of(values[present])
            values[present] = ranks_of_levels(codes, self.weights[present])[0][codes]
        return dataclasses.replace(self, x=rank)

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
      h, k: degrees.
      ranked: whether the functions are `rank_functions`, and values are HGR; h and k are then
        those of the statistic of a test.
    """

    h: int
    k: int
    ranked: bool = False

    @property
    def largest(self) -> int:
        """The largest number of functions of a side."""
        widest = max(self.h, self.k)
        return max(widest, OF_BOTH) if self.ranked else widest

    def of_values(self) -> Kernels:
        """Return functions of the values: lines beside functions of ranks."""
        return Kernels(1, 1) if self.ranked else self


@dataclasses.dataclass(frozen=True)
class Estimates:
    """Estimates of N pairs.

    Attributes:
      value: ``(N,)``, the measure.
      statistic: ``(N,)``, the top correlation of functions, by which pairs are tested.
      pearson: |Pearson|, NaN with a category.
      linear: HGR of functions that are linear on numbers and arbitrary on categories: |Pearson| of
        two numbers, the correlation ratio of a number and a category.
      degrees: ``(N, 2)``, number of directions of each column that the pair's rows support.
      rows: number of rows where both are present.
      pivot: smallest pivot of the whitening of the columns' features on the pair's rows: 1 where
        these represent the column's rows, near 0 where they do not.
      at_edge: whether more functions of ranks than the sums have may matter.
    """

    value: Floats
    statistic: Floats
    pearson: Floats
    linear: Floats
    degrees: Integers
    rows: Integers
    pivot: Floats
    at_edge: NDArray[np.bool_]

    @staticmethod
    def none(count: int) -> Estimates:
        """Return estimates of ``count`` pairs without any value."""
        value, statistic, pearson, linear = np.full((4, count), np.nan)
        degrees, rows = np.zeros((count, 2), np.intp), np.zeros(count, np.intp)
        pivot, at_edge = np.ones(count), np.zeros(count, bool)
        return Estimates(value, statistic, pearson, linear, degrees, rows, pivot, at_edge)

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


class RowFunctions(Protocol):
    """The same number of functions of each of c columns, near-orthonormal where it is present.

    Polynomials of values or ranks, and functions of ranks are such functions.
    """

    @property
    def count(self) -> int:
        """The number of functions of a column, d."""

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of columns."""

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the values."""

    def take(self, columns: Integers) -> RowFunctions:
        """Select columns."""

    def __call__(self, rows: slice) -> Floats:
        """Return ``(1 + d, c, rows)``, 1 first; all 0 where a column is missing."""


@dataclasses.dataclass(frozen=True)
class ColumnFunctions:
    """Functions of the columns of ``x (n, c)``, NaN where missing."""

    x: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of columns."""
        return self.x.shape[0], self.x.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the values."""
        return self.x.dtype


@dataclasses.dataclass(frozen=True)
class ColumnPolynomials(ColumnFunctions):
    """Polynomials of the columns."""

    basis: Polynomials

    @property
    def count(self) -> int:
        """The largest degree."""
        return self.basis.degree

    def take(self, columns: Integers) -> ColumnPolynomials:
        """Select columns."""
        basis = self.basis.take(columns)
        return self if basis is self.basis else ColumnPolynomials(self.x[:, columns], basis)

    def __call__(self, rows: slice) -> Floats:
        """Return ``(1 + d, c, rows)``, 1 first; all 0 where a column is missing."""
        return self.basis(np.ascontiguousarray(self.x[rows].T))


@dataclasses.dataclass(frozen=True)
class RankFunctions(ColumnFunctions):
    """The first functions of the columns, which are ranks in [-1, 1].

    Attributes:
      count: number of functions.
    """

    count: int

    def take(self, columns: Integers) -> RankFunctions:
        """Select columns."""
        if np.array_equal(columns, np.arange(self.shape[1])):
            return self
        return dataclasses.replace(self, x=self.x[:, columns])

    def __call__(self, rows: slice) -> Floats:
        """Return ``(1 + d, c, rows)``, 1 first; all 0 where a column is missing."""
        rank = np.ascontiguousarray(self.x[rows].T)
        present = ~np.isnan(rank)
        rank = np.where(present, rank, 0)
        f = np.empty((1 + self.count, *rank.shape), rank.dtype)
        f[0] = present
        f[1:] = rank_functions((rank + 1) / 2, self.count) * present
        return f


@dataclasses.dataclass(frozen=True)
class MappedFunctions:
    """Functions of columns, made orthonormal by a map for each column.

    Attributes:
      functions: functions of the columns.
      maps: ``(c, d, d)``, applied to the functions.
      shares: ``(c, d, 1)``, constants that are subtracted.
    """

    functions: RowFunctions
    maps: Floats
    shares: Floats

    @property
    def count(self) -> int:
        """The number of functions of a column."""
        return self.functions.count

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of columns."""
        return self.functions.shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the values."""
        return self.functions.dtype

    def take(self, columns: Integers) -> MappedFunctions:
        """Select columns."""
        inner = self.functions.take(columns)
        if inner is self.functions:
            return self
        return MappedFunctions(inner, self.maps[columns], self.shares[columns])

    def __call__(self, rows: slice) -> Floats:
        """Return ``(1 + d, c, rows)``, 1 first; all 0 where a column is missing."""
        p = self.functions(rows)
        mapped = np.matmul(self.maps, p[1:].swapaxes(0, 1)) - self.shares
        p[1:] = mapped.swapaxes(0, 1) * (p[0] != 0)
        return p
