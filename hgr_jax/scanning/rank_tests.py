"""`independence_test` of many pairs of columns, from products of their ranks' polynomials.

What a pair needs is narrow: cross moments of the first two polynomials of one column with all of
the other, the other way round, and those of both third ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hgr_jax._arrays import Floats, Integers
from hgr_jax.inference._rank_blocks import combined_pvalues, in_blocks
from hgr_jax.inference._rank_law import LEAST_ROWS, log_probability
from hgr_jax.inference._ranked import LARGEST_DEGREE, RankedColumn, codes_of, is_worth
from hgr_jax.inference.independence import exact_pvalue
from hgr_jax.scanning.engine import Engine
from hgr_jax.scanning.features import Features, Kernels, chunks, groups, patterns_of

FIRST = 2
"""Polynomials of one column that are in a block with all of the other."""

TILE = 128
"""Columns of which the products are taken at a time."""

BLOCK = 2**22
"""Numbers that the polynomials of some rows of a tile take."""

SETTLED_AT_ONCE = 2**11

RANKED_AGAIN = 500_000
"""Rows, in all, of pairs whose columns are ranked again among the rows that they share."""

OTHER_DEGREE = 8
"""The largest degree for the other pairs, by the ranks among each column's own rows."""

MIN_PIVOT = 0.3
"""Of polynomials of ranks on the rows of a pair: below, those are another kind of rows than those
of the column."""


class Moments(NamedTuple):
    """Of some of the pairs: which; M ``(h, k, N)``; the degrees to which it goes; how many rows
    without ties they are worth; and the log of the least p-value that ranks can have.
    """

    places: Integers
    m: Floats
    degrees: Integers
    worth: Floats
    rarest: Floats


class RankTests:
    """Tests of pairs of numeric columns.

    Attributes:
      log_p: ``(N,)``.
      known: ``(N,)``, False where only permutations would do.
      exact: ``(N,)``, which are Fisher's of two columns of two values.
    """

    def __init__(self, in_ranks: Features, pairs: Integers, rows: Floats) -> None:
        """Prepare tests of ``pairs (N, 2)``, worth ``rows (N,)`` of even weight."""
        self.in_ranks, self.rows = in_ranks, rows
        self.pairs = np.sort(pairs, axis=1)
        self.log_p, self.known = np.full(len(pairs), np.nan), np.zeros(len(pairs), bool)
        self.exact = self.known.copy()
        self.patterns = patterns_of(in_ranks)
        x = in_ranks.x
        self.codes: Integers = np.zeros(x.shape, np.int32, order="F")
        for column in np.unique(pairs):
            there = ~np.isnan(x[:, column])
            self.codes[there, column] = codes_of(x[there, column])

    def run(self, memory: int, progress: Callable[[int], None]) -> None:
        """Test all; ``progress`` is called with the number of pairs that a step has done."""
        count = self.patterns.present.shape[1]
        of = np.sort(self.patterns.pattern_index[self.pairs], axis=1)
        found = sorted(groups(of[:, 0] * count + of[:, 1]), key=lambda item: -len(item[1]))
        direct: list[Integers] = []
        rest: list[Integers] = []
        left = float(RANKED_AGAIN)
        for key, group in found:
            one, other = divmod(key, count)
            left -= self.rows[group[0]] if one != other else 0
            (direct if left >= 0 or one == other else rest).append(group)
        for moments in _gathered(itertools.chain.from_iterable(map(self._among_shared, direct))):
            self._settle(moments)
            progress(len(moments.places))
        if rest:
            group = np.concatenate(rest)
            self._among_own(group, memory)
            progress(int(self.known[group].sum()))

    def _settle(self, found: Moments) -> None:
        combined, _, _ = combined_pvalues(found.m, self.rows[found.places], found.degrees)
        log_p = log_probability(combined, np.maximum(found.worth, LEAST_ROWS))
        self.log_p[found.places] = np.maximum(log_p, found.rarest)
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
        return [RankedColumn.of_codes(self.codes[rows, c], weights) for c in columns], weights

    def _among_shared(self, group: Integers) -> Iterator[Moments]:
        """Yield moments of pairs of the same rows, by ranks among those; test tables of 2 x 2."""
        there = self._rows_of(self.pairs[group[0]])
        used, local = np.unique(self.pairs[group], return_inverse=True)
        pairs = local.reshape(-1, 2)
        columns, weights = self._ranked(used, there)
        count = len(columns[0].codes)
        if count < 2:
            return
        directions = np.array([len(column.table) for column in columns])[pairs]
        if weights is None:
            for place in np.flatnonzero((directions == 1).all(axis=1)):
                pvalue = exact_pvalue(*(columns[c] for c in pairs[place]))
                self.log_p[group[place]] = np.log(pvalue)
                self.known[group[place]] = self.exact[group[place]] = True
        degrees = np.array([column.trusted for column in columns])[pairs].T
        sure = (degrees > 0).all(axis=0) & (self.rows[group] >= LEAST_ROWS) & ~self.known[group]
        share = np.array([column.worth for column in columns])[pairs].prod(axis=1)
        orders = np.array([column.log_orders for column in columns])[pairs].max(axis=1)
        rarest = orders - special.gammaln(count + 1)
        for part, m in _products_of_pairs(columns, pairs, weights, np.flatnonzero(sure)):
            worth = self.rows[group[part]] * share[part]
            yield Moments(group[part], m, degrees[:, part], worth, rarest[part])

    def _among_own(self, group: Integers, memory: int) -> None:
        """Test pairs of columns that are missing in many different rows.

        By ranks among the rows of each column, whose polynomials are made orthonormal on the rows
        of a pair.
        """
        pairs, rows = self.pairs[group], self.rows[group]
        degree, worth = np.zeros(self.in_ranks.n_numeric, np.intp), np.zeros(len(self.codes[0]))
        for c in np.unique(pairs):
            (column,), _ = self._ranked(np.array([c]), self._rows_of(np.array([c])))
            degree[c], worth[c] = min(column.trusted, OTHER_DEGREE), column.worth
        engine = Engine(self.in_ranks, Kernels(OTHER_DEGREE, OTHER_DEGREE), memory)
        narrow = in_blocks(OTHER_DEGREE, OTHER_DEGREE)

        def settle(part: Integers, m: Floats) -> None:
            h, k = degree[pairs[part]].T
            within = np.arange(OTHER_DEGREE)[:, None]
            m = np.where(narrow[..., None] & (within < h)[:, None] & (within < k), m, 0)
            share = worth[pairs[part]].prod(axis=1)
            rarest = -special.gammaln(rows[part] + 1)
            self._settle(Moments(group[part], m, np.stack([h, k]), rows[part] * share, rarest))

        found = engine.estimate(pairs, blocks=settle)
        sure = (found.pivot >= MIN_PIVOT) & (found.degrees > 0).all(axis=1) & (rows >= LEAST_ROWS)
        sure &= (degree[pairs] > 0).all(axis=1) & is_worth(rows, worth[pairs].min(axis=1))
        self.known[group] = sure


