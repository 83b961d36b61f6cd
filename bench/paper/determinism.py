"""The same data, thirty algorithm seeds: how much an estimate hangs on chance."""

from __future__ import annotations

import dataclasses

import numpy as np

from bench.paper.grid import NOISES, Grid
from bench.paper.output import STYLES, Output, new_figure

MEASURES = ("HGR-KB", "HGR-NN", "RDC")


def run(output: Output, *, quick: bool) -> str:
    """KB, NN and RDC on ``sin(x²)`` at all noise levels; one line for each seed."""
    grid = Grid(("square_sin",), MEASURES, NOISES, data_seeds=1, algorithm_seeds=30)
    if quick:
        grid = dataclasses.replace(
            grid, noises=(0.0, 1.0, 3.0), algorithm_seeds=3, size=201, neural_steps=20
        )
    values = {name: v[:, 0, :] for (_, name), v in grid.run().items()}
    output.table(
        "determinism",
        ("measure", "noise", "algorithm seed", "value"),
        [
            (name, noise, seed, value)
            for name, of_noise in values.items()
            for noise, row in zip(grid.noises, of_noise, strict=True)
            for seed, value in enumerate(row)
        ],
    )
    figure = new_figure(12, 3.6)
    for name, axes in zip(MEASURES, figure.subplots(1, 3, sharey=True), strict=True):
        axes.plot(grid.noises, values[name], color=STYLES[name][0], linewidth=0.7, alpha=0.5)
        axes.plot(grid.noises, values[name].mean(axis=1), color="black", linewidth=1.8)
        axes.set(title=name, xlabel="noise level", ylim=(-0.05, 1.05))
    output.figure("determinism", figure)
    spread = {name: float(np.ptp(v, axis=1).max()) for name, v in values.items()}
    return (
        "Largest difference between two seeds: "
        + ", ".join(f"{name} {value:.3g}" for name, value in spread.items())
        + "."
    )
