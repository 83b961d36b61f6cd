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

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from hgr_jax.core.basis import FeatureBasis, PolynomialBasis
from hgr_jax.core.moments import inner_products, mean_product
from hgr_jax.core.numerics import any_in_batch, safe_divide, safe_rsqrt
from hgr_jax.core.sketch import (
    WHOLE_SKETCH,
    orthonormal_polynomials,
    rounding_noise,
    sketches,
)
from hgr_jax.core.small_matrices import inverse_cholesky, matmul

MIN_REMAINDER = 0.5
MAX_NORM = 16.0

CLEAR_NORM = 1.25
"""Of a direction, in times the norm below which it is dead."""


class FittedPolynomials(NamedTuple):
    """Bases of all variables, stacked, each with as many degrees as the largest has.

    Attributes:
      basis: directions beyond a variable's own degree are dead.
      gram: mean products ``(m, m)`` of ``[1, p_1 .. p_top]`` of all variables, one after the other.
      whitener: what makes those of each variable orthonormal, block diagonal, of the same shape.
        A dead direction has a row of the identity where its products are 0, as in short data, and
        a row of 0 elsewhere.
      well_conditioned: whether every basis is, with as many directions as the data has values
        for (an outlier beyond the reach of the dtype hides those of all other rows).
      finite: whether the data and weights are.
      values: of short data, the polynomials at all rows times the roots of the rows' weights,
        ``(v, 1 + top, n)``; None of long data.
    """

    basis: PolynomialBasis
    gram: Array
    whitener: Array
    well_conditioned: Array
    finite: Array
    values: Array | None


_Fitted = tuple[PolynomialBasis, Array, Array, Array]
"""The first four of `FittedPolynomials`."""


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
    frame, points, shares, distinct = sketches(columns, weights, count)
    basis, values = orthonormal_polynomials(max(degrees), frame, points, shares, twice=short)
    if short:
        fitted = _fitted_whole(basis, values, degrees)
    else:
        # Not made orthogonal twice: corrections would cost every row of long data, and where the
        # Gram matrix is well conditioned its Cholesky factor does the rest exactly.
        fitted = _measured_and_repaired(basis, columns, degrees, weights, count)
    basis, gram, whitener, good = fitted
    supported = jnp.minimum(distinct - 1, np.asarray(degrees, np.int32))
    good &= jnp.all(jnp.sum(basis.in_span, axis=1, dtype=jnp.int32) >= supported)
    good &= jnp.all(_resolved(basis))
    finite = jnp.isfinite(jnp.sum(frame) + jnp.sum(shares))
    return FittedPolynomials(basis, gram, whitener, good, finite, values if short else None)


def _fitted_whole(basis: PolynomialBasis, values: Array, degrees: Sequence[int]) -> _Fitted:
    """Return the fit of short data, whose polynomials times the weights' roots are ``values``."""
    within = _within(degrees)
    functions = np.pad(within, ((0, 0), (1, 0)), constant_values=True).reshape(-1)
    same = same_variable([1 + basis.degree] * len(degrees))
    gram = inner_products(values.reshape(-1, values.shape[2]))
    gram = jnp.where(functions[:, None] & functions[None, :], gram, 0)
    used = functions & _independent(gram, same)
    gram = jnp.where(used[:, None] & used[None, :], gram, 0)
    whitener = whitening(gram, same)
    # On its diagonal is the inverse of what is left of each norm after projection.
    good = jnp.all(jnp.diagonal(whitener) < 1 / MIN_REMAINDER) & jnp.all(used == functions)
    in_span = used.reshape(len(degrees), -1)[:, 1:]
    return _only(basis, in_span), gram, whitener, good


def _independent(gram: Array, same: np.ndarray, most: float = 0.25) -> Array:
    """Return which functions ``(m,)`` are, with those before them of one variable, near orthogonal.

    Where rounding is all that a polynomial is made of, orthogonalising twice is not enough.  The
    squares of their products sum to less than ``most``; of functions of norm 1, as these are, the
    Gram matrix is positive definite below 1/2.  What is not finite is not near orthogonal.
    """
    overlap = jnp.sum(jnp.where(np.tril(same, -1), gram * gram, 0), axis=1)
    return jnp.sum(jnp.where(np.tril(same), overlap[None, :], 0), axis=1) < most


def _resolved(basis: PolynomialBasis) -> Array:
    """Return which directions ``(v, d)`` are dead, or clearly more than rounding.

    Just above the norm below which a direction is dead, rounding decides whether it is; and of rows
    in the sketch's units, what is left of a product below their rounding may be another's.
    """
    step, noise = basis.step, rounding_noise(basis.step.dtype)
    clear = (CLEAR_NORM * noise) ** 2 * (1 + _projected_out(basis) * step**2) < 1
    return clear & (noise * step < 1)


