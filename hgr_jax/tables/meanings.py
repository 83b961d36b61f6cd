"""Decide what columns of texts hold: numbers, dates, times, durations, booleans, or plain text.

One odd text does not turn many numbers into a column of text: it counts as missing, with a note.
The columns of a file decide together: a decimal comma in one of them is one in all.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgr_jax._texts import counted
from hgr_jax.tables import date_texts
from hgr_jax.tables.date_texts import DATE_ORDERS, UNMARKED_ORDERS
from hgr_jax.tables.number_texts import (
    FRACTION,
    Number,
    as_fraction,
    is_flag,
    is_number,
    parse_number,
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

_GAP_SIGN = re.compile(
    r"[-\u2013\u2014.*:]{1,4}|\u2026|:\s?[a-z]{1,2}|\.[a-z_]|\[[a-z]{1,3}\]|n\.?[drs]\.?|tba|tbc|tbd"
    r"|missing|unknown|suppressed|not (?:available|applicable|reported)|s\.?/d|k\.\s?a\.",
    re.IGNORECASE,
)
"""Texts that mean a missing value in a column of numbers or dates only."""

IDENTIFIERS = "identifiers, as its type says"
"""Why a column of type ``id`` is left out."""

MISSING_LEVEL = "(missing)"
"""The level of missing values, where they are one."""

NEARLY_ALL, MOST = 0.9, 0.5
"""A column is of a kind if the first share of its values is; the others count as missing."""

FEW_ODD, SEVERAL = 3, 12
"""A column of numbers may have the second share of them, if at least `SEVERAL` are different and at
most `FEW_ODD` different texts are none."""

SAMPLE_SIZE, MIN_SAMPLE_SHARE = 300, 0.4
"""A kind is tried on all texts if this share of a sample is of it."""

ODD_LISTED, MAX_ODD = 5, 30
"""Number of different odd texts that a note lists, and that are counted."""

MIN_GROUPED = 4
"""Number of whole numbers, and of numbers with a point, that tell that it is between thousands."""

MIN_CODE_DIGITS, MIN_ID_DIGITS, MIN_BLANKS = 3, 17, 5
MIN_DATE_ROWS = {"digits": 3, "month": 6}
"""Number of rows of dates that may be whole numbers, by their order."""

_POINTS = re.compile(r"(?<=[0-9])[.,]|[.,](?=[0-9])")


def is_missing(text: str, missing: Collection[str] = MISSING) -> bool:
    """Return whether a trimmed text means a missing value; ``missing`` are in lower case."""
    return text.lower() in missing and text not in NAMES


def is_gap_sign(text: str) -> bool:
    """Return whether a text means a missing value among numbers and dates."""
    return _GAP_SIGN.fullmatch(text) is not None


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of value: the word for it, its parser, and how a note words it.

    ``point`` is the decimal point of numbers, ``order`` that of dates.
    """

    word: str
    read: Callable[[str], Any]
    how: str = ""
    point: str = ""
    order: str = ""

    def is_plain(self, text: str) -> bool:
        """Return whether a text that is of this kind needs no note on how it is read."""
        if self.point == ",":
            return is_number(text) and "." not in text
        return is_number(text) if self.point else not self.how

    def example_note(self, text: str) -> str:
        """Return a note on how a text is read."""
        value, how = self.read(text), self.how
        if isinstance(value, Number | float):
            shown = f"{value.value if isinstance(value, Number) else value:.15g}"
        else:
            shown = value.isoformat(" ").removesuffix(" 00:00:00")
        if self.point == "," and "," not in text:
            how = " (points between thousands)"
        return f"{text[:40]!r} is read as {shown}{how}"


def _date_kind(order: str, before: str = "") -> Kind:
    read = functools.partial(date_texts.read_date, order=before + order)
    return Kind("dates", read, DATE_ORDERS[order], order=order)


_NUMBERS = (
    Kind("numbers", parse_number, point="."),
    Kind("numbers", functools.partial(parse_number, point=","), " (a decimal comma)", point=","),
)
_BOOLEANS = Kind("true or false", lambda text: {"true": True, "false": False}.get(text.lower()))
_DATES = tuple(map(_date_kind, DATE_ORDERS))
_DURATIONS = Kind("durations", date_texts.as_seconds, " (seconds)")

