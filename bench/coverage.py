"""Do upper bounds and intervals cover what is in the population?

python -m bench.coverage [--only PART] [--quick] [--write]

Upper bounds and intervals of HGR-KB, bootstrap intervals of it, and intervals and p-values of HGR
from tables of counts, beside those of the rows that were counted.
"""

from __future__ import annotations

import functools
import itertools
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy import stats
from tqdm import tqdm

import hgr_jax
from bench import reference
from bench.laws import Grid
from bench.machine import describe
from bench.report import MarkdownReport, bench_parser
from hgr_jax.inference import bootstrap, upper_bound

Matrix = NDArray[np.float64]

LEVEL = 0.95

SHORTFALL = 0.01
"""How much less than it says an upper bound may cover."""

CORRELATIONS = (0.0, 0.1, 0.3, 0.6, 0.9, 0.99)
"""Of the normal pair behind each pair of margins.

Its second canonical correlation is the square of the first: 0.9 and 0.99 are near ties.
"""

DEGREES = {
    "normal": (1, 2, 3, 5),
    "lognormal": (1, 2, 3, 5),
    "t5": (1, 2),
    "discrete": (1, 2, 5),
    "tie": (2, 3, 5),
}
"""Of each kind of margin; powers of Student's t of 5 degrees of freedom have variances up to 2."""

FAILS = {("lognormal", 1)}
"""Margins and degrees of which the documentation says that the upper bound covers less."""

EDGES = stats.norm.ppf([0.1, 0.4, 0.7, 0.9])
"""Between the five values of the discrete kind."""

BATCH = 50

BOOTSTRAPPED = (
    ("normal", 2),
    ("normal", 5),
    ("discrete", 2),
    ("t5", 2),
    ("lognormal", 2),
    ("tie", 2),
)
"""Margins and degrees of bootstrap intervals."""

BOOTSTRAP_MISSES = {"lognormal", "tie"}
"""Margins of which the documentation says that bootstrap intervals cover less."""

TABLE_LAWS = (("agree", 0.0), ("cut", 0.3), ("cut", 0.6), ("cut", 0.9), ("agree", 0.3))
"""Laws of tables of counts, the first of independent variables; see `table_law`."""

COUNTS_MISS = {"2 values, 90 to 10", "6 values, even"}
"""Margins of which the documentation says that intervals cover less."""

COMPARED = 100
"""Number of tables of counts whose p-values are compared with those of their rows."""

MARGINS: dict[str, tuple[float, ...]] = {
    "2 values, even": (0.5, 0.5),
    "2 values, 90 to 10": (0.9, 0.1),
    "3 values": (0.6, 0.3, 0.1),
    "6 values, even": (1 / 6,) * 6,
    "6 values, rare ones": (0.5, 0.3, 0.12, 0.04, 0.03, 0.01),
}
"""Shares of the values of both variables of a table of counts."""


def margin(kind: str, x: Matrix) -> Matrix:
    """An increasing map of standard normal numbers."""
    match kind:
        case "normal" | "tie":
            return x
        case "lognormal":
            return np.exp(x)
        case "t5":
            # Of the nearer tail, so that far ones keep their digits.
            return np.copysign(stats.t.isf(stats.norm.sf(np.abs(x)), 5), x)
        case "discrete":
            return np.searchsorted(EDGES, x).astype(float)
    raise ValueError(f"unknown kind {kind!r}")


def population(kind: str, rho: float, degree: int) -> float:
    """HGR-KB of two such margins of a normal pair, exactly.

    Of functions with Hermite coefficients c and d, the mean product is sum_n rho^n c_n d_n.  In a
    tie the second variable changes its sign so often that odd terms are rho times as large.
    """
    hermite = _hermite_coefficients(kind, degree)
    order = np.arange(hermite.shape[1])
    m = (hermite * rho ** (order + (order % 2 if kind == "tie" else 0))) @ hermite.T
    return float(np.linalg.svd(m, compute_uv=False)[0])


