"""[passes] What is computed of the parts of a table, where they are; see `distributed`.

[on_dask] Tables of Dask: data frames, and matrices of numbers.

[on_spark] Data frames of Spark, classic or Connect.

[distributed] Scans of tables that lie in parts on the machines of a cluster, whatever its engine.

Each of the `passes` is made where the rows are; what the parts give is added up in their order, so
that the result is the same however they are shared out, and whichever of them is computed again.

"""

from __future__ import annotations

import dataclasses
import functools
import math
import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax._optional import require
from hgr_jax.scanning.plan import Plan, StreamSums
from hgr_jax.scanning.request import StreamOptions
from hgr_jax.scanning.result import Scan
from hgr_jax.scanning.state import ScanState
from hgr_jax.scanning.streamed import (
    REPAIRS,
    Reread,
    joined_rows,
    kinds_of_pairs,
    rows_at_once,
    rows_of_pairs,
    scan_of,
)
from hgr_jax.scanning.survey import Survey
from hgr_jax.tables.arrow_columns import as_arrow, decoded, kinds_of
from hgr_jax.tables.delimited import arrow
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.sources import Part, Source

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

    def each(self, made: Pass) -> list[Any]:
        """Return what every part gives, in their order."""

    def total(self, made: Pass, join: Callable[[Any, Any], Any]) -> Any:
        """Return what all parts give, joined in their order; None if none gives anything."""


def rows_and_kinds(tables: Tables, part: int) -> tuple[int, dict[str, str | None]]:
    """Return the number of rows of a part, and the kinds of its columns."""
    rows, kinds = 0, dict[str, str | None]()
    for table in tables:
        rows += table.num_rows
        kinds = kinds or kinds_of(table.schema)
    return rows, kinds


@dataclasses.dataclass(frozen=True)
class FirstPass:
    """Counts, levels, ends and a sample; see `Survey`.

    Attributes:
      first: the position of the first row of each part.
      kinds, categories, weights: as `Survey` takes them.
      rows: that are taken at a time.
    """

    first: Sequence[int]
    kinds: Mapping[str, str]
    categories: Collection[str]
    weights: str | None
    rows: int

    def __call__(self, tables: Tables, part: int) -> Survey:
        """Return the survey of a part."""
        found = Survey(
            self.kinds, categories=self.categories, weights=self.weights, first=self.first[part]
        )
        for table in _cut(tables, self.rows):
            where = f"part {part}"
            found.update(decoded(table, self.kinds, where), where)
        return found


@dataclasses.dataclass(frozen=True)
class SecondPass:
    """Sums over rows; see `StreamSums`.

    Attributes:
      plan: of the sums.
      x64: whether JAX's default dtype is double precision where the scan was asked for.
      rows: that are taken at a time.
    """

    plan: Plan
    x64: bool
    rows: int

    def __call__(self, tables: Tables, part: int) -> StreamSums | None:
        """Return the sums over the rows of a part, None if it has none."""
        found: StreamSums | None = None
        with jax.enable_x64(self.x64):
            for table in _cut(tables, self.rows):
                where = f"part {part}"
                some = StreamSums.of(self.plan, decoded(table, self.plan.read, where), where)
                found = some if found is None else found + some
        return found


@dataclasses.dataclass(frozen=True)
class LastPass:
    """The rows of pairs of which the sums say too little; see `Reread`.

    Attributes:
      plan: of the sums.
      pairs: ``(N, 2)``, positions of columns.
      rows: that are taken at a time.
    """

    plan: Plan
    pairs: Integers
    rows: int

    def __call__(self, tables: Tables, part: int) -> list[Floats]:
        """Return the rows of the pairs in a part."""
        kinds, where = kinds_of_pairs(self.plan, self.pairs), f"part {part}"
        chunks = ((where, decoded(table, kinds, where)) for table in _cut(tables, self.rows))
        return rows_of_pairs(self.plan, self.pairs, chunks)