MOMENTS = (*_DATES, Kind("times", date_texts.as_hours, " (hours since midnight)"), _DURATIONS)
"""Kinds of dates, times of day and durations."""

KINDS = (*_NUMBERS, _BOOLEANS, *MOMENTS)
"""All kinds that are tried on any column, the preferred first."""

_KINDS_OF_TYPES = {
    "number": (*_NUMBERS, _DURATIONS, Kind("fractions", as_fraction, " (a fraction)")),
    "date": (*_DATES, *(_date_kind(order, "unmarked ") for order in UNMARKED_ORDERS)),
}
"""Kinds that a column of a type can be of."""

TEXT_KIND = Kind("text", str)
"""The kind of texts that are none of `KINDS`."""


@dataclasses.dataclass(frozen=True)
class Hints:
    """What is known of a column beside its texts.

    Attributes:
      point: the decimal point; None to infer it.
      order: ``"dmy"`` or ``"mdy"``, for dates that are both.
      type: one of `TYPES` in `faults`; None to infer it.
      name: the name of the column, for notes.
      missing: texts that mean a missing value, in lower case.
      typed: whether texts that all are numbers are a category, as in a table with types.
      where: words the place of a row.
    """

    point: str | None = None
    order: str | None = None
    type: str | None = None
    name: str = "COLUMN"
    missing: Collection[str] = MISSING
    typed: bool = False
    where: Callable[[int], str] = "in row {}".format


class Tally(NamedTuple):
    """A text, its number of rows, and the first of them."""

    row: int
    text: str
    rows: int


class Texts(NamedTuple):
    """The texts of a column.

    Attributes:
      rows: number of rows.
      present: the different texts that are not missing.
      missing: those that mean a missing value.
    """

    rows: int
    present: Sequence[Tally]
    missing: Sequence[Tally] = ()


class Coded(NamedTuple):
    """A column of texts.

    Attributes:
      codes: ``(n,)``, positions in ``levels``, -1 where there is no text.
      levels: the texts, trimmed; several may be equal.
      values: ``(n,)``, numbers or dates that were read already, NaN or NaT where the texts are.
      examples: texts that stand for these values.
      point: the decimal point of these values.
    """

    codes: NDArray[np.integer]
    levels: Sequence[str]
    values: NDArray[Any] | None = None
    examples: Sequence[Tally] = ()
    point: str = ""


def texts_of(column: Coded, missing: Collection[str]) -> Texts:
    """Count the texts of a column."""
    codes, levels = column.codes, column.levels
    present = np.flatnonzero(codes >= 0)
    first = np.zeros(len(levels), np.intp)
    first[codes[present[::-1]]] = present[::-1]
    sizes = np.bincount(codes[present], minlength=len(levels)).tolist()
    joined: dict[str, Tally] = {}
    for tally in [*column.examples, *map(Tally, first.tolist(), levels, sizes)]:
        if tally.rows and tally.text:
            _join(joined, tally.text, tally)
    kept: dict[bool, list[Tally]] = {True: [], False: []}
    for tally in sorted(joined.values()):
        kept[is_missing(tally.text, missing)].append(tally)
    return Texts(len(codes), kept[False], kept[True])


@dataclasses.dataclass(frozen=True)
class Meaning:
    """What the texts of a column hold, and how they are parsed.

    Attributes:
      kind: the kind of nearly all texts; `TEXT_KIND` for plain text.
      note: how texts that are not plain are read; may be empty.
      units: the units that numbers may have.
      rivals: decimal points, or orders of dates, that would read as many texts.
      marks: the points and commas that are seen in numbers.
      fill: the level that missing values are; ``""`` if they are missing.
      skip: the reason why the column is left out; may be empty.
    """

    kind: Kind
    note: str = ""
    units: frozenset[str] = frozenset({""})
    rivals: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()
    fill: str = ""
    skip: str = ""

    @property
    def is_text(self) -> bool:
        """Whether the texts stay as they are."""
        return self.kind.word == TEXT_KIND.word

    def parse(self, column: Coded, missing: Collection[str] = MISSING) -> NDArray[Any]:
        """Parse a column; texts of another kind become missing.

        Numbers are float64, and booleans if any is missing; dates are ``datetime64``; texts are
        ``""`` where missing.
        """
        texts = ["" if is_missing(text, missing) else text for text in column.levels]
        codes = column.codes
        if column.values is None:
            return self._parse_texts([*texts, ""] if (codes < 0).any() else texts)[codes]
        if not texts:
            return in_seconds(column.values)
        values = self._parse_texts(texts)
        whole = column.values.astype(np.promote_types(column.values.dtype, values.dtype))
        whole[codes >= 0] = values[codes[codes >= 0]]
        return in_seconds(whole)

    def _parse_texts(self, texts: Sequence[str]) -> NDArray[Any]:
        if self.is_text:
            return np.array([*(text or self.fill for text in texts), None], object)[:-1]
        values = [self.kind.read(text) for text in texts]
        if self.kind.word == "dates":
            return in_seconds(np.array(values, "M8[us]"))
        if self.kind.word == "true or false" and None not in values:
            return np.array(values, bool)
        if self.kind.point:
            values = [None if v is None or v.unit not in self.units else v.value for v in values]
        return np.array([np.nan if value is None else value for value in values], np.float64)


