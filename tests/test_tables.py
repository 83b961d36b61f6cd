"""Reading of CSV files: every way a file can be wrong has its own line."""

from __future__ import annotations

import os
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables_support import write

from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.files import read_table
from hgr_jax.tables.levels import encode_texts
from hgr_jax.tables.meanings import MISSING
from hgr_jax.tables.reading import Reading


def read_columns(path: Path, names: list[str]) -> list[np.ndarray]:
    frame = read_table(path, Reading(columns=names))
    return [frame.column(name) for name in names]


@pytest.mark.parametrize("missing", sorted(MISSING | {"NaN", "NA", " ", "#N/A", "NULL", "-1.#IND"}))
def test_missing_values_are_nan(tmp_path: Path, missing: str) -> None:
    frame = read_table(write(tmp_path, f"x,y\n1,0\n{missing},0\n"))
    np.testing.assert_array_equal(frame.column("x"), [1, np.nan])
    if missing.strip():
        assert frame.notes[frame.source] == f"read as missing: {missing!r} (1)"
    else:
        assert frame.notes == {}


ORDERED = "x,y,name\n1,2.5,ann\n-3e2, 4 ,bob\n"


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        *((ORDERED.replace(",", d), {"y": [2.5, 4], "x": [1, -300]}) for d in ",;\t|"),
        (  # quotes, line ends, a mark, and blank lines
            b'\xef\xbb\xbf"a, in m",b\r\n"1","2"\r\n\r\n   \r\n3,4\r\n',
            {"a, in m": [1, 3], "b": [2, 4]},
        ),
        ('x,y\n1,2\n""\n3,4\n', {"y": [2, 4]}),  # a line of quotes alone is blank
        ('"a;b;c",y\n1,2\n', {"y": [2]}),  # delimiters inside quotes do not count
    ],
)
def test_columns_in_the_order_asked_for(
    tmp_path: Path, content: str | bytes, columns: dict[str, list[float]]
) -> None:
    found = read_columns(write(tmp_path, content), list(columns))
    for column, values in zip(found, columns.values(), strict=True):
        np.testing.assert_array_equal(column, values)


def test_columns_that_are_not_wanted_do_not_matter(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, ",x,y,y\n0,1,2,3\n"), Reading(columns=["x"]))
    assert list(table.columns) == ["x"]
    assert table.notes == {}
    first, second = read_columns(write(tmp_path, "x\n1\n2\n"), ["x", "x"])
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("\n", "is empty"),
        ("x,y\n", "has a header but no rows"),
        ("x,y\n1,2\n3,4,5\n", "line 3: expected 2 values as in the header, got 3"),
        ("x,y\n1,2,3\n", "line 2: expected 2 values as in the header, got 3"),
        ("x,z\n1,2\n", "has no column 'y'; there are x, z"),
        ("x,Y\n1,2\n", "has no column 'y'; did you mean 'Y'?"),
        ("x,yy\n1,2\n", "has no column 'y'; did you mean 'yy'?"),
        (b"x,y\n1,\x002\n", r"is not a text file \(line 2 holds a zero byte\); expected CSV, "),
    ],
)
def test_every_fault_has_its_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(TableError, match=message) as caught:
        read_columns(write(tmp_path, content), ["x", "y"])
    assert "\n" not in str(caught.value)


def test_no_such_file_and_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="no such file"):
        read_columns(tmp_path / "none.csv", ["x"])
    with pytest.raises(TableError, match=r"cannot read .*: Is a directory"):
        read_columns(tmp_path, ["x"])


def test_a_whole_table(tmp_path: Path) -> None:
    text = 'x,"name, short",y\n1,ann,NA\n\n-3e2, bob ,4\n?,,inf\n'
    table = read_table(write(tmp_path, text))
    assert list(table.columns) == ["x", "name, short", "y"]
    assert table.rows == 3
    np.testing.assert_array_equal(table.column("x"), [1, -300, np.nan])
    np.testing.assert_array_equal(table.column("name, short"), ["ann", "bob", ""])
    assert [table.is_text(name) for name in table.columns] == [False, True, False]
    np.testing.assert_array_equal(table.missing("name, short"), [False, False, True])
    np.testing.assert_array_equal(table.missing("y"), [True, False, True])
    assert table.take(np.array([True, False, True])).column("x")[0] == 1
    with pytest.raises(TableError, match="no column 'nane'"):
        table.column("nane")


