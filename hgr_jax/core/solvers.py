"""The closed form of the canonical pairs of a small matrix: `top_pair`, or `all_modes`.

The constrained least squares of the paper (`paper`) is, with one side eliminated,

    max over v on the unit sphere of 1/2 |M v|^2,

on the matrix M (h x k) of cross moments of two orthonormal bases, whatever the number of rows.
Its maximum is the largest singular value of M, and every other stationary point is a saddle.
Derivatives are those of the implicit function theorem.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from hgr_jax.core.linalg import Singular, matmul, right_singular
from hgr_jax.core.numerics import (
    farthest_entry,
    safe_divide,
    safe_norm,
    safe_rsqrt,
    safe_sqrt,
    sign_of,
)

Refine = Callable[[Array, "Array | None"], tuple[Array, Array]]
"""From M and a start (or None): v of the top pair, and the number of iterations."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CanonicalPair:
    """``correlation = u . M v`` with unit ``u`` and ``v`` (``u = 0`` where the correlation is)."""

    correlation: Array
    u: Array
    v: Array
    residual: Array
    iterations: Array
    tied: Array


def deciding_sign(u: Array, v: Array) -> Array:
    """Return the sign ``(..., 1)`` that makes the largest component of u (or v) positive."""
    # Halved and divided by the length of u, no component of v exceeds the largest of a unit u.
    components = jnp.concatenate([u, v / (2 * u.shape[-1])], axis=-1)
    return sign_of(farthest_entry(components))


def top_pair(m: Array, solve: Refine | None = None, start: Array | None = None) -> CanonicalPair:
    """Return the top singular triple of a finite ``m (h, k)``, differentiable to any order.

    It is the solution of ``solve`` where this is as exact as the closed form, which it is elsewhere
    (and without ``solve``).  Where singular values tie with the first, ``v`` is the
    `_lowest_degree_vector` of their vectors, and its derivative in the tied directions is set to 0.
    """
    v, iterations, tied, _ = _leading_vector(solve, m, start)
    product = matmul(m, v)
    square = jnp.sum(product * product)
    inverse = safe_rsqrt(square)
    correlation, u = square * inverse, product * inverse
    residual = safe_norm(_stationarity(lax.stop_gradient(v), lax.stop_gradient(m)))
    return CanonicalPair(correlation, u, v, residual, iterations, tied)


_Leading = tuple[Array, Array, Array, Singular]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _leading_vector(solve: Refine | None, m: Array, start: Array | None) -> _Leading:
    """Return v, the number of iterations, whether values tie, and the singular values."""
    none = jnp.zeros((), jnp.int32)
    if m.shape[1] == 1:
        one = jnp.ones(1, m.dtype)
        return one, none, jnp.zeros((), bool), Singular(one, one[:, None], one[0], 0 * one[0])
    values, rows, largest, second = decomposition = right_singular(m)
    tolerance = _tie_tolerance(m)
    near = values >= largest * (1 - tolerance)
    tied = second >= largest * (1 - 2 * tolerance)
    closed_form = _unit_vector(_lowest_degree_vector(jnp.where(near[:, None], rows, 0)))
    if solve is None:
        return closed_form, none, tied, decomposition
    v, iterations = solve(m, start)
    # Compare the vectors, as the value is flat around its maximum.
    nearest = sign_of(jnp.dot(v, closed_form)) * closed_form
    arrived = jnp.max(jnp.abs(v - nearest)) <= 4 * jnp.finfo(m.dtype).eps
    return jnp.where(arrived, v, closed_form), iterations, tied, decomposition


def _unit_vector(v: Array) -> Array:
    return v * lax.rsqrt(jnp.sum(v * v))


def _tie_tolerance(m: Array) -> float:
    return 8 * m.shape[1] * float(jnp.finfo(m.dtype).eps)


def _lowest_degree_vector(rows: Array) -> Array:
    """Project the first axis that is near the span of orthonormal ``rows`` (or 0) on that span.

    Axes are in order of degree: among functions that tie, this chooses one of low degree, and the
    same one on every machine.
    """
    projection = matmul(rows.T, rows)
    reach = jnp.where(np.eye(len(rows), dtype=bool), projection, 0)
    axis = jnp.argmax(reach >= jnp.max(reach) / 2) // (len(rows) + 1)
    return projection[axis]


def _stationarity(v: Array, m: Array) -> Array:
    """Return a function that is 0 at singular vectors ``v``, with a symmetric Jacobian there."""
    gradient = matmul(m.T, matmul(m, v))
    return gradient - jnp.dot(v, gradient) * v


