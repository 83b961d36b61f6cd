"""A variable by its ranks: orthonormal polynomials of them, and up to which they can be trusted."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import numpy.typing as npt
from scipy import special

from hgr_jax._arrays import Floats, Integers
from hgr_jax.inference._polynomials import polynomials_at
from hgr_jax.inference._ranks import ranks

LARGEST_DEGREE = 16

LEAST_WORTH = 50
"""Rows without ties that a column with ties must be worth, for a degree of it to be trusted."""


FEW_TIES = 1e-9
"""Sum of (t^3 - t) / n^3 over groups of t equal values, up to which polynomials of untied ranks are
orthonormal at the mean ranks too: but for 2e-6 in degree 16, and 1e-9 in degree 1."""


@dataclasses.dataclass(frozen=True)
class RankedColumn:
    """One variable by its ranks.

    Attributes:
      codes: ``(n,)``, which of the levels every row has, in their order.
      table: ``(d, levels)``, orthonormal polynomials of the (weighted) ranks, at each.
      trusted: up to which degree they behave as those of untied ranks do; see `trusted_degree`.
      worth: for that degree, the share of the rows that the column is worth.
      log_orders: logarithm of the number of orders of the rows that change nothing.
    """

    codes: Integers
    table: Floats
    trusted: int
    worth: float
    log_orders: float

    @classmethod
    def of_values(cls, x: Floats, weights: Floats | None = None) -> RankedColumn:
        """Return the column of finite values ``(n,)``, with positive weights if any."""
        return cls.of_codes(codes_of(ranks(x[:, None])[:, 0]), weights)

    @classmethod
    def of_codes(cls, codes: Integers, weights: Floats | None = None) -> RankedColumn:
        """Return the column of integers ``(n,)``, in the order of its values."""
        rows, counts = len(codes), np.bincount(codes)
        enough = weights is None and rows > LARGEST_DEGREE
        if enough and len(counts) == 2 * rows - 1 and (counts[::2] == 1).all():
            return cls(codes, untied(rows), LARGEST_DEGREE, 1.0, 0.0)
        tied = counts[counts > 1].astype(np.float64)
        log_orders = float(np.sum(special.gammaln(tied + 1)))
        few_ties = np.sum(tied**3 - tied) <= FEW_TIES * rows**3
        if enough and few_ties:
            places = 2 * np.cumsum(counts) - counts - 1
            return cls(places[codes], untied(rows), LARGEST_DEGREE, 1.0, log_orders)
        there = counts > 0
        codes = (np.cumsum(there) - 1)[codes]
        w = np.ones(rows) if weights is None else weights
        rank, share = ranks_of_levels(codes, w)
        table = polynomials_at(rank, share, LARGEST_DEGREE)
        heaviest = np.zeros(len(share))
        np.maximum.at(heaviest, codes, relative(w))
        trusted, worth = trusted_degree(table, rows_worth(rows, weights), heaviest)
        return cls(codes, table, trusted, worth, log_orders)

    def polynomials(self) -> Floats:
        """Return the polynomials of every row, ``(d, n)``."""
        return self.table[:, self.codes]


def codes_of(rank: Floats) -> Integers:
    """Return integers in the order of ranks ``(n,)`` in [-1, 1]: twice the mean place, from 0."""
    return np.rint((rank + 1) * len(rank) - 1).astype(np.int32)


def ranks_of_levels(codes: Integers, weights: Floats) -> tuple[Floats, Floats]:
    """Return the weighted ranks of levels in [-1, 1], and their shares, from those of all rows."""
    share = np.bincount(codes, weights) / max(weights.sum(), 1e-300)
    return 2 * np.cumsum(share) - share - 1, share


def relative(weights: Floats) -> Floats:
    """Return weights in those of rows of equal ones, of which as many are worth the same."""
    return np.asarray(weights * (weights.sum() / np.sum(weights * weights)))


def rows_worth(rows: int, weights: Floats | None) -> float:
    """Return how many rows of equal weight are worth these: ``(sum w)^2 / sum w^2``."""
    return float(rows if weights is None else weights.sum() ** 2 / np.sum(weights * weights))


@functools.lru_cache(maxsize=16)
def untied(rows: int) -> Floats:
    """Return polynomials of more than 16 ranks without ties (Gram's), ``(16, 2 rows - 1)``.

    At all ranks and in the middle between two.
    """
    x = (np.arange(2 * rows - 1) + 1) / rows - 1
    degrees = np.arange(1, LARGEST_DEGREE + 1)
    coupling = degrees / rows * np.sqrt((rows**2 - degrees**2) / (4 * degrees**2 - 1))
    found = np.empty((len(degrees), len(x)))
    before, now = np.zeros(len(x)), np.ones(len(x))
    for j, norm in enumerate(coupling):
        before, now = now, (x * now - (coupling[j - 1] if j else 0) * before) / norm
        found[j] = now
    found.flags.writeable = False
    return found


def trusted_degree(f: Floats, rows: float, heaviest: Floats) -> tuple[int, float]:
    """Return up to which degree polynomials ``f (d, n)`` behave as those of untied ranks do.

    Of one row ``L = max sum_j f_j^2`` is at most ``(d + 1)^2 - 1`` without ties.  A row of r times
    that leaves a column to be worth n / r rows without ties, and n / r^2 beside another such one:
    at least `LEAST_WORTH`, or all n.  A row of a large weight counts as many times.

    Args:
      f: at each of n points.
      rows: the (effective) number of rows.
      heaviest: at each point, the largest weight of a row, in those of a row of equal ones.

    Returns:
      The degree, 0 where not even the first is trusted, and 1 / r for it.
    """
    degrees = np.arange(1, len(f) + 1)
    largest = np.max(np.cumsum(f**2, axis=0) * heaviest, axis=1, initial=0)
    worth = np.minimum(((degrees + 1) ** 2 - 1) / largest, 1)
    trusted = is_worth(rows, worth)
    degree = len(f) if trusted.all() else int(np.argmin(trusted))
    return degree, float(worth[degree - 1]) if degree else 0.0


def is_worth(rows: Floats | float, share: Floats) -> npt.NDArray[np.bool_]:
    """Return where such a share of a column's rows is enough to trust its polynomials."""
    return np.asarray(rows * share**2 >= np.minimum(LEAST_WORTH, rows))
