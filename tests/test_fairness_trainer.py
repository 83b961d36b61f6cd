"""The trainer against a hand-written loop, and what it promises of seeds, data and failures."""

from __future__ import annotations

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import hgr_jax
from bench import reference
from hgr_jax.fairness import (
    MLP,
    FairTrainer,
    History,
    LagrangianDual,
    Penalty,
    Task,
    TrainingError,
)
from hgr_jax.fairness.history import better
from hgr_jax.fairness.steps import Figures, _run_steps, batch_rows, evaluate, predict

ROWS = 120
ADAM = optax.adam(1e-2)
DUAL = LagrangianDual(optax.sgd(0.3))
KB = Penalty("kb", threshold=0.3, h=2, k=2)
QUICK = Penalty("pearson", threshold=0.3, h=2, k=2)

Data = tuple[np.ndarray, np.ndarray, np.ndarray]


def some_data(seed: int = 0, rows: int = ROWS) -> Data:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 3)).astype(np.float32)
    z = x[:, 0] + 0.1 * rng.standard_normal(rows).astype(np.float32)
    y = x[:, 0] ** 2 + x[:, 0] + x[:, 1]
    return x, y, z


def trained(*penalties: Penalty, steps: int = 10, **options: Any) -> FairTrainer:
    """A trainer after some steps on some data; its options are those of both."""
    of_fit = ("validation", "patience", "progress", "evaluate_every")
    fit = {name: options.pop(name) for name in of_fit if name in options}
    data = options.pop("data", some_data())
    network = options.pop("network", MLP(3, (8,), rngs=nnx.Rngs(options.pop("weights", 0))))
    options = {"optimizer": ADAM, "dual": DUAL} | options
    trainer = FairTrainer(network, penalties=penalties, **options)
    trainer.fit(*data, steps=steps, **{"evaluate_every": 10} | fit)
    return trainer


def parameters(trainer: FairTrainer) -> Any:
    return nnx.state(trainer.network, nnx.Param)


@pytest.fixture(scope="module")
def long_run() -> FairTrainer:
    return trained(KB, steps=300, validation=some_data(1))


@pytest.fixture(scope="module")
def unconstrained() -> FairTrainer:
    return trained(Penalty(None, h=2, k=2), steps=300)


class TestTraining:
    def test_against_a_loop(self) -> None:
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
            following = jnp.maximum(0, multiplier + 0.3 * (value - 0.3))
            weights = optax.apply_updates(weights, updates)
            return weights, optimizer_state, following, (total, task, value, multiplier)

        optimizer_state, multiplier, figures = ADAM.init(weights), jnp.zeros(()), []
        for _ in range(10):
            weights, optimizer_state, multiplier, figure = step(
                weights, optimizer_state, multiplier
            )
            figures.append(figure)
        trainer = trained(KB)
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


class TestAttributes:
    def test_each_has_its_own_threshold(self) -> None:
        x, y, z = some_data()
        levels = np.where(x[:, 1] > 0.5, "high", np.where(x[:, 1] < -0.5, "low", "middle"))
        penalties = (
            Penalty("kb", 0.5, h=2, k=2, name="a"),
            Penalty("kb", 0.2, h=2, k=2, name="b"),
        )
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
        penalty = Penalty("kb", 0.2, h=2, k=1, given="classes")
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
        penalty = Penalty("kb", 0.1, h=1, k=1, given="classes", bias_corrected=True)
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
        trainer = trained(Penalty(None, h=2, k=1, given=3), steps=10)
        edges = np.quantile(y, [1 / 3, 2 / 3])
        prediction = np.asarray(trainer.predict(x))
        for i in range(3):
            chosen = np.digitize(y, edges) == i
            exact = reference.kb(z[chosen], prediction[chosen], 2, 1)
            np.testing.assert_allclose(
                trainer.history.last[f"hgr_train_z | bin {i}"], exact, atol=1e-5
            )

    def test_numbers_of_any_kind(self) -> None:
        x, y, z = some_data()
        expected = trained(KB).history.last["hgr_train_z"]
        for same in (z.astype(object), list(z), z[:, None]):
            found = trained(KB, data=(x, y, same)).history.last
            np.testing.assert_allclose(found["hgr_train_z"], expected, atol=1e-5)

    def test_units_do_not_matter(self) -> None:
        x, y, z = some_data()
        expected = trained(KB).history.last["hgr_train_z"]
        for moved in (1e-3 * z, 1.7e9 + z.astype(np.float64)):  # as of times in seconds
            found = trained(KB, data=(x, y, moved)).history.last
            np.testing.assert_allclose(found["hgr_train_z"], expected, atol=1e-3)