def in_seconds(moments: NDArray[Any]) -> NDArray[Any]:
    """Return moments in whole seconds, unless that loses a fraction; numbers as they are."""
    if moments.dtype.kind != "M":
        return moments
    whole = moments.astype("M8[s]")
    return whole if (np.isnat(moments) | (whole == moments)).all() else moments


def _join(tallies: dict[str, Tally], key: str, tally: Tally) -> None:
    """Add a tally to that of a key; the first rows come first."""
    known = tallies.get(key)
    if known is None:
        tallies[key] = tally
    else:
        tallies[key] = Tally(*min(known[:2], tally[:2]), known.rows + tally.rows)


def _with_rows(tallies: Mapping[str, Tally]) -> str:
    """List texts with their numbers of rows, the most frequent first."""
    ordered = sorted(tallies.items(), key=lambda item: (-item[1].rows, item[1]))
    shown = [f"{text[:30]!r} ({tally.rows:,})" for text, tally in ordered[:ODD_LISTED]]
    return ", ".join([*shown, "..."] if len(ordered) > ODD_LISTED else shown)


class _KindCount:
    """Number of rows of a kind by unit, and the texts that are of no unit of it.

    Attributes:
      kind: the kind.
      units: the rows of each unit; kinds without units have ``""``.
      examples: the first text of each unit that is not plain.
      points: the points and commas that are seen, before decimals and between thousands.
      odd: texts of another kind.
      accepted: the units that are read.
      rows, all_rows: number of rows in these units, and in all.
    """

    def __init__(self, kind: Kind, texts: Sequence[Tally]) -> None:
        self.kind = kind
        self.units: dict[str, Tally] = {}
        self.examples: dict[str, Tally] = {}
        self.points: set[str] = set()
        self.odd: dict[str, Tally] = {}
        for tally in texts:
            self._add(tally)
        self.accepted = self._accepted_units() if self.units else frozenset({""})
        self.rows = sum(tally.rows for unit, tally in self.units.items() if unit in self.accepted)
        self.all_rows = sum(tally.rows for tally in self.units.values())

    def _add(self, tally: Tally) -> None:
        text, value = tally.text, self.kind.read(tally.text)
        if value is None:
            if len(self.odd) < MAX_ODD:
                _join(self.odd, text, tally)
            return
        unit = value.unit if isinstance(value, Number) else ""
        if unit in self.units or len(self.units) < MAX_ODD:
            _join(self.units, unit, tally)
        if not self.kind.is_plain(text):
            self.examples[unit] = min(tally, self.examples.get(unit, tally))
        if isinstance(value, Number):
            self.points |= {value.mark} & {".", ","}
            self.points |= {self.kind.point} & {*_POINTS.findall(text)}

    def _accepted_units(self) -> frozenset[str]:
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

    def example(self) -> str:
        """Return the first text in an accepted unit that is not plain, ``""`` if all are."""
        examples = [tally for unit, tally in self.examples.items() if unit in self.accepted]
        return min(examples).text if examples else ""

    def all_odd(self) -> dict[str, Tally]:
        """Return the texts of other kinds and of other units."""
        others = {t.text: t for unit, t in self.units.items() if unit not in self.accepted}
        return dict(sorted((self.odd | others).items(), key=lambda item: item[1])[:MAX_ODD])


