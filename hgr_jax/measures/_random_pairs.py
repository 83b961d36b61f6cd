"""Canonical correlation of random functions of two variables' ranks, as RDC has it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.custom_batching import sequential_vmap

from hgr_jax.core.linalg import matmul
from hgr_jax.core.numerics import fill_padding, row_count, row_mean, safe_divide
from hgr_jax.core.solvers import CanonicalPair, top_pair
from hgr_jax.measures._random_features import (
    DEGREES,
    IndependentFeatures,
    has_expansion,
    of_functions,
    of_sinusoids,
    triangles,
)

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

    ``directions`` are their coordinates in an orthonormal basis, ``polynomials`` and ``loadings``
    what they are made of, as in `IndependentFeatures`, and ``mean`` that of the random ones.
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
    """Return the top canonical pair of both variables' random functions, and what they combine.

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
        for _ in range(2):  # what rounding leaves of the mean would be common to both variables
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
    factors = sequential_vmap(_factorised)(*features)
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
    LAPACK takes one pair after the other under `jax.vmap`: see `hgr_jax.core.linalg`.
    """
    first, second = (jnp.linalg.svd(part, full_matrices=False) for part in triangles(f, g))
    return tuple(first), tuple(second)
