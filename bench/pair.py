"""One pair: speed, memory and accuracy beside peers.  ``python -m bench.pair [--quick] [--write]``.

All contestants of a table run in turn, in one process; ratios are of medians.  Inputs of the
JAX contestants are on the device before the clock starts, and every call is blocked on.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import hgr_jax
from bench import peers, reference
from bench.data import RELATIONS, awkward_pair, communities, relation
from bench.machine import describe
from bench.report import MarkdownReport, bench_parser
from bench.timing import race, seconds


def speed(
    report: MarkdownReport, relations: Iterable[str], sizes: tuple[int, ...], rounds: int
) -> None:
    """Every contestant on every relation; how many times as long as ours each takes."""
    report.say("### Time of one estimate, degree 5")
    report.say()
    report.say(
        "Ours in float32, the others in float64. `a` is evenly spaced over [-1, 1]; noise of"
        " standard deviation 1 (circle) and 0.5 (x², sin). In brackets: times ours (KB against"
        " double kernels, SK against the single one)."
    )

    def rows() -> Iterator[list[str]]:
        for n in sizes:
            for name in relations:
                a, b = relation(name, n)
                x, y = (jnp.asarray(v, jnp.float32) for v in (a, b))
                times = race(
                    {
                        "kb": partial(hgr_jax.kb, x, y),
                        "kb svd": partial(hgr_jax.kb, x, y, solver="svd"),
                        "sk": partial(hgr_jax.sk, x, y),
                        "maxcorr dk": partial(peers.maxcorr_double, a, b),
                        "maxcorr sk": partial(peers.maxcorr_single, a, b),
                        "trust-constr": partial(peers.trust_region, a, b),
                        "numpy": partial(peers.numpy_closed_form, a, b),
                    },
                    rounds=rounds,
                )
                kb, sk = times["kb"].median, times["sk"].median
                single = times["maxcorr sk"].median
                yield [
                    f"{name}, n = {n:,}",
                    seconds(kb),
                    seconds(times["kb svd"].median),
                    *(
                        f"{seconds(times[peer].median)} ({times[peer].median / kb:,.0f})"
                        for peer in ("maxcorr dk", "trust-constr", "numpy")
                    ),
                    seconds(sk),
                    f"{seconds(single)} ({single / sk:,.0f})",
                ]

    report.table(
        (
            "",
            "KB",
            "KB, `svd`",
            "maxcorr double",
            "SciPy trust-constr",
            "NumPy QR + SVD",
            "SK",
            "maxcorr single",
        ),
        rows(),
    )


def values(report: MarkdownReport, relations: Iterable[str], sizes: tuple[int, ...]) -> None:
    """How far each contestant is below the reference on the data of the speed table."""
    report.say("### Values on the same data: reference minus estimate")
    report.say()
    report.say(
        "The KB contestants against exact KB, the SK contestants against exact SK. KB and SK are"
        " ours, in float32 (against the reference on the same float32 inputs) and in float64."
    )

    def rows() -> Iterator[list[str]]:
        for n in sizes:
            for name in relations:
                a, b = relation(name, n)
                x, y = (v.astype(np.float32) for v in (a, b))
                double, single = reference.kb(a, b, 5, 5), reference.sk(a, b, 5)
                with jax.enable_x64(True):
                    kb, sk = float(hgr_jax.kb(a, b)), float(hgr_jax.sk(a, b))
                below = [
                    reference.kb(x, y, 5, 5) - float(hgr_jax.kb(x, y)),
                    double - kb,
                    double - peers.maxcorr_double(a, b),
                    double - peers.trust_region(a, b),
                    double - peers.numpy_closed_form(a, b),
                    reference.sk(x, y, 5) - float(hgr_jax.sk(x, y)),
                    single - sk,
                    single - peers.maxcorr_single(a, b),
                ]
                yield [f"{name}, n = {n:,}", f"{double:.6f}", *(f"{v:.1e}" for v in below)]

    report.table(
        (
            "",
            "exact KB",
            "KB, float32",
            "KB, float64",
            "maxcorr double",
            "trust-constr",
            "NumPy",
            "SK, float32",
            "SK, float64",
            "maxcorr single",
        ),
        rows(),
    )


def kb_float32(a: peers.Vector, b: peers.Vector, degree: int) -> float:
    """Ours, on data in single precision."""
    return float(hgr_jax.kb(a.astype(np.float32), b.astype(np.float32), degree, degree))


OURS = "hgr_jax KB, float32"
CONTESTANTS: dict[str, Callable[[peers.Vector, peers.Vector, int], float]] = {
    OURS: kb_float32,
    "maxcorr double": peers.maxcorr_double,
    "SciPy trust-constr": lambda a, b, degree: peers.trust_region(a, b, degree, degree),
    "NumPy QR + SVD": peers.numpy_closed_form,
}


def real_units(report: MarkdownReport, pairs: int) -> None:
    """Share of real pairs, in raw units, where a contestant is below the exact value."""
    report.say(f"### {pairs} random pairs of the communities table, raw units, degree 3")
    table = communities()
    if table is None:
        report.say()
        report.say("Left out: the communities table is unavailable (see HGR_JAX_DATA).")
        report.say()
        return
    columns = table[1]
    rng = np.random.default_rng(0)
    chosen = [rng.choice(columns.shape[1], 2, replace=False) for _ in range(pairs)]
    below: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    for i, j in tqdm(chosen, desc="real pairs", leave=False):
        a, b = columns[:, i], columns[:, j]
        exact = reference.kb(a, b, 3, 3)
        rounded = reference.kb(a.astype(np.float32), b.astype(np.float32), 3, 3)
        for name, contestant in CONTESTANTS.items():
            below[name].append((rounded if name == OURS else exact) - contestant(a, b, 3))
    report.table(
        ("", "more than 1e-3 below", "more than 1e-2 below", "largest shortfall"),
        (
            [
                name,
                f"{np.mean(np.array(v) > 1e-3):.0%}",
                f"{np.mean(np.array(v) > 1e-2):.0%}",
                f"{max(v):.1e}",
            ]
            for name, v in below.items()
        ),
    )


def units(report: MarkdownReport, rows: int, shown: int | None = None) -> None:
    """The same relation in other units: an exact measure does not change."""
    report.say("### The same pair in other units, degree 3")
    rng = np.random.default_rng(0)
    years = np.round(rng.uniform(1950, 2025, rows))
    trend = ((years - 1987) / 20) ** 2 + 0.3 * rng.standard_normal(rows)
    a, b = relation("x^2", rows)
    cases = {
        "a": (a, b),
        "a + 1000": (a + 1000, b),
        "a * 1000": (a * 1000, b),
        "a * 1e-3": (a * 1e-3, b),
        "calendar years": (years, trend),
    }
    report.table(
        ("", "exact", *CONTESTANTS),
        (
            [
                name,
                f"{reference.kb(x, y, 3, 3):.5f}",
                *(f"{contestant(x, y, 3):.5f}" for contestant in CONTESTANTS.values()),
            ]
            for name, (x, y) in [*cases.items()][:shown]
        ),
    )


def least_squares(report: MarkdownReport, sizes: tuple[int, ...], rounds: int) -> None:
    """The paper's figure: HGR-SK by least squares and by global optimisation."""
    report.say("### HGR-SK, degree 5, by least squares and by global optimisation")

    def both_ways(a: np.ndarray, b: np.ndarray) -> float:
        return max(peers.trust_region(a, b, 5, 1), peers.trust_region(a, b, 1, 5))

    def rows() -> Iterator[list[str]]:
        for n in sizes:
            a, b = relation("x^2", n)
            x, y = (jnp.asarray(v, jnp.float32) for v in (a, b))
            times = race(
                {"ours": partial(hgr_jax.sk, x, y), "global": partial(both_ways, a, b)},
                rounds=rounds,
            )
            ours, other = times["ours"], times["global"]
            yield [
                f"n = {n:,}",
                seconds(ours.median),
                seconds(other.median),
                f"{other.median / ours.median:,.0f}",
                f"{float(ours.value) - other.value:+.1e}",
            ]

    report.table(("", "least squares", "trust-constr", "times", "value above it by"), rows())


