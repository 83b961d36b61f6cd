"""Where an experiment puts what it made: figures, tables, and a line on what they show."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

STYLES = {
    "ORACLE": ("black", "-"),
    "HGR-KB": ("C0", "-"),
    "HGR-SK": ("C1", "--"),
    "HGR-NN": ("C2", "-."),
    "HGR-KDE": ("C3", ":"),
    "RDC": ("C4", (0, (3, 1, 1, 1))),
}


class ExperimentError(Exception):
    """An experiment cannot run, or did not show what it claims."""


@dataclasses.dataclass(frozen=True)
class Output:
    """A folder of results."""

    folder: Path

    def figure(self, name: str, figure: Figure) -> None:
        """Write ``NAME.png``."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # No version in the file, so that the same picture is the same bytes.
        figure.savefig(self.folder / f"{name}.png", dpi=90, metadata={"Software": None})

    def table(self, name: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Write ``NAME.csv``."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            writer.writerows([_shown(cell) for cell in row] for row in rows)

    def line(self, name: str, text: str) -> None:
        """Write ``NAME.txt``: what the figure shows."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{name}.txt").write_text(text + "\n", encoding="utf-8")


def _shown(cell: object) -> object:
    return f"{cell:.6g}" if isinstance(cell, float | np.floating) else cell


def new_figure(width: float, height: float) -> Figure:
    """A figure that lays itself out."""
    return Figure(figsize=(width, height), layout="constrained")
