"""HGR-KB: the maximal correlation of two kernels (the double-kernel measure)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from numpy.typing import ArrayLike

from hgr_jax._checks import check_choice
from hgr_jax.core.canonical import correlation, prepare, solve
from hgr_jax.core.fits import KBFit, as_fit
from hgr_jax.core.kernels import KernelLike, check_given, check_two_kernels
from hgr_jax.core.padding import over_rows
from hgr_jax.core.partial import prepare_given
from hgr_jax.core.solvers import SOLVERS


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

    with P_x^d the monomials of x up to total degree d.  It is the top canonical correlation of
    the two kernels: the optimum found is global, and exact to rounding.  It is |Pearson| at
    ``h = k = 1``, never decreases when h or k grows, and does not change under affine maps of
    ``a`` or ``b`` or a permutation of the rows.

    With ``given`` it is that of what is left given c, with E_c[.] the least squares projection on 1
    and the polynomials of c:

        HGR-KB(a, b | c) = max over f, g of rho(f(a) - E_c[f(a)], g(b) - E_c[g(b)]),

    |partial correlation| at degrees 1.  It is 0 where a and b are independent given c, as far as
    E[f(a) | c] or E[g(b) | c] are polynomials of that degree; where it is 0, they may depend on
    each other in ways that vary with c and cancel.

    Args:
      a, b: real arrays ``(n,)``, or ``(n, p)`` for several variables at once, traced.  Integers
        and booleans are converted to floats; half precision is computed in float32.
      h, k: kernel of ``a`` and of ``b``, static: a degree (int >= 1; with several variables the
        total degree, interactions included) or a hashable callable ``(n,) -> (n, m)`` of
        features (of `hgr_jax.kernels`, or your own), applied row by row; a constant is never
        needed.  Pass the same function object each time: another one compiles again.
      weights: non-negative observation weights ``(n,)``, traced, or None.  Only ratios matter;
        a row of weight 0 counts as dropped, even if it holds NaN.  (The derivative by a weight
        of 0 takes the row as moved into the range of the others.)
      given: c, ``(n,)`` or ``(n, p)``, traced, or None.
      given_degree: kernel of c, static, as h and k.  Where it is below both of them, it leaves
        some of what c explains: the powers of a and b have powers of c as their means.
      init: a previous fit of the same kernels, traced; its g, carried over to the basis of
        these data, is where the projected gradient starts (the warm start of the paper).  The
        result does not depend on it, and the closed form is at hand anyway: it saves no time.
      solver: static. ``"projected_gradient"`` is a constrained jaxopt solver (unit sphere in
        whitened coordinates, started from the closed form or ``init``) with implicit
        differentiation; ``"svd"`` is the closed form.  Both have the same value and derivatives.

    Returns:
      A scalar in [0, 1], an array of JAX of the floating dtype of ``a`` and ``b``;
      ``float(value)`` makes a number of Python of it.

    Raises:
      TypeError, ValueError: for shapes, dtypes or static arguments other than the above, and for
        two series of pandas with different indexes (rows are matched by position).
        Never for values, so that it can be traced: see `kb_fit` for diagnostics.

    Derivatives: with respect to ``a``, ``b``, c and ``weights``, forward and reverse, of every
    order.  The first is that of the correlation with the coefficients held fixed (the envelope
    theorem), an elementwise pass over the data.

    Degenerate data: a constant ``a`` or ``b`` gives 0, with zero derivatives; m distinct values
    count as degree m - 1; NaN or infinity gives NaN.  On n <= h + k rows the value is 1
    (effective degrees, without ties).  The sample value is biased upward: between independent
    variables it is not 0 but up to about (sqrt(h) + sqrt(k)) / sqrt(n).  What c explains but for
    rounding counts as constant.

    Cost: one pass over the data (a few more where far outliers need them) in blocks, and the
    SVD of an h x k matrix; nothing of size n x (h + k) is allocated for ``(n,)`` arrays (with
    weights, several arrays of size n are; with ``given`` all functions at all rows).  In float32
    an outlier beyond some 10^6 standard deviations of the other rows hides them, and numbers
    below the smallest normal one count as 0; of what is ill conditioned the status of `kb_fit`
    says so.

    Source: Giuliani & Lombardi, "Robust Non-Linear Correlations via Polynomial Regression";
    Hotelling, "Relations between two sets of variates" (1936), for the closed form.

    Example:
      >>> import jax, jax.numpy as jnp, hgr_jax
      >>> angle = jnp.linspace(0, 2 * jnp.pi, 100, endpoint=False)
      >>> a, b = jnp.cos(angle), jnp.sin(angle)  # a circle: a^2 + b^2 = 1
      >>> print(f"{hgr_jax.kb(a, b, h=2, k=2):.4f}")
      1.0000
      >>> print(f"{hgr_jax.kb(a, b, h=1, k=1):.4f}")  # |Pearson|
      0.0000
      >>> gradient = jax.jit(jax.grad(lambda b: hgr_jax.kb(a, b)))(a**2 - b / 2)
    """
    (x, y, w, start), static = _checked_arguments(a, b, h, k, weights, init, solver)
    c, static["given_degree"] = check_given(given, given_degree, x)
    if c is not None and init is not None:
        raise ValueError("init is a fit of a and b alone: expected none with given.")
    return _kb(x, y, w, c, start, **static)


