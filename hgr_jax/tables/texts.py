"""Decide what a column of texts holds: numbers, dates, times, durations, booleans, or plain text.

One odd text does not turn many numbers into a column of text: it counts as missing, with a note.
The columns of a file decide together: a decimal comma in one of them is one in all.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._texts import counted
from hgr_jax.tables.kinds import (
    TEXT_KIND,
    TEXT_KINDS,
    Kind,
)
from hgr_jax.tables.number_texts import (
    MAX_EXACT_DIGITS,
    Number,
    as_integer,
    is_flag,
    is_number,
    loses_digits,
)

MISSING = frozenset(
    {"", "?", "na", "n/a", "n.a.", "n.a", "nan", "-nan", "null", "(null)", "none", "nil", "\\n"}
    | {"<na>", "<null>", "#na", "#n/a", "#n/a n/a", "na_integer_", "na_real_", "na_character_"}
    | {"#div/0!", "#ref!", "#value!", "#name?", "#num!", "#null!", "#error!", "#getting_data"}
    | {"1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"}
)
"""Texts that mean a missing value, in lower case."""

NAMES = frozenset({"Na", "Nan", "Nil"})
"""Texts that are names, though they are in `MISSING` in lower case."""


def is_missing(text: str, missing: Collection[str] = MISSING) -> bool:
    """Return whether a trimmed text means a missing value; ``missing`` are in lower case."""
    return text.lower() in missing and text not in NAMES


_GAP_SIGN = re.compile(
    r"[-\u2013\u2014.*:]{1,4}|\u2026|:\s?[a-z]{1,2}|\.[a-z_]|n\.?[drs]\.?|tba|tbc|tbd"
    r"|missing|unknown|suppressed|not (?:available|applicable|reported)|s\.?/d|k\.\s?a\.",
    re.IGNORECASE,
)
"""Texts that mean a missing value in a column of numbers or dates only."""


def is_gap_sign(text: str) -> bool:
    """Return whether a text means a missing value among numbers and dates."""
    return _GAP_SIGN.fullmatch(text) is not None


IDENTIFIERS = "identifiers, as its type says"
"""Why a column of type ``id`` is left out."""

MISSING_LEVEL = "(missing)"
"""The level of missing values, where they are one."""

NEARLY_ALL = 0.9
"""A column is of a kind if this share of its values is; the other values count as missing."""


MOST = 0.5
FEW_ODD, SEVERAL = 3, 12
"""A column of numbers may have a smaller share of them, if at least `SEVERAL` are different and at
most `FEW_ODD` different texts are none."""

SAMPLE_SIZE = 300
MIN_SAMPLE_SHARE = 0.4
"""A kind is tried on all texts if this share of a sample is of it."""

ODD_LISTED = 5
MAX_ODD = 30
"""Number of different odd texts that a note lists, and that are counted."""

_POINTS = re.compile(r"(?<=[0-9])[.,]|[.,](?=[0-9])")

MIN_CODE_DIGITS = 3
"""Number of digits of codes that all have as many."""

MIN_GROUPED = 4
"""Number of whole numbers, and of numbers with a point, that tell that it is between thousands."""

_CODE = re.compile(r"[0-9]{1,5}[A-Z]{1,3}|[A-Z]{1,3}[0-9]{1,5}", re.IGNORECASE)
MIN_ID_DIGITS = 16
MIN_BLANKS = 5
MIN_DATE_ROWS = {"digits": 3, "month": 6}
"""Number of rows of dates that may be whole numbers, by their order."""

WORDS_OF_TYPES = {"number": ("numbers", "durations"), "date": ("dates",)}
"""Kinds that a column of a type can be of."""


AS_ELSEWHERE = ", as elsewhere in the file (--decimal . undoes it)"
REMARKS = {
    "about": "without the sign of about",
    "flag": "a sign or letter after the number",
    "limit": "half of a limit below which it lies, or the limit above which it lies",
    "error": "without the second number",
}
"""What is said of numbers of each `Number.remark`."""


@dataclasses.dataclass(frozen=True)
class Hints:
    """What is known of a column beside its texts.

    Attributes:
      point: the decimal point; None to infer it.
      order: ``"dmy"`` or ``"mdy"``, for dates that are both.
      type: one of `TYPES` in `faults`; None to infer it.
    """

    point: str | None = None
    order: str | None = None
    type: str | None = None


@dataclasses.dataclass(frozen=True)
class Inferred:
    """What a column of texts holds.

    Attributes:
      values: ``(n,)``: float64, NaN where missing; ``datetime64``, NaT where missing; booleans (of
        type object, with None, if any is missing); or texts, ``""`` where missing.
      note: how texts that are not plain were read; may be empty.
      kind: the word of the kind of texts: "numbers", "dates", "times", ...; may be empty.
      skip: the reason why the column is left out; may be empty.
    """

    values: NDArray[Any]
    note: str = ""
    kind: str = ""
    skip: str = ""


@dataclasses.dataclass(frozen=True)
class Meaning:
    """What the texts of a column hold, and how they are parsed.

    Attributes:
      kind: the kind of nearly all texts; `TEXT_KIND` for plain text.
      thousands: the mark between thousands; ``""`` if no number has one.
      note: how texts that are not plain are read; may be empty.
      units: the units that numbers may have.
      rivals: decimal points, or orders of dates, that would read as many texts.
      shows_comma: whether a decimal comma is seen that is nothing else.
      fill: the level that missing values are; ``""`` if they are missing.
      skip: the reason why the column is left out; may be empty.
    """

    kind: Kind
    thousands: str = ""
    note: str = ""
    units: frozenset[str] = frozenset({""})
    rivals: frozenset[str] = frozenset()
    shows_comma: bool = False
    fill: str = ""
    skip: str = ""

    @property
    def is_text(self) -> bool:
        """Whether the texts stay as they are."""
        return self.kind.word == TEXT_KIND.word

    def parse(self, texts: Sequence[str]) -> NDArray[Any]:
        """Parse texts; those of another kind become missing, ``""`` is missing."""
        if self.is_text:
            return np.array([*(text or self.fill for text in texts), None], object)[:-1]
        values = [self.kind.read(text) for text in texts]
        if self.kind.word == "dates":
            return in_seconds(np.array(values, "M8[us]"))
        if self.kind.word == "true or false":
            return np.array(values, object if None in values else bool)
        if self.kind.point:
            values = [None if v is None or v.unit not in self.units else v.value for v in values]
        return np.array([np.nan if value is None else value for value in values], np.float64)


NOWHERE = (sys.maxsize, "")
"""Row and text that stand for no text."""


@dataclasses.dataclass
class Tally:
    """Number of rows, and the first row with its text."""

    rows: int = 0
    first: tuple[int, str] = NOWHERE

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.rows + other.rows, min(self.first, other.first))


Tallies = dict[str, Tally]
"""Numbers of rows of texts."""


def _count(tallies: Tallies, name: str, rows: int, first: tuple[int, str]) -> None:
    tallies[name] = tallies.get(name, Tally()) + Tally(rows, first)


def _joined(one: Tallies, other: Tallies) -> Tallies:
    """Add tallies; the `MAX_ODD` that come first are kept."""
    names = dict.fromkeys([*one, *other])
    tallies = {name: one.get(name, Tally()) + other.get(name, Tally()) for name in names}
    return dict(sorted(tallies.items(), key=lambda item: item[1].first)[:MAX_ODD])


def _with_rows(tallies: Tallies) -> str:
    """List texts with their numbers of rows, the most frequent first."""
    ordered = sorted(tallies.items(), key=lambda item: (-item[1].rows, item[1].first))
    shown = [f"{text[:30]!r} ({tally.rows:,})" for text, tally in ordered[:ODD_LISTED]]
    return ", ".join([*shown, "..."] if len(ordered) > ODD_LISTED else shown)


@dataclasses.dataclass
class _KindCount:
    """Number of rows of a kind by unit, the first text that is not plain, and those of no kind.

    Attributes:
      units: the rows of each unit; kinds without units have ``""``.
      examples: the first text of each unit that is not plain.
      remarks: the rows of each `Number.remark`.
      points: the points and commas that are seen, before decimals and between thousands.
      odd: texts of another kind.
    """

    units: Tallies = dataclasses.field(default_factory=dict)
    examples: dict[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
    remarks: Tallies = dataclasses.field(default_factory=dict)
    points: frozenset[str] = frozenset()
    odd: Tallies = dataclasses.field(default_factory=dict)

    def add(self, kind: Kind, text: str, rows: int, row: int) -> bool:
        """Count a text; return whether it is of the kind."""
        value = kind.read(text)
        if value is None:
            if text in self.odd or len(self.odd) < MAX_ODD:
                _count(self.odd, text, rows, (row, text))
            return False
        unit = value.unit if isinstance(value, Number) else ""
        if unit in self.units or len(self.units) < MAX_ODD:
            _count(self.units, unit, rows, (row, text))
        if row < self.examples.get(unit, NOWHERE)[0] and not kind.is_plain(text):
            self.examples[unit] = (row, text)
        if isinstance(value, Number):
            if value.remark:
                _count(self.remarks, value.remark, rows, (row, text))
            shown = {value.mark} if value.mark in (".", ",") else set()
            self.points |= shown | ({kind.point or ""} & {*_POINTS.findall(text)})
        return True

    def __add__(self, other: _KindCount) -> _KindCount:
        return _KindCount(
            _joined(self.units, other.units),
            {
                unit: min(self.examples.get(unit, NOWHERE), other.examples.get(unit, NOWHERE))
                for unit in {**self.examples, **other.examples}
            },
            _joined(self.remarks, other.remarks),
            self.points | other.points,
            _joined(self.odd, other.odd),
        )

    def accepted_units(self) -> frozenset[str]:
        """Return the units of a column: one, and letters after numbers most of which have none."""
        rows = {unit: tally.rows for unit, tally in self.units.items()}
        plain, total = rows.get("", 0), sum(rows.values())
        flags = {unit for unit in rows if is_flag(unit)}
        lettered = len(flags) > 1 and flags == {*rows} - {""} and plain
        if plain < MOST * total and not lettered:
            return frozenset({"", max({*rows} - {""}, key=rows.__getitem__, default="")})
        others = {*rows} - flags - {""}
        if plain >= NEARLY_ALL * total:  # a word after few of the numbers is no unit of all
            others = {unit for unit in others if not unit[0].isalpha()}
        return frozenset({"", max(others, key=rows.__getitem__, default=""), *flags})

    @property
    def rows(self) -> int:
        """The number of rows of the kind, in the accepted units."""
        return sum(self.units[unit].rows for unit in self.accepted_units() & self.units.keys())

    @property
    def all_rows(self) -> int:
        """The number of rows of the kind, in any unit."""
        return sum(tally.rows for tally in self.units.values())

    def example(self) -> str:
        """Return the first text in an accepted unit that is not plain, ``""`` if all are."""
        accepted = self.accepted_units()
        return min((e for unit, e in self.examples.items() if unit in accepted), default=NOWHERE)[1]

    def all_odd(self) -> Tallies:
        """Return the texts of other kinds and of other units."""
        accepted = self.accepted_units()
        others = {
            tally.first[1]: tally for unit, tally in self.units.items() if unit not in accepted
        }
        return _joined(self.odd, others)


@dataclasses.dataclass
class KindCounts:
    """Number of rows of a column of texts of each kind.

    Counts of the parts of a column add up, so its meaning is the same however it is cut.

    Attributes:
      kinds: the kinds that are tried, the preferred first.
      rows, present: number of rows, and of those with a text that is not missing.
      missing: texts of `MISSING`.
      gap_signs: number of rows with a sign of a missing value among numbers.
      numeric: whether all texts are numbers as programs write them.
      whole: number of rows with a number of digits only.
      coded: number of rows with such a number that begins with zero.
      digits: smallest and largest number of digits.
      lost: integers that float64 does not hold exactly.
      some: up to `SEVERAL` different texts.
      bulk_words: number of rows with words that were counted all at once, by one of them.
      counts: the counts of each kind.
    """

    kinds: Sequence[Kind] = TEXT_KINDS
    rows: int = 0
    present: int = 0
    missing: Tallies = dataclasses.field(default_factory=dict)
    gap_signs: int = 0
    numeric: bool = True
    whole: int = 0
    coded: Tally = dataclasses.field(default_factory=Tally)
    digits: tuple[int, int] = (sys.maxsize, 0)
    lost: Tally = dataclasses.field(default_factory=Tally)
    some: frozenset[str] = frozenset()
    bulk_words: int = 0
    counts: list[_KindCount] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin with no row."""
        self.counts = self.counts or [_KindCount() for _ in self.kinds]

    def add_alike(self, texts: Sequence[str], counts: Sequence[int], rows: Sequence[int]) -> None:
        """Count texts by their kinds alone; a text may stand for others that are written alike."""
        for text, count, row in zip(texts, counts, rows, strict=True):
            self.present += count
            if len(self.some) < SEVERAL:
                self.some |= {text}
            self.numeric = self.numeric and is_number(text)
            if is_gap_sign(text):
                self.gap_signs += count
            for kind, of_kind in zip(self.kinds, self.counts, strict=True):
                of_kind.add(kind, text, count, row)

    def add(self, texts: Sequence[str], counts: Sequence[int], rows: Sequence[int]) -> None:
        """Count distinct texts, given the number of rows of each, and its first row."""
        self.add_alike(texts, counts, rows)
        for text, count, row in zip(texts, counts, rows, strict=True):
            if text.isdecimal():
                self.add_digits(count, (len(text), len(text)))
                if text[0] == "0" and len(text) > 1:
                    self.coded += Tally(count, (row, text))
        self.add_lost(texts, counts, rows)

    def add_digits(self, rows: int, digits: tuple[int, int]) -> None:
        """Count rows of whole numbers with these smallest and largest numbers of digits."""
        self.whole += rows
        self.digits = (min(self.digits[0], digits[0]), max(self.digits[1], digits[1]))

    def add_lost(self, texts: Sequence[str], counts: Sequence[int], rows: Sequence[int]) -> None:
        """Count the integers among texts that float64 does not hold exactly."""
        for text, count, row in zip(texts, counts, rows, strict=True):
            if len(text) > MAX_EXACT_DIGITS and loses_digits(as_integer(text)):
                self.lost += Tally(count, (row, text))

    def __add__(self, other: KindCounts) -> KindCounts:
        return KindCounts(
            self.kinds,
            self.rows + other.rows,
            self.present + other.present,
            _joined(self.missing, other.missing),
            self.gap_signs + other.gap_signs,
            self.numeric and other.numeric,
            self.whole + other.whole,
            self.coded + other.coded,
            (min(self.digits[0], other.digits[0]), max(self.digits[1], other.digits[1])),
            self.lost + other.lost,
            frozenset(sorted(self.some | other.some)[:SEVERAL]),
            self.bulk_words + other.bulk_words,
            [one + two for one, two in zip(self.counts, other.counts, strict=True)],
        )

    def decide(
        self,
        where: Callable[[int], str] = "in row {}".format,
        hints: Hints = Hints(),
        *,
        typed: bool = False,
    ) -> Meaning:
        """Return the meaning of the column.

        Args:
          where: words the place of a row.
          hints: what is known of the column.
          typed: whether texts that all are numbers are a category.
        """
        if hints.type in ("category", "text", "id"):
            return Meaning(TEXT_KIND, skip=IDENTIFIERS if hints.type == "id" else "")
        typed = typed and hints.type is None
        if typed and self.present and self.numeric and all(map(is_number, self.missing)):
            note = "texts that all are numbers are a category; convert them to have numbers"
            return Meaning(TEXT_KIND, note=note)
        if hints.type is None and (meaning := self._codes()) is not None:
            return meaning
        candidates = self._candidates(hints)
        if not candidates:
            meaning = self._texts(typed=typed)
            if hints.type:
                note = f"no value is a {hints.type}, as its type says"
                return dataclasses.replace(meaning, note=note)
            return meaning
        if all(map(_is_season, self.some)):  # 2001/02 is no month
            candidates = [found for found in candidates if found[0].order != "month"]
        if not candidates:
            return self._texts(typed=typed)
        most = max(count.rows for _, count in candidates)
        tied = [(kind, count) for kind, count in candidates if count.rows == most]
        kind, count = self._preferred(tied, hints)
        orders = {other.order for other, _ in tied} & {"mdy", "dmy"}
        points = {other.point for other, _ in tied if other.point and count.points}
        either = orders if kind.order in orders else points if kind.point else set()
        rivals = frozenset(either if len(either) > 1 else ())
        units = count.accepted_units()
        thousands = "".join(sorted(count.points - {kind.point})) if kind.point else ""
        shows_comma = kind.point == "," and "," in count.points and not rivals
        note = self._note(kind, count, where, hints)
        return Meaning(kind, thousands, note, units, rivals, shows_comma)

    def _candidates(self, hints: Hints) -> list[tuple[Kind, _KindCount]]:
        """Return the kinds of nearly all texts, or of most if few different ones are odd."""
        words = WORDS_OF_TYPES.get(hints.type or "")
        valued = self.present - self.gap_signs
        candidates = []
        for kind, count in zip(self.kinds, self.counts, strict=True):
            if (words and kind.word not in words) or not count.rows:
                continue
            if kind.point and hints.point not in (None, kind.point):
                continue
            limits = count.remarks.get("limit", Tally()).rows
            few = len(self.some) < SEVERAL
            if not words and few and limits > MOST * count.rows:  # classes: <=50K and >50K
                continue
            odd = [text for text in count.odd if not is_gap_sign(text)]
            few_odd = kind.word == "numbers" and len(odd) <= FEW_ODD and len(self.some) >= SEVERAL
            few_odd = few_odd and count.all_rows < count.rows / NEARLY_ALL and not self.bulk_words
            if count.rows >= (0 if words else MOST if few_odd else NEARLY_ALL) * valued:
                candidates.append((kind, count))
        return candidates

    def _preferred(
        self, tied: Sequence[tuple[Kind, _KindCount]], hints: Hints
    ) -> tuple[Kind, _KindCount]:
        """Return one of the kinds that read as many texts: dates of digits, then the first."""
        by_order = {kind.order: (kind, count) for kind, count in tied if kind.order}
        if hints.order in by_order:
            return by_order[hints.order]
        for order, needed in MIN_DATE_ROWS.items():
            enough = self.present - self.gap_signs >= needed or hints.type == "date"
            if order in by_order and enough and hints.type != "number":
                return by_order[order]
        kind, count = tied[0]
        if kind.point == "." and self._grouped(tied):
            return tied[1]
        if kind.order == "mdy" and "dmy" in by_order and re.search(r"\d[.]\d", count.example()):
            return by_order["dmy"]
        return kind, count

    def _grouped(self, tied: Sequence[tuple[Kind, _KindCount]]) -> bool:
        """Tell whether points are between thousands: only numbers below 1,000 have none."""
        marked = self.present - self.gap_signs - self.whole
        return (
            len(tied) > 1
            and tied[1][0].point == ","
            and "." in tied[0][1].points
            and min(self.whole, marked) >= MIN_GROUPED
            and self.digits[1] <= 3
        )

    def _note(
        self, kind: Kind, count: _KindCount, where: Callable[[int], str], hints: Hints
    ) -> str:
        """Say how texts that are not plain are read, and which are missing."""
        example = count.example()
        asked_for = (
            kind.point and hints.point == kind.point and not (kind.point == "," and "." in example)
        )
        expected = asked_for and is_number(example.replace(hints.point or ".", "."))
        notes = [] if not example or expected else [kind.example_note(example)]
        for remark, tally in count.remarks.items():
            said = f"({REMARKS[remark]}, in {counted(tally.rows, 'row')})"
            if notes and tally.first[1] == example:
                notes[0] += f" {said}"
            else:
                notes.append(f"{tally.first[1][:30]!r} {said}")
        if count.rows < self.present:
            odd = count.all_odd()
            row, text = min((tally.first for tally in odd.values()), default=NOWHERE)
            notes.append(
                f"{count.rows:,} of {self.present:,} are {kind.word}, the rest is read as missing;"
                f" the first that is not: {text[:40]!r} {where(row)}"
            )
            if len(odd) > 1:
                notes.append(f"these are {_with_rows(odd)}")
        if kind.point and self.lost.rows:
            notes.append(remark_on_lost_digits(self.lost.rows, self.lost.first[1]))
        return "; ".join(notes)

    def _codes(self) -> Meaning | None:
        """Return the meaning of codes with leading zeros, and of integers with too many digits."""
        low, high = self.digits
        all_whole = self.whole >= max(1, self.present - self.gap_signs)
        odd = self._odd_numbers() if self.coded.rows else {}
        of_digits = all_whole and low == high >= MIN_CODE_DIGITS
        if self.coded.rows and (of_digits or (odd and all(map(_CODE.fullmatch, odd)))):
            note = f"codes with leading zeros, such as {self.coded.first[1][:30]!r}, are text"
            return Meaning(TEXT_KIND, note=note)
        if all_whole and self.lost.rows >= NEARLY_ALL * self.present and low >= MIN_ID_DIGITS:
            first = self.lost.first[1]
            return Meaning(
                TEXT_KIND,
                skip=f"identifiers of {high} digits, such as {first[:40]}"
                + _as_time(first)
                + ", which float64 does not hold exactly",
            )
        return None

    def _odd_numbers(self) -> Tallies:
        """Return the texts that are no numbers, or end in a letter."""
        points = [c for k, c in zip(self.kinds, self.counts, strict=True) if k.point == "."]
        if not points:
            return {}
        lettered = [tally for unit, tally in points[0].units.items() if unit.isalpha()]
        return _joined(points[0].odd, {tally.first[1]: tally for tally in lettered})

    def _texts(self, *, typed: bool) -> Meaning:
        """Return the meaning of plain text, with a note on texts that are read as missing."""
        if not self.present:
            return Meaning(TEXT_KIND)
        blanks = self.rows - self.present
        if len(self.some) == 1 and min(blanks, self.present) >= MIN_BLANKS:
            only = next(iter(self.some))
            note = f"every value is {only[:30]!r} or missing: missing is a level, {MISSING_LEVEL!r}"
            return Meaning(TEXT_KIND, note=note, fill=MISSING_LEVEL)
        notes = []
        numbers = [c for k, c in zip(self.kinds, self.counts, strict=True) if k.point]
        units = max(numbers, key=lambda c: sum(t.rows for t in c.units.values()), default=None)
        if units is not None and len(units.units) > 1:
            rows = sum(tally.rows for tally in units.units.values())
            if rows >= NEARLY_ALL * (self.present - self.gap_signs):
                notes.append(f"its numbers have different units, {_with_rows(units.units)}")
        if missing := {text: t for text, t in self.missing.items() if is_missing(text)}:
            listed = _with_rows(missing)
            kept = "" if typed else "; in a category (--types) they are levels"
            notes.append(f"read as missing: {listed}{kept}")
        return Meaning(TEXT_KIND, note="; ".join(notes))


