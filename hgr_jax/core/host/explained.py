"""Whether a variable is a function of others, to the digits that there are.

What is left of it is rounding, and says nothing of a dependence given the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.polynomial import chebyshev

from hgr_jax._arrays import Floats
from hgr_jax.core.kernels import products_of_functions

MAX_SHARE_EXPLAINED = 0.1
"""Share of the variance of ranks that a regression leaves, above which no function is sought."""

ROUNDING_SHARE = 1e-7
"""Largest standard deviation of what is left that counts as rounding, as a share of the total."""

LARGEST_DEGREE, MOST_PRODUCTS, ROWS_PER_PRODUCT = 30, 200, 4
"""Largest degree of the polynomials, largest number of their products, and smallest number of rows
for each."""


def polynomials_given(numbers: Floats, indicators: Floats) -> Floats:
    """Return an orthonormal basis ``(n, r)`` of polynomials of ``numbers (n, p)``, and indicators.

    Products of Chebyshev polynomials, of as large a total degree as the rows allow.
    """
    rows, count = numbers.shape
    parts = [np.ones((rows, 1)), indicators.reshape(rows, -1)]
    if count:
        most = min(MOST_PRODUCTS, rows / ROWS_PER_PRODUCT)
        degrees = range(1, LARGEST_DEGREE + 1)
        affordable = (d for d in degrees if math.comb(count + d, d) <= most)
        degree = max(affordable, default=1)
        middle = (numbers.max(axis=0) + numbers.min(axis=0)) / 2
        half = np.ptp(numbers, axis=0) / 2
        unit = (numbers - middle) / np.where(half > 0, half, 1)
        factors = np.moveaxis(chebyshev.chebvander(unit, degree), 0, -1)
        parts.append(products_of_functions(factors, degree).T)
    return np.linalg.qr(np.concatenate(parts, axis=1))[0]


def basis_given(variables: Sequence[tuple[Floats, Floats | None]], rows: int) -> Floats:
    """Return `polynomials_given` of variables: their values, and indicators of a category."""
    numbers = [x for x, indicators in variables if indicators is None]
    levels = [indicators for _, indicators in variables if indicators is not None]
    return polynomials_given(
        np.array(numbers).reshape(-1, rows).T,
        np.concatenate([np.zeros((0, rows)), *levels]).T,
    )


def is_explained(x: Floats, basis: Floats) -> bool:
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
