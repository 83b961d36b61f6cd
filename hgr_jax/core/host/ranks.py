"""Ranks of columns with missing values and ties, and orthonormal functions of ranked columns."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers, groups
from hgr_jax._threads import in_threads
from hgr_jax.core.host.linalg import (
    orthonormalising_maps,
    top_eigenvalues,
    top_singular_values,
)
from hgr_jax.core.ranks import (
    NEIGHBOURS,
    OF_ONE,
    SIZES,
    THIN,
    Blocks,
    cell_count,
    largest_size,
    rank_functions,
)

MIN_VALUES_FOR_THREADS = 2**18
"""Smallest number of values for which several threads sort columns."""

MOST_FUNCTIONS, WIDEST = OF_ONE, SIZES[-1]
"""Largest numbers of functions of the ranks of a column in tests and in the first look of an
estimate, and in its second look."""

BLOCKS = ((1, 1), (2, 2), (3, 3), (8, 2), (2, 8), (16, 2), (2, 16), (32, 1), (1, 32))
"""Numbers of functions of both sides in the blocks of moments that tests combine, chosen by their
power on relations of many kinds (`bench.power`)."""

RANKS_PER_FUNCTION = 3
"""Smallest number of untied ranks for each function."""

MIN_EFFECTIVE_ROWS = 50
"""Smallest number of effective rows (without ties) at which functions of tied ranks are used."""

LEVELS_AT_ONCE = 2**13
"""Number of levels of tied columns whose functions are made together."""

FEW_TIES = 1e-9
"""Largest sum of (t^3 - t) / n^3, over groups of t equal values, for which a column takes the
functions of untied ranks: at mean ranks these are then orthonormal to 2e-6."""

MANY_ROWS = 2**14
"""Number of untied ranks from which on the maps to orthonormal functions are those of so many; the
functions of more ranks are then orthonormal to 1e-6."""

CONSTANT = 1e-13
"""Largest variance of functions of near unit variance that counts as rounding."""


def ranks(x: NDArray[np.floating]) -> NDArray[Any]:
    """Rank the values of every column of ``x (n, p)``, in [-1, 1], by mean ranks; NaN stays NaN."""
    columns = np.ascontiguousarray(x.T)
    ranked = np.empty_like(columns)

    def rank(column: int) -> None:
        ranked[column] = _ranks_of_one(columns[column])

    if x.size < MIN_VALUES_FOR_THREADS:
        for column in range(len(columns)):
            rank(column)
    else:
        in_threads(rank, range(len(columns)))
    return ranked.T


def _ranks_of_one(x: NDArray[np.floating]) -> NDArray[Any]:
    present = ~np.isnan(x)
    rows = None if present.all() else np.flatnonzero(present)
    values = x if rows is None else x[rows]
    order = np.argsort(values, kind="stable" if len(values) < 2 else None)
    ordered = values[order]
    new = ordered[1:] != ordered[:-1]
    count = len(values)
    if new.all():
        rank = np.arange(1 - count, count, 2) / max(count, 1)
    else:
        starts = np.concatenate([[0], 1 + np.flatnonzero(new)])
        ends = np.append(starts[1:], count)
        rank = np.repeat((starts + ends - count) / count, ends - starts)
    ranked = np.full(x.shape, np.nan, x.dtype)
    ranked[order if rows is None else rows[order]] = rank
    return ranked


@dataclasses.dataclass(frozen=True)
class RankKernel:
    """The first functions of the ranks of a variable, as a kernel."""

    count: int


@dataclasses.dataclass(frozen=True)
class RankedColumn:
    """The ranks of a variable, and orthonormal functions of them.

    Attributes:
      codes: ``(n,)``, the level of every row, in the order of the values.
      positions: ``(d,)``, rising: the functions of its ranks among all `rank_functions`.
      reliable: number of functions that behave as those of untied ranks.
      effective_share: effective rows (without ties) for these, as a share of the rows.
      log_orders: logarithm of the number of orders of the rows that give the same column.
      of_levels: `linear` and `table` of a column with ties; None for untied ranks.
    """

    codes: Integers
    positions: Integers
    reliable: int
    effective_share: float
    log_orders: float
    of_levels: tuple[Floats, Floats] | None = None

    @property
    def count(self) -> int:
        """The number of functions, d."""
        return len(self.positions)

    @property
    def linear(self) -> Floats:
        """The rank of each level ``(levels,)``, of mean 0 and variance 1 on the rows."""
        if self.of_levels is not None:
            return self.of_levels[0]
        rows = len(self.codes)
        return (np.arange(2 * rows - 1) - (rows - 1)) * np.sqrt(3 / max(rows**2 - 1, 1))

    @property
    def table(self) -> Floats:
        """Functions of the shares of the (weighted) rows below at each level ``(d, levels)``.

        They are orthonormal on the rows.  Functions that earlier ones nearly determine are left
        out: whose residual variance is at most ``1 / sqrt(n)`` of the largest variance.
        """
        if self.of_levels is not None:
            return self.of_levels[1]
        rows = len(self.codes)
        return untied(rows, function_count(rows))

    def in_cells(self) -> RankedColumn:
        """Round untied ranks of more than `MANY_ROWS` rows to as many, which share one table.

        That moves moments of the 32 functions by some 1e-6, and takes a third of the time.
        """
        rows = len(self.codes)
        if self.of_levels is not None or rows <= MANY_ROWS:
            return self
        cells = np.rint((self.codes + 1) * (MANY_ROWS / rows)).astype(np.int32) - 1
        whole = dataclasses.replace(self, codes=np.zeros(MANY_ROWS, np.int32))
        of_levels = whole.linear, whole.table
        return dataclasses.replace(
            self, codes=cells.clip(0, 2 * MANY_ROWS - 2), of_levels=of_levels
        )

    @classmethod
    def of_values(cls, x: Floats, weights: Floats | None = None) -> RankedColumn:
        """Rank finite values ``(n,)``, with positive weights or None."""
        return cls.of_codes(codes_of(ranks(x[:, None])[:, 0]), weights)

    @classmethod
    def of_codes(cls, codes: Integers, weights: Floats | None = None) -> RankedColumn:
        """Rank integers ``(n,)``, in the order of their values."""
        return ranked_columns([codes], weights)[0]

    def as_float32(self) -> RankedColumn:
        """Reduce it to float32 values of reliable functions and short codes."""
        of_levels = self.of_levels
        if of_levels is not None:
            of_levels = of_levels[0], of_levels[1][: self.reliable].astype(np.float32)
        return dataclasses.replace(self, codes=self.codes.astype(np.int32), of_levels=of_levels)

    @property
    def is_binary(self) -> bool:
        """Whether the variable has two values: its codes are 0 and 1."""
        return self.of_levels is not None and self.table.shape == (1, 2)

    def available(self, rows: float) -> int:
        """Return the number of functions that an estimate of HGR uses, of effective ``rows``."""
        return int(np.searchsorted(self.positions, largest_size(np.float64(rows))))

    def functions(self, most: int = MOST_FUNCTIONS) -> Floats:
        """Return the functions of every row, ``(d, n)``, or the first ``most``."""
        if self.of_levels is not None:
            return at_rows(self.table[:most], self.codes)
        return self._of_untied(min(most, self.count))

    def _of_untied(self, count: int) -> Floats:
        rows = len(self.codes)
        if rows <= MANY_ROWS:
            return at_rows(untied(rows, count), self.codes)
        f = rank_functions((self.codes + 1) / (2 * rows), count)
        mean, maps = maps_of_untied(min(rows, MANY_ROWS), count)
        for start in range(0, rows, MANY_ROWS):  # in place, as they may be large
            part = f[:, start : start + MANY_ROWS]
            part[:] = maps @ (part - mean)
        return np.asarray(f)

    def wide_functions(
        self, rows: float, weights: Floats | None, dtype: npt.DTypeLike = np.float64
    ) -> Floats:
        """Return the functions of every row in the last look of an estimate, ``(n, d)``.

        The first are those of `functions`.  ``rows`` is the effective number of rows, ``weights``
        are those of the column.
        """
        most = min(function_count(int(rows), WIDEST), int(largest_size(np.float64(rows))))
        if self.of_levels is None and len(self.codes) > MANY_ROWS:
            return self._of_untied(most).T.astype(dtype, copy=False)
        if self.of_levels is None:
            return at_rows(untied(len(self.codes), most, np.dtype(dtype)), self.codes).T
        w = np.ones(len(self.codes)) if weights is None else weights
        rank, share = ranks_of_levels(self.codes, w)
        points = (rank[None] + 1) / 2
        tables, order, kept = _orthonormal(points, share[None], np.array([rows]), most)
        count = np.searchsorted(order[: min(int(kept[0]), most), 0], most)
        return at_rows(tables[:count, 0].astype(dtype), self.codes).T


def ranked_columns(
    columns: Sequence[Integers], weights: Floats | None = None
) -> list[RankedColumn]:
    """Rank columns of integers ``(n,)``, each in the order of its values."""
    ranked = [_rank_with_few_ties(codes) if weights is None else None for codes in columns]
    tied = {
        i: _TiedLevels.of(columns[i], weights) for i, column in enumerate(ranked) if column is None
    }
    by_size = sorted(tied, key=lambda i: len(tied[i].rank))
    while by_size:
        widest = len(tied[by_size[-1]].rank)
        chosen = by_size[-max(1, LEVELS_AT_ONCE // widest) :]
        del by_size[-len(chosen) :]
        points, share = np.zeros((2, len(chosen), widest))
        for place, i in enumerate(chosen):
            points[place, : len(tied[i].rank)] = (tied[i].rank + 1) / 2
            share[place, : len(tied[i].rank)] = tied[i].share
        rows = np.array([tied[i].rows for i in chosen])
        tables, order, kept = _orthonormal(points, share, rows)
        most = np.minimum(kept, [function_count(int(each)) for each in rows])
        for place, i in enumerate(chosen):
            table = tables[: most[place], place, : len(tied[i].rank)].copy()
            ranked[i] = tied[i].ranked(table, order[: most[place], place])
    return [column for column in ranked if column is not None]


def _rank_with_few_ties(codes: Integers) -> RankedColumn | None:
    """Rank a column without weights; None if functions of untied ranks do not fit it."""
    rows, counts = len(codes), np.bincount(codes)
    if rows < 2 * RANKS_PER_FUNCTION:
        return None
    orders = 0.0
    if len(counts) != 2 * rows - 1 or not (counts[::2] == 1).all():
        tied = counts[counts > 1].astype(np.float64)
        if np.sum(tied**3 - tied) > FEW_TIES * rows**3:
            return None
        codes, orders = (2 * np.cumsum(counts) - counts - 1)[codes], log_orders(counts)
    count = function_count(rows)
    return RankedColumn(codes, np.arange(count), count, 1.0, orders)


def log_orders(counts: Integers) -> float:
    """Return the logarithm of the number of orders within levels, from the rows of each."""
    from scipy import special  # loads slowly

    return float(np.sum(special.gammaln(counts[counts > 1] + 1.0)))


class _TiedLevels(NamedTuple):
    """The levels of a column with ties: ``codes (n,)`` of the rows; rank and share of each level.

    ``heaviest`` is the largest weight of a row of each level, by `scale_to_effective_rows`.
    """

    codes: Integers
    rank: Floats
    share: Floats
    heaviest: Floats
    rows: float
    log_orders: float

    @classmethod
    def of(cls, codes: Integers, weights: Floats | None) -> _TiedLevels:
        counts = np.bincount(codes)
        codes = (np.cumsum(counts > 0) - 1)[codes]
        rank, share = ranks_of_levels(codes, np.ones(len(codes)) if weights is None else weights)
        heaviest = np.ones(len(share))
        if weights is not None:
            heaviest[:] = 0
            np.maximum.at(heaviest, codes, scale_to_effective_rows(weights))
        rows = effective_row_count(len(codes), weights)
        return cls(codes, rank, share, heaviest, rows, log_orders(counts))

    def ranked(self, table: Floats, positions: Integers) -> RankedColumn:
        """Return the ranked column, given its functions ``(d, levels)``."""
        reliable, share = reliable_functions(table, self.rows, self.heaviest)
        variance = float(self.share @ self.rank**2)
        linear = self.rank / np.sqrt(variance) if len(table) else np.zeros_like(self.rank)
        of_levels = linear, table
        return RankedColumn(self.codes, positions, reliable, share, self.log_orders, of_levels)


def codes_of(rank: Floats) -> Integers:
    """Return twice the mean place of each row, from 0, from ranks ``(n,)`` in [-1, 1]."""
    return np.rint((rank + 1) * len(rank) - 1).astype(np.int32)


def ranks_of_levels(codes: Integers, weights: Floats) -> tuple[Floats, Floats]:
    """Return the weighted ranks of levels in [-1, 1], and their shares of the weight."""
    share = np.bincount(codes, weights) / max(weights.sum(), 1e-300)
    return 2 * np.cumsum(share) - share - 1, share


def scale_to_effective_rows(weights: Floats) -> Floats:
    """Scale weights to a sum equal to the effective number of rows."""
    return np.asarray(weights * (weights.sum() / np.sum(weights * weights)))


def effective_row_count(rows: int, weights: Floats | None) -> float:
    """Return the effective number of rows, ``(sum w)^2 / sum w^2``."""
    return float(rows if weights is None else weights.sum() ** 2 / np.sum(weights * weights))


def function_count(rows: int, most: int = MOST_FUNCTIONS) -> int:
    """Return the number of functions of so many untied ranks, at most ``most``."""
    return min(most, max(rows // RANKS_PER_FUNCTION, 1))


def at_rows(table: Floats, codes: Integers) -> Floats:
    """Return functions ``(d, levels)`` at rows of given levels, ``(d, n)``.

    Functions of a row lie together in memory: they are copied at once.
    """
    return table.T.take(codes, axis=0).T


@functools.lru_cache(maxsize=8)
def untied(rows: int, count: int, dtype: npt.DTypeLike = np.float64) -> Floats:
    """Return orthonormal functions ``(count, 2 rows - 1)`` at and between untied ranks."""
    table = rank_functions((np.arange(2 * rows - 1) + 1) / (2 * rows), count)
    mean, maps = maps_of_untied(min(rows, MANY_ROWS), count)
    table -= mean
    by_level = (maps @ table).T.astype(dtype, order="C")
    by_level.flags.writeable = False
    return by_level.T


@functools.lru_cache(maxsize=64)
def maps_of_untied(rows: int, count: int) -> tuple[Floats, Floats]:
    """Return means ``(d, 1)`` of functions of untied ranks, and maps to orthonormal functions."""
    f = rank_functions((np.arange(rows) + 0.5) / rows, count)
    mean = f.mean(axis=1, keepdims=True)
    f -= mean
    return mean, np.linalg.inv(np.linalg.cholesky(f @ f.T / rows))


def _orthonormal(
    points: Floats, share: Floats, rows: Floats, count: int = MOST_FUNCTIONS
) -> tuple[Floats, Integers, Integers]:
    """Return functions ``(count, c, m)`` orthonormal by shares ``(c, m)``: `maps_to_orthonormal`.

    ``points (c, m)`` are the shares of the rows below, of ``rows (c,)``.
    """
    f = rank_functions(points, count)
    f -= np.sum(f * share, axis=2, keepdims=True)
    by_column = f.swapaxes(0, 1)
    covariance = np.moveaxis((by_column * share[:, None]) @ by_column.swapaxes(1, 2), 0, -1)
    maps, order, kept = maps_to_orthonormal(covariance, rows)
    return (maps @ by_column).swapaxes(0, 1), order, kept


def maps_to_orthonormal(covariance: Floats, rows: Floats) -> tuple[Floats, Integers, Integers]:
    """Return maps ``(c, d, d)`` from functions of ranks to orthonormal ones.

    Also the order ``(d, c)`` of the functions, those that are left out last, and how many are kept.
    From covariances ``(d, d, c)`` on ``rows (c,)``.  A function is left out, and a last row of the
    map is 0, if its residual variance is at most ``1 / sqrt(rows)`` of the largest variance of a
    function up to `largest_size`.
    """
    each = np.arange(len(covariance))
    in_value = each[:, None] < np.minimum(largest_size(np.maximum(rows, 1.0)), MOST_FUNCTIONS)
    largest = np.where(in_value, covariance[each, each], 0).max(axis=0)
    least = np.where(largest > CONSTANT, largest / np.sqrt(np.maximum(rows, 1)), 1)
    least = np.broadcast_to(least, covariance.shape[1:])
    maps, kept = orthonormalising_maps(covariance, least, 1.0)
    order = np.argsort(~kept, axis=0, kind="stable")
    maps = np.take_along_axis(maps, order[:, None], axis=0)
    return np.moveaxis(maps, -1, 0), order, kept.sum(axis=0)


@functools.cache
def largest_squares() -> Floats:
    """Return the largest sum of squares of the first functions of untied ranks, ``(32,)``."""
    return np.max(np.cumsum(untied(MANY_ROWS, MOST_FUNCTIONS) ** 2, axis=0), axis=1)


def reliable_functions(f: Floats, rows: float, heaviest: Floats) -> tuple[int, float]:
    """Return how many of the functions ``f (d, n)`` behave as those of untied ranks.

    Let L be the largest sum of the first d squares over the rows, and r times as large as that of
    untied ranks.  Then n rows have the effect of n / r untied rows, and of n / r^2 if the other
    column is the same: n / r^2 must be at least `MIN_EFFECTIVE_ROWS`, or n.  Second comes 1 / r;
    0, 0 if no function is reliable.
    """
    share = effective_shares(f, heaviest)
    reliable = is_reliable(rows, share)
    count = len(f) if reliable.all() else int(np.argmin(reliable))
    return count, float(share[count - 1]) if count else 0.0


def effective_shares(f: Floats, heaviest: Floats | float = 1.0) -> Floats:
    """Return 1 / r of `reliable_functions` for the first 1, 2, .. d of the functions ``(d, n)``."""
    largest = np.max(np.cumsum(f**2, axis=0) * heaviest, axis=1, initial=0)
    return np.asarray(np.minimum(largest_squares()[: len(f)] / largest, 1))


def is_reliable(rows: Floats | float, share: Floats) -> npt.NDArray[np.bool_]:
    """Return where a share of effective rows is enough to trust a column's functions."""
    return np.asarray(rows * share**2 >= np.minimum(MIN_EFFECTIVE_ROWS, rows))


