"""Spearman's rank correlation coefficient."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax
from numpy.typing import ArrayLike

from hgr_jax._checks import as_pair
from hgr_jax.core.numerics import fill_padding
from hgr_jax.core.rows import over_rows
from hgr_jax.measures.pearson import sample_correlation


def spearman(a: ArrayLike, b: ArrayLike) -> Array:
    """Return Spearman's rank correlation, the degree of a monotone relation, with its sign.

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


@over_rows(columns=2)
def _spearman(a: Array, b: Array, *, count: Array | None) -> Array:
    return sample_correlation(average_ranks(a, count), average_ranks(b, count), count)


def average_ranks(x: Array, count: Array | None = None) -> Array:
    """Return ranks from 1 on of ``x (n,)``, ties sharing their mean; NaN if any is not finite.

    Those of the rows from ``count`` on are without meaning.
    """
    x = lax.stop_gradient(x)
    ordered = jnp.sort(fill_padding(x, count, jnp.inf))
    less, up_to = (jnp.searchsorted(ordered, x, side=side) for side in ("left", "right"))
    ranks = (less + up_to + 1).astype(x.dtype) / 2
    return jnp.where(jnp.all(jnp.isfinite(x)), ranks, jnp.nan)
