"""KB on parts of the data, from Gram matrices of one basis fitted to all of it.

A basis is only a choice of coordinates: polynomials that are orthonormal on all rows span the
same functions on some of them.  There they are whitened again, by a Cholesky factor, which keeps
them nested: the first d whitened functions span the polynomials of degree d.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.linalg import block_diag, solve_triangular

from hgr_jax.kernels import PolynomialBasis
from hgr_jax.moments import pair_gram
from hgr_jax.orthogonal import fit_polynomials
from hgr_jax.solvers import CanonicalPair

matmul = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)


class Bases(NamedTuple):
    """Near-orthonormal polynomials of both variables, constants under differentiation."""

    a: PolynomialBasis
    b: PolynomialBasis

    @property
    def alive(self) -> tuple[Array, Array]:
        """Which directions of each the data supports."""
        return self.a.alive, self.b.alive


def fit_bases(
    a: Array, b: Array, weights: Array | None, degrees: tuple[int, int]
) -> tuple[Bases, Array]:
    """Bases fitted to all rows, and the Gram matrix of ``[1, basis of a, basis of b]``.

    ``weights`` sum to 1, and rows of weight 0 hold harmless values.
    """
    a, b = lax.stop_gradient(a), lax.stop_gradient(b)
    weights = None if weights is None else lax.stop_gradient(weights)
    bases, gram, _ = fit_polynomials((a, b), degrees, weights)
    return Bases(*lax.stop_gradient(bases)), gram


def fold_order(key: Array, rows: int, folds: int) -> Array:
    """Rows of every fold, ``(folds, size)``: random, of sizes that differ by one at most.

    ``rows`` (one past the last) stands where a fold has a row less.
    """
    size = -(-rows // folds)
    order = jax.random.permutation(key, rows)
    padded = jnp.concatenate([order, jnp.full(folds * size - rows, rows, order.dtype)])
    return padded.reshape(size, folds).T


def fold_grams(bases: Bases, a: Array, b: Array, weights: Array | None, order: Array) -> Array:
    """The Gram matrix of every fold, ``(folds, m, m)``; together they sum to that of all rows."""
    rows = a.shape[0]
    w = jnp.full(rows, 1 / rows, a.dtype) if weights is None else weights
    inside = jnp.minimum(order, rows - 1)
    w = jnp.where(order < rows, w[inside], 0)
    return lax.map(lambda part: pair_gram(*bases, *part), (a[inside], b[inside], w))


def training_grams(folds: Array) -> Array:
    """For every fold, the Gram matrix of all others; summed, as a difference would cancel."""
    others = 1 - jnp.eye(folds.shape[0], dtype=folds.dtype)
    return jnp.einsum("fg,gij->fij", others, folds, precision=lax.Precision.HIGHEST)


def covariance(gram: Array) -> tuple[Array, Array]:
    """Means and covariance of basis functions, from the Gram matrix of ``[1, functions]``."""
    total = gram[0, 0]
    gram = gram / jnp.where(total > 0, total, 1)
    mean = gram[0, 1:]
    return mean, gram[1:, 1:] - mean[:, None] * mean[None, :]


def whitener(gram: Array, alive: Array) -> Array:
    """The lower triangular map that makes functions orthonormal; 0 for what they do not support.

    A direction is dead when hardly more than rounding is left of it after projection on those
    before it, and so is every later one.
    """
    _, c = covariance(gram)
    size = c.shape[0]
    square = jnp.diagonal(gram)[1:] / jnp.where(gram[0, 0] > 0, gram[0, 0], 1)
    tolerance = 32 * size * float(jnp.finfo(c.dtype).eps)
    identity = jnp.eye(size, dtype=c.dtype)

    def step(j: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        left, factor, used, clear = state
        pivot = left[j, j]
        share = lax.stop_gradient(pivot / jnp.where(square[j] > 0, square[j], 1))
        clear = jnp.where(alive[j], clear * jnp.minimum(share, 1), 0)
        lives = clear > tolerance
        column = jnp.where(lives, left[:, j] / jnp.sqrt(jnp.where(lives, pivot, 1)), 0)
        column = jnp.where(jnp.arange(size) >= j, column, 0)
        left = left - column[:, None] * column[None, :]
        factor = factor.at[:, j].set(jnp.where(lives, column, identity[j]))
        return left, factor, used.at[j].set(lives), clear

    start = (c, identity, jnp.zeros(size, bool), jnp.ones((), c.dtype))
    _, factor, used, _ = lax.fori_loop(0, size, step, start)
    inverse = solve_triangular(factor, identity, lower=True)
    return jnp.where(used[:, None], inverse, 0)


def pair_whitener(gram: Array, alive: tuple[Array, Array]) -> Array:
    """`whitener` of both variables, block diagonal, from ``[1, basis of a, basis of b]``'s Gram."""
    size = alive[0].shape[0]
    other = np.r_[0, size + 1 : gram.shape[0]]
    return block_diag(
        whitener(gram[: size + 1, : size + 1], alive[0]),
        whitener(gram[other[:, None], other[None, :]], alive[1]),
    )


def cross_moments(gram: Array, alive: tuple[Array, Array]) -> Array:
    """M, whose top singular value is KB on the rows of this Gram matrix, ``(h, k)``."""
    size = alive[0].shape[0]
    transform = pair_whitener(gram, alive)
    _, c = covariance(gram)
    m = matmul(
        transform[:size, :size], matmul(c[:size, size:], transform[size:, size:].swapaxes(0, 1))
    )
    return jnp.where(jnp.isfinite(m), m, 0)


class Whitened(NamedTuple):
    """Held-out moments of the functions that other rows make orthonormal."""

    mean: Array
    covariance: Array


def held_out(training: Array, test: Array, alive: tuple[Array, Array]) -> tuple[Array, Whitened]:
    """M of the training rows, and the moments of their whitened functions on the test rows."""
    size = alive[0].shape[0]
    transform = pair_whitener(training, alive)
    centre, c = covariance(training)
    mean, d = covariance(test)
    m = matmul(transform, matmul(c, transform.swapaxes(0, 1)))[:size, size:]
    moved = matmul(transform, matmul(d, transform.swapaxes(0, 1)))
    return jnp.where(jnp.isfinite(m), m, 0), Whitened(matmul(transform, mean - centre), moved)


def score(pair: CanonicalPair, test: Whitened) -> Array:
    """Pearson correlation of the transformations on test rows; 0 where one does not vary."""
    size = pair.u.shape[0]
    c = test.covariance
    variances, varies = [], jnp.array(True)
    for w, part in ((pair.u, slice(None, size)), (pair.v, slice(size, None))):
        variance = jnp.dot(w, matmul(c[part, part], w))
        square = variance + jnp.dot(w, test.mean[part]) ** 2
        tolerance = 32 * c.shape[0] * float(jnp.finfo(c.dtype).eps)
        varies &= variance > tolerance * square
        variances.append(variance)
    product = jnp.dot(pair.u, matmul(c[:size, size:], pair.v))
    norm = jnp.sqrt(jnp.where(varies, variances[0] * variances[1], 1))
    return jnp.where(varies, jnp.clip(product / norm, -1, 1), 0)
