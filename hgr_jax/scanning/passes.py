"""The scan of a table that does not fit in memory: passes over its rows, wherever these are.

A pass applies a step to runs of rows, and joins the results: counts of kinds of texts, a survey,
sums, rows of single pairs, standard errors.  An `Executor` runs passes batch by batch in this
process (`streaming`) or on the partitions of the table (`cluster`).
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax.scanning.batches import errors_of_chunk, joined_rows, kinds_of_pairs, rows_of_pairs
from hgr_jax.scanning.consumers import scan_arrow
from hgr_jax.scanning.plan import Plan
from hgr_jax.scanning.request import Request
from hgr_jax.scanning.result import Scan
from hgr_jax.scanning.solve import TilePairs
from hgr_jax.scanning.state import ScanState, check_batches
from hgr_jax.scanning.survey import Survey, is_small
from hgr_jax.tables.arrow_columns import TEXT, ZONED, TextColumn, count_texts, decoded
from hgr_jax.tables.delimited import arrow
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.sources import Source
from hgr_jax.tables.texts import Meaning

BATCH_ROWS = 2**16
"""Largest number of rows that are decoded at a time."""

MIN_BATCH_ROWS = 2**10

PEAK_BYTES_PER_VALUE = 64
"""Peak memory per value of a batch, over all of its copies: read, decoded, scaled, ranked."""

MAX_REPAIRS = 2
"""Largest number of further passes that repair bases which the sample left ill conditioned."""

Tables = Iterable[tuple[str, Any]]
"""Arrow tables of few rows, in order, each with the name of its part for messages."""

Step = Callable[[Tables, int], Any]
"""Computes a result from tables, given the position of their first row; can be pickled."""

Join = Callable[[Any, Any], Any]
"""Joins the results of a step for two runs of rows, the earlier run first."""


def rows_at_once(memory: int, columns: int) -> int:
    """Return the number of rows to decode at a time, for a number of columns."""
    return max(MIN_BATCH_ROWS, min(BATCH_ROWS, memory // (PEAK_BYTES_PER_VALUE * columns)))


def joined_tables(tables: Sequence[Any], kinds: Mapping[str, str]) -> Any:
    """Concatenate Arrow tables with columns of these kinds; None for no table."""
    utc, in_utc = arrow().timestamp("us", "UTC"), []
    for table in tables:
        for place, name in enumerate(table.column_names):
            if kinds[name] == ZONED:  # tables may be in different time zones
                table = table.set_column(place, name, table.column(place).cast(utc, safe=False))
        in_utc.append(table)
    return arrow().concat_tables(in_utc, promote_options="permissive") if in_utc else None


class Executor(abc.ABC):
    """Runs passes over a table.

    Attributes:
      source: the table; on a cluster, its columns and the sizes of its parts only.
      request: the options of the scan.
      meanings: meanings of the columns of text that are parsed.
      repairs: number of passes with repaired bases.
    """

    source: Source
    request: Request
    meanings: Mapping[str, Meaning] = {}
    repairs = 0

    @classmethod
    @abc.abstractmethod
    def of(cls, table: Any, request: Request, reading: Reading | None) -> Executor | None:
        """Return an executor for a table, None if this class does not read such tables."""

    @abc.abstractmethod
    def total(self, step: Step, join: Join, kinds: Mapping[str, str], label: str) -> Any:
        """Run a pass: return the joined results of a step over all rows."""

    @abc.abstractmethod
    def gathered(self) -> Any:
        """Return the whole table as an Arrow table, None if it takes too much memory."""

    @abc.abstractmethod
    def resumed(self) -> ScanState | None:
        """Return the state that an earlier run saved, or None."""

    @abc.abstractmethod
    def keep(self, state: ScanState) -> None:
        """Save a state for a later run, if the request has a checkpoint."""

    def parse_texts(self) -> None:
        """Decide from all rows which columns of text hold numbers or dates, and parse them."""
        if names := self.source.texts:
            kinds = dict.fromkeys(names, TEXT)
            step = functools.partial(kinds_of_texts, names=names)
            self.source, self.meanings = self.source.parsed(
                self.total(step, joined_texts, kinds, "texts")
            )

    @abc.abstractmethod
    def surveyed(self, step: Step, kinds: Mapping[str, str], label: str) -> tuple[Survey, Any]:
        """Return the survey of all rows, and the Arrow table if it is small and in memory."""

    @abc.abstractmethod
    def summed(self, state: ScanState) -> ScanState:
        """Return the state with the sums of all rows, `checked` and saved."""

    def checked(self, state: ScanState) -> ScanState:
        """Return the state; a `TableError` if its number of rows differs from the survey's."""
        expected = state.parts[0].expected
        if state.rows != expected:
            raise TableError(
                f"{self.source.name} had {expected:,} rows at first, and {state.rows:,} when it was"
                " read again: it has changed, or is computed anew each time; write it to files"
            )
        return state

    def rows_of_pairs(self, plan: Plan, pairs: Integers) -> list[Floats]:
        """Read the rows of pairs that cannot be estimated from the sums."""
        kinds = kinds_of_pairs(plan, pairs)
        step = functools.partial(pair_rows_of, plan=plan, pairs=pairs, kinds=kinds)
        rows: list[Floats] = self.total(step, joined_rows, kinds, "pairs by themselves")
        return rows

    def error_sums(self, plan: Plan, pairs: TilePairs) -> Floats:
        """Sum the squared standard errors of pairs of two tiles over all rows."""
        step = functools.partial(errors_of, plan=plan, pairs=pairs)
        sums: Floats = self.total(step, np.add, plan.read, "standard errors")
        return sums


