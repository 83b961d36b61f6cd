"""Functions of many numeric columns, made at some rows at a time: what products are summed of."""

from __future__ import annotations

import dataclasses
from typing import Protocol

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.polynomials import Polynomials


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
