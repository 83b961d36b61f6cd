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


def relation(name: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    a = rng.normal(size=600) if name == "linear" else rng.uniform(-1, 1, 600)
    b = {
        "linear": a + rng.normal(size=600),
        "quadratic": 2 * a**2 - a,
        "sine": np.sin(2 * np.pi * a) + 0.2 * rng.normal(size=600),
    }[name]
    return a.astype(np.float32), b.astype(np.float32)


def test_degrees_of_known_relations(rng: np.random.Generator) -> None:
    for name in ("linear", "quadratic", "sine"):
        a, b = relation(name, rng)
        found = select_degrees(a, b, key=KEY)
        assert (np.diff(found.values, axis=0) >= 0).all()
        assert (np.diff(found.values, axis=1) >= 0).all()
        if name == "sine":
            assert found.h >= 5
            assert found.scores[2, 0] < 0.7 < 0.8 < found.scores[4, 0]
        elif name == "quadratic":
            assert (found.h, found.k) == (2, 1)
        else:
            assert (found.h, found.k) == (1, 1)
        mirrored = select_degrees(b, a, key=KEY)
        np.testing.assert_allclose(mirrored.scores.T, found.scores, atol=1e-3)
