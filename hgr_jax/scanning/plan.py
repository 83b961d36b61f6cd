"""[plan] What a stream's sums are of: columns, levels, bases and ranks, fixed before the rows are read.

A plan is made of a first pass (`Survey`).  All sums with the same plan add up, whoever took them.


[stream_sums] Sums of a plan over any rows of its table, and what they say of its columns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._threads import in_threads, one_blas_thread
from hgr_jax.core.host.linalg import whitenings
from hgr_jax.core.host.polynomials import Polynomials
from hgr_jax.core.partial import EXPLAINED
from hgr_jax.scanning.bases import assessed, blurred, count_distinct, on_sample
from hgr_jax.scanning.features import ColumnPolynomials, Estimates, Kernels, RowFunctions
from hgr_jax.scanning.rank_tests import OTHER_DEGREE
from hgr_jax.scanning.residuals import Rest, orthonormalising
from hgr_jax.scanning.solve import (
    MIN_SHARED_PIVOT,
    Again,
    Side,
    Tiles,
    estimates,
    side_of_levels,
    side_of_numbers,
)
from hgr_jax.scanning.sums import Batch, Layout, TileSums, shared_weights, sums_of_tiles
from hgr_jax.scanning.survey import OF_WEIGHTS, RankMap, Survey, texts_of, weights_of
from hgr_jax.tables.arrow_columns import NUMBER, Chunk
from hgr_jax.tables.columns import OTHER, constant_reason, pooled_levels, tell_infinite
from hgr_jax.tables.convert import add_note
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.texts import remark_on_lost_digits

UNBOUNDED = 2**62
"""Bytes: all numbers of a stream are one tile, and all its categories another."""

SAMPLE_NOISE = 1e-11
"""Of the polynomials of a sample: many rows leave more rounding than few."""

MOST_POWERS = 30
"""Powers of 2 beyond which a column is scaled; see `as_features`."""


class Repair(NamedTuple):
    """Maps ``(p, d, d)`` of polynomials, with shares ``(p, d, 1)`` taken off, and what is left."""

    maps: Floats
    shares: Floats
    in_span: NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """What is summed.

    Attributes:
      kinds: of all columns by name, in their order, without the weights.
      skipped, notes: as of `Scan`.
      numbers: names of the numeric columns.
      levels: of each category, by its name; the last is for texts that are none of the others.
      weights: the column of the weights, or None.
      heaviest: the largest weight.
      kernels: of the numbers.
      tested: whether there are ranks.
      center, exponent: ``(p,)``; features are of ``(x - center) 2^-exponent``.
      patterns: ``(p + q,)``, which pattern of missing values each column has.
      expected: the number of rows of the table; None for one that nobody has counted.
      sample: rows of the table by name, and under `OF_WEIGHTS` their weights.
      maps: to ranks, one for each number.
      values, ranks: polynomials of the numbers, and of their ranks.
      repair: of the former, where the sample was too little to go by.
    """

    kinds: Mapping[str, str]
    skipped: Mapping[str, str]
    notes: Mapping[str, str]
    numbers: tuple[str, ...]
    levels: Mapping[str, tuple[str, ...]]
    weights: str | None
    heaviest: float
    kernels: Kernels
    tested: bool
    center: NDArray[np.float64]
    exponent: Integers
    patterns: Integers
    expected: int | None
    sample: Mapping[str, NDArray[np.float64]]
    maps: tuple[RankMap, ...]
    values: Polynomials
    ranks: Polynomials
    repair: Repair | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, in their order."""
        return tuple(self.kinds)

    @property
    def read(self) -> dict[str, str]:
        """The kinds of the columns that are read."""
        used = {*self.numbers, *self.levels}
        kinds = {name: kind for name, kind in self.kinds.items() if name in used}
        return kinds if self.weights is None else kinds | {self.weights: NUMBER}

    @property
    def dtype(self) -> np.dtype:
        """That of the features: JAX's default one."""
        return np.dtype(jnp.result_type(float))

    def layout(self, *, ranked: bool = False) -> Layout:
        """Return that of the values, or of the ranks, which have the degrees of the tests too."""
        degree = self.kernels.largest
        return Layout.of(
            len(self.numbers),
            tuple(len(levels) for levels in self.levels.values()),
            self.kernels,
            self.patterns,
            self.dtype,
            UNBOUNDED,
            degree=max(degree, OTHER_DEGREE) if ranked else degree,
        )

    def scaled(self, x: Floats, columns: slice = slice(None)) -> Floats:
        """Return numbers ``(n, p)`` as the features take them."""
        shifted, exponent = x - self.center[columns], self.exponent[columns]
        # Exponents are 0 but in columns of huge or tiny values, and ldexp is slow.
        return (np.ldexp(shifted, -exponent) if exponent.any() else shifted).astype(self.dtype)

    def functions(self, x: Floats, *, ranked: bool = False) -> RowFunctions:
        """Return polynomials of numbers ``(n, p)`` that are scaled, or of ranks."""
        if ranked:
            return ColumnPolynomials(x, self.ranks)
        plain = ColumnPolynomials(x, self.values)
        if self.repair is None:
            return plain
        one = np.ones((1, len(x)), self.dtype)
        maps, shares = (part.astype(self.dtype) for part in self.repair[:2])
        return Rest(plain, one, maps, shares)

    def batches(self, chunk: Chunk, where: str) -> tuple[Batch, Batch | None, Integers]:
        """Return some rows as sums are taken of them: the values, and the ranks if any.

        And how many texts of each category are none of its levels.

        Raises:
          TableError: for weights below 0, and where a column is missing in other rows than it was.
        """
        w = weights_of(chunk, self.weights, where)
        if w is not None:
            chunk, w = chunk.take(w > 0), w[w > 0].astype(self.dtype)
            if not chunk.rows:  # sums over nothing are those over a row without a value
                chunk, w = chunk.blank(), np.ones(1, self.dtype)
        numbers = [chunk.numbers[name] for name in self.numbers]
        shape = (chunk.rows, len(numbers))
        whole = np.stack(numbers, axis=1) if numbers else np.zeros(shape)
        codes = np.empty((chunk.rows, len(self.levels)), np.intp)
        strange = np.zeros(len(self.levels), np.intp)
        for place, name in enumerate(self.levels):
            codes[:, place], strange[place] = self.codes_of(chunk, name)
        present = self._present(whole, codes, where)
        codes = np.asarray(codes, np.int32)
        batch = Batch(self.functions(self.scaled(whole)), codes, w, present)
        if not self.tested:
            return batch, None, strange
        rank = np.empty(shape, self.dtype)

        def place_ranks(column: int) -> None:
            rank[:, column] = self.maps[column](numbers[column])

        in_threads(place_ranks, range(len(numbers)))
        return batch, Batch(self.functions(rank, ranked=True), codes, w, present), strange

    def codes_of(self, chunk: Chunk, name: str) -> tuple[Integers, int]:
        """Return positions ``(n,)`` of a category's levels, and how many texts are none of them."""
        own, words = texts_of(chunk, name)
        last = len(self.levels[name]) - 1
        known = {level: i for i, level in enumerate(self.levels[name][:-1])}
        mapped = np.array([*(known.get(word, last) for word in words), -1], np.intp)
        new = np.array([*(word not in known for word in words), False])
        return mapped[own], int(np.count_nonzero(new[own])) if new.any() else 0

    def _present(self, x: Floats, codes: Integers, where: str) -> NDArray[np.bool_]:
        """Return the rows ``(n, u)`` of each pattern, which all of its columns must have."""
        found = np.concatenate([~np.isnan(x), codes >= 0], axis=1)
        _, first = np.unique(self.patterns, return_index=True)
        present = found[:, first]
        apart = (found != present[:, self.patterns]).any(axis=0)
        if apart.any():
            name = (*self.numbers, *self.levels)[int(np.argmax(apart))]
            raise TableError(
                f"{where}: column {printable(name)!r} is missing in other rows than when it was"
                " first read: the table has changed; start again"
            )
        return present


