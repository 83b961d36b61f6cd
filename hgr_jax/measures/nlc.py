"""Non-linear covariance: an HGR estimate in units of a times b."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax import Array
from numpy.typing import ArrayLike

from hgr_jax._checks import as_estimate, as_pair, as_weights
from hgr_jax.core.numerics import standard_deviation
from hgr_jax.core.rows import over_rows
from hgr_jax.measures.kb import kb


def nlc(a: ArrayLike, b: ArrayLike, *, measure: Callable[..., Array] = kb, **options: Any) -> Array:
    """Return the non-linear covariance, an HGR estimate times both standard deviations.

        NLC(a, b) = HGR(a, b) sd(a) sd(b)

    the covariance of the projections sd(a) f(a) and sd(b) g(b).

    Args:
      a, b: real arrays ``(n,)``, traced.
      measure: the estimate of HGR to rescale, ``measure(a, b, **options) -> scalar``.
      options: passed on to ``measure``, as in ``nlc(a, b, h=3, k=1)``; the standard deviations
        take ``weights`` too.

    Returns:
      A scalar >= 0, in units of ``a`` times units of ``b``.

    Raises:
      TypeError, ValueError: for other shapes or dtypes, and as ``measure`` does.

    Derivatives: those of ``measure``, and of the standard deviations.  Degenerate data: a
    constant ``a`` or ``b`` gives 0, NaN or infinity NaN.

    Source: Giuliani, Misino & Lombardi, "Generalized Disparate Impact for Configurable Fairness
    Solutions in ML" (2023).

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.array([-1.0, 1.0, -1.0, 1.0])
      >>> print(f"{hgr_jax.nlc(a, 3 * a, h=1, k=1):.4f}")
      3.0000
    """
    a, b = as_pair(a, b, max_ndim=1)
    weights = as_weights(options.get("weights"), a.shape[0], a.dtype)
    spread_a, spread_b = _spreads(a, b, weights)
    return as_estimate(measure, a, b, options) * spread_a * spread_b


@over_rows(columns=3, weights=2)
def _spreads(
    a: Array, b: Array, weights: Array | None, *, count: Array | None
) -> tuple[Array, Array]:
    spread_a, spread_b = (standard_deviation(x, count, weights=weights) for x in (a, b))
    return spread_a, spread_b
