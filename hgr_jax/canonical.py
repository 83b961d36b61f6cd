"""From two variables to their most correlated transformations, with exact derivatives.

The steps are: bases (`orthogonal`), one Gram matrix (`moments`), whitening, and the top pair of
a small matrix (`solvers`).  Two rules of differentiation make this exact and cheap:

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
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_derivatives import SymbolicZero
from jax.scipy.linalg import solve_triangular

from hgr_jax.kernels import Basis, Encoder, KernelLike, PolynomialBasis
from hgr_jax.moments import pair_gram, sum_over_rows, whitening
from hgr_jax.orthogonal import fit_features, fit_polynomials
from hgr_jax.solvers import CanonicalPair, best_row_or_column, top_pair

SINGLE_KERNEL = "single_kernel"

MAX_MONOMIALS = 1000


@dataclasses.dataclass(frozen=True)
class Problem:
    """What is static: the degree of each side (None for given features) and the method.

    ``linear`` counts the leading basis functions of each side that span its linear functions;
    only the single-kernel method reads it.
    """

    degrees: tuple[int | None, int | None]
    method: str
    linear: tuple[int, int] = (1, 1)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Side:
    """One variable's half of a solution: ``x -> basis.combine(coefficients, x) + offset``."""

    basis: Basis
    coefficients: Array
    offset: Array

    def __call__(self, x: Array) -> Array:
        """The transformation at data or features of the kind the basis was fitted to."""
        return self.basis.combine(self.coefficients, x) + self.offset


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Solution:
    """The optimal pair of transformations and how it was reached."""

    correlation: Array
    f: Side
    g: Side
    pair: CanonicalPair
    singular_values: Array
    direction: Array
    finite: Array
    conditioned: Array


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two variables, ready to be solved: see `prepare`."""

    problem: Problem
    encoders: tuple[Encoder, Encoder]
    a: Array
    b: Array
    weights: Array | None


def prepare(
    kernels: tuple[KernelLike, KernelLike],
    method: str,
    a: Array,
    b: Array,
    weights: Array | None,
    *,
    names: tuple[str, str] = ("h", "k"),
) -> Pair:
    """Weights that sum to 1, harmless values in dropped rows, and what the kernels make of them.

    Args:
      kernels: of a and of b, checked.
      method: a solver of `solvers.top_pair`, or `SINGLE_KERNEL`.
      a, b: ``(n,)`` or ``(n, p)``, of one floating dtype.
      weights: ``(n,)`` or None.
      names: what the caller calls the kernels, for errors.
    """
    weights = None if weights is None else normalised(weights)
    a, b = without_dropped_rows(a, weights), without_dropped_rows(b, weights)
    encoder_a, features_a = _encode(kernels[0], a, weights, names[0])
    encoder_b, features_b = _encode(kernels[1], b, weights, names[1])
    problem = Problem(
        degrees=(_degree(encoder_a, features_a), _degree(encoder_b, features_b)),
        method=method,
        linear=(encoder_a.variables or 1, encoder_b.variables or 1),
    )
    return Pair(problem, (encoder_a, encoder_b), features_a, features_b, weights)


def _degree(encoder: Encoder, features: Array) -> int | None:
    return None if callable(encoder.kernel) or features.ndim == 2 else encoder.kernel


def normalised(weights: Array) -> Array:
    """Weights that sum to 1; a negative one makes all of them NaN."""
    weights = jnp.where(jnp.min(weights) >= 0, weights, jnp.nan)
    largest = lax.stop_gradient(jnp.max(weights))
    # Powers of two, so that neither the sum nor its reciprocal leaves the range of float32.
    unit = jnp.where(largest > 2.0**64, 2.0**-64, jnp.where(largest < 2.0**-64, 2.0**64, 1.0))
    weights = weights * unit.astype(weights.dtype)
    return weights / jnp.sum(weights)


def without_dropped_rows(x: Array, weights: Array | None) -> Array:
    """Rows of zero weight moved into the range of the others, where their value is harmless."""
    if weights is None:
        return x
    counts = (weights > 0)[:, None] if x.ndim == 2 else weights > 0
    low = jnp.min(jnp.where(counts, x, jnp.inf), axis=0, keepdims=True)
    high = jnp.max(jnp.where(counts, x, -jnp.inf), axis=0, keepdims=True)
    inside = jnp.clip(jnp.where(jnp.isnan(x), low, x), low, high)
    return jnp.where(counts, x, inside)


def _encode(
    kernel: KernelLike, x: Array, weights: Array | None, name: str
) -> tuple[Encoder, Array]:
    """A kernel ready for new data, and what it makes of ``x``: ``(n,)`` or features ``(n, m)``."""
    factors = None
    if not callable(kernel) and x.ndim == 2 and x.shape[1] > 1:
        count = math.comb(x.shape[1] + kernel, kernel) - 1
        if count > MAX_MONOMIALS:
            raise ValueError(
                f"the kernel {name} of total degree {kernel} of {x.shape[1]} variables (data of"
                f" shape {tuple(x.shape)}) has {count} monomials; at most {MAX_MONOMIALS} are"
                " supported. Lower the degree, or pass one variable as an array (n,)."
            )

        def fit(column: Array, weights: Array | None) -> PolynomialBasis:
            return fit_polynomials((column,), (kernel,), weights)[0][0]

        factors = jax.vmap(fit, in_axes=(1, None))(
            lax.stop_gradient(x), None if weights is None else lax.stop_gradient(weights)
        )
    encoder = Encoder(kernel=kernel, factors=factors)
    features: Any = encoder(x)
    if callable(kernel):
        if isinstance(features, np.ndarray):
            features = jnp.asarray(features)
        shape = features.shape if isinstance(features, Array) else None
        if shape is None or len(shape) != 2 or shape[0] != len(x) or shape[1] == 0:
            raise ValueError(
                f"the kernel {name} must return features of shape (n, m) = ({len(x)}, m), m >= 1;"
                f" got {type(features).__name__ if shape is None else shape}."
            )
        if jnp.issubdtype(features.dtype, jnp.complexfloating):
            raise TypeError(f"the kernel {name} must return real features; got {features.dtype}.")
        features = features.astype(x.dtype)
    return encoder, features


def solve(
    problem: Problem, a: Array, b: Array, weights: Array | None, start: Array | None
) -> Solution:
    """The most correlated transformations of ``a`` and ``b``; differentiable.

    Args:
      problem: static.
      a, b: ``(n,)`` where the side is polynomial, features ``(n, m)`` elsewhere.
      weights: ``(n,)``, summing to 1, or None.
      start: values ``(n,)`` of a first guess of g at the rows of ``b``, or None.
    """
    basis_a, basis_b, conditioned, gram = _fitted(problem, a, b, weights)
    size = basis_a.alive.shape[0]
    index_b = np.r_[0, size + 1 : gram.shape[0]]
    mean_a, factor_a = whitening(gram[: size + 1, : size + 1], basis_a.alive)
    mean_b, factor_b = whitening(gram[index_b[:, None], index_b[None, :]], basis_b.alive)
    finite = jnp.isfinite(gram).all()
    both = basis_a.alive[:, None] & basis_b.alive[None, :] & finite
    cross = jnp.where(both, gram[1 : size + 1, size + 1 :] - mean_a[:, None] * mean_b[None, :], 0)
    m = solve_triangular(factor_a, cross, lower=True)
    m = solve_triangular(factor_b, m.T, lower=True).T
    m = jnp.where(finite, m, 0)

    direction = jnp.zeros((), jnp.int32)
    if problem.method == SINGLE_KERNEL:
        pair, direction = best_row_or_column(m, *problem.linear)
    else:
        pair = top_pair(m, problem.method, _project(basis_b, mean_b, factor_b, b, weights, start))
    pair = _with_fixed_sign(pair)
    value = jnp.where(finite, jnp.minimum(pair.correlation, 1), jnp.nan)
    return Solution(
        correlation=value,
        f=_side(basis_a, mean_a, factor_a, pair.u),
        g=_side(basis_b, mean_b, factor_b, pair.v),
        pair=pair,
        singular_values=jnp.linalg.svd(lax.stop_gradient(m), compute_uv=False),
        direction=direction,
        finite=finite,
        conditioned=conditioned,
    )


def _project(
    basis: Basis, mean: Array, factor: Array, b: Array, weights: Array | None, start: Array | None
) -> Array | None:
    """Whitened coordinates of the values ``start`` on the basis of ``b``."""
    if start is None:
        return None
    b, weights, start = lax.stop_gradient((b, weights, start))
    w = jnp.full(start.shape, 1 / start.shape[0], start.dtype) if weights is None else weights

    def block(b: Array, start: Array, w: Array) -> Array:
        rows = jnp.concatenate([jnp.ones((1, start.shape[0]), start.dtype), basis.rows(b)])
        return jnp.matmul(rows, w * start, precision=lax.Precision.HIGHEST)

    sums = sum_over_rows(block, (b, start, w))
    sums = jnp.where(jnp.isfinite(sums), sums, 0)
    return solve_triangular(
        lax.stop_gradient(factor), sums[1:] - lax.stop_gradient(mean) * sums[0], lower=True
    )


def _with_fixed_sign(pair: CanonicalPair) -> CanonicalPair:
    """The sign that makes the largest component of f on the orthonormal basis positive.

    (Of g, where f is zero.)  The correlation is positive with either sign.
    """
    deciding = jnp.where(jnp.any(pair.u != 0), *_same_length(pair.u, pair.v))
    largest = deciding[jnp.argmax(jnp.abs(deciding))]
    sign = lax.stop_gradient(jnp.where(largest < 0, -1, 1).astype(pair.u.dtype))
    return dataclasses.replace(pair, u=sign * pair.u, v=sign * pair.v)


def _same_length(u: Array, v: Array) -> tuple[Array, Array]:
    size = max(u.shape[0], v.shape[0])
    return jnp.pad(u, (0, size - u.shape[0])), jnp.pad(v, (0, size - v.shape[0]))


def _side(basis: Basis, mean: Array, factor: Array, whitened: Array) -> Side:
    coefficients = solve_triangular(factor, whitened, lower=True, trans=1)
    coefficients = jnp.where(basis.alive, coefficients, 0)
    return Side(basis, coefficients, -jnp.dot(mean, coefficients))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _fitted(
    problem: Problem, a: Array, b: Array, weights: Array | None
) -> tuple[Basis, Basis, Array, Array]:
    """Bases of both sides, whether they are well conditioned, and the Gram matrix of both."""
    degree_a, degree_b = problem.degrees
    if degree_a is not None and degree_b is not None:
        (fit_a, fit_b), gram, conditioned = fit_polynomials((a, b), (degree_a, degree_b), weights)
        return fit_a, fit_b, conditioned, gram
    basis_a, conditioned_a = _one_basis(degree_a, a, weights)
    basis_b, conditioned_b = _one_basis(degree_b, b, weights)
    gram = pair_gram(basis_a, basis_b, a, b, weights)
    return basis_a, basis_b, conditioned_a & conditioned_b, gram


def _one_basis(degree: int | None, x: Array, weights: Array | None) -> tuple[Basis, Array]:
    if degree is None:
        return fit_features(x, weights)
    (basis,), _, conditioned = fit_polynomials((x,), (degree,), weights)
    return basis, conditioned


@_fitted.defjvp
def _fitted_jvp(
    problem: Problem, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Any, Any]:
    fitted = _fitted(problem, *primals)
    basis_a, basis_b, conditioned, _ = fitted
    _, gram_dot = jax.jvp(functools.partial(pair_gram, basis_a, basis_b), primals, tangents)
    return fitted, (*jax.tree.map(_no_tangent, (basis_a, basis_b, conditioned)), gram_dot)


def _no_tangent(x: Array) -> Any:
    inexact = jnp.issubdtype(x.dtype, jnp.inexact)
    return jnp.zeros_like(x) if inexact else np.zeros(x.shape, jax.dtypes.float0)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def correlation(
    problem: Problem, a: Array, b: Array, weights: Array | None, start: Array | None
) -> Array:
    """The correlation of `solve`, with the derivative of the envelope theorem."""
    return solve(problem, a, b, weights, start).correlation


@functools.partial(correlation.defjvp, symbolic_zeros=True)
def _correlation_jvp(
    problem: Problem, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Array, Array]:
    a, b, weights, _ = primals
    solution = solve(problem, *primals)
    s = solution.pair.correlation
    f, g = solution.f(a), solution.g(b)
    w = 1 / a.shape[0] if weights is None else weights
    a_dot, b_dot, w_dot, _ = tangents
    total = jnp.zeros_like(s)
    for side, x, x_dot, pull in (
        (solution.f, a, a_dot, w * (g - s * f)),
        (solution.g, b, b_dot, w * (f - s * g)),
    ):
        if _perturbed(x_dot):
            total = total + jnp.sum(_pulled_back(side, x, pull) * x_dot)
    if _perturbed(w_dot):
        total = total + jnp.sum((f * g - s * (f * f + g * g) / 2) * w_dot)
    return solution.correlation, total


def _perturbed(tangent: Any) -> bool:
    return tangent is not None and not isinstance(tangent, SymbolicZero)


def _pulled_back(side: Side, x: Array, pull: Array) -> Array:
    """``pull_i * d side(x_i) / d x_i``, of the shape of ``x``."""
    if isinstance(side.basis, PolynomialBasis):
        _, slope = jax.jvp(side, (x,), (jnp.ones_like(x),))
        return pull * slope
    direction = jnp.matmul(side.basis.transform, side.coefficients, precision=lax.Precision.HIGHEST)
    return pull[:, None] * direction[None, :]
