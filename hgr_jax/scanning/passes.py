"""The scan of a table that does not fit in memory: passes over its rows, wherever these are.

A pass is a step, which makes something of some rows, and a join, which adds up what two runs of
rows gave: kinds of texts, a survey, sums, rows of single pairs, standard errors.  An `Executor`
runs it batch by batch here (`streaming`) or where the parts of the table are (`cluster`).
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax.scanning.batches import (
    errors_of_chunk,
    joined_rows,
    kinds_of_pairs,
    rows_of_pairs,
)
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
from hgr_jax.tables.files import Reading
from hgr_jax.tables.sources import Source
from hgr_jax.tables.texts import Meaning

BATCH_ROWS = 2**16
"""Largest number of rows that are decoded at a time."""

MIN_BATCH_ROWS = 2**10

PEAK_BYTES_PER_VALUE = 64
"""Peak memory per value of a batch: as it is read, decoded, scaled, ranked and waiting."""

MAX_REPAIRS = 2
"""Largest number of further passes, where the sample was too little to fit bases to."""

Tables = Iterable[tuple[str, Any]]
"""Rows in their order, as Arrow tables of few rows, each with the name of its place."""

Step = Callable[[Tables, int], Any]
"""Makes something of rows, the first of which has this position in the table; can be pickled."""

Join = Callable[[Any, Any], Any]
"""Joins what a step made of some rows and of those after them."""


def rows_at_once(memory: int, columns: int) -> int:
    """Return the number of rows of so many columns that are decoded at a time."""
    return max(MIN_BATCH_ROWS, min(BATCH_ROWS, memory // (PEAK_BYTES_PER_VALUE * columns)))


def joined_tables(tables: Sequence[Any], kinds: Mapping[str, str]) -> Any:
    """Return the rows of Arrow tables whose columns are of these kinds; None for no table."""
    utc, alike = arrow().timestamp("us", "UTC"), []
    for table in tables:
        for place, name in enumerate(table.column_names):
            if kinds[name] == ZONED:  # of whatever time zones
                table = table.set_column(place, name, table.column(place).cast(utc, safe=False))
        alike.append(table)
    return arrow().concat_tables(alike, promote_options="permissive") if alike else None


class Executor(abc.ABC):
    """Runs passes over a table.

    Attributes:
      source: the table; on a cluster, what is known of it.
      request: what is asked.
      meanings: of the columns of text that are parsed.
      repairs: number of passes that took other bases than those of the sample.
    """

    source: Source
    request: Request
    meanings: Mapping[str, Meaning] = {}
    repairs = 0

    @classmethod
    @abc.abstractmethod
    def of(cls, table: Any, request: Request, reading: Reading | None) -> Executor | None:
        """Return the executor of a table, None for a table that is not of its kind."""

    @abc.abstractmethod
    def total(self, step: Step, join: Join, kinds: Mapping[str, str], label: str) -> Any:
        """Return what a step makes of the columns of these kinds, over all rows."""

    @abc.abstractmethod
    def gathered(self) -> Any:
        """Return the whole table of Arrow, None if it takes more than memory allows."""

    @abc.abstractmethod
    def resumed(self) -> ScanState | None:
        """Return the state that an earlier run has kept, or None."""

    @abc.abstractmethod
    def keep(self, state: ScanState) -> None:
        """Keep a state for a later run, if that is asked for."""

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
        """Return the survey of all rows, and the table of Arrow if it is small and at hand."""

    @abc.abstractmethod
    def summed(self, state: ScanState) -> ScanState:
        """Return the state with all rows, `checked` and kept."""

    def checked(self, state: ScanState) -> ScanState:
        """Return a state; a `TableError` if there are other rows than in the survey."""
        expected = state.parts[0].expected
        if state.rows != expected:
            raise TableError(
                f"{self.source.name} had {expected:,} rows at first, and {state.rows:,} when it was"
                " read again: it has changed, or is computed anew each time; write it to files"
            )
        return state

    def rows_of_pairs(self, plan: Plan, pairs: Integers) -> list[Floats]:
        """Return the rows of pairs that cannot be estimated from the sums."""
        kinds = kinds_of_pairs(plan, pairs)
        step = functools.partial(pair_rows_of, plan=plan, pairs=pairs, kinds=kinds)
        rows: list[Floats] = self.total(step, joined_rows, kinds, "pairs by themselves")
        return rows

    def error_sums(self, plan: Plan, pairs: TilePairs) -> Floats:
        """Return what all rows add to the squared standard errors of pairs of two tiles."""
        step = functools.partial(errors_of, plan=plan, pairs=pairs)
        sums: Floats = self.total(step, np.add, plan.read, "standard errors")
        return sums


def scan_in_passes(executor: Executor) -> Scan:
    """Scan a table in two passes: a survey, sums.

    Before them, one over columns of text, whose meaning it decides; after them up to two more that
    repair ill-conditioned bases, and those that read single pairs and standard errors.  A small
    table is scanned in memory, as a data frame is; so is one that fits if an option needs all rows.
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
    begun = executor.resumed()
    if begun is None:
        survey, table = executor.surveyed(*_survey_step(executor), "levels and a sample")
        if table is not None:
            return scan_arrow(table, source.order, request, executor.source.notes)
        begun = ScanState.of_survey(survey, request, exact=True)
        executor.keep(begun)
    state = executor.summed(begun)
    while not state.well_conditioned and executor.repairs < MAX_REPAIRS:
        executor.repairs += 1
        state = executor.summed(state.repaired())
    return state.scan_of(request, executor)


def _survey_step(executor: Executor) -> tuple[Step, Mapping[str, str]]:
    """Return what makes a survey of rows, and the kinds of the columns that it takes."""
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
    """Count of which kinds the texts of some columns are."""
    texts: dict[str, TextColumn] = {}
    for _, table in tables:
        texts = count_texts(table, names, first, texts)
        first += table.num_rows
    return texts


def joined_texts(one: dict[str, TextColumn], other: dict[str, TextColumn]) -> dict[str, TextColumn]:
    """Return the counts of the rows of both."""
    return {name: one[name] + other[name] if name in one else other[name] for name in other} or one


def survey_of(
    tables: Tables, first: int, *, empty: Callable[..., Survey], kinds: Mapping[str, str]
) -> Survey:
    """Return the survey of rows; ``empty`` makes one without rows."""
    survey = empty(first=first)
    for where, table in tables:
        survey.update(decoded(table, kinds, where), where)
    return survey


def pair_rows_of(
    tables: Tables, first: int, *, plan: Plan, pairs: Integers, kinds: Mapping[str, str]
) -> list[Floats]:
    """Return the rows of pairs; ``kinds`` are those of their columns."""
    chunks = ((where, decoded(table, kinds, where)) for where, table in tables)
    return rows_of_pairs(plan, pairs, chunks)


def errors_of(tables: Tables, first: int, *, plan: Plan, pairs: TilePairs) -> Floats:
    """Return what rows add to the squared standard errors of pairs of two tiles."""
    sums = np.zeros(len(pairs.value))
    for where, table in tables:
        sums += errors_of_chunk(plan, pairs, decoded(table, plan.read, where), where)
    return sums
