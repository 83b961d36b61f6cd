"""Batch sizes by network sizes, without a constraint: curves of loss, score and time."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from flax import nnx
from numpy.typing import NDArray

from bench.paper import enforcement
from bench.paper.enforcement import Setting
from bench.paper.folds import over_folds
from bench.paper.output import Output, new_figure
from hgr_jax.fairness import MLP, FairTrainer
from hgr_jax.fairness.data import TrainingData

HIDDEN = ((32,), (256,), (32, 32), (256, 256), (32, 32, 32), (256, 256, 256))
BATCHES = (1, 5, 20)
COLUMNS = (
    "step",
    "seconds",
    "loss_train",
    "loss_validation",
    "score_train",
    "score_validation",
)


def run(
    output: Output,
    *,
    quick: bool,
    chosen: Sequence[str] | None = None,
    batches: Sequence[int] | None = None,
    hidden: Sequence[tuple[int, ...]] | None = None,
    folds: int | None = None,
    steps: int | None = None,
    every: int | None = None,
) -> str:
    """Networks of one to three layers, and epochs of 1, 5 and 20 batches, on every table."""
    tasks = enforcement.settings(chosen, quick=quick)
    hidden = tuple(hidden or (((8,),) if quick else HIDDEN))
    batches = tuple(batches or ((1, 5) if quick else BATCHES))
    folds = min(folds or (1 if quick else 3), enforcement.FOLDS)
    steps, every = steps or (10 if quick else 1000), every or (5 if quick else 25)
    trainings = {
        (name, count, widths): functools.partial(
            curve, setting, batches=count, hidden=widths, steps=steps, every=every
        )
        for name, setting in tasks.items()
        for widths in hidden
        for count in batches
    }
    curves = over_folds(output, "calibration", trainings, folds, steps, every)
    output.table(
        "calibration",
        ("table", "batches", "hidden", "fold", *COLUMNS),
        [
            (tasks[name].data.name, count, "-".join(map(str, widths)), fold, *row)
            for (name, count, widths), found in curves.items()
            for fold, rows in enumerate(found)
            for row in rows
        ],
    )
    for name, setting in tasks.items():
        _draw(output, name, setting, {k[1:]: v for k, v in curves.items() if k[0] == name}, hidden)
    return _line(tasks, curves)


def curve(
    setting: Setting, index: int, batches: int, hidden: tuple[int, ...], steps: int, every: int
) -> NDArray[np.float64]:
    """Train on one fold; `COLUMNS` every so many steps ``(times, 6)``.

    Seconds are those of the steps and the evaluations so far, after a first training that compiles.
    """
    train, held = setting.fold(index)
    size = None if batches == 1 else max(2, -(-len(train.x) // batches))
    rows: list[list[float]] = []
    data = TrainingData.of(train.x, train.y)
    for attempt in range(2):
        network = MLP(train.x.shape[1], hidden, rngs=nnx.Rngs(0))
        trainer = FairTrainer(network, task=setting.task, batch_size=size)
        rows.clear()
        seconds = 0.0
        last = steps if attempt else min(steps, every)
        for end in [*range(every, last, every), last]:
            start = time.perf_counter()
            trainer.train(data, steps=end, evaluate_every=every)
            seconds += time.perf_counter() - start
            output = trainer.network(jnp.asarray(held.x, jnp.float32))[:, 0]
            losses = trainer.history.last["loss_train"], float(trainer.task.loss(output, held.y))
            scores = [setting.score(np.asarray(trainer.predict(p.x)), p) for p in (train, held)]
            rows.append([end, seconds, *losses, *scores])
    return np.array(rows)


def _draw(
    output: Output,
    name: str,
    setting: Setting,
    curves: dict[tuple[int, tuple[int, ...]], NDArray[np.float64]],
    hidden: Sequence[tuple[int, ...]],
) -> None:
    figure = new_figure(3 * len(hidden), 8)
    panels = figure.subplots(3, len(hidden), squeeze=False, sharex=True, sharey="row")
    for (count, widths), found in curves.items():
        column = list(hidden).index(widths)
        color = f"C{sorted({c for c, _ in curves}).index(count)}"
        mean = found.mean(axis=0)
        for row, kind in enumerate(("loss", "score", "seconds")):
            axes = panels[row, column]
            if kind == "seconds":
                axes.plot(mean[:, 0], mean[:, 1], color=color, label=f"{count} batches")
                continue
            for part, line in (("train", "-"), ("validation", ":")):
                values = mean[:, COLUMNS.index(f"{kind}_{part}")]
                label = f"{count} batches, {part}"
                axes.plot(mean[:, 0], values, line, color=color, label=label)
    panels[1, 0].set(ylim=(0, 1))
    for axes, text in zip(panels[:, 0], ("loss", setting.score_name, "seconds"), strict=True):
        axes.set_ylabel(text)
    for axes, widths in zip(panels[0], hidden, strict=True):
        axes.set_title("-".join(map(str, widths)))
    panels[0, 0].legend(fontsize=6)
    figure.suptitle(setting.data.name)
    output.figure("calibration" if name == "communities" else f"calibration_{name}", figure)


def _line(
    tasks: dict[str, Setting],
    curves: dict[tuple[str, int, tuple[int, ...]], NDArray[np.float64]],
) -> str:
    told = []
    score = COLUMNS.index("score_validation")
    for name, setting in tasks.items():
        best = max(
            (float(found.mean(axis=0)[place, score]), k, place, float(found[:, place, 1].mean()))
            for k, found in curves.items()
            if k[0] == name
            for place in range(found.shape[1])
        )
        value, (_, count, widths), place, seconds = best
        step = int(curves[name, count, widths][0, place, 0])
        told.append(
            f"{setting.data.name}: {setting.score_name} {value:.3f} with {count} batches an epoch,"
            f" {'-'.join(map(str, widths))}, after {step} steps and {seconds:.1f} s"
        )
    return "Highest mean score on validation rows: " + "; ".join(told) + "."
