"""The columns of a table as numbers and categories: what a scan reads.

Any data frame is read through narwhals; matrices are taken as they are.  No column stops
anything: one that cannot be used is left out, with its reason in words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from hgr_jax._checks import check_count
from hgr_jax.tables.convert import (
    Category,
    Unusable,
    add_note,
    as_array,
    as_frame,
    encode_numbers,
    encode_texts,
    from_frame,
    from_values,
    holds_flags,
    name_columns,
    plain,
    settle,
    whole_values,
)
from hgr_jax.tables.files import Frame

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
