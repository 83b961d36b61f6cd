"""Roy's largest root: the law of HGR-KB between independent variables, exact into the far tail.

The law holds for many rows; for which columns, `inference.roys_root.validity` says.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hgr_jax._arrays import Floats
from hgr_jax.inference.roys_root.pfaffian import Roots, log_tails, roots

_SMALLEST_CORRELATION = 1e-150  # its square is still a double; below it every probability is 0 or 1
_BLOCK = 1 << 21
_LARGEST = np.nextafter(1.0, 0.0)
_INFINITE = 1e12
_MEAN_NODES = 64
_MEAN_REACH = 7.0  # standard deviations of a single correlation on either side of the edge


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
    result = np.where(regular, np.floor(values), _point_mass(n, p, q))
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
    result = _point_mass(n, p, q)
    for part, problem, column in _by_dimensions(n, p, q, _has_law(n, p, q)):
        result[part] = _means(problem)[column]
    return result.reshape(shape)[()]


def _means(problem: Roots) -> Floats:
    """Return the integral of the survival function (D,), by Gauss-Legendre where it varies.

    Over the angle with the sine c, in which it is smooth at c = 1 too.
    """
    scale = 1 / np.sqrt(problem.a + 1 + problem.p + problem.q)
    edge = np.arcsin(np.sqrt(problem.p) * scale) + np.arcsin(np.sqrt(problem.q) * scale)
    start = np.maximum(edge - _MEAN_REACH * scale, 0)
    end = np.minimum(edge + _MEAN_REACH * scale, np.pi / 2)
    nodes, weights = np.polynomial.legendre.leggauss(_MEAN_NODES)
    angle = start + (end - start) * (1 + nodes[:, None]) / 2
    column = np.tile(np.arange(start.size), _MEAN_NODES)
    values = np.exp(_tails(np.sin(angle).ravel(), problem, column)[0]).reshape(angle.shape)
    return np.asarray(np.sin(start) + (end - start) / 2 * (weights @ (values * np.cos(angle))))


def _solve(logits: Floats, problem: Roots, column: npt.NDArray[np.intp]) -> Floats:
    """Find where log P(KB > c) - log P(KB <= c) falls to ``logits`` (N,)."""
    from scipy.optimize import elementwise  # loads slowly

    def excess(c: Floats, place: Floats) -> Floats:
        chosen = place.astype(np.intp)
        upper, lower = _tails(c, problem, column[chosen])
        return np.clip(upper - lower, -_INFINITE, _INFINITE) - logits[chosen]

    ends, places = (_SMALLEST_CORRELATION, _LARGEST), np.arange(logits.size, dtype=np.float64)
    found = elementwise.find_root(excess, ends, args=(places,), tolerances={"xatol": 0.0})
    return np.where(np.isnan(found.x), _LARGEST, found.x)  # nearer to 1 than any double


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


def _point_mass(n: Floats, p: Floats, q: Floats) -> npt.NDArray[np.float64]:
    """Return the only possible correlation where there is no law."""
    return np.where(np.minimum(p, q) > 0, 1.0, 0.0)


def _by_dimensions(
    n: Floats, p: Floats, q: Floats, chosen: npt.NDArray[np.bool_]
) -> Iterator[tuple[npt.NDArray[np.intp], Roots, npt.NDArray[np.intp]]]:
    """Yield the ``chosen`` entries by p and q with the column of their n, in blocks of n."""
    indices = np.flatnonzero(chosen)
    small, large = np.minimum(p, q)[indices], np.maximum(p, q)[indices]
    for smaller, larger in sorted({*zip(small.tolist(), large.tolist(), strict=True)}):
        part = indices[(small == smaller) & (large == larger)]
        rows, column = np.unique(n[part], return_inverse=True)
        block = max(1, int(_BLOCK / (smaller + larger) ** 2))
        for start in range(0, rows.size, block):
            inside = (column >= start) & (column < start + block)
            some = rows[start : start + block]
            sizes = int(smaller), int(larger)
            problem = roots(some, *sizes) if len(some) > 1 else _roots_of_one(some.item(), *sizes)
            yield part[inside], problem, column[inside] - start


@functools.lru_cache(maxsize=256)
def _roots_of_one(n: float, p: int, q: int) -> Roots:
    """Return `roots` of one number of rows, which the tests of one table share."""
    return roots(np.array([n]), p, q)


MIN_VALUES_TO_INTERPOLATE = 640
"""Smallest number of values at which one law is interpolated, between half as many nodes."""


def log_survival_of_many(
    correlation: Floats, n: npt.ArrayLike, p: npt.ArrayLike, q: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """Return `log_survival` at many values, to 1e-6 where p <= 8 and 2e-5 at p = q = 16."""
    c, n, p, q = np.broadcast_arrays(correlation, n, p, q)
    laws = np.stack([n, np.minimum(p, q), np.maximum(p, q)]).reshape(3, -1)
    base = laws[2].max(initial=0) + 1  # one number for each law sorts faster than three
    law = (np.unique(laws[0], return_inverse=True)[1] * base + laws[1]) * base + laws[2]
    order = np.argsort(law, kind="stable")
    starts = np.flatnonzero(np.diff(law[order], prepend=-1))
    flat, result, few = c.ravel(), np.empty(c.size), []
    for places in np.split(order, starts[1:]):
        if len(places) < MIN_VALUES_TO_INTERPOLATE:
            few.append(places)
        else:
            result[places] = _interpolate_law(flat[places], *laws[:, places[0]])
    if few:
        chosen = np.concatenate(few)
        result[chosen] = log_survival(flat[chosen], *laws[:, chosen])
    return result.reshape(c.shape)


def _interpolate_law(c: Floats, n: float, p: float, q: float) -> Floats:
    """Return `log_survival` of one law at many values, by splines.

    With t = sqrt(-n log(1 - c^2)), log P falls about as -t^2 / 2, so that in log(1 + t) it is
    smooth everywhere.
    """
    from scipy.interpolate import make_interp_spline  # loads slowly

    inside = (c > 0) & (c < 1)
    at = np.log1p(np.sqrt(-n * np.log1p(-(c[inside] ** 2))))
    if min(p, q) == 0 or n <= p + q or not len(at) or np.ptp(at) < 1e-9:
        return log_survival(c, n, p, q)
    nodes = np.linspace(at.min(), at.max(), MIN_VALUES_TO_INTERPOLATE // 2)
    correlations = np.sqrt(-np.expm1(-(np.expm1(nodes) ** 2) / n))
    values = log_survival(np.minimum(correlations, _LARGEST), n, p, q)
    log_p = np.where(c >= 1, -np.inf, 0 * c)
    log_p[inside] = np.minimum(make_interp_spline(nodes, values, k=5)(at), 0)
    return log_p
