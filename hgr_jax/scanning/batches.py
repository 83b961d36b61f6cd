"""A table that is read batch by batch: sums over its rows, and estimates of its pairs.

`BatchSums` are the sums of a plan, and add up over batches.  `BatchTable` is the table for a scan:
values are estimated from the sums, ranks and pictures from a sample of the rows.  Ill-conditioned
pairs are fitted on their own rows, which are read again, as far as memory allows.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._threads import one_blas_thread
from hgr_jax.core.host.linalg import orthonormalising_maps, whitenings
from hgr_jax.core.host.ranks import ranks
from hgr_jax.core.partial import EXPLAINED
from hgr_jax.scanning.bases import BasisMaps, assessed, count_distinct, unresolved_in_dtype
from hgr_jax.scanning.features import Estimates, Features, Kernels, within_range
from hgr_jax.scanning.memory import MemorySums, refined_hgr
from hgr_jax.scanning.pairs import PairSelection
from hgr_jax.scanning.plan import SAMPLE_NOISE, Plan
from hgr_jax.scanning.request import Request
from hgr_jax.scanning.solve import (
    MIN_SHARED_PIVOT,
    PairSums,
    Refit,
    TilePairs,
    Tiles,
    WhitenedTile,
    error_sums,
    refit_pairs,
    whiten_levels,
    whiten_numbers,
)
from hgr_jax.scanning.sums import Layout, TileSums, shared_weights, sums_of_tiles
from hgr_jax.scanning.survey import WEIGHTS_KEY, weights_of
from hgr_jax.scanning.table import Table
from hgr_jax.tables.arrow_columns import DATES, NUMBER, Chunk
from hgr_jax.tables.columns import Columns, add_note
from hgr_jax.tables.levels import OTHER, Category

NUMBERS, MIXED, CATEGORIES = "numbers", "mixed", "categories"
"""Names of the pairs of tiles."""

PERMUTED_ROWS = 2**14
"""Largest number of rows of the sample that are permuted."""

FUNCTION_COPIES = 4
"""Number of copies of the functions of one side in memory (of levels: twice as many) in a refit."""

EXTRA_VALUES_PER_ROW = 12
"""Number of further values in memory for each row of a pair in a refit."""

SECONDS_OF_A_DAY = 86_400.0

CONDITIONING_ADVICE = (
    "pairs without a value take files and more memory (memory=), or a scan in memory"
)
"""What to do about columns that are ill conditioned on the sums."""


class Reader(Protocol):
    """Reads the rows of a table again, batch by batch, wherever they are."""

    def rows_of_pairs(self, plan: Plan, pairs: Integers) -> list[Floats]:
        """Return `rows_of_pairs` over all rows."""

    def error_sums(self, plan: Plan, pairs: TilePairs) -> Floats:
        """Sum `errors_of_chunk` over all rows."""


def errors_of_chunk(plan: Plan, pairs: TilePairs, chunk: Chunk, where: str) -> Floats:
    """Sum the squared standard errors of pairs of two tiles over some rows, ``(N,)``."""
    values = dataclasses.replace(plan, tested=False).batches(chunk, where)[0]
    return error_sums(pairs, plan.layout(), values)


@dataclasses.dataclass(frozen=True, eq=False)
class BatchSums:
    """Sums over rows.

    Attributes:
      seen: number of rows, including rows of weight 0.
      rows, weights, squares: ``(u, u)``, number of rows that two patterns share, and the sums of
        their weights and squared weights.
      unseen: ``(q,)``, number of texts of each category that are not among its levels.
      values, ranks: sums of the tiles by name; `CATEGORIES` among the values only.
    """

    seen: int
    rows: NDArray[np.float64]
    weights: NDArray[np.float64]
    squares: NDArray[np.float64]
    unseen: NDArray[np.intp]
    values: Mapping[str, TileSums]
    ranks: Mapping[str, TileSums]

    @classmethod
    @one_blas_thread()
    @np.errstate(over="ignore", invalid="ignore")  # rows may lie far beyond the sample
    def of(cls, plan: Plan, chunk: Chunk, where: str) -> BatchSums:
        """Sum over some rows; raises as `Plan.batches`."""
        values, in_ranks, unseen = plan.batches(chunk, where)
        layout = plan.layout()
        patterns = np.arange(layout.count)
        shared = [
            shared_weights(
                values.present, values.weights if power else None, patterns, patterns, power
            )
            for power in ((0, 1, 2) if values.weights is not None else (0,))
        ]
        rows, weights, squares = (part.astype(np.float64) for part in shared * (3 // len(shared)))
        of_tiles = sums_of_tiles(layout, values, pairs_of_tiles(layout))
        of_ranks = {}
        if in_ranks is not None:
            layout = plan.layout(ranked=True)
            tiles = pairs_of_tiles(layout)
            tiles.pop(CATEGORIES, None)
            of_ranks = sums_of_tiles(layout, in_ranks, tiles)
        return cls(chunk.rows, rows, weights, squares, unseen, of_tiles, of_ranks)

    @np.errstate(over="ignore", invalid="ignore")
    def __add__(self, other: BatchSums) -> BatchSums:
        """Return the sums over the rows of both."""

        def both(name: str) -> dict[str, TileSums]:
            first, second = getattr(self, name), getattr(other, name)
            return {tile: first[tile] + second[tile] for tile in first}

        return BatchSums(
            self.seen + other.seen,
            self.rows + other.rows,
            self.weights + other.weights,
            self.squares + other.squares,
            self.unseen + other.unseen,
            both("values"),
            both("ranks"),
        )


def pairs_of_tiles(layout: Layout) -> dict[str, tuple[Integers, Integers]]:
    """Return the columns of each pair of tiles, by its name."""
    count = len(layout.patterns)
    numbers, categories = np.arange(layout.n_numeric), np.arange(layout.n_numeric, count)
    tiles = {}
    if len(numbers):
        tiles[NUMBERS] = numbers, numbers
    if len(numbers) and len(categories):
        tiles[MIXED] = numbers, categories
    if len(categories):
        tiles[CATEGORIES] = categories, categories
    return tiles


def bytes_of_sums(plan: Plan) -> int:
    """Estimate the bytes of the sums of a plan, together with the sums of a batch."""
    total = 0
    for layout in (
        (plan.layout(), plan.layout(ranked=True)) if plan.sums_ranks else (plan.layout(),)
    ):
        width = layout.degree * layout.n_numeric + sum(layout.levels)
        own_size = (layout.degree + 1) ** 2 * layout.n_numeric + sum(layout.levels)
        total += width**2 + own_size * layout.count
    return 3 * 8 * total


def _own_moments(layout: Layout, tile: TileSums) -> Floats:
    """Return moments ``(d + 1, d + 1, p)`` of the numbers, each over its own rows."""
    numbers = np.arange(layout.n_numeric)
    place = np.searchsorted(layout.patterns_of(numbers), layout.patterns[numbers])
    return tile.own[0][:, :, numbers, place]


def assess_bases(plan: Plan, sums: BatchSums) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the masks of directions ``(d, p)`` in the span, and of bases that need repair."""
    if not plan.numbers:
        return np.zeros((plan.kernels.of_values().largest, 0), bool), np.zeros(0, bool)
    moments = _own_moments(plan.layout(), sums.values[NUMBERS])
    if plan.repair is not None:
        _, _, pivot = whitenings(moments, plan.repair.in_span)
        ill = pivot < MIN_SHARED_PIVOT[str(plan.dtype)]
        return plan.repair.in_span, ill | _lacks_directions(plan, plan.repair.in_span)
    sample = plan.scaled(plan.sampled_numbers())
    basis, wrong = assessed(plan.values, moments, sample, SAMPLE_NOISE)
    return basis.in_span, wrong


