"""A table in memory: functions of its columns, their sums, and estimates of its pairs.

`MemorySums` fits near-orthonormal functions to the columns, and takes the sums of two tiles when
their pairs are estimated.  Bases are repaired on all rows, and ill-conditioned pairs are fitted on
their own rows.
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

from hgr_jax._arrays import Floats, Integers, groups
from hgr_jax._checks import as_estimate
from hgr_jax.core.host.estimates import HGREstimate
from hgr_jax.core.host.polynomials import Polynomials
from hgr_jax.core.host.ranks import effective_row_count
from hgr_jax.inference.level_tests import RANK_DEGREE
from hgr_jax.scanning.bases import fit_columns, fit_rank_functions
from hgr_jax.scanning.features import (
    ColumnPolynomials,
    Estimates,
    Features,
    Kernels,
    MappedFunctions,
    Patterns,
    RankFunctions,
    RowFunctions,
    as_features,
)
from hgr_jax.scanning.given import GivenColumns, hgr_given
from hgr_jax.scanning.pairs import feature_places
from hgr_jax.scanning.request import Request
from hgr_jax.scanning.solve import (
    MIN_SHARED_PIVOT,
    Tiles,
    TileSolver,
    WhitenedTile,
    ordered_pairs,
    refit_pair,
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
"""Largest number of rows of all pairs of ill-conditioned columns that are fitted separately."""

OF_RANKS = Kernels(RANK_DEGREE, RANK_DEGREE, ranked=True)
"""Functions of ranks, whatever the measure is; those of the statistic of a test."""


class MemorySums:
    """Estimates of pairs from the sums of a table in memory.

    Attributes:
      features: the table.
      patterns: its patterns of missing values.
      layout: layout of the columns.
      functions: functions of the numbers, near-orthonormal on their rows.
      in_span: ``(d, p)``, mask of the functions of each number that the data support.
      moments: ``(d + 1, d + 1, p)``, moments of the functions of each number on its rows.
      well_conditioned: ``(p,)``, mask of the numbers whose functions are well conditioned.
      batch: all rows, for sums.
    """

    def __init__(self, features: Features, kernels: Kernels, memory: int) -> None:
        """Prepare the columns; ``memory`` are bytes that the products of two tiles may take."""
        self.features, self.kernels, self.memory = features, kernels, memory
        self.patterns = features.patterns
        pattern, count = self.patterns.index, features.n_numeric
        dtype = features.x.dtype
        self.layout = Layout.of(count, features.levels, kernels, pattern, dtype, memory)
        self.well_conditioned = np.ones(count, bool)
        self._cross_of_all: NDArray[np.float64] | None = None
        self.functions: RowFunctions = ColumnPolynomials(
            features.x, Polynomials.none(self.layout.degree)
        )
        if count and kernels.ranked:
            self._fit_rank_functions()
        elif count:
            self._fit_polynomials()
        present = self.patterns.present
        self.batch = Batch(self.functions, features.codes, features.weights, present)

    @property
    def single_pattern(self) -> bool:
        """Whether all columns are present in the same rows."""
        return self.layout.single_pattern

    def _fit_polynomials(self) -> None:
        """Make polynomials near-orthonormal on the rows of each column."""
        features, degree = self.features, self.layout.degree
        fitted = fit_columns(features.x, features.weights, degree, self.memory, self._moments_of)
        self.functions, self.moments = fitted.functions, fitted.moments
        self.in_span = fitted.functions.basis.in_span
        self.well_conditioned = fitted.well_conditioned
        if fitted.repaired:
            self._cross_of_all = None

    def _fit_rank_functions(self) -> None:
        """Make functions of ranks orthonormal on the rows of each column."""
        raw, w = RankFunctions(self.features.x, self.layout.degree), self.features.weights
        share = 1.0 if w is None else effective_row_count(len(w), w) / float(np.sum(w))
        fitted = fit_rank_functions(own_moments(raw, w), share)
        self.functions = MappedFunctions(raw, fitted.maps, fitted.shares)
        self.in_span = fitted.in_span
        self.moments = self._moments_of(self.functions)

    def _moments_of(self, functions: RowFunctions) -> Floats:
        """Return the `own_moments` of functions.

        If one tile holds all columns, the products of all columns are computed and kept; the
        moments are among them.
        """
        degree, columns = functions.count, functions.shape[1]
        tiles = self.layout.tiles[:columns]
        if self.single_pattern and tiles[-1] == 0:
            self._cross_of_all = own_products(functions, self.features.weights)
            place = 1 + np.arange(degree)[:, None] * columns + np.arange(columns)[None, :]
            place = np.concatenate([np.zeros((1, columns), np.intp), place])
            return self._cross_of_all[place[:, None], place[None, :]]
        moments = np.empty((degree + 1, degree + 1, columns))
        for tile in np.unique(tiles):
            part = np.flatnonzero(tiles == tile)
            moments[..., part] = own_moments(functions.take(part), self.features.weights)
        return moments

    def shared_rows(self, pairs: Integers) -> Integers:
        """Return the number of rows that ``pairs (N, 2)`` of columns share."""
        return rows_of_columns(self.patterns, pairs)

    def estimate(
        self,
        pairs: Integers,
        rows: Floats | None = None,
    ) -> Estimates:
        """Estimate ``pairs (N, 2)``, positions of columns, numbers before categories.

        Args:
          pairs: the positions.
          rows: ``(N,)``, effective sample sizes; None for the numbers of rows.
        """
        layout = self.layout
        estimates = Estimates.none(len(pairs))
        estimates.rows[:] = self.shared_rows(pairs)
        ordered, flips = ordered_pairs(layout, pairs)
        left, right = layout.tiles[ordered].T
        count = 1 + int(right.max(initial=0))
        for tile_pair, chosen in groups(left * count + right):
            columns = self._columns_of(divmod(tile_pair, count), ordered[chosen])
            solver = TileSolver(layout, self._tiles(*columns), columns, rows)
            solver.solve(estimates, chosen, ordered[chosen], flips[chosen])
        # The rows that two columns share may not represent either (all small values, say): bases
        # that were fitted to the columns are ill conditioned there.
        ill = (estimates.pivot < MIN_SHARED_PIVOT) | self._needs_refit(pairs)
        ill &= estimates.rows >= 2
        if ill.any():
            self._refit(estimates, pairs, np.flatnonzero(ill))
        refine(estimates, np.flatnonzero(estimates.at_edge & ~ill), self.features, pairs)
        estimates.degrees[estimates.rows < 2] = 0
        constant = (estimates.degrees == 0).any(axis=1)  # a column that does not vary on these rows
        for values in (estimates.value, estimates.statistic, estimates.linear):
            values[constant] = np.nan
        numbers = (pairs < layout.n_numeric).all(axis=1)
        estimates.pearson[:] = np.where(numbers, estimates.linear, np.nan)
        return estimates

    def _columns_of(self, tiles: tuple[int, int], pairs: Integers) -> tuple[Integers, Integers]:
        """Return the columns of two tiles that are in ``pairs``, or one tile twice."""
        left, right = self.layout.columns_of(tiles[0]), self.layout.columns_of(tiles[1])
        if self._cross_of_all is not None and self.layout.is_number(right):
            return left, right
        first, second = (np.unique(side) for side in pairs.T)
        # Products of a tile with itself are symmetric, and take half as long.
        if tiles[0] == tiles[1] and 2 * len(first) * len(second) >= len(left) ** 2:
            return left, right
        return first, second

    def _tiles(self, left: Integers, right: Integers) -> Tiles:
        """Return the whitened columns of two tiles, and their cross moments."""
        of_left, of_right = self.layout.patterns_of(left), self.layout.patterns_of(right)
        one = self.whitened(left, of_right)
        other = one if left[0] == right[0] else self.whitened(right, of_left)
        present, weights = self.patterns.present, self.features.weights
        total = shared_weights(present, weights, of_left, of_right)
        return Tiles((one, other), self._cross(left, right), total)

    def _cross(self, left: Integers, right: Integers) -> Floats:
        if self._cross_of_all is not None and self.layout.is_number(right):
            cross, self._cross_of_all = self._cross_of_all[1:, 1:], None
            return cross
        return cross_sums(self.layout, self.batch, left, right)

    def whitened(self, columns: Integers, others: Integers) -> WhitenedTile:
        """Whiten the features of ``columns`` on the rows of each of some patterns."""
        if not self.layout.is_number(columns):
            return whiten_levels(
                self.layout, columns, own_sums(self.layout, self.batch, columns, others)
            )
        # All columns are present in the same rows, to which the bases were fitted.
        fitted = self.single_pattern
        moments: Floats = (
            self.moments[..., columns, None]
            if fitted
            else own_sums(self.layout, self.batch, columns, others)
        )
        return whiten_numbers(self.layout, moments, self.in_span[:, columns], fitted=fitted)

    def _needs_refit(self, pairs: Integers) -> NDArray[np.bool_]:
        """Return the mask of pairs with an ill-conditioned column; empty if they are too many."""
        ill = np.append(~self.well_conditioned, False)
        needed = np.asarray(ill[np.minimum(pairs, self.features.n_numeric)].any(axis=1))
        affordable = needed.sum() * self.features.rows <= MAX_SEPARATE_FIT_ROWS
        return needed if affordable else np.zeros_like(needed)

    def _refit(self, estimates: Estimates, pairs: Integers, ill: Integers) -> None:
        """Replace the estimates at the places ``ill`` by fits on the pairs' own rows."""
        resolved = np.zeros(pairs.shape, bool)
        for place in ill.tolist():
            resolved[place] = put_refit(estimates, place, self.features, pairs[place], self.kernels)
        # A column stays ill conditioned only if one of its pairs is estimated from its sums.
        count = len(self.layout.patterns)
        pair_counts = np.bincount(pairs.ravel(), minlength=count)
        by_sums = np.bincount(pairs[~resolved], minlength=count)
        all_refitted = (pair_counts > 0) & (by_sums == 0)
        self.well_conditioned |= all_refitted[: len(self.well_conditioned)]


