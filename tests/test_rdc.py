"""RDC: against a plain reference, and in distribution against maxcorr."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import maxcorr
import numpy as np
import pytest
import scipy.linalg
import scipy.stats

import hgr_jax
from hgr_jax.measures.rdc import RIDGE

ROWS = 500


def pair(name: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    a = rng.uniform(-1, 1, ROWS)
    noise = rng.standard_normal(ROWS)
    return a, {
        "none": noise,
        "square": a**2 + 0.3 * noise,
        "wave": np.sin(3 * a) + 0.5 * noise,
        "ties": np.round(a**2 + 0.3 * noise, 1),
    }[name]


def reference(a: np.ndarray, b: np.ndarray, key: jax.Array, scale: float, count: int) -> float:
    """Canonical correlation with a ridge, in a basis in which covariances are diagonal."""
    directions = []
    for x, part in zip((a, b), jax.random.split(key), strict=True):
        w = scale / 2 * np.asarray(jax.random.normal(part, (2, count), np.float64))
        share = scipy.stats.rankdata(x) / len(x)
        f = np.sin(np.outer(share, w[0]) + w[1])
        u, size, _ = np.linalg.svd(f - f.mean(axis=0), full_matrices=False)
        directions.append(u * (size / np.hypot(size, RIDGE**0.5 * size[0])))
    return float(scipy.linalg.svdvals(directions[0].T @ directions[1])[0])


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["none", "square", "wave", "ties"])
@pytest.mark.parametrize(("scale", "count"), [(1 / 6, 20), (2.0, 7)])
def test_against_a_plain_reference_for_the_same_draw(
    name: str, scale: float, count: int, rng: np.random.Generator
) -> None:
    a, b = pair(name, rng)
    key = jax.random.key(1)
    expected = reference(a, b, key, scale, count)
    value = hgr_jax.rdc(a, b, key=key, scale=scale, projections=count)
    np.testing.assert_allclose(value, expected, atol=1e-7)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")  # of maxcorr's own code
@pytest.mark.parametrize(
    "name", ["square", *(pytest.param(n, marks=pytest.mark.slow) for n in ("none", "wave"))]
)
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


def test_derivatives_by_data_and_scale_are_zero(rng: np.random.Generator) -> None:
    a, b = (jnp.asarray(x, jnp.float32) for x in pair("wave", rng))

    def value(b: jax.Array, scale: jax.Array) -> jax.Array:
        return hgr_jax.rdc(a, b, key=jax.random.key(0), scale=scale)

    by_b, by_scale = jax.grad(value, argnums=(0, 1))(b, jnp.float32(0.2))
    assert not by_b.any()
    assert by_scale == 0
    assert np.isnan(jax.jit(value)(b, -1.0))
