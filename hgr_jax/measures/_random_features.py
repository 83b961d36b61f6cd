"""RDC: random functions of ranks, those that are linearly independent, and their canonical pair.

The arguments of the functions of RDC are small, so that they differ from each other by the order of
1e-7 of their size: as much as float32 rounds.  Sinusoids of one variable are therefore not
evaluated.  Their coefficients in Chebyshev polynomials, which fall off with the degree, are known
(Jacobi & Anger) and exact in each degree, so that the polynomials alone are evaluated, and
elimination works on the coefficients.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from hgr_jax.core.linalg import matmul
from hgr_jax.core.numerics import fill_padding, row_count, row_mean, safe_divide
from hgr_jax.core.solvers import CanonicalPair, top_pair

DEGREES = 16
"""Largest degree of the Chebyshev polynomials; later coefficients are below rounding."""

LARGEST_ARGUMENT = 2.0
"""Half of the largest change of a sinusoid's argument over all ranks, for `DEGREES` to suffice."""

TERMS = 11
"""Number of terms of the series of Bessel functions, for such arguments."""

LEAST_LEFT = 1e-7
"""Residual share of its norm below which a function is dependent: that of ``qr`` in R."""

WAVES = ("sin", "cos")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class IndependentFeatures:
    """Orthonormal functions (of unit mean square), as many as there were random ones.

    Attributes:
      exists: ``(k,)``, 1, and 0 for functions beyond the rank, which are 0.
      polynomials: ``(17, k)``, their coefficients in Chebyshev polynomials of ``2 u - 1``...
      loadings: ``(k, k)``, ...and in the random functions; one of the two is 0.
    """

    exists: Array
    polynomials: Array
    loadings: Array


Sides = tuple[IndependentFeatures, IndependentFeatures]


def of_sinusoids(
    shares: tuple[Array, Array],
    weights: tuple[Array, Array],
    wave: str,
    count: Array | None,
) -> tuple[Array, Sides]:
    """Return the cross moments ``(k, k)`` of both sides' independent sinusoids, and these.

    Args:
      shares: of either variable, ranks over n, ``(n, 1)``.
      weights: of either, ``(2, k)``, those of the rank and of 1, such that the former keep to
        `has_expansion`.
      wave: "sin" or "cos".
      count: number of rows that are data, or None.
    """
    functions = []
    for u in shares:
        values = chebyshev(u[:, 0])
        mean = row_mean(values, count)
        # Rounding of the mean would make functions of a constant.
        centred = jnp.where(jnp.any(u != u[:1]), fill_padding(values - mean[None, :], count), 0)
        functions.append((centred / jnp.sqrt(row_count(count, u)), mean))
    (f, f_mean), (g, g_mean) = functions

    def side(second_moments: Array, mean: Array, w: Array) -> tuple[Array, IndependentFeatures]:
        triangle, transform = _orthonormalised(second_moments)
        of_random = matmul(triangle, _chebyshev_coefficients(w, wave))
        basis, exists, _ = _independent_columns(of_random, LEAST_LEFT)
        polynomials = matmul(transform.T, basis)
        constant = -matmul(mean[None, :], polynomials)
        nothing = jnp.zeros((w.shape[1], w.shape[1]), w.dtype)
        whole = jnp.concatenate([constant, polynomials])
        return polynomials, IndependentFeatures(exists, whole, nothing)

    moments = jnp.stack([matmul(x.T, x) for x in (f, g)])
    # Both at once, as there is half as much to compile then.
    mapped = jax.vmap(side)(moments, jnp.stack([f_mean, g_mean]), jnp.stack(weights))
    coordinates, sides = mapped
    cross = matmul(matmul(coordinates[0].T, matmul(f.T, g)), coordinates[1])
    return cross, _both(sides)


