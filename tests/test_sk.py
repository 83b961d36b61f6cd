"""HGR-SK: least squares in both directions."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import hgr_jax
from bench import reference
from bench.data import DISTRIBUTIONS, awkward_pair


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_against_reference(name: str) -> None:
    for degree in (1, 3, 8):
        a, b = (x.astype(np.float32) for x in awkward_pair(name, 400))
        np.testing.assert_allclose(hgr_jax.sk(a, b, degree), reference.sk(a, b, degree), atol=1e-5)


@pytest.mark.usefixtures("x64")
def test_against_lstsq_on_the_centred_kernel() -> None:
    a, b = (jnp.asarray(x) for x in awkward_pair("uniform", 300))
    kernel = hgr_jax.polynomial_kernel(a, 4)
    kernel = kernel - kernel.mean(axis=0, keepdims=True)
    solution = jnp.linalg.lstsq(kernel, b - b.mean())[0]
    expected = np.corrcoef(kernel @ solution, b)[0, 1]
    fit = hgr_jax.sk_fit(a, b, 4)
    np.testing.assert_allclose(hgr_jax.sk(a, b, 4), expected, atol=1e-12)
    np.testing.assert_allclose(fit.correlation, expected, atol=1e-12)
    np.testing.assert_allclose(
        fit.alpha / jnp.linalg.norm(fit.alpha), solution / jnp.linalg.norm(solution), atol=1e-9
    )


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
