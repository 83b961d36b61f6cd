"""ACE against known maximal correlations, and its smoother against plain least squares."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, rankdata

import hgr_jax

ROWS = 200


def running_lines(x: np.ndarray, z: np.ndarray, span: float) -> np.ndarray:
    """E[z | x] as its definition reads, row by row."""
    rows, rank = len(x), rankdata(x)
    half = max(1, round(span * rows / 2))
    scores = norm.ppf(rank / (rows + 1))
    fit = np.empty(rows)
    for i in range(rows):
        window = np.abs(rank - rank[i]) <= half
        s, y = scores[window], z[window]
        spread = np.sum((s - s.mean()) ** 2)
        slope = np.sum((s - s.mean()) * y) / spread if spread > 1e-12 else 0
        fit[i] = y.mean() + slope * (scores[i] - s.mean())
    return fit


def unit(z: np.ndarray) -> np.ndarray:
    return (z - z.mean()) / z.std()


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("span", [0.05, 0.8])
def test_a_fit_is_where_conditional_expectations_alternate(
    rng: np.random.Generator, span: float
) -> None:
    for a in (rng.standard_normal(80), np.round(rng.standard_normal(80), 1)):
        b = a**2 + rng.standard_normal(80) / 2
        for dtype, tolerance in ((np.float64, 1e-5), (np.float32, 2e-3)):
            x, y = a.astype(dtype), b.astype(dtype)
            fit = hgr_jax.ace_fit(x, y, span=span, tolerance=1e-12, max_iterations=500)
            f, g = np.asarray(fit.f(x), float), np.asarray(fit.g(y), float)
            np.testing.assert_allclose(unit(running_lines(a, g, span)), f, atol=tolerance)
            np.testing.assert_allclose(unit(running_lines(b, f, span)), g, atol=tolerance)


def pair(rows: int = ROWS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    a, noise = np.random.default_rng(seed).standard_normal((2, rows))
    return a, a**2 + noise / 2


class TestOptions:
    def test_span(self) -> None:
        a, b = (np.float32(x) for x in pair())
        fine = hgr_jax.ace(a, b, span=(0.05, 0.1))
        assert fine > hgr_jax.ace(a, b)
        np.testing.assert_allclose(hgr_jax.ace(a, b, span=0), 1, atol=1e-5)

    def test_iterations_and_tolerance(self) -> None:
        a, b = (np.float32(x) for x in np.random.default_rng(5).standard_normal((2, ROWS)))
        short = hgr_jax.ace_fit(a, b, max_iterations=2, tolerance=0)
        assert (int(short.iterations), bool(short.converged)) == (2, False)
        rough = hgr_jax.ace_fit(a, b, tolerance=1.0)
        assert (int(rough.iterations), bool(rough.converged)) == (1, True)
        assert int(hgr_jax.ace_fit(a, b, tolerance=1e-6).iterations) > 1


@given(seed=st.integers(0, 2**32 - 1), tied=st.booleans())
@settings(max_examples=15, deadline=None)
def test_range_and_invariances(seed: int, tied: bool) -> None:
    with jax.enable_x64(True):
        a, b = pair(seed=seed)
        a = np.round(a, 1) if tied else a
        value = float(hgr_jax.ace(a, b))
        assert 0 <= value <= 1
        order = np.random.default_rng(seed).permutation(ROWS)
        np.testing.assert_allclose(hgr_jax.ace(a[order], b[order]), value, atol=1e-8)
        np.testing.assert_allclose(hgr_jax.ace(np.exp(a), 3 * b**3 - 7), value, atol=1e-8)
        np.testing.assert_allclose(hgr_jax.ace(-a, b), value, atol=1e-8)


class TestFit:
    def test_curves(self) -> None:
        a, b = (np.float32(x) for x in pair())
        fit = hgr_jax.ace_fit(a, b)
        assert fit.converged
        fresh = fit.score(*(np.float32(x) for x in pair(seed=1)))
        np.testing.assert_allclose(fresh, fit.correlation, atol=0.05)
        f, g = fit.f(a), fit.g(b)
        for curve in (f, g):
            np.testing.assert_allclose([np.mean(curve), np.std(curve)], [0, 1], atol=1e-5)
        np.testing.assert_allclose(np.mean(f * g), fit.correlation, atol=1e-6)
        np.testing.assert_allclose(fit.score(a, b), fit.correlation, atol=1e-6)
        np.testing.assert_allclose(hgr_jax.ace(a, b), fit.correlation, atol=1e-6)
        assert np.corrcoef(f, rankdata(a))[0, 1] >= 0
        order = np.argsort(a)
        between = (a[order][1:] + a[order][:-1]) / 2
        np.testing.assert_allclose(fit.f(between), (f[order][1:] + f[order][:-1]) / 2, atol=1e-4)
        ends = fit.f(np.float32([-1e9, 1e9, np.nan]))
        np.testing.assert_allclose(ends, [f[order][0], f[order][-1], np.nan])
        slope = jax.vmap(jax.grad(lambda x: fit.f(x[None])[0]))(jnp.asarray(between))
        np.testing.assert_allclose(slope, np.diff(f[order]) / np.diff(a[order]), rtol=1e-2)

    def test_score_where_nothing_varies(self) -> None:
        a, b = (np.float32(x) for x in pair())
        fit = hgr_jax.ace_fit(a, b)
        assert fit.score(a + 100, b) == 0
        assert hgr_jax.ace_fit([1.0], [2.0]).f([0.0, 5.0]).tolist() == [0, 0]


exact_shapes = jax.jit(hgr_jax.ace, static_argnames="span")
value_and_gradients = jax.jit(
    jax.value_and_grad(hgr_jax.ace, argnums=(0, 1)), static_argnames="span"
)


class TestGradient:
    @pytest.mark.parametrize("tied", [False, True])
    def test_is_that_of_pearson_through_chords_of_the_curves(self, tied: bool) -> None:
        a, b = (np.float32(x) for x in pair())
        a = np.round(a, 1) if tied else a
        fit = hgr_jax.ace_fit(a, b)
        f, g = np.asarray(fit.f(a)), np.asarray(fit.g(b))
        through = jax.grad(hgr_jax.pearson, argnums=(0, 1))(jnp.asarray(f), jnp.asarray(g))
        _, got = value_and_gradients(a, b, span=0.2)
        half = round(0.2 * ROWS / 2)
        for x, curve, outer, gradient in zip((a, b), (f, g), through, got, strict=True):
            x_sorted, values = np.sort(x), curve[np.argsort(x)]
            near = np.abs(rankdata(x_sorted) - rankdata(x)[:, None]) <= half
            low, high = near.argmax(axis=1), ROWS - 1 - near[:, ::-1].argmax(axis=1)
            chord = (values[high] - values[low]) / (x_sorted[high] - x_sorted[low])
            np.testing.assert_allclose(gradient, outer * chord, atol=1e-6)
        if not tied:
            direction = np.cos(np.arange(ROWS, dtype=np.float32))
            _, pushed = jax.jvp(lambda x: hgr_jax.ace(x, b), (jnp.asarray(a),), (direction,))
            np.testing.assert_allclose(pushed, direction @ got[0], rtol=1e-4)

    @pytest.mark.parametrize("span", [0.2, 0])
    def test_finite_on_degenerate_data(self, span: float) -> None:
        tiny = np.float32(1e-38) * np.arange(ROWS, dtype=np.float32)
        huge = np.linspace(-3e38, 3e38, ROWS, dtype=np.float32)
        independent = np.float32(np.arange(ROWS) % 2), np.float32(np.arange(ROWS) // 2 % 2)
        for x, y in (
            (tiny, huge),
            independent,
        ):
            value, gradients = value_and_gradients(x, y, span=span)
            # Of equal variables any function is best: which one is taken is rounding.
            np.testing.assert_allclose(value, exact_shapes(x, y, span=span), atol=1e-5)
            assert 0 <= value <= 1
            for gradient in gradients:
                assert np.isfinite(gradient).all()
                assert np.ptp(x) > 0 or not (value or gradient.any())
        assert value < 1e-6


def test_large_samples(rng: np.random.Generator) -> None:
    """The gradient tends to that of the maximal correlation."""
    x, y = rng.standard_normal((2, 2**14)).astype(np.float32)
    pair = jnp.asarray(x), jnp.asarray(0.7 * x + 0.71 * y)
    gradients = jax.grad(hgr_jax.ace, argnums=(0, 1))(*pair)
    through_pearson = jax.grad(hgr_jax.pearson, argnums=(0, 1))(*pair)
    for gradient, truth in zip(gradients, through_pearson, strict=True):
        assert np.corrcoef(gradient, truth)[0, 1] > 0.95
        np.testing.assert_allclose(np.std(gradient), np.std(truth), rtol=0.1)
