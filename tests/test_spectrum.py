"""All modes: their values, derivatives, transformations and regression; and their total."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_support import check_derivatives
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import hgr_jax
from bench import reference
from bench.data import awkward_pair
from hgr_jax.core.solvers import all_modes

ROWS = 40

Triple = tuple[jax.Array, jax.Array, jax.Array]


def singular_values(q_a: np.ndarray, q_b: np.ndarray) -> np.ndarray:
    """Of orthonormal rows."""
    return np.linalg.svd((q_a @ q_b.T).astype(np.float64), compute_uv=False)


@pytest.fixture
def data(rng: np.random.Generator) -> Triple:
    """In float64 where 64-bit types are on."""
    a, b = awkward_pair("uniform", ROWS)
    return jnp.asarray(a), jnp.asarray(b), jnp.asarray(rng.uniform(0.2, 1, ROWS))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("h", "k"), [(2, 3), (5, 5)])
def test_values_are_those_of_numpy(h: int, k: int, data: Triple) -> None:
    a, b, w = data
    q_a, q_b = (
        reference.orthonormal_polynomials(np.asarray(x), d, np.asarray(w))
        for x, d in ((a, h), (b, k))
    )
    found = hgr_jax.spectrum(a, b, h, k, weights=w)
    np.testing.assert_allclose(found, singular_values(q_a, q_b), atol=1e-9)
    total = hgr_jax.total(a, b, h, k, weights=w)
    np.testing.assert_allclose(total, jnp.sqrt(jnp.mean(found**2)), rtol=1e-12)
    np.testing.assert_allclose(found[0], hgr_jax.kb(a, b, h, k, weights=w), rtol=1e-12)


@pytest.mark.usefixtures("x64")
def test_several_variables_on_both_sides(rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((2, ROWS, 2))
    y[:, 0] += x[:, 0] * x[:, 1]
    q_a, q_b = (
        reference.orthonormal_features(reference.total_degree_features(v, 2)) for v in (x, y)
    )
    np.testing.assert_allclose(hgr_jax.spectrum(x, y, 2, 2), singular_values(q_a, q_b), atol=1e-9)


@pytest.mark.usefixtures("x64")
class TestDerivatives:
    @pytest.mark.parametrize("order", [1, pytest.param(2, marks=pytest.mark.slow)])
    @pytest.mark.parametrize("measure", [hgr_jax.spectrum, hgr_jax.total])
    def test_values(self, measure: Any, order: int, data: Triple) -> None:
        check_derivatives(lambda a, b, w: measure(a, b, 3, 2, weights=w), data, order)


class TestTies:
    """No NaN, and the derivative of what is smooth, where `jnp.linalg.svd` has none."""

    @given(hnp.arrays(np.float64, (3, 3), elements=st.sampled_from([0.0, 0.5, -0.5])))
    @settings(max_examples=40)
    def test_derivatives_are_finite(self, host: np.ndarray) -> None:
        m = jnp.asarray(host, jnp.float32)
        values, pull = _pulled(m)
        assert np.isfinite(pull).all()
        np.testing.assert_allclose(values, np.linalg.svd(host, compute_uv=False), atol=1e-6)
        # The sum of squares, from the derivatives of the values alone.
        np.testing.assert_allclose(jnp.einsum("r,rij->ij", 2 * values, pull), 2 * host, atol=1e-5)

    def test_of_two_equal_modes(self) -> None:
        angle = np.linspace(0, 2 * np.pi, ROWS, endpoint=False)
        x = jnp.asarray(np.stack([np.cos(angle), np.sin(angle)], axis=1), jnp.float32)
        fit = hgr_jax.spectrum_fit(x, 2 * x, 1, 1)
        np.testing.assert_allclose(fit.correlations, 1, atol=1e-6)
        assert fit.status == hgr_jax.Status.TIED
        assert np.isfinite(jax.jacobian(lambda y: hgr_jax.spectrum(x, y, 1, 1))(2 * x)).all()


@jax.jit
def _pulled(m: jax.Array) -> tuple[jax.Array, jax.Array]:
    return all_modes(m).correlations, jax.jacrev(lambda m: all_modes(m).correlations)(m)


class TestFit:
    @pytest.mark.usefixtures("x64")
    def test_transformations(self, data: Triple) -> None:
        a, b, w = data
        fit = hgr_jax.spectrum_fit(a, b, 3, 2, weights=w)
        f, g, weights = np.asarray(fit.f(a)), np.asarray(fit.g(b)), np.asarray(w / w.sum())
        np.testing.assert_allclose(weights @ f, 0, atol=1e-12)
        np.testing.assert_allclose((f.T * weights) @ f, np.eye(2), atol=1e-12)
        np.testing.assert_allclose((f.T * weights) @ g, np.diag(fit.correlations), atol=1e-12)
        points = np.linspace(-2, 2, 7)
        first = hgr_jax.kb_fit(a, b, 3, 2, weights=w)
        np.testing.assert_allclose(fit.f[0](points), first.f(points), rtol=1e-9)
        np.testing.assert_allclose(fit.g[1](points), fit.g(points)[:, 1], rtol=1e-12)
        np.testing.assert_allclose(fit.total, hgr_jax.total(a, b, 3, 2, weights=w), rtol=1e-12)