def _gathered(found: Iterable[Moments]) -> Iterator[Moments]:
    """Yield moments of many pairs at a time: the law costs as much for one as for some hundreds."""
    waiting: list[Moments] = []
    for each in itertools.chain(found, [None]):
        waiting += [each] if each is not None else []
        if waiting and (
            each is None or sum(len(known.places) for known in waiting) >= SETTLED_AT_ONCE
        ):
            yield Moments(*(np.concatenate(parts, axis=-1) for parts in zip(*waiting, strict=True)))
            waiting = []


def _products_of_pairs(
    columns: list[RankedColumn], pairs: Integers, weights: Floats | None, wanted: Integers
) -> Iterator[tuple[Integers, Floats]]:
    """Yield positions of some of the ``wanted`` pairs, and their M ``(16, 16, N)``."""
    tiles = pairs[wanted] // TILE
    for _, group in groups(tiles[:, 0] * len(columns) + tiles[:, 1]):
        chosen = wanted[group]
        left, right = (np.unique(pairs[chosen, side]) for side in (0, 1))
        if tiles[group[0], 0] == tiles[group[0], 1]:
            left = right = np.union1d(left, right)
        one, third = _narrow_products(columns, left, right, weights)
        other = one if left is right else _narrow_products(columns, right, left, weights)[0]
        for part in chunks(chosen, SETTLED_AT_ONCE):
            i = np.searchsorted(left, pairs[part, 0])
            j = np.searchsorted(right, pairs[part, 1])
            m = np.zeros((LARGEST_DEGREE, LARGEST_DEGREE, len(part)))
            m[:FIRST] = np.moveaxis(one[i, :, j], 0, -1)
            m[:, :FIRST] = np.moveaxis(other[j, :, i], 0, -1).swapaxes(0, 1)
            m[FIRST, FIRST] = third[i, j]
            yield part, m


def _narrow_products(
    columns: list[RankedColumn], left: Integers, right: Integers, weights: Floats | None
) -> tuple[Floats, Floats]:
    """Return mean products of the first polynomials of some columns with all of others.

    ``(len(left), 2, len(right), 16)``; and of the third ones, ``(len(left), len(right))``.
    """
    rows, p, q = len(columns[0].codes), len(left), len(right)
    total, third = np.zeros((p * FIRST, q * LARGEST_DEGREE)), np.zeros((p, q))
    size = max(1, BLOCK // (LARGEST_DEGREE * (p + q)))
    table, codes = _lookup(columns, right)
    table_left, codes_left = (table, codes) if left is right else _lookup(columns, left)
    for start in range(0, rows, size):
        block = slice(start, start + size)
        wide = table.take(codes[block], axis=0)
        narrow = wide if left is right else table_left.take(codes_left[block], axis=0)
        narrow = narrow[..., : FIRST + 1]
        if weights is not None:
            narrow = narrow * weights[block, None, None].astype(np.float32)
        first = np.ascontiguousarray(narrow[..., :FIRST]).reshape(len(wide), -1)
        total += first.T @ wide.reshape(len(wide), -1)
        third += narrow[..., FIRST].T @ wide[..., FIRST]
    count = rows if weights is None else weights.sum()
    return (total / count).reshape(p, FIRST, q, LARGEST_DEGREE), third / count


def _lookup(
    columns: list[RankedColumn], chosen: Integers
) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
    """Return trusted polynomials of all levels of some columns, ``(levels, 16)``, 0 elsewhere.

    And which of these levels each row has, ``(rows, columns)``.  Columns without ties share theirs.
    """
    known: dict[tuple[int, int], int] = {}
    parts: list[NDArray[np.float32]] = []
    codes = np.empty((len(columns[0].codes), len(chosen)), np.intp)
    levels = 0
    for place, c in enumerate(chosen):
        table, trusted = columns[c].table, columns[c].trusted
        if (id(table), trusted) not in known:
            part = np.zeros((table.shape[1], LARGEST_DEGREE), np.float32)
            part[:, :trusted] = table[:trusted].T
            known[id(table), trusted] = levels
            levels += len(part)
            parts.append(part)
        codes[:, place] = columns[c].codes + known[id(table), trusted]
    return np.concatenate(parts), codes
