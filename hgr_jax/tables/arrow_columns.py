"""Arrow columns: infer what their texts mean, and decode them into numbers or levels.

The meaning of texts is decided from all rows, by counts that add up over batches.  Texts that match
one of a few patterns (plain numbers, ISO dates, words) are counted and parsed by Arrow, all at
once; only the others are parsed one by one, by `texts`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax.tables.delimited import arrow
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.texts import (
    DASHES,
    ISO_DATE,
    MAX_EXACT_DIGITS,
    MISSING,
    SAMPLE_SIZE,
    Form,
    Inferred,
    KindCounts,
    Meaning,
    as_integer,
    in_seconds,
    infer_meaning,
    is_number,
    lost_digits_note,
)

NUMBER, BOOLEAN, DATE, ZONED, TIME, DURATION, TEXT = (
    "numbers",
    "true and false",
    "dates",
    "dates in a time zone",
    "times of day",
    "durations",
    "text",
)
"""Kinds of columns; all but text are decoded into numbers."""

DATES = (DATE, ZONED)
"""Decoded into days since 1970.  Dates with and without a time zone cannot be mixed."""

EMPTY = ""
"""Kind of a column without any value, compatible with every other kind."""

_DAY_MICROSECONDS = 86_400e6


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Decoded rows of a table.

    Attributes:
      rows: the number of rows.
      numbers: columns of numbers by name, ``(n,)`` float64, NaN where missing or infinite: booleans
        are 0 and 1, dates days since 1970, times of day hours, durations days.
      texts: columns of text by name: codes ``(n,)``, -1 where missing, and the text of each code.
      infinite: number of infinite values, by column that has any.
      rounded: number of integers that float64 does not hold exactly, and the first, by column that
        has any.
    """

    rows: int
    numbers: Mapping[str, NDArray[np.float64]]
    texts: Mapping[str, tuple[NDArray[np.integer], list[str]]]
    infinite: Mapping[str, int]
    rounded: Mapping[str, tuple[int, str]]

    def take(self, rows: NDArray[np.bool_]) -> Chunk:
        """Select the rows of a mask."""
        numbers = {name: values[rows] for name, values in self.numbers.items()}
        texts = {name: (codes[rows], levels) for name, (codes, levels) in self.texts.items()}
        return Chunk(int(rows.sum()), numbers, texts, self.infinite, self.rounded)

    def blank(self) -> Chunk:
        """Return a chunk of one row in which every column is missing."""
        numbers = dict.fromkeys(self.numbers, np.full(1, np.nan))
        texts = {name: (np.full(1, -1), levels) for name, (_, levels) in self.texts.items()}
        return Chunk(1, numbers, texts, {}, {})


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


def kind_of_meaning(meaning: Meaning) -> str:
    """Return the kind of the values into which texts of a meaning are parsed."""
    if meaning.form.order == "zone":
        return ZONED
    return {"dates": DATE, "true or false": BOOLEAN}.get(meaning.kind.word, NUMBER)


def parse_columns(table: Any, meanings: Mapping[str, Meaning]) -> Any:
    """Parse the columns of text of an Arrow table or batch that have a meaning."""
    if isinstance(table, arrow().RecordBatch):
        table = arrow().Table.from_batches([table])
    for place, name in enumerate(table.column_names):
        if name in meanings:
            values = as_arrow_values(present_texts(table.column(place)), meanings[name])
            table = table.set_column(place, name, values)
    return table


