"""Kinds of texts: numbers with a point or a comma, dates in each order, times, durations.

A `Form` records how a column is written, so that later files are read in the same way.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from hgr_jax.tables import date_texts
from hgr_jax.tables.date_texts import DATE_ORDERS
from hgr_jax.tables.number_texts import Number, is_flag, is_number, parse_number

COMMA = " (a decimal comma)"
POINTS_BETWEEN = " (points between thousands)"
HOURS = " (hours since midnight)"
SECONDS = " (seconds)"


@dataclasses.dataclass(frozen=True)
class Form:
    """How a column of numbers, dates, times or durations is written.

    Attributes:
      kind: ``numbers`` (booleans included), ``dates``, ``times`` of day, or ``durations``.
      point: the decimal point of numbers; ``""`` if no number shows it.
      thousands: the thousands separator, ``,`` or ``.``; ``""`` if no number has one.
      order: a key of `DATE_ORDERS`; ``""`` for dates that were not read from texts.
      unit: the unit of the numbers; ``""`` if there is none.
    """

    kind: str
    point: str = ""
    thousands: str = ""
    order: str = ""
    unit: str = ""

    def __str__(self) -> str:
        how = {"dates": DATE_ORDERS[self.order], "times": HOURS, "durations": SECONDS}
        text = self.kind + how.get(self.kind, COMMA if self.point == "," else "")
        return f"{text} in {self.unit}" if self.unit else text

    def with_point(self, point: str) -> Form:
        """Return the form with this decimal point; the other mark then separates thousands."""
        if self.kind != "numbers":
            return self
        return dataclasses.replace(self, point=point, thousands="," if point == "." else ".")

    def described(self) -> dict[str, str]:
        """Return the fields that are set, for `form_of`."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value}


def form_of(description: Mapping[str, Any]) -> Form:
    """Return the form that `Form.described` describes, or raise a ValueError."""
    form = Form(**description)
    valid = form.kind in ("numbers", "dates", "times", "durations") and form.order in DATE_ORDERS
    if not valid or {form.point, form.thousands} - {"", ".", ","} or len(form.unit) > 30:
        raise ValueError(f"{dict(description)} is no form of numbers, dates or times")
    return form


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


def kinds_of_form(form: Form) -> list[Kind]:
    """Return the kinds that texts of a form can have; a text has one meaning under them."""
    if form.kind == "numbers":
        point = form.point or "."
        read = functools.partial(_number_of_form, form=form)
        flags = next(kind for kind in TEXT_KINDS if kind.read is _as_boolean)
        return [Kind("numbers", read, point, COMMA if point == "," else ""), flags]
    if form.kind in ("times", "durations"):
        return [kind for kind in TEXT_KINDS if kind.word == form.kind]
    allowed = ("iso", "zone", "ymd", "name") if not form.order else (form.order,)
    kinds = [kind for kind in TEXT_KINDS if kind.order in allowed]
    iso = form.order not in ("", "iso", "zone")  # an ISO date is none of these

    def read_date(text: str) -> Any:
        moments = (kind.read(text) for kind in kinds)
        moment = next((moment for moment in moments if moment), None)
        return date_texts.as_iso(text) if moment is None and iso else moment

    return [Kind("dates", read_date, how=kinds[0].how if iso else "", order=form.order)]


def _number_of_form(text: str, form: Form) -> Number | None:
    """Parse a number of a form; without a mark between thousands, ``2,698`` is doubtful."""
    point = form.point or "."
    number = parse_number(text, point)
    if number is None or not (number.unit in ("", form.unit) or is_flag(number.unit)):
        return None
    other = "," if point == "." else "."
    doubtful = number.mark == other and text.count(other) == 1 and point not in text
    return None if doubtful and not form.thousands else number