def _projected_out(basis: PolynomialBasis) -> Array:
    """Return the squared norm ``(v, d)`` of what is projected out of ``x p_j`` on earlier ones."""
    # Column j of the recurrence, but for the step, expands x p_j on p_0 .. p_j.
    others = np.arange(basis.recurrence.shape[1]) != 2
    return jnp.sum(jnp.where(others[None, :, None], basis.recurrence**2, 0), axis=1)


def _within(degrees: Sequence[int]) -> np.ndarray:
    """Return which directions ``(v, top)`` a variable's own degree has."""
    return np.arange(max(degrees))[None, :] < np.asarray(degrees)[:, None]


def _only(basis: PolynomialBasis, in_span: Array | np.ndarray) -> PolynomialBasis:
    """Return the basis with only some of its directions ``(v, top)`` kept."""
    steps = np.arange(basis.recurrence.shape[1]) == 2
    dead = steps[None, :, None] & ~in_span[:, None, :]
    return PolynomialBasis(basis.frame, jnp.where(dead, 0, basis.recurrence))


def same_variable(sizes: Sequence[int]) -> np.ndarray:
    """Return which two functions ``(m, m)`` are of one variable, of variables with so many each."""
    variable = np.repeat(np.arange(len(sizes)), sizes)
    return variable[:, None] == variable[None, :]


def whitening(gram: Array, same: np.ndarray) -> Array:
    """Return the ``W (m, m)`` that makes the functions of each variable orthonormal.

    A function that is 0 wherever it was measured is left alone: its row is that of the identity.

    Args:
      gram: their mean products ``(m, m)``.
      same: ``(m, m)`` which two functions are of the same variable.
    """
    zero = np.eye(len(same), dtype=bool) & (gram == 0)
    return inverse_cholesky(jnp.where(zero, 1, jnp.where(same, gram, 0)))


