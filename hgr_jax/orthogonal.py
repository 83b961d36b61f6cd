"""Fitting bases that are orthonormal on the data.

For polynomials of one variable this is the discrete Stieltjes procedure, made to need one pass
over long data instead of one per degree:

1. *Sketch*: the Lanczos recurrence on a few hundred points (a strided sample and the extremes
   of strided groups, so that far outliers are among them).
2. *Measure*: one pass over the data gives the Gram matrix of these polynomials.  Where it is
   well conditioned, a Cholesky factor makes them orthonormal exactly, and that is all.
3. *Repair*: where it is not (far outliers, a sketch that missed rare values), the first bad
   polynomial is orthogonalised by a correction to its recurrence, and the data measured again.
   One column a pass, because the rounding errors of later polynomials depend on it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from hgr_jax.kernels import FeatureBasis, PolynomialBasis
from hgr_jax.moments import WHOLE_ROWS, mean_product

SKETCH_ROWS = 256
SKETCH_GROUPS = 128
MIN_PIVOT = 0.5
MAX_NORM = 16.0


def fit_polynomials(
    columns: Sequence[Array], degrees: Sequence[int], weights: Array | None
) -> tuple[tuple[PolynomialBasis, ...], Array, Array]:
    """Bases of polynomials of up to ``degrees[v]`` of the variable ``columns[v]``.

    Args:
      columns: one or two arrays ``(n,)`` of one dtype.
      degrees: a degree for each.
      weights: ``(n,)``, summing to 1, or None.

    Returns:
      The bases; the Gram matrix of ``[1, basis_0(columns[0]), basis_1(columns[1])]``; and
      whether every basis could be made well conditioned, with as many directions as the data
      has values for (an outlier beyond the reach of the dtype hides those of all other rows).
    """
    top = max(degrees)
    used = np.arange(1, top + 1)[None, :] <= np.asarray(degrees)[:, None]
    basis = jax.vmap(functools.partial(_lanczos, top))(*_sketches(columns, weights))

    own_index, order = _layout(degrees)

    def measure(basis: PolynomialBasis, *, corrected: bool) -> Array:
        def rows(*parts: Array) -> Array:
            polynomials = jax.vmap(
                functools.partial(PolynomialBasis.polynomials, corrected=corrected)
            )(basis, jnp.stack(parts))
            return _interleave(polynomials, degrees)

        return mean_product(rows, columns, weights)

    def own(gram: Array) -> Array:
        """Each variable's Gram matrix ``(v, top + 1, top + 1)``, unused degrees as identity."""
        padded = jnp.pad(gram, (0, 1))
        mine = padded[own_index[:, :, None], own_index[:, None, :]]
        unused = np.pad(~used, ((0, 0), (1, 0)))
        return jnp.where(unused[:, :, None] & np.eye(top + 1, dtype=bool), 1, mine)

    def assessed(passes: Array, basis: PolynomialBasis, gram: Array) -> _State:
        alive, bad = jax.vmap(assess)(basis, own(gram))
        done = ~jnp.any(bad) | ~jnp.isfinite(gram).all()
        return _State(passes, dataclasses.replace(basis, alive=alive), gram, bad, done)

    def repair(state: _State) -> _State:
        basis = jax.vmap(_repair)(state.basis, own(state.gram), state.bad)
        return assessed(state.passes + 1, basis, measure(basis, corrected=True))

    def repair_all(state: _State) -> _State:
        limit = 2 * sum(degrees) + 2
        return lax.while_loop(lambda state: ~state.done & (state.passes < limit), repair, state)

    state = assessed(jnp.int32(1), basis, measure(basis, corrected=False))
    # A loop of no iterations costs XLA's CPU backend far more than a branch not taken.
    state = lax.cond(state.done, lambda state: state, repair_all, state)
    resolved = state.done
    for v, (column, degree) in enumerate(zip(columns, degrees, strict=True)):
        supported = jnp.minimum(distinct_values(column, weights) - 1, degree)
        resolved &= jnp.sum(state.basis.alive[v, :degree]) >= supported
    bases = tuple(_select(state.basis, v, degree) for v, degree in enumerate(degrees))
    return bases, state.gram[order[:, None], order[None, :]], resolved


