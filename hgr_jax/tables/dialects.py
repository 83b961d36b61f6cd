"""Find how a text file separates values: by the lines at its beginning, all taken together.

A file whose values are apart by one character is read as it is.  Any other one (values apart by
spaces, columns of fixed width) is rewritten, line by line, into one with tabs.
"""

from __future__ import annotations

import collections
import contextlib
import csv
import dataclasses
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from hgr_jax.tables.faults import TableError
from hgr_jax.tables.layouts import TableLayout, find_layout, is_value
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.texts import NEARLY_ALL, is_gap_sign, is_missing

DELIMITERS, COLONS, WIDE = ",;\t|", "::", "  "

RARE_DELIMITERS = "^~\x01\x1f"
"""Delimiters that are tried too, though a cell may hold them."""

HEAD_LINES = 400
"""Number of lines from which the dialect is found."""

SCORED_LINES = 150
"""Number of lines, the last of the head, by which delimiters are compared."""

MIN_SCORE = 0.6
"""Least share of lines of one length, and of cells without another delimiter, of a delimiter."""

MIN_FIXED_VALUES = 0.4
"""Least share of values among the cells of columns that are apart by spaces."""

_COMMENTS = ("#", "%", "//")

_ERRORS = ("#N/A", "#NA", "#DIV/0!", "#REF!", "#VALUE!", "#NAME?", "#NUM!", "#NULL!", "#ERROR!")
"""Missing values of spreadsheets, which begin no comment."""

MAX_COMMENTS = 0.2
"""Largest share of lines within a table that may be comments."""


@dataclasses.dataclass(frozen=True)
class Dialect:
    """How the lines of a text file make a table.

    Attributes:
      delimiter: the character between values, in the rewritten lines if they are rewritten.
      width: number of columns.
      layout: where the names and the rows are.
      comment: how lines begin that are no rows; ``""`` for none.
      delimiters: number of delimiters of a row, which is no comment though it begins as one.
      separator: what separates values in lines that are rewritten, a space for runs of spaces.
      ends: ends of columns of fixed width; empty for none.
      lines_before: number of lines before the first row of data.
      notes: what was found out and may be wrong, one sentence each.
    """

    delimiter: str
    width: int
    layout: TableLayout
    comment: str = ""
    delimiters: int = 0
    separator: str = ""
    ends: tuple[int, ...] = ()
    lines_before: int = 0
    notes: tuple[str, ...] = ()

    def is_comment(self, line: str) -> bool:
        """Return whether a line is a comment."""
        if not self.comment or not line.startswith(self.comment):
            return False
        if line.upper().startswith(_ERRORS):
            return False
        if line[len(self.comment) :].startswith((" ", "\t", self.comment)):
            return True
        even = any(line.count(mark) == self.delimiters for mark in DELIMITERS)
        return not (self.delimiters and even)

    @property
    def is_rewritten(self) -> bool:
        """Whether lines are rewritten before they are parsed."""
        return bool(self.separator or self.ends)

    def rewritten(self, text: str) -> str:
        """Rewrite lines into lines with tabs between values, as many as there were."""
        return "".join(self._rewritten_line(line) for line in io.StringIO(text, newline=""))

    def _rewritten_line(self, line: str) -> str:
        end = "\n" if line.endswith(("\n", "\r")) else ""
        return "\t".join(split_line(line, self)) + end


def split_line(line: str, dialect: Dialect) -> list[str]:
    """Return the values of a line whose columns are apart by spaces."""
    line = line.rstrip("\r\n").expandtabs() if dialect.ends else line.rstrip("\r\n")
    if not dialect.ends:
        separators = {" ": r"\s+", WIDE: r"\s{2,}|\t+"}
        pattern = separators.get(dialect.separator, re.escape(dialect.separator))
        text = line.strip() if dialect.separator in separators else line
        cells = re.split(pattern, text) if text else []
    else:
        starts = (0, *dialect.ends)
        cells = [
            line[a:b].strip() for a, b in itertools.pairwise((*starts, max(len(line), starts[-1])))
        ]
        cells = cells if any(cells) else []
    return [cell.replace('"', "") for cell in cells]


