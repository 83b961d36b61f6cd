"""Do p-values mean what they say?  Rejections under independence.

python -m bench.calibration [--only PART] [--quick] [--write]
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from tqdm import tqdm

import hgr_jax
from bench.report import MarkdownReport, Part, run_bench

Matrix = NDArray[np.float64]

COLUMNS = 64
"""Of a table, half of them of each kind: 1,024 pairs."""

TABLES = 8

BOUNDS = {0.05: (0.044, 0.056), 0.01: (0.007, 0.013)}
RATES = BOUNDS | {0.001: (0.0004, 0.0018)}
"""Bounds on the share of p-values below each level."""


def levels(rng: np.random.Generator, rows: int, shares: Sequence[float]) -> NDArray[Any]:
    """Texts of levels with these shares."""
    return np.array(list("abcdefgh"))[rng.choice(len(shares), rows, p=shares)]


MARGINALS: dict[str, Callable[[np.random.Generator, int], NDArray[Any]]] = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "dice": lambda rng, n: rng.integers(1, 7, n).astype(float),
    "geometric": lambda rng, n: rng.geometric(0.5, n).astype(float),
    "Poisson, mean 1": lambda rng, n: rng.poisson(1, n).astype(float),
    "zero-inflated": lambda rng, n: np.where(rng.random(n) < 0.5, 0, rng.random(n)),
    "mixture": lambda rng, n: np.where(rng.random(n) < 0.7, 0, rng.poisson(3, n)).astype(float),
    "rounded gamma": lambda rng, n: np.round(rng.gamma(2, 1, n), 1),
    "5 levels": lambda rng, n: levels(rng, n, [0.4, 0.3, 0.15, 0.1, 0.05]),
    "binary": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "unbalanced": lambda rng, n: (rng.random(n) < 0.1).astype(float),
    "rare levels": lambda rng, n: levels(rng, n, [0.6, 0.25, 0.1, 0.03, 0.02]),
    "missing": lambda rng, n: np.where(rng.random(n) < 0.2, np.nan, rng.standard_normal(n)),
    "float32": lambda rng, n: (1000 + rng.standard_normal(n) / 100).astype(np.float32),
}

FIRST = list(MARGINALS)[:8]
"""Margins of which all pairs are looked at."""

PAIRS = [
    *itertools.combinations_with_replacement(FIRST, 2),
    *((kind, kind) for kind in ("binary", "unbalanced", "rare levels", "missing", "float32")),
    *(("unbalanced", kind) for kind in ("normal", "dice", "5 levels", "rare levels")),
    *(("rare levels", kind) for kind in ("normal", "dice")),
    *(("missing", kind) for kind in ("normal", "dice", "5 levels")),
]

DISCRETE = frozenset(MARGINALS) - {"normal", "rounded gamma", "missing", "float32"}
TWO_VALUES = frozenset({"binary", "unbalanced"})
"""Two discrete columns of few rows, and two of two values, have too few tables for a p-value just
below each level: only the upper bounds are asked of them."""

FEW_ONES = 50
"""Number of rows below which columns of 10% of ones often have a single one.

