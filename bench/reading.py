"""How long it takes to read a large text file of mixed columns, beside the libraries for it.

``python -m bench.reading [--quick] [--write]`` writes a CSV file of 1,000,000 rows of 20 columns
(numbers, whole numbers, texts, dates, gaps), and reads it by turns with `hgr_jax.read_table`,
pyarrow, DuckDB, polars and pandas, each as its users would call it.  It exits with 1 if
`read_table` takes more than one and a half times as long as the slower of pyarrow and DuckDB.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hgr_jax
from bench.report import MarkdownReport, run_bench

MOST = 1.5
"""Largest ratio to the slower of pyarrow and DuckDB."""

COMPARED = ("pyarrow", "DuckDB")


def write_table(path: Path, rows: int) -> None:
    """Write a CSV file of 20 columns of all kinds."""
    pa, csv = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.csv")
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"x{i}": rng.normal(size=rows).round(4) for i in range(9)}
    columns |= {f"n{i}": rng.integers(0, 10 ** (i + 1), rows) for i in range(6)}
    words = np.array(["north", "south", "east", "west"])
    columns |= {f"c{i}": words[rng.integers(0, 4, rows)] for i in range(3)}
    columns["at"] = np.datetime64("2020-01-01", "s") + 60 * np.arange(rows)
    gaps = rng.random(rows) < 0.1
    columns["gaps"] = pa.array(rng.normal(size=rows).round(3), mask=gaps)
    csv.write_csv(pa.table(columns), path)


def contestants(path: str) -> dict[str, Callable[[], Any]]:
    """Return what reads a file, by name, of the libraries that are installed."""
    readers: dict[str, Callable[[], Any]] = {"hgr_jax": lambda: hgr_jax.read_table(path)}
    readers["pyarrow"] = lambda: importlib.import_module("pyarrow.csv").read_csv(path)
    duckdb = importlib.import_module("duckdb")
    readers["DuckDB"] = lambda: duckdb.read_csv(path).fetchnumpy()
    readers["polars"] = lambda: importlib.import_module("polars").read_csv(path)
    readers["pandas"] = lambda: importlib.import_module("pandas").read_csv(path)
    return readers


def seconds_of(readers: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Time all readers in turn; medians of the rounds after a first one."""
    taken: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(rounds + 1):
        for name, read in readers.items():
            start = time.perf_counter()
            read()
            taken[name].append(time.perf_counter() - start)
    return {name: float(np.median(times[1:])) for name, times in taken.items()}


def reading(report: MarkdownReport, quick: bool) -> bool:
    """A row for every reader; whether ours is fast enough."""
    rows, rounds = (20_000, 1) if quick else (1_000_000, 5)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write_table(path, rows)
        size = path.stat().st_size / 1e6
        seconds = seconds_of(contestants(str(path)), rounds)
    slower = max(seconds[name] for name in COMPARED)
    report.say(f"{rows:,} rows of 20 columns, {size:.0f} MB")
    report.table(
        ("reader", "time", "ratio"),
        [[name, f"{taken:.2f} s", f"{taken / slower:.2f}"] for name, taken in seconds.items()],
    )
    return quick or seconds["hgr_jax"] <= MOST * slower


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for every reader; 1 if ours takes too long."""
    return run_bench(__doc__, {"reading": reading}, arguments)


if __name__ == "__main__":
    sys.exit(main())
