"""Transformations given other variables, against least squares and an SVD in NumPy."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from partial_support import ROWS, monomials, some_data

import hgr_jax
from hgr_jax.kernels import Indicators, hats

kb_fit = functools.partial(hgr_jax.kb_fit, h=3, k=2, given_degree=3)
spectrum_fit = functools.partial(hgr_jax.spectrum_fit, h=3, k=2, given_degree=3)


def modes(features: Any, known: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return canonical correlations and functions of what 1 and ``known`` leave of features."""
    root = np.sqrt(w / w.sum())[:, None]
    design = np.column_stack([np.ones(len(known)), known]) * root
    sides = []
    for feature in features:
        target = np.asarray(feature, np.float64) * root
        sides.append(np.linalg.qr(target - design @ np.linalg.lstsq(design, target)[0])[0])
    u, s, v = np.linalg.svd(sides[0].T @ sides[1], full_matrices=False)
    return s, sides[0] @ u / root, sides[1] @ v.T / root


def least_squares(known: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    design = np.column_stack([np.ones(len(known)), known])
    root = np.sqrt(w)
    return design @ np.linalg.lstsq(design * root[:, None], (y.T * root).T)[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_against_least_squares(dtype: Any) -> None:
    tolerance = 2e-4 if dtype == np.float32 else 1e-9
    a, b, c, w = (x.astype(dtype) for x in some_data())
    values, first, second = modes((monomials(a, 3), monomials(b, 2)), monomials(c, 3), w)
    with jax.enable_x64(dtype == np.float64):
        fit = kb_fit(a, b, given=c, weights=w)
        np.testing.assert_allclose(
            fit.correlation,
            hgr_jax.kb(a, b, 3, 2, given=c, given_degree=3, weights=w),
            atol=tolerance / 100,
        )
        found = fit.f(a, given=c), fit.g(b, given=c)
        own, explained = super(type(fit.f), fit.f).__call__(a), fit.f.explained(c)
        score = fit.score(a, b, given=c, weights=w)
        low, high = fit.interval()
    assert found[0].dtype == dtype
    f, g = (np.asarray(x, np.float64) for x in found)
    np.testing.assert_allclose(fit.correlation, values[0], atol=tolerance)
    np.testing.assert_allclose(score, values[0], atol=tolerance)
    sign = np.sign(first[:, 0] @ f)
    np.testing.assert_allclose(f, sign * first[:, 0], atol=20 * tolerance)
    np.testing.assert_allclose(g, sign * second[:, 0], atol=20 * tolerance)
    share = w / w.sum()
    np.testing.assert_allclose([share @ f, share @ f**2], [0, 1], atol=tolerance)
    np.testing.assert_allclose(
        explained, least_squares(monomials(c, 3), np.asarray(own, np.float64), w), atol=1e-3
    )
    np.testing.assert_allclose(own - explained, f, atol=10 * tolerance)
    psi = f * g - values[0] * (f**2 + g**2) / 2
    np.testing.assert_allclose(fit.standard_error, np.sqrt(np.sum((share * psi) ** 2)), rtol=1e-3)
    np.testing.assert_allclose(fit.effective_rows, 1 / np.sum(share**2) - 3, rtol=1e-5)
    assert float(low) < values[0] < float(high)
    assert fit.message.startswith("optimal")
    assert fit.degrees.tolist() == [3, 2]
    assert "PartialFit(correlation=" in repr(fit)


@pytest.mark.usefixtures("x64")
def test_degree_1_is_the_partial_correlation() -> None:
    a, b, c, w = some_data()
    fit = hgr_jax.kb_fit(a, b, 1, 1, given=c, given_degree=1)
    precision = np.linalg.inv(np.cov(np.stack([a, b, c])))
    partial = abs(precision[0, 1]) / np.sqrt(precision[0, 0] * precision[1, 1])
    np.testing.assert_allclose(fit.correlation, partial, atol=1e-9)
    (slope,), line = np.asarray(fit.alpha), np.polyfit(c, a, 1)
    np.testing.assert_allclose(fit.f(a, given=c), slope * (a - np.polyval(line, c)), atol=1e-9)
    np.testing.assert_allclose(fit.f.explained.coefficients, slope * line[:1], atol=1e-9)
    assert "c" in fit.f.explained.formula("c")
    # On other rows, as NumPy does.
    left = fit.f(w, given=c), fit.g(b + w, given=c)
    np.testing.assert_allclose(fit.score(w, b + w, given=c), np.corrcoef(*left)[0, 1], atol=1e-9)


@pytest.mark.usefixtures("x64")
def test_kernels_and_several_columns() -> None:
    a, b, c, w = some_data()
    bumps, level = hats((-1.0, 0.0, 1.0)), np.digitize(c, [-0.5, 0.5])
    both = np.column_stack([b, a * w])
    fit = hgr_jax.kb_fit(a, both, bumps, 2, given=level, given_degree=Indicators(3))
    features = bumps(jnp.asarray(a)), monomials(both, 2)
    values, first, second = modes(features, np.eye(3)[level][:, 1:], np.ones(ROWS))
    np.testing.assert_allclose(fit.correlation, values[0], atol=1e-9)
    f = np.asarray(fit.f(a, given=level))
    sign = np.sign(first[:, 0] @ f)
    np.testing.assert_allclose(f, sign * first[:, 0], atol=1e-7)
    np.testing.assert_allclose(fit.g(both, given=level), sign * second[:, 0], atol=1e-7)
    assert fit.effective_rows == pytest.approx(ROWS - 2)


@pytest.mark.usefixtures("x64")
def test_all_modes() -> None:
    a, b, c, w = some_data()
    values, first, second = modes((monomials(a, 3), monomials(b, 2)), monomials(c, 3), w)
    fit = spectrum_fit(a, b, given=c, weights=w)
    np.testing.assert_allclose(fit.correlations, values, atol=1e-9)
    f, g = fit.f(a, given=c), fit.g(b, given=c)
    sign = np.sign(np.sum(first * f, axis=0))
    np.testing.assert_allclose(f, sign * first, atol=1e-7)
    np.testing.assert_allclose(g, sign * second, atol=1e-7)
    np.testing.assert_allclose(fit.f[1](a, given=c), f[:, 1], atol=1e-12)
    top = kb_fit(a, b, given=c, weights=w)
    np.testing.assert_allclose(top.f(a, given=c), f[:, 0], atol=1e-8)
    # The regression of b on both.
    known = np.column_stack([monomials(a, 3), monomials(c, 3)])
    np.testing.assert_allclose(fit.predict(a, given=c), least_squares(known, b, w), atol=1e-8)
    pair = np.column_stack([b, a * w])
    found = spectrum_fit(a, pair, given=c, weights=w).predict(a, given=c)
    np.testing.assert_allclose(found, least_squares(known, pair, w), atol=1e-8)


@pytest.mark.usefixtures("x64")
def test_transformations_compose(compilations: Any) -> None:
    data = [some_data(seed=seed) for seed in range(3)]

    def everything(a: Any, b: Any, c: Any, w: Any) -> list[jax.Array]:
        fit = kb_fit(a, b, given=c, weights=w)
        x = jnp.linspace(-1, 1, 5)
        return [fit.f(x, given=x**2), fit.g(x, given=x), fit.standard_error, fit.alpha]

    eager = [everything(*one) for one in data]
    with compilations() as programs:
        kb_fit(*data[1][:2], given=data[1][2], weights=data[1][3]).f(
            np.linspace(0, 1, 7), given=np.linspace(1, 2, 7)
        )
    assert not programs
    columns = [jnp.stack([jnp.asarray(one[i]) for one in data]) for i in range(4)]
    mapped = jax.jit(jax.vmap(everything))(*columns)
    for i, found in enumerate(mapped):
        np.testing.assert_allclose(found, np.stack([one[i] for one in eager]), atol=1e-8)
    fits = jax.vmap(lambda a, b, c: kb_fit(a, b, given=c))(*columns[:3])
    with pytest.raises(ValueError, match="belongs to a batch"):
        fits.f(data[0][0], given=data[0][2])


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["kb_fit", pytest.param("spectrum_fit", marks=pytest.mark.slow)])
def test_derivatives(name: str) -> None:
    def everything(a: Any, b: Any, c: Any, w: Any) -> Any:
        x = jnp.linspace(-1, 1, 5)
        fit = getattr(hgr_jax, name)(a, b, 2, 2, given=c, given_degree=2, weights=w)
        found = fit.f(x, given=x**2), fit.g(b[:5], given=c[:5])
        return (*found, fit.standard_error) if name == "kb_fit" else (*found, fit.predict(x, x))

    data = tuple(map(jnp.asarray, some_data(40)))
    check_grads(jax.jit(everything), data, 1, modes=["fwd", "rev"], atol=1e-4, rtol=1e-4)


def test_degenerate() -> None:
    a, b, c, _ = (x.astype(np.float32) for x in some_data())
    one = np.ones(ROWS, np.float32)
    for x, y in ((2 * c - 1, b), (b, 3 - c), (a, one), (c, c)):
        fit = kb_fit(x, y, given=c)
        assert fit.correlation == 0
        assert "does not vary" in fit.message
        assert np.isfinite(fit.f(x, given=c)).all()
        assert np.isfinite(fit.g(y, given=c)).all()
        assert fit.score(x, y, given=c) == 0
    alone = kb_fit(a, b, given=one)  # nothing is explained
    np.testing.assert_allclose(alone.correlation, hgr_jax.kb(a, b, 3, 2), atol=2e-6)
    holes, weights = np.where(c > 1, np.nan, c), (c <= 1).astype(np.float32)
    assert np.isnan(kb_fit(a, b, given=holes).correlation)
    fit = kb_fit(a, b, given=holes, weights=weights)
    score = fit.score(a, b, given=holes, weights=weights)
    np.testing.assert_allclose(fit.correlation, score, atol=1e-4)
    few = kb_fit(a[:4], b[:4], given=c[:4])
    assert np.isfinite(few.correlation)


def test_refusals() -> None:
    a, b, c, _ = some_data()
    fit, plain = kb_fit(a, b, given=c), hgr_jax.kb_fit(a, b, 3, 2)
    spectrum = spectrum_fit(a, b, given=c)
    for call in (
        lambda: fit.f(a),
        lambda: fit.score(a, b),
        lambda: spectrum.f(a),
        lambda: spectrum.predict(a),
    ):
        with pytest.raises(ValueError, match="given is missing"):
            call()
    with pytest.raises(ValueError, match="given must have 60 rows, as x; got 5"):
        fit.g(b, given=c[:5])
    with pytest.raises(ValueError, match=r"given must have 1 column\(s\)"):
        fit.g(b, given=np.stack([c, c], axis=1))
    with pytest.raises(ValueError, match="given must be None"):
        hgr_jax.spectrum_fit(a, b, 3, 2).f(a, given=c)
    with pytest.raises(ValueError, match="got one given other variables"):
        hgr_jax.kb(a, b, 3, 2, init=fit)
    with pytest.raises(ValueError, match="init is a fit of a and b alone"):
        kb_fit(a, b, given=c, init=plain)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="f and g are no curves"):
        fit.plot(a, b)
