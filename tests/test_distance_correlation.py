"""Distance correlation: by all pairs and by sorting."""

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

ALGORITHMS = ("pairs", "sort")
LONG = 1500


@pytest.fixture
def dcor() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numba and scipy, at import
        return pytest.importorskip("dcor")


def sample(kind: str, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(n)
    noise = rng.standard_normal(n)
    if kind == "independent":
        return a, noise
    if kind == "ties":
        return np.round(2 * a), np.round(a**2 + noise)
    if kind == "ties of pairs":
        return np.round(a), np.round(a) ** 2
    if kind == "sorted":
        return np.sort(a), -np.sort(noise)
    return a, a**2 + 0.3 * noise


def both(a: Any, b: Any, unbiased: bool = False) -> np.ndarray:
    return np.array(
        [
            hgr_jax.distance_correlation(a, b, unbiased=unbiased, algorithm=algorithm)
            for algorithm in ALGORITHMS
        ]
    )


@pytest.mark.usefixtures("x64")
class TestAgainstDcor:
    @pytest.mark.parametrize("n", [3, 64, 257])
    def test_sizes(self, n: int, dcor: Any) -> None:
        for kind in ("dependent", "ties", "ties of pairs", "sorted", "independent"):
            a, b = sample(kind, n)
            np.testing.assert_allclose(both(a, b), dcor.distance_correlation(a, b), atol=1e-7)

    @pytest.mark.parametrize("n", [4, 257])
    def test_unbiased(self, n: int, dcor: Any) -> None:
        for kind in ("dependent", "ties", "ties of pairs", "sorted", "independent"):
            a, b = sample(kind, n)
            if n == 4 and kind.startswith("ties"):
                continue  # the quotient of two numbers of the size of rounding
            value = both(a, b, unbiased=True)
            expected = dcor.u_distance_correlation_sqr(a, b)
            np.testing.assert_allclose(value * np.abs(value), expected, atol=1e-9)

    def test_several_variables(self, rng: np.random.Generator, dcor: Any) -> None:
        a, b = rng.standard_normal((60, 3)), rng.standard_normal((60, 2))
        b[:, 0] += a[:, 1] ** 2
        value = hgr_jax.distance_correlation(a, b)
        np.testing.assert_allclose(value, dcor.distance_correlation(a, b), atol=1e-12)
        value = hgr_jax.distance_correlation(a, b, unbiased=True)
        expected = dcor.u_distance_correlation_sqr(a, b)
        np.testing.assert_allclose(value * abs(value), expected, atol=1e-12)
        value = hgr_jax.distance_correlation(a[:, :1], b[:, 1], algorithm="sort")
        np.testing.assert_allclose(value, dcor.distance_correlation(a[:, 0], b[:, 1]), atol=1e-12)

    def test_many_rows(self, dcor: Any) -> None:
        a, b = sample("ties", 5000)
        expected = dcor.distance_correlation(a, b, method="mergesort")
        np.testing.assert_allclose(hgr_jax.distance_correlation(a, b), expected, atol=1e-12)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_against_hyppo() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scipy and numba, at import
        independence = pytest.importorskip("hyppo.independence")
    a, b = sample("dependent", 50)
    expected = independence.Dcorr(bias=True).statistic(a[:, None], b[:, None])
    np.testing.assert_allclose(hgr_jax.distance_correlation(a, b), expected, atol=1e-12)


@pytest.mark.usefixtures("x64")
class TestPublished:
    def test_iris(self) -> None:
        """The example of the R package energy: dCor of setosa and versicolor is 0.3060479."""
        iris = pytest.importorskip("sklearn.datasets").load_iris().data
        value = hgr_jax.distance_correlation(iris[:50], iris[50:100])
        np.testing.assert_allclose(value, 0.3060479, atol=5e-8)

    def test_bivariate_normal(self, rng: np.random.Generator) -> None:
        """Theorem 7 of Szekely, Rizzo & Bakirov (2007)."""
        rho = 0.5
        terms = rho * np.arcsin(rho) + np.sqrt(1 - rho**2)
        terms += 1 - rho * np.arcsin(rho / 2) - np.sqrt(4 - rho**2)
        expected = np.sqrt(terms / (1 + np.pi / 3 - np.sqrt(3)))
        a, noise = rng.standard_normal((2, 40000))
        b = rho * a + np.sqrt(1 - rho**2) * noise
        value = hgr_jax.distance_correlation(a, b, unbiased=True)
        np.testing.assert_allclose(value, expected, atol=0.01)


@pytest.mark.parametrize(
    ("algorithm", "unbiased"), [("pairs", False), ("sort", False), ("sort", True)]
)
def test_float32_against_float64(algorithm: str, unbiased: bool) -> None:
    function = jax.jit(
        jax.value_and_grad(
            lambda a, b: hgr_jax.distance_correlation(a, b, unbiased=unbiased, algorithm=algorithm),
            (0, 1),
        ),
        # As users have it: without optimisation long sums have one accumulator, and round more.
        compiler_options={"xla_backend_optimization_level": 3},
    )
    for kind in ("dependent", "independent", "sorted", "ties"):
        a, b = (x.astype(np.float32) for x in sample(kind, 3000))
        a = a + np.float32(1e4 if kind == "dependent" else 3)
        value, slopes = function(a, b)
        assert value.dtype == np.float32
        with jax.enable_x64(True):
            exact, exact_slopes = function(a.astype(np.float64), b.astype(np.float64))
        np.testing.assert_allclose(value, exact, atol=1e-6)
        for slope, expected in zip(slopes, exact_slopes, strict=True):
            np.testing.assert_allclose(slope, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.usefixtures("x64")
class TestDerivatives:
    @pytest.mark.parametrize(
        ("algorithm", "unbiased"), [("pairs", False), ("pairs", True), ("sort", True)]
    )
    def test_finite_differences(self, algorithm: str, unbiased: bool) -> None:
        a, b = (jnp.asarray(x) for x in sample("dependent", 12))
        check_grads(
            jax.jit(
                lambda a, b: hgr_jax.distance_correlation(
                    a, b, unbiased=unbiased, algorithm=algorithm
                )
            ),
            (a, b),
            order=1,
            modes=("fwd", "rev"),
        )

    def test_several_variables(self, rng: np.random.Generator) -> None:
        a, b = jnp.asarray(rng.standard_normal((12, 2))), jnp.asarray(rng.standard_normal((12, 3)))
        check_grads(jax.jit(hgr_jax.distance_correlation), (a, b), order=1, modes=("fwd", "rev"))

    @pytest.mark.parametrize("unbiased", [False, True])
    def test_both_algorithms_agree(self, unbiased: bool) -> None:
        """Ties and several levels included."""
        slopes = {
            algorithm: jax.jit(
                jax.grad(
                    lambda a, b, algorithm=algorithm: hgr_jax.distance_correlation(
                        a, b, unbiased=unbiased, algorithm=algorithm
                    ),
                    (0, 1),
                )
            )
            for algorithm in ALGORITHMS
        }
        for kind in ("dependent", "ties", "ties of pairs", "sorted"):
            a, b = (jnp.asarray(x) for x in sample(kind, 257))
            for x, y in zip(slopes["pairs"](a, b), slopes["sort"](a, b), strict=True):
                np.testing.assert_allclose(x, y, atol=1e-13)

    @pytest.mark.slow
    def test_second_derivatives(self) -> None:
        a, b = (jnp.asarray(x) for x in sample("dependent", 12))
        hessians = [
            jax.hessian(lambda a, algorithm=algorithm: hgr_jax.distance_correlation(
                a, b, algorithm=algorithm
            ))(a)
            for algorithm in ALGORITHMS
        ]  # fmt: skip
        np.testing.assert_allclose(hessians[0], hessians[1], atol=1e-12)
        gradient = jax.jit(jax.grad(hgr_jax.distance_correlation))
        step = jnp.zeros(12).at[3].set(1e-5)
        column = (gradient(a + step, b) - gradient(a - step, b)) / 2e-5
        np.testing.assert_allclose(hessians[0][3], column, atol=1e-8)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("unbiased", [False, True])
def test_degenerate_data(algorithm: str, unbiased: bool) -> None:
    b = sample("dependent", LONG)[1].astype(np.float32)
    binary = (b > 0.5).astype(np.float32)
    function = jax.jit(
        jax.value_and_grad(
            lambda a, b: hgr_jax.distance_correlation(a, b, unbiased=unbiased, algorithm=algorithm),
            (0, 1),
        )
    )
    for constant in (0.0, 0.1, 1e6, 3e38):
        a = jnp.full(LONG, constant, jnp.float32)
        for x, y in ((a, b), (b, a), (a, a)):
            value, slopes = function(x, y)
            assert value == 0
            np.testing.assert_array_equal(jnp.stack(slopes), 0)
    rare = np.where(np.arange(LONG) == 5, np.float32(1e30), np.float32(0))
    for x, y in ((binary, b), (b, binary), (binary, 3 - binary), (b, b), (rare, b), (1e-30 * b, b)):
        value, slopes = function(x, y)
        assert np.isfinite(value)
        assert np.isfinite(slopes).all()
    np.testing.assert_allclose(function(binary, 3 - binary)[0], 1, atol=1e-6)
    np.testing.assert_allclose(function(b, b)[0], 1, atol=1e-6)
    for bad in (np.nan, np.inf, -np.inf):
        x = np.where(np.arange(LONG) == 5, np.float32(bad), b)
        for y in (b, binary, np.ones(LONG, np.float32)):
            assert np.isnan(function(x, y)[0])
            assert np.isnan(function(y, x)[0])


def test_few_rows() -> None:
    assert hgr_jax.distance_correlation([1.0], [2.0]) == 0
    np.testing.assert_allclose(hgr_jax.distance_correlation([1, 2], [True, False]), 1, atol=1e-6)
    assert hgr_jax.distance_correlation([1.0], [2.0], algorithm="sort") == 0


@pytest.mark.usefixtures("x64")
def test_invariance(rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((40, 3)), rng.standard_normal(40)
    b = b + a[:, 0] ** 2
    rotation, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    order = rng.permutation(40)
    value = hgr_jax.distance_correlation(a, b)
    moved = hgr_jax.distance_correlation((5 - 1e-3 * a @ rotation)[order], 1e4 * b[order] + 7)
    np.testing.assert_allclose(moved, value, atol=1e-12)
    np.testing.assert_allclose(hgr_jax.distance_correlation(b, a), value, atol=1e-14)


@hypothesis.settings(max_examples=40, deadline=None, derandomize=True)
@hypothesis.given(
    arrays.arrays(np.float32, (2, 9), elements=st.floats(-100, 100, width=32)),
    arrays.arrays(np.int32, (2, 9), elements=st.integers(0, 2)),
    st.booleans(),
)
def test_properties(values: np.ndarray, few: np.ndarray, mixed: bool) -> None:
    a, b = (values[0], few[1]) if mixed else few
    first, second = both(a, b)
    assert 0 <= first <= 1
    np.testing.assert_allclose(first**2, second**2, atol=1e-4)
    np.testing.assert_allclose(first**2, both(b, a)[0] ** 2, atol=1e-5)
    np.testing.assert_allclose(first**2, both(a[::-1], b[::-1])[1] ** 2, atol=1e-4)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_memory(algorithm: str) -> None:
    n = 2**14
    function = jax.value_and_grad(
        lambda a, b: hgr_jax.distance_correlation(a, b, algorithm=algorithm), (0, 1)
    )
    shape = jax.ShapeDtypeStruct((n,), jnp.float32)
    memory = jax.jit(function).lower(shape, shape).compile().memory_analysis()
    if memory is None:
        pytest.skip("no memory analysis on this backend")
    assert memory.temp_size_in_bytes < 4 * n * n / 16


def test_automatic_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    def record(a: jax.Array, b: jax.Array, *, unbiased: bool, algorithm: str) -> None:
        taken.append(algorithm)

    monkeypatch.setitem(hgr_jax.distance_correlation.__globals__, "_distance_correlation", record)
    for shape in ((20,), (2000,), (2000, 1), (2000, 2)):
        hgr_jax.distance_correlation(np.ones(shape), np.ones(shape))
    assert taken == ["pairs", "sort", "sort", "pairs"]


def test_errors_name_the_argument() -> None:
    with pytest.raises(ValueError, match="unbiased needs at least 4 rows; a and b have 3"):
        hgr_jax.distance_correlation(np.ones(3), np.ones(3), unbiased=True)
    with pytest.raises(ValueError, match="algorithm must be one of 'auto', 'pairs', 'sort'"):
        hgr_jax.distance_correlation(np.ones(3), np.ones(3), algorithm="fast")
    with pytest.raises(ValueError, match='algorithm="sort" needs one variable each'):
        hgr_jax.distance_correlation(np.ones((3, 2)), np.ones(3), algorithm="sort")
    with pytest.raises(ValueError, match="same number of rows"):
        hgr_jax.distance_correlation(np.ones(3), np.ones(4))
