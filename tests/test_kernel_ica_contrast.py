"""Contrasts of kernel ICA, against the dense generalised eigenproblem of the paper."""

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
from hgr_jax.measures.kernel_ica_contrast import KINDS

ROWS = 200


def dense(a: np.ndarray, b: np.ndarray, kappa: float, widths: tuple[float, float]) -> dict:
    """Both contrasts from the full matrices: KCC of the least eigenvalue, KGV of them all."""
    rows = len(a)
    sides = []
    for x, width in zip((a, b), widths, strict=True):
        x = (x - x.mean()) / x.std()
        gram = np.exp(-((x[:, None] - x[None]) ** 2) / (2 * width**2))
        gram = gram - gram.mean(axis=0)
        gram = gram - gram.mean(axis=1, keepdims=True)
        sides.append((gram, gram + rows * kappa / 2 * np.eye(rows)))
    (k, kr), (m, mr) = sides
    left = np.block([[kr @ kr, k @ m], [m @ k, mr @ mr]])
    right = scipy.linalg.block_diag(kr @ kr, mr @ mr)
    values = scipy.linalg.eigh(left, right, eigvals_only=True)
    return {"kcc": -np.log(values[0]) / 2, "kgv": -np.log(values).sum() / 2}


def pair(rows: int = ROWS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    a, noise = np.random.default_rng(seed).standard_normal((2, rows))
    return a, a**2 + noise / 2


def contrast(kind: str) -> Any:
    return functools.partial(hgr_jax.kernel_ica_contrast, kind=kind)


@pytest.mark.parametrize("kind", KINDS)
class TestValue:
    @pytest.mark.parametrize("bandwidth", [0.5, 5.0])
    def test_less_ridge_than_rounding_counts_as_the_least(
        self, kind: str, bandwidth: float
    ) -> None:
        a, b = (np.float32(x) for x in pair(1000))
        measure = functools.partial(contrast(kind), bandwidth=bandwidth)
        least = measure(a, b, regularization=32 * np.finfo(np.float32).eps)
        for regularization in (1e-7, 1e-30):
            value, gradient = jax.value_and_grad(measure)(a, b, regularization=regularization)
            np.testing.assert_allclose(value, least, rtol=1e-3)
            assert value > measure(a, b, regularization=1e-4)
            assert np.isfinite(gradient).all()

    @pytest.mark.parametrize(("kappa", "widths"), [(2e-2, (1.0, 1.0)), (2e-3, (0.5, 2.0))])
    def test_against_dense(self, kind: str, kappa: float, widths: tuple[float, float]) -> None:
        a, b = pair()
        expected = dense(a, b, kappa, widths)[kind]
        options = {"regularization": kappa, "bandwidth": widths}
        single = contrast(kind)(np.float32(a), np.float32(b), **options)
        assert single.dtype == jnp.float32
        np.testing.assert_allclose(single, expected, rtol=1e-4)
        with jax.enable_x64(True):
            double = contrast(kind)(a, b, **options)
        np.testing.assert_allclose(double, expected, atol=1e-9)

    @pytest.mark.usefixtures("x64")
    def test_finite_differences(self, kind: str) -> None:
        a, b = (jnp.asarray(x) for x in pair(15))
        check_grads(
            jax.jit(
                lambda a, b, kappa, width: hgr_jax.kernel_ica_contrast(
                    a, b, kind=kind, regularization=kappa, bandwidth=(width, 1.0), rank=8
                )
            ),
            (a, b, 2e-2, 1.2),
            order=1,
            rtol=1e-5,
        )

    def test_degenerate_data(self, kind: str) -> None:
        a, b = (np.float32(x) for x in pair())
        both = jax.jit(jax.value_and_grad(contrast(kind), argnums=(0, 1)))
        for x in (np.full(ROWS, 3.0, np.float32), np.float32(a > 0), np.sign(np.round(a)), b):
            value, gradients = both(x, b)
            np.testing.assert_allclose(value, contrast(kind)(x, b), rtol=1e-5)
            assert np.isfinite(value)
            assert (value == 0) == (x is not b and x.std() == 0)
            for gradient in gradients:
                assert np.isfinite(gradient).all()
                assert value > 0 or not gradient.any()
        for bad in (np.nan, np.inf):
            broken = np.where(a == a[3], np.float32(bad), a)
            assert np.isnan(contrast(kind)(broken, b))
            assert np.isnan(contrast(kind)(b, broken))
        with pytest.raises(ValueError, match="regularization must be above 0"):
            contrast(kind)(a, b, regularization=0.0)
        with pytest.raises(ValueError, match=r"bandwidth\[0\] must be above 0"):
            contrast(kind)(a, b, bandwidth=(-1.0, 1.0))

    def test_vmap_and_no_recompilation(self, kind: str, compilations: Any) -> None:
        a, b = (jnp.asarray(x, jnp.float32).reshape(3, ROWS) for x in pair(3 * ROWS))
        alone = jnp.stack([contrast(kind)(x, y) for x, y in zip(a, b, strict=True)])
        np.testing.assert_allclose(jax.vmap(contrast(kind))(a, b), alone, rtol=1e-5)
        x, y = b[1], a[2]
        with compilations() as programs:
            contrast(kind)(x, y, regularization=0.1, bandwidth=2)
        assert not programs


def test_no_matrix_of_rows_by_rows() -> None:
    rows = 2**14
    column = jax.ShapeDtypeStruct((rows,), jnp.float32)
    program = jax.jit(jax.value_and_grad(contrast("kcc"), argnums=(0, 1)))
    used = program.lower(column, column).compile().memory_analysis().temp_size_in_bytes
    assert used < 16 * rows * 64 * 4  # some arrays of rows x rank; rows x rows would be 1 GiB


def test_defaults_are_those_of_the_paper() -> None:
    for rows, options in (
        (1000, {"regularization": 2e-2, "bandwidth": 1.0}),
        (1001, {"regularization": 2e-3, "bandwidth": 0.5}),
    ):
        a, b = (np.float32(x) for x in pair(rows))
        value = hgr_jax.kernel_ica_contrast(a, b)
        assert value == hgr_jax.kernel_ica_contrast(a, b, kind="kgv", rank=64, **options)


@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(KINDS),
    scale=st.floats(0.1, 1000),
    shift=st.floats(-1000, 1000),
    sign=st.sampled_from([-1, 1]),
)
@settings(max_examples=15, deadline=None)
def test_range_and_invariances(seed: int, kind: str, scale: float, shift: float, sign: int) -> None:
    with jax.enable_x64(True):
        a, b = pair(seed=seed)
        value = contrast(kind)(a, b)
        assert value > 0
        order = np.random.default_rng(seed).permutation(ROWS)
        moved = contrast(kind)(sign * scale * a[order] + shift, b[order])
        np.testing.assert_allclose(moved, value, rtol=1e-8)
        np.testing.assert_allclose(contrast(kind)(b, a), value, rtol=1e-8)


@pytest.mark.usefixtures("x64")
def test_second_derivative() -> None:
    a, b = (jnp.asarray(x) for x in pair())

    def along(t: jax.Array) -> jax.Array:
        return hgr_jax.kernel_ica_contrast(a, b + t * jnp.sin(a))

    both = jax.jit(jax.value_and_grad(jax.grad(along)))
    expected = (both(1e-5)[0] - both(-1e-5)[0]) / 2e-5
    np.testing.assert_allclose(both(0.0)[1], expected, rtol=1e-4)


def test_errors_name_the_argument() -> None:
    x = [1.0, 2.0, 4.0]
    with pytest.raises(ValueError, match="kind must be one of 'kgv', 'kcc'; got 'hsic'"):
        hgr_jax.kernel_ica_contrast(x, x, kind="hsic")
    with pytest.raises(TypeError, match=r"rank must be an int >= 1; got 2\.5"):
        hgr_jax.kernel_ica_contrast(x, x, rank=2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="regularization must be one number"):
        hgr_jax.kernel_ica_contrast(x, x, regularization=np.ones(2))
    with pytest.raises(ValueError, match="bandwidth must be one value for both, or a pair"):
        hgr_jax.kernel_ica_contrast(x, x, bandwidth=[1.0])
