"""Roy's largest root: the law of HGR-KB between independent variables.

* `log_survival`, `quantile`, `mean`: the law itself, exact into the far tail;
* `log_survival_of_many`: `log_survival` at very many values, by interpolation;
* `is_valid`: for which pairs of columns the law holds;
* `log_errors`, `tail_corrections`: by how much it errs in its tail.

The law holds for many rows, whatever the features.  How many rows are enough depends on these:
under independence the entries of the matrix of cross moments have skewness of the order of

    sqrt(S_a S_b / n),      S = || mean of q x q x q ||^2   (third moments of orthonormal features)

and a row in which both columns are extreme moves the statistic, in units of 1 / sqrt(n), by

    sqrt(L_a L_b / n),      L = max |q|^2.

Where both are small the law holds far into the tail (`bench.calibration` has the rejection rates);
elsewhere take a permutation test.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike, NDArray

from hgr_jax._arrays import Floats
from hgr_jax.core.host.polynomials import polynomials_at
from hgr_jax.inference.roys_root.pfaffian import Roots, log_tails, roots

_SMALLEST_CORRELATION = 1e-150  # its square is still a double; below it every probability is 0 or 1
_BLOCK = 1 << 21
_LARGEST = np.nextafter(1.0, 0.0)
_INFINITE = 1e12
_ROOT_TOLERANCE = 4 * np.finfo(np.float64).eps
_MEAN_LOGITS = (21.0, -38.0)
_MEAN_NODES = (12, 64)
_MEAN_TOLERANCE = 1e-8  # of the ends of the ranges that the nodes are spread over


def log_survival(
    correlation: npt.ArrayLike, n: npt.ArrayLike, p: npt.ArrayLike, q: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """Return the log of the p-value of a top canonical correlation: log P(KB >= correlation).

        P(KB >= c) = P(theta_1 >= c^2),   theta_1 the largest eigenvalue of (W_1 + W_2)^-1 W_1

    for two independent sets of p and q variables on n rows, one of them Gaussian, with
    W_1 ~ Wishart_p(q) and W_2 ~ Wishart_p(n - 1 - q), p <= q.  The distribution is exact, from the
    bulk to far below the smallest double.  (Polynomials of a variable are not Gaussian: for KB it
    is the limit for many rows, which is reached late where high degrees meet heavy tails.)

    Args:
      correlation: values of KB; 0 or less has p-value 1, and 1 or more p-value 0.
      n: numbers of rows, real and finite.
      p, q: dimensions of the two sets, which for KB are the effective degrees: integers >= 0, in
        either order.  All four broadcast.

    Returns:
      Logarithms of p-values, float64, of the broadcast shape; -inf for a p-value of 0.

    Raises:
      TypeError, ValueError: if n is not finite, p or q is not a natural number, or the shapes do
      not broadcast.

    Degenerate cases: NaN for a correlation that is NaN; a p-value of 1 if p or q is 0, or n <= p +
    q, where the correlation is 1 whatever the data.

    Accuracy: relative 1e-13 of the p-value for p, q <= 50 and n <= 10^9 (the logarithm of a very
    small one is rounded to double precision).

    Cost: some 2 microseconds a value at p = q = 5, 30 at 20 and 350 at 50; a few microseconds
    more for each distinct n.

    Source: Roy, "On a heuristic method of test construction" (1953); Chiani, "Distribution of
    the largest root of a matrix for Roy's test in multivariate analysis of variance" (2016), for
    the Pfaffian; Adler, Forrester, Nagao & van Moerbeke, "Classical skew orthogonal polynomials
    and random matrices" (2000), for a basis in which it is well conditioned.

    Example:
      >>> from hgr_jax.inference.roys_root import log_survival
      >>> print(log_survival([0.1, 0.2, 0.5], 1000, 5, 5).round(3))
      [  -0.237   -9.972 -125.555]
      >>> print(f"{log_survival(0.9, 10**6, 5, 5):.0f}")
      -830312
    """
    values, (n, p, q), shape = _broadcast_freedom("correlation", correlation, n, p, q)
    regular = _has_law(n, p, q)
    result = np.where(np.isnan(values), np.nan, 0.0)
    result[regular & (values >= 1)] = -np.inf
    inside = regular & (values > _SMALLEST_CORRELATION) & (values < 1)
    for part, problem, column in _by_dimensions(n, p, q, inside):
        result[part] = _tails(values[part], problem, column)[0]
    return result.reshape(shape)[()]


def quantile(
    probability: npt.ArrayLike, n: npt.ArrayLike, p: npt.ArrayLike, q: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """Return the top canonical correlation c with P(KB <= c) = probability, under independence.

    Args:
      probability: values in [0, 1]; 0.95 gives the critical value of a test of level 0.05.
      n, p, q: as in `log_survival`.  All four broadcast.

    Returns:
      Correlations in [0, 1], float64, of the broadcast shape, to a relative 1e-12 where
      probability and 1 - probability exceed 1e-3; a probability below 1e-10 is only met to an
      absolute 1e-14.

    Raises:
      TypeError, ValueError: as `log_survival` does, and for a probability outside [0, 1].

    Degenerate cases: NaN for a probability that is NaN; 0 if p or q is 0; 1 if n <= p + q.

    Source: as in `log_survival`.

    Example:
      >>> from hgr_jax.inference.roys_root import quantile
      >>> print(quantile([0.5, 0.95, 0.99], n=1000, p=5, q=5).round(4))
      [0.1144 0.1475 0.1626]
    """
    values, (n, p, q), shape = _broadcast_freedom("probability", probability, n, p, q)
    if np.any((values < 0) | (values > 1)):
        wrong = values[(values < 0) | (values > 1)][0]
        raise ValueError(f"probability must be in [0, 1]; got {wrong}.")
    regular = _has_law(n, p, q)
    result = np.where(regular, np.floor(values), _point_mass(p, q))
    result[np.isnan(values)] = np.nan
    inside = regular & (values > 0) & (values < 1)
    for part, problem, column in _by_dimensions(n, p, q, inside):
        keys, inverse = np.unique(np.stack([column, values[part]]), axis=1, return_inverse=True)
        logits = np.log1p(-keys[1]) - np.log(keys[1])
        result[part] = _solve(logits, problem, keys[0].astype(np.intp))[inverse.reshape(-1)]
    return result.reshape(shape)[()]


def mean(n: npt.ArrayLike, p: npt.ArrayLike, q: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the expected top canonical correlation under independence: the upward bias of KB.

        E[KB] = int_0^1 P(KB >= c) dc,   at most some (sqrt(p) + sqrt(q)) / sqrt(n)

    Args:
      n, p, q: as in `log_survival`.  All three broadcast.

    Returns:
      Expectations in [0, 1], float64, of the broadcast shape, to a relative 1e-9.

    Raises:
      TypeError, ValueError: as `log_survival` does.

    Degenerate cases: 0 if p or q is 0; 1 if n <= p + q.

    Source: as in `log_survival`.

    Example:
      >>> from hgr_jax.inference.roys_root import mean
      >>> print(mean([12, 100, 1000], p=5, q=5).round(4))
      [0.9615 0.3633 0.1153]
    """
    _, (n, p, q), shape = _broadcast_freedom("correlation", 0.0, n, p, q)
    result = _point_mass(p, q)
    for part, problem, column in _by_dimensions(n, p, q, _has_law(n, p, q)):
        result[part] = _means(problem)[column]
    return result.reshape(shape)[()]


