"""The synthetic relationships of the paper, each with the transformations that generated it."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hgr_jax._checks import check_choice, check_count
from hgr_jax.core.arrays import as_key, as_nonnegative


@dataclasses.dataclass(frozen=True)
class Relationship:
    """A deterministic relationship ``f(a) = g(b)``, up to sign, to which noise can be added.

    Attributes:
      name: its key in `RELATIONSHIPS`.
      formula: the relationship as text.
      explains: ``"b"`` if b is a function of a and carries the noise, ``"a"`` if a is a function
        of b, ``"neither"`` if both carry noise.
      f, g: the oracle's transformations of a and of b, elementwise.
    """

    name: str
    formula: str
    explains: str
    f: Callable[[Array], Array]
    g: Callable[[Array], Array]


def _same(x: Array) -> Array:
    return x


def _cube(x: Array) -> Array:
    return x * x * x


def _sin(x: Array) -> Array:
    return jnp.sin(np.pi * x)


def _square_sin(x: Array) -> Array:
    return jnp.sin(jnp.square(np.pi * (x + 1)))


def _tanh(x: Array) -> Array:
    return jnp.tanh(10 * x)


RELATIONSHIPS = types.MappingProxyType(
    {
        relationship.name: relationship
        for relationship in (
            Relationship("linear", "b = a", "b", _same, _same),
            Relationship("x_square", "b = a²", "b", jnp.square, _same),
            Relationship("x_cubic", "b = a³", "b", _cube, _same),
            Relationship("y_square", "a = b²", "a", _same, jnp.square),
            Relationship("y_cubic", "a = b³", "a", _same, _cube),
            Relationship("circle", "a² + b² = 1", "neither", jnp.square, jnp.square),
            Relationship("sign", "b = sign(a)", "b", jnp.sign, _same),
            Relationship("relu", "b = max(0, a)", "b", jax.nn.relu, _same),
            Relationship("sin", "b = sin(π a)", "b", _sin, _same),
            Relationship("tanh", "b = tanh(10 a)", "b", _tanh, _same),
            Relationship("square_sin", "b = sin((π (a + 1))²)", "b", _square_sin, _same),
        )
    }
)
"""The relationships by name, read-only."""


def sample(name: str, key: Array, *, noise: Any = 0.0, size: int = 1001) -> tuple[Array, Array]:
    """Draw ``(a, b)`` from a relationship with Gaussian noise.

        b = f(a) + noise sd(f(a)) e,    a = -1, ..., 1 evenly spaced,    e ~ N(0, 1)

    if b is a function of a; a and b are exchanged if a is a function of b.  Both variables of the
    circle are noisy, each relative to its own standard deviation.

    Args:
      name: of the relationship, one of `RELATIONSHIPS`, static.
      key: a random key, as ``jax.random.key(0)`` makes, traced.
      noise: its standard deviation relative to that of the clean variable, traced.
      size: points of the grid, static; the circle has a point above and one below each of
        them, and so ``2 * size`` rows, as in the paper's experiments.

    Returns:
      ``a`` and ``b``, ``(n,)``, of JAX's default floating dtype; the same for the same key.

    Raises:
      TypeError, ValueError: for another name, key, noise or size.

    Source: Giuliani & Lombardi, "Robust Non-Linear Correlations via Polynomial Regression".

    Example:
      >>> import jax, hgr_jax
      >>> from hgr_jax.datasets import synthetic
      >>> a, b = synthetic.sample("sin", jax.random.key(0), noise=0.5)
      >>> sin = synthetic.RELATIONSHIPS["sin"]
      >>> print(f"{hgr_jax.oracle(a, b, f=sin.f, g=sin.g):.2f}")
      0.90
    """
    check_choice("name", name, tuple(RELATIONSHIPS))
    noise = as_nonnegative("noise", noise, jnp.result_type(float))
    return _draw(as_key(key), noise, name=name, size=check_count("size", size, least=2))


@functools.partial(jax.jit, static_argnames=("name", "size"))
def _draw(key: Array, noise: Array, *, name: str, size: int) -> tuple[Array, Array]:
    relationship = RELATIONSHIPS[name]
    grid = jnp.linspace(-1, 1, size, dtype=noise.dtype)
    if relationship.explains == "b":
        return grid, _noisy(relationship.f(grid), key, noise)
    if relationship.explains == "a":
        return _noisy(relationship.g(grid), key, noise), grid
    above = jnp.sqrt(1 - grid * grid)
    keys = jax.random.split(key)
    a, b = jnp.concatenate([grid, grid]), jnp.concatenate([above, -above])
    return _noisy(a, keys[0], noise), _noisy(b, keys[1], noise)


def _noisy(clean: Array, key: Array, noise: Array) -> Array:
    return clean + noise * jnp.std(clean) * jax.random.normal(key, clean.shape, clean.dtype)
