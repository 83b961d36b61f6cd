"""Where an experiment puts what it made: figures, tables, and finished parts of long ones."""

from __future__ import annotations

import csv
import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

import hgr_jax
from hgr_jax._files import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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

    def cached(self, key: str) -> NDArray[np.float64] | None:
        """A finished part, or None; one that cannot be read counts as not there."""
        path = self._part(key)
        try:
            return np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None

    def keep(self, key: str, values: NDArray[np.float64]) -> None:
        """Keep a finished part; whole or not at all, even if interrupted."""
        with atomic_write(self._part(key)) as partial, partial.open("wb") as file:
            np.save(file, values, allow_pickle=False)

    def part(self, key: str, make: Callable[[], ArrayLike]) -> NDArray[np.float64]:
        """A finished part, which is made and kept if it is not there."""
        values = self.cached(key)
        if values is None:
            values = np.asarray(make(), np.float64)
            self.keep(key, values)
        return values

    def _part(self, key: str) -> Path:
        return self.folder / "cache" / f"{key}.npy"


def _shown(cell: object) -> object:
    return f"{cell:.6g}" if isinstance(cell, float | np.floating) else cell


def new_figure(width: float, height: float) -> Figure:
    """A figure that lays itself out."""
    return Figure(figsize=(width, height), layout="constrained")


def band(axes: Axes, x: NDArray[np.float64], values: NDArray[np.float64], name: str) -> None:
    """Mean over the last axis, with a bar of one standard deviation either way."""
    color, line = STYLES[name]
    axes.errorbar(
        x,
        values.mean(axis=-1),
        yerr=values.std(axis=-1),
        color=color,
        linestyle=line,
        linewidth=1.6,
        capsize=2,
        elinewidth=0.8,
        label=name,
    )


@functools.cache
def sources(*modules: str) -> str:
    """A digest of the package and of modules of this folder: change one, and values are anew."""
    files = [*Path(hgr_jax.__file__).parent.rglob("*.py")]
    files += [Path(__file__).with_name(f"{module}.py") for module in modules]
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def part_name(*parts: object) -> str:
    """The name of a finished part, fit for a file."""
    text = "-".join(map(str, parts)).lower()
    return "".join(c if c.isalnum() or c in "-." else "" for c in text.replace(" ", "-"))
