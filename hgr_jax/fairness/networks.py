"""A fully connected network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from hgr_jax.measures.neural_network import linear_layers

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "logistic": jax.nn.sigmoid,
    "identity": lambda x: x,
}


class MLP(nnx.Module):
    """A fully connected network, ``(n, inputs)`` to ``(n, outputs)``.

    Args:
      inputs, outputs: numbers of columns.
      hidden: widths of the hidden layers; none for a linear model.
      activation: after each hidden layer.
      rngs: of the initial weights and biases, uniform over ±1/sqrt(inputs of the layer).
    """

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int] = (32, 32),
        outputs: int = 1,
        *,
        activation: Callable[[Array], Array] = jax.nn.relu,
        rngs: nnx.Rngs,
    ) -> None:
        self.activation = activation
        self.layers = linear_layers((inputs, *hidden, outputs), jnp.float32, rngs)

    def __call__(self, x: Array) -> Any:
        """Return outputs ``(n, outputs)`` at ``x (n, inputs)``."""
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)


@nnx.jit(static_argnums=(0, 1, 2, 3))
def initialised_mlp(
    inputs: int, hidden: tuple[int, ...], outputs: int, activation: str, key: Array
) -> MLP:
    """Return an `MLP` whose weights are drawn in one compiled program."""
    return MLP(inputs, hidden, outputs, activation=ACTIVATIONS[activation], rngs=nnx.Rngs(key))
