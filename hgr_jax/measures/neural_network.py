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
from jax import Array, lax
from jax.typing import DTypeLike
from numpy.typing import ArrayLike

from hgr_jax._checks import check_count
from hgr_jax.core.arrays import as_key, as_pair, as_scalar
from hgr_jax.core.fits import TransformedPair, as_new_data, check_single, takes_one_value
from hgr_jax.core.numerics import row_mean, safe_divide, sign_of, standard_deviation
from hgr_jax.core.rows import over_rows, row_by_row
from hgr_jax.measures.classical import sample_correlation

HIDDEN = (15, 15, 15)
ACTIVATIONS = (jnp.tanh, jax.nn.relu, jnp.tanh, jnp.tanh)
"""Widths of the hidden layers, and the functions after these and after the output, of the paper."""

FIRST_STEPS = 1000
WARM_STEPS = 50
"""Default numbers of steps from random weights, and from a previous fit."""

Layers = tuple[tuple[Array, Array], ...]
"""Weights ``(inputs, outputs)`` and biases ``(outputs,)`` of each layer."""


def neural(
    a: ArrayLike,
    b: ArrayLike,
    *,
    key: Array,
    steps: int | None = None,
    learning_rate: ArrayLike = 5e-4,
    hidden: Sequence[int] = HIDDEN,
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
      hidden: widths of the three hidden layers of both networks, static.
      init: a previous fit of the same networks, traced: training goes on from its weights and
        optimiser state, and ``key`` is not used.

    Returns:
      A scalar in [0, 1], of the floating dtype of ``a`` and ``b``; the same for the same key.

    Raises:
      TypeError, ValueError: for other shapes, dtypes, keys or static arguments.
      ImportError: without optax.

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
    options: Any = {"steps": steps, "learning_rate": learning_rate, "hidden": hidden, "init": init}
    return neural_fit(a, b, key=key, **options).correlation


def neural_fit(
    a: ArrayLike,
    b: ArrayLike,
    *,
    key: Array,
    steps: int | None = None,
    learning_rate: ArrayLike = 5e-4,
    hidden: Sequence[int] = HIDDEN,
    init: NeuralFit | None = None,
) -> NeuralFit:
    """Fit HGR-NN: its networks, from which the next fit can start.

    Degenerate data, cost and source as in `neural`, whose value is the ``correlation`` of the
    result.

    Args:
      a, b, key, steps, learning_rate, hidden, init: as in `neural`.

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
    widths = tuple(check_count("hidden", width) for width in hidden)
    if len(widths) != len(HIDDEN):
        raise ValueError(f"hidden must be the widths of {len(HIDDEN)} layers; got {hidden!r}.")
    sizes = tuple((x.size // x.shape[0], *widths, 1) for x in (a, b))
    start = _initial_state(as_key(key), sizes, a.dtype)
    if init is not None:
        start = _state_of(init, start)
    if steps is None:
        steps = FIRST_STEPS if init is None else WARM_STEPS
    rate = as_scalar("learning_rate", learning_rate, a.dtype)
    return _train(a, b, start, rate, steps=check_count("steps", steps, least=0))


@functools.partial(jax.jit, static_argnames=("sizes", "dtype"))
def _initial_state(key: Array, sizes: tuple[tuple[int, ...], ...], dtype: DTypeLike) -> Any:
    """Return the layers of both networks, uniform over ±1/sqrt(inputs), and Adam's state."""

    def uniform(key: Array, shape: tuple[int, ...], inputs: int) -> Array:
        return jax.random.uniform(key, shape, dtype, -(inputs**-0.5), inputs**-0.5)

    fold = jax.random.fold_in
    networks = tuple(
        tuple(
            (uniform(fold(part, 2 * i), (p, q), p), uniform(fold(part, 2 * i + 1), (q,), p))
            for i, (p, q) in enumerate(itertools.pairwise(widths))
        )
        for part, widths in zip(jax.random.split(key), sizes, strict=True)
    )
    return networks, optax.adam(0.0).init(networks)


def _state_of(init: Any, like: Any) -> Any:
    """Return the networks of a fit and Adam's state, of the shapes and dtype of ``like``."""
    if not isinstance(init, NeuralFit):
        raise TypeError(
            f"init must be a fit (the result of neural_fit) or None; got {type(init).__name__}."
        )
    if init.correlation.ndim:
        raise ValueError("init must be one fit, not a batch; map over it: jax.vmap(...)(fits).")
    state = (init.f.layers, init.g.layers), init.optimizer_state
    kinds, expected = (
        [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)] for tree in (state, like)
    )
    if kinds != expected:
        raise ValueError("init must be a fit of the same networks, columns and dtype.")
    return state


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class NeuralTransform:
    """A trained network as a copula transformation, of zero mean and unit variance.

    Attributes:
      layers: weights ``(inputs, outputs)`` and biases ``(outputs,)`` of each layer.
      center, spread: subtracted from the columns of the variable, and what they are divided by.
      mean, scale: subtracted from the output of the network, and its factor.
    """

    layers: Layers
    center: Array
    spread: Array
    mean: Array
    scale: Array

    @takes_one_value
    def __call__(self, x: ArrayLike) -> Array:
        """Return values ``(n,)`` at ``x``, of as many columns as the data of the fit.

        A scalar at one number.
        """
        check_single(self.mean.shape)
        return _evaluate_network(as_new_data(x, self.center.shape[0], self.mean.dtype), self)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class NeuralFit(TransformedPair):
    """A fit of HGR-NN: ``correlation``, networks ``f`` and ``g``, and the optimiser's state."""

    f: NeuralTransform = dataclasses.field(repr=False)
    g: NeuralTransform = dataclasses.field(repr=False)
    optimizer_state: Any = dataclasses.field(repr=False)


