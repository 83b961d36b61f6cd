"""RDC: against a plain reference, and in distribution against maxcorr."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import maxcorr
import numpy as np
import pytest
import scipy.linalg
import scipy.stats

import hgr_jax
from hgr_jax.measures.rdc import _shares, _weights

ROWS = 500


def pair(name: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    a = rng.uniform(-1, 1, ROWS)
    noise = rng.standard_normal(ROWS)
    return a, {"none": noise, "square": a**2 + 0.3 * noise, "wave": np.sin(3 * a) + 0.5 * noise}[
        name
    ]


def reference(
    a: np.ndarray, b: np.ndarray, weights: tuple[np.ndarray, np.ndarray], ridge: float
) -> float:
    """Ridge canonical correlation as a generalised eigenvalue problem."""
    features = []
    for x, w in zip((a, b), weights, strict=True):
        columns = x.reshape(len(x), -1)
        shares = np.stack([scipy.stats.rankdata(c) for c in columns.T], axis=1) / len(x)
        f = np.sin(np.hstack([shares, np.ones((len(x), 1))]) @ w)
        features.append(f - f.mean(axis=0))
    left, right = features
    grams = []
    for f in features:
        gram = f.T @ f
        grams.append(gram + ridge * np.linalg.eigvalsh(gram)[-1] * np.eye(len(gram)))
    cross = left.T @ right
    zero = np.zeros_like(cross)
    values = scipy.linalg.eigh(
        np.block([[zero, cross], [cross.T, zero]]),
        scipy.linalg.block_diag(*grams),
        eigvals_only=True,
    )
    return float(values[-1])


def drawn(
    key: jax.Array, a: Any, b: Any, scale: float = 1 / 6, projections: int = 20
) -> tuple[np.ndarray, np.ndarray]:
    """The weights that one repeat draws."""
    (part,) = jax.random.split(key, 1)
    shares = _shares(jnp.asarray(a)), _shares(jnp.asarray(b))
    weights = _weights(part, shares, jnp.asarray(scale, shares[0].dtype), projections)
    return np.asarray(weights[0]), np.asarray(weights[1])


@pytest.mark.usefixtures("x64")
def test_against_a_plain_reference_for_the_same_draw(rng: np.random.Generator) -> None:
    a, b = pair("square", rng)
    key = jax.random.key(1)
    two = np.stack([a, rng.standard_normal(ROWS)], axis=1)
    for x, ridge, size in ((a, 1e-4, {}), (two, 1e-3, {"projections": 7, "scale": 2.0})):
        expected = reference(x, b, drawn(key, x, b, **size), ridge)
        value = hgr_jax.rdc(x, b, key=key, regularization=ridge, **size)
        np.testing.assert_allclose(value, expected, atol=1e-8)
        fit = hgr_jax.rdc_fit(x, b, key=key, regularization=ridge, **size)
        np.testing.assert_allclose(fit.correlation, expected, atol=1e-8)


def published(
    a: np.ndarray, b: np.ndarray, weights: tuple[np.ndarray, np.ndarray], f: Any = np.sin
) -> tuple[float, list[int]]:
    """The code in R, ``cancor(cbind(f(x), 1), cbind(f(y), 1))$cor[1]``, and the ranks of its qr.

    That passes over a column of which less than 1e-7 of its norm is left, as this does.
    """
    bases = []
    for x, w in zip((a, b), weights, strict=True):
        columns = x.reshape(len(x), -1)
        shares = np.stack([scipy.stats.rankdata(c) for c in columns.T], axis=1) / len(x)
        values = f(np.hstack([shares, np.ones((len(x), 1))]) @ w.astype(np.float64))
        basis = np.zeros((len(x), 0))
        for column in (values - values.mean(axis=0)).T:
            rest = column
            for _ in range(2):
                rest = rest - basis @ (basis.T @ rest)
            if np.linalg.norm(rest) > 1e-7 * np.linalg.norm(column):
                basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
        bases.append(basis)
    values = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)
    return float(values[0]), [basis.shape[1] for basis in bases]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["none", "square", "W", "circle", "ties", "two values"])
def test_the_published_code(name: str, dtype: str, rng: np.random.Generator) -> None:
    a, b = pair(name if name in ("none", "square") else "wave", rng)
    angle = rng.uniform(0, 2 * np.pi, ROWS)
    a, b = {
        "W": (a, np.abs(np.abs(a) - 0.5)),
        "circle": (np.cos(angle), np.sin(angle)),
        "ties": (np.maximum(a, 0), np.round(b)),
        "two values": (a, (np.abs(a) > 0.6) * 1.0),
    }.get(name, (a, b))
    a, b = a.astype(dtype), b.astype(dtype)
    with jax.enable_x64(dtype == "float64"):
        for seed, options in ((0, {}), (1, {}), (2, {"scale": 1.0}), (3, {"functions": "cos"})):
            if "functions" in options and dtype == "float32":
                continue  # other programs, of the same precision
            key = jax.random.key(seed)
            weights = drawn(key, a, b, options.get("scale", 1 / 6))
            f = np.cos if "functions" in options else np.sin
            expected, ranks = published(a, b, weights, f)
            assert max(ranks) < 9
            value = hgr_jax.rdc(a, b, key=key, regularization=None, **options)
            tolerance = 1e-4 if dtype == "float32" else 1e-6
            np.testing.assert_allclose(value, expected, atol=tolerance)
            fit = hgr_jax.rdc_fit(a, b, key=key, regularization=None, **options)
            np.testing.assert_allclose(fit.correlation, value, atol=1e-5)
            np.testing.assert_allclose(fit.score(a, b), value, atol=1e-3)


@pytest.mark.usefixtures("x64")
def test_the_published_code_by_values(rng: np.random.Generator) -> None:
    """Of several variables, other functions, and functions that oscillate."""
    a, b = pair("square", rng)
    two = np.stack([a, rng.standard_normal(ROWS)], axis=1)
    for x, options, f in (
        (two, {}, np.sin),
        (a, {"functions": jnp.tanh}, np.tanh),
        (a, {"scale": 20.0}, np.sin),
    ):
        key = jax.random.key(4)
        expected, _ = published(x, b, drawn(key, x, b, options.get("scale", 1 / 6)), f)
        value = hgr_jax.rdc(x, b, key=key, regularization=None, **options)
        np.testing.assert_allclose(value, expected, atol=1e-6)
        fit = hgr_jax.rdc_fit(x, b, key=key, regularization=None, **options)
        np.testing.assert_allclose(fit.score(x, b), expected, atol=1e-4)


def test_the_published_rule_sees_more_than_the_ridge(rng: np.random.Generator) -> None:
    a, _ = pair("none", rng)
    b = np.abs(np.abs(a) - 0.5)
    key = jax.random.key(0)
    options = {"key": key, "repeats": 11}
    assert hgr_jax.rdc(a, b, **options) < 0.6
    assert hgr_jax.rdc(a, b, **options, regularization=None) > 0.8


def test_float32_of_several_variables_sees_no_rounding(rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((2, ROWS, 2))
    for functions in ("sin", jnp.tanh):
        value = hgr_jax.rdc(a, b, key=jax.random.key(0), regularization=None, functions=functions)
        assert value < 0.35


def test_the_published_rule_under_transformations(rng: np.random.Generator) -> None:
    a, b = pair("wave", rng)
    keys = jax.random.split(jax.random.key(0), 3)

    def value(key: jax.Array, b: Any) -> jax.Array:
        return hgr_jax.rdc(jnp.asarray(a), b, key=key, regularization=None)

    b = jnp.asarray(b)
    expected = [float(value(key, b)) for key in keys]
    np.testing.assert_allclose(jax.jit(jax.vmap(value, (0, None)))(keys, b), expected, atol=1e-5)
    assert not np.any(jax.grad(value, 1)(keys[0], b))
    constant = jnp.full_like(b, 0.1)
    assert value(keys[0], constant) == 0
    assert not np.any(jax.grad(value, 1)(keys[0], constant))
    assert np.isnan(value(keys[0], b.at[3].set(jnp.nan)))


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")  # of maxcorr's own code
@pytest.mark.parametrize("name", ["none", "square", "wave"])
def test_in_distribution_against_maxcorr(name: str, rng: np.random.Generator) -> None:
    """Medians agree; maxcorr's spread, which its search for a stable rank makes, is larger."""
    a, b = pair(name, rng)
    peer = maxcorr.indicator("hgr", "rdc")
    np.random.seed(0)  # noqa: NPY002 (maxcorr draws from it)
    theirs = np.array([float(peer.compute(a, b)) for _ in range(40)])
    keys = jax.random.split(jax.random.key(0), 40)
    ours = np.asarray(jax.vmap(lambda key: hgr_jax.rdc(a, b, key=key))(keys))
    assert abs(np.median(ours) - np.median(theirs)) < 0.01
    assert ours.std() <= theirs.std() + 0.003
    with jax.enable_x64(True):
        double = jax.vmap(lambda key: hgr_jax.rdc(a, b, key=key))(keys)
    np.testing.assert_allclose(np.median(ours), np.median(double), atol=2e-3)


