"""Columns of Arrow batches as numbers or texts, by their types alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax.tables.delimited import arrow
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.texts import MISSING

NUMBER, FLAG, DATE, ZONED, TIME, SPAN, TEXT = (
    "numbers",
    "true and false",
    "dates",
    "dates in a time zone",
    "times of day",
    "durations",
    "text",
)
"""Kinds of columns; all but text are numbers."""

DATES = (DATE, ZONED)
"""Days since 1970; without a time zone they are of no one knows which, and go with no others."""

EMPTY = ""
"""Kind of a column without any value: it goes with every other."""

_DAY = 86_400e6
"""Microseconds."""


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Some rows of a table.

    Attributes:
      rows: their number.
      numbers: columns of numbers by name, ``(n,)`` float64, NaN where missing or infinite: true and
        false are 1 and 0, dates days since 1970, times of day hours, durations days.
      texts: of columns of text the position ``(n,)`` of every row's text in a list, -1 where it
        is missing, and that list.
      infinite: of columns of numbers that have infinite values, how many.
      rounded: of columns of integers that float64 does not hold exactly, how many it does not.
    """

    rows: int
    numbers: Mapping[str, NDArray[np.float64]]
    texts: Mapping[str, tuple[NDArray[np.integer], list[str]]]
    infinite: Mapping[str, int]
    rounded: Mapping[str, int]

    def take(self, rows: NDArray[np.bool_]) -> Chunk:
        """Return some of the rows."""
        numbers = {name: values[rows] for name, values in self.numbers.items()}
        texts = {name: (codes[rows], levels) for name, (codes, levels) in self.texts.items()}
        return Chunk(int(rows.sum()), numbers, texts, self.infinite, self.rounded)

    def blank(self) -> Chunk:
        """Return one row of the same columns, which has no value."""
        numbers = dict.fromkeys(self.numbers, np.full(1, np.nan))
        texts = {name: (np.full(1, -1), levels) for name, (_, levels) in self.texts.items()}
        return Chunk(1, numbers, texts, {}, {})


def kind_of(dtype: Any) -> str | None:
    """Return the kind of a column of an Arrow type, None for one that no scan can use."""
    types = arrow().types
    if types.is_dictionary(dtype):
        return kind_of(dtype.value_type)
    if types.is_null(dtype):
        return EMPTY
    if types.is_boolean(dtype):
        return FLAG
    if types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype):
        return NUMBER
    if types.is_date(dtype) or types.is_timestamp(dtype):
        return DATE if getattr(dtype, "tz", None) is None else ZONED
    if types.is_time(dtype):
        return TIME
    if types.is_duration(dtype):
        return SPAN
    texts = types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype)
    return TEXT if texts else None


def kinds_of(schema: Any, where: str = "the table") -> dict[str, str | None]:
    """Return the kinds of the columns of an Arrow schema, by name.

    Raises:
      TableError: for two columns of one name.
    """
    _check_unique(schema.names, where)
    return {field.name: kind_of(field.type) for field in schema}


def _check_unique(names: Sequence[Any], where: str) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise TableError(
            f"{where} has two columns that are called {printable(str(twice))!r}: rename one of them"
        )


def decoded(table: Any, kinds: Mapping[str, str], where: str) -> Chunk:
    """Return the columns of an Arrow table that have a kind, as numbers or texts.

    Raises:
      TableError: for a column that is not there, or is of another kind, naming ``where``.
    """
    numbers, texts, infinite, rounded = {}, {}, {}, {}
    known = set(table.column_names)
    for name, kind in kinds.items():
        if name not in known:
            raise TableError(f"{where} has no column {printable(name)!r}, which others have")
        column = table.column(table.column_names.index(name))
        check_kind(name, kind, kind_of(column.type), where)
        if kind == TEXT:
            texts[name] = _texts(column)
            continue
        values = _numbers(column, kind)
        wrong = np.isinf(values)
        if wrong.any():
            infinite[name] = int(wrong.sum())
            values = np.where(wrong, np.nan, values)
        numbers[name] = values
        if lost := _count_rounded(column, values):
            rounded[name] = lost
    return Chunk(table.num_rows, numbers, texts, infinite, rounded)


def check_kind(name: str, expected: str, got: str | None, where: str) -> None:
    """Raise a TableError where a column is of another kind than elsewhere."""
    if got not in (expected, EMPTY):
        raise TableError(
            f"{where}: column {printable(name)!r} holds {got or 'neither numbers nor text'}, and"
            f" {expected or 'nothing'} in what was read before it: convert one of them"
        )


def _numbers(column: Any, kind: str) -> NDArray[np.float64]:
    compute, pa = arrow().compute, arrow()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    unit = 1.0
    if kind in DATES:
        zone = getattr(column.type, "tz", None)
        column, unit = column.cast(pa.timestamp("us", zone), safe=False), _DAY
    elif kind == SPAN:
        column, unit = column.cast(pa.duration("us"), safe=False), _DAY
    elif kind == TIME:
        column, unit = column.cast(pa.time64("us"), safe=False), _DAY / 24
    if kind in (*DATES, SPAN, TIME):
        column = column.cast(pa.int64())
    # Digits that float64 has not are lost, as they are of a column of a frame.
    column = compute.cast(column, pa.float64(), safe=False)
    values = column.to_numpy(zero_copy_only=False) if column.null_count else column.to_numpy()
    return np.asarray(values, np.float64) / unit if unit != 1 else np.asarray(values, np.float64)


def _count_rounded(column: Any, values: NDArray[np.float64]) -> int:
    """Return how many integers of a column are others as float64."""
    pa = arrow()
    large = np.abs(values) >= 2.0**53
    if not pa.types.is_integer(column.type) or not large.any():
        return 0
    exact = column.fill_null(0).to_numpy()[large]
    with np.errstate(invalid="ignore"):  # the largest becomes one more than there is
        return int((values[large].astype(exact.dtype) != exact).sum())


def _texts(column: Any) -> tuple[NDArray[np.integer], list[str]]:
    pa = arrow()
    if pa.types.is_null(column.type):
        return np.full(len(column), -1), []
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.large_string()).dictionary_encode()
    # Of unsigned indices, as polars has them, none is -1.
    codes = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    words = [None if text is None else text.strip() for text in column.dictionary.to_pylist()]
    levels: dict[str, int] = {}
    place = [
        -1 if text is None or text.lower() in MISSING else levels.setdefault(text, len(levels))
        for text in words
    ]
    return np.array([*place, -1], np.int64)[codes], list(levels)


def as_arrow(table: Any) -> Any:
    """Return a batch as an Arrow table: a matrix, a mapping of names to columns, or a frame.

    Raises:
      TypeError: for what is no table.
      TableError: for values that no Arrow column can hold.
    """
    pa = arrow()
    try:
        if isinstance(table, pa.Table):
            return table
        if isinstance(table, pa.RecordBatch):
            return pa.Table.from_batches([table])
        if isinstance(table, Mapping):
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
