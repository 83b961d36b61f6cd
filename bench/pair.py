"""One pair: speed, memory and accuracy beside peers.  ``python -m bench.pair [--quick] [--write]``.

All contestants of a table run in turn, in one process; ratios are of medians.  Inputs of the
JAX contestants are on the device before the clock starts, and every call is blocked on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import hgr_jax
from bench import peers, reference
from bench.data import RELATIONS, communities, relation
from bench.report import MarkdownReport, run_bench
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


def pair(report: MarkdownReport, quick: bool) -> None:
    """Every table."""
    sizes = (1_000,) if quick else (10_000,)
    speed(report, [*RELATIONS][: 1 if quick else None], sizes, rounds=1 if quick else 7)
    real_units(report, 1 if quick else 60)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every table."""
    return run_bench(__doc__, {"pair": pair}, arguments)


if __name__ == "__main__":
    sys.exit(main())
