"""Kernel canonical correlation and the contrasts of kernel ICA, against the dense eigenproblems."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from derivative_support import check_derivatives

import hgr_jax

ROWS = 200

MEASURES: dict[str, Callable[..., jax.Array]] = {
    "cca": hgr_jax.kernel_cca,
    "kgv": hgr_jax.kernel_ica_contrast,
}

every_measure = pytest.mark.parametrize("name", MEASURES)


def gram(x: np.ndarray, bandwidth: float) -> np.ndarray:
    """The centred Gram matrix of the standardised variable."""
    x = np.asarray(x, np.float64).reshape(len(x), -1)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    matrix = np.exp(-((x[:, None] - x[None]) ** 2).sum(axis=-1) / (2 * bandwidth**2))
    centring = np.eye(len(x)) - 1 / len(x)
    return centring @ matrix @ centring


def dense(
    name: str, a: np.ndarray, b: np.ndarray, kappa: float, widths: tuple[float, float]
) -> float:
    """The generalised eigenvalues of the papers, from full matrices."""
    rows = len(a)
    k, m = (gram(x, width) for x, width in zip((a, b), widths, strict=True))
    if name == "cca":  # on the spaces where the Gram matrices are not 0
        sides = []
        for matrix in (k, m):
            values, vectors = scipy.linalg.eigh(matrix)
            keep = values > 1e-13 * rows
            sides.append((values[keep], vectors[:, keep]))
        (s, u), (t, v) = sides
        product = s[:, None] * (u.T @ v) * t
        zero = np.zeros((len(s), len(s))), np.zeros((len(t), len(t)))
        left = np.block([[zero[0], product], [product.T, zero[1]]])
        right = np.diag(np.concatenate([x**2 + rows * kappa * x for x in (s, t)]))
        return float(scipy.linalg.eigh(left, right, eigvals_only=True)[-1])
    kr, mr = (x + rows * kappa / 2 * np.eye(rows) for x in (k, m))
    left = np.block([[kr @ kr, k @ m], [m @ k, mr @ mr]])
    values = scipy.linalg.eigh(left, scipy.linalg.block_diag(kr @ kr, mr @ mr), eigvals_only=True)
    return float(-np.log(values).sum() / 2)


def pair(rows: int = ROWS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    a, noise = np.random.default_rng(seed).standard_normal((2, rows))
    return a, a**2 + noise / 2


@every_measure
@pytest.mark.parametrize(
    ("kappa", "widths"), [(2e-2, (1.0, 1.0)), (1e-3, (0.5, 2.0)), (0.2, (1.0, 1.0))]
)
def test_against_dense(name: str, kappa: float, widths: tuple[float, float]) -> None:
    a, b = pair()
    expected = dense(name, a, b, kappa, widths)
    options = {"regularization": kappa, "bandwidth": widths}
    single = MEASURES[name](np.float32(a), np.float32(b), **options)
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, expected, rtol=1e-4, atol=5e-6 if name == "cca" else 0)
    with jax.enable_x64(True):
        np.testing.assert_allclose(MEASURES[name](a, b, **options), expected, atol=1e-9)


@pytest.mark.usefixtures("x64")
@every_measure
def test_several_variables(name: str, rng: np.random.Generator) -> None:
    a = rng.standard_normal((ROWS, 2))
    b = a[:, 0] * a[:, 1]
    value = MEASURES[name](a, b, regularization=1e-2, bandwidth=1.5, rank=100)
    np.testing.assert_allclose(value, dense(name, a, b, 1e-2, (1.5, 1.5)), atol=1e-9)


@functools.cache
def derivatives(name: str) -> Callable[..., Any]:
    def value(a: Any, b: Any, kappa: Any, width: Any) -> jax.Array:
        return MEASURES[name](a, b, regularization=kappa, bandwidth=width)

    return jax.jit(jax.value_and_grad(value))


@every_measure
@pytest.mark.parametrize("bandwidth", [0.5, 5.0])
def test_less_ridge_than_rounding_counts_as_the_least(name: str, bandwidth: float) -> None:
    a, b = (np.float32(x) for x in pair(1000))
    eps = float(np.finfo(np.float32).eps)
    least, _ = derivatives(name)(a, b, (16 if name == "cca" else 32) * eps, bandwidth)
    more = MEASURES[name](a, b, regularization=1e-4, bandwidth=bandwidth)
    for regularization in (1e-7, 1e-30):
        value, gradient = derivatives(name)(a, b, regularization, bandwidth)
        np.testing.assert_allclose(value, least, rtol=1e-6 if name == "cca" else 1e-3)
        assert value > more
        assert np.isfinite(gradient).all()
    assert np.isnan(derivatives(name)(a, b, -1.0, bandwidth)[0])


def test_documented_levels_and_defaults() -> None:
    values = []
    for seed in range(10):
        x, y = np.random.default_rng(seed).standard_normal((2, 1000)).astype(np.float32)
        values.append(float(hgr_jax.kernel_cca(x, y)))
    np.testing.assert_allclose(np.mean(values), 0.085, atol=0.02)
    np.testing.assert_allclose(hgr_jax.kernel_cca(x, x), 0.96, atol=0.01)
    for rows, kappa, width in ((1000, 2e-2, 1.0), (1001, 2e-3, 0.5)):
        a, b = (np.float32(x) for x in pair(rows))
        options = {"regularization": kappa, "bandwidth": width, "rank": 64}
        assert hgr_jax.kernel_ica_contrast(a, b) == hgr_jax.kernel_ica_contrast(a, b, **options)


@pytest.mark.usefixtures("x64")
@every_measure
def test_derivatives(name: str) -> None:
    a, b = (jnp.asarray(x) for x in pair(15))

    def value(a: jax.Array, b: jax.Array, kappa: jax.Array, width: jax.Array) -> jax.Array:
        return MEASURES[name](a, b, regularization=kappa, bandwidth=(width, 1.0), rank=8)

    check_derivatives(value, (a, b, 2e-2, 1.2))
    a, b = (jnp.asarray(x) for x in pair())
    along = jax.grad(lambda t: MEASURES[name](a, b + t * jnp.sin(a)))
    slopes = jax.jit(jax.value_and_grad(along))
    expected = (slopes(1e-5)[0] - slopes(-1e-5)[0]) / 2e-5
    np.testing.assert_allclose(slopes(0.0)[1], expected, rtol=1e-4)


@every_measure
def test_vmap_and_no_recompilation(name: str, compilations: Any) -> None:
    a, b = (jnp.asarray(x, jnp.float32).reshape(3, ROWS) for x in pair(3 * ROWS))
    alone = jnp.stack([MEASURES[name](x, y) for x, y in zip(a, b, strict=True)])
    np.testing.assert_allclose(jax.vmap(MEASURES[name])(a, b), alone, rtol=1e-5)
    x, y = b[1], a[2]
    with compilations() as programs:
        MEASURES[name](x, y, regularization=0.1, bandwidth=(2.0, 0.7))
    assert not programs
