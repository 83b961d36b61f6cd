"""From sums over rows to the estimates of pairs: many small problems at once.

The cross moments of a pair are a block of the cross moments of two tiles of columns.  The whitening
of a column depends on the other column's *pattern* of missing values, and there are far fewer
patterns than columns: a tile is whitened once for each pattern (`WhitenedTile`).
`PairSums` has the sums of a table; `PairSums.estimate` solves its pairs.
Ill-conditioned pairs are fitted on their own rows (`refit_pair`).
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers, chunks, groups
from hgr_jax.core.host.estimates import average_of_moments, blocks_of
from hgr_jax.core.host.linalg import (
    orthonormalise,
    orthonormalising_maps,
    top_correlation_vectors,
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
from hgr_jax.scanning.residuals import Explained, conditioning_on, less_explained, without_explained
from hgr_jax.scanning.sums import Batch, Block, Layout, level_features

MIN_SHARED_PIVOT = {"float32": 0.05, "float64": 1e-6}
"""Smallest pivot of a pair's bases on its rows, below which rounding affects its estimate."""

ERROR_NUMBERS = 2**20
"""Number of values of pairs' functions in memory at a time, for standard errors."""

ERROR_ROWS = 1024
"""Number of rows that are computed at a time, for standard errors."""


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
      explained: projections on the conditioning functions, or None.
    """

    mean: Floats
    map: Floats
    feature: Integers
    pivot: Floats
    supported: NDArray[np.bool_]
    redundant: int
    explained: Explained | None = None

    @property
    def width(self) -> int:
        """The number of features of a column."""
        return len(self.mean)

    def whitening(self, column: Integers, pattern: Integers) -> tuple[Floats, Floats]:
        """Return means ``(width, N)`` and maps ``(..., N)`` of columns on the rows of patterns."""
        return self.mean[:, column, pattern], self.map[..., column, pattern]

    def explained_by(self, column: Integers, pattern: Integers) -> Floats | None:
        """Return coordinates ``(r, width, N)`` on orthonormal conditioning functions."""
        if self.explained is None:
            return None
        return self.explained.orthonormal[:, :, column, pattern]

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
    explained: Explained | None = None,
    *,
    fitted: bool = False,
) -> WhitenedTile:
    """Whiten the functions of some numbers on the rows of each of some patterns.

    Args:
      layout: layout of all columns.
      moments: `own_sums` of the numbers.
      in_span: ``(d, c)``, mask of the directions that the data support.
      explained: projections on the conditioning functions, or None.
      fitted: whether the functions were fitted to these rows; no map is then ill conditioned.
    """
    kept: Floats = np.ones(())
    if explained is not None:
        moments, kept = less_explained(moments, explained.orthonormal)
    span = np.broadcast_to(in_span[:, :, None], moments[0, 1:].shape)
    mean, inverse, pivot = whitenings(moments, span)
    least = np.ones(pivot.shape) if fitted else pivot * kept
    count = moments.shape[2]
    feature = np.arange(layout.degree)[:, None] * count + np.arange(count)[None, :]
    return WhitenedTile(mean, inverse, feature, least, span, 0, explained)


def by_level(layout: Layout, columns: Integers, sums: Floats) -> Floats:
    """Rearrange sums ``(m, ...)`` of levels by column, ``(width, c, ...)``."""
    _, _, index = layout.levels_of(columns)
    return np.concatenate([sums, np.zeros_like(sums[:1])])[index]


def whiten_levels(
    layout: Layout, columns: Integers, counts: Floats, explained: Explained | None = None
) -> WhitenedTile:
    """Whiten the indicators of categories, given ``counts (m, u)`` on the rows of patterns."""
    _, _, index = layout.levels_of(columns)
    share = by_level(layout, columns, counts)
    total = share.sum(axis=0)
    share = share / np.where(total > 0, total, 1)
    supported = share > 0
    scale = np.where(supported, 1 / np.sqrt(np.where(supported, share, 1)), 0)
    least = np.ones(total.shape)
    if explained is None:
        return WhitenedTile(share, scale, index, least, supported, redundant=1)
    covariance = np.eye(layout.width)[:, :, None, None] * share[None] - share[:, None] * share[None]
    coordinates = explained.orthonormal
    covariance -= np.einsum("kicu,kjcu->ijcu", coordinates, coordinates)
    transform, alive = orthonormalising_maps(covariance, share, EXPLAINED[str(layout.dtype)])
    return WhitenedTile(share, transform, index, least, alive, 0, explained)


class Tiles(NamedTuple):
    """Two whitened tiles, or one twice, with their cross moments.

    Attributes:
      sides: the whitened tiles.
      cross: cross moments, as in `TileSums`.
      total: ``(u, v)``, sums of weights over the rows that two patterns share.
    """

    sides: tuple[WhitenedTile, WhitenedTile]
    cross: Floats
    total: Floats


class TilePairs(NamedTuple):
    """Optimal functions of some pairs of two tiles, for their standard errors."""

    left: Integers
    right: Integers
    functions: list[PairFunctions]
    value: Floats
    patterns: Integers


class Refit(NamedTuple):
    """Pairs that were fitted on their own rows.

    Attributes:
      places: ``(M,)``, positions among the pairs that `PairSums.refit` was given.
      value, statistic, linear, error: ``(M,)``, as in `Estimates`.
      degrees: ``(M, 2)``, number of directions of both sides.
      complete: ``(M, 2)``, whether a side has all directions that its values allow.
    """

    places: Integers
    value: Floats
    statistic: Floats
    linear: Floats
    degrees: Integers
    error: Floats
    complete: NDArray[np.bool_]


class PairSums(abc.ABC):
    """Sums over the rows of a table, from which its pairs are estimated.

    Attributes:
      layout: layout of the columns.
      kernels: kernels of the first and second column of a pair.
      well_conditioned: ``(p,)``, mask of the numbers whose basis is well conditioned.
    """

    layout: Layout
    kernels: Kernels
    well_conditioned: NDArray[np.bool_]
    errors: bool = False

    @abc.abstractmethod
    def shared_rows(self, pairs: Integers) -> Integers:
        """Return the number of rows that ``pairs (N, 2)`` of columns share."""

    def columns_of(self, tiles: tuple[int, int], pairs: Integers) -> tuple[Integers, Integers]:
        """Return the columns of two tiles whose sums there are, of which ``pairs`` are."""
        return self.layout.columns_of(tiles[0]), self.layout.columns_of(tiles[1])

    @abc.abstractmethod
    def tiles(self, left: Integers, right: Integers) -> Tiles:
        """Return the whitened columns of two tiles, and their cross moments."""

    @abc.abstractmethod
    def needs_refit(self, pairs: Integers) -> NDArray[np.bool_]:
        """Return the mask of ``pairs (N, 2)`` with a column that is ill conditioned on all rows."""

    @abc.abstractmethod
    def refit(self, pairs: Integers, rows: Integers) -> Refit:
        """Fit ``pairs (N, 2)`` on their own ``rows (N,)``, as many as memory allows."""

    def refine(self, pairs: Integers) -> Floats:
        """Return HGR of ``pairs (N, 2)`` from more functions of ranks; NaN where rows are too many.

        On a pair's own rows, which must be at hand.
        """
        return np.full(len(pairs), np.nan)

    def error_sums(self, pairs: TilePairs) -> Floats:
        """Return `error_sums` over all rows."""
        raise AssertionError("standard errors need rows")

    def estimate(
        self,
        pairs: Integers,
        progress: Callable[[int], None] = lambda done: None,
        blocks: Callable[[Integers, Floats], None] = lambda places, m: None,
        rows: Floats | None = None,
    ) -> Estimates:
        """Estimate HGR of ``pairs (N, 2)``, positions of columns, numbers before categories.

        Args:
          pairs: the positions.
          progress: called with the number of pairs of a step.
          blocks: called with the positions ``(M,)`` of some pairs and their whitened cross moments
            ``(r, s, M)``, the sides in rising order of a pair's columns.
          rows: ``(N,)``, effective sample sizes; None for the numbers of rows.
        """
        layout = self.layout
        estimates = Estimates.none(len(pairs))
        estimates.rows[:] = self.shared_rows(pairs)
        ordered, flips = ordered_pairs(layout, pairs)
        left, right = layout.tiles[ordered].T
        count = 1 + int(right.max(initial=0))
        for tile_pair, chosen in groups(left * count + right):
            sides = self.columns_of(divmod(tile_pair, count), ordered[chosen])
            solver = _TileSolver(self, *sides, blocks, rows)
            solver.solve(estimates, chosen, ordered[chosen], flips[chosen])
            progress(len(chosen))
        # The rows that two columns share may not represent either (all small values, say): bases
        # that were fitted to the columns are ill conditioned there.
        ill = (estimates.pivot < MIN_SHARED_PIVOT[str(layout.dtype)]) | self.needs_refit(pairs)
        ill &= estimates.rows >= 2
        if ill.any():
            self._refit(estimates, pairs, np.flatnonzero(ill))
        at_edge = np.flatnonzero(estimates.at_edge & ~ill)
        if len(at_edge):
            refined = self.refine(pairs[at_edge])
            estimates.value[at_edge] = np.where(
                np.isnan(refined), estimates.value[at_edge], refined
            )
        estimates.degrees[estimates.rows < 2] = 0
        constant = (estimates.degrees == 0).any(axis=1)  # a column that does not vary on these rows
        for values in (estimates.value, estimates.statistic, estimates.linear, estimates.error):
            values[constant] = np.nan
        numbers = (pairs < layout.n_numeric).all(axis=1)
        estimates.pearson[:] = np.where(numbers, estimates.linear, np.nan)
        return estimates

    def _refit(self, estimates: Estimates, pairs: Integers, ill: Integers) -> None:
        """Replace the estimates at the places ``ill`` by refits on the pairs' own rows."""
        refit = self.refit(pairs[ill], estimates.rows[ill])
        for values in (estimates.value, estimates.statistic, estimates.linear, estimates.error):
            values[ill] = np.nan
        places = ill[refit.places]
        estimates.value[places], estimates.statistic[places] = refit.value, refit.statistic
        estimates.linear[places] = refit.linear
        estimates.degrees[places], estimates.error[places] = refit.degrees, refit.error
        estimates.unresolved[ill] = True
        estimates.unresolved[places] = False
        # A column stays ill conditioned only if one of its pairs is estimated from its sums.
        resolved = np.zeros(pairs.shape, bool)
        resolved[places] = refit.complete
        count = len(self.layout.patterns)
        pair_counts = np.bincount(pairs.ravel(), minlength=count)
        by_sums = np.bincount(pairs[~resolved], minlength=count)
        all_refitted = (pair_counts > 0) & (by_sums == 0)
        self.well_conditioned |= all_refitted[: len(self.well_conditioned)]


