"""Columns of any kind (arrays, objects, frames) as numbers, dates and categories for a scan.

First one column, and the only encoder of categories; then all columns of a table.  Any data frame
is read through narwhals; matrices are taken as they are.  No column stops a scan: one that cannot
be used is left out, with its reason in words.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import numbers
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hgr_jax._checks import check_count
from hgr_jax._optional import require
from hgr_jax.core.host.linalg import memberships
from hgr_jax.tables.faults import TableError, check_names
from hgr_jax.tables.texts import MISSING, Form, infer, is_number, tell_lost_digits


@dataclasses.dataclass(frozen=True)
class Category:
    """A category: the level ``(n,)`` of every row, -1 where it is missing, and the levels.

    ``pooled`` are the rare levels that the last one stands for, if any.
    """

    codes: NDArray[np.integer]
    levels: tuple[str, ...]
    pooled: tuple[str, ...] = ()

    def one_hot(self) -> NDArray[np.float64]:
        """Return a column of zeros and ones for each level, ``(n, levels)``."""
        return memberships(self.codes, len(self.levels)).T.astype(np.float64)


@dataclasses.dataclass(frozen=True)
class Frame:
    """A whole table: its columns by name, in the order of the file.

    A column of numbers is float64 ``(n,)``, NaN where a value is missing; true and false are 1 and
    0.  A column of dates is ``datetime64``, NaT where one is missing.  A column of text is an array
    of texts ``(n,)``, empty where a value is missing.

    Attributes:
      source: the file.
      columns: by name.
      notes: remarks on columns by name, and on the file by its own.
      skipped: names of columns that are neither numbers nor text, and what they are.
      forms: how columns of numbers and of dates are written, by name.
    """

    source: str
    columns: Mapping[str, NDArray[Any]]
    notes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    skipped: Mapping[str, str] = dataclasses.field(default_factory=dict)
    forms: Mapping[str, Form] = dataclasses.field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> NDArray[Any]:
        """Return the column of that name.

        Raises:
          TableError: if there is none, with the names that come near.
        """
        if name in self.skipped:
            raise TableError(f"{self.source}: column {name!r} holds {self.skipped[name]}")
        check_names(self.source, list(self.columns), [name])
        return self.columns[name]

    def is_text(self, name: str) -> bool:
        """Return whether the column holds text."""
        return self.column(name).dtype == object

    def missing(self, name: str) -> NDArray[np.bool_]:
        """Return the rows ``(n,)`` without a value that can be used: missing, or infinite."""
        column = self.column(name)
        if column.dtype.kind == "M":
            return np.isnat(column)
        return column == "" if self.is_text(name) else ~np.isfinite(column)

    def take(self, rows: NDArray[Any]) -> Frame:
        """Return the table of some rows, by positions or by a mask."""
        return self._with({name: column[rows] for name, column in self.columns.items()})

    def without(self, names: Sequence[str]) -> Frame:
        """Return the table without some columns.

        Raises:
          TableError: if there is no such column.
        """
        check_names(self.source, [*self.columns, *self.skipped], names)
        kept = {name: column for name, column in self.columns.items() if name not in names}
        return self._with(kept)

    def first_dates(self) -> dict[str, str]:
        """Return the first date of every column of dates, as text."""
        return {
            name: str(np.nanmin(column)).removesuffix("T00:00:00")
            for name, column in self.columns.items()
            if column.dtype.kind == "M" and not np.isnat(column).all()
        }

    def in_days(self) -> Frame:
        """Return the table with dates as days since the first of their column."""
        notes, columns = dict(self.notes), dict(self.columns)
        for name, first in self.first_dates().items():
            columns[name] = as_array(columns[name])
            notes[name] = "; ".join(filter(None, [notes.get(name), f"days since {first}"]))
        return dataclasses.replace(self, columns=columns, notes=notes)

    def _with(self, columns: Mapping[str, NDArray[Any]]) -> Frame:
        known = {self.source, *columns}
        notes = {name: note for name, note in self.notes.items() if name in known}
        skipped = {name: why for name, why in self.skipped.items() if name not in columns}
        forms = {name: form for name, form in self.forms.items() if name in columns}
        return Frame(self.source, columns, notes, skipped, forms)


def encode_texts(
    texts: Sequence[Any] | NDArray[Any], missing: NDArray[np.bool_] | None = None
) -> Category:
    """Return texts (of other objects, their texts) as a category; its levels are sorted.

    Args:
      texts: of n rows, without those that are missing.
      missing: ``(n,)``, which rows are; none if None.
    """
    # An empty one more keeps an array of texts where there is none.
    levels, codes = np.unique(np.array([*map(str, texts), ""])[:-1], return_inverse=True)
    return _category(levels.tolist(), codes, missing)


def encode_numbers(array: NDArray[Any]) -> Category:
    """Return the distinct values of a column of numbers as levels; infinite ones are missing."""
    missing = ~np.isfinite(array)
    levels, codes = np.unique(array[~missing], return_inverse=True)
    return _category([number_as_text(level) for level in levels], codes, missing)


def encode_known(texts: NDArray[Any], levels: Sequence[str]) -> NDArray[np.intp]:
    """Return the positions of texts among levels, -1 for one that is not there."""
    position = {level: i for i, level in enumerate(levels)}
    return np.array([position.get(text, -1) for text in texts.tolist()], np.intp)


def _category(
    levels: list[str], codes: NDArray[np.intp], missing: NDArray[np.bool_] | None
) -> Category:
    if missing is None:
        return Category(codes, tuple(levels))
    of_all = np.full(len(missing), -1, np.intp)
    of_all[~missing] = codes
    return Category(of_all, tuple(levels))


def number_as_text(number: Any) -> str:
    """Return a NumPy number in the few digits that tell it from all others of its type."""
    short = f"{float(number):g}"
    read = number.dtype.type(short) if number.dtype.kind == "f" else float(short)
    return short if read == number.item() else str(number).removesuffix(".0")


@dataclasses.dataclass(frozen=True)
class Unusable:
    """Why a column cannot be used."""

    reason: str


class Settled(NamedTuple):
    """A column as it can be used, a remark on it, and how its texts are written, if it has any."""

    values: NDArray[Any] | Category | Unusable
    note: str = ""
    form: Form | None = None


def unique_names(given: Sequence[str]) -> list[str]:
    """Return a name of its own for every column: by its position if it has none, or numbered.

    A made-up name is never one of those given.

    Example:
      >>> from hgr_jax.tables.columns import unique_names
      >>> unique_names(["x", "", "x"])
      ['x', 'column 2', 'x (2)']
    """
    taken = set(given)
    found: dict[str, None] = {}
    for position, own in enumerate(given, 1):
        name = own or f"column {position}"
        unique, number = name, 2
        while unique in found or (unique != own and unique in taken):
            unique, number = f"{name} ({number})", number + 1
        found[unique] = None
    return list(found)


def name_columns(given: Sequence[Any]) -> tuple[list[str], dict[str, str]]:
    """Return `unique_names`, and a remark on each that is made up."""
    own = [str(name) for name in given]
    names, notes = unique_names(own), {}
    for name, unique in zip(own, names, strict=True):
        if unique != name:
            notes[unique] = f"another column is called {name!r} too" if name else "it has no name"
    return names, notes


def add_note(notes: dict[str, str], name: str, remark: str) -> None:
    """Add a remark on a column."""
    notes[name] = f"{notes[name]}; {remark}" if name in notes else remark


def plain(table: Any) -> Any:
    """Return a matrix without a mask, and of a type that NumPy knows."""
    if isinstance(table, np.ma.MaskedArray):
        if table.dtype.kind in "fiub":
            return np.ma.filled(table.astype(np.float64), np.nan)
        objects = table.data.astype(object)
        objects[np.ma.getmaskarray(table)] = None
        return objects
    if jnp.issubdtype(table.dtype, jnp.floating) and table.dtype.kind == "V":
        return table.astype(np.float32)
    return np.asarray(table) if isinstance(table, np.ndarray) else table


def from_values(name: Any, values: Any) -> NDArray[Any]:
    """Return a column of a mapping as an array, of objects where NumPy would make text of them."""
    if isinstance(values, np.ma.MaskedArray):
        return np.asarray(plain(values))
    try:
        array = np.asarray(values)
    except ValueError:  # ragged
        array = None
    if array is not None and array.ndim == 0:
        raise TypeError(f"column {name!r} must hold a value for every row; got {values!r:.60}.")
    if array is None or (array.dtype.kind in "US" and not isinstance(values, np.ndarray)):
        array = np.array([*values, None], dtype=object)[:-1]
    return array


def settle(
    column: Any,
    *,
    point: str | None = None,
    form: Form | None = None,
    also_missing: Collection[str] = (),
    where: Callable[[int], str] = "in row {}".format,
    numbers_in_text: bool = False,
) -> Settled:
    """Return a NumPy column as numbers, booleans, dates, durations or levels, and a remark.

    Texts are what `infer` finds in them.  Texts that all are plain numbers stay texts: what reads
    files makes numbers of those, so somebody has made texts of them.  ``numbers_in_text`` says
    that nobody has.

    Args:
      column: ``(n,)``, or what is settled already.
      point: the decimal point of texts; None to find it out.
      form: how texts are written; None to find it out.
      also_missing: texts, in lower case, that stand for a missing value too.
      where: says where a row is.
    """
    if isinstance(column, Unusable | Category):
        return Settled(column)
    array = np.asarray(column)
    if array.ndim != 1:
        return Settled(Unusable(f"values of shape {array.shape[1:]}, neither numbers nor text"))
    if array.dtype.kind in "iu":
        return Settled(array, _tell_lost_digits_of_integers(array))
    if array.dtype.kind in "fbmM":
        return Settled(array)
    if array.dtype.kind in "USO":
        try:
            return _settle_objects(array, point, form, also_missing, where, numbers_in_text)
        except Exception as error:  # of the objects' own methods
            reason = f"values that cannot be read as numbers or text ({type(error).__name__})"
            return Settled(Unusable(reason))
    return Settled(Unusable(f"values of type {array.dtype}, neither numbers nor text"))


def as_array(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column that is settled as numbers: dates and durations as days."""
    if column.dtype == object:  # booleans, with None
        return np.array([np.nan if value is None else value for value in column], np.float64)
    return _days(column) if column.dtype.kind in "mM" else column


