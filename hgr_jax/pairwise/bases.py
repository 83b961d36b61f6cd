"""Near-orthonormal polynomials of many columns, each on the rows where it is present."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from hgr_jax.canonical import normalised, without_dropped_rows
from hgr_jax.kernels import PolynomialBasis
from hgr_jax.orthogonal import assess, distinct_values, fit_polynomials, sketched_polynomials
from hgr_jax.pairwise.blocks import polynomials

Integers = NDArray[np.intp]


@functools.partial(jax.jit, static_argnames=("degree", "complete"))
def sketched(x: Array, weights: Array | None, *, degree: int, complete: bool) -> PolynomialBasis:
    """Polynomials of every column of ``x (n, c)``, orthonormal on a few hundred of its rows."""

    def one(column: Array) -> PolynomialBasis:
        return sketched_polynomials(*_on_its_rows(column, weights, complete), degree)

    return jax.vmap(one, in_axes=1)(x)


@functools.partial(jax.jit, static_argnames=("complete",))
def assessed(
    basis: PolynomialBasis, moments: Array, x: Array, weights: Array | None, *, complete: bool
) -> tuple[PolynomialBasis, Array]:
    """The bases with their dead directions, and which of them will not do ``(c,)``.

    Those are the ones that are ill conditioned on all the rows, whose moments are ``(c, d + 1,
    d + 1)``, and those with fewer directions than the column has values for.
    """
    total = moments[:, :1, :1]
    gram = moments / jnp.where(total > 0, total, 1)
    alive, bad = jax.vmap(assess)(basis, gram)

    def supported(column: Array) -> Array:
        return distinct_values(*_on_its_rows(column, weights, complete)) - 1

    degree = basis.step.shape[1]
    directions = jnp.sum(alive, axis=1)
    expected = lax.cond(
        jnp.all(directions == degree),
        lambda: directions,
        lambda: jnp.minimum(jax.vmap(supported, in_axes=1)(x), degree),
    )
    wrong = jnp.any(bad, axis=1) | (directions < expected)
    return dataclasses.replace(basis, alive=alive), wrong & jnp.isfinite(gram).all(axis=(1, 2))


@functools.partial(jax.jit, static_argnames=("degree", "complete"))
def repaired(
    x: Array, weights: Array | None, *, degree: int, complete: bool
) -> tuple[PolynomialBasis, Array, Array]:
    """Bases of every column made with care, their moments, and whether that succeeded ``(c,)``."""

    def one(column: Array) -> tuple[PolynomialBasis, Array, Array]:
        column, w = _on_its_rows(column, weights, complete)
        (basis,), gram, clear = fit_polynomials((column,), (degree,), w)
        return basis, gram, clear

    return jax.vmap(one, in_axes=1)(x)


def _on_its_rows(
    column: Array, weights: Array | None, complete: bool
) -> tuple[Array, Array | None]:
    """A column with harmless values where it is missing, and weights that sum to 1 elsewhere."""
    if not complete:
        present = ~jnp.isnan(column)
        weights = jnp.where(present, jnp.ones_like(column) if weights is None else weights, 0)
    if weights is None:
        return column, None
    weights = normalised(weights)
    return without_dropped_rows(column, weights), weights


@functools.partial(jax.jit, static_argnames=("corrected",))
def evaluated(basis: PolynomialBasis, x: Array, *, corrected: bool) -> Array:
    """Polynomials of every column of ``x (n, c)``, ``(n, c, d)``; 0 for NaN."""
    return jnp.stack(polynomials(basis, x, corrected=corrected), axis=2)


def take(basis: PolynomialBasis, columns: Integers) -> PolynomialBasis:
    """The bases of some columns."""
    if len(columns) == len(basis.step):
        return basis
    return jax.tree.map(lambda leaf: leaf[columns], basis)


def replace(basis: PolynomialBasis, columns: Integers, better: PolynomialBasis) -> PolynomialBasis:
    """``basis`` with the bases of some columns replaced."""
    return jax.tree.map(lambda leaf, new: leaf.at[columns].set(new), basis, better)
