"""Bound a dependence in the population from above, from independent rows: one bound per measure.

Every measure here is a supremum that one pair of functions (or of levels) attains in the
population.  In the rows the same pair has a value that is at most the supremum over the rows, so

    population = value of that pair there <= its value in the rows + its error
                                          <= supremum over the rows + its error.

So only the error of a single pair counts, whatever number of functions there are, and the largest
of several columns, or of several groups of y, needs no larger level.

- `asymptotic`: the error is a quantile of Student's law times the standard error of the largest
  pair of the rows, with the correction for skewness that Johnson and Hall give.
- `finite_sample`: a limit for any number of rows, of shares of groups (Clopper and Pearson) and of
  means of bounded functions (Bernstein; Waudby-Smith and Ramdas).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hgr_jax._arrays import Floats
from hgr_jax.core.fits import normal_quantile
from hgr_jax.core.host.polynomials import orthonormal_functions
from hgr_jax.core.host.ranks import RankKernel, ranks
from hgr_jax.core.kernels import Indicators
from hgr_jax.fairness.data import MIN_GROUP_ROWS
from hgr_jax.fairness.statistics import HGR, SK, DemographicParity, Statistic

Codes = NDArray[np.integer[Any]]

LEAST_CARRIERS = 10
"""Smallest effective number of rows that carry the variance of a variable, for a valid error."""

LEAST_LEVEL_CARRIERS = 5
"""Smallest effective number of rows that carry the variance of the predictions of a level."""

LEAST_DEGREES = 3.0
"""Smallest number of degrees of freedom of Student's law, whose quantile has no use below."""

RANK_FUNCTIONS = 5
"""Number of functions of ranks of `HGR`."""

REFERENCE_SHARE = 0.1
"""Share of the rows that only say where groups of ranks end."""

ROWS_PER_CELL = 100
"""Rows per cell of a table of groups of ranks."""

MOST_GROUPS = 6

MAIN, CELLS, MEANS = 0.7, 0.2, 0.1
"""Shares of the error of a table's limit: of the correlation, the shares of cells, and the means of
the functions."""

PARITY = "demographic parity"

HALVINGS = 40
"""Steps of the bisection for the limit of a mean."""


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
    clusters: Codes | None = None

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_]) -> Observations:
        """Return the rows of a mask or of positions."""
        clusters = None
        if self.clusters is not None:
            clusters = np.unique(self.clusters[rows], return_inverse=True)[1]
        return Observations(self.z[rows], self.prediction[rows], self.levels, clusters)

    @property
    def unit(self) -> str:
        """What is independent, in words."""
        return "rows" if self.clusters is None else "groups of rows"

    @property
    def codes(self) -> Codes:
        """The level of every row, of a category."""
        return self.z.argmax(axis=1)

    def one_row_per_cluster(self) -> Observations:
        """Return a random row of each cluster, always the same one."""
        if self.clusters is None:
            return self
        order = np.random.default_rng(0).permutation(len(self.clusters))
        first = np.unique(self.clusters[order], return_index=True)[1]
        return dataclasses.replace(self.take(np.sort(order[first])), clusters=None)

    def sums(self, values: Floats) -> Floats:
        """Return the sum of values ``(n,)`` in each cluster, or the values."""
        if self.clusters is None:
            return values
        return np.bincount(self.clusters, values).astype(np.float64)


@dataclasses.dataclass(frozen=True)
class Bound:
    """An upper limit of a dependence in the population.

    Attributes:
      limit: the upper limit; 1 with a ``reason``.
      value: the dependence in the rows.
      error: standard error of the value; 0 of a limit for any number of rows.
      functions: numbers of functions of the attribute and of the prediction.
      measure: name of what is bounded.
      reason: why the rows give no limit, or empty; the limit is then ``largest``.
      largest: the largest value that there can be: infinity for a difference of unbounded numbers.
      coarse: whether the measure is of groups of values, and less than what was asked.
    """

    limit: float
    value: float
    error: float
    functions: tuple[int, int]
    measure: str
    reason: str = ""
    largest: float = 1.0
    coarse: bool = False

    def refused(self, reason: str) -> Bound:
        """Return the bound without a limit, with the reason."""
        return dataclasses.replace(self, limit=self.largest, reason=reason)


