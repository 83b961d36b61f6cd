"""A test of independence by ranks, of which nobody chooses the degrees."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator

import jax
import numpy as np
import numpy.typing as npt
from jax import Array
from scipy import special

from hgr_jax._arrays import Floats
from hgr_jax._checks import as_key, as_pair, check_choice, check_count
from hgr_jax.inference import roys_root
from hgr_jax.inference._rank_blocks import (
    combined_pvalues,
    cross_moments,
    rank_polynomials,
    trusted_degree,
)
from hgr_jax.inference._rank_law import LEAST_ROWS, log_probability
from hgr_jax.inference.permutation import orders

TEST_METHODS = ("auto", "rank", "permutation")

REACHED = 100
"""Permutations that reach the statistic, after which no more are drawn."""

TAIL_RANKS = (10, 100)
"""Ranks of the permutations by which their law goes on, where fewer than the first reach."""

RANKS_AT_ONCE = 2_000_000


@dataclasses.dataclass(frozen=True)
class IndependenceTest:
    """The result of `independence_test`.

    Attributes:
      statistic: HGR-KB of the ranks at the degrees that decided, in [0, 1].
      pvalue: of the hypothesis that the variables are independent.
      source: where it is from: "rank", the law of independent ranks; "exact", of two variables of
        two values; "permutation"; "tail", permutations of which fewer than 10 reach the statistic,
        and the law that the others follow.
      degrees: of a and of b, of the block with the least p-value.
      null_mean: mean of ``statistic`` at these degrees, where the variables are independent.
    """

    statistic: float
    pvalue: float
    source: str
    degrees: tuple[int, int]
    null_mean: float


def independence_test(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    method: str = "auto",
    permutations: int = 9999,
    key: Array | None = None,
) -> IndependenceTest:
    """Test whether two variables are independent, by HGR-KB of their ranks at several degrees.

    With p_hk the p-value of HGR-KB of the ranks at degrees h and k by the law of Roy's largest
    root, and B = {(1, 1), (3, 3), (8, 2), (2, 8), (16, 2), (2, 16)},

        T = mean over (h, k) in B of tan((1/2 - p_hk) pi),      p-value = P(T' >= T)

    where T' is T of independent variables.  Degrees that find plain relations with few rows are
    among them, and those that find one that oscillates.  Only ranks count, so that no outlier does,
    and any increasing transformation of a variable leaves the result as it is.

    The law of T' without ties depends on the number of rows alone: it was simulated
    (``python -m bench.rank_law``), and goes on below 1e-5 as a power of the p-value, at the least
    1 / n!.  A variable with ties has the degrees at which its polynomials behave as those of at
    least 50 rows without ties do.  Where not even the first does, or of fewer than 20 rows,
    b is permuted: until 100 permutations reach T (Besag & Clifford), or
    p = (1 + #reached) / (1 + permutations); where fewer than 10 do, the law of the others is
    continued.  Two variables of two values have the exact law of their table.

    Args:
      a, b: real arrays ``(n,)``.
      method: "auto", as above; "rank", by the law of ranks, whatever n and the ties; or
        "permutation".
      permutations: int, at least 1, the largest number of them.
      key: of the permutations, as ``jax.random.key(0)``, which None stands for.

    Returns:
      An `IndependenceTest`, of Python numbers.

    Raises:
      TypeError, ValueError: for shapes, dtypes or options other than the above.

    Degenerate data: a constant variable has the statistic 0 and the p-value 1; NaN gives NaN.

    Cost: a host function, not to be traced.  About 4 ms at n = 500 (more at the first call for a
    number of rows), 15 ms at n = 10,000; 0.1 s at n = 100,000.

    Source: the combination is that of Liu & Xie, "Cauchy combination test" (2020); Besag &
    Clifford, "Sequential Monte Carlo p-values" (1991).

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 60)
      >>> found = hgr_jax.independence_test(a, a**2)
      >>> found.degrees, found.source, found.pvalue < 1e-20
      ((3, 3), 'rank', True)
    """
    as_pair(a, b, max_ndim=1, warn=False)
    check_choice("method", method, TEST_METHODS)
    count = check_count("permutations", permutations)
    if key is not None:
        as_key(key)
    # Ranks of the numbers as they are: in float32 some would be equal.
    x, y = (np.asarray(value, np.float64) for value in (a, b))
    if np.isnan(x).any() or np.isnan(y).any():
        return IndependenceTest(np.nan, np.nan, "", (0, 0), np.nan)
    f, g = rank_polynomials(x), rank_polynomials(y)
    if not len(f) or not len(g):
        return IndependenceTest(0.0, 1.0, "exact", (0, 0), 0.0)
    rarest = _rarest(x, y)
    if method == "auto" and len(f) == len(g) == 1:
        return _of_table(x, y, float(abs(np.mean(f[0] * g[0]))))
    (h, worth_f), (k, worth_g) = trusted_degree(f), trusted_degree(g)
    if method == "auto":
        method = "rank" if min(h, k) and len(x) >= LEAST_ROWS else "permutation"
        f, g = f[: max(h, 1)], g[: max(k, 1)]
    if method == "permutation":
        return _by_permutations(f, g, rarest, count, jax.random.key(0) if key is None else key)
    log_p, degrees, values = combined_pvalues(cross_moments(f, g[:, None]), len(x))
    worth = len(x) * worth_f * worth_g if min(h, k) else LEAST_ROWS
    log_p = np.maximum(log_probability(log_p, worth), rarest)
    return _found(values[0], np.exp(log_p[0]), "rank", degrees[:, 0], len(x))


def _found(
    statistic: float, pvalue: float, source: str, degrees: npt.NDArray[np.number], rows: int
) -> IndependenceTest:
    h, k = (int(degree) for degree in degrees)
    return IndependenceTest(float(statistic), float(pvalue), source, (h, k), _null_mean(rows, h, k))


@functools.lru_cache(maxsize=4096)
def _null_mean(rows: int, h: int, k: int) -> float:
    return float(roys_root.mean(rows, h, k))


def _rarest(x: Floats, y: Floats) -> float:
    """Return the log of the least probability that an order of the rows of ``y`` can have.

    Orders that change places of equal values only, of either, are not told apart.
    """
    equal = [np.unique(values, return_counts=True)[1].tolist() for values in (x, y)]
    same = (sum(math.lgamma(count + 1) for count in counts) for counts in equal)
    return max(same) - math.lgamma(len(x) + 1)


def _of_table(x: Floats, y: Floats, statistic: float) -> IndependenceTest:
    """Return the test of two variables of two values each, by Fisher's exact law."""
    ones, others = (int(np.sum(values == values.max())) for values in (x, y))
    both = int(np.sum((x == x.max()) & (y == y.max())))
    rows = len(x)
    counts = np.arange(max(0, ones + others - rows), min(ones, others) + 1)

    def log_choices(n: int, k: npt.NDArray[np.integer]) -> Floats:
        return special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)

    log_p = log_choices(ones, counts) + log_choices(rows - ones, others - counts)
    log_p -= log_choices(rows, np.array([others]))
    expected = ones * others / rows
    far = np.abs(counts - expected) >= abs(both - expected) * (1 - 1e-9)
    pvalue = min(1.0, float(np.sum(np.exp(log_p[far]))))
    return _found(statistic, pvalue, "exact", np.array([1, 1]), rows)


