"""Tables of very many columns: time, memory, and what is found.

    python -m bench.scale [--quick] [--write]

One column of twenty-five is made of another one; contestants have the sizes that they can still do.
Every scan is a process of its own, whose memory is its peak.  Exits with 1 where `scan(top=1000)`
of the largest table takes more than 10 minutes or 4 GB, or finds less or more than what is there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hgr_jax
from bench.report import MarkdownReport, run_bench
from bench.timing import in_own_process, peak

WIDE_ROWS, EVERY, KEPT = 1000, 25, 1000
MINUTES, GIGABYTES = 10, 4
FALSE = 0.1
"""Share of the discoveries that may be false at a rate of 5%: the rate is that of the mean."""


def wide_table(columns: int) -> NDArray[np.float32]:
    """Normal columns ``(1000, p)``, of which one in twenty-five is a noisy curve of another one."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(WIDE_ROWS, columns)).astype(np.float32)
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


def _phik(x: NDArray[np.float32]) -> dict[str, Any]:
    import pandas as pd
    import phik  # noqa: F401

    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(x.shape[1])])
    return {"shape": frame.phik_matrix(interval_cols=list(frame), verbose=False).shape}


WORK: dict[str, tuple[Callable[[NDArray[np.float32]], dict[str, Any]], Sequence[int]]] = {
    "`scan(top=1000)`: values and p-values": (_top, (2000, 5000, 10**9)),
    "`scan`: all of them kept": (_scan, (2000,)),
    "pandas, `corr()`: Pearson's, no p-values": (_pandas, (2000, 5000)),
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


def wide(report: MarkdownReport, quick: bool) -> bool:
    """Tables of very many columns; whether the largest takes no more than it may."""
    most, fewer = (60, 5) if quick else (20_000, 1)

    def lines() -> Iterator[tuple[list[str], bool | None]]:
        for name, (work, sizes) in WORK.items():
            for columns in sorted({min(size // fewer, most) for size in sizes}):
                took, size, found = in_own_process("bench.scale", "worked", name, columns)
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
                cells += [f"{1e6 * took / pairs:,.1f} \N{MICRO SIGN}s", f"{size / 2**20:,.0f} MB"]
                yield [*cells, what], fine

    header = ["work", "columns", "pairs", "time", "a pair", "peak memory"]
    return report.judged_table([*header, "related pairs, and others"], lines())


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a bound is exceeded."""
    return run_bench(__doc__, {"wide": wide}, arguments)


if __name__ == "__main__":
    sys.exit(main())