def put_refit(
    estimates: Estimates, place: int, features: Features, pair: Integers, kernels: Kernels
) -> Sequence[bool]:
    """Put the fit of a pair on its own rows at a place; return which sides are complete."""
    fit = refit_pair(features, pair, kernels)
    for name in ("value", "statistic", "linear", "degrees"):
        getattr(estimates, name)[place] = getattr(fit, name)
    return fit.complete


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
      given: the given columns, or None.
    """

    def __init__(
        self,
        columns: Columns,
        request: Request,
        positions: Integers,
        given: GivenColumns | None = None,
    ) -> None:
        """Prepare the pairs of columns, given others."""
        self.columns, self.request, self.positions = columns, request, positions
        self.pairs = feature_places(columns)[positions]
        self.given = given
        self.kernels, self.memory = request.measure.kernels, request.execution.memory
        scaled = request.measure.function is None
        self.features = as_features(columns, request.row_weights, scaled=scaled)
        if given is not None:
            self.features = dataclasses.replace(self.features, conditioning=given.functions())

    @functools.cached_property
    def in_ranks(self) -> Features:
        """The columns, numbers replaced by their ranks."""
        ranked = self.features.ranked()
        if self.given is not None:
            ranked = dataclasses.replace(ranked, conditioning=self.given.ranked().functions())
        return ranked

    @functools.cached_property
    def _in_weighted_ranks(self) -> Features:
        return self.in_ranks.among_weights()

    def rank_sums(self) -> MemorySums:
        """Return the sums of functions of ranks."""
        return MemorySums(self._in_weighted_ranks, OF_RANKS, self.memory)

    def rank_lines(self) -> MemorySums:
        """Return the sums of ranks."""
        return MemorySums(self._in_weighted_ranks, Kernels(1, 1), self.memory)

    def estimate(self) -> tuple[Estimates, NDArray[np.bool_]]:
        """Estimate the pairs; return the mask ``(p,)`` of well-conditioned numbers too."""
        measure, pairs = self.request.measure, self.pairs
        if self.given is not None:
            estimates = self._estimate_given(self.features, self.kernels.of_values())
            return estimates, np.ones(self.features.n_numeric, bool)
        if measure.function is not None:
            estimates = estimate_function(self.features, measure.function, pairs, self.memory)
            return estimates, np.ones(self.features.n_numeric, bool)
        sums = MemorySums(self.features, self.kernels.of_values(), self.memory)
        return sums.estimate(pairs), sums.well_conditioned

    def estimate_ranks_given(self) -> Estimates:
        """Estimate HGR of the pairs given columns, and the correlations of their ranks."""
        assert self.given is not None
        estimates = self._estimate_given(self.in_ranks, Kernels(1, 1))
        value = hgr_given(self.features, self.given, self.pairs)
        estimates.value[:] = np.where(np.isnan(estimates.value), np.nan, value)
        return estimates

    def _estimate_given(self, features: Features, kernels: Kernels) -> Estimates:
        """Estimate the pairs by polynomials given columns, each on its own rows."""
        estimates = Estimates.none(len(self.pairs))
        estimates.rows[:] = rows_of_columns(features.patterns, self.pairs)
        for place in np.flatnonzero(estimates.rows >= 2).tolist():
            put_refit(estimates, place, features, self.pairs[place], kernels)
        lost = (estimates.degrees == 0).any(axis=1)
        for values in (estimates.value, estimates.statistic, estimates.linear):
            values[lost] = np.nan
        numbers = (self.pairs < features.n_numeric).all(axis=1)
        estimates.pearson[:] = np.where(numbers, estimates.linear, np.nan)
        return estimates

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


def refine(estimates: Estimates, places: Integers, features: Features, pairs: Integers) -> None:
    """Put `hgr_on_own_rows` at some places, unless the rows of all of these are too many."""
    if len(places) * features.rows <= MAX_REFINED_ROWS:
        estimates.value[places] = hgr_on_own_rows(features, pairs[places])


def hgr_on_own_rows(features: Features, pairs: Integers) -> Floats:
    """Return HGR of ``pairs (N, 2)`` by ranks among the rows that each pair shares."""
    value = np.empty(len(pairs))
    for place, (i, j) in enumerate(pairs):
        shared = np.flatnonzero(features.present(i) & features.present(j))
        w = None if features.weights is None else features.weights[shared].astype(np.float64)
        columns = [features.values(column)[shared] for column in (i, j)]
        levels = [features.level_count(column) for column in (i, j)]
        value[place] = HGREstimate.of(columns, levels, w).value
    return value


def estimate_function(
    features: Features,
    measure: Callable[[Any, Any], Any],
    pairs: Integers,
    memory: int,
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
    single = one if ours else jax.jit(one)
    for index in np.flatnonzero(~complete & (rows >= 2)):
        keep = patterns.present[:, pattern[index]].all(axis=1)
        a, b = (jax.device_put(x[keep, column]) for column in pairs[index])
        estimates.value[index] = float(single(a, b))
    for place, (i, j) in enumerate(pairs):
        keep = patterns.present[:, pattern[place]].all(axis=1)
        first, second = (x[keep, column].astype(np.float64) for column in (i, j))
        if len(first) >= 2:
            varies = np.ptp(first) > 0 and np.ptp(second) > 0
            estimates.pearson[place] = abs(np.corrcoef(first, second)[0, 1]) if varies else 0.0
    estimates.linear[:] = estimates.pearson
    return estimates
