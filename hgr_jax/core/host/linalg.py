"""Small matrices, many at once: whitening, orthonormalisation, top singular values and vectors.

The batch is the last axis, where NumPy's loops are long.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers

ROUNDING_PIVOT = 1e-13
"""Largest pivot of a correlation matrix that counts as rounding."""

DEPENDENT_SHARE = 1e-12
"""Largest share of a function's mean square in a residual that counts as rounding."""

FUNCTIONS_AT_ONCE = 64
"""Number of functions that are made orthonormal together."""


def product(left: Floats, right: Floats) -> Floats:
    """Return the matrix products of ``(r, t, N)`` and ``(t, s, N)``."""
    total = np.zeros((len(left), *right.shape[1:]))
    for i in range(left.shape[1]):
        total += left[:, i, None] * right[None, i]
    return total


def memberships(codes: NDArray[Any], count: int) -> NDArray[np.bool_]:
    """Return which rows have each level, ``(count, n)``; rows of code -1 have no level."""
    return np.asarray(codes[None, :] == np.arange(count)[:, None])


def inverse_choleskies(s: Floats, least: Floats | float = ROUNDING_PIVOT) -> tuple[Floats, Floats]:
    """Return inverse Cholesky factors of ``s (d, d, ...)``, and pivots, 0 up to ``least``."""
    size = len(s)
    identity = np.eye(size).reshape(size, size, *[1] * (s.ndim - 2))
    rows = np.concatenate([s, np.broadcast_to(identity, s.shape)], axis=1)
    pivots = np.empty(s.shape[1:])
    floor = np.broadcast_to(np.maximum(least, ROUNDING_PIVOT), pivots.shape)
    for j in range(size):
        pivot = rows[j, j].copy()
        alive = pivot > floor[j]
        pivots[j] = np.where(alive, pivot, 0)
        pivot = np.where(alive, pivot, 1)
        changed = slice(j, size + j + 1)  # later columns are still those of the identity
        factor = np.where(alive, rows[j + 1 :, j] / pivot, 0)
        rows[j + 1 :, changed] -= factor[:, None] * rows[j, changed]
        rows[j] *= alive / np.sqrt(pivot)
    return rows[:, size:], pivots