class TestStopping:
    def test_the_best_comes_back(self) -> None:
        x, y, z = some_data()
        test = some_data(1)
        test = (test[0], test[1][::-1].copy(), test[2])  # training makes the score worse
        trainer = trained(KB, steps=300, validation=test, patience=3)
        history = trainer.history
        evaluations = history.evaluations
        excess = np.maximum(0, evaluations["hgr_validation_z"] - 0.3)
        ranks = list(zip(-excess, evaluations["score_validation"], strict=True))
        best = ranks.index(max(ranks))
        assert len(ranks) == best + 1 + 3 < 30
        again = trained(KB, steps=10 * (best + 1))
        chex.assert_trees_all_equal(parameters(trainer), parameters(again))
        before = parameters(trainer)
        trainer.fit(x, y, z, steps=300, evaluate_every=10, validation=test, patience=3)
        chex.assert_trees_all_equal(parameters(trainer), before)
        assert len(trainer.history.evaluations["step"]) == len(ranks)

    def test_order_of_evaluations(self) -> None:
        limits = np.array([0.3, np.inf])

        def figures(score: float, *values: float) -> Figures:
            return Figures(np.float32(0), np.float32(score), (np.array(values),))

        state = trained(QUICK).state
        assert state is not None
        best = None
        for waited, score, *values in (
            (0, 0.9, 0.5, 0.1),  # violates by 0.2
            (0, 0.1, 0.4, 0.1),  # by less, though the score is worse
            (1, 0.9, 0.45, 0.1),
            (0, 0.2, 0.29, 0.9),  # keeps the constraint; the other value is only watched
            (1, 0.1, 0.1, 0.1),
            (2, 0.2, 0.2, 0.1),
            (0, 0.3, 0.3, 0.1),
        ):
            best = better(best, state, figures(score, *values), limits)
            assert best.waited == waited

    def test_an_undefined_score_is_not_the_best(self) -> None:
        state = trained(QUICK).state
        assert state is not None
        undefined = Figures(np.float32(0), np.float32(np.nan), (np.array([0.1]),))
        best = better(None, state, undefined, np.array([0.3]))
        best = better(best, state, undefined._replace(score=np.float32(0.1)), np.array([0.3]))
        assert best.waited == 0


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
        exact = reference.kb(z, trainer.predict(x), 2, 2)
        np.testing.assert_allclose(last["hgr_train_z"], exact, atol=1e-5)

    def test_classes(self) -> None:
        x, y, z = some_data()
        y = np.digitize(y, [-0.5, 1.5])
        network = MLP(3, (8,), outputs=3, rngs=nnx.Rngs(0))
        trainer = trained(QUICK, data=(x, y, z), task="log_loss", network=network)
        prediction = np.asarray(trainer.predict(x))
        np.testing.assert_allclose(prediction.sum(axis=1), 1, atol=1e-6)
        accuracy = np.mean(prediction.argmax(axis=1) == y)
        np.testing.assert_allclose(trainer.history.last["score_train"], accuracy, rtol=1e-6)
        assert list(trainer.multipliers) == ["z[0]", "z[1]", "z[2]"]
        exact = reference.kb(z, prediction[:, 2], 2, 2)
        np.testing.assert_allclose(trainer.history.last["hgr_train_z[2]"], exact, atol=1e-5)


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
    trainer = trained(QUICK, network=Noisy(nnx.Rngs(0)), steps=200)
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
    again = trained(QUICK, network=Noisy(nnx.Rngs(0)), steps=200)
    chex.assert_trees_all_equal(parameters(again), parameters(trainer))


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


