"""Dates, times of day and durations as people write them."""

from __future__ import annotations

import datetime
import re

DATE_ORDERS = {
    "iso": "",
    "zone": "",
    "ymd": " (year, month, day)",
    "mdy": " (month, day, year)",
    "dmy": " (day, month, year)",
    "name": " (with the name of the month)",
    "digits": " (year, month and day without a mark between them)",
    "month": " (the first day of the month)",
    "quarter": " (the first day of the quarter)",
}
"""Orders of year, month and day, and how a message words them."""

ISO_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)?"

_ISO = re.compile(ISO_DATE)
_ZONE = re.compile(rf"({_ISO.pattern}(?:[0-9]{{3}})?) ?(Z|UTC|GMT|[-+][0-9]{{2}}:?(?:[0-9]{{2}})?)")
_CLOCK = (
    r"(?P<hour>[0-9]{1,2})(?P<colon>[:.h])(?P<minute>[0-9]{2})"
    r"(?:(?(colon)[:.])(?P<second>[0-9]{2})(?P<fraction>[.,][0-9]+)?)?"
    r"(?:\s*(?P<am_pm>[AaPp])\.?[Mm]\.?)?"
)
_TIME = re.compile(_CLOCK)
_AFTER_DATE = rf"(?:(?:[T ,:]|\s-)\s*{_CLOCK})?"
_WEEKDAY = r"(?:[A-Za-z]{2,10}\.?,?\s+)?"
_PARTS = re.compile(
    r"(?P<a>[0-9]{1,4})(?P<separator>[/.-])\s?(?P<b>[0-9]{1,2})(?P=separator)\s?(?P<c>[0-9]{1,4})"
    rf"{_AFTER_DATE}"
)
_NAME = r"(?P<month>[A-Za-z]{3,9})"
_YEAR = r"(?P<year>[12][0-9]{3})"
_NAMED = (
    re.compile(
        rf"{_WEEKDAY}(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)?(?:\.?\s+|(?P<by>[/-])){_NAME}"
        rf"(?(by)(?P=by)|\.?,?\s+)(?P<year>[0-9]{{4}}|[0-9]{{2}}){_AFTER_DATE}"
    ),
    re.compile(
        rf"{_WEEKDAY}{_NAME}\.?\s+(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)?(?:,\s*|\s+)(?P<year>[0-9]{{4}})"
        rf"{_AFTER_DATE}"
    ),
)
_ONLY_DIGITS = re.compile(
    r"(?P<year>[12][0-9]{3})(?P<month>[01][0-9])(?P<day>[0-3][0-9])"
    r"(?:[T :]?(?P<hour>[0-2][0-9]):?(?P<minute>[0-5][0-9])(?::?(?P<second>[0-5][0-9]))?Z?)?"
)
_UNMARKED = {
    "mdy": re.compile(r"(?P<month>[0-9]{1,2})(?P<day>[0-9]{2})(?P<year>[0-9]{4})"),
    "dmy": re.compile(r"(?P<day>[0-9]{1,2})(?P<month>[0-9]{2})(?P<year>[0-9]{4})"),
    "digits": re.compile(r"(?P<year>[0-9]{2})(?P<month>[0-9]{2})(?P<day>[0-9]{2})"),
}
"""Dates of digits alone that may as well be numbers, by their order."""

_MONTH = (
    re.compile(rf"{_YEAR}(?:[- ]|\s?[-:]?M)(?P<number>0?[1-9]|1[0-2])"),
    re.compile(rf"(?P<number>0?[1-9]|1[0-2])[/-]{_YEAR}"),
    re.compile(rf"{_YEAR}(?P<number>0[1-9]|1[0-2])"),
    re.compile(rf"{_NAME}\.?[- ,/']+{_YEAR}"),
    re.compile(rf"{_YEAR}[- ,/]*{_NAME}\.?"),
    re.compile(rf"{_NAME}[-']'?(?P<short>[0-9]{{2}})"),
)
_QUARTER = (
    re.compile(rf"{_YEAR}\s?[-:./]?\s?[Qq]\s?(?P<number>[1-4])"),
    re.compile(rf"[Qq]\s?(?P<number>[1-4])\s?[-:./,]?\s?{_YEAR}"),
)
_MONTH_NAMES = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september"),
    *("october", "november", "december"),
)
_MONTH_NUMBERS = {"sept": 9} | {
    short: number for number, name in enumerate(_MONTH_NAMES, 1) for short in (name, name[:3])
}


def as_iso(text: str) -> datetime.datetime | None:
    """Parse a date of ISO 8601; None for any other text."""
    return _parse_iso(text) if _ISO.fullmatch(text) else None


def as_zoned(text: str) -> datetime.datetime | None:
    """Parse a date of ISO 8601 with a time zone into UTC; None for any other text."""
    match = _ZONE.fullmatch(text)
    moment = (
        _parse_iso(match[1][:26] + (match[2] if match[2][0] in "-+" else "Z")) if match else None
    )
    return moment and moment.astimezone(datetime.UTC).replace(tzinfo=None)


