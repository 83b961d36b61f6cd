"""[exact_tests] Fisher's exact test of many pairs of columns of 0 and 1.

[rank_products] Products of the functions of ranks of many columns, as a test of all their pairs needs them.

What it needs is narrow: cross moments of the first two polynomials of one column with all of the
other, the other way round, and those of both third ones; and of the first polynomial with the waves
of the other.  With those of both up to the degrees of a scan, the same product has HGR of the
ranks.


[rank_tests] `independence_test` of many pairs of columns, and HGR of their ranks, from the same products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
    is_worth,
    ranked_columns,
    wave_count,
    wave_table,
)
from hgr_jax.inference._fisher import fisher_log_pvalues
from hgr_jax.inference._rank_blocks import NARROW, Moments, combined, in_blocks, top_values
from hgr_jax.inference._rank_law import LEAST_ROWS, log_probability
from hgr_jax.scanning.engine import Engine
from hgr_jax.scanning.features import Estimates, Features, Kernels, chunks, groups, patterns_of
from hgr_jax.scanning.sums import sum_in_blocks

COUNTED_AT_ONCE = 256
"""Columns that are counted with as many others at a time."""

COUNTED_NUMBERS = 2**22
"""Numbers of the columns that are counted at a time."""


def exact_log_pvalues(columns: Sequence[Integers], pairs: Integers) -> Floats:
    """Return logarithms of the p-values of ``pairs (N, 2)`` of columns ``(n,)``."""
    found = np.zeros(len(pairs))
    tiles = pairs // COUNTED_AT_ONCE
    for _, part in groups(tiles[:, 0] * len(columns) + tiles[:, 1]):
        (left, i), (right, j) = (np.unique(side, return_inverse=True) for side in pairs[part].T)
        f, g = ([columns[c] for c in side] for side in (left, right))
        ones, others = np.sum(f, axis=1)[i], np.sum(g, axis=1)[j]
        found[part] = fisher_log_pvalues(len(f[0]), both_counts(f, g)[i, j], ones, others)
    return found


def both_counts(one: Sequence[Integers], other: Sequence[Integers]) -> Integers:
    """Return in how many rows two columns of 0 and 1 both have 1: ``(p, q)``, of p with q."""
    rows = len(one[0])
    total = np.zeros((len(one), len(other)), np.int64)
    # float32 counts no further than the latter.
    size = min(max(1, COUNTED_NUMBERS // (len(one) + len(other))), 2**24)
    for start in range(0, rows, size):
        left, right = (
            np.array([column[start : start + size] for column in side], np.float32)
            for side in (one, other)
        )
        total += (left @ right.T).astype(np.int64)
    return total


class ExactScreen:
    """Columns of 0 and 1 in parts, of which all pairs of two parts are tested."""

    def __init__(self, parts: Sequence[Sequence[Integers]]) -> None:
        """Keep them, each ``(n,)``."""
        self.parts = parts

    def log_pvalues(self, left: int, right: int) -> Floats:
        """Return the logarithms of the p-values of two parts ``(p, q)``.

        Of one part with itself, they are NaN but above the diagonal.
        """
        f, g = self.parts[left], self.parts[right]
        ones, others = np.sum(f, axis=1)[:, None], np.sum(g, axis=1)
        log_p = fisher_log_pvalues(len(f[0]), both_counts(f, g), ones, others)
        return above_diagonal(log_p) if left == right else log_p


def above_diagonal(log_p: Floats) -> Floats:
    """Return a square with NaN but above the diagonal."""
    return np.where(np.tri(len(log_p), dtype=bool), np.nan, log_p)


FIRST = 2
"""Polynomials of one column that are in a block with all of the other."""

TILE = 128
"""Columns of which the products are taken at a time."""

SETTLED_AT_ONCE = 2**11
"""Pairs whose moments are handed on at a time."""


def products_of_pairs(
    columns: list[RankedColumn],
    pairs: Integers,
    weights: Floats | None,
    wanted: Integers,
    both: int,
    dtype: np.dtype,
) -> Iterator[tuple[Integers, Moments]]:
    """Yield positions of some of the ``wanted`` pairs, and their moments, of degrees up to 16.

    Of polynomials of either column of degrees up to ``both``, M has all, also those not trusted.
    """
    tiles = pairs[wanted] // TILE
    most = max(both, NARROW)
    waves = wave_count(len(columns[0].codes))
    counts = np.array([waves * column.has_waves for column in columns])
    for _, group in groups(tiles[:, 0] * len(columns) + tiles[:, 1]):
        chosen = wanted[group]
        left, right = (np.unique(pairs[chosen, side]) for side in (0, 1))
        if tiles[group[0], 0] == tiles[group[0], 1]:
            left = right = np.union1d(left, right)
        inner, one, there = _narrow_products(columns, left, right, weights, both, dtype)
        other, back = one, there
        if left is not right:
            _, other, back = _narrow_products(
                columns, right, left, weights, both, dtype, all_with_all=False
            )
        for part in chunks(chosen, SETTLED_AT_ONCE):
            i = np.searchsorted(left, pairs[part, 0])
            j = np.searchsorted(right, pairs[part, 1])
            m = np.zeros((LARGEST_DEGREE, LARGEST_DEGREE, len(part)))
            m[:most, :most] = np.moveaxis(inner[i, :, j], 0, -1)
            m[:FIRST, most:] = np.moveaxis(one[i, :, j], 0, -1)
            m[most:, :FIRST] = np.moveaxis(other[j, :, i], 0, -1).swapaxes(0, 1)
            yield part, Moments(m, np.stack([back[j, i], there[i, j]]), counts[pairs[part]].T)


def _narrow_products(
    columns: list[RankedColumn],
    left: Integers,
    right: Integers,
    weights: Floats | None,
    both: int,
    dtype: np.dtype,
    *,
    all_with_all: bool = True,
) -> tuple[Floats, Floats, Floats]:
    """Return mean products of the functions of some columns with those of others.

    Of polynomials up to degree d, the larger of 3 and ``both``, of all with all, ``(len(left), d,
    len(right), d)``, empty if that is not asked for; of the first two with those beyond,
    ``(len(left), 2, len(right), 16 - d)``; and of the first with the waves, the norm ``(len(left),
    len(right))``.
    """
    rows, p, q = len(columns[0].codes), len(left), len(right)
    waved = np.array([place for place, c in enumerate(right) if columns[c].has_waves], np.intp)
    # Waves are those of untied ranks, the same for all columns that have some.
    waves = wave_table(rows, dtype) if len(waved) else np.zeros((0, 0), dtype)
    d, count = max(both, NARROW), waves.shape[1]
    table, codes = _lookup(columns, right, both, dtype)
    of_left, codes_left = (table, codes) if left is right else _lookup(columns, left, both, dtype)
    # A product of one array with itself takes half as long.
    low = np.ascontiguousarray(table[:, :d])
    low_left = low if left is right else np.ascontiguousarray(of_left[:, :d])

    def product(values: Floats, others: Floats) -> NDArray[np.float64]:
        k, m = values.shape[1], others.shape[1]
        wide_columns = len(waved) if others is waves else q

        def block(part: slice) -> Floats:
            places = codes[part]
            if others is waves:
                places = np.stack([columns[c].codes[part] for c in right[waved]], axis=1)
            side = wide = others.take(places, axis=0).reshape(-1, wide_columns * m)
            if values is not others:
                side = values.take(codes_left[part], axis=0).reshape(-1, p * k)
            if weights is not None:
                side = side * weights[part, None].astype(dtype)
            return side.T @ wide

        return sum_in_blocks(block, rows, p * k + wide_columns * m)

    inner = product(low_left, low) if all_with_all else np.zeros((0, 0))
    first, second = (np.ascontiguousarray(of_left[:, :k]) for k in (FIRST, 1))
    outer = product(first, np.ascontiguousarray(table[:, d:]))
    beside = product(second, waves) if len(waved) else np.zeros((p, 0))
    scale = rows if weights is None else weights.sum()
    found = np.zeros((p, q))
    found[:, waved] = np.linalg.norm(beside.reshape(p, len(waved), count), axis=2)
    return (
        (inner / scale).reshape((p, d, q, d) if all_with_all else (0, 0, 0, 0)),
        (outer / scale).reshape(p, FIRST, q, LARGEST_DEGREE - d),
        found / scale,
    )


def _lookup(
    columns: list[RankedColumn], chosen: Integers, both: int, dtype: np.dtype
) -> tuple[Floats, NDArray[np.intp]]:
    """Return polynomials of all levels of some columns, ``(levels, 16)``.

    They are those that are trusted and those up to degree ``both``, and 0 beyond.  And which of
    the levels each row has, ``(rows, columns)``.  Columns without ties share theirs.
    """
    known: dict[tuple[int, int], int] = {}
    parts: list[Floats] = []
    codes = np.empty((len(columns[0].codes), len(chosen)), np.intp)
    levels = 0
    for place, c in enumerate(chosen):
        table = columns[c].table
        degree = min(max(columns[c].trusted, both), len(table))
        if (id(table), degree) not in known:
            part = np.zeros((table.shape[1], LARGEST_DEGREE), dtype)
            part[:, :degree] = table[:degree].T
            known[id(table), degree] = levels
            levels += len(part)
            parts.append(part)
        codes[:, place] = columns[c].codes + known[id(table), degree]
    return np.concatenate(parts), codes


RANKED_AGAIN = 500_000
"""Rows, in all, up to which columns of different gaps are ranked again among those they share."""

OTHER_DEGREE = 8
"""The largest degree for the other pairs, by the ranks among each column's own rows."""

