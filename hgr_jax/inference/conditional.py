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

from hgr_jax._arrays import Floats
from hgr_jax.core.host.conditioning import ConditionalResiduals, Conditioning


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
    products = a.values[i] * b.values[j] * (given.rows * given.shares)
    spare = given.rows - given.map.shape[1] - 1
    of_a, of_b = (spare + side.unfitted.sum(axis=1) for side in (a, b))
    shared = spare + np.sum(a.unfitted[i] * b.unfitted[j], axis=1)
    factor = given.rows * shared / (of_a[i] * of_b[j]) * a.noise[i] * b.noise[j]
    sums = a.places[i] + b.places[j] - 2
    weights = 1 / np.where(is_low, np.maximum(sums, 1), a.places[i] * b.places[j])
    by_given = products[:1] * given.lines  # dependence whose sign Z decides
    products = np.concatenate([products, by_given])
    factor = np.append(factor, np.full(len(by_given), factor[0]))
    weights = np.append(weights, np.full(len(by_given), 0.5))
    gram = products @ products.T
    size = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    z = products.sum(axis=1) / (size * np.sqrt(factor))
    gram = gram / np.outer(size, size)
    linear = np.append(is_low & (sums == 0), np.zeros(len(by_given), bool))
    is_low = np.append(is_low, np.zeros(len(by_given), bool))
    pvalues = [
        _of_weighted_sum(z[block], gram[np.ix_(block, block)], weights[block])
        for block in (linear, is_low, ~is_low | linear)
    ]
    top = int(np.argmax(np.abs(z[: len(i)])))
    norms = [np.sqrt((side.values**2) @ given.shares) for side in (a, b)]
    scale = max(norms[0][i[top]] * norms[1][j[top]], 1e-300)
    correlation = float(min(abs(products[top].mean()) / scale, 1.0))
    places = int(a.places[i[top]]), int(b.places[j[top]])
    return ResidualTest(np.array(pvalues), correlation, places)


def _of_weighted_sum(z: Floats, correlation: Floats, weights: Floats) -> float:
    """Return P(sum w z^2 >= what it is) of normal z, by a chi-squared law of three moments."""
    b = np.sqrt(weights)[:, None] * correlation * np.sqrt(weights)
    square = b @ b
    first, second, third = np.trace(b), np.trace(square), np.sum(square * b)
    degrees = second**3 / third**2
    value = (weights @ z**2 - first) * np.sqrt(degrees / second) + degrees
    return float(special.chdtrc(degrees, max(value, 0.0)))
