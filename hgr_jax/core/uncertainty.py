"""How far a sample's correlation may be from the population's, in closed form.

With f, g standardised and of correlation s, ``psi = f g - s (f^2 + g^2) / 2`` is what a row adds
to s (its influence function; the envelope theorem makes it that of a maximum too), so that the
variance of s is that of a mean of psi.
"""

from __future__ import annotations

import statistics
from typing import Any

import jax.numpy as jnp
from jax import Array

from hgr_jax.core.numerics import safe_sqrt


def standard_error(f: Array, g: Array, s: Array) -> Array:
    """Return the standard error of ``s``, the correlation of f and g.

    Args:
      f, g: ``(n,)``, of zero mean and unit variance, times the roots of weights that sum to 1.
      s: their correlation.
    """
    weighted_psi = f * g - s * (f * f + g * g) / 2
    return safe_sqrt(jnp.sum(weighted_psi**2))


def normal_quantile(level: float) -> float:
    """Return the point below which a standard normal number is with probability ``level``."""
    return statistics.NormalDist().inv_cdf(level)


def interval(
    value: Array, error: Array, rows: Array, sizes: tuple[Array, Array], level: float
) -> tuple[Array, Array]:
    """Return both ends of `KBFit.interval`.

    Args:
      value, error: correlations and their standard errors, of any shape.
      rows: the effective number of rows.
      sizes: how many functions of either variable were chosen from.
      level: asked coverage.
    """
    z = normal_quantile((1 + level) / 2)
    # What the largest squared singular value of noise is near (Johnstone, 2001), over the rows.
    p, q = (jnp.maximum(size.astype(value.dtype) - 0.5, 0) for size in sizes)
    chance = jnp.square(safe_sqrt(p) + safe_sqrt(q))
    low = ezekiel(jnp, value, rows, chance) - z * error
    return jnp.where(low <= 0, 0, low), jnp.minimum(value + z * error, 1)


def ezekiel(xp: Any, value: Any, rows: Any, parameters: Any) -> Any:
    """Return `hgr_jax.inference.corrected`, with the functions of ``xp``, JAX's or NumPy's."""
    left = rows - 1 - parameters
    enough = left > 0
    squared = 1 - (1 - value * value) * (rows - 1) / xp.where(enough, left, 1)
    positive = enough & ~(squared <= 0)
    return xp.where(positive, xp.sqrt(xp.where(positive, squared, 1)), 0)
