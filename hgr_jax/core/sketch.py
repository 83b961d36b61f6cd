"""Polynomials that are orthonormal on few points: all rows of short data, a sketch of long data."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from hgr_jax.core.basis import PolynomialBasis
from hgr_jax.core.moments import WHOLE_ROWS
from hgr_jax.core.numerics import equal_weights, safe_divide
from hgr_jax.core.small_matrices import matmul

SKETCH_ROWS = 256
SKETCH_GROUPS = 128

WHOLE_SKETCH = 2048
"""Up to so many rows are their own sketch."""


def sketches(
    columns: Sequence[Array], weights: Array | None, count: Array | None
) -> tuple[Array, Array, Array, Array]:
    """Return centers ``(v,)``, scales to [-1, 1], and scaled points ``(v, m)`` with their weights.

    Of short columns all rows are points, in one stack; longer ones are not copied.
    """
    if columns[0].shape[0] <= WHOLE_ROWS:
        return _sketch(jnp.stack(columns), weights, count)
    parts = [_sketch(column[None], weights, count) for column in columns]
    center, scale, points = (
        jnp.concatenate(x) for x in zip(*(part[:3] for part in parts), strict=True)
    )
    return center, scale, points, parts[0][3]


def _sketch(
    x: Array, weights: Array | None, count: Array | None
) -> tuple[Array, Array, Array, Array]:
    """Return the center, scale (to [-1, 1]), and scaled points of ``x (v, n)``, with weights."""
    n = x.shape[1]
    if n <= WHOLE_SKETCH:
        points = x
        w = shares = equal_weights(count, x.T) if weights is None else weights
    else:
        # A strided sample has the bulk of the data.  What it misses, far outliers, would make the
        # polynomials huge elsewhere; so the extremes of groups of rows are points too.
        rows = n if count is None else count
        chosen = (rows // SKETCH_ROWS) * lax.iota(jnp.int32, SKETCH_ROWS)
        grouped = n // SKETCH_GROUPS * SKETCH_GROUPS
        groups = x[:, :grouped].reshape(len(x), -1, SKETCH_GROUPS)
        outermost = groups.min(axis=1), groups.max(axis=1)
        points = jnp.concatenate([x[:, chosen], *outermost, x[:, grouped:]], axis=1)
        if weights is None:
            sampled = jnp.full(SKETCH_ROWS, 1 / SKETCH_ROWS, x.dtype)
        else:
            sampled = safe_divide(weights[chosen], jnp.sum(weights[chosen]))
        # An extreme point counts as the one row that it is, a sampled one for those it stands for.
        others = points.shape[1] - SKETCH_ROWS
        shares = jnp.pad(sampled, (0, others))
        w = jnp.concatenate([sampled, np.full(others, 1 / n, x.dtype)]) / (1 + others / n)
    mean, low, high = _mean_and_extremes(points, shares)
    center = jnp.clip(mean, low, high)  # where rounding does not leave it, far from 0
    reach = jnp.maximum(high - center, center - low)
    # A reach next to the smallest numbers has no reciprocal.
    reach = jnp.where(reach <= 4 * jnp.finfo(x.dtype).tiny, 0, reach)
    scale = safe_divide(1.0, reach)
    return center, scale, (points - center[:, None]) * scale[:, None], w


def _mean_and_extremes(x: Array, w: Array) -> tuple[Array, Array, Array]:
    """Return the weighted mean (of few digits), least and largest of each row; NaN if one is NaN.

    In one reduction: XLA compiles each of several, and in several parts.
    """
    mean, low, high = lax.reduce(
        (x * w[None, :], x, x),
        tuple(np.array(start, x.dtype) for start in (0, np.inf, -np.inf)),
        lambda one, other: (
            one[0] + other[0],
            jnp.minimum(one[1], other[1]),
            jnp.maximum(one[2], other[2]),
        ),
        (1,),
    )
    return mean, low, high


def distinct_values(
    columns: Sequence[Array], weights: Array | None, count: Array | None = None
) -> Array:
    """Count the clearly distinct values ``(v,)`` of a sample, among rows of positive weight."""
    n = columns[0].shape[0]
    size = min(n, 2 * SKETCH_ROWS)
    rows = n if count is None else count
    chosen = jnp.maximum(1, rows // SKETCH_ROWS) * lax.iota(jnp.int32, size)
    counts = chosen < rows
    chosen = jnp.minimum(chosen, n - 1)
    if weights is not None:
        counts &= weights[chosen] > 0
    sample = jnp.where(counts, jnp.stack([x[chosen] for x in columns]), jnp.nan)
    sample = lax.sort(sample, dimension=1)  # NaN last
    low, high = sample[:, :-1], sample[:, 1:]
    rounding = rounding_noise(sample.dtype) * jnp.maximum(jnp.abs(low), jnp.abs(high))
    return 1 + jnp.sum(high - low > rounding, axis=1, dtype=jnp.int32)


def orthonormal_polynomials(
    degree: int, center: Array, scale: Array, points: Array, weights: Array, *, twice: bool
) -> tuple[PolynomialBasis, Array]:
    """Return orthonormal polynomials on weighted points, and their values times the weights' roots.

    Every polynomial is orthogonalised by the recurrence and, if ``twice``, then against all before
    it, by a correction.

    Args:
      degree: static.
      center, scale: ``(v,)``, of what makes ``points`` of the data.
      points: ``(v, m)``.
      weights: ``(m,)``.
      twice: static; False where a later pass repairs what this one leaves.

    Returns:
      A basis, and ``(v, degree + 1, m)``.
    """
    dtype, variables = points.dtype, len(points)
    noise = rounding_noise(dtype) ** 2

    def add_polynomial(j: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        values, recurrence, expected = state
        shift, back = expected[:, :1], expected[:, 1:]
        current, previous = (
            lax.dynamic_index_in_dim(values, i, axis=1, keepdims=False)
            for i in (j, jnp.maximum(j - 1, 0))
        )
        v = (points - shift) * current - back * previous
        c = matmul(values, v[:, :, None]) if twice else jnp.zeros((variables, degree + 1, 1), dtype)
        if twice:
            v = v - matmul(jnp.swapaxes(c, 1, 2), values)[:, 0]
        moments = matmul(jnp.stack([v, points * v], axis=1), v[:, :, None])
        squared, first = jnp.split(moments[:, :, 0], 2, axis=1)
        # What is projected out: all but the mean is in the recurrence (but for rounding).
        projected = c[:, 0] * c[:, 0] + shift * shift + back * back
        lives = squared > noise * (projected + squared)
        step = jnp.where(lives, lax.rsqrt(jnp.where(lives, squared, 1)), 0)
        values = lax.dynamic_update_index_in_dim(values, v * step, j + 1, 1)
        # What a sketch does not know is no direction yet, but the data may make it one.
        kept = step if twice else jnp.where(lives, step, 1)
        column = jnp.concatenate([expected, kept, c[:, :-1, 0]], axis=1)
        recurrence = lax.dynamic_update_index_in_dim(recurrence, column, j, 2)
        expected = jnp.concatenate([first * step * step, squared * step], axis=1)
        return values, recurrence, expected

    values = jnp.zeros((variables, degree + 1, points.shape[1]), dtype)
    values = values.at[:, 0].set(jnp.sqrt(weights)[None, :])
    # XLA would compile a program to fill an array with one number: so the recurrence, which is
    # overwritten, starts from several, and one zero of what is expected of it has a sign.
    empty = np.arange(variables * (3 + degree) * degree, dtype=dtype)
    recurrence = jnp.asarray(empty.reshape(variables, 3 + degree, degree))
    start = values, recurrence, jnp.asarray(np.array([[0.0, -0.0]] * variables, dtype))
    values, recurrence, _ = lax.fori_loop(0, degree, add_polynomial, start)
    frame = jnp.stack([center, scale], axis=1)
    return PolynomialBasis(frame, recurrence), values


def rounding_noise(dtype: jnp.dtype) -> float:
    """Return the relative norm below which a direction is rounding noise."""
    return 32 * float(jnp.finfo(dtype).eps)
