"""Cross-validation: cross-fitting and the choice of degrees, against loops of fits."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import hgr_jax
from bench.data import awkward_pair
from hgr_jax.inference.selection import deal_folds, select_degrees

ROWS, FOLDS = 83, 3
KEY = jax.random.key(5)


def by_fitting(a: Any, b: Any, h: int, k: int, weights: Any) -> list[float]:
    """A fit on the other folds for each, scored on it; rows elsewhere have weight 0."""
    scores = []
    for fold in range(FOLDS):
        inside = deal_folds(KEY, ROWS, FOLDS) == fold
        fit = hgr_jax.kb_fit(a, b, h, k, weights=np.where(inside, 0, weights), solver="svd")
        scores.append(float(fit.score(a, b, weights=np.where(inside, weights, 0))))
    return scores


@pytest.mark.usefixtures("x64")
def test_scores_are_those_of_a_loop_of_fits(rng: np.random.Generator) -> None:
    weights = rng.uniform(0.5, 2, ROWS)
    for kind in ("normal", "discrete"):
        a, b = awkward_pair(kind, ROWS)
        found = select_degrees(a, b, largest=(3, 2), folds=FOLDS, key=KEY, weights=weights)
        assert found.scores.shape == (3, 2)
        scores = by_fitting(a, b, 2, 1, weights)
        np.testing.assert_allclose(found.scores[1, 0], np.mean(scores), rtol=1e-7)
        error = np.std(scores, ddof=1) / FOLDS**0.5
        np.testing.assert_allclose(found.standard_errors[1, 0], error, rtol=1e-6)
        whole = hgr_jax.kb_fit(a, b, 2, 1, weights=weights, solver="svd")
        np.testing.assert_allclose(found.values[1, 0], whole.correlation, rtol=1e-10)


@pytest.mark.usefixtures("x64")
def test_rows_of_weight_zero_do_not_count(rng: np.random.Generator) -> None:
    a, b = awkward_pair("uniform", ROWS)
    options = {"largest": (3, 2), "folds": FOLDS, "key": KEY}
    weights = np.ones(ROWS)
    weights[[3, 40]] = 0
    found = select_degrees(a, b, weights=weights, **options)
    a[3], b[40] = np.nan, 1e9
    again = select_degrees(a, b, weights=weights, **options)
    np.testing.assert_allclose(again.scores, found.scores, rtol=1e-10)
    with pytest.raises(ValueError, match="finite a and b"):
        select_degrees(a, b, weights=np.ones(ROWS), **options)
    one = (deal_folds(KEY, ROWS, FOLDS) == 2) * weights
    with pytest.raises(ValueError, match="at least two folds"):
        select_degrees(a, b, weights=one, **options)


def relation(name: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    a = rng.normal(size=600) if name == "linear" else rng.uniform(-1, 1, 600)
    b = {
        "linear": a + rng.normal(size=600),
        "quadratic": 2 * a**2 - a,
        "sine": np.sin(2 * np.pi * a) + 0.2 * rng.normal(size=600),
    }[name]
    return a.astype(np.float32), b.astype(np.float32)


@pytest.mark.parametrize("rule", ["one_standard_error", "best"])
def test_degrees_of_known_relations(rule: str, rng: np.random.Generator) -> None:
    for name in ("linear", "quadratic", "sine"):
        a, b = relation(name, rng)
        found = select_degrees(a, b, key=KEY, rule=rule)
        assert found.rule == rule
        assert (np.diff(found.values, axis=0) >= 0).all()
        assert (np.diff(found.values, axis=1) >= 0).all()
        if name == "sine":
            assert found.h >= 5
            assert found.scores[2, 0] < 0.7 < 0.8 < found.scores[4, 0]
        elif name == "quadratic":
            assert (found.h, found.k) == (2, 1)
        elif rule == "best":
            assert found.scores[found.h - 1, found.k - 1] >= found.scores.max() - 1e-4
        else:
            assert (found.h, found.k) == (1, 1)
        mirrored = select_degrees(b, a, key=KEY, rule=rule)
        np.testing.assert_allclose(mirrored.scores.T, found.scores, atol=1e-3)


def test_ties_go_to_the_smaller_degrees() -> None:
    a = np.linspace(-1, 1, 600, dtype=np.float32)
    for rule in ("one_standard_error", "best"):
        found = select_degrees(a, 3 - a, key=KEY, rule=rule)
        assert (found.h, found.k) == (1, 1)
        np.testing.assert_allclose(found.scores, 1, rtol=1e-4)
        constant = select_degrees(a, np.ones_like(a), key=KEY, rule=rule)
        assert (constant.h, constant.k) == (1, 1)
        assert not constant.scores.any()
        two = select_degrees(np.sign(a + 0.001), np.abs(a + 0.5), key=KEY, rule=rule)
        assert two.h == 1  # more do not exist on two values
        np.testing.assert_allclose(two.scores, np.tile(two.scores[:1], (7, 1)), atol=1e-5)


def test_few_rows(rng: np.random.Generator) -> None:
    a, b = rng.normal(size=(2, 6)).astype(np.float32)
    found = select_degrees(a, b, largest=4, key=KEY, folds=3)
    assert np.isfinite(found.scores).all()
    assert (np.abs(found.scores) <= 1).all()
    np.testing.assert_allclose(found.values[-1, -1], 1, rtol=1e-4)
