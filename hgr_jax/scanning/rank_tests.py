"""HGR and the test of independence of many pairs of numbers, from the same products of functions.

Two columns of a table in memory are estimated as by `hgr_jax.hgr` and tested as by
`independence_test`: by ranks among the rows that they share, from few cross moments
(`products_of_pairs`): of the first 8 functions of both columns, of the first three functions of one
with 16 of the other, and of the first function of one with 32 of the other.  Where more may matter,
HGR is estimated again, as `hgr_jax.core.ranks` says.  Two binary columns have Fisher's exact test.
Pairs with a category are estimated by the sums of 8 functions; one of a number is estimated again
where it has missing values, or further functions may matter.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hgr_jax._arrays import Floats, Integers, chunks, groups
from hgr_jax.core.host.estimates import (
    LAST_LOOK,
    HGREstimate,
    LongBlocks,
    average_of_moments,
    blocks_of,
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
from hgr_jax.inference.level_tests import RANK_DEGREE, functions_of_column
from hgr_jax.inference.rank_law import (
    MIN_TABULATED_ROWS,
    BlockStatistics,
    exact_log_pvalues,
    test_long_blocks,
    top_values,
)
from hgr_jax.scanning.features import Estimates
from hgr_jax.scanning.memory import MemoryTable, hgr_on_own_rows, refine
from hgr_jax.scanning.sums import sum_in_blocks

TILE = 128
"""Number of columns on each side whose products are taken at a time."""

MOMENTS_AT_ONCE = 2**9
"""Number of pairs whose moments are yielded at a time."""

LAST_AT_ONCE = 64
"""Number of pairs whose last look is taken together."""

ORDERED_AT_ONCE = 16
"""Number of columns whose functions are put in the order of another one together."""

CACHED_FUNCTIONS = 2**19
"""Number of rows of all columns whose functions of the last look are kept: 512 bytes each."""


def products_of_pairs(
    columns: list[RankedColumn],
    pairs: Integers,
    weights: Floats | None,
    places: Integers,
    dtype: np.dtype,
) -> Iterator[tuple[Integers, Floats, Floats]]:
    """Yield the pairs at ``places``, part by part, their moments, and Spearman's correlations.

    Moments ``(32, 32, N)`` are 0 outside the products that are taken.
    """
    tiles = pairs[places] // TILE
    for _, group in groups(tiles[:, 0] * len(columns) + tiles[:, 1]):
        chosen = places[group]
        left, right = (np.unique(pairs[chosen, side]) for side in (0, 1))
        if tiles[group[0], 0] == tiles[group[0], 1]:
            left = right = np.union1d(left, right)
        one = _Lookup.of(columns, left, dtype)
        other = one if left is right else _Lookup.of(columns, right, dtype)

        def product(k: slice, m: slice, turned: bool = False) -> NDArray[np.float64]:
            first, second = (other, one) if turned else (one, other)  # noqa: B023
            return first.products(second, k, m, weights)

        both = product(slice(OF_BOTH), slice(OF_BOTH))
        few, rest = slice(THIN), slice(OF_BOTH, OF_FEW)
        first, far = slice(1), slice(OF_FEW, MOST_FUNCTIONS)
        linear = product(slice(MOST_FUNCTIONS, None), slice(MOST_FUNCTIONS, None))
        forward = product(few, rest), product(first, far)
        backward = forward
        if left is not right:
            backward = product(few, rest, turned=True), product(first, far, turned=True)
        for part in chunks(chosen, MOMENTS_AT_ONCE):
            i = np.searchsorted(left, pairs[part, 0])
            j = np.searchsorted(right, pairs[part, 1])
            m = np.zeros((MOST_FUNCTIONS, MOST_FUNCTIONS, len(part)))
            m[:OF_BOTH, :OF_BOTH] = np.moveaxis(both[i, :, j], 0, -1)
            for rows, columns_of, wide, tall in zip(
                (few, first), (rest, far), forward, backward, strict=True
            ):
                m[rows, columns_of] = np.moveaxis(wide[i, :, j], 0, -1)
                m[columns_of, rows] = np.moveaxis(tall[j, :, i], 0, -1).swapaxes(0, 1)
            yield part, m, linear[i, 0, j, 0]


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


@dataclasses.dataclass(frozen=True)
class _Lookup:
    """Functions of some ranked columns at their levels, and the level of each row.

    Attributes:
      table: ``(levels, 33)``, 32 functions, 0 beyond those of a column, and the rank.  Columns
        without ties share their levels.
      codes: ``(n, c)``, the level of each row in each column.
    """

    table: Floats
    codes: NDArray[np.intp]

    @classmethod
    def of(cls, columns: list[RankedColumn], chosen: Integers, dtype: np.dtype) -> _Lookup:
        """Join the tables of the chosen columns."""
        first_level: dict[int, int] = {}
        parts: list[Floats] = []
        codes = np.empty((len(columns[0].codes), len(chosen)), np.intp)
        levels = 0
        for place, column in enumerate(columns[c] for c in chosen):
            key = id(column.table)
            if key not in first_level:
                part = np.zeros((len(column.linear), MOST_FUNCTIONS + 1), dtype)
                part[:, : column.count], part[:, -1] = column.table.T, column.linear
                first_level[key] = levels
                levels += len(part)
                parts.append(part)
            codes[:, place] = column.codes + first_level[key]
        return cls(np.concatenate(parts), codes)

    def products(
        self, other: _Lookup, k: slice, m: slice, weights: Floats | None
    ) -> NDArray[np.float64]:
        """Return mean products ``(p, k, q, m)`` of functions of these and of other columns."""
        left, right = (
            np.ascontiguousarray(x.table[:, part]) for x, part in ((self, k), (other, m))
        )
        (rows, p), q = self.codes.shape, other.codes.shape[1]
        shape = p, left.shape[1], q, right.shape[1]
        same = self is other and k == m

        def block(part: slice) -> Floats:
            wide = right.take(other.codes[part], axis=0).reshape(-1, shape[2] * shape[3])
            # A product of one array with itself takes half as long.
            side = wide if same else left.take(self.codes[part], axis=0).reshape(-1, p * shape[1])
            if weights is not None:
                side = side * weights[part, None].astype(side.dtype)
            return side.T @ wide

        total = sum_in_blocks(block, rows, shape[0] * shape[1] + shape[2] * shape[3])
        return (total / (rows if weights is None else weights.sum())).reshape(shape)


class _Moments(NamedTuple):
    """Moments of pairs of numbers on the rows that they share.

    Attributes:
      places: ``(N,)``, positions of the pairs.
      m: ``(32, 32, N)``, as of `products_of_pairs`.
      spearman: ``(N,)``.
      reliable, available, limit: ``(2, N)``, numbers of functions of both sides that are reliable,
        that there are, and that an estimate of HGR uses.
      share: ``(N,)``, effective rows, allowing for ties, as a share of the rows.
      least_log_p: ``(N,)``, logarithms of the smallest possible p-values.
      shared: ``(N,)``, numbers of rows.
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
    shared: Integers
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
    by_ranks.estimate_on_shared_rows()
    by_ranks.estimate_within_columns()
    estimates = by_ranks.results.estimates
    estimates.value[estimates.rows < LEAST_ROWS] = np.nan
    return by_ranks.results


