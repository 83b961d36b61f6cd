"""HGR and the test of independence of many pairs, from the same products of functions of ranks.

Two columns of a table in memory are estimated as by `hgr_jax.hgr` and tested as by
`independence_test`: by ranks among the rows that they share, from few cross moments.  Those of two
numbers are (`moments_of_numbers`): of the first 8 functions of both, of the first three functions
of one with 16 of the other, and of the first function of one with 32 of the other; those of a
number and a category: of 8 functions with all of the levels.  Where more may matter, HGR is
estimated again, as `hgr_jax.core.ranks` says.  Two binary columns have Fisher's exact test.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hgr_jax._arrays import Floats, Integers, chunks, groups
from hgr_jax._threads import in_threads
from hgr_jax.core.host.estimates import (
    LAST_LOOK,
    HGREstimate,
    LongBlocks,
    average_of_moments,
    blocks_of,
    column_and_functions,
    explained_by_first,
    is_alike,
    long_blocks,
)
from hgr_jax.core.host.linalg import top_singular_values
from hgr_jax.core.host.ranks import (
    BLOCKS,
    MOST_FUNCTIONS,
    WIDEST,
    RankedColumn,
    RankOrder,
    codes_of,
    leading,
    likeness_of_neighbours,
    ranked_columns,
)
from hgr_jax.core.ranks import (
    LEAST_ROWS,
    OF_BOTH,
    OF_FEW,
    THIN,
    alike_beyond,
    look_again,
)
from hgr_jax.inference.level_tests import RANK_DEGREE
from hgr_jax.inference.rank_law import (
    MIN_TABULATED_ROWS,
    BlockStatistics,
    exact_log_pvalues,
    test_long_blocks,
    top_values,
)
from hgr_jax.scanning.features import Estimates, Features
from hgr_jax.scanning.memory import MemoryTable
from hgr_jax.scanning.products import TILE, LevelColumn, Lookup, Tile, column_products, tiles_of

MOMENTS_AT_ONCE = 2**9
"""Number of pairs whose moments are solved together."""

LAST_AT_ONCE = 64
"""Number of pairs whose last look is taken together."""

ORDERED_VALUES = 2**18
"""Number of rows of columns whose functions are put in the order of another one together."""

CACHED_FUNCTIONS = 2**19
"""Number of rows of all columns whose functions of the last look are kept: 512 bytes each."""


class _SharedRows:
    """Columns in ranks on the rows that some pairs share, each made once.

    Attributes:
      rows: which rows these are.
      weights: their weights, None if equal.
      count: their number.
      effective: their effective number.
    """

    def __init__(
        self,
        features: Features,
        shared: NDArray[np.bool_],
        effective: float,
        codes: Callable[[int], Integers],
    ) -> None:
        self.features, self.effective, self._codes_of = features, effective, codes
        self.rows, self.weights = features.rows_of(shared)
        self.count = int(shared.sum())
        kept = max(2, CACHED_FUNCTIONS // self.count)
        self.order = functools.cache(self._order)
        self.levels = functools.cache(self._levels)
        self.functions_of_levels = functools.lru_cache(kept)(self._functions_of_levels)

    def codes(self, column: int) -> Integers:
        """Return the ranks of a number, or the levels of a category, as integers."""
        return self._codes_of(column)[self.rows]

    def ranked(self, columns: Integers, *, in_cells: bool = True) -> list[RankedColumn]:
        """Rank numbers; with ``in_cells``, as `RankedColumn.in_cells`."""
        ranked = ranked_columns([self.codes(c) for c in columns.tolist()], self.weights)
        return [column.in_cells() for column in ranked] if in_cells else ranked

    def _order(self, column: int) -> RankOrder:
        w = np.ones(self.count) if self.weights is None else self.weights
        return RankOrder(self.codes(column), w / w.sum())

    def _levels(self, column: int) -> LevelColumn:
        return LevelColumn.of(self.codes(column), self.weights)

    def _functions_of_levels(self, column: int) -> Floats:
        return self.levels(column).functions()


def moments_of_numbers(
    columns: list[RankedColumn], pairs: Integers, weights: Floats | None
) -> Iterator[tuple[Integers, Floats, Floats]]:
    """Yield places of ``pairs (N, 2)``, part by part, their moments, and Spearman's correlations.

    Moments ``(32, 32, N)`` are 0 outside the products that are taken, in single precision, as
    functions are bounded.
    """
    few, rest = slice(THIN), slice(OF_BOTH, OF_FEW)
    first, far = slice(1), slice(OF_FEW, MOST_FUNCTIONS)

    def lookup(side: Integers) -> Lookup:
        return Lookup.of_ranks([columns[c] for c in side], MOST_FUNCTIONS, np.float32)

    for tile in tiles_of(pairs, np.arange(len(pairs)), len(columns), TILE):
        one = other = lookup(tile.columns[0])
        if tile.columns[1] is not tile.columns[0]:
            other = lookup(tile.columns[1])

        def product(k: slice, m: slice, turned: bool = False) -> NDArray[np.float64]:
            left, right = (other, one) if turned else (one, other)  # noqa: B023
            of_left = left.select(k)
            same = left is right and k == m
            return column_products(of_left, of_left if same else right.select(m), weights)

        both = product(slice(OF_BOTH), slice(OF_BOTH))
        linear = product(slice(MOST_FUNCTIONS, None), slice(MOST_FUNCTIONS, None))
        forward = product(few, rest), product(first, far)
        backward = forward
        if one is not other:
            backward = product(few, rest, turned=True), product(first, far, turned=True)
        for part in chunks(np.arange(len(tile.places)), MOMENTS_AT_ONCE):
            i, j = (side[part] for side in tile.sides)
            m = np.zeros((MOST_FUNCTIONS, MOST_FUNCTIONS, len(part)))
            m[:OF_BOTH, :OF_BOTH] = np.moveaxis(both[i, :, j], 0, -1)
            for rows, columns_of, wide, tall in zip(
                (few, first), (rest, far), forward, backward, strict=True
            ):
                m[rows, columns_of] = np.moveaxis(wide[i, :, j], 0, -1)
                m[columns_of, rows] = np.moveaxis(tall[j, :, i], 0, -1).swapaxes(0, 1)
            yield tile.places[part], m, linear[i, 0, j, 0]


def products_one_by_one(
    pairs: Integers, functions: Callable[[int], Floats], weights: Floats | None, most: int
) -> tuple[Floats, tuple[Integers, Integers]]:
    """Return all moments ``(most, most, N)`` of pairs ``(N, 2)``, 0 beyond those that there are.

    And the numbers of functions of both sides.  ``functions`` returns those of a column ``(n, d)``.
    """
    m, sizes = np.zeros((len(pairs), most, most)), np.zeros((2, len(pairs)), np.intp)
    for i, (a, b) in enumerate(pairs.tolist()):
        f, g = functions(a), functions(b)
        if weights is not None:
            f = f * (weights / weights.mean())[:, None].astype(f.dtype)
        h, k = sizes[:, i] = f.shape[1], g.shape[1]
        m[i, :h, :k] = f.T @ g / np.float64(len(f))
    return np.ascontiguousarray(np.moveaxis(m, 0, -1)), (sizes[0], sizes[1])


class _Moments(NamedTuple):
    """Moments of pairs of numbers on the rows that they share.

    Attributes:
      places: ``(N,)``, positions of the pairs.
      m: ``(32, 32, N)``, as of `moments_of_numbers`.
      spearman: ``(N,)``.
      reliable, available, limit: ``(2, N)``, numbers of functions of both sides that are reliable,
        that there are, and that an estimate of HGR uses.
      share: ``(N,)``, effective rows, allowing for ties, as a share of the rows.
      least_log_p: ``(N,)``, logarithms of the smallest possible p-values.
      alike: ``(N,)``, whether neighbours are more alike than the moments explain.
    """

    places: Integers
    m: Floats
    spearman: Floats
    reliable: Integers
    available: Integers
    limit: Integers
    share: Floats
    least_log_p: Floats
    alike: NDArray[np.bool_]


@dataclasses.dataclass
class RankResults:
    """Estimates and tests of N pairs by ranks.

    Attributes:
      estimates: HGR.
      log_p: ``(N,)``, log p-values, NaN for pairs that need permutations, and without tests.
      exact: ``(N,)``, mask of Fisher's exact tests.
    """

    estimates: Estimates
    log_p: Floats
    exact: NDArray[np.bool_]

    @classmethod
    def none(cls, count: int) -> RankResults:
        """Return results of ``count`` pairs without any value."""
        return cls(Estimates.none(count), np.full(count, np.nan), np.zeros(count, bool))


def estimate_by_ranks(table: MemoryTable, rows: Floats, *, tested: bool) -> RankResults:
    """Estimate HGR of all pairs by ranks, and test pairs of numbers.

    Args:
      table: table of the pairs.
      rows: ``(N,)``, effective sample sizes.
      tested: whether pairs are tested.
    """
    by_ranks = _ByRanks(table, rows, tested)
    by_ranks.estimate()
    estimates = by_ranks.results.estimates
    estimates.value[estimates.rows < LEAST_ROWS] = np.nan
    return by_ranks.results


class _ByRanks:
    """Estimates and tests of the pairs of a table; `results` are filled step by step."""

    def __init__(self, table: MemoryTable, rows: Floats, tested: bool) -> None:
        self.table, self.in_ranks, self.rows, self.tested = table, table.in_ranks, rows, tested
        self.pairs = np.sort(table.pairs, axis=1)  # numbers before categories
        self.results = RankResults.none(len(rows))
        self.results.estimates.rows[:] = self.in_ranks.over_shared_rows(self.pairs, 0)
        self._statistics: list[BlockStatistics] = []
        self._waiting: list[_Moments] = []
        self._seconds, self._lasts, self._again = list[Integers](), list[Integers](), list[int]()
        self._alike = np.zeros(len(rows), bool)
        self._codes_of = functools.cache(self._codes)

    def estimate(self) -> None:
        """Estimate and test the pairs by ranks among the rows they share."""
        of_numbers = np.asarray((self.pairs < self.in_ranks.n_numeric).all(axis=1))
        for places, shared in self._by_rows(np.arange(len(self.pairs))):
            numbers = places[of_numbers[places]]
            if len(numbers):
                for moments in self._moments(numbers, shared):
                    self._waiting.append(moments)
                    if sum(len(each.places) for each in self._waiting) >= MOMENTS_AT_ONCE:
                        self._solve()
            for tile in tiles_of(
                self.pairs, places[~of_numbers[places]], self.in_ranks.n_numeric, TILE
            ):
                self._estimate_with_levels(tile, shared)
        if self._waiting:
            self._solve()
        if self._statistics:
            every = BlockStatistics.joined(self._statistics)
            self.results.log_p[every.places] = every.log_pvalues(self.rows[every.places])
        self._look_again()
        self._estimate_again(np.array(self._again, np.intp))

    def _by_rows(self, places: Integers) -> Iterator[tuple[Integers, _SharedRows]]:
        """Yield parts of the pairs at ``places``, and the rows they share, at least two."""
        for part, shared in self.in_ranks.by_shared_rows(self.pairs[places]):
            if shared.sum() >= 2:
                effective = float(self.rows[places[part[0]]])
                yield places[part], _SharedRows(self.in_ranks, shared, effective, self._codes_of)

    def _codes(self, column: int) -> Integers:
        """Return the ranks ``(n,)`` of a number as integers, 0 where it is missing, or levels."""
        if column >= self.in_ranks.n_numeric:
            return self.in_ranks.values(column)
        x, present = self.in_ranks.x[:, column], self.in_ranks.present(column)
        codes = np.zeros(len(x), np.intp)
        rows = slice(None) if present.all() else present
        codes[rows] = codes_of(x[rows])
        return codes

    def _estimate_with_levels(self, tile: Tile, shared: _SharedRows) -> None:
        """Estimate the pairs of a tile, the second column of each a category."""
        left, right = (columns.tolist() for columns in tile.columns)
        of_levels = [shared.levels(column) for column in right]
        other = Lookup.of_levels(of_levels)
        k = np.array([column.count for column in of_levels])
        number = left[0] < self.in_ranks.n_numeric
        if number:
            ranked = shared.ranked(tile.columns[0])
            one = Lookup.of_ranks(ranked, OF_BOTH, np.float64)
            h = np.array([column.count for column in ranked])
            limit = np.array([column.available(shared.effective) for column in ranked])
        else:
            of_left = [shared.levels(column) for column in left]
            one = other if tile.columns[0] is tile.columns[1] else Lookup.of_levels(of_left)
            h = limit = np.array([column.count for column in of_left])
        products = column_products(one, other, shared.weights)
        for part in chunks(np.arange(len(tile.places)), MOMENTS_AT_ONCE):
            places, (i, j) = tile.places[part], (side[part] for side in tile.sides)
            m = np.ascontiguousarray(np.moveaxis(products[i, :, j], 0, -1))
            line, m = (m[-1], m[:-1]) if number else (None, m)
            kinds = number, False
            blocks = blocks_of(m.shape[:2], kinds, 0)
            rows = np.full(len(places), shared.effective)
            average = average_of_moments(m, (limit[i], k[j]), rows, kinds, blocks)
            degrees = np.stack([np.minimum(h[i], RANK_DEGREE) if number else h[i], k[j]], axis=1)
            self._put(places, average.value, degrees)
            estimates, varies = self.results.estimates, (degrees > 0).all(axis=1)
            statistic = top_singular_values(m[:RANK_DEGREE] if number else m)
            linear = average.value if line is None else np.linalg.norm(line, axis=0)
            for values, found in ((estimates.statistic, statistic), (estimates.linear, linear)):
                values[places] = np.where(varies, np.minimum(found, 1), np.nan)
            if number:
                more = varies & (limit[i] > OF_BOTH)
                again = more & look_again(average, blocks, 0)
                for place in np.flatnonzero(more & ~again):
                    again[place] = self._is_alike(shared, places[place], m[..., place, None])
                self._again += places[again].tolist()

    def _is_alike(self, shared: _SharedRows, place: int, m: Floats) -> bool:
        """Return whether a category is alike at neighbours in the order of a number."""
        number, category = self.pairs[place].tolist()
        size = np.array([OF_BOTH])
        g = shared.functions_of_levels(category)
        explained, counts = explained_by_first(m[:, : len(g)].swapaxes(0, 1), size, number=False)
        order = shared.order(number)
        return is_alike(order, g, explained[:, 0], counts[:, 0], shared.effective)

    def _estimate_again(self, places: Integers) -> None:
        """Estimate pairs of a number and a category by all looks."""
        for group, shared in self._by_rows(places):

            @functools.lru_cache(maxsize=max(2, CACHED_FUNCTIONS // shared.count))
            def side(column: int) -> tuple[RankedColumn | None, Floats]:
                values = self.in_ranks.values(column)[shared.rows]  # noqa: B023
                levels = self.in_ranks.level_count(column)
                return column_and_functions(values, levels, shared.weights)  # noqa: B023

            for place in group[np.lexsort(self.pairs[group].T[::-1])].tolist():
                columns, functions = zip(*map(side, self.pairs[place].tolist()), strict=True)
                estimate = HGREstimate.of_columns(columns, functions, shared.weights)
                self.results.estimates.value[place] = estimate.value

    def _moments(self, group: Integers, shared: _SharedRows) -> Iterator[_Moments]:
        """Yield the moments of pairs of numbers on the rows that they share.

        Two columns of two values are tested exactly.
        """
        used, local = np.unique(self.pairs[group], return_inverse=True)
        pairs = local.reshape(-1, 2)
        columns, count = shared.ranked(used), shared.count
        if shared.weights is None and self.tested:
            self._test_exactly(group, columns, pairs)
        reliable, available, limit = (
            np.array(each)[pairs].T
            for each in (
                [c.reliable for c in columns],
                [c.count for c in columns],
                [c.available(shared.effective) for c in columns],
            )
        )
        share = np.array([column.effective_share for column in columns])[pairs].prod(axis=1)
        log_orders = np.array([column.log_orders for column in columns])[pairs].max(axis=1)
        least = log_orders - special.gammaln(count + 1)
        orders = [shared.order(c) for c in used.tolist()]
        alike_by = likeness_of_neighbours(columns, [each.neighbours for each in orders], pairs)
        for part, m, spearman in moments_of_numbers(columns, pairs, shared.weights):
            sizes = reliable[:, part], available[:, part], limit[:, part]
            alike = np.zeros(len(part), bool)
            rows = np.full(len(part), shared.effective)
            for side, of_other in enumerate((m.swapaxes(0, 1), m)):
                explained, counts = explained_by_first(of_other, limit[side, part], number=True)
                mean, error = alike_by[:, :, side, part]
                beyond = alike_beyond(mean, error, explained, counts, rows)
                for i in np.flatnonzero(beyond.any(axis=0)):
                    column, other = pairs[part[i], side], pairs[part[i], 1 - side]
                    g = columns[other].functions(THIN)
                    of_g = slice(len(g)), i
                    alike[i] |= is_alike(
                        orders[column], g, explained[of_g], counts[of_g], shared.effective
                    )
            yield _Moments(group[part], m, spearman, *sizes, share[part], least[part], alike)

    def _solve(self) -> None:
        """Estimate pairs of numbers from the moments that wait.

        Keeps the statistics of their tests, and which pairs take the second look next, or the last.
        """
        # Small problems are solved together: a call costs as much as some hundred of them.
        parts = zip(*self._waiting, strict=True)
        each = _Moments(*(np.concatenate(part, axis=-1) for part in parts))
        self._waiting.clear()
        places, limit = each.places, each.limit
        blocks = blocks_of(each.m.shape[:2], (True, True), 0)
        in_test = [[*zip(blocks.rows, blocks.columns, strict=True)].index(b) for b in BLOCKS]
        rows = self.rows[places]
        average = average_of_moments(each.m, (limit[0], limit[1]), rows, (True, True), blocks)
        self._put(places, average.value, np.minimum(each.available.T, RANK_DEGREE))
        estimates, varies = self.results.estimates, (each.available > 0).all(axis=0)
        linear = np.where(varies, np.minimum(np.abs(each.spearman), 1), np.nan)
        estimates.linear[places] = estimates.pearson[places] = linear
        more = (limit > OF_BOTH).any(axis=0)
        self._seconds.append(places[more & ~each.alike & look_again(average, blocks, 0)])
        self._lasts.append(places[more & each.alike])
        self._alike[self._lasts[-1]] = True
        law = (each.reliable > 0).all(axis=0) & (self.rows[places] >= MIN_TABULATED_ROWS)
        law &= np.isnan(self.results.log_p[places]) & self.tested
        reliable, values = each.reliable[:, law], np.sqrt(average.squares[in_test][:, law])
        if (each.reliable != limit).any():
            values = top_values(leading(each.m[..., law], *reliable))
        effective = self.rows[places[law]] * each.share[law]
        self._statistics.append(
            BlockStatistics(places[law], values, reliable, effective, each.least_log_p[law])
        )

    def _look_again(self) -> None:
        """Take the second look at pairs of numbers, and the last one where it is needed."""
        seconds = np.concatenate([*self._seconds, np.zeros(0, np.intp)])
        for group, shared in self._by_rows(seconds):
            self._take_second_look(group, shared)
        lasts = np.concatenate([*self._lasts, np.zeros(0, np.intp)])
        for group, shared in self._by_rows(lasts):
            self._take_last_look(group, shared)

    def _take_second_look(self, group: Integers, shared: _SharedRows) -> None:
        """Take the second look at pairs of numbers that share some rows."""
        used, local = np.unique(self.pairs[group], return_inverse=True)
        pairs, columns = local.reshape(-1, 2), shared.ranked(used)
        limit = np.array([c.available(shared.effective) for c in columns])[pairs].T

        @functools.lru_cache(maxsize=max(2, CACHED_FUNCTIONS // shared.count))
        def functions_of(column: int) -> Floats:
            return columns[column].functions().T.astype(self.in_ranks.x.dtype)

        def look(part: Integers) -> Integers:
            m, _ = products_one_by_one(pairs[part], functions_of, shared.weights, MOST_FUNCTIONS)
            more = self._put_value(group[part], m, (limit[0, part], limit[1, part]), 1)
            return np.asarray(group[part[more]])

        self._lasts += in_threads(look, chunks(np.lexsort(pairs.T[::-1]), MOMENTS_AT_ONCE))

    def _put_value(
        self,
        places: Integers,
        m: Floats,
        sizes: Sequence[Integers],
        look: int,
        long: Sequence[LongBlocks] = (),
    ) -> NDArray[np.bool_]:
        """Store HGR of pairs of numbers by a look; return where the next look is needed."""
        numbers = True, True
        blocks = blocks_of(m.shape[:2], numbers, look)
        of_both = sizes[0], sizes[1]
        average = average_of_moments(m, of_both, self.rows[places], numbers, blocks, long)
        self.results.estimates.value[places] = average.value
        return np.asarray(look < LAST_LOOK and look_again(average, blocks, look))

    def _take_last_look(self, group: Integers, shared: _SharedRows) -> None:
        """Take the last look at pairs of numbers, one by one."""
        effective, weights = shared.effective, shared.weights
        used = np.unique(self.pairs[group])
        ranked = dict(zip(used.tolist(), shared.ranked(used, in_cells=False), strict=True))

        @functools.lru_cache(maxsize=max(2, CACHED_FUNCTIONS // shared.count))
        def functions_of(column: int) -> Floats:
            return ranked[column].wide_functions(effective, weights, self.in_ranks.x.dtype)

        @functools.cache
        def first_of(column: int) -> tuple[Floats, int]:
            f = functions_of(column)
            return f[:, :THIN].T.copy(), f.shape[1]

        for column in used.tolist():  # each once, before the threads ask for the same ones
            first_of(column)
        ordered = group[np.lexsort(self.pairs[group].T[::-1])]
        reliable = {column: ranks.reliable for column, ranks in ranked.items()}
        long = self._long_blocks_of(ordered, shared, first_of, reliable)

        def look(part: Integers) -> None:
            places = ordered[part]
            m, sizes = products_one_by_one(self.pairs[places], functions_of, weights, WIDEST)
            self._put_value(places, m, sizes, LAST_LOOK, [each.take(part) for each in long])

        in_threads(look, chunks(np.arange(len(ordered)), LAST_AT_ONCE))
        for place in ordered[self._alike[ordered] & ~np.isnan(self.results.log_p[ordered])]:
            columns = [ranked[column] for column in self.pairs[place].tolist()]
            kept = [column.functions(column.available(effective)) for column in columns]
            self._test_long_blocks(place, HGREstimate.of_columns(columns, kept, weights))

    def _long_blocks_of(
        self,
        places: Integers,
        shared: _SharedRows,
        first_of: Callable[[int], tuple[Floats, int]],
        reliable: dict[int, int],
    ) -> list[LongBlocks]:
        """Return the long blocks of pairs: of functions of the first column, and of the second.

        ``first_of`` returns the first functions of a column ``(3, n)``, and how many there are.
        """

        def of_part(side: int, column: int, part: Integers) -> LongBlocks:
            few = np.zeros((THIN, len(part), shared.count))
            counts = np.zeros(len(part), np.intp)
            for i, other in enumerate(self.pairs[places[part], 1 - side].tolist()):
                g, count = first_of(other)
                few[: len(g), i], counts[i] = g, min(reliable[other], count)
            size = np.full(len(part), first_of(column)[1])
            order = shared.order(column)
            return long_blocks(order, few, size, counts, shared.effective, number=True)

        found, at_once = [], max(1, ORDERED_VALUES // shared.count)
        for side in (0, 1):
            tasks = [
                (side, column, part)
                for column, group in groups(self.pairs[places, side])
                for part in chunks(group, at_once)
            ]
            parts = in_threads(of_part, *zip(*tasks, strict=True))
            at = np.concatenate([part for _, _, part in tasks])
            found.append(LongBlocks.joined(parts).take(np.argsort(at)))
        return found

    def _test_long_blocks(self, place: int, estimate: HGREstimate) -> None:
        """Lower the p-value of a pair by its long blocks, as `independence_test` does."""
        columns = [column for column in estimate.columns if column is not None]
        counts = columns[0].reliable, columns[1].reliable
        rows = self.rows[place] * columns[0].effective_share * columns[1].effective_share
        long = test_long_blocks(estimate, counts, max(rows, MIN_TABULATED_ROWS))
        if long is not None:
            rarest = max(c.log_orders for c in columns) - special.gammaln(len(columns[0].codes) + 1)
            found = max(long.log_p, rarest)
            self.results.log_p[place] = min(self.results.log_p[place], found)

    def _put(self, places: Integers, value: Floats, degrees: Integers) -> None:
        """Store HGR of some pairs, and their numbers of functions ``(N, 2)``."""
        estimates = self.results.estimates
        estimates.value[places] = np.where((degrees > 0).all(axis=1), value, np.nan)
        flips = self.table.pairs[places, 0] > self.table.pairs[places, 1]
        estimates.degrees[places] = np.where(flips[:, None], degrees[:, ::-1], degrees)

    def _test_exactly(self, group: Integers, columns: list[RankedColumn], pairs: Integers) -> None:
        """Test the pairs of two binary columns."""
        binary = np.flatnonzero(np.array([c.is_binary for c in columns])[pairs].all(axis=1))
        for tile in tiles_of(pairs, binary, len(columns), TILE):
            one, other = ([columns[c].codes for c in side] for side in tile.columns)
            places = group[tile.places]
            self.results.log_p[places] = exact_log_pvalues(one, other, tile.sides)
            self.results.exact[places] = True
