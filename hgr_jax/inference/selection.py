"""Cross-validation on the host: which degrees to use.

Rows are dealt to folds.  All candidates use one basis of each variable and its moments in every
fold: the moments outside a fold whiten the basis and give the functions, the moments inside the
fold their score.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import Array
from numpy.typing import NDArray

from hgr_jax._arrays import Floats
from hgr_jax._checks import (
    as_key,
    as_pair,
    as_weights,
    check_choice,
    check_count,
    one_or_pair,
)
from hgr_jax.core.host.linalg import top_singular_triples, top_singular_values
from hgr_jax.core.host.polynomials import PolynomialPair, fit_pair, tolerance
from hgr_jax.core.rows import padded_length

RULES = ("one_standard_error", "best")


@dataclasses.dataclass(frozen=True)
class FoldedPair:
    """Two variables without rows of weight 0, and weights ``inside (n, folds)`` of sum 1."""

    a: NDArray[Any]
    b: NDArray[Any]
    weights: Floats
    inside: Floats
    dtype: np.dtype

    @property
    def is_sound(self) -> bool:
        """Whether data and weights are finite, and weights positive."""
        finite = all(np.isfinite(x).all() for x in (self.a, self.b, self.weights))
        return finite and len(self.a) > 0 and bool((self.weights > 0).all())

    def check(self) -> None:
        """Raise a ValueError where data or weights are not sound."""
        if not self.is_sound:
            raise ValueError(
                "folds need finite a and b and weights >= 0, not all 0;"
                " drop the other rows, or give them weight 0."
            )


def deal_folds(key: Array, rows: int, folds: int) -> list[NDArray[np.intp]]:
    """Deal rows to folds at random, whose sizes differ by 1 at most."""
    bits = jax.random.bits(key, (padded_length(rows),), jnp.uint32)  # few lengths, few programs
    order = np.argsort(np.asarray(bits)[:rows], kind="stable")
    return [order[fold::folds] for fold in range(folds)]


def fold_pair(
    a: npt.ArrayLike, b: npt.ArrayLike, weights: npt.ArrayLike | None, key: Array, folds: int
) -> FoldedPair:
    """Deal the rows of two variables to folds."""
    a, b = as_pair(a, b, max_ndim=1, weights=weights)
    weights = as_weights(weights, a.shape[0], a.dtype)
    key, rows, folds = as_key(key), a.shape[0], check_count("folds", folds, 2)
    if 2 * folds > rows:
        raise ValueError(f"folds must have 2 rows each, of {rows} rows; got {folds} folds.")
    x, y = np.asarray(a), np.asarray(b)
    w = np.ones(rows) if weights is None else np.asarray(weights, np.float64)
    inside = np.zeros((rows, folds))
    for fold, chosen in enumerate(deal_folds(key, rows, folds)):
        inside[chosen, fold] = w[chosen] / max(w.sum(), 1e-300)
    used = w != 0
    return FoldedPair(x[used], y[used], w[used], inside[used], x.dtype)


class FoldMoments:
    """Moments ``(m, m, folds)`` of a pair's functions: ``inside`` each fold, and ``training``.

    Those of training rows are sums, as a difference would cancel.  ``counted`` marks folds of
    positive weight.
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
        """Return the correlations ``(...)``, on a fold, of functions learned outside it.

        ``f (..., h)`` and ``g (..., k)`` are coefficients on the pair's functions; a function whose
        variance is at most the share ``tolerance`` of its mean square counts as constant.
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


def mean_scores(scores: Floats, dtype: np.dtype) -> tuple[Floats, Floats, float]:
    """Return means of scores ``(folds, ...)``, their standard errors, and a bound on rounding."""
    errors = scores.std(axis=0, ddof=1) / np.sqrt(len(scores))
    return scores.mean(axis=0), errors, float(jnp.finfo(dtype).eps) ** (2 / 3)


def near_the_best(scores: Floats, errors: Floats, rule: str, rounding: float) -> NDArray[np.bool_]:
    """Return which scores the rule accepts: the best, or within a standard error of the best."""
    best = np.unravel_index(np.argmax(scores), scores.shape)
    allowance = errors[best] if rule == "one_standard_error" else 0.0
    near: NDArray[np.bool_] = scores >= scores[best] - allowance - rounding
    return near


def quotient(numerator: Floats, denominator: Any) -> Floats:
    """Return the ratio, and 0 where the denominator is not positive."""
    positive = denominator > 0
    return np.where(positive, numerator / np.where(positive, denominator, 1), 0)


if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True, eq=False)
class DegreeSelection:
    """The result of `select_degrees`; entry ``[i, j]`` of a table is of degrees i + 1 and j + 1.

    Attributes:
      h, k: the chosen degrees, of a and of b.
      scores: ``(H, K)`` correlation of the transformations on held-out rows, mean over folds.
      standard_errors: ``(H, K)`` of these means.
      values: ``(H, K)`` HGR-KB on all rows, which never decreases with either degree.
      rule: how the degrees were chosen.
    """

    h: int
    k: int
    scores: Floats
    standard_errors: Floats
    values: Floats
    rule: str

    def plot(self) -> Figure:
        """Draw heat maps of ``values`` and ``scores`` side by side, the choice marked.

        Raises:
          ImportError: without matplotlib, naming the command that installs it.
        """
        from hgr_jax.plotting import plot_degrees

        return plot_degrees(self)


def select_degrees(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    key: Array,
    largest: int | tuple[int, int] = 7,
    folds: int = 5,
    rule: str = "one_standard_error",
    weights: npt.ArrayLike | None = None,
) -> DegreeSelection:
    """Select degrees h and k of HGR-KB, by cross-validation over all pairs up to the largest.

        score(h, k) = mean over folds F of  rho_F( f_-F(a), g_-F(b) )

    with f_-F and g_-F those of HGR-KB on the other rows.  HGR-KB itself is no guide, as it grows
    with the degrees whatever the data.  Its value at degrees chosen from the same data is biased
    upward.

    Args:
      a, b: real arrays ``(n,)``.
      key: a random key for the folds, as ``jax.random.key(0)`` makes.
      largest: degree to try up to, int >= 1, or a pair, of a and of b.
      folds: int, 2 to n / 2.
      rule: ``"one_standard_error"`` takes the smallest h + k with a score within one standard error
        of the best score, and among pairs of that h + k the best score; ``"best"`` takes the best
        score.  Ties (up to rounding) go to the smaller h + k, then to the smaller h.
      weights: non-negative ``(n,)``, or None.  A fold without any weight is left out.

    Returns:
      A `DegreeSelection`, with NumPy tables of all scores and values, and ``plot()``.

    Raises:
      TypeError, ValueError: for shapes, dtypes or options other than the above, and for data that
        are not finite, a negative weight, or weights that leave fewer than two folds.

    Degenerate data: where ``a`` or ``b`` is constant every score is 0, and the choice (1, 1); a
    degree that the values of a variable do not support adds nothing, and is not chosen.

    Cost: a host function, not to be traced: 49 pairs and 5 folds of 10,000 rows take 15 ms on one
    core.

    Source: Stone, "Cross-validatory choice and assessment of statistical predictions" (1974);
    Breiman, Friedman, Olshen & Stone, "Classification and Regression Trees" (1984), for the rule
    of one standard error.

    Example:
      >>> import jax, numpy as np
      >>> from hgr_jax.inference import select_degrees
      >>> a, noise = np.random.default_rng(0).normal(size=(2, 500))
      >>> found = select_degrees(a, a**2 + noise / 4, largest=3, key=jax.random.key(0))
      >>> found.h, found.k
      (2, 1)
      >>> found.values.shape
      (3, 3)
    """
    if isinstance(largest, tuple | list) and len(largest) != 2:
        raise ValueError(f"largest must be a degree, or a pair of degrees; got {largest!r}.")
    top = one_or_pair("largest", largest, check_count)
    check_choice("rule", rule, RULES)
    rows = fold_pair(a, b, weights, key, folds)
    rows.check()
    pair = fit_pair(rows.a, rows.b, rows.weights, top)
    moments = FoldMoments(pair, rows.inside)
    scored, values = _cross_validated(moments, top, tolerance(rows.dtype) * sum(top))
    scores, errors, rounding = mean_scores(scored[moments.counted], rows.dtype)
    h, k = _choose_degrees(scores, near_the_best(scores, errors, rule, rounding), rounding)
    return DegreeSelection(h, k, scores, errors, values, rule)


def _choose_degrees(
    scores: Floats, near: npt.NDArray[np.bool_], rounding: float
) -> tuple[int, int]:
    order = np.add.outer(np.arange(scores.shape[0]), np.arange(scores.shape[1]))
    smallest = near & (order == order[near].min())
    tied = smallest & (scores >= scores[smallest].max() - rounding)
    h, k = np.argwhere(tied)[0]
    return int(h) + 1, int(k) + 1


def _cross_validated(
    moments: FoldMoments, largest: tuple[int, int], rounding: float
) -> tuple[Floats, Floats]:
    """Return held-out scores ``(folds, H, K)``, and values ``(H, K)``."""
    pair, folds = moments.pair, moments.inside.shape[2]
    m, *maps = pair.whitened(moments.training)
    h = pair.directions[0]
    rows, columns = (np.arange(size) for size in largest)
    within = (np.arange(h)[:, None, None, None] <= rows[None, None, :, None]) & (
        np.arange(pair.directions[1])[None, :, None, None] <= columns[None, None, None, :]
    )
    whole, *_ = pair.whitened(moments.inside.sum(axis=2, keepdims=True))
    blocks = (whole[..., None] * within).reshape(*whole.shape[:2], rows.size * columns.size)
    values = np.minimum(top_singular_values(blocks), 1).reshape(largest)
    # Rounding alone breaks their monotony.
    values = np.maximum.accumulate(np.maximum.accumulate(values, 0), 1)
    scores = np.zeros((folds, *largest))
    for fold in range(folds) if min(pair.directions) else ():
        blocks = (m[..., fold, None, None] * within).reshape(*m.shape[:2], -1)
        _, left, right = top_singular_triples(blocks)
        f, g = left.T @ maps[0][..., fold], right.T @ maps[1][..., fold]
        scores[fold] = moments.scores(fold, f, g, rounding).reshape(largest)
    return scores, values
