"""Sums over blocks of rows equal sums over all rows, with their derivatives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hgr_jax import moments


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments, "WHOLE_ROWS", 10)
    monkeypatch.setattr(moments, "BLOCK_ROWS", 4)


@settings(max_examples=20, deadline=None)
@given(rows=st.integers(1, 40))
def test_blocks_cover_every_row_once(rows: int) -> None:
    x = jnp.arange(1.0, rows + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moments, "WHOLE_ROWS", 3)
        patch.setattr(moments, "BLOCK_ROWS", 3)
        total = moments.sum_over_rows(lambda x: jnp.sum(x), (x,))
    assert total == rows * (rows + 1) / 2


@pytest.mark.usefixtures("small_blocks", "x64")
def test_weighted_gram_and_its_derivatives(rng: np.random.Generator) -> None:
    x, w = (jnp.asarray(rng.standard_normal(27)) for _ in range(2))

    def gram(x: jax.Array, w: jax.Array) -> jax.Array:
        return moments.mean_product(lambda x: jnp.stack([x, x**2]), (x,), w)

    def whole(x: jax.Array, w: jax.Array) -> jax.Array:
        rows = jnp.stack([x, x**2])
        return (rows * w[None, :]) @ rows.T

    np.testing.assert_allclose(gram(x, w), whole(x, w))
    for ours, plain in zip(
        jax.jacrev(gram, (0, 1))(x, w), jax.jacfwd(whole, (0, 1))(x, w), strict=True
    ):
        np.testing.assert_allclose(ours, plain, atol=1e-12)


@pytest.mark.usefixtures("small_blocks")
def test_unweighted_is_equal_weights(rng: np.random.Generator) -> None:
    x = jnp.asarray(rng.standard_normal(23), jnp.float32)
    equal = jnp.full(23, 1 / 23, jnp.float32)

    def rows(x: jax.Array) -> jax.Array:
        return jnp.stack([jnp.ones_like(x), x])

    np.testing.assert_allclose(
        moments.mean_product(rows, (x,), None), moments.mean_product(rows, (x,), equal), rtol=1e-5
    )


def test_whitening_of_dead_directions() -> None:
    gram = jnp.array([[1.0, 0.5, 0.0], [0.5, 2.0, 0.0], [0.0, 0.0, 0.0]])
    mean, factor = moments.whitening(gram, jnp.array([True, False]))
    np.testing.assert_allclose(mean, [0.5, 0.0])
    np.testing.assert_allclose(factor, [[np.sqrt(1.75), 0.0], [0.0, 1.0]], rtol=1e-6)
