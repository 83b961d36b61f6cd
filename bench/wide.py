"""Tables of very many columns: time, memory, and what is found among all pairs.

    python -m bench.wide [--quick] [--columns N] [--write]

One column of twenty-five is made of another one.  Every scan is a process of its own, whose memory
is its peak; contestants have the sizes that they can still do.  Exits with 1 where `scan(top=1000)`
of the largest table takes more than 10 minutes or 4 GB, or finds less or more than what is there.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hgr_jax
from bench.machine import describe
from bench.power import interdependence_features
from bench.report import MarkdownReport, bench_parser
from bench.timing import last_line_of, peak

ROWS, EVERY, KEPT = 1000, 25, 1000
MINUTES, GIGABYTES = 10, 4
FALSE = 0.1
"""Share of the discoveries that may be false at a rate of 5%: the rate is that of the mean."""


def wide_table(columns: int) -> NDArray[np.float32]:
    """Normal columns ``(1000, p)``, of which one in twenty-five is a noisy curve of another one."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, columns)).astype(np.float32)
    for i in range(0, columns - 1, EVERY):
        curve = (x[:, i] ** 2, np.sin(3 * x[:, i]), np.abs(x[:, i]), x[:, i])[i // EVERY % 4]
        x[:, i + 1] = curve + rng.uniform(0.2, 1) * x[:, i + 1]
    return x


def _planted(first: str, second: str) -> bool:
    i, j = sorted(int(name[1:]) for name in (first, second))
    return i % EVERY == 0 and j == i + 1


def _top(x: NDArray[np.float32]) -> dict[str, Any]:
    found = hgr_jax.scan(x, top=KEPT)
    pairs = [pair for pair in found.top(KEPT, by="pvalue") if pair.adjusted_pvalue <= 0.05]
    planted = sum(_planted(pair.a, pair.b) for pair in pairs)
    return {"found": planted, "more": len(pairs) - planted} | found.settings["top"]


def _scan(x: NDArray[np.float32]) -> dict[str, Any]:
    return {"pairs": len(hgr_jax.scan(x))}


def _pandas(x: NDArray[np.float32]) -> dict[str, Any]:
    import pandas as pd

    return {"shape": pd.DataFrame(x).corr().shape}


def _interdependence(x: NDArray[np.float32]) -> dict[str, Any]:
    """All pairs from one product, as its authors' code has it."""
    features = np.concatenate([interdependence_features(c).T for c in x.T]).astype(np.float32)
    width = len(features) // x.shape[1]
    found = np.abs(features @ features.T).reshape(x.shape[1], width, x.shape[1], width)
    return {"shape": found.max(axis=(1, 3)).shape}


def _phik(x: NDArray[np.float32]) -> dict[str, Any]:
    import pandas as pd
    import phik  # noqa: F401

    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(x.shape[1])])
    return {"shape": frame.phik_matrix(interval_cols=list(frame), verbose=False).shape}


WORK: dict[str, tuple[Callable[[NDArray[np.float32]], dict[str, Any]], Sequence[int]]] = {
    "`scan(top=1000)`: values and p-values": (_top, (2000, 5000, 10**9)),
    "`scan`: all of them kept": (_scan, (2000,)),
    "pandas, `corr()`: Pearson's, no p-values": (_pandas, (2000, 5000)),
    "InterDependence Scores, no p-values": (_interdependence, (2000,)),
    "PhiK, no p-values": (_phik, (30,)),
}


def worked(name: str, columns: int) -> tuple[float, int, dict[str, Any]]:
    """Seconds, bytes and findings of some work in this process."""
    work = WORK[name][0]
    work(wide_table(min(30, columns)))  # imports and most of the compilation
    x = wide_table(columns)
    start = time.perf_counter()
    found = work(x)
    return time.perf_counter() - start, peak(), found


def measured(name: str, columns: int) -> tuple[float, int, dict[str, Any]]:
    """The same of a process of its own."""
    seconds, size, found = last_line_of("bench.wide", "--child", name, str(columns))
    return seconds, size, found


def same_values(report: MarkdownReport, columns: int) -> bool:
    """P-values and values of the pairs that are kept, beside those of the whole scan."""
    x = wide_table(columns)
    whole, found = hgr_jax.scan(x), hgr_jax.scan(x, top=KEPT)
    both = [(pair, whole[pair.a, pair.b]) for pair in found.top(KEPT)]
    bounds = {"correlation": 1e-5, "pvalue": 1e-5, "adjusted_pvalue": 1e-3}
    apart = {
        name: max(
            abs(getattr(a, name) - getattr(b, name)) / max(getattr(b, name), 1e-300)
            for a, b in both
        )
        for name in bounds
    }
    first = [{(p.a, p.b) for p in each.top(100, by="pvalue")} for each in (whole, found)]
    bounds, apart = (
        bounds | {"first 100 pairs": 0},
        apart | {"first 100 pairs": len(first[0] - first[1])},
    )
    return report.judged_table(
        [f"{columns} columns: largest difference from `scan`", "is", "at most"],
        (
            ([name, f"{apart[name]:.1e}", f"{bound:.0e}"], apart[name] <= bound)
            for name, bound in bounds.items()
        ),
    )


