"""Arrow columns: their kinds, and what their texts mean.

Plain numbers and dates are parsed by Arrow, all at once; only the different ones among other texts
are looked at one by one.
"""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgr_jax._checks import check_indexes
from hgr_jax._optional import require
from hgr_jax.tables.date_texts import ISO_DATE, UNMARKED_ORDERS, as_date
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.meanings import (
    MISSING,
    NAMES,
    NEARLY_ALL,
    Meaning,
    Tally,
    Texts,
    decide_meanings,
    in_seconds,
    is_missing,
    join_tally,
)
from hgr_jax.tables.number_texts import MAX_EXACT_DIGITS
from hgr_jax.tables.reading import Reading


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

_ALIKE = r"^[-+]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][-+]?[0-9]+)?$"
"""Numbers of which those with as many digits are of the same kinds."""

_PLAIN_NUMBER = {
    point: rf"^[-+]?([0-9]+[{point}]?[0-9]*|[{point}][0-9]+)([eE][-+]?[0-9]+)?$" for point in ".,"
}
"""Plain numbers, by their decimal point."""

_ISO_DATES = f"^{ISO_DATE}$"

_SURE_POINT = r"\.([0-9]{0,2}|[0-9]{4,})([eE].*)?$|^[-+]?(0[0-9]*|[0-9]{4,})\."
"""Numbers whose point does not lie between thousands."""


class Parsed(NamedTuple):
    """A column of texts, parsed.

    Attributes:
      values: ``(n,)``: float64, NaN where missing; ``datetime64``, NaT where missing; booleans (of
        type object, with None, if any is missing); or texts, ``""`` where missing.
      meaning: what the texts mean.
    """

    values: NDArray[Any]
    meaning: Meaning


@dataclasses.dataclass(frozen=True)
class _Look:
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
    columns: Mapping[str, Any],
    reading: Reading,
    where: Callable[[int], str],
    wanted: Collection[str],
) -> tuple[dict[str, Parsed], dict[str, Texts]]:
    """Parse the columns of a text file, which share a decimal point and the order of dates.

    Args:
      columns: Arrow columns of texts by name.
      reading: how the file is read.
      where: words the place of a row.
      wanted: names of the columns to parse; the others only help to decide.

    Returns:
      The wanted columns by name, and the texts of those of them that are not text.
    """
    rows = len(next(iter(columns.values())))
    with contextlib.ExitStack() as stack:
        run: Any = map
        if rows > PARALLEL_ROWS:
            run = stack.enter_context(concurrent.futures.ThreadPoolExecutor(os.cpu_count())).map

        def look_at(name: str) -> _Look:
            plain = reading.types.get(name) is None and reading.point != ","
            return _first_look(columns[name], reading.missing(name), plain=plain)

        looks = dict(zip(columns, run(look_at, columns), strict=True))
        texts = {name: look.texts for name, look in looks.items()}
        meanings = decide_meanings(texts, {name: reading.hints(name) for name in columns}, where)

        def parsed(name: str) -> Parsed:
            look, meaning = looks[name], meanings[name]
            values = look.values
            if values is None:
                values = parse_as(look.present, meaning)
            return Parsed(values, meaning)

        found = dict(zip(wanted, run(parsed, wanted), strict=True))
    return found, {name: texts[name] for name in wanted if not meanings[name].is_text}


