"""Cross-validation on the host: which degrees, or which ridge, to use.

Rows are dealt to folds.  All candidates use one basis of each variable and its moments in every
fold: the moments outside a fold whiten the basis and give the functions, the moments inside the
fold their score.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
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
    check_kernel,
    one_or_pair,
)
from hgr_jax.core.canonical import standardised_features
from hgr_jax.core.host.linalg import orthonormalise, top_singular_triples, top_singular_values
from hgr_jax.core.host.polynomials import PolynomialPair, fit_pair, polynomials_at, tolerance
from hgr_jax.core.kernels import KernelLike
from hgr_jax.core.numerics import normalise_weights
from hgr_jax.core.rows import over_rows, padded_length

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

    as in `hgr_jax.inference.cross_fitted`.  HGR-KB itself is no guide, as it grows with the degrees
    whatever the data.  Its value at degrees chosen from the same data is biased upward.

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


RIDGES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


@dataclasses.dataclass(frozen=True, eq=False)
class RidgeSelection:
    """The result of `select_ridge`; entry i of an array is of ridge i.

    Attributes:
      ridge: the chosen one.
      ridges: all that were tried, ``(R,)``.
      scores: ``(R,)`` correlation of the transformations on held-out rows, mean over folds.
      standard_errors: ``(R,)`` of these means.
      values: ``(R,)`` the correlation on all rows, which falls as the ridge grows.
      rule: how the ridge was chosen.
    """

    ridge: float
    ridges: Floats
    scores: Floats
    standard_errors: Floats
    values: Floats
    rule: str


def select_ridge(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    h: KernelLike = 5,
    k: KernelLike = 5,
    *,
    ridges: Sequence[float] = RIDGES,
    folds: int = 5,
    key: Array | None = None,
    rule: str = "one_standard_error",
    weights: npt.ArrayLike | None = None,
) -> RidgeSelection:
    """Select the ridge of HGR-KB by cross-validation.

        score(ridge) = mean over folds F of  rho_F( f_-F(a), g_-F(b) )

    with f_-F, g_-F the transformations that ``hgr_jax.kb_fit(..., ridge=ridge)`` finds on the rows
    outside F.  A ridge is for kernels of many functions on few rows; for polynomials, lower degrees
    do as well (`select_degrees`).  As features are standardised, a feature that is 0 at most rows
    counts as much as the others: take keypoints with equally many rows between them
    (`hgr_jax.kernels.quantiles`).

    Args:
      a, b, folds, weights: as in `select_degrees`.
      h, k: kernels, as of `hgr_jax.kb`: degrees, or callables of features.
      ridges: the candidates, numbers >= 0; 0 is no ridge.
      key: a random key for the folds; None for ``jax.random.key(0)``.
      rule: ``"one_standard_error"`` takes the largest ridge whose score is within one standard
        error of the best score, ``"best"`` the ridge of the best score.  Ties (up to rounding) go
        to the larger ridge.

    Returns:
      A `RidgeSelection`, with NumPy arrays of all scores and values.

    Raises:
      TypeError, ValueError: as `select_degrees` does.

    Degenerate data: where ``a`` or ``b`` is constant every score is 0, and the choice is the
    largest ridge.

    Cost: a host function, not to be traced: 12 ridges, 5 folds and two kernels of 30 hats take
    0.1 s at 1,000 rows, once compiled.

    Source: Stone, "Cross-validatory choice and assessment of statistical predictions" (1974);
    Leurgans, Moyeed & Silverman, "Canonical correlation analysis when the data are curves" (1993),
    for its use with a smoothed canonical correlation.

    Example:
      >>> import numpy as np, hgr_jax
      >>> from hgr_jax.inference import select_ridge
      >>> from hgr_jax.kernels import hats, quantiles
      >>> a, noise = np.random.default_rng(0).normal(size=(2, 200))
      >>> b = np.sin(3 * a) + noise
      >>> many = hats(quantiles(a, 40)), hats(quantiles(b, 40))
      >>> found = select_ridge(a, b, *many, rule="best")
      >>> found.ridge, found.scores[found.ridges == found.ridge] > found.scores[0]
      (100.0, array([ True]))
      >>> fit = hgr_jax.kb_fit(a, b, *many, ridge=found.ridge)
    """
    kernels = check_kernel("h", h), check_kernel("k", k)
    strengths = _check_ridges(ridges)
    check_choice("rule", rule, RULES)
    rows = fold_pair(a, b, weights, jax.random.key(0) if key is None else key, folds)
    rows.check()
    whole = _features_of(rows, kernels, rows.weights)
    pair = _orthonormal_pair(rows, kernels, whole)
    moments = FoldMoments(pair, rows.inside)
    rounding = tolerance(rows.dtype) * sum(pair.directions)
    scored: Floats = np.zeros((rows.inside.shape[1], len(strengths)))
    values: Floats = np.zeros(len(strengths))
    if min(pair.directions):
        gram = moments.inside.sum(axis=2, keepdims=True)
        *_, values = _regularised_functions(pair, gram, rows.weights, whole, strengths)
        for fold in range(len(scored)):
            w = rows.inside.sum(axis=1) - rows.inside[:, fold]
            features = _features_of(rows, kernels, w)
            training = moments.training[:, :, [fold]]
            f, g, _ = _regularised_functions(pair, training, w, features, strengths)
            scored[fold] = moments.scores(fold, f, g, rounding)
    scores, errors, rounding = mean_scores(scored[moments.counted], rows.dtype)
    chosen = strengths[near_the_best(scores, errors, rule, rounding)].max()
    return RidgeSelection(float(chosen), strengths, scores, errors, values, rule)


def _check_ridges(ridges: Any) -> Floats:
    """Return the ridges to try as an array."""
    try:
        checked = np.asarray(ridges, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"ridges must be numbers; got {ridges!r}.") from None
    if checked.ndim != 1 or not len(checked) or not (np.isfinite(checked) & (checked >= 0)).all():
        raise ValueError(f"ridges must be one or more finite numbers >= 0; got {ridges!r}.")
    return checked


def _features_of(
    rows: FoldedPair, kernels: tuple[KernelLike, KernelLike], weights: Floats
) -> tuple[Floats, Floats]:
    """Return the features ``(n, m)`` of both variables, standardised with these weights."""
    first, second = (
        np.asarray(
            _standardised_features(x, weights.astype(x.dtype), kernel=kernel, name=name), np.float64
        )
        for x, kernel, name in zip((rows.a, rows.b), kernels, "hk", strict=True)
    )
    return first[: len(rows.a)], second[: len(rows.a)]


@over_rows(columns=2, static=("kernel", "name"), weights=1)
def _standardised_features(
    x: Array, weights: Array, *, kernel: KernelLike, name: str, count: Array | None
) -> Array:
    del count  # the rows that are not data have weight 0
    return standardised_features(kernel, x, normalise_weights(weights), name)


def _orthonormal_pair(
    rows: FoldedPair, kernels: tuple[KernelLike, KernelLike], features: tuple[Floats, Floats]
) -> PolynomialPair:
    """Return functions of both variables that span their features."""
    shares = rows.weights / rows.weights.sum()
    f, g = (
        orthonormalise(each.T, shares)[0] if callable(kernel) else polynomials_at(x, shares, kernel)
        for x, each, kernel in zip((rows.a, rows.b), features, kernels, strict=True)
    )
    return PolynomialPair((f, g), shares)


def _regularised_functions(
    pair: PolynomialPair,
    gram: Floats,
    weights: Floats,
    features: tuple[Floats, Floats],
    ridges: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Return the functions ``(R, h)`` and ``(R, k)`` of every ridge, and their correlations.

    They are coefficients on the pair's functions, fitted by the moments ``gram (m, m, 1)`` of rows
    of positive ``weights (n,)``.
    """
    (m, *maps), (h, k) = (part[..., 0] for part in pair.whitened(gram)), pair.directions
    shares = weights / weights.sum()
    loadings = [
        (each.T * shares) @ functions.T @ turn.T
        for each, functions, turn in zip(
            features, (pair.functions[1 : h + 1], pair.functions[h + 1 :]), maps, strict=True
        )
    ]
    f, g, values = np.empty((len(ridges), h)), np.empty((len(ridges), k)), np.zeros(len(ridges))
    for i, ridge in enumerate(ridges):
        first, second = (_regularised_on_host(each, ridge) for each in loadings)
        _, left, right = top_singular_triples((first @ m @ second.T)[..., None])
        u, v = left[:, 0] @ first, right[:, 0] @ second
        f[i], g[i] = u @ maps[0], v @ maps[1]
        norm = np.linalg.norm(u) * np.linalg.norm(v)
        values[i] = u @ m @ v / norm if norm > 0 else 0
    return f, g, np.clip(values, 0, 1)


def _regularised_on_host(loadings: Floats, ridge: float) -> Floats:
    """Return ``C L sqrt(1 + ridge)`` as in `hgr_jax.core.canonical`; the identity for no ridge."""
    if ridge == 0:
        return np.eye(loadings.shape[1])
    ridge = max(ridge, 8 * len(loadings) * float(np.finfo(loadings.dtype).eps))
    gram = loadings @ loadings.T + ridge * np.eye(len(loadings))
    matrix: Floats = np.linalg.solve(np.linalg.cholesky(gram), loadings) * np.sqrt(1 + ridge)
    return matrix
