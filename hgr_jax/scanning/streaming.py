"""Passes over files and queries in this process, batch by batch, with checkpoints."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from hgr_jax._progress import Advance, progress_bar
from hgr_jax.scanning.passes import Executor, Join, Step, joined_tables, rows_at_once
from hgr_jax.scanning.request import (
    CHECKPOINT_SECONDS,
    Request,
    damaged_checkpoint,
    dtype_of_sums,
)
from hgr_jax.scanning.state import ScanState, read_state, write_state
from hgr_jax.scanning.survey import Survey, is_small
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.sources import Source, as_source

STATE_CHECKPOINT = "state.npz"


class BatchExecutor(Executor):
    """Runs passes over a source, and saves their state if there is a checkpoint.

    Attributes:
      tables: number of batches that the current pass has summed.
    """

    @classmethod
    def of(cls, table: Any, request: Request, reading: Reading | None) -> BatchExecutor | None:
        """Return an executor for files or a query; an array of weights becomes a column."""
        source = table if isinstance(table, Source) else as_source(table)
        if source is None:
            return None
        if reading is not None:
            source = source.select(reading.chosen(source.name, source.order))
        # With new names, which a column of weights would not have, the table is gathered instead.
        has_array = not isinstance(request.weights, str | None) and request.names is None
        if has_array and source.rows is not None:
            weights = np.asarray(request.with_row_weights(source.rows).row_weights, np.float64)
            if (weights == 1).all():  # a gathered table would leave a constant column out
                return cls(source, dataclasses.replace(request, weights=None))
            # A digest in the name, so that a checkpoint with other weights is refused.
            name = f"\0weights {hashlib.sha256(weights.tobytes()).hexdigest()}"
            request = dataclasses.replace(request, weights=name)
            source = source.with_weights(name, weights)
        return cls(source, request)

    def __init__(self, source: Source, request: Request) -> None:
        """Prepare passes over a source."""
        self.source, self.request = source, request
        self.rows = rows_at_once(request.execution.memory, max(len(source.kinds), 1))
        self.path = request.execution.checkpoint_file(STATE_CHECKPOINT)
        self.tables, self.saved = 0, time.monotonic()

    @property
    def fingerprint(self) -> str:
        """A digest of the source and the options, by which a checkpoint is recognised."""
        source = self.source
        words = [source.name, source.stamp, source.kinds, self.rows, str(dtype_of_sums())]
        text = json.dumps([*words, self.request.of_sums], default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def _bar(self, label: str) -> AbstractContextManager[Advance]:
        shown, rows = self.request.execution.progress, self.source.rows
        return progress_bar(shown, rows, unit="row", label=label, leave=False)

    def _batches(self, kinds: Mapping[str, str], label: str) -> Iterator[tuple[str, Any]]:
        with self._bar(label) as advance:
            for where, table in self.source.batches(list(kinds), self.rows):
                yield where, table
                advance(table.num_rows)

    def total(self, step: Step, join: Join, kinds: Mapping[str, str], label: str) -> Any:
        """Run a step over all batches at once."""
        return step(self._batches(kinds, label), 0)

    def gathered(self) -> Any:
        """Return the whole table as an Arrow table, None if it takes too much memory."""
        tables, size = [], 0
        for _, table in self._batches(self.source.kinds, "rows"):
            size += table.nbytes
            if size > self.request.execution.memory:
                return None
            tables.append(table)
        return joined_tables(tables, self.source.kinds)

    def surveyed(self, step: Step, kinds: Mapping[str, str], label: str) -> tuple[Survey, Any]:
        """Return the survey of all rows, and the Arrow table if it is small."""
        tables: list[Any] = []

        def batches() -> Iterator[tuple[str, Any]]:
            rows = 0
            for where, table in self._batches(kinds, label):
                rows += table.num_rows
                tables.append(table)
                if not is_small(rows):
                    tables.clear()
                yield where, table

        return step(batches(), 0), joined_tables(tables, kinds)

    def resumed(self) -> ScanState | None:
        """Return the state that an earlier run saved, or None.

        Raises:
          TableError: if the checkpoint is of another table or of other options.
        """
        if self.path is None or not self.path.exists():
            return None
        try:
            state, about = read_state(self.path)
            self.repairs, self.tables = int(about["repairs"]), int(about["tables"])
        except (ValueError, TypeError, LookupError) as error:
            raise damaged_checkpoint(self.path, error) from error
        if about.get("fingerprint") != self.fingerprint:
            raise TableError(
                f"{self.path.parent} holds the checkpoint of another scan (another table, one that"
                " has changed since, or other options): remove it, or name another folder"
            )
        if self.source.stamp is None:
            # A query may yield its rows in another order, so its sums start anew.
            self.tables, state = 0, ScanState(state.parts[0])
        return state

    def keep(self, state: ScanState) -> None:
        """Save a state, if the request has a checkpoint."""
        if self.path is not None:
            about = {"repairs": self.repairs, "tables": self.tables}
            write_state(self.path, state, {"fingerprint": self.fingerprint, **about})
            self.saved = time.monotonic()

    def summed(self, state: ScanState) -> ScanState:
        """Add the batches that are not in the state yet; check and save it."""
        label = f"sums, pass {1 + self.repairs}" if self.repairs else "sums"
        with self._bar(label) as advance:
            advance(state.rows)
            if state.rows != state.parts[0].expected:
                self.tables = self.tables if state.rows else 0
                for where, table in self.source.batches(
                    list(state.columns), self.rows, skip=self.tables
                ):
                    state = state.update(table, name=where)
                    self.tables += 1
                    advance(table.num_rows)
                    if time.monotonic() - self.saved > CHECKPOINT_SECONDS:
                        self.keep(state)
        self.keep(self.checked(state))
        return state
