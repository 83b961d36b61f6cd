"""Workbooks: which sheet is read, where its table begins, and what its cells mean."""

from __future__ import annotations

import datetime
import io
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tables_support import ods, ods_row, write, zipped

from hgr_jax.tables import isolated
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.files import read_table
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.workbooks import sheet_of

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


def sheet_rows(body: bytes, name: str, reading: Reading) -> tuple[list[list[Any]], str]:
    """Return the rows and the notes of a sheet of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), body, name)
        sheet = isolated.call_isolated(sheet_of, path, name, reading.sheet, kind="a workbook")
    return sheet.rows, "; ".join(sheet.notes)


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
    notes = [["Notes", None], ["no", "note"], *([i, f"note {i}"] for i in range(1, 7))]
    workbook, body = saved(Cover=[["a"], ["b"]], Texts=notes, Data=TABLE, Further=TABLE)
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
    assert note == "the table begins in row 2"


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
        ["Title", None, None],
        ["town", "sales", None],  # a group of columns is no name of one
        ["town", 1, 2],
        ["Rome", 3, 4],
    ]
    assert [row[0] for row in found[3:10]] == ["Rome"] * 6 + [None]


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
    far.value = 1  # for which the library makes room for all cells between
    with pytest.raises(TableError, match=r"t\.xlsx cannot be read as a workbook: .* far from the"):
        sheet_rows(as_bytes(workbook), "t.xlsx", Reading())


def test_what_a_workbook_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [["x", "y"], *([i, i] for i in range(30_000))]
    body = saved(Data=rows)[1]
    assert len(sheet_rows(body, "t.xlsx", Reading())[0]) == len(rows)
    monkeypatch.setattr(isolated, "TIME_LIMIT", 0.01 - len(body) / isolated.BYTES_A_SECOND)
    with pytest.raises(
        TableError, match=r"t\.xlsx .*more than 0\.01 seconds; save the table as CSV"
    ):
        sheet_rows(body, "t.xlsx", Reading())
    monkeypatch.setattr(isolated, "TIME_LIMIT", 60)
    monkeypatch.setattr(isolated, "MEMORY_LIMIT", 2**25)
    with pytest.raises(TableError, match=r"needs more than 0\.031 GiB of memory"):
        sheet_rows(body, "t.xlsx", Reading())


@pytest.mark.parametrize(("value", "count"), [(None, 0), ("", 6), ("0", 6), ("3", 0)])
def test_formulas_that_were_not_computed(tmp_path: Path, value: str | None, count: int) -> None:
    files = {}
    with zipfile.ZipFile(
        io.BytesIO(saved(Data=[["x", "y"], *([i, 77] for i in range(6))])[1])
    ) as z:
        files = {name: z.read(name) for name in z.namelist()}
    if value is not None:
        sheet = "xl/worksheets/sheet1.xml"
        cell = f"<f>A1*2</f><v>{value}</v>".encode()
        files[sheet] = files[sheet].replace(b"<v>77</v>", cell)
    frame = read_table(write(tmp_path, zipped(files), "t.xlsx"))
    said = " ".join(frame.notes.values())
    assert (f"{count} formulas without a value or with 0" in said) == bool(count)


def test_lines_are_those_of_the_sheet(tmp_path: Path) -> None:
    blank: list[Any] = [None, None, None]
    rows = [blank, blank, [None, "x", "y"], *([None, i, i] for i in range(20)), [None, "odd", 5]]
    path = write(tmp_path, saved(Data=rows)[1], "t.xlsx")
    for options in ({}, {"header": 3}, {"skip": 2}):
        frame = read_table(path, **options)
        assert (list(frame.columns), frame.rows) == (["x", "y"], 21)
        assert "'odd' in row 24 of the sheet" in frame.notes["x"]
    assert list(read_table(path, header=4).columns) == ["0", "0 (2)"]


def test_dates_among_cells_of_other_kinds(tmp_path: Path) -> None:
    """Somebody typed a number or a word into a column of dates."""
    days = [datetime.datetime(2024, 1, 1) + datetime.timedelta(i) for i in range(60)]
    path, rows = tmp_path / "t.xlsx", [[day, i] for i, day in enumerate(days)]
    rows[7][0], rows[9][0] = 45300, "soon"
    path.write_bytes(saved(s=[["day", "x"], *rows])[1])
    frame = read_table(path)
    assert frame.column("day")[0] == np.datetime64("2024-01-01")
    assert "58 of 60 are dates" in frame.notes["day"]
    for row in rows[40:]:
        row[0] = f"{row[0]:%d.%m.%Y}"
    path.write_bytes(saved(s=[["day", "x"], *rows])[1])
    frame = read_table(path)
    assert frame.is_text("day")
    assert "38 of 60 are dates: --types day=date reads these alone" in frame.notes["day"]
    assert np.isnat(read_table(path, types={"day": "date"}).column("day")).sum() == 22


def test_years_that_are_texts_name_their_option(tmp_path: Path) -> None:
    rows = [["year", "y"], *([str(1980 + i), i] for i in range(30))]
    path = write(tmp_path, saved(Data=rows)[1], "t.xlsx")
    assert "--types year=number" in read_table(path).notes["year"]
    assert read_table(path, types={"year": "number"}).column("year")[1] == 1981


def test_a_workbook_with_its_parts_in_other_places(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(saved(Data=TABLE)[1])) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    moved = {}
    for name, content in files.items():
        content = content.replace(b"/xl/", b"/").replace(b'"xl/', b'"')
        moved[name.removeprefix("xl/")] = content
    assert read_table(write(tmp_path, zipped(moved), "t.xlsx")).rows == 3


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
    body = ods(f'<table:table table:name="A &amp; B">{ods_row("a", "b") + pairs}</table:table>')
    frame = read_table(write(tmp_path, body, "t.ods"))
    assert list(frame.columns) == ["a", "b", "column 3"]
    np.testing.assert_array_equal(frame.column("b"), [0, 1, 2])


def test_files_that_are_no_workbooks(tmp_path: Path) -> None:
    for content in (
        ods("")[:-200],
        zipped({"content.xml": b"<a>"}),
        zipped({"content.xml": b"<a/>"}),
    ):
        with pytest.raises(TableError, match=r"t\.ods cannot be (read as a workbook|unpacked)"):
            read_table(write(tmp_path, content, "t.ods"))


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, saved(Data=TABLE)[1], "t.xlsx")
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(ImportError, match=r"python_calamine.*pip install 'hgr_jax\[cli\]'"):
        read_table(path)