def plan_of(survey: Survey, kernels: Kernels, *, tested: bool, exact: bool) -> Plan:
    """Return the plan that a first pass leads to.

    Args:
      survey: of the rows.
      kernels: of the numbers.
      tested: whether there are to be p-values, by ranks.
      exact: whether the rows were all there are, and not a sample.
    """
    skipped: dict[str, str] = {}
    notes: dict[str, str] = {}
    numbers: list[str] = []
    levels: dict[str, tuple[str, ...]] = {}
    sample = survey.sample()
    for name in survey.kinds:
        if name in survey.as_text:
            known = survey.levels[name]
            if known is None:
                skipped[name] = "text with more levels than a scan of batches counts"
                continue
            words = list(known.place)
            pooled = pooled_levels(known.counts, words)
            if isinstance(pooled.kept, str):
                skipped[name] = pooled.kept
                continue
            # In the order of the texts, as those of a table in memory.
            one = pooled.rare if len(pooled.rare) == 1 else ()
            kept = sorted(words[i] for i in (*pooled.kept, *one))
            levels[name] = (*kept, OTHER)
            position = {word: i for i, word in enumerate(kept)}
            place = np.array([*(position.get(word, len(kept)) for word in words), np.nan])
            sample[name] = place[np.nan_to_num(sample[name], nan=-1).astype(np.intp)]
            if pooled.remark:
                add_note(notes, name, pooled.remark)
        else:
            low, high = survey.lowest[name], survey.highest[name]
            if not len(low) or low[0] == high[-1]:
                skipped[name] = constant_reason(low[0] if len(low) else np.nan)
                continue
            numbers.append(name)
        if survey.infinite[name]:
            tell_infinite(notes, name, survey.infinite[name])
        if survey.rounded[name]:
            add_note(notes, name, remark_on_lost_digits(f"in {survey.rounded[name]:,} rows"))
    for name, other in survey.alike().items() if exact else ():
        if name not in skipped:
            add_note(notes, name, f"the same values as {other!r}")
    places = [list(survey.kinds).index(name) for name in (*numbers, *levels)]
    return _fitted(survey, kernels, tested, exact, skipped, notes, numbers, levels, sample, places)


