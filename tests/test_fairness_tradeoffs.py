"""Frontiers of models of several kinds, and model cards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from hgr_jax import kb
from hgr_jax.fairness import (
    KB,
    FairMLPClassifier,
    FairMLPRegressor,
    FairPostprocessor,
    NoSolutionFound,
    Penalty,
    frontier,
    model_card,
    report,
)

ROWS = 300
RNG = np.random.default_rng(1)
X = pd.DataFrame({"age": RNG.normal(size=ROWS), "sex": RNG.choice(["f", "m"], ROWS)})
X["skill"] = RNG.normal(size=ROWS)
Y = X.age + X.skill + (X.sex == "m")
LINEAR = {"linear": FairPostprocessor(LinearRegression(), random_state=0)}


def test_a_frontier_measures_models_on_rows_held_out() -> None:
    numbers = X.assign(sex=(X.sex == "m") * 1.0).to_numpy()
    train, test = slice(200), slice(200, None)
    found = frontier(
        *(numbers[train], Y[:200].to_numpy(), numbers[train, 0]),
        held_out=(numbers[test], Y[200:].to_numpy(), numbers[test, 0]),
        thresholds=(0.2, 1.0),
        penalty=KB(2, 3),
        models=LINEAR,
    )
    assert (found.rows, found.measure, found.score_name) == (100, "HGR-KB(2, 3)", "R2")
    fair, free = found.trade_offs
    model = LinearRegression().fit(numbers[train], Y[:200])
    expected = float(kb(numbers[test, 0], model.predict(numbers[test]), 2, 3))
    assert (free.threshold, free.model) == (1.0, "linear")
    assert free.dependence == pytest.approx(expected, abs=1e-5)
    assert free.score == pytest.approx(model.score(numbers[test], Y[200:]), abs=1e-6)
    assert fair.dependence < free.dependence
    assert fair.best
    assert free.best
    lines = str(found).splitlines()
    assert lines[0].split() == ["model", "threshold", "HGR-KB(2,", "3)", "R2", "not", "dominated"]
    assert len(lines) == len(found.to_frame()) + 1 == 3
    assert "<td>linear</td>" in found._repr_html_()
    assert repr(found).startswith("Frontier, 100 rows held out\n")
    axes = found.plot().axes[0]
    assert axes.get_ylabel() == "R2"
    assert "HGR-KB(2, 3) of z" in axes.get_xlabel()


def test_a_dominated_model_is_not_among_the_best() -> None:
    worse = {"half": FairPostprocessor(LinearRegression(), random_state=0, cv=2)} | LINEAR
    found = frontier(X[["age", "skill"]], Y, "age", thresholds=(1.0,), models=worse)
    scores = [each.score for each in found.trade_offs]
    assert scores[0] == scores[1]
    assert all(each.best for each in found.trade_offs)
    names = {"noise": FairMLPRegressor((2,), steps=1, random_state=0), **LINEAR}
    options: dict[str, Any] = {"models": names, "random_state": 3, "held_out": 0.5}
    numbers = X.assign(sex=(X.sex == "m") * 1.0)  # these models get the table as it is
    found = frontier(numbers, Y, ["age", "sex"], thresholds=(1.0,), **options)
    assert found.rows == ROWS // 2
    noise, linear = found.trade_offs
    assert linear.score > noise.score
    assert found.names == ("age", "sex")
    assert noise.best == (noise.dependence < linear.dependence)


def test_default_models_of_a_classification(capsys: pytest.CaptureFixture[str]) -> None:
    label = np.where(Y.median() < Y, "high", "low")
    options: dict[str, Any] = {"thresholds": (0.4,), "penalty": KB(1, 2), "progress": True}
    found = frontier(X, label, "sex", **options)
    assert [each.model for each in found.trade_offs] == [
        *("network", "linear model, transported", "boosted trees, transported")
    ]
    assert found.score_name == "AUC"
    assert "3/3" in capsys.readouterr().err
    again = frontier(X, label, "sex", **options | {"random_state": 5})
    assert again.trade_offs != found.trade_offs


def test_a_card_says_what_a_model_is() -> None:
    penalty = Penalty(KB(2, 2), 0.9, name="age")
    model = FairMLPRegressor((4, 3), penalty=penalty, steps=5, random_state=0, guarantee=0.9)
    model.fit(X, Y, "age", sample_weight=None)
    held = slice(0, 100)
    found = report(model, X[held], Y[held], X.age[held])
    card = model_card(model, found, title="Pay | <b>")
    assert card.startswith("# Pay \\| \\<b\\>\n\n## Model\n\n- Class: FairMLPRegressor of hgr_jax")
    for text in (
        "- Hidden layers: (4, 3)",
        "- Training steps: ",
        "- Training rows: 180",
        "- Rows held back for the certificate: 120",
        "- Observation weights: no",
        "- sex = f",
        "- age: HGR-KB(2, 2) at most 0.9; HGR-KB of the training rows",
        "- HGR-KB(2, 2) of age and the prediction",
        "| model | R2 | kb |",
        "A small HGR is not fairness",
    ):
        assert text in card, text
    several = report(model, X, Y, ["age", "sex"])
    assert "Protected attribute age x sex, 300 rows" in model_card(model, several)
    plain = FairMLPClassifier((4,), penalty=None, steps=2).fit(
        X[["age", "skill"]].to_numpy(), Y > 0
    )
    card = model_card(plain)
    assert "2 columns of an array without names" in card
    assert "## Constraints\n\nNone." in card
    assert "None: nothing is promised of new rows." in card
    with pytest.raises(NotFittedError):
        model_card(FairMLPRegressor())


def test_the_safest_model_is_kept_where_none_has_the_guarantee(tmp_path: Path) -> None:
    model = FairMLPRegressor((4,), threshold=0.01, steps=10, random_state=0, guarantee=0.9)
    with pytest.raises(NoSolutionFound) as caught:
        model.fit(X, Y, "age")
    with pytest.raises(NotFittedError):
        model.predict(X)
    safest = caught.value.model
    assert safest.certificate_ is caught.value.certificate
    safest.save(tmp_path / "safest.npz")
    loaded = FairMLPRegressor.load(tmp_path / "safest.npz")
    np.testing.assert_array_equal(loaded.predict(X), safest.predict(X))
