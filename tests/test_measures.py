"""What every measure promises, whatever it computes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hgr_jax
from hgr_jax import measures

ROWS = 40
KEY = jax.random.key(3)

Measure = Callable[..., jax.Array]


def second_mode(a: Any, b: Any, **options: Any) -> jax.Array:
    return hgr_jax.spectrum(a, b, h=3, k=2, **options)[1]


MEASURES: dict[str, Measure] = {
    "ace": hgr_jax.ace,
    "chi2": hgr_jax.chi2,
    "distance_correlation": hgr_jax.distance_correlation,
    "hgr": hgr_jax.hgr,
    "hsic": hgr_jax.hsic,
    "kb": functools.partial(hgr_jax.kb, h=3, k=2),
    "kde": hgr_jax.kde,
    "kernel_cca": functools.partial(hgr_jax.kernel_cca, rank=16),
    "kernel_ica_contrast": functools.partial(hgr_jax.kernel_ica_contrast, rank=16),
    "neural": functools.partial(hgr_jax.neural, key=KEY, steps=3),
    "oracle": functools.partial(hgr_jax.oracle, f=jnp.square, g=jnp.negative),
    "pearson": hgr_jax.pearson,
    "rdc": functools.partial(hgr_jax.rdc, key=KEY),
    "sk": functools.partial(hgr_jax.sk, d=3),
    "spearman": hgr_jax.spearman,
    "spectrum": second_mode,
    "total": functools.partial(hgr_jax.total, h=3, k=2),
}

SIGNED = {"pearson", "spearman"}
UNBOUNDED = {"chi2", "kernel_ica_contrast"}
WITHOUT_GRADIENT = {"rdc", "spearman"}
RANDOM = {"neural", "rdc"}
COMPARED_ELSEWHERE = {
    "ace",
    "distance_correlation",
    "hgr",
    "hsic",
    "kb",
    "kernel_cca",
    "kernel_ica_contrast",
    "sk",
}
"""Float32 is compared with float64 in the measure's own test file."""

# Those whose own tests look at the same, and whose programs are long to compile.
LONG = {"ace", "kde", "kernel_cca", "kernel_ica_contrast", "neural", "rdc"}

every_measure = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "neural")) for n in MEASURES]
)
every_short_measure = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONG)) for n in MEASURES]
)


@functools.cache
def compiled(name: str, dtype: str) -> Callable[..., tuple[jax.Array, tuple[jax.Array, ...]]]:
    return jax.jit(jax.value_and_grad(MEASURES[name], argnums=(0, 1)))


def value_and_gradients(name: str, a: Any, b: Any) -> tuple[float, np.ndarray]:
    value, gradients = compiled(name, a.dtype.name)(a, b)
    return float(value), np.stack([np.asarray(g) for g in gradients])


