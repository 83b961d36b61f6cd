"""The picture of a choice of degrees (matplotlib, the extra ``plot``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hgr_jax._optional import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hgr_jax.inference.degrees import DegreeSelection

WRITTEN_UP_TO = 12
"""Largest number of rows or columns of a table whose entries are written into their cells."""


def plot_degrees(selection: DegreeSelection) -> Figure:
    """Heat maps of in-sample values and held-out scores, with a frame around the choice.

    Raises:
      ImportError: without matplotlib, naming the command that installs it.
    """
    rows, columns = selection.scores.shape
    figure = require("matplotlib.figure", "plot").Figure(
        figsize=(2 * max(3.5, 0.55 * columns + 1.5), max(3.2, 0.5 * rows + 1.2)),
        layout="constrained",
    )
    tables = (
        ("HGR-KB on all rows", selection.values),
        ("on held-out rows", selection.scores),
    )
    lowest = min(0.0, *(float(np.min(table)) for _, table in tables))
    for axes, (title, table) in zip(figure.subplots(1, 2), tables, strict=True):
        image = axes.imshow(table, vmin=lowest, vmax=1, origin="lower", cmap="viridis")
        axes.set(title=title, xlabel="degree k of b", ylabel="degree h of a")
        axes.set_xticks(np.arange(columns), np.arange(1, columns + 1))
        axes.set_yticks(np.arange(rows), np.arange(1, rows + 1))
        if max(rows, columns) <= WRITTEN_UP_TO:
            for (i, j), value in np.ndenumerate(table):
                dark = value < (lowest + 1) / 2
                axes.text(
                    j,
                    i,
                    f"{value:.2f}",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="white" if dark else "black",
                )
        frame = require("matplotlib.patches", "plot").Rectangle(
            (selection.k - 1.5, selection.h - 1.5), 1, 1, fill=False, edgecolor="red", linewidth=2
        )
        axes.add_patch(frame)
    figure.colorbar(image, ax=figure.axes, shrink=0.8)
    return figure
