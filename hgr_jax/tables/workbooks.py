"""Read the rows of a sheet of a workbook, .xlsx, .xlsm or .ods, by calamine.

Not .xls and .xlsb: damaged ones end the process there.
"""

from __future__ import annotations

import datetime
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hgr_jax._optional import require
from hgr_jax._texts import counted
from hgr_jax.tables.faults import TableError, listed, printable

SheetRows = list[list[Any]]

_FORMULA = re.compile(rb"<f\b[^>]*?(?:/>|>[^<]*</f>)\s*(?:<v\s*/>|<v>([^<]*)</v>)?")


class Sheet(NamedTuple):
    """The rows of a sheet.

    Attributes:
      rows: rows of equal length; a blank cell, or one with an error, is None.
      line: the row of the sheet, from 1, that is the first of them.
      notes: which sheet it is, and what is to be known of it.
    """

    rows: SheetRows
    line: int = 1
    notes: tuple[str, ...] = ()


def sheet_of(path: Path, shown: str, wanted: str | int | None) -> Sheet:
    """Read the rows of a sheet of a workbook, without the blank ones and columns around the table.

    If none is ``wanted`` it is the first sheet with a table (`_holds_table`).
    """
    workbook = require("python_calamine").load_workbook(str(path))
    sheets = [sheet for sheet in workbook.sheets_metadata if "WorkSheet" in str(sheet.typ)]
    if not sheets:
        raise TableError(f"{shown} is a workbook without a sheet of cells")
    hidden = {sheet.name for sheet in sheets if "Hidden" in str(sheet.visible)}
    names = sorted((sheet.name for sheet in sheets), key=hidden.__contains__)
    chosen = names if wanted is None else [_chosen_sheet(names, wanted, shown)]
    first, found = "", None
    for name in chosen:
        sheet = _rows_of(workbook, name)
        is_table = _holds_table(sheet.rows)
        if is_table or (sheet.rows and found is None):
            first, found = name, sheet
        if is_table:
            break
    if found is None:
        return Sheet([])
    notes = list(found.notes)
    if wanted is None and len(names) > 1:
        sheets_listed = printable(listed(names, 10).replace("'", ""))
        notes.insert(
            0, f"sheet {printable(repr(first))} is read, of {sheets_listed}; --sheet names another"
        )
    return found._replace(notes=(*notes, *_formulas_of(path)))


def _chosen_sheet(names: Sequence[str], sheet: str | int, shown: str) -> str:
    """Return the name of a sheet that is given by name, or by its position from 1."""
    if sheet in names:
        return str(sheet)
    if str(sheet).isdecimal() and 1 <= int(sheet) <= len(names):
        return names[int(sheet) - 1]
    raise TableError(
        f"{shown} has no sheet {printable(repr(sheet))}; there are {printable(listed(names, 20))}"
    )


def _rows_of(workbook: Any, name: str) -> Sheet:
    """Return the filled rows and columns of a sheet."""
    sheet = workbook.get_sheet_by_name(name)
    if sheet.start is None:
        return Sheet([])
    rows = [list(map(_value, row)) for row in sheet.to_python()]
    _fill_merged(rows, sheet.start, sheet.merged_cell_ranges or ())
    filled = [place for place, row in enumerate(rows) if any(cell is not None for cell in row)]
    if not filled:
        return Sheet([])
    rows = rows[filled[0] : filled[-1] + 1]
    columns = [any(cell is not None for cell in column) for column in zip(*rows, strict=True)]
    left, right = columns.index(True), len(columns) - columns[::-1].index(True)
    line = sheet.start[0] + filled[0] + 1
    notes = (f"the table begins in row {line}",) if line > 1 else ()
    return Sheet([row[left:right] for row in rows], line, notes)


def _fill_merged(rows: SheetRows, start: tuple[int, int], merges: Sequence[Any]) -> None:
    """Fill cells that are merged down with their value; those across are a title or a group."""
    for (first, left), (last, _) in merges:
        first, last, left = first - start[0], last - start[0], left - start[1]
        for row in rows[first + 1 : last + 1] if first >= 0 and left >= 0 else ():
            row[left] = rows[first][left]


def _value(value: Any) -> Any:
    """Return a cell as the reader of columns expects it."""
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if type(value) is datetime.date:  # beside moments in one column
        return datetime.datetime(value.year, value.month, value.day)
    return value


def _holds_table(rows: SheetRows) -> bool:
    """Return whether rows are a table: 2 columns, 3 rows, a column mostly of numbers or dates.

    Texts beside 1, 2, 3 are notes.
    """
    for cells in zip(*rows, strict=True) if len(rows) > 2 and len(rows[0]) > 1 else ():
        column = [cell for cell in cells if cell is not None]
        numbers = [v for v in column if isinstance(v, int | float | datetime.datetime)]
        are_notes = len(rows[0]) == 2 and numbers == [*range(1, len(numbers) + 1)]
        if len(column) > 2 and 2 * len(numbers) > len(column) and not are_notes:
            return True
    return False


def _formulas_of(path: Path) -> list[str]:
    """Return a note on formulas without a value, or with 0, which no spreadsheet has computed."""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if re.search(r"sheet\d*\.xml$", name)]
        values = [v for name in names for v in _FORMULA.findall(archive.read(name))]
    blank = sum(value in (b"", b"0") for value in values)
    if blank < max(3, len(values) / 2):
        return []
    said = f"{counted(blank, 'formula')} without a value or with 0"
    return [f"{said}: if no spreadsheet has computed them, open the workbook and save it once"]
