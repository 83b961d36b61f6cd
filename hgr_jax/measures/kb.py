"""HGR-KB: the maximal correlation of two kernels (the double-kernel measure)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from numpy.typing import ArrayLike

from hgr_jax._checks import check_choice
from hgr_jax.core.arrays import as_vector
from hgr_jax.core.canonical import SOLVERS, correlation, solve
from hgr_jax.core.fits import KBFit, as_fit
from hgr_jax.core.kernels import KernelLike, check_two_kernels
from hgr_jax.core.partial import prepare_given
from hgr_jax.core.rows import over_rows


def kb(
    a: ArrayLike,
    b: ArrayLike,
    h: KernelLike = 5,
    k: KernelLike = 5,
    *,
    weights: ArrayLike | None = None,
    given: ArrayLike | None = None,
    given_degree: KernelLike = 5,
    init: KBFit | None = None,
    solver: str = "projected_gradient",
) -> Array:
    """Compute HGR-KB, the largest correlation between polynomials of ``a`` and of ``b``.

        HGR-KB(a, b; h, k) = max over alpha, beta of rho(P_a^h alpha, P_b^k beta)

    with P_x^d the monomials of x up to total degree d: the top canonical correlation of the two
    kernels, a global optimum exact to rounding.  It is |Pearson| at ``h = k = 1``, never decreases
    when h or k grows, and does not change under affine maps or a permutation of the rows.

        given c:  max over f, g of rho(f(a) - E_c[f(a)], g(b) - E_c[g(b)])

    with E_c the least-squares projection on 1 and the polynomials of c.

    Args:
      a, b: real arrays ``(n,)``, or ``(n, p)`` for several variables at once, traced.  Integers
        and booleans are converted to floats; half precision is computed in float32.
      h, k: kernel of ``a`` and of ``b``, static: a degree (int >= 1; with several variables the
        total degree) or a hashable callable ``(n,) -> (n, m)`` of features (of
        `hgr_jax.kernels`, or your own), applied row by row.
      weights: non-negative observation weights ``(n,)``, traced, or None.  Only ratios matter;
        a row of weight 0 counts as dropped, even if it holds NaN.
      given: c, ``(n,)`` or ``(n, p)``, traced, or None.
      given_degree: kernel of c, static, as h and k; a lower degree than theirs removes only part of
        the dependence on c.
      init: a previous fit of the same kernels, traced, from whose g the solver starts (the warm
        start of the paper) instead of the single-kernel solution: it then takes fewer iterations,
        and the result is the same.
      solver: static. ``"projected_gradient"`` is jaxopt's, on the unit sphere in whitened
        coordinates, with implicit derivatives; ``"svd"`` the closed form.  Both agree.

    Returns:
      A scalar in [0, 1], of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for shapes, dtypes or static arguments other than the above, and for
        two series of pandas with different indexes.  Never for values: see `kb_fit`.

    Derivatives: with respect to ``a``, ``b``, c and ``weights``, forward and reverse, of every
    order; the first by the envelope theorem.

    Degenerate data: a constant gives 0, with zero derivatives; m distinct values count as degree
    m - 1; NaN or infinity gives NaN.  On n <= h + k rows the value is 1.  The sample value is
    biased upward: independent variables have up to about (sqrt(h) + sqrt(k)) / sqrt(n).

    Cost: one pass over the data in blocks, and the SVD of an h x k matrix.

    Source: Giuliani & Lombardi, "Robust Non-Linear Correlations via Polynomial Regression";
    Hotelling (1936), for the closed form.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> angle = jnp.linspace(0, 2 * jnp.pi, 100, endpoint=False)
      >>> a, b = jnp.cos(angle), jnp.sin(angle)  # a circle: a^2 + b^2 = 1
      >>> print(f"{hgr_jax.kb(a, b, h=2, k=2):.4f} {hgr_jax.kb(a, b, h=1, k=1):.4f}")
      1.0000 0.0000
    """
    (x, y, *others), start, static = _checked(
        (a, b), (h, k), (given, given_degree), weights, init, solver
    )
    if init is None:  # one program, so the same digits, for both shapes of one variable
        x, y = map(_as_one_variable, (x, y), static[0])
    value: Array = _estimate(x, y, *others, start, static=static, fit=False)
    return value


def kb_fit(
    a: ArrayLike,
    b: ArrayLike,
    h: KernelLike = 5,
    k: KernelLike = 5,
    *,
    weights: ArrayLike | None = None,
    given: ArrayLike | None = None,
    given_degree: KernelLike = 5,
    init: KBFit | None = None,
    solver: str = "projected_gradient",
) -> KBFit:
    """Fit HGR-KB: its copula transformations, coefficients and diagnostics.

    Degenerate data, cost and source as in `kb`, whose value is the ``correlation`` of the result.

    Args:
      a, b, h, k, weights, given, given_degree, init, solver: as in `kb`.

    Returns:
      A `KBFit`, differentiable by the implicit function theorem wherever the top canonical
      correlation is simple.  (The paper scales f by the correlation.)

      With ``given`` its transformations are residuals given polynomials of c,

          fit.f(a, given=c) = f(a) - E_c[f(a)],   fit.g(b, given=c) = g(b) - E_c[g(b)],

      and ``fit.f.explained`` is E_c[f(a)], a function of c.

    Raises:
      TypeError, ValueError: as `kb` does; ``status`` says what is wrong with values.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(0, 2, 101)
      >>> fit = hgr_jax.kb_fit(a, a**2 - a, h=2, k=1)
      >>> print(fit.f.formula("a", digits=2))
      -0.517 - 1.52 a + 1.52 a^2
      >>> fit.message
      'optimal: the correlation is the global maximum over the two kernels'
      >>> print(f"{fit.score(a + 1, (a + 1) ** 2 - (a + 1)):.3f}")
      1.000
      >>> c = jnp.cos(9 * a)
      >>> fit = hgr_jax.kb_fit(a + 3 * c, a**2 - c, h=1, k=1, given=c, given_degree=1)
      >>> print(fit.f.formula("a", digits=2), "less", fit.f.explained.formula("c", digits=2))
      -1.555 + 1.726 a less 0.165 + 5.02 c
    """
    columns, start, static = _checked((a, b), (h, k), (given, given_degree), weights, init, solver)
    fit_of_pair: KBFit = _estimate(*columns, start, static=static, fit=True)
    return fit_of_pair


_Static = tuple[tuple[KernelLike, ...], str]
"""Kernels of a, b and c, and the solver."""


def _checked(
    data: tuple[ArrayLike, ArrayLike],
    kernels: tuple[Any, ...],
    conditioning: tuple[Any, Any],
    weights: ArrayLike | None,
    init: Any,
    solver: Any,
) -> tuple[tuple[Any, ...], KBFit | None, _Static]:
    """Check arguments; return the columns, the start, and the static arguments."""
    columns, kernels = check_two_kernels(data, kernels, weights, conditioning)
    _, b, _, c = columns
    start = check_init(init, b)
    if init is not None and c is not None:
        raise ValueError("init is a fit of a and b alone: expected none with given.")
    return columns, start, (kernels, check_choice("solver", solver, SOLVERS))


def _as_one_variable(x: Array, kernel: KernelLike) -> Array:
    single = x.ndim == 2 and x.shape[1] == 1 and not callable(kernel)
    return as_vector(x) if single else x


def check_init(init: Any, b: Array) -> KBFit | None:
    """Return a previous fit, checked to fit the columns of ``b``, or None."""
    if init is None:
        return None
    if not isinstance(init, KBFit):
        raise TypeError(
            f"init must be a fit (the result of kb_fit) or None; got {type(init).__name__}."
        )
    if init.f.explained is not None:
        raise ValueError("init must be a fit of a and b alone; got one given other variables.")
    columns = 1 if b.ndim == 1 else b.shape[1]
    if init.g.encoder.variables not in (None, columns):
        raise ValueError(
            f"init must be a fit to a b of {columns} column(s), as b has here;"
            f" got one to {init.g.encoder.variables}."
        )
    return init


@over_rows(columns=4, static=("static", "fit"), weights=2)
def _estimate(
    a: Array,
    b: Array,
    weights: Array | None,
    given: Array | None,
    init: KBFit | None,
    *,
    static: _Static,
    fit: bool,
    count: Array | None,
) -> Any:
    """Return the value, or with ``fit`` the fit."""
    (h, k, given_degree), solver = static
    pair = prepare_given((h, k), solver, a, b, weights, (given, given_degree), count)
    start = _start(init, b, weights)
    problem = pair.problem, pair.a, pair.b, pair.weights, start, pair.count
    return as_fit(solve(*problem), pair) if fit else correlation(*problem)


def _start(init: KBFit | None, b: Array, weights: Array | None) -> Array | None:
    if init is None:
        return None
    start = lax.stop_gradient(init.g(b)).astype(b.dtype)
    return start if weights is None else jnp.where(weights > 0, start, 0)
