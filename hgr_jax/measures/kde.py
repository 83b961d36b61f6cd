"""A density estimated by Gaussian kernels: its maximal correlation, HGR-KDE, and chi-square."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from hgr_jax._arrays import is_traced
from hgr_jax.core.arrays import as_pair, as_positive
from hgr_jax.core.linalg import matmul
from hgr_jax.core.numerics import row_count, standardise
from hgr_jax.core.rows import over_rows, sum_over_rows
from hgr_jax.core.solvers import top_pair

REACH = 2.5
"""Number of standard deviations that the grid covers on either side of the mean."""

MAX_POINTS = 50
"""Largest number of points of the grid on each side."""

DAMPING = 1e-9
"""Density added to every point: without it an isolated row would make a large singular value."""


def kde(a: ArrayLike, b: ArrayLike, *, bandwidth: ArrayLike | None = None) -> Array:
    """Return HGR-KDE, by Witsenhausen's characterisation on a kernel density estimate.

        HGR-KDE(a, b) = sigma_2(Q),    Q_ij = p_ij / sqrt(p_i. p_.j)

    with p the Gaussian kernel density of the standardised pair on a square grid over ±2.5 standard
    deviations, plus 1e-9, normalised to sum to 1, and sigma_2 the second singular value (the first
    is 1).  The grid has ``min(50, 5 / bandwidth)`` points on each side, rounded down.  Smoothing
    lowers the value, noticeably for rapid or thin relations.

    Args:
      a, b: real arrays ``(n,)``, traced.
      bandwidth: of the kernel, in standard deviations, > 0, traced; None for Silverman's
        ``n^(-1/6)``, which also makes the grid where the bandwidth is traced.  A kernel narrower
        than the spacing of the grid, 0.1, is missed between its points.

    Returns:
      A scalar in [0, 1], of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for other shapes or dtypes, or options other than the above.

    Derivatives: with respect to ``a``, ``b`` and ``bandwidth``, of every order, in both modes.
    Degenerate data: a constant ``a`` or ``b`` gives 0 with zero derivatives; NaN or infinity gives
    NaN.  Rows beyond the grid count through the tail of their kernel only.

    Cost: O(n points) exponentials in blocks of rows, and the SVD of a matrix of points x points.

    Source: Mary, Calauzènes & El Karoui, "Fairness-aware learning for continuous attributes and
    treatments" (2019); Witsenhausen, "On sequences of pairs of dependent random variables"
    (1975); Silverman, "Density Estimation for Statistics and Data Analysis" (1986).

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 1001)
      >>> print(f"{hgr_jax.kde(a, a**2):.2f} {hgr_jax.kde(a, a**2, bandwidth=0.1):.2f}")
      0.81 0.98
    """
    return _kde(*_with_grid(a, b, bandwidth))


def chi2(a: ArrayLike, b: ArrayLike, *, bandwidth: ArrayLike | None = None) -> Array:
    """Return the chi-square divergence between the joint density and the product of its marginals.

        chi2(a, b) = sum_ij p_ij^2 / (p_i. p_.j) - 1 = sum over i >= 2 of sigma_i(Q)^2

    with p and Q of `kde`: its square root is an upper bound on HGR-KDE, smooth everywhere.

    Args:
      a, b, bandwidth: as in `kde`.

    Returns:
      A scalar >= 0, 0 under independence, at most 49; of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: as `kde` does.

    Derivatives, degenerate data, cost and source: as in `kde`, without the SVD.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 1001)
      >>> print(bool(hgr_jax.chi2(a, a**2) >= hgr_jax.kde(a, a**2) ** 2))
      True
    """
    return _chi2(*_with_grid(a, b, bandwidth))


def _with_grid(
    a: ArrayLike, b: ArrayLike, bandwidth: ArrayLike | None
) -> tuple[Array, Array, Array, NDArray[Any]]:
    """Return checked variables and bandwidth, and the points of the grid on each side."""
    a, b = as_pair(a, b, max_ndim=1)
    silverman = a.shape[0] ** (-1 / 6)
    width = as_positive("bandwidth", silverman if bandwidth is None else bandwidth, a.dtype)
    spacing = silverman if is_traced(width) else float(width)
    points = max(2, int(min(MAX_POINTS, 2 * REACH / spacing)))
    return a, b, width, np.linspace(-REACH, REACH, points, dtype=a.dtype)


@over_rows(columns=2)
def _kde(a: Array, b: Array, bandwidth: Array, grid: Array, *, count: Array | None) -> Array:
    matrix = _density_dependence(a, b, bandwidth, grid, count)
    finite = jnp.all(jnp.isfinite(matrix))
    return jnp.where(finite, top_pair(jnp.where(finite, matrix, 0)).correlation, jnp.nan)


@over_rows(columns=2)
def _chi2(a: Array, b: Array, bandwidth: Array, grid: Array, *, count: Array | None) -> Array:
    return jnp.sum(_density_dependence(a, b, bandwidth, grid, count) ** 2)


def _density_dependence(
    a: Array, b: Array, bandwidth: Array, grid: Array, count: Array | None
) -> Array:
    """Return Q without its first singular triple."""

    def kernel(z: Array) -> Array:
        return jnp.exp(-(((grid[:, None] - z[None, :]) / bandwidth) ** 2) / 2)

    def block(inside: Array | None, za: Array, zb: Array) -> Array:
        left = kernel(za) if inside is None else kernel(za) * inside[None, :]
        return matmul(left, kernel(zb).T)

    columns = [standardise(x, count, ddof=1) for x in (a, b)]
    density = sum_over_rows(block, columns, count) / row_count(count, a)
    density = density / (np.sqrt(2 * np.pi) * bandwidth) + DAMPING
    p = density / jnp.sum(density)
    expected = jnp.sqrt(jnp.outer(jnp.sum(p, axis=1), jnp.sum(p, axis=0)))
    constant = jnp.all(a == a[0]) | jnp.all(b == b[0])
    matrix = p / expected - expected
    return jnp.where(constant & jnp.all(jnp.isfinite(matrix)), 0, matrix)
