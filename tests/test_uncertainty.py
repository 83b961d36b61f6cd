"""Standard errors and upper bounds; what they cover is measured by `bench.coverage`."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import hgr_jax
from bench.data import awkward_pair
from hgr_jax.inference import upper_bound

ROWS = 40
Z = 1.959963984540054
"""The 97.5% point of the normal distribution."""

bounded = functools.partial(upper_bound, h=3, k=2)


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[jax.Array, jax.Array, jax.Array]:
    """In float64 where 64-bit types are on."""
    a, b = awkward_pair("uniform", ROWS)
    return jnp.asarray(a), jnp.asarray(b), jnp.asarray(rng.uniform(0.2, 1, ROWS))


class TestStandardError:
    @pytest.mark.usefixtures("x64")
    @pytest.mark.parametrize("single", [False, True])
    def test_is_the_root_of_the_squared_influences(self, single: bool, data: Any) -> None:
        """What a row adds is the derivative by its weight, times the weight."""
        a, b, w = data
        measure = functools.partial(hgr_jax.sk, d=3) if single else hgr_jax.kb
        influence = w * jax.grad(lambda w: measure(a, b, weights=w))(w)
        fit = hgr_jax.sk_fit(a, b, 3, weights=w) if single else hgr_jax.kb_fit(a, b, weights=w)
        np.testing.assert_allclose(fit.standard_error, jnp.linalg.norm(influence), rtol=1e-9)
        np.testing.assert_allclose(fit.effective_rows, w.sum() ** 2 / (w**2).sum(), rtol=1e-12)

    def test_what_has_no_error(self, data: Any) -> None:
        a, b, _ = (np.array(x, np.float32) for x in data)
        constant = hgr_jax.kb_fit(np.ones_like(a), b, 3, 2)
        assert constant.standard_error == 0
        np.testing.assert_allclose(hgr_jax.kb_fit(a, a, 3, 2).standard_error, 0, atol=1e-5)
        b[3] = np.nan
        unknown = hgr_jax.kb_fit(a, b, 3, 2)
        assert np.isnan(unknown.standard_error)


class TestUpperBound:
    def test_formula(self, data: Any) -> None:
        a, b, w = data
        fit = hgr_jax.kb_fit(a, b, 3, 2, weights=w)
        expected = fit.correlation + Z * fit.standard_error
        found = bounded(a, b, level=0.975, weights=w)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        compiled = jax.jit(lambda a, b, w: bounded(a, b, level=0.975, weights=w))
        np.testing.assert_allclose(compiled(a, b, w), expected, rtol=1e-5)

    @pytest.mark.usefixtures("x64")
    def test_derivatives(self, data: Any) -> None:
        function = jax.jit(lambda a, b, w: bounded(a, b, weights=w))
        check_grads(function, data, 1, modes=["fwd", "rev"], atol=1e-4, rtol=1e-4)

    def test_degenerate_data(self, data: Any) -> None:
        a, b, _ = (jnp.asarray(x, jnp.float32) for x in data)
        value_and_grad = jax.jit(jax.value_and_grad(bounded, (0, 1)))
        for x, y, expected in ((jnp.ones(ROWS), b, 0), (a, a, 1), (a, jnp.sign(a), None)):
            value, gradients = value_and_grad(x, y)
            assert np.isfinite(gradients).all()
            if expected is not None:
                np.testing.assert_allclose(value, expected, atol=1e-5)
        assert np.isnan(value_and_grad(a.at[2].set(jnp.inf), b)[0])
        np.testing.assert_allclose(bounded(a[:4], b[:4]), 1, atol=1e-4)
