"""Arrow columns: their kinds, and what their texts mean.

Plain numbers and dates are parsed by Arrow, all at once; only the different ones among other texts
are looked at one by one.
"""

from __future__ import annotations

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
from hgr_jax.tables.date_texts import ISO_DATE, as_digits, as_month, as_unmarked
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
)
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


def kind_of(dtype: Any) -> str | None:
    """Return the kind of an Arrow type, None for a type that a scan cannot use."""
    types = arrow().types
    if types.is_dictionary(dtype):
        return kind_of(dtype.value_type)
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


MONTHS_FROM = 99_999
"""Largest whole number that is no date of digits alone."""

MANY_TEXTS = 2000
"""Number of different texts beyond which those that are written alike are counted all at once."""

PARALLEL_ROWS = 50_000
"""Number of rows from which columns are parsed on several threads."""

_ALIKE = r"^[-+]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][-+]?[0-9]+)?$"
"""Numbers of which those with as many digits are of the same kinds."""

_PLAIN = {
    point: rf"^[-+]?([0-9]+[{point}]?[0-9]*|[{point}][0-9]+)([eE][-+]?[0-9]+)?$" for point in ".,"
}
"""Plain numbers, by their decimal point."""

_ISO_DATES = f"^{ISO_DATE}$"

_DOUBTFUL = r"^0[0-9]|[0-9]{16}|^[12][0-9]{5}([0-9]{2}){0,4}$"
"""Whole numbers that may be codes, identifiers or dates."""

_GROUPED = r"^[-+]?[1-9][0-9]{0,2}(\.[0-9]{3})+$"
"""Numbers whose points may lie between thousands."""


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
    column = column if column.type == pa.string() else column.cast(pa.string())
    filled = compute.if_else(compute.equal(column, ""), None, column)
    if plain and missing == MISSING and (values := _plain_column(filled)) is not None:
        places = np.flatnonzero(compute.is_valid(filled).to_numpy(zero_copy_only=False))
        # A number that cannot be another one shows the decimal point of the file.
        sure = compute.match_substring_regex(filled, r"\.([0-9]{0,2}|[0-9]{4,})$")
        row = compute.index(sure, True).as_py()
        row = int(places[0]) if row < 0 else row
        tally = Tally(row, filled[row].as_py(), len(places))
        return _Look(Texts(len(column), [tally]), filled, values)
    return _counted(filled, missing)


def _plain_column(texts: Any) -> NDArray[Any] | None:
    """Parse texts that all are plain numbers, or ISO dates; None if any may be something else."""
    compute = arrow().compute
    some = texts.drop_null()
    if not len(some):
        return None
    if compute.match_substring_regex(some[:1], _ISO_DATES)[0].as_py():
        all_are = compute.all(compute.match_substring_regex(some, _ISO_DATES)).as_py()
        return _cast_dates(texts) if all_are else None
    if not compute.match_substring_regex(some[:1], _PLAIN["."])[0].as_py():
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
        doubtful = compute.any(compute.match_substring_regex(some, _DOUBTFUL)).as_py()
        unmarked = finite.min() > MONTHS_FROM and finite.max() < 1e8  # 10012021 may be a date
        return None if doubtful or unmarked else values
    dotted = some.filter(compute.match_substring(some, "."))
    doubtful = compute.all(compute.match_substring_regex(dotted, _GROUPED)).as_py()
    return None if doubtful else values


def _counted(column: Any, missing: Collection[str]) -> _Look:
    """Trim and count texts."""
    compute, pa = arrow().compute, arrow()
    trim = compute.utf8_trim_whitespace(column)
    encoded = trim.dictionary_encode()
    levels = encoded.dictionary
    if len(levels) <= MANY_TEXTS:
        words = [is_missing(text, missing) for text in levels.to_pylist()]
        present = encoded
        absent = compute.take(pa.array(words, pa.bool_()), encoded.indices)
    else:
        present = trim
        absent = compute.is_in(compute.utf8_lower(trim), pa.array(sorted(missing)))
        absent = compute.and_not(absent, compute.is_in(trim, pa.array(sorted(NAMES))))
    absent = absent.fill_null(True)
    of_missing = _tallies(trim, absent.to_numpy(zero_copy_only=False))
    valid = compute.invert(absent)
    if len(levels) <= MANY_TEXTS:
        indices = compute.if_else(absent, None, encoded.indices)
        present = pa.DictionaryArray.from_arrays(indices, levels)
        of_present = _tallies(trim, valid.to_numpy(zero_copy_only=False))
    else:
        present = compute.if_else(absent, None, trim)
        alike = compute.and_(valid, compute.match_substring_regex(trim, _ALIKE).fill_null(False))
        alike = compute.and_(alike, compute.less_equal(compute.utf8_length(trim), 15))
        tallies = _alike_tallies(trim, alike.fill_null(False))
        if tallies is None:
            alike = pa.array(np.zeros(len(trim), bool))
        of_present = tallies or []
        others = compute.and_(valid, compute.invert(alike.fill_null(False)))
        of_present += _tallies(trim, others.to_numpy(zero_copy_only=False))
    return _Look(Texts(len(column), sorted(of_present), of_missing), present)


def _tallies(texts: Any, chosen: NDArray[np.bool_]) -> list[Tally]:
    """Count the different texts of some rows, those of `""` aside."""
    rows = np.flatnonzero(chosen)
    encoded = texts.take(arrow().array(rows)).drop_null().dictionary_encode()
    if len(encoded) < len(rows):
        rows = rows[texts.take(arrow().array(rows)).is_valid().to_numpy(zero_copy_only=False)]
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    levels = encoded.dictionary.to_pylist()
    sizes = np.bincount(codes, minlength=len(levels)).tolist()
    first = rows[np.unique(codes, return_index=True)[1]].tolist()
    return [Tally(*each) for each in zip(first, levels, sizes, strict=True) if each[1]]


def _alike_tallies(texts: Any, alike: Any) -> list[Tally] | None:
    """Count numbers that are written alike by one of them; None if most may be dates."""
    compute, pa = arrow().compute, arrow()
    rows = np.flatnonzero(alike.to_numpy(zero_copy_only=False))
    if not len(rows):
        return []
    chosen = texts.take(pa.array(rows))
    sample = chosen.take(pa.array(np.arange(0, len(rows), max(1, len(rows) // 300)))).to_pylist()
    if sum(map(_may_be_date, sample)) >= NEARLY_ALL * len(sample):
        return None
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
    unmarked = (as_unmarked(text, order) for order in ("mdy", "dmy", "digits"))
    return any(moment is not None for moment in (as_digits(text), as_month(text), *unmarked))


def parse_as(present: Any, meaning: Meaning) -> NDArray[Any]:
    """Parse texts, null where missing, by a meaning; texts of another kind become missing."""
    compute, kind = arrow().compute, meaning.kind
    is_dictionary = arrow().types.is_dictionary(present.type)
    if meaning.is_text and not is_dictionary:
        return np.asarray(present.fill_null(meaning.fill).to_numpy(zero_copy_only=False), object)
    cast: Any = None
    if kind.point and not is_dictionary:
        is_plain = compute.match_substring_regex(present, _PLAIN[kind.point])
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