@dataclasses.dataclass
class TextColumn:
    """Counts of the texts of a column of a typed table; counts of its parts add up.

    A typed table holds numbers as numbers.  Texts that all are plain numbers are thus a category:
    someone must have turned the numbers into texts.

    Attributes:
      counts: number of texts of each kind.
      numeric: whether all texts, also those that mean a missing value, are plain numbers.
      missing: number of texts that mean a missing value; ``first_missing`` is the first of them.
      category: whether the column's type is a category.
    """

    counts: KindCounts = dataclasses.field(default_factory=KindCounts)
    numeric: bool = True
    missing: int = 0
    first_missing: str = ""
    category: bool = False

    def __add__(self, other: TextColumn) -> TextColumn:
        return TextColumn(
            self.counts + other.counts,
            self.numeric and other.numeric,
            self.missing + other.missing,
            self.first_missing or other.first_missing,
            self.category or other.category,
        )

    @classmethod
    def of(cls, column: Any, first_row: int) -> TextColumn:
        """Count the texts of an Arrow column, whose first row has position ``first_row``."""
        if arrow().types.is_dictionary(column.type):
            return cls(category=True)
        if _have_few_levels(_as_strings(column)):
            return cls._of_levels(_as_strings(column), first_row)
        texts = present_texts(column)
        trimmed = arrow().compute.utf8_trim_whitespace(_as_strings(column))
        words = trimmed.filter(arrow().compute.is_null(texts)).drop_null()
        words = words.filter(arrow().compute.not_equal(words, "")).to_pylist()
        counts = count_kinds(texts, first_row=first_row)
        numeric = counts.plain and all(map(is_number, words))
        return cls(counts, numeric, len(words), words[0] if words else "")

    @classmethod
    def _of_levels(cls, column: Any, first_row: int) -> TextColumn:
        """Count texts that repeat often, by their levels."""
        levels, sizes, places = _level_counts(column)
        counts, missing, numeric, first_missing = KindCounts(), 0, True, ""
        for level, size, place in zip(levels, sizes, places.tolist(), strict=True):
            text = level.strip()
            if text.lower() not in MISSING:
                counts.add_levels([text], [size], [first_row + place])
            elif text:
                missing, first_missing = missing + size, first_missing or text
                numeric = numeric and is_number(text)
        return cls(counts, numeric and counts.plain, missing, first_missing)

    def decide(self) -> tuple[Meaning | None, str]:
        """Return the meaning of the texts, None for a category, and a note."""
        if self.category:
            return None, ""
        note = ""
        if self.numeric and self.counts.present:
            note = "texts that all are numbers are a category; convert them to have numbers"
        elif (meaning := self.counts.decide()) is not None:
            return meaning, meaning.note
        if self.missing:
            missing = f"{self.missing:,} texts such as {self.first_missing!r} are missing"
            note = "; ".join(filter(None, [note, missing]))
        return None, note


def count_texts(
    table: Any, names: Sequence[str], first_row: int, earlier: Mapping[str, TextColumn]
) -> dict[str, TextColumn]:
    """Count the texts of the named columns of a table, and add them to earlier counts."""
    counts = dict(earlier)
    for name in names:
        of_table = TextColumn.of(table.column(name), first_row)
        counts[name] = counts[name] + of_table if name in counts else of_table
    return counts


def decoded(table: Any, kinds: Mapping[str, str], where: str) -> Chunk:
    """Decode the columns in ``kinds``; a `TableError` if one is absent or of another kind."""
    numbers, texts, infinite, rounded = {}, {}, {}, {}
    places = {name: place for place, name in enumerate(table.column_names)}
    for name, kind in kinds.items():
        if name not in places:
            raise TableError(f"{where} has no column {printable(name)!r}, which others have")
        column = table.column(places[name])
        check_kind(name, kind, kind_of(column.type), where)
        if kind == TEXT:
            texts[name] = _decode_texts(column)
            continue
        values = _decode_numbers(column, kind)
        is_infinite = np.isinf(values)
        if is_infinite.any():
            infinite[name] = int(is_infinite.sum())
            values = np.where(is_infinite, np.nan, values)
        numbers[name] = values
        if lost := _find_rounded(column, values):
            rounded[name] = lost
    return Chunk(table.num_rows, numbers, texts, infinite, rounded)


def check_kind(name: str, expected: str, got: str | None, where: str) -> None:
    """Raise a `TableError` if a column is of another kind than in earlier batches."""
    if got not in (expected, EMPTY):
        raise TableError(
            f"{where}: column {printable(name)!r} holds {got or 'neither numbers nor text'}, and"
            f" {expected or 'nothing'} in what was read before it: convert one of them"
        )