MIN_PIVOT = 0.3
"""Of polynomials of ranks on the rows of a pair: below, those are another kind of rows than those
of the column."""


class TestedPairs(NamedTuple):
    """Of some of the pairs: which; the values of their blocks; the degrees to which these go; how
    many waves both sides have; how many rows without ties they are worth; and the log of the least
    p-value that ranks can have.
    """

    places: Integers
    values: Floats
    degrees: Integers
    waves: Integers
    worth: Floats
    rarest: Floats


class RankTests:
    """Tests of pairs of numeric columns, and HGR of their ranks where the same product has it.

    Attributes:
      log_p: ``(N,)``.
      known: ``(N,)``, False where only permutations would do.
      exact: ``(N,)``, which are Fisher's of two columns of two values.
      estimated: ``(N,)``, of which pairs ``of_ranks`` is known.
      of_ranks: estimates of the columns' ranks.
    """

    def __init__(
        self,
        in_ranks: Features,
        kernels: Kernels,
        pairs: Integers,
        rows: Floats,
        found: Estimates,
        *,
        again: bool | None = None,
    ) -> None:
        """Prepare tests of those of ``pairs (N, 2)``, of estimates ``found``, that are of numbers.

        ``rows (N,)`` of even weight they are worth.  ``again``: whether columns of different gaps
        are ranked again among the rows that they share; None to tell it from these pairs.
        """
        self.in_ranks, self.kernels, self.rows = in_ranks, kernels, rows
        numbers = (pairs < in_ranks.n_numeric).all(axis=1)
        self.wanted = np.flatnonzero(numbers & found.varies)
        self.flips = pairs[:, 0] > pairs[:, 1]
        self.pairs = np.sort(pairs, axis=1)
        self.log_p, self.known = np.full(len(pairs), np.nan), np.zeros(len(pairs), bool)
        self.exact, self.estimated = self.known.copy(), self.known.copy()
        self.of_ranks = Estimates.none(len(pairs))
        self.patterns = patterns_of(in_ranks)
        count = self.patterns.present.shape[1]
        one, other = np.sort(self.patterns.pattern_index[self.pairs], axis=1).T
        self.gaps, self.unlike = one * count + other, one != other
        if again is None:
            differences = np.unique(self.gaps[numbers & self.unlike])
            again = len(differences) * in_ranks.rows <= RANKED_AGAIN
        self.again = again
        x = in_ranks.x
        self.codes: Integers = np.zeros(x.shape, np.int32, order="F")
        for column in np.unique(pairs[self.wanted]):
            there = self.patterns.present[:, self.patterns.pattern_index[column]]
            own = slice(None) if there.all() else there
            self.codes[own, column] = codes_of(x[own, column])

    def run(self, memory: int, progress: Callable[[int], None]) -> None:
        """Test all; ``progress`` is called with the number of pairs that a step has estimated."""
        direct: list[Integers] = []
        rest: list[Integers] = []
        for _, places in groups(self.gaps[self.wanted]):
            group = self.wanted[places]
            (direct if self.again or not self.unlike[group[0]] else rest).append(group)
        tested = [each for group in direct for each in self._among_shared(group, progress)]
        if tested:
            self._settle(joined(tested))
        if rest:
            self._among_own(np.concatenate(rest), memory)

    def completed(self, memory: int, progress: Callable[[int], None]) -> Estimates:
        """Return estimates of the ranks of all pairs, those that the tests have not made too."""
        rest = np.flatnonzero(~self.estimated)
        if len(rest):
            pairs = np.where(self.flips[:, None], self.pairs[:, ::-1], self.pairs)[rest]
            engine = Engine(self.in_ranks, self.kernels, memory)
            self.of_ranks.put(rest, engine.estimate(pairs, progress))
        return self.of_ranks

    def _settle(self, found: TestedPairs) -> None:
        self.log_p[found.places] = log_pvalues(found, self.rows[found.places])
        self.known[found.places] = True

    def _rows_of(self, columns: Integers) -> NDArray[np.bool_]:
        """Return the rows where all of some columns are present."""
        present = self.patterns.present[:, self.patterns.pattern_index[columns]]
        return np.asarray(present.all(axis=1))

    def _ranked(
        self, columns: Integers, there: NDArray[np.bool_]
    ) -> tuple[list[RankedColumn], Floats | None]:
        """Return columns by their ranks among some rows, and the weights of these if uneven."""
        weights = self.in_ranks.weights
        if weights is not None:
            there = there & (weights > 0)
            weights = weights[there].astype(np.float64)
            weights = weights if np.ptp(weights) else None
        rows = slice(None) if there.all() else there
        return ranked_columns([self.codes[rows, c] for c in columns], weights), weights

    def _among_shared(
        self, group: Integers, progress: Callable[[int], None]
    ) -> Iterator[TestedPairs]:
        """Yield what pairs of the same rows have, by ranks among those; test tables of 2 x 2."""
        there = self._rows_of(self.pairs[group[0]])
        used, local = np.unique(self.pairs[group], return_inverse=True)
        pairs = local.reshape(-1, 2)
        columns, weights = self._ranked(used, there)
        count = len(columns[0].codes)
        if count < 2:
            return
        if weights is None:
            self._exactly(group, columns, pairs)
        trusted, directions = (
            np.array(each)[pairs].T
            for each in ([c.trusted for c in columns], [len(c.table) for c in columns])
        )
        sure = (trusted > 0).all(axis=0) & (self.rows[group] >= LEAST_ROWS) & ~self.known[group]
        share = np.array([column.worth for column in columns])[pairs].prod(axis=1)
        orders = np.array([column.log_orders for column in columns])[pairs].max(axis=1)
        rarest = orders - special.gammaln(count + 1)
        # HGR of ranks is of those among each column's own rows, without weights.
        of_own = weights is None and np.ptp(self.patterns.pattern_index[self.pairs[group[0]]]) == 0
        both = self.kernels.largest if of_own and self.kernels.largest <= LARGEST_DEGREE else 0
        wanted = np.arange(len(group)) if both else np.flatnonzero(sure)
        beyond = bool((trusted < np.minimum(directions, both)).any())
        for part, moments in products_of_pairs(
            columns, pairs, weights, wanted, both, self.in_ranks.x.dtype
        ):
            if both:
                self._estimate(group[part], directions[:, part], moments.m)
                progress(len(part))
                if not sure[part].all():
                    moments, part = moments.select(sure[part]), part[sure[part]]
            if beyond:
                h, k = np.arange(LARGEST_DEGREE)[:, None] < trusted[:, part][:, None]
                moments = moments._replace(m=moments.m * (h[:, None] & k))
            values, waves = top_values(moments), moments.counts
            worth = self.rows[group[part]] * share[part]
            yield TestedPairs(group[part], values, trusted[:, part], waves, worth, rarest[part])

    def _estimate(self, places: Integers, directions: Integers, m: Floats) -> None:
        """Keep HGR of ranks of some pairs, of which each side ``(2, N)`` has so many directions."""
        kernels, found = self.kernels, self.of_ranks
        limits = np.array([[kernels.h, kernels.k]])
        degrees = np.minimum(
            np.where(self.flips[places, None], limits[:, ::-1], limits), directions.T
        )
        m = m[: kernels.largest, : kernels.largest]
        value = top_correlations(m, degrees, np.ones_like(degrees), single=kernels.single)
        linear = np.minimum(np.abs(m[0, 0]), 1)
        varies = (degrees > 0).all(axis=1)
        found.correlation[places] = np.where(varies, value, np.nan)
        found.linear[places] = found.pearson[places] = np.where(varies, linear, np.nan)
        found.degrees[places] = np.where(self.flips[places, None], degrees[:, ::-1], degrees)
        found.rows[places], found.pivot[places] = self.rows[places], 1
        self.estimated[places] = True

    def _exactly(self, group: Integers, columns: list[RankedColumn], pairs: Integers) -> None:
        """Test those pairs of which both columns have two values on the rows of all."""
        of_two = np.array([len(column.table) == 1 for column in columns])
        binary = np.flatnonzero(of_two[pairs].all(axis=1))
        places = group[binary]
        self.log_p[places] = exact_log_pvalues([column.codes for column in columns], pairs[binary])
        self.known[places] = self.exact[places] = True

    def _among_own(self, group: Integers, memory: int) -> None:
        """Test pairs of columns that are missing in many different rows.

        By ranks among the rows of each column, whose polynomials are made orthonormal on the rows
        of a pair.
        """
        pairs, rows = self.pairs[group], self.rows[group]
        used = {
            c: self._ranked(np.array([c]), self._rows_of(np.array([c])))[0][0]
            for c in np.unique(pairs)
        }
        engine = Engine(self.in_ranks, Kernels(OTHER_DEGREE, OTHER_DEGREE), memory)

        def estimate(blocks: Callable[[Integers, Floats], None]) -> Estimates:
            return engine.estimate(pairs, blocks=blocks)

        _, self.log_p[group], self.known[group] = among_own(used, pairs, rows, estimate)
        for place in group:
            if all(len(used[c].table) == 1 for c in self.pairs[place]):
                columns, weights = self._ranked(self.pairs[place], self._rows_of(self.pairs[place]))
                if weights is None and len(columns[0].codes) >= 2:
                    self._exactly(np.array([place]), columns, np.array([[0, 1]]))


