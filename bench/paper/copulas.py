"""What the transformations look like, and what they are worth on fresh data."""

from __future__ import annotations

import jax
import numpy as np

import hgr_jax
from bench.paper.output import Output, new_figure
from hgr_jax.datasets import synthetic

NOISE = 1.0


def run(output: Output, *, quick: bool) -> str:
    """KB(5), KB(2) and NN on a circle with noise 1, scored on 30 fresh samples."""
    size, tests = (201, 3) if quick else (1001, 30)
    known = synthetic.RELATIONSHIPS["circle"]
    a, b = synthetic.sample("circle", jax.random.key(0), noise=NOISE, size=size)
    fits = {
        "HGR-KB (5)": hgr_jax.kb_fit(a, b, h=5, k=5),
        "HGR-KB (2)": hgr_jax.kb_fit(a, b, h=2, k=2),
        "HGR-NN": hgr_jax.neural_fit(a, b, key=jax.random.key(1), steps=20 if quick else None),
    }
    fresh = [
        synthetic.sample("circle", key, noise=NOISE, size=size)
        for key in jax.random.split(jax.random.key(2), tests)
    ]
    train = {"ORACLE": float(hgr_jax.oracle(a, b, f=known.f, g=known.g))}
    test = {"ORACLE": [float(hgr_jax.oracle(*pair, f=known.f, g=known.g)) for pair in fresh]}
    for name, fit in fits.items():
        train[name] = float(fit.correlation)
        test[name] = [float(fit.score(*pair)) for pair in fresh]
    output.table(
        "copulas",
        ("transformations", "training", "test", "sd of test"),
        [(name, train[name], np.mean(test[name]), np.std(test[name])) for name in train],
    )
    figure = new_figure(12, 3.8)
    left, right, bars = figure.subplots(1, 3)
    for axes, x, letter in ((left, a, "f"), (right, b, "g")):
        grid = np.linspace(float(x.min()), float(x.max()), 300, dtype=np.float32)
        oracle = np.asarray(getattr(known, letter)(grid))
        inner = (grid > np.quantile(x, 0.02)) & (grid < np.quantile(x, 0.98))
        axes.plot(grid, _standard(oracle), color="black", label="ORACLE")
        for i, (name, fit) in enumerate(fits.items()):
            values = np.asarray(getattr(fit, letter)(grid))
            sign = np.sign(np.corrcoef(values[inner], oracle[inner])[0, 1])
            axes.plot(grid, sign * values, color=f"C{i}", label=name)
        axes.set(title=f"transformation {letter}", ylim=(-4, 6))
    left.legend(fontsize=8)
    where = np.arange(len(train))
    bars.bar(where - 0.2, list(train.values()), 0.4, label="training", color="C0")
    bars.bar(
        where + 0.2,
        [np.mean(v) for v in test.values()],
        0.4,
        yerr=[np.std(v) for v in test.values()],
        label="fresh samples",
        color="C7",
    )
    bars.set_xticks(where, list(train), rotation=30)
    bars.legend(fontsize=8)
    output.figure("copulas", figure)
    return (
        "Correlation on the data of the fit and, in brackets, on fresh samples: "
        + ", ".join(f"{name} {train[name]:.3f} ({np.mean(test[name]):.3f})" for name in train)
        + "."
    )


def _standard(x: np.ndarray) -> np.ndarray:
    return (x - x.mean()) / x.std()
