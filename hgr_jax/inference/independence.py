"""A test of independence by ranks that chooses the degrees itself, and its law.

A pair whose ranks have orthonormal functions f and g has the matrix M = mean of f g^T.  Under
independence the top singular value of any leading block of it follows the law of Roy's largest
root.  Small blocks find plain relations with few rows; long and narrow ones find relations that
oscillate in one variable.  So several blocks are tested at once:

    T = mean over the blocks of tan((1/2 - p) pi),      P = 1/2 - arctan(T) / pi

* `independence_test`: the test of one pair; `conditional_test` given other variables;
* `cross_moments`, `combined`: the matrix M, and one p-value of all blocks;
* `log_probability`: the law of that p-value, which depends on the number of rows alone, from a
  table of simulations; beyond the table log P(P <= p) is a line in log p;
* `fisher_log_pvalues`: the exact law of two variables of two values.

Source: Liu & Xie, "Cauchy combination test: a powerful test with analytic p-value calculation
under arbitrary dependency structures" (2020).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt
from jax import Array
from scipy import special

from hgr_jax._arrays import Floats, Integers
from hgr_jax._checks import (
    as_given,
    as_host_weights,
    as_key,
    as_pair,
    as_repeats,
    check_choice,
    check_count,
    check_indexes,
    rows_at,
)
from hgr_jax.core.host.linalg import residuals, top_singular_values
from hgr_jax.core.host.ranks import (
    RankedColumn,
    codes_of,
    effective_row_count,
    ranks,
    ranks_of_levels,
)
from hgr_jax.core.kernels import products_of_functions
from hgr_jax.core.ranks import rank_functions
from hgr_jax.inference import roys_root
from hgr_jax.inference.explained import is_explained, polynomials_given
from hgr_jax.inference.permutation import host_generator, orders
from hgr_jax.inference.roys_root.law import log_survival_of_many

OF_EXPLAINED = "explained"
"""Source of the p-value 1 of a variable that is a function of the given ones."""

TEST_METHODS = ("auto", "rank", "permutation")

EARLY_STOP_EXCEEDANCES = 100
"""Number of permutations reaching the statistic after which no more are drawn."""

TAIL_RANKS = (10, 100)
"""Order statistics of the permutations that a tail is fitted to, where fewer than the first reach
the statistic."""

SMALLEST_OF_TAIL = 1e-8
"""Smallest p-value by a tail that is fitted to permutations or signs.  Where the law is known, such
tails are within a factor of some 10 down to it, and of 1,000 at 1e-12."""

EXTRAPOLATE_AFTER = 2000
"""Number of permutations after which a tail is fitted, if none reaches the statistic."""

RANKS_AT_ONCE = 1_000_000
"""Number of permuted ranks whose functions are in memory at a time: 0.3 GB."""

GIVEN_DEGREE = 8
"""Largest default degree of the conditioning variables: with some thousand rows the test would find
the part of a strong dependence that degree 3 does not explain."""

ROWS_PER_FUNCTION = 20
"""Smallest number of rows for each function of the conditioning variables, by default."""


@dataclasses.dataclass(frozen=True)
class IndependenceTest:
    """The result of `independence_test`.

    Attributes:
      statistic: largest correlation of combinations of the functions that decided, in [0, 1].
      pvalue: of the hypothesis that the variables are independent.
      source: where the p-value comes from: "rank", the law of independent ranks; "exact", the law
        of two variables of two values; "permutation"; "signs", random signs of residuals given
        other variables; "tail", where fewer than 10 of these reach the statistic: extrapolated by
        a tail that is fitted to the largest of them, and no smaller than 1e-8; "explained", 1
        where a or b is a function of the given variables, so that nothing but rounding is left to
        test.
      degrees: numbers of functions of a and of b, in the block with the smallest p-value.
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
    weights: npt.ArrayLike | None = None,
    counts: npt.ArrayLike | None = None,
    given: npt.ArrayLike | None = None,
    given_degree: int | None = None,
    method: str = "auto",
    permutations: int = 9999,
    key: Array | None = None,
) -> IndependenceTest:
    """Test whether two variables are independent, by correlations of functions of their ranks.

    The functions are those of `hgr_jax.hgr`, from slow to fast ones.  With p_hk the p-value, by the
    law of Roy's largest root, of the largest correlation of combinations of the first h functions
    of a and the first k of b, and B = {(1, 1), (2, 2), (3, 3), (8, 2), (2, 8), (16, 2), (2, 16),
    (32, 1), (1, 32)},

        T = mean over (h, k) in B of tan((1/2 - p_hk) pi),      p-value = P(T' >= T)

    where T' is the statistic T of independent variables.  There are at least 3 rows for each
    function.  Only ranks count: outliers do not matter, and an increasing transformation of a
    variable changes nothing.

    Without ties the law of T' depends on the number of rows alone, and was simulated
    (``python -m bench.rank_law``).  A variable with ties has only the functions that behave as
    those of at least 50 rows without ties.  If there is none, or with fewer than 20 rows, b is
    permuted, until 100 permutations reach T (Besag & Clifford); if fewer than 10 do, a tail is
    fitted to them.  Two variables of two values have the exact law of their table.

    With ``weights`` ranks and means are weighted, and n is the effective number of rows; where
    single weights are too large, b is permuted.  With ``given`` the functions of the ranks of a and
    b are replaced by their residuals given such functions of the ranks of c and their products, and
    the rows' contributions to all means get random signs.  A p-value that is not small does not
    show conditional independence.

    Args:
      a, b: real arrays ``(n,)``.
      weights: non-negative observation weights ``(n,)`` or None; a row of weight 0 is dropped.
      counts: how often each row occurred, whole numbers ``(n,)``, or None: the test is that of the
        repeated rows.
      given: c, ``(n,)`` or several columns ``(n, p)``, or None.
      given_degree: int, at least 1: of c enter the products of functions the sum of whose positions
        is up to this; None for the largest up to 8 with 20 rows for each product.
      method: "auto", as above; "rank", by the law of ranks, whatever n and the ties; or
        "permutation" (with ``given``, random signs).
      permutations: largest number of permutations, int >= 1.
      key: a random key for the permutations; None for ``jax.random.key(0)``.

    Returns:
      An `IndependenceTest`, of Python numbers.

    Raises:
      TypeError, ValueError: for shapes, dtypes or options other than the above.

    Degenerate data: a constant variable, and one that polynomials of c (up to degree 30) explain
    to the last digits, have the statistic 0 and the p-value 1; NaN gives NaN.

    Cost: a host function, not to be traced.  About 4 ms at n = 500, 15 ms at n = 10,000; 0.1 s at
    n = 100,000.

    Source: Liu & Xie, "Cauchy combination test" (2020), for T; Besag & Clifford, "Sequential Monte
    Carlo p-values" (1991); Mammen, "Bootstrap and wild bootstrap for high dimensional linear
    models" (1993), for random signs.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 60)
      >>> found = hgr_jax.independence_test(a, a**2 + 0.1 * jnp.cos(9 * a))
      >>> found.degrees, found.source, found.pvalue < 1e-20
      ((8, 2), 'rank', True)
    """
    for name, other in (("b", b), ("weights", weights), ("counts", counts), ("given", given)):
        check_indexes("a", a, name, other)
    if counts is not None:
        order = as_repeats(counts, len(np.asarray(a)))
        a, b, weights, given = (rows_at(x, order) for x in (a, b, weights, given))
    as_pair(a, b, max_ndim=1, warn=False)
    check_choice("method", method, TEST_METHODS)
    count = check_count("permutations", permutations)
    as_given(given, len(np.asarray(a)), np.float32, warn=False)
    if given_degree is not None:
        check_count("given_degree", given_degree)
    if key is not None:
        as_key(key)
    # In float64, as distinct numbers may be equal in float32.
    x, y = (np.asarray(value, np.float64) for value in (a, b))
    w = as_host_weights(weights, len(x))
    c = None if given is None else np.asarray(given, np.float64).reshape(len(x), -1)
    if w is not None:
        weighted = w > 0
        x, y, w, c = x[weighted], y[weighted], w[weighted], c if c is None else c[weighted]
        w = w if np.ptp(w) > 0 else None
    if any(np.isnan(values).any() for values in (x, y, *([] if c is None else [c]))):
        return IndependenceTest(np.nan, np.nan, "", (0, 0), np.nan)
    sides = RankedColumn.of_values(x, w), RankedColumn.of_values(y, w)
    if c is not None:
        explaining = polynomials_given(c, np.zeros((len(c), 0)))
        if is_explained(x, explaining) or is_explained(y, explaining):
            return IndependenceTest(0.0, 1.0, OF_EXPLAINED, (0, 0), 0.0)
        basis = functions_given(c, given_degree, w)
        return conditional_test(sides, basis, w, key=key, most=count, method=method)
    if method == "auto" and w is None and all(side.is_binary for side in sides):
        return _fisher_test(*sides)
    rows, rarest = effective_row_count(len(x), w), rarest_order(*sides)
    f, g = (side.functions() for side in sides)
    (h, share_f), (k, share_g) = ((side.reliable, side.effective_share) for side in sides)
    if method == "auto":
        f, g = f[: max(h, 1)], g[: max(k, 1)]
    if not len(f) or not len(g):
        return IndependenceTest(0.0, 1.0, "exact", (0, 0), 0.0)
    reliable = min(h, k) > 0 and rows >= MIN_TABULATED_ROWS
    share = None if w is None else w / w.sum()
    if method == "rank" or (method == "auto" and reliable):
        effective_rows = rows * share_f * share_g
        moments = cross_moments(f, g[:, None], share)
        return _test_by_law(moments, rows, effective_rows, rarest)
    if share is not None:
        # Ranks without weights, as the ranks of b must not change when its rows are permuted.
        f, g = (RankedColumn.of_values(z).functions()[: len(old)] for z, old in ((x, f), (y, g)))
        f = f - (f @ share)[:, None]
    chunks, size = split_draws(count, len(x))
    key = jax.random.key(0) if key is None else key
    drawn = (cross_moments(f, g[:, order], share) for order in orders(key, len(x), chunks, size))
    return _test_by_draws(drawn, "permutation", rows, rarest, count)