def _first_look(column: Any, missing: Collection[str], *, plain: bool) -> _Look:
    """Parse plain numbers and dates at once, or count texts."""
    compute, pa = arrow().compute, arrow()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_floating(column.type):  # DuckDB has read it
        values = np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
        return _Look(Texts(len(values), [Tally(0, "0.5", len(values))]), column, values)
    column = column if column.type == pa.string() else column.cast(pa.string())
    filled = compute.if_else(compute.equal(column, ""), None, column)
    found = _plain_column(filled) if plain and missing == MISSING else None
    if found is None:
        return _counted(filled, missing)
    values, row = found
    tally = Tally(row, filled[row].as_py(), len(filled) - filled.null_count)
    return _Look(Texts(len(column), [tally]), filled, values)


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
    if compute.match_substring_regex(some[:1], _ISO_DATES)[0].as_py():
        all_are = compute.all(compute.match_substring_regex(some, _ISO_DATES)).as_py()
        dates = _cast_dates(texts) if all_are else None
        return None if dates is None else (dates, first)
    if not compute.match_substring_regex(some[:1], _PLAIN_NUMBER["."])[0].as_py():
        return None
    try:
        numbers = compute.cast(texts, arrow().float64())
    except arrow().ArrowInvalid:
        return None
    values = np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)
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
        row = compute.index(compute.match_substring_regex(few, _SURE_POINT), True).as_py()
        if row >= 0:
            return values, row
    return None


