"""Every measure beside its library counterpart.  ``python -m bench.measures [--quick] [--write]``.

Ours are compiled, in float32, with inputs on the device; the others are called as their users
call them, in float64.  All contestants of a row run in turn, in one process.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import scipy.stats

import hgr_jax
from bench import peers
from bench.data import relation
from bench.report import MarkdownReport, run_bench
from bench.timing import race, seconds

SIZES = (1_000, 10_000, 100_000)

PAIRWISE = 20_000
"""Beyond so many rows a peer that holds n x n matrices is not run (they would need 3 GiB each).

Our O(n^2) measures, which need no such memory, are called only once.
"""


def ours() -> dict[str, tuple[Callable[..., jax.Array], int | None]]:
    """Our measures, and up to how many rows each races; beyond, the value is timed once."""
    key = jax.random.key(0)
    return {
        "pearson": (hgr_jax.pearson, None),
        "spearman": (hgr_jax.spearman, None),
        "hgr": (hgr_jax.hgr, None),
        "kb": (hgr_jax.kb, None),
        "sk": (hgr_jax.sk, None),
        "kde": (hgr_jax.kde, None),
        "chi2": (hgr_jax.chi2, None),
        "rdc": (partial(hgr_jax.rdc, key=key), None),
        "ace": (hgr_jax.ace, None),
        "neural": (partial(hgr_jax.neural, key=key), 10_000),
        "distance_correlation": (hgr_jax.distance_correlation, None),
        "hsic": (hgr_jax.hsic, PAIRWISE),
        "kernel_cca": (hgr_jax.kernel_cca, None),
        "kernel_ica_contrast": (hgr_jax.kernel_ica_contrast, None),
    }


def counterparts() -> dict[str, tuple[str, Callable[[Any, Any], float], int | None]]:
    """The library counterpart of a measure: its name, how it is called, and up to which n."""
    import dcor
    import maxcorr
    import torch

    with warnings.catch_warnings(action="ignore"):
        from hyppo.independence import Hsic

    def density(a: Any, b: Any, *, chi_square: bool) -> float:
        peer = maxcorr.indicator("hgr", "kde", backend="torch", chi_square=chi_square)
        return float(peer.compute(torch.tensor(a), torch.tensor(b)))

    def hsic(a: Any, b: Any) -> float:
        with warnings.catch_warnings(action="ignore"):
            # Of the biased form it returns the root.
            return float(Hsic(bias=True).statistic(a[:, None], b[:, None])) ** 2

    def randomized(a: Any, b: Any) -> float:
        return float(maxcorr.indicator("hgr", "rdc").compute(a, b))

    return {
        "pearson": ("SciPy", lambda a, b: float(scipy.stats.pearsonr(a, b).statistic), None),
        "spearman": ("SciPy", lambda a, b: float(scipy.stats.spearmanr(a, b).statistic), None),
        "kb": ("maxcorr", peers.maxcorr_double, None),
        "sk": ("maxcorr", peers.maxcorr_single, None),
        "kde": ("maxcorr", partial(density, chi_square=False), None),
        "chi2": ("maxcorr", partial(density, chi_square=True), None),
        "rdc": ("maxcorr", randomized, None),
        "neural": ("maxcorr", peers.maxcorr_neural, 10_000),
        "distance_correlation": ("dcor", lambda a, b: float(dcor.distance_correlation(a, b)), None),
        "hsic": ("hyppo", hsic, PAIRWISE),
    }


def times(report: MarkdownReport, sizes: tuple[int, ...], rounds: int) -> None:
    """One table: a row for each measure, columns for each n."""
    report.say(
        "Time of one pair, with all defaults: `b = sin(pi a)` with noise 0.5. Ours in float32, the"
        " others in float64; in brackets how many times as long as ours the other takes. A dash: no"
        " counterpart, or not run at this size (it holds n x n matrices, or takes minutes)."
    )
    others = counterparts()
    rows = []
    for name, (measure, largest) in ours().items():
        library, other, largest_other = others.get(name, ("", None, 0))
        cells = [f"`{name}`", library or "none"]
        for n in sizes:
            cells += _race(name, measure, other, n, (largest, largest_other), rounds)
        rows.append(cells)
        print(" ".join(cells), file=sys.stderr, flush=True)
        jax.clear_caches()
    header = ["", "counterpart"]
    for n in sizes:
        header += [f"ours, n = {n:,}", "value and gradient", "counterpart"]
    report.table(header, rows)


def _race(
    name: str,
    measure: Callable[..., jax.Array],
    other: Callable[[Any, Any], float] | None,
    n: int,
    largest: tuple[int | None, int | None],
    rounds: int,
) -> list[str]:
    a, b = relation("sin", n)
    x, y = (jnp.asarray(v, jnp.float32) for v in (a, b))
    contestants: dict[str, Callable[[], Any]] = {}
    if largest[0] is None or n <= largest[0]:
        contestants["ours"] = partial(jax.jit(measure), x, y)
        gradient = jax.jit(jax.value_and_grad(measure, argnums=(0, 1)))
        contestants["gradient"] = partial(gradient, x, y)
    if other is not None and (largest[1] is None or n <= largest[1]):
        contestants["theirs"] = partial(other, a, b)
    timings = race(contestants, rounds=rounds, most_calls=50)
    if "ours" not in timings:
        program = jax.jit(measure).lower(x, y).compile()
        start = time.perf_counter()
        jax.block_until_ready(program(x, y))
        once = seconds(time.perf_counter() - start)
        return [f"{once} (one call)", "-", "-"]
    cells = [seconds(timings[k].median) if k in timings else "-" for k in ("ours", "gradient")]
    if "theirs" in timings:
        theirs = timings["theirs"].median
        cells.append(f"{seconds(theirs)} ({theirs / timings['ours'].median:,.1f})")
    else:
        cells.append("-")
    return cells


def measures(report: MarkdownReport, quick: bool) -> None:
    """Times of every measure."""
    times(report, (200,) if quick else SIZES, rounds=1 if quick else 3)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the tables."""
    return run_bench(__doc__, {"measures": measures}, arguments)


if __name__ == "__main__":
    sys.exit(main())
