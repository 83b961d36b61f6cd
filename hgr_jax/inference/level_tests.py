"""Tests of pairs with a category: by Roy's law where it is close, else by tables of counts.

Roy's law holds for many rows, and last in its tail.  Of columns of few values it is taken where its
p-value is above `MIN_PVALUE`, or the terms that it leaves out are small (`MAX_LOG_ERROR`).  Other
pairs have the law of their table of counts (`inference.level_tables`): Fisher's exact test of two
values beside two; random tables as far as these go; all tables, if they are few; and beyond, the
sum of Roy's law and of the tails that rare levels make.  Without any of these, rows are permuted.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._threads import in_threads
from hgr_jax.core.host.linalg import top_singular_values
from hgr_jax.core.host.ranks import RankedColumn, effective_row_count, log_orders
from hgr_jax.inference import roys_root
from hgr_jax.inference.level_tables import (
    CELLS_AT_ONCE,
    LevelPair,
    functions_of_counts,
    log_pvalue_of_all_tables,
    log_pvalue_of_random_tables,
    log_tail_of_merged_levels,
)
from hgr_jax.inference.orders import (
    COUNTED_ROWS,
    draws_at,
    fixed_and_moved,
    most_draws,
    orders_at,
    seed_of,
    test_by_orders,
)
from hgr_jax.inference.rank_law import fisher_log_pvalues
from hgr_jax.inference.results import OF_CONSTANT, IndependenceTest
from hgr_jax.inference.roys_root.law import log_survival_of_many
from hgr_jax.inference.roys_root.validity import (
    Moments,
    is_valid,
    log_errors,
    moments_of_levels,
    moments_of_ranks,
    tail_corrections,
)

RANK_DEGREE = 5
"""Number of functions of the ranks of a number beside a category."""

MIN_PVALUE = 0.2
"""P-values of few values by Roy's law that are above this are taken, however few rows there are."""

MAX_LOG_ERROR = 0.1
"""Largest `log_errors` of p-values by Roy's law that are taken."""

MAX_OF_TAIL = 1e-3
"""Largest p-value by Roy's law that is corrected for rare levels."""

MAX_UNDRAWN = 1e-4
"""Largest p-value that is too small for random tables."""

MAX_TABLE_CELLS = 256
"""Largest number of cells of a table of counts that has a law of its own."""


