"""Ranks of columns with missing values and ties, and orthonormal functions of ranked columns."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from scipy import special

from hgr_jax._arrays import Floats, Integers
from hgr_jax._threads import in_threads
from hgr_jax.core.host.polynomials import stieltjes, tolerance

MIN_VALUES_FOR_THREADS = 2**18
"""Smallest number of values for which several threads sort columns."""

LARGEST_DEGREE = 16

MAX_PERIODS = 16
"""Largest number of periods of a wave over all ranks."""

ROWS_PER_PERIOD = 6
"""Smallest number of rows in a period of a wave."""

MIN_EFFECTIVE_ROWS = 50
"""Smallest number of effective rows (without ties) at which polynomials of tied ranks are used."""

LEVELS_AT_ONCE = 2**13
"""Number of levels of tied columns whose polynomials are made together."""

FEW_TIES = 1e-9
"""Largest sum of (t^3 - t) / n^3, over groups of t equal values, for which a column takes the
polynomials of untied ranks: at mean ranks these are then orthonormal to 2e-6 in degree 16."""


def ranks(x: NDArray[np.floating]) -> NDArray[Any]:
    """Rank the values of every column of ``x (n, p)``, in [-1, 1], by mean ranks; NaN stays NaN."""
    columns = np.ascontiguousarray(x.T)
    ranked = np.empty_like(columns)

    def rank(column: int) -> None:
        ranked[column] = _ranks_of_one(columns[column])

    if x.size < MIN_VALUES_FOR_THREADS:
        for column in range(len(columns)):
            rank(column)
    else:
        in_threads(rank, range(len(columns)))
    return ranked.T


def _ranks_of_one(x: NDArray[np.floating]) -> NDArray[Any]:
    present = ~np.isnan(x)
    rows = None if present.all() else np.flatnonzero(present)
    values = x if rows is None else x[rows]
    order = np.argsort(values, kind="stable" if len(values) < 2 else None)
    ordered = values[order]
    new = ordered[1:] != ordered[:-1]
    count = len(values)
    if new.all():
        rank = np.arange(1 - count, count, 2) / max(count, 1)
    else:
        starts = np.concatenate([[0], 1 + np.flatnonzero(new)])
        ends = np.append(starts[1:], count)
        rank = np.repeat((starts + ends - count) / count, ends - starts)
    ranked = np.full(x.shape, np.nan, x.dtype)
    ranked[order if rows is None else rows[order]] = rank
    return ranked


@dataclasses.dataclass(frozen=True)
class RankedColumn:
    """The ranks of a variable, and orthonormal functions of them.

    Attributes:
      codes: ``(n,)``, the level of every row, in the order of the values.
      table: ``(d, levels)``, orthonormal polynomials of the (weighted) ranks at each level.
      reliable_degree: largest degree whose polynomials behave as those of untied ranks.
      effective_share: effective rows (without ties) at that degree, as a share of the rows.
      log_orders: logarithm of the number of orders of the rows that give the same column.
      has_waves: whether waves of untied ranks (`waves_at`) are orthonormal: not with many ties.
    """

    codes: Integers
    table: Floats
    reliable_degree: int
    effective_share: float
    log_orders: float
    has_waves: bool

    @classmethod
    def of_values(cls, x: Floats, weights: Floats | None = None) -> RankedColumn:
        """Rank finite values ``(n,)``, with positive weights or None."""
        return cls.of_codes(codes_of(ranks(x[:, None])[:, 0]), weights)

    @classmethod
    def of_codes(cls, codes: Integers, weights: Floats | None = None) -> RankedColumn:
        """Rank integers ``(n,)``, in the order of their values."""
        return ranked_columns([codes], weights)[0]

    def polynomials(self) -> Floats:
        """Return the polynomials of every row, ``(d, n)``."""
        return self.table.take(self.codes, axis=1)

    def waves(self) -> Floats:
        """Return the waves of every row, ``(w, n)``; none with many ties."""
        rows = len(self.codes)
        return waves_at(self.codes, rows) if self.has_waves else np.zeros((0, rows))


def ranked_columns(
    columns: Sequence[Integers], weights: Floats | None = None
) -> list[RankedColumn]:
    """Rank columns of integers ``(n,)``, each in the order of its values."""
    ranked = [_rank_with_few_ties(codes) if weights is None else None for codes in columns]
    tied = {
        i: _TiedLevels.of(columns[i], weights) for i, column in enumerate(ranked) if column is None
    }
    by_size = sorted(tied, key=lambda i: len(tied[i].rank))
    while by_size:
        widest = len(tied[by_size[-1]].rank)
        chosen = by_size[-max(1, LEVELS_AT_ONCE // widest) :]
        del by_size[-len(chosen) :]
        points, share = np.zeros((2, len(chosen), widest))
        for place, i in enumerate(chosen):
            points[place, : len(tied[i].rank)] = tied[i].rank
            share[place, : len(tied[i].rank)] = tied[i].share
        least = tolerance(points.dtype)
        basis, p = stieltjes(points, share, LARGEST_DEGREE, tolerance=least)
        for place, (i, count) in enumerate(zip(chosen, basis.in_span.sum(axis=0), strict=True)):
            ranked[i] = tied[i].ranked(p[1 : 1 + count, place, : len(tied[i].rank)].copy())
    return [column for column in ranked if column is not None]


def _rank_with_few_ties(codes: Integers) -> RankedColumn | None:
    """Rank a column without weights; None if polynomials of untied ranks do not fit it."""
    rows, counts = len(codes), np.bincount(codes)
    if rows <= LARGEST_DEGREE:
        return None
    orders = 0.0
    if len(counts) != 2 * rows - 1 or not (counts[::2] == 1).all():
        tied = counts[counts > 1].astype(np.float64)
        if np.sum(tied**3 - tied) > FEW_TIES * rows**3:
            return None
        codes, orders = (2 * np.cumsum(counts) - counts - 1)[codes], _log_orders(counts)
    return RankedColumn(codes, untied(rows), LARGEST_DEGREE, 1.0, orders, has_waves=True)


def _log_orders(counts: Integers) -> float:
    """Return the logarithm of the number of orders within levels, from the rows of each."""
    return float(np.sum(special.gammaln(counts[counts > 1] + 1.0)))


class _TiedLevels(NamedTuple):
    """The levels of a column with ties: ``codes (n,)`` of the rows; rank and share of each level.

    ``heaviest`` is the largest weight of a row of each level, by `scale_to_effective_rows`.
    """

    codes: Integers
    rank: Floats
    share: Floats
    heaviest: Floats
    rows: float
    log_orders: float

    @classmethod
    def of(cls, codes: Integers, weights: Floats | None) -> _TiedLevels:
        counts = np.bincount(codes)
        codes = (np.cumsum(counts > 0) - 1)[codes]
        rank, share = ranks_of_levels(codes, np.ones(len(codes)) if weights is None else weights)
        heaviest = np.ones(len(share))
        if weights is not None:
            heaviest[:] = 0
            np.maximum.at(heaviest, codes, scale_to_effective_rows(weights))
        rows = effective_row_count(len(codes), weights)
        return cls(codes, rank, share, heaviest, rows, _log_orders(counts))

    def ranked(self, table: Floats) -> RankedColumn:
        """Return the ranked column, given its polynomials ``(d, levels)``."""
        reliable, share = reliable_degree(table, self.rows, self.heaviest)
        return RankedColumn(self.codes, table, reliable, share, self.log_orders, has_waves=False)


def codes_of(rank: Floats) -> Integers:
    """Return twice the mean place of each row, from 0, from ranks ``(n,)`` in [-1, 1]."""
    return np.rint((rank + 1) * len(rank) - 1).astype(np.int32)


def ranks_of_levels(codes: Integers, weights: Floats) -> tuple[Floats, Floats]:
    """Return the weighted ranks of levels in [-1, 1], and their shares of the weight."""
    share = np.bincount(codes, weights) / max(weights.sum(), 1e-300)
    return 2 * np.cumsum(share) - share - 1, share


def scale_to_effective_rows(weights: Floats) -> Floats:
    """Scale weights to a sum equal to the effective number of rows."""
    return np.asarray(weights * (weights.sum() / np.sum(weights * weights)))


def effective_row_count(rows: int, weights: Floats | None) -> float:
    """Return the effective number of rows, ``(sum w)^2 / sum w^2``."""
    return float(rows if weights is None else weights.sum() ** 2 / np.sum(weights * weights))


@functools.lru_cache(maxsize=16)
def untied(rows: int) -> Floats:
    """Return Gram's polynomials, ``(16, 2 rows - 1)``, at and between more than 16 untied ranks."""
    x = (np.arange(2 * rows - 1) + 1) / rows - 1
    degrees = np.arange(1, LARGEST_DEGREE + 1)
    coupling = degrees / rows * np.sqrt((rows**2 - degrees**2) / (4 * degrees**2 - 1))
    table = np.empty((len(degrees), len(x)))
    before, now = np.zeros(len(x)), np.ones(len(x))
    for j, norm in enumerate(coupling):
        before, now = now, (x * now - (coupling[j - 1] if j else 0) * before) / norm
        table[j] = now
    table.flags.writeable = False
    return table


