"""Cross-validation on the host: rows dealt to folds, scores on them, and the choice of one."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import Array
from numpy.typing import NDArray

from hgr_jax._arrays import Floats
from hgr_jax._checks import as_key, as_pair, as_weights
from hgr_jax.core.host.polynomials import PolynomialPair
from hgr_jax.inference._gram import folds_of
from hgr_jax.inference.resampling import check_folds

RULES = ("one_standard_error", "best")


@dataclasses.dataclass(frozen=True)
class FoldedPair:
    """Two variables on the host without the rows of no weight, and the weights of every fold.

    Attributes:
      a, b, weights: ``(n,)``.
      inside: ``(n, folds)``, the weights in each fold, of a total of 1.
      dtype: of the data, before they came to the host.
    """

    a: NDArray[Any]
    b: NDArray[Any]
    weights: Floats
    inside: Floats
    dtype: np.dtype


def folded(
    a: npt.ArrayLike, b: npt.ArrayLike, weights: npt.ArrayLike | None, key: Array, folds: int
) -> FoldedPair:
    """Check the data of a cross-validation, and deal their rows to folds."""
    a, b = as_pair(a, b, max_ndim=1)
    weights = as_weights(weights, a.shape[0], a.dtype)
    folds = check_folds(folds, a.shape[0])
    order = folds_of(as_key(key), a.shape[0], folds)
    x, y = np.asarray(a), np.asarray(b)
    w = np.ones(len(x)) if weights is None else np.asarray(weights, np.float64)
    kept = np.flatnonzero(w)
    sound = np.isfinite(w).all() and (w >= 0).all() and len(kept) > 0
    if not (sound and np.isfinite(x[kept]).all() and np.isfinite(y[kept]).all()):
        raise ValueError(
            "folds need finite a and b and weights >= 0, not all 0;"
            " drop the other rows, or give them weight 0."
        )
    inside = np.zeros((len(x), folds))
    for fold, rows in enumerate(order):
        inside[rows, fold] = w[rows] / w.sum()
    return FoldedPair(x[kept], y[kept], w[kept], inside[kept], x.dtype)


class FoldMoments:
    """The moments of a pair's functions inside and outside of every fold.

    Attributes:
      pair: the pair.
      inside, training: ``(m, m, folds)``; the rows outside are summed, as a difference would
        cancel.
      counted: which folds hold any weight.
    """

    def __init__(self, pair: PolynomialPair, inside: Floats) -> None:
        self.pair = pair
        self.inside = pair.grams(inside)
        folds = self.inside.shape[2]
        self.training = self.inside @ (1 - np.eye(folds))
        self.counted = self.inside[0, 0] > 0
        if self.counted.sum() < 2:
            raise ValueError("weights must leave rows in at least two folds; use fewer folds.")

    def scores(self, fold: int, f: Floats, g: Floats, tolerance: float) -> Floats:
        """Return the correlations ``(...)`` on a fold of functions of other rows.

        Args:
          fold: which.
          f, g: ``(..., h)`` and ``(..., k)`` on the pair's functions.
          tolerance: part of the square of a function that its variance on the fold must be above.
        """
        gram, (h, _) = self.inside[:, :, fold], self.pair.directions
        mean, trained = (
            quotient(part[1:, 0], part[0, 0]) for part in (gram, self.training[:, :, fold])
        )
        covariance = quotient(gram[1:, 1:], gram[0, 0]) - np.outer(mean, mean)
        moved = mean - trained
        spreads = []
        for part, w in ((slice(None, h), f), (slice(h, None), g)):
            variance = np.einsum("...i,ij,...j->...", w, covariance[part, part], w)
            varies = variance > tolerance * (variance + (w @ moved[part]) ** 2)
            spreads.append(np.where(varies, variance, 0))
        product = np.einsum("...i,ij,...j->...", f, covariance[:h, h:], g)
        return np.clip(quotient(product, np.sqrt(spreads[0] * spreads[1])), -1, 1)


def summed_up(scores: Floats, dtype: np.dtype) -> tuple[Floats, Floats, float]:
    """Return the means of scores ``(folds, ...)``, their standard errors, and what rounding is."""
    errors = scores.std(axis=0, ddof=1) / np.sqrt(len(scores))
    return scores.mean(axis=0), errors, float(jnp.finfo(dtype).eps) ** (2 / 3)


def near_the_best(scores: Floats, errors: Floats, rule: str, rounding: float) -> NDArray[np.bool_]:
    """Return which scores are the best, or within its standard error by that rule."""
    best = np.unravel_index(np.argmax(scores), scores.shape)
    allowance = errors[best] if rule == "one_standard_error" else 0.0
    near: NDArray[np.bool_] = scores >= scores[best] - allowance - rounding
    return near


def quotient(numerator: Floats, denominator: Any) -> Floats:
    """Return the ratio, and 0 where the denominator is not positive."""
    positive = denominator > 0
    return np.where(positive, numerator / np.where(positive, denominator, 1), 0)
