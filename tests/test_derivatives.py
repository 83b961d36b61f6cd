"""Derivatives of every order, in both modes, of values and of transformations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_support import check_derivatives

import hgr_jax
from bench.data import awkward_pair
from hgr_jax.core import rows as row_sums
from hgr_jax.core.canonical import SOLVERS

POINTS = np.linspace(-1.5, 1.5, 5)


every_order = pytest.mark.parametrize("order", [1, pytest.param(2, marks=pytest.mark.slow)])

pytestmark = pytest.mark.usefixtures("x64")


@pytest.fixture(params=SOLVERS)
def solver(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[jax.Array, jax.Array, jax.Array]:
    a, b = awkward_pair("uniform", 40)
    return jnp.asarray(a), jnp.asarray(b), jnp.asarray(rng.uniform(0.2, 1, 40))


@pytest.mark.parametrize(
    ("solver", "order"),
    [(SOLVERS[0], 2), (SOLVERS[1], 1), pytest.param(SOLVERS[1], 2, marks=pytest.mark.slow)],
)
def test_value(solver: str, order: int, data: tuple[jax.Array, ...]) -> None:
    check_derivatives(lambda a, b, w: hgr_jax.kb(a, b, 3, 2, weights=w, solver=solver), data, order)


@every_order
def test_fit(solver: str, order: int, data: tuple[jax.Array, ...]) -> None:
    def everything(a: jax.Array, b: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
        fit = hgr_jax.kb_fit(a, b, 3, 2, weights=w, solver=solver)
        points = jnp.asarray(POINTS)
        return fit.alpha, fit.beta, fit.f.intercept, fit.f(points), fit.g(points), fit.f(a)

    check_derivatives(everything, data, order)


@every_order
def test_sk(order: int, data: tuple[jax.Array, ...]) -> None:
    def fitted(a: jax.Array, b: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
        fit = hgr_jax.sk_fit(a, b, 3, weights=w)
        return fit.correlation, fit.alpha, fit.beta, fit.f(jnp.asarray(POINTS))

    check_derivatives(lambda a, b, w: hgr_jax.sk(a, b, 3, weights=w), data, order)
    for a, b in ((data[0], data[1]), (data[1], data[0])):
        check_derivatives(fitted, (a, b, data[2]), order)


@every_order
def test_several_variables_and_callables(order: int, data: tuple[jax.Array, ...]) -> None:
    a, b, w = data

    def fourier(x: jax.Array) -> jax.Array:
        return jnp.stack([jnp.sin(x), jnp.cos(x), jnp.sin(2 * x)], axis=1)

    check_derivatives(lambda x, b: hgr_jax.kb(x, b, 2, 2), (jnp.stack([a, w], axis=1), b), order)
    check_derivatives(lambda a, b, w: hgr_jax.kb(a, b, fourier, 2, weights=w), data, order)
    check_derivatives(lambda a, b: hgr_jax.kb_fit(a, b, fourier, 2).alpha, (a, b), order)


@every_order
def test_over_blocks_of_rows(
    monkeypatch: pytest.MonkeyPatch, order: int, data: tuple[jax.Array, ...]
) -> None:
    monkeypatch.setattr(row_sums, "WHOLE_ROWS", 16)
    monkeypatch.setattr(row_sums, "BLOCK_ROWS", 9)
    jax.clear_caches()
    check_derivatives(lambda a, b: hgr_jax.kb(a, b, 2, 2), data[:2], order)
    check_derivatives(lambda a, b, w: hgr_jax.kb_fit(a, b, 2, 2, weights=w).alpha, data, order)
    blocked = hgr_jax.kb(*data[:2], 4, 3)
    monkeypatch.undo()
    jax.clear_caches()
    np.testing.assert_allclose(hgr_jax.kb(*data[:2], 4, 3), blocked, atol=1e-12)


def test_gradient_of_weights_at_zero_weight(data: tuple[jax.Array, ...]) -> None:
    a, b, w = data
    inner = [i for i in range(40) if a.min() < a[i] < a.max() and b.min() < b[i] < b.max()][:3]
    w = w.at[jnp.asarray(inner)].set(0)
    exact = jax.grad(lambda w: hgr_jax.kb(a, b, 2, 2, weights=w))(w)
    for i in inner:
        step = 1e-6
        forward = hgr_jax.kb(a, b, 2, 2, weights=w.at[i].set(step))
        slope = (forward - hgr_jax.kb(a, b, 2, 2, weights=w)) / step
        np.testing.assert_allclose(exact[i], slope, rtol=1e-3, atol=1e-7)
