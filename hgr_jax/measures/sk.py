"""HGR-SK: the kernel of one variable against the other variable, in the better direction."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from hgr_jax._checks import check_count
from hgr_jax.core.arrays import as_pair, as_weights
from hgr_jax.core.canonical import SINGLE_KERNEL, correlation, prepare, solve
from hgr_jax.core.fits import SKFit, as_fit
from hgr_jax.core.kernels import KernelLike, check_given
from hgr_jax.core.monomials import check_monomials
from hgr_jax.core.partial import prepare_given
from hgr_jax.core.rows import over_rows


def sk(
    a: ArrayLike,
    b: ArrayLike,
    d: int = 5,
    *,
    weights: ArrayLike | None = None,
    given: ArrayLike | None = None,
    given_degree: KernelLike = 5,
) -> Array:
    """Compute HGR-SK, the correlation of one variable with the best polynomial of the other.

        HGR-SK(a, b; d) = max( rho(P_a^d alpha*, b), rho(a, P_b^d beta*) )

    with alpha*, beta* by least squares: the square root of the larger of two R^2.  It sees
    functional relations, ``b = f(a)`` or ``a = g(b)``, in either direction, and never exceeds
    `kb` at the same degrees.  With several variables on a side, "plain" means linear.

    Args:
      a, b, weights, given, given_degree: as in `kb`.
      d: degree of either polynomial, static, int >= 1.  Of a kernel of your own take
        ``kb(a, b, h=kernel, k=1)``.

    Returns:
      A scalar in [0, 1], of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for shapes, dtypes or static arguments other than the above.

    Derivatives, degenerate data and cost: as in `kb`, without the SVD for ``(n,)`` arrays.
    Where both directions tie, the derivative is that of ``b = f(a)``.

    Source: Giuliani & Lombardi, "Robust Non-Linear Correlations via Polynomial Regression".

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 101)
      >>> print(f"{hgr_jax.sk(a, a**2, d=2):.4f} {hgr_jax.sk(a**2, a, d=2):.4f}")
      1.0000 1.0000
    """
    a, b = as_pair(a, b, weights=weights, given=given)
    weights = as_weights(weights, a.shape[0], a.dtype)
    c, kernel = check_given(given, given_degree, a)
    return _sk(a, b, weights, c, d=_check_degree(a, b, d), given_degree=kernel)


def sk_fit(a: ArrayLike, b: ArrayLike, d: int = 5, *, weights: ArrayLike | None = None) -> SKFit:
    """Fit HGR-SK: its copula transformations, coefficients, diagnostics and direction.

    Degenerate data, cost and source as in `sk`, whose value is the ``correlation`` of the result.

    Args:
      a, b, d, weights: as in `sk`.

    Returns:
      An `SKFit`, in which one transformation is linear.

    Raises:
      TypeError, ValueError: as `sk` does; ``status`` says what is wrong with values.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> b = jnp.linspace(0, 2, 101)
      >>> fit = hgr_jax.sk_fit(b**2 - b, b, d=2)
      >>> fit.explains
      'a = g(b)'
      >>> print(fit.g.formula("b", digits=2))
      -0.517 - 1.52 b + 1.52 b^2
    """
    a, b = as_pair(a, b, weights=weights)
    return _sk_fit(a, b, as_weights(weights, a.shape[0], a.dtype), d=_check_degree(a, b, d))


def _check_degree(a: Array, b: Array, d: Any) -> int:
    if callable(d):
        raise TypeError("d must be a degree; of a kernel of your own take kb(a, b, h=kernel, k=1).")
    d = check_count("d", d)
    check_monomials("d", d, a)
    check_monomials("d", d, b)
    return d


@over_rows(columns=4, static=("d", "given_degree"), weights=2)
def _sk(
    a: Array,
    b: Array,
    weights: Array | None,
    given: Array | None,
    *,
    d: int,
    given_degree: KernelLike,
    count: Array | None,
) -> Array:
    if given is not None:
        values = []
        for kernels in ((d, 1), (1, d)):
            pair = prepare_given(
                kernels, "svd", a, b, weights, (given, given_degree), count, names=("d", "d")
            )
            values.append(correlation(pair.problem, pair.a, pair.b, pair.weights, None, pair.count))
        first, second = values
        return jnp.where(second > first, second, first)
    pair = prepare((d, d), SINGLE_KERNEL, a, b, weights, count)
    return correlation(pair.problem, pair.a, pair.b, pair.weights, None, pair.count)


@over_rows(columns=3, static=("d",), weights=2)
def _sk_fit(a: Array, b: Array, weights: Array | None, *, d: int, count: Array | None) -> SKFit:
    pair = prepare((d, d), SINGLE_KERNEL, a, b, weights, count)
    solution = solve(pair.problem, pair.a, pair.b, pair.weights, None, pair.count)
    fit = as_fit(solution, pair, unique=True)
    return SKFit(**vars(fit), direction=solution.direction)
