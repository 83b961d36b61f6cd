"""The only reader of tables in files: which format it is, names, missing values, columns.

Each format is unpacked and read by a library of its own; what every column was taken for is in the
notes of the `Frame`.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._optional import require
from hgr_jax.tables.columns import (
    Category,
    Frame,
    Unusable,
    add_note,
    as_array,
    as_frame,
    from_frame,
    holds_texts,
    name_columns,
    settle,
)
from hgr_jax.tables.delimited import Cells, arrow, as_utf8, read_cells, read_loose, trimmed, typed
from hgr_jax.tables.faults import TableError, check_names, listed, printable
from hgr_jax.tables.texts import Form, is_number, kind_of_header

READ = "CSV, Parquet, Feather, JSON or .xlsx, or one of these in .gz or .zip"

FORMATS = {
    **dict.fromkeys((".parquet", ".pq"), "Parquet"),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "Feather"),
    **dict.fromkeys((".jsonl", ".ndjson"), "JSON lines"),
    ".json": "JSON",
    **dict.fromkeys((".xlsx", ".xlsm"), "Excel"),
}
"""Endings of names; whatever else is read as CSV, unless its first bytes tell."""

_FIRST_BYTES = {b"PAR1": "Parquet", b"ARROW1": "Feather", b"FEA1": "Feather"}

_OTHERS = {
    b"\xd0\xcf\x11\xe0": "an old Excel file (.xls); save it as .xlsx or CSV",
    b"SQLite format 3": "an SQLite database; export the table as CSV",
    b"\x89HDF": "an HDF5 file; export the table as CSV or Parquet",
    b"%PDF": f"a PDF file; expected {READ}",
    b"\x89PNG": f"a picture; expected {READ}",
    b"\x80\x04": f"a Python pickle; expected {READ}",
    b"\x93NUMPY": f"a NumPy array; expected {READ}",
    b"$FL2": "an SPSS file; export the table as CSV",
    b"RDX": "an R file; export the table as CSV",
    b"\x28\xb5\x2f\xfd": "compressed by Zstandard; unpack it",
    **dict.fromkeys((b"<!DOCTYPE", b"<html", b"<?xml"), f"a page or XML; expected {READ}"),
    b"7z\xbc\xaf": "a 7z archive; unpack it",
}


def check_readable(path: Path) -> None:
    """Raise a TableError, as `read_bytes` would, if there is no such file or it cannot be read."""
    if str(path) != "-" and not path.is_fifo():  # what is in a pipe is read once
        with _reading(printable(str(path))), path.open("rb"):
            pass


def read_bytes(path: Path) -> tuple[bytes, str, str]:
    """Return the contents of a file (``-``: of standard input), its name, and how it is called.

    Contents of ``.gz``, ``.bz2``, ``.xz``, and of a ``.zip`` of one file are unpacked.

    Raises:
      TableError: if there is none, or it cannot be read or unpacked.
    """
    if str(path) == "-":
        body, name, shown = sys.stdin.buffer.read(), "", "standard input"
    else:
        name, shown = path.name, printable(str(path))
        with _reading(shown):
            body = path.read_bytes()  # at once: it may be a pipe
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
def _reading(shown: str) -> Iterator[None]:
    """Say in one line why a file cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise TableError(f"no such file: {shown}") from None
    except OSError as error:
        raise TableError(f"cannot read {shown}: {error.strerror}") from None


def _excel_sheets(body: bytes) -> int | None:
    """Return how many sheets an Excel file has; None for another archive."""
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
    """Return one of the `FORMATS`, or ``"CSV"``.

    Raises:
      TableError: for a format that is known and not read.
    """
    for first, found in _FIRST_BYTES.items():
        if body.startswith(first):
            return found
    if body.startswith(b"PK\x03\x04") and _excel_sheets(body) is not None:
        return "Excel"
    for first, what in _OTHERS.items():
        if body.startswith(first):
            raise TableError(f"{shown} is {what}")
    found = FORMATS.get(PurePath(name).suffix.lower(), "CSV")
    start = body[:1000].lstrip(b"\xef\xbb\xbf \r\n\t")
    if found == "CSV" and start.startswith((b'{"', b'[{"')):
        return "JSON"
    return found


