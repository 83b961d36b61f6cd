"""The trainer: against a hand-written loop, and what it promises of seeds, data and failures."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from fairness_support import ADAM, DUAL, PENALTY, QUICK, ROWS, parameters, some_data, trained
from flax import nnx

import hgr_jax
from bench import reference
from hgr_jax.fairness import (
    KB,
    MLP,
    CheckpointError,
    FairMLPRegressor,
    FairTrainer,
    History,
    Penalty,
    Task,
    Total,
    TrainingError,
    corrected,
)
from hgr_jax.fairness.data import Rows, TrainingData, make_constraint_rows, make_rows
from hgr_jax.fairness.networks import decaying_adamw
from hgr_jax.fairness.training import (
    TrainState,
    _run_steps,
    batch_rows,
    evaluate,
    first_state,
    objective,
    predict,
)


@pytest.fixture(scope="module")
def long_run() -> FairTrainer:
    return trained(PENALTY, steps=300, validation=some_data(1))


@pytest.fixture(scope="module")
def unconstrained() -> FairTrainer:
    return trained(Penalty(KB(2, 2), threshold=None), steps=300)


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
        trainer = trained(PENALTY, dual=DUAL if weight is None else weight)
        chex.assert_trees_all_close(parameters(trainer), weights, atol=1e-5)
        names = ("loss", "task_loss", "value_z", "multiplier_z")
        for name, expected in zip(names, np.transpose(figures), strict=True):
            np.testing.assert_allclose(trainer.history.steps[name], expected, atol=1e-5)
        np.testing.assert_allclose(trainer.multipliers["z"], multiplier, atol=1e-5)

    def test_constraint_is_kept(self, long_run: FairTrainer, unconstrained: FairTrainer) -> None:
        x, _, z = some_data()
        exact = [reference.kb(z, t.predict(x), 2, 2) for t in (long_run, unconstrained)]
        assert exact[0] <= 0.3 + 0.03
        assert exact[1] > 0.6
        np.testing.assert_allclose(long_run.history.last["hgr_train_z"], exact[0], atol=1e-5)
        assert long_run.history.last["score_train"] > 0.2
        assert unconstrained.history.last["score_train"] > 0.9

    def test_watching_changes_nothing(self) -> None:
        watching, bare = trained(Penalty(KB(2, 2), threshold=None)), trained()
        chex.assert_trees_all_equal(parameters(watching), parameters(bare))
        assert watching.history.thresholds == {"z": None}
        assert "hgr_train_z" in watching.history.evaluations
        assert watching.multipliers == bare.multipliers == {}
        assert set(watching.history.steps) == {"step", "loss", "task_loss"}

    def test_users_network_stays(self) -> None:
        network = MLP(3, (8,), rngs=nnx.Rngs(0))
        before = jax.tree.map(np.array, nnx.state(network))
        trainer = trained(PENALTY, network=network)
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
        test = some_data(1)
        test = (test[0], test[1][::-1].copy(), test[2])  # training makes the score worse
        trainer = trained(PENALTY, steps=300, validation=test, patience=3)
        history = trainer.history
        evaluations = history.evaluations
        held_out = evaluations["held_out_z"]
        expected = [corrected(v, ROWS, 3) for v in evaluations["hgr_validation_z"]]
        np.testing.assert_allclose(held_out, expected, atol=1e-6)
        excess = np.maximum(0, held_out - 0.3)
        ranks = list(zip(-excess, evaluations["score_validation"], strict=True))
        best = ranks.index(max(ranks))
        assert len(ranks) == best + 1 + 3 < 30
        again = trained(PENALTY, steps=10 * (best + 1))
        chex.assert_trees_all_equal(parameters(trainer), parameters(again))
        before = parameters(trainer)
        data = some_data()
        trainer.fit(*data, steps=300, evaluate_every=10, validation=test, patience=3)
        chex.assert_trees_all_equal(parameters(trainer), before)
        assert len(trainer.history.evaluations["step"]) == len(ranks)

    def test_what_is_penalised_ranks(self) -> None:
        held = some_data(1)
        trainer = trained(Penalty(Total(2, 2), 0.3), steps=20, validation=held)
        found = trainer.history.evaluations["held_out_z"][-1]
        z = held[2] - some_data()[2].mean()
        raw = hgr_jax.total(z, trainer.predict(held[0]), 2, 2)
        np.testing.assert_allclose(found, corrected(raw, ROWS, 2), atol=1e-5)
        both = [(x, y, {"z": z, "y": y}) for x, y, z in (some_data(), held)]
        two = Penalty(KB(2, 2), threshold=None), Penalty("pearson", 0.3, name="y")
        watched = trained(*two, steps=20, validation=both[1], data=both[0])
        assert "held_out_y" in watched.history.evaluations
        assert "held_out_z" not in watched.history.evaluations
        expected = np.abs(np.corrcoef(held[1], watched.predict(held[0]))[0, 1])
        np.testing.assert_allclose(
            watched.history.evaluations["held_out_y"][-1], expected, atol=1e-5
        )


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


def test_another_trainer_compiles_nothing(
    compilations: Callable[[], AbstractContextManager[list[str]]],
) -> None:
    data = tuple(map(jnp.asarray, some_data()))
    trained(PENALTY, data=data)
    sizes = [program._cache_size() for program in (_run_steps, evaluate, predict)]
    with compilations() as compiled:
        other = Penalty(KB(2, 2), threshold=0.45)
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


def test_progress(capsys: pytest.CaptureFixture[str]) -> None:
    shown = trained(PENALTY, steps=20, progress=True)
    assert "20/20" in capsys.readouterr().err
    chex.assert_trees_all_equal(parameters(shown), parameters(trained(PENALTY, steps=20)))
    assert capsys.readouterr().err == ""


class TestAttributes:
    def test_each_has_its_own_threshold(self) -> None:
        x, y, z = some_data()
        levels = np.where(x[:, 1] > 0.5, "high", np.where(x[:, 1] < -0.5, "low", "middle"))
        penalties = (Penalty(KB(2, 2), 0.5, name="a"), Penalty(KB(2, 2), 0.2, name="b"))
        trainer = trained(*penalties, data=(x, y, {"a": z, "b": levels}), steps=400)
        prediction = np.asarray(trainer.predict(x))
        assert reference.kb(z, prediction, 2, 2) <= 0.5 + 0.03
        one_hot = levels[:, None] == np.unique(levels)
        exact = reference.canonical_correlation(
            reference.orthonormal_features(one_hot),
            reference.orthonormal_polynomials(prediction, 2),
        )
        assert exact <= 0.2 + 0.03
        np.testing.assert_allclose(trainer.history.last["hgr_train_b"], exact, atol=1e-5)
        assert trainer.history.thresholds == {"a": 0.5, "b": 0.2}
        assert set(trainer.multipliers) == {"a", "b"}

    def test_given_classes(self) -> None:
        x, y, z = some_data()
        y = (y > np.median(y)).astype(int)
        penalty = Penalty(KB(2, 1), 0.2, given="classes")
        trainer = trained(penalty, data=(x, y, z), task="log_loss")
        prediction = np.asarray(trainer.predict(x))
        for label in (0, 1):
            exact = reference.kb(z[y == label], prediction[y == label], 2, 1)
            found = trainer.history.last[f"hgr_train_z | y={label}"]
            np.testing.assert_allclose(found, exact, atol=1e-5)
        higher = np.sign(prediction[y == 1][:, None] - prediction[y == 0])  # 0 where they tie
        area = np.mean(1 + higher) / 2
        np.testing.assert_allclose(trainer.history.last["score_train"], area, atol=1e-5)
        cross = -np.mean(np.where(y == 1, np.log(prediction), np.log1p(-prediction)))
        np.testing.assert_allclose(trainer.history.last["loss_train"], cross, rtol=1e-5)

    def test_a_class_of_which_a_batch_has_one_row_or_none(self) -> None:
        x, y, z = some_data()
        rare = 12
        y = np.r_[np.ones(rare), np.zeros(ROWS - rare)]
        penalty = Penalty(KB(1, 1), 0.1, given="classes", bias_corrected=True)
        size = -(-4 * ROWS // rare)  # four rows of the class in a batch on average
        trainer = trained(penalty, data=(x, y, z), task="log_loss", batch_size=size, steps=200)
        chex.assert_tree_all_finite(trainer.state)
        batches = batch_rows(0, ROWS, size, 0, 200)
        scarce = (batches < rare).sum(axis=1) < 2
        assert scarce.any()
        values = trainer.history.steps["value_z | y=1"]
        np.testing.assert_array_equal(values[scarce], 0)

    def test_bins(self) -> None:
        x, y, z = some_data()
        trainer = trained(Penalty(KB(2, 1), given=3, threshold=None), steps=10)
        edges = np.quantile(y, [1 / 3, 2 / 3])
        prediction = np.asarray(trainer.predict(x))
        for i in range(3):
            chosen = np.digitize(y, edges) == i
            exact = reference.kb(z[chosen], prediction[chosen], 2, 1)
            np.testing.assert_allclose(
                trainer.history.last[f"hgr_train_z | bin {i}"], exact, atol=1e-5
            )

    def test_units_do_not_matter(self) -> None:
        x, y, z = some_data()
        expected = trained(PENALTY).history.last["hgr_train_z"]
        for moved in (1e-3 * z, 1.7e9 + z.astype(np.float64)):  # as of times in seconds
            found = trained(PENALTY, data=(x, y, moved)).history.last
            np.testing.assert_allclose(found["hgr_train_z"], expected, atol=1e-3)


class TestTasks:
    def test_loss_of_ones_own(self) -> None:
        def absolute(output: jax.Array, y: jax.Array) -> jax.Array:
            return jnp.mean(jnp.abs(output - y))

        x, y, _ = some_data()
        trainer = trained(task=absolute, steps=20)
        error = np.mean(np.abs(np.asarray(trainer.predict(x)) - y))
        np.testing.assert_allclose(trainer.history.last["loss_train"], error, rtol=1e-5)
        np.testing.assert_allclose(trainer.history.last["score_train"], -error, rtol=1e-5)
        assert error < trainer.history.steps["loss"][0]

    def test_task_of_ones_own(self) -> None:
        x, y, z = some_data()
        task = Task(
            loss=lambda output, y: jnp.mean((output[:, 0] - y) ** 2 + output[:, 1] ** 2),
            prediction=lambda output: output[:, 0] ** 3,
            score=lambda prediction, y: jnp.max(prediction - y),
        )
        network = MLP(3, (8,), outputs=2, rngs=nnx.Rngs(0))
        trainer = trained(QUICK, task=task, network=network)
        prediction = np.asarray(trainer.network(jnp.asarray(x)))[:, 0] ** 3
        np.testing.assert_allclose(trainer.predict(x), prediction, rtol=1e-4, atol=1e-6)
        last = trainer.history.last
        np.testing.assert_allclose(last["score_train"], np.max(prediction - y), rtol=1e-4)
        exact = reference.kb(z, trainer.predict(x), 5, 5)
        np.testing.assert_allclose(last["hgr_train_z"], exact, atol=1e-5)


class Noisy(nnx.Module):
    """Batch statistics and dropout."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(3, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.dropout = nnx.Dropout(0.3, rngs=rngs)
        self.last = nnx.Linear(8, 1, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.last(self.dropout(jax.nn.relu(self.norm(self.first(x)))))


def test_dropout_and_batch_statistics() -> None:
    x, *_ = some_data()
    # Of so many steps that the running mean, which starts from 0, has caught up with the network.
    trainer = trained(QUICK, network=Noisy(nnx.Rngs(0)), steps=400)
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
    again = trained(QUICK, network=Noisy(nnx.Rngs(0)), steps=400)
    chex.assert_trees_all_equal(parameters(again), parameters(trainer))


def with_value(array: np.ndarray, value: float, *where: int) -> np.ndarray:
    array = array.copy()
    array[where] = value
    return array


class TestErrors:
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_values_that_are_not_finite(self, value: float) -> None:
        x, y, z = some_data()
        for data, message in (
            ((with_value(x, value, 7, 2), y, z), r"x has 1 value.*\(7, 2\)"),
            ((x, with_value(y, value, 5), z), r"y has 1 value.*\(5\)"),
            ((x, y, with_value(z, value, 9)), r"z has 1 value.*\(9\)"),
        ):
            with pytest.raises(ValueError, match=message):
                trained(PENALTY, data=data)
            with pytest.raises(ValueError, match=message):
                trained(PENALTY, validation=data)

    def test_data(self) -> None:
        x, y, z = some_data()
        text = np.where(z > 0, "a", "b")
        missing = text.astype(object)
        missing[3] = None
        for data, error, message in (
            ((x, y, np.ones(ROWS)), ValueError, "z must vary"),
            ((x, y, np.full(ROWS, "a")), ValueError, "z must vary"),
            ((x, y, missing), ValueError, "1 missing"),
            ((x, y, z[:-1]), ValueError, "z must have one value for each of the 120 rows"),
            ((x, y[:-1], z), ValueError, "same number of rows"),
            ((x[:, 0], y, z), ValueError, "x must have shape"),
            ((x[:0], y[:0], z[:0]), ValueError, "x must have shape"),
            ((x.astype(str) + "m", y, z), TypeError, "x must hold real numbers"),
            ((x + 1j, y, z), TypeError, "x must hold real numbers"),
            ((x, y, z + 1j), TypeError, "z must hold real numbers"),
            ((x, y, None), ValueError, "protected must be given"),
            ((x, y, {"other": z}), ValueError, "no.* for 'z'"),
        ):
            with pytest.raises(error, match=message):
                trained(PENALTY, data=data)

    def test_settings(self) -> None:
        x, y, z = some_data()
        rare = np.r_[1, np.zeros(ROWS - 1)]
        given = Penalty("kb", given="classes")
        levels = [(x, y, np.where(z > 0, "a", level)) for level in ("b", "c")]
        unknown = {"data": levels[0], "validation": levels[1]}
        few = {"data": (x, 1.0 * (np.arange(ROWS) < 6), z), "task": "log_loss", "batch_size": 60}
        for penalty, options, message in (
            (PENALTY, unknown, r"value\(s\) c, which.*known are a, b"),
            (Penalty(KB(2, 2), given="classes"), few, r"about 3 row\(s\) of y=1; with so few"),
            (Penalty("kb", memory=2), {}, "memory"),
            (Penalty("kb", memory=2), {"batch_size": ROWS}, "memory"),
            (given, {"data": (x, rare, z)}, "at least two rows"),
            (given, {"data": (x, np.stack([y, y], 1), z)}, "given needs one target"),
            (PENALTY, {"patience": 3}, "patience needs validation"),
            (PENALTY, {"patience": 0, "validation": (x, y, z)}, "patience"),
            (PENALTY, {"validation": (x,)}, "validation must be"),
            (PENALTY, {"validation": (x, y)}, "protected must be given"),
            (PENALTY, {"steps": 0}, "steps"),
            (PENALTY, {"evaluate_every": 0}, "evaluate_every"),
            (PENALTY, {"batch_size": 1}, "batch_size"),
            (PENALTY, {"seed": -1}, "seed"),
            (PENALTY, {"dual": -1.0}, "dual must be at least 0"),
            (PENALTY, {"dual": np.inf}, "dual must be"),
            (PENALTY, {"task": "hinge"}, "task must be one of"),
        ):
            with pytest.raises(ValueError, match=message):
                trained(penalty, **options)
        with pytest.raises(ValueError, match="different names"):
            trained(PENALTY, PENALTY)
        with pytest.raises(TypeError, match="network"):
            trained(PENALTY, network=lambda x: x)
        with pytest.raises(ValueError, match="statistic must be one of"):
            FairTrainer(MLP(3, rngs=nnx.Rngs(0)), penalties=["kbb"])
        with pytest.raises(ValueError, match="call fit first"):
            FairTrainer(MLP(3, rngs=nnx.Rngs(0))).predict(x)
        with pytest.raises(TypeError, match="logger must be a function"):
            trained(QUICK, logger="tensorboard")

    def test_network_of_another_shape(self) -> None:
        class Whole(nnx.Module):
            def __init__(self) -> None:
                self.w = nnx.Param(jnp.ones(3))

            def __call__(self, x: jax.Array) -> jax.Array:
                return jnp.mean(x @ self.w[...], keepdims=True)

        with pytest.raises(ValueError, match="one row for each row"):
            trained(PENALTY, network=Whole())

    def test_no_longer_finite(self) -> None:
        x, y, z = some_data()
        absurd = optax.sgd(optax.join_schedules([lambda _: 1e-2, lambda _: 1e30], [15]))
        trainer = FairTrainer(
            MLP(3, (8,), rngs=nnx.Rngs(0)), penalties=QUICK, optimizer=absurd, dual=DUAL
        )
        with pytest.raises(TrainingError, match=r"step 1[6-9]; weights .* step 10\."):
            trainer.fit(x, y, z, steps=30, evaluate_every=10)
        chex.assert_tree_all_finite(trainer.state)
        assert int(trainer.state.step) == len(trainer.history.steps["loss"]) == 10  # type: ignore[union-attr]
        assert np.isfinite(trainer.predict(x)).all()

    def test_not_finite_from_the_start(self) -> None:
        x, y, _ = some_data()
        trainer = FairTrainer(MLP(3, (8,), rngs=nnx.Rngs(0)), optimizer=optax.sgd(1e30))
        with pytest.raises(TrainingError, match="step 0"):
            trainer.fit(x, y, steps=10, evaluate_every=10)
        assert trainer.state is not None
        chex.assert_trees_all_equal(
            trainer.state.parameters, nnx.state(MLP(3, (8,), rngs=nnx.Rngs(0)), nnx.Param)
        )


PARAMETERS = {
    "0 bias": jnp.array([0.5, -2.0]),
    "1 kernel": jnp.array([[1.0, -1.0], [0.2, 3.0]]),
    "2 output": jnp.array([[2.0], [0.7]]),
}


def path(optimizer: optax.GradientTransformation, steps: int) -> list[Any]:
    """Parameters after each step down a bowl."""
    parameters, state, found = PARAMETERS, optimizer.init(PARAMETERS), []
    with jax.numpy_dtype_promotion("standard"):  # optax relies on it
        for _ in range(steps):
            gradient = jax.tree.map(lambda values: 2 * values - 1, parameters)
            updates, state = optimizer.update(gradient, state, parameters)
            parameters = optax.apply_updates(parameters, updates)
            found.append(parameters)
    return found


@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("steps", [None, 12])
def test_it_is_adamw_of_optax(alpha: float, steps: int | None) -> None:
    rate: Any = 0.1
    if steps is not None:
        fall = optax.cosine_decay_schedule(0.1, steps // 2)
        rate = optax.join_schedules([optax.constant_schedule(0.1), fall], [steps // 2])
    mask = {"0 bias": False, "1 kernel": True, "2 output": False}
    theirs = path(optax.adamw(rate, weight_decay=alpha, mask=mask), 15)
    ours = path(decaying_adamw(0.1, alpha, steps), 15)
    for expected, found in zip(theirs, ours, strict=True):
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5), found, expected)
    still = np.array_equal(ours[-1]["1 kernel"], ours[12]["1 kernel"])
    assert still == (steps is not None)


def test_the_last_layer_is_that_of_the_network() -> None:
    """Of more layers than have one digit."""
    network = MLP(3, (4,) * 11, rngs=nnx.Rngs(0))
    parameters = nnx.state(network, nnx.Param)
    optimizer = decaying_adamw(1e-3, 2.0, 10)
    still = jax.tree.map(jnp.zeros_like, parameters)
    with jax.numpy_dtype_promotion("standard"):
        moved, _ = optimizer.update(still, optimizer.init(parameters), parameters)
    layers = nnx.merge(nnx.graphdef(network), moved).layers
    assert [bool(jnp.any(layer.kernel[...] != 0)) for layer in layers] == [True] * 11 + [False]


def test_other_settings_compile_nothing() -> None:
    x, y, z = some_data()
    settings: dict[str, Any] = {"hidden_layer_sizes": (8,), "penalty": KB(2, 2), "random_state": 0}
    FairMLPRegressor(**settings, steps=10).fit(x, y, protected=z)
    sizes = [program._cache_size() for program in (_run_steps, first_state)]
    for other in ({"alpha": 0.0}, {"learning_rate": 0.01}, {"alpha": 1.0, "steps": 9}):
        FairMLPRegressor(**settings, **{"steps": 10} | other).fit(x, y, protected=z)
    assert [program._cache_size() for program in (_run_steps, first_state)] == sizes


X, Y, Z = some_data()
OTHERS = some_data(seed=1)
CONSTRAINT = OTHERS[0], OTHERS[2]


def constrained(*penalties: Penalty) -> FairTrainer:
    network = MLP(3, (8,), rngs=nnx.Rngs(0))
    return FairTrainer(network, penalties=penalties or (PENALTY,), optimizer=ADAM, dual=DUAL)


def fit_constrained(steps: int = 10, constraint: Any = CONSTRAINT, **options: Any) -> FairTrainer:
    made = constrained()
    made.fit(X, Y, Z, steps=steps, constraint_rows=constraint, evaluate_every=10, **options)
    return made


def kb_of(made: FairTrainer, x: np.ndarray, z: np.ndarray) -> float:
    return reference.kb(z, np.asarray(made.predict(x)), 2, 2)


@pytest.fixture(scope="module")
def ten() -> FairTrainer:
    return fit_constrained()


def losses(made: FairTrainer, rows: Rows, constraint: Rows | None, at: Any) -> Any:
    assert made._program is not None
    assert isinstance(made.state, TrainState)
    state = jax.tree.map(lambda leaf: leaf, made.state)
    return objective(made._program, made._supported_penalties, state, rows, constraint, at)


def test_the_larger_of_both_values_is_penalised(ten: FairTrainer) -> None:
    assert ten.state is not None
    rows, _ = make_rows(TrainingData.of(X, Y, Z), ten.penalties, ten.encoders, np.float32)
    others = make_constraint_rows(CONSTRAINT, rows, ten.penalties, ten.encoders)
    at = ten.state.parameters
    own, there = kb_of(ten, X, Z), kb_of(ten, *CONSTRAINT)
    for first, second, value in ((rows, others, max(own, there)), (others, rows, max(own, there))):
        assert first is not None
        _, (figures, violations, *_) = losses(ten, first, second, at)
        np.testing.assert_allclose(figures.values, [value], atol=1e-5)
        np.testing.assert_allclose(violations, [value - 0.3], atol=1e-5)


def test_the_gradient_is_that_of_the_training_rows(ten: FairTrainer) -> None:
    """Of the penalty, while it acts; the level of the other rows only decides whether it does."""
    assert ten.state is not None
    rows, _ = make_rows(TrainingData.of(X, Y, Z), ten.penalties, ten.encoders, np.float32)
    others = make_constraint_rows(CONSTRAINT, rows, ten.penalties, ten.encoders)

    def penalised(at: Any, constraint: Rows | None) -> Any:
        loss, (figures, *_) = losses(ten, rows, constraint, at)
        return loss - figures.task_loss

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
        made = FairTrainer(network, penalties=PENALTY, optimizer=optax.adam(2e-2), dual=DUAL)
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
    fit_constrained(steps=10, checkpoint=tmp_path / "kept")
    chex.assert_trees_all_equal(
        parameters(fit_constrained(steps=10, checkpoint=tmp_path / "kept")), parameters(ten)
    )
    with pytest.raises(CheckpointError, match="constraint rows"):
        fit_constrained(steps=20, constraint=(X, Z), checkpoint=tmp_path / "kept")


@pytest.mark.parametrize(
    ("penalty", "rows", "message"),
    [
        (PENALTY, X, r"constraint_rows must be \(x, protected\)"),
        (PENALTY, (X, Z, Y), r"constraint_rows must be \(x, protected\)"),
        (PENALTY, (X, Z[:5]), "one value for each of the 120 rows"),
        (PENALTY, (X[:, :2], Z), "the 3 inputs of the training rows"),
        (Penalty(KB(2, 2), 0.3, given=2), CONSTRAINT, "without given and memory"),
        (Penalty(KB(2, 2), 0.3, memory=2), CONSTRAINT, "without given and memory"),
    ],
)
def test_refusals_of_constraint_rows(penalty: Penalty, rows: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        constrained(penalty).fit(X, Y, Z, steps=10, constraint_rows=rows)


@pytest.mark.parametrize(
    ("settings", "batch"),
    [
        ({}, 10),
        ({"bias_corrected": True}, 10),
        ({"statistic": "sk"}, 6),
        ({"given": 10}, 60),
        ({"statistic": KB(20, 60)}, 80),
    ],
)
def test_batches_too_small_to_constrain(settings: dict[str, Any], batch: int) -> None:
    with pytest.raises(ValueError, match="constrains nothing"):
        trained(Penalty(**settings), batch_size=batch)


def test_other_validation_rows_between_fits() -> None:
    data = some_data()
    found = trained(PENALTY, steps=5, validation=some_data(1))
    found.fit(*data, steps=10)
    history = found.fit(*data, steps=15, validation=data)
    score = history.evaluations["score_validation"]
    assert np.isnan(score).tolist() == [False, True, False]
    assert len(history.evaluations["step"]) == 3


def test_a_binary_attribute_is_not_overcorrected() -> None:
    x, y, z = some_data()
    corrected, plain = (
        trained(Penalty(KB(h, 2), bias_corrected=True), data=(x, y, z > 0), steps=2) for h in (5, 1)
    )
    np.testing.assert_array_equal(
        corrected.history.steps["value_z"], plain.history.steps["value_z"]
    )


class TestLogger:
    def test_every_evaluation_is_logged(self) -> None:
        class Recorded(list[Any]):  # an empty one is no missing one
            def __call__(self, step: int, figures: Any) -> None:
                self.append((step, dict(figures)))

        logger = Recorded()
        trainer = trained(QUICK, steps=25, validation=some_data(1), logger=logger)
        assert [step for step, _ in logger] == [10, 20, 25]
        steps, evaluations = trainer.history.steps, trainer.history.evaluations
        for place, (step, figures) in enumerate(logger):
            assert set(figures) == (set(steps) | set(evaluations)) - {"step"}
            for name, value in figures.items():
                column = steps[name][step - 1] if name in steps else evaluations[name][place]
                assert value == pytest.approx(float(column))

    def test_a_failure_loses_nothing(self) -> None:
        calls = []

        def logger(step: int, figures: Any) -> None:
            calls.append(step)
            if step == 20:
                raise ConnectionError("no network")

        plain = trained(QUICK, steps=30)
        with pytest.warns(RuntimeWarning, match=r"step 20 \(ConnectionError: no network\)"):
            trainer = trained(QUICK, steps=30, logger=logger)
        assert calls == [10, 20]
        chex.assert_trees_all_equal(parameters(plain), parameters(trainer))
        trainer.fit(*some_data(), steps=35, evaluate_every=10)  # it has another chance
        assert calls[-1] == 35
