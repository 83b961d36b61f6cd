"""What a first user waits for: whole processes, cold, on tables of mixed types.

``python -m bench.first_use [--quick] [--write]`` runs ``hgr-jax scan FILE`` (p-values, all files
and the report) on a table like ProPublica's COMPAS, and one of 1,500 x 30, mostly of numbers; and
beside it PhiK's matrix, where it is installed.  Each run is a process of its own; the table
has wall time, CPU time and the most memory.  It exits with 1 if one of ours exceeds its bound.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.random import Generator

from bench.report import MarkdownReport, run_bench

BOUNDS = {"compas": 20.0, "numbers": 4.0}
"""Seconds that a scan of each may take."""

MOST_MEMORY = {"compas": 1.5e9}

PHIK = """
import sys, pandas, phik
table = pandas.read_csv(sys.argv[1])
table.phik_matrix(verbose=False)
"""

PATIENCE = 60
"""Seconds that another program may take."""

ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
"""Of a user, whose Python keeps the compiled code of modules."""

TIMED_OUT = 124
"""What ``timeout`` of GNU coreutils ends with."""


@dataclasses.dataclass(frozen=True)
class Cost:
    """Seconds of a process on the clock and of its processors, and its most bytes."""

    wall: float
    cpu: float
    memory: float


def _missing(rng: Generator, frame: pd.DataFrame, shares: dict[str, float]) -> pd.DataFrame:
    for name, share in shares.items():
        frame[name] = frame[name].astype(object).where(rng.random(len(frame)) >= share)
    return frame


def compas() -> pd.DataFrame:
    """7,214 defendants like ProPublica's ``compas-scores-two-years``: 53 columns, many alike."""
    rng, n = np.random.default_rng(2), 7214
    columns: dict[str, object] = {}
    decile = rng.integers(1, 11, n)
    for i in range(18):
        columns[f"count {i}"] = rng.poisson(0.3 + decile / 5 * (i % 3), n)
    for i in range(10):
        day = pd.Timestamp("2013-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
        columns[f"date {i}"] = day.strftime("%Y-%m-%d").to_numpy()
    for i in range(6):
        columns[f"decile {i}"] = np.clip(decile + rng.integers(-i, i + 1, n), 1, 10)
        text = np.array(["Low", "Medium", "High"])[np.digitize(decile, [5, 8])]
        columns[f"score text {i}"] = np.where(rng.random(n) < 0.05 * i, "Low", text)
    for i in range(5):
        columns[f"charge {i}"] = [f"charge {c}" for c in np.minimum(rng.geometric(0.05, n), 300)]
    columns["race"] = rng.choice(["A", "B", "C", "D"], n, p=[0.51, 0.34, 0.09, 0.06])
    columns["sex"] = rng.choice(["Male", "Female"], n, p=[0.8, 0.2])
    columns["age"] = age = rng.gamma(8, 4.3, n).round()
    columns["age group"] = np.array(["young", "middle", "old"])[np.digitize(age, [25, 45])]
    columns["id"] = np.arange(n)
    columns["name"] = [f"person {i}" for i in range(n)]
    columns["type"] = "F"
    columns["recid"] = (rng.random(n) < decile / 15).astype(int)
    frame = pd.DataFrame(columns)
    return _missing(
        rng, frame, {name: 0.3 for name in frame if name.startswith(("date", "charge"))}
    )


def numbers() -> pd.DataFrame:
    """1,500 rows of 27 columns of numbers that depend on five others, and of 3 of few values."""
    rng, n = np.random.default_rng(3), 1500
    x = np.tanh(rng.normal(size=(n, 5)) @ rng.normal(size=(5, 27))) ** 2
    x += rng.normal(0, 0.5, x.shape)
    frame = pd.DataFrame(x.round(4), columns=[f"x{i}" for i in range(27)])
    frame["city"] = rng.choice(list("abcdef"), n)
    frame["level"] = np.where(x[:, 0] > 0.5, "high", "low")
    frame["count"] = rng.poisson(3, n)
    return frame


TABLES: dict[str, Callable[[], pd.DataFrame]] = {"compas": compas, "numbers": numbers}


def cost_of(command: Sequence[str], folder: Path) -> Cost:
    """Run a process to its end, in a folder; infinite if it ran out of time."""
    with (folder / "log").open("w") as printed:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, stdout=printed, stderr=printed, env=ENVIRONMENT
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode == TIMED_OUT:
        return Cost(np.inf, np.inf, np.inf)
    if process.returncode:
        log = (folder / "log").read_text(errors="replace")[-2000:]
        raise RuntimeError(f"{command} ended with {process.returncode}: {log}")
    return Cost(wall, used.ru_utime + used.ru_stime, 1024.0 * used.ru_maxrss)


def rows_of(name: str, rounds: int, *, others: bool) -> Iterator[tuple[str, Cost]]:
    """Measure a table by all contestants, in turn; medians of the rounds."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = str(folder / f"{name}.csv")
        TABLES[name]().to_csv(path, index=False)
        commands = {"hgr-jax scan": [sys.executable, "-m", "hgr_jax.cli", "scan", path, "--force"]}
        if others and importlib.util.find_spec("phik"):
            patient = ["timeout", str(PATIENCE)]
            commands["PhiK's matrix"] = [*patient, sys.executable, "-c", PHIK, path]
        found: dict[str, list[Cost]] = {contestant: [] for contestant in commands}
        for _ in range(rounds):
            for contestant, command in commands.items():
                found[contestant].append(cost_of(command, folder))
    for contestant, costs in found.items():
        values = (np.median([dataclasses.astuple(cost) for cost in costs], axis=0)).tolist()
        yield contestant, Cost(*values)


def first_use(report: MarkdownReport, quick: bool) -> bool:
    """A row for every table and contestant; whether ours keep their bounds."""

    def rows() -> Iterator[tuple[list[str], bool | None]]:
        for name in ("numbers",) if quick else BOUNDS:
            for contestant, cost in rows_of(name, 1 if quick else 3, others=not quick):
                bound, holds = "", None
                if contestant == "hgr-jax scan":
                    bound = f"{BOUNDS[name]:g} s"
                    holds = cost.wall <= BOUNDS[name]
                    holds &= cost.memory <= MOST_MEMORY.get(name, np.inf)
                figures = [f"{cost.wall:.1f} s", f"{cost.cpu:.1f} s", f"{cost.memory / 1e9:.2f} GB"]
                if np.isinf(cost.wall):
                    figures = [f"> {PATIENCE} s", "", ""]
                yield [name, contestant, *figures, bound], holds

    return report.judged_table(("table", "program", "time", "CPU", "memory", "bound"), rows())


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for every table and contestant; 1 if a bound of ours is exceeded."""
    return run_bench(__doc__, {"first_use": first_use}, arguments)


if __name__ == "__main__":
    sys.exit(main())
