"""Gram matrices of the features of many columns: products over rows, in blocks of rows.

A *tile* is a set of columns of one kind.  The features of a row are made where they are used, so
that nothing of the size of the rows times the degrees is ever in memory:

* numbers: ``p_1 .. p_d`` of each column, near-orthonormal polynomials, 0 where it is missing;
* categories: an indicator of each level, 0 where it is missing;
* patterns: the weight of a row where a pattern of missing values has it, else 0.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax

from hgr_jax.kernels import PolynomialBasis

BLOCK_ROWS = 2048
"""Rows whose features are in memory at a time."""

LEAST_PART = 160
MOST_PARTS = 4
"""A symmetric product is made of the upper half of that many parts a side: fewer operations."""

row_product = functools.partial(
    lax.dot_general, dimension_numbers=(((0,), (0,)), ((), ())), precision=lax.Precision.HIGHEST
)


def over_rows(block: Callable[..., Array], columns: tuple[Array, ...]) -> Array:
    """``block`` of some rows of every array ``(n, ...)``, summed over all rows."""
    rows = columns[0].shape[0]
    blocks, left = divmod(rows, BLOCK_ROWS)
    if blocks <= 1:
        return block(*columns)

    def add(index: Array, total: Array) -> Array:
        start = index * BLOCK_ROWS
        return total + block(
            *(lax.dynamic_slice_in_dim(x, start, BLOCK_ROWS, axis=0) for x in columns)
        )

    shape = jax.eval_shape(block, *(x[:BLOCK_ROWS] for x in columns))
    total = lax.fori_loop(0, blocks, add, jnp.zeros(shape.shape, shape.dtype))
    return total + block(*(x[-left:] for x in columns)) if left else total


def polynomials(basis: PolynomialBasis, x: Array, *, corrected: bool) -> list[Array]:
    """``[p_1, ..., p_d]`` of every column of ``x (rows, c)``, each ``(rows, c)``; 0 for NaN."""
    evaluate = functools.partial(PolynomialBasis.polynomials, corrected=corrected)
    missing = jnp.isnan(x)
    values = jax.vmap(evaluate, in_axes=(0, 1), out_axes=1)(
        basis, jnp.where(missing, basis.center[None, :], x)
    )
    return [jnp.where(missing, 0, p) for p in values[1:]]


def indicators(codes: Array, column: Array, level: Array, dtype: jnp.dtype) -> Array:
    """Features ``(rows, m)``: feature l is 1 where ``codes[:, column[l]] == level[l]``."""
    wanted = level.astype(codes.dtype)[None, :]
    return (jnp.take(codes, column, axis=1) == wanted).astype(dtype)


@functools.partial(jax.jit, static_argnames=("corrected",))
def number_products(
    left: PolynomialBasis,
    x: Array,
    right: PolynomialBasis,
    y: Array,
    weights: Array | None,
    *,
    corrected: bool,
) -> Array:
    """Sums over rows of ``w p_a(x_i) p_b(y_j)``, ``(d c, d e)``, by degree, then by column."""

    def block(x: Array, y: Array, *w: Array) -> Array:
        f = jnp.concatenate(polynomials(left, x, corrected=corrected), axis=1)
        g = jnp.concatenate(polynomials(right, y, corrected=corrected), axis=1)
        return row_product(f, g * w[0][:, None] if w else g)

    return over_rows(block, (x, y) if weights is None else (x, y, weights))


@functools.partial(jax.jit, static_argnames=("corrected",))
def own_products(
    basis: PolynomialBasis, x: Array, weights: Array | None, *, corrected: bool
) -> Array:
    """`number_products` of a tile with itself, and p_0 = 1 first: ``(1 + d c, 1 + d c)``.

    All columns are present in the same rows.
    """

    def block(x: Array, *w: Array) -> Array:
        one = (~jnp.isnan(x[:, :1])).astype(x.dtype)
        f = jnp.concatenate([one, *polynomials(basis, x, corrected=corrected)], axis=1)
        g = f * w[0][:, None] if w else f
        return jnp.concatenate([row_product(f[:, a], g[:, b]).ravel() for a, b in upper])

    size = 1 + basis.step.shape[1] * x.shape[1]
    count = max(1, min(MOST_PARTS, size // LEAST_PART))
    ends = [size * i // count for i in range(count + 1)]
    parts = [slice(*pair) for pair in itertools.pairwise(ends)]
    upper = list(itertools.combinations_with_replacement(parts, 2))
    flat = over_rows(block, (x,) if weights is None else (x, weights))
    whole = jnp.zeros((size, size), x.dtype)
    start = 0
    for a, b in upper:
        shape = (a.stop - a.start, b.stop - b.start)
        part = flat[start : start + math.prod(shape)].reshape(shape)
        whole = whole.at[b, a].set(part.T).at[a, b].set(part)
        start += part.size
    return whole


@jax.jit
def moments_within(products: Array, columns: Array) -> Array:
    """The part of `own_products` of each column with itself, ``(c, d + 1, d + 1)``.

    ``columns (c, d + 1)`` say where the features of a column stand, p_0 first.
    """
    return products[columns[:, :, None], columns[:, None, :]]


@functools.partial(jax.jit, static_argnames=("corrected",))
def own_moments(
    basis: PolynomialBasis, x: Array, weights: Array | None, *, corrected: bool
) -> Array:
    """Sums of ``w p_a p_b`` of each column over the rows where it is present, ``(c, d+1, d+1)``."""
    degree = basis.step.shape[1]

    def block(x: Array, *w: Array) -> Array:
        p = [(~jnp.isnan(x)).astype(x.dtype), *polynomials(basis, x, corrected=corrected)]
        left = [q * w[0][:, None] for q in p] if w else p
        return jnp.stack([jnp.sum(left[a] * p[b], axis=0) for a, b in _upper(degree)])

    sums = over_rows(block, (x,) if weights is None else (x, weights))
    return jnp.moveaxis(_symmetric(sums, degree), -1, 0)


def _upper(degree: int) -> list[tuple[int, int]]:
    return list(itertools.combinations_with_replacement(range(degree + 1), 2))


def _symmetric(sums: Array, degree: int) -> Array:
    """From `_upper` pairs ``(pairs, ...)`` to the whole matrix ``(d + 1, d + 1, ...)``."""
    position = {pair: index for index, pair in enumerate(_upper(degree))}
    order = [position[min(a, b), max(a, b)] for a in range(degree + 1) for b in range(degree + 1)]
    return sums[jnp.asarray(order)].reshape(degree + 1, degree + 1, *sums.shape[1:])


@functools.partial(jax.jit, static_argnames=("corrected",))
def pattern_moments(basis: PolynomialBasis, x: Array, patterns: Array, *, corrected: bool) -> Array:
    """Sums over rows of ``w_u p_a p_b`` of each column, ``(d + 1, d + 1, c, u)``, with p_0 = 1.

    ``patterns (n, u)`` hold the weight of a row, or 0.
    """
    degree, columns = basis.step.shape[1], x.shape[1]

    def block(x: Array, patterns: Array) -> Array:
        p = [(~jnp.isnan(x)).astype(x.dtype), *polynomials(basis, x, corrected=corrected)]
        products = jnp.concatenate([p[a] * p[b] for a, b in _upper(degree)], axis=1)
        return row_product(products, patterns)

    sums = over_rows(block, (x, patterns)).reshape(len(_upper(degree)), columns, -1)
    return _symmetric(sums, degree)


@functools.partial(jax.jit, static_argnames=("corrected",))
def mixed_products(
    basis: PolynomialBasis,
    x: Array,
    codes: Array,
    column: Array,
    level: Array,
    weights: Array | None,
    *,
    corrected: bool,
) -> Array:
    """Sums over rows of ``w p_a(x_i) [level l]``, ``(d c, m)``."""

    def block(x: Array, codes: Array, *w: Array) -> Array:
        f = jnp.concatenate(polynomials(basis, x, corrected=corrected), axis=1)
        g = indicators(codes, column, level, x.dtype)
        return row_product(f, g * w[0][:, None] if w else g)

    return over_rows(block, (x, codes) if weights is None else (x, codes, weights))


@jax.jit
def category_products(
    codes: Array, left: tuple[Array, Array], right: tuple[Array, Array], weights: Array
) -> Array:
    """Sums of weights over rows of level l and level r, ``(m, q)``."""

    def block(codes: Array, w: Array) -> Array:
        f = indicators(codes, *left, w.dtype)
        return row_product(f, indicators(codes, *right, w.dtype) * w[:, None])

    return over_rows(block, (codes, weights))


@jax.jit
def category_counts(codes: Array, column: Array, level: Array, patterns: Array) -> Array:
    """Sums of weights over rows of level l in pattern u, ``(m, u)``."""

    def block(codes: Array, patterns: Array) -> Array:
        return row_product(indicators(codes, column, level, patterns.dtype), patterns)

    return over_rows(block, (codes, patterns))
