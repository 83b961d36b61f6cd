"""From sums over rows to the estimates of pairs: many small problems at once.

The cross moments of a pair are a block of the cross moments of two tiles of columns.  The whitening
of a column depends on the other column's *pattern* of missing values, and there are far fewer
patterns than columns: a tile is whitened once for each pattern (`WhitenedTile`).
Ill-conditioned pairs, and those given other columns, are fitted on their own rows (`refit_pair`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.estimates import average_of_moments, blocks_of
from hgr_jax.core.host.linalg import (
    orthonormalise,
    top_correlations,
    whitened_blocks,
    whitenings,
)
from hgr_jax.core.host.polynomials import fit_pair
from hgr_jax.core.host.ranks import RankKernel
from hgr_jax.core.partial import EXPLAINED
from hgr_jax.core.ranks import largest_size, look_again
from hgr_jax.scanning.bases import count_distinct
from hgr_jax.scanning.features import Estimates, Features, Kernels, within_range
from hgr_jax.scanning.given import conditioning_on
from hgr_jax.scanning.sums import Layout

MIN_SHARED_PIVOT = 1e-6
"""Smallest pivot of a pair's bases on its rows, below which rounding affects its estimate."""


@dataclasses.dataclass(frozen=True)
class WhitenedTile:
    """A tile of columns, whitened on the rows of each of some patterns.

    Attributes:
      mean: ``(width, c, u)``, means of the features.
      map: ``(width, width, c, u)``, whitening maps; for indicators, their diagonals.
      feature: ``(width, c)``, positions of a column's features among the cross moments.
      pivot: ``(c, u)``, smallest pivot of the map, near 0 if it is ill conditioned.
      supported: ``(width, c, u)``, mask of the features that vary on the rows.
      redundant: number of supported features that depend on the others (1 for indicators).
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

    def whitening(self, column: Integers, pattern: Integers) -> tuple[Floats, Floats]:
        """Return means ``(width, N)`` and maps ``(..., N)`` of columns on the rows of patterns."""
        return self.mean[:, column, pattern], self.map[..., column, pattern]

    def directions(self, column: Integers, pattern: Integers, limit: Integers) -> Integers:
        """Count the directions of columns, up to ``limit``, that the rows of patterns support."""
        used = self.supported[:, column, pattern]
        if not self.redundant:
            used = used & (np.arange(self.width)[:, None] < limit)
        return np.maximum(used.sum(axis=0) - self.redundant, 0)


def whiten_numbers(
    layout: Layout,
    moments: Floats,
    in_span: NDArray[np.bool_],
    *,
    fitted: bool = False,
) -> WhitenedTile:
    """Whiten the functions of some numbers on the rows of each of some patterns.

    Args:
      layout: layout of all columns.
      moments: `own_sums` of the numbers.
      in_span: ``(d, c)``, mask of the directions that the data support.
      fitted: whether the functions were fitted to these rows; no map is then ill conditioned.
    """
    span = np.broadcast_to(in_span[:, :, None], moments[0, 1:].shape)
    mean, inverse, pivot = whitenings(moments, span)
    least = np.ones(pivot.shape) if fitted else pivot
    count = moments.shape[2]
    feature = np.arange(layout.degree)[:, None] * count + np.arange(count)[None, :]
    return WhitenedTile(mean, inverse, feature, least, span, 0)


def by_level(layout: Layout, columns: Integers, sums: Floats) -> Floats:
    """Rearrange sums ``(m, ...)`` of levels by column, ``(width, c, ...)``."""
    _, _, index = layout.levels_of(columns)
    return np.concatenate([sums, np.zeros_like(sums[:1])])[index]


def whiten_levels(layout: Layout, columns: Integers, counts: Floats) -> WhitenedTile:
    """Whiten the indicators of categories, given ``counts (m, u)`` on the rows of patterns."""
    _, _, index = layout.levels_of(columns)
    share = by_level(layout, columns, counts)
    total = share.sum(axis=0)
    share = share / np.where(total > 0, total, 1)
    supported = share > 0
    scale = np.where(supported, 1 / np.sqrt(np.where(supported, share, 1)), 0)
    return WhitenedTile(share, scale, index, np.ones(total.shape), supported, redundant=1)


class Tiles(NamedTuple):
    """Two whitened tiles, or one twice, with their cross moments.

    Attributes:
      sides: the whitened tiles.
      cross: cross moments, as of `cross_sums`.
      total: ``(u, v)``, sums of weights over the rows that two patterns share.
    """

    sides: tuple[WhitenedTile, WhitenedTile]
    cross: Floats
    total: Floats


def ordered_pairs(layout: Layout, pairs: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """Put the lower tile's column first in ``pairs (N, 2)``; return the mask of swaps too."""
    tiles = layout.tiles[pairs]
    flips = (tiles[:, 0] > tiles[:, 1]) | (
        (tiles[:, 0] == tiles[:, 1]) & (pairs[:, 0] > pairs[:, 1])
    )
    return np.where(flips[:, None], pairs[:, ::-1], pairs), flips


