"""What matters on a GPU.  ``python -m bench.gpu [--device gpu] [--quick]``.

Batches of `kb` and of its gradients, a scan of very many columns in float32 with products of full
precision, and steps of training.  ``--device cpu`` runs the same on the host, to compare with.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial

import jax
import numpy as np
from flax import nnx

import hgr_jax
from bench.report import MarkdownReport, run_bench
from bench.scale import KEPT, wide_table
from bench.timing import race, seconds
from hgr_jax.fairness import MLP, FairTrainer, Penalty

BATCHES = ((1_000, 1_000), (10_000, 1_000), (1_000, 100_000))
"""Pairs at once, and rows of each."""

COLUMNS = (2_000, 20_000)

STEPS, TRAINED_ROWS = 200, 100_000


def batches(sizes: tuple[tuple[int, int], ...], rounds: int) -> Iterator[list[str]]:
    """Time `kb` and its value and gradient under `jax.vmap`."""
    value = jax.jit(jax.vmap(hgr_jax.kb))
    slope = jax.jit(jax.vmap(jax.value_and_grad(hgr_jax.kb, argnums=(0, 1))))
    for pairs, rows in sizes:
        a, noise = jax.random.normal(jax.random.key(0), (2, pairs, rows))
        b = a**2 + noise
        times = race({"value": partial(value, a, b), "slope": partial(slope, a, b)}, rounds=rounds)
        cells = [seconds(times[name].median / pairs) for name in ("value", "slope")]
        yield [f"{pairs:,}", f"{rows:,}", *cells]


def scans(sizes: tuple[int, ...]) -> Iterator[list[str]]:
    """Time ``scan(top=1000)`` of arrays of 1,000 rows, after what compiles."""
    for columns in sizes:
        x = wide_table(columns)
        hgr_jax.scan(x[:, : min(columns, 600)], top=KEPT)
        start = time.perf_counter()
        found = hgr_jax.scan(x, top=KEPT)
        took = time.perf_counter() - start
        pairs = columns * (columns - 1) // 2
        yield [f"{columns:,}", f"{took:.1f} s", seconds(took / pairs), f"{len(found):,}"]


def trainings(rows: int, steps: int) -> Iterator[list[str]]:
    """Time steps of all rows, after what compiles."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 20)).astype(np.float32)
    y = x[:, 0] ** 2 + x[:, 1]
    for name, penalty in {"none": None, "HGR-KB": Penalty("kb", 0.2)}.items():
        network = MLP(20, hidden=(256, 256), rngs=nnx.Rngs(0))
        trainer = FairTrainer(network, penalties=penalty or (), seed=0)
        trainer.fit(x, y, x[:, 0], steps=steps)
        start = time.perf_counter()
        trainer.fit(x, y, x[:, 0], steps=steps)
        yield [name, f"{rows:,}", seconds((time.perf_counter() - start) / steps)]


def gpu(report: MarkdownReport, quick: bool) -> None:
    """All three."""
    report.say(f"Device: {jax.devices()[0].device_kind}")
    sizes = ((8, 200),) if quick else BATCHES
    found = batches(sizes, rounds=2 if quick else 7)
    report.table(("pairs", "rows", "kb, a pair", "with gradients"), found)
    report.table(("columns", "time", "a pair", "pairs kept"), scans((60,) if quick else COLUMNS))
    trained = trainings(200, 5) if quick else trainings(TRAINED_ROWS, STEPS)
    report.table(("penalty", "rows", "a step"), trained)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print."""
    return run_bench(__doc__, {"gpu": gpu}, arguments)


if __name__ == "__main__":
    sys.exit(main())
