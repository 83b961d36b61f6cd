"""Arrow columns: their kinds, and what their texts mean.

The meaning of texts is decided from all rows, by counts that add up over batches.  Texts that match
one of a few patterns (plain numbers, ISO dates, words) are counted and parsed by Arrow, all at
once; only the others are parsed one by one, by `texts`.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._checks import check_indexes
from hgr_jax.tables.date_texts import ISO_DATE, as_digits, as_month
from hgr_jax.tables.delimited import arrow
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.kinds import TEXT_KINDS, Kind
from hgr_jax.tables.number_texts import MAX_EXACT_DIGITS
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.texts import (
    MISSING,
    NAMES,
    NEARLY_ALL,
    SAMPLE_SIZE,
    SEVERAL,
    Inferred,
    KindCounts,
    Meaning,
    Tallies,
    Tally,
    decide_columns,
    in_seconds,
    is_missing,
    kinds_of_sample,
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


def kind_of_meaning(meaning: Meaning) -> str:
    """Return the kind of the values into which texts of a meaning are parsed."""
    if meaning.kind.order == "zone":
        return ZONED
    words = {"dates": DATE, "true or false": BOOLEAN, "text": TEXT}
    return words.get(meaning.kind.word, NUMBER)


@dataclasses.dataclass(frozen=True)
class TextCells:
    """The texts of a column.

    Attributes:
      present: trimmed texts, null where missing.
      missing: number of rows, and the first, of each text that means a missing value.
    """

    present: Any
    missing: Mapping[str, tuple[int, int]]

    @classmethod
    def of(cls, column: Any, missing: Collection[str] = MISSING) -> TextCells:
        """Trim the texts of an Arrow column; those in ``missing``, in lower case, are missing."""
        if _have_few_levels(column):
            return cls._of_levels(column, missing)
        compute, pa = arrow().compute, arrow()
        trim = compute.utf8_trim_whitespace(_as_strings(column))
        absent = compute.is_in(compute.utf8_lower(trim), pa.array(sorted(missing)))
        absent = compute.and_not(absent, compute.is_in(trim, pa.array(sorted(NAMES))))
        present = compute.if_else(absent, None, trim)
        words = compute.and_(absent, compute.not_equal(trim, ""))
        rows = np.flatnonzero(words.fill_null(False).to_numpy(zero_copy_only=False))
        if not len(rows):
            return cls(present, {})
        levels, sizes, places = _level_counts(trim.take(pa.array(rows)))
        first = rows[places].tolist()
        return cls(present, dict(zip(levels, zip(sizes, first, strict=True), strict=True)))

    @classmethod
    def _of_levels(cls, column: Any, missing: Collection[str]) -> TextCells:
        """Trim texts that repeat often, by their levels; ``present`` is a dictionary of them."""
        codes, levels = _encode(column)
        sizes, places = _sizes_and_places(codes, len(levels))
        words: dict[str, tuple[int, int]] = {}
        clean: dict[str, int] = {}
        new_codes = []
        for level, size, place in zip(levels, sizes.tolist(), places.tolist(), strict=True):
            text = level.strip()
            if not is_missing(text, missing):
                new_codes.append(clean.setdefault(text, len(clean)))
                continue
            new_codes.append(-1)
            if text and size:
                rows, first = words.get(text, (0, place))
                words[text] = (rows + size, min(first, place))
        pa = arrow()
        of_clean = np.array([*new_codes, -1], np.int32)[codes]
        indices = pa.array(of_clean, mask=of_clean < 0)
        texts = pa.array([*clean], pa.large_string())
        return cls(pa.DictionaryArray.from_arrays(indices, texts), words)


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


_WHOLE_NUMBERS = r"^[-+]?[0-9]+([eE][-+]?[0-9]+)?$"

_WHOLE = re.compile(r"[-+]?[0-9]+")

_DIGITS_OF_DATES = r"^[12][0-9]{5}([0-9]{2}){0,4}$"

LEVELS_SAMPLE, FEW_LEVELS = 1000, 100
"""Number of first texts that are looked at, and their largest number of distinct texts, where
texts count as having few levels."""

MANY_TEXTS = 2000
"""Number of distinct texts beyond which words and codes are counted all at once."""

_ISO_DATES = f"^{ISO_DATE}$"

_NUMBER_LOOKS = (
    _WHOLE_NUMBERS,
    r"^[-+]?[1-9][0-9]{0,2}\.[0-9]{3}$",
    r"^[-+]?[1-9][0-9]{0,2},[0-9]{3}$",
    r"^[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$",
    r"^[-+]?([0-9]+,[0-9]*|,[0-9]+)([eE][-+]?[0-9]+)?$",
    _ISO_DATES,
)
_WORD_LOOKS = (
    r"^\PN{6,}$",  # without digits of any script, as Python reads them all
    r"^[A-Za-z]{4,}[-_0-9]{4,}|([A-Za-z][^A-Za-z]*){26}",
)
"""Patterns of texts: whole numbers, numbers whose mark may separate thousands, other numbers, ISO
dates; words, codes.  Of all texts whose first match is one pattern, a kind reads all or none."""

_PLAIN = {
    point: rf"^[-+]?([0-9]+[{point}]?[0-9]*|[{point}][0-9]+)([eE][-+]?[0-9]+)?$" for point in ".,"
}
"""Plain numbers, by their decimal point."""

_SUSPECTS = r"^0[0-9]|[0-9]{16}"
"""Whole numbers that may be codes or identifiers."""

PARALLEL_ROWS = 50_000
"""Number of rows from which columns are parsed on several threads."""

_READ_WORDS = (
    *("false", "infinity", "-infinity", "+infinity", "missing", "unknown", "suppressed"),
    *("not available", "not applicable", "not reported"),
)
"""Texts of six letters or more without digits that are values of some kind, or count as missing."""


def _as_strings(column: Any) -> Any:
    """Cast nulls and string views, which Arrow's functions of texts do not take, to strings."""
    plain = (arrow().string(), arrow().large_string())
    return column if column.type in plain else column.cast(arrow().large_string())


