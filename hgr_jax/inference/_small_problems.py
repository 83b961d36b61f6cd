"""Small matrices, many at once, on the host: what makes features orthonormal, and the top pair.

For functions whose shapes vary with every table, so that compiling them would cost more than
their arithmetic.  The batch is the last axis, where NumPy's loops are long.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats

ROUNDING_PIVOT = 1e-13
"""A pivot of a correlation matrix that is below is rounding."""

MAX_SIDE_BY_ROOTS = 12
"""Largest smaller side of blocks whose top value is the root of a polynomial; others by LAPACK."""

MAX_STEPS = 80


def product(left: Floats, right: Floats) -> Floats:
    """Return the matrix products of ``(r, t, N)`` and ``(t, s, N)``."""
    total = np.zeros((len(left), *right.shape[1:]))
    for i in range(left.shape[1]):
        total += left[:, i, None] * right[None, i]
    return total


def inverse_choleskies(s: Floats, least: Floats | float = ROUNDING_PIVOT) -> tuple[Floats, Floats]:
    """Return the inverse Cholesky factors of ``s (d, d, ...)``, and their pivots ``(d, ...)``.

    The pivot of a row that depends on those before it, to ``least`` (or that of each, ``(d,
    ...)``), is 0, and so is its row of the factor.
    """
    size = len(s)
    identity = np.eye(size).reshape(size, size, *[1] * (s.ndim - 2))
    rows = np.concatenate([s, np.broadcast_to(identity, s.shape)], axis=1)
    pivots = np.empty(s.shape[1:])
    floor = np.broadcast_to(np.maximum(least, ROUNDING_PIVOT), pivots.shape)
    for j in range(size):
        pivot = rows[j, j].copy()
        lives = pivot > floor[j]
        pivots[j] = np.where(lives, pivot, 0)
        pivot = np.where(lives, pivot, 1)
        # Columns beyond size + j are still those of the identity.
        known = slice(j, size + j + 1)
        rows[j + 1 :, known] -= (rows[j + 1 :, j] / pivot)[:, None] * rows[j, known]
        rows[j] *= lives / np.sqrt(pivot)
    return rows[:, size:], pivots


def whitenings(
    moments: Floats, in_span: NDArray[np.bool_] | bool = True
) -> tuple[Floats, Floats, Floats]:
    """Return what makes features orthonormal on some sets of rows, from their second moments.

    Args:
      moments: ``(d + 1, d + 1, ...)``, sums over the rows of products of ``[1, p_1 .. p_d]``.
      in_span: broadcasts to ``(d, ...)``, directions that the data supports.

    Returns:
      Means ``(d, ...)``; inverse Cholesky factors ``(d, d, ...)`` of the covariances, 0 in dead
      directions; and the smallest pivot ``(...)`` of the correlation matrices, relative to what
      rounding leaves: small where the rows do not support a direction.
    """
    total = moments[0, 0]
    known = (total > 0) & np.isfinite(moments).all(axis=(0, 1))
    moments = np.where(known, moments, 0) / np.where(known, total, 1)
    mean = moments[0, 1:]
    covariance = moments[1:, 1:] - mean[:, None] * mean[None, :]
    each = np.arange(len(mean))
    variance, square = covariance[each, each], moments[1 + each, 1 + each]
    in_span = np.broadcast_to(in_span, variance.shape)
    used = in_span & (variance > ROUNDING_PIVOT * square)
    both = used[:, None] & used[None, :]
    scale = np.sqrt(np.where(used, variance, 1))
    covariance = np.where(both, covariance, 0) / scale[:, None] / scale[None, :]
    identity = np.eye(len(mean)).reshape(*both.shape[:2], *[1] * total.ndim)
    inverse, pivots = inverse_choleskies(np.where(both, covariance, identity))
    pivots *= np.where(used, variance / np.where(square > 0, square, 1), 1)
    pivots = np.where(in_span & ~used, 0, pivots)
    inverse = np.where(both, inverse / scale[None, :], 0)
    return mean, inverse, np.where(known, pivots.min(axis=0, initial=1), 0)


def whitened_blocks(
    cross: Floats, left: tuple[Floats, Floats], right: tuple[Floats, Floats]
) -> Floats:
    """Return ``W_a (cross - mean_a mean_b^T) W_b^T`` for every pair, ``(r, s, N)``.

    Args:
      cross: ``(r, s, N)``, mean products of the features of the two sides.
      left, right: means ``(r, N)`` and maps ``(r, r, N)``, or ``(r, N)`` for diagonal ones, of
        each side over the pair's rows.
    """
    (mean_a, map_a), (mean_b, map_b) = left, right
    m: Floats = cross - mean_a[:, None] * mean_b[None, :]
    m = product(map_a, m) if map_a.ndim == 3 else map_a[:, None] * m
    return product(m, map_b.swapaxes(0, 1)) if map_b.ndim == 3 else m * map_b[None, :]


def top_correlations(
    m: Floats, degrees: NDArray[np.intp], linear: NDArray[np.intp], *, single: bool
) -> Floats:
    """Return HGR of every whitened block ``(r, s, N)``, of kernels of its own degrees, ``(N,)``.

    Args:
      m: blocks, first features first.
      degrees: ``(N, 2)``, how many of the features of each side are in its kernel.
      linear: ``(N, 2)``, how many of them span its linear functions.
      single: HGR-SK, with one side linear, instead of HGR-KB.
    """

    def within(rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
        """Return the top values of the leading blocks."""
        most = rows.max(initial=0), columns.max(initial=0)
        part = m[: most[0], : most[1]]
        if not ((rows == len(part)).all() and (columns == part.shape[1]).all()):
            kept = np.arange(len(part))[:, None] < rows
            part = part * (kept[:, None] & (np.arange(part.shape[1])[:, None] < columns))
        return top_singular_values(part)

    if single:
        first, second = within(degrees[:, 0], linear[:, 1]), within(linear[:, 0], degrees[:, 1])
        value = np.maximum(first, second)
    else:
        value = within(degrees[:, 0], degrees[:, 1])
    return np.minimum(value, 1)


def top_singular_values(m: Floats) -> Floats:
    """Return the largest singular value of every block of ``m (r, s, N)``, ``(N,)``."""
    if len(m) > m.shape[1]:
        m = m.swapaxes(0, 1)
    size, _, count = m.shape
    if not size or not count:
        return np.zeros(count)
    if size > MAX_SIDE_BY_ROOTS:
        finite = np.isfinite(m).all(axis=(0, 1))
        blocks = np.moveaxis(np.where(finite, m, 0), -1, 0)
        values = np.linalg.svd(blocks, compute_uv=False)[:, 0].astype(np.float64)
        return np.where(finite, values, np.nan)
    found = np.empty(count)
    # So many that the arrays of a part fit in a core's cache.
    at_once = max(64, 2**16 // size**2)
    for start in range(0, count, at_once):
        part = m[..., start : start + at_once].astype(np.float64, copy=False)
        gram = np.empty((size, size, part.shape[2]))
        for a in range(size):
            gram[a, a:] = np.einsum("sn,bsn->bn", part[a], part[a:])
            gram[a:, a] = gram[a, a:]
        found[start : start + at_once] = np.sqrt(top_eigenvalues(gram))
    return found


def top_eigenvalues(s: Floats) -> Floats:
    """Return the largest eigenvalue of symmetric, positive semidefinite ``s (d, d, N)``, ``(N,)``.

    Householder's reflections make a matrix tridiagonal, of which Laguerre's iteration from above
    finds the largest root of the characteristic polynomial: it never passes it, and converges
    cubically to a simple one.  ``s`` is overwritten.

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
    diagonal, squares = _tridiagonal(s)
    mean = diagonal.sum(axis=0) / size
    spread = ((diagonal - mean) ** 2).sum(axis=0) + 2 * squares.sum(axis=0)
    # The step of Laguerre's iteration from infinity.
    value = mean + np.sqrt((size - 1) / size * spread)
    if size > 2:
        _descend(value, diagonal, squares)
    return np.where(unknown, np.nan, np.where(empty, 0, value * np.where(empty, 1, scale)))


def _tridiagonal(s: Floats) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the diagonal ``(d, N)`` and the squares beside it ``(d - 1, N)``, by reflections."""
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
    """Iterate as Laguerre did, in place, from upper bounds ``(N,)`` of the largest roots."""
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
        going = np.flatnonzero(step > tolerance * x)
        if not len(going):
            return
        if len(going) < len(active):
            active, diagonal, squares = active[going], diagonal[:, going], squares[:, going]
