"""Files of every format and encoding, and the one line that is said of those that are not read."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tables_support import write, zipped

from hgr_jax.tables import packed
from hgr_jax.tables.columns import Frame
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.files import read_table
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.sources import of_files

TEXT = "x,day,town\n1,2024-01-02,Rome\n2.5,2024-01-03,Oslo\n,2024-01-05,\n"


def without_bytes(value: object) -> str | None:
    """Name a test by its texts: what is packed holds the time, and two processes must agree."""
    return "content" if isinstance(value, bytes) else None


def is_the_table(frame: Frame) -> None:
    assert list(frame.columns) == ["x", "day", "town"]
    np.testing.assert_array_equal(frame.column("x"), [1, 2.5, np.nan])
    days = np.array(["2024-01-02", "2024-01-03", "2024-01-05"], "M8[us]")
    np.testing.assert_array_equal(frame.column("day"), days)
    assert list(frame.column("town")) == ["Rome", "Oslo", ""]
    assert not frame.skipped


RECORDS = [
    {"x": 1, "day": "2024-01-02", "town": "Rome"},
    {"x": 2.5, "day": "2024-01-03", "town": "Oslo"},
    {"day": "2024-01-05", "town": None},
]
COLUMNS = {name: [record.get(name) for record in RECORDS] for name in RECORDS[0]}
FEATURES = {
    "type": "FeatureCollection",
    "features": [{"type": "Feature", "properties": record, "geometry": {}} for record in RECORDS],
}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv.gz", gzip.compress(TEXT.encode(), mtime=0)),
        ("t.csv.bz2", bz2.compress(TEXT.encode())),
        ("t.csv.xz", lzma.compress(TEXT.encode())),
        ("t.zip", zipped({"__MACOSX/t.csv": b"", "folder/t.csv": TEXT.encode()})),
        ("t.csv.zst", pa.Codec("zstd").compress(TEXT.encode(), asbytes=True)),
        ("t.zip", zipped({"t.csv.gz": gzip.compress(TEXT.encode(), mtime=0)})),
        ("t.zip", zipped({"u.zip": zipped({"t.csv": TEXT.encode()})})),
        ("t.txt", TEXT.encode("utf-16")),
        ("t.txt", b"\xfe\xff" + TEXT.encode("utf-16-be")),
        ("t.txt", TEXT.encode("utf-32")),
        ("t.csv", TEXT.encode("utf-8-sig")),
        ("t.csv", b"\n \r\n" + TEXT.encode()),
        ("t.csv", b"sep=;\r\n" + TEXT.replace(",", ";").encode()),
        ("t.csv", TEXT.replace("\n", "\r").encode()),
        ("t.json", json.dumps(RECORDS).encode()),
        ("t.json.gz", gzip.compress(json.dumps(RECORDS).encode(), mtime=0)),
        ("t.json", json.dumps({"schema": {}, "data": RECORDS}).encode()),
        ("t", json.dumps({"meta": {"n": 3}, "records": RECORDS}, indent=1).encode()),
        ("t.geojson", json.dumps(FEATURES).encode()),
        ("t.json", json.dumps(COLUMNS).encode()),
        ("t.json", pd.DataFrame(COLUMNS).to_json().encode()),
        ("t.jsonl", "\n".join(map(json.dumps, RECORDS)).encode()),
        ("t.ndjson", "\n\n".join(map(json.dumps, RECORDS)).encode()),
        ("t", "\n".join(map(json.dumps, RECORDS)).encode()),
    ],
    ids=without_bytes,
)
def test_texts_packed_and_encoded(tmp_path: Path, name: str, content: bytes) -> None:
    frame = read_table(write(tmp_path, content, name))
    is_the_table(frame)
    assert frame.notes == {}


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.arrow", "t"])
def test_files_of_arrow(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame(COLUMNS)
    frame["day"] = pd.to_datetime(frame["day"])
    frame["town"] = frame["town"].astype("category")
    (frame.to_parquet if name == "t.parquet" else frame.to_feather)(tmp_path / name)
    is_the_table(read_table(tmp_path / name))


def test_what_is_neither_numbers_nor_text_is_skipped(tmp_path: Path) -> None:
    table = pa.table({"x": [1, 2], "list": [[1], [2, 3]], "b": [b"\0", b"\1"]})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    frame = read_table(tmp_path / "t.parquet")
    assert list(frame.columns) == ["x"]
    assert sorted(frame.skipped) == ["b", "list"]
    with pytest.raises(TableError, match=r"column 'list' holds values of type .*, neither numbers"):
        frame.column("list")


def test_numbers_in_quotes_are_numbers_in_json(tmp_path: Path) -> None:
    frame = read_table(write(tmp_path, '[{"x": "1"}, {"x": "2.5"}, {"x": "-"}]', "t.json"))
    np.testing.assert_array_equal(frame.column("x"), [1, 2.5, np.nan])
    assert "'-' in record 3" in frame.notes["x"]
    frame = read_table(write(tmp_path, '[{"x": "1"}, {"x": "2.5"}]', "t.json"))
    np.testing.assert_array_equal(frame.column("x"), [1, 2.5])


def test_nested_values_of_json_are_skipped(tmp_path: Path) -> None:
    records = [{"x": 1, "place": {"lat": 1}, "tags": None}, {"x": 2, "tags": ["a" * 99]}]
    frame = read_table(write(tmp_path, json.dumps(records), "t.json"))
    assert list(frame.columns) == ["x"]
    assert frame.skipped["place"].startswith('nested values such as {"lat": 1}, neither')
    assert frame.skipped["tags"].startswith('nested values such as ["aaaaa')
    assert len(frame.skipped["tags"]) < 150


def test_several_tables_of_json(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps({"one": [{"x": 1}], "two": [{"y": 2}, {"y": 3}]}), "t.json")
    with pytest.raises(TableError, match="holds 2 tables, 'one', 'two'; --table names the one"):
        read_table(path)
    frame = read_table(path, Reading(table="two"))
    np.testing.assert_array_equal(frame.column("y"), [2, 3])
    assert frame.notes == {str(path): "table 'two' is read, of 2"}
    with pytest.raises(TableError, match=r"has no table 'tow'; did you mean 'two'\?"):
        read_table(path, Reading(table="tow"))
    for text in ('{"x": [1, 2]}', '[{"x": 1}]'):
        with pytest.raises(TableError, match="holds no table"):
            read_table(write(tmp_path, text, "t.json"), Reading(table="x"))


def test_odd_values_of_json(tmp_path: Path) -> None:
    text = '[{"x": 1, "y": ' + "9" * 5000 + ', "z": "\\ud83da"}, {"x": 2, "y": 3, "z": "\u2028"}]'
    frame = read_table(write(tmp_path, text, "t.json"))
    np.testing.assert_array_equal(frame.column("y"), [np.inf, 3])
    assert frame.column("z")[0] == "?a"
    path = write(tmp_path, '{"x": "a\u2028b"}\n{"x": "c"}\r\n', "t.jsonl")
    assert list(read_table(path).column("x")) == ["a\u2028b", "c"]


def test_the_table_of_an_archive_with_a_note_beside_it(tmp_path: Path) -> None:
    path = write(tmp_path, zipped({"t.csv": TEXT.encode(), "t.names": b"Names."}), "t.zip")
    frame = read_table(path)
    is_the_table(frame)
    assert frame.notes == {str(path): "of the 2 files in it, 't.csv' is read"}


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_what_would_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(packed, "MAX_UNPACKED_SIZE", 10**5)
    bomb = pack(b"1,2\n" * 10**5)
    zip_bomb = io.BytesIO()
    with zipfile.ZipFile(zip_bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.csv", b"1" * 5 * 10**5)
    for content in (bomb, zip_bomb.getvalue()):
        with pytest.raises(TableError, match=r"over 200 times its size, .*, or unpack the table"):
            read_table(write(tmp_path, content, "t.csv.x"))
    fine = b"x,y\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(20_000))
    assert read_table(write(tmp_path, pack(fine), "t.csv.x")).rows == 20_000


def test_an_archive_in_an_archive_in_an_archive(tmp_path: Path) -> None:
    content = TEXT.encode()
    for _ in range(4):
        content = zipped({"t.zip": content})
    is_the_table(read_table(write(tmp_path, content, "t.zip")))
    content = zipped({"t.zip": content})
    with pytest.raises(TableError, match="cannot be read as a workbook"):
        read_table(write(tmp_path, content, "t.zip"))


def test_names_of_columns_like_first_bytes_of_formats(tmp_path: Path) -> None:
    for names in ("PAR1,PAR2", "FEA1,y", "RDX,RDA", "CDF,x", "DUCKDUCKDUCK,x", "ORC,x"):
        frame = read_table(write(tmp_path, f"{names}\n1,2\n", "t.csv"))
        assert list(frame.columns) == names.split(",")


def test_options_of_other_formats_are_refused(tmp_path: Path) -> None:
    csv = write(tmp_path, TEXT)
    for reading, message in (
        (Reading(sheet="x"), r"sheet is for workbooks: leave it out for .*table\.csv \(CSV\)"),
        (Reading(table="x"), "table is for databases and JSON: leave it out for"),
    ):
        for read in (read_table, of_files):
            with pytest.raises(TableError, match=message):
                read(csv, reading)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(TEXT.encode()))))
    frame = read_table("-")
    is_the_table(frame)
    assert frame.source == "standard input"


def test_a_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    for stdin in (None, closed):
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(TableError, match="standard input is closed"):
            read_table("-")


def test_latin_letters_of_windows(tmp_path: Path) -> None:
    path = write(tmp_path, "größe,stadt\n1,Köln\n2,Zürich\n".encode("cp1252"))
    frame = read_table(path)
    assert list(frame.column("stadt")) == ["Köln", "Zürich"]
    np.testing.assert_array_equal(frame.column("größe"), [1, 2])
    assert "line 1 is not UTF-8: the file is read as Windows-1252" in frame.notes[str(path)]
    assert list(read_table(write(tmp_path, b"x,y\n\x81,1\n")).column("x")) == ["\x81"]
    path = write(tmp_path, '[{"x": "Köln"}]'.encode("cp1252"), "t.json")
    assert "read as Windows-1252" in read_table(path).notes[str(path)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"\xff\xfex\0,\0y", "begins as UTF-16 text, but byte"),
        ("t.csv", b"x,y\n" + b"1,2\n" * 500 + b"\0\1\2", "line 502 holds a zero byte"),
        ("t.csv", b"x,y\n" + b"1,\0\n" * 99, "line 2 holds a zero byte"),
        ("t.csv", b"x,y\n5,3\n" + b"\0,7\n5,3\n" * 99, "line 3 holds a zero byte"),
        ("t.csv", b"\0" * 1000, "line 1 holds a zero byte"),
        ("t.csv.gz", gzip.compress(TEXT.encode() * 99, mtime=0)[:-20], "cannot be unpacked: "),
        (
            "t.csv.bz2",
            bz2.compress(TEXT.encode() * 99)[:-20],
            "cannot be unpacked: .*; copy it anew",
        ),
        (
            "t.csv.xz",
            lzma.compress(TEXT.encode() * 99)[:-20],
            "cannot be unpacked: .*; copy it anew",
        ),
        ("t.csv.zst", b"\x28\xb5\x2f\xfd and no more", "cannot be unpacked: "),
        ("t.zip", zipped({"a": b"x", "b": b"y"}), "holds 2 files, 'a', 'b', instead of one table"),
        ("t.zip", zipped({"a.csv": b"x", "b.csv": b"y"}), "instead of one table"),
        ("t.zip", zipped({}), "holds 0 files|is not a text file"),
        ("t.zip", zipped({"t.csv": TEXT.encode() * 9})[:200], "cannot be unpacked: "),
        ("t.zip", zipped({"t.csv": TEXT.encode() * 9}).replace(b"Rome", b"Roma"), "Bad CRC-32"),
        ("t.zip", b"PK\x03\x04 damaged", "cannot be unpacked: File is not a zip file"),
        ("t.xls", b"\xd0\xcf\x11\xe0\xa1\xb1", "is a file of another kind; expec"),
        (
            "t.rds",
            gzip.compress(b"X\n\0\0\0\3\0", mtime=0),
            "is a file of another kind; expec",
        ),
        (
            "t.tar.gz",
            gzip.compress(b"t" * 257 + b"ustar", mtime=0),
            "is a file of another kind; expec",
        ),
        ("t.pdf", b"%PDF-1.7", "is a file of another kind; expec"),
        ("t.feather", b"ARROW1\0\0 and no more", "cannot be read as Feather: "),
        ("t.json", b'[{"x": 1},\n {"x": }]', "line 2: not JSON: Expecting value"),
        ("t.jsonl", b'{"x": 1}\n{"x": \n', "line 2: not JSON: Expecting value"),
        ("t.json", b"[" * 100_000, "its values are nested too deeply"),
        ("t.csv", b"<!doctype html><html>", "is a file of another kind; expec"),
        ("t.csv", b'""\n', "has a header but no rows"),
        ("t.json", b"[1, 2]", "expected records, as in "),
        ("t.json", b"[]", "holds no records"),
        ("t.json", b" ", "is empty: expected records"),
        ("t.jsonl", b"", "is empty: expected records"),
        (
            "t.json",
            b'{"x": [1], "y": [1, 2]}',
            "has columns of different lengths",
        ),
        ("t.csv", b"\n \n", "is empty: expected a line of column names"),
    ],
)
def test_what_is_not_read_is_one_line(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    with pytest.raises(TableError, match=message) as caught:
        read_table(write(tmp_path, content, name))
    assert "\n" not in str(caught.value)


def test_a_line_break_in_a_quoted_name(tmp_path: Path) -> None:
    path = write(tmp_path, '"mean\r\nradius","a;b;c"\r\n1,2\r\nx,3\r\n')
    frame = read_table(path)
    assert list(frame.columns) == ["mean radius", "a;b;c"]
    np.testing.assert_array_equal(frame.column("a;b;c"), [2, 3])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('x,y\n1,a\n2,"b\n3,c\n', "line 3: a quote is opened here and never closed"),
        ('x,y\n1,a\n2,"b\n3,"c\n4,d\n', "line 3: a quote .* is closed in line 4, before 'c'"),
        ('x,y\n1,a\n"2,b\n3,c\n', "line 3: a quote is opened here and never closed"),
        ('x,y\n1,a\n2,"b\n3,c', "line 3: a quote is opened here and never closed"),
        ('x,y\n1,a\n2,"b', "line 3: a quote is opened here and never closed"),
        ('x,"y\n1,2\n3,4\n', "line 1: a quote is opened here and never closed"),
    ],
)
def test_a_quote_left_open_swallows_nothing(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(TableError, match=message):
        read_table(write(tmp_path, content))


@pytest.mark.parametrize(
    ("content", "cells"),
    [
        ('x,y\n5" pipe,1\nb,2\n', ['5" pipe', "b"]),
        ('x,y\n"two\nlines",1\n"say ""a, b""",2\n', ["two\nlines", 'say "a, b"']),
        ('x,y\n"a" b,1\n\n""\nc,2\n', ["a b", "c"]),
    ],
)
def test_quotes_that_are_fine(tmp_path: Path, content: str, cells: list[str]) -> None:
    assert list(read_table(write(tmp_path, content)).column("x")) == cells


