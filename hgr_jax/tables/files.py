"""Read table files as a whole: unpack, recognise the format, read, parse columns.

The notes of the `Frame` say how columns were read.
"""

from __future__ import annotations

import bz2
import contextlib
import dataclasses
import gzip
import io
import json
import lzma
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._optional import require
from hgr_jax.tables.arrow_columns import parse_present, present_texts
from hgr_jax.tables.columns import (
    Category,
    Frame,
    Parsing,
    Unusable,
    add_note,
    as_frame,
    as_numbers_in_days,
    from_frame,
    holds_texts,
    name_columns,
    object_array,
    parse_column,
)
from hgr_jax.tables.delimited import arrow, as_utf8, read_cells, read_headless_cells, trimmed
from hgr_jax.tables.faults import TableError, listed, printable
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.texts import Form, header_kind, is_number

READABLE = "CSV, Parquet, Feather, JSON or .xlsx, or one of these in .gz or .zip"

FORMATS = {
    **dict.fromkeys((".parquet", ".pq"), "Parquet"),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "Feather"),
    **dict.fromkeys((".jsonl", ".ndjson"), "JSON lines"),
    ".json": "JSON",
    **dict.fromkeys((".xlsx", ".xlsm"), "Excel"),
}
"""Formats by the ending of the name; other files are CSV, unless their first bytes differ."""

_FORMAT_BY_FIRST_BYTES = {b"PAR1": "Parquet", b"ARROW1": "Feather", b"FEA1": "Feather"}

_UNREADABLE = {
    b"\xd0\xcf\x11\xe0": "an old Excel file (.xls); save it as .xlsx or CSV",
    b"SQLite format 3": "an SQLite database; export the table as CSV",
    b"\x89HDF": "an HDF5 file; export the table as CSV or Parquet",
    b"%PDF": f"a PDF file; expected {READABLE}",
    b"\x89PNG": f"a picture; expected {READABLE}",
    b"\x80\x04": f"a Python pickle; expected {READABLE}",
    b"\x93NUMPY": f"a NumPy array; expected {READABLE}",
    b"$FL2": "an SPSS file; export the table as CSV",
    b"RDX": "an R file; export the table as CSV",
    b"\x28\xb5\x2f\xfd": "compressed by Zstandard; unpack it",
    **dict.fromkeys((b"<!DOCTYPE", b"<html", b"<?xml"), f"a page or XML; expected {READABLE}"),
    b"7z\xbc\xaf": "a 7z archive; unpack it",
}


def check_readable(path: Path) -> None:
    """Raise a `TableError` if a file does not exist or cannot be read."""
    if str(path) != "-" and not path.is_fifo():  # a pipe can be read only once
        with _explaining_read_errors(printable(str(path))), path.open("rb"):
            pass


def read_bytes(path: Path) -> tuple[bytes, str, str]:
    """Return the unpacked contents of a file, its name, and its printable name.

    Unpacks ``.gz``, ``.bz2``, ``.xz``, and a ``.zip`` of one file; ``-`` is standard input.
    """
    if str(path) == "-":
        body, name, shown = sys.stdin.buffer.read(), "", "standard input"
    else:
        name, shown = path.name, printable(str(path))
        with _explaining_read_errors(shown):
            body = path.read_bytes()  # in one go: it may be a pipe
    try:
        for first, unpack in (
            (b"\x1f\x8b", gzip.decompress),
            (b"BZh", bz2.decompress),
            (b"\xfd7zXZ\0", lzma.decompress),
        ):
            if body.startswith(first):
                return unpack(body), PurePath(name).stem, shown
        if body.startswith(b"PK\x03\x04") and _excel_sheets(body) is None:
            body, name = _only_member(body, shown)
    except (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError) as e:
        raise TableError(f"{shown} cannot be unpacked: {printable(str(e))}") from None
    return body, name, shown


@contextlib.contextmanager
def _explaining_read_errors(shown: str) -> Iterator[None]:
    """Turn errors of reading a file into a `TableError` of one line."""
    try:
        yield
    except FileNotFoundError:
        raise TableError(f"no such file: {shown}") from None
    except OSError as error:
        raise TableError(f"cannot read {shown}: {error.strerror}") from None


def _excel_sheets(body: bytes) -> int | None:
    """Count the sheets of an Excel file; None for any other archive."""
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        names = archive.namelist()
    if "xl/workbook.xml" not in names:
        return None
    return sum(name.startswith("xl/worksheets/sheet") for name in names)


