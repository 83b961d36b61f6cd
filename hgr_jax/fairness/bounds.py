"""Bound a dependence in the population from above, from independent rows.

Every measure here is a supremum that one pair of functions (or of levels) attains in the
population.  In the rows the same pair has a value that is at most the supremum over the rows, so

    population = value of that pair there <= its value in the rows + its error
                                          <= supremum over the rows + its error.

So only the error of a single pair counts, whatever number of functions there are, and the largest
of several columns, or of several groups of y, needs no larger level.  The error is a quantile of
Student's law times the standard error of the largest pair of the rows, with the correction for
skewness that Johnson and Hall give.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hgr_jax._arrays import Floats
from hgr_jax.core.host.polynomials import orthonormal_functions
from hgr_jax.core.host.ranks import RankKernel, ranks
from hgr_jax.core.indicators import Indicators
from hgr_jax.fairness.data import MAX_GROUP_VALUES, MIN_GROUP_ROWS
from hgr_jax.fairness.statistics import HGR, KB, SK, DemographicParity, Statistic

LEAST_CARRIERS = 10
"""Smallest effective number of rows that carry the variance of a variable, for a valid error."""

LEAST_LEVEL_CARRIERS = 5
"""Smallest effective number of rows that carry the variance of the predictions of a level."""

LEAST_DEGREES = 3.0
"""Smallest number of degrees of freedom of Student's law, whose quantile has no use below."""

MOST_KURTOSIS = 12
"""Largest kurtosis of an attribute of which polynomials are bounded; that of a normal one is 3."""

RANK_FUNCTIONS = 5
"""Number of functions of ranks of `HGR`."""


@dataclasses.dataclass(frozen=True)
class Observations:
    """Rows of one column of predictions ``(n,)`` and of an attribute.

    Attributes:
      z: numbers ``(n,)``, or one-hot ``(n, c)``.
      prediction: numbers ``(n,)``.
      levels: names of the levels of a category, ``c`` of them.
      clusters: codes ``(n,)`` of rows that belong together, or None.
    """

    z: Floats
    prediction: Floats
    levels: Sequence[str] = ()
    clusters: NDArray[np.integer[Any]] | None = None

    def take(self, rows: NDArray[np.integer[Any]]) -> Observations:
        """Return the rows at these positions."""
        clusters = None
        if self.clusters is not None:
            clusters = np.unique(self.clusters[rows], return_inverse=True)[1]
        return Observations(self.z[rows], self.prediction[rows], self.levels, clusters)

    def sums(self, values: Floats) -> Floats:
        """Return the sum of values ``(n,)`` in each cluster, or the values."""
        if self.clusters is None:
            return values
        return np.bincount(self.clusters, values).astype(np.float64)


@dataclasses.dataclass(frozen=True)
class Bound:
    """An upper limit of a dependence in the population.

    Attributes:
      limit: the upper limit; with a ``reason`` the largest value that there can be, infinity for a
        difference of unbounded numbers.
      value: the dependence in the rows.
      error: standard error of the value.
      functions: numbers of functions of the attribute and of the prediction.
      measure: name of what is bounded.
      reason: why the rows give no limit, or empty.
    """

    limit: float
    value: float
    error: float
    functions: tuple[int, int]
    measure: str
    reason: str = ""


def bound_of(statistic: Statistic, sample: Observations, level: float) -> Bound:
    """Return the bound of `KB`, `SK`, `HGR` or `DemographicParity`.

    The quantile is that of Student's law, with the effective number of rows (or clusters) that
    carry the error, less one, as degrees of freedom.  Functions of values are bounded on the rows
    within the smallest and the largest value.

    Source: Hall, "On the removal of skewness by transformation" (1992); Johnson, "Modified t tests
    and confidence intervals for asymmetrical populations" (1978); Bell & McCaffrey, "Bias reduction
    in standard errors for linear regression with multi-stage samples" (2002), for the degrees of
    freedom.
    """
    parity = isinstance(statistic, DemographicParity)
    if reason := _unvaried(sample):
        bound = Bound(1.0, 0.0, 0.0, (1, 1), statistic.title)
    else:
        bound = (_difference_of_means if parity else _largest_correlation)(statistic, sample, level)
        of_ranks = isinstance(statistic, HGR)
        reason = _rare_levels(sample) or bound.reason or _few_carriers(sample, of_ranks=of_ranks)
        if not (reason or of_ranks or bound.functions[0] == 1):
            reason = _heavy_tails(sample)
    if not reason:
        return bound
    p = sample.prediction
    largest = np.inf if parity and not ((p >= 0) & (p <= 1)).all() else 1.0
    return dataclasses.replace(bound, limit=largest, reason=reason)


def _unvaried(sample: Observations) -> str:
    """Return that rows do not vary, or an empty text."""
    if len(sample.prediction) < 2:
        return f"there are only {len(sample.prediction)} rows"
    if not np.ptp(sample.prediction):
        return "all predictions are equal, which says nothing of rows where they would differ"
    if not (sample.z != sample.z[:1]).any():
        return "the attribute is the same in all rows"
    return ""


def _rare_levels(sample: Observations) -> str:
    """Return which levels of a category have too few rows (or clusters), or an empty text."""
    if sample.z.ndim == 1:
        return ""
    counts = [np.count_nonzero(sample.sums(column)) for column in sample.z.T]
    rare = [
        f"{name!r} ({count})"
        for name, count in zip(sample.levels, counts, strict=True)
        if count < MIN_GROUP_ROWS
    ]
    return (
        f"fewer than {MIN_GROUP_ROWS} independent rows of the level(s) {', '.join(rare)}"
        if rare
        else ""
    )


