"""The columns of a table as a scan computes with them, and what it finds of their pairs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.kernels import Indicators


@dataclasses.dataclass(frozen=True)
class Features:
    """Columns as the engine reads them; numbers come first, then categories.

    Attributes:
      x: ``(n, p)``, floating, NaN where missing.
      codes: ``(n, q)``, the level of every category, -1 where missing.
      levels: ``(q,)``, how many levels each has.
      weights: ``(n,)`` non-negative, or None.
    """

    x: Floats
    codes: Integers
    levels: tuple[int, ...]
    weights: Floats | None

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

    def present(self, column: int) -> NDArray[np.bool_]:
        """Return the rows ``(n,)`` where a column is present."""
        values = self.values(column)
        return ~np.isnan(values) if column < self.n_numeric else values >= 0

    def kernel(self, column: int, degree: int) -> int | Indicators:
        """Return the kernel of a column: polynomials of a degree, or indicators of its levels."""
        if column < self.n_numeric:
            return degree
        return Indicators(self.levels[column - self.n_numeric])


@dataclasses.dataclass(frozen=True)
class Kernels:
    """Degrees of the first and of the second column of a pair, and which measure."""

    h: int
    k: int
    single: bool = False

    @property
    def largest(self) -> int:
        """The degree that both sides need at most."""
        return max(self.h, self.k)


@dataclasses.dataclass(frozen=True)
class Estimates:
    """Of N pairs: HGR, |Pearson| (NaN with a category), directions ``(N, 2)``, rows of both.

    Further ``linear``, HGR of functions that are linear on numbers and any on a category: |Pearson|
    of two numbers, of a number and a category the correlation ratio.  And the smallest pivot of
    what makes the columns' own features orthonormal on the pair's rows: 1 where these are all or a
    random part of the column's rows, near 0 where they are another kind.
    """

    correlation: Floats
    pearson: Floats
    linear: Floats
    degrees: Integers
    rows: Integers
    pivot: Floats

    @staticmethod
    def none(count: int) -> Estimates:
        """Return estimates of ``count`` pairs that know nothing of any."""
        absent = np.full(count, np.nan)
        nothing = np.zeros(count, np.intp)
        return Estimates(absent, absent, absent, np.zeros((count, 2), np.intp), nothing, absent)

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
    """Return the patterns of all columns, the complete one first if any column has it."""
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
