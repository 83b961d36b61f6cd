"""Pearson, Spearman, and what is measured in the units of the data."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import maxcorr
import numpy as np
import pytest
import scipy.stats
from derivative_support import check_derivatives
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

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


values = st.floats(-1e6, 1e6, width=32)


@settings(max_examples=50, deadline=None)
@given(a=arrays(np.float32, ROWS, elements=values), b=arrays(np.float32, ROWS, elements=values))
def test_pearson_properties(a: np.ndarray, b: np.ndarray) -> None:
    value = float(hgr_jax.pearson(a, b))
    assert -1 <= value <= 1
    assert value == pytest.approx(float(hgr_jax.pearson(b, a)), abs=1e-6)
    assert value == pytest.approx(-float(hgr_jax.pearson(-a, b)), abs=1e-6)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        assert value == 0
    if np.ptp(a) > 0:
        assert float(hgr_jax.pearson(a, a)) == pytest.approx(1, abs=1e-6)


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

    def rescaled(a: jax.Array, b: jax.Array) -> tuple[jax.Array, ...]:
        return hgr_jax.gedi(a, b, h=2, k=2), hgr_jax.nlc(a, b, h=2, k=2)

    check_derivatives(rescaled, (a, b))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("semantics", ["gedi", "nlc"])
def test_semantics_are_those_of_maxcorr(semantics: str, rng: np.random.Generator) -> None:
    a = 3 * rng.standard_normal(200)
    b = a**2 + rng.standard_normal(200)
    peer = maxcorr.indicator(semantics, "sk", kernel=3)
    measure = getattr(hgr_jax, semantics)
    np.testing.assert_allclose(
        measure(a, b, measure=hgr_jax.sk, d=3), float(peer.compute(a, b)), rtol=1e-6
    )
    assert measure(a, b, h=2, k=2) >= measure(a, b, h=1, k=2) > 0


def test_rescaled_in_the_units_of_the_data() -> None:
    a = jnp.linspace(-1, 1, ROWS)
    kb = functools.partial(hgr_jax.kb, h=2, k=1)
    for factor in (0.1, 100.0):
        b = factor * a**2
        gedi, nlc = hgr_jax.gedi(a, b, h=2, k=1), hgr_jax.nlc(a, b, measure=kb)
        np.testing.assert_allclose(gedi, kb(a, b) * b.std() / a.std(), rtol=1e-5)
        np.testing.assert_allclose(nlc, kb(a, b) * b.std() * a.std(), rtol=1e-5)
    assert hgr_jax.nlc(a, a, measure=lambda a, b: 0.5) > 0


@pytest.mark.parametrize("measure", [hgr_jax.gedi, hgr_jax.nlc])
def test_weights_are_of_the_standard_deviations_too(
    measure: Callable[..., jax.Array], rng: np.random.Generator
) -> None:
    a, noise = rng.standard_normal((2, 60)).astype(np.float32)
    b = a**2 + noise / 3
    keep = np.arange(60) % 3 > 0
    expected = measure(a[keep], b[keep], h=2, k=1)
    assert abs(expected - measure(a, b, h=2, k=1)) > 1e-3
    a[~keep], b[~keep] = np.nan, 1e9
    value, gradient = jax.value_and_grad(measure)(a, b, h=2, k=1, weights=keep)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert np.isfinite(gradient).all()
    assert not gradient[~keep].any()
    with jax.enable_x64(True):
        x, y = rng.standard_normal((2, 9))
        counts = rng.integers(1, 4, 9)
        repeated = measure(np.repeat(x, counts), np.repeat(y, counts), h=1, k=1)
        np.testing.assert_allclose(measure(x, y, h=1, k=1, weights=counts), repeated, rtol=1e-10)


def test_gedi_in_extreme_units() -> None:
    a = jnp.linspace(-1, 1, ROWS)
    b = jnp.sin(3 * a)
    expected = jax.grad(hgr_jax.gedi)(a, b, h=2, k=1)
    for unit in (1e-30, 1e30):
        gradient = jax.grad(hgr_jax.gedi)(unit * a, unit * b, h=2, k=1)
        np.testing.assert_allclose(unit * gradient, expected, rtol=1e-3, atol=1e-5)


def test_oracle_is_the_absolute_correlation() -> None:
    a = jnp.linspace(-1, 1, ROWS)
    np.testing.assert_allclose(
        hgr_jax.oracle(a, -(a**2), f=jnp.square, g=jnp.negative), 1, atol=1e-6
    )


def test_gradient_of_a_perfect_correlation_is_zero() -> None:
    a = jnp.linspace(-1, 1, ROWS)
    np.testing.assert_allclose(jax.grad(hgr_jax.pearson)(a, 2 * a), 0, atol=1e-7)