def _means(problem: Roots) -> Floats:
    """Return the integral of the survival function (D,), by Gauss-Legendre where it varies."""
    column = np.arange(problem.a.size)
    logits = np.repeat(_MEAN_LOGITS, column.size)
    solved = _solve(logits, problem, np.tile(column, len(_MEAN_LOGITS)), _MEAN_TOLERANCE)
    ends = [np.zeros(column.size), *solved.reshape(-1, column.size)]
    total = np.zeros(column.size)
    for start, end, count in zip(ends[:-1], ends[1:], _MEAN_NODES, strict=True):
        nodes, weights = np.polynomial.legendre.leggauss(count)
        # Towards c = 1 the integrand falls as a power of sqrt(1 - c): its root is the variable.
        points = end - (end - start) * (1 - nodes[:, None]) ** 2 / 4
        weights = weights * (1 - nodes)
        values = np.exp(_tails(points.ravel(), problem, np.tile(column, count))[0])
        total += (end - start) / 2 * (weights @ values.reshape(points.shape))
    return total


def _solve(
    logits: Floats, problem: Roots, column: npt.NDArray[np.intp], tolerance: float = _ROOT_TOLERANCE
) -> Floats:
    """Find where log P(KB > c) - log P(KB <= c) falls to ``logits`` (N,)."""
    from scipy.optimize import elementwise  # loads slowly

    def excess(c: Floats, place: Floats) -> Floats:
        chosen = place.astype(np.intp)
        upper, lower = _tails(c, problem, column[chosen])
        return np.clip(upper - lower, -_INFINITE, _INFINITE) - logits[chosen]

    everything = np.arange(logits.size, dtype=np.float64)
    low, high = np.full(logits.size, _SMALLEST_CORRELATION), np.full(logits.size, _LARGEST)
    edge = (np.sqrt(problem.p) + np.sqrt(problem.q)) / np.sqrt(problem.a[column] + 1)
    for factor in (0.5, 1.0, 1.5, 3.0):
        trial = np.sqrt(1 / (1 + (factor * edge) ** -2))
        value = excess(trial, everything)
        low = np.where((value > 0) & (trial > low), trial, low)
        high = np.where((value <= 0) & (trial < high), trial, high)
    tolerances = {"xatol": 0.0, "xrtol": tolerance, "fatol": 0.0}
    found = elementwise.find_root(excess, (low, high), args=(everything,), tolerances=tolerances)
    return np.where(np.isnan(found.x), high, found.x)  # nearer to 1 than any double