def among_own(
    columns: Mapping[int, RankedColumn],
    pairs: Integers,
    rows: Floats,
    estimate: Callable[[Callable[[Integers, Floats], None]], Estimates],
) -> tuple[Estimates, Floats, NDArray[np.bool_]]:
    """Test ``pairs (N, 2)`` by ranks among the rows of each column, orthonormal on those of a pair.

    Args:
      columns: each by its ranks.
      pairs: of columns in rising order.
      rows: ``(N,)``, of even weight that they are worth.
      estimate: calls its argument as `Engine.estimate` does ``blocks``, of polynomials of the ranks
        of degree `OTHER_DEGREE` or more, and returns their estimates.

    Returns:
      The estimates; logarithms of p-values ``(N,)``; and which of these can be trusted ``(N,)``.
    """
    size = 1 + int(pairs.max(initial=-1))
    degree, worth = np.zeros(size, np.intp), np.zeros(size)
    for c, column in columns.items():
        degree[c], worth[c] = min(column.trusted, OTHER_DEGREE), column.worth
    narrow = in_blocks(OTHER_DEGREE, OTHER_DEGREE)
    tested: list[TestedPairs] = []

    def settle(part: Integers, m: Floats) -> None:
        h, k = degree[pairs[part]].T
        within = np.arange(OTHER_DEGREE)[:, None]
        m = m[:OTHER_DEGREE, :OTHER_DEGREE]
        m = np.where(narrow[..., None] & (within < h)[:, None] & (within < k), m, 0)
        share = worth[pairs[part]].prod(axis=1)
        rarest = -special.gammaln(rows[part] + 1)
        values, degrees = top_values(Moments.of_polynomials(m)), np.stack([h, k])
        none = np.zeros_like(degrees)
        tested.append(TestedPairs(part, values, degrees, none, rows[part] * share, rarest))

    found, log_p = estimate(settle), np.full(len(pairs), np.nan)
    if tested:
        every = joined(tested)
        log_p[every.places] = log_pvalues(every, rows[every.places])
    sure = (found.pivot >= MIN_PIVOT) & (found.degrees > 0).all(axis=1) & (rows >= LEAST_ROWS)
    sure &= (degree[pairs] > 0).all(axis=1) & is_worth(rows, worth[pairs].min(axis=1))
    return found, log_p, sure


def joined(parts: Sequence[TestedPairs]) -> TestedPairs:
    """Return many pairs as one: their law costs as much for some hundreds as for all."""
    return TestedPairs(*(np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)))


def log_pvalues(found: TestedPairs, rows: Floats) -> Floats:
    """Return the logarithms of the p-values ``(N,)`` of pairs of so many rows."""
    log_p = combined(found.values, rows, found.degrees, found.waves).log_p
    log_p = log_probability(log_p, np.maximum(found.worth, LEAST_ROWS))
    return np.maximum(log_p, found.rarest)
