"""All pairs of a table: ours, the bare matrix product, and what else there is.

python -m bench.scan [--quick] [--write]
"""

from __future__ import annotations

import itertools
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from numpy.typing import NDArray

import hgr_jax
from bench.peers import maxcorr_double, numpy_scan
from bench.report import MarkdownReport, run_bench
from bench.timing import race, seconds

Matrix = NDArray[np.floating]

DEGREE = 5
NUMPY = "plain NumPy, float64"


@jax.jit
def bare_product(features: jax.Array) -> jax.Array:
    """The matrix product of the size that a scan needs, and nothing else."""
    return jnp.matmul(features.T, features, precision=jax.lax.Precision.HIGHEST)


def speed(report: MarkdownReport, x: Matrix, rounds: int) -> None:
    """Scans of one table in float32, in turn."""
    rows, columns = x.shape
    exact, x = np.ascontiguousarray(x, np.float64), np.ascontiguousarray(x, np.float32)
    on_device = jnp.asarray(x)
    rng = np.random.default_rng(0)
    features = jnp.asarray(rng.standard_normal((rows, columns * DEGREE)), jnp.float32)
    table = pd.DataFrame(x)
    contestants: dict[str, tuple[str, Callable[[], Any]]] = {
        "bare matrix product in JAX": ("", lambda: bare_product(features)),
        "`scan(test=None)`": (
            "HGR-KB of all pairs",
            lambda: hgr_jax.scan(on_device, h=DEGREE, k=DEGREE, test=None),
        ),
        "`scan`": (
            "and p-values",
            lambda: hgr_jax.scan(on_device, h=DEGREE, k=DEGREE),
        ),
        "`scan(measure='hgr')`": (
            "HGR of ranks, and p-values",
            lambda: hgr_jax.scan(on_device, measure="hgr"),
        ),
        NUMPY: ("HGR-KB: QR, one product, SVDs", lambda: numpy_scan(exact)),
        "the same in float32": ("inexact for heavy tails", lambda: numpy_scan(x)),
        "pandas `corr`": ("Pearson", lambda: table.corr()),
    }
    timings = race({n: f for n, (_, f) in contestants.items()}, rounds=rounds, at_least=0.2)
    ours, bare = (timings[n].median for n in ("`scan(test=None)`", "bare matrix product in JAX"))
    first = [timings[name].first for name in ("`scan(test=None)`", "`scan`")]
    found = timings["`scan(test=None)`"].value
    values = found.correlation[found.pairs[:, 0], found.pairs[:, 1]]
    error = np.abs(values - timings[NUMPY].value).max()
    report.say(
        f"{rows:,} rows, {columns} columns, {len(values):,} pairs, degree {DEGREE}; float32"
        f" but where it says otherwise. Largest difference of ours from plain NumPy: {error:.1e}."
        f" The first scan of a shape compiles for {seconds(first[0])}, and for {seconds(first[1])}"
        " more with p-values."
    )
    report.table(
        ("", "what it computes", "time", "times ours", "times the product"),
        [
            [
                contestant,
                contestants[contestant][0],
                seconds(timing.median),
                f"{timing.median / ours:.2f}",
                f"{timing.median / bare:.2f}",
            ]
            for contestant, timing in timings.items()
        ],
    )


def others(report: MarkdownReport, x: Matrix, pairs: int) -> None:
    """The packages that take long: each once, maxcorr and dcor on a sample of pairs."""
    import dcor
    import phik  # noqa: F401

    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(x.shape[1])])
    every = list(itertools.combinations(range(x.shape[1]), 2))
    rng = np.random.default_rng(0)
    sample = [every[i] for i in rng.choice(len(every), min(pairs, len(every)), replace=False)]
    found = hgr_jax.scan(x.astype(np.float32), h=DEGREE, k=DEGREE, test=None)
    start = time.perf_counter()
    hgr_jax.scan(x.astype(np.float32), h=DEGREE, k=DEGREE, test=None)
    ours = time.perf_counter() - start
    rows = []

    def timed(label: str, what: str, function: Callable[[], Any], share: float = 1.0) -> Any:
        start = time.perf_counter()
        with warnings.catch_warnings(action="ignore"):
            value = function()
        took = (time.perf_counter() - start) / share
        note = "" if share == 1 else f", from {len(sample)} pairs"
        rows.append([label, what + note, seconds(took), f"{took / ours:,.0f}"])
        return value

    share = len(sample) / len(every)
    timed(
        "dcor",
        "distance correlation",
        lambda: [dcor.distance_correlation(x[:, i], x[:, j]) for i, j in sample],
        share,
    )
    theirs = timed(
        "maxcorr, double kernel",
        "HGR-KB, by a search",
        lambda: [maxcorr_double(x[:, i], x[:, j], DEGREE) for i, j in sample],
        share,
    )
    below = np.array([found.correlation[i, j] for i, j in sample]) - np.array(theirs)
    timed(
        "PhiK",
        "a correlation of binned data",
        lambda: frame.phik_matrix(interval_cols=list(frame.columns), verbose=False),
    )
    report.say(
        "Packages that take longer, once each. Of the sampled pairs maxcorr is more than"
        f" 0.01 below the exact value in {np.mean(below > 0.01):.0%}."
    )
    report.table(("", "what it computes", "time", "times ours"), rows)


def scan(report: MarkdownReport, quick: bool) -> None:
    """Both tables: contestants that are fast in turn, and others once."""
    x = np.random.default_rng(0).standard_normal((1000, 10) if quick else (10_000, 100))
    speed(report, x, rounds=2 if quick else 7)
    others(report, x, pairs=3 if quick else 60)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    return run_bench(__doc__, {"scan": scan}, arguments)


if __name__ == "__main__":
    sys.exit(main())
