"""Corrected penalties, and their gradients through a network."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from penalties_support import ROWS, exact_kb, measured, some_pair

import hgr_jax
from bench import reference
from hgr_jax.fairness import MLP, LagrangianDual, Penalty, corrected
from hgr_jax.fairness.steps import Program, Rows, TrainState, objective, split_network
from hgr_jax.fairness.tasks import TASKS


class TestBiasCorrected:
    def test_formula(self) -> None:
        z, prediction = some_pair(8)
        raw = jnp.float32(reference.kb(z, prediction, 1, 2))
        found = measured(Penalty("kb", h=1, k=2, bias_corrected=True), z, prediction)
        np.testing.assert_allclose(found, [corrected(raw, ROWS, 2)], atol=2e-6)
        assert 0 < found[0] < raw
        raw = jnp.float32(reference.sk(z, prediction, 2))
        found = measured(Penalty("sk", k=2, bias_corrected=True), z, prediction)
        np.testing.assert_allclose(found, [corrected(raw, ROWS, 2)], atol=2e-6)

    def test_with_memory(self) -> None:
        penalty = Penalty("kb", h=2, k=2, bias_corrected=True, memory=3)
        batches = [some_pair(seed) for seed in range(3)]
        state = penalty.init(*batches[0])
        for t in range(3):
            value, state = penalty.values(state, *batches[t])
            joined = [batches[i] if i >= 0 else batches[t] for i in (t, t - 1, t - 2)]
            raw = jnp.float32(exact_kb(*np.concatenate(joined, axis=1)))
            # Rows that stand for others do not count.
            expected = corrected(raw, (t + 1) * ROWS, 3)
            np.testing.assert_allclose(value, [expected], atol=3e-6)

    def test_categorical(self) -> None:
        z, prediction = some_pair(3)
        one_hot = jnp.asarray(np.eye(3)[np.digitize(z, [-0.5, 0.5])], jnp.float32)
        level = reference.orthonormal_features(one_hot)
        raw = jnp.float32(
            reference.canonical_correlation(
                level, reference.orthonormal_features(prediction[:, None])
            )
        )
        found = measured(Penalty("kb", k=1, bias_corrected=True), one_hot, prediction)
        np.testing.assert_allclose(found, [corrected(raw, ROWS, 2)], atol=2e-6)


def test_another_threshold_compiles_nothing() -> None:
    z, prediction = some_pair(1)
    traces = []

    @jax.jit
    def violation(penalty: Penalty, prediction: jax.Array) -> jax.Array:
        traces.append(penalty)
        return penalty.excess(measured(penalty, z, prediction))

    value = float(abs(hgr_jax.pearson(z, prediction)))
    for threshold in (value / 2, value / 4, 1.0):
        found = violation(Penalty("pearson", threshold), prediction)
        np.testing.assert_allclose(found, [max(0, value - threshold)], atol=1e-6)
    assert len(traces) == 1
    slope = jax.grad(lambda penalty: violation(penalty, prediction)[0])(Penalty("pearson", 0.1))
    assert slope.threshold == -1


def directional(function: Any, at: Any, along: Any, step: float) -> float:
    ends = [
        function(jax.tree.map(lambda p, d, s=sign: p + s * step * d, at, along)) for sign in (1, -1)
    ]
    return float(ends[0] - ends[1]) / (2 * step)


class TestGradientThroughANetwork:
    def problem(self, threshold: float, dtype: Any) -> tuple[Any, ...]:
        rng = np.random.default_rng(0)
        x = jnp.asarray(rng.standard_normal((ROWS, 2)), dtype)
        z = x[:, 0] ** 2 + jnp.asarray(rng.standard_normal(ROWS), dtype) / 4
        y = z + x[:, 1]
        network = MLP(2, (4,), activation=jnp.tanh, rngs=nnx.Rngs(0))
        graph, parameters, variables = split_network(network)
        parameters = jax.tree.map(lambda leaf: leaf.astype(dtype), parameters)
        penalties = (Penalty("kb", threshold, h=2, k=2),)
        dual, adam = LagrangianDual(), optax.adam(1e-3)
        state = TrainState(
            step=jnp.zeros((), jnp.int32),
            parameters=parameters,
            variables=variables,
            optimizer_state=adam.init(parameters),
            dual=dual.init(jnp.array([2.5], dtype)),
            penalties=(penalties[0].init(z, z),),
        )
        program = Program(graph, graph, TASKS["squared_error"], adam, dual, (1,))
        return program, penalties, state, Rows(x, y, (z,), (None,))

    @pytest.mark.usefixtures("x64")
    def test_against_finite_differences(self, rng: np.random.Generator) -> None:
        program, penalties, state, rows = self.problem(0.1, jnp.float64)

        @jax.jit
        @functools.partial(jax.value_and_grad, has_aux=True)
        def whole(parameters: Any) -> Any:
            loss, (_, task_loss, *_) = objective(program, penalties, state, rows, None, parameters)
            return loss, task_loss

        (loss, task_loss), gradient = whole(state.parameters)
        assert loss > task_loss + 0.2  # the penalty has a say
        for _ in range(4):
            along = jax.tree.map(
                lambda leaf: jnp.asarray(rng.standard_normal(leaf.shape)), state.parameters
            )
            exact = optax.tree_utils.tree_vdot(gradient, along)
            found = directional(lambda p: whole(p)[0][0], state.parameters, along, 1e-5)
            np.testing.assert_allclose(exact, found, rtol=1e-5)

    def test_no_violation_no_trace_of_it(self) -> None:
        program, penalties, state, rows = self.problem(1.0, jnp.float32)

        def gradient(penalties: Any, rows: Rows) -> Any:
            chosen = dataclasses.replace(program, groups=(1,) * len(penalties))
            kept = dataclasses.replace(state, penalties=state.penalties[: len(penalties)])
            function = functools.partial(objective, chosen, penalties, kept, rows, None)
            return jax.grad(lambda p: function(p)[0])(state.parameters)

        bare = gradient((), rows._replace(z=(), group=()))
        chex.assert_trees_all_equal(gradient(penalties, rows), bare)
        violated = gradient((Penalty("kb", 0.05, h=2, k=2),), rows)
        with pytest.raises(AssertionError):
            chex.assert_trees_all_equal(violated, bare)
