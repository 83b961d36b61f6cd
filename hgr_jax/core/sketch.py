"""Polynomials that are orthonormal on few points: all rows of short data, a sketch of long data."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from hgr_jax.core.basis import PolynomialBasis
from hgr_jax.core.moments import WHOLE_ROWS
from hgr_jax.core.numerics import (
    equal_weights,
    extremes,
    largest_power,
    reciprocal_power,
    safe_divide,
)
from hgr_jax.core.small_matrices import matmul

SKETCH_ROWS = 256
SKETCH_GROUPS = 128

WHOLE_SKETCH = 2048
"""Up to so many rows are their own sketch."""


def sketches(
    columns: Sequence[Array], weights: Array | None, count: Array | None
) -> tuple[Array, Array, Array, Array]:
    """Return frames ``(v, 2)``, framed points ``(v, m)``, their weights, and distinct values.

    The last, ``(v,)``, counts distinct values of a sample.  Of short columns all rows are
    points, in one stack; longer ones are not copied.
    """
    middle = _middles(columns, count)
    if columns[0].shape[0] <= WHOLE_ROWS:
        frame, points, shares = _sketch(jnp.stack(columns), middle, weights, count)
    else:
        parts = [
            _sketch(column[None], middle[v : v + 1], weights, count)
            for v, column in enumerate(columns)
        ]
        frame, points = (jnp.concatenate(x) for x in zip(*(p[:2] for p in parts), strict=True))
        shares = parts[0][2]
    return frame, points, shares, _distinct_values(columns, weights, count)


def _sketch(
    x: Array, middle: Array, weights: Array | None, count: Array | None
) -> tuple[Array, Array, Array]:
    """Return the frames and framed points of ``x (v, n)``, with weights."""
    n = x.shape[1]
    if n <= WHOLE_SKETCH:
        points = x
        w = equal_weights(count, x.T) if weights is None else weights
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
        w = jnp.concatenate([sampled, np.full(others, 1 / n, x.dtype)]) / (1 + others / n)
    frame = _frames(points, middle)
    return frame, points * frame[:, :1] - frame[:, 1:], w


def _frames(points: Array, middle: Array) -> Array:
    """Return scales and centers ``(v, 2)`` that bring ``points (v, m)`` into [-1, 1].

    A scale is a power of two, so that no digit is lost by multiplying before the center is
    subtracted, which neither the largest nor the smallest numbers of the dtype would survive; and
    the center is in the bulk, next to which even a far outlier leaves the other rows their digits.
    Where a point is not finite, the center is NaN.
    """
    low, high = (end[:, 0] for end in extremes(points, axis=1))
    unit = reciprocal_power(jnp.maximum(jnp.abs(low), jnp.abs(high)))
    low, middle, high = low * unit, middle * unit, high * unit
    reach = jnp.maximum(high - middle, middle - low)
    largest = largest_power(reach.dtype)
    scale = jnp.clip(unit * reciprocal_power(reach), 1 / largest, largest)
    scale = jnp.where(reach == 0, 0, scale)
    center = jnp.where(jnp.isfinite(reach), middle * (scale / unit), jnp.nan)
    return jnp.stack([scale, center], axis=1)


def _middles(columns: Sequence[Array], count: Array | None) -> Array:
    """Return a value ``(v,)`` in the bulk of each column: the median of medians of 3 x 3 rows.

    Without a sort, which would take as long as all else that short data need.
    """
    n = columns[0].shape[0]
    rows = n if count is None else count
    chosen = rows // 9 * np.arange(9, dtype=np.int32) + rows // 18
    x = jnp.stack([column[chosen] for column in columns]).reshape(-1, 3, 3)
    for _ in range(2):
        one, two, three = x[:, 0], x[:, 1], x[:, 2]
        x = jnp.maximum(jnp.minimum(one, two), jnp.minimum(jnp.maximum(one, two), three))
    return x


def _distinct_values(columns: Sequence[Array], weights: Array | None, count: Array | None) -> Array:
    """Count the distinct values ``(v,)`` of a sample of the rows of positive weight."""
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
    return 1 + jnp.sum(sample[:, 1:] > sample[:, :-1], axis=1, dtype=jnp.int32)


def orthonormal_polynomials(
    degree: int, frame: Array, points: Array, weights: Array, *, twice: bool
) -> tuple[PolynomialBasis, Array]:
    """Return orthonormal polynomials on weighted points, and their values times the weights' roots.

    Every polynomial is orthogonalised by the recurrence and, if ``twice``, then against all before
    it, by a correction.

    Args:
      degree: static.
      frame: ``(v, 2)``, what makes ``points`` of the data.
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
        projected = jnp.sum(c * c, axis=1) + shift * shift + back * back
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
    expected = jnp.asarray(np.array([[0.0, -0.0]] * variables, dtype))
    if not twice:  # where a correction is to come, that takes the mean away
        mean = matmul(points, weights[:, None])
        expected = jnp.concatenate([mean, expected[:, 1:]], axis=1)
    start = values, recurrence, expected
    values, recurrence, _ = lax.fori_loop(0, degree, add_polynomial, start)
    return PolynomialBasis(frame, recurrence), values


def rounding_noise(dtype: jnp.dtype) -> float:
    """Return the relative norm below which a direction is rounding noise."""
    return 32 * float(jnp.finfo(dtype).eps)