def asymptotic(statistic: Statistic, sample: Observations, level: float) -> Bound:
    """Return the bound of a statistic by the law of many rows; it is `HGR-KB` of most statistics.

    The quantile is that of Student's law, with the effective number of rows (or clusters) that
    carry the error, less one, as degrees of freedom.  Functions of values are bounded on the rows
    within the smallest and the largest value.

    Source: Hall, "On the removal of skewness by transformation" (1992); Johnson, "Modified t tests
    and confidence intervals for asymmetrical populations" (1978); Bell & McCaffrey, "Bias reduction
    in standard errors for linear regression with multi-stage samples" (2002), for the degrees of
    freedom.
    """
    if reason := _unvaried(sample):
        return _without_rows(statistic, sample).refused(reason)
    if isinstance(statistic, DemographicParity):
        bound = _difference_of_means(sample, level)
    else:
        bound = _largest_correlation(statistic, sample, level)
    of_ranks = isinstance(statistic, HGR)
    reason = _rare_levels(sample) or bound.reason or _few_carriers(sample, of_ranks=of_ranks)
    return bound.refused(reason) if reason else bound


def finite_sample(statistic: Statistic, sample: Observations, level: float) -> Bound:
    """Return the bound of a statistic for any number of rows, whatever their law.

    Of clusters one random row is taken.

    Source: Clopper & Pearson, "The use of confidence or fiducial limits" (1934); Boucheron, Lugosi
    & Massart, "Concentration inequalities" (2013), 2.8, for Bernstein's inequality; Waudby-Smith &
    Ramdas, "Estimating means of bounded random variables by betting" (2024).
    """
    sample = sample.one_row_per_cluster()
    if reason := _unvaried(sample):
        return _without_rows(statistic, sample).refused(reason)
    if isinstance(statistic, DemographicParity):
        bound = _finite_difference(sample, level)
    else:
        bound = _finite_correlation(statistic, sample, level)
    reason = _rare_levels(sample)
    return bound.refused(reason) if reason else bound


def _without_rows(statistic: Statistic, sample: Observations) -> Bound:
    """Return the bound of rows that do not vary."""
    if isinstance(statistic, DemographicParity):
        return Bound(1.0, 0.0, 0.0, (1, 1), PARITY, largest=_largest_difference(sample))
    return Bound(1.0, 0.0, 0.0, (1, 1), _kernels(statistic, sample)[1].format(1, 1))


def _largest_difference(sample: Observations) -> float:
    p = sample.prediction
    return 1.0 if ((p >= 0) & (p <= 1)).all() else np.inf


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
    counts = np.array([np.count_nonzero(sample.sums(column)) for column in sample.z.T])
    rare = [
        f"{name!r} ({count})"
        for name, count in zip(sample.levels, counts.tolist(), strict=True)
        if count < MIN_GROUP_ROWS
    ]
    if not rare:
        return ""
    shown = ", ".join(rare[:5]) + (", ..." if len(rare) > 5 else "")
    return f"fewer than {MIN_GROUP_ROWS} {sample.unit} of the level(s) {shown}"


def _few_carriers(sample: Observations, *, of_ranks: bool) -> str:
    """Return that too few rows carry a variance for the law of many, or an empty text."""
    for name, values in (("predictions", sample.prediction), ("attribute", sample.z)):
        if values.ndim == 1:
            values = ranks(values[:, None])[:, 0] if of_ranks else values
            scaled = (values - values.mean()) / np.ptp(values)
            if _carriers(sample.sums(scaled**2), 1) < LEAST_CARRIERS:
                unit = sample.unit
                return f"fewer than {LEAST_CARRIERS} {unit} carry the variance of the {name}"
    return ""


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
    normal = normal_quantile(level)
    student = float(special.stdtrit(max(carriers - 1, LEAST_DEGREES), level))
    quantile = student + max(skewness, 0.0) * (2 * normal**2 + 1) / 6
    return value + quantile * error, float(error)


