"""Distributions whose maximal correlation is known, for the measures that estimate it.

What is known is HGR over all functions.  A measure over fewer functions converges to at most
that, and to that itself where the optimal functions are among its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hgr_jax
from bench.laws import laws
from hgr_jax.kernels import Indicators

ROWS = 10_000
KEY = jax.random.key(11)

ESTIMATORS: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "kb": functools.partial(hgr_jax.kb, h=5, k=5),
    "ace": hgr_jax.ace,
    "rdc": functools.partial(hgr_jax.rdc, key=KEY),
    "kde": hgr_jax.kde,
    "kernel_cca": functools.partial(hgr_jax.kernel_cca, regularization=1e-4),
    "neural": functools.partial(hgr_jax.neural, key=KEY, steps=300, learning_rate=3e-3),
}

every_estimator = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "neural")) for n in ESTIMATORS]
)

KNOWN = [
    law
    for law in laws()
    if law.name in ("normal .6", "normal .3", "binomial sums", "places 2 and 3 of 4", "disc")
]

SMOOTHED = {"kde": 0.06, "kernel_cca": 0.02, "rdc": 0.03, "ace": 0.015, "neural": 0.03}
"""How far below HGR smoothing, ridge, ranks or training may leave a measure."""


@every_estimator
def test_known_maximal_correlations(name: str) -> None:
    """To sampling error (4 / sqrt(n)) and what the measure's own smoothing takes away."""
    for law in KNOWN:
        sample = law.sample(np.random.default_rng(5), ROWS)
        value = float(ESTIMATORS[name](*(jnp.asarray(x, jnp.float32) for x in sample)))
        below = 4 / np.sqrt(ROWS) + SMOOTHED.get(name, 0) * max(1.0, 2 * law.hgr)
        assert law.hgr - below < value < law.hgr + 4 / np.sqrt(ROWS)


@pytest.mark.usefixtures("x64")
def test_a_table_of_two_categories_is_correspondence_analysis() -> None:
    """Polynomials of degree m - 1 take any values on m categories; group means are E[g | a]."""
    counts = np.array([[30, 5, 10, 1], [4, 40, 6, 10], [12, 3, 25, 8]])
    p = counts / counts.sum()
    rows, columns = p.sum(axis=1), p.sum(axis=0)
    residuals = (p - np.outer(rows, columns)) / np.sqrt(np.outer(rows, columns))
    left, values, _ = np.linalg.svd(residuals)
    cells = np.repeat(np.arange(12), counts.ravel())
    a, b = (cells // 4).astype(float), (cells % 4).astype(float)
    np.testing.assert_allclose(hgr_jax.kb(a, b, h=2, k=3), values[0], atol=1e-12)
    np.testing.assert_allclose(hgr_jax.kb(a, b, h=5, k=5), values[0], atol=1e-9)
    modes = hgr_jax.spectrum(a, b, Indicators(3), Indicators(4))
    np.testing.assert_allclose(modes, values, atol=1e-9)
    assert hgr_jax.sk(a, b, d=3) <= values[0]
    fit = hgr_jax.ace_fit(2 * a - 5, b, span=0, tolerance=1e-12)
    np.testing.assert_allclose(fit.correlation, values[0], atol=1e-6)
    f = fit.f(2.0 * np.arange(3) - 5)
    np.testing.assert_allclose(np.abs(f), np.abs(left[:, 0] / np.sqrt(rows)), atol=1e-4)