def _parse_iso(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(text)
    except (ValueError, OverflowError):  # the day or time does not exist
        return None


def as_parts(text: str, order: str) -> datetime.datetime | None:
    """Parse a date of three numbers in the given order, such as ``"dmy"``; None otherwise."""
    match = _PARTS.fullmatch(text)
    if match is None:
        return None
    parts = dict(zip(order, match.group("a", "b", "c"), strict=True))
    if order == "mdy" and match["separator"] == ".":  # no one writes them so
        return None
    short = len(parts["y"]) == 2 and order != "ymd"
    short = short and (match["separator"] == "/" or len(parts["m"]) + len(parts["d"]) > 2)
    if not (len(parts["y"]) == 4 or short) or len(parts["d"]) > 2 or len(parts["m"]) > 2:
        return None
    if order == "ymd" and _ISO.fullmatch(text):  # `as_iso` parses those
        return None
    return _date(parts["y"], int(parts["m"]), parts["d"], match)


def as_named(text: str) -> datetime.datetime | None:
    """Parse a date with the English name of a month; None for any other text.

    Example:
      >>> from hgr_jax.tables.date_texts import as_named
      >>> for text in ("5 Jan 2024", "January 5, 2024", "05-JAN-24 13:45", "Fri, 5 January 2024"):
      ...     print(as_named(text))
      2024-01-05 00:00:00
      2024-01-05 00:00:00
      2024-01-05 13:45:00
      2024-01-05 00:00:00
    """
    match = next(filter(None, (pattern.fullmatch(text) for pattern in _NAMED)), None)
    month = _MONTH_NUMBERS.get(match["month"].lower()) if match else None
    return _date(match["year"], month, match["day"], match) if match and month else None


def as_digits(text: str) -> datetime.datetime | None:
    """Parse a date of digits alone, year first; None for any other text."""
    match = _ONLY_DIGITS.fullmatch(text)
    if match is None or not 1800 <= int(match["year"]) < 2200:
        return None
    return _date(match["year"], int(match["month"]), match["day"], match)


def as_unmarked(text: str, order: str) -> datetime.datetime | None:
    """Parse digits that are a date only if someone says so: 10012021, 621105; None otherwise."""
    match = _UNMARKED[order].fullmatch(text)
    if match is None or not 1800 <= _full_year(match["year"]) < 2200:
        return None
    return _date(match["year"], int(match["month"]), match["day"], None)


def as_month(text: str) -> datetime.datetime | None:
    """Parse a month into its first day; None for any other text.

    Example:
      >>> from hgr_jax.tables.date_texts import as_month
      >>> for text in ("2019-04", "04/2019", "2019M04", "201904", "Apr 2019", "Apr-19"):
      ...     assert as_month(text).isoformat() == "2019-04-01T00:00:00"
    """
    match = next(filter(None, (pattern.fullmatch(text) for pattern in _MONTH)), None)
    if match is None:
        return None
    parts = match.groupdict()
    name = parts.get("month")
    month = _MONTH_NUMBERS.get(name.lower()) if name else int(parts["number"])
    year = _full_year(parts.get("short") or parts["year"])
    return datetime.datetime(year, month, 1) if month and 1800 <= year < 2200 else None


def as_quarter(text: str) -> datetime.datetime | None:
    """Parse a quarter, such as 1995Q2 or Q2 1995, into its first day; None for any other text."""
    match = next(filter(None, (pattern.fullmatch(text) for pattern in _QUARTER)), None)
    return datetime.datetime(int(match["year"]), 3 * int(match["number"]) - 2, 1) if match else None


def as_hours(text: str) -> float | None:
    """Parse a time of day into hours since midnight; None for any other text.

    Example:
      >>> from hgr_jax.tables.date_texts import as_hours
      >>> [as_hours(text) for text in ("13:45", "1:45:36 PM", "08.30.00", "24:10", "3:5")]
      [13.75, 13.76, 8.5, None, None]
    """
    match = _TIME.fullmatch(text)
    clock = _clock(match) if match else None
    # 13.45 alone is a number.
    if match is None or clock is None or (match["colon"] == "." and not match["second"]):
        return None
    hour, minute, second = clock
    fraction = float((match["fraction"] or "0").replace(",", "."))
    return hour + (60 * minute + second + fraction) / 3600


_COLONS = re.compile(
    r"(?P<sign>[-+]?)(?:(?P<days>[0-9]+)(?:\s*d(?:ays?)?,?\s+|\.(?=[0-9]+:[0-9]+:)))?(?P<first>[0-9]{1,5})"
    r":(?P<second>[0-5][0-9])(?::(?P<third>[0-5][0-9]))?(?P<fraction>[.,][0-9]+)?"
)


def as_seconds(text: str) -> float | None:
    """Parse a duration into seconds; None for any other text.

    Two numbers are minutes and seconds, three are hours, minutes and seconds.

    Example:
      >>> from hgr_jax.tables.date_texts import as_seconds
      >>> [as_seconds(text) for text in ("1:27.452", "90:30", "2:00:05", "1 day, 0:00:10")]
      [87.452, 5430.0, 7205.0, 86410.0]
    """
    colons = _COLONS.fullmatch(text)
    if colons is None:
        return None
    first, second, third = (int(colons[part] or 0) for part in ("first", "second", "third"))
    seconds = float(60 * first + second)
    if colons["third"]:
        seconds = 60 * seconds + third
    seconds += float((colons["fraction"] or "0").replace(",", "."))
    seconds += 86_400 * int(colons["days"] or 0)
    return -seconds if colons["sign"] == "-" else seconds


def _full_year(digits: str) -> int:
    """Return a year; one of two digits is the last that does not lie in the future."""
    if len(digits) > 2:
        return int(digits)
    this = datetime.date.today().year
    return this - (this - int(digits)) % 100


def _date(year: str, month: int, day: str, match: re.Match[str] | None) -> datetime.datetime | None:
    """Return a date with the matched time of day, None if either does not exist."""
    clock = _clock(match) if match else (0, 0, 0)
    try:
        return clock and datetime.datetime(_full_year(year), month, int(day), *clock)
    except ValueError:
        return None


def _clock(match: re.Match[str]) -> tuple[int, int, int] | None:
    """Return the matched hour, minute and second; None if that time does not exist."""
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    if match.groupdict().get("am_pm"):
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (match["am_pm"] in "pP")
    return (hour, minute, second) if hour < 24 and max(minute, second) < 60 else None
