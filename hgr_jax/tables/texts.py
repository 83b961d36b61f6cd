"""Infer what a column of texts holds: numbers, dates, times, booleans, or plain text.

One odd text does not turn many numbers into a column of text: it counts as missing, with a note.
A `Form` records how a column is written, so that later files are read in the same way.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
import sys
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
"""Texts that mean a missing value, in lower case: the texts of pandas, and ``?``."""

DASHES = frozenset({"-", "--", "---", "\u2013", "\u2014", ".", "..", "...", "*"})
"""Texts that count as missing in a column of numbers or dates."""

NEARLY_ALL = 0.9
"""A column is of a kind if this share of its values is; the other values count as missing."""

MAX_EXACT_DIGITS = 15
"""Largest number of characters of integers that are surely exact in float64."""

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

    def is_plain(self, text: str) -> bool:
        """Return whether a text that is of this kind needs no note on how it is read."""
        if self.point == ",":
            return is_number(text) and "." not in text
        return is_number(text) if self.point else not self.how

    def example_note(self, text: str) -> str:
        """Return a note on how a text is read."""
        value = self.read(text)
        if isinstance(value, float):
            return reading_note(text, value, self.how)
        moment = value.isoformat(" ").removesuffix(" 00:00:00")
        return f"{text[:40]!r} is read as {moment}{self.how}"

    def marks(self, text: str) -> frozenset[str]:
        """Return the marks, ``.`` or ``,``, of a number, as a point or between thousands."""
        other = "," if self.point == "." else "."
        match = _NUMBER[self.point or "."].fullmatch(text)
        thousands = match is not None and match["separator"] == other
        return frozenset({other} if thousands else {}) | frozenset({self.point or ""} & {*text})

    def form(self, marks: frozenset[str]) -> Form:
        """Return the form of a column of this kind, whose numbers show these marks."""
        if self.word == "dates":
            return Form("dates", order=self.order)
        if self.word == "times":
            return Form("times")
        if not self.point:
            return Form("numbers")
        thousands = "".join(marks - {self.point})
        return Form("numbers", self.point if marks else "", thousands)


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
    """Return the kinds that texts of a form can have; a text has one meaning under them."""
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


@dataclasses.dataclass(frozen=True)
class Meaning:
    """What the texts of a column hold, and how they are parsed.

    Attributes:
      kind: the kind of nearly all texts.
      form: how numbers, dates and times are written.
      note: how texts that are not plain are read; may be empty.
      ambiguous: whether a comma in the numbers may be a decimal point or separate thousands.
    """

    kind: _Kind
    form: Form
    note: str = ""
    ambiguous: bool = False

    def parse(self, texts: Sequence[str]) -> NDArray[Any]:
        """Parse texts; those of another kind become missing."""
        values = [self.kind.read(text) for text in texts]
        if self.kind.word == "dates":
            return in_seconds(np.array(values, "M8[us]"))
        if self.kind.word == "true or false":
            return np.array(values, object if None in values else bool)
        return np.array([np.nan if value is None else value for value in values], np.float64)


NOWHERE = (sys.maxsize, "")
"""Row and text that stand for no text."""


@dataclasses.dataclass
class _KindCount:
    """Number of rows of a kind, the first text of another kind, and the first not plain one."""

    rows: int = 0
    odd: tuple[int, str] = NOWHERE
    example: tuple[int, str] = NOWHERE
    marks: frozenset[str] = frozenset()

    def __add__(self, other: _KindCount) -> _KindCount:
        return _KindCount(
            self.rows + other.rows,
            min(self.odd, other.odd),
            min(self.example, other.example),
            self.marks | other.marks,
        )


@dataclasses.dataclass
class KindCounts:
    """Number of rows of a column of texts of each kind.

    Counts of the parts of a column add up, so its meaning is the same however it is cut.

    Attributes:
      kinds: the kinds that are tried, the preferred first.
      present, dashes: number of rows with a text, and with one of `DASHES`.
      commas: whether any text has a comma.
      plain: whether all texts are numbers as programs write them.
      lost: number of integers that float64 does not hold exactly.
      first_lost: row and text of the first such integer.
      counts: the counts of each kind.
    """

    kinds: Sequence[_Kind] = _KINDS_OF_TEXT
    present: int = 0
    dashes: int = 0
    commas: bool = False
    plain: bool = True
    lost: int = 0
    first_lost: tuple[int, str] = NOWHERE
    counts: list[_KindCount] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin with no row."""
        self.counts = self.counts or [_KindCount() for _ in self.kinds]

    def add(self, texts: Sequence[str], counts: Sequence[int], rows: Sequence[int]) -> None:
        """Count distinct texts, given the number of rows of each, and its first row."""
        for text, count, row in zip(texts, counts, rows, strict=True):
            self.present += count
            self.dashes += count * (text in DASHES)
            self.commas |= "," in text
            self.plain = self.plain and is_number(text)
            word = ""  # kinds of different words have no text in common
            for kind, of_kind in zip(self.kinds, self.counts, strict=True):
                value = kind.read(text) if word in ("", kind.word) else None
                if value is None:
                    if row < of_kind.odd[0]:
                        of_kind.odd = (row, text)
                    continue
                word = kind.word
                of_kind.rows += count
                if row < of_kind.example[0] and not kind.is_plain(text):
                    of_kind.example = (row, text)
                if kind.point and ("." in text or "," in text):
                    of_kind.marks |= kind.marks(text)

    def add_levels(self, texts: Sequence[str], counts: Sequence[int], rows: Sequence[int]) -> None:
        """Add distinct texts, and count the digits that they lose as numbers."""
        self.add(texts, counts, rows)
        self.count_lost(texts, counts, rows)

    def count_lost(self, texts: Sequence[str], counts: Sequence[int], rows: Sequence[int]) -> None:
        """Count the integers among texts that float64 does not hold exactly."""
        for text, count, row in zip(texts, counts, rows, strict=True):
            if len(text) > MAX_EXACT_DIGITS and loses_digits(as_integer(text)):
                self.lost += count
                self.first_lost = min(self.first_lost, (row, text))

    def __add__(self, other: KindCounts) -> KindCounts:
        return KindCounts(
            self.kinds,
            self.present + other.present,
            self.dashes + other.dashes,
            self.commas or other.commas,
            self.plain and other.plain,
            self.lost + other.lost,
            min(self.first_lost, other.first_lost),
            [one + two for one, two in zip(self.counts, other.counts, strict=True)],
        )

    def decide(
        self, where: Callable[[int], str] = "in row {}".format, *, point: str | None = None
    ) -> Meaning | None:
        """Return the meaning of the column by the kind of `NEARLY_ALL` texts, or None.

        ``where`` words the place of a row; ``point`` is the decimal point, None to infer it.
        """
        needed = NEARLY_ALL * (self.present - self.dashes)
        candidates = [
            (kind, count)
            for kind, count in zip(self.kinds, self.counts, strict=True)
            if count.rows and count.rows >= needed and kind.point in (None, point or kind.point)
        ]
        if not candidates:
            return None
        kind, count = max(candidates, key=lambda candidate: candidate[1].rows)  # first if tied
        example = count.example[1]
        expected = point is not None and is_number(example.replace(point, "."))
        notes = [] if not example or expected else [kind.example_note(example)]
        if count.rows < self.present:
            row, text = count.odd
            notes.append(odd_values_note(count.rows, self.present, kind.word, text, where(row)))
        if kind.point and self.lost:
            notes.append(remark_on_lost_digits(self.lost, self.first_lost[1]))
        number_rows = [each.rows for number, each in candidates if number.point]
        ambiguous = not point and self.commas and number_rows == [count.rows, count.rows]
        return Meaning(kind, kind.form(count.marks), "; ".join(filter(None, notes)), ambiguous)


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
    rows = np.flatnonzero(texts != "")
    position: dict[str, int] = {}
    codes = np.array([position.setdefault(text, len(position)) for text in texts[rows]], np.intp)
    levels, counts = list(position), np.bincount(codes, minlength=len(position)).tolist()
    first = rows[np.unique(codes, return_index=True)[1]].tolist()

    def meaning_of(kinds: Sequence[_Kind]) -> Meaning | None:
        kind_counts = KindCounts(kinds)
        kind_counts.add_levels(levels, counts, first)
        return kind_counts.decide(where, point=point)

    sample = texts[rows[:: max(1, len(rows) // SAMPLE_SIZE)]].tolist()
    meaning = infer_meaning(sample, meaning_of, form)
    if meaning is None:
        return Inferred(texts)
    all_codes = np.full(len(texts), -1)
    all_codes[rows] = codes
    values = meaning.parse(levels if len(rows) == len(texts) else [*levels, ""])[all_codes]
    return Inferred(values, meaning.note, meaning.form, meaning.ambiguous)


def infer_meaning(
    sample: Sequence[str],
    meaning_of: Callable[[Sequence[_Kind]], Meaning | None],
    form: Form | None,
) -> Meaning | None:
    """Return the meaning of texts, given their form or a sample of them.

    ``meaning_of`` returns the meaning of all texts, given the kinds to try.
    """
    if form is not None:
        meaning = meaning_of(_kinds_allowed_by(form))
        if meaning is not None:
            return dataclasses.replace(meaning, form=form, ambiguous=False)
        other = infer_meaning(sample, meaning_of, None)
        return other if other is not None and other.form.kind != form.kind else None
    sample = [text for text in sample if text not in DASHES]
    kinds = [kind for kind in _KINDS_OF_TEXT if _share_of(kind, sample) >= MIN_SAMPLE_SHARE]
    return meaning_of(kinds) if kinds else None


def odd_values_note(parsed: int, present: int, word: str, text: str, place: str) -> str:
    """Return a note on the values of another kind than the column's, with the first of them."""
    return (
        f"{parsed:,} of {present:,} are {word}, the rest is read as missing; the first that is not:"
        f" {text[:40]!r} {place}"
    )


def reading_note(text: str, value: float, how: str = "") -> str:
    """Return a note on how a number that is not plain was read."""
    return f"{text[:40]!r} is read as {value:.15g}{how}"


def _share_of(kind: _Kind, sample: Sequence[str]) -> float:
    """Return the share of a sample that is of a kind."""
    return sum(kind.read(text) is not None for text in sample) / max(len(sample), 1)


def as_integer(text: str) -> int | None:
    """Return the integer that a text of digits holds, None for any other number."""
    return int(text) if text.lstrip("+-").isdecimal() else None


def in_seconds(moments: NDArray[Any]) -> NDArray[Any]:
    """Return moments in whole seconds, unless that loses a fraction."""
    whole = moments.astype("M8[s]")
    return whole if (np.isnat(moments) | (whole == moments)).all() else moments


def header_kind(names: Sequence[str]) -> Literal["names", "counted", "numbers"]:
    """Tell whether a first line holds names, a count (0, 1, ... or 1, 2, ...) or other numbers."""
    values = [float(name) if is_number(name) else as_number(name, ",") for name in names]
    if None in values:
        return "names"
    count = len(values)
    if count > 2 and values in ([*range(count)], [*range(1, count + 1)]):
        return "counted"
    return "numbers"


def loses_digits(integer: int | None) -> bool:
    """Return whether float64 does not hold an integer exactly."""
    return integer is not None and abs(integer) < 1 << 1023 and int(float(integer)) != integer


def lost_digits_note(
    values: NDArray[Any], exact: Callable[[NDArray[np.intp]], list[int | None]]
) -> str:
    """Return a note on integers that ``values (n,)``, in float64, do not hold exactly, or ``""``.

    ``exact`` returns the integers of rows, None where the value is not an integer.
    """
    rows = np.flatnonzero((np.abs(values) >= 2.0**53) & (np.abs(values) < np.inf))
    lost = [integer for integer in exact(rows) if loses_digits(integer)] if len(rows) else []
    return remark_on_lost_digits(len(lost), str(lost[0])) if lost else ""


def remark_on_lost_digits(count: int, first: str) -> str:
    """Return the note on integers that float64 cannot hold, in ``count`` rows."""
    return (
        f"integers beyond 2^53 lose digits as float64, in {count:,} rows, for example {first};"
        " leave the column out if they are identifiers"
    )