def _is_season(text: str) -> bool:
    """Tell whether a text may be two years in a row: 2001-02, 2001/02."""
    years = re.fullmatch(r"[12][0-9]([0-9]{2})[-/]([0-9]{2})", text)
    return years is not None and (int(years[1]) + 1) % 100 == int(years[2])


def _as_time(text: str) -> str:
    """Return the time of an integer of nanoseconds since 1970, for a message, or ``""``."""
    if len(text) != 19:
        return ""
    return f" (as a time since 1970: {np.datetime64(int(text) // 10**9, 's')})"


def decide_columns(
    counts: Mapping[str, KindCounts],
    where: Callable[[int], str],
    hints: Mapping[str, Hints],
) -> dict[str, Meaning]:
    """Decide the meanings of the columns of a file, which share a decimal point and date order."""
    meanings = {name: column.decide(where, hints[name]) for name, column in counts.items()}
    decided = [meaning for meaning in meanings.values() if not meaning.rivals]
    point = "," if any(meaning.shows_comma for meaning in decided) else None
    orders = {m.kind.order for m in decided} & {"mdy", "dmy"}
    order = orders.pop() if len(orders) == 1 else "dmy" if point and not orders else None
    for name, meaning in meanings.items():
        known = hints[name]
        if point and meaning.kind.point and meaning.rivals and known.point is None:
            meaning = counts[name].decide(where, dataclasses.replace(known, point=point))
            first, *others = meaning.note.split("; ")
            note = "; ".join([first + AS_ELSEWHERE, *others])
            meanings[name] = dataclasses.replace(meaning, note=note) if meaning.note else meaning
        elif order and meaning.kind.order in ("mdy", "dmy") and meaning.rivals:
            meanings[name] = counts[name].decide(where, dataclasses.replace(known, order=order))
    return {name: _noting_doubt(meaning) for name, meaning in meanings.items()}


