"""Do tests of conditional independence hold their level, and what do they find?

    python -m bench.conditional [--quick] [--write] [--only {size,time,graphs}]

The designs of `bench.conditional_designs`, half of which were not looked at while the test was
made.  Fisher's z is of partial correlations; KCI and RCIT are those of causal-learn, and have the
first samples only.  Graphs: the skeleton that PC finds of random graphs of ten variables whose
parents act by curves; each contestant answers the same PC.  Exits with 1 where
`independence_test` rejects more than it may.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import itertools
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from tqdm import tqdm

import hgr_jax
from bench.conditional_designs import DESIGNS, Design
from bench.machine import describe
from bench.report import MarkdownReport, bench_parser

LEVEL = 0.05

ROWS = {300: 300, 1000: 150}
"""Numbers of rows, and of samples of each design."""

DIMENSIONS = (1, 3, 5)

BOUNDS = {"steps": (0.1, 0.2, 1.0), "determined": (0.0, 0.0, 0.0)}
"""Largest share of rejections of nulls for each number of given columns; 7% for other kinds."""

GRAPHS, GRAPH_ROWS, NODES = 20, 1000, 10

PARTS = ("size", "time", "graphs")

Data = NDArray[np.float64]
Answer = Callable[[int, int, tuple[int, ...]], float]


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A test: function ``data (n, p) -> (x, y, given) -> p-value``.

    Attributes:
      of_table: the function.
      samples: largest number of samples of a design with up to 300 rows, and with more.
      graphs: number of graphs; 0 where one takes minutes.
    """

    of_table: Callable[[Data], Answer]
    samples: tuple[int, int] = (1000, 1000)
    graphs: int = GRAPHS


def _ours(data: Data) -> Answer:
    tests = hgr_jax.ConditionalTests(data)
    return lambda x, y, given: tests(x, y, given).pvalue


def _fisher(data: Data) -> Answer:
    correlation = np.asarray(np.corrcoef(data.T))

    def answer(x: int, y: int, given: tuple[int, ...]) -> float:
        chosen = [x, y, *given]
        inverse = np.linalg.pinv(correlation[np.ix_(chosen, chosen)])
        partial = -inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1])
        z = np.arctanh(np.clip(partial, -1 + 1e-12, 1 - 1e-12))
        return float(2 * stats.norm.sf(abs(z) * np.sqrt(len(data) - len(given) - 3)))

    return answer


def _of_causal_learn(data: Data, name: str) -> Answer:
    test = importlib.import_module("causallearn.utils.cit").CIT(data, name)
    return lambda x, y, given: float(test(x, y, list(given)))


def contestants() -> dict[str, Contestant]:
    """The tests, ours first."""
    found = {"independence_test": Contestant(_ours), "Fisher's z": Contestant(_fisher)}
    if importlib.util.find_spec("causallearn"):
        kci, rcit = (functools.partial(_of_causal_learn, name=name) for name in ("kci", "rcit"))
        found["KCI"] = Contestant(kci, (40, 0), graphs=0)
        found["RCIT"] = Contestant(rcit, (100, 50), graphs=5)
    return found


def rejections(test: Contestant, design: Design, rows: int, dim: int, count: int) -> float:
    """The share of samples of a design that a test rejects."""
    rng = np.random.default_rng([rows, dim, *design.name.encode()])
    hits = 0
    for _ in range(count):
        x, y, z = design.draw(rng, rows, dim)
        answer = test.of_table(np.column_stack([x, y, z]))
        hits += answer(0, 1, tuple(range(2, 2 + dim))) <= LEVEL
    return hits / count


def size(report: MarkdownReport, tests: Mapping[str, Contestant], *, quick: bool) -> bool:
    """Rejections of nulls and of alternatives."""
    holds = True
    designs = DESIGNS[::6] if quick else DESIGNS
    for rows, samples in {100: 5}.items() if quick else ROWS.items():
        counts = {name: min(samples, t.samples[rows > 300]) for name, t in tests.items()}
        names = [name for name, count in counts.items() if count]
        shares: dict[tuple[str, str], list[float]] = {}
        for design in tqdm(designs, desc=f"n = {rows:,}", leave=False):
            for name in names:
                shares[design.name, name] = [
                    rejections(tests[name], design, rows, dim, counts[name]) for dim in DIMENSIONS
                ]

        def lines(
            designs: Any = designs, shares: Any = shares, names: Any = names
        ) -> Iterator[list[str]]:
            for design in designs:
                cells = (" / ".join(f"{s:.2f}" for s in shares[design.name, n]) for n in names)
                yield [design.kind, design.name, "" if design.tuned else "yes", *cells]
            found = [d.name for d in designs if d.kind == "alternative"]
            for text, chosen in (("", found), ("kept out", _kept_out(designs))):
                means = (np.mean([shares[d, n] for d in chosen], axis=0) for n in names)
                cells = (" / ".join(f"{s:.3f}" for s in mean) for mean in means)
                yield ["**mean power**", "", text, *cells]

        report.say(f"{rows:,} rows; {', '.join(f'{n}: {counts[n]} samples' for n in names)}.")
        report.say(f"Share of rejections at {LEVEL:.0%} given 1 / 3 / 5 columns.")
        report.table(("kind", "design", "kept out", *names), lines())
        for design in designs:
            if design.kind == "alternative":
                continue
            for share, most in zip(
                shares[design.name, names[0]], BOUNDS.get(design.kind, (0.07,) * 3), strict=True
            ):
                holds &= share <= most + 2 * np.sqrt(most * (1 - most) / counts[names[0]])
    return bool(holds)


