"""Read the cells of CSV files as texts, whole or in blocks, in any encoding and with quotes."""

from __future__ import annotations

import codecs
import csv
import dataclasses
import functools
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._optional import require
from hgr_jax.tables.date_texts import ISO_DATE
from hgr_jax.tables.dialects import DELIMITERS, Dialect, any_length, find_dialect, split_lines
from hgr_jax.tables.faults import READABLE, TableError, unreadable
from hgr_jax.tables.layouts import TableLayout, find_footer, is_value
from hgr_jax.tables.reading import Reading

HEAD_BYTES = 2**18
"""Number of first bytes of a file from which its dialect is found."""

TAIL_BYTES = 2**15
"""Number of last bytes of a file among which notes and totals are looked for."""

CSV_BLOCK = 2**23
"""Number of bytes of a CSV file that are read at a time."""

MAX_ROW_BYTES = 2**26
"""Number of bytes without a row end beyond which quotes are checked, and then ignored."""

_BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
"""Byte order marks and their encodings."""

_DELIMITER_BYTES = frozenset(f"{DELIMITERS}\r\n".encode())
_PRINTABLE_BYTES = range(0x20, 0x7F)


@dataclasses.dataclass(frozen=True)
class Cells:
    """The texts of a text file or of a block of it, as Arrow arrays.

    Attributes:
      body: the rows as UTF-8, rewritten with one delimiter.
      dialect: how they are written.
      columns: the columns: texts, or numbers that Arrow has parsed.
      first_line: the line of the file on which the body begins.
      notes: what was mended or left out.
    """

    body: bytes
    dialect: Dialect
    columns: list[Any]
    first_line: int = 1
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.columns[0])

    def line(self, row: int) -> int:
        """Return the line of the file on which a row ends; blank lines are not rows."""
        text = io.TextIOWrapper(io.BytesIO(self.body), encoding="utf-8", newline="")
        reader = csv.reader(text, delimiter=self.dialect.delimiter)
        filled = (cells for cells in reader if len(cells) > 1 or "".join(cells).strip())
        with any_length():
            next(itertools.islice(filled, row, None), None)
        return reader.line_num + self.first_line - 1


def line_of(body: bytes, position: int) -> int:
    """Return the line number, from 1, of a byte of a file."""
    before = body[:position]
    return 1 + before.count(b"\n") + before.replace(b"\r\n", b"").count(b"\r")


@functools.cache
def arrow() -> Any:
    """Return pyarrow, with its CSV and compute modules loaded."""
    for module in ("pyarrow.csv", "pyarrow.compute"):
        require(module)
    return require("pyarrow")


def as_utf8(body: bytes, shown: str, encoding: str | None = None) -> tuple[bytes, str]:
    """Return a text file as UTF-8 without a byte order mark, and a note on its encoding.

    ``encoding`` is that of the file; None to find it.
    """
    told = encoding is not None
    encoding = encoding or encoding_of(body)
    check_not_zero(body, shown)
    note = ""
    try:
        if encoding is not None:
            body = body.decode(encoding).removeprefix("\ufeff").encode()
        elif not body.isascii():
            body.decode()
    except UnicodeDecodeError as error:
        if encoding is not None:
            begins = "--encoding says" if told else "it begins as"
            raise TableError(
                f"{shown} breaks off or is damaged: {begins} {encoding.upper()} text, but byte"
                f" {error.start} is none"
            ) from None
        if b"\0" not in body:
            note = latin_note(line_of(body, error.start))
            try:
                body = body.decode("cp1252").encode()
            except UnicodeDecodeError:  # cp1252 leaves five bytes undefined
                body = body.decode("latin-1").encode()
    _check_no_zero_byte(body, shown)
    return body, note


def decoded_head(start: bytes, encoding: str) -> bytes:
    """Return the first bytes of a file as UTF-8, as far as they can be decoded."""
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(start)
    return text.removeprefix("\ufeff").encode()


def latin_note(line: int) -> str:
    """Return the note on a file that is not UTF-8, as this line shows."""
    return (
        f"line {line} is not UTF-8: the file is read as Windows-1252 (Latin-1); --encoding names"
        " another, such as cp1250"
    )


