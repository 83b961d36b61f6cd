"""Arrow columns: their kinds, and tables of any library as Arrow."""

from __future__ import annotations

import base64
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from hgr_jax._checks import check_indexes
from hgr_jax._optional import require
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.meanings import MISSING, NAMES


@functools.cache
def arrow() -> Any:
    """Return pyarrow, with its compute module loaded."""
    require("pyarrow.compute")
    return require("pyarrow")


NUMBER, BOOLEAN, DATE, ZONED, TIME, DURATION, TEXT = (
    "numbers",
    "true and false",
    "dates",
    "dates in a time zone",
    "times of day",
    "durations",
    "text",
)
"""Kinds of columns; all but text become numbers."""

EMPTY = ""
"""Kind of a column without any value, compatible with every other kind."""


def plain_type(dtype: Any) -> Any:
    """Return the Arrow type as which a scan reads a type: that of its values, whoever wrote it."""
    pa, types = arrow(), arrow().types
    if isinstance(dtype, pa.BaseExtensionType):
        return plain_type(dtype.storage_type)
    if types.is_decimal(dtype):
        return pa.float64()
    return pa.timestamp("ms") if types.is_date64(dtype) else dtype


def as_plain(table: Any) -> Any:
    """Return an Arrow table with columns of `plain_type`."""
    for place, field in enumerate(table.schema):
        target = plain_type(field.type)
        if target != field.type:
            column = table.column(place)
            if isinstance(field.type, arrow().BaseExtensionType):
                chunks = [chunk.storage for chunk in column.chunks]
                column = arrow().chunked_array(chunks, field.type.storage_type)
            elif arrow().types.is_decimal(field.type) and field.type.bit_width < 128:
                wide = arrow().decimal128(field.type.precision, field.type.scale)
                column = column.cast(wide)  # of which alone it has a cast to numbers
            table = table.set_column(place, field.name, column.cast(target))
    return table


def parquet_categories(metadata: Any) -> list[str]:
    """Return the columns of a Parquet file whose numbers were a category when it was written."""
    stored = (metadata.metadata or {}).get(b"ARROW:schema")
    if stored is None:
        return []
    schema = arrow().ipc.read_schema(arrow().py_buffer(base64.b64decode(stored)))
    types = arrow().types
    return [f.name for f in schema if types.is_dictionary(f.type) and kind_of(f.type) == TEXT]


def with_categories(table: Any, names: Collection[str]) -> Any:
    """Return an Arrow table, or a batch, with some columns as categories."""
    for place, field in enumerate(table.schema):
        if field.name in names and not arrow().types.is_dictionary(field.type):
            levels = table.column(place).dictionary_encode()
            table = table.set_column(place, field.name, levels)
    return table


def kind_of(dtype: Any) -> str | None:
    """Return the kind of an Arrow type, None for a type that a scan cannot use."""
    types, dtype = arrow().types, plain_type(dtype)
    if types.is_dictionary(dtype):
        return TEXT if kind_of(dtype.value_type) else None
    if types.is_null(dtype):
        return EMPTY
    if types.is_boolean(dtype):
        return BOOLEAN
    if types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype):
        return NUMBER
    if types.is_date(dtype) or types.is_timestamp(dtype):
        return DATE if getattr(dtype, "tz", None) is None else ZONED
    if types.is_time(dtype):
        return TIME
    if types.is_duration(dtype):
        return DURATION
    texts = types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype)
    return TEXT if texts else None


def kinds_of(schema: Any, where: str = "the table") -> dict[str, str | None]:
    """Return the kinds of a schema's columns by name; a `TableError` for a repeated name."""
    _check_unique(schema.names, where)
    return {field.name: kind_of(field.type) for field in schema}


def _check_unique(names: Sequence[Any], where: str) -> None:
    if len(set(names)) < len(names):
        duplicate = printable(next(str(name) for name in names if list(names).count(name) > 1))
        raise TableError(
            f"{where} has two columns that are called {duplicate!r}: rename one of them"
        )


def check_kind(name: str, expected: str, got: str | None, where: str) -> None:
    """Raise a `TableError` if a column is of another kind than in earlier batches."""
    if got not in (expected, EMPTY):
        raise TableError(
            f"{where}: column {printable(name)!r} holds {got or 'neither numbers nor text'}, and"
            f" {expected or 'nothing'} in what was read before it: convert one of them"
        )


def as_arrow(table: Any) -> Any:
    """Convert a matrix, a mapping of names to columns, or a data frame into an Arrow table."""
    pa = arrow()
    try:
        if isinstance(table, pa.Table):
            return table
        if isinstance(table, pa.RecordBatch):
            return pa.Table.from_batches([table])
        if isinstance(table, Mapping):
            check_indexes(table=table)
            arrays = {str(name): np.asarray(values) for name, values in table.items()}
            return pa.table({n: pa.array(x, from_pandas=True) for n, x in arrays.items()})
        if type(table).__module__.startswith("pandas"):
            _check_unique(getattr(table, "columns", ()), "the table")
            return pa.Table.from_pandas(table, preserve_index=False)
        if hasattr(table, "__arrow_c_stream__"):
            return pa.table(table)
        matrix = np.asarray(table)
        if matrix.ndim == 2 and matrix.dtype.kind in "fiub":
            return pa.table({f"x{i}": np.ascontiguousarray(x) for i, x in enumerate(matrix.T)})
    except pa.ArrowException as error:
        raise TableError(f"the batch cannot be read: {printable(str(error))}") from None
    raise TypeError(
        "a batch must be a matrix (n, p) of numbers, a mapping of names to columns, or a frame"
        f" (Arrow, pandas, polars); got {type(table).__name__}."
    )


def count_missing(column: Any) -> int:
    """Count the missing values of an Arrow column: null, NaN, infinite, or texts that say so."""
    types, compute = arrow().types, arrow().compute
    if types.is_floating(column.type):
        return len(column) - (compute.sum(compute.is_finite(column)).as_py() or 0)
    nulls = int(column.null_count)
    if kind_of(column.type) != TEXT or types.is_dictionary(column.type):
        return nulls
    trimmed = compute.utf8_trim_whitespace(column.cast(arrow().large_string()))
    marks, names = (arrow().array(sorted(words), trimmed.type) for words in (MISSING, NAMES))
    absent = compute.is_in(compute.utf8_lower(trimmed), marks)
    absent = compute.and_not(absent, compute.is_in(trimmed, names))
    return nulls + int(compute.sum(absent).as_py() or 0)
