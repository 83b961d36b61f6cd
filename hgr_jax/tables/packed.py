"""Read the bytes of a file, unpack them, and recognise the format."""

from __future__ import annotations

import bz2
import contextlib
import dataclasses
import gzip
import io
import lzma
import re
import struct
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import Any

from hgr_jax.tables.arrow_columns import arrow
from hgr_jax.tables.faults import READABLE, TableError, listed, printable, reason_of

FORMATS = {
    **dict.fromkeys((".parquet", ".pq"), "Parquet"),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "Feather"),
    **dict.fromkeys((".jsonl", ".ndjson"), "JSON lines"),
    **dict.fromkeys((".json", ".geojson"), "JSON"),
    ".por": "portable SPSS",
}
"""Formats by the ending of the name, of files whose first bytes do not tell; others are CSV."""

DATABASES = ("SQLite", "DuckDB")

_WORKBOOK_MEMBERS = ("[Content_Types].xml", "content.xml")
"""What the zip archives hold that are .xlsx and .ods."""

_FORMAT_BY_START = {
    rb"PAR1[^\t\r\n -~]": "Parquet",  # not "PAR1,PAR2", names of columns
    rb"ARROW1\0|FEA1\0": "Feather",
    rb"SQLite format 3\0": "SQLite",
    rb".{8}DUCK..\0{6}": "DuckDB",
    rb"\$FL[23]@": "SPSS",
    rb"<stata_dta>|[f-s][\x01\x02]\x01\0": "Stata",
    rb"\0{12}\xc2\xea\x81\x60": "SAS",
    rb"HEADER RECORD\*{7}LIB": "SAS transport",
    rb"\{\s*\"|\[\s*[\[{]": "JSON",
}
"""Formats by the pattern of the first bytes."""

_OTHER_KINDS = re.compile(
    rb"\xd0\xcf\x11\xe0|\x89HDF|CDF[\x01\x02\x05]|%PDF|\x89PNG|\xff\xd8\xff|GIF8|\x80[\x03-\x05]"
    rb"|\x93NUMPY|RD[AX][23]\n|X\n\0\0\0[\x02\x03]|Obj\x01|(?i:<!DOCTYPE|<html|<\?xml)|7z\xbc\xaf"
    rb"|Rar!|.{257}ustar",
    re.DOTALL,
)
"""First bytes of old workbooks, of HDF5, netCDF, R, Avro, pictures, pages and archives."""

MAX_UNPACKED_SIZE, MAX_UNPACKED_RATIO = 2**30, 200
"""Largest number of bytes to which a file is unpacked, if that is more than so many times its size.

Packed tables are rarely a fiftieth of their size; files that are made to fill the memory are a
thousandth."""

MAX_LAYERS = 4
"""Number of times that a file is unpacked: a zip archive can hold itself."""

_PACKING_ERRORS = (
    OSError,
    EOFError,
    ValueError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
)
"""What damaged archives raise."""


@dataclasses.dataclass(frozen=True)
class Contents:
    """The contents of a file.

    Attributes:
      body: all bytes, unpacked; of text and databases that are read in their place the first ones.
      name: the name, whose ending may tell the format.
      shown: the name in messages.
      note: a note on what was unpacked.
      path: place of a file that is not packed.
    """

    body: bytes
    name: str
    shown: str
    note: str = ""
    path: Path | None = None

    @contextlib.contextmanager
    def on_disk(self) -> Iterator[Path]:
        """Yield a path of the contents, for libraries that read only files."""
        if self.path is not None:
            yield self.path
            return
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            path = Path(folder) / "table"
            path.write_bytes(self.body)
            yield path


def read_contents(path: Path) -> Contents:
    """Read a file, and unpack ``.gz``, ``.bz2``, ``.xz``, ``.zst``, and a ``.zip`` of one table.

    ``-`` is standard input.
    """
    if str(path) == "-":
        if sys.stdin is None or sys.stdin.closed:
            raise TableError("standard input is closed: pipe a table into it, or name a file")
        with _explaining_read_errors("standard input"):
            contents = Contents(sys.stdin.buffer.read(), "", "standard input")
    else:
        shown = printable(str(path))
        with _explaining_read_errors(shown), path.open("rb") as file:
            start = file.peek(1000)[:1000]  # a pipe can be read only once
            place = path if path.is_file() else None
            found = Contents(start, path.name, shown, path=place)
            is_packed = start.startswith((b"PK\x03\x04", *_OPENERS))
            if place and not is_packed and format_of(found) in (*DATABASES, "CSV"):
                return found
            contents = Contents(file.read(), path.name, shown, path=place)
    limit = unpacked_limit(contents.body)
    for _ in range(MAX_LAYERS + 1):
        unpacked = _unpack(contents, limit)
        if unpacked is None:
            return contents
        contents = unpacked
    raise TableError(f"{contents.shown} is packed more than {MAX_LAYERS} times: unpack it")


