"""The law of the largest correlation of two columns of few levels, given how often each occurs.

Columns of R and C levels have a table of counts T ``(R, C)``.  With functions f ``(p, R)`` and g
``(q, C)`` of the levels, orthonormal on the rows of each column, the statistic is the top singular
value of f T g^T / n.  Of independent columns all orders of the rows are equally likely, so that a
table has the probability

    P(T) = prod_i r_i! prod_j c_j! / (n! prod_ij T_ij!),        r, c the counts of the levels.

* `log_pvalue_of_random_tables` draws tables, until 10 of them reach the statistic: few where the
  p-value is large;
* `log_pvalue_of_all_tables` adds up all tables, where they are few;
* `log_tail_of_merged_levels` is what two columns of two values reach, made of some levels of either
  side and of the others.  Rare levels give these tails that no law for many rows has.

Source: Besag & Clifford, "Sequential Monte Carlo p-values" (1991); Patefield, "Algorithm AS 159"
(1981).
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
from scipy import special

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.linalg import top_singular_values
from hgr_jax.inference.rank_law import two_sided_log_tails

EXCEEDANCES = 10
"""Number of random tables that reach the statistic after which no more are drawn."""

FIRST_TABLES, MOST_TABLES = 50, 12_800
"""Number of random tables that are drawn first, and the largest number."""

MAX_TABLES = 20_000
"""Largest number of tables that are enumerated."""

MAX_MERGED_LEVELS = 6
"""Largest number of levels all subsets of which are merged; of more levels, single ones are."""

TIES = 1e-9
"""Relative difference below which two statistics count as equal."""

CELLS_AT_ONCE = 2**21
"""Number of cells of the tables that are drawn at a time."""


@dataclasses.dataclass(frozen=True)
class LevelPair:
    """Two columns of few levels.

    Attributes:
      f, g: ``(p, R)`` and ``(q, C)``, functions of the levels, orthonormal on the rows.
      table: ``(R, C)``, numbers of rows of both levels.
    """

    f: Floats
    g: Floats
    table: Integers

    @functools.cached_property
    def counts(self) -> tuple[Integers, Integers]:
        """The numbers of rows of the levels, ``(R,)`` and ``(C,)``."""
        return self.table.sum(axis=1), self.table.sum(axis=0)

    @functools.cached_property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.table.sum())

    def moments(self, tables: Integers) -> Floats:
        """Return the moments ``(p, q, N)`` of tables ``(N, R, C)``."""
        sums = np.kron(self.f, self.g) @ tables.reshape(len(tables), -1).T
        return sums.reshape(len(self.f), len(self.g), -1) / self.rows

    @functools.cached_property
    def threshold(self) -> float:
        """The smallest value that counts as reaching the statistic."""
        return float(top_singular_values(self.moments(self.table[None]))[0]) * (1 - TIES)


@functools.lru_cache(maxsize=4096)
def functions_of_counts(counts: tuple[int, ...]) -> Floats:
    """Return orthonormal functions ``(R - 1, R)`` of levels with so many rows."""
    roots = np.sqrt(np.array(counts) / sum(counts))
    basis = np.linalg.qr(np.column_stack([roots, np.eye(len(counts))[:, :-1]]))[0]
    return (basis[:, 1:] / roots[:, None]).T


def log_pvalue_of_random_tables(pair: LevelPair, seed: tuple[int, ...]) -> float | None:
    """Return the log p-value from random tables; None where too few reach the statistic."""
    from scipy import stats  # loads slowly

    generator, law = np.random.default_rng(seed), stats.random_table(*pair.counts)
    drawn, reached, size = 0, 0, FIRST_TABLES
    while drawn < MOST_TABLES:
        tables = law.rvs(size, random_state=generator)
        reached_by = reached + np.cumsum(
            top_singular_values(pair.moments(tables)) >= pair.threshold
        )
        reached = int(reached_by[-1])
        if reached >= EXCEEDANCES:
            count = drawn + 1 + int(np.argmax(reached_by >= EXCEEDANCES))
            return float(np.log(EXCEEDANCES / count))
        drawn = size = drawn + size
    return None


def log_pvalue_of_all_tables(pair: LevelPair) -> float | None:
    """Return the log p-value from all tables; None if there are too many."""
    available, log_p = pair.counts[0][None], np.zeros(1)
    m = np.zeros((1, len(pair.f), len(pair.g)))
    for j, count in enumerate(pair.counts[1]):
        wanted = np.full(len(available), count)
        for i in range(len(pair.f[0])):
            # The number of rows of both levels, from as many as must be to as many as can be.
            low = np.maximum(wanted - available[:, i + 1 :].sum(axis=1), 0)
            choices = np.minimum(available[:, i], wanted) - low + 1
            if choices.sum() > MAX_TABLES:
                return None
            each = np.repeat(np.arange(len(choices)), choices)
            both = np.arange(len(each)) - (np.cumsum(choices) - choices - low)[each]
            available, wanted = available[each], wanted[each] - both
            available[:, i] -= both
            log_p = log_p[each] - special.gammaln(both + 1)
            m = m[each] + both[:, None, None] * np.outer(pair.f[:, i], pair.g[:, j])
    values = top_singular_values(np.moveaxis(m, 0, -1) / pair.rows)
    constant = sum(special.gammaln(counts + 1).sum() for counts in pair.counts)
    constant -= special.gammaln(pair.rows + 1)
    return min(float(special.logsumexp(log_p[values >= pair.threshold]) + constant), 0.0)


def log_tail_of_merged_levels(
    counts: tuple[tuple[int, ...], tuple[int, ...]], statistic: float
) -> float:
    """Return the log of the sum of P(|phi| >= statistic) over all pairs of merged levels.

    phi is the correlation of the indicators of some levels of both sides.  A row of both less than
    that takes counts too, times what the other levels have to make up for.
    """
    rows = sum(counts[0])
    sides = _merged(counts[0])[:, None], _merged(counts[1])
    ones, others = np.broadcast_arrays(*sides)
    variance = 1.0 * ones * (rows - ones) * others * (rows - others)
    least = statistic * (1 - TIES) * np.sqrt(variance)
    tails = []
    # One row of both less, and other levels make up for it, as chi-squared of large values.
    for far in (least, np.maximum(least - rows, 0)):
        phi = np.minimum(far / np.sqrt(variance), statistic)
        missing = rows * (statistic**2 - phi**2) / 2
        tails.append(two_sided_log_tails(rows, far, ones, others) - missing)
    return float(special.logsumexp(tails))


@functools.lru_cache(maxsize=4096)
def _merged(counts: tuple[int, ...]) -> Integers:
    """Return the numbers of rows of subsets of the levels, without their complements."""
    levels = len(counts)
    if levels > MAX_MERGED_LEVELS:
        return np.array(counts)
    chosen = np.arange(1, 2 ** (levels - 1))  # the last level is in the complement
    return (chosen[:, None] >> np.arange(levels - 1) & 1) @ np.array(counts[:-1])
