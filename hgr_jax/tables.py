"""Numbers out of files: names, missing values, and one clear message for what cannot be read."""

from __future__ import annotations

import csv
import difflib
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})
"""Entries of a file that stand for a missing value, in any case."""

DELIMITERS = ",;\t|"


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
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _read(path, file, names)
    except FileNotFoundError:
        raise TableError(f"no such file: {printable(str(path))}") from None
    except UnicodeDecodeError:
        raise TableError(f"{printable(str(path))} is not a UTF-8 text file") from None
    except csv.Error as error:
        raise TableError(f"{printable(str(path))} cannot be read as CSV: {error}") from None
    except OSError as error:
        raise TableError(f"cannot read {printable(str(path))}: {error.strerror}") from None


def _read(path: Path, file: Iterator[str], names: Sequence[str]) -> list[NDArray[np.float64]]:
    shown = printable(str(path))
    first = next(file, "")
    if not first.strip():
        raise TableError(f"{shown} is empty: expected a line of column names, then rows")
    delimiter = max(DELIMITERS, key=re.sub(r'"[^"]*"', "", first).count)
    header = [name.strip() for name in next(csv.reader([first], delimiter=delimiter))]
    positions = [_position(shown, header, name) for name in names]
    columns: list[list[float]] = [[] for _ in names]
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
    try:
        return float(text.replace("_", "?"))  # Python's 1_000 is no number in a file
    except ValueError:
        raise TableError(
            f"{shown}: column {name!r} holds text, for example {text[:40]!r} in line {line};"
            " expected numbers"
        ) from None


def printable(text: str) -> str:
    """``text`` with control characters escaped, safe to show in a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
