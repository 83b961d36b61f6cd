"""Bias, bounds and multiplicity: `corrected`, `upper_bound`, `adjust`."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import Array
from numpy.typing import ArrayLike, NDArray

from hgr_jax._checks import check_choice, check_level
from hgr_jax.core.canonical import prepare, solve
from hgr_jax.core.fits import error_of, ezekiel, normal_quantile
from hgr_jax.core.kernels import KernelLike, check_two_kernels
from hgr_jax.core.rows import over_rows


def corrected(value: Array, rows: ArrayLike, parameters: ArrayLike) -> Array:
    """Correct a correlation for its upward bias by Ezekiel's formula.

        corrected^2 = max(0, 1 - (1 - value^2) (rows - 1) / (rows - 1 - parameters))

    Args:
      value: correlations in [0, 1], of any shape, traced.
      rows: how many rows they were computed from, traced.
      parameters: of the model, traced or static: h + k - 1 for the top canonical correlation of h
        and k functions (the leading term of Lawley's expansion, which is of normal variables: with
        heavy tails the bias is larger).

    Raises:
      TypeError: for arguments that are not arrays of numbers.

    Degenerate cases: 0 if ``rows <= parameters + 1``.  Derivatives are 0 where the result is.

    Source: Ezekiel, "Methods of correlation analysis" (1930); Lawley, "Tests of significance in
    canonical analysis" (1959).

    Example:
      >>> import jax.numpy as jnp
      >>> from hgr_jax.inference import corrected
      >>> noise, weak, strong = corrected(jnp.array([0.05, 0.1, 0.5]), 1000, 9)
      >>> print(f"{noise:.3f} {weak:.3f} {strong:.3f}")
      0.000 0.032 0.493
    """
    value = jnp.asarray(value)
    rows, parameters = (jnp.asarray(x, value.dtype) for x in (rows, parameters))
    adjusted: Array = ezekiel(jnp, value, rows, parameters)
    return adjusted


def corrected_on_host(
    value: ArrayLike, rows: ArrayLike, parameters: ArrayLike
) -> NDArray[np.float64]:
    """Return `corrected` by NumPy, in double precision, for arrays whose shapes vary."""
    adjusted: NDArray[np.float64] = ezekiel(np, np.asarray(value, np.float64), rows, parameters)
    return adjusted


def upper_bound(
    a: ArrayLike,
    b: ArrayLike,
    h: KernelLike = 5,
    k: KernelLike = 5,
    *,
    level: float = 0.95,
    weights: ArrayLike | None = None,
) -> Array:
    """Bound HGR-KB in the population from above.

        KB + z se,   se^2 = sum_i w_i^2 psi_i^2,   psi = f(a) g(b) - KB (f(a)^2 + g(b)^2) / 2,

    with f, g the transformations of `hgr_jax.kb_fit`, weights w of sum 1 (1 / n without), and z the
    normal quantile of ``level``.  In the limit of many rows it covers HGR-KB of these kernels in
    the population with probability ``level``, where f and g have fourth moments and the top
    canonical correlation is simple.  For a number of rows nothing is proved; see below.  It may
    exceed 1.

    Args:
      a, b: real arrays ``(n,)``, or ``(n, p)`` for several variables at once, traced.
      h, k: kernel of ``a`` and of ``b``, static, as in `hgr_jax.kb`.
      level: nominal coverage, above 0 and below 1, static, though all levels share a program.
      weights: non-negative ``(n,)``, traced, or None: how much a row is to count, not how often it
        was seen.

    Returns:
      A scalar of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for shapes, dtypes or static arguments other than the above.

    Derivatives: with respect to ``a``, ``b`` and ``weights``, forward and reverse, wherever the top
    canonical correlation is simple.

    Coverage: measured at level 95% (`python -m bench.coverage`), at degrees 2 to 5 at least 94% of
    normal, lognormal, discrete and Student's t pairs, also where the first two canonical
    correlations tie, since KB of a sample is biased upward.  At degree 1 there is no such bias:
    lognormal values are covered in 88 to 96% (of their first canonical correlation above 0; the
    rare largest rows, which a sample may lack, make it); take ranks.  The level does not hold on
    rows that a model was fitted to or chosen by: take held-out rows.

    Degenerate data: 0 for a constant; 1 on n <= h + k rows; NaN or infinity gives NaN.

    Source: the delta method, with the influence function of a canonical correlation: Romanazzi,
    "Influence in canonical correlation analysis" (1992).

    Example:
      >>> import numpy as np, hgr_jax
      >>> from hgr_jax.inference import upper_bound
      >>> a, b = np.random.default_rng(0).normal(size=(2, 1000))  # independent
      >>> bool(hgr_jax.kb(a, b) < upper_bound(a, b) < 0.3)
      True
    """
    (a, b, w, _), (h, k, _) = check_two_kernels((a, b), (h, k), weights)
    z = np.asarray(normal_quantile(check_level("level", level)), a.dtype)
    return _upper_bound(a, b, w, z, h=h, k=k)


@over_rows(columns=3, static=("h", "k"), weights=2)
def _upper_bound(
    a: Array,
    b: Array,
    weights: Array | None,
    z: Array,
    *,
    h: KernelLike,
    k: KernelLike,
    count: Array | None,
) -> Array:
    pair = prepare((h, k), "svd", a, b, weights, count)
    solution = solve(pair.problem, pair.a, pair.b, pair.weights, None, pair.count)
    return solution.correlation + z * error_of(solution, pair)


METHODS = ("bh", "by", "bonferroni", "holm")


FALSE_DISCOVERY_METHODS = ("bh", "by")
"""Methods of a false discovery rate: of independent tests, and whatever depends on what."""


def dependence_factor(method: str, tests: int) -> float:
    """Return the factor of adjusted p-values of ``"by"``, 1 + 1/2 + ... + 1/m; 1 of ``"bh"``."""
    return float(np.sum(1 / np.arange(1.0, tests + 1))) if method == "by" else 1.0


def adjust(pvalues: npt.ArrayLike, method: str = "bh") -> npt.NDArray[np.float64]:
    """Adjust p-values so that all tests together keep an error rate.

    With p_(1) <= ... <= p_(m) the p-values of the m tests of the family, adjusted values are

        bh          p_(i) -> min over j >= i of  p_(j) m / j           false discovery rate
        by          the same times 1 + 1/2 + ... + 1/m                false discovery rate
        bonferroni  p_(i) -> p_(i) m                                   family-wise error rate
        holm        p_(i) -> max over j <= i of  p_(j) (m - j + 1)     family-wise error rate

    and at most 1.  Rejecting where the adjusted value is at most q keeps the named rate at most q.
    Benjamini and Hochberg's holds for independent tests and for those that depend positively;
    Benjamini and Yekutieli's (``"by"``) and the other two hold always, and Holm's never rejects
    less than Bonferroni's.

    Args:
      pvalues: numbers in [0, 1] of any shape, all of one family.  NaN is no test: it is not
        counted, and stays NaN.  (Of a symmetric matrix take one triangle.)
      method: ``"bh"``, ``"by"``, ``"bonferroni"`` or ``"holm"``.

    Returns:
      Adjusted p-values, float64, of the shape of ``pvalues``; none is below its p-value.

    Raises:
      TypeError: if ``pvalues`` are not real numbers.
      ValueError: if one is outside [0, 1], or for another method.

    Degenerate cases: a family of at most one test is not changed.

    Source: Benjamini & Hochberg, "Controlling the false discovery rate" (1995); Benjamini &
    Yekutieli, "The control of the false discovery rate in multiple testing under dependency"
    (2001); Holm, "A simple
    sequentially rejective multiple test procedure" (1979).

    Example:
      >>> from hgr_jax.inference import adjust
      >>> p = [0.01, 0.02, 0.03, 0.5, float("nan")]
      >>> print(adjust(p).round(3))
      [0.04 0.04 0.04 0.5   nan]
      >>> print(adjust(p, method="holm").round(3))
      [0.04 0.06 0.06 0.5   nan]
    """
    check_choice("method", method, METHODS)
    values = np.asarray(pvalues)
    if values.dtype.kind not in "fiu":
        raise TypeError(f"pvalues must be real numbers; got dtype {values.dtype}.")
    values = values.astype(np.float64)
    outside = (values < 0) | (values > 1)
    if outside.any():
        raise ValueError(
            f"pvalues must be from 0 to 1, or NaN; {np.count_nonzero(outside)} of {values.size}"
            f" are not, the first of them {values[outside][0]}."
        )
    tested = ~np.isnan(values)
    adjusted = values.copy()
    if tested.any():
        adjusted[tested] = _adjusted(values[tested], method)
    return adjusted


def _adjusted(p: npt.NDArray[np.float64], method: str) -> npt.NDArray[np.float64]:
    if method == "bonferroni":
        return np.minimum(p * p.size, 1)
    if method in FALSE_DISCOVERY_METHODS:
        from scipy import stats  # loads slowly

        return np.asarray(stats.false_discovery_control(p, method=method))
    order = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)), 1)
    return adjusted
