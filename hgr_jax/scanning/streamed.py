"""[streamed] The scan of a table that is read batch by batch: its passes, and where an earlier run got to.

[reread] Pairs of which a stream's sums say too little: their columns read again, fitted as in memory.

Rows that two columns share may be another kind of rows than those of each, and values may reach so
far out that no polynomials that a sample leads to are well conditioned.  Such pairs are few, and
of most tables there are none.


[streamed_result] From the sums of a stream to a `Scan`.

[streamed_tests] P-values of a table that was read batch by batch.

By ranks among each column's own rows, as those of a table in memory whose columns are missing in
many different rows (`rank_tests.among_own`); with a category by Roy's law, where it holds; and of
the other pairs by permutations of a sample of the rows.

"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._checks import as_key, check_count
from hgr_jax._progress import Advance, progress_bar
from hgr_jax.core.host.ranks import RankedColumn, codes_of, ranks
from hgr_jax.inference import roys_root
from hgr_jax.inference.multiplicity import adjust
from hgr_jax.inference.roys_root.asymptotics import (
    ColumnMoments,
    moments_of_levels,
    moments_of_ranks,
)
from hgr_jax.scanning.features import Estimates, Features, as_features
from hgr_jax.scanning.pairs import as_positions, pairs_of
from hgr_jax.scanning.plan import (
    CATEGORIES,
    Plan,
    StreamSums,
    blurred_numbers,
    estimated,
    of_fine,
    spans,
    unresolved,
)
from hgr_jax.scanning.rank_tests import MIN_PIVOT, among_own
from hgr_jax.scanning.request import StreamOptions, checkpoint_folder
from hgr_jax.scanning.result import Scan
from hgr_jax.scanning.run import as_scan, note_constants, with_ill_conditioned
from hgr_jax.scanning.significance import SAMPLED, SOURCES, Significance, law_is_valid, permuted
from hgr_jax.scanning.solve import Again, estimate_separately
from hgr_jax.scanning.state import ScanState, read_state, write_state
from hgr_jax.scanning.survey import OF_WEIGHTS, Survey, weights_of
from hgr_jax.tables.arrow_columns import DATES, NUMBER, Chunk, decoded
from hgr_jax.tables.columns import OTHER, Columns
from hgr_jax.tables.convert import add_note
from hgr_jax.tables.encoding import Category
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.sources import Source

BATCH_ROWS = 2**16
"""Rows that are decoded at a time, with fewer where memory is short."""

LEAST_ROWS_AT_ONCE = 2**10

BYTES_OF_A_VALUE = 64
"""Of a batch: as it is read, decoded, scaled, ranked and waiting."""

REPAIRS = 2
"""Further passes, at most, where the sample was too little to fit bases to."""

SAVED_EVERY = 20.0
"""Seconds between two checkpoints."""

CHECKPOINT = "state.npz"

Bar = Callable[[str], AbstractContextManager[Advance]]


def scan_source(
    source: Source,
    options: StreamOptions,
    *,
    progress: bool,
    checkpoint: str | Path | None = None,
    columns: Sequence[str] | None = None,
) -> Scan:
    """Scan a source in two passes, or up to two more where its values reach far beyond a sample.

    ``columns`` are those to read, with the weights; ``progress`` and ``checkpoint`` are as of
    `hgr_jax.scan`.
    """
    kinds = {n: kind for n, kind in source.kinds.items() if columns is None or n in columns}
    if not kinds:
        raise TableError(f"{source.name} has no column of numbers or text")
    order = [n for n in source.order if columns is None or n in columns]
    options.check(kinds, order)
    rows = rows_at_once(options.memory, len(kinds))

    def bar(label: str) -> AbstractContextManager[Advance]:
        return progress_bar(
            progress, source.rows, unit="row", extra="stream", label=label, leave=False
        )

    run = Run(source, kinds, rows, bar, checkpoint_folder(checkpoint), options)
    state = run.resumed()
    if state is None:
        survey = Survey(kinds, categories=options.categories, weights=options.weights)
        with bar("levels and a sample") as advance:
            for where, table in source.batches(list(kinds), rows):
                survey.update(decoded(table, kinds, where), where)
                advance(table.num_rows)
        if not survey.counted:
            raise TableError(f"{source.name} has no rows (of positive weight)")
        state = ScanState.of_survey(survey, options, exact=True).in_order(order)
        run.save(state)
    state = run.finished(state)
    while not state.well_conditioned and run.repairs < REPAIRS:
        run.repairs, run.tables = run.repairs + 1, 0
        state = run.finished(state.repaired())

    def again(plan: Plan, pairs: Integers) -> list[Floats]:
        kinds = kinds_of_pairs(plan, pairs)

        def chunks() -> Iterator[tuple[str, Chunk]]:
            for where, table in source.batches(list(kinds), rows):
                yield where, decoded(table, kinds, where)
                advance(table.num_rows)

        with bar("pairs by themselves") as advance:
            return rows_of_pairs(plan, pairs, chunks())

    return scan_of(*state.parts, **options.of_result, reread=Reread(again, options.memory))


def rows_at_once(memory: int, columns: int) -> int:
    """Return how many rows of so many columns are decoded at a time."""
    return max(LEAST_ROWS_AT_ONCE, min(BATCH_ROWS, memory // (BYTES_OF_A_VALUE * columns)))


class Run:
    """Passes over a source, with what is kept of them in a folder, if any.

    Attributes:
      repairs: passes that took other bases than those of the sample.
      tables: how many the present pass has taken.
    """

    def __init__(
        self,
        source: Source,
        kinds: dict[str, str],
        rows: int,
        bar: Bar,
        folder: Path | None,
        options: StreamOptions,
    ) -> None:
        self.source, self.kinds, self.rows, self.bar = source, kinds, rows, bar
        self.path = None if folder is None else folder / CHECKPOINT
        self.repairs = self.tables = 0
        dtype = str(jnp.result_type(float))
        told = json.dumps([source.name, source.stamp, kinds, rows, dtype, options.of_sums])
        self.stamp = hashlib.sha256(told.encode()).hexdigest()
        self.saved = time.monotonic()

    def resumed(self) -> ScanState | None:
        """Return the state that an earlier run has kept, or None.

        Raises:
          TableError: if that was of another table, or had other options.
        """
        if self.path is None or not self.path.exists():
            return None
        try:
            plan, sums, beside = read_state(self.path)
        except ValueError as error:
            raise TableError(f"{error}: remove it, and the scan begins anew") from error
        if beside.get("stamp") != self.stamp:
            raise TableError(
                f"{self.path.parent} holds the checkpoint of another scan (another table, one that"
                " has changed since, or other options): remove it, or name another folder"
            )
        self.repairs, self.tables = int(beside["repairs"]), int(beside["tables"])
        if self.source.stamp is None:
            # A query may give its rows in another order: which of them are summed, no one knows.
            self.tables, sums = 0, None
        return ScanState(plan, sums)

    def save(self, state: ScanState) -> None:
        """Keep a state, if there is a folder."""
        if self.path is not None:
            beside = {"stamp": self.stamp, "repairs": self.repairs, "tables": self.tables}
            write_state(self.path, *state.parts, beside)
            self.saved = time.monotonic()

    def finished(self, state: ScanState) -> ScanState:
        """Return the state with all rows that it does not have yet.

        Raises:
          TableError: if there are other rows than in the first pass.
        """
        label = f"sums, pass {1 + self.repairs}" if self.repairs else "sums"
        with self.bar(label) as advance:
            advance(state.rows)
            for where, table in self._left(state):
                state = state.update(table, name=where)
                self.tables += 1
                advance(table.num_rows)
                if time.monotonic() - self.saved > SAVED_EVERY:
                    self.save(state)
        expected = state.parts[0].expected
        if state.rows != expected:
            raise TableError(
                f"{self.source.name} had {expected:,} rows at first, and {state.rows:,} when it was"
                " read again: it has changed, or can be read once only"
            )
        self.save(state)
        return state

    def _left(self, state: ScanState) -> Iterator[tuple[str, Any]]:
        if state.rows == state.parts[0].expected:
            return iter(())
        return self.source.batches(list(state.columns), self.rows, skip=self.tables)


Gather = Callable[[Plan, Integers], list[Floats]]
"""Reads the columns of some pairs again, and returns of each what `rows_of_pairs` does."""

COPIES = 4
"""Of the functions of one side (of levels twice as many), while a pair is fitted."""

BESIDE = 12
"""Further numbers of a row of that pair."""


class Reread:
    """Estimates of pairs from their own rows, as many as fit in memory."""

    def __init__(self, gather: Gather, memory: int) -> None:
        """Take the bytes that the rows may have, with the functions of the pair that is fitted."""
        self.gather, self.memory = gather, memory

    def __call__(
        self, plan: Plan, pairs: Integers, rows: Integers
    ) -> tuple[NDArray[np.bool_], Again]:
        """Return which of ``pairs (N, 2)`` were read again, and their estimates.

        Those of fewest rows first, so that they are as many as can be.

        Args:
          plan: of the sums.
          pairs: positions of columns, numbers before categories.
          rows: how many each pair shares.
        """
        widest = max(map(len, plan.levels.values()), default=0)
        width = BESIDE + COPIES * max(plan.kernels.largest, 2 * widest)
        order = np.argsort(rows, kind="stable")
        held = 8 * (3 * np.cumsum(rows[order]) + width * rows[order])
        fits = np.zeros(len(pairs), bool)
        fits[order[held <= self.memory]] = True
        none = np.zeros(0)
        found: list[Again] = [(none, none, np.zeros((0, 2), np.intp), none)]
        if fits.any():
            kept = self.gather(plan, pairs[fits])
            found += [_estimated_alone(plan, *each) for each in zip(pairs[fits], kept, strict=True)]
        value, linear, directions, error = (np.concatenate(x) for x in zip(*found, strict=True))
        return fits, (value, linear, directions, error)


def kinds_of_pairs(plan: Plan, pairs: Integers) -> dict[str, str]:
    """Return the kinds of the columns that ``pairs (N, 2)`` are of, with that of the weights."""
    names = [*plan.numbers, *plan.levels]
    kinds = {names[column]: plan.read[names[column]] for column in np.unique(pairs).tolist()}
    return kinds if plan.weights is None else kinds | {plan.weights: NUMBER}


def rows_of_pairs(plan: Plan, pairs: Integers, chunks: Iterable[tuple[str, Chunk]]) -> list[Floats]:
    """Return both columns of each pair and the weights, ``(3, n)``, on the rows that it shares."""
    kept: list[list[Floats]] = [[np.zeros((3, 0))] for _ in pairs]
    for where, chunk in chunks:
        w = weights_of(chunk, plan.weights, where)
        weights = np.ones(chunk.rows) if w is None else w
        columns = {c: _read_column(plan, chunk, c) for c in np.unique(pairs).tolist()}
        for own, (first, second) in zip(kept, pairs.tolist(), strict=True):
            whole = np.stack([columns[first], columns[second], weights])
            own.append(whole[:, ~np.isnan(whole).any(axis=0) & (weights > 0)])
    whole_pairs = []
    while kept:  # so that the parts of one pair are held beside its whole, not those of all
        whole_pairs.append(np.concatenate(kept.pop(0), axis=1))
    return whole_pairs


def joined_rows(one: list[Floats], other: list[Floats]) -> list[Floats]:
    """Return the rows of both, those of ``other`` after those of ``one``."""
    return [np.concatenate(both, axis=1) for both in zip(one, other, strict=True)]


def _read_column(plan: Plan, chunk: Chunk, column: int) -> Floats:
    """Return a column ``(n,)``: numbers, or positions of levels; NaN where missing."""
    if column < len(plan.numbers):
        return chunk.numbers[plan.numbers[column]]
    codes, _ = plan.codes_of(chunk, list(plan.levels)[column - len(plan.numbers)])
    return np.where(codes < 0, np.nan, codes)


def _estimated_alone(plan: Plan, pair: Integers, rows: Floats) -> Again:
    """Estimate one pair of ``rows (3, n)``: both columns, and weights."""
    numbers = pair < len(plan.numbers)
    levels = list(plan.levels.values())
    categories = tuple(
        Category(rows[place].astype(np.int32), levels[pair[place] - len(plan.numbers)])
        for place in np.flatnonzero(~numbers)
    )
    features = as_features(
        Columns(
            names=("a", "b"),
            numbers=rows[:2][numbers].T,
            number_positions=np.flatnonzero(numbers),
            categories=categories,
            category_positions=np.flatnonzero(~numbers),
            skipped={},
            notes={},
        ),
        None if plan.weights is None else rows[2],
        ranked=False,
    )
    local = np.array([[0, 1]]) if numbers[0] or not numbers[1] else np.array([[1, 0]])
    return estimate_separately(features, plan.kernels, local)


SECONDS = 86_400.0

CURE = "pairs without a value take files and more memory (memory=), or a scan in memory"
"""Of columns that are ill conditioned on the sums."""


def scan_of(
    plan: Plan,
    sums: StreamSums | None,
    *,
    target: str | int | Sequence[str | int] | None,
    permutations: int,
    key: Array | None,
    memory: int,
    reread: Reread | None = None,
) -> Scan:
    """Return the scan of sums; see `ScanState.result`.

    With ``reread``, pairs of which they say too little are estimated from the rows themselves.
    """
    if sums is None:
        raise ValueError("this state has no rows yet: update it first.")
    targets = as_positions("target", target, plan.names)
    permutations = check_count("permutations", permutations)
    key = jax.random.key(0) if key is None else as_key(key)
    columns = sample_columns(plan)
    pairs, positions = pairs_of(columns, targets)
    found, lost = estimated(plan, sums, pairs)
    in_span, wrong = spans(plan, sums)
    wanting = unresolved(plan, in_span)
    blur = blurred_numbers(plan)
    fine = ~(wrong | wanting | blur)
    doubtful = lost | ~of_fine(~blur, pairs)
    if reread is not None and doubtful.any():
        by_sums = ~doubtful
        doubtful = _reread(reread, plan, found, pairs, doubtful)
        fine |= ~np.isin(np.arange(len(fine)), pairs[doubtful | by_sums])
        lost &= doubtful
    for values in (found.correlation, found.pearson, found.linear):
        values[doubtful] = np.nan
    notes = with_ill_conditioned(columns, fine, CURE)
    _note_lost(columns, positions[lost & of_fine(fine, pairs)], notes)
    for name, count in zip(plan.levels, sums.strange.tolist(), strict=True):
        if count and plan.expected is None:
            remark = f"{count:,} rows have texts that the sample does not have: {OTHER!r}"
            add_note(notes, name, remark)
    note_constants(columns, positions[~lost], found.select(~lost), notes, given=False)
    rows = effective_rows_of(plan, sums, pairs)
    tests, of_ranks = Significance.none(len(pairs)), Estimates.none(len(pairs))
    if plan.tested:
        tests, of_ranks = tests_of_pairs(
            plan, sums, pairs, found, rows, permutations=permutations, key=key, memory=memory
        )
    settings = {
        "h": plan.kernels.h,
        "k": plan.kernels.k,
        "method": "sk" if plan.kernels.single else "kb",
        "transform": None,
        "pvalues": "auto" if plan.tested else None,
        "permutations": permutations,
        "weighted": plan.weights is not None,
        "given": [],
        "given_degree": 5,
        "rows": sums.seen,
        "sample_rows": columns.rows,
        "dtype": str(plan.dtype),
    }
    weights = None if plan.weights is None else plan.sample[OF_WEIGHTS]
    return as_scan(
        columns,
        positions,
        found,
        of_ranks,
        rows,
        tests,
        adjust(tests.pvalue),
        weights,
        plan.skipped,
        notes,
        settings,
        kernels=plan.kernels,
    )


def _reread(
    reread: Reread, plan: Plan, found: Estimates, pairs: Integers, lost: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Put new estimates of pairs that are lost, and return those that were not read again."""
    fits, (value, linear, degrees, _) = reread(plan, pairs[lost], found.rows[lost])
    places = np.flatnonzero(lost)[fits]
    value, linear = (np.where((degrees > 0).all(axis=1), x, np.nan) for x in (value, linear))
    numbers = (pairs[places] < len(plan.numbers)).all(axis=1)
    found.correlation[places], found.linear[places], found.degrees[places] = value, linear, degrees
    found.pearson[places] = np.where(numbers, linear, np.nan)
    left = lost.copy()
    left[places] = False
    return left


