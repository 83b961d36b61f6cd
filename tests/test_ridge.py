"""HGR-KB with a ridge, and its choice, against a generalised eigenproblem in SciPy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from derivative_support import check_derivatives
from partial_support import ROWS, monomials, some_data

import hgr_jax
from hgr_jax.core.fits import Status
from hgr_jax.inference import select_ridge
from hgr_jax.inference.selection import deal_folds
from hgr_jax.kernels import hats, indicators, quantiles

BUMPS = hats((-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5))
KEY = jax.random.key(5)


def bumps(x: np.ndarray) -> np.ndarray:
    return np.stack([np.interp(x, BUMPS.keypoints, row) for row in np.eye(7)[1:]], axis=1)


def powers(x: np.ndarray, degree: int, w: np.ndarray) -> np.ndarray:
    return np.asarray((x - w @ x / w.sum())[:, None] ** np.arange(1, degree + 1))


def expected(x: Any, y: Any, ridge: float, w: Any, known: Any = None) -> tuple[Any, ...]:
    """Return the correlation, f and g of features, by a generalised eigenproblem in float64."""
    w = np.asarray(w, np.float64) / np.sum(w, dtype=np.float64)
    root, sides = np.sqrt(w)[:, None], []
    for features in (x, y):
        features = features - w @ features
        features = features / np.sqrt(w @ features**2)
        if known is not None:
            design = np.column_stack([np.ones(len(w)), known])
            features = features - design @ np.linalg.lstsq(design * root, features * root)[0]
        sides.append(features)
    moments = [[(p * w[:, None]).T @ q for q in sides] for p in sides]
    h, k = (side.shape[1] for side in sides)
    zero = np.zeros((h, h)), np.zeros((k, k))
    left = np.block([[zero[0], moments[0][1]], [moments[1][0], zero[1]]])
    right = scipy.linalg.block_diag(moments[0][0], moments[1][1]) + ridge * np.eye(h + k)
    vector = scipy.linalg.eigh(left, right)[1][:, -1]
    f, g = sides[0] @ vector[:h], sides[1] @ vector[h:]
    f, g = f / np.sqrt(w @ f**2), g / np.sqrt(w @ g**2)
    return w @ (f * g), f, g


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_against_a_generalised_eigenproblem(dtype: Any) -> None:
    tolerance = 2e-5 if dtype == np.float32 else 1e-9
    a, b, _, w = (x.astype(dtype) for x in some_data())
    double = [x.astype(np.float64) for x in (a, b, w)]
    cases: dict[Any, tuple[Any, Any]] = {
        (4, 2): (powers(double[0], 4, double[2]), powers(double[1], 2, double[2])),
    }
    if dtype == np.float64:
        cases[BUMPS, 2] = bumps(double[0]), powers(double[1], 2, double[2])
    with jax.enable_x64(dtype == np.float64):
        for (h, k), features in cases.items():
            for ridge in (1e-3, 0.1, 2.0, 1e9):
                value, f, g = expected(*features, ridge, double[2])
                found = hgr_jax.kb(a, b, h, k, weights=w, ridge=ridge)
                assert found.dtype == dtype
                np.testing.assert_allclose(found, value, atol=tolerance)
                fit = hgr_jax.kb_fit(a, b, h, k, weights=w, ridge=ridge)
                np.testing.assert_allclose(fit.correlation, value, atol=tolerance)
                first = np.asarray(fit.f(a), np.float64)
                sign = np.sign(first @ f)
                np.testing.assert_allclose(first, sign * f, atol=300 * tolerance)
                second = np.asarray(fit.g(b), np.float64)
                np.testing.assert_allclose(second, sign * g, atol=300 * tolerance)
        assert fit.status in (Status.REGULARISED, Status.ONE_ROW)
        assert float(fit.standard_error) > 0


@pytest.mark.usefixtures("x64")
def test_given_several_columns_and_no_weights() -> None:
    a, b, c, w = some_data()
    one = np.ones(ROWS)
    value, f, _ = expected(bumps(a), powers(b, 2, one), 0.1, one, monomials(c, 3))
    fit = hgr_jax.kb_fit(a, b, BUMPS, 2, given=c, given_degree=3, ridge=0.1)
    np.testing.assert_allclose(fit.correlation, value, atol=1e-9)
    found = np.asarray(fit.f(a, given=c))
    np.testing.assert_allclose(found, np.sign(found @ f) * f, atol=1e-7)
    both = np.column_stack([a, w])
    value = expected(monomials(both, 2), powers(b, 2, one), 0.1, one)[0]
    np.testing.assert_allclose(hgr_jax.kb(both, b, 2, 2, ridge=0.1), value, atol=1e-9)


@pytest.mark.usefixtures("x64")
def test_no_ridge_is_the_plain_estimate(compilations: Any) -> None:
    a, b, _, w = some_data()
    plain = hgr_jax.kb(a, b, 4, 2, weights=w)
    fit = hgr_jax.kb_fit(a, b, 4, 2, weights=w)
    with compilations() as programs:
        for zero in (0, 0.0, jnp.zeros(())):
            assert hgr_jax.kb(a, b, 4, 2, weights=w, ridge=zero) == plain
            again = hgr_jax.kb_fit(a, b, 4, 2, weights=w, ridge=zero)
            assert again.correlation == fit.correlation
    assert not [name for name in programs if "kb" in str(name)]
    # Traced, it is as near as rounding lets it.
    traced = jax.jit(lambda ridge: hgr_jax.kb(a, b, 4, 2, weights=w, ridge=ridge))(0.0)
    np.testing.assert_allclose(traced, plain, atol=1e-9)


@pytest.mark.usefixtures("x64")
def test_transformations(compilations: Any) -> None:
    data = [some_data(seed=seed) for seed in range(3)]
    a, b, _, w = data[0]

    def value(a: Any, ridge: Any) -> jax.Array:
        return hgr_jax.kb(a, b, BUMPS, 2, weights=w, ridge=ridge)

    ridges = np.array([0.01, 0.1, 3.0])
    eager = [value(a, ridge) for ridge in ridges]
    with compilations() as programs:
        value(a, 0.7)
        value(data[1][0], 0.2)
    assert not programs
    np.testing.assert_allclose(jax.jit(value)(a, 0.1), eager[1], atol=1e-12)
    np.testing.assert_allclose(jax.vmap(value, (None, 0))(a, ridges), eager, atol=1e-10)
    many = np.stack([one[0] for one in data])
    found = jax.vmap(value, (0, None))(many, 0.1)
    np.testing.assert_allclose(found, [value(x, 0.1) for x in many], atol=1e-10)
    assert (np.diff(eager) < 0).all()


@pytest.mark.usefixtures("x64")
def test_derivatives() -> None:
    def value(a: Any, b: Any, w: Any, ridge: Any) -> Any:
        smooth = hgr_jax.kb(a, b, 3, 2, weights=w, ridge=ridge)
        fit = hgr_jax.kb_fit(a, b, 3, 2, weights=w, ridge=ridge)
        return smooth, fit.f(a[:5])

    a, b, _, w = map(jnp.asarray, some_data(40))
    check_derivatives(value, (a, b, w, 0.1))
    slopes = jax.jit(jax.grad(lambda *x: value(*x)[0], (0, 3)))(a, b, w, jnp.zeros(()))
    assert all(np.isfinite(slope).all() for slope in slopes)


def test_degenerate() -> None:
    a, b, _, _ = (x.astype(np.float32) for x in some_data())
    one = np.ones(ROWS, np.float32)
    step = (a > 0).astype(np.float32)
    gradient = jax.jit(jax.value_and_grad(lambda x, y: hgr_jax.kb(x, y, 4, 2, ridge=0.1), (0, 1)))
    for x, y in ((one, b), (a, one), (step, b), (a, a)):
        value, slopes = gradient(x, y)
        assert (value == 0) == (x is one or y is one)
        assert all(np.isfinite(slope).all() for slope in slopes)
    assert np.isnan(hgr_jax.kb(np.where(a > 1, np.nan, a), b, 4, 2, ridge=0.1))
    assert np.isnan(jax.jit(lambda r: hgr_jax.kb(a, b, 4, 2, ridge=r))(-1.0))
    far = (1e15 * a).astype(np.float32)
    near = hgr_jax.kb(a, b, 4, 2, ridge=0.1)
    np.testing.assert_allclose(hgr_jax.kb(far, b, 4, 2, ridge=0.1), near, atol=1e-5)


class TestSelection:
    @pytest.mark.usefixtures("x64")
    def test_scores_are_those_of_a_loop_of_fits(self) -> None:
        a, b, _, weights = some_data()
        ridges, folds = (0.0, 0.1, 2.0), 3
        order = deal_folds(KEY, ROWS, folds)
        for h, k in ((4, 2), (BUMPS, 2)):
            found = select_ridge(
                a, b, h, k, ridges=ridges, folds=folds, key=KEY, weights=weights, rule="best"
            )
            for i, ridge in enumerate(ridges):
                scores = []
                for rows in order:
                    inside = np.isin(np.arange(ROWS), rows)
                    w = np.where(inside, 0, weights)
                    fit = hgr_jax.kb_fit(a, b, h, k, weights=w, ridge=ridge, solver="svd")
                    scores.append(fit.score(a, b, weights=np.where(inside, weights, 0)))
                np.testing.assert_allclose(found.scores[i], np.mean(scores), atol=1e-7)
                error = np.std(scores, ddof=1) / folds**0.5
                np.testing.assert_allclose(found.standard_errors[i], error, atol=1e-7)
                value = hgr_jax.kb(a, b, h, k, weights=weights, ridge=ridge, solver="svd")
                np.testing.assert_allclose(found.values[i], value, atol=1e-9)
            assert found.ridge == ridges[np.argmax(found.scores)]

    def test_many_hats_on_few_rows(self) -> None:
        for seed in range(2):
            rng = np.random.default_rng(seed)
            a, noise = rng.standard_normal((2, 5200)).astype(np.float32)
            b = np.sin(2 * a) + noise
            many = hats(quantiles(a[:200], 40)), hats(quantiles(b[:200], 40))
            chosen = {
                rule: select_ridge(a[:200], b[:200], *many, rule=rule, key=KEY).ridge
                for rule in ("best", "one_standard_error")
            }
            assert chosen["one_standard_error"] >= chosen["best"] > 0
            plain, *regularised = (
                float(hgr_jax.kb_fit(a[:200], b[:200], *many, ridge=r).score(a[200:], b[200:]))
                for r in (0.0, *chosen.values())
            )
            assert min(regularised) > plain + 0.03

    def test_degenerate(self) -> None:
        a, b, _, _ = (x.astype(np.float32) for x in some_data())
        found = select_ridge(a, np.ones_like(a), BUMPS, 2, ridges=(1.0, 0.0), key=KEY)
        assert not found.scores.any()
        assert found.ridge == 1
        found = select_ridge(a > 0, b, BUMPS, 2, folds=2)
        assert np.isfinite(found.scores).all()


def test_ridges_that_rounding_hides_are_taken_for_the_least() -> None:
    """Features that depend on each other: their products have no Cholesky factor of their own."""
    rng = np.random.default_rng(7)
    a, b = np.arange(300) % 5, rng.normal(size=300)
    found = select_ridge(a.astype(float), b, indicators(5), 3, ridges=[0, 1e-20])
    assert np.isfinite(found.scores).all()
