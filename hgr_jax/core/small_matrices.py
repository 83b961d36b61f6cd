"""Factorisations of small matrices: one by LAPACK, many at once by code of our own.

Under `jax.vmap` the functions of LAPACK become batched calls, and these are not used: they share
the threads of a pool in which several calls can wait for each other for ever (jaxlib 0.9.1 to
0.11.0).  A batch is solved with its axis innermost instead, by elementwise operations in loops of
one body, which vectorise on CPU and GPU alike.  (A single matrix goes to LAPACK because a call
compiles in a tenth of the time of such a loop.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_batching import custom_vmap

LARGEST_BY_ROTATIONS = 64
"""Side of the largest matrices of a batch that are solved by rotations; larger ones, one by one."""

MAX_SWEEPS = 12

matmul = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)


def _batched_by(
    many: Callable[[Array], Any],
) -> Callable[[Callable[[Array], Any]], Callable[[Array], Any]]:
    """Make ``jax.vmap`` of a function of a matrix call ``many``, whose batch axis is the last."""

    def decorate(one: Callable[[Array], Any]) -> Callable[[Array], Any]:
        mapped = custom_vmap(one)

        @mapped.def_vmap
        def rule(axis_size: int, in_batched: list[bool], s: Array) -> tuple[Any, Any]:
            del axis_size, in_batched
            results = jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), many(jnp.moveaxis(s, 0, -1)))
            return results, jax.tree.map(lambda _: True, results)

        return functools.wraps(one)(mapped)

    return decorate


def _inverse_choleskies(s: Array) -> Array:
    """Return `inverse_cholesky` of matrices ``(d, d, N)``, by elimination on ``[S, 1]``."""
    size = s.shape[0]
    index = lax.iota(jnp.int32, size)[:, None, None]

    def step(j: Array, rows: Array) -> Array:
        row, column, pivot = rows[j][None], rows[:, j][:, None], rows[j, j][None, None]
        return jnp.where(
            index > j,
            rows - column / pivot * row,
            jnp.where(index == j, row / jnp.sqrt(pivot), rows),
        )

    identity = jnp.broadcast_to(jnp.eye(size, dtype=s.dtype)[..., None], s.shape)
    rows = lax.fori_loop(0, size, step, jnp.concatenate([s, identity], axis=1))
    return rows[:, size:]


@jax.custom_jvp
def inverse_cholesky(s: Array) -> Array:
    """Return ``W``, lower triangular, with ``W S W^T = 1``.

    With ``S`` the second moments of functions, ``W`` makes them orthonormal one after the other
    (Gram-Schmidt): ``1 / W_jj`` is the norm of what is left of function j after projection on
    those before it.

    Args:
      s: symmetric positive definite ``(d, d)``, traced; one that is not gives NaN.

    Returns:
      ``(d, d)``, differentiable to any order.
    """
    return _inverse_cholesky(s)


@_batched_by(_inverse_choleskies)
def _inverse_cholesky(s: Array) -> Array:
    factor = lax.linalg.cholesky_p.bind(s)  # what is above the diagonal is not read
    identity = np.eye(s.shape[0], dtype=s.dtype)
    return lax.linalg.triangular_solve(factor, identity, left_side=True, lower=True)


@inverse_cholesky.defjvp
def _inverse_cholesky_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    inverse = inverse_cholesky(*primals)
    moved = matmul(matmul(inverse, tangents[0]), inverse.T)
    return inverse, -matmul(half_lower(moved), inverse)


def half_lower(s: Array) -> Array:
    """Return the lower triangle of ``s (d, d)``, with half of its diagonal.

    With ``L = half_lower(W dS W^T)`` the derivative of ``W = inverse_cholesky(S)`` is ``-L W``.
    """
    half = np.tril(np.ones(s.shape), -1) + np.eye(len(s)) / 2
    return s * half.astype(s.dtype)


def _many_symmetric_eigen(s: Array) -> tuple[Array, Array]:
    """Return `symmetric_eigen` of matrices ``(d, d, N)``, by Jacobi's rotations.

    d / 2 planes turn at a time, in a round robin, until what is left off the diagonal of every
    matrix is rounding: Brent & Luk, "The solution of singular-value and symmetric eigenvalue
    problems on multiprocessor arrays" (1985).
    """
    size = s.shape[0]
    if size > LARGEST_BY_ROTATIONS:
        values, vectors = lax.map(symmetric_eigen, jnp.moveaxis(s, -1, 0))
        return jnp.moveaxis(values, 0, -1), jnp.moveaxis(vectors, 0, -1)
    if size == 1:
        return s[0], jnp.ones_like(s)
    half = -(-size // 2)
    padding = 2 * half - size
    scale = jnp.max(jnp.abs(s), axis=(0, 1), keepdims=True)
    s = s / jnp.where(scale > 0, scale, 1)
    s = jnp.pad(s, ((0, padding), (0, padding), (0, 0)))
    identity = np.eye(2 * half, dtype=s.dtype)[..., None]
    tolerance = float(jnp.finfo(s.dtype).eps) / 4

    def unfinished(state: tuple[Array, Array, Array]) -> Array:
        count, s, _ = state
        left = jnp.any((jnp.abs(s) > tolerance) & (identity == 0))
        return (count < MAX_SWEEPS * (2 * half - 1)) & left

    def rotate(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        """Zero the entries ``(i, half + i)``, then move the next planes there."""
        count, s, vectors = state
        low, high, entry = (
            jnp.stack([block[i, i] for i in range(half)])
            for block in (s[:half, :half], s[half:, half:], s[:half, half:])
        )
        apart = entry != 0
        ratio = (high - low) / jnp.where(apart, 2 * entry, 1)
        tangent = 1 / (jnp.abs(ratio) + jnp.sqrt(1 + ratio * ratio))
        tangent = jnp.where(apart, jnp.where(ratio < 0, -tangent, tangent), 0)
        cosine = lax.rsqrt(1 + tangent * tangent)[:, None]
        sine = tangent[:, None] * cosine

        def turned(x: Array) -> Array:
            top, bottom = x[:half], x[half:]
            return _next_round(cosine * top - sine * bottom, sine * top + cosine * bottom)

        s = turned(s).swapaxes(0, 1)
        return count + 1, turned(s), turned(vectors)

    start = (jnp.zeros((), jnp.int32), s, jnp.broadcast_to(identity, s.shape))
    _, s, vectors = lax.while_loop(unfinished, rotate, start)
    values = jnp.diagonal(s).T * scale[0]
    if padding:
        # The row that was added never turns: it is the one vector with an entry there.
        place = jnp.argmax(jnp.abs(vectors[:, -1]), axis=0).astype(jnp.int32)
        index = lax.iota(jnp.int32, size)[:, None]
        index = index + (index >= place[None]).astype(jnp.int32)
        values = jnp.take_along_axis(values, index, axis=0)
        vectors = jnp.take_along_axis(vectors, index[:, None], axis=0)
    return values, vectors[:, :size].swapaxes(0, 1)


def _next_round(top: Array, bottom: Array) -> Array:
    """Return rows in the order of the next round; every two meet within one round fewer than rows.

    Pairs are ``(top[i], bottom[i])``; the first stays and the others go round.
    """
    if len(top) == 1:
        return jnp.concatenate([top, bottom])
    return jnp.concatenate([top[:1], bottom[:1], top[1:-1], bottom[1:], top[-1:]])


@_batched_by(_many_symmetric_eigen)
def symmetric_eigen(s: Array) -> tuple[Array, Array]:
    """Return eigenvalues ``(d,)``, in no order, and eigenvectors ``(d, d)``, one a column.

    Of a symmetric, finite ``s (d, d)``.  Not differentiable: derivatives are the caller's.
    """
    vectors, values = lax.linalg.eigh(s, symmetrize_input=False, sort_eigenvalues=False)
    return values, vectors


Singular = tuple[Array, Array, tuple[Array, Array]]


def _many_right_singular(m: Array) -> Singular:
    gram = jnp.sum(m[:, :, None] * m[:, None, :], axis=0)
    values, vectors = _many_symmetric_eigen(gram)
    values = jnp.sqrt(jnp.maximum(values, 0))
    first = lax.iota(jnp.int32, len(values))[:, None] == lax.argmax(values, 0, jnp.int32)[None]
    others = jnp.where(first, 0, values)
    leading = jnp.max(values, axis=0), jnp.max(others, axis=0)
    return values, vectors.swapaxes(0, 1), leading


@_batched_by(_many_right_singular)
def right_singular(m: Array) -> Singular:
    """Return singular values ``(k,)``, right singular vectors ``(k, k)``, the two largest values.

    Of a finite ``m (h, k)``, values that it does not have being 0.  Values are in no order,
    vectors in rows.  In a batch, values far below the largest are known to half the digits.  Not
    differentiable.
    """
    missing = max(m.shape[1] - m.shape[0], 0)
    # LAPACK's matrices are by column: so neither m nor the rows are moved.
    columns, values, _ = lax.linalg.svd(m.T, full_matrices=missing > 0)
    values = jnp.pad(values, (0, missing))
    second = values[1] if len(values) > 1 else jnp.zeros_like(values[0])
    return values, columns.T, (values[0], second)
