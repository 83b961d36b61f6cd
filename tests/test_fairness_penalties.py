"""Penalties: values and derivatives against the measures, formulas and finite differences."""

from __future__ import annotations

import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from penalties_support import ROWS, exact_kb, kb, measured, some_pair

import hgr_jax
from bench import reference
from hgr_jax.fairness import Penalty, PenaltyState, corrected, excess, within
from hgr_jax.fairness.statistic_names import DIFFERENTIABLE


class TestExcess:
    def test_values_and_derivatives(self) -> None:
        values = jnp.array([0.1, 0.25, 0.5, 1.0, jnp.nan])
        expected = [0, 0, 0.25, 0.75, np.nan]
        np.testing.assert_array_equal(excess(values, 0.25), np.array(expected, np.float32))
        slopes = jax.vmap(jax.grad(excess), (0, None))(values[:4], 0.25)
        np.testing.assert_array_equal(slopes, [0, 0, 1, 1])
        slopes = jax.vmap(jax.grad(excess, 1), (0, None))(values[:4], 0.25)
        np.testing.assert_array_equal(slopes, [0, 0, -1, -1])

    def test_at_the_threshold_in_float32(self) -> None:
        threshold = 0.2  # has no float32
        value = jnp.asarray(threshold, jnp.float32)
        assert excess(value, threshold) == 0
        assert jax.grad(excess)(value, threshold) == 0
        above = jnp.nextafter(value, jnp.float32(1))
        assert excess(above, threshold) > 0
        assert jax.grad(excess)(above, threshold) == 1

    def test_broadcasting(self) -> None:
        found = excess(jnp.array([[0.5], [0.25]]), jnp.array([[0.125, 0.375]]))
        np.testing.assert_array_equal(found, [[0.375, 0.125], [0.125, 0]])
        assert excess(0.5, 0.25).shape == ()


@jax.jit
def kb_of_many(a: jax.Array, b: jax.Array) -> jax.Array:
    return jax.vmap(functools.partial(hgr_jax.kb, solver="svd"))(a, b)


class TestCorrected:
    @pytest.mark.usefixtures("x64")
    def test_formula_and_derivative(self) -> None:
        value = np.array([0.0, 0.1, 0.3, 0.7, 1.0])
        squared = 1 - (1 - value**2) * 49 / (49 - 9)
        expected = np.sqrt(np.maximum(0, squared))
        assert (expected > 0).sum() == 2
        np.testing.assert_allclose(corrected(jnp.asarray(value), 50, 9), expected, rtol=1e-14)
        slope = jax.vmap(jax.grad(lambda v: corrected(v, 50, 9)))(jnp.asarray(value))
        np.testing.assert_array_equal(slope[:3], 0)
        step = 1e-6
        for i in (3, 4):
            ends = corrected(jnp.asarray(value[i] + np.array([step, -step])), 50, 9)
            np.testing.assert_allclose(slope[i], (ends[0] - ends[1]) / (2 * step), rtol=1e-8)

    @pytest.mark.parametrize("rows", [0, 1, 2, 9, 10])
    def test_too_few_rows(self, rows: int) -> None:
        for value in (0.0, 0.6, 1.0):
            found, slope = jax.value_and_grad(corrected)(jnp.asarray(value), rows, 9)
            assert (found, slope) == (0, 0)
        traced = jax.jit(corrected, static_argnums=2)(jnp.asarray(0.6), jnp.asarray(rows), 9)
        assert traced == 0

    @pytest.mark.parametrize(("truth", "share_left"), [(0.0, 0.6), (0.5, 0.8)])
    def test_less_bias(self, truth: float, share_left: float, rng: np.random.Generator) -> None:
        a, noise = rng.standard_normal((2, 100, 400)).astype(np.float32)
        b = truth * a + np.float32(np.sqrt(1 - truth**2)) * noise
        raw = kb_of_many(a, b)
        found = corrected(raw, 400, 5 + 5 - 1)
        assert abs(np.mean(found) - truth) < share_left * abs(np.mean(raw) - truth)


