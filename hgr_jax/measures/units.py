"""HGR in units of the data: an estimate of it, times or over standard deviations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax import Array, lax
from numpy.typing import ArrayLike

from hgr_jax._checks import as_estimate, as_pair, as_weights
from hgr_jax.core.numerics import safe_divide, standard_deviation
from hgr_jax.core.rows import over_rows
from hgr_jax.measures.kb import kb


def gedi(
    a: ArrayLike, b: ArrayLike, *, measure: Callable[..., Array] = kb, **options: Any
) -> Array:
    """Return the Generalized Disparate Impact: HGR times sd(b) over sd(a).

        GeDI(a, b) = HGR(a, b) sd(b) / sd(a)

    the non-linear counterpart of the slope of b on a: the covariance of the projections
    sd(a) f(a) and sd(b) g(b) over the variance of a.

    Args:
      a, b: real arrays ``(n,)``, traced.
      measure: the estimate of HGR to rescale, ``measure(a, b, **options) -> scalar``.
      options: of ``measure``, as in ``gedi(a, b, h=3, k=1)``; the standard deviations take
        ``weights`` too.

    Returns:
      A scalar >= 0, in units of ``b`` per unit of ``a``.

    Raises:
      TypeError, ValueError: for other shapes or dtypes, and as ``measure`` does.

    Derivatives: those of ``measure``, and of the standard deviations.  Degenerate data: a
    constant ``a`` or ``b`` gives 0, NaN or infinity NaN.

    Source: Giuliani, Misino & Lombardi, "Generalized Disparate Impact for Configurable Fairness
    Solutions in ML" (2023), for functions of ``a`` alone; for functions of both, the package
    maxcorr of Giuliani.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 101)
      >>> print(f"{hgr_jax.gedi(a, 3 * a, h=1, k=1):.4f}")
      3.0000
    """
    return _measure_in_units(a, b, measure, options, per_unit=True)


def nlc(a: ArrayLike, b: ArrayLike, *, measure: Callable[..., Array] = kb, **options: Any) -> Array:
    """Return the non-linear covariance, an HGR estimate times both standard deviations.

        NLC(a, b) = HGR(a, b) sd(a) sd(b)

    the covariance of the projections sd(a) f(a) and sd(b) g(b).

    Args:
      a, b, measure, options: as in `gedi`.

    Returns:
      A scalar >= 0, in units of ``a`` times units of ``b``.

    Raises:
      TypeError, ValueError: as `gedi` does.

    Derivatives and degenerate data: as in `gedi`.

    Source: the package maxcorr of Giuliani (https://github.com/giuluck/maxcorr), which defines it
    and names it.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.array([-1.0, 1.0, -1.0, 1.0])
      >>> print(f"{hgr_jax.nlc(a, 3 * a, h=1, k=1):.4f}")
      3.0000
    """
    return _measure_in_units(a, b, measure, options, per_unit=False)


def _measure_in_units(
    a: ArrayLike,
    b: ArrayLike,
    measure: Callable[..., Array],
    options: dict[str, Any],
    *,
    per_unit: bool,
) -> Array:
    given, weights = options.get("given"), options.get("weights")
    a, b = as_pair(a, b, max_ndim=1, weights=weights, given=given)
    weights = as_weights(weights, a.shape[0], a.dtype)
    return _rescaled(a, b, weights, as_estimate(measure, a, b, options), per_unit=per_unit)


@over_rows(columns=3, static=("per_unit",), weights=2)
def _rescaled(
    a: Array, b: Array, weights: Array | None, value: Array, *, per_unit: bool, count: Array | None
) -> Array:
    spread_a, spread_b = (standard_deviation(x, count, weights=weights) for x in (a, b))
    if not per_unit:
        return value * spread_a * spread_b
    # The derivative of a quotient by a tiny number squares it; by one that is 1 it does not.
    unit = lax.stop_gradient(spread_a)
    return value * safe_divide(safe_divide(spread_b, unit), safe_divide(spread_a, unit))