@_leading_vector.defjvp
def _leading_vector_jvp(
    solve: Refine | None, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[_Leading, Any]:
    """Differentiate ``_stationarity(v, m) = 0``, by the implicit function theorem."""
    m, start = primals
    leading = _leading_vector(solve, m, start)
    v, *_, decomposition = leading
    _, moved = jax.jvp(lambda m: _stationarity(v, m), (m,), (tangents[0],))
    _, in_v = jax.linearize(lambda v: _stationarity(v, m), v)
    v_dot = _solve_at_optimum(v, decomposition, in_v, -moved)
    no_tangent = np.zeros((), jax.dtypes.float0)
    constant = jax.tree.map(jnp.zeros_like, decomposition)
    return leading, (v_dot, no_tangent, no_tangent, constant)


def _solve_at_optimum(
    v: Array, decomposition: Singular, matvec: Callable[[Array], Array], b: Array
) -> Array:
    """Solve a system of the Jacobian of `_stationarity` at ``v``, by its eigenvectors.

    They are v, with eigenvalue ``-2 sigma_1^2``, and the other singular vectors, with
    ``sigma_i^2 - sigma_1^2``; directions that tie with v are dropped.
    """
    v, (values, rows, largest, _) = lax.stop_gradient((v, decomposition))
    tied = values >= largest * (1 - 2 * _tie_tolerance(rows))
    gaps = jnp.where(tied, 0, (largest - values) * (largest + values))
    eigenvectors = jnp.concatenate([rows, v[None, :]])
    eigenvalues = jnp.append(gaps, 2 * largest * largest)
    root = eigenvectors * safe_rsqrt(eigenvalues)[:, None]
    inverse = matmul(root.T, root)
    return lax.custom_linear_solve(matvec, b, lambda _, b: matmul(inverse, -b), symmetric=True)


class CanonicalModes(NamedTuple):
    """``correlations (r,)``, the largest first, with ``u (r, h)`` and ``v (r, k)`` in rows.

    A mode whose correlation is 0, up to rounding, has a u of 0 (or a v, where ``h < k``).
    """

    correlations: Array
    u: Array
    v: Array
    tied: Array


def all_modes(m: Array) -> CanonicalModes:
    """Return all ``r = min(h, k)`` singular triples of a finite ``m (h, k)``, differentiable.

    Where values tie, their derivatives are one of the limits nearby, and those of the vectors in
    the tied directions are 0; where a value is 0, its derivative is set to 0.
    """
    if m.shape[0] < m.shape[1]:
        values, v, u = _tall_modes(m.T)
    else:
        values, u, v = _tall_modes(m)
    first, second = lax.stop_gradient((values[:-1], values[1:]))
    tied = (first > 0) & (first - second <= 2 * _tie_tolerance(m) * values[0])
    return CanonicalModes(values, u, v, jnp.any(tied))


@jax.custom_jvp
def _tall_modes(m: Array) -> tuple[Array, Array, Array]:
    """Return values ``(k,)``, u ``(k, h)`` and v ``(k, k)`` of ``m (h, k)`` with ``h >= k``."""
    rows = jnp.ones((1, 1), m.dtype) if m.shape[1] == 1 else right_singular(m).rows
    # From the products: small values of `right_singular` have half the digits in a batch.
    products = matmul(rows, m.T)
    squares, order = lax.top_k(jnp.sum(products * products, axis=1), len(rows))
    values, rows, products = safe_sqrt(squares), rows[order], products[order]
    positive = values > _tie_tolerance(m) * values[0]
    u = jnp.where(positive, safe_rsqrt(squares), 0)[:, None] * products
    return values, u, rows


@_tall_modes.defjvp
def _tall_modes_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Any, Any]:
    """Differentiate the relations M v_j = s_j u_j, M^T u_j = s_j v_j and the orthonormality."""
    (m,), (m_dot,) = primals, tangents
    values, u, v = _tall_modes(m)
    moved = matmul(v, m_dot.T)
    between = matmul(u, moved.T)  # u_i . dM v_j
    tolerance = _tie_tolerance(m)
    difference = values[None, :] - values[:, None]
    distinct = jnp.abs(lax.stop_gradient(difference)) > 2 * tolerance * values[0]
    gaps = jnp.where(distinct, difference * (values[None, :] + values[:, None]), 0)
    turn_u = safe_divide(between * values[None, :] + between.T * values[:, None], gaps)
    turn_v = safe_divide(between * values[:, None] + between.T * values[None, :], gaps)
    # The part outside the span of all u; the v span everything.
    positive = values > tolerance * values[0]
    outward = safe_divide(moved - matmul(between.T, u), jnp.where(positive, values, 0)[:, None])
    values_dot = jnp.sum(jnp.where(np.eye(len(v), dtype=bool), between, 0), axis=0)
    return (values, u, v), (values_dot, matmul(turn_u.T, u) + outward, matmul(turn_v.T, v))
