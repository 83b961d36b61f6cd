"""ACE against known maximal correlations, and its smoother against plain least squares."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
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
            fit = hgr_jax.ace_fit(x, y, span=span, tolerance=1e-12)
            f, g = np.asarray(fit.f(x), float), np.asarray(fit.g(y), float)
            np.testing.assert_allclose(unit(running_lines(a, g, span)), f, atol=tolerance)
            np.testing.assert_allclose(unit(running_lines(b, f, span)), g, atol=tolerance)


def pair(rows: int = ROWS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    a, noise = np.random.default_rng(seed).standard_normal((2, rows))
    return a, a**2 + noise / 2


class TestOptions:
    def test_span(self) -> None:
        a, b = (np.float32(x) for x in pair())
        fine = hgr_jax.ace(a, b, span=0.1)
        assert fine > hgr_jax.ace(a, b)
        np.testing.assert_allclose(hgr_jax.ace(a, b, span=0), 1, atol=1e-5)


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
