"""What a first call costs: compilation, programs, memory maps; here and at another revision.

    python -m bench.compile [--against REV] [--quick] [--write]

Every case runs in a process of its own, in turns here and in a worktree of REV, with the same
interpreter and packages.  It imports the package, makes its data, and then makes one call.

* *compilation*: seconds that JAX spends on it (tracing, lowering and XLA, by its own events);
* *first call*: seconds of the whole call;
* *programs*, *lines*: programs compiled, and lines of their optimised HLO;
* *maps*: lines of ``/proc/self/maps`` that the call has added (of which a process has 65,530);
* *steady*: the median of later calls.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.machine import describe
from bench.report import MarkdownReport, bench_parser
from bench.timing import seconds

ROOT = Path(__file__).parent.parent

MAX_MAPS = {
    "kb": 80,
    "sk": 80,
    "value and gradient of kb": 150,
    "kb_fit": 150,
    "hessian of kb": 200,
    "scan of values": 200,
    "default scan": 400,
    "training": 600,
}
"""Largest number of memory maps that each first call may add."""

MAX_RATIO = 1.05
"""Largest time of compilation, and of a later call, as a multiple of REV's."""

STEADY_CASES = tuple(
    f"{name}, n = {rows}"
    for name in ("kb", "gradient", "sk", "scan")
    for rows in (1_000, 10_000, 100_000, 2**20)
)


def measured(case: str, tree: Path) -> dict[str, Any]:
    """One case in a process of its own, with the package and the cases of a tree."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    cases = str(tree / "bench" / "compile_case.py")
    done = subprocess.run(
        [sys.executable, "-P", cases, case],  # -P: else bench/coverage.py is `coverage`
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"case {case!r} failed in {tree}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def worktree(revision: str | None) -> Iterator[Path | None]:
    """A checkout of another revision; None without one."""
    if revision is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", str(place), revision], check=True)
        try:
            yield place
        finally:
            subprocess.run([*git, "remove", "--force", str(place)], check=True)


def race(
    cases: Sequence[str], trees: dict[str, Path], rounds: int
) -> dict[str, dict[str, dict[str, float]]]:
    """Medians of every figure, by case and tree; the trees take turns."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for case in cases:
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in trees}
        for _ in range(rounds):
            for name, tree in trees.items():
                runs[name].append(measured(case, tree))
        found[case] = {
            name: {key: float(np.median([run[key] for run in several])) for key in several[0]}
            for name, several in runs.items()
        }
    return found


def first_calls(
    report: MarkdownReport, trees: dict[str, Path], cases: Sequence[str], rounds: int
) -> bool:
    """The table of first calls, and whether all is within the bounds."""
    within = True
    rows = []
    for case, by_tree in race(cases, trees, rounds).items():
        here = by_tree["here"]
        good = here["maps"] <= MAX_MAPS[case]
        there = by_tree.get("there")
        ratio = (
            here["compilation"] / there["compilation"] if there and there["compilation"] else None
        )
        good &= ratio is None or ratio <= MAX_RATIO
        within &= good
        for name, figures in by_tree.items():
            rows.append(
                [
                    case if name == "here" else "",
                    name,
                    seconds(figures["compilation"]),
                    seconds(figures["first"]),
                    f"{figures['programs']:.0f}",
                    f"{figures['lines']:,.0f}",
                    f"{figures['maps']:.0f}",
                    f"{ratio:.2f}" if ratio and name == "here" else "",
                    ("yes" if good else "NO") if name == "here" else "",
                ]
            )
    header = ("first call", "", "compilation", "first call", "programs", "lines", "maps")
    report.table((*header, f"ratio (at most {MAX_RATIO})", "within bounds"), rows)
    return within


def later_calls(
    report: MarkdownReport, trees: dict[str, Path], cases: Sequence[str], rounds: int
) -> bool:
    """The table of later calls, and whether all is within the bounds."""
    within = True
    rows = []
    for case, by_tree in race(cases, trees, rounds).items():
        line = [case, seconds(by_tree["here"]["steady"])]
        if "there" in by_tree:
            ratio = by_tree["here"]["steady"] / by_tree["there"]["steady"]
            within &= ratio <= MAX_RATIO
            line += [seconds(by_tree["there"]["steady"]), f"{ratio:.2f}"]
        rows.append(line)
    header = ("later call", "here", "there", f"ratio (at most {MAX_RATIO})")
    report.table(header if "there" in trees else header[:2], rows)
    return within


def main(argv: list[str] | None = None) -> int:
    """Print the tables; 1 where a bound is broken."""
    parser = bench_parser("compile", __doc__, quick="two cases, once each")
    parser.add_argument("--against", metavar="REV", help="a revision of this repository")
    options = parser.parse_args(argv)
    report = MarkdownReport()
    report.say(describe())
    report.say()
    if options.against:
        report.say(f"*here* is this tree, *there* is {options.against}.")
    rounds = 1 if options.quick else 3
    first = ("kb",) if options.quick else tuple(MAX_MAPS)
    later = STEADY_CASES[:1] if options.quick else STEADY_CASES
    with worktree(options.against) as other:
        trees = {"here": ROOT} | ({"there": other} if other else {})
        within = first_calls(report, trees, first, rounds)
        within &= later_calls(report, trees, later, rounds)
    if options.write:
        report.keep("compile")
    return 0 if within or options.quick else 1


if __name__ == "__main__":
    sys.exit(main())
