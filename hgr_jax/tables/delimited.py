"""Read the cells of CSV files as texts, whole or in blocks, in any encoding and with quotes."""

from __future__ import annotations

import codecs
import contextlib
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
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.texts import as_number

DELIMITERS = ",;\t|"

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
    """The texts of a CSV file or of a block of it, as Arrow arrays.

    Rows start at byte ``start`` of ``body``, which begins on line ``first_line`` of the file.
    """

    shown: str
    body: bytes
    start: int
    header: list[str]
    delimiter: str
    columns: list[Any]
    first_line: int = 1

    def line(self, row: int) -> int:
        """Return the line of the file on which a row ends; blank lines are not rows."""
        text = io.TextIOWrapper(io.BytesIO(self.body[self.start :]), encoding="utf-8", newline="")
        reader = csv.reader(text, delimiter=self.delimiter)
        filled = (cells for cells in reader if len(cells) > 1 or "".join(cells).strip())
        # Where csv and Arrow differ (huge cells, open quotes), the line is approximate.
        with contextlib.suppress(csv.Error):
            next(itertools.islice(filled, row, None), None)
        return reader.line_num + line_of(self.body, self.start) + self.first_line - 2


def line_of(body: bytes, position: int) -> int:
    """Return the line number, from 1, of a byte of a file."""
    before = body[:position]
    return 1 + before.count(b"\n") + before.replace(b"\r\n", b"").count(b"\r")


@functools.cache
def arrow() -> Any:
    """Return pyarrow, with its CSV and compute modules loaded."""
    for module in ("pyarrow.csv", "pyarrow.compute"):
        require(module, "cli")
    return require("pyarrow", "cli")


