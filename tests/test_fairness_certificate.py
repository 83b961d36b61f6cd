"""Certificates: bounds against references and simulations, and trainings that end with one."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split

import hgr_jax
from bench import reference
from hgr_jax.fairness import (
    HGR,
    KB,
    SK,
    DemographicParity,
    FairMLPClassifier,
    FairMLPRegressor,
    NoSolutionFound,
    Penalty,
    certify,
)

ROWS = 600
PARITY = Penalty(DemographicParity(), 0.5)
RNG = np.random.default_rng(0)
Z = np.repeat(RNG.normal(size=ROWS // 2), 2)  # of pairs of rows, with labels
P = 0.3 * Z + 0.8 * np.repeat(RNG.normal(size=ROWS // 2), 2) + 0.6 * RNG.normal(size=ROWS)
PAIR = np.arange(ROWS) // 2
LEVEL = RNG.choice(["a", "b", "c"], ROWS, p=[0.5, 0.3, 0.2])
OUTCOME = RNG.integers(0, 2, ROWS)
DECISION = (RNG.random(ROWS) < 0.2 + 0.3 * OUTCOME + 0.1 * (LEVEL == "c")).astype(float)


def kb(threshold: float = 0.9, h: int = 1, k: int = 1, **options: Any) -> Penalty:
    return Penalty(KB(h, k), threshold, **options)


class TestBounds:
    def test_the_bound_is_its_formula(self) -> None:
        """The error is near the jackknife's; the quantile is Student's, corrected for skewness."""
        p, z, rows = P[::2], Z[::2], ROWS // 2
        found = certify(p, z, kb(0.9, 2, 3, name="age"), level=0.9)
        value = reference.kb(z, p, 2, 3)
        without = [reference.kb(np.delete(z, i), np.delete(p, i), 2, 3) for i in range(rows)]
        psi = (rows - 1) * (value - np.array(without))
        assert found.value == pytest.approx(value, abs=1e-6)
        assert found.standard_error == pytest.approx(psi.std() / np.sqrt(rows), rel=0.1)
        psi = psi - psi.mean()
        carriers = (psi**2).sum() ** 2 / (psi**4).sum()
        skewness = max((psi**3).mean() / psi.std() ** 3, 0)
        quantile = stats.t.ppf(0.9, carriers - 1)
        quantile += skewness * (2 * stats.norm.ppf(0.9) ** 2 + 1) / (6 * np.sqrt(rows))
        assert found.bound == pytest.approx(value + quantile * found.standard_error, abs=0.01)
        assert (found.rows, found.level, found.name) == (rows, 0.9, "age")
        assert found.measure == "HGR-KB(2, 3)"
        assert found.holds == (found.bound <= 0.9)
        assert not certify(p, z, kb(found.bound - 1e-6, 2, 3), level=0.9).holds
        assert certify(p, z, 0.3, level=0.001).bound >= 0

    def test_errors_of_groups_are_those_of_a_jackknife(self) -> None:
        """Leaving out one pair of rows at a time."""
        found = certify(P, Z, kb(0.9, 1, 2), groups=PAIR)
        count = ROWS // 2
        values = np.array([reference.kb(Z[i != PAIR], P[i != PAIR], 1, 2) for i in range(count)])
        error = np.sqrt((count - 1) / count * ((values - values.mean()) ** 2).sum())
        assert found.standard_error == pytest.approx(error, rel=0.05)
        assert found.standard_error > 1.1 * certify(P, Z, kb(0.9, 1, 2)).standard_error
        text = certify(P, Z, kb(0.9, 1, 2), groups=[f"p{i}" for i in PAIR])
        assert text.bound == found.bound

    def test_every_measure_has_its_own_bound(self) -> None:
        single = certify(P, Z, Penalty(SK(3), 0.9))
        expected = max(reference.kb(Z, P, 3, 1), reference.kb(Z, P, 1, 3))
        assert (single.value, single.measure) == (pytest.approx(expected, abs=1e-6), "HGR-SK(3)")
        assert expected < single.bound
        ranked = certify(P, Z, Penalty(HGR(), 0.9))
        assert ranked.measure == "HGR(5, 5)"
        again = certify(np.exp(9 * P), np.exp(9 * Z), Penalty(HGR(), 0.9))
        assert again.bound == pytest.approx(ranked.bound, abs=1e-9)

    def test_demographic_parity_is_welchs(self) -> None:
        found = certify(DECISION, LEVEL, PARITY)
        means = {str(level): DECISION[level == LEVEL].mean() for level in np.unique(LEVEL)}
        pair = max(means, key=lambda n: means[n]), min(means, key=lambda n: means[n])
        assert found.value == pytest.approx(means[pair[0]] - means[pair[1]])
        two = [DECISION[name == LEVEL] for name in pair]
        error = np.sqrt(sum(part.var(ddof=1) / len(part) for part in two))
        assert found.standard_error == pytest.approx(error, rel=0.02)
        assert found.bound == pytest.approx(found.value + 1.66 * error, abs=0.02)
        assert "demographic parity of z and the prediction" in str(found)
        of_numbers = certify(DECISION, np.where(LEVEL == "a", 7, 3), PARITY)
        difference = DECISION[LEVEL == "a"].mean() - DECISION[LEVEL != "a"].mean()
        assert of_numbers.value == pytest.approx(abs(difference))

    def test_the_largest_of_columns_and_of_groups_of_y_is_bounded(self) -> None:
        both = np.stack([P, Z + 3 * P], axis=1)
        found = certify(both, Z, kb(0.9, 2, 2))
        single = [certify(column, Z, kb(0.9, 2, 2)) for column in both.T]
        assert found.bound == pytest.approx(max(each.bound for each in single))
        worst = max(range(2), key=lambda i: single[i].bound)
        assert (found.level, found.worst) == (0.95, f"column {worst}")
        assert f"for column {worst}" in str(found)
        given = Penalty(DemographicParity(), 0.5, given="classes")
        found = certify(DECISION, LEVEL, given, y=np.where(OUTCOME, "yes", "no"))
        parts = [certify(DECISION[i == OUTCOME], LEVEL[i == OUTCOME], PARITY) for i in (0, 1)]
        assert found.bound == pytest.approx(max(part.bound for part in parts))
        assert found.worst == ("y=no", "y=yes")[int(parts[1].bound > parts[0].bound)]
        assert "y " in certify(P, Z, kb(given=3), y=P + Z).worst
        some = certify(DECISION, LEVEL, given, y=np.where(LEVEL == "c", 1, OUTCOME))
        assert (some.bound, some.worst) == (1, "y=0")
        assert "fewer than 10 independent rows of the level(s) 'c' (0)" in some.reason

    def test_categories_and_scales(self) -> None:
        text = np.where(Z > 0.5, "old", np.where(Z > -0.5, "middle", "young"))
        found = certify(P, text, kb(0.6, 5, 2))
        levels = (text[:, None] == np.unique(text)).astype(float)
        features = reference.orthonormal_features(levels, np.ones(ROWS))
        polynomials = reference.orthonormal_polynomials(P, 2, np.ones(ROWS))
        expected = reference.canonical_correlation(features, polynomials)
        assert found.value == pytest.approx(expected, abs=1e-5)
        assert found.measure == "HGR-KB(2, 2)"
        again = certify(P, levels.astype(int), kb(0.6, 5, 2))
        assert again.bound == pytest.approx(found.bound)
        moved = certify(1e6 + 1e3 * P, 1e9 * Z - 7, 0.6)
        assert moved.bound == pytest.approx(certify(P, Z, 0.6).bound, abs=1e-3)

    def test_a_bound_covers_the_population(self) -> None:
        """Of 300 samples of a known correlation; without its margin it covers half of them."""
        z, noise = np.random.default_rng(2).normal(size=(2, 300, 300))
        covered = [
            certify(0.3 * a + np.sqrt(1 - 0.09) * b, a, kb(0.9, 2, 2)).bound >= 0.3
            for a, b in zip(z, noise, strict=True)
        ]
        assert 0.92 <= np.mean(covered) <= 1

    @pytest.mark.parametrize("share", [0.03, 0.08])
    def test_a_small_group_is_seldom_bounded_below_its_dependence(self, share: float) -> None:
        """Of 300 tables of 200 rows; 70 of them by the normal law of all."""
        truth = np.sqrt(share * (1 - share)) / np.sqrt(1 + share * (1 - share))
        rng, below = np.random.default_rng(6), 0
        for _ in range(300):
            z = (rng.random(200) < share).astype(float)
            below += certify(z + rng.normal(size=200), z, kb(0.9, 1, 3)).bound < truth
        assert below <= 300 * (0.05 + 2 * np.sqrt(0.05 * 0.95 / 300))

    def test_a_rare_prediction_is_seldom_bounded_below_its_dependence(self) -> None:
        """Predictions that are 1 where z > 2.6, of which 400 rows have two."""
        rng, below = np.random.default_rng(0), 0
        z = rng.normal(size=1_000_000)
        population = float(hgr_jax.kb(z, z > 2.6, h=5, k=1))
        for _ in range(60):
            z = rng.normal(size=400)
            below += certify((z > 2.6).astype(float), z, 0.5).bound < population
        assert below == 0  # ten of them, by a bound that trusts every standard error


OUTLIER = np.where(np.arange(ROWS) == 0, 1e8, Z)
RARE = np.array(["a"] * 290 + ["b"] * 5 + ["c"] * 305)
HALVES = np.array(["a", "b"] * 300)
ONE_HOT = np.eye(3)[OUTCOME]
FEW = np.linspace(-1, 1, 11)


@pytest.mark.parametrize(
    ("prediction", "z", "penalty", "options", "reason"),
    [
        (DECISION, RARE, PARITY, {}, "fewer than 10 independent rows of the level(s) 'b' (5)"),
        (DECISION, ONE_HOT, 0.9, {}, "'column 2' (0)"),
        (
            *(DECISION, np.where(HALVES == "a", "a", "c"), 0.9),
            {"groups": np.where(HALVES == "a", 0, np.arange(ROWS))},
            "of the level(s) 'a' (1)",  # all of whose rows are in one group
        ),
        (np.arange(ROWS) < 6, HALVES, PARITY, {}, "variance of the predictions of the level 'a'"),
        (np.arange(ROWS) < 9, Z, 0.6, {}, "carry the variance of the predictions"),
        (OUTLIER, Z, 0.3, {}, "carry the variance of the predictions"),
        (Z, OUTLIER, 0.3, {}, "carry the variance of the attribute"),
        (FEW, FEW**3, 0.9, {}, "too few rows for the degrees"),
        (np.full(ROWS, 7.0), Z, 0.1, {}, "all predictions are equal"),
        (P, np.exp(Z), 0.9, {}, "the tails of the attribute are too heavy for polynomials"),
    ],
)
def test_rows_that_cannot_say(
    prediction: Any, z: Any, penalty: Any, options: dict[str, Any], reason: str
) -> None:
    """The bound is 1, with a reason that names what is lacking."""
    found = certify(prediction, z, penalty, **options)
    assert (found.bound, found.holds) == (1, False)
    assert reason in found.reason
    assert found.reason in str(found)
    assert found.reason in str(NoSolutionFound(found))


def test_what_has_no_largest_value_is_not_certified() -> None:
    assert certify(Z + 1e9, Z, 0.3).bound == pytest.approx(1, abs=1e-2)
    assert certify(np.arange(ROWS) < 11, Z, 0.6).reason == ""
    unbounded = certify(np.full(50, 9.0), np.resize(["a", "b"], 50), Penalty("hgr", 1.0))
    assert unbounded.bound == 1
    parity = Penalty(DemographicParity(), 1.0)
    assert not certify(np.full(50, 9.0), np.resize(["a", "b"], 50), parity).holds


SETTINGS: dict[str, Any] = {"threshold": 0.6, "penalty": KB(2, 2), "guarantee": 0.95}
SETTINGS["random_state"] = 0
TABLE = np.random.default_rng(3).normal(size=(900, 5))
INPUTS = TABLE[:, 1:4] + TABLE[:, :1] * [1, 0, 0]
AGE, TARGET = TABLE[:, 0], TABLE[:, 0] + 2 * INPUTS[:, 1] + 0.3 * TABLE[:, 4]


@pytest.fixture(scope="module")
def regressor() -> FairMLPRegressor:
    return FairMLPRegressor(**SETTINGS).fit(INPUTS, TARGET, protected=AGE)


def test_an_estimator_has_the_last_accepted_candidate(regressor: FairMLPRegressor) -> None:
    found = regressor.certificate_
    assert found.holds
    assert list(found.candidates) == ["setting", "steps", "value", "bound", "accepted"]
    *accepted, last = found.candidates.accepted
    assert all(accepted)
    assert last == (len(found.candidates) == 19)
    assert found.candidates.setting.is_monotonic_increasing
    model = found.candidates[found.candidates.accepted].iloc[-1]
    assert (found.value, found.bound, regressor.n_iter_) == (model.value, model.bound, model.steps)
    # The bound is that of `certify` on the rows held back, which are 40% of all.
    assert (found.rows, found.threshold) == (360, 0.6)
    again = certify(regressor.predict(INPUTS), AGE, kb(0.6, 2, 2))
    assert again.value == pytest.approx(found.value, abs=0.12)  # on all rows
    assert regressor.score(INPUTS, TARGET) > 0.3
    assert regressor.history_.thresholds == {"z": pytest.approx(0.6)}
    assert f"candidates tried: {len(found.candidates)}, accepted: " in repr(found)
    assert "P(a model is returned and breaks its threshold) <= 1 - level = 0.05, if" in str(found)


def test_predictions_stay_within_those_of_the_training_rows(regressor: FairMLPRegressor) -> None:
    far = np.concatenate([100 * INPUTS, INPUTS])
    found = regressor.predict(far)
    assert np.ptp(found) <= np.ptp(regressor.predict(INPUTS)) * (1 + 1e-6)
    again = pickle.loads(pickle.dumps(regressor))
    np.testing.assert_array_equal(again.predict(far), found)
    assert again.certificate_.bound == regressor.certificate_.bound


def test_rows_held_back_have_no_part_in_the_model(regressor: FairMLPRegressor) -> None:
    """Other attributes of theirs: another bound, the same weights."""
    order = np.random.RandomState(0).randint(np.iinfo(np.int32).max)
    rows = np.arange(len(AGE))

    _, held = train_test_split(rows, test_size=0.4, random_state=order)
    other = AGE.copy()
    other[held] = np.random.default_rng(4).permutation(AGE[held])
    second = FairMLPRegressor(**SETTINGS).fit(INPUTS, TARGET, protected=other)
    assert second.certificate_.value < regressor.certificate_.value
    steps = min(len(model.history_.steps["loss"]) for model in (regressor, second))
    losses = [model.history_.steps["loss"][:steps] for model in (regressor, second)]
    np.testing.assert_array_equal(*losses)


def test_no_solution_says_so_and_leaves_no_model_of_before() -> None:
    model = FairMLPRegressor((4,), **SETTINGS | {"threshold": 1.0}, steps=5)
    model.fit(INPUTS, TARGET, protected=AGE)  # so few steps are one candidate of the whole
    assert model.certificate_.candidates.setting.tolist() == [1.0]
    with pytest.raises(
        NoSolutionFound, match=r"no model was found whose HGR-KB\(2, 2\) is"
    ) as info:
        model.set_params(threshold=0.02).fit(INPUTS, TARGET, protected=AGE)
    assert not hasattr(model, "certificate_")
    with pytest.raises(NotFittedError):  # of the model before, but for what it was scaled by
        model.predict(INPUTS)
    found = info.value.certificate
    again = pickle.loads(pickle.dumps(info.value))  # as a search hands it on from a process
    assert (str(again), again.certificate.bound) == (str(info.value), found.bound)
    assert (found.holds, len(found.candidates)) == (False, 1)


@pytest.mark.parametrize("labels", [2, 3])
def test_a_classifier_has_a_certificate_of_its_probabilities(labels: int) -> None:
    label = np.digitize(TARGET, np.quantile(TARGET, [0.3, 0.7][: labels - 1]))
    model = FairMLPClassifier((8,), **SETTINGS, steps=200).fit(INPUTS, label, protected=AGE)
    assert model.certificate_.holds
    values = [certify(p, AGE, kb(0.6, 2, 2)).value for p in model.predict_proba(INPUTS).T]
    assert model.certificate_.value == pytest.approx(max(values), abs=0.12)


def test_several_penalties_and_groups_of_y_have_a_certificate_each() -> None:
    table = pd.DataFrame({"a": AGE, "b": INPUTS[:, 2]})
    penalties = [kb(1.0, 2, 2, name="a"), Penalty(SK(1), 0.9, given=2, name="b")]
    model = FairMLPRegressor((4,), penalty=penalties, guarantee=0.9, steps=5, random_state=0)
    first, second = model.fit(INPUTS, TARGET, protected=table).certificate_
    assert [(each.name, each.threshold) for each in (first, second)] == [("a", 1.0), ("b", 0.9)]
    assert (first.measure, second.measure) == ("HGR-KB(2, 2)", "HGR-SK(1)")
    assert first.level == second.level == pytest.approx(0.95)
    assert second.worst.startswith("y ")
