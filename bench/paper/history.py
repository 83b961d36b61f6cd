"""What a constrained training goes through: score, HGR-SK, DIDI and multiplier, step by step."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

import hgr_jax
from bench.paper import enforcement
from bench.paper.enforcement import Setting
from bench.paper.folds import over_folds
from bench.paper.output import Output, band, new_figure
from hgr_jax.fairness.data import TrainingData

PENALISERS = ("none", "HGR-KB", "HGR-SK", "HGR-NN", "HGR-KDE")
COLUMNS = (
    "step",
    *(f"{kind} {part}" for kind in ("score", "HGR-SK", "DIDI") for part in ("train", "validation")),
    "multiplier",
)


def run(
    output: Output,
    *,
    quick: bool,
    chosen: Sequence[str] | None = None,
    penalisers: Sequence[str] | None = None,
    folds: int | None = None,
    steps: int | None = None,
    every: int | None = None,
) -> str:
    """Trainings of every penaliser on every table, looked at every 10 steps (``every``)."""
    tasks = enforcement.settings(chosen, quick=quick)
    names = tuple(penalisers or (("none", "HGR-KB", "HGR-KDE") if quick else PENALISERS))
    folds = min(folds or (1 if quick else 3), enforcement.FOLDS)
    steps, every = steps or (6 if quick else 600), every or (2 if quick else 10)
    trainings = {
        (table, name): functools.partial(curve, setting, name, steps=steps, every=every)
        for table, setting in tasks.items()
        for name in names
    }
    found = over_folds(output, "history", trainings, folds, steps, every)
    output.table(
        "history",
        ("table", "penaliser", "fold", *COLUMNS),
        [
            (tasks[table].data.name, name, fold, *row)
            for (table, name), each in found.items()
            for fold, rows in enumerate(each)
            for row in rows
        ],
    )
    for table, setting in tasks.items():
        _draw(output, table, setting, {name: found[table, name] for name in names})
    return _line(tasks, found)


def curve(setting: Setting, name: str, index: int, steps: int, every: int) -> NDArray[np.float64]:
    """Train on one fold; `COLUMNS` every so many steps ``(times, 8)``."""
    parts = setting.fold(index)
    rows: list[list[float]] = []

    trainer = setting.trainer(enforcement.penaliser(name, setting.threshold))
    for step in [*range(every, steps, every), steps]:
        trainer.train(TrainingData.of(*parts[0]), steps=step, evaluate_every=every)
        predictions = [np.asarray(trainer.predict(part.x)) for part in parts]
        pairs = list(zip(predictions, parts, strict=True))
        rows.append(
            [
                step,
                *(setting.score(p, part) for p, part in pairs),
                *(float(hgr_jax.sk(jnp.asarray(part.z), p, d=5)) for p, part in pairs),
                *(setting.didi(p, part) for p, part in pairs),
                trainer.history.steps.get("multiplier_z", np.zeros(1))[-1],
            ]
        )
    return np.array(rows)


def _draw(
    output: Output, table: str, setting: Setting, found: Mapping[str, NDArray[np.float64]]
) -> None:
    figure = new_figure(15, 7)
    panels = figure.subplots(2, 4, sharex=True)
    for name, each in found.items():
        step = each[0, :, 0]
        for row, part in enumerate(("train", "validation")):
            for axes, kind in zip(panels[row], ("score", "HGR-SK", "DIDI"), strict=False):
                band(axes, step, each[:, :, COLUMNS.index(f"{kind} {part}")].T, name)
                title = setting.score_name if kind == "score" else kind
                axes.set_title(f"{title}, {part}")
        if name != "none":
            band(panels[0, 3], step, each[:, :, -1].T, name)
    for row in panels:
        row[0].set(ylim=(0, 1))
        row[1].axhline(setting.threshold, color="grey", linewidth=0.8)
    panels[0, 3].set_title("multiplier")
    panels[1, 3].axis("off")
    panels[1, 3].legend(*panels[0, 0].get_legend_handles_labels(), loc="center", frameon=False)
    figure.suptitle(f"{setting.data.name}, threshold {setting.threshold:g}")
    output.figure("history" if table == "communities" else f"history_{table}", figure)


def _line(tasks: dict[str, Setting], found: Mapping[tuple[str, str], NDArray[np.float64]]) -> str:
    place = COLUMNS.index("HGR-SK train")
    told = []
    for table, setting in tasks.items():
        each = [
            f"{name} {values[:, -1, place].mean():.3f} ({values[:, -1, place + 1].mean():.3f})"
            for (of, name), values in found.items()
            if of == table
        ]
        told.append(f"{setting.data.name}, threshold {setting.threshold:g}: {', '.join(each)}")
    return "HGR-SK at the end, on training (validation) rows: " + "; ".join(told) + "."
