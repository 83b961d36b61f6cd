"""The scan of a table that is read batch by batch: its passes, and its checkpoints.

A small table is scanned in memory, as a data frame is; so is one that fits if an option needs all
rows.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax._progress import Advance, progress_bar
from hgr_jax.scanning.batches import errors_of_chunk, kinds_of_pairs, rows_of_pairs
from hgr_jax.scanning.consumers import scan_arrow
from hgr_jax.scanning.plan import Plan
from hgr_jax.scanning.request import CHECKPOINT_SECONDS, Request, dtype_of_sums
from hgr_jax.scanning.result import Scan
from hgr_jax.scanning.solve import TilePairs
from hgr_jax.scanning.state import ScanState, check_batches, read_state, write_state
from hgr_jax.scanning.survey import Survey, is_small
from hgr_jax.tables.arrow_columns import TEXT, ZONED, Chunk, TextColumn, count_texts, decoded
from hgr_jax.tables.delimited import arrow
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.sources import Source

BATCH_ROWS = 2**16
"""Largest number of rows that are decoded at a time."""

MIN_BATCH_ROWS = 2**10

PEAK_BYTES_PER_VALUE = 64
"""Peak memory per value of a batch: as it is read, decoded, scaled, ranked and waiting."""

MAX_REPAIRS = 2
"""Largest number of further passes, where the sample was too little to fit bases to."""

STATE_CHECKPOINT = "state.npz"


def scan_source(source: Source, request: Request, *, columns: Sequence[str] | None = None) -> Scan:
    """Scan a source in two passes; up to two more where its values reach far beyond the sample.

    Args:
      source: the table.
      request: what is asked.
      columns: those to read, with the weights; None for all.
    """
    source = source.select(columns)
    if not source.kinds:
        raise TableError(f"{source.name} has no column of numbers or text")
    if source.rows is not None and request.weights is not None:
        source, request = _with_row_weights(source, source.rows, request)
    order = source.order
    if request.weights is None or isinstance(request.weights, str):
        check_batches(request, source.kinds, order)
    passes = _Passes(source, request)
    if request.needs_rows or is_small(source.rows):
        table = passes.gathered()
        if table is not None:
            return scan_arrow(table, order, request, source.notes)
        request.refuse_batches(source.name, "takes more than memory allows")
    passes.parse_texts()
    state = passes.resumed()
    if state is None:
        survey, table = passes.survey()
        if table is not None:
            return scan_arrow(table, order, request, passes.source.notes)
        state = ScanState.of_survey(survey, request, exact=True).in_order(order)
        passes.save(state)
    state = passes.summed(state)
    while not state.well_conditioned and passes.repairs < MAX_REPAIRS:
        passes.repairs, passes.tables = passes.repairs + 1, 0
        state = passes.summed(state.repaired())
    return state.scan_of(request, passes)


def _with_row_weights(source: Source, rows: int, request: Request) -> tuple[Source, Request]:
    """Return the source with weights that are an array as a column, and the request of its name."""
    if isinstance(request.weights, str):
        return source, request
    weights = np.asarray(request.with_row_weights(rows).row_weights, np.float64)
    # The name tells a checkpoint of other weights.
    name = f"\0weights {hashlib.sha256(weights.tobytes()).hexdigest()}"
    return source.with_weights(name, weights), dataclasses.replace(request, weights=name)


def rows_at_once(memory: int, columns: int) -> int:
    """Return the number of rows of so many columns that are decoded at a time."""
    return max(MIN_BATCH_ROWS, min(BATCH_ROWS, memory // (PEAK_BYTES_PER_VALUE * columns)))


def joined_tables(tables: Sequence[Any], kinds: Mapping[str, str]) -> Any:
    """Return the rows of tables of Arrow, whose columns are of these kinds; None of none."""
    utc, alike = arrow().timestamp("us", "UTC"), []
    for table in tables:
        for place, name in enumerate(table.column_names):
            if kinds[name] == ZONED:  # of whatever time zones
                table = table.set_column(place, name, table.column(place).cast(utc, safe=False))
        alike.append(table)
    return arrow().concat_tables(alike, promote_options="permissive") if alike else None


class _Passes:
    """Passes over a source, and what is kept of them in a file, if any.

    Attributes:
      repairs: number of passes that took other bases than those of the sample.
      tables: number of batches that the present pass has taken.
    """

    def __init__(self, source: Source, request: Request) -> None:
        self.source, self.request = source, request
        self.rows = rows_at_once(request.execution.memory, len(source.kinds))
        self.path = request.execution.checkpoint_file(STATE_CHECKPOINT)
        self.repairs = self.tables = 0
        self.saved = time.monotonic()

    @property
    def kinds(self) -> Mapping[str, str]:
        """The kinds of the columns."""
        return self.source.kinds

    @property
    def fingerprint(self) -> str:
        """What tells this scan from another."""
        source = self.source
        words = [source.name, source.stamp, source.kinds, self.rows, str(dtype_of_sums())]
        text = json.dumps([*words, self.request.of_sums], default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def _bar(self, label: str) -> AbstractContextManager[Advance]:
        shown, rows = self.request.execution.progress, self.source.rows
        return progress_bar(shown, rows, unit="row", extra="stream", label=label, leave=False)

    def _batches(self, kinds: Mapping[str, str], advance: Advance) -> Iterator[tuple[str, Any]]:
        for where, table in self.source.batches(list(kinds), self.rows):
            yield where, table
            advance(table.num_rows)

    def gathered(self) -> Any:
        """Return the whole table of Arrow, None if it takes more than memory allows."""
        kept, size = [], 0
        with self._bar("rows") as advance:
            for _, table in self._batches(self.kinds, advance):
                size += table.nbytes
                if size > self.request.execution.memory:
                    return None
                kept.append(table)
        return joined_tables(kept, self.kinds)

    def parse_texts(self) -> None:
        """Decide from all rows which columns of text hold numbers or dates, and parse them."""
        names = self.source.texts
        if names:
            texts, row = dict[str, TextColumn](), 0
            with self._bar("texts") as advance:
                for _, table in self._batches(dict.fromkeys(names, TEXT), advance):
                    texts = count_texts(table, names, row, texts)
                    row += table.num_rows
            self.source, _ = self.source.parsed(texts)

    def survey(self) -> tuple[Survey, Any]:
        """Return the survey of all rows, and the table of Arrow if it is no more than a sample."""
        weights = self.request.weights
        assert weights is None or isinstance(weights, str)
        survey = Survey(
            self.kinds,
            categories=self.request.categories.names,
            integers_up_to=self.request.categories.integers_up_to,
            weights=weights,
            notes=self.source.notes,
        )
        kept: list[Any] = []
        with self._bar("levels and a sample") as advance:
            for where, table in self._batches(self.kinds, advance):
                survey.update(decoded(table, self.kinds, where), where)
                kept = [*kept, table] if is_small(survey.rows) else []
        if not survey.counted:
            raise TableError(f"{self.source.name} has no rows (of positive weight)")
        return survey, joined_tables(kept, self.kinds)

    def rows_of_pairs(self, plan: Plan, pairs: Integers) -> list[Floats]:
        """Read the rows of some pairs again."""
        kinds = kinds_of_pairs(plan, pairs)
        with self._bar("pairs by themselves") as advance:

            def chunks() -> Iterator[tuple[str, Chunk]]:
                for where, table in self._batches(kinds, advance):
                    yield where, decoded(table, kinds, where)

            return rows_of_pairs(plan, pairs, chunks())

    def error_sums(self, plan: Plan, pairs: TilePairs) -> Floats:
        """Return what all rows add to the squared standard errors of pairs of two tiles."""
        sums = np.zeros(len(pairs.value))
        with self._bar("standard errors") as advance:
            for where, table in self._batches(plan.read, advance):
                sums += errors_of_chunk(plan, pairs, decoded(table, plan.read, where), where)
        return sums

    def resumed(self) -> ScanState | None:
        """Return the state that an earlier run has kept, or None.

        Raises:
          TableError: if that was of another table, or had other options.
        """
        if self.path is None or not self.path.exists():
            return None
        try:
            state, about = read_state(self.path)
        except ValueError as error:
            raise TableError(f"{error}: remove it, and the scan begins anew") from error
        if about.get("fingerprint") != self.fingerprint:
            raise TableError(
                f"{self.path.parent} holds the checkpoint of another scan (another table, one that"
                " has changed since, or other options): remove it, or name another folder"
            )
        self.repairs, self.tables = int(about["repairs"]), int(about["tables"])
        if self.source.stamp is None:
            # A query may give its rows in another order: which of them are summed is unknown.
            self.tables, state = 0, ScanState(state.parts[0])
        return state

    def save(self, state: ScanState) -> None:
        """Keep a state, if there is a file."""
        if self.path is not None:
            about = {"repairs": self.repairs, "tables": self.tables}
            write_state(self.path, state, {"fingerprint": self.fingerprint, **about})
            self.saved = time.monotonic()

    def summed(self, state: ScanState) -> ScanState:
        """Return the state with all rows that it does not have yet.

        Raises:
          TableError: if there are other rows than in the first pass.
        """
        label = f"sums, pass {1 + self.repairs}" if self.repairs else "sums"
        expected = state.parts[0].expected
        with self._bar(label) as advance:
            advance(state.rows)
            if state.rows != expected:
                for where, table in self.source.batches(
                    list(state.columns), self.rows, skip=self.tables
                ):
                    state = state.update(table, name=where)
                    self.tables += 1
                    advance(table.num_rows)
                    if time.monotonic() - self.saved > CHECKPOINT_SECONDS:
                        self.save(state)
        if state.rows != expected:
            raise TableError(
                f"{self.source.name} had {expected:,} rows at first, and {state.rows:,} when it was"
                " read again: it has changed, or can be read once only"
            )
        self.save(state)
        return state
