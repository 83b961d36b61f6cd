"""Read the bytes of a file, unpack them, and recognise the format."""

from __future__ import annotations

import bz2
import dataclasses
import functools
import gzip
import lzma
import re
import shutil
import sys
import tempfile
import weakref
import zipfile
from collections.abc import Callable
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

MAX_UNPACKED_SIZE, MAX_UNPACKED_RATIO = 2**30, 200
"""Largest number of bytes to which a file is unpacked, if that is more than so many times its size.

Packed tables are rarely a fiftieth of their size; files that are made to fill the memory are a
thousandth."""

CHUNK, START = 2**23, 1000
"""Numbers of bytes that are copied at a time, and that tell the format."""


class Folder:
    """A folder for copies of a file, made if it is used; it goes when nothing refers to it."""

    @functools.cached_property
    def path(self) -> Path:
        """The path of the folder."""
        path = Path(tempfile.mkdtemp(prefix="hgr-jax-"))
        weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        return path


@dataclasses.dataclass(frozen=True)
class Contents:
    """The contents of a file, unpacked.

    Attributes:
      path: where they are.
      name: the name, whose ending may tell the format.
      shown: the name in messages.
      note: a note on what was unpacked.
      folder: where copies may be written.
    """

    path: Path
    name: str
    shown: str
    note: str = ""
    folder: Folder = dataclasses.field(default_factory=Folder)

    @property
    def start(self) -> bytes:
        """The first bytes."""
        with self.path.open("rb") as file:
            return file.read(START)


def read_contents(path: Path) -> Contents:
    """Unpack a file: ``.gz``, ``.bz2``, ``.xz``, ``.zst``, and a ``.zip`` of one table.

    ``-`` is standard input.
    """
    shown = "standard input" if str(path) == "-" else printable(str(path))
    contents = Contents(path, path.name, shown)
    try:
        if str(path) == "-":
            if sys.stdin is None or sys.stdin.closed:
                raise TableError("standard input is closed: pipe a table into it, or name a file")
            contents = _copied(sys.stdin.buffer, dataclasses.replace(contents, name=""))
        elif not path.is_file():  # a pipe can be read only once
            with path.open("rb") as file:
                contents = _copied(file, contents)
        contents.start  # noqa: B018 - raises for a file that cannot be read
    except FileNotFoundError:
        raise TableError(f"no such file: {shown}") from None
    except TableError:
        raise
    except (OSError, ValueError) as error:  # also a zero byte in the name
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


def _copied(file: Any, contents: Contents) -> Contents:
    """Copy a file into the folder of some contents."""
    packed_size = contents.path.stat().st_size if contents.path.is_file() else 2**50
    limit = max(MAX_UNPACKED_SIZE, MAX_UNPACKED_RATIO * packed_size)
    target = contents.folder.path / f"copy {len(list(contents.folder.path.iterdir()))}"
    with target.open("wb") as copy:
        while chunk := file.read(CHUNK):
            copy.write(chunk)
            if copy.tell() > limit:
                raise ValueError(f"it is over {MAX_UNPACKED_RATIO} times its size, to fill disks")
    return dataclasses.replace(contents, path=target)


_ZIP = b"PK\x03\x04"

_OPENERS: dict[bytes, Callable[[str], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": lambda path: arrow().input_stream(path, compression="zstd"),
}
"""What opens a packed file, by its first bytes."""


def _unpacked(contents: Contents) -> Contents | None:
    """Take off one layer of packing; None if there is none."""
    start, path = contents.start, str(contents.path)
    opener = next((o for mark, o in _OPENERS.items() if start.startswith(mark)), None)
    if opener is not None:
        with opener(path) as file:
            return _copied(file, dataclasses.replace(contents, name=PurePath(contents.name).stem))
    if start.startswith(_ZIP):
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if {"[Content_Types].xml", "content.xml"}.isdisjoint(names):  # .xlsx, .ods
                name, note = _only_table(names)
                with archive.open(name) as file:
                    return _copied(file, dataclasses.replace(contents, name=name, note=note))
    return None


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
    if contents.start.startswith(_ZIP):  # another archive is unpacked
        return "workbook"
    start = contents.start
    if _OTHER_KINDS.match(start):
        raise TableError(
            f"{contents.shown} is a file of another kind; expected {READABLE}: save, export or"
            " unpack the table as one of these"
        )
    found = next(
        (kind for pattern, kind in _FORMAT_BY_START.items() if re.match(pattern, start, re.S)),
        "CSV",
    )
    by_name = FORMATS.get(PurePath(contents.name).suffix.lower())
    return by_name or found if found in ("CSV", "JSON") else found
