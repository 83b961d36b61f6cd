"""Files of every format that is read: which it is, unpacked, and read by its own library."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import sys
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._optional import require
from hgr_jax.tables.delimited import arrow, as_utf8
from hgr_jax.tables.faults import TableError, listed, printable

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