def scan_in_passes(executor: Executor) -> Scan:
    """Scan a table in two passes: a survey, then sums.

    If there are columns of text, a pass before these decides what they mean.  Further passes repair
    ill-conditioned bases, read single pairs, and sum standard errors.  A small table is scanned in
    memory instead; so is a table that fits in memory if an option needs all rows.
    """
    source, request = executor.source, executor.request
    if not source.kinds:
        raise TableError(f"{source.name} has no column of numbers or text")
    if request.weights is None or isinstance(request.weights, str):
        check_batches(request, source.kinds, source.order)
    if request.needs_rows or is_small(source.rows):
        table = executor.gathered()
        if table is not None:
            return scan_arrow(table, source.order, request, source.notes)
        request.refuse_batches(source.name, "takes more than memory allows")
    executor.parse_texts()
    prepared = executor.resumed()
    if prepared is None:
        survey, table = executor.surveyed(*_survey_step(executor), "levels and a sample")
        if table is not None:
            return scan_arrow(table, source.order, request, executor.source.notes)
        prepared = ScanState.of_survey(survey, request, exact=True)
        executor.keep(prepared)
    state = executor.summed(prepared)
    while not state.well_conditioned and executor.repairs < MAX_REPAIRS:
        executor.repairs += 1
        state = executor.summed(state.repaired())
    return state.scan_of(request, executor)


def _survey_step(executor: Executor) -> tuple[Step, Mapping[str, str]]:
    """Return the step that surveys rows, and the kinds of the columns that it reads."""
    request, kinds = executor.request, executor.source.kinds
    assert request.weights is None or isinstance(request.weights, str)
    empty = functools.partial(
        Survey,
        kinds,
        categories=request.categories.names,
        integers_up_to=request.categories.integers_up_to,
        weights=request.weights,
        notes=executor.source.notes,
        names=executor.source.order,
    )
    return functools.partial(survey_of, empty=empty, kinds=kinds), kinds


def kinds_of_texts(tables: Tables, first: int, *, names: Sequence[str]) -> dict[str, TextColumn]:
    """Count the kinds of the texts of some columns."""
    texts: dict[str, TextColumn] = {}
    for _, table in tables:
        texts = count_texts(table, names, first, texts)
        first += table.num_rows
    return texts


def joined_texts(one: dict[str, TextColumn], other: dict[str, TextColumn]) -> dict[str, TextColumn]:
    """Add up the counts of two runs of rows."""
    return {name: one[name] + other[name] if name in one else other[name] for name in other} or one


def survey_of(
    tables: Tables, first: int, *, empty: Callable[..., Survey], kinds: Mapping[str, str]
) -> Survey:
    """Survey rows; ``empty`` makes a survey without rows."""
    survey = empty(first=first)
    for where, table in tables:
        survey.update(decoded(table, kinds, where), where)
    return survey


def pair_rows_of(
    tables: Tables, first: int, *, plan: Plan, pairs: Integers, kinds: Mapping[str, str]
) -> list[Floats]:
    """Return the rows of pairs, whose columns have these ``kinds``."""
    chunks = ((where, decoded(table, kinds, where)) for where, table in tables)
    return rows_of_pairs(plan, pairs, chunks)


def errors_of(tables: Tables, first: int, *, plan: Plan, pairs: TilePairs) -> Floats:
    """Sum the squared standard errors of pairs of two tiles over rows."""
    sums = np.zeros(len(pairs.value))
    for where, table in tables:
        sums += errors_of_chunk(plan, pairs, decoded(table, plan.read, where), where)
    return sums