class _ByRanks:
    """Estimates and tests of the pairs of a table; `results` are filled step by step."""

    def __init__(self, table: MemoryTable, rows: Floats, tested: bool) -> None:
        self.table, self.in_ranks, self.rows, self.tested = table, table.in_ranks, rows, tested
        self.pairs = np.sort(table.pairs, axis=1)
        self.of_numbers = np.asarray((self.pairs < self.in_ranks.n_numeric).all(axis=1))
        count = len(rows)
        self.results = RankResults.none(count)
        self.estimated = np.zeros(count, bool)
        self._alike = np.zeros(count, bool)
        self._codes: dict[int, Integers] = {}

    def estimate_on_shared_rows(self) -> None:
        """Estimate and test the pairs of numbers by ranks among the rows they share."""
        statistics: list[BlockStatistics] = []
        refined: tuple[list[Integers], ...] = [], []
        waiting: list[_Moments] = []
        chosen = np.flatnonzero(self.of_numbers)
        for places, present in self._shared_rows(chosen):
            for moments in self._moments(places, present):
                waiting.append(moments)
                if sum(len(each.places) for each in waiting) >= MOMENTS_AT_ONCE:
                    self._solve(waiting, statistics, refined)
        if waiting:
            self._solve(waiting, statistics, refined)
        if statistics:
            every = BlockStatistics.joined(statistics)
            self.results.log_p[every.places] = every.log_pvalues(self.rows[every.places])
        seconds, lasts = (np.concatenate([*parts, np.zeros(0, np.intp)]) for parts in refined)
        self._look_again(seconds, lasts)

    def _shared_rows(self, places: Integers) -> Iterator[tuple[Integers, NDArray[np.bool_]]]:
        """Yield parts of the pairs at ``places``, and the mask ``(n,)`` of the rows they share."""
        patterns = self.table.features.patterns
        count = patterns.present.shape[1]
        one, other = patterns.index[self.pairs[places]].T
        for both, part in groups(one * count + other):
            first, second = (patterns.present[:, each] for each in divmod(both, count))
            if np.sum(first & second) >= 2:
                yield places[part], first & second

    def estimate_within_columns(self) -> None:
        """Estimate pairs with a category by ranks among each column's rows."""
        places = np.flatnonzero(~self.estimated)
        if not len(places):
            return
        sums = self.table.rank_sums()
        estimates = sums.estimate(self.table.pairs[places], self.rows[places])
        lines = self.table.rank_lines().estimate(self.table.pairs[places])
        categories = (self.pairs[places] >= self.in_ranks.n_numeric).all(axis=1)
        estimates.linear[:] = np.where(categories, estimates.value, lines.linear)
        estimates.pearson[:] = lines.pearson
        self.results.estimates.put(places, estimates)
        one, other = sums.layout.patterns[self.pairs[places]].T
        with_number = ~categories & estimates.varies
        self._rank_shared_rows(places[with_number & (one != other)])
        self._look_at_levels(places[with_number & (one == other)])

    def _rank_shared_rows(self, places: Integers) -> None:
        """Estimate pairs of a number and a category by ranks among the rows they share."""
        estimates, features = self.results.estimates, self.in_ranks
        estimates.value[places] = hgr_on_own_rows(features, self.pairs[places])
        for group, present in self._shared_rows(places):
            rows, weights = self._weights_of(present)
            for place, (number, category) in zip(group, self.pairs[group], strict=True):
                ranked = self._ranked(np.array([number]), present)[0][0]
                f = ranked.functions(RANK_DEGREE)
                g = functions_of_column(features.values(category)[rows], True, weights)
                weighted = (g * self._order(number, present).shares).T
                estimates.statistic[place] = top_singular_values((f @ weighted)[..., None])[0]
                estimates.linear[place] = np.linalg.norm(ranked.linear[ranked.codes] @ weighted)
                sizes = len(f), len(g)
                turned = self.table.pairs[place, 0] != number
                estimates.degrees[place] = sizes[::-1] if turned else sizes
        for values in (estimates.statistic, estimates.linear):
            values[places] = np.minimum(values[places], 1)

    def _look_at_levels(self, places: Integers) -> None:
        """Estimate pairs again if functions of the number that the sums do not have may matter."""
        again = list[int]()
        for group, present in self._shared_rows(places):
            rows, weights = self._weights_of(present)
            effective, size = float(self.rows[group[0]]), np.array([OF_BOTH])

            @functools.lru_cache(maxsize=max(2, CACHED_FUNCTIONS // int(present.sum())))
            def functions(category: int) -> Floats:
                codes = self.in_ranks.values(category)[rows]  # noqa: B023
                return functions_of_column(codes, True, weights)  # noqa: B023

            for number, part in groups(self.pairs[group, 0]):
                ranked = self._ranked(np.array([number]), present)[0][0]
                in_sums = np.searchsorted(ranked.positions, OF_BOTH)
                if ranked.available(effective) == in_sums:
                    continue
                if in_sums < OF_BOTH:
                    again += group[part].tolist()
                    continue
                order = self._order(number, present)
                f = ranked.functions(OF_BOTH) * order.shares
                for place in group[part].tolist():
                    g = functions(int(self.pairs[place, 1]))
                    explained, counts = explained_by_first((g @ f.T)[..., None], size, number=False)
                    if is_alike(order, g, explained[:, 0], counts[:, 0], effective):
                        again.append(place)
        refine(self.results.estimates, np.array(again, np.intp), self.in_ranks, self.pairs)

    def _codes_of(self, column: int) -> Integers:
        """Return the levels ``(n,)`` of the ranks of a column, 0 where it is missing."""
        if column not in self._codes:
            x, present = self.in_ranks.x[:, column], self.in_ranks.present(column)
            self._codes[column] = np.zeros(len(x), np.int32)
            rows = slice(None) if present.all() else present
            self._codes[column][rows] = codes_of(x[rows])
        return self._codes[column]

    def _weights_of(self, present: NDArray[np.bool_]) -> tuple[Any, Floats | None]:
        """Return which rows are used, and their weights, None if equal."""
        weights = self.in_ranks.weights
        if weights is not None:
            present = present & (weights > 0)
            weights = weights[present].astype(np.float64)
            weights = weights if np.ptp(weights) else None
        return slice(None) if present.all() else present, weights

    def _order(self, column: int, present: NDArray[np.bool_]) -> RankOrder:
        """Return some rows in the order of a column."""
        rows, weights = self._weights_of(present)
        codes = self._codes_of(int(column))[rows]
        w = np.ones(len(codes)) if weights is None else weights
        return RankOrder(codes, w / w.sum())

    def _ranked(
        self, columns: Integers, present: NDArray[np.bool_]
    ) -> tuple[list[RankedColumn], Floats | None]:
        """Rank columns among some rows; return the weights of these rows too, None if equal."""
        rows, weights = self._weights_of(present)
        ranked = ranked_columns([self._codes_of(int(c))[rows] for c in columns], weights)
        return [column.in_cells() for column in ranked], weights

    def _moments(self, group: Integers, present: NDArray[np.bool_]) -> Iterator[_Moments]:
        """Yield the moments of pairs on the rows that they share.

        Two columns of two values are tested exactly.
        """
        used, local = np.unique(self.pairs[group], return_inverse=True)
        pairs = local.reshape(-1, 2)
        columns, weights = self._ranked(used, present)
        count = len(columns[0].codes)
        if count < 2:
            return
        if weights is None and self.tested:
            self._test_exactly(group, columns, pairs)
        reliable, available, limit = (
            np.array(each)[pairs].T
            for each in (
                [c.reliable for c in columns],
                [c.count for c in columns],
                [c.available(self.rows[group[0]]) for c in columns],
            )
        )
        share = np.array([column.effective_share for column in columns])[pairs].prod(axis=1)
        log_orders = np.array([column.log_orders for column in columns])[pairs].max(axis=1)
        least = log_orders - special.gammaln(count + 1)
        every, dtype = np.arange(len(group)), np.dtype(np.float32)  # of bounded functions
        orders = [self._order(c, present) for c in used]
        alike_by = likeness_of_neighbours(columns, [each.neighbours for each in orders], pairs)
        for part, m, spearman in products_of_pairs(columns, pairs, weights, every, dtype):
            sizes = reliable[:, part], available[:, part], limit[:, part]
            alike = np.zeros(len(part), bool)
            for side, of_other in enumerate((m.swapaxes(0, 1), m)):
                explained, counts = explained_by_first(of_other, limit[side, part], number=True)
                mean, error = alike_by[:, side, :, part].swapaxes(0, 1).swapaxes(1, 2)
                rows = self.rows[group[part]]
                beyond = alike_beyond(mean, error, explained, counts, rows)
                for i in np.flatnonzero(beyond.any(axis=0)):
                    column, other = pairs[part[i], side], pairs[part[i], 1 - side]
                    g = columns[other].functions(THIN)
                    of_g = slice(len(g)), i
                    alike[i] |= is_alike(orders[column], g, explained[of_g], counts[of_g], rows[i])
            of_part = share[part], least[part], np.full(len(part), count)
            yield _Moments(group[part], m, spearman, *sizes, *of_part, alike)

    def _solve(
        self,
        waiting: list[_Moments],
        statistics: list[BlockStatistics],
        refined: tuple[list[Integers], ...],
    ) -> None:
        """Estimate pairs from their moments, which are taken out of ``waiting``.

        Adds the statistics of their tests to ``statistics``, and to ``refined`` the places of pairs
        that take the second look next, and of those that take the last one.
        """
        # Small problems are solved together: a call costs as much as some hundred of them.
        each = _Moments(*(np.concatenate(parts, axis=-1) for parts in zip(*waiting, strict=True)))
        waiting.clear()
        places, limit = each.places, each.limit
        blocks = blocks_of(each.m.shape[:2], (True, True), 0)
        in_test = [[*zip(blocks.rows, blocks.columns, strict=True)].index(b) for b in BLOCKS]
        rows = self.rows[places]
        average = average_of_moments(each.m, (limit[0], limit[1]), rows, (True, True), blocks)
        self._put(each, average.value)
        more = (limit > OF_BOTH).any(axis=0)
        refined[0].append(places[more & ~each.alike & look_again(average, blocks, 0)])
        refined[1].append(places[more & each.alike])
        self._alike[refined[1][-1]] = True
        law = (each.reliable > 0).all(axis=0) & (self.rows[places] >= MIN_TABULATED_ROWS)
        law &= np.isnan(self.results.log_p[places]) & self.tested
        reliable, values = each.reliable[:, law], np.sqrt(average.squares[in_test][:, law])
        if (each.reliable != limit).any():
            values = top_values(leading(each.m[..., law], *reliable))
        effective = self.rows[places[law]] * each.share[law]
        statistics.append(
            BlockStatistics(places[law], values, reliable, effective, each.least_log_p[law])
        )

    def _look_again(self, seconds: Integers, lasts: Integers) -> None:
        """Take the second look at pairs of numbers, and the last one where it is needed."""
        last = [lasts]
        for group, present in self._shared_rows(seconds):
            used, local = np.unique(self.pairs[group], return_inverse=True)
            pairs, count = local.reshape(-1, 2), int(present.sum())
            columns, weights = self._ranked(used, present)

            @functools.lru_cache(maxsize=max(2, CACHED_FUNCTIONS // count))
            def functions(column: int) -> Floats:
                column_of_first_look = columns[column]  # noqa: B023
                return column_of_first_look.functions().T.astype(self.in_ranks.x.dtype)

            limit = np.array([c.available(self.rows[group[0]]) for c in columns])[pairs].T
            for part in chunks(np.lexsort(pairs.T[::-1]), MOMENTS_AT_ONCE):
                m, _ = products_one_by_one(pairs[part], functions, weights, MOST_FUNCTIONS)
                sizes = limit[0, part], limit[1, part]
                last.append(group[part[self._put_value(group[part], m, sizes, 1)]])
        for group, present in self._shared_rows(np.concatenate(last)):
            self._take_last_look(group, present)

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

    def _take_last_look(self, group: Integers, present: NDArray[np.bool_]) -> None:
        """Take the last look at pairs of numbers, one by one."""
        rows, weights = self._weights_of(present)
        effective = float(self.rows[group[0]])
        used = np.unique(self.pairs[group]).tolist()
        codes = [self._codes_of(column)[rows] for column in used]
        ranked = dict(zip(used, ranked_columns(codes, weights), strict=True))

        @functools.lru_cache(maxsize=max(2, CACHED_FUNCTIONS // int(present.sum())))
        def seen(column: int) -> tuple[RankedColumn, RankOrder, Floats]:
            f = ranked[column].wide_functions(effective, weights, self.in_ranks.x.dtype)
            return ranked[column], self._order(column, present), f

        ordered = group[np.lexsort(self.pairs[group].T[::-1])]
        long = self._long_blocks_of(ordered, seen, effective)
        for part in chunks(np.arange(len(ordered)), LAST_AT_ONCE):
            places = ordered[part]
            m, sizes = products_one_by_one(
                self.pairs[places], lambda column: seen(column)[2], weights, WIDEST
            )
            self._put_value(places, m, sizes, LAST_LOOK, [each.take(part) for each in long])
        for place in ordered[self._alike[ordered] & ~np.isnan(self.results.log_p[ordered])]:
            columns = [seen(column)[0] for column in self.pairs[place].tolist()]
            kept = [column.functions(column.available(effective)) for column in columns]
            self._test_long_blocks(place, HGREstimate.of_columns(columns, kept, weights))

    def _long_blocks_of(
        self, places: Integers, seen: Callable[[int], Any], rows: float
    ) -> list[LongBlocks]:
        """Return the long blocks of pairs: of functions of the first column, and of the second.

        ``seen`` returns the ranks of a column, its order and its functions ``(n, d)``.
        """
        found = []
        for side in (0, 1):
            parts, at = [], []
            for column, group in groups(self.pairs[places, side]):
                _, order, own = seen(column)
                for part in chunks(group, ORDERED_AT_ONCE):
                    few = np.zeros((THIN, len(part), len(own)))
                    reliable = np.zeros(len(part), np.intp)
                    for i, other in enumerate(self.pairs[places[part], 1 - side].tolist()):
                        ranked, _, f = seen(other)
                        few[: f.shape[1], i] = f[:, :THIN].T
                        reliable[i] = min(ranked.reliable, f.shape[1])
                    size = np.full(len(part), own.shape[1])
                    parts.append(long_blocks(order, few, size, reliable, rows, number=True))
                    at.append(part)
            found.append(LongBlocks.joined(parts).take(np.argsort(np.concatenate(at))))
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

    def _put(self, each: _Moments, value: Floats) -> None:
        """Store HGR of some pairs, and |Spearman|."""
        estimates, places = self.results.estimates, each.places
        varies = (each.available > 0).all(axis=0)
        estimates.value[places] = np.where(varies, value, np.nan)
        linear = np.where(varies, np.minimum(np.abs(each.spearman), 1), np.nan)
        estimates.linear[places] = estimates.pearson[places] = linear
        flips = self.table.pairs[places, 0] > self.table.pairs[places, 1]
        degrees = np.minimum(each.available.T, RANK_DEGREE)
        estimates.degrees[places] = np.where(flips[:, None], degrees[:, ::-1], degrees)
        estimates.rows[places], estimates.pivot[places] = each.shared, 1
        self.estimated[places] = True

    def _test_exactly(self, group: Integers, columns: list[RankedColumn], pairs: Integers) -> None:
        """Test the pairs of two binary columns."""
        is_binary = np.array([column.is_binary for column in columns])
        binary = np.flatnonzero(is_binary[pairs].all(axis=1))
        places = group[binary]
        log_p = exact_log_pvalues([column.codes for column in columns], pairs[binary])
        self.results.log_p[places], self.results.exact[places] = log_p, True