def find_dialect(text: str, shown: str, reading: Reading) -> Dialect:
    """Find the dialect of a file from the text at its beginning.

    Raises:
      TableError: for a file without rows, and for a line of names that is not there.
    """
    lines = list(itertools.islice(io.StringIO(text, newline=""), HEAD_LINES))
    separator = re.match(r'"?sep=(.)"?\r?\n', lines[0]) if lines else None  # Excel's first line
    skip = max(reading.skip, int(bool(separator)))
    comment, cells = _comment_of(lines, skip, reading)
    spare = Dialect("", 0, _NO_LAYOUT, comment=comment, delimiters=cells)
    lines_used = [
        "\n" if place < skip or spare.is_comment(line) else line for place, line in enumerate(lines)
    ]
    if not any(line.strip() for line in lines_used):
        raise TableError(f"{shown} is empty: expected a line of column names, then rows")
    delimiter = reading.delimiter or (separator and separator[1] != '"' and separator[1]) or None
    dialect = _double_colons(lines_used) if delimiter is None else None
    dialect = dialect or _separated(lines_used, delimiter, reading.point)
    if delimiter == " " or (delimiter is None and dialect.width == 1):
        dialect = _spaced(lines_used, forced=delimiter == " ") or dialect
    rows, ends = split_lines(lines_used, dialect)
    names_row = reading.names_row(rows, ends, shown)
    totals = reading.footer is None
    layout = find_layout(rows, dialect.width, names_row, shown, totals=totals)
    named = dialect.width if layout.names_row is None else max(1, len(rows[layout.names_row]))
    if named < dialect.width and dialect.delimiter != "\t":  # rows with too many values
        dialect = dataclasses.replace(dialect, width=named)
        layout = find_layout(rows, named, names_row, shown, totals=totals)
    if dialect.width == 1 and not delimiter and not any(map(is_value, rows[-1])):
        note = "no character between values was found: one column (--delimiter)"
        dialect = dataclasses.replace(dialect, notes=(*dialect.notes, note))
    dialect, layout = _with_commented_names(dialect, layout, lines, comment, reading)
    if comment and layout.names and layout.names[0].startswith(comment):
        layout.names[0] = layout.names[0].lstrip(comment).strip()
    lines_before = ends[layout.first - 1] if layout.first else 0
    return dataclasses.replace(
        dialect,
        layout=layout,
        comment=comment,
        delimiters=cells,
        lines_before=max(lines_before, skip),
        notes=(
            *([f"lines that begin with {comment!r} are comments"] if comment else []),
            *dialect.notes,
            *layout.remarks(ends),
        ),
    )


def _comment_of(lines: Sequence[str], skip: int, reading: Reading) -> tuple[str, int]:
    """Return how comments begin, and how many cells a row has that is none though it begins so."""
    if reading.comment:
        return reading.comment, 0
    for mark in _COMMENTS:
        marked = [line.startswith(mark) for line in lines[skip:]]
        inner = list(itertools.dropwhile(bool, marked))
        if not any(marked) or not inner or sum(inner) > MAX_COMMENTS * len(inner):
            continue
        counts = collections.Counter(
            max(map(line.count, DELIMITERS))
            for line in lines[skip:]
            if line.strip() and not line.startswith(mark)
        )
        return mark, counts.most_common(1)[0][0] if counts else 0
    return "", 0


def _with_commented_names(
    dialect: Dialect, layout: TableLayout, lines: Sequence[str], comment: str, reading: Reading
) -> tuple[Dialect, TableLayout]:
    """Take names from the last comment before the rows, where there is no other line of them."""
    if layout.names_row is not None or not comment or not reading.header:
        return dialect, layout
    comments = [p for p, line in enumerate(lines) if line.startswith(comment)]
    first = next((p for p, line in enumerate(lines) if p not in comments and line.strip()), 0)
    above = [place for place in comments if place < first]
    for place in reversed(above):
        line = lines[place].lstrip(comment).lstrip(" ")
        names = next(iter(split_lines([line], dialect)[0]), [])
        if len(names) == dialect.width and not any(map(is_value, names)):
            found = dataclasses.replace(layout, names=names, names_row=layout.first, notes=[])
            note = f"names in line {place + 1}, a comment"
            return dataclasses.replace(dialect, notes=(*dialect.notes, note)), found
    return dialect, layout


