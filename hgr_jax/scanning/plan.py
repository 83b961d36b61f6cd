"""The plan of the sums over batches: columns, levels, bases and maps to ranks.

A plan is made from a first pass (`Survey`) or from a sample.  Sums with the same plan add up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._threads import in_threads
from hgr_jax.core.host.polynomials import Polynomials
from hgr_jax.core.host.ranks import effective_row_count, ranks
from hgr_jax.scanning.bases import BasisMaps, fit_on_sample, fit_rank_functions
from hgr_jax.scanning.features import ColumnPolynomials, Kernels, RankFunctions, RowFunctions
from hgr_jax.scanning.request import dtype_of_sums
from hgr_jax.scanning.residuals import ResidualFunctions
from hgr_jax.scanning.sums import Batch, Layout, own_moments
from hgr_jax.scanning.survey import WEIGHTS_KEY, Levels, Survey, texts_of, weights_of
from hgr_jax.tables.arrow_columns import NUMBER, TEXT, Chunk
from hgr_jax.tables.columns import add_note, note_infinite
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.levels import (
    OTHER,
    TOO_MANY_LEVELS,
    are_missing_a_level,
    constant_reason,
    differ_by_rounding,
    pooled_levels,
    rounding_reason,
)
from hgr_jax.tables.texts import MISSING_LEVEL, remark_on_lost_digits

SINGLE_TILE = 2**62
"""Bytes allowed for products, so that all numbers are one tile, and all categories another."""

SAMPLE_NOISE = 1e-11
"""Rounding tolerance of bases fitted to a sample: many rows leave more rounding than few."""

MAX_EXPONENT = 30
"""Largest power of 2 of a column's range that is not scaled to 1; see `as_features`."""

KNOTS = 2048
"""Number of knots of a map to ranks, beside the frequent values of a column."""