class TestWithin:
    def test_equals_the_selected_rows(self) -> None:
        z, prediction = some_pair(0)
        # Group 2 has one row, 3 has none; -1 and 4 are no groups.
        group = np.resize([0, 1, 1, -1, 4], ROWS).astype(np.int32)
        group[7] = 2

        @jax.jit
        @functools.partial(jax.grad, has_aux=True)
        def total(prediction: jax.Array, weights: jax.Array) -> Any:
            values = within(kb, z, prediction, jnp.asarray(group), 4)
            return jnp.sum(weights * values), values

        both, found = total(prediction, jnp.ones(4))
        for label in (0, 1):
            expected = exact_kb(z[group == label], prediction[group == label])
            np.testing.assert_allclose(found[label], expected, atol=2e-6)
        np.testing.assert_array_equal(found[2:], 0)
        assert np.isfinite(both).all()
        np.testing.assert_array_equal(np.asarray(both) != 0, (group == 0) | (group == 1))
        np.testing.assert_array_equal(total(prediction, jnp.array([0.0, 0, 1, 1]))[0], 0)
        np.testing.assert_array_equal(total(jnp.ones(ROWS), jnp.ones(4))[0], 0)


class TestMeasures:
    @pytest.mark.parametrize("name", DIFFERENTIABLE)
    def test_by_name(self, name: str) -> None:
        z, prediction = some_pair(1)
        prediction = -z + prediction / 4  # of negative Pearson correlation
        options: dict[str, Any] = {
            "neural": {"key": jax.random.key(0)},
            "kb": {"h": 2, "k": 2},
            "sk": {"d": 2},
        }.get(name, {})
        measure = functools.partial(getattr(hgr_jax, name), z, **options)
        expected, _ = jax.vjp(measure, prediction)  # compiled as it is below
        if name == "pearson":
            assert expected < 0
            expected = abs(expected)
        penalty = Penalty(name, 0.1, h=2, k=2, warm_start=name != "neural")
        # "neural" starts anew each time; its first fit, of a thousand steps, is not looked at.
        state = PenaltyState((), None)

        (found,), back = jax.vjp(lambda p: penalty.values(state, z, p)[0], prediction)
        np.testing.assert_allclose(found, expected, atol=2e-6)
        (gradient,) = back(jnp.ones(1))
        assert np.isfinite(gradient).all()
        assert np.any(gradient != 0)

    def test_kernels_reach_the_measure(self) -> None:
        z, prediction = some_pair(1)
        for penalty, expected in (
            (Penalty("kb", h=1, k=2), reference.kb(z, prediction, 1, 2)),
            (Penalty("kb", h=2, k=2), reference.kb(z, prediction, 2, 2)),
            (Penalty("sk", k=2), reference.sk(z, prediction, 2)),
        ):
            np.testing.assert_allclose(measured(penalty, z, prediction), [expected], atol=2e-6)
        # HGR-KB is the yardstick of penalising SK, too.
        hgr = Penalty("sk", h=2, k=2).hgr(z, prediction)
        np.testing.assert_allclose(hgr, [exact_kb(z, prediction)], atol=2e-6)

    def test_a_function_of_ones_own(self) -> None:
        def covariance(z: jax.Array, prediction: jax.Array) -> jax.Array:
            return jnp.abs(jnp.mean((z - z.mean()) * prediction))

        z, prediction = some_pair(1)
        expected = abs(np.cov(z, prediction, bias=True)[0, 1])
        penalty = Penalty(covariance, 0.1)
        np.testing.assert_allclose(measured(penalty, z, prediction), [expected], rtol=1e-4)
        with pytest.raises(TypeError, match="one number"):
            measured(Penalty(lambda z, p: p, 0.1), z, prediction)

    @pytest.mark.parametrize("name", ["kb", "pearson"])
    def test_columns_are_measured_one_by_one(self, name: str) -> None:
        z, prediction = some_pair(2, columns=2)
        penalty = Penalty(name, h=2, k=2)
        found = measured(penalty, z, prediction)
        if name == "kb":
            expected = [exact_kb(z, column) for column in prediction.T]
        else:
            expected = [abs(np.corrcoef(z, column)[0, 1]) for column in prediction.T]
        np.testing.assert_allclose(found, expected, atol=2e-6)
        assert np.ptp(found) > 0.01

    def test_categorical(self) -> None:
        z, prediction = some_pair(3)
        level = np.digitize(z, [-0.5, 0.5])
        one_hot = jnp.asarray(np.eye(3)[level], jnp.float32)
        found = measured(Penalty("kb", k=1), one_hot, prediction)
        # Of degree 1 in the prediction this is the correlation ratio.
        means = np.array([np.mean(prediction[level == i]) for i in range(3)])[level]
        np.testing.assert_allclose(found, [np.std(means) / np.std(prediction)], atol=1e-5)


