"""Tables: one that was read from a file, and one as a scan uses it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import is_array
from hgr_jax._checks import check_count, check_indexes
from hgr_jax._optional import require
from hgr_jax._texts import counted, first_names, grouped
from hgr_jax.tables.arrays import (
    as_frame,
    as_numbers_in_days,
    from_frame,
    from_values,
    host_values,
    parse_column,
)
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
from hgr_jax.tables.meanings import Hints


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
    """Add a note on a column, unless it is empty."""
    if note:
        notes[name] = f"{notes[name]}; {note}" if name in notes else note


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
    builder = _Builder(categories, integers_up_to, missing_level=missing_level)
    is_matrix, frame = is_array(table), None
    if names is not None and not is_matrix:
        raise ValueError("names are for arrays; a data frame has its own.")
    if is_matrix:
        if table.ndim != 2 or 0 in table.shape:
            raise ValueError(
                f"table must have shape (n, p), n and p >= 1; got shape {tuple(table.shape)}."
            )
        table = host_values(table)
        given_names = [f"x{i}" for i in range(table.shape[1])] if names is None else list(names)
        if len(given_names) != table.shape[1]:
            raise ValueError(
                f"names must be {table.shape[1]}, one for each column; got {len(given_names)}."
            )
        rows, series = table.shape[0], list(np.ascontiguousarray(np.asarray(table).T))
    elif isinstance(table, Frame):
        rows, given_names = table.rows, [*table.columns, *table.skipped]
        series = [_encode_frame_column(values) for values in table.columns.values()]
        series += [Unusable(reason) for reason in table.skipped.values()]
        builder.notes |= table.notes
    elif isinstance(table, Mapping):
        check_indexes(table=table)
        given_names = list(table)
        series = [from_values(name, values) for name, values in table.items()]
        counts = dict(zip(given_names, map(len, series), strict=True))
        rows = max(counts.values(), default=0)
        if {*counts.values()} - {rows}:
            shown = ", ".join(f"{name!r}: {count}" for name, count in [*counts.items()][:5])
            raise ValueError(
                f"the columns of a table must have the same number of rows; got {shown}."
            )
    else:
        builder.notes |= notes or {}
        frame, given_names = as_frame(table)
        rows = len(frame)
        series = [from_frame(frame, position) for position in range(len(given_names))]
    if not series or rows == 0:
        raise ValueError(
            f"table must have rows and columns; got {len(series)} column(s), {rows} row(s)."
        )
    names, name_notes = name_columns(given_names)
    builder.notes |= name_notes
    labels = labels_of(given_names, names)
    if unknown := categories - set(names):
        raise ValueError(f"categories name no column of the table: {sorted(unknown)}.")
    plain = is_matrix and not categories and not integers_up_to
    if plain and table.dtype in (np.float32, np.float64) and _holds_only_numbers(np.asarray(table)):
        all_of_them, none = np.arange(len(names)), np.zeros(0, np.intp)
        return Columns(tuple(names), table, all_of_them, (), none, {}, builder.notes, labels=labels)
    for name, column in zip(names, series, strict=True):
        builder.add(name, column)
    return builder.columns(names, rows, frame, labels)


def _encode_frame_column(values: NDArray[Any]) -> NDArray[Any] | Category:
    """Encode the texts of a `Frame`, which are parsed already, as levels."""
    if values.dtype != object:
        return values
    missing = values == ""
    return encode_texts(values[~missing], missing)


def _holds_only_numbers(matrix: NDArray[Any]) -> bool:
    """Tell whether all values of a floating matrix are finite, and no column may be constant."""
    low, high = matrix.min(axis=0), matrix.max(axis=0)
    largest = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(invalid="ignore", over="ignore"):
        varied = high - low > MAX_ROUNDING_STEPS * np.finfo(matrix.dtype).eps * largest
    return bool((varied & np.isfinite(largest) & (largest > 1e-5)).all())


class _Builder:
    """Parses columns one by one, and collects them in `Columns`."""

    def __init__(
        self, categories: Collection[str], integers_up_to: int, *, missing_level: bool
    ) -> None:
        self.as_categories, self.integers_up_to = categories, integers_up_to
        self.missing_level = missing_level
        self.numbers: dict[str, NDArray[np.float64]] = {}
        self.categories: dict[str, Category] = {}
        self.skipped: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self.dates: dict[str, float] = {}
        self.names_of_rows: dict[str, NDArray[np.integer]] = {}

    def add(self, name: str, column: Any) -> None:
        """Parse a column, and add it or the reason why it is unusable."""
        column, note, _ = parse_column(column, Hints(name=name, typed=True))
        add_note(self.notes, name, note)
        note = "" if isinstance(column, Unusable) else self.notes.get(name, "")
        if isinstance(column, np.ndarray):
            column = self._as_numbers(name, column)
        if isinstance(column, Category):
            column = self._as_category(name, column)
        if isinstance(column, Unusable):
            self.notes.pop(name, None)
            self.skipped[name] = "; ".join(filter(None, [column.reason, note]))
        elif isinstance(column, Category):
            self.categories[name] = column
        else:
            self.numbers[name] = column

    def _as_numbers(
        self, name: str, column: NDArray[Any]
    ) -> NDArray[np.float64] | Category | Unusable:
        """Return a parsed column as numbers, the category that was asked for, or why as neither."""
        kind = column.dtype.kind
        if kind == "M" and not np.isnat(column).all():
            first = column[~np.isnat(column)].min()
            self.dates[name] = float(first.astype("M8[s]").astype(np.int64))
        if kind == "m":
            add_note(self.notes, name, "a duration in days")
        column = as_numbers_in_days(column)
        values = column.astype(np.float64)
        present = values[np.isfinite(values)]
        few = self.integers_up_to and kind in "iuf" and np.array_equal(present, np.floor(present))
        if name in self.as_categories or (few and len(np.unique(present)) <= self.integers_up_to):
            return encode_numbers(column)
        infinite = np.isinf(values)
        if infinite.any():
            values[infinite] = np.nan
            said = f"{counted(int(infinite.sum()), 'infinite value')} counted as missing"
            add_note(self.notes, name, said)
        if not len(present):
            return Unusable(constant_reason(np.nan))
        digits = column.dtype if column.dtype.kind == "f" else values.dtype
        rounded = differ_by_rounding(present.astype(digits))
        return Unusable(rounding_reason(present)) if rounded else values

    def _as_category(self, name: str, column: Category) -> Category | Unusable:
        category, note = pool_rare_levels(
            missing_as_level(column) if self.missing_level else column
        )
        add_note(self.notes, name, note)
        if isinstance(category, Unusable):
            self.names_of_rows[name] = column.codes
        return category

    def columns(self, names: Sequence[str], rows: int, frame: Any, labels: Any) -> Columns:
        """Return all columns that were added."""
        position = {name: index for index, name in enumerate(names)}
        numbers = np.array(list(self.numbers.values())).reshape(len(self.numbers), rows)
        return Columns(
            names=tuple(names),
            numbers=np.ascontiguousarray(numbers.T),
            number_positions=np.array([position[name] for name in self.numbers], np.intp),
            categories=tuple(self.categories.values()),
            category_positions=np.array([position[name] for name in self.categories], np.intp),
            skipped=self.skipped,
            notes=self.notes,
            frame=frame,
            dates=self.dates,
            labels=labels,
            names_of_rows=self.names_of_rows,
        )