@functools.cache
def _hermite_coefficients(kind: str, degree: int, terms: int = 200) -> Matrix:
    """Of the margin's orthonormal polynomials, ``(degree, terms)``, by quadrature."""
    x = np.linspace(-12, 12, 12_001)
    root = np.sqrt(stats.norm.pdf(x) * (x[1] - x[0]))
    functions = reference.orthonormal_polynomials(margin(kind, x), degree, root**2)
    values = [root, root * x]
    for n in range(1, terms - 1):
        values.append((x * values[n] - np.sqrt(n) * values[n - 1]) / np.sqrt(n + 1))
    return functions.astype(np.float64) @ np.stack(values).T


@functools.partial(jax.jit, static_argnums=2)
def estimates(a: jax.Array, b: jax.Array, degree: int) -> tuple[jax.Array, ...]:
    """Upper bounds, and the ends of intervals, of samples ``(m, n)``."""

    def one(a: jax.Array, b: jax.Array) -> tuple[jax.Array, ...]:
        bound = upper_bound(a, b, degree, degree, level=LEVEL)
        return bound, *hgr_jax.kb_fit(a, b, degree, degree, solver="svd").interval(LEVEL)

    return jax.vmap(one)(a, b)


def covered(kind: str, degree: int, rows: int, rho: float, repeats: int) -> NDArray[np.bool_]:
    """Whether upper bounds, lower and upper ends of intervals hold, ``(3, repeats)``."""
    rng = np.random.default_rng([degree, rows, int(100 * rho), *kind.encode()])
    truth = population(kind, rho, degree)
    found: list[Any] = []
    for _ in range(0, repeats, BATCH):
        bound, low, high = estimates(*samples(rng, kind, rho, (BATCH, rows)), degree)
        found.append([bound >= truth, low <= truth, high >= truth])
    return np.concatenate(found, axis=1)


def samples(
    rng: np.random.Generator, kind: str, rho: float, shape: tuple[int, int]
) -> tuple[jax.Array, jax.Array]:
    """Samples ``(m, n)`` of both margins of a normal pair."""
    x, noise = rng.standard_normal((2, *shape))
    y = rho * x + np.sqrt(1 - rho**2) * noise
    if kind == "tie":
        y *= np.where(rng.random(y.shape) < (1 + rho) / 2, 1, -1)
    a, b = (jnp.asarray(margin(kind, v), jnp.float32) for v in (x, y))
    return a, b


def coverage(report: MarkdownReport, quick: bool) -> bool:
    """The table; whether upper bounds cover what they say, where the documentation says so."""
    repeats = 50 if quick else 1000
    kinds = {"discrete": (2,)} if quick else DEGREES
    sizes = (300,) if quick else (300, 1000, 10_000)
    shown = CORRELATIONS[::4] if quick else CORRELATIONS
    cells = [
        (kind, degree, rows)
        for degree, rows, kind in itertools.product((1, 2, 3, 5), sizes, kinds)
        if degree in kinds[kind]
    ]
    # Of so many repetitions, chance makes fewer once in a thousand times.
    least = stats.binom.ppf(0.001, repeats, LEVEL - SHORTFALL) / repeats
    within = True

    def lines() -> Iterator[list[str]]:
        nonlocal within
        for kind, degree, rows in tqdm(sorted(cells), desc="samples", leave=False):
            rates = []
            for rho in shown:
                bound, low, high = covered(kind, degree, rows, rho, repeats)
                rates.append((bound.mean(), (low & high).mean()))
            holds = min(bound for bound, _ in rates) >= least
            within &= holds or (kind, degree) in FAILS
            yield [
                kind,
                str(degree),
                f"{rows:,}",
                *(f"{bound:.1%}, {interval:.1%}" for bound, interval in rates),
                "yes" if holds else "OUTSIDE",
            ]

    report.say(f"Samples, of {repeats:,}, in which the upper bound of level {LEVEL:.0%}, and the")
    report.say(
        "interval of the same level, cover HGR-KB of the population. Margins of a normal pair"
    )
    report.say(
        "of correlation rho, by columns; of a tie, one of them changes its sign so often that the"
    )
    report.say(
        "first two canonical correlations are both rho^2. The last column tells whether the bound"
    )
    report.say("covers 94% in all of them, up to what chance takes away once in a thousand times.")
    header = ("margins", "degree", "rows", *(f"rho = {rho}" for rho in shown), "bound holds")
    report.table(header, lines())
    return within


