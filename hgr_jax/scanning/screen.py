"""P-values of very many pairs by ranks, a square of columns at a time.

The test is that of `rank_tests`, in two programs that every table shares: products of the
polynomials of some rows, and from these one p-value of all blocks.  Singular values are in closed
form or by squaring, and Roy's laws are read from tables.  In float32: logarithms of p-values are
within some 1e-5 of their size, and where a correlation is all but 1, as far as float32 knows
1 - c^2.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from scipy import special

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.padding import jitted
from hgr_jax.inference._rank_blocks import BLOCKS, LARGEST_PVALUE
from hgr_jax.inference._rank_law import LEAST_ROWS, log_probability
from hgr_jax.inference._ranked import LARGEST_DEGREE, RankedColumn, untied
from hgr_jax.inference.roys_root.interpolation import log_survival_of_many
from hgr_jax.scanning.exact_tests import above_diagonal
from hgr_jax.scanning.rank_tests import FIRST

PRODUCT_ROWS = 1024
"""Of which products are taken at a time; of fewer rows, a power of two that holds them."""

KEPT_BYTES = 2**29
"""Up to which the polynomials of a part are kept while it is on the left of squares."""

LAW_NODES = 4096
"""Of the table of a law, equidistant in log(1 + t) with t = sqrt(-n log(1 - c^2))."""

FLOAT32_DIGITS = 16.0
"""-log(1 - c^2) of a c that float32 hardly tells from 1."""

SQUARINGS = 16
"""Of a 3 x 3 matrix: of roots that differ by less than 1 in 65,536, either will do."""

LAW_POINTS = 4
"""Of a table, by which a value is interpolated."""


class RankScreen:
    """Columns by their ranks, without missing values, and the laws of their pairs.

    Attributes:
      parts: columns, of which at least one degree is trusted; best as `light` returns them.
      side: how many columns a part has at most.
    """

    def __init__(self, parts: Sequence[Sequence[RankedColumn]], side: int) -> None:
        """Prepare the tables."""
        self.parts, self.side = parts, side
        self.rows = len(parts[0][0].codes)
        self.at_once = min(PRODUCT_ROWS, 1 << (self.rows - 1).bit_length())
        self.trusted = np.zeros((len(parts), side), np.intp)
        self.worth, self.log_orders = np.zeros((2, len(parts), side))
        for place, part in enumerate(parts):
            for name in ("trusted", "worth", "log_orders"):
                getattr(self, name)[place, : len(part)] = [getattr(each, name) for each in part]
        self.which, laws = laws_of(np.unique(self.trusted[self.trusted > 0]))
        self.tables = law_tables(laws, self.rows)
        chunks = -(-self.rows // self.at_once)
        kept = 4 * LARGEST_DEGREE * side * self.at_once * chunks <= KEPT_BYTES
        # Squares come row by row: the left part stays, and the right one is another each time.
        self._of_left = functools.lru_cache(maxsize=chunks if kept else 1)(self._polynomials)

    def start(self, left: int, right: int) -> Array:
        """Begin with the combined p-values of a square of two parts, which `log_pvalues` takes."""
        total: tuple[Array, ...] | None = None
        for first in range(0, self.rows, self.at_once):
            f = self._of_left(left, first)
            g = f if left == right else self._polynomials(right, first)
            total = _of_some_rows(f, g) if total is None else _with_more(total, f, g)
        assert total is not None
        degrees = self.trusted[left], self.trusted[right]
        return combined_log_p(total, np.float32(self.rows), *degrees, self.which, *self.tables)

    def log_pvalues(self, left: int, right: int, started: Array) -> Floats:
        """Return the logarithms of the p-values of two parts ``(p, q)``.

        Of one part with itself, they are NaN but above the diagonal.
        """
        i, j = slice(len(self.parts[left])), slice(len(self.parts[right]))
        found = np.asarray(started, np.float64)[i, j]
        share = self.worth[left, i, None] * self.worth[right, j]
        worth = np.maximum(self.rows * share, LEAST_ROWS).ravel()
        log_p = log_probability(found.ravel(), self.rows if (share == 1).all() else worth)
        orders = np.maximum(self.log_orders[left, i, None], self.log_orders[right, j])
        log_p = np.maximum(log_p.reshape(found.shape), orders - special.gammaln(self.rows + 1))
        return above_diagonal(log_p) if left == right else log_p

    def _polynomials(self, part: int, first: int) -> Floats:
        """Return polynomials ``(16, side, rows)`` of some columns at some rows, 0 beyond."""
        found = np.zeros((LARGEST_DEGREE, self.side, self.at_once), np.float32)
        for place, column in enumerate(self.parts[part]):
            codes = column.codes[first : first + self.at_once]
            found[: column.trusted, place, : len(codes)] = column.table[: column.trusted, codes]
        return found


def light(column: RankedColumn) -> RankedColumn:
    """Return a column with what a screen needs of it."""
    table, codes = column.table, column.codes
    of_all = column.trusted == LARGEST_DEGREE and not table.flags.writeable
    table = _untied(len(codes)) if of_all else table[: column.trusted].astype(np.float32)
    return dataclasses.replace(column, codes=codes.astype(np.int32), table=table)


@functools.lru_cache(maxsize=2)
def _untied(rows: int) -> Floats:
    return untied(rows).astype(np.float32)


def laws_of(degrees: Integers) -> tuple[Integers, list[tuple[int, int]]]:
    """Return which law each block has, ``(17, 17, blocks)`` for degrees of both sides.

    It is -1 for a block that is the same as one before it.  And the smaller and the larger number
    of functions of each law.
    """
    which = np.full((LARGEST_DEGREE + 1, LARGEST_DEGREE + 1, len(BLOCKS)), -1, np.intp)
    laws: dict[tuple[int, int], int] = {}
    for h, k in itertools.product(degrees.tolist(), repeat=2):
        limits = [(min(h, i), min(k, j)) for i, j in BLOCKS]
        for place, limit in enumerate(limits):
            if limit not in limits[:place]:
                law = (min(limit), max(limit))
                which[h, k, place] = laws.setdefault(law, len(laws))
    return which, [*laws]


def law_tables(laws: Sequence[tuple[int, int]], rows: int) -> tuple[Floats, np.float32]:
    """Return log P ``(laws, nodes)`` of so many rows, and the log(1 + t) of the last node."""
    last = np.log1p(np.sqrt(FLOAT32_DIGITS * rows))
    t = np.expm1(np.linspace(0, last, LAW_NODES))
    c = np.sqrt(-np.expm1(-(t**2) / rows))
    small, large = np.array(laws).T[..., None]
    found = log_survival_of_many(np.broadcast_to(c, (len(laws), len(c))), rows, small, large)
    return found.astype(np.float32), np.float32(last)


def _cross_moments(f: Array, g: Array) -> tuple[Array, ...]:
    """Return the cross moments that blocks have, times the rows, of ``f`` and ``g (16, s, n)``.

    All of f with the first two of g, ``(16, s, 2, s)``; the first two of f with all of g, ``(2, s,
    16, s)``; and the third ones, ``(s, s)``.
    """
    return (
        lax.dot_general(f, g[:FIRST], _OF_ROWS, precision=lax.Precision.HIGHEST),
        lax.dot_general(f[:FIRST], g, _OF_ROWS, precision=lax.Precision.HIGHEST),
        lax.dot_general(f[2], g[2], (((1,), (1,)), ((), ())), precision=lax.Precision.HIGHEST),
    )


_OF_ROWS = (((2,), (2,)), ((), ()))


_of_some_rows = jitted(_cross_moments)


@jitted
def _with_more(total: tuple[Array, ...], f: Array, g: Array) -> tuple[Array, ...]:
    return tuple(map(jnp.add, total, _cross_moments(f, g)))


@jitted
def combined_log_p(
    products: tuple[Array, ...],
    rows: Array,
    h: Array,
    k: Array,
    which: Array,
    tables: Array,
    last: Array,
) -> Array:
    """Return what `hgr_jax.inference._rank_blocks.combined` does, ``(s, s)``."""
    laws = which[h[:, None], k[None, :]]
    wide, tall, third = (each / rows for each in products)
    log_p = jnp.stack(
        [
            _log_survival(square, laws[..., i], rows, tables, last)
            for i, square in enumerate(_top_squares(wide, tall, third))
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


def _top_squares(wide: Array, tall: Array, third: Array) -> list[Array]:
    """Return the squared top singular value of each of `BLOCKS`."""
    found = {(1, 1): wide[0, :, 0] ** 2}
    columns = [[wide[i, :, 0] for i in range(16)], [wide[i, :, 1] for i in range(16)]]
    rows = [[tall[0, :, i] for i in range(16)], [tall[1, :, i] for i in range(16)]]
    for degree in (8, 16):
        found[degree, 2] = _top_of_two(*(side[:degree] for side in columns))
        found[2, degree] = _top_of_two(*(side[:degree] for side in rows))
    found[3, 3] = _top_of_three(
        [[wide[i, :, 0], wide[i, :, 1], tall[i, :, 2] if i < FIRST else third] for i in range(3)]
    )
    return [jnp.minimum(found[block], 1) for block in BLOCKS]


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
        power = [[_dot(one, other) for other in rows] for one in rows]  # they are symmetric
    trace = power[0][0] + power[1][1] + power[2][2]
    both = _dot([*itertools.chain(*power)], [*itertools.chain(*gram)])
    return jnp.where(trace > 0, both / jnp.where(trace > 0, trace, 1), 0)


def _dot(one: Sequence[Array], other: Sequence[Array]) -> Array:
    return functools.reduce(jnp.add, map(jnp.multiply, one, other))


def _log_survival(square: Array, law: Array, rows: Array, tables: Array, last: Array) -> Array:
    """Return the logarithm of Roy's law at squared values, from the tables."""
    at = jnp.log1p(jnp.sqrt(-rows * jnp.log1p(-square)))
    place = jnp.minimum(at / last, 1) * (LAW_NODES - 1)
    first = jnp.clip(place.astype(jnp.int32) - 1, 0, LAW_NODES - LAW_POINTS)
    left = place - first.astype(place.dtype)
    offset = jnp.maximum(law, 0) * LAW_NODES + first.astype(law.dtype)
    weights = [
        functools.reduce(jnp.multiply, [(left - j) / (i - j) for j in range(LAW_POINTS) if j != i])
        for i in range(LAW_POINTS)
    ]
    values = [tables.ravel()[offset + i] for i in range(LAW_POINTS)]
    return jnp.minimum(_dot(weights, values), 0)
