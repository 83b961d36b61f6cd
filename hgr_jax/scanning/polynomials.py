"""Pearson's correlation and HGR-KB of many pairs, on the rows that each pair shares.

Polynomials of the columns are made orthonormal on these rows (`stieltjes`), and categories have
functions of their levels: HGR-KB is the top singular value of the mean products of both sides.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers, chunks
from hgr_jax._threads import in_threads
from hgr_jax.core.host.linalg import top_correlations
from hgr_jax.core.host.polynomials import stieltjes, tolerance
from hgr_jax.scanning.features import Estimates, Features, Kernels, within_range
from hgr_jax.scanning.products import (
    TILE,
    LevelColumn,
    Lookup,
    RowFunctions,
    Tile,
    column_products,
    tiles_of,
)

FITTED_NUMBERS = 2**17
"""Number of values of columns whose polynomials are fitted together: they fit in a core's cache."""

TILES_KEPT = 4
"""Number of tiles whose functions are kept."""

PAIRS_AT_ONCE = 2**12
"""Number of pairs whose moments are in memory at a time."""


@dataclasses.dataclass(frozen=True)
class Lines:
    """Numbers less their means, ``deviations (n, c)``, and 1 over their standard deviations."""

    deviations: Floats
    scale: Floats

    @classmethod
    def of(cls, x: Floats, shares: Floats | None) -> Lines:
        """Take numbers `within_range`, and shares ``(n,)`` of the weight, None for equal ones."""
        varies = x.max(axis=0) > x.min(axis=0)
        deviations = x - (x.mean(axis=0) if shares is None else shares @ x)
        if shares is None:
            square = np.einsum("nc,nc->c", deviations, deviations) / len(x)
        else:
            square = shares @ deviations**2
        return cls(deviations, varies / np.sqrt(np.where(varies, square, 1)))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.deviations)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of columns and of functions of each, 1."""
        return self.deviations.shape[1], 1

    def __call__(self, rows: slice) -> Floats:
        """Return the functions ``(rows, columns)``."""
        return self.deviations[rows] * self.scale


@dataclasses.dataclass(frozen=True)
class ColumnPolynomials:
    """Orthonormal polynomials ``values (c, d, n)``, and how many each column has, ``(c,)``."""

    values: Floats
    counts: Integers

    @classmethod
    def of(cls, x: Floats, shares: Floats | None, degree: int) -> ColumnPolynomials:
        """Take finite numbers ``x (n, c)``, and shares ``(n,)`` of the weight, None for equal."""
        rows, columns = x.shape
        weights = np.full((1, rows), 1 / rows) if shares is None else shares[None]
        values = np.empty((columns, degree, rows))
        counts = np.zeros(columns, np.intp)

        def fit(part: slice) -> None:
            points = np.ascontiguousarray(x[:, part].T)
            p, counts[part] = stieltjes(points, weights, degree, tolerance=tolerance(x.dtype))
            values[part] = p.swapaxes(0, 1)

        together = max(1, FITTED_NUMBERS // rows)
        in_threads(fit, [slice(i, i + together) for i in range(0, columns, together)])
        return cls(values, counts)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.values.shape[2]

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of columns and of functions of each."""
        return self.values.shape[0], self.values.shape[1]

    def __call__(self, rows: slice) -> Floats:
        """Return the functions ``(rows, columns * functions)``, column by column."""
        return self.values[..., rows].reshape(-1, self.values[0, 0, rows].size).T


def pearson_of_pairs(features: Features, pairs: Integers, memory: int) -> Floats:
    """Return |Pearson| of ``pairs (N, 2)``; NaN with a category or a number that does not vary."""
    pearson = np.full(len(pairs), np.nan)
    numbers = np.flatnonzero((pairs < features.n_numeric).all(axis=1))
    for group, shared in features.by_shared_rows(pairs[numbers]):
        if not shared.any():
            continue
        rows, weights = features.rows_of(shared)
        shares = None if weights is None else weights / weights.sum()

        @functools.lru_cache(maxsize=TILES_KEPT)
        def lines(columns: tuple[int, ...]) -> Lines:
            return Lines.of(within_range(features.x[rows][:, columns]), shares)  # noqa: B023

        side = side_of_tiles(memory, int(shared.sum()), 1)
        for tile in tiles_of(pairs, numbers[group], features.n_numeric, side):
            one, other = (lines(tuple(columns.tolist())) for columns in tile.columns)
            i, j = tile.sides
            m = np.minimum(np.abs(column_products(one, other, weights)[i, 0, j, 0]), 1)
            varies = (one.scale[i] > 0) & (other.scale[j] > 0)
            pearson[tile.places] = np.where(varies, m, np.nan)
    return pearson


