"""Tests of pairs with a category: by Roy's law where it is close, else by tables of counts.

Roy's law holds for many rows, and last in its tail.  Of columns of few values it is taken where its
p-value is above `MIN_PVALUE`, or the terms that it leaves out are small (`MAX_LOG_ERROR`).  Other
pairs have the law of their table of counts (`inference.level_tables`): Fisher's exact test of two
values beside two; random tables as far as these go; all tables, if they are few; and beyond, the
sum of Roy's law and of the tails that rare levels make.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._threads import in_threads
from hgr_jax.core.host.ranks import RankedColumn
from hgr_jax.inference import roys_root
from hgr_jax.inference.level_tables import (
    LevelPair,
    functions_of_counts,
    log_pvalue_of_all_tables,
    log_pvalue_of_random_tables,
    log_tail_of_merged_levels,
)
from hgr_jax.inference.rank_law import fisher_log_pvalues
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
"""Largest number of cells of a table of counts."""


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


class LevelTests:
    """Tests of N pairs with a category.

    Attributes:
      log_p: ``(N,)``, logarithms of p-values; NaN for pairs that have no law.
      source: ``(N,)``, the law of each, as `hgr_jax.scan` names it.
    """

    def __init__(self, pairs: LevelPairs, seed: tuple[int, ...]) -> None:
        """Test the pairs; ``seed`` is of random tables."""
        self.pairs = pairs
        of_categories, rows = pairs.of_levels.all(axis=1), pairs.rows
        self.source = np.where(of_categories, "asymptotic", "rank").astype("<U12")
        moments = pairs.moments()
        values = np.array([[*map(len, side)] for side in pairs.counts])
        log_p = roys_root.log_survival(pairs.statistic, rows, *pairs.degrees.T)
        likely = log_p > np.log(MIN_PVALUE)
        close = log_errors(moments, rows, pairs.statistic) <= MAX_LOG_ERROR
        few = values.prod(axis=0) <= MAX_TABLE_CELLS
        at_hand = few & pairs.has_tables
        of_two = at_hand & (values == 2).all(axis=0)
        of_tables = at_hand & ~close & ~likely & ~of_two
        right = of_categories | close | np.isinf(log_p)
        corrections = tail_corrections(moments, rows, np.where(right, 0, log_p))
        self.log_p = np.minimum(log_p + np.where(right, 0, corrections), 0)
        for i in np.flatnonzero(of_categories & ~close & (log_p <= np.log(MAX_OF_TAIL))).tolist():
            one, other = (_rounded_counts(side[i], rows[i]) for side in pairs.counts)
            tail = log_tail_of_merged_levels((one, other), pairs.statistic[i])
            self.log_p[i] = min(np.logaddexp(log_p[i], tail), 0)
        valid = is_valid(moments, pairs.heaviest)
        self.log_p[~(valid | (few & likely) | of_tables)] = np.nan
        self._test_exactly(np.flatnonzero(of_two))
        # The tails of rare levels are those of categories.
        self._test_tables(np.flatnonzero(of_tables), valid | of_categories, seed)

    def _test_exactly(self, places: Integers) -> None:
        """Test pairs of two columns of two values by Fisher's exact test."""
        if len(places):
            both = np.array([self.pairs.table_at(place) for place in places.tolist()])
            margins = both[:, 1].sum(axis=1), both[..., 1].sum(axis=1)
            self.log_p[places] = fisher_log_pvalues(both.sum(axis=(1, 2)), both[:, 1, 1], *margins)
            self.source[places] = "exact"

    def _test_tables(
        self, places: Integers, has_law: NDArray[np.bool_], seed: tuple[int, ...]
    ) -> None:
        """Test pairs of few values for which the laws for many rows are not close."""

        def test(place: int) -> None:
            pair = self.pairs.pair_at(place)
            log_p, source = None, "permutation"
            if self.log_p[place] > np.log(MAX_UNDRAWN):
                log_p = log_pvalue_of_random_tables(pair, seed)
            if log_p is None:
                log_p, source = log_pvalue_of_all_tables(pair), "exact"
            if log_p is not None:
                self.log_p[place], self.source[place] = log_p, source
            elif not has_law[place]:
                self.log_p[place] = np.nan

        in_threads(test, places.tolist())


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
