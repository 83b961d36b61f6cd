"""What the texts of a column mean: numbers, dates, times, true and false, or nothing but text.

One odd text among many numbers does not make a column of text: it is read as missing, and said.
How numbers, dates and times are written (`Form`) is kept, so that other files are read alike.
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
"""Of year, month and day, and how it is said."""

COMMA = " (a decimal comma)"
HOURS = " (hours since midnight)"


@dataclasses.dataclass(frozen=True)
class Form:
    """How a column of numbers, dates or times is written.

    Attributes:
      kind: ``numbers`` (true and false too), ``dates``, or ``times`` of day.
      point: the decimal point of numbers; ``""`` if none of them shows it.
      thousands: ``,`` or ``.`` if it stands between thousands, else ``""``.
      order: of dates, one of `DATE_ORDERS`; ``""`` for dates that were no texts.
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
        """Return the form with another decimal point; what is then no point is for thousands."""
        if self.kind != "numbers":
            return self
        return dataclasses.replace(self, point=point, thousands="," if point == "." else ".")

    def described(self) -> dict[str, str]:
        """Return what `form_of` takes."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value}


def form_of(description: Mapping[str, Any]) -> Form:
    """Return a form that was described.

    Raises:
      ValueError: if it is none.
    """
    form = Form(**description)
    known = form.kind in ("numbers", "dates", "times") and form.order in DATE_ORDERS
    if not known or {form.point, form.thousands} - {"", ".", ","}:
        raise ValueError(f"{dict(description)} is no form of numbers, dates or times")
    return form


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
      >>> from hgr_jax.tables.texts import as_named
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
      >>> from hgr_jax.tables.texts import as_hours
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


MISSING = frozenset(
    {"", "?", "na", "n/a", "nan", "-nan", "null", "none", "<na>", "#na", "#n/a", "#n/a n/a"}
    | {"1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"}
)
"""Texts that stand for a missing value, in any case: those of pandas, and ``?``."""

DASHES = frozenset({"-", "--", "---", "\u2013", "\u2014", ".", "..", "...", "*"})
"""Texts that are missing values where all others are numbers or dates."""

NEARLY_ALL = 0.9
"""Share of the values present that have to be of a kind, so that the others are missing."""

SAMPLE = 300
MAYBE = 0.8
"""Share of a sample below which a kind is not tried on all."""

_SIGN = r"(?P<sign>[-+\u2212]?)"
_MONEY = r"(?:(?:US|CA|AU|[AC])?\$|[\u20ac\u00a3\u00a5\u20b9])"
# No number begins with a group of zeros: "0,301" has a decimal comma.
_GROUPS = {
    point: rf"[1-9][0-9]{{0,2}}(?:(?P<by>[{other}' \u00a0\u202f\u2019])[0-9]{{3}})"
    rf"(?:(?P=by)[0-9]{{3}})*(?:[{point}][0-9]*)?"
    for point, other in (".,", ",.")
}
_DIGITS = {
    ".": r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?",
    ",": r"(?:[0-9]+,?[0-9]*|,[0-9]+)(?:[eE][-+]?[0-9]+)?",
}
_NUMBER = {
    point: re.compile(
        rf"(?P<open>\()?{_SIGN}\s*(?:{_MONEY}\s*)?(?P<late>[-+\u2212]?)"
        rf"(?P<digits>{_GROUPS[point]}|{_DIGITS[point]})\s*(?:%|{_MONEY})?(?(open)\))"
    )
    for point in (".", ",")
}


@dataclasses.dataclass(frozen=True)
class Inferred:
    """What a column of texts was found to be.

    Attributes:
      values: ``(n,)``: float64, NaN where missing; ``datetime64``, NaT where missing; booleans (of
        type object, with None, where some are missing); or texts, ``""`` where missing.
      note: what was made of texts that are not plain, or nothing.
      form: how numbers, dates and times are written, else None.
      either: whether the numbers could have a decimal comma as well as commas between thousands.
    """

    values: NDArray[Any]
    note: str = ""
    form: Form | None = None
    either: bool = False


def is_number(text: str) -> bool:
    """Return whether a text is a number as programs write it."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # Python's 1_000 is no number in a file


