"""The columns of a scan as arrays, its pairs, and estimates of their measure."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax.scanning.features import Estimates, Features, Kernels, as_features
from hgr_jax.scanning.given import GivenColumns, fits_given, kb_given
from hgr_jax.scanning.pairs import feature_places
from hgr_jax.scanning.polynomials import estimate_kb, pearson_of_pairs
from hgr_jax.scanning.request import Request
from hgr_jax.tables.columns import Columns


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
            of = given.lowered() if self.kernels.ranked else given
            self.features = dataclasses.replace(self.features, conditioning=of.functions())

    @functools.cached_property
    def in_ranks(self) -> Features:
        """The columns, numbers replaced by their ranks."""
        ranked = self.features.ranked()
        if self.given is not None:
            ranked = dataclasses.replace(ranked, conditioning=self.given.ranked().functions())
        return ranked

    def estimate(self) -> Estimates:
        """Estimate the pairs; of HGR, which `rank_tests` estimates, |Pearson| alone."""
        measure, features, pairs = self.request.measure, self.features, self.pairs
        if self.given is not None:
            kernels = Kernels(1, 1) if self.kernels.ranked else self.kernels
            return kb_given(features, kernels, pairs)
        if measure.function is not None:
            from hgr_jax.scanning.functions import estimate_function  # needs JAX

            return estimate_function(features, measure.function, pairs, self.memory)
        if not self.kernels.ranked:
            return estimate_kb(features, self.kernels, pairs, self.memory)
        estimates = Estimates.none(len(pairs))
        estimates.pearson[:] = pearson_of_pairs(features, pairs, self.memory)
        return estimates

    def estimate_ranks_given(self) -> Estimates:
        """Estimate HGR of the pairs given columns, and the correlations of their ranks."""
        assert self.given is not None
        estimates = kb_given(self.in_ranks, Kernels(1, 1), self.pairs)
        value = np.full(len(self.pairs), np.nan)
        for place, fit in fits_given(self.features, self.given, self.pairs):
            value[place] = fit.correlation
        estimates.value[:] = np.where(np.isnan(estimates.value), np.nan, value)
        return estimates

    def effective_rows(self) -> Floats:
        """Return the effective sample size of each pair."""
        features, pairs = self.features, self.pairs
        if features.weights is None:
            return features.over_shared_rows(pairs, 0)
        squares = np.maximum(features.over_shared_rows(pairs, 2), 1e-300)
        return features.over_shared_rows(pairs, 1) ** 2 / squares

    def heaviest_rows(self) -> Floats:
        """Return each pair's sum of squared weights, over the largest squared weight."""
        features = self.features
        largest = 1.0 if features.weights is None else float(np.max(features.weights))
        return features.over_shared_rows(self.pairs, 2) / largest**2