def of_functions(features: tuple[Array, Array], count: Array | None) -> tuple[Array, Sides]:
    """Return `of_sinusoids` of any functions, by their centred values ``(n, k)``.

    In float32 a residual of rounding counts as dependent.
    """
    parts = jnp.stack(triangles(*features))
    k, dtype = parts.shape[2], parts.dtype
    tolerance = max(LEAST_LEFT, 1000 * float(jnp.finfo(dtype).eps))
    bases, exists, loadings = jax.vmap(lambda part: _independent_columns(part, tolerance))(parts)
    size = jnp.sqrt(row_count(count, features[0]))
    nothing = jnp.zeros((2, DEGREES + 1, k), dtype)
    sides = IndependentFeatures(exists, nothing, loadings * size)
    return matmul(bases[0].T, bases[1]), _both(sides)


def _both(sides: IndependentFeatures) -> Sides:
    first, second = (jax.tree.map(lambda x, i=i: x[i], sides) for i in (0, 1))
    return first, second


def has_expansion(weights: tuple[Array, Array]) -> Array:
    """Return whether the coefficients of all sinusoids are exact to rounding."""
    return jnp.all(jnp.stack([jnp.max(jnp.abs(w[0])) for w in weights]) <= 2 * LARGEST_ARGUMENT)


def chebyshev(u: Array) -> Array:
    """Return Chebyshev polynomials of degrees 1 to 16 of ``2 u - 1``, ``(n, 16)``."""
    t = 2 * u - 1
    values = [jnp.ones_like(t), t]
    while len(values) <= DEGREES:
        values.append(2 * t * values[-1] - values[-2])
    return jnp.stack(values[1:], axis=1)


def _chebyshev_coefficients(weights: Array, wave: str) -> Array:
    """Return coefficients ``(16, k)`` of ``wave(w u + c)`` in Chebyshev polynomials of ``2 u - 1``.

    Those of ``sin(phi + v t)`` are ``2 J_j(v) sin(phi + j pi / 2)``, with Bessel functions J.
    """
    v = jnp.clip(weights[0] / 2, -LARGEST_ARGUMENT, LARGEST_ARGUMENT)
    phase = weights[1] + weights[0] / 2
    quarters = jnp.stack([jnp.sin(phase), jnp.cos(phase), -jnp.sin(phase), -jnp.cos(phase)])
    degrees = range(1, DEGREES + 1)
    series = jnp.zeros((DEGREES, v.shape[0]), v.dtype)
    for m in reversed(range(TERMS)):
        term = [1 / (math.factorial(m) * math.factorial(m + j)) for j in degrees]
        series = series * -((v[None, :] / 2) ** 2) + np.array(term, v.dtype)[:, None]
    powers = jnp.cumprod(jnp.broadcast_to(v[None, :] / 2, series.shape), axis=0)
    shift = WAVES.index(wave)
    return 2 * powers * series * quarters[np.array([(j + shift) % 4 for j in degrees])]


def _orthonormalised(s: Array) -> tuple[Array, Array]:
    """Return ``R``, upper triangular, and ``W``, lower, with ``R = W S`` and ``W S W^T = 1``.

    Of functions with second moments ``S (d, d)``, W makes orthonormal ones, and R holds the
    coordinates of the former in these.  Rows of functions that depend on those before are 0.
    """
    size = s.shape[0]
    index = lax.iota(jnp.int32, size)[:, None]
    least = 100 * jnp.finfo(s.dtype).eps * jnp.max(jnp.diagonal(s))

    def step(j: Array, rows: Array) -> Array:
        row, column, pivot = rows[j][None, :], rows[:, j][:, None], rows[j, j]
        usable = pivot > least
        safe = jnp.where(usable, pivot, 1)
        below = rows - jnp.where(usable, column / safe, 0) * row
        own = jnp.where(usable, row / jnp.sqrt(safe), 0)
        return jnp.where(index > j, below, jnp.where(index == j, own, rows))

    rows = lax.fori_loop(0, size, step, jnp.concatenate([s, jnp.eye(size, dtype=s.dtype)], axis=1))
    return jnp.triu(rows[:, :size]), rows[:, size:]


