"""HGR-KB: weights, kernels, transformations of JAX; HGR-SK, least squares in both directions."""

from __future__ import annotations

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import hgr_jax
from bench import reference
from bench.data import DISTRIBUTIONS, awkward_pair


class TestWeights:
    def test_against_reference(self, rng: np.random.Generator) -> None:
        a, b = (x.astype(np.float32) for x in awkward_pair("uniform", 400))
        weights = rng.uniform(size=400).astype(np.float32)
        expected = reference.kb(a, b, 4, 3, weights)
        np.testing.assert_allclose(hgr_jax.kb(a, b, 4, 3, weights=weights), expected, atol=1e-6)
        assert abs(expected - reference.kb(a, b, 4, 3)) > 1e-3

    @pytest.mark.parametrize("rows", [60, pytest.param(20_000, marks=pytest.mark.slow)])
    def test_zero_weight_equals_dropping_the_row(self, rows: int, rng: np.random.Generator) -> None:
        a, b = (x.astype(np.float32) for x in awkward_pair("normal", rows))
        keep = rng.uniform(size=rows) < 0.6
        expected = reference.kb(a[keep], b[keep], 3, 4)
        a[~keep], b[~keep] = 1e9, np.nan
        for dropped in (a, np.where(keep, a, np.inf), np.where(keep, a, -np.inf)):
            value = hgr_jax.kb(dropped, b, 3, 4, weights=keep)
            np.testing.assert_allclose(value, expected, atol=1e-6)
        gradients = jax.grad(lambda a, b: hgr_jax.kb(a, b, 3, 4, weights=keep), (0, 1))(
            jnp.asarray(a), jnp.asarray(b)
        )
        for gradient in gradients:
            assert np.isfinite(gradient).all()
            assert not np.any(gradient[~keep])

    @pytest.mark.parametrize("weights", [np.zeros(9), np.r_[-1.0, np.ones(8)], np.full(9, np.nan)])
    def test_impossible_weights_are_refused_and_traced_ones_give_nan(
        self, weights: np.ndarray
    ) -> None:
        a, b = awkward_pair("normal", 9)
        for measure in (hgr_jax.kb, hgr_jax.kb_fit, hgr_jax.sk, hgr_jax.sk_fit, hgr_jax.hgr):
            with pytest.raises(ValueError, match="finite and not negative, and not all 0"):
                measure(a, b, weights=weights)
        traced = jax.jit(lambda w: hgr_jax.kb(a, b, 2, 2, weights=w))(weights)
        assert np.isnan(traced)


def test_real_pairs_in_raw_units(communities_table: tuple[list[str], np.ndarray]) -> None:
    columns = communities_table[1].astype(np.float32)
    choose = np.random.default_rng(0)
    for _ in range(60):
        a, b = columns[:, choose.choice(columns.shape[1], 2, replace=False)].T
        assert reference.kb(a, b, 3, 3) - float(hgr_jax.kb(a, b, 3, 3)) < 1e-5


class TestSeveralVariables:
    @pytest.mark.usefixtures("x64")
    def test_both_sides_and_weights(self, rng: np.random.Generator) -> None:
        x = 100 + rng.standard_normal((200, 3)) * np.array([1, 10, 0.1])
        y = np.stack([x[:, 0] ** 2, rng.standard_normal(200)], axis=1)
        weights = rng.uniform(size=200)
        expected = reference.canonical_correlation(
            reference.orthonormal_features(reference.total_degree_features(x, 2), weights),
            reference.orthonormal_features(reference.total_degree_features(y, 2), weights),
        )
        np.testing.assert_allclose(hgr_jax.kb(x, y, 2, 2, weights=weights), expected, atol=1e-9)

    def test_constant_and_duplicated_columns(self) -> None:
        a, b = (x.astype(np.float32) for x in awkward_pair("normal", 60))
        wide = np.stack([a, np.full(60, 3, np.float32), 2 * a - 1], axis=1)
        np.testing.assert_allclose(hgr_jax.kb(wide, b, 2, 2), reference.kb(a, b, 2, 2), atol=1e-5)
        assert hgr_jax.kb(np.ones((60, 2), np.float32), b, 2, 2) == 0


