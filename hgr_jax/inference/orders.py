"""p-values by the orders of the rows: all of them where these can be counted, else random ones.

If two variables are independent and rows exchangeable, all n! orders of the rows of one of them are
equally likely, whatever the ties.  A score is a log p-value by a law that need not hold; the
p-value is the share of the orders whose score is at least as small as that of the data:

* of at most 8 rows, all orders are counted;
* of more, random orders are drawn until 100 reach the score (Besag & Clifford 1991), 9,999 at most;
  of fewer than 20 rows, which no law covers, 199,999;
* from 20 rows on, where fewer than 10 reach it, a tail is fitted to the smallest scores.

Source: Besag & Clifford, "Sequential Monte Carlo p-values" (1991).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax._limits import SMALLEST_OF_TAIL
from hgr_jax.core.host.ranks import RankedColumn, function_count, untied
from hgr_jax.inference.level_tables import CELLS_AT_ONCE
from hgr_jax.inference.rank_law import MIN_TABULATED_ROWS, combined_pvalues, cross_moments

COUNTED_ROWS = 8
"""Largest number of rows of which all orders are counted: 40,320."""

MOST_DRAWS, MOST_DRAWS_OF_FEW = 9_999, 199_999
"""Largest number of random orders, by default, and of fewer rows than the law of ranks covers."""

EARLY_STOP_EXCEEDANCES = 100
"""Number of orders reaching the score after which no more are drawn."""

FIRST_ORDERS, DRAWS_AT_ONCE = 1000, 50_000
"""Number of random orders that are drawn first, and the largest number drawn at a time."""

RANKS_DRAWN = 2**22
"""Largest number of ranks in the orders that are drawn at a time: 16 MB."""

TAIL_RANKS = (10, 100)
"""Order statistics of the scores that a tail is fitted to, where fewer than the first reach that of
the data."""

EXTRAPOLATE_AFTER = 2000
"""Number of orders after which a tail is fitted, if none reaches the score."""


def most_draws(rows: int, asked: int | None) -> int:
    """Return the largest number of random orders of the rows."""
    if asked is not None:
        return asked
    return MOST_DRAWS_OF_FEW if rows < MIN_TABULATED_ROWS else MOST_DRAWS


def test_by_orders(
    scores: Callable[[int], Floats], first: float, rows: int, rarest: float, most: int
) -> tuple[float, str]:
    """Return the p-value of the rows as they are among their other orders, and its source.

    Args:
      scores: returns the scores of `orders_at` the places 0, 1, ...
      first: score of the data.
      rows: number of rows n.
      rarest: log probability of the rarest order, with its ties.
      most: largest number of random orders.
    """
    if rows <= COUNTED_ROWS:
        return float(np.mean(_reached(scores(0), first))), "exact"
    null, reached, has_tail = np.zeros(0), np.zeros(0, bool), rows >= MIN_TABULATED_ROWS
    for place in itertools.count():
        null = np.concatenate([null, scores(place)])[:most]
        reached = _reached(null, first)
        is_far = has_tail and len(null) >= EXTRAPOLATE_AFTER and not reached.any()
        if is_far or len(null) == most or reached.sum() >= EARLY_STOP_EXCEEDANCES:
            break
    count = int(reached.sum())
    if count >= EARLY_STOP_EXCEEDANCES:
        last = np.flatnonzero(reached)[EARLY_STOP_EXCEEDANCES - 1]
        return EARLY_STOP_EXCEEDANCES / (1 + float(last)), "permutation"
    if has_tail and count < TAIL_RANKS[0] and len(null) > 10 * TAIL_RANKS[1]:
        near, far = np.sort(null)[np.array(TAIL_RANKS) - 1]
        if far - near > 1e-3:
            slope = min(1.0, math.log(TAIL_RANKS[1] / TAIL_RANKS[0]) / (far - near))
            log_p = math.log(TAIL_RANKS[0] / len(null)) + slope * (first - near)
            return max(math.exp(max(log_p, rarest)), SMALLEST_OF_TAIL), "tail"
    return (1 + count) / (1 + len(null)), "permutation"


def rarest_order(columns: Sequence[RankedColumn]) -> float:
    """Return the log probability of the rarest order of two variables, with the ties of either."""
    ties = max(column.log_orders for column in columns)
    return ties - math.lgamma(len(columns[0].codes) + 1)


def _reached(null: Floats, first: float) -> np.ndarray:
    """Return which scores are at most that of the data."""
    return null <= first * (1 - 1e-6)  # for rounding and interpolation


def draws_at(place: int, most: int) -> int:
    """Return how many orders are drawn at a place, of at most so many at a time."""
    return min(FIRST_ORDERS << place, max(1, most))


@functools.lru_cache(maxsize=16)
def orders_at(rows: int, seed: tuple[int, ...], place: int, most: int = DRAWS_AT_ONCE) -> Integers:
    """Return random orders ``(m, rows)``, others at each place; all of them, if they are few.

    At most ``most``, and as many as fit in memory.  The last ones are kept for other pairs.
    """
    if rows <= COUNTED_ROWS:
        orders = np.array([*itertools.permutations(range(rows))])
    else:
        count = draws_at(place, min(DRAWS_AT_ONCE, RANKS_DRAWN // rows, most))
        plain = np.broadcast_to(np.arange(rows, dtype=np.int32), (count, rows))
        orders = np.random.default_rng([*seed, place]).permuted(plain, axis=1)
    orders.flags.writeable = False  # other pairs read them too
    return orders


class FixedSide(NamedTuple):
    """The side of a pair whose rows stay where they are while those of the other are permuted.

    Attributes:
      rows: ``(r,)``, the rows that matter, those of each value together.
      first: places in ``rows`` of the first row of each value.
      functions: ``(d, r)``, functions of the side, times the share of each row.
    """

    rows: Integers
    first: Integers
    functions: Floats

    @classmethod
    def of_values(cls, column: np.ndarray, functions: Floats) -> FixedSide:
        """Take functions ``(d, n)`` of a column, less their values at its commonest value.

        Its rows are then left out: what is constant has no moment with functions of mean 0.
        """
        _, codes, counts = np.unique(column, return_inverse=True, return_counts=True)
        common = codes == counts.argmax()
        rows = np.argsort(codes, kind="stable")
        rows = rows[~common[rows]]
        first = np.flatnonzero(np.diff(codes[rows], prepend=-1))
        at_common = functions[:, common.argmax(), None]
        return cls(rows, first, (functions[:, rows] - at_common) / len(column))

    @classmethod
    def of_weighted(cls, functions: Floats, weights: Floats) -> FixedSide:
        """Take functions ``(d, n)`` of rows whose weights differ."""
        share, every = weights / weights.sum(), np.arange(len(weights))
        return cls(every, every, (functions - (functions @ share)[:, None]) * share)

    def parts_of(self, orders: Integers, functions: int) -> Iterator[Integers]:
        """Yield parts ``(m, r)`` of orders ``(N, n)``, as many as their functions fit in memory."""
        at_once = max(1, CELLS_AT_ONCE // max(1, functions * len(self.rows)))
        for start in range(0, len(orders), at_once):
            yield orders[start : start + at_once, self.rows]


def fixed_and_moved(
    columns: Sequence[np.ndarray], functions: tuple[Floats, Floats], weights: Floats | None
) -> tuple[FixedSide, Floats, bool]:
    """Return the side of two that stays, functions of the other, and whether the second stays.

    Few rows move: those of values that are not the commonest one of the side that stays.  With
    weights, which belong to the rows of the first, that one stays.
    """
    if weights is not None:
        return FixedSide.of_weighted(functions[0], weights), functions[1], False
    moved = [z - z.mean(axis=1, keepdims=True) for z in functions]
    cost = [
        len(other) * (len(x) - np.unique(x, return_counts=True)[1].max())
        for x, other in zip(columns, moved[::-1], strict=True)
    ]
    side = int(cost[1] < cost[0])
    return FixedSide.of_values(columns[side], functions[side]), moved[1 - side], bool(side)


@functools.lru_cache(maxsize=64)
def scores_of_untied(rows: int, seed: tuple[int, ...], place: int) -> Floats:
    """Return the combined p-values, as logarithms, of untied ranks in orders of few rows."""
    f = untied(rows, function_count(rows))[:, ::2]
    orders = orders_at(rows, seed, place)
    return combined_pvalues(cross_moments(f / rows, f.take(orders, axis=1)), rows).log_p


def seed_of(key: Any) -> tuple[int, ...]:
    """Return the numbers of a random key of JAX; None is ``jax.random.key(0)``.

    Numbers of a key are returned as they are.
    """
    if key is None or isinstance(key, tuple):
        return key or (0, 0)
    import jax  # keys need it, tests without them do not

    from hgr_jax.core.arrays import as_key

    return tuple(np.asarray(jax.random.key_data(as_key(key))).ravel().tolist())
