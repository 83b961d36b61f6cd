"""HGR-SK in both directions: which of two variables is better explained by the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

import hgr_jax
from bench.paper import tables
from bench.paper.importance import against
from bench.paper.output import ExperimentError, Output, new_figure
from hgr_jax.plotting import literal

SHOWN = 3000
"""Points drawn of each table, evenly spaced."""


def run(
    output: Output,
    *,
    quick: bool,
    chosen: Sequence[str] | None = None,
    on: str | None = None,
    top: int | None = None,
    degree: int = 5,
) -> str:
    """The least squares of both directions between protected attribute and target.

    With ``on``, between that column and the ``top`` (5) others of the highest HGR-KB with it.
    """
    if top is not None and on is None:
        raise ExperimentError("--top is of the columns that --on is compared with: give --on too")
    rows, panels = [], []
    for table in tables.load(chosen, quick=quick):
        for name, other in _pairs(table, on, top or 5, degree):
            a, b = (table[c].astype(np.float32) for c in (name, other))
            direct = hgr_jax.kb_fit(a, b, h=degree, k=1)
            inverse = hgr_jax.kb_fit(a, b, h=1, k=degree)
            single = hgr_jax.sk_fit(a, b, d=degree)
            values = float(direct.correlation), float(inverse.correlation)
            rows.append((table.name, name, other, *values, single.explains))
            panels.append((table.name, (name, other), (a, b), direct, inverse))
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


def _pairs(table: tables.Table, on: str | None, top: int, degree: int) -> list[tuple[str, str]]:
    if on is None:
        return [(table.protected, table.target)]
    x = table[on]
    others = [name for name in (*table.features, table.target) if name != on]
    features = np.stack([table[name] for name in others]).astype(np.float32)
    values, _ = against(jnp.asarray(x, jnp.float32), jnp.asarray(features), degree)
    order = np.argsort(values)[::-1][:top]
    return [(on, others[i]) for i in order]


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
