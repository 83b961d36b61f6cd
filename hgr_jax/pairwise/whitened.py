"""Small problems, many at once: whitening, and the top singular value of each whitened block."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

_einsum = functools.partial(jnp.einsum, precision=lax.Precision.HIGHEST)

SQUARED_UP_TO = 10
"""Largest smaller side of a block whose top singular value is found by squaring."""


@jax.jit
def whitenings(moments: Array, alive: Array) -> tuple[Array, Array, Array]:
    """From the second moments of features to the map that makes them orthonormal.

    Args:
      moments: ``(d + 1, d + 1, c, u)``, of ``[1, p_1 .. p_d]`` of c columns over u sets of rows.
      alive: ``(c, d)``, directions that the data of a column supports.

    Returns:
      Means ``(c, u, d)``; inverse Cholesky factors ``(c, u, d, d)`` of the covariances, 0 in dead
      directions; and the smallest pivot ``(c, u)`` of the correlation matrices, relative to what
      rounding leaves: small where the rows do not support a direction.
    """
    total = moments[0, 0]
    positive = total > 0
    moments = moments / jnp.where(positive, total, 1)[None, None]
    moments = jnp.moveaxis(moments, (0, 1), (2, 3))
    mean = moments[..., 0, 1:]
    covariance = moments[..., 1:, 1:] - mean[..., :, None] * mean[..., None, :]
    variance = jnp.diagonal(covariance, axis1=-2, axis2=-1)
    square = jnp.diagonal(moments[..., 1:, 1:], axis1=-2, axis2=-1)
    used = alive[:, None, :] & (variance > 0)
    both = used[..., :, None] & used[..., None, :]
    scale = jnp.sqrt(jnp.where(used, variance, 1))
    identity = jnp.eye(mean.shape[-1], dtype=mean.dtype)
    correlation = covariance / scale[..., :, None] / scale[..., None, :]
    factor = jnp.linalg.cholesky(jnp.where(both, correlation, identity))
    clear = jnp.where(used, jnp.diagonal(factor, axis1=-2, axis2=-1) ** 2, 1)
    clear = clear * jnp.where(used, variance / jnp.where(square > 0, square, 1), 1)
    clear = jnp.where(alive[:, None, :] & ~used, 0, clear)
    inverse = lax.linalg.triangular_solve(
        factor, jnp.broadcast_to(identity, factor.shape), left_side=True, lower=True
    )
    inverse = jnp.where(both, inverse / scale[..., None, :], 0)
    pivot = jnp.min(clear, axis=-1)
    return mean, inverse, jnp.where(jnp.isfinite(pivot) & positive, pivot, 0)


def top_correlations(m: Array, *, rough: bool = False) -> Array:
    """The largest singular value of every block of ``m (N, r, s)``, ``(N,)``.

    A small block is squared: the powers ``(M M^T)^(2^j)`` tend to the projection on the top
    singular vectors, and the value is the length of ``M^T`` of a vector in it.  After j squarings
    its square is at most ``1 / (e 2^(j + 1))`` too small, relatively, however close the second
    singular value is.  A ``rough`` value may be 1e-5 too small, relatively.
    """
    if m.shape[1] > m.shape[2]:
        m = m.swapaxes(1, 2)
    if m.shape[1] > SQUARED_UP_TO:
        return jnp.linalg.svd(m, compute_uv=False)[:, 0]
    m = jnp.moveaxis(m, 0, -1)  # the small axes unrolled, the long one vectorised
    size = len(m)
    upper = list(itertools.combinations_with_replacement(range(size), 2))
    place = {(b, a): i for i, (a, b) in enumerate(upper)} | {p: i for i, p in enumerate(upper)}

    def squared(half: Array) -> Array:
        """The square of a symmetric matrix over its trace; of both the upper half."""
        trace = sum(half[place[i, i]] for i in range(size))
        half = half / jnp.where(trace > 0, trace, 1)[None, :]
        rows = [[half[place[a, i]] for i in range(size)] for a in range(size)]
        return jnp.stack([_dot(rows[a], rows[b]) for a, b in upper])

    squarings = 14 if rough else 22 if m.dtype == jnp.float32 else 44
    gram = jnp.stack([_dot(m[a], m[b]) for a, b in upper])
    half = lax.fori_loop(0, squarings, lambda _, half: squared(half), gram)
    power = half[np.array([[place[a, b] for b in range(size)] for a in range(size)])]
    largest = jnp.argmax(jnp.stack([power[i, i] for i in range(size)]), axis=0)
    v = jnp.take_along_axis(power, largest[None, None, :], axis=1)[:, 0, :]
    peak = jnp.max(jnp.abs(v), axis=0)
    v = v / jnp.where(peak > 0, peak, 1)[None, :]
    length = jnp.sum(v * v, axis=0)
    image = sum(v[i][None, :] * m[i] for i in range(size))
    value = jnp.sum(image * image, axis=0) / jnp.where(length > 0, length, 1)
    return jnp.sqrt(value)


def _dot(left: Iterable[Array], right: Iterable[Array]) -> Array:
    return functools.reduce(jnp.add, [x * y for x, y in zip(left, right, strict=True)])


def _product(left: Array, right: Array) -> Array:
    """Matrix products over the first two axes, ``(r, t, N)`` and ``(t, s, N)``."""
    terms = [left[:, i, None, :] * right[i, None, :, :] for i in range(left.shape[1])]
    return functools.reduce(jnp.add, terms)


@functools.partial(jax.jit, static_argnames=("single", "rough"))
def correlations(
    m: Array, degrees: Array, linear: Array, *, single: bool, rough: bool = False
) -> Array:
    """HGR of every whitened block ``(N, r, s)``: `top_correlations`, of kernels of its own degrees.

    Args:
      m: blocks, first features first.
      degrees: ``(N, 2)``, how many of the features of each side are in its kernel.
      linear: ``(N, 2)``, how many of them span its linear functions.
      single: HGR-SK, with one side linear, instead of HGR-KB.
      rough: as in `top_correlations`.
    """
    top = functools.partial(top_correlations, rough=rough)

    def within(counts: Array) -> Array:
        rows = jnp.arange(m.shape[1])[None, :] < counts[:, :1]
        columns = jnp.arange(m.shape[2])[None, :] < counts[:, 1:]
        return jnp.where(rows[:, :, None] & columns[:, None, :], m, 0)

    if single:
        first = top(within(jnp.stack([degrees[:, 0], linear[:, 1]], axis=1)))
        second = top(within(jnp.stack([linear[:, 0], degrees[:, 1]], axis=1)))
        value = jnp.maximum(first, second)
    else:
        value = top(within(degrees))
    return jnp.minimum(value, 1)


@jax.jit
def whitened_blocks(
    cross: Array,
    left: tuple[Array, Array],
    right: tuple[Array, Array],
) -> Array:
    """``W_a (cross - mean_a mean_b^T) W_b^T`` for every pair, ``(N, r, s)``.

    Args:
      cross: ``(N, r, s)``, mean products of the features of the two sides.
      left, right: means ``(N, r)`` and maps ``(N, r, r)``, of each side over the pair's rows.
    """
    (mean_a, map_a), (mean_b, map_b) = left, right
    centred = cross - mean_a[:, :, None] * mean_b[:, None, :]
    if max(centred.shape[1:]) > SQUARED_UP_TO:
        return _einsum("nab,nbc,ndc->nad", map_a, centred, map_b)
    centred, map_a, map_b = (jnp.moveaxis(x, 0, -1) for x in (centred, map_a, map_b))
    return jnp.moveaxis(_product(_product(map_a, centred), map_b.swapaxes(0, 1)), -1, 0)
