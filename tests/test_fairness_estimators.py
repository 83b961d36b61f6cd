"""The scikit-learn estimators: its own checks, its tools, and what they add to the trainer."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
import pytest
from fairness_support import scikit_learn_checks
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hgr_jax
from hgr_jax.datasets import load_diabetes
from hgr_jax.fairness import (
    KB,
    FairMLPClassifier,
    FairMLPRegressor,
    FairnessScorer,
    Penalty,
    TrainingError,
    corrected,
    estimator_base,
)
from hgr_jax.fairness.steps import _run_steps

DATA = load_diabetes()
HALF = slice(None, 200)
X, Y, Z = DATA.x[HALF], DATA.y[HALF], DATA.z[HALF]
LABEL = np.where(np.median(Y) < Y, "worse", "better")


CHECKS = scikit_learn_checks(FairMLPRegressor(steps=300), FairMLPClassifier(steps=300))


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learn_accepts_it(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def regressor() -> FairMLPRegressor:
    return FairMLPRegressor(threshold=0.1, steps=100, random_state=0).fit(X, Y, protected=Z)


@pytest.fixture(scope="module")
def classifier() -> FairMLPClassifier:
    return FairMLPClassifier(threshold=0.1, steps=100, random_state=0).fit(X, LABEL, protected=Z)


@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize("rate", [10.0, 1e6])
@pytest.mark.parametrize("kind", [FairMLPRegressor, FairMLPClassifier])
def test_a_training_that_diverges_keeps_no_threshold(
    kind: Any, rate: float, early_stopping: bool
) -> None:
    model = kind(learning_rate=rate, steps=60, random_state=0, early_stopping=early_stopping)
    target = Y if kind is FairMLPRegressor else LABEL
    with pytest.raises(TrainingError, match=r"the training diverged: .* A smaller learning rate"):
        model.fit(X, target, protected=Z)
    assert not hasattr(model, "history_")


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_a_search_does_not_choose_what_diverged() -> None:
    search = GridSearchCV(
        FairMLPRegressor(steps=60, random_state=0),
        {"learning_rate": [1e-3, 10.0]},
        scoring=FairnessScorer(threshold=0.01, protected=0, h=1, k=1),
        cv=2,
    )
    with pytest.warns(FitFailedWarning, match="the training diverged"):
        search.fit(X, Y, protected=Z)
    assert search.best_params_ == {"learning_rate": 1e-3}


def test_the_threshold_is_kept(regressor: FairMLPRegressor) -> None:
    free = FairMLPRegressor(penalty=None, steps=100, random_state=0).fit(X, Y, protected=Z)
    before, after = (float(hgr_jax.kb(Z, m.predict(X))) for m in (free, regressor))
    assert before > 0.2
    assert after < 0.13
    assert free.multipliers_ == {}
    np.testing.assert_allclose(free.history_.last["hgr_train_z"], before, atol=1e-4)
    np.testing.assert_allclose(regressor.history_.last["hgr_train_z"], after, atol=1e-4)


def test_predictions_are_in_the_unit_of_the_target(regressor: FairMLPRegressor) -> None:
    twice = FairMLPRegressor(threshold=0.1, steps=100, random_state=0)
    twice.fit(X, 1000 + 2 * Y, protected=Z)
    np.testing.assert_allclose(twice.predict(X), 1000 + 2 * regressor.predict(X), rtol=1e-4)


def test_prediction_is_that_of_the_trained_network(regressor: FairMLPRegressor) -> None:
    x = (X - regressor._center) / regressor._scale
    for kernel, bias in zip(regressor.coefs_[:-1], regressor.intercepts_[:-1], strict=True):
        x = np.maximum(x @ kernel + bias, 0)
    y = (x @ regressor.coefs_[-1] + regressor.intercepts_[-1])[:, 0]
    np.testing.assert_allclose(regressor.predict(X), Y.min() + np.ptp(Y) * y, rtol=1e-4, atol=1e-2)


def test_probabilities_of_two_classes(classifier: FairMLPClassifier) -> None:
    probabilities = classifier.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    chosen = np.where(probabilities[:, 1] > 0.5, "worse", "better")
    np.testing.assert_array_equal(classifier.predict(X), chosen)
    assert classifier.score(X, LABEL) > 0.7
    value = float(hgr_jax.kb(Z, probabilities[:, 1]))
    np.testing.assert_allclose(classifier.history_.last["hgr_train_z"], value, atol=1e-3)


def test_every_class_of_several_is_constrained() -> None:
    labels = np.digitize(Y, np.quantile(Y, [0.33, 0.67]))
    model = FairMLPClassifier(threshold=0.3, steps=50, random_state=0)
    model.fit(X, labels, protected=Z)
    assert model.predict_proba(X).shape == (len(X), 3)
    assert list(model.multipliers_) == ["z[0]", "z[1]", "z[2]"]


def test_a_column_of_a_frame_by_name(regressor: FairMLPRegressor) -> None:
    frame = DATA.to_frame().iloc[HALF].drop(columns=DATA.target)
    model = FairMLPRegressor(threshold=0.1, steps=100, random_state=0)
    model.fit(frame, Y, protected="age")
    np.testing.assert_array_equal(model.predict(frame), regressor.predict(X))
    assert list(model.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="'agee' is not a column of X"):
        model.fit(frame, Y, protected="agee")
    with pytest.raises(ValueError, match="X has no column names"):
        model.fit(X, Y, protected="age")


def test_a_text_attribute_is_a_category() -> None:
    group = np.where(np.median(Z) < Z, "old", "young")
    model = FairMLPRegressor(threshold=0.1, steps=100, random_state=0)
    model.fit(X, Y, protected=pd.Series(group))
    prediction = model.predict(X)
    gap = abs(prediction[group == "old"].mean() - prediction[group == "young"].mean())
    assert gap < 0.3 * prediction.std()


def test_the_same_seed_gives_the_same_weights(regressor: FairMLPRegressor) -> None:
    again = FairMLPRegressor(threshold=0.1, steps=100, random_state=0).fit(X, Y, protected=Z)
    other = FairMLPRegressor(threshold=0.1, steps=100, random_state=1).fit(X, Y, protected=Z)
    for one, two, three in zip(regressor.coefs_, again.coefs_, other.coefs_, strict=True):
        np.testing.assert_array_equal(one, two)
        assert (one != three).any()


def test_a_second_fit_of_the_same_shapes_compiles_nothing(regressor: FairMLPRegressor) -> None:
    compiled = _run_steps._cache_size()
    FairMLPRegressor(threshold=0.35, steps=100, random_state=5).fit(X + 1, -Y, protected=Z**2)
    assert _run_steps._cache_size() == compiled


def test_grid_search_and_cross_validation() -> None:
    search = GridSearchCV(
        FairMLPRegressor(steps=25, random_state=0), {"threshold": [0.1, 0.5]}, cv=2
    )
    search.fit(X, Y, protected=Z)
    assert search.best_estimator_.multipliers_
    found = cross_validate(
        FairMLPRegressor(steps=25, random_state=0), X, Y, cv=2, params={"protected": Z}
    )
    assert np.isfinite(found["test_score"]).all()


def test_pipeline(regressor: FairMLPRegressor) -> None:
    pipeline = make_pipeline(
        StandardScaler(), FairMLPRegressor(threshold=0.1, steps=100, random_state=0)
    )
    pipeline.fit(X, Y, fairmlpregressor__protected=Z)
    np.testing.assert_allclose(pipeline.predict(X), regressor.predict(X), atol=10)


def test_early_stopping_holds_rows_out() -> None:
    model = FairMLPRegressor(
        steps=200,
        alpha=0.0,
        learning_rate=0.05,  # it soon memorises its rows
        early_stopping=True,
        validation_fraction=0.3,
        n_iter_no_change=2,
        random_state=0,
    ).fit(X, Y, protected=Z)
    assert model.n_iter_ < 200
    evaluations = model.history_.evaluations
    expected = [corrected(v, 60, 9) for v in evaluations["hgr_validation_z"]]
    np.testing.assert_allclose(evaluations["held_out_z"], expected, atol=1e-6)


def test_weight_decay_shrinks_the_weights() -> None:
    settings = {"penalty_weight": 0.5, "steps": 60, "learning_rate": 0.01, "random_state": 0}
    sizes = []
    for alpha in (0.0, 5.0):
        model = FairMLPRegressor((8,), alpha=alpha, **settings).fit(X, Y, protected=Z)
        sizes.append(sum(float(np.sum(kernel**2)) for kernel in model.coefs_))
    assert sizes[1] < 0.5 * sizes[0]


def test_a_fixed_weight(tmp_path: Path) -> None:
    settings = {"steps": 30, "batch_size": 100, "random_state": 0}
    model = FairMLPClassifier((4,), penalty=KB(2, 2), penalty_weight=1.5, **settings)
    model.fit(X, LABEL, protected=Z)
    assert model.multipliers_ == {"z": 1.5}
    np.testing.assert_array_equal(model.history_.steps["multiplier_z"], 1.5)
    model.save(tmp_path / "model.npz")
    loaded = FairMLPClassifier.load(tmp_path / "model.npz")
    assert (loaded.penalty, loaded.penalty_weight) == (KB(2, 2), 1.5)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_a_saved_model_predicts_the_same(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(kind)
    path = tmp_path / "model.npz"
    model.save(path)
    loaded = type(model).load(path)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.get_params()["threshold"] == 0.1
    assert loaded.multipliers_ == model.multipliers_
    assert [p.name for p in tmp_path.iterdir()] == ["model.npz"]
    other = FairMLPClassifier if kind == "regressor" else FairMLPRegressor
    with pytest.raises(ValueError, match=f"holds a {type(model).__name__}"):
        other.load(path)


def test_files_that_are_no_model(regressor: FairMLPRegressor, tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    for content in (b"", b"text", b"PK\x03\x04"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="not a saved model"):
            FairMLPRegressor.load(path)
    np.savez(path, about=np.array({"a": 1}, dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="not a saved model"):
        FairMLPRegressor.load(path)
    regressor.save(path)
    with zipfile.ZipFile(path) as archive:
        assert not any(b"pickle" in archive.read(name)[:200] for name in archive.namelist())
        with archive.open("about.npy") as file:
            about = json.loads(str(np.load(file, allow_pickle=False)))
    assert about["parameters"]["threshold"] == 0.1
    odd = FairMLPRegressor(penalty=lambda z, p: hgr_jax.kb(z, p, h=2, k=2), steps=1)
    with pytest.raises(ValueError, match="set penalty to one before saving"):
        odd.fit(X, Y, protected=Z).save(path)


def test_without_an_attribute_it_warns() -> None:
    with pytest.warns(UserWarning, match="nothing is constrained"):
        FairMLPRegressor(steps=1).fit(X, Y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": 0.0}, r"threshold must be in \(0, 1\]"),
        ({"threshold": 1.5}, r"threshold must be in \(0, 1\]"),
        ({"penalty": "kbb"}, "measure must be one of"),
        ({"activation": "swish"}, "activation must be one of"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0"),
        ({"alpha": -1.0}, "alpha must be at least 0"),
        ({"penalty_weight": -1.0}, "penalty_weight must be at least 0"),
        ({"batch_size": 1}, "batch_size must be at least 2"),
        ({"hidden_layer_sizes": (0,)}, "hidden_layer_sizes must be at least 1"),
        ({"early_stopping": True, "validation_fraction": 1.5}, "validation_fraction must be"),
    ],
)
def test_bad_parameters(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FairMLPRegressor(**settings).fit(X, Y, protected=Z)


@pytest.mark.parametrize(
    ("protected", "message"),
    [
        (np.where(np.arange(len(Z)) == 7, np.nan, Z), r"z has 1 value\(s\) that are NaN"),
        (np.ones(len(Z)), "z must vary"),
        (Z[:-1], "one value for each of the 200 rows"),
    ],
)
def test_bad_attributes(protected: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FairMLPRegressor(steps=1).fit(X, Y, protected=protected)


class Asked(Exception):  # noqa: N818
    """What the trainer was asked for."""


def asked(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> dict[str, Any]:
    """What reaches the trainer, without any training."""
    found: dict[str, Any] = {}

    def made(network: Any, **options: Any) -> Any:
        found.update(options, network=network)
        return type("", (), {"fit": fitted})()

    def fitted(_: Any, *rows: Any, **options: Any) -> None:
        found.update(options, rows=rows)
        raise Asked

    monkeypatch.setattr(estimator_base, "FairTrainer", made)
    with pytest.raises(Asked):
        FairMLPRegressor(random_state=0, **settings).fit(X, Y, protected=Z)
    return found


def test_every_option_reaches_the_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = asked(monkeypatch)
    assert plain["penalties"] == Penalty("kb", 0.2)
    assert plain["batch_size"] is None
    assert plain["validation"] is None
    assert plain["patience"] is None
    assert not plain["progress"]
    found = asked(
        monkeypatch,
        penalty="sk",
        threshold=0.3,
        h=2,
        k=3,
        given=4,
        bias_corrected=True,
        steps=7,
        batch_size=50,
        hidden_layer_sizes=(4, 3),
        activation="tanh",
        verbose=True,
        early_stopping=True,
        validation_fraction=0.25,
        n_iter_no_change=3,
    )
    assert found["penalties"] == Penalty("sk", 0.3, h=2, k=3, given=4, bias_corrected=True)
    assert (found["steps"], found["batch_size"], found["patience"]) == (7, 50, 3)
    assert found["progress"]
    assert len(found["validation"][0]) == 50
    assert len(found["rows"][0]) == 150
    network = found["network"]
    assert [layer.kernel.shape for layer in network.layers] == [(10, 4), (4, 3), (3, 1)]
    assert network.activation is jnp.tanh


def changes(optimizer: optax.GradientTransformation, steps: int) -> list[float]:
    """What each step does to a weight of 2 of a hidden layer."""
    weights, found = [jnp.full((1, 1), 2.0), jnp.ones((1, 1))], []
    state = optimizer.init(weights)
    with jax.numpy_dtype_promotion("standard"):  # optax relies on it
        for _ in range(steps):
            update, state = optimizer.update([jnp.ones((1, 1))] * 2, state, weights)
            found.append(float(update[0][0, 0]))
    return found


def test_rates_reach_the_optimisers(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = {"learning_rate": 0.02, "alpha": 0.5, "multiplier_learning_rate": 0.03, "steps": 4}
    found = asked(monkeypatch, **rates)
    first, *_, fourth, last = changes(found["optimizer"], 5)
    assert first == pytest.approx(-0.02 * (1 + 0.5 * 2), rel=1e-4)
    assert fourth == pytest.approx(first / 2, rel=0.1)
    assert last == pytest.approx(0, abs=1e-7)
    dual = found["dual"]
    with jax.numpy_dtype_promotion("standard"):
        state = dual.update(jnp.array([1.0]), dual.init(1))
    assert float(state.multipliers[0]) == pytest.approx(0.03, rel=1e-4)


def test_predictions_stay_within_those_of_the_training_rows(regressor: FairMLPRegressor) -> None:
    """A row far from all others would be predicted far from them."""
    seen, far = regressor.predict(X), regressor.predict(100 * X)
    assert far.max() == pytest.approx(seen.max(), rel=1e-5)
    assert far.min() >= seen.min()
