"""The scan of a table that is read batch by batch: its passes, and where an earlier run got to."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from hgr_jax._arrays import Floats, Integers
from hgr_jax._progress import Advance, progress_bar
from hgr_jax.scanning import state_archive
from hgr_jax.scanning.options import checkpoint_folder
from hgr_jax.scanning.plan import Plan
from hgr_jax.scanning.reread import Reread, kinds_of_pairs, rows_of_pairs
from hgr_jax.scanning.result import Scan
from hgr_jax.scanning.state import ScanState
from hgr_jax.scanning.stream_options import StreamOptions
from hgr_jax.scanning.streamed_result import scan_of
from hgr_jax.scanning.survey import Survey
from hgr_jax.tables.arrow_columns import Chunk, decoded
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
            plan, sums, beside = state_archive.read_state(self.path)
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
            state_archive.write_state(self.path, *state.parts, beside)
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
