"""HSIC with Gaussian kernels."""

from __future__ import annotations

import warnings
from typing import Any

import hypothesis
import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import hgr_jax
from hgr_jax.measures.hsic import MEDIAN_ROWS


def distance_matrix(x: np.ndarray) -> np.ndarray:
    x = x.reshape(len(x), -1)
    return np.sqrt(np.sum((x[:, None] - x[None]) ** 2, axis=-1))


def median_distance(x: np.ndarray) -> float:
    matrix = distance_matrix(x)
    return float(np.median(matrix[~np.eye(len(x), dtype=bool)])) or 1.0


def dense(a: np.ndarray, b: np.ndarray, s: float | None = None, t: float | None = None) -> Any:
    """Biased and unbiased HSIC from whole kernel matrices, normalised or not."""
    n = len(a)
    k = np.exp(-(distance_matrix(a) ** 2) / (2 * (s or median_distance(a)) ** 2))
    m = np.exp(-(distance_matrix(b) ** 2) / (2 * (t or median_distance(b)) ** 2))
    h = np.eye(n) - 1 / n

    def biased(k: np.ndarray, m: np.ndarray) -> float:
        return np.trace(k @ h @ m @ h) / n**2

    def unbiased(k: np.ndarray, m: np.ndarray) -> float:
        """Song et al. (2012), equation 4."""
        k, m = (x - np.diag(np.diag(x)) for x in (k, m))
        both = k.sum() * m.sum() / ((n - 1) * (n - 2)) - 2 / (n - 2) * k.sum(0) @ m.sum(0)
        return (np.trace(k @ m) + both) / (n * (n - 3))

    return {
        (kind, norm): f(k, m) / (np.sqrt(f(k, k) * f(m, m)) if norm else 1)
        for kind, f in ((False, biased), (True, unbiased))
        for norm in (False, True)
    }


