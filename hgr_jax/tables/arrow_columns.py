"""Arrow columns: their kinds, and what their texts mean.

Plain numbers and dates are parsed by Arrow, all at once; only the different ones among other texts
are looked at one by one.
"""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import functools
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgr_jax._checks import check_indexes
from hgr_jax._optional import require
from hgr_jax.tables.date_texts import ISO_DATE, UNMARKED_ORDERS, read_date
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.meanings import (
    MISSING,
    NAMES,
    NEARLY_ALL,
    Hints,
    Meaning,
    Tally,
    Texts,
    decide_meanings,
    in_seconds,
    is_missing,
    tallies_of,
    texts_of,
)


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
        is_boolean = getattr(dtype, "extension_name", "") == "arrow.bool8"
        return pa.bool_() if is_boolean else plain_type(dtype.storage_type)
    if types.is_run_end_encoded(dtype):
        return plain_type(dtype.value_type)
    if types.is_decimal(dtype):
        return pa.float64()
    if types.is_date64(dtype):
        return pa.timestamp("ms")
    return pa.duration("us") if types.is_interval(dtype) else dtype


def as_plain(table: Any) -> Any:
    """Return an Arrow table with columns of `plain_type`."""
    for place, field in enumerate(table.schema):
        target = plain_type(field.type)
        if target != field.type:
            column = _plain_values_of(table.column(place), target)
            table = table.set_column(place, field.name, column)
    return table


def _plain_values_of(column: Any, target: Any) -> Any:
    pa, types, dtype = arrow(), arrow().types, column.type
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if isinstance(dtype, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in chunks], dtype.storage_type)
    elif types.is_run_end_encoded(dtype):
        decoded = [arrow().compute.run_end_decode(chunk) for chunk in chunks]
        column = pa.chunked_array(decoded, dtype.value_type)
    elif types.is_interval(dtype):
        values = [value.as_py() for chunk in chunks for value in chunk]
        # A month has no length: a column with months in it has no value.
        has_months = any(value is not None and value.months for value in values)
        spans = [
            None if v is None or has_months else v.days * 86_400_000_000 + v.nanoseconds // 1000
            for v in values
        ]
        return pa.chunked_array([pa.array(spans, pa.int64()).cast(target)])
    elif types.is_decimal(dtype) and dtype.bit_width < 128:
        column = column.cast(pa.decimal128(dtype.precision, dtype.scale))
    return column if column.type == target else column.cast(target)


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


FIRST_ROWS = 1000
"""Number of rows that are looked at before all of them."""

MANY_TEXTS = 2000
"""Number of different texts beyond which those that are written alike are counted all at once."""

PARALLEL_ROWS = 50_000
"""Number of rows from which columns are parsed on several threads."""

MAX_EXACT_DIGITS = 15
"""Largest number of characters of integers that are surely exact in float64."""

_PLAIN_NUMBER = {
    point: rf"^[-+]?([0-9]+[{point}]?[0-9]*|[{point}][0-9]+)([eE][-+]?[0-9]+)?$"
    for point in (".", ",", ".,")
}
"""Plain numbers, by their decimal point: of either, those with as many digits are of one kind."""

_ISO_DATES = f"^{ISO_DATE}$"

_SURE_POINT = r"\.([0-9]{0,2}|[0-9]{4,})([eE].*)?$|^[-+]?(0[0-9]*|[0-9]{4,})\."
"""Numbers whose point does not lie between thousands."""


class Parsed(NamedTuple):
    """A column of texts, parsed.

    Attributes:
      values: ``(n,)``: float64, NaN where missing; ``datetime64``, NaT where missing; booleans; or
        texts, ``""`` where missing.
      meaning: what the texts mean.
    """

    values: NDArray[Any]
    meaning: Meaning


class _Look(NamedTuple):
    """A first look at a column of texts.

    Attributes:
      texts: its texts, counted.
      present: trimmed texts as an Arrow array, null where missing.
      values: plain numbers or dates, None for other texts.
    """

    texts: Texts
    present: Any
    values: NDArray[Any] | None = None


def read_texts(
    columns: Mapping[str, Any], hints: Mapping[str, Hints], wanted: Collection[str]
) -> tuple[dict[str, Parsed], dict[str, Texts]]:
    """Parse the columns of a text file, which share a decimal point and the order of dates.

    Args:
      columns: Arrow columns of texts by name.
      hints: what is known of each.
      wanted: names of the columns to parse; the others only help to decide.

    Returns:
      The wanted columns by name, and the texts of those of them that are not text.
    """
    rows = len(next(iter(columns.values())))
    with contextlib.ExitStack() as stack:
        run: Any = map
        if rows > PARALLEL_ROWS:
            run = stack.enter_context(concurrent.futures.ThreadPoolExecutor(os.cpu_count())).map
        found = run(lambda name: _first_look(columns[name], hints[name]), columns)
        looks = dict(zip(columns, found, strict=True))
        texts = {name: look.texts for name, look in looks.items()}
        meanings = decide_meanings(texts, {name: hints[name] for name in columns})
        parsed = run(lambda name: _parsed(looks[name], meanings[name]), wanted)
        values = dict(zip(wanted, parsed, strict=True))
    return values, {name: texts[name] for name in wanted if not meanings[name].is_text}


