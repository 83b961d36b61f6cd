"""An independent reference for HGR-KB, in extended precision and with none of the package's code.

Orthonormal polynomials by Gram-Schmidt against all previous ones, three times over, in
`numpy.longdouble` (80 bits on x86-64), then the singular values of the matrix of their inner
products.  The data are taken as they are: pass the very float32 values that the package saw.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import ArrayLike, NDArray

Extended = NDArray[np.longdouble]


def _shares(weights: ArrayLike | None, rows: int) -> Extended:
    w = np.ones(rows, np.longdouble) if weights is None else np.asarray(weights, np.longdouble)
    return w / w.sum()


def orthonormal_polynomials(
    x: ArrayLike, degree: int, weights: ArrayLike | None = None
) -> Extended:
    """Orthonormal rows ``(effective degree, n)`` spanning the centred polynomials of ``x (n,)``.

    NaN from the first that extended precision cannot tell from rounding.
    """
    points: Extended = np.asarray(x, np.longdouble)
    w = _shares(weights, len(points))
    distinct = len(np.unique(points[w > 0]))
    points = points - np.sum(w * points)
    reach = np.abs(points[w > 0]).max()
    points = points / reach if reach > 0 else points
    root = np.sqrt(w)
    basis = [root]
    for _ in range(min(degree, distinct - 1)):
        product = v = points * basis[-1]
        for _ in range(3):
            for q in basis:
                v = v - (q @ v) * q
        left = v @ v
        known = left > 1e-24 * (product @ product)
        basis.append(v / np.sqrt(left) if known else np.full_like(v, np.nan))
    return np.array(basis[1:]).reshape(-1, len(points))


def orthonormal_features(features: ArrayLike, weights: ArrayLike | None = None) -> Extended:
    """Orthonormal rows spanning the centred columns of ``features (n, m)``."""
    columns = np.asarray(features, np.longdouble)
    w = _shares(weights, len(columns))
    root = np.sqrt(w)
    basis = [root]
    for column in columns.T:
        v = root * (column - np.sum(w * column))
        scale = np.sqrt(v @ v)
        for _ in range(3):
            for q in basis:
                v = v - (q @ v) * q
        if np.sqrt(v @ v) > 1e-9 * scale:
            basis.append(v / np.sqrt(v @ v))
    return np.array(basis[1:]).reshape(-1, len(columns))


def total_degree_features(x: ArrayLike, degree: int) -> Extended:
    """Monomials of total degree 1 to ``degree`` of the standardised columns of ``x (n, p)``."""
    variables: Extended = np.asarray(x, np.longdouble)
    variables = (variables - variables.mean(axis=0)) / variables.std(axis=0)
    columns = []
    for total in range(1, degree + 1):
        for chosen in itertools.combinations_with_replacement(range(variables.shape[1]), total):
            columns.append(np.prod(variables[:, list(chosen)], axis=1))
    return np.stack(columns, axis=1)


def canonical_correlation(basis_a: Extended, basis_b: Extended) -> float:
    """Top singular value of the inner products of two orthonormal sets of rows."""
    if not len(basis_a) or not len(basis_b):
        return 0.0
    cross = np.asarray(basis_a @ basis_b.T, np.float64)
    if np.isnan(cross).any():
        return float("nan")
    return float(np.linalg.svd(cross, compute_uv=False)[0])


def kb(a: ArrayLike, b: ArrayLike, h: int, k: int, weights: ArrayLike | None = None) -> float:
    """HGR-KB of two variables ``(n,)``."""
    return canonical_correlation(
        orthonormal_polynomials(a, h, weights), orthonormal_polynomials(b, k, weights)
    )


def sk(a: ArrayLike, b: ArrayLike, d: int, weights: ArrayLike | None = None) -> float:
    """HGR-SK of two variables ``(n,)``."""
    return max(kb(a, b, d, 1, weights), kb(a, b, 1, d, weights))
