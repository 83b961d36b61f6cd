"""Bases are orthonormal on the data, whatever the data."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bench import reference
from bench.data import DISTRIBUTIONS, awkward_pair
from hgr_jax.core.orthonormal import (
    FittedPolynomials,
    PolynomialBasis,
    fit_features,
    fit_polynomials,
)

fit = jax.jit(fit_polynomials, static_argnums=1)


def fit_one(x: jax.Array, degree: int, w: jax.Array | None = None) -> FittedPolynomials:
    """A fit of one variable, its axis dropped from the basis."""
    fitted = fit((x,), (degree,), w)
    return fitted._replace(basis=fitted.basis.select(0, degree))


def orthonormal(x: np.ndarray, degree: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Rows of the fitted basis, whitened by its own Gram matrix, as the measures do."""
    w = None if weights is None else jnp.asarray(weights / weights.sum(), x.dtype)
    basis, _, whitener, conditioned, *_ = fit_one(jnp.asarray(x), degree, w)
    assert conditioned
    rows = jnp.stack(jax.jit(PolynomialBasis.polynomials)(basis, jnp.asarray(x)))
    whitened = (whitener @ rows)[1:]
    return np.asarray(whitened, np.float64)[np.asarray(basis.in_span)]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("rows", [40, 3000, 20_000])
def test_spans_the_polynomials_in_float32(name: str, rows: int) -> None:
    x = awkward_pair(name, rows)[0].astype(np.float32)
    ours = orthonormal(x, 6)
    exact = np.asarray(reference.orthonormal_polynomials(x, 6), np.float64) * np.sqrt(rows)
    assert len(ours) == len(exact)
    # At a far outlier the values hang on rounding, which differs from program to program.
    atol = 1e-4 if name in ("lognormal", "student_t2") else 5e-6
    np.testing.assert_allclose(ours @ ours.T / rows, np.eye(len(ours)), atol=atol)
    # The same space, and the same nested directions up to sign.
    cosines = np.abs(np.sum(ours * exact, axis=1)) / rows
    np.testing.assert_allclose(cosines, 1, atol=1e-4)


def test_rare_values_that_the_sketch_misses_are_found() -> None:
    # Three values; the middle one in 5 of 100,000 rows, at neither a stride nor an extreme.
    x = np.zeros(100_000, np.float32)
    x[50_000:] = 2
    x[[10_001, 30_007, 50_011, 70_013, 90_017]] = 1
    basis, _, _, conditioned, *_ = fit_one(jnp.asarray(x), 4)
    assert conditioned
    assert basis.in_span.tolist() == [True, True, False, False]
    np.testing.assert_allclose(orthonormal(x, 4) @ orthonormal(x, 4).T / 1e5, np.eye(2), atol=1e-5)


def test_sorted_data_and_a_single_outlier() -> None:
    x = np.sort(np.random.default_rng(0).standard_normal(50_000)).astype(np.float32)
    x[-1] = 1e4
    ours = orthonormal(x, 5)
    np.testing.assert_allclose(ours @ ours.T / len(x), np.eye(5), atol=1e-5)


