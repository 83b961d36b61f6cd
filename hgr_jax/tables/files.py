"""Numbers out of files: names, missing values, and one clear message for what cannot be read."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import difflib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._optional import require
from hgr_jax.tables.convert import unique_names

MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})
"""Entries of a file that stand for a missing value, in any case."""

DELIMITERS = ",;\t|"

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?)?")


class TableError(ValueError):
    """A file or column that cannot be used, with the reason in one line."""


def read_columns(path: str | Path, names: Sequence[str]) -> list[NDArray[np.float64]]:
    """Numeric columns of a CSV file, NaN where a value is missing.

    The first line holds the names.  The delimiter is the one of comma, semicolon, tab and bar
    that occurs most in it.  Blank lines are skipped.

    Args:
      path: a UTF-8 file.
      names: the columns wanted; a name may occur twice.

    Raises:
      TableError: no such file, not text, no header or no rows, a row of another length than the
        header, an unknown or ambiguous column, text in a column, or a column all missing.
    """
    path = Path(path)
    with _reading(path) as file:
        return _read(printable(str(path)), file, names)


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
        """How many there are."""
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> NDArray[Any]:
        """The column of that name.

        Raises:
          TableError: if there is none, with the names that come near.
        """
        header = list(self.columns)
        return self.columns[header[_position(self.source, header, name)]]

    def is_text(self, name: str) -> bool:
        """Whether the column holds text."""
        return self.column(name).dtype == object

    def missing(self, name: str) -> NDArray[np.bool_]:
        """Rows ``(n,)`` without a value that can be used: missing, or infinite."""
        column = self.column(name)
        return column == "" if self.is_text(name) else ~np.isfinite(column)

    def take(self, rows: NDArray[Any]) -> Frame:
        """The table of some rows, by positions or by a mask."""
        return Frame(self.source, {name: column[rows] for name, column in self.columns.items()})

    def without(self, names: Sequence[str]) -> Frame:
        """The table without some columns.

        Raises:
          TableError: if there is no such column.
        """
        for name in names:
            self.column(name)
        kept = {name: column for name, column in self.columns.items() if name not in names}
        return Frame(self.source, kept)


def read_table(path: str | Path) -> Frame:
    """All columns of a CSV file; one in which any value is text is a column of text.

    Names, delimiter, missing values and blank lines are as in `read_columns`.

    Args:
      path: a UTF-8 file.

    Raises:
      TableError: no such file, not text, no header or no rows, a row of another length than the
        header, a column without a name, or two of one name.
    """
    path = Path(path)
    return Frame(printable(str(path)), _whole(path, _checked, _typed))


def read_any(path: str | Path) -> Any:
    """All columns of a CSV or Parquet file, for `hgr_jax.scan`.

    No column of a CSV file stops it: one without a name is called by its position, ``column 1``
    the first, and the second of one name gets `` (2)``.  A column in which all values that are
    present are dates (``2024-05-01``, ``2024-05-01T12:00``, ``2024-05-01 12:00:00``) is of type
    ``datetime64[s]``, NaT where one is missing.

    Args:
      path: a file whose name ends in ``.parquet`` or ``.pq``, or else a CSV file, otherwise read
        as by `read_table`.

    Raises:
      TableError: for what cannot be read, in one line.
      ImportError: without pyarrow, for a Parquet file.
    """
    path = Path(path)
    if path.suffix.lower() not in (".parquet", ".pq"):
        return _whole(path, lambda _, header: unique_names(header), _typed_or_dates)
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


def _whole(
    path: Path,
    named: Callable[[str, list[str]], list[str]],
    typed: Callable[[list[str]], NDArray[Any]],
) -> dict[str, NDArray[Any]]:
    """All columns of a CSV file, by the names that ``named`` makes of its header."""
    shown = printable(str(path))
    with _reading(path) as file:
        header, rows = _rows(shown, file)
        if all(is_number(name) for name in header):
            raise TableError(f"{shown}: expected column names in the first line, got numbers")
        names = named(shown, header)
        cells: list[list[str]] = [[] for _ in header]
        for _, row in rows:
            for column, text in zip(cells, row, strict=True):
                column.append(text.strip())
    if not cells[0]:
        raise TableError(f"{shown} has a header but no rows")
    return {name: typed(texts) for name, texts in zip(names, cells, strict=True)}


def _checked(shown: str, header: list[str]) -> list[str]:
    """The names themselves, or a `TableError` for one that is empty or repeated."""
    if "" in header:
        raise TableError(
            f"{shown}: column {header.index('') + 1} has no name in the header; give it one"
        )
    for name in header:
        _position(shown, header, name)
    return header


def _typed(texts: list[str]) -> NDArray[Any]:
    """Numbers, or text where one of the values is no number."""
    present = [text.lower() not in MISSING for text in texts]
    pairs = list(zip(texts, present, strict=True))
    if all(is_number(text) for text, there in pairs if there):
        return np.array([float(text) if there else math.nan for text, there in pairs])
    return np.array([text if there else "" for text, there in pairs], dtype=object)


def _typed_or_dates(texts: list[str]) -> NDArray[Any]:
    """Numbers or text, or dates where all of the values are dates."""
    values = _typed(texts)
    if values.dtype != object or not all(_DATE.fullmatch(text) for text in values if text):
        return values
    try:
        return np.array([text or "NaT" for text in values], dtype="datetime64[s]")
    except ValueError:  # there is no such day or time
        return values


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[Iterator[str]]:
    """The lines of a file, and a `TableError` for whatever is wrong with it."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield file
    except FileNotFoundError:
        raise TableError(f"no such file: {printable(str(path))}") from None
    except UnicodeDecodeError:
        raise TableError(f"{printable(str(path))} is not a UTF-8 text file") from None
    except csv.Error as error:
        raise TableError(f"{printable(str(path))} cannot be read as CSV: {error}") from None
    except OSError as error:
        raise TableError(f"cannot read {printable(str(path))}: {error.strerror}") from None


