"""Which rows of a table a scan takes: all that fit in memory, else a uniform sample of them.

A file, a query, batches, and the partitions of a cluster are read once; the sample is by the
positions of rows (`hgr_jax.tables.samples`), so that it is the same wherever the rows are.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hgr_jax._arrays import Integers, is_array
from hgr_jax._checks import check_indexes, rows_at
from hgr_jax._progress import progress_bar
from hgr_jax.scanning.request import Request
from hgr_jax.tables.arrays import as_frame, count_missing_values, from_frame
from hgr_jax.tables.arrow_columns import kinds_of
from hgr_jax.tables.clusters import DaskTable, SparkTable, as_cluster
from hgr_jax.tables.columns import Drawn, Frame
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.samples import BATCH_ROWS, RowSample, drawn_positions, missing_of_all
from hgr_jax.tables.sources import Part, Source, as_source

VALUE_OF_SAMPLE = 107
"""Bytes that a value of a sample may take in memory, over all of its copies while it is scanned."""

BARE_VALUE = 8
"""Bytes of a value that is only held."""

SMALL_SAMPLE, FEWEST_ROWS = 2**16, 1000
"""Numbers of rows that are taken where their values fit bare, and in any case."""


@dataclasses.dataclass(frozen=True)
class TakenRows:
    """The rows of a table that a scan takes.

    Attributes:
      table: a table in memory.
      order: names of all columns, also of those that are not read; None if ``table`` has all.
      notes: notes on how columns and files were read, by name.
      drawn: which rows were drawn, None for all.
    """

    table: Any
    order: Sequence[str] | None = None
    notes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    drawn: Drawn | None = None


def rows_that_fit(memory: int, columns: int) -> int:
    """Return how many rows of so many columns are scanned in so many bytes."""
    columns = max(columns, 1)
    few = min(SMALL_SAMPLE, memory // (BARE_VALUE * columns))
    return max(FEWEST_ROWS, few, memory // (VALUE_OF_SAMPLE * columns))


def take_rows(
    table: Any, request: Request, reading: Reading | None = None
) -> tuple[TakenRows, Request]:
    """Take the rows of a table for a scan; return the request of these rows, too.

    Args:
      table: a table as of `hgr_jax.scan`, but not a path.
      request: options; arrays among them hold a value for each row of the table.
      reading: how a file is read.

    Raises:
      TypeError, ValueError: for a table that cannot be read.
    """
    cluster = as_cluster(table)
    source = table if isinstance(table, Source) else as_source(table)
    if cluster is not None:
        taken = _of_cluster(cluster, request)
    elif source is not None:
        if reading is not None and source.parse is None:
            source = source.select(reading.chosen(source.name, source.order))
        taken = _of_source(source, request)
    else:
        taken = _in_memory(table, request)
    if taken.drawn is None:
        return taken, request
    check_indexes(table=table, **request.row_values)
    return taken, request.at_rows(taken.drawn)


def _of_source(source: Source, request: Request) -> TakenRows:
    """Read the rows of a file or a query."""
    columns, execution = _usable_columns(source), request.execution
    sample = RowSample(rows_that_fit(execution.memory, len(columns)), source.rows)
    at_once = min(BATCH_ROWS, sample.most)
    with progress_bar(execution.progress, source.rows, "row") as advance:
        for batch in source.batches(columns, at_once):
            sample.add(batch, sample.rows)
            advance(batch.num_rows)
    return _taken(source, sample)


def _of_cluster(cluster: DaskTable | SparkTable, request: Request) -> TakenRows:
    """Read the rows of a partitioned table where they are: count these, then draw a sample."""
    parts = cluster.each(_count_rows)
    counts = [rows for rows, _ in parts]
    filled = [
        Part(f"part {place} of {cluster.name}", kinds, rows, lambda *_: iter(()))
        for place, (rows, kinds) in enumerate(parts)
        if rows
    ]
    if not filled:
        raise TableError(f"{cluster.name} has no rows")
    source = Source.of(cluster.name, filled)
    columns, rows = _usable_columns(source), sum(counts)
    sample = RowSample(rows_that_fit(request.execution.memory, len(columns)), rows)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]]).tolist()
    draw = functools.partial(
        _sample_of_part, sizes=(sample.most, rows), first=first, columns=columns
    )
    for part in cluster.each(draw):
        sample.join(part)
    if sample.rows != rows:
        raise TableError(
            f"{cluster.name} had {rows:,} rows at first, and {sample.rows:,} when it was read"
            " again: it has changed, or is computed anew each time; write it to files"
        )
    return _taken(source, sample)


def _usable_columns(source: Source) -> list[str]:
    if not source.kinds:
        raise TableError(f"{source.name} has no column of numbers or text")
    return list(source.kinds)


def _taken(source: Source, sample: RowSample) -> TakenRows:
    table, positions = sample.result(source.kinds)
    if table is None:
        raise TableError(f"{source.name} has no rows")
    frame = None if source.parse is None else source.parse(table, positions)
    drawn, missing = None, sample.missing
    if len(positions) < sample.rows:
        if frame is not None:
            missing = missing_of_all(source.batches, table, frame, missing)
        drawn = Drawn(positions, sample.rows, missing)
    if frame is not None:
        return TakenRows(frame, drawn=drawn)
    return TakenRows(table, source.order, source.notes, drawn)


def _count_rows(tables: Iterable[Any], part: int) -> tuple[int, dict[str, str | None]]:
    """Count the rows of a part of a cluster; return the kinds of its columns too."""
    rows, kinds = 0, dict[str, str | None]()
    for table in tables:
        rows += table.num_rows
        kinds = kinds or kinds_of(table.schema)
    return rows, kinds


def _sample_of_part(
    tables: Iterable[Any],
    part: int,
    *,
    sizes: tuple[int, int],
    first: Sequence[int],
    columns: list[str],
) -> RowSample:
    """Draw a sample of a part of a cluster, whose rows begin at the position ``first[part]``."""
    sample = RowSample(*sizes)
    for table in tables:
        for start in range(0, table.num_rows, BATCH_ROWS):
            batch = table.select(columns).slice(start, BATCH_ROWS)
            sample.add(batch, first[part] + sample.rows)
    return sample


def _in_memory(table: Any, request: Request) -> TakenRows:
    """Take the rows of a table in memory."""
    rows, columns = _size_of(table)
    most = rows_that_fit(request.execution.memory, columns)
    if rows <= most:
        return TakenRows(table)
    positions = drawn_positions(rows, most)
    drawn = Drawn(positions, rows, _missing_values(table))
    return TakenRows(_native_rows(table, positions), drawn=drawn)


def _size_of(table: Any) -> tuple[int, int]:
    """Return the numbers of rows and of columns, 0 of what is no table."""
    if isinstance(table, Frame):
        return table.rows, len(table.columns)
    if isinstance(table, Mapping):
        lengths = [len(column) for column in table.values() if np.ndim(column) == 1]
        return max(lengths, default=0), len(table)
    shape: tuple[int, ...] = getattr(table, "shape", ())
    return (shape[0], shape[1]) if len(shape) == 2 else (0, 0)


def _native_rows(table: Any, positions: Integers) -> Any:
    if isinstance(table, Frame):
        return table.take(positions)
    if isinstance(table, Mapping) or is_array(table) or hasattr(table, "iloc"):
        return rows_at(table, positions)
    return as_frame(table)[0][positions.tolist()].to_native()


def _missing_values(table: Any) -> dict[str, int]:
    """Count the missing values of a table in memory, by column."""
    if isinstance(table, Frame):
        return {name: int(table.missing(name).sum()) for name in table.columns}
    if isinstance(table, Mapping):
        return {str(name): count_missing_values(column) for name, column in table.items()}
    if is_array(table):
        return {f"x{i}": count_missing_values(x) for i, x in enumerate(np.asarray(table).T)}
    frame, labels = as_frame(table)
    columns = (from_frame(frame, place) for place in range(len(labels)))
    return dict(zip(map(str, labels), map(count_missing_values, columns), strict=True))
