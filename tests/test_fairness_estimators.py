"""The scikit-learn estimators and their score: its checks, its tools, and files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from fairness_support import descent, scikit_learn_checks
from fairness_support import untrained as untrained
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline

import hgr_jax
from hgr_jax.datasets import load_diabetes
from hgr_jax.fairness import (
    KB,
    SK,
    FairMLPClassifier,
    FairMLPRegressor,
    FairnessScorer,
    Penalty,
    Statistic,
    TrainingError,
    estimators,
)
from hgr_jax.fairness.networks import decaying_adamw

DATA = load_diabetes()
HALF = slice(None, 200)
X, Y, Z = DATA.x[HALF], DATA.y[HALF], DATA.z[HALF]
LABEL = np.where(np.median(Y) < Y, "worse", "better")
SETTINGS: dict[str, Any] = {"threshold": 0.1, "steps": 100, "random_state": 0}
CHECKS = scikit_learn_checks(FairMLPRegressor(steps=150), FairMLPClassifier(steps=150))


TRAINED = ("_train", "idempotent", "sample_weight", "classes", "_int", "subset", "sample_order")
"""In names of scikit-learn's checks of what is learned; the others need no steps."""


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learn_accepts_it(
    estimator: Any, check: Any, request: pytest.FixtureRequest
) -> None:
    if not any(part in request.node.name for part in TRAINED):
        request.getfixturevalue("untrained")
    check(estimator)


@pytest.fixture(scope="module")
def regressor() -> FairMLPRegressor:
    return FairMLPRegressor(**SETTINGS).fit(X, Y, protected=Z)


@pytest.fixture(scope="module")
def classifier() -> FairMLPClassifier:
    model = FairMLPClassifier(penalty=KB(2, 2), batch_size=100, steps=100, random_state=0)
    return model.fit(X, LABEL, protected=Z)


@pytest.mark.parametrize(("kind", "rate"), [(FairMLPRegressor, 10.0), (FairMLPClassifier, 1e6)])
def test_a_training_that_diverges_is_an_error(kind: Any, rate: float) -> None:
    model = kind(learning_rate=rate, steps=60, random_state=0)
    target = Y if kind is FairMLPRegressor else LABEL
    with pytest.raises(TrainingError, match=r"the training diverged: .* A smaller learning rate"):
        model.fit(X, target, protected=Z)
    assert not hasattr(model, "history_")


def test_the_threshold_is_kept(regressor: FairMLPRegressor) -> None:
    free = FairMLPRegressor(penalty=None, steps=100, random_state=0).fit(X, Y, protected=Z)
    before, after = (float(hgr_jax.kb(Z, m.predict(X))) for m in (free, regressor))
    assert before > 0.2
    assert after < 0.13
    np.testing.assert_allclose(free.history_.last["dependence_train_z"], before, atol=1e-4)
    np.testing.assert_allclose(regressor.history_.last["dependence_train_z"], after, atol=1e-4)


def test_probabilities_of_two_classes(classifier: FairMLPClassifier) -> None:
    probabilities = classifier.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    chosen = np.where(probabilities[:, 1] > 0.5, "worse", "better")
    np.testing.assert_array_equal(classifier.predict(X), chosen)
    assert classifier.score(X, LABEL) > 0.7
    value = float(hgr_jax.kb(Z, probabilities[:, 1], 2, 2))
    np.testing.assert_allclose(classifier.history_.last["dependence_train_z"], value, atol=1e-3)


class TestFiles:
    """Models go through pickle and joblib as those of scikit-learn do."""

    @pytest.mark.parametrize("way", ["pickle", "joblib", "skops"])
    @pytest.mark.parametrize("kind", ["regressor", "classifier"])
    def test_a_model_is_the_same(
        self, way: str, kind: str, tmp_path: Path, request: pytest.FixtureRequest
    ) -> None:
        model = request.getfixturevalue(kind)
        loaded = there_and_back(way, model, tmp_path)
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        assert repr(loaded) == repr(model)
        assert loaded.history_.kept == model.history_.kept


def there_and_back(way: str, model: Any, folder: Path) -> Any:
    """A model that was written to a file, and read."""
    path = folder / "model"
    if way == "pickle":
        path.write_bytes(pickle.dumps(model))
        return pickle.loads(path.read_bytes())
    if way == "joblib":
        joblib.dump(model, path)
        return joblib.load(path)
    io = pytest.importorskip("skops.io", reason="skops is not installed")
    io.dump(model, path)
    return io.load(path, trusted=io.get_untrusted_types(file=path))


def test_without_an_attribute_it_warns() -> None:
    with pytest.warns(UserWarning, match="nothing is constrained"):
        FairMLPRegressor(steps=1).fit(X, Y)


class Asked(Exception):  # noqa: N818
    """What the trainer was asked for."""


