"""Data frames of Spark, classic or Connect."""

from __future__ import annotations

import functools
import math
import pickle
from collections.abc import Callable, Iterator
from typing import Any

from hgr_jax._optional import require
from hgr_jax.scanning.passes import Pass
from hgr_jax.tables.delimited import arrow

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
