"""Small files of tables."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from hgr_jax.tables.columns import Frame
from hgr_jax.tables.files import read_table
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.sources import of_files


def write(folder: Path, content: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_cells(folder: Path, cells: list[str]) -> Path:
    """Write a column x of cells, and another one of numbers."""
    return write(folder, "\n".join(["x;y", *(f"{cell};{i}" for i, cell in enumerate(cells)), ""]))


def read_twice(path: Path, reading: Reading | None = None) -> Frame:
    """Read a text file as a whole; in batches it has the same names, values and notes."""
    reading = reading or Reading()
    frame, source = read_table(path, reading), of_files(path, reading)
    table = pa.concat_tables(source.batches([*source.kinds], 7))
    assert source.rows == table.num_rows == frame.rows
    assert source.parse is not None
    found = source.parse(table, np.arange(table.num_rows))
    assert (found.notes, found.skipped) == (frame.notes, frame.skipped)
    assert found.columns.keys() == frame.columns.keys()
    for name, column in frame.columns.items():
        np.testing.assert_array_equal(found.columns[name], column)
    return frame


def zipped(files: Mapping[str, bytes]) -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # without the time
    return body.getvalue()


def ods(tables: str) -> bytes:
    """Return an .ods file of these elements ``table:table``."""
    start, spaces = "urn:oasis:names:tc:opendocument:xmlns", ("office", "table", "text")
    names = " ".join(f'xmlns:{space}="{start}:{space}:1.0"' for space in spaces)
    mime = "application/vnd.oasis.opendocument.spreadsheet"
    files = {
        "mimetype": mime,
        "META-INF/manifest.xml": (
            f'<manifest:manifest xmlns:manifest="{start}:manifest:1.0">'
            f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{mime}"/>'
            "</manifest:manifest>"
        ),
        "content.xml": (
            f'<?xml version="1.0"?><office:document-content {names} office:version="1.2">'
            f"<office:body><office:spreadsheet>{tables}</office:spreadsheet></office:body>"
            "</office:document-content>"
        ),
    }
    return zipped({name: text.encode() for name, text in files.items()})


def ods_row(*cells: str | float | None, options: str = "") -> str:
    """Return a row of an .ods file; ``options`` are those of its first cell."""
    row = ""
    for cell in cells:
        kind = "string" if isinstance(cell, str) else f'float" office:value="{cell}'
        text = f' office:value-type="{kind}"><text:p>{cell}</text:p></table:table-cell>'
        row += f"<table:table-cell {options}" + ("/>" if cell is None else text)
        options = ""
    return f"<table:table-row>{row}</table:table-row>"