def _independent_columns(g: Array, tolerance: float) -> tuple[Array, Array, Array]:
    """Return orthonormal columns ``(m, k)`` that span those of ``g``, by Householder reflections.

    One after the other; a column whose residual is less than ``tolerance`` of its norm is passed
    over, as by LINPACK's modified ``dqrdc2``.  Rows of ``g`` that fall off keep their digits.

    Returns:
      The columns, 0 from the rank on; 1 where they are not 0, ``(k,)``; and loadings ``(k, k)``,
      with which the columns are ``g @ loadings``.
    """
    m, k = g.shape
    scale = jnp.max(jnp.abs(g), axis=0)
    g = safe_divide(g, scale[None, :])
    norms = jnp.sqrt(jnp.sum(g**2, axis=0))
    index, places = lax.iota(jnp.int32, m), lax.iota(jnp.int32, k)
    width = max(m, k)

    def step(j: Array, state: Any) -> Any:
        g, q, loadings, rank = state
        column = g[:, j]
        rest = jnp.where(index >= rank, column, 0)
        norm = jnp.sqrt(jnp.sum(rest**2))
        usable = (norm > tolerance * norms[j]) & (rank < m)
        pivot = jnp.sum(jnp.where(index == rank, rest, 0))
        diagonal = jnp.where(pivot < 0, norm, -norm)
        v = jnp.where(usable, rest - jnp.where(index == rank, diagonal, 0), 0)
        v = safe_divide(v, jnp.sqrt(jnp.sum(v**2)))
        before = jnp.pad(jnp.where(index < rank, column, 0), (0, width - m))
        own = (places == j).astype(g.dtype) - matmul(loadings, before)
        own = jnp.where(usable, safe_divide(own, diagonal), 0)
        here = (lax.iota(jnp.int32, width) == rank).astype(g.dtype)
        return (
            g - 2 * v[:, None] * matmul(v, g)[None, :],
            q - 2 * matmul(q, v)[:, None] * v[None, :],
            loadings + own[:, None] * here[None, :],
            rank + usable.astype(rank.dtype),
        )

    start = (g, jnp.eye(m, dtype=g.dtype), jnp.zeros((k, width), g.dtype), jnp.int32(0))
    _, q, loadings, rank = lax.fori_loop(0, k, step, start)
    exists = (places < rank).astype(g.dtype)
    basis = jnp.pad(q, [(0, 0), (0, max(k - m, 0))])[:, :k] * exists[None, :]
    return basis, exists, safe_divide(loadings[:, :k], scale[:, None])


def triangles(f: Array, g: Array) -> tuple[Array, Array]:
    """Return ``f`` and ``g (n, k)`` in a basis that they share."""
    triangle = jnp.linalg.qr(jnp.concatenate([f, g], axis=1), mode="r")
    first, second = jnp.split(triangle, 2, axis=1)
    return first, second


Functions = str | Callable[[Array], Array]
"""Names of functions, or one of an array, applied entry by entry."""


def random_functions(shares: Array, weights: Array, functions: Functions) -> Array:
    """Return functions of random combinations of ranks and 1, ``(n, k)``."""
    arguments = matmul(shares, weights[:-1]) + weights[-1][None, :]
    if not callable(functions):
        return {"sin": jnp.sin, "cos": jnp.cos}[functions](arguments)
    values = jnp.asarray(functions(arguments), arguments.dtype)
    if values.shape != arguments.shape:
        raise ValueError(
            f"functions must return an array of the shape of its argument, {arguments.shape};"
            f" got shape {values.shape}."
        )
    return values


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RandomSide:
    """Functions of one variable, made of its random ones, that canonical correlation combines.

    Attributes:
      directions: coordinates in an orthonormal basis.
      polynomials, loadings: as in `IndependentFeatures`.
      mean: of the random functions.
    """

    directions: Array
    polynomials: Array
    loadings: Array
    mean: Array


