"""Rows: few programs for any number of them, and sums over blocks with their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hgr_jax
from hgr_jax.core import rows as row_sums
from hgr_jax.core.numerics import any_in_batch
from hgr_jax.core.rows import first_rows, over_rows, pad_rows, padded_length


@given(rows=st.integers(1, 10**9))
def test_at_most_a_quarter_is_padding(rows: int) -> None:
    length = padded_length(rows)
    assert rows <= length
    assert length == 128 or length <= 1.25 * rows
    assert padded_length(length) == length


def test_lengths_are_few() -> None:
    assert len({padded_length(n) for n in range(50, 3050)}) <= 20


def test_padding_repeats_the_last_row() -> None:
    x = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(pad_rows(x, 5), [[0, 1], [2, 3], [4, 5], [4, 5], [4, 5]])
    np.testing.assert_array_equal(pad_rows(jnp.asarray(x[:, 0]), 4, fill=0), [0, 2, 4, 0])
    assert pad_rows(None, 4) is None
    assert pad_rows(x, 3) is x
    assert pad_rows(x[:0], 4).shape == (0, 2)
    np.testing.assert_array_equal(first_rows(jnp.arange(4), 2), [0, 1])


def test_what_a_function_sees(compilations: Any) -> None:
    seen = []

    @over_rows(columns=2, weights=1)
    def total(x: jax.Array, w: jax.Array | None, *, count: jax.Array | None) -> jax.Array:
        seen.append((x.shape, count is None))
        return jnp.sum(x if w is None else x * w)

    assert total(np.ones(3, np.float32), np.ones(3, np.float32)) == 3
    with compilations() as programs:
        assert total(np.ones(100, np.float32), np.ones(100, np.float32)) == 100
    assert not programs
    assert jax.jit(total)(jnp.ones(3), jnp.ones(3)) == 3
    assert jax.vmap(total)(jnp.ones((2, 5)), jnp.ones((2, 5))).tolist() == [5, 5]
    assert seen == [((128,), False), ((3,), True), ((5,), True)]


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("rows", [7, 128, 600, 20_000])
@pytest.mark.parametrize("weighted", [False, True])
def test_values_are_those_of_exact_shapes(
    rows: int, weighted: bool, rng: np.random.Generator
) -> None:
    a, b = rng.standard_t(3, (2, rows))
    b += a**2
    weights = rng.uniform(size=rows) if weighted else None
    options: dict[str, Any] = {"h": 4, "k": 3}
    exact = jax.jit(lambda a, b, w: hgr_jax.kb_fit(a, b, weights=w, **options))
    fit = hgr_jax.kb_fit(a, b, weights=weights, **options)
    expected = exact(a, b, weights)
    tolerance = {"rtol": 0, "atol": 1e-11}
    np.testing.assert_allclose(fit.correlation, expected.correlation, **tolerance)
    value = hgr_jax.kb(a, b, weights=weights, **options)
    np.testing.assert_allclose(value, expected.correlation, **tolerance)
    np.testing.assert_allclose(fit.f(a), expected.f(a), rtol=1e-7, atol=1e-9)
    score = fit.score(a, b, weights=weights)
    np.testing.assert_allclose(score, expected.score(a, b, weights=weights), **tolerance)
    ours = hgr_jax.sk(a, b, 3, weights=weights)
    plain = jax.jit(lambda a, b, w: hgr_jax.sk(a, b, 3, weights=w))(a, b, weights)
    np.testing.assert_allclose(ours, plain, **tolerance)
    assert fit.degrees.tolist() == expected.degrees.tolist()
    assert int(fit.status) == int(expected.status)


def test_a_nan_in_any_row_is_one_in_the_value() -> None:
    x = np.linspace(-1, 1, 50)
    for row in (0, 25, 49):
        broken = x.copy()
        broken[row] = np.nan
        assert np.isnan(hgr_jax.kb(x, broken))
        for h, k in ((4, 1), (1, 4)):
            fit = hgr_jax.kb_fit(x, broken, h, k)
            assert np.isnan(fit.correlation)
            assert fit.message.startswith("NaN or infinity")


def test_a_condition_of_any_in_a_batch() -> None:
    flags = jnp.array([[False, True], [False, False]])
    assert jax.vmap(any_in_batch)(flags[:, 1]).tolist() == [True, True]
    assert jax.vmap(any_in_batch)(flags[:, 0]).tolist() == [False, False]
    assert jax.vmap(jax.vmap(any_in_batch))(flags).tolist() == [[True] * 2] * 2
    assert not any_in_batch(flags[0, 0])


@pytest.mark.usefixtures("x64")
def test_a_batch_in_which_one_pair_needs_repair(rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((2, 4, 60))
    a[2] = np.exp(6 * a[2])
    b[2] = np.exp(5 * b[2])
    values = jax.vmap(lambda a, b: hgr_jax.kb(a, b, h=6, k=6))(a, b)
    expected = [hgr_jax.kb(x, y, h=6, k=6) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(values, expected, atol=1e-10)


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
