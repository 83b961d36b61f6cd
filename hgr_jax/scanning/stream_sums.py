"""Sums of a plan over any rows of its table, and what they say of its columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._threads import one_blas_thread
from hgr_jax.core.host.linalg import whitenings
from hgr_jax.core.partial import EXPLAINED
from hgr_jax.scanning.bases import assessed, blurred, count_distinct
from hgr_jax.scanning.features import Estimates
from hgr_jax.scanning.given import orthonormalising
from hgr_jax.scanning.layout import Layout
from hgr_jax.scanning.plan import Plan, Repair
from hgr_jax.scanning.sides import Side, side_of_levels, side_of_numbers
from hgr_jax.scanning.solve import MIN_SHARED_PIVOT, Again, Tiles, estimates
from hgr_jax.scanning.sums import TileSums, shared_weights, sums_of_tiles
from hgr_jax.tables.arrow_columns import Chunk

NUMBERS, MIXED, CATEGORIES = "numbers", "mixed", "categories"
"""The pairs of tiles."""


@dataclasses.dataclass(frozen=True, eq=False)
class StreamSums:
    """Sums over rows; those over more rows are their sum.

    Attributes:
      seen: the number of rows, with those of weight 0.
      rows, weights, squares: ``(u, u)``, of the rows that two patterns share: their number, and
        the sums of weights and of their squares.
      strange: ``(q,)``, texts of each category that are none of its levels.
      values, ranks: of the tiles; `CATEGORIES` among the values alone.
    """

    seen: int
    rows: NDArray[np.float64]
    weights: NDArray[np.float64]
    squares: NDArray[np.float64]
    strange: NDArray[np.intp]
    values: Mapping[str, TileSums]
    ranks: Mapping[str, TileSums]

    @classmethod
    @one_blas_thread()
    @np.errstate(over="ignore", invalid="ignore")  # of rows far beyond the sample
    def of(cls, plan: Plan, chunk: Chunk, where: str) -> StreamSums:
        """Return the sums over some rows; raises as `Plan.batches`."""
        values, ranks, strange = plan.batches(chunk, where)
        layout = plan.layout()
        patterns = np.arange(layout.count)
        powers = (0, 1, 2) if values.weights is not None else (0,)
        shared = [
            shared_weights(values, patterns, patterns, power).astype(np.float64) for power in powers
        ]
        rows, weights, squares = shared * (3 // len(shared))
        of_tiles = sums_of_tiles(layout, values, pairs_of_tiles(layout))
        of_ranks = {}
        if ranks is not None:
            layout = plan.layout(ranked=True)
            tiles = pairs_of_tiles(layout)
            tiles.pop(CATEGORIES, None)
            of_ranks = sums_of_tiles(layout, ranks, tiles)
        return cls(chunk.rows, rows, weights, squares, strange, of_tiles, of_ranks)

    @np.errstate(over="ignore", invalid="ignore")
    def __add__(self, other: StreamSums) -> StreamSums:
        """Return the sums over the rows of both."""

        def both(name: str) -> dict[str, TileSums]:
            first, second = getattr(self, name), getattr(other, name)
            return {tile: first[tile] + second[tile] for tile in first}

        return StreamSums(
            self.seen + other.seen,
            self.rows + other.rows,
            self.weights + other.weights,
            self.squares + other.squares,
            self.strange + other.strange,
            both("values"),
            both("ranks"),
        )


def pairs_of_tiles(layout: Layout) -> dict[str, tuple[Integers, Integers]]:
    """Return the columns of the pairs of tiles of a stream, by name."""
    count = len(layout.patterns)
    numbers, categories = np.arange(layout.n_numeric), np.arange(layout.n_numeric, count)
    found = {}
    if len(numbers):
        found[NUMBERS] = numbers, numbers
    if len(numbers) and len(categories):
        found[MIXED] = numbers, categories
    if len(categories):
        found[CATEGORIES] = categories, categories
    return found


def bytes_of(plan: Plan) -> int:
    """Return about how many bytes sums of a plan take, with those of a batch beside them."""
    layout, ranked = plan.layout(), plan.layout(ranked=True)
    total = 0
    for each in (layout, ranked) if plan.tested else (layout,):
        width = each.degree * each.n_numeric + sum(each.levels)
        own = (each.degree + 1) ** 2 * each.n_numeric + sum(each.levels)
        total += width**2 + own * each.count
    return 3 * 8 * total


def own_moments_of(layout: Layout, tile: TileSums) -> Floats:
    """Return moments ``(d + 1, d + 1, p)`` of the numbers, each over its own rows."""
    numbers = np.arange(layout.n_numeric)
    place = np.searchsorted(layout.patterns_of(numbers), layout.patterns[numbers])
    return tile.own[0][:, :, numbers, place]


def spans(plan: Plan, sums: StreamSums) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which directions ``(d, p)`` the rows support, and which bases must be repaired."""
    if not plan.numbers:
        return np.zeros((plan.kernels.largest, 0), bool), np.zeros(0, bool)
    moments = own_moments_of(plan.layout(), sums.values[NUMBERS])
    if plan.repair is not None:
        _, _, pivot = whitenings(moments, plan.repair.in_span)
        ill = pivot < MIN_SHARED_PIVOT[str(plan.dtype)]
        return plan.repair.in_span, ill | unresolved(plan, plan.repair.in_span)
    sample = np.stack([plan.sample[name] for name in plan.numbers], axis=1)
    basis, wrong = assessed(plan.values, moments, plan.scaled(sample))
    return basis.in_span, wrong