def long_data(report: MarkdownReport, rows: int, rounds: int) -> None:
    """A million rows: time against Pearson's correlation, and memory."""
    report.say(f"### n = {rows:,}, float32, degree 5")
    a, b = (jnp.asarray(x, jnp.float32) for x in awkward_pair("normal", rows))
    gradient = jax.jit(jax.value_and_grad(hgr_jax.kb, argnums=(0, 1))).lower(a, b).compile()
    times = race(
        {
            "Pearson, jitted": partial(peers.pearson, a, b),
            "Pearson, jitted `jnp.corrcoef`": partial(peers.corrcoef, a, b),
            "KB": partial(hgr_jax.kb, a, b),
            "KB, value and gradient": partial(gradient, a, b),
        },
        rounds=rounds,
    )
    compiled = {
        "KB": jax.jit(hgr_jax.kb).lower(a, b).compile(),
        "KB, value and gradient": gradient,
    }

    def memory(name: str) -> str:
        if name not in compiled:
            return ""
        analysis = compiled[name].memory_analysis()
        return f"{analysis.temp_size_in_bytes / 2**20:.2f} MiB" if analysis else "unknown"

    pearson = times["Pearson, jitted"].median
    corrcoef = times["Pearson, jitted `jnp.corrcoef`"].median
    report.table(
        ("", "time", "times Pearson", "times `jnp.corrcoef`", "temporaries"),
        (
            [
                name,
                seconds(timing.median),
                f"{timing.median / pearson:.1f}",
                f"{timing.median / corrcoef:.1f}",
                memory(name),
            ]
            for name, timing in times.items()
        ),
    )
    report.say(f"For scale: n x (h + k) float32 are {rows * 10 * 4 / 2**20:.0f} MiB.")
    report.say()


