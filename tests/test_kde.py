"""HGR-KDE and the chi-square divergence of the same density."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_support import check_derivatives

import hgr_jax
from hgr_jax.core import rows as row_sums

torch = pytest.importorskip("torch", reason="maxcorr's density indicator is written in torch")


def numpy_density(a: np.ndarray, b: np.ndarray, bandwidth: float) -> np.ndarray:
    """Kernel by kernel, in two dimensions, as the definition has it."""
    a, b = ((x - x.mean()) / x.std(ddof=1) for x in (a, b))
    points = int(5 / bandwidth)
    grid = np.linspace(-2.5, 2.5, points)
    density = np.empty((points, points))
    for i, x in enumerate(grid):
        for j, y in enumerate(grid):
            squared = (x - a) ** 2 + (y - b) ** 2
            density[i, j] = np.exp(-squared / (2 * bandwidth**2)).mean()
    density = density / (np.sqrt(2 * np.pi) * bandwidth) + 1e-9
    return density / density.sum()


def pair(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    a = rng.uniform(-1, 1, rows)
    return a, a**2 + 0.3 * rng.standard_normal(rows)


@pytest.mark.parametrize("rows", [50, 2000])
def test_against_maxcorr(rows: int, rng: np.random.Generator) -> None:
    import maxcorr

    a, b = pair(rng, rows)
    for measure, chi_square in ((hgr_jax.kde, False), (hgr_jax.chi2, True)):
        peer = maxcorr.indicator("hgr", "kde", backend="torch", chi_square=chi_square)
        expected = float(peer.compute(torch.tensor(a), torch.tensor(b)))
        np.testing.assert_allclose(measure(a, b), expected, atol=1e-5)
        with jax.enable_x64(True):
            np.testing.assert_allclose(measure(a, b), expected, atol=1e-6)


@pytest.mark.usefixtures("x64")
def test_bandwidths_against_the_definition(rng: np.random.Generator) -> None:
    a, b = pair(rng, 60)
    for bandwidth in (0.4, 0.7):
        p = numpy_density(a, b, bandwidth)
        q = p / np.sqrt(np.outer(p.sum(axis=1), p.sum(axis=0)))
        singular = np.linalg.svd(q, compute_uv=False)
        np.testing.assert_allclose(singular[0], 1, atol=1e-12)
        value = hgr_jax.kde(a, b, bandwidth=bandwidth)
        np.testing.assert_allclose(value, singular[1], atol=1e-10)
        value = hgr_jax.chi2(a, b, bandwidth=bandwidth)
        np.testing.assert_allclose(value, (q**2).sum() - 1, atol=1e-10)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("measure", [hgr_jax.kde, hgr_jax.chi2])
def test_derivatives(measure: object, rng: np.random.Generator) -> None:
    a, b = pair(rng, 12)

    def value(a: jax.Array, b: jax.Array, bandwidth: jax.Array) -> jax.Array:
        return measure(a, b, bandwidth=bandwidth)  # type: ignore[operator]

    check_derivatives(value, (a, b, 0.6), 2)


def test_the_default_is_the_bandwidth_of_silverman(rng: np.random.Generator) -> None:
    a, b = (x.astype(np.float32) for x in pair(rng, 200))
    for measure in (hgr_jax.kde, hgr_jax.chi2):
        assert measure(a, b) == measure(a, b, bandwidth=200 ** (-1 / 6))
        assert np.isnan(jax.jit(lambda w, m=measure: m(a, b, bandwidth=w))(-0.5))


def test_long_data_in_blocks(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (jnp.asarray(x, jnp.float32) for x in pair(rng, 500))
    whole = jax.value_and_grad(hgr_jax.kde)(a, b, bandwidth=0.3)
    monkeypatch.setattr(row_sums, "WHOLE_ROWS", 100)
    monkeypatch.setattr(row_sums, "BLOCK_ROWS", 64)
    jax.clear_caches()
    blocks = jax.value_and_grad(hgr_jax.kde)(a, b, bandwidth=0.3)
    np.testing.assert_allclose(blocks[0], whole[0], atol=1e-6)
    np.testing.assert_allclose(blocks[1], whole[1], atol=1e-6)
