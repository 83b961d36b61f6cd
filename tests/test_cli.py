"""The command line, as real processes: what it prints, writes, and says when it cannot."""

from __future__ import annotations

import csv
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import pytest
from cli_scan_support import COMMAND, Command, environment, refusal, run, started

import hgr_jax
from hgr_jax import Scan
from hgr_jax.cli.main import main
from hgr_jax.cli.outputs import WRITTEN


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        ("scan t.csv --out out", {"jax", "matplotlib", "optax", "pandas", "sklearn"}),
        ("pair t.csv x kind --out out", {"jax", "optax", "sklearn"}),
    ],
)
def test_what_takes_long_to_load_is_not_loaded(folder: Path, command: str, heavy: set[str]) -> None:
    rows = np.random.default_rng(0).normal(size=(200, 3)).tolist()
    lines = [",".join(map(str, [*row, "even" if row[0] > 0 else "odd"])) for row in rows]
    (folder / "t.csv").write_text("\n".join(["x,y,z,kind", *lines, ""]))
    code = (
        "import sys; from hgr_jax.cli.main import main; assert main(sys.argv[1:]) == 0;"
        "print('loaded:', *sys.modules)"
    )
    started = [sys.executable, "-c", code, *command.split()]
    done = subprocess.run(started, env=environment(), capture_output=True, text=True, check=True)
    assert not heavy & {*done.stdout.splitlines()[-1].split()}


def test_pair(folder: Path, command: Command) -> None:
    x, noise = np.random.default_rng(0).uniform(-1, 1, (2, 60))
    lines = [f"{v:.6f},{v * v + 0.01 * e:.6f}" for v, e in zip(x, noise, strict=True)]
    lines[5:7] = "NA,0.5", "0.5,inf"
    (folder / "t.csv").write_text("\n".join(["x value,$y$", *lines, ""]))
    done = command("pair", "t.csv", "x value", "$y$", "--h", "2", "--k", "1")
    assert (done.status, done.err) == (0, "")
    assert "58 rows, 2 with a missing or infinite value left out" in done.out
    assert "HGR-KB(2, 1) 0.999" in done.out
    assert "HGR-SK(2)    0.999" in done.out
    assert "b = f(a)" in done.out
    assert "a^2" in done.out
    assert (folder / "hgr-jax-pair" / "pair.png").read_bytes().startswith(b"\x89PNG")


