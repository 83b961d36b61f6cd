"""Small matrices: factors, and the top pair with its derivatives, ties and warm start."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from hgr_jax.core.linalg import inverse_cholesky, right_singular
from hgr_jax.core.numerics import extremes, safe_rsqrt
from hgr_jax.core.solvers import SOLVERS, lstsq_pair, safe_norm, top_pair

SHAPES = [(3, 3), (5, 2), (2, 5), (4, 1), (1, 4), (1, 1)]


@pytest.fixture(params=SOLVERS)
def solver(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize("shape", SHAPES)
def test_value_against_numpy(solver: str, shape: tuple[int, int], rng: np.random.Generator) -> None:
    m = (rng.standard_normal(shape) / 3).astype(np.float32)
    pair = top_pair(jnp.asarray(m), solver)
    u, values, v = np.linalg.svd(m)
    np.testing.assert_allclose(pair.correlation, values[0], rtol=1e-6)
    np.testing.assert_allclose(abs(pair.u @ u[:, 0]), 1, rtol=1e-5)
    np.testing.assert_allclose(abs(pair.v @ v[0]), 1, rtol=1e-5)
    np.testing.assert_allclose(pair.u @ m @ pair.v, values[0], rtol=1e-5)
    assert pair.residual < 1e-6


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((3, 3), 2),
        ((4, 2), 1),
        ((2, 4), 1),
        pytest.param((4, 2), 2, marks=pytest.mark.slow),
        pytest.param((2, 4), 2, marks=pytest.mark.slow),
    ],
)
def test_derivatives(
    solver: str, shape: tuple[int, int], order: int, rng: np.random.Generator
) -> None:
    @jax.jit
    def triple(m: jax.Array) -> tuple[jax.Array, ...]:
        pair = top_pair(m, solver)
        sign = jnp.sign(jax.lax.stop_gradient(pair.v[0]))
        return pair.correlation, sign * pair.u, sign * pair.v

    m = jnp.asarray(rng.standard_normal(shape))
    check_grads(triple, (m,), order=order, modes=["fwd", "rev"], atol=1e-5, rtol=1e-5)
    batch = jnp.asarray(rng.standard_normal((3, *shape)))
    jacobian = jax.jacobian(lambda m: triple(m)[2])
    alone = jnp.stack([jacobian(m) for m in batch])
    np.testing.assert_allclose(jax.vmap(jacobian)(batch), alone, atol=1e-10)


@pytest.mark.parametrize(
    "m", [np.zeros((3, 2)), np.eye(3), np.diag([0.5, 0.5, 0.1]), np.ones((2, 2))]
)
def test_ties_and_zeros_have_finite_derivatives(solver: str, m: np.ndarray) -> None:
    def everything(m: jax.Array) -> jax.Array:
        pair = top_pair(m, solver)
        return pair.correlation + pair.u.sum() + pair.v.sum()

    m = jnp.asarray(m, jnp.float32)
    expected = np.linalg.svd(m, compute_uv=False)[0]
    np.testing.assert_allclose(top_pair(m, solver).correlation, expected, atol=1e-6)
    assert np.isfinite(jax.jit(jax.grad(everything))(m)).all()
    assert np.isfinite(jax.jit(jax.hessian(everything))(m)).all()


@pytest.mark.usefixtures("x64")
def test_v_keeps_its_length_to_second_order_where_others_tie(
    solver: str, rng: np.random.Generator
) -> None:
    m, direction = jnp.diag(jnp.array([0.8, 0.8, 0.3])), jnp.asarray(rng.standard_normal((3, 3)))

    def square(t: jax.Array) -> jax.Array:
        return jnp.sum(top_pair(m + t * direction, solver).v ** 2)

    assert abs(jax.jit(jax.jacfwd(jax.jacfwd(square)))(0.0)) < 1e-10


@pytest.mark.parametrize("start", [None, np.array([0.3, 0.2, 0.9, 0.1], np.float32)])
def test_of_tied_functions_the_first(
    solver: str, start: np.ndarray | None, rng: np.random.Generator
) -> None:
    """Two pairs of correlation 0.8, which use the features 1, 2 and 3 of v, and one of 0.3."""
    turn = np.linalg.qr(rng.standard_normal((2, 2)))[0]
    v = np.array([[0, 0.8, 0.6, 0], [0, 0, 0, 1], [1, 0, 0, 0]])
    v[:2] = turn @ v[:2]
    u = np.linalg.qr(rng.standard_normal((5, 3)))[0]
    m = jnp.asarray(u @ np.diag([0.8, 0.8, 0.3]) @ v, jnp.float32)
    pair = top_pair(m, solver, None if start is None else jnp.asarray(start))
    np.testing.assert_allclose(pair.correlation, 0.8, rtol=1e-6)
    np.testing.assert_allclose(np.abs(pair.v), [0, 0.8, 0.6, 0], atol=1e-5)
    assert np.isfinite(jax.grad(lambda m: top_pair(m, solver).v.sum())(m)).all()


def test_any_start_reaches_the_global_optimum(rng: np.random.Generator) -> None:
    m = jnp.asarray(rng.standard_normal((5, 5)) / 3, jnp.float32)
    _, values, v = np.linalg.svd(m)
    starts = [*v, np.zeros(5), 1e-20 * np.ones(5), rng.standard_normal(5)]
    for start in starts:
        pair = top_pair(m, "projected_gradient", jnp.asarray(start, jnp.float32))
        np.testing.assert_allclose(pair.correlation, values[0], rtol=1e-5)


def test_a_good_start_saves_iterations(rng: np.random.Generator) -> None:
    m = jnp.asarray(rng.standard_normal((5, 5)) / 3, jnp.float32)
    _, _, v = np.linalg.svd(m)
    near = top_pair(m, "projected_gradient", jnp.asarray(v[0]))
    far = top_pair(m, "projected_gradient", jnp.asarray(rng.standard_normal(5), jnp.float32))
    assert 0 < int(near.iterations) < int(far.iterations)


def test_lstsq_pair(rng: np.random.Generator) -> None:
    m = rng.standard_normal((4, 3)).astype(np.float32)
    for matrix, expected in ((m, 0), (m.T, 1)):
        matrix = matrix.copy()
        column, row = np.linalg.norm(matrix[:, 0]), np.linalg.norm(matrix[0])
        if (column < row) == (expected == 0):
            matrix[:, 0] *= 10 if expected == 0 else 0.1
            column, row = np.linalg.norm(matrix[:, 0]), np.linalg.norm(matrix[0])
        pair, direction = lstsq_pair(jnp.asarray(matrix), 1, 1)
        assert int(direction) == expected
        np.testing.assert_allclose(pair.correlation, max(column, row), rtol=1e-6)
        np.testing.assert_allclose(pair.u @ matrix @ pair.v, pair.correlation, rtol=1e-5)
        assert pair.u.shape == (matrix.shape[0],)
        assert pair.v.shape == (matrix.shape[1],)


def test_best_of_leading_blocks(rng: np.random.Generator) -> None:
    m = rng.standard_normal((5, 6)).astype(np.float32)
    pair, _ = lstsq_pair(jnp.asarray(m), 2, 3)
    expected = max(np.linalg.norm(m[:, :3], 2), np.linalg.norm(m[:2], 2))
    np.testing.assert_allclose(pair.correlation, expected, rtol=1e-6)


def test_safe_norm_at_zero() -> None:
    assert safe_norm(jnp.zeros(3)) == 0
    np.testing.assert_array_equal(jax.grad(safe_norm)(jnp.zeros(3)), np.zeros(3))
    np.testing.assert_allclose(jax.grad(safe_norm)(jnp.array([3.0, 4.0])), [0.6, 0.8])


def test_inverse_roots_and_their_derivatives_are_finite() -> None:
    x = jnp.array([-1.0, 0.0, 1e-37, 4.0], jnp.float32)
    values, slopes = jax.jvp(safe_rsqrt, (x,), (jnp.abs(x),))
    np.testing.assert_allclose(values, [0, 0, 10**18.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(slopes, [0, 0, -(10**18.5) / 2, -0.25], rtol=1e-6)
    assert np.isnan(safe_rsqrt(jnp.array(jnp.nan)))


def test_extremes() -> None:
    x = jnp.array([[1.0, jnp.nan], [-3.0, 2.0], [2.0, 5.0]])
    low, high = extremes(x)
    np.testing.assert_array_equal(low, [[-3, np.nan]])
    np.testing.assert_array_equal(high, [[2, np.nan]])
    assert not np.any(jax.grad(lambda x: extremes(x)[0].sum())(x[:, :1]))


def definite(size: int, rng: np.random.Generator) -> np.ndarray:
    m = rng.standard_normal((7, 2 * size + 1, size))
    return m.swapaxes(1, 2) @ m / size


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (1, 3), (3, 1)])
def test_right_singular_of_one_and_of_a_batch(
    shape: tuple[int, int], rng: np.random.Generator
) -> None:
    m = rng.standard_normal((7, *shape))
    one_by_one = jax.tree.map(lambda *x: np.stack(x), *map(right_singular, m))
    exact = np.linalg.svd(m, compute_uv=False)
    for values, rows, largest, second in (jax.vmap(right_singular)(m), one_by_one):
        found = -np.sort(-np.asarray(values), axis=1)
        np.testing.assert_allclose(found[:, : exact.shape[1]], exact, atol=1e-12)
        np.testing.assert_allclose(found[:, exact.shape[1] :], 0, atol=1e-7)
        np.testing.assert_allclose(largest, exact[:, 0], rtol=1e-12)
        np.testing.assert_allclose(second, exact[:, 1:2].sum(axis=1), atol=1e-7)
        lengths = np.linalg.norm(m @ np.asarray(rows).swapaxes(1, 2), axis=1)
        np.testing.assert_allclose(lengths, values, atol=1e-7)


@pytest.mark.usefixtures("x64")
def test_derivatives_of_the_inverse_factor(rng: np.random.Generator) -> None:
    s = jnp.asarray(definite(4, rng)[0] + np.eye(4))
    exact = jax.jacfwd(lambda s: jnp.linalg.inv(jnp.linalg.cholesky(s)))(s)
    for derivative in (jax.jacfwd, jax.jacrev):
        ours = derivative(lambda s: inverse_cholesky((s + s.T) / 2))(s)
        np.testing.assert_allclose(ours, exact, atol=1e-10)
    direction = jnp.asarray(definite(4, rng)[1])

    def along(t: jax.Array) -> jax.Array:
        return inverse_cholesky(s + t * direction)

    step = 1e-4
    second = (along(step) - 2 * along(0.0) + along(-step)) / step**2
    ours = jax.jacfwd(jax.jacfwd(along))(jnp.zeros(()))
    np.testing.assert_allclose(ours, second, atol=1e-6)


def test_what_is_not_definite_gives_nan() -> None:
    s = jnp.asarray([[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]])
    assert np.isnan(inverse_cholesky(s[0])).any()
    found = np.asarray(jax.vmap(inverse_cholesky)(s))
    assert np.isnan(found[0]).any()
    np.testing.assert_array_equal(found[1], np.eye(2))