def test_derivatives_by_the_options_are_zero_too(rng: np.random.Generator) -> None:
    a, b = pair("wave", rng)

    def value(scale: jax.Array, ridge: jax.Array) -> jax.Array:
        return hgr_jax.rdc(a, b, key=jax.random.key(0), scale=scale, regularization=ridge)

    assert jax.grad(value, argnums=(0, 1))(jnp.float32(0.2), jnp.float32(1e-8)) == (0, 0)
    assert np.isnan(jax.jit(value)(0.2, -1.0))


def test_a_tiny_scale_leaves_the_ranks_alone(rng: np.random.Generator) -> None:
    a, b = pair("wave", rng)
    for scale in (1e-6, 1e-30):
        value = hgr_jax.rdc(a, b, key=jax.random.key(0), scale=scale)
        np.testing.assert_allclose(value, abs(hgr_jax.spearman(a, b)), atol=2e-3)


def test_the_median_over_repeats(rng: np.random.Generator) -> None:
    a, b = pair("wave", rng)
    key = jax.random.key(5)
    options = {"scale": 1.0, "projections": 3}
    keys = jax.random.split(key, 8)
    many = [float(hgr_jax.rdc(a, b, key=k, repeats=9, **options)) for k in keys]
    few = [float(hgr_jax.rdc(a, b, key=k, **options)) for k in keys]
    assert 0 < np.std(many) < np.std(few)
    assert abs(np.median(many) - np.median(few)) < np.std(few)


