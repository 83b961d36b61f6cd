"""Small matrices: factors, and the top pair with its derivatives, ties and warm start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def matrix_of_moments(rng: np.random.Generator, h: int, k: int) -> np.ndarray:
    """Cross moments of orthonormal functions: singular values up to 1, at times close."""
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
    """In values, and in derivatives along a direction."""
    if dtype is np.float64:
        request.getfixturevalue("x64")

    @jax.jit
    def both(m: jax.Array, direction: jax.Array) -> Any:
        def values(m: jax.Array) -> Any:
            return double_kernel(m).correlation, top_pair(m).correlation

        return jax.jvp(values, (m,), (direction,)), double_kernel(m).iterations

    arrived = 0
    for h, k in [(5, 6), (4, 2)] * 6:
        m = matrix_of_moments(rng, h, k)
        direction = jnp.asarray(rng.standard_normal(m.shape) / m.size, dtype)
        ((value, expected), moved), iterations = both(jnp.asarray(m, dtype), direction)
        np.testing.assert_allclose(value, expected, atol=tolerance)
        np.testing.assert_allclose(value, np.linalg.svd(m, compute_uv=False)[0], atol=tolerance)
        np.testing.assert_allclose(*moved, atol=tolerance)
        arrived += int(iterations) < MAX_ITERATIONS
    assert arrived >= 2
