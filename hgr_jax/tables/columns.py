"""Parse columns of any kind (arrays, objects, frames) into numbers, dates and categories.

Data frames are read through narwhals.  A column that cannot be used is left out with a reason, not
an error.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import itertools
import numbers
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hgr_jax._checks import check_count, check_indexes, without_mask
from hgr_jax._optional import require
from hgr_jax._texts import first_names, grouped
from hgr_jax.tables.arrow_columns import as_plain
from hgr_jax.tables.faults import TableError, check_names
from hgr_jax.tables.levels import (
    MAX_ROUNDING_STEPS,
    Category,
    Unusable,
    constant_reason,
    differ_by_rounding,
    encode_numbers,
    encode_texts,
    missing_as_level,
    object_array,
    pool_rare_levels,
    rounding_reason,
)
from hgr_jax.tables.meanings import (
    MISSING,
    Hints,
    Tally,
    Texts,
    decide_meanings,
    is_missing,
    join_tally,
    lost_digits_note,
)


@dataclasses.dataclass(frozen=True)
class Frame:
    """Hold a table that was read from a file.

    Attributes:
      source: name of the file.
      columns: arrays ``(n,)`` by name, in order: float64, NaN where missing (booleans are 0 and 1);
        ``datetime64``, NaT where missing; or texts, empty where missing.
      notes: notes on columns by name, and on the file by its name.
      skipped: content of the columns that are neither numbers nor text, by name.
    """

    source: str
    columns: Mapping[str, NDArray[Any]]
    notes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    skipped: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values())))

    def __str__(self) -> str:
        """Name the file, its size, and how it was read."""
        lines = [f"{self.source}: {self.rows:,} rows, {len(self.columns):,} columns"]
        for label, messages in (("skipped", self.skipped), ("note", self.notes)):
            for message, names in grouped(messages).items():
                lines.append(f"{label}: {first_names(list(names), 32)}: {message}")
        return "\n".join(lines)

    def to_frame(self) -> Any:
        """Return the table as a data frame of pandas, with None where a text is missing."""
        columns = {
            name: [text or None for text in column] if self.is_text(name) else column
            for name, column in self.columns.items()
        }
        return require("pandas").DataFrame(columns)

    def column(self, name: str) -> NDArray[Any]:
        """Return a column; a `TableError` if there is none of that name."""
        if name in self.skipped:
            raise TableError(f"{self.source}: column {name!r} holds {self.skipped[name]}")
        check_names(self.source, list(self.columns), [name])
        return self.columns[name]

    def is_text(self, name: str) -> bool:
        """Return whether the column holds text."""
        return self.column(name).dtype == object

    def missing(self, name: str) -> NDArray[np.bool_]:
        """Return the mask ``(n,)`` of missing and infinite values."""
        column = self.column(name)
        if column.dtype.kind == "M":
            return np.isnat(column)
        return column == "" if self.is_text(name) else ~np.isfinite(column)

    def take(self, rows: NDArray[Any]) -> Frame:
        """Return the rows of a mask or of positions."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        return dataclasses.replace(self, columns=columns)

    def in_days(self) -> Frame:
        """Return the table with dates as days since the first date of their column."""
        notes, columns = dict(self.notes), dict(self.columns)
        for name, column in self.columns.items():
            if column.dtype.kind != "M" or np.isnat(column).all():
                continue
            columns[name] = as_numbers_in_days(column)
            first = str(np.nanmin(column)).removesuffix("T00:00:00")
            notes[name] = "; ".join(filter(None, [notes.get(name), f"days since {first}"]))
        return dataclasses.replace(self, columns=columns, notes=notes)


class ParsedColumn(NamedTuple):
    """A column in usable form, a note on it, and the word of the kind of its texts."""

    values: NDArray[Any] | Category | Unusable
    note: str = ""
    kind: str = ""


def unique_names(names: Sequence[str]) -> list[str]:
    """Return unique names: unnamed columns get their position, repeated names a number.

    A new name is never one of ``names``.

    Example:
      >>> from hgr_jax.tables.columns import unique_names
      >>> unique_names(["x", "", "x"])
      ['x', 'column 2', 'x (2)']
    """
    taken = set(names)
    result: dict[str, None] = {}
    for position, old_name in enumerate(names, 1):
        name = old_name or f"column {position}"
        unique, number = name, 2
        while unique in result or (unique != old_name and unique in taken):
            unique, number = f"{name} ({number})", number + 1
        result[unique] = None
    return list(result)