def _check_no_zero_byte(body: bytes, shown: str, first_line: int = 1) -> None:
    if b"\0" in body:
        line = line_of(body, body.index(0)) + first_line - 1
        raise TableError(
            f"{shown} is not a text file (line {line} holds a zero byte); expected {READABLE}"
        )


def check_not_zero(start: bytes, shown: str) -> None:
    """Raise a `TableError` if a file starts with nothing but zero bytes."""
    if start and not start.strip(b"\0"):
        raise TableError(
            f"{shown} holds nothing but zero bytes: it was not written or copied to its end; get it"
            " anew"
        )


def encoding_of(start: bytes) -> str | None:
    """Return the encoding that the first bytes of a text file reveal, or None."""
    marked = next((name for mark, name in _BYTE_ORDER_MARKS if start.startswith(mark)), None)
    return marked or _utf16_without_mark(start[:1000])


def _utf16_without_mark(start: bytes) -> str | None:
    """Return the UTF-16 encoding of text without a byte order mark, or None."""
    zeros = [start[parity::2].count(0) for parity in (0, 1)]
    if max(zeros) <= 4 * min(zeros) + 4:  # one byte of each Latin letter in UTF-16 is zero
        return None
    odd = int(zeros[1] > zeros[0])
    pairs = zip(start[odd::2], start[1 - odd :: 2], strict=False)
    # Delimiters of ASCII text with stray zero bytes stand beside letters, not beside zeros.
    balance = sum(
        (high == 0) - (high in _PRINTABLE_BYTES) for high, low in pairs if low in _DELIMITER_BYTES
    )
    return ("utf-16-be", "utf-16-le")[odd] if balance > 0 else None


def dialect_of(body: bytes, shown: str, reading: Reading, *, complete: bool) -> Dialect:
    """Find the dialect of a file from its first bytes, as UTF-8; ``complete`` if they are all."""
    head = body[:HEAD_BYTES]
    if not complete or len(head) < len(body):
        head = head[: _end_of_rows(head) or _last_line_end(head, len(head)) + 1] or head
    _check_quotes(head, shown, DELIMITERS)
    return find_dialect(head.decode(errors="ignore"), shown, reading)


def read_cells(body: bytes, shown: str, reading: Reading, typed: bool = False) -> Cells:
    """Read the cells of a whole file of UTF-8 text.

    With ``typed``, columns that begin with plain numbers or dates are parsed by Arrow.

    Raises:
      TableError: for no names or no rows, a row that is longer than the names, or an open quote.
    """
    dialect = dialect_of(body, shown, reading, complete=True)
    cells = read_rows(
        body, dialect, shown, reading=reading, typed=typed, is_first=True, is_last=True
    )
    if not cells.rows:
        raise TableError(f"{shown} has a header but no rows")
    return cells


def read_rows(
    body: bytes,
    dialect: Dialect,
    shown: str,
    *,
    reading: Reading,
    first_line: int = 1,
    is_first: bool = False,
    is_last: bool = False,
    typed: bool = False,
) -> Cells:
    """Read the rows of a block of UTF-8 text, which begins on ``first_line`` of the file."""
    if is_first:
        start = _start_of_line(body, dialect.lines_before)
        body, first_line = body[start:], first_line + dialect.lines_before
    notes: tuple[str, ...] = ()
    if dialect.comment:
        body = _without_comments(body, dialect)
    if is_last and reading.footer is None:
        body, note = _without_footer(body, dialect, complete=is_first)
        notes = (note,) if note else ()
    elif is_last and reading.footer:
        body = b"".join(body.splitlines(keepends=True)[: -reading.footer])
    if dialect.is_rewritten:
        body = dialect.rewritten(body.decode()).encode()
    columns = _parse_typed(body, dialect) if typed else None
    if columns is None:
        uneven: list[Any] = []
        columns, blank = _parse(body, dialect, shown, uneven)
        if uneven:
            _check_quotes(body, shown, dialect.delimiter, first_line=first_line)
            body, note = _evened(body, dialect, shown, first_line)
            notes += (note,) if note else ()
            columns, blank = _parse(body, dialect, shown, [])
    else:
        blank = 0
    rows = len(columns[0])
    ends = max(body.count(b"\n"), body.count(b"\r")) + (body[-1:] not in (b"\n", b"\r"))
    # A value spans several lines, or lines are empty, or the number of quotes is odd.
    if b'"' in body and (ends > rows + blank or body.count(b'"') % 2):
        _check_quotes(body, shown, dialect.delimiter, first_line=first_line)
    return Cells(body, dialect, columns, first_line, notes)


