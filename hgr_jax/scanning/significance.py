"""P-values of many pairs, each by a method that is reliable for it.

``"auto"`` tests two numbers by ranks (`rank_tests`), a pair with a category by Roy's law or by its
table of counts (`level_tests`), and all other pairs by permutations of ranks; given other columns,
all pairs by products of residuals.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.inference import roys_root
from hgr_jax.inference.independence import OF_RESIDUALS
from hgr_jax.inference.permutation import permutation_test
from hgr_jax.measures import kb
from hgr_jax.scanning.features import Estimates, Features
from hgr_jax.scanning.given import conditional_tests
from hgr_jax.scanning.level_tests import LevelTests
from hgr_jax.scanning.memory import MemorySums, MemoryTable
from hgr_jax.scanning.rank_tests import RankResults
from hgr_jax.scanning.request import Measure, Test
from hgr_jax.scanning.resampling import permutation_null

SOURCES = (
    *("", "rank", "asymptotic", "permutation", "exact", OF_RESIDUALS),
    *("shifts", "within", "tail"),
)


@dataclasses.dataclass(frozen=True)
class Significance:
    """Tests of N pairs.

    Attributes:
      pvalue: ``(N,)``.
      log_of_law: logarithms of p-values by a law, which may underflow as numbers; NaN for others.
      source: sources of the p-values, positions in `SOURCES`.
      null_mean, null_95: mean and 95% point of the measure for independent columns.
    """

    pvalue: Floats
    log_of_law: Floats
    source: NDArray[np.int8]
    null_mean: Floats
    null_95: Floats

    @staticmethod
    def none(count: int) -> Significance:
        """Return tests of ``count`` pairs without any p-value."""
        absent = np.full(count, np.nan)
        source = np.zeros(count, np.int8)
        return Significance(absent, absent.copy(), source, absent.copy(), absent.copy())

    @property
    def log_pvalue(self) -> Floats:
        """Logarithms of all p-values."""
        logs = np.log(np.maximum(self.pvalue, np.finfo(np.float64).tiny))
        return np.where(np.isnan(self.log_of_law), logs, self.log_of_law)

    def select(self, chosen: NDArray[Any]) -> Significance:
        """Select pairs."""
        return Significance(*(getattr(self, f.name)[chosen] for f in dataclasses.fields(self)))

    def put(self, places: Integers, others: Significance) -> None:
        """Replace the tests of the pairs at ``places``."""
        for field in dataclasses.fields(self):
            getattr(self, field.name)[places] = getattr(others, field.name)

    def set_law(self, places: NDArray[Any], log_p: Floats, source: Any) -> None:
        """Store log p-values of some pairs, and their source."""
        self.log_of_law[places], self.pvalue[places] = log_p, np.exp(log_p)
        self.source[places] = source


def test_pairs(
    table: MemoryTable,
    test: Test,
    values: Estimates,
    by_ranks: RankResults,
    rows: Floats,
) -> Significance:
    """Test pairs, given their values, their results by ranks, and their effective sample sizes."""
    pairs, measure, of_ranks = table.pairs, table.request.measure, by_ranks.estimates
    kernels, usable = measure.kernels, values.varies
    tests = Significance.none(len(pairs))
    if measure.function is not None:
        _permute(tests, table, measure, usable, test)
        return tests
    if usable.any() and not kernels.ranked:
        sizes = (rows[usable], *values.degrees[usable].T)
        tests.null_mean[usable] = roys_root.mean(*sizes)
        tests.null_95[usable] = roys_root.quantile(0.95, *sizes)
    has_law = usable & ~np.isnan(by_ranks.log_p)
    source = np.where(by_ranks.exact[has_law], SOURCES.index("exact"), SOURCES.index("rank"))
    tests.set_law(has_law, by_ranks.log_p[has_law], source)
    if table.given is not None:
        tests.pvalue[:] = conditional_tests(table.in_ranks, table.given.ranked(), pairs, usable)
        tests.source[usable] = SOURCES.index(OF_RESIDUALS)
        return tests
    categories = pairs >= table.features.n_numeric
    if test.kind == "auto":
        by_law = usable & categories.any(axis=1) & of_ranks.varies
        if by_law.any():
            levels = LevelTests(table, of_ranks, rows, by_law)
            levels.test_exactly()
            levels.test_tables(test.key)
            has_law = ~np.isnan(levels.log_p)
            by_law[by_law] = has_law
            source = np.array([SOURCES.index(name) for name in levels.source[has_law]], np.int8)
            tests.set_law(by_law, levels.log_p[has_law], source)
    elif test.kind == "asymptotic" and usable.any():
        tested = values.select(usable)
        log_p = roys_root.log_survival(tested.statistic, rows[usable], *tested.degrees.T)
        tests.set_law(usable, log_p, SOURCES.index("asymptotic"))
    without_law = usable & (tests.source == 0)
    if without_law.any() and test.kind != "asymptotic":
        of_values = test.kind == "permutation" and not kernels.ranked
        if not of_values:
            measure = dataclasses.replace(measure, kernels=kernels.of_ranks())
        _permute(tests, table, measure, without_law, test, of_values=of_values)
    return tests


def _permute(
    tests: Significance,
    table: MemoryTable,
    measure: Measure,
    chosen: NDArray[np.bool_],
    test: Test,
    *,
    of_values: bool = True,
) -> None:
    """Test the chosen pairs of a table by permutations of values or of ranks, in place."""
    places, pairs = np.flatnonzero(chosen), table.pairs
    features = table.features if of_values else table.in_ranks
    if measure.function is None and features.weights is None:
        seed = np.asarray(jax.random.key_data(test.random_key))
        sums = MemorySums(features, measure.kernels, table.memory)
        null = permutation_null(sums, pairs[places], test.permutations, seed)
        tests.pvalue[places] = null.pvalue
        means, points = null.mean, null.point
    else:
        means, points = _permute_each(tests, features, measure, pairs, places, test)
    if features is table.features:  # permutations of ranks do not have the law of the values
        tests.null_mean[places], tests.null_95[places] = means, points
    tests.source[places] = SOURCES.index("permutation")


def _permute_each(
    tests: Significance,
    features: Features,
    measure: Measure,
    pairs: Integers,
    places: Integers,
    test: Test,
) -> tuple[Floats, Floats]:
    """Test pairs one by one, by permutations; return means and 95% points under independence."""

    def absolute(a: Array, b: Array, **options: Any) -> Array:
        assert measure.function is not None
        return jnp.abs(measure.function(a, b, **options))

    key, kernels = test.random_key, measure.kernels
    weights = None if features.weights is None else np.asarray(features.weights)
    means, points = np.full((2, len(places)), np.nan)
    for order, index in enumerate(places):
        i, j = pairs[index]
        keep = features.present(i) & features.present(j)
        if weights is not None:
            keep &= weights > 0
        a, b = (features.values(column)[keep] for column in (i, j))
        options: dict[str, Any] = {} if weights is None else {"weights": weights[keep]}
        statistic: Callable[..., Array] = absolute
        if measure.function is None:
            statistic = kb
            options |= {"h": features.kernel(i, kernels.h), "k": features.kernel(j, kernels.k)}
        key, pair_key = jax.random.split(key)
        result = permutation_test(
            a, b, statistic, key=pair_key, permutations=test.permutations, **options
        )
        tests.pvalue[index] = result.pvalue
        means[order], points[order] = result.null_mean, result.null_95
    return means, points
