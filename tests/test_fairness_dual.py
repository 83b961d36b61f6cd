"""The Lagrangian dual against a loop in NumPy, and in a training loop of one's own."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bench import reference
from hgr_jax.fairness import DualState, LagrangianDual, Penalty

FALLING = LagrangianDual(optax.sgd(0.5))
RISING = LagrangianDual(optax.sgd(0.5), two_sided=False)
ADAM = LagrangianDual()

violations_of_ten_steps = hnp.arrays(np.float32, (10, 2), elements=st.floats(-1, 1, width=32))


def run(dual: LagrangianDual, state: DualState, violations: Any) -> Any:
    def step(state: DualState, violation: jax.Array) -> Any:
        state = dual.update(violation, state)
        return state, state.multipliers

    return jax.lax.scan(step, state, violations)


runs = {
    dual: jax.jit(lambda violations, dual=dual: run(dual, dual.init(2), violations)[1])
    for dual in (FALLING, RISING, ADAM)
}


@given(violations_of_ten_steps)
def test_sgd_against_a_loop(violations: np.ndarray) -> None:
    for dual in (FALLING, RISING):
        expected, multipliers = [], np.zeros(2)
        for violation in violations:
            step = violation if dual.two_sided else np.maximum(violation, 0)
            multipliers = np.maximum(0, multipliers + 0.5 * step)
            expected.append(multipliers)
        found = runs[dual](violations)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert (np.diff(found, axis=0) >= 0).all() or dual.two_sided


@settings(max_examples=30)
@given(violations_of_ten_steps)
def test_never_negative(violations: np.ndarray) -> None:
    for dual in (FALLING, RISING, ADAM):
        assert (np.asarray(runs[dual](violations)) >= 0).all()


def test_adam_is_the_default() -> None:
    found = runs[ADAM](jnp.ones((10, 2)) * jnp.array([[0.3, -0.3]]))
    # Adam's first steps are of the learning rate, whatever the gradient.
    np.testing.assert_allclose(found[:, 0], 2e-3 * np.arange(1, 11), rtol=1e-4)
    np.testing.assert_array_equal(found[:, 1], 0)


def test_start() -> None:
    np.testing.assert_array_equal(ADAM.init().multipliers, [0])
    np.testing.assert_array_equal(ADAM.init(3).multipliers, [0, 0, 0])
    state = FALLING.init([0.5, 2])
    np.testing.assert_array_equal(state.multipliers, np.array([0.5, 2], np.float32))
    after = FALLING.update(jnp.array([-0.5, 0.5]), state)
    np.testing.assert_allclose(after.multipliers, [0.25, 2.25])
    after = RISING.update(jnp.array([-0.5, 0.5]), state)
    np.testing.assert_allclose(after.multipliers, [0.5, 2.25])
    with pytest.raises(ValueError, match="at least 0"):
        FALLING.init([0.5, -0.1])
    with pytest.raises(ValueError, match="at least 0"):
        FALLING.init([0.5, np.nan])
    with pytest.raises(ValueError, match="multipliers"):
        FALLING.init(-1)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_dtype(dtype: Any) -> None:
    state = ADAM.init(2, dtype=dtype)
    other = jnp.ones(2, jnp.float64 if dtype == jnp.float32 else jnp.float32)
    for _ in range(2):
        state = ADAM.update(other, state)
        assert state.multipliers.dtype == dtype
    assert ADAM.init(2).multipliers.dtype == jnp.float64


def test_transformations_of_jax(rng: np.random.Generator) -> None:
    violations = jnp.asarray(rng.uniform(-1, 1, (3, 2)), jnp.float32)
    starts = jnp.asarray(rng.uniform(size=(3, 2)), jnp.float32)
    expected = np.maximum(0, starts + 0.5 * violations)

    def after(start: jax.Array, violation: jax.Array) -> jax.Array:
        return FALLING.update(violation, FALLING.init(start)).multipliers

    np.testing.assert_allclose(jax.jit(jax.vmap(after))(starts, violations), expected, atol=1e-7)
    # The loss of the network does not see the ascent.
    slope = jax.grad(lambda v: jnp.sum(after(starts[0], v)))(violations[0])
    np.testing.assert_array_equal(slope, 0)


def test_a_training_loop_of_ones_own(rng: np.random.Generator) -> None:
    x = rng.standard_normal((300, 2)).astype(np.float32)
    z = x[:, 0]
    y = jnp.asarray(z**2 + x[:, 1] / 2)
    features = jnp.asarray(np.stack([x[:, 0], x[:, 1], x[:, 0] ** 2, x[:, 1] ** 2], axis=1))
    penalty = Penalty("kb", threshold=0.3, h=3, k=1)
    dual, optimizer = LagrangianDual(optax.sgd(0.3)), optax.adam(0.03)

    def loss(parameters: Any, multipliers: jax.Array, state: Any) -> Any:
        prediction = features @ parameters["slopes"] + parameters["offset"]
        values, state = penalty.values(state, jnp.asarray(z), prediction)
        task = jnp.mean((prediction - y) ** 2)
        return task + multipliers @ penalty.excess(values), (values, state)

    def step(carry: Any, _: None) -> Any:
        parameters, optimizer_state, multipliers, state = carry
        gradient, (values, state) = jax.grad(loss, has_aux=True)(
            parameters, multipliers.multipliers, state
        )
        with jax.numpy_dtype_promotion("standard"):
            updates, optimizer_state = optimizer.update(gradient, optimizer_state)
        parameters = optax.apply_updates(parameters, updates)
        multipliers = dual.update(values - penalty.threshold, multipliers)
        return (parameters, optimizer_state, multipliers, state), values

    parameters = {"slopes": jnp.full(4, 0.1), "offset": jnp.zeros(())}
    start = (parameters, optimizer.init(parameters), dual.init(1), penalty.init(jnp.asarray(z), y))
    (trained, _, multipliers, _), values = jax.jit(
        lambda start: jax.lax.scan(step, start, None, 500)
    )(start)
    prediction = features @ trained["slopes"] + trained["offset"]
    assert reference.kb(z, prediction, 3, 1) <= 0.3 + 0.02
    assert reference.kb(z, y, 3, 1) > 0.8
    assert values[0, 0] > 0.3  # it had to be brought down
    assert multipliers.multipliers[0] > 0
    assert np.corrcoef(prediction, y)[0, 1] > 0.4