@dataclasses.dataclass(frozen=True)
class LevelPairs:
    """N pairs of columns, at least one of each a category.

    Attributes:
      counts: rows of each value of the first, and of the second columns.
      of_levels: ``(N, 2)``, which columns are categories.
      statistic: ``(N,)``, top correlations of functions of ranks and of levels.
      degrees: ``(N, 2)``, numbers of these functions.
      rows: ``(N,)``, effective numbers of rows.
      heaviest: ``(N,)``, sums of squared weights, over the largest squared weight.
      table_at: returns the table of counts of a pair.
      has_tables: whether there are such tables: not with weights.
    """

    counts: tuple[Sequence[Integers], Sequence[Integers]]
    of_levels: NDArray[np.bool_]
    statistic: Floats
    degrees: Integers
    rows: Floats
    heaviest: Floats
    table_at: Callable[[int], Integers]
    has_tables: bool

    def moments(self) -> Moments:
        """Return the products of the moments of the functions of both columns."""
        known: dict[tuple[int, bool], Moments] = {}

        def moments_of(counts: Integers, is_level: bool) -> Moments:
            key = id(counts), is_level
            if key not in known:
                known[key] = (
                    moments_of_levels(counts) if is_level else moments_of_ranks(counts, RANK_DEGREE)
                )
            return known[key]

        first, second = (
            [*map(moments_of, counts, is_level.tolist())]
            for counts, is_level in zip(self.counts, self.of_levels.T, strict=True)
        )
        return Moments(*(np.array(first) * np.array(second)).T)

    def pair_at(self, place: int) -> LevelPair:
        """Return a pair as a table, with functions of both sides on its rows."""
        table = self.table_at(place)
        table = table[table.any(axis=1)][:, table.any(axis=0)]
        f, g = (
            functions_of_counts(tuple(counts.tolist()))
            if is_level
            else _functions_of_ranked(counts)[:degree]
            for is_level, degree, counts in zip(
                self.of_levels[place],
                self.degrees[place],
                (table.sum(axis=1), table.sum(axis=0)),
                strict=True,
            )
        )
        return LevelPair(f, g, table)

    def log_pvalues(self, seed: tuple[int, ...]) -> tuple[Floats, NDArray[np.str_]]:
        """Return log p-values ``(N,)``, NaN of pairs that have no law, and the law of each.

        Laws are named as by `hgr_jax.scan`; ``seed`` is of random tables.
        """
        of_categories, rows, moments = self.of_levels.all(axis=1), self.rows, self.moments()
        source = np.where(of_categories, "asymptotic", "rank").astype("<U12")
        values = np.array([[*map(len, side)] for side in self.counts])
        of_roy = roys_root.log_survival(self.statistic, rows, *self.degrees.T)
        likely = of_roy > np.log(MIN_PVALUE)
        close = log_errors(moments, rows, self.statistic) <= MAX_LOG_ERROR
        few = values.prod(axis=0) <= MAX_TABLE_CELLS
        of_two = few & self.has_tables & (values == 2).all(axis=0)
        of_tables = few & self.has_tables & ~close & ~likely & ~of_two
        right = of_categories | close | np.isinf(of_roy)
        corrections = tail_corrections(moments, rows, np.where(right, 0, of_roy))  # 0 of log p = 0
        log_p = np.minimum(of_roy + corrections, 0)
        for i in np.flatnonzero(of_categories & ~close & (of_roy <= np.log(MAX_OF_TAIL))).tolist():
            one, other = (_rounded_counts(side[i], rows[i]) for side in self.counts)
            tail = log_tail_of_merged_levels((one, other), self.statistic[i])
            log_p[i] = min(np.logaddexp(of_roy[i], tail), 0)
        valid = is_valid(moments, self.heaviest)
        log_p[~(valid | (few & likely) | of_tables)] = np.nan
        if of_two.any():
            log_p[of_two], source[of_two] = self._fisher_log_pvalues(of_two), "exact"
        places = np.flatnonzero(of_tables).tolist()
        by_tables = in_threads(
            lambda place: self._log_pvalue_of_tables(place, float(log_p[place]), seed), places
        )
        for place, (found, law) in zip(places, by_tables, strict=True):
            if found is not None:
                log_p[place], source[place] = found, law
            elif not (valid | of_categories)[place]:  # the tails of rare levels are of categories
                log_p[place] = np.nan
        return log_p, source

    def _fisher_log_pvalues(self, chosen: NDArray[np.bool_]) -> Floats:
        """Return log p-values of pairs of two columns of two values, by Fisher's exact test."""
        both = np.array([self.table_at(place) for place in np.flatnonzero(chosen).tolist()])
        margins = both[:, 1].sum(axis=1), both[..., 1].sum(axis=1)
        return fisher_log_pvalues(both.sum(axis=(1, 2)), both[:, 1, 1], *margins)

    def _log_pvalue_of_tables(
        self, place: int, log_p: float, seed: tuple[int, ...]
    ) -> tuple[float | None, str]:
        """Return the log p-value of a pair of few values by tables, if there is one, and its law.

        ``log_p`` is that by the laws for many rows, which are not close.
        """
        pair = self.pair_at(place)
        if log_p > np.log(MAX_UNDRAWN):
            drawn = log_pvalue_of_random_tables(pair, seed)
            if drawn is not None:
                return drawn, "permutation"
        return log_pvalue_of_all_tables(pair), "exact"


def test_levels(
    columns: tuple[Floats, Floats],
    is_level: tuple[bool, bool],
    weights: Floats | None,
    permutations: int | None,
    key: Any,
) -> IndependenceTest:
    """Test two columns, one or both of codes of levels, by a law, or by orders of the rows."""
    count = len(columns[0])
    w = np.ones(count) if weights is None else weights
    f, g = (functions_of_column(x, of, weights) for x, of in zip(columns, is_level, strict=True))
    degrees = len(f), len(g)
    if not all(degrees):
        return OF_CONSTANT
    value = np.minimum(top_singular_values(((f * w / w.sum()) @ g.T)[..., None]), 1)
    rows = effective_row_count(count, weights)
    first, second = (np.unique(x, return_inverse=True)[1] for x in columns)
    sizes = int(first.max()) + 1, int(second.max()) + 1
    pair = LevelPairs(
        counts=([np.bincount(first)], [np.bincount(second)]),
        of_levels=np.array([is_level]),
        statistic=value,
        degrees=np.array([degrees]),
        rows=np.array([rows]),
        heaviest=np.array([np.sum(w**2) / np.max(w) ** 2]),
        table_at=lambda _: table_of((first, second), sizes),
        has_tables=weights is None,
    )
    log_p, source = pair.log_pvalues(seed_of(key))
    if np.isnan(log_p[0]):
        return test_levels_by_orders(columns, is_level, weights, permutations, key)
    pvalue = float(np.exp(log_p[0]))
    return IndependenceTest.of_blocks(value[0], pvalue, str(source[0]), degrees, rows)