def _lacks_directions(plan: Plan, in_span: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the mask of numbers with fewer directions ``in_span (d, p)`` than their sample has.

    Beside far outliers, the variation of all other rows may be as small as rounding.
    """
    few = np.flatnonzero(in_span.sum(axis=0) < len(in_span))
    lacks = np.zeros(len(plan.numbers), bool)
    if len(few):
        expected = np.minimum(count_distinct(plan.sampled_numbers()[:, few]) - 1, len(in_span))
        lacks[few] = in_span[:, few].sum(axis=0) < expected
    return lacks


@np.errstate(over="ignore", invalid="ignore")
def repaired_plan(plan: Plan, sums: BatchSums) -> Plan:
    """Make the ill-conditioned polynomials of a plan orthonormal by the moments in ``sums``."""
    in_span, wrong = assess_bases(plan, sums)
    moments = _own_moments(plan.layout(), sums.values[NUMBERS])
    degree = len(in_span)
    total = np.where(moments[0, 0] > 0, moments[0, 0], 1)
    gram = np.nan_to_num(moments / total)
    mean, diagonal = gram[0, 1:], np.arange(degree)
    covariance = gram[1:, 1:] - mean[:, None] * mean[None, :]
    norms = gram[1 + diagonal, 1 + diagonal]
    transform, alive = orthonormalising_maps(covariance, norms, EXPLAINED[str(plan.dtype)])
    maps = np.where(wrong[:, None, None], np.moveaxis(transform, -1, 0), np.eye(degree))
    shares = np.where(wrong[:, None, None], np.einsum("ijc,jc->ci", transform, mean)[..., None], 0)
    if plan.repair is not None:
        shares = shares + np.matmul(maps, plan.repair.shares)
        maps = np.matmul(maps, plan.repair.maps)
    span = np.where(wrong, alive, in_span)
    return dataclasses.replace(plan, repair=BasisMaps(maps, shares, span))


def _of_functions(layout: Layout, name: str, tile: TileSums, functions: slice) -> TileSums:
    """Return the sums of some of the functions of the numbers in a pair of tiles."""
    count, degree = layout.n_numeric, layout.degree
    rows = slice(count * range(degree)[functions][0], count * (1 + range(degree)[functions][-1]))
    kept = [0, *(1 + i for i in range(degree)[functions])]
    own = tile.own[0][np.ix_(kept, kept)]
    if name == NUMBERS:
        return TileSums(tile.cross[rows, rows], (own,))
    return TileSums(tile.cross[rows], (own, *tile.own[1:]))


class PlanSums(PairSums):
    """Estimates of pairs from the sums of a plan, of values or of ranks."""

    def __init__(
        self,
        plan: Plan,
        sums: BatchSums,
        refit: Callable[[Integers, Integers], Refit],
        *,
        of: str = "values",
        reader: Reader | None = None,
    ) -> None:
        """Prepare estimates.

        Args:
          plan, sums: the sums.
          refit: fits pairs on their own rows.
          of: "values"; "functions" of ranks; or "ranks" themselves.
          reader: sums standard errors.
        """
        self.plan, self.reader, self.errors = plan, reader, reader is not None
        self._shared = np.rint(sums.rows).astype(np.intp)
        self._weights, self._refit_pairs = sums.weights, refit
        if of == "values":
            self.layout, self.kernels = plan.layout(), plan.kernels.of_values()
            self._tiles = dict(sums.values)
            self.in_span, wrong = assess_bases(plan, sums)
            self._unresolved = np.zeros(0, bool)
            if plan.numbers:
                sample = plan.scaled(plan.sampled_numbers())
                self._unresolved = _lacks_directions(plan, self.in_span)
                self._unresolved |= unresolved_in_dtype(plan.values, sample)
            self.well_conditioned = ~(wrong | self._unresolved)
            return
        whole, count = plan.layout(ranked=True), len(plan.numbers)
        functions = slice(whole.degree - 1) if of == "functions" else slice(whole.degree - 1, None)
        self.kernels = whole.kernels if of == "functions" else Kernels(1, 1)
        degree = len(range(whole.degree)[functions])
        self.layout = dataclasses.replace(whole, kernels=self.kernels, degree=degree)
        self.in_span = plan.ranks.in_span if of == "functions" else np.ones((1, count), bool)
        self.well_conditioned, self._unresolved = np.ones(count, bool), np.zeros(count, bool)
        self._tiles = {
            name: _of_functions(whole, name, tile, functions) for name, tile in sums.ranks.items()
        }
        if CATEGORIES in sums.values:
            self._tiles[CATEGORIES] = sums.values[CATEGORIES]

    def shared_rows(self, pairs: Integers) -> Integers:
        """Return the number of rows that ``pairs (N, 2)`` of columns share."""
        first, second = self.layout.patterns[pairs].T
        return self._shared[first, second]

    def tiles(self, left: Integers, right: Integers) -> Tiles:
        """Return the whitened columns of two tiles, and their cross moments."""
        layout = self.layout
        number = layout.is_number(right)
        name = NUMBERS if number else MIXED if layout.is_number(left) else CATEGORIES
        sums = self._tiles[name]
        one = self._whitened(left, sums.own[0])
        other = one if left[0] == right[0] else self._whitened(right, sums.own[1])
        total = self._weights[np.ix_(layout.patterns_of(left), layout.patterns_of(right))]
        return Tiles((one, other), sums.cross, total)

    def _whitened(self, columns: Integers, own_sums: Floats) -> WhitenedTile:
        if self.layout.is_number(columns):
            return whiten_numbers(self.layout, own_sums, self.in_span[:, columns])
        return whiten_levels(self.layout, columns, own_sums)

    def needs_refit(self, pairs: Integers) -> NDArray[np.bool_]:
        """Return the mask of pairs with a number that the sums do not resolve."""
        unresolved = np.append(self._unresolved, False)
        numbers = np.minimum(pairs, len(self._unresolved))
        return np.asarray(unresolved[numbers].any(axis=1))

    def refit(self, pairs: Integers, rows: Integers) -> Refit:
        """Fit pairs on their own rows, as many as memory allows."""
        return self._refit_pairs(pairs, rows)

    def refine(self, pairs: Integers) -> Floats:
        """Return HGR of pairs from more functions, on the rows of the sample."""
        return refined_hgr(sample_features(self.plan), pairs)

    def error_sums(self, pairs: TilePairs) -> Floats:
        """Return `error_sums` over all rows, in one more pass."""
        assert self.reader is not None
        return self.reader.error_sums(self.plan, pairs)


class BatchTable(Table):
    """A table that is read batch by batch.

    Attributes:
      plan, sums: plan and sums over all rows.
    """

    complete = False
    conditioning_advice = CONDITIONING_ADVICE

    def __init__(
        self, plan: Plan, sums: BatchSums, request: Request, reader: Reader | None = None
    ) -> None:
        """Prepare the estimates; ``reader`` reads the rows again, None if they cannot be."""
        self.plan, self.sums, self.reader = plan, sums, reader
        self.kernels, self.memory = plan.kernels, request.execution.memory
        self.rows, self.features = sums.seen, sample_features(plan)
        self.row_weights, columns = self.features.weights, sample_columns(plan)
        for name, count in zip(plan.levels, sums.unseen.tolist(), strict=True):
            if count and not plan.expected:
                remark = f"{count:,} rows have texts that the sample does not have: {OTHER!r}"
                add_note(columns.notes, name, remark)
        selection = PairSelection.of(request, plan.names, plan.skipped)
        self.take_pairs(columns, request, selection.listed(columns.used))

    @functools.cached_property
    def in_ranks(self) -> Features:
        """The rows of the sample, numbers replaced by their ranks."""
        x = ranks(self.features.x).astype(np.float64)
        return dataclasses.replace(self.features, x=x)

    def estimate(self, progress: Callable[[int], None]) -> tuple[Estimates, NDArray[np.bool_]]:
        """Estimate the pairs; return the mask ``(p,)`` of well-conditioned numbers too."""
        reader = self.reader if self.request.errors else None
        # Beside HGR of ranks, values have Pearson's correlation alone.
        refit = _refit_nothing if self.plan.kernels.ranked else self._refit
        sums = PlanSums(self.plan, self.sums, refit, reader=reader)
        return sums.estimate(self.pairs, progress), sums.well_conditioned

    def rank_sums(self) -> PairSums:
        """Return the sums of functions of ranks."""
        refit = self._refit if self.plan.kernels.ranked else _refit_nothing
        return PlanSums(self.plan, self.sums, refit, of="functions")

    def rank_lines(self) -> PairSums:
        """Return the sums of ranks."""
        return PlanSums(self.plan, self.sums, _refit_nothing, of="ranks")

    def permuted_sums(self, kernels: Kernels, *, of_values: bool) -> MemorySums:
        """Return the sums over `permuted_rows`."""
        return MemorySums(self.permuted_rows(of_values=of_values), kernels, self.memory)

    def permuted_rows(self, *, of_values: bool) -> Features:
        """Return at most about `PERMUTED_ROWS` evenly spaced rows of the sample."""
        sample = self.features
        stride = max(1, sample.rows // PERMUTED_ROWS)
        weights = None if sample.weights is None else sample.weights[::stride].astype(np.float32)
        x, codes = sample.x[::stride], sample.codes[::stride]
        x = self.plan.scaled(x) if of_values else ranks(x).astype(np.float32)
        return Features(x, codes, sample.levels, weights)

    def effective_rows(self) -> Floats:
        """Return the effective sample size of each pair."""
        first, second = self.plan.patterns[self.pairs].T
        if self.plan.weights is None:
            return self.sums.rows[first, second]
        squares = self.sums.squares[first, second]
        return self.sums.weights[first, second] ** 2 / np.maximum(squares, 1e-300)

    def heaviest_rows(self) -> Floats:
        """Return each pair's sum of squared weights, over the largest squared weight."""
        first, second = self.plan.patterns[self.pairs].T
        if self.plan.weights is None:
            return self.sums.rows[first, second]
        return self.sums.squares[first, second] / self.plan.heaviest**2

    def _refit(self, pairs: Integers, rows: Integers) -> Refit:
        """Fit pairs on their own rows: pairs of fewest rows first, as many as memory allows."""
        if self.reader is None:
            return _refit_nothing(pairs, rows)
        plan = self.plan
        widest = max(map(len, plan.levels.values()), default=0)
        kernels = plan.kernels.of_rank_functions() if plan.kernels.ranked else plan.kernels
        functions = max(kernels.largest, 2 * widest)
        width = EXTRA_VALUES_PER_ROW + FUNCTION_COPIES * functions
        order = np.argsort(rows, kind="stable")
        needed = 8 * (3 * np.cumsum(rows[order]) + width * rows[order])
        places = np.sort(order[needed <= self.memory])
        if not len(places):
            return _refit_nothing(pairs, rows)
        read = self.reader.rows_of_pairs(plan, pairs[places])
        of_pairs = dict(zip(places.tolist(), read, strict=True))

        def features(place: int) -> tuple[Features, Integers]:
            return _features_of_pair(plan, pairs[place], of_pairs.pop(place))

        return refit_pairs(features, kernels, places, errors=self.request.errors)


def _refit_nothing(pairs: Integers, rows: Integers) -> Refit:
    """Fit no pair, where no rows can be read."""
    none = np.zeros(0)
    both = np.zeros((0, 2), np.intp)
    return Refit(np.zeros(0, np.intp), none, none, none, both, none, both.astype(bool))


def sample_features(plan: Plan) -> Features:
    """Return the rows of the sample: the numbers, and the levels of the categories."""
    rows = len(plan.sample[WEIGHTS_KEY])
    codes: Integers = np.empty((rows, len(plan.levels)), np.int32)
    for place, name in enumerate(plan.levels):
        codes[:, place] = np.nan_to_num(plan.sample[name], nan=-1)
    weights = None if plan.weights is None else plan.sample[WEIGHTS_KEY]
    levels = tuple(len(levels) for levels in plan.levels.values())
    return Features(plan.sampled_numbers(), codes, levels, weights)


def sample_columns(plan: Plan) -> Columns:
    """Return the rows of the sample as the columns of a table."""
    sample = sample_features(plan)
    position = {name: place for place, name in enumerate(plan.names)}
    numbers, dates = sample.x, dict[str, float]()
    for place, name in enumerate(plan.numbers):
        if plan.kinds[name] in DATES and not np.isnan(numbers[:, place]).all():
            first = float(np.nanmin(numbers[:, place]))
            numbers[:, place] -= first
            dates[name] = first * SECONDS_OF_A_DAY
    return Columns(
        names=plan.names,
        numbers=numbers,
        number_positions=np.array([position[name] for name in plan.numbers], np.intp),
        categories=tuple(
            Category(codes, levels)
            for codes, levels in zip(sample.codes.T, plan.levels.values(), strict=True)
        ),
        category_positions=np.array([position[name] for name in plan.levels], np.intp),
        skipped=dict(plan.skipped),
        notes=dict(plan.notes),
        dates=dates,
    )


def kinds_of_pairs(plan: Plan, pairs: Integers) -> dict[str, str]:
    """Return the kinds of the columns in ``pairs (N, 2)``, and of the weights, by name."""
    names = [*plan.numbers, *plan.levels]
    kinds = {names[column]: plan.read[names[column]] for column in np.unique(pairs).tolist()}
    return kinds if plan.weights is None else kinds | {plan.weights: NUMBER}


def rows_of_pairs(plan: Plan, pairs: Integers, chunks: Iterable[tuple[str, Chunk]]) -> list[Floats]:
    """Return both columns and the weights ``(3, n)`` of each pair, on its complete rows."""
    parts: list[list[Floats]] = [[np.zeros((3, 0))] for _ in pairs]
    for where, chunk in chunks:
        w = weights_of(chunk, plan.weights, where)
        weights = np.ones(chunk.rows) if w is None else w
        columns = {c: _read_column(plan, chunk, c, where) for c in np.unique(pairs).tolist()}
        for of_pair, (first, second) in zip(parts, pairs.tolist(), strict=True):
            whole = np.stack([columns[first], columns[second], weights])
            of_pair.append(whole[:, ~np.isnan(whole).any(axis=0) & (weights > 0)])
    parts.reverse()
    # Popped, so that the parts of one pair at a time are in memory twice.
    return [np.concatenate(parts.pop(), axis=1) for _ in pairs]


def joined_rows(one: list[Floats], other: list[Floats]) -> list[Floats]:
    """Concatenate the rows of each pair."""
    return [np.concatenate(both, axis=1) for both in zip(one, other, strict=True)]


def _read_column(plan: Plan, chunk: Chunk, column: int, where: str) -> Floats:
    """Return a column of a chunk ``(n,)``: numbers, or positions of levels; NaN where missing."""
    if column < len(plan.numbers):
        return chunk.numbers[plan.numbers[column]]
    codes, _ = plan.codes_of(chunk, list(plan.levels)[column - len(plan.numbers)], where)
    return np.where(codes < 0, np.nan, codes)


def _features_of_pair(plan: Plan, pair: Integers, rows: Floats) -> tuple[Features, Integers]:
    """Return the two columns of a pair as features, from ``rows (3, n)``, and their positions."""
    numbers = pair < len(plan.numbers)
    levels = list(plan.levels.values())
    x = within_range(rows[:2][numbers].T) if numbers.any() else np.zeros((rows.shape[1], 0))
    features = Features(
        np.asarray(x, np.float64),
        rows[:2][~numbers].T.astype(np.int32),
        tuple(len(levels[column - len(plan.numbers)]) for column in pair[~numbers]),
        None if plan.weights is None else rows[2],
    )
    return features, np.array([0, 1]) if numbers[0] or not numbers[1] else np.array([1, 0])