def _tails(c: Floats, problem: Roots, column: npt.NDArray[np.intp]) -> tuple[Floats, Floats]:
    return log_tails(c * c, (1 - c) * (1 + c), problem, column)


def _broadcast_freedom(
    name: str, values: Any, n: npt.ArrayLike, p: npt.ArrayLike, q: npt.ArrayLike
) -> tuple[Floats, tuple[Floats, Floats, Floats], tuple[int, ...]]:
    """Return flat float64 arrays of the same length, and the shape to which they broadcast."""
    given = {name: values, "n": n, "p": p, "q": q}
    arrays = []
    for key, value in given.items():
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"{key} must hold real numbers; got dtype {array.dtype}.")
        arrays.append(array.astype(np.float64))
        if key != name and not np.all(np.isfinite(arrays[-1])):
            raise ValueError(f"{key} must be finite; got {value}.")
        if key in ("p", "q") and np.any((arrays[-1] < 0) | (arrays[-1] % 1 != 0)):
            raise ValueError(f"{key} must hold integers >= 0; got {value}.")
    try:
        broadcast = np.broadcast_arrays(*arrays)
    except ValueError as error:
        shapes = ", ".join(f"{key} {array.shape}" for key, array in zip(given, arrays, strict=True))
        raise ValueError(f"the shapes must broadcast; got {shapes}.") from error
    first, n, p, q = (array.ravel() for array in broadcast)
    return first, (n, p, q), broadcast[0].shape


def _has_law(n: Floats, p: Floats, q: Floats) -> npt.NDArray[np.bool_]:
    """Return where the correlation is random: not for no functions, or too few rows."""
    return (np.minimum(p, q) > 0) & (n > p + q)


def _point_mass(p: Floats, q: Floats) -> npt.NDArray[np.float64]:
    """Return the only possible correlation where there is no law."""
    return np.where(np.minimum(p, q) > 0, 1.0, 0.0)


def _by_dimensions(
    n: Floats, p: Floats, q: Floats, chosen: npt.NDArray[np.bool_]
) -> Iterator[tuple[npt.NDArray[np.intp], Roots, npt.NDArray[np.intp]]]:
    """Yield the ``chosen`` entries by p and q with the column of their n, in blocks of n."""
    indices = np.flatnonzero(chosen)
    small, large = np.minimum(p, q)[indices], np.maximum(p, q)[indices]
    for smaller, larger in _distinct_pairs(small, large):
        part = indices[(small == smaller) & (large == larger)]
        rows, column = np.unique(n[part], return_inverse=True)
        block = max(1, int(_BLOCK / (smaller + larger) ** 2))
        for start in range(0, rows.size, block):
            problem = (
                _roots_of_one(float(rows[0]), int(smaller), int(larger))
                if rows.size == 1
                else roots(rows[start : start + block], int(smaller), int(larger))
            )
            inside = (column >= start) & (column < start + block)
            yield part[inside], problem, column[inside] - start