def as_utf8(body: bytes, shown: str) -> tuple[bytes, str]:
    """Return a text file as UTF-8 without a byte order mark, and a note on its encoding."""
    encoding = encoding_of(body)
    check_not_zero(body, shown)
    note = ""
    try:
        if encoding is not None:
            body = body.decode(encoding).encode()
        elif not body.isascii():
            body.decode()
    except UnicodeDecodeError as error:
        if encoding is not None:
            raise TableError(
                f"{shown} breaks off or is damaged: it begins as {encoding.upper()} text, but byte"
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


def latin_note(line: int) -> str:
    """Return the note on a file that is not UTF-8, as this line shows."""
    return f"line {line} is not UTF-8: the file is read as Windows-1252 (Latin-1)"


def _check_no_zero_byte(body: bytes, shown: str, first_line: int = 1) -> None:
    if b"\0" in body:
        line = line_of(body, body.index(0)) + first_line - 1
        raise TableError(
            f"{shown} is not a text file (line {line} holds a zero byte);"
            " expected CSV, Parquet, Feather, JSON or .xlsx"
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


def read_cells(body: bytes, shown: str, *, header: bool = True, point: str | None = None) -> Cells:
    """Read the cells of UTF-8 text; without ``header``, its first line is the first row too.

    Raises:
      TableError: for no names or no rows, a row of another length than the header, or an open
        quote.
    """
    begin, end, names, delimiter = read_header(body, shown, point)
    cells = read_rows(body, end if header else begin, shown, (names, delimiter))
    if not len(cells.columns[0]):
        raise TableError(f"{shown} has a header but no rows")
    return cells


def read_rows(
    body: bytes, start: int, shown: str, header: tuple[list[str], str], first_line: int = 1
) -> Cells:
    """Read the rows after byte ``start`` of UTF-8 text, given its names and delimiter."""
    names, delimiter = header
    blank: list[int] = []  # row numbers of lines of spaces
    uneven: list[Any] = []

    def handle(row: Any) -> str:
        if row.text.strip(' \t"') or delimiter in row.text:
            uneven.append(row)
        else:
            blank.append(row.number)
        return "skip"

    cells = _parse(body, start, shown, names, delimiter, handle)
    cells = dataclasses.replace(cells, first_line=first_line)
    rows = len(cells.columns[0])
    ends = max(body.count(b"\n", start), body.count(b"\r", start))
    ends += body[-1:] not in (b"\n", b"\r")
    # A value spans several lines, or lines are empty, or the number of quotes is odd.
    if uneven or ends > rows + len(blank) or body.count(b'"', start) % 2:
        _check_quotes(body, start, shown, delimiter, first_line=first_line)
    if uneven:
        row = uneven[0]
        place = row.number - 1 - sum(number < row.number for number in blank)
        raise TableError(
            f"{shown}, line {cells.line(place)}: expected {row.expected_columns} values as in the"
            f" header, got {row.actual_columns}"
        )
    return cells


def read_blocks(path: str, shown: str, encoding: str) -> Iterator[tuple[bytes, int]]:
    """Yield blocks of whole rows of a file as UTF-8, and the line on which each begins.

    Raises:
      UnicodeDecodeError: if the file is not of the encoding; its ``start`` is a byte of the block,
        and its ``reason`` the line.
      TableError: for a zero byte, and a quote that is never closed.
    """
    decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)()
    waiting, line, read = b"", 1, b"\n"
    with arrow().input_stream(path, compression="detect") as stream:
        while read:
            read = stream.read(CSV_BLOCK)
            waiting += decoder.decode(read, final=not read).encode() if decoder else read
            end = _end_of_rows(waiting) if read else len(waiting)
            if not end and len(waiting) > MAX_ROW_BYTES:
                _check_quotes(waiting, 0, shown, DELIMITERS, first_line=line)
                end = _last_line_end(waiting, len(waiting)) + 1
            if not end:
                continue
            block, waiting = waiting[:end], waiting[end:]
            if not block.isascii():
                _check_utf8(block, line)
            _check_no_zero_byte(block, shown, line)
            yield block, line
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


def read_headless_cells(body: bytes, shown: str, names: Sequence[str]) -> Cells:
    """Read the cells of text without a header, skipping lines of another length."""
    return _parse(body, 0, shown, list(names), ",", lambda row: "skip")


def _parse(
    body: bytes, start: int, shown: str, names: list[str], delimiter: str, handle: Any
) -> Cells:
    places = [str(place) for place in range(len(names))]
    columns = [arrow().chunked_array([], arrow().string()) for _ in places]
    if _FILLED.search(body, start):
        try:
            table = arrow().csv.read_csv(
                arrow().BufferReader(arrow().py_buffer(body).slice(start)),
                read_options=arrow().csv.ReadOptions(
                    column_names=places,
                    use_threads=False,  # only then does the handler see row numbers
                    block_size=min(len(body) + 2, 2**31 - 1),  # one block cuts no cell in two
                ),
                parse_options=arrow().csv.ParseOptions(
                    delimiter=delimiter, newlines_in_values=True, invalid_row_handler=handle
                ),
                convert_options=arrow().csv.ConvertOptions(
                    column_types=dict.fromkeys(places, arrow().string())
                ),
            )
        except arrow().ArrowException as error:
            reason = printable(" ".join(str(error).split()))
            raise TableError(f"{shown} cannot be read as CSV: {reason}") from None
        columns = [table.column(place) for place in places]
    if len(names) == 1:  # Arrow reads a line of spaces as a row
        columns = [columns[0].filter(arrow().array(trimmed(columns[0]) != ""))]
    return Cells(shown, body, start, names, delimiter, columns)


def trimmed(column: Any) -> NDArray[Any]:
    """Return the texts of an Arrow column without surrounding spaces."""
    return np.asarray(arrow().compute.utf8_trim_whitespace(column).to_numpy(), object)


def read_header(body: bytes, shown: str, point: str | None) -> tuple[int, int, list[str], str]:
    """Return where the header begins and ends, its names, and the delimiter."""
    filled = _FILLED.search(body)
    begin = filled.start() if filled else len(body)
    separator = re.match(rb'"?sep=(.)"?\r?\n', body[begin : begin + 20])  # Excel's first line
    if separator:
        begin += separator.end()
    if not _FILLED.search(body, begin):
        raise TableError(f"{shown} is empty: expected a line of column names, then rows")
    first = end = _line_end(body, begin)
    left_open = body.count(b'"', begin, end) % 2
    while left_open and end < len(body):  # a line break within quotes
        next_end = _line_end(body, end)
        left_open ^= body.count(b'"', end, next_end) % 2
        end = next_end
    if left_open:  # a literal quote, or one that is never closed
        end = first
    text = body[begin:end].decode()
    delimiter = find_delimiter(re.sub(r'"[^"]*"', "", text), point)
    if separator and separator[1] != b'"':
        delimiter = separator[1].decode()
    _check_quotes(body, begin, shown, delimiter, end)
    if end == len(body) and text[-1] not in "\r\n":
        raise TableError(f"{shown} has a header but no rows")
    cells = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    return begin, end, [re.sub(r"\s*[\r\n]+\s*", " ", name.strip()) for name in cells], delimiter


def find_delimiter(text: str, point: str | None) -> str:
    """Return the most frequent delimiter, but not a comma that is a decimal point."""
    no_comma = max(DELIMITERS[1:], key=text.count)
    cells = text.split(no_comma)
    if len(cells) > 1 and (
        point == "," or all(as_number(cell.strip(), ",") is not None for cell in cells)
    ):
        return no_comma
    return max(DELIMITERS, key=text.count)


_LINE_END = re.compile(rb"\r\n|\n|\r")
_FILLED = re.compile(rb"[^ \r\n]")


def _line_end(body: bytes, start: int) -> int:
    match = _LINE_END.search(body, start)
    return match.end() if match else len(body)


def _check_quotes(
    body: bytes,
    start: int,
    shown: str,
    delimiter: str,
    stop: int | None = None,
    first_line: int = 1,
) -> None:
    """Raise for a quote that is not closed, or is closed in the middle of a value, lines later."""
    field = re.compile(
        rb"(?:\A|(?<=[\r\n%b]))\"(?P<inside>[^\"]*+(?:\"\"[^\"]*+)*+)(?P<end>\"?)"
        rb"(?P<after>[^%b\r\n]{0,20})" % ((re.escape(delimiter.encode()),) * 2)
    )
    for match in field.finditer(body, start) if body.find(b'"', start) >= 0 else ():
        if stop is not None and match.start() >= stop:
            return
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