@pytest.fixture
def pair(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    a = rng.uniform(-1, 1, ROWS).astype(np.float32)
    return a, (a**2 + 0.3 * rng.standard_normal(ROWS)).astype(np.float32)


def test_every_measure_is_here() -> None:
    public = {name for name in measures.__all__ if name.islower() and not name.endswith("_fit")}
    assert public == set(MEASURES)
    for name in public:
        assert getattr(hgr_jax, name) is getattr(measures, name)
        assert name in dir(hgr_jax)


@every_measure
def test_jit_is_eager_and_float32_is_nearly_float64(name: str, pair: tuple[Any, Any]) -> None:
    measure = MEASURES[name]
    a, b = pair
    value, gradients = value_and_gradients(name, a, b)
    assert measure(a, b).dtype == jnp.float32
    assert measure(a, b).shape == ()
    np.testing.assert_allclose(measure(a, b), value, rtol=1e-6, atol=1e-6)
    if name not in UNBOUNDED:
        assert (-1 if name in SIGNED else 0) <= value <= 1
    if name in WITHOUT_GRADIENT:
        assert not gradients.any()
    else:
        assert gradients.any()
    if name in RANDOM | COMPARED_ELSEWHERE:  # of the random ones another dtype makes other draws
        return
    with jax.enable_x64(True):
        x, y = (v.astype(np.float64) for v in pair)
        double, double_gradients = value_and_gradients(name, x, y)
        assert jax.eval_shape(measure, x, y).dtype == jnp.float64
    np.testing.assert_allclose(value, double, rtol=2e-4, atol=2e-4)
    scale = np.abs(double_gradients).max()
    np.testing.assert_allclose(gradients, double_gradients, rtol=0, atol=5e-3 * scale)


@every_short_measure
def test_vmap_is_a_loop(name: str, rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((2, 3, ROWS)).astype(np.float32)
    expected = [MEASURES[name](x, y) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(jax.vmap(MEASURES[name])(a, b), expected, rtol=1e-5, atol=1e-5)


@every_measure
def test_degenerate_data_have_finite_values_and_gradients(name: str, pair: tuple[Any, Any]) -> None:
    a, b = pair
    constant, two_valued = np.full_like(a, 0.1), np.where(a > 0.2, np.float32(3), np.float32(-1))
    for x, y in ((constant, b), (a, constant), (constant, constant)):
        value, gradients = value_and_gradients(name, x, y)
        assert value == 0
        np.testing.assert_array_equal(gradients, 0)
    for x, y in ((two_valued, b), (a, two_valued), (two_valued, two_valued), (a, a)):
        value, gradients = value_and_gradients(name, x, y)
        assert np.isfinite(value)
        assert np.isfinite(gradients).all()


@every_measure
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_gives_nan(name: str, bad: float, pair: tuple[Any, Any]) -> None:
    a, b = pair
    row = np.arange(ROWS)
    x, y = np.where(row == 3, np.float32(bad), a), np.where(row == 5, np.float32(bad), b)
    for broken in ((x, b), (a, y), (np.full_like(a, 0.1), y)):
        assert np.isnan(value_and_gradients(name, *broken)[0])


@pytest.mark.parametrize("measure", [hgr_jax.hgr, hgr_jax.kb, hgr_jax.pearson])
def test_integers_that_are_all_one_float_are_told_of(measure: Any) -> None:
    with pytest.warns(UserWarning, match="a lies so far from 0"):
        value = measure(2**62 + np.arange(200), np.arange(200))
    assert float(value) == 0


@pytest.mark.parametrize("far", [1.7e9 + np.arange(500.0), 2**60 + 2**20 * np.arange(500)])
def test_digits_that_float32_has_not_are_warned_of(far: np.ndarray) -> None:
    near = np.sin(np.arange(500) / 80).astype(np.float32)
    with pytest.warns(UserWarning, match=r"b lies so far from 0 .* \(b - b\[0\]\)"):
        hgr_jax.kb(near, far)
    with pytest.warns(UserWarning, match="a lies so far from 0"):
        hgr_jax.pearson(np.stack([far, near], axis=1)[:, 0], near)
    assert hgr_jax.kb(far - far[0], near) > 0.99
    for x in (1970.0 + np.arange(500) % 50, np.full(500, 0.1), np.arange(500) * 1e30, far * np.nan):
        hgr_jax.kb(x, near)


@every_measure
def test_sizes_of_long_data_do_not_overflow(name: str) -> None:
    """Its square, the number of pairs, is beyond 32 bits."""
    x = jax.ShapeDtypeStruct((10_000_000,), jnp.float32)
    measure = jax.value_and_grad(MEASURES[name], argnums=(0, 1))
    value, gradients = jax.eval_shape(measure, x, x)
    assert value.shape == ()
    assert [g.shape for g in gradients] == [x.shape, x.shape]


OF_LONG_DATA: dict[str, tuple[Measure, int]] = {
    "ace": (hgr_jax.ace, 800),
    "distance_correlation": (hgr_jax.distance_correlation, 4096),
    "hsic": (hgr_jax.hsic, 4096),
    **{name: (getattr(hgr_jax, name), 4096) for name in ("kernel_cca", "kernel_ica_contrast")},
}
"""With the bytes that a row may take: a row of a matrix of rows by rows takes 65,536."""


@pytest.mark.parametrize("name", OF_LONG_DATA)
def test_memory_is_of_some_numbers_a_row(name: str) -> None:
    measure, bytes_of_a_row = OF_LONG_DATA[name]
    column = jax.ShapeDtypeStruct((2**14,), jnp.float32)
    program = jax.jit(jax.value_and_grad(measure, argnums=(0, 1))).lower(column, column).compile()
    assert program.memory_analysis().temp_size_in_bytes < 2**14 * bytes_of_a_row


@every_measure
def test_errors_name_the_argument(name: str) -> None:
    measure = MEASURES[name]
    good = np.arange(8.0)
    wrong = good.astype(complex) if name == "hgr" else np.array(["x"] * 8)  # hgr takes text
    with pytest.raises(TypeError, match=r"^a must hold real numbers"):
        measure(wrong, good)
    with pytest.raises(TypeError, match=r"^b must hold real numbers"):
        measure(good, good.astype(complex))
    with pytest.raises(ValueError, match=r"^a must have shape"):
        measure(np.zeros((2, 2, 2)), good)
    with pytest.raises(ValueError, match="same number of rows"):
        measure(good, good[:-1])
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        measure(good, good, nonsense=1)


@every_measure
def test_an_estimate_does_not_change_with_the_order_of_rows(
    name: str, pair: tuple[Any, Any], rng: np.random.Generator
) -> None:
    a, b = pair
    order = rng.permutation(ROWS)
    np.testing.assert_allclose(
        MEASURES[name](a[order], b[order]), MEASURES[name](a, b), rtol=2e-5, atol=2e-5
    )


@pytest.mark.parametrize("name", sorted(RANDOM))
def test_keys(name: str, pair: tuple[Any, Any]) -> None:
    measure = functools.partial(MEASURES[name].func, *pair)  # type: ignore[attr-defined]
    options = {"steps": 3} if name == "neural" else {}
    first, again = (measure(key=jax.random.key(0), **options) for _ in range(2))
    assert first == again == measure(key=jax.random.PRNGKey(0), **options)
    assert first != measure(key=jax.random.key(1), **options)
    with pytest.raises(TypeError, match=r"^key must be a random key"):
        measure(key=np.zeros(2, np.uint32), **options)
    with pytest.raises(ValueError, match=r"^key must be one random key"):
        measure(key=jax.random.split(jax.random.key(0)), **options)