def in_a_loss(report: MarkdownReport, rows: int, rounds: int) -> None:
    """KB as the penalty of a jitted loss."""
    report.say(f"### In a jitted loss, n = {rows:,}, float32, degree 5")
    z, y = (jnp.asarray(x, jnp.float32) for x in relation("x^2", rows))

    def loss(prediction: jax.Array, *, penalty: bool) -> jax.Array:
        task = jnp.mean((prediction - y) ** 2)
        return task + jax.nn.relu(hgr_jax.kb(z, prediction) - 0.2) if penalty else task

    contestants = {}
    compile_seconds = {}
    for name, penalty in (("loss without KB", False), ("loss with KB", True)):
        step = jax.jit(jax.value_and_grad(partial(loss, penalty=penalty)))
        start = time.perf_counter()
        compiled = step.lower(y).compile()
        compile_seconds[name] = time.perf_counter() - start
        contestants[name] = partial(compiled, y)
    times = race(contestants, rounds=rounds)
    report.table(
        ("value and gradient", "time", "compile time, once"),
        (
            [name, seconds(timing.median), seconds(compile_seconds[name])]
            for name, timing in times.items()
        ),
    )


def import_time(report: MarkdownReport, runs: int) -> None:
    """What the import adds to that of jax and jaxopt, in fresh processes, in turn."""
    report.say("### Import")
    setup = "import time, warnings; warnings.simplefilter('ignore'); s = time.perf_counter();"
    finish = "; print(time.perf_counter() - s)"
    statements = {
        "jax and jaxopt": "import jax, jaxopt",
        "hgr_jax too": "import jax, jaxopt, hgr_jax",
    }
    taken: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(runs):
        for name, statement in statements.items():
            code = f"{setup} {statement}{finish}"
            output = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            ).stdout
            taken[name].append(float(output))
    report.table(("", "time"), ([name, seconds(float(np.median(t)))] for name, t in taken.items()))


def main(argv: list[str] | None = None) -> None:
    """Run every table."""
    parser = bench_parser("pair", __doc__, quick="a small version of every table")
    options = parser.parse_args(argv)
    quick = options.quick
    report = MarkdownReport()
    report.say(describe())
    report.say()
    sizes = (1_000,) if quick else (1_000, 10_000, 100_000)
    relations = [*RELATIONS][: 1 if quick else None]
    speed(report, relations, sizes, rounds=1 if quick else 7)
    values(report, relations, sizes)
    real_units(report, 1 if quick else 60)
    units(report, 500 if quick else 2_000, shown=2 if quick else None)
    least_squares(report, sizes, rounds=1 if quick else 7)
    long_data(report, 2**17 if quick else 2**20, rounds=2 if quick else 15)
    in_a_loss(report, 2_048, rounds=2 if quick else 15)
    import_time(report, 1 if quick else 9)
    if options.write:
        report.keep("pair")


if __name__ == "__main__":
    main()
