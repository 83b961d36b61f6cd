"""Tables of SQLite and DuckDB, and files of SPSS, Stata and SAS."""

from __future__ import annotations

import contextlib
import gzip
import io
import sqlite3
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tables_support import write

from hgr_jax.tables import isolated
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.files import read_table
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.sources import Source, of_files, open_path

TABLE = 'CREATE TABLE "my table" (x, y TEXT, day TEXT, b)'
ROWS = [(1, "2", "2024-01-02", b"x"), (2.5, "3.5", "2024-01-03", None), (None, None, None, None)]


@pytest.fixture
def sqlite(tmp_path: Path) -> Path:
    path = tmp_path / "t.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(TABLE)
        database.executemany('INSERT INTO "my table" VALUES (?, ?, ?, ?)', ROWS)
        database.commit()
    return path


def is_the_table(frame: Any) -> None:
    np.testing.assert_array_equal(frame.column("x"), [1, 2.5, np.nan])
    np.testing.assert_array_equal(frame.column("y"), [2, 3.5, np.nan])
    days = np.array(["2024-01-02", "2024-01-03", "NaT"], "M8[us]")
    np.testing.assert_array_equal(frame.column("day"), days)


def test_a_database_on_standard_input(sqlite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(sqlite.read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    is_the_table(read_table("-"))


def test_the_table_of_sqlite(sqlite: Path) -> None:
    before = sorted(sqlite.parent.iterdir())
    frame = read_table(sqlite)
    is_the_table(frame)
    assert frame.skipped == {"b": "binary data (BLOB), neither numbers nor text"}
    assert frame.notes == {}
    assert sorted(sqlite.parent.iterdir()) == before
    packed = write(sqlite.parent, gzip.compress(sqlite.read_bytes()), "t.db.gz")
    is_the_table(read_table(packed))


def test_several_tables_of_sqlite(sqlite: Path) -> None:
    with contextlib.closing(sqlite3.connect(sqlite)) as database:
        database.execute('CREATE VIEW double AS SELECT 2 * x AS x2 FROM "my table"')
        database.execute("CREATE TABLE none (x)")
        database.commit()
    with pytest.raises(TableError, match="holds 3 tables, 'my table', 'double', 'none'; --table n"):
        read_table(sqlite)
    frame = read_table(sqlite, Reading(table="double"))
    np.testing.assert_array_equal(frame.column("x2"), [2, 5, np.nan])
    assert frame.notes == {str(sqlite): "table 'double' is read, of 3"}
    with pytest.raises(TableError, match=r"has no table 'duble'; did you mean 'double'\?"):
        read_table(sqlite, Reading(table="duble"))
    with pytest.raises(TableError, match="holds no records"):
        read_table(sqlite, Reading(table="none"))
    with pytest.raises(TableError, match="sheet is for workbooks"):
        read_table(sqlite, Reading(sheet="none"))


def test_a_damaged_database(tmp_path: Path, sqlite: Path) -> None:
    body = sqlite.read_bytes()
    for content in (b"SQLite format 3\0", body[:3000]):
        with pytest.raises(TableError, match=r"cannot be read as SQLite: |holds no table"):
            read_table(write(tmp_path, content, "u.db"))
    with contextlib.closing(sqlite3.connect(tmp_path / "empty.db")) as database:
        database.execute("CREATE TABLE t (x)")
        database.execute("DROP TABLE t")
        database.commit()
    with pytest.raises(TableError, match=r"empty\.db holds no table"):
        read_table(tmp_path / "empty.db")


@pytest.fixture
def duck(tmp_path: Path) -> Path:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "t.duckdb"
    with contextlib.closing(duckdb.connect(path)) as database:
        database.execute(
            'CREATE TABLE t AS SELECT range AS x, \'a\' || range % 3 AS "s ""s",'
            " DATE '2024-01-01' + range::INT AS day, (range / 4)::DECIMAL(9, 2) AS m"
            " FROM range(1000)"
        )
    return path


def test_the_table_of_duckdb(duck: Path) -> None:
    packed = write(duck.parent, gzip.compress(duck.read_bytes()), "t.gz")
    for path in (duck, packed):
        frame = read_table(path)
        np.testing.assert_array_equal(frame.column("x"), np.arange(1000))
        np.testing.assert_array_equal(frame.column("m"), np.arange(1000) / 4)
        assert list(frame.column('s "s')[:4]) == ["a0", "a1", "a2", "a0"]
        assert str(frame.column("day")[1]).startswith("2024-01-02")
        assert frame.notes == {}


def test_several_tables_of_duckdb(duck: Path) -> None:
    import duckdb

    with contextlib.closing(duckdb.connect(duck)) as database:
        database.execute("CREATE SCHEMA o; CREATE VIEW o.v AS SELECT -x AS z FROM t")
    with pytest.raises(TableError, match=r"holds 2 tables, 't', 'o\.v'; --table names the one"):
        read_table(duck)
    np.testing.assert_array_equal(
        read_table(duck, Reading(table="o.v")).column("z"), -np.arange(1e3)
    )
    duck.write_bytes(duck.read_bytes()[:5000])
    with pytest.raises(TableError, match=r"t\.duckdb cannot be read as DuckDB: ") as caught:
        read_table(duck)
    assert "\n" not in str(caught.value)


def test_a_view_of_duckdb_reads_no_other_file(duck: Path) -> None:
    import duckdb

    other = write(duck.parent, b"secret\n1\n2\n", "other.csv")
    with contextlib.closing(duckdb.connect(duck)) as database:
        database.execute(f"DROP TABLE t; CREATE VIEW v AS SELECT * FROM read_csv('{other}')")
    with pytest.raises(TableError, match="disabled by configuration"):
        read_table(duck)


def test_large_feather_files_are_read_in_batches(tmp_path: Path) -> None:
    path = tmp_path / "t.feather"
    pd.DataFrame({"x": np.arange(1000.0), 's "s': ["a", "b"] * 500}).to_feather(path)
    source = open_path(path, None, 1000, lambda columns: 10**9)
    assert isinstance(source, Source)
    assert source.rows == 1000
    assert source.kinds['s "s'] == "text"
    for _ in range(2):
        batches = [*source.batches(['s "s', "x"], 300)]
        assert [len(table) for table in batches] == [300, 300, 300, 100]
        assert batches[3]["x"].to_pylist() == list(range(900, 1000))
    with pytest.raises(TableError, match="table is for CSV, and for a file that is read whole"):
        of_files(path, Reading(table="t"))


def test_without_the_libraries(tmp_path: Path, duck: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    for path, extra in ((duck, "cli"), (write(tmp_path, b"$FL2@(#)", "t.sav"), "data")):
        with pytest.raises(ImportError, match=rf"pip install 'hgr_jax\[{extra}\]'"):
            read_table(path)


@pytest.mark.parametrize("ending", ["sav", "zsav", "dta", "xpt", "por"])
def test_files_of_statistics_programs(tmp_path: Path, ending: str) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    path = tmp_path / f"t.{ending}"
    columns = {
        "X": [1.5, 2.0, np.nan, 4.0],
        "ANSWER": [1.0, 2.0, 1.0, np.nan],
        "SCALE": [0.0, 10.0, 5.0, 7.0],
        "DAY": pd.to_datetime(["2024-01-02", "2024-01-03", None, "2024-01-05"]),
        "TOWN": ["Köln" if ending in ("sav", "dta") else "Rome", "Oslo", "", "Bonn"],
    }
    options: dict[str, Any] = {}
    labels = {"ANSWER": {1: "yes", 2: "no", 9: "refused"}, "SCALE": {0: "never", 10: "always"}}
    if ending in ("sav", "zsav", "dta"):
        options["variable_value_labels"] = labels
    if ending == "zsav":
        options["compress"] = True
    write_file = {"xpt": "write_xport", "zsav": "write_sav"}.get(ending, f"write_{ending}")
    getattr(pyreadstat, write_file)(pd.DataFrame(columns), str(path), **options)
    frame = read_table(path)
    np.testing.assert_array_equal(frame.column("X"), columns["X"])
    np.testing.assert_array_equal(frame.column("SCALE"), columns["SCALE"])
    np.testing.assert_array_equal(frame.column("DAY"), columns["DAY"].to_numpy().astype("M8[us]"))
    assert list(frame.column("TOWN")) == columns["TOWN"]
    if options:
        assert list(frame.column("ANSWER")) == ["yes", "no", "yes", ""]
        note = "2 of its 4 values have a label and stay what they are, as 0 (never)"
        assert frame.notes == {"SCALE": note}
    else:
        np.testing.assert_array_equal(frame.column("ANSWER"), columns["ANSWER"])
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(TableError, match=rf"t\.{ending} (cannot be read as|holds no records)"):
        read_table(path)


def test_times_and_periods_of_statistics_programs(tmp_path: Path) -> None:
    """Raw numbers are read by their formats, also where these are no dates of a day."""
    pyreadstat = pytest.importorskip("pyreadstat")
    hours = np.arange(60.0)
    for form in ("TIME8", "DTIME12"):
        pyreadstat.write_sav(
            pd.DataFrame({"stay": 3600 * hours}),
            str(tmp_path / "t.sav"),
            variable_format={"stay": form},
        )
        frame = read_table(tmp_path / "t.sav")
        np.testing.assert_array_equal(frame.column("stay"), hours)
        assert frame.notes["stay"] == "hours"
    table = pd.DataFrame({"T": 3600 * hours, "D": 20_000 + hours})
    forms = {"T": "TIME8", "D": "DATE9"}
    pyreadstat.write_xport(table, str(tmp_path / "t.xpt"), variable_format=forms)
    frame = read_table(tmp_path / "t.xpt")
    np.testing.assert_array_equal(frame.column("T"), hours)
    assert str(frame.column("D")[1])[:10] == "2014-10-05"
    periods = {"m": 600, "q": 200, "w": 3000, "y": 2000, "h": 100, "c": 0}
    columns = {name: first + hours for name, first in periods.items()} | {"c": 3.6e6 * hours}
    forms = {name: f"%t{name}" for name in periods} | {"c": "%tcHH:MM:SS"}
    pyreadstat.write_dta(pd.DataFrame(columns), str(tmp_path / "t.dta"), variable_format=forms)
    frame = read_table(tmp_path / "t.dta")
    firsts = {name: str(frame.column(name)[1])[:10] for name in "mqwyh"}
    assert firsts == {
        "m": "2010-02-01",
        "q": "2010-04-01",
        "w": "2017-09-17",
        "y": "2001-01-01",
        "h": "2010-07-01",
    }
    np.testing.assert_array_equal(frame.column("c"), hours)


def test_scales_keep_their_order_and_labels_are_not_joined_in_silence(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    codes = np.arange(60.0) % 5 + 1
    words = {1: "never", 2: "seldom", 3: "at times", 4: "often", 5: "always"}
    table, path = pd.DataFrame({"mood": codes}), str(tmp_path / "t.sav")
    labels = {"mood": words}
    pyreadstat.write_sav(
        table, path, variable_value_labels=labels, variable_measure={"mood": "ordinal"}
    )
    frame = read_table(path)
    np.testing.assert_array_equal(frame.column("mood"), codes)
    assert "in the order of its codes: 1 never, 2 seldom" in frame.notes["mood"]
    pyreadstat.write_sav(table, path, variable_value_labels={"mood": words | {3: "never"}})
    frame = read_table(path)
    assert set(frame.column("mood")) == {"never", "seldom", "often", "always"}
    assert frame.notes["mood"] == "the codes 1 and 3 have one label, 'never': one level"
    pyreadstat.write_sav(table, path, missing_ranges={"mood": [{"lo": 4, "hi": 5}]})
    frame = read_table(path)
    assert np.isnan(frame.column("mood")).sum() == 24
    assert frame.notes["mood"] == "24 user-missing values left out"


def test_a_view_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(
            "CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT 1 FROM n)"
            " SELECT count(*) AS n FROM n"
        )
        database.commit()
    monkeypatch.setattr(isolated, "TIME_LIMIT", 0.5)
    with pytest.raises(TableError, match=r"t\.db cannot be read as SQLite: it takes more than 0\."):
        read_table(path)
