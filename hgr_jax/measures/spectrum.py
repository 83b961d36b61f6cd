"""All modes of two kernels: their canonical correlations, transformations, and total."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax import Array
from numpy.typing import ArrayLike

from hgr_jax.core.canonical import PreparedPair
from hgr_jax.core.kernels import KernelLike, check_two_kernels
from hgr_jax.core.modes import SpectrumFit, correlations_of_modes, fit_modes, total_correlation
from hgr_jax.core.partial import prepare_given
from hgr_jax.core.rows import over_rows


def spectrum(
    a: ArrayLike,
    b: ArrayLike,
    h: KernelLike = 5,
    k: KernelLike = 5,
    *,
    weights: ArrayLike | None = None,
    given: ArrayLike | None = None,
    given_degree: KernelLike = 5,
) -> Array:
    """Compute all canonical correlations between polynomials of ``a`` and of ``b``.

        sigma_i = max over alpha, beta of rho(P_a^h alpha, P_b^k beta)

    with both polynomials not correlated with those of the modes before; P_x^d are the monomials of
    x up to total degree d.  ``sigma_1`` is `kb`; all of them are the singular values of M, the mean
    products of two orthonormal bases.  A bivariate normal pair of correlation rho has sigma_i =
    |rho|^i in the population.

    Args:
      a, b, h, k, weights, given, given_degree: as in `kb`.

    Returns:
      ``(r,)``, the largest first, in [0, 1], of the floating dtype of ``a`` and ``b``; r is the
      smaller of the sizes of both kernels, ``min(h, k)`` for ``(n,)`` arrays and degrees.

    Raises:
      TypeError, ValueError: for shapes, dtypes or static arguments other than the above.

    Derivatives: with respect to ``a``, ``b`` and ``weights``, forward and reverse, of every order
    where the values are distinct and above 0.  Where some tie, the first derivatives are one of
    their limits nearby; where one is 0, its derivative is 0.  For a penalty on all of them see
    `total`.

    Degenerate data: m distinct values support m - 1 modes, the others are 0 up to rounding; a
    constant gives 0 throughout; NaN or infinity gives NaN.  The sample values are biased upward,
    the small ones most: between independent variables all are of the size of 1 / sqrt(n).  In a
    batch of `jax.vmap`, values far below the largest have fewer digits.

    Cost: as `kb`.  A gradient takes another pass over the products of the bases.

    Source: Hotelling, "Relations between two sets of variates" (1936); Lancaster, "The structure of
    bivariate distributions" (1958); Huang, Makur, Wornell & Zheng, "Universal features for
    high-dimensional learning and inference" (2024).

    Example:
      >>> import jax, jax.numpy as jnp, hgr_jax
      >>> angle = jnp.linspace(0, 2 * jnp.pi, 100, endpoint=False)
      >>> a, b = jnp.cos(angle), jnp.sin(angle) + jnp.cos(angle)
      >>> print(hgr_jax.spectrum(a, b, h=2, k=2).round(2))
      [0.71 0.  ]
    """
    return _estimate_modes(correlations_of_modes, (a, b), (h, k), (given, given_degree), weights)


def total(
    a: ArrayLike,
    b: ArrayLike,
    h: KernelLike = 5,
    k: KernelLike = 5,
    *,
    weights: ArrayLike | None = None,
    given: ArrayLike | None = None,
    given_degree: KernelLike = 5,
) -> Array:
    """Compute the root mean square of all canonical correlations: all modes as one number.

        total = sqrt( sum_i sigma_i^2 / r ),   sum_i sigma_i^2 = ||M||_F^2,

    with sigma the `spectrum` and r how many there are.  It is 0 exactly where `kb` is, at most
    `kb`, and at least ``kb / sqrt(r)``.  As a penalty (`hgr_jax.fairness.Penalty`) it has a
    derivative also where the first two modes tie, and pushes all of them down at once.

    Args:
      a, b, h, k, weights, given, given_degree: as in `kb`.

    Returns:
      A scalar in [0, 1], of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for shapes, dtypes or static arguments other than the above.

    Derivatives: with respect to ``a``, ``b`` and ``weights``, forward and reverse, of every order;
    at 0, where it has a kink, they are 0.

    Degenerate data: a constant gives 0; a variable of m distinct values has m - 1 modes above 0,
    and r counts the others too; NaN or infinity gives NaN.  Between independent variables
    the mean of its square is about h k / (n r), that is ``max(h, k) / n``.

    Cost: as `kb`, without an SVD.

    Source: Lancaster, "The structure of bivariate distributions" (1958): the sum is phi^2,
    Pearson's mean square contingency, on these bases.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 101)
      >>> print(f"{hgr_jax.total(a, a, h=3, k=3):.3f} {hgr_jax.total(a, a**2, h=2, k=2):.3f}")
      1.000 0.707
    """
    return _estimate_modes(total_correlation, (a, b), (h, k), (given, given_degree), weights)


def spectrum_fit(
    a: ArrayLike,
    b: ArrayLike,
    h: KernelLike = 5,
    k: KernelLike = 5,
    *,
    weights: ArrayLike | None = None,
    given: ArrayLike | None = None,
    given_degree: KernelLike = 5,
) -> SpectrumFit:
    """Fit all modes: their correlations, and their transformations.

    Degenerate data, cost and source as in `spectrum`, whose values are the ``correlations``.

    Args:
      a, b, h, k, weights, given, given_degree: as in `spectrum`.

    Returns:
      A `SpectrumFit`, differentiable: its transformations where the correlations are distinct and
      above 0.  With ``given`` they take c too: ``f(a, given=c)``.

    Raises:
      TypeError, ValueError: as `spectrum` does; ``status`` says what is wrong with values.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 101)
      >>> fit = hgr_jax.spectrum_fit(a, a**2 + a, h=2, k=2)
      >>> print(fit.g[0].formula("b", digits=2))
      -0.517 + 1.52 b
    """
    return _estimate_modes(fit_modes, (a, b), (h, k), (given, given_degree), weights)


def _estimate_modes(
    of_pair: Callable[[PreparedPair], Any],
    data: tuple[ArrayLike, ArrayLike],
    kernels: tuple[Any, Any],
    conditioning: tuple[Any, Any],
    weights: ArrayLike | None,
) -> Any:
    """Check and prepare the arguments, and apply a function to the prepared pair."""
    columns, static = check_two_kernels(data, kernels, weights, conditioning)
    return _apply_to_pair(*columns, kernels=static, of_pair=of_pair)


@over_rows(columns=4, static=("kernels", "of_pair"), weights=2)
def _apply_to_pair(
    a: Array,
    b: Array,
    weights: Array | None,
    given: Array | None,
    *,
    kernels: tuple[KernelLike, ...],
    of_pair: Callable[[PreparedPair], Any],
    count: Array | None,
) -> Any:
    h, k, given_degree = kernels
    return of_pair(prepare_given((h, k), "svd", a, b, weights, (given, given_degree), count))
