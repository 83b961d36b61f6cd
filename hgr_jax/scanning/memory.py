"""A table in memory: functions of its columns, and their sums.

`MemorySums` fits near-orthonormal functions to the columns, and takes the sums of two tiles when
their pairs are estimated.  As all rows are in memory, bases are repaired on all rows, ranks are
exact, and ill-conditioned pairs are fitted on their own rows at once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._checks import as_estimate
from hgr_jax.core.host.estimates import HGREstimate
from hgr_jax.core.host.polynomials import Polynomials
from hgr_jax.core.host.ranks import (
    effective_row_count,
)
from hgr_jax.scanning.bases import (
    count_distinct,
    features_of_kernels,
    fit_columns,
    fit_rank_functions,
    unresolved_in_dtype,
)
from hgr_jax.scanning.features import (
    ColumnPolynomials,
    Estimates,
    Features,
    Kernels,
    Patterns,
    RankFunctions,
    RowFunctions,
    as_features,
)
from hgr_jax.scanning.pairs import feature_places
from hgr_jax.scanning.request import Request
from hgr_jax.scanning.residuals import (
    Explained,
    GivenColumns,
    ResidualFunctions,
    conditioning_maps,
    conditioning_moments,
    explained_share,
    level_moments,
    residual_functions,
)
from hgr_jax.scanning.solve import (
    PairSums,
    Refit,
    TilePairs,
    Tiles,
    WhitenedTile,
    by_level,
    error_sums,
    refit_pairs,
    whiten_levels,
    whiten_numbers,
)
from hgr_jax.scanning.sums import (
    Batch,
    Layout,
    cross_sums,
    own_moments,
    own_products,
    own_sums,
    shared_by_pairs,
    shared_weights,
)
from hgr_jax.tables.columns import Columns

MAX_REFINED_ROWS = 2**23
"""Largest number of rows of all pairs whose HGR is estimated again with more functions."""

MAX_SEPARATE_FIT_ROWS = 2**22
"""Largest number of rows of all pairs of ill-conditioned columns that are fitted separately.

