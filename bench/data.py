"""Data for the benchmarks: synthetic relations, awkward distributions, and real tables."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
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


Info = np.finfo
Column = NDArray[Any]
Kind = Callable[[Generator, int, Info], Column]


def _signs(rng: Generator, rows: int) -> Column:
    return rng.choice([-1.0, 1.0], rows)


def _outliers(*values: float) -> Kind:
    def draw(rng: Generator, rows: int, _: Info) -> Column:
        x = rng.standard_normal(rows)
        x[: len(values)] = values
        return x

    return draw


KINDS: dict[str, Kind] = {
    "normal": lambda rng, n, _: rng.standard_normal(n),
    "uniform": lambda rng, n, _: rng.random(n),
    "lognormal": lambda rng, n, _: np.exp(rng.standard_normal(n)),
    "lognormal, sigma 3": lambda rng, n, _: np.exp(3 * rng.standard_normal(n)),
    "Cauchy": lambda rng, n, _: rng.standard_cauchy(n),
    "t3": lambda rng, n, _: rng.standard_t(3, n),
    "6 decades": lambda rng, n, _: _signs(rng, n) * 10 ** rng.uniform(0, 3, n),
    "20 decades": lambda rng, n, _: _signs(rng, n) * 10 ** rng.uniform(0, 10, n),
    "40 decades": lambda rng, n, _: 10 ** rng.uniform(-20, 20, n),
    "powers of 2": lambda rng, n, _: rng.permutation(2.0 ** (np.arange(n) % 20)),
    "binary": lambda rng, n, _: 1.0 * (rng.random(n) < 0.4),
    "one row of 1": lambda rng, n, _: 1.0 * (np.arange(n) == 0),
    "three values": lambda rng, n, _: 1.0 * rng.integers(0, 3, n),
    "digits": lambda rng, n, _: 1.0 * rng.integers(0, 10, n),
    "Poisson": lambda rng, n, _: 1.0 * rng.poisson(2, n),
    "zero-inflated": lambda rng, n, _: (rng.random(n) < 0.2) * np.exp(rng.standard_normal(n)),
    "constant": lambda rng, n, _: np.full(n, rng.standard_normal()),
    "1 and its next": lambda rng, n, info: 1 + float(info.eps) * rng.integers(0, 2, n),
    "1e6 and its next 40": lambda rng, n, info: (
        1e6 * (1 + float(info.eps) * rng.integers(0, 40, n))
    ),
    "years": lambda rng, n, _: 1.0 * rng.integers(1900, 2025, n),
    "seconds since 1970": lambda rng, n, _: 1.6e9 + rng.integers(0, 10_000_000, n),
    "smallest normal": lambda rng, n, info: 10 * float(info.tiny) * rng.standard_normal(n),
    "subnormal": lambda rng, n, info: 0.01 * float(info.tiny) * rng.standard_normal(n),
    "largest": lambda rng, n, info: float(info.max) * rng.uniform(-1, 1, n),
    "a fifth of the largest": lambda rng, n, info: float(info.max) / 5 * rng.random(n),
    "outlier at 10^3": _outliers(1e3),
    "outlier at 10^5": _outliers(1e5),
    "outlier at 10^6": _outliers(1e6),
    "outliers at 100, 10^4": _outliers(100.0, 1e4),
    "clusters of width 1e-3": lambda rng, n, _: (
        rng.integers(0, 3, n) + 1e-3 * rng.standard_normal(n)
    ),
    "clusters of width 1e-6": lambda rng, n, _: (
        rng.integers(0, 2, n) + 1e-6 * rng.standard_normal(n)
    ),
}
"""Draw a column of so many rows; the dtype says what is tiny and what is huge."""


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
