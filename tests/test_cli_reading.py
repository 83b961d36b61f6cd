"""The commands read the same files in the same way, and say what they made of them."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_scan_support import Command, refusal
from sources_support import mixed, parts_of

from hgr_jax import Scan

ROWS = 40
Run = Callable[..., str]


@pytest.fixture
def table() -> pd.DataFrame:
    """As courts publish theirs: an index without a name, dates, categories, money."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, ROWS)
    columns = {
        "": range(ROWS),
        "age": age,
        "priors": rng.poisson(2, ROWS),
        "screened": [f"{i % 12 + 1:02}/{i % 28 + 1:02}/2013" for i in range(ROWS)],
        "sex": ["Male", "Female"] * (ROWS // 2),
        "bail": [f"${1000 * a:,}" for a in age],
        "again": rng.integers(0, 2, ROWS),
    }
    frame = pd.DataFrame(columns)
    frame.loc[4, "bail"] = "-"
    frame["other"] = rng.poisson(2, ROWS)
    return frame


@pytest.fixture
def run(command: Command) -> Callable[..., str]:
    def printed(*arguments: str) -> str:
        said = command(*arguments)
        assert said.status == 0, said.err
        return said.out

    return printed


SMALL = ("--h", "1", "--k", "1")


def test_the_commands_read_what_scan_reads(folder: Path, table: pd.DataFrame, run: Run) -> None:
    names = ["priors" if name == "other" else name for name in table.columns]
    table.set_axis(names, axis=1).to_csv("t.csv", index=False)
    day = "note: screened: '01/01/2013' is read as 2013-01-01 (month, day, year)"
    money = f"'${table['age'][0]},000' is read as {table['age'][0]}000"
    notes = (
        *(f"note: bail: {money}; --decimal , reads it otherwise; 39 of 40", "'-' in line 6", day),
        "note: priors (2): another column is called 'priors' too",
    )
    done = run("scan", "t.csv", *SMALL, "--target", "age", "--permutations", "9")
    assert all(note in done for note in (*notes, "note: column 1: it has no name")), done
    done = run("audit", "t.csv", "--prediction", "bail", "--protected", "screened")
    assert "days since 2013-01-01" in done
    assert "39 rows; 1 of 40 have a missing or infinite value and are left out: in " in done
    done = run("pair", "t.csv", "screened", "bail", *SMALL)
    assert "screened and bail: 39 rows, 1 with a missing" in done
    assert all(note in done for note in notes[:3]), done
    done = run("pair", "t.csv", "priors", "column 1", *SMALL)
    assert "note: priors: the first of 2 columns of this name" in done


def test_options_of_reading(folder: Path, table: pd.DataFrame, run: Run) -> None:
    rows = [f"{i},{i % 7};{i * i % 5}" for i in range(ROWS)]
    Path("t.csv").write_text("\n".join([*rows, "-999;1", "none given;2", ""]))
    options = ("--no-header", "--decimal", ",", "--na", "-999", "--na", "none given")
    done = run("pair", "t.csv", "column 1", "column 2", *options, *SMALL)
    assert "column 1 and column 2: 40 rows, 2 with a missing or infinite value left out" in done
    done = run("scan", "t.csv", *options, *SMALL)
    assert "t.csv: 1 pair of 2 columns, 42 rows" in done
    assert "note" not in done
    table.to_csv("t.csv", index=False)
    chosen = ("--columns", "age", "priors", "sex", "--drop", "sex", "--force")
    assert "1 pair of 2 columns" in run("scan", "t.csv", *chosen, *SMALL)


def test_standard_input_and_packed_files(
    folder: Path, table: pd.DataFrame, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = gzip.compress(table[["age", "priors"]].to_csv(index=False).encode())
    Path("t.csv.gz").write_bytes(body)
    assert "t.csv.gz: 1 pair" in run("scan", "t.csv.gz", *SMALL)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body)))
    assert "standard input: 1 pair" in run("scan", "-", *SMALL, "--force")


def test_names_that_a_spreadsheet_would_run(folder: Path, run: Run) -> None:
    names = [f"{begin}1+1" for begin in ("=", "+", "-", "@", "\t", "\r", "x=")]
    values = np.random.default_rng(0).normal(size=(ROWS, len(names) + 1)).round(3)
    pd.DataFrame(values, columns=[*names, "b"]).to_parquet("t.parquet")
    run("scan", "t.parquet", "--target", "b", *SMALL)
    text = Path("hgr-jax-scan/pairs.csv").read_bytes().decode()
    text = text.replace('"', "")  # Python 3.13 puts what has "\r" in quotes
    written = {f"'{name}" for name in names[:-1]} | {names[-1]}
    assert [name for name in written if f"\n{name},b," not in text] == []
    assert set(pd.read_parquet("hgr-jax-scan/pairs.parquet")["a"]) == set(names)


def test_what_the_file_does_not_tell_is_an_option(folder: Path, command: Command) -> None:
    """Without any one of the options the file is read otherwise, or refused."""
    numbers = np.random.default_rng(3).integers(200, 3000, (60, 2))
    lines = ["x".join(f"{number:,}".replace(",", ".") for number in row) for row in numbers]
    lines[30:30] = ["-9.000x2.000"]
    text = "\n".join(["1x2", "łanxwysokość", *lines, "60x60", ""])
    Path("t.csv").write_text(text, encoding="cp1250")
    options = {
        "--delimiter": "x",
        "--decimal": ".",
        "--comment": "-",
        "--skip": "1",
        "--footer": "1",
        "--encoding": "cp1250",
    }

    def first_pair(**options: str) -> list[object]:
        asked = [part for option in options.items() for part in option]
        if command("scan", "t.csv", *asked, "--out", "all", "--force").status:
            return []
        pairs = pd.read_csv("all/pairs.csv")
        return pairs[["a", "b", "n_obs"]].values.tolist() + pairs["pearson"].round(6).tolist()

    # 2.472 beside 439, which would be 2,472 otherwise.
    decimal = np.where(numbers < 1000, numbers, numbers / 1000)
    expected = [["łan", "wysokość", 60], round(abs(np.corrcoef(decimal.T)[0, 1]), 6)]
    assert first_pair(**options) == expected
    for option in options:
        others = {name: value for name, value in options.items() if name != option}
        assert first_pair(**others) != expected, option


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