def _kernels(statistic: Statistic, sample: Observations) -> tuple[list[tuple[Any, Any]], str]:
    """Return the pairs of kernels of which the largest value is taken, and the measure's name."""
    category = Indicators(sample.z.shape[1]) if sample.z.ndim == 2 else None
    h, k = statistic.kernels
    if isinstance(statistic, HGR):
        of_ranks = RankKernel(RANK_FUNCTIONS)
        return [(category or of_ranks, of_ranks)], "HGR({}, {})"
    if isinstance(statistic, SK):
        both: list[tuple[Any, Any]] = [(category, k)] if category else [(k, 1), (1, k)]
        return both, f"HGR-SK({k})"
    return [(category or (5 if h is None else h), 5 if k is None else k)], "HGR-KB({}, {})"


def _largest_correlation(statistic: Statistic, sample: Observations, level: float) -> Bound:
    """Return the bound of HGR-KB, HGR-SK or HGR."""
    pairs, measure = _kernels(statistic, sample)
    bounds = []
    for kernels in pairs:
        f, g = _functions(sample, kernels)
        rows, functions = f.shape[1], (max(len(f), 1), max(len(g), 1))
        bound = Bound(1.0, 0.0, 0.0, functions, measure.format(*functions))
        if not (len(f) and len(g)) or rows <= sum(functions) + 1:
            bounds.append(bound.refused("too few rows for the degrees"))
            continue
        u, values, v = np.linalg.svd(f @ g.T / rows)
        value = float(min(values[0], 1.0))
        best_f, best_g = u[:, 0] @ f, v[0] @ g
        influence = best_f * best_g - value / 2 * (best_f**2 + best_g**2)
        limit, error = _limit(value, sample.sums(influence) / rows, level)
        limit = float(np.clip(limit, 0, 1))
        bounds.append(dataclasses.replace(bound, limit=limit, value=value, error=error))
    return max(bounds, key=lambda bound: (bool(bound.reason), bound.limit))


def _functions(sample: Observations, kernels: tuple[Any, Any]) -> tuple[Floats, Floats]:
    """Return orthonormal functions ``(h, n)`` and ``(k, n)`` of the attribute and prediction."""
    shares = np.full(len(sample.prediction), 1 / len(sample.prediction))
    z = sample.z if sample.z.ndim == 1 else sample.codes.astype(np.float64)
    f = orthonormal_functions(z, shares, kernels[0])
    g = orthonormal_functions(sample.prediction, shares, kernels[1])
    return f[f.any(axis=1)], g[g.any(axis=1)]


def _top(f: Floats, g: Floats) -> float:
    """Return the largest correlation of combinations of functions."""
    if not (len(f) and len(g)):
        return 0.0
    return float(min(np.linalg.svd(f @ g.T / f.shape[1], compute_uv=False)[0], 1.0))


def _difference_of_means(sample: Observations, level: float) -> Bound:
    """Return the bound of the largest difference of mean predictions between levels."""
    members, p = sample.z.T > 0, sample.prediction
    kept = np.flatnonzero(members.any(axis=1)).tolist()
    means = {i: float(p[members[i]].mean()) for i in kept}
    residuals = {i: np.where(members[i], (p - means[i]) / members[i].sum(), 0.0) for i in kept}
    value = max(means.values()) - min(means.values())
    largest = _largest_difference(sample)
    bound = Bound(largest, value, 0.0, (max(len(kept) - 1, 1), 1), PARITY, largest=largest)
    best = (-np.inf, 0.0)
    for i in kept:
        if _carriers(sample.sums(residuals[i])) < LEAST_LEVEL_CARRIERS:
            return bound.refused(
                f"fewer than {LEAST_LEVEL_CARRIERS} rows carry the variance of the predictions of"
                f" the level {sample.levels[i]!r} (the finite-sample bound needs no such rows)"
            )
    for i, j in itertools.permutations(kept, 2):
        influence = sample.sums(residuals[i] - residuals[j])
        best = max(best, _limit(means[i] - means[j], influence, level))
    return dataclasses.replace(bound, limit=float(max(best[0], value)), error=best[1])


