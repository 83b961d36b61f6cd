"""What the texts of a column mean: numbers, dates, times, true and false, or nothing but text.

One odd text among many numbers does not make a column of text: it is read as missing, and said.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hgr_jax.tables.forms import COMMA, DATE_ORDERS, HOURS, Form
from hgr_jax.tables.moments import as_hours, as_iso, as_named, as_parts, as_zoned

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
