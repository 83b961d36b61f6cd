"""Arithmetic with finite derivatives where a denominator or a root is zero; standardised variables.

Rows may be padded: of arrays ``(n, ...)`` only the first ``count`` rows are data then, and
``count`` is an array ``()``; None means that all rows are.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_batching import custom_vmap
from jax.sharding import PartitionSpec


def safe_divide(numerator: Any, denominator: Any, otherwise: float = 0.0) -> Array:
    """Return the quotient; ``otherwise``, with zero derivatives, where the denominator is 0."""
    zero = denominator == 0
    return jnp.where(zero, otherwise, numerator / jnp.where(zero, 1, denominator))


def safe_sqrt(x: Array) -> Array:
    """Return the square root; 0, with zero derivatives, where ``x <= 0``."""
    positive = ~(x <= 0)
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1)), 0)


@jax.custom_jvp
def safe_rsqrt(x: Array) -> Array:
    """Return ``1 / sqrt(x)``; 0, with zero derivatives, where ``x <= 0``."""
    return lax.rsqrt(jnp.where(x <= 0, jnp.inf, x))


@safe_rsqrt.defjvp
def _safe_rsqrt_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    root = safe_rsqrt(*primals)
    return root, -root * (root * (root * tangents[0])) / 2  # in this order it does not overflow


def safe_norm(x: Array) -> Array:
    """Return the Euclidean norm of all of ``x``; its derivative at 0 is 0 rather than NaN."""
    return safe_sqrt(jnp.sum(x * x))


def sign_of(x: Array) -> Array:
    """Return -1 where ``x < 0``, and 1 elsewhere; constant to derivatives."""
    return lax.stop_gradient(jnp.where(x < 0, -1, 1).astype(x.dtype))


def farthest_entry(x: Array) -> Array:
    """Return the entry of ``x (..., m)`` that is farthest from 0, ``(..., 1)``."""
    place = jnp.argmax(jnp.abs(x), axis=-1, keepdims=True)
    return jnp.take_along_axis(x, place, axis=-1)


def normalise_weights(weights: Array) -> Array:
    """Return weights that sum to 1; a negative one makes all of them NaN."""
    weights = jnp.where(jnp.min(weights) >= 0, weights, jnp.nan)
    largest = lax.stop_gradient(jnp.max(weights))
    # Powers of two, so that neither the sum nor its reciprocal leaves the range of float32.
    unit = jnp.where(largest > 2.0**64, 2.0**-64, jnp.where(largest < 2.0**-64, 2.0**64, 1.0))
    weights = weights * unit.astype(weights.dtype)
    return weights / jnp.sum(weights)


def without_dropped_rows(x: Array, weights: Array | None) -> Array:
    """Clip rows of weight 0 to the range of the other rows."""
    if weights is None:
        return x
    used = (weights > 0)[:, None] if x.ndim == 2 else weights > 0
    low = jnp.min(jnp.where(used, x, jnp.inf), axis=0, keepdims=True)
    high = jnp.max(jnp.where(used, x, -jnp.inf), axis=0, keepdims=True)
    inside = jnp.clip(jnp.where(jnp.isnan(x), low, x), low, high)
    return jnp.where(used, x, inside)


def row_mask(count: Array | None, rows: int) -> Array | None:
    """Return which of ``rows`` padded rows are data, ``(rows,)``; None where all are."""
    return None if count is None else lax.iota(jnp.int32, rows) < count


def fill_padding(x: Array, count: Array | None, fill: Any = 0) -> Array:
    """Return ``x (n, ...)`` with ``fill`` in the rows from ``count`` on."""
    mask = row_mask(count, x.shape[0])
    return x if mask is None else jnp.where(mask.reshape(-1, *[1] * (x.ndim - 1)), x, fill)


def row_count(count: Array | None, x: Array) -> Any:
    """Return how many rows of ``x`` are data, as a number of its dtype."""
    return x.shape[0] if count is None else count.astype(x.dtype)


def equal_weights(count: Array | None, x: Array) -> Array:
    """Return weights of the rows of ``x (n, ...)`` that sum to 1, 0 where a row is padding."""
    mask = row_mask(count, x.shape[0])
    if mask is None:
        return jnp.full(x.shape[0], 1 / x.shape[0], x.dtype)
    return mask.astype(x.dtype) / row_count(count, x)


def row_mean(
    x: Array, count: Array | None = None, *, weights: Array | None = None, keepdims: bool = False
) -> Array:
    """Return the mean over the rows of ``x (n, ...)`` that are data, or by weights of sum 1."""
    if weights is not None:
        weights = weights.reshape(-1, *[1] * (x.ndim - 1))
        return jnp.sum(weights * x, axis=0, keepdims=keepdims)
    return jnp.sum(fill_padding(x, count), axis=0, keepdims=keepdims) / row_count(count, x)


def standardise(x: Array, count: Array | None = None, *, ddof: int = 0) -> Array:
    """Return ``x`` with columns of zero mean and unit deviation; 0 for constants and padding."""
    framed = _framed(x, count)
    centred = fill_padding(framed.rows - row_mean(framed.rows, count, keepdims=True), count)
    variance = row_mean(centred * centred, count, keepdims=True)
    if ddof:
        rows = row_count(count, x)
        variance = variance * (rows / jnp.maximum(rows - ddof, 1))
    return jnp.where(
        framed.constant, 0, centred / jnp.sqrt(jnp.where(framed.constant, 1, variance))
    )


def standard_deviation(
    x: Array, count: Array | None = None, *, weights: Array | None = None
) -> Array:
    """Return the standard deviation ``()`` of ``x (n,)``; rows of weight 0 may hold anything."""
    if weights is not None:
        x = jnp.where(weights == 0, x[jnp.argmax(weights)], x)
        weights = weights / jnp.max(weights)
        weights = weights / jnp.sum(weights)
    framed = _framed(x, count)
    mean = functools.partial(row_mean, count=count, weights=weights, keepdims=True)
    centred = fill_padding(framed.rows - mean(framed.rows), count)
    variance = mean(centred * centred)
    root = jnp.sqrt(jnp.where(framed.constant, 1, variance))
    return jnp.where(framed.constant, 0, root / framed.zoom / framed.unit)[0]


class _Framed(NamedTuple):
    """Rows ``((x - x[0]) * unit) * zoom`` of size 1/2 to 1; the factors are powers of two."""

    rows: Array
    unit: Array
    zoom: Array
    constant: Array


def _framed(x: Array, count: Array | None) -> _Framed:
    low, high = extremes(fill_padding(x, count, x[:1]))
    unit = reciprocal_power(jnp.maximum(jnp.abs(low), jnp.abs(high)))
    first, low, high = (lax.stop_gradient(end) * unit for end in (x[:1], low, high))
    reach = jnp.maximum(high - first, first - low)
    zoom = reciprocal_power(reach)
    return _Framed((x * unit - first) * zoom, unit, zoom, reach == 0)


def reciprocal_power(x: Array) -> Array:
    """Return the power of two from ``1 / (2 x)`` to ``1 / x``, or the nearest with a reciprocal."""
    largest = largest_power(x.dtype)
    above = 1.5 * jnp.clip(x, 1 / largest, largest)  # which rounds to the next power of two
    return 1 / lax.reduce_precision(above, jnp.finfo(x.dtype).nexp, 0)


def largest_power(dtype: jnp.dtype) -> float:
    """Return the largest power of two whose half has a normal reciprocal."""
    return 0.5 / float(jnp.finfo(dtype).tiny)


def extremes(x: Array, axis: int = 0) -> tuple[Array, Array]:
    """Return minimum and maximum along an axis, which is kept, as constants, by one reduction."""
    x = lax.stop_gradient(x)
    low, high = lax.reduce(
        (x, x),
        (np.array(np.inf, x.dtype), np.array(-np.inf, x.dtype)),
        lambda one, other: (jnp.minimum(one[0], other[0]), jnp.maximum(one[1], other[1])),
        (axis,),
    )
    return jnp.expand_dims(low, axis), jnp.expand_dims(high, axis)


@custom_vmap
def any_in_batch(flag: Array) -> Array:
    """Return ``flag ()``, under `jax.vmap` whether any flag is true: a condition of `lax.cond`."""
    return flag


@any_in_batch.def_vmap
def _any_in_batch_mapped(axis_size: int, in_batched: list[bool], flag: Array) -> tuple[Array, bool]:
    del axis_size, in_batched
    return any_in_batch(jnp.any(flag, axis=0)), False


def on_shards_of(like: Array, tree: Any) -> Any:
    """Return arrays of the kind of ``like``: of its explicit mesh, or varying in `jax.shard_map`.

    There a loop must start, and branches must end, with arrays of one kind.
    """
    axes, mesh = _varying_axes(like), jax.typeof(like).sharding.mesh

    def of_kind(x: Array) -> Array:
        missing = axes - _varying_axes(x)
        if missing:
            return lax.pcast(jnp.asarray(x), tuple(missing), to="varying")
        if jax.typeof(x).sharding.mesh != mesh:
            return jax.sharding.reshard(x, PartitionSpec(*[None] * jnp.ndim(x)))
        return x

    return jax.tree.map(of_kind, tree) if axes or not mesh.empty else tree


def _varying_axes(x: Array) -> frozenset[Any]:
    """Return the axes of a mesh that an array varies over, inside `jax.shard_map`."""
    kind = jax.typeof(x)
    kind = getattr(kind, "manual_axis_type", kind)  # from jax 0.12 on
    return getattr(kind, "varying", getattr(kind, "vma", frozenset()))


def cosines(x: Array, speeds: range) -> Array:
    """Return ``cos(pi j x)`` for whole numbers j, ``(speeds, ...)``."""
    j = np.arange(speeds.start, speeds.stop).astype(x.dtype)
    return _cos_pi(j.reshape(-1, *[1] * x.ndim) * _repeated(x, len(j)))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _repeated(x: Array, count: int) -> Array:
    """Return ``count`` times ``x``, ``(count, ...)``."""
    return jnp.broadcast_to(x[None], (count, *x.shape))


@_repeated.defjvp
def _repeated_jvp(count: int, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """The transpose of a concatenation is a sum of its parts.

    XLA uses vector instructions for that, but not for the sum over an axis of a broadcast.
    """
    return _repeated(*primals, count), jnp.concatenate([tangents[0][None]] * count)


@jax.custom_jvp
def _cos_pi(x: Array) -> Array:
    """Return ``cos(pi x)`` by a polynomial, in a tenth of the time of `jax.numpy.cos`."""
    y = 0.5 - jnp.abs(x - 2 * jnp.round(x / 2))  # cos(pi x) = sin(pi y)
    square, total = (np.pi * y) ** 2, jnp.ones_like(y)
    for i in range(20 if x.dtype == np.float64 else 12, 0, -2):  # to the last digit of the dtype
        total = 1 - total * square * (1 / (i * (i + 1)))
    return np.pi * y * total


@_cos_pi.defjvp
def _cos_pi_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,) = primals
    return _cos_pi(x), np.pi * _cos_pi(x + 0.5) * tangents[0]
