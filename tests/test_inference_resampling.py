"""Cross-fitting against a loop of fits, and the bootstrap against a loop of weighted values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hgr_jax.fairness
from bench.data import awkward_pair
from hgr_jax.inference.intervals import corrected
from hgr_jax.inference.resampling import bootstrap, cross_fitted, draws
from hgr_jax.inference.selection import deal_folds

ROWS, FOLDS = 61, 4
KEY = jax.random.key(3)


def by_fitting(a: Any, b: Any, weights: Any) -> float:
    """A fit on the other folds for each, scored on it; rows elsewhere have weight 0."""
    order = deal_folds(KEY, ROWS, FOLDS)
    scores = []
    for rows in order:
        inside = np.isin(np.arange(ROWS), rows)
        fit = hgr_jax.kb_fit(a, b, 3, 2, weights=np.where(inside, 0, weights), solver="svd")
        scores.append(float(fit.score(a, b, weights=np.where(inside, weights, 0))))
    return float(np.mean(scores))


def scored(a: Any, b: Any, weights: Any) -> float:
    return cross_fitted(a, b, 3, 2, key=KEY, folds=FOLDS, weights=weights)


@pytest.mark.usefixtures("x64")
def test_cross_fitting_is_a_loop_of_fits(rng: np.random.Generator) -> None:
    weights = rng.uniform(0.5, 2, ROWS)
    for kind in ("normal", "discrete", "offset", "scaled_down"):
        a, b = awkward_pair(kind, ROWS)
        expected = by_fitting(a, b, weights)
        found = scored(a, b, weights)
        np.testing.assert_allclose(found, expected, rtol=1e-7)
    a[5], b[9], weights[[5, 9]] = np.nan, 1e9, 0
    found = scored(a, b, weights)
    np.testing.assert_allclose(found, by_fitting(a, b, weights), rtol=1e-7)


@pytest.mark.usefixtures("x64")
def test_values_that_only_one_fold_has(rng: np.random.Generator) -> None:
    weights = np.ones(ROWS)
    a = np.zeros(ROWS)
    order = deal_folds(KEY, ROWS, FOLDS)
    a[order[1][:3]] = 1  # constant outside this fold
    b = rng.normal(size=ROWS)
    assert scored(a, b, weights) == 0
    assert scored(np.ones(ROWS), b, weights) == 0
    b[4] = np.inf
    assert np.isnan(scored(a, b, weights))


@pytest.mark.parametrize("rows", [61, 60, 4, 5])
def test_folds_hold_every_row_once(rows: int) -> None:
    order = deal_folds(KEY, rows, FOLDS)
    assert len(order) == FOLDS
    np.testing.assert_array_equal(np.sort(np.concatenate(order)), np.arange(rows))
    assert np.ptp([len(fold) for fold in order]) <= 1


def test_it_is_about_nothing_between_independent_variables(rng: np.random.Generator) -> None:
    pairs = rng.normal(size=(200, 2, ROWS)).astype(np.float32)
    values = np.array([cross_fitted(*pair, 3, 2, key=KEY, folds=FOLDS) for pair in pairs])
    assert abs(values.mean()) < 4 * values.std() / 200**0.5
    assert (np.abs(values) <= 1).all()


@pytest.mark.usefixtures("x64")
def test_the_bootstrap_weighs_rows_and_corrects_percentiles(rng: np.random.Generator) -> None:
    a, b = awkward_pair("discrete", ROWS)
    b = np.where(b > 1, b, 1.0) + rng.integers(0, 2, ROWS)
    (counts,) = draws(KEY, ROWS, 40, 40)
    a = np.minimum(a, 2)  # three values: two directions
    assert len(np.unique(a)) == 3 <= len(np.unique(b))
    parameters = 2 + 2 - 1
    values = []
    for column in counts.T:
        value = hgr_jax.kb(a, b, 3, 2, weights=column.astype(float), solver="svd")
        once = corrected(value, ROWS, parameters)
        values.append(float(corrected(once, ROWS, parameters)))
    found = bootstrap(a, b, 3, 2, key=KEY, resamples=40, level=0.8)
    value = hgr_jax.kb(a, b, 3, 2, weights=np.ones(ROWS), solver="svd")
    center = float(corrected(value, ROWS, parameters))
    np.testing.assert_allclose([found.value, found.corrected], [value, center], rtol=1e-10)
    assert found.level == 0.8
    from scipy.stats import norm

    z = norm.ppf(np.mean(np.array(values) < center))
    ends = norm.cdf(2 * z + np.array([-1, 1]) * norm.ppf(0.9))
    np.testing.assert_allclose([found.low, found.high], np.quantile(values, ends), rtol=1e-7)


def test_intervals_cover(rng: np.random.Generator) -> None:
    covered = {0.0: 0, 0.6: 0}
    for rho in covered:
        for seed in range(100):
            a, noise = rng.normal(size=(2, 200))
            b = rho * a + (1 - rho**2) ** 0.5 * noise
            a, b = a.astype(np.float32), b.astype(np.float32)
            found = bootstrap(a, b, 2, 2, key=jax.random.key(seed), resamples=200)
            assert 0 <= found.low <= found.high <= 1
            assert found.low <= found.corrected <= found.value
            covered[rho] += found.low <= rho <= found.high
    assert covered[0.0] >= 93
    assert 88 <= covered[0.6] <= 100


def test_draws_are_resamples_whatever_the_chunk() -> None:
    whole = next(draws(KEY, 30, 12, 12))
    np.testing.assert_array_equal(whole.sum(axis=0), np.full(12, 30))
    parts = np.concatenate(list(draws(KEY, 30, 12, 4)), axis=1)
    np.testing.assert_array_equal(parts, whole)


def test_degenerate_intervals(rng: np.random.Generator) -> None:
    options = {"key": KEY, "resamples": 200}
    a = rng.normal(size=200).astype(np.float32)
    constant = bootstrap(a, np.ones_like(a), 2, 2, **options)
    assert (constant.low, constant.high, constant.value) == (0, 0, 0)
    perfect = bootstrap(a, -a, 2, 2, **options)
    np.testing.assert_allclose([perfect.low, perfect.high, perfect.corrected], 1, rtol=1e-5)
    a[2] = np.nan
    missing = bootstrap(a, np.arange(200.0), 2, 2, **options)
    assert np.isnan([missing.low, missing.high, missing.value, missing.corrected]).all()
    few = bootstrap(a[5:9], a[9:13], 2, 2, **options)
    assert (few.low, few.high, few.corrected) == (0, 1, 0)


def test_one_formula_corrects_here_and_in_fairness() -> None:
    assert hgr_jax.fairness.corrected is corrected
    values = jnp.array([0.0, 0.1, 0.5, 1.0])
    np.testing.assert_allclose(corrected(values, 100, 9)[2], (1 - 0.75 * 99 / 90) ** 0.5, rtol=1e-6)
    assert corrected(values[3], 10, 9) == 0


@pytest.mark.parametrize(
    ("function", "options", "error", "message"),
    [
        (cross_fitted, {"folds": 1}, ValueError, "folds must be at least 2"),
        (cross_fitted, {"folds": 4}, ValueError, "folds must have 2 rows each, of 6 rows"),
        (cross_fitted, {"h": 0}, ValueError, "h must be at least 1"),
        (cross_fitted, {"key": 0}, TypeError, "key must be a random key"),
        (cross_fitted, {"b": np.ones((6, 1))}, ValueError, "b must have shape"),
        (bootstrap, {"level": 1.0}, ValueError, "level must be above 0 and below 1"),
        (bootstrap, {"resamples": 0}, ValueError, "resamples must be at least 1"),
        (bootstrap, {"k": len}, TypeError, "k must be an int"),
    ],
)
def test_other_arguments_are_refused(
    function: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    options = {"a": np.arange(6.0), "b": np.arange(6.0), "key": KEY, **options}
    with pytest.raises(error, match=message):
        function(options.pop("a"), options.pop("b"), **options)