def _fitted(
    survey: Survey,
    kernels: Kernels,
    tested: bool,
    exact: bool,
    skipped: dict[str, str],
    notes: dict[str, str],
    numbers: Sequence[str],
    levels: dict[str, tuple[str, ...]],
    sample: dict[str, NDArray[np.float64]],
    places: Sequence[int],
) -> Plan:
    rows = len(sample[OF_WEIGHTS])
    x = np.stack([sample[name] for name in numbers], axis=1) if numbers else np.zeros((rows, 0))
    # Every column has a value, but perhaps none in the sample.
    middle = np.array([(survey.lowest[n][0] + survey.highest[n][-1]) / 2 for n in numbers])
    there = ~np.isnan(x)
    sums, counts = np.where(there, x, 0).sum(axis=0), there.sum(axis=0)
    center = np.where(counts > 0, sums / np.maximum(counts, 1), middle)
    low, high = (
        np.array([ends[n][i] for n in numbers])
        for ends, i in ((survey.lowest, 0), (survey.highest, -1))
    )
    power = np.frexp(np.maximum(high - center, center - low))[1]
    exponent = np.where(np.abs(power) > MOST_POWERS, power, 0).astype(np.intp)
    plan = Plan(
        survey.kinds,
        skipped,
        notes,
        tuple(numbers),
        levels,
        survey.weights_name,
        float(survey.weights[2]),
        kernels,
        tested,
        center,
        exponent,
        _patterns(survey.shared[np.ix_(places, places)], survey.counted, exact=exact),
        survey.rows if exact else None,
        {name: sample[name] for name in (OF_WEIGHTS, *numbers, *levels)},
        (),
        Polynomials.none(kernels.largest),
        Polynomials.none(OTHER_DEGREE),
    )
    if not numbers:
        return plan
    ends = [np.concatenate([survey.lowest[n], survey.highest[n]]) for n in numbers]
    size = max(map(len, ends))
    far = np.stack([np.pad(e, (0, size - len(e)), constant_values=np.nan) for e in ends], axis=1)
    extra = plan.scaled(far).astype(np.float64) if survey.counted > rows else None
    w = sample[OF_WEIGHTS]
    scaled = plan.scaled(x).astype(np.float64)
    values = on_sample(scaled, w, extra, survey.counted, degree=kernels.largest, noise=SAMPLE_NOISE)
    if not tested:
        return dataclasses.replace(plan, values=values)
    maps = tuple(RankMap.of(sample[n], low[i], high[i]) for i, n in enumerate(numbers))
    rank = np.stack([to(sample[n]) for to, n in zip(maps, numbers, strict=True)], axis=1)
    degree = plan.layout(ranked=True).degree
    of_ranks = on_sample(rank, w, None, survey.counted, degree=degree, noise=SAMPLE_NOISE)
    return dataclasses.replace(plan, maps=maps, values=values, ranks=of_ranks)


def _patterns(shared: Floats, rows: int, *, exact: bool) -> Integers:
    """Return which pattern of missing values each column has, complete ones the first.

    Two columns are missing in the same rows if each is present wherever both are.  Of a sample no
    one knows that of the other rows: every column has a pattern of its own.
    """
    count = len(shared)
    if not exact or not count:
        return np.arange(count)
    own = np.diagonal(shared)
    alike = (shared == own[:, None]) & (shared == own[None, :])
    first = np.argmax(alike, axis=1)
    order = sorted(set(first.tolist()), key=lambda column: (own[column] < rows, column))
    place = {column: i for i, column in enumerate(order)}
    return np.array([place[column] for column in first.tolist()], np.intp)


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
