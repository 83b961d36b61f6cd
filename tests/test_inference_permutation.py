"""Permutation tests: the definition in a loop, the level under independence, and the edges."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hgr_jax
from bench.data import awkward_pair
from hgr_jax.inference.orders import seed_of
from hgr_jax.inference.permutation import orders, permutation_test

ROWS, COUNT = 40, 50
KEY = jax.random.key(7)

kb = functools.partial(hgr_jax.kb, h=3, k=2, solver="svd")


@jax.jit
def covariance(
    a: Any, b: Any, weights: Any = None, *, scale: Any = 1.0, shift: Any = 0.0
) -> jax.Array:
    """Of the sums of their columns: a measure that compiles at once."""
    a, b = (jnp.sum(x.reshape(len(x), -1), axis=1) for x in (a, b))
    mean = functools.partial(jnp.average, weights=weights)
    return scale * jnp.abs(mean((a - mean(a)) * (b - mean(b)))) + jnp.sum(jnp.asarray(shift))


def slow(a: Any, b: Any, measure: Any, **options: Any) -> np.ndarray:
    """The measure on the data, then under the same permutations, one at a time."""
    (order,) = orders(seed_of(KEY), len(a), 1, 1 + COUNT)
    a, b = jnp.asarray(a), jnp.asarray(b)
    return np.array([float(measure(a, b[rows], **options)) for rows in order])


def agrees(found: Any, values: np.ndarray, rtol: float) -> None:
    statistic, null = values[0], values[1:]
    np.testing.assert_allclose(found.statistic, statistic, rtol=rtol)
    reached = np.count_nonzero(null >= statistic * (1 - rtol))
    assert found.pvalue == (1 + reached) / (1 + len(null))
    np.testing.assert_allclose(found.null_mean, null.mean(), rtol=rtol)
    np.testing.assert_allclose(found.null_95, np.quantile(null, 0.95), rtol=rtol)
    assert found.permutations == len(null)


permuted = functools.partial(permutation_test, key=KEY, permutations=COUNT)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.usefixtures("x64")
def test_kb_is_a_loop_over_permutations(weighted: bool, rng: np.random.Generator) -> None:
    options = {"weights": rng.uniform(0.5, 2, ROWS)} if weighted else {}
    for kind in ("normal", "discrete"):
        a, b = awkward_pair(kind, ROWS)
        a = np.where(rng.random(ROWS) < 0.3, b, a)
        agrees(permuted(a, b, kb, **options), slow(a, b, kb, **options), 1e-9)
    if weighted:
        options["weights"][3] = -1
        with pytest.raises(ValueError, match="not negative"):
            permuted(a, b, kb, **options)


def test_other_measures_with_their_options(rng: np.random.Generator) -> None:
    a = rng.normal(size=(ROWS, 2)).astype(np.float32)
    b = (a[:, 0] + a[:, 1] + 3 * rng.normal(size=ROWS)).astype(np.float32)
    agrees(permuted(a, b, covariance), slow(a, b, covariance), 1e-5)
    options = {"scale": 1e-6, "shift": jnp.zeros(3), "weights": jnp.asarray(b**2)}
    found = permuted(b, a, covariance, **options)
    agrees(found, slow(b, a, covariance, **options), 1e-5)


def test_pvalues_of_independent_data_are_uniform(rng: np.random.Generator) -> None:
    pvalues = []
    for seed in range(400):
        a, b = rng.normal(size=(2, ROWS)).astype(np.float32)
        key = jax.random.key(seed)
        pvalues.append(permutation_test(a, b**3, kb, key=key, permutations=19).pvalue)
    counts = np.bincount(np.rint(20 * np.array(pvalues)).astype(int), minlength=21)[1:]
    chi2 = np.sum((counts - 20) ** 2 / 20)
    assert chi2 < 43.8  # the 99.9% point of 19 degrees of freedom


@pytest.mark.parametrize("measure", [kb, covariance])
def test_ties_reach_the_statistic(measure: Any) -> None:
    a = np.tile([0.0, 1.0], ROWS // 2).astype(np.float32)
    b = np.repeat([0.0, 1.0], ROWS // 2).astype(np.float32)
    found = permuted(a, b, measure)  # the sample correlation is 0: nothing is below it
    assert found.pvalue == 1
    assert found.null_mean > 0
    assert permuted(a, a, measure).pvalue == 1 / (1 + COUNT)


def test_equal_values_that_round_differently_are_ties() -> None:
    a = (np.arange(ROWS) == 3).astype(np.float32)
    b = np.linspace(0, 1, ROWS, dtype=np.float32)
    (order,) = orders(seed_of(KEY), ROWS, 1, 1 + COUNT)
    reached = np.isin(order[:, 3], [0, 1, 2, 3, 36, 37, 38, 39])  # as far from the mean of b
    assert permuted(a, b, covariance).pvalue == np.mean(reached)


@pytest.mark.parametrize("measure", [kb, covariance])
def test_degenerate_data(measure: Any, rng: np.random.Generator) -> None:
    a, b = rng.normal(size=(2, ROWS)).astype(np.float32)
    constant = permuted(a, np.ones_like(b), measure)
    assert (constant.statistic, constant.pvalue, constant.null_95) == (0, 1, 0)
    a[3] = np.nan
    missing = permuted(a, b, measure)
    assert np.isnan([missing.statistic, missing.pvalue, missing.null_mean]).all()
    assert missing.permutations == COUNT
    with pytest.raises(ValueError, match="not all 0"):
        permuted(a, b, measure, weights=np.zeros(ROWS))


def test_the_key_decides_and_the_chunks_do_not(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = rng.normal(size=(2, ROWS)).astype(np.float32)
    found = permuted(a, b, covariance)
    assert found == permuted(a, b, covariance)
    assert found != permuted(a, b, covariance, key=jax.random.key(8))
    monkeypatch.setattr("hgr_jax.inference.permutation.PERMUTATION_MEMORY", 17 * 64 * 4 * ROWS)
    assert found == permuted(a, b, covariance)
