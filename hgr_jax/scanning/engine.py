"""HGR of many pairs of columns from one matrix product.

Every pair's matrix of cross moments is a block of the Gram matrix of all the columns' features
(`products`).  What makes the two sides of a block orthonormal depends on the rows where both
columns are present, and through them only on a column and on the other's *pattern* of missing
values; its moments come from one more product.  What is left is a batch of small problems.
Pairs whose own rows leave a basis ill conditioned are estimated on their own (`fallback`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.partial import EXPLAINED
from hgr_jax.inference._small_problems import (
    top_correlations,
    whitened_blocks,
    whitenings,
)
from hgr_jax.scanning import bases, products
from hgr_jax.scanning.errors import PairFunctions, combination, standard_errors, top_vectors
from hgr_jax.scanning.fallback import estimate_separately
from hgr_jax.scanning.features import Estimates, Features, Kernels, patterns_of
from hgr_jax.scanning.functions import RowFunctions
from hgr_jax.scanning.given import (
    Explained,
    explained_share,
    known_maps,
    known_moments,
    less_explained,
    level_moments,
    orthonormalising,
    rest_of,
    without_explained,
)
from hgr_jax.scanning.kernel_functions import features_of_kernels
from hgr_jax.scanning.sides import Side

MIN_SHARED_PIVOT = {"float32": 0.05, "float64": 1e-6}
"""Below, rounding in a pair's moments would show: its bases are fitted on its own rows."""