@row_by_row(columns=1)
def _evaluate_network(x: Array, of: NeuralTransform) -> Array:
    return (_output(_inputs(x, of.center, of.spread), of.layers) - of.mean) * of.scale


def _inputs(x: Array, center: Array, spread: Array) -> Array:
    """Return scaled columns ``(p, n)``: in networks rows run along the last axis, for speed."""
    return ((x.reshape(x.shape[0], -1) - center[None, :]) / spread[None, :]).T


def _output(x: Array, layers: Layers) -> Array:
    """Return the output ``(n,)`` of a network at ``x (p, n)``."""
    for (weights, biases), activation in zip(layers, ACTIVATIONS, strict=True):
        x = activation(weights.T @ x + biases[:, None])
    return x[0]


@over_rows(columns=2, static=("steps",))
def _train(
    a: Array, b: Array, start: Any, learning_rate: Array, *, steps: int, count: Array | None
) -> NeuralFit:
    fixed = lax.stop_gradient((a, b))
    scalings = [_center_and_spread(x, count) for x in fixed]
    inputs = [_inputs(x, *scaling) for x, scaling in zip(fixed, scalings, strict=True)]
    optimizer = optax.adam(learning_rate)

    def loss(networks: tuple[Layers, Layers]) -> Array:
        f, g = map(_output, inputs, networks)
        return -sample_correlation(f, g, count)

    def step(state: Any, _: None) -> tuple[Any, None]:
        networks, optimizer_state = state
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer
            updates, optimizer_state = optimizer.update(jax.grad(loss)(networks), optimizer_state)
        return (optax.apply_updates(networks, updates), optimizer_state), None

    trained, _ = lax.scan(step, start, None, length=steps)
    networks, optimizer_state = lax.stop_gradient(trained)
    transforms = []
    for x, layers, scaling in zip(inputs, networks, scalings, strict=True):
        output = _output(x, layers)
        scale = safe_divide(1, standard_deviation(output, count))
        transforms.append(NeuralTransform(layers, *scaling, row_mean(output, count), scale))
    f, g = transforms
    f = dataclasses.replace(f, scale=sign_of(-loss(networks)) * f.scale)
    return NeuralFit(sample_correlation(f(a), g(b), count), f, g, optimizer_state)


def _center_and_spread(x: Array, count: Array | None) -> tuple[Array, Array]:
    """Return means and standard deviations of the columns; 1 for the deviation of a constant."""
    columns = x.reshape(x.shape[0], -1)
    spread = jax.vmap(standard_deviation, in_axes=(1, None))(columns, count)
    center = columns[0] + row_mean(columns - columns[:1], count)
    return center, jnp.where(spread == 0, 1, spread)
