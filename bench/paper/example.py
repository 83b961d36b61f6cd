"""One pair from data to projection, with the mixing coefficients in words."""

from __future__ import annotations

import jax
import numpy as np

import hgr_jax
from bench.paper.output import Output
from hgr_jax.datasets import synthetic
from hgr_jax.plotting import plot_fit


def run(output: Output, *, quick: bool) -> str:
    """A circle with noise 0.1, at degrees 2 and 2."""
    a, b = synthetic.sample("circle", jax.random.key(0), noise=0.1, size=101 if quick else 1001)
    fit = hgr_jax.kb_fit(a, b, h=2, k=2)
    output.table(
        "example",
        ("a", "b", "f(a)", "g(b)"),
        np.stack([np.asarray(v) for v in (a, b, fit.f(a), fit.g(b))], axis=1).tolist(),
    )
    figure = plot_fit(fit, a, b)
    for axes, transform, name in zip(figure.axes[1:3], (fit.f, fit.g), "ab", strict=True):
        axes.set_title(transform.formula(name, digits=2), fontsize=9)
    output.figure("example", figure)
    return (
        f"|Pearson| is {abs(float(hgr_jax.pearson(a, b))):.3f}, KB {float(fit.correlation):.3f},"
        f" with f(a) = {fit.f.formula('a', digits=2)} and g(b) = {fit.g.formula('b', digits=2)}:"
        " the squares, of opposite sign."
    )