Only where the columns are available in double precision.
"""


class MemorySums(PairSums):
    """Estimates of pairs from the sums of a table in memory.

    Attributes:
      features: the table.
      patterns: its patterns of missing values.
      functions: functions of the numbers, near-orthonormal on their rows.
      in_span: ``(d, p)``, mask of the functions of each number that the data support.
      moments: ``(d + 1, d + 1, p)``, moments of the functions of each number on its rows.
      batch: all rows, for sums.
    """

    def __init__(
        self,
        features: Features,
        kernels: Kernels,
        memory: int,
        *,
        errors: bool = False,
    ) -> None:
        """Prepare the columns.

        Args:
          features: the table.
          kernels: kernels of both sides.
          memory: bytes that the products of two tiles may take.
          errors: whether standard errors are computed too.
        """
        self.features, self.kernels, self.errors = features, kernels, errors
        self.memory = memory
        self.patterns = features.patterns
        self.layout = Layout.of(
            features.n_numeric,
            features.levels,
            kernels,
            self.patterns.index,
            features.x.dtype,
            memory,
        )
        self.well_conditioned = np.ones(features.n_numeric, bool)
        self._cross_of_all: NDArray[np.float64] | None = None
        self._conditioning: Floats | None = None
        self.functions: RowFunctions = ColumnPolynomials(
            features.x, Polynomials.none(self.layout.degree)
        )
        if features.n_numeric:
            self._fit_bases()
        present = self.patterns.present
        self.batch = Batch(self.functions, features.codes, features.weights, present)

    @property
    def single_pattern(self) -> bool:
        """Whether all columns are present in the same rows."""
        return self.layout.single_pattern

    def _fit_bases(self) -> None:
        features, kernels, degree = self.features, self.kernels, self.layout.degree
        x, conditioning = features.x, features.conditioning
        if conditioning is not None:
            self._conditioning = conditioning.astype(x.dtype)
        self.in_span: NDArray[np.bool_]
        if kernels.ranked:
            moments = self._fit_rank_functions()
        elif kernels.plain:
            fitted = fit_columns(
                x, features.weights, degree, self.memory, self._moments_of, self._conditioning
            )
            self.functions, moments = fitted.functions, fitted.moments
            self.in_span = fitted.functions.basis.in_span
            self.well_conditioned = fitted.well_conditioned
            if fitted.repaired:
                self._cross_of_all = None
            self._flag_unresolved_columns()
        else:
            self.in_span = np.ones((degree, features.n_numeric), bool)
            self.functions = features_of_kernels(features, kernels, self.memory, self._moments_of)
            constant = np.ones((1, features.rows))
            moments = self._moments_of(self.functions, constant.astype(x.dtype))
            moments = self._residualise(constant, moments, self._conditioning)
        if conditioning is not None:
            moments = self._residualise(conditioning, moments, None)
        self.moments = moments

    def _fit_rank_functions(self) -> Floats:
        """Make functions of ranks orthonormal on the rows of each column; return their moments."""
        features, degree = self.features, self.layout.degree
        raw, w = RankFunctions(features.x, degree), features.weights
        share = 1.0 if w is None else effective_row_count(len(w), w) / float(np.sum(w))
        fitted = fit_rank_functions(own_moments(raw, w), share)
        one = np.ones((1, features.rows), features.x.dtype)
        parts = (part.astype(features.x.dtype) for part in (fitted.maps, fitted.shares))
        self.functions, self.in_span = ResidualFunctions(raw, one, *parts), fitted.in_span
        return self._moments_of(self.functions, self._conditioning)

    def _flag_unresolved_columns(self) -> None:
        """Flag columns whose values the dtype of the features cannot tell apart."""
        if isinstance(self.functions, ColumnPolynomials):
            unresolved = unresolved_in_dtype(self.functions.basis, self.features.x)
            self.well_conditioned &= ~unresolved
        directions, exact = self.in_span.sum(axis=0), self.features.float64_values
        few = np.flatnonzero(directions < self.layout.degree)
        if exact is not None and len(few):
            expected = np.minimum(count_distinct(exact[:, few]) - 1, self.layout.degree)
            self.well_conditioned[few] &= directions[few] >= expected

    def _residualise(
        self, conditioning: NDArray[np.float64], moments: Floats, beside: Floats | None
    ) -> Floats:
        """Replace the functions by their residuals; return the moments of the residuals."""
        features, patterns = self.features, self.patterns
        pattern = patterns.index[: features.n_numeric]
        self.functions, alive = residual_functions(
            self.functions, moments, conditioning, patterns.present, pattern, features.weights
        )
        self.in_span = self.in_span & alive
        return self._moments_of(self.functions, beside)

    def _moments_of(self, functions: RowFunctions, beside: Floats | None) -> Floats:
        """Return the `own_moments` of functions, with functions ``beside (m, n)`` of the rows.

        If there are none, and one tile holds all columns, the products of all columns are computed
        and kept; the moments are among them.
        """
        degree, columns = functions.count, functions.shape[1]
        tiles = self.layout.tiles[:columns]
        if beside is None and self.single_pattern and tiles[-1] == 0:
            self._cross_of_all = own_products(functions, self.features.weights)
            place = 1 + np.arange(degree)[:, None] * columns + np.arange(columns)[None, :]
            place = np.concatenate([np.zeros((1, columns), np.intp), place])
            return self._cross_of_all[place[:, None], place[None, :]]
        width = degree + 1 + (0 if beside is None else len(beside))
        moments = np.empty((degree + 1, width, columns))
        for tile in np.unique(tiles):
            part = np.flatnonzero(tiles == tile)
            moments[..., part] = own_moments(functions.take(part), self.features.weights, beside)
        return moments

    def shared_rows(self, pairs: Integers) -> Integers:
        """Return the number of rows that ``pairs (N, 2)`` of columns share."""
        return rows_of_columns(self.patterns, pairs)

    def columns_of(self, tiles: tuple[int, int], pairs: Integers) -> tuple[Integers, Integers]:
        """Return the columns of two tiles that are in ``pairs``, or one tile twice."""
        left, right = super().columns_of(tiles, pairs)
        if self._cross_of_all is not None and self.layout.is_number(right):
            return left, right
        first, second = (np.unique(side) for side in pairs.T)
        # Products of a tile with itself are symmetric, and take half as long.
        if tiles[0] == tiles[1] and 2 * len(first) * len(second) >= len(left) ** 2:
            return left, right
        return first, second

    def tiles(self, left: Integers, right: Integers) -> Tiles:
        """Return the whitened columns of two tiles, and their cross moments."""
        patterns = [self.layout.patterns_of(columns) for columns in (left, right)]
        one = self.whitened(left, patterns[1])
        other = one if left[0] == right[0] else self.whitened(right, patterns[0])
        return Tiles((one, other), self._cross(left, right), self._totals(*patterns))

    def _cross(self, left: Integers, right: Integers) -> Floats:
        if self._cross_of_all is not None and self.layout.is_number(right):
            cross, self._cross_of_all = self._cross_of_all[1:, 1:], None
            return cross
        return cross_sums(self.layout, self.batch, left, right)

    def _totals(self, left: Integers, right: Integers) -> Floats:
        """Sum the weights over the rows that two patterns share."""
        return shared_weights(self.patterns.present, self.features.weights, left, right)

    def whitened(self, columns: Integers, others: Integers) -> WhitenedTile:
        """Whiten the features of ``columns`` on the rows of each of some patterns."""
        number = self.layout.is_number(columns)
        # All columns are present in the same rows, to which the bases were fitted.
        fitted = number and self.single_pattern
        moments: Floats = (
            self.moments[..., columns, None]
            if fitted
            else own_sums(self.layout, self.batch, columns, others)
        )
        explained = None if fitted else self._explained(columns, others, moments)
        if not number:
            return whiten_levels(self.layout, columns, moments, explained)
        in_span = self.in_span[:, columns]
        return whiten_numbers(self.layout, moments, in_span, explained, fitted=fitted)

    def _explained(self, columns: Integers, others: Integers, sums: Floats) -> Explained | None:
        """Return what conditioning functions explain of columns, given their `own_sums`."""
        conditioning = self.features.conditioning
        if conditioning is None:
            return None
        weights = self.batch.weights_of(others)
        if self.layout.is_number(columns):
            assert self._conditioning is not None
            functions, total = self.functions.take(columns), sums[0, 0]
            moments = conditioning_moments(functions, self._conditioning, weights, len(others))
        else:
            column, level, _ = self.layout.levels_of(columns)
            codes = self.features.codes
            total = by_level(self.layout, columns, sums).sum(axis=0)
            moments = level_moments(codes, (column, level), conditioning, weights, len(others))
            moments = by_level(self.layout, columns, moments)
        patterns, place = np.unique(self.layout.patterns[columns], return_inverse=True)
        present = self.patterns.present

        def rows_of_patterns(rows: slice) -> Floats:
            return np.ascontiguousarray(present[rows][:, patterns].T, np.float64)

        counts = (len(patterns), len(others))
        maps = conditioning_maps(conditioning, rows_of_patterns, weights, counts)
        return explained_share(moments, maps[:, :, place], total)

    def needs_refit(self, pairs: Integers) -> NDArray[np.bool_]:
        """Return the mask of pairs with an ill-conditioned column; empty if they are too many."""
        ill = np.append(~self.well_conditioned, False)
        needed = np.asarray(ill[np.minimum(pairs, self.features.n_numeric)].any(axis=1))
        affordable = needed.sum() * self.features.rows <= MAX_SEPARATE_FIT_ROWS
        return needed if affordable and self.features.has_float64 else np.zeros_like(needed)

    def refit(self, pairs: Integers, rows: Integers) -> Refit:
        """Fit pairs on their own rows."""
        every = np.arange(len(pairs))
        return refit_pairs(
            lambda place: (self.features, pairs[place]), self.kernels, every, errors=self.errors
        )

    def refine(self, pairs: Integers) -> Floats:
        """Return HGR of pairs from all functions of ranks, on their own rows."""
        return refined_hgr(self.features, pairs)

    def error_sums(self, pairs: TilePairs) -> Floats:
        """Return `error_sums` over all rows."""
        return error_sums(pairs, self.layout, self.batch, self.features.conditioning)


def rows_of_columns(patterns: Patterns, pairs: Integers) -> Integers:
    """Return the number of rows that ``pairs (N, 2)`` of columns share."""
    counts = shared_by_pairs(patterns.present, None, patterns.index[pairs])
    return np.rint(counts).astype(np.intp)


class MemoryTable:
    """The rows of a table that a scan takes, and its pairs.

    Attributes:
      columns: columns of the table.
      request: options of the scan.
      positions: ``(N, 2)``, positions of the columns of each pair in the table.
      pairs: ``(N, 2)``, positions of the columns of each pair in the features: numbers first.
      features: the columns as numeric arrays.
      given, given_positions: the given columns, and their positions in the table.
    """

    def __init__(
        self,
        columns: Columns,
        request: Request,
        positions: Integers,
        given: GivenColumns | None = None,
        given_positions: Sequence[int] = (),
    ) -> None:
        """Prepare the pairs of columns, given others."""
        self.columns, self.request, self.positions = columns, request, positions
        self.pairs = feature_places(columns)[positions]
        if request.measure.function is not None:  # which takes numbers only
            numeric = (self.pairs < columns.numbers.shape[1]).all(axis=1)
            self.pairs, self.positions = self.pairs[numeric], positions[numeric]
        self.given, self.given_positions = given, given_positions
        self.kernels, self.memory = request.measure.kernels, request.execution.memory
        unscaled = request.measure.function is not None or not self.kernels.plain
        features = as_features(
            columns, request.row_weights, ranked=request.measure.of_ranks, unscaled=unscaled
        )
        if given is not None:
            features = dataclasses.replace(features, conditioning=given.functions())
        self.features = features

    @functools.cached_property
    def in_ranks(self) -> Features:
        """The columns, numbers replaced by their ranks."""
        if self.request.measure.of_ranks and self.kernels.plain:
            return self.features
        ranked = self.features.ranked()
        if self.given is not None:
            conditioning = self.given.ranked().functions()
            ranked = dataclasses.replace(ranked, conditioning=conditioning)
        return ranked

    def rank_sums(self) -> PairSums:
        """Return the sums of functions of ranks."""
        return MemorySums(self.in_ranks, self.kernels.of_rank_functions(), self.memory)

    def rank_lines(self) -> PairSums:
        """Return the sums of ranks."""
        return MemorySums(self.in_ranks, Kernels(1, 1), self.memory)

    def permuted_sums(self, kernels: Kernels, *, of_values: bool) -> MemorySums:
        """Return the sums over `permuted_rows`."""
        return MemorySums(self.permuted_rows(of_values=of_values), kernels, self.memory)

    def permuted_rows(self, *, of_values: bool) -> Features:
        """Return all rows."""
        return self.features if of_values else self.in_ranks

    def estimate(self, progress: Callable[[int], None]) -> tuple[Estimates, NDArray[np.bool_]]:
        """Estimate the pairs; return the mask ``(p,)`` of well-conditioned numbers too."""
        measure, pairs = self.request.measure, self.pairs
        if measure.function is not None:
            estimates = estimate_function(
                self.features, measure.function, pairs, self.memory, progress
            )
            return estimates, np.ones(self.features.n_numeric, bool)
        kernels, errors = self.kernels.of_values(), self.request.errors
        return estimate_pairs(self.features, kernels, pairs, self.memory, progress, errors=errors)

    def effective_rows(self) -> Floats:
        """Return the effective sample size of each pair."""
        if self.features.weights is None:
            return self._over_shared_rows(0)
        return self._over_shared_rows(1) ** 2 / np.maximum(self._over_shared_rows(2), 1e-300)

    def heaviest_rows(self) -> Floats:
        """Return each pair's sum of squared weights, over the largest squared weight."""
        if self.features.weights is None:
            return self._over_shared_rows(0)
        return self._over_shared_rows(2) / float(np.max(self.features.weights)) ** 2

    def _over_shared_rows(self, power: int) -> Floats:
        """Sum a power of the weights over the rows of each pair."""
        patterns, weights = self.features.patterns, self.features.weights if power else None
        return shared_by_pairs(patterns.present, weights, patterns.index[self.pairs], power)


