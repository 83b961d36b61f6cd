"""[features] The columns of a table as a scan computes with them, and what it finds of their pairs.

[functions] Functions of many numeric columns, made at some rows at a time: what products are summed of.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, Protocol

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.polynomials import Polynomials
from hgr_jax.core.host.ranks import ranks
from hgr_jax.core.kernels import Indicators, encode
from hgr_jax.tables.columns import Columns

RANK_DEGREE = 5
"""Of the polynomials of ranks, where the values have a kernel of their own."""


@dataclasses.dataclass(frozen=True)
class Features:
    """Columns as the engine reads them; numbers come first, then categories.

    Attributes:
      x: ``(n, p)``, floating, NaN where missing.
      codes: ``(n, q)``, the level of every category, -1 where missing.
      levels: ``(q,)``, how many levels each has.
      weights: ``(n,)`` non-negative, or None.
      known: ``(1 + r, n)``, 1 and orthonormal functions of given columns, of which only what they
        leave of the others counts; None for none.
      unrounded: ``(n, p)``, the numbers with all their digits, where ``x`` has fewer.
    """

    x: Floats
    codes: Integers
    levels: tuple[int, ...]
    weights: Floats | None
    known: NDArray[np.float64] | None = None
    unrounded: NDArray[np.float64] | None = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.x.shape[0]

    @property
    def n_numeric(self) -> int:
        """The number of numeric columns."""
        return self.x.shape[1]

    def values(self, column: int) -> NDArray[Any]:
        """Return a column ``(n,)``: numbers, NaN where missing, or levels, -1 where missing."""
        number = column < self.n_numeric
        return self.x[:, column] if number else self.codes[:, column - self.n_numeric]

    def digits(self, column: int) -> NDArray[Any]:
        """Return a column as `values` does, numbers with all their digits."""
        if column >= self.n_numeric or self.unrounded is None:
            return self.values(column)
        return self.unrounded[:, column]

    def present(self, column: int) -> NDArray[np.bool_]:
        """Return the rows ``(n,)`` where a column is present."""
        values = self.values(column)
        return ~np.isnan(values) if column < self.n_numeric else values >= 0

    def ranked(self) -> Features:
        """Return these, numbers replaced by their ranks.

        Beside a far outlier, values that differ may be one in the dtype of ``x``.
        """
        rank = ranks(self.x if self.unrounded is None else self.unrounded)
        return dataclasses.replace(self, x=rank.astype(self.x.dtype, copy=False), unrounded=None)

    def kernel(self, column: int, degree: Any) -> Any:
        """Return the kernel of a column: that of a number, or indicators of its levels."""
        if column < self.n_numeric:
            return degree
        return Indicators(self.levels[column - self.n_numeric])


def as_features(
    columns: Columns, weights: Any, *, ranked: bool, as_they_are: bool = False
) -> Features:
    """Return the columns in the dtype of the computation, shifted to 0 where that keeps digits."""
    x = columns.numbers
    dropped = None if weights is None or weights.all() else weights == 0
    if dropped is not None:
        x = np.where(dropped[:, None], np.nan, np.asarray(x))
    if ranked:
        x = ranks(np.asarray(x))
    wanted = x.dtype if x.dtype == np.float32 else jnp.result_type(float)
    unrounded = np.asarray(x) if x.dtype == np.float64 and wanted == jnp.float32 else None
    if x.size and not as_they_are:
        x = within_range(x)
        if unrounded is not None:
            # float32 has too few digits for values far from 0; no affine map changes a correlation.
            x = x - np.nanmean(x, axis=0)
            x = within_range(x, least=0)
    codes = [category.codes for category in columns.categories]
    whole = np.stack(codes, axis=1) if codes else np.zeros((columns.rows, 0), np.int32)
    if dropped is not None:
        whole = np.where(dropped[:, None], -1, whole)
    return Features(
        x=np.ascontiguousarray(x, wanted),
        codes=np.asarray(whole, np.int32),
        levels=tuple(len(category.levels) for category in columns.categories),
        weights=None if weights is None else np.asarray(weights, wanted),
        unrounded=unrounded,
    )


def within_range(x: ArrayLike, *, least: int = 30) -> Any:
    """Scale columns by powers of 2, which is exact, if some reach beyond ``2 ** least`` or less.

    Their powers neither overflow nor vanish, and none are denormal, which XLA takes for 0.
    """
    host = np.asarray(x)
    reach = np.maximum(np.fmax.reduce(host, axis=0), -np.fmin.reduce(host, axis=0))
    exponent = np.frexp(reach)[1]
    return x if (np.abs(exponent) <= least).all() else np.ldexp(host, -exponent)


@dataclasses.dataclass(frozen=True)
class Kernels:
    """Kernels of the first and of the second column of a pair, and which measure.

    Degrees, or callables as `hgr_jax.kb` takes them.
    """

    h: Any
    k: Any
    single: bool = False

    @property
    def plain(self) -> bool:
        """Whether both are degrees."""
        return not (callable(self.h) or callable(self.k))

    @property
    def differ(self) -> bool:
        """Whether both sides have other functions, not only fewer or more."""
        return not self.plain and self.h != self.k

    @functools.cached_property
    def largest(self) -> int:
        """The number of functions that both sides need at most."""
        return max(width_of(self.h, "h"), width_of(self.k, "k"))

    def of_ranks(self) -> Kernels:
        """Return the kernels of ranks: of those that are no degrees, the values alone know."""
        if self.plain:
            return self
        h, k = (RANK_DEGREE if callable(x) else x for x in (self.h, self.k))
        return Kernels(h, k)


@functools.lru_cache(maxsize=64)
def width_of(kernel: Any, name: str) -> int:
    """Return how many functions the kernel called ``name`` has."""
    return int(encode(kernel, jnp.zeros(1), None, name)[1].shape[1]) if callable(kernel) else kernel


@dataclasses.dataclass(frozen=True)
class Estimates:
    """Of N pairs: HGR, |Pearson| (NaN with a category), directions ``(N, 2)``, rows of both.

    Further ``linear``, HGR of functions that are linear on numbers and any on a category: |Pearson|
    of two numbers, of a number and a category the correlation ratio.  And the smallest pivot of
    what makes the columns' own features orthonormal on the pair's rows: 1 where these are all or a
    random part of the column's rows, near 0 where they are another kind.  And standard ``error``s,
    NaN where they were not asked for.
    """

    correlation: Floats
    pearson: Floats
    linear: Floats
    degrees: Integers
    rows: Integers
    pivot: Floats
    error: Floats

    @staticmethod
    def none(count: int) -> Estimates:
        """Return estimates of ``count`` pairs that know nothing of any."""
        values, linear, pearson, pivot, error = np.full((5, count), np.nan)
        directions, rows = np.zeros((count, 2), np.intp), np.zeros(count, np.intp)
        return Estimates(values, pearson, linear, directions, rows, pivot, error)

    def put(self, places: Integers, found: Estimates) -> None:
        """Replace the estimates of some of the pairs."""
        for field in dataclasses.fields(self):
            getattr(self, field.name)[places] = getattr(found, field.name)

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Which pairs have a value."""
        return np.asarray(np.isfinite(self.correlation) & (self.degrees > 0).all(axis=1))

    def select(self, chosen: NDArray[np.bool_]) -> Estimates:
        """Return the estimates of some of the pairs."""
        return Estimates(*(getattr(self, f.name)[chosen] for f in dataclasses.fields(self)))


