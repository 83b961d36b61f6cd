"""Fitting bases that are orthonormal on the data.

For polynomials of one variable this is the discrete Stieltjes procedure, made to need one pass
over long data instead of one per degree:

1. *Sketch*: `sketch.orthonormal_polynomials` on a few hundred points (a strided sample and the
   extremes of strided groups, so that far outliers are among them).
2. *Measure*: one pass over the data gives the Gram matrix of these polynomials.  Where it is
   well conditioned, a Cholesky factor makes them orthonormal exactly, and that is all.
3. *Repair*: where it is not (far outliers, a sketch that missed rare values), the first bad
   polynomial is orthogonalised by a correction to its recurrence, and the data measured again.
   One column a pass, because the rounding errors of later polynomials depend on it.

Short data are their own sketch, so only the first step is left of this, and the Cholesky factor.
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
from hgr_jax.core.moments import inner_products, mean_product
from hgr_jax.core.numerics import any_in_batch, safe_divide
from hgr_jax.core.sketch import (
    WHOLE_SKETCH,
    distinct_values,
    orthonormal_polynomials,
    rounding_noise,
    sketches,
)
from hgr_jax.core.small_matrices import inverse_cholesky, matmul

MIN_PIVOT = 0.5
MAX_NORM = 16.0


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
    short = columns[0].shape[0] <= WHOLE_SKETCH
    basis, gram, whitener, good = (_fitted_whole if short else _measured_and_repaired)(
        columns, degrees, weights, count
    )
    supported = jnp.minimum(
        distinct_values(columns, weights, count) - 1, np.asarray(degrees, np.int32)
    )
    enough = jnp.all(jnp.sum(basis.alive, axis=1, dtype=jnp.int32) >= supported)
    return FittedPolynomials(basis, gram, whitener, good & enough)


def _fitted_whole(
    columns: Sequence[Array], degrees: Sequence[int], weights: Array | None, count: Array | None
) -> FittedPolynomials:
    """The fit of short data."""
    top, variables = max(degrees), len(degrees)
    basis, values = orthonormal_polynomials(top, *sketches(columns, weights, count), twice=True)
    basis = dataclasses.replace(basis, alive=basis.alive & _within(degrees))
    rows = values.reshape(-1, values.shape[2])
    gram = inner_products(rows).reshape((variables, top + 1) * 2).transpose(1, 0, 3, 2)
    kept = jnp.pad(basis.alive, ((0, 0), (1, 0)), constant_values=True).T
    whitener = whitening(gram.reshape(len(rows), -1), kept.reshape(-1), _same_variable(degrees))
    # On its diagonal is the inverse of what is left of each norm after projection.
    good = jnp.all(jnp.diagonal(whitener) < 1 / MIN_PIVOT) | ~jnp.isfinite(jnp.sum(gram))
    return FittedPolynomials(basis, gram, whitener.reshape(gram.shape), good)


def _within(degrees: Sequence[int]) -> np.ndarray:
    """Which directions ``(v, top)`` a variable's own degree has."""
    return np.arange(max(degrees))[None, :] < np.asarray(degrees)[:, None]


def _same_variable(degrees: Sequence[int]) -> np.ndarray:
    """Which two of ``[1, p_1 .. p_top]`` of all variables, by degree, are of one variable."""
    variable = np.arange((max(degrees) + 1) * len(degrees)) % len(degrees)
    return variable[:, None] == variable[None, :]


def whitening(gram: Array, kept: Array, same: np.ndarray) -> Array:
    """Return the ``W (m, m)`` that makes the functions of each variable orthonormal.

    Args:
      gram: their mean products ``(m, m)``.
      kept: ``(m,)`` which functions are in use; the rows of the others are 0.
      same: ``(m, m)`` which two functions are of the same variable.
    """
    identity = np.eye(len(same), dtype=gram.dtype)
    own = jnp.where(kept[:, None] & kept[None, :] & same, gram, identity)
    return jnp.where(kept[:, None], inverse_cholesky(own), 0)