def _kept_out(designs: list[Design]) -> list[str]:
    return [d.name for d in designs if d.kind == "alternative" and not d.tuned] or [
        d.name for d in designs if d.kind == "alternative"
    ]


def times(report: MarkdownReport, tests: Mapping[str, Contestant], *, quick: bool) -> None:
    """The time of one test alone."""
    sizes = (100,) if quick else (300, 1000, 10_000, 100_000)

    def lines() -> Iterator[list[str]]:
        for name, test in tests.items():
            line = [name]
            for rows in sizes:
                if rows > 1000 and name in ("KCI", "RCIT"):
                    line.append("")
                    continue
                rng, taken = np.random.default_rng(rows), []
                z = rng.standard_normal((rows, 3))
                data = np.column_stack([z.sum(axis=1) + rng.standard_normal(rows), z[:, 0], z])
                data[:, 1] += rng.standard_normal(rows)
                for _ in range(3 if rows > 10_000 or name == "KCI" else 9):
                    start = time.perf_counter()
                    test.of_table(data)(0, 1, (2, 3, 4))
                    taken.append(time.perf_counter() - start)
                line.append(f"{1e3 * np.median(taken):,.1f} ms")
            yield line

    report.say("Time of one test given three columns.")
    report.table(("", *(f"n = {rows:,}" for rows in sizes)), lines())


def random_graph(rng: np.random.Generator, rows: int, mixed: bool) -> tuple[Data, set[Any]]:
    """A sample of a random graph, and its edges; ``mixed`` makes a third of it discrete."""
    parents = [
        [i for i in range(node) if rng.random() < 2.4 / (NODES - 1)] for node in range(NODES)
    ]
    curves = (np.tanh, np.sin, lambda x: x**2 / 2, np.cos, lambda x: x)
    data = np.zeros((rows, NODES))
    for node in range(NODES):
        total = rng.standard_normal(rows) * (0.6 if parents[node] else 1)
        for parent in parents[node]:
            curve = curves[rng.integers(len(curves))]
            total += rng.uniform(0.8, 1.5) * curve(1.5 * data[:, parent])
        column = (total - total.mean()) / total.std()
        data[:, node] = (
            np.digitize(column, (-0.6, 0.6)) - 1.0 if mixed and node % 3 == 2 else column
        )
    return data, {(i, node) for node in range(NODES) for i in parents[node]}


def skeleton(answer: Answer, nodes: int, level: float) -> tuple[set[Any], int]:
    """The skeleton of PC (stable), and the number of tests."""
    adjacent = {i: set(range(nodes)) - {i} for i in range(nodes)}
    count = size = 0
    while any(len(adjacent[i]) - 1 >= size for i in range(nodes)):
        before = {i: set(each) for i, each in adjacent.items()}
        for i, j in itertools.permutations(range(nodes), 2):
            if j not in adjacent[i]:
                continue
            for given in itertools.combinations(sorted(before[i] - {j}), size):
                count += 1
                if answer(min(i, j), max(i, j), given) > level:
                    adjacent[i].discard(j)
                    adjacent[j].discard(i)
                    break
        size += 1
    return {(i, j) for i in range(nodes) for j in adjacent[i] if i < j}, count


def graphs(report: MarkdownReport, tests: Mapping[str, Contestant], *, quick: bool) -> None:
    """F1 of skeletons, number of tests and time."""

    def lines() -> Iterator[list[str]]:
        for mixed in (False, True):
            for name, test in tests.items():
                if not test.graphs:
                    continue
                scores, tested, taken = [], 0, 0.0
                for seed in range(1 if quick else test.graphs):
                    rng = np.random.default_rng([seed, mixed])
                    data, edges = random_graph(rng, 200 if quick else GRAPH_ROWS, mixed)
                    start = time.perf_counter()
                    found, count = skeleton(test.of_table(data), NODES, 0.01)
                    taken, tested = taken + time.perf_counter() - start, tested + count
                    common = len(found & edges)
                    scores.append(2 * common / max(len(found) + len(edges), 1))
                kind = "mixed" if mixed else "continuous"
                speed = f"{tested / taken:,.0f}"
                each = f"{taken / len(scores):.2f} s"
                yield [kind, name, str(len(scores)), f"{np.mean(scores):.3f}", speed, each]

    report.say(f"Skeletons by PC at level 1%, of random graphs of {NODES} variables, 1,000 rows.")
    report.table(("variables", "test", "graphs", "mean F1", "tests a second", "a graph"), lines())


def main(argv: list[str] | None = None) -> int:
    """Print the tables; 1 where a null is rejected more than it may be."""
    parser = bench_parser("conditional", __doc__, quick="few designs, samples and contestants")
    parser.add_argument("--only", choices=PARTS, help="of the tables")
    options = parser.parse_args(argv)
    tests = contestants()
    if options.quick:
        tests = dict(list(tests.items())[:2])
    holds = True
    for name, part in zip(PARTS, (size, times, graphs), strict=True):
        if options.only not in (None, name):
            continue
        report = MarkdownReport()
        report.say(describe())
        report.say()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of peers
            holds &= part(report, tests, quick=options.quick) is not False
        if options.write:
            report.keep(f"conditional {name}")
    return 0 if holds or options.quick else 1


if __name__ == "__main__":
    sys.exit(main())