def test_pair_without_degrees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HGR with its interval and p-value, and what it is of a pair with a category."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(200)
    kind = np.where(np.abs(x) > 1, "far", "near")
    days = np.datetime64("2020-02-01") + np.arange(200)
    rows = zip(x, kind, days, strict=True)
    lines = ["x,y,kind,day", *(f"{a},{a * a},{c},{day}" for a, c, day in rows)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    pair = ["pair", str(tmp_path / "t.csv"), "--out", str(tmp_path)]
    assert main([*pair, "x", "y"]) == 0
    told = capsys.readouterr().out
    assert float(told.split("HGR  ")[1].split()[0]) > 0.95
    assert "95% interval" in told
    assert "mean of y, with its standard error, given x:" in told
    assert main([*pair, "x", "kind"]) == 0
    told = capsys.readouterr().out
    assert float(told.split("HGR  ")[1].split()[0]) > 0.9
    assert (tmp_path / "pair-2.png").exists()
    assert main([*pair, "x", "day"]) == 0
    assert " to 2020-08-18\n" in capsys.readouterr().out
    assert main([*pair, "x", "y", "--given", "day", "--h", "2"]) == 0
    assert "no picture: given other columns" in capsys.readouterr().out


def test_demo(tmp_path: Path) -> None:
    arguments = ("--top", "3", "--h", "2", "--k", "3", "--out", "shown")
    done = run("demo", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "91 pairs of 14 columns, 178 rows, polynomials of degree 2 and 3" in done.stdout
    listed = done.stdout.partition("\nNot monotone: HGR above |Spearman|\n")[2].split("\n\n")[0]
    lines = listed.splitlines()[1:]
    assert all(line.startswith("     ") for line in lines[1::2])  # a sentence on each
    ranked = [re.split(r"\s{2,}", line.strip()) for line in lines[::2]]
    assert [row[0] for row in ranked] == ["1", "2", "3"]
    assert ranked[0][1] == "flavanoids and color_intensity"
    kept = Scan.load(tmp_path / "shown" / "scan.npz")
    excess = [kept[tuple(row[1].split(" and "))].rank_excess for row in ranked]
    assert excess == sorted(excess, reverse=True)
    assert excess[-1] > 0.3
    training = done.stdout.split("A network that predicts progression")[1]
    figures = {line.split()[0]: line.split()[1:] for line in training.splitlines() if line.strip()}
    assert float(figures["after"][1]) < 0.5 < float(figures["before"][1])  # on other patients
    said = " ".join(training.split())
    assert "bmi and the prediction in the population: at most 0.5 (upper bound" in said
    assert "P(a model is returned and breaks its threshold) <= 1 - level = 0.05" in said
    assert "HGR-KB(2, 2) of bmi and the prediction in the population" in said
    folder = tmp_path / "shown"
    assert (folder / "fairness.png").read_bytes().startswith(b"\x89PNG")
    written = {path.name for path in folder.iterdir()} - {"fairness.png"}
    assert written == {"pairs.csv", "pairs.parquet", "report.html", "scan.npz"}
    assert {path.name for path in folder.iterdir()} == set(WRITTEN["demo"])
    with (folder / "pairs.csv").open() as file:
        pairs = list(csv.DictReader(file))
    assert len(pairs) == 91


def test_help_and_version(tmp_path: Path) -> None:
    assert "FILE COL_A COL_B" in run("pair", "--help", cwd=tmp_path).stdout
    assert run("--version", cwd=tmp_path).stdout.startswith("hgr-jax 0.")


@pytest.mark.parametrize("arguments", [["scan", "--help"], ["scan", "--h", "0"]])
def test_help_and_wrong_options_load_neither_jax_nor_numpy(arguments: list[str]) -> None:
    code = """
import sys
from hgr_jax.cli.__main__ import start
try:
    start()
finally:
    print(*{"jax", "jaxlib", "numpy", "pyarrow"} & set(sys.modules), "end")
"""
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert output.splitlines()[-1] == "end"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = np.random.default_rng(0).normal(size=(40, 30))
    names = ",".join(f"c{i}" for i in range(30))
    np.savetxt(tmp_path / "t.csv", rows, delimiter=",", header=names, comments="")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "wait"),
    [(("demo",), 1), (("scan", "t.csv", "--permutations", "1000000"), 0)],
)
def test_interruption_ends_at_once_and_without_a_traceback(
    table: Path, arguments: tuple[str, ...], wait: float
) -> None:
    terminal, inside = os.openpty()
    termios.tcsetwinsize(inside, (24, 80))  # tqdm hides its bar where no line is
    process = started(*arguments, cwd=table, stderr=inside)
    os.close(inside)
    # The bar appears when the work begins.
    shown = b""
    pairs = b"0/91" if arguments[0] == "demo" else b"0/435"
    while pairs not in shown:
        assert process.poll() is None, shown
        assert select.select([terminal], [], [], 120)[0], shown
        shown += os.read(terminal, 1000)
    time.sleep(wait)  # into the compilation
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    os.close(terminal)
    assert process.returncode == -signal.SIGINT
    assert b"Traceback" not in shown
    if arguments[0] == "scan":
        files = [path.name for path in table.rglob("*") if path.is_file()]
        assert files == ["t.csv"]


def test_interruption_while_jax_is_imported(table: Path) -> None:
    process = started("scan", "t.csv", cwd=table)
    time.sleep(0.4)
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == -signal.SIGINT
    assert "Traceback" not in errors