class TestGiven:
    def test_columns_and_groups(self) -> None:
        z, prediction = some_pair(4, columns=2)
        group = np.arange(ROWS) % 3
        penalty = Penalty("kb", h=2, k=2, given="classes")
        found = measured(penalty, z, prediction, jnp.asarray(group, jnp.int32), 3)
        expected = [
            exact_kb(z[group == i], column[group == i]) for column in prediction.T for i in range(3)
        ]
        np.testing.assert_allclose(found, expected, atol=3e-6)
        other = Penalty("sk", h=2, k=2, given="classes")
        hgr = other.hgr(z, prediction, jnp.asarray(group, jnp.int32), 3)
        np.testing.assert_allclose(hgr, expected, atol=3e-6)

    def test_sk_and_a_function(self) -> None:
        def weighted(z: jax.Array, p: jax.Array, *, weights: jax.Array) -> jax.Array:
            return jnp.sum(weights * z * p) / jnp.sum(weights)

        z, prediction = some_pair(4)
        group = np.arange(ROWS) % 2
        args = (jnp.asarray(group, jnp.int32), 2)
        found = measured(Penalty("sk", k=2, given=2), z, prediction, *args)
        expected = [reference.sk(z[group == i], prediction[group == i], 2) for i in (0, 1)]
        np.testing.assert_allclose(found, expected, atol=3e-6)
        penalty = Penalty(weighted, given=2)
        products = np.asarray(z) * np.asarray(prediction)
        expected = products.reshape(-1, 2).mean(axis=0)
        for function in (measured, jax.jit(measured, static_argnums=4)):
            found = function(penalty, z, prediction, *args)
            np.testing.assert_allclose(found, expected, rtol=1e-4)


