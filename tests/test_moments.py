"""Sums over blocks of rows equal sums over all rows, with their derivatives."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hgr_jax.core import rows as row_sums


def inside_only(rows: Callable[[jax.Array], jax.Array]) -> Callable[..., jax.Array]:
    """Rows of functions that are 0 where a row only fills a block up."""

    def masked(inside: jax.Array | None, x: jax.Array) -> jax.Array:
        return rows(x) if inside is None else rows(x) * inside[None, :]

    return masked


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_sums, "WHOLE_ROWS", 10)
    monkeypatch.setattr(row_sums, "BLOCK_ROWS", 4)


@settings(max_examples=20, deadline=None)
@given(rows=st.integers(1, 40))
def test_blocks_cover_every_row_once(rows: int) -> None:
    x = jnp.arange(1.0, rows + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_sums, "WHOLE_ROWS", 3)
        patch.setattr(row_sums, "BLOCK_ROWS", 3)
        total = row_sums.sum_over_rows(
            lambda inside, x: jnp.sum(x if inside is None else inside * x), (x,)
        )
    assert total == rows * (rows + 1) / 2


@pytest.mark.usefixtures("small_blocks", "x64")
def test_weighted_gram_and_its_derivatives(rng: np.random.Generator) -> None:
    x, w = (jnp.asarray(rng.standard_normal(27)) for _ in range(2))

    def gram(x: jax.Array, w: jax.Array) -> jax.Array:
        return row_sums.mean_product(inside_only(lambda x: jnp.stack([x, x**2])), (x,), w)

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
        row_sums.mean_product(inside_only(rows), (x,), None),
        row_sums.mean_product(inside_only(rows), (x,), equal),
        rtol=1e-5,
    )


@settings(max_examples=20, deadline=None)
@given(count=st.integers(1, 40))
def test_rows_beyond_the_count_are_left_out(count: int) -> None:
    x = jnp.arange(1.0, 41)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_sums, "WHOLE_ROWS", 10)
        patch.setattr(row_sums, "BLOCK_ROWS", 7)
        total = jax.jit(row_sums.sum_over_rows, static_argnums=0)(_masked_sum, (x,), count)
    assert total == count * (count + 1) / 2


def _masked_sum(inside: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.sum(inside * x)
