"""The bootstrap, against a loop of weighted values; adjusted p-values, by their definitions."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hgr_jax.fairness
from bench.data import awkward_pair
from hgr_jax.inference.intervals import METHODS, adjust, corrected
from hgr_jax.inference.resampling import bootstrap, draws

ROWS = 61
KEY = jax.random.key(3)


@pytest.mark.usefixtures("x64")
def test_the_bootstrap_weighs_rows_and_corrects_percentiles(rng: np.random.Generator) -> None:
    a, b = awkward_pair("discrete", ROWS)
    b = np.where(b > 1, b, 1.0) + rng.integers(0, 2, ROWS)
    (counts,) = draws(KEY, ROWS, 40, 40)
    a = np.minimum(a, 2)  # three values: two directions
    assert len(np.unique(a)) == 3 <= len(np.unique(b))
    parameters = 2 + 2 - 1
    values = []
    for column in counts.T:
        value = hgr_jax.kb(a, b, 3, 2, weights=column.astype(float), solver="svd")
        once = corrected(value, ROWS, parameters)
        values.append(float(corrected(once, ROWS, parameters)))
    found = bootstrap(a, b, 3, 2, key=KEY, resamples=40, level=0.8)
    value = hgr_jax.kb(a, b, 3, 2, weights=np.ones(ROWS), solver="svd")
    center = float(corrected(value, ROWS, parameters))
    np.testing.assert_allclose([found.value, found.corrected], [value, center], rtol=1e-10)
    assert found.level == 0.8
    from scipy.stats import norm

    z = norm.ppf(np.mean(np.array(values) < center))
    ends = norm.cdf(2 * z + np.array([-1, 1]) * norm.ppf(0.9))
    np.testing.assert_allclose([found.low, found.high], np.quantile(values, ends), rtol=1e-7)


def test_intervals_cover(rng: np.random.Generator) -> None:
    covered = {0.0: 0, 0.6: 0}
    for rho in covered:
        for seed in range(100):
            a, noise = rng.normal(size=(2, 200))
            b = rho * a + (1 - rho**2) ** 0.5 * noise
            a, b = a.astype(np.float32), b.astype(np.float32)
            found = bootstrap(a, b, 2, 2, key=jax.random.key(seed), resamples=200)
            assert 0 <= found.low <= found.high <= 1
            assert found.low <= found.corrected <= found.value
            covered[rho] += found.low <= rho <= found.high
    assert covered[0.0] >= 93
    assert 88 <= covered[0.6] <= 100


def test_degenerate_intervals(rng: np.random.Generator) -> None:
    options = {"key": KEY, "resamples": 200}
    a = rng.normal(size=200).astype(np.float32)
    constant = bootstrap(a, np.ones_like(a), 2, 2, **options)
    assert (constant.low, constant.high, constant.value) == (0, 0, 0)
    perfect = bootstrap(a, -a, 2, 2, **options)
    np.testing.assert_allclose([perfect.low, perfect.high, perfect.corrected], 1, rtol=1e-5)
    a[2] = np.nan
    missing = bootstrap(a, np.arange(200.0), 2, 2, **options)
    assert np.isnan([missing.low, missing.high, missing.value, missing.corrected]).all()
    few = bootstrap(a[5:9], a[9:13], 2, 2, **options)
    assert (few.low, few.high, few.corrected) == (0, 1, 0)


def test_one_formula_corrects_here_and_in_fairness() -> None:
    assert hgr_jax.fairness.corrected is corrected
    values = jnp.array([0.0, 0.1, 0.5, 1.0])
    np.testing.assert_allclose(corrected(values, 100, 9)[2], (1 - 0.75 * 99 / 90) ** 0.5, rtol=1e-6)
    assert corrected(values[3], 10, 9) == 0


FAMILIES = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
    # products of subnormal numbers are rounded by their order, not to 1e-14
    elements=st.floats(0, 1, allow_subnormal=False)
    | st.sampled_from([0.0, 1e-300, 0.05, 1.0, float("nan")]),
)


def by_definition(p: list[float], method: str) -> list[float]:
    order = sorted(range(len(p)), key=lambda i: p[i])
    m = len(p)
    result = [0.0] * m
    for place, i in enumerate(order):
        if method == "bonferroni":
            value = p[i] * m
        elif method == "holm":
            value = max(p[order[j]] * (m - j) for j in range(place + 1))
        else:
            factor = sum(1 / (j + 1) for j in range(m)) if method == "by" else 1
            value = min(p[order[j]] * m * factor / (j + 1) for j in range(place, m))
        result[i] = min(value, 1.0)
    return result


@pytest.mark.parametrize("method", METHODS)
@given(p=FAMILIES)
def test_every_family_is_adjusted_as_defined(method: str, p: np.ndarray) -> None:
    found = adjust(p, method)
    assert found.shape == p.shape
    assert found.dtype == np.float64
    tested = ~np.isnan(p)
    np.testing.assert_array_equal(np.isnan(found), ~tested)
    expected = by_definition(p[tested].tolist(), method)
    np.testing.assert_allclose(found[tested], expected, rtol=1e-14)
    assert (found[tested] >= p[tested]).all()
    assert (found[tested] <= 1).all()
    order = np.argsort(p[tested])
    assert (np.diff(found[tested][order]) >= 0).all()
