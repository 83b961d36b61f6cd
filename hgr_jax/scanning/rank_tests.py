"""The test by ranks of many pairs of numbers, and HGR of their ranks, from the same products.

Two columns of a table in memory that are present in the same rows are tested as by
`independence_test`: by ranks among these rows, from few cross moments (`products_of_pairs`): of the
first two polynomials of one column with all polynomials of the other, of both third polynomials,
and of the first polynomial of one with the waves of the other.  Two binary columns have Fisher's
exact test.  All other pairs are tested by ranks among the rows of each column, whose polynomials
are made orthonormal on the rows of the pair, up to degree 8.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.linalg import top_correlations
from hgr_jax.core.host.ranks import (
    LARGEST_DEGREE,
    RankedColumn,
    codes_of,
    is_reliable,
    ranked_columns,
    wave_count,
    wave_table,
)
from hgr_jax.inference.independence import (
    MIN_TABULATED_ROWS,
    NARROW,
    Moments,
    combined,
    fisher_log_pvalues,
    in_blocks,
    log_probability,
    top_values,
)
from hgr_jax.scanning.features import Estimates, chunks, groups
from hgr_jax.scanning.sums import sum_in_blocks
from hgr_jax.scanning.table import Table

COUNTED_AT_ONCE = 256
"""Number of binary columns on each side that are counted at a time."""

COUNTED_NUMBERS = 2**22
"""Number of values of the columns that are counted at a time."""


def exact_log_pvalues(columns: Sequence[Integers], pairs: Integers) -> Floats:
    """Return log p-values of Fisher's exact test for ``pairs (N, 2)`` of binary columns."""
    log_p = np.zeros(len(pairs))
    tiles = pairs // COUNTED_AT_ONCE
    for _, part in groups(tiles[:, 0] * len(columns) + tiles[:, 1]):
        (left, i), (right, j) = (np.unique(side, return_inverse=True) for side in pairs[part].T)
        f, g = ([columns[c] for c in side] for side in (left, right))
        ones, others = np.sum(f, axis=1)[i], np.sum(g, axis=1)[j]
        log_p[part] = fisher_log_pvalues(len(f[0]), both_counts(f, g)[i, j], ones, others)
    return log_p