class _Column:
    """The texts of a column, counted by kinds, and what they mean."""

    def __init__(self, texts: Texts, hints: Hints) -> None:
        self.texts, self.hints = texts, hints
        self.present = sum(tally.rows for tally in texts.present)
        gap_signs = sum(tally.rows for tally in texts.present if is_gap_sign(tally.text))
        self.valued = self.present - gap_signs
        self.limited = [tally for tally in texts.present if tally.text[0] in "<>"]
        self.few = len(texts.present) < SEVERAL
        self.digits = [tally for tally in texts.present if tally.text.isdecimal()]
        self.whole = sum(tally.rows for tally in self.digits)
        step = max(1, len(texts.present) // SAMPLE_SIZE)
        sample = [tally.text for tally in texts.present[::step]]
        self.counts = [
            _KindCount(kind, texts.present) for kind in _kinds_of_sample(sample, hints.type)
        ]

    def decide(self, known: Hints) -> Meaning:
        """Return the meaning of the column; ``known`` has what the other columns tell."""
        if known.type in ("category", "text", "id"):
            return Meaning(TEXT_KIND, skip=IDENTIFIERS if known.type == "id" else "")
        if known.type is None:
            meaning = self._numbers_as_texts() if known.typed and self.present else None
            meaning = meaning or self._codes(known)
            if meaning is not None:
                return meaning
        candidates = self._candidates(known)
        if not candidates:
            wrong = known.type and f"no value is a {known.type}, as its type says"
            return self._plain_text(wrong or "")
        most = max(count.rows for count in candidates)
        tied = [count for count in candidates if count.rows == most]
        count = self._preferred(tied, known)
        kind = count.kind
        orders = {other.kind.order for other in tied} & {"mdy", "dmy"}
        points = {other.kind.point for other in tied if other.kind.point and other.points}
        either = orders if kind.order in orders else points if kind.point else set()
        rivals = frozenset(either if len(either) > 1 else ())
        note = self._note(count, known)
        return Meaning(kind, note, count.accepted, rivals, frozenset(count.points))

    def _numbers_as_texts(self) -> Meaning | None:
        """Return the meaning of texts that all are numbers: someone made texts of these."""
        if not all(is_number(t.text) for t in [*self.texts.present, *self.texts.missing]):
            return None
        note = "texts that all are numbers are a category; convert them, or say"
        note = f"{note} --types {self.hints.name}=number, to have numbers"
        return Meaning(TEXT_KIND, note=note)

    def _candidates(self, known: Hints) -> list[_KindCount]:
        """Return the kinds of nearly all texts, or of most if few different ones are odd."""
        candidates = []
        for count in self.counts:
            kind = count.kind
            if not count.rows or (kind.point and known.point not in (None, kind.point)):
                continue
            limits = sum(tally.rows for tally in self.limited)
            if self.few and limits > MOST * count.rows:  # classes: <=50K and >50K
                continue
            odd = [text for text in count.odd if not is_gap_sign(text)]
            few_odd = kind.word == "numbers" and len(odd) <= FEW_ODD and not self.few
            few_odd = few_odd and count.all_rows < count.rows / NEARLY_ALL
            needed = (MOST if few_odd else NEARLY_ALL) * self.valued
            if known.type in _KINDS_OF_TYPES or count.rows >= needed:
                candidates.append(count)
        return candidates

    def _preferred(self, tied: Sequence[_KindCount], known: Hints) -> _KindCount:
        """Return one of the kinds that read as many texts: dates of digits, then the first."""
        by_order = {count.kind.order: count for count in reversed(tied) if count.kind.order}
        if known.order in by_order:
            return by_order[known.order]
        for order, needed in MIN_DATE_ROWS.items():
            enough = self.valued >= needed or known.type == "date"
            if order in by_order and enough and known.type != "number":
                return by_order[order]
        count = tied[0]
        if count.kind.point == "." and self._grouped(tied):
            return tied[1]
        if count.kind.order == "mdy" and "dmy" in by_order:
            return by_order["dmy" if re.search(r"\d[.]\d", count.example()) else "mdy"]
        return count

    def _grouped(self, tied: Sequence[_KindCount]) -> bool:
        """Tell whether points are between thousands: 314 and 1.913 are below and above 1,000.

        Of eighths, as 2 and 1.125, the whole numbers are small.
        """
        marked = self.valued - self.whole
        small = sum(tally.rows for tally in self.digits if len(tally.text) < 3)
        return (
            len(tied) > 1
            and tied[1].kind.point == ","
            and "." in tied[0].points
            and min(self.whole, marked) >= MIN_GROUPED
            and all(len(tally.text) <= 3 for tally in self.digits)
            and small <= MOST * self.whole
        )

    def _note(self, count: _KindCount, known: Hints) -> str:
        """Say how texts that are not plain are read, and which are missing."""
        kind, example = count.kind, count.example()
        grouped = kind.point == "," and "." in example
        told = kind.point == known.point and not grouped
        told = told and is_number(example.replace(kind.point or ".", "."))
        notes = [kind.example_note(example)] if example and not told else []
        limited = [tally for tally in self.limited if kind.point and kind.read(tally.text)]
        if limited:
            below, rows = limited[0].text, counted(sum(tally.rows for tally in limited), "row")
            side = "half of a limit below which it lies, or the limit above which it lies"
            notes = [note for note in notes if below != example]
            notes.append(f"{kind.example_note(below)} ({side}, in {rows})")
        if count.rows < self.present:
            odd = count.all_odd()
            first = min(odd.values())
            notes.append(
                f"{count.rows:,} of {self.present:,} are {kind.word}, the rest is read as missing;"
                f" the first that is not: {first.text[:40]!r} {known.where(first.row)}"
            )
            if len(odd) > 1:
                notes.append(f"these are {_with_rows(odd)}")
        if kind.point and not known.type:
            notes += self._note_of_dates(known)
        return "; ".join(notes)

    def _note_of_dates(self, known: Hints) -> list[str]:
        """Say in which order all texts are dates without marks; nothing if they are none."""
        if self.few or len(self.digits) < SEVERAL:
            return []
        for order in UNMARKED_ORDERS:
            if all(date_texts.read_date(t.text, f"unmarked {order}") for t in self.digits):
                words = "year, month and day" if order == "digits" else DATE_ORDERS[order][2:-1]
                option = "date" if order == "digits" else order
                return [f"they may be dates of {words} (--types {known.name}={option})"]
        return []

    def _codes(self, known: Hints) -> Meaning | None:
        """Return the meaning of codes with leading zeros, and of integers with too many digits."""
        if not self.digits:
            return None
        all_whole = self.whole >= max(1, self.valued)
        lengths = {len(tally.text) for tally in self.digits}
        coded = [t for t in self.digits if t.text[0] == "0" and len(t.text) > 1]
        if coded and all_whole and len(lengths) == 1 and min(lengths) >= MIN_CODE_DIGITS:
            note = f"codes with leading zeros, such as {min(coded).text[:30]!r}, are text"
            return Meaning(TEXT_KIND, note="; ".join([note, *self._note_of_dates(known)]))
        if all_whole and min(lengths) >= MIN_ID_DIGITS:
            example = min(self.digits).text[:40]
            skip = f"identifiers of {max(lengths)} digits, such as {example}"
            return Meaning(TEXT_KIND, skip=f"{skip}, which float64 does not hold exactly")
        return None

    def _plain_text(self, wrong: str) -> Meaning:
        """Return the meaning of plain text, with a note on texts that are read as missing."""
        if not self.present or wrong:
            return Meaning(TEXT_KIND if self.present else KINDS[0], note=wrong)
        blanks = self.texts.rows - self.present
        if len(self.texts.present) == 1 and min(blanks, self.present) >= MIN_BLANKS:
            only = self.texts.present[0].text
            note = f"every value is {only[:30]!r} or missing: missing is a level, {MISSING_LEVEL!r}"
            return Meaning(TEXT_KIND, note=note, fill=MISSING_LEVEL)
        notes = []
        numbers = [count for count in self.counts if count.kind.point]
        units = max(numbers, key=lambda count: count.all_rows, default=None)
        if units and len(units.units) > 1 and units.all_rows >= NEARLY_ALL * self.valued:
            notes.append(f"its numbers have different units, {_with_rows(units.units)}")
        pairs = [tally for tally in self.texts.present if FRACTION.fullmatch(tally.text)]
        if pairs and sum(t.rows for t in pairs) + self.whole >= NEARLY_ALL * self.valued:
            notes.append(
                f"{min(pairs).text!r} may be two numbers, a mark or a fraction, and is text"
                f" (--types {self.hints.name}=number reads fractions)"
            )
        most = max(self.counts, key=lambda count: count.rows, default=_KindCount(TEXT_KIND, ()))
        word = most.kind.word
        if word in ("numbers", "dates") and most.rows > MOST * self.valued and not notes:
            option = f"--types {self.hints.name}={word[:-1]} reads these alone"
            notes.append(f"{most.rows:,} of {self.present:,} are {word}: {option}")
        missing = {t.text: t for t in self.texts.missing if is_missing(t.text)}
        if missing:
            kept = "" if self.hints.typed else "; in a category (--types) they are levels"
            notes.append(f"read as missing: {_with_rows(missing)}{kept}")
        return Meaning(TEXT_KIND, note="; ".join(notes))


def _kinds_of_sample(sample: Sequence[str], wanted: str | None) -> Sequence[Kind]:
    """Return the kinds that enough of a sample is of; all for a column of a ``wanted`` type."""
    if wanted is not None:
        return _KINDS_OF_TYPES.get(wanted, ())
    valued = [text for text in sample if not is_gap_sign(text)]
    words = [text for text in valued if not any(map(str.isdecimal, text)) and not is_number(text)]
    needed = MIN_SAMPLE_SHARE * max(len(valued), 1)
    kinds: Sequence[Kind] = KINDS
    if len(words) > len(valued) - needed:  # no other kind does without digits
        valued, needed, kinds = words, min(needed, len(words)), (_BOOLEANS,)
    return [k for k in kinds if sum(k.read(text) is not None for text in valued) >= needed]


def decide_meanings(columns: Mapping[str, Texts], hints: Mapping[str, Hints]) -> dict[str, Meaning]:
    """Decide what columns mean, by name: those of a table share a decimal point and date order."""
    counts = {name: _Column(texts, hints[name]) for name, texts in columns.items()}

    def decided(name: str, **known: Any) -> Meaning:
        return counts[name].decide(dataclasses.replace(hints[name], **known))

    meanings = {name: decided(name) for name in counts}
    sure = [meaning for meaning in meanings.values() if not meaning.rivals]
    seen = {m.kind.point for m in sure if m.kind.point and m.kind.point in m.marks}
    point = "," if "," in seen else "." if seen else None
    orders = {meaning.kind.order for meaning in sure} & {"mdy", "dmy"}
    order = orders.pop() if len(orders) == 1 else "dmy" if point == "," and not orders else None
    for name, meaning in meanings.items():
        if not meaning.rivals:
            continue
        if point and meaning.kind.point and hints[name].point is None:
            meanings[name] = found = decided(name, point=point)
            if found.note and point == ",":
                said = ", as elsewhere in the file (--decimal . undoes it)"
                meanings[name] = _with_remark(found, said)
        elif order and meaning.kind.order in ("mdy", "dmy"):
            meanings[name] = decided(name, order=order)
        elif not meaning.kind.point:
            doubt = "; day and month may be the other way round: no day is above 12"
            meanings[name] = dataclasses.replace(meaning, note=meaning.note + doubt)
        else:
            other = "," if meaning.kind.point == "." else "."
            if other in meaning.marks:
                meanings[name] = _with_remark(meaning, f"; --decimal {other} reads it otherwise")
    return meanings


def _with_remark(meaning: Meaning, remark: str) -> Meaning:
    """Add a remark to the first sentence of the note of a meaning."""
    first, *others = meaning.note.split("; ")
    return dataclasses.replace(meaning, note="; ".join([first + remark, *others]))


def missing_note(columns: Mapping[str, Texts]) -> str:
    """Return a note on the texts of `MISSING` in all columns."""
    rows, places = collections.Counter[str](), collections.Counter[str]()
    for texts in columns.values():
        for tally in texts.missing:
            if is_missing(tally.text):
                rows[tally.text] += tally.rows
                places[tally.text] += 1
    shown = [
        f"{text!r} ({count:,}" + (f" in {places[text]} columns)" if places[text] > 1 else ")")
        for text, count in rows.most_common(ODD_LISTED)
    ]
    return f"read as missing: {', '.join(shown)}" if shown else ""
