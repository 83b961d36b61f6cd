"""Pearson, Spearman, and what is measured in the units of the data."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from derivative_support import check_derivatives

import hgr_jax

ROWS = 30


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("levels", [3, 1000])
def test_against_scipy(levels: int, rng: np.random.Generator) -> None:
    for _ in range(5):
        a, b = rng.integers(0, levels, (2, ROWS)).astype(float)
        b += 0.2 * a
        np.testing.assert_allclose(
            hgr_jax.pearson(a, b), scipy.stats.pearsonr(a, b).statistic, atol=1e-13
        )
        np.testing.assert_allclose(
            hgr_jax.spearman(a, b), scipy.stats.spearmanr(a, b).statistic, atol=1e-13
        )


def test_pearson_in_any_unit(rng: np.random.Generator) -> None:
    a = rng.standard_normal(ROWS).astype(np.float32)
    b = (a + rng.standard_normal(ROWS)).astype(np.float32)
    expected = hgr_jax.pearson(a, b)
    for scale in (1e-30, 1e30):
        np.testing.assert_allclose(hgr_jax.pearson(scale * a, b), expected, atol=1e-6)
    widest = np.linspace(-3e38, 3e38, ROWS, dtype=np.float32)
    np.testing.assert_allclose(hgr_jax.pearson(widest, np.arange(ROWS)), 1, atol=1e-6)
    far = np.float32(1e5) + a
    exact = scipy.stats.pearsonr(far.astype(np.float64), b.astype(np.float64)).statistic
    np.testing.assert_allclose(hgr_jax.pearson(far, b), exact, atol=1e-6)


@pytest.mark.usefixtures("x64")
def test_derivatives(rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((2, 8))
    check_derivatives(hgr_jax.pearson, (a, b), 2)


def test_oracle_is_the_absolute_correlation() -> None:
    a = jnp.linspace(-1, 1, ROWS)
    np.testing.assert_allclose(
        hgr_jax.oracle(a, -(a**2), f=jnp.square, g=jnp.negative), 1, atol=1e-6
    )
