"""From sums over rows to the estimates of pairs: many small problems at once.

Every pair's matrix of cross moments is a block of that of two tiles.  What makes its sides
orthonormal depends on a column and on the other's *pattern* of missing values, of which there are
far fewer than columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.linalg import top_correlations, whitened_blocks
from hgr_jax.scanning.errors import PairFunctions, combination, top_vectors
from hgr_jax.scanning.features import Estimates
from hgr_jax.scanning.given import without_explained
from hgr_jax.scanning.layout import Layout
from hgr_jax.scanning.sides import Side

MIN_SHARED_PIVOT = {"float32": 0.05, "float64": 1e-6}
"""Below, rounding in a pair's moments would show: its bases are fitted on its own rows."""


class Tiles(NamedTuple):
    """Two tiles, or one twice: whitened, with their cross moments, and the weights of shared rows.

    Attributes:
      sides: of each.
      cross: as of `TileSums`.
      total: ``(u, v)``, for the patterns of both.
    """

    sides: tuple[Side, Side]
    cross: Floats
    total: Floats


class TilePairs(NamedTuple):
    """Optimal functions of some pairs of two tiles, for their standard errors."""

    left: Integers
    right: Integers
    functions: list[PairFunctions]
    value: Floats
    total: Floats
    patterns: Integers


Again = tuple[Floats, Floats, Integers, Floats]
"""Values, those of linear functions, directions and errors of some pairs."""


def ordered_pairs(layout: Layout, pairs: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """Return ``pairs (N, 2)`` with the columns of lower tiles first, and which are turned."""
    tiles = layout.tiles[pairs]
    flips = (tiles[:, 0] > tiles[:, 1]) | (
        (tiles[:, 0] == tiles[:, 1]) & (pairs[:, 0] > pairs[:, 1])
    )
    return np.where(flips[:, None], pairs[:, ::-1], pairs), flips


def tile_keys(layout: Layout, pairs: Integers) -> Integers:
    """Return a number ``(N,)`` for the tiles of each pair: `tiles_of` has them."""
    tiles = layout.tiles[pairs]
    return np.asarray(tiles.min(axis=1) * len(layout.tiles) + tiles.max(axis=1))


def tiles_of(layout: Layout, key: int) -> tuple[Integers, Integers]:
    """Return the columns of the two tiles of a number of `tile_keys`."""
    left, right = (layout.columns_of(tile) for tile in divmod(int(key), len(layout.tiles)))
    return left, right


def estimates(
    layout: Layout,
    shared: Integers,
    tiles: Callable[[Integers, Integers], Tiles],
    pairs: Integers,
    *,
    progress: Callable[[int], None],
    blocks: Callable[[Integers, Floats], None],
    again: Callable[[Integers], Again],
    apart: NDArray[np.bool_],
    errors: Callable[[TilePairs], Floats] | None = None,
) -> Estimates:
    """Estimate HGR of ``pairs (N, 2)``, positions of columns, numbers before categories.

    Args:
      layout: of the columns.
      shared: ``(u, u)``, the number of rows that two patterns share.
      tiles: sides and cross moments of two tiles.
      pairs: which.
      progress: called with the number of pairs that a step has done.
      blocks: called with the positions of some pairs ``(M,)`` and their whitened cross moments
        ``(r, s, M)``, of which the sides are those of a pair in rising order of its columns.
      again: estimates pairs whose rows leave a side ill conditioned.
      apart: ``(N,)``, which pairs are such whatever their rows.
      errors: of standard errors, if they are asked for.
    """
    count = len(pairs)
    value, linear, error = (np.full(count, np.nan) for _ in range(3))
    degrees, pivot = np.zeros((count, 2), np.intp), np.ones(count)
    of = layout.patterns[pairs]
    rows = shared[of[:, 0], of[:, 1]]
    ordered, flips = ordered_pairs(layout, pairs)
    keys = tile_keys(layout, pairs)
    for key in np.unique(keys):
        chosen = np.flatnonzero(keys == key)
        flip = flips[chosen]
        left, right = tiles_of(layout, key)
        found = _of_tiles(
            layout, tiles(left, right), left, right, ordered[chosen], flip, chosen, blocks, errors
        )
        value[chosen], linear[chosen], directions, pivot[chosen], error[chosen] = found
        degrees[chosen] = np.where(flip[:, None], directions[:, ::-1], directions)
        # Rows that two columns share may be another kind of rows than those of each (all the
        # small values, say): bases that were fitted to the columns are ill conditioned there.
        ill = chosen[(pivot[chosen] < MIN_SHARED_PIVOT[str(layout.dtype)]) | apart[chosen]]
        if len(ill):
            value[ill], linear[ill], degrees[ill], error[ill] = again(pairs[ill])
        progress(len(chosen))
    few = rows < 2
    degrees[few] = 0
    lost = (degrees == 0).any(axis=1)  # a column that does not vary on these rows
    value[lost], linear[lost], error[lost] = np.nan, np.nan, np.nan
    numbers = (pairs < layout.n_numeric).all(axis=1)
    pearson = np.where(numbers, linear, np.nan)
    return Estimates(value, pearson, linear, degrees, rows, pivot, error)


def _of_tiles(
    layout: Layout,
    tiles: Tiles,
    left: Integers,
    right: Integers,
    pairs: Integers,
    flip: NDArray[np.bool_],
    places: Integers,
    blocks: Callable[[Integers, Floats], None],
    errors: Callable[[TilePairs], Floats] | None,
) -> tuple[Floats, Floats, Integers, Floats, Floats]:
    """Return values, those of linear functions, directions, pivots and errors of ``pairs``."""
    sides, cross, total = tiles
    of_left, local_left = np.unique(layout.patterns[left], return_inverse=True)
    of_right, local_right = np.unique(layout.patterns[right], return_inverse=True)
    kernels = layout.kernels
    limits = np.array([[kernels.h, kernels.k] if kernels.plain else [kernels.largest] * 2])
    limits = np.where(flip[:, None], limits[:, ::-1], limits)
    counts, linear = np.empty_like(limits), np.ones_like(limits)
    for side in (0, 1):
        category = pairs[:, side] >= layout.n_numeric
        counts[:, side] = np.where(category, layout.width, limits[:, side])
        linear[:, side] = np.where(category, layout.width, 1)
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
    number = layout.is_number(left)
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
        if errors is not None:
            f, g = top_vectors(m, counts[part], linear[part], single=kernels.single)
            of_a = combination(sides[0], a, v[part], f)
            combined.append((of_a, combination(sides[1], b, u[part], g)))
        if number:
            first = m[0, : linear[part, 1].max(initial=0)]
            of_linear[part] = np.minimum(np.sqrt(np.sum(first**2, axis=0)), 1)
    if errors is not None and combined:
        of_each = [PairFunctions.joined(parts) for parts in zip(*combined, strict=True)]
        patterns = np.stack([of_left[u], of_right[v]])
        error = errors(TilePairs(left, right, of_each, value, total[u, v], patterns))
    return value, of_linear, directions, pivot, error
