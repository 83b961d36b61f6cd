"""Conditional independence of X and Y given Z, by products of their residuals.

The mean of the product of a residual of X and one of Y (`hgr_jax.core.host.conditioning`), over its
standard error, is nearly normal whatever the variance given Z.  Three weighted sums of squares of
these have each the law of a chi-squared variable with the same first three moments; `independence`
combines them.

To a test, what a regression does not find of Z is dependence (Shah & Peters 2020): none holds its
size whatever Z does to X and to Y.

Source: Shah & Peters, "The hardness of conditional independence testing" (2020), for products of
residuals.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy import special

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.conditioning import CACHED_ROWS, ConditionalResiduals, Conditioning


@dataclasses.dataclass(frozen=True)
class ResidualTest:
    """The test of two variables given Z.

    Attributes:
      pvalues: of the three sums of squares.
      correlation: the partial correlation of largest z-score, of functions at ``places``.
      places: of the functions of both variables.
    """

    pvalues: Floats
    correlation: float
    places: tuple[int, int]


def compare_residuals(
    a: ConditionalResiduals, b: ConditionalResiduals, given: Conditioning
) -> ResidualTest:
    """Test the products of residuals of two variables, each of which has some."""
    first_a, first_b = a.places == 1, b.places == 1
    low = (~a.is_second[:, None] & ~b.is_second) & (first_a[:, None] | first_b)
    second = (a.is_second | first_a)[:, None] & (b.is_second | first_b) & ~low
    i, j = np.nonzero(low | second)
    is_low = low[i, j]
    total, gram = _sums_of_residual_products(a.values, b.values, (i, j), given)
    spare = given.rows - given.map.shape[1] - 1
    of_a, of_b = (spare + side.unfitted.sum(axis=1) for side in (a, b))
    shared = spare + np.sum(a.unfitted[i] * b.unfitted[j], axis=1)
    factor = given.rows * shared / (of_a[i] * of_b[j]) * a.noise[i] * b.noise[j]
    sums = a.places[i] + b.places[j] - 2
    weights = 1 / np.where(is_low, np.maximum(sums, 1), a.places[i] * b.places[j])
    by_given = len(given.lines)  # products times a column of Z, which may decide their sign
    factor = np.append(factor, np.full(by_given, factor[0]))
    weights = np.append(weights, np.full(by_given, 0.5))
    size = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    z = total / (size * np.sqrt(factor))
    gram = gram / np.outer(size, size)
    linear = np.append(is_low & (sums == 0), np.zeros(by_given, bool))
    is_low = np.append(is_low, np.zeros(by_given, bool))
    pvalues = [
        _of_weighted_sum(z[block], gram[np.ix_(block, block)], weights[block])
        for block in (linear, is_low, ~is_low | linear)
    ]
    top = int(np.argmax(np.abs(z[: len(i)])))
    variances = [value**2 @ given.shares for value in (a.values[i[top]], b.values[j[top]])]
    scale = given.rows * max(np.sqrt(variances[0] * variances[1]), 1e-300)
    correlation = float(min(abs(total[top]) / scale, 1.0))
    places = int(a.places[i[top]]), int(b.places[j[top]])
    return ResidualTest(np.array(pvalues), correlation, places)


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


def _of_weighted_sum(z: Floats, correlation: Floats, weights: Floats) -> float:
    """Return P(sum w z^2 >= what it is) of normal z, by a chi-squared law of three moments."""
    b = np.sqrt(weights)[:, None] * correlation * np.sqrt(weights)
    square = b @ b
    first, second, third = np.trace(b), np.trace(square), np.sum(square * b)
    degrees = second**3 / third**2
    value = (weights @ z**2 - first) * np.sqrt(degrees / second) + degrees
    return float(special.chdtrc(degrees, max(value, 0.0)))