def _only_member(body: bytes, shown: str) -> tuple[bytes, str]:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        members = [
            name
            for name in archive.namelist()
            if not name.endswith("/") and not name.startswith("__MACOSX/")
        ]
        if len(members) != 1:
            raise TableError(
                f"{shown} holds {len(members)} files, {printable(listed(members, 4))};"
                " expected one: unpack it"
            )
        return archive.read(members[0]), members[0]


def format_of(body: bytes, name: str, shown: str) -> str:
    """Return one of the `FORMATS`, or ``"CSV"``; a `TableError` for other formats."""
    for first, kind in _FORMAT_BY_FIRST_BYTES.items():
        if body.startswith(first):
            return kind
    if body.startswith(b"PK\x03\x04") and _excel_sheets(body) is not None:
        return "Excel"
    for first, what in _UNREADABLE.items():
        if body.startswith(first):
            raise TableError(f"{shown} is {what}")
    kind = FORMATS.get(PurePath(name).suffix.lower(), "CSV")
    start = body[:1000].lstrip(b"\xef\xbb\xbf \r\n\t")
    return "JSON" if kind == "CSV" and start.startswith((b'{"', b'[{"')) else kind


def read_arrow(body: bytes, kind: str, shown: str) -> Any:
    """Read a Parquet or Feather file as an Arrow table."""
    reader = require("pyarrow.parquet" if kind == "Parquet" else "pyarrow.feather", "cli")
    source = arrow().BufferReader(body)
    try:
        if kind == "Parquet":
            with reader.ParquetFile(source) as file:
                return file.read()
        return reader.read_table(source)
    except (OSError, arrow().ArrowException) as error:
        reason = printable(" ".join(str(error).split()))
        raise TableError(f"{shown} cannot be read as {kind}: {reason}") from None


def read_json(body: bytes, kind: str, shown: str) -> tuple[dict[str, NDArray[Any]], str]:
    """Read JSON as columns of objects, with a note on the encoding.

    The file holds a list of records, one record a line, or columns by name.
    """
    body, note = as_utf8(body, shown)
    try:
        return _json_columns(_parse_json(body.decode(), kind, shown), shown), note
    except RecursionError:
        raise TableError(f"{shown}: its values are nested too deeply") from None


def _parse_json(text: str, kind: str, shown: str) -> Any:
    if kind == "JSON":
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            if not error.msg.startswith("Extra data"):
                raise TableError(f"{shown}, line {error.lineno}: not JSON: {error.msg}") from None
    records = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError as error:
                reason = f"not JSON: {error.msg}"
                raise TableError(f"{shown}, line {number}: {reason}") from None
    return records


def _json_columns(content: Any, shown: str) -> dict[str, NDArray[Any]]:
    """Return the columns of parsed JSON."""
    if isinstance(content, Mapping) and isinstance(content.get("data"), list):
        content = content["data"]
    if isinstance(content, Mapping) and content:
        columns = list(content.values())
        if all(isinstance(column, list) for column in columns):
            if len({len(column) for column in columns}) > 1:
                raise TableError(f"{shown}: its columns are of different lengths")
            return {name: object_array(column) for name, column in content.items()}
        if all(isinstance(column, Mapping) for column in columns):  # as pandas writes them
            rows = list(dict.fromkeys(row for column in columns for row in column))
            return {n: object_array([column.get(r) for r in rows]) for n, column in content.items()}
        content = [content]
    if not isinstance(content, list) or not all(isinstance(row, Mapping) for row in content):
        raise TableError(
            f'{shown}: expected records, as in [{{"x": 1}}, {{"x": 2}}], or one a line'
        )
    names = list(dict.fromkeys(name for record in content for name in record))
    return {name: object_array([record.get(name) for record in content]) for name in names}


def read_excel(body: bytes, shown: str) -> tuple[list[list[Any]], str]:
    """Read the rows of the first sheet that are not blank, with a note on further sheets."""
    require("openpyxl", "excel")
    pandas = require("pandas", "table")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # openpyxl warns of styles and validation it skips
            sheet = pandas.read_excel(
                io.BytesIO(body), header=None, dtype=object, na_filter=False, engine="openpyxl"
            )
    except Exception as error:  # a damaged archive may raise anything
        reason = printable(" ".join(str(error).split()))
        raise TableError(f"{shown} cannot be read as Excel: {reason}") from None
    rows = [row for row in sheet.to_numpy(object).tolist() if any(cell != "" for cell in row)]
    sheets = _excel_sheets(body) or 1
    return rows, f"the first of its {sheets} sheets is read" if sheets > 1 else ""


