"""CSV and Parquet files: names, missing values, and one clear message for what cannot be read."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import difflib
import functools
import io
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._optional import require
from hgr_jax.tables.convert import unique_names

MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})
"""Entries of a file that stand for a missing value, in any case."""

DELIMITERS = ",;\t|"

_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?)?$"


class TableError(ValueError):
    """A file or column that cannot be used, with the reason in one line."""


@dataclasses.dataclass(frozen=True)
class Frame:
    """A whole table: its columns by name, in the order of the file.

    A column of numbers is float64 ``(n,)``, NaN where a value is missing.  A column with text is
    an array of texts ``(n,)``, empty where a value is missing.
    """

    source: str
    columns: Mapping[str, NDArray[Any]]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> NDArray[Any]:
        """Return the column of that name.

        Raises:
          TableError: if there is none, with the names that come near.
        """
        header = list(self.columns)
        return self.columns[header[_position(self.source, header, name)]]

    def is_text(self, name: str) -> bool:
        """Return whether the column holds text."""
        return self.column(name).dtype == object

    def missing(self, name: str) -> NDArray[np.bool_]:
        """Return the rows ``(n,)`` without a value that can be used: missing, or infinite."""
        column = self.column(name)
        return column == "" if self.is_text(name) else ~np.isfinite(column)

    def take(self, rows: NDArray[Any]) -> Frame:
        """Return the table of some rows, by positions or by a mask."""
        return Frame(self.source, {name: column[rows] for name, column in self.columns.items()})

    def without(self, names: Sequence[str]) -> Frame:
        """Return the table without some columns.

        Raises:
          TableError: if there is no such column.
        """
        for name in names:
            self.column(name)
        kept = {name: column for name, column in self.columns.items() if name not in names}
        return Frame(self.source, kept)


def read_columns(path: str | Path, names: Sequence[str]) -> list[NDArray[np.float64]]:
    """Read numeric columns of a CSV file, NaN where a value is missing.

    The first line holds the names.  The delimiter is the one of comma, semicolon, tab and bar
    that occurs most in it.  Blank lines are skipped.

    Args:
      path: a UTF-8 file.
      names: the columns wanted; a name may occur twice.

    Raises:
      TableError: no such file, not text, no header or no rows, a row of another length than the
        header, an unknown or ambiguous column, text in a column, or a column all missing.
    """
    cells = _read_csv(Path(path))
    found = []
    for name in names:
        place = _position(cells.shown, cells.header, name)
        values = _typed(cells.columns[place])
        if values.dtype == object:
            row = next(i for i, text in enumerate(values) if text and not is_number(text))
            raise TableError(
                f"{cells.shown}: column {name!r} holds text, for example {values[row][:40]!r} in"
                f" line {cells.line(row)}; expected numbers"
            )
        if np.isnan(values).all():
            raise TableError(f"{cells.shown}: every value of column {name!r} is missing")
        found.append(values)
    return found


def read_table(path: str | Path, names: Sequence[str] = ()) -> Frame:
    """Read columns of a CSV file; one in which any value is text is a column of text.

    Names, delimiter, missing values and blank lines are as in `read_columns`.

    Args:
      path: a UTF-8 file.
      names: the columns wanted; all if there are none.

    Raises:
      TableError: no such file, not text, no header or no rows, a row of another length than the
        header; of the columns wanted one that is not there, without a name, or twice.
    """
    cells = _read_csv(Path(path))
    _check_header(cells)
    if "" in cells.header and not names:
        raise TableError(
            f"{cells.shown}: column {cells.header.index('') + 1} has no name in the header;"
            " give it one"
        )
    places = {name: _position(cells.shown, cells.header, name) for name in names or cells.header}
    return Frame(cells.shown, {name: _typed(cells.columns[i]) for name, i in places.items()})


def read_any(path: str | Path) -> Any:
    """Read all columns of a CSV or Parquet file, for `hgr_jax.scan`.

    No column of a CSV file stops it: one without a name is called by its position, ``column 1``
    the first, and the second of one name gets `` (2)``.  A column in which all values that are
    present are dates (``2024-05-01``, ``2024-05-01T12:00``, ``2024-05-01 12:00:00``) is of type
    ``datetime64[s]``, NaT where one is missing.

    Args:
      path: a file whose name ends in ``.parquet`` or ``.pq``, or else a CSV file, otherwise read
        as by `read_table`.

    Raises:
      TableError: for what cannot be read, in one line.
      ImportError: without pyarrow.
    """
    path = Path(path)
    if path.suffix.lower() in (".parquet", ".pq"):
        return _read_parquet(path)
    cells = _read_csv(path)
    _check_header(cells)
    columns = [_typed(column, dates=True) for column in cells.columns]
    return dict(zip(unique_names(cells.header), columns, strict=True))


def read_publication(
    path: Path, names: Sequence[str], *, encoding: str = "utf8"
) -> dict[str, NDArray[Any]]:
    """Read the texts of a file without a header, leaving out lines that are no rows.

    Args:
      path: a file of comma-separated values.
      names: of its columns.
      encoding: of its texts.
    """
    cells = _read_csv(path, names, encoding=encoding)
    return dict(zip(names, map(_texts, cells.columns), strict=True))


def _read_parquet(path: Path) -> Any:
    parquet = require("pyarrow.parquet", "cli")
    shown = printable(str(path))
    try:
        with parquet.ParquetFile(path) as file:
            table = file.read()
    except FileNotFoundError:
        raise TableError(f"no such file: {shown}") from None
    except (OSError, require("pyarrow", "cli").ArrowException) as error:
        reason = printable(" ".join(str(error).split()))
        raise TableError(f"{shown} cannot be read as Parquet: {reason}") from None
    if not table.num_rows or not table.num_columns:
        raise TableError(f"{shown} has {table.num_rows} rows and {table.num_columns} columns")
    return table


@dataclasses.dataclass(frozen=True)
class _Cells:
    """The texts of a CSV file: Arrow's arrays, as they stand in the file."""

    shown: str
    body: bytes
    header: list[str]
    delimiter: str
    columns: list[Any]

    def line(self, row: int) -> int:
        """Return the line of the file in which a row ends; Arrow counts rows without blank ones."""
        reader = csv.reader(_lines(self.body), delimiter=self.delimiter)
        next(reader)
        filled = (cells for cells in reader if len(cells) > 1 or "".join(cells).strip())
        # What the two read differently (huge cells, quotes left open) has a line near.
        with contextlib.suppress(csv.Error):
            next(itertools.islice(filled, row, None), None)
        return reader.line_num


