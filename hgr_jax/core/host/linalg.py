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


MAX_SIDE_BY_ROOTS, MIN_BLOCKS_BY_ROOTS = 12, 32
"""Largest smaller side of blocks whose top value is found as a root of a polynomial, not by LAPACK,
and smallest number of such blocks."""

MAX_STEPS = 80
"""Largest number of steps of Laguerre's iteration."""


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


def top_correlations(
    m: Floats, degrees: NDArray[np.intp], linear: NDArray[np.intp], *, single: bool
) -> Floats:
    """Return HGR-KB, or HGR-SK if ``single``, of every whitened block ``(r, s, N)``.

    ``degrees (N, 2)`` and ``linear (N, 2)`` count the leading features of each side that span its
    kernel and its linear functions.
    """

    def top(rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
        return top_singular_values(_leading_blocks(m, rows, columns))

    if single:
        value = np.maximum(top(degrees[:, 0], linear[:, 1]), top(linear[:, 0], degrees[:, 1]))
    else:
        value = top(degrees[:, 0], degrees[:, 1])
    return np.minimum(value, 1)


def _leading_blocks(m: Floats, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
    """Return blocks ``m (r, s, N)`` with 0 outside the first ``rows`` and ``columns (N,)``."""
    part = m[: rows.max(initial=0), : columns.max(initial=0)]
    if (rows == len(part)).all() and (columns == part.shape[1]).all():
        return part
    in_rows = np.arange(len(part))[:, None] < rows
    return part * (in_rows[:, None] & (np.arange(part.shape[1])[:, None] < columns))


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
    if size > MAX_SIDE_BY_ROOTS or (size > 3 and count < MIN_BLOCKS_BY_ROOTS):
        finite = np.isfinite(m).all(axis=(0, 1))
        blocks = np.moveaxis(np.where(finite, m, 0).astype(np.float64), -1, 0)
        squares = np.linalg.eigvalsh(blocks @ blocks.swapaxes(1, 2))[:, -1]
        return np.where(finite, np.sqrt(np.maximum(squares, 0)), np.nan)
    tops = np.empty(count)
    # The arrays of a part fit in a core's cache.
    at_once = max(64, 2**16 // size**2)
    for start in range(0, count, at_once):
        part = m[..., start : start + at_once].astype(np.float64, copy=False)
        gram = np.empty((size, size, part.shape[2]))
        for a in range(size):
            gram[a, a:] = np.einsum("sn,bsn->bn", part[a], part[a:])
            gram[a:, a] = gram[a, a:]
        tops[start : start + at_once] = np.sqrt(top_eigenvalues(gram))
    return tops


def top_eigenvalues(s: Floats) -> Floats:
    """Return the largest eigenvalue of symmetric, positive semidefinite ``s (d, d, N)``, ``(N,)``.

    Householder's reflections make the matrix tridiagonal; Laguerre's iteration from above finds the
    largest root of its characteristic polynomial, never passes it, and converges cubically to a
    simple root.  ``s`` is overwritten.

    Source: Parlett, "The Symmetric Eigenvalue Problem" (1980), sections 7.4 and 7.5; Wilkinson,
    "The Algebraic Eigenvalue Problem" (1965), 7.34, on Laguerre's method.
    """
    size = len(s)
    each = np.arange(size)
    scale = s[each, each].sum(axis=0)
    unknown = ~np.isfinite(scale)
    empty = unknown | (scale <= 1e-290)
    s /= np.where(empty, 1, scale)
    if size == 1:
        return np.where(unknown, np.nan, np.where(empty, 0, s[0, 0] * scale))
    if empty.any():
        s[..., empty] = 0
    if size == 3:
        value = _top_eigenvalues_of_three(s)
        return np.where(unknown, np.nan, np.where(empty, 0, value * np.where(empty, 1, scale)))
    diagonal, squares = _tridiagonal(s)
    mean = diagonal.sum(axis=0) / size
    spread = ((diagonal - mean) ** 2).sum(axis=0) + 2 * squares.sum(axis=0)
    # The step of Laguerre's iteration from infinity.
    value = mean + np.sqrt((size - 1) / size * spread)
    if size > 2:
        _descend(value, diagonal, squares)
    return np.where(unknown, np.nan, np.where(empty, 0, value * np.where(empty, 1, scale)))


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


def _tridiagonal(s: Floats) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the diagonal ``(d, N)`` and squared off-diagonal ``(d - 1, N)`` of a reflected s."""
    size, _, count = s.shape
    squares = np.empty((size - 1, count))
    for k in range(size - 2):
        v = s[k + 1 :, k].copy()
        squares[k] = np.einsum("in,in->n", v, v)
        v[0] += np.copysign(np.sqrt(squares[k]), v[0])
        length = np.einsum("in,in->n", v, v)
        factor = 2 / np.where(length > 0, length, 1)
        left = s[k + 1 :, k + 1 :]
        image = np.einsum("ijn,jn->in", left, v) * factor
        image -= (factor / 2 * np.einsum("in,in->n", image, v)) * v
        for i in range(len(v)):
            left[i] -= v[i] * image
            left[i] -= image[i] * v
    squares[-1] = s[-1, -2] ** 2
    return s[np.arange(size), np.arange(size)], squares


def _descend(value: Floats, diagonal: NDArray[Any], squares: Floats) -> None:
    """Lower upper bounds ``(N,)`` of the largest roots to these, in place, by Laguerre's method."""
    size = len(diagonal)
    tolerance = 2 * size * np.finfo(np.float64).eps
    active = np.arange(len(value))
    for _ in range(MAX_STEPS):
        x = value[active]
        # q is a pivot of x - T: all are positive above the largest root.  First and second
        # derivatives with it, over q.
        q = x - diagonal[0]
        above = q > 0
        q = np.where(above, q, 1)
        first, second = 1 / q, np.zeros_like(q)
        slope, bend = first.copy(), first * first
        for k in range(1, size):
            share = squares[k - 1] / q
            moved, curved = share * first, share * (second - 2 * first * first)
            q = x - diagonal[k] - share
            above &= q > 0
            q = np.where(above, q, 1)
            inverse = 1 / q
            first, second = (1 + moved) * inverse, curved * inverse
            slope += first
            bend += first * first - second
        root = np.sqrt(np.maximum((size - 1) * (size * bend - slope * slope), 0))
        step = np.where(above, size / (slope + root), 0)
        value[active] = x - step
        moving = np.flatnonzero(step > tolerance * x)
        if not len(moving):
            return
        if len(moving) < len(active):
            active, diagonal, squares = active[moving], diagonal[:, moving], squares[:, moving]


def clustered_order(correlation: Floats) -> Integers:
    """Return the order in which similar columns of a matrix ``(c, c)`` are side by side."""
    if len(correlation) < 3:
        return np.arange(len(correlation))
    from scipy.cluster import hierarchy  # loads SciPy's optimisers

    apart = 1 - np.nan_to_num(correlation)
    first, second = np.triu_indices(len(apart), 1)
    tree = hierarchy.linkage(np.maximum(apart[first, second], 0), "average")
    return np.asarray(hierarchy.leaves_list(tree), np.intp)
