"""Fully connected networks: their layers, as they are asked for, and what they compute."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from hgr_jax._checks import check_choice, check_count

_FUNCTIONS = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "identity": lambda x: x,
}

Layers = tuple[tuple[int, ...], tuple[str, ...]]
"""Widths and activations of a network."""


def checked_layers(hidden: Any, activations: Any) -> tuple[Layers | None, Layers | None]:
    """Return the layers of either network, None where there is none."""
    widths, names = _as_pair_of("hidden", hidden), _as_pair_of("activations", activations)
    f, g = (
        None if of_side is None else _checked_network(of_side, names_of_side)
        for of_side, names_of_side in zip(widths, names, strict=True)
    )
    return f, g


def _as_pair_of(name: str, value: Any) -> tuple[Any, Any]:
    """Return a pair of sequences, or of None, from one sequence or such a pair."""
    if not isinstance(value, list | tuple):
        raise TypeError(f"{name} must be a tuple or a list; got {value!r}.")
    if not any(side is None or isinstance(side, list | tuple) for side in value):
        return value, value
    if len(value) != 2 or not all(side is None or isinstance(side, list | tuple) for side in value):
        raise ValueError(
            f"{name} must be one tuple for both networks, or a pair of these for (a, b);"
            f" got {value!r}."
        )
    return value[0], value[1]


def _checked_network(hidden: Any, activations: Any) -> Layers:
    if activations is None:
        raise ValueError("activations can be None only where hidden is.")
    widths = tuple(check_count("hidden", width) for width in hidden)
    names = tuple(check_choice("activations", name, tuple(_FUNCTIONS)) for name in activations)
    if len(names) != len(widths) + 1:
        raise ValueError(
            "activations must be one more than the hidden layers, the last for the output;"
            f" got {len(names)} for {len(widths)} hidden layer(s)."
        )
    return widths, names


class Network(nnx.Module):
    """A fully connected network, ``(n, p)`` to ``(n,)``.

    Weights and biases start uniform over ±1/sqrt(inputs of the layer), as in the source.
    """

    def __init__(
        self,
        inputs: int,
        hidden: tuple[int, ...],
        activations: tuple[str, ...],
        dtype: DTypeLike,
        rngs: nnx.Rngs,
    ) -> None:
        self.activations = activations
        self.layers = linear_layers((inputs, *hidden, 1), dtype, rngs)

    def __call__(self, x: Array) -> Array:
        """Return outputs ``(n,)`` at ``x (n, p)``; rows run along the last axis, for speed."""
        x = x.T
        for layer, name in zip(self.layers, self.activations, strict=True):
            assert layer.bias is not None
            x = _FUNCTIONS[name](layer.kernel[...].T @ x + layer.bias[...][:, None])
        return x[0]


def linear_layers(sizes: Sequence[int], dtype: DTypeLike, rngs: nnx.Rngs) -> nnx.List[nnx.Linear]:
    """Return layers between these sizes, uniform over ±1/sqrt(inputs of the layer)."""
    return nnx.List(
        [
            nnx.Linear(
                size,
                following,
                param_dtype=dtype,
                kernel_init=_uniform_init(size),
                bias_init=_uniform_init(size),
                rngs=rngs,
            )
            for size, following in itertools.pairwise(sizes)
        ]
    )


def _uniform_init(inputs: int) -> Any:
    bound = inputs**-0.5

    def init(key: Array, shape: Any, dtype: DTypeLike, out_sharding: Any = None) -> Array:
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return init