@contextlib.contextmanager
def _explaining_read_errors(shown: str) -> Iterator[None]:
    """Turn errors of reading a file into a `TableError` of one line."""
    try:
        yield
    except FileNotFoundError:
        raise TableError(f"no such file: {shown}") from None
    except OSError as error:
        raise TableError(f"cannot read {shown}: {error.strerror or error}") from None
    except ValueError as error:  # a zero byte in the name
        raise TableError(f"cannot read {shown}: {error}") from None


@contextlib.contextmanager
def explaining_packing_errors(shown: str) -> Iterator[None]:
    """Turn errors of unpacking a file into a `TableError` of one line."""
    try:
        yield
    except TableError:
        raise
    except RuntimeError as error:  # a password, or a method that is not supported
        raise TableError(f"{shown} cannot be unpacked: {printable(str(error))}") from None
    except _PACKING_ERRORS as error:
        raise TableError(
            f"{shown} cannot be unpacked: {reason_of(error)}: it is damaged, or was not copied to"
            " its end"
        ) from None


def _unpack(contents: Contents, limit: int) -> Contents | None:
    """Take off one layer of packing; None if there is none."""
    with explaining_packing_errors(contents.shown):
        for start, opened in _OPENERS.items():
            if contents.body.startswith(start):
                with opened(io.BytesIO(contents.body)) as file:
                    body = file.read(limit + 1)
                check_unpacked_size(len(body), limit, contents.shown)
                name = PurePath(contents.name).stem
                return dataclasses.replace(contents, body=body, name=name, path=None)
        if not contents.body.startswith(b"PK\x03\x04"):
            return None
        with zipfile.ZipFile(io.BytesIO(contents.body)) as archive:
            if not set(_WORKBOOK_MEMBERS).isdisjoint(archive.namelist()):
                return None
            return _only_table(archive, contents, limit)


_OPENERS: dict[bytes, Callable[[io.BytesIO], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": lambda file: arrow().CompressedInputStream(file, "zstd"),
}
"""What opens a packed file, by its first bytes."""


def unpacked_limit(packed: bytes) -> int:
    """Return the largest number of bytes to which a file is unpacked."""
    return max(MAX_UNPACKED_SIZE, MAX_UNPACKED_RATIO * len(packed))


def check_unpacked_size(size: int, limit: int, shown: str) -> None:
    """Raise a `TableError` for a file that unpacks to more than ``limit`` bytes."""
    if size > limit:
        raise TableError(
            f"{shown} unpacks to more than {limit / 2**30:.0f} GiB, over {MAX_UNPACKED_RATIO} times"
            " its size, as files do that are made to fill the memory: if it is a table, unpack it"
            " and give the unpacked file"
        )


def _only_table(archive: zipfile.ZipFile, contents: Contents, limit: int) -> Contents:
    """Read the only file of an archive, or else the only one whose name is that of a table."""
    shown, names = contents.shown, archive.namelist()
    names = [name for name in names if not name.endswith("/") and not name.startswith("__MACOSX/")]
    tables = [n for n in names if PurePath(n).suffix.lower() in _TABLE_ENDINGS]
    if len(names) > 1 and len(tables) == 1:
        note = f"of the {len(names)} files in it, {printable(tables[0])!r} is read"
    elif len(names) == 1:
        tables, note = names, ""
    else:
        raise TableError(
            f"{shown} holds {len(names)} files, {printable(listed(names, 4))};"
            " expected one table: unpack it"
        )
    check_unpacked_size(archive.getinfo(tables[0]).file_size, limit, shown)
    return Contents(archive.read(tables[0]), tables[0], shown, note)


_TABLE_ENDINGS = {
    *FORMATS,
    *(".csv", ".tsv", ".xlsx", ".xlsm", ".ods"),
    *(".db", ".sqlite", ".sqlite3", ".duckdb", ".sav", ".zsav", ".dta", ".sas7bdat", ".xpt"),
    *(".gz", ".bz2", ".xz", ".zst", ".zip"),
}


def format_of(contents: Contents) -> str:
    """Return the format, such as ``"CSV"``; a `TableError` for formats that are not read."""
    body = contents.body
    if body.startswith(b"PK\x03\x04"):  # another archive is unpacked
        return "workbook"
    if _OTHER_KINDS.match(body):
        raise TableError(
            f"{contents.shown} is a file of another kind; expected {READABLE}: save, export or"
            " unpack the table as one of these"
        )
    kind = FORMATS.get(PurePath(contents.name).suffix.lower())
    start = body[:1000].lstrip(b"\xef\xbb\xbf \r\n\t")
    found = _match(_FORMAT_BY_START, body) or _match(_FORMAT_BY_START, start) or "CSV"
    return kind or found if found in ("CSV", "JSON") else found


def _match(patterns: dict[bytes, str], start: bytes) -> str | None:
    """Return the entry of the first pattern that the first bytes match."""
    return next(
        (what for pattern, what in patterns.items() if re.match(pattern, start, re.S)), None
    )
