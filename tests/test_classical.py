"""Pearson, Spearman, and correlations on the host: of any units, as compiled, as defined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
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


MEASURES: dict[str, Callable[..., Any]] = {
    "pearson": hgr_jax.pearson,
    "spearman": hgr_jax.spearman,
    "distance_correlation": hgr_jax.distance_correlation,
}
COMPILED = {name: jax.jit(measure) for name, measure in MEASURES.items()}


def pair(rows: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows)
    a = rng.normal(size=rows)
    b = a**2 + rng.normal(size=rows)
    if kind == "ties":
        return np.round(2 * a), np.round(b)
    return (a + 1e6, 1e-3 * b) if kind == "shifted" else (a, b)


@pytest.mark.parametrize("kind", ["plain", "ties", "shifted"])
@pytest.mark.parametrize("rows", [4, 257, 1025])
def test_values_on_the_host_are_those_of_compiled_programs(rows: int, kind: str) -> None:
    with jax.enable_x64(True):
        a, b = pair(rows, kind)
        for name, measure in MEASURES.items():
            # Differences of the compiled sums of all pairs leave some 1e-8 of a root near 0.
            assert measure(a, b) == pytest.approx(float(COMPILED[name](a, b)), abs=3e-8), name


@pytest.mark.parametrize("name", MEASURES)
def test_degenerate_data(name: str) -> None:
    measure, a = MEASURES[name], np.linspace(-1, 1, 300, dtype=np.float32)
    assert measure(a, np.full(300, 0.1, np.float32)) == 0
    for bad in (np.nan, np.inf):
        b = a.copy()
        b[7] = bad
        assert np.isnan(measure(a, b))
        assert np.isnan(measure(b, a))
    assert measure(a, a).dtype == np.float32
    assert measure(a, a) == pytest.approx(1)
    with jax.enable_x64(True):
        for scale in (1e-300, 1e300):
            value = measure(a.astype(float) * scale, a.astype(float) ** 3)
            assert value == pytest.approx(float(measure(a.astype(float), a.astype(float) ** 3)))
