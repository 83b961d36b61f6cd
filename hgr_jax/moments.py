"""Second moments of basis functions: sums over rows, block by block.

Everything an estimate needs from the data is the Gram matrix of the basis functions of both
variables.  It is a sum over rows, so it is computed in blocks that fit in cache and nothing of
the size of the data times the degrees is ever in memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import Array, lax

from hgr_jax.kernels import Basis

WHOLE_ROWS = 16384
"""Up to so many rows are one block: their basis functions still fit in a core's cache."""

BLOCK_ROWS = 4096
"""Rows of a block of longer data."""


def sum_over_rows(block: Callable[..., Array], columns: Sequence[Array]) -> Array:
    """``block(*columns)`` summed over blocks of rows (the leading axis of every column).

    The reverse-mode derivative keeps only the columns and recomputes each block.
    """
    rows = columns[0].shape[0]
    if rows <= WHOLE_ROWS:
        return block(*columns)
    blocks = rows // BLOCK_ROWS
    head = blocks * BLOCK_ROWS
    block = jax.checkpoint(block, prevent_cse=False)
    stacked = tuple(c[:head].reshape(blocks, BLOCK_ROWS, *c.shape[1:]) for c in columns)
    shape = jax.eval_shape(block, *(c[0] for c in stacked))
    total, _ = lax.scan(
        lambda total, parts: (total + block(*parts), None),
        jnp.zeros(shape.shape, shape.dtype),
        stacked,
    )
    if head < rows:
        total = total + block(*(c[head:] for c in columns))
    return total


def mean_product(
    rows: Callable[..., Array], columns: Sequence[Array], weights: Array | None
) -> Array:
    """Weighted mean over the data of ``r r^T``, for ``rows(*columns) -> (m, n)``.

    ``weights`` sum to 1; None stands for equal weights.
    """
    if weights is None:
        total = sum_over_rows(lambda *parts: _product(*[rows(*parts)] * 2), columns)
        return total / columns[0].shape[0]

    def block(w: Array, *parts: Array) -> Array:
        r = rows(*parts)
        return _product(r * w[None, :], r)

    return sum_over_rows(block, (weights, *columns))


def _product(left: Array, right: Array) -> Array:
    return lax.dot_general(left, right, (((1,), (1,)), ((), ())), precision=lax.Precision.HIGHEST)


def pair_gram(basis_a: Basis, basis_b: Basis, a: Array, b: Array, weights: Array | None) -> Array:
    """Gram matrix of ``[1, basis_a(a), basis_b(b)]``, differentiable in data and weights."""

    def rows(a: Array, b: Array) -> Array:
        ones = jnp.ones((1, a.shape[0]), a.dtype)
        return jnp.concatenate([ones, basis_a.rows(a), basis_b.rows(b)])

    return mean_product(rows, (a, b), weights)


def standardised(x: Array, *, ddof: int = 0) -> Array:
    """``x (n,)`` or ``(n, p)`` with columns of zero mean and unit standard deviation.

    A constant column becomes 0, with zero derivatives; NaN or infinity makes the column NaN.
    It is first taken relative to its first row and its range, so that neither a far mean nor
    an extreme unit costs digits (down to the smallest normal numbers of the dtype).
    """
    x = x / 2  # so that the range of any data is a finite number
    x = x - lax.stop_gradient(x[:1])
    reach = lax.stop_gradient(jnp.max(jnp.abs(x), axis=0, keepdims=True))
    varies = ~(reach == 0)
    x = x / jnp.where(varies, reach, 1)
    x = x - jnp.mean(x, axis=0, keepdims=True)
    variance = jnp.sum(x * x, axis=0, keepdims=True) / max(x.shape[0] - ddof, 1)
    return jnp.where(varies, x / jnp.sqrt(jnp.where(varies, variance, 1)), 0)


def standard_deviation(x: Array, weights: Array | None = None) -> Array:
    """Population standard deviation of ``x (n,)``; 0, with zero derivatives, of a constant.

    A row of weight 0 may hold anything.
    """
    if weights is not None:
        x = jnp.where(weights == 0, x[jnp.argmax(weights)], x)
        weights = weights / jnp.max(weights)
    x = x / 2  # so that the range of any data is a finite number
    x = x - lax.stop_gradient(x[0])
    reach = lax.stop_gradient(jnp.max(jnp.abs(x)))
    varies = ~(reach == 0)
    reach = jnp.where(varies, reach, 1)
    mean = functools.partial(jnp.average, weights=weights)
    variance = mean(jnp.square(x / reach - mean(x / reach)))
    return jnp.where(varies, 2 * reach * jnp.sqrt(jnp.where(varies, variance, 1)), 0)


def whitening(gram: Array, alive: Array) -> tuple[Array, Array]:
    """Means and Cholesky factor of the covariance of basis functions, from ``[1, basis]``'s Gram.

    Dead directions get a unit row.  The functions are near-orthonormal, so the factor is well
    conditioned and its derivative safe.
    """
    mean = jnp.where(alive, gram[0, 1:], 0)
    both = alive[:, None] & alive[None, :]
    covariance = jnp.where(both, gram[1:, 1:] - mean[:, None] * mean[None, :], 0)
    identity = jnp.eye(alive.shape[0], dtype=gram.dtype)
    scale = jnp.where(alive, jnp.diagonal(lax.stop_gradient(covariance)), 1)
    scale = jnp.sqrt(jnp.where(scale > 0, scale, 1))
    correlation = jnp.where(both, covariance / scale[:, None] / scale[None, :], identity)
    return mean, scale[:, None] * jnp.linalg.cholesky(correlation)
