"""Measures and fits given other variables, against least squares and an SVD in NumPy."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_support import check_derivatives
from partial_support import ROWS, monomials, some_data

import hgr_jax
from hgr_jax.kernels import Indicators, splines

kb = functools.partial(hgr_jax.kb, h=3, k=2, given_degree=3)

MEASURES: dict[str, Callable[..., jax.Array]] = {
    "kb": kb,
    "sk": functools.partial(hgr_jax.sk, d=3, given_degree=3),
    "spectrum": functools.partial(hgr_jax.spectrum, h=3, k=2, given_degree=3),
    "total": functools.partial(hgr_jax.total, h=3, k=2, given_degree=3),
}


def modes(features: Any, known: np.ndarray, w: Any = None) -> tuple[np.ndarray, ...]:
    """Return canonical correlations and functions of the residuals of features given ``known``."""
    w = np.ones(len(known)) if w is None else np.asarray(w, np.float64)
    root = np.sqrt(w / w.sum())[:, None]
    design = np.column_stack([np.ones(len(known)), known]) * root
    sides = []
    for feature in features:
        target = np.asarray(feature, np.float64) * root
        sides.append(np.linalg.qr(target - design @ np.linalg.lstsq(design, target)[0])[0])
    u, s, v = np.linalg.svd(sides[0].T @ sides[1], full_matrices=False)
    return s, sides[0] @ u / root, sides[1] @ v.T / root


def expected(name: str, a: Any, b: Any, c: Any, w: Any = None, degree: int = 3) -> Any:
    def values(h: int, k: int) -> np.ndarray:
        return modes((monomials(a, h), monomials(b, k)), monomials(c, degree), w)[0]

    found = values(3, 2)
    return {
        "kb": found[0],
        "sk": max(values(3, 1)[0], values(1, 3)[0]),
        "spectrum": found,
        "total": np.sqrt(np.mean(found**2)),
    }[name]


@pytest.mark.parametrize(
    ("name", "dtype"), [("kb", np.float32), *((name, np.float64) for name in MEASURES)]
)
def test_against_least_squares(name: str, dtype: Any) -> None:
    """The same programs as of the other tests: with weights in float64, without in float32."""
    a, b, c, w = (x.astype(dtype) for x in some_data())
    weighted = dtype == np.float64
    with jax.enable_x64(weighted):
        found = MEASURES[name](a, b, given=c, **({"weights": w} if weighted else {}))
    assert found.dtype == dtype
    value = expected(name, a, b, c, w if weighted else None)
    np.testing.assert_allclose(found, value, atol=1e-9 if weighted else 1e-4)


@pytest.mark.usefixtures("x64")
def test_several_columns_and_other_degrees() -> None:
    a, b, c, w = some_data()
    pairs = {"a": np.column_stack([a, w]), "b": np.column_stack([b, a * w])}
    given = np.column_stack([c, np.cos(a)])
    found = kb(pairs["a"], pairs["b"], given=given, given_degree=2)
    value = expected("kb", pairs["a"], pairs["b"], given, degree=2)
    np.testing.assert_allclose(found, value, atol=1e-9)
    # One column is the variable itself.
    alone = kb(a[:, None], b[:, None], given=c[:, None])
    np.testing.assert_allclose(alone, kb(a, b, given=c), atol=1e-12)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", MEASURES)
def test_weights_are_repeated_rows(name: str) -> None:
    a, b, c, _ = some_data()
    times = np.arange(ROWS) % 3
    copies = [np.repeat(x, times) for x in (a, b, c)]
    value = MEASURES[name](*copies[:2], given=copies[2], weights=np.ones(len(copies[0])))
    with_nan = np.where(times == 0, np.nan, c)
    found = MEASURES[name](a, b, weights=times.astype(float), given=with_nan)
    np.testing.assert_allclose(found, value, atol=1e-10)


class TestDegenerate:
    def test_nothing_explained_or_all_of_it(self) -> None:
        a, b, c, _ = (x.astype(np.float32) for x in some_data())
        np.testing.assert_allclose(kb(a, b, given=np.full(ROWS, 0.1)), kb(a, b), atol=2e-6)
        one = np.ones(ROWS, np.float32)
        gradient = jax.jit(jax.grad(lambda x, y, z: kb(x, y, given=z), (0, 1, 2)))
        for x, y in ((2 * c - 1, b), (b, 3 - c), (a, one), (one, b), (c, c)):
            assert kb(x, y, given=c) == 0
            for slope in gradient(x, y, c):
                np.testing.assert_array_equal(slope, 0)
        assert hgr_jax.kb(c**3 - c, b, 1, 2, given=c) == 0

    @pytest.mark.usefixtures("x64")
    @pytest.mark.parametrize("name", MEASURES)
    def test_explained_or_not_finite(self, name: str) -> None:
        a, b, c, w = some_data()
        np.testing.assert_array_equal(MEASURES[name](2 * c - 1, b, given=c, weights=w), 0)
        for bad in (np.nan, np.inf):
            c[7] = bad
            assert np.isnan(MEASURES[name](a, b, given=c, weights=w)).all()


kb_fit = functools.partial(hgr_jax.kb_fit, h=3, k=2, given_degree=3)
spectrum_fit = functools.partial(hgr_jax.spectrum_fit, h=3, k=2, given_degree=3)


def least_squares(known: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    design = np.column_stack([np.ones(len(known)), known])
    root = np.sqrt(w)
    return design @ np.linalg.lstsq(design * root[:, None], (y.T * root).T)[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fits_against_least_squares(dtype: Any) -> None:
    tolerance = 2e-4 if dtype == np.float32 else 1e-9
    a, b, c, w = (x.astype(dtype) for x in some_data())
    values, first, second = modes((monomials(a, 3), monomials(b, 2)), monomials(c, 3), w)
    with jax.enable_x64(dtype == np.float64):
        fit = kb_fit(a, b, given=c, weights=w)
        found = fit.f(a, given=c), fit.g(b, given=c)
        if dtype == np.float64:
            value = kb(a, b, given=c, weights=w)
            np.testing.assert_allclose(fit.correlation, value, atol=tolerance / 100)
            own = dataclasses.replace(fit.f, explained=None)(a)
            explained = fit.f.explained(c)
            score = fit.score(a, b, given=c, weights=w)
    assert found[0].dtype == dtype
    f, g = (np.asarray(x, np.float64) for x in found)
    np.testing.assert_allclose(fit.correlation, values[0], atol=tolerance)
    sign = np.sign(first[:, 0] @ f)
    np.testing.assert_allclose(f, sign * first[:, 0], atol=20 * tolerance)
    np.testing.assert_allclose(g, sign * second[:, 0], atol=20 * tolerance)
    share = w / w.sum()
    np.testing.assert_allclose([share @ f, share @ f**2], [0, 1], atol=tolerance)
    psi = f * g - values[0] * (f**2 + g**2) / 2
    np.testing.assert_allclose(fit.standard_error, np.sqrt(np.sum((share * psi) ** 2)), rtol=1e-3)
    np.testing.assert_allclose(fit.effective_rows, 1 / np.sum(share**2) - 3, rtol=1e-5)
    if dtype == np.float64:
        np.testing.assert_allclose(score, values[0], atol=tolerance)
        expected = least_squares(monomials(c, 3), np.asarray(own), w)
        np.testing.assert_allclose(explained, expected, atol=1e-7)
        np.testing.assert_allclose(own - explained, f, atol=10 * tolerance)
    assert fit.message.startswith("optimal")
    assert fit.degrees.tolist() == [3, 2]
    assert "KBFit(correlation=" in repr(fit)


@pytest.mark.usefixtures("x64")
def test_fits_of_degree_1_are_the_partial_correlation() -> None:
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
def test_fits_of_kernels_and_several_columns() -> None:
    a, b, c, w = some_data()
    bumps, level = splines((-1.0, 0.0, 1.0), 1), np.digitize(c, [-0.5, 0.5])
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
def test_values_and_fits_compose(compilations: Any) -> None:
    data = [some_data(seed=seed) for seed in range(3)]

    def everything(a: Any, b: Any, c: Any, w: Any) -> tuple[list[jax.Array], Any]:
        fit = kb_fit(a, b, given=c, weights=w)
        x = jnp.linspace(-1, 1, 5)
        value = kb(a, b, given=c, weights=w)
        found = [value, fit.f(x, given=x**2), fit.g(x, given=x), fit.standard_error, fit.alpha]
        return found, fit

    eager = [everything(*one)[0] for one in data]
    with compilations() as programs:
        kb(*(x[:50] for x in data[1][:2]), given=data[1][2][:50], weights=data[1][3][:50])
        kb_fit(*data[1][:2], given=data[1][2], weights=data[1][3]).f(
            np.linspace(0, 1, 7), given=np.linspace(1, 2, 7)
        )
    assert not programs
    columns = [np.stack([one[i] for one in data]) for i in range(4)]
    mapped, fits = jax.jit(jax.vmap(everything))(*columns)
    for i, found in enumerate(mapped):
        np.testing.assert_allclose(found, np.stack([one[i] for one in eager]), atol=1e-8)
    with pytest.raises(ValueError, match="belongs to a batch"):
        fits.f(data[0][0], given=data[0][2])


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("kb_fit", 1),
        *(pytest.param(*s, marks=pytest.mark.slow) for s in (("spectrum_fit", 1), ("kb", 2))),
    ],
)
def test_derivatives_of_values_and_fits(name: str, order: int) -> None:
    options: dict[str, Any] = {"h": 2, "k": 2, "given_degree": 2}

    def everything(a: Any, b: Any, c: Any, w: Any) -> Any:
        value = hgr_jax.kb(a, b, given=c, weights=w, **options)
        if name == "kb":
            return value
        x = jnp.linspace(-1, 1, 5)
        fit = getattr(hgr_jax, name)(a, b, given=c, weights=w, **options)
        found = value, fit.f(x, given=x**2), fit.g(b[:5], given=c[:5])
        return (*found, fit.standard_error) if name == "kb_fit" else found

    check_derivatives(everything, some_data(40), order)


def test_fits_of_degenerate_data() -> None:
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
