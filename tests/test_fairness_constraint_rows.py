"""Penalties that are measured on rows of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from fairness_support import ADAM, DUAL, KB, parameters, some_data
from flax import nnx

from bench import reference
from hgr_jax.fairness import MLP, CheckpointError, FairMLPRegressor, FairTrainer, Penalty
from hgr_jax.fairness.attributes import make_constraint
from hgr_jax.fairness.steps import Rows, TrainState, objective

X, Y, Z = some_data()
OTHERS = some_data(seed=1)
CONSTRAINT = OTHERS[0], OTHERS[2]


def trainer(*penalties: Penalty) -> FairTrainer:
    network = MLP(3, (8,), rngs=nnx.Rngs(0))
    return FairTrainer(network, penalties=penalties or (KB,), optimizer=ADAM, dual=DUAL)


def fitted(steps: int = 10, constraint: Any = CONSTRAINT, **options: Any) -> FairTrainer:
    made = trainer()
    made.fit(X, Y, Z, steps=steps, constraint_rows=constraint, evaluate_every=10, **options)
    return made


def kb_of(made: FairTrainer, x: np.ndarray, z: np.ndarray) -> float:
    return reference.kb(z, np.asarray(made.predict(x)), 2, 2)


@pytest.fixture(scope="module")
def ten() -> FairTrainer:
    return fitted()


def losses(made: FairTrainer, rows: Rows, constraint: Rows | None, at: Any) -> Any:
    assert made._program is not None
    assert isinstance(made.state, TrainState)
    state = jax.tree.map(lambda leaf: leaf, made.state)
    return objective(made._program, made._suited, state, rows, constraint, at)


def test_the_larger_of_both_values_is_penalised(ten: FairTrainer) -> None:
    assert ten.state is not None
    rows = ten._rows(X, Y, Z, learn=False)
    others = make_constraint(CONSTRAINT, rows, ten.penalties, ten.attributes)
    at = ten.state.parameters
    own, there = kb_of(ten, X, Z), kb_of(ten, *CONSTRAINT)
    for first, second, value in ((rows, others, max(own, there)), (others, rows, max(own, there))):
        assert first is not None
        _, (_, _, values, violations, *_) = losses(ten, first, second, at)
        np.testing.assert_allclose(values, [value], atol=1e-5)
        np.testing.assert_allclose(violations, [value - 0.3], atol=1e-5)


def test_the_gradient_is_that_of_the_training_rows(ten: FairTrainer) -> None:
    """Of the penalty, while it acts; the level of the other rows only decides whether it does."""
    assert ten.state is not None
    rows = ten._rows(X, Y, Z, learn=False)
    others = make_constraint(CONSTRAINT, rows, ten.penalties, ten.attributes)

    def penalised(at: Any, constraint: Rows | None) -> Any:
        loss, (_, task_loss, *_) = losses(ten, rows, constraint, at)
        return loss - task_loss

    at = ten.state.parameters
    found = jax.grad(penalised)(at, others)
    expected = jax.grad(penalised)(at, None)
    chex.assert_trees_all_close(found, expected, atol=1e-6)
    assert any(bool(jnp.any(leaf != 0)) for leaf in jax.tree.leaves(found))


def test_other_rows_bound_what_thirty_rows_hide() -> None:
    """A wide network that fits 30 rows keeps the threshold on them, and is far above on others."""
    x, y, z = some_data(seed=2, rows=30)
    others, _, other_z = some_data(seed=3, rows=400)
    found = []
    for constraint in (None, (others, other_z)):
        network = MLP(3, (64,), rngs=nnx.Rngs(0))
        made = FairTrainer(network, penalties=KB, optimizer=optax.adam(2e-2), dual=DUAL)
        made.fit(x, y, z, steps=400, constraint_rows=constraint, evaluate_every=400)
        values = made.history.steps["value_z"]
        found.append((kb_of(made, x, z), kb_of(made, others, other_z), values[-1]))
    (own, above, last), (less, below, of_others) = found
    assert own == pytest.approx(0.3, abs=0.05)
    assert last == pytest.approx(own, abs=0.05)
    assert above > 0.5
    assert of_others == pytest.approx(below, abs=0.05)
    assert below < above - 0.1
    assert less < own


def test_it_goes_on_from_a_checkpoint_of_the_same_rows_only(
    ten: FairTrainer, tmp_path: Path
) -> None:
    fitted(steps=10, checkpoint=tmp_path)
    chex.assert_trees_all_equal(parameters(fitted(steps=10, checkpoint=tmp_path)), parameters(ten))
    with pytest.raises(CheckpointError, match="constraint rows"):
        fitted(steps=20, constraint=(X, Z), checkpoint=tmp_path)


@pytest.mark.parametrize(
    ("penalty", "rows", "message"),
    [
        (KB, X, r"constraint_rows must be \(x, protected\)"),
        (KB, (X, Z, Y), r"constraint_rows must be \(x, protected\)"),
        (KB, (X, Z[:5]), "one value for each of the 120 rows"),
        (KB, (X[:, :2], Z), "the 3 inputs of the training rows"),
        (Penalty("kb", 0.3, h=2, k=2, given=2), CONSTRAINT, "without given and memory"),
        (Penalty("kb", 0.3, h=2, k=2, memory=2), CONSTRAINT, "without given and memory"),
    ],
)
def test_refusals(penalty: Penalty, rows: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        trainer(penalty).fit(X, Y, Z, steps=10, constraint_rows=rows)


def test_estimators_keep_a_share_of_the_rows_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"hidden_layer_sizes": (8,), "h": 2, "k": 2, "steps": 60}
    model = FairMLPRegressor(**settings, constraint_fraction=0.25, random_state=0)
    seen: list[Any] = []

    def fit(made: FairTrainer, x: Any, y: Any, z: Any, **options: Any) -> Any:
        seen.extend((z, options["constraint_rows"][1]))
        return of_trainer(made, x, y, z, **options)

    of_trainer = FairTrainer.fit
    monkeypatch.setattr(FairTrainer, "fit", fit)
    model.fit(X, Y, protected=Z)
    trained_on, others = seen
    assert (len(trained_on), len(others)) == (90, 30)
    np.testing.assert_array_equal(np.sort([*trained_on, *others]), np.sort(Z))
    with pytest.raises(ValueError, match="constraint_fraction must be between 0 and 1"):
        model.set_params(constraint_fraction=1.0).fit(X, Y, protected=Z)
