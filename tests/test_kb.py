"""HGR-KB: invariances, weights, kernels, transformations of JAX, errors.

Exact values over distributions, sizes and degrees, degenerate data, and the invariances in
float64 are the figures of `bench.accuracy`, which `test_bench` runs.
"""

from __future__ import annotations

import functools
from typing import Any

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
from bench.data import awkward_pair


def test_invariances_in_float32() -> None:
    a, b = (x.astype(np.float32) for x in awkward_pair("uniform", 500))
    value = hgr_jax.kb(a, b, 3, 2)
    for other in (
        hgr_jax.kb(b, a, 2, 3),
        hgr_jax.kb(5 - 2 * a, 1e3 * b, 3, 2),
        hgr_jax.kb(a[::-1], b[::-1], 3, 2),
    ):
        np.testing.assert_allclose(other, value, atol=2e-6)
    assert hgr_jax.kb(a, 2 - a + 3 * a**3, 3, 1) <= 1


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

    def test_only_ratios_matter(self) -> None:
        a, b = (x.astype(np.float32) for x in awkward_pair("normal", 50))
        value = hgr_jax.kb(a, b, 2, 2)
        for scale in (1e-30, 1.0, 1e38):
            same = hgr_jax.kb(a, b, 2, 2, weights=np.full(50, scale, np.float32))
            np.testing.assert_allclose(same, value, atol=1e-6)

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


@pytest.mark.parametrize(
    "moves", [lambda t, z, e: (1 + t) * z + e, lambda t, z, e: z**2 + (2 + t) * e]
)
def test_a_warm_start_saves_iterations(moves: Any, rng: np.random.Generator) -> None:
    """Along predictions that change as slowly as those of a network in training."""
    protected, noise = rng.standard_normal((2, 500)).astype(np.float32)
    fit, warm, cold = None, 0, 0
    for t in np.linspace(0, 0.3, 60, dtype=np.float32):
        predicted = moves(t, protected, noise)
        fit = hgr_jax.kb_fit(protected, predicted, 3, 2, init=fit)
        anew = hgr_jax.kb_fit(protected, predicted, 3, 2)
        np.testing.assert_allclose(fit.correlation, anew.correlation, atol=1e-6)
        warm, cold = warm + int(fit.iterations), cold + int(anew.iterations)
    assert warm < 0.8 * cold