def _decode_numbers(column: Any, kind: str) -> NDArray[np.float64]:
    compute, pa = arrow().compute, arrow()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    unit = 1.0
    if kind in DATES:
        zone = getattr(column.type, "tz", None)
        column, unit = column.cast(pa.timestamp("us", zone), safe=False), _DAY_MICROSECONDS
    elif kind == DURATION:
        column, unit = column.cast(pa.duration("us"), safe=False), _DAY_MICROSECONDS
    elif kind == TIME:
        column, unit = column.cast(pa.time64("us"), safe=False), _DAY_MICROSECONDS / 24
    if kind in (*DATES, DURATION, TIME):
        column = column.cast(pa.int64())
    # Digits beyond float64 are lost, as in a data frame in memory.
    column = compute.cast(column, pa.float64(), safe=False)
    values = column.to_numpy(zero_copy_only=False) if column.null_count else column.to_numpy()
    return np.asarray(values, np.float64) / unit if unit != 1 else np.asarray(values, np.float64)


def _find_rounded(column: Any, values: NDArray[np.float64]) -> tuple[int, str] | None:
    """Count the integers of a column that float64 does not hold exactly; return the first too."""
    pa = arrow()
    large = np.abs(values) >= 2.0**53
    if not pa.types.is_integer(column.type) or not large.any():
        return None
    exact = column.fill_null(0).to_numpy()[large]
    with np.errstate(invalid="ignore"):  # the largest integer rounds up beyond its type
        lost = exact[values[large].astype(exact.dtype) != exact]
    return (len(lost), str(lost[0])) if len(lost) else None


def _decode_texts(column: Any) -> tuple[NDArray[np.integer], list[str]]:
    pa = arrow()
    if pa.types.is_null(column.type):
        return np.full(len(column), -1), []
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.large_string()).dictionary_encode()
    # Polars has unsigned indices, which cannot be -1.
    codes = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    levels: dict[str, int] = {}
    new_codes = [
        -1 if text.lower() in MISSING else levels.setdefault(text, len(levels))
        for text in ((text or "").strip() for text in column.dictionary.to_pylist())
    ]
    return np.array([*new_codes, -1], np.int64)[codes], list(levels)


def as_arrow(table: Any) -> Any:
    """Convert a matrix, a mapping of names to columns, or a data frame into an Arrow table."""
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


_WHOLE_NUMBERS = r"^[-+]?[0-9]+([eE][-+]?[0-9]+)?$"

LEVELS_SAMPLE, FEW_LEVELS = 1000, 100
"""Number of first texts that are looked at, and their largest number of distinct texts, where
texts count as having few levels."""

_ISO_DATES = f"^{ISO_DATE}$"

_WORDS = r"^\PN*$"  # without digits of any script, as Python reads them all

_LOOKS = (
    _WHOLE_NUMBERS,
    r"^[-+]?[1-9][0-9]{0,2}\.[0-9]{3}$",
    r"^[-+]?[1-9][0-9]{0,2},[0-9]{3}$",
    r"^[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$",
    r"^[-+]?([0-9]+,[0-9]*|,[0-9]+)([eE][-+]?[0-9]+)?$",
    _ISO_DATES,
    _WORDS,
    r"^[A-Za-z]+[-_0-9]|([A-Za-z][^A-Za-z]*){13}",
)
"""Patterns of texts: whole numbers, numbers whose mark may separate thousands, other numbers, ISO
dates, words, codes.  Of all texts whose first match is one pattern, a kind reads all or none."""

_PLAIN = {
    point: rf"^[-+]?([0-9]+[{point}]?[0-9]*|[{point}][0-9]+)([eE][-+]?[0-9]+)?$" for point in ".,"
}
"""Plain numbers, by their decimal point."""

_NOT_FINITE = ("inf", "infinity", "nan")

_WORDS_READ = sorted(
    {"true", "false", *(sign + word for sign in ("", "+", "-") for word in _NOT_FINITE)} | DASHES
)
"""Texts without digits that are values of some kind, or count as missing."""


