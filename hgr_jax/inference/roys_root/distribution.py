"""Roy's largest root: how large KB is between independent variables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hgr_jax._arrays import Floats
from hgr_jax.inference.roys_root.pfaffian import Roots, log_tails, roots
from hgr_jax.inference.roys_root.root_finding import ROOT_TOLERANCE, bracketed_root

_SMALLEST_CORRELATION = 1e-150  # its square is still a double; below it every probability is 0 or 1
_BLOCK = 1 << 21
_LARGEST = np.nextafter(1.0, 0.0)
_INFINITE = 1e12
_MEAN_LOGITS = (21.0, -38.0)
_MEAN_NODES = (12, 64)
_MEAN_TOLERANCE = 1e-8  # of the ends of the ranges that the nodes are spread over


def log_survival(
    correlation: npt.ArrayLike, n: npt.ArrayLike, p: npt.ArrayLike, q: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """Return the log of the p-value of a top canonical correlation: log P(KB >= correlation).

        P(KB >= c) = P(theta_1 >= c^2),   theta_1 the largest eigenvalue of (W_1 + W_2)^-1 W_1

    for two independent sets of p and q variables on n rows, one of them Gaussian, with
    W_1 ~ Wishart_p(q) and W_2 ~ Wishart_p(n - 1 - q), p <= q.  The distribution is exact and
    computed as a Pfaffian without cancellation, from the bulk to far below the smallest double.
    (Polynomials of a variable are not Gaussian: for KB it is the limit for many rows, which is
    reached late where high degrees meet heavy tails.)

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

    Degenerate cases: NaN for a correlation that is NaN.  If p or q is 0 there is nothing to
    correlate, and if n <= p + q the correlation is 1 whatever the data: the p-value is 1.

    Accuracy: relative 1e-13 of the p-value for p, q <= 50 and n <= 10^9, in the bulk and in the
    tail (the logarithm of a very small one is rounded to double precision, as any number).

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
    regular = _regular(n, p, q)
    result = np.where(np.isnan(values), np.nan, 0.0)
    result[regular & (values >= 1)] = -np.inf
    inside = regular & (values > _SMALLEST_CORRELATION) & (values < 1)
    for part, problem, column in _problems(n, p, q, inside):
        result[part] = _tails(values[part], problem, column)[0]
    return result.reshape(shape)[()]