def asked(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> dict[str, Any]:
    """What reaches the trainer, without any training."""
    found: dict[str, Any] = {}

    def made(network: Any, **options: Any) -> Any:
        found.update(options, network=network)
        return type("", (), {"train": fitted})()

    def fitted(_: Any, data: Any, constraint: Any, steps: int) -> None:
        found.update(data=data, constraint=constraint, steps=steps)
        raise Asked

    monkeypatch.setattr(estimators, "FairTrainer", made)
    with pytest.raises(Asked):
        FairMLPRegressor(random_state=0, **settings).fit(X, Y, protected=Z)
    return found


def test_every_option_reaches_the_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = asked(monkeypatch)
    assert plain["penalties"] == (Penalty("kb", 0.2),)
    assert plain["batch_size"] is plain["constraint"] is None
    found = asked(
        monkeypatch,
        penalty=Penalty(SK(3), given=4),
        threshold=0.3,
        steps=7,
        batch_size=50,
        hidden_layer_sizes=(4, 3),
    )
    assert found["penalties"] == (Penalty(SK(3), 0.3, given=4),)
    assert (found["steps"], found["batch_size"]) == (7, 50)
    network = found["network"]
    assert [layer.kernel.shape for layer in network.layers] == [(10, 4), (4, 3), (3, 1)]


def test_rates_reach_the_optimisers(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = {"learning_rate": 0.02, "alpha": 0.5, "multiplier_learning_rate": 0.03, "steps": 4}
    found = asked(monkeypatch, **rates)
    chex.assert_trees_all_close(
        descent(found["optimizer"], 5), descent(decaying_adamw(0.02, 0.5, 4), 5), rtol=1e-6
    )
    dual = found["dual"]
    with jax.numpy_dtype_promotion("standard"):
        state = dual.update(jnp.array([1.0]), dual.init(1))
    assert float(state.multipliers[0]) == pytest.approx(0.03, rel=1e-4)


def test_inputs_that_are_constant_or_too_large_for_the_network() -> None:
    x = np.column_stack([X, np.full(len(X), 0.1)])
    model = FairMLPRegressor(penalty=None, steps=5, random_state=0).fit(x, Y)
    assert model._scale[-1] == 1
    x[:, -1] = 0.11
    assert np.abs(model.predict(x)).max() < 100
    for factor, limit in ((1e100, r"3.4e\+38"), (1e300, r"1e\+150")):
        with pytest.raises(ValueError, match=f"larger than {limit}, the first at"):
            model.predict(x * factor)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [1e308, 1e200])
def test_numbers_whose_squares_overflow_are_refused(value: float) -> None:
    wild = np.where(np.arange(len(Y)) % 2 == 0, value, -value)
    model = FairMLPRegressor(steps=5, random_state=0)
    for x, y, z, name in ((wild[:, None], Y, Z, "X"), (X, wild, Z, "y"), (X, Y, wild, "z")):
        with pytest.raises(ValueError, match=rf"{name} has \d+ value\(s\) .* larger than 1e\+150"):
            model.fit(x, y, protected=z)


@pytest.mark.usefixtures("untrained")
def test_a_rare_level_stays_among_the_training_rows() -> None:
    level = np.where(np.median(Z) < Z, "many", "others").astype(object)
    level[:10] = "few of a kind"
    for seed in range(3):
        model = FairMLPRegressor((4,), penalty=KB(5, 2), random_state=seed, constraint_fraction=0.5)
        model.fit(X, Y, protected=level)


def test_estimators_keep_a_share_of_the_rows_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = asked(monkeypatch, constraint_fraction=0.25)
    trained_on, others = found["data"].z["z"], found["constraint"].z["z"]
    assert (len(trained_on), len(others)) == (150, 50)
    np.testing.assert_array_equal(np.sort([*trained_on, *others]), np.sort(Z))


RNG = np.random.default_rng(0)
ATTRIBUTE = RNG.normal(size=80)
INPUTS = np.column_stack([ATTRIBUTE, RNG.normal(size=80)])
TARGETS = INPUTS @ [2.0, 1.0] + 0.1 * RNG.normal(size=80)
FRAME = pd.DataFrame(INPUTS, columns=["age", "skill"])


class Blend(RegressorMixin, BaseEstimator):
    """The second input and a share of the first, which is protected."""

    def __init__(self, share: float = 1.0) -> None:
        self.share = share

    def fit(self, X: Any, y: Any, protected: Any = None) -> Blend:
        self.fitted_ = True
        return self

    def predict(self, X: Any) -> np.ndarray:
        return np.asarray(X) @ [self.share, 1.0]


class Chances(Blend):
    classes_ = ("no", "yes")

    def predict_proba(self, X: Any) -> np.ndarray:
        second = 1 / (1 + np.exp(-self.predict(X)))
        return np.column_stack([1 - second, second])


def test_a_kept_threshold_scores_what_the_model_does() -> None:
    shown = FairnessScorer(0.2, protected="age")
    assert repr(shown) == "FairnessScorer(penalty=0.2, protected='age')"
    assert clone(shown).get_params() == shown.get_params()
    scorer = FairnessScorer(Penalty(KB(1, 1), 0.9), protected="age")
    model = Blend(1.0)
    assert scorer(model, FRAME, TARGETS) == pytest.approx(r2_score(TARGETS, model.predict(INPUTS)))
    label = np.where(TARGETS > 0, "yes", "no")
    chances = Chances(1.0)
    expected = roc_auc_score(label == "yes", chances.predict(INPUTS))
    assert scorer(chances, FRAME, label) == pytest.approx(expected)
    worse = r2_score(-TARGETS, model.predict(INPUTS))
    assert worse < -1
    assert scorer(model, FRAME, -TARGETS) == pytest.approx(worse / (1 - worse))
    assert -1 < scorer(model, FRAME, -TARGETS / 3) < scorer(model, FRAME, -TARGETS) < 0


def test_a_broken_threshold_scores_the_violation() -> None:
    model, h, k = Blend(5.0), 3, 2
    with jax.enable_x64(True):
        value = float(hgr_jax.kb(ATTRIBUTE, model.predict(INPUTS), h, k))
        single = float(hgr_jax.sk(ATTRIBUTE, model.predict(INPUTS), k))

    def score(statistic: Statistic) -> float:
        scorer = FairnessScorer(Penalty(statistic, 0.2), protected="age")
        with pytest.warns(ConvergenceWarning, match="of age is .* on the 80 rows that are scored"):
            return scorer(model, FRAME, TARGETS)

    assert score(KB(h, k)) == pytest.approx(-200 - (value - 0.2), abs=1e-9)
    assert score(SK(k)) == pytest.approx(-200 - (single - 0.2), abs=1e-9)


@pytest.mark.filterwarnings("ignore:HGR-KB")
def test_grid_search_prefers_the_constraint_to_the_score() -> None:
    shares = {"share": [0.0, 2.0]}
    plain = GridSearchCV(Blend(), shares, cv=4).fit(INPUTS, TARGETS)
    assert plain.best_params_ == {"share": 2.0}
    scorer = FairnessScorer(Penalty(KB(1, 1), 0.6), protected="age")
    found = GridSearchCV(Blend(), shares, scoring=scorer, cv=4).fit(FRAME, TARGETS)
    assert found.best_params_ == {"share": 0.0}
    assert found.best_score_ >= 0
    assert found.cv_results_["mean_test_score"][1] < -200


@pytest.mark.filterwarnings("ignore:HGR-KB")
@sklearn.config_context(enable_metadata_routing=True)
def test_metadata_routing() -> None:
    # The attribute is no input.
    x = INPUTS[:, 1:]
    model = FairMLPRegressor((2,), threshold=0.5, steps=2, random_state=0)
    model.set_fit_request(protected=True)
    held, rest = np.arange(40), np.arange(40, 80)
    fitted = clone(model).fit(x[rest], TARGETS[rest], protected=ATTRIBUTE[rest])
    plain = FairnessScorer(Penalty(KB(1, 1), 1e-3))
    expected = plain(fitted, x[held], TARGETS[held], protected=ATTRIBUTE[held])
    assert expected < -200
    scorer = clone(plain).set_score_request(protected=True)
    params = {"protected": ATTRIBUTE}
    found = cross_val_score(model, x, TARGETS, scoring=scorer, cv=2, params=params)
    assert found[0] == pytest.approx(expected)
    search = GridSearchCV(model, {"steps": [2]}, scoring=scorer, cv=2)
    search.fit(x, TARGETS, **params)
    assert search.cv_results_["split0_test_score"][0] == pytest.approx(expected)


@sklearn.config_context(enable_metadata_routing=True)
def test_a_table_of_any_columns_through_a_pipeline() -> None:
    """Text, dates and missing values are skrub's and scikit-learn's to encode."""
    skrub = pytest.importorskip("skrub", reason="skrub is not installed")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "job": rng.choice(["nurse", "clerk", "cook"], 120),
            "hired": pd.date_range("2020-01-01", periods=120).astype(str),
            "pay": np.where(np.arange(120) % 10, rng.normal(size=120), np.nan),
        }
    )
    age = rng.uniform(18, 70, 120)
    label = (table.job == "cook").to_numpy().astype(int)
    options: Any = {"threshold": 0.9, "steps": 100, "learning_rate": 0.05, "random_state": 0}
    model = FairMLPClassifier((8,), **options)
    model.set_fit_request(protected=True, sample_weight=True).set_score_request(sample_weight=True)
    pipeline = make_pipeline(skrub.TableVectorizer(), SimpleImputer(), model)
    params = {"protected": age, "sample_weight": rng.uniform(0.5, 1.5, 120)}
    found = cross_validate(pipeline, table, label, params=params, cv=3, error_score="raise")
    assert min(found["test_score"]) > 0.8
