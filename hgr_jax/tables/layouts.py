"""Find the names and the rows of a table among the first and last lines of a file or sheet.

Lines before the names are titles; under the names may be a line of units; at the end may be notes
and a row of totals.  A line holds names if, where the column holds numbers or dates, it does not.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Sequence

import numpy as np

from hgr_jax._texts import counted
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.meanings import MOMENTS, is_gap_sign, is_missing
from hgr_jax.tables.number_texts import FRACTION, as_number, is_number, parse_number
from hgr_jax.tables.reading import Reading

Row = Sequence[str]
"""The trimmed texts of a line; ``""`` where a cell is empty."""

BODY_ROWS = 30
"""Number of rows from which the content of columns is told."""

MAX_TITLES, RUN = 200, 3
"""Largest number of titles, and number of lines of one length that are no titles."""

MAX_NAME_LINES = 8
MIN_FILLED = 0.5
MIN_VALUED = 0.6
LONG_TEXT = 40

MIN_SUMMED = 4
"""Number of numbers whose sum tells a row of totals."""

_TOTAL = re.compile(
    r"(?:grand |sub|over|over-)?-?\s?(?:totals?|totaux|totale|totalen|sums?|summe|gesamt|insgesamt"
    r"|somme|suma|somma)\b[ :.]*(?:\([^)]*\))?",
    re.IGNORECASE,
)
_FOOTNOTE = re.compile(
    r"(?:sources?|quelle|fuente|fonte|notes?|n\.?b|anmerkung|nota|legend|copyright|\(c\)|\u00a9|\*|"
    r"\u2020|\[?\(?[0-9a-z]\)|\[[0-9]\]|last updated?|updated|extracted|data from|end of|eof|"
    r"stand|as of|https?:)\b.*|[*\u2020\u00a9#].*|[-_=]{3,}.*|[0-9]+ rows.*",
    re.IGNORECASE | re.DOTALL,
)


@dataclasses.dataclass(frozen=True)
class TableLayout:
    """Where the names and the rows of a table are.

    Attributes:
      names: the names of the columns; ``""`` for a column without one.
      names_row: position of the row of the names, None if there is none.
      first: position of the first row of data.
      notes: what was found out, one sentence each.
    """

    names: list[str]
    names_row: int | None
    first: int
    notes: list[str] = dataclasses.field(default_factory=list)


@functools.lru_cache(maxsize=10_000)
def is_value(text: str) -> bool:
    """Return whether a text is a number, a date, a time or a duration."""
    if not any(map(str.isdecimal, text)):
        return False
    if is_number(text):
        return True
    if len(text) > LONG_TEXT:
        return False
    number = parse_number(text) or parse_number(text, ",")
    if number is not None:  # "2 cylinders" may be a name
        return number.unit == "" or not re.search(r"[A-Za-z]{3}", number.unit)
    return bool(FRACTION.fullmatch(text)) or _is_moment(text)


def _is_moment(text: str) -> bool:
    return any(kind.read(text) is not None for kind in MOMENTS)


def find_layout(
    rows: Sequence[Row], lines: Sequence[int], width: int, reading: Reading, shown: str
) -> TableLayout:
    """Find the layout of a table of so many columns from its first rows, blank ones included.

    ``lines`` are those on which the rows end.  A `TableError` where most columns have no name.
    """
    names_row, notes = reading.header, list[str]()
    fixed = not isinstance(names_row, bool)
    begin = _first_full(rows, width)
    if fixed:
        begin = next((place for place, end in enumerate(lines) if end >= names_row), -1)
        if begin < 0 or not any(rows[begin]):
            raise TableError(f"{shown} has no names in line {names_row}")
    titles = [place for place in range(begin) if any(rows[place])]
    if titles and not fixed:
        title = next(filter(None, rows[titles[0]]))[:40]
        notes.append(f"{counted(len(titles), 'line')} of titles skipped ({title!r})")
    if names_row is False:
        return TableLayout([""] * width, None, begin, notes)
    valued = _valued_columns(rows, begin, width)
    count = _name_lines(rows, begin, valued)
    if fixed:
        count = max(count, 1)
    if not count:
        line = lines[begin]
        notes.append(f"line {line} holds values: it is read as data, not as names (--header N)")
        return TableLayout([""] * width, None, begin, notes)
    place, names = _names_of(rows[begin : begin + count], width, fixed=fixed)
    names, line = [re.sub(r"\s*[\r\n]+\s*", " ", name) for name in names], lines[begin + place]
    if (titles or place) and not fixed:
        notes.append(f"names in line {line}")
    for other in range(begin + place + 1, begin + count):
        listed = ", ".join(filter(None, rows[other]))[:40]
        notes.append(f"line {lines[other]} holds no values ({listed}): left out")
    if any(names) and all(map(is_value, filter(None, names))) and not fixed:
        listed = ", ".join(filter(None, names))[:40]
        notes.append(f"line {line}, {listed}, is read as names (--no-header)")
    if not fixed and width > 2 and sum(map(bool, names)) < width / 2:
        raise TableError(
            f"{shown}: the names of the columns were not found, and values seem to begin in line"
            f" {begin + count + 1}; say by --header N which line holds the names, or --no-header"
        )
    first = begin + count
    if reading.footer is None and first < len(rows) - 3 and _is_total(rows[first:], 0):
        label = next(filter(None, rows[first]))[:40]
        notes.append(f"line {lines[first]}, {label!r}, is left out as a row of totals (--footer 0)")
        first += 1
    return TableLayout(names, begin + place, first, notes)


def _filled(row: Row) -> int:
    return sum(map(bool, row))


def _first_full(rows: Sequence[Row], width: int) -> int:
    """Return the position of the first row that is no title.

    Titles come before the first run of lines of one length, or have few filled cells.  A line of
    words of the table's width before such a run holds the names, and lines after it are rows.
    """
    counts = [_filled(row) for row in rows]
    filled = [place for place, count in enumerate(counts) if count]
    fits = [len(rows[p]) >= width and not any(rows[p][width:]) for p in filled]
    if sum(fits) < MIN_FILLED * len(filled):
        fits = [1 < len(rows[p]) <= width for p in filled]
    runs = [p for p in range(len(filled) - RUN + 1) if all(fits[p : p + RUN])]
    start = runs[0] if runs and runs[0] < MAX_TITLES else 0
    body = [counts[place] for place in filled[start:][-2 * BODY_ROWS :]] or [0]
    needed = max(2 if width > 1 else 1, MIN_FILLED * float(np.median(body)) + (width > 3) / 4)
    begin = next((p for p in range(start, len(filled)) if counts[filled[p]] >= needed), start)
    if filled and any(map(is_value, rows[filled[begin]])):
        names = [p for p in range(begin) if _holds_only_names(rows[filled[p]], width)]
        if names and names[-1] < start:
            begin = names[-1]
        elif begin and _may_be_names(rows[filled[begin - 1]], width):
            begin -= 1  # names that are fewer or more than the values
    return filled[begin] if filled else 0


def _holds_only_names(row: Row, width: int) -> bool:
    """Tell whether a line is full of different words."""
    full = len(row) == width == len({*row}) and all(row)
    return full and not any(is_value(cell) or len(cell) > LONG_TEXT for cell in row)


def _may_be_names(row: Row, width: int) -> bool:
    """Tell whether a line just above the rows may hold names, of another number or with gaps."""
    words = [cell for cell in row if cell]
    several = len(words) > 1 or (width == 2 and not row[0])  # pandas names no index
    enough = several and (len(row) <= width or len(words) == width or all(row))
    return enough and len({*words}) == len(words) and not any(map(is_value, words))


def _valued_columns(rows: Sequence[Row], begin: int, width: int) -> list[bool]:
    """Tell which columns hold numbers or dates, from rows that are no names for sure."""
    body = rows[begin + 1 :]
    start = min(MAX_NAME_LINES, max(len(body) - 3, 0))
    body = [row for row in body[start:] if _filled(row) > 1 or width == 1][:BODY_ROWS]
    valued = []
    for column in range(width):
        cells = [row[column] for row in body if len(row) > column]
        present = [cell for cell in cells if not (is_missing(cell) or is_gap_sign(cell))]
        share = sum(map(is_value, present)) / max(len(present), 1)
        valued.append(bool(present) and share >= MIN_VALUED)
    return valued


def _name_lines(rows: Sequence[Row], begin: int, valued: Sequence[bool]) -> int:
    """Count the lines from ``begin`` that hold names or units, not values."""
    if not any(valued):
        below = rows[begin + 1 :]
        repeated = [  # texts that occur below are no names
            cell and any(cell == row[column] for row in below if len(row) > column)
            for column, cell in enumerate(rows[begin])
        ]
        return 0 if len(valued) > 1 and all(repeated) else 1
    count = 0
    while count < MAX_NAME_LINES and begin + count < len(rows):
        row = rows[begin + count]
        if count and len(row) > len(valued):
            break
        inside = [cell for cell, is_valued in zip(row, valued, strict=False) if is_valued and cell]
        values = [cell for cell in inside if is_value(cell)]
        words = [cell for cell in inside if not is_value(cell) and not _is_absent(cell)]
        may_number = values and (words or not count)
        if may_number and _may_number_columns(values, rows, begin + count):
            values = []
            words = words or inside
        if not words or (values and len(words) <= len(values)):
            break
        count += 1
    return count


def _is_absent(text: str) -> bool:
    """Tell whether a text means a missing value, and can be no name."""
    return is_missing(text) or (is_gap_sign(text) and not any(map(str.isalpha, text)))


def _may_number_columns(values: Sequence[str], rows: Sequence[Row], begin: int) -> bool:
    """Tell whether values of a line are names: years or dates above other values, or 0, 1, 2."""
    row = rows[begin]
    if not any(cell and not is_value(cell) for cell in row):
        counted_from = [list(map(str, range(first, first + len(values)))) for first in (0, 1)]
        return values in counted_from and (len(values) > 2 or not row[0])
    columns = [column for column, cell in enumerate(row) if cell in values]
    below = [other for other in rows[begin + 1 :] if len(other) == len(row)][:BODY_ROWS]
    texts = [other[column] for other in below for column in columns if other[column]]
    return all(map(_is_time, values)) and sum(map(_is_time, texts)) <= len(texts) / 2


def _is_time(text: str) -> bool:
    """Tell whether a text may be a year or a date."""
    is_year = len(text) == 4 and text.isdecimal() and 1500 <= int(text) <= 2200
    return is_year or (not is_number(text) and _is_moment(text))


def _names_of(lines: Sequence[Row], width: int, *, fixed: bool) -> tuple[int, list[str]]:
    """Return which of the lines holds the names, the one with most different ones, and the names.

    Marks between names may be doubled ("Date,,Time,,Load"), or the name of the first column, which
    holds those of rows, may not be there; a word with a colon before the names is none of them.
    """
    padded = []
    for line in lines:
        words = [word for word in line if word]
        if len(line) > width and len(words) in (width - 1, width):
            line = [*words, *[""] * (width - len(words))]
        elif len(line) == width + 1 and line[0].endswith(":"):
            line = line[1:]
        elif len(line) == width - 1 and all(line):
            line = ["", *line]
        padded.append([*line[:width], *[""] * (width - len(line))])
    distinct = [len({*filter(None, line)}) for line in padded]
    with_values = [any(map(is_value, line)) for line in padded]
    order = sorted(range(len(padded)), key=lambda p: (distinct[p], not with_values[p], -p))
    place = 0 if fixed else order[-1]
    return place, padded[place]


def find_footer(rows: Sequence[Row], width: int, complete: bool) -> tuple[int, str]:
    """Return how many of the last rows are no data, and a note; ``complete`` if these are all."""
    end = len(rows)
    sparse = end
    while sparse > 1 and (
        _filled(rows[sparse - 1]) <= max(1, width // 3) or len(rows[sparse - 1]) < width
    ):
        sparse -= 1
    if width > 1:
        end = next((p for p in range(sparse, end) if _is_note(rows[p], width)), end)
    end = _last_filled(rows[:end])
    notes = [next(filter(None, row))[:40] for row in rows[end:] if any(row)]
    said = []
    if notes:
        said.append(f"{counted(len(notes), 'line')} of notes at the end left out ({notes[0]!r})")
    label = next(filter(None, rows[end - 1]), "")[:40] if end else ""
    summed = complete and width > 1 and end > MIN_SUMMED
    if summed and _is_total(rows[:end], end - 1):
        said.append(f"at the end, {label!r} is left out as a row of totals (--footer 0)")
        end = _last_filled(rows[: end - 1])
    elif _is_called_total(label) or (summed and _is_total(rows[:end], end - 1, times=2)):
        lines = len(rows) - end + 1
        said.append(f"the last row, {label!r}, may hold totals (--footer {lines})")
    return len(rows) - end if said else 0, "; ".join(said)


def _last_filled(rows: Sequence[Row]) -> int:
    """Return the number of rows up to the last that is not blank, at least 1 of any."""
    filled = (place for place in range(len(rows), 1, -1) if any(rows[place - 1]))
    return next(filled, min(len(rows), 1))


def _is_note(row: Row, width: int) -> bool:
    """Tell whether a row near the end with few filled cells begins the notes."""
    text = next(filter(None, row), "")
    if not text or _FOOTNOTE.fullmatch(text):
        return True
    alone = (len(row) == 1 and width > 2) or (_filled(row) == 1 and len(text) > LONG_TEXT)
    return bool(row[0]) and alone and not is_missing(text)


def _is_total(rows: Sequence[Row], place: int, times: int = 1) -> bool:
    """Tell whether many of the numbers of a row, so many ``times``, are the sums of their columns.

    Rates are no sums, and zeros say nothing; twice a total is the sum where there are subtotals.
    A single sum may be so by chance, unless the row is called a total, or has no name.
    """
    row = rows[place]
    label = next(filter(None, row), "")
    if not row or is_value(row[0]):
        return False
    sums = []
    for column, cell in enumerate(row):
        if is_value(cell) and cell.strip("0.,"):
            others = [r[column] for p, r in enumerate(rows) if p != place and len(r) > column]
            sums.append(any(_is_sum(cell, others, point, times) for point in ".,"))
    enough = 1 if not row[0] or _is_called_total(label) else 2
    return sum(sums) >= max(enough, len(sums) / 2 / times)


def _is_called_total(label: str) -> bool:
    return _TOTAL.fullmatch(label) is not None


def _is_sum(cell: str, texts: Sequence[str], point: str, times: int) -> bool:
    """Tell whether a number times some is the sum of its column, and larger than any part."""
    total = as_number(cell, point) or 0.0
    numbers = [number for text in texts if (number := as_number(text, point)) is not None]
    enough = len(numbers) >= MIN_SUMMED and abs(total) > max(map(abs, numbers))
    return enough and abs(sum(numbers) - times * total) <= 1e-3 * abs(total)