@pytest.mark.parametrize(
    "cells",
    [
        ["1", "2 long metres"],
        ["1_000", "2"],
        ["1", "2", "3", "4", "5", "6", "7", "8", "x"],
        ["yes", "?"],
    ],
)
def test_texts_among_few_numbers_make_a_column_of_text(tmp_path: Path, cells: list[str]) -> None:
    table = read_table(write(tmp_path, "\n".join(["x,y", *(f"{cell},0" for cell in cells), ""])))
    assert table.is_text("x")
    assert list(table.column("x")) == [cell.replace("?", "") for cell in cells]


def test_a_column_all_missing_is_of_numbers(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "x,y\n,0\nNA,1\n"))
    assert not table.is_text("x")
    assert table.missing("x").all()


def test_a_cell_of_any_length_is_read(tmp_path: Path) -> None:
    cell = "a" * 3_000_000
    table = read_table(write(tmp_path, f'x,y\n"{cell}",1\n'))
    assert table.column("x")[0] == cell


def test_a_long_text_does_not_lengthen_the_others() -> None:
    texts = ["b", "a" * 10**5, "ä", "b"] * 1000
    tracemalloc.start()
    category = encode_texts(texts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**7
    assert category.levels == ("a" * 10**5, "b", "ä")
    assert category.codes[:4].tolist() == [1, 0, 2, 1]


def test_a_pipe_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("x,y\n1,2\n",))
    writer.start()
    (y,) = read_columns(pipe, ["y"])
    writer.join()
    np.testing.assert_array_equal(y, [2])


@pytest.mark.parametrize(
    ("header", "names"),
    [
        (",0,1", ["column 1", "0", "1"]),
        ('"",x,"",z', ["column 1", "x", "column 3", "z"]),
        ("x,x,y,x", ["x", "x (2)", "y", "x (3)"]),
        ("x,x,x (2),x", ["x", "x (3)", "x (2)", "x (4)"]),
        ("x,x (2),x (2),x", ["x", "x (2)", "x (2) (2)", "x (3)"]),
        (",column 1,column 1", ["column 1 (2)", "column 1", "column 1 (3)"]),
    ],
)
def test_any_names_will_do_for_a_scan(tmp_path: Path, header: str, names: list[str]) -> None:
    path = write(tmp_path, f"{header}\n{','.join(map(str, range(len(names))))}\n")
    frame = read_table(path)
    assert list(frame.columns) == names
    assert [float(column[0]) for column in frame.columns.values()] == list(range(len(names)))
    assert frame.notes
    assert set(frame.notes) <= {*names, str(path)}


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["2024-02-29", "1969-12-31"], ["2024-02-29", "1969-12-31"]),
        (["", "2024-05-01", "NA"], ["NaT", "2024-05-01", "NaT"]),
        (["2024-05-01T06:30", "2024-05-02 23:59:59"], ["2024-05-01T06:30", "2024-05-02T23:59:59"]),
        (['" 2024-05-01 "', "2024-05-01T00:00:01"], ["2024-05-01", "2024-05-01T00:00:01"]),
    ],
)
def test_dates(tmp_path: Path, cells: list[str], expected: list[str]) -> None:
    path = write(tmp_path, "\n".join(["day,y", *(f"{cell},0" for cell in cells), ""]))
    day = read_table(path).column("day")
    assert day.dtype == "datetime64[s]"
    np.testing.assert_array_equal(day, np.array(expected, "datetime64[s]"))


@pytest.mark.parametrize(
    "cell",
    [
        *("2023-02-29", "2024-13-01", "2024-00-00", "2024-05-01 24:00", "2024-05-01T10:60"),
        *("2024-05", "2024-5-1", "20240501 ok", "01.05.2024", "2024-05-01T", "2024-05-01 10"),
        *("2024-05-01T10:00Z", "NaT", "today", "7", "२०२४-०५-०१"),
    ],
)
def test_one_that_is_no_date_makes_a_column_of_text(tmp_path: Path, cell: str) -> None:
    frame = read_table(write(tmp_path, f"day,y\n2024-05-01,0\n{cell},1\n,2\n"))
    assert list(frame.column("day")) == ["2024-05-01", cell, ""]


@given(text=st.text())
def test_printable_text_has_no_control_characters(text: str) -> None:
    assert printable(text).isprintable()
