"""Read text files: their encoding, lines and quotes; every cell as text.

A file is read by DuckDB from where it is, if it is UTF-8 and holds nothing but names and rows.  Any
other one is copied first, line by line, into one that does.
"""

from __future__ import annotations

import codecs
import collections
import contextlib
import csv
import dataclasses
import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hgr_jax._optional import require
from hgr_jax._texts import counted
from hgr_jax.tables.arrow_columns import arrow
from hgr_jax.tables.databases import quoted
from hgr_jax.tables.dialects import (
    DELIMITERS,
    Dialect,
    any_length,
    find_dialect,
    split_lines,
    without_comments,
)
from hgr_jax.tables.faults import READABLE, TableError, unreadable
from hgr_jax.tables.layouts import find_footer
from hgr_jax.tables.packed import CHUNK, Contents
from hgr_jax.tables.reading import Reading

HEAD_BYTES = 2**18
"""Number of first bytes of a file from which its dialect is found."""

TAIL_BYTES = 2**15
"""Number of last bytes of a file among which notes and totals are looked for."""

_BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
"""Byte order marks and their encodings."""


@dataclasses.dataclass(frozen=True)
class TextFile:
    """A text file whose rows DuckDB can read.

    Attributes:
      path: where it is, in UTF-8.
      contents: the original file.
      dialect: how its lines make a table.
      skipped: number of its lines before the rows.
      lines_before: number of lines of the original file before the first line of this one.
      notes: what was mended or left out.
      options: options of DuckDB that it needs.
    """

    path: Path
    contents: Contents
    dialect: Dialect
    skipped: int
    lines_before: int = 0
    notes: tuple[str, ...] = ()
    options: str = ""

    @property
    def shown(self) -> str:
        """The name in messages."""
        return self.contents.shown

    def query(self, select: str) -> str:
        """Return SQL for what is selected of the rows, whose columns are ``c0``, ``c1``, ...."""
        width = self.dialect.width
        columns = ", ".join(f"'c{place}': 'VARCHAR'" for place in range(width + 1))
        blank = "trim(c0) = ''" + (" AND c1 IS NULL" if width > 1 else "")
        delimiter, path = (t.replace("'", "''") for t in (self.dialect.delimiter, str(self.path)))
        return (
            f"SELECT {select} FROM read_csv('{path}', auto_detect = false, columns = {{{columns}}},"
            f" header = false, quote = '\"', delim = '{delimiter}', escape = '\"',"
            f" skip = {self.skipped}, strict_mode = true, null_padding = true,"
            f" nullstr = '\x01'{self.options}) WHERE NOT ({blank})"
        )

    def table(self, select: str) -> tuple[Any, TextFile]:
        """Return an Arrow table of what is selected of the rows, and the file, with notes on them.

        Raises:
          TableError: for no rows, an open quote, and a row with too many values.
        """
        width, total = self.dialect.width, arrow().compute.sum
        select = f"{select}, c{width} IS NOT NULL AS long, c{width - 1} IS NULL AS short"
        table, file = self._run(lambda data, file: data.sql(file.query(select)).to_arrow_table())
        long, short = (total(table[flag]).as_py() or 0 for flag in ("long", "short"))
        return table, file._checked(table.num_rows, long, short)

    def first_rows(self, rows: int) -> list[list[str]]:
        """Return the trimmed cells of the first rows, ``""`` at the ends of short ones."""
        width = self.dialect.width
        found = [cells for cells, _ in itertools.islice(self._filled_rows(), rows)]
        return [[c.strip() for c in cells[:width]] + [""] * (width - len(cells)) for cells in found]

    def holds(self, character: bytes) -> bool:
        """Return whether a character is somewhere in the file."""
        with self.path.open("rb") as file:
            return any(character in chunk for chunk in iter(lambda: file.read(CHUNK), b""))

    def _checked(self, rows: int, long: int, short: int) -> TextFile:
        """Check rows that are longer or shorter than the table; note the latter."""
        if not rows:
            raise TableError(f"{self.shown} has a header but no rows")
        if long:
            self.check_widths()
        if not short:
            return self
        uneven = (end for cells, end in self._filled_rows() if len(cells) < self.dialect.width)
        said = f"{counted(short, 'row')} {'are' if short > 1 else 'is'} shorter than the table"
        note = f"{said}, the first in line {next(uneven, 0)}: the rest is missing"
        return dataclasses.replace(self, notes=(*self.notes, note))

    def batches(self, names: Sequence[str], *_: Any) -> Iterator[Any]:
        """Yield the rows as Arrow batches of texts, with names of the columns."""
        select = ", ".join(f"c{place} AS {quoted(name)}" for place, name in enumerate(names))
        with contextlib.closing(require("duckdb").connect()) as database:
            yield from arrow().RecordBatchReader.from_stream(database.sql(self.query(select)))

    def _run(self, read: Callable[[Any, TextFile], Any]) -> tuple[Any, TextFile]:
        """Return what a function of a connection and a file returns, and the file that it took.

        Rows with quotes or lines that DuckDB does not read as Python does are written anew.
        """
        duckdb, file = require("duckdb"), self
        while True:
            try:
                with contextlib.closing(duckdb.connect()) as database:
                    return read(database, file), file
            except duckdb.Error as error:
                if file is not self:
                    raise unreadable(self.shown, "CSV", error) from None
                file = self._mended()

    def _rows(self) -> Iterator[tuple[list[str], int]]:
        """Yield the cells of each row, and the line of the original file on which it ends."""
        with self.path.open(encoding="utf-8", newline="") as file, any_length():
            lines = itertools.islice(file, self.skipped, None)
            reader = csv.reader(lines, delimiter=self.dialect.delimiter)
            for cells in reader:
                yield cells, reader.line_num + self.skipped + self.lines_before

    def _filled_rows(self) -> Iterator[tuple[list[str], int]]:
        for cells, end in self._rows():
            if len(cells) > 1 or "".join(cells).strip():
                yield cells, end

    def line(self, row: int) -> int:
        """Return the line of the original file on which a row ends; blank lines are not rows."""
        return next(itertools.islice((end for _, end in self._filled_rows()), row, None), 0)

    def check_widths(self) -> None:
        """Raise a `TableError` for a row with more values than the table has columns."""
        width = self.dialect.width
        for cells, end in self._rows():
            if any(cell.strip() for cell in cells[width:]):
                raise TableError(
                    f"{self.shown}, line {end}: expected {width} values as in the header, got"
                    f" {len(cells)}; --skip N leaves out N lines above the table, --footer N below"
                )

    def _mended(self) -> TextFile:
        """Write the rows anew, as Python reads them; raise for a quote that is not closed."""
        body = self.path.read_bytes()
        _check_quotes(body, self.shown, self.dialect.delimiter, self.lines_before + 1)
        self.check_widths()
        path = self.contents.folder.path / "mended.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=self.dialect.delimiter, lineterminator="\n")
            for cells, _ in self._rows():
                filled = len(cells) > 1 or any(cell.strip() for cell in cells)
                writer.writerow(cells[: self.dialect.width] if filled else [])
        size = min(path.stat().st_size + 2, 2**30)
        options = f", parallel = false, max_line_size = {max(size, 2**21)}"
        before = self.lines_before + self.skipped
        return dataclasses.replace(self, path=path, skipped=0, lines_before=before, options=options)