def _finite_difference(sample: Observations, level: float) -> Bound:
    """Return the bound of the largest difference of mean predictions in [0, 1]."""
    p, largest = sample.prediction, _largest_difference(sample)
    parts = [p[column > 0] for column in sample.z.T if column.any()]
    means = [float(part.mean()) for part in parts]
    value, functions = max(means) - min(means), (max(len(parts) - 1, 1), 1)
    bound = Bound(largest, value, 0.0, functions, PARITY, largest=largest)
    if largest > 1:
        return bound.refused(
            "a bound for any number of rows needs predictions between 0 and 1, such as"
            f" probabilities; they reach from {p.min():.3g} to {p.max():.3g}"
        )
    share = (1 - level) / 2
    upper = [mean_limit(part, share) for part in parts]
    lower = [1 - mean_limit(1 - part, share) for part in parts]
    pairs = itertools.permutations(range(len(parts)), 2)
    limit = max((upper[i] - lower[j] for i, j in pairs), default=1.0)
    return dataclasses.replace(bound, limit=float(max(limit, bound.value)))


def share_limits(successes: ArrayLike, trials: float, error: float) -> tuple[Floats, Floats]:
    """Return the lower and the upper limit of shares, each wrong with probability ``error``."""
    x = np.asarray(successes, np.float64)
    with np.errstate(invalid="ignore"):
        low = np.where(x > 0, special.betaincinv(np.maximum(x, 1), trials - x + 1, error), 0)
        high = np.where(
            x < trials, special.betaincinv(x + 1, np.maximum(trials - x, 1), 1 - error), 1
        )
    return low, high