def _few_carriers(sample: Observations, *, of_ranks: bool) -> str:
    """Return that too few rows carry a variance for the law of many, or an empty text."""
    for name, values in (("predictions", sample.prediction), ("attribute", sample.z)):
        if values.ndim == 1:
            values = ranks(values[:, None])[:, 0] if of_ranks else values
            scaled = (values - values.mean()) / np.ptp(values)
            if _carriers(sample.sums(scaled**2), 1) < LEAST_CARRIERS:
                return (
                    f"fewer than {LEAST_CARRIERS} independent rows carry the variance of the {name}"
                )
    return ""


def _heavy_tails(sample: Observations) -> str:
    """Return that tails of the attribute carry its polynomials, or an empty text.

    Few rows then make a dependence that the others do not show.
    """
    z = sample.z - sample.z.mean()
    if z.ndim == 2 or len(np.unique(z)) <= MAX_GROUP_VALUES:
        return ""
    kurtosis = len(z) / _carriers(z / np.ptp(z))
    if kurtosis <= MOST_KURTOSIS:
        return ""
    return "the tails of the attribute are too heavy for polynomials: take HGR, of ranks"


def _carriers(sums: Floats, power: int = 2) -> float:
    """Return the effective number of terms of a sum of powers."""
    return float((np.abs(sums) ** power).sum() ** 2 / max((sums ** (2 * power)).sum(), 1e-300))


def _limit(value: float, influence: Floats, level: float) -> tuple[float, float]:
    """Return the upper limit of a mean, and its standard error.

    ``influence`` are the rows' (or clusters') shares of the error of ``value``, of sum 0.
    """
    square = float(influence @ influence)
    if not square > 0:
        return value, 0.0
    carriers = _carriers(influence)
    error = np.sqrt(square * len(influence) / max(len(influence) - 1, 1))
    skewness = float((influence**3).sum()) / square**1.5
    normal = float(special.ndtri(level))
    student = float(special.stdtrit(max(carriers - 1, LEAST_DEGREES), level))
    quantile = student + max(skewness, 0.0) * (2 * normal**2 + 1) / 6
    return value + quantile * error, float(error)


def _largest_correlation(statistic: Statistic, sample: Observations, level: float) -> Bound:
    """Return the bound of HGR-KB, HGR-SK or HGR, the largest of its pairs of kernels."""
    category: Any = Indicators(sample.z.shape[1]) if sample.z.ndim == 2 else None
    pairs: list[tuple[Any, Any]]
    if isinstance(statistic, HGR):
        of_ranks = RankKernel(RANK_FUNCTIONS)
        pairs, measure = [(category or of_ranks, of_ranks)], "HGR({}, {})"
    elif isinstance(statistic, SK):
        d, measure = statistic.d, statistic.title
        pairs = [(category, d)] if category else [(d, 1), (1, d)]
    else:
        assert isinstance(statistic, KB)
        pairs, measure = [(category or statistic.h, statistic.k)], "HGR-KB({}, {})"
    bounds = [_canonical_bound(kernels, sample, level) for kernels in pairs]
    largest = max(bounds, key=lambda bound: (bool(bound.reason), bound.limit))
    return dataclasses.replace(largest, measure=measure.format(*largest.functions))


def _canonical_bound(kernels: tuple[Any, Any], sample: Observations, level: float) -> Bound:
    """Return the bound of the largest correlation of functions of two kernels."""
    rows = len(sample.prediction)
    shares = np.full(rows, 1 / rows)
    z = sample.z if sample.z.ndim == 1 else sample.z.argmax(axis=1).astype(np.float64)
    variables = zip((z, sample.prediction), kernels, strict=True)
    found = [orthonormal_functions(values, shares, kernel) for values, kernel in variables]
    f, g = (functions[functions.any(axis=1)] for functions in found)
    bound = Bound(1.0, 0.0, 0.0, (max(len(f), 1), max(len(g), 1)), "")
    if not (len(f) and len(g)) or rows <= sum(bound.functions) + 1:
        return dataclasses.replace(bound, reason="too few rows for the degrees")
    u, values, v = np.linalg.svd(f @ g.T / rows)
    value = float(min(values[0], 1.0))
    best_f, best_g = u[:, 0] @ f, v[0] @ g
    influence = best_f * best_g - value / 2 * (best_f**2 + best_g**2)
    limit, error = _limit(value, sample.sums(influence) / rows, level)
    return dataclasses.replace(bound, limit=float(np.clip(limit, 0, 1)), value=value, error=error)


def _difference_of_means(statistic: Statistic, sample: Observations, level: float) -> Bound:
    """Return the bound of the largest difference of mean predictions between levels."""
    members, p = sample.z.T > 0, sample.prediction
    kept = np.flatnonzero(members.any(axis=1)).tolist()
    means = {i: float(p[members[i]].mean()) for i in kept}
    residuals = {i: np.where(members[i], (p - means[i]) / members[i].sum(), 0.0) for i in kept}
    value = max(means.values()) - min(means.values())
    bound = Bound(value, value, 0.0, (max(len(kept) - 1, 1), 1), statistic.title)
    for i in kept:
        if _carriers(sample.sums(residuals[i])) < LEAST_LEVEL_CARRIERS:
            reason = (
                f"fewer than {LEAST_LEVEL_CARRIERS} independent rows carry the variance of the"
                f" predictions of the level {sample.levels[i]!r}"
            )
            return dataclasses.replace(bound, reason=reason)
    limit, error = max(
        _limit(means[i] - means[j], sample.sums(residuals[i] - residuals[j]), level)
        for i, j in itertools.permutations(kept, 2)
    )
    return dataclasses.replace(bound, limit=float(max(limit, value)), error=error)