@dataclasses.dataclass(frozen=True)
class RankMap:
    """A map from the values of a column to ranks in [-1, 1], linear between knots of a sample.

    Equal values have one rank, so ties stay ties.  From a sample of m rows the share of the rows
    below a value has an error of some ``0.5 / sqrt(m)`` (0.2% for 2^16).  Tests stay valid: any map
    is a function of one column alone, and its polynomials are made orthonormal on all rows.

    Attributes:
      values: the knots, rising.
      ranks: the ranks at the knots.
    """

    values: NDArray[np.float64]
    ranks: NDArray[np.float64]

    @classmethod
    def of(cls, sample: NDArray[np.float64], low: float, high: float) -> RankMap:
        """Fit the map to a sample ``(m,)`` of a column, NaN where missing, and its extremes."""
        present = np.sort(sample[~np.isnan(sample)])
        values, places = np.unique(present, return_index=True)
        if not len(values):
            return cls(np.array([low, high]), np.array([-1.0, 1.0]))
        rank = ranks(present[:, None])[places, 0]
        share = np.diff(np.append(places, len(present))) / len(present)
        tied = np.flatnonzero(share > 1 / KNOTS)
        steps = np.concatenate([np.nextafter(values[tied], end) for end in (-np.inf, np.inf)])
        sides = np.concatenate([rank[tied] - share[tied], rank[tied] + share[tied]])
        if len(values) > 2 * KNOTS:
            even = np.searchsorted(rank, np.linspace(-1, 1, KNOTS)).clip(max=len(values) - 1)
            knots = np.union1d(tied, even)
            values, rank = values[knots], rank[knots]
        # A frequent value has a step on both of its sides.
        values, rank = np.concatenate([values, steps]), np.concatenate([rank, sides])
        beyond = [end for end in (low, high) if not values.min() <= end <= values.max()]
        rank = np.concatenate([rank, np.sign(np.array(beyond) - values[0])])
        values = np.concatenate([values, beyond])
        order = np.argsort(values)
        return cls(values[order], rank[order])

    def __call__(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the ranks of values, NaN of NaN."""
        return np.asarray(np.interp(x, self.values, self.ranks), np.float64)


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """The columns and functions whose products are summed.

    Attributes:
      kinds: kinds of all columns but the weights by name, in order.
      skipped, notes: as of `Scan`.
      numbers: names of the numeric columns.
      levels: levels of the categories, by name.
      with_missing: names of the categories of which missing values are a level.
      weights: name of the column of weights, or None.
      heaviest: the largest weight.
      kernels: kernels of the numbers.
      tested: whether pairs are tested, by ranks.
      center, exponent: ``(p,)``; numbers are scaled to ``(x - center) 2^-exponent``.
      patterns: ``(p + q,)``, the pattern of missing values of each column.
      expected: number of rows of the table; None if it was not counted.
      sample: columns of a sample by name, and their weights under `WEIGHTS_KEY`.
      maps: maps to ranks of the numbers.
      values: polynomials of the numbers.
      ranks: maps to orthonormal functions of the ranks of the numbers, and the rank itself last.
      repair: repair of ill-conditioned ``values``, or None.
    """

    kinds: Mapping[str, str]
    skipped: Mapping[str, str]
    notes: Mapping[str, str]
    numbers: tuple[str, ...]
    levels: Mapping[str, tuple[str, ...]]
    with_missing: tuple[str, ...]
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
    ranks: BasisMaps
    repair: BasisMaps | None = None

    @property
    def sums_ranks(self) -> bool:
        """Whether functions of ranks are summed too."""
        return self.tested or self.kernels.ranked

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns, in order."""
        return tuple(self.kinds)

    @property
    def read(self) -> dict[str, str]:
        """The kinds of the columns that are read."""
        used = {*self.numbers, *self.levels}
        kinds = {name: kind for name, kind in self.kinds.items() if name in used}
        return kinds if self.weights is None else kinds | {self.weights: NUMBER}

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the features."""
        return dtype_of_sums()

    def layout(self, *, ranked: bool = False) -> Layout:
        """Return the layout of the values, or of the functions of ranks and the rank itself."""
        kernels = self.kernels.of_rank_functions() if ranked else self.kernels.of_values()
        return Layout.of(
            len(self.numbers),
            tuple(len(levels) for levels in self.levels.values()),
            kernels,
            self.patterns,
            self.dtype,
            SINGLE_TILE,
            degree=kernels.largest + ranked,
        )

    def scaled(self, x: Floats) -> Floats:
        """Shift and scale numbers ``(n, p)``."""
        shifted = x - self.center
        # Exponents are 0 except for huge or tiny values, and ldexp is slow.
        scaled = np.ldexp(shifted, -self.exponent) if self.exponent.any() else shifted
        return scaled.astype(self.dtype)

    def functions(self, x: Floats, *, ranked: bool = False) -> RowFunctions:
        """Return the polynomials of scaled numbers ``(n, p)``, or of ranks."""
        basis = self.ranks if ranked else self.repair
        plain: RowFunctions = ColumnPolynomials(x, self.values)
        if ranked:
            plain = RankFunctions(x, self.layout(ranked=True).degree, linear=True)
        if basis is None:
            return plain
        one = np.ones((1, len(x)), self.dtype)
        maps, shares = (part.astype(self.dtype) for part in basis[:2])
        return ResidualFunctions(plain, one, maps, shares)

    def sampled_numbers(self) -> Floats:
        """Return the numbers of the sample ``(m, p)``."""
        rows = len(self.sample[WEIGHTS_KEY])
        columns = [self.sample[name] for name in self.numbers]
        return np.stack(columns, axis=1) if columns else np.zeros((rows, 0))

    def in_ranks(self, x: Floats) -> Floats:
        """Map numbers ``(n, p)`` to ranks."""
        ranked = np.empty(x.shape, self.dtype)

        def put(column: int) -> None:
            ranked[:, column] = self.maps[column](np.ascontiguousarray(x[:, column]))

        in_threads(put, range(x.shape[1]))
        return ranked

    def batches(self, chunk: Chunk, where: str) -> tuple[Batch, Batch | None, Integers]:
        """Return some rows for sums: values, ranks or None, and counts of unseen texts ``(q,)``.

        Raises:
          TableError: for weights below 0, and if a column has another pattern of missing values.
        """
        w = weights_of(chunk, self.weights, where)
        if w is not None:
            chunk, w = chunk.take(w > 0), w[w > 0].astype(self.dtype)
            if not chunk.rows:  # a row without any value has the sums of no row
                chunk, w = chunk.blank(), np.ones(1, self.dtype)
        columns = [chunk.numbers[name] for name in self.numbers]
        x = np.stack(columns, axis=1) if columns else np.zeros((chunk.rows, 0))
        codes: Integers = np.empty((chunk.rows, len(self.levels)), np.int32)
        unseen = np.zeros(len(self.levels), np.intp)
        for place, name in enumerate(self.levels):
            codes[:, place], unseen[place] = self.codes_of(chunk, name, where)
        present = self._present(x, codes, where)
        values = Batch(self.functions(self.scaled(x)), codes, w, present)
        if not self.sums_ranks:
            return values, None, unseen
        in_ranks = self.functions(self.in_ranks(x), ranked=True)
        return values, Batch(in_ranks, codes, w, present), unseen

    def codes_of(self, chunk: Chunk, name: str, where: str) -> tuple[Integers, int]:
        """Return positions ``(n,)`` of a category's levels, and the number of texts of no level."""
        chunk_codes, words = texts_of(chunk, name)
        levels = self.levels[name]
        pooled = levels[-1] == OTHER
        last = len(levels) - 1 if pooled else -1
        place = {level: i for i, level in enumerate(levels[:-1] if pooled else levels)}
        missing = place[MISSING_LEVEL] if name in self.with_missing else -1
        mapped = np.array([*(place.get(word, last) for word in words), missing], np.intp)
        unseen = np.array([*(word not in place for word in words), False])
        count = int(np.count_nonzero(unseen[chunk_codes])) if unseen.any() else 0
        if count and not pooled:
            word = words[int(chunk_codes[np.argmax(unseen[chunk_codes])])]
            raise TableError(
                f"{where}: column {printable(name)!r} holds {printable(word)!r}, which it did not"
                " when it was first read: the table has changed; start again"
            )
        return mapped[chunk_codes], count

    def _present(self, x: Floats, codes: Integers, where: str) -> NDArray[np.bool_]:
        """Return the mask ``(n, u)`` of the rows of each pattern, and check all of its columns."""
        present_in = np.concatenate([~np.isnan(x), codes >= 0], axis=1)
        _, first = np.unique(self.patterns, return_index=True)
        present = present_in[:, first]
        other = (present_in != present[:, self.patterns]).any(axis=0)
        if other.any():
            name = (*self.numbers, *self.levels)[int(np.argmax(other))]
            raise TableError(
                f"{where}: column {printable(name)!r} is missing in other rows than when it was"
                " first read: the table has changed; start again"
            )
        return present


@dataclasses.dataclass
class _PlannedColumns:
    """The columns that a plan uses or skips, and notes on them."""

    numbers: list[str] = dataclasses.field(default_factory=list)
    levels: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    with_missing: list[str] = dataclasses.field(default_factory=list)
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)
    notes: dict[str, str] = dataclasses.field(default_factory=dict)


