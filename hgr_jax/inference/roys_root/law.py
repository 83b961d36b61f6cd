"""Roy's largest root: the law of HGR-KB between independent variables.

* `log_survival`, `quantile`, `mean`: the law itself, exact into the far tail;
* `log_survival_of_many`: `log_survival` at very many values, by interpolation.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hgr_jax._arrays import Floats, Integers, chunks, groups
from hgr_jax.inference.roys_root.pfaffian import Roots, log_tails, roots

_SMALLEST_CORRELATION = 1e-150  # its square is still a double; below it every probability is 0 or 1
_LARGEST = np.nextafter(1.0, 0.0)
_INFINITE = 1e12
_BLOCK = 1 << 21
_BEYOND_EDGE = 9.0  # the probability that t exceeds its edge by so much is some exp(-81 / 2)
_MEAN_NODES = 128


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
        c = values[part]
        result[part] = log_tails(c * c, (1 - c) * (1 + c), problem, column)[0]
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
    nodes, weights = np.polynomial.legendre.leggauss(_MEAN_NODES)
    for part, problem, column in _by_dimensions(n, p, q, _has_law(n, p, q)):
        last = np.minimum(_last(problem), np.sqrt(35 * problem.n))  # there c is nearly 1
        t = last * (1 + nodes[:, None]) / 2
        log_p = _tails(t.ravel(), problem, np.tile(np.arange(len(last)), _MEAN_NODES))[0]
        slope = (
            t / problem.n * np.exp(-(t**2) / problem.n) / _correlation_at(t, problem.n)
        )  # dc / dt
        means = last / 2 * (weights @ (np.exp(log_p).reshape(t.shape) * slope))
        result[part] = means[column]
    return result.reshape(shape)[()]


def _solve(logits: Floats, problem: Roots, column: Integers) -> Floats:
    """Return the correlations c where log P(KB > c) - log P(KB <= c) falls to ``logits`` (N,)."""
    from scipy.optimize import elementwise  # loads slowly

    def excess(t: Floats, place: Floats, logit: Floats) -> Floats:
        upper, lower = _tails(t, problem, place.astype(np.intp))
        return np.clip(upper - lower, -_INFINITE, _INFINITE) - logit

    last = _last(problem)[column]
    start = np.full(len(last), _SMALLEST_CORRELATION)
    tolerances = {"xatol": 0.0, "xrtol": 4 * np.finfo(np.float64).eps, "fatol": 0.0}
    found = elementwise.find_root(
        excess, (start, last), args=(1.0 * column, logits), tolerances=tolerances
    )
    return _correlation_at(np.where(np.isnan(found.x), last, found.x), problem.n[column])


def _correlation_at(t: Floats, n: Floats | float) -> Floats:
    """Return c at t = sqrt(-n log(1 - c^2)), of which the law is nearly the same for all n."""
    return np.sqrt(-np.expm1(-(t**2) / n))


def _last(problem: Roots) -> Floats:
    """Return values of t (D,) that chance does not exceed, or where 1 - c^2 is still a double."""
    n, p, q = problem.n, problem.p, problem.q
    return np.minimum(
        (np.sqrt(p) + np.sqrt(q) + _BEYOND_EDGE) * np.sqrt(n / (n - p - q)), np.sqrt(700 * n)
    )


def _tails(t: Floats, problem: Roots, column: Integers) -> tuple[Floats, Floats]:
    """Return log P(KB > c) and log P(KB <= c) at t (N,); 1 - c^2 keeps all digits near c = 1."""
    logs = -(t**2) / problem.n[column]
    with np.errstate(divide="ignore"):
        return log_tails(-np.expm1(logs), np.exp(logs), problem, column)


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
) -> Iterator[tuple[Integers, Roots, Integers]]:
    """Yield the ``chosen`` entries by p and q with the column of their n, in blocks of n."""
    indices = np.flatnonzero(chosen)
    small, large = (side(p, q)[indices].astype(np.intp) for side in (np.minimum, np.maximum))
    for _, group in groups(small * (1 + large.max(initial=0)) + large):
        smaller, larger = int(small[group[0]]), int(large[group[0]])
        part = indices[group]
        rows, column = np.unique(n[part], return_inverse=True)
        for block in chunks(np.arange(rows.size), _BLOCK // (smaller + larger) ** 2):
            inside = (column >= block[0]) & (column <= block[-1])
            problem = (
                _roots_of_one(float(rows[0]), smaller, larger)
                if rows.size == 1
                else roots(rows[block], smaller, larger)
            )
            yield part[inside], problem, column[inside] - block[0]


@functools.lru_cache(maxsize=256)
def _roots_of_one(n: float, p: int, q: int) -> Roots:
    """Return `roots` of one number of rows, which the tests of one table share."""
    return roots(np.array([n]), p, q)


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
    which, base = np.unique(n, return_inverse=True)[1], 1 + int(large.max(initial=0))
    few = [np.zeros(0, np.intp)]
    for _, part in groups((which * base + small) * base + large):
        if len(part) < MIN_VALUES_TO_INTERPOLATE:
            few.append(part)
        else:
            one = part[0]
            result[part] = _interpolate_law(c[part], n[one], small[one], large[one])
    part = np.concatenate(few)
    result[part] = log_survival(c[part], n[part], p[part], q[part])
    return result.reshape(shape)


def _interpolate_law(c: Floats, n: float, p: float, q: float) -> Floats:
    """Return `log_survival` of one law at many values, by polynomials of degree 5."""
    log_p = np.where(c >= 1, -np.inf, 0 * c)
    inside = (c > 0) & (c < 1)
    at = np.log1p(np.sqrt(-n * np.log1p(-(c[inside] ** 2))))
    if min(p, q) == 0 or n <= p + q or not len(at) or np.ptp(at) < 1e-9:
        return log_survival(c, n, p, q)
    nodes = np.linspace(at.min(), at.max(), NODES)
    values = log_survival(np.minimum(_correlation_at(np.expm1(nodes), n), _LARGEST), n, p, q)
    place = (at - nodes[0]) / (nodes[1] - nodes[0])
    first = np.clip(place.astype(np.intp) - 2, 0, NODES - 6)  # of the six nodes around a value
    interpolated = np.zeros(len(at))
    for j in range(6):
        others = [i for i in range(6) if i != j]
        weight = np.prod([(place - first - i) / (j - i) for i in others], axis=0)
        interpolated += weight * values[first + j]
    log_p[inside] = np.minimum(interpolated, 0)
    return log_p
