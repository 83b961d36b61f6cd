"""P-values of many pairs, each by a method that is reliable for it.

``"auto"`` tests two numbers by the law of ranks (`rank_tests`), a pair with a category by Roy's law
or by its table of counts (`hgr_jax.inference.level_tests`), and all other pairs by orders of the
rows, as `independence_test` does; given other columns, all pairs by products of residuals.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._threads import in_threads
from hgr_jax.inference import roys_root
from hgr_jax.inference.independence import independence_test
from hgr_jax.inference.level_tests import LevelPairs, table_of, test_levels_by_orders
from hgr_jax.inference.orders import seed_of
from hgr_jax.inference.results import OF_RESIDUALS, IndependenceTest
from hgr_jax.scanning.features import Estimates, Features
from hgr_jax.scanning.given import conditional_tests
from hgr_jax.scanning.memory import MemoryTable
from hgr_jax.scanning.rank_tests import RankResults
from hgr_jax.scanning.request import Test

SOURCES = (
    *("", "rank", "asymptotic", "permutation", "exact", OF_RESIDUALS),
    *("shifts", "exchanges", "within", "tail"),
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
        _permute(tests, table, usable, test)
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
    if test.kind == "auto":
        by_law = (pairs >= table.features.n_numeric).any(axis=1) & usable & of_ranks.varies
        if by_law.any():
            log_p, laws = _level_tests(table, of_ranks, rows, by_law, test)
            has_law = ~np.isnan(log_p)
            by_law[by_law] = has_law
            source = np.array([SOURCES.index(name) for name in laws[has_law]], np.int8)
            tests.set_law(by_law, log_p[has_law], source)
    elif test.kind == "asymptotic" and usable.any():
        tested = values.select(usable)
        log_p = roys_root.log_survival(tested.statistic, rows[usable], *tested.degrees.T)
        tests.set_law(usable, log_p, SOURCES.index("asymptotic"))
        return tests
    without_law = usable & (tests.source == 0)
    if test.kind == "permutation" and not kernels.ranked:
        _permute(tests, table, without_law, test)
    else:
        places = np.flatnonzero(without_law)
        places = places[np.argsort(rows[places])]  # pairs of as many rows share their orders
        found = in_threads(lambda pair: _test_by_orders(table.features, pair, test), pairs[places])
        tests.pvalue[places] = [each.pvalue for each in found]
        tests.source[places] = [SOURCES.index(each.source) for each in found]
    return tests


def _level_tests(
    table: MemoryTable, of_ranks: Estimates, rows: Floats, chosen: NDArray[np.bool_], test: Test
) -> tuple[Floats, NDArray[np.str_]]:
    """Test the chosen pairs, each with a category."""
    features, pairs, found = table.in_ranks, table.pairs[chosen], of_ranks.select(chosen)
    patterns = features.patterns
    shared = np.stack([pairs, patterns.index[pairs[:, ::-1]]], axis=2)
    counts = {
        (c, other): _counts_of_values(features, c, patterns.present[:, other])
        for c, other in np.unique(shared.reshape(-1, 2), axis=0).tolist()
    }

    first, second = ([counts[c, other] for c, other in shared[:, side].tolist()] for side in (0, 1))
    level_pairs = LevelPairs(
        counts=(first, second),
        of_levels=pairs >= features.n_numeric,
        statistic=found.statistic,
        degrees=found.degrees,
        rows=rows[chosen],
        heaviest=table.heaviest_rows()[chosen],
        table_at=lambda place: _table_of(features, pairs[place]),
        has_tables=features.weights is None,
    )
    return level_pairs.log_pvalues(seed_of(test.key))


def _counts_of_values(features: Features, column: int, shared: NDArray[np.bool_]) -> Integers:
    """Count the shared rows of each value of a column."""
    values = features.values(column)[shared & features.present(column)]
    return np.unique(values, return_counts=True)[1]


def _table_of(features: Features, pair: Integers) -> Integers:
    """Count the rows of each two values of two columns, on the rows that they share."""
    shared = features.present(pair[0]) & features.present(pair[1])
    codes, sizes = [], []
    for column in pair.tolist():
        values = features.values(column)[shared]
        levels = features.level_count(column)
        if levels is None:
            values = np.unique(values, return_inverse=True)[1]
            levels = int(values.max()) + 1
        codes.append(values.astype(np.int64))
        sizes.append(levels)
    return table_of((codes[0], codes[1]), (sizes[0], sizes[1]))


def _test_by_orders(features: Features, pair: Integers, test: Test) -> IndependenceTest:
    """Test two columns by orders of the rows that they share."""
    keep = features.present(pair[0]) & features.present(pair[1])
    weights = features.weights
    if weights is not None:
        keep &= weights > 0
        weights = weights[keep]
    a, b = (np.asarray(features.values(column)[keep], np.float64) for column in pair)
    of_a, of_b = (features.level_count(column) is not None for column in pair.tolist())
    count, key = test.permutations, test.key
    if of_a or of_b:
        return test_levels_by_orders((a, b), (of_a, of_b), weights, count, key)
    method = "permutation" if test.kind == "permutation" else "auto"
    return independence_test(a, b, weights=weights, method=method, permutations=count, key=key)


def _permute(
    tests: Significance, table: MemoryTable, chosen: NDArray[np.bool_], test: Test
) -> None:
    """Test the chosen pairs of a table by permutations of values, in place."""
    from hgr_jax.scanning.functions import permute_pair  # needs JAX

    measure = table.request.measure
    for place in np.flatnonzero(chosen).tolist():
        result = permute_pair(table.features, measure, table.pairs[place].tolist(), test)
        tests.pvalue[place], tests.source[place] = result.pvalue, SOURCES.index("permutation")
        tests.null_mean[place], tests.null_95[place] = result.null_mean, result.null_95