def block_squares(m: Floats, blocks: Blocks) -> Floats:
    """Return the squared top singular value of each leading block ``(blocks, N)`` of ``m``."""
    count = m.shape[2]
    squares = np.empty((len(blocks.rows), count))
    heights, widths = np.array(blocks.rows), np.array(blocks.columns)
    thin = [(heights <= THIN) & (heights <= widths), (widths <= THIN) & (widths < heights)]
    wide = _partial_grams(m, heights[thin[0]], widths[thin[0]])
    tall = _partial_grams(m.swapaxes(0, 1), widths[thin[1]], heights[thin[1]])
    for size in range(1, THIN + 1):
        places = [np.flatnonzero(each & (np.minimum(heights, widths) == size)) for each in thin]
        of_wide = wide[:size, :size, widths[places[0]] - 1]
        of_tall = tall[:size, :size, heights[places[1]] - 1]
        grams = np.concatenate([of_wide, of_tall], axis=2).reshape(size, size, -1)
        if grams.size:
            squares[np.concatenate(places)] = top_eigenvalues(grams).reshape(-1, count)
    for place in np.flatnonzero(np.minimum(heights, widths) > THIN):
        squares[place] = top_singular_values(m[: heights[place], : widths[place]]) ** 2
    return np.minimum(squares, 1)


