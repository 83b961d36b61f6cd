"""Tests of many pairs by permutations of the rows.

A permutation does not change the orthonormal basis of a column, so all pairs of columns that are
present in the same rows take one matrix product a permutation.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.linalg import memberships, top_correlations
from hgr_jax.core.host.polynomials import polynomials_at
from hgr_jax.scanning.features import Features, within_range
from hgr_jax.scanning.memory import MemorySums

TOLERANCE = 1e-5
"""Difference below which two values count as equal, relative to the larger of the data's value and
the mean under independence.  (Orthonormal features in float32 are exact enough for that.)"""

PAIRS_AT_ONCE = 8192
"""Number of pairs whose permutations are computed together."""

BYTES_AT_ONCE = 2**25
"""Largest number of bytes of the permutations that are computed together: they fit in a cache."""

MAX_TABLE_LEVELS = 128
"""Largest number of values of columns whose pairs are permuted as tables of counts."""


EARLY_STOP_SHARE = 0.2
"""Share of exceedances among the first half of the permutations from which on a pair stops."""

MIN_TWO_STAGE = 199
"""Largest number of permutations that are drawn in one stage."""


class PermutationNull(NamedTuple):
    """The law of the statistic of N pairs under independence.

    Attributes:
      mean, point: ``(N,)``, mean and 95% point.
      exceed: number of values under permutations that are at least the observed value.
      drawn: number of permutations.
    """

    mean: Floats
    point: Floats
    exceed: Integers
    drawn: Integers

    @property
    def pvalue(self) -> Floats:
        """P-values ``(N,)``."""
        return (self.exceed + 1) / (self.drawn + 1)


def permutation_null(
    table_sums: MemorySums,
    pairs: Integers,
    permutations: int,
    seed: NDArray[np.uint32],
) -> PermutationNull:
    """Estimate the law of the statistic of ``pairs (N, 2)`` of a table under independence.

    Pairs that are clearly not significant stop after the first of two stages; p-values remain valid
    (Besag & Clifford 1991).
    """
    mean, point = np.full(len(pairs), np.nan), np.full(len(pairs), np.nan)
    exceed, drawn = np.zeros(len(pairs), np.intp), np.zeros(len(pairs), np.intp)
    # P-values of both stages then have one denominator, as with 999 and 499 permutations.
    first = (permutations + 1) // 2 - 1 if permutations > MIN_TWO_STAGE else permutations
    features = table_sums.features
    patterns = np.sort(table_sums.patterns.index[pairs], axis=1)
    keys = patterns[:, 0] * (table_sums.patterns.index.max() + 1) + patterns[:, 1]
    generator = np.random.default_rng(seed)
    orders = _RandomOrders(features.rows, permutations, generator, table_sums.memory)
    for key in np.unique(keys):
        group = np.flatnonzero(keys == key)
        in_both = np.asarray(table_sums.patterns.present[:, patterns[group[0]]].all(axis=1))
        rows = np.flatnonzero(in_both)
        if len(rows) < 2:
            continue
        sums, local = table_sums, pairs[group]
        if not table_sums.single_pattern:
            columns, local = np.unique(pairs[group], return_inverse=True)
            local = local.reshape(-1, 2)
            shared = _restricted(features, in_both, columns)
            sums = MemorySums(shared, table_sums.kernels, table_sums.memory)
        values_of = _few_values(sums.features, local, rows)
        counted = np.array([a in values_of and b in values_of for a, b in local])
        for chosen, tables in _parts(local, counted, _columns_at_once(sums)):
            part = group[chosen]
            draws = _Draws(sums, local[chosen])
            values = draws(np.arange(features.rows)[None, :])[0]
            sample = functools.partial(
                _values_under,
                values_of=values_of if tables else None,
                rows=rows,
                orders=orders,
                generator=generator,
            )
            sampled = sample(draws, 0, first)
            mean[part] = sampled.mean(axis=0, dtype=np.float64)
            least = values - TOLERANCE * np.maximum(values, mean[part])
            exceed[part], drawn[part] = (sampled >= least[None, :]).sum(axis=0), first
            point[part] = np.quantile(sampled, 0.95, axis=0)
            continued = np.flatnonzero(exceed[part] < EARLY_STOP_SHARE * first)
            if first < permutations and len(continued):
                more = sample(_Draws(sums, local[chosen[continued]]), first, permutations)
                whole_sample = np.concatenate([sampled[:, continued], more])
                exceed[part[continued]] += (more >= least[None, continued]).sum(axis=0)
                drawn[part[continued]] = permutations
                mean[part[continued]] = whole_sample.mean(axis=0, dtype=np.float64)
                point[part[continued]] = np.quantile(whole_sample, 0.95, axis=0)
    return PermutationNull(mean, point, exceed, drawn)


def _values_under(
    draws: _Draws,
    start: int,
    stop: int,
    *,
    values_of: dict[int, tuple[Integers, Integers]] | None,
    rows: Integers,
    orders: _RandomOrders,
    generator: np.random.Generator,
) -> Floats:
    """Return values ``(stop - start, N)`` under permutations, from tables of counts if given."""
    if values_of is not None:
        return draws.of_tables(values_of, stop - start, generator)
    return draws.of_orders(rows, orders, start, stop)


class _RandomOrders:
    """Random orders of the rows of a table, or of a subset.

    Orders of all rows are drawn once, if they fit in memory; they order any subset too.
    """

    def __init__(
        self, rows: int, permutations: int, generator: np.random.Generator, memory: int
    ) -> None:
        self.rows, self.permutations, self.generator = rows, permutations, generator
        self.shared: NDArray[np.integer] | None = None
        self.fits = 16 * rows * permutations <= memory

    def draw(self, rows: Integers, first: int, count: int) -> NDArray[np.integer]:
        """Draw permutations ``(count, len(rows))`` of the positions in ``rows``."""
        if not self.fits:
            return self._drawn(len(rows), count)
        if self.shared is None:
            self.shared = self._drawn(self.rows, self.permutations)
        orders = self.shared[first : first + count]
        if len(rows) == self.rows:
            return orders
        position = np.full(self.rows, -1, np.int32)
        position[rows] = np.arange(len(rows))
        placed = position[orders]
        return placed[placed >= 0].reshape(count, len(rows))

    def _drawn(self, rows: int, count: int) -> NDArray[np.integer]:
        # Sorts random numbers whose last bits are the positions: NumPy sorts integers several
        # times as fast as it shuffles, or sorts positions by keys.
        bits = np.int64(rows).item().bit_length()
        keys = self.generator.integers(2 ** (63 - bits), size=(count, rows)) << bits
        keys |= np.arange(rows)
        keys.sort(axis=1)
        return (keys & (2**bits - 1)).astype(np.int32)


def _columns_at_once(sums: MemorySums) -> int:
    """Return the number of columns of a side whose features take a quarter of the memory."""
    width = max(sums.kernels.largest if sums.features.n_numeric else 0, sums.layout.width)
    return max(1, sums.memory // (16 * sums.features.rows * width))


def _parts(
    pairs: Integers, counted: NDArray[np.bool_], columns: int
) -> Iterator[tuple[Integers, bool]]:
    """Yield parts of the pairs, counted or not, of at most ``columns`` columns a side."""
    blocks_of = pairs // columns
    keys = blocks_of[:, 0] * (1 + blocks_of.max(initial=0)) + blocks_of[:, 1]
    for kind in (True, False):
        for key in np.unique(keys[counted == kind]):
            chosen = np.flatnonzero((counted == kind) & (keys == key))
            for start in range(0, len(chosen), PAIRS_AT_ONCE):
                yield chosen[start : start + PAIRS_AT_ONCE], kind


def _few_values(
    features: Features, pairs: Integers, rows: Integers
) -> dict[int, tuple[Integers, Integers]]:
    """Return, by column with few values, a row of each value, and the code of each row."""
    few_valued = {}
    few = min(MAX_TABLE_LEVELS, math.isqrt(len(rows)))
    for column in np.unique(pairs):
        values = features.values(column)[rows]
        if len(np.unique(values[: 4 * few])) > few:
            continue
        _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
        if len(first) <= few:
            few_valued[int(column)] = rows[first], inverse
    return few_valued


def _restricted(features: Features, rows: NDArray[np.bool_], columns: Integers) -> Features:
    """Select columns, and make them missing outside of ``rows``."""
    keep = rows[:, None]
    numbers = columns[columns < features.n_numeric]
    categories = columns[columns >= features.n_numeric] - features.n_numeric
    return Features(
        x=np.where(keep, features.x[:, numbers], np.nan),
        codes=np.where(keep, features.codes[:, categories], -1),
        levels=tuple(features.levels[c] for c in categories),
        weights=features.weights,
    )


class _Draws:
    """Values of the statistic of pairs under permutations of the rows of one column of each.

    The permuted column is the one in more of the pairs (the law is the same), so that few features
    are permuted where a few columns are tested with all others.

    Attributes:
      left, right: ``(features, n)``, features of the permuted columns and of the other columns.
    """

    def __init__(self, sums: MemorySums, pairs: Integers) -> None:
        kernels, numbers = sums.kernels, sums.features.n_numeric
        often = np.bincount(pairs.ravel())[pairs]
        flips = (often[:, 1] > often[:, 0])[:, None]
        category = pairs >= numbers
        counts = np.where(category, sums.layout.width, np.array([[kernels.h, kernels.k]]))
        self.pairs, self.counts = (np.where(flips, x[:, ::-1], x) for x in (pairs, counts))
        sides = []
        for side in (0, 1):
            columns, position = np.unique(self.pairs[:, side], return_inverse=True)
            features, index = _whitened_features(sums, columns)
            self.counts[:, side] = np.minimum(self.counts[:, side], len(index))
            sides.append((features, index[:, position]))
        (self.left, self.index_a), (self.right, self.index_b) = sides
        self.rows = float(sums.shared_rows(pairs[:1])[0])
        draw_bytes = 4 * len(self.left) * (self.left.shape[1] + len(self.right))
        draw_bytes += 24 * len(self.index_a) * len(self.index_b) * len(pairs)
        self.at_once = int(
            np.clip(min(sums.memory // 4, BYTES_AT_ONCE) // max(draw_bytes, 1), 1, 1024)
        )

    def of_orders(self, rows: Integers, orders: _RandomOrders, start: int, stop: int) -> Floats:
        """Return values ``(stop - start, N)`` for some of the random orders of ``rows``."""
        self.left, self.right = self.left[:, rows], self.right[:, rows]
        parts = [
            self(orders.draw(rows, first, min(self.at_once, stop - first)))
            for first in range(start, stop, self.at_once)
        ]
        return np.concatenate(parts)

    def of_tables(
        self,
        values_of: dict[int, tuple[Integers, Integers]],
        permutations: int,
        generator: np.random.Generator,
    ) -> Floats:
        """Return values ``(permutations, N)`` for pairs of columns of few values.

        Draws contingency tables with the margins of the data (Patefield 1981), in a time that does
        not depend on the number of rows.
        """
        from scipy.stats import random_table  # takes a second, and 200 memory maps

        values = []
        for place, (a, b) in enumerate(self.pairs):
            (rows_a, which_a), (rows_b, which_b) = values_of[a], values_of[b]
            margins = np.bincount(which_a), np.bincount(which_b)
            tables = random_table(*margins, seed=generator).rvs(permutations)
            f = self.left[self.index_a[:, place, None], rows_a].astype(np.float64)
            g = self.right[self.index_b[:, place, None], rows_b].astype(np.float64)
            m = np.matmul(np.matmul(f, tables / self.rows), g.T)
            values.append(self._top(np.moveaxis(m, 0, -1), np.full(permutations, place)))
        return np.stack(values, axis=1)

    def __call__(self, orders: NDArray[np.integer]) -> Floats:
        """Return values ``(m, N)`` for orders ``(m, n)``."""
        moved = np.take(self.left[:-1], orders, axis=1).reshape(-1, orders.shape[1])
        cross = np.zeros((len(self.left), len(orders), len(self.right)), np.float32)
        np.matmul(moved, self.right.T, out=cross[:-1].reshape(len(moved), -1))
        m = cross[self.index_a[:, None], :, self.index_b[None, :]] / self.rows  # (r, s, N, m)
        pairs = np.repeat(np.arange(m.shape[2]), len(orders))
        return self._top(m.reshape(*m.shape[:2], -1), pairs).reshape(-1, len(orders)).T

    def _top(self, m: Floats, pairs: Integers) -> Floats:
        """Return the statistic of whitened blocks ``(r, s, M)`` of ``pairs (M,)``."""
        return top_correlations(m, self.counts[pairs])


def _whitened_features(sums: MemorySums, columns: Integers) -> tuple[Floats, Integers]:
    """Return orthonormal features ``(m, n)`` of columns, 0 where missing, and their positions.

    Directions that the data do not support are left out.  Positions ``(width, c)`` of a column's
    features are padded with the position of the last feature, which is 0 in all rows.
    """
    numbers = columns[columns < sums.features.n_numeric]
    categories = columns[columns >= sums.features.n_numeric]
    parts, places, start = [], [], 0
    for chosen in (numbers, categories):
        if len(chosen):
            values = _whitened(sums, chosen)
            parts.append(values.reshape(-1, values.shape[-1]))
            places.append(start + np.arange(len(parts[-1])).reshape(len(chosen), -1))
            start += len(parts[-1])
    width = max(place.shape[1] for place in places)
    places = [np.pad(p, ((0, 0), (0, width - p.shape[1])), constant_values=start) for p in places]
    parts.append(np.zeros((1, sums.features.rows), np.float32))
    features, index = np.concatenate(parts), np.concatenate(places, axis=0).T
    varies = np.asarray(features.any(axis=1))
    place = np.where(varies, np.cumsum(varies) - 1, varies.sum())
    varies[-1] = True
    wide = varies[index] & (index < start)
    used = 1 + np.max(np.flatnonzero(wide.any(axis=1)), initial=0)
    return features[varies], place[index][:used]


def _whitened(sums: MemorySums, columns: Integers) -> NDArray[np.float32]:
    """Return orthonormal features ``(c, width, n)`` of columns of one kind.

    All columns are present in the same rows; features are 0 elsewhere.  Ill-conditioned columns are
    fitted in float64.
    """
    tile = sums.whitened(columns, np.zeros(1, np.intp))
    features, numbers = sums.features, sums.features.n_numeric
    whitened = np.empty((len(columns), tile.width, features.rows), np.float32)
    for place, column in enumerate(columns):
        mean, scale = tile.mean[:, place], tile.map[..., place, 0]
        if column < numbers and not sums.well_conditioned[column]:
            present = features.present(column)
            x = within_range(features.values(column)[present, None])[:, 0]
            functions = polynomials_at(x, np.full(len(x), 1 / len(x)), sums.kernels.largest)
            whitened[place] = 0
            whitened[place, : len(functions), present] = functions.T
        elif column < numbers:
            present = ~np.isnan(features.x[None, :, column])
            values = sums.functions.take(columns[place : place + 1])(slice(None))[1:, 0]
            whitened[place] = scale @ np.where(present, values - mean, 0)
        else:
            codes = features.codes[:, column - numbers]
            indicators = memberships(codes, sums.layout.width)
            whitened[place] = scale[:, None] * np.where(codes >= 0, indicators - mean, 0)
    return whitened
