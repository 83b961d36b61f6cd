"""One pair, one number: does every way to the HGR of a pair give the same?

    python -m bench.agreement [--quick] [--write]

The same two columns by `hgr` (of float32, of float64, compiled by the caller), by `hgr_fit`, and by
scans of them, with p-values and without: their values, their fits, their findings.  Then the
intervals of each: whether they have all the values in them, and 0 only where independence is not
rejected.  Of laws whose HGR is known also whether a value is above it by more than chance.  Of
columns with ties, as tables have them, all pairs: made up here, and of scikit-learn.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

import hgr_jax
from bench.laws import Law, laws, oscillating_laws
from bench.report import MarkdownReport, run_bench

SEED = 20_261_128

Values = NDArray[np.float64]
Table = Mapping[str, Values]
Ends = tuple[float, float]

NAMES = (
    "7 half waves",
    "28 half waves",
    "season",
    "sine of a normal",
    "sawtooth of 8",
    "staircase of 12",
    "far cluster",
    "parabola, uniform",
    "normal .6",
)
"""Laws, beside that of independent variables."""

ROWS = {700: 5, 1_500: 5, 3_000: 5, 20_000: 3}
"""Numbers of rows, and of samples of each law."""

MOST_ROWS, MOST_PAIRS = 20_000, 60
"""Of a table: its first rows, and so many of its pairs, evenly chosen."""

NEAR = 1e-3
"""Values that differ by less are one number: float32, and bases that are interpolated."""

DOUBT = (0.04, 0.06)
"""p-values that count neither as below nor as above 0.05: those of permutations vary."""


@dataclasses.dataclass
class Seen:
    """What each way says of one pair.

    Attributes:
      values: HGR by way.
      intervals: 95% intervals for it, by way.
      pvalues: of independence, by way.
      standard_error: of the fit.
    """

    values: dict[str, float] = dataclasses.field(default_factory=dict)
    intervals: dict[str, Ends] = dataclasses.field(default_factory=dict)
    pvalues: dict[str, float] = dataclasses.field(default_factory=dict)
    standard_error: float = 0.0

    @property
    def difference(self) -> float:
        """The largest difference of two values; infinite if one is not a number."""
        return float(np.nan_to_num(np.ptp(list(self.values.values())), nan=np.inf))

    @property
    def extremes(self) -> str:
        """The smallest and the largest value, and their ways."""
        low, high = (pick(self.values, key=self.values.__getitem__) for pick in (min, max))
        return f"{low} {self.values[low]:.3f}, {high} {self.values[high]:.3f}"

    @property
    def outside(self) -> int:
        """Number of values outside of an interval, of all of both."""
        return sum(
            not low - NEAR <= value <= high + NEAR
            for (low, high), value in itertools.product(
                self.intervals.values(), self.values.values()
            )
        )

    @property
    def contradictions(self) -> collections.Counter[str]:
        """By interval, the p-values that say of 0 what it does not."""
        found: collections.Counter[str] = collections.Counter()
        for (way, (low, _)), p in itertools.product(self.intervals.items(), self.pvalues.values()):
            found[way] += (p < DOUBT[0] and low <= 0) or (p > DOUBT[1] and low > 0)
        return +found

    def too_high(self, hgr: float) -> int:
        """Number of values that are above HGR by more than four standard errors and 0.01."""
        return sum(value > hgr + 4 * self.standard_error + 0.01 for value in self.values.values())


compiled = jax.jit(hgr_jax.hgr)


class Ways:
    """A table and the scans of it."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.scan = hgr_jax.scan(table)
        self.untested = hgr_jax.scan(table, test=None)
        found = self.scan.findings(len(self.scan))
        listed = (*found.strongest, *found.not_monotone, *found.explained)
        self.listed = {frozenset((each.a, each.b)): each for each in listed}

    def pairs(self) -> list[tuple[str, str]]:
        """At most `MOST_PAIRS` of the pairs that were scanned, evenly chosen."""
        every = [(a, b) for a, b in itertools.combinations(self.table, 2) if (a, b) in self.scan]
        return every[:: math.ceil(len(every) / MOST_PAIRS)] if every else []

    def seen(self, a: str, b: str) -> Seen:
        """All ways to the HGR of a pair."""
        x, y = self.table[a], self.table[b]
        present = ~(np.isnan(x) | np.isnan(y))
        x, y = x[present], y[present]
        single = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
        seen = Seen()
        seen.values["hgr"] = float(hgr_jax.hgr(*single))
        with jax.enable_x64(True):
            seen.values["hgr, float64"] = float(hgr_jax.hgr(jnp.asarray(x), jnp.asarray(y)))
        if present.all():  # each other length is another program
            seen.values["hgr in jit"] = float(compiled(*single))
        fit = hgr_jax.hgr_fit(*single)
        seen.values["hgr_fit"] = float(fit.correlation)
        seen.standard_error = float(fit.standard_error)
        seen.intervals["hgr_fit"] = _ends(fit.interval())
        seen.values["scan.fit"] = float(self.scan.fit(a, b).correlation)
        for way, scan in (("scan", self.scan), ("test=None", self.untested)):
            seen.values[way] = scan[a, b].correlation
            seen.intervals[way] = _ends(scan.interval(a, b))
        finding = self.listed.get(frozenset((a, b)))
        if finding is not None:
            seen.values["findings"] = finding.hgr
            seen.intervals["findings"] = _ends(finding.interval)
        seen.pvalues["scan"] = self.scan[a, b].pvalue
        seen.pvalues["independence_test"] = hgr_jax.independence_test(x, y).pvalue
        return seen


