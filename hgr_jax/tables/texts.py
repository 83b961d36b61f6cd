"""Infer what a column of texts holds: numbers, dates, times, booleans, or plain text.

One odd text among many numbers does not make a column of text: it counts as missing, with a note.
A `Form` records how a column is written, so that later files are read in the same way.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

DATE_ORDERS = {
    "": "",
    "iso": " (year-month-day)",
    "zone": " (year-month-day, with a time zone)",
    "ymd": " (year, month, day)",
    "mdy": " (month, day, year)",
    "dmy": " (day, month, year)",
    "name": " (with the name of the month)",
}
"""Orders of year, month and day, and how a message words them."""

COMMA = " (a decimal comma)"
HOURS = " (hours since midnight)"


@dataclasses.dataclass(frozen=True)
class Form:
    """How a column of numbers, dates or times is written.

    Attributes:
      kind: ``numbers`` (booleans included), ``dates``, or ``times`` of day.
      point: the decimal point of numbers; ``""`` if no number shows it.
      thousands: the thousands separator, ``,`` or ``.``; ``""`` if no number has one.
      order: a key of `DATE_ORDERS`; ``""`` for dates that were not read from texts.
    """

    kind: str
    point: str = ""
    thousands: str = ""
    order: str = ""

    def __str__(self) -> str:
        if self.kind == "dates":
            return self.kind + DATE_ORDERS[self.order]
        if self.kind == "times":
            return self.kind + HOURS
        return self.kind + (COMMA if self.point == "," else "")

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
    valid = form.kind in ("numbers", "dates", "times") and form.order in DATE_ORDERS
    if not valid or {form.point, form.thousands} - {"", ".", ","}:
        raise ValueError(f"{dict(description)} is no form of numbers, dates or times")
    return form


ISO_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)?"

_ISO = re.compile(ISO_DATE)
_ZONE = re.compile(rf"({_ISO.pattern})(Z|[-+][0-9]{{2}}:?[0-9]{{2}})")
_CLOCK = (
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?P<fraction>\.[0-9]+)?)?"
    r"(?:\s*(?P<am_pm>[AaPp])[Mm])?"
)
_TIME = re.compile(_CLOCK)
_PARTS = re.compile(
    r"(?P<a>[0-9]{1,4})(?P<separator>[/.-])(?P<b>[0-9]{1,2})(?P=separator)(?P<c>[0-9]{1,4})"
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
    """Parse a date of ISO 8601; None for any other text."""
    return _parse_iso(text) if _ISO.fullmatch(text) else None


def as_zoned(text: str) -> datetime.datetime | None:
    """Parse a date of ISO 8601 with a time zone into UTC; None for any other text."""
    moment = _parse_iso(text) if _ZONE.fullmatch(text) else None
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
    short = match["separator"] == "/" and len(parts["y"]) == 2 and order != "ymd"
    if not (len(parts["y"]) == 4 or short) or len(parts["d"]) > 2 or len(parts["m"]) > 2:
        return None
    if order == "ymd" and match["separator"] == "-":  # `as_iso` parses those
        return None
    return _date(parts["y"], int(parts["m"]), parts["d"], match)


def as_named(text: str) -> datetime.datetime | None:
    """Parse a date with an English month name; None for any other text.

    Example:
      >>> from hgr_jax.tables.texts import as_named
      >>> for text in ("5 Jan 2024", "January 5, 2024", "05-JAN-24 13:45"):
      ...     print(as_named(text))
      2024-01-05 00:00:00
      2024-01-05 00:00:00
      2024-01-05 13:45:00
    """
    match = next(filter(None, (pattern.fullmatch(text) for pattern in _NAMED)), None)
    month = _MONTH_NUMBERS.get(match["month"].lower()) if match else None
    return _date(match["year"], month, match["day"], match) if match and month else None


def as_hours(text: str) -> float | None:
    """Parse a time of day into hours since midnight; None for any other text.

    Example:
      >>> from hgr_jax.tables.texts import as_hours
      >>> [as_hours(text) for text in ("13:45", "1:45:36 PM", "24:10", "3:5")]
      [13.75, 13.76, None, None]
    """
    match = _TIME.fullmatch(text)
    clock = _clock(match) if match else None
    if match is None or clock is None:
        return None
    hour, minute, second = clock
    return hour + (60 * minute + second + float(match["fraction"] or 0)) / 3600


def _date(year: str, month: int, day: str, match: re.Match[str]) -> datetime.datetime | None:
    """Return a date with the matched time of day, None if either does not exist."""
    century = (2000 if int(year) < 69 else 1900) if len(year) == 2 else 0
    clock = _clock(match)
    try:
        return clock and datetime.datetime(century + int(year), month, int(day), *clock)
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


MISSING = frozenset(
    {"", "?", "na", "n/a", "nan", "-nan", "null", "none", "<na>", "#na", "#n/a", "#n/a n/a"}
    | {"1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"}
)
"""Texts that stand for a missing value, in lower case: those of pandas, and ``?``."""

DASHES = frozenset({"-", "--", "---", "\u2013", "\u2014", ".", "..", "...", "*"})
"""Texts that count as missing in a column of numbers or dates."""

NEARLY_ALL = 0.9
"""A column is of a kind if this share of its values is; the other values count as missing."""

SAMPLE_SIZE = 300
MIN_SAMPLE_SHARE = 0.8
"""A kind is tried on all texts if this share of a sample is of it."""

_SIGN = r"(?P<sign>[-+\u2212]?)"
_MONEY = r"(?:(?:US|CA|AU|[AC])?\$|[\u20ac\u00a3\u00a5\u20b9])"
# No number begins with a group of zeros: "0,301" has a decimal comma.
_GROUPS = {
    point: rf"[1-9][0-9]{{0,2}}(?:(?P<separator>[{other}' \u00a0\u202f\u2019])[0-9]{{3}})"
    rf"(?:(?P=separator)[0-9]{{3}})*(?:[{point}][0-9]*)?"
    for point, other in (".,", ",.")
}
_DIGITS = {
    ".": r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?",
    ",": r"(?:[0-9]+,?[0-9]*|,[0-9]+)(?:[eE][-+]?[0-9]+)?",
}
_NUMBER = {
    point: re.compile(
        rf"(?P<open>\()?{_SIGN}\s*(?:{_MONEY}\s*)?(?P<late_sign>[-+\u2212]?)"
        rf"(?P<digits>{_GROUPS[point]}|{_DIGITS[point]})\s*(?:%|{_MONEY})?(?(open)\))"
    )
    for point in (".", ",")
}


@dataclasses.dataclass(frozen=True)
class Inferred:
    """What a column of texts holds.

    Attributes:
      values: ``(n,)``: float64, NaN where missing; ``datetime64``, NaT where missing; booleans (of
        type object, with None, if any is missing); or texts, ``""`` where missing.
      note: how texts that are not plain were read; may be empty.
      form: how numbers, dates and times are written, else None.
      ambiguous: whether a comma in the numbers may be a decimal point or separate thousands.
    """

    values: NDArray[Any]
    note: str = ""
    form: Form | None = None
    ambiguous: bool = False


def is_number(text: str) -> bool:
    """Return whether a text is a number as programs write it."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # Python's 1_000 is no number in a file


