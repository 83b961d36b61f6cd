"""HGR-SK by least squares against global optimisation, over the number of rows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

import hgr_jax
from bench import peers
from bench.paper.output import Output, new_figure
from bench.timing import race
from hgr_jax.datasets import synthetic

GRIDS = (11, 51, 101, 501, 1001, 5001, 10001, 50001, 100001, 500001, 1000001)
LARGEST_FOR_SEARCH = 100001
RELATIONSHIPS = ("circle", "square_sin")
NOISE = 0.5


def run(output: Output, *, quick: bool) -> str:
    """Ours, NumPy's ``lstsq``, and SciPy's ``trust-constr`` on the paper's formulation."""
    rows = []
    sizes = (11,) if quick else GRIDS
    for size in tqdm(sizes, unit="size"):
        for relationship in RELATIONSHIPS:
            a, b = synthetic.sample(relationship, jax.random.key(0), noise=NOISE, size=size)
            x, y = (np.asarray(v, np.float64) for v in (a, b))
            contestants: dict[str, Callable[[], Any]] = {
                "HGR-SK": functools.partial(hgr_jax.sk, a, b, d=5),
                "NumPy lstsq": functools.partial(peers.least_squares, x, y, 5),
            }
            if size <= LARGEST_FOR_SEARCH:
                contestants["trust-constr"] = functools.partial(_search, x, y)
            timings = race(contestants, rounds=1 if quick else 3, most_calls=20)
            for name, timing in timings.items():
                rows.append((relationship, len(x), name, timing.median, float(timing.value)))
            jax.clear_caches()
    output.table("lstsq", ("relationship", "rows", "method", "seconds", "value"), rows)
    figure = new_figure(10, 3.8)
    for relationship, axes in zip(RELATIONSHIPS, figure.subplots(1, 2, sharey=True), strict=True):
        for name in ("HGR-SK", "NumPy lstsq", "trust-constr"):
            chosen = [row for row in rows if row[0] == relationship and row[2] == name]
            axes.loglog([r[1] for r in chosen], [r[3] for r in chosen], marker="o", label=name)
        axes.set(title=synthetic.RELATIONSHIPS[relationship].formula, xlabel="rows")
    figure.axes[0].set_ylabel("seconds")
    figure.axes[0].legend(fontsize=8)
    output.figure("lstsq", figure)
    seconds = {row[:3]: row[3] for row in rows}
    ratios = {
        name: [
            time / seconds[relationship, n, name]
            for (relationship, n, method), time in seconds.items()
            if method == "trust-constr"
        ]
        for name in ("NumPy lstsq", "HGR-SK")
    }
    return (
        "Global optimisation takes "
        + " and ".join(
            f"{min(r):,.0f} to {max(r):,.0f} times (median {np.median(r):,.0f}) as long as {name}"
            for name, r in ratios.items()
        )
        + f", over {sizes[0]} to {min(sizes[-1], LARGEST_FOR_SEARCH):,} grid points."
    )


def _search(a: np.ndarray, b: np.ndarray) -> float:
    return max(peers.trust_region(a, b, 5, 1), peers.trust_region(a, b, 1, 5))
