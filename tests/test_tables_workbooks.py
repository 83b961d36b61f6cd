"""Workbooks: which sheet is read, where its table begins, and what its cells mean."""

from __future__ import annotations

import datetime
import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tables_support import ods, ods_row, write, zipped

from hgr_jax.tables import packed
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.files import read_table
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.workbooks import sheet_rows

openpyxl = pytest.importorskip("openpyxl")
pytest.importorskip("python_calamine")

TABLE = [["x", "y"], [1, "a"], [2.5, "b"], [3, "c"]]


def saved(**sheets: list[list[Any]]) -> tuple[Any, bytes]:
    """Return a workbook of sheets of rows, and the file."""
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.active)
    for name, rows in sheets.items():
        sheet = workbook.create_sheet(name)
        for row in rows:
            sheet.append(row)
    return workbook, as_bytes(workbook)


def as_bytes(workbook: Any) -> bytes:
    body = io.BytesIO()
    workbook.save(body)
    return body.getvalue()


def test_a_frame_of_pandas(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    cells = {"x": [*range(20), "-"], "t": ["a", "b", "c"] * 7}
    cells["day"] = pd.date_range("2024-01-01", periods=21)
    pd.DataFrame(cells).to_excel(path, index=False)
    frame = read_table(path)
    np.testing.assert_array_equal(frame.column("x"), [*range(20), np.nan])
    np.testing.assert_array_equal(frame.column("day"), cells["day"].to_numpy())
    assert "'-' in row 22 of the sheet" in frame.notes["x"]
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(TableError, match=r"t\.xlsx cannot be "):
        read_table(path)


def test_the_first_sheet_with_a_table_is_read() -> None:
    workbook, body = saved(Cover=[["a"], ["b"]], Texts=[["a", "b"]] * 5, Data=TABLE, Further=TABLE)
    rows, note = sheet_rows(body, "t.xlsx", Reading())
    assert rows == TABLE
    assert note == "sheet 'Data' is read, of Cover, Texts, Data, Further; --sheet names another"
    workbook["Data"].sheet_state = "hidden"
    note = sheet_rows(as_bytes(workbook), "t.xlsx", Reading())[1]
    assert note.startswith("sheet 'Further' is read, of Cover, Texts, Further, Data;")
    assert sheet_rows(saved(Data=TABLE)[1], "t.xlsx", Reading()) == (TABLE, "")
    _, body = saved(Empty=[], Texts=[["a", "b"]] * 5, Cover=[["a"]])
    assert sheet_rows(body, "t.xlsx", Reading())[0] == [["a", "b"]] * 5
    assert sheet_rows(saved(Empty=[])[1], "t.xlsx", Reading()) == ([], "")


def test_a_sheet_by_name_or_position() -> None:
    body = saved(**{"Cover": [["a"]], "Data": TABLE, "1": [["b"]]})[1]
    for sheet in ("Data", 2, "2"):
        assert sheet_rows(body, "t.xlsx", Reading(sheet=sheet)) == (TABLE, "")
    assert sheet_rows(body, "t.xlsx", Reading(sheet="1"))[0] == [["b"]]  # the name wins
    assert sheet_rows(body, "t.xlsx", Reading(sheet=1))[0] == [["a"]]
    for sheet in ("data", 0, 4):
        with pytest.raises(TableError, match=r"t\.xlsx has no sheet .*; there are 'Cover', 'Data'"):
            sheet_rows(body, "t.xlsx", Reading(sheet=sheet))


def test_a_sheet_of_a_file(tmp_path: Path) -> None:
    path = write(tmp_path, saved(Cover=[["a"]], Data=TABLE)[1], "t.xlsx")
    assert list(read_table(path, Reading(sheet="Data")).columns) == ["x", "y"]
    with pytest.raises(TableError, match="table is for databases and JSON: leave it out"):
        read_table(path, Reading(table="x"))


def test_a_table_that_does_not_begin_in_the_first_cell() -> None:
    blank: list[Any] = [None, None, None]
    rows = [blank, ["  ", None, "x", "y"], blank, [None, None, 1, "a"], [None, None, 2, "b"], blank]
    found, note = sheet_rows(saved(Data=rows)[1], "t.xlsx", Reading())
    assert found == [["x", "y"], [None, None], [1, "a"], [2, "b"]]
    assert note == "the sheet is read from cell C2"


def test_merged_cells() -> None:
    rows = [
        ["Title", None, None],
        ["town", "sales", None],
        [None, 1, 2],
        ["Rome", 3, 4],
        [None] * 3,
    ]
    workbook, _ = saved(Data=[*rows, *[[None, i, i] for i in range(12)]])
    sheet = workbook["Data"]
    for cells in ("A1:C1", "B2:C2", "A2:A3", "A4:A9", "B14:C14"):
        sheet.merge_cells(cells)
    found = sheet_rows(as_bytes(workbook), "t.xlsx", Reading())[0]
    assert found[:4] == [
        ["Title", None, None],  # as wide as the table: no name of a column
        ["town", "sales", "sales"],
        ["town", 1, 2],
        ["Rome", 3, 4],
    ]
    assert [row[0] for row in found[3:10]] == ["Rome"] * 6 + [None]
    assert found[13] == [None, 8, None]  # among the values, the second is missing


def test_what_cells_mean() -> None:
    day, time = datetime.datetime(2024, 1, 2), datetime.time(13, 45)
    moment, span = datetime.datetime(2024, 1, 2, 3, 4), datetime.timedelta(days=2)
    workbook, _ = saved(Data=[["a", "b"], [day, 0.25], [moment, 5.0], [True, time], [span, 1e300]])
    sheet = workbook["Data"]
    sheet["B2"].number_format = "0%"
    sheet["A6"], sheet["B6"] = "#DIV/0!", " "
    sheet["A6"].data_type = "e"
    sheet["B7"] = 1
    rows = sheet_rows(as_bytes(workbook), "t.xlsx", Reading())[0]
    assert rows[1:4] == [[day, 0.25], [moment, 5], [True, time]]
    assert rows[4:] == [[span, 1e300], [None, None], [None, 1]]
    assert isinstance(rows[2][1], int)


def test_a_cell_far_from_the_table() -> None:
    workbook, _ = saved(Data=TABLE)
    far = workbook["Data"]["XFD1048576"]
    far.number_format = "0%"  # is blank
    assert sheet_rows(as_bytes(workbook), "t.xlsx", Reading()) == (TABLE, "")
    far.value = 1
    with pytest.raises(
        TableError, match=r"down to row 1,048,576 and across to column 16,384, more"
    ):
        sheet_rows(as_bytes(workbook), "t.xlsx", Reading())


def test_a_workbook_that_would_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    body = saved(Data=[["a" * 10_000] * 300])[1]
    monkeypatch.setattr(packed, "MAX_UNPACKED_SIZE", 10**6)
    monkeypatch.setattr(packed, "MAX_UNPACKED_RATIO", 1)
    with pytest.raises(TableError, match=r"times its size.*, unpack it"):
        sheet_rows(body, "t.xlsx", Reading())


def test_a_billion_laughs() -> None:
    laughs = '<!DOCTYPE x [<!ENTITY a "ha">' + "".join(
        f'<!ENTITY {name} "{f"&{before};" * 10}">'
        for before, name in zip("abcdefghi", "bcdefghij", strict=True)
    )
    body = io.BytesIO(saved(Data=TABLE)[1])
    with zipfile.ZipFile(body) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = "xl/worksheets/sheet1.xml"
    files[name] = f"{laughs}]>".encode() + files[name].replace(b"2.5", b"&j;")
    try:
        rows = sheet_rows(zipped(files), "t.xlsx", Reading())[0]
    except TableError:
        return
    assert max(len(str(cell)) for row in rows for cell in row) < 100


def test_a_table_of_open_document(tmp_path: Path) -> None:
    pairs = "".join(ods_row(f"a{i}", i, i + 0.5) for i in range(3))
    span = 'table:number-columns-spanned="2" table:number-rows-spanned="1"'
    down = 'table:number-columns-spanned="1" table:number-rows-spanned="3"'
    data = ods_row("sales", None, "costs", options=span) + ods_row(1, 2, 3)
    data += ods_row("x", 1, 2, options=down) + ods_row(None, 1, 2) * 3
    body = ods(
        f'<table:table table:name="A &amp; B">{ods_row("a", "b") + pairs}</table:table>'
        f'<table:table table:name="C">{data}</table:table>'
    )
    frame = read_table(write(tmp_path, body, "t.ods"))
    assert list(frame.columns) == ["a", "b", "column 3"]
    np.testing.assert_array_equal(frame.column("b"), [0, 1, 2])
    rows, _ = sheet_rows(body, "t.ods", Reading(sheet="C"))
    assert rows[0] == ["sales", "sales", "costs"]
    assert [row[0] for row in rows] == ["sales", 1, "x", "x", "x", None]


def test_files_that_are_no_workbooks(tmp_path: Path) -> None:
    for content in (
        ods("")[:-200],
        zipped({"content.xml": b"<a>"}),
        zipped({"content.xml": b"<a/>"}),
    ):
        with pytest.raises(TableError, match=r"t\.ods cannot be (read as a workbook|unpacked): "):
            read_table(write(tmp_path, content, "t.ods"))


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, saved(Data=TABLE)[1], "t.xlsx")
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(ImportError, match=r"python_calamine.*pip install 'hgr_jax\[cli\]'"):
        read_table(path)