def _noting_doubt(meaning: Meaning) -> Meaning:
    """Say where a mark may be a point or lie between thousands, or day and month be exchanged."""
    if not meaning.rivals:
        return meaning
    if meaning.kind.point:
        other = "," if meaning.kind.point == "." else "."
        if meaning.thousands != other:
            return meaning
        first, *others = meaning.note.split("; ")
        note = "; ".join([f"{first}; --decimal {other} reads it otherwise", *others])
        return dataclasses.replace(meaning, note=note)
    if meaning.kind.order not in ("mdy", "dmy"):
        return meaning
    note = f"{meaning.note}; day and month may be the other way round: no day is above 12"
    return dataclasses.replace(meaning, note=note)


def missing_note(counts: Mapping[str, Tallies]) -> str:
    """Return a note on the texts of `MISSING`, given those of each column."""
    columns: dict[str, int] = {}
    total: Tallies = {}
    for tallies in counts.values():
        tallies = {text: tally for text, tally in tallies.items() if is_missing(text)}
        for text in tallies:
            columns[text] = columns.get(text, 0) + 1
        total = _joined(total, tallies)
    ordered = sorted(total, key=lambda text: -total[text].rows)[:ODD_LISTED]
    shown = [
        f"{text!r} ({total[text].rows:,}"
        + (f" in {columns[text]} columns)" if columns[text] > 1 else ")")
        for text in ordered
    ]
    return f"read as missing: {', '.join(shown)}" if shown else ""