class Engine:
    """The features of a table, ready for the estimates of any of its pairs.

    Attributes:
      well_conditioned: ``(p,)`` False for a numeric column for which no such basis was found.
    """

    def __init__(
        self, features: Features, kernels: Kernels, memory: int, *, errors: bool = False
    ) -> None:
        """Prepare the columns; ``errors`` asks for standard errors too."""
        self.features, self.errors = features, errors
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
        features, kernels = self.features, self.kernels
        x, known = features.x, features.known
        self.cross: NDArray[np.float64] | None = None
        self._kept = None if known is None else known.astype(x.dtype)
        self.functions: RowFunctions
        self.in_span: NDArray[np.bool_]
        if kernels.plain:
            found, moments, self.well_conditioned, changed = bases.polynomials_of(
                x, features.weights, kernels.largest, self.memory, self._measured, self._kept
            )
            self.functions, self.in_span = found, found.basis.in_span
            self.cross = None if changed else self.cross
        else:
            self.in_span = np.ones((kernels.largest, features.n_numeric), bool)
            self.functions = features_of_kernels(features, kernels, self.memory, self._measured)
            constant = np.ones((1, features.rows))
            moments = self._measured(self.functions, constant.astype(x.dtype))
            moments = self._take_out(constant, moments, self._kept)
        if known is not None:
            moments = self._take_out(known, moments, None)
        self.moments = moments

    def _take_out(
        self, known: NDArray[np.float64], moments: Floats, beside: Floats | None
    ) -> Floats:
        """Replace the functions by what known ones leave of them; return the moments of these."""
        features, patterns = self.features, self.patterns
        pattern = patterns.pattern_index[: features.n_numeric]
        self.functions, alive = rest_of(
            self.functions, moments, known, patterns.present, pattern, features.weights
        )
        self.in_span = self.in_span & alive
        return self._measured(self.functions, beside)

    def _measured(self, functions: RowFunctions, beside: Floats | None) -> Floats:
        """Return moments ``(d + 1, d + 1, c)`` of columns on their rows.

        With those with functions ``beside (m, n)`` of the rows, as `own_moments` has them, if any;
        without, of functions that stay, where all columns are in one tile, from all products.
        """
        degree, columns = functions.count, functions.shape[1]
        if beside is None and self.alike and self.tiles[columns - 1] == 0:
            self.cross = products.own_products(functions, self.features.weights)
            place = 1 + np.arange(degree)[:, None] * columns + np.arange(columns)[None, :]
            place = np.concatenate([np.zeros((1, columns), np.intp), place])
            return self.cross[place[:, None], place[None, :]]
        width = degree + 1 + (0 if beside is None else len(beside))
        moments = np.empty((degree + 1, width, columns))
        for tile in np.unique(self.tiles[:columns]):
            part = np.flatnonzero(self.tiles[:columns] == tile)
            own = functions.take(part)
            moments[..., part] = products.own_moments(own, self.features.weights, beside)
        return moments

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
        value, linear, error = (np.full(count, np.nan) for _ in range(3))
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
            value[chosen], linear[chosen], directions, pivot[chosen], error[chosen] = found
            degrees[chosen] = np.where(flip[:, None], directions[:, ::-1], directions)
            # Rows that two columns share may be another kind of rows than those of each (all the
            # small values, say): bases that were fitted to the columns are ill conditioned there.
            again = chosen[pivot[chosen] < MIN_SHARED_PIVOT[str(self.features.x.dtype)]]
            if len(again):
                value[again], linear[again], degrees[again], error[again] = estimate_separately(
                    self.features, self.kernels, pairs[again], errors=self.errors
                )
            progress(len(chosen))
        few = rows < 2
        degrees[few] = 0
        lost = (degrees == 0).any(axis=1)  # a column that does not vary on these rows
        value[lost], linear[lost], error[lost] = np.nan, np.nan, np.nan
        numbers = (pairs < self.features.n_numeric).all(axis=1)
        pearson = np.where(numbers, linear, np.nan)
        return Estimates(value, pearson, linear, degrees, rows, pivot, error)

    def _tiles(self) -> Integers:
        """Assign columns to tiles: numbers and categories apart, each tile within the budget."""
        # A pair of tiles takes a matrix of (columns x degree)^2 numbers, copies of it in double
        # precision and arrays of whitened blocks: about 40 numbers for each of its entries.
        itemsize = self.features.x.dtype.itemsize
        degree = self.kernels.largest
        most = max(1, int(np.sqrt(self.memory / (40 * itemsize * degree**2))))
        numbers = np.arange(self.features.n_numeric) // most
        if self.kernels.differ:
            one = np.arange(self.features.n_numeric // 2) // most
            numbers = np.concatenate([one, 1 + one.max(initial=0) + one])
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
    ) -> tuple[Floats, Floats, Integers, Floats, Floats]:
        """Return values, those of linear functions, directions, pivots and errors of ``pairs``."""
        of_left, local_left = np.unique(self.patterns.pattern_index[left], return_inverse=True)
        of_right, local_right = np.unique(self.patterns.pattern_index[right], return_inverse=True)
        own = self.side(left, of_right)
        sides = (own, own if left[0] == right[0] else self.side(right, of_left))
        cross = self._cross(left, right)
        total = self._totals(of_left, of_right)
        kernels = self.kernels
        limits = np.array([[kernels.h, kernels.k] if kernels.plain else [kernels.largest] * 2])
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
        value, of_linear, error = (np.full(len(pairs), np.nan) for _ in range(3))
        combined: list[tuple[PairFunctions, PairFunctions]] = []
        # Numbers come before categories: a first side of indicators has a second of indicators.
        number = left[0] < self.features.n_numeric
        # So many pairs that the arrays of a part fit in a core's cache.
        most = max(64, 2**15 // max(sides[0].width, sides[1].width) ** 2)
        for start in range(0, len(pairs), most):
            part = slice(start, start + most)
            a, b, shared = i[part], j[part], total[u[part], v[part]]
            block = cross[sides[0].feature[:, None, a], sides[1].feature[None, :, b]]
            block = block / np.where(shared > 0, shared, 1)
            known = sides[0].known_on(a, v[part]), sides[1].known_on(b, u[part])
            block = without_explained(block, *known)
            m = whitened_blocks(block, sides[0].on(a, v[part]), sides[1].on(b, u[part]))
            blocks(places[part], m)
            value[part] = top_correlations(m, counts[part], linear[part], single=kernels.single)
            of_linear[part] = value[part]
            if self.errors:
                f, g = top_vectors(m, counts[part], linear[part], single=kernels.single)
                of_a = combination(sides[0], a, v[part], f)
                combined.append((of_a, combination(sides[1], b, u[part], g)))
            if number:
                first = m[0, : linear[part, 1].max(initial=0)]
                of_linear[part] = np.minimum(np.sqrt(np.sum(first**2, axis=0)), 1)
        if combined:
            of_each = [PairFunctions.joined(parts) for parts in zip(*combined, strict=True)]
            features = [self._rows_of(left)]
            features += [self._rows_of(right)] if left[0] != right[0] else features
            places = np.stack([of_left[u], of_right[v]])
            error = standard_errors(
                of_each, features, value, total[u, v], self.features, self.patterns, places
            )
        return value, of_linear, directions, pivot, error

    def _rows_of(self, columns: Integers) -> products.Block:
        """Return the features ``(width, c, rows)`` of a tile at some rows."""
        if columns[0] < self.features.n_numeric:
            own = self.functions.take(columns)
            return lambda rows: own(rows)[1:]
        column, level, index = self._levels(columns)
        codes, double = self.features.codes, np.dtype(np.float64)

        def held(rows: slice) -> Floats:
            found = products.level_features(codes[rows], (column, level), double)
            return np.concatenate([found, np.zeros_like(found[:1])])[index]

        return held

    def side(self, columns: Integers, others: Integers) -> Side:
        """Whiten the features of ``columns`` on the rows of each of some patterns."""
        if columns[0] >= self.features.n_numeric:
            return self._side_of_levels(columns, others)
        own = self.functions.take(columns)
        explained: Explained | None = None
        kept: Floats = np.ones(())
        if self.alike:
            moments: Floats = self.moments[..., columns, None]
        else:
            patterns = self._weights_of(others)
            moments = products.pattern_moments(own, patterns, len(others))
            if self._kept is not None:
                sums = known_moments(own, self._kept, patterns, len(others))
                explained = self._explained(sums, columns, others, moments[0, 0])
                moments, kept = less_explained(moments, explained.orthonormal)
        in_span = np.broadcast_to(self.in_span[:, columns, None], moments[0, 1:].shape)
        mean, inverse, pivot = whitenings(moments, in_span)
        least = np.ones(pivot.shape) if self.alike else pivot * kept
        degree = self.kernels.largest
        feature = np.arange(degree)[:, None] * len(columns) + np.arange(len(columns))[None, :]
        return Side(mean, inverse, feature, least, in_span, 0, explained)

    def _side_of_levels(self, columns: Integers, others: Integers) -> Side:
        """Whiten the indicators of categories on the rows of each of some patterns."""
        codes, patterns = self.features.codes, self._weights_of(others)
        column, level, index = self._levels(columns)
        counts = products.category_counts(codes, (column, level), patterns)
        share = np.concatenate([counts, np.zeros_like(counts[:1])])[index]  # (width, c, u)
        total = share.sum(axis=0)
        share = share / np.where(total > 0, total, 1)
        supported = share > 0
        scale = np.where(supported, 1 / np.sqrt(np.where(supported, share, 1)), 0)
        least = np.ones(total.shape)
        known = self.features.known
        if known is None:
            return Side(share, scale, index, least, supported, redundant=1)
        sums = level_moments(codes, (column, level), known, patterns, len(others))
        sums = np.concatenate([sums, np.zeros_like(sums[:1])])[index]
        explained = self._explained(sums, columns, others, total)
        left = np.eye(self.width)[:, :, None, None] * share[None] - share[:, None] * share[None]
        coordinates = explained.orthonormal
        left -= np.einsum("kicu,kjcu->ijcu", coordinates, coordinates)
        transform, alive = orthonormalising(left, share, EXPLAINED[str(self.features.x.dtype)])
        return Side(share, transform, index, least, alive, 0, explained)

    def _explained(
        self, sums: Floats, columns: Integers, others: Integers, total: Floats
    ) -> Explained:
        """Return coordinates on the known functions, from `known_moments`."""
        known = self.features.known
        assert known is not None
        own, place = np.unique(self.patterns.pattern_index[columns], return_inverse=True)
        present = self.patterns.present

        def rows_of(rows: slice) -> Floats:
            return np.ascontiguousarray(present[rows][:, own].T, np.float64)

        maps = known_maps(known, rows_of, self._weights_of(others), (len(own), len(others)))
        return explained_share(sums, maps[:, :, place], total)

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
        codes, weights = features.codes, features.weights
        if right[0] < numbers:
            own = self.functions.take(left)
            if left[0] != right[0]:
                cross = products.number_products(own, self.functions.take(right), weights)
            elif self.cross is not None:
                cross, self.cross = self.cross[1:, 1:], None
            else:
                cross = products.own_products(own, weights)[1:, 1:]
        else:
            column, level, _ = self._levels(right)
            if left[0] < numbers:
                own = self.functions.take(left)
                cross = products.mixed_products(own, codes, (column, level), weights)
            else:
                first, second, _ = self._levels(left)
                cross = products.category_products(
                    codes, (first, second), (column, level), weights, features.x.dtype
                )
            cross = np.pad(cross, (0, 1))
        return cross
