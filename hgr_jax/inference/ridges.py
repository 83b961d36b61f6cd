"""Which ridge to use: every one of some scored on held-out rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from jax import Array

from hgr_jax._arrays import Floats
from hgr_jax._checks import check_choice, check_kernel
from hgr_jax.core.canonical import standardised_features
from hgr_jax.core.host.linalg import orthonormalise, top_singular_triples
from hgr_jax.core.host.polynomials import PolynomialPair, polynomials_at, tolerance
from hgr_jax.core.kernels import KernelLike
from hgr_jax.core.numerics import normalised
from hgr_jax.core.rows import over_rows
from hgr_jax.inference._folds import (
    RULES,
    FoldedPair,
    FoldMoments,
    folded,
    near_the_best,
    summed_up,
)

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
    outside F.  For kernels of many functions on few rows; of degrees it is as good to take lower
    ones (`select_degrees`).  As features are standardised, one that few rows have a part in counts
    as much as the others: take keypoints with as many rows each (`hgr_jax.kernels.quantiles`).

    Args:
      a, b: real arrays ``(n,)``.
      h, k: kernels, as of `hgr_jax.kb`: degrees, or callables of features.
      ridges: to try, numbers >= 0; 0 is no ridge.
      folds: int, 2 to n / 2.
      key: a random key for the folds, as ``jax.random.key(0)`` makes, which None stands for.
      rule: ``"one_standard_error"`` takes the largest ridge whose score is within one standard
        error of the best score, ``"best"`` that of the best score.  Ties (but for rounding) go to
        the larger ridge.
      weights: non-negative ``(n,)``, or None.  A fold without any weight is left out.

    Returns:
      A `RidgeSelection`, with NumPy arrays of all scores and values.

    Raises:
      TypeError, ValueError: for shapes, dtypes or options other than the above, and for data that
        are not finite, a negative weight, or weights that leave fewer than two folds.

    Degenerate data: where ``a`` or ``b`` is constant every score is 0, and the choice is the
    largest ridge.

    Cost: a host function, not to be traced: one Gram matrix of all functions in each fold, and for
    each ridge and fold a small SVD.  12 ridges, 5 folds and two kernels of 30 hats take 0.1 s at
    1,000 rows, once compiled.

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
    rows = folded(a, b, weights, jax.random.key(0) if key is None else key, folds)
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
    scores, errors, rounding = summed_up(scored[moments.counted], rows.dtype)
    chosen = strengths[near_the_best(scores, errors, rule, rounding)].max()
    return RidgeSelection(float(chosen), strengths, scores, errors, values, rule)


def _check_ridges(ridges: Any) -> Floats:
    """Return the ridges to try as an array."""
    try:
        found = np.asarray(ridges, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"ridges must be numbers; got {ridges!r}.") from None
    if found.ndim != 1 or not len(found) or not (np.isfinite(found) & (found >= 0)).all():
        raise ValueError(f"ridges must be one or more finite numbers >= 0; got {ridges!r}.")
    return found


def _features_of(
    rows: FoldedPair, kernels: tuple[KernelLike, KernelLike], weights: Floats
) -> tuple[Floats, Floats]:
    """Return the features ``(n, m)`` of both variables, standardised with these weights."""
    first, second = (
        np.asarray(_features(x, weights.astype(x.dtype), kernel=kernel, name=name), np.float64)
        for x, kernel, name in zip((rows.a, rows.b), kernels, "hk", strict=True)
    )
    return first[: len(rows.a)], second[: len(rows.a)]


@over_rows(columns=2, static=("kernel", "name"), weights=1)
def _features(
    x: Array, weights: Array, *, kernel: KernelLike, name: str, count: Array | None
) -> Array:
    del count  # the rows that are not data have weight 0
    return standardised_features(kernel, x, normalised(weights), name)


def _orthonormal_pair(
    rows: FoldedPair, kernels: tuple[KernelLike, KernelLike], features: tuple[Floats, Floats]
) -> PolynomialPair:
    """Return functions of both variables that span their features."""
    shares = rows.weights / rows.weights.sum()
    f, g = (
        orthonormalise(each.T, shares)[0] if callable(kernel) else polynomials_at(x, shares, kernel)
        for x, each, kernel in zip((rows.a, rows.b), features, kernels, strict=True)
    )
    return PolynomialPair(
        np.concatenate([np.ones((1, len(shares))), f, g]), (len(f), len(g)), shares
    )


def _regularised_functions(
    pair: PolynomialPair,
    gram: Floats,
    weights: Floats,
    features: tuple[Floats, Floats],
    ridges: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Return the functions of every ridge on some rows, and their correlations there.

    Args:
      gram: ``(m, m, 1)``, the moments of the pair's functions on these rows.
      weights: ``(n,)``, 0 on the others.
      features: standardised with these weights.

    Returns:
      ``(R, h)`` and ``(R, k)`` on the pair's functions, and ``(R,)``.
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
    """Return ``C L`` of `hgr_jax.core.canonical`; without a ridge the identity does the same."""
    if ridge == 0:
        return np.eye(loadings.shape[1])
    ridge = max(ridge, 8 * len(loadings) * float(np.finfo(loadings.dtype).eps))
    gram = loadings @ loadings.T + ridge * np.eye(len(loadings))
    found: Floats = np.linalg.solve(np.linalg.cholesky(gram), loadings) * np.sqrt(1 + ridge)
    return found