def _days(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return dates as days since the first, durations as days; NaN where missing."""
    missing = np.isnat(array)
    first = array[~missing].min() if array.dtype.kind == "M" and not missing.all() else None
    span = array - first if first is not None else array.astype("m8[us]")
    return np.where(missing, np.nan, span / np.timedelta64(1, "D"))


def _settle_objects(
    array: NDArray[Any],
    point: str | None,
    form: Form | None,
    also_missing: Collection[str],
    where: Callable[[int], str],
    numbers_in_text: bool,
) -> Settled:
    values = array.tolist()
    if set(map(type, values)) <= {str, type(None)}:
        missing = np.array([not value for value in values], bool)
        present = [value for value in values if value]
        made = not numbers_in_text
        return _settle_texts(present, missing, point, form, also_missing, where, made_texts=made)
    missing = np.array([_is_missing(value) for value in array], bool)
    present = list(array[~missing])
    found = _numbers_of_objects(present)
    if found is not None:
        empty = np.datetime64("NaT") if found.dtype.kind in "mM" else None
        if found.dtype.kind == "b" and not missing.any():
            return Settled(found)
        kind = object if found.dtype.kind == "b" else found.dtype
        whole = np.full(len(array), np.nan if found.dtype.kind == "f" else empty, kind)
        whole[~missing] = found
        integers = [int(v) if isinstance(v, numbers.Integral) else None for v in present]
        places = np.flatnonzero(~missing)
        note = ""
        if found.dtype.kind == "f":
            exact = dict(zip(places.tolist(), integers, strict=True))
            note = tell_lost_digits(whole, lambda rows: [exact[row] for row in rows.tolist()])
        return Settled(whole, note)
    if all(isinstance(value, str | numbers.Real | datetime.time) for value in present):
        made = not numbers_in_text and all(isinstance(value, str) for value in present)
        return _settle_texts(present, missing, point, form, also_missing, where, made_texts=made)
    return Settled(encode_texts(present, missing))


def _settle_texts(
    present: list[Any],
    missing: NDArray[np.bool_],
    point: str | None,
    form: Form | None,
    also_missing: Collection[str],
    where: Callable[[int], str],
    *,
    made_texts: bool,
) -> Settled:
    """Return what texts, some of them perhaps numbers, are; ``made_texts``: they may be codes."""
    known = MISSING.union(also_missing)
    position: dict[Any, int] = {}
    codes = np.array([position.setdefault(value, len(position)) for value in present], np.intp)
    trimmed = [str(value).strip() for value in position]
    clean = ["" if text.lower() in known else text for text in trimmed]
    texts = np.full(len(missing), "", object)
    texts[~missing] = np.array([*clean, None], object)[codes]
    note = ""
    if present and made_texts and form is None and all(map(is_number, filter(None, trimmed))):
        note = "texts that all are numbers are a category; convert them to have numbers"
    else:
        inferred = infer(texts, point=point, form=form, where=where)
        if not holds_texts(inferred.values):
            return Settled(inferred.values, inferred.note, inferred.form)
    gone = [i for i, (old, new) in enumerate(zip(trimmed, clean, strict=True)) if old != new]
    if gone:
        count, first = int(np.isin(codes, gone).sum()), trimmed[gone[0]]
        note = "; ".join(filter(None, [note, f"{count:,} texts such as {first!r} are missing"]))
    return Settled(encode_texts(texts[texts != ""], texts == ""), note)


def holds_texts(column: NDArray[Any]) -> bool:
    """Return whether a column that is settled holds texts (and not booleans, with None)."""
    return column.dtype == object and any(isinstance(value, str) for value in column)


def _tell_lost_digits_of_integers(array: NDArray[Any]) -> str:
    return tell_lost_digits(array.astype(np.float64), lambda rows: array[rows].tolist())


def _is_missing(value: Any) -> bool:
    """Return whether it is None, "", NaN or NaT (unequal to themselves), or pandas.NA."""
    if value is None or isinstance(value, str):
        return not value
    return type(value).__name__ == "NAType" or value != value


def _numbers_of_objects(values: list[Any]) -> NDArray[Any] | None:
    """Return numbers, booleans, dates or durations; None for values not all of one kind."""
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


def as_frame(table: Any) -> tuple[Any, list[str]]:
    """Return a data frame as narwhals sees it, and the names of its columns, perhaps not unique."""
    narwhals = require("narwhals.stable.v2", "table")
    known = narwhals.dependencies
    if known.is_pandas_like_dataframe(table) and not table.columns.is_unique:
        frame = narwhals.from_native(table.set_axis(range(table.shape[1]), axis=1))
        return frame, [str(name) for name in table.columns]
    if known.is_pyarrow_table(table) and len(set(table.column_names)) < table.num_columns:
        renamed = table.rename_columns([str(i) for i in range(table.num_columns)])
        return narwhals.from_native(renamed), list(table.column_names)
    try:
        frame = narwhals.from_native(table, eager_only=True)
    except TypeError as error:
        raise TypeError(
            "table must be an array (n, p), a mapping of names to columns, or a data frame"
            f" (pandas, polars, pyarrow); got {type(table).__name__}."
        ) from error
    return frame, [str(name) for name in frame.columns]


def from_frame(frame: Any, position: int) -> Any:
    """Return a column of a data frame as NumPy numbers, dates, levels, or the reason against it."""
    narwhals = require("narwhals.stable.v2", "table")
    series = frame[:, position]
    dtype = series.dtype
    if series.is_null().all():
        return np.full(len(series), np.nan)
    if dtype == narwhals.Boolean:
        return np.array(series.to_list(), bool if not series.is_null().any() else object)
    if dtype.is_numeric():
        wide = dtype in (narwhals.Int128, narwhals.UInt128)
        whole = dtype.is_integer() and not wide and not series.is_null().any()
        return series.to_numpy() if whole else _floats(narwhals, series)
    if dtype == narwhals.Date or dtype == narwhals.Datetime:
        moments = series.cast(narwhals.Datetime("us")) if dtype == narwhals.Date else series
        return _whole(_floats(narwhals, moments.dt.timestamp("us")), "M8[us]")
    if dtype == narwhals.Duration:
        return _whole(_floats(narwhals, series.dt.total_microseconds()), "m8[us]")
    if dtype in (narwhals.Categorical, narwhals.Enum):
        texts = series.cast(narwhals.String).to_list()
        missing = np.array([text is None for text in texts])
        return encode_texts([text for text in texts if text is not None], missing)
    if dtype == narwhals.String:
        return np.array(series.to_list(), dtype=object)
    if dtype == narwhals.Object or dtype == narwhals.Time:
        return np.array([*series.to_list(), None], dtype=object)[:-1]
    shown = getattr(series.to_native(), "dtype", dtype) if dtype == narwhals.Unknown else dtype
    return Unusable(f"values of type {shown}, neither numbers nor text")


def _floats(narwhals: Any, series: Any) -> NDArray[np.float64]:
    values = series.cast(narwhals.Float64).to_numpy()
    return np.asarray(values, np.float64)


def _whole(values: NDArray[np.float64], dtype: str) -> NDArray[Any]:
    """Return microseconds as dates or durations, NaT where NaN."""
    there = np.isfinite(values)
    found = np.where(there, values, 0).astype(np.int64).astype(dtype)
    found[~there] = np.timedelta64("NaT") if dtype[0] == "m" else np.datetime64("NaT")
    return found


def whole_values(column: NDArray[Any]) -> float:
    """Return how many distinct values a column of integers has; infinity for any other."""
    present = column[np.isfinite(column)]
    return len(np.unique(present)) if np.array_equal(present, np.floor(present)) else np.inf


def holds_flags(column: NDArray[Any]) -> bool:
    """Return whether all values that are present are booleans."""
    if column.dtype == object:
        return all(value is None or isinstance(value, bool | np.bool_) for value in column)
    return column.dtype.kind == "b"


OTHER = "(other levels)"
"""The level into which rare ones are pooled."""

MIN_LEVEL_ROWS = 5
MIN_LEVEL_SHARE = 0.01
MAX_POOLED_SHARE = 0.5


@dataclasses.dataclass(frozen=True)
class Columns:
    """A table: for every name its column, or the reason why it is left out.

    Attributes:
      names: of all columns, unique, in their order.
      numbers: ``(n, p)`` floating, NaN where missing, of the columns ``number_positions``.
      number_positions: ``(p,)``, positions in ``names``.
      categories: of the columns ``category_positions``.
      category_positions: ``(q,)``, positions in ``names``.
      skipped: name and reason of every column that is left out.
      notes: name and remark of columns that are used, but not quite as they are.
      frame: the data frame that the columns came from, or None.
      dates: of the columns of dates, the first, in seconds since 1970 (UTC).
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

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.numbers.shape[0]


def as_columns(
    table: Any,
    *,
    names: Sequence[str] | None = None,
    categories: Collection[str] = (),
    integers_up_to: int = 0,
) -> Columns:
    """Return the columns of a matrix or data frame.

    Args:
      table: an array ``(n, p)``, a mapping from names to columns ``(n,)``, a `Frame`, or a data
        frame that narwhals knows (pandas, polars, pyarrow, ...).
      names: of the columns of an array; default ``x0, x1, ...``.
      categories: names of numeric columns to be read as categories.
      integers_up_to: integer columns of at most so many distinct values are categories too.

    Booleans are numbers (their two levels span the same functions), dates are days since the
    column's first, categorical types are categories, and text is what `settle` takes it for.
    Infinite values count as missing.  Levels held by fewer than `MIN_LEVEL_ROWS` rows or
    `MIN_LEVEL_SHARE` of those present are pooled into one; a column of which more than
    `MAX_POOLED_SHARE` would be pooled is left out.

    Raises:
      TypeError: for what is no table, or one string for ``names`` or ``categories``.
      ValueError: for one without rows or columns, of another shape, for a number of names that is
        not that of the columns, or for a name in ``categories`` that no column has.
    """
    for option, value in (("names", names), ("categories", categories)):
        if isinstance(value, str):
            raise TypeError(f"{option} must be a sequence of names; got the string {value!r}.")
    integers_up_to = check_count("integers_up_to", integers_up_to, 0)
    categories = {str(name) for name in categories}
    builder = _Builder(integers_up_to)
    frame = None
    if isinstance(table, np.ndarray | jax.Array):
        if table.ndim != 2 or 0 in table.shape:
            raise ValueError(
                f"table must have shape (n, p), n and p >= 1; got shape {tuple(table.shape)}."
            )
        table = plain(table)
        given = [f"x{i}" for i in range(table.shape[1])] if names is None else list(names)
        names, rows = _named(given, builder), table.shape[0]
        if len(names) != table.shape[1]:
            raise ValueError(
                f"names must be {table.shape[1]}, one for each column; got {len(names)}."
            )
        if not categories and not integers_up_to and table.dtype in (np.float32, np.float64):
            return _matrix(names, table, builder.notes)
        series: list[Any] = list(np.asarray(table).T)
    else:
        if isinstance(table, Frame):
            own_names = [*table.columns, *table.skipped]
            series = [_with_levels(values) for values in table.columns.values()]
            series += [Unusable(reason) for reason in table.skipped.values()]
            builder.notes |= table.notes
        elif isinstance(table, Mapping):
            own_names = [str(name) for name in table]
            series = [from_values(name, values) for name, values in table.items()]
            _check_rows(own_names, series)
        else:
            frame, own_names = as_frame(table)
            series = [from_frame(frame, position) for position in range(len(own_names))]
        if names is not None:
            raise ValueError("names are for arrays; a data frame has its own.")
        names = _named(own_names, builder)
        if isinstance(table, Frame):
            rows = table.rows
        else:
            rows = len(frame) if frame is not None else len(series[0]) if series else 0
        if not series or rows == 0:
            raise ValueError(
                f"table must have rows and columns; got {len(series)} column(s), {rows} row(s)."
            )
    unknown = set(categories) - set(names)
    if unknown:
        raise ValueError(f"categories name no column of the table: {sorted(unknown)}.")
    for name, column in zip(names, series, strict=True):
        builder.add(name, column, as_category=name in categories)
    return builder.columns(tuple(names), rows, frame)


def _with_levels(values: NDArray[Any]) -> NDArray[Any] | Category:
    """Return a column of a `Frame` with its texts as levels, so that none is read again."""
    if values.dtype != object:
        return values
    missing = values == ""
    return encode_texts(values[~missing], missing)


def _check_rows(names: list[str], columns: list[NDArray[Any]]) -> None:
    if len({len(column) for column in columns}) > 1:
        pairs = zip(names[:5], columns, strict=False)
        shown = ", ".join(f"{name!r}: {len(column)}" for name, column in pairs)
        raise ValueError(f"the columns of a table must have the same number of rows; got {shown}.")


def _matrix(names: Sequence[str], table: Any, notes: dict[str, str]) -> Columns:
    """Take a floating matrix whole, without a copy unless there is something to leave out."""
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
    for position in map(int, np.flatnonzero(~(low < high))):
        skipped[names[position]] = constant_reason(low[position])
        notes.pop(names[position], None)
    used = np.array([i for i, name in enumerate(names) if name not in skipped], np.intp)
    numbers = table if len(used) == len(names) else host[:, used]
    none = np.zeros(0, np.intp)
    return Columns(tuple(names), numbers, used, (), none, skipped, notes)


class _Builder:
    """Columns of any kind, one after the other."""

    def __init__(self, integers_up_to: int) -> None:
        self.integers_up_to = integers_up_to
        self.numbers: dict[str, NDArray[np.float64]] = {}
        self.categories: dict[str, Category] = {}
        self.skipped: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self.dates: dict[str, float] = {}

    def add(self, name: str, column: Any, *, as_category: bool) -> None:
        """Add a column: an array of numbers, dates, booleans or text, or the reason against it."""
        column, note, _ = settle(column)
        if isinstance(column, Unusable):
            self.skipped[name] = column.reason
            return
        if note:
            add_note(self.notes, name, note)
        self._add_settled(name, column, as_category=as_category)
        if note and name in self.skipped:
            self.skipped[name] += f"; {note}"

    def _add_settled(
        self, name: str, column: NDArray[Any] | Category, *, as_category: bool
    ) -> None:
        if isinstance(column, np.ndarray):
            flags = holds_flags(column)
            if column.dtype.kind == "M" and not np.isnat(column).all():
                first = column[~np.isnat(column)].min()
                self.dates[name] = float(first.astype("M8[s]").astype(np.int64))
            column = as_array(column)
            few = not flags and 0 < self.integers_up_to >= whole_values(column)
            if not (as_category or few):
                self._add_numbers(name, column.astype(np.float64))
                return
            column = encode_numbers(column)
        self._add_category(name, column)

    def _add_numbers(self, name: str, values: NDArray[np.float64]) -> None:
        infinite = np.isinf(values)
        if infinite.any():
            values = np.where(infinite, np.nan, values)
            note_infinite(self.notes, name, int(infinite.sum()))
        present = values[~np.isnan(values)]
        if not len(present) or present.min() == present.max():
            self._skip(name, constant_reason(present[0] if len(present) else np.nan))
            return
        self.numbers[name] = values

    def _add_category(self, name: str, column: Category) -> None:
        counts = np.bincount(column.codes[column.codes >= 0], minlength=len(column.levels))
        pooled = pooled_levels(counts, column.levels)
        if isinstance(pooled.kept, str):
            self._skip(name, pooled.kept)
            return
        kept, rare = pooled.kept, pooled.rare
        new = np.full(len(counts) + 1, -1, np.int32)
        new[kept] = np.arange(len(kept))
        levels = [column.levels[i] for i in kept]
        new[rare] = len(kept)
        if len(rare):
            levels.append(OTHER)
            add_note(self.notes, name, pooled.remark)
        names = tuple(column.levels[i] for i in rare)
        self.categories[name] = Category(new[column.codes], tuple(levels), names)

    def _skip(self, name: str, reason: str) -> None:
        self.skipped[name] = reason
        self.notes.pop(name, None)

    def columns(self, names: tuple[str, ...], rows: int, frame: Any) -> Columns:
        """Return the table of what was added."""
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
        )


