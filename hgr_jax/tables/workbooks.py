"""Read the rows of a sheet of a workbook, .xlsx, .xlsm or .ods, by calamine.

Not .xls and .xlsb: damaged ones end the process there.
"""

from __future__ import annotations

import datetime
import html
import io
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any
from xml.parsers import expat

from hgr_jax._optional import require
from hgr_jax.tables.faults import TableError, listed, printable, unreadable
from hgr_jax.tables.packed import (
    check_unpacked_size,
    explaining_packing_errors,
    unpacked_limit,
)
from hgr_jax.tables.reading import Reading

MAX_CELLS = 2**27
"""Largest number of cells, blank ones too, from the first cell of a sheet to the last."""

HEAD_ROWS = 10
"""Rows at the top of a table in which cells that are merged across columns get their value."""

SheetRows = list[list[Any]]

Merge = tuple[tuple[int, int], tuple[int, int]]
"""First and last row and column of merged cells."""


def sheet_rows(body: bytes, shown: str, reading: Reading) -> tuple[SheetRows, str]:
    """Read the rows of a sheet of a workbook, and a note on which sheet it is.

    Rows are of equal length, without the blank rows and columns around the table; a blank cell, or
    one with an error, is None.  Cells that are merged across columns have their value in each of
    them if they are in the first `HEAD_ROWS` and narrower than the table, those merged across rows
    everywhere.  Without ``reading.sheet`` it is the first sheet with a table (`_holds_table`).
    """
    workbook = _open(body, shown)
    names = _worksheets(workbook, shown)
    if reading.sheet is not None:
        name = _chosen_sheet(names, reading.sheet, shown)
        return _rows_of(workbook, name, body, shown)[0], ""
    first: tuple[str, SheetRows, str] | None = None
    for name in names:
        rows, place = _rows_of(workbook, name, body, shown)
        is_table = _holds_table(rows)
        if is_table or (rows and first is None):
            first = name, rows, place
        if is_table:
            break
    if first is None:
        return [], ""
    name, rows, place = first
    notes = []
    if len(names) > 1:
        sheets = listed(names, 10).replace("'", "")
        notes.append(
            f"sheet {printable(repr(name))} is read{place}, of {printable(sheets)}; --sheet names"
            " another"
        )
    elif place:
        notes.append(f"the sheet is read{place}")
    return rows, "; ".join(notes)


def _open(body: bytes, shown: str) -> Any:
    calamine = require("python_calamine")
    _check_sizes(body, shown)
    return _calling(lambda: calamine.load_workbook(io.BytesIO(body)), shown)


def _calling(read: Callable[[], Any], shown: str) -> Any:
    """Return what a function of calamine returns; its errors are a `TableError` of one line."""
    try:
        return read()
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # calamine's panics are no Exceptions
        raise unreadable(shown, "a workbook", error) from None


_FILLED_CELL = re.compile(rb"\br=[\"']([A-Za-z]{1,3})(\d{1,7})[\"'][^<>]*[^/<>]>\s*<(?:\w+:)?[fvi]")
"""A cell of an XML sheet that is not blank: its column and row."""


def _check_sizes(body: bytes, shown: str) -> None:
    """Raise a `TableError` for a workbook of XML that would fill the memory, or take for ever.

    In .xlsx calamine makes room for all cells up to the last one, and ends the process where it
    can't; in .ods it waits for ever for the end of an element that has none.
    """
    with explaining_packing_errors(shown), zipfile.ZipFile(io.BytesIO(body)) as archive:
        size = sum(info.file_size for info in archive.infolist())
        check_unpacked_size(size, unpacked_limit(body), shown)
        for name in archive.namelist():
            if name == "content.xml":
                with archive.open(name) as content:
                    _check_xml(content, shown)
            if not name.endswith(".xml"):
                continue
            width = height = 0
            for cells in _filled_cells(archive, name):
                width = max(width, max(map(_column_number, {column for column, _ in cells})))
                height = max(height, max(int(row) for row in {row for _, row in cells}))
            if width * height > MAX_CELLS:
                raise TableError(
                    f"{shown}: a sheet has cells down to row {height:,} and across to column"
                    f" {width:,}, more than {MAX_CELLS:,} with the blank ones between: remove cells"
                    " that are far from the table, or save the table as CSV"
                )


def _check_xml(file: IO[bytes], shown: str) -> None:
    try:
        expat.ParserCreate().ParseFile(file)
    except expat.ExpatError as error:
        raise TableError(f"{shown} cannot be read as a workbook: {error}") from None


