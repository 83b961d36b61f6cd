"""HGR-SK in both directions: which of two variables is better explained by the other."""

from __future__ import annotations

import numpy as np

import hgr_jax
from bench.paper import tables
from bench.paper.output import Output, new_figure
from hgr_jax.plotting import literal

SHOWN = 3000
"""Points drawn of each table, evenly spaced."""


def run(output: Output, *, quick: bool) -> str:
    """The least squares of both directions between protected attribute and target, degree 5."""
    chosen = tables.load(quick=quick)
    rows = []
    figure = new_figure(13, 9)
    for table, axes in zip(chosen, figure.subplots(len(chosen), 4, squeeze=False), strict=True):
        a, b = tables.pair(table)
        direct, inverse = hgr_jax.kb_fit(a, b, h=5, k=1), hgr_jax.kb_fit(a, b, h=1, k=5)
        single = hgr_jax.sk_fit(a, b, d=5)
        rows.append(
            (
                table.name,
                table.protected,
                table.target,
                float(direct.correlation),
                float(inverse.correlation),
                single.explains,
            )
        )
        drawn = slice(None, None, max(1, len(a) // SHOWN))
        x, y = a[drawn], b[drawn]
        dots = {"s": 4, "alpha": 0.3, "color": "black", "linewidths": 0}
        names = literal(table.protected), literal(table.target)
        data, left, right, bars = axes
        data.scatter(x, y, **dots)
        data.set(title=table.name, xlabel=names[0], ylabel=names[1])
        left.scatter(np.asarray(direct.f(x)), y, **dots)
        left.set(title="direct", xlabel=f"f({names[0]})", ylabel=names[1])
        right.scatter(x, np.asarray(inverse.g(y)), **dots)
        right.set(title="inverse", xlabel=names[0], ylabel=f"g({names[1]})")
        bars.bar(["direct", "inverse"], [float(direct.correlation), float(inverse.correlation)])
        bars.set(ylim=(0, 1))
    output.table("causality", ("table", "a", "b", "b = f(a)", "a = g(b)", "sk_fit says"), rows)
    output.figure("causality", figure)
    return (
        "; ".join(
            f"{table}, {a} and {b}: {direct:.3f} for b = f(a), {inverse:.3f} for a = g(b)"
            for table, a, b, direct, inverse, _ in rows
        )
        + ". The larger one is the better fit, which is a hint and no proof of a cause."
    )