def name_columns(
    old_names: Sequence[Any], *, told: bool = True
) -> tuple[list[str], dict[str, str]]:
    """Return `unique_names`, and a note on each new name, unless no names were ``told``."""
    old_names = ["" if name is None or name != name else str(name) for name in old_names]
    names, notes = unique_names(old_names), {}
    for name, unique in zip(old_names, names, strict=True):
        if unique != name and told:
            notes[unique] = f"another column is called {name!r} too" if name else "it has no name"
    return names, notes


def labels_of(given: Any, names: Sequence[str]) -> Any:
    """Return the labels of `Columns` from the names as given; a renamed column has its new one."""
    kept = [str(label) == name for label, name in zip(given, names, strict=True)]
    if all(kept) and hasattr(given, "equals"):
        return given
    labels = [label if keep else name for label, name, keep in zip(given, names, kept, strict=True)]
    return object_array(labels)


def add_note(notes: dict[str, str], name: str, note: str) -> None:
    """Add a note on a column."""
    notes[name] = f"{notes[name]}; {note}" if name in notes else note


def _unmasked(table: Any) -> Any:
    """Return a matrix of a NumPy dtype, with masked entries missing."""
    if isinstance(table, np.ma.MaskedArray):
        if table.dtype.kind in "fiub":
            return np.ma.filled(table.astype(np.float64), np.nan)
        objects = table.data.astype(object)
        objects[np.ma.getmaskarray(table)] = None
        return objects
    if jnp.issubdtype(table.dtype, jnp.floating) and table.dtype.kind == "V":
        return table.astype(np.float32)
    return np.asarray(table) if isinstance(table, np.ndarray) else table


def _from_values(name: Any, values: Any) -> NDArray[Any]:
    """Return a column of a mapping as an array, of objects where NumPy would convert to text."""
    if isinstance(values, np.ma.MaskedArray):
        return np.asarray(_unmasked(values))
    try:
        array = np.asarray(values)
    except ValueError:  # ragged
        array = None
    if array is not None and array.ndim == 0:
        raise TypeError(f"column {name!r} must hold a value for every row; got {values!r:.60}.")
    if array is None or (array.dtype.kind in "US" and not isinstance(values, np.ndarray)):
        array = object_array(values)
    return array


@dataclasses.dataclass(frozen=True)
class Parsing:
    """How to parse texts.

    Attributes:
      hints, where: arguments of `infer`.
      missing: texts that mean a missing value, in lower case.
      numbers_in_text: whether texts that all are plain numbers become numbers, not levels.
    """

    hints: Hints = Hints()  # noqa: RUF009 - immutable
    missing: Collection[str] = MISSING
    where: Callable[[int], str] = "in row {}".format
    numbers_in_text: bool = False


def parse_column(column: Any, parsing: Parsing | None = None) -> ParsedColumn:
    """Parse a column ``(n,)`` into numbers, booleans, dates, durations or levels.

    `infer` parses texts.  Texts that all are plain numbers become levels: someone must have turned
    the numbers into texts.
    """
    if isinstance(column, ParsedColumn):
        return column
    if isinstance(column, Unusable | Category):
        return ParsedColumn(column)
    array = np.asarray(column)
    if array.dtype.kind == "T":
        array = array.astype(object)
    if array.ndim != 1:
        return ParsedColumn(
            Unusable(f"values of shape {array.shape[1:]}, neither numbers nor text")
        )
    if array.dtype.kind in "iu":
        floats = array.astype(np.float64)
        return ParsedColumn(array, lost_digits_note(floats, lambda rows: array[rows].tolist()))
    if array.dtype.kind in "fbmM":
        return ParsedColumn(array)
    if array.dtype.kind in "USO":
        try:
            return _parse_objects(array, parsing or Parsing())
        except Exception as error:  # the objects' own methods may raise anything
            reason = f"values that cannot be read as numbers or text ({type(error).__name__})"
            return ParsedColumn(Unusable(reason))
    return ParsedColumn(Unusable(f"values of type {array.dtype}, neither numbers nor text"))


def read_variable(name: str, value: Any) -> Any:
    """Return a variable that is not of numbers as `scan` reads a column of it.

    That is a `Category`, or numbers: objects that all are numbers, and dates in days.  Arrays of
    numbers, and what can't be read, are returned as they are.

    Raises:
      TypeError: for objects that are neither numbers nor text.
    """
    if isinstance(value, jax.Array):
        return value
    value = without_mask(value)
    try:
        host = np.asarray(value)
    except ValueError:  # ragged
        return value
    if host.ndim != 1 or not len(host):
        return value
    if str(getattr(value, "dtype", "")) == "category":  # of pandas, of any values
        missing = np.array([is_null(level) for level in host])
        ordered = _as_ordered(encode_texts(host[~missing], missing), _order_of(value))
        return ordered.values
    if str(getattr(value, "dtype", "")).startswith(("period", "interval")):
        host = value = np.asarray(_plain_values(value))
    if host.dtype.kind not in "OUSTmM":
        return value
    column = parse_column(_from_values(name, value)).values
    if isinstance(column, Unusable):
        raise TypeError(f"{name} must hold numbers or text; got {column.reason}.")
    return column if isinstance(column, Category) else as_numbers_in_days(column)