def read_any(path: str | Path, reading: Reading | None = None) -> Frame:
    """Read a table from a file: CSV, Parquet, Feather, JSON or Excel, perhaps packed.

    Columns without a name, or with a repeated one, are renamed (`unique_names`).  Texts are parsed
    by `infer`, in a typed file by `parse_column`; notes say how texts that are not plain were read.

    Args:
      path: the file; ``-`` for standard input.
      reading: how to read it.

    Raises:
      TableError: for a file that cannot be read, with the reason in one line.
      ImportError: without pyarrow; for Excel without openpyxl.
    """
    reading = reading or Reading()
    body, name, shown = read_bytes(Path(path))
    kind = format_of(body, name, shown)
    if kind == "CSV":
        return _read_text(body, shown, reading)
    if kind in ("Parquet", "Feather"):
        table = read_arrow(body, kind, shown)
        if not table.num_rows or not table.num_columns:
            raise TableError(f"{shown} has {table.num_rows} rows and {table.num_columns} columns")
        frame, names = as_frame(table)
        return _parse_typed_columns(
            shown, names, lambda i: from_frame(frame, i), reading, "in row {}".format
        )
    if kind == "Excel":
        return _read_sheet(body, shown, reading)
    columns, remark = read_json(body, kind, shown)
    if not columns or not len(next(iter(columns.values()))):
        raise TableError(f"{shown} holds no records")
    values = list(columns.values())

    def where(row: int) -> str:
        return f"in record {row + 1}"

    # Programs write numbers in quotes; pandas reads them as numbers too.
    frame = _parse_typed_columns(
        shown, list(columns), values.__getitem__, reading, where, numbers_in_text=True
    )
    return dataclasses.replace(frame, notes={**frame.notes, shown: remark}) if remark else frame


def read_publication(
    path: Path, names: Sequence[str], *, encoding: str = "utf8"
) -> dict[str, NDArray[Any]]:
    """Read the texts of a CSV file without a header, skipping lines of another length."""
    body, _, shown = read_bytes(path)
    cells = read_headless_cells(body.decode(encoding).encode(), shown, names)
    return dict(zip(names, map(trimmed, cells.columns), strict=True))


def _parse_typed_columns(
    shown: str,
    old_names: Sequence[Any],
    column: Callable[[int], Any],
    reading: Reading,
    where: Callable[[int], str],
    *,
    numbers_in_text: bool = False,
) -> Frame:
    """Parse the columns of a file whose values have types."""
    names, notes = name_columns(old_names)
    columns, skipped, forms = {}, {}, {}
    missing = reading.missing_texts
    places = {name: place for place, name in enumerate(names)}
    for name in reading.chosen(shown, names):
        parsing = Parsing(reading.decimal, reading.forms.get(name), missing, where, numbers_in_text)
        values, note, form = parse_column(column(places[name]), parsing)
        if isinstance(values, Unusable):
            skipped[name] = values.reason
            continue
        if isinstance(values, Category):
            levels = ["" if level.lower() in missing else level for level in values.levels]
            values = object_array([*levels, ""])[values.codes]
        columns[name] = values
        if form:
            forms[name] = form
        if note:
            add_note(notes, name, note)
    if not columns:
        name, reason = next(iter(skipped.items()))
        raise TableError(f"{shown}: no column holds numbers or text; {name!r} holds {reason}")
    return _as_frame(shown, columns, forms, notes, skipped, reading)


def _read_sheet(body: bytes, shown: str, reading: Reading) -> Frame:
    rows, remark = read_excel(body, shown)
    if not rows:
        raise TableError(f"{shown} is empty: expected a row of column names, then rows")
    names = [str(cell).strip() for cell in rows[0]]
    notes, header = _check_header(names, reading.header)
    if remark:
        add_note(notes, shown, remark)
    names = names if header else [""] * len(names)
    rows = rows[1:] if header else rows
    if not rows:
        raise TableError(f"{shown} has a header but no rows")
    columns = [object_array(column) for column in zip(*rows, strict=True)]
    first = 2 if header else 1
    frame = _parse_typed_columns(
        shown, names, columns.__getitem__, reading, lambda row: f"in row {row + first} of the sheet"
    )
    return dataclasses.replace(frame, notes={**frame.notes, **notes})


