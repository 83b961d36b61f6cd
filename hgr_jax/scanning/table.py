"""The interface of a table to a scan, wherever its rows are.

`memory.MemoryTable` has all rows in memory, `batches.BatchTable` has sums over all rows, and a
sample of the rows.  Estimates, tests, notes and the result are made in the same way for both.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.scanning.features import Estimates, Features, Kernels
from hgr_jax.scanning.pairs import feature_places
from hgr_jax.scanning.request import Request
from hgr_jax.scanning.residuals import GivenColumns
from hgr_jax.scanning.solve import PairSums
from hgr_jax.tables.columns import Columns


class Table(abc.ABC):
    """A table and its pairs; its rows in memory are all rows, or a sample.

    Attributes:
      request: options of the scan.
      columns: the rows in memory.
      positions: ``(N, 2)``, positions of the columns of each pair in the table.
      pairs: ``(N, 2)``, positions of the columns of each pair in the features: numbers first.
      features: the rows in memory as numeric arrays.
      complete: whether all rows are in memory.
      rows: number of rows of the table.
      row_weights: weights of the rows in memory, or None.
      given, given_positions: the given columns, and their positions in the table.
      kernels: kernels of the measure.
      memory: bytes that features and their products may take.
      conditioning_advice: what to do about ill-conditioned columns.
    """

    request: Request
    columns: Columns
    positions: Integers
    pairs: Integers
    features: Features
    complete: bool
    rows: int
    row_weights: Floats | None
    given: GivenColumns | None = None
    given_positions: Sequence[int] = ()
    kernels: Kernels
    memory: int
    conditioning_advice: str

    def take_pairs(self, columns: Columns, request: Request, positions: Integers) -> None:
        """Set the columns, the request and the pairs; a function takes pairs of numbers only."""
        self.columns, self.request, self.positions = columns, request, positions
        self.pairs = feature_places(columns)[positions]
        if request.measure.function is not None:
            numeric = (self.pairs < columns.numbers.shape[1]).all(axis=1)
            self.pairs, self.positions = self.pairs[numeric], positions[numeric]

    @property
    @abc.abstractmethod
    def in_ranks(self) -> Features:
        """The rows in memory, numbers replaced by their ranks."""

    @abc.abstractmethod
    def estimate(self, progress: Callable[[int], None]) -> tuple[Estimates, NDArray[np.bool_]]:
        """Estimate the pairs; return the mask ``(p,)`` of well-conditioned numbers too."""

    @abc.abstractmethod
    def rank_sums(self) -> PairSums:
        """Return the sums of functions of ranks."""

    @abc.abstractmethod
    def rank_lines(self) -> PairSums:
        """Return the sums of ranks."""

    @abc.abstractmethod
    def effective_rows(self) -> Floats:
        """Return the effective sample size of each pair."""

    @abc.abstractmethod
    def heaviest_rows(self) -> Floats:
        """Return each pair's sum of squared weights, over the largest squared weight."""

    @abc.abstractmethod
    def permuted_sums(self, kernels: Kernels, *, of_values: bool) -> Any:
        """Return the sums over `permuted_rows`, as `memory.MemorySums`."""

    @abc.abstractmethod
    def permuted_rows(self, *, of_values: bool) -> Features:
        """Return the rows to permute: values, or numbers replaced by their ranks."""