def sample(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(n)
    return a, 3 * a**2 + rng.standard_normal(n)


def assert_as_dense(
    a: np.ndarray, b: np.ndarray, bandwidth: Any = None, *, every_form: bool = False
) -> None:
    pair = bandwidth if isinstance(bandwidth, tuple) else (bandwidth, bandwidth)
    forms = dense(a, b, *pair)
    for unbiased, normalized in forms if every_form else ((False, True), (True, False)):
        value = hgr_jax.hsic(a, b, bandwidth=bandwidth, unbiased=unbiased, normalized=normalized)
        np.testing.assert_allclose(value, forms[unbiased, normalized], atol=1e-11)


@pytest.mark.usefixtures("x64")
class TestAgainstDense:
    def test_every_form(self) -> None:
        assert_as_dense(*sample(40), every_form=True)

    @pytest.mark.parametrize("n", [5, 41])
    def test_median_heuristic(self, n: int) -> None:
        assert_as_dense(*sample(n))

    def test_bandwidths(self) -> None:
        a, b = sample(40)
        for bandwidth in (0.7, (0.3, 2.0), (None, 5.0)):
            assert_as_dense(a, b, bandwidth)

    def test_several_variables(self, rng: np.random.Generator) -> None:
        a, b = rng.standard_normal((40, 3)), rng.standard_normal((40, 2))
        b[:, 0] += a[:, 1] ** 2
        assert_as_dense(a, b, (2.0, None))

    def test_ties(self) -> None:
        """The median distance is 0 here, so that the bandwidth is 1 in the units of the data."""
        a, b = sample(40)
        assert_as_dense((a > 0.5).astype(float) * 3, np.round(b))

    @pytest.mark.parametrize("n", [2, 3])
    def test_few_rows(self, n: int) -> None:
        a, b = sample(n)
        np.testing.assert_allclose(hgr_jax.hsic(a, b), dense_biased(a, b), atol=1e-14)


def dense_biased(a: np.ndarray, b: np.ndarray) -> float:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        n = len(a)
        k, m = (np.exp(-(distance_matrix(x) ** 2) / (2 * median_distance(x) ** 2)) for x in (a, b))
        h = np.eye(n) - 1 / n
    return np.trace(k @ h @ m @ h) / np.sqrt(np.trace(k @ h @ k @ h) * np.trace(m @ h @ m @ h))


@pytest.mark.usefixtures("x64")
def test_against_hyppo(rng: np.random.Generator) -> None:
    """With one gamma given: by default hyppo takes that of its first variable for both."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scipy and numba, at import
        independence = pytest.importorskip("hyppo.independence")
    a, b = (x[:, None] for x in sample(40))
    for x, y in ((a, b), (rng.standard_normal((40, 2)), b)):
        for gamma in (0.5, 0.1):
            bandwidth = float(np.sqrt(1 / (2 * gamma)))
            value = hgr_jax.hsic(x, y, bandwidth=bandwidth, unbiased=True)
            expected = independence.Hsic(gamma=gamma).statistic(x, y)
            np.testing.assert_allclose(value, expected, atol=1e-12)
            value = jnp.sqrt(hgr_jax.hsic(x, y, bandwidth=bandwidth))  # hyppo takes the root
            expected = independence.Hsic(gamma=gamma, bias=True).statistic(x, y)
            np.testing.assert_allclose(value, expected, atol=1e-12)


@pytest.mark.usefixtures("x64")
class TestMedianOfManyRows:
    n = MEDIAN_ROWS + 300

    def test_one_variable(self, rng: np.random.Generator) -> None:
        a, b = sample(self.n)
        some = np.round(np.linspace(0, self.n - 1, MEDIAN_ROWS)).astype(int)
        scales = tuple(median_distance(np.sort(x)[some]) for x in (a, b))
        value = hgr_jax.hsic(a, b)
        np.testing.assert_allclose(value, hgr_jax.hsic(a, b, bandwidth=scales), atol=1e-13)
        np.testing.assert_allclose(scales, [median_distance(a), median_distance(b)], rtol=0.01)
        order = rng.permutation(self.n)
        np.testing.assert_allclose(hgr_jax.hsic(a[order], b[order]), value, atol=1e-13)

    def test_several_variables(self) -> None:
        a, b = (np.stack([x, x[::-1] ** 2], axis=1) for x in sample(self.n))
        some = np.round(np.linspace(0, self.n - 1, MEDIAN_ROWS)).astype(int)
        scales = median_distance(a[some]), median_distance(b[some])
        expected = hgr_jax.hsic(a, b, bandwidth=scales)
        np.testing.assert_allclose(hgr_jax.hsic(a, b), expected, atol=1e-13)


@pytest.mark.usefixtures("x64")
class TestDerivatives:
    @pytest.mark.parametrize(("n", "unbiased"), [(12, True), (13, False), (14, False)])
    def test_median_heuristic(self, n: int, unbiased: bool) -> None:
        """The number of pairs is even for 12 and 13 rows, odd for 14."""
        a, b = (jnp.asarray(x) for x in sample(n))
        check_grads(
            jax.jit(lambda a, b: hgr_jax.hsic(a, b, unbiased=unbiased)),
            (a, b),
            order=1,
            modes=("fwd", "rev"),
        )

    def test_bandwidth(self) -> None:
        a, b = (jnp.asarray(x) for x in sample(12))
        check_grads(
            jax.jit(lambda a, s, t: hgr_jax.hsic(a, b, bandwidth=(s, t), normalized=False)),
            (a, jnp.asarray(0.7), jnp.asarray(2.0)),
            order=1,
            modes=("fwd", "rev"),
        )

    def test_several_variables(self, rng: np.random.Generator) -> None:
        a, b = jnp.asarray(rng.standard_normal((12, 2))), jnp.asarray(rng.standard_normal((12, 3)))
        check_grads(jax.jit(hgr_jax.hsic), (a, b), order=1, modes=("fwd", "rev"))

    def test_scale_does_not_matter_with_the_median(self) -> None:
        a, b = (jnp.asarray(x) for x in sample(12))
        slope = jax.grad(hgr_jax.hsic)(a, b)
        np.testing.assert_allclose(jnp.sum(slope), 0, atol=1e-14)  # of a shift
        np.testing.assert_allclose(slope @ a, 0, atol=1e-14)  # of a change of scale


def test_float32_against_float64() -> None:
    a, b = (x.astype(np.float32) for x in sample(2000))
    a = a + np.float32(3)
    function = jax.jit(jax.value_and_grad(lambda a, b: hgr_jax.hsic(a, b, unbiased=True), (0, 1)))
    value, slopes = function(a, b)
    wide = hgr_jax.hsic(a, b, bandwidth=1e3)  # kernels within 1e-5 of 1
    with jax.enable_x64(True):
        a, b = a.astype(np.float64), b.astype(np.float64)
        exact, expected = function(a, b)
        np.testing.assert_allclose(wide, hgr_jax.hsic(a, b, bandwidth=1e3), atol=1e-5)
    np.testing.assert_allclose(value, exact, atol=1e-6)
    for x, y in zip(slopes, expected, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-4 * np.abs(y).max())


@pytest.mark.parametrize("bandwidth", [None, 1.0])
@pytest.mark.parametrize("unbiased", [False, True])
def test_degenerate_data(bandwidth: float | None, unbiased: bool) -> None:
    b = sample(24)[1].astype(np.float32)
    function = jax.jit(
        jax.value_and_grad(
            lambda a, b: hgr_jax.hsic(a, b, bandwidth=bandwidth, unbiased=unbiased), (0, 1)
        )
    )
    for constant in (0.0, 7.1, 1e6):
        a = np.full(24, constant, np.float32)
        for x, y in ((a, b), (b, a), (a, a)):
            value, slopes = function(x, y)
            assert value == 0
            np.testing.assert_array_equal(jnp.stack(slopes), 0)
    binary = (b > 3).astype(np.float32)
    far = np.where(np.arange(24) == 5, np.float32(1e30), b)
    for x, y in ((binary, b), (b, binary), (b, b), (far, b), (1e-30 * b, b)):
        value, slopes = function(x, y)
        assert np.isfinite(value)
        assert np.isfinite(slopes).all()
    np.testing.assert_allclose(function(binary, 1 - binary)[0], 1, atol=1e-5)
    for bad in (np.nan, np.inf, -np.inf):
        x = np.where(np.arange(24) == 5, np.float32(bad), b)
        for y in (b, np.ones(24, np.float32)):
            assert np.isnan(function(x, y)[0])
            assert np.isnan(function(y, x)[0])


def test_bandwidth_that_is_not_positive() -> None:
    a, b = (x.astype(np.float32) for x in sample(24))
    for value in (0.0, -1.0, jnp.nan):
        with pytest.raises(ValueError, match="bandwidth must be above 0"):
            hgr_jax.hsic(a, b, bandwidth=value)
        traced = jax.jit(lambda width: hgr_jax.hsic(a, b, bandwidth=width))
        assert np.isnan(traced(value))
    assert hgr_jax.hsic(a, b, bandwidth=1e-6, unbiased=True) == 0  # no row sees another
    assert hgr_jax.hsic([1.0], [2.0]) == 0


@pytest.mark.usefixtures("x64")
def test_invariance(rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((40, 3)), rng.standard_normal(40)
    b = b + a[:, 0] ** 2
    rotation, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    order = rng.permutation(40)
    value = hgr_jax.hsic(a, b)
    moved = hgr_jax.hsic((5 - 1e-3 * a @ rotation)[order], 1e4 * b[order] + 7)
    np.testing.assert_allclose(moved, value, atol=1e-12)
    np.testing.assert_allclose(hgr_jax.hsic(b, a), value, atol=1e-14)


@hypothesis.settings(max_examples=40, deadline=None, derandomize=True)
@hypothesis.given(
    arrays.arrays(np.float32, 9, elements=st.floats(-100, 100, width=32)),
    arrays.arrays(np.int32, 9, elements=st.integers(0, 2)),
)
def test_properties(a: np.ndarray, b: np.ndarray) -> None:
    value = hgr_jax.hsic(a, b)
    assert 0 <= value <= 1
    np.testing.assert_allclose(hgr_jax.hsic(b, a), value, atol=1e-5)
    np.testing.assert_allclose(hgr_jax.hsic(a[::-1], b[::-1]), value, atol=1e-5)
    assert -1 <= hgr_jax.hsic(a, b, unbiased=True) <= 1


def test_memory() -> None:
    n = 2**14
    shape = jax.ShapeDtypeStruct((n,), jnp.float32)
    function = jax.jit(jax.value_and_grad(hgr_jax.hsic, (0, 1)))
    memory = function.lower(shape, shape).compile().memory_analysis()
    if memory is None:
        pytest.skip("no memory analysis on this backend")
    assert memory.temp_size_in_bytes < 4 * n * n / 16


def test_errors_name_the_argument() -> None:
    x = np.arange(5.0)
    with pytest.raises(ValueError, match="unbiased needs at least 4 rows; a and b have 3"):
        hgr_jax.hsic(x[:3], x[:3], unbiased=True)
    with pytest.raises(ValueError, match="bandwidth must be above 0 and finite; got -1"):
        hgr_jax.hsic(x, x, bandwidth=-1.0)
    with pytest.raises(ValueError, match=r"bandwidth\[1\] must be above 0 and finite; got 0"):
        hgr_jax.hsic(x, x, bandwidth=(None, 0))
    with pytest.raises(ValueError, match="pair of these"):
        hgr_jax.hsic(x, x, bandwidth=(1.0, 2.0, 3.0))
    with pytest.raises(TypeError, match="bandwidth must be a real number"):
        hgr_jax.hsic(x, x, bandwidth="median")
    with pytest.raises(ValueError, match="bandwidth must be one number"):
        hgr_jax.hsic(x, x, bandwidth=np.ones(2))
    with pytest.raises(ValueError, match="same number of rows"):
        hgr_jax.hsic(x, x[:3])
