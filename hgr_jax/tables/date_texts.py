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

UNMARKED_ORDERS = ("mdy", "dmy", "digits")
"""Orders of dates of digits alone that may as well be numbers: 10012021, 621105."""

ISO_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)?"

_ISO = re.compile(ISO_DATE)
_ZONE = re.compile(rf"({ISO_DATE}(?:[0-9]{{3}})?) ?(Z|UTC|GMT|[-+][0-9]{{2}}:?(?:[0-9]{{2}})?)")
_CLOCK = (
    r"(?P<hour>[0-9]{1,2})(?P<colon>[:.h])(?P<minute>[0-9]{2})"
    r"(?:(?(colon)[:.])(?P<second>[0-9]{2})(?P<fraction>[.,][0-9]+)?)?"
    r"(?:\s*(?P<am_pm>[AaPp])\.?[Mm]\.?)?"
)
_TIME = re.compile(_CLOCK)
_COLONS = re.compile(
    r"(?P<sign>[-+]?)(?:(?P<days>[0-9]+)(?:\s*d(?:ays?)?,?\s+|\.(?=[0-9]+:[0-9]+:)))?"
    r"(?P<first>[0-9]{1,5}):(?P<second>[0-5][0-9])(?::(?P<third>[0-5][0-9]))?(?P<fraction>[.,][0-9]+)?"
)

_THEN_CLOCK = rf"(?:(?:[T ,:]|\s-)\s*{_CLOCK})?"
_WEEKDAY = r"(?:[A-Za-z]{2,10}\.?,?\s+)?"
_YEAR, _SHORT_YEAR = r"(?P<year>(?:1[89]|2[01])[0-9]{2})", r"(?P<year>[0-9]{4}|[0-9]{2})"
_NAME, _MONTH = r"(?P<month>[A-Za-z]{3,9})", r"(?P<month>[0-9]{1,2})"
_DAY, _ORDINAL = r"(?P<day>[0-9]{1,2})", r"(?:st|nd|rd|th)?"
_NEXT, _GAP = r"(?P=mark)\s?", r"(?:\.?\s+|(?P<by>[/-]))"
_DIGITS_OF_CLOCK = r"(?P<hour>[0-2][0-9]):?(?P<minute>[0-5][0-9])(?::?(?P<second>[0-5][0-9]))?"
_PATTERNS = {
    "ymd": (rf"(?P<year>[0-9]{{4}})(?P<mark>[/.-])\s?{_MONTH}{_NEXT}{_DAY}{_THEN_CLOCK}",),
    "mdy": (rf"{_MONTH}(?P<mark>[/-])\s?{_DAY}{_NEXT}{_SHORT_YEAR}{_THEN_CLOCK}",),
    "dmy": (rf"{_DAY}(?P<mark>[/.-])\s?{_MONTH}{_NEXT}{_SHORT_YEAR}{_THEN_CLOCK}",),
    "name": (
        rf"{_WEEKDAY}{_DAY}{_ORDINAL}{_GAP}{_NAME}(?(by)(?P=by)|\.?,?\s+){_SHORT_YEAR}{_THEN_CLOCK}",
        rf"{_WEEKDAY}{_NAME}\.?\s+{_DAY}{_ORDINAL}(?:,\s*|\s+)(?P<year>[0-9]{{4}}){_THEN_CLOCK}",
    ),
    "digits": (rf"{_YEAR}(?P<month>[01][0-9])(?P<day>[0-3][0-9])(?:[T :]?{_DIGITS_OF_CLOCK}Z?)?",),
    "month": (
        rf"{_YEAR}(?:[- ]|\s?[-:]?M){_MONTH}",
        rf"{_MONTH}[/-]{_YEAR}",
        rf"{_YEAR}(?P<month>0[1-9]|1[0-2])",
        rf"{_NAME}\.?[- ,/']+{_YEAR}",
        rf"{_YEAR}[- ,/]*{_NAME}\.?",
        rf"{_NAME}[-']'?(?P<year>[0-9]{{2}})",
    ),
    "quarter": (
        rf"{_YEAR}\s?[-:./]?\s?[Qq]\s?(?P<quarter>[1-4])",
        rf"[Qq]\s?(?P<quarter>[1-4])\s?[-:./,]?\s?{_YEAR}",
    ),
    "unmarked mdy": (rf"{_MONTH}(?P<day>[0-9]{{2}}){_YEAR}",),
    "unmarked dmy": (rf"{_DAY}(?P<month>[0-9]{{2}}){_YEAR}",),
    "unmarked digits": (r"(?P<year>[0-9]{2})(?P<month>[0-9]{2})(?P<day>[0-9]{2})",),
}
_REGEXES = {order: [re.compile(text) for text in texts] for order, texts in _PATTERNS.items()}
"""Patterns of dates that are not of ISO 8601, by their order; a part that is not there is 1."""