def sample_columns(plan: Plan) -> Columns:
    """Return the rows of the sample as the columns of a table."""
    sample = sample_features(plan)
    position = {name: place for place, name in enumerate(plan.names)}
    numbers, dates = sample.x, dict[str, float]()
    for place, name in enumerate(plan.numbers):
        if plan.kinds[name] in DATES and not np.isnan(numbers[:, place]).all():
            first = float(np.nanmin(numbers[:, place]))
            numbers[:, place] -= first
            dates[name] = first * SECONDS
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


def _note_lost(columns: Columns, pairs: Integers, notes: dict[str, str]) -> None:
    """Add a remark on columns with pairs whose rows leave their bases ill conditioned."""
    for first, second in pairs.tolist():
        if first in columns.category_positions:
            first, second = second, first
        remark = (
            f"beside {columns.names[second]} it has other values than elsewhere, on which its"
            " polynomials are ill conditioned: no value; scan these two in memory"
        )
        add_note(notes, columns.names[first], remark)


PERMUTED_ROWS = 2**14
"""Of the sample, for permutations."""


class Tested(NamedTuple):
    """Of N pairs: their tests, and the estimates of their ranks."""

    tests: Significance
    of_ranks: Estimates


def effective_rows_of(plan: Plan, sums: StreamSums, pairs: Integers) -> Floats:
    """Return how many rows of equal weight those of a pair are worth: ``(sum w)^2 / sum w^2``."""
    first, second = plan.patterns[pairs].T
    if plan.weights is None:
        return sums.rows[first, second]
    squares = sums.squares[first, second]
    return sums.weights[first, second] ** 2 / np.maximum(squares, 1e-300)