def plain_numbers(present: Any) -> Inferred | None:
    """Parse texts that all are plain numbers; None if any is not, or may mean something else."""
    if arrow().types.is_dictionary(present.type):
        return None
    values = _cast_numbers(present)
    if values is None:
        return None
    compute = arrow().compute
    finite = values[np.isfinite(values)]
    if len(finite) and (finite == np.floor(finite)).all():
        suspects = compute.any(compute.match_substring_regex(present, _SUSPECTS)).as_py()
        if suspects or compute.any(_are_dates(_sample_of(present))).as_py():
            return None
        return Inferred(values, "", "numbers")
    return None if _are_grouped(present) else Inferred(values, "", "numbers")


def _are_grouped(texts: Any) -> bool:
    """Tell whether all points may be between thousands: 314 and 1.913 are numbers below and above
    1,000.
    """
    compute = arrow().compute
    dotted = texts.filter(compute.match_substring(texts, "."))
    grouped = compute.match_substring_regex(dotted, r"^[-+]?[1-9][0-9]{0,2}(\.[0-9]{3})+$")
    return len(dotted) < len(texts) - texts.null_count and compute.all(grouped).as_py()


def _sample_of(texts: Any) -> Any:
    """Return a few present texts, evenly spread."""
    present = texts.drop_null()
    places = np.arange(0, len(present), max(1, len(present) // SAMPLE_SIZE))
    return present.take(arrow().array(places))


def _plain_integers(texts: Any, also_missing: Collection[str]) -> Inferred | None:
    """Parse texts that all are integers, none of them a code, a date or an identifier, or null."""
    compute, pa = arrow().compute, arrow()
    if not len(texts) or pa.types.is_dictionary(texts.type) or also_missing:
        return None
    if not all(text is None or _WHOLE.fullmatch(text) for text in texts.slice(0, 20).to_pylist()):
        return None
    try:
        values = compute.cast(texts, pa.int64())
    except pa.ArrowInvalid:
        return None
    lengths = compute.binary_length(texts)
    longest = compute.max(lengths).as_py() or 0
    zeros = compute.and_(compute.starts_with(texts, "0"), compute.greater(lengths, 1))
    if longest > MAX_EXACT_DIGITS or compute.any(zeros).as_py():
        return None
    if compute.any(_are_dates(_sample_of(texts))).as_py():
        return None
    numbers = values.cast(pa.float64())
    return Inferred(np.asarray(numbers.to_numpy(), np.float64), "", "numbers")


def count_kinds(
    cells: TextCells, kinds: Sequence[Kind] = TEXT_KINDS, first_row: int = 0
) -> KindCounts:
    """Count the texts of each kind; the first row has position ``first_row``."""
    compute, texts = arrow().compute, cells.present
    missing = {text: Tally(n, (first_row + row, text)) for text, (n, row) in cells.missing.items()}
    counts = KindCounts(kinds, len(texts), missing=missing)
    rows = first_row + np.flatnonzero(compute.is_valid(texts).to_numpy(zero_copy_only=False))
    texts = texts.drop_null()
    if not _have_few_levels(texts):
        for look in _NUMBER_LOOKS:
            rows, texts = _count_look(counts, look, texts, rows)
        if compute.count_distinct(texts).as_py() > MANY_TEXTS:
            for look in _WORD_LOOKS:
                rows, texts = _count_look(counts, look, texts, rows)
    levels, sizes, places = _level_counts(texts)
    counts.add(levels, sizes, rows[places].tolist())
    return counts


def parse_text_columns(
    columns: Sequence[tuple[str, Any]],
    reading: Reading,
    where: Callable[[int], str],
    wanted: Sequence[str],
) -> tuple[dict[str, Inferred], dict[str, Tallies]]:
    """Parse the columns of a text file together, which share a decimal point and date order.

    Args:
      columns: names and Arrow columns: texts, or numbers that are parsed already.
      reading: how the file is read.
      where: words the place of a row.
      wanted: names of the columns to parse; the others only help to decide.

    Returns:
      The wanted columns by name, and the texts that mean missing values in those that are not text.
    """
    rows = len(columns[0][1])
    with contextlib.ExitStack() as stack:
        run: Any = map
        if rows > PARALLEL_ROWS:
            run = stack.enter_context(concurrent.futures.ThreadPoolExecutor(os.cpu_count())).map
        first = dict(run(functools.partial(_first_look, reading=reading), columns))
        counted = {name: look for name, look in first.items() if look.counts is not None}

        def decide(looks: Mapping[str, _Look]) -> dict[str, Meaning]:
            counts = {name: look.counts for name, look in looks.items() if look.counts is not None}
            return decide_columns(counts, where, {name: reading.hints(name) for name in counts})

        meanings = decide(counted)
        if any(meaning.shows_comma for meaning in meanings.values()):
            doubtful = {n: look for n, look in first.items() if look.shows_point}
            counted |= {name: look.counted() for name, look in doubtful.items()}
            meanings = decide(counted)

        def parsed(name: str) -> Inferred:
            look = first[name]
            if name not in meanings:
                assert look.plain is not None
                return look.plain
            meaning = meanings[name]
            values = parse_as(look.cells.present, meaning)
            return Inferred(values, meaning.note, meaning.kind.word, meaning.skip)

        values = dict(zip(wanted, run(parsed, wanted), strict=True))
    missing = {
        name: {text: Tally(n, (row, text)) for text, (n, row) in look.cells.missing.items()}
        for name, look in first.items()
        if name in wanted and (name not in meanings or not meanings[name].is_text)
    }
    return values, missing


@dataclasses.dataclass(frozen=True)
class _Look:
    """A first look at a column: plain numbers, or texts of which the kinds are counted."""

    cells: TextCells
    plain: Inferred | None = None
    counts: KindCounts | None = None
    type: str | None = None

    @property
    def shows_point(self) -> bool:
        """Whether it holds plain numbers with a point, which may be between thousands."""
        texts, types = self.cells.present, arrow().types
        if self.plain is None or not (
            types.is_string(texts.type) or types.is_large_string(texts.type)
        ):
            return False
        compute = arrow().compute
        return bool(compute.any(compute.match_substring(texts, ".")).as_py())

    def counted(self) -> _Look:
        """Return the column with the kinds of its texts counted."""
        sample = _sample_of(self.cells.present).to_pylist()
        counts = count_kinds(self.cells, kinds_of_sample(sample, self.type))
        return _Look(self.cells, counts=counts, type=self.type)


def _first_look(column: tuple[str, Any], reading: Reading) -> tuple[str, _Look]:
    """Parse plain numbers, or count the kinds of texts."""
    name, texts = column
    if arrow().types.is_timestamp(texts.type):
        dates = in_seconds(texts.to_numpy())
        return name, _Look(TextCells(texts, {}), Inferred(dates, "", "dates"))
    if arrow().types.is_floating(texts.type):
        values = texts.to_numpy()
        return name, _Look(TextCells(texts, {}), Inferred(values, "", "numbers"))
    hints = reading.hints(name)
    points = hints.type is None and hints.point != ","
    if points:
        integers = _plain_integers(texts, reading.na_texts)
        if integers is not None:
            return name, _Look(TextCells(texts, {}), integers)
    cells = TextCells.of(texts, reading.missing(name))
    if points:
        plain = plain_numbers(cells.present)
        if plain is not None:
            return name, _Look(cells, plain)
    return name, _Look(cells, type=hints.type).counted()


def _count_look(
    counts: KindCounts, look: str, texts: Any, rows: NDArray[np.intp]
) -> tuple[NDArray[np.intp], Any]:
    """Count the texts that match a pattern all at once; return the rows and texts that are left."""
    compute = arrow().compute
    if not len(texts):
        return rows, texts
    mask = compute.match_substring_regex(texts, look)
    if look in _WORD_LOOKS:
        words = compute.is_in(compute.utf8_lower(texts), arrow().array(_READ_WORDS))
        mask = compute.and_not(mask, words)
    elif look == _WHOLE_NUMBERS:
        mask = compute.and_not(mask, _are_dates(texts))
    matches = mask.to_numpy(zero_copy_only=False)
    found = texts.filter(mask)
    if not len(found) or (look == _ISO_DATES and _cast_dates(found) is None):
        return rows, texts
    places = np.flatnonzero(matches)
    several = found.slice(0, LEVELS_SAMPLE).to_pylist()
    # A whole number that may be a date stands for none that is not.
    place = next((i for i, text in enumerate(several) if not _may_be_date(text)), 0)
    counts.add_alike([several[place]], [len(found)], [int(rows[places[place]])])
    if look in _WORD_LOOKS:
        counts.bulk_words += len(found)
    else:
        counts.some = frozenset([*counts.some, *dict.fromkeys(several)][:SEVERAL])
    if look == _WHOLE_NUMBERS:
        _count_digits(counts, found, rows[matches])
    return rows[~matches], texts.filter(compute.invert(mask))


def _count_digits(counts: KindCounts, integers: Any, rows: NDArray[np.intp]) -> None:
    """Count the digits of whole numbers, and those that begin with zero or lose digits."""
    compute, pa = arrow().compute, arrow()
    only = compute.match_substring_regex(integers, "^[0-9]+$")
    lengths = compute.utf8_length(integers.filter(only))
    ends = compute.min_max(lengths).as_py()
    if ends["min"] is not None:
        counts.add_digits(len(lengths), (ends["min"], ends["max"]))
    coded = compute.match_substring_regex(integers, "^0[0-9]+$")
    places = np.flatnonzero(coded.to_numpy(zero_copy_only=False))
    if len(places):
        first = integers[int(places[0])].as_py()
        counts.coded += Tally(len(places), (int(rows[places[0]]), first))
    if ends["max"] is None or ends["max"] > MAX_EXACT_DIGITS:
        long = compute.greater(compute.utf8_length(integers), MAX_EXACT_DIGITS)
        places = np.flatnonzero(long.to_numpy(zero_copy_only=False))
        texts = integers.take(pa.array(places)).to_pylist()
        counts.add_lost(texts, [1] * len(places), rows[places].tolist())


def _may_be_date(text: str) -> bool:
    return text.isdecimal() and (as_digits(text) is not None or as_month(text) is not None)


def _are_dates(texts: Any) -> Any:
    """Return the mask of digits that may be dates, if most of them can be."""
    compute = arrow().compute
    mask = compute.match_substring_regex(texts, _DIGITS_OF_DATES)
    sample = texts.filter(mask).slice(0, LEVELS_SAMPLE).to_pylist()
    dates = sum(map(_may_be_date, sample))
    several = len(sample) > NEARLY_ALL * min(len(texts), LEVELS_SAMPLE)
    return mask if several and dates >= NEARLY_ALL * len(sample) else compute.is_null(texts)


def _have_few_levels(texts: Any) -> bool:
    """Return whether texts repeat so often that it is quicker to parse their levels."""
    if arrow().types.is_dictionary(texts.type):
        return True
    return len(texts) > LEVELS_SAMPLE and len(texts.slice(0, LEVELS_SAMPLE).unique()) <= FEW_LEVELS


def parse_as(present: Any, meaning: Meaning) -> NDArray[Any]:
    """Parse texts, null where missing, by a meaning; texts of another kind become missing."""
    compute, kind = arrow().compute, meaning.kind
    if meaning.is_text and not arrow().types.is_dictionary(present.type):
        return np.asarray(present.fill_null(meaning.fill).to_numpy(zero_copy_only=False), object)
    cast: Any = None
    if arrow().types.is_dictionary(present.type):
        pass
    elif kind.point:
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


def as_arrow_values(present: Any, meaning: Meaning, missing_numbers: Sequence[float] = ()) -> Any:
    """Parse texts into an Arrow array; ``missing_numbers`` become missing."""
    pa = arrow()
    if meaning.is_text:
        texts = present.cast(pa.large_string())  # one type, however it was read
        filled = texts.fill_null(meaning.fill) if meaning.fill else texts
        return filled.combine_chunks() if isinstance(filled, pa.ChunkedArray) else filled
    values = parse_as(present, meaning)
    if values.dtype.kind == "M":
        moments = pa.array(values.astype("M8[us]"))
        zoned = meaning.kind.order == "zone"
        return moments.cast(pa.timestamp("us", "UTC")) if zoned else moments
    if values.dtype.kind == "f":
        if missing_numbers:
            values = np.where(np.isin(values, missing_numbers), np.nan, values)
        return pa.array(values)
    return pa.array(values.tolist(), pa.bool_())


def _encode(texts: Any) -> tuple[NDArray[np.intp], list[str]]:
    """Return the codes of texts, -1 where null, and the distinct texts."""
    pa = arrow()
    if isinstance(texts, pa.ChunkedArray):
        is_dictionary = pa.types.is_dictionary(texts.type)
        texts = (texts.unify_dictionaries() if is_dictionary else texts).combine_chunks()
    if not pa.types.is_dictionary(texts.type):
        texts = _as_strings(texts).dictionary_encode()
    codes = texts.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes.astype(np.intp), texts.dictionary.cast(pa.large_string()).to_pylist()


def _sizes_and_places(
    codes: NDArray[np.intp], levels: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the number of rows of each level, and the first of them."""
    present = np.flatnonzero(codes >= 0)
    first = np.zeros(levels, np.intp)
    first[codes[present[::-1]]] = present[::-1]
    return np.bincount(codes[present], minlength=levels), first


def _level_counts(texts: Any) -> tuple[list[str], list[int], NDArray[np.intp]]:
    """Return the distinct texts in order of appearance, the size of each, and its first place."""
    codes, levels = _encode(texts)
    sizes, first = _sizes_and_places(codes, len(levels))
    order = sorted(np.flatnonzero(sizes).tolist(), key=first.__getitem__)
    return [levels[i] for i in order], sizes[order].tolist(), first[order]


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
