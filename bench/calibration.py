"""Do p-values mean what they say?  Rejections under independence, and power.

python -m bench.calibration [--only rejections|independence|families|power] [--quick] [--write]
"""

from __future__ import annotations

import collections
import itertools
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from tqdm import tqdm

import hgr_jax
from bench.machine import describe
from bench.report import MarkdownReport, bench_parser
from hgr_jax.datasets import synthetic

Matrix = NDArray[np.float64]

COLUMNS = 64
"""Of a table, half of them of each kind: 1,024 pairs."""

NOISE = 1.0
"""Standard deviation of the noise, over that of the relationship, when power is measured."""

TABLES = 8

BOUNDS = {0.05: (0.04, 0.06), 0.01: (0.006, 0.015)}
RATES = BOUNDS | {0.001: (0.0004, 0.0025)}


def independent(kind: str, rows: int, columns: int, rng: np.random.Generator) -> Matrix:
    """A table of independent columns; those of ``"one-hot"`` are levels of a category."""
    shape = rows, columns
    match kind:
        case "uniform":
            return rng.uniform(-1, 1, shape)
        case "normal":
            return rng.standard_normal(shape)
        case "lognormal":
            return rng.lognormal(0, 1, shape)
        case "t3":
            return rng.standard_t(3, shape)
        case "discrete":
            return rng.integers(0, 4, shape).astype(float)
        case "one-hot":
            return rng.choice(5, shape, p=[0.4, 0.3, 0.15, 0.1, 0.05]).astype(float)
    raise ValueError(f"unknown kind {kind!r}")


KINDS = ("uniform", "normal", "lognormal", "t3", "discrete", "one-hot")

MARGINALS: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "dice": lambda rng, n: rng.integers(1, 7, n).astype(float),
    "geometric": lambda rng, n: rng.geometric(0.5, n).astype(float),
    "Poisson, mean 1": lambda rng, n: rng.poisson(1, n).astype(float),
    "zero-inflated": lambda rng, n: np.where(rng.random(n) < 0.5, 0, rng.random(n)),
    "mixture": lambda rng, n: np.where(rng.random(n) < 0.7, 0, rng.poisson(3, n)).astype(float),
    "rounded gamma": lambda rng, n: np.round(rng.gamma(2, 1, n), 1),
    "one-hot": lambda rng, n: independent("one-hot", n, 1, rng)[:, 0],
}


def null_scan(kind: str, rows: int, degree: int, seed: int, columns: int) -> hgr_jax.Scan:
    """A scan of a table of independent columns, with the p-values that it picks by itself."""
    rng = np.random.default_rng([seed, rows, degree, *kind.encode()])
    table = independent(kind, rows, columns, rng)
    names = [f"x{i}" for i in range(columns)]
    categories = names if kind == "one-hot" else []
    return hgr_jax.scan(
        table.astype(np.float32),
        h=degree,
        k=degree,
        names=names,
        categories=categories,
        test=hgr_jax.Test(key=jax.random.key(seed)),
    )


def rejections(
    kinds: tuple[str, str], rows: int, tables: int, columns: int
) -> tuple[int, dict[float, float], str]:
    """How many pairs of columns of two kinds, the shares of them that are rejected, and by what."""
    pvalues, sources = [], []
    for seed in range(tables):
        rng = np.random.default_rng([seed, rows, *kinds[0].encode(), *kinds[1].encode()])
        half = columns // 2
        names = [f"{kind} {side}{i}" for side, kind in enumerate(kinds) for i in range(half)]
        table = {name: MARGINALS[name.rsplit(maxsplit=1)[0]](rng, rows) for name in names}
        categories = [name for name in names if name.startswith("one-hot")]
        found = hgr_jax.scan(
            table, categories=categories, test=hgr_jax.Test(key=jax.random.key(seed))
        )
        block = slice(half), slice(half, None)
        pvalues.append(found.pvalue[block].ravel())
        sources.append(found.pvalue_source[block].ravel())
    p = np.concatenate(pvalues)
    p = p[np.isfinite(p)]
    counts = collections.Counter(np.concatenate(sources))
    source = " and ".join(f"{name} {count / len(p):.0%}" for name, count in counts.most_common(2))
    return len(p), {level: float((p <= level).mean()) for level in RATES}, source


def within(
    rates: Mapping[float, float], bounds: Mapping[float, tuple[float, float]], count: int
) -> bool:
    """Return whether rates of so many p-values are within their bounds, but for chance.

    Which is two standard deviations.
    """
    errors = {level: 2 * np.sqrt(level / count) for level in bounds}
    return all(
        low - errors[level] <= rates[level] <= high + errors[level]
        for level, (low, high) in bounds.items()
    )


