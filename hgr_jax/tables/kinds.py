"""Kinds of texts: numbers with a point or a comma, dates in each order, times, durations."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from hgr_jax.tables import date_texts
from hgr_jax.tables.date_texts import DATE_ORDERS
from hgr_jax.tables.number_texts import Number, is_number, parse_number

COMMA = " (a decimal comma)"
POINTS_BETWEEN = " (points between thousands)"
HOURS = " (hours since midnight)"
SECONDS = " (seconds)"


def _as_boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of value: the word for it, its parser, its point or order, and how a note words it."""

    word: str
    read: Callable[[str], Any]
    point: str | None = None
    how: str = ""
    order: str = ""

    def is_plain(self, text: str) -> bool:
        """Return whether a text that is of this kind needs no note on how it is read."""
        if self.point == ",":
            return is_number(text) and "." not in text
        return is_number(text) if self.point else not self.how

    def example_note(self, text: str) -> str:
        """Return a note on how a text is read."""
        value = self.read(text)
        if isinstance(value, Number | float):
            number = value.value if isinstance(value, Number) else value
            how = POINTS_BETWEEN if self.point == "," and "," not in text else self.how
            return f"{text[:40]!r} is read as {number:.15g}{how}"
        moment = value.isoformat(" ").removesuffix(" 00:00:00")
        return f"{text[:40]!r} is read as {moment}{self.how}"


def _number_kind(point: str) -> Kind:
    how = COMMA if point == "," else ""
    return Kind("numbers", functools.partial(parse_number, point=point), point, how)


def _date_kind(read: Callable[[str], Any], order: str) -> Kind:
    how = "" if order in ("iso", "zone") else DATE_ORDERS[order]
    return Kind("dates", read, how=how, order=order)


_IN_PARTS = ("ymd", "mdy", "dmy")


TEXT_KINDS = (
    _number_kind("."),
    _number_kind(","),
    Kind("true or false", _as_boolean),
    _date_kind(date_texts.as_iso, "iso"),
    _date_kind(date_texts.as_zoned, "zone"),
    *(
        _date_kind(functools.partial(date_texts.as_parts, order=order), order)
        for order in _IN_PARTS
    ),
    _date_kind(date_texts.as_named, "name"),
    _date_kind(date_texts.as_digits, "digits"),
    _date_kind(date_texts.as_month, "month"),
    _date_kind(date_texts.as_period, "period"),
    Kind("times", date_texts.as_hours, how=HOURS),
    Kind("durations", date_texts.as_seconds, how=SECONDS),
)
"""All kinds, the preferred first."""


TEXT_KIND = Kind("text", str)
"""The kind of texts that are none of `TEXT_KINDS`."""