def fourier(x: jax.Array) -> jax.Array:
    return jnp.stack([jnp.sin(x), jnp.cos(x), jnp.sin(2 * x)], axis=1)


def test_features_of_a_callable_kernel() -> None:
    a, b = (x.astype(np.float32) for x in awkward_pair("uniform", 300))
    expected = reference.canonical_correlation(
        reference.orthonormal_features(np.asarray(fourier(jnp.asarray(a)))),
        reference.orthonormal_polynomials(b, 3),
    )
    np.testing.assert_allclose(hgr_jax.kb(a, b, fourier, 3), expected, atol=1e-5)
    np.testing.assert_allclose(hgr_jax.kb(b, a, 3, fourier), expected, atol=1e-5)


class TestBatchesAndDtypes:
    def test_vmap_equals_loop(self, rng: np.random.Generator) -> None:
        # One row needs repairs of its basis, one is constant, one is discrete.
        a = rng.standard_normal((4, 80))
        a[1] = np.exp(4 * a[1])
        a[2] = 1
        a[3] = np.round(a[3])
        b = rng.standard_normal((4, 80)) + a**2 / (1 + a**2)
        a, b = jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32)
        kb = functools.partial(hgr_jax.kb, h=5, k=3)
        together = jax.vmap(kb)(a, b)
        alone = [kb(x, y) for x, y in zip(a, b, strict=True)]
        np.testing.assert_allclose(together, jnp.stack(alone), atol=2e-6)
        gradients = jax.vmap(jax.grad(kb))(a, b)
        one_by_one = jnp.stack([jax.grad(kb)(x, y) for x, y in zip(a, b, strict=True)])
        scale = jnp.abs(one_by_one).max(axis=1, keepdims=True) + 1e-6
        np.testing.assert_allclose(gradients / scale, one_by_one / scale, atol=1e-2)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_dtype_is_kept(self, dtype: str) -> None:
        with jax.enable_x64(dtype == "float64"):
            a, b = (x.astype(dtype) for x in awkward_pair("normal", 20))
            assert hgr_jax.kb(a, b, 2, 2).dtype == dtype
            fit = hgr_jax.kb_fit(a, b, 2, 2)
            chex.assert_type(
                [fit.correlation, fit.alpha, fit.beta, fit.f(a), fit.residual], np.dtype(dtype)
            )

    @pytest.mark.usefixtures("x64")
    def test_dtypes_are_promoted(self) -> None:
        a, b = awkward_pair("normal", 20)
        assert hgr_jax.kb(a.astype(np.float32), b, 2, 2).dtype == np.float64
        assert hgr_jax.kb(np.arange(20), b.astype(np.float32), 2, 2).dtype == np.float64
        half = hgr_jax.kb(a.astype(np.float16), jnp.asarray(b, jnp.bfloat16), 2, 2)
        assert half.dtype == np.float32

    def test_integers_beyond_32_bits(self) -> None:
        # Nanoseconds since 1970: as int32 they would wrap around.
        seconds = np.arange(50)
        a = np.int64(1_600_000_000_000_000_000) + seconds * np.int64(10**15)
        np.testing.assert_allclose(hgr_jax.kb(a, seconds**2, 2, 1), 1, atol=1e-4)


