"""Certificates, and trainings that end with one."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fairness_support import DUAL, some_data
from flax import nnx
from scipy import stats
from sklearn.exceptions import NotFittedError

import hgr_jax
from bench import reference
from hgr_jax.fairness import (
    KB,
    MLP,
    SK,
    Candidate,
    Certificate,
    FairMLPClassifier,
    FairMLPRegressor,
    FairTrainer,
    NoSolutionFound,
    Penalty,
    certify,
    fit_certified,
)

ROWS = 300


@pytest.fixture(scope="module")
def sample() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    z = rng.normal(size=ROWS)
    return 0.4 * z**2 + rng.normal(size=ROWS), z


def influence(z: np.ndarray, prediction: np.ndarray, h: int, k: int) -> tuple[float, np.ndarray]:
    """HGR-KB and the change of it, times n, that leaving out each row makes."""
    rows = len(z)
    value = reference.kb(z, prediction, h, k)
    without = [reference.kb(np.delete(z, i), np.delete(prediction, i), h, k) for i in range(rows)]
    return value, (rows - 1) * (value - np.array(without))


def test_the_bound_is_its_formula(sample: tuple[np.ndarray, np.ndarray]) -> None:
    """The error is near the jackknife's; the quantile is Student's, corrected for skewness."""
    prediction, z = sample
    found = certify(prediction, z, Penalty(KB(2, 3), 0.9, name="age"), level=0.9)
    value, psi = influence(z, prediction, 2, 3)
    assert found.value == pytest.approx(value, abs=1e-6)
    assert found.standard_error == pytest.approx(psi.std() / np.sqrt(ROWS), rel=0.1)
    psi = psi - psi.mean()
    carriers = (psi**2).sum() ** 2 / (psi**4).sum()
    skewness = max((psi**3).mean() / psi.std() ** 3, 0)
    quantile = stats.t.ppf(0.9, carriers - 1)
    quantile += skewness * (2 * stats.norm.ppf(0.9) ** 2 + 1) / (6 * np.sqrt(ROWS))
    assert found.bound == pytest.approx(value + quantile * found.standard_error, abs=0.01)
    assert (found.rows, found.degrees, found.level, found.name) == (ROWS, (2, 3), 0.9, "age")
    assert found.measure == "HGR-KB(2, 3)"
    assert found.holds == (found.bound <= 0.9)
    assert not certify(prediction, z, Penalty(KB(2, 3), found.bound - 1e-6), level=0.9).holds
    linear = certify(prediction, z, Penalty(KB(1, 1), 0.6))
    r = abs(np.corrcoef(prediction, z)[0, 1])
    assert r + 1.645 * linear.standard_error <= linear.bound <= r + 2 * linear.standard_error


def test_the_largest_of_several_columns_is_bounded(sample: tuple[np.ndarray, np.ndarray]) -> None:
    prediction, z = sample
    both = np.stack([prediction, z + 3 * prediction], axis=1)
    found = certify(both, z, Penalty(KB(2, 2), 0.9))
    single = [certify(column, z, Penalty(KB(2, 2), 0.9)) for column in both.T]
    assert found.bound == pytest.approx(max(each.bound for each in single))
    assert found.value == pytest.approx(max(each.value for each in single))
    worst = max(range(2), key=lambda i: single[i].bound)
    assert (found.level, found.worst) == (0.95, f"column {worst}")
    assert f"for column {worst}" in str(found)


def test_categories_and_scales(sample: tuple[np.ndarray, np.ndarray]) -> None:
    prediction, z = sample
    text = np.where(z > 0.5, "old", np.where(z > -0.5, "middle", "young"))
    found = certify(prediction, text, Penalty(KB(5, 2), 0.6))
    levels = text[:, None] == np.unique(text)
    features = reference.orthonormal_features(levels.astype(float), np.ones(ROWS))
    polynomials = reference.orthonormal_polynomials(prediction, 2, np.ones(ROWS))
    expected = reference.canonical_correlation(features, polynomials)
    assert found.value == pytest.approx(expected, abs=1e-5)
    assert found.degrees == (2, 2)
    again = certify(prediction, levels.astype(int), Penalty(KB(5, 2), 0.6))
    assert again.bound == pytest.approx(found.bound)
    moved = certify(1e6 + 1e3 * prediction, 1e9 * z - 7, 0.6)
    assert moved.bound == pytest.approx(certify(prediction, z, 0.6).bound, abs=1e-3)


def test_degenerate_predictions(sample: tuple[np.ndarray, np.ndarray]) -> None:
    _, z = sample
    constant = certify(np.full(ROWS, 7.0), z, 0.1)
    assert (constant.value, constant.bound, constant.holds) == (0, 1, False)
    assert "all predictions are equal" in constant.reason
    few = certify(z[:8], z[:8] ** 3, 0.9)
    assert (few.bound, few.holds) == (1, False)
    assert certify(z, z, 0.9).reason == ""
    # The attribute itself, far from 0, with an outlier, of a huge unit.
    outlier = np.where(np.arange(ROWS) == 0, 1e8, z)
    for copy in (z + 1e9, outlier, z * 1e39):
        assert certify(copy, z, 0.3).bound == pytest.approx(1, abs=1e-2)
    assert "carry the variance of the predictions" in certify(outlier, z, 0.3).reason
    assert "carry the variance of the attribute" in certify(z, outlier, 0.3).reason


def test_rows_that_would_do() -> None:
    rng = np.random.default_rng(1)
    z, noise = rng.normal(size=(2, ROWS))
    found = certify(0.3 * z + noise, z, 0.35)
    assert not found.holds
    assert found.rows_needed is not None
    assert found.rows_needed > ROWS
    # With as many rows of the same kind the bound is near the threshold.
    z, noise = rng.normal(size=(2, found.rows_needed))
    assert certify(0.3 * z + noise, z, 0.35).bound == pytest.approx(0.35, abs=0.07)
    assert certify(0.3 * z + noise, z, 0.2).rows_needed is None  # the value itself is above


def test_a_bound_covers_the_population() -> None:
    """Of 300 samples of a known correlation; a bound that forgot its margin covers half of them."""
    rng = np.random.default_rng(2)
    z, noise = rng.normal(size=(2, 300, ROWS))
    covered = [
        certify(0.3 * a + np.sqrt(1 - 0.09) * b, a, Penalty(KB(2, 2), 0.9)).bound >= 0.3
        for a, b in zip(z, noise, strict=True)
    ]
    assert 0.92 <= np.mean(covered) <= 1


def test_texts_and_tables(sample: tuple[np.ndarray, np.ndarray]) -> None:
    tried = (Candidate(0.1, 50, 0.1, 0.2, True), Candidate(0.2, 75, 0.2, 0.4, False))
    found = Certificate(0.3, 0.95, 0.1, 0.2, 0.05, 1500, 300, (5, 4), "age", tried)
    assert "and the prediction in the population: at most 0.3 (upper bound 0.200" in str(found)
    assert "P(a model is returned and breaks its threshold) <= 1 - level = 0.05, if" in str(found)
    assert "candidates tried: 2, accepted: 1" in repr(found)
    assert found.supposes.endswith("or choosing the model, or the order of the models")
    assert "<= 1 - level = 0.001, if the rows are drawn independently" in str(
        certify(*sample, 0.3, level=0.999)
    )
    assert certify(*sample, 0.3, level=0.001).bound >= 0
    table = found.to_frame()
    assert table.values.tolist() == [[0.1, 50, 0.1, 0.2, True], [0.2, 75, 0.2, 0.4, False]]
    assert list(table) == ["setting", "steps", "value", "bound", "accepted"]


SETTINGS: dict[str, Any] = {"threshold": 0.6, "penalty": KB(2, 2), "guarantee": 0.95}
SETTINGS["random_state"] = 0


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    z = rng.normal(size=900)
    x = rng.normal(size=(900, 3))
    x[:, 0] += z
    return x, z + 2 * x[:, 1] + 0.3 * rng.normal(size=900), z


@pytest.fixture(scope="module")
def regressor(table: Any) -> FairMLPRegressor:
    x, y, z = table
    return FairMLPRegressor(**SETTINGS).fit(x, y, protected=z)


def test_an_estimator_has_the_last_accepted_candidate(
    regressor: FairMLPRegressor, table: Any
) -> None:
    x, y, z = table
    found = regressor.certificate_
    assert found.holds
    assert found.threshold == 0.6
    *accepted, last = found.candidates
    assert all(candidate.accepted for candidate in accepted)
    settings = [candidate.setting for candidate in found.candidates]
    assert settings == sorted(settings)
    assert last.accepted == (len(found.candidates) == 19)
    model = [candidate for candidate in found.candidates if candidate.accepted][-1]
    assert (found.value, found.bound, regressor.n_iter_) == (model.value, model.bound, model.steps)
    # The bound is that of `certify` on the rows held back, which are 40% of all.
    assert found.rows == 360
    again = certify(regressor.predict(x), z, Penalty(KB(2, 2), 0.6))
    assert again.value == pytest.approx(found.value, abs=0.12)  # on all rows
    assert regressor.score(x, y) > 0.3
    assert regressor.history_.thresholds == {"z": pytest.approx(0.6)}


def new_trainer(*penalties: Penalty) -> FairTrainer:
    penalties = penalties or (Penalty(KB(2, 2), 0.9),)
    return FairTrainer(MLP(3, (8,), rngs=nnx.Rngs(0)), penalties=penalties, dual=DUAL)


def test_rows_held_back_have_no_part_in_the_model(table: Any) -> None:
    """The bound is of rows that are not trained on: other values of theirs, the same weights."""
    x, y, z = table
    rows = x[:500], y[:500] / 9, z[:500]
    models = []
    for other in (z[500:], np.random.default_rng(4).permutation(z[500:])):
        trainer = new_trainer()
        (found,) = fit_certified(trainer, *rows, held_out=(x[500:], other), steps=40)
        models.append((trainer, found))
    (first, of_first), (second, of_second) = models
    assert of_second.value < of_first.value
    steps = min(of_first.candidates[-1].steps, of_second.candidates[-1].steps)
    losses = [trainer.history.steps["loss"][:steps] for trainer in (first, second)]
    np.testing.assert_array_equal(*losses)


def test_a_classifier_has_a_certificate_of_its_probabilities(table: Any) -> None:
    x, y, z = table
    label = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    for labels in (label > 0, label):
        model = FairMLPClassifier(**SETTINGS).fit(x, labels, protected=z)
        assert model.certificate_.holds
        columns = model.predict_proba(x).T
        values = [certify(column, z, Penalty(KB(2, 2), 0.6)).value for column in columns]
        assert model.certificate_.value == pytest.approx(max(values), abs=0.12)


def test_no_solution_says_what_would_do_and_leaves_no_model_of_before(table: Any) -> None:
    x, y, z = table
    model = FairMLPRegressor(**SETTINGS).fit(x, y, protected=z)
    with pytest.raises(NoSolutionFound, match="no model was found whose HGR-KB is at most") as info:
        model.set_params(threshold=0.02).fit(x, y, protected=z)
    assert not hasattr(model, "certificate_")
    with pytest.raises(NotFittedError):  # of the model before, but for what it was scaled by
        model.predict(x)
    found = info.value.certificate
    again = pickle.loads(pickle.dumps(info.value))  # as a search hands it on from a process
    assert (str(again), again.certificate) == (str(info.value), found)
    assert not found.holds
    assert len(found.candidates) == 1
    number = re.search(r"about ([\d,]+) rows held back would do", str(info.value))
    if found.rows_needed is None:
        assert "no number of rows would do" in str(info.value)
    else:
        assert number is not None
        assert int(number[1].replace(",", "")) == found.rows_needed > 360
    model.set_params(threshold=0.6).fit(x, y, protected=z)
    assert model.certificate_.holds
    model.set_params(guarantee=None, steps=5).fit(x, y, protected=z)
    assert not hasattr(model, "certificate_")


def test_several_penalties_have_a_certificate_each() -> None:
    x, y, z = some_data()
    trainer = new_trainer(Penalty(KB(2, 2), 1.0, name="a"), Penalty(SK(1), 0.9, name="b"))
    protected = pd.DataFrame({"a": z, "b": x[:, 2]})
    held = {"held_out": (x, protected), "level": 0.9}
    first, second = fit_certified(trainer, x, y, protected, steps=5, **held)
    assert [(each.name, each.threshold) for each in (first, second)] == [("a", 1.0), ("b", 0.9)]
    for found, attribute, statistic in ((first, z, KB(2, 2)), (second, x[:, 2], SK(1))):
        assert found.level == pytest.approx(0.95)
        again = certify(trainer.predict(x), attribute, Penalty(statistic, 1.0), 0.95)
        assert found.bound == pytest.approx(again.bound, abs=1e-5)
    assert (first.measure, second.measure) == ("HGR-KB(2, 2)", "HGR-SK(1)")


def test_a_training_given_y_has_a_certificate_of_its_groups() -> None:
    x, y, z = some_data(rows=300)
    penalty = Penalty(KB(1, 1), 1.0, given=2, name="a")
    trainer = new_trainer(penalty)
    (found,) = fit_certified(trainer, x, y, z, held_out=(x, z, y), steps=5)
    again = certify(trainer.predict(x), z, penalty, y=y)
    assert found.bound == pytest.approx(again.bound, abs=1e-5)
    assert [name.split()[:2] for name in found.given] == [["y", "<"], ["y", ">="]]
    with pytest.raises(ValueError, match=r"held_out must be \(x, protected, y\) with given"):
        fit_certified(new_trainer(penalty), x, y, z, held_out=(x, z), steps=5)


def test_predictions_stay_within_those_of_the_training_rows(
    regressor: FairMLPRegressor, table: Any
) -> None:
    x, _, _ = table
    far = np.concatenate([100 * x, x])
    found = regressor.predict(far)
    assert np.ptp(found) <= np.ptp(regressor.predict(x)) * (1 + 1e-6)
    again = pickle.loads(pickle.dumps(regressor))
    np.testing.assert_array_equal(again.predict(far), found)


def test_few_steps_are_one_candidate_of_the_whole_threshold() -> None:
    x, y, z = some_data()
    trainer = new_trainer(Penalty(KB(2, 2), 1.0))
    (found,) = fit_certified(trainer, x, y, z, held_out=(x, z), steps=5)
    assert [candidate.setting for candidate in found.candidates] == [1.0]
    assert trainer.limits is not None
    assert trainer.limits[0] <= float(trainer.predict(100 * x).min())
    trainer.fit(x, y, z, steps=20)  # goes on, without limits
    assert trainer.limits is None


@pytest.mark.parametrize("events", [1, 9, 11])
def test_rare_predictions_are_bounded_by_enough_of_them(sample: Any, events: int) -> None:
    found = certify((np.arange(ROWS) < events).astype(float), sample[1], 0.6)
    assert (found.bound < 1) == (events > 10)
    assert (found.reason != "") == (events < 10)
    if found.reason:
        assert found.rows_needed is None
        assert found.reason in str(found)
        assert found.reason in str(NoSolutionFound(found))
        assert "hold back more rows" in str(NoSolutionFound(found))


def test_a_rare_prediction_is_seldom_bounded_below_its_dependence() -> None:
    """Predictions that are 1 where z > 2.6, of which 400 rows have two."""
    rng, below = np.random.default_rng(0), 0
    z = rng.normal(size=1_000_000)
    population = float(hgr_jax.kb(z, z > 2.6, h=5, k=1))
    for _ in range(60):
        z = rng.normal(size=400)
        below += certify((z > 2.6).astype(float), z, 0.5).bound < population
    assert below == 0  # ten of them, by a bound that trusts every standard error


def test_rows_that_look_like_copies_are_told_of() -> None:
    p, z = np.random.default_rng(0).normal(size=(2, 200))
    twice, person = (np.tile(p, 2), np.tile(z, 2)), np.tile(np.arange(200), 2)
    with pytest.warns(UserWarning, match="200 of 400 rows repeat the prediction and the attri"):
        narrow = certify(*twice, 0.9)
    assert certify(*twice, 0.9, groups=person).bound > narrow.bound  # and no warning
    with pytest.warns(UserWarning, match="rows repeat the prediction and the attributes"):
        certify(np.round(twice[0], 4), np.round(10 * twice[1]), 0.9)
    for rounded in ((np.round(p, 1), z), (np.round(p, 2), np.sign(z))):  # no warning
        certify(*rounded, 0.9)
