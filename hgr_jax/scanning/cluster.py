"""Passes over the partitions of Dask and Spark tables.

Each part is computed on the machine that holds it, and the results are joined in the order of the
parts: they do not depend on how the engine schedules or repeats its work.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from hgr_jax._optional import require
from hgr_jax.scanning.batches import BatchSums
from hgr_jax.scanning.passes import Executor, Join, Step, Tables, joined_tables, rows_at_once
from hgr_jax.scanning.plan import Plan
from hgr_jax.scanning.request import Request, dtype_of_sums
from hgr_jax.scanning.state import ScanState
from hgr_jax.scanning.survey import Survey
from hgr_jax.tables.arrow_columns import as_arrow, decoded, kinds_of, parse_columns
from hgr_jax.tables.delimited import arrow
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.sources import Part, Source
from hgr_jax.tables.texts import Meaning

BYTES_PER_VALUE = 8
"""Bytes per value of a gathered table."""

SPARK_SCHEMA = "part int, result binary"


class PartFunction(Protocol):
    """A function of the rows of one part; pickled, and called on the machine that holds them."""

    def __call__(self, tables: Iterable[Any], part: int) -> Any:
        """Compute a result from Arrow tables of any size, given the position of their part."""


class Cluster(Protocol):
    """A partitioned table, and the engine that computes functions of its parts.

    Attributes:
      name: name of the table in messages.
    """

    name: str

    def each(self, function: PartFunction) -> list[Any]:
        """Return the result of each part, in order."""

    def total(self, function: PartFunction, join: Join) -> Any:
        """Return the results of all parts, joined in order."""


def count_rows(tables: Iterable[Any], part: int) -> tuple[int, dict[str, str | None]]:
    """Count the rows of a part; return the kinds of its columns too."""
    rows, kinds = 0, dict[str, str | None]()
    for table in tables:
        rows += table.num_rows
        kinds = kinds or kinds_of(table.schema)
    return rows, kinds


@dataclasses.dataclass(frozen=True)
class StepOfPart:
    """A step of a pass as a `PartFunction`.

    Attributes:
      step: the step.
      first: position in the table of the first row of each part.
      rows: number of rows that are decoded at a time.
      meanings: meanings of the columns of text that are parsed.
      x64: whether JAX's default dtype is double precision in the process of the user.
    """

    step: Step
    first: Sequence[int]
    rows: int
    meanings: Mapping[str, Meaning]
    x64: bool

    def __call__(self, tables: Iterable[Any], part: int) -> Any:
        """Run the step on the rows of a part."""
        with jax.enable_x64(self.x64):
            return self.step(self._cut(tables, f"part {part}"), self.first[part])

    def _cut(self, tables: Iterable[Any], where: str) -> Iterator[tuple[str, Any]]:
        for table in tables:
            for start in range(0, table.num_rows, self.rows):
                yield where, parse_columns(table.slice(start, self.rows), self.meanings)


def rows_of_part(tables: Tables, first: int, *, kinds: Mapping[str, str]) -> Any:
    """Return rows as one Arrow table, None for no row."""
    return joined_tables([table.select(list(kinds)) for _, table in tables], kinds)


def joined_gathered(one: Any, other: Any, *, kinds: Mapping[str, str]) -> Any:
    """Concatenate two Arrow tables, either of which may be None."""
    return joined_tables([table for table in (one, other) if table is not None], kinds)


def sums_of(tables: Tables, first: int, *, plan: Plan) -> BatchSums | None:
    """Sum over rows; None for no row."""
    sums: BatchSums | None = None
    for where, table in tables:
        sums = joined_sums(sums, BatchSums.of(plan, decoded(table, plan.read, where), where))
    return sums


def joined_sums(one: BatchSums | None, other: BatchSums | None) -> BatchSums | None:
    """Add up two sums; None is the sum over no rows."""
    if one is None or other is None:
        return one if other is None else other
    return one + other


class ClusterExecutor(Executor):
    """Runs passes on the parts of a table; ``memory`` is that of one machine for one part."""

    @classmethod
    def of(cls, table: Any, request: Request, reading: Reading | None) -> ClusterExecutor | None:
        """Return an executor for a Dask or Spark table."""
        cluster = as_cluster(table)
        return None if cluster is None else cls(cluster, request)

    def __init__(self, cluster: Cluster, request: Request) -> None:
        """Count the rows of each part."""
        if request.execution.checkpoint is not None:
            raise ValueError(
                "checkpoint: a cluster's engine says which parts it computes again and where: leave"
                " it out, or write the table to Parquet files and scan these."
            )
        self.cluster, self.request = cluster, request
        parts = cluster.each(count_rows)
        counts = [rows for rows, _ in parts]
        filled = [
            Part(f"part {place} of {cluster.name}", kinds, rows, lambda *_: iter(()))
            for place, (rows, kinds) in enumerate(parts)
            if rows
        ]
        if not filled:
            raise TableError(f"{cluster.name} has no rows")
        self.source = Source.of(cluster.name, filled)
        self.first = np.concatenate([[0], np.cumsum(counts)[:-1]]).tolist()
        self.rows = rows_at_once(request.execution.memory, max(len(self.source.kinds), 1))

    def resumed(self) -> ScanState | None:
        """Return None: no state is saved."""
        return None

    def keep(self, state: ScanState) -> None:
        """Save nothing: a cluster has no checkpoints."""

    def total(self, step: Step, join: Join, kinds: Mapping[str, str], label: str) -> Any:
        """Run a step on each part, and join the results."""
        x64 = dtype_of_sums() == np.float64
        meanings = {name: meaning for name, meaning in self.meanings.items() if name in kinds}
        of_part = StepOfPart(step, self.first, self.rows, meanings, x64)
        return self.cluster.total(of_part, join)

    def surveyed(self, step: Step, kinds: Mapping[str, str], label: str) -> tuple[Survey, Any]:
        """Return the survey of all rows; the table stays on the cluster."""
        return self.total(step, Survey.joined, kinds, label), None

    def summed(self, state: ScanState) -> ScanState:
        """Return the state with the sums of all rows, checked."""
        plan, _ = state.parts
        step = functools.partial(sums_of, plan=plan)
        return self.checked(ScanState(plan, self.total(step, joined_sums, plan.read, "sums")))

    def gathered(self) -> Any:
        """Return the whole table as an Arrow table, None if it takes too much memory."""
        kinds, rows = dict(self.source.kinds), self.source.rows or 0
        if rows * len(kinds) * BYTES_PER_VALUE > self.request.execution.memory:
            return None
        step = functools.partial(rows_of_part, kinds=kinds)
        return self.total(step, functools.partial(joined_gathered, kinds=kinds), kinds, "rows")


def as_cluster(table: Any) -> Cluster | None:
    """Wrap a Dask or Spark table; None for any other table."""
    module = type(table).__module__
    if module.startswith("dask."):
        return DaskTable(table)
    if module.startswith("pyspark.sql.") and hasattr(table, "mapInArrow"):
        return SparkTable(table)
    return None


class DaskTable:
    """The partitions of a Dask data frame or array, computed by Dask's current scheduler."""

    def __init__(self, table: Any) -> None:
        """Take a frame, or an array ``(n, p)``, whose blocks are rechunked to all columns."""
        self._dask = require("dask")
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

    def each(self, function: PartFunction) -> list[Any]:
        """Return the result of each part, in order."""
        return list(self._dask.compute(*self._delayed(function)))

    def total(self, function: PartFunction, join: Join) -> Any:
        """Return the results of all parts, joined in order, two neighbours at a time."""
        results, joined = self._delayed(function), self._dask.delayed(join, pure=False)
        while len(results) > 1:
            pairs = zip(results[::2], results[1::2], strict=False)
            results = [joined(*pair) for pair in pairs] + results[len(results) // 2 * 2 :]
        return self._dask.compute(results[0])[0]

    def _delayed(self, function: PartFunction) -> list[Any]:
        # The function holds the plan, which is sent once, not with every part.
        shared = self._dask.delayed(function, pure=False)
        of_partition = self._dask.delayed(_of_partition, pure=False)
        return [of_partition(shared, part, place) for place, part in enumerate(self._parts)]


def _of_partition(function: PartFunction, part: Any, place: int) -> Any:
    return function([as_arrow(part)], place)


class SparkTable:
    """The partitions of a Spark data frame, classic or Connect.

    Results come back pickled, in rows of a frame made by `mapInArrow`, as Connect has no RDD.  The
    package must be installed where the executors run.
    """

    name = "the Spark data frame"

    def __init__(self, frame: Any) -> None:
        """Take a frame."""
        require("pyspark")
        self._frame, self._count = frame, 1

    def each(self, function: PartFunction) -> list[Any]:
        """Return the result of each part, in order."""
        rows = self._frame.mapInArrow(functools.partial(_of_spark_part, function), SPARK_SCHEMA)
        collected = rows.collect()
        self._count = len(collected)
        return [pickle.loads(row.result) for row in sorted(collected, key=lambda row: row.part)]

    def total(self, function: PartFunction, join: Join) -> Any:
        """Return the results of all parts, joined in order: neighbours on the executors first."""
        functions = require("pyspark.sql.functions")
        results = self._frame.mapInArrow(functools.partial(_of_spark_part, function), SPARK_SCHEMA)
        size = max(1, math.isqrt(self._count))
        groups = results.groupBy(functions.floor(functions.col("part") / size).alias("group"))

        def joined(table: Any) -> Any:
            return _join_group(join, table)

        # By these Spark knows that the function takes a table, not an iterator of batches.
        joined.__annotations__ = {"table": arrow().Table, "return": arrow().Table}
        rows = groups.applyInArrow(joined, SPARK_SCHEMA).collect()
        return _join_results([row.asDict() for row in rows], join)


def _of_spark_part(function: PartFunction, batches: Iterator[Any]) -> Iterator[Any]:
    pa, context = arrow(), require("pyspark").TaskContext.get()
    part = 0 if context is None else context.partitionId()
    result = function((pa.Table.from_batches([batch]) for batch in batches), part)
    yield pa.RecordBatch.from_pylist([_spark_row(part, result)], schema=_spark_schema())


def _join_group(join: Join, table: Any) -> Any:
    rows = table.to_pylist()
    first = min(row["part"] for row in rows)
    joined = _spark_row(first, _join_results(rows, join))
    return arrow().Table.from_pylist([joined], schema=_spark_schema())


def _join_results(rows: list[dict[str, Any]], join: Join) -> Any:
    in_order = sorted(rows, key=lambda row: row["part"])
    return functools.reduce(join, (pickle.loads(row["result"]) for row in in_order))


def _spark_row(part: int, result: Any) -> dict[str, Any]:
    return {"part": part, "result": pickle.dumps(result)}


def _spark_schema() -> Any:
    pa = arrow()
    return pa.schema([("part", pa.int32()), ("result", pa.binary())])