def _lines(body: bytes) -> Iterator[str]:
    """Return the lines of a file with their ends."""
    return io.TextIOWrapper(io.BytesIO(body), encoding="utf-8-sig", newline="")


def _read_csv(path: Path, names: Sequence[str] = (), *, encoding: str = "utf8") -> _Cells:
    """Read the cells of a file; with ``names`` it has no header, and perhaps other lines."""
    arrow, shown = _arrow(), printable(str(path))
    uneven: list[Any] = []
    blank: list[int] = []  # lines of spaces

    with _reading(path, shown):
        body = path.read_bytes()  # at once: it may be a pipe
        header, delimiter = (list(names), ",") if names else _read_header(body, shown)
        places = [str(place) for place in range(len(header))]

        def handle(row: Any) -> str:
            if row.text.strip(' \t"') or delimiter in row.text:
                uneven.append(row)
            else:
                blank.append(row.number)
            return "skip"

        table = arrow.csv.read_csv(
            arrow.BufferReader(body),
            read_options=arrow.csv.ReadOptions(
                column_names=places,
                skip_rows=0 if names else 1,
                use_threads=False,  # rows have numbers then
                block_size=min(len(body) + 2, 2**31 - 1),  # no cell is cut in two
                encoding=encoding,
            ),
            parse_options=arrow.csv.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=True,
                invalid_row_handler=handle,
            ),
            convert_options=arrow.csv.ConvertOptions(
                column_types=dict.fromkeys(places, arrow.string())
            ),
        )
    columns = [table.column(place) for place in places]
    if len(header) == 1:  # where a line of spaces is a row
        columns = [columns[0].filter(arrow.array(_texts(columns[0]) != ""))]
    cells = _Cells(shown, body, header, delimiter, columns)
    if uneven and not names:
        row = uneven[0]
        place = row.number - 2 - sum(number < row.number for number in blank)
        raise TableError(
            f"{shown}, line {cells.line(place)}: expected {row.expected_columns} values as in the"
            f" header, got {row.actual_columns}"
        )
    if not len(columns[0]):
        raise TableError(f"{shown} has a header but no rows")
    return cells


