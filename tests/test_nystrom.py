"""Low-rank features of a Gaussian kernel, against the Gram matrix itself."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from hgr_jax.measures._nystrom import centred_features, gaussian_features, pivots


@functools.partial(jax.jit, static_argnums=2)
def features(x: jax.Array, bandwidth: float, rank: int) -> jax.Array:
    return gaussian_features(x / bandwidth, rank)


def gram(x: np.ndarray, bandwidth: float) -> np.ndarray:
    squared = ((x[:, None] - x[None]) ** 2).sum(axis=-1)
    return np.exp(-squared / (2 * bandwidth**2))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("columns", [1, 2])
def test_against_the_gram_matrix(rng: np.random.Generator, columns: int) -> None:
    x = rng.standard_normal((200, columns))
    f = features(jnp.asarray(x), 1.5, 100)
    np.testing.assert_allclose(f.T @ f, gram(x, 1.5), atol=1e-12)
    few = features(jnp.asarray(x), 1.5, 5)
    left = gram(x, 1.5) - few.T @ few
    assert np.linalg.eigvalsh(left).min() > -1e-12
    assert 1e-3 < np.trace(left) < 0.5 * 200


def test_single_precision(rng: np.random.Generator) -> None:
    for x in (rng.standard_normal((200, 1)), rng.standard_cauchy((200, 1))):
        f = features(jnp.asarray(x, jnp.float32), 1.0, 100)
        np.testing.assert_allclose(f.T @ f, gram(x, 1.0), atol=2e-5)


def test_equal_rows_are_chosen_once_and_order_does_not_matter(rng: np.random.Generator) -> None:
    x = np.repeat(np.float32([[0.0], [1.0], [5.0]]), [3, 4, 2], axis=0)
    chosen, in_span = pivots(jnp.asarray(x), 6)
    assert int(in_span.sum()) == 3
    assert sorted(x[chosen[:3], 0].tolist()) == [0, 1, 5]
    f = features(jnp.asarray(x), 1.0, 6)
    assert np.all(f[3:] == 0)
    np.testing.assert_allclose(f.T @ f, gram(x, 1.0), atol=1e-6)
    order = rng.permutation(9)
    np.testing.assert_allclose(features(jnp.asarray(x[order]), 1.0, 6), f[:, order], atol=1e-6)


@pytest.mark.usefixtures("x64")
def test_derivatives_with_the_rows_held_fixed(rng: np.random.Generator) -> None:
    x = jnp.asarray(rng.standard_normal((12, 2)))
    value = jax.jit(lambda x, width: features(x, width, 5))
    check_grads(value, (x, jnp.array(1.3)), order=1, rtol=1e-5)
    tied = jnp.asarray([[0.0], [1.0], [1.0], [0.0]])
    jacobian = jax.jit(jax.jacobian(lambda x: gaussian_features(x, 4)))
    for points in (tied, jnp.ones((4, 1))):
        assert np.isfinite(jacobian(points)).all()


def test_centred_and_constant(rng: np.random.Generator) -> None:
    x = jnp.asarray(rng.standard_normal(50) * 3 + 1e3, jnp.float32)
    f, constant = centred_features((x, jnp.ones(50)), (jnp.float32(1), jnp.float32(1)), 20)
    assert np.abs(f).max() > 0.1
    np.testing.assert_allclose(f.mean(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose(constant, 0, atol=1e-6)
