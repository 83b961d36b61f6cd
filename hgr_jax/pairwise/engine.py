"""HGR of many pairs of columns from one matrix product.

Every pair's matrix of cross moments is a block of the Gram matrix of all the columns' features
(`blocks`).  What makes the two sides of a block orthonormal depends on the rows where both
columns are present, and through them only on a column and on the other's *pattern* of missing
values; its moments come from one more product.  What is left is a batch of small problems
(`whitened`).  Pairs whose own rows leave a basis ill conditioned are estimated on their own.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from hgr_jax.pairwise import bases, blocks
from hgr_jax.pairwise.alone import estimate_alone
from hgr_jax.pairwise.features import (
    Estimates,
    Features,
    Floats,
    Integers,
    Kernels,
    chunks,
    patterns_of,
)
from hgr_jax.pairwise.whitened import correlations, whitened_blocks, whitenings

LEAST_PIVOT = {"float32": 0.05, "float64": 1e-6}
"""Below, rounding in a pair's moments would show: its bases are fitted on its own rows."""


class Engine:
    """The features of a table, ready for the estimates of any of its pairs.

    Attributes:
      clear: ``(p,)`` False for a column of numbers for which no well-conditioned basis was found.
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
        self.clear = np.ones(features.numbers, bool)
        if features.numbers:
            self._fit_bases()

    @property
    def alike(self) -> bool:
        """Whether all columns are present in the same rows."""
        return self.patterns.present.shape[1] == 1

    def _fit_bases(self) -> None:
        x, weights = self.features.x, self.features.weights
        complete = not bool(jnp.isnan(x).any())
        degree, columns = self.kernels.largest, self.features.numbers
        basis = bases.sketched(x, weights, degree=degree, complete=complete)
        self.cross: Array | None = None
        if self.alike and self.tiles[columns - 1] == 0:
            self.cross = blocks.own_products(basis, x, weights, corrected=False)
            index = 1 + np.arange(degree)[None, :] * columns + np.arange(columns)[:, None]
            index = np.concatenate([np.zeros((columns, 1), np.intp), index], axis=1)
            moments = blocks.moments_within(self.cross, index)
        else:
            parts = [np.flatnonzero(self.tiles[:columns] == t) for t in set(self.tiles[:columns])]
            found = [
                blocks.own_moments(
                    bases.take(basis, part), self._numbers(part), weights, corrected=False
                )
                for part in parts
            ]
            moments = jnp.concatenate(found)[np.argsort(np.concatenate(parts))]
        basis, doubtful = bases.assessed(basis, moments, x, weights, complete=complete)
        wrong = np.flatnonzero(np.asarray(doubtful))
        if len(wrong):
            self.cross = None
            each = 32 * self.features.rows * x.dtype.itemsize
            for part in chunks(wrong, int(np.clip(self.memory // each, 1, 64))):
                better, gram, clear = bases.repaired(
                    x[:, part], weights, degree=degree, complete=complete
                )
                basis = bases.replace(basis, part, better)
                moments = moments.at[part].set(gram)
                self.clear[part] = np.asarray(clear)
        self.basis, self.moments = basis, moments
        self.corrected = bool(len(wrong)) and bool(jnp.any(basis.correction != 0))

    def estimate(
        self, pairs: Integers, progress: Callable[[int], None] = lambda done: None
    ) -> Estimates:
        """HGR of ``pairs (N, 2)``, positions of columns, numbers before categories.

        ``progress`` is called with the number of pairs that a step has done.
        """
        count = len(pairs)
        value, pearson = np.full(count, np.nan), np.full(count, np.nan)
        degrees, pivot = np.zeros((count, 2), np.intp), np.ones(count)
        of = self.patterns.of[pairs]
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
            found = self._tile_pair(left, right, ordered[chosen], flip)
            value[chosen], pearson[chosen], directions, pivot[chosen] = found
            degrees[chosen] = np.where(flip[:, None], directions[:, ::-1], directions)
            again = chosen[pivot[chosen] < LEAST_PIVOT[str(self.features.x.dtype)]]
            if len(again):
                value[again], pearson[again], degrees[again] = estimate_alone(
                    self.features, self.kernels, pairs[again], self.memory
                )
            progress(len(chosen))
        few = rows < 2
        value[few], pearson[few], degrees[few] = np.nan, np.nan, 0
        return Estimates(value, pearson, degrees, rows, pivot)

    def _tiles(self) -> Integers:
        """Which tile a column is in: numbers and categories apart, each tile within the budget."""
        itemsize = self.features.x.dtype.itemsize
        degree = self.kernels.largest
        most = max(1, int(np.sqrt(self.memory / (40 * itemsize * degree**2))))
        numbers = np.arange(self.features.numbers) // most
        first = numbers[-1] + 1 if len(numbers) else 0
        most_features = max(1, int(np.sqrt(self.memory / (8 * itemsize))))
        categories = self.starts[1:] // most_features
        return np.concatenate([numbers, first + categories]).astype(np.intp)

    def _tile_pair(
        self, left: Integers, right: Integers, pairs: Integers, flip: NDArray[np.bool_]
    ) -> tuple[Floats, Floats, Integers, Floats]:
        """Values, |Pearson|, directions and pivots of the ``pairs``."""
        of_left, local_left = np.unique(self.patterns.of[left], return_inverse=True)
        of_right, local_right = np.unique(self.patterns.of[right], return_inverse=True)
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
            category = pairs[:, side] >= self.features.numbers
            counts[:, side] = np.where(category, width, limits[:, side])
            linear[:, side] = np.where(category, width, 1)
        i = np.searchsorted(left, pairs[:, 0])
        j = np.searchsorted(right, pairs[:, 1])
        directions = np.stack(
            [
                sides[0].directions(i, local_right[j], limits[:, 0]),
                sides[1].directions(j, local_left[i], limits[:, 1]),
            ],
            axis=1,
        )
        pivot = np.minimum(sides[0].pivot[i, local_right[j]], sides[1].pivot[j, local_left[i]])
        values, linears = [], []
        size = max(sides[0].width, sides[1].width)
        itemsize = self.features.x.dtype.itemsize
        most = max(1, min(len(pairs), self.memory // (16 * itemsize * size * size)))
        for start in range(0, len(pairs), most):
            part = np.minimum(np.arange(start, start + most), len(pairs) - 1)
            a, b = i[part], j[part]
            value, first = _solve(
                cross,
                total,
                (sides[0].mean, sides[0].map),
                (sides[1].mean, sides[1].map),
                (sides[0].feature[a], sides[1].feature[b]),
                (a, b),
                (local_left[a], local_right[b]),
                counts[part],
                linear[part],
                single=kernels.single,
            )
            keep = len(pairs) - start
            values.append(np.asarray(value)[:keep])
            linears.append(np.asarray(first)[:keep])
        value, pearson = np.concatenate(values), np.concatenate(linears)
        numbers = (pairs < self.features.numbers).all(axis=1)
        return value, np.where(numbers, pearson, np.nan), directions, pivot

    def _side(self, columns: Integers, others: Integers) -> _Side:
        """What whitens the features of ``columns`` on the rows of each of some patterns."""
        features = self.features
        if columns[0] < features.numbers:
            basis = bases.take(self.basis, columns)
            if self.alike:
                moments = jnp.moveaxis(self.moments[columns], 0, -1)[..., None]
            else:
                moments = blocks.pattern_moments(
                    basis,
                    self._numbers(columns),
                    self._weights_of(others),
                    corrected=self.corrected,
                )
            mean, inverse, pivot = whitenings(moments, basis.alive)
            least = np.ones(pivot.shape) if self.alike else np.asarray(pivot, np.float64)
            degree = self.kernels.largest
            feature = np.arange(degree)[None, :] * len(columns) + np.arange(len(columns))[:, None]
            alive = np.asarray(basis.alive)
            supported = np.broadcast_to(alive[:, None, :], (*pivot.shape, degree))
            return _Side(mean, inverse, feature, least, supported, degree, spare=0)
        column, level, index = self._levels(columns)
        counts = blocks.category_counts(
            features.codes, jnp.asarray(column), jnp.asarray(level), self._weights_of(others)
        )
        share = jnp.concatenate([counts, jnp.zeros_like(counts[:1])])[index]
        share = jnp.moveaxis(share, 2, 1)  # (c, u, width)
        total = jnp.sum(share, axis=-1, keepdims=True)
        share = share / jnp.where(total > 0, total, 1)
        scale = jnp.where(share > 0, 1 / jnp.sqrt(jnp.where(share > 0, share, 1)), 0)
        diagonal = scale[..., :, None] * jnp.eye(self.width, dtype=scale.dtype)[None, None]
        supported = np.asarray(share > 0)
        least = np.ones(supported.shape[:2])
        return _Side(share, diagonal, index, least, supported, self.width, spare=1)

    def whitened(self, columns: Integers) -> tuple[Array, int]:
        """Orthonormal features ``(n, c width)`` of columns of one kind, and their width.

        Column by column, on the rows where they are present (the same for all: see `alike`), and
        0 elsewhere.
        """
        side = self._side(columns, np.zeros(1, np.intp))
        features = self.features
        if columns[0] < features.numbers:
            values = bases.evaluated(
                bases.take(self.basis, columns), self._numbers(columns), corrected=self.corrected
            )
            present = ~jnp.isnan(self._numbers(columns))
        else:
            codes = features.codes[:, columns - features.numbers]
            levels = jnp.arange(self.width, dtype=codes.dtype)
            values = (codes[:, :, None] == levels[None, None, :]).astype(features.x.dtype)
            present = codes >= 0
        centred = jnp.where(present[:, :, None], values - side.mean[None, :, 0], 0)
        mapped = jnp.einsum(
            "ncb,cab->nca", centred, side.map[:, 0], precision=lax.Precision.HIGHEST
        )
        return mapped.reshape(features.rows, -1), side.width

    def _levels(self, columns: Integers) -> tuple[Integers, Integers, Integers]:
        """Column and level of every feature of some categories, and each one's features.

        ``(c, width)``, filled up with the position after the last feature.
        """
        counts = [self.features.levels[c - self.features.numbers] for c in columns]
        column = np.repeat(columns - self.features.numbers, counts)
        level = np.concatenate([np.arange(count) for count in counts])
        index = np.full((len(columns), self.width), sum(counts))
        start = 0
        for row, count in zip(index, counts, strict=True):
            row[:count] = np.arange(start, start + count)
            start += count
        return column, level, index

    def _numbers(self, columns: Integers) -> Array:
        x = self.features.x
        return x if len(columns) == x.shape[1] else x[:, columns]

    def _weights_of(self, patterns: Integers) -> Array:
        """Weights ``(n, u)`` of the rows in each of some patterns."""
        present = jnp.asarray(self.patterns.present[:, patterns])
        weights = self.features.weights
        if weights is None:
            return present.astype(self.features.x.dtype)
        return jnp.where(present, weights[:, None], 0)

    def _totals(self, left: Integers, right: Integers) -> Floats:
        """Sums of weights over the rows that two patterns share."""
        if self.features.weights is None:
            return self.shared[np.ix_(left, right)].astype(self.features.x.dtype)
        weights = np.asarray(self.features.weights)
        present = self.patterns.present
        return (present[:, left] * weights[:, None]).T @ present[:, right].astype(weights.dtype)

    def _cross(self, left: Integers, right: Integers) -> Array:
        """Cross moments of the features of two tiles, ``(features + 1, features + 1)``.

        The last row and column are 0, for what fills up a shorter list of features.
        """
        features, numbers = self.features, self.features.numbers
        if right[0] < numbers and left[0] == right[0]:
            if self.cross is not None:
                cross, self.cross = self.cross, None
            else:
                cross = blocks.own_products(
                    bases.take(self.basis, left),
                    self._numbers(left),
                    features.weights,
                    corrected=self.corrected,
                )
            cross = cross[1:, 1:]
        elif right[0] < numbers:
            cross = blocks.number_products(
                bases.take(self.basis, left),
                self._numbers(left),
                bases.take(self.basis, right),
                self._numbers(right),
                features.weights,
                corrected=self.corrected,
            )
        else:
            column, level, _ = (jnp.asarray(part) for part in self._levels(right))
            if left[0] < numbers:
                cross = blocks.mixed_products(
                    bases.take(self.basis, left),
                    self._numbers(left),
                    features.codes,
                    column,
                    level,
                    features.weights,
                    corrected=self.corrected,
                )
            else:
                own_column, own_level, _ = (jnp.asarray(part) for part in self._levels(left))
                weights = features.weights
                if weights is None:
                    weights = jnp.ones(features.rows, features.x.dtype)
                cross = blocks.category_products(
                    features.codes, (own_column, own_level), (column, level), weights
                )
        return jnp.pad(cross, (0, 1))


@dataclasses.dataclass(frozen=True)
class _Side:
    """One tile, whitened on the rows of each of some patterns.

    Attributes:
      mean, map: ``(c, u, width)`` and ``(c, u, width, width)``.
      feature: ``(c, width)``, where a column's features stand in the matrix of cross moments.
      pivot: ``(c, u)``, the smallest of the map: near 0 where it is ill conditioned.
      supported: ``(c, u, width)``, which features vary there.
      spare: directions that the supported features have too many (1 for indicators).
    """

    mean: Array
    map: Array
    feature: Integers
    pivot: Floats
    supported: NDArray[np.bool_]
    width: int
    spare: int

    def directions(self, column: Integers, pattern: Integers, limit: Integers) -> Integers:
        """How many directions the rows of a pattern support of a column's kernel."""
        used = self.supported[column, pattern]
        if not self.spare:
            used = used & (np.arange(self.width)[None, :] < limit[:, None])
        return np.maximum(used.sum(axis=1) - self.spare, 0)


@functools.partial(jax.jit, static_argnames=("single",))
def _solve(
    cross: Array,
    total: Array,
    left: tuple[Array, Array],
    right: tuple[Array, Array],
    features: tuple[Array, Array],
    columns: tuple[Array, Array],
    patterns: tuple[Array, Array],
    counts: Array,
    linear: Array,
    *,
    single: bool,
) -> tuple[Array, Array]:
    """HGR and the absolute correlation of the first features, of every pair of two tiles."""
    shared = total[patterns[0], patterns[1]]
    block = cross[features[0][:, :, None], features[1][:, None, :]]
    block = block / jnp.where(shared > 0, shared, 1)[:, None, None]
    side_a = (left[0][columns[0], patterns[1]], left[1][columns[0], patterns[1]])
    side_b = (right[0][columns[1], patterns[0]], right[1][columns[1], patterns[0]])
    m = whitened_blocks(block, side_a, side_b)
    value = correlations(m, counts, linear, single=single)
    return value, jnp.minimum(jnp.abs(m[:, 0, 0]), 1)
