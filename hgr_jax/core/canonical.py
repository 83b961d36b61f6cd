"""From two variables to their most correlated transformations.

1. `prepare` applies the kernels: ``a`` and ``b`` become variables of a degree, or features.
2. `whiten` fits orthonormal bases to both (`orthonormal`) and returns the small matrix M of cross
   moments between them; HGR-KB is its largest singular value.
3. `solve` finds the top pair of M: by `paper.double_kernel`, the constrained problem of HGR-KB, by
   `paper.single_kernel`, the least squares of HGR-SK, or in closed form by `solvers.top_pair`.
4. `correlation` is the value of `solve` with the derivative of the envelope theorem.

Two rules of differentiation make this exact and cheap:

* Bases are coordinates, so they are constants; the Gram matrix in these coordinates is an ordinary
  function of the data.  Coefficients and transformations depend on the data through it, and have
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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_derivatives import SymbolicZero

from hgr_jax.core.kernels import Encoder, KernelLike, encode
from hgr_jax.core.linalg import half_lower, matmul
from hgr_jax.core.numerics import (
    equal_weights,
    normalise_weights,
    row_count,
    safe_sqrt,
    without_dropped_rows,
)
from hgr_jax.core.orthonormal import (
    Basis,
    FeatureBasis,
    PolynomialBasis,
    fit_features,
    fit_polynomials,
    gram_matrix,
    same_variable,
    whitening,
)
from hgr_jax.core.paper import double_kernel, single_kernel
from hgr_jax.core.rows import mean_product, sum_over_rows
from hgr_jax.core.solvers import CanonicalPair, deciding_sign, top_pair

SOLVERS = ("projected_gradient", "svd")
"""Methods of HGR-KB: of the paper, and in closed form."""

SINGLE_KERNEL = "single_kernel"
"""Method of HGR-SK."""

Degrees = tuple[int | None, int | None]
"""Degrees of both variables; None where features are given."""


@dataclasses.dataclass(frozen=True)
class CCAProblem:
    """Degrees, solver (or `SINGLE_KERNEL`), and numbers of basis functions of linear kernels."""

    degrees: Degrees
    method: str
    linear: tuple[int, int] = (1, 1)


@dataclasses.dataclass(frozen=True)
class OrthonormalFunctions:
    """Functions of one variable: ``rows (r, 1 + m)`` are their coefficients on ``[1, basis]``."""

    encoder: Encoder
    basis: Basis
    rows: Array


@dataclasses.dataclass(frozen=True)
class Residuals:
    """Residuals of functions of two variables given conditioning variables, made by `partial`.

    Residual i of a variable is function i of its ``sides`` less its regression, row i of its
    ``explained (m, 1 + r)``: coefficients on ``[1, basis]`` of the ``conditioning`` variables.
    """

    sides: tuple[OrthonormalFunctions, OrthonormalFunctions]
    explained: tuple[Array, Array]
    conditioning: OrthonormalFunctions
    well_conditioned: Array


@dataclasses.dataclass(frozen=True)
class PreparedPair:
    """Two variables with their kernels applied: the arguments of `solve`.

    ``a`` and ``b`` are ``(n,)`` for a degree and features ``(n, m)`` for other kernels.
    """

    problem: CCAProblem
    encoders: tuple[Encoder, Encoder]
    a: Array
    b: Array
    weights: Array | None
    count: Array | None
    residuals: Residuals | None = None


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
    """Normalise weights, make dropped rows harmless, and apply the kernels."""
    plain = not any(callable(kernel) for kernel in kernels) and a.ndim == b.ndim == 1
    if weights is not None:
        weights, count = normalise_weights(weights), None
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
    encoders = encoder_a, encoder_b
    return PreparedPair(problem, encoders, features_a, features_b, weights, count)


def _degree(encoder: Encoder, features: Array) -> int | None:
    return None if callable(encoder.kernel) or features.ndim == 2 else encoder.kernel


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Transformation:
    """One variable's half of a solution, ``coefficients`` on ``[1, basis]``."""

    basis: Basis
    coefficients: Array

    def __call__(self, x: Array) -> Array:
        """Return the transformation at data or features of the kind the basis was fitted to."""
        return self.basis.combine(self.coefficients, x)