def plan_of(
    survey: Survey, kernels: Kernels, *, tested: bool, exact: bool, missing_level: bool = False
) -> Plan:
    """Make a plan from a survey.

    Args:
      survey: survey of all rows or of a sample.
      kernels: kernels of the numbers.
      tested: whether ranks are summed too, for p-values.
      exact: whether the survey is of all rows.
      missing_level: whether the missing values of a category are a level.
    """
    categories = survey.categories()
    columns, sample = _PlannedColumns(notes=dict(survey.notes)), survey.sample()
    for name in survey.names:
        if name not in survey.kinds:
            columns.skipped[name] = columns.notes.pop(name, "neither numbers nor text")
            continue
        if name in categories:
            counted = categories[name]
            if missing_level and counted is not None:
                counted = _count_missing_level(survey, name, counted, columns, sample)
            _plan_category(survey, name, counted, columns, sample, exact=exact)
        else:
            ends = np.concatenate([survey.lowest[name], survey.highest[name]])
            if not len(ends):
                columns.skipped[name] = constant_reason(np.nan)
            elif differ_by_rounding(ends):
                columns.skipped[name] = rounding_reason(ends)
            else:
                columns.numbers.append(name)
        if name in columns.skipped:
            note = columns.notes.pop(name, "")
            columns.skipped[name] = "; ".join(filter(None, [columns.skipped[name], note]))
        else:
            if survey.infinite[name]:
                note_infinite(columns.notes, name, survey.infinite[name])
            if survey.rounded[name][0]:
                add_note(columns.notes, name, remark_on_lost_digits(*survey.rounded[name]))
    return _fitted(survey, kernels, columns, sample, tested=tested, exact=exact)


