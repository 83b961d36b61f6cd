"""Tables of CSV: their cells, and what a column of them is.

Cells are texts, whatever the encoding, delimiter and quotes of the file.  A column of plain numbers
or dates is cast by Arrow, which is fast; any other is inferred from its texts (`texts.infer`).
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import functools
import io
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._optional import require
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.texts import (
    COMMA,
    ISO_DATE,
    MISSING,
    NEARLY_ALL,
    Form,
    Inferred,
    as_integer,
    as_number,
    in_seconds,
    infer,
    is_number,
    say_how,
    say_odd,
    tell_lost_digits,
)

DELIMITERS = ",;\t|"

_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
"""Byte order marks, and the encoding that they tell."""

_BETWEEN = frozenset(f"{DELIMITERS}\r\n".encode())
_SHOWN = range(0x20, 0x7F)


@dataclasses.dataclass(frozen=True)
class Cells:
    """The texts of a CSV file: Arrow's arrays, as they stand in the file."""

    shown: str
    body: bytes
    start: int
    header: list[str]
    delimiter: str
    columns: list[Any]

    def line(self, row: int) -> int:
        """Return the line of the file in which a row ends; Arrow counts rows without blank ones."""
        text = io.TextIOWrapper(io.BytesIO(self.body[self.start :]), encoding="utf-8", newline="")
        reader = csv.reader(text, delimiter=self.delimiter)
        filled = (cells for cells in reader if len(cells) > 1 or "".join(cells).strip())
        # What the two read differently (huge cells, quotes left open) has a line near.
        with contextlib.suppress(csv.Error):
            next(itertools.islice(filled, row, None), None)
        return reader.line_num + line_of(self.body, self.start) - 1


def line_of(body: bytes, position: int) -> int:
    """Return the line, from 1, in which a byte of a file stands."""
    before = body[:position]
    return 1 + before.count(b"\n") + before.replace(b"\r\n", b"").count(b"\r")


@functools.cache
def arrow() -> Any:
    """Return pyarrow, with the parts of it that read CSV."""
    for module in ("pyarrow.csv", "pyarrow.compute"):
        require(module, "cli")
    return require("pyarrow", "cli")


def as_utf8(body: bytes, shown: str) -> tuple[bytes, str]:
    """Return a text file as UTF-8 without a mark, and what is to be said of its encoding.

    Raises:
      TableError: if it is no text.
    """
    name = told_encoding(body)
    check_not_zero(body, shown)
    note = ""
    try:
        if name is not None:
            body = body.decode(name).encode()
        elif not body.isascii():
            body.decode()
    except UnicodeDecodeError as error:
        if name is not None:
            raise TableError(
                f"{shown} breaks off or is damaged: it begins as {name.upper()} text, but byte"
                f" {error.start} is none"
            ) from None
        if b"\0" not in body:
            line = line_of(body, error.start)
            note = f"line {line} is not UTF-8: the file is read as Windows-1252 (Latin-1)"
            try:
                body = body.decode("cp1252").encode()
            except UnicodeDecodeError:  # five bytes have no meaning there
                body = body.decode("latin-1").encode()
    if b"\0" in body:
        raise TableError(
            f"{shown} is not a text file (line {line_of(body, body.index(0))} holds a zero byte);"
            " expected CSV, Parquet, Feather, JSON or .xlsx"
        )
    return body, note


def check_not_zero(start: bytes, shown: str) -> None:
    """Raise a `TableError` if what a file starts with are zero bytes alone."""
    if start and not start.strip(b"\0"):
        raise TableError(
            f"{shown} holds nothing but zero bytes: it was not written or copied to its end; get it"
            " anew"
        )


def told_encoding(start: bytes) -> str | None:
    """Return the encoding that a file of text tells by how it starts; None if it tells none."""
    told = next((name for mark, name in _MARKS if start.startswith(mark)), None)
    return told or _utf16_without_mark(start[:1000])