def open_text(contents: Contents, reading: Reading) -> TextFile:
    """Return a text file as DuckDB can read it; raise for bytes or quotes that are none."""
    path, shown = contents.path, contents.shown
    with path.open("rb") as file:
        start = file.read(HEAD_BYTES)
        size = file.seek(0, io.SEEK_END)
        file.seek(max(size - TAIL_BYTES, 0) // 4 * 4)
        tail = file.read()
    encoding, note = _encoding_of(path, shown, reading.encoding)
    head = codecs.getincrementaldecoder(encoding)(errors="replace").decode(start)
    head = head.removeprefix("\ufeff")
    is_whole = size == len(start)
    if not is_whole:
        head = head[: _end_of_rows(head)] or head
    _check_quotes(head.encode(errors="replace"), shown, DELIMITERS)
    dialect = find_dialect(head, shown, reading)
    last, remark = reading.footer or 0, ""
    if reading.footer is None:
        text = head if is_whole else tail.decode(encoding, errors="ignore")
        last, remark = _footer(text, dialect, is_head=is_whole)
    notes = tuple(filter(None, (*dialect.notes, remark, note)))
    before = head.splitlines(keepends=True)[: dialect.lines_before]
    # DuckDB counts lines that have one end, and no quote that is open.
    ends = {line[len(line.rstrip("\r\n")) :] for line in before}
    countable = ends <= {"\n"} or ends <= {"\r\n"}
    countable = countable and not any(line.count('"') % 2 for line in before)
    is_plain = encoding == "utf-8" and countable and not start.startswith(codecs.BOM_UTF8)
    if is_plain and not last and dialect.split is None and not dialect.comment:
        return TextFile(path, contents, dialect, dialect.lines_before, notes=notes)
    copied = contents.folder.path / "rows.csv"
    with (
        path.open(encoding=encoding, newline="") as lines,
        copied.open("w", encoding="utf-8", newline="") as rows,
    ):
        rows.writelines(dialect.rewritten(_lines_of_rows(lines, dialect, last)))
    return TextFile(copied, contents, dialect, 0, dialect.lines_before, notes)


def _lines_of_rows(file: Iterable[str], dialect: Dialect, last: int) -> Iterator[str]:
    """Yield the lines of a file that are rows, blank ones for comments."""
    waiting: collections.deque[str] = collections.deque()
    for place, line in enumerate(without_comments(file, dialect.comment)):
        if place < dialect.lines_before:
            continue
        waiting.append(line.removeprefix("\ufeff") if place == 0 else line)
        if len(waiting) > last:
            yield waiting.popleft()


def _footer(text: str, dialect: Dialect, *, is_head: bool) -> tuple[int, str]:
    """Return the number of last lines that are notes or totals, and a note on them.

    ``text`` is the whole file, or the end of it.
    """
    lines = list(without_comments(io.StringIO(text, newline=""), dialect.comment))
    lines = lines[dialect.lines_before if is_head else 1 :]
    if "".join(lines).count('"') % 2:
        return 0, ""
    rows, places = split_lines(lines, dialect)
    count, note = find_footer(rows, dialect.width, is_head)
    kept = places[len(rows) - count - 1] if count < len(rows) else 0
    return (len(lines) - kept if count else 0), note


def _end_of_rows(text: str) -> int:
    """Return where the last complete row of a text ends, outside of quotes; 0 if there is none."""
    end = max(text.rfind("\n"), text.rfind("\r", 0, len(text) - 1))
    open_quotes = text.count('"', 0, end + 1) % 2
    while end >= 0 and open_quotes:
        before = max(text.rfind("\n", 0, end), text.rfind("\r", 0, end))
        open_quotes ^= text.count('"', before + 1, end + 1) % 2
        end = before
    return end + 1


def _line_of(before: bytes) -> int:
    """Return the line number, from 1, of the byte after those before it."""
    return 1 + before.count(b"\n") + before.replace(b"\r\n", b"").count(b"\r")


def _encoding_of(path: Path, shown: str, told: str | None) -> tuple[str, str]:
    """Return the encoding of a text file, all of which is in it, and a note if it is a guess."""
    with path.open("rb") as file:
        start = file.read(4)
    known = told or next((name for mark, name in _BYTE_ORDER_MARKS if start.startswith(mark)), None)
    fault = _first_fault(path, known or "utf-8")
    if fault is None:
        return known or "utf-8", ""
    with path.open("rb") as file:
        before, byte = file.read(fault), file.read(1)
    if byte == b"\0" and not (known or "").lower().startswith(("utf-16", "utf-32")):
        where = f"line {_line_of(before)} holds a zero byte"
        raise TableError(f"{shown} is not a text file ({where}); expected {READABLE}")
    if known is not None:
        begins = "--encoding says" if told else "it begins as"
        raise TableError(
            f"{shown} breaks off or is damaged: {begins} {known.upper()} text, but byte {fault} is"
            " none"
        )
    note = (
        f"line {_line_of(before)} is not UTF-8: the file is read as Windows-1252 (Latin-1);"
        " --encoding names another, such as cp1250"
    )
    undefined = _first_fault(path, "cp1252")  # which leaves five bytes undefined
    return "cp1252" if undefined is None else "latin-1", note


def _first_fault(path: Path, encoding: str) -> int | None:
    """Return the first byte of a file that is not in an encoding, or is a zero; None if none is."""
    decoder, before = codecs.getincrementaldecoder(encoding)(), 0
    wide = encoding.lower().startswith(("utf-16", "utf-32"))
    with path.open("rb") as file:
        for chunk in itertools.chain(iter(lambda: file.read(CHUNK), b""), [b""]):
            if not wide and b"\0" in chunk:
                return before + chunk.index(b"\0")
            try:
                if wide or not chunk.isascii() or decoder.getstate()[0]:
                    decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                return before + error.start
            before += len(chunk)
    return None


def as_text(path: Path, shown: str, told: str | None) -> tuple[str, str]:
    """Return the text of a file, and a note if its encoding is a guess."""
    encoding, note = _encoding_of(path, shown, told)
    return path.read_text(encoding=encoding).removeprefix("\ufeff"), note


def _check_quotes(body: bytes, shown: str, delimiter: str, first_line: int = 1) -> None:
    """Raise for a quote that is not closed, or is closed in the middle of a value, lines later."""
    field = re.compile(
        rb"(?:\A|(?<=[\r\n%b]))\"(?P<inside>[^\"]*+(?:\"\"[^\"]*+)*+)(?P<end>\"?)"
        rb"(?P<after>[^%b\r\n]{0,20})" % ((re.escape(delimiter.encode()),) * 2)
    )
    for match in field.finditer(body) if b'"' in body else ():
        broken = b"\n" in match["inside"] or b"\r" in match["inside"]
        if match["end"] and not (broken and match["after"].strip()):
            continue
        line = _line_of(body[: match.start()]) + first_line - 1
        if not match["end"]:
            raise TableError(f"{shown}, line {line}: a quote is opened here and never closed")
        last = _line_of(body[: match.end("inside")]) + first_line - 1
        raise TableError(
            f"{shown}, line {line}: a quote that is opened here is closed in line {last},"
            f" before {match['after'].decode(errors='replace')!r}; expected a delimiter there"
        )
