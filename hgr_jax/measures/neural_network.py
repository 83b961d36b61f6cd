"""HGR-NN: two small networks, trained to make their outputs correlate."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import Array, lax
from jax.typing import DTypeLike
from numpy.typing import ArrayLike

from hgr_jax._checks import as_key, as_pair, as_scalar, check_choice, check_count
from hgr_jax.core.fits import TransformedPair, as_new_data, check_single, takes_one_value
from hgr_jax.core.numerics import row_mean, safe_divide, standard_deviation
from hgr_jax.core.rows import over_rows, row_by_row
from hgr_jax.measures.classical import sample_correlation

HIDDEN = (15, 15, 15)
PAPER_ACTIVATIONS = ("tanh", "relu", "tanh", "tanh")

FIRST_STEPS = 1000
WARM_STEPS = 50
"""Default numbers of steps from random weights, and from a previous fit."""


def neural(
    a: ArrayLike,
    b: ArrayLike,
    *,
    key: Array,
    steps: int | None = None,
    learning_rate: ArrayLike = 5e-4,
    hidden: Sequence[int] = HIDDEN,
    activations: Sequence[str] = PAPER_ACTIVATIONS,
    init: NeuralFit | None = None,
) -> Array:
    """Return HGR-NN, the correlation that two networks reach by gradient ascent.

        HGR-NN(a, b) = rho(F(a), G(b)),    (F, G) <- Adam ascent on rho(F(a), G(b))

    F and G are fully connected networks of the standardised variables, 1-15-15-15-1 with tanh,
    relu, tanh and tanh, trained on all rows at once.  The result depends on the key and on the
    number of steps; it is not a maximum.

    Args:
      a, b: real arrays ``(n,)``, or ``(n, p)``, traced.
      key: a random key, as ``jax.random.key(0)`` makes, for the initial weights; traced.
      steps: of the optimiser, >= 0, static; None for 1000, or 50 from ``init``.
      learning_rate: of Adam, traced.
      hidden: widths of the hidden layers of both networks, static.
      activations: after each hidden layer and after the output, static: ``"tanh"``, ``"relu"`` or
        ``"identity"``, one more than there are hidden layers.
      init: a previous fit of the same networks, traced: training goes on from its weights and
        optimiser state, and ``key`` is not used.

    Returns:
      A scalar in [0, 1], of the floating dtype of ``a`` and ``b``; the same for the same key.

    Raises:
      TypeError, ValueError: for other shapes, dtypes, keys or static arguments.
      ImportError: without flax or optax.

    Derivatives: with respect to ``a`` and ``b``, with the networks held fixed, in both modes; at an
    optimum this is the gradient, by the envelope theorem.  Degenerate data: a constant ``a`` or
    ``b`` gives 0 with zero derivatives; NaN or infinity gives NaN.  Cost: about ``steps`` times a
    forward and backward pass over all rows.

    Source: Grari, Lamprier & Detyniecki, "Fairness-Aware Neural Rényi Minimization for
    Continuous Features" (2020).

    Example:
      >>> import jax, jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 101)
      >>> print(bool(hgr_jax.neural(a, a**2, key=jax.random.key(0)) > 0.98))
      True
    """
    return neural_fit(
        a,
        b,
        key=key,
        steps=steps,
        learning_rate=learning_rate,
        hidden=hidden,
        activations=activations,
        init=init,
    ).correlation


def neural_fit(
    a: ArrayLike,
    b: ArrayLike,
    *,
    key: Array,
    steps: int | None = None,
    learning_rate: ArrayLike = 5e-4,
    hidden: Sequence[int] = HIDDEN,
    activations: Sequence[str] = PAPER_ACTIVATIONS,
    init: NeuralFit | None = None,
) -> NeuralFit:
    """Fit HGR-NN: its networks, from which the next fit can start.

    Degenerate data, cost and source as in `neural`, whose value is the ``correlation`` of the
    result.

    Args:
      a, b, key, steps, learning_rate, hidden, activations, init: as in `neural`.

    Returns:
      A `NeuralFit`, whose ``f`` and ``g`` are `NeuralTransform`.

    Raises:
      TypeError, ValueError, ImportError: as `neural` does.

    Example:
      >>> import jax, jax.numpy as jnp, hgr_jax
      >>> a, key = jnp.linspace(-1, 1, 101), jax.random.key(0)
      >>> fit = hgr_jax.neural_fit(a, a**2, key=key)
      >>> moved = hgr_jax.neural_fit(a, a**2 + a / 10, key=key, init=fit)  # 50 more steps
      >>> print(bool(moved.score(a, a**2 + a / 10) > 0.98))
      True
    """
    a, b = as_pair(a, b)
    key = as_key(key)
    layers = _check_layers(hidden, activations)
    columns = a.size // a.shape[0], b.size // b.shape[0]
    if steps is None:
        steps = FIRST_STEPS if init is None else WARM_STEPS
    graphs = tuple(_graph(inputs, layers, a.dtype) for inputs in columns)
    if init is None:
        states, optimizer_state = _init_states(key, columns, layers, a.dtype)
    else:
        states, optimizer_state = _states_of(init, graphs)
    return _train(
        a,
        b,
        states,
        optimizer_state,
        as_scalar("learning_rate", learning_rate, a.dtype),
        graphs=graphs,
        steps=check_count("steps", steps, least=0),
    )


def _states_of(init: Any, graphs: tuple[Any, ...]) -> tuple[tuple[Any, Any], Any]:
    if not isinstance(init, NeuralFit):
        raise TypeError(
            f"init must be a fit (the result of neural_fit) or None; got {type(init).__name__}."
        )
    if init.correlation.ndim:
        raise ValueError("init must be one fit, not a batch; map over it: jax.vmap(...)(fits).")
    if (init.f.graph, init.g.graph) != graphs:
        raise ValueError(
            "init must be a fit of the same networks: as many columns of a and b, the same"
            " hidden layers, activations and dtype."
        )
    return (init.f.state, init.g.state), init.optimizer_state


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Scaler:
    """Scale columns to zero mean and unit variance on the fitted data; constants only shift."""

    center: Array
    spread: Array

    def __call__(self, x: Array) -> Array:
        return (x.reshape(x.shape[0], -1) - self.center[None, :]) / self.spread[None, :]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class NeuralTransform:
    """A trained network as a copula transformation, of zero mean and unit variance.

    ``nnx.merge(graph, state)`` is the network, a `flax.nnx` module of the standardised variable.
    """

    graph: nnx.GraphDef[Network] = dataclasses.field(metadata={"static": True})
    state: Any
    scaler: _Scaler
    mean: Array
    scale: Array

    @takes_one_value
    def __call__(self, x: ArrayLike) -> Array:
        """Return values ``(n,)`` at ``x``, of as many columns as the data of the fit.

        A scalar at one number.
        """
        check_single(self.mean.shape)
        x = as_new_data(x, self.scaler.center.shape[0], self.mean.dtype)
        return _evaluate_network(x, self)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class NeuralFit(TransformedPair):
    """A fit of HGR-NN: ``correlation``, networks ``f`` and ``g``, and the optimiser's state."""

    f: NeuralTransform = dataclasses.field(repr=False)
    g: NeuralTransform = dataclasses.field(repr=False)
    optimizer_state: Any = dataclasses.field(repr=False)