def as_number(text: str, point: str = ".", *, doubtful: bool = True) -> float | None:
    """Parse a number, which may have a currency, a percent sign or a thousands separator.

    Args:
      text: without spaces around it.
      point: the decimal point.
      doubtful: whether to accept ``2,698``, whose comma may also be a decimal point.

    Example:
      >>> from hgr_jax.tables.texts import as_number
      >>> [as_number(text) for text in ("$5,125.73", "51.3%", "(12)", "3e2", "12 kg")]
      [5125.73, 51.3, -12.0, 300.0, None]
      >>> as_number("5.125,73", ",")
      5125.73
    """
    if point == "." and is_number(text):
        return float(text)
    match = _NUMBER[point].fullmatch(text)
    if match is None or (match["sign"] and match["late_sign"]):
        return None
    digits, separator = match["digits"], match["separator"]
    other = "," if point == "." else "."
    if not doubtful and separator == other and digits.count(other) == 1 and point not in digits:
        return None
    if separator:
        digits = digits.replace(separator, "")
    value = float(digits.replace(",", "."))
    negative = match["open"] or (match["sign"] or match["late_sign"]) in ("-", "\u2212")
    return -value if negative else value


def _as_boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


@dataclasses.dataclass(frozen=True)
class _Kind:
    """A kind of value: the word for it, its parser, its decimal point, and how a note words it."""

    word: str
    read: Callable[[str], Any]
    point: str | None = None
    how: str = ""
    order: str = ""


def _date_kind(read: Callable[[str], Any], order: str) -> _Kind:
    how = "" if order in ("iso", "zone") else DATE_ORDERS[order]
    return _Kind("dates", read, how=how, order=order)


_KINDS_OF_TEXT = (
    _Kind("numbers", as_number, "."),
    _Kind("numbers", functools.partial(as_number, point=","), ",", COMMA),
    _Kind("true or false", _as_boolean),
    _date_kind(as_iso, "iso"),
    _date_kind(as_zoned, "zone"),
    *(
        _date_kind(functools.partial(as_parts, order=order), order)
        for order in ("ymd", "mdy", "dmy")
    ),
    _date_kind(as_named, "name"),
    _Kind("times", as_hours, how=HOURS),
)
"""All kinds, the preferred first."""