class PooledLevels(NamedTuple):
    """Which levels of a category are pooled.

    Attributes:
      kept: positions of the levels that are kept, or why the column is left out.
      rare: positions of the levels that are pooled into one: none, or two or more.
      remark: on these.
    """

    kept: NDArray[np.intp] | str
    rare: NDArray[np.intp]
    remark: str = ""


def pooled_levels(counts: NDArray[Any], levels: Sequence[str]) -> PooledLevels:
    """Return which levels of a category, of so many rows each, are pooled; see `as_columns`."""
    none = np.zeros(0, np.intp)
    present, distinct = counts.sum(), np.count_nonzero(counts)
    if distinct < 2:
        single = levels[int(counts.argmax())] if present else np.nan
        return PooledLevels(constant_reason(single), none)
    rare = (counts > 0) & ((counts < MIN_LEVEL_ROWS) | (counts < MIN_LEVEL_SHARE * present))
    if counts[rare].sum() > MAX_POOLED_SHARE * present:
        least = max(MIN_LEVEL_ROWS, int(np.ceil(MIN_LEVEL_SHARE * present)))
        reason = f"text with {distinct} levels, most of them in fewer than {least} rows"
        return PooledLevels(reason, none)
    pooled = np.flatnonzero(rare)
    if len(pooled) < 2:
        return PooledLevels(np.flatnonzero(counts > 0), none)
    remark = f"{len(pooled)} rare levels ({counts[rare].sum()} rows) are pooled"
    return PooledLevels(np.flatnonzero((counts > 0) & ~rare), pooled, remark)


def constant_reason(value: float | str) -> str:
    """Return why a column of one value is left out, or, if that is NaN, of none."""
    if isinstance(value, str):
        return f"every value that is present is {value!r}"
    return "no value is present" if np.isnan(value) else f"every value that is present is {value:g}"


def note_infinite(notes: dict[str, str], name: str, count: int) -> None:
    """Add a remark on infinite values of a column."""
    add_note(notes, name, f"{count} infinite value{'s' if count > 1 else ''} counted as missing")


def _named(given: Sequence[Any], builder: _Builder) -> list[str]:
    """Return `unique_names`, with a remark on those that are made up."""
    names, notes = name_columns(given)
    builder.notes |= notes
    return names
