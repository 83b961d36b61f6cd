"""Three variables, of which one explains a part of the others, and their powers."""

from __future__ import annotations

import numpy as np

from bench import reference

ROWS = 60

Data = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def some_data(rows: int = ROWS, seed: int = 0) -> Data:
    """Return a, b, c and weights."""
    rng = np.random.default_rng(seed)
    c, first, second = rng.standard_normal((3, rows))
    a = c + first
    return a, c**2 + 0.4 * a + second, c, rng.uniform(0.2, 1, rows)


def monomials(x: np.ndarray, degree: int) -> np.ndarray:
    x = np.asarray(x, np.float64)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    if x.ndim == 2:
        return np.asarray(reference.total_degree_features(x, degree), np.float64)
    return x[:, None] ** np.arange(1, degree + 1)
