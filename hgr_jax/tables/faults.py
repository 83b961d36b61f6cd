"""The error for a file or column that cannot be used, and the texts of its messages."""

from __future__ import annotations

from collections.abc import Sequence

from hgr_jax._texts import near_matches

READABLE = (
    "CSV, JSON, Parquet, Feather, a workbook (.xlsx, .ods), SQLite, DuckDB, SPSS, Stata or"
    " SAS, or one of these in .gz or .zip"
)
"""What can be read, for messages."""

TYPES = ("number", "category", "date", "dmy", "mdy", "text", "id")
"""What `Reading.types` can make of a column; ``dmy`` and ``mdy`` are dates, day or month first."""


class TableError(ValueError):
    """A file or column that cannot be used, with the reason in one line."""


def check_names(shown: str, columns: Sequence[str], names: Sequence[str]) -> None:
    """Raise a `TableError` if one of ``names`` is not among the ``columns`` of a table."""
    for name in names:
        if name not in columns:
            raise TableError(f"{shown} has no column {name!r}{near_matches(name, columns)}")


def listed(names: Sequence[str], most: int) -> str:
    """Return the first names, and dots if there are more."""
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")


def reason_of(error: BaseException) -> str:
    """Return the message of an error in one printable line; its type if it has none."""
    return printable(" ".join(str(error).split())) or type(error).__name__


def unreadable(shown: str, kind: str, error: BaseException) -> TableError:
    """Return the error for a file that a library could not read as ``kind``."""
    return TableError(f"{shown} cannot be read as {kind}: {reason_of(error)}")


def printable(text: str) -> str:
    """Return ``text`` with control characters escaped, safe to show in a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