def mean_limit(values: Floats, error: float) -> float:
    """Return the upper limit of the mean of values in [0, 1], wrong with probability ``error``.

    The limit of Clopper and Pearson for zeros and ones; for others the smallest mean m at which a
    gambler wins 1 / error who bets that values are below m, in a random order of the rows.
    """
    if np.isin(values, (0, 1)).all():
        return float(share_limits(values.sum(), len(values), error)[1])
    x = np.random.default_rng(0).permutation(1 - values)
    before = np.arange(1, len(x) + 1)
    mean = (0.5 + np.cumsum(x)) / (before + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / (before + 1)
    variance = np.concatenate([[0.25], variance[:-1]])
    stakes = np.sqrt(2 * np.log(1 / error) / (len(x) * variance))

    def rejected(m: float) -> bool:
        """Whether the bets win against the mean m of x."""
        won = np.log1p(np.minimum(stakes, 0.5 / m) * (x - m))
        return bool(np.cumsum(won).max() >= np.log(1 / error))

    low, high = 0.0, float(x.mean())
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if middle > 0 and rejected(middle):
            low = middle
        else:
            high = middle
    return 1 - low


def _finite_correlation(statistic: Statistic, sample: Observations, level: float) -> Bound:
    """Return the bound of HGR of groups of ranks; of HGR-KB and HGR-SK only of few values."""
    pairs, measure = _kernels(statistic, sample)
    coarse = False
    if isinstance(statistic, HGR):
        groups, measure, coarse = _rank_groups(sample)
    else:
        z = sample.codes if sample.z.ndim == 2 else sample.z
        groups = [np.unique(values, return_inverse=True)[1] for values in (z, sample.prediction)]
        all_functions = len(pairs) == 1 and all(
            isinstance(kernel, Indicators) or group.max() <= kernel
            for kernel, group in zip(pairs[0], groups, strict=True)
        )
        if not all_functions:
            value, functions = _largest_value(statistic, sample)
            bound = Bound(1.0, value, 0.0, functions, measure.format(*functions))
            return bound.refused(
                "functions of values have no largest value that holds for every population: take"
                " HGR, of ranks, or the asymptotic bound"
            )
    table = np.zeros([int(group.max()) + 1 for group in groups])
    np.add.at(table, tuple(groups), 1)
    value, limit = table_limit(table, level)
    functions = max(table.shape[0] - 1, 1), max(table.shape[1] - 1, 1)
    bound = Bound(limit, value, 0.0, functions, measure.format(*functions), coarse=coarse)
    if limit >= 1:
        return bound.refused("too few rows in the smallest group for a bound below 1")
    return bound


def _rank_groups(sample: Observations) -> tuple[list[Codes], str, bool]:
    """Return the groups of both variables, HGR's name, and whether values share a group.

    Few values are groups of their own.  The groups of others end where those of the reference do,
    which are then left out.
    """
    reference, others = reference_rows(len(sample.prediction))
    most = int(np.clip(np.sqrt(len(sample.prediction) / ROWS_PER_CELL), 2, MOST_GROUPS))
    groups, kinds, coarse = [], [], False
    both: tuple[NDArray[Any], ...] = (sample.z, sample.prediction)
    if sample.z.ndim == 2:
        both = (sample.codes, sample.prediction)
    for values in both:
        distinct = len(np.unique(values))
        kind = "levels" if values.dtype.kind == "i" else "values"
        if kind == "values" and distinct > MOST_GROUPS:
            values, kind, coarse = in_groups(values, values[reference], most), "groups", True
        codes = np.unique(values, return_inverse=True)[1]
        groups.append(codes)
        kinds.append(f"{int(codes.max()) + 1} {kind}")
    used = others if coarse else np.arange(len(sample.prediction))
    return [group[used] for group in groups], f"HGR({', '.join(kinds)})", coarse


def reference_rows(rows: int) -> tuple[Codes, Codes]:
    """Return positions of the rows that say where groups of ranks end, and of the others."""
    order = np.random.default_rng(1).permutation(rows)
    reference, others = np.split(order, [round(REFERENCE_SHARE * rows)])
    return reference, others


def _largest_value(statistic: Statistic, sample: Observations) -> tuple[float, tuple[int, int]]:
    """Return the largest correlation in the rows, and its numbers of functions."""
    pairs = [_functions(sample, pair) for pair in _kernels(statistic, sample)[0]]
    return max((_top(f, g), (max(len(f), 1), max(len(g), 1))) for f, g in pairs)


def in_groups(values: Floats, seen: Floats, count: int) -> Codes:
    """Return the group of each value, of at most ``count`` between quantiles of ``seen``."""
    edges = np.unique(seen)
    if len(edges) > count:
        shares = np.arange(1, count) / count
        edges = np.unique(np.quantile(seen, shares, method="inverted_cdf"))
    return np.searchsorted(edges[edges > seen.min(initial=np.inf)], values, side="right")


def table_limit(table: Floats, level: float) -> tuple[float, float]:
    """Return HGR of a table of counts ``(H, K)``, and an upper limit of HGR in the population.

    With f*, g* the pair that attains HGR = rho in the population, of mean 0 and variance 1, the
    largest correlation c of the table is below that of f*, g* only if the mean of

        psi = f* g* - c (f*^2 + g*^2) / 2

    and a term of the means of f*, g* is negative, while its expectation is rho - c.  Bernstein's
    inequality bounds that: |f*|^2 <= B^2 = (1 - p) / p with p the smallest share of a group, and
    E f*^2 g*^2 is at most the largest p_ij / (p_i p_j), both from limits of Clopper and Pearson.
    """
    rows = table.sum()
    of_z, of_p = table.sum(axis=1), table.sum(axis=0)
    if min(of_z.min(), of_p.min()) < 1 or min(table.shape) < 2:
        return 0.0, 1.0
    expected = np.outer(of_z, of_p) / rows
    value = float(min(np.linalg.svd((table - expected) / np.sqrt(expected))[1][0] / rows**0.5, 1))
    error = 1 - level
    each = CELLS * error / (table.size + sum(table.shape))
    low_z, low_p = (share_limits(counts, rows, each)[0] for counts in (of_z, of_p))
    lift = float((share_limits(table, rows, each)[1] / np.outer(low_z, low_p)).max())
    reach_f, reach_g = (np.sqrt((1 - low.min()) / low.min()) for low in (low_z, low_p))
    mean_square = (reach_f**2 + reach_g**2) / 2
    second = min(mean_square, (np.sqrt(lift) + value * (reach_f + reach_g) / 2) ** 2)
    deviation = _bernstein(second, 1 + 2 * mean_square, np.log(1 / (MAIN * error)) / rows)
    tail = np.log(4 / (MEANS * error)) / rows
    of_means = _bernstein(1.0, reach_f, tail) * _bernstein(1.0, reach_g, tail)
    return value, float(min(value + deviation + of_means, 1.0))


def _bernstein(variance: float, reach: float, tail: float) -> float:
    """Return by how much a mean deviates, ``tail`` being the logarithm of 1 / error over rows."""
    slope = reach * tail / 3
    return float(slope + np.sqrt(slope**2 + 2 * variance * tail))