def both_counts(one: Sequence[Integers], other: Sequence[Integers]) -> Integers:
    """Count the rows where both of two binary columns have 1, ``(p, q)``."""
    rows = len(one[0])
    total = np.zeros((len(one), len(other)), np.int64)
    # float32 counts exactly up to 2^24.
    size = min(max(1, COUNTED_NUMBERS // (len(one) + len(other))), 2**24)
    for start in range(0, rows, size):
        left, right = (
            np.array([column[start : start + size] for column in side], np.float32)
            for side in (one, other)
        )
        total += (left @ right.T).astype(np.int64)
    return total


class ExactScreen:
    """Fisher's exact tests of all pairs of two parts of the binary columns of a table."""

    def __init__(self, parts: Sequence[Sequence[Integers]]) -> None:
        """Take parts of columns ``(n,)`` of 0 and 1."""
        self.parts = parts

    def log_pvalues(self, left: int, right: int) -> Floats:
        """Return log p-values of two parts ``(p, q)``; NaN up to the diagonal for equal parts."""
        f, g = self.parts[left], self.parts[right]
        ones, others = np.sum(f, axis=1)[:, None], np.sum(g, axis=1)
        log_p = fisher_log_pvalues(len(f[0]), both_counts(f, g), ones, others)
        return above_diagonal(log_p) if left == right else log_p


def above_diagonal(log_p: Floats) -> Floats:
    """Return a square matrix with NaN on and below its diagonal."""
    return np.where(np.tri(len(log_p), dtype=bool), np.nan, log_p)


FIRST = 2
"""Number of polynomials of a column whose products with all of the other's are taken."""

TILE = 128
"""Number of columns on each side whose products are taken at a time."""

MOMENTS_AT_ONCE = 2**11
"""Number of pairs whose moments are yielded at a time."""


def products_of_pairs(
    columns: list[RankedColumn],
    pairs: Integers,
    weights: Floats | None,
    places: Integers,
    full_degree: int,
    dtype: np.dtype,
) -> Iterator[tuple[Integers, Moments]]:
    """Yield the pairs at ``places``, part by part, and their moments up to degree 16.

    All moments up to degree ``full_degree`` are computed, also beyond reliable degrees.
    """
    tiles = pairs[places] // TILE
    square = max(full_degree, NARROW)
    waves = wave_count(len(columns[0].codes))
    counts = np.array([waves * column.has_waves for column in columns])
    for _, group in groups(tiles[:, 0] * len(columns) + tiles[:, 1]):
        chosen = places[group]
        left, right = (np.unique(pairs[chosen, side]) for side in (0, 1))
        if tiles[group[0], 0] == tiles[group[0], 1]:
            left = right = np.union1d(left, right)
        inner, forward, forward_waves = _narrow_products(
            columns, left, right, weights, full_degree, dtype
        )
        backward, backward_waves = forward, forward_waves
        if left is not right:
            _, backward, backward_waves = _narrow_products(
                columns, right, left, weights, full_degree, dtype, all_with_all=False
            )
        for part in chunks(chosen, MOMENTS_AT_ONCE):
            i = np.searchsorted(left, pairs[part, 0])
            j = np.searchsorted(right, pairs[part, 1])
            m = np.zeros((LARGEST_DEGREE, LARGEST_DEGREE, len(part)))
            m[:square, :square] = np.moveaxis(inner[i, :, j], 0, -1)
            m[:FIRST, square:] = np.moveaxis(forward[i, :, j], 0, -1)
            m[square:, :FIRST] = np.moveaxis(backward[j, :, i], 0, -1).swapaxes(0, 1)
            norms = np.stack([backward_waves[j, i], forward_waves[i, j]])
            yield part, Moments(m, norms, counts[pairs[part]].T)


def _narrow_products(
    columns: list[RankedColumn],
    left: Integers,
    right: Integers,
    weights: Floats | None,
    full_degree: int,
    dtype: np.dtype,
    *,
    all_with_all: bool = True,
) -> tuple[Floats, Floats, Floats]:
    """Return mean products of functions of p ``left`` columns with those of q ``right`` columns.

    With d = max(3, ``full_degree``): of polynomials up to degree d, ``(p, d, q, d)``, empty without
    ``all_with_all``; of the first two with degrees above d, ``(p, 2, q, 16 - d)``; and the norms of
    the products of the first polynomial with the waves, ``(p, q)``.
    """
    rows, p, q = len(columns[0].codes), len(left), len(right)
    waved = np.array([place for place, c in enumerate(right) if columns[c].has_waves], np.intp)
    # All columns with waves have the same: those of untied ranks.
    waves = wave_table(rows, dtype) if len(waved) else np.zeros((0, 0), dtype)
    d, count = max(full_degree, NARROW), waves.shape[1]
    table, codes = _lookup(columns, right, full_degree, dtype)
    left_table, left_codes = table, codes
    if left is not right:
        left_table, left_codes = _lookup(columns, left, full_degree, dtype)
    # A product of one array with itself takes half as long.
    low = np.ascontiguousarray(table[:, :d])
    left_low = low if left is right else np.ascontiguousarray(left_table[:, :d])

    def product(values: Floats, others: Floats) -> NDArray[np.float64]:
        k, m = values.shape[1], others.shape[1]
        wide_columns = len(waved) if others is waves else q

        def block(part: slice) -> Floats:
            places = codes[part]
            if others is waves:
                places = np.stack([columns[c].codes[part] for c in right[waved]], axis=1)
            side = wide = others.take(places, axis=0).reshape(-1, wide_columns * m)
            if values is not others:
                side = values.take(left_codes[part], axis=0).reshape(-1, p * k)
            if weights is not None:
                side = side * weights[part, None].astype(dtype)
            return side.T @ wide

        return sum_in_blocks(block, rows, p * k + wide_columns * m)

    inner = product(left_low, low) if all_with_all else np.zeros((0, 0))
    first_two, first = (np.ascontiguousarray(left_table[:, :k]) for k in (FIRST, 1))
    outer = product(first_two, np.ascontiguousarray(table[:, d:]))
    with_waves = product(first, waves) if len(waved) else np.zeros((p, 0))
    scale = rows if weights is None else weights.sum()
    wave_norms = np.zeros((p, q))
    wave_norms[:, waved] = np.linalg.norm(with_waves.reshape(p, len(waved), count), axis=2)
    return (
        (inner / scale).reshape((p, d, q, d) if all_with_all else (0, 0, 0, 0)),
        (outer / scale).reshape(p, FIRST, q, LARGEST_DEGREE - d),
        wave_norms / scale,
    )


def _lookup(
    columns: list[RankedColumn], chosen: Integers, full_degree: int, dtype: np.dtype
) -> tuple[Floats, NDArray[np.intp]]:
    """Return polynomials at the levels of columns, ``(levels, 16)``, and the level of each row.

    Polynomials beyond both the reliable degree and ``full_degree`` are 0.  Columns without ties
    share their levels.
    """
    first_level: dict[tuple[int, int], int] = {}
    parts: list[Floats] = []
    codes = np.empty((len(columns[0].codes), len(chosen)), np.intp)
    levels = 0
    for place, c in enumerate(chosen):
        table = columns[c].table
        degree = min(max(columns[c].reliable_degree, full_degree), len(table))
        if (id(table), degree) not in first_level:
            part = np.zeros((table.shape[1], LARGEST_DEGREE), dtype)
            part[:, :degree] = table[:degree].T
            first_level[id(table), degree] = levels
            levels += len(part)
            parts.append(part)
        codes[:, place] = columns[c].codes + first_level[id(table), degree]
    return np.concatenate(parts), codes


WITHIN_COLUMN_DEGREE = 8
"""Largest degree of tests by ranks among each column's own rows."""

MIN_PIVOT = 0.3
"""Smallest pivot of polynomials of ranks on a pair's rows with which these rows are taken to
represent the rows of both columns."""


class BlockStatistics(NamedTuple):
    """Statistics of the blocks of some pairs.

    Attributes:
      places: ``(N,)``, positions of the pairs.
      values: top singular values of the blocks.
      degrees: ``(2, N)``, largest degrees of both sides.
      waves: ``(2, N)``, number of waves of both sides.
      effective_rows: ``(N,)``, effective sample sizes, allowing for ties.
      least_log_p: ``(N,)``, logarithms of the smallest possible p-values.
    """

    places: Integers
    values: Floats
    degrees: Integers
    waves: Integers
    effective_rows: Floats
    least_log_p: Floats

    @classmethod
    def joined(cls, parts: Sequence[BlockStatistics]) -> BlockStatistics:
        """Join parts, as a law costs as much for some hundred pairs as for all."""
        return cls(*(np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)))

    def log_pvalues(self, rows: Floats) -> Floats:
        """Return log p-values ``(N,)`` of pairs, given their numbers of rows."""
        log_p = combined(self.values, rows, self.degrees, self.waves).log_p
        log_p = log_probability(log_p, np.maximum(self.effective_rows, MIN_TABULATED_ROWS))
        return np.maximum(log_p, self.least_log_p)


@dataclasses.dataclass
class RankResults:
    """Tests by ranks of N pairs.

    Attributes:
      estimates: HGR of ranks.
      log_p: ``(N,)``, log p-values, NaN for pairs that need permutations.
      exact: ``(N,)``, mask of Fisher's exact tests.
    """

    estimates: Estimates
    log_p: Floats
    exact: NDArray[np.bool_]


def run_rank_tests(
    table: Table, rows: Floats, usable: NDArray[np.bool_], progress: Callable[[int], None]
) -> RankResults:
    """Test pairs of numbers by ranks, and estimate HGR of the ranks of all pairs.

    Args:
      table: table of the pairs.
      rows: ``(N,)``, effective sample sizes.
      usable: ``(N,)``, mask of the pairs that have a value.
      progress: called with the number of pairs that a step has estimated.
    """
    tests = _RankTests(table, rows)
    untested = np.flatnonzero(usable & (table.pairs < table.in_ranks.n_numeric).all(axis=1))
    if table.complete and len(untested):
        untested = tests.test_on_shared_rows(untested, progress)
    tests.test_within_columns(untested, progress)
    return tests.results


class _RankTests:
    """Tests of the pairs of a table; `results` are filled step by step."""

    def __init__(self, table: Table, rows: Floats) -> None:
        self.table, self.in_ranks, self.kernels = table, table.in_ranks, table.kernels.of_ranks()
        self.rows = rows
        self.flips = table.pairs[:, 0] > table.pairs[:, 1]
        self.pairs = np.sort(table.pairs, axis=1)
        count = len(rows)
        none = np.zeros(count, bool)
        self.results = RankResults(Estimates.none(count), np.full(count, np.nan), none)
        self.estimated = none.copy()
        self._codes: dict[int, Integers] = {}

    def test_on_shared_rows(self, untested: Integers, progress: Callable[[int], None]) -> Integers:
        """Test the untested pairs whose columns have one pattern; return the other positions."""
        index = self.table.features.patterns.index
        one, other = index[self.pairs[untested]].T
        statistics: list[BlockStatistics] = []
        for pattern, places in groups(np.where(one == other, one, -1)):
            if pattern >= 0:
                statistics += self._with_one_pattern(untested[places], pattern, progress)
        if statistics:
            every = BlockStatistics.joined(statistics)
            self.results.log_p[every.places] = every.log_pvalues(self.rows[every.places])
        return untested[one != other]

    def test_within_columns(self, untested: Integers, progress: Callable[[int], None]) -> None:
        """Estimate the remaining pairs by ranks among each column's rows; test the untested."""
        places = np.flatnonzero(~self.estimated)
        if not len(places):
            return
        tested = np.isin(places, untested)
        used = np.unique(self.pairs[places[tested]])
        columns = {c: column for c in used if (column := self._ranked_within(c)) is not None}
        size = 1 + int(self.pairs.max(initial=-1))
        degree, share = np.zeros(size, np.intp), np.zeros(size)
        for c, column in columns.items():
            degree[c], share[c] = (
                min(column.reliable_degree, WITHIN_COLUMN_DEGREE),
                column.effective_share,
            )
        narrow = in_blocks(WITHIN_COLUMN_DEGREE, WITHIN_COLUMN_DEGREE)
        statistics: list[BlockStatistics] = []

        def keep_statistics(part: Integers, m: Floats) -> None:
            chosen = tested[part]
            if not chosen.any():
                return
            m, part = m[:WITHIN_COLUMN_DEGREE, :WITHIN_COLUMN_DEGREE, chosen], places[part[chosen]]
            h, k = degree[self.pairs[part]].T
            within = np.arange(WITHIN_COLUMN_DEGREE)[:, None]
            m = np.where(narrow[..., None] & (within < h)[:, None] & (within < k), m, 0)
            effective = self.rows[part] * share[self.pairs[part]].prod(axis=1)
            least = -special.gammaln(self.rows[part] + 1)
            moments, degrees = Moments.of_polynomials(m), np.stack([h, k])
            none = np.zeros_like(degrees)
            statistics.append(
                BlockStatistics(part, top_values(moments), degrees, none, effective, least)
            )

        sums = self.table.rank_sums(WITHIN_COLUMN_DEGREE if tested.any() else 0)
        estimates = sums.estimate(self.table.pairs[places], progress, blocks=keep_statistics)
        self.results.estimates.put(places, estimates)
        if not statistics:
            return
        every = BlockStatistics.joined(statistics)
        log_p, part = every.log_pvalues(self.rows[every.places]), every.places
        of_ranks, shares = self.results.estimates, share[self.pairs[part]].min(axis=1)
        sure = (of_ranks.pivot[part] >= MIN_PIVOT) & (of_ranks.degrees[part] > 0).all(axis=1)
        sure &= (self.rows[part] >= MIN_TABULATED_ROWS) & (every.degrees > 0).all(axis=0)
        sure &= is_reliable(self.rows[part], shares)
        by_law = np.isnan(self.results.log_p[part]) & sure
        self.results.log_p[part[by_law]] = log_p[by_law]
        if self.table.complete:
            self._test_tables(part, columns)

    def _test_tables(self, places: Integers, columns: dict[int, RankedColumn]) -> None:
        """Test pairs of two columns of two values exactly, on the rows that they share."""
        for place in places:
            pair = self.pairs[place]
            if all(len(columns[c].table) == 1 for c in pair):
                present = self.in_ranks.present(pair[0]) & self.in_ranks.present(pair[1])
                ranked, weights = self._ranked(pair, present)
                if weights is None and len(ranked[0].codes) >= 2:
                    self._test_exactly(np.array([place]), ranked, np.array([[0, 1]]))

    def _codes_of(self, column: int) -> Integers:
        """Return the levels ``(n,)`` of the ranks of a column, 0 where it is missing."""
        if column not in self._codes:
            x, present = self.in_ranks.x[:, column], self.in_ranks.present(column)
            self._codes[column] = np.zeros(len(x), np.int32)
            rows = slice(None) if present.all() else present
            self._codes[column][rows] = codes_of(x[rows])
        return self._codes[column]

    def _ranked(
        self, columns: Integers, present: NDArray[np.bool_]
    ) -> tuple[list[RankedColumn], Floats | None]:
        """Rank columns among some rows; return the weights of these rows too, None if equal."""
        weights = self.in_ranks.weights
        if weights is not None:
            present = present & (weights > 0)
            weights = weights[present].astype(np.float64)
            weights = weights if np.ptp(weights) else None
        rows = slice(None) if present.all() else present
        return ranked_columns([self._codes_of(int(c))[rows] for c in columns], weights), weights

    def _ranked_within(self, column: int) -> RankedColumn | None:
        """Rank a column among its own rows; None if there are fewer than two."""
        present = self.in_ranks.present(column)
        return self._ranked(np.array([column]), present)[0][0] if present.sum() >= 2 else None

    def _with_one_pattern(
        self, group: Integers, pattern: int, progress: Callable[[int], None]
    ) -> Iterator[BlockStatistics]:
        """Yield block statistics of pairs with one pattern; test binary columns exactly."""
        present = self.table.features.patterns.present[:, pattern]
        used, local = np.unique(self.pairs[group], return_inverse=True)
        pairs = local.reshape(-1, 2)
        columns, weights = self._ranked(used, present)
        count = len(columns[0].codes)
        if count < 2:
            return
        if weights is None:
            self._test_exactly(group, columns, pairs)
        reliable, directions = (
            np.array(each)[pairs].T
            for each in ([c.reliable_degree for c in columns], [len(c.table) for c in columns])
        )
        tested = ~np.isnan(self.results.log_p[group])
        sure = (reliable > 0).all(axis=0) & (self.rows[group] >= MIN_TABULATED_ROWS) & ~tested
        share = np.array([column.effective_share for column in columns])[pairs].prod(axis=1)
        orders = np.array([column.log_orders for column in columns])[pairs].max(axis=1)
        least = orders - special.gammaln(count + 1)
        # These are ranks with weights; HGR takes ranks without, and is estimated elsewhere.
        full_degree = self.kernels.largest
        full_degree = full_degree if weights is None and full_degree <= LARGEST_DEGREE else 0
        estimated = np.arange(len(group)) if full_degree else np.flatnonzero(sure)
        beyond = bool((reliable < np.minimum(directions, full_degree)).any())
        for part, moments in products_of_pairs(
            columns, pairs, weights, estimated, full_degree, self.in_ranks.x.dtype
        ):
            if full_degree:
                self._estimate(group[part], directions[:, part], moments.m)
                progress(len(part))
                if not sure[part].all():
                    moments, part = moments.select(sure[part]), part[sure[part]]
            if beyond:
                h, k = np.arange(LARGEST_DEGREE)[:, None] < reliable[:, part][:, None]
                moments = moments._replace(m=moments.m * (h[:, None] & k))
            effective = self.rows[group[part]] * share[part]
            yield BlockStatistics(
                group[part],
                top_values(moments),
                reliable[:, part],
                moments.counts,
                effective,
                least[part],
            )

    def _estimate(self, places: Integers, directions: Integers, m: Floats) -> None:
        """Store HGR of ranks of some pairs with ``directions (2, N)`` of each side."""
        kernels, estimates = self.kernels, self.results.estimates
        limits = np.array([[kernels.h, kernels.k]])
        degrees = np.minimum(
            np.where(self.flips[places, None], limits[:, ::-1], limits), directions.T
        )
        m = m[: kernels.largest, : kernels.largest]
        value = top_correlations(m, degrees, np.ones_like(degrees), single=kernels.single)
        linear = np.minimum(np.abs(m[0, 0]), 1)
        varies = (degrees > 0).all(axis=1)
        estimates.value[places] = np.where(varies, value, np.nan)
        estimates.linear[places] = estimates.pearson[places] = np.where(varies, linear, np.nan)
        estimates.degrees[places] = np.where(self.flips[places, None], degrees[:, ::-1], degrees)
        estimates.rows[places], estimates.pivot[places] = self.rows[places], 1
        self.estimated[places] = True

    def _test_exactly(self, group: Integers, columns: list[RankedColumn], pairs: Integers) -> None:
        """Test the pairs of two binary columns."""
        is_binary = np.array([len(column.table) == 1 for column in columns])
        binary = np.flatnonzero(is_binary[pairs].all(axis=1))
        places = group[binary]
        log_p = exact_log_pvalues([column.codes for column in columns], pairs[binary])
        self.results.log_p[places], self.results.exact[places] = log_p, True
