"""Gram matrices of the features of many columns: products over rows, in blocks of rows.

A *tile* is a set of columns of one kind.  The features of a row are made where they are used, so
that nothing of the size of the rows times the degrees is ever in memory:

* numbers: ``p_1 .. p_d`` of each column, near-orthonormal polynomials, 0 where it is missing;
* categories: an indicator of each level, 0 where it is missing;
* patterns: the weight of a row where a pattern of missing values has it, else 0.

Features are NumPy's, and so are narrow products: every table has another shape, for which XLA
would compile for longer than the arithmetic takes.  Wide products are JAX's, one small program for
each width: it has the accelerator, and on a busy CPU its threads do not wait for each other.
Blocks are computed in the dtype of the data, and summed in double precision.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from itertools import combinations_with_replacement

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._threads import can_limit_blas, in_threads
from hgr_jax.core.padding import jitted
from hgr_jax.scanning.functions import RowFunctions

TILE_ROWS = 2048
"""Rows whose features are in memory at a time."""

TILE_NUMBERS = 2**22
"""Numbers of a block's features, with fewer rows where there are many features."""

PARALLEL_NUMBERS = 2**21
"""Numbers of features, or 32 times as many products, that are worth a thread.

To wake one takes a millisecond, at times.
"""

WIDE = 256
"""Products of so many features or more on both sides are JAX's."""

PARTS = 4
"""A wide symmetric product is made of the upper half of so many parts a side: fewer operations."""

Block = Callable[[slice], Floats]