def tests_of_pairs(
    plan: Plan,
    sums: StreamSums,
    pairs: Integers,
    found: Estimates,
    rows: Floats,
    *,
    permutations: int,
    key: Array,
    memory: int,
) -> Tested:
    """Test ``pairs (N, 2)`` of estimates ``found`` and of so many effective rows.

    See `hgr_jax.scan` for ``permutations``, ``key`` and ``memory``.
    """
    tests = Significance.none(len(pairs))
    usable = found.varies
    if usable.any():
        tests.null_mean[usable] = roys_root.mean(rows[usable], *found.degrees[usable].T)
        tests.null_95[usable] = roys_root.quantile(0.95, rows[usable], *found.degrees[usable].T)
    of_ranks, _ = estimated(plan, sums, pairs, ranked=True)
    sample = sample_features(plan)
    # Sums of ranks may say too little of a pair whose values were fitted on its own rows.
    ranked = usable & of_ranks.varies
    numbers = ranked & (pairs < len(plan.numbers)).all(axis=1)
    if numbers.any():
        log_p, sure = _rank_pvalues(plan, sums, pairs[numbers], rows[numbers], sample)
        places = np.flatnonzero(numbers)[sure]
        tests.put_law(places, log_p[sure], SOURCES.index("rank"))
    mixed = ranked & ~numbers
    if mixed.any():
        mixed[mixed] = _law_holds(plan, sums, pairs[mixed], rows[mixed], sample)
        mixed &= of_ranks.pivot >= MIN_PIVOT
        tested = of_ranks.select(mixed)
        log_p = roys_root.log_survival(tested.correlation, rows[mixed], *tested.degrees.T)
        categories = (pairs[mixed] >= len(plan.numbers)).all(axis=1)
        source = np.where(categories, SOURCES.index("asymptotic"), SOURCES.index("rank"))
        tests.put_law(mixed, log_p, source)
    left = np.flatnonzero(usable & (tests.source == 0))
    if len(left):
        some = _some_rows(sample)
        permuted(
            tests,
            some,
            plan.kernels,
            None,
            pairs,
            left,
            permutations=permutations,
            key=key,
            memory=memory,
            of_ranks=True,
        )
        tests.source[left] = SOURCES.index(SAMPLED)
    return Tested(tests, of_ranks)


