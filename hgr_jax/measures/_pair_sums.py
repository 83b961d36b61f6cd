"""Sums over all pairs of rows, block by block.

Distance covariance and the Hilbert-Schmidt criterion are inner products of two centred n x n
matrices, one of each variable.  The matrices are made in blocks of rows and made again where
they are needed again, so that nothing of size n x n is ever in memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from hgr_jax.core.numerics import (
    extremes,
    fill_padding,
    row_count,
    row_mean,
    safe_divide,
    safe_sqrt,
)

BLOCK_ENTRIES = 2**18
"""Number of entries in a block of rows of a matrix of all pairs."""

Entries = Callable[[Array, Array], Array]
"""Function: rows ``(m,)`` or ``(m, p)`` and all rows ``(n,)`` or ``(n, p)`` to ``(m, n)``.

An entry of equal rows is 0."""


def distances(rows: Array, others: Array) -> Array:
    """Return Euclidean distances ``(m, n)``; their derivative is 0 where two rows are equal."""
    if rows.ndim == 1:
        difference = rows[:, None] - others[None, :]
        return jnp.where(difference != 0, jnp.abs(difference), 0)
    return safe_sqrt(squared_distances(rows, others))


def squared_distances(rows: Array, others: Array) -> Array:
    """Return squared distances ``(m, n)``, from differences: close rows keep their digits."""
    if rows.ndim == 1:
        return jnp.square(rows[:, None] - others[None, :])
    return jnp.sum(jnp.square(rows.T[:, :, None] - others.T[:, None, :]), axis=0)


def per_row(block: Callable[..., Array], rows: Sequence[Array], width: int) -> Array:
    """Return ``block(*rows)``, one result per row, for as many rows at a time as memory allows.

    Args:
      block: function of some rows of each array to ``(rows, ...)``.
      rows: arrays of n rows.
      width: number of intermediate values of ``block``, per row.

    Returns:
      The results of all rows ``(n, ...)``.  The reverse-mode derivative recomputes each block.
    """
    count = rows[0].shape[0]
    size = max(1, BLOCK_ENTRIES // width)
    if count <= size:
        return block(*rows)
    blocks = -(-count // size)
    size = -(-count // blocks)
    stacked = []
    for x in rows:
        filled = jnp.pad(x, [(0, blocks * size - count)] + [(0, 0)] * (x.ndim - 1), mode="edge")
        stacked.append(filled.reshape(blocks, size, *x.shape[1:]))
    compute = jax.checkpoint(lambda parts: block(*parts), prevent_cse=False)
    results = lax.map(compute, stacked)
    return results.reshape(blocks * size, *results.shape[2:])[:count]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def centred_products(
    entries: Entries, unbiased: bool, a: Array, b: Array, count: Array | None = None
) -> Array:
    """Return mean products of the centred matrices A of ``a`` and B of ``b``: of A B, A A and B B.

        A_ij = K_ij - mean_j K_ij - mean_i K_ij + mean_ij K_ij,  the mean over n^2 pairs

    The unbiased form leaves out the pairs of a row with itself: A is 0 there, the sums over a
    row are divided by n - 2, that over all by (n - 1)(n - 2), that of the products by n (n - 3)
    (Szekely & Rizzo 2014).  Mean squares that are but the rounding of a constant K become 0.

    Args:
      entries: makes K from rows, for both variables.
      unbiased: which centring; True needs n >= 4.
      a, b: ``(n,)`` or ``(n, p)``, each with its own p.
      count: number of rows that are data; None for all.  Not differentiable with it.
    """
    means = _centres(entries, unbiased, a, count), _centres(entries, unbiased, b, count)
    return _products(entries, unbiased, a, b, *means, count)


@centred_products.defjvp
def _centred_products_jvp(
    entries: Entries, unbiased: bool, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Array, Array]:
    """Differentiate with the means as constants, which is exact: centring is a projection."""
    mean_a, mean_b = (_centres(entries, unbiased, x, None) for x in primals[:2])

    def products(a: Array, b: Array) -> Array:
        return _products(entries, unbiased, a, b, mean_a, mean_b, None)

    return jax.jvp(products, primals[:2], tangents[:2])


def _centres(
    entries: Entries, unbiased: bool, x: Array, count: Array | None
) -> tuple[Array, Array]:
    """Return the terms that centring subtracts from a row ``(n,)``, and adds to all ``()``."""
    index = lax.iota(jnp.int32, x.shape[0])

    def block(index_m: Array, part: Array) -> Array:
        return jnp.sum(_pairs_only(entries(part, x), index_m, index, count), axis=1)

    sums = per_row(block, [index, x], x.size)
    rows, mean = row_count(count, x), row_mean(sums, count)
    if unbiased:
        return sums / (rows - 2), mean * (rows / ((rows - 1) * (rows - 2)))
    return sums / rows, mean / rows


def _products(
    entries: Entries,
    unbiased: bool,
    a: Array,
    b: Array,
    centres_a: tuple[Array, Array],
    centres_b: tuple[Array, Array],
    count: Array | None,
) -> Array:
    index = lax.iota(jnp.int32, a.shape[0])

    def block(index_m: Array, a_m: Array, b_m: Array, mean_a: Array, mean_b: Array) -> Array:
        """Return sums of the products over the entries of each row ``(m, 3)``."""
        centred = []
        for part, x, mean, (means, total) in (
            (a_m, a, mean_a, centres_a),
            (b_m, b, mean_b, centres_b),
        ):
            matrix = _without_self(entries(part, x), index_m, index)
            matrix = matrix - mean[:, None] - (means - total)[None, :]
            if unbiased or count is not None:
                matrix = _pairs_only(matrix, index_m, index, count, keep_self=not unbiased)
            centred.append(matrix)
        left, right = centred
        products = (left * right, left * left, right * right)
        return jnp.stack([jnp.sum(product, axis=1) for product in products], axis=1)

    columns = [index, a, b, centres_a[0], centres_b[0]]
    sums = jnp.sum(fill_padding(per_row(block, columns, a.size + b.size), count), axis=0)
    rows = row_count(count, a)
    products = sums / rows / (rows - 3 if unbiased else rows)
    products = without_rounding(products, centres_a[1], centres_b[1])
    # A single row meets nobody else; that it holds no number must be seen all the same.
    finite = jnp.all(jnp.isfinite(a[:1])) & jnp.all(jnp.isfinite(b[:1]))
    return jnp.where(finite, products, jnp.nan)


def _without_self(matrix: Array, rows: Array, others: Array) -> Array:
    """Return ``matrix`` with 0 where a row meets itself.

    Compiled code may round the two sides of a difference differently.
    """
    return jnp.where(rows[:, None] == others[None, :], 0, matrix)


def _pairs_only(
    matrix: Array, rows: Array, others: Array, count: Array | None, *, keep_self: bool = False
) -> Array:
    """Return ``matrix`` with 0 for padding and (without ``keep_self``) for equal rows."""
    if not keep_self:
        matrix = _without_self(matrix, rows, others)
    return matrix if count is None else jnp.where(others[None, :] < count, matrix, 0)


def without_rounding(products: Array, mean_a: Array, mean_b: Array) -> Array:
    """Return the products ab, aa, bb with 0 for mean squares that rounding alone would leave."""
    noise = 16 * jnp.finfo(products.dtype).eps
    floor = jnp.square(noise * lax.stop_gradient(jnp.stack([mean_a, mean_b])))
    squares = products[1:]
    squares = jnp.where(squares <= floor, 0, squares)
    return jnp.concatenate([products[:1], squares])


def correlation_of(products: Array) -> Array:
    """Return ``ab / sqrt(aa bb)`` of `centred_products`, in [-1, 1]; 0 where aa or bb is 0."""
    ratio = safe_divide(products[0], safe_sqrt(products[1]) * safe_sqrt(products[2]))
    # Beyond 1 by rounding only; a clip would make the derivative there zero or a half.
    return ratio / jnp.maximum(lax.stop_gradient(jnp.abs(ratio)), 1)


def scaled(x: Array) -> Array:
    """Return ``x`` over a power of two near its range, less its first row where it is far from 0.

    Both are constants to the derivative.  The differences of rows keep all their digits: numbers
    within a factor of two of each other have exact differences.
    """
    x = x / 2  # so that the range of any data is a finite number
    first = lax.stop_gradient(x[:1])
    low, high = extremes(x)
    least = jnp.minimum(jnp.sign(first) * low, jnp.sign(first) * high)
    most = jnp.maximum(jnp.sign(first) * low, jnp.sign(first) * high)
    shift = jnp.where(most <= 2 * least, first, 0)
    x = x - shift
    first, low, high = first - shift, low - shift, high - shift
    reach = jnp.max(jnp.maximum(high - first, first - low))
    unit = jnp.ldexp(jnp.ones_like(reach), jnp.frexp(reach)[1] - 1)
    return x / jnp.where(reach < jnp.finfo(x.dtype).tiny, 1, unit)
