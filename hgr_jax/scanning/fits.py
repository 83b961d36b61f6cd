"""Fit one pair of a scan: its transformations, and the influence of rows.

`fit_of` returns a fit of `hgr_jax.kb_fit` whose transformations take labels.  `details_of` fits on
the host: the pairs that are shown are few and all different, and each number of rows and kind of
column would compile a program.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats
from hgr_jax._checks import check_level
from hgr_jax._threads import one_blas_thread
from hgr_jax.core.bias import is_dominant
from hgr_jax.core.host.conditional_hgr import ConditionalHGRFit, unknown_fit
from hgr_jax.core.host.estimates import HGREstimate, correlation_of
from hgr_jax.core.host.explained import LEAST_RESIDUAL
from hgr_jax.core.host.linalg import orthonormalise, top_singular_values
from hgr_jax.core.host.polynomials import PolynomialPair, fit_pair
from hgr_jax.core.host.ranks import MOST_FUNCTIONS, RankKernel
from hgr_jax.core.indicators import Indicators
from hgr_jax.core.ranks import LEAST_ROWS
from hgr_jax.inference.hgr_fits import HGRFit, LevelTransform, RankTransform, transform_of
from hgr_jax.inference.independence import independence_test
from hgr_jax.inference.level_tests import test_levels
from hgr_jax.scanning.features import as_features
from hgr_jax.scanning.given import conditional_tests, conditioning_on, fits_given
from hgr_jax.scanning.pairs import feature_places, selected
from hgr_jax.scanning.request import SOLVED
from hgr_jax.tables.columns import Columns
from hgr_jax.tables.levels import Category

Transform = RankTransform | LevelTransform

LISTED_ROWS = 20
"""Number of rows that `Influence.rows` lists."""


def fit_of(scan: Any, a: str, b: str) -> Any:
    """Fit the transformations of two columns of a `Scan`, by its measure."""
    check_fitted(scan)
    if scan._kernels.ranked:
        return _fit_of_ranks(scan, a, b) if scan._given is None else fit_given(scan, a, b)
    if scan._given is not None:
        given = ", ".join(scan.settings["given"])
        raise ValueError(
            f"fit is of two columns alone, and this scan is given {given}: kb_fit(a, b, given=...)"
            " has the transformations."
        )
    from hgr_jax.scanning.kb_fits import kb_fit_of  # needs JAX

    return kb_fit_of(scan, (a, b), kernels_of(scan, a, b))


def interval_of(scan: Any, a: str, b: str, level: float) -> tuple[float, float]:
    """Return an interval for the HGR of two columns of a `Scan`; NaN where there is no HGR."""
    check_fitted(scan)
    level = check_level("level", level)
    if scan._given is not None:
        return fit_given(scan, a, b).interval(level)
    pair = HostPair.of_ranks(scan, a, b)
    return pair.interval(_pvalue_of(scan, a, b, pair), level)


def _fit_of_ranks(scan: Any, a: str, b: str) -> HGRFit:
    """Fit HGR of two columns, with the p-value of the scan."""
    pair = HostPair.of_ranks(scan, a, b)
    if pair.estimate.rows < LEAST_ROWS:
        return HGRFit.unknown()
    categories = [scan.category(name) for name in (a, b)]
    return HGRFit.of(pair.estimate, pair.columns, categories, _pvalue_of(scan, a, b, pair))


def fit_given(scan: Any, a: str, b: str) -> ConditionalHGRFit:
    """Fit HGR of two columns given those of the scan, with its p-value."""
    names = [list(scan.names).index(name) for name in (a, b)]
    columns, pairs = selected(scan._columns, np.array([names]))
    features, places = as_features(columns, scan._weights), feature_places(columns)[pairs]
    pvalue = scan._value("pvalue", a, b)
    if math.isnan(pvalue):
        pvalue = float(conditional_tests(features, scan._given, places, np.array([True]))[0])
    for _, fit in fits_given(features, scan._given, places):
        return dataclasses.replace(fit, pvalue=pvalue)
    return unknown_fit("a column does not vary, or there are fewer than 10 rows", math.nan)


def _pvalue_of(scan: Any, a: str, b: str, pair: HostPair) -> float:
    """Return the p-value of two columns by the scan; without one, that of their test alone."""
    pvalue = scan._value("pvalue", a, b)
    return pair.pvalue if math.isnan(pvalue) and pair.varies else pvalue


def check_fitted(scan: Any) -> None:
    """Check that a scan has data, and a measure with transformations."""
    if scan.settings["measure"] not in SOLVED:
        raise ValueError(
            f"fit is for a scan of {', '.join(map(repr, SOLVED))}; got"
            f" {scan.settings['measure']!r}."
        )
    _ = scan.data


def kernels_of(scan: Any, a: str, b: str) -> tuple[Any, Any]:
    """Return the kernels of two columns; all categories have the largest number of levels.

    Degrees are k and h if ``b`` is the first column of the pair in the scan.
    """
    i, j = scan.names.index(a), scan.names.index(b)
    listed, turned = ((scan.pairs == pair).all(axis=1).any() for pair in ((i, j), (j, i)))
    h, k = scan._kernels.h, scan._kernels.k
    if scan._kernels.ranked:
        h = k = RankKernel(MOST_FUNCTIONS)
    if turned or (i > j and not listed):
        h, k = k, h
    sizes = [len(category.levels) for category in scan._columns.categories]
    one, other = (
        kernel if scan.category(name) is None else Indicators(max(sizes))
        for name, kernel in ((a, h), (b, k))
    )
    return one, other


@dataclasses.dataclass(frozen=True)
class Influence:
    """The rows with the largest contributions to the correlation of one pair.

    Attributes:
      share: the largest share of the correlation that a single row contributes, ``max_i w_i f(a_i)
        g(b_i) / correlation``; 1 / n if all rows contribute the same.  NaN where the correlation is
        below 2 / sqrt(n): there is nothing to share.
      row: position of that row in the table, from 0.
      value_without: the correlation without that row; NaN of HGR given other columns.
      rows: positions of the rows with the largest contributions, largest first.
      shares: their shares of the correlation.
      dominates: whether the share is large, as `Status.ONE_ROW` of a fit says.
    """

    share: float
    row: int
    value_without: float
    rows: tuple[int, ...]
    shares: tuple[float, ...]
    dominates: bool

    def in_table(self, columns: Columns) -> Influence:
        """Return it with positions in the table of which ``columns`` may be a sample of rows."""
        row, *rows = columns.positions_of([self.row, *self.rows])
        return dataclasses.replace(self, row=row, rows=tuple(rows))


@dataclasses.dataclass(frozen=True)
class PairDetails:
    """The transformations of one pair, and the influence of its rows.

    Attributes:
      f, g: transformations of both columns.
      influence: influence of single rows.
      residuals: with given columns, residuals ``(n,)`` of f and of g, NaN in rows that are not
        used; None without.
    """

    f: Transform
    g: Transform
    influence: Influence
    residuals: tuple[Floats, Floats] | None = None


@one_blas_thread()
def details_of(scan: Any, a: str, b: str) -> PairDetails | None:
    """Fit two columns of a `Scan` on the host; None where there is no correlation."""
    check_fitted(scan)
    kernels = kernels_of(scan, a, b)
    pair = HostPair.of(scan, (a, b), kernels, is_ranked=scan._kernels.ranked)
    return pair.details()


class HostPair:
    """Two columns on the rows where both are present, with orthonormal functions of each."""

    def __init__(
        self,
        columns: tuple[Floats, Floats],
        weights: Floats | None,
        kernels: tuple[Any, Any],
        categories: Sequence[Category | None],
        conditioning: Floats | None,
        *,
        is_ranked: bool,
    ) -> None:
        self.count, self.kernels, self.is_ranked = len(columns[0]), kernels, is_ranked
        self.categories = categories
        usable = ~(np.isnan(columns[0]) | np.isnan(columns[1]))
        if weights is not None:
            usable &= weights > 0
        self.rows = np.flatnonzero(usable)
        self.weights = np.ones(len(self.rows)) if weights is None else weights[self.rows].copy()
        self.columns = columns[0][self.rows], columns[1][self.rows]
        self.conditioning = None if conditioning is None else conditioning[:, self.rows]

    @classmethod
    def of(
        cls, scan: Any, names: tuple[str, str], kernels: tuple[Any, Any], *, is_ranked: bool
    ) -> HostPair:
        """Take two columns of a `Scan`."""
        weights = None if scan._weights is None else np.asarray(scan._weights, np.float64)
        columns = scan.values(names[0]), scan.values(names[1])
        levels = [scan.category(name) for name in names]
        return cls(columns, weights, kernels, levels, scan._conditioning, is_ranked=is_ranked)

    @classmethod
    def of_ranks(cls, scan: Any, a: str, b: str) -> HostPair:
        """Take two columns of a `Scan` with functions of the ranks, whatever its measure is."""
        categories = (scan.category(a), scan.category(b))
        kernels = [
            RankKernel(MOST_FUNCTIONS) if category is None else Indicators(len(category.levels))
            for category in categories
        ]
        return cls.of(scan, (a, b), (kernels[0], kernels[1]), is_ranked=True)

    def restricted(self, kept: NDArray[np.bool_]) -> HostPair:
        """Return the pair on some of its ``rows``."""
        columns = [np.full(self.count, np.nan) for _ in self.columns]
        for column, values in zip(columns, self.columns, strict=True):
            column[self.rows[kept]] = values[kept]
        weights, conditioning = np.zeros(self.count), None
        weights[self.rows] = self.weights
        if self.conditioning is not None:
            conditioning = np.full((len(self.conditioning), self.count), np.nan)
            conditioning[:, self.rows] = self.conditioning
        return HostPair(
            (columns[0], columns[1]),
            weights,
            self.kernels,
            self.categories,
            conditioning,
            is_ranked=self.is_ranked,
        )

    @functools.cached_property
    def shares(self) -> Floats:
        """The share of the weight of each row."""
        return self.weights / self.weights.sum()

    @functools.cached_property
    def fitted(self) -> PolynomialPair:
        """Orthonormal functions of both columns."""
        return fit_pair(*self.columns, self.weights, self.kernels)

    @functools.cached_property
    def _residuals(self) -> list[tuple[Floats, Floats]]:
        """Orthonormal residuals of the functions of both columns given others, and their maps."""
        if self.conditioning is None:
            return [(side, np.eye(len(side))) for side in self.fitted.sides]
        conditioning = conditioning_on(self.conditioning, np.arange(len(self.rows)), self.weights)
        return [
            orthonormalise(side, self.shares, conditioning, LEAST_RESIDUAL)
            for side in self.fitted.sides
        ]

    @property
    def sides(self) -> tuple[Floats, Floats]:
        """Orthonormal functions of both columns, or their residuals given others."""
        return self._residuals[0][0], self._residuals[1][0]

    @property
    def maps(self) -> tuple[Floats, Floats]:
        """The maps from `fitted` functions to residuals."""
        return self._residuals[0][1], self._residuals[1][1]

    @property
    def moments(self) -> Floats:
        """Means of the products of the functions of both columns, ``(h, k)``."""
        f, g = self.sides
        return np.asarray((f * self.shares) @ g.T)

    @property
    def varies(self) -> bool:
        """Whether both columns vary on the rows."""
        return len(self.rows) > 1 and all(x.min() < x.max() for x in self.columns)

    @property
    def of_levels(self) -> tuple[bool, bool]:
        """Which columns are categories."""
        return self.categories[0] is not None, self.categories[1] is not None

    @property
    def pvalue(self) -> float:
        """The p-value of independence, of ranks and levels, whatever is given."""
        if not self.varies:
            return 1.0
        weights = self.weights if np.ptp(self.weights) else None
        if any(self.of_levels):
            return test_levels(self.columns, self.of_levels, weights, None, None).pvalue
        return independence_test(*self.columns, weights=weights).pvalue

    @functools.cached_property
    def estimate(self) -> HGREstimate:
        """HGR of ranks, of the residuals if columns are given."""
        if self.conditioning is None:
            levels = [None if c is None else len(c.levels) for c in self.categories]
            return HGREstimate.of(self.columns, levels, self.weights)
        pair, of_levels = PolynomialPair(self.sides, self.shares), self.of_levels
        numbers = not of_levels[0], not of_levels[1]
        return HGREstimate(pair, numbers, float(1 / np.sum(self.shares**2)))

    @property
    def value(self) -> float:
        """The measure on the rows; 0 where a column does not vary."""
        if not self.varies:
            return 0.0
        if self.is_ranked:
            return self.estimate.value
        return min(float(top_singular_values(self.moments[..., None])[0]), 1.0)

    def interval(self, pvalue: float, level: float) -> tuple[float, float]:
        """Return an interval for HGR of ranks, as `HGRFit.interval` does."""
        if len(self.rows) < LEAST_ROWS or self.estimate.rows < LEAST_ROWS:
            return math.nan, math.nan
        return self.estimate.interval(pvalue, level)

    def details(self) -> PairDetails | None:
        """Return transformations and influence; None where there is no correlation."""
        if len(self.rows) < 2:
            return None
        transforms, both = self._functions()
        correlation, _ = correlation_of(*both, self.shares)
        if not correlation > 0:
            return None
        f, g = (
            transform_of(x, values, category)
            for x, values, category in zip(self.columns, transforms, self.categories, strict=True)
        )
        residuals = None
        if self.conditioning is not None:
            residuals = np.full(self.count, np.nan), np.full(self.count, np.nan)
            residuals[0][self.rows], residuals[1][self.rows] = both
        return PairDetails(f, g, self._influence(both, correlation), residuals)

    def _functions(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """Return f and g of both columns ``(n,)``, and the same or what is left given others."""
        if self.is_ranked and self.conditioning is None:
            both = self.estimate.functions
            return both, both
        h, k = self.estimate.degrees if self.is_ranked else self.moments.shape
        if not min(h, k):
            nothing = np.zeros((2, len(self.rows)))
            return (nothing[0], nothing[1]), (nothing[0], nothing[1])
        u, _, v = np.linalg.svd(self.moments[:h, :k])
        vectors = u[:, 0], v[0]
        sign = 1 if vectors[0][np.argmax(np.abs(vectors[0]))] > 0 else -1  # the sign of a fit
        f, g = (sign * x @ side[: len(x)] for x, side in zip(vectors, self.sides, strict=True))
        before = [
            sign * x @ of_side[: len(x)] @ side
            for x, of_side, side in zip(vectors, self.maps, self.fitted.sides, strict=True)
        ]
        return (before[0], before[1]), (f, g)

    def _value_without(self, row: int) -> float:
        """The measure without a row; NaN of HGR given others, whose regression takes all rows."""
        if self.conditioning is not None and self.is_ranked:
            return math.nan
        return self.restricted(np.arange(len(self.rows)) != row).value

    def _influence(self, both: tuple[Floats, Floats], correlation: float) -> Influence:
        """Return the rows with the largest contributions, and the value without the first."""
        contributions = self.shares * both[0] * both[1]
        largest = np.argsort(-contributions)[:LISTED_ROWS]
        shares = contributions[largest] / correlation
        is_large = correlation >= 2 * np.sqrt(np.sum(self.shares**2))
        return Influence(
            share=float(shares[0]) if is_large else math.nan,
            row=int(self.rows[largest[0]]),
            value_without=self._value_without(int(largest[0])),
            rows=tuple(self.rows[largest].tolist()),
            shares=tuple(shares.tolist()),
            dominates=bool(is_dominant(shares[0], self.shares[largest[0]], correlation)),
        )
