"""``hgr-jax scan`` where something is wrong: one line, and nothing lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from cli_scan_support import Command

from hgr_jax import Scan
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.files import read_any


def test_nothing_to_scan(folder: Path, command: Command) -> None:
    lines = [f"1,x,,name {i},{i}" for i in range(20)]
    (folder / "t.csv").write_text("\n".join(["one,same,none,name,number", *lines, ""]))
    (folder / "out").mkdir()
    (folder / "out" / "heat_map.png").write_bytes(b"of an earlier scan")
    said = command("scan", "t.csv", "--out", "out", "--force")
    assert (said.status, said.err) == (0, "")
    assert "0 pairs of 1 column, 20 rows" in said.out
    for reason in (
        "one: every value that is present is 1",
        "same: every value that is present is 'x'",
        "none: no value is present",
        "name: text with 20 levels, most of them in fewer than 5 rows",
    ):
        assert f"skipped: {reason}\n" in said.out
    assert "no pair of columns is left to scan" in said.out
    written = sorted(path.name for path in (folder / "out").iterdir())
    assert written == ["pairs.csv", "pairs.parquet", "report.html", "scan.npz"]
    assert len(pd.read_csv("out/pairs.csv")) == len(Scan.load("out/scan.npz")) == 0
    assert "name: text" not in (folder / "out" / "report.html").read_text()  # but as two texts
    assert "text with 20 levels" in (folder / "out" / "report.html").read_text()


def parquet(path: Path, names: list[str], *values: list[Any]) -> None:
    pa.parquet.write_table(pa.table([pa.array(v) for v in values], names=names), path)


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("none.csv", None, (), "no such file: none.csv"),
        ("none.parquet", None, (), "no such file: none.parquet"),
        ("t.csv", b"", (), "t.csv is empty"),
        ("t.csv", b"x,y\n", (), "t.csv has a header but no rows"),
        ("t.csv", b"x,y\n1,2\n3\n", (), "t.csv, line 3: expected 2 values as in the header, got 1"),
        ("t.csv", bytes(range(256)), (), "t.csv is not a text file (line 1 holds"),
        ("t.parquet", b"x,y\n1,2\n3,4\n", (), "t.parquet cannot be read as Parquet: "),
        ("t.parquet", b"", (), "t.parquet cannot be read as Parquet: "),
        ("folder", "folder", (), "cannot read folder: "),
        ("t.pq", "folder", (), "cannot read t.pq: Is a directory"),
        ("t.csv", b"x,y\n1,2\n2,1\n", ("--target", "z"), "target 'z' is not a column; there are x"),
        ("t.csv", b"x\x1b[31m,y\n1,2\n2,1\n", ("--target", "z"), "there are x\\x1b[31m, y."),
        ("t.csv", b"x,y\n1,2\n2,1\n", ("--categories", "z\x1b"), "no column of the table: ['z"),
        ("t.csv", b"x,y\n1,2\n2,1\n", ("--h", "0"), "--h: expected an integer from 1 to 50"),
        ("t.csv", b"x,y\n1,2\n2,1\n", ("--top", "0"), "--top: expected an integer from 1"),
        ("t.csv", b"x,y\n1,2\n2,1\n", ("--seed", "-1"), "--seed"),
        ("t.csv", b"x,y\n1,2\n2,1\n", ("--sort", "size"), "--sort: invalid choice: 'size'"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    folder: Path,
    command: Command,
    name: str,
    content: bytes | str | None,
    options: tuple[str, ...],
    message: str,
) -> None:
    if content == "folder":
        Path(name).mkdir()
    elif isinstance(content, bytes):
        Path(name).write_bytes(content)
    said = command("scan", name, *options)
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert said.err.startswith(("hgr-jax: error: ", "hgr-jax scan: error: "))
    assert message in said.err
    assert "\x1b" not in said.err
    assert not Path("hgr-jax-scan").exists()


class TestParquetFiles:
    def test_one_that_breaks_off_or_is_damaged(self, folder: Path) -> None:
        parquet(folder / "whole.parquet", ["x"], [1.0, 2.0, 3.0])
        whole = (folder / "whole.parquet").read_bytes()
        for damaged in (whole[: len(whole) // 2], whole[:4] + b"\xff" * 40 + whole[44:]):
            (folder / "t.parquet").write_bytes(damaged)
            with pytest.raises(TableError, match="cannot be read as Parquet: ") as caught:
                read_any("t.parquet")
            assert "\n" not in str(caught.value)

    def test_no_rows(self, folder: Path) -> None:
        parquet(folder / "t.parquet", ["x"], [])
        with pytest.raises(TableError, match=r"t\.parquet has 0 rows and 1 columns"):
            read_any("t.parquet")

    def test_two_columns_of_one_name(self, folder: Path) -> None:
        parquet(folder / "t.parquet", ["x", "x"], [1, 2, 3], [3, 1, 2])
        assert list(read_any("t.parquet").columns) == ["x", "x (2)"]

    def test_the_folder_adds_no_column(self, folder: Path) -> None:
        (folder / "year=2020").mkdir()
        parquet(folder / "year=2020" / "t.parquet", ["x"], [1, 2])
        assert list(read_any("year=2020/t.parquet").columns) == ["x"]


def test_a_folder_that_cannot_be_written(folder: Path, command: Command) -> None:
    (folder / "t.csv").write_text("x,y\n1,2\n1,3\n")
    said = command("scan", "t.csv", "--out", "t.csv")
    assert said.status == 2
    assert said.err.startswith("hgr-jax: error: cannot write to t.csv: it is a file")