def _kinds_allowed_by(form: Form) -> list[_Kind]:
    """Return the kinds that a form allows, under which each text has one meaning."""
    if form.kind == "numbers":
        point = form.point or "."
        read = functools.partial(as_number, point=point, doubtful=bool(form.thousands))
        flags = next(kind for kind in _KINDS_OF_TEXT if kind.read is _as_boolean)
        return [_Kind("numbers", read, point, COMMA if point == "," else ""), flags]
    if form.kind == "times":
        return [kind for kind in _KINDS_OF_TEXT if kind.word == "times"]
    allowed = ("iso", "zone", "ymd", "name") if not form.order else (form.order,)
    kinds = [kind for kind in _KINDS_OF_TEXT if kind.order in allowed]
    iso = form.order in ("ymd", "mdy", "dmy", "name")  # an ISO date is none of these

    def read_date(text: str) -> datetime.datetime | None:
        moments = (kind.read(text) for kind in kinds)
        moment = next((moment for moment in moments if moment), None)
        return as_iso(text) if moment is None and iso else moment

    return [_Kind("dates", read_date, how=kinds[0].how if iso else "", order=form.order)]


def infer(
    texts: NDArray[Any],
    *,
    point: str | None = None,
    form: Form | None = None,
    where: Callable[[int], str] = "in row {}".format,
) -> Inferred:
    """Parse texts as the kind that nearly all of them are of, or leave them as text.

    With a ``form``, texts are of that form, of another kind than the form's, or plain text.

    Args:
      texts: ``(n,)``, trimmed, ``""`` where missing.
      point: the decimal point, ``.`` or ``,``; None to infer it.
      form: how the texts are written, its decimal point included; None to infer it.
      where: words the place of a row.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.tables.texts import infer
      >>> inferred = infer(np.array(["1,5", "2,25", "-"], dtype=object))
      >>> inferred.values, inferred.note.partition(";")[0]
      (array([1.5 , 2.25,  nan]), "'1,5' is read as 1.5 (a decimal comma)")
    """
    if form is not None:
        inferred = _infer(texts, _kinds_allowed_by(form), None, where)
        if inferred.form is None:
            other = infer(texts, where=where)
            return other if other.form and other.form.kind != form.kind else Inferred(texts)
        return dataclasses.replace(inferred, form=form, ambiguous=False)
    kinds = [kind for kind in _KINDS_OF_TEXT if kind.point in (None, point or kind.point)]
    return _infer(texts, kinds, point, where)


