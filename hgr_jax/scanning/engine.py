"""HGR of many pairs of columns from one matrix product.

Every pair's matrix of cross moments is a block of the Gram matrix of all the columns' features
(`products`).  What makes the two sides of a block orthonormal depends on the rows where both
columns are present, and through them only on a column and on the other's *pattern* of missing
values; its moments come from one more product.  What is left is a batch of small problems.
Pairs whose own rows leave a basis ill conditioned are estimated on their own (`fallback`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.inference._small_problems import (
    top_correlations,
    whitened_blocks,
    whitenings,
)
from hgr_jax.scanning import bases, products
from hgr_jax.scanning.fallback import estimate_separately
from hgr_jax.scanning.features import Estimates, Features, Kernels, chunks, patterns_of
from hgr_jax.tables.encoding import memberships

MIN_SHARED_PIVOT = {"float32": 0.05, "float64": 1e-6}
"""Below, rounding in a pair's moments would show: its bases are fitted on its own rows."""


class Engine:
    """The features of a table, ready for the estimates of any of its pairs.

    Attributes:
      well_conditioned: ``(p,)`` False for a numeric column for which no such basis was found.
    """

    def __init__(self, features: Features, kernels: Kernels, memory: int) -> None:
        self.features = features
        self.kernels = kernels
        self.memory = memory
        self.patterns = patterns_of(features)
        self.shared = self.patterns.shared_rows()
        self.starts = np.concatenate([[0], np.cumsum(features.levels)]).astype(np.intp)
        self.width = max(features.levels, default=0)
        self.tiles = self._tiles()
        self.well_conditioned = np.ones(features.n_numeric, bool)
        if features.n_numeric:
            self._fit_bases()

    @property
    def alike(self) -> bool:
        """Whether all columns are present in the same rows."""
        return self.patterns.present.shape[1] == 1

    def _fit_bases(self) -> None:
        x, weights = self.features.x, self.features.weights
        degree, columns = self.kernels.largest, self.features.n_numeric
        basis = bases.sketched(x, weights, degree=degree)
        self.cross: NDArray[np.float64] | None = None
        if self.alike and self.tiles[columns - 1] == 0:
            self.cross = products.own_products(basis, x, weights)
            place = 1 + np.arange(degree)[:, None] * columns + np.arange(columns)[None, :]
            place = np.concatenate([np.zeros((1, columns), np.intp), place])
            moments = self.cross[place[:, None], place[None, :]]
        else:
            moments = np.empty((degree + 1, degree + 1, columns))
            for tile in np.unique(self.tiles[:columns]):
                part = np.flatnonzero(self.tiles[:columns] == tile)
                found = products.own_moments(basis.take(part), self._numbers(part), weights)
                moments[..., part] = found
        basis, wrong = bases.assessed(basis, moments, x)
        if wrong.any():
            self.cross = None
            each = 16 * degree * self.features.rows
            for part in chunks(np.flatnonzero(wrong), int(np.clip(self.memory // each, 1, 64))):
                better, well_conditioned = bases.repaired(x[:, part], weights, degree=degree)
                basis = basis.replaced(part, better)
                moments[..., part] = products.own_moments(better, x[:, part], weights)
                self.well_conditioned[part] = well_conditioned
        self.basis, self.moments = basis, moments

    def estimate(
        self,
        pairs: Integers,
        progress: Callable[[int], None] = lambda done: None,
        blocks: Callable[[Integers, Floats], None] = lambda positions, m: None,
    ) -> Estimates:
        """Estimate HGR of ``pairs (N, 2)``, positions of columns, numbers before categories.

        ``progress`` is called with the number of pairs that a step has done, and ``blocks`` with
        the positions of some ``(M,)`` and their whitened cross moments ``(r, s, M)``, of which the
        sides are those of a pair where its columns are in rising order.
        """
        count = len(pairs)
        value, linear = np.full(count, np.nan), np.full(count, np.nan)
        degrees, pivot = np.zeros((count, 2), np.intp), np.ones(count)
        # A column's moments over the rows of a pair depend on the other column only through its
        # pattern of missing values, of which there are far fewer than columns.
        of = self.patterns.pattern_index[pairs]
        rows = self.shared[of[:, 0], of[:, 1]]
        tiles = self.tiles[pairs]
        flips = (tiles[:, 0] > tiles[:, 1]) | (
            (tiles[:, 0] == tiles[:, 1]) & (pairs[:, 0] > pairs[:, 1])
        )
        ordered = np.where(flips[:, None], pairs[:, ::-1], pairs)
        keys = tiles.min(axis=1) * len(self.tiles) + tiles.max(axis=1)
        for key in np.unique(keys):
            chosen = np.flatnonzero(keys == key)
            flip = flips[chosen]
            left, right = (np.flatnonzero(self.tiles == t) for t in divmod(key, len(self.tiles)))
            found = self._tile_pair(left, right, ordered[chosen], flip, chosen, blocks)
            value[chosen], linear[chosen], directions, pivot[chosen] = found
            degrees[chosen] = np.where(flip[:, None], directions[:, ::-1], directions)
            # Rows that two columns share may be another kind of rows than those of each (all the
            # small values, say): bases that were fitted to the columns are ill conditioned there.
            again = chosen[pivot[chosen] < MIN_SHARED_PIVOT[str(self.features.x.dtype)]]
            if len(again):
                value[again], linear[again], degrees[again] = estimate_separately(
                    self.features, self.kernels, pairs[again]
                )
            progress(len(chosen))
        few = rows < 2
        degrees[few] = 0
        lost = (degrees == 0).any(axis=1)  # a column that does not vary on these rows
        value[lost], linear[lost] = np.nan, np.nan
        numbers = (pairs < self.features.n_numeric).all(axis=1)
        pearson = np.where(numbers, linear, np.nan)
        return Estimates(value, pearson, linear, degrees, rows, pivot)

    def _tiles(self) -> Integers:
        """Assign columns to tiles: numbers and categories apart, each tile within the budget."""
        # A pair of tiles takes a matrix of (columns x degree)^2 numbers, copies of it in double
        # precision and arrays of whitened blocks: about 40 numbers for each of its entries.
        itemsize = self.features.x.dtype.itemsize
        degree = self.kernels.largest
        most = max(1, int(np.sqrt(self.memory / (40 * itemsize * degree**2))))
        numbers = np.arange(self.features.n_numeric) // most
        first = numbers[-1] + 1 if len(numbers) else 0
        most_features = max(1, int(np.sqrt(self.memory / (8 * itemsize))))
        categories = self.starts[1:] // most_features
        return np.concatenate([numbers, first + categories]).astype(np.intp)

    def _tile_pair(
        self,
        left: Integers,
        right: Integers,
        pairs: Integers,
        flip: NDArray[np.bool_],
        places: Integers,
        blocks: Callable[[Integers, Floats], None],
    ) -> tuple[Floats, Floats, Integers, Floats]:
        """Return values, those of linear functions, directions and pivots of the ``pairs``."""
        of_left, local_left = np.unique(self.patterns.pattern_index[left], return_inverse=True)
        of_right, local_right = np.unique(self.patterns.pattern_index[right], return_inverse=True)
        own = self._side(left, of_right)
        sides = (own, own if left[0] == right[0] else self._side(right, of_left))
        cross = self._cross(left, right)
        total = self._totals(of_left, of_right)
        kernels = self.kernels
        limits = np.array([[kernels.h, kernels.k]])
        limits = np.where(flip[:, None], limits[:, ::-1], limits)
        width = self.width
        counts, linear = np.empty_like(limits), np.ones_like(limits)
        for side in (0, 1):
            category = pairs[:, side] >= self.features.n_numeric
            counts[:, side] = np.where(category, width, limits[:, side])
            linear[:, side] = np.where(category, width, 1)
        i = np.searchsorted(left, pairs[:, 0])
        j = np.searchsorted(right, pairs[:, 1])
        u, v = local_left[i], local_right[j]
        directions = np.stack(
            [sides[0].directions(i, v, limits[:, 0]), sides[1].directions(j, u, limits[:, 1])],
            axis=1,
        )
        pivot = np.minimum(sides[0].pivot[i, v], sides[1].pivot[j, u])
        value, of_linear = np.empty(len(pairs)), np.empty(len(pairs))
        # Numbers come before categories: a first side of indicators has a second of indicators.
        number = left[0] < self.features.n_numeric
        # So many pairs that the arrays of a part fit in a core's cache.
        most = max(64, 2**15 // max(sides[0].width, sides[1].width) ** 2)
        for start in range(0, len(pairs), most):
            part = slice(start, start + most)
            a, b, shared = i[part], j[part], total[u[part], v[part]]
            block = cross[sides[0].feature[:, None, a], sides[1].feature[None, :, b]]
            block = block / np.where(shared > 0, shared, 1)
            m = whitened_blocks(block, sides[0].on(a, v[part]), sides[1].on(b, u[part]))
            blocks(places[part], m)
            value[part] = top_correlations(m, counts[part], linear[part], single=kernels.single)
            of_linear[part] = value[part]
            if number:
                first = m[0, : linear[part, 1].max(initial=0)]
                of_linear[part] = np.minimum(np.sqrt(np.sum(first**2, axis=0)), 1)
        return value, of_linear, directions, pivot

    def _side(self, columns: Integers, others: Integers) -> _Side:
        """Whiten the features of ``columns`` on the rows of each of some patterns."""
        if columns[0] < self.features.n_numeric:
            basis = self.basis.take(columns)
            if self.alike:
                moments = self.moments[..., columns, None]
            else:
                x, patterns = self._numbers(columns), self._weights_of(others)
                moments = products.pattern_moments(basis, x, patterns, len(others))
            in_span = np.broadcast_to(basis.in_span[:, :, None], moments[0, 1:].shape)
            mean, inverse, pivot = whitenings(moments, in_span)
            least = np.ones(pivot.shape) if self.alike else pivot
            degree = self.kernels.largest
            feature = np.arange(degree)[:, None] * len(columns) + np.arange(len(columns))[None, :]
            return _Side(mean, inverse, feature, least, in_span, redundant=0)
        column, level, index = self._levels(columns)
        counts = products.category_counts(
            self.features.codes, (column, level), self._weights_of(others)
        )
        share = np.concatenate([counts, np.zeros_like(counts[:1])])[index]  # (width, c, u)
        total = share.sum(axis=0)
        share = share / np.where(total > 0, total, 1)
        supported = share > 0
        scale = np.where(supported, 1 / np.sqrt(np.where(supported, share, 1)), 0)
        least = np.ones(total.shape)
        return _Side(share, scale, index, least, supported, redundant=1)

    def whitened(self, columns: Integers) -> NDArray[np.float32]:
        """Return orthonormal features ``(c, width, n)`` of columns of one kind.

        On the rows where they are present (the same for all: see `alike`), and 0 elsewhere.
        """
        side = self._side(columns, np.zeros(1, np.intp))
        features = self.features
        found = np.empty((len(columns), side.width, features.rows), np.float32)
        for place, column in enumerate(columns):
            mean, each = side.mean[:, place], side.map[..., place, 0]
            if column < features.n_numeric:
                x = features.x[None, :, column]
                present = ~np.isnan(x)
                values = self.basis.take(columns[place : place + 1])(x)[1:, 0]
                found[place] = each @ np.where(present, values - mean, 0)
            else:
                codes = features.codes[:, column - features.n_numeric]
                held = memberships(codes, self.width)
                found[place] = each[:, None] * np.where(codes >= 0, held - mean, 0)
        return found

    def _levels(self, columns: Integers) -> tuple[Integers, Integers, Integers]:
        """Return column and level of every feature of some categories, and the features of each.

        ``(width, c)``, filled up with the position after the last feature.
        """
        counts = [self.features.levels[c - self.features.n_numeric] for c in columns]
        column = np.repeat(columns - self.features.n_numeric, counts)
        level = np.concatenate([np.arange(count) for count in counts])
        index = np.full((len(columns), self.width), sum(counts))
        start = 0
        for row, count in zip(index, counts, strict=True):
            row[:count] = np.arange(start, start + count)
            start += count
        return column, level, index.T

    def _numbers(self, columns: Integers) -> Floats:
        x = self.features.x
        return x if len(columns) == x.shape[1] else x[:, columns]

    def _weights_of(self, patterns: Integers) -> products.Block:
        """Return weights ``(u, rows)`` of some rows in each of some patterns."""
        present, weights = self.patterns.present, self.features.weights

        def block(rows: slice) -> Floats:
            found = np.ascontiguousarray(present[rows, patterns].T, self.features.x.dtype)
            return found if weights is None else found * weights[rows]

        return block

    def _totals(self, left: Integers, right: Integers) -> Floats:
        """Return sums of weights over the rows that two patterns share."""
        if self.features.weights is None:
            return self.shared[np.ix_(left, right)].astype(np.float64)
        first, second = self._weights_of(left), self.patterns.present

        def block(rows: slice) -> Floats:
            weighted = first(rows)
            return weighted @ second[rows, right].astype(weighted.dtype)

        return products.sum_in_blocks(block, self.features.rows, len(left) + len(right))

    def _cross(self, left: Integers, right: Integers) -> Floats:
        """Return cross moments of the features of two tiles, ``(features + 1, features + 1)``.

        The last row and column are 0, for what fills up a shorter list of features.
        """
        features, numbers = self.features, self.features.n_numeric
        x, codes, weights = features.x, features.codes, features.weights
        if right[0] < numbers:
            own, x = self.basis.take(left), self._numbers(left)
            if left[0] != right[0]:
                other, y = self.basis.take(right), self._numbers(right)
                cross = products.number_products(own, x, other, y, weights)
            elif self.cross is not None:
                cross, self.cross = self.cross[1:, 1:], None
            else:
                cross = products.own_products(own, x, weights)[1:, 1:]
        else:
            column, level, _ = self._levels(right)
            if left[0] < numbers:
                own, x = self.basis.take(left), self._numbers(left)
                cross = products.mixed_products(own, x, codes, (column, level), weights)
            else:
                first, second, _ = self._levels(left)
                cross = products.category_products(
                    codes, (first, second), (column, level), weights, x.dtype
                )
            cross = np.pad(cross, (0, 1))
        return cross


@dataclasses.dataclass(frozen=True)
class _Side:
    """One tile, whitened on the rows of each of some patterns.

    Attributes:
      mean: ``(width, c, u)``.
      map: ``(width, width, c, u)``; of indicators, whose map is diagonal, the diagonal.
      feature: ``(width, c)``, where a column's features stand in the matrix of cross moments.
      pivot: ``(c, u)``, the smallest of the map: near 0 where it is ill conditioned.
      supported: ``(width, c, u)``, which features vary there.
      redundant: directions that the supported features have too many (1 for indicators).
    """

    mean: Floats
    map: Floats
    feature: Integers
    pivot: Floats
    supported: NDArray[np.bool_]
    redundant: int

    @property
    def width(self) -> int:
        """The number of features of a column."""
        return len(self.mean)

    def on(self, column: Integers, pattern: Integers) -> tuple[Floats, Floats]:
        """Return means and maps, the batch last, of columns on the rows of patterns."""
        return self.mean[:, column, pattern], self.map[..., column, pattern]

    def directions(self, column: Integers, pattern: Integers, limit: Integers) -> Integers:
        """Return the number of directions that a pattern's rows support of a column's kernel."""
        used = self.supported[:, column, pattern]
        if not self.redundant:
            used = used & (np.arange(self.width)[:, None] < limit)
        return np.maximum(used.sum(axis=0) - self.redundant, 0)
