"""The choice of the degrees of HGR-KB, by cross-validation on the host.

The functions of both variables are made once; the rows outside a fold whiten them.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import Array
from numpy.typing import NDArray

from hgr_jax._arrays import Floats
from hgr_jax._checks import check_count, one_or_pair
from hgr_jax.core.arrays import as_key, as_pair, as_weights
from hgr_jax.core.host.linalg import top_singular_triples, top_singular_values
from hgr_jax.core.host.polynomials import PolynomialPair, fit_pair, tolerance
from hgr_jax.core.rows import padded_length


@dataclasses.dataclass(frozen=True, eq=False)
class DegreeSelection:
    """The result of `select_degrees`; entry ``[i, j]`` of a table is of degrees i + 1 and j + 1.

    Attributes:
      h, k: the chosen degrees, of a and of b.
      scores: ``(H, K)`` correlation of the transformations on held-out rows, mean over folds.
      standard_errors: ``(H, K)`` of these means.
      values: ``(H, K)`` HGR-KB on all rows, which never decreases with either degree.
    """

    h: int
    k: int
    scores: Floats
    standard_errors: Floats
    values: Floats


def select_degrees(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    key: Array,
    largest: int | tuple[int, int] = 7,
    folds: int = 5,
    weights: npt.ArrayLike | None = None,
) -> DegreeSelection:
    """Select degrees h and k of HGR-KB, by cross-validation over all pairs up to the largest.

        score(h, k) = mean over folds F of  rho_F( f_-F(a), g_-F(b) )

    with f_-F and g_-F those of HGR-KB on the other rows.  The degrees are the smallest h + k with a
    score within one standard error of the best score, and among pairs of that h + k those of the
    best score; ties (up to rounding) go to the smaller h.  HGR-KB itself is no guide, as it grows
    with the degrees whatever the data.  Its value at degrees chosen from the same data is biased
    upward.

    Args:
      a, b: real arrays ``(n,)``.
      key: a random key for the folds, as ``jax.random.key(0)`` makes.
      largest: degree to try up to, int >= 1, or a pair, of a and of b.
      folds: int, 2 to n / 2.
      weights: non-negative ``(n,)``, or None.  A fold without any weight is left out.

    Returns:
      A `DegreeSelection`, with NumPy tables of all scores and values.

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
    a, b = as_pair(a, b, max_ndim=1, weights=weights)
    weights = as_weights(weights, a.shape[0], a.dtype)
    key, rows, folds = as_key(key), a.shape[0], check_count("folds", folds, 2)
    if 2 * folds > rows:
        raise ValueError(f"folds must have 2 rows each, of {rows} rows; got {folds} folds.")
    w = np.ones(rows) if weights is None else np.asarray(weights, np.float64)
    used, fold_of = w != 0, deal_folds(key, rows, folds)
    x, y, w, fold_of = (np.asarray(z)[used] for z in (a, b, w, fold_of))
    if not (all(np.isfinite(z).all() for z in (x, y, w)) and len(w) and w.min() > 0):
        raise ValueError(
            "folds need finite a and b and weights >= 0, not all 0;"
            " drop the other rows, or give them weight 0."
        )
    if len(np.unique(fold_of)) < 2:
        raise ValueError("weights must leave rows in at least two folds; use fewer folds.")
    pair, noise = fit_pair(x, y, w, top), tolerance(a.dtype) * sum(top)
    scored = np.stack([_held_out(pair, fold_of != i, top, noise) for i in np.unique(fold_of)])
    scores, errors = scored.mean(axis=0), scored.std(axis=0, ddof=1) / np.sqrt(len(scored))
    m = pair.cross_moments()
    values = np.array(
        [[_top_value(m[:h, :k]) for k in range(1, 1 + top[1])] for h in range(1, 1 + top[0])]
    )
    # Rounding alone breaks their monotony.
    values = np.maximum.accumulate(np.maximum.accumulate(values, 0), 1)
    best = np.unravel_index(np.argmax(scores), scores.shape)
    rounding = float(jnp.finfo(a.dtype).eps) ** (2 / 3)
    near = scores >= scores[best] - errors[best] - rounding
    h, k = _smallest_degrees(scores, near, rounding)
    return DegreeSelection(h, k, scores, errors, values)


def deal_folds(key: Array, rows: int, folds: int) -> NDArray[np.intp]:
    """Deal rows to folds at random, whose sizes differ by 1 at most; return those of the rows."""
    bits = jax.random.bits(key, (padded_length(rows),), jnp.uint32)  # few lengths, few programs
    fold_of = np.empty(rows, np.intp)
    fold_of[np.argsort(np.asarray(bits)[:rows], kind="stable")] = np.arange(rows) % folds
    return fold_of


def _held_out(
    pair: PolynomialPair, kept: NDArray[np.bool_], top: tuple[int, int], noise: float
) -> Floats:
    """Return scores ``(H, K)``, on the other rows, of functions found on the rows ``kept (n,)``.

    A function whose variance is at most the share ``noise`` of its mean square is constant.
    """
    m, *maps = pair.whitened(pair.grams((pair.shares * kept)[:, None]))
    w = pair.shares[~kept] / pair.shares[~kept].sum()
    means = [(side[:, kept] @ pair.shares[kept]) / pair.shares[kept].sum() for side in pair.sides]
    f, g = (
        of_side[..., 0] @ (side[:, ~kept] - mean[:, None])
        for of_side, side, mean in zip(maps, pair.sides, means, strict=True)
    )
    scores = np.zeros(top)
    for h, k in np.ndindex(top) if m.size else ():
        _, u, v = top_singular_triples(m[: h + 1, : k + 1])
        both = np.stack([u[:, 0] @ f[: len(u)], v[:, 0] @ g[: len(v)]])
        square = both**2 @ w
        both -= (both @ w)[:, None]
        variance = both**2 @ w
        if (variance > noise * square).all():
            scores[h, k] = (both[0] * w) @ both[1] / np.sqrt(variance.prod())
    return np.clip(scores, -1, 1)


def _top_value(m: Floats) -> float:
    return min(float(top_singular_values(m[..., None])[0]), 1.0)


def _smallest_degrees(scores: Floats, near: NDArray[np.bool_], rounding: float) -> tuple[int, int]:
    """Return the degrees of the smallest sum that are near the best, and best among these."""
    order = np.add.outer(np.arange(scores.shape[0]), np.arange(scores.shape[1]))
    smallest = near & (order == order[near].min())
    tied = smallest & (scores >= scores[smallest].max() - rounding)
    h, k = np.argwhere(tied)[0]
    return int(h) + 1, int(k) + 1