def wave_count(rows: int) -> int:
    """Return the number of waves (sines and cosines) of so many ranks."""
    return 2 * min(MAX_PERIODS, rows // ROWS_PER_PERIOD)


def waves_at(codes: Integers, rows: int) -> Floats:
    """Return sines and cosines ``(w, ...)`` of untied ranks, at the places of `codes_of`.

        sqrt(2) cos(2 pi j u), sqrt(2) sin(2 pi j u),   u = (place + 1/2) / rows,   j = 1 .. w / 2

    They are orthonormal on the ranks; w is 32 with 96 rows or more.
    """
    turn = np.exp(1j * np.pi * (codes + 1) / rows)
    # Powers of one turn: a tenth of the time of as many sines and cosines.
    turns = np.cumprod(np.broadcast_to(turn, (wave_count(rows) // 2, *turn.shape)), axis=0)
    return np.sqrt(2) * np.concatenate([turns.real, turns.imag])


@functools.lru_cache(maxsize=1)
def wave_table(rows: int, dtype: np.dtype) -> Floats:
    """Return `waves_at` all codes, ``(2 rows - 1, w)``."""
    table = np.empty((2 * rows - 1, wave_count(rows)), dtype)
    for start in range(0, len(table), LEVELS_AT_ONCE):  # in parts, to save memory
        part = table[start : start + LEVELS_AT_ONCE]
        part[:] = waves_at(np.arange(start, start + len(part)), rows).T
    table.flags.writeable = False
    return table


def reliable_degree(f: Floats, rows: float, heaviest: Floats) -> tuple[int, float]:
    """Return the largest degree at which polynomials ``f (d, n)`` behave as those of untied ranks.

    Without ties ``L = max sum_j f_j^2`` over the rows is at most ``(d + 1)^2 - 1``.  If L is r
    times that, n rows have the effect of n / r untied rows, and of n / r^2 if the other column is
    the same: n / r^2 must be at least `MIN_EFFECTIVE_ROWS`, or n.  Second comes 1 / r; 0, 0 if no
    degree is reliable.
    """
    degrees = np.arange(1, len(f) + 1)
    largest = np.max(np.cumsum(f**2, axis=0) * heaviest, axis=1, initial=0)
    share = np.minimum(((degrees + 1) ** 2 - 1) / largest, 1)
    reliable = is_reliable(rows, share)
    degree = len(f) if reliable.all() else int(np.argmin(reliable))
    return degree, float(share[degree - 1]) if degree else 0.0


def is_reliable(rows: Floats | float, share: Floats) -> npt.NDArray[np.bool_]:
    """Return where a share of effective rows is enough to trust a column's polynomials."""
    return np.asarray(rows * share**2 >= np.minimum(MIN_EFFECTIVE_ROWS, rows))
