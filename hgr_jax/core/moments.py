"""Sums over rows, block by block.

Everything an estimate needs from the data is the Gram matrix of basis functions of both variables.
It is a sum over rows, so it is computed in blocks that fit in cache, and nothing of the size of
the data times the degrees is ever in memory.  Every block has the same shape, as a remainder
would be compiled a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from hgr_jax.core.numerics import row_count, row_mask

WHOLE_ROWS = 16384
"""Up to so many rows, blocks are computed at once: their functions still fit in a core's cache."""

BLOCK_ROWS = 1536
"""Rows of a block, about.  A float32 sum of more products would lose more digits: equal ones, as of
a discrete variable, all round to the same side."""


def sum_over_rows(
    block: Callable[..., Array], columns: Sequence[Array], count: Array | None = None
) -> Array:
    """Return ``block(inside, *columns)`` summed over blocks of rows.

    Args:
      block: function of some rows; ``inside (rows,)`` is 1 where a row is data and 0 where it
        only fills a block up, and None where all are data.
      columns: arrays ``(n, ...)``.
      count: how many of the rows are data; None for all.  Not differentiable with it.

    The reverse-mode derivative keeps only the columns and recomputes each block.
    """
    rows = columns[0].shape[0]
    if rows <= BLOCK_ROWS:
        mask = row_mask(count, rows)
        return block(None if mask is None else mask.astype(_dtype(columns)), *columns)
    if rows <= WHOLE_ROWS:
        stacked, inside = _in_blocks(columns, count)
        of_rows = (None if inside is None else 0, *[0] * len(stacked))
        return jnp.sum(jax.vmap(block, of_rows)(inside, *stacked), axis=0)
    if count is not None:
        return _sum_of_first_rows(block, columns, count)
    stacked, inside = _in_blocks(columns, None)
    block = jax.checkpoint(block, prevent_cse=False)
    shape = jax.eval_shape(block, None, *(c[0] for c in stacked))

    def add(total: Array, parts: tuple[Any, ...]) -> tuple[Array, None]:
        return total + block(*parts), None

    total, _ = lax.scan(add, jnp.zeros(shape.shape, shape.dtype), (inside, *stacked))
    return total


def _dtype(columns: Sequence[Array]) -> Any:
    return jnp.result_type(*(c for c in columns if jnp.issubdtype(c.dtype, jnp.floating)))


def _in_blocks(columns: Sequence[Array], count: Array | None) -> tuple[list[Array], Array | None]:
    """Return columns ``(blocks, size, ...)`` and which rows are data, if not all.

    A size that divides the number of rows needs no copy: one is looked for near `BLOCK_ROWS`.
    """
    rows = columns[0].shape[0]
    sizes = range(BLOCK_ROWS, BLOCK_ROWS // 2, -1)
    size = next((s for s in sizes if rows % s == 0), -(-rows // -(-rows // BLOCK_ROWS)))
    blocks = -(-rows // size)
    inside = None
    if blocks * size > rows:
        padding = (0, blocks * size - rows)
        columns = [jnp.pad(c, [padding] + [(0, 0)] * (c.ndim - 1), mode="edge") for c in columns]
    if blocks * size > rows or count is not None:
        inside = lax.iota(jnp.int32, blocks * size) < (rows if count is None else count)
        inside = inside.astype(_dtype(columns)).reshape(blocks, size)
    return [c.reshape(blocks, size, *c.shape[1:]) for c in columns], inside


def _sum_of_first_rows(
    block: Callable[..., Array], columns: Sequence[Array], count: Array
) -> Array:
    """Return the sum over as many blocks as hold data: rows beyond them cost nothing."""
    rows = columns[0].shape[0]

    def parts(start: Array | int) -> list[Array]:
        return [lax.dynamic_slice_in_dim(c, start, BLOCK_ROWS) for c in columns]

    def add(index: Array, total: Array) -> Array:
        first = index * BLOCK_ROWS
        start = jnp.minimum(first, rows - BLOCK_ROWS)
        row = start + lax.iota(jnp.int32, BLOCK_ROWS)
        inside = ((row >= first) & (row < count)).astype(_dtype(columns))
        return total + block(inside, *parts(start))

    shape = jax.eval_shape(lambda: block(jnp.ones(BLOCK_ROWS, _dtype(columns)), *parts(0)))
    blocks = (count + BLOCK_ROWS - 1) // BLOCK_ROWS
    return lax.fori_loop(0, blocks, add, jnp.zeros(shape.shape, shape.dtype))


def mean_product(
    rows: Callable[..., Array],
    columns: Sequence[Array],
    weights: Array | None,
    count: Array | None = None,
) -> Array:
    """Return the weighted mean over the data of ``r r^T``, ``r = rows(inside, *columns) (m, n)``.

    ``weights`` sum to 1 (and are 0 in rows that are not data); None stands for equal weights.
    ``inside`` is as in `sum_over_rows`: where it is 0, r must be.
    """
    if weights is None:
        total = sum_over_rows(lambda *parts: inner_products(rows(*parts)), columns, count)
        return total / row_count(count, columns[0])

    def block(inside: Array | None, w: Array, *parts: Array) -> Array:
        r = rows(inside, *parts)
        return _product(r * w[None, :], r)

    return sum_over_rows(block, (weights, *columns))


@jax.custom_jvp
def inner_products(rows: Array) -> Array:
    """Return ``R R^T (m, m)``, of ``rows (m, n)``; differentiable to any order."""
    return _product(rows, rows)


@inner_products.defjvp
def _inner_products_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    half = _product(primals[0], tangents[0])  # once, where JAX would compute the transpose too
    return inner_products(*primals), half + half.T


def _product(left: Array, right: Array) -> Array:
    return lax.dot_general(left, right, (((1,), (1,)), ((), ())), precision=lax.Precision.HIGHEST)