def conditional_test(
    sides: tuple[RankedColumn, RankedColumn],
    basis: Floats,
    weights: Floats | None,
    *,
    key: Array | None,
    most: int,
    method: str = "auto",
) -> IndependenceTest:
    """Test residuals of ranks given orthonormal functions ``(r, n)``; ``most`` is permutations."""
    f, g = (
        residuals(
            s.functions()[: max(s.reliable, 1) if method == "auto" else None],
            basis,
            weights,
        )
        for s in sides
    )
    count = basis.shape[1]
    rows = max(effective_row_count(count, weights) - len(basis), 2.0)
    if not len(f) or not len(g):
        return IndependenceTest(0.0, 1.0, "exact", (0, 0), 0.0)
    share = None if weights is None else weights / weights.sum()
    if method == "rank":
        effective_rows = rows * sides[0].effective_share * sides[1].effective_share
        return _test_by_law(
            cross_moments(f, g[:, None], share), rows, effective_rows, rarest_order(*sides)
        )
    drawn = _moments_under_signs(f, g, share, random_signs(key, count, most, rows, len(basis)))
    return _test_by_draws(drawn, "signs", rows, -count * math.log(2), most)


def _test_by_law(
    moments: Floats, rows: float, effective_rows: float, rarest: float
) -> IndependenceTest:
    """Test the moments of one pair by the law of ranks."""
    combined_test = combined_pvalues(moments, rows)
    log_p = np.maximum(
        log_probability(combined_test.log_p, max(effective_rows, MIN_TABULATED_ROWS)), rarest
    )
    return _test_result(combined_test, np.exp(log_p[0]), "rank", rows)