def read_arrow(body: bytes, kind: str, shown: str) -> Any:
    """Return a Parquet or Feather file as an Arrow table.

    Raises:
      TableError: if it is none, or is damaged.
    """
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
    """Return columns of objects, and what is to be said of their encoding.

    The file holds a list of records, records line by line, or columns by name.

    Raises:
      TableError: if it is not JSON, or none of those.
    """
    body, note = as_utf8(body, shown)
    try:
        return _as_records(_parse_json(body.decode(), kind, shown), shown), note
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


def _as_records(found: Any, shown: str) -> dict[str, NDArray[Any]]:
    if isinstance(found, Mapping) and isinstance(found.get("data"), list):
        found = found["data"]
    if isinstance(found, Mapping) and found:
        columns = list(found.values())
        if all(isinstance(column, list) for column in columns):
            if len({len(column) for column in columns}) > 1:
                raise TableError(f"{shown}: its columns are of different lengths")
            return {name: _objects(column) for name, column in found.items()}
        if all(isinstance(column, Mapping) for column in columns):  # as pandas writes them
            rows = list(dict.fromkeys(row for column in columns for row in column))
            return {n: _objects([column.get(r) for r in rows]) for n, column in found.items()}
        found = [found]
    if not isinstance(found, list) or not all(isinstance(record, Mapping) for record in found):
        raise TableError(
            f'{shown}: expected records, as in [{{"x": 1}}, {{"x": 2}}], or one a line'
        )
    names = list(dict.fromkeys(name for record in found for name in record))
    return {name: _objects([record.get(name) for record in found]) for name in names}


def read_excel(body: bytes, shown: str) -> tuple[list[list[Any]], str]:
    """Return the rows of the first sheet that are not blank, and what is said of the others.

    Raises:
      TableError: if it cannot be read.
    """
    require("openpyxl", "excel")
    pandas = require("pandas", "table")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what openpyxl leaves out: styles, validation
            sheet = pandas.read_excel(
                io.BytesIO(body), header=None, dtype=object, na_filter=False, engine="openpyxl"
            )
    except Exception as error:  # of whatever a damaged archive makes its readers do
        reason = printable(" ".join(str(error).split()))
        raise TableError(f"{shown} cannot be read as Excel: {reason}") from None
    rows = [row for row in sheet.to_numpy(object).tolist() if any(cell != "" for cell in row)]
    sheets = _excel_sheets(body) or 1
    return rows, f"the first of its {sheets} sheets is read" if sheets > 1 else ""


def as_columns_of(rows: Sequence[Sequence[Any]]) -> list[NDArray[Any]]:
    """Return the columns of rows of objects."""
    return [_objects(column) for column in zip(*rows, strict=True)]


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    """Return a column of objects, which NumPy does not make anything else of."""
    return np.array([*values, None], dtype=object)[:-1]


@dataclasses.dataclass(frozen=True)
class Reading:
    """How a file is read.

    Attributes:
      na: texts that stand for a missing value, beside `MISSING`.
      decimal: the decimal point, ``.`` or ``,``; None to find it out, column by column.
      columns: those to read; all if there are none.
      drop: columns to leave out.
      header: whether the first line holds the names.
      forms: how columns are written, by name, each with a decimal point of its own; of the others
        it is found out.
    """

    na: Sequence[str] = ()
    decimal: str | None = None
    columns: Sequence[str] = ()
    drop: Sequence[str] = ()
    header: bool = True
    forms: Mapping[str, Form] = dataclasses.field(default_factory=dict)