def test_levels_by_orders(
    columns: tuple[Floats, Floats],
    is_level: tuple[bool, bool],
    weights: Floats | None,
    permutations: int | None,
    key: Any,
) -> IndependenceTest:
    """Test two columns, one or both of codes of levels, by orders of the rows of one."""
    count = len(columns[0])
    f, g = (functions_of_column(x, of) for x, of in zip(columns, is_level, strict=True))
    rows, degrees = effective_row_count(count, weights), (len(f), len(g))
    if not all(degrees):
        return OF_CONSTANT
    fixed, moved, _ = fixed_and_moved(columns, (f, g), weights)
    of_values, of_rows = fixed.functions[:, fixed.first], np.ascontiguousarray(moved.T)

    def values_in(orders: Integers) -> Floats:
        parts = fixed.parts_of(orders, len(moved))
        # The rows of each value of the fixed side are summed first.
        sums = (np.add.reduceat(of_rows.take(part, axis=0), fixed.first, axis=1) for part in parts)
        moments = np.concatenate([of_values @ total for total in sums])
        return np.minimum(top_singular_values(np.moveaxis(moments, 0, -1)), 1)

    def scores_of(values: Floats) -> Floats:
        return log_survival_of_many(values[None], rows, *np.array(degrees)[:, None, None])[0]

    value, most = values_in(np.arange(count)[None]), most_draws(count, permutations)
    counts = (np.unique(x, return_counts=True)[1] for x in columns)
    rarest = max(map(log_orders, counts)) - math.lgamma(count + 1)
    seed = seed_of(key)

    def of_orders(place: int) -> Floats:
        return scores_of(values_in(orders_at(count, seed, place, most)))

    of_tables = None
    if weights is None and count > COUNTED_ROWS:
        of_tables = _scores_of_tables(columns, (f, g), scores_of, seed, most)
    scores = of_orders if of_tables is None else of_tables
    found = test_by_orders(scores, float(scores_of(value)[0]), count, rarest, most)
    return IndependenceTest.of_blocks(value[0], *found, degrees, rows)


def _scores_of_tables(
    columns: tuple[Floats, Floats],
    functions: tuple[Floats, Floats],
    scores_of: Callable[[Floats], Floats],
    seed: tuple[int, ...],
    most: int,
) -> Callable[[int], Floats] | None:
    """Return scores of random tables of counts, at places; None where rows are not much more.

    They take the time of their cells, and not that of the rows.
    """
    sides = [np.unique(x, return_index=True, return_counts=True)[1:] for x in columns]
    cells, rows = math.prod(len(counts) for _, counts in sides), len(columns[0])
    if cells * math.log(rows) > rows:  # SciPy would take the time of the rows too
        return None
    from scipy import stats  # loads slowly

    f, g = (z[:, first] for z, (first, _) in zip(functions, sides, strict=True))
    table = stats.random_table(sides[0][1], sides[1][1])

    def scores(place: int) -> Floats:
        draws = draws_at(place, min(CELLS_AT_ONCE // cells, most))
        tables = table.rvs(draws, random_state=np.random.default_rng([*seed, place]))
        moments = np.moveaxis(f @ tables @ g.T, 0, -1) / rows
        return scores_of(np.minimum(top_singular_values(moments), 1))

    return scores


def functions_of_column(
    x: Floats, is_level: bool, weights: Floats | None = None, most: int = RANK_DEGREE
) -> Floats:
    """Return orthonormal functions ``(d, n)`` of the ranks of numbers, or of codes of levels."""
    if not is_level:
        return RankedColumn.of_values(x, weights).functions(most)
    codes = np.unique(x, return_inverse=True)[1]
    return functions_of_counts(tuple(np.bincount(codes, weights).tolist()))[:, codes]


def _functions_of_ranked(counts: Integers) -> Floats:
    """Return orthonormal functions of the ranks of values with so many rows, by value."""
    column = RankedColumn.of_codes(np.repeat(np.arange(len(counts)), counts))
    return column.functions()[:, np.cumsum(counts) - 1]


def _rounded_counts(counts: Integers, rows: float) -> tuple[int, ...]:
    """Return numbers of rows of levels that have the shares of ``counts`` among all ``rows``."""
    ends = np.rint(np.cumsum(counts / counts.sum()) * round(rows)).astype(int)
    return tuple(np.diff(ends, prepend=0).tolist())


def table_of(codes: tuple[Integers, Integers], sizes: tuple[int, int]) -> Integers:
    """Count the rows of both codes, ``sizes`` of each."""
    joint = codes[0] * sizes[1] + codes[1]
    return np.bincount(joint, minlength=sizes[0] * sizes[1]).reshape(sizes)