def _measured_and_repaired(
    columns: Sequence[Array], degrees: Sequence[int], weights: Array | None, count: Array | None
) -> FittedPolynomials:
    """The fit of long data."""
    top, variables = max(degrees), len(degrees)

    def measured(basis: PolynomialBasis, *, corrected: bool) -> Array:
        rows = functools.partial(_rows, basis, corrected)
        gram = mean_product(rows, columns, weights, count)
        return gram.reshape((top + 1, variables) * 2)

    def assessed(passes: Array, basis: PolynomialBasis, gram: Array) -> _State:
        return _State(passes, basis.step, basis.correction, gram, *_assess(basis, gram, degrees))

    def repair(state: _State) -> _State:
        repaired = _repaired(now(state), state.gram, (state.passes + 1) // 2)
        return assessed(state.passes + 1, repaired, measured(repaired, corrected=True))

    def now(state: _State) -> PolynomialBasis:
        return dataclasses.replace(basis, step=state.step, correction=state.correction)

    def unfinished(state: _State) -> Array:
        return (state.passes <= 2 * top) & any_in_batch(~state.done)

    basis, _ = orthonormal_polynomials(top, *sketches(columns, weights, count), twice=False)
    state = assessed(jnp.ones((), jnp.int32), basis, measured(basis, corrected=False))
    # A loop of no iterations costs XLA's CPU backend far more than a branch not taken.
    state = lax.cond(
        any_in_batch(~state.done),
        lambda state: lax.while_loop(unfinished, repair, state),
        lambda state: state,
        state,
    )
    lives = jnp.diagonal(state.whitener.reshape((top + 1) * variables, -1)) != 0
    alive = lives.reshape(top + 1, variables)[1:].T
    fitted = dataclasses.replace(now(state), alive=alive)
    return FittedPolynomials(fitted, state.gram, state.whitener, state.done)


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


def _assess(basis: PolynomialBasis, gram: Array, degrees: Sequence[int]) -> tuple[Array, Array]:
    """Return what makes each variable's polynomials orthonormal, and whether all is well.

    A direction is dead, with a row of 0 in the whitener, when what is left of ``x p_j`` after
    projection on ``p_0 .. p_j`` is rounding noise, or when an earlier direction is.  A basis is
    well conditioned where more than `MIN_PIVOT` of every polynomial's norm is orthogonal to those
    before it, and no norm is far from 1.  (What is not finite is well enough: it stays so.)
    """
    top, variables = basis.step.shape[-1], len(degrees)
    matrix = gram.reshape((top + 1) * variables, -1)
    square = jnp.diagonal(matrix)
    residual = square.reshape(top + 1, variables)[1:].T / basis.step**2
    # Column j of the recurrence expands x p_j on p_0 .. p_j.
    expansion = jnp.sum(basis.correction**2, axis=1) + (basis.diagonal**2 + basis.coupling**2)
    living = ~(residual <= rounding_noise(gram.dtype) ** 2 * (expansion + residual))
    living &= _within(degrees)
    kept = [np.ones(variables, bool)]
    for j in range(top):
        kept.append(kept[-1] & living[:, j])
    used = jnp.concatenate(kept)
    whitener = whitening(matrix, used, _same_variable(degrees))
    norm = jnp.sqrt(square)
    orthogonal = jnp.diagonal(whitener) * norm < 1 / MIN_PIVOT
    good = orthogonal & (norm < MAX_NORM) & (norm > 1 / MAX_NORM) | ~used
    done = jnp.all(good) | ~jnp.isfinite(jnp.sum(square))
    return whitener.reshape(gram.shape), done


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
            clear & (lives | (norm <= 2 * rounding_noise(v.dtype) * start)),
        )

    basis, transform = jnp.zeros((m, n), columns.dtype), jnp.zeros((m, m), columns.dtype)
    empty = (basis, transform, jnp.zeros(m, bool), jnp.array(True))
    _, transform, alive, clear = lax.fori_loop(0, m, orthogonalise, empty)
    return FeatureBasis(mean=mean, transform=unit[:, None] * transform, alive=alive), clear