def _partial_grams(m: Floats, short: Integers, long: Integers) -> Floats:
    """Return Gram matrices ``(3, 3, l, N)`` of the first rows of ``m``: of 1 to l columns each.

    As many as blocks of ``short`` rows and ``long`` columns need; others are not filled.
    """
    grams = np.empty((THIN, THIN, int(long.max(initial=0)), m.shape[2]))
    for a in range(THIN):
        for b in range(a, THIN):
            most = int(long[short > b].max(initial=0))
            if most:
                np.cumsum(m[a, :most] * m[b, :most], axis=0, out=grams[a, b, :most])
                grams[b, a, :most] = grams[a, b, :most]
    return grams


def leading(m: Floats, h: Integers, k: Integers) -> Floats:
    """Return moments ``(r, s, N)`` with 0 beyond the first ``h`` and ``k (N,)`` functions."""
    if (h >= len(m)).all() and (k >= m.shape[1]).all():
        return m
    rows, columns = np.arange(len(m))[:, None] < h, np.arange(m.shape[1])[:, None] < k
    return m * (rows[:, None] & columns)


def in_order(codes: Integers) -> Integers:
    """Return the rows ``(n,)`` in the order of their codes; of equal codes, in a random one.

    In their own, those of a sorted table would resemble each other.
    """
    # NumPy sorts integers in a tenth of the time of their places.
    drawn = _random_order(len(codes))
    ordered = (codes[drawn].astype(np.int64) << 32) | np.arange(len(codes))
    ordered.sort()
    return np.asarray(drawn[ordered & (2**32 - 1)])