@pytest.mark.parametrize("rows", [100, 5000])
def test_weights(rows: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal(rows).astype(np.float32)
    weights = (rng.uniform(size=rows) * (rng.uniform(size=rows) < 0.3)).astype(np.float32)
    ours = orthonormal(x, 4, weights)
    shares = weights / weights.sum()
    np.testing.assert_allclose((ours * shares) @ ours.T, np.eye(4), atol=5e-6)


def test_weights_on_a_handful_of_long_data(rng: np.random.Generator) -> None:
    x = rng.standard_normal(30_000).astype(np.float32)
    weights = np.zeros(30_000, np.float32)
    weights[[17, 4_242, 11_111, 29_999]] = 1
    ours = orthonormal(x, 5, weights)
    assert len(ours) == 3
    np.testing.assert_allclose((ours * weights / 4) @ ours.T, np.eye(3), atol=1e-4)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (np.full(30, 0.1), 0),
        (np.full(30, 1e30), 0),
        (np.arange(30) % 2, 1),
        (np.arange(30) % 4, 3),
        (np.array([1.0, 2.0]), 1),
        (np.array([5.0]), 0),
        (np.arange(30) * 1e-30, 5),
        (np.arange(30) * 1e30, 5),
    ],
)
def test_directions_that_the_data_supports(x: np.ndarray, expected: int) -> None:
    basis, gram, *_ = fit_one(jnp.asarray(x, jnp.float32), 5)
    assert int(basis.in_span.sum()) == expected
    dead = ~np.asarray(basis.in_span)
    assert not np.any(np.asarray(basis.functions(jnp.asarray(x, jnp.float32)))[1:][dead])
    assert np.isfinite(gram).all()


def test_two_variables_of_different_degrees_at_once(rng: np.random.Generator) -> None:
    a, b = (jnp.asarray(rng.standard_normal(500), jnp.float32) for _ in range(2))
    basis, gram, whitener, *_ = fit((a, b), (2, 4), None)
    assert basis.in_span.tolist() == [[True, True, False, False], [True] * 4]
    rows = jnp.stack(basis.polynomials(jnp.stack([a, b])), axis=1).reshape(10, -1)
    np.testing.assert_allclose(gram, rows @ rows.T / 500, atol=1e-6)
    whitened = whitener @ rows
    own = [0, 1, 2], [5, 6, 7, 8, 9]
    for index in own:
        moments = whitened[index, :] @ whitened[index, :].T / 500
        np.testing.assert_allclose(moments, np.eye(len(index)), atol=1e-5)
    assert not np.any(np.asarray(whitened)[[3, 4]])


def test_far_outliers_need_corrections_and_get_them(rng: np.random.Generator) -> None:
    x = jnp.asarray(np.exp(3 * rng.standard_normal(12)), jnp.float32)
    basis, gram, _, conditioned, *_ = fit_one(x, 8)
    assert conditioned
    assert np.any(np.asarray(basis.correction))

    def smallest(gram: jax.Array) -> float:
        scale = np.sqrt(np.diagonal(gram))
        return float(np.linalg.eigvalsh(np.asarray(gram) / np.outer(scale, scale))[0])

    plain = jnp.stack(basis.polynomials(x, corrected=False))
    assert smallest(plain @ plain.T / 12) < 1e-3
    assert smallest(gram) > 0.1


def test_features(rng: np.random.Generator) -> None:
    base = rng.standard_normal((60, 3)).astype(np.float32) * np.array([1, 1e3, 1e-3], np.float32)
    dependent = base[:, :1] - 2 * base[:, 1:2]
    features = np.concatenate([base[:, :2], dependent, np.ones((60, 1)), base[:, 2:]], axis=1)
    basis, well_conditioned = jax.jit(fit_features)(jnp.asarray(features, jnp.float32), None)
    assert well_conditioned
    assert basis.in_span.tolist() == [True, True, False, False, True]
    rows = np.asarray(basis.functions(jnp.asarray(features, jnp.float32)))[1:]
    expected = np.diag([1.0, 1.0, 0.0, 0.0, 1.0])
    np.testing.assert_allclose(rows @ rows.T / 60, expected, atol=1e-5)
    np.testing.assert_allclose(rows.mean(axis=1), 0, atol=1e-5)


def test_weighted_features(rng: np.random.Generator) -> None:
    features = jnp.asarray(rng.standard_normal((60, 3)), jnp.float32)
    weights = jnp.asarray(rng.dirichlet(np.ones(60)), jnp.float32)
    rows = jax.jit(fit_features)(features, weights)[0].functions(features)[1:]
    np.testing.assert_allclose((rows * weights[None, :]) @ rows.T, np.eye(3), atol=1e-5)
