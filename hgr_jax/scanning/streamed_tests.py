"""P-values of a table that was read batch by batch.

By ranks among each column's own rows, as those of a table in memory whose columns are missing in
many different rows (`rank_tests.among_own`); with a category by Roy's law, where it holds; and of
the other pairs by permutations of a sample of the rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jax import Array
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.ranks import RankedColumn, codes_of, ranks
from hgr_jax.inference import roys_root
from hgr_jax.inference.roys_root.asymptotics import (
    ColumnMoments,
    moments_of_levels,
    moments_of_ranks,
)
from hgr_jax.scanning.features import Estimates, Features
from hgr_jax.scanning.plan import Plan
from hgr_jax.scanning.pvalues import SAMPLED, SOURCES, Significance, law_is_valid, permuted
from hgr_jax.scanning.rank_tests import MIN_PIVOT, among_own
from hgr_jax.scanning.stream_sums import CATEGORIES, StreamSums, estimated
from hgr_jax.scanning.survey import OF_WEIGHTS

PERMUTED_ROWS = 2**14
"""Of the sample, for permutations."""


class Tested(NamedTuple):
    """Of N pairs: their tests, and the estimates of their ranks."""

    tests: Significance
    of_ranks: Estimates


def effective_rows_of(plan: Plan, sums: StreamSums, pairs: Integers) -> Floats:
    """Return how many rows of equal weight those of a pair are worth: ``(sum w)^2 / sum w^2``."""
    first, second = plan.patterns[pairs].T
    if plan.weights is None:
        return sums.rows[first, second]
    squares = sums.squares[first, second]
    return sums.weights[first, second] ** 2 / np.maximum(squares, 1e-300)


def tests_of_pairs(
    plan: Plan,
    sums: StreamSums,
    pairs: Integers,
    found: Estimates,
    rows: Floats,
    *,
    permutations: int,
    key: Array,
    memory: int,
) -> Tested:
    """Test ``pairs (N, 2)`` of estimates ``found`` and of so many effective rows.

    See `hgr_jax.scan` for ``permutations``, ``key`` and ``memory``.
    """
    tests = Significance.none(len(pairs))
    usable = found.varies
    if usable.any():
        tests.null_mean[usable] = roys_root.mean(rows[usable], *found.degrees[usable].T)
        tests.null_95[usable] = roys_root.quantile(0.95, rows[usable], *found.degrees[usable].T)
    of_ranks, _ = estimated(plan, sums, pairs, ranked=True)
    sample = sample_features(plan)
    # Sums of ranks may say too little of a pair whose values were fitted on its own rows.
    ranked = usable & of_ranks.varies
    numbers = ranked & (pairs < len(plan.numbers)).all(axis=1)
    if numbers.any():
        log_p, sure = _rank_pvalues(plan, sums, pairs[numbers], rows[numbers], sample)
        places = np.flatnonzero(numbers)[sure]
        tests.put_law(places, log_p[sure], SOURCES.index("rank"))
    mixed = ranked & ~numbers
    if mixed.any():
        mixed[mixed] = _law_holds(plan, sums, pairs[mixed], rows[mixed], sample)
        mixed &= of_ranks.pivot >= MIN_PIVOT
        tested = of_ranks.select(mixed)
        log_p = roys_root.log_survival(tested.correlation, rows[mixed], *tested.degrees.T)
        categories = (pairs[mixed] >= len(plan.numbers)).all(axis=1)
        source = np.where(categories, SOURCES.index("asymptotic"), SOURCES.index("rank"))
        tests.put_law(mixed, log_p, source)
    left = np.flatnonzero(usable & (tests.source == 0))
    if len(left):
        some = _some_rows(sample)
        permuted(
            tests,
            some,
            plan.kernels,
            None,
            pairs,
            left,
            permutations=permutations,
            key=key,
            memory=memory,
            of_ranks=True,
        )
        tests.source[left] = SOURCES.index(SAMPLED)
    return Tested(tests, of_ranks)


def sample_features(plan: Plan) -> Features:
    """Return the rows of the sample: the numbers, and the levels of the categories."""
    rows = len(plan.sample[OF_WEIGHTS])
    x = np.empty((rows, len(plan.numbers)), np.float64)
    for place, name in enumerate(plan.numbers):
        x[:, place] = plan.sample[name]
    codes = np.empty((rows, len(plan.levels)), np.intp)
    for place, name in enumerate(plan.levels):
        codes[:, place] = np.nan_to_num(plan.sample[name], nan=-1)
    weights = None if plan.weights is None else plan.sample[OF_WEIGHTS]
    return Features(x, codes, tuple(len(levels) for levels in plan.levels.values()), weights)


def _some_rows(sample: Features) -> Features:
    """Return ranks of some rows of the sample, by which those of all are permuted."""
    stride = max(1, sample.rows // PERMUTED_ROWS)
    weights = None if sample.weights is None else sample.weights[::stride].astype(np.float32)
    x = ranks(sample.x[::stride]).astype(np.float32)
    return Features(x, sample.codes[::stride].astype(np.int32), sample.levels, weights)


def _rank_pvalues(
    plan: Plan, sums: StreamSums, pairs: Integers, rows: Floats, sample: Features
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return logarithms of p-values ``(N,)`` of two numbers, and which can be trusted."""
    pairs = np.sort(pairs, axis=1)
    in_ranks = ranks(sample.x)
    columns = {}
    for c in np.unique(pairs).tolist():
        there = ~np.isnan(in_ranks[:, c])
        weights = None if sample.weights is None else sample.weights[there]
        if weights is not None and not np.ptp(weights):
            weights = None
        if there.sum() >= 2:
            columns[c] = RankedColumn.of_codes(codes_of(in_ranks[there, c]), weights)
    _, log_p, sure = among_own(
        columns,
        pairs,
        rows,
        lambda blocks: estimated(plan, sums, pairs, ranked=True, blocks=blocks)[0],
    )
    return log_p, sure


def _law_holds(
    plan: Plan, sums: StreamSums, pairs: Integers, rows: Floats, sample: Features
) -> NDArray[np.bool_]:
    """Return whether Roy's law holds for pairs with a category."""
    numbers = len(plan.numbers)
    starts = np.concatenate([[0], np.cumsum(sample.levels)])
    counts = np.diagonal(sums.values[CATEGORIES].cross)

    def shape_of(column: int) -> ColumnMoments:
        if column < numbers:
            values = sample.x[:, column]
            _, ties = np.unique(values[~np.isnan(values)], return_counts=True)
            return moments_of_ranks(ties, plan.kernels.largest)
        own = slice(*starts[column - numbers : column - numbers + 2])
        return moments_of_levels(counts[own])

    if plan.weights is not None:
        first, second = plan.patterns[pairs].T
        rows = sums.squares[first, second] / plan.heaviest**2
    return law_is_valid(shape_of, pairs, rows)