def test_another_trainer_compiles_nothing() -> None:
    data = tuple(map(jnp.asarray, some_data()))
    trained(KB, data=data)
    sizes = [program._cache_size() for program in (_run_steps, evaluate, predict)]
    compiled = []

    def listen(event: str, _: float, **__: Any) -> None:
        if "backend_compile" in event:
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        other = Penalty("kb", threshold=0.45, h=2, k=2)
        again = trained(other, data=data, weights=1, seed=5)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
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
                trained(KB, data=data)
            with pytest.raises(ValueError, match=message):
                trained(KB, validation=data)

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
                trained(KB, data=data)

    def test_numbers_too_large_for_the_network(self) -> None:
        x, y, z = some_data()
        large = x.astype(np.float64)
        large[4, 1] = 1e39  # infinite in float32
        with pytest.raises(ValueError, match="x"):
            trained(KB, data=(large, y, z))

    def test_settings(self) -> None:
        x, y, z = some_data()
        rare = np.r_[1, np.zeros(ROWS - 1)]
        given = Penalty("kb", given="classes")
        for penalty, options, message in (
            (Penalty("kb", memory=2), {}, "memory"),
            (Penalty("kb", memory=2), {"batch_size": ROWS}, "memory"),
            (given, {"data": (x, rare, z)}, "at least two rows"),
            (given, {"data": (x, np.stack([y, y], 1), z)}, "given needs one target"),
            (KB, {"patience": 3}, "patience needs validation"),
            (KB, {"patience": 0, "validation": (x, y, z)}, "patience"),
            (KB, {"validation": (x,)}, "validation must be"),
            (KB, {"validation": (x, y)}, "protected must be given"),
            (KB, {"steps": 0}, "steps"),
            (KB, {"evaluate_every": 0}, "evaluate_every"),
            (KB, {"batch_size": 1}, "batch_size"),
            (KB, {"seed": -1}, "seed"),
            (KB, {"task": "hinge"}, "task must be one of"),
        ):
            with pytest.raises(ValueError, match=message):
                trained(penalty, **options)
        with pytest.raises(ValueError, match="different names"):
            trained(KB, KB)
        with pytest.raises(TypeError, match="network"):
            trained(KB, network=lambda x: x)
        with pytest.raises(TypeError, match="penalties"):
            FairTrainer(MLP(3, rngs=nnx.Rngs(0)), penalties=["kb"])
        with pytest.raises(ValueError, match="call fit first"):
            FairTrainer(MLP(3, rngs=nnx.Rngs(0))).predict(x)

    def test_unknown_level(self) -> None:
        x, y, z = some_data()
        known, other = np.where(z > 0, "a", "b"), np.where(z > 0, "a", "c")
        with pytest.raises(ValueError, match=r"value\(s\) c, which.*known are a, b"):
            trained(KB, data=(x, y, known), validation=(x, y, other))

    def test_network_of_another_shape(self) -> None:
        class Whole(nnx.Module):
            def __init__(self) -> None:
                self.w = nnx.Param(jnp.ones(3))

            def __call__(self, x: jax.Array) -> jax.Array:
                return jnp.mean(x @ self.w[...], keepdims=True)

        with pytest.raises(ValueError, match="one row for each row"):
            trained(KB, network=Whole())

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


def test_progress(capsys: pytest.CaptureFixture[str]) -> None:
    shown = trained(KB, steps=20, progress=True)
    assert "20/20" in capsys.readouterr().err
    chex.assert_trees_all_equal(parameters(shown), parameters(trained(KB, steps=20)))
    assert capsys.readouterr().err == ""