def side_of_tiles(memory: int, rows: int, functions: int) -> int:
    """Return how many columns a tile has, so that functions and their products fit in memory."""
    most = min(memory // (64 * rows * functions), int((memory / 32) ** 0.5) // functions)
    return min(max(most, 1), TILE)


def estimate_kb(features: Features, kernels: Kernels, pairs: Integers, memory: int) -> Estimates:
    """Estimate HGR-KB of ``pairs (N, 2)``."""
    estimates = Estimates.none(len(pairs))
    estimates.rows[:] = np.rint(features.over_shared_rows(pairs, 0))
    ordered = np.sort(pairs, axis=1)
    for group, shared in features.by_shared_rows(pairs):
        if shared.sum() >= 2:
            solver = _SharedPolynomials(features, shared, kernels)
            side = side_of_tiles(memory, int(shared.sum()), solver.degree)
            for tile in tiles_of(ordered, group, features.n_numeric, side):
                solver.solve(estimates, tile, pairs)
    lost = (estimates.degrees == 0).any(axis=1)
    for values in (estimates.value, estimates.statistic, estimates.pearson):
        values[lost] = np.nan
    return estimates


class _SharedPolynomials:
    """HGR-KB of pairs of columns on the rows that they share."""

    def __init__(self, features: Features, shared: NDArray[np.bool_], kernels: Kernels) -> None:
        self.features, self.kernels = features, kernels
        self.degree = max(kernels.h, kernels.k)
        self.rows, self.weights = features.rows_of(shared)
        self._functions = functools.lru_cache(maxsize=TILES_KEPT)(self._functions_of)

    def _functions_of(self, columns: tuple[int, ...]) -> tuple[RowFunctions, Integers]:
        """Return functions of numbers, or of categories, and how many each has."""
        if columns[0] >= self.features.n_numeric:
            of = [LevelColumn.of(self.features.values(c)[self.rows], self.weights) for c in columns]
            return Lookup.of_levels(of), np.array([column.count for column in of])
        x = within_range(self.features.x[self.rows][:, columns])
        shares = None if self.weights is None else self.weights / self.weights.sum()
        polynomials = ColumnPolynomials.of(x, shares, self.degree)
        return polynomials, polynomials.counts

    def solve(self, estimates: Estimates, tile: Tile, pairs: Integers) -> None:
        """Put the estimates of a tile of ``pairs (N, 2)``."""
        (one, h), (other, k) = (
            self._functions(tuple(columns.tolist())) for columns in tile.columns
        )
        products = column_products(one, other, self.weights)
        numbers = [columns[0] < self.features.n_numeric for columns in tile.columns]
        for part in chunks(np.arange(len(tile.places)), PAIRS_AT_ONCE):
            places, (i, j) = tile.places[part], (side[part] for side in tile.sides)
            m = np.moveaxis(products[i, :, j], 0, -1)
            flips = (pairs[places, 0] > pairs[places, 1])[:, None]
            degrees = (self.kernels.h, self.kernels.k)
            limits = np.where(flips, degrees[::-1], degrees)
            counts = np.where(numbers, np.minimum(limits, m.shape[:2]), m.shape[:2])
            value = top_correlations(m, counts)
            estimates.value[places] = estimates.statistic[places] = value
            if all(numbers):
                estimates.pearson[places] = np.minimum(np.abs(m[0, 0]), 1)
            used = np.minimum(np.stack([h[i], k[j]], axis=1), counts)
            estimates.degrees[places] = np.where(flips, used[:, ::-1], used)
