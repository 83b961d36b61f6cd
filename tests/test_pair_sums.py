"""Distance correlation, HSIC, and the sums over pairs of both."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_support import check_derivatives
from pair_sums_support import dense_dcor, distance_matrix

import hgr_jax
from hgr_jax.measures import pair_sums as pairs

dcor, hsic = hgr_jax.distance_correlation, hgr_jax.hsic
FORMS: dict[str, Callable[..., jax.Array]] = {
    "dcor": dcor,
    "hsic": hsic,
    "hsic not normalised": functools.partial(hsic, normalized=False),
    "hsic of a bandwidth": functools.partial(hsic, bandwidth=1.0),
}
every_form = pytest.mark.parametrize("form", FORMS)


def sample(kind: str, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(n)
    noise = rng.standard_normal(n)
    return {
        "independent": (a, noise),
        "ties": (np.round(2 * a), np.round(a**2 + noise)),
        "ties of pairs": (np.round(a), np.round(a) ** 2),
        "sorted": (np.sort(a), -np.sort(noise)),
        "dependent": (a, 3 * a**2 + noise),
    }[kind]


def several(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    a, b = rng.standard_normal((n, 3)), rng.standard_normal((n, 2))
    b[:, 0] += a[:, 1] ** 2
    return a, b


@pytest.mark.usefixtures("x64")
class TestDistanceCorrelation:
    @pytest.mark.parametrize("n", [3, 4, 64, 120])
    def test_against_dense(self, n: int) -> None:
        for kind in ("dependent", "ties", "ties of pairs", "sorted", "independent"):
            a, b = sample(kind, n)
            expected = np.sqrt(dense_dcor(a, b))
            for measure in (dcor, jax.jit(dcor)):
                np.testing.assert_allclose(measure(a, b), expected, atol=1e-7)

    def test_of_several_variables_and_many_rows(self, rng: np.random.Generator) -> None:
        a, b = several(rng, 60)
        np.testing.assert_allclose(dcor(a, b), np.sqrt(dense_dcor(a, b)), atol=1e-12)
        value = dcor(a[:, :1], b[:, 1])
        np.testing.assert_allclose(value, np.sqrt(dense_dcor(a[:, 0], b[:, 1])), atol=1e-12)

    def test_iris(self) -> None:
        """By the R package energy, dCor of setosa and versicolor is 0.3060479."""
        iris = pytest.importorskip("sklearn.datasets").load_iris().data
        np.testing.assert_allclose(dcor(iris[:50], iris[50:100]), 0.3060479, atol=5e-8)


def median_distance(x: np.ndarray) -> float:
    matrix = distance_matrix(x)
    return float(np.median(matrix[~np.eye(len(x), dtype=bool)])) or 1.0


def dense_hsic(a: np.ndarray, b: np.ndarray, s: Any, t: Any) -> dict[bool, float]:
    """HSIC from whole kernel matrices, normalised or not."""
    n = len(a)
    k, m = (
        np.exp(-(distance_matrix(x) ** 2) / (2 * (width or median_distance(x)) ** 2))
        for x, width in ((a, s), (b, t))
    )
    h = np.eye(n) - 1 / n

    def inner(k: np.ndarray, m: np.ndarray) -> float:
        return float(np.trace(k @ h @ m @ h)) / n**2

    value = inner(k, m)
    return {False: value, True: value / np.sqrt(inner(k, k) * inner(m, m))}


@pytest.mark.usefixtures("x64")
class TestHSIC:
    def test_against_dense(self, rng: np.random.Generator) -> None:
        """Of ties the median distance is 0, and the bandwidth 1 in the units of the data."""
        a, b = sample("dependent", 40)
        ties = (a > 0.5).astype(float) * 3, np.round(b)
        few = [(sample("dependent", n), (None, None)) for n in (2, 3, 5)]
        for (x, y), widths in (
            *few,
            ((a, b), (0.7, 0.7)),
            ((a, b), (0.3, 2.0)),
            ((a, b), (None, 5.0)),
            (several(rng, 40), (2.0, None)),
            (ties, (None, None)),
        ):
            for normalized, expected in dense_hsic(x, y, *widths).items():
                value = hsic(x, y, bandwidth=widths, normalized=normalized)
                np.testing.assert_allclose(value, expected, atol=1e-11)
        np.testing.assert_array_equal(hsic(a, b, bandwidth=0.7), hsic(a, b, bandwidth=(0.7, 0.7)))

    def test_derivative_by_the_bandwidth(self) -> None:
        a, b = (jnp.asarray(x) for x in sample("dependent", 12))
        check_derivatives(
            lambda a, s, t: hsic(a, b, bandwidth=(s, t), normalized=False), (a, 0.7, 2.0)
        )


def test_bandwidth_that_is_not_positive() -> None:
    a, b = (x.astype(np.float32) for x in sample("dependent", 24))
    for value in (0.0, -1.0, jnp.nan):
        with pytest.raises(ValueError, match="bandwidth must be above 0"):
            hsic(a, b, bandwidth=value)
        assert np.isnan(jax.jit(lambda width: hsic(a, b, bandwidth=width))(value))
    assert hsic([1.0], [2.0]) == 0


@pytest.mark.parametrize("form", ["dcor", "hsic"])
def test_float32_against_float64(form: str) -> None:
    derivatives = jax.value_and_grad(FORMS[form], (0, 1))
    exactly = jax.jit(derivatives)
    function = jax.jit(
        derivatives,
        # As users have it: without optimisation long sums have one accumulator, and round more.
        compiler_options={"xla_backend_optimization_level": 2},
    )
    distances = form.startswith("dcor")
    rows = 800 if distances else 500
    for kind in ("dependent", "independent", "sorted", "ties")[: 4 if distances else 1]:
        a, b = (x.astype(np.float32) for x in sample(kind, rows))
        a = a + np.float32(1e4 if distances and kind == "dependent" else 3)
        value, slopes = function(a, b)
        assert value.dtype == np.float32
        with jax.enable_x64(True):
            exact, exact_slopes = exactly(a.astype(np.float64), b.astype(np.float64))
        np.testing.assert_allclose(value, exact, atol=1e-6)
        for slope, expected in zip(slopes, exact_slopes, strict=True):
            np.testing.assert_allclose(slope, expected, atol=1e-4 * np.abs(expected).max())


def test_float32_of_kernels_near_1() -> None:
    a, b = (x.astype(np.float32) for x in sample("dependent", 500))
    wide = hsic(a + np.float32(3), b, bandwidth=1e3)  # kernels within 1e-5 of 1
    with jax.enable_x64(True):
        exact = hsic(a.astype(np.float64), b.astype(np.float64), bandwidth=1e3)
    np.testing.assert_allclose(wide, exact, atol=1e-5)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("form", "n"),
    [
        ("dcor", 12),
        # The number of pairs is even for 13 rows, odd for 14.
        ("hsic", 13),
        ("hsic", 14),
    ],
)
def test_derivatives(form: str, n: int, rng: np.random.Generator) -> None:
    check_derivatives(FORMS[form], sample("dependent", n))
    if form in ("dcor", "hsic") and n < 14:
        check_derivatives(FORMS[form], several(rng, 12))


@every_form
def test_degenerate_data(form: str) -> None:
    n = 24
    function = jax.jit(jax.value_and_grad(FORMS[form], (0, 1)))
    b = sample("dependent", n)[1].astype(np.float32)
    binary = (b > 3).astype(np.float32)
    for constant in (0.0, 7.1, 1e6, 3e38):
        a = np.full(n, constant, np.float32)
        for x, y in ((a, b), (b, a), (a, a)):
            value, slopes = function(x, y)
            assert value == 0
            np.testing.assert_array_equal(jnp.stack(slopes), 0)
    rare = np.where(np.arange(n) == 5, np.float32(1e30), np.float32(0))
    for x, y in ((binary, b), (b, binary), (rare, b), (rare + b, b), (1e-30 * b, b)):
        value, slopes = function(x, y)
        assert np.isfinite(value)
        assert np.isfinite(slopes).all()
    for x, y in ((binary, 1 - binary), (b, b)):
        value, slopes = function(x, y)
        if form != "hsic not normalised":
            np.testing.assert_allclose(value, 1, atol=1e-5)
        assert np.isfinite(slopes).all()
    for bad in (np.nan, np.inf, -np.inf):
        x = np.where(np.arange(n) == 5, np.float32(bad), b)
        for y in (b, binary, np.ones(n, np.float32)):
            assert np.isnan(function(x, y)[0])
            assert np.isnan(function(y, x)[0])


FEW_VALUES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "rare": lambda rng, n: rng.random(n) < 0.01,
    "levels": lambda rng, n: rng.integers(0, 5, n),
    "one row": lambda rng, n: np.arange(n) == rng.integers(n),
    "rounded": lambda rng, n: np.round(np.exp(2 * rng.normal(size=n))),
    "far": lambda rng, n: rng.standard_cauchy(n),
}


def test_float32_is_float64_on_the_host() -> None:
    for kind, draw in FEW_VALUES.items():
        rng = np.random.default_rng(2301)
        a, b = (draw(rng, 4_000).astype(np.float32) for _ in range(2))
        found = dcor(a, b)
        assert found.dtype == np.float32
        with jax.enable_x64(True):
            exact = float(dcor(a.astype(float), b.astype(float)))
        assert float(found) == pytest.approx(exact, rel=1e-6, abs=1e-9), kind


@pytest.fixture(scope="class")
def forgotten() -> Iterator[None]:
    yield
    jax.clear_caches()


@pytest.mark.usefixtures("x64", "forgotten")
class TestOtherConstants:
    """Last, as they make JAX forget its programs."""

    def test_median_of_many_rows(
        self, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pairs, "MEDIAN_ROWS", 500)
        n = 807
        for columns in (1, 2):
            a, b = sample("dependent", n)
            some = np.round(np.linspace(0, n - 1, 500)).astype(int)
            if columns == 2:
                a, b = (np.stack([x, x[::-1] ** 2], axis=1) for x in (a, b))
                scales = median_distance(a[some]), median_distance(b[some])
            else:
                scales = median_distance(np.sort(a)[some]), median_distance(np.sort(b)[some])
                np.testing.assert_allclose(scales, [*map(median_distance, (a, b))], rtol=0.01)
            value = hsic(a, b)
            np.testing.assert_allclose(value, hsic(a, b, bandwidth=scales), atol=1e-13)
            if columns == 1:
                order = rng.permutation(n)
                np.testing.assert_allclose(hsic(a[order], b[order]), value, atol=1e-13)

    def test_blocks_equal_the_whole(
        self, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Values and gradients; the last block is not full."""
        a, b = jnp.asarray(rng.standard_normal(23)), jnp.asarray(rng.standard_normal((23, 2)))
        forms = [FORMS[name] for name in ("dcor", "hsic")]

        def derivatives(a: jax.Array) -> Any:
            return [jax.value_and_grad(form, (0, 1))(a, b) for form in forms]

        whole = jax.jit(derivatives)(a)
        monkeypatch.setattr(pairs, "BLOCK_ENTRIES", 23 * 3 * 4)
        jax.clear_caches()
        blocked = jax.jit(derivatives)(a)
        for x, y in zip(*map(jax.tree.leaves, (whole, blocked)), strict=True):
            np.testing.assert_allclose(x, y, atol=1e-12)