def _measured_and_repaired(
    sketched: PolynomialBasis,
    columns: Sequence[Array],
    degrees: Sequence[int],
    weights: Array | None,
    count: Array | None,
) -> _Fitted:
    """Return the fit of long data, from polynomials that are orthonormal on a sketch."""
    top = max(degrees)

    def measured(basis: PolynomialBasis, *, corrected: bool) -> Array:
        return mean_product(functools.partial(_rows, basis, corrected), columns, weights, count)

    def assessed(passes: Array, basis: PolynomialBasis, gram: Array) -> _State:
        return _State(passes, basis, gram, *_assess(basis, gram, degrees))

    def repair(state: _State) -> _State:
        repaired = _repaired(state.basis, state.gram, state.whitener, (state.passes + 1) // 2)
        new = assessed(state.passes + 1, repaired, measured(repaired, corrected=True))
        # In a batch those that are done wait for the others.
        waiting = jax.tree.map(lambda x, y: jnp.where(state.done, x, y), state, new)
        return waiting._replace(passes=new.passes)

    def unfinished(state: _State) -> Array:
        return (state.passes <= 2 * top) & any_in_batch(~state.done)

    first = measured(sketched, corrected=False)
    state = assessed(jnp.ones((), jnp.int32), sketched, first)
    # A loop of no iterations costs XLA's CPU backend far more than a branch not taken.
    state = lax.cond(
        any_in_batch(~state.done),
        lambda state: lax.while_loop(unfinished, repair, state),
        lambda state: state,
        state,
    )
    # What could not be repaired is left out.
    same = same_variable([top + 1] * len(degrees))
    failed = ~jnp.isfinite(jnp.sum(state.whitener) + jnp.sum(state.gram))
    unit = safe_rsqrt(jnp.diagonal(state.gram))
    independent = _independent(state.gram * unit[:, None] * unit[None, :], same, most=1e-4)
    alone = jnp.where(independent, unit, 0)
    alone = jnp.where(np.eye(len(same), dtype=bool), alone, 0)
    whitener = jnp.where(failed, alone, state.whitener)
    used = jnp.diagonal(whitener) != 0
    gram = jnp.where(used[:, None] & used[None, :], state.gram, 0)
    in_span = used.reshape(-1, top + 1)[:, 1:]
    return _only(state.basis, in_span), gram, whitener, state.done & ~failed


class _State(NamedTuple):
    """Bases of all variables after some passes over the data."""

    passes: Array
    basis: PolynomialBasis
    gram: Array
    whitener: Array
    done: Array


def gram_matrix(
    basis: PolynomialBasis,
    columns: Sequence[Array],
    weights: Array | None,
    count: Array | None = None,
) -> Array:
    """Return `FittedPolynomials.gram` of a basis, differentiable in data and weights."""
    return mean_product(functools.partial(_rows, basis, True), columns, weights, count)


def _rows(basis: PolynomialBasis, corrected: bool, inside: Array | None, *parts: Array) -> Array:
    """Return all polynomials at some rows of the columns, one variable after the other."""
    values = basis.polynomials(jnp.stack(parts), inside, corrected=corrected)
    return jnp.stack(values, axis=1).reshape(-1, parts[0].shape[0])


def _assess(basis: PolynomialBasis, gram: Array, degrees: Sequence[int]) -> tuple[Array, Array]:
    """Return what makes each variable's polynomials orthonormal, and whether all is well.

    A direction is dead, with a row of 0 in the whitener, when what is left of ``x p_j`` after
    projection on ``p_0 .. p_j`` is rounding noise, or when an earlier direction is.  A basis is
    well conditioned where more than `MIN_REMAINDER` of every polynomial's norm is orthogonal to
    those before it, and no norm is far from 1.
    """
    top, variables = basis.degree, len(degrees)
    square = jnp.diagonal(gram)
    residual = square.reshape(variables, top + 1)[:, 1:] / basis.step**2
    in_span = ~(residual <= rounding_noise(gram.dtype) ** 2 * (_projected_out(basis) + residual))
    in_span &= _within(degrees)
    kept = [np.ones(variables, bool)]
    for j in range(top):
        kept.append(kept[-1] & in_span[:, j])
    used = jnp.stack(kept, axis=1).reshape(-1)
    of_used = jnp.where(used[:, None] & used[None, :], gram, 0)
    whitener = jnp.where(
        used[:, None], whitening(of_used, same_variable([top + 1] * len(degrees))), 0
    )
    norm = jnp.sqrt(square)
    orthogonal = jnp.diagonal(whitener) * norm < 1 / MIN_REMAINDER
    good = orthogonal & (norm < MAX_NORM) & (norm > 1 / MAX_NORM) | ~used
    return whitener, jnp.all(good)


def _repaired(
    basis: PolynomialBasis, gram: Array, whitener: Array, target: Array
) -> PolynomialBasis:
    """Orthogonalise and normalise the polynomials of one degree, those below being orthonormal.

    Dead ones are left as they are: normalised rounding would grow from one degree to the next.
    From degree 1 upward, and twice each, this is Gram-Schmidt with reorthogonalisation.
    """
    size, variables = basis.degree, len(basis.frame)
    products = gram.reshape((variables, size + 1) * 2)
    column = lax.dynamic_index_in_dim(products, target, axis=3, keepdims=False)
    column = jnp.sum(column * np.eye(variables, dtype=gram.dtype)[:, None], axis=2)
    places = np.arange(size + 1, dtype=np.int32)
    # Those below are orthonormal, so their products with this one are what is to be projected out,
    # and by Pythagoras its square less theirs is what is left of it.
    projection = jnp.where(places[None, :] < target, column, 0)
    square = jnp.where(places[None, :] == target, column, -projection * projection)
    norm = jnp.sqrt(jnp.maximum(jnp.sum(square, axis=1, keepdims=True), 1e-6))
    alive = (jnp.diagonal(whitener) != 0).reshape(variables, size + 1)
    now = (places[None, 1:] == target) & alive[:, 1:]
    # The recurrence multiplies by the step after the correction.
    correction = projection[:, :-1, None] / basis.step[:, None, :]
    step = jnp.where(now, basis.step / norm, basis.step)
    correction = basis.correction + jnp.where(now[:, None, :], correction, 0)
    parts = basis.recurrence[:, :2], step[:, None, :], correction
    return PolynomialBasis(basis.frame, jnp.concatenate(parts, axis=1))


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
        basis, transform, in_span, well_conditioned = state
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
            in_span.at[j].set(lives),
            well_conditioned & (lives | (norm <= 2 * rounding_noise(v.dtype) * start)),
        )

    basis, transform = jnp.zeros((m, n), columns.dtype), jnp.zeros((m, m), columns.dtype)
    empty = (basis, transform, jnp.zeros(m, bool), jnp.array(True))
    _, transform, in_span, well_conditioned = lax.fori_loop(0, m, orthogonalise, empty)
    return FeatureBasis(
        mean=mean, transform=unit[:, None] * transform, in_span=in_span
    ), well_conditioned
