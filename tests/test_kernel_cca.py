"""Kernel canonical correlation, against the dense generalised eigenproblem."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads

import hgr_jax

ROWS = 200


def centred_gram(x: np.ndarray, bandwidth: float) -> np.ndarray:
    x = np.asarray(x, np.float64).reshape(len(x), -1)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    gram = np.exp(-((x[:, None] - x[None]) ** 2).sum(axis=-1) / (2 * bandwidth**2))
    centring = np.eye(len(x)) - 1 / len(x)
    return centring @ gram @ centring


def dense(a: np.ndarray, b: np.ndarray, kappa: float, widths: tuple[float, float]) -> float:
    """The top generalised eigenvalue, on the spaces where the Gram matrices are not 0."""
    sides = []
    for x, width in zip((a, b), widths, strict=True):
        values, vectors = scipy.linalg.eigh(centred_gram(x, width))
        keep = values > 1e-13 * len(x)
        sides.append((values[keep], vectors[:, keep]))
    (s, u), (t, v) = sides
    product = s[:, None] * (u.T @ v) * t
    left = np.block(
        [[np.zeros((len(s), len(s))), product], [product.T, np.zeros((len(t), len(t)))]]
    )
    right = np.diag(np.concatenate([x**2 + len(a) * kappa * x for x in (s, t)]))
    return float(scipy.linalg.eigh(left, right, eigvals_only=True)[-1])


def pair(rows: int = ROWS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    a, noise = np.random.default_rng(seed).standard_normal((2, rows))
    return a, a**2 + noise / 2


class TestValue:
    @pytest.mark.parametrize(
        ("kappa", "widths"), [(1e-2, (1.0, 1.0)), (1e-3, (0.5, 2.0)), (0.2, (1.0, 1.0))]
    )
    def test_against_dense(self, kappa: float, widths: tuple[float, float]) -> None:
        a, b = pair()
        expected = dense(a, b, kappa, widths)
        single = hgr_jax.kernel_cca(
            np.float32(a), np.float32(b), regularization=kappa, bandwidth=widths
        )
        assert single.dtype == jnp.float32
        np.testing.assert_allclose(single, expected, atol=5e-6)
        with jax.enable_x64(True):
            double = hgr_jax.kernel_cca(a, b, regularization=kappa, bandwidth=widths)
        assert double.dtype == jnp.float64
        np.testing.assert_allclose(double, expected, atol=1e-9)

    @pytest.mark.usefixtures("x64")
    def test_several_variables(self, rng: np.random.Generator) -> None:
        a = rng.standard_normal((ROWS, 2))
        b = a[:, 0] * a[:, 1]
        expected = dense(a, b, 1e-2, (1.5, 1.5))
        value = hgr_jax.kernel_cca(a, b, bandwidth=1.5, rank=100)
        np.testing.assert_allclose(value, expected, atol=1e-9)

    @pytest.mark.usefixtures("x64")
    def test_a_low_rank_is_near(self) -> None:
        a, b = pair()
        full = hgr_jax.kernel_cca(a, b)
        assert 1e-7 < full - hgr_jax.kernel_cca(a, b, rank=6) < 1e-2

    @pytest.mark.parametrize("rank", [64, 200])
    @pytest.mark.parametrize("bandwidth", [0.5, 1.0, 5.0])
    def test_less_ridge_than_rounding_counts_as_the_least(
        self, bandwidth: float, rank: int
    ) -> None:
        a, b = (np.float32(x) for x in pair(1000))
        measure = jax.value_and_grad(
            functools.partial(hgr_jax.kernel_cca, bandwidth=bandwidth, rank=rank)
        )
        least, _ = measure(a, b, regularization=16 * np.finfo(np.float32).eps)
        for regularization in (1e-7, 1e-12, 1e-30):
            value, gradient = measure(a, b, regularization=regularization)
            np.testing.assert_allclose(value, least, atol=1e-6)
            assert 0.95 < value <= 1
            assert np.isfinite(gradient).all()

    def test_documented_levels(self) -> None:
        values = []
        for seed in range(10):
            x, y = np.random.default_rng(seed).standard_normal((2, 1000)).astype(np.float32)
            values.append(float(hgr_jax.kernel_cca(x, y)))
        np.testing.assert_allclose(np.mean(values), 0.085, atol=0.02)
        np.testing.assert_allclose(hgr_jax.kernel_cca(x, x), 0.96, atol=0.01)


@given(
    seed=st.integers(0, 2**32 - 1),
    scale=st.floats(0.1, 1000),
    shift=st.floats(-1000, 1000),
    sign=st.sampled_from([-1, 1]),
)
@settings(max_examples=15, deadline=None)
def test_range_and_invariances(seed: int, scale: float, shift: float, sign: int) -> None:
    with jax.enable_x64(True):
        a, b = pair(seed=seed)
        value = float(hgr_jax.kernel_cca(a, b))
        assert 0 <= value < 1
        order = np.random.default_rng(seed).permutation(ROWS)
        moved = hgr_jax.kernel_cca(sign * scale * a[order] + shift, b[order])
        np.testing.assert_allclose(moved, value, atol=1e-8)
        np.testing.assert_allclose(hgr_jax.kernel_cca(b, a), value, atol=1e-8)


both = jax.jit(jax.value_and_grad(hgr_jax.kernel_cca, argnums=(0, 1)))


class TestDerivatives:
    @pytest.mark.usefixtures("x64")
    def test_finite_differences(self) -> None:
        a, b = (jnp.asarray(x) for x in pair(15))
        check_grads(
            jax.jit(
                lambda a, b, kappa, width: hgr_jax.kernel_cca(
                    a, b, regularization=kappa, bandwidth=(width, 1.0), rank=8
                )
            ),
            (a, b, 2e-2, 1.2),
            order=1,
            rtol=1e-5,
        )

    @pytest.mark.usefixtures("x64")
    def test_second_derivative_along_a_line(self) -> None:
        a, b = (jnp.asarray(x) for x in pair())

        def along(t: jax.Array) -> jax.Array:
            return hgr_jax.kernel_cca(a + t * jnp.sin(3 * b), b)

        slopes = jax.jit(jax.value_and_grad(jax.grad(along)))
        expected = (slopes(1e-5)[0] - slopes(-1e-5)[0]) / 2e-5
        np.testing.assert_allclose(slopes(0.0)[1], expected, rtol=1e-4)

    @pytest.mark.parametrize("kind", ["constant", "two values", "three values", "equal"])
    def test_finite_on_degenerate_data(self, kind: str) -> None:
        a, b = (np.float32(x) for x in pair())
        x = {
            "constant": np.full(ROWS, 3.0, np.float32),
            "two values": np.float32(a > 0),
            "three values": np.sign(np.round(a)),
            "equal": b,
        }[kind]
        value, gradients = both(x, b)
        np.testing.assert_allclose(value, hgr_jax.kernel_cca(x, b), atol=1e-6)
        assert 0 <= value < 1
        for gradient in gradients:
            assert np.isfinite(gradient).all()
            assert kind != "constant" or not gradient.any()
        assert (value == 0) == (kind == "constant")

    def test_not_finite_gives_nan(self) -> None:
        a, b = (np.float32(x) for x in pair())
        for bad in (np.nan, np.inf):
            broken = np.where(a == a[3], np.float32(bad), a)
            assert np.isnan(hgr_jax.kernel_cca(broken, b))
            assert np.isnan(hgr_jax.kernel_cca(b, broken))
        for options in ({"regularization": 0.0}, {"regularization": -1}, {"bandwidth": (1, 0)}):
            with pytest.raises(
                ValueError, match=r"(regularization|bandwidth\[1\]) must be above 0"
            ):
                hgr_jax.kernel_cca(a, b, **options)
        traced = jax.jit(lambda kappa: hgr_jax.kernel_cca(a, b, regularization=kappa))
        assert np.isnan(traced(-1.0))


def test_vmap_and_no_recompilation(compilations: Any) -> None:
    a, b = (jnp.asarray(x, jnp.float32) for x in pair(3 * ROWS))
    a, b = a.reshape(3, ROWS), b.reshape(3, ROWS)
    alone = jnp.stack([hgr_jax.kernel_cca(x, y) for x, y in zip(a, b, strict=True)])
    np.testing.assert_allclose(jax.vmap(hgr_jax.kernel_cca)(a, b), alone, atol=1e-6)
    x, y = b[1], a[2]
    with compilations() as programs:
        hgr_jax.kernel_cca(x, y, regularization=0.1, bandwidth=(2.0, 0.7))
    assert not programs


def test_no_matrix_of_rows_by_rows() -> None:
    rows = 2**14
    column = jax.ShapeDtypeStruct((rows,), jnp.float32)
    program = jax.jit(jax.value_and_grad(hgr_jax.kernel_cca, argnums=(0, 1)))
    used = program.lower(column, column).compile().memory_analysis().temp_size_in_bytes
    assert used < 16 * rows * 64 * 4  # some arrays of rows x rank; rows x rows would be 1 GiB


def test_errors_name_the_argument() -> None:
    x = [1.0, 2.0, 4.0]
    with pytest.raises(ValueError, match="rank must be at least 1; got 0"):
        hgr_jax.kernel_cca(x, x, rank=0)
    with pytest.raises(
        ValueError, match=r"bandwidth must be one value for both, or a pair .* got \("
    ):
        hgr_jax.kernel_cca(x, x, bandwidth=(1.0, 1.0, 1.0))
    with pytest.raises(TypeError, match="bandwidth must be a real number; got 'wide'"):
        hgr_jax.kernel_cca(x, x, bandwidth="wide")
    with pytest.raises(TypeError, match="regularization must be a real number; got None"):
        hgr_jax.kernel_cca(x, x, regularization=None)
    with pytest.raises(ValueError, match="a and b must have the same number of rows"):
        hgr_jax.kernel_cca(x, x[:2])
