"""One table from beginning to end: what a model does before and after each constraint."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

import hgr_jax
from bench.paper import enforcement
from bench.paper.enforcement import MEASURES, Part, Setting
from bench.paper.output import ExperimentError, Output, new_figure
from hgr_jax.plotting import literal

TABLE, PROTECTED, THRESHOLD, STEPS = "diabetes", "bmi", 0.3, 200
"""Scikit-learn's 442 patients; the paper's authors use UCI's students, which have to be fetched."""

PENALISERS = ("none", "HGR-KB", "HGR-SK", "HGR-NN", "HGR-KDE")


def run(
    output: Output,
    *,
    quick: bool,
    chosen: Sequence[str] | None = None,
    on: str | None = None,
    penalisers: Sequence[str] | None = None,
    steps: int = STEPS,
    threshold: float = THRESHOLD,
) -> str:
    """Every penaliser on one table, on rows trained on and on others, with f and g.

    ``chosen`` is the one table, ``on`` its protected column.
    """
    if chosen and len(chosen) > 1:
        raise ExperimentError(f"usecase is of one table; got {', '.join(chosen)}")
    name = (chosen or (TABLE,))[0]
    setting = enforcement.settings((name,))[name]
    protected = on or (PROTECTED if name == TABLE else setting.data.protected)
    z = setting.data[protected]
    data = dataclasses.replace(setting.data, z=z, protected=protected)
    setting = dataclasses.replace(setting, data=data, threshold=threshold)
    names = tuple(penalisers or (PENALISERS[:2] if quick else PENALISERS))
    steps = min(steps, 20) if quick else steps
    parts = setting.fold(0)
    rows: list[tuple[object, ...]] = []
    shown = {}
    for penaliser in names:
        trainer = setting.trainer(enforcement.penaliser(penaliser, threshold))
        trainer.fit(*parts[0], steps=steps)
        for part, label in zip(parts, ("train", "validation"), strict=True):
            prediction = np.asarray(trainer.predict(part.x))
            found = setting.measured(prediction, part, neural_steps=20 if quick else 1000)
            rows.append((setting.data.name, penaliser, label, *(found[m] for m in MEASURES)))
            if label == "train":
                shown[penaliser] = prediction
    header = ("table", "penaliser", "rows", *MEASURES)
    output.table("usecase", header, rows)
    output.latex(
        "usecase",
        ("penaliser", "rows", *MEASURES),
        [(str(row[1]), str(row[2]), *(f"{value:.3f}" for value in row[3:])) for row in rows],
    )
    _draw(output, setting, parts[0], shown)
    kb = 3 + MEASURES.index("HGR-KB")
    told = [
        f"{name} {score:.3f} with HGR-KB {value:.3f}"
        for _, name, label, score, value in ((*row[:4], row[kb]) for row in rows)
        if label == "validation"
    ]
    return (
        f"{setting.data.name}: {literal(setting.data.target)} predicted, {setting.data.protected}"
        f" protected, threshold {threshold:g}; {setting.score_name} on {len(parts[1].x)} validation"
        f" rows: {'; '.join(told)}."
    )


def _draw(
    output: Output, setting: Setting, part: Part, shown: dict[str, NDArray[np.float32]]
) -> None:
    figure = new_figure(3.2 * len(shown), 8)
    panels = figure.subplots(3, len(shown), squeeze=False)
    z = setting.data.z[setting.rows(0)[0]]
    for (name, prediction), (data, left, right) in zip(shown.items(), panels.T, strict=True):
        fit = hgr_jax.kb_fit(jnp.asarray(part.z), jnp.asarray(prediction), h=5, k=5)
        data.scatter(z, prediction, s=4, alpha=0.4, color="black", linewidths=0)
        edges = np.unique(np.quantile(z, np.linspace(0, 1, 6)))
        group = np.clip(np.digitize(z, edges[1:-1]), 0, len(edges) - 2)
        groups = np.unique(group)
        data.plot(
            [z[group == i].mean() for i in groups],
            [prediction[group == i].mean() for i in groups],
            "o-",
            color="C3",
            label="means of fifths",
        )
        data.set(title=name, xlabel=literal(setting.data.protected), ylabel="prediction")
        for axes, x, values, letter in (
            (left, z, fit.f(part.z), "f"),
            (right, prediction, fit.g(prediction), "g"),
        ):
            order = np.argsort(x)
            axes.plot(x[order], np.asarray(values)[order], color="C0")
            axes.set(title=f"{letter}, HGR-KB {float(fit.correlation):.3f}")
    panels[0, 0].legend(fontsize=7)
    output.figure("usecase", figure)