def test_a_caller_that_ignores_interruptions_is_obeyed(table: Path) -> None:
    line = f"trap '' INT; exec {shlex.join(COMMAND)} scan t.csv"
    process = subprocess.Popen(["bash", "-c", line], cwd=table, env=environment(), stdout=-3)
    time.sleep(0.4)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 0


def test_readers_that_go_away_and_terminals_of_few_letters(tmp_path: Path) -> None:
    rows = "".join(f"{i},{(i - 9) ** 2}\n" for i in range(30))
    (tmp_path / "t.csv").write_text(f"größe,価格\n{rows}", encoding="utf-8")
    reading, writing = os.pipe()
    os.close(reading)
    done = run("scan", "t.csv", cwd=tmp_path, stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")
    done = run("scan", "t.csv", "--force", cwd=tmp_path, env=environment(PYTHONIOENCODING="ascii"))
    assert done.returncode == 0, done.stderr
    assert "gr\\xf6\\xdfe and" in done.stdout


def test_pairs_of_one_value_and_of_one_row_alone(folder: Path, command: Command) -> None:
    pair = ("pair", "t.csv", "x", "y", "--h", "1", "--k", "1", "--out", "pictures")
    Path("t.csv").write_text("x,y\n1,2\n1,3\n1,5\n")
    assert "column 'x' cannot be used: every value that is present" in refusal(command, *pair)
    values = np.random.default_rng(0).normal(size=(40, 2)).round(4)
    lines = [f"{x:g},{y:g}" for x, y in [*values, [50, 60]]]
    Path("t.csv").write_text("\n".join(["x,y", *lines, ""]))
    said = command(*pair).out
    assert "f and g single out one row" in said
    assert "that row: x 50, y 60\n" in said
    assert "nan" not in said.lower()
    assert (folder / "pictures" / "pair.png").exists()


def test_a_pair_given_another_column(folder: Path, command: Command) -> None:
    kind, mass, noise = np.random.default_rng(0).normal(size=(3, 400))
    kind, mass = kind > 0, mass + 3 * (kind > 0)
    table = {"kind": np.where(kind, "A", "B"), "mass": mass, "wing": mass - 6 * kind + noise / 2}
    lines = [",".join(map(str, row)) for row in zip(*table.values(), strict=True)]
    Path("t.csv").write_text("\n".join(["kind,mass,wing", *lines, ""]))
    said = command("pair", "t.csv", "mass", "wing", "--given", "kind", "--out", "pictures").out
    fit = hgr_jax.hgr_fit(table["mass"], table["wing"], given=table["kind"])
    low, high = fit.interval()
    value = f"HGR          {fit.correlation:.4f}"
    assert f"{value}   given kind, 95% interval {low:.3f} to {high:.3f}" in said
    assert "given kind, wing rises with mass" in said
    means = said.partition("mean of what kind leaves of the ranks of wing (sd 1)")[2].split("\n")
    of_bins = [float(line.split()[0]) for line in means[1:6]]
    assert np.corrcoef(of_bins, range(5))[0, 1] > 0.5
    assert (folder / "pictures" / "pair.png").exists()


def test_missing_values_are_a_level_on_request(folder: Path, command: Command) -> None:
    rows = "".join(f"{'' if i % 60 > 40 else 'xy'[i % 2]},{i % 60}\n" for i in range(300))
    (folder / "t.csv").write_text("zone,size\n" + rows)
    said = command("pair", "t.csv", "zone", "size").out
    assert "zone and size: 205 rows, 95 with a missing or infinite value left out" in said
    said = command("pair", "t.csv", "zone", "size", "--missing-level").out
    assert "zone and size: 300 rows\n" in said
    assert "(missing)" in said.partition("given zone:")[2]
    said = command("scan", "t.csv").out
    assert "zone is missing in 95 of 300 rows, and where it is depends on size (HGR 0.9" in said
    said = command("scan", "t.csv", "--missing-level", "--force").out
    assert re.search(r"zone and size +0.994 .* 300", said)