def _parsed(look: _Look, meaning: Meaning) -> Parsed:
    return Parsed(_parse_as(look.present, meaning) if look.values is None else look.values, meaning)


def _first_look(column: Any, hints: Hints) -> _Look:
    """Parse plain numbers and dates at once, or count texts."""
    compute, pa = arrow().compute, arrow()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_floating(column.type):  # DuckDB has read it
        values = np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
        return _Look(Texts(len(values), [Tally(0, "0.5", len(values))]), column, values)
    column = column if column.type == pa.string() else column.cast(pa.string())
    filled = compute.if_else(compute.equal(column, ""), None, column)
    if hints.type is None and hints.point != "," and hints.missing == MISSING:
        found = _plain_column(filled)
        if found is not None:
            values, row = found
            tally = Tally(row, filled[row].as_py(), len(filled) - filled.null_count)
            return _Look(Texts(len(column), [tally]), filled, values)
    return _counted(filled, hints.missing)


def _plain_column(texts: Any) -> tuple[NDArray[Any], int] | None:
    """Parse texts that all are plain numbers or ISO dates, and return a row that shows it.

    It is None for texts that may be something else: codes, dates of digits alone, numbers all of
    whose points may lie between thousands.
    """
    compute = arrow().compute
    some = texts.drop_null()
    if not len(some):
        return None
    first = compute.index(compute.is_valid(texts), True).as_py()
    if _matches(some[:1], _ISO_DATES)[0].as_py():
        all_are = compute.all(_matches(some, _ISO_DATES)).as_py()
        dates = _cast_dates(texts) if all_are else None
        return None if dates is None else (dates, first)
    if not _matches(some[:1], _PLAIN_NUMBER["."])[0].as_py():
        return None
    try:
        values = _cast_numbers(texts)
    except arrow().ArrowInvalid:
        return None
    if np.isnan(values).sum() > texts.null_count:
        return None
    finite = values[np.isfinite(values)]
    if len(finite) and (finite == np.floor(finite)).all():
        lengths = compute.binary_length(some)
        coded = compute.and_(compute.starts_with(some, "0"), compute.greater(lengths, 1))
        if compute.any(coded).as_py() or compute.max(lengths).as_py() > MAX_EXACT_DIGITS:
            return None
        return None if _may_be_dates(some) else (values, first)
    for few in (texts.slice(0, FIRST_ROWS), texts):
        row = compute.index(_matches(few, _SURE_POINT), True).as_py()
        if row >= 0:
            return values, row
    return None


def _matches(texts: Any, pattern: str) -> Any:
    return arrow().compute.match_substring_regex(texts, pattern)


def _cast_numbers(texts: Any) -> NDArray[np.float64]:
    numbers = arrow().compute.cast(texts, arrow().float64())
    return np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)


