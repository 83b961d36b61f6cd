"""The trainer: against a hand-written loop, and what it promises of seeds, data and failures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
import pytest
from fairness_support import (
    ADAM,
    DUAL,
    PENALTY,
    QUICK,
    ROWS,
    Noisy,
    descent,
    parameters,
    some_data,
    trained,
)
from flax import nnx

import hgr_jax
from bench import reference
from hgr_jax.fairness import KB, MLP, FairMLPRegressor, FairTrainer, History, Penalty, TrainingError
from hgr_jax.fairness.networks import decaying_adamw
from hgr_jax.fairness.training import _run_steps, batch_rows, evaluate, first_state, predict

SGD = optax.sgd(0.1)


def network() -> MLP:
    return MLP(3, (8,), rngs=nnx.Rngs(0))


@pytest.fixture(scope="module")
def long_run() -> FairTrainer:
    return trained(PENALTY, steps=300)


@pytest.fixture(scope="module")
def unconstrained() -> FairTrainer:
    return trained(Penalty(KB(2, 2), threshold=None), steps=300)


class TestTraining:
    def test_against_a_loop(self) -> None:
        x, y, z = map(jnp.asarray, some_data())
        graph, weights = nnx.split(network())

        @jax.jit
        def step(weights: Any, optimizer_state: Any, multiplier: Any) -> Any:
            def loss(weights: Any) -> Any:
                prediction = nnx.merge(graph, weights)(x)[:, 0]
                value = hgr_jax.kb(z, prediction, 2, 2)
                task = jnp.mean((prediction - y) ** 2)
                return task + multiplier * jnp.maximum(0, value - 0.3), (task, value)

            (total, (task, value)), gradient = jax.value_and_grad(loss, has_aux=True)(weights)
            with jax.numpy_dtype_promotion("standard"):
                updates, optimizer_state = ADAM.update(gradient, optimizer_state)
            following = jnp.maximum(0, multiplier + 0.3 * (value - 0.3))
            weights = optax.apply_updates(weights, updates)
            return weights, optimizer_state, following, (total, task, value, multiplier)

        optimizer_state, multiplier, figures = ADAM.init(weights), jnp.asarray(0.0), []
        for _ in range(10):
            *state, figure = step(weights, optimizer_state, multiplier)
            weights, optimizer_state, multiplier = state
            figures.append(figure)
        trainer = trained(PENALTY)
        chex.assert_trees_all_close(parameters(trainer), weights, atol=1e-5)
        names = ("loss", "task_loss", "value_z", "multiplier_z")
        for name, expected in zip(names, np.transpose(figures), strict=True):
            np.testing.assert_allclose(trainer.history.steps[name], expected, atol=1e-5)
        np.testing.assert_allclose(trainer.state.dual.multipliers, multiplier, atol=1e-5)

    def test_constraint_is_kept(self, long_run: FairTrainer, unconstrained: FairTrainer) -> None:
        x, _, z = some_data()
        exact = [reference.kb(z, t.predict(x), 2, 2) for t in (long_run, unconstrained)]
        assert exact[0] <= 0.3 + 0.03
        assert exact[1] > 0.6
        last = long_run.history.last
        np.testing.assert_allclose(last["dependence_train_z"], exact[0], atol=1e-5)
        assert long_run.history.measures == {"z": "HGR-KB(2, 2)"}
        assert unconstrained.history.last["loss_train"] < 0.1 * np.var(some_data()[1])
        assert last["loss_train"] < 0.8 * np.var(some_data()[1])

    def test_users_network_stays(self) -> None:
        own = network()
        before = jax.tree.map(np.array, nnx.state(own))
        trainer = trained(PENALTY, network=own)
        chex.assert_trees_all_equal(nnx.state(own), before)
        x = some_data()[0]
        same = trainer.network(jnp.asarray(x))[:, 0]
        np.testing.assert_allclose(same, trainer.predict(x), atol=1e-6)


class TestSeeds:
    def test_same_seed_same_bits(self) -> None:
        first, second, other = (trained(QUICK, batch_size=32, seed=s, steps=20) for s in (3, 3, 4))
        chex.assert_trees_all_equal(first.state, second.state)
        assert np.any(first.history.steps["loss"] != other.history.steps["loss"])


@pytest.mark.parametrize("size", [None, 16])
def test_any_number_of_steps_has_one_program(size: int | None, compilations: Any) -> None:
    whole = trained(PENALTY, steps=17, batch_size=size)
    with compilations() as programs:
        trainer = trained(PENALTY, steps=4, batch_size=size)
        trainer.fit(*some_data(), steps=17, evaluate_every=6)
    assert not programs
    chex.assert_trees_all_equal(trainer.state, whole.state)
    chex.assert_trees_all_equal(dict(trainer.history.steps), dict(whole.history.steps))
    assert trainer.history.steps["step"].tolist() == list(range(1, 18))
    trainer.fit(*some_data(), steps=16)  # they have been made
    chex.assert_trees_all_equal(trainer.state, whole.state)


def test_other_trainers_and_settings_compile_nothing(
    compilations: Callable[[], AbstractContextManager[list[str]]],
) -> None:
    data = tuple(map(jnp.asarray, some_data()))

    def estimator(**options: Any) -> None:
        options = {"penalty": KB(2, 2), "steps": 10} | options
        FairMLPRegressor((8,), random_state=0, **options).fit(*data[:2], protected=data[2])

    trained(PENALTY, data=data)
    estimator()
    programs = (_run_steps, evaluate, predict, first_state)
    sizes = [program._cache_size() for program in programs]
    with compilations() as compiled:
        again = trained(Penalty(KB(2, 2), threshold=0.45), data=data, weights=1, seed=5)
    assert compiled == []
    for other in ({"alpha": 0.0}, {"learning_rate": 0.01}, {"alpha": 1.0, "steps": 9}):
        estimator(**other)
    assert again.history.thresholds == {"z": 0.45}
    assert [program._cache_size() for program in programs] == sizes


class TestHistory:
    def test_figures(self, long_run: FairTrainer) -> None:
        history = long_run.history
        assert {len(column) for column in history.steps.values()} == {300}
        assert {len(column) for column in history.evaluations.values()} == {30}
        np.testing.assert_array_equal(history.steps["step"], np.arange(1, 301))
        np.testing.assert_array_equal(history.evaluations["step"], np.arange(10, 301, 10))
        x, y, z = some_data()
        prediction = np.asarray(long_run.predict(x), np.float64)
        error = np.mean((prediction - y) ** 2)
        np.testing.assert_allclose(history.last["loss_train"], error, rtol=1e-5)
        exact = reference.kb(z, prediction.astype(np.float32), 2, 2)
        np.testing.assert_allclose(history.last["dependence_train_z"], exact, atol=1e-5)
        assert "dependence_train_z 0." in repr(history)
        assert repr(History({}, {}, {})) == "History(no steps yet)"
        steps = history.steps
        penalised = steps["multiplier_z"] * np.maximum(0, steps["value_z"] - 0.3)
        np.testing.assert_allclose(steps["loss"], steps["task_loss"] + penalised, rtol=1e-5)
        multipliers = [0.0]
        for value in steps["value_z"]:
            multipliers.append(max(0, multipliers[-1] + 0.3 * (value - 0.3)))
        np.testing.assert_allclose(steps["multiplier_z"], multipliers[:-1], atol=1e-4)
        np.testing.assert_allclose(long_run.state.dual.multipliers, multipliers[-1:], atol=1e-4)


class TestAttributes:
    def test_each_has_its_own_threshold(self) -> None:
        x, y, z = some_data()
        levels = np.where(x[:, 1] > 0.5, "high", np.where(x[:, 1] < -0.5, "low", "middle"))
        penalties = (Penalty(KB(2, 2), 0.5, name="a"), Penalty(KB(2, 2), 0.2, name="b"))
        trainer = trained(*penalties, data=(x, y, pd.DataFrame({"a": z, "b": levels})), steps=400)
        prediction = np.asarray(trainer.predict(x))
        assert reference.kb(z, prediction, 2, 2) <= 0.5 + 0.03
        one_hot = levels[:, None] == np.unique(levels)
        exact = reference.canonical_correlation(
            reference.orthonormal_features(one_hot),
            reference.orthonormal_polynomials(prediction, 2),
        )
        assert exact <= 0.2 + 0.03
        np.testing.assert_allclose(trainer.history.last["dependence_train_b"], exact, atol=1e-5)
        assert trainer.history.thresholds == {"a": 0.5, "b": 0.2}

    def test_a_class_of_which_a_batch_has_one_row_or_none(self) -> None:
        x, y, z = some_data()
        rare = 12
        y = np.r_[np.ones(rare), np.zeros(ROWS - rare)]
        penalty = Penalty(KB(1, 1), 0.1, given="classes")
        size = -(-4 * ROWS // rare)  # four rows of the class in a batch on average
        trainer = trained(penalty, data=(x, y, z), task="log_loss", batch_size=size, steps=200)
        chex.assert_tree_all_finite(trainer.state)
        batches = batch_rows(0, ROWS, size, 0, 200)
        scarce = (batches < rare).sum(axis=1) < 2
        assert scarce.any()
        values = trainer.history.steps["value_z | y=1"]
        np.testing.assert_array_equal(values[scarce], 0)


def test_dropout_and_batch_statistics() -> None:
    x, *_ = some_data()
    # Of so many steps that the running mean, which starts from 0, has caught up with the network.
    trainer = trained(QUICK, network=Noisy(3, 8), steps=300)
    first, second = trainer.predict(x), trainer.predict(x)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(trainer.network(jnp.asarray(x))[:, 0].shape, first.shape)
    np.testing.assert_allclose(trainer.predict(x[:7]), first[:7], atol=1e-5)  # row by row
    hidden = trainer.network.first(jnp.asarray(x))
    mean = trainer.network.norm.mean[...]
    assert np.any(mean != 0)
    np.testing.assert_allclose(mean, hidden.mean(axis=0), atol=0.2)
    losses = trainer.history.steps["task_loss"]
    assert losses[-20:].mean() < losses[:20].mean()
    assert np.diff(losses[-20:]).std() > 1e-3  # of dropout, in the last steps too


class TestErrors:
    def test_no_longer_finite(self) -> None:
        absurd = optax.sgd(optax.join_schedules([lambda _: 1e-2, lambda _: 1e30], [15]))
        trainer = FairTrainer(network(), penalties=QUICK, optimizer=absurd, dual=DUAL)
        with pytest.raises(TrainingError, match=r"step 1[6-9]; weights .* step 10\."):
            trainer.fit(*some_data(), steps=30, evaluate_every=10)
        chex.assert_tree_all_finite(trainer.state)
        assert int(trainer.state.step) == len(trainer.history.steps["loss"]) == 10  # type: ignore[union-attr]
        assert np.isfinite(trainer.predict(some_data()[0])).all()


@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("steps", [None, 12])
def test_it_is_adamw_of_optax(alpha: float, steps: int | None) -> None:
    rate: Any = 0.1
    if steps is not None:
        fall = optax.cosine_decay_schedule(0.1, steps // 2)
        rate = optax.join_schedules([optax.constant_schedule(0.1), fall], [steps // 2])
    mask = {"0 bias": False, "1 kernel": True, "2 output": False}
    theirs = descent(optax.adamw(rate, weight_decay=alpha, mask=mask), 15)
    ours = descent(decaying_adamw(0.1, alpha, steps), 15)
    for expected, found in zip(theirs, ours, strict=True):
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5), found, expected)
    still = np.array_equal(ours[-1]["1 kernel"], ours[12]["1 kernel"])
    assert still == (steps is not None)


@pytest.mark.parametrize("swapped", [False, True])
def test_the_larger_of_two_values_has_the_gradient_of_the_training_rows(swapped: bool) -> None:
    """The level of the other rows only decides whether, and how much, the penalty acts."""
    (x, y, z), others = [some_data(), some_data(seed=1)][:: -1 if swapped else 1]
    pairs = ((z, x), (others[2], others[0]))
    values = [reference.kb(a, network()(jnp.asarray(b))[:, 0], 2, 2) for a, b in pairs]
    assert min(values) > 0.35
    assert abs(values[0] - values[1]) > 1e-3
    options = {"data": (x, y, z), "optimizer": SGD, "evaluate_every": 1}
    first = trained(PENALTY, **options, steps=1, constraint_rows=others)
    assert first.history.steps["value_z"][0] == pytest.approx(max(values), abs=1e-5)
    assert first.state.dual.multipliers[0] == pytest.approx(0.3 * (max(values) - 0.3), abs=1e-5)
    # The second step has the multiplier of the first.
    both = trained(PENALTY, **options, steps=2, constraint_rows=others)
    state = dataclasses.replace(first.state, dual=dataclasses.replace(first.state.dual))
    alone = trained(PENALTY, **options, steps=1)
    alone.state = state
    alone.fit(x, y, z, steps=2, evaluate_every=1)
    chex.assert_trees_all_close(parameters(both), parameters(alone), atol=1e-6)
    free = parameters(trained(**options, steps=2))
    assert optax.tree.norm(optax.tree.sub(parameters(both), free)) > 1e-4


def test_other_rows_bound_what_thirty_rows_hide() -> None:
    """A wide network that fits 30 rows keeps the threshold on them, and is far above on others."""
    x, y, z = some_data(seed=2, rows=30)
    others, other_y, other_z = some_data(seed=3, rows=400)
    found = []
    for constraint in (None, (others, other_y, other_z)):
        options = {"network": MLP(3, (64,), rngs=nnx.Rngs(0)), "optimizer": optax.adam(2e-2)}
        options |= {"steps": 400, "evaluate_every": 400, "constraint_rows": constraint}
        made = trained(PENALTY, data=(x, y, z), **options)
        own, there = (
            reference.kb(b, made.predict(a), 2, 2) for a, b in ((x, z), (others, other_z))
        )
        found.append((own, there, made.history.steps["value_z"][-1]))
    (own, above, last), (less, below, of_others) = found
    assert own == pytest.approx(0.3, abs=0.05)
    assert last == pytest.approx(own, abs=0.05)
    assert above > 0.5
    assert of_others == pytest.approx(below, abs=0.05)
    assert below < above - 0.1
    assert less < own