def refined_hgr(features: Features, pairs: Integers) -> Floats:
    """Return `hgr_on_own_rows`; NaN if the rows of all pairs are too many, or columns are given."""
    if features.conditioning is not None or len(pairs) * features.rows > MAX_REFINED_ROWS:
        return np.full(len(pairs), np.nan)
    return hgr_on_own_rows(features, pairs)


def hgr_on_own_rows(features: Features, pairs: Integers) -> Floats:
    """Return HGR of ``pairs (N, 2)`` by ranks among the rows that each pair shares."""
    value = np.empty(len(pairs))
    for place, (i, j) in enumerate(pairs):
        shared = np.flatnonzero(features.present(i) & features.present(j))
        w = None if features.weights is None else features.weights[shared].astype(np.float64)
        columns = [features.exact_values(column)[shared] for column in (i, j)]
        levels = [features.level_count(column) for column in (i, j)]
        value[place] = HGREstimate.of(columns, levels, w).value
    return value


def estimate_pairs(
    features: Features,
    kernels: Kernels,
    pairs: Integers,
    memory: int,
    progress: Callable[[int], None] = lambda done: None,
    *,
    errors: bool = False,
) -> tuple[Estimates, NDArray[np.bool_]]:
    """Estimate ``pairs (N, 2)``; return the mask ``(p,)`` of well-conditioned numbers too."""
    if kernels.plain:
        sums = MemorySums(features, kernels, memory, errors=errors)
        return sums.estimate(pairs, progress), sums.well_conditioned
    of_lines = MemorySums(features, Kernels(1, 1), memory).estimate(pairs)
    numbers = features.n_numeric
    if kernels.differ:  # a number is then two columns, one with each kernel
        twice = np.concatenate([features.x, features.x], axis=1)
        features = dataclasses.replace(features, x=twice, float64_values=None)
        pairs = pairs + np.where(pairs < numbers, np.array([[0, numbers]]), numbers)
    estimates = MemorySums(features, kernels, memory, errors=errors).estimate(pairs, progress)
    for name in ("pearson", "linear"):
        getattr(estimates, name)[:] = np.where(
            np.isnan(estimates.value), np.nan, getattr(of_lines, name)
        )
    return estimates, np.ones(numbers, bool)