@functools.lru_cache(maxsize=256)
def _roots_of_one(n: float, p: int, q: int) -> Roots:
    """Return `roots` of one number of rows, which the tests of one table share."""
    return roots(np.array([n]), p, q)


def _distinct_pairs(first: Floats, second: Floats) -> list[tuple[float, float]]:
    return [(one, two) for one in np.unique(first) for two in np.unique(second[first == one])]


NODES = 320
"""Number of values at which the law of one number of rows is evaluated."""

MIN_VALUES_TO_INTERPOLATE = 2 * NODES
"""Smallest number of values at which one law is interpolated."""


def log_survival_of_many(
    correlation: Floats, n: npt.ArrayLike, p: npt.ArrayLike, q: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """Return `log_survival` at many values, to 1e-6 where p <= 8 and 2e-5 at p = q = 16.

    With t = sqrt(-n log(1 - c^2)), log P falls about as -t^2 / 2, so that in log(1 + t) it is
    smooth everywhere: polynomials of degree 5 through six equidistant nodes follow it.
    """
    shape = np.shape(correlation)
    c, n, p, q = (array.ravel() for array in np.broadcast_arrays(correlation, n, p, q))
    result = np.empty(c.shape)
    small, large = np.minimum(p, q), np.maximum(p, q)
    # A single number for each law sorts faster than (n, p, q).
    which, base = np.unique(n, return_inverse=True)[1], large.max(initial=0) + 1
    _, first, place, counts = np.unique(
        (which * base + small) * base + large,
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    few = (counts < MIN_VALUES_TO_INTERPOLATE)[place]
    if few.any():
        result[few] = log_survival(c[few], n[few], p[few], q[few])
    for law in np.flatnonzero(counts >= MIN_VALUES_TO_INTERPOLATE):
        chosen, one = np.flatnonzero(place == law), first[law]
        result[chosen] = _interpolate_law(c[chosen], n[one], small[one], large[one])
    return result.reshape(shape)


def _interpolate_law(c: Floats, n: float, p: float, q: float) -> Floats:
    """Return `log_survival` of one law at many values, by polynomials of degree 5."""
    log_p = np.where(c >= 1, -np.inf, 0 * c)
    inside = (c > 0) & (c < 1)
    at = np.log1p(np.sqrt(-n * np.log1p(-(c[inside] ** 2))))
    if min(p, q) == 0 or n <= p + q or not len(at) or np.ptp(at) < 1e-9:
        return log_survival(c, n, p, q)
    nodes = np.linspace(at.min(), at.max(), NODES)
    correlations = np.sqrt(-np.expm1(-(np.expm1(nodes) ** 2) / n))
    values = log_survival(np.minimum(correlations, _LARGEST), n, p, q)
    place = (at - nodes[0]) / (nodes[1] - nodes[0])
    first = np.clip(place.astype(np.intp) - 2, 0, NODES - 6)  # of the six nodes around a value
    interpolated = np.zeros(len(at))
    for j in range(6):
        others = [i for i in range(6) if i != j]
        weight = np.prod([(place - first - i) / (j - i) for i in others], axis=0)
        interpolated += weight * values[first + j]
    log_p[inside] = np.minimum(interpolated, 0)
    return log_p


MAX_SKEWNESS = 1.0
"""Largest skewness of the entries of M at which the law holds."""

MAX_REACH = 1.5
"""Largest influence of one row at which the law holds."""

MIN_CELL_VARIANCE = 200.0
"""Smallest variance of a count in a 2 x 2 table at which the law holds: below, its steps show."""


@dataclasses.dataclass(frozen=True)
class ColumnMoments:
    """Moments of the orthonormal features of a column, which decide whether the law holds.

    ``skewness`` and ``reach`` are S and L of the module; ``two_valued`` is the variance of the
    indicator of a column of two values, else infinity.
    """

    skewness: float
    reach: float
    two_valued: float


def moments_of_ranks(counts: ArrayLike, degree: int) -> ColumnMoments:
    """Return the moments of polynomials of ranks, from the number of rows of each value."""
    counts = np.asarray(counts, np.float64)
    if (counts == 1).all():
        return _without_ties(len(counts), degree)
    return _moments_of_polynomials(counts, degree)


@functools.lru_cache(maxsize=4096)
def _without_ties(rows: int, degree: int) -> ColumnMoments:
    return _moments_of_polynomials(np.ones(rows), degree)


def _moments_of_polynomials(counts: Floats, degree: int) -> ColumnMoments:
    share = counts / counts.sum()
    ranks = 2 * np.cumsum(share) - share - 1
    return _column_moments(polynomials_at(ranks, share, degree).T, share)


def moments_of_levels(counts: ArrayLike) -> ColumnMoments:
    """Return the moments of the indicators of a category, from the number of rows of each level."""
    counts = np.asarray(counts, np.float64)
    share = counts[counts > 0] / counts.sum()
    return _column_moments((np.eye(len(share)) - share[None, :]) / np.sqrt(share)[None, :], share)


def _column_moments(features: Floats, share: Floats) -> ColumnMoments:
    products = (features[:, :, None] * features[:, None, :]).reshape(len(features), -1)
    third = (features * share[:, None]).T @ products
    variance = share[0] * share[-1] if len(share) == 2 else np.inf
    return ColumnMoments(
        skewness=float(np.sum(third**2)),
        reach=float(np.max(np.sum(features**2, axis=1))),
        two_valued=float(variance),
    )


def is_valid(
    first: list[ColumnMoments], second: list[ColumnMoments], rows: Any
) -> NDArray[np.bool_]:
    """Return whether the law holds for each of N pairs of columns.

    ``rows (N,)`` is the number of rows where both are present; with weights, ``sum w^2 / max w^2``,
    which makes neither moment too small.
    """
    rows = np.maximum(np.asarray(rows, np.float64), 1)
    skewness = np.sqrt(_moment_products(first, second, "skewness") / rows)
    reach = np.sqrt(_moment_products(first, second, "reach") / rows)
    variance = rows * _moment_products(first, second, "two_valued")
    return (skewness <= MAX_SKEWNESS) & (reach <= MAX_REACH) & (variance >= MIN_CELL_VARIANCE)


def log_errors(
    first: list[ColumnMoments], second: list[ColumnMoments], rows: Floats, statistic: Floats
) -> Floats:
    """Return about how much the logarithm of a p-value by the law errs, at the most.

    The terms of third and fourth order in t = sqrt(n) statistic, which grow into the tail:
    t^3 sqrt(S_a S_b / n) / 6 + t^4 / (8 n).
    """
    t = np.sqrt(rows) * statistic
    return t**3 * np.sqrt(_moment_products(first, second, "skewness") / rows) / 6 + t**4 / (
        8 * rows
    )


def tail_corrections(
    first: list[ColumnMoments], second: list[ColumnMoments], rows: Floats, log_p: Floats
) -> Floats:
    """Return what to add to the logarithm of a p-value of functions of ranks beside a category.

        0.023 sqrt(L_a L_b / n) (log p + 3)^2,   of log p between -20 and -3, beyond a line

    a fit to p-values of 30 to 300 rows: corrected ones of 1e-5 are within a factor of 3 of those
    by permutation in 9 of 10 cases, and less often below them than above.
    """
    depth = np.clip(-3 - log_p, 0, 17)
    beyond = np.maximum(-20 - log_p, 0)
    reach = np.sqrt(_moment_products(first, second, "reach") / rows)
    return np.minimum(0.023 * reach * (depth**2 + 2 * depth * beyond), np.maximum(-log_p, 0))


def _moment_products(first: list[ColumnMoments], second: list[ColumnMoments], name: str) -> Floats:
    one, other = (np.array([getattr(m, name) for m in side], float) for side in (first, second))
    return one * other