def _count_missing_level(
    survey: Survey,
    name: str,
    counted: Levels,
    columns: _PlannedColumns,
    sample: dict[str, NDArray[np.float64]],
) -> Levels:
    """Count the missing values of a category as a level, unless they are rare."""
    missing = survey.counted - int(counted.counts.sum())
    if not are_missing_a_level(missing, survey.counted):
        return counted
    columns.with_missing.append(name)
    joined = Levels(dict(counted.place), counted.counts)
    place = joined.join(Levels({MISSING_LEVEL: 0}, np.array([missing])))
    sample[name] = np.nan_to_num(sample[name], nan=float(place[0]))
    return joined


def _plan_category(
    survey: Survey,
    name: str,
    counted: Levels | None,
    columns: _PlannedColumns,
    sample: dict[str, NDArray[np.float64]],
    *,
    exact: bool,
) -> None:
    """Decide the levels of a category, and put their codes into the sample."""
    if counted is None:
        columns.skipped[name] = TOO_MANY_LEVELS
        return
    words = list(counted.place)
    pooled = pooled_levels(counted.counts, words)
    if isinstance(pooled.kept, str):
        columns.skipped[name] = pooled.kept
        return
    # Sorted as texts or numbers, like the levels of a table in memory.
    kept = {words[i] for i in pooled.kept}
    last = [MISSING_LEVEL] if name in columns.with_missing else []
    levels = sorted(kept.difference(last), key=None if survey.kinds[name] == TEXT else float)
    levels += last
    other = (OTHER,) if len(pooled.rare) or not exact else ()
    columns.levels[name] = (*levels, *other)
    position = {word: i for i, word in enumerate(levels)}
    place = np.array([*(position.get(word, len(levels)) for word in words), np.nan])
    sample[name] = place[np.nan_to_num(sample[name], nan=-1).astype(np.intp)]
    if pooled.remark:
        add_note(columns.notes, name, pooled.remark)


