"""What is said of a file or column that cannot be used."""

from __future__ import annotations

from collections.abc import Sequence

from hgr_jax._texts import near_matches


class TableError(ValueError):
    """A file or column that cannot be used, with the reason in one line."""


def near_names(name: str, known: Sequence[str]) -> str:
    """Return what to say where there is no such name: those that come near, or the first ten."""
    near = near_matches(name, known).removeprefix("; ")
    return near or f"its columns are {listed(known, 10)}"


def listed(names: Sequence[str], most: int) -> str:
    """Return the first names, and dots where there are more."""
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")


def printable(text: str) -> str:
    """Return ``text`` with control characters escaped, safe to show in a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
