"""Texts for readers: names that fit where they are shown, near ones, small tables."""

from __future__ import annotations

import difflib
import html
from collections.abc import Iterable, Sequence

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def shortened(text: str, length: int, mark: str = ELLIPSIS) -> str:
    """Return a text of at most ``length`` letters: its first and its last, with a mark between.

    Names of columns differ at their ends more often than not: ``income_2019``, ``income_2020``.

    Example:
      >>> from hgr_jax._texts import shortened
      >>> shortened("median income of households, 2020", 16, mark="...")
      'median ..., 2020'
    """
    if len(text) <= length:
        return text
    kept = max(length - len(mark), 2)
    return text[: (kept + 1) // 2] + mark + text[len(text) - kept // 2 :]


def counted(count: int, noun: str) -> str:
    """Return a number of things in words.

    Example:
      >>> from hgr_jax._texts import counted
      >>> counted(1, "pair"), counted(1000, "pair")
      ('1 pair', '1,000 pairs')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def html_table(caption: str, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a small table for a notebook; texts are shown as they are, never read as markup.

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


def near_matches(name: object, known: Iterable[str]) -> str:
    """Return the end of a message on an unknown name: those that are like it, or all there are.

    Example:
      >>> from hgr_jax._texts import near_matches
      >>> near_matches("incom", ["income", "age"])
      "; did you mean 'income'?"
    """
    every = list(known)
    close = difflib.get_close_matches(str(name), every, n=3, cutoff=0.5)
    close = close or [other for other in every if other.lower() == str(name).lower()]
    if close:
        return f"; did you mean {' or '.join(map(repr, close))}?"
    more = f" and {len(every) - 20:,} more" if len(every) > 20 else ""
    return f"; there are {', '.join(every[:20])}{more}."