def survival(
    correlation: npt.ArrayLike, n: npt.ArrayLike, p: npt.ArrayLike, q: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """Return the p-value of a top canonical correlation: P(KB >= correlation).

    Args:
      correlation, n, p, q: as in `log_survival`, and so are degenerate cases and source.

    Returns:
      p-values in [0, 1], float64, of the broadcast shape; below some 1e-308 they are 0.

    Raises:
      TypeError, ValueError: as `log_survival` does.

    Example:
      >>> from hgr_jax.inference.roys_root import survival
      >>> print(f"{survival(0.2, n=1000, p=5, q=5):.6f}")
      0.000047
    """
    return np.exp(log_survival(correlation, n, p, q))


def quantile(
    probability: npt.ArrayLike, n: npt.ArrayLike, p: npt.ArrayLike, q: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """Return the top canonical correlation c with P(KB <= c) = probability, under independence.

    Solved by inverse quadratic interpolation safeguarded by bisection, on the log-odds of the
    exact distribution, once for each distinct (probability, n, p, q).

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

    Source: as in `log_survival`; Chandrupatla, "A new hybrid quadratic/bisection algorithm for
    finding the zero of a nonlinear function without using derivatives" (1997).

    Example:
      >>> from hgr_jax.inference.roys_root import quantile
      >>> print(quantile([0.5, 0.95, 0.99], n=1000, p=5, q=5).round(4))
      [0.1144 0.1475 0.1626]
    """
    values, (n, p, q), shape = _broadcast_freedom("probability", probability, n, p, q)
    if np.any((values < 0) | (values > 1)):
        wrong = values[(values < 0) | (values > 1)][0]
        raise ValueError(f"probability must be in [0, 1]; got {wrong}.")
    regular = _regular(n, p, q)
    result = np.where(regular, np.floor(values), _degenerate(n, p, q))
    result[np.isnan(values)] = np.nan
    inside = regular & (values > 0) & (values < 1)
    for part, problem, column in _problems(n, p, q, inside):
        keys, inverse = np.unique(np.stack([column, values[part]]), axis=1, return_inverse=True)
        logits = np.log1p(-keys[1]) - np.log(keys[1])
        result[part] = _solve(logits, problem, keys[0].astype(np.intp))[inverse.reshape(-1)]
    return result.reshape(shape)[()]


def mean(n: npt.ArrayLike, p: npt.ArrayLike, q: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the expected top canonical correlation under independence: the upward bias of KB.

        E[KB] = int_0^1 P(KB >= c) dc,   at most some (sqrt(p) + sqrt(q)) / sqrt(n)

    by Gauss and Legendre's rule on the range where the exact distribution varies, once for each
    distinct (n, p, q).

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
    result = _degenerate(n, p, q)
    for part, problem, column in _problems(n, p, q, _regular(n, p, q)):
        result[part] = _means(problem)[column]
    return result.reshape(shape)[()]


def _means(problem: Roots) -> Floats:
    """Return the integral of the survival function, (D,), with no more than 1 in 10^16 left out."""
    column = np.arange(problem.a.size)
    logits = np.repeat(_MEAN_LOGITS, column.size)
    found = _solve(logits, problem, np.tile(column, len(_MEAN_LOGITS)), _MEAN_TOLERANCE)
    ends = [np.zeros(column.size), *found.reshape(-1, column.size)]
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
    logits: Floats,
    problem: Roots,
    column: npt.NDArray[np.intp],
    tolerance: float = ROOT_TOLERANCE,
) -> Floats:
    """Find where log P(KB > c) - log P(KB <= c) falls to ``logits`` (N,)."""

    def excess(c: Floats, chosen: npt.NDArray[np.intp]) -> Floats:
        upper, lower = _tails(c, problem, column[chosen])
        return np.clip(upper - lower, -_INFINITE, _INFINITE) - logits[chosen]

    everything = np.arange(logits.size)
    low, low_value = np.full(logits.size, _SMALLEST_CORRELATION), np.full(logits.size, _INFINITE)
    high, high_value = np.full(logits.size, _LARGEST), np.full(logits.size, -_INFINITE)
    edge = (np.sqrt(problem.p) + np.sqrt(problem.q)) / np.sqrt(problem.a[column] + 1)
    for factor in (0.5, 1.0, 1.5, 3.0):
        trial = np.sqrt(1 / (1 + (factor * edge) ** -2))
        value = excess(trial, everything)
        above = (value > 0) & (trial > low)
        low, low_value = np.where(above, trial, low), np.where(above, value, low_value)
        below = (value <= 0) & (trial < high)
        high, high_value = np.where(below, trial, high), np.where(below, value, high_value)
    return bracketed_root(excess, low, low_value, high, high_value, tolerance)


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


def _regular(n: Floats, p: Floats, q: Floats) -> npt.NDArray[np.bool_]:
    return (np.minimum(p, q) > 0) & (n > p + q)


def _degenerate(n: Floats, p: Floats, q: Floats) -> npt.NDArray[np.float64]:
    """Return the one correlation that there is where the distribution is a point."""
    return np.where(np.minimum(p, q) > 0, 1.0, 0.0)


def _problems(
    n: Floats, p: Floats, q: Floats, wanted: npt.NDArray[np.bool_]
) -> Iterator[tuple[npt.NDArray[np.intp], Roots, npt.NDArray[np.intp]]]:
    """Yield the ``wanted`` entries by p and q, with the column of their n; in blocks of n."""
    indices = np.flatnonzero(wanted)
    small, large = np.minimum(p, q)[indices], np.maximum(p, q)[indices]
    for smaller, larger in _distinct_pairs(small, large):
        part = indices[(small == smaller) & (large == larger)]
        rows, column = np.unique(n[part], return_inverse=True)
        block = max(1, int(_BLOCK / (smaller + larger) ** 2))
        for start in range(0, rows.size, block):
            problem = roots(rows[start : start + block], int(smaller), int(larger))
            inside = (column >= start) & (column < start + block)
            yield part[inside], problem, column[inside] - start


def _distinct_pairs(first: Floats, second: Floats) -> list[tuple[float, float]]:
    return [(one, two) for one in np.unique(first) for two in np.unique(second[first == one])]
