"""Texts for readers: names that fit where they are shown."""

from __future__ import annotations

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def shortened(text: str, length: int, mark: str = ELLIPSIS) -> str:
    """Return a text of at most ``length`` letters: its first and its last, with a mark between.

    Names of columns differ at their ends more often than not: ``income_2019``, ``income_2020``.

    Example:
      >>> from hgr_jax._texts import shortened
      >>> shortened("median income of households, 2020", 16, mark="...")
      'median ...s, 2020'
    """
    if len(text) <= length:
        return text
    kept = max(length - len(mark), 2)
    return text[: (kept + 1) // 2] + mark + text[len(text) - kept // 2 :]