def _by_permutations(
    f: Floats, g: Floats, rarest: float, most: int, key: Array
) -> IndependenceTest:
    rows = f.shape[1]
    size = min(most + 1, max(1, RANKS_AT_ONCE // rows))
    chunks = -(-(most + 1) // size)
    drawn = _permuted(f, g, orders(key, rows, chunks, size))
    first, degrees, values = next(drawn)
    null = first[1 : 1 + most]
    while len(null) < most and np.sum(_reached(null, first[0])) < REACHED:
        null = np.concatenate([null, next(drawn)[0]])[:most]
    reached = _reached(null, first[0])
    source, pvalue = "permutation", (1 + reached.sum()) / (1 + len(null))
    if reached.sum() >= REACHED:
        pvalue = REACHED / (1 + np.flatnonzero(reached)[REACHED - 1])
    elif reached.sum() < TAIL_RANKS[0] and len(null) > 10 * TAIL_RANKS[1]:
        near, far = np.sort(null)[np.array(TAIL_RANKS) - 1]
        if far - near > 1e-3:
            slope = min(1.0, np.log(TAIL_RANKS[1] / TAIL_RANKS[0]) / (far - near))
            beyond = np.log(TAIL_RANKS[0] / len(null)) + slope * (first[0] - near)
            source, pvalue = "tail", np.exp(max(beyond, rarest))
    return _found(values[0], pvalue, source, degrees[:, 0], rows)


def _reached(null: Floats, log_p: float) -> npt.NDArray[np.bool_]:
    """Return which permutations have a p-value as small, but for rounding."""
    return null <= log_p * (1 - 1e-9)


def _permuted(
    f: Floats, g: Floats, drawn: Iterator[npt.NDArray[np.int32]]
) -> Iterator[tuple[Floats, Floats, Floats]]:
    for order in drawn:
        yield combined_pvalues(cross_moments(f, g[:, order]), f.shape[1])