@dataclasses.dataclass(frozen=True)
class Solution:
    """The optimal transformations f of a and g of b, and the ``pair`` of M that they come from.

    ``correlation`` is NaN where the data are not finite; ``direction`` says which least-squares
    problem of HGR-SK won (0 for HGR-KB); the last three fields are those of `WhitenedPair`.
    """

    correlation: Array
    f: Transformation
    g: Transformation
    pair: CanonicalPair
    direction: Array
    finite: Array
    well_conditioned: Array
    values: Array | None

    def with_fixed_sign(self) -> Solution:
        """Return the solution with the largest component of f (of g, where f is 0) positive."""
        sign = deciding_sign(self.pair.u, self.pair.v)
        f, g = (Transformation(x.basis, sign * x.coefficients) for x in (self.f, self.g))
        return dataclasses.replace(self, f=f, g=g)


def solve(
    problem: CCAProblem,
    a: Array,
    b: Array,
    weights: Array | None,
    start: Array | None,
    count: Array | None = None,
) -> Solution:
    """Find the most correlated transformations; ``start (n,)`` holds values of a first g(b)."""
    fitted = whiten(problem.degrees, a, b, weights, count)
    m, finite = fitted.cross_moments()

    direction = jnp.zeros((), jnp.int32)
    if problem.method == SINGLE_KERNEL:
        pair, direction = single_kernel(m, *problem.linear)
    elif problem.method == "svd":
        pair = top_pair(m)
    else:
        if start is not None:
            guess = fitted.basis(1, None), fitted.rows(1), b, weights, count, start
            start = mean_products(*lax.stop_gradient(guess))
        pair = double_kernel(m, start)
    value = jnp.where(finite & fitted.finite, jnp.minimum(pair.correlation, 1), jnp.nan)
    sizes = [None if degree is None else 1 + degree for degree in problem.degrees]
    if isinstance(fitted.bases, PolynomialBasis):  # both at once, which compiles faster
        one = np.zeros(1, m.dtype)
        both = matmul(jnp.concatenate([one, pair.u, one, pair.v]), fitted.whitener).reshape(2, -1)
        coefficients = [both[v, :size] for v, size in enumerate(sizes)]
    else:
        coefficients = [matmul(x, fitted.rows(v)) for v, x in enumerate((pair.u, pair.v))]
    f, g = (
        Transformation(fitted.basis(v, degree), coefficients[v])
        for v, degree in enumerate(problem.degrees)
    )
    return Solution(
        value, f, g, pair, direction, fitted.finite, fitted.well_conditioned, fitted.values
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
    # One variable at a time: its rows take one pass then, and none without a tangent.
    values: list[Array | None] = [None, None]
    if solution.values is None or weights is not None:
        w = 1 / a.shape[0] if weights is None else weights
        f, g = (side(x) for side, x in zip(sides, (a, b), strict=True))
    else:
        # `values` hold the functions at the rows, times the roots of the weights.
        w = 1.0
        here = [x[: len(side.coefficients)] for side, x in zip(sides, solution.values, strict=True)]
        f, g = (matmul(side.coefficients, x) for side, x in zip(sides, here, strict=True))
        values = [*here]
    a_dot, b_dot, w_dot = tangents[:3]
    total = jnp.zeros_like(s)
    if _has_tangent(a_dot):
        total = total + jnp.sum(_times_derivative(sides[0], a, w * (g - s * f), values[0]) * a_dot)
    if _has_tangent(b_dot):
        total = total + jnp.sum(_times_derivative(sides[1], b, w * (f - s * g), values[1]) * b_dot)
    if _has_tangent(w_dot):
        total = total + jnp.sum((f * g - s * (f * f + g * g) / 2) * w_dot)
    return solution.correlation, total


def _has_tangent(tangent: Any) -> bool:
    return tangent is not None and not isinstance(tangent, SymbolicZero)


def _times_derivative(side: Transformation, x: Array, factor: Array, values: Any) -> Array:
    """Return ``factor_i * d side(x_i) / d x_i``; ``values`` as in `PolynomialBasis.slope`."""
    if isinstance(side.basis, FeatureBasis):
        return factor[:, None] * matmul(side.basis.transform, side.coefficients[1:])[None, :]
    if values is None:
        _, slope = jax.jvp(side, (x,), (jnp.ones_like(x),))
    else:
        slope = side.basis.slope(side.coefficients, x, values)
    return factor * slope


Bases = PolynomialBasis | tuple[Basis, Basis]
"""Bases of both variables, stacked where both are polynomial."""


class WhitenedPair(NamedTuple):
    """Bases of both variables (constants to derivatives), and their whitened Gram matrix.

    Attributes:
      moments: Gram matrix of the orthonormal functions of a, then of b.
      whitener: block diagonal, makes ``[1, basis]`` of each variable orthonormal.
      finite: whether the data are finite; a factorisation may fail all the same.
      values: those of `FittedPolynomials`.
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
        return _block(self.whitener, self.bases, v, v)[1:size, :size]

    def cross_moments(self) -> tuple[Array, Array]:
        """Return M with 0 for entries that are not finite, and whether all are finite."""
        m = _block(self.moments, self.bases, 0, 1)[1:, 1:]
        return jnp.where(jnp.isfinite(m), m, 0), jnp.isfinite(jnp.sum(m))


def _block(matrix: Array, bases: Bases, i: int, j: int) -> Array:
    """Return the rows of variable i and columns of variable j of a matrix of ``[1, basis]``."""
    size = _sizes(bases)[0]
    rows, columns = (slice(size, None) if v else slice(size) for v in (i, j))
    return matrix[rows, columns]


def mean_products(
    basis: Basis, rows: Array, x: Array, weights: Array | None, count: Array | None, values: Array
) -> Array:
    """Return mean products ``(r, ...)`` of functions ``rows (r, 1 + m)`` of x and ``values``."""
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
def whiten(
    degrees: Degrees, a: Array, b: Array, weights: Array | None, count: Array | None
) -> WhitenedPair:
    """Fit bases to both variables, and whiten their moments; arguments as those of `solve`."""
    degree_a, degree_b = degrees
    bases: Bases
    if degree_a is not None and degree_b is not None:
        fitted = fit_polynomials((a, b), (degree_a, degree_b), weights, count)
        bases, gram, whitener, conditioned, finite, values = fitted
    else:
        basis_a, conditioned_a = fit_basis(degree_a, a, weights)
        basis_b, conditioned_b = fit_basis(degree_b, b, weights)
        bases, conditioned = (basis_a, basis_b), conditioned_a & conditioned_b
        gram = _moments(bases, a, b, weights)
        whitener = whitening(gram, same_variable(_sizes(bases)))
        finite, values = jnp.isfinite(gram).all(), None
    moments = matmul(matmul(whitener, gram), whitener.T)
    return WhitenedPair(bases, moments, whitener, conditioned, finite, values)


def fit_basis(degree: int | None, x: Array, weights: Array | None) -> tuple[Basis, Array]:
    """Fit a basis to a variable, or to features (degree None); say if it is well conditioned."""
    if degree is None:
        return fit_features(x, weights)
    fitted = fit_polynomials((x,), (degree,), weights)
    return fitted.basis.select(0, degree), fitted.well_conditioned


def _sizes(bases: Bases) -> tuple[int, int]:
    """Return the number of functions ``[1, basis]`` of each variable."""
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


def _weighted_values(
    bases: PolynomialBasis, a: Array, b: Array, weights: Array | None, count: Array | None
) -> Array:
    """Return `WhitenedPair.values` of these bases."""
    w = equal_weights(count, a) if weights is None else weights
    return jnp.stack(bases.polynomials(jnp.stack([a, b])), axis=1) * safe_sqrt(w)[None, None, :]


@whiten.defjvp
def _whiten_jvp(
    degrees: Degrees, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[WhitenedPair, WhitenedPair]:
    primal = whiten(degrees, *primals)
    bases, moments, whitener, well_conditioned, finite, values = primal
    _, gram_dot = jax.jvp(functools.partial(_moments, bases), primals[:3], tangents[:3])
    moved = matmul(matmul(whitener, gram_dot), whitener.T)
    # The whitener of a variable moves so that the variable's own moments stay the identity.
    inward = half_lower(jnp.where(same_variable(_sizes(bases)), moved, 0))
    turned = matmul(inward, moments)
    moments_dot = moved - turned - turned.T
    whitener_dot = -matmul(inward, whitener)
    constants = bases, well_conditioned, finite
    bases_dot, good_dot, finite_dot = jax.tree.map(_zero_tangent, constants)
    values_dot = None
    if values is not None and isinstance(bases, PolynomialBasis):
        rows = functools.partial(_weighted_values, bases, count=primals[3])
        _, values_dot = jax.jvp(rows, primals[:3], tangents[:3])
    return primal, WhitenedPair(
        bases_dot, moments_dot, whitener_dot, good_dot, finite_dot, values_dot
    )


def _zero_tangent(x: Array) -> Any:
    return jax.custom_derivatives.zero_from_primal(x)