def estimate_function(
    features: Features,
    measure: Callable[[Any, Any], Any],
    pairs: Integers,
    memory: int,
    progress: Callable[[int], None] = lambda done: None,
) -> Estimates:
    """Estimate |``measure``| of every pair of numeric columns, on the rows where both are present.

    The measures of this package have programs for few numbers of rows; another function has one
    for every number that occurs, and pairs without missing values share one.
    """
    x, patterns = features.x, features.patterns
    pattern = patterns.index[pairs]
    estimates = Estimates.none(len(pairs))
    estimates.degrees[:] = 1
    rows = estimates.rows
    rows[:] = rows_of_columns(patterns, pairs)
    complete = rows == features.rows

    def one(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.abs(as_estimate(measure, a, b, {}))

    ours = str(getattr(measure, "__module__", "")).startswith("hgr_jax.")
    several = jax.jit(jax.vmap(one))
    at_once = int(np.clip(memory // (64 * features.rows * x.dtype.itemsize), 1, 64))
    whole = np.flatnonzero(complete)
    for start in range(0, len(whole), at_once):
        part = whole[np.minimum(np.arange(start, start + at_once), len(whole) - 1)]
        a, b = (jax.device_put(x[:, pairs[part, side]].T) for side in (0, 1))
        estimates.value[part] = np.asarray(several(a, b))
        progress(min(at_once, len(whole) - start))
    single = one if ours else jax.jit(one)
    for index in np.flatnonzero(~complete & (rows >= 2)):
        keep = patterns.present[:, pattern[index]].all(axis=1)
        a, b = (jax.device_put(x[keep, column]) for column in pairs[index])
        estimates.value[index] = float(single(a, b))
        progress(1)
    for place, (i, j) in enumerate(pairs):
        keep = patterns.present[:, pattern[place]].all(axis=1)
        first, second = (x[keep, column].astype(np.float64) for column in (i, j))
        if len(first) >= 2:
            varies = np.ptp(first) > 0 and np.ptp(second) > 0
            estimates.pearson[place] = abs(np.corrcoef(first, second)[0, 1]) if varies else 0.0
    estimates.linear[:] = estimates.pearson
    return estimates
