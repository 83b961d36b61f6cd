"""Orthonormal polynomials of many columns, and HGR-KB of one pair on many weightings of its rows.

The recurrence of `hgr_jax.core.orthonormal`, fitted by the Stieltjes procedure to rows that are
all in memory.  Columns come first, rows last, so that NumPy's loops are along the rows.

Polynomials that are orthonormal on all rows span the same functions on a subset of the rows, or
with other weights.  There they are whitened, which keeps them nested: the first d whitened
functions span the polynomials of degree d.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers, in_unit
from hgr_jax.core.host.linalg import (
    memberships,
    orthonormalise,
    top_singular_values,
    whitened_blocks,
    whitenings,
)
from hgr_jax.core.host.ranks import RankedColumn, RankKernel, effective_row_count
from hgr_jax.core.indicators import Indicators

PASSES = 2
"""Number of reorthogonalisations of a polynomial, enough to remove the rounding of the first."""

ROWS_AT_ONCE = 2**14
"""Number of rows whose products are in memory at a time."""

MAX_FINAL_CORRECTION = 1e-6
"""Largest correction, as a share of the norm, after which the next one is left out."""


def stieltjes(
    points: Floats, weights: Floats, degree: int, *, tolerance: float
) -> tuple[Floats, Integers]:
    """Return polynomials ``p_1 .. p_d (d, c, n)``, orthonormal on weighted points ``(c, n)``.

        p_{j+1} ~ (x - a_j) p_j - b_j p_{j-1},        p_0 = 1,

    with the part of earlier polynomials that rounding leaves removed again.  And how many of them
    each column supports, ``(c,)``; others are 0.

    Args:
      points: finite, also where the weight is 0.
      weights: ``(c, n)`` or ``(1, n)``, of sum 1 (or 0).
      degree: the largest degree, d.
      tolerance: relative norm below which a direction is rounding: from it on, there is none.
    """
    columns, rows = points.shape
    t = points - np.einsum("cn,cn->c", np.broadcast_to(weights, points.shape), points)[:, None]
    reach = np.abs(np.where(weights > 0, t, 0)).max(axis=1, initial=0)
    varies = reach > 4 * np.finfo(np.float64).tiny
    t *= np.where(varies, 1 / np.where(varies, reach, 1), 0)[:, None]
    p = np.empty((degree + 1, columns, rows))
    p[0] = 1
    counts = np.zeros(columns, np.intp)
    alive, norm = np.ones(columns, bool), np.zeros(columns)
    for j in range(degree):
        v = t * p[j]
        product = np.einsum("cn,cn,cn->c", weights, v, v, optimize=False)
        v -= np.einsum("cn,cn->c", weights * p[j], v)[:, None] * p[j]
        if j:
            v -= norm[:, None] * p[j - 1]
        before = p[: j + 1].swapaxes(0, 1)
        for _ in range(PASSES):
            projection = np.matmul(before, (weights * v)[..., None])[..., 0]
            v -= np.matmul(projection[:, None], before)[:, 0]
            if (np.abs(projection).max(axis=1) <= MAX_FINAL_CORRECTION * np.sqrt(product)).all():
                break
        square = np.einsum("cn,cn,cn->c", weights, v, v, optimize=False)
        alive = alive & (square > tolerance**2 * product)
        norm = np.where(alive, np.sqrt(square), 0)
        counts += alive
        p[j + 1] = v * np.where(alive, 1 / np.where(alive, norm, 1), 0)[:, None]
    return p[1:], counts


def tolerance(dtype: np.dtype) -> float:
    """Return the relative norm below which a direction of data of this dtype is rounding."""
    return 32 * float(np.finfo(dtype).eps)


def polynomials_at(x: Floats, weights: Floats, degree: int) -> Floats:
    """Return orthonormal polynomials ``(directions, n)`` of ``x (n,)``, up to a degree."""
    points = in_unit(x.astype(np.float64))[0][None, :]
    p, counts = stieltjes(points, weights[None, :], degree, tolerance=tolerance(x.dtype))
    return p[: counts[0], 0]


def centred_indicators(codes: NDArray[np.number], weights: Floats, count: int) -> Floats:
    """Return indicators ``(levels, n)`` of the levels that occur, centred and over root shares."""
    members = memberships(codes, count)
    share = members @ weights
    occurs = share > 0
    return (members[occurs] - share[occurs, None]) / np.sqrt(share[occurs, None])


@dataclasses.dataclass(frozen=True)
class PolynomialPair:
    """Orthonormal functions of two variables.

    Attributes:
      sides: ``(h, n)`` and ``(k, n)``, the functions of either.
      shares: ``(n,)``, of the weight of each row.
    """

    sides: tuple[Floats, Floats]
    shares: Floats

    @property
    def directions(self) -> tuple[int, int]:
        """The numbers of functions of both variables."""
        return len(self.sides[0]), len(self.sides[1])

    @functools.cached_property
    def functions(self) -> Floats:
        """1, then the functions of both variables, ``(1 + h + k, n)``."""
        return np.concatenate([np.ones((1, len(self.shares))), *self.sides])

    def grams(self, weights: NDArray[np.number]) -> Floats:
        """Return the moments ``(m, m, N)`` of the functions with weights ``(n, N)``."""
        size = len(self.functions)
        left, right = np.triu_indices(size)
        sums = np.zeros((len(left), weights.shape[1]))
        for start in range(0, len(weights), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            f = self.functions[:, part]
            sums += (f[left] * f[right]) @ weights[part].astype(np.float64)
        gram = np.empty((size, size, weights.shape[1]))
        gram[left, right] = gram[right, left] = sums
        return gram

    def values(self, weights: NDArray[np.number]) -> Floats:
        """Return HGR-KB with weights ``(n, N)``, ``(N,)``."""
        return np.minimum(top_singular_values(self.whitened(self.grams(weights))[0]), 1)

    @functools.cached_property
    def varying(self) -> tuple[int, int]:
        """The numbers of functions of both variables that are not 0 on all rows."""
        one, other = (int(side.any(axis=1).sum()) for side in self.sides)
        return one, other

    def cross_moments(self) -> Floats:
        """Return the moments ``(h, k)`` of both variables' functions."""
        f, g = self.sides
        return np.asarray((f * self.shares) @ g.T)

    def whitened(self, grams: Floats) -> tuple[Floats, Floats, Floats]:
        """Return whitened cross moments ``(h, k, N)`` of `grams`, and the whitening maps."""
        h = self.directions[0]
        first, second = np.arange(h + 1), np.r_[0, h + 1 : len(grams)]
        total = np.where(grams[0, 0] > 0, grams[0, 0], 1)
        left, right = (whitenings(grams[np.ix_(place, place)])[:2] for place in (first, second))
        m = whitened_blocks(grams[1 : h + 1, h + 1 :] / total, left, right)
        return m, left[1], right[1]


def orthonormal_functions(x: Floats, shares: Floats, kernel: Any) -> Floats:
    """Return orthonormal functions ``(d, n)`` of ``x (n,)``, or of codes, by a kernel."""
    if isinstance(kernel, RankKernel):
        column = RankedColumn.of_values(x, shares if np.ptp(shares) else None)
        rows = effective_row_count(len(shares), shares)
        return column.functions()[: min(kernel.count, column.available(rows))]
    if isinstance(kernel, Indicators):
        return orthonormalise(centred_indicators(x, shares, kernel.count), shares)[0]
    return polynomials_at(x, shares, kernel)


def fit_pair(a: Floats, b: Floats, weights: Floats, kernels: tuple[Any, Any]) -> PolynomialPair:
    """Fit orthonormal functions to finite ``a`` and ``b (n,)``, with weights not all 0."""
    shares = np.asarray(weights, np.float64)
    shares = shares / shares.sum()
    f, g = (
        orthonormal_functions(x, shares, kernel) for x, kernel in zip((a, b), kernels, strict=True)
    )
    return PolynomialPair((f, g), shares)
