"""From two variables to the small matrix of their whitened moments, differentiable to any order.

Bases are coordinates, so they are constants; the Gram matrix in these coordinates is an ordinary
function of the data, and so is what whitens it.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hgr_jax.core.basis import Basis, PolynomialBasis
from hgr_jax.core.fitting import (
    fit_features,
    fit_polynomials,
    gram_matrix,
    same_variable,
    whitening,
)
from hgr_jax.core.moments import mean_product, sum_over_rows
from hgr_jax.core.numerics import equal_weights, row_count, safe_sqrt
from hgr_jax.core.small_matrices import half_lower, matmul

Bases = PolynomialBasis | tuple[Basis, Basis]
"""Of both variables: stacked where both are polynomial."""

Degrees = tuple[int | None, int | None]
"""Of both variables; None where features are given."""


class WhitenedPair(NamedTuple):
    """Bases of both variables, and the moments of ``[1, basis]`` of one after the other.

    Attributes:
      bases: constant under differentiation.
      moments: the whitened Gram matrix.
      whitener: what whitens, block diagonal.
      well_conditioned: whether the bases are.
      finite: whether the data are (a factorisation that fails is no fault of theirs).
      values: of short data, ``[1, basis]`` at the rows times the roots of their weights, as of
        `fitting.FittedPolynomials`; else None.
    """

    bases: Bases
    moments: Array
    whitener: Array
    well_conditioned: Array
    finite: Array
    values: Array | None

    def basis(self, v: int, degree: int | None) -> Basis:
        """Return the basis of variable v, of polynomials up to a degree (None: all)."""
        if isinstance(self.bases, PolynomialBasis):
            return self.bases.select(v, degree)
        return self.bases[v]

    def rows(self, v: int, degree: int | None = None) -> Array:
        """Return the orthonormal functions ``(m, 1 + m)`` of variable v on its ``[1, basis]``."""
        size = None if degree is None else 1 + degree
        return part(self.whitener, self.bases, v, v)[1:size, :size]

    def cross_moments(self) -> tuple[Array, Array]:
        """Return M, 0 where it is not finite, and whether all of it is."""
        m = part(self.moments, self.bases, 0, 1)[1:, 1:]
        return jnp.where(jnp.isfinite(m), m, 0), jnp.isfinite(jnp.sum(m))


def part(matrix: Array, bases: Bases, i: int, j: int) -> Array:
    """Return the rows of variable i and columns of variable j of a matrix of ``[1, basis]``."""
    size = _sizes(bases)[0]
    rows, columns = (slice(size, None) if v else slice(size) for v in (i, j))
    return matrix[rows, columns]


def mean_products(
    basis: Basis, rows: Array, x: Array, weights: Array | None, count: Array | None, values: Array
) -> Array:
    """Return the means of ``values (n,)`` or ``(n, p)`` times functions ``rows (r, 1 + m)`` of x.

    What is not finite counts as 0.
    """
    if weights is None:
        weighted = values / row_count(count, values)
    else:
        weighted = weights.reshape(-1, *[1] * (values.ndim - 1)) * values

    def block(inside: Array | None, x: Array, values: Array) -> Array:
        functions = basis.functions(x)
        return matmul(functions if inside is None else functions * inside[None, :], values)

    sums = sum_over_rows(block, (x, weighted), count)
    return matmul(rows, jnp.where(jnp.isfinite(sums), sums, 0))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def whitened(
    degrees: Degrees, a: Array, b: Array, weights: Array | None, count: Array | None
) -> WhitenedPair:
    """Fit bases to both variables, and return their whitened moments.

    Args:
      degrees: static.
      a, b: ``(n,)`` where the variable has a degree, features ``(n, m)`` elsewhere.
      weights: ``(n,)``, summing to 1, or None.
      count: how many of the rows are data; None for all.
    """
    degree_a, degree_b = degrees
    bases: Bases
    if degree_a is not None and degree_b is not None:
        fitted = fit_polynomials((a, b), (degree_a, degree_b), weights, count)
        bases, gram, whitener, conditioned, known, values = fitted
    else:
        basis_a, conditioned_a = fit_basis(degree_a, a, weights)
        basis_b, conditioned_b = fit_basis(degree_b, b, weights)
        bases, conditioned = (basis_a, basis_b), conditioned_a & conditioned_b
        gram = _moments(bases, a, b, weights)
        whitener = whitening(gram, same_variable(_sizes(bases)))
        known, values = jnp.isfinite(gram).all(), None
    moments = matmul(matmul(whitener, gram), whitener.T)
    return WhitenedPair(bases, moments, whitener, conditioned, known, values)


def fit_basis(degree: int | None, x: Array, weights: Array | None) -> tuple[Basis, Array]:
    """Return a basis of a variable (features without a degree); is it well conditioned?"""
    if degree is None:
        return fit_features(x, weights)
    fitted = fit_polynomials((x,), (degree,), weights)
    return fitted.basis.select(0, degree), fitted.well_conditioned


def _sizes(bases: Bases) -> tuple[int, int]:
    """Return the number of functions ``[1, basis]`` of each."""
    if isinstance(bases, PolynomialBasis):
        return (1 + bases.degree,) * 2
    return 1 + len(bases[0].in_span), 1 + len(bases[1].in_span)


def _moments(bases: Bases, a: Array, b: Array, weights: Array | None) -> Array:
    """Return the Gram matrix of ``[1, basis]`` of both variables, differentiable in the data."""
    if isinstance(bases, PolynomialBasis):
        return gram_matrix(bases, (a, b), weights)

    def rows(inside: Array | None, a: Array, b: Array) -> Array:
        both = jnp.concatenate([bases[0].functions(a), bases[1].functions(b)])
        return both if inside is None else both * inside[None, :]

    return mean_product(rows, (a, b), weights)


def _values_at_the_rows(
    bases: PolynomialBasis, a: Array, b: Array, weights: Array | None, count: Array | None
) -> Array:
    """Return `WhitenedPair.values` of these bases."""
    w = equal_weights(count, a) if weights is None else weights
    return jnp.stack(bases.polynomials(jnp.stack([a, b])), axis=1) * safe_sqrt(w)[None, None, :]


@whitened.defjvp
def _whitened_jvp(
    degrees: Degrees, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[WhitenedPair, WhitenedPair]:
    primal = whitened(degrees, *primals)
    bases, moments, whitener, well_conditioned, finite, values = primal
    _, gram_dot = jax.jvp(functools.partial(_moments, bases), primals[:3], tangents[:3])
    moved = matmul(matmul(whitener, gram_dot), whitener.T)
    # What whitens a variable changes so that its own part stays the identity.
    inward = half_lower(jnp.where(same_variable(_sizes(bases)), moved, 0))
    turned = matmul(inward, moments)
    moments_dot = moved - turned - turned.T
    whitener_dot = -matmul(inward, whitener)
    constants = bases, well_conditioned, finite
    bases_dot, good_dot, finite_dot = jax.tree.map(_no_tangent, constants)
    values_dot = None
    if values is not None and isinstance(bases, PolynomialBasis):
        rows = functools.partial(_values_at_the_rows, bases, count=primals[3])
        _, values_dot = jax.jvp(rows, primals[:3], tangents[:3])
    return primal, WhitenedPair(
        bases_dot, moments_dot, whitener_dot, good_dot, finite_dot, values_dot
    )


def _no_tangent(x: Array) -> Any:
    inexact = jnp.issubdtype(x.dtype, jnp.inexact)
    return jnp.zeros_like(x) if inexact else np.zeros(x.shape, jax.dtypes.float0)
