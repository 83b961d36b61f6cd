"""[pvalues] P-values of many pairs, each by a method that can be trusted for it."""

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
from hgr_jax.inference.permutation import permutation_test
from hgr_jax.inference.roys_root.asymptotics import (
    ColumnMoments,
    is_valid,
    moments_of_levels,
    moments_of_ranks,
)
from hgr_jax.measures import kb
from hgr_jax.scanning.features import Estimates, Features, Kernels
from hgr_jax.scanning.rank_tests import MIN_PIVOT, RankTests
from hgr_jax.scanning.resampling import permutation_null, sign_tests
from hgr_jax.scanning.residuals import GivenColumns

SAMPLED = "sampled permutation"
"""Of a table that was read batch by batch: permutations of a sample of its rows."""

SOURCES = ("", "rank", "asymptotic", "permutation", "exact", "signs", SAMPLED)


@dataclasses.dataclass(frozen=True)
class Significance:
    """Of N pairs: p-value, where it came from (into `SOURCES`), null mean and null 95% point.

    And the logarithms of the p-values that are from a law, of which some are 0 as numbers; NaN of
    the others.
    """

    pvalue: Floats
    log_of_law: Floats
    source: NDArray[np.int8]
    null_mean: Floats
    null_95: Floats

    @staticmethod
    def none(count: int) -> Significance:
        """Return tests that know nothing of any of ``count`` pairs."""
        absent = np.full(count, np.nan)
        source = np.zeros(count, np.int8)
        return Significance(absent, absent.copy(), source, absent.copy(), absent.copy())

    @property
    def log_pvalue(self) -> Floats:
        """Logarithms of all p-values."""
        logs = np.log(np.maximum(self.pvalue, np.finfo(np.float64).tiny))
        return np.where(np.isnan(self.log_of_law), logs, self.log_of_law)

    def put_law(self, places: NDArray[Any], log_p: Floats, source: Any) -> None:
        """Keep the logarithms of p-values of some pairs, and where these came from."""
        self.log_of_law[places], self.pvalue[places] = log_p, np.exp(log_p)
        self.source[places] = source


def significance(
    features: Features,
    in_ranks: Features,
    kernels: Kernels,
    measure: Callable[[Any, Any], Any] | None,
    pairs: Integers,
    found: Estimates,
    of_ranks: Estimates,
    rows: Floats,
    by_ranks: RankTests | None,
    *,
    source: str,
    permutations: int,
    key: Array | None,
    memory: int,
    progress: Callable[[int], None] = lambda done: None,
    given: GivenColumns | None = None,
) -> Significance:
    """Test ``pairs``, whose values are ``found`` and ``of_ranks``, from `effective_rows`.

    ``in_ranks`` are the features by their ranks, ``by_ranks`` the tests of pairs of numbers by
    these, for ``source="auto"``; ``source`` and ``key`` are as in `scan`; with ``given`` all tests
    are by signs.
    """
    ranked = kernels.of_ranks()
    tests = Significance.none(len(pairs))
    usable = found.varies
    if measure is None and usable.any():
        tests.null_mean[usable] = roys_root.mean(rows[usable], *found.degrees[usable].T)
        tests.null_95[usable] = roys_root.quantile(0.95, rows[usable], *found.degrees[usable].T)
    if given is not None:
        tests.pvalue[:] = sign_tests(
            in_ranks,
            given.ranked(),
            ranked,
            pairs,
            usable,
            permutations=permutations,
            key=key,
            progress=progress,
        )
        tests.source[usable] = SOURCES.index("signs")
        return tests
    if by_ranks is not None:
        known = by_ranks.known
        exact = by_ranks.exact[known]
        source_of = np.where(exact, SOURCES.index("exact"), SOURCES.index("rank"))
        tests.put_law(known, by_ranks.log_p[known], source_of)
        progress(int(known.sum()))
    rest = usable & (tests.source == 0)
    if source == "auto":
        by_law = rest & (pairs >= features.n_numeric).any(axis=1)
        if by_law.any():
            by_law[by_law] = _law_is_valid(in_ranks, ranked, pairs[by_law], found.select(by_law))
    else:
        by_law = usable & (source in ("rank", "asymptotic"))
    if by_law.any():
        tested = (found if source == "asymptotic" else of_ranks).select(by_law)
        progress(int(by_law.sum()))
        log_p = roys_root.log_survival(tested.correlation, rows[by_law], *tested.degrees.T)
        categories = (pairs[by_law] >= features.n_numeric).all(axis=1)
        plain = (source == "asymptotic") | categories
        source_of = np.where(plain, SOURCES.index("asymptotic"), SOURCES.index("rank"))
        tests.put_law(by_law, log_p, source_of)
        if source == "auto":
            by_law[by_law] = tested.pivot >= MIN_PIVOT
    left = np.flatnonzero(rest & ~by_law)
    in_order, own = (in_ranks, ranked) if source == "auto" else (features, kernels)
    permuted(
        tests,
        in_order,
        own,
        measure,
        pairs,
        left,
        permutations=permutations,
        key=key,
        memory=memory,
        progress=progress,
        of_ranks=measure is None and source == "auto",
    )
    return tests


