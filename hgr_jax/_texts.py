"""Texts for readers: shortened names, counts, near matches, small HTML tables."""

from __future__ import annotations

import collections
import datetime
import difflib
import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence

from hgr_jax._limits import SMALLEST_OF_TAIL

SECONDS_PER_DAY = 86400

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"

OTHER_LEVELS = "(other levels)"
"""The level into which rare levels of a category are pooled."""


def shortened(text: str, length: int, mark: str = ELLIPSIS) -> str:
    """Shorten a text to ``length`` characters by leaving out its middle.

    Names of columns often differ only at their ends: ``income_2019``, ``income_2020``.

    Example:
      >>> from hgr_jax._texts import shortened
      >>> shortened("median income of households, 2020", 16, mark="...")
      'median ..., 2020'
    """
    if len(text) <= length:
        return text
    kept = max(length - len(mark), 2)
    return text[: (kept + 1) // 2] + mark + text[len(text) - kept // 2 :]


SMALLEST_PVALUE = 1e-12
"""Smallest p-value that is shown.  The laws were verified so far: where they say 1e-12, random
orders of 200 ranks say 3e-12, and those of 60 say 2e-11 (`bench.rank_law.tail`)."""


def pvalue_as_text(value: float) -> str:
    """Write a p-value, none smaller than its method may give; ``-`` for none.

    Example:
      >>> from hgr_jax._texts import pvalue_as_text
      >>> pvalue_as_text(0.0314), pvalue_as_text(1e-8), pvalue_as_text(1e-40)
      ('0.031', '<1e-08', '<1e-12')
    """
    if math.isnan(value):
        return "-"
    if value < SMALLEST_PVALUE:
        return f"<{SMALLEST_PVALUE:.0e}"
    if value == SMALLEST_OF_TAIL:
        return f"<{SMALLEST_OF_TAIL:.0e}"
    return f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural if need be.

    Example:
      >>> from hgr_jax._texts import counted
      >>> counted(1, "pair"), counted(1000, "pair")
      ('1 pair', '1,000 pairs')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def html_table(caption: str, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a small HTML table for a notebook, with all texts escaped.

    Example:
      >>> from hgr_jax._texts import html_table
      >>> html_table("", ["name"], [["<b>"]])
      '<table><thead><tr><th>name</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """

    def line(cell: str, texts: Sequence[str]) -> str:
        return "".join(f"<{cell}>{html.escape(text)}</{cell}>" for text in texts)

    above = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    head = f"<thead><tr>{line('th', headers)}</tr></thead>" if headers else ""
    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f"<table>{above}{head}<tbody>{body}</tbody></table>"


def grouped(messages: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the names that have a message, by message.

    Where more than three messages differ in numbers and quotations only, the first stands for all.

    Example:
      >>> from hgr_jax._texts import grouped
      >>> grouped({"a": "2 rows", "b": "31 rows", "c": "7 rows", "d": "9 rows", "e": "a date"})
      {'as in a, 2 rows': ('a', 'b', 'c', 'd'), 'a date': ('e',)}
    """
    patterns = {name: _VARYING.sub("...", text) for name, text in messages.items()}
    counts = collections.Counter(patterns.values())
    varying = {
        pattern
        for pattern, count in counts.items()
        if count > 3 and len({messages[name] for name in messages if patterns[name] == pattern}) > 1
    }
    first: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    for name, text in messages.items():
        if patterns[name] in varying:
            text = first.setdefault(patterns[name], f"as in {name}, {text}")
        found.setdefault(text, []).append(name)
    return {text: tuple(names) for text, names in found.items()}


_VARYING = re.compile(r"'[^']*'|-?\d[\d.,]*(?:e[+-]?\d+)?")


NAMES_SHOWN = 4
"""Number of names of a long list that a message has."""


def first_names(names: Sequence[str], longest: int) -> str:
    """Return the first names, shortened, and how many more there are.

    Example:
      >>> from hgr_jax._texts import first_names
      >>> first_names(["a", "b", "c", "d", "e"], 20)
      'a, b, c, d and 1 more'
    """
    shown = [shortened(name, longest, "...") for name in names[:NAMES_SHOWN]]
    left = len(names) - NAMES_SHOWN
    more = f" and {left:,} more" if left > 0 else ""
    return ", ".join(shown) + more


def near_matches(name: object, known_names: Iterable[str]) -> str:
    """Return the end of a message on an unknown name: similar names, or else all names.

    Example:
      >>> from hgr_jax._texts import near_matches
      >>> near_matches("incom", ["income", "age"])
      "; did you mean 'income'?"
    """
    names = list(known_names)
    close = difflib.get_close_matches(str(name), names, n=3, cutoff=0.5)
    close = close or [other for other in names if other.lower() == str(name).lower()]
    if close:
        return f"; did you mean {' or '.join(map(repr, close))}?"
    more = f" and {len(names) - 20:,} more" if len(names) > 20 else ""
    return f"; there are {', '.join(names[:20])}{more}."


def as_date(first: float, days: float, decimals: int | None = None) -> str:
    """Write the date that lies ``days`` after ``first``, which is in seconds since 1970.

    Days are rounded to some decimals, if they are given.
    """
    days = days if decimals is None else round(days, decimals)
    seconds = round(first + days * SECONDS_PER_DAY)
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    except OverflowError:  # a year beyond Python's dates
        return f"year {1970 + seconds / SECONDS_PER_DAY / 365.2425:.0f}"
    return f"{moment:%Y-%m-%d}" if seconds % SECONDS_PER_DAY == 0 else f"{moment:%Y-%m-%d %H:%M}"