def split_draws(most: int, rows: int) -> tuple[int, int]:
    """Return the number of chunks in which permutations are drawn, and the size of a chunk."""
    size = min(most + 1, max(1, RANKS_AT_ONCE // rows))
    return -(-(most + 1) // size), size


def random_signs(
    key: Array | None, count: int, most: int, rows: float, explained: int
) -> Iterator[Floats]:
    """Yield scaled random signs ``(size, count)``; the first of ``1 + most`` draws are equal."""
    # The residuals of n rows vary as n - r rows, which signs do not account for.
    scale = math.sqrt((rows + explained) / (rows - 1))
    key = jax.random.key(0) if key is None else key
    generator = host_generator(key)
    chunks, size = split_draws(most, count)
    for chunk in range(chunks):
        signs = scale * (1.0 - 2.0 * generator.integers(0, 2, (size, count), np.int8))
        if not chunk:
            signs[0] = 1
        yield signs


def _moments_under_signs(
    f: Floats, g: Floats, share: Floats | None, drawn: Iterator[Floats]
) -> Iterator[Floats]:
    """Yield moments whose contributions of each row have the signs ``(N, n)``."""
    i, j = np.indices((len(f), len(g)))[:, in_blocks(len(f), len(g))]
    products = (f / f.shape[1] if share is None else f * share)[i] * g[j]
    for signs in drawn:
        m = np.zeros((len(f), len(g), len(signs)))
        m[i, j] = products @ signs.T
        yield m


def _affordable_degree(rows: int, variables: int) -> int:
    """Return the largest total degree with at least `ROWS_PER_FUNCTION` rows for each function."""
    degrees = range(2, GIVEN_DEGREE + 1)
    affordable = (d for d in degrees if math.comb(variables + d, d) <= rows / ROWS_PER_FUNCTION)
    return max(affordable, default=1)


def functions_given(c: Floats, degree: int | None, weights: Floats | None) -> Floats:
    """Return orthonormal functions ``(r, n)`` of the ranks of ``c (n, p)``.

    Products of functions of single ranks, the sum of whose positions is up to ``degree``.
    """
    degree = degree or _affordable_degree(*c.shape)
    rank = ranks(c)
    if weights is not None:
        codes = [codes_of(column) for column in rank.T]
        rank = np.stack([ranks_of_levels(x, weights)[0][x] for x in codes], axis=1)
    one = np.ones((1, *rank.shape))
    factors = np.concatenate([one, rank_functions((rank + 1) / 2, degree)])
    products = products_of_functions(np.moveaxis(factors, 2, 0), degree)
    return residuals(products, np.zeros((0, len(c))), weights)


def _test_result(block: Combined, pvalue: float, source: str, rows: float) -> IndependenceTest:
    """Return the result for the first of the pairs."""
    h, k = (int(degree) for degree in block.degrees[:, 0])
    null_mean = _null_mean(rows, h, k)
    return IndependenceTest(float(block.values[0]), float(pvalue), source, (h, k), null_mean)


@functools.lru_cache(maxsize=4096)
def _null_mean(rows: float, h: int, k: int) -> float:
    return float(roys_root.mean(rows, h, k))


def rarest_order(x: RankedColumn, y: RankedColumn) -> float:
    """Return the log probability of the rarest order of ``y``, with the ties of either variable."""
    return max(x.log_orders, y.log_orders) - math.lgamma(len(x.codes) + 1)


def _fisher_test(x: RankedColumn, y: RankedColumn) -> IndependenceTest:
    """Test two variables of two values by Fisher's exact test."""
    statistic = float(abs(np.mean(x.functions() * y.functions())))
    both, ones, others = (np.sum(codes) for codes in (x.codes & y.codes, x.codes, y.codes))
    pvalue = float(np.exp(fisher_log_pvalues(len(x.codes), both, ones, others)))
    return IndependenceTest(statistic, pvalue, "exact", (1, 1), _null_mean(len(x.codes), 1, 1))


def _test_by_draws(
    drawn: Iterator[Floats], source: str, rows: float, rarest: float, most: int
) -> IndependenceTest:
    """Test the first of the drawn moments against the others, which are of independent pairs."""
    combined_test = combined_pvalues(next(drawn), rows)
    first = combined_test.log_p
    null = first[1 : 1 + most]
    exceeds = _exceedances(null, first[0])
    while len(null) < most and exceeds.sum() < EARLY_STOP_EXCEEDANCES:
        if len(null) >= EXTRAPOLATE_AFTER and not exceeds.any():
            break
        null = np.concatenate([null, combined_pvalues(next(drawn), rows).log_p])[:most]
        exceeds = _exceedances(null, first[0])
    pvalue = (1 + exceeds.sum()) / (1 + len(null))
    if exceeds.sum() >= EARLY_STOP_EXCEEDANCES:
        pvalue = EARLY_STOP_EXCEEDANCES / (1 + np.flatnonzero(exceeds)[EARLY_STOP_EXCEEDANCES - 1])
    elif exceeds.sum() < TAIL_RANKS[0] and len(null) > 10 * TAIL_RANKS[1]:
        near, far = np.sort(null)[np.array(TAIL_RANKS) - 1]
        if far - near > 1e-3:
            slope = min(1.0, np.log(TAIL_RANKS[1] / TAIL_RANKS[0]) / (far - near))
            log_p = np.log(TAIL_RANKS[0] / len(null)) + slope * (first[0] - near)
            source, pvalue = "tail", np.exp(max(log_p, rarest, math.log(SMALLEST_OF_TAIL)))
    return _test_result(combined_test, pvalue, source, rows)


def _exceedances(null: Floats, log_p: float) -> npt.NDArray[np.bool_]:
    """Return which draws have a p-value of at most ``exp(log_p)``."""
    return null <= log_p * (1 - 1e-6)  # for rounding and interpolation


BLOCKS = ((1, 1), (2, 2), (3, 3), (8, 2), (2, 8), (16, 2), (2, 16), (32, 1), (1, 32))
"""Numbers of functions in the blocks, chosen by their power on relations of many kinds
(`bench.power`)."""

LARGEST_PVALUE = 0.99
"""Bound on the p-value of a block in the mean: one near 1 would outweigh the others."""


def in_blocks(h: int, k: int) -> npt.NDArray[np.bool_]:
    """Return which entries of M ``(h, k)`` are in a block."""
    inside = np.zeros((h, k), bool)
    for rows, columns in BLOCKS:
        inside[:rows, :columns] = True
    return inside


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


def cross_moments(f: Floats, g: Floats, share: Floats | None = None) -> Floats:
    """Return the moments M ``(h, k, N)`` of ``f (h, n)`` and ``g (k, N, n)``, 0 outside blocks.

    ``share (n,)`` are weights of sum 1.
    """
    (h, rows), (k, count, _) = f.shape, g.shape
    scaled = f / rows if share is None else f * share
    m = np.zeros((h, k, count))
    for i, j in BLOCKS:
        products = scaled[:i] @ g[:j].reshape(-1, rows).T
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
        _combined_log_p(log_p, new.sum(axis=0)), limits[:, best, each], values[best, each]
    )


def _combined_log_p(log_p: Floats, count: Integers) -> Floats:
    """Return log P (see the module) of the ``count (N,)`` finite p-values in ``(blocks, N)``."""
    least = np.min(log_p, axis=0)
    p = np.exp(np.clip(log_p, -30, np.log(LARGEST_PVALUE)))
    mean = np.sum(np.where(log_p < np.inf, 1 / np.tan(np.pi * p), 0), axis=0) / count
    near = np.arctan2(1, mean) / np.pi  # 1/2 - arctan(T) / pi, without cancellation
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.log(np.sum(np.exp(least - log_p), axis=0))
    far = least + np.log(count) - np.where(np.isfinite(least), tail, 0)
    return np.where(least > -25, np.log(near), far)


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
    levels = np.log(LEVELS)
    # Between two levels a line; above the largest the line to P = 1.
    inside = np.clip(log_p, levels[-1], levels[0])
    i = np.clip(np.searchsorted(-levels, -inside, side="right"), 1, len(levels) - 1)
    at = law[:, None] if law.ndim == 1 else law
    each = np.zeros(1, np.intp) if law.ndim == 1 else np.arange(law.shape[1])
    low, high = at[i - 1, each], at[i, each]
    interpolated = low + (high - low) * (inside - levels[i - 1]) / (levels[i] - levels[i - 1])
    far = levels[TAIL] - levels[TAIL].mean()
    slope = np.minimum(np.tensordot(far, law[TAIL], 1) / np.sum(far**2), 1)
    with np.errstate(invalid="ignore"):
        interpolated = np.where(
            log_p < levels[-1], law[-1] + slope * (log_p - levels[-1]), interpolated
        )
    interpolated = np.where(
        log_p > levels[0], np.clip(log_p / levels[0], 0, 1) * law[0], interpolated
    )
    # No order of the ranks is rarer than this.
    return np.maximum(interpolated, -special.gammaln(rows + 1))


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
