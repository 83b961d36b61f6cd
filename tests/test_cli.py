"""The command line, as real processes: what it prints, writes, and says when it cannot."""

from __future__ import annotations

import csv
import os
import re
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import pytest
from cli_scan_support import Command

from hgr_jax import Scan
from hgr_jax.cli.outputs import WRITTEN

COMMAND = [sys.executable, "-m", "hgr_jax.cli"]


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], cwd=cwd, env=environment(), capture_output=True, text=True
    )


def environment() -> dict[str, str]:
    root = str(Path(__file__).parent.parent)
    return {**os.environ, "PYTHONPATH": root, "PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": ""}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 60)
    lines = [f"{v:.6f},{v * v + 0.01 * e:.6f}" for v, e in zip(x, rng.normal(size=60), strict=True)]
    lines[5] = "NA,0.5"
    lines[6] = "0.5,inf"
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["x value,$y$", *lines, ""]))
    return path


def test_pair(table: Path, tmp_path: Path) -> None:
    done = run("pair", table.name, "x value", "$y$", "--h", "2", "--k", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "58 rows, 2 with a missing or infinite value left out" in done.stdout
    assert "HGR-KB(2, 1) 0.999" in done.stdout
    assert "HGR-SK(2)    0.999" in done.stdout
    held_out = next(line for line in done.stdout.splitlines() if line.startswith("held out"))
    assert 0.99 < float(held_out.split()[2]) <= 1
    assert "b = f(a)" in done.stdout
    assert "a^2" in done.stdout
    assert "effective degrees: 2 and 1" in done.stdout
    assert (tmp_path / "hgr-jax-pair" / "pair.png").read_bytes().startswith(b"\x89PNG")


def test_pair_of_a_column_that_does_not_vary(folder: Path, command: Command) -> None:
    (folder / "t.csv").write_text("x,y\n1,2\n1,3\n1,5\n")
    said = command("pair", "t.csv", "x", "y", "--h", "2", "--k", "1", "--out", "pictures").out
    assert "does not vary" in said
    assert "nan" not in said.lower()
    assert (folder / "pictures" / "pair.png").exists()


def test_demo(tmp_path: Path) -> None:
    arguments = ("--top", "3", "--h", "2", "--k", "3", "--out", "shown")
    done = run("demo", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "435 pairs of 30 columns, 569 rows, polynomials of degree 2 and 3" in done.stdout
    listed = done.stdout.partition("\nPairs by HGR of ranks above |Spearman|")[2].split("\n\n")[1]
    ranked = [re.split(r"\s{2,}", line.strip()) for line in listed.splitlines()[1:]]
    assert [row[0] for row in ranked] == ["1", "2", "3"]
    kept = Scan.load(tmp_path / "shown" / "scan.npz")
    excess = [kept[row[1], row[2]].rank_excess for row in ranked]
    assert excess == sorted(excess, reverse=True)
    assert excess[0] > 0.15
    assert all(int(row[10].partition("%")[0]) < 30 for row in ranked)  # real pairs
    words = done.stdout.split("The first of them that is more than chance: ")[1]
    name_a, _, name_b = words.splitlines()[0].partition(" and ")
    assert f"with a = {name_a}\n" in words
    assert f"with b = {name_b}\n" in words
    assert "effective degrees: 2 and 3" in words
    training = done.stdout.split("A network that predicts progression")[1]
    figures = {line.split()[0]: line.split()[1:] for line in training.splitlines() if line.strip()}
    assert float(figures["after"][1]) < 0.5 < float(figures["before"][1])  # on validation rows
    assert "holds on training rows" in training
    assert "holds on validation rows" in training
    assert "at most 0.5, with 95% confidence" in " ".join(training.split())
    assert "HGR-KB(2, 2) of bmi and the prediction in the population" in training
    folder = tmp_path / "shown"
    pictures = ("certificate.png", "fairness.png", "heat_map.png", "top_pair.png")
    for picture in pictures:
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    written = {path.name for path in folder.iterdir()} - set(pictures)
    assert written == {"pairs.csv", "pairs.parquet", "report.html", "scan.npz"}
    assert {path.name for path in folder.iterdir()} == set(WRITTEN["demo"])
    with (folder / "pairs.csv").open() as file:
        pairs = list(csv.DictReader(file))
    assert len(pairs) == 435
    sure = next(pair for pair in pairs if float(pair["adjusted_pvalue"]) <= 0.05)
    assert (name_a, name_b) == (sure["a"], sure["b"])


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        (None, ("x", "y"), "no such file: table.csv"),
        ("", ("x", "y"), "table.csv is empty"),
        ("x,y\n", ("x", "y"), "header but no rows"),
        ("x,y\n1,2\n", ("x", "y"), "has 1 row(s) with a number in both"),
        ("x,y\n1,2\n2\n", ("x", "y"), "line 3: expected 2 values as in the header, got 1"),
        ("x,y\n1,red\n", ("x", "y"), "column 'x' cannot be used: every value that is present is 1"),
        ("x,y\n1,\n2,NA\n", ("x", "y"), "every value of column 'y' is missing"),
        ("price,size\n1,2\n", ("prise", "size"), "did you mean 'price'"),
        ("x\x1b[31m,y\n1,2\n", ("z\x1b[0m", "y"), "no column 'z\\x1b[0m'"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    folder: Path, command: Command, content: str | None, columns: tuple[str, str], message: str
) -> None:
    if content is not None:
        (folder / "table.csv").write_text(content)
    said = command("pair", "table.csv", *columns)
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert said.err.startswith("hgr-jax: error: ")
    assert message in said.err
    assert "\x1b" not in said.err
    assert not (folder / "hgr-jax-pair").exists()


def test_help_and_version(tmp_path: Path) -> None:
    assert "FILE COL_A COL_B" in run("pair", "--help", cwd=tmp_path).stdout
    assert run("--version", cwd=tmp_path).stdout.startswith("hgr-jax 0.")


@pytest.mark.parametrize(
    ("arguments", "wait"),
    [(("demo",), 0), (("demo",), 1), (("scan", "t.csv", "--permutations", "1000000"), 0)],
)
def test_interruption_ends_with_130_and_no_traceback(
    tmp_path: Path, arguments: tuple[str, ...], wait: float
) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 30))
    names = ",".join(f"c{i}" for i in range(30))
    np.savetxt(tmp_path / "t.csv", rows, delimiter=",", header=names, comments="")
    terminal, inside = os.openpty()
    termios.tcsetwinsize(inside, (24, 80))  # tqdm hides its bar where no line is
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=inside,
        text=True,
    )
    os.close(inside)
    # The bar appears when the work begins.
    shown = b""
    while b"0/435" not in shown:
        assert process.poll() is None, shown
        assert select.select([terminal], [], [], 120)[0], shown
        shown += os.read(terminal, 1000)
    time.sleep(wait)  # into the compilation
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    shown = os.read(terminal, 10_000)
    os.close(terminal)
    assert process.returncode == 130
    assert shown.replace(b"\r", b"").endswith(b"\nhgr-jax: interrupted\n")
    assert b"Traceback" not in shown
    if arguments[0] == "scan":
        assert printed == ""
        assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize("wait", [0.15, 0.4, 0.7])
