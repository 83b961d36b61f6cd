"""Data for the benchmarks: synthetic relations, awkward distributions, and real tables."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

RELATIONS = {"circle": 1.0, "x^2": 0.5, "sin": 0.5}
"""Relations of the speed comparison, with the standard deviation of their Gaussian noise."""

DISTRIBUTIONS = (
    "uniform",
    "normal",
    "lognormal",
    "student_t2",
    "discrete",
    "offset",
    "scaled_up",
    "scaled_down",
)


def relation(name: str, rows: int, seed: int = 0) -> tuple[Vector, Vector]:
    """``a`` evenly spaced over [-1, 1], and ``b`` a noisy relation of it."""
    rng = np.random.default_rng(seed)
    a = np.linspace(-1, 1, rows)
    clean = {
        "circle": np.sqrt(1 - a**2) * rng.choice([-1, 1], rows),
        "x^2": a**2,
        "sin": np.sin(np.pi * a),
    }[name]
    return a, clean + RELATIONS[name] * rng.standard_normal(rows)


def awkward_pair(name: str, rows: int, seed: int = 0) -> tuple[Vector, Vector]:
    """A dependent pair from one of `DISTRIBUTIONS`."""
    rng = np.random.default_rng(seed)
    x, noise = rng.standard_normal((2, rows))
    y = 0.6 * x + 0.8 * noise
    match name:
        case "uniform":
            a = rng.uniform(-1, 1, rows)
            return a, a**2 + 0.3 * noise
        case "normal":
            return x, y
        case "lognormal":
            return np.exp(2 * x), np.exp(2 * y)
        case "student_t2":
            a, t = rng.standard_t(2, (2, rows))
            return a, 0.5 * a + t
        case "discrete":
            level = rng.integers(0, 4, rows)
            return level.astype(float), ((level + rng.integers(0, 3, rows)) % 4).astype(float)
        case "offset":
            return x + 1e4, y + 1e4
        case "scaled_up":
            return 1e6 * x, 1e6 * y
        case "scaled_down":
            return 1e-6 * x, 1e-6 * y
    raise ValueError(f"unknown distribution {name!r}")


def data_folder() -> Path | None:
    """The folder of the real tables, or None where there is none.

    It is named by the environment variable ``HGR_JAX_DATA``, or lies at ``../shared/data``.
    """
    folder = Path(os.environ.get("HGR_JAX_DATA", "../shared/data"))
    return folder if folder.is_dir() else None


def communities() -> tuple[list[str], Vector] | None:
    """Names and columns of the communities table, or None where it is unavailable."""
    folder = data_folder()
    path = folder / "communities.csv" if folder else None
    if path is None or not path.is_file():
        return None
    with path.open() as file:
        names = [name.strip() for name in file.readline().split(",")]
    return names, np.loadtxt(path, delimiter=",", skiprows=1)
