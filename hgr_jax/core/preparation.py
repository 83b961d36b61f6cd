"""Two variables made ready to be solved: weights, dropped rows, and what kernels make of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from hgr_jax.core.fitting import fit_polynomials
from hgr_jax.core.kernels import Encoder, KernelLike
from hgr_jax.core.numerics import equal_weights

SINGLE_KERNEL = "single_kernel"


@dataclasses.dataclass(frozen=True)
class CCAProblem:
    """What is static: the degree of each side (None for given features) and the method.

    ``linear`` counts the leading basis functions of each side that span its linear functions;
    only the single-kernel method reads it.
    """

    degrees: tuple[int | None, int | None]
    method: str
    linear: tuple[int, int] = (1, 1)


@dataclasses.dataclass(frozen=True)
class PreparedPair:
    """Two variables, ready to be solved: see `prepare`."""

    problem: CCAProblem
    encoders: tuple[Encoder, Encoder]
    a: Array
    b: Array
    weights: Array | None
    count: Array | None


def prepare(
    kernels: tuple[KernelLike, KernelLike],
    method: str,
    a: Array,
    b: Array,
    weights: Array | None,
    count: Array | None = None,
    *,
    names: tuple[str, str] = ("h", "k"),
) -> PreparedPair:
    """Normalise weights, put harmless values in dropped rows, and apply the kernels.

    Args:
      kernels: of a and of b, checked.
      method: a solver of `solvers.top_pair`, or `SINGLE_KERNEL`.
      a, b: ``(n,)`` or ``(n, p)``, of one floating dtype.
      weights: ``(n,)`` or None.
      count: how many of the rows are data; None for all.  Weights are 0 in the others.
      names: what the caller calls the kernels, for errors.
    """
    plain = not any(callable(kernel) for kernel in kernels) and a.ndim == b.ndim == 1
    if weights is not None:
        weights, count = normalised(weights), None
    elif count is not None and not plain:
        weights, count = equal_weights(count, a), None
    a, b = without_dropped_rows(a, weights), without_dropped_rows(b, weights)
    encoder_a, features_a = _encode(kernels[0], a, weights, names[0])
    encoder_b, features_b = _encode(kernels[1], b, weights, names[1])
    problem = CCAProblem(
        degrees=(_degree(encoder_a, features_a), _degree(encoder_b, features_b)),
        method=method,
        linear=(encoder_a.variables or 1, encoder_b.variables or 1),
    )
    return PreparedPair(problem, (encoder_a, encoder_b), features_a, features_b, weights, count)


def _degree(encoder: Encoder, features: Array) -> int | None:
    return None if callable(encoder.kernel) or features.ndim == 2 else encoder.kernel


def normalised(weights: Array) -> Array:
    """Weights that sum to 1; a negative one makes all of them NaN."""
    weights = jnp.where(jnp.min(weights) >= 0, weights, jnp.nan)
    largest = lax.stop_gradient(jnp.max(weights))
    # Powers of two, so that neither the sum nor its reciprocal leaves the range of float32.
    unit = jnp.where(largest > 2.0**64, 2.0**-64, jnp.where(largest < 2.0**-64, 2.0**64, 1.0))
    weights = weights * unit.astype(weights.dtype)
    return weights / jnp.sum(weights)


def without_dropped_rows(x: Array, weights: Array | None) -> Array:
    """Rows of zero weight moved into the range of the others, where their value is harmless."""
    if weights is None:
        return x
    counts = (weights > 0)[:, None] if x.ndim == 2 else weights > 0
    low = jnp.min(jnp.where(counts, x, jnp.inf), axis=0, keepdims=True)
    high = jnp.max(jnp.where(counts, x, -jnp.inf), axis=0, keepdims=True)
    inside = jnp.clip(jnp.where(jnp.isnan(x), low, x), low, high)
    return jnp.where(counts, x, inside)


def _encode(
    kernel: KernelLike, x: Array, weights: Array | None, name: str
) -> tuple[Encoder, Array]:
    """A kernel ready for new data, and what it makes of ``x``: ``(n,)`` or features ``(n, m)``."""
    factors = None
    if not callable(kernel) and x.ndim == 2 and x.shape[1] > 1:
        columns = lax.stop_gradient(tuple(x.T))
        weights = None if weights is None else lax.stop_gradient(weights)
        fitted = fit_polynomials(columns, (kernel,) * len(columns), weights)
        factors = lax.stop_gradient(fitted.basis)
    encoder = Encoder(kernel=kernel, factors=factors)
    features: Any = encoder(x)
    if callable(kernel):
        if isinstance(features, np.ndarray):
            features = jnp.asarray(features)
        shape = features.shape if isinstance(features, Array) else None
        if shape is None or len(shape) != 2 or shape[0] != len(x) or shape[1] == 0:
            raise ValueError(
                f"the kernel {name} must return features of shape (n, m) = ({len(x)}, m), m >= 1;"
                f" got {type(features).__name__ if shape is None else shape}."
            )
        if jnp.issubdtype(features.dtype, jnp.complexfloating):
            raise TypeError(f"the kernel {name} must return real features; got {features.dtype}.")
        features = features.astype(x.dtype)
    return encoder, features
