"""Dates, times of day and durations as people write them."""

from __future__ import annotations

import datetime
import re

DATE_ORDERS = {
    "": "",
    "iso": " (year-month-day)",
    "zone": " (year-month-day, with a time zone)",
    "ymd": " (year, month, day)",
    "mdy": " (month, day, year)",
    "dmy": " (day, month, year)",
    "name": " (with the name of the month)",
    "digits": " (year, month and day without a mark between them)",
    "month": " (the first day of the month)",
    "period": " (the first day of the quarter, half year or week)",
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
_WEEKDAY = r"(?:(?P<weekday>[^\W\d_]{2,10})\.?,?\s+)?"
_PARTS = re.compile(
    r"(?P<a>[0-9]{1,4})(?P<separator>[/.-])\s?(?P<b>[0-9]{1,2})(?P=separator)\s?(?P<c>[0-9]{1,4})"
    rf"{_AFTER_DATE}"
)
_NAME = r"(?P<month>[^\W\d_]{3,10})"
_YEAR = r"(?P<year>[12][0-9]{3})"
_NAMED = (
    re.compile(
        rf"{_WEEKDAY}(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)?(?:\.?\s+(?:de\s+)?|(?P<by>[/-])){_NAME}"
        rf"(?(by)(?P=by)|\.?,?\s+(?:de\s+)?)(?P<year>[0-9]{{4}}|[0-9]{{2}})"
        rf"{_AFTER_DATE}"
    ),
    re.compile(
        rf"{_WEEKDAY}{_NAME}\.?\s+(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)?(?:,\s*|\s+)(?P<year>[0-9]{{4}})"
        rf"{_AFTER_DATE}"
    ),
    re.compile(
        rf"{_WEEKDAY}{_NAME}\s+(?P<day>[0-9]{{1,2}})\s+{_CLOCK}\s+(?:[A-Z]{{3,4}}\s+)?(?P<year>[0-9]{{4}})"
    ),
)
_ONLY_DIGITS = re.compile(
    r"(?P<year>[12][0-9]{3})(?P<month>[01][0-9])(?P<day>[0-3][0-9])"
    r"(?:[T :]?(?P<hour>[0-2][0-9]):?(?P<minute>[0-5][0-9])(?::?(?P<second>[0-5][0-9]))?Z?)?"
)
_MONTH = (
    re.compile(rf"{_YEAR}(?:[- ]|\s?[-:]?M)(?P<number>0?[1-9]|1[0-2])"),
    re.compile(rf"(?P<number>0?[1-9]|1[0-2])[/-]{_YEAR}"),
    re.compile(rf"{_YEAR}(?P<number>0[1-9]|1[0-2])"),
    re.compile(rf"{_NAME}\.?[- ,/']+{_YEAR}"),
    re.compile(rf"{_YEAR}[- ,/]*{_NAME}\.?"),
    re.compile(rf"{_NAME}[-']'?(?P<short>[0-9]{{2}})"),
)
_PERIOD = (
    re.compile(rf"{_YEAR}\s?[-:./]?\s?(?P<kind>[QTHSqths])\s?(?P<number>[1-4])"),
    re.compile(rf"(?P<kind>[QTHSqths])\s?(?P<number>[1-4])\s?[-:./,]?\s?{_YEAR}"),
    re.compile(rf"(?P<number>[1-4])(?P<kind>[QHqh])\s?[-:./]?{_YEAR}"),
    re.compile(
        rf"{_YEAR}\s?-?(?P<kind>[Ww]|[Kk][Ww] ?)(?P<number>[0-9]{{1,2}})(?:-(?P<weekday>[1-7]))?"
    ),
)
_MONTHS_OF_LANGUAGES = (
    "january february march april may june july august september october november december",
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "januar februar m\u00e4rz april mai juni juli august september oktober november dezember",
    "j\u00e4nner februar m\u00e4r apr mai jun jul aug sept okt nov dez",
    "janvier f\xe9vrier mars avril mai juin juillet ao\xfbt septembre octobre novembre d\xe9cembre",
    "janv f\u00e9vr mars avr mai juin juil ao\u00fbt sept oct nov d\u00e9c",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "ene feb mar abr may jun jul ago sep oct nov dic",
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "gen feb mar apr mag giu lug ago set ott nov dic",
    "janeiro fevereiro mar\u00e7o abril maio junho julho agosto setembro outubro novembro dezembro",
    "januari februari maart april mei juni juli augustus september oktober november december",
)
_MONTH_NUMBERS = {
    name: number for names in _MONTHS_OF_LANGUAGES for number, name in enumerate(names.split(), 1)
}
_PARTS_OF_YEAR = {"q": 3, "t": 3, "h": 6, "s": 6}
"""Number of months of a quarter (trimestre) and a half year (semestre)."""


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
    """Parse a date with the name of a month; None for any other text.

    Example:
      >>> from hgr_jax.tables.date_texts import as_named
      >>> for text in ("5 Jan 2024", "January 5, 2024", "05-JAN-24 13:45", "Fri, 5 janvier 2024"):
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
    """Parse a date of eight digits, such as 20240131, perhaps with a time; None otherwise."""
    match = _ONLY_DIGITS.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    year, month, day_of_month = (int(match[part]) for part in ("year", "month", "day"))
    try:
        day = datetime.datetime(year, month, day_of_month, hour, minute, second)
    except ValueError:
        return None
    return day if 1800 <= day.year < 2200 else None


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
    year = _full_year(parts["short"]) if parts.get("short") else int(parts["year"])
    return datetime.datetime(year, month, 1) if month and 1800 <= year < 2200 else None


def as_period(text: str) -> datetime.datetime | None:
    """Parse a quarter, half year or ISO week into its first day; None for any other text.

    Example:
      >>> from hgr_jax.tables.date_texts import as_period
      >>> for text in ("1995Q2", "Q2 1995", "1995-T2", "1995H2", "1995-W14"):
      ...     print(as_period(text).date())
      1995-04-01
      1995-04-01
      1995-04-01
      1995-07-01
      1995-04-03
    """
    match = next(filter(None, (pattern.fullmatch(text) for pattern in _PERIOD)), None)
    if match is None:
        return None
    kind, number, year = match["kind"].lower(), int(match["number"]), int(match["year"])
    if kind[0] in "wk":
        try:
            day = int(match["weekday"] or 1)
            return datetime.datetime.combine(
                datetime.date.fromisocalendar(year, number, day), datetime.time()
            )
        except ValueError:
            return None
    months = _PARTS_OF_YEAR[kind]
    return datetime.datetime(year, months * (number - 1) + 1, 1) if months * number <= 12 else None


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


_UNITS = {
    **dict.fromkeys(("y", "yr", "yrs", "year", "years"), 31556952.0),
    **dict.fromkeys(("mo", "mos", "month", "months"), 2629746.0),
    **dict.fromkeys(("w", "wk", "wks", "week", "weeks"), 604800.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "std"), 3600.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    "ms": 1e-3,
}
"""Seconds of units of time."""

_PIECE = re.compile(r"([0-9]+(?:[.,][0-9]+)?)\s*([A-Za-z]+)\.?,?\s*(?:and\s+)?")
_COLONS = re.compile(
    r"(?P<sign>[-+]?)(?:(?P<days>[0-9]+)(?:\s*d(?:ays?)?,?\s+|\.(?=[0-9]+:[0-9]+:)))?(?P<first>[0-9]{1,5})"
    r":(?P<second>[0-5][0-9])(?::(?P<third>[0-5][0-9]))?(?P<fraction>[.,][0-9]+)?"
)
_ISO_DURATION = re.compile(
    r"P(?:([0-9.]+)Y)?(?:([0-9.]+)M)?(?:([0-9.]+)W)?(?:([0-9.]+)D)?"
    r"(?:T(?:([0-9.]+)H)?(?:([0-9.]+)M)?(?:([0-9.]+)S)?)?"
)
_ISO_UNITS = ("y", "mo", "w", "d", "h", "m", "s")


def as_seconds(text: str) -> float | None:
    """Parse a duration into seconds; None for any other text.

    Two numbers are minutes and seconds, three are hours, minutes and seconds.

    Example:
      >>> from hgr_jax.tables.date_texts import as_seconds
      >>> [as_seconds(text) for text in ("1:27.452", "90:30", "39m 38s", "2:00:05", "PT1M30S")]
      [87.452, 5430.0, 2378.0, 7205.0, 90.0]
    """
    colons = _COLONS.fullmatch(text)
    if colons:
        first, second, third = (int(colons[part] or 0) for part in ("first", "second", "third"))
        seconds = float(60 * first + second)
        if colons["third"]:
            seconds = 60 * seconds + third
        seconds += float((colons["fraction"] or "0").replace(",", "."))
        seconds += 86_400 * int(colons["days"] or 0)
        return -seconds if colons["sign"] == "-" else seconds
    iso = _ISO_DURATION.fullmatch(text)
    if iso and len(text) > 2:
        pieces = zip(iso.groups(), _ISO_UNITS, strict=True)
        return sum(float(number) * _UNITS[unit] for number, unit in pieces if number)
    total, end = 0.0, 0
    for piece in _PIECE.finditer(text):
        unit = _UNITS.get(piece[2].lower())
        if piece.start() != end or unit is None:
            return None
        total, end = total + float(piece[1].replace(",", ".")) * unit, piece.end()
    return total if end and end == len(text) else None


def _full_year(digits: str) -> int:
    return int(digits) + (2000 if int(digits) < 69 else 1900)


def _date(year: str, month: int, day: str, match: re.Match[str]) -> datetime.datetime | None:
    """Return a date with the matched time of day, None if either does not exist."""
    clock = _clock(match)
    number = _full_year(year) if len(year) == 2 else int(year)
    try:
        return clock and datetime.datetime(number, month, int(day), *clock)
    except ValueError:
        return None


def _clock(match: re.Match[str]) -> tuple[int, int, int] | None:
    """Return the matched hour, minute and second; None if that time does not exist."""
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    if match["am_pm"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (match["am_pm"] in "pP")
    return (hour, minute, second) if hour < 24 and max(minute, second) < 60 else None
