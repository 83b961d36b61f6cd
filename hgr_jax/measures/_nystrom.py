"""Low-rank features of a Gaussian kernel: its n x n Gram matrix without the n x n memory.

Rows are chosen one by one, each the one that the rows before it represent worst (pivoted
incomplete Cholesky).  The features are the Nyström form on the chosen rows,

    F = L^-1 k(chosen, x)   (rank x n)   with   L L^T = k(chosen, chosen),   F^T F ~ k(x, x),

and what F^T F misses on the diagonal is at most the largest residual left.  The choice is a
constant under differentiation; given it, the features are a smooth function of the data.

Rows may be padded: only the first ``count`` rows of arrays ``(n, ...)`` are data then, and the
features of the others are 0; None means that all are data.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jax import Array, lax

from hgr_jax.core.linalg import inverse_cholesky, matmul
from hgr_jax.core.numerics import fill_padding, row_count, row_mask, row_mean, standardise


def usable(
    columns: Sequence[Array], positive: Sequence[Array]
) -> tuple[Array, Array, list[Array], list[Array]]:
    """Return whether all is finite and every option positive, and whether every variable varies.

    And columns and options with harmless values where not all is usable.
    """
    finite = jnp.stack([jnp.all(jnp.isfinite(x)) for x in columns])
    options = jnp.stack([(x > 0) & jnp.isfinite(x) for x in positive])
    varies = jnp.stack([jnp.any(x != x[:1]) for x in columns])
    valid = jnp.all(finite) & jnp.all(options)
    columns = [jnp.where(valid, x, 0) for x in columns]
    return valid, jnp.all(varies), columns, [jnp.where(valid, x, 1) for x in positive]


def centred_features(
    columns: Sequence[Array],
    bandwidths: Sequence[Array],
    rank: int,
    count: Array | None = None,
) -> tuple[Array, Array]:
    """Return features ``(rank, n)`` of two standardised variables, each feature of mean zero."""
    features = []
    for x, width in zip(columns, bandwidths, strict=True):
        points = standardise(x.reshape(x.shape[0], -1), count) / width
        of_x = gaussian_features(points, rank, count)
        mean = jnp.sum(of_x, axis=1, keepdims=True) / row_count(count, x)
        features.append(_data(of_x - mean, count))
    return features[0], features[1]


def gaussian_features(x: Array, rank: int, count: Array | None = None) -> Array:
    """Return features ``(rank, n)`` with ``F^T F ~ exp(-|x_i - x_j|^2 / 2)``.

    Args:
      x: finite points ``(n, p)``, differentiable.
      rank: at most so many rows are chosen, static.  Features beyond the numerical rank of the
        kernel are 0, with zero derivatives.
      count: see the module.
    """
    rank = min(rank, x.shape[0])
    chosen, in_span = pivots(x, rank, count)
    both = in_span[:, None] & in_span[None, :]
    gram = jnp.where(both, _kernel(x[chosen], x[chosen]), jnp.eye(rank, dtype=x.dtype))
    values = jnp.where(in_span[:, None], _kernel(x[chosen], x), 0)
    return _data(matmul(inverse_cholesky(gram), values), count)


def _data(features: Array, count: Array | None) -> Array:
    """Return ``features (r, n)`` with 0 in the columns that are not data."""
    mask = row_mask(count, features.shape[1])
    return features if mask is None else jnp.where(mask[None], features, 0)


def pivots(x: Array, rank: int, count: Array | None = None) -> tuple[Array, Array]:
    """Return indices ``(rank,)`` of rows chosen from ``x (n, p)``, and which of them are in use.

    The first is the row nearest to the mean, so that the choice does not depend on the order of
    the rows.  It ends where the largest residual is within rounding of 0: equal rows, for
    example, are never chosen twice.
    """
    x = lax.stop_gradient(x)
    rows = x.shape[0]
    tolerance = 64 * jnp.finfo(x.dtype).eps

    def unfinished(state: tuple[Array, ...]) -> Array:
        number, pivot, _, residual, _ = state
        return (number < rank) & (residual[pivot] > tolerance)

    def choose(state: tuple[Array, ...]) -> tuple[Array, ...]:
        number, pivot, chosen, residual, factor = state
        explained = matmul(factor[:, pivot], factor)
        column = _kernel(x[pivot][None, :], x)[0] - explained
        column = column / jnp.sqrt(residual[pivot])
        residual = (residual - column * column).at[pivot].set(0)
        chosen, factor = chosen.at[number].set(pivot), factor.at[number].set(column)
        return number + 1, jnp.argmax(residual), chosen, residual, factor

    distance = jnp.sum((x - row_mean(x, count, keepdims=True)) ** 2, axis=1)
    distance = fill_padding(distance, count, jnp.inf)
    start: tuple[Array, ...] = (
        jnp.zeros((), jnp.int32),
        jnp.argmin(distance),
        jnp.zeros(rank, distance.argmin().dtype),
        fill_padding(jnp.ones(rows, x.dtype), count),
        jnp.zeros((rank, rows), x.dtype),
    )
    number, _, chosen, _, _ = lax.while_loop(unfinished, choose, start)
    return chosen, lax.iota(jnp.int32, rank) < number


def _kernel(x: Array, y: Array) -> Array:
    """Return ``exp(-|x_i - y_j|^2 / 2)`` for points ``(m, p)`` and ``(n, p)``."""
    squared = jnp.zeros((x.shape[0], y.shape[0]), x.dtype)
    for j in range(x.shape[1]):
        squared = squared + (x[:, j][:, None] - y[:, j][None, :]) ** 2
    return jnp.exp(-squared / 2)


def feature_covariance(f: Array, g: Array, count: Array | None = None) -> Array:
    """Return the means over the rows of products of centred features ``(r, n)`` and ``(s, n)``."""
    return matmul(f, g.T) / row_count(count, f[0])


def ridge_beyond_rounding(ridge: Array) -> Array:
    """Return ``ridge``, but at least 16 eps: below, a covariance plus ridge may not be definite."""
    return jnp.maximum(ridge, 16 * float(jnp.finfo(ridge.dtype).eps))


def whiteners(
    features: tuple[Array, Array], ridge: Array, count: Array | None = None
) -> tuple[Array, Array]:
    """Return ``W`` with ``W (C + ridge) W^T = 1``, C being the covariance, of each variable."""
    identity = jnp.eye(features[0].shape[0], dtype=ridge.dtype)
    first, second = (
        inverse_cholesky(feature_covariance(f, f, count) + ridge * identity) for f in features
    )
    return first, second