def as_number(text: str, point: str = ".", *, doubtful: bool = True) -> float | None:
    """Return the number that a text shows, None if it shows none.

    Args:
      text: without spaces around it.
      point: the decimal point.
      doubtful: whether the other mark in a number such as ``2,698`` is between thousands; if not,
        that shows none, since it could be a decimal point.

    Example:
      >>> from hgr_jax.tables.texts import as_number
      >>> [as_number(text) for text in ("$5,125.73", "51.3%", "(12)", "3e2", "12 kg")]
      [5125.73, 51.3, -12.0, 300.0, None]
      >>> as_number("5.125,73", ",")
      5125.73
    """
    if point == "." and is_number(text):
        return float(text)
    found = _NUMBER[point].fullmatch(text)
    if found is None or (found["sign"] and found["late"]):
        return None
    digits = found["digits"]
    other = "," if point == "." else "."
    if not doubtful and found["by"] == other and digits.count(other) == 1 and point not in digits:
        return None
    if found["by"]:
        digits = digits.replace(found["by"], "")
    value = float(digits.replace(",", "."))
    negative = found["open"] or (found["sign"] or found["late"]) in ("-", "\u2212")
    return -value if negative else value


def _as_flag(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


@dataclasses.dataclass(frozen=True)
class _Kind:
    """A kind of value: how a text is read as one, its decimal point, and what is said of it."""

    word: str
    read: Callable[[str], Any]
    point: str | None = None
    how: str = ""
    order: str = ""


def _dates(read: Callable[[str], Any], order: str, *, told: bool = True) -> _Kind:
    return _Kind("dates", read, how=DATE_ORDERS[order] if told else "", order=order)


_KINDS_OF_TEXT = (
    _Kind("numbers", as_number, "."),
    _Kind("numbers", functools.partial(as_number, point=","), ",", COMMA),
    _Kind("true or false", _as_flag),
    _dates(as_iso, "iso", told=False),
    _dates(as_zoned, "zone", told=False),
    *(_dates(functools.partial(as_parts, order=order), order) for order in ("ymd", "mdy", "dmy")),
    _dates(as_named, "name"),
    _Kind("times", as_hours, how=HOURS),
)
"""In the order in which they are preferred."""


def _kinds_of(form: Form) -> list[_Kind]:
    """Return the kinds that a form allows: each text has one meaning, whatever the others are."""
    if form.kind == "numbers":
        point = form.point or "."
        read = functools.partial(as_number, point=point, doubtful=bool(form.thousands))
        flags = next(kind for kind in _KINDS_OF_TEXT if kind.read is _as_flag)
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
    """Return what texts are: of the kind that nearly all of them are of, else text.

    Of a ``form`` that is known, they are of that form, of another kind than it, or text.

    Args:
      texts: ``(n,)``, trimmed, ``""`` where missing.
      point: the decimal point, ``.`` or ``,``; None to find it out.
      form: how they are written, which has a point of its own; None to find it out.
      where: says where a row is.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.tables.texts import infer
      >>> found = infer(np.array(["1,5", "2,25", "-"], dtype=object))
      >>> found.values, found.note.partition(";")[0]
      (array([1.5 , 2.25,  nan]), "'1,5' is read as 1.5 (a decimal comma)")
    """
    if form is not None:
        found = _infer(texts, _kinds_of(form), None, where)
        if found.form is None:
            other = infer(texts, where=where)
            return other if other.form and other.form.kind != form.kind else Inferred(texts)
        return dataclasses.replace(found, form=form, either=False)
    kinds = [kind for kind in _KINDS_OF_TEXT if kind.point in (None, point or kind.point)]
    return _infer(texts, kinds, point, where)


def _infer(
    texts: NDArray[Any], kinds: Sequence[_Kind], point: str | None, where: Callable[[int], str]
) -> Inferred:
    """Return what texts are of some kinds."""
    rows = np.flatnonzero(texts != "")
    sample = [text for text in texts[rows[:: max(1, len(rows) // SAMPLE)]] if text not in DASHES]
    if not point and len(kinds) == len(_KINDS_OF_TEXT) and "," not in "".join(sample):
        kinds = [kind for kind in kinds if kind.point != ","]
    kinds = [kind for kind in kinds if _part_of(kind, sample) >= MAYBE]
    if not kinds:
        return Inferred(texts)
    position: dict[str, int] = {}
    codes = np.array([position.setdefault(text, len(position)) for text in texts.tolist()], np.intp)
    levels, counts = list(position), np.bincount(codes, minlength=len(position))
    if "" in position:
        counts[position[""]] = 0
    of_levels = counts.tolist()
    present = sum(of_levels)
    least = NEARLY_ALL * (present - sum(of_levels[position[t]] for t in DASHES & position.keys()))
    read: list[tuple[int, _Kind, list[Any]]] = []
    for kind in kinds:
        values = [kind.read(level) if level else None for level in levels]
        good = sum(n for n, value in zip(of_levels, values, strict=True) if value is not None)
        if good and good >= least:
            read.append((good, kind, values))
    if not read:
        return Inferred(texts)
    good, kind, values = max(read, key=lambda one: one[0])  # of those alike, the first
    shown = _example(kind, levels, values)
    notes = [shown] if shown else []
    if good < present:
        odd = np.array([value is None for value in values]) & (counts > 0)
        row = int(np.argmax(odd[codes]))
        notes.append(say_odd(good, present, kind.word, texts[row], where(row)))
    if kind.point:
        levels_read = np.array([np.nan if value is None else value for value in values])
        lost = tell_lost_digits(levels_read, lambda rows: [as_integer(levels[row]) for row in rows])
        notes += [lost] if lost else []
    either = "," in "".join(levels) and [of for of, one, _ in read if one.point] == [good, good]
    form = _form_of_kind(kind, [t for t, v in zip(levels, values, strict=True) if v is not None])
    return Inferred(_array_of(values)[codes], "; ".join(notes), form, either)


def _form_of_kind(kind: _Kind, texts: Sequence[str]) -> Form:
    """Return how texts of a kind are written."""
    if kind.word == "dates":
        return Form("dates", order=kind.order)
    if kind.word == "times":
        return Form("times")
    if not kind.point:
        return Form("numbers")
    other = "," if kind.point == "." else "."
    found = [_NUMBER[kind.point].fullmatch(text) for text in texts]
    thousands = other if any(match and match["by"] == other for match in found) else ""
    seen = thousands or any(kind.point in text for text in texts)
    return Form("numbers", kind.point if seen else "", thousands)


def say_odd(good: int, present: int, word: str, text: str, place: str) -> str:
    """Say that few values are of another kind than the rest, with the first and where it is."""
    return (
        f"{good:,} of {present:,} are {word}, the rest is read as missing; the first that is not:"
        f" {text[:40]!r} {place}"
    )


def say_how(text: str, value: float, how: str = "") -> str:
    """Say how a number that is not plain is read."""
    return f"{text[:40]!r} is read as {value:.15g}{how}"


def _part_of(kind: _Kind, sample: Sequence[str]) -> float:
    """Return the share of a sample that is of a kind."""
    return sum(kind.read(text) is not None for text in sample) / max(len(sample), 1)


def as_integer(text: str) -> int | None:
    """Return the integer of a text, None for any other number."""
    return int(text) if text.lstrip("+-").isdecimal() else None


def _example(kind: _Kind, levels: Sequence[str], values: Sequence[Any]) -> str:
    """Return a text that is not plain and how it is read, or nothing if there is none."""
    for level, value in zip(levels, values, strict=True):
        if value is None or isinstance(value, bool):
            continue
        if isinstance(value, float):
            if not is_number(level) or kind.how:
                return say_how(level, value, kind.how)
        elif kind.how:
            shown = value.isoformat(" ").removesuffix(" 00:00:00")
            return f"{level[:40]!r} is read as {shown}{kind.how}"
    return ""


def _array_of(values: Sequence[Any]) -> NDArray[Any]:
    """Return values of one kind, and None, as an array."""
    one = next(value for value in values if value is not None)
    if isinstance(one, float):
        return np.array([np.nan if value is None else value for value in values])
    if isinstance(one, bool):
        return np.array(values, object if None in values else bool)
    return in_seconds(np.array(values, "M8[us]"))


def in_seconds(moments: NDArray[Any]) -> NDArray[Any]:
    """Return moments in seconds, where that loses nothing."""
    whole = moments.astype("M8[s]")
    return whole if (np.isnat(moments) | (whole == moments)).all() else moments


def kind_of_header(names: Sequence[str]) -> Literal["names", "counted", "numbers"]:
    """Return what a first line holds: names, the numbers 0, 1, ... or 1, 2, ..., or others."""
    values = [float(name) if is_number(name) else as_number(name, ",") for name in names]
    if None in values:
        return "names"
    count = len(values)
    if count > 2 and values in ([*range(count)], [*range(1, count + 1)]):
        return "counted"
    return "numbers"


def tell_lost_digits(
    values: NDArray[Any], exact: Callable[[NDArray[np.intp]], list[int | None]]
) -> str:
    """Return what is to be said of integers that float64 cannot hold, or nothing.

    Args:
      values: ``(n,)`` float64.
      exact: of rows, their integers (or None for one that is no integer).
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
    """Return what is said of integers that float64 cannot hold."""
    return (
        f"integers beyond 2^53 lose digits as float64, {which}; leave the column out if they are"
        " identifiers"
    )