def tables_of_kinds(quick: bool) -> dict[str, tuple[NDArray[np.float32], dict[str, Any]]]:
    """Unrelated columns of several kinds, and the options of their scans.

    Of those that take long there are fewer.
    """
    rng = np.random.default_rng(1)
    many, few = (12, 8) if quick else (600, 100)
    normal, some = (rng.normal(size=(ROWS, p)).astype(np.float32) for p in (many, few))
    gaps = some.copy()
    gaps[rng.random(gaps.shape) < 0.05] = np.nan
    of_two = normal.copy()
    of_two[:, ::2] = of_two[:, ::2] > 0.5
    many_zeros = np.where(rng.random(some.shape) < 0.7, 0, rng.poisson(5, some.shape))
    uneven = {"weights": rng.uniform(0.1, 1, ROWS)}
    return {
        "continuous": (normal, {}),
        "of ten values": (np.floor(10 * rng.random(normal.shape)).astype(np.float32), {}),
        "of two values": ((normal > 0.5).astype(np.float32), {}),
        "of two values, one in 3% of the rows": ((normal > 1.9).astype(np.float32), {}),
        "half of two values, half continuous": (of_two, {}),
        "continuous, 5% missing": (gaps, {}),
        "continuous, rows of uneven weight": (some, uneven),
        "70% zeros": (many_zeros.astype(np.float32), {}),
        "continuous, by correlation": (some, {"top": hgr_jax.Top(50, "correlation")}),
    }


def kinds(report: MarkdownReport, quick: bool) -> None:
    """Time a pair of each kind of columns."""

    def lines() -> Any:
        for name, (x, options) in tables_of_kinds(quick).items():
            pairs = x.shape[1] * (x.shape[1] - 1) // 2
            hgr_jax.scan(x, **{"top": 50, **options})  # imports and compilation
            start = time.perf_counter()
            found = hgr_jax.scan(x, **{"top": 50, **options})
            each = 1e6 * (time.perf_counter() - start) / pairs
            sources = sorted({*found.pvalue_source[tuple(found.pairs.T)]})
            cells = [name, f"{x.shape[1]:,}", f"{each:,.1f} \N{MICRO SIGN}s", ", ".join(sources)]
            yield cells

    report.table(["columns", "how many", "a pair", "p-values"], lines())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and keep the tables if asked."""
    parser = bench_parser("wide", __doc__, quick="some dozen columns")
    parser.add_argument("--columns", type=int, default=20_000, help="of the largest table")
    parser.add_argument("--child", nargs=2, help="(what one of its processes does)")
    options = parser.parse_args(arguments)
    if options.child:
        print(json.dumps(worked(options.child[0], int(options.child[1]))))
        return 0
    most, fewer = (60, 5) if options.quick else (options.columns, 1)
    report = MarkdownReport()
    report.say(describe())

    def lines() -> Any:
        for name, (work, sizes) in WORK.items():
            run = worked if options.quick and work is not _top else measured
            for columns in sorted({min(size // fewer, most) for size in sizes}):
                took, size, found = run(name, columns)
                pairs = columns * (columns - 1) // 2
                there = len(range(0, columns - 1, EVERY))
                fine: bool | None = None
                what = ""
                if work is _top:
                    right = min(there, KEPT) * 0.95
                    what = f"{found['found']} of {there}, and {found['more']}"
                    fine = found["found"] >= right
                    fine &= found["more"] <= max(3, FALSE * found["found"])
                    fine &= took <= 60 * MINUTES and size <= GIGABYTES * 2**30
                cells = [name, f"{columns:,}", f"{pairs:,}", f"{took:,.1f} s"]
                cells += [
                    f"{1e6 * took / pairs:,.1f} \N{MICRO SIGN}s",
                    f"{size / 2**20:,.0f} MB",
                    what,
                ]
                yield cells, fine

    header = [
        "work",
        "columns",
        "pairs",
        "time",
        "a pair",
        "peak memory",
        "related pairs, and others",
    ]
    fine = report.judged_table(header, lines())
    fine &= same_values(report, min(600, most))
    report.say()
    report.say(f"What a pair takes of `scan(top=50)`, by the kind of columns, {ROWS:,} rows:")
    report.say()
    kinds(report, options.quick)
    if options.write:
        report.keep("wide")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
