"""The optimiser of the estimators, whose settings are numbers of its state."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

_rescaled = optax.scale_by_adam()
_zero_moments = jax.jit(_rescaled.init)


class DecayingState(NamedTuple):
    """Settings, the number of steps made, and the moments of Adam; ``decay`` is of each array."""

    learning_rate: Any
    decay: Any
    steps: Any
    done: Any
    adam: Any


def decaying_adamw(
    learning_rate: float, alpha: float, steps: int | None
) -> optax.GradientTransformation:
    """Return AdamW with a rate that is constant at first, and falls to 0 in the second half.

        rate_t = learning_rate / 2 * (1 + cos(pi * clip(2 t / steps - 1, 0, 1)))
        theta <- theta - rate_t * (adam(gradient) + alpha * theta)

    With a constant rate a constrained training goes to and fro around its threshold; the last
    steps of a falling one find it.  What decays are the weights of hidden layers.  Biases memorise
    nothing; and were the last layer to shrink, so would all predictions, which a measure of
    dependence does not see and only the loss could mend.  The settings are in the state, so that
    trainings of any settings share one program.

    Args:
      learning_rate: of the first half of the steps.
      alpha: decoupled weight decay.
      steps: after which the rate is 0; None for a constant one.

    Source: Loshchilov & Hutter, "Decoupled weight decay regularization" (2019).
    """
    end = np.float32(np.inf if steps is None else steps)

    def init(parameters: Any) -> DecayingState:
        leaves, structure = jax.tree.flatten(parameters)
        kernels = [place for place, values in enumerate(leaves) if values.ndim > 1]
        decays = [np.float32(alpha if i in kernels[:-1] else 0) for i in range(len(leaves))]
        decay = jax.tree.unflatten(structure, decays)
        start = np.zeros((), np.int32)
        return DecayingState(
            np.float32(learning_rate), decay, end, start, _zero_moments(parameters)
        )

    return optax.GradientTransformation(init, _update)


def _update(gradient: Any, state: DecayingState, parameters: Any) -> tuple[Any, DecayingState]:
    direction, adam = _rescaled.update(gradient, state.adam)
    late = jnp.clip(2 * state.done / state.steps - 1, 0, 1)
    rate = state.learning_rate / 2 * (1 + jnp.cos(jnp.pi * late))

    def change(along: Array, values: Array, decay: Array) -> Array:
        return (-rate * (along + decay * values)).astype(values.dtype)

    updates = jax.tree.map(change, direction, parameters, state.decay)
    return updates, state._replace(done=state.done + 1, adam=adam)
