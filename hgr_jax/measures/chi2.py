"""The chi-square divergence from independence of a density estimated by Gaussian kernels."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from hgr_jax.core.rows import over_rows
from hgr_jax.measures.kde import DAMPING, checked, dependence


def chi2(
    a: ArrayLike,
    b: ArrayLike,
    *,
    bandwidth: ArrayLike | None = None,
    points: int | None = None,
    damping: ArrayLike = DAMPING,
) -> Array:
    """Return the chi-square divergence between the joint density and the product of its marginals.

        chi2(a, b) = sum_ij p_ij^2 / (p_i. p_.j) - 1 = sum over i >= 2 of sigma_i(Q)^2

    with p and Q the estimated density and the matrix of `kde`, so that its square root is an
    upper bound on HGR-KDE.  Unlike a singular value it is cheap and smooth everywhere.

    Args:
      a, b, bandwidth, points, damping: as in `kde`.

    Returns:
      A scalar >= 0, 0 under independence, at most ``points - 1``; of the floating dtype of
      ``a`` and ``b``.

    Raises:
      TypeError, ValueError: as `kde` does.

    Derivatives, degenerate data and cost: as in `kde`, without the SVD.

    Source: Mary, Calauzènes & El Karoui, "Fairness-aware learning for continuous attributes and
    treatments" (2019).

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 1001)
      >>> print(bool(hgr_jax.chi2(a, a**2) >= hgr_jax.kde(a, a**2) ** 2))
      True
    """
    return _chi2(*checked(a, b, bandwidth, points, damping))


@over_rows(columns=2)
def _chi2(
    a: Array, b: Array, bandwidth: Array, grid: Array, damping: Array, *, count: Array | None
) -> Array:
    return jnp.sum(dependence(a, b, bandwidth, grid, damping, count) ** 2)
