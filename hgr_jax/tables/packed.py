"""Read the bytes of a file, unpack them, and recognise the format."""

from __future__ import annotations

import bz2
import contextlib
import dataclasses
import gzip
import io
import lzma
import re
import sys
import tempfile
import zipfile
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

_FORMAT_BY_START = {
    rb"PAR1[^\t\r\n -~]": "Parquet",  # not "PAR1,PAR2", names of columns
    rb"ARROW1\0|FEA1\0": "Feather",
    rb"SQLite format 3\0": "SQLite",
    rb".{8}DUCK..\0{6}": "DuckDB",
    rb"\$FL[23]@": "SPSS",
    rb"<stata_dta>|[f-s][\x01\x02]\x01\0": "Stata",
    rb"\0{12}\xc2\xea\x81\x60": "SAS",
    rb"HEADER RECORD\*{7}LIB": "SAS transport",
    rb"[\xef\xbb\xbf\s]*(?:\{\s*\"|\[\s*[\[{])": "JSON",
}
"""Formats by the pattern of the first bytes."""

_OTHER_KINDS = re.compile(
    rb"\xd0\xcf\x11\xe0|%PDF|Rar!|RD[AX][23]\n|X\n\0|<(?:!DOCTYPE|html|\?xml)|.{257}ustar",
    re.S | re.I,
)
"""First bytes of old workbooks, of R, pages and archives, which people take for tables."""

_TABLE_NAME = re.compile(
    r"\.(?:[ct]sv|xls[xm]|ods|pq|parquet|feather|arrow|ipc|(?:geo)?json|jsonl|ndjson|db|sqlite3?|duckdb"
    r"|z?sav|por|dta|sas7bdat|xpt|gz|bz2|xz|zst|zip)$",
    re.I,
)

_ZIP = b"PK\x03\x04"

_WORKBOOK_MEMBERS = {"[Content_Types].xml", "content.xml"}
"""What the zip archives hold that are .xlsx and .ods."""

MAX_UNPACKED_SIZE, MAX_UNPACKED_RATIO = 2**30, 200
"""Largest number of bytes to which a file is unpacked, if that is more than so many times its size.

Packed tables are rarely a fiftieth of their size; files that are made to fill the memory are a
thousandth."""


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
    shown = "standard input" if str(path) == "-" else printable(str(path))
    if str(path) == "-":
        if sys.stdin is None or sys.stdin.closed:
            raise TableError("standard input is closed: pipe a table into it, or name a file")
        contents = Contents(sys.stdin.buffer.read(), "", shown)
    else:
        try:
            contents = _packed_contents(path, shown)
        except (OSError, ValueError) as error:  # also a zero byte in the name
            if isinstance(error, TableError):
                raise
            if isinstance(error, FileNotFoundError):
                raise TableError(f"no such file: {shown}") from None
            reason = getattr(error, "strerror", None) or error
            raise TableError(f"cannot read {shown}: {reason}") from None
    try:
        for _ in range(4):  # an archive can hold itself
            contents = _unpacked(contents) or contents
    except Exception as error:  # damaged archives raise many kinds
        raise TableError(
            f"{shown} cannot be unpacked: {reason_of(error)}; copy it anew, or unpack the table"
        ) from None
    return contents


def _packed_contents(path: Path, shown: str) -> Contents:
    """Return the contents of a file as they are."""
    with path.open("rb") as file:
        start = file.peek(1000)[:1000]  # a pipe can be read only once
        place = path if path.is_file() else None
        found = Contents(start, path.name, shown, path=place)
        is_packed = start.startswith((_ZIP, *_OPENERS))
        if place and not is_packed and format_of(found) in (*DATABASES, "CSV"):
            return found
        return dataclasses.replace(found, body=file.read())


_OPENERS: dict[bytes, Callable[[io.BytesIO], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": lambda file: arrow().CompressedInputStream(file, "zstd"),
}
"""What opens a packed file, by its first bytes."""


def _unpacked(contents: Contents) -> Contents | None:
    """Take off one layer of packing; None if there is none."""
    body, name, note = contents.body, PurePath(contents.name).stem, contents.note
    packed = io.BytesIO(body)
    with contextlib.ExitStack() as stack:
        if body.startswith(_ZIP):
            archive = stack.enter_context(zipfile.ZipFile(packed))
            if not _WORKBOOK_MEMBERS.isdisjoint(archive.namelist()):
                return None
            name, note = _only_table(archive.namelist())
            file: Any = stack.enter_context(archive.open(name))
        else:
            opener = next((o for start, o in _OPENERS.items() if body.startswith(start)), None)
            if opener is None:
                return None
            file = stack.enter_context(opener(packed))
        limit = max(MAX_UNPACKED_SIZE, MAX_UNPACKED_RATIO * len(body))
        found = file.read(limit + 1)
    if len(found) > limit:
        raise ValueError(
            f"it has over {MAX_UNPACKED_RATIO} times its size, made to fill the memory"
        )
    return Contents(found, name, contents.shown, note)


def _only_table(names: list[str]) -> tuple[str, str]:
    """Return the only file of an archive, or else the only one that is called as tables are."""
    names = [name for name in names if not name.endswith("/") and not name.startswith("__MACOSX/")]
    tables = [name for name in names if _TABLE_NAME.search(name)] if len(names) > 1 else names
    if len(tables) != 1:
        raise ValueError(f"it holds {len(names)} files, {listed(names, 4)}, instead of one table")
    others = f"of the {len(names)} files in it, {printable(tables[0])!r} is read"
    return tables[0], others if len(names) > 1 else ""


def format_of(contents: Contents) -> str:
    """Return the format, such as ``"CSV"``; a `TableError` for formats that are not read."""
    if contents.body.startswith(_ZIP):  # another archive is unpacked
        return "workbook"
    if _OTHER_KINDS.match(contents.body):
        raise TableError(
            f"{contents.shown} is a file of another kind; expected {READABLE}: save, export or"
            " unpack the table as one of these"
        )
    start = contents.body[:1000]
    found = next(
        (kind for pattern, kind in _FORMAT_BY_START.items() if re.match(pattern, start, re.S)),
        "CSV",
    )
    by_name = FORMATS.get(PurePath(contents.name).suffix.lower())
    return by_name or found if found in ("CSV", "JSON") else found
