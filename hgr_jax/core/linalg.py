"""Factorisations of small matrices, by LAPACK, with derivatives that those of JAX lack."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_batching import custom_vmap

matmul = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)


@jax.custom_jvp
def inverse_cholesky(s: Array) -> Array:
    """Return ``W``, lower triangular, with ``W S W^T = 1``; differentiable to any order.

    W orthonormalises functions with second moments ``S (d, d)`` in order (Gram-Schmidt), and ``1 /
    W_jj`` is the norm of the residual of function j.  NaN where S is not positive definite.
    """
    factor = lax.linalg.cholesky_p.bind(s)  # reads the lower triangle only
    identity = np.eye(s.shape[0], dtype=s.dtype)
    return lax.linalg.triangular_solve(factor, identity, left_side=True, lower=True)


@inverse_cholesky.defjvp
def _inverse_cholesky_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    inverse = inverse_cholesky(*primals)
    moved = matmul(matmul(inverse, tangents[0]), inverse.T)
    return inverse, -matmul(half_lower(moved), inverse)


def half_lower(s: Array) -> Array:
    """Return the lower triangle with half the diagonal: ``dW = -half_lower(W dS W^T) W``."""
    half = np.tril(np.ones(s.shape), -1) + np.eye(len(s)) / 2
    return s * half.astype(s.dtype)


def symmetric_eigen(s: Array) -> tuple[Array, Array]:
    """Return eigenvalues ``(d,)``, in no order, and eigenvectors in columns; not differentiable."""
    vectors, values = lax.linalg.eigh(s, symmetrize_input=False, sort_eigenvalues=False)
    return values, vectors


class Singular(NamedTuple):
    """Singular values ``(k,)`` in no order, right vectors in rows, and the two largest values."""

    values: Array
    rows: Array
    largest: Array
    second: Array


@custom_vmap
def right_singular(m: Array) -> Singular:
    """Return k right singular vectors of a finite ``m (h, k)``; in a batch, of half the digits."""
    missing = max(m.shape[1] - m.shape[0], 0)
    # LAPACK stores matrices by column: of m.T it copies neither m nor the rows.
    columns, values, _ = lax.linalg.svd(m.T, full_matrices=missing > 0)
    values = jnp.pad(values, (0, missing))
    second = values[1] if len(values) > 1 else jnp.zeros_like(values[0])
    return Singular(values, columns.T, values[0], second)


@right_singular.def_vmap
def _right_singular_mapped(
    axis_size: int, in_batched: list[bool], m: Array
) -> tuple[Singular, Singular]:
    del axis_size, in_batched
    return jax.vmap(_from_gram)(m), Singular(*[True] * 4)  # type: ignore[arg-type]


def _from_gram(m: Array) -> Singular:
    """Return `right_singular` by the Gram matrix: half the time of an SVD for many matrices."""
    squares, columns = symmetric_eigen(jnp.sum(m[:, :, None] * m[:, None, :], axis=0))
    values = jnp.sqrt(jnp.maximum(squares, 0))
    first = jnp.arange(len(values)) == jnp.argmax(values)
    return Singular(values, columns.T, jnp.max(values), jnp.max(jnp.where(first, 0, values)))