@functools.cache
def _arrow() -> Any:
    for module in ("pyarrow.csv", "pyarrow.compute"):
        require(module, "cli")
    return require("pyarrow", "cli")


def _read_header(body: bytes, shown: str) -> tuple[list[str], str]:
    """Read the names in the first line, and the delimiter that occurs most in it."""
    first = next(_lines(body), "")
    if not first.strip():
        raise TableError(f"{shown} is empty: expected a line of column names, then rows")
    if first[-1] not in "\r\n":
        raise TableError(f"{shown} has a header but no rows")
    delimiter = max(DELIMITERS, key=re.sub(r'"[^"]*"', "", first).count)
    return [name.strip() for name in next(csv.reader([first], delimiter=delimiter))], delimiter


def _check_header(cells: _Cells) -> None:
    if all(is_number(name) for name in cells.header):
        raise TableError(f"{cells.shown}: expected column names in the first line, got numbers")


@contextlib.contextmanager
def _reading(path: Path, shown: str) -> Iterator[None]:
    """Raise a `TableError` for whatever is wrong with a file."""
    try:
        yield
    except FileNotFoundError:
        raise TableError(f"no such file: {shown}") from None
    except (UnicodeDecodeError, csv.Error, _arrow().ArrowException) as error:
        if isinstance(error, UnicodeDecodeError) or "UTF8" in str(error):
            raise TableError(f"{shown} is not a UTF-8 text file") from None
        reason = printable(" ".join(str(error).split()))
        raise TableError(f"{shown} cannot be read as CSV: {reason}") from None
    except OSError as error:
        raise TableError(f"cannot read {shown}: {error.strerror}") from None


def _texts(column: Any) -> NDArray[Any]:
    trimmed = _arrow().compute.utf8_trim_whitespace(column)
    return np.asarray(trimmed.to_numpy(), object)


def _typed(column: Any, *, dates: bool = False) -> NDArray[Any]:
    """Return numbers, or text where a value is no number, or perhaps dates where all are."""
    arrow = _arrow()
    compute = arrow.compute
    trimmed = compute.utf8_trim_whitespace(column)
    known = arrow.array(sorted(MISSING))
    missing = compute.is_in(compute.utf8_lower(trimmed), value_set=known)
    present = compute.if_else(missing, None, trimmed)
    try:
        return np.asarray(compute.cast(present, arrow.float64()).to_numpy(), np.float64)
    except arrow.ArrowInvalid:  # Python knows more numbers than Arrow
        texts = np.asarray(present.fill_null("").to_numpy(), object)
    if all(is_number(text) for text in texts if text):
        return np.array([float(text or "nan") for text in texts])
    if dates and compute.all(compute.match_substring_regex(present, _DATE)).as_py():
        with contextlib.suppress(ValueError):  # there is no such day or time
            return np.array([text or "NaT" for text in texts], dtype="datetime64[s]")
    return texts


def _position(shown: str, header: list[str], name: str) -> int:
    count = header.count(name)
    if count == 1:
        return header.index(name)
    if count > 1:
        raise TableError(f"{shown} has {count} columns named {name!r}; rename all but one")
    raise TableError(f"{shown} has no column {name!r}; {near_names(name, header)}")


def near_names(name: str, known: Sequence[str]) -> str:
    """Return what to say where there is no such name: those that come near, or the first ten."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    near = near or [other for other in known if other.lower() == name.lower()]
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return f"its columns are {listed(known, 10)}"


def listed(names: Sequence[str], most: int) -> str:
    """Return the first names, and dots where there are more."""
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")


def is_number(text: str) -> bool:
    """Return whether an entry of a file is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # Python's 1_000 is no number in a file


def printable(text: str) -> str:
    """Return ``text`` with control characters escaped, safe to show in a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