def _infer(
    texts: NDArray[Any], kinds: Sequence[_Kind], point: str | None, where: Callable[[int], str]
) -> Inferred:
    """Parse texts as one of the kinds, or leave them as text."""
    rows = np.flatnonzero(texts != "")
    sample = [
        text for text in texts[rows[:: max(1, len(rows) // SAMPLE_SIZE)]] if text not in DASHES
    ]
    if not point and len(kinds) == len(_KINDS_OF_TEXT) and "," not in "".join(sample):
        kinds = [kind for kind in kinds if kind.point != ","]
    kinds = [kind for kind in kinds if _share_of(kind, sample) >= MIN_SAMPLE_SHARE]
    if not kinds:
        return Inferred(texts)
    position: dict[str, int] = {}
    codes = np.array([position.setdefault(text, len(position)) for text in texts.tolist()], np.intp)
    levels, counts = list(position), np.bincount(codes, minlength=len(position))
    if "" in position:
        counts[position[""]] = 0
    level_rows = counts.tolist()
    present = sum(level_rows)
    dashes = sum(level_rows[position[text]] for text in DASHES & position.keys())
    candidates: list[tuple[int, _Kind, list[Any]]] = []
    for kind in kinds:
        values = [kind.read(level) if level else None for level in levels]
        rows_read = sum(n for n, v in zip(level_rows, values, strict=True) if v is not None)
        if rows_read and rows_read >= NEARLY_ALL * (present - dashes):
            candidates.append((rows_read, kind, values))
    if not candidates:
        return Inferred(texts)
    rows_read, kind, values = max(candidates, key=lambda candidate: candidate[0])  # first if tied
    notes = [_reading_example(kind, levels, values)]
    if rows_read < present:
        odd = np.array([value is None for value in values]) & (counts > 0)
        row = int(np.argmax(odd[codes]))
        notes.append(odd_values_note(rows_read, present, kind.word, texts[row], where(row)))
    if kind.point:
        numbers = np.array([np.nan if value is None else value for value in values])
        notes.append(
            lost_digits_note(numbers, lambda rows: [as_integer(levels[row]) for row in rows])
        )
    ambiguous = "," in "".join(levels) and (
        [count for count, other, _ in candidates if other.point] == [rows_read, rows_read]
    )
    form = _form_written(kind, [t for t, v in zip(levels, values, strict=True) if v is not None])
    note = "; ".join(filter(None, notes))
    return Inferred(_values_of_kind(values)[codes], note, form, ambiguous)


def _form_written(kind: _Kind, texts: Sequence[str]) -> Form:
    """Return the form of texts of a kind."""
    if kind.word == "dates":
        return Form("dates", order=kind.order)
    if kind.word == "times":
        return Form("times")
    if not kind.point:
        return Form("numbers")
    other = "," if kind.point == "." else "."
    matches = [_NUMBER[kind.point].fullmatch(text) for text in texts]
    thousands = other if any(match and match["separator"] == other for match in matches) else ""
    seen = thousands or any(kind.point in text for text in texts)
    return Form("numbers", kind.point if seen else "", thousands)


def odd_values_note(parsed: int, present: int, word: str, text: str, place: str) -> str:
    """Return a note on the few values that are not of the column's kind, with the first of them."""
    return (
        f"{parsed:,} of {present:,} are {word}, the rest is read as missing; the first that is not:"
        f" {text[:40]!r} {place}"
    )


def reading_note(text: str, value: float, how: str = "") -> str:
    """Return a note on how a number that is not plain was read."""
    return f"{text[:40]!r} is read as {value:.15g}{how}"


def _share_of(kind: _Kind, sample: Sequence[str]) -> float:
    """Return which share of a sample is of a kind."""
    return sum(kind.read(text) is not None for text in sample) / max(len(sample), 1)


def as_integer(text: str) -> int | None:
    """Return the integer that a text of digits holds, None for any other number."""
    return int(text) if text.lstrip("+-").isdecimal() else None


def _reading_example(kind: _Kind, levels: Sequence[str], values: Sequence[Any]) -> str:
    """Return a note on the first text that is not plain and its value, or ``""``."""
    for level, value in zip(levels, values, strict=True):
        if value is None or isinstance(value, bool):
            continue
        if isinstance(value, float):
            if not is_number(level) or kind.how:
                return reading_note(level, value, kind.how)
        elif kind.how:
            shown = value.isoformat(" ").removesuffix(" 00:00:00")
            return f"{level[:40]!r} is read as {shown}{kind.how}"
    return ""


def _values_of_kind(values: Sequence[Any]) -> NDArray[Any]:
    """Return values of one kind, None where missing, as an array."""
    first = next(value for value in values if value is not None)
    if isinstance(first, float):
        return np.array([np.nan if value is None else value for value in values])
    if isinstance(first, bool):
        return np.array(values, object if None in values else bool)
    return in_seconds(np.array(values, "M8[us]"))


def in_seconds(moments: NDArray[Any]) -> NDArray[Any]:
    """Return moments in whole seconds, unless that loses a fraction."""
    whole = moments.astype("M8[s]")
    return whole if (np.isnat(moments) | (whole == moments)).all() else moments


def header_kind(names: Sequence[str]) -> Literal["names", "counted", "numbers"]:
    """Return whether a first line holds names, a count 0, 1, ... or 1, 2, ..., or other numbers."""
    values = [float(name) if is_number(name) else as_number(name, ",") for name in names]
    if None in values:
        return "names"
    count = len(values)
    if count > 2 and values in ([*range(count)], [*range(1, count + 1)]):
        return "counted"
    return "numbers"


def lost_digits_note(
    values: NDArray[Any], exact: Callable[[NDArray[np.intp]], list[int | None]]
) -> str:
    """Return a note on integers that ``values (n,)``, in float64, do not hold exactly, or ``""``.

    ``exact`` returns the integers of rows, None where the value is not an integer.
    """
    rows = np.flatnonzero((np.abs(values) >= 2.0**53) & (np.abs(values) < np.inf))
    if not len(rows):
        return ""
    pairs = list(zip(exact(rows), values[rows].tolist(), strict=True))
    whole = [(integer, int(value)) for integer, value in pairs if integer is not None]
    lost = [integer for integer, value in whole if integer != value]
    if not lost:
        return ""
    before, after = len({i for i, _ in whole}), len({v for _, v in whole})
    merged = f", and {before:,} become {after:,}" if after < before else ""
    return remark_on_lost_digits(f"for example {lost[0]} ({len(set(lost)):,} of them{merged})")


def remark_on_lost_digits(which: str) -> str:
    """Return the note on integers that float64 cannot hold."""
    return (
        f"integers beyond 2^53 lose digits as float64, {which}; leave the column out if they are"
        " identifiers"
    )