def test_init_does_not_change_the_value() -> None:
    a, b = (x.astype(np.float32) for x in awkward_pair("uniform", 200))
    plain = hgr_jax.kb_fit(a, b, 4, 3)
    shifted = a + 0.05 * np.sin(7 * a)
    again = hgr_jax.kb_fit(shifted, b, 4, 3, init=plain)
    cold = hgr_jax.kb_fit(shifted, b, 4, 3)
    np.testing.assert_allclose(again.correlation, cold.correlation, atol=1e-6)
    np.testing.assert_allclose(again.beta, cold.beta, atol=1e-3)
    np.testing.assert_allclose(
        hgr_jax.kb(shifted, b, 4, 3, init=plain), cold.correlation, atol=1e-6
    )
    same = hgr_jax.kb_fit(shifted, b, 4, 3, init=cold)
    assert 0 < int(same.iterations) < int(again.iterations) != int(cold.iterations)
    # A dropped row that holds NaN leaves the start as it is.
    weights, dropped = np.ones(200), b.copy()
    weights[3], dropped[3] = 0, np.nan
    clean = hgr_jax.kb_fit(shifted, b, 4, 3, weights=weights, init=plain)
    unclean = hgr_jax.kb_fit(shifted, dropped, 4, 3, weights=weights, init=plain)
    assert int(unclean.iterations) == int(clean.iterations)
    # A useless start, of other data, degrees and length, changes nothing either.
    other = hgr_jax.kb_fit(*awkward_pair("discrete", 37), 2, 2)
    np.testing.assert_allclose(
        hgr_jax.kb(shifted, b, 4, 3, init=other), cold.correlation, atol=1e-6
    )
    gradient = jax.grad(lambda a: hgr_jax.kb(a, b, 4, 3, init=plain))(jnp.asarray(shifted))
    expected = jax.grad(lambda a: hgr_jax.kb(a, b, 4, 3))(jnp.asarray(shifted))
    np.testing.assert_allclose(gradient, expected, atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(
    data=hnp.arrays(
        np.float32, (2, 24), elements=st.floats(-(2**20), 2**20, width=32, allow_subnormal=False)
    ),
    levels=st.integers(1, 24),
)
def test_any_data_gives_a_correlation_and_finite_gradients(data: np.ndarray, levels: int) -> None:
    a, b = data
    a = a[np.arange(24) % levels]
    value, gradients = jax.value_and_grad(lambda x: hgr_jax.kb(*x, 3, 3))(
        (jnp.asarray(a), jnp.asarray(b))
    )
    assert 0 <= value <= 1
    for gradient in gradients:
        assert np.isfinite(gradient).all()
    if len(np.unique(a)) == 1 or len(np.unique(b)) == 1:
        assert value == 0


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_against_reference(name: str) -> None:
    for degree in (1, 3, 8):
        a, b = (x.astype(np.float32) for x in awkward_pair(name, 400))
        np.testing.assert_allclose(hgr_jax.sk(a, b, degree), reference.sk(a, b, degree), atol=1e-5)


def test_direction() -> None:
    a = np.linspace(-1, 1, 200, dtype=np.float32)
    forward, backward = hgr_jax.sk_fit(a, a**2, 2), hgr_jax.sk_fit(a**2, a, 2)
    assert (int(forward.direction), forward.explains) == (0, "b = f(a)")
    assert (int(backward.direction), backward.explains) == (1, "a = g(b)")
    np.testing.assert_allclose([forward.correlation, backward.correlation], 1, atol=1e-6)
    np.testing.assert_allclose(forward.g.coefficients[1], 0, atol=1e-5)
    assert abs(float(forward.f.coefficients[1])) > 1
    assert forward.status == hgr_jax.Status.OPTIMAL
    np.testing.assert_allclose(backward.f(a), forward.g(a), atol=1e-5)


def test_weights(rng: np.random.Generator) -> None:
    a, b = (x.astype(np.float32) for x in awkward_pair("normal", 200))
    weights = rng.uniform(size=200).astype(np.float32)
    np.testing.assert_allclose(
        hgr_jax.sk(a, b, 3, weights=weights), reference.sk(a, b, 3, weights), atol=1e-6
    )
    fit = hgr_jax.sk_fit(a, b, 3, weights=weights)
    np.testing.assert_allclose(fit.score(a, b, weights=weights), fit.correlation, atol=1e-6)


def test_several_variables(rng: np.random.Generator) -> None:
    x = rng.standard_normal((300, 2)).astype(np.float32)
    y = (x[:, 0] * x[:, 1]).astype(np.float32)
    expected = max(float(hgr_jax.kb(x, y, 2, 1)), float(hgr_jax.kb(x, y, 1, 2)))
    np.testing.assert_allclose(hgr_jax.sk(x, y, 2), expected, atol=1e-5)
    np.testing.assert_allclose(hgr_jax.sk(y, x, 2), expected, atol=1e-5)
    positive = np.exp(x)  # of which a sum is the square of another variable
    root = np.sqrt(positive.sum(axis=1)) * np.sign(x[:, 0] - x[:, 1])
    np.testing.assert_allclose(hgr_jax.sk(positive, root, 2), 1, atol=1e-5)
