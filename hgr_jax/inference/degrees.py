"""Which degrees to use: every pair of them scored on held-out rows, in one pass."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from jax import Array

from hgr_jax._arrays import Floats
from hgr_jax._checks import check_choice, check_count, one_or_pair
from hgr_jax.core.host.linalg import top_singular_triples, top_singular_values
from hgr_jax.core.host.polynomials import fit_pair, tolerance
from hgr_jax.inference._folds import RULES, FoldMoments, folded, near_the_best, summed_up

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

    with f_-F, g_-F the transformations of degrees h and k that `hgr_jax.kb_fit` finds on the rows
    outside F, as in `hgr_jax.inference.cross_fitted`.  HGR-KB itself is no guide, as
    it grows with the degrees whatever the data.  Its value at degrees chosen from the same data
    is biased upward all the same.

    Args:
      a, b: real arrays ``(n,)``.
      key: a random key for the folds, as ``jax.random.key(0)`` makes.
      largest: degree to try up to, int >= 1, or a pair, of a and of b.
      folds: int, 2 to n / 2.
      rule: ``"one_standard_error"`` takes the smallest h + k whose score is within one standard
        error of the best score, and of several such pairs the best one; ``"best"`` the best score.
        Ties (but for rounding) go to the smaller h + k, then to the smaller h.
      weights: non-negative ``(n,)``, or None.  A fold without any weight is left out.

    Returns:
      A `DegreeSelection`, with NumPy tables of all scores and values, and ``plot()``.

    Raises:
      TypeError, ValueError: for shapes, dtypes or options other than the above, and for data that
        are not finite, a negative weight, or weights that leave fewer than two folds.

    Degenerate data: where ``a`` or ``b`` is constant every score is 0, and the choice (1, 1); a
    degree that the values of a variable do not support adds nothing, and is not chosen.

    Cost: a host function, not to be traced.  Orthonormal polynomials are nested, so one basis of
    the largest degrees and its Gram matrix in each fold serve all pairs: 49 pairs and 5 folds of
    10,000 rows take 15 ms on one core, once compiled.

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
    rows = folded(a, b, weights, key, folds)
    pair = fit_pair(rows.a, rows.b, rows.weights, top)
    moments = FoldMoments(pair, rows.inside)
    scored, values = _cross_validated(moments, top, tolerance(rows.dtype) * sum(top))
    scores, errors, rounding = summed_up(scored[moments.counted], rows.dtype)
    h, k = _choose(scores, near_the_best(scores, errors, rule, rounding), rounding)
    return DegreeSelection(h, k, scores, errors, values, rule)


def _choose(scores: Floats, near: npt.NDArray[np.bool_], rounding: float) -> tuple[int, int]:
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
    # Monotone but for rounding as they are.
    values = np.maximum.accumulate(np.maximum.accumulate(values, 0), 1)
    scores = np.zeros((folds, *largest))
    for fold in range(folds) if min(pair.directions) else ():
        blocks = (m[..., fold, None, None] * within).reshape(*m.shape[:2], -1)
        _, left, right = top_singular_triples(blocks)
        f, g = left.T @ maps[0][..., fold], right.T @ maps[1][..., fold]
        scores[fold] = moments.scores(fold, f, g, rounding).reshape(largest)
    return scores, values