_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september"),
    *("october", "november", "december"),
)
_MONTH_NUMBERS = {"sept": 9} | {
    short: number for number, name in enumerate(_MONTHS, 1) for short in (name, name[:3])
}


def read_date(text: str, order: str) -> datetime.datetime | None:
    """Parse a date in one of the `DATE_ORDERS`; None for any other text.

    With a time zone it is in UTC.  A year of two digits is the last that is not in the future.

    Example:
      >>> from hgr_jax.tables.date_texts import read_date
      >>> for text in ("5 Jan 2024", "January 5, 2024", "05-JAN-24 13:45", "Fri, 5 January 2024"):
      ...     print(read_date(text, "name"))
      2024-01-05 00:00:00
      2024-01-05 00:00:00
      2024-01-05 13:45:00
      2024-01-05 00:00:00
      >>> for text in ("2019-04", "04/2019", "2019M04", "201904", "Apr 2019", "Apr-19"):
      ...     assert read_date(text, "month").isoformat() == "2019-04-01T00:00:00"
    """
    if order == "iso":
        return _parse_iso(text) if _ISO.fullmatch(text) else None
    if order == "zone":
        match = _ZONE.fullmatch(text)
        zone = match and (match[2] if match[2][0] in "-+" else "Z")
        moment = _parse_iso(f"{match[1][:26]}{zone}") if match else None
        return moment and moment.astimezone(datetime.UTC).replace(tzinfo=None)
    match = next(filter(None, (pattern.fullmatch(text) for pattern in _REGEXES[order])), None)
    if match is None or (order == "ymd" and _ISO.fullmatch(text)):
        return None
    return _moment_of(match)


def _parse_iso(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(text)
    except (ValueError, OverflowError):  # the day or time does not exist
        return None


def _moment_of(match: re.Match[str]) -> datetime.datetime | None:
    """Return the matched date and time, None if it does not exist."""
    parts = match.groupdict()
    year, month, day = parts["year"], parts.get("month") or "", parts.get("day") or "1"
    if parts.get("mark") in ("-", ".") and len(year + month + day) == 4:  # 1.2.34 is a number
        return None
    if len(year) == 2:
        this = datetime.date.today().year
        year = this - (this - int(year)) % 100
    number = int(month) if month.isdecimal() else _MONTH_NUMBERS.get(month.lower(), 0)
    if quarter := parts.get("quarter"):
        number = 3 * int(quarter) - 2
    clock = _clock_of(parts)
    try:
        return clock and datetime.datetime(int(year), number, int(day), *clock)
    except ValueError:
        return None


def _clock_of(parts: dict[str, str]) -> tuple[int, int, int] | None:
    """Return the matched hour, minute and second; None if that time does not exist."""
    hour, minute, second = (int(parts.get(part) or 0) for part in ("hour", "minute", "second"))
    if half := parts.get("am_pm"):
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (half in "pP")
    return (hour, minute, second) if hour < 24 and max(minute, second) < 60 else None


def as_hours(text: str) -> float | None:
    """Parse a time of day into hours since midnight; None for any other text.

    Example:
      >>> from hgr_jax.tables.date_texts import as_hours
      >>> [as_hours(text) for text in ("13:45", "1:45:36 PM", "08.30.00", "24:10", "3:5")]
      [13.75, 13.76, 8.5, None, None]
    """
    match = _TIME.fullmatch(text)
    clock = _clock_of(match.groupdict()) if match else None
    # 13.45 alone is a number.
    if match is None or clock is None or (match["colon"] == "." and not match["second"]):
        return None
    hour, minute, second = clock
    return hour + (60 * minute + second + _fraction_of(match)) / 3600


def as_seconds(text: str) -> float | None:
    """Parse a duration into seconds; None for any other text.

    Two numbers are minutes and seconds, three are hours, minutes and seconds.

    Example:
      >>> from hgr_jax.tables.date_texts import as_seconds
      >>> [as_seconds(text) for text in ("1:27.452", "90:30", "2:00:05", "1 day, 0:00:10")]
      [87.452, 5430.0, 7205.0, 86410.0]
    """
    match = _COLONS.fullmatch(text)
    if match is None:
        return None
    first, second, third, days = (
        int(match[part] or 0) for part in ("first", "second", "third", "days")
    )
    seconds = 60 * first + second
    if match["third"]:
        seconds = 60 * seconds + third
    seconds += 86_400 * days
    return float((-1 if match["sign"] == "-" else 1) * (seconds + _fraction_of(match)))


def _fraction_of(match: re.Match[str]) -> float:
    return float((match["fraction"] or "0").replace(",", "."))