def sum_in_blocks(block: Block, rows: int, width: int, *, products: int = 0) -> NDArray[np.float64]:
    """Return the sum of ``block`` of parts of so many rows, each with ``width`` features.

    And so many ``products`` of them, where these may take longer than to make the features.
    """
    size = min(TILE_ROWS, max(128, TILE_NUMBERS // max(width, 1)))

    def total(start: int, end: int) -> NDArray[np.float64]:
        found = np.asarray(block(slice(start, min(start + size, end))), np.float64)
        for first in range(start + size, end, size):
            found += block(slice(first, min(first + size, end)))
        return found

    count = min(os.cpu_count() or 1, rows * (width + products // 32) // PARALLEL_NUMBERS)
    if count < 2 or (width > WIDE and not can_limit_blas()):
        return total(0, rows)
    ends = [rows * i // count for i in range(count + 1)]
    return functools.reduce(np.add, in_threads(total, ends[:-1], ends[1:]))


def _wide_products(
    features: Callable[[slice], tuple[Floats, Floats | None]], rows: int, dtype: np.dtype
) -> NDArray[np.float64]:
    """Sum ``f g^T``, or ``f f^T``, over blocks of rows, by JAX.

    ``features`` of some rows are ``f (m, rows)`` and ``g (q, rows)`` or None, both wide.
    """
    total: NDArray[np.float64] | None = None
    pending: Array | None = None
    shapes = (0, 0)
    devices = _DEVICES.get()
    own, both = _shared(devices) if devices else (_upper, _full)
    each = -(-TILE_ROWS // max(len(devices), 1)) * max(len(devices), 1)

    def padded(f: Floats) -> Floats:
        """Return ``f`` padded with 0 to a multiple of 64 features and the rows of a block."""
        found = np.empty((-(-len(f) // 64) * 64, each), dtype)
        found[: len(f), : f.shape[1]] = f
        found[: len(f), f.shape[1] :] = 0
        found[len(f) :] = 0
        return found

    def done(found: Array) -> NDArray[np.float64]:
        part = np.asarray(found)[: shapes[0], : shapes[1]]
        return part.astype(np.float64) if total is None else np.add(total, part, out=total)

    for start in range(0, rows, each):
        f, g = features(slice(start, min(start + each, rows)))
        shapes = len(f), len(f if g is None else g)
        # The features of a block are made while the products of the one before it are computed.
        following = own(padded(f)) if g is None else both(padded(f), padded(g))
        total = total if pending is None else done(pending)
        pending = following
    assert pending is not None
    total = done(pending)
    if shapes[0] == shapes[1] and g is None:
        upper = np.triu(total)
        total = upper + np.triu(total, 1).T
    return total


_transposed = functools.partial(
    lax.dot_general, dimension_numbers=(((1,), (1,)), ((), ())), precision=lax.Precision.HIGHEST
)

_full = jitted(_transposed)


def _upper_half(f: Array) -> Array:
    """Return ``f f^T`` on and above its diagonal, and 0 in most of what is below."""
    size = len(f) // PARTS
    rows = [
        jnp.pad(_transposed(f[i * size : (i + 1) * size], f[i * size :]), ((0, 0), (i * size, 0)))
        for i in range(PARTS)
    ]
    return jnp.concatenate(rows)


_upper = jitted(_upper_half)

_DEVICES: ContextVar[tuple[jax.Device, ...]] = ContextVar("devices", default=())
"""Those of the wide products.  Products are asked for in many places; where they are computed
concerns none of them."""


@contextlib.contextmanager
def on_devices(devices: Sequence[jax.Device] | None) -> Iterator[None]:
    """Share the rows of wide products among devices, within; None for JAX's default one."""
    token = _DEVICES.set(tuple(devices or ()))
    try:
        yield
    finally:
        _DEVICES.reset(token)


@functools.lru_cache(maxsize=8)
def _shared(devices: tuple[jax.Device, ...]) -> tuple[Callable[..., Array], Callable[..., Array]]:
    """Return `_upper` and `_full` of features whose rows are shared among devices."""
    mesh = Mesh(np.array(devices), ("rows",))
    rows = PartitionSpec(None, "rows")

    def summed(product: Callable[..., Array], count: int) -> Callable[..., Array]:
        local = jax.shard_map(
            lambda *f: lax.psum(product(*f), "rows"),
            mesh=mesh,
            in_specs=(rows,) * count,
            out_specs=PartitionSpec(),
        )
        placed = NamedSharding(mesh, rows)
        program = jax.jit(local)
        return lambda *f: program(*(jax.device_put(each, placed) for each in f))

    return summed(_upper_half, 1), summed(_transposed, 2)


def number_products(
    left: RowFunctions, right: RowFunctions, weights: Floats | None
) -> NDArray[np.float64]:
    """Sum ``w p_a(x_i) p_b(y_j)`` over rows, ``(d c, d e)``, by degree, then by column."""

    def both(rows: slice) -> tuple[Floats, Floats]:
        f, g = left(rows)[1:], right(rows)[1:]
        g = _weighted(g.reshape(-1, g.shape[-1]), weights, rows)
        return f.reshape(-1, f.shape[-1]), g

    widths = left.count * left.shape[1], right.count * right.shape[1]
    return _row_products(both, left.shape[0], widths, left.dtype)


def _row_products(
    both: Callable[[slice], tuple[Floats, Floats | None]],
    rows: int,
    widths: tuple[int, int],
    dtype: np.dtype,
) -> NDArray[np.float64]:
    """Sum ``f g^T`` over rows, or ``f f^T`` where there is no g."""
    if min(widths) >= WIDE:
        return _wide_products(both, rows, dtype)

    def block(part: slice) -> Floats:
        f, g = both(part)
        return f @ (f if g is None else g).T

    return sum_in_blocks(block, rows, max(widths), products=widths[0] * widths[1])


def own_products(functions: RowFunctions, weights: Floats | None) -> NDArray[np.float64]:
    """Return `number_products` of a tile with itself, p_0 = 1 first: ``(1 + d c, 1 + d c)``.

    All columns are present in the same rows.
    """
    n, columns = functions.shape

    def both(rows: slice) -> tuple[Floats, Floats | None]:
        p = functions(rows)
        f = p.reshape(-1, p.shape[-1])[columns - 1 :]
        return (f, None) if weights is None else (f, f * weights[rows])

    return _row_products(both, n, (1 + functions.count * columns,) * 2, functions.dtype)


def own_moments(
    functions: RowFunctions, weights: Floats | None, known: Floats | None = None
) -> NDArray[np.float64]:
    """Sum ``w p_a p_b`` of each column over the rows where it is present, ``(d+1, d+1, c)``.

    And with ``known (m, n)``, functions of the rows, ``w p_a z_k`` beside them,
    ``(d + 1, d + 1 + m, c)``.
    """

    def block(rows: slice) -> Floats:
        p = functions(rows).swapaxes(0, 1)
        weighted = _weighted(p, weights, rows)
        found = np.matmul(p, weighted.swapaxes(1, 2))
        if known is None:
            return found
        return np.concatenate([found, np.matmul(weighted, known[:, rows].T)], axis=2)

    n, columns = functions.shape
    return np.moveaxis(sum_in_blocks(block, n, (functions.count + 1) * columns), 0, -1)


def pattern_moments(functions: RowFunctions, patterns: Block, count: int) -> Floats:
    """Sum ``w_u p_a p_b`` of each column over rows, ``(d + 1, d + 1, c, u)``, with p_0 = 1.

    ``patterns`` of some rows are the weights ``(u, rows)`` that each of ``count`` gives them.
    """
    size, (n, columns) = functions.count + 1, functions.shape
    ends = np.cumsum(np.arange(size, -1, -1))  # of the products of each p_a with p_a, p_a+1, ...

    def block(rows: slice) -> Floats:
        p, weights = functions(rows), patterns(rows).T
        products = np.empty_like(p)
        found = np.empty((ends[-1] * columns, count), p.dtype)
        # Those of one p_a at a time, so that they are still in the cache when they are summed.
        for a, out in enumerate(np.split(found, columns * ends[:-2])):
            some = np.multiply(p[a], p[a:], out=products[a:])
            np.matmul(some.reshape(-1, p.shape[-1]), weights, out=out)
        return found

    sums = sum_in_blocks(block, n, ends[-1] * columns).reshape(-1, columns, count)
    found = np.empty((size, size, columns, count))
    for (a, b), part in zip(combinations_with_replacement(range(size), 2), sums, strict=True):
        found[a, b] = found[b, a] = part
    return found


def mixed_products(
    functions: RowFunctions,
    codes: Integers,
    levels: tuple[Integers, Integers],
    weights: Floats | None,
) -> NDArray[np.float64]:
    """Sum ``w p_a(x_i) [level l]`` over rows, ``(d c, m)``."""

    def block(rows: slice) -> Floats:
        f = functions(rows)[1:]
        g = _weighted(level_features(codes[rows], levels, functions.dtype), weights, rows)
        return f.reshape(-1, f.shape[-1]) @ g.T

    n, columns = functions.shape
    return sum_in_blocks(block, n, functions.count * columns + len(levels[0]))


def category_products(
    codes: Integers,
    left: tuple[Integers, Integers],
    right: tuple[Integers, Integers],
    weights: Floats | None,
    dtype: np.dtype,
) -> NDArray[np.float64]:
    """Sum the weights over rows of level l and level r, ``(m, q)``."""

    def block(rows: slice) -> Floats:
        g = level_features(codes[rows], right, dtype)
        f = g if left is right else level_features(codes[rows], left, dtype)
        return f @ _weighted(g, weights, rows).T

    return sum_in_blocks(block, len(codes), len(left[0]) + len(right[0]))


def category_counts(
    codes: Integers, levels: tuple[Integers, Integers], patterns: Block
) -> NDArray[np.float64]:
    """Sum the weights over rows of level l in pattern u, ``(m, u)``."""

    def block(rows: slice) -> Floats:
        weights = patterns(rows)
        return level_features(codes[rows], levels, weights.dtype) @ weights.T

    return sum_in_blocks(block, len(codes), len(levels[0]))


def level_features(codes: Integers, levels: tuple[Integers, Integers], dtype: np.dtype) -> Floats:
    """Return features ``(m, rows)``: feature l is 1 where ``codes[:, column[l]] == level[l]``."""
    column, level = levels
    return (codes.T[column] == level.astype(codes.dtype)[:, None]).astype(dtype)


def _weighted(f: Floats, weights: Floats | None, rows: slice) -> Floats:
    return f if weights is None else f * weights[rows]