def bootstraps(report: MarkdownReport, quick: bool) -> bool:
    """How often bootstrap intervals cover; whether they do where the documentation says so."""
    repeats, sizes = (20, (200,)) if quick else (300, (200, 1000))
    shown, kinds = (0.0, 0.3, 0.6, 0.9), BOOTSTRAPPED[: 1 if quick else None]
    least = stats.binom.ppf(0.001, repeats, LEVEL - SHORTFALL) / repeats
    within = True

    def lines() -> Iterator[list[str]]:
        nonlocal within
        for (kind, degree), rows in itertools.product(kinds, sizes):
            cells, lowest = [], 1.0
            for rho in shown:
                rng = np.random.default_rng([degree, rows, int(100 * rho), *kind.encode(), 1])
                truth = population(kind, rho, degree)
                pairs = zip(*samples(rng, kind, rho, (repeats, rows)), strict=True)
                bar = tqdm(pairs, desc=f"{kind}, {rows}, {rho}", total=repeats, leave=False)
                found = [
                    bootstrap(a, b, degree, degree, key=jax.random.key(seed), level=LEVEL)
                    for seed, (a, b) in enumerate(bar)
                ]
                low, high = (np.array([getattr(f, end) for f in found]) for end in ("low", "high"))
                rate = float(np.mean((low <= truth) & (truth <= high)))
                cells.append(
                    f"{rate:.1%} ({np.mean(low > truth):.1%}, {np.mean(high < truth):.1%})"
                )
                lowest = min(lowest, rate)
            within &= lowest >= least or kind in BOOTSTRAP_MISSES
            yield [kind, str(degree), f"{rows:,}", *cells, "yes" if lowest >= least else "OUTSIDE"]

    report.say(f"Samples, of {repeats:,}, whose bootstrap interval of level {LEVEL:.0%} covers")
    report.say("HGR-KB of the population, and in brackets those whose interval is above it, and")
    report.say("below it. Margins of a normal pair, as above. The last column tells whether 94%")
    report.say("are covered in all of them, up to what chance takes away once in a thousand times.")
    header = ("margins", "degree", "rows", *(f"rho = {rho}" for rho in shown), "holds")
    report.table(header, lines())
    return within


def table_law(kind: str, strength: float, shares: tuple[float, ...]) -> Matrix:
    """Probabilities of two variables with these margins.

    ``"cut"`` is a normal pair of a correlation, cut into the values.  ``"agree"`` has equal values
    in a share of the cases and independent ones in the others: all correlations tie at the share.
    """
    margins = np.array(shares)
    if kind == "agree":
        return strength * np.diag(margins) + (1 - strength) * np.outer(margins, margins)
    edges = np.r_[-9, stats.norm.ppf(np.cumsum(margins)[:-1]), 9]
    normal = stats.multivariate_normal(np.zeros(2), [[1, strength], [strength, 1]])
    below = normal.cdf(np.stack(np.meshgrid(edges, edges), axis=-1))
    return np.asarray(np.diff(np.diff(below, axis=0), axis=1))


def _rows_of(columns: tuple[Matrix, Matrix], orders: Any, place: int) -> tuple[Matrix, Matrix]:
    """The rows of a table, in their order."""
    return columns[0][orders[place]], columns[1][orders[place]]