Of 20 rows 31% do, and its 20 places, of which opposite ones count alike, give no p-value below 10%:
at most 3.5% are rejected at 5%, and only the upper bounds are asked of such pairs.
"""

WEIGHTED = [("normal", "normal"), ("dice", "normal"), ("dice", "dice")]
"""Pairs that are looked at with weights, uniform from 1/2 to 3/2, too."""


def rejections(
    kinds: tuple[str, str], rows: int, tables: int, *, weighted: bool = False
) -> tuple[int, dict[float, float]]:
    """How many pairs of columns of two kinds, and the shares of them that are rejected."""
    pvalues = []
    half = COLUMNS // 2
    names = [f"{kind} {side}{i}" for side, kind in enumerate(kinds) for i in range(half)]
    for seed in range(tables):
        rng = np.random.default_rng([seed, rows, *kinds[0].encode(), *kinds[1].encode()])
        table = {name: MARGINALS[name.rsplit(maxsplit=1)[0]](rng, rows) for name in names}
        weights = rng.uniform(0.5, 1.5, rows) if weighted else None
        found = hgr_jax.scan(table, weights=weights, test=hgr_jax.Test(key=jax.random.key(seed)))
        block = slice(half), slice(half, None)
        pvalues.append(found.pvalue[block].ravel())
    p = np.concatenate(pvalues)
    p = p[np.isfinite(p)]
    return len(p), {level: float((p <= level).mean()) for level in RATES}


def within(
    rates: Mapping[float, float],
    bounds: Mapping[float, tuple[float, float]],
    count: int,
    *,
    only_upper: bool = False,
) -> bool:
    """Return whether rates of so many p-values are within their bounds, but for chance.

    Which is two standard deviations.
    """
    errors = {level: 2 * np.sqrt(level / count) for level in bounds}
    return all(
        (only_upper or low - errors[level] <= rates[level]) and rates[level] <= high + errors[level]
        for level, (low, high) in bounds.items()
    )


def rejections_of_scans(report: MarkdownReport, quick: bool) -> bool:
    """Rejections by the p-values that a scan picks, of independent columns of two kinds."""
    tables = 1 if quick else TABLES
    pairs = PAIRS[2:4] if quick else PAIRS
    sizes = (300,) if quick else (20, 80, 300, 2000, 10_000)
    cells = [(pair, False) for pair in pairs]
    cells += [] if quick else [(pair, True) for pair in WEIGHTED]

    def lines() -> Iterator[tuple[list[str], bool]]:
        for rows in sizes:
            found, outside = [], []
            for pair, weighted in tqdm(cells, desc=f"null tables, {rows:,}", leave=False):
                count, rates = rejections(pair, rows, tables, weighted=weighted)
                found.append([*rates.values()])
                few = DISCRETE if rows < 100 else TWO_VALUES
                only_upper = few.issuperset(pair) or (rows < FEW_ONES and "unbalanced" in pair)
                if not within(rates, RATES, count, only_upper=only_upper):
                    outside.append(", ".join(pair) + (", weighted" if weighted else ""))
            ends = zip(np.min(found, axis=0), np.max(found, axis=0), strict=True)
            spans = (f"{low:.2%} to {high:.2%}" for low, high in ends)
            yield [f"{rows:,}", f"{len(cells)}", *spans, "; ".join(outside)], not outside

    report.say(
        f"Rejections of {tables * (COLUMNS // 2) ** 2:,} independent pairs of columns of each two"
        " kinds, the lowest and the highest; held against the bounds up to two standard deviations"
        " of what so many pairs show."
    )
    header = ("rows", "pairs of kinds", "at 5%", "at 1%", "at 0.1%", "outside")
    return report.judged_table(header, lines()) or quick


ROWS = 500
"""Of a series."""


def autoregressions(rng: np.random.Generator, phi: float, count: int) -> Matrix:
    """Stationary series ``(count, ROWS)`` of variance 1."""
    noise = rng.standard_normal((count, 200 + ROWS)) * np.sqrt(1 - phi**2)
    return np.asarray(lfilter([1], [1, -phi], noise)[:, 200:])


def seasons(rng: np.random.Generator, count: int) -> Matrix:
    """Series with a cycle of 24 rows, each with its own phase."""
    phase = rng.uniform(0, 2 * np.pi, (count, 1))
    return np.sin(2 * np.pi * np.arange(ROWS) / 24 + phase) + autoregressions(rng, 0.5, count)


def volatile(rng: np.random.Generator, count: int) -> Matrix:
    """Series whose spread, not their mean, depends on the past."""
    return np.exp(autoregressions(rng, 0.9, count)) * rng.standard_normal((count, ROWS))


Draw = Callable[[np.random.Generator, int], Matrix]

UNBOUNDED = "random walks, which shifts do not suit"
"""Series whose rejections are measured, and held against no bound."""

SERIES: dict[str, tuple[Draw, dict[str, Any]]] = {
    "independent rows": (lambda rng, m: rng.standard_normal((m, ROWS)), {"order": True}),
    "AR(0.5)": (lambda rng, m: autoregressions(rng, 0.5, m), {"order": True}),
    "AR(0.9)": (lambda rng, m: autoregressions(rng, 0.9, m), {"order": True}),
    "AR(0.9), lags -5 to 5": (
        lambda rng, m: autoregressions(rng, 0.9, m),
        {"order": True, "lags": range(-5, 6)},
    ),
    "season of 24 rows": (seasons, {"order": True}),
    "spread of AR(0.9)": (volatile, {"order": True}),
    UNBOUNDED: (
        lambda rng, m: np.cumsum(rng.standard_normal((m, ROWS)), axis=1),
        {"order": True},
    ),
}

GROUPS = np.repeat(np.arange(ROWS // 10), 10)


def levels_of_groups(rng: np.random.Generator, count: int) -> Matrix:
    """Rows of 50 groups, each with its own level."""
    levels = 2 * rng.standard_normal((count, GROUPS[-1] + 1))
    return levels[:, GROUPS] + rng.standard_normal((count, ROWS))


def constants_of_groups(rng: np.random.Generator, count: int) -> Matrix:
    """One number for each of 50 groups."""
    return rng.standard_normal((count, GROUPS[-1] + 1))[:, GROUPS]


def dependent_rows(report: MarkdownReport, quick: bool) -> bool:
    """Rejections of independent series and groups, and power for a relation of two series."""
    repeats = 15 if quick else 2000
    grouped = {"groups": GROUPS, "permutations": 999}
    cells = {name: (draw, draw, options) for name, (draw, options) in SERIES.items()}
    cells["groups that differ, within"] = (levels_of_groups, levels_of_groups, grouped)
    cells["groups that differ, between"] = (constants_of_groups, levels_of_groups, grouped)

    def lines() -> Iterator[tuple[list[str], bool | None]]:
        for name, (first, second, options) in cells.items():
            rng = np.random.default_rng([ROWS, *name.encode()])
            pairs = list(zip(first(rng, repeats), second(rng, repeats), strict=True))
            plain = [hgr_jax.independence_test(*pair).pvalue for pair in pairs]
            bar = tqdm(pairs, desc=name, leave=False)
            with warnings.catch_warnings(action="ignore"):  # of random walks
                tests = [hgr_jax.independence_test(*pair, **options) for pair in bar]
            pvalues = np.array([test.pvalue for test in tests])
            rates = {level: float((pvalues <= level).mean()) for level in BOUNDS}
            holds = None if name == UNBOUNDED else within(rates, BOUNDS, repeats)
            cell = f"{np.mean(np.array(plain) <= 0.05):.1%}"
            yield [name, cell, *(f"{rate:.1%}" for rate in rates.values())], holds

    report.say(f"Rejections of {repeats:,} independent pairs of {ROWS} rows: by the law of")
    report.say(
        "exchangeable rows, and by `order=` or `groups=` (standard deviations 0.5% and 0.2%)."
    )
    header = ("pairs", "exchangeable: at 5%", "at 5%", "at 1%")
    return report.judged_table(header, lines()) or quick


Family = tuple[Matrix, NDArray[np.bool_]]
"""A table, and which pairs of its columns are independent, ``(p, p)``."""


def _separate(rng: np.random.Generator, rows: int, names: Sequence[str]) -> Family:
    """Independent columns with these margins."""
    table = np.stack([MARGINALS[names[i % len(names)]](rng, rows) for i in range(20)], axis=1)
    return table, np.ones((20, 20), bool)


def _groups(rng: np.random.Generator, rows: int) -> Family:
    """Two independent groups of 10 columns, each correlated among themselves."""
    common, own = rng.standard_normal((rows, 2)), rng.standard_normal((rows, 20))
    group = np.arange(20) // 10
    return 0.7 * common[:, group] + own, group[:, None] != group


def _one_in_many(rng: np.random.Generator, rows: int) -> Family:
    """A column beside 5 that depend on it, and 54 correlated ones that do not."""
    y, common, own = (
        rng.standard_normal(rows),
        rng.standard_normal(rows),
        rng.standard_normal((rows, 59)),
    )
    related = np.arange(59) < 5
    table = own + np.where(related, 0.6 * y[:, None] ** 2, common[:, None])
    unrelated = np.zeros((60, 60), bool)
    unrelated[0, 1:] = ~related
    return np.concatenate([y[:, None], table], axis=1), unrelated


FAMILIES: dict[str, Callable[[np.random.Generator, int], Family]] = {
    "20 independent columns": lambda rng, n: _separate(rng, n, ["normal"]),
    "20 independent columns with ties": lambda rng, n: _separate(
        rng, n, ["dice", "geometric", "zero-inflated", "binary"]
    ),
    "two groups of 10 correlated columns": _groups,
    "one column and 59, 54 of them correlated": _one_in_many,
}

FAMILY_ROWS = 100

RATE = 0.05
"""Stated rate of false discoveries."""


def families(report: MarkdownReport, quick: bool) -> bool:
    """Mean share of false discoveries among the discoveries of a scan.

    Whether it is at most the stated one, up to three standard deviations of so many families.
    """
    count = 4 if quick else 2000
    within = True

    def lines() -> Iterator[list[str]]:
        nonlocal within
        for name, draw in FAMILIES.items():
            shares: dict[str, list[float]] = {"bh": [], "by": []}
            hits = dict.fromkeys(shares, 0)
            for seed in tqdm(range(count), desc=name, leave=False):
                table, unrelated = draw(np.random.default_rng([seed, 1]), FAMILY_ROWS)
                target = 0 if name.startswith("one column") else None
                found = hgr_jax.scan(table, target=target)
                place = np.array(found.pairs)
                false = unrelated[place.min(axis=1), place.max(axis=1)]
                pvalues = found.pvalue[place[:, 0], place[:, 1]]
                for method in shares:
                    rejected = hgr_jax.inference.adjust(pvalues, method) <= RATE
                    shares[method].append((rejected & false).sum() / max(rejected.sum(), 1))
                    hits[method] += bool((rejected & false).any())
            line = [name, f"{count:,}"]
            for method, each in shares.items():
                error = np.std(each) / np.sqrt(count)
                within &= bool(np.mean(each) <= RATE + 3 * error)
                line += [f"{np.mean(each):.2%} +- {error:.2%}", f"{hits[method] / count:.1%}"]
            yield line

    report.say(f"Mean share of false discoveries among those of a scan of {FAMILY_ROWS} rows, at a")
    report.say(
        f"stated rate of {RATE:.0%}, and share of tables with a false one: by the procedures of"
    )
    report.say("Benjamini-Hochberg (BH) and of Benjamini-Yekutieli (BY).")
    header = ("tables", "number", "BH", "any, BH", "BY", "any, BY")
    report.table(header, lines())
    return within or quick


FAR_ROWS = 1000

FAR_LEVELS = (1e-5, 3e-6, 1e-6, 3e-7, 1e-7)


def far_tail(report: MarkdownReport, quick: bool) -> bool:
    """Counts of the smallest p-values of very many independent pairs."""
    tables, columns = (1, 200) if quick else (3, 10_000)
    pvalues = []
    for seed in tqdm(range(tables), desc="far tail", leave=False):
        x = np.random.default_rng(seed).standard_normal((FAR_ROWS, columns))
        found = hgr_jax.scan(x.astype(np.float32), top=2000)
        pvalues += [pair.pvalue for pair in found.top(2000)]
    pairs = tables * columns * (columns - 1) // 2

    def lines() -> Iterator[tuple[list[str], bool]]:
        for level in FAR_LEVELS:
            due = pairs * level
            count = int((np.array(pvalues) <= level).sum())
            holds = abs(count - due) <= 2 * np.sqrt(due)
            yield [f"{level:.0e}", f"{due:.3g}", f"{count:,}"], holds or quick

    report.say(
        f"P-values of {pairs:,} pairs of independent normal columns of {FAR_ROWS:,} rows: how"
    )
    report.say("many are at most a level; held against two standard deviations.")
    return report.judged_table(("level", "due", "found"), lines())


PARTS: dict[str, Part] = {
    "rejections": rejections_of_scans,
    "dependent_rows": dependent_rows,
    "families": families,
    "far tail": far_tail,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 1 if a rate is outside of its bounds."""
    return run_bench(__doc__, PARTS, arguments)


if __name__ == "__main__":
    sys.exit(main())
