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

All variables are stacked throughout, so that each step is compiled once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from hgr_jax.core.basis import FeatureBasis, PolynomialBasis
from hgr_jax.core.moments import WHOLE_ROWS, _product, mean_product
from hgr_jax.core.numerics import any_in_batch, equal_weights, extremes, safe_divide
from hgr_jax.core.small_matrices import inverse_cholesky, matmul

SKETCH_ROWS = 256
SKETCH_GROUPS = 128
MIN_PIVOT = 0.5
MAX_NORM = 16.0

WHOLE_SKETCH = 2048
"""Up to so many rows are their own sketch."""


class FittedPolynomials(NamedTuple):
    """Bases of all variables, stacked, each with as many degrees as the largest has.

    Attributes:
      basis: directions beyond a variable's own degree are dead (see `PolynomialBasis.living`).
      gram: mean products ``(top + 1, v, top + 1, v)`` of ``[1, p_1 .. p_top]`` of all variables.
      whitener: what makes those of each variable orthonormal, block diagonal, of the same shape.
      well_conditioned: whether every basis is, with as many directions as the data has values
        for (an outlier beyond the reach of the dtype hides those of all other rows).
    """

    basis: PolynomialBasis
    gram: Array
    whitener: Array
    well_conditioned: Array


def fit_polynomials(
    columns: Sequence[Array],
    degrees: Sequence[int],
    weights: Array | None,
    count: Array | None = None,
) -> FittedPolynomials:
    """Fit polynomials of up to ``degrees[v]`` of the variable ``columns[v]``.

    Args:
      columns: arrays ``(n,)`` of one dtype.
      degrees: a degree for each.
      weights: ``(n,)``, summing to 1, or None.
      count: how many of the rows are data (without weights); None for all.
    """
    if columns[0].shape[0] <= WHOLE_SKETCH:
        return _fit_whole(columns, degrees, weights, count)
    top = max(degrees)
    size, shape = (top + 1) * len(degrees), (top + 1, len(degrees)) * 2

    def measured(basis: PolynomialBasis, *, corrected: bool) -> Array:
        rows = functools.partial(_rows, basis, corrected)
        return mean_product(rows, columns, weights, count).reshape(shape)

    def assessed(passes: Array, basis: PolynomialBasis, gram: Array) -> _State:
        return _State(passes, basis.step, basis.correction, gram, *_assess(basis, gram, degrees))

    def repair(state: _State) -> _State:
        repaired = _repaired(now(state), state.gram, (state.passes + 1) // 2)
        return assessed(state.passes + 1, repaired, measured(repaired, corrected=True))

    def now(state: _State) -> PolynomialBasis:
        return dataclasses.replace(basis, step=state.step, correction=state.correction)

    def unfinished(state: _State) -> Array:
        return (state.passes <= 2 * top) & any_in_batch(~state.done)

    basis = _lanczos(top, *_sketches(columns, weights, count))
    state = assessed(jnp.ones((), jnp.int32), basis, measured(basis, corrected=False))
    # A loop of no iterations costs XLA's CPU backend far more than a branch not taken.
    state = lax.cond(
        any_in_batch(~state.done),
        lambda state: lax.while_loop(unfinished, repair, state),
        lambda state: state,
        state,
    )
    alive = jnp.diagonal(state.whitener.reshape(size, size)).reshape(top + 1, -1)[1:].T != 0
    supported = jnp.minimum(
        distinct_values(columns, weights, count) - 1, np.asarray(degrees, np.int32)
    )
    fitted = dataclasses.replace(now(state), alive=alive)
    enough = jnp.all(jnp.sum(alive, axis=1, dtype=jnp.int32) >= supported)
    return FittedPolynomials(fitted, state.gram, state.whitener, state.done & enough)


def _fit_whole(
    columns: Sequence[Array], degrees: Sequence[int], weights: Array | None, count: Array | None
) -> FittedPolynomials:
    """The fit of few rows, which are their own sketch: nothing is left to measure or to repair."""
    top, variables = max(degrees), len(degrees)
    size = (top + 1) * variables
    x = jnp.stack(columns)
    center, scale, points, w = _sketch(x, weights, count)
    basis, values = _orthogonal(top, center, scale, points, w)
    supported = np.arange(top) < np.asarray(degrees)[:, None]
    basis = dataclasses.replace(basis, alive=basis.alive & supported)
    rows = values.reshape(size, -1)
    gram = _product(rows, rows).reshape((variables, top + 1) * 2)
    gram = gram.transpose(1, 0, 3, 2).reshape(size, size)
    kept = jnp.concatenate([jnp.ones((1, variables), bool), basis.alive.T]).reshape(size)
    identity = np.eye(size, dtype=gram.dtype)
    same = np.arange(size)[:, None] % variables == np.arange(size)[None, :] % variables
    own = jnp.where(kept[:, None] & kept[None, :] & same, gram, identity)
    whitener = inverse_cholesky(own)
    done = jnp.all((whitener < 1 / MIN_PIVOT) | (identity == 0))
    enough = jnp.sum(basis.alive, axis=1, dtype=jnp.int32) >= jnp.minimum(
        distinct_values(columns, weights, count) - 1, np.asarray(degrees, np.int32)
    )
    shape = (top + 1, variables) * 2
    return FittedPolynomials(
        basis,
        gram.reshape(shape),
        jnp.where(kept[:, None], whitener, 0).reshape(shape),
        (done | ~jnp.isfinite(jnp.sum(gram))) & jnp.all(enough),
    )


class _State(NamedTuple):
    """Bases of all variables after some passes over the data."""

    passes: Array
    step: Array
    correction: Array
    gram: Array
    whitener: Array
    done: Array


def gram_matrix(
    basis: PolynomialBasis,
    columns: Sequence[Array],
    weights: Array | None,
    count: Array | None = None,
) -> Array:
    """Return the mean products ``(d + 1, v, d + 1, v)`` of all polynomials over the rows.

    Differentiable in data and weights.
    """
    gram = mean_product(functools.partial(_rows, basis, True), columns, weights, count)
    return gram.reshape((basis.step.shape[-1] + 1, len(columns)) * 2)


def _rows(basis: PolynomialBasis, corrected: bool, inside: Array | None, *parts: Array) -> Array:
    """All polynomials at some rows of the columns, by degree, then by variable."""
    return jnp.concatenate(basis.polynomials(jnp.stack(parts), inside, corrected=corrected))


def _sketches(
    columns: Sequence[Array], weights: Array | None, count: Array | None
) -> tuple[Array, Array, Array, Array]:
    """`_sketch` of all columns; short ones together, long ones without a copy."""
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
    """Center, scale (to [-1, 1]), and scaled points of ``x (v, n)`` with their weights."""
    n = x.shape[1]
    if n <= WHOLE_SKETCH:
        points = x
        w = equal_weights(count, x.T) if weights is None else weights
        center = matmul(points, w)
        low, high = extremes(points, axis=1)
    else:
        rows = n if count is None else count
        chosen = (rows // SKETCH_ROWS) * lax.iota(jnp.int32, SKETCH_ROWS)
        sample = x[:, chosen]
        grouped = n // SKETCH_GROUPS * SKETCH_GROUPS
        groups = x[:, :grouped].reshape(len(x), -1, SKETCH_GROUPS)
        outermost = groups.min(axis=1), groups.max(axis=1)
        points = jnp.concatenate([sample, *outermost, x[:, grouped:]], axis=1)
        low, high = extremes(points, axis=1)
        if weights is None:
            w = jnp.full(SKETCH_ROWS, 1 / SKETCH_ROWS, x.dtype)
            center = matmul(sample, w)
        else:
            total = jnp.sum(weights[chosen])
            w = safe_divide(weights[chosen], total)
            center = jnp.where(total > 0, matmul(sample, w), (low + high) / 2)
        others = points.shape[1] - SKETCH_ROWS
        w = jnp.concatenate([w, np.full(others, 1 / n, x.dtype)]) / (1 + others / n)
    reach = jnp.maximum(high - center, center - low)
    # A reach next to the smallest numbers has no reciprocal.
    reach = jnp.where(reach <= 4 * jnp.finfo(x.dtype).tiny, 0, reach)
    scale = safe_divide(1.0, reach)
    return center, scale, (points - center[:, None]) * scale[:, None], w


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
    rounding = _tolerance(sample.dtype) * jnp.maximum(jnp.abs(low), jnp.abs(high))
    return 1 + jnp.sum(high - low > rounding, axis=1, dtype=jnp.int32)


def _tolerance(dtype: jnp.dtype) -> float:
    """Relative norm below which a direction is rounding noise."""
    return 32 * float(jnp.finfo(dtype).eps)


_Terms = tuple[Array, Array, Array]
"""The polynomial before, the present one, and the recurrence between them."""


def _lanczos(
    degree: int, center: Array, scale: Array, points: Array, weights: Array
) -> PolynomialBasis:
    """Orthonormal polynomials on weighted points ``(v, m)`` of mean 0, by the Lanczos recurrence.

    What is carried is not normalised, so that a step is one expression of the points.
    """
    dtype = points.dtype
    noise = _tolerance(dtype) ** 2
    w = jnp.broadcast_to(weights[None, :], points.shape)
    moments = jnp.stack([w, w * points], axis=1)

    def next_polynomial(state: _Terms, _: None) -> tuple[_Terms, Array]:
        previous, current, recurrence = state
        shift, back, step, last = recurrence[:4]
        v = (points - shift[:, None]) * (step[:, None] * current)
        v = v - (back * last)[:, None] * previous
        squared, first = matmul(moments, (v * v)[:, :, None])[:, :, 0].T
        lives = squared > noise * (shift * shift + back * back + squared)
        new_step = lax.rsqrt(jnp.where(lives, squared, 1))
        new_shift = jnp.where(lives, first * new_step * new_step, 0)
        new_back = jnp.where(lives, squared * new_step, 0)
        new = jnp.stack([new_shift, new_back, new_step, step, shift, back])
        return (current, v, new), new

    ones = jnp.ones(points.shape, dtype)
    unit = np.zeros((6, len(points)), dtype)
    unit[2] = 1
    _, found = lax.scan(next_polynomial, (ones, ones, jnp.asarray(unit)), length=degree)
    recurrence = jnp.moveaxis(found, 0, -1)
    shape = (len(points), degree)
    return PolynomialBasis(
        center=center,
        scale=scale,
        diagonal=recurrence[4],
        coupling=recurrence[5],
        step=recurrence[2],
        correction=jnp.zeros((*shape, degree), dtype),
        alive=jnp.ones(shape, bool),
    )


def _orthogonal(
    degree: int, center: Array, scale: Array, points: Array, weights: Array
) -> tuple[PolynomialBasis, Array]:
    """Orthonormal polynomials on weighted points ``(v, m)`` and their values ``(v, d + 1, m)``.

    Every polynomial is orthogonalised twice: by the recurrence, then against all before it.
    """
    dtype, variables = points.dtype, len(points)
    noise = _tolerance(dtype) ** 2
    moments = jnp.stack([jnp.ones_like(points), points], axis=1)

    def next_polynomial(state: tuple[Array, Array], j: Array) -> tuple[tuple[Array, Array], Array]:
        values, recurrence = state
        shift, back = recurrence[:, :1], recurrence[:, 1:]
        current, previous = (
            lax.dynamic_index_in_dim(values, i, axis=1, keepdims=False)
            for i in (j, jnp.maximum(j - 1, 0))
        )
        v = (points - shift) * current - back * previous
        c = matmul(values, v[:, :, None])
        v = v - matmul(jnp.swapaxes(c, 1, 2), values)[:, 0]
        squared, first = jnp.split(matmul(moments, (v * v)[:, :, None])[:, :, 0], 2, axis=1)
        expansion = shift * shift + back * back + jnp.sum(c * c, axis=1)
        lives = squared > noise * (expansion + squared)
        step = jnp.where(lives, lax.rsqrt(jnp.where(lives, squared, 1)), 0)
        values = lax.dynamic_update_index_in_dim(values, v * step, j + 1, 1)
        found = jnp.concatenate([recurrence, step, c[:, :-1, 0]], axis=1)
        recurrence = jnp.concatenate([first * step * step, squared * step], axis=1)
        return (values, recurrence), found

    values = jnp.zeros((variables, degree + 1, points.shape[1]), dtype)
    values = values.at[:, 0].set(jnp.sqrt(weights)[None, :])
    (values, _), found = lax.scan(
        next_polynomial,
        (values, jnp.zeros((variables, 2), dtype)),
        np.arange(degree, dtype=np.int32),
    )
    found = jnp.moveaxis(found, 0, -1)
    alive = found[:, 2] > 0
    basis = PolynomialBasis(
        center=center,
        scale=scale,
        diagonal=found[:, 0],
        coupling=found[:, 1],
        step=jnp.where(alive, found[:, 2], 1),
        correction=found[:, 3:],
        alive=alive,
    )
    return basis, values


def _assess(basis: PolynomialBasis, gram: Array, degrees: Sequence[int]) -> tuple[Array, Array]:
    """Return what makes each variable's polynomials orthonormal, and whether all is well.

    A direction is dead, with a row of 0 in the whitener, when what is left of ``x p_j`` after
    projection on ``p_0 .. p_j`` is rounding noise, or when an earlier direction is.  A basis is
    well conditioned where more than `MIN_PIVOT` of every polynomial's norm is orthogonal to those
    before it, and no norm is far from 1.  (What is not finite is well enough: it stays so.)
    """
    top, variables = basis.step.shape[-1], len(degrees)
    size = (top + 1) * variables
    identity = np.eye(size, dtype=gram.dtype)
    matrix = gram.reshape(size, size)
    square = jnp.sum(matrix * identity, axis=1).reshape(top + 1, variables)
    residual = square[1:].T / basis.step**2
    # Column j of the recurrence expands x p_j on p_0 .. p_j.
    expansion = jnp.sum(basis.correction**2, axis=1) + (basis.diagonal**2 + basis.coupling**2)
    living = ~(residual <= _tolerance(gram.dtype) ** 2 * (expansion + residual))
    living &= np.arange(top)[None, :] < np.asarray(degrees)[:, None]
    kept = [np.ones(variables, bool)]
    for j in range(top):
        kept.append(kept[-1] & living[:, j])
    used = jnp.concatenate(kept)
    same = np.arange(size)[:, None] % variables == np.arange(size)[None, :] % variables
    own = jnp.where(used[:, None] & used[None, :] & same, matrix, identity)
    whitener = inverse_cholesky(own)
    # On the diagonals: the norm, and its share that is orthogonal to what comes before.
    norm = jnp.sqrt(own)
    good = (whitener * norm < 1 / MIN_PIVOT) & (norm < MAX_NORM) & (norm > 1 / MAX_NORM)
    done = jnp.all(good | (identity == 0)) | ~jnp.isfinite(jnp.sum(square))
    return jnp.where(used[:, None], whitener, 0).reshape(gram.shape), done


def _repaired(basis: PolynomialBasis, gram: Array, target: Array) -> PolynomialBasis:
    """Orthogonalise and normalise the polynomials of one degree, those below being orthonormal.

    From degree 1 upward, and twice each, this is Gram-Schmidt with reorthogonalisation.
    """
    size, variables = basis.step.shape[-1], len(basis.step)
    column = lax.dynamic_index_in_dim(gram, target, axis=2, keepdims=False)
    column = jnp.sum(column * np.eye(variables, dtype=gram.dtype)[None], axis=2).T
    places = np.arange(size + 1, dtype=np.int32)
    projection = jnp.where(places[None, :] < target, column, 0)
    square = jnp.where(places[None, :] == target, column, -projection * projection)
    norm = jnp.sqrt(jnp.maximum(jnp.sum(square, axis=1, keepdims=True), 1e-6))
    now = places[None, 1:] == target
    correction = projection[:, :-1, None] / basis.step[:, None, :]
    return dataclasses.replace(
        basis,
        step=jnp.where(now, basis.step / norm, basis.step),
        correction=basis.correction + jnp.where(now[:, None, :], correction, 0),
    )


def fit_features(features: Array, weights: Array | None) -> tuple[FeatureBasis, Array]:
    """Fit an orthonormal basis of the centred columns of ``features (n, m)``.

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
    reach = jnp.where(reach > float(jnp.finfo(features.dtype).eps) * 8 * magnitude, reach, 0)
    unit = safe_divide(1.0, reach)
    columns = (centred * unit[None, :]).T

    def orthogonalise(j: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        basis, transform, alive, clear = state
        start = jnp.sqrt(jnp.sum(w * columns[j] ** 2))

        def project(_: Array, pair: tuple[Array, Array]) -> tuple[Array, Array]:
            v, combination = pair
            c = matmul(basis, w * v)
            return v - matmul(c, basis), combination - matmul(transform, c)

        combination = (jnp.arange(m) == j).astype(features.dtype)
        v, combination = lax.fori_loop(0, 2, project, (columns[j], combination))
        norm = jnp.sqrt(jnp.sum(w * v * v))
        lives = norm > tolerance * start
        inverse = jnp.where(lives, safe_divide(1.0, norm), 0)
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