def infer(
    texts: NDArray[Any],
    *,
    hints: Hints = Hints(),
    where: Callable[[int], str] = "in row {}".format,
    missing: Tallies | None = None,
    typed: bool = False,
) -> Inferred:
    """Parse texts as the kind that nearly all of them are of, or leave them as text.

    Args:
      texts: ``(n,)``, trimmed, ``""`` where missing.
      hints: what is known of the column.
      where: words the place of a row.
      missing: numbers of rows of texts that mean a missing value.
      typed: whether texts that all are numbers are a category, as in a table with types.

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

    sample = texts[rows[:: max(1, len(rows) // SAMPLE_SIZE)]].tolist()
    kind_counts = KindCounts(kinds_of_sample(sample, hints.type), len(texts), missing=missing or {})
    kind_counts.add(levels, counts, first)
    meaning = kind_counts.decide(where, hints, typed=typed)
    all_codes = np.full(len(texts), -1)
    all_codes[rows] = codes
    values = meaning.parse(levels if len(rows) == len(texts) else [*levels, ""])[all_codes]
    return Inferred(values, meaning.note, meaning.kind.word, meaning.skip)


def kinds_of_sample(sample: Sequence[str], wanted: str | None = None) -> Sequence[Kind]:
    """Return the kinds that enough of a sample is of; all for a column of a ``wanted`` type."""
    if wanted in WORDS_OF_TYPES:
        return TEXT_KINDS
    valued = [text for text in sample if not is_gap_sign(text)]
    needed = MIN_SAMPLE_SHARE * max(len(valued), 1)
    words = [text for text in valued if not any(map(str.isdecimal, text)) and not is_number(text)]
    if len(words) > len(valued) - needed:  # no other kind does without digits
        valued, needed = words, min(needed, len(words))
        return [k for k in TEXT_KINDS[2:3] if sum(k.read(t) is not None for t in valued) >= needed]
    return [kind for kind in TEXT_KINDS if sum(kind.read(t) is not None for t in valued) >= needed]


def in_seconds(moments: NDArray[Any]) -> NDArray[Any]:
    """Return moments in whole seconds, unless that loses a fraction."""
    whole = moments.astype("M8[s]")
    return whole if (np.isnat(moments) | (whole == moments)).all() else moments


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
