"""Sums over all pairs of rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hgr_jax.measures import _pair_sums as pairs
from hgr_jax.measures._pair_sums import centred_products, distances, scaled


def centred(x: np.ndarray, unbiased: bool) -> np.ndarray:
    """The centred matrix of distances, all n x n of it."""
    x = x.reshape(len(x), -1)
    n = len(x)
    matrix = np.sqrt(np.sum((x[:, None] - x[None]) ** 2, axis=-1))
    if not unbiased:
        return matrix - matrix.mean(0) - matrix.mean(1)[:, None] + matrix.mean()
    sums = matrix.sum(0)
    matrix = matrix - (sums + sums[:, None]) / (n - 2) + sums.sum() / ((n - 1) * (n - 2))
    return matrix - np.diag(np.diag(matrix))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("unbiased", [False, True])
def test_blocks_equal_the_whole(
    unbiased: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values, gradients and second derivatives; the last block is not full."""
    a, b = jnp.asarray(rng.standard_normal(23)), jnp.asarray(rng.standard_normal((23, 2)))
    left, right = (centred(np.asarray(x), unbiased) for x in (a, b))
    mean = 23 * (20 if unbiased else 23)
    expected = [np.sum(x * y) / mean for x, y in ((left, right), (left, left), (right, right))]

    def derivatives(a: jax.Array, b: jax.Array) -> tuple[jax.Array, ...]:
        def value(a: jax.Array, b: jax.Array) -> jax.Array:
            return jnp.sum(jnp.sin(centred_products(distances, unbiased, a, b)))

        def slope(a: jax.Array) -> jax.Array:
            return jnp.sum(jnp.cos(jax.grad(value)(a, b)))

        return value(a, b), *jax.grad(value, (0, 1))(a, b), jax.grad(slope)(a)

    whole = jax.jit(derivatives)(a, b)
    np.testing.assert_allclose(centred_products(distances, unbiased, a, b), expected, rtol=1e-12)
    monkeypatch.setattr(pairs, "BLOCK_ENTRIES", 23 * 3 * 4)
    jax.clear_caches()
    blocks = jax.jit(derivatives)(a, b)
    for x, y in zip(whole, blocks, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-13)


def _check_that_scaling_is_exact(x: np.ndarray) -> None:
    ratio = np.diff(np.asarray(scaled(jnp.asarray(x)), np.float64))
    exact = np.diff(x.astype(np.float64))
    factor = ratio[exact != 0] / exact[exact != 0]
    assert np.all(factor == factor[0])
    assert np.log2(factor[0]) % 1 == 0


def test_scaling_is_exact(rng: np.random.Generator) -> None:
    for centre in (-1e6, 0, 2, 1e6):
        _check_that_scaling_is_exact((centre + rng.standard_normal(50)).astype(np.float32))
    for constant in (3.0, 0.1, -1e30, 3e38):
        np.testing.assert_array_equal(scaled(jnp.full(5, constant)), 0)
    assert np.isfinite(scaled(jnp.array([0.0, 1e-45, 1e-40], jnp.float32))).all()
    assert np.isfinite(scaled(jnp.array([0.0, 3e38], jnp.float32))).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.usefixtures("x64")
def test_rounding_is_not_taken_for_variation(dtype: type) -> None:
    """Rows at equal distances have U-centred distances of 0 up to rounding."""
    products = centred_products(
        distances, True, jnp.eye(7, dtype=dtype), jnp.arange(7, dtype=dtype)
    )
    assert products[1] == 0
    assert products[2] > 0.1
