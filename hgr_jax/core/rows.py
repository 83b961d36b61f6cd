"""Rows: padded to few lengths, and summed over in blocks.

*Padding.*  XLA compiles a program for every shape.  A function of concrete arrays therefore pads
their rows to one of few lengths, and counts the rows that are data (`over_rows`).  Inside a
caller's `jax.jit`, or another transformation, nothing is padded.

*Sums.*  An estimate needs only the Gram matrix of basis functions of both variables: a sum over
rows, computed in blocks that fit in cache (`mean_product`), so that no array of the size of the
data times the degrees is in memory.  All blocks have one shape, as each shape is compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from hgr_jax._arrays import is_traced
from hgr_jax.core.arrays import on_host
from hgr_jax.core.numerics import on_shards_of, row_count, row_mask

MIN_LENGTH = 128
"""Largest number of rows for which all lengths share a program."""

LENGTHS_PER_DOUBLING = 4
"""Lengths from one power of two to the next: at most a quarter of the rows is padding."""

Result = TypeVar("Result")


def padded_length(rows: int) -> int:
    """Return the smallest of the few lengths that holds this number of rows."""
    if rows <= MIN_LENGTH:
        return MIN_LENGTH
    step = (1 << (rows - 1).bit_length()) // (2 * LENGTHS_PER_DOUBLING)
    return -(-rows // step) * step


def pad_rows(x: Any, length: int, *, fill: Any = None) -> Any:
    """Return a concrete ``x (n, ...)`` padded to ``length`` rows, with ``fill`` or its last row."""
    if x is None or x.shape[0] in (0, length):
        return x
    if isinstance(x, Array) and not on_host(x):
        return _padded_on_device(x, fill, length=length)
    host = np.asarray(x)
    padded = np.empty((length, *host.shape[1:]), host.dtype)
    padded[: len(host)] = host
    padded[len(host) :] = host[-1:] if fill is None else fill
    return padded


def first_rows(x: Array, rows: int) -> Array:
    """Return the first ``rows`` of a result ``(n, ...)``, without a program for each length."""
    if x.shape[0] == rows:
        return x
    return jax.device_put(np.asarray(x)[:rows]) if on_host(x) else x[:rows]


@functools.partial(jax.jit, static_argnames="length")
def _padded_on_device(x: Array, fill: Any, *, length: int) -> Array:
    extra = [(0, length - x.shape[0])] + [(0, 0)] * (x.ndim - 1)
    if fill is None:
        return jnp.pad(x, extra, mode="edge")
    return jnp.pad(x, extra, constant_values=fill)


def over_rows(
    *, columns: int, static: Sequence[str] = (), weights: int | None = None
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Compile a function for few numbers of rows of its first ``columns`` arguments (or None).

    The function takes a keyword ``count``: the number of rows that are data, an int32 array ``()``,
    or None inside a transformation of JAX.  Column number ``weights`` is padded with 0.
    """

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        inside = jax.jit(function, static_argnames=tuple(static))
        outside = jitted(function, static=static)

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Result:
            if is_traced(arguments, options):
                return inside(*arguments, count=None, **options)
            rows = arguments[0].shape[0]
            length = padded_length(rows)
            padded = [
                pad_rows(x, length, fill=0 if i == weights else None)
                for i, x in enumerate(arguments[:columns])
            ]
            return outside(*padded, *arguments[columns:], count=np.int32(rows), **options)

        return call

    return decorate


def row_by_row(*, columns: int) -> Callable[[Callable[..., Array]], Callable[..., Array]]:
    """Compile a function that acts row by row on its first ``columns`` arguments."""

    def decorate(function: Callable[..., Array]) -> Callable[..., Array]:
        def on_padded_rows(*arguments: Any, count: Array | None) -> Array:
            del count  # rows that are not data are cut off
            return function(*arguments)

        compiled = over_rows(columns=columns)(on_padded_rows)

        @functools.wraps(function)
        def call(*arguments: Any) -> Array:
            return first_rows(compiled(*arguments), arguments[0].shape[0])

        return call

    return decorate


def jitted(function: Callable[..., Any], *, static: Sequence[str] = ()) -> Callable[..., Any]:
    """Compile a function of concrete arrays in one part, as parts take memory maps and time."""
    return jax.jit(
        function, static_argnames=tuple(static), compiler_options=dict(_compiler_options())
    )


@functools.cache
def _compiler_options() -> tuple[tuple[str, Any], ...]:
    options: list[tuple[str, Any]] = [("xla_cpu_parallel_codegen_split_count", 1)]
    if jax.__version_info__ < (0, 10):
        # These releases emit a part of a program for every kernel; later ones lack the option.
        options.append(("xla_cpu_use_fusion_emitters", False))
    return tuple(options)


WHOLE_ROWS = 16384
"""Largest number of rows whose blocks are computed together, in a core's cache."""

BLOCK_ROWS = 1536
"""Approximate number of rows of a block.  A float32 sum of more products loses more digits, most
where the products are equal, as of a discrete variable: all round to the same side."""


def sum_over_rows(
    block: Callable[..., Array], columns: Sequence[Array], count: Array | None = None
) -> Array:
    """Return ``block(inside, *columns)`` summed over blocks of rows.

    ``inside (rows,)`` is 1 for data and 0 for padding, or None where all rows are data.  The
    reverse-mode derivative recomputes each block; with ``count`` there is none.
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

    start = on_shards_of(columns[0], jnp.zeros(shape.shape, shape.dtype))
    total, _ = lax.scan(add, start, (inside, *stacked))
    return total


def _dtype(columns: Sequence[Array]) -> Any:
    return jnp.result_type(*(c for c in columns if jnp.issubdtype(c.dtype, jnp.floating)))


def _in_blocks(columns: Sequence[Array], count: Array | None) -> tuple[list[Array], Array | None]:
    """Return columns ``(blocks, size, ...)``, and which rows are data, None for all."""
    rows = columns[0].shape[0]
    # A size near `BLOCK_ROWS` that divides the number of rows needs no copy.
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
    """Return the sum over the blocks that hold data."""
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

    ``weights`` have sum 1, and are 0 for padding; None for equal ones.  Where ``inside`` (of
    `sum_over_rows`) is 0, r must be 0.
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
    half = _product(primals[0], tangents[0])  # JAX would compute its transpose as well
    return inner_products(*primals), half + half.T


def _product(left: Array, right: Array) -> Array:
    return lax.dot_general(left, right, (((1,), (1,)), ((), ())), precision=lax.Precision.HIGHEST)
