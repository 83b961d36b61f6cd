"""KB on parts of the data, from Gram matrices of one basis fitted to all of it.

A basis is only a choice of coordinates: polynomials that are orthonormal on all rows span the
same functions on some of them.  There they are whitened again, by a Cholesky factor, which keeps
them nested: the first d whitened functions span the polynomials of degree d.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.linalg import block_diag
from numpy.typing import NDArray

from hgr_jax.core.linalg import matmul
from hgr_jax.core.orthonormal import PolynomialBasis, fit_polynomials
from hgr_jax.core.rows import jitted, mean_product, padded_length
from hgr_jax.core.solvers import CanonicalPair


class PairBases(NamedTuple):
    """Near-orthonormal polynomials of both variables, constants under differentiation."""

    a: PolynomialBasis
    b: PolynomialBasis

    @property
    def in_span(self) -> tuple[Array, Array]:
        """Which directions of each the data supports."""
        return self.a.in_span, self.b.in_span


def fit_bases(a: Array, b: Array, weights: Array | None, degrees: tuple[int, int]) -> PairBases:
    """Fit bases to all rows.

    ``weights`` sum to 1, and rows of weight 0 hold harmless values.
    """
    a, b, weights = lax.stop_gradient((a, b, weights))
    basis = lax.stop_gradient(fit_polynomials((a, b), degrees, weights).basis)
    return PairBases(*(basis.select(v, degree) for v, degree in enumerate(degrees)))


def fold_order(key: Array, rows: int, folds: int, count: Array | None = None) -> Array:
    """Return the rows of every fold, ``(folds, size)``: random, of sizes that differ by 1 at most.

    ``rows`` (one past the last) stands where a fold has a row less.  Of padded rows the first
    ``count`` are dealt, and as they would be without the others.
    """
    index = lax.iota(jnp.int32, rows)
    padding = jnp.zeros_like(index) if count is None else (index >= count).astype(jnp.int32)
    bits = jax.random.bits(key, (rows,), jnp.uint32)
    last, _, order = lax.sort((padding, bits, index), num_keys=2)
    order = jnp.where(last == 1, rows, order)
    size = -(-rows // folds)
    padded = jnp.concatenate([order, jnp.full(folds * size - rows, rows, order.dtype)])
    return padded.reshape(size, folds).T


_fold_order = jitted(fold_order, static=("rows", "folds"))


def folds_of(key: Array, rows: int, folds: int) -> list[NDArray[np.intp]]:
    """Return the rows of every fold, on the host."""
    length = padded_length(rows)
    order = np.asarray(_fold_order(key, length, folds, np.int32(rows)))
    return [fold[fold < length] for fold in order]


def fold_grams(bases: PairBases, a: Array, b: Array, weights: Array | None, order: Array) -> Array:
    """Return the Gram matrix of every fold, ``(folds, m, m)``; their sum is that of all rows."""
    rows = a.shape[0]
    w = jnp.full(rows, 1 / rows, a.dtype) if weights is None else weights
    inside = jnp.minimum(order, rows - 1)
    w = jnp.where(order < rows, w[inside], 0)

    def functions(inside: Array | None, a: Array, b: Array) -> Array:
        both = jnp.concatenate([bases.a.functions(a), bases.b.functions(b)[1:]])
        return both if inside is None else both * inside[None, :]

    def gram(part: tuple[Array, Array, Array]) -> Array:
        return mean_product(functions, part[:2], part[2])

    return lax.map(gram, (a[inside], b[inside], w))


def training_grams(folds: Array) -> Array:
    """Sum, for every fold, the Gram matrices of all others; a difference would cancel."""
    others = 1 - jnp.eye(folds.shape[0], dtype=folds.dtype)
    return jnp.einsum("fg,gij->fij", others, folds, precision=lax.Precision.HIGHEST)


def covariance(gram: Array) -> tuple[Array, Array]:
    """Return means and covariance of functions, from the Gram matrix of ``[1, functions]``."""
    total = gram[0, 0]
    gram = gram / jnp.where(total > 0, total, 1)
    mean = gram[0, 1:]
    return mean, gram[1:, 1:] - mean[:, None] * mean[None, :]


def whitener(gram: Array, in_span: Array) -> Array:
    """Return the lower triangular map that makes functions orthonormal; 0 beyond their span.

    A direction is dead when hardly more than rounding is left of it after projection on those
    before it, and so is every later one.
    """
    _, c = covariance(gram)
    size = c.shape[0]
    square = jnp.diagonal(gram)[1:] / jnp.where(gram[0, 0] > 0, gram[0, 0], 1)
    tolerance = 32 * size * float(jnp.finfo(c.dtype).eps)
    index = lax.iota(jnp.int32, size)[:, None]

    def step(j: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        """Eliminate column j of the rows below; of a dead direction, its own row instead."""
        rows, remaining = state
        pivot = rows[j, j]
        share = lax.stop_gradient(pivot / jnp.where(square[j] > 0, square[j], 1))
        remaining = jnp.where(in_span[j], remaining * jnp.minimum(share, 1), 0)
        lives = remaining > tolerance
        row = jnp.where(lives, rows[j] / jnp.sqrt(jnp.where(lives, pivot, 1)), 0)
        below = jnp.where(lives, rows[:, j] / jnp.sqrt(jnp.where(lives, pivot, 1)), 0)
        reduced = rows - below[:, None] * row[None, :]
        rows = jnp.where(index > j, reduced, jnp.where(index == j, row[None, :], rows))
        return rows, remaining

    start = jnp.concatenate([c, jnp.eye(size, dtype=c.dtype)], axis=1)
    rows, _ = lax.fori_loop(0, size, step, (start, jnp.ones((), c.dtype)))
    return rows[:, size:]


def pair_whitener(gram: Array, in_span: tuple[Array, Array]) -> Array:
    """Return `whitener` of both variables, block diagonal, from the Gram matrix of both bases."""
    size = in_span[0].shape[0]
    other = np.r_[0, size + 1 : gram.shape[0]]
    return block_diag(
        whitener(gram[: size + 1, : size + 1], in_span[0]),
        whitener(gram[other[:, None], other[None, :]], in_span[1]),
    )


class Whitened(NamedTuple):
    """Held-out moments of the functions that other rows make orthonormal."""

    mean: Array
    covariance: Array


def held_out(training: Array, test: Array, in_span: tuple[Array, Array]) -> tuple[Array, Whitened]:
    """Return M of the training rows, and moments of their whitened functions on test rows."""
    size = in_span[0].shape[0]
    transform = pair_whitener(training, in_span)
    centre, c = covariance(training)
    mean, d = covariance(test)
    m = matmul(transform, matmul(c, transform.swapaxes(0, 1)))[:size, size:]
    moved = matmul(transform, matmul(d, transform.swapaxes(0, 1)))
    return jnp.where(jnp.isfinite(m), m, 0), Whitened(matmul(transform, mean - centre), moved)


def score(pair: CanonicalPair, test: Whitened) -> Array:
    """Return Pearson correlation of the transformations on test rows; 0 where one does not vary."""
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