def _ends(interval: tuple[Any, Any]) -> Ends:
    return float(interval[0]), float(interval[1])


def _independent(rng: np.random.Generator, n: int) -> tuple[Values, Values]:
    x, y = rng.standard_normal((2, n))
    return x, y


def known() -> list[Law]:
    """Return the laws."""
    every = {law.name: law for law in (*laws(), *oscillating_laws())}
    return [*(every[name] for name in NAMES), Law("independent", _independent, exact=0.0)]


def made_up(rows: int = 3_000) -> dict[str, Values]:
    """Columns with ties, as tables have them, that depend on each other a little."""
    rng = np.random.default_rng(SEED)
    load, day = rng.normal(size=rows), rng.uniform(0, 24 * 60, rows)
    busy = load + np.sin(2 * np.pi * day / (24 * 60))
    waiting = np.where(rng.random(rows) < 0.6, 0, np.round(10 * rng.exponential(np.exp(busy / 2))))
    return {
        "waiting": waiting,
        "clock": 100 * np.floor(day / 60) + np.floor(day % 60),
        "hour": np.floor(day / 60),
        "count": rng.poisson(np.exp(0.5 * load)).astype(float),
        "rating": np.clip(np.round(3.5 - 0.3 * busy + rng.normal(size=rows)), 1, 5),
        "tolls": np.where(rng.random(rows) < 0.9, 0, np.round(5 + busy, 1)),
        "tens": 10 * np.round(3 * busy + rng.normal(size=rows)),
        "level": rng.integers(0, 10, rows).astype(float),
        "price": np.round(np.exp(load + 0.5 * rng.normal(size=rows)), 1),
        "busy": busy,
    }


def numbers(frame: pd.DataFrame) -> dict[str, Values]:
    """The columns of numbers of the first rows of a table."""
    some = frame.select_dtypes(["number", "bool"]).iloc[:MOST_ROWS]
    return {str(name): some[name].to_numpy(np.float64) for name in some}


def tables() -> Iterator[tuple[str, dict[str, Values]]]:
    """Tables that come with this package's own extras."""
    from sklearn import datasets

    yield "made up", made_up()
    for name in ("diabetes", "wine", "breast_cancer"):
        yield name, numbers(getattr(datasets, f"load_{name}")(as_frame=True).frame)


HEADER = ("differ", "largest difference", "outside", "0 against p")


