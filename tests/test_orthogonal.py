"""Columns whose bases are hard to make orthonormal, against the reference.

Distributions of all kinds are those of `bench.accuracy`, which `test_bench` runs.
"""

from __future__ import annotations

import numpy as np
import pytest

import hgr_jax
from bench import reference


def rare_value() -> np.ndarray:
    """Three values; the middle one in 5 of 100,000 rows, at neither a stride nor an extreme."""
    x = np.zeros(100_000)
    x[50_000:] = 2
    x[[10_001, 30_007, 50_011, 70_013, 90_017]] = 1
    return x


def sorted_with_an_outlier() -> np.ndarray:
    x = np.sort(np.random.default_rng(0).standard_normal(50_000))
    x[-1] = 1e4
    return x


def far_outliers() -> np.ndarray:
    """The recurrence alone leaves functions that nearly depend on each other."""
    return np.exp(3 * np.random.default_rng(0).standard_normal(12))


COLUMNS = {
    "rare value": (rare_value(), 4, 2),
    "sorted, with an outlier": (sorted_with_an_outlier(), 5, 5),
    "far outliers": (far_outliers(), 8, 8),
    "constant": (np.full(30, 0.1), 5, 0),
    "large constant": (np.full(30, 1e30), 5, 0),
    "two values": (np.arange(30) % 2, 5, 1),
    "four values": (np.arange(30) % 4, 5, 3),
    "two rows": (np.array([1.0, 2.0]), 5, 1),
    "one row": (np.array([5.0]), 5, 0),
    "small": (np.arange(30) * 1e-30, 5, 5),
    "large": (np.arange(30) * 1e30, 5, 5),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_directions_and_values_in_float32(name: str, rng: np.random.Generator) -> None:
    x, degree, directions = COLUMNS[name]
    a = x.astype(np.float32)
    b = (np.arange(len(a)) % 7 + rng.standard_normal(len(a))).astype(np.float32)
    fit = hgr_jax.kb_fit(a, b, degree, 2)
    assert fit.degrees.tolist()[0] == directions
    expected = reference.kb(a, b, degree, 2) if directions else 0
    np.testing.assert_allclose(fit.correlation, expected, atol=1e-4)
    assert np.isfinite(fit.f(a)).all()
    if directions and name != "far outliers":  # where these hang on rounding
        np.testing.assert_allclose([np.mean(fit.f(a)), np.std(fit.f(a))], [0, 1], atol=1e-3)


@pytest.mark.parametrize(("rows", "kept"), [(100, 30), (5000, 1500), (30_000, 4)])
def test_weights(rows: int, kept: int, rng: np.random.Generator) -> None:
    """Of a handful of rows there are no more directions than of these rows alone."""
    a, b = rng.standard_normal((2, rows)).astype(np.float32)
    weights = np.zeros(rows, np.float32)
    weights[rng.choice(rows, kept, replace=False)] = rng.uniform(0.2, 1, kept)
    fit = hgr_jax.kb_fit(a, b, 5, 1, weights=weights)
    assert fit.degrees.tolist() == [min(5, kept - 1), 1]
    expected = reference.kb(a, b, 5, 1, weights)
    np.testing.assert_allclose(fit.correlation, expected, atol=1e-4)