def _without_comments(body: bytes, dialect: Dialect) -> bytes:
    """Make comments blank lines, outside of quotes."""
    kept, is_open = [], False
    for line in _LINES.findall(body):
        is_comment = not is_open and dialect.is_comment(line.decode(errors="replace"))
        kept.append(line[len(line.rstrip(b"\r\n")) :] if is_comment else line)
        if not is_comment:
            is_open ^= bool(line.count(b'"') % 2)
    return b"".join(kept)


def _start_of_line(body: bytes, lines: int) -> int:
    """Return where the lines after the first ``lines`` begin."""
    start = 0
    for _ in range(lines):
        start = _line_end(body, start)
    return start


def _without_footer(body: bytes, dialect: Dialect, *, complete: bool) -> tuple[bytes, str]:
    """Leave out notes and totals at the end; return a note on them too."""
    start = max(len(body) - TAIL_BYTES, 0)
    start = start and _line_end(body, start)
    lines = [*io.StringIO(body[start:].decode(errors="ignore"), newline="")]
    if "".join(lines).count('"') % 2:
        return body, ""
    rows, places = split_lines(lines, dialect)
    count, note = find_footer(rows, dialect.width, complete and not start)
    if not count:
        return body, ""
    kept = places[len(rows) - count - 1] if count < len(rows) else 0
    end = start + len("".join(lines[:kept]).encode())
    return body[:end], note


def _evened(body: bytes, dialect: Dialect, shown: str, first_line: int) -> tuple[bytes, str]:
    """Give all rows the width of the table; return a note on rows that were shorter.

    Raises:
      TableError: for a row with more values than the table has columns.
    """
    text = io.StringIO(body.decode(), newline="")
    reader = csv.reader(text, delimiter=dialect.delimiter)
    written = io.StringIO(newline="")
    writer = csv.writer(written, delimiter=dialect.delimiter, lineterminator="\n")
    width, short, first, line = dialect.width, 0, 0, 0
    with any_length():
        for cells in reader:
            filled = any(cell.strip() for cell in cells)
            if any(cell.strip() for cell in cells[width:]):
                raise TableError(
                    f"{shown}, line {first_line + reader.line_num - 1}: expected {width} values as"
                    f" in the header, got {len(cells)}"
                )
            if filled and len(cells) < width:
                short, first = short + 1, first or first_line + reader.line_num - 1
            if filled or len(cells) > 1:
                writer.writerow([*cells[:width], *[""] * (width - len(cells))])
                written.write(
                    "\n" * (reader.line_num - line - 1 - sum(c.count("\n") for c in cells))
                )
            else:
                written.write("\n" * (reader.line_num - line))
            line = reader.line_num
    rows = f"{short:,} rows are" if short > 1 else "1 row is"
    note = f"{rows} shorter than the table, the first in line {first}: the rest is missing"
    return written.getvalue().encode(), note if short else ""


