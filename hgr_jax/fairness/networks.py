"""The network that is trained, its task (loss, prediction, score), and its optimiser."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import Array
from numpy.typing import NDArray


@dataclasses.dataclass(frozen=True)
class Task:
    """The task of a network: its loss and its prediction.

    Args:
      loss: ``(output, y) -> scalar``, minimised; with a keyword ``weights (n,)``, of mean 1, if it
        is to be trained with ``sample_weight``.
      prediction: ``output -> prediction``, ``(n,)`` or ``(n, columns)``, whose dependence on the
        protected attribute is penalised.
      check: ``(y, output shape)``, raises a ValueError for unsuitable targets; or None.
    """

    loss: Callable[..., Array]
    prediction: Callable[[Array], Array]
    check: Callable[[NDArray[Any], tuple[int, ...]], None] | None = None


def _mean(values: Array, weights: Array | None) -> Array:
    return jnp.mean(values) if weights is None else jnp.sum(weights * values) / jnp.sum(weights)


def squared_error(output: Array, y: Array, weights: Array | None = None) -> Array:
    """Return the mean squared error."""
    square = jnp.square(output - y)
    return _mean(square if square.ndim == 1 else jnp.mean(square, axis=1), weights)


def log_loss(output: Array, y: Array, weights: Array | None = None) -> Array:
    """Return mean cross-entropy of logits ``(n,)`` (y in {0, 1}) or ``(n, classes)`` (labels)."""
    if output.ndim == 1:
        return _mean(optax.losses.sigmoid_binary_cross_entropy(output, y), weights)
    labels = jax.nn.one_hot(y.astype(jnp.int32), output.shape[1], dtype=output.dtype)
    return _mean(optax.losses.softmax_cross_entropy(output, labels), weights)


def probabilities(output: Array) -> Array:
    """Return probabilities of class 1 from logits ``(n,)``, or of each from ``(n, classes)``."""
    return jax.nn.sigmoid(output) if output.ndim == 1 else jax.nn.softmax(output)


def identity(output: Array) -> Array:
    """Return the output itself."""
    return output


def check_values(y: NDArray[Any], shape: tuple[int, ...]) -> None:
    """Raise unless targets of squared error have the shape of the output."""
    if y.shape != shape:
        raise ValueError(
            f"y must have the shape of the network's output, {shape}; got shape {y.shape}."
        )


def check_labels(y: NDArray[Any], shape: tuple[int, ...]) -> None:
    """Raise unless targets of log loss are the labels of an output of this shape."""
    classes = 2 if len(shape) == 1 else shape[1]
    if y.shape != shape[:1] or not np.isin(y, np.arange(classes)).all():
        raise ValueError(
            f"y must hold labels from 0 to {classes - 1}, shape {shape[:1]}, as the network has"
            f" outputs of shape {shape}; got shape {y.shape}, from {y.min():g} to {y.max():g}."
        )


TASKS = {
    "squared_error": Task(squared_error, identity, check_values),
    "log_loss": Task(log_loss, probabilities, check_labels),
}


def as_task(value: Any) -> Task:
    """Return a task, from one, its name, or a loss ``(output, y) -> scalar``."""
    if isinstance(value, Task):
        return value
    if isinstance(value, str) and value in TASKS:
        return TASKS[value]
    if callable(value):
        return Task(value, identity)
    names = ", ".join(repr(name) for name in TASKS)
    raise ValueError(
        f"task must be one of {names}, a Task, or a loss (output, y) -> scalar; got {value!r}."
    )


class MLP(nnx.Module):
    """A fully connected network, ``(n, inputs)`` to ``(n, outputs)``.

    Args:
      inputs, outputs: numbers of columns.
      hidden: widths of the hidden layers, of rectified linear units; none for a linear model.
      rngs: of the initial weights and biases, uniform over ±1/sqrt(inputs of the layer).
    """

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int] = (32, 32),
        outputs: int = 1,
        *,
        rngs: nnx.Rngs,
    ) -> None:
        sizes = itertools.pairwise((inputs, *hidden, outputs))
        self.layers = nnx.List([_linear(*size, rngs) for size in sizes])

    def __call__(self, x: Array) -> Any:
        """Return outputs ``(n, outputs)`` at ``x (n, inputs)``."""
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        return self.layers[-1](x)


def _linear(inputs: int, outputs: int, rngs: nnx.Rngs) -> nnx.Linear:
    def init(key: Array, shape: Any, dtype: Any, out_sharding: Any = None) -> Array:
        return jax.random.uniform(key, shape, dtype, -(inputs**-0.5), inputs**-0.5)

    return nnx.Linear(inputs, outputs, kernel_init=init, bias_init=init, rngs=rngs)


@nnx.jit(static_argnums=(0, 1, 2))
def initialised_mlp(inputs: int, hidden: tuple[int, ...], outputs: int, key: Array) -> MLP:
    """Return an `MLP` whose weights are drawn in one compiled program."""
    return MLP(inputs, hidden, outputs, rngs=nnx.Rngs(key))


def _adamw(learning_rate: Any, weight_decay: Any, steps: Any) -> optax.GradientTransformation:
    def rate(done: Array) -> Array:
        late = jnp.clip(2 * done / steps - 1, 0, 1)
        return learning_rate / 2 * (1 + jnp.cos(jnp.pi * late))

    return optax.adamw(rate, weight_decay=weight_decay, mask=_hidden_kernels)


def _hidden_kernels(parameters: Any) -> Any:
    """Return which arrays are weights of hidden layers: two axes, and not the last such array."""
    leaves, structure = jax.tree.flatten(parameters)
    kernels = [place for place, values in enumerate(leaves) if values.ndim > 1]
    return jax.tree.unflatten(structure, [i in kernels[:-1] for i in range(len(leaves))])


# A single object whose settings are part of its state, so that all settings share a program.
_injected = optax.inject_hyperparams(_adamw)(learning_rate=1e-3, weight_decay=1.0, steps=np.inf)
_first_state = jax.jit(_injected.init)


def decaying_adamw(
    learning_rate: float, alpha: float, steps: int | None
) -> optax.GradientTransformation:
    """Return AdamW whose rate falls to 0 in the second half of the steps (None: it is constant).

        rate_t = learning_rate / 2 * (1 + cos(pi * clip(2 t / steps - 1, 0, 1)))
        theta <- theta - rate_t * (adam(gradient) + alpha * theta)

    With a constant rate a constrained training oscillates around its threshold.  Only weights of
    hidden layers decay: a measure of dependence does not see a shrinkage of all predictions.

    Source: Loshchilov & Hutter, "Decoupled weight decay regularization" (2019).
    """
    settings = {
        "learning_rate": np.float32(learning_rate),
        "weight_decay": np.float32(alpha),
        "steps": np.float32(np.inf if steps is None else steps),
    }

    def init(parameters: Any) -> Any:
        return _first_state(parameters)._replace(hyperparams=settings)

    return optax.GradientTransformation(init, _injected.update)
