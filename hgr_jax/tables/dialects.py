"""Find how a text file separates values: by the lines at its beginning, all taken together.

A file whose values are apart by one character is read as it is.  Any other one (values apart by
spaces, columns of fixed width) is rewritten, line by line, into one with tabs.
"""

from __future__ import annotations

import collections
import contextlib
import csv
import dataclasses
import functools
import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from hgr_jax._texts import counted
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.layouts import RUN, TableLayout, find_layout, is_value
from hgr_jax.tables.meanings import NEARLY_ALL, is_gap_sign, is_missing
from hgr_jax.tables.number_texts import is_number
from hgr_jax.tables.reading import Reading

DELIMITERS, COLONS = ",;\t|", "::"

RARE_DELIMITERS = "^~\x01\x1f"
"""Delimiters that are tried too, though a cell may hold them."""

HEAD_LINES = 400
"""Number of lines from which the dialect is found."""

MIN_SCORE = 0.6
"""Least share of lines of one length, and of cells without another delimiter, of a delimiter."""

_COMMENTS = ("#", "%", "//")
"""How lines above a table begin that are comments."""

_GAPS, _WORDS = re.compile(r"\s{2,}|\t+"), re.compile(r'"(?:[^"]|"")*"|\S+')


@dataclasses.dataclass(frozen=True)
class Dialect:
    """How the lines of a text file make a table.

    Attributes:
      delimiter: the character between values, in the rewritten lines if they are rewritten.
      width: number of columns.
      layout: where the names and the rows are.
      comment: how lines begin that are no rows, among the rows too; ``""`` for none.
      split: splits a line that is rewritten, for no single character separates its values.
      lines_before: number of lines before the first row of data.
      notes: what was found out and may be wrong, one sentence each.
    """

    delimiter: str
    width: int = 0
    layout: TableLayout = TableLayout([], None, 0)  # noqa: RUF009 - is not changed
    comment: str = ""
    split: Callable[[str], list[str]] | None = None
    lines_before: int = 0
    notes: tuple[str, ...] = ()

    def rewritten(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield lines as they are, or with tabs between their values."""
        for line in lines:
            if self.split is None:
                yield line
            else:
                cells = self.split(line.rstrip("\r\n"))
                yield "\t".join(cell.replace('"', "").replace("\t", " ") for cell in cells) + "\n"


def _at_gaps(line: str) -> list[str]:
    """Split a line at runs of spaces, and at tabs."""
    return _GAPS.split(line.strip()) if line.strip() else []


def _at_ends(line: str, ends: Sequence[int]) -> list[str]:
    """Split a line of columns of fixed width."""
    line = line.expandtabs()
    places = itertools.pairwise((0, *ends, max(len(line), *ends, 0)))
    cells = [line[start:end].strip() for start, end in places]
    return cells if any(cells) else []


def without_comments(lines: Iterable[str], comment: str) -> Iterator[str]:
    """Yield lines, blank ones in place of comments, which begin with a mark outside of quotes."""
    is_open = False
    for line in lines:
        if comment and not is_open and line.startswith(comment):
            yield "\n"
        else:
            is_open ^= bool(line.count('"') % 2)
            yield line


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
    reader = csv.reader(dialect.rewritten(lines), delimiter=dialect.delimiter)
    rows, ends = [], []
    with any_length():
        for cells in reader:
            trimmed = [cell.strip() for cell in cells]
            rows.append(trimmed if any(trimmed) or len(trimmed) > 1 else [])
            ends.append(reader.line_num)
    return rows, ends


def find_dialect(text: str, shown: str, reading: Reading) -> Dialect:
    """Find the dialect of a file from the text at its beginning.

    Raises:
      TableError: for a file without rows, and for a line of names that is not there.
    """
    lines = list(itertools.islice(io.StringIO(text, newline=""), HEAD_LINES))
    separator = re.match(r'"?sep=(.)"?\r?\n', lines[0]) if lines else None  # Excel's first line
    skip = max(reading.skip, int(bool(separator)))
    comment = reading.comment or ""
    used = list(without_comments(["\n"] * skip + lines[skip:], comment))
    mark, comments = _comments_above(used)
    for place in comments:
        used[place] = "\n"
    if not any(line.strip() for line in used):
        raise TableError(f"{shown} is empty: expected a line of column names, then rows")
    delimiter = reading.delimiter or (separator and separator[1] != '"' and separator[1]) or None
    dialect = _double_colons(used) if delimiter is None else None
    dialect = dialect or _separated(used, delimiter, reading.decimal)
    if delimiter == " " or (delimiter is None and dialect.width == 1):
        dialect = _spaced(used, forced=delimiter == " ") or dialect
        above = dialect.lines_before
        if above and reading.header is True:
            used = ["\n"] * above + used[above:]
            note = f"{counted(above, 'line')} above the table left out (--skip, --header N)"
            dialect = dataclasses.replace(dialect, notes=(*dialect.notes, note))
    rows, ends = split_lines(used, dialect)
    layout = find_layout(rows, ends, dialect.width, reading, shown)
    named = dialect.width if layout.names_row is None else max(1, len(rows[layout.names_row]))
    if named < dialect.width and dialect.delimiter != "\t":  # rows with too many values
        dialect = dataclasses.replace(dialect, width=named)
        layout = find_layout(rows, ends, named, reading, shown)
    if dialect.width == 1 and not delimiter and not any(map(is_value, rows[-1])):
        note = "no character between values was found: one column (--delimiter)"
        dialect = dataclasses.replace(dialect, notes=(*dialect.notes, note))
    notes = [*dialect.notes, *layout.notes]
    if mark and layout.names:
        layout.names[0] = layout.names[0].lstrip(mark).lstrip() or layout.names[0]
    if comments:
        notes.insert(0, f"{counted(len(comments), 'line')} of comments above the table left out")
        if layout.names_row is None and reading.header:
            names = lines[comments[-1]].lstrip(mark).lstrip(" ")
            (names_of_comment,) = split_lines([names], dialect)[0] or [[]]
            if len(names_of_comment) == dialect.width and not any(map(is_value, names_of_comment)):
                layout = dataclasses.replace(layout, names=names_of_comment, names_row=0)
                notes = [f"names in line {comments[-1] + 1}, a comment", *dialect.notes]
    return dataclasses.replace(
        dialect,
        layout=layout,
        comment=comment,
        lines_before=max(ends[layout.first - 1] if layout.first else 0, skip),
        notes=tuple(notes),
    )


def _comments_above(lines: Sequence[str]) -> tuple[str, list[int]]:
    """Return how comments begin, and the places of those above the first line that is none.

    The last may be a line of names: it has as many values as the line below it.
    """
    filled = [place for place, line in enumerate(lines) if line.strip()]
    for mark in _COMMENTS:
        begins = [lines[place].startswith(mark) for place in filled]
        if all(begins) or not begins[0]:
            continue
        count = begins.index(False)
        last, below = lines[filled[count - 1]], lines[filled[count]]
        even = any(last.count(each) == below.count(each) > 0 for each in DELIMITERS)
        are_names = even and not last[len(mark) :].startswith((" ", "\t", mark))
        return mark, filled[: count - are_names]
    return "", []


def _separated(lines: Sequence[str], delimiter: str | None, point: str | None) -> Dialect:
    """Return the dialect of the delimiter that splits lines most evenly."""
    best = (0.0, 1, ",")
    occurring = [
        mark for mark in DELIMITERS + RARE_DELIMITERS if any(mark in line for line in lines)
    ]
    for candidate in (delimiter,) if delimiter else occurring:
        rows = [row for row in split_lines(lines, Dialect(candidate))[0] if row]
        common, width = _row_widths(rows)
        if width > 1:
            score = _score(rows, (common, width), candidate, point)
            best = max(best, (round(score, 2), width, candidate), key=lambda found: found[:2])
        if delimiter:
            best = (1.0, width, delimiter)
    score, width, found = best
    return Dialect(found, width) if score >= MIN_SCORE else Dialect(",", 1)


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
    first = next(place for place, row in enumerate(rows) if len(row) == common)
    while width > 1 and not any(len(row) >= width and row[width - 1] for row in rows[first:]):
        width -= 1
    lengths = {len(row) for row in rows[first:]}
    for place, names in enumerate(rows[:first]):
        words = [name for name in names if name]
        names = words if len(names) > common >= len(words) else names  # marks are doubled
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
    return Dialect("\t", width + 1, split=lambda line: line.split(COLONS))


def _spaced(lines: Sequence[str], *, forced: bool) -> Dialect | None:
    """Return the dialect of columns that are apart by spaces, None if the lines are prose.

    The table begins with the first lines of one length, below any others.
    """
    places = [place for place, line in enumerate(lines) if line.strip("-=_+ \t\r\n")]  # no rules
    lines = [lines[place].rstrip("\r\n") for place in places]
    spaced, fixed = "columns are apart by spaces", "columns are of fixed width"
    at_ends = functools.partial(_at_ends, ends=_fixed_ends(lines[-HEAD_LINES // 2 :]))
    kinds = ((_at_gaps, 1.0, spaced), (_WORDS.findall, NEARLY_ALL, spaced), (at_ends, 1.0, fixed))
    for split, share, note in kinds:
        dialect = Dialect("\t", split=split, notes=(note,))
        rows = split_lines(lines, dialect)[0]
        widths = [len(row) for row in rows]
        width = collections.Counter(widths[1:] or widths).most_common(1)[0][0]
        start = _begin_of_longest_run(widths, width)
        of_width = [row for row in rows[start:] if len(row) == width]
        # Names may hold single spaces where two are between columns.
        regular = start <= 0 or share < 1 or widths[start - 1] in (width, width + 1)
        regular = regular and start >= 0 and len(of_width) >= share * (len(rows) - start)
        columns = [*zip(*(of_width[1:] or of_width), strict=True)]
        regular = regular and not any(map(_hold_several, columns))
        if width > 1 and (forced or (regular and any(map(_hold_values, columns)))):
            names = [p for p in range(max(start - RUN, 0), start) if widths[p] == width]
            above = places[names[-1] if names else start - 1] if start > 1 else 0
            return dataclasses.replace(dialect, width=width, lines_before=above)
    return None


def _begin_of_longest_run(widths: Sequence[int], width: int) -> int:
    """Return where the longest run of lines of a width begins, -1 if it has too few of them."""
    place, best = 0, (min(RUN, len(widths) - 1) or 1, -1)
    for value, run in itertools.groupby(widths):
        length = len(list(run))
        if value == width and length >= best[0]:
            best = (length, place)
        place += length
    return best[1]


def _hold_several(cells: Sequence[str]) -> bool:
    """Tell whether most cells of a column are several numbers, or texts that are apart."""
    words = [cell.split() for cell in cells]
    numbers = sum(len(of) > 1 and all(map(is_number, of)) for of in words)
    return 2 * max(numbers, sum(bool(_GAPS.search(cell)) for cell in cells)) > len(cells)


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


def _hold_values(cells: Sequence[str]) -> bool:
    """Tell whether nearly all cells of a column are numbers or dates: words in lines are prose."""
    present = [cell for cell in cells if not (is_missing(cell) or is_gap_sign(cell))]
    return sum(map(is_value, present)) >= max(NEARLY_ALL * len(present), 1)