def _read_text(body: bytes, shown: str, reading: Reading) -> Frame:
    body, remark = as_utf8(body, shown)
    cells = read_cells(body, shown, header=reading.header, point=reading.point)
    names, notes, header = header_names(cells.header, reading)
    if header != reading.header:
        cells = read_cells(body, shown, header=False, point=reading.point)
    if header:
        for name in reading.columns:
            if cells.header.count(name) > 1:
                notes[name] = f"the first of {cells.header.count(name)} columns of this name"
        is_value = map(has_text, cells.columns, cells.header)
        if doubt := doubtful_name_note(cells.header, is_value):
            notes[""] = doubt
    notes = {shown if name == "" else name: note for name, note in notes.items()}
    if remark:
        add_note(notes, shown, remark)
    positions = {name: position for position, name in enumerate(names)}
    texts = {
        name: present_texts(cells.columns[positions[name]], reading.missing_texts)
        for name in reading.chosen(shown, names)
    }

    def where(row: int) -> str:
        return f"in line {cells.line(row)}"

    columns = {
        name: parse_present(column, reading.decimal, reading.forms.get(name), where)
        for name, column in texts.items()
    }
    if any(column.form and column.form.point == "," for column in columns.values()):
        for name, column in columns.items():
            if column.ambiguous:  # a file has one decimal point
                columns[name] = parse_present(texts[name], ",", None, where)
    for name, column in columns.items():
        if column.note:
            add_note(notes, name, column.note)
    forms = {name: column.form for name, column in columns.items() if column.form}
    values = {name: column.values for name, column in columns.items()}
    return _as_frame(shown, values, forms, notes, {}, reading)


def _as_frame(
    shown: str,
    parsed: Mapping[str, NDArray[Any]],
    forms: Mapping[str, Form],
    notes: dict[str, str],
    skipped: Mapping[str, str],
    reading: Reading,
) -> Frame:
    """Return a frame of parsed columns; numbers in `Reading.na` become missing."""
    columns, all_forms = {}, {}
    point = "," if any(form.point == "," for form in forms.values()) else "."
    for name, values in parsed.items():
        if not holds_texts(values):
            form = forms.get(name, Form("dates" if values.dtype.kind == "M" else "numbers"))
            no_point = form.kind == "numbers" and not form.point
            all_forms[name] = dataclasses.replace(form, point=point) if no_point else form
            if values.dtype.kind != "M":
                values = as_numbers_in_days(values).astype(np.float64)
                if reading.missing_numbers:
                    values = np.where(np.isin(values, reading.missing_numbers), np.nan, values)
        columns[name] = values
    notes = {name: note for name, note in notes.items() if name == shown or name in columns}
    return Frame(shown, columns, notes, skipped, all_forms)


def _check_header(cells: Sequence[str], header: bool) -> tuple[dict[str, str], bool]:
    """Return a note, under "", on a first line of numbers, and whether the line holds names."""
    kind = header_kind(cells) if header else "names"
    if kind == "names":
        return {}, header
    if kind == "counted":
        return {
            "": "the first line, 0, 1, ..., is read as names; --no-header reads it as data"
        }, True
    return {"": "the first line holds numbers only and is read as data, as by --no-header"}, False


def header_names(cells: Sequence[str], reading: Reading) -> tuple[list[str], dict[str, str], bool]:
    """Return names of columns, notes (on the file: under ""), and whether the line holds names.

    ``cells`` are the cells of the first line.
    """
    notes, header = _check_header(cells, reading.header)
    names, name_notes = name_columns(cells if header else [""] * len(cells))
    return names, notes | name_notes if header else notes, header


def has_text(column: Any, text: str) -> bool:
    """Return whether an Arrow column holds a text, perhaps with spaces around it."""
    compute = arrow().compute
    return bool(compute.any(compute.equal(compute.utf8_trim_whitespace(column), text)).as_py())


def doubtful_name_note(names: Sequence[str], is_value: Iterable[bool]) -> str:
    """Return a note if a name looks like a value; ``is_value``: whether its column holds it too."""
    for name, same in zip(names, is_value, strict=True):
        number = is_number(name)
        if number and float(name).is_integer():
            continue  # a year, or a position
        if name and (number or same):
            why = "a number" if number else "a value of its column too"
            return (
                f"the first line, read as names, may be data ({name[:40]!r} is {why}): --no-header"
                " reads it so"
            )
    return ""