def _utf16_without_mark(start: bytes) -> str | None:
    """Return the encoding of text in UTF-16 by how it starts, None for any other."""
    zeros = [start[half::2].count(0) for half in (0, 1)]
    if max(zeros) <= 4 * min(zeros) + 4:  # the half of Latin letters that says nothing
        return None
    late = int(zeros[1] > zeros[0])
    pairs = zip(start[late::2], start[1 - late :: 2], strict=False)
    # Zero bytes that strayed into ASCII leave its delimiters beside letters, not beside zeros.
    balance = sum((high == 0) - (high in _SHOWN) for high, low in pairs if low in _BETWEEN)
    return ("utf-16-be", "utf-16-le")[late] if balance > 0 else None


def read_cells(body: bytes, shown: str, *, header: bool = True, point: str | None = None) -> Cells:
    """Read the cells of UTF-8 text whose first line that is not blank holds the names.

    Args:
      body: of the file.
      shown: its name.
      header: False for a file without that line; the header is then the first row.
      point: the decimal point, None if that is not known.

    Raises:
      TableError: no names or no rows, a row of another length than the header, or a quote that is
        left open.
    """
    begin, end, names, delimiter = _read_header(body, shown, point)
    start = end if header else begin
    blank: list[int] = []  # lines of spaces
    uneven: list[Any] = []

    def handle(row: Any) -> str:
        if row.text.strip(' \t"') or delimiter in row.text:
            uneven.append(row)
        else:
            blank.append(row.number)
        return "skip"

    cells = _parse(body, start, shown, names, delimiter, handle)
    rows = len(cells.columns[0])
    ends = max(body.count(b"\n", start), body.count(b"\r", start))
    ends += body[-1:] not in (b"\n", b"\r")
    # A value takes several lines, or some are empty; or a quote has no other.
    if uneven or ends > rows + len(blank) or body.count(b'"', start) % 2:
        _check_quotes(body, start, shown, delimiter)
    if uneven:
        row = uneven[0]
        place = row.number - 1 - sum(number < row.number for number in blank)
        raise TableError(
            f"{shown}, line {cells.line(place)}: expected {row.expected_columns} values as in the"
            f" header, got {row.actual_columns}"
        )
    if not rows:
        raise TableError(f"{shown} has a header but no rows")
    return cells


def read_loose(body: bytes, shown: str, names: Sequence[str]) -> Cells:
    """Read the cells of text without a header, leaving out lines that are no rows."""
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
                    use_threads=False,  # rows have numbers then
                    block_size=min(len(body) + 2, 2**31 - 1),  # no cell is cut in two
                ),
                parse_options=arrow().csv.ParseOptions(
                    delimiter=delimiter,
                    newlines_in_values=True,
                    invalid_row_handler=handle,
                ),
                convert_options=arrow().csv.ConvertOptions(
                    column_types=dict.fromkeys(places, arrow().string())
                ),
            )
        except arrow().ArrowException as error:
            reason = printable(" ".join(str(error).split()))
            raise TableError(f"{shown} cannot be read as CSV: {reason}") from None
        columns = [table.column(place) for place in places]
    if len(names) == 1:  # where a line of spaces is a row
        columns = [columns[0].filter(arrow().array(trimmed(columns[0]) != ""))]
    return Cells(shown, body, start, names, delimiter, columns)


def trimmed(column: Any) -> NDArray[Any]:
    """Return the texts of an Arrow column without the spaces around them."""
    return np.asarray(arrow().compute.utf8_trim_whitespace(column).to_numpy(), object)


