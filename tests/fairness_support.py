"""Small trainings that tests of the trainer share."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from sklearn.utils.estimator_checks import estimator_checks_generator

from hgr_jax.fairness import KB, MLP, FairTrainer, LagrangianDual, Penalty
from hgr_jax.fairness.data import TrainingData

ROWS = 120
ADAM = optax.adam(1e-2)
DUAL = LagrangianDual(optax.sgd(0.3))
PENALTY = Penalty(KB(2, 2), threshold=0.3)
QUICK = Penalty("pearson", threshold=0.3)
Data = tuple[np.ndarray, np.ndarray, np.ndarray]


EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "in float32 it holds to four digits only"
}
"""scikit-learn's checks that cannot hold of networks, with reasons."""


def scikit_learn_checks(*models: Any) -> list[Any]:
    """scikit-learn's own checks of estimators, as parameters of a test."""
    ignored = (
        "ignore:no protected attribute was given",
        "ignore::sklearn.exceptions.SkipTestWarning",
    )
    marks = [pytest.mark.filterwarnings(warning) for warning in ignored]
    found = []
    for model in models:
        of = getattr(model, "estimator", model)
        expected = EXPECTED if "FairMLP" in type(model).__name__ else {}
        checks = estimator_checks_generator(model, mark="skip", expected_failed_checks=expected)
        for checked, check in checks:
            name = getattr(check, "func", check).__name__
            label = f"{type(of).__name__}-{name}"
            found.append(pytest.param(checked, check, id=label, marks=marks))
    return found


def some_data(seed: int = 0, rows: int = ROWS) -> Data:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 3)).astype(np.float32)
    z = x[:, 0] + 0.1 * rng.standard_normal(rows).astype(np.float32)
    y = x[:, 0] ** 2 + x[:, 0] + x[:, 1]
    return x, y, z


def trained(*penalties: Penalty, steps: int = 10, **options: Any) -> FairTrainer:
    """A trainer after some steps on some data; its options are those of both."""
    fit = {"evaluate_every": options.pop("evaluate_every", 10)}
    data, others = options.pop("data", some_data()), options.pop("constraint_rows", None)
    network = options.pop("network", MLP(3, (8,), rngs=nnx.Rngs(options.pop("weights", 0))))
    options = {"optimizer": ADAM, "dual": DUAL} | options
    trainer = FairTrainer(network, penalties=penalties, **options)
    if others is None:
        trainer.fit(*data, steps=steps, **fit)
    else:
        rows, constraint = (TrainingData.of(*part) for part in (data, others))
        trainer.train(rows, constraint, steps, **fit)
    return trainer


def parameters(trainer: FairTrainer) -> Any:
    return nnx.state(trainer.network, nnx.Param)


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings do all but their steps: of tests of what surrounds them."""

    def advance(trainer: FairTrainer, *_: Any) -> None:
        history = trainer.history
        values = {f"value_{name}": np.zeros(1) for name in history.penalised}
        steps = {"task_loss": np.array([np.inf])} | values
        evaluations = {"loss_train": np.zeros(1)}
        trainer.history = dataclasses.replace(history, steps=steps, evaluations=evaluations)

    monkeypatch.setattr(FairTrainer, "_advance", advance)
    monkeypatch.setattr(FairTrainer, "shortfalls", lambda *_: [])


class Noisy(nnx.Module):
    """With random streams, and statistics of batches."""

    def __init__(self, inputs: int, width: int) -> None:
        rngs = nnx.Rngs(0)
        self.first = nnx.Linear(inputs, width, rngs=rngs)
        self.norm = nnx.BatchNorm(width, rngs=rngs)
        self.dropout = nnx.Dropout(0.3, rngs=rngs)
        self.last = nnx.Linear(width, 1, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.last(self.dropout(jax.nn.relu(self.norm(self.first(x)))))


def descent(optimizer: optax.GradientTransformation, steps: int) -> list[Any]:
    """Parameters after each step down a bowl."""
    parameters: Any = {
        "0 bias": jnp.array([0.5, -2.0]),
        "1 kernel": jnp.array([[1.0, -1.0], [0.2, 3.0]]),
        "2 output": jnp.array([[2.0], [0.7]]),
    }
    state, found = optimizer.init(parameters), []
    with jax.numpy_dtype_promotion("standard"):  # optax relies on it
        for _ in range(steps):
            gradient = jax.tree.map(lambda values: 2 * values - 1, parameters)
            updates, state = optimizer.update(gradient, state, parameters)
            parameters = optax.apply_updates(parameters, updates)
            found.append(parameters)
    return found
