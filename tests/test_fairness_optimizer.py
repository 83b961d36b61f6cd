"""The optimiser of the estimators, beside optax's."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from fairness_support import some_data
from flax import nnx

from hgr_jax.fairness import MLP, FairMLPRegressor
from hgr_jax.fairness.optimizer import decaying_adamw
from hgr_jax.fairness.steps import _run_steps, first_state

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
    state = decaying_adamw(1e-3, 2.0, 10).init(nnx.state(network, nnx.Param))
    decays = [
        float(layer.kernel[...]) for layer in nnx.merge(nnx.graphdef(network), state.decay).layers
    ]
    assert decays == [2.0] * 11 + [0.0]


def test_other_settings_compile_nothing() -> None:
    x, y, z = some_data()
    settings: dict[str, Any] = {"hidden_layer_sizes": (8,), "h": 2, "k": 2, "random_state": 0}
    FairMLPRegressor(**settings, steps=10).fit(x, y, protected=z)
    sizes = [program._cache_size() for program in (_run_steps, first_state)]
    for other in ({"alpha": 0.0}, {"learning_rate": 0.01}, {"alpha": 1.0, "steps": 9}):
        FairMLPRegressor(**settings, **{"steps": 10} | other).fit(x, y, protected=z)
    assert [program._cache_size() for program in (_run_steps, first_state)] == sizes
