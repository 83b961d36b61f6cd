"""How near are estimates to the HGR of laws whose HGR is known?

    python -m bench.truth [--quick] [--write]

The laws of `bench.laws`: half of them were looked at while `hgr` was made, the others were not, and
both halves are reported.  The oracle knows the functions that attain HGR and correlates them; its
error is what sampling leaves.  Laws whose HGR no functions attain are reported apart, and so are
laws that oscillate, with how often independence is rejected.  The same for intervals: how often
they cover HGR, and how wide they are.  The estimates of maxcorr take longer: they have the first
samples only.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

import hgr_jax
from bench import peers
from bench.laws import Law, laws, oscillating_laws
from bench.report import MarkdownReport, Part, run_bench
from hgr_jax.measures.classical import average_ranks

SEED = 20_261_126
"""Of the samples; `hgr` was made on others."""

ROWS = {100: 400, 300: 400, 1_000: 300, 3_000: 150, 10_000: 60}
"""Numbers of rows, and of samples of each law."""

INTERVAL_ROWS = {100: 1_000, 300: 1_000, 1_000: 1_000, 3_000: 300}
"""Numbers of rows, and of samples of each law, for intervals."""

OSCILLATION_ROWS = {300: 200, 1_000: 200, 3_000: 100, 10_000: 60}
"""Numbers of rows, and of samples of each oscillating law."""

LEVEL = 0.95
"""Level of the intervals."""

TESTED_ROWS = 1_000
"""Number of rows of which the power is measured."""

Values = NDArray[np.float64]
Estimates = Callable[[Values, Values], Values]


@dataclasses.dataclass(frozen=True)
class Contestant:
    """An estimate of HGR.

    Attributes:
      estimate: function ``(a, b)``: of float32 arrays and JAX, or of float64 arrays of the host.
      most_rows: largest number of rows that it takes.
      samples: number of samples that it has of each law; None for all of them.
      on_host: whether it is for the host, and not traced by JAX.
    """

    estimate: Callable[[Any, Any], Any]
    most_rows: int = max(ROWS)
    samples: int | None = None
    on_host: bool = False


HGR = Contestant(lambda a, b: float(hgr_jax.hgr(a, b)), on_host=True)

Contestants = Mapping[str, Contestant]

QUICK = ("hgr", "KB of values, 5", "maxcorr, double kernel, 5")
"""Estimates of the quick version."""

PEER_ROWS = 1_000
"""Largest number of rows of an estimate of a peer."""


def contestants() -> dict[str, Contestant]:
    """Return estimates of HGR: ours, and those of maxcorr."""
    key = jax.random.key(0)
    return {
        "hgr": HGR,
        "KB of ranks, 5": Contestant(lambda a, b: hgr_jax.kb(average_ranks(a), average_ranks(b))),
        "KB of values, 5": Contestant(hgr_jax.kb),
        "SK of values, 5": Contestant(hgr_jax.sk),
        "ACE": Contestant(hgr_jax.ace),
        "RDC": Contestant(functools.partial(hgr_jax.rdc, key=key)),
        "KDE": Contestant(hgr_jax.kde),
        "Spearman, absolute": Contestant(lambda a, b: jnp.abs(hgr_jax.spearman(a, b))),
        "maxcorr, double kernel, 5": Contestant(peers.maxcorr_double, PEER_ROWS, 20, on_host=True),
        "maxcorr, neural": Contestant(peers.maxcorr_neural, PEER_ROWS, 5, on_host=True),
    }


def samples(law: Law, rows: int, count: int, place: int) -> tuple[Values, Values]:
    """Samples ``(count, rows)`` of both variables."""
    rng = np.random.default_rng([SEED, rows, place])
    pairs = [law.sample(rng, rows) for _ in range(count)]
    return np.stack([x for x, _ in pairs]), np.stack([y for _, y in pairs])


def oracle_intervals(law: Law, x: Values, y: Values) -> tuple[Values, Values]:
    """Both ends of normal intervals for the correlation of the functions that attain HGR."""
    ends = []
    for pair in zip(x, y, strict=True):
        f, g = ((z - z.mean()) / z.std() for z in law.optimal(*pair))
        value = np.mean(f * g)
        influence = f * g - value * (f**2 + g**2) / 2
        width = stats.norm.ppf((1 + LEVEL) / 2) * influence.std() / np.sqrt(len(f))
        ends.append((abs(value) - width, abs(value) + width))
    low, high = np.array(ends).T
    return low, high


def oracle_values(law: Law, x: Values, y: Values) -> Values:
    """The correlations of the functions that attain HGR."""
    pairs = [law.optimal(a, b) for a, b in zip(x, y, strict=True)]
    return np.array([abs(np.corrcoef(f, g)[0, 1]) for f, g in pairs])


def errors_of(plan: dict[int, int], every: Sequence[Law], estimates: Contestants) -> pd.DataFrame:
    """Errors and biases of the oracle and of all estimates, by number of rows, law and estimate.

    The law "independence" has the errors of `hgr` alone.
    """
    found = []
    for rows, count in plan.items():
        print(f"n = {rows:,}", file=sys.stderr, flush=True)
        ours = {n: over_samples(e) for n, e in estimates.items() if rows <= e.most_rows}
        for place, law in enumerate(every):
            x, y = samples(law, rows, count, place)
            values = {"oracle": oracle_values(law, x, y)} if law.attained else {}
            values |= {name: estimate(x, y) for name, estimate in ours.items()}
            found += [(rows, law.name, name, *_error(v - law.hgr)) for name, v in values.items()]
        x, y = np.random.default_rng([SEED, rows]).standard_normal((2, 2 * count, rows))
        found.append((rows, "independence", "hgr", *_error(ours["hgr"](x, y))))
    table = pd.DataFrame(found, columns=["rows", "law", "name", "error", "bias"])
    return table.set_index(["rows", "law", "name"])


def _error(x: Values) -> tuple[float, float]:
    return float(np.sqrt(np.mean(np.square(x)))), float(np.mean(x))


def over_samples(contestant: Contestant) -> Estimates:
    """The estimates of samples ``(count, rows)``, one after the other."""
    if contestant.on_host:
        pairs = slice(contestant.samples)
        return lambda x, y: np.array(
            [contestant.estimate(a, b) for a, b in zip(x[pairs], y[pairs], strict=True)]
        )
    ours = jax.jit(lambda x, y: jax.lax.map(lambda pair: contestant.estimate(*pair), (x, y)))
    return lambda x, y: np.asarray(ours(*(jnp.asarray(z, jnp.float32) for z in (x, y))), float)


def halves(every: Sequence[Law]) -> dict[str, list[str]]:
    """The names of the laws that were looked at, and of those that were kept out."""
    return {
        text: [law.name for law in every if law.tuned is tuned]
        for text, tuned in (("looked at", True), ("kept out", False))
    }


def mean_cells(found: pd.DataFrame, some: Sequence[str], name: str) -> list[str]:
    """The mean error of some laws, for each number of rows, and in brackets its ratio."""
    errors = found["error"].unstack("name")
    cells = []
    for _, of_rows in errors.groupby("rows"):
        means = of_rows.droplevel("rows").loc[list(some)].mean(skipna=False)
        ratio = "" if name == "oracle" else f" ({means[name] / means['oracle']:.2f})"
        cells.append("" if np.isnan(means[name]) else f"{means[name]:.4f}{ratio}")
    return cells


def error_tables(
    report: MarkdownReport, plan: dict[int, int], every: Sequence[Law], estimates: Contestants
) -> None:
    """The table of errors: means over the laws whose HGR is attained, and independence."""
    found = errors_of(plan, every, estimates)
    attained = [law for law in every if law.attained]
    names = [law.name for law in attained]
    sizes = [f"n = {rows:,}" for rows in plan]
    report.say(
        f"Root mean squared error, averaged over {len(attained)} laws whose HGR is known and"
        " attained, and in brackets as a multiple of the oracle's."
    )
    for name, contestant in estimates.items():
        if contestant.samples is not None:
            report.say(f"{name}: of the first {contestant.samples} samples of each law.")
    rows = [[name, *mean_cells(found, names, name)] for name in ("oracle", *estimates)]
    rows += [
        [f"hgr, {text} ({len(half)})", *mean_cells(found, half, "hgr")]
        for text, half in halves(attained).items()
    ]
    independent = found["error"].unstack("name")["hgr"].xs("independence", level="law")
    rows.append(["hgr, independence", *(f"{error:.4f}" for error in independent)])
    report.table(["", *sizes], rows)


def oscillation_table(report: MarkdownReport, plan: dict[int, int], every: Sequence[Law]) -> None:
    """The table of oscillating laws: errors of `hgr`, and the power of the test."""
    found = errors_of(plan, every, {"hgr": HGR})
    tested = min(TESTED_ROWS, max(plan))
    power = {}
    for place, law in enumerate(every):
        pairs = zip(*samples(law, tested, plan[tested], place), strict=True)
        pvalues = [hgr_jax.independence_test(x, y).pvalue for x, y in pairs]
        power[law.name] = float(np.mean(np.array(pvalues) < 1 - LEVEL))

    def lines() -> Iterator[list[str]]:
        for text, some in {"all": [law.name for law in every], **halves(every)}.items():
            rejected = np.mean([power[name] for name in some])
            least = min(some, key=lambda name: power[name])
            lowest = "" if power[least] == 1 else f", of {least} {power[least]:.3f}"
            means = mean_cells(found, some, "hgr")
            yield [f"{text} ({len(some)})", *means, f"{rejected:.3f}{lowest}"]

    report.say(
        "Laws that oscillate, sawteeth, staircases and clusters: root mean squared error of `hgr`,"
        " and in brackets as a multiple of the oracle's. Power:"
        f" how often `independence_test` has p < {1 - LEVEL:.2f} of {tested:,} rows, and where"
        " that is lowest."
    )
    report.table(["", *(f"n = {rows:,}" for rows in plan), "power"], lines())


def interval_tables(report: MarkdownReport, plan: dict[int, int], every: Sequence[Law]) -> None:
    """Table of intervals: coverage and width, means over the laws, and where it is lowest."""

    def intervals(x: Values, y: Values) -> tuple[Values, Values]:
        pairs = zip(x, y, strict=True)
        low, high = np.array([hgr_jax.hgr_fit(*pair).interval(LEVEL) for pair in pairs]).T
        return low, high

    found: dict[tuple[int, str], dict[str, float]] = {}
    independent = []
    for rows, count in plan.items():
        for place, law in enumerate(every):
            x, y = samples(law, rows, count, place)
            ways = {"": intervals(x, y)}
            if law.attained:
                ways["oracle's "] = oracle_intervals(law, x, y)
            found[rows, law.name] = {}
            for way, (low, high) in ways.items():
                covers = np.mean((low <= law.hgr) & (law.hgr <= high))
                found[rows, law.name] |= {
                    f"{way}coverage": float(covers),
                    f"{way}width": float(np.mean(high - low)),
                }
        x, y = np.random.default_rng([SEED, rows]).standard_normal((2, 2 * count, rows))
        independent.append(f"{np.mean(intervals(x, y)[0] == 0):.3f}")
    table = pd.DataFrame(found).T

    def cell(rows: int, some: Sequence[str]) -> str:
        """Mean coverage of laws, and the ratio of the mean widths where they are attained."""
        means = table.loc[[(rows, name) for name in some]].mean(skipna=False)
        ratio = means["width"] / means["oracle's width"]
        return f"{means['coverage']:.3f}" + ("" if np.isnan(ratio) else f" ({ratio:.2f})")

    attained = [law for law in every if law.attained]
    report.say(
        f"Share of {LEVEL:.0%} intervals of `hgr_fit` that cover HGR, and in brackets their mean"
        " width, as a multiple of that of the oracle's normal intervals."
    )

    def summary() -> Iterator[list[str]]:
        covered = table["oracle's coverage"].groupby(level=0).mean()
        yield ["oracle", *(f"{share:.3f}" for share in covered)]
        beyond = [law.name for law in every if not law.attained]
        for text, some in {**halves(attained), "not attained": beyond}.items():
            if some is not beyond:
                yield [f"{text} ({len(some)})", *(cell(rows, some) for rows in plan)]
            if some:
                shares = (table["coverage"][rows][some] for rows in plan)
                yield [f"{text}, lowest", *(f"{s.min():.3f}, {s.idxmin()}" for s in shares)]
        yield ["independence", *independent]

    report.table(["", *(f"n = {rows:,}" for rows in plan)], summary())


def errors(report: MarkdownReport, quick: bool) -> None:
    """Errors of all estimates."""
    found = {name: each for name, each in contestants().items() if not quick or name in QUICK}
    error_tables(report, {100: 3} if quick else ROWS, laws()[:: 12 if quick else 1], found)


def oscillations(report: MarkdownReport, quick: bool) -> None:
    """Errors of `hgr` of laws that oscillate."""
    every = oscillating_laws()[:: 5 if quick else 1]
    oscillation_table(report, {100: 3} if quick else OSCILLATION_ROWS, every)


def intervals(report: MarkdownReport, quick: bool) -> None:
    """Coverage and width of intervals."""
    every = laws()[:: 12 if quick else 1]
    interval_tables(report, {100: 3} if quick else INTERVAL_ROWS, every)


PARTS: dict[str, Part] = {
    "truth errors": errors,
    "truth oscillations": oscillations,
    "truth intervals": intervals,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    return run_bench(__doc__, PARTS, arguments)


if __name__ == "__main__":
    sys.exit(main())