def read_blocks(path: str, shown: str, encoding: str) -> Iterator[tuple[bytes, int, bool]]:
    """Yield blocks of whole rows of a file as UTF-8, the line on which each begins, and whether it
    is the last.

    Raises:
      UnicodeDecodeError: if the file is not of the encoding; its ``start`` is a byte of the block,
        and its ``reason`` the line.
      TableError: for a zero byte, and a quote that is never closed.
    """
    earlier, line = b"", 1
    for block in _whole_rows(path, shown, encoding):
        # The last lines of a file, which may be notes, are never cut in two.
        if earlier and len(block) < min(TAIL_BYTES, CSV_BLOCK // 4):
            earlier += block
            continue
        if earlier:
            yield earlier, line, False
            line += line_of(earlier, len(earlier)) - 1
        earlier = block
    if earlier:
        yield earlier, line, True


def _whole_rows(path: str, shown: str, encoding: str) -> Iterator[bytes]:
    """Yield blocks of whole rows of a file as UTF-8."""
    decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)()
    waiting, line, read = b"", 1, b"\n"
    with arrow().input_stream(path, compression="detect") as stream:
        while read:
            read = stream.read(CSV_BLOCK)
            waiting += decoder.decode(read, final=not read).encode() if decoder else read
            end = _end_of_rows(waiting) if read else len(waiting)
            if not end and len(waiting) > MAX_ROW_BYTES:
                _check_quotes(waiting, shown, DELIMITERS, first_line=line)
                end = _last_line_end(waiting, len(waiting)) + 1
            if not end:
                continue
            block, waiting = waiting[:end], waiting[end:]
            if not block.isascii():
                _check_utf8(block, line)
            _check_no_zero_byte(block, shown, line)
            yield block
            line += line_of(block, len(block)) - 1


def _check_utf8(block: bytes, first_line: int) -> None:
    try:
        block.decode()
    except UnicodeDecodeError as error:
        error.reason = str(first_line + line_of(block, error.start) - 1)
        raise


def _last_line_end(body: bytes, stop: int) -> int:
    """Return the position of the last line break before ``stop``, -1 if there is none."""
    # A carriage return that comes last may be the first half of a line break.
    return max(body.rfind(b"\n", 0, stop), body.rfind(b"\r", 0, min(stop, len(body) - 1)))


def _end_of_rows(body: bytes) -> int:
    """Return where the last complete row ends, outside of quotes; 0 if there is none."""
    end = _last_line_end(body, len(body))
    open_quotes = body.count(b'"', 0, end + 1) % 2
    while end >= 0 and open_quotes:
        before = _last_line_end(body, end)
        open_quotes ^= body.count(b'"', before + 1, end + 1) % 2
        end = before
    return end + 1


def read_headless_cells(body: bytes, shown: str, names: Sequence[str]) -> list[Any]:
    """Read the columns of text without a header, skipping lines of another length."""
    return _parse(body, Dialect(",", len(names), TableLayout([*names], None, 0)), shown, [])[0]


def _parse(body: bytes, dialect: Dialect, shown: str, uneven: list[Any]) -> tuple[list[Any], int]:
    """Parse rows into columns of texts; return the number of lines of spaces too.

    Rows of another length are skipped, and added to ``uneven``.
    """
    places = [str(place) for place in range(dialect.width)]
    if not _FILLED.search(body):
        return [arrow().chunked_array([], arrow().string()) for _ in places], 0
    blank = 0

    def handle(row: Any) -> str:
        nonlocal blank
        if row.text.strip(' \t"') or dialect.delimiter in row.text:
            uneven.append(row)
        else:
            blank += 1
        return "skip"

    try:
        table = arrow().csv.read_csv(
            arrow().py_buffer(body),
            read_options=arrow().csv.ReadOptions(
                column_names=places,
                use_threads=False,
                block_size=min(len(body) + 2, 2**31 - 1),  # one block cuts no cell in two
            ),
            parse_options=arrow().csv.ParseOptions(
                delimiter=dialect.delimiter, newlines_in_values=True, invalid_row_handler=handle
            ),
            convert_options=arrow().csv.ConvertOptions(
                column_types=dict.fromkeys(places, arrow().string())
            ),
        )
    except arrow().ArrowException as error:
        raise unreadable(shown, "CSV", error) from None
    columns = [table.column(place) for place in places]
    if dialect.width == 1:  # Arrow reads a line of spaces as a row
        columns = [columns[0].filter(arrow().array(trimmed(columns[0]) != ""))]
    return columns, blank


MAX_TRIES = 3
"""Number of columns that may turn out to hold other texts than their first rows show."""

