"""The columns that a scan is given: what they explain is removed from each pair, one by one.

The functions of the given columns ``(1 + r, n)``, 1 and orthonormal, are made once; they explain
part of the polynomials of a pair (`kb_given`).  HGR of a pair is by the regression of
`hgr_jax.hgr` given other columns, whose design is made once for the same rows.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.conditional_hgr import (
    ConditionalHGRFit,
    RankResiduals,
    fit_of_residuals,
    residuals_of,
)
from hgr_jax.core.host.conditioning import LEAST_GIVEN_ROWS, Conditioning, Variable
from hgr_jax.core.host.explained import LEAST_RESIDUAL
from hgr_jax.core.host.linalg import (
    orthonormalise,
    residuals,
    top_correlations,
    top_singular_values,
)
from hgr_jax.core.host.polynomials import centred_indicators, fit_pair, polynomials_at
from hgr_jax.core.monomials import MAX_MONOMIALS, check_monomials, products_of_functions
from hgr_jax.core.ranks import OF_BOTH, rank_functions
from hgr_jax.inference.independence import ColumnTests, kept_columns
from hgr_jax.scanning.features import Estimates, Features, Kernels, within_range

ROWS_PER_FUNCTION = 10
"""Number of rows for each function of given columns, of which HGR needs no degree."""


@dataclasses.dataclass(frozen=True)
class GivenColumns:
    """Given columns, their names, and the total degree of their polynomials.

    Numbers that are ``ranked`` have functions of ranks in place of polynomials.
    """

    features: Features
    degree: int
    names: Sequence[str] = ()
    is_ranked: bool = False

    def ranked(self) -> GivenColumns:
        """Replace numbers by their ranks."""
        # A column that is a function of one given column is then explained.
        degree = max(self.degree, OF_BOTH) if self.features.n_numeric == 1 else self.degree
        return GivenColumns(self.features.ranked(), degree, self.names, is_ranked=True).lowered()

    def lowered(self) -> GivenColumns:
        """Lower the degree until there are ten rows for each function, or to 1."""
        numbers, degree = self.features.n_numeric, self.degree
        most = min(MAX_MONOMIALS, self.features.rows // ROWS_PER_FUNCTION)
        while degree > 1 and math.comb(numbers + degree, degree) - 1 > most:
            degree -= 1
        return dataclasses.replace(self, degree=degree)

    def functions(self) -> NDArray[np.float64]:
        """Return 1 and orthonormal functions, ``(1 + r, n)``, 0 in rows that are dropped.

        Polynomials of total degree ``degree`` of all the numbers, and an indicator of each level
        of every category.
        """
        numbers, codes, w = self.features.x, self.features.codes, self.features.weights
        check_monomials("given degree", self.degree, numbers)
        rows = np.asarray(~np.isnan(numbers).any(axis=1) & (codes >= 0).all(axis=1))
        w = np.ones(rows.sum()) if w is None else w[rows].astype(np.float64)
        shares = w / w.sum()
        parts = [centred_indicators(c, shares, int(c.max()) + 1) for c in codes[rows].T]
        if numbers.shape[1]:
            functions_of = _rank_functions_of if self.is_ranked else _polynomials_of
            factors = [functions_of(x, shares, self.degree) for x in numbers[rows].T]
            parts.insert(0, products_of_functions(factors, self.degree))
        basis = np.concatenate(parts)
        if numbers.shape[1] != 1 or codes.shape[1]:
            basis = residuals(basis, np.zeros((0, len(w))), w)
        basis = basis[basis.any(axis=1)]
        conditioning = np.zeros((1 + len(basis), len(rows)))
        conditioning[0, rows], conditioning[1:, rows] = 1, basis
        return conditioning


def _rank_functions_of(x: Floats, shares: Floats, degree: int) -> Floats:
    """Return 1 and orthonormal functions of the ranks ``x (n,)`` in [-1, 1]."""
    functions = np.zeros((1 + degree, len(x)))
    functions[0], functions[1:] = 1, orthonormalise(rank_functions((x + 1) / 2, degree), shares)[0]
    return functions


def _polynomials_of(x: Floats, shares: Floats, degree: int) -> Floats:
    """Return 1 and orthonormal polynomials of ``x (n,)``, 0 beyond its number of values."""
    polynomials = np.zeros((1 + degree, len(x)))
    p = polynomials_at(x, shares, degree)
    polynomials[0], polynomials[1 : 1 + len(p)] = 1, p
    return polynomials


def conditioning_on(conditioning: Floats, rows: Integers, weights: Floats) -> Floats:
    """Return 1 and orthonormal functions ``(1 + r, len(rows))`` of given columns on some rows."""
    functions = conditioning[1:, rows].astype(np.float64)
    basis = residuals(functions, np.zeros((0, len(rows))), weights)
    return np.concatenate([np.ones((1, len(rows))), basis])


def kb_given(features: Features, kernels: Kernels, pairs: Integers) -> Estimates:
    """Estimate HGR-KB of ``pairs (N, 2)`` given columns, each on the rows that it shares."""
    estimates = Estimates.none(len(pairs))
    estimates.rows[:] = features.over_shared_rows(pairs, 0)
    assert features.conditioning is not None
    for group, shared in features.by_shared_rows(pairs):
        rows = np.flatnonzero(shared)
        if len(rows) < 2:
            continue
        w = np.ones(len(rows)) if features.weights is None else features.weights[rows]
        conditioning = conditioning_on(features.conditioning, rows, w)
        for place in group.tolist():
            i, j = pairs[place].tolist()
            a, b = (within_range(features.values(c)[rows, None])[:, 0] for c in (i, j))
            of_each = features.kernel(i, kernels.h), features.kernel(j, kernels.k)
            fitted = fit_pair(a, b, w, of_each)
            f, g = (
                orthonormalise(side, fitted.shares, conditioning, LEAST_RESIDUAL)[0]
                for side in fitted.sides
            )
            # Functions that others or the given ones explain, as one indicator of levels, are 0.
            estimates.degrees[place] = f.any(axis=1).sum(), g.any(axis=1).sum()
            if not estimates.degrees[place].all():
                continue
            m = ((f * fitted.shares) @ g.T)[..., None]
            numbers = [column < features.n_numeric for column in (i, j)]
            linear = np.where(numbers, 1, m.shape[:2])[None]
            estimates.value[place] = estimates.statistic[place] = top_singular_values(m)[0]
            estimates.linear[place] = top_correlations(m, linear)[0]
            if all(numbers):
                estimates.pearson[place] = estimates.linear[place]
    estimates.value[:] = np.minimum(estimates.value, 1)
    estimates.statistic[:] = np.minimum(estimates.statistic, 1)
    return estimates


def fits_given(
    features: Features, given: GivenColumns, pairs: Integers
) -> Iterator[tuple[int, ConditionalHGRFit]]:
    """Fit HGR of ``pairs (N, 2)`` given columns, as `hgr_jax.hgr_fit`; yield places and fits.

    None of few rows, and none where a column does not vary.
    """
    for places, rows in _pairs_by_rows(features, given, pairs):
        if rows.sum() >= LEAST_GIVEN_ROWS:
            regression = _Regression(features, given, rows)
            for place in places.tolist():
                sides = [regression.residuals(int(column)) for column in pairs[place]]
                if all(len(side.values) for side in sides):
                    yield place, fit_of_residuals(sides[0], sides[1], regression.conditioning)


class _Regression:
    """The regression of columns on the given ones, on some rows: made once for each column."""

    def __init__(self, features: Features, given: GivenColumns, rows: NDArray[np.bool_]) -> None:
        self.features, self.rows = features, rows
        w = None if features.weights is None else features.weights[rows]
        self.weights = w if w is not None and np.ptp(w) else None
        of = given.features
        columns = range(of.n_numeric + of.codes.shape[1])
        variables = [_variable(of, column, rows, self.weights) for column in columns]
        used = [variable for variable in variables if len(variable.functions)]
        self.conditioning = Conditioning(used, int(rows.sum()), self.weights)
        self.residuals = functools.lru_cache(kept_columns(len(rows)))(self._residuals)

    def _residuals(self, column: int) -> RankResiduals:
        variable = _variable(self.features, column, self.rows, self.weights)
        return residuals_of(variable, self.conditioning)


def _variable(
    features: Features, column: int, rows: NDArray[np.bool_], weights: Floats | None
) -> Variable:
    values = features.values(column)[rows]
    if column < features.n_numeric:
        return Variable.of_number(values, weights)
    return Variable.of_levels(values.astype(np.int64), weights)


def _pairs_by_rows(
    features: Features, given: GivenColumns, pairs: Integers
) -> Iterator[tuple[Integers, NDArray[np.bool_]]]:
    """Yield the places of pairs that share the same rows, and the mask ``(n,)`` of these.

    Pairs of columns whose residuals are kept follow each other.
    """
    of = given.features
    present = ~np.isnan(of.x).any(axis=1) & (of.codes >= 0).all(axis=1)
    if features.weights is not None:
        present &= features.weights > 0
    patterns = np.sort(features.patterns.index[pairs], axis=1)
    tiles = pairs // (kept_columns(features.rows) // 2)
    for pattern in np.unique(patterns, axis=0):
        places = np.flatnonzero((patterns == pattern).all(axis=1))
        shared = np.asarray(features.patterns.present[:, pattern].all(axis=1))
        yield places[np.lexsort(tiles[places].T)], present & shared


def conditional_tests(
    features: Features,
    given: GivenColumns,
    pairs: Integers,
    usable: NDArray[np.bool_],
) -> Floats:
    """Return p-values ``(N,)`` of ``pairs (N, 2)``, NaN for pairs that are not ``usable``.

    Of the rows where both columns are present, as `independence_test` with ``given``.
    """
    pvalues, w = np.full(len(pairs), np.nan), features.weights
    numbers, codes = given.features.x, given.features.codes
    conditioning = [*numbers.T, *codes.T]
    positions = tuple(range(-len(conditioning), 0))
    categories = range(features.n_numeric, features.n_numeric + features.codes.shape[1])
    levels = frozenset([*categories, *positions[numbers.shape[1] :]])
    chosen = np.flatnonzero(usable)
    for places, rows in _pairs_by_rows(features, given, pairs[chosen]):

        def values(column: int, rows: NDArray[np.bool_] = rows) -> Floats:
            x = conditioning[column] if column < 0 else features.values(column)
            return np.asarray(x[rows], np.float64)

        weights = None if w is None else w[rows]
        tests = ColumnTests(values, levels, int(rows.sum()), weights)
        for place in chosen[places]:
            a, b = pairs[place]
            pvalues[place] = tests.test(int(a), int(b), positions).pvalue
    return pvalues
