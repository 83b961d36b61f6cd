"""Conditional independence of X and Y given Z, by products of their residuals.

The mean of the product of a residual of X and one of Y (`hgr_jax.core.host.conditioning`), over its
standard error, is nearly normal whatever the variance given Z.  Three weighted sums of squares of
these have each the law of a chi-squared variable with the same first three moments; their p-values
are combined as those of blocks (`rank_law`).

To a test, what a regression does not find of Z is dependence (Shah & Peters 2020): none holds its
size whatever Z does to X and to Y.

Source: Shah & Peters, "The hardness of conditional independence testing" (2020), for products of
residuals.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy import special

from hgr_jax._arrays import Floats, Integers
from hgr_jax._limits import SMALLEST_OF_TAIL
from hgr_jax.core.host.conditioning import CACHED_ROWS, ConditionalResiduals, Conditioning
from hgr_jax.inference.rank_law import cauchy_log_pvalue
from hgr_jax.inference.results import OF_RESIDUALS, IndependenceTest, mean_of_largest


def compare_residuals(
    a: ConditionalResiduals, b: ConditionalResiduals, given: Conditioning
) -> IndependenceTest:
    """Test the products of residuals of two variables, each of which has some.

    The statistic of the test is the partial correlation of largest z-score, and its degrees are the
    places of the two functions.
    """
    first_a, first_b = a.places == 1, b.places == 1
    low = (~a.is_second[:, None] & ~b.is_second) & (first_a[:, None] | first_b)
    second = (a.is_second | first_a)[:, None] & (b.is_second | first_b) & ~low
    i, j = np.nonzero(low | second)
    is_low = low[i, j]
    spare = given.effective_rows - given.map.shape[1] - 1
    is_of_levels = a.levels is not None and b.levels is not None
    of_a, of_b = (spare + side.unfitted.sum(axis=1) for side in (a, b))
    if is_of_levels:  # fitted probabilities lose less of the variance than residuals do
        of_a, of_b = (
            given.effective_rows - 1 - np.sum((1 - np.sqrt(side.unfitted)) ** 2, axis=1)
            for side in (a, b)
        )
    shared = spare + np.sum(a.unfitted[i] * b.unfitted[j], axis=1)
    factor = given.effective_rows * shared / (of_a[i] * of_b[j]) * a.noise[i] * b.noise[j]
    sums = a.places[i] + b.places[j] - 2
    weights = 1 / np.where(is_low, np.maximum(sums, 1), a.places[i] * b.places[j])
    lines = len(given.lines)  # products times a column of Z, which may decide their sign
    factor = np.append(factor, np.full(lines, factor[0]))
    weights = np.append(weights, np.full(lines, 0.5))
    linear = np.append(is_low & (sums == 0), np.zeros(lines, bool))
    is_low = np.append(is_low, np.zeros(lines, bool))
    law = (_products_of_levels if is_of_levels else _products_of_numbers)(a, b, (i, j), given)
    z = law.total / np.sqrt(law.variance * factor)
    blocks = (linear, is_low, ~is_low | linear)
    pvalues = [
        _of_weighted_sum(
            z[block], law.correlation[np.ix_(block, block)], weights[block], law.kurtosis[block]
        )
        for block in blocks
        if block.any()
    ]
    top = int(np.argmax(np.abs(z[: len(i)])))
    variances = [value**2 @ given.shares for value in (a.values[i[top]], b.values[j[top]])]
    scale = given.rows * max(np.sqrt(variances[0] * variances[1]), 1e-300)
    correlation = float(min(abs(law.total[top]) / scale, 1.0))
    places = int(a.places[i[top]]), int(b.places[j[top]])
    log_p = np.log(np.maximum(pvalues, 1e-300))[:, None]
    pvalue = float(np.exp(cauchy_log_pvalue(log_p, np.array([len(log_p)]))[0]))
    null_mean = mean_of_largest(len(i)) / math.sqrt(given.effective_rows)
    pvalue = max(pvalue, SMALLEST_OF_TAIL)
    return IndependenceTest(correlation, pvalue, OF_RESIDUALS, places, null_mean=null_mean)


@dataclasses.dataclass(frozen=True)
class _Products:
    """Sums of products of residuals, and their law under independence given Z.

    After the pairs come the products of the first pair and each column of Z.

    Attributes:
      total, variance, kurtosis: the sums, their variances and excess kurtoses, ``(k,)``.
      correlation: of the sums, ``(k, k)``.
    """

    total: Floats
    variance: Floats
    kurtosis: Floats
    correlation: Floats


def _products_of_numbers(
    a: ConditionalResiduals,
    b: ConditionalResiduals,
    pairs: tuple[Integers, Integers],
    given: Conditioning,
) -> _Products:
    """Return products with the variances that they have in the sample."""
    total, gram = _sums_of_residual_products(a.values, b.values, pairs, given)
    variance = np.maximum(np.diag(gram), 1e-300)
    size = np.sqrt(variance)
    return _Products(total, variance, 0 * total, gram / np.outer(size, size))


def _products_of_levels(
    a: ConditionalResiduals,
    b: ConditionalResiduals,
    pairs: tuple[Integers, Integers],
    given: Conditioning,
) -> _Products:
    """Return products of functions of levels, with variances by the probabilities of the levels.

    In the sample, the product of two rare levels has hardly any variance where they do not meet.
    """
    assert a.levels is not None
    assert b.levels is not None
    (i, j), w = pairs, given.roots**2
    first = np.array([a.values[0] * b.values[0] * w])
    variances = np.array([a.levels.variance[0] * b.levels.variance[0] * w**2])
    total = ((a.values * w) @ b.values.T)[i, j]
    variance = ((a.levels.variance * w**2) @ b.levels.variance.T)[i, j]
    fourth = (a.levels.fourth * w**4) @ b.levels.fourth.T
    of_normal = (a.levels.variance**2 * w**4) @ (b.levels.variance**2).T
    kurtosis = (fourth - 3 * of_normal)[i, j] / np.maximum(variance, 1e-300) ** 2
    lines = given.lines
    total = np.append(total, (first * lines).sum(axis=1))
    variance = np.append(variance, (variances * lines**2).sum(axis=1))
    kurtosis = np.append(kurtosis, np.zeros(len(lines)))
    correlation = np.eye(len(total))
    of_a, of_b = a.levels.correlation[np.ix_(i, i)], b.levels.correlation[np.ix_(j, j)]
    correlation[: len(i), : len(i)] = of_a * of_b
    return _Products(total, np.maximum(variance, 1e-300), np.maximum(kurtosis, 0), correlation)


def _sums_of_residual_products(
    a: Floats, b: Floats, pairs: tuple[Integers, Integers], given: Conditioning
) -> tuple[Floats, Floats]:
    """Return sums of (weighted) products of pairs of residuals, and of the products of these.

    After the pairs ``(k,)`` come the products of the first one and each column of Z.
    """
    count = len(pairs[0]) + len(given.lines)
    total, gram = np.zeros(count), np.zeros((count, count))
    for start in range(0, given.rows, CACHED_ROWS):
        part = slice(start, start + CACHED_ROWS)
        products = a[:, part][pairs[0]] * b[:, part][pairs[1]]
        if given.weights is not None:
            products *= given.rows * given.shares[part]
        by_given = products[:1] * given.lines[:, part].astype(products.dtype)
        products = np.concatenate([products, by_given])
        total += products.sum(axis=1)
        gram += products @ products.T
    return total, gram


def _of_weighted_sum(z: Floats, correlation: Floats, weights: Floats, kurtosis: Floats) -> float:
    """Return P(sum w z^2 >= what it is), by a chi-squared law of three moments.

    Of normal z; an excess kurtosis adds what it adds to the moments of the square of a Poisson
    variable: that of a rare pair of levels.
    """
    b = np.sqrt(weights)[:, None] * correlation * np.sqrt(weights)
    square = b @ b
    first, second, third = np.trace(b), np.trace(square), np.sum(square * b)
    second += np.sum(weights**2 * kurtosis) / 2
    third += np.sum(weights**3 * (22 * kurtosis + kurtosis**2)) / 8
    degrees = second**3 / third**2
    value = (weights @ z**2 - first) * np.sqrt(degrees / second) + degrees
    return float(special.chdtrc(degrees, max(value, 0.0)))
