"""What the texts of a column are taken for, and that it is said; the same in files and frames."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tables_support import write_cells

from hgr_jax.tables.arrays import parse_column
from hgr_jax.tables.columns import as_columns
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.files import read_table
from hgr_jax.tables.meanings import Hints
from hgr_jax.tables.number_texts import as_number
from hgr_jax.tables.reading import Reading

LARGE = 2**53 + 1
NUMBERS = [str(i + 0.5) for i in range(45)]


@pytest.mark.parametrize(
    "odd",
    ["-", "--", "ND", "*", "see note", "12 kg", "2024-01-01"],
)
def test_few_odd_texts_do_not_drop_a_column_of_numbers(tmp_path: Path, odd: str) -> None:
    cells = [*NUMBERS[:5], odd, *NUMBERS[5:], odd]
    frame = read_table(write_cells(tmp_path, cells))
    expected = [i + 0.5 for i in range(5)] + [np.nan] + [i + 0.5 for i in range(5, 45)] + [np.nan]
    np.testing.assert_array_equal(frame.column("x"), expected)
    assert frame.notes == {
        "x": "45 of 47 are numbers, the rest is read as missing; the first that is not:"
        f" {odd!r} in line 7"
    }


def test_few_that_are_not_plain_are_read_as_all_would_be(tmp_path: Path) -> None:
    cells = [*NUMBERS, "$5", "(3)", "see note", str(LARGE)]
    frame = read_table(write_cells(tmp_path, cells))
    hints = Hints(typed=True, where=lambda row: f"in line {row + 2}")
    found = parse_column(np.array(cells, dtype=object), hints)
    np.testing.assert_array_equal(frame.column("x"), found.values)
    np.testing.assert_array_equal(found.values[-4:], [5, -3, np.nan, LARGE - 1])
    assert frame.notes["x"] == found.note
    assert found.note.startswith("'$5' is read as 5; 48 of 49 are numbers")
    assert found.note.endswith("'see note' in line 49")


def test_dashes_are_missing_however_many(tmp_path: Path) -> None:
    frame = read_table(write_cells(tmp_path, [*NUMBERS[:5], *["-"] * 40]))
    assert np.isnan(frame.column("x")).sum() == 40
    assert "5 of 45 are numbers" in frame.notes["x"]
    assert read_table(write_cells(tmp_path, ["-", "+"] * 9)).is_text("x")
    for others, is_text in ((9, False), (8, True)):  # one of ten that is no number is the most
        cells = [*NUMBERS[:others], "low"]
        assert read_table(write_cells(tmp_path, cells)).is_text("x") == is_text


@pytest.mark.parametrize(
    ("text", "point", "value"),
    [
        ("$5,125.73", ".", 5125.73),
        ("-$5,125.73", ".", -5125.73),
        ("$-5", ".", -5),
        ("(1,250)", ".", -1250),
        ("51.3%", ".", 51.3),
        ("51.3 %", ".", 51.3),
        ("51,257", ".", 51257),
        ("51,257", ",", 51.257),
        ("1 234 567.5", ".", 1234567.5),
        ("1\u202f234,5 \u20ac", ",", 1234.5),
        ("1.234.567,5", ",", 1234567.5),
        ("\u22123,5", ",", -3.5),
        ("+.5", ".", 0.5),
        (",5e2", ",", 50),
        *(
            (text, ".", None)
            for text in (
                "5,12",
                "0,123",
                "1,2345",
                "(5",
                "5)",
                "--5",
                "-$-5",
                "12 Main Street",
                "%",
            )
        ),
        *((text, ".", None) for text in ("$", "1,234 567", "1_000", "", "5%%")),
        *((text, ",", None) for text in ("3.14", "1,2,3", "1.23,4")),
    ],
)
def test_numbers_as_people_write_them(text: str, point: str, value: float | None) -> None:
    assert as_number(text, point) == value


@pytest.mark.parametrize(
    ("cells", "values", "note"),
    [
        (["$5,125.73", "$80"], [5125.73, 80], "'$5,125.73' is read as 5125.73"),
        (["51.3%", "7%"], [51.3, 7], "'51.3%' is read as 51.3"),
        (["7", "51,257"], [7, 51257], "'51,257' is read as 51257; --decimal , reads it otherwise"),
        (["1,5", "7", "-2,25"], [1.5, 7, -2.25], "'1,5' is read as 1.5 (a decimal comma)"),
        (["1.234,5", "7"], [1234.5, 7], "'1.234,5' is read as 1234.5 (a decimal comma)"),
        (["-0,301", "1,234"], [-0.301, 1.234], "'-0,301' is read as -0.301 (a decimal comma)"),
        (["-0,301", "$7"], [-0.301, 7], "'-0,301' is read as -0.301 (a decimal comma)"),
        (["1,234", "2,5"], [1.234, 2.5], "'1,234' is read as 1.234 (a decimal comma)"),
    ],
)
def test_what_is_not_plain_is_said(
    tmp_path: Path, cells: list[str], values: list[float], note: str
) -> None:
    frame = read_table(write_cells(tmp_path, cells))
    np.testing.assert_allclose(frame.column("x"), values)
    assert frame.notes == {"x": note}


def test_a_decimal_comma_in_one_column_is_one_in_all(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x;y;z\n1,234;0,5;1\n5,678;12,25;2.5\n")
    frame = read_table(path)
    np.testing.assert_allclose(frame.column("x"), [1.234, 5.678])
    np.testing.assert_allclose(frame.column("z"), [1, 2.5])
    path.write_text("x;y\n1,234;0\n5,678;12\n")
    np.testing.assert_allclose(read_table(path).column("x"), [1234, 5678])
    for point, x in ((",", [1.234, 5.678]), (".", [1234, 5678])):
        np.testing.assert_allclose(read_table(path, Reading(decimal=point)).column("x"), x)
    path.write_text("1,5;2,5;3,5\n4,5;5,5;6\n")
    assert [column.tolist() for column in read_table(path).columns.values()] == [
        *([1.5, 4.5], [2.5, 5.5], [3.5, 6])
    ]
    path.write_text("x;y\n1.234;0,5\n5.678,25;12\n")
    frame = read_table(path, Reading(decimal=","))
    np.testing.assert_allclose(frame.column("x"), [1234, 5678.25])
    assert read_table(write_cells(tmp_path, ["1,5", "2,5"]), Reading(decimal=".")).is_text("x")


@pytest.mark.parametrize(
    ("cells", "dates", "note"),
    [
        (["01/02/2024", "03/04/2024"], ["2024-01-02", "2024-03-04"], "month, day, year"),
        (["01/02/2024", "13/04/2024"], ["2024-02-01", "2024-04-13"], "day, month, year"),
        (["1/2/24 5:07 PM", "1/2/99 12:00 AM"], ["2024-01-02T17:07", "1999-01-02"], "month, day"),
        (["13.04.2024", "01.02.2024 10:30"], ["2024-04-13", "2024-02-01T10:30"], "day, month"),
        (["2024/1/2", "2024/12/31"], ["2024-01-02", "2024-12-31"], "year, month, day"),
        (["5 Jan 2024", "17 September 2024"], ["2024-01-05", "2024-09-17"], "name of the month"),
        (["Jan 5, 2024", "Sept. 17, 2024 1:45 PM"], ["2024-01-05", "2024-09-17T13:45"], "name of"),
        (["05-Jan-2024", "17-SEP-99 13:45:10"], ["2024-01-05", "1999-09-17T13:45:10"], "name of"),
        (["05/May/2024:13:45:10", "6. May 2024"], ["2024-05-05T13:45:10", "2024-05-06"], "name of"),
        (["2024-01-02T00:00:00.000Z", "2024-01-02T00:00:00.250Z"], [], ""),
        (["2024-01-02T02:00:00+02:00", "2024-01-02T00:00:00.250Z"], [], ""),
        (["2024-01-02", "2024-01-02T00:00:00.250"], [], ""),
    ],
)
def test_dates_as_they_are_written(
    tmp_path: Path, cells: list[str], dates: list[str], note: str
) -> None:
    frame = read_table(write_cells(tmp_path, cells))
    expected = np.array(dates or ["2024-01-02", "2024-01-02T00:00:00.250"], "M8[us]")
    np.testing.assert_array_equal(frame.column("x"), expected)
    assert note in frame.notes.get("x", "")
    assert bool(note) == ("x" in frame.notes)


@pytest.mark.parametrize(
    ("cells", "hours", "note"),
    [
        (["13:45", "8:00"], [13.75, 8], "'13:45' is read as 13.75 (hours since"),
        (["13:45:36", "00:00:00.9"], [13.76, 0.00025], "'13:45:36' is read as 13.76 (hours since"),
        (["1:45 pm", "12:00 AM"], [13.75, 0], "'1:45 pm' is read as 13.75 (hours since midnight)"),
    ],
)
def test_times_of_day(tmp_path: Path, cells: list[str], hours: list[float], note: str) -> None:
    frame = read_table(write_cells(tmp_path, [*cells * 10, "noon"]))
    np.testing.assert_allclose(frame.column("x"), [*hours * 10, np.nan])
    assert frame.notes["x"].startswith(note)
    assert "20 of 21 are times, the rest is read as missing" in frame.notes["x"]


@pytest.mark.parametrize(
    "text",
    [
        *("5 Jam 2024", "31 Feb 2024", "Jam 2024", "Quarter 1", "1995Q5", "2024-W54"),
        *("13:60", "1:5", "13:45 PM", "0:30 AM", "3:1", "12 parsecs 3"),
    ],
)
def test_texts_that_are_near_dates_or_times(tmp_path: Path, text: str) -> None:
    assert read_table(write_cells(tmp_path, [text] * 5)).is_text("x")


@pytest.mark.parametrize("library", ["pandas", "polars", "parquet", "xlsx"])
def test_times_that_are_typed(tmp_path: Path, library: str) -> None:
    times = [datetime.time(8 + i % 10, 15) for i in range(29)] + [None]
    table: Any = {"pandas": pd, "polars": pl}.get(library, pd).DataFrame(
        {"at": times, "x": range(30)}
    )
    if library == "parquet":
        table.to_parquet(tmp_path / "t.parquet")
        table = read_table(tmp_path / "t.parquet")
    elif library == "xlsx":
        table.to_excel(tmp_path / "t.xlsx", index=False)
        table = read_table(tmp_path / "t.xlsx")
    found = as_columns(table)
    np.testing.assert_allclose(found.numbers[:3, 0], [8.25, 9.25, 10.25])
    assert np.isnan(found.numbers[29, 0])
    assert found.notes == {"at": "'08:15:00' is read as 8.25 (hours since midnight)"}


def test_a_day_that_is_none_is_missing_among_many(tmp_path: Path) -> None:
    frame = read_table(write_cells(tmp_path, [f"2024-01-{i:02}" for i in range(1, 33)]))
    assert np.isnat(frame.column("x")).tolist() == [False] * 31 + [True]
    assert frame.notes["x"].endswith("the first that is not: '2024-01-32' in line 33")
    days = frame.in_days()
    np.testing.assert_array_equal(days.column("x")[:31], np.arange(31.0))
    assert days.notes["x"].endswith("; days since 2024-01-01")


def test_other_marks_of_missing_values(tmp_path: Path) -> None:
    path = write_cells(tmp_path, ["1", "-999", "3"])
    np.testing.assert_array_equal(
        read_table(path, Reading(na=["-999"])).column("x"), [1, np.nan, 3]
    )
    path = write_cells(tmp_path, ["red", "Unknown", "blue"])
    assert list(read_table(path, Reading(na=["unknown"])).column("x")) == ["red", "", "blue"]
    pd.DataFrame({"x": [1.0, -999, 3], "y": ["a", "none given", "b"]}).to_parquet(
        tmp_path / "t.parquet"
    )
    frame = read_table(tmp_path / "t.parquet", Reading(na=["-999", "None given"]))
    np.testing.assert_array_equal(frame.column("x"), [1, np.nan, 3])
    assert list(frame.column("y")) == ["a", "", "b"]


TEXTS = {
    "odd": [*(str(i / 2) for i in range(29)), "-"],
    "money": [f"${i + 1},000" for i in range(30)],
    "day": [f"2024-01-{i + 1:02}" for i in range(30)],
    "american": [f"01/{i + 1:02}/2024" for i in range(30)],
    "named": [f"Jan {i + 1}, 2024" for i in range(30)],
    "time": [f"{i % 24}:15" for i in range(30)],
    "flag": [str(i % 3 == 0) for i in range(30)],
    "town": ["Rome", "Oslo", "Bern"] * 10,
}


@pytest.mark.parametrize("library", ["pandas", "objects", "polars", "mapping", "parquet"])
def test_a_file_means_the_same_to_a_scan_of_a_frame(tmp_path: Path, library: str) -> None:
    path = tmp_path / "t.csv"
    pd.DataFrame(TEXTS).to_csv(path, index=False)
    of_file = as_columns(read_table(path))
    if library == "parquet":
        pd.DataFrame(TEXTS).to_parquet(tmp_path / "t.parquet")
        table: Any = read_table(tmp_path / "t.parquet")
    else:
        table = {
            "pandas": lambda: pd.read_csv(path),
            "objects": lambda: pd.DataFrame(TEXTS, dtype=object),
            "polars": lambda: pl.read_csv(path, infer_schema_length=0),
            "mapping": lambda: TEXTS,
        }[library]()
    found = as_columns(table)
    assert found.names == of_file.names
    assert found.number_positions.tolist() == of_file.number_positions.tolist() == [*range(7)]
    np.testing.assert_array_equal(found.numbers, of_file.numbers)
    assert [c.levels for c in found.categories] == [("Bern", "Oslo", "Rome")]
    assert not found.skipped
    assert "'-' in line 31" in of_file.notes["odd"]
    assert found.notes.keys() == of_file.notes.keys()


def test_texts_that_all_are_numbers_were_made_texts() -> None:
    found = as_columns({"code": ["1", "2", "3"] * 10, "x": list(range(30))})
    assert [c.levels for c in found.categories] == [("1", "2", "3")]
    assert "convert them" in found.notes["code"]
    of_frame = as_columns(pd.DataFrame({"x": pd.Categorical(["1", "2", "-"] * 10)}))
    assert of_frame.categories[0].levels == ("-", "1", "2")


def test_marks_of_missing_values_in_frames() -> None:
    texts = [" Rome ", "Oslo", "?", " NA", "None", "Rome"] * 6
    found = as_columns({"town": texts, "x": range(36), "n": ["1", " ?", "nan"] * 12})
    assert found.categories[0].levels == ("Oslo", "Rome")
    assert np.sum(found.categories[0].codes < 0) == 18
    assert found.notes["town"] == "read as missing: '?' (6), 'NA' (6), 'None' (6)"
    assert found.skipped == {"n": "every value that is present is 1"}
    codes = as_columns({"x": range(36), "n": ["1", "2", "nan"] * 12})
    assert codes.categories[0].levels == ("1", "2")
    mixed = as_columns({"x": range(36), "n": np.array([1, "2", 3.5, "?"] * 9, object)})
    assert mixed.numbers[:4, 1].tolist()[:3] == [1, 2, 3.5]


def test_long_identifiers_are_left_out(tmp_path: Path) -> None:
    rows = "\n".join(f"{2**63 - 807 + i},{i % 7}" for i in range(30))
    (tmp_path / "t.csv").write_text(f"id,x\n{rows}\n")
    reason = read_table(tmp_path / "t.csv").skipped["id"]
    assert reason.startswith("identifiers of 19 digits, such as 9223372036854775001")
    assert "id" in read_table(tmp_path / "t.csv", Reading(types={"id": "number"})).columns


def test_columns_to_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y,y,\n1,2,3,4\n5,6,7,8\n")
    assert list(read_table(path, Reading(columns=["y (2)", "x"])).columns) == ["x", "y (2)"]
    assert list(read_table(path, Reading(drop=["y", "column 4"])).columns) == ["x", "y (2)"]
    assert list(read_table(path, Reading(columns=["x", "y"], drop=["y"])).columns) == ["x"]
    for reading in (Reading(columns=["z"]), Reading(drop=["z"])):
        with pytest.raises(TableError, match="has no column 'z'; there are x, y"):
            read_table(path, reading)
    with pytest.raises(TableError, match="no column is left to read"):
        read_table(path, Reading(columns=["x"], drop=["x"]))