class TileSolver:
    """Estimates of the pairs of two tiles, whose columns are ``left`` and ``right``."""

    def __init__(
        self,
        layout: Layout,
        tiles: Tiles,
        columns: tuple[Integers, Integers],
        rows: Floats | None,
    ) -> None:
        self.rows, self.layout, self.kernels = rows, layout, layout.kernels
        self.left, self.right = columns
        self.sides, self.cross, self.total = tiles

    def solve(
        self, estimates: Estimates, places: Integers, pairs: Integers, flip: NDArray[np.bool_]
    ) -> None:
        """Put the estimates of ``pairs (M, 2)``, the left tile's column first, at ``places``."""
        layout, (one, other) = self.layout, self.sides
        local_left = np.unique(layout.patterns[self.left], return_inverse=True)[1]
        local_right = np.unique(layout.patterns[self.right], return_inverse=True)[1]
        limits, counts, linear = self._sizes(pairs, flip)
        i = np.searchsorted(self.left, pairs[:, 0])
        j = np.searchsorted(self.right, pairs[:, 1])
        u, v = local_left[i], local_right[j]
        directions = np.stack(
            [one.directions(i, v, limits[:, 0]), other.directions(j, u, limits[:, 1])], axis=1
        )
        estimates.degrees[places] = np.where(flip[:, None], directions[:, ::-1], directions)
        estimates.pivot[places] = np.minimum(one.pivot[i, v], other.pivot[j, u])
        # The arrays of a part fit in a core's cache.
        most = max(64, 2**15 // max(one.width, other.width) ** 2)
        for start in range(0, len(pairs), most):
            part = slice(start, start + most)
            a, b = (i[part], v[part]), (j[part], u[part])
            m = self._whitened(a, b)
            value = top_correlations(m, counts[part])
            estimates.statistic[places[part]] = estimates.linear[places[part]] = value
            if self.kernels.ranked:
                available = (
                    one.directions(*a, np.array(layout.degree)),
                    other.directions(*b, np.array(layout.degree)),
                )
                rows = estimates.rows.astype(float) if self.rows is None else self.rows
                numbers = layout.is_number(self.left), layout.is_number(self.right)
                rows = np.maximum(rows[places[part]], 1)  # some pairs share none
                blocks = blocks_of(m.shape[:2], numbers, 0)
                average = average_of_moments(m, available, rows, numbers, blocks)
                value, full = average.value, np.zeros(len(rows), bool)
                for number, count in zip(numbers, available, strict=True):
                    full |= number & (count == layout.degree)
                edge = full & look_again(average, blocks, 0)
                estimates.at_edge[places[part]] = edge & (largest_size(rows) > layout.degree)
            estimates.value[places[part]] = value
            if layout.is_number(self.left):
                # Numbers come before categories: the first side is one number, and linear.
                first = m[0, : linear[part, 1].max(initial=0)]
                estimates.linear[places[part]] = np.minimum(np.sqrt(np.sum(first**2, axis=0)), 1)

    def _sizes(
        self, pairs: Integers, flip: NDArray[np.bool_]
    ) -> tuple[Integers, Integers, Integers]:
        """Return degrees, numbers of functions, and numbers of linear functions, ``(M, 2)``."""
        layout, kernels = self.layout, self.kernels
        degrees = [kernels.h, kernels.k]
        limits = np.where(flip[:, None], degrees[::-1], degrees)
        category = pairs >= layout.n_numeric
        counts = np.where(category, layout.width, limits)
        return limits, counts, np.where(category, layout.width, 1)

    def _whitened(self, a: tuple[Integers, Integers], b: tuple[Integers, Integers]) -> Floats:
        """Return whitened cross moments ``(r, s, M)`` of columns on each other's patterns."""
        one, other = self.sides
        (i, v), (j, u) = a, b
        shared = self.total[u, v]
        block = self.cross[one.feature[:, None, i], other.feature[None, :, j]]
        block = block / np.where(shared > 0, shared, 1)
        return whitened_blocks(block, one.whitening(i, v), other.whitening(j, u))


class RefitPair(NamedTuple):
    """One pair fitted on its own rows: see `Estimates`, and whether a side has all directions."""

    value: float
    statistic: float
    linear: float
    degrees: Sequence[int]
    complete: Sequence[bool]


def refit_pair(features: Features, pair: Integers, kernels: Kernels) -> RefitPair:
    """Fit the columns ``pair (2,)`` of a table on the rows that they share."""
    i, j = pair
    rows = np.flatnonzero(features.present(i) & features.present(j))
    w = np.ones(len(rows)) if features.weights is None else features.weights[rows]
    sides = (RankKernel(kernels.largest),) * 2 if kernels.ranked else (kernels.h, kernels.k)
    kernel_of_each = features.kernel(i, sides[0]), features.kernel(j, sides[1])
    columns = [within_range(features.values(column)[rows, None])[:, 0] for column in pair]
    fitted = fit_pair(columns[0], columns[1], w, kernel_of_each)
    category = pair >= features.n_numeric
    counts = np.array(fitted.directions)
    f, g = fitted.functions[1 : counts[0] + 1], fitted.functions[counts[0] + 1 :]
    if features.conditioning is not None:
        conditioning = conditioning_on(features.conditioning, rows, w)
        least = EXPLAINED["float64"]
        f, g = (orthonormalise(side, fitted.shares, conditioning, least)[0] for side in (f, g))
    # Functions that depend on others, such as one indicator of a category, are 0.
    degrees = [int(side.any(axis=1).sum()) for side in (f, g)]
    complete = [
        bool(is_category or degree >= min(int(count_distinct(x[:, None])[0]) - 1, kernel))
        for x, degree, kernel, is_category in zip(
            columns, degrees, (kernels.h, kernels.k), category | kernels.ranked, strict=True
        )
    ]
    m = (f * fitted.shares) @ g.T
    if not m.size:
        return RefitPair(0.0, 0.0, 0.0, degrees, complete)
    linear = np.where(category, counts, 1)[None]
    tested = counts
    if kernels.ranked:
        tested = np.where(category, counts, np.minimum(counts, (kernels.h, kernels.k)))
    value = statistic = top_correlations(m[..., None], tested[None])[0]
    if kernels.ranked:
        effective_rows, available = np.array([1 / np.sum(fitted.shares**2)]), np.array(degrees)
        one, other = available[:1], available[1:]
        numbers = bool(not category[0]), bool(not category[1])
        blocks = blocks_of(m.shape, numbers, 0)
        average = average_of_moments(m[..., None], (one, other), effective_rows, numbers, blocks)
        value = average.value[0]
        degrees = np.minimum(degrees, tested).tolist()
    of_linear = top_correlations(m[..., None], linear)[0]
    return RefitPair(value, statistic, of_linear, degrees, complete)