class _State(NamedTuple):
    """Bases of all variables after some passes over the data."""

    passes: Array
    basis: PolynomialBasis
    gram: Array
    bad: Array
    done: Array


def _layout(degrees: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Where each variable's polynomials stand in the interleaved rows, and the plain order."""
    top = max(degrees)
    own = np.full((len(degrees), top + 1), -1)
    own[:, 0] = 0
    position = 1
    for j in range(1, top + 1):
        for v, degree in enumerate(degrees):
            if j <= degree:
                own[v, j] = position
                position += 1
    order = np.concatenate([[0], *[own[v, 1 : degree + 1] for v, degree in enumerate(degrees)]])
    return own, order


def _interleave(polynomials: list[Array], degrees: Sequence[int]) -> Array:
    """Rows ``1, p_1 of each variable, p_2 of each, ...`` (fewest pieces to copy)."""
    rows = [polynomials[0][:1]]
    for j, values in enumerate(polynomials[1:], 1):
        if j <= min(degrees):
            rows.append(values)
        else:
            rows += [values[v : v + 1] for v, degree in enumerate(degrees) if j <= degree]
    return jnp.concatenate(rows)


def _select(basis: PolynomialBasis, v: int, degree: int) -> PolynomialBasis:
    """One variable of stacked bases, its dead directions exactly zero."""
    alive = basis.alive[v, :degree]
    return PolynomialBasis(
        center=basis.center[v],
        scale=basis.scale[v],
        diagonal=basis.diagonal[v, :degree],
        coupling=basis.coupling[v, :degree],
        step=jnp.where(alive, basis.step[v, :degree], 0),
        correction=basis.correction[v, :degree, :degree],
        alive=alive,
    )


def sketched_polynomials(column: Array, weights: Array | None, degree: int) -> PolynomialBasis:
    """Polynomials of a column ``(n,)`` that are orthonormal on a sketch of it.

    What `fit_polynomials` starts from: whether it will do has to be measured.
    """
    return _lanczos(degree, *_sketch(column, weights))


def _sketches(columns: Sequence[Array], weights: Array | None) -> tuple[Array, ...]:
    """`_sketch` of every column, stacked; short columns together, long ones without a copy."""
    if columns[0].shape[0] <= WHOLE_ROWS:
        return jax.vmap(_sketch, in_axes=(0, None))(jnp.stack(columns), weights)
    sketches = [_sketch(column, weights) for column in columns]
    return jax.tree.map(lambda *parts: jnp.stack(parts), *sketches)


def _sketch(x: Array, weights: Array | None) -> tuple[Array, Array, Array, Array]:
    """Center, scale (to [-1, 1]), and a few scaled points of ``x`` with their weights."""
    n = x.shape[0]
    if n <= 2 * SKETCH_ROWS:
        points = x
        point_weights = jnp.full(n, 1 / n, x.dtype) if weights is None else weights
        center = jnp.sum(point_weights * points)
    else:
        stride = n // SKETCH_ROWS
        grouped = n // SKETCH_GROUPS * SKETCH_GROUPS
        groups = x[:grouped].reshape(-1, SKETCH_GROUPS)
        sample = slice(None, stride * SKETCH_ROWS, stride)
        extremes = jnp.concatenate([groups.max(axis=0), groups.min(axis=0), x[grouped:]])
        if weights is None:
            sample_weights = jnp.full(SKETCH_ROWS, 1 / SKETCH_ROWS, x.dtype)
            center = jnp.mean(x[sample])
        else:
            total = jnp.sum(weights[sample])
            inverse = jnp.where(total > 0, 1 / jnp.where(total > 0, total, 1), 0)
            sample_weights = weights[sample] * inverse
            middle = (extremes.max() + extremes.min()) / 2
            center = jnp.where(total > 0, jnp.sum(sample_weights * x[sample]), middle)
        points = jnp.concatenate([x[sample], extremes])
        point_weights = jnp.concatenate(
            [sample_weights, jnp.full(extremes.shape[0], 1 / n, x.dtype)]
        )
        point_weights = point_weights / jnp.sum(point_weights)
    deviation = points - center
    reach = jnp.max(jnp.abs(deviation))
    varies = reach > 4 * jnp.finfo(x.dtype).tiny
    scale = jnp.where(varies, 1 / jnp.where(varies, reach, 1), 0)
    return center, scale, deviation * scale, point_weights


def distinct_values(x: Array, weights: Array | None) -> Array:
    """How many clearly distinct values a sample of ``x`` holds, among rows of positive weight."""
    stride = max(1, x.shape[0] // SKETCH_ROWS)
    sample = x[::stride]
    if weights is not None:
        sample = jnp.where(weights[::stride] > 0, sample, jnp.nan)
    sample = jnp.sort(sample)  # NaN last
    low, high = sample[:-1], sample[1:]
    rounding = _tolerance(x.dtype) * jnp.maximum(jnp.abs(low), jnp.abs(high))
    return 1 + jnp.sum(high - low > rounding)


def _tolerance(dtype: jnp.dtype) -> float:
    """Relative norm below which a direction is rounding noise."""
    return 32 * float(jnp.finfo(dtype).eps)


def _lanczos(
    degree: int, center: Array, scale: Array, points: Array, weights: Array
) -> PolynomialBasis:
    """Orthonormal polynomials on weighted points, by the Lanczos recurrence."""
    dtype = points.dtype
    noise = _tolerance(dtype) ** 2
    moments = jnp.stack([weights, weights * points])

    def next_step(v: Array, shift: Array, back: Array) -> tuple[Array, Array, Array]:
        """``shift, back, step`` of the recurrence from v, a polynomial not yet normalised."""
        squared, first = jnp.matmul(moments, v * v, precision=lax.Precision.HIGHEST)
        lives = squared > noise * (shift * shift + back * back + squared)
        step = lax.rsqrt(jnp.where(lives, squared, 1))
        shift = jnp.where(lives, first * step * step, 0)
        return shift, jnp.where(lives, squared * step, 0), step

    zero = jnp.zeros((), dtype)
    previous, current = jnp.zeros_like(points), jnp.ones_like(points)
    shift, _, _ = next_step(current, zero, zero)
    back = zero
    diagonal, coupling, steps = [], [], []
    for _ in range(degree):
        diagonal.append(shift)
        coupling.append(back)
        v = (points - shift) * current - back * previous
        shift, back, step = next_step(v, shift, back)
        steps.append(step)
        previous, current = current, v * step
    return PolynomialBasis(
        center=center,
        scale=scale,
        diagonal=jnp.stack(diagonal),
        coupling=jnp.stack(coupling),
        step=jnp.stack(steps),
        correction=jnp.zeros((degree, degree), dtype),
        alive=jnp.ones(degree, bool),
    )


def _recurrence_matrix(basis: PolynomialBasis) -> Array:
    """``(d, d)``: column j expands ``x p_j`` on ``p_0 .. p_j`` (diagonal, coupling, correction)."""
    return basis.correction + jnp.diag(basis.diagonal) + jnp.diag(basis.coupling[1:], 1)


def assess(basis: PolynomialBasis, gram: Array) -> tuple[Array, Array]:
    """Which directions the data supports ``(d,)``, and which polynomials need repair ``(d + 1,)``.

    A direction is dead when what is left of ``x p_j`` after projection on ``p_0 .. p_j`` is
    rounding noise, or when an earlier direction is.  A polynomial needs repair when less than
    `MIN_PIVOT` of its norm is orthogonal to those before it, or its norm is far from 1.
    """
    norms = jnp.sqrt(jnp.maximum(jnp.diagonal(gram), 0))
    residual = norms[1:] / basis.step
    product = jnp.sqrt(jnp.sum(_recurrence_matrix(basis) ** 2, axis=0) + residual**2)
    alive = jnp.cumprod(residual > _tolerance(gram.dtype) * product).astype(bool)
    kept = jnp.concatenate([jnp.ones(1, bool), alive])
    scale = jnp.where(kept, norms, 1)
    both = kept[:, None] & kept[None, :]
    identity = jnp.eye(gram.shape[0], dtype=gram.dtype)
    correlation = jnp.where(both, gram / scale[:, None] / scale[None, :], 0)
    # The shift keeps the factorisation of a nearly singular matrix finite.
    factor = jnp.linalg.cholesky(jnp.where(both, correlation, identity) + 1e-3 * identity)
    pivots = jnp.diagonal(factor)
    bad = ~(pivots > MIN_PIVOT) | (scale > MAX_NORM) | (scale < 1 / MAX_NORM)
    return alive, bad.at[0].set(False)


def _repair(basis: PolynomialBasis, gram: Array, bad: Array) -> PolynomialBasis:
    """Orthogonalise and normalise the first bad polynomial, if there is one."""
    target = jnp.argmax(bad)
    kept = jnp.concatenate([jnp.ones(1, bool), basis.alive])
    before = (jnp.arange(gram.shape[0]) < target) & kept
    identity = jnp.eye(gram.shape[0], dtype=gram.dtype)
    projection = jnp.linalg.solve(
        jnp.where(before[:, None] & before[None, :], gram, identity),
        jnp.where(before, gram[:, target], 0),
    )
    squared = gram[target, target] - jnp.dot(projection, gram[:, target])
    norm = jnp.where(squared > 0, jnp.sqrt(jnp.where(squared > 0, squared, 1)), 1)
    column = (jnp.arange(basis.step.shape[0]) == target - 1) & jnp.any(bad)
    correction = projection[:-1] / basis.step[jnp.maximum(target - 1, 0)]
    return dataclasses.replace(
        basis,
        step=jnp.where(column, basis.step / jnp.maximum(norm, 1e-3), basis.step),
        correction=basis.correction + jnp.where(column[None, :], correction[:, None], 0),
    )


def fit_features(features: Array, weights: Array | None) -> tuple[FeatureBasis, Array]:
    """An orthonormal basis of the centred columns of ``features (n, m)``.

    Gram-Schmidt, twice for every column, in the given order; a column that is a combination of
    those before it (to `eps ** (2/3)` of its norm) is a dead direction.  The second result is
    False where what is left of a dead direction is more than rounding would leave.
    """
    n, m = features.shape
    w = jnp.full(n, 1 / n, features.dtype) if weights is None else weights
    mean = jnp.sum(w[:, None] * features, axis=0)
    centred = features - mean[None, :]
    reach = jnp.max(jnp.abs(centred), axis=0)
    magnitude = jnp.max(jnp.abs(features), axis=0)
    tolerance = float(jnp.finfo(features.dtype).eps) ** (2 / 3)
    varies = reach > float(jnp.finfo(features.dtype).eps) * 8 * magnitude
    unit = jnp.where(varies, 1 / jnp.where(varies, reach, 1), 0)
    columns = (centred * unit[None, :]).T

    def orthogonalise(j: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        basis, transform, alive, clear = state
        v = columns[j]
        combination = jnp.zeros(m, v.dtype).at[j].set(1)
        start = jnp.sqrt(jnp.sum(w * v * v))
        for _ in range(2):
            c = jnp.matmul(basis, w * v, precision=lax.Precision.HIGHEST)
            v = v - jnp.matmul(c, basis, precision=lax.Precision.HIGHEST)
            combination = combination - jnp.matmul(transform, c, precision=lax.Precision.HIGHEST)
        norm = jnp.sqrt(jnp.sum(w * v * v))
        lives = norm > tolerance * start
        inverse = jnp.where(lives, 1 / jnp.where(lives, norm, 1), 0)
        return (
            basis.at[j].set(v * inverse),
            transform.at[:, j].set(combination * inverse),
            alive.at[j].set(lives),
            clear & (lives | (norm <= 2 * _tolerance(v.dtype) * start)),
        )

    basis, transform = jnp.zeros((m, n), columns.dtype), jnp.zeros((m, m), columns.dtype)
    empty = (basis, transform, jnp.zeros(m, bool), jnp.array(True))
    _, transform, alive, clear = lax.fori_loop(0, m, orthogonalise, empty)
    return FeatureBasis(mean=mean, transform=unit[:, None] * transform, alive=alive), clear