def _may_be_dates(texts: Any) -> bool:
    """Tell whether nearly all of a few whole numbers may be dates of digits alone."""
    places = np.arange(0, len(texts), max(1, len(texts) // 300))
    sample = texts.take(arrow().array(places)).to_pylist()
    return sum(map(_may_be_date, sample)) >= NEARLY_ALL * len(sample)


def _may_be_date(text: str) -> bool:
    orders = ("digits", "month", *(f"unmarked {order}" for order in UNMARKED_ORDERS))
    return text.isdecimal() and any(read_date(text, order) is not None for order in orders)


def _counted(column: Any, missing: Collection[str]) -> _Look:
    """Trim and count texts."""
    compute, pa = arrow().compute, arrow()
    codes, levels = encoded_texts(column)
    if len(levels) <= MANY_TEXTS:
        trimmed = [level.strip() for level in levels]
        texts = texts_of(tallies_of(codes, trimmed), len(codes), missing)
        absent = np.array([is_missing(text, missing) or not text for text in trimmed] + [True])
        indices = pa.array(codes.astype(np.int32), mask=absent[codes])
        return _Look(texts, pa.DictionaryArray.from_arrays(indices, pa.array(trimmed, pa.string())))
    trim = compute.utf8_trim_whitespace(column)
    absent = _are_missing(trim, missing).fill_null(True)
    alike = compute.and_not(_matches(trim, _PLAIN_NUMBER[".,"]).fill_null(False), absent)
    is_short = compute.less_equal(compute.binary_length(trim), MAX_EXACT_DIGITS)
    alike = compute.and_(alike, is_short.fill_null(False))
    tallies = _alike_tallies(trim, alike)
    others = compute.invert(alike) if tallies else compute.is_valid(trim)
    rows = np.flatnonzero(others.to_numpy(zero_copy_only=False))
    codes, levels = encoded_texts(trim.take(pa.array(rows)))
    texts = texts_of([*tallies, *tallies_of(codes, levels, rows)], len(column), missing)
    return _Look(texts, compute.if_else(absent, None, trim))


def _are_missing(texts: Any, missing: Collection[str]) -> Any:
    """Return which trimmed texts mean a missing value, null for null."""
    compute, pa = arrow().compute, arrow()
    marks, names = (pa.array(sorted(words), texts.type) for words in (missing, NAMES))
    absent = compute.is_in(compute.utf8_lower(texts), marks)
    absent = compute.and_not(absent, compute.is_in(texts, names))
    return compute.if_else(compute.is_valid(texts), absent, None)


def _alike_tallies(texts: Any, alike: Any) -> list[Tally]:
    """Count numbers that are written alike by one of them; none if most may be dates."""
    compute, pa = arrow().compute, arrow()
    rows = np.flatnonzero(alike.to_numpy(zero_copy_only=False))
    chosen = texts.take(pa.array(rows))
    if not len(rows) or _may_be_dates(chosen):
        return []
    shapes = compute.replace_substring_regex(chosen, "[0-9]", "0")
    coded = _matches(chosen, "^0[0-9]").cast(pa.string())
    codes, levels = encoded_texts(compute.binary_join_element_wise(shapes, coded, " "))
    tallies = []
    for code in range(len(levels)):
        places = np.flatnonzero(codes == code)
        several = chosen.take(pa.array(places[:1000])).to_pylist()
        # A whole number that may be a date stands for none that is not.
        text = next((text for text in several if not _may_be_date(text)), several[0])
        tallies.append(Tally(int(rows[places[0]]), text, len(places)))
    return tallies


def _parse_as(present: Any, meaning: Meaning) -> NDArray[Any]:
    """Parse texts, null where missing, by a meaning; texts of another kind become missing."""
    compute, kind = arrow().compute, meaning.kind
    plain = _PLAIN_NUMBER.get(kind.point) or (_ISO_DATES if kind.order == "iso" else None)
    cast = None
    if plain is not None and not arrow().types.is_dictionary(present.type):
        is_plain = _matches(present, plain)
        texts = compute.if_else(is_plain, present, None)
        if kind.point:
            cast = _cast_numbers(compute.replace_substring(texts, ",", "."))
        else:
            cast = _cast_dates(texts)
    if cast is None:
        return meaning.parse_coded(*encoded_texts(present))
    others = np.flatnonzero(~is_plain.fill_null(True).to_numpy(zero_copy_only=False))
    if not len(others):
        return cast
    values = meaning.parse_coded(*encoded_texts(present.take(arrow().array(others))))
    whole = cast.astype(np.promote_types(cast.dtype, values.dtype))
    whole[others] = values
    return whole


def encoded_texts(texts: Any) -> tuple[NDArray[np.intp], list[str]]:
    """Return the codes of texts, -1 where null, and the distinct texts."""
    if not arrow().types.is_dictionary(texts.type):
        texts = texts.cast(arrow().large_string()).dictionary_encode()
    codes = texts.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes.astype(np.intp), texts.dictionary.cast(arrow().large_string()).to_pylist()


def _cast_dates(texts: Any) -> NDArray[Any] | None:
    """Cast texts to dates; None if a day or time does not exist."""
    try:
        dates = arrow().compute.cast(texts, arrow().timestamp("us"))
    except arrow().ArrowInvalid:
        return None
    return in_seconds(dates.to_numpy(zero_copy_only=False))


def count_missing(column: Any) -> int:
    """Count the missing values of an Arrow column: null, NaN, infinite, or texts that say so."""
    types, compute = arrow().types, arrow().compute
    if types.is_floating(column.type):
        return len(column) - (compute.sum(compute.is_finite(column)).as_py() or 0)
    nulls = int(column.null_count)
    if kind_of(column.type) != TEXT or types.is_dictionary(column.type):
        return nulls
    trimmed = compute.utf8_trim_whitespace(column.cast(arrow().large_string()))
    return nulls + int(compute.sum(_are_missing(trimmed, MISSING)).as_py() or 0)
