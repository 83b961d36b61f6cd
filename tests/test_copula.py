"""Fits: transformations on old and new data, coefficients, signs, diagnostics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hgr_jax
from bench.data import awkward_pair
from hgr_jax import Status


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    a, b = awkward_pair("uniform", 400)
    return a.astype(np.float32), b.astype(np.float32)


def test_transformations_have_zero_mean_and_unit_variance(
    data: tuple[np.ndarray, np.ndarray], rng: np.random.Generator
) -> None:
    a, b = data
    weights = rng.uniform(size=400).astype(np.float32)
    for w in (None, weights):
        fit = hgr_jax.kb_fit(a, b, 4, 3, weights=w)
        for values in (fit.f(a), fit.g(b)):
            np.testing.assert_allclose(np.average(values, weights=w), 0, atol=1e-6)
            np.testing.assert_allclose(np.average(values**2, weights=w), 1, atol=1e-5)
        product = np.average(fit.f(a) * fit.g(b), weights=w)
        np.testing.assert_allclose(product, fit.correlation, atol=1e-6)
        np.testing.assert_allclose(fit.score(a, b, weights=w), fit.correlation, atol=1e-6)


@pytest.mark.usefixtures("x64")
def test_coefficients_of_several_variables(rng: np.random.Generator) -> None:
    x = rng.standard_normal((100, 2)) * np.array([1, 10]) + 3
    y = x[:, 0] * x[:, 1]
    fit = hgr_jax.kb_fit(x, y, 2, 1)
    by_hand = hgr_jax.polynomial_kernel(x, 2) @ fit.alpha + fit.f.intercept
    np.testing.assert_allclose(by_hand, fit.f(x), atol=1e-9)
    np.testing.assert_allclose(fit.alpha[jnp.array([0, 1, 2, 4])], 0, atol=1e-8)
    with pytest.raises(TypeError, match="of one variable"):
        fit.f.formula()


def test_sign_rule(rng: np.random.Generator) -> None:
    # The largest component of f on orthonormal polynomials is positive: f grows with a on a
    # monotone relation, and opens upward on a parabola, whatever the sign of b.
    a = np.linspace(-1, 1, 101)
    noise = 0.1 * rng.standard_normal(101)
    for sign in (1, -1):
        line = hgr_jax.kb_fit(a, sign * (a + noise), 2, 2)
        assert line.f(np.array([1.0])) > 0
        assert sign * line.g(np.array([1.0]))[0] > 0
        parabola = hgr_jax.kb_fit(a, sign * (a**2 + noise), 2, 2)
        assert parabola.f(np.array([1.0])) > parabola.f(np.array([0.0]))


def test_batches_of_fits(rng: np.random.Generator) -> None:
    a, b = (jnp.asarray(rng.standard_normal((3, 60)), jnp.float32) for _ in range(2))
    batch = jax.jit(jax.vmap(lambda a, b: hgr_jax.kb_fit(a, b, 3, 2)))(a, b)
    assert len(batch.message) == 3
    for i in range(3):
        alone = hgr_jax.kb_fit(a[i], b[i], 3, 2)
        one = jax.tree.map(lambda leaf, i=i: leaf[i], batch)
        np.testing.assert_allclose(one.f(a[i]), alone.f(a[i]), atol=1e-4)
        np.testing.assert_allclose(one.leverage, alone.leverage, rtol=1e-4)
        assert one.influential_row == alone.influential_row
    scores = jax.vmap(lambda fit, a, b: fit.score(a, b))(batch, a, b)
    np.testing.assert_allclose(scores, batch.correlation, atol=1e-5)
    for use in (lambda: batch.f(a[0]), lambda: batch.alpha, lambda: batch.f.formula()):
        with pytest.raises(ValueError, match=r"batch of fits, of shape \(3,\); map over it"):
            use()
    assert jax.vmap(lambda fit: fit.alpha)(batch).shape == (3, 3)
    slope = jax.grad(lambda a: hgr_jax.kb_fit(a, b[0], 3, 2).leverage)(a[0])
    np.testing.assert_array_equal(slope, 0)


class TestStatus:
    def test_optimal(self, data: tuple[np.ndarray, np.ndarray]) -> None:
        for solver, iterates in (("projected_gradient", True), ("svd", False)):
            fit = hgr_jax.kb_fit(*data, solver=solver)
            assert fit.status == Status.OPTIMAL
            assert fit.message.startswith("optimal: ")
            assert fit.residual < 1e-6
            assert (int(fit.iterations) > 0) is iterates
            assert fit.degrees.tolist() == [5, 5]

    def test_constant(self, data: tuple[np.ndarray, np.ndarray]) -> None:
        fit = hgr_jax.kb_fit(np.ones(400), data[1])
        assert fit.status == hgr_jax.sk_fit(np.ones(400), data[1]).status == Status.CONSTANT
        assert "does not vary" in fit.message
        assert fit.degrees.tolist() == [0, 5]
        assert fit.correlation == 0
        np.testing.assert_array_equal(fit.f(data[0]), np.zeros(400))

    def test_far_outlier_beyond_float32_is_told(self) -> None:
        a, b = (x.astype(np.float32) for x in awkward_pair("normal", 1000))
        assert hgr_jax.kb_fit(a, b, 3, 3).status == Status.OPTIMAL
        for rows in (slice(17, 18), slice(0, 1000, 50)):
            hidden = a.copy()
            hidden[rows] = 1e8
            fit = hgr_jax.kb_fit(hidden, b, 3, 3)
            assert fit.status == Status.ILL_CONDITIONED
            assert "far outliers" in fit.message

    def test_features_that_nearly_depend_are_told(self, rng: np.random.Generator) -> None:
        x = rng.standard_normal((300, 2)).astype(np.float32)
        near = np.stack([x[:, 0], x[:, 0] + np.float32(1e-5) * x[:, 1]], axis=1)
        assert hgr_jax.kb_fit(near, x[:, 1], 1, 1).status == Status.ILL_CONDITIONED
        equal = np.stack([x[:, 0], 3 * x[:, 0] + 1], axis=1)
        assert hgr_jax.kb_fit(equal, x[:, 1], 1, 1).status == Status.OPTIMAL


class TestScore:
    def test_a_dropped_row_may_hold_nan(self) -> None:
        a, b = (jnp.asarray(x, jnp.float32) for x in awkward_pair("normal", 50))
        fit = hgr_jax.kb_fit(a, b, 2, 2)
        weights = jnp.ones(50).at[0].set(0)

        def score(a: jax.Array) -> jax.Array:
            return fit.score(a, b, weights=weights)

        dropped = a.at[0].set(jnp.nan)
        np.testing.assert_allclose(score(dropped), fit.score(a[1:], b[1:]), atol=1e-6)
        assert np.isfinite(jax.grad(score)(dropped)).all()
        assert np.isnan(fit.score(dropped, b))
        with pytest.raises(ValueError, match="not negative"):
            fit.score(a, b, weights=-weights)


def test_coefficients_of_few_values_in_small_units_are_finite() -> None:
    a = np.array([0, 1e-25, 1e-25, 0], np.float32)
    fit = hgr_jax.kb_fit(a, np.array([0, 1, 1, 0.1], np.float32), 5, 5)
    np.testing.assert_allclose(fit.f.coefficients[1:], 0)
    assert fit.f.formula().startswith("-1 + 2e+25 x")


class TestLeverage:
    def test_one_row_that_makes_the_value(self, rng: np.random.Generator) -> None:
        a, b = rng.standard_normal((2, 500)).astype(np.float32)
        a[7], b[7] = 9, 8
        fit = hgr_jax.kb_fit(a, b)
        parts = np.asarray(fit.f(a) * fit.g(b), np.float64) / 500
        np.testing.assert_allclose(fit.leverage, parts.max() / parts.sum(), rtol=1e-4)
        assert fit.influential_row == 7
        assert fit.leverage > 0.9
        assert fit.status == Status.ONE_ROW
        assert "influential_row" in fit.message
        line = hgr_jax.kb_fit(a, b, 1, 1)
        assert line.status == Status.ONE_ROW
        assert line.leverage < 0.98  # most is enough
        dropped = hgr_jax.kb_fit(a, b, weights=np.arange(500) != 7)
        assert dropped.status == Status.OPTIMAL
        assert dropped.leverage < 0.3
        assert dropped.influential_row != 7


@pytest.mark.parametrize("fit", [hgr_jax.kb_fit, hgr_jax.sk_fit, hgr_jax.hgr_fit, hgr_jax.ace_fit])
def test_one_number_gives_a_scalar(
    fit: Callable[..., Any], data: tuple[np.ndarray, np.ndarray]
) -> None:
    f = fit(*data).f
    expected = f(np.array([0.3, -1.0]))
    for number in (0.3, np.float32(0.3), jnp.float32(0.3)):
        assert np.shape(f(number)) == ()
        assert float(f(number)) == pytest.approx(float(expected[0]), rel=1e-6)
    if fit is not hgr_jax.hgr_fit:  # which is for the host
        np.testing.assert_allclose(jax.vmap(lambda x: f(x))(jnp.array([0.3, -1.0])), expected)
        assert jnp.isfinite(jax.grad(lambda x: f(x))(0.3))
    with pytest.raises(TypeError, match="x must hold real numbers"):
        f("0.3")
