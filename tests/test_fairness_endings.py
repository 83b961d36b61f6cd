"""How a training ended: judged in the measure that was constrained, with cause and remedy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from fairness_support import some_data, trained
from sklearn.exceptions import ConvergenceWarning

import hgr_jax
from hgr_jax.fairness import (
    HGR,
    KB,
    SK,
    FairMLPClassifier,
    FairMLPRegressor,
    Neural,
    Penalty,
    report,
)

ROWS = 600
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 4))
Z = X[:, 0] + 0.5 * RNG.normal(size=ROWS)
Y = X[:, 0] ** 2 + X[:, 0] + X[:, 1] + X[:, 2] + 0.3 * RNG.normal(size=ROWS)
LABEL = (np.median(Y) < Y).astype(int)
FAST = {"multiplier_learning_rate": 2e-2, "steps": 400, "random_state": 0}


def fitted(model: Any, y: Any = Y, x: Any = X, z: Any = Z) -> tuple[Any, list[str]]:
    """A model, and what its training warned of."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model.fit(x, y, protected=z)
    assert all(issubclass(warning.category, ConvergenceWarning) for warning in heard)
    return model, [str(warning.message) for warning in heard]


def test_what_was_constrained_is_judged_on_all_training_rows() -> None:
    options: Any = FAST | {"batch_size": 400, "steps": 100}
    model, _ = fitted(FairMLPRegressor(penalty=SK(3), threshold=0.3, **options))
    value = float(hgr_jax.sk(Z, model.predict(X), 3))
    history = model.history_
    assert history.last["dependence_train_z"] == pytest.approx(value, abs=2e-3)
    assert history.kept == {"z": value <= 0.31}
    found = report(model, X, Y, Z).iloc[0]
    assert found[history.measures["z"]] == pytest.approx(value, abs=2e-3)
    assert found["kept"] == (value <= 0.3)


def test_a_threshold_that_is_kept_is_no_reason_to_warn() -> None:
    model, said = fitted(FairMLPRegressor(penalty=KB(2, 2), threshold=0.3, **FAST))
    assert (model.history_.kept, said) == ({"z": True}, [])
    free, said = fitted(FairMLPRegressor(penalty=None, steps=5, random_state=0))
    assert (free.history_.kept, said) == ({}, [])


@pytest.mark.parametrize("kind", [FairMLPRegressor, FairMLPClassifier])
def test_too_few_steps(kind: Any) -> None:
    y = Y if kind is FairMLPRegressor else LABEL
    options: Any = {"penalty": KB(2, 2), "threshold": 0.3, "random_state": 0}
    slow = {"steps": 60, "learning_rate": 1e-2, "multiplier_learning_rate": 1e-4}
    model, (said,) = fitted(kind(**slow, **options), y)
    assert model.history_.kept == {"z": False}
    value = model.history_.last["dependence_train_z"]
    assert f"ends above its threshold: HGR-KB(2, 2) of z is {value:.3g} on the training" in said
    assert said.endswith(
        "after 60 steps: more steps, or a larger learning rate of the multiplier, usually help"
    )
    assert "learning rate of the multiplier" in said
    more = options | FAST | {"steps": 800}
    _, said = fitted(kind(**more), y)
    assert said == []


def test_batches_that_chance_keeps_above_the_threshold() -> None:
    options: Any = {"penalty": KB(5, 5), "threshold": 0.2, "batch_size": 32, "steps": 200}
    model, (said,) = fitted(FairMLPRegressor(random_state=0, **options))
    assert "batches of 32 rows give 0." in said
    assert said.endswith(
        "larger batches, more rows, lower degrees or a higher threshold are needed"
    )
    chance = float(said.partition("batches of 32 rows give ")[2].split()[0])
    rng = np.random.default_rng(1)
    p = model.predict(X)
    drawn = [rng.choice(ROWS, 32, replace=False) for _ in range(40)]
    expected = np.mean([hgr_jax.kb(rng.permutation(Z[rows]), p[rows]) for rows in drawn])
    assert chance == pytest.approx(float(expected), abs=0.08)
    large, said = fitted(FairMLPRegressor(**options | FAST | {"batch_size": None}))
    assert (large.history_.kept, said) == ({"z": True}, [])


def test_batches_that_show_less_than_all_rows() -> None:
    """HGR of few rows is low: what chance adds is taken away from it."""
    options: Any = {"penalty": HGR(), "threshold": 0.15, "batch_size": 64, "random_state": 0}
    model = FairMLPRegressor(steps=400, multiplier_learning_rate=1e-2, **options)
    model, (said,) = fitted(model)
    assert model.history_.last["dependence_train_z"] > 0.16
    seen = np.mean(model.history_.steps["value_z"][-100:])
    assert seen < 0.14
    assert said.endswith(f"batches of 64 rows show {seen:.3g} on average: larger ones are needed")


def test_a_threshold_that_the_rows_cannot_show() -> None:
    rows = slice(0, 60)
    options: Any = {"penalty": KB(5, 5), "threshold": 0.1, "steps": 60, "random_state": 0}
    _, (said,) = fitted(FairMLPRegressor(**options), Y[rows], X[rows], Z[rows])
    assert "these 60 rows give 0." in said
    assert said.endswith("more rows, lower degrees or a higher threshold are needed")


def test_a_score_that_is_that_of_a_constant() -> None:
    """Whose predictions break no threshold, and are worth nothing."""
    options: Any = FAST | {"penalty": KB(1, 1), "threshold": 0.05, "steps": 1500}
    target = Z + 0.01 * RNG.normal(size=ROWS)
    model, (said,) = fitted(FairMLPRegressor(**options), target, Z[:, None])
    assert model.history_.kept == {"z": True}
    assert "the network predicts hardly better than a constant: its loss is" in said
    assert model.score(Z[:, None], target) < 0.03


def test_a_trainer_of_ones_own_warns_too() -> None:
    with pytest.warns(UserWarning, match=r"ends above its threshold: Neural\(steps=20\) of z"):
        trainer = trained(Penalty(Neural(20), 0.1), steps=5)
    assert trainer.history.kept == {"z": False}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = trained(Penalty(KB(2, 2), 0.9), data=some_data(), steps=5)
    assert kept.history.kept == {"z": True}
