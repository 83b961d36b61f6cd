"""P-values of many tests, adjusted for how many there are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hgr_jax._checks import check_choice

METHODS = ("bh", "bonferroni", "holm")


def adjust(pvalues: npt.ArrayLike, method: str = "bh") -> npt.NDArray[np.float64]:
    """Adjust p-values so that all tests together keep an error rate.

    With p_(1) <= ... <= p_(m) the p-values of the m tests of the family, adjusted values are

        bh          p_(i) -> min over j >= i of  p_(j) m / j           false discovery rate
        bonferroni  p_(i) -> p_(i) m                                   family-wise error rate
        holm        p_(i) -> max over j <= i of  p_(j) (m - j + 1)     family-wise error rate

    and at most 1.  Rejecting where the adjusted value is at most q keeps the named rate at most
    q: the expected share of false rejections among all rejections, or the probability of even
    one.  Benjamini and Hochberg's holds for independent tests and for those that depend
    positively; the other two hold always, and Holm's never rejects less than Bonferroni's.

    Args:
      pvalues: numbers in [0, 1] of any shape, all of one family.  NaN is no test: it is not
        counted, and stays NaN.  The upper triangle of a symmetric matrix holds each pair once:
        set the rest to NaN, or each counts twice.
      method: ``"bh"``, ``"bonferroni"`` or ``"holm"``.

    Returns:
      Adjusted p-values, float64, of the shape of ``pvalues``; none is below its p-value.

    Raises:
      TypeError: if ``pvalues`` are not real numbers.
      ValueError: if one is outside [0, 1], or for another method.

    Degenerate cases: a family of one test is left as it is; one of none, too.

    Source: Benjamini & Hochberg, "Controlling the false discovery rate" (1995); Holm, "A simple
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
    if method == "bh":
        from scipy.stats import false_discovery_control

        return np.maximum(false_discovery_control(p), p)
    if method == "bonferroni":
        return np.minimum(p * p.size, 1)
    order = np.argsort(p)
    stepped = np.minimum(np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)), 1)
    adjusted = np.empty_like(p)
    adjusted[order] = stepped
    return adjusted
