"""Read table files as a whole: unpack, recognise the format, read, parse columns.

The notes of the `Frame` say how columns were read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._optional import require
from hgr_jax._texts import near_matches
from hgr_jax.tables.arrays import (
    ParsedColumn,
    as_numbers_in_days,
    parse_column,
)
from hgr_jax.tables.columns import Frame, add_note, name_columns
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.isolated import call_isolated
from hgr_jax.tables.layouts import find_footer, find_layout
from hgr_jax.tables.levels import Category, Unusable, encode_numbers, object_array
from hgr_jax.tables.meanings import IDENTIFIERS, missing_note
from hgr_jax.tables.other_files import read_arrow, read_json, read_sqlite
from hgr_jax.tables.packed import Contents, format_of, read_contents
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.statistics_files import STATISTICS_FORMATS, read_statistics_file
from hgr_jax.tables.text_columns import FIRST_ROWS, TextColumns, read_texts
from hgr_jax.tables.text_files import TextFile, open_text
from hgr_jax.tables.workbooks import sheet_of


def read_table(path: str | Path, reading: Reading | None = None, **options: Any) -> Frame:
    r"""Read a table from a file, as `scan` and the command line do.

    Where the names and the rows are, what separates them, and what a column of texts holds
    (numbers, dates, times, durations, text) is found out from all rows; ``notes`` of the result
    say what was not plain.  The guide "Files and tables" has the rules.

    Args:
      path: a CSV or other text file, a workbook (.xlsx, .ods), JSON, Parquet, Feather, SQLite,
        DuckDB, SPSS, Stata or SAS, perhaps packed (.gz, .bz2, .xz, .zip); ``-`` for standard input.
      reading: how to read it, where that cannot be found out.
      options: options of `Reading` by name, in place of ``reading``.

    Returns:
      A `Frame`, which `scan` takes as it is.

    Raises:
      ValueError: for a file that cannot be read, with the reason in one line; for an option that is
        none of `Reading`, a TypeError.
      ImportError: without the library of the format; it names the extra to install.

    Degenerate data: a column without any value is one of numbers, all missing.

    Example:
      >>> import pathlib, tempfile, hgr_jax
      >>> path = pathlib.Path(tempfile.mkdtemp(), "flats.csv")
      >>> rows = ["Flats, March", "", "area;rent", "23,5;1.522", "80,5;2.676", "54,9;n.a.", ""]
      >>> _ = path.write_text("\n".join(rows))
      >>> table = hgr_jax.read_table(path)
      >>> print(table.columns["area"], table.columns["rent"])
      [23.5 80.5 54.9] [1522. 2676.   nan]
      >>> print(table.notes["area"])
      '23,5' is read as 23.5 (a decimal comma)
    """
    if reading is not None and options:
        raise TypeError(f"reading and {next(iter(options))} were given: pass one of them.")
    known = [field.name for field in dataclasses.fields(Reading)]
    for option in options:
        if option not in known:
            raise TypeError(f"read_table has no option {option!r}{near_matches(option, known)}")
    if not str(path):
        raise TableError("the path of the table is empty")
    reading = reading or Reading(**options)
    contents = read_contents(Path(path))
    kind, shown = format_of(contents), contents.shown
    check_fits(kind, shown, reading)
    read = {"CSV": _read_text, "workbook": _read_sheet}.get(kind)
    frame = _read_columns(contents, kind, reading) if read is None else read(contents, reading)
    notes = dict(frame.notes)
    add_note(notes, shown, contents.note)
    return dataclasses.replace(frame, notes=notes)


def check_fits(kind: str, shown: str, reading: Reading) -> None:
    """Raise a `TableError` for a sheet or a table that a file of a format cannot have."""
    for option, kinds, what in (
        ("sheet", ("workbook",), "workbooks"),
        ("table", ("SQLite", "DuckDB", "JSON"), "databases and JSON"),
    ):
        if getattr(reading, option) is not None and kind not in kinds:
            raise TableError(f"{option} is for {what}: leave it out for {shown} ({kind})")


def _read_columns(contents: Contents, kind: str, reading: Reading) -> Frame:
    """Read a file that has columns of values: types of Arrow, or objects."""
    shown, typed = contents.shown, kind in ("Parquet", "Feather", "DuckDB")
    note, remarks = "", dict[str, str]()
    names: Sequence[Any]
    if kind in STATISTICS_FORMATS:
        names, columns, remarks = read_statistics_file(contents, kind)
    elif typed:
        names, columns, note = read_arrow(contents, kind, reading.table)
    elif kind == "SQLite":
        names, columns, note = read_sqlite(contents, reading.table)
    else:
        names, columns, note = read_json(contents, kind, reading)
    if not any(isinstance(column, Unusable) or len(column) for column in columns):
        raise TableError(f"{shown} holds no records")

    def where(row: int) -> str:
        return f"in record {row + 1}"

    # Programs write numbers in quotes, which pandas reads as numbers too; SQLite imports texts.
    return _parse_columns({shown: note, **remarks}, names, columns, reading, where, typed=typed)


def _read_sheet(contents: Contents, reading: Reading) -> Frame:
    shown = contents.shown
    require("python_calamine")
    sheet = call_isolated(sheet_of, contents.path, shown, reading.sheet, kind="a workbook")
    rows = sheet.rows[max(reading.skip - sheet.line + 1, 0) :]
    before = max(reading.skip + 1, sheet.line)
    width = max(map(len, rows), default=0)
    texts = [["" if cell is None else str(cell).strip() for cell in row] for row in rows]
    if not any(map(any, texts)):
        raise TableError(f"{shown} is empty: expected a row of column names, then rows")
    lines = [before + place for place in range(len(rows))]
    layout = find_layout(texts, lines, width, reading, shown)
    end, note = reading.footer or 0, ""
    if reading.footer is None:
        end, note = find_footer(texts[layout.first :], width, complete=True)
    places = [place for place in range(layout.first, len(rows) - end) if any(texts[place])]
    if not places:
        raise TableError(f"{shown} has a header but no rows")
    columns = [object_array([rows[place][column] for place in places]) for column in range(width)]

    def where(row: int) -> str:
        return f"in row {lines[places[row]]} of the sheet"

    remarks = "; ".join(filter(None, [*sheet.notes, *layout.notes, note]))
    return _parse_columns({shown: remarks}, layout.names, columns, reading, where, typed=True)


def _parse_columns(
    remarks: Mapping[str, str],
    old_names: Sequence[Any],
    values: Sequence[Any],
    reading: Reading,
    where: Callable[[int], str],
    *,
    typed: bool,
) -> Frame:
    """Parse the columns of a file whose values have types, or texts that may be ``typed``.

    ``remarks`` are on columns and on the file, which is the first of them.
    """
    names, notes = name_columns(old_names)
    given, shown, columns = dict(zip(names, values, strict=True)), next(iter(remarks)), {}
    for name in reading.chosen(shown, names):
        hints = dataclasses.replace(reading.hints(name, where), typed=typed)
        column = Unusable(IDENTIFIERS) if hints.type == "id" else given[name]
        found = parse_column(column, hints)
        if hints.type in ("category", "text") and isinstance(found.values, np.ndarray):
            numbers = as_numbers_in_days(found.values).astype(np.float64)
            found = found._replace(values=encode_numbers(numbers))
        columns[name] = found
    remarks = {name: said for name, said in remarks.items() if name == shown or name in columns}
    return make_frame(columns, notes, remarks, reading)


def _read_text(contents: Contents, reading: Reading) -> Frame:
    file = open_text(contents, reading)
    names, notes = names_of_text(file, reading)
    rows = file.first_rows(FIRST_ROWS)
    columns = {name: (f"c{i}", [row[i] for row in rows]) for i, name in enumerate(names)}
    remarks = dict[str, Sequence[str]]()

    def run(select: str) -> Any:
        table, found = file.table(select)
        remarks[found.shown] = found.notes
        return table

    def where(row: int) -> str:
        return f"in line {file.line(row)}"

    comma = file.dialect.delimiter == ","
    table = TextColumns(columns, run, file.holds(b"_"))
    return parse_texts(contents.shown, table, (notes, remarks), reading, where, comma=comma)


def names_of_text(file: TextFile, reading: Reading) -> tuple[list[str], dict[str, str]]:
    """Return the names of the columns of a text file, and notes on them."""
    layout = file.dialect.layout
    names, notes = name_columns(layout.names, told=layout.names_row is not None)
    for name in reading.columns:
        if (count := layout.names.count(name)) > 1:
            notes[name] = f"the first of {count} columns of this name"
    return names, notes


def parse_texts(
    shown: str,
    table: TextColumns,
    notes: tuple[Mapping[str, str], Mapping[str, Sequence[str]]],
    reading: Reading,
    where: Callable[[int], str],
    *,
    comma: bool,
) -> Frame:
    """Parse the columns of text files that are one table.

    ``notes`` are on columns by name, and remarks on files by their names; ``where`` words the place
    of a row; a ``comma`` between the values is no decimal point.
    """
    chosen = reading.chosen(shown, list(table.columns))
    # The columns of a file decide together what a comma is, unless it is between the values.
    deciding = chosen if comma else list(table.columns)
    hints = {name: reading.hints(name, where) for name in deciding}
    parsed, texts = read_texts(table, hints, chosen)
    of_columns, of_files = notes
    remarks = {file: "; ".join(found) for file, found in of_files.items()}
    remarks = {shown: "", **remarks}
    remarks[shown] = "; ".join(filter(None, [remarks[shown], missing_note(texts)]))
    return make_frame(parsed, of_columns, remarks, reading)


def make_frame(
    parsed: Mapping[str, ParsedColumn],
    notes: Mapping[str, str],
    remarks: Mapping[str, str],
    reading: Reading,
) -> Frame:
    """Return a frame of parsed columns; what is in `Reading.na` becomes missing.

    ``notes`` are on columns, ``remarks`` on columns and files, of which the first is the frame's.

    Raises:
      TableError: if no column can be used.
    """
    columns, skipped, said = dict[str, NDArray[Any]](), dict[str, str](), dict(notes)
    for name, (values, note, kind) in parsed.items():
        if isinstance(values, Unusable):
            skipped[name] = values.reason
            continue
        add_note(said, name, note)
        if isinstance(values, Category):
            levels = ["" if level.lower() in reading.na_texts else level for level in values.levels]
            values = object_array([*levels, ""])[values.codes]
        elif values.dtype.kind == "m":
            add_note(said, name, "a duration in days")
        if values.dtype != object and values.dtype.kind != "M":
            are_numbers = values.dtype.kind in "fiu" and kind in ("", "numbers")
            values = as_numbers_in_days(values).astype(np.float64, copy=False)
            if are_numbers and reading.missing_numbers:
                values = np.where(np.isin(values, reading.missing_numbers), np.nan, values)
        columns[name] = values
    shown = next(iter(remarks))
    if not columns:
        name, reason = next(iter(skipped.items()))
        raise TableError(f"{shown}: no column holds numbers or text; {name!r} holds {reason}")
    for name, remark in remarks.items():
        add_note(said, name, remark)
    files = remarks.keys() - parsed.keys()
    said = {name: note for name, note in said.items() if name in columns or name in files}
    return Frame(shown, columns, said, skipped)