def _filled_cells(archive: zipfile.ZipFile, name: str) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield columns and rows of the filled cells of an XML sheet, block by block."""
    last = b""
    with archive.open(name) as file:
        while block := file.read(2**22):
            if cells := _FILLED_CELL.findall(last + block):
                yield cells
            last = block[-1000:]  # a cell that is cut in two


def _column_number(letters: bytes) -> int:
    number = 0
    for letter in letters.upper():
        number = 26 * number + letter - ord("A") + 1
    return number


def _worksheets(workbook: Any, shown: str) -> list[str]:
    """Return the names of the sheets of cells, those that are hidden last."""
    sheets = [sheet for sheet in workbook.sheets_metadata if "WorkSheet" in str(sheet.typ)]
    if not sheets:
        raise TableError(f"{shown} is a workbook without a sheet of cells")
    hidden = {sheet.name for sheet in sheets if "Hidden" in str(sheet.visible)}
    return sorted((sheet.name for sheet in sheets), key=hidden.__contains__)


def _chosen_sheet(names: Sequence[str], sheet: str | int, shown: str) -> str:
    """Return the name of a sheet that is given by name, or by its position from 1."""
    if sheet in names:
        return str(sheet)
    if str(sheet).isdecimal() and 1 <= int(sheet) <= len(names):
        return names[int(sheet) - 1]
    raise TableError(
        f"{shown} has no sheet {printable(repr(sheet))}; there are {printable(listed(names, 20))}"
    )


def _rows_of(workbook: Any, name: str, body: bytes, shown: str) -> tuple[SheetRows, str]:
    """Return the rows of a sheet, and the cell where they begin if it is not the first."""
    sheet = _calling(lambda: workbook.get_sheet_by_name(name), shown)
    if sheet.start is None:
        return [], ""
    rows = [list(map(_value, row)) for row in _calling(sheet.to_python, shown)]
    row, column = sheet.start
    merges = sheet.merged_cell_ranges
    if merges is None:  # of .ods
        merges = _ods_merges(body, name)
    _fill_merged(
        rows, [((a - row, b - column), (c - row, d - column)) for (a, b), (c, d) in merges]
    )
    return _trimmed(rows, (row, column))


def _value(value: Any) -> Any:
    """Return a cell as the reader of columns expects it."""
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if type(value) is datetime.date:  # beside moments in one column
        return datetime.datetime(value.year, value.month, value.day)
    return value


def _fill_merged(rows: SheetRows, merges: Sequence[Merge]) -> None:
    """Fill merged cells with their value."""
    if not rows:
        return
    filled = [place for place, row in enumerate(rows) if any(cell is not None for cell in row)]
    top = filled[0] if filled else 0
    for (first, left), (last, right) in merges:
        if not (0 <= first < len(rows) and 0 <= left < len(rows[0])):
            continue
        is_head = first - top < HEAD_ROWS and right - left + 1 < len(rows[0])
        for row in rows[first : last + 1]:
            width = right - left + 1 if is_head else 1
            row[left : left + width] = [rows[first][left]] * len(row[left : left + width])


def _trimmed(rows: SheetRows, start: tuple[int, int]) -> tuple[SheetRows, str]:
    """Remove the blank rows and columns around a table; say where it begins, if not in A1."""
    filled = [place for place, row in enumerate(rows) if any(cell is not None for cell in row)]
    if not filled:
        return [], ""
    rows = rows[filled[0] : filled[-1] + 1]
    columns = [any(cell is not None for cell in column) for column in zip(*rows, strict=True)]
    left, right = columns.index(True), len(columns) - columns[::-1].index(True)
    row, column = start[0] + filled[0], start[1] + left
    place = f" from cell {_letters(column)}{row + 1}" if row or column else ""
    return [row[left:right] for row in rows], place


def _letters(column: int) -> str:
    """Return the letters of a column, from 0."""
    text = ""
    while column >= 0:
        text = chr(ord("A") + column % 26) + text
        column = column // 26 - 1
    return text


def _holds_table(rows: SheetRows) -> bool:
    """Return whether rows are a table: 2 columns, 3 rows, a column mostly of numbers or dates."""
    if len(rows) < 3 or len(rows[0]) < 2:
        return False
    values = ([cell for cell in column if cell is not None] for column in zip(*rows, strict=True))
    return any(
        len(column) >= 3
        and 2 * sum(isinstance(v, int | float | datetime.datetime) for v in column) > len(column)
        for column in values
    )


_ODS_TAG = re.compile(
    rb"<(?:table:(?P<kind>table|table-row|table-cell|covered-table-cell))(?P<options>(?:\s[^>]*?)?)/?>"
)
_ODS_OPTION = re.compile(
    rb"(name|number-rows-repeated|number-columns-repeated|number-rows-spanned|number-columns-spanned)"
    rb"=[\"']([^\"']*)"
)


def _ods_merges(body: bytes, name: str) -> Iterator[Merge]:
    """Yield the merged cells of a sheet of an .ods file, which calamine does not tell."""
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        content = archive.read("content.xml")
    if b"-spanned=" not in content:
        return
    row = column = 0
    repeat, is_sheet = 1, False
    for tag in _ODS_TAG.finditer(content):
        option = dict(_ODS_OPTION.findall(tag["options"]))
        if tag["kind"] == b"table":
            is_sheet = html.unescape(option.get(b"name", b"").decode(errors="replace")) == name
            row, repeat = 0, 0
        elif tag["kind"] == b"table-row":
            row, column = row + repeat, 0
            repeat = int(option.get(b"number-rows-repeated", 1))
        else:
            down = int(option.get(b"number-rows-spanned", 1))
            across = int(option.get(b"number-columns-spanned", 1))
            if is_sheet and (down > 1 or across > 1):
                yield (row, column), (row + down - 1, column + across - 1)
            column += int(option.get(b"number-columns-repeated", 1))