def as_numbers_in_days(column: NDArray[Any]) -> NDArray[Any]:
    """Return a parsed column as numbers: dates and durations in days, booleans as 0 and 1."""
    if column.dtype == object:  # booleans, with None
        return np.array([np.nan if value is None else value for value in column], np.float64)
    return _days(column) if column.dtype.kind in "mM" else column


def _days(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return dates as days since the first date, durations as days; NaN where missing."""
    missing = np.isnat(array)
    first = array[~missing].min() if array.dtype.kind == "M" and not missing.all() else None
    span = array - first if first is not None else array.astype("m8[us]")
    return np.where(missing, np.nan, span / np.timedelta64(1, "D"))


def _parse_objects(array: NDArray[Any], parsing: Parsing) -> ParsedColumn:
    values = array.tolist()
    if set(map(type, values)) <= {bytes, type(None)}:
        values = [value and value.decode(errors="replace") for value in values]
        array = object_array(values)
    nested = next((value for value in values if isinstance(value, _NESTED)), None)
    if nested is not None:
        reason = f"values of several parts ({type(nested).__name__}): give each a column of its own"
        return ParsedColumn(Unusable(reason))
    if set(map(type, values)) <= {str, type(None)}:
        missing = np.array([not value for value in values], bool)
        return _parse_texts([value for value in values if value], missing, parsing)
    missing = np.array([is_null(value) for value in array], bool)
    present = list(array[~missing])
    parsed = _numbers_of_objects(present)
    if parsed is not None:
        kind = parsed.dtype.kind
        if kind == "b" and not missing.any():
            return ParsedColumn(parsed)
        fill = {"b": None, "f": np.nan}.get(kind, "NaT")
        column = np.full(len(array), fill, object if kind == "b" else parsed.dtype)
        column[~missing] = parsed
        integers = [int(v) if isinstance(v, numbers.Integral) else None for v in present]
        exact = np.array([*integers, None], object)
        note = lost_digits_note(parsed, lambda rows: exact[rows].tolist()) if kind == "f" else ""
        return ParsedColumn(column, note)
    if all(isinstance(value, str | numbers.Real | datetime.time) for value in present):
        return _parse_texts(present, missing, parsing)
    return ParsedColumn(encode_texts(present, missing))


def _parse_texts(present: list[Any], missing: NDArray[np.bool_], parsing: Parsing) -> ParsedColumn:
    """Parse the present values of a column: texts, and perhaps numbers."""
    position: dict[Any, int] = {}
    codes = np.array([position.setdefault(value, len(position)) for value in present], np.intp)
    rows, sizes = np.flatnonzero(~missing), np.bincount(codes, minlength=len(position)).tolist()
    first = rows[np.unique(codes, return_index=True)[1]].tolist() if len(rows) else []
    trimmed = [str(value).strip() for value in position]
    kept: dict[bool, dict[str, Tally]] = {True: {}, False: {}}
    for tally in map(Tally, first, trimmed, sizes):
        if tally.text:
            join_tally(kept[is_missing(tally.text, parsing.missing)], tally.text, tally)
    typed = not parsing.numbers_in_text and all(isinstance(value, str) for value in position)
    texts = Texts(len(missing), [*kept[False].values()], [*kept[True].values()])
    meaning = decide_meanings({"": texts}, {"": parsing.hints}, parsing.where, typed=typed)[""]
    if meaning.skip:
        return ParsedColumn(Unusable(meaning.skip))
    levels = ["" if is_missing(text, parsing.missing) else text for text in trimmed]
    all_codes = np.full(len(missing), -1)
    all_codes[rows] = codes
    values = meaning.parse([*levels, ""] if missing.any() else levels)[all_codes]
    if not meaning.is_text:
        return ParsedColumn(values, meaning.note, meaning.kind.word)
    return ParsedColumn(encode_texts(values[values != ""], values == ""), meaning.note)


def holds_texts(column: NDArray[Any]) -> bool:
    """Return whether a parsed column holds texts, rather than booleans with None."""
    return column.dtype == object and any(isinstance(value, str) for value in column)


def is_null(value: Any) -> bool:
    """Return whether a value is None, "", NaN or NaT (unequal to themselves), or pandas.NA."""
    if value is None or isinstance(value, str):
        return not value
    return type(value).__name__ == "NAType" or value != value


_NESTED = (list, dict, set, np.ndarray)


def _numbers_of_objects(values: list[Any]) -> NDArray[Any] | None:
    """Convert objects to numbers, booleans, dates or durations; None if they are mixed or other."""
    if not values:
        return None
    if all(isinstance(v, bool | np.bool_) for v in values):
        return np.array(values, bool)
    if all(isinstance(v, numbers.Real | decimal.Decimal | np.bool_) for v in values):
        return np.array([_as_float(value) for value in values])
    if all(isinstance(v, datetime.datetime) for v in values):
        if len({v.tzinfo is None for v in values}) > 1:
            return None
        if values[0].tzinfo is not None:
            values = [value.astimezone(datetime.UTC).replace(tzinfo=None) for value in values]
        return np.array(values, "M8[us]")
    for kinds in ((datetime.date, np.datetime64), (datetime.timedelta, np.timedelta64)):
        if all(isinstance(v, kinds) and not isinstance(v, datetime.datetime) for v in values):
            return np.array(values, "M8[us]" if kinds[0] is datetime.date else "m8[us]")
    return None


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def as_frame(table: Any) -> tuple[Any, Any]:
    """Wrap a data frame in narwhals; return the names of its columns too, which may repeat.

    Those of pandas are its index.
    """
    narwhals = require("narwhals.stable.v2")
    dependencies = narwhals.dependencies
    if dependencies.is_pandas_like_dataframe(table) and not table.columns.is_unique:
        frame = narwhals.from_native(table.set_axis(range(table.shape[1]), axis=1))
        return frame, table.columns
    if dependencies.is_pyarrow_table(table) and len(set(table.column_names)) < table.num_columns:
        renamed = table.rename_columns([str(i) for i in range(table.num_columns)])
        return narwhals.from_native(renamed), list(table.column_names)
    if dependencies.is_pyarrow_table(table):
        table = as_plain(table)
    try:
        frame = narwhals.from_native(table, eager_only=True)
    except TypeError as error:
        raise TypeError(
            "table must be an array (n, p), a mapping of names to columns, or a data frame"
            f" (pandas, polars, pyarrow); got {type(table).__name__}."
        ) from error
    if dependencies.is_pandas_like_dataframe(table):
        return frame, table.columns  # of any type; None has no name
    return frame, list(frame.columns)


def from_frame(frame: Any, position: int) -> Any:
    """Convert a column of a data frame to what `parse_column` takes."""
    narwhals = require("narwhals.stable.v2")
    try:
        return _from_series(narwhals, frame[:, position])
    except Exception:  # types that narwhals, or the library of the frame, does not know
        native = frame.to_native()
        types = getattr(getattr(native, "schema", None), "types", None)
        shown = types[position] if types else "that cannot be read"
        return Unusable(f"values of type {shown}, neither numbers nor text")


def _from_series(narwhals: Any, series: Any) -> Any:
    dtype = series.dtype
    if series.is_null().all():
        return np.full(len(series), np.nan)
    if dtype == narwhals.Boolean:
        return np.array(series.to_list(), bool if not series.is_null().any() else object)
    if dtype.is_numeric():
        wide = dtype in (narwhals.Int128, narwhals.UInt128)
        integers = dtype.is_integer() and not wide and not series.is_null().any()
        return series.to_numpy() if integers else _floats(narwhals, series)
    if dtype == narwhals.Date or dtype == narwhals.Datetime:
        moments = series.cast(narwhals.Datetime("us")) if dtype == narwhals.Date else series
        return _as_moments(_floats(narwhals, moments.dt.timestamp("us")), "M8[us]")
    if dtype == narwhals.Duration:
        return _as_moments(_floats(narwhals, series.dt.total_microseconds()), "m8[us]")
    if dtype in (narwhals.Categorical, narwhals.Enum):
        missing = np.asarray(series.is_null().to_numpy())
        texts = series.cast(narwhals.String).to_list()  # pandas 2 has "nan" for missing ones
        present = [text for text, absent in zip(texts, missing, strict=True) if not absent]
        category = encode_texts(present, missing)
        return _as_ordered(category, _order_of(series.to_native()))
    if dtype == narwhals.String:
        return np.array(series.to_list(), dtype=object)
    if dtype == narwhals.Object or dtype == narwhals.Time:
        return object_array(series.to_list())
    native = series.to_native()
    plain = _plain_values(native) if dtype == narwhals.Unknown else None
    if plain is not None:
        return plain
    shown = getattr(native, "dtype", dtype) if dtype == narwhals.Unknown else dtype
    return Unusable(f"values of type {shown}, neither numbers nor text")


def _order_of(series: Any) -> list[str] | None:
    """Return the levels of an ordered category of any library in their order, None for others."""
    levels: Any = None
    if hasattr(series, "cat") and getattr(series.cat, "ordered", False):  # of pandas
        levels = series.cat.categories
    elif type(getattr(series, "dtype", None)).__name__ == "Enum":  # of polars
        levels = series.dtype.categories
    elif getattr(getattr(series, "type", None), "ordered", False):  # of pyarrow
        chunks = series.unify_dictionaries().chunks
        levels = chunks[0].dictionary.to_pylist() if chunks else None
    return None if levels is None else [str(level) for level in levels]


def _as_ordered(category: Category, order: Sequence[str] | None) -> ParsedColumn:
    """Make a category of three ordered levels or more numbers, with a note of its levels.

    A category of two levels has the same functions in any order.
    """
    if order is None or len(category.levels) < 3 or not {*category.levels} <= {*order}:
        return ParsedColumn(category)
    present = [level for level in order if level in category.levels]
    numbers = np.array([present.index(level) + 1.0 for level in category.levels] + [np.nan])
    shown = [f"{place} {level}" for place, level in enumerate(present, 1)]
    listed = ", ".join(shown[:8]) + (", ..." if len(shown) > 8 else "")
    return ParsedColumn(numbers[category.codes], f"levels in their order: {listed}")


def _plain_values(series: Any) -> NDArray[Any] | None:
    """Return a pandas column of a type of its own as numbers or dates, None for any other type.

    A period is the date on which it begins, an interval its middle.
    """
    kind = str(getattr(series, "dtype", ""))
    if kind.startswith("period"):
        return np.asarray(series.dt.to_timestamp())
    if kind.startswith("interval"):
        series = series.array.mid
    array = np.asarray(series)
    return array.astype(np.float64) if array.dtype.kind in "iuf" else None


def _floats(narwhals: Any, series: Any) -> NDArray[np.float64]:
    values = series.cast(narwhals.Float64).to_numpy()
    return np.asarray(values, np.float64)


def _as_moments(values: NDArray[np.float64], dtype: str) -> NDArray[Any]:
    """Convert microseconds to dates or durations, NaT where NaN."""
    present = np.isfinite(values)
    moments = np.where(present, values, 0).astype(np.int64).astype(dtype)
    moments[~present] = "NaT"
    return moments


def count_integers(column: NDArray[Any]) -> float:
    """Count the distinct integers of a column; infinity if it has other numbers."""
    present = column[np.isfinite(column)]
    return len(np.unique(present)) if np.array_equal(present, np.floor(present)) else np.inf


def holds_booleans(column: NDArray[Any]) -> bool:
    """Return whether all present values are booleans."""
    if column.dtype == object:
        return all(value is None or isinstance(value, bool | np.bool_) for value in column)
    return column.dtype.kind == "b"


def count_missing_values(column: Any) -> int:
    """Count the missing and the infinite values of a column of a table in memory."""
    if isinstance(column, ParsedColumn):
        column = column.values
    if isinstance(column, Unusable):
        return 0
    if isinstance(column, Category):
        return int((column.codes < 0).sum())
    array = np.asarray(column)
    if array.dtype.kind == "O":
        return sum(map(is_null, array.ravel()))
    if array.dtype.kind in "mM":
        return int(np.isnat(array).sum())
    return int((~np.isfinite(array)).sum()) if array.dtype.kind in "fc" else 0


@dataclasses.dataclass(frozen=True)
class Drawn:
    """Which rows of a table were drawn at random.

    Attributes:
      positions: ``(n,)``, positions of the rows, rising.
      rows: number of rows of the table.
      missing: number of missing values among all rows of the table, by column.
    """

    positions: NDArray[np.intp]
    rows: int
    missing: Mapping[str, int]

    @property
    def note(self) -> str:
        """How many rows were drawn, and how far values are from those of all rows."""
        count = len(self.positions)
        error = 2 / np.sqrt(count)
        digit = 10.0 ** np.floor(np.log10(error))
        within = np.ceil(error / digit) * digit
        return f"{count:,} of {self.rows:,} rows, drawn at random: values are within {within:.1g}"


@dataclasses.dataclass(frozen=True)
class Columns:
    """A table as a scan uses it: numbers, categories, and the columns left out.

    Attributes:
      names: names of all columns, unique, in order.
      numbers: ``(n, p)`` floating, NaN where missing: the columns at ``number_positions``.
      number_positions: ``(p,)``, positions in ``names``.
      categories: the columns at ``category_positions``.
      category_positions: ``(q,)``, positions in ``names``.
      skipped: the reasons why columns are left out, by name.
      notes: notes on columns that are used with a change, by name.
      frame: the narwhals frame of the table, or None.
      dates: the first dates of columns of dates, in seconds since 1970 (UTC), by name.
      labels: the names as the table has them, of any type: an index of pandas, or an array of
        objects; None where they are ``names``.
      drawn: which rows of the table these are; None for all.
      names_of_rows: codes ``(n,)``, -1 where missing, of text that is left out as names or
        identifiers, by name.
    """

    names: tuple[str, ...]
    numbers: Any
    number_positions: NDArray[np.intp]
    categories: tuple[Category, ...]
    category_positions: NDArray[np.intp]
    skipped: dict[str, str]
    notes: dict[str, str]
    frame: Any = None
    dates: Mapping[str, float] = dataclasses.field(default_factory=dict)
    labels: Any = None
    drawn: Drawn | None = None
    names_of_rows: Mapping[str, NDArray[np.integer]] = dataclasses.field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.numbers.shape[0]

    @property
    def rows_of_table(self) -> int:
        """The number of rows of the table, of which these may be a sample."""
        return self.rows if self.drawn is None else self.drawn.rows

    def positions_of(self, rows: Any) -> list[int]:
        """Return the positions in the table of some of the rows."""
        positions = rows if self.drawn is None else self.drawn.positions[np.asarray(rows, np.intp)]
        return [int(position) for position in positions]

    def missing_of(self, name: str, counted: Any) -> Any:
        """Return how many rows of the table lack a value, of which these rows have ``counted``."""
        return counted if self.drawn is None else self.drawn.missing.get(name, counted)

    @property
    def used(self) -> NDArray[np.intp]:
        """The positions of the columns that are not skipped, rising."""
        return np.sort(np.concatenate([self.number_positions, self.category_positions]))

    def take(self, positions: NDArray[np.intp]) -> Columns:
        """Return the columns at some positions, which rise."""
        numbers = np.isin(self.number_positions, positions)
        categories = np.isin(self.category_positions, positions)
        names = tuple(self.names[i] for i in positions)
        return dataclasses.replace(
            self,
            names=names,
            numbers=np.asarray(self.numbers)[:, numbers],
            number_positions=np.searchsorted(positions, self.number_positions[numbers]),
            categories=tuple(itertools.compress(self.categories, categories)),
            category_positions=np.searchsorted(positions, self.category_positions[categories]),
            notes={name: self.notes[name] for name in names if name in self.notes},
            frame=None if self.frame is None else self.frame[:, positions.tolist()],
            dates={name: self.dates[name] for name in names if name in self.dates},
            labels=None if self.labels is None else self.labels[positions],
            names_of_rows={},
        )

    def among(self, names: Sequence[str], unread: Mapping[str, str]) -> Columns:
        """Return the columns among all ``names`` of the table, some ``unread`` for a reason."""
        place_of = {name: place for place, name in enumerate(names)}
        place = np.array([place_of[name] for name in self.names], np.intp)
        return dataclasses.replace(
            self,
            names=tuple(names),
            number_positions=place[self.number_positions],
            category_positions=place[self.category_positions],
            skipped=self.skipped | dict(unread),
            frame=None,
            labels=None,
        )

    def labels_at(self, positions: NDArray[np.intp]) -> Any:
        """Return the labels of some columns, as pandas takes them for an index."""
        if self.labels is None:
            return [self.names[i] for i in positions]
        chosen = self.labels[positions]
        return chosen.tolist() if isinstance(chosen, np.ndarray) else chosen


def as_columns(
    table: Any,
    *,
    names: Sequence[str] | None = None,
    categories: Collection[str] = (),
    integers_up_to: int = 0,
    missing_level: bool = False,
    notes: Mapping[str, str] | None = None,
) -> Columns:
    """Parse the columns of a matrix or data frame.

    Booleans are numbers (their two levels span the same functions), dates are days since the first
    of the column, categorical types are categories, and `parse_column` parses text.  Infinite
    values count as missing.  `pool_rare_levels` pools rare levels, or leaves the column out.

    Args:
      table: an array ``(n, p)``, a mapping from names to columns ``(n,)``, a `Frame`, or a data
        frame that narwhals knows (pandas, polars, pyarrow, ...).
      names: names of the columns of an array; default ``x0, x1, ...``.
      categories: names of numeric columns that become categories.
      integers_up_to: largest number of distinct integers of columns that become categories too.
      missing_level: whether the missing values of a category are a level.
      notes: notes on how columns of a data frame were read, by name.

    Raises:
      TypeError: if ``table`` is not a table, or ``names`` or ``categories`` is a string.
      ValueError: for a table without rows or columns or of another shape, and for names that do
        not fit.
    """
    for option, value in (("names", names), ("categories", categories)):
        if isinstance(value, str):
            raise TypeError(f"{option} must be a sequence of names; got the string {value!r}.")
    integers_up_to = check_count("integers_up_to", integers_up_to, 0)
    categories = {str(name) for name in categories}
    builder = _Builder(integers_up_to, missing_level=missing_level)
    frame = None
    if isinstance(table, np.ndarray | jax.Array):
        if table.ndim != 2 or 0 in table.shape:
            raise ValueError(
                f"table must have shape (n, p), n and p >= 1; got shape {tuple(table.shape)}."
            )
        table = _unmasked(table)
        given_names = [f"x{i}" for i in range(table.shape[1])] if names is None else list(names)
        rows, (names, builder.notes) = table.shape[0], name_columns(given_names)
        if len(names) != table.shape[1]:
            raise ValueError(
                f"names must be {table.shape[1]}, one for each column; got {len(names)}."
            )
        if not categories and not integers_up_to and table.dtype in (np.float32, np.float64):
            columns = _columns_of_matrix(names, table, builder.notes)
            return dataclasses.replace(columns, labels=labels_of(given_names, names))
        series: list[Any] = list(np.asarray(table).T)
    else:
        if isinstance(table, Frame):
            rows, given_names = table.rows, [*table.columns, *table.skipped]
            series = [_encode_frame_column(values) for values in table.columns.values()]
            series += [Unusable(reason) for reason in table.skipped.values()]
            builder.notes |= table.notes
        elif isinstance(table, Mapping):
            check_indexes(table=table)
            given_names = list(table)
            series = [_from_values(name, values) for name, values in table.items()]
            _check_rows(given_names, series)
            rows = len(series[0]) if series else 0
        else:
            builder.notes |= notes or {}
            frame, given_names = as_frame(table)
            series = [from_frame(frame, position) for position in range(len(given_names))]
            rows = len(frame)
        if names is not None:
            raise ValueError("names are for arrays; a data frame has its own.")
        names, name_notes = name_columns(given_names)
        builder.notes |= name_notes
        if not series or rows == 0:
            raise ValueError(
                f"table must have rows and columns; got {len(series)} column(s), {rows} row(s)."
            )
    unknown = set(categories) - set(names)
    if unknown:
        raise ValueError(f"categories name no column of the table: {sorted(unknown)}.")
    for name, column in zip(names, series, strict=True):
        builder.add(name, column, as_category=name in categories)
    columns = builder.columns(tuple(names), rows, frame)
    return dataclasses.replace(columns, labels=labels_of(given_names, names))


def _encode_frame_column(values: NDArray[Any]) -> NDArray[Any] | Category:
    """Encode the texts of a `Frame`, which are parsed already, as levels."""
    if values.dtype != object:
        return values
    missing = values == ""
    return encode_texts(values[~missing], missing)


def _check_rows(names: list[Any], columns: list[NDArray[Any]]) -> None:
    if len({len(column) for column in columns}) > 1:
        pairs = zip(names[:5], columns, strict=False)
        shown = ", ".join(f"{name!r}: {len(column)}" for name, column in pairs)
        raise ValueError(f"the columns of a table must have the same number of rows; got {shown}.")


def _columns_of_matrix(names: Sequence[str], table: Any, notes: dict[str, str]) -> Columns:
    """Return the columns of a floating matrix, copied only if one is left out."""
    host = np.asarray(table)
    skipped: dict[str, str] = {}
    low, high = host.min(axis=0), host.max(axis=0)
    if not (np.isfinite(low) & np.isfinite(high)).all():
        infinite = np.isinf(host).sum(axis=0)
        if infinite.any():
            table = host = np.where(np.isinf(host), np.nan, host)
        with np.errstate(all="ignore"):
            low, high = np.fmin.reduce(host, axis=0), np.fmax.reduce(host, axis=0)
        for position in map(int, np.flatnonzero(infinite)):
            note_infinite(notes, names[position], int(infinite[position]))
    largest = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(invalid="ignore"):
        doubtful = ~(high - low > MAX_ROUNDING_STEPS * np.finfo(host.dtype).eps * largest)
        doubtful |= largest <= 1e-5  # for which the values are looked at
    for position in map(int, np.flatnonzero(doubtful)):
        present = host[~np.isnan(host[:, position]), position]
        if not len(present) or differ_by_rounding(present):
            reason = rounding_reason(present) if len(present) else constant_reason(np.nan)
            skipped[names[position]] = reason
            notes.pop(names[position], None)
    used = np.array([i for i, name in enumerate(names) if name not in skipped], np.intp)
    numbers = table if len(used) == len(names) else host[:, used]
    none = np.zeros(0, np.intp)
    return Columns(tuple(names), numbers, used, (), none, skipped, notes)


class _Builder:
    """Parses columns one by one, and collects them in `Columns`."""

    def __init__(self, integers_up_to: int, *, missing_level: bool) -> None:
        self.integers_up_to, self.missing_level = integers_up_to, missing_level
        self.numbers: dict[str, NDArray[np.float64]] = {}
        self.categories: dict[str, Category] = {}
        self.skipped: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self.dates: dict[str, float] = {}
        self.names_of_rows: dict[str, NDArray[np.integer]] = {}

    def add(self, name: str, column: Any, *, as_category: bool) -> None:
        """Parse a column, and add it or the reason why it is unusable."""
        column, note, _ = parse_column(column, Parsing(Hints(name=name)))
        if isinstance(column, Unusable):
            self.skipped[name] = column.reason
            return
        if note:
            add_note(self.notes, name, note)
        note = self.notes.get(name, "")
        self._add_parsed(name, column, as_category=as_category)
        if note and name in self.skipped:
            self.skipped[name] += f"; {note}"

    def _add_parsed(self, name: str, column: NDArray[Any] | Category, *, as_category: bool) -> None:
        if isinstance(column, np.ndarray):
            no_integers = holds_booleans(column) or column.dtype.kind in "mM"
            if column.dtype.kind == "M" and not np.isnat(column).all():
                first = column[~np.isnat(column)].min()
                self.dates[name] = float(first.astype("M8[s]").astype(np.int64))
            if column.dtype.kind == "m":
                add_note(self.notes, name, "a duration in days")
            column = as_numbers_in_days(column)
            few_integers = not no_integers and 0 < self.integers_up_to >= count_integers(column)
            if not (as_category or few_integers):
                self._add_numbers(name, column)
                return
            column = encode_numbers(column)
        self._add_category(name, column)

    def _add_numbers(self, name: str, column: NDArray[Any]) -> None:
        values = column.astype(np.float64)
        infinite = np.isinf(values)
        if infinite.any():
            values = np.where(infinite, np.nan, values)
            note_infinite(self.notes, name, int(infinite.sum()))
        present = values[~np.isnan(values)]
        digits = column.dtype if column.dtype.kind == "f" else values.dtype
        if not len(present) or differ_by_rounding(present.astype(digits)):
            reason = rounding_reason(present) if len(present) else constant_reason(np.nan)
            self._skip(name, reason)
            return
        self.numbers[name] = values

    def _add_category(self, name: str, column: Category) -> None:
        if self.missing_level:
            column = missing_as_level(column)
        category, note = pool_rare_levels(column)
        if isinstance(category, Unusable):
            self._skip(name, category.reason)
            self.names_of_rows[name] = column.codes
            return
        if note:
            add_note(self.notes, name, note)
        self.categories[name] = category

    def _skip(self, name: str, reason: str) -> None:
        self.skipped[name] = reason
        self.notes.pop(name, None)

    def columns(self, names: tuple[str, ...], rows: int, frame: Any) -> Columns:
        """Return all columns that were added."""
        position = {name: index for index, name in enumerate(names)}
        numbers = (
            np.stack(list(self.numbers.values()), axis=1) if self.numbers else np.zeros((rows, 0))
        )
        return Columns(
            names=names,
            numbers=numbers,
            number_positions=np.array([position[name] for name in self.numbers], np.intp),
            categories=tuple(self.categories.values()),
            category_positions=np.array([position[name] for name in self.categories], np.intp),
            skipped=self.skipped,
            notes=self.notes,
            frame=frame,
            dates=self.dates,
            names_of_rows=self.names_of_rows,
        )


def note_infinite(notes: dict[str, str], name: str, count: int) -> None:
    """Add a note on the infinite values of a column."""
    add_note(notes, name, f"{count} infinite value{'s' if count > 1 else ''} counted as missing")
