"""From two variables to their most correlated transformations, with exact derivatives.

The steps are: bases, the Gram matrix that whitens them and the small matrix between the two
variables (`whitened`), and its top pair (`solvers`).  Two rules of differentiation make this exact
and cheap:

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
from hgr_jax.core.kernels import Encoder, KernelLike, encode
from hgr_jax.core.numerics import equal_weights, normalised, without_dropped_rows
from hgr_jax.core.ridge import Ridge, ridged_pair
from hgr_jax.core.small_matrices import matmul
from hgr_jax.core.solvers import CanonicalPair, best_row_or_column, top_pair
from hgr_jax.core.whitened import mean_products, whitened

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
class FunctionsOf:
    """Functions of one variable: ``rows (r, 1 + m)`` on ``[1, basis]`` of its features.

    Attributes:
      features: what its kernel makes of the data, ``(n,)`` or ``(n, m)``.
    """

    encoder: Encoder
    basis: Basis
    rows: Array
    features: Array


@dataclasses.dataclass(frozen=True)
class Residuals:
    """What given variables left of the functions of two others, as `partial` found it.

    Coordinate i of what is left of a variable is row i of its ``sides`` less row i of its
    ``explained``, on ``[1, basis]`` of the given variables.

    Attributes:
      sides: of a and of b.
      explained: ``(m, 1 + r)`` of either.
      known: orthonormal functions of what is given, 1 among them.
      well_conditioned: whether the bases of all three are.
    """

    sides: tuple[FunctionsOf, FunctionsOf]
    explained: tuple[Array, Array]
    known: FunctionsOf
    well_conditioned: Array


@dataclasses.dataclass(frozen=True)
class PreparedPair:
    """Two variables, ready to be solved: see `prepare`.

    ``variables`` has them before their kernels, without what dropped rows held; ``residuals``
    says where ``a`` and ``b`` are what given variables leave, and is None elsewhere; so is
    ``ridge``, where transformations are to be regularised.
    """

    problem: CCAProblem
    encoders: tuple[Encoder, Encoder]
    a: Array
    b: Array
    weights: Array | None
    count: Array | None
    variables: tuple[Array, Array]
    residuals: Residuals | None = None
    ridge: Ridge | None = None


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
    encoders, variables = (encoder_a, encoder_b), (a, b)
    return PreparedPair(problem, encoders, features_a, features_b, weights, count, variables)


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

    ``sides`` are those of a and b, stacked where both are polynomials; ``values`` are those of
    `whitened.WhitenedPair`.
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
    ridge: Ridge | None = None,
) -> Solution:
    """Find the most correlated transformations of ``a`` and ``b``; differentiable.

    Args:
      problem: static.
      a, b: ``(n,)`` where the side is polynomial, features ``(n, m)`` elsewhere.
      weights: ``(n,)``, summing to 1, or None.
      start: values ``(n,)`` of a first guess of g at the rows of ``b``, or None.
      count: how many of the rows are data; None for all.
      ridge: None for the largest correlation; then no start, and no single kernel.
    """
    fitted = whitened(problem.degrees, a, b, weights, count)
    bases, whitener = fitted.bases, fitted.whitener
    m, finite = fitted.cross_moments()

    direction = jnp.zeros((), jnp.int32)
    if problem.method == SINGLE_KERNEL:
        pair, direction = best_row_or_column(m, *problem.linear)
    elif ridge is not None:
        loadings = [
            mean_products(fitted.basis(v, None), fitted.rows(v), x, weights, count, features).T
            for v, (x, features) in enumerate(zip((a, b), ridge.features, strict=True))
        ]
        pair, sound = ridged_pair(m, (loadings[0], loadings[1]), ridge.strength, problem.method)
        finite &= sound
    else:
        if start is not None:
            guess = fitted.basis(1, None), fitted.rows(1), b, weights, count, start
            start = mean_products(*lax.stop_gradient(guess))
        pair = top_pair(m, problem.method, start)
    value = jnp.where(finite & fitted.finite, jnp.minimum(pair.correlation, 1), jnp.nan)
    sides: Transformation | tuple[Transformation, Transformation]
    if isinstance(bases, PolynomialBasis):
        one = np.zeros(1, m.dtype)
        coefficients = jnp.concatenate([one, pair.u, one, pair.v])
        sides = Transformation(bases, matmul(coefficients, whitener).reshape(2, -1))
    else:
        f, g = (matmul(vector, fitted.rows(v)) for v, vector in enumerate((pair.u, pair.v)))
        sides = Transformation(bases[0], f), Transformation(bases[1], g)
    known, conditioned = fitted.finite, fitted.well_conditioned
    return Solution(
        value, sides, problem.degrees, pair, direction, known, conditioned, fitted.values
    )


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
    s, sides = solution.pair.correlation, (solution.f, solution.g)
    # One variable at a time, as what is done with its rows is one pass then, and none where there
    # is no tangent.
    known: list[Array | None] = [None, None]
    if solution.values is None or weights is not None:
        w = 1 / a.shape[0] if weights is None else weights
        f, g = (side(x) for side, x in zip(sides, (a, b), strict=True))
    else:
        # Functions at the rows are there, times the roots of the weights; then so are the slopes.
        w = 1.0
        here = [x[: len(side.coefficients)] for side, x in zip(sides, solution.values, strict=True)]
        f, g = (matmul(side.coefficients, x) for side, x in zip(sides, here, strict=True))
        known = [*here]
    a_dot, b_dot, w_dot = tangents[:3]
    total = jnp.zeros_like(s)
    if _perturbed(a_dot):
        total = total + jnp.sum(_pulled_back(sides[0], a, w * (g - s * f), known[0]) * a_dot)
    if _perturbed(b_dot):
        total = total + jnp.sum(_pulled_back(sides[1], b, w * (f - s * g), known[1]) * b_dot)
    if _perturbed(w_dot):
        total = total + jnp.sum((f * g - s * (f * f + g * g) / 2) * w_dot)
    return solution.correlation, total


def _perturbed(tangent: Any) -> bool:
    return tangent is not None and not isinstance(tangent, SymbolicZero)


def _pulled_back(side: Transformation, x: Array, pull: Array, values: Array | None) -> Array:
    """Return ``pull_i * d side(x_i) / d x_i``, of the shape of ``x``.

    Args:
      values: those of a polynomial basis at the rows, as in `PolynomialBasis.slope`, or None.
    """
    if isinstance(side.basis, FeatureBasis):
        return pull[:, None] * matmul(side.basis.transform, side.coefficients[1:])[None, :]
    if values is None:
        _, slope = jax.jvp(side, (x,), (jnp.ones_like(x),))
    else:
        slope = side.basis.slope(side.coefficients, x, values)
    return pull * slope