def read_any(path: str | Path, reading: Reading | None = None) -> Frame:
    """Read a table from a file: CSV, Parquet, Feather, JSON or Excel, perhaps packed.

    No column stops it.  One without a name is called by its position, ``column 1`` the first, and
    the second of one name gets `` (2)``.  What texts mean is found out (`infer`), and what is not
    plain is said in the notes; texts of a file that has types stay what `settle` takes them for.

    Args:
      path: the file; ``-`` for standard input.
      reading: how it is read.

    Raises:
      TableError: for what cannot be read, in one line.
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
        frame, own = as_frame(table)
        return _settled(shown, own, lambda i: from_frame(frame, i), reading, "in row {}".format)
    if kind == "Excel":
        return _read_sheet(body, shown, reading)
    columns, remark = read_json(body, kind, shown)
    if not columns or not len(next(iter(columns.values()))):
        raise TableError(f"{shown} holds no records")
    values = list(columns.values())

    def where(row: int) -> str:
        return f"in record {row + 1}"

    # Programs write numbers in quotes, and pandas takes them for numbers too.
    frame = _settled(shown, list(columns), values.__getitem__, reading, where, numbers_in_text=True)
    return dataclasses.replace(frame, notes={**frame.notes, shown: remark}) if remark else frame


def read_publication(
    path: Path, names: Sequence[str], *, encoding: str = "utf8"
) -> dict[str, NDArray[Any]]:
    """Read the texts of a file without a header, leaving out lines that are no rows.

    Args:
      path: a file of comma-separated values.
      names: of its columns.
      encoding: of its texts.
    """
    body, _, shown = read_bytes(path)
    cells = read_loose(body.decode(encoding).encode(), shown, names)
    return dict(zip(names, map(trimmed, cells.columns), strict=True))


def _settled(
    shown: str,
    own: Sequence[Any],
    column: Callable[[int], Any],
    reading: Reading,
    where: Callable[[int], str],
    *,
    numbers_in_text: bool = False,
) -> Frame:
    """Return the columns of a file that has types."""
    names, notes = name_columns(own)
    found, skipped, forms = {}, {}, {}
    also = [text.strip().lower() for text in reading.na]
    places = {name: place for place, name in enumerate(names)}
    for name in chosen_names(shown, names, reading):
        values, note, form = settle(
            column(places[name]),
            point=reading.decimal,
            form=reading.forms.get(name),
            also_missing=also,
            where=where,
            numbers_in_text=numbers_in_text,
        )
        if isinstance(values, Unusable):
            skipped[name] = values.reason
            continue
        if isinstance(values, Category):
            levels = ["" if level.lower() in also else level for level in values.levels]
            values = np.array([*levels, "", None], object)[:-1][values.codes]
        found[name] = values
        if form:
            forms[name] = form
        if note:
            add_note(notes, name, note)
    if not found:
        name, reason = next(iter(skipped.items()))
        raise TableError(f"{shown}: no column holds numbers or text; {name!r} holds {reason}")
    return _as_frame(shown, found, forms, notes, skipped, reading)


def _read_sheet(body: bytes, shown: str, reading: Reading) -> Frame:
    rows, remark = read_excel(body, shown)
    if not rows:
        raise TableError(f"{shown} is empty: expected a row of column names, then rows")
    own = [str(cell).strip() for cell in rows[0]]
    notes, header = _look_at_header(own, reading.header)
    if remark:
        add_note(notes, shown, remark)
    own = own if header else [""] * len(own)
    rows = rows[1:] if header else rows
    if not rows:
        raise TableError(f"{shown} has a header but no rows")
    columns = as_columns_of(rows)
    first = 2 if header else 1
    frame = _settled(
        shown, own, columns.__getitem__, reading, lambda row: f"in row {row + first} of the sheet"
    )
    return dataclasses.replace(frame, notes={**frame.notes, **notes})


def _read_text(body: bytes, shown: str, reading: Reading) -> Frame:
    body, remark = as_utf8(body, shown)
    commas = any(form.point == "," for form in reading.forms.values())
    point = reading.decimal or ("," if commas else None)
    cells = read_cells(body, shown, header=reading.header, point=point)
    notes, header = _look_at_header(cells.header, reading.header)
    if header != reading.header:
        cells = read_cells(body, shown, header=False, point=point)
    names, own = name_columns(cells.header if header else [""] * len(cells.header))
    if header:
        notes |= own
        for name in reading.columns:
            if cells.header.count(name) > 1:
                notes[name] = f"the first of {cells.header.count(name)} columns of this name"
        _tell_doubtful_names(cells, notes)
    notes = {shown if name == "" else name: note for name, note in notes.items()}
    if remark:
        add_note(notes, shown, remark)
    chosen = chosen_names(shown, names, reading)
    all_places = {name: place for place, name in enumerate(names)}
    places = {name: all_places[name] for name in chosen}
    also = [text.strip().lower() for text in reading.na]
    found = {
        name: typed(cells, place, also, reading.decimal, reading.forms.get(name))
        for name, place in places.items()
    }
    if any(column.form and column.form.point == "," for column in found.values()):
        for name, column in found.items():
            if column.either:  # what another column shows is true of this one
                found[name] = typed(cells, places[name], also, ",")
    for name, column in found.items():
        if column.note:
            add_note(notes, name, column.note)
    forms = {name: column.form for name, column in found.items() if column.form}
    values = {name: column.values for name, column in found.items()}
    return _as_frame(shown, values, forms, notes, {}, reading)


def _as_frame(
    shown: str,
    found: Mapping[str, NDArray[Any]],
    forms: Mapping[str, Form],
    notes: dict[str, str],
    skipped: Mapping[str, str],
    reading: Reading,
) -> Frame:
    """Return a frame of columns that are settled."""
    gone = [float(text) for text in reading.na if is_number(text)]
    columns, written = {}, {}
    point = "," if any(form.point == "," for form in forms.values()) else "."
    for name, values in found.items():
        if not holds_texts(values):
            form = forms.get(name, Form("dates" if values.dtype.kind == "M" else "numbers"))
            unseen = form.kind == "numbers" and not form.point  # as the other columns have it
            written[name] = dataclasses.replace(form, point=point) if unseen else form
        if values.dtype.kind not in "M" and not holds_texts(values):
            values = as_array(values).astype(np.float64)
            values = np.where(np.isin(values, gone), np.nan, values) if gone else values
        columns[name] = values
    known = {shown, *columns}
    said = {name: note for name, note in notes.items() if name in known}
    return Frame(shown, columns, said, skipped, written)


def _look_at_header(own: Sequence[str], wanted: bool) -> tuple[dict[str, str], bool]:
    """Return what is said, under "", of a first line of numbers, and whether it holds names."""
    kind = kind_of_header(own) if wanted else "names"
    if kind == "names":
        return {}, wanted
    if kind == "counted":
        return {
            "": "the first line, 0, 1, ..., is read as names; --no-header reads it as data"
        }, True
    return {"": "the first line holds numbers only and is read as data, as by --no-header"}, False


def _tell_doubtful_names(cells: Cells, notes: dict[str, str]) -> None:
    """Add a remark if names look like values."""
    compute = arrow().compute
    for name, column in zip(cells.header, cells.columns, strict=True):
        number = is_number(name)
        if number and float(name).is_integer():
            continue  # a year, or a position
        same = compute.equal(compute.utf8_trim_whitespace(column), name)  # names are trimmed too
        if name and (number or compute.any(same).as_py()):
            why = "a number" if number else "a value of its column too"
            notes[""] = (
                f"the first line, read as names, may be data ({name[:40]!r} is {why}): --no-header"
                " reads it so"
            )
            return


def chosen_names(shown: str, names: Sequence[str], reading: Reading) -> list[str]:
    """Return the names of the columns to read, in the order of the file.

    Raises:
      TableError: if one is not there, or none is left.
    """
    check_names(shown, names, [*reading.columns, *reading.drop])
    wanted = set(reading.columns or names) - set(reading.drop)
    if not wanted:
        raise TableError(f"{shown}: no column is left to read; --drop names all of them")
    return [name for name in names if name in wanted]
