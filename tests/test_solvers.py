"""Small matrices: factors, and the top pair with its derivatives, ties and warm start."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hgr_jax.core.paper import MAX_ITERATIONS, double_kernel
from hgr_jax.core.solvers import CanonicalPair, top_pair

Solver = Callable[[jax.Array], CanonicalPair]


@pytest.fixture(params=[double_kernel, top_pair])
def solver(request: pytest.FixtureRequest) -> Solver:
    return request.param


@pytest.mark.parametrize(
    "m", [np.zeros((3, 2)), np.eye(3), np.diag([0.5, 0.5, 0.1]), np.ones((2, 2))]
)
def test_ties_and_zeros_have_finite_derivatives(solver: Solver, m: np.ndarray) -> None:
    def everything(m: jax.Array) -> jax.Array:
        pair = solver(m)
        return pair.correlation + pair.u.sum() + pair.v.sum()

    m = jnp.asarray(m, jnp.float32)
    expected = np.linalg.svd(m, compute_uv=False)[0]
    np.testing.assert_allclose(solver(m).correlation, expected, atol=1e-6)
    assert np.isfinite(jax.jit(jax.grad(everything))(m)).all()
    assert np.isfinite(jax.jit(jax.hessian(everything))(m)).all()


@pytest.mark.usefixtures("x64")
def test_v_keeps_its_length_to_second_order_where_others_tie(
    solver: Solver, rng: np.random.Generator
) -> None:
    m, direction = jnp.diag(jnp.array([0.8, 0.8, 0.3])), jnp.asarray(rng.standard_normal((3, 3)))

    def square(t: jax.Array) -> jax.Array:
        return jnp.sum(solver(m + t * direction).v ** 2)

    assert abs(jax.jit(jax.jacfwd(jax.jacfwd(square)))(0.0)) < 1e-10


@pytest.mark.parametrize("start", [None, np.array([0.3, 0.2, 0.9, 0.1], np.float32)])
def test_of_tied_functions_the_first(start: np.ndarray | None, rng: np.random.Generator) -> None:
    """Two pairs of correlation 0.8, which use the features 1, 2 and 3 of v, and one of 0.3."""
    turn = np.linalg.qr(rng.standard_normal((2, 2)))[0]
    v = np.array([[0, 0.8, 0.6, 0], [0, 0, 0, 1], [1, 0, 0, 0]])
    v[:2] = turn @ v[:2]
    u = np.linalg.qr(rng.standard_normal((5, 3)))[0]
    m = jnp.asarray(u @ np.diag([0.8, 0.8, 0.3]) @ v, jnp.float32)
    start = None if start is None else jnp.asarray(start)
    pair = double_kernel(m, start)
    np.testing.assert_allclose(pair.correlation, 0.8, rtol=1e-6)
    np.testing.assert_allclose(np.abs(pair.v), [0, 0.8, 0.6, 0], atol=1e-5)
    assert np.isfinite(jax.grad(lambda m: double_kernel(m, start).v.sum())(m)).all()


def matrix_of_moments(rng: np.random.Generator) -> np.ndarray:
    """Cross moments of orthonormal functions: singular values up to 1, at times close."""
    h, k = rng.integers(1, 7, 2)
    values = np.sort(rng.random(min(h, k)) ** rng.choice([0.3, 1, 4]))[::-1]
    if len(values) > 1 and rng.random() < 0.2:
        values[1] = values[0] * (1 - 10.0 ** rng.uniform(-3, -1))
    u = np.linalg.qr(rng.standard_normal((h, len(values))))[0]
    v = np.linalg.qr(rng.standard_normal((k, len(values))))[0]
    return (u * values) @ v.T


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-12)])
def test_the_papers_way_and_the_closed_form_agree(
    dtype: type, tolerance: float, rng: np.random.Generator, request: pytest.FixtureRequest
) -> None:
    """By 8 kinds of matrices, in values, and in derivatives along a direction."""
    if dtype is np.float64:
        request.getfixturevalue("x64")
    arrived = 0
    for _ in range(8):
        m = matrix_of_moments(rng)
        direction = jnp.asarray(rng.standard_normal(m.shape) / m.size, dtype)
        (value, moved), (expected, expected_moved) = (
            jax.jvp(
                lambda m, solve=solve: solve(m).correlation, (jnp.asarray(m, dtype),), (direction,)
            )
            for solve in (double_kernel, top_pair)
        )
        np.testing.assert_allclose(value, expected, atol=tolerance)
        np.testing.assert_allclose(value, np.linalg.svd(m, compute_uv=False)[0], atol=tolerance)
        np.testing.assert_allclose(moved, expected_moved, atol=tolerance)
        arrived += int(double_kernel(jnp.asarray(m, dtype)).iterations) < MAX_ITERATIONS
    assert arrived >= 2