def sample_features(plan: Plan) -> Features:
    """Return the rows of the sample: the numbers, and the levels of the categories."""
    rows = len(plan.sample[OF_WEIGHTS])
    x = np.empty((rows, len(plan.numbers)), np.float64)
    for place, name in enumerate(plan.numbers):
        x[:, place] = plan.sample[name]
    codes = np.empty((rows, len(plan.levels)), np.intp)
    for place, name in enumerate(plan.levels):
        codes[:, place] = np.nan_to_num(plan.sample[name], nan=-1)
    weights = None if plan.weights is None else plan.sample[OF_WEIGHTS]
    return Features(x, codes, tuple(len(levels) for levels in plan.levels.values()), weights)


def _some_rows(sample: Features) -> Features:
    """Return ranks of some rows of the sample, by which those of all are permuted."""
    stride = max(1, sample.rows // PERMUTED_ROWS)
    weights = None if sample.weights is None else sample.weights[::stride].astype(np.float32)
    x = ranks(sample.x[::stride]).astype(np.float32)
    return Features(x, sample.codes[::stride].astype(np.int32), sample.levels, weights)


def _rank_pvalues(
    plan: Plan, sums: StreamSums, pairs: Integers, rows: Floats, sample: Features
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return logarithms of p-values ``(N,)`` of two numbers, and which can be trusted."""
    pairs = np.sort(pairs, axis=1)
    in_ranks = ranks(sample.x)
    columns = {}
    for c in np.unique(pairs).tolist():
        there = ~np.isnan(in_ranks[:, c])
        weights = None if sample.weights is None else sample.weights[there]
        if weights is not None and not np.ptp(weights):
            weights = None
        if there.sum() >= 2:
            columns[c] = RankedColumn.of_codes(codes_of(in_ranks[there, c]), weights)
    _, log_p, sure = among_own(
        columns,
        pairs,
        rows,
        lambda blocks: estimated(plan, sums, pairs, ranked=True, blocks=blocks)[0],
    )
    return log_p, sure


def _law_holds(
    plan: Plan, sums: StreamSums, pairs: Integers, rows: Floats, sample: Features
) -> NDArray[np.bool_]:
    """Return whether Roy's law holds for pairs with a category."""
    numbers = len(plan.numbers)
    starts = np.concatenate([[0], np.cumsum(sample.levels)])
    counts = np.diagonal(sums.values[CATEGORIES].cross)

    def shape_of(column: int) -> ColumnMoments:
        if column < numbers:
            values = sample.x[:, column]
            _, ties = np.unique(values[~np.isnan(values)], return_counts=True)
            return moments_of_ranks(ties, plan.kernels.largest)
        own = slice(*starts[column - numbers : column - numbers + 2])
        return moments_of_levels(counts[own])

    if plan.weights is not None:
        first, second = plan.patterns[pairs].T
        rows = sums.squares[first, second] / plan.heaviest**2
    return law_is_valid(shape_of, pairs, rows)
