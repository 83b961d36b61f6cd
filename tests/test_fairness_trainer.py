"""The trainer against a hand-written loop, and what it promises of seeds, data and failures."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from fairness_support import ADAM, DUAL, KB, QUICK, ROWS, parameters, some_data, trained
from flax import nnx

import hgr_jax
from bench import reference
from hgr_jax.fairness import (
    MLP,
    FairTrainer,
    History,
    Penalty,
    Total,
    corrected,
)
from hgr_jax.fairness.history import better
from hgr_jax.fairness.steps import Figures, _run_steps, batch_rows, evaluate, predict


@pytest.fixture(scope="module")
def long_run() -> FairTrainer:
    return trained(KB, steps=300, validation=some_data(1))


@pytest.fixture(scope="module")
def unconstrained() -> FairTrainer:
    return trained(Penalty(None, h=2, k=2), steps=300)


class TestTraining:
    @pytest.mark.parametrize("weight", [None, 0.7])
    def test_against_a_loop(self, weight: float | None) -> None:
        x, y, z = map(jnp.asarray, some_data())
        graph, weights = nnx.split(MLP(3, (8,), rngs=nnx.Rngs(0)))

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
            following = multiplier
            if weight is None:
                following = jnp.maximum(0, multiplier + 0.3 * (value - 0.3))
            weights = optax.apply_updates(weights, updates)
            return weights, optimizer_state, following, (total, task, value, multiplier)

        optimizer_state, multiplier, figures = ADAM.init(weights), jnp.asarray(weight or 0.0), []
        for _ in range(10):
            weights, optimizer_state, multiplier, figure = step(
                weights, optimizer_state, multiplier
            )
            figures.append(figure)
        trainer = trained(KB, dual=DUAL if weight is None else None, penalty_weight=weight)
        chex.assert_trees_all_close(parameters(trainer), weights, atol=1e-5)
        names = ("loss", "task_loss", "value_z", "multiplier_z")
        for name, expected in zip(names, np.transpose(figures), strict=True):
            np.testing.assert_allclose(trainer.history.steps[name], expected, atol=1e-5)
        np.testing.assert_allclose(trainer.multipliers["z"], multiplier, atol=1e-5)

    def test_another_weight_has_the_same_program(
        self, compilations: Callable[[], AbstractContextManager[list[str]]]
    ) -> None:
        first = trained(KB, dual=None, penalty_weight=0.7)
        with compilations() as programs:
            other = trained(KB, dual=None, penalty_weight=2)
        assert not [name for name in programs if "run_steps" in name]
        assert other.multipliers == {"z": 2.0}
        assert np.any(first.history.steps["loss"] != other.history.steps["loss"])

    def test_constraint_is_kept(self, long_run: FairTrainer, unconstrained: FairTrainer) -> None:
        x, _, z = some_data()
        exact = [reference.kb(z, t.predict(x), 2, 2) for t in (long_run, unconstrained)]
        assert exact[0] <= 0.3 + 0.03
        assert exact[1] > 0.6
        np.testing.assert_allclose(long_run.history.last["hgr_train_z"], exact[0], atol=1e-5)
        assert long_run.history.last["score_train"] > 0.2
        assert unconstrained.history.last["score_train"] > 0.9

    def test_watching_changes_nothing(self) -> None:
        watching, bare = trained(Penalty(None, h=2, k=2)), trained()
        chex.assert_trees_all_equal(parameters(watching), parameters(bare))
        assert watching.history.thresholds == {"z": None}
        assert "hgr_train_z" in watching.history.evaluations
        assert watching.multipliers == bare.multipliers == {}
        assert set(watching.history.steps) == {"step", "loss", "task_loss"}

    def test_going_on(self) -> None:
        x, y, z = some_data()
        trainer, whole = trained(KB), trained(KB, steps=30)
        trainer.fit(x, y, z, steps=30, evaluate_every=10)
        chex.assert_trees_all_equal(trainer.state, whole.state)
        chex.assert_trees_all_equal(dict(trainer.history.steps), dict(whole.history.steps))
        before = parameters(trainer)
        trainer.fit(x, y, z, steps=20)  # they have been made
        chex.assert_trees_all_equal(parameters(trainer), before)

    def test_users_network_stays(self) -> None:
        network = MLP(3, (8,), rngs=nnx.Rngs(0))
        before = jax.tree.map(np.array, nnx.state(network))
        trainer = trained(KB, network=network)
        chex.assert_trees_all_equal(nnx.state(network), before)
        x = some_data()[0]
        same = trainer.network(jnp.asarray(x))[:, 0]
        np.testing.assert_allclose(same, trainer.predict(x), atol=1e-6)


class TestSeeds:
    def test_same_seed_same_bits(self) -> None:
        first, second, other = (
            trained(QUICK, batch_size=32, seed=seed, steps=20) for seed in (3, 3, 4)
        )
        chex.assert_trees_all_equal(first.state, second.state)
        assert np.any(first.history.steps["loss"] != other.history.steps["loss"])

    def test_batches(self) -> None:
        rows = batch_rows(3, 50, 8, 0, 14)  # 6 batches an epoch, 2 rows wait
        assert rows.shape == (14, 8)
        for epoch in (rows[:6], rows[6:12]):
            assert len(np.unique(epoch)) == 48
            assert epoch.min() >= 0
            assert epoch.max() < 50
        assert np.any(rows[:6] != rows[6:12])
        pieces = [batch_rows(3, 50, 8, done, count) for done, count in ((0, 5), (5, 2), (7, 7))]
        np.testing.assert_array_equal(np.concatenate(pieces), rows)

    def test_first_step_sees_the_first_batch(self) -> None:
        x, y, z = some_data()
        first = batch_rows(3, ROWS, 32, 0, 1)[0]
        trainer = trained(QUICK, batch_size=32, seed=3)
        prediction = np.asarray(MLP(3, (8,), rngs=nnx.Rngs(0))(jnp.asarray(x[first])))[:, 0]
        task = np.mean((prediction - y[first]) ** 2)
        np.testing.assert_allclose(trainer.history.steps["task_loss"][0], task, rtol=1e-5)
        value = abs(np.corrcoef(z[first], prediction)[0, 1])
        np.testing.assert_allclose(trainer.history.steps["value_z"][0], value, atol=1e-5)


class TestStopping:
    def test_the_best_comes_back(self) -> None:
        x, y, z = some_data()
        test = some_data(1)
        test = (test[0], test[1][::-1].copy(), test[2])  # training makes the score worse
        trainer = trained(KB, steps=300, validation=test, patience=3)
        history = trainer.history
        evaluations = history.evaluations
        held_out = evaluations["held_out_z"]
        expected = [corrected(v, ROWS, 3) for v in evaluations["hgr_validation_z"]]
        np.testing.assert_allclose(held_out, expected, atol=1e-6)
        excess = np.maximum(0, held_out - 0.3)
        ranks = list(zip(-excess, evaluations["score_validation"], strict=True))
        best = ranks.index(max(ranks))
        assert len(ranks) == best + 1 + 3 < 30
        again = trained(KB, steps=10 * (best + 1))
        chex.assert_trees_all_equal(parameters(trainer), parameters(again))
        before = parameters(trainer)
        trainer.fit(x, y, z, steps=300, evaluate_every=10, validation=test, patience=3)
        chex.assert_trees_all_equal(parameters(trainer), before)
        assert len(trainer.history.evaluations["step"]) == len(ranks)

    def test_what_is_penalised_ranks(self) -> None:
        held = some_data(1)
        trainer = trained(Penalty(Total(2, 2), 0.3), steps=20, validation=held)
        found = trainer.history.evaluations["held_out_z"][-1]
        z = held[2] - some_data()[2].mean()
        raw = hgr_jax.total(z, trainer.predict(held[0]), 2, 2)
        np.testing.assert_allclose(found, corrected(raw, ROWS, 2), atol=1e-5)
        assert trainer._best is not None
        assert trainer._best.rank[0] <= 0
        both = [(x, y, {"z": z, "y": y}) for x, y, z in (some_data(), held)]
        two = Penalty(None, h=2, k=2), Penalty("pearson", 0.3, h=2, k=2, name="y")
        watched = trained(*two, steps=20, validation=both[1], data=both[0])
        assert "held_out_y" in watched.history.evaluations
        assert "held_out_z" not in watched.history.evaluations
        expected = np.abs(np.corrcoef(held[1], watched.predict(held[0]))[0, 1])
        np.testing.assert_allclose(
            watched.history.evaluations["held_out_y"][-1], expected, atol=1e-5
        )

    def test_order_of_evaluations(self) -> None:
        limits = np.array([0.3, 0.8])

        def figures(score: float, *values: float) -> Figures:
            hgr = (np.ones(2),)  # it is not what ranks
            return Figures(np.float32(0), np.float32(score), hgr, np.array(values))

        state = trained(QUICK).state
        assert state is not None
        best = None
        for waited, score, *values in (
            (0, 0.9, 0.5, 0.1),  # violates by 0.2
            (0, 0.1, 0.4, 0.1),  # by less, though the score is worse
            (1, 0.9, 0.45, 0.1),
            (2, 0.9, 0.3, 0.95),  # violates the other by 0.15
            (0, 0.2, 0.29, 0.8),  # keeps both
            (1, 0.1, 0.1, 0.1),
            (2, 0.2, 0.2, 0.1),
            (0, 0.3, 0.3, 0.1),
        ):
            best = better(best, state, figures(score, *values), limits)
            assert best.waited == waited

    def test_an_undefined_score_is_not_the_best(self) -> None:
        state = trained(QUICK).state
        assert state is not None
        undefined = Figures(np.float32(0), np.float32(np.nan), (), np.array([0.1]))
        best = better(None, state, undefined, np.array([0.3]))
        best = better(best, state, undefined._replace(score=np.float32(0.1)), np.array([0.3]))
        assert best.waited == 0


@pytest.mark.parametrize("size", [None, 16])
def test_any_number_of_steps_has_one_program(size: int | None, compilations: Any) -> None:
    whole = trained(KB, steps=17, batch_size=size)
    with compilations() as programs:
        trainer = trained(KB, steps=4, batch_size=size)
        trainer.fit(*some_data(), steps=17, evaluate_every=6)
    assert not programs
    chex.assert_trees_all_equal(parameters(trainer), parameters(whole))
    assert trainer.history.steps["step"].tolist() == list(range(1, 18))
    np.testing.assert_array_equal(trainer.history.steps["loss"], whole.history.steps["loss"])


def test_batches_of_nearly_any_number_of_rows_have_one_program() -> None:
    trained(KB, batch_size=16)
    size = _run_steps._cache_size()
    for rows in (ROWS - 1, ROWS - 5):
        trained(KB, data=some_data(rows=rows), batch_size=16)
    assert _run_steps._cache_size() == size


def test_another_trainer_compiles_nothing(
    compilations: Callable[[], AbstractContextManager[list[str]]],
) -> None:
    data = tuple(map(jnp.asarray, some_data()))
    trained(KB, data=data)
    sizes = [program._cache_size() for program in (_run_steps, evaluate, predict)]
    with compilations() as compiled:
        other = Penalty("kb", threshold=0.45, h=2, k=2)
        again = trained(other, data=data, weights=1, seed=5)
    assert again.history.thresholds == {"z": 0.45}
    assert [program._cache_size() for program in (_run_steps, evaluate, predict)] == sizes
    assert compiled == []


class TestHistory:
    def test_figures(self, long_run: FairTrainer) -> None:
        history = long_run.history
        assert {len(column) for column in history.steps.values()} == {300}
        assert {len(column) for column in history.evaluations.values()} == {30}
        np.testing.assert_array_equal(history.steps["step"], np.arange(1, 301))
        np.testing.assert_array_equal(history.evaluations["step"], np.arange(10, 301, 10))
        for name, (x, y, z) in (("train", some_data()), ("validation", some_data(1))):
            prediction = np.asarray(long_run.predict(x), np.float64)
            last = history.last
            error = np.mean((prediction - y) ** 2)
            np.testing.assert_allclose(last[f"loss_{name}"], error, rtol=1e-5)
            np.testing.assert_allclose(last[f"score_{name}"], 1 - error / np.var(y), atol=1e-5)
            exact = reference.kb(z, prediction.astype(np.float32), 2, 2)
            np.testing.assert_allclose(last[f"hgr_{name}_z"], exact, atol=1e-5)
        steps = history.steps
        penalised = steps["multiplier_z"] * np.maximum(0, steps["value_z"] - 0.3)
        np.testing.assert_allclose(steps["loss"], steps["task_loss"] + penalised, rtol=1e-5)
        multipliers = [0.0]
        for value in steps["value_z"]:
            multipliers.append(max(0, multipliers[-1] + 0.3 * (value - 0.3)))
        np.testing.assert_allclose(steps["multiplier_z"], multipliers[:-1], atol=1e-4)
        np.testing.assert_allclose(long_run.multipliers["z"], multipliers[-1], atol=1e-4)

    def test_tables(self, long_run: FairTrainer) -> None:
        history = long_run.history
        evaluations, steps = history.to_frame(), history.to_frame("steps")
        assert evaluations.index.name == steps.index.name == "step"
        assert (len(evaluations), len(steps)) == (30, 300)
        np.testing.assert_array_equal(steps["loss"], history.steps["loss"])
        np.testing.assert_array_equal(
            evaluations["hgr_train_z"], history.evaluations["hgr_train_z"]
        )
        with pytest.raises(ValueError, match="which"):
            history.to_frame("epochs")
        assert "hgr_train_z 0." in repr(history)
        assert repr(History({}, {}, {})) == "History(no steps yet)"

    def test_steps_that_do_not_divide(self) -> None:
        trainer = trained(steps=25)
        np.testing.assert_array_equal(trainer.history.evaluations["step"], [10, 20, 25])
        assert len(trainer.history.steps["loss"]) == 25


def test_progress(capsys: pytest.CaptureFixture[str]) -> None:
    shown = trained(KB, steps=20, progress=True)
    assert "20/20" in capsys.readouterr().err
    chex.assert_trees_all_equal(parameters(shown), parameters(trained(KB, steps=20)))
    assert capsys.readouterr().err == ""
