"""Low-rank features of a Gaussian kernel: its n x n Gram matrix without the n x n memory.

Rows are chosen one by one, each the one that the rows before it represent worst (pivoted
incomplete Cholesky).  The features are the Nyström form on the chosen rows,

    F = L^-1 k(chosen, x)   (rank x n)   with   L L^T = k(chosen, chosen),   F^T F ~ k(x, x),

and what F^T F misses on the diagonal is at most the largest residual left.  The choice is a
constant under differentiation; given it, the features are a smooth function of the data.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from hgr_jax.arguments import as_positive, one_or_pair
from hgr_jax.moments import standardised

_HIGHEST = lax.Precision.HIGHEST


def as_bandwidths(bandwidth: Any, dtype: Any) -> tuple[Array, Array]:
    """The bandwidths of ``a`` and of ``b``, from one number or a pair of them."""
    first, second = one_or_pair("bandwidth", bandwidth)
    return as_positive(*first, dtype), as_positive(*second, dtype)


def usable(columns: tuple[Array, ...], positive: tuple[Array, ...]) -> tuple[Array, Array]:
    """Whether all is finite and every option positive, and whether every variable varies."""
    finite = jnp.stack([jnp.all(jnp.isfinite(x)) for x in columns])
    options = jnp.stack([(x > 0) & jnp.isfinite(x) for x in positive])
    varies = jnp.stack([jnp.any(x != x[:1]) for x in columns])
    return jnp.all(finite) & jnp.all(options), jnp.all(varies)


def centred_features(
    columns: tuple[Array, Array], bandwidths: tuple[Array, Array], rank: int
) -> Array:
    """Features ``(2, rank, n)`` of two standardised variables, each feature of mean zero."""
    points = (standardised(x.reshape(x.shape[0], -1)) for x in columns)
    scaled = [x / width for x, width in zip(points, bandwidths, strict=True)]
    features = gaussian_features((scaled[0], scaled[1]), rank)
    return features - jnp.mean(features, axis=2, keepdims=True)


def gaussian_features(variables: tuple[Array, Array], rank: int) -> Array:
    """Features ``(2, rank, n)`` with ``F^T F ~ exp(-|x_i - x_j|^2 / 2)``, of each variable.

    Args:
      variables: two sets of finite points, ``(n, p)`` and ``(n, q)``, differentiable.
      rank: at most so many rows are chosen, static.  Features beyond the numerical rank of the
        kernel are 0, with zero derivatives.
    """
    grams, values = [], []
    for x in variables:
        chosen, alive = pivots(x, rank)
        both = alive[:, None] & alive[None, :]
        gram = _kernel(x[chosen], x[chosen])
        grams.append(jnp.where(both, gram, jnp.eye(rank, dtype=x.dtype)))
        values.append(jnp.where(alive[:, None], _kernel(x[chosen], x), 0))
    return solve_lower(jnp.linalg.cholesky(jnp.stack(grams)), jnp.stack(values))


def pivots(x: Array, rank: int) -> tuple[Array, Array]:
    """Indices ``(rank,)`` of the rows chosen from ``x (n, p)``, and which of them are in use.

    The first is the row nearest to the mean, so that the choice does not depend on the order of
    the rows.  It ends where the largest residual is within rounding of 0: equal rows, for
    example, are never chosen twice.
    """
    x = lax.stop_gradient(x)
    rows = x.shape[0]
    tolerance = 64 * jnp.finfo(x.dtype).eps

    def unfinished(state: tuple[Array, ...]) -> Array:
        count, pivot, _, residual, _ = state
        return (count < rank) & (residual[pivot] > tolerance)

    def choose(state: tuple[Array, ...]) -> tuple[Array, ...]:
        count, pivot, chosen, residual, factor = state
        explained = jnp.matmul(factor[:, pivot], factor, precision=_HIGHEST)
        column = _kernel(x[pivot][None, :], x)[0] - explained
        column = column / jnp.sqrt(residual[pivot])
        residual = (residual - column * column).at[pivot].set(0)
        chosen, factor = chosen.at[count].set(pivot), factor.at[count].set(column)
        return count + 1, jnp.argmax(residual), chosen, residual, factor

    distance = jnp.sum((x - jnp.mean(x, axis=0, keepdims=True)) ** 2, axis=1)
    start: tuple[Array, ...] = (
        jnp.zeros((), jnp.int32),
        jnp.argmin(distance),
        jnp.zeros(rank, distance.argmin().dtype),
        jnp.ones(rows, x.dtype),
        jnp.zeros((rank, rows), x.dtype),
    )
    count, _, chosen, _, _ = lax.while_loop(unfinished, choose, start)
    return chosen, jnp.arange(rank, dtype=count.dtype) < count


def _kernel(x: Array, y: Array) -> Array:
    """``exp(-|x_i - y_j|^2 / 2)`` for points ``(m, p)`` and ``(n, p)``."""
    squared = jnp.zeros((x.shape[0], y.shape[0]), x.dtype)
    for j in range(x.shape[1]):
        squared = squared + (x[:, j][:, None] - y[:, j][None, :]) ** 2
    return jnp.exp(-squared / 2)


def covariance(f: Array, g: Array) -> Array:
    """Means over the rows of products of centred features ``(..., r, n)`` and ``(..., s, n)``."""
    return jnp.matmul(f, g.swapaxes(-1, -2), precision=_HIGHEST) / f.shape[-1]


def ridge_beyond_rounding(ridge: Array) -> Array:
    """``ridge``, but at least 16 eps: below, a covariance plus ridge may not be definite."""
    return jnp.maximum(ridge, 16 * float(jnp.finfo(ridge.dtype).eps))


def whitened(features: Array, ridge: Array) -> tuple[Array, Array]:
    """Cholesky factors ``(2, r, r)`` of the covariances of ``features (2, r, n)`` plus ``ridge``.

    And, second, the cross-covariance between the two whitened by them.
    """
    identity = jnp.eye(features.shape[1], dtype=features.dtype)
    factors = jnp.linalg.cholesky(covariance(features, features) + ridge * identity[None])
    half = solve_lower(factors[0], covariance(features[0], features[1]))
    return factors, solve_lower(factors[1], half.T).T


def solve_lower(factor: Array, right: Array) -> Array:
    """``factor^-1 right`` for lower triangular matrices."""
    return lax.linalg.triangular_solve(factor, right, left_side=True, lower=True)
