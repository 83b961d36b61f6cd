"""Nothing is left unconstrained, mixed up or lost without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hgr_jax.fairness import (
    MLP,
    CheckpointError,
    FairMLPClassifier,
    FairMLPRegressor,
    FairTrainer,
    Penalty,
    report,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Z = X[:, 0]
Y = Z**2 + X[:, 1]
HELD = (X[:60] + 0.1, Y[:60], Z[:60])


def trainer(penalty: Any = (), seed: int = 0, **settings: Any) -> FairTrainer:
    return FairTrainer(MLP(3, (8,), rngs=nnx.Rngs(seed)), penalties=penalty, **settings)


@pytest.mark.parametrize(
    ("settings", "batch"),
    [
        ({}, 10),
        ({"bias_corrected": True}, 10),
        ({"measure": "sk"}, 6),
        ({"given": 10}, 60),
        ({"h": 20, "k": 60}, 80),
    ],
)
def test_batches_too_small_to_constrain(settings: dict[str, Any], batch: int) -> None:
    with pytest.raises(ValueError, match="constrains nothing"):
        trainer(Penalty(**settings), batch_size=batch).fit(X, Y, Z, steps=1)


def test_an_estimator_says_so_too() -> None:
    with pytest.raises(ValueError, match="constrains nothing"):
        FairMLPRegressor(batch_size=10).fit(X, Y, protected=Z)


@pytest.mark.parametrize("value", [np.array(-1.0), np.float32(3.0), np.array([0.2, 0.3])])
def test_thresholds_in_arrays(value: Any) -> None:
    with pytest.raises(ValueError, match=r"threshold must be in \(0, 1\]"):
        Penalty("kb", value)
    with pytest.raises(ValueError, match=r"threshold must be in \(0, 1\]"):
        trainer(Penalty("kb", jnp.asarray(value)))


def test_no_threshold() -> None:
    with pytest.raises(TypeError, match="threshold must be a number"):
        trainer(Penalty("kb", None))


@pytest.mark.parametrize("rows", [70, 170])
def test_lengths_with_early_stopping(rows: int) -> None:
    with pytest.raises(ValueError, match="one value for each of the 120 rows"):
        FairMLPRegressor(early_stopping=True).fit(X, Y, protected=np.resize(Z, rows))


def test_a_constant_input_is_not_blown_up() -> None:
    x = np.column_stack([X, np.full(len(X), 0.1)])
    model = FairMLPRegressor(penalty=None, steps=5, random_state=0).fit(x, Y)
    assert model._scale[-1] == 1
    x[:, -1] = 0.11
    assert np.abs(model.predict(x)).max() < 100


def test_numbers_too_large_for_the_network() -> None:
    model = FairMLPRegressor(penalty=None, steps=5, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="too large for float32"):
        model.predict(X * 1e300)


def test_labels_that_a_model_does_not_know() -> None:
    model = FairMLPClassifier(penalty=None, steps=5, random_state=0).fit(X, (Y > 0).astype(int))
    with pytest.raises(ValueError, match=r"label\(s\) 7, which the model does not know"):
        report(model, X, np.where(Y > 2, 7, 0), Z)


def test_both_models_have_the_same_score() -> None:
    label = (Y > 0).astype(float)
    found = report(np.clip(Y, 0, 1), None, label, Z, baseline=Y)
    assert found.score_name == "AUC"
    assert found.figures["before"]["score"] == 1


@pytest.mark.parametrize("measure", ["kde", "pearson", "ace"])
def test_measures_that_take_no_category(measure: str) -> None:
    with pytest.raises(ValueError, match=f"z is categorical, which '{measure}' does not take"):
        trainer(Penalty(measure)).fit(X, Y, np.where(Z > 0, "a", "b"), steps=1)


def test_two_attributes_are_not_one_category() -> None:
    with pytest.raises(ValueError, match="must be one-hot"):
        trainer(Penalty()).fit(X, Y, X[:, :2], steps=1)


def leaves(found: FairTrainer) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(found.state)]


def test_training_goes_on_after_early_stopping(tmp_path: Path) -> None:
    options: dict[str, Any] = {"validation": HELD, "patience": 50, "evaluate_every": 5}
    whole = trainer(Penalty())
    whole.fit(X, Y, Z, steps=20, **options)
    parts = trainer(Penalty())
    parts.fit(X, Y, Z, steps=10, **options)
    parts.save(tmp_path / "kept")
    parts.fit(X, Y, Z, steps=20, **options)
    again = trainer(Penalty()).resume(tmp_path / "kept", X, Y, Z)
    again.fit(X, Y, Z, steps=20, **options)
    for one, two, three in zip(leaves(whole), leaves(parts), leaves(again), strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, three)


def test_other_validation_rows_between_fits() -> None:
    found = trainer(Penalty())
    found.fit(X, Y, Z, steps=5, validation=HELD)
    found.fit(X, Y, Z, steps=10)
    history = found.fit(X, Y, Z, steps=15, validation=(X, Y, Z))
    score = history.evaluations["score_validation"]
    assert np.isnan(score).tolist() == [False, True, False]
    assert len(history.evaluations["step"]) == 3


def test_a_checkpoint_of_other_initial_weights(tmp_path: Path) -> None:
    trainer(Penalty()).fit(X, Y, Z, steps=5, checkpoint=tmp_path / "kept")
    with pytest.raises(CheckpointError, match="differs in network"):
        trainer(Penalty(), seed=1).fit(X, Y, Z, steps=5, checkpoint=tmp_path / "kept")


def test_saving_where_something_is(tmp_path: Path) -> None:
    found = trainer(Penalty())
    found.fit(X, Y, Z, steps=10)
    found.save(tmp_path / "kept")
    found.save(tmp_path / "kept")
    earlier = trainer(Penalty())
    earlier.fit(X, Y, Z, steps=5)
    earlier.save(tmp_path / "kept")
    resumed = trainer(Penalty()).resume(tmp_path / "kept", X, Y, Z)
    for one, two in zip(leaves(earlier), leaves(resumed), strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_failed_resume_changes_nothing(tmp_path: Path) -> None:
    found = trainer(Penalty())
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        found.resume(tmp_path / "none", X, Y, Z)
    with pytest.raises(ValueError, match="call fit first"):
        found.predict(X)
    found.fit(X, Y, Z, steps=5)
    before = leaves(found)
    with pytest.raises(CheckpointError):
        found.resume(tmp_path / "none", X, Y, Z)
    for one, two in zip(before, leaves(found), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    "about", ["[1]", "{}", '{"class": "FairMLPRegressor", "parameters": {"x": 1}}']
)
def test_files_that_say_something_else(about: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "model.npz", about=np.array(about))
    with pytest.raises(ValueError, match=r"not a saved model|has parameters"):
        FairMLPRegressor.load(tmp_path / "model.npz")


def test_files_that_are_not_whole(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    FairMLPRegressor(penalty=None, steps=np.int64(5), random_state=0).fit(X, Y).save(path)
    assert FairMLPRegressor.load(path).steps == 5
    with np.load(path) as file:
        arrays = dict(file)
    for name, message in (("_scale", "it lacks _scale"), ("coefs_.0", "do not fit together")):
        np.savez(path, **{n: array for n, array in arrays.items() if n != name})
        with pytest.raises(ValueError, match=message):
            FairMLPRegressor.load(path)


def test_a_binary_attribute_is_not_overcorrected() -> None:
    z = (Z > 0).astype(float)
    corrected, plain = (
        trainer(Penalty(bias_corrected=True, h=h, k=2)).fit(X, Y, z, steps=2) for h in (5, 1)
    )
    np.testing.assert_array_equal(corrected.steps["value_z"], plain.steps["value_z"])


def test_a_rare_class_that_no_batch_could_constrain() -> None:
    label = (np.arange(120) < 6).astype(float)
    penalty = Penalty(given="classes", h=2, k=2)
    with pytest.raises(ValueError, match=r"about 3 row\(s\) of y=1; with so few"):
        trainer(penalty, task="log_loss", batch_size=60).fit(X, label, Z, steps=1)
