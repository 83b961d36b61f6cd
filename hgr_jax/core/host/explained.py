"""Whether a variable is a function of others, to the digits that there are.

What is left of it is rounding, and says nothing of a dependence given the others.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.polynomial import chebyshev

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.monomials import products_of_functions

LEAST_RESIDUAL = 1e-12
"""Share of a function's variance below which its residual is rounding."""

MAX_SHARE_EXPLAINED = 0.1
"""Share of the variance of ranks that a regression leaves, above which no function is sought."""

ROUNDING_SHARE = 1e-7
"""Largest standard deviation of what is left that counts as rounding, as a share of the total."""

LARGEST_DEGREE, MOST_PRODUCTS, ROWS_PER_PRODUCT = 30, 200, 4
"""Largest degree of the polynomials, largest number of their products, and smallest number of rows
for each."""


class GivenVariables:
    """Given columns of some rows, and what is a function of them.

    Attributes:
      numbers: columns ``(n,)`` of numbers.
      codes: columns ``(n,)`` of codes of levels.
    """

    def __init__(self, numbers: Sequence[Floats], codes: Sequence[Floats]) -> None:
        self.numbers, self.codes = numbers, codes
        self.rows = len([*numbers, *codes][0])

    def explains(self, x: Floats, *, is_level: bool) -> bool:
        """Return whether ``x (n,)``, numbers or codes, is a function of them, but for rounding.

        That is one value in each cell of given levels and repeated numbers; levels that are
        intervals of a number; or a number that is a polynomial.
        """
        if _is_one_in_cells(x, self.cells):
            return True
        if is_level:
            return any(_is_cut_of(x, number) for number in self.numbers)
        return _is_combination(x, self.polynomials)

    @functools.cached_property
    def cells(self) -> Integers:
        """The cell ``(n,)`` of each row, by the columns whose values are mostly repeated."""
        cells = np.zeros(self.rows, np.intp)
        for values in (*self.codes, *self.numbers):
            _, codes = np.unique(values, return_inverse=True)
            joint = np.unique(cells * (codes.max() + 1) + codes, return_inverse=True)[1]
            if 2 * (1 + joint.max()) <= self.rows:
                cells = joint
        return cells

    @functools.cached_property
    def polynomials(self) -> Floats:
        """An orthonormal basis ``(n, r)`` of polynomials of the numbers, and of the levels.

        Products of Chebyshev polynomials, of as large a total degree as the rows allow.
        """
        count, parts = len(self.numbers), list[Floats]([np.ones((self.rows, 1))])
        parts += [(c[:, None] == np.unique(c)[1:]).astype(np.float64) for c in self.codes]
        if count:
            numbers = np.stack(self.numbers, axis=1).astype(np.float64)
            most = min(MOST_PRODUCTS, self.rows / ROWS_PER_PRODUCT)
            degrees = range(1, LARGEST_DEGREE + 1)
            affordable = (d for d in degrees if math.comb(count + d, d) <= most)
            degree = max(affordable, default=1)
            middle = (numbers.max(axis=0) + numbers.min(axis=0)) / 2
            half = np.ptp(numbers, axis=0) / 2
            unit = (numbers - middle) / np.where(half > 0, half, 1)
            factors = np.moveaxis(chebyshev.chebvander(unit, degree), 0, -1)
            parts.append(products_of_functions(factors, degree).T)
        return np.linalg.qr(np.concatenate(parts, axis=1))[0]


def _is_combination(x: Floats, basis: Floats) -> bool:
    """Return whether ``x (n,)`` is a combination of ``basis (n, r)``, but for rounding."""
    if basis.shape[1] * 2 > len(x):
        return False
    scale = np.max(np.abs(x), initial=0)
    if not scale:
        return False
    x = x / scale - np.mean(x / scale)
    residual = x - basis @ (basis.T @ x)
    residual -= basis @ (basis.T @ residual)
    return bool(np.linalg.norm(residual) <= ROUNDING_SHARE * np.linalg.norm(x))


def _is_one_in_cells(x: Floats, cells: Integers) -> bool:
    order = np.lexsort([x, cells])
    same = cells[order][1:] == cells[order][:-1]
    return bool((x[order][1:] == x[order][:-1])[same].all())


def _is_cut_of(codes: Floats, numbers: Floats) -> bool:
    """Return whether levels are intervals of a number, as age groups are of the age."""
    order = np.lexsort([codes, numbers])
    ordered, values = codes[order], numbers[order]
    changes = ordered[1:] != ordered[:-1]
    apart = values[1:] != values[:-1]
    few = 1 + changes.sum() == len(np.unique(codes)) <= len(codes) / ROWS_PER_PRODUCT
    return bool(few and apart[changes].all())
