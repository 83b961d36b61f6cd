"""The law of ranks: one p-value of several blocks of functions of the ranks of two variables.

A pair whose ranks have orthonormal functions f and g has the matrix M = mean of f g^T.  Under
independence the top singular value of any leading block of it follows the law of Roy's largest
root.  Small blocks find plain relations with few rows; long and narrow ones find relations that
oscillate in one variable.  So several blocks are tested at once:

    T = mean over the blocks of tan((1/2 - p) pi),      P = 1/2 - arctan(T) / pi

* `cross_moments`, `combined`: the matrix M, and one p-value of all blocks;
* `log_probability`: the law of that p-value, which depends on the number of rows alone, from a
  table of simulations; beyond the table log P(P <= p) is a line in log p;
* `test_long_blocks`: where neighbours in the order of a variable are alike beyond these blocks, the
  smallest p-value of long blocks of many cosines, as of fast oscillations;
* `BlockStatistics`: statistics of many pairs, which are tested together;
* `fisher_log_pvalues`, `exact_log_pvalues`: the exact law of two variables of two values.

Source: Liu & Xie, "Cauchy combination test: a powerful test with analytic p-value calculation
under arbitrary dependency structures" (2020).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from hgr_jax._arrays import Floats, Integers, chunks
from hgr_jax.core.host.estimates import HGREstimate
from hgr_jax.core.host.linalg import top_singular_values
from hgr_jax.core.host.ranks import BLOCKS
from hgr_jax.core.ranks import ROWS_PER_SIZE
from hgr_jax.inference.roys_root.law import log_survival_of_many

LONG_SHARE = 0.01
"""Share of the level of a test that long blocks have: what it may exceed its level by."""

LARGEST_PVALUE = 0.99
"""Bound on the p-value of a block in the mean: one near 1 would outweigh the others."""


class Combined(NamedTuple):
    """The p-value of all blocks together, of N pairs, and the block with the smallest p-value.

    Attributes:
      log_p: ``(N,)``, logarithm of the p-value of all blocks.
      degrees: ``(2, N)``, number of functions of both sides in the block.
      values: ``(N,)``, top singular value of the block.
    """

    log_p: Floats
    degrees: Integers
    values: Floats


def cross_moments(f: Floats, g: Floats) -> Floats:
    """Return the moments M ``(h, k, N)`` of ``f (h, n)`` and ``g (k, N, n)``, 0 outside blocks.

    ``f`` are functions times the shares of the rows.
    """
    (h, rows), (k, count, _) = f.shape, g.shape
    m = np.zeros((h, k, count))
    for i, j in BLOCKS:
        products = f[:i] @ g[:j].reshape(-1, rows).T
        m[:i, :j] = products.reshape(len(products), -1, count)
    return m


def top_values(m: Floats) -> Floats:
    """Return the top singular value of each block ``(blocks, N)`` of moments ``(h, k, N)``."""
    return np.minimum([top_singular_values(m[:h, :k]) for h, k in BLOCKS], 1)


def combined_pvalues(m: Floats, rows: npt.ArrayLike) -> Combined:
    """Return `combined` of pairs with moments ``(h, k, N)``."""
    return combined(top_values(m), rows, np.array([[m.shape[0]], [m.shape[1]]]))


def combined(values: Floats, rows: npt.ArrayLike, degrees: Integers) -> Combined:
    """Combine the p-values of `top_values` ``(blocks, N)`` to one p-value for each pair.

    ``rows`` is ``(N,)`` or a number; ``degrees``, ``(2, N)`` or ``(2, 1)``, are the numbers of
    functions of the two sides.
    """
    limits = np.minimum(np.array(BLOCKS).T[:, :, None], degrees[:, None])
    # With few functions, blocks that are the same count once.
    new = np.stack(
        [
            ~(limits[:, :i] == limits[:, i : i + 1]).all(axis=0).any(axis=0)
            for i in range(len(BLOCKS))
        ]
    )
    log_p = np.where(new, log_survival_of_many(values, rows, *limits), np.inf)
    best = np.argmin(log_p, axis=0)
    each = np.arange(values.shape[1])
    limits = np.broadcast_to(limits, (2, *log_p.shape))
    return Combined(
        cauchy_log_pvalue(log_p, new.sum(axis=0)), limits[:, best, each], values[best, each]
    )


def cauchy_log_pvalue(log_p: Floats, count: Integers) -> Floats:
    """Return log P (see the module) of the ``count (N,)`` finite p-values in ``(blocks, N)``."""
    least = np.min(log_p, axis=0)
    p = np.exp(np.clip(log_p, -30, np.log(LARGEST_PVALUE)))
    mean = np.sum(np.where(log_p < np.inf, 1 / np.tan(np.pi * p), 0), axis=0) / count
    near = np.arctan2(1, mean) / np.pi  # 1/2 - arctan(T) / pi, without cancellation
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.log(np.sum(np.exp(least - log_p), axis=0))
    far = least + np.log(count) - np.where(np.isfinite(least), tail, 0)
    return np.where(least > -25, np.log(near), far)


class BlockTest(NamedTuple):
    """The test of a pair by several blocks.

    Attributes:
      log_p: logarithm of the p-value, with all blocks accounted for.
      value: top singular value of the block with the smallest one.
      degrees: numbers of functions of both sides in that block.
    """

    log_p: float
    value: float
    degrees: tuple[int, int]


def test_long_blocks(
    estimate: HGREstimate, reliable: tuple[int, int], effective_rows: float
) -> BlockTest | None:
    """Test a pair by its long blocks, at `LONG_SHARE` of the level.

    None where it has none, or neighbours are not alike.

    Args:
      estimate: HGR of the pair.
      reliable: numbers of functions of both sides that behave as those of untied ranks.
      effective_rows: numbers of rows, allowing for ties.
    """
    if not estimate.is_alike:
        return None
    parts = []
    for side, long in enumerate(estimate.long):
        cosines, functions = long.cosines[:, 0], long.functions[:, 0]
        used = (cosines > 0) & (functions <= reliable[1 - side])
        used &= cosines <= effective_rows / ROWS_PER_SIZE
        sizes = [x[used] for x in (cosines, functions)]
        parts.append((long.squares[used, 0], *sizes[:: 1 - 2 * side]))
    squares, h, k = (np.concatenate(each) for each in zip(*parts, strict=True))
    if not len(squares):
        return None
    small, large = np.minimum(h, k)[:, None], np.maximum(h, k)[:, None]
    values = np.sqrt(squares)[:, None]
    log_p = log_survival_of_many(values, effective_rows, small, large)[:, 0]
    best = int(np.argmin(log_p))
    least = float(log_p[best]) + np.log(len(log_p) / LONG_SHARE)
    return BlockTest(min(least, 0.0), float(values[best, 0]), (int(h[best]), int(k[best])))


LEVELS = np.array(
    [
        *(0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 3e-3, 1e-3),
        *(3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 3e-7),
    ]
)
"""Levels of the table, whose last line has so many rows that the cross moments are Gaussian."""

TABLE = Path(__file__).with_name("_rank_law.csv")
"""Written by ``python -m bench.rank_law --write``."""

MIN_TABULATED_ROWS = 20
"""Smallest number of rows in the table."""

TAIL = slice(-5, None)
"""Levels that the tail below the smallest level is fitted to."""


@functools.cache
def _table() -> tuple[Floats, Floats]:
    """Return rising reciprocals of the numbers of rows, and log probabilities of the levels."""
    table = np.loadtxt(TABLE, delimiter=",", skiprows=1)[::-1]
    return 1 / table[:, 0], np.log(table[:, 1:])


def log_probability(log_p: Floats, rows: npt.ArrayLike) -> Floats:
    """Return log P(combined p-value <= ``exp(log_p)``) for ``rows`` >= 20, a number or ``(N,)``."""
    reciprocals, logs = _table()
    rows = np.asarray(rows, np.float64)
    law = np.stack([np.interp(1 / rows, reciprocals, column) for column in logs.T])
    # Between two levels a line, which above the largest ends at P = 1.
    levels, law = np.append(0, np.log(LEVELS)), np.concatenate([np.zeros_like(law[:1]), law])
    inside = np.clip(log_p, levels[-1], 0)
    i = np.clip(np.searchsorted(-levels, -inside, side="right"), 1, len(levels) - 1)
    at = law[:, None] if law.ndim == 1 else law
    each = np.zeros(1, np.intp) if law.ndim == 1 else np.arange(law.shape[1])
    low, high = at[i - 1, each], at[i, each]
    interpolated = low + (high - low) * (inside - levels[i - 1]) / (levels[i] - levels[i - 1])
    far = levels[TAIL] - levels[TAIL].mean()
    slope = np.minimum(np.tensordot(far, law[TAIL], 1) / np.sum(far**2), 1)
    with np.errstate(invalid="ignore"):
        beyond = slope * np.minimum(log_p - levels[-1], 0)
    # No order of the ranks is rarer than this.
    return np.maximum(interpolated + beyond, -special.gammaln(rows + 1))


def fisher_log_pvalues(rows: Any, both: Any, ones: Any, others: Any) -> Floats:
    """Return logarithms of Fisher's two-sided p-values of 2 x 2 tables, of counts that broadcast.

    A p-value is the probability, given the margins, that ``both`` is at least as far from its
    expectation.  ``ones`` and ``others`` count the rows where the first, and the second, is 1.
    """
    both, ones, others = (np.asarray(counts, np.int64) for counts in (both, ones, others))
    # In integers, as counts on either side may be equally far.
    return two_sided_log_tails(rows, np.abs(both * rows - ones * others), ones, others)


def two_sided_log_tails(rows: Any, far: Any, ones: Any, others: Any) -> Floats:
    """Return log P(|rows both - ones others| >= far), given the margins of 2 x 2 tables."""
    expected = ones * others
    above, below = -((-expected - far) // rows), (expected - far) // rows
    upper = _log_upper_tail(rows, above, ones, others)
    # A low count of both is a high count of the second without the first.
    lower = _log_upper_tail(rows, others - below, rows - ones, others)
    return np.minimum(np.logaddexp(upper, lower), 0)


def _log_upper_tail(rows: Any, least: Any, ones: Any, others: Any) -> Floats:
    """Return log P(both >= least), for a ``least`` not below the expectation."""
    largest = np.minimum(ones, others)
    possible = least <= largest
    count = np.minimum(least, largest).astype(np.float64)
    neither = rows - ones - others + count
    log_p = (
        _log_choices(ones, count)
        + _log_choices(rows - ones, others - count)
        - _log_choices(rows, others)
    )
    total, term = np.ones(count.shape), np.ones(count.shape)
    while (term > total * 1e-17).any():
        term *= (ones - count) * (others - count) / ((count + 1) * (neither + 1))
        total += term
        count += 1
        neither += 1
    return np.where(possible, log_p + np.log(total), -np.inf)


def _log_choices(n: Any, k: Any) -> Floats:
    log_count = special.gammaln(n + 1.0) - special.gammaln(k + 1.0) - special.gammaln(n - k + 1.0)
    return np.asarray(log_count)


COUNTED_NUMBERS = 2**22
"""Number of values of the columns that are counted at a time."""


def exact_log_pvalues(
    one: Sequence[Integers], other: Sequence[Integers], pairs: tuple[Integers, ...]
) -> Floats:
    """Return log p-values of Fisher's exact test of ``pairs`` of two sets of binary columns.

    ``pairs`` are positions in both sets, which broadcast.
    """
    ones, others = (np.sum(side, axis=1)[i] for side, i in zip((one, other), pairs, strict=True))
    return fisher_log_pvalues(len(one[0]), both_counts(one, other)[pairs], ones, others)


def both_counts(one: Sequence[Integers], other: Sequence[Integers]) -> Integers:
    """Count the rows where both of two binary columns have 1, ``(p, q)``."""
    rows = len(one[0])
    total = np.zeros((len(one), len(other)), np.int64)
    # float32 counts exactly up to 2^24.
    size = min(max(1, COUNTED_NUMBERS // (len(one) + len(other))), 2**24)
    for start in range(0, rows, size):
        left, right = (
            np.array([column[start : start + size] for column in side], np.float32)
            for side in (one, other)
        )
        total += (left @ right.T).astype(np.int64)
    return total


def above_diagonal(log_p: Floats) -> Floats:
    """Return a square matrix with NaN on and below its diagonal."""
    return np.where(np.tri(len(log_p), dtype=bool), np.nan, log_p)


TESTED_AT_ONCE = 2**16
"""Number of pairs that are tested at a time: each takes half a kilobyte meanwhile."""


class BlockStatistics(NamedTuple):
    """Statistics of the blocks of some pairs.

    Attributes:
      places: ``(N,)``, positions of the pairs.
      values: top singular values of the blocks.
      degrees: ``(2, N)``, numbers of functions of both sides.
      effective_rows: ``(N,)``, effective sample sizes, allowing for ties.
      least_log_p: ``(N,)``, logarithms of the smallest possible p-values.
    """

    places: Integers
    values: Floats
    degrees: Integers
    effective_rows: Floats
    least_log_p: Floats

    @classmethod
    def joined(cls, parts: Sequence[BlockStatistics]) -> BlockStatistics:
        """Join parts, as a law costs as much for some hundred pairs as for all."""
        return cls(*(np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)))

    def log_pvalues(self, rows: Floats) -> Floats:
        """Return log p-values ``(N,)`` of pairs, given their numbers of rows."""
        log_p = np.empty(len(self.places))
        effective_rows = np.maximum(self.effective_rows, MIN_TABULATED_ROWS)
        for part in chunks(np.arange(len(log_p)), TESTED_AT_ONCE):
            together = combined(self.values[:, part], rows[part], self.degrees[:, part]).log_p
            log_p[part] = log_probability(together, effective_rows[part])
        return np.maximum(log_p, self.least_log_p)
