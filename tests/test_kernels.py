"""Kernels: the public matrix, the recurrence, and expansions on monomials."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.preprocessing import PolynomialFeatures

from hgr_jax import polynomial_kernel
from hgr_jax.core.kernels import Encoder, monomial_exponents
from hgr_jax.core.orthonormal import fit_polynomials


def test_powers_of_one_variable() -> None:
    kernel = polynomial_kernel(jnp.array([1.0, -2.0, 0.5]), 4)
    np.testing.assert_allclose(kernel, np.array([1.0, -2.0, 0.5])[:, None] ** np.arange(1, 5))
    assert kernel.dtype == jnp.float32


def test_degree_one_is_the_data() -> None:
    np.testing.assert_array_equal(polynomial_kernel(jnp.arange(3.0), 1), [[0.0], [1.0], [2.0]])


@pytest.mark.parametrize(("variables", "degree"), [(2, 3), (3, 2), (4, 1), (1, 3)])
def test_monomials_of_several_variables(
    rng: np.random.Generator, variables: int, degree: int
) -> None:
    x = rng.standard_normal((7, variables)).astype(np.float32)
    expected = PolynomialFeatures(degree, include_bias=False).fit_transform(x)
    np.testing.assert_allclose(polynomial_kernel(x, degree), expected, rtol=2e-6)


def test_order_of_monomials() -> None:
    assert monomial_exponents(2, 2) == ((1, 0), (0, 1), (2, 0), (1, 1), (0, 2))


def test_integers_and_jit() -> None:
    kernel = jax.jit(polynomial_kernel, static_argnums=1)(jnp.array([1, 2, 3]), 2)
    np.testing.assert_array_equal(kernel, [[1.0, 1.0], [2.0, 4.0], [3.0, 9.0]])


@pytest.mark.parametrize(
    ("x", "degree", "error", "message"),
    [
        ([1.0, 2.0], 0, ValueError, "degree must be at least 1; got 0"),
        ([1.0, 2.0], 1.5, TypeError, "degree must be an int >= 1; got 1.5"),
        ([1.0, 2.0], True, TypeError, "degree must be an int >= 1; got True"),
        (["a", "b"], 2, TypeError, "x must hold real numbers"),
        (3.0, 2, ValueError, r"x must have shape \(n,\) or \(n, p\).*got shape \(\)"),
        (np.zeros((2, 2, 2)), 2, ValueError, r"got shape \(2, 2, 2\)"),
    ],
)
def test_errors_name_the_argument(
    x: object, degree: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        polynomial_kernel(x, degree)  # type: ignore[arg-type]


@pytest.mark.usefixtures("x64")
def test_recurrence_and_monomial_expansion_agree(rng: np.random.Generator) -> None:
    x = jnp.asarray(3 + 2 * rng.standard_normal(200))
    basis = fit_polynomials((x,), (6,), None).basis.select(0, 6)
    powers = jnp.stack([x**j for j in range(7)], axis=1)
    np.testing.assert_allclose(
        (powers @ basis.monomials()).T, jnp.stack(basis.polynomials(x)), atol=1e-8
    )


@pytest.mark.usefixtures("x64")
def test_factors_of_several_variables_span_the_monomials(rng: np.random.Generator) -> None:
    x = jnp.asarray(rng.standard_normal((50, 2)) * np.array([1.0, 5.0]) + 1)
    factors = fit_polynomials(tuple(x.T), (3, 3), None).basis
    encoder = Encoder(kernel=3, factors=factors)
    powers = jnp.concatenate([jnp.ones((50, 1)), polynomial_kernel(x, 3)], axis=1)
    np.testing.assert_allclose(encoder(x), powers @ encoder.monomials().T, atol=1e-9)


def test_degree_may_be_an_array_of_no_dimensions() -> None:
    np.testing.assert_array_equal(polynomial_kernel([1.0, 2.0], np.array(2)), [[1, 1], [2, 4]])
