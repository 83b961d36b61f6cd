"""P-values of very many pairs by ranks, a square of columns at a time.

The test of `rank_tests` in two programs that all tables share: products of functions over rows, and
the combined p-value of all blocks.  Singular values are in closed form or by squaring, and Roy's
laws are interpolated in tables.  In float32, log p-values have a relative error of some 1e-5; where
a correlation c is nearly 1, the error of 1 - c^2.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from scipy import special

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.ranks import (
    BLOCKS,
    MOST_FUNCTIONS,
    RankedColumn,
    function_count,
    untied,
)
from hgr_jax.core.ranks import OF_FEW
from hgr_jax.core.rows import jitted
from hgr_jax.inference.rank_law import (
    LARGEST_PVALUE,
    MIN_TABULATED_ROWS,
    above_diagonal,
    log_probability,
)
from hgr_jax.inference.roys_root.law import log_survival_of_many

PRODUCT_ROWS = 1024
"""Number of rows whose products are taken at a time; with fewer rows, the next power of two."""

ROW_CACHE_BYTES = 2**29
"""Largest number of bytes of cached functions of the left part of a square."""

LAW_NODES = 4096
"""Nodes of the table of a law, equidistant in log(1 + t) with t = sqrt(-n log(1 - c^2))."""

MAX_LOG_REMAINDER = 16.0
"""Value of -log(1 - c^2) beyond which float32 hardly tells c from 1."""

SQUARINGS = 16
"""Number of squarings of a 3 x 3 matrix: separates roots that differ by more than 1 in 65,536."""

INTERPOLATION_NODES = 4
"""Number of nodes of a table from which a value is interpolated."""


class RankScreen:
    """Tests by ranks of columns without missing values, a square of two parts at a time.

    Attributes:
      parts: ranked columns with reliable functions, as reduced by `as_float32`.
      side: largest number of columns of a part.
      laws: tables of the laws of the blocks, on the host.
    """

    def __init__(
        self, parts: Sequence[Sequence[RankedColumn]], side: int, laws: Any = None
    ) -> None:
        """Prepare the tables, or take those ``laws`` of another screen of the table."""
        self.parts, self.side = parts, side
        self.rows = len(parts[0][0].codes)
        self.at_once = min(PRODUCT_ROWS, 1 << (self.rows - 1).bit_length())
        self.counts = np.zeros((len(parts), side), np.intp)
        self.effective_share, self.log_orders = np.zeros((2, len(parts), side))
        for place, part in enumerate(parts):
            for name in ("effective_share", "log_orders"):
                getattr(self, name)[place, : len(part)] = [getattr(each, name) for each in part]
            self.counts[place, : len(part)] = [each.reliable for each in part]
        if laws is None:
            which, pairs = laws_by_counts(np.unique(self.counts[self.counts > 0]))
            laws = which, *law_tables(pairs, self.rows)
        self.laws, self._tables = laws, jax.device_put(laws)
        chunks = -(-self.rows // self.at_once)
        each = 4 * MOST_FUNCTIONS * side * self.at_once
        # Squares come row by row: the left part stays the same, the right part changes.
        size = chunks if each * chunks <= ROW_CACHE_BYTES else 1
        self._left_functions = functools.lru_cache(maxsize=size)(self._functions)

    def start(self, left: int, right: int) -> Array:
        """Start to compute the combined log p-values of a square of two parts."""
        total: Products | None = None
        for first in range(0, self.rows, self.at_once):
            f = self._left_functions(left, first)
            g = f if left == right else self._functions(right, first)
            total = _of_some_rows(f, g) if total is None else _with_more(total, f, g)
        assert total is not None
        counts = jax.device_put((self.counts[left], self.counts[right]))
        return combined_log_p(total, jax.device_put(np.float32(self.rows)), *counts, *self._tables)

    def log_pvalues(self, left: int, right: int, log_ps: Array) -> Floats:
        """Return log p-values ``(p, q)`` from `start`; NaN up to the diagonal for equal parts."""
        i, j = slice(len(self.parts[left])), slice(len(self.parts[right]))
        combined = np.asarray(log_ps, np.float64)[i, j]
        share = self.effective_share[left, i, None] * self.effective_share[right, j]
        effective_rows = np.maximum(self.rows * share, MIN_TABULATED_ROWS).ravel()
        log_p = log_probability(
            combined.ravel(), self.rows if (share == 1).all() else effective_rows
        )
        orders = np.maximum(self.log_orders[left, i, None], self.log_orders[right, j])
        log_p = np.maximum(log_p.reshape(combined.shape), orders - special.gammaln(self.rows + 1))
        return above_diagonal(log_p) if left == right else log_p

    def _functions(self, part: int, first: int) -> Array:
        """Put functions ``(32, side, rows)`` of a part on the device; unreliable ones are 0."""
        columns, rows = self.parts[part], slice(first, first + self.at_once)
        functions = np.zeros((MOST_FUNCTIONS, self.side, self.at_once), np.float32)
        # Columns without ties share a table, and are looked up together.
        shared = [place for place, column in enumerate(columns) if column.of_levels is None]
        if shared:
            codes = np.stack([columns[place].codes[rows] for place in shared])
            table = _untied(self.rows)
            functions[: len(table), shared, : codes.shape[1]] = table.take(codes, axis=1)
        for place in sorted({*range(len(columns))} - {*shared}):
            column = columns[place]
            of_column = column.table.take(column.codes[rows], axis=1)
            functions[: len(of_column), place, : of_column.shape[1]] = of_column
        return jax.device_put(functions)


@functools.lru_cache(maxsize=2)
def _untied(rows: int) -> Floats:
    return untied(rows, function_count(rows)).astype(np.float32, order="C")


def laws_by_counts(counts: Integers) -> tuple[Integers, list[tuple[int, int]]]:
    """Return the law of each block, ``(33, 33, blocks)`` by numbers of functions, and all laws.

    The law is -1 for a block that equals an earlier one.  Laws are pairs: the smaller and the
    larger number of functions.
    """
    which = np.full((MOST_FUNCTIONS + 1, MOST_FUNCTIONS + 1, len(BLOCKS)), -1, np.intp)
    laws: dict[tuple[int, int], int] = {}
    for h, k in itertools.product(counts.tolist(), repeat=2):
        limits = [(min(h, i), min(k, j)) for i, j in BLOCKS]
        for place, limit in enumerate(limits):
            if limit not in limits[:place]:
                law = (min(limit), max(limit))
                which[h, k, place] = laws.setdefault(law, len(laws))
    return which, [*laws]


def law_tables(laws: Sequence[tuple[int, int]], rows: int) -> tuple[Floats, np.float32]:
    """Return log P ``(laws, nodes)`` for ``rows``, and log(1 + t) of the last node."""
    last = np.log1p(np.sqrt(MAX_LOG_REMAINDER * rows))
    t = np.expm1(np.linspace(0, last, LAW_NODES))
    c = np.sqrt(-np.expm1(-(t**2) / rows))
    small, large = np.array(laws).T[..., None]
    log_p = log_survival_of_many(np.broadcast_to(c, (len(laws), len(c))), rows, small, large)
    return log_p.astype(np.float32), np.float32(last)


class Products(NamedTuple):
    """Sums over the rows of products of functions of two parts of s columns.

    Attributes:
      wide: ``(16, s, 2, s)``, first functions of the left part, the first two of the right part.
      tall: ``(16, s, 2, s)``, first functions of the right part, the first two of the left part.
      third: ``(s, s)``, both third functions.
      far: ``(16, s, s)``, last functions of the left part, the first one of the right part.
      backward: ``(16, s, s)``, last functions of the right part, the first one of the left part.
    """

    wide: Array
    tall: Array
    third: Array
    far: Array
    backward: Array


def _sums_of_products(f: Array, g: Array) -> Products:
    """Return products of functions ``(32, s, n)`` of two parts."""
    pairs = (
        (f[:OF_FEW], g[:2]),
        (g[:OF_FEW], f[:2]),
        (f[2], g[2]),
        (f[OF_FEW:], g[0]),
        (g[OF_FEW:], f[0]),
    )
    return Products(*(_over_rows(*pair) for pair in pairs))


def _over_rows(one: Array, other: Array) -> Array:
    last = (one.ndim - 1,), (other.ndim - 1,)
    return lax.dot_general(one, other, (last, ((), ())), precision=lax.Precision.HIGHEST)


_of_some_rows = jitted(_sums_of_products)


@jitted
def _with_more(total: Products, f: Array, g: Array) -> Products:
    return Products(*map(jnp.add, total, _sums_of_products(f, g)))


@jitted
def combined_log_p(
    products: Products, rows: Array, h: Array, k: Array, which: Array, tables: Array, last: Array
) -> Array:
    """Return ``log_p (s, s)`` of `hgr_jax.inference.rank_law.combined`, of counts ``(s,)``."""
    laws = which[h[:, None], k[None, :]]
    products = Products(*(each / rows for each in products))
    log_p = jnp.stack(
        [
            _log_survival(square, laws[..., i], rows, tables, last)
            for i, square in enumerate(_squared_top_values(products))
        ]
    )
    new = jnp.moveaxis(laws, -1, 0) >= 0
    log_p = jnp.where(new, log_p, jnp.inf)
    count = new.sum(axis=0, dtype=log_p.dtype)
    least = log_p.min(axis=0)
    p = jnp.exp(jnp.clip(log_p, -30, float(np.log(LARGEST_PVALUE))))
    mean = jnp.where(new, 1 / jnp.tan(jnp.pi * p), 0).sum(axis=0) / count
    near = jnp.arctan2(1, mean) / jnp.pi
    far = least + jnp.log(count) - jnp.log(jnp.exp(least[None] - log_p).sum(axis=0))
    return jnp.where(least > -25, jnp.log(near), far)


def _squared_top_values(products: Products) -> list[Array]:
    """Return the squared top singular value of each of `BLOCKS`."""
    wide, tall, third, far, backward = products
    squares = {(1, 1): wide[0, :, 0] ** 2}
    for count in (2, 8, OF_FEW):
        squares[count, 2], right = (
            _top_of_two(*([side[i, :, j] for i in range(count)] for j in range(2)))
            for side in (wide, tall)
        )
        squares[2, count] = right.T
    last = [*(tall[2, :, i].T for i in range(2)), third]
    squares[3, 3] = _top_of_three([[wide[i, :, 0], wide[i, :, 1], last[i]] for i in range(3)])
    squares[MOST_FUNCTIONS, 1], right = (
        jnp.sum(side[:, :, 0] ** 2, axis=0) + jnp.sum(others**2, axis=0)
        for side, others in ((wide, far), (tall, backward))
    )
    squares[1, MOST_FUNCTIONS] = right.T
    return [jnp.minimum(squares[block], 1) for block in BLOCKS]


def _top_of_two(first: list[Array], second: list[Array]) -> Array:
    """Return the squared top singular value of two columns."""
    a, b, c = _dot(first, first), _dot(first, second), _dot(second, second)
    return (a + c) / 2 + jnp.hypot((a - c) / 2, b)


def _top_of_three(m: list[list[Array]]) -> Array:
    """Return the squared top singular value of a matrix of 3 x 3, by squaring its Gram matrix."""
    columns = list(zip(*m, strict=True))
    gram = [[_dot(one, other) for other in columns] for one in columns]
    power = gram
    for _ in range(SQUARINGS):
        size = jnp.maximum(power[0][0] + power[1][1] + power[2][2], np.finfo(np.float32).tiny)
        rows = [[each / size for each in row] for row in power]
        power = [[_dot(one, other) for other in rows] for one in rows]  # symmetric
    trace = power[0][0] + power[1][1] + power[2][2]
    both = _dot([*itertools.chain(*power)], [*itertools.chain(*gram)])
    return jnp.where(trace > 0, both / jnp.where(trace > 0, trace, 1), 0)


def _dot(one: Sequence[Array], other: Sequence[Array]) -> Array:
    return functools.reduce(jnp.add, map(jnp.multiply, one, other))


def _log_survival(square: Array, law: Array, rows: Array, tables: Array, last: Array) -> Array:
    """Return the logarithm of Roy's law at squared values, from the tables."""
    at = jnp.log1p(jnp.sqrt(-rows * jnp.log1p(-square)))
    place = jnp.minimum(at / last, 1) * (LAW_NODES - 1)
    first = jnp.clip(place.astype(jnp.int32) - 1, 0, LAW_NODES - INTERPOLATION_NODES)
    left = place - first.astype(place.dtype)
    offset = jnp.maximum(law, 0) * LAW_NODES + first.astype(law.dtype)
    weights = [
        functools.reduce(
            jnp.multiply, [(left - j) / (i - j) for j in range(INTERPOLATION_NODES) if j != i]
        )
        for i in range(INTERPOLATION_NODES)
    ]
    values = [tables.ravel()[offset + i] for i in range(INTERPOLATION_NODES)]
    return jnp.minimum(_dot(weights, values), 0)
