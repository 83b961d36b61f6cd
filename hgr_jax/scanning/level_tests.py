"""Tests of pairs with a category: by Roy's law where it is close, else by tables of counts.

Roy's law holds for many rows, and last in its tail.  Of columns of few values it is taken where its
p-value is above `MIN_PVALUE`, or the terms that it leaves out are small (`MAX_LOG_ERROR`).  Other
pairs have the law of their table of counts (`inference.level_tables`): Fisher's exact test of two
values beside two; random tables as far as these go; all tables, if they are few; and beyond, the
sum of Roy's law and of the tails that rare levels make.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jax import Array
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.ranks import RankedColumn
from hgr_jax.inference import roys_root
from hgr_jax.inference.level_tables import (
    LevelPair,
    functions_of_counts,
    log_pvalue_of_all_tables,
    log_pvalues,
    log_tail_of_merged_levels,
)
from hgr_jax.inference.permutation import host_generator
from hgr_jax.inference.rank_law import fisher_log_pvalues
from hgr_jax.inference.roys_root.law import (
    ColumnMoments,
    is_valid,
    log_errors,
    moments_of_levels,
    moments_of_ranks,
    tail_corrections,
)
from hgr_jax.scanning.features import Estimates, Features
from hgr_jax.scanning.memory import MemoryTable
from hgr_jax.scanning.rank_tests import MIN_PIVOT

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
class _Side:
    """One column of each of N pairs.

    Attributes:
      moments: moments of its functions.
      shares: of the rows, by value.
      values: ``(N,)``, number of values.
    """

    moments: list[ColumnMoments]
    shares: list[Floats]
    values: Integers

    @classmethod
    def of(cls, features: Features, columns: Integers, degree: int) -> _Side:
        """Take columns of pairs, numbers with ``degree`` functions of their ranks."""
        counts = {int(c): _counts_of_values(features, int(c)) for c in np.unique(columns)}
        moments = {
            c: moments_of_ranks(x, degree) if c < features.n_numeric else moments_of_levels(x)
            for c, x in counts.items()
        }
        used = columns.tolist()
        return cls(
            [moments[c] for c in used],
            [counts[c] / counts[c].sum() for c in used],
            np.array([len(counts[c]) for c in used]),
        )


class LevelTests:
    """Tests of N pairs with a category.

    Attributes:
      log_p: ``(N,)``, logarithms of p-values; NaN for pairs that need permutations.
      source: ``(N,)``, the law of each, as `hgr_jax.scan` names it.
    """

    def __init__(
        self, table: MemoryTable, of_ranks: Estimates, rows: Floats, chosen: NDArray[np.bool_]
    ) -> None:
        """Test the ``chosen`` pairs of a table, of effective ``rows``, by laws for many rows."""
        self.features, self.pairs = table.in_ranks, table.pairs[chosen]
        found = self.found = of_ranks.select(chosen)
        rows = rows[chosen]
        of_categories = (self.pairs >= self.features.n_numeric).all(axis=1)
        self.source = np.where(of_categories, "asymptotic", "rank").astype("<U12")
        degree = table.request.measure.kernels.of_ranks().largest
        one, other = (_Side.of(self.features, side, degree) for side in self.pairs.T)
        moments, values = (one.moments, other.moments), np.array([one.values, other.values])
        log_p = roys_root.log_survival(found.statistic, rows, *found.degrees.T)
        likely = log_p > np.log(MIN_PVALUE)
        close = log_errors(*moments, rows, found.statistic) <= MAX_LOG_ERROR
        few = values.prod(axis=0) <= MAX_TABLE_CELLS
        at_hand = few & (self.features.weights is None)
        self.of_two = at_hand & (values == 2).all(axis=0)
        self.of_tables = at_hand & ~close & ~likely & ~self.of_two
        right = of_categories | close | np.isinf(log_p)
        corrections = tail_corrections(*moments, rows, np.where(right, 0, log_p))
        self.log_p = np.minimum(log_p + np.where(right, 0, corrections), 0)
        for i in np.flatnonzero(of_categories & ~close & (log_p <= np.log(MAX_OF_TAIL))):
            counts = [_rounded_counts(side.shares[i], rows[i]) for side in (one, other)]
            tail = log_tail_of_merged_levels((counts[0], counts[1]), found.statistic[i])
            self.log_p[i] = min(np.logaddexp(log_p[i], tail), 0)
        valid = is_valid(*moments, table.heaviest_rows()[chosen]) & (found.pivot >= MIN_PIVOT)
        self.log_p[~(valid | (few & likely) | self.of_tables)] = np.nan
        self.has_law = valid | of_categories  # the tails of rare levels are those of categories

    def test_exactly(self) -> None:
        """Test pairs of two columns of two values by Fisher's exact test."""
        places = np.flatnonzero(self.of_two)
        if len(places):
            both = np.array([_table_of(self.features, pair) for pair in self.pairs[places]])
            margins = both[:, 1].sum(axis=1), both[..., 1].sum(axis=1)
            self.log_p[places] = fisher_log_pvalues(both.sum(axis=(1, 2)), both[:, 1, 1], *margins)
            self.source[places] = "exact"

    def test_tables(self, key: Array | None) -> None:
        """Test pairs of few values for which the laws for many rows are not close."""
        places = np.flatnonzero(self.of_tables)
        pairs = {place: self._level_pair(place) for place in places.tolist()}
        drawn = places[self.log_p[places] > np.log(MAX_UNDRAWN)].tolist()
        generator = host_generator(key)
        by_draws = log_pvalues([pairs[place] for place in drawn], generator)
        resolved = np.array(drawn, np.intp)[~np.isnan(by_draws)]
        self.log_p[resolved] = by_draws[~np.isnan(by_draws)]
        self.source[resolved] = "permutation"
        for place in np.setdiff1d(places, resolved).tolist():
            log_p = log_pvalue_of_all_tables(pairs[place])
            if log_p is not None:
                self.log_p[place], self.source[place] = log_p, "exact"
            elif not self.has_law[place]:
                self.log_p[place] = np.nan

    def _level_pair(self, place: int) -> LevelPair:
        """Return a pair as a table, with functions of both sides on its rows."""
        table = _table_of(self.features, self.pairs[place])
        table = table[table.any(axis=1)][:, table.any(axis=0)]
        margins = table.sum(axis=1), table.sum(axis=0)
        f, g = (
            functions_of_counts(tuple(counts.tolist()))
            if column >= self.features.n_numeric
            else _functions_of_ranked(counts)[:degree]
            for column, degree, counts in zip(
                self.pairs[place], self.found.degrees[place], margins, strict=True
            )
        )
        return LevelPair(f, g, table)