@dataclasses.dataclass(frozen=True)
class Patterns:
    """Distinct patterns of missing values: which one a column has, and the rows ``(n, u)`` of each.

    Rows of zero weight count as missing in all columns, and are in none.
    """

    pattern_index: Integers
    present: NDArray[np.bool_]

    def shared_rows(self) -> Integers:
        """Return the number of rows that two patterns share, ``(u, u)``."""
        total = np.zeros((self.present.shape[1],) * 2)
        for start in range(0, len(self.present), 2**16):
            part = self.present[start : start + 2**16].astype(np.float32)
            total += part.T @ part
        return np.rint(total).astype(np.intp)


def patterns_of(features: Features) -> Patterns:
    """Return the patterns of all columns, in the order in which they come."""
    known: dict[bytes, int] = {}
    found: list[NDArray[np.bool_]] = []
    of = []
    x, codes = features.x, features.codes
    whole = [*~np.isnan(x.min(axis=0, initial=np.inf)), *(codes.min(axis=0, initial=0) >= 0)]
    for i, complete in enumerate(whole):
        there = np.ones(features.rows, bool) if complete else features.present(i)
        key = b"" if there.all() else np.packbits(there).tobytes()
        if key not in known:
            known[key] = len(found)
            found.append(there)
        of.append(known[key])
    present = np.stack(found, axis=1) if found else np.zeros((features.rows, 0), bool)
    return Patterns(np.array(of, np.intp), present)


def chunks(chosen: Integers, size: int) -> Iterator[Integers]:
    """Yield parts of at most ``size`` entries."""
    for start in range(0, len(chosen), max(size, 1)):
        yield chosen[start : start + max(size, 1)]


def groups(keys: Integers) -> Iterator[tuple[int, Integers]]:
    """Yield each of some keys ``(N,)``, rising, and the positions that have it."""
    order = np.argsort(keys, kind="stable")
    found, starts = np.unique(keys[order], return_index=True)
    stops = np.append(starts, len(keys))[1:]
    for key, start, stop in zip(found, starts, stops, strict=True):
        yield int(key), order[start:stop]


class RowFunctions(Protocol):
    """As many functions of each of c columns, near-orthonormal where it is present."""

    @property
    def count(self) -> int:
        """The number of functions of a column, d."""

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of columns."""

    @property
    def dtype(self) -> np.dtype:
        """That of the values."""

    def take(self, columns: Integers) -> RowFunctions:
        """Return the functions of some columns."""

    def __call__(self, rows: slice) -> Floats:
        """Return ``(1 + d, c, rows)``, 1 first; all 0 where a column is missing."""


@dataclasses.dataclass(frozen=True)
class OfColumns:
    """Functions of the columns of ``x (n, c)``, NaN where missing."""

    x: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of columns."""
        return self.x.shape[0], self.x.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """That of the values."""
        return self.x.dtype


@dataclasses.dataclass(frozen=True)
class ColumnPolynomials(OfColumns):
    """Polynomials of the columns."""

    basis: Polynomials

    @property
    def count(self) -> int:
        """The largest degree."""
        return self.basis.degree

    def take(self, columns: Integers) -> ColumnPolynomials:
        """Return the polynomials of some columns."""
        basis = self.basis.take(columns)
        return self if basis is self.basis else ColumnPolynomials(self.x[:, columns], basis)

    def __call__(self, rows: slice) -> Floats:
        """Return ``(1 + d, c, rows)``, 1 first; all 0 where a column is missing."""
        return self.basis(np.ascontiguousarray(self.x[rows].T))