def calibration(report: MarkdownReport, quick: bool) -> bool:
    """Rejections by the p-values that a scan picks, of independent columns of two kinds."""
    tables = 1 if quick else TABLES
    kinds = ("normal", "zero-inflated") if quick else tuple(MARGINALS)
    sizes = (300,) if quick else (80, 300, 2000)
    cells = [*itertools.product(itertools.combinations_with_replacement(kinds, 2), sizes)]
    cells += [] if quick else [((kind, kind), 10_000) for kind in kinds]

    def lines() -> Iterator[tuple[list[str], bool]]:
        for pair, rows in tqdm(cells, desc="null tables", leave=False):
            count, rates, source = rejections(pair, rows, tables, COLUMNS)
            figures = (f"{rate:.2%}" for rate in rates.values())
            line = [", ".join(pair), f"{rows:,}", source, f"{count:,}", *figures]
            yield line, within(rates, RATES, count)

    report.say("Rejections under independence, by the method that the scan picks.")
    report.say("Held against the bounds up to two standard deviations of what so many pairs show.")
    header = ("columns", "rows", "p-values", "pairs", "at 5%", "at 1%", "at 0.1%")
    return report.judged_table(header, lines())


Sample = tuple[Matrix, Matrix, dict[str, Any]]


def _weighted(rng: np.random.Generator, n: int, spread: float) -> Sample:
    a, b, w = rng.standard_normal((3, n))
    return a, b, {"weights": np.exp(spread * w)}


def _given(rng: np.random.Generator, n: int, noise: float) -> Sample:
    c, e, f = rng.standard_normal((3, n))
    return c + noise * e, c + noise * f, {"given": c}


def _given_two(rng: np.random.Generator, n: int) -> Sample:
    c, d, e, f = rng.standard_normal((4, n))
    return c + d + e, c - d + f, {"given": np.stack([c, d], axis=1)}


def _spread_by_given(rng: np.random.Generator, n: int) -> Sample:
    c, e, f = rng.standard_normal((3, n))
    return c + np.exp(c) * e, c + np.exp(c) * f, {"given": c}


CONDITIONS: dict[str, Callable[[np.random.Generator, int], Sample]] = {
    "weights, nearly even": lambda rng, n: _weighted(rng, n, 0.2),
    "weights, lognormal": lambda rng, n: _weighted(rng, n, 1.0),
    "given c, a = c + e": lambda rng, n: _given(rng, n, 1.0),
    "given c, a = c + 0.3 e": lambda rng, n: _given(rng, n, 0.3),
    "given c and d, a = c + d + e": _given_two,
    "given c, a = c + exp(c) e": _spread_by_given,
}


def independence(report: MarkdownReport, quick: bool) -> bool:
    """Rejections of `hgr_jax.independence_test` with weights, and given other variables.

    Held against the bounds up to two standard deviations of what so many samples show.
    """
    repeats = 100 if quick else 2000
    sizes = (80,) if quick else (80, 500)

    def lines() -> Iterator[tuple[list[str], bool]]:
        for (name, draw), rows in itertools.product(CONDITIONS.items(), sizes):
            rng = np.random.default_rng([rows, *name.encode()])
            tests = []
            for _ in tqdm(range(repeats), desc=name, leave=False):
                a, b, options = draw(rng, rows)
                tests.append(hgr_jax.independence_test(a, b, permutations=999, **options))
            pvalues = np.array([test.pvalue for test in tests])
            rates = {level: float((pvalues <= level).mean()) for level in BOUNDS}
            holds = within(rates, BOUNDS, repeats)
            source, _ = collections.Counter(test.source for test in tests).most_common(1)[0]
            yield [name, f"{rows:,}", source, *(f"{rate:.2%}" for rate in rates.values())], holds

    report.say(f"Rejections of `independence_test` under independence, of {repeats:,} samples")
    report.say("(standard deviations 0.5% and 0.2%).")
    header = ("samples", "rows", "most p-values", "at 5%", "at 1%")
    return report.judged_table(header, lines())