MIN_TYPED_BYTES = 2**20
"""Size of a file from which Arrow parses plain columns."""

MANY_HEAD_ROWS, FEW_OF_THEM = 100, 0.1
"""Number of first rows, and share of different texts among them, of a column of few texts."""

_DECIMALS = re.compile(r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?")
_DECIDED = re.compile(r"[-+]?(?:0[0-9]*|[0-9]{4,})\.|.*\.(?:[0-9]{1,2}|[0-9]{4,})?(?:[eE].*)?$")
_ISO_CELL = re.compile(ISO_DATE)


def _parse_typed(body: bytes, dialect: Dialect) -> list[Any] | None:
    """Parse rows on several threads, plain columns as what they are; None where that fails."""
    if len(body) < MIN_TYPED_BYTES or dialect.width == 1:
        return None
    head = body[: _last_line_end(body, TAIL_BYTES) + 1].decode(errors="ignore")
    rows = [row for row in split_lines(io.StringIO(head, newline=""), dialect)[0] if row]
    types = {
        str(place): _type_of([row[place] for row in rows if len(row) > place])
        for place in range(dialect.width)
    }
    for _ in range(MAX_TRIES):
        try:
            table = arrow().csv.read_csv(
                arrow().py_buffer(body),
                read_options=arrow().csv.ReadOptions(column_names=[*types], block_size=2**22),
                parse_options=arrow().csv.ParseOptions(
                    delimiter=dialect.delimiter, newlines_in_values=True
                ),
                convert_options=arrow().csv.ConvertOptions(column_types=types, null_values=[""]),
            )
            return list(table.columns)
        except arrow().ArrowException as error:
            column = re.match(r"In CSV column #([0-9]+):", str(error))
            if column is None:
                return None
            types[column[1]] = arrow().string()
    return None


def _type_of(cells: Sequence[str]) -> Any:
    """Return the Arrow type of a column by its first cells: decimal numbers, dates, few texts."""
    pa, present = arrow(), [cell for cell in cells if cell]
    if present and all(map(_DECIMALS.fullmatch, present)) and any(map(_DECIDED.match, present)):
        return pa.float64()
    if present and all(map(_ISO_CELL.fullmatch, present)):
        return pa.timestamp("us")
    many = len(cells) >= MANY_HEAD_ROWS
    if many and len({*cells}) <= FEW_OF_THEM * len(cells) and not any(map(is_value, {*present})):
        return pa.dictionary(pa.int32(), pa.string())
    return pa.string()


def trimmed(column: Any) -> NDArray[Any]:
    """Return the texts of an Arrow column without surrounding spaces."""
    return np.asarray(arrow().compute.utf8_trim_whitespace(column).to_numpy(), object)


_LINES = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_FILLED = re.compile(rb"[^ \r\n]")


def _line_end(body: bytes, start: int) -> int:
    match = _LINE_END.search(body, start)
    return match.end() if match else len(body)


def _check_quotes(body: bytes, shown: str, delimiter: str, first_line: int = 1) -> None:
    """Raise for a quote that is not closed, or is closed in the middle of a value, lines later."""
    field = re.compile(
        rb"(?:\A|(?<=[\r\n%b]))\"(?P<inside>[^\"]*+(?:\"\"[^\"]*+)*+)(?P<end>\"?)"
        rb"(?P<after>[^%b\r\n]{0,20})" % ((re.escape(delimiter.encode()),) * 2)
    )
    for match in field.finditer(body) if b'"' in body else ():
        if not match["end"]:
            line = line_of(body, match.start()) + first_line - 1
            raise TableError(f"{shown}, line {line}: a quote is opened here and never closed")
        if match["after"].strip() and (b"\n" in match["inside"] or b"\r" in match["inside"]):
            line = line_of(body, match.start()) + first_line - 1
            last = line_of(body, match.end("inside")) + first_line - 1
            raise TableError(
                f"{shown}, line {line}: a quote that is opened here is closed in line {last},"
                f" before {match['after'].decode(errors='replace')!r}; expected a delimiter there"
            )