def cells(every: Sequence[Seen]) -> list[str]:
    """The cells of a table's row: of some pairs, how far ways disagree."""
    if not every:
        return ["", "", "", ""]
    worst = max(every, key=lambda seen: seen.difference)
    apart = [seen for seen in every if seen.difference > NEAR]
    comparisons = sum(len(seen.values) * len(seen.intervals) for seen in every)
    contradictions = sum((seen.contradictions for seen in every), collections.Counter[str]())
    by_way = ", ".join(f"{way} {count}" for way, count in contradictions.items())
    return [
        f"{len(apart)} of {len(every)}",
        f"{worst.difference:.4f}" + (f" ({worst.extremes})" if worst in apart else ""),
        f"{sum(seen.outside for seen in every)} of {comparisons:,}",
        by_way or "0",
    ]


def law_table(report: MarkdownReport, plan: Mapping[int, int], every: Sequence[Law]) -> None:
    """The table of laws whose HGR is known."""
    report.say("### One pair, one number: laws")
    report.say()
    report.say(f"*differ*: samples whose values differ by more than {NEAR}. *outside*: values that")
    report.say(
        "are outside of an interval, of all of both. *0 against p*: by interval, p-values of"
    )
    report.say(f"the scan or of `independence_test` below {DOUBT[0]} where 0 is in it, or above")
    report.say(
        f"{DOUBT[1]} where it is not. *too high*: values above HGR by more than four standard"
    )
    report.say("errors of the fit and 0.01.")
    total: list[Seen] = []
    too_high = 0

    def rows() -> Iterator[list[str]]:
        nonlocal too_high
        for place, law in enumerate(tqdm(every, disable=None)):
            for n, count in plan.items():
                rng = np.random.default_rng([SEED, n, place])
                pairs = (law.sample(rng, n) for _ in range(count))
                some = [Ways({"x": x, "y": y}).seen("x", "y") for x, y in pairs]
                high = sum(seen.too_high(law.hgr) for seen in some)
                values = sum(len(seen.values) for seen in some)
                means = (np.mean([seen.values[way] for seen in some]) for way in ("hgr", "scan"))
                name = f"{law.name}, n = {n:,}"
                shown = [f"{law.hgr:.3f}", *(f"{mean:.3f}" for mean in means)]
                yield [name, *shown, *cells(some), f"{high} of {values}"]
                total.extend(some)
                too_high += high
        values = sum(len(seen.values) for seen in total)
        yield ["all", "", "", "", *cells(total), f"{too_high} of {values:,}"]

    report.table(["", "HGR", "`hgr`", "`scan`", *HEADER, "too high"], rows())


def tied_table(report: MarkdownReport, every: Iterable[tuple[str, dict[str, Values]]]) -> None:
    """The table of pairs of columns with ties."""
    report.say("### One pair, one number: columns of tables")
    report.say()
    report.say("Pairs of columns of numbers, most of them with ties; otherwise as above.")
    total: list[Seen] = []

    def rows() -> Iterator[list[str]]:
        for name, table in every:
            ways = Ways(table)
            pairs = ways.pairs()
            some = [ways.seen(a, b) for a, b in tqdm(pairs, disable=None)]
            worst = max(zip(pairs, some, strict=True), key=lambda pair: pair[1].difference)[0]
            size = max(map(len, table.values()))
            yield [name, f"{size:,}", *cells(some), " and ".join(worst)]
            total.extend(some)
        yield ["all", "", *cells(total), ""]

    report.table(["", "rows", *HEADER, "of"], rows())


def of_laws(report: MarkdownReport, quick: bool) -> None:
    """Samples of laws."""
    law_table(report, {300: 1} if quick else ROWS, [known()[0], known()[-1]] if quick else known())


def of_tables(report: MarkdownReport, quick: bool) -> None:
    """Pairs of columns of tables."""
    few = {name: made_up(300)[name] for name in ("waiting", "count", "rating")}
    tied_table(report, [("made up", few)] if quick else tables())


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    return run_bench(__doc__, {"agreement laws": of_laws, "agreement tables": of_tables}, arguments)


if __name__ == "__main__":
    sys.exit(main())
