"""One compiled program for many numbers of rows, and the values of exact shapes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hgr_jax
from bench import reference
from hgr_jax import Scan, scan

LENGTHS = (107, 97, 101, 127, 128)
"""All in the program of up to 128 rows."""

KEY = jax.random.key(0)

MEASURES: dict[str, Callable[..., jax.Array]] = {
    "ace": hgr_jax.ace,
    "chi2": functools.partial(hgr_jax.chi2, bandwidth=0.5),
    "distance_correlation": hgr_jax.distance_correlation,
    "hsic": hgr_jax.hsic,
    "kb": functools.partial(hgr_jax.kb, h=4, k=3),
    "hsic, not normalised": functools.partial(hgr_jax.hsic, normalized=False),
    "kde": functools.partial(hgr_jax.kde, bandwidth=0.5),
    "kernel_cca": functools.partial(hgr_jax.kernel_cca, rank=16),
    "kgv": functools.partial(hgr_jax.kernel_ica_contrast, rank=16),
    "neural": functools.partial(hgr_jax.neural, key=KEY, steps=3),
    "oracle": functools.partial(hgr_jax.oracle, f=jnp.square, g=jnp.negative),
    "pearson": hgr_jax.pearson,
    "rdc": functools.partial(hgr_jax.rdc, key=KEY, projections=5),
    "sk": functools.partial(hgr_jax.sk, d=3),
    "spearman": hgr_jax.spearman,
    "spectrum": lambda a, b: hgr_jax.spectrum(a, b, 3, 2)[1],
    "total": functools.partial(hgr_jax.total, h=3, k=2),
}

TOLERANCES = {"ace": 1e-8, "rdc": 1e-9, "neural": 1e-9, "kb": 1e-11}
"""Of those that end an iteration, or divide by little."""


def pair(rows: int, *, tied: bool = False) -> tuple[np.ndarray, np.ndarray]:
    a, noise = np.random.default_rng(rows).standard_normal((2, rows))
    b = 0.8 * a + a**2 + noise / 2
    return (np.round(2 * a), np.round(b)) if tied else (a, b)


every_measure = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "neural")) for n in MEASURES]
)


@pytest.mark.usefixtures("x64")
@every_measure
def test_values_are_those_of_exact_shapes(name: str, compilations: Any) -> None:
    measure, tolerance = MEASURES[name], TOLERANCES.get(name, 1e-12)
    a, b = pair(LENGTHS[0])
    value = measure(a, b)
    tied = pair(LENGTHS[0], tied=True)
    with compilations() as programs:
        value_tied = measure(*tied)
        for rows in LENGTHS[1:]:
            measure(*pair(rows))
    assert not programs
    exact = jax.jit(measure)
    np.testing.assert_allclose(value, exact(a, b), rtol=0, atol=tolerance)
    np.testing.assert_allclose(value_tied, exact(*tied), rtol=0, atol=tolerance)


@pytest.mark.usefixtures("x64")
@every_measure
def test_few_rows_and_degenerate_data(name: str) -> None:
    measure = MEASURES[name]
    a, b = pair(100)
    for rows in (4, 5):
        assert np.isfinite(measure(a[:rows], b[:rows]))
    constant = np.full(100, 0.1)
    assert measure(constant, b) == measure(a, constant) == 0
    for bad in (np.nan, np.inf, -np.inf):
        for place in (0, 50, 99):
            broken = np.where(np.arange(100) == place, bad, a)
            assert np.isnan(measure(broken, b))
            assert np.isnan(measure(b, broken))


FITS: dict[str, Callable[..., Any]] = {
    "ace": hgr_jax.ace_fit,
    "neural": functools.partial(hgr_jax.neural_fit, key=KEY, steps=3),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["ace", pytest.param("neural", marks=pytest.mark.slow)])
def test_fits_are_of_the_rows_alone(name: str, compilations: Any) -> None:
    def fitted(rows: int) -> Any:
        fit = FITS[name](*pair(rows))
        new = pair(rows - 3)[0]
        return fit, new, fit.f(new)

    fitted(LENGTHS[0])
    with compilations() as programs:
        fit, new, values = fitted(LENGTHS[1])
    assert not programs
    assert values.shape == new.shape
    np.testing.assert_allclose(values, jax.jit(lambda fit, x: fit.f(x))(fit, new), atol=1e-9)
    if name != "neural":
        sample = fit.f.knots if name == "ace" else fit.f.sample[:, 0]
        np.testing.assert_allclose(np.unique(sample), np.sort(pair(LENGTHS[1])[0]), rtol=1e-12)


def mixed(rows: int, seed: int = 0) -> dict[str, Any]:
    """Numbers, ties and a category, some of them with missing values."""
    rng = np.random.default_rng(seed)
    table: dict[str, Any] = {f"x{i}": rng.normal(size=rows) for i in range(3)}
    table["x1"] = table["x0"] ** 2 + 0.3 * table["x1"]
    table["tied"] = rng.integers(0, 5, rows).astype(float)
    names = np.array(list("abc"), dtype=object)
    table["group"] = names[rng.integers(0, 3, rows)]
    for name in ("x1", "tied"):
        table[name][rng.random(rows) < 0.1] = np.nan
    return table


def is_right(found: Scan, table: dict[str, Any], tolerance: float = 1e-4) -> None:
    a, b = table["x0"], table["x1"]
    keep = ~np.isnan(b)
    value = reference.kb(a[keep], b[keep], found.settings["h"], found.settings["k"])
    assert found.correlation[0, 1] == pytest.approx(value, abs=tolerance)


def test_tables_of_many_lengths_compile_next_to_nothing(compilations: Any) -> None:
    """With permutations of the short ones, and ranks of the long ones."""
    sources = set()
    with compilations() as compiled:
        for rows in (18, 57, 91, 333, 500, 777, 1025, 1500, 1999, 2500, 3001, 4097):
            table = mixed(rows, rows)
            found = scan(table, h=3, k=2, test=hgr_jax.Test(permutations=19))
            sources |= set(found.pvalue_source.ravel())
            is_right(found, table)
    assert {"rank", "permutation"} <= sources
    assert len(compiled) <= 4  # of a random key
