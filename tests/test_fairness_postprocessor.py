"""Post-processing: the transport row by row, its strength, scikit-learn, and guarantees."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fairness_support import scikit_learn_checks
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import is_classifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import (
    KFold,
    StratifiedKFold,
    cross_val_predict,
    train_test_split,
)
from sklearn.tree import DecisionTreeRegressor
from transport_support import conditional_rank, out_of_fold, transported

import hgr_jax
from bench import reference
from hgr_jax.fairness import KB, FairPostprocessor, NoSolutionFound, Penalty, certify
from hgr_jax.fairness.postprocessor import Transport
from hgr_jax.fairness.postprocessor import _mixed as mixed

ROWS = 300
RNG = np.random.default_rng(0)
Z = RNG.normal(size=ROWS)
X = np.column_stack([Z, Z**2 + RNG.normal(size=ROWS), RNG.normal(size=(ROWS, 2))])
Y = X @ [1.0, 1.0, 1.0, 1.0] + 0.3 * RNG.normal(size=ROWS)
LABEL = np.where(np.median(Y) < Y, "yes", "no")
FRAME = pd.DataFrame(X, columns=["age", "income", "skill", "luck"])
NEW = slice(0, 40)
SETTINGS: dict[str, Any] = {"threshold": 0.4, "penalty": KB(2, 2), "random_state": 0}
CHECKS = scikit_learn_checks(*map(FairPostprocessor, (Ridge(), LogisticRegression())))


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learn_accepts_it(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def fitted() -> FairPostprocessor:
    return FairPostprocessor(Ridge(), **SETTINGS).fit(X, Y, protected=Z)


@pytest.mark.parametrize("threshold", [0.4, 0.6])
def test_the_strength_is_the_smallest_that_is_enough(threshold: float) -> None:
    folds = list(KFold(4, shuffle=True, random_state=3).split(X))
    settings = SETTINGS | {"threshold": threshold, "penalty": KB(3, 2), "cv": folds}
    model = FairPostprocessor(Ridge(alpha=2.0), **settings)
    model.fit(X, Y, protected=Z)
    p = cross_val_predict(Ridge(alpha=2.0), X, Y, cv=folds)
    moved = out_of_fold(Z, p, folds, None)
    grid = np.arange(41) / 40
    values = np.array([reference.kb(Z, (1 - t) * p + t * moved, 3, 2) for t in grid])
    assert model.strength_ == grid[values <= threshold][0]
    assert 0 < model.strength_ < 1
    # What new rows get: the model of all rows, and the transport of all out-of-fold predictions.
    z = Z[NEW] + 0.1
    plain = Ridge(alpha=2.0).fit(X, Y).predict(X[NEW])
    expected = transported((Z, p), z, plain, round(np.sqrt(ROWS)))
    mixture = (1 - model.strength_) * plain + model.strength_ * expected
    np.testing.assert_allclose(model.predict(X[NEW], z), mixture, rtol=1e-5, atol=1e-5)


def test_a_model_that_keeps_the_threshold_is_left_alone() -> None:
    model = FairPostprocessor(Ridge(), **SETTINGS).fit(X[:, 2:], Y, protected=Z)
    assert model.strength_ == 0
    np.testing.assert_array_equal(model.predict(X[:, 2:], Z), model.estimator_.predict(X[:, 2:]))
    with pytest.raises(ValueError, match="predictions need the protected attribute"):
        model.predict(X[:, 2:])
    chances = FairPostprocessor(LogisticRegression(), **SETTINGS).fit(X[:, 2:], LABEL, protected=Z)
    assert chances.strength_ == 0
    expected = chances.estimator_.predict_proba(X[:, 2:])
    np.testing.assert_array_equal(chances.predict_proba(X[:, 2:], Z), expected)


def test_where_no_strength_is_enough_it_says_so() -> None:
    with pytest.warns(UserWarning, match=r"no strength is enough: at 1, HGR-KB\(5, 5\) of z"):
        model = FairPostprocessor(Ridge(), threshold=0.01).fit(X, Y, protected=Z)
    assert model.strength_ == 1
    constant = FairPostprocessor(Ridge(), threshold=0.01).fit(X, np.ones(ROWS), protected=Z)
    assert constant.strength_ == 0


def test_what_ranks_show_and_polynomials_do_not_is_told_of() -> None:
    """Of trees beside a top-coded age."""
    rng = np.random.default_rng(0)
    age = np.minimum(rng.normal(size=900), 0.8)
    x = np.column_stack([age, rng.normal(size=(900, 2))])
    y = np.sin(2 * age) + 0.5 * x[:, 1] + 0.3 * rng.normal(size=900)
    trees = FairPostprocessor(DecisionTreeRegressor(max_depth=5, random_state=0), **SETTINGS)
    with pytest.warns(UserWarning, match=r"the moved predictions is 0\.\d+, above the threshold"):
        trees.set_params(threshold=0.2).fit(x, y, protected=age)
    moved = trees.predict(x, age)
    assert reference.kb(age, moved, 2, 2) < 0.25
    assert hgr_jax.hgr(age, moved) > 0.6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FairPostprocessor(Ridge(), **SETTINGS).fit(X, Y, protected=Z)


def test_a_category(fitted: FairPostprocessor) -> None:
    group = np.array(["young", "middle", "old"])[np.digitize(Z, [-0.7, 0.7])]
    settings = SETTINGS | {"threshold": 0.25}
    model = FairPostprocessor(Ridge(), **settings).fit(X, Y, protected=group)
    before, after = model.estimator_.predict(X), model.predict(X, group)
    assert certify(before, group, Penalty(KB(5, 2), 0.3)).value > 0.4
    assert certify(after, group, Penalty(KB(5, 2), 0.3)).value < 0.3
    for level in ("young", "middle", "old"):
        rows = np.flatnonzero(group == level)
        assert stats.spearmanr(before[rows], after[rows]).statistic > 0.999
    one_hot = np.column_stack([group == level for level in sorted(set(group))]).astype(int)
    again = FairPostprocessor(Ridge(), **settings).fit(X, Y, protected=one_hot)
    np.testing.assert_allclose(again.predict(X, one_hot), after)
    with pytest.raises(ValueError, match="z has the value\\(s\\) ancient, which the training rows"):
        model.predict(X[:2], ["old", "ancient"])


def test_a_classifier_of_two_classes() -> None:
    model = FairPostprocessor(LogisticRegression(), **SETTINGS).fit(X, LABEL, protected=Z)
    assert is_classifier(model)
    assert 0 < model.strength_ < 1
    found, before = model.predict_proba(X, Z), model.estimator_.predict_proba(X)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert ((found >= 0) & (found <= 1)).all()
    assert reference.kb(Z, before[:, 1], 2, 2) > 0.55
    assert reference.kb(Z, found[:, 1], 2, 2) < 0.5
    np.testing.assert_array_equal(model.predict(X, Z), np.where(found[:, 1] > 0.5, "yes", "no"))
    assert model.score(X, LABEL, Z) == np.mean(model.predict(X, Z) == LABEL) > 0.6
    folds = StratifiedKFold(5, shuffle=True, random_state=_seed(0))
    p = cross_val_predict(LogisticRegression(), X, LABEL, cv=folds, method="predict_proba")
    expected = transported((Z, p[:, 1]), Z[NEW], before[NEW, 1], round(np.sqrt(ROWS)))
    mixture = (1 - model.strength_) * before[NEW, 1] + model.strength_ * expected
    np.testing.assert_allclose(found[NEW, 1], mixture, atol=1e-5)


def _seed(state: int) -> int:
    return int(np.random.RandomState(state).randint(np.iinfo(np.int32).max))


def test_a_column_by_name(fitted: FairPostprocessor) -> None:
    named = FairPostprocessor(Ridge(), **SETTINGS).fit(FRAME, Y, protected="age")
    expected = fitted.predict(X, Z)
    np.testing.assert_allclose(named.predict(FRAME), expected, atol=1e-9)
    np.testing.assert_allclose(named.predict(FRAME, Z), expected, atol=1e-9)
    assert list(named.feature_names_in_) == list(FRAME.columns)
    assert fitted.n_features_in_ == 4
    with pytest.raises(ValueError, match="feature names should match"):
        named.predict(FRAME.drop(columns="age"))


def population(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    z = rng.normal(size=rows)
    x = np.column_stack([z + rng.normal(size=rows), rng.normal(size=(rows, 2))])
    return x, z + x.sum(axis=1), z


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return population(np.random.default_rng(3), 900)


def test_a_guarantee_is_of_the_last_strength_that_was_accepted(table: Any) -> None:
    x, y, z = table
    model = FairPostprocessor(LinearRegression(), guarantee=0.9, **SETTINGS).fit(x, y, protected=z)
    found = model.certificate_
    assert found.holds
    assert (found.threshold, found.level, found.rows) == (0.4, 0.9, 360)
    *accepted, last = found.candidates.accepted
    assert all(accepted)
    assert not last
    strengths = found.candidates.setting
    np.testing.assert_allclose(strengths, 1 - np.arange(len(strengths)) / 40)
    assert model.strength_ == strengths.iloc[-2]
    # The certificate is that of `certify` on the rows held back.
    train, held = train_test_split(np.arange(900), test_size=0.4, random_state=_seed(0))
    again = certify(model.predict(x[held], z[held]), z[held], Penalty(KB(2, 2), 0.4), 0.9)
    assert again.bound == pytest.approx(found.bound, abs=1e-5)
    # They have no part in the model: neither their targets nor their attributes are seen.
    other_y, other_z = y.copy(), z.copy()
    other_y[held] = 0
    other_z[held] += 0.01
    other = FairPostprocessor(LinearRegression(), guarantee=0.9, **SETTINGS)
    other.fit(x, other_y, protected=other_z)
    np.testing.assert_array_equal(other.estimator_.coef_, model.estimator_.coef_)
    np.testing.assert_array_equal(other.transport_.p, model.transport_.p)
    np.testing.assert_allclose(model.estimator_.coef_, [1, 1, 1], atol=1.5)
    assert len(model.transport_.p) == len(train)
    model.set_params(guarantee=None).fit(x, y, protected=z)
    assert not hasattr(model, "certificate_")  # of an earlier fit


def test_a_heavy_tail_has_no_guarantee() -> None:
    """A few rows of a tail make a dependence that the others do not show."""
    rng = np.random.default_rng(0)
    z = np.exp(rng.normal(size=2000))
    x = rng.normal(size=(2000, 3)) + np.stack([np.log(z), z / 2, 0 * z], axis=1)
    model = FairPostprocessor(LinearRegression(), threshold=0.4, guarantee=0.95, random_state=0)
    with pytest.raises(NoSolutionFound, match="tails of the attribute are too heavy"):
        model.fit(x, x.sum(axis=1), protected=z)
    model.set_params(penalty="hgr").fit(x, x.sum(axis=1), protected=z)
    assert model.certificate_.holds


def test_guarantees_hold_in_the_population() -> None:
    """Of 25 data sets at 90%."""
    fresh_x, _, fresh_z = population(np.random.default_rng(4), 6000)
    values = []
    for seed in range(25):
        x, y, z = population(np.random.default_rng([5, seed]), 900)
        model = FairPostprocessor(LinearRegression(), guarantee=0.9, **SETTINGS)
        model.set_params(random_state=seed).fit(x, y, protected=z)
        values.append(reference.kb(fresh_z, model.predict(fresh_x, fresh_z), 2, 2))
    failed = np.mean(np.array(values) > 0.4)
    assert failed <= 0.22  # two standard deviations above a tenth
    assert 0.25 < np.mean(values) < 0.4  # no more is given up than the margin


LEARNED = 120
DRAWN = np.random.default_rng(0)
P = DRAWN.normal(size=LEARNED)
ATTRIBUTES = {
    "continuous": DRAWN.normal(size=LEARNED),
    "heavy tail": DRAWN.standard_cauchy(size=LEARNED),
    "few values": DRAWN.integers(0, 6, LEARNED).astype(float),
    "some ties": DRAWN.integers(-40, 40, LEARNED).astype(float),
    "constant": np.ones(LEARNED),
}
NEW_P = np.concatenate([DRAWN.normal(size=40), P[:10], [-9.0, 9.0]])


@pytest.mark.parametrize("k", [1, 5, 11, LEARNED - 1, LEARNED])
@pytest.mark.parametrize("kind", ATTRIBUTES)
def test_ranks_and_quantiles_row_by_row(kind: str, k: int) -> None:
    z = ATTRIBUTES[kind]
    # Also between two rows, at them, and beyond all.
    new = np.concatenate([z[:30], z[:10] + 0.5, np.linspace(-50, 50, 12)])
    found = Transport.learn(z, P, k)
    expected = [conditional_rank(a, b, (z, P), k) for a, b in zip(new, NEW_P, strict=True)]
    np.testing.assert_allclose(found.rank(new, NEW_P), expected, rtol=1e-6)
    moved = transported((z, P), new, NEW_P, k)
    np.testing.assert_allclose(found(new, NEW_P), moved, rtol=1e-6, atol=1e-6)


def test_predictions_that_are_a_line_of_the_attribute_become_one_value() -> None:
    z, new = ATTRIBUTES["continuous"], np.linspace(-1, 1, 50)
    p = 0.1 + z / 3
    assert np.ptp(p) > 1
    assert np.ptp(Transport.learn(z, p)(new, 0.1 + new / 3)) < 1e-6


values = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(
    rows=st.lists(st.tuples(values, values), min_size=1, max_size=30),
    z=values,
    p=st.lists(values, min_size=2, max_size=20),
    k=st.integers(1, 40),
    strength=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_the_order_of_predictions_is_kept(
    rows: list[tuple[float, float]], z: float, p: list[float], k: int, strength: float
) -> None:
    learned = Transport.learn(*np.array(rows).T, k)
    ordered = np.sort(np.array([*p, *(each for _, each in rows)]))
    moved = mixed(ordered, learned(np.full(len(ordered), z), ordered), strength)
    assert np.isfinite(moved).all()
    assert (np.diff(moved) >= -1e-9).all()  # as far as numbers of 1e6 have digits
    if strength == 0:
        np.testing.assert_array_equal(moved, ordered)
    if strength == 1:
        lowest, highest = np.min(learned.p), np.max(learned.p)
        assert ((lowest - 1e-9 <= moved) & (moved <= highest + 1e-9)).all()
