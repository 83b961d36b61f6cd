"""Correlation over the functions of Gaussian kernels: kernel CCA and the contrasts of kernel ICA.

The n x n Gram matrices are approximated by few of their rows: each is the row with the largest
residual given the rows chosen before (pivoted incomplete Cholesky).  The Nyström features are

    F = L^-1 k(chosen, x)   (rank x n)   with   L L^T = k(chosen, chosen),   F^T F ~ k(x, x).

The choice is a constant under differentiation; given it, the features are smooth in the data.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from numpy.typing import ArrayLike

from hgr_jax._checks import check_count, one_or_pair
from hgr_jax.core.arrays import as_pair, as_positive
from hgr_jax.core.linalg import inverse_cholesky, matmul
from hgr_jax.core.numerics import equal_weights, fill_padding, standardise
from hgr_jax.core.rows import over_rows
from hgr_jax.core.solvers import top_pair

SMALL_ROWS = 1000
"""Largest number of rows with the stronger smoothing of Bach & Jordan."""


def kernel_cca(
    a: ArrayLike,
    b: ArrayLike,
    *,
    regularization: ArrayLike = 1e-2,
    bandwidth: ArrayLike = 1.0,
    rank: int = 64,
) -> Array:
    """Return the regularised kernel canonical correlation, with Gaussian kernels.

        max over f, g of  cov(f(a), g(b)) / sqrt((var f(a) + kappa |f|^2) (var g(b) + kappa |g|^2))

    over the functions f, g of the reproducing kernel spaces of
    k(x, x') = exp(-|x - x'|^2 / (2 bandwidth^2)) on standardised variables, |f| their norm there
    and kappa the regularization.  With the centred n x n Gram matrices K_a, K_b it is the largest
    rho of

        K_a K_b v = rho (K_a^2 + n kappa K_a) u,    K_b K_a u = rho (K_b^2 + n kappa K_b) v.

    On a given sample it rises to 1 as kappa falls to 0, whatever the data; it tends to HGR if kappa
    slowly falls as n grows.  Shifts, changes of scale or sign, and the order of the rows do not
    matter.

    Args:
      a, b: real arrays ``(n,)``, or ``(n, p)`` for several variables at once, traced.  Each
        column is standardised.
      regularization: kappa > 0, traced; below 16 eps (2e-6 in float32) it counts as that.  It
        lowers the value: a linear relation between normal variables has 0.96 at the default.
      bandwidth: standard deviations over which functions vary, > 0, traced; one number, or a
        pair (for a, for b).  Distances of p columns, and suitable bandwidths, grow by sqrt(p).
      rank: largest number of rows that approximate a Gram matrix, static, int >= 1.  Without far
        outliers 64 is exact to rounding for one variable at bandwidths from 1/2 on; several
        variables may need hundreds.

    Returns:
      A scalar in [0, 1), of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for shapes, dtypes or static arguments other than the above.

    Derivatives: with respect to ``a``, ``b``, ``regularization`` and ``bandwidth``, forward and
    reverse, of every order, wherever the top canonical correlation is simple (finite
    everywhere).  The rows that the low rank is built on are held fixed.

    Degenerate data: a constant ``a`` or ``b`` gives 0, with zero derivatives; NaN or infinity
    gives NaN, and so does a traced option that is not above 0.  The sample value is biased upward:
    between independent normal variables it has mean 0.085 at n = 1,000 and 0.028 at 10,000.

    Cost: O(n rank^2) time and O(n rank) memory; never n x n.

    Source: Hardoon, Szedmak & Shawe-Taylor, "Canonical correlation analysis: an overview with
    application to learning methods" (2004); Bach & Jordan, "Kernel independent component
    analysis" (2002), for the incomplete Cholesky factors.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> angle = jnp.linspace(0, 2 * jnp.pi, 200, endpoint=False)
      >>> a, b = jnp.cos(angle), jnp.sin(angle)
      >>> print(f"{hgr_jax.kernel_cca(a, b):.2f}")
      0.87
      >>> print(f"{hgr_jax.kernel_cca(a, b, regularization=1e-3, bandwidth=(1.0, 2.0)):.2f}")
      0.96
    """
    a, b = as_pair(a, b)
    kappa = as_positive("regularization", regularization, a.dtype)
    widths = one_or_pair("bandwidth", bandwidth, as_positive, a.dtype)
    return _kernel_cca(a, b, kappa, widths, rank=check_count("rank", rank))


def kernel_ica_contrast(
    a: ArrayLike,
    b: ArrayLike,
    *,
    regularization: ArrayLike | None = None,
    bandwidth: ArrayLike | None = None,
    rank: int = 64,
) -> Array:
    """Compute the contrast of kernel ICA: a mutual information through Gaussian kernels.

    With K_a, K_b and kappa as in `kernel_cca`,

        rho_1 >= rho_2 >= ... = singular values of R_a R_b,   R = (K + n kappa / 2)^-1 K
        KGV = -1/2 sum over i of log(1 - rho_i^2)

    The kernel generalised variance is the mutual information that normal variables of these
    canonical correlations would have.  It does not change under shifts, changes of scale or sign,
    or a permutation of the rows.

    Args:
      a, b, rank: as in `kernel_cca`.
      regularization: kappa > 0, traced; None stands for the paper's 2e-2 up to n = 1,000 and
        2e-3 above.  Below 32 eps (4e-6 in float32) it counts as that.
      bandwidth: as in `kernel_cca`; None stands for the paper's 1 up to n = 1,000 and 1/2 above.

    Returns:
      A scalar >= 0, of the floating dtype of ``a`` and ``b``.  (The regularization bounds it on
      given data.)  Two values compare only at the same options: mind the defaults, which change
      above n = 1,000.

    Raises:
      TypeError, ValueError: for shapes, dtypes or static arguments other than the above.

    Derivatives: as in `kernel_cca`, wherever the kernels are.

    Degenerate data and cost: as in `kernel_cca`.  Between independent normal variables it
    has mean 0.004 at n = 1,000 and 0.005 at 10,000.

    Source: Bach & Jordan, "Kernel independent component analysis" (2002).

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> angle = jnp.linspace(0, 2 * jnp.pi, 200, endpoint=False)
      >>> a, b = jnp.cos(angle), jnp.sin(angle)
      >>> print(f"{hgr_jax.kernel_ica_contrast(a, b):.2f}")
      0.47
    """
    a, b = as_pair(a, b)
    few = a.shape[0] <= SMALL_ROWS
    if regularization is None:
        regularization = 2e-2 if few else 2e-3
    if bandwidth is None:
        bandwidth = 1.0 if few else 0.5
    ridge = as_positive("regularization", regularization, a.dtype) / 2
    widths = one_or_pair("bandwidth", bandwidth, as_positive, a.dtype)
    return _generalised_variance(a, b, ridge, widths, rank=check_count("rank", rank))


@over_rows(columns=2, static=("rank",))
def _kernel_cca(
    a: Array, b: Array, ridge: Array, widths: Any, *, rank: int, count: Array | None
) -> Array:
    f, g = _whitened(a, b, ridge, widths, rank, count)
    cross = matmul(f, g.T)
    finite = jnp.all(jnp.isfinite(cross))
    return jnp.where(finite, top_pair(jnp.where(finite, cross, 0)).correlation, jnp.nan)


@over_rows(columns=2, static=("rank",))
def _generalised_variance(
    a: Array, b: Array, ridge: Array, widths: Any, *, rank: int, count: Array | None
) -> Array:
    """Return KGV by the determinant of r x r matrices, smooth where single rho_i are not."""
    f, g = _whitened(a, b, ridge, widths, rank, count)
    cross = matmul(f, g.T)
    squares = matmul(matmul(matmul(f, f.T), cross), matmul(matmul(g, g.T), cross.T))
    return -jnp.linalg.slogdet(jnp.eye(len(cross), dtype=cross.dtype) - squares)[1] / 2


def _whitened(
    a: Array, b: Array, ridge: Array, widths: Any, rank: int, count: Array | None
) -> list[Array]:
    """Return features ``V (r, n)`` of each variable, centred, with ``V V^T + ridge W W^T = 1``.

    V are W times the features of the kernel over sqrt(n), so that V_a V_b^T has the canonical
    correlations as singular values.  Less ridge than rounding would leave no matrix W.
    """
    ridge = jnp.maximum(ridge, 16 * float(jnp.finfo(ridge.dtype).eps))
    weights, whitened = equal_weights(count, a), []
    for x, width in zip((a, b), widths, strict=True):
        points = standardise(x.reshape(x.shape[0], -1), count) / width
        f = gaussian_features(points, rank, count)
        f = (f - matmul(f, weights)[:, None]) * jnp.sqrt(weights)[None, :]
        f = jnp.where(jnp.any(points != 0), f, 0)  # of a constant rounding would be left
        covariance = matmul(f, f.T) + ridge * jnp.eye(len(f), dtype=f.dtype)
        whitened.append(matmul(inverse_cholesky(covariance), f))
    return whitened


def gaussian_features(x: Array, rank: int, count: Array | None = None) -> Array:
    """Return ``F (rank, n)`` with ``F^T F ~ exp(-|x_i - x_j|^2 / 2)``, of points ``x (n, p)``.

    Rows are chosen from the one nearest to 0 on, so that their order does not matter, and until the
    largest residual is rounding: equal rows are never chosen twice.
    """
    rank, fixed = min(rank, x.shape[0]), lax.stop_gradient(x)
    tolerance = 64 * jnp.finfo(x.dtype).eps

    def unfinished(state: tuple[Array, ...]) -> Array:
        number, pivot, _, residual, _ = state
        return (number < rank) & (residual[pivot] > tolerance)

    def choose(state: tuple[Array, ...]) -> tuple[Array, ...]:
        number, pivot, chosen, residual, factor = state
        explained = matmul(factor[:, pivot], factor)
        column = _kernel(fixed[pivot][None, :], fixed)[0] - explained
        column = column / jnp.sqrt(residual[pivot])
        residual = (residual - column * column).at[pivot].set(0)
        chosen, factor = chosen.at[number].set(pivot), factor.at[number].set(column)
        return number + 1, jnp.argmax(residual), chosen, residual, factor

    first = jnp.argmin(fill_padding(jnp.sum(fixed**2, axis=1), count, jnp.inf))
    start: tuple[Array, ...] = (
        jnp.zeros((), jnp.int32),
        first,
        jnp.zeros(rank, first.dtype),
        fill_padding(jnp.ones(len(x), x.dtype), count),
        jnp.zeros((rank, len(x)), x.dtype),
    )
    number, _, chosen, _, _ = lax.while_loop(unfinished, choose, start)
    used = lax.iota(jnp.int32, rank) < number
    gram = _kernel(x[chosen], x[chosen])
    gram = jnp.where(used[:, None] & used[None, :], gram, jnp.eye(rank, dtype=x.dtype))
    values = jnp.where(used[:, None], _kernel(x[chosen], x), 0)
    return matmul(inverse_cholesky(gram), values)


def _kernel(x: Array, y: Array) -> Array:
    """Return ``exp(-|x_i - y_j|^2 / 2)`` for points ``(m, p)`` and ``(n, p)``."""
    return jnp.exp(-jnp.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=2) / 2)