def _fitted(
    survey: Survey,
    kernels: Kernels,
    columns: _PlannedColumns,
    sample: dict[str, NDArray[np.float64]],
    *,
    tested: bool,
    exact: bool,
) -> Plan:
    """Fit the bases of a plan to the sample."""
    numbers, levels = columns.numbers, columns.levels
    low, high = (
        np.array([extremes[n][i] for n in numbers])
        for extremes, i in ((survey.lowest, 0), (survey.highest, -1))
    )
    order = list(survey.kinds)
    places = [order.index(name) for name in (*numbers, *levels)]
    shared = survey.shared[np.ix_(places, places)]
    # Where missing values are a level, every row is present.
    full = [
        place for place, name in enumerate(levels, len(numbers)) if name in columns.with_missing
    ]
    present_rows = shared.diagonal().copy()
    present_rows[full] = survey.counted
    shared[full], shared[:, full] = present_rows, present_rows[:, None]
    plan = Plan(
        {name: survey.kinds.get(name, TEXT) for name in survey.names},
        columns.skipped,
        columns.notes,
        tuple(numbers),
        levels,
        tuple(columns.with_missing),
        survey.weights_name,
        float(survey.weights[2]),
        kernels,
        tested,
        np.zeros(len(numbers)),
        np.zeros(len(numbers), np.intp),
        _patterns(shared, survey.counted, exact=exact),
        survey.rows if exact else None,
        {name: sample[name] for name in (WEIGHTS_KEY, *numbers, *levels)},
        (),
        Polynomials.none(kernels.of_values().largest),
        BasisMaps.none(len(numbers)),
    )
    if not numbers:
        return plan
    w = sample[WEIGHTS_KEY]
    x = np.asarray(plan.sampled_numbers(), np.float64)
    # Every column has a value, but perhaps none in the sample.
    present = ~np.isnan(x)
    sums, counts = np.where(present, x, 0).sum(axis=0), present.sum(axis=0)
    center = np.where(counts > 0, sums / np.maximum(counts, 1), (low + high) / 2)
    power = np.frexp(np.maximum(high - center, center - low))[1]
    exponent = np.where(np.abs(power) > MAX_EXPONENT, power, 0).astype(np.intp)
    plan = dataclasses.replace(plan, center=center, exponent=exponent)
    extremes = [np.concatenate([survey.lowest[n], survey.highest[n]]) for n in numbers]
    size = max(map(len, extremes))
    far = np.stack([np.pad(e, (0, size - len(e)), constant_values=np.nan) for e in extremes], 1)
    extra = plan.scaled(far).astype(np.float64) if survey.counted > len(w) else None
    scaled = plan.scaled(x).astype(np.float64)
    values = fit_on_sample(
        scaled, w, extra, survey.counted, degree=kernels.of_values().largest, noise=SAMPLE_NOISE
    )
    plan = dataclasses.replace(plan, values=values)
    if not plan.sums_ranks:
        return plan
    maps = tuple(RankMap.of(x[:, i], low[i], high[i]) for i in range(len(numbers)))
    rank = np.stack([to_rank(column) for to_rank, column in zip(maps, x.T, strict=True)], axis=1)
    functions = RankFunctions(rank, plan.layout(ranked=True).degree - 1)
    share = effective_row_count(len(w), w) / w.sum() * survey.counted / len(w)
    fitted = fit_rank_functions(own_moments(functions, w), share)
    # The rank itself is last, and stays as it is.
    each = np.pad(fitted.maps, ((0, 0), (0, 1), (0, 1)))
    each[:, -1, -1] = 1
    of_ranks = BasisMaps(each, np.pad(fitted.shares, ((0, 0), (0, 1), (0, 0))), fitted.in_span)
    return dataclasses.replace(plan, maps=maps, ranks=of_ranks)


def _patterns(shared: Floats, rows: int, *, exact: bool) -> Integers:
    """Return the pattern of missing values of each column; pattern 0 is complete if any is.

    Two columns have the same pattern if they share as many rows as each of them has.  With a sample
    (not ``exact``) each column has a pattern of its own: the other rows are unknown.
    """
    count = len(shared)
    if not exact or not count:
        return np.arange(count)
    present_rows = np.diagonal(shared)
    same = (shared == present_rows[:, None]) & (shared == present_rows[None, :])
    first = np.argmax(same, axis=1)
    order = sorted(set(first.tolist()), key=lambda column: (present_rows[column] < rows, column))
    place = {column: i for i, column in enumerate(order)}
    return np.array([place[column] for column in first.tolist()], np.intp)