@functools.lru_cache(maxsize=8)
def _random_order(rows: int) -> Integers:
    return np.random.default_rng(0).permutation(rows)


def neighbours_in(order: Integers) -> tuple[Integers, Integers]:
    """Return `NEIGHBOURS` rows, evenly spread in an order ``(n,)``, and the next ones."""
    last = len(order) - 1
    places = np.arange(min(last, NEIGHBOURS)) * last // max(min(last, NEIGHBOURS), 1)
    return order[places], order[places + 1]


@dataclasses.dataclass(frozen=True)
class RankOrder:
    """The rows in the order of a variable, and how they share its range.

    Attributes:
      codes: ``(n,)``, integers in the order of the values.
      shares: ``(n,)``, the share of the weight of each row.
    """

    codes: Integers
    shares: Floats

    @functools.cached_property
    def order(self) -> Integers:
        """The rows ``(n,)`` in the order of the values; of equal values, in a random one."""
        return in_order(self.codes)

    @functools.cached_property
    def starts(self) -> Integers:
        """Where in `order` a new value begins, ``(levels,)``."""
        return np.flatnonzero(np.diff(self.codes[self.order], prepend=-1))

    @functools.cached_property
    def edges(self) -> Floats:
        """The shares of the weight below the levels, and 1, ``(levels + 1,)``."""
        below = np.concatenate([[0.0], np.cumsum(self.shares[self.order])])
        return np.asarray(below[np.append(self.starts, len(self.codes))] / below[-1])

    @property
    def levels(self) -> int:
        """The number of values."""
        return len(self.starts)

    def sums(self, g: Floats) -> Floats:
        """Return the weighted sums ``(m, levels)`` of functions ``g (m, n)`` in each level."""
        weighted = (g * self.shares)[:, self.order]
        return (
            weighted
            if self.levels == len(self.order)
            else np.add.reduceat(weighted, self.starts, axis=1)
        )

    def cells(self, sums: Floats) -> Floats:
        """Return sums ``(m, c)`` in cells of equal share; equal values spread over their range."""
        count = cell_count(len(self.order))
        ends = np.arange(count + 1) / count
        place = np.searchsorted(self.edges, ends, side="right").clip(1, self.levels) - 1
        part = (ends - self.edges[place]) / np.diff(self.edges)[place]
        below = np.concatenate([np.zeros((len(sums), 1)), np.cumsum(sums, axis=1)], axis=1)
        return np.diff(below[:, place] + part.clip(0, 1) * sums[:, place], axis=1)

    def at_levels(self, values: Floats) -> Floats:
        """Return at each row ``(n,)`` the one of ``values (levels,)`` of its level."""
        spread = np.empty(len(self.order))
        sizes = np.diff(np.append(self.starts, len(self.order)))
        spread[self.order] = np.repeat(values, sizes)
        return spread

    def spread(self, of_cells: Floats) -> Floats:
        """Return at each row the mean of a function, given in cells ``(c,)``, over its level."""
        count = len(of_cells)
        total = np.concatenate([[0.0], np.cumsum(of_cells)]) / count
        at_edges = np.interp(self.edges, np.arange(count + 1) / count, total)
        return self.at_levels(np.diff(at_edges) / np.diff(self.edges))

    @functools.cached_property
    def neighbours(self) -> tuple[Integers, Integers]:
        """Rows, evenly spread, and the next ones in the order of the variable."""
        return neighbours_in(self.order)

    def alike(self, g: Floats, *, every: bool = False) -> tuple[Floats, Floats]:
        """Return mean products of functions ``g (m, n)`` of neighbours, and their errors, ``(m,)``.

        Of `neighbours`, or of ``every`` row and the next one.
        """
        one, other = (self.order[:-1], self.order[1:]) if every else self.neighbours
        return likeness(g[:, one], g[:, other])