class TestMemory:
    def test_values_and_gradients(self) -> None:
        batches = [some_pair(seed) for seed in range(5)]
        penalty = Penalty("kb", h=2, k=2, memory=3)
        state = penalty.init(*batches[0])
        for t, (z, prediction) in enumerate(batches):
            value, back, state = jax.vjp(
                lambda p, state=state, z=z: penalty.values(state, z, p), prediction, has_aux=True
            )
            (gradient,) = back(jnp.ones(1))
            # Until there are three batches, the present one stands for those that are missing.
            others = [batches[i] if i >= 0 else batches[t] for i in (t - 1, t - 2)]
            all_z = jnp.concatenate([z, *(other[0] for other in others)])
            rest = jnp.concatenate([other[1] for other in others])
            expected, joined = jax.value_and_grad(
                lambda p, z=all_z, rest=rest: kb(z, jnp.concatenate([p, rest]))
            )(prediction)
            np.testing.assert_allclose(value, [expected], atol=2e-6)
            np.testing.assert_allclose(gradient, 3 * joined, atol=1e-6)
            if t == 0:
                alone, own = jax.value_and_grad(lambda p, z=z: kb(z, p))(prediction)
                np.testing.assert_allclose(value, [alone], atol=2e-6)
                np.testing.assert_allclose(gradient, own, atol=1e-6)

    def test_columns_and_groups(self) -> None:
        batches = [some_pair(seed, columns=2) for seed in range(3)]
        groups = [np.arange(ROWS) % 2, np.arange(ROWS) // 30, np.arange(ROWS) // 10 % 2]
        penalty = Penalty("kb", h=2, k=2, given="classes", memory=2, bias_corrected=True)
        state = penalty.init(*batches[0])
        for t, ((z, prediction), group) in enumerate(zip(batches, groups, strict=True)):
            label_of = jnp.asarray(group, jnp.int32)
            value, state = penalty.values(state, z, prediction, label_of, 2)
            before = max(t - 1, 0)
            all_z = np.concatenate([z, batches[before][0]])
            all_p = np.concatenate([prediction, batches[before][1]])
            all_group = np.concatenate([group, groups[before]])
            expected = []
            for column in all_p.T:
                for label in (0, 1):
                    chosen = all_group == label
                    raw = jnp.float32(exact_kb(all_z[chosen], column[chosen]))
                    size = chosen.sum() / (2 if t == 0 else 1)
                    expected.append(corrected(raw, size, 3))
            np.testing.assert_allclose(value, expected, atol=5e-6)


class TestWarmStart:
    def test_neural(self) -> None:
        (z, first), (_, second) = some_pair(5), some_pair(6)
        key = jax.random.key(7)
        penalty = Penalty("neural")
        state = penalty.init(z, first, key=key)
        before = hgr_jax.neural_fit(z, first, key=key)
        for prediction in (second, first):
            values, state = penalty.values(state, z, prediction)
            before = hgr_jax.neural_fit(z, prediction, key=key, init=before)
            np.testing.assert_allclose(values, [before.correlation], atol=1e-5)
        carried = jax.tree.map(lambda leaf: leaf[0], state.carried)
        chex.assert_trees_all_close(carried.f(z), before.f(z), atol=1e-3)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"threshold": 0}, ValueError, "threshold"),
        ({"threshold": -0.1}, ValueError, "threshold"),
        ({"threshold": 1.5}, ValueError, "threshold"),
        ({"threshold": np.float32(2)}, ValueError, "threshold"),
        ({"threshold": float("nan")}, ValueError, "threshold"),
        ({"threshold": "a"}, TypeError, "threshold"),
        ({"threshold": True}, TypeError, "threshold"),
        ({"measure": "nlc"}, ValueError, "measure"),
        ({"measure": 3}, ValueError, "measure"),
        ({"h": 0}, ValueError, "h"),
        ({"k": 1.5}, TypeError, "k"),
        ({"memory": 0}, ValueError, "memory"),
        ({"memory": 2.5}, TypeError, "memory"),
        ({"given": 1}, ValueError, "given"),
        ({"given": "groups"}, TypeError, "given"),
        ({"measure": "hsic", "given": "classes"}, ValueError, "given"),
        ({"measure": "neural", "given": 3}, ValueError, "given"),
        ({"bias_corrected": 1}, TypeError, "bias_corrected"),
        ({"measure": "hsic", "bias_corrected": True}, ValueError, "bias_corrected"),
        ({"h": jnp.sin, "bias_corrected": True}, ValueError, "bias_corrected"),
        ({"warm_start": "yes"}, TypeError, "warm_start"),
        ({"warm_start": False}, ValueError, "warm_start"),
        ({"measure": "sk", "warm_start": False}, ValueError, "warm_start"),
        ({"name": 3}, TypeError, "name"),
    ],
)
def test_impossible_penalties(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Penalty(**options)
