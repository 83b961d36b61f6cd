"""The sample version of HGR is 1 on any sample, if any transformation is allowed."""

from __future__ import annotations

import numpy as np

import hgr_jax
from bench.paper.output import Output, new_figure

ROWS = 15


def run(output: Output, *, quick: bool) -> str:
    """An interpolating transformation of independent data, and KB by degree on the same."""
    rng = np.random.default_rng(0)
    a, b = np.arange(ROWS, dtype=np.float32), rng.uniform(size=ROWS).astype(np.float32)
    interpolated = np.interp(a, a, b)
    reached = float(hgr_jax.pearson(interpolated.astype(np.float32), b))
    degrees = range(1, 4 if quick else ROWS)
    values = [float(hgr_jax.kb(a, b, h=degree, k=1)) for degree in degrees]
    output.table(
        "overfitting",
        ("transformation", "correlation"),
        [("piecewise linear, through every point", reached)]
        + [(f"polynomial of degree {d}", v) for d, v in zip(degrees, values, strict=True)],
    )
    figure = new_figure(10, 3.6)
    data, curve = figure.subplots(1, 2)
    data.plot(a, interpolated, color="C3", label=f"f(a): correlation {reached:.3f}")
    data.scatter(a, b, color="black", zorder=2, label="data: a and b independent")
    data.set(xlabel="a", ylabel="b")
    data.legend(fontsize=8)
    curve.plot(list(degrees), values, marker="o", color="C0")
    curve.set(xlabel="degree of f", ylabel="correlation of f(a) with b", ylim=(0, 1.05))
    output.figure("overfitting", figure)
    return (
        f"On {ROWS} independent pairs an interpolating f reaches {reached:.3f}; polynomials get"
        f" there too as their degree rises: {values[0]:.2f} at degree 1, {values[-1]:.3f} at"
        f" degree {degrees[-1]}."
    )