def likeness(f: Floats, g: Floats) -> tuple[Floats, Floats]:
    """Return the means ``(m, ...)`` of products over the last axis, and their standard errors."""
    products = f * g
    return products.mean(axis=-1), products.std(axis=-1) / np.sqrt(products.shape[-1])


COMPARED_NUMBERS = 2**23
"""Number of rows of all columns whose first functions are in memory to compare neighbours."""


def likeness_of_neighbours(
    columns: list[RankedColumn], neighbours: list[tuple[Integers, Integers]], pairs: Integers
) -> Floats:
    """Return mean products of functions of one column at neighbours in the order of the other.

    And their standard errors, ``(2, 3, 2, N)``: mean and error, of the first three functions of the
    other, by the side that orders.
    """
    by, of = pairs.T.ravel(), pairs.T[::-1].ravel()
    found = np.empty((2, THIN, len(by)))
    width = max(1, COMPARED_NUMBERS // len(columns[0].codes))
    for start in range(0, len(columns), width):
        part = columns[start : start + width]
        few = np.zeros((len(part[0].codes), len(part), THIN), np.float32)
        for place, ranked in enumerate(part):
            f = ranked.functions(THIN)
            few[:, place, : len(f)] = f.T
        inside = np.flatnonzero((of >= start) & (of < start + len(part)))
        for column, group in groups(by[inside]):
            places = inside[group]
            one, other = neighbours[column]
            if 4 * len(group) > len(part):
                f, g, at = few[one], few[other], of[places] - start
            else:
                chosen, at = np.unique(of[places] - start, return_inverse=True)
                f, g = (few[rows[:, None], chosen] for rows in (one, other))
            products = f * g
            mean = products.mean(axis=0)
            square = np.einsum("rcf,rcf->cf", products, products) / len(products)
            error = np.sqrt(np.maximum(square - mean**2, 0) / len(products))
            found[0][:, places], found[1][:, places] = mean[at].T, error[at].T
    return found.reshape(2, THIN, 2, len(pairs))
