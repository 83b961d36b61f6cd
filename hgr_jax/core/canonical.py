"""From two variables to their most correlated transformations, with exact derivatives.

The steps are: bases and the one Gram matrix that whitens them (`fitting`), and the top pair of a
small matrix (`solvers`).  Two rules of differentiation make this exact and cheap:

* Bases are coordinates, so they are constants; the Gram matrix in these coordinates is an
  ordinary function of the data.  All that depends on it (coefficients, transformations) has
  derivatives of every order.
* For the correlation itself the envelope theorem gives the first derivative from the fitted
  transformations alone: with f, g of zero mean and unit variance and correlation s,

      d s = mean( f'(a) (g(b) - s f(a)) da + g'(b) (f(a) - s g(b)) db )
            + sum( (f g - s (f^2 + g^2) / 2) dw ),

  an elementwise pass.  Differentiating this expression again, with the derivatives of f and g
  above, gives the exact higher derivatives.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_derivatives import SymbolicZero

from hgr_jax.core.basis import Basis, FeatureBasis, PolynomialBasis
from hgr_jax.core.fitting import (
    fit_features,
    fit_polynomials,
    gram_matrix,
    same_variable,
    whitening,
)
from hgr_jax.core.kernels import Encoder, KernelLike, encode
from hgr_jax.core.moments import mean_product, sum_over_rows
from hgr_jax.core.numerics import equal_weights, normalised, row_count, without_dropped_rows
from hgr_jax.core.sketch import WHOLE_SKETCH
from hgr_jax.core.small_matrices import half_lower, matmul
from hgr_jax.core.solvers import CanonicalPair, best_row_or_column, top_pair

SINGLE_KERNEL = "single_kernel"


@dataclasses.dataclass(frozen=True)
class CCAProblem:
    """The static part of a problem: the method, and degrees (None where features are given).

    ``linear`` counts the leading basis functions of each side that span its linear functions;
    only the single-kernel method reads it.
    """

    degrees: tuple[int | None, int | None]
    method: str
    linear: tuple[int, int] = (1, 1)


@dataclasses.dataclass(frozen=True)
class PreparedPair:
    """Two variables, ready to be solved: see `prepare`."""

    problem: CCAProblem
    encoders: tuple[Encoder, Encoder]
    a: Array
    b: Array
    weights: Array | None
    count: Array | None


def prepare(
    kernels: tuple[KernelLike, KernelLike],
    method: str,
    a: Array,
    b: Array,
    weights: Array | None,
    count: Array | None = None,
    *,
    names: tuple[str, str] = ("h", "k"),
) -> PreparedPair:
    """Normalise weights, put harmless values in dropped rows, and apply the kernels.

    Args:
      kernels: of a and of b, checked.
      method: a solver of `solvers.top_pair`, or `SINGLE_KERNEL`.
      a, b: ``(n,)`` or ``(n, p)``, of one floating dtype.
      weights: ``(n,)`` or None.
      count: how many of the rows are data; None for all.  Weights are 0 in the others.
      names: what the caller calls the kernels, for errors.
    """
    plain = not any(callable(kernel) for kernel in kernels) and a.ndim == b.ndim == 1
    if weights is not None:
        weights, count = normalised(weights), None
    elif count is not None and not plain:
        weights, count = equal_weights(count, a), None
    a, b = without_dropped_rows(a, weights), without_dropped_rows(b, weights)
    encoder_a, features_a = encode(kernels[0], a, weights, names[0])
    encoder_b, features_b = encode(kernels[1], b, weights, names[1])
    problem = CCAProblem(
        degrees=(_degree(encoder_a, features_a), _degree(encoder_b, features_b)),
        method=method,
        linear=(encoder_a.variables or 1, encoder_b.variables or 1),
    )
    return PreparedPair(problem, (encoder_a, encoder_b), features_a, features_b, weights, count)


def _degree(encoder: Encoder, features: Array) -> int | None:
    return None if callable(encoder.kernel) or features.ndim == 2 else encoder.kernel


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Transformation:
    """One variable's half of a solution: coefficients of 1 and of each function of a basis.

    Of two polynomials, both halves may be stacked.
    """

    basis: Basis
    coefficients: Array

    def __call__(self, x: Array) -> Array:
        """Return the transformation at data or features of the kind the basis was fitted to."""
        return self.basis.combine(self.coefficients, x)


@dataclasses.dataclass(frozen=True)
class Solution:
    """The optimal pair of transformations and how it was reached.

    ``sides`` are those of a and b, stacked where both are polynomials.  Of short data ``values``
    has the polynomials at all rows, as `fitting.FittedPolynomials` does.
    """

    correlation: Array
    sides: Transformation | tuple[Transformation, Transformation]
    degrees: tuple[int | None, int | None]
    pair: CanonicalPair
    direction: Array
    finite: Array
    conditioned: Array
    values: Array | None

    def with_fixed_sign(self) -> Solution:
        """Return the solution with the sign that makes the largest component of f positive.

        (On the orthonormal basis; of g, where f is zero.)  The correlation is positive with either.
        """
        # Of a u of unit length the largest component is above those of the smaller v.
        deciding = jnp.concatenate([self.pair.u, self.pair.v / (2 * self.pair.u.shape[0])])
        largest = deciding[jnp.argmax(jnp.abs(deciding))]
        sign = lax.stop_gradient(jnp.where(largest < 0, -1, 1).astype(largest.dtype))

        def signed(side: Transformation) -> Transformation:
            return Transformation(side.basis, sign * side.coefficients)

        sides = self.sides
        both = (
            signed(sides)
            if isinstance(sides, Transformation)
            else (signed(sides[0]), signed(sides[1]))
        )
        return dataclasses.replace(self, sides=both)

    @property
    def f(self) -> Transformation:
        """The transformation of a."""
        return self._side(0)

    @property
    def g(self) -> Transformation:
        """The transformation of b."""
        return self._side(1)

    def _side(self, v: int) -> Transformation:
        if isinstance(self.sides, tuple):
            return self.sides[v]
        basis, degree = self.sides.basis, self.degrees[v]
        assert isinstance(basis, PolynomialBasis)
        assert degree is not None
        return Transformation(basis.select(v, degree), self.sides.coefficients[v, : degree + 1])


def solve(
    problem: CCAProblem,
    a: Array,
    b: Array,
    weights: Array | None,
    start: Array | None,
    count: Array | None = None,
) -> Solution:
    """Find the most correlated transformations of ``a`` and ``b``; differentiable.

    Args:
      problem: static.
      a, b: ``(n,)`` where the side is polynomial, features ``(n, m)`` elsewhere.
      weights: ``(n,)``, summing to 1, or None.
      start: values ``(n,)`` of a first guess of g at the rows of ``b``, or None.
      count: how many of the rows are data; None for all.
    """
    whitened = _whitened(problem, a, b, weights, count)
    bases, moments, whitener, conditioned, known, values = whitened
    m = _part(moments, bases, 0, 1)[1:, 1:]
    finite = jnp.isfinite(jnp.sum(m))
    m = jnp.where(jnp.isfinite(m), m, 0)

    direction = jnp.zeros((), jnp.int32)
    if problem.method == SINGLE_KERNEL:
        pair, direction = best_row_or_column(m, *problem.linear)
    else:
        if start is not None:
            rows = _part(whitener, bases, 1, 1)[1:]
            start = _projected(_of_each(bases)[1], rows, b, weights, count, start)
        pair = top_pair(m, problem.method, start)
    value = jnp.where(finite & known, jnp.minimum(pair.correlation, 1), jnp.nan)
    sides: Transformation | tuple[Transformation, Transformation]
    if isinstance(bases, PolynomialBasis):
        one = np.zeros(1, m.dtype)
        coefficients = jnp.concatenate([one, pair.u, one, pair.v])
        sides = Transformation(bases, matmul(coefficients, whitener).reshape(2, -1))
    else:
        f, g = (
            matmul(vector, _part(whitener, bases, v, v)[1:])
            for v, vector in enumerate((pair.u, pair.v))
        )
        sides = Transformation(bases[0], f), Transformation(bases[1], g)
    return Solution(value, sides, problem.degrees, pair, direction, known, conditioned, values)


Bases = PolynomialBasis | tuple[Basis, Basis]
"""Of both variables: stacked where both are polynomial."""


def _part(matrix: Array, bases: Bases, i: int, j: int) -> Array:
    """Return the rows of variable i and columns of variable j of a matrix of ``[1, basis]``."""
    size = _sizes(bases)[0]
    rows, columns = (slice(size, None) if v else slice(size) for v in (i, j))
    return matrix[rows, columns]


def _of_each(bases: Bases) -> tuple[Basis, Basis]:
    if isinstance(bases, PolynomialBasis):
        return bases.select(0, None), bases.select(1, None)
    return bases


def _projected(
    basis: Basis,
    whitener: Array,
    b: Array,
    weights: Array | None,
    count: Array | None,
    start: Array,
) -> Array:
    """Return whitened coordinates of the values ``start`` on the basis of ``b``."""
    b, weights, start, whitener = lax.stop_gradient((b, weights, start, whitener))
    w = 1 / row_count(count, start) if weights is None else weights

    def block(inside: Array | None, b: Array, start: Array) -> Array:
        return matmul(basis.functions(b), start if inside is None else inside * start)

    sums = sum_over_rows(block, (b, w * start), count)
    return matmul(whitener, jnp.where(jnp.isfinite(sums), sums, 0))


_WhitenedMoments = tuple[Bases, Array, Array, Array, Array, Array | None]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _whitened(
    problem: CCAProblem, a: Array, b: Array, weights: Array | None, count: Array | None
) -> _WhitenedMoments:
    """Return the bases, and of ``[1, basis]`` of both the whitened Gram matrix and its whitener.

    Then whether the bases are well conditioned, whether the data are finite (a factorisation that
    fails is no fault of theirs), and the values of `Solution`.
    """
    degree_a, degree_b = problem.degrees
    bases: Bases
    if degree_a is not None and degree_b is not None:
        fitted = fit_polynomials((a, b), (degree_a, degree_b), weights, count)
        bases, gram, whitener, conditioned, known, values = fitted
    else:
        basis_a, conditioned_a = _one_basis(degree_a, a, weights)
        basis_b, conditioned_b = _one_basis(degree_b, b, weights)
        bases, conditioned = (basis_a, basis_b), conditioned_a & conditioned_b
        gram = _moments(bases, a, b, weights)
        whitener = whitening(gram, same_variable(_sizes(bases)))
        known, values = jnp.isfinite(gram).all(), None
    moments = matmul(matmul(whitener, gram), whitener.T)
    return bases, moments, whitener, conditioned, known, values


def _one_basis(degree: int | None, x: Array, weights: Array | None) -> tuple[Basis, Array]:
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


@_whitened.defjvp
def _whitened_jvp(
    problem: CCAProblem, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[_WhitenedMoments, Any]:
    whitened = _whitened(problem, *primals)
    bases, moments, whitener, *known = whitened
    _, gram_dot = jax.jvp(functools.partial(_moments, bases), primals[:3], tangents[:3])
    moved = matmul(matmul(whitener, gram_dot), whitener.T)
    # What whitens a variable changes so that its own part stays the identity.
    inward = half_lower(jnp.where(same_variable(_sizes(bases)), moved, 0))
    turned = matmul(inward, moments)
    moments_dot = moved - turned - turned.T
    whitener_dot = -matmul(inward, whitener)
    bases_dot, known_dot = jax.tree.map(_no_tangent, (bases, known))
    return whitened, (bases_dot, moments_dot, whitener_dot, *known_dot)


def _no_tangent(x: Array) -> Any:
    inexact = jnp.issubdtype(x.dtype, jnp.inexact)
    return jnp.zeros_like(x) if inexact else np.zeros(x.shape, jax.dtypes.float0)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def correlation(
    problem: CCAProblem,
    a: Array,
    b: Array,
    weights: Array | None,
    start: Array | None,
    count: Array | None = None,
) -> Array:
    """Return the correlation of `solve`, with the derivative of the envelope theorem."""
    return solve(problem, a, b, weights, start, count).correlation


@functools.partial(correlation.defjvp, symbolic_zeros=True)
def _correlation_jvp(
    problem: CCAProblem, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Array, Array]:
    a, b, weights, *_ = primals
    solution = solve(problem, *primals)
    s = solution.pair.correlation
    w = 1 / a.shape[0] if weights is None else weights
    w_dot = tangents[2]
    total = jnp.zeros_like(s)
    if isinstance(solution.sides, Transformation) and a.shape[0] <= WHOLE_SKETCH:
        both = jnp.stack([a, b])
        (f, g), slopes = jax.jvp(solution.sides, (both,), (jnp.ones_like(both),))
        pulled = [w * (g - s * f) * slopes[0], w * (f - s * g) * slopes[1]]
    else:
        # One variable at a time: all that is done with its rows is one pass then.
        sides = solution.f, solution.g
        f, g = (side(x) for side, x in zip(sides, (a, b), strict=True))
        pulls = w * (g - s * f), w * (f - s * g)
        pulled = [_pulled_back(*each) for each in zip(sides, (a, b), pulls, strict=True)]
    for gradient, x_dot in zip(pulled, tangents[:2], strict=True):
        if _perturbed(x_dot):
            total = total + jnp.sum(gradient * x_dot)
    if _perturbed(w_dot):
        total = total + jnp.sum((f * g - s * (f * f + g * g) / 2) * w_dot)
    return solution.correlation, total


def _perturbed(tangent: Any) -> bool:
    return tangent is not None and not isinstance(tangent, SymbolicZero)


def _pulled_back(side: Transformation, x: Array, pull: Array) -> Array:
    """Return ``pull_i * d side(x_i) / d x_i``, of the shape of ``x``."""
    if isinstance(side.basis, FeatureBasis):
        return pull[:, None] * matmul(side.basis.transform, side.coefficients[1:])[None, :]
    _, slope = jax.jvp(side, (x,), (jnp.ones_like(x),))
    return pull * slope