def families(report: MarkdownReport, quick: bool) -> bool:
    """How many tables of independent columns have a rejection after Benjamini-Hochberg.

    Whether they are no more than 5%, up to what chance adds once in a thousand times.
    """
    within = True

    def lines() -> Iterator[list[str]]:
        nonlocal within
        for kind in ("uniform", "lognormal") if quick else KINDS:
            tables = 3 if quick else 100
            hits = 0
            for seed in tqdm(range(tables), desc=f"tables, {kind}", leave=False):
                found = null_scan(kind, 1000, 3 if quick else 5, 1000 + seed, 30)
                hits += bool(np.nanmin(found.adjusted_pvalue) <= 0.05)
            most = int(binom.ppf(0.999, tables, 0.05))
            within &= hits <= most
            yield [kind, str(tables), str(hits), str(most)]

    report.say("Tables of 30 independent columns (435 pairs), 1,000 rows, degree 5: how many have")
    report.say(
        "any adjusted p-value of at most 0.05 (5% on average; chance adds no more than to the"
    )
    report.say("last column, 999 times of 1,000).")
    report.table(("columns", "tables", "with a rejection", "at most"), lines())
    return within


def power(report: MarkdownReport, quick: bool) -> None:
    """Share of noisy relationships that are found at level 0.05."""
    repeats, rows, permutations = (3, 100, 99) if quick else (50, 200, 199)
    tests = contestants(permutations)
    relations = list(synthetic.RELATIONSHIPS)[: 1 if quick else None]

    def lines() -> Iterator[list[str]]:
        for name in relations:
            found = dict.fromkeys(tests, 0)
            for seed in tqdm(range(repeats), desc=name, leave=False):
                a, b = relationship(name, rows, seed)
                for test, pvalue in tests.items():
                    found[test] += pvalue(a, b, seed) <= 0.05
            yield [name, *(f"{count / repeats:.0%}" for count in found.values())]

    report.say(f"Power at level 0.05: {rows} rows, {repeats} repeats, noise {NOISE} on the paper's")
    report.say(f"relationships; permutation tests with {permutations} permutations.")
    report.table(("relationship", *tests), lines())


def relationship(name: str, rows: int, seed: int) -> tuple[Matrix, Matrix]:
    """A noisy relationship of the paper."""
    a, b = synthetic.sample(name, jax.random.key(seed), noise=NOISE, size=rows)
    return np.asarray(a, np.float64), np.asarray(b, np.float64)


def contestants(permutations: int) -> Mapping[str, Callable[[Matrix, Matrix, int], float]]:
    """Tests of independence, ``(a, b, seed) -> p-value``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import dcor
        from hyppo.independence import Hsic
    from scipy.stats import chatterjeexi, pearsonr

    def ours(degree: int) -> Callable[[Matrix, Matrix, int], float]:
        def test(a: Matrix, b: Matrix, seed: int) -> float:
            table = np.stack([a, b], axis=1).astype(np.float32)
            key = jax.random.key(seed)
            test = hgr_jax.Test("permutation", permutations=permutations, key=key)
            found = hgr_jax.scan(table, h=degree, k=degree, test=test)
            return float(found.pvalue[0, 1])

        return test

    def distance(a: Matrix, b: Matrix, seed: int) -> float:
        rng = np.random.RandomState(seed)
        test = dcor.independence.distance_covariance_test
        return float(test(a, b, num_resamples=permutations, random_state=rng).pvalue)

    def hsic(a: Matrix, b: Matrix, seed: int) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(Hsic().test(a, b, reps=permutations, auto=False, random_state=seed)[1])

    return {
        "independence_test": lambda a, b, _: hgr_jax.independence_test(a, b).pvalue,
        "HGR-KB, degree 2": ours(2),
        "degree 3": ours(3),
        "degree 5": ours(5),
        "dcor": distance,
        "hyppo, HSIC": hsic,
        "xi (Chatterjee)": lambda a, b, _: float(chatterjeexi(a, b).pvalue),
        "Pearson": lambda a, b, _: float(pearsonr(a, b).pvalue),
    }


def main(argv: list[str] | None = None) -> int:
    """Print the tables; 1 if a rate is outside of its bounds."""
    parts: dict[str, Callable[[MarkdownReport, bool], object]] = {
        "rejections": calibration,
        "independence": independence,
        "families": families,
        "power": power,
    }
    parser = bench_parser("calibration", __doc__, quick="a small version, in a minute or two")
    parser.add_argument("--only", choices=tuple(parts), help="one of the tables")
    options = parser.parse_args(argv)
    within = True
    for name, part in parts.items():
        if options.only in (None, name):
            report = MarkdownReport()
            report.say(describe())
            report.say()
            within &= part(report, options.quick) is not False
            if options.write:
                report.keep(name)
    return 0 if within or options.quick else 1


if __name__ == "__main__":
    sys.exit(main())