def best_pair(
    shares: tuple[Array, Array],
    weights: tuple[Array, Array],
    regularization: Array | None,
    functions: Functions,
    count: Array | None,
) -> tuple[CanonicalPair, tuple[RandomSide, RandomSide]]:
    """Return the top canonical pair of both variables' random functions, and its two sides.

    Args:
      shares: of either variable, ranks over n, ``(n, p)``.
      weights: of either, ``(p + 1, k)``, the last of 1.
      regularization: the ridge, of the largest variance; None to leave out dependent functions.
      functions: static.
      count: number of rows that are data, or None.
    """

    def centred() -> tuple[list[Array], list[Array]]:
        features = [random_functions(u, w, functions) for u, w in zip(shares, weights, strict=True)]
        means = [row_mean(f, count) for f in features]
        for _ in range(2):  # rounding of the mean would be common to both variables
            features = [fill_padding(f - row_mean(f, count)[None, :], count) for f in features]
        varies = [jnp.any(u != u[:1]) for u in shares]
        return [jnp.where(v, f, 0) for v, f in zip(varies, features, strict=True)], means

    def by_values() -> tuple[Array, tuple[RandomSide, RandomSide]]:
        (f, g), means = centred()
        cross, sides = of_functions((f, g), count)
        return cross, _as_sides(sides, means)

    def by_coefficients() -> tuple[Array, tuple[RandomSide, RandomSide]]:
        assert isinstance(functions, str)
        cross, sides = of_sinusoids(shares, weights, functions, count)
        return cross, _as_sides(sides, [jnp.zeros_like(w[0]) for w in weights])

    if regularization is not None:
        cross, sides = _ridged(*centred(), regularization, count)
    elif callable(functions) or any(u.shape[1] > 1 for u in shares):
        cross, sides = by_values()
    else:
        cross, sides = lax.cond(has_expansion(weights), by_coefficients, by_values)
    finite = jnp.all(jnp.isfinite(cross))
    pair = top_pair(jnp.where(finite, cross, 0), "svd")
    value = jnp.where(finite, jnp.minimum(pair.correlation, 1), jnp.nan)
    return dataclasses.replace(pair, correlation=value), sides


def _as_sides(
    sides: tuple[IndependentFeatures, IndependentFeatures], means: list[Array]
) -> tuple[RandomSide, RandomSide]:
    f, g = (
        RandomSide(jnp.diag(side.exists), side.polynomials, side.loadings, mean)
        for side, mean in zip(sides, means, strict=True)
    )
    return f, g


def _ridged(
    features: list[Array], means: list[Array], regularization: Array, count: Array | None
) -> tuple[Array, tuple[RandomSide, RandomSide]]:
    """Return cross moments of the principal directions of either variable, shrunk, and these."""
    factors = _factorised(*features)
    sides = []
    for (left, size, right), mean in zip(factors, means, strict=True):
        largest = size[0]
        ridged = largest * jnp.sqrt(safe_divide(size, largest) ** 2 + regularization)
        inverse = safe_divide(1, ridged)
        directions = left * (size * inverse)[None, :]
        loadings = right.T * inverse[None, :] * row_count(count, features[0]) ** 0.5
        nothing = jnp.zeros((DEGREES + 1, size.shape[0]), size.dtype)
        sides.append(RandomSide(directions, nothing, loadings, mean))
    return matmul(sides[0].directions.T, sides[1].directions), (sides[0], sides[1])


Factors = tuple[Array, Array, Array]


def _factorised(f: Array, g: Array) -> tuple[Factors, Factors]:
    """Decompose ``f`` and ``g (n, k)`` by their singular values, but for a basis they share.

    The ridge is so far below the variances that float32 would lose it in a Gram matrix: the data
    themselves are factorised.  With one triangle for both, nothing else of size n is needed.
    """
    first, second = (jnp.linalg.svd(part, full_matrices=False) for part in triangles(f, g))
    return tuple(first), tuple(second)