def _read_header(body: bytes, shown: str, point: str | None) -> tuple[int, int, list[str], str]:
    """Return where the names begin and end, the names, and the delimiter that occurs most."""
    filled = _FILLED.search(body)
    begin = filled.start() if filled else len(body)
    told = re.match(rb'"?sep=(.)"?\r?\n', body[begin : begin + 20])  # Excel's first line
    if told:
        begin += told.end()
    if not _FILLED.search(body, begin):
        raise TableError(f"{shown} is empty: expected a line of column names, then rows")
    first = end = _line_end(body, begin)
    left_open = body.count(b'"', begin, end) % 2
    while left_open and end < len(body):  # a line break within quotes
        further = _line_end(body, end)
        left_open ^= body.count(b'"', end, further) % 2
        end = further
    if left_open:  # a quote that is a letter, or one never closed
        end = first
    text = body[begin:end].decode()
    delimiter = find_delimiter(re.sub(r'"[^"]*"', "", text), point)
    if told and told[1] != b'"':
        delimiter = told[1].decode()
    _check_quotes(body, begin, shown, delimiter, end)
    if end == len(body) and text[-1] not in "\r\n":
        raise TableError(f"{shown} has a header but no rows")
    cells = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    return begin, end, [re.sub(r"\s*[\r\n]+\s*", " ", name.strip()) for name in cells], delimiter


def find_delimiter(text: str, point: str | None) -> str:
    """Return the delimiter that occurs most, but a comma only where it is no decimal point."""
    others = max(DELIMITERS[1:], key=text.count)
    cells = text.split(others)
    if len(cells) > 1 and (
        point == "," or all(as_number(cell.strip(), ",") is not None for cell in cells)
    ):
        return others
    return max(DELIMITERS, key=text.count)


_LINE_END = re.compile(rb"\r\n|\n|\r")
_FILLED = re.compile(rb"[^ \r\n]")


def _line_end(body: bytes, start: int) -> int:
    found = _LINE_END.search(body, start)
    return found.end() if found else len(body)


def _check_quotes(
    body: bytes, start: int, shown: str, delimiter: str, stop: int | None = None
) -> None:
    """Raise for a quoted value that never ends, or takes several lines and ends within a value."""
    field = re.compile(
        rb"(?:\A|(?<=[\r\n%b]))\"(?P<in>[^\"]*+(?:\"\"[^\"]*+)*+)(?P<end>\"?)(?P<rest>[^%b\r\n]{0,20})"
        % ((re.escape(delimiter.encode()),) * 2)
    )
    for found in field.finditer(body, start) if body.find(b'"', start) >= 0 else ():
        if stop is not None and found.start() >= stop:
            return
        if not found["end"]:
            line = line_of(body, found.start())
            raise TableError(f"{shown}, line {line}: a quote is opened here and never closed")
        if found["rest"].strip() and (b"\n" in found["in"] or b"\r" in found["in"]):
            line, last = line_of(body, found.start()), line_of(body, found.end("in"))
            raise TableError(
                f"{shown}, line {line}: a quote that is opened here is closed in line {last},"
                f" before {found['rest'].decode(errors='replace')!r}; expected a delimiter there"
            )


_PLAIN = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"


def typed(
    cells: Cells,
    place: int,
    also_missing: Sequence[str],
    point: str | None,
    form: Form | None = None,
) -> Inferred:
    """Return what a column is: by Arrow where all texts are plain, else by `infer`.

    Args:
      cells: of the file.
      place: of the column.
      also_missing: texts, in lower case, that stand for a missing value beside `MISSING`.
      point: the decimal point; None to find it out.
      form: how the column is written, which has a point of its own; None to find it out.
    """
    if form is not None:
        point = form.point or "."
    compute, column = arrow().compute, cells.columns[place]
    trim = compute.utf8_trim_whitespace(column)
    known = arrow().array(sorted(MISSING.union(also_missing)))
    missing = compute.is_in(compute.utf8_lower(trim), value_set=known)
    present = compute.if_else(missing, None, trim)
    values = _cast(present) if point != "," else None
    if values is not None:
        lost = tell_lost_digits(values, _integers_of(present))
        return Inferred(values, lost, Form("numbers", _point_seen(present)))
    values = _cast_commas(present, sure=point == ",") if point != "." else None
    if values is not None:
        commas = compute.match_substring(present.fill_null(""), ",").to_numpy()
        row, note = int(np.argmax(commas)), ""
        if commas[row] and not point:
            note = say_how(present[row].as_py(), values[row], COMMA)
        return Inferred(values, note, Form("numbers", ","))
    moments = _cast_dates(present) if form is None or form.order != "zone" else None
    if moments is not None:
        return Inferred(moments, form=Form("dates", order="iso"))

    def where(row: int) -> str:
        return f"in line {cells.line(row)}"

    found = _cast_but_few(present, where) if point != "," else None
    if found is not None:
        return found
    texts = np.asarray(present.fill_null("").to_numpy(), object)
    return infer(texts, point=point, form=form, where=where)