def _counts_of_values(features: Features, column: int) -> Integers:
    """Count the rows of each value of a column."""
    values = features.values(column)
    if column < features.n_numeric:
        return np.unique(values[~np.isnan(values)], return_counts=True)[1]
    counts = np.bincount(values[values >= 0])
    return counts[counts > 0]


def _functions_of_ranked(counts: Integers) -> Floats:
    """Return orthonormal functions of the ranks of values with so many rows, by value."""
    column = RankedColumn.of_codes(np.repeat(np.arange(len(counts)), counts))
    return column.functions()[:, np.cumsum(counts) - 1]


def _rounded_counts(shares: Floats, rows: float) -> tuple[int, ...]:
    """Return numbers of rows of levels that have these shares of all ``rows``."""
    ends = np.rint(np.cumsum(shares) * round(rows)).astype(int)
    return tuple(np.diff(ends, prepend=0).tolist())


def _table_of(features: Features, pair: Integers) -> Integers:
    """Count the rows of both values of two columns, on the rows that they share."""
    shared = features.present(pair[0]) & features.present(pair[1])
    codes, sizes = [], []
    for column in pair:
        values = features.values(column)[shared]
        if column < features.n_numeric:
            values = np.unique(values, return_inverse=True)[1]
            sizes.append(int(values.max()) + 1)
        else:
            sizes.append(features.levels[column - features.n_numeric])
        codes.append(values.astype(np.int64))
    joint = codes[0] * sizes[1] + codes[1]
    return np.bincount(joint, minlength=sizes[0] * sizes[1]).reshape(sizes)