def _may_be_dates(texts: Any) -> bool:
    """Tell whether nearly all of a few whole numbers may be dates of digits alone."""
    places = np.arange(0, len(texts), max(1, len(texts) // 300))
    sample = texts.take(arrow().array(places)).to_pylist()
    return sum(map(_may_be_date, sample)) >= NEARLY_ALL * len(sample)


def _counted(column: Any, missing: Collection[str]) -> _Look:
    """Trim and count texts."""
    compute, pa = arrow().compute, arrow()
    codes, levels = encoded_texts(column)
    if len(levels) <= MANY_TEXTS:
        trimmed = [level.strip() for level in levels]
        absent = np.array([is_missing(text, missing) for text in trimmed] + [True])
        tallies = _tallies_of_codes(codes, np.arange(len(codes)), trimmed)
        texts = _texts_of(tallies, len(codes), missing)
        indices = pa.array(codes.astype(np.int32), mask=absent[codes])
        return _Look(texts, pa.DictionaryArray.from_arrays(indices, pa.array(trimmed, pa.string())))
    trim = compute.utf8_trim_whitespace(column)
    absent = compute.is_in(compute.utf8_lower(trim), pa.array(sorted(missing)))
    absent = compute.and_not(absent, compute.is_in(trim, pa.array(sorted(NAMES)))).fill_null(True)
    alike = compute.match_substring_regex(trim, _ALIKE).fill_null(False)
    alike = compute.and_(alike, compute.less_equal(compute.binary_length(trim), MAX_EXACT_DIGITS))
    alike = compute.and_not(alike.fill_null(False), absent)
    tallies = _alike_tallies(trim, alike)
    others = compute.invert(alike) if tallies else compute.is_valid(trim)
    rows = np.flatnonzero(others.to_numpy(zero_copy_only=False))
    codes, levels = encoded_texts(trim.take(pa.array(rows)))
    tallies += _tallies_of_codes(codes, rows, levels)
    texts = _texts_of(tallies, len(column), missing)
    return _Look(texts, compute.if_else(absent, None, trim))


def _texts_of(tallies: Sequence[Tally], rows: int, missing: Collection[str]) -> Texts:
    kept: dict[bool, list[Tally]] = {True: [], False: []}
    for tally in sorted(tallies):
        if tally.text:
            kept[is_missing(tally.text, missing)].append(tally)
    return Texts(rows, kept[False], kept[True])


def _tallies_of_codes(
    codes: NDArray[np.intp], rows: NDArray[np.intp], levels: Sequence[str]
) -> list[Tally]:
    """Count the texts whose codes are given, -1 for none, at some rows."""
    present = np.flatnonzero(codes >= 0)
    first = np.zeros(len(levels), np.intp)
    first[codes[present[::-1]]] = rows[present[::-1]]
    sizes = np.bincount(codes[present], minlength=len(levels)).tolist()
    joined: dict[str, Tally] = {}
    for tally in map(Tally, first.tolist(), levels, sizes):
        if tally.rows:
            join_tally(joined, tally.text, tally)
    return list(joined.values())


def _alike_tallies(texts: Any, alike: Any) -> list[Tally]:
    """Count numbers that are written alike by one of them; none if most may be dates."""
    compute, pa = arrow().compute, arrow()
    rows = np.flatnonzero(alike.to_numpy(zero_copy_only=False))
    if not len(rows):
        return []
    chosen = texts.take(pa.array(rows))
    if _may_be_dates(chosen):
        return []
    shapes = compute.replace_substring_regex(chosen, "[0-9]", "0")
    codes = compute.match_substring_regex(chosen, "^0[0-9]").cast(pa.string())
    encoded = compute.binary_join_element_wise(shapes, codes, " ").dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    tallies = []
    for code in range(len(encoded.dictionary)):
        places = np.flatnonzero(codes == code)
        several = chosen.take(pa.array(places[:1000])).to_pylist()
        # A whole number that may be a date stands for none that is not.
        text = next((text for text in several if not _may_be_date(text)), several[0])
        tallies.append(Tally(int(rows[places[0]]), text, len(places)))
    return tallies


def _may_be_date(text: str) -> bool:
    if not text.isdecimal():
        return False
    orders = ("digits", "month", *(f"unmarked {order}" for order in UNMARKED_ORDERS))
    return any(as_date(text, order) is not None for order in orders)


def parse_as(present: Any, meaning: Meaning) -> NDArray[Any]:
    """Parse texts, null where missing, by a meaning; texts of another kind become missing."""
    compute, kind = arrow().compute, meaning.kind
    is_dictionary = arrow().types.is_dictionary(present.type)
    if meaning.is_text and not is_dictionary:
        return np.asarray(present.fill_null(meaning.fill).to_numpy(zero_copy_only=False), object)
    cast: Any = None
    if kind.point and not is_dictionary:
        is_plain = compute.match_substring_regex(present, _PLAIN_NUMBER[kind.point])
        plain = compute.replace_substring(present, ",", ".") if kind.point == "," else present
        numbers = compute.cast(compute.if_else(is_plain, plain, None), arrow().float64())
        cast = np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)
    elif kind.order == "iso" and not is_dictionary:
        is_plain = compute.match_substring_regex(present, _ISO_DATES)
        cast = _cast_dates(compute.if_else(is_plain, present, None))
    if cast is None:
        codes, levels = encoded_texts(present)
        values = meaning.parse([*levels, ""] if present.null_count else levels)
        return values[codes]
    others = np.flatnonzero(~is_plain.fill_null(True).to_numpy(zero_copy_only=False))
    if not len(others):
        return np.asarray(cast)
    codes, levels = encoded_texts(present.take(arrow().array(others)))
    values = meaning.parse(levels)
    whole = cast.astype(np.promote_types(cast.dtype, values.dtype))
    whole[others] = values[codes]
    return np.asarray(whole)


def encoded_texts(texts: Any) -> tuple[NDArray[np.intp], list[str]]:
    """Return the codes of texts, -1 where null, and the distinct texts."""
    pa = arrow()
    if isinstance(texts, pa.ChunkedArray):
        is_dictionary = pa.types.is_dictionary(texts.type)
        texts = (texts.unify_dictionaries() if is_dictionary else texts).combine_chunks()
    if not pa.types.is_dictionary(texts.type):
        texts = texts.cast(pa.large_string()).dictionary_encode()
    codes = texts.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes.astype(np.intp), texts.dictionary.cast(pa.large_string()).to_pylist()


def count_missing_texts(column: Any) -> int:
    """Count the texts of an Arrow column that are null or mean a missing value."""
    compute, pa = arrow().compute, arrow()
    lower = compute.utf8_lower(compute.utf8_trim_whitespace(column.cast(pa.large_string())))
    absent = compute.is_in(lower, pa.array(sorted(MISSING), pa.large_string()))
    return int(compute.sum(absent).as_py() or 0) + int(column.null_count)


def _cast_dates(present: Any) -> NDArray[Any] | None:
    """Cast texts to dates; None if a day or time does not exist."""
    try:
        dates = arrow().compute.cast(present, arrow().timestamp("us"))
    except arrow().ArrowInvalid:
        return None
    return in_seconds(dates.to_numpy(zero_copy_only=False))