def orthonormalising_maps(
    moments: Floats, norms: Floats, least: float
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return lower triangular maps that make features orthonormal, and which are independent.

    From their moments ``(d, d, ...)``.  A feature is dependent, and its row 0, if the square of its
    residual is at most the share ``least`` of its squared ``norms (d, ...)``.
    """
    diagonal = np.arange(len(moments))
    varies = moments[diagonal, diagonal] > least * norms
    inverse, pivots = _inverse_choleskies_where(moments, varies, least * norms)
    alive = varies & (pivots > 0)
    return np.where(alive[:, None] & alive[None, :], inverse, 0), alive


def _inverse_choleskies_where(
    covariance: Floats, varies: NDArray[np.bool_], least: Floats | float = 0.0
) -> tuple[Floats, Floats]:
    """Return `inverse_choleskies` of features that vary, and pivots of their correlations."""
    size, diagonal = len(covariance), np.arange(len(covariance))
    variance = np.where(varies, covariance[diagonal, diagonal], 1)
    scale = np.sqrt(variance)
    identity = np.eye(size).reshape(size, size, *[1] * (varies.ndim - 1))
    both = varies[:, None] & varies[None, :]
    correlation = np.where(both, covariance / scale[:, None] / scale[None, :], identity)
    inverse, pivots = inverse_choleskies(correlation, least / variance)
    return inverse / scale[None, :], pivots


def orthonormalise(
    functions: Floats,
    shares: Floats,
    conditioning: Floats | None = None,
    least: float = DEPENDENT_SHARE,
) -> tuple[Floats, Floats]:
    """Return orthonormalised residuals of ``functions (d, n)``, and their maps from residuals.

    Residuals are given orthonormal ``conditioning (r, n)``, None for the constant; ``shares (n,)``
    are weights of sum 1; ``least`` as `DEPENDENT_SHARE`, at which a residual is set to 0.
    """
    z = np.ones((1, len(shares))) if conditioning is None else conditioning
    residual = functions - ((functions * shares) @ z.T) @ z
    norms = (functions**2 @ shares)[:, None]
    first, _ = orthonormalising_maps(((residual * shares) @ residual.T)[..., None], norms, least)
    f = first[..., 0] @ residual
    # Twice, as the first pass loses digits where the residuals are small.
    f -= ((f * shares) @ z.T) @ z
    second, _ = orthonormalising_maps(((f * shares) @ f.T)[..., None], np.ones_like(norms), 0.5)
    return second[..., 0] @ f, second[..., 0] @ first[..., 0]


def residuals(f: Floats, basis: Floats, weights: Floats | None) -> Floats:
    """Return orthonormalised residuals of ``f (d, n)`` given orthonormal ``basis (r, n)``."""
    rows = f.shape[1]
    w = np.ones(rows) if weights is None else weights
    shares = w / w.sum()
    span = np.concatenate([np.ones((1, rows)), basis])
    for start in range(0, len(f), FUNCTIONS_AT_ONCE):
        if len(span) >= rows:  # they span all functions of the rows
            break
        added, _ = orthonormalise(f[start : start + FUNCTIONS_AT_ONCE], shares, span)
        span = np.concatenate([span, added[added.any(axis=1)]])
    return span[1 + len(basis) :]


def whitenings(
    moments: Floats, in_span: NDArray[np.bool_] | bool = True
) -> tuple[Floats, Floats, Floats]:
    """Return means ``(d, ...)`` of features, and maps ``(d, d, ...)`` that make them orthonormal.

    From ``moments (d + 1, d + 1, ...)``, sums over rows of products of ``[1, p_1 .. p_d]``.  Maps
    are 0 in directions outside ``in_span``, which broadcasts to ``(d, ...)``.  Third comes the
    smallest pivot ``(...)`` of the correlation matrix times the share of the variance in the mean
    square: small where the rows do not support a direction.
    """
    total = moments[0, 0]
    sound = (total > 0) & np.isfinite(moments).all(axis=(0, 1))
    moments = np.where(sound, moments, 0) / np.where(sound, total, 1)
    mean = moments[0, 1:]
    covariance = moments[1:, 1:] - mean[:, None] * mean[None, :]
    diagonal = np.arange(len(mean))
    variance, square = covariance[diagonal, diagonal], moments[1 + diagonal, 1 + diagonal]
    in_span = np.broadcast_to(in_span, variance.shape)
    used = in_span & (variance > ROUNDING_PIVOT * square)
    inverse, pivots = _inverse_choleskies_where(covariance, used)
    pivots *= np.where(used, variance / np.where(square > 0, square, 1), 1)
    pivots = np.where(in_span & ~used, 0, pivots)
    inverse = np.where(used[:, None] & used[None, :], inverse, 0)
    return mean, inverse, np.where(sound, pivots.min(axis=0, initial=1), 0)


def whitened_blocks(
    cross: Floats, left: tuple[Floats, Floats], right: tuple[Floats, Floats]
) -> Floats:
    """Return ``W_a (cross - mean_a mean_b^T) W_b^T``, given means and maps (or diagonals)."""
    (mean_a, map_a), (mean_b, map_b) = left, right
    m: Floats = cross - mean_a[:, None] * mean_b[None, :]
    m = product(map_a, m) if map_a.ndim == 3 else map_a[:, None] * m
    return product(m, map_b.swapaxes(0, 1)) if map_b.ndim == 3 else m * map_b[None, :]


def top_correlations(m: Floats, counts: NDArray[np.intp]) -> Floats:
    """Return HGR-KB of every whitened block ``(r, s, N)``, ``(N,)``.

    ``counts (N, 2)`` are the numbers of leading features of each side that span its kernel.
    """
    rows, columns = counts.T
    part = m[: rows.max(initial=0), : columns.max(initial=0)]
    inside = np.arange(len(part))[:, None] < rows
    inside = inside[:, None] & (np.arange(part.shape[1])[:, None] < columns)
    return np.minimum(top_singular_values(np.where(inside, part, 0)), 1)


def top_singular_triples(m: Floats) -> tuple[Floats, Floats, Floats]:
    """Return top singular values ``(N,)`` and vectors of blocks ``(r, s, N)``; NaN counts as 0."""
    if not m.size:
        return np.zeros(m.shape[2]), np.zeros(m.shape[::2]), np.zeros(m.shape[1:])
    u, values, v = np.linalg.svd(np.moveaxis(np.nan_to_num(m), -1, 0), full_matrices=False)
    return values[:, 0], u[:, :, 0].T, v[:, 0].T


def top_singular_values(m: Floats) -> Floats:
    """Return the largest singular value of every block of ``m (r, s, N)``, ``(N,)``."""
    if len(m) > m.shape[1]:
        m = m.swapaxes(0, 1)
    size, _, count = m.shape
    if not size or not count:
        return np.zeros(count)
    gram = np.einsum("asn,bsn->abn", m, m, dtype=np.float64)
    return np.sqrt(np.maximum(top_eigenvalues(gram), 0))


def top_eigenvalues(s: Floats) -> Floats:
    """Return the largest eigenvalue of symmetric ``s (d, d, N)``, ``(N,)``; NaN where s has one."""
    finite = np.isfinite(s).all(axis=(0, 1))
    s = np.where(finite, s, 0)
    if len(s) == 2:
        values = (s[0, 0] + s[1, 1]) / 2 + np.hypot((s[0, 0] - s[1, 1]) / 2, s[0, 1])
    elif len(s) == 3:
        values = _top_eigenvalues_of_three(s)
    else:
        values = np.linalg.eigvalsh(np.moveaxis(s, -1, 0))[:, -1]
    return np.where(finite, values, np.nan)


def _top_eigenvalues_of_three(s: Floats) -> Floats:
    """Return the largest eigenvalue of symmetric ``s (3, 3, N)``, in closed form.

    Source: Smith, "Eigenvalues of a symmetric 3 x 3 matrix" (1961).
    """
    mean = (s[0, 0] + s[1, 1] + s[2, 2]) / 3
    a, b, c = (s[i, i] - mean for i in range(3))
    d, e, f = s[0, 1], s[0, 2], s[1, 2]
    size = np.sqrt((a * a + b * b + c * c + 2 * (d * d + e * e + f * f)) / 6)
    determinant = a * (b * c - f * f) - d * (d * c - e * f) + e * (d * f - b * e)
    cosine = np.clip(determinant / np.where(size > 0, 2 * size**3, 1), -1, 1)
    return np.asarray(mean + 2 * size * np.cos(np.arccos(cosine) / 3))


def clustered_order(correlation: Floats) -> Integers:
    """Return the order in which similar columns of a matrix ``(c, c)`` are side by side."""
    if len(correlation) < 3:
        return np.arange(len(correlation))
    from scipy.cluster import hierarchy  # loads SciPy's optimisers

    apart = 1 - np.nan_to_num(correlation)
    first, second = np.triu_indices(len(apart), 1)
    tree = hierarchy.linkage(np.maximum(apart[first, second], 0), "average")
    return np.asarray(hierarchy.leaves_list(tree), np.intp)