def _point_seen(present: Any) -> str:
    """Return the decimal point of numbers that are plain, nothing if none of them shows it."""
    compute = arrow().compute
    return "." if compute.any(compute.match_substring(present, ".")).as_py() else ""


def _cast(present: Any) -> NDArray[np.float64] | None:
    """Return texts as numbers if all are, None if not."""
    try:
        numbers = arrow().compute.cast(present, arrow().float64())
    except arrow().ArrowInvalid:
        return None
    return np.asarray(numbers.to_numpy(), np.float64)


def _cast_but_few(present: Any, where: Callable[[int], str]) -> Inferred | None:
    """Return numbers as `infer` does, of texts nearly all plain; None for any others."""
    plain = arrow().compute.match_substring_regex(present, _PLAIN)
    odd = np.flatnonzero(~plain.fill_null(True).to_numpy())
    count = len(present) - present.null_count
    texts = present.take(arrow().array(odd)).to_pylist()
    if len(odd) > (1 - NEARLY_ALL) * count or any("," in text for text in texts):
        return None
    values = _cast(arrow().compute.if_else(plain, present, None))
    if values is None:
        return None
    values = values.copy()
    shown, missing = [], []
    for row, text in zip(odd.tolist(), texts, strict=True):
        value = as_number(text)
        if value is None:
            missing.append((row, text))
            continue
        values[row] = value
        shown += [] if is_number(text) else [say_how(text, value)]
    notes = shown[:1]
    if missing:
        row, text = missing[0]
        notes.append(say_odd(count - len(missing), count, "numbers", text, where(row)))
    lost = tell_lost_digits(values, _integers_of(present))
    notes += [lost] if lost else []
    return Inferred(values, "; ".join(notes), Form("numbers", _point_seen(present)))


def _integers_of(present: Any) -> Callable[[NDArray[np.intp]], list[int | None]]:
    """Return what gives the integers of rows."""

    def integers(rows: NDArray[np.intp]) -> list[int | None]:
        return [as_integer(text) for text in present.take(arrow().array(rows)).to_pylist()]

    return integers


def _cast_dates(present: Any) -> NDArray[Any] | None:
    """Return texts as dates if all are, as ISO writes them, None if not."""
    compute = arrow().compute
    if not compute.all(compute.match_substring_regex(present, f"^{ISO_DATE}$")).as_py():
        return None
    try:
        return in_seconds(compute.cast(present, arrow().timestamp("us")).to_numpy())
    except arrow().ArrowInvalid:  # there is no such day or time
        return None


def _cast_commas(present: Any, *, sure: bool) -> NDArray[np.float64] | None:
    """Return texts with decimal commas as numbers, unless the commas may be between thousands."""
    compute = arrow().compute
    if compute.any(compute.match_substring(present, ".")).as_py():
        return None
    thousands = r"^[-+]?[1-9][0-9]{0,2},[0-9]{3}$|^[^,]*$"
    if not sure and compute.all(compute.match_substring_regex(present, thousands)).as_py():
        return None
    return _cast(compute.replace_substring(present, ",", "."))
