"""HGR of two variables given others, with laws whose value is known."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import hgr_jax

RNG = np.random.default_rng


def sample(
    rng: np.random.Generator, rows: int, dim: int, correlation: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Curves of z and jointly normal noises: given z, HGR is their correlation."""
    z = rng.normal(size=(rows, dim))
    e, f = rng.normal(size=(2, rows))
    f = correlation * e + np.sqrt(1 - correlation**2) * f
    return z.sum(axis=1) / np.sqrt(dim) + e, z[:, 0] ** 2 + f, z


@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_is_the_correlation_of_normal_noises(correlation: float, dim: int) -> None:
    rng, covered, values = RNG(dim), 0, []
    for _ in range(10):
        x, y, z = sample(rng, 1000, dim, correlation)
        fit = hgr_jax.hgr_fit(x, y, given=z)
        low, high = fit.interval()
        assert low <= fit.correlation <= high
        narrower = fit.interval(level=0.5)
        assert low <= narrower[0] <= fit.correlation <= narrower[1] <= high
        assert narrower[1] - narrower[0] < high - low
        covered += low <= correlation <= high
        values.append(fit.correlation)
        assert fit.explained[0] == pytest.approx(0.5, abs=0.12)
    assert np.mean(values) == pytest.approx(correlation, abs=0.05)
    assert covered >= 9


def test_takes_categories_and_frames() -> None:
    rng = RNG(2)
    site = rng.choice(list("abc"), 1500)
    level = (site == "a") * 2.0
    x, y = level + rng.normal(size=1500), level**2 + rng.normal(size=1500)
    assert hgr_jax.hgr(x, y) > 0.4
    assert hgr_jax.hgr(x, y, given=site) < 0.1
    frame = pd.DataFrame({"site": site, "x": x})
    colour = np.where(x + rng.normal(size=1500) > 1, "red", "blue")
    assert hgr_jax.hgr(colour, y, given=frame) < 0.1
    assert hgr_jax.hgr(colour, x, given=site) > 0.4


def test_rows_of_weight_0_are_dropped() -> None:
    rng = RNG(3)
    x, y, z = sample(rng, 300, 2, 0.7)
    w = (rng.random(300) < 0.7).astype(float)
    kept = w > 0
    fit = hgr_jax.hgr_fit(x, y, given=z, weights=w)
    same = hgr_jax.hgr_fit(x[kept], y[kept], given=z[kept])
    assert fit.correlation == pytest.approx(same.correlation, abs=1e-12)
    assert fit.interval() == pytest.approx(same.interval(), abs=1e-12)


def test_weights_are_of_a_population() -> None:
    rng = RNG(4)
    x, y, z = sample(rng, 2000, 1, 0.8)
    w = rng.uniform(0.5, 2, 2000)
    fit = hgr_jax.hgr_fit(x, y, given=z, weights=w)
    assert fit.correlation == pytest.approx(0.8, abs=0.06)
    assert fit.rows < w.sum() ** 2 / np.sum(w**2)


@pytest.mark.parametrize("spread", [0.0, 0.03, 0.05])
def test_what_the_given_variable_explains_has_no_value_and_a_reason(spread: float) -> None:
    c, e = RNG(401).normal(size=(2, 1000))
    a = c + spread * e
    for pair, name in (((a, e), "a"), ((e, a), "b")):
        fit = hgr_jax.hgr_fit(*pair, given=c)
        assert np.isnan([fit.correlation, fit.pvalue, *fit.interval()]).all()
        assert f"of the ranks of {name}" in fit.reason
        with pytest.warns(UserWarning, match="explains .* of the variance"):
            assert np.isnan(hgr_jax.hgr(*pair, given=c))
    assert fit.explained[1] > 0.99
    fast = hgr_jax.hgr_fit(np.sin(9 * c), e, given=c)
    assert fast.explained[0] > 0.9
    assert not fast.correlation > 0.1


def test_the_value_and_the_test_agree() -> None:
    """A strong value has a small p-value, and 0 a large one, up to an R^2 of .99."""
    rng = RNG(12)
    for spread in (2.0, 0.5, 0.2, 0.11):
        c, e, f = rng.normal(size=(3, 600))
        for b in (e, f):
            fit = hgr_jax.hgr_fit(c + spread * e, b, given=c)
            assert fit.pvalue == hgr_jax.independence_test(c + spread * e, b, given=c).pvalue
            assert fit.correlation <= 0.3 or fit.pvalue < 0.05
            assert fit.correlation > 0 or fit.pvalue > 1e-3


def test_a_constant_shows_nothing() -> None:
    x, y, z = sample(RNG(5), 500, 1, 0.9)
    fit = hgr_jax.hgr_fit(np.ones(500), y, given=z)
    assert (fit.correlation, fit.pvalue, fit.interval()) == (0, 1, (0, 1))
    bad = x.copy()
    bad[3] = np.nan
    assert np.isnan(hgr_jax.hgr(bad, y, given=z))
    assert np.isnan(hgr_jax.hgr(x[:9], y[:9], given=z[:9]))
    assert np.isnan(hgr_jax.hgr_fit(bad, y, given=z).interval()).all()


def test_levels_count_as_those_of_a_number() -> None:
    rng = RNG(8)
    c = rng.normal(size=800)
    rare = rng.random(800) < 0.02
    y = 2.0 * rare + rng.normal(size=800)
    text = np.where(rare, "rare", "common")
    assert hgr_jax.hgr(text, y, given=c) == pytest.approx(float(hgr_jax.hgr(text, y)), abs=0.05)
    assert hgr_jax.hgr_fit(text, y, given=c).degrees[0] == 1
    integers = jnp.asarray(np.argsort(np.argsort(y)))
    assert hgr_jax.hgr(integers, y, given=c) > 0.9
