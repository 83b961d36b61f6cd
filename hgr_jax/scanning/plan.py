"""What a stream's sums are of: columns, levels, bases and ranks, fixed before the rows are read.

A plan is made of a first pass (`Survey`).  All sums with the same plan add up, whoever took them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._threads import in_threads
from hgr_jax.core.host.polynomials import Polynomials
from hgr_jax.scanning.bases import on_sample
from hgr_jax.scanning.features import Kernels
from hgr_jax.scanning.functions import ColumnPolynomials, RowFunctions
from hgr_jax.scanning.given import Rest
from hgr_jax.scanning.layout import Layout
from hgr_jax.scanning.rank_maps import RankMap
from hgr_jax.scanning.rank_tests import OTHER_DEGREE
from hgr_jax.scanning.sums import Batch
from hgr_jax.scanning.survey import OF_WEIGHTS, Survey, texts_of, weights_of
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