def ordered_pairs(layout: Layout, pairs: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """Put the lower tile's column first in ``pairs (N, 2)``; return the mask of swaps too."""
    tiles = layout.tiles[pairs]
    flips = (tiles[:, 0] > tiles[:, 1]) | (
        (tiles[:, 0] == tiles[:, 1]) & (pairs[:, 0] > pairs[:, 1])
    )
    return np.where(flips[:, None], pairs[:, ::-1], pairs), flips


class _TileSolver:
    """Estimates of the pairs of two tiles."""

    def __init__(
        self,
        sums: PairSums,
        left: Integers,
        right: Integers,
        blocks: Callable[[Integers, Floats], None],
        rows: Floats | None,
    ) -> None:
        self.rows = rows
        self.owner, self.layout, self.kernels = sums, sums.layout, sums.kernels
        self.left, self.right, self.blocks = left, right, blocks
        self.sides, self.cross, self.total = sums.tiles(left, right)

    def solve(
        self, estimates: Estimates, places: Integers, pairs: Integers, flip: NDArray[np.bool_]
    ) -> None:
        """Put the estimates of ``pairs (M, 2)``, the left tile's column first, at ``places``."""
        layout, (one, other) = self.layout, self.sides
        of_left, local_left = np.unique(layout.patterns[self.left], return_inverse=True)
        of_right, local_right = np.unique(layout.patterns[self.right], return_inverse=True)
        limits, counts, linear = self._sizes(pairs, flip)
        i = np.searchsorted(self.left, pairs[:, 0])
        j = np.searchsorted(self.right, pairs[:, 1])
        u, v = local_left[i], local_right[j]
        directions = np.stack(
            [one.directions(i, v, limits[:, 0]), other.directions(j, u, limits[:, 1])], axis=1
        )
        estimates.degrees[places] = np.where(flip[:, None], directions[:, ::-1], directions)
        estimates.pivot[places] = np.minimum(one.pivot[i, v], other.pivot[j, u])
        functions: list[tuple[PairFunctions, PairFunctions]] = []
        # The arrays of a part fit in a core's cache.
        most = max(64, 2**15 // max(one.width, other.width) ** 2)
        for start in range(0, len(pairs), most):
            part = slice(start, start + most)
            a, b = (i[part], v[part]), (j[part], u[part])
            m = self._whitened(a, b)
            self.blocks(places[part], m)
            value = top_correlations(m, counts[part], linear[part], single=self.kernels.single)
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
            if self.owner.errors:
                f, g = top_correlation_vectors(
                    m, counts[part], linear[part], single=self.kernels.single
                )
                functions.append((combination(one, *a, f), combination(other, *b, g)))
        if functions:
            of_each = [PairFunctions.joined(parts) for parts in zip(*functions, strict=True)]
            patterns = np.stack([of_left[u], of_right[v]])
            value, total = estimates.value[places], self.total[u, v]
            of_pairs = TilePairs(self.left, self.right, of_each, value, patterns)
            sums = self.owner.error_sums(of_pairs)
            estimates.error[places] = np.sqrt(sums) / np.where(total > 0, total, 1)

    def _sizes(
        self, pairs: Integers, flip: NDArray[np.bool_]
    ) -> tuple[Integers, Integers, Integers]:
        """Return degrees, numbers of functions, and numbers of linear functions, ``(M, 2)``."""
        layout, kernels = self.layout, self.kernels
        degrees = [kernels.h, kernels.k] if kernels.plain else [kernels.largest] * 2
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
        block = without_explained(block, one.explained_by(i, v), other.explained_by(j, u))
        return whitened_blocks(block, one.whitening(i, v), other.whitening(j, u))


class RefitPair(NamedTuple):
    """One pair fitted on its own rows; see `Refit`."""

    value: float
    statistic: float
    linear: float
    degrees: Sequence[int]
    error: float
    complete: Sequence[bool]


def refit_pairs(
    features: Callable[[int], tuple[Features, Integers]],
    kernels: Kernels,
    places: Integers,
    *,
    errors: bool = False,
) -> Refit:
    """Fit pairs on their own rows, one by one.

    Args:
      features: returns the features of the pair at a place, and positions ``(2,)`` of its columns.
      kernels: kernels of both sides.
      places: places of the pairs.
      errors: whether standard errors are computed too.
    """
    fits = [refit_pair(*features(int(place)), kernels, errors=errors) for place in places]
    count = len(fits)
    return Refit(
        places,
        np.array([fit.value for fit in fits]),
        np.array([fit.statistic for fit in fits]),
        np.array([fit.linear for fit in fits]),
        np.array([fit.degrees for fit in fits], np.intp).reshape(count, 2),
        np.array([fit.error for fit in fits]),
        np.array([fit.complete for fit in fits], bool).reshape(count, 2),
    )


def refit_pair(
    features: Features, pair: Integers, kernels: Kernels, *, errors: bool = False
) -> RefitPair:
    """Fit the columns ``pair (2,)`` of a table on the rows that they share, in float64."""
    i, j = pair
    rows = np.flatnonzero(features.present(i) & features.present(j))
    w = np.ones(len(rows)) if features.weights is None else features.weights[rows]
    sides = (RankKernel(kernels.largest),) * 2 if kernels.ranked else (kernels.h, kernels.k)
    kernel_of_each = features.kernel(i, sides[0]), features.kernel(j, sides[1])
    # Values near each other, beside far values, may be equal in the dtype of the features.
    columns = [features.exact_values(column)[rows] for column in pair]
    if kernels.plain:
        columns = [within_range(x[:, None])[:, 0] for x in columns]
    fitted = fit_pair(columns[0], columns[1], w, kernel_of_each)
    category = pair >= features.n_numeric
    counts = np.array(fitted.directions)
    f, g = fitted.functions[1 : counts[0] + 1], fitted.functions[counts[0] + 1 :]
    if features.conditioning is not None:
        conditioning = conditioning_on(features.conditioning, rows, w)
        least = EXPLAINED[str(features.x.dtype)]
        f, g = (orthonormalise(side, fitted.shares, conditioning, least)[0] for side in (f, g))
    # Functions that depend on others, such as one indicator of a category, are 0.
    degrees = [int(side.any(axis=1).sum()) for side in (f, g)]
    complete = [
        bool(is_category or degree >= min(int(count_distinct(x[:, None])[0]) - 1, kernel))
        for x, degree, kernel, is_category in zip(
            columns,
            degrees,
            (kernels.h, kernels.k),
            category | kernels.ranked | (not kernels.plain),
            strict=True,
        )
    ]
    m = (f * fitted.shares) @ g.T
    if not m.size:
        return RefitPair(0.0, 0.0, 0.0, degrees, np.nan, complete)
    linear = np.where(category, counts, 1)[None]
    tested = counts
    if kernels.ranked:
        tested = np.where(category, counts, np.minimum(counts, (kernels.h, kernels.k)))
    value = statistic = top_correlations(m[..., None], tested[None], linear, single=kernels.single)[
        0
    ]
    if kernels.ranked:
        effective_rows, available = np.array([1 / np.sum(fitted.shares**2)]), np.array(degrees)
        one, other = available[:1], available[1:]
        numbers = bool(not category[0]), bool(not category[1])
        blocks = blocks_of(m.shape, numbers, 0)
        average = average_of_moments(m[..., None], (one, other), effective_rows, numbers, blocks)
        value = average.value[0]
        degrees = np.minimum(degrees, tested).tolist()
    of_linear = top_correlations(m[..., None], linear, linear, single=False)[0]
    error = np.nan
    if errors:
        error = error_of_pair(f, g, fitted.shares, counts, linear[0], single=kernels.single)
    return RefitPair(value, statistic, of_linear, degrees, error, complete)


@dataclasses.dataclass(frozen=True)
class PairFunctions:
    """The optimal functions of one side of N pairs: combinations of its column's features.

    Attributes:
      column: ``(N,)``, positions in the tile.
      coefficients: ``(width, N)``.
      constant: ``(N,)``, subtracted.
      conditioning: ``(1 + r, N)``, coefficients of the conditioning functions, which are subtracted
        in place of ``constant``; or None.
    """

    column: Integers
    coefficients: Floats
    constant: Floats
    conditioning: Floats | None

    def at(self, features: Floats, conditioning: Floats | None) -> Floats:
        """Return values ``(N, rows)`` from features ``(width, c, rows)`` of the tile."""
        values = np.empty((len(self.column), features.shape[-1]))
        for column, places in groups(self.column):
            values[places] = self.coefficients[:, places].T @ features[:, column]
        if conditioning is None or self.conditioning is None:
            values -= self.constant[:, None]
        else:
            values -= self.conditioning.T @ conditioning
        return values

    @staticmethod
    def joined(parts: Sequence[PairFunctions]) -> PairFunctions:
        """Concatenate the functions of parts of the pairs."""
        conditioning = [part.conditioning for part in parts if part.conditioning is not None]
        return PairFunctions(
            np.concatenate([part.column for part in parts]),
            np.concatenate([part.coefficients for part in parts], axis=1),
            np.concatenate([part.constant for part in parts]),
            np.concatenate(conditioning, axis=1) if conditioning else None,
        )

    def take(self, places: Integers) -> PairFunctions:
        """Select pairs."""
        coefficients = None if self.conditioning is None else self.conditioning[:, places]
        return PairFunctions(
            self.column[places], self.coefficients[:, places], self.constant[places], coefficients
        )


def combination(
    tile: WhitenedTile, column: Integers, pattern: Integers, vector: Floats
) -> PairFunctions:
    """Return the combinations ``vector (width, N)`` of a tile's whitened features as functions."""
    mean, transform = tile.whitening(column, pattern)
    if transform.ndim == 3:
        coefficients = np.einsum("in,ijn->jn", vector, transform)
    else:
        coefficients = vector * transform
    conditioning = None
    if tile.explained is not None:
        conditioning = tile.explained.unwhitened[:, :, column, pattern]
        conditioning = np.einsum("jn,kjn->kn", coefficients, conditioning)
    return PairFunctions(column, coefficients, np.sum(coefficients * mean, axis=0), conditioning)


def error_sums(
    pairs: TilePairs, layout: Layout, batch: Batch, conditioning: Floats | None = None
) -> Floats:
    """Sum squared contributions of rows to the standard errors of pairs of two tiles, ``(N,)``.

    As in `hgr_jax.core.fits`: with standardised f and g of correlation s, the sum of ``(w psi)^2``,
    where ``psi = f g - s (f^2 + g^2) / 2``.
    """
    sums, value, places = np.zeros(len(pairs.value)), pairs.value, pairs.patterns
    single_pattern = batch.present.shape[1] == 1
    left_at = _features_at(pairs.left, layout, batch)
    twice = pairs.left[0] == pairs.right[0]
    right_at = left_at if twice else _features_at(pairs.right, layout, batch)
    for start in range(0, len(batch.present), ERROR_ROWS):
        rows = slice(start, min(start + ERROR_ROWS, len(batch.present)))
        left = left_at(rows)
        right = left if twice else right_at(rows)
        z = None if conditioning is None else conditioning[:, rows]
        masks = batch.present[rows].T
        for part in chunks(np.arange(len(value)), ERROR_NUMBERS // ERROR_ROWS):
            f, g = (
                side.take(part).at(x, z)
                for side, x in zip(pairs.functions, (left, right), strict=True)
            )
            psi = f * g - value[part, None] / 2 * (f * f + g * g)
            psi *= masks if single_pattern else masks[places[0, part]] & masks[places[1, part]]
            psi *= 1 if batch.weights is None else batch.weights[rows]
            sums[part] += np.einsum("pn,pn->p", psi, psi)
    return sums


def _features_at(columns: Integers, layout: Layout, batch: Batch) -> Block:
    """Return the function that computes a tile's features ``(width, c, rows)`` at rows."""
    if layout.is_number(columns):
        functions = batch.functions.take(columns)
        return lambda rows: functions(rows)[1:]
    column, level, _ = layout.levels_of(columns)

    def indicators(rows: slice) -> Floats:
        features = level_features(batch.codes[rows], (column, level), np.dtype(np.float64))
        return by_level(layout, columns, features)

    return indicators


def error_of_pair(
    f: Floats, g: Floats, shares: Floats, counts: Integers, linear: Integers, *, single: bool
) -> float:
    """Return the standard error of one pair from its orthonormal functions ``(d, n)``."""
    m = ((f * shares) @ g.T)[..., None]
    u, v = top_correlation_vectors(m, counts[None], linear[None], single=single)
    a, b = u[:, 0] @ f, v[:, 0] @ g
    value = np.sum(shares * a * b)
    return float(np.sqrt(np.sum((shares * (a * b - value / 2 * (a * a + b * b))) ** 2)))