def unresolved(plan: Plan, in_span: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which numbers have fewer directions ``in_span (d, p)`` than values in the sample.

    Beside far outliers, what is taken for rounding may be all that the other rows say.
    """
    few = np.flatnonzero(in_span.sum(axis=0) < len(in_span))
    found = np.zeros(len(plan.numbers), bool)
    if len(few):
        sample = np.stack([plan.sample[plan.numbers[place]] for place in few], axis=1)
        expected = np.minimum(count_distinct(sample) - 1, len(in_span))
        found[few] = in_span[:, few].sum(axis=0) < expected
    return found


@np.errstate(over="ignore", invalid="ignore")
def repaired_plan(plan: Plan, sums: StreamSums) -> Plan:
    """Return a plan whose polynomials are near-orthonormal on the rows of some sums of another.

    Those that must be are replaced by what the moments of the old ones make orthonormal.
    """
    in_span, wrong = spans(plan, sums)
    moments = own_moments_of(plan.layout(), sums.values[NUMBERS])
    degree = len(in_span)
    total = np.where(moments[0, 0] > 0, moments[0, 0], 1)
    gram = np.nan_to_num(moments / total)
    mean, each = gram[0, 1:], np.arange(degree)
    covariance = gram[1:, 1:] - mean[:, None] * mean[None, :]
    norms = gram[1 + each, 1 + each]
    transform, alive = orthonormalising(covariance, norms, EXPLAINED[str(plan.dtype)])
    maps = np.where(wrong[:, None, None], np.moveaxis(transform, -1, 0), np.eye(degree))
    shares = np.where(wrong[:, None, None], np.einsum("ijc,jc->ci", transform, mean)[..., None], 0)
    if plan.repair is not None:
        shares = shares + np.matmul(maps, plan.repair.shares)
        maps = np.matmul(maps, plan.repair.maps)
    span = np.where(wrong, alive, in_span)
    return dataclasses.replace(plan, repair=Repair(maps, shares, span))


def estimated(
    plan: Plan,
    sums: StreamSums,
    pairs: Integers,
    *,
    ranked: bool = False,
    blocks: Callable[[Integers, Floats], None] = lambda positions, m: None,
) -> tuple[Estimates, NDArray[np.bool_]]:
    """Estimate ``pairs (N, 2)`` from sums, and say which could not be: no rows are left to fit."""
    layout = plan.layout(ranked=ranked)
    numbers = layout.n_numeric
    in_span = np.ones((layout.degree, numbers), bool) if ranked else spans(plan, sums)[0]
    if ranked and plan.numbers:
        in_span = rank_span(plan, sums)
    of_tiles = {**sums.values, **sums.ranks} if ranked else sums.values
    lost: list[Integers] = []

    def side(columns: Integers, own: Floats) -> Side:
        if layout.is_number(columns):
            return side_of_numbers(layout, own, in_span[:, columns])
        return side_of_levels(layout, columns, own)

    def tiles(left: Integers, right: Integers) -> Tiles:
        number = layout.is_number(right)
        name = NUMBERS if number else MIXED if layout.is_number(left) else CATEGORIES
        found = of_tiles[name]
        first = side(left, found.own[0])
        second = first if left[0] == right[0] else side(right, found.own[1])
        total = sums.weights[np.ix_(layout.patterns_of(left), layout.patterns_of(right))]
        return Tiles((first, second), found.cross, total)

    def again(ill: Integers) -> Again:
        lost.append(ill)
        none = np.full(len(ill), np.nan)
        return none, none, np.ones((len(ill), 2), np.intp), none

    found = estimates(
        layout,
        np.rint(sums.rows).astype(np.intp),
        tiles,
        pairs,
        progress=lambda done: None,
        blocks=blocks,
        again=again,
        apart=~of_fine(~unresolved(plan, in_span), pairs),
    )
    listed = {tuple(pair) for part in lost for pair in part.tolist()}
    return found, np.array([tuple(pair) in listed for pair in pairs.tolist()], bool)


def blurred_numbers(plan: Plan) -> NDArray[np.bool_]:
    """Return of which numbers the polynomials depend on the last digit of the features."""
    if not plan.numbers:
        return np.zeros(0, bool)
    sample = np.stack([plan.sample[name] for name in plan.numbers], axis=1)
    return blurred(plan.values, plan.scaled(sample))


def of_fine(fine: NDArray[np.bool_], pairs: Integers) -> NDArray[np.bool_]:
    """Return which ``pairs (N, 2)`` have no number but those that are ``fine (p,)``."""
    numbers = len(fine)
    known = np.append(fine, True)[np.minimum(pairs, numbers)]
    return np.asarray(known.all(axis=1))


def rank_span(plan: Plan, sums: StreamSums) -> NDArray[np.bool_]:
    """Return which polynomials ``(d, p)`` of the ranks the rows support."""
    moments = own_moments_of(plan.layout(ranked=True), sums.ranks[NUMBERS])
    sample = np.stack(
        [to_rank(plan.sample[n]) for to_rank, n in zip(plan.maps, plan.numbers, strict=True)],
        axis=1,
    )
    return assessed(plan.ranks, moments, sample.astype(plan.dtype))[0].in_span
