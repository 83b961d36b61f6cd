"""Correlations on the host: the values of compiled programs, and of their definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import scipy.stats
from pair_sums_support import dense_dcor

import hgr_jax

MEASURES: dict[str, Callable[..., Any]] = {
    "pearson": hgr_jax.pearson,
    "spearman": hgr_jax.spearman,
    "distance_correlation": hgr_jax.distance_correlation,
    "unbiased": lambda a, b: hgr_jax.distance_correlation(a, b, unbiased=True),
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


@pytest.mark.parametrize("rows", [3, 2000])
def test_values_are_those_of_numpy_and_scipy(rows: int) -> None:
    with jax.enable_x64(True):
        a, b = pair(rows, "ties")
        assert hgr_jax.pearson(a, b) == pytest.approx(np.corrcoef(a, b)[0, 1], abs=1e-12)
        assert hgr_jax.spearman(a, b) == pytest.approx(scipy.stats.spearmanr(a, b).statistic)
        value = hgr_jax.distance_correlation(a, b)
        assert value == pytest.approx(np.sqrt(dense_dcor(a, b)), abs=1e-10)


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


@pytest.mark.parametrize("name", MEASURES)
def test_gradients_and_batches_stay_compiled(name: str) -> None:
    measure, (a, b) = MEASURES[name], pair(64, "plain")
    a, b = a.astype(np.float32), b.astype(np.float32)
    assert np.isfinite(jax.grad(measure)(a, b)).all()
    batch = jax.vmap(measure, (None, 0))(a, np.stack([a, b]))
    assert batch[1] == pytest.approx(float(measure(a, b)), abs=1e-5)
