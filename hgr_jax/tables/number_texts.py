"""Numbers as people write them: with units, currencies, flags, limits and brackets."""

from __future__ import annotations

import re
from typing import NamedTuple

_MINUS = dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d", "-")
_SPACES = dict.fromkeys(("\u00a0", *map(chr, range(0x2000, 0x200B)), "\u202f", "\u205f"), " ")
_OTHERS = {"\u2019": "'", "\u00b4": "'", "\u2264": "<=", "\u2265": ">="}
_PLAIN_CHARACTERS = str.maketrans({**_MINUS, **_SPACES, **_OTHERS})
"""Characters that have a plainer one of the same meaning."""

_CURRENCY = "[$\u20ac\u00a3\u00a5]"
# No number begins with a group of zeros: "0,301" has a decimal comma.
_GROUPS = {
    point: rf"[1-9][0-9]{{0,2}}(?:(?P<mark>[{other}' ])[0-9]{{3}})(?:(?P=mark)[0-9]{{3}})*"
    rf"(?:[{point}][0-9]*)?"
    for point, other in (".,", ",.")
}
_INDIAN = r"[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}(?:\.[0-9]*)?"
_DIGITS = {
    point: rf"(?:[0-9]+[{point}]?[0-9]*|[{point}][0-9]+)(?:[eE][-+]?[0-9]+|[dD][-+][0-9]+)?"
    for point in ".,"
}
_UNIT = (
    r"(?:%|\u2030|(?![QHTSqhts][0-9])[A-Za-z\u00b5\u03bc\u00b0\u03a9\u00c5]"
    r"(?:[A-Za-z\u00b5\u03bc\u00b0\u03a9\u00b2\u00b3\u207b\u00b9/.^-]|(?<=[A-Za-z/^-])[0-9](?![0-9])){0,14}"
    r"(?:\s[A-Za-z.]{1,3})?)"
)
_FLAG = r"\s*(?:[*+\u2020\u2021\u00a7#^!]+(?:\s?[A-Za-z]{1,2})?|\[[0-9A-Za-z]{1,3}\])"
_NUMBER = {
    point: re.compile(
        r"'?(?P<open>\()?\s*(?P<limit>[<>]=?|[~\u2248]|ca?\.\s)?\s*(?P<sign>[-+]?)\s*"
        rf"(?:(?P<before>{_CURRENCY})\s*)?(?P<late_sign>[-+]?)"
        rf"(?P<digits>{_GROUPS[point]}"
        + (rf"|{_INDIAN}" if point == "." else "")
        + rf"|{_DIGITS[point]})(?P<end_sign>-(?=\s*\Z))?"
        rf"(?:{_FLAG})?(?:\s*(?P<unit>{_CURRENCY}|{_UNIT}))?(?:{_FLAG})?"
        r"\s*(?(open)\))'?"
    )
    for point in (".", ",")
}
_BYTE = "(?:[0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])"
_IP_ADDRESS = re.compile(rf"{_BYTE}(?:\.{_BYTE}){{3}}")
_SCALE = re.compile(
    r"K|[MGBT]|(?i:thousand|million|billion|trillion|mn|mio|mrd|bn|tsd|crore|lakh)s?\b.*"
)
"""What multiplies a number, or is a unit: 4.5K beside 300 is no number."""

_ORDINALS = {"st", "nd", "rd", "th"}

FRACTION = re.compile(r"(?:(?P<whole>[0-9]{1,4})[ -])?(?P<top>[0-9]{1,4})\s?/\s?(?P<bottom>[0-9]+)")
"""Two numbers with a stroke: a fraction, a mark out of ten, a season or a blood pressure."""

SHORT_UNITS = frozenset(
    (
        *("m", "km", "cm", "mm", "nm", "ft", "in", "mi", "g", "kg", "mg", "ug", "lb", "oz", "t"),
        *("l", "dl", "ml", "hl", "ha", "s", "ms", "h", "hr", "d", "w", "kw", "mw", "v", "kv", "mv"),
        *("a", "ma", "hz", "pa", "j", "kj", "n", "k", "db", "ph", "mo", "yr"),
    )
)
"""Units of one or two letters, which are no flags."""


class Number(NamedTuple):
    """A number that a text holds.

    Attributes:
      value: the number; half of a limit of detection as in ``<0.5``.
      unit: the unit or currency, ``""`` if there is none.
      mark: the mark between thousands, ``""`` if there is none.
    """

    value: float
    unit: str = ""
    mark: str = ""


def is_flag(unit: str) -> bool:
    """Return whether letters after a number are a flag (provisional, estimated), not a unit."""
    return unit.isalpha() and len(unit) <= 2 and unit.lower() not in SHORT_UNITS


def is_number(text: str) -> bool:
    """Return whether a text is a number as programs write it."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # Python's 1_000 is no number in a file


def parse_number(text: str, point: str = ".") -> Number | None:
    """Parse a number, which may have a unit, a currency, a flag or a mark between thousands.

    Args:
      text: without spaces around it.
      point: the decimal point.

    Example:
      >>> from hgr_jax.tables.number_texts import parse_number
      >>> for text in ("$5,125.73", "70.1 kg", "<0.5", "(12)", "1 234"):
      ...     number = parse_number(text)
      ...     print([number.value, number.unit])
      [5125.73, '$']
      [70.1, 'kg']
      [0.25, '']
      [-12.0, '']
      [1234.0, '']
      >>> parse_number("5.125,73", ",").value
      5125.73
    """
    if is_number(text) and (point == "." or "." not in text):
        return Number(float(text))
    if len(text) > 60 or not any(map(str.isdecimal, text)):
        return None
    plain = text.translate(_PLAIN_CHARACTERS)
    match = _NUMBER[point].fullmatch(plain)
    return _number_of(match, point) if match and not _IP_ADDRESS.fullmatch(plain) else None


def _number_of(match: re.Match[str], point: str) -> Number | None:
    """Return the number of a match, None if its parts do not go together."""
    signs = [match[part] for part in ("sign", "late_sign", "end_sign") if match[part]]
    before, unit, limit = match["before"] or "", match["unit"] or "", match["limit"]
    if len(signs) + bool(match["open"]) > 1 or (before and unit) or _SCALE.fullmatch(unit):
        return None
    digits = re.sub(r"[' ]|," if point == "." else r"[' .]", "", match["digits"])
    value = float(digits.replace(",", ".").lower().replace("d", "e"))
    if match["open"] or "-" in signs:
        value = -value
    if limit and limit[0] == "<" and value > 0:
        value /= 2
    unit = "" if unit in _ORDINALS else _singular(before or unit)
    return Number(value, unit, match["mark"] or "")


def _singular(unit: str) -> str:
    """Return a unit in the singular: days and day are one unit."""
    return unit[:-1].strip() if len(unit) > 3 and unit.endswith(("s", ".")) else unit.strip()


def as_number(text: str, point: str = ".") -> float | None:
    """Parse a number as `parse_number` does, and return its value alone."""
    number = parse_number(text, point)
    return None if number is None else number.value


def as_fraction(text: str) -> float | None:
    """Parse two numbers with a stroke as a fraction, perhaps after a whole number."""
    match = FRACTION.fullmatch(text)
    if match is None or not int(match["bottom"]):
        return None
    return float(match["whole"] or 0) + float(match["top"]) / float(match["bottom"])