def test_lines_are_counted_in_the_file(tmp_path: Path) -> None:
    rows = "".join(f'{i},"two\nlines"\n\n' for i in range(20))
    frame = read_table(write(tmp_path, f'\n\n"x\ny",note\n{rows}odd,a\n'))
    assert frame.notes["x y"].endswith("'odd' in line 65")


THREE = ["column 1", "column 2", "column 3"]


@pytest.mark.parametrize(
    ("content", "header", "names", "note"),
    [
        ("5.1,3.5,a\n4.9,3,b\n", True, THREE, "line 1 holds values: it is read as data"),
        ("Rome,5\nOslo,6\nRome,7\n", True, THREE[:2], "line 1 holds values"),
        ("39, Oslo, 7\n50, Rome, 3\n38, Oslo, 1\n", True, THREE, "line 1 holds values"),
        ("town,2019,2020\nRome,5,2019\n", True, ["town", "2019", "2020"], ""),
        ("0,1,2\n5,6,7\n", True, ["0", "1", "2"], "is read as names"),
        ("5,6\n7,8\n", True, ["column 1", "column 2"], "line 1 holds values"),
        ("5,6\n7,8\n", False, ["column 1", "column 2"], ""),
        ("x,y\nx,y", False, ["column 1", "column 2"], ""),
    ],
)
def test_a_file_without_names(
    tmp_path: Path, content: str, header: bool, names: list[str], note: str
) -> None:
    path = write(tmp_path, content)
    frame = read_table(path, Reading(header=header))
    assert list(frame.columns) == names
    assert frame.rows == content.strip().count("\n") + (names[0] == "column 1")
    if note:
        assert re.search(note, frame.notes[str(path)])
    else:
        assert frame.notes == {}
