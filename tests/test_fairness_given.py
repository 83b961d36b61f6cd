"""Penalties given a continuous outcome, without bins: equalised odds by polynomials of it."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fairness_support import some_data, trained
from penalties_support import ROWS, measured, some_pair

import hgr_jax
from hgr_jax.fairness import FairMLPRegressor, Penalty, corrected

GIVEN = Penalty("kb", 0.3, h=2, k=2, given="polynomials")

kb = functools.partial(hgr_jax.kb, h=2, k=2, given_degree=2)


def outcome(z: jax.Array, prediction: jax.Array, seed: int = 0) -> jax.Array:
    noise = np.random.default_rng(seed).standard_normal(len(z))
    return z + prediction.reshape(len(z), -1)[:, 0] + noise.astype(z.dtype)


class TestValues:
    def test_measures(self) -> None:
        z, prediction = some_pair(1)
        y = outcome(z, prediction)
        for penalty, expected in (
            (GIVEN, kb(z, prediction, given=y)),
            (
                Penalty("sk", k=2, given="polynomials"),
                hgr_jax.sk(z, prediction, 2, given=y, given_degree=2),
            ),
            (
                Penalty(hgr_jax.total, given="polynomials"),
                hgr_jax.total(z, prediction, given=y),
            ),
        ):
            found = measured(penalty, z, prediction, y)
            np.testing.assert_allclose(found, [expected], atol=2e-6)
        watched = Penalty(None, h=2, k=2, given="polynomials")
        np.testing.assert_allclose(
            watched.hgr(z, prediction, y), [kb(z, prediction, given=y)], atol=2e-6
        )

    def test_a_prediction_equal_to_y_has_0(self) -> None:
        z, y = some_pair(1)
        for penalty in (GIVEN, Penalty("kb", given="polynomials")):
            assert measured(penalty, z, 2 * y - 1, y) == 0

    def test_columns(self) -> None:
        z, prediction = some_pair(2, columns=2)
        y = outcome(z, prediction)
        found = measured(GIVEN, z, prediction, y)
        expected = [kb(z, column, given=y) for column in prediction.T]
        np.testing.assert_allclose(found, expected, atol=2e-6)

    def test_categorical(self) -> None:
        z, prediction = some_pair(3)
        y = outcome(z, prediction)
        one_hot = jnp.asarray(np.eye(3)[np.digitize(z, [-0.5, 0.5])], jnp.float32)
        expected = kb(one_hot, prediction, h=1, given=y)
        np.testing.assert_allclose(measured(GIVEN, one_hot, prediction, y), [expected], atol=2e-6)

    def test_bias_corrected(self) -> None:
        z, prediction = some_pair(4)
        y = outcome(z, prediction)
        found = measured(
            Penalty(h=2, k=2, given="polynomials", bias_corrected=True), z, prediction, y
        )
        # The two functions of y take two rows.
        expected = corrected(kb(z, prediction, given=y), ROWS - 2, 3)
        np.testing.assert_allclose(found, [expected], atol=3e-6)

    @pytest.mark.usefixtures("x64")
    def test_gradient(self) -> None:
        z, prediction = (jnp.asarray(x, jnp.float64) for x in some_pair(5))
        y = outcome(z, prediction)

        @jax.jit
        @jax.value_and_grad
        def value(p: jax.Array) -> jax.Array:
            return measured(GIVEN, z, p, y)[0]

        slope = value(prediction)[1]
        for i in (0, 7, 20):
            step = 1e-6 * jnp.eye(ROWS)[i]
            ends = value(prediction + step)[0], value(prediction - step)[0]
            np.testing.assert_allclose(slope[i], (ends[0] - ends[1]) / 2e-6, atol=1e-7)


def test_memory() -> None:
    batches = [some_pair(seed) for seed in range(3)]
    outcomes = [outcome(*batch, seed) for seed, batch in enumerate(batches)]
    penalty = Penalty("kb", h=2, k=2, given="polynomials", memory=2)
    state = penalty.init(*batches[0])
    for t, ((z, prediction), y) in enumerate(zip(batches, outcomes, strict=True)):
        value, state = penalty.values(state, z, prediction, y)
        before = max(t - 1, 0)  # the first batch stands for the one that is missing
        joined = (jnp.concatenate(both) for both in zip(batches[t], batches[before], strict=True))
        expected = kb(*joined, given=jnp.concatenate([y, outcomes[before]]))
        np.testing.assert_allclose(value, [expected], atol=3e-6)


class TestTraining:
    def data(self) -> tuple[np.ndarray, ...]:
        x, _, _ = some_data(rows=300)
        noise = np.random.default_rng(1).standard_normal(300)
        return x, x[:, 0] + x[:, 1] + noise, x[:, 0]

    def test_only_the_conditional_value_keeps_the_threshold(self) -> None:
        x, y, z = self.data()
        values = {}
        for name, penalty in (("before", Penalty(None, h=2, k=2)), ("after", GIVEN)):
            trainer = trained(penalty, data=(x, y, z), steps=300)
            prediction = trainer.predict(x)
            values[name] = [
                float(value)
                for value in (kb(z, prediction, given=y), hgr_jax.kb(z, prediction, 2, 2))
            ]
        assert min(values["before"]) > GIVEN.threshold + 0.1
        assert values["after"][0] < GIVEN.threshold + 0.03
        assert values["after"][1] > GIVEN.threshold + 0.1
        last = trainer.history.last
        np.testing.assert_allclose(last["hgr_train_z"], values["after"][0], atol=1e-5)

    def test_moving_batches(self) -> None:
        penalty = Penalty("kb", 0.3, h=2, k=2, given="polynomials", memory=3, bias_corrected=True)
        trainer = trained(penalty, data=self.data(), steps=100, batch_size=30)
        assert trainer.multipliers["z"] > 0
        assert np.isfinite(trainer.history.steps["value_z"]).all()

    def test_an_estimator(self, tmp_path: Any) -> None:
        x, y, z = self.data()
        settings = {"h": 2, "k": 2, "given": "polynomials", "steps": 20, "random_state": 0}
        model = FairMLPRegressor((8,), **settings).fit(x, y, protected=z)
        exact = kb(np.float32(z), np.float32(model.predict(x)), given=np.float32(y))
        np.testing.assert_allclose(model.history_.last["hgr_train_z"], exact, atol=1e-4)
        model.save(tmp_path / "model.npz")
        assert FairMLPRegressor.load(tmp_path / "model.npz").given == "polynomials"

    def test_refusals(self) -> None:
        x, y, z = self.data()
        with pytest.raises(ValueError, match="given needs one target"):
            trained(GIVEN, data=(x, np.stack([y, y], 1), z))
        with pytest.raises(ValueError, match=r"about 7 row\(s\); .* At least 8 are needed"):
            trained(GIVEN, data=(x, y, z), batch_size=7)
        with pytest.raises(ValueError, match="given"):
            Penalty("hsic", given="polynomials")
