"""Scans of tables that lie in parts on the machines of a cluster: Dask and Spark.

Each pass is made where the rows are; what the parts give is added up in their order, so that the
result is the same however they are shared out, and whichever of them is computed again.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax._optional import require
from hgr_jax.scanning.batches import (
    BatchSums,
    errors_of_chunk,
    joined_rows,
    kinds_of_pairs,
    rows_of_pairs,
)
from hgr_jax.scanning.consumers import scan_arrow
from hgr_jax.scanning.plan import Plan
from hgr_jax.scanning.request import Categories, Request, dtype_of_sums
from hgr_jax.scanning.result import Scan
from hgr_jax.scanning.solve import TilePairs
from hgr_jax.scanning.state import ScanState, check_batches
from hgr_jax.scanning.streaming import MAX_REPAIRS, joined_tables, rows_at_once
from hgr_jax.scanning.survey import Survey, is_small
from hgr_jax.tables.arrow_columns import (
    TextColumn,
    as_arrow,
    count_texts,
    decoded,
    kinds_of,
    parse_columns,
)
from hgr_jax.tables.delimited import arrow
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.sources import Part, Source
from hgr_jax.tables.texts import Meaning

BYTES_PER_VALUE = 8
"""Bytes per value of a gathered table."""

SPARK_SCHEMA = "part int, found binary"

Tables = Iterable[Any]
"""The rows of one part, as Arrow tables of any size."""


class Pass(Protocol):
    """What is computed of a part, by its position, on the machine that holds it; pickled there."""

    def __call__(self, tables: Tables, part: int) -> Any:
        """Return what the rows of a part give; None if nothing."""


class Cluster(Protocol):
    """A table in parts, of an engine that runs passes over them.

    Attributes:
      name: of the table, for messages.
    """

    name: str

    def each(self, one: Pass) -> list[Any]:
        """Return what every part gives, in their order."""

    def total(self, one: Pass, join: Callable[[Any, Any], Any]) -> Any:
        """Return what all parts give, joined in their order; None if none gives anything."""


def count_rows(tables: Tables, part: int) -> tuple[int, dict[str, str | None]]:
    """Return the number of rows of a part, and the kinds of its columns."""
    rows, kinds = 0, dict[str, str | None]()
    for table in tables:
        rows += table.num_rows
        kinds = kinds or kinds_of(table.schema)
    return rows, kinds


@dataclasses.dataclass(frozen=True)
class GatherPass:
    """The rows of some columns."""

    kinds: Mapping[str, str]

    def __call__(self, tables: Tables, part: int) -> Any:
        """Return the rows of a part as one table of Arrow, None if it has none."""
        kept = [table.select(list(self.kinds)) for table in tables if table.num_rows]
        return joined_tables(kept, self.kinds)

    def join(self, one: Any, other: Any) -> Any:
        """Return the rows of both."""
        return joined_tables([table for table in (one, other) if table is not None], self.kinds)


@dataclasses.dataclass(frozen=True)
class TextPass:
    """Which kinds the texts of some columns are of.

    Attributes:
      first: the position of the first row of each part.
      names: of the columns.
    """

    first: Sequence[int]
    names: Sequence[str]

    def __call__(self, tables: Tables, part: int) -> dict[str, TextColumn]:
        """Return the counts of a part."""
        texts, row = dict[str, TextColumn](), self.first[part]
        for table in tables:
            texts = count_texts(table, self.names, row, texts)
            row += table.num_rows
        return texts


def joined_texts(one: dict[str, TextColumn], other: dict[str, TextColumn]) -> dict[str, TextColumn]:
    """Return the counts of the rows of both."""
    return {name: one[name] + other[name] if name in one else other[name] for name in other} or one


@dataclasses.dataclass(frozen=True)
class ParsedPass:
    """Another pass, over tables whose columns of text are parsed."""

    one: Pass
    meanings: Mapping[str, Meaning]

    def __call__(self, tables: Tables, part: int) -> Any:
        """Return what the pass gives."""
        return self.one((parse_columns(table, self.meanings) for table in tables), part)


@dataclasses.dataclass(frozen=True)
class SurveyPass:
    """Counts, levels, extremes and a sample; see `Survey`.

    Attributes:
      first: the position of the first row of each part.
      kinds, categories, weights: as `Survey` takes them.
      rows: number of rows that are taken at a time.
      notes: on how columns were read.
    """

    first: Sequence[int]
    kinds: Mapping[str, str]
    categories: Categories
    weights: str | None
    rows: int
    notes: Mapping[str, str]

    def __call__(self, tables: Tables, part: int) -> Survey:
        """Return the survey of a part."""
        survey = Survey(
            self.kinds,
            categories=self.categories.names,
            integers_up_to=self.categories.integers_up_to,
            weights=self.weights,
            first=self.first[part],
            notes=self.notes,
        )
        for table in _cut(tables, self.rows):
            where = f"part {part}"
            survey.update(decoded(table, self.kinds, where), where)
        return survey


def joined_surveys(one: Survey, other: Survey) -> Survey:
    """Return what is known of the rows of both, those of ``other`` after those of ``one``."""
    return one.joined(other)


@dataclasses.dataclass(frozen=True)
class SumPass:
    """Sums over rows; see `BatchSums`.

    Attributes:
      plan: of the sums.
      x64: whether JAX's default dtype is double precision where the scan was asked for.
      rows: number of rows that are taken at a time.
    """

    plan: Plan
    x64: bool
    rows: int

    def __call__(self, tables: Tables, part: int) -> BatchSums | None:
        """Return the sums over the rows of a part, None if it has none."""
        sums: BatchSums | None = None
        with jax.enable_x64(self.x64):
            for table in _cut(tables, self.rows):
                where = f"part {part}"
                some = BatchSums.of(self.plan, decoded(table, self.plan.read, where), where)
                sums = some if sums is None else sums + some
        return sums


def joined_sums(one: BatchSums | None, other: BatchSums | None) -> BatchSums | None:
    """Return the sums over the rows of both, where None are those of no rows."""
    if one is None or other is None:
        return one if other is None else other
    return one + other


@dataclasses.dataclass(frozen=True)
class PairRowsPass:
    """The rows of pairs that cannot be estimated from the sums.

    Attributes:
      plan: of the sums.
      pairs: ``(N, 2)``, positions of columns.
      rows: number of rows that are taken at a time.
    """

    plan: Plan
    pairs: Integers
    rows: int

    def __call__(self, tables: Tables, part: int) -> list[Floats]:
        """Return the rows of the pairs in a part."""
        kinds, where = kinds_of_pairs(self.plan, self.pairs), f"part {part}"
        chunks = ((where, decoded(table, kinds, where)) for table in _cut(tables, self.rows))
        return rows_of_pairs(self.plan, self.pairs, chunks)


@dataclasses.dataclass(frozen=True)
class ErrorPass:
    """What rows add to the squared standard errors of pairs of two tiles.

    Attributes:
      plan: of the sums.
      pairs: with their functions.
      rows: number of rows that are taken at a time.
    """

    plan: Plan
    pairs: TilePairs
    rows: int

    def __call__(self, tables: Tables, part: int) -> Floats:
        """Return the sums over the rows of a part."""
        sums, where = np.zeros(len(self.pairs.value)), f"part {part}"
        for table in _cut(tables, self.rows):
            chunk = decoded(table, self.plan.read, where)
            sums += errors_of_chunk(self.plan, self.pairs, chunk, where)
        return sums


def _cut(tables: Tables, rows: int) -> Iterator[Any]:
    """Yield tables of at most so many rows, and of some."""
    for table in tables:
        for start in range(0, table.num_rows, rows):
            yield table.slice(start, rows)


def scan_cluster(cluster: Cluster, request: Request) -> Scan:
    """Scan a table on a cluster, in three passes: rows, a survey, sums.

    Up to two more passes repair ill-conditioned bases, and one reads the rows of pairs that cannot
    be estimated from the sums.  The memory of the request is that of one machine for one part.  A
    small table is gathered and scanned here, as is one that fits if an option needs all rows.
    """
    if request.execution.checkpoint is not None:
        raise ValueError(
            "checkpoint: a cluster's engine says which parts it computes again and where: leave it"
            " out, or write the table to Parquet files and scan these."
        )
    counts, source = _count_parts(cluster)
    kinds, memory = dict(source.kinds), request.execution.memory
    if not kinds:
        raise TableError(f"{cluster.name} has no column of numbers or text")
    array = request.weights is not None and not isinstance(request.weights, str)
    if not array:
        check_batches(request, kinds, source.order)
    fits = sum(counts) * len(kinds) * BYTES_PER_VALUE <= memory
    if request.needs_rows and not fits:
        request.refuse_batches(cluster.name, f"has {sum(counts):,} rows, more than memory allows")
    if request.needs_rows or is_small(sum(counts)):
        gather_rows = GatherPass(kinds)
        table = cluster.total(gather_rows, gather_rows.join)
        return scan_arrow(table, source.order, request, {})
    rows = rows_at_once(memory, len(kinds))
    first = np.concatenate([[0], np.cumsum(counts)[:-1]]).tolist()
    meanings: dict[str, Meaning] = {}
    if source.texts:
        texts = cluster.total(TextPass(first, source.texts), joined_texts)
        source, meanings = source.parsed(texts)

    def total(one: Pass, join: Callable[[Any, Any], Any]) -> Any:
        return cluster.total(ParsedPass(one, meanings) if meanings else one, join)

    weights = request.weights
    assert weights is None or isinstance(weights, str)
    survey_rows = SurveyPass(first, source.kinds, request.categories, weights, rows, source.notes)
    survey = total(survey_rows, joined_surveys)
    state = ScanState.of_survey(survey, request, exact=True).in_order(source.order)
    x64 = dtype_of_sums() == np.float64
    for repairs in range(1 + MAX_REPAIRS):
        plan = state.parts[0]
        sums = total(SumPass(plan, x64, rows), joined_sums)
        if sums is None or sums.seen != plan.expected:
            raise TableError(
                f"{cluster.name} had {plan.expected:,} rows at first, and"
                f" {0 if sums is None else sums.seen:,} when it was read again: it is computed anew"
                " each time and does not stay the same; persist it, or write it to files"
            )
        state = ScanState(plan, sums)
        if state.well_conditioned or repairs == MAX_REPAIRS:
            break
        state = state.repaired()

    return state.scan_of(request, _ClusterReader(total, rows))


@dataclasses.dataclass(frozen=True)
class _ClusterReader:
    """Reads the rows of a cluster's table again: runs further passes.

    Attributes:
      total: runs a pass.
      rows: number of rows that are taken at a time.
    """

    total: Callable[[Pass, Callable[[Any, Any], Any]], Any]
    rows: int

    def rows_of_pairs(self, plan: Plan, pairs: Integers) -> list[Floats]:
        """Return the rows of pairs that cannot be estimated from the sums."""
        pair_rows: list[Floats] = self.total(PairRowsPass(plan, pairs, self.rows), joined_rows)
        return pair_rows

    def error_sums(self, plan: Plan, pairs: TilePairs) -> Floats:
        """Return what all rows add to the squared standard errors of pairs of two tiles."""
        sums: Floats = self.total(ErrorPass(plan, pairs, self.rows), np.add)
        return sums


def _count_parts(cluster: Cluster) -> tuple[list[int], Source]:
    """Return the rows of each part, and the table as a source, whose rows cannot be read here."""
    parts = cluster.each(count_rows)
    filled = [
        Part(f"part {place} of {cluster.name}", kinds, rows, lambda *_: iter(()))
        for place, (rows, kinds) in enumerate(parts)
        if rows
    ]
    if not filled:
        raise TableError(f"{cluster.name} has no rows")
    return [rows for rows, _ in parts], Source.of(cluster.name, filled)


def as_cluster(table: Any) -> Cluster | None:
    """Return a table of Dask or Spark; None for any other."""
    module = type(table).__module__
    if module.startswith("dask."):
        return DaskTable(table)
    if module.startswith("pyspark.sql.") and hasattr(table, "mapInArrow"):
        return SparkTable(table)
    return None


class DaskTable:
    """The partitions of a Dask data frame, or the blocks of rows of a Dask array.

    Whatever scheduler Dask has computes them: threads, or the cluster of the present client.
    """

    def __init__(self, table: Any) -> None:
        """Take a frame, or an array ``(n, p)`` whose blocks of rows then have all columns."""
        self._dask = require("dask", "dask")
        if hasattr(table, "npartitions") and hasattr(table, "columns"):
            self.name = "the Dask data frame"
            self._parts = list(table.to_delayed())
        else:
            self.name = "the Dask array"
            if table.ndim != 2 or table.dtype.kind not in "fiub":
                raise TypeError(
                    "a Dask array must be a matrix (n, p) of numbers; got shape"
                    f" {tuple(table.shape)} and dtype {table.dtype}."
                )
            self._parts = list(table.rechunk({1: -1}).to_delayed().ravel())

    def each(self, one: Pass) -> list[Any]:
        """Return what every part gives, in their order."""
        return list(self._dask.compute(*self._delayed(one)))

    def total(self, one: Pass, join: Callable[[Any, Any], Any]) -> Any:
        """Return what all parts give, joined in their order, two neighbours at a time."""
        partial, joined = self._delayed(one), self._dask.delayed(join, pure=False)
        while len(partial) > 1:
            pairs = zip(partial[::2], partial[1::2], strict=False)
            partial = [joined(*pair) for pair in pairs] + partial[len(partial) // 2 * 2 :]
        return self._dask.compute(partial[0])[0]

    def _delayed(self, one: Pass) -> list[Any]:
        # The pass holds the plan: sent once, not with every part.
        shared = self._dask.delayed(one, pure=False)
        of_partition = self._dask.delayed(_of_partition, pure=False)
        return [of_partition(shared, part, place) for place, part in enumerate(self._parts)]


def _of_partition(one: Pass, part: Any, place: int) -> Any:
    return one([as_arrow(part)], place)


class SparkTable:
    """The partitions of a Spark data frame, classic or Connect.

    What they give comes back as bytes in rows of another frame, made by `mapInArrow`: no RDD.  The
    package must be installed where the executors run.
    """

    name = "the Spark data frame"

    def __init__(self, frame: Any) -> None:
        """Take a frame."""
        require("pyspark", "spark")
        self._frame, self._count = frame, 1

    def each(self, one: Pass) -> list[Any]:
        """Return what every part gives, in their order."""
        rows = self._frame.mapInArrow(functools.partial(_of_spark_part, one), SPARK_SCHEMA)
        collected = rows.collect()
        self._count = len(collected)
        return [pickle.loads(row.found) for row in sorted(collected, key=lambda row: row.part)]

    def total(self, one: Pass, join: Callable[[Any, Any], Any]) -> Any:
        """Return what all parts give, joined in their order: neighbours on the executors first."""
        functions = require("pyspark.sql.functions", "spark")
        partial = self._frame.mapInArrow(functools.partial(_of_spark_part, one), SPARK_SCHEMA)
        size = max(1, math.isqrt(self._count))
        groups = partial.groupBy(functions.floor(functions.col("part") / size).alias("group"))

        def joined(table: Any) -> Any:
            return _joined_rows(join, table)

        # Spark tells tables from iterators of batches by these.
        joined.__annotations__ = {"table": arrow().Table, "return": arrow().Table}
        rows = groups.applyInArrow(joined, SPARK_SCHEMA).collect()
        return _joined_parts([row.asDict() for row in rows], join)


def _of_spark_part(one: Pass, batches: Iterator[Any]) -> Iterator[Any]:
    pa, context = arrow(), require("pyspark", "spark").TaskContext.get()
    part = 0 if context is None else context.partitionId()
    result = one((pa.Table.from_batches([batch]) for batch in batches), part)
    yield pa.RecordBatch.from_pylist([_spark_row(part, result)], schema=_spark_schema())


def _joined_rows(join: Callable[[Any, Any], Any], table: Any) -> Any:
    rows = table.to_pylist()
    first = min(row["part"] for row in rows)
    joined = _spark_row(first, _joined_parts(rows, join))
    return arrow().Table.from_pylist([joined], schema=_spark_schema())


def _joined_parts(rows: list[dict[str, Any]], join: Callable[[Any, Any], Any]) -> Any:
    in_order = sorted(rows, key=lambda row: row["part"])
    return functools.reduce(join, (pickle.loads(row["found"]) for row in in_order))


def _spark_row(part: int, result: Any) -> dict[str, Any]:
    return {"part": part, "found": pickle.dumps(result)}


def _spark_schema() -> Any:
    pa = arrow()
    return pa.schema([("part", pa.int32()), ("found", pa.binary())])
