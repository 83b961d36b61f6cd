"""Kernels: the public matrix, local kernels, and expansions on monomials."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from derivative_support import check_derivatives
from scipy.interpolate import BSpline
from sklearn.preprocessing import PolynomialFeatures

import hgr_jax
from hgr_jax import polynomial_kernel
from hgr_jax.inference import upper_bound
from hgr_jax.kernels import Indicators, fourier, splines


@pytest.mark.parametrize(("variables", "degree"), [(2, 3), (3, 2), (4, 1), (1, 3)])
def test_monomials_of_several_variables(
    rng: np.random.Generator, variables: int, degree: int
) -> None:
    x = rng.standard_normal((7, variables)).astype(np.float32)
    expected = PolynomialFeatures(degree, include_bias=False).fit_transform(x)
    np.testing.assert_allclose(polynomial_kernel(x, degree), expected, rtol=2e-6)


KEYPOINTS = (-2.0, -0.5, 0.0, 1.5, 4.0)


class TestFeatures:
    @pytest.mark.parametrize("keypoints", [[-8, 0, 1, 900], [3, 4, 5, 6], [-1000, -999, 1, 2]])
    def test_piecewise_linear_functions_interpolate(self, keypoints: list[int]) -> None:
        points = np.array(keypoints) / 8
        x = np.linspace(points[0] - 1, points[-1] + 1, 33)
        heights = np.eye(4)
        expected = [np.interp(x, points, height) for height in heights[1:]]
        found = splines(points, 1)(jnp.asarray(x, jnp.float32))
        np.testing.assert_allclose(found, np.stack(expected, axis=1), atol=1e-4)

    @pytest.mark.usefixtures("x64")
    @pytest.mark.parametrize("degree", [1, 2, 3])
    def test_splines_are_those_of_scipy(self, degree: int) -> None:
        knots = np.pad(KEYPOINTS, degree, mode="edge")
        x = np.r_[np.linspace(-2, 4, 50), KEYPOINTS]
        expected = BSpline.design_matrix(x, knots, degree).toarray()
        found = splines(KEYPOINTS, degree)(jnp.asarray(x))
        np.testing.assert_allclose(found, expected[:, 1:], atol=1e-12)
        beyond = splines(KEYPOINTS, degree)(jnp.array([-9.0, -2.0, 4.0, 9.0]))
        np.testing.assert_array_equal(beyond[::3], beyond[1:3])

    def test_fourier(self) -> None:
        x = np.linspace(-30, 30, 50, dtype=np.float32)
        angle = 2 * np.pi * x / 24
        expected = [np.cos(angle), np.cos(2 * angle), np.sin(angle), np.sin(2 * angle)]
        found = fourier(2, period=24)(jnp.asarray(x))
        np.testing.assert_allclose(found, np.stack(expected, axis=1), atol=1e-5)

    def test_indicators(self) -> None:
        found = Indicators(3)(jnp.array([1.0, 2.0, 3.0, 0.0, np.nan]))
        expected = [[0, 1, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0], [np.nan] * 3]
        np.testing.assert_array_equal(found, expected)

    def test_neighbours_that_are_one_in_float32(self) -> None:
        found = splines([1.0, 1.0 + 1e-12, 2.0], 1)(jnp.array([0.5, 1.0, 1.5, 2.0]))
        assert np.isfinite(found).all()


class TestMeasures:
    @pytest.mark.parametrize("kernel", [splines(KEYPOINTS), fourier(2, 2 * np.pi), Indicators(2)])
    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_what_is_not_finite_gives_nan(self, kernel: Any, bad: float) -> None:
        x = jnp.arange(30.0) % 3
        assert np.isfinite(hgr_jax.kb(x, x, kernel, 1))
        assert np.isnan(hgr_jax.kb(x.at[3].set(bad), x, kernel, 1))

    @pytest.mark.usefixtures("x64")
    def test_derivatives(self, rng: np.random.Generator) -> None:
        x = rng.uniform(-2, 4, 30)
        y = np.abs(x) + rng.standard_normal(30) / 3
        check_derivatives(lambda x: hgr_jax.kb(x, y, splines(KEYPOINTS), 2), (x,))

    def test_wherever_a_degree_is(self, rng: np.random.Generator) -> None:
        x = rng.uniform(-2, 4, 200).astype(np.float32)
        y = np.abs(x)
        kernel = splines([-2, 0, 4], 1)
        for value in (
            hgr_jax.kb(x, y, kernel, 1),
            hgr_jax.kb(x[:, None], y, kernel, 1),
            hgr_jax.spectrum(x, y, kernel, 1)[0],
            upper_bound(x, y, kernel, 1),
        ):
            np.testing.assert_allclose(value, 1, atol=1e-5)