def present_texts(column: Any, also_missing: Collection[str] = ()) -> Any:
    """Return trimmed texts, null where missing; ``also_missing`` are in lower case."""
    compute = arrow().compute
    trim = compute.utf8_trim_whitespace(_as_strings(column))
    missing_texts = arrow().array(sorted(MISSING.union(also_missing)))
    return compute.if_else(compute.is_in(compute.utf8_lower(trim), missing_texts), None, trim)


def _as_strings(column: Any) -> Any:
    """Cast nulls and string views, which Arrow's functions of texts do not take, to strings."""
    plain = (arrow().string(), arrow().large_string())
    return column if column.type in plain else column.cast(arrow().large_string())


def parse_present(
    present: Any, point: str | None, form: Form | None, where: Callable[[int], str]
) -> Inferred:
    """Parse a column of `present_texts`; arguments as of `texts.infer`."""
    if form is not None:
        point = form.point or "."
    values = _cast_numbers(present) if point != "," else None
    if values is not None:
        lost = lost_digits_note(values, _integers_of(present))
        return Inferred(values, lost, Form("numbers", _point_of(present)))
    texts = present.drop_null()
    sampled = np.arange(0, len(texts), max(1, len(texts) // SAMPLE_SIZE))

    def meaning_of(kinds: Sequence[Any]) -> Meaning | None:
        return count_kinds(present, kinds).decide(where, point=point)

    sample = texts.take(arrow().array(sampled)).to_pylist()
    meaning = infer_meaning(sample, meaning_of, form)
    if meaning is None:
        return Inferred(np.asarray(present.fill_null("").to_numpy(), object))
    return Inferred(parse_as(present, meaning), meaning.note, meaning.form, meaning.ambiguous)


def count_kinds(
    present: Any, kinds: Sequence[Any] = KindCounts.kinds, first_row: int = 0
) -> KindCounts:
    """Count the `present_texts` of each kind; the first has position ``first_row``."""
    counts, compute = KindCounts(kinds), arrow().compute
    rows = first_row + np.flatnonzero(compute.is_valid(present).to_numpy(zero_copy_only=False))
    texts = present.drop_null()
    for look in () if _have_few_levels(texts) else _LOOKS:
        if not len(texts):
            break
        mask = compute.match_substring_regex(texts, look)
        if look == _WORDS:
            mask = compute.and_not(mask, compute.is_in(compute.utf8_lower(texts), _words_read()))
        matches = mask.to_numpy(zero_copy_only=False)
        if not matches.any() or (look == _ISO_DATES and _cast_dates(texts.filter(mask)) is None):
            continue
        first = int(np.argmax(matches))
        counts.add([texts[first].as_py()], [int(matches.sum())], [int(rows[first])])
        if look == _WHOLE_NUMBERS:
            long = compute.greater(compute.utf8_length(texts), MAX_EXACT_DIGITS)
            places = np.flatnonzero(compute.and_(mask, long).to_numpy(zero_copy_only=False))
            integers = texts.take(arrow().array(places)).to_pylist()
            counts.count_lost(integers, [1] * len(places), rows[places].tolist())
        rows, texts = rows[~matches], texts.filter(compute.invert(mask))
    levels, sizes, places = _level_counts(texts)
    counts.add_levels(levels, sizes, rows[places].tolist())
    return counts


def _have_few_levels(texts: Any) -> bool:
    """Return whether texts repeat so often that it is quicker to parse their levels."""
    return len(texts) > LEVELS_SAMPLE and len(texts.slice(0, LEVELS_SAMPLE).unique()) <= FEW_LEVELS


def parse_as(present: Any, meaning: Meaning) -> NDArray[Any]:
    """Parse `present_texts` by a meaning; texts of another kind become missing."""
    compute, kind = arrow().compute, meaning.kind
    cast: Any = None
    if kind.point:
        if kind.point == "." and (cast := _cast_numbers(present)) is not None:
            return cast
        is_plain = compute.match_substring_regex(present, _PLAIN[kind.point])
        plain = compute.replace_substring(present, ",", ".") if kind.point == "," else present
        cast = _cast_numbers(compute.if_else(is_plain, plain, None))
    elif kind.order == "iso":
        is_plain = compute.match_substring_regex(present, _ISO_DATES)
        cast = _cast_dates(compute.if_else(is_plain, present, None))
    if cast is None:
        codes, levels = _encode(present)
        values = meaning.parse([*levels, ""] if present.null_count else levels)
        return values[codes]
    others = np.flatnonzero(~is_plain.fill_null(True).to_numpy(zero_copy_only=False))
    if not len(others):
        return np.asarray(cast)
    codes, levels = _encode(present.take(arrow().array(others)))
    values = meaning.parse(levels)
    whole = cast.astype(np.promote_types(cast.dtype, values.dtype))
    whole[others] = values[codes]
    return np.asarray(whole)


def decide_columns(
    counts: Mapping[str, KindCounts], where: Callable[[int], str], point: str | None = None
) -> dict[str, Meaning | None]:
    """Decide the meanings of a file's columns, which share a decimal point; None for plain text."""
    meanings = {name: column.decide(where, point=point) for name, column in counts.items()}
    if any(meaning and meaning.form.point == "," for meaning in meanings.values()):
        for name, meaning in meanings.items():
            if meaning and meaning.ambiguous:
                meanings[name] = counts[name].decide(where, point=",")
    return meanings


def as_arrow_values(
    present: Any, meaning: Meaning | None, missing_numbers: Sequence[float] = ()
) -> Any:
    """Parse `present_texts` into an Arrow array; ``missing_numbers`` become missing."""
    pa = arrow()
    if meaning is None:
        return present.combine_chunks() if isinstance(present, pa.ChunkedArray) else present
    values = parse_as(present, meaning)
    if values.dtype.kind == "M":
        moments = pa.array(values.astype("M8[us]"))
        return moments.cast(pa.timestamp("us", "UTC")) if meaning.form.order == "zone" else moments
    if values.dtype.kind == "f":
        if missing_numbers:
            values = np.where(np.isin(values, missing_numbers), np.nan, values)
        return pa.array(values)
    return pa.array(values.tolist(), pa.bool_())


@functools.cache
def _words_read() -> Any:
    return arrow().array(_WORDS_READ)


def _encode(texts: Any) -> tuple[NDArray[np.intp], list[str]]:
    """Return the codes of texts, -1 where null, and the distinct texts in order of appearance."""
    if isinstance(texts, arrow().ChunkedArray):
        texts = texts.combine_chunks()
    encoded = texts.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes.astype(np.intp), encoded.dictionary.to_pylist()


def _level_counts(texts: Any) -> tuple[list[str], list[int], NDArray[np.intp]]:
    """Return the distinct texts in order of appearance, the size of each, and its first place."""
    codes, levels = _encode(texts)
    present = np.flatnonzero(codes >= 0)
    first = np.zeros(len(levels), np.intp)
    first[codes[present[::-1]]] = present[::-1]
    return levels, np.bincount(codes[present], minlength=len(levels)).tolist(), first


def _point_of(present: Any) -> str:
    """Return the decimal point of plain numbers, ``""`` if no number shows it."""
    compute = arrow().compute
    return "." if compute.any(compute.match_substring(present, ".")).as_py() else ""


def _cast_numbers(present: Any) -> NDArray[np.float64] | None:
    """Cast texts to numbers; None if any text is not a number."""
    try:
        numbers = arrow().compute.cast(present, arrow().float64())
    except arrow().ArrowInvalid:
        return None
    return np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)


def _cast_dates(present: Any) -> NDArray[Any] | None:
    """Cast texts to dates; None if a day or time does not exist."""
    try:
        dates = arrow().compute.cast(present, arrow().timestamp("us"))
    except arrow().ArrowInvalid:
        return None
    return in_seconds(dates.to_numpy(zero_copy_only=False))


def _integers_of(present: Any) -> Callable[[NDArray[np.intp]], list[int | None]]:
    """Return the function of rows that `lost_digits_note` takes as ``exact``."""

    def integers(rows: NDArray[np.intp]) -> list[int | None]:
        return [as_integer(text) for text in present.take(arrow().array(rows)).to_pylist()]

    return integers
