"""Files that were misread: what is uncertain is text, or is said with the option that decides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tables_support import write

from hgr_jax.tables.columns import Frame, as_columns
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.files import read_table

ROWS = 30
RNG = np.random.default_rng(57)


def read(folder: Path, *lines: str, name: str = "t.csv", **options: object) -> Frame:
    return read_table(write(folder, "\n".join([*lines, ""]), name), **options)


def test_two_numbers_with_a_stroke_are_no_fraction(tmp_path: Path) -> None:
    """A blood pressure of 159/85 is not 1.87; of drills, a fraction can be told by an option."""
    rows = [f"{140 + i}/{70 + i},{i}" for i in range(ROWS)]
    frame = read(tmp_path, "pressure,salt", *rows, "163,4")
    assert frame.is_text("pressure")
    assert "--types pressure=number" in as_columns(frame).skipped["pressure"]
    drills = [f"{i % 7 + 1}/{(5, 8, 10, 16)[i % 4]},{i}" for i in range(ROWS)]
    assert "--types drill=number" in read(tmp_path, "drill,rpm", *drills).notes["drill"]
    frame = read(tmp_path, "drill,rpm", *drills, types={"drill": "number"})
    np.testing.assert_allclose(frame.column("drill")[:3], [1 / 5, 2 / 8, 3 / 10])


@pytest.mark.parametrize("place", [0, 7, ROWS - 1])
def test_a_company_called_total_is_no_total(tmp_path: Path, place: int) -> None:
    rows = [f"{'Total' if i == place else f'firm {i}'},{10 + i * i},{i}" for i in range(ROWS)]
    assert read(tmp_path, "firm,revenue,staff", *rows).rows == ROWS
    sums = f"Total,{sum(10 + i * i for i in range(ROWS))},{sum(range(ROWS))}"
    rows = [f"firm {i},{10 + i * i},{i}" for i in range(ROWS)]
    frame = read(tmp_path, "firm,revenue,staff", *rows, sums)
    assert frame.rows == ROWS
    assert "--footer 0" in frame.notes[frame.source]


@pytest.mark.parametrize("place", [0, 20])
def test_a_total_beside_rates_is_a_total(tmp_path: Path, place: int) -> None:
    """Rates of a total are no sums, and what nobody has adds up to 0."""
    people, jobs = RNG.integers(100, 900, (2, 20))
    rows = [f"town {i},{people[i]},{jobs[i]},{40 + i / 7:.1f},0" for i in range(20)]
    rows.insert(place, f"the county,{people.sum()},{jobs.sum()},41.3,0")
    frame = read(tmp_path, "town,people,jobs,rate,deaths", *rows)
    assert frame.rows == 20
    assert "'the county'" in frame.notes[frame.source]


def test_a_total_of_subtotals_is_said(tmp_path: Path) -> None:
    rows, total = list[str](), np.zeros(2, int)
    for part in range(3):
        numbers = RNG.integers(100, 900, (6, 2))
        rows += [f"town {part}{i},{a},{b},{i + 2.5}" for i, (a, b) in enumerate(numbers)]
        rows.append(f"district {part},{numbers[:, 0].sum()},{numbers[:, 1].sum()},4.5")
        total += numbers.sum(axis=0)
    frame = read(tmp_path, "place,people,jobs,rate", *rows, f"county,{total[0]},{total[1]},4.5")
    assert frame.rows == 22
    assert "the last row, 'county', may hold totals (--footer 1)" in frame.notes[frame.source]


def test_a_total_of_a_long_file_is_said(tmp_path: Path) -> None:
    rows = [f"firm {i} of the long list of firms,{i},{i % 7}" for i in range(9000)]
    frame = read(tmp_path, "firm,revenue,staff", *rows, f"Total,{sum(range(9000))},9")
    assert frame.rows == 9001
    assert "'Total', may hold totals (--footer 1)" in frame.notes[frame.source]


@pytest.mark.parametrize("mark", ["%", "#", "//"])
def test_rows_that_begin_as_comments_do(tmp_path: Path, mark: str) -> None:
    rows = [f"{mark + ' of women' if i % 8 == 3 else f'name {i}'},{i},{i % 5}" for i in range(ROWS)]
    assert read(tmp_path, "indicator,a,b", *rows).rows == ROWS
    assert read(tmp_path, f"{mark} made in May", "indicator,a,b", *rows).rows == ROWS
    frame = read(tmp_path, "indicator,a,b", rows[0], f"{mark} a gap", rows[1])
    assert "1 row is shorter than the table, the first in line 3" in frame.notes[frame.source]
    frame = read(tmp_path, "indicator,a,b", rows[0], f"{mark} a gap", rows[1], comment=mark)
    assert frame.rows == 2


def test_quoted_texts_with_spaces_between_spaces(tmp_path: Path) -> None:
    rows = [f'"{i + 1}" {i * 1.5} {i} "{("Old Bridge", "Mill")[i % 2]}"' for i in range(ROWS)]
    frame = read(tmp_path, '"distance" "minutes" "stop"', *rows, name="t.txt")
    assert list(frame.columns) == ["column 1", "distance", "minutes", "stop"]
    assert frame.column("stop")[0] == "Old Bridge"
    assert frame.rows == ROWS


@pytest.mark.parametrize("first", ["A\n2\n", "X\n10\n", "RDX\n"])
def test_one_column(tmp_path: Path, first: str) -> None:
    path = write(tmp_path, first + "".join(f"{i}\n" for i in range(ROWS)))
    assert len(read_table(path).columns) == 1


def test_a_point_is_what_it_is_in_other_columns(tmp_path: Path) -> None:
    """1.125 beside 3 is no 1125, and not where another column shows a decimal point."""
    eighths = [f"{3 * i / 8:.3f}".replace(".000", "") for i in range(ROWS)]
    odd = [
        text for text in eighths if "." not in text or text.endswith(("125", "375", "625", "875"))
    ]
    frame = read(tmp_path, "thick,price", *(f"{text},{i}.5" for i, text in enumerate(odd)))
    np.testing.assert_allclose(frame.column("thick"), [float(text) for text in odd])
    frame = read(tmp_path, "thick,n", *(f"{text},{i}" for i, text in enumerate(odd)))
    np.testing.assert_allclose(frame.column("thick"), [float(text) for text in odd])


def test_years_of_two_digits_are_not_in_the_future(tmp_path: Path) -> None:
    years = [
        f"{1 + i % 28:02}/{1 + i % 12:02}/{(37 + 5 * i // 3) % 100:02},{i}" for i in range(ROWS)
    ]
    born = read(tmp_path, "born,x", *years).column("born")
    found = born.astype("M8[Y]").astype(int) + 1970
    assert found.tolist() == [1937 + 5 * i // 3 for i in range(ROWS)]


@pytest.mark.parametrize(
    ("text", "option", "first"),
    [
        ("10{:02}2021", "mdy", "2021-10-01"),
        ("{:02}102021", "dmy", "2021-10-01"),
        ("6211{:02}", "date", "1962-11-01"),
    ],
)
def test_dates_of_digits_alone_are_said(tmp_path: Path, text: str, option: str, first: str) -> None:
    rows = [f"{text.format(i % 28 + 1)},{i}" for i in range(ROWS)]
    note = read(tmp_path, "day,x", *rows).notes.get("day", "")
    assert "they may be dates of " in note
    assert f"(--types day={option})" in note
    frame = read(tmp_path, "day,x", *rows, types={"day": option})
    assert str(frame.column("day")[0])[:10] == first


def test_names_between_doubled_tabs(tmp_path: Path) -> None:
    rows = [f"{i}\t{i * 2}\t{i % 3}\t{i % 5}\t" for i in range(ROWS)]
    frame = read(tmp_path, "a\t\tb\t\tc\td\tnote", *rows, name="t.txt")
    assert list(frame.columns) == ["a", "b", "c", "d", "note"]
    assert frame.column("b")[1] == 2


def test_columns_that_are_alike_have_an_example(tmp_path: Path) -> None:
    rows = [",".join(f"{i + j}.5{(' p', '', '')[i % 3]}" for j in range(6)) for i in range(ROWS)]
    said = str(read(tmp_path, ",".join("abcdef"), *rows))
    assert "as in a, '0.5 p' is read as 0.5" in said
    assert "... is read as ..." not in said


def test_a_table_below_a_preamble(tmp_path: Path) -> None:
    lines = ["Reference data", "Dataset Name:   Dough", "", "Mean 5 1.68 2.1 2.1", "Within 54 1.8"]
    rows = [f"           {i % 6}       {9 + i / 7:.4f}" for i in range(60)]
    frame = read(tmp_path, *lines, "", "Data:  Treatment   Response", *rows, name="t.dat")
    assert (list(frame.columns), frame.rows) == (["Treatment", "Response"], 60)
    assert "--skip" in frame.notes[frame.source]


@pytest.mark.parametrize("rows", [20, 43, 120])
def test_no_cell_holds_two_numbers(tmp_path: Path, rows: int) -> None:
    lines = [
        f"{i:5} {-i / 7:14.6e} {i / 9:14.6e}{i % 2:5}{1:5}  {i / 3:12.6e}  1.0e+000"
        for i in range(1, rows + 1)
    ]
    frame = read(tmp_path, "Profile=4", "    2", *lines, name="t.dat")
    assert (len(frame.columns), frame.rows) == (7, rows)
    assert not any(frame.is_text(name) for name in frame.columns)


def test_a_row_that_is_too_long_names_an_option(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"line 3: expected 2 values.*--skip N leaves out"):
        read(tmp_path, "x,y", "1,2", "1,2,,5", "2,3")


def test_scaled_numbers_are_text(tmp_path: Path) -> None:
    """4.5K beside 300 is no 4.5."""
    scaled = [f"{('4.5K', '300', '1.2M')[i % 3]},{i}" for i in range(ROWS)]
    assert read(tmp_path, "k,x", *scaled).is_text("k")
