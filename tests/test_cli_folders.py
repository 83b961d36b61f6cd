"""The command on folders and patterns."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from cli_scan_support import Command, refusal
from sources_support import mixed, parts_of

from hgr_jax import Scan


@pytest.fixture
def parts(folder: Path) -> Path:
    path = folder / "parts"
    path.mkdir()
    for place, part in enumerate(parts_of(mixed(rows=600), 250)):
        part.to_parquet(path / f"p{place}.parquet")
    return path


def test_a_folder_and_a_pattern(parts: Path, command: Command) -> None:
    options = ("--out", "one", "--drop", "skewed", "--h", "3", "--k", "3")
    shown = command("scan", "parts", *options).out
    assert "parts: 15 pairs of 6 columns, 600 rows, polynomials of degree 3 and 3" in shown
    assert {path.name for path in Path("one").iterdir()} >= {"report.html", "pairs.csv", "scan.npz"}
    page = Path("one/report.html").read_text(encoding="utf-8")
    assert "600" in page
    command("scan", "parts/p*.parquet", "--out", "other", "--target", "kind")
    found = Scan.load("other/scan.npz")
    assert "kind" in [found.names[i] for i in found.pairs[0]]
    assert len(found) == 6


def test_a_folder_that_holds_an_earlier_scan(parts: Path, command: Command) -> None:
    """The pairs of a scan are no part of the table that lies beside them."""
    for force in ([], ["--force"]):
        said = command("scan", "parts", "--out", "parts/found", "--h", "1", "--k", "1", *force)
        assert "600 rows" in said.out


def test_faults(parts: Path, command: Command) -> None:
    for line, message in (
        ("parts --na none", "na is for CSV, and for a file that is read whole; parts"),
        ("parts --types kind=id", "types is for CSV, and for a file that is read whole; parts"),
        ("parts --columns nothing", "has no column 'nothing'"),
        ("parts --target nothing", "target 'nothing' is not a column"),
        ("none-*.csv", "no such file: none-*.csv"),
        ("parts --out parts/p0.parquet", "it is a file"),
    ):
        assert message in refusal(command, "scan", *line.split())
    mixed(rows=50).assign(far="text").to_parquet(parts / "p2.parquet")
    message = "p2.parquet: column 'far' holds text, and numbers in what was read before"
    assert message in refusal(command, "scan", "parts")
    (parts / "p2.parquet").unlink()
    pd.DataFrame({"x": [1.0]}).to_json(parts / "t.json")  # is none of the files that are read
    assert command("scan", "parts", "--h", "1", "--k", "1").status == 0