@contextlib.contextmanager
def any_length() -> Iterator[None]:
    """Let `csv` read values of any length while the block runs."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def split_lines(lines: Iterable[str], dialect: Dialect) -> tuple[list[list[str]], list[int]]:
    """Return rows of trimmed cells, and the number of lines up to the end of each."""
    if dialect.is_rewritten:
        rows = [split_line(line, dialect) for line in lines]
        return rows, [*range(1, len(rows) + 1)]
    reader = csv.reader(iter(lines), delimiter=dialect.delimiter)
    rows, ends = [], []
    with any_length():
        for cells in reader:
            trimmed = [cell.strip() for cell in cells]
            rows.append(trimmed if any(trimmed) or len(trimmed) > 1 else [])
            ends.append(reader.line_num)
    return rows, ends


_NO_LAYOUT = TableLayout([], None, 0)


def _separated(lines: Sequence[str], delimiter: str | None, point: str | None) -> Dialect:
    """Return the dialect of the delimiter that splits lines most evenly."""
    best = (0.0, 1, ",")
    occurring = [
        mark for mark in DELIMITERS + RARE_DELIMITERS if any(mark in line for line in lines)
    ]
    for candidate in (delimiter,) if delimiter else occurring:
        rows = [row for row in split_lines(lines, Dialect(candidate, 0, _NO_LAYOUT))[0] if row]
        common, width = _row_widths(rows)
        if width > 1:
            score = _score(rows, (common, width), candidate, point)
            best = max(best, (round(score, 2), width, candidate), key=lambda found: found[:2])
        if delimiter:
            best = (1.0, width, delimiter)
    score, width, found = best
    return Dialect(found, width, _NO_LAYOUT) if score >= MIN_SCORE else Dialect(",", 1, _NO_LAYOUT)


def _row_widths(rows: Sequence[Sequence[str]]) -> tuple[int, int]:
    """Return the most common length of rows beside titles, and the number of columns.

    Ends that no row fills are no columns, unless they have a name.
    """
    counts = collections.Counter(len(row) for row in rows if len(row) > 1)
    if not counts:
        return 1, 1
    common = max(counts, key=lambda length: (counts[length], length))
    if counts[common] < len(rows) / 2 and common == min(counts):  # rows end at their last value
        common = max(counts)
    width = common
    while width > 1 and not any(len(row) >= width and row[width - 1] for row in rows):
        width -= 1
    first = next(place for place, row in enumerate(rows) if len(row) == common)
    lengths = {len(row) for row in rows[first:]}
    for place, names in enumerate(rows[:first]):
        next_to_rows = all(len(row) > common for row in rows[place:first])
        fits = next_to_rows or len(names) in lengths
        if len(names) > width and fits and all(names) and not any(map(is_value, names)):
            width = len(names)
    return common, width


def _score(
    rows: Sequence[Sequence[str]], widths: tuple[int, int], delimiter: str, point: str | None
) -> float:
    """Return how evenly a delimiter splits rows into cells that hold no other delimiter.

    Lines before the first row and after the last one of the common length may be titles and notes.
    """
    common, width = widths
    fits = [place for place, row in enumerate(rows) if len(row) == common]
    inner = rows[fits[0] : fits[-1] + 1]
    cover = len(inner) / len(rows)
    inner = inner[-SCORED_LINES:]
    even = 0.0
    for row in inner:
        fit = common <= len(row) <= width or (len(row) > width and not any(row[width:]))
        even += 1 if fit else 0.5 * (1 < len(row) < common)
    cells = [cell for row in inner if len(row) > 1 for cell in row]
    others = [mark for mark in DELIMITERS if mark not in (delimiter, ",")]
    comma = delimiter != ","
    broken = sum(
        any(mark in cell for mark in others)
        or (comma and point != "," and bool(re.search(r"[^\s\d],\S|,,", cell)))
        for cell in cells
    )
    return even / len(inner) * (0.5 + 0.5 * cover) * (1 - broken / max(len(cells), 1))


def _double_colons(lines: Sequence[str]) -> Dialect | None:
    """Return the dialect of lines whose values are apart by two colons, None for other lines."""
    widths = collections.Counter(line.count(COLONS) for line in lines if line.strip())
    width, count = widths.most_common(1)[0]
    if not width or count < NEARLY_ALL * widths.total():
        return None
    return Dialect("\t", width + 1, _NO_LAYOUT, separator=COLONS)


def _spaced(lines: Sequence[str], *, forced: bool) -> Dialect | None:
    """Return the dialect of columns that are apart by spaces, None if the lines are prose."""
    lines = [line for line in lines if line.strip()][-SCORED_LINES:]
    notes = ("columns are apart by spaces",)
    for separator, even in ((WIDE, 1.0), (" ", NEARLY_ALL)):
        dialect = Dialect("\t", 0, _NO_LAYOUT, separator=separator, notes=notes)
        rows = [split_line(line, dialect) for line in lines]
        body = rows[1:] or rows  # the line of names may have one name less
        width, count = collections.Counter(map(len, body)).most_common(1)[0]
        regular = count >= even * len(body) and (separator == " " or len(rows[0]) == width)
        of_width = [row for row in body if len(row) == width]
        valued = forced or _share_of_values(of_width) >= MIN_FIXED_VALUES
        if width > 1 and valued and (forced or regular):
            return dataclasses.replace(dialect, width=width)
    ends = _fixed_ends([line.rstrip("\r\n") for line in lines])
    if not ends:
        return None
    dialect = Dialect("\t", len(ends) + 1, _NO_LAYOUT, ends=ends)
    body = [split_line(line, dialect) for line in lines][1:]
    if not forced and _share_of_values(body) < MIN_FIXED_VALUES:
        return None
    return dataclasses.replace(dialect, notes=("columns are of fixed width",))


def _fixed_ends(lines: Sequence[str]) -> tuple[int, ...]:
    """Return where columns of fixed width begin, all but the first: after spaces in all lines."""
    lengths = collections.Counter(len(line) for line in lines)
    expanded = [line.expandtabs() for line in lines]
    if max(lengths.values()) < len(lines) / 3 and len(lines) > 3:
        longest = sorted(map(len, expanded))[len(lines) // 2]
        expanded = [line for line in expanded if len(line) >= longest / 2]
    size = max(map(len, expanded), default=0)
    blank = [all(line[p : p + 1] in ("", " ") for line in expanded) for p in range(size)]
    filled = [p for p in range(size) if not blank[p]]
    return tuple(after for before, after in itertools.pairwise(filled) if after > before + 1)


def _share_of_values(rows: Sequence[Sequence[str]]) -> float:
    cells = [cell for row in rows for cell in row if cell]
    return sum(is_value(cell) or is_missing(cell) or is_gap_sign(cell) for cell in cells) / max(
        len(cells), 1
    )
