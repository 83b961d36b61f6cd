"""Scans by kernels other than degrees: each pair is `kb` by them."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scan_support import ROWS, is_kb, plain, with_holes

import hgr_jax
from hgr_jax import Scan
from hgr_jax.kernels import Indicators, fourier, hats, indicators, splines

scan = functools.partial(hgr_jax.scan, measure="kb")

HATS = hats([-2, -0.5, 0, 0.5, 2])
SPLINES = splines([-2, 0, 2])
WAVES = fourier(2, period=5)


def logarithms(x: jax.Array) -> jax.Array:
    """A kernel of our own, which does not know what 0 is, and is far from orthonormal."""
    return jnp.stack([jnp.log(x), jnp.log(x) ** 2, 100 + jnp.log(x)], axis=1)


def table(rng: np.random.Generator, holes: bool) -> np.ndarray:
    x = plain(rng, 4)
    x[:, 3] = np.abs(x[:, 1]) + 0.2 * x[:, 3]
    return with_holes(x) if holes else x


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize(
    ("h", "k"), [(HATS, HATS), (HATS, 3), (2, SPLINES), (WAVES, SPLINES)], ids=str
)
def test_every_value_is_that_of_kb(rng: np.random.Generator, holes: bool, h: Any, k: Any) -> None:
    x = table(rng, holes)
    is_kb(scan(x, h=h, k=k, test=None), x, h, k)
    w = rng.uniform(0.5, 1.5, ROWS)
    is_kb(scan(x, h=h, k=k, test=None, weights=w), x, h, k, w)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("holes", [False, True])
def test_kernels_given_other_columns(rng: np.random.Generator, holes: bool) -> None:
    x = table(rng, holes)
    given = hgr_jax.Given([0], degree=2)
    for h, k in ((HATS, HATS), (2, SPLINES)):
        is_kb(scan(x, h=h, k=k, given=given, test=None), x, h, k, given=given)


@pytest.mark.usefixtures("x64")
def test_a_kernel_of_our_own(rng: np.random.Generator) -> None:
    x = np.exp(table(rng, holes=True))
    found = scan(x, h=logarithms, k=logarithms, test=None)
    for i, j in found.pairs:
        a, b = (np.log(x[~np.isnan(x[:, i] + x[:, j]), q]) for q in (i, j))
        assert found.correlation[i, j] == pytest.approx(float(hgr_jax.kb(a, b, 2, 2)), abs=1e-9)
        assert tuple(found.degrees[i, j]) == (2, 2)
    assert found.settings["h"] == "logarithms"


@pytest.mark.usefixtures("x64")
def test_codes_and_categories(rng: np.random.Generator) -> None:
    codes = rng.integers(0, 3, (ROWS, 2)).astype(float)
    codes[:, 1] = np.where(rng.random(ROWS) < 0.5, codes[:, 0], codes[:, 1])
    columns = {"a": codes[:, 0], "b": codes[:, 1]}
    by_name = {name: np.array(["x", "y", "z"])[c.astype(int)] for name, c in columns.items()}
    known = scan(by_name, test=None)
    for kernel in (Indicators(3), indicators([0, 1, 2])):
        found = scan(columns, h=kernel, k=kernel, test=None)
        assert found["a", "b"].correlation == pytest.approx(known["a", "b"].correlation, abs=1e-9)
        beside = scan({"a": columns["a"], "b": by_name["b"]}, h=kernel, k=5, test=None)
        assert beside["a", "b"].correlation == pytest.approx(known["a", "b"].correlation, abs=1e-9)


def test_what_is_of_values_and_of_ranks(rng: np.random.Generator) -> None:
    x = table(rng, holes=True)[:, :3]
    found, degrees = scan(x, h=HATS, k=3), scan(x, h=5, k=3)
    np.testing.assert_allclose(found.pvalue, degrees.pvalue, rtol=1e-4)
    np.testing.assert_array_equal(found.pvalue_source, degrees.pvalue_source)
    for name in ("rank_correlation", "spearman", "rank_linear", "pearson"):
        np.testing.assert_allclose(getattr(found, name), getattr(degrees, name), atol=1e-4)
    assert tuple(found.degrees[0, 1]) == (4, 3)
    assert found.null_95[0, 1] < degrees.null_95[0, 1]


def test_permutations_of_values(rng: np.random.Generator) -> None:
    x = table(rng, holes=False)[:, :3]
    found = scan(x, h=HATS, k=2, test=hgr_jax.Test("permutation", permutations=19), target=1)
    assert found.pvalue[0, 1] == 1 / 20
    assert found.pvalue_source[0, 1] == "permutation"


def test_fits_and_files(rng: np.random.Generator, tmp_path: Path) -> None:
    x = table(rng, holes=False)[:, :3].astype(np.float32)
    found = scan(x, h=HATS, k=3, test=None)
    fit = found.fit("x0", "x1")
    assert float(fit.correlation) == pytest.approx(found.correlation[0, 1], abs=1e-4)
    assert fit.f.encoder.kernel == HATS
    assert found.fit("x1", "x0").g.encoder.kernel == HATS
    assert "(kb, h=Splines(keypoints=(-2.0, -0.5, 0.0, 0.5, 2.0), degree=1), k=3)" in repr(found)
    found.save(tmp_path / "s.npz")
    assert repr(Scan.load(tmp_path / "s.npz")) == repr(found)
    with pytest.raises(ValueError, match="details and influence are of degrees; fit is of any"):
        found.influence("x0", "x1")


def test_a_constant_column_beside_kernels(rng: np.random.Generator) -> None:
    x = table(rng, holes=False)
    x[:, 2] = np.where(x[:, 0] > 0, 5, x[:, 2])
    x[x[:, 0] <= 0, 1] = np.nan
    found = scan(x, h=HATS, k=HATS, test=None)
    assert np.isnan(found.correlation[1, 2])
    assert np.isnan(found.pearson[1, 2])
    assert np.isfinite(found.correlation[0, 1:]).all()
