"""Spearman's rank correlation coefficient."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.stats import rankdata

from hgr_jax.arguments import as_pair
from hgr_jax.measures.pearson import pearson


def spearman(a: Any, b: Any) -> Array:
    """Spearman's rank correlation, the degree of a monotone relation, with its sign.

        rho_S(a, b) = pearson(rank(a), rank(b)),    ties sharing their mean rank

    Args:
      a, b: real arrays ``(n,)``, traced.

    Returns:
      A scalar in [-1, 1], of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for other shapes or dtypes.

    Derivatives: zero, as ranks are piecewise constant.  Degenerate data: a constant ``a`` or
    ``b`` gives 0; NaN or infinity gives NaN.  Cost: two sorts, O(n log n).

    Source: Spearman, "The proof and measurement of association between two things" (1904).

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.arange(-50.0, 51.0)
      >>> print(f"{hgr_jax.spearman(a, a**3):.4f} {hgr_jax.spearman(a, a**2):.4f}")
      1.0000 0.0000
    """
    a, b = as_pair(a, b, max_ndim=1)
    return _spearman(a, b)


@jax.jit
def _spearman(a: Array, b: Array) -> Array:
    return pearson(average_ranks(a), average_ranks(b))


def average_ranks(x: Array) -> Array:
    """Ranks 1 to n of ``x (n,)``, ties sharing their mean; NaN throughout if any is not finite."""
    ranks = rankdata(jax.lax.stop_gradient(x)).astype(x.dtype)
    return jnp.where(jnp.all(jnp.isfinite(x)), ranks, jnp.nan)
