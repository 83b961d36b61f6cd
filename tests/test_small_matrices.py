"""Small matrices: one by LAPACK, many by our own code, against NumPy in float64."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hgr_jax.core.linalg import (
    inverse_cholesky,
    right_singular,
    symmetric_eigen,
)

BATCH = 7


def definite(size: int, rng: np.random.Generator) -> np.ndarray:
    m = rng.standard_normal((BATCH, 2 * size + 1, size))
    return m.swapaxes(1, 2) @ m / size


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("size", [1, 2, 3, 6, 8, 15])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_batch_and_one_after_the_other(size: int, dtype: str, rng: np.random.Generator) -> None:
    s = definite(size, rng).astype(dtype)
    tolerance = 200 * np.finfo(dtype).eps
    identity = np.broadcast_to(np.eye(size), s.shape)
    largest = np.abs(s).max()
    for inverse in (jax.vmap(inverse_cholesky)(s), np.stack([inverse_cholesky(x) for x in s])):
        w = np.asarray(inverse, np.float64)
        assert np.all(np.triu(w, 1) == 0)
        np.testing.assert_allclose(w @ s @ w.swapaxes(1, 2), identity, atol=50 * tolerance)
    one_by_one = [np.stack(x) for x in zip(*map(symmetric_eigen, s), strict=True)]
    for values, vectors in (jax.vmap(symmetric_eigen)(s), one_by_one):
        v = np.asarray(vectors, np.float64)
        np.testing.assert_allclose(
            np.sort(values), np.linalg.eigvalsh(s.astype(np.float64)), atol=tolerance * largest
        )
        np.testing.assert_allclose(v.swapaxes(1, 2) @ v, identity, atol=tolerance)
        product = v * np.asarray(values)[:, None, :]
        np.testing.assert_allclose(s @ v, product, atol=tolerance * largest)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (1, 3), (3, 1)])
def test_singular_vectors(shape: tuple[int, int], rng: np.random.Generator) -> None:
    m = rng.standard_normal((BATCH, *shape))
    one_by_one = jax.tree.map(lambda *x: np.stack(x), *map(right_singular, m))
    exact = np.linalg.svd(m, compute_uv=False)
    for values, rows, leading in (jax.vmap(right_singular)(m), one_by_one):
        found = -np.sort(-np.asarray(values), axis=1)
        np.testing.assert_allclose(found[:, : exact.shape[1]], exact, atol=1e-12)
        np.testing.assert_allclose(found[:, exact.shape[1] :], 0, atol=1e-7)
        np.testing.assert_allclose(leading[0], exact[:, 0], rtol=1e-12)
        np.testing.assert_allclose(leading[1], exact[:, 1:2].sum(axis=1), atol=1e-7)
        lengths = np.linalg.norm(m @ np.asarray(rows).swapaxes(1, 2), axis=1)
        np.testing.assert_allclose(lengths, values, atol=1e-7)


@pytest.mark.usefixtures("x64")
def test_matrices_too_large_for_rotations_are_solved_one_by_one(rng: np.random.Generator) -> None:
    s = definite(70, rng)[:2]
    values, vectors = jax.vmap(symmetric_eigen)(s)
    product = np.asarray(vectors) * np.asarray(values)[:, None, :]
    np.testing.assert_allclose(s @ np.asarray(vectors), product, atol=1e-11)


@pytest.mark.usefixtures("x64")
def test_equal_eigenvalues_and_zero(rng: np.random.Generator) -> None:
    q, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    tied = (q * np.array([2.0, 2, 1, 1, 0])) @ q.T
    s = np.stack([tied, np.zeros((5, 5)), np.eye(5)])
    values, vectors = (np.asarray(x) for x in jax.vmap(symmetric_eigen)(s))
    np.testing.assert_allclose(np.sort(values[0]), [0, 1, 1, 2, 2], atol=1e-14)
    np.testing.assert_allclose(values[1:], [[0] * 5, [1] * 5], atol=1e-14)
    np.testing.assert_allclose(
        vectors.swapaxes(1, 2) @ vectors, np.broadcast_to(np.eye(5), s.shape), atol=1e-14
    )


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
