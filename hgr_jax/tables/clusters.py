"""Tables of Dask and Spark: functions of their partitions, computed where the rows are."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hgr_jax._optional import require
from hgr_jax.tables.arrow_columns import arrow, as_arrow

SPARK_SCHEMA = "part int, result binary"


PartFunction = Callable[[Iterable[Any], int], Any]
"""A function of Arrow tables, the rows of one part, and the place of that part.

It is pickled, and called on the machine that holds the rows."""


def as_cluster(table: Any) -> DaskTable | SparkTable | None:
    """Wrap a Dask or Spark table; None for any other table."""
    module = type(table).__module__
    if module.startswith("dask."):
        return DaskTable(table)
    if module.startswith("pyspark.sql.") and hasattr(table, "mapInArrow"):
        return SparkTable(table)
    return None


class DaskTable:
    """The partitions of a Dask data frame or array, computed by Dask's current scheduler.

    Attributes:
      name: name of the table in messages.
    """

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
        shared = self._dask.delayed(function, pure=False)
        of_partition = self._dask.delayed(_of_partition, pure=False)
        results = [of_partition(shared, part, place) for place, part in enumerate(self._parts)]
        return list(self._dask.compute(*results))


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
        self._frame = frame

    def each(self, function: PartFunction) -> list[Any]:
        """Return the result of each part, in order."""
        rows = self._frame.mapInArrow(functools.partial(_of_spark_part, function), SPARK_SCHEMA)
        collected = sorted(rows.collect(), key=lambda row: row.part)
        return [pickle.loads(row.result) for row in collected]


def _of_spark_part(function: PartFunction, batches: Iterator[Any]) -> Iterator[Any]:
    pa, context = arrow(), require("pyspark").TaskContext.get()
    part = 0 if context is None else context.partitionId()
    result = pickle.dumps(function((pa.Table.from_batches([batch]) for batch in batches), part))
    schema = pa.schema([("part", pa.int32()), ("result", pa.binary())])
    yield pa.RecordBatch.from_pylist([{"part": part, "result": result}], schema=schema)