@row_by_row(columns=1)
def _evaluate_network(x: Array, transform: NeuralTransform) -> Array:
    output = nnx.merge(transform.graph, transform.state)(transform.scaler(x))
    return (output - transform.mean) * transform.scale


@functools.partial(jax.jit, static_argnames=("columns", "layers", "dtype"))
def _init_states(
    key: Array,
    columns: tuple[int, int],
    layers: Layers,
    dtype: DTypeLike,
) -> tuple[tuple[Any, Any], Any]:
    """Return initial states of both networks and their optimiser."""
    states = tuple(
        nnx.state(Network(inputs, *layers, dtype, nnx.Rngs(part)))
        for inputs, part in zip(columns, jax.random.split(key), strict=True)
    )
    return (states[0], states[1]), optax.adam(0.0).init(states)


@functools.cache
def _graph(inputs: int, layers: Layers, dtype: DTypeLike) -> nnx.GraphDef[Network]:
    """Return the static part of a network, without computing weights."""
    network = nnx.eval_shape(lambda: Network(inputs, *layers, dtype, nnx.Rngs(0)))
    return nnx.graphdef(network)


@over_rows(columns=2, static=("graphs", "steps"))
def _train(
    a: Array,
    b: Array,
    states: tuple[Any, Any],
    optimizer_state: Any,
    learning_rate: Array,
    *,
    graphs: tuple[Any, Any],
    steps: int,
    count: Array | None,
) -> NeuralFit:
    scalers = tuple(_scaler(lax.stop_gradient(x), count) for x in (a, b))
    inputs = tuple(scaler(lax.stop_gradient(x)) for scaler, x in zip(scalers, (a, b), strict=True))
    optimizer = optax.adam(learning_rate)

    def outputs(states: Any) -> tuple[Array, Array]:
        f, g = (
            nnx.merge(graph, state)(x)
            for graph, state, x in zip(graphs, states, inputs, strict=True)
        )
        return f, g

    def loss(states: Any) -> Array:
        return -sample_correlation(*outputs(states), count)

    def step(carry: Any, _: None) -> tuple[Any, None]:
        states, optimizer_state = carry
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer
            updates, optimizer_state = optimizer.update(jax.grad(loss)(states), optimizer_state)
        return (optax.apply_updates(states, updates), optimizer_state), None

    trained, _ = lax.scan(step, (states, optimizer_state), None, length=steps)
    states, optimizer_state = lax.stop_gradient(trained)
    values = outputs(states)
    sign = jnp.where(sample_correlation(*values, count) < 0, -1, 1).astype(a.dtype)
    f, g = (
        NeuralTransform(
            graph,
            state,
            scaler,
            mean=row_mean(value, count),
            scale=safe_divide(unit, standard_deviation(value, count)),
        )
        for graph, state, scaler, value, unit in zip(
            graphs, states, scalers, values, (sign, jnp.ones_like(sign)), strict=True
        )
    )
    return NeuralFit(sample_correlation(f(a), g(b), count), f, g, optimizer_state)


def _scaler(x: Array, count: Array | None) -> _Scaler:
    columns = x.reshape(x.shape[0], -1)
    spread = jax.vmap(standard_deviation, in_axes=(1, None))(columns, count)
    center = columns[0] + row_mean(columns - columns[:1], count)
    return _Scaler(center, jnp.where(spread == 0, 1, spread))


_FUNCTIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu, "identity": lambda x: x}

Layers = tuple[tuple[int, ...], tuple[str, ...]]
"""Widths and activations of both networks."""


def _check_layers(hidden: Any, activations: Any) -> Layers:
    for name, value in (("hidden", hidden), ("activations", activations)):
        if not isinstance(value, list | tuple):
            raise TypeError(f"{name} must be a tuple or a list; got {value!r}.")
    widths = tuple(check_count("hidden", width) for width in hidden)
    names = tuple(check_choice("activations", name, tuple(_FUNCTIONS)) for name in activations)
    if len(names) != len(widths) + 1:
        raise ValueError(
            "activations must be one more than the hidden layers, the last for the output;"
            f" got {len(names)} for {len(widths)} hidden layer(s)."
        )
    return widths, names


class Network(nnx.Module):
    """A fully connected network, ``(n, p)`` to ``(n,)``, with the initial weights of the source."""

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
