"""The scorer that puts the constraint first, by hand and in scikit-learn's searches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hgr_jax
from hgr_jax.fairness import FairMLPRegressor, FairnessScorer

RNG = np.random.default_rng(0)
Z = RNG.normal(size=80)
X = np.column_stack([Z, RNG.normal(size=80)])
Y = X @ [2.0, 1.0] + 0.1 * RNG.normal(size=80)
FRAME = pd.DataFrame(X, columns=["age", "skill"])


class Blend(RegressorMixin, BaseEstimator):
    """The second input and a share of the first, which is protected."""

    def __init__(self, share: float = 1.0) -> None:
        self.share = share

    def fit(self, X: Any, y: Any, protected: Any = None) -> Blend:  # noqa: N803
        self.fitted_ = True
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        return np.asarray(X) @ [self.share, 1.0]


class Chances(Blend):
    classes_ = ("no", "yes")

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        second = 1 / (1 + np.exp(-self.predict(X)))
        return np.column_stack([1 - second, second])


def test_a_kept_threshold_scores_what_the_model_does() -> None:
    scorer = FairnessScorer(0.9, protected="age", h=1, k=1)
    model = Blend(1.0)
    assert scorer(model, FRAME, Y) == pytest.approx(r2_score(Y, model.predict(X)))
    label = np.where(Y > 0, "yes", "no")
    chances = Chances(1.0)
    expected = roc_auc_score(label == "yes", chances.predict(X))
    assert scorer(chances, FRAME, label) == pytest.approx(expected)
    worse = r2_score(-Y, model.predict(X))
    assert worse < -1
    assert scorer(model, FRAME, -Y) == pytest.approx(worse / (1 - worse))
    assert -1 < scorer(model, FRAME, -Y / 3) < scorer(model, FRAME, -Y) < 0


@pytest.mark.parametrize(("h", "k"), [(1, 1), (3, 2)])
def test_a_broken_threshold_scores_the_violation(h: int, k: int) -> None:
    model = Blend(5.0)
    with jax.enable_x64(True):
        value = float(hgr_jax.kb(Z, model.predict(X), h, k))
    scorer = FairnessScorer(0.2, protected=0, h=h, k=k)
    assert scorer(model, X, Y) == pytest.approx(-200 - (value - 0.2), abs=1e-9)
    corrected = FairnessScorer(0.2, protected=0, h=h, k=k, bias_corrected=True)
    assert -200 > corrected(model, X, Y) > scorer(model, X, Y)
    with jax.enable_x64(True):
        single = float(hgr_jax.sk(Z, model.predict(X), k))
    found = FairnessScorer(0.2, protected=0, penalty="sk", k=k)(model, X, Y)
    assert found == pytest.approx(-200 - (single - 0.2), abs=1e-9)


def test_a_category() -> None:
    group = np.where(Z > 0, "old", "young")
    frame = FRAME.assign(age=group)
    prediction = 3.0 * (Z > 0) + X[:, 1]
    between = sum((group == g).sum() * prediction[group == g].mean() ** 2 for g in set(group))
    expected = np.sqrt(
        (between / 80 - prediction.mean() ** 2) / prediction.var()
    )  # the correlation ratio

    class Known(Blend):
        def predict(self, X: Any) -> np.ndarray:  # noqa: N803
            return prediction

    found = FairnessScorer(0.1, protected="age", k=1)(Known(), frame, Y)
    assert found == pytest.approx(-200 - (expected - 0.1), abs=1e-9)
    one_hot = np.column_stack([Z > 0, Z <= 0]).astype(float)
    assert FairnessScorer(0.1, k=1)(Known(), X, Y, protected=one_hot) == pytest.approx(found)


def test_grid_search_prefers_the_constraint_to_the_score() -> None:
    shares = {"share": [0.0, 2.0]}
    plain = GridSearchCV(Blend(), shares, cv=4).fit(X, Y)
    assert plain.best_params_ == {"share": 2.0}
    scorer = FairnessScorer(0.6, protected=0, h=1, k=1)
    found = GridSearchCV(Blend(), shares, scoring=scorer, cv=4).fit(X, Y)
    assert found.best_params_ == {"share": 0.0}
    assert found.best_score_ >= 0
    assert found.cv_results_["mean_test_score"][1] < -200
    named = FairnessScorer(0.6, protected="age", h=1, k=1)
    pipeline = make_pipeline(StandardScaler(), Blend())
    again = GridSearchCV(pipeline, {"blend__share": [0.0, 2.0]}, scoring=named, cv=4).fit(FRAME, Y)
    assert again.best_params_ == {"blend__share": 0.0}


def test_one_broken_fold_is_worse_than_any_score() -> None:
    scores = np.array([1.0] * 99 + [FairnessScorer(0.2, protected=0, h=1, k=1)(Blend(5), X, Y)])
    assert scores.mean() < -1


def test_grid_search_of_the_estimators() -> None:
    search = GridSearchCV(
        FairMLPRegressor(hidden_layer_sizes=(8,), steps=150, learning_rate=0.01, random_state=0),
        {"penalty": [None, "kb"], "threshold": [0.2]},
        scoring=FairnessScorer(0.5, protected="age", h=2, k=2),
        cv=2,
    ).fit(FRAME, Y, protected="age")
    assert search.best_params_["penalty"] == "kb"


@pytest.fixture
def routed() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_metadata_routing(routed: None) -> None:
    # The attribute is no input.
    x = X[:, 1:]
    model = FairMLPRegressor(
        hidden_layer_sizes=(2,), threshold=0.5, steps=2, random_state=0
    ).set_fit_request(protected=True)
    held, rest = np.arange(40), np.arange(40, 80)
    fitted = clone(model).fit(x[rest], Y[rest], protected=Z[rest])
    plain = FairnessScorer(1e-3, h=1, k=1)
    expected = plain(fitted, x[held], Y[held], protected=Z[held])
    assert expected < -200
    scorer = clone(plain).set_score_request(protected=True)
    found = cross_val_score(model, x, Y, scoring=scorer, cv=2, params={"protected": Z})
    assert found[0] == pytest.approx(expected)
    search = GridSearchCV(model, {"steps": [2]}, scoring=scorer, cv=2).fit(x, Y, protected=Z)
    assert search.cv_results_["split0_test_score"][0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "x", "message"),
    [
        ({}, X, "there is no protected attribute to score with; name a column of X"),
        ({"protected": "agee"}, FRAME, "'agee' is not a column of X; its columns are age, skill"),
        ({"protected": "age"}, X, "names a column, but X has no column names"),
        ({"protected": 2}, X, r"X of shape \(80, 2\) has no column 2"),
        ({"protected": 0, "threshold": 2}, X, "threshold"),
        ({"protected": 0, "penalty": "size"}, X, "measure must be one of"),
    ],
)
def test_refusals(options: dict[str, Any], x: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FairnessScorer(**{"threshold": 0.2} | options)(Blend(), x, Y)


def test_it_is_shown_and_cloned() -> None:
    scorer = FairnessScorer(0.2, protected="age")
    assert repr(scorer) == "FairnessScorer(protected='age', threshold=0.2)"
    assert clone(scorer).get_params() == scorer.get_params()