def _rows(shown: str, file: Iterator[str]) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The names, and the rows with their lines in the file."""
    first = next(file, "")
    if not first.strip():
        raise TableError(f"{shown} is empty: expected a line of column names, then rows")
    delimiter = max(DELIMITERS, key=re.sub(r'"[^"]*"', "", first).count)
    header = [name.strip() for name in next(csv.reader([first], delimiter=delimiter))]

    def rows() -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(file, delimiter=delimiter)
        for row in reader:
            if not "".join(row).strip() and len(row) < 2:
                continue
            line = reader.line_num + 1
            if len(row) != len(header):
                raise TableError(
                    f"{shown}, line {line}: expected {len(header)} values as in the header,"
                    f" got {len(row)}"
                )
            yield line, row

    return header, rows()


def _read(shown: str, file: Iterator[str], names: Sequence[str]) -> list[NDArray[np.float64]]:
    header, rows = _rows(shown, file)
    positions = [_position(shown, header, name) for name in names]
    columns: list[list[float]] = [[] for _ in names]
    for line, row in rows:
        for column, position in zip(columns, positions, strict=True):
            column.append(_number(shown, header[position], line, row[position].strip()))
    if not columns[0]:
        raise TableError(f"{shown} has a header but no rows")
    for column, name in zip(columns, names, strict=True):
        if all(math.isnan(value) for value in column):
            raise TableError(f"{shown}: every value of column {name!r} is missing")
    return [np.array(column) for column in columns]


def _position(shown: str, header: list[str], name: str) -> int:
    count = header.count(name)
    if count == 1:
        return header.index(name)
    if count > 1:
        raise TableError(f"{shown} has {count} columns named {name!r}; rename all but one")
    near = difflib.get_close_matches(name, header, n=3, cutoff=0.5)
    near = near or [h for h in header if h.lower() == name.lower()]
    hint = f"did you mean {' or '.join(repr(n) for n in near)}?" if near else _known(header)
    raise TableError(f"{shown} has no column {name!r}; {hint}")


def _known(header: list[str]) -> str:
    shown = ", ".join(repr(h) for h in header[:10])
    return f"its columns are {shown}{', ...' if len(header) > 10 else ''}"


def _number(shown: str, name: str, line: int, text: str) -> float:
    if text.lower() in MISSING:
        return math.nan
    if not is_number(text):
        raise TableError(
            f"{shown}: column {name!r} holds text, for example {text[:40]!r} in line {line};"
            " expected numbers"
        )
    return float(text)


def is_number(text: str) -> bool:
    """Whether an entry of a file is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # Python's 1_000 is no number in a file


def printable(text: str) -> str:
    """``text`` with control characters escaped, safe to show in a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
