"""What few rows cannot say: rare predictions, rare levels, huge values, trainings too short."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fairness_support import some_data, trained
from flax import nnx
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression

import hgr_jax
from hgr_jax.cli.main import main
from hgr_jax.fairness import (
    MLP,
    Candidate,
    FairMLPRegressor,
    FairPostprocessor,
    FairTrainer,
    NoSolutionFound,
    Penalty,
    certify,
    fit_certified,
    report,
)
from hgr_jax.fairness.attributes import standardisation

ROWS = 300
Z = np.random.default_rng(0).normal(size=ROWS)
X, Y, _ = some_data(rows=ROWS)


@pytest.mark.parametrize("events", [1, 9, 11])
def test_rare_predictions_are_bounded_by_enough_of_them(events: int) -> None:
    found = certify((np.arange(ROWS) < events).astype(float), Z, 0.6)
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


def test_a_certificate_says_how_it_was_made() -> None:
    found = certify(Y + X[:, 1], Z, 0.9, 0.8)
    assert found.level == 0.8
    assert found.method == "normal law of HGR-KB less the bias of one side's functions"
    tried = dataclasses.replace(found, candidates=(Candidate(0.1, 5, 0.1, 0.2, True),))
    assert tried.method.endswith("of models in an order fixed before")


def test_of_one_row_there_is_no_certificate() -> None:
    def attempt(held: slice, z: np.ndarray) -> None:
        trainer = FairTrainer(MLP(3, (4,), rngs=nnx.Rngs(0)), penalties=Penalty("kb", 0.8, h=2))
        fit_certified(trainer, X, Y / 5, Z, held_out=(X[held], z[held]), steps=19)

    with pytest.raises(ValueError, match=r"z must vary.* in all 1 rows held back"):
        attempt(slice(1), Z)
    with pytest.raises(ValueError, match=r"z must vary.* there are no rows held back"):
        attempt(slice(0), Z)
    with pytest.raises(ValueError, match="z must vary"):
        attempt(slice(50), np.ones(ROWS))


@pytest.mark.parametrize(
    "settings",
    [
        {"guarantee": 0.9, "threshold": 0.9},
        {"early_stopping": True, "validation_fraction": 0.5},
        {"constraint_fraction": 0.5},
    ],
)
def test_a_rare_level_stays_among_the_training_rows(settings: dict[str, Any]) -> None:
    level = np.where(Z > 0, "many", "others").astype(object)
    level[7] = "one of a kind"
    for seed in range(4):
        model = FairMLPRegressor((4,), k=2, steps=20, random_state=seed, **settings)
        model.fit(X, Y, protected=level)


def test_a_category_of_many_levels_is_reported(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = np.array([f"group {i % 12}" for i in range(ROWS)])
    table = pd.DataFrame({"y": Y, "group": names, "x": X[:, 0]})
    table.to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.chdir(tmp_path)
    options = ("fair", "t.csv", "--target", "y", "--protected", "group", "--steps", "20")
    assert main([*options, "--hidden", "4", "--threshold", "0.5"]) == 0
    assert "validation rows" in capsys.readouterr().out
    one_hot = np.eye(12)[np.arange(ROWS) % 12]
    figures = report(LinearRegression().fit(X, Y), X, Y, one_hot).figures["model"]
    assert figures["sk"] == pytest.approx(figures["kb"], rel=1e-6)


def test_too_few_constraint_rows_are_refused() -> None:
    with pytest.raises(ValueError, match=r"of 6 constraint rows the measure is 1 .* At least 12"):
        FairMLPRegressor((4,), steps=20, constraint_fraction=0.02).fit(X, Y, protected=Z)
    trainer = trained(Penalty("kb", 0.3, h=2, k=2), data=(X, Y, Z))
    with pytest.raises(ValueError, match=r"z must vary.* in all 300 constraint rows"):
        trainer.fit(X, Y, Z, steps=20, constraint_rows=(X, np.ones(ROWS)))


def test_huge_values_have_a_scale() -> None:
    x = np.array([[1e300, 1.0], [-1e300, 2.0], [5e299, 3.0]])
    center, scale = standardisation(x)
    np.testing.assert_allclose(scale, [np.std(x[:, 0] / 1e300) * 1e300, np.std(x[:, 1])])
    np.testing.assert_allclose(((x - center) / scale).std(axis=0), 1)


def test_a_training_that_ends_above_its_threshold_warns() -> None:
    model = FairMLPRegressor((8,), h=2, k=2, threshold=0.1, steps=20, random_state=0)
    with pytest.warns(
        ConvergenceWarning, match=r"above its threshold: 0\.\d+ of z, .* 0\.1\. More"
    ):
        model.fit(X, Y, protected=X[:, 0])
    assert model.history_.steps["value_z"][-1] > 0.13


def test_a_postprocessor_whose_fit_fails_has_no_model_of_an_earlier_one() -> None:
    model = FairPostprocessor(LinearRegression(), threshold=0.9, guarantee=0.9, random_state=0)
    model.fit(X, Y, protected=Z)
    with pytest.raises(NoSolutionFound):
        model.set_params(threshold=0.01, guarantee=0.99).fit(X, Y, protected=Z)
    with pytest.raises(NotFittedError):
        model.predict(X, Z)


def test_several_attributes_in_a_data_frame() -> None:
    penalties = [Penalty("kb", 0.3, h=2, k=2, name=name) for name in ("a", "b")]
    columns = {"a": Z, "b": X[:, 1]}
    one, other = (
        trained(*penalties, data=(X, Y, given)) for given in (columns, pd.DataFrame(columns))
    )
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


def test_a_certified_trainer_is_taken_up_as_it_was(tmp_path: Any) -> None:
    def made() -> FairTrainer:
        return FairTrainer(MLP(3, (8,), rngs=nnx.Rngs(0)), penalties=Penalty("kb", 0.9, h=2, k=2))

    trainer, rows = made(), (X[:200], Y[:200] / 5, Z[:200])
    fit_certified(trainer, *rows, held_out=(X[200:], Z[200:]), steps=38)
    trainer.save(tmp_path)
    again = made().resume(tmp_path, *rows)
    far = 100 * X  # where the limits show
    assert trainer.limits == again.limits
    np.testing.assert_array_equal(trainer.predict(far), again.predict(far))


def test_rows_held_back_have_no_part_in_the_weights() -> None:
    def fitted(x: np.ndarray) -> FairMLPRegressor:
        model = FairMLPRegressor((4,), threshold=0.9, guarantee=0.9, k=2, h=2, random_state=0)
        return model.set_params(steps=20).fit(x, Y, protected=Z)

    model = fitted(X)
    held = 0
    for row in (3, 4, 5, 6, 7, 8):
        moved = X.copy()
        moved[row] += 5
        held += np.array_equal(fitted(moved).coefs_[0], model.coefs_[0])
    assert 1 <= held <= 5  # 40% of the rows
