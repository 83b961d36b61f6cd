"""What is said of a file or column that cannot be used."""

from __future__ import annotations

from collections.abc import Sequence


class TableError(ValueError):
    """A file or column that cannot be used, with the reason in one line."""


def listed(names: Sequence[str], most: int) -> str:
    """Return the first names, and dots where there are more."""
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")


def printable(text: str) -> str:
    """Return ``text`` with control characters escaped, safe to show in a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
