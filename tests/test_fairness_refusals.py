"""What a trainer takes, tasks and attributes, and what it refuses."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from fairness_support import DUAL, KB, QUICK, ROWS, parameters, some_data, trained
from flax import nnx

from bench import reference
from hgr_jax.fairness import (
    MLP,
    FairTrainer,
    Penalty,
    Task,
    TrainingError,
)
from hgr_jax.fairness.steps import batch_rows


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
            (KB, {"dual": None, "penalty_weight": -1.0}, "penalty_weight must be at least 0"),
            (KB, {"dual": None, "penalty_weight": np.inf}, "penalty_weight must be"),
            (KB, {"penalty_weight": 2.0}, "give one of them"),
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