def test_interruption_while_jax_is_imported(table: Path, wait: float) -> None:
    process = subprocess.Popen(
        [*COMMAND, "scan", table.name],
        cwd=table.parent,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(wait)
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert errors.endswith("hgr-jax: interrupted\n")
    assert "Traceback" not in errors


def test_a_reader_that_goes_away_is_no_error(table: Path, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*COMMAND, "pair", table.name, "x value", "$y$"],
        cwd=tmp_path,
        env=environment(),
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert done.returncode == 1
    assert done.stderr == ""


def test_names_that_the_terminal_cannot_show(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("größe,価格\n1,2\n2,3\n3,9\n", encoding="utf-8")
    done = subprocess.run(
        [*COMMAND, "pair", "t.csv", "größe", "価格", "--h", "1", "--k", "1"],
        cwd=tmp_path,
        env={**environment(), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "gr\\xf6\\xdfe and" in done.stdout


def test_a_correlation_of_one_row_is_told(folder: Path, command: Command) -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=(40, 2)), [[50, 60]]])
    lines = "\n".join(f"{x:.4f},{y:.4f}" for x, y in values)
    (folder / "t.csv").write_text(f"x,y\n{lines}\n")
    said = command("pair", "t.csv", "x", "y", "--h", "1", "--k", "1").out
    assert "one row alone, x 50 and y 60, makes up 9" in said
