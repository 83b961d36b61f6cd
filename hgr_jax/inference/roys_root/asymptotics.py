"""When the law of Roy's largest root is valid for a pair of columns.

The law holds for many rows, whatever the features.  How many are enough depends on the features:
under independence the entries of the matrix of cross moments have skewness of the order of

    sqrt(S_a S_b / n),      S = || mean of q x q x q ||^2   (third moments of orthonormal features)

and one row in which both columns are extreme moves the statistic, whose scale is 1 / sqrt(n), by

    sqrt(L_a L_b / n),      L = max |q|^2

in that scale.  Where both are small the law holds far into the tail (`bench.calibration` has the
rejection rates); elsewhere a permutation test is the way.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._arrays import Floats

MAX_SKEWNESS = 1.0
MAX_REACH = 1.5
MIN_CELL_VARIANCE = 200.0
"""Of the count in one cell of a two-by-two table: below, the steps between its values show."""


@dataclasses.dataclass(frozen=True)
class ColumnMoments:
    """Moments of the orthonormal features of one column, on which the validity of the law depends.

    Attributes:
      skewness: S, squared norm of the third moments of its orthonormal features.
      reach: L, the largest squared norm of the features of a row.
      two_valued: the variance of its indicator where it has two values, else infinity.
    """

    skewness: float
    reach: float
    two_valued: float


def moments_of_ranks(counts: ArrayLike, degree: int) -> ColumnMoments:
    """Return the moments of the polynomials of the ranks of a column.

    Args:
      counts: how many rows hold each distinct value, in their order.
      degree: of the polynomials.
    """
    counts = np.asarray(counts, np.float64)
    if (counts == 1).all():
        return _without_ties(len(counts), degree)
    return _shape_of_polynomials(counts, degree)


@functools.lru_cache(maxsize=4096)
def _without_ties(rows: int, degree: int) -> ColumnMoments:
    return _shape_of_polynomials(np.ones(rows), degree)


def _shape_of_polynomials(counts: Floats, degree: int) -> ColumnMoments:
    share = counts / counts.sum()
    x = np.cumsum(share) - share / 2
    x = x - share @ x
    x = x / np.sqrt(share @ x**2) if len(x) > 1 else x
    basis = [np.ones(len(x))]
    for _ in range(min(degree, len(x) - 1)):
        v = x * basis[-1]
        for _ in range(2):
            for q in basis:
                v = v - q * (share @ (q * v))
        basis.append(v / np.sqrt(share @ v**2))
    return _column_moments(np.stack(basis, axis=1)[:, 1:], share)


def moments_of_levels(counts: ArrayLike) -> ColumnMoments:
    """Return the moments of the indicators of the levels of a category, from the rows of each."""
    counts = np.asarray(counts, np.float64)
    share = counts[counts > 0] / counts.sum()
    return _column_moments((np.eye(len(share)) - share[None, :]) / np.sqrt(share)[None, :], share)


def _column_moments(features: Floats, share: Floats) -> ColumnMoments:
    products = (features[:, :, None] * features[:, None, :]).reshape(len(features), -1)
    third = (features * share[:, None]).T @ products
    variance = share[0] * share[-1] if len(share) == 2 else np.inf
    return ColumnMoments(
        skewness=float(np.sum(third**2)),
        reach=float(np.max(np.sum(features**2, axis=1))),
        two_valued=float(variance),
    )


def is_valid(
    first: list[ColumnMoments], second: list[ColumnMoments], rows: Any
) -> NDArray[np.bool_]:
    """Return whether the law holds for each pair of columns.

    Args:
      first, second: the shapes of its two columns, N of each.
      rows: ``(N,)``, how many rows both columns are present in; of weighted rows,
        ``sum w^2 / max w^2``, a lower bound of what either of the above divides by.
    """

    def values(shapes: list[ColumnMoments], name: str) -> Floats:
        return np.array([getattr(shape, name) for shape in shapes], np.float64)

    rows = np.maximum(np.asarray(rows, np.float64), 1)
    skewness = np.sqrt(values(first, "skewness") * values(second, "skewness") / rows)
    reach = np.sqrt(values(first, "reach") * values(second, "reach") / rows)
    variance = rows * values(first, "two_valued") * values(second, "two_valued")
    return (skewness <= MAX_SKEWNESS) & (reach <= MAX_REACH) & (variance >= MIN_CELL_VARIANCE)
