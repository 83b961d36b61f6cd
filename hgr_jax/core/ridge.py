"""Ridges: transformations whose coefficients are kept small.

With x the features of a kernel, each of zero mean and unit variance, f = alpha . x and
g = beta . y maximise

    cov(f, g) / sqrt((var f + ridge |alpha|^2) (var g + ridge |beta|^2)).

In orthonormal functions q with x = L q (least squares on them leaves nothing of x) this is again a
largest singular value: with C the inverse of a Cholesky factor of L L^T + ridge, that of
``(C L) M (C L)^T``, whose vectors are taken back by ``(C L)^T``.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from hgr_jax.core.kernels import KernelLike, encode, polynomial_kernel
from hgr_jax.core.numerics import safe_divide, safe_norm
from hgr_jax.core.small_matrices import inverse_cholesky, matmul
from hgr_jax.core.solvers import CanonicalPair, top_pair


class Ridge(NamedTuple):
    """A ridge, and the standardised features ``(n, m)`` of both kernels at the rows."""

    strength: Array
    features: tuple[Array, Array]


def standardised_features(kernel: KernelLike, x: Array, weights: Array, name: str) -> Array:
    """Return the features of a kernel, of zero mean and unit variance; 0 where one is constant.

    Of a degree these are the monomials of the standardised variable.

    Args:
      x: ``(n,)`` or ``(n, p)``, without what dropped rows held.
      weights: ``(n,)``, summing to 1.
      name: of the kernel, for errors.
    """
    if callable(kernel):
        _, features = encode(kernel, x, weights, name)
    else:
        # The unit of x does not matter to a standardised power, and its largest is 1 in this one.
        features = polynomial_kernel(_reaching_1(x - _mean(x, weights)), kernel)
    centred = _reaching_1(features - _mean(features, weights))
    variance = jnp.sum(weights[:, None] * centred * centred, axis=0, keepdims=True)
    varies = variance > (8 * float(jnp.finfo(x.dtype).eps)) ** 2
    return jnp.where(varies, centred / jnp.sqrt(jnp.where(varies, variance, 1)), 0)


def _mean(x: Array, weights: Array) -> Array:
    return jnp.sum(weights.reshape(-1, *[1] * (x.ndim - 1)) * x, axis=0, keepdims=True)


def _reaching_1(x: Array) -> Array:
    """Return columns that reach to 1, or are 0."""
    return safe_divide(x, lax.stop_gradient(jnp.max(jnp.abs(x), axis=0, keepdims=True)))


def ridged_pair(
    m: Array, loadings: tuple[Array, Array], strength: Array, solver: str
) -> tuple[CanonicalPair, Array]:
    """Return the pair that maximises the regularised correlation, and whether it is finite.

    Its ``correlation`` is the plain one, ``u . M v``.

    Args:
      m: finite cross moments ``(h, k)`` of orthonormal functions.
      loadings: of standardised features on these, ``(p, h)`` and ``(q, k)``.
      strength: the ridge, ``()``; where it is so small that rounding counts, the least that is not.
      solver: of `top_pair`.
    """
    first, second = (_regularised(each, strength) for each in loadings)
    regularised = matmul(matmul(first, m), second.T)
    finite = jnp.isfinite(jnp.sum(regularised))
    pair = top_pair(jnp.where(jnp.isfinite(regularised), regularised, 0), solver)
    u, v = (
        safe_divide(each, safe_norm(each))
        for each in (matmul(pair.u, first), matmul(pair.v, second))
    )
    correlation = jnp.dot(u, matmul(m, v))
    return dataclasses.replace(pair, correlation=correlation, u=u, v=v), finite


def _regularised(loadings: Array, strength: Array) -> Array:
    """Return ``C L``, times the root of 1 + ridge, so that no ridge makes it vanish."""
    size = loadings.shape[0]
    least = 8 * size * float(jnp.finfo(loadings.dtype).eps)
    ridge = jnp.maximum(strength, least)
    share = ridge / (1 + ridge)
    gram = matmul(loadings, loadings.T) * (1 - share) + share * np.eye(size, dtype=loadings.dtype)
    return matmul(inverse_cholesky(gram), loadings)