def counts(report: MarkdownReport, quick: bool) -> bool:
    """P-values and intervals from counts, beside those of rows; whether p-values hold."""
    repeats, sizes = (20, (50,)) if quick else (1000, (50, 300))
    least = stats.binom.ppf(0.001, repeats, LEVEL - SHORTFALL) / repeats
    most = {level: stats.binom.ppf(0.999, repeats, level) / repeats for level in (0.05, 0.01)}
    within = True

    def lines() -> Iterator[list[str]]:
        nonlocal within
        margins = [*MARGINS.items()][:: 2 if quick else 1]
        for (name, shares), rows in itertools.product(margins, sizes):
            a, b = (x.ravel().astype(float) for x in np.indices((len(shares),) * 2))
            cells, holds, differ = [], True, 0
            for kind, strength in TABLE_LAWS:
                law = table_law(kind, strength, shares)
                truth = Grid(law, *(np.arange(1.0 * len(shares)),) * 2).solve()[0]
                text = f"{name}, {rows}, {kind} {strength}"
                rng = np.random.default_rng(zlib.crc32(text.encode()))
                drawn = rng.multinomial(rows, law.ravel(), repeats)
                # A variable with a single value has nothing to test.
                drawn = np.array([c for c in drawn if all(np.ptp(x[c > 0]) for x in (a, b))])
                orders = [rng.permutation(np.repeat(np.arange(len(a)), c)) for c in drawn]
                rows_of = functools.partial(_rows_of, (a, b), orders)
                bar = tqdm(drawn, desc=text, leave=False)
                if strength == 0:
                    found = [hgr_jax.independence_test(a, b, counts=c) for c in bar]
                    p = np.array([test.pvalue for test in found])
                    rates = {level: float(np.mean(p <= level)) for level in most}
                    holds &= all(rates[level] <= most[level] for level in most)
                    within &= holds
                    cells += [f"{rate:.1%}" for rate in rates.values()]
                    by_law = [i for i, test in enumerate(found) if test.source in ("rank", "exact")]
                    differ = sum(
                        not np.isclose(hgr_jax.independence_test(*rows_of(i)).pvalue, p[i], 1e-6, 0)
                        for i in by_law[:COMPARED]
                    )
                    continue
                fits = [
                    (hgr_jax.hgr_fit(a, b, counts=c), hgr_jax.hgr_fit(*rows_of(i)))
                    for i, c in enumerate(bar)
                ]
                low, high = np.array([[f.interval(LEVEL) for f in pair] for pair in fits], float).T
                rate, of_rows = np.mean((low <= truth) & (truth <= high), axis=1)
                holds &= bool(rate >= least)
                cells.append(f"{rate:.1%} ({of_rows:.1%})")
            within &= (holds or name in COUNTS_MISS) and not differ
            yield [name, f"{rows:,}", *cells, str(differ), "yes" if holds else "OUTSIDE"]

    report.say(f"Tables of counts, {repeats:,} of each law: the share of independent ones that")
    report.say("`independence_test(counts=)` rejects, and of the 95% intervals of")
    report.say("`hgr_fit(counts=)` that cover HGR of the population, in brackets of those of the")
    report.say("rows one by one, in a random order. Both variables are a normal pair of a")
    report.say("correlation that is cut into values, or agree in a share of the cases and are")
    report.say("independent in the others: then all canonical correlations are that share. Of up")
    report.say(
        f"to {COMPARED} independent tables with a p-value by a law, how many have another one"
    )
    report.say("from their rows. The last column tells whether no more is rejected than the level,")
    report.say("and 94% are covered, up to what chance makes once in a thousand times.")
    covers = (f"{kind}, {strength}" for kind, strength in TABLE_LAWS[1:])
    header = ("margins", "rows", "at 5%", "at 1%", *covers, "differ", "holds")
    report.table(header, lines())
    return within


PARTS: dict[str, Callable[[MarkdownReport, bool], bool]] = {
    "coverage": coverage,
    "bootstrap": bootstraps,
    "counts": counts,
}
"""Tables, each a result of its own."""


def main(argv: list[str] | None = None) -> int:
    """Print the tables; 1 if one does not hold where the documentation says so."""
    parser = bench_parser("coverage", __doc__, quick="a small version, in seconds")
    parser.add_argument("--only", choices=tuple(PARTS), help="of the tables")
    options = parser.parse_args(argv)
    within = True
    for name, part in PARTS.items():
        if options.only in (None, name):
            report = MarkdownReport()
            report.say(describe())
            report.say()
            within &= part(report, options.quick)
            if options.write:
                report.keep(name)
    return 0 if within or options.quick else 1


if __name__ == "__main__":
    sys.exit(main())
