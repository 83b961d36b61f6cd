"""What a test of independence of two variables returns."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable

import numpy as np
from scipy import special

from hgr_jax.inference import roys_root


@dataclasses.dataclass(frozen=True)
class IndependenceTest:
    """The result of `independence_test`.

    Attributes:
      statistic: largest correlation of combinations of the functions that decided, in [0, 1].
      pvalue: of the hypothesis that the variables are independent.
      source: where the p-value comes from: "rank", the law of independent ranks; "exact", the law
        of two variables of two values, of a table of counts, or of all orders of at most 8 rows;
        "asymptotic", Roy's law of two categories; "permutation"; "tail", where fewer than 10
        permutations, or no other shift, reach the statistic: extrapolated by a tail that is fitted
        to the largest of them, and no smaller than 1e-8; "residuals", given other variables, no
        smaller than 1e-8; "explained", 1 where a or b is a function of the given variables, so that
        nothing but rounding is left to test; "shifts", circular shifts of series; "exchanges" of
        whole series of a panel; "within", orders of the rows within groups; "between", the test of
        one row for each group.
      degrees: numbers of functions of a and of b, in the block with the smallest p-value; given
        other variables, the places of the two functions whose residuals are most correlated.
      lag: of a series, by how many rows b follows a where they depend most.
      smallest_pvalue: the smallest p-value that the shifts, or the draws within groups, support,
        beyond which there is the tail; 0 where there are none.
      null_mean: mean of ``statistic``, at these degrees, where the variables are independent; NaN
        of rows in an order or in groups.
    """

    statistic: float
    pvalue: float
    source: str
    degrees: tuple[int, int]
    lag: int = 0
    smallest_pvalue: float = 0.0
    null_mean: float = math.nan

    @classmethod
    def of_blocks(
        cls, statistic: float, pvalue: float, source: str, degrees: Iterable[int], rows: float
    ) -> IndependenceTest:
        """Return the result of so many effective rows, with the mean by Roy's law."""
        h, k = (int(degree) for degree in degrees)
        null_mean = _mean_of_root(rows, h, k)
        return cls(float(statistic), float(pvalue), source, (h, k), null_mean=null_mean)


@functools.lru_cache(maxsize=4096)
def _mean_of_root(rows: float, h: int, k: int) -> float:
    return float(roys_root.mean(rows, h, k))


@functools.lru_cache(maxsize=4096)
def mean_of_largest(count: int) -> float:
    """Return the mean of the largest absolute value of independent normal numbers."""
    x = np.linspace(0, 8, 4001)
    return float(np.trapezoid(1 - (2 * special.ndtr(x) - 1) ** count, x))


OF_RESIDUALS = "residuals"
"""Source of p-values given other variables."""

OF_CONSTANT = IndependenceTest(0.0, 1.0, "exact", (0, 0), null_mean=0.0)
OF_EXPLAINED = IndependenceTest(0.0, 1.0, "explained", (0, 0), null_mean=0.0)
OF_MISSING = IndependenceTest(np.nan, np.nan, "", (0, 0))
