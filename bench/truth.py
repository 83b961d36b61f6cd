"""How near are estimates to the HGR of laws whose HGR is known?

    python -m bench.truth [--quick] [--write]

The laws of `bench.laws`: half of them were looked at while `hgr` was made, the others were not, and
both halves are reported.  The oracle knows the functions that attain HGR and correlates them; its
error is what sampling leaves.  Laws whose HGR no functions attain are reported apart, and so are
laws that oscillate, with how often independence is rejected.  The same for intervals: how often
they cover HGR, and how wide they are.  The estimates of maxcorr, where it is installed, take
longer: they have fewer samples, the first ones.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy import stats

import hgr_jax
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

SHOWN_ROWS = 1_000
"""Number of rows of the table of single laws."""

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
    """Return estimates of HGR: ours, and those of maxcorr where it is installed."""
    key = jax.random.key(0)
    ours = {
        "hgr": HGR,
        "KB of ranks, 5": Contestant(lambda a, b: hgr_jax.kb(average_ranks(a), average_ranks(b))),
        "KB of values, 5": Contestant(hgr_jax.kb),
        "SK of values, 5": Contestant(hgr_jax.sk),
        "ACE": Contestant(hgr_jax.ace),
        "RDC": Contestant(functools.partial(hgr_jax.rdc, key=key)),
        "KDE": Contestant(hgr_jax.kde),
        "Spearman, absolute": Contestant(lambda a, b: jnp.abs(hgr_jax.spearman(a, b))),
    }
    if not all(importlib.util.find_spec(name) for name in ("maxcorr", "torch")):
        return ours
    from bench import peers

    return ours | {
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


def measured(
    law: Law, rows: int, count: int, place: int, estimates: Mapping[str, Estimates]
) -> dict[str, Values]:
    """The values of the oracle and of all estimates on the same samples of a law."""
    x, y = samples(law, rows, count, place)
    values = {"oracle": oracle_values(law, x, y)} if law.attained else {}
    return values | {name: estimate(x, y) for name, estimate in estimates.items()}


def root_mean_square(x: Values) -> float:
    """The root of the mean square."""
    return float(np.sqrt(np.mean(np.square(x))))


def over_samples(contestant: Contestant) -> Estimates:
    """The estimates of samples ``(count, rows)``, one after the other."""
    if contestant.on_host:
        pairs = slice(contestant.samples)
        return lambda x, y: np.array(
            [contestant.estimate(a, b) for a, b in zip(x[pairs], y[pairs], strict=True)]
        )
    ours = jax.jit(lambda x, y: jax.lax.map(lambda pair: contestant.estimate(*pair), (x, y)))
    return lambda x, y: np.asarray(ours(*(jnp.asarray(z, jnp.float32) for z in (x, y))), float)


def error_tables(
    report: MarkdownReport, plan: dict[int, int], every: Sequence[Law], estimates: Contestants
) -> None:
    """Tables of errors: means over the laws, single laws, independence, and not attained HGR."""
    names = list(estimates)
    on_all_samples = [name for name, each in estimates.items() if each.samples is None]
    errors: dict[int, dict[str, dict[str, float]]] = {}
    biases: dict[str, dict[str, float]] = {}
    independent: dict[int, float] = {}
    for rows, count in plan.items():
        compiled = {n: over_samples(e) for n, e in estimates.items() if rows <= e.most_rows}
        errors[rows] = {}
        print(f"n = {rows:,}", file=sys.stderr, flush=True)
        for place, law in enumerate(every):
            values = measured(law, rows, count, place, compiled)
            errors[rows][law.name] = {n: root_mean_square(v - law.hgr) for n, v in values.items()}
            if rows == min(SHOWN_ROWS, max(plan)):
                biases[law.name] = {n: float(np.mean(v)) - law.hgr for n, v in values.items()}
        rng = np.random.default_rng([SEED, rows])
        x, y = rng.standard_normal((2, 2 * count, rows))
        independent[rows] = root_mean_square(compiled["hgr"](x, y))

    attained = [law for law in every if law.attained]
    report.say("### Error of estimates")
    report.say()
    report.say(
        f"Root mean squared error, averaged over {len(attained)} laws whose HGR is known and"
        " attained, and in brackets as a multiple of the oracle's."
    )
    for name, contestant in estimates.items():
        if contestant.samples is not None:
            report.say(f"{name}: of the first {contestant.samples} samples of each law.")
    report.table(
        ["", *(f"n = {rows:,}" for rows in plan)],
        (
            [name, *(_mean(errors[rows], attained, name) for rows in plan)]
            for name in ["oracle", *names]
        ),
    )
    report.say(
        "Of the two halves of the laws, `hgr` alone; its median and largest ratio; how often"
        " it has the smallest error of all estimates that have all samples; its error where there"
        " is independence."
    )
    report.table(
        ["", *(f"n = {rows:,}" for rows in plan)],
        _halves(errors, independent, attained, on_all_samples),
    )
    shown = min(SHOWN_ROWS, max(plan))
    report.say(f"### Single laws, n = {shown:,}")
    report.say()
    report.say("Root mean squared error, and in brackets the bias.")
    report.table(
        ["", "HGR", "kept out", "oracle", *names],
        (
            [
                law.name,
                f"{law.hgr:.3f}",
                "" if law.tuned else "yes",
                *(
                    f"{errors[shown][law.name][n]:.3f} ({biases[law.name][n]:+.3f})"
                    if n in errors[shown][law.name]
                    else ""
                    for n in ["oracle", *names]
                ),
            ]
            for law in every
        ),
    )
    report.say("Laws without an oracle: no functions attain their HGR, which is a supremum.")


def _mean(errors: dict[str, dict[str, float]], some: Sequence[Law], name: str) -> str:
    of_laws = [errors[law.name] for law in some]
    if any(name not in of_law for of_law in of_laws):
        return ""
    mean, oracle = (float(np.mean([of_law[n] for of_law in of_laws])) for n in (name, "oracle"))
    return f"{mean:.4f}" + (f" ({mean / oracle:.2f})" if name != "oracle" else "")


def _halves(
    errors: dict[int, dict[str, dict[str, float]]],
    independent: dict[int, float],
    attained: Sequence[Law],
    rivals: Sequence[str],
) -> Iterator[list[str]]:
    for text, tuned in (("looked at while it was made", True), ("kept out", False)):
        half = [law for law in attained if law.tuned is tuned]
        yield [f"{text} ({len(half)})", *(_mean(e, half, "hgr") for e in errors.values())]
    ratios = {
        rows: [e[law.name]["hgr"] / e[law.name]["oracle"] for law in attained]
        for rows, e in errors.items()
    }
    yield ["median ratio", *(f"{np.median(r):.2f}" for r in ratios.values())]
    yield ["largest ratio", *(f"{max(r):.2f}" for r in ratios.values())]
    best = []
    for of_laws in errors.values():
        smallest = [
            min((v, n) for n, v in of_laws[law.name].items() if n in rivals)[1] for law in attained
        ]
        best.append(f"{np.mean([n == 'hgr' for n in smallest]):.0%}")
    yield ["smallest error", *best]
    yield ["independence", *(f"{error:.4f}" for error in independent.values())]


def oscillation_table(report: MarkdownReport, plan: dict[int, int], every: Sequence[Law]) -> None:
    """The table of oscillating laws: errors of `hgr`, and the power of the test."""
    hgr = over_samples(HGR)
    errors: dict[int, dict[str, dict[str, float]]] = {}
    biases: dict[int, dict[str, float]] = {}
    power: dict[str, float] = {}
    tested = min(SHOWN_ROWS, max(plan))
    for rows, count in plan.items():
        errors[rows], biases[rows] = {}, {}
        print(f"n = {rows:,}", file=sys.stderr, flush=True)
        for place, law in enumerate(every):
            values = measured(law, rows, count, place, {"hgr": hgr})
            errors[rows][law.name] = {n: root_mean_square(v - law.hgr) for n, v in values.items()}
            biases[rows][law.name] = float(np.mean(values["hgr"])) - law.hgr
            if rows == tested:
                pairs = zip(*samples(law, rows, count, place), strict=True)
                pvalues = [hgr_jax.independence_test(x, y).pvalue for x, y in pairs]
                power[law.name] = float(np.mean(np.array(pvalues) < 1 - LEVEL))

    def rows_of_table() -> Iterator[list[str]]:
        halves = [[law for law in every if law.tuned is tuned] for tuned in (True, False)]
        for name, some in zip(("all", "looked at", "kept out"), (every, *halves), strict=True):
            means = [_mean(of_laws, some, "hgr") for of_laws in errors.values()]
            rejected = np.mean([power[law.name] for law in some])
            yield [f"{name} ({len(some)})", "", "", *means, f"{rejected:.3f}"]
        for law in every:
            cells = [
                f"{errors[rows][law.name]['hgr']:.3f} ({biases[rows][law.name]:+.3f})"
                for rows in plan
            ]
            kept_out = "" if law.tuned else "yes"
            yield [law.name, f"{law.hgr:.3f}", kept_out, *cells, f"{power[law.name]:.3f}"]

    report.say("### Oscillations, sawteeth, staircases and clusters")
    report.say()
    report.say(
        "Root mean squared error of `hgr`: means over the laws, and in brackets as a multiple of"
    )
    report.say("the oracle's; of single laws, and in brackets the bias.  Power: the share of")
    report.say(f"samples of {tested:,} rows in which `independence_test` has p < {1 - LEVEL:.2f}.")
    report.table(
        ["", "HGR", "kept out", *(f"n = {rows:,}" for rows in plan), "power"], rows_of_table()
    )


def interval_tables(report: MarkdownReport, plan: dict[int, int], every: Sequence[Law]) -> None:
    """Tables of intervals: coverage and width, means over the laws and single laws."""

    def intervals(x: Values, y: Values) -> tuple[Values, Values]:
        pairs = zip(x, y, strict=True)
        low, high = np.array([hgr_jax.hgr_fit(*pair).interval(LEVEL) for pair in pairs]).T
        return low, high

    covered: dict[int, dict[str, float]] = {}
    widths: dict[int, dict[str, tuple[float, float]]] = {}
    oracle: dict[int, list[float]] = {}
    independent: dict[int, float] = {}
    for rows, count in plan.items():
        covered[rows], widths[rows], oracle[rows] = {}, {}, []
        for place, law in enumerate(every):
            x, y = samples(law, rows, count, place)
            low, high = intervals(x, y)
            covered[rows][law.name] = float(np.mean((low <= law.hgr) & (law.hgr <= high)))
            if law.attained:
                first, last = oracle_intervals(law, x, y)
                oracle[rows].append(float(np.mean((first <= law.hgr) & (law.hgr <= last))))
                widths[rows][law.name] = float(np.mean(high - low)), float(np.mean(last - first))
        x, y = np.random.default_rng([SEED, rows]).standard_normal((2, 2 * count, rows))
        independent[rows] = float(np.mean(intervals(x, y)[0] == 0))

    def cell(rows: int, some: Sequence[Law]) -> str:
        """Mean coverage of laws, and the ratio of the mean widths where they are attained."""
        text = f"{np.mean([covered[rows][law.name] for law in some]):.3f}"
        if not all(law.attained for law in some):
            return text
        of_hgr, of_oracle = np.mean([widths[rows][law.name] for law in some], axis=0)
        return f"{text} ({of_hgr / of_oracle:.2f})"

    attained = [law for law in every if law.attained]
    halves = [[law for law in attained if law.tuned is tuned] for tuned in (True, False)]
    report.say("### Intervals")
    report.say()
    report.say(
        f"Share of {LEVEL:.0%} intervals of `hgr_fit` that cover HGR, and in brackets their mean"
    )
    report.say("width, as a multiple of that of the oracle's normal intervals.")

    def summary() -> Iterator[list[str]]:
        yield ["oracle", *(f"{np.mean(shares):.3f}" for shares in oracle.values())]
        for name, half in zip(("looked at", "kept out"), halves, strict=True):
            yield [f"{name} ({len(half)})", *(cell(rows, half) for rows in plan)]
            lowest = (min((covered[rows][law.name], law.name) for law in half) for rows in plan)
            yield [f"{name}, lowest", *(f"{share:.3f}, {law}" for share, law in lowest)]
        yield ["independence", *(f"{share:.3f}" for share in independent.values())]

    report.table(["", *(f"n = {rows:,}" for rows in plan)], summary())
    report.table(
        ["", "HGR", "kept out", *(f"n = {rows:,}" for rows in plan)],
        (
            [
                law.name,
                f"{law.hgr:.3f}",
                "" if law.tuned else "yes",
                *(cell(rows, [law]) for rows in plan),
            ]
            for law in every
        ),
    )


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
