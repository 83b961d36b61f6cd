"""Distance correlation, by all pairs and by sorting, HSIC, and the sums over pairs of both."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable
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
from hgr_jax.measures import pair_sums as pairs
from hgr_jax.measures.pair_sums import MEDIAN_ROWS

dcor, hsic = hgr_jax.distance_correlation, hgr_jax.hsic
ALGORITHMS = ("pairs", "sort")
FORMS: dict[str, Callable[..., jax.Array]] = {
    "dcor": functools.partial(dcor, algorithm="pairs"),
    "dcor unbiased": functools.partial(dcor, algorithm="pairs", unbiased=True),
    "dcor sorted": functools.partial(dcor, algorithm="sort"),
    "dcor sorted, unbiased": functools.partial(dcor, algorithm="sort", unbiased=True),
    "hsic": hsic,
    "hsic unbiased": functools.partial(hsic, unbiased=True),
    "hsic of a bandwidth": functools.partial(hsic, bandwidth=1.0),
}
every_form = pytest.mark.parametrize("form", FORMS)


def peer(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numba and scipy, at import
        return pytest.importorskip(name)


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
    @pytest.mark.parametrize("n", [3, 4, 64, 257])
    def test_against_dcor(self, n: int) -> None:
        theirs = peer("dcor")
        for kind in ("dependent", "ties", "ties of pairs", "sorted", "independent"):
            a, b = sample(kind, n)
            expected = theirs.distance_correlation(a, b)
            for algorithm in ALGORITHMS:
                np.testing.assert_allclose(dcor(a, b, algorithm=algorithm), expected, atol=1e-7)
            # Of few ties it is the quotient of two numbers of the size of rounding.
            if n > 4 or (n == 4 and not kind.startswith("ties")):
                expected = theirs.u_distance_correlation_sqr(a, b)
                for algorithm in ALGORITHMS:
                    value = dcor(a, b, algorithm=algorithm, unbiased=True)
                    np.testing.assert_allclose(value * abs(value), expected, atol=1e-9)

    def test_of_several_variables_and_many_rows(self, rng: np.random.Generator) -> None:
        theirs = peer("dcor")
        a, b = several(rng, 60)
        np.testing.assert_allclose(dcor(a, b), theirs.distance_correlation(a, b), atol=1e-12)
        value = dcor(a, b, unbiased=True)
        expected = theirs.u_distance_correlation_sqr(a, b)
        np.testing.assert_allclose(value * abs(value), expected, atol=1e-12)
        value = dcor(a[:, :1], b[:, 1], algorithm="sort")
        np.testing.assert_allclose(value, theirs.distance_correlation(a[:, 0], b[:, 1]), atol=1e-12)
        a, b = sample("ties", 5000)
        expected = theirs.distance_correlation(a, b, method="mergesort")
        np.testing.assert_allclose(dcor(a, b), expected, atol=1e-12)

    def test_iris(self) -> None:
        """The example of the R package energy: dCor of setosa and versicolor is 0.3060479."""
        iris = pytest.importorskip("sklearn.datasets").load_iris().data
        np.testing.assert_allclose(dcor(iris[:50], iris[50:100]), 0.3060479, atol=5e-8)

    @pytest.mark.parametrize("unbiased", [False, True])
    def test_both_algorithms_have_the_same_derivatives(self, unbiased: bool) -> None:
        """Ties and several levels included."""
        slopes = [
            jax.jit(jax.grad(functools.partial(dcor, algorithm=a, unbiased=unbiased), (0, 1)))
            for a in ALGORITHMS
        ]
        for kind in ("dependent", "ties", "ties of pairs", "sorted"):
            a, b = (jnp.asarray(x) for x in sample(kind, 257))
            for x, y in zip(slopes[0](a, b), slopes[1](a, b), strict=True):
                np.testing.assert_allclose(x, y, atol=1e-13)

    @pytest.mark.slow
    def test_second_derivatives(self) -> None:
        a, b = (jnp.asarray(x) for x in sample("dependent", 12))
        hessians = [
            jax.hessian(functools.partial(dcor, algorithm=algorithm))(a, b)
            for algorithm in ALGORITHMS
        ]
        np.testing.assert_allclose(hessians[0], hessians[1], atol=1e-12)
        gradient = jax.jit(jax.grad(dcor))
        step = jnp.zeros(12).at[3].set(1e-5)
        column = (gradient(a + step, b) - gradient(a - step, b)) / 2e-5
        np.testing.assert_allclose(hessians[0][3], column, atol=1e-8)

    def test_automatic_algorithm(self, monkeypatch: pytest.MonkeyPatch) -> None:
        taken = []

        def record(a: jax.Array, b: jax.Array, *, unbiased: bool, algorithm: str) -> None:
            taken.append(algorithm)

        monkeypatch.setattr(pairs, "_distance_correlation", record)
        for shape in ((20,), (2000,), (2000, 1), (2000, 2)):
            with contextlib.suppress(TypeError):  # what records returns nothing
                jax.jit(dcor)(np.ones(shape), np.ones(shape))
        assert taken == ["pairs", "sort", "sort", "pairs"]

    def test_few_rows(self) -> None:
        assert dcor([1.0], [2.0]) == 0
        assert dcor([1.0], [2.0], algorithm="sort") == 0
        np.testing.assert_allclose(dcor([1, 2], [True, False]), 1, atol=1e-6)


def distance_matrix(x: np.ndarray) -> np.ndarray:
    x = x.reshape(len(x), -1)
    return np.sqrt(np.sum((x[:, None] - x[None]) ** 2, axis=-1))


def median_distance(x: np.ndarray) -> float:
    matrix = distance_matrix(x)
    return float(np.median(matrix[~np.eye(len(x), dtype=bool)])) or 1.0


def dense_hsic(a: np.ndarray, b: np.ndarray, s: float | None, t: float | None) -> Any:
    """Biased and unbiased HSIC from whole kernel matrices, normalised or not."""
    n = len(a)
    k, m = (
        np.exp(-(distance_matrix(x) ** 2) / (2 * (width or median_distance(x)) ** 2))
        for x, width in ((a, s), (b, t))
    )
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
        for kind, f in ((False, biased), (True, unbiased))[: 2 if n > 3 else 1]
        for norm in (False, True)
    }


@pytest.mark.usefixtures("x64")
class TestHSIC:
    def test_against_dense(self, rng: np.random.Generator) -> None:
        """Of ties the median distance is 0, and the bandwidth 1 in the units of the data."""
        a, b = sample("dependent", 40)
        ties = (a > 0.5).astype(float) * 3, np.round(b)
        few = [(sample("dependent", n), (None, None)) for n in (2, 3, 5, 41)]
        for (x, y), widths in (
            *few,
            ((a, b), (0.7, 0.7)),
            ((a, b), (0.3, 2.0)),
            ((a, b), (None, 5.0)),
            (several(rng, 40), (2.0, None)),
            (ties, (None, None)),
        ):
            for (unbiased, norm), expected in dense_hsic(x, y, *widths).items():
                value = hsic(x, y, bandwidth=widths, unbiased=unbiased, normalized=norm)
                np.testing.assert_allclose(value, expected, atol=1e-11)
        np.testing.assert_array_equal(hsic(a, b, bandwidth=0.7), hsic(a, b, bandwidth=(0.7, 0.7)))

    @pytest.mark.parametrize("columns", [1, 2])
    def test_median_of_many_rows(self, columns: int, rng: np.random.Generator) -> None:
        n = MEDIAN_ROWS + 300
        a, b = sample("dependent", n)
        some = np.round(np.linspace(0, n - 1, MEDIAN_ROWS)).astype(int)
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

    def test_derivative_by_the_bandwidth(self) -> None:
        a, b = (jnp.asarray(x) for x in sample("dependent", 12))
        value = jax.jit(lambda a, s, t: hsic(a, b, bandwidth=(s, t), normalized=False))
        widths = jnp.asarray(0.7), jnp.asarray(2.0)
        check_grads(value, (a, *widths), order=1, modes=("fwd", "rev"))


def test_bandwidth_that_is_not_positive() -> None:
    a, b = (x.astype(np.float32) for x in sample("dependent", 24))
    for value in (0.0, -1.0, jnp.nan):
        with pytest.raises(ValueError, match="bandwidth must be above 0"):
            hsic(a, b, bandwidth=value)
        assert np.isnan(jax.jit(lambda width: hsic(a, b, bandwidth=width))(value))
    assert hsic(a, b, bandwidth=1e-6, unbiased=True) == 0  # no row sees another
    assert hsic([1.0], [2.0]) == 0


@pytest.mark.parametrize("form", ["dcor", "dcor sorted", "dcor sorted, unbiased", "hsic unbiased"])
def test_float32_against_float64(form: str) -> None:
    function = jax.jit(
        jax.value_and_grad(FORMS[form], (0, 1)),
        # As users have it: without optimisation long sums have one accumulator, and round more.
        compiler_options={"xla_backend_optimization_level": 3},
    )
    distances = form.startswith("dcor")
    for kind in ("dependent", "independent", "sorted", "ties")[: 4 if distances else 1]:
        a, b = (x.astype(np.float32) for x in sample(kind, 3000 if distances else 2000))
        a = a + np.float32(1e4 if distances and kind == "dependent" else 3)
        value, slopes = function(a, b)
        assert value.dtype == np.float32
        with jax.enable_x64(True):
            exact, exact_slopes = function(a.astype(np.float64), b.astype(np.float64))
        np.testing.assert_allclose(value, exact, atol=1e-6)
        for slope, expected in zip(slopes, exact_slopes, strict=True):
            np.testing.assert_allclose(slope, expected, atol=1e-4 * np.abs(expected).max())


def test_float32_of_kernels_near_1() -> None:
    a, b = (x.astype(np.float32) for x in sample("dependent", 2000))
    wide = hsic(a + np.float32(3), b, bandwidth=1e3)  # kernels within 1e-5 of 1
    with jax.enable_x64(True):
        exact = hsic(a.astype(np.float64), b.astype(np.float64), bandwidth=1e3)
    np.testing.assert_allclose(wide, exact, atol=1e-5)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("form", "n"),
    [
        ("dcor", 12),
        ("dcor unbiased", 12),
        ("dcor sorted, unbiased", 12),
        # The number of pairs is even for 12 and 13 rows, odd for 14.
        ("hsic unbiased", 12),
        ("hsic", 13),
        ("hsic", 14),
    ],
)
def test_derivatives(form: str, n: int, rng: np.random.Generator) -> None:
    function = jax.jit(FORMS[form])
    a, b = (jnp.asarray(x) for x in sample("dependent", n))
    check_grads(function, (a, b), order=1, modes=("fwd", "rev"))
    if form in ("dcor", "hsic") and n < 14:
        a, b = (jnp.asarray(x) for x in several(rng, 12))
        check_grads(function, (a, b), order=1, modes=("fwd", "rev"))


@every_form
def test_degenerate_data(form: str) -> None:
    n = 1500 if "sorted" in form else 24
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
        np.testing.assert_allclose(value, 1, atol=1e-5)
        assert np.isfinite(slopes).all()
    for bad in (np.nan, np.inf, -np.inf):
        x = np.where(np.arange(n) == 5, np.float32(bad), b)
        for y in (b, binary, np.ones(n, np.float32)):
            assert np.isnan(function(x, y)[0])
            assert np.isnan(function(y, x)[0])


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("measure", [dcor, hsic])
def test_invariance(measure: Callable[..., jax.Array], rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((40, 3)), rng.standard_normal(40)
    b = b + a[:, 0] ** 2
    rotation, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    order = rng.permutation(40)
    value = measure(a, b)
    moved = measure((5 - 1e-3 * a @ rotation)[order], 1e4 * b[order] + 7)
    np.testing.assert_allclose(moved, value, atol=1e-12)
    np.testing.assert_allclose(measure(b, a), value, atol=1e-14)


@hypothesis.settings(max_examples=40, deadline=None, derandomize=True)
@hypothesis.given(
    arrays.arrays(np.float32, (2, 9), elements=st.floats(-100, 100, width=32)),
    arrays.arrays(np.int32, (2, 9), elements=st.integers(0, 2)),
    st.booleans(),
)
def test_properties(values: np.ndarray, few: np.ndarray, mixed: bool) -> None:
    a, b = (values[0], few[1]) if mixed else few
    value = dcor(a, b)
    assert 0 <= value <= 1
    np.testing.assert_allclose(value**2, dcor(a, b, algorithm="sort") ** 2, atol=1e-4)
    np.testing.assert_allclose(value**2, dcor(b, a) ** 2, atol=1e-5)
    np.testing.assert_allclose(value**2, dcor(a[::-1], b[::-1], algorithm="sort") ** 2, atol=1e-4)
    value = hsic(a, b)
    assert 0 <= value <= 1
    np.testing.assert_allclose(hsic(b, a), value, atol=1e-5)
    np.testing.assert_allclose(hsic(a[::-1], b[::-1]), value, atol=1e-5)
    assert -1 <= hsic(a, b, unbiased=True) <= 1


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("form", ["dcor", "dcor unbiased", "hsic", "hsic unbiased"])
def test_blocks_equal_the_whole(
    form: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values, gradients and second derivatives; the last block is not full."""
    a, b = jnp.asarray(rng.standard_normal(23)), jnp.asarray(rng.standard_normal((23, 2)))

    def derivatives(a: jax.Array, b: jax.Array) -> tuple[jax.Array, ...]:
        def slope(a: jax.Array) -> jax.Array:
            return jnp.sum(jnp.cos(jax.grad(FORMS[form])(a, b)))

        return FORMS[form](a, b), *jax.grad(FORMS[form], (0, 1))(a, b), jax.grad(slope)(a)

    whole = jax.jit(derivatives)(a, b)
    monkeypatch.setattr(pairs, "BLOCK_ENTRIES", 23 * 3 * 4)
    jax.clear_caches()
    for x, y in zip(whole, jax.jit(derivatives)(a, b), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.usefixtures("x64")
def test_rounding_is_not_taken_for_variation(dtype: type) -> None:
    """Rows at equal distances have U-centred distances of 0 up to rounding."""
    assert dcor(jnp.eye(7, dtype=dtype), jnp.arange(7, dtype=dtype), unbiased=True) == 0


FEW_VALUES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "rare": lambda rng, n: rng.random(n) < 0.01,
    "levels": lambda rng, n: rng.integers(0, 5, n),
    "one row": lambda rng, n: np.arange(n) == rng.integers(n),
    "rounded": lambda rng, n: np.round(np.exp(2 * rng.normal(size=n))),
    "far": lambda rng, n: rng.standard_cauchy(n),
}


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("kind", FEW_VALUES)
def test_float32_is_float64_traced_or_not(kind: str, unbiased: bool) -> None:
    rng = np.random.default_rng(2301)
    a, b = (FEW_VALUES[kind](rng, 20_000).astype(np.float32) for _ in range(2))
    value = functools.partial(dcor, unbiased=unbiased)
    forms = value, jax.grad(value)
    found = [f(a, b) for f in forms] + [jax.jit(f)(a, b) for f in forms]
    batched = jax.jit(jax.vmap(value, (None, 0)))(a, np.stack([b, a]))
    assert {x.dtype for x in (*found, batched)} == {np.dtype(np.float32)}
    with jax.enable_x64(True):
        exact = [np.asarray(f(a.astype(float), b.astype(float))) for f in forms] * 2
    for one, other in zip((*found, batched[0]), (*exact, exact[0]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6 * np.abs(other).max())
    assert batched[1] == pytest.approx(0 if unbiased and kind == "one row" else 1)


def test_one_row_that_differs_has_no_unbiased_correlation() -> None:
    """Its U-centred distances are 0 up to rounding."""
    with jax.enable_x64(True):
        a, b = (np.arange(500) == row for row in (7, 9))
        assert dcor(a, b, unbiased=True, algorithm="sort") == 0


@pytest.mark.parametrize(("measure", "order"), [(dcor, -0.5), (hgr_jax.hsic, -1.0)])
def test_independent_variables_have_values_of_an_order(
    measure: Callable[..., jax.Array], order: float
) -> None:
    rng = np.random.default_rng(0)
    few, many = (
        float(jnp.mean(jax.vmap(measure)(*rng.normal(size=(2, 20, rows))))) for rows in (100, 400)
    )
    assert np.log(many / few) / np.log(4) == pytest.approx(order, abs=0.3)