def test_transformations_are_of_the_ranks(rng: np.random.Generator) -> None:
    a, b = pair("square", rng)
    fit = hgr_jax.rdc_fit(a, b, key=jax.random.key(0))
    for transform, x in ((fit.f, a), (fit.g, b)):
        values = np.asarray(transform(x))
        np.testing.assert_allclose([values.mean(), values.std()], [0, 1], atol=0.01)
    np.testing.assert_allclose(fit.score(a, b), fit.correlation, atol=0.01)
    fresh = pair("square", np.random.default_rng(9))
    assert 0.6 < fit.score(*fresh) < 0.85
    assert np.isnan(fit.f(np.array([0.1, np.nan]))).tolist() == [False, True]
    moved = hgr_jax.rdc_fit(np.exp(a), b, key=jax.random.key(0))
    np.testing.assert_allclose(moved.correlation, fit.correlation, atol=1e-6)
    np.testing.assert_allclose(moved.f(np.exp(a)), fit.f(a), atol=0.02)


def test_a_batch_of_fits_is_mapped_over_and_dropped_rows_do_not_score(
    rng: np.random.Generator,
) -> None:
    a, b = pair("square", rng)
    keys = jax.random.split(jax.random.key(0), 2)
    fits = jax.vmap(lambda key: hgr_jax.rdc_fit(a, b, key=key))(keys)
    with pytest.raises(ValueError, match=r"batch of fits, of shape \(2,\)"):
        fits.f(a)
    assert jax.vmap(lambda fit: fit.f(a))(fits).shape == (2, ROWS)
    fit = hgr_jax.rdc_fit(a, b, key=keys[0])
    kept = np.abs(a) < 0.5
    expected = fit.score(a[kept], b[kept])
    np.testing.assert_allclose(fit.score(a, b, weights=kept), expected, atol=1e-5)
    assert abs(expected - fit.score(a, b)) > 0.1