def permuted(
    tests: Significance,
    features: Features,
    kernels: Kernels,
    measure: Callable[[Any, Any], Any] | None,
    pairs: Integers,
    left: Integers,
    *,
    permutations: int,
    key: Array | None,
    memory: int,
    progress: Callable[[int], None] = lambda done: None,
    of_ranks: bool,
) -> None:
    """Test the pairs at the positions ``left`` by permutations, in place.

    ``of_ranks`` says that the features are ranks, whose permutations do not have the law of the
    values.
    """
    if not len(left):
        return
    key = jax.random.key(0) if key is None else key
    if measure is None and features.weights is None and kernels.plain:
        seed = np.asarray(jax.random.key_data(key))
        mean, point, exceed, drawn, _ = permutation_null(
            features, kernels, memory, pairs[left], permutations, seed, progress
        )
        if not of_ranks:
            tests.null_mean[left], tests.null_95[left] = mean, point
        tests.pvalue[left] = (exceed + 1) / (drawn + 1)
    else:
        _test_each(
            tests,
            features,
            kernels,
            measure,
            pairs,
            left,
            permutations,
            key,
            progress,
            of_ranks=of_ranks,
        )
    tests.source[left] = SOURCES.index("permutation")


def effective_rows(features: Features, pairs: Integers, found: Estimates) -> Floats:
    """Return how many rows of equal weight those of a pair are worth: ``(sum w)^2 / sum w^2``."""
    if features.weights is None:
        return found.rows.astype(np.float64)
    sums, squares = (_sums(features, pairs, power) for power in (1, 2))
    return sums**2 / np.maximum(squares, 1e-300)


def _sums(features: Features, pairs: Integers, power: int) -> Floats:
    """Sum a power of the weights over the rows of each pair."""
    w = np.asarray(features.weights, np.float64) ** power
    x, codes = features.x, features.codes
    present = np.concatenate([~np.isnan(x), codes >= 0], axis=1).astype(np.float64)
    first, second = pairs.T
    return (present.T @ (present * w[:, None]))[first, second]


def _law_is_valid(
    features: Features, kernels: Kernels, pairs: Integers, found: Estimates
) -> NDArray[np.bool_]:
    def shape_of(column: int) -> ColumnMoments:
        values = features.values(column)
        if column < features.n_numeric:
            _, counts = np.unique(values[~np.isnan(values)], return_counts=True)
            return moments_of_ranks(counts, kernels.largest)
        levels = features.levels[column - features.n_numeric]
        return moments_of_levels(np.bincount(values[values >= 0], minlength=levels))

    rows: Floats = found.rows.astype(np.float64)
    if features.weights is not None:
        rows = _sums(features, pairs, 2) / float(np.max(features.weights)) ** 2
    return law_is_valid(shape_of, pairs, rows)


def law_is_valid(
    shape_of: Callable[[int], ColumnMoments], pairs: Integers, rows: Floats
) -> NDArray[np.bool_]:
    """Return whether Roy's law holds for pairs ``(N, 2)`` of columns of such moments.

    ``rows`` are as of `is_valid`.
    """
    moments = {int(column): shape_of(int(column)) for column in np.unique(pairs)}
    first, second = ([moments[i] for i in side.tolist()] for side in pairs.T)
    return is_valid(first, second, rows)


def _single_kernel(a: Array, b: Array, *, h: int, k: int, **options: Any) -> Array:
    """Compute HGR-SK of the scan: a polynomial of one side, of its degree, and the other as is."""
    return jnp.maximum(kb(a, b, h, 1, **options), kb(a, b, 1, k, **options))


def _test_each(
    tests: Significance,
    features: Features,
    kernels: Kernels,
    measure: Callable[[Any, Any], Any] | None,
    pairs: Integers,
    rest: Integers,
    permutations: int,
    key: Array,
    progress: Callable[[int], None],
    *,
    of_ranks: bool,
) -> None:
    """Test pairs by permutations that share nothing: of any measure, or with weights."""

    def absolute(a: Array, b: Array, **options: Any) -> Array:
        assert measure is not None
        return jnp.abs(measure(a, b, **options))

    weights = None if features.weights is None else np.asarray(features.weights)
    for index in rest:
        i, j = pairs[index]
        keep = features.present(i) & features.present(j)
        if weights is not None:
            keep &= weights > 0
        a, b = (features.values(column)[keep].astype(features.x.dtype) for column in (i, j))
        options: dict[str, Any] = {} if weights is None else {"weights": weights[keep]}
        statistic: Callable[..., Array] = absolute
        if measure is None:
            # With one side linear and a category, all functions of the latter are linear.
            single = kernels.single and (pairs[index] < features.n_numeric).all()
            statistic = _single_kernel if single else kb
            options |= {"h": features.kernel(i, kernels.h), "k": features.kernel(j, kernels.k)}
        key, own = jax.random.split(key)
        test = permutation_test(a, b, statistic, key=own, permutations=permutations, **options)
        tests.pvalue[index] = test.pvalue
        if not of_ranks:
            tests.null_mean[index], tests.null_95[index] = test.null_mean, test.null_95
        progress(1)