def _cut(tables: Tables, rows: int) -> Iterator[Any]:
    """Yield tables of at most so many rows, and of some."""
    for table in tables:
        for start in range(0, table.num_rows, rows):
            yield table.slice(start, rows)


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

    def each(self, made: Pass) -> list[Any]:
        """Return what every part gives, in their order."""
        return list(self._dask.compute(*self._made(made)))

    def total(self, made: Pass, join: Callable[[Any, Any], Any]) -> Any:
        """Return what all parts give, joined in their order, two neighbours at a time."""
        found, joined = self._made(made), self._dask.delayed(join, pure=False)
        while len(found) > 1:
            pairs = zip(found[::2], found[1::2], strict=False)
            found = [joined(*pair) for pair in pairs] + found[len(found) // 2 * 2 :]
        return self._dask.compute(found[0])[0]

    def _made(self, made: Pass) -> list[Any]:
        # The pass holds the plan: sent once, not with every part.
        shared = self._dask.delayed(made, pure=False)
        one = self._dask.delayed(_of_partition, pure=False)
        return [one(shared, part, place) for place, part in enumerate(self._parts)]


def _of_partition(made: Pass, part: Any, place: int) -> Any:
    return made([as_arrow(part)], place)


SCHEMA = "part int, found binary"


class SparkTable:
    """The partitions of a Spark data frame.

    What they give comes back as bytes in rows of another frame, made by `mapInArrow`: no RDD.  The
    package must be installed where the executors run.
    """

    name = "the Spark data frame"

    def __init__(self, frame: Any) -> None:
        """Take a frame."""
        require("pyspark", "spark")
        self._frame, self._count = frame, 1

    def each(self, made: Pass) -> list[Any]:
        """Return what every part gives, in their order."""
        rows = self._frame.mapInArrow(functools.partial(_of_part, made), SCHEMA).collect()
        self._count = len(rows)
        return [pickle.loads(row.found) for row in sorted(rows, key=lambda row: row.part)]

    def total(self, made: Pass, join: Callable[[Any, Any], Any]) -> Any:
        """Return what all parts give, joined in their order: neighbours on the executors first."""
        functions = require("pyspark.sql.functions", "spark")
        found = self._frame.mapInArrow(functools.partial(_of_part, made), SCHEMA)
        size = max(1, math.isqrt(self._count))
        groups = found.groupBy(functions.floor(functions.col("part") / size).alias("group"))

        def joined(table: Any) -> Any:
            return _joined(join, table)

        # Spark tells tables from iterators of batches by these.
        joined.__annotations__ = {"table": arrow().Table, "return": arrow().Table}
        rows = groups.applyInArrow(joined, SCHEMA).collect()
        return _total([row.asDict() for row in rows], join)


def _of_part(made: Pass, batches: Iterator[Any]) -> Iterator[Any]:
    pa, context = arrow(), require("pyspark", "spark").TaskContext.get()
    part = 0 if context is None else context.partitionId()
    found = made((pa.Table.from_batches([batch]) for batch in batches), part)
    yield pa.RecordBatch.from_pylist([_spark_row(part, found)], schema=_schema())


def _joined(join: Callable[[Any, Any], Any], table: Any) -> Any:
    rows = table.to_pylist()
    return arrow().Table.from_pylist(
        [_spark_row(min(row["part"] for row in rows), _total(rows, join))], schema=_schema()
    )


def _total(rows: list[dict[str, Any]], join: Callable[[Any, Any], Any]) -> Any:
    in_order = sorted(rows, key=lambda row: row["part"])
    return functools.reduce(join, (pickle.loads(row["found"]) for row in in_order))


def _spark_row(part: int, found: Any) -> dict[str, Any]:
    return {"part": part, "found": pickle.dumps(found)}


def _schema() -> Any:
    pa = arrow()
    return pa.schema([("part", pa.int32()), ("found", pa.binary())])


def joined_surveys(one: Survey, other: Survey) -> Survey:
    """Return what is known of the rows of both, those of ``other`` after those of ``one``."""
    return one.joined(other)


def joined_sums(one: StreamSums | None, other: StreamSums | None) -> StreamSums | None:
    """Return the sums over the rows of both, where None are those of no rows."""
    if one is None or other is None:
        return one if other is None else other
    return one + other


def scan_cluster(cluster: Cluster, options: StreamOptions) -> Scan:
    """Scan a table on a cluster, in three passes: rows, a survey, sums.

    And up to two more of sums, and one for the rows of pairs of which they say too little.  The
    memory among the options is that of one machine for one part.
    """
    parts = cluster.each(rows_and_kinds)
    counts = [rows for rows, _ in parts]
    known = [
        Part(f"part {place} of {cluster.name}", kinds, rows, lambda *_: iter(()))
        for place, (rows, kinds) in enumerate(parts)
        if rows
    ]
    if not known:
        raise TableError(f"{cluster.name} has no rows")
    source = Source.of(cluster.name, known)
    kinds = dict(source.kinds)
    if not kinds:
        raise TableError(f"{cluster.name} has no column of numbers or text")
    options.check(kinds, source.order)
    rows = rows_at_once(options.memory, len(kinds))
    first = np.concatenate([[0], np.cumsum(counts)[:-1]]).tolist()
    first_pass = FirstPass(first, kinds, sorted(options.categories), options.weights, rows)
    survey = cluster.total(first_pass, joined_surveys)
    state = ScanState.of_survey(survey, options, exact=True).in_order(source.order)
    x64 = jnp.result_type(float) == np.float64
    for repairs in range(1 + REPAIRS):
        plan = state.parts[0]
        sums = cluster.total(SecondPass(plan, x64, rows), joined_sums)
        if sums is None or sums.seen != plan.expected:
            raise TableError(
                f"{cluster.name} had {plan.expected:,} rows at first, and"
                f" {0 if sums is None else sums.seen:,} when it was read again: it is computed anew"
                " each time and does not stay the same; persist it, or write it to files"
            )
        state = ScanState(plan, sums)
        if state.well_conditioned or repairs == REPAIRS:
            break
        state = state.repaired()

    def again(plan: Plan, pairs: Integers) -> list[Floats]:
        found: list[Floats] = cluster.total(LastPass(plan, pairs, rows), joined_rows)
        return found

    return scan_of(*state.parts, **options.of_result, reread=Reread(again, options.memory))


def as_cluster(table: Any) -> Cluster | None:
    """Return a table of Dask or Spark; None for any other."""
    module = type(table).__module__
    if module.startswith("dask."):
        from hgr_jax.scanning.cluster import DaskTable

        return DaskTable(table)
    if module.startswith("pyspark.sql.") and hasattr(table, "mapInArrow"):
        from hgr_jax.scanning.cluster import SparkTable

        return SparkTable(table)
    return None
