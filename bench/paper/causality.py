"""HGR-SK in both directions: which of two variables is better explained by the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import hgr_jax
from bench.paper import tables
from bench.paper.output import Output, new_figure
from hgr_jax.plotting import literal

SHOWN = 3000
"""Points drawn of each table, evenly spaced."""


def run(output: Output, *, quick: bool) -> str:
    """The least squares of both directions between protected attribute and target."""
    rows, panels = [], []
    for table in tables.load(quick=quick):
        a, b = tables.pair(table)
        direct = hgr_jax.kb_fit(a, b, h=5, k=1)
        inverse = hgr_jax.kb_fit(a, b, h=1, k=5)
        single = hgr_jax.sk_fit(a, b, d=5)
        names = table.protected, table.target
        values = float(direct.correlation), float(inverse.correlation)
        rows.append((table.name, *names, *values, single.explains))
        panels.append((table.name, names, (a, b), direct, inverse))
    figure = new_figure(13, 3 * len(panels))
    axes = figure.subplots(len(panels), 4, squeeze=False)
    for row, panel in zip(axes, panels, strict=True):
        _draw(row, *panel)
    output.table("causality", ("table", "a", "b", "b = f(a)", "a = g(b)", "sk_fit says"), rows)
    output.figure("causality", figure)
    return (
        "; ".join(
            f"{table}, {a} and {b}: {direct:.3f} for b = f(a), {inverse:.3f} for a = g(b)"
            for table, a, b, direct, inverse, _ in rows
        )
        + ". The larger one is the better fit, which is a hint and no proof of a cause."
    )


def _draw(
    row: Any,
    table: str,
    names: tuple[str, str],
    values: tuple[NDArray[np.float32], NDArray[np.float32]],
    direct: hgr_jax.KBFit,
    inverse: hgr_jax.KBFit,
) -> None:
    drawn = slice(None, None, max(1, len(values[0]) // SHOWN))
    x, y = (v[drawn] for v in values)
    dots = {"s": 4, "alpha": 0.3, "color": "black", "linewidths": 0}
    first, second = map(literal, names)
    data, left, right, bars = row
    data.scatter(x, y, **dots)
    data.set(title=table, xlabel=first, ylabel=second)
    left.scatter(np.asarray(direct.f(x)), y, **dots)
    left.set(title="direct", xlabel=f"f({first})", ylabel=second)
    right.scatter(x, np.asarray(inverse.g(y)), **dots)
    right.set(title="inverse", xlabel=first, ylabel=f"g({second})")
    bars.bar(["direct", "inverse"], [float(direct.correlation), float(inverse.correlation)])
    bars.set(ylim=(0, 1))
