"""Pearson's correlation coefficient."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax
from numpy.typing import ArrayLike

from hgr_jax._checks import as_pair
from hgr_jax.core.numerics import row_mean, safe_divide, standardise
from hgr_jax.core.rows import over_rows


def pearson(a: ArrayLike, b: ArrayLike) -> Array:
    """Return Pearson's correlation, the degree of a linear relation, with its sign.

        rho(a, b) = cov(a, b) / (sd(a) sd(b))

    Args:
      a, b: real arrays ``(n,)``, traced.

    Returns:
      A scalar in [-1, 1], of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for other shapes or dtypes.

    Derivatives: exact, of every order, in both modes.  Degenerate data: a constant ``a`` or
    ``b`` gives 0 with zero derivatives; NaN or infinity gives NaN.  Cost: O(n).

    Source: Pearson, "Notes on regression and inheritance in the case of two parents" (1895).

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 101)
      >>> print(f"{hgr_jax.pearson(a, -2 * a):.4f} {hgr_jax.pearson(a, a**3):.4f}")
      -1.0000 0.9166
    """
    a, b = as_pair(a, b, max_ndim=1)
    return _pearson(a, b)


@over_rows(columns=2)
def _pearson(a: Array, b: Array, *, count: Array | None) -> Array:
    return sample_correlation(a, b, count)


def sample_correlation(a: Array, b: Array, count: Array | None = None) -> Array:
    """Return Pearson's correlation of the first ``count`` rows of ``a`` and ``b``, or of all."""
    x, y = standardise(a, count), standardise(b, count)
    # Their mean squares are 1 but for rounding, so to the derivative this is a constant.
    size = lax.stop_gradient(jnp.sqrt(row_mean(x * x, count) * row_mean(y * y, count)))
    product = safe_divide(row_mean(x * y, count), size)
    # Beyond 1 by rounding only; a clip would make the derivative there zero or a half.
    return product / jnp.maximum(lax.stop_gradient(jnp.abs(product)), 1)
