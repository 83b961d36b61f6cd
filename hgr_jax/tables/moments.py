"""Dates and times of day, as people and programs write them."""

from __future__ import annotations

import datetime
import re

ISO_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)?"

_ISO = re.compile(ISO_DATE)
_ZONE = re.compile(rf"({_ISO.pattern})(Z|[-+][0-9]{{2}}:?[0-9]{{2}})")
_CLOCK = (
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?P<part>\.[0-9]+)?)?"
    r"(?:\s*(?P<half>[AaPp])[Mm])?"
)
_TIME = re.compile(_CLOCK)
_PARTS = re.compile(
    r"(?P<a>[0-9]{1,4})(?P<by>[/.-])(?P<b>[0-9]{1,2})(?P=by)(?P<c>[0-9]{1,4})"
    rf"(?:[T ,]\s*{_CLOCK})?"
)
_NAME = r"(?P<month>[A-Za-z]{3,9})"
_NAMED = (
    re.compile(
        rf"(?P<day>[0-9]{{1,2}})(?:\.?\s+|(?P<by>[/-])){_NAME}(?(by)(?P=by)|\.?,?\s+)"
        rf"(?P<year>[0-9]{{4}}|(?(by)[0-9]{{2}}|[0-9]{{4}}))(?:[T ,:]\s*{_CLOCK})?"
    ),
    re.compile(
        rf"{_NAME}\.?\s+(?P<day>[0-9]{{1,2}}),?\s+(?P<year>[0-9]{{4}})(?:[T ,]\s*{_CLOCK})?"
    ),
)
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september"),
    *("october", "november", "december"),
)
_MONTH_NUMBERS = {
    written: number
    for number, name in enumerate(_MONTHS, 1)
    for written in (name, name[:3], *(["sept"] if number == 9 else []))
}


def as_iso(text: str) -> datetime.datetime | None:
    """Return the moment of a date as ISO 8601 writes it, None of another text."""
    return _moment(text) if _ISO.fullmatch(text) else None


def as_zoned(text: str) -> datetime.datetime | None:
    """Return the moment, in UTC, of a date of ISO 8601 with a time zone."""
    moment = _moment(text) if _ZONE.fullmatch(text) else None
    return moment and moment.astimezone(datetime.UTC).replace(tzinfo=None)


def _moment(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(text)
    except (ValueError, OverflowError):  # there is no such day or time
        return None


def as_parts(text: str, order: str) -> datetime.datetime | None:
    """Return the moment of a date whose year, month and day come in some order."""
    found = _PARTS.fullmatch(text)
    if found is None:
        return None
    parts = dict(zip(order, found.group("a", "b", "c"), strict=True))
    short = found["by"] == "/" and len(parts["y"]) == 2 and order != "ymd"
    if not (len(parts["y"]) == 4 or short) or len(parts["d"]) > 2 or len(parts["m"]) > 2:
        return None
    if order == "ymd" and found["by"] == "-":  # that is ISO's, which has all its digits
        return None
    return _date(parts["y"], int(parts["m"]), parts["d"], found)


def as_named(text: str) -> datetime.datetime | None:
    """Return the moment of a date with the English name of its month.

    Example:
      >>> from hgr_jax.tables.moments import as_named
      >>> for text in ("5 Jan 2024", "January 5, 2024", "05-JAN-24 13:45"):
      ...     print(as_named(text))
      2024-01-05 00:00:00
      2024-01-05 00:00:00
      2024-01-05 13:45:00
    """
    found = next((match for one in _NAMED if (match := one.fullmatch(text))), None)
    month = _MONTH_NUMBERS.get(found["month"].lower()) if found else None
    return _date(found["year"], month, found["day"], found) if found and month else None


def as_hours(text: str) -> float | None:
    """Return the hours since midnight of a time of day.

    Example:
      >>> from hgr_jax.tables.moments import as_hours
      >>> [as_hours(text) for text in ("13:45", "1:45:36 PM", "24:10", "3:5")]
      [13.75, 13.76, None, None]
    """
    found = _TIME.fullmatch(text)
    clock = _clock(found) if found else None
    if found is None or clock is None:
        return None
    hour, minute, second = clock
    return hour + (60 * minute + second + float(found["part"] or 0)) / 3600


def _date(year: str, month: int, day: str, found: re.Match[str]) -> datetime.datetime | None:
    """Return the moment of a date, and of the time that was found after it."""
    century = (2000 if int(year) < 69 else 1900) if len(year) == 2 else 0
    clock = _clock(found)
    try:
        return clock and datetime.datetime(century + int(year), month, int(day), *clock)
    except ValueError:
        return None


def _clock(found: re.Match[str]) -> tuple[int, int, int] | None:
    """Return hour, minute and second that were found; None if there is no such time."""
    hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
    if found["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (found["half"] in "pP")
    return (hour, minute, second) if hour < 24 and max(minute, second) < 60 else None