def kb_fit(
    a: ArrayLike,
    b: ArrayLike,
    h: KernelLike = 5,
    k: KernelLike = 5,
    *,
    weights: ArrayLike | None = None,
    init: KBFit | None = None,
    solver: str = "projected_gradient",
) -> KBFit:
    """Fit HGR-KB: its copula transformations, coefficients and diagnostics.

    Degenerate data, cost and source as in `kb`, whose value is the ``correlation`` of the result.

    Args:
      a, b, h, k, weights, init, solver: as in `kb`.

    Returns:
      A `KBFit`, a frozen pytree: ``correlation``; ``f`` and ``g``, callable on new data, of zero
      mean and unit variance on these; ``alpha`` and ``beta``, their coefficients on the
      monomials (the paper scales f by the correlation; here both have unit variance);
      ``degrees``, ``residual``, ``iterations``, ``status`` and ``message``; and ``score`` for
      held-out data.  Differentiable: coefficients and transformations by the implicit function
      theorem, wherever the top canonical correlation is simple.

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
    """
    traced, static = _checked_arguments(a, b, h, k, weights, init, solver)
    return _kb_fit(*traced, **static)


def _checked_arguments(
    a: ArrayLike, b: ArrayLike, h: Any, k: Any, weights: ArrayLike | None, init: Any, solver: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the traced and the static arguments of `kb` and `kb_fit`."""
    (a, b, w), kernels = check_two_kernels(a, b, h, k, weights)
    return (a, b, w, check_init(init, b)), {
        **kernels,
        "solver": check_choice("solver", solver, SOLVERS),
    }


def check_init(init: Any, b: Array) -> KBFit | None:
    """Return a previous fit to a variable of as many columns as ``b``, or None."""
    if init is None:
        return None
    if not isinstance(init, KBFit):
        raise TypeError(
            f"init must be a fit (the result of kb_fit) or None; got {type(init).__name__}."
        )
    columns = 1 if b.ndim == 1 else b.shape[1]
    if init.g.encoder.variables not in (None, columns):
        raise ValueError(
            f"init must be a fit to a b of {columns} column(s), as b has here;"
            f" got one to {init.g.encoder.variables}."
        )
    return init


@over_rows(columns=4, static=("h", "k", "given_degree", "solver"), weights=2)
def _kb(
    a: Array,
    b: Array,
    weights: Array | None,
    given: Array | None,
    init: KBFit | None,
    *,
    h: KernelLike,
    k: KernelLike,
    given_degree: KernelLike,
    solver: str,
    count: Array | None,
) -> Array:
    pair = prepare_given((h, k), solver, a, b, weights, given, given_degree, count)
    start = _start(init, b, weights)
    return correlation(pair.problem, pair.a, pair.b, pair.weights, start, pair.count)


@over_rows(columns=3, static=("h", "k", "solver"), weights=2)
def _kb_fit(
    a: Array,
    b: Array,
    weights: Array | None,
    init: KBFit | None,
    *,
    h: KernelLike,
    k: KernelLike,
    solver: str,
    count: Array | None,
) -> KBFit:
    pair = prepare((h, k), solver, a, b, weights, count)
    start = _start(init, b, weights)
    solution = solve(pair.problem, pair.a, pair.b, pair.weights, start, pair.count)
    return as_fit(solution, pair)


def _start(init: KBFit | None, b: Array, weights: Array | None) -> Array | None:
    if init is None:
        return None
    start = lax.stop_gradient(init.g(b)).astype(b.dtype)
    return start if weights is None else jnp.where(weights > 0, start, 0)
