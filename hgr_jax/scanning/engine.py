"""[engine] HGR of many pairs of columns from one matrix product.

Every pair's matrix of cross moments is a block of the Gram matrix of all the columns' features
(`products`), with moments of each column over the rows of each pattern of missing values (`sums`).
What is left is a batch of small problems (`solve`).  The engine has all rows: it can fit and repair
the bases on them, and pairs whose own rows leave a basis ill conditioned are estimated on their own
(`fallback`).


[estimate] Estimates of pairs with any kernels, from the engine.

[generic] Any measure of two vectors on many pairs of columns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._checks import as_estimate
from hgr_jax.core.host.polynomials import Polynomials
from hgr_jax.scanning.bases import blurred, count_distinct, features_of_kernels, polynomials_of
from hgr_jax.scanning.features import (
    ColumnPolynomials,
    Estimates,
    Features,
    Kernels,
    RowFunctions,
    patterns_of,
)
from hgr_jax.scanning.residuals import (
    Explained,
    explained_share,
    known_maps,
    known_moments,
    level_moments,
    rest_of,
)
from hgr_jax.scanning.solve import (
    Again,
    Side,
    TilePairs,
    Tiles,
    estimate_separately,
    estimates,
    filled,
    side_of_levels,
    side_of_numbers,
    standard_errors,
)
from hgr_jax.scanning.sums import (
    Batch,
    Block,
    Layout,
    cross_sums,
    level_features,
    own_moments,
    own_products,
    own_sums,
    shared_weights,
)

APART = 2**22
"""Rows of pairs, at most, that are estimated one by one beside an ill-conditioned column.

On the host, in float64: only where the columns have its digits.
"""


class Engine:
    """The features of a table, ready for the estimates of any of its pairs.

    Attributes:
      well_conditioned: ``(p,)`` False for a numeric column for which no such basis was found.
    """

    def __init__(
        self, features: Features, kernels: Kernels, memory: int, *, errors: bool = False
    ) -> None:
        """Prepare the columns; ``errors`` asks for standard errors too."""
        self.features, self.errors = features, errors
        self.kernels = kernels
        self.memory = memory
        self.patterns = patterns_of(features)
        self.shared = self.patterns.shared_rows()
        self.layout = Layout.of(
            features.n_numeric,
            features.levels,
            kernels,
            self.patterns.pattern_index,
            features.x.dtype,
            memory,
        )
        self.well_conditioned = np.ones(features.n_numeric, bool)
        self.cross: NDArray[np.float64] | None = None
        self.functions: RowFunctions = ColumnPolynomials(
            features.x, Polynomials.none(kernels.largest)
        )
        if features.n_numeric:
            self._fit_bases()
        self.batch = Batch(self.functions, features.codes, features.weights, self.patterns.present)

    @property
    def alike(self) -> bool:
        """Whether all columns are present in the same rows."""
        return self.layout.alike

    def _fit_bases(self) -> None:
        features, kernels = self.features, self.kernels
        x, known = features.x, features.known
        self._kept = None if known is None else known.astype(x.dtype)
        self.in_span: NDArray[np.bool_]
        if kernels.plain:
            found, moments, self.well_conditioned, changed = polynomials_of(
                x, features.weights, kernels.largest, self.memory, self._measured, self._kept
            )
            self.functions, self.in_span = found, found.basis.in_span
            self.cross = None if changed else self.cross
            self._tell_hidden()
        else:
            self.in_span = np.ones((kernels.largest, features.n_numeric), bool)
            self.functions = features_of_kernels(features, kernels, self.memory, self._measured)
            constant = np.ones((1, features.rows))
            moments = self._measured(self.functions, constant.astype(x.dtype))
            moments = self._take_out(constant, moments, self._kept)
        if known is not None:
            moments = self._take_out(known, moments, None)
        self.moments = moments

    def _tell_hidden(self) -> None:
        """Let columns be ill conditioned of whose values the features' dtype has too few digits."""
        if isinstance(self.functions, ColumnPolynomials):
            self.well_conditioned &= ~blurred(self.functions.basis, self.features.x)
        directions, all_digits = self.in_span.sum(axis=0), self.features.unrounded
        few = np.flatnonzero(directions < self.kernels.largest)
        if all_digits is not None and len(few):
            expected = np.minimum(count_distinct(all_digits[:, few]) - 1, self.kernels.largest)
            self.well_conditioned[few] &= directions[few] >= expected

    def _take_out(
        self, known: NDArray[np.float64], moments: Floats, beside: Floats | None
    ) -> Floats:
        """Replace the functions by what known ones leave of them; return the moments of these."""
        features, patterns = self.features, self.patterns
        pattern = patterns.pattern_index[: features.n_numeric]
        self.functions, alive = rest_of(
            self.functions, moments, known, patterns.present, pattern, features.weights
        )
        self.in_span = self.in_span & alive
        return self._measured(self.functions, beside)

    def _measured(self, functions: RowFunctions, beside: Floats | None) -> Floats:
        """Return moments ``(d + 1, d + 1, c)`` of columns on their rows.

        With those with functions ``beside (m, n)`` of the rows, as `own_moments` has them, if any;
        without, of functions that stay, where all columns are in one tile, from all products.
        """
        degree, columns = functions.count, functions.shape[1]
        tiles = self.layout.tiles[:columns]
        if beside is None and self.alike and tiles[-1] == 0:
            self.cross = own_products(functions, self.features.weights)
            place = 1 + np.arange(degree)[:, None] * columns + np.arange(columns)[None, :]
            place = np.concatenate([np.zeros((1, columns), np.intp), place])
            return self.cross[place[:, None], place[None, :]]
        width = degree + 1 + (0 if beside is None else len(beside))
        moments = np.empty((degree + 1, width, columns))
        for tile in np.unique(tiles):
            part = np.flatnonzero(tiles == tile)
            own = functions.take(part)
            moments[..., part] = own_moments(own, self.features.weights, beside)
        return moments

    def estimate(
        self,
        pairs: Integers,
        progress: Callable[[int], None] = lambda done: None,
        blocks: Callable[[Integers, Floats], None] = lambda positions, m: None,
    ) -> Estimates:
        """Estimate HGR of ``pairs (N, 2)``; see `hgr_jax.scanning.solve.estimates`.

        Those with an ill-conditioned column on their own, where that is not too much work; it
        counts as well conditioned then.
        """
        ill = np.append(~self.well_conditioned, False)
        ill = ill[np.minimum(pairs, self.features.n_numeric)]
        exact = self.features.unrounded is not None or self.features.x.dtype == np.float64
        some = np.asarray(ill.any(axis=1)) & exact
        apart = some if some.sum() * self.features.rows <= APART else np.zeros_like(some)
        found = estimates(
            self.layout,
            self.shared,
            self._tiles,
            pairs,
            progress=progress,
            blocks=blocks,
            again=self._separately,
            apart=apart,
            errors=self._errors if self.errors else None,
        )
        if apart.any():
            self._settle(pairs[apart], ill[apart], found.degrees[apart])
        return found

    def _settle(self, pairs: Integers, ill: NDArray[np.bool_], directions: Integers) -> None:
        """Let ill-conditioned columns be fine that have all their directions ``(N, 2)`` apart."""
        self.well_conditioned[pairs[ill]] = True
        for place, side in np.argwhere(ill):
            column, (one, other) = pairs[place, side], pairs[place]
            rows = self.features.present(one) & self.features.present(other)
            values = int(count_distinct(self.features.digits(column)[rows, None])[0])
            limit = (self.kernels.h, self.kernels.k)[side]
            self.well_conditioned[column] &= directions[place, side] >= min(values - 1, limit)

    def _separately(self, pairs: Integers) -> Again:
        return estimate_separately(self.features, self.kernels, pairs, errors=self.errors)

    def _tiles(self, left: Integers, right: Integers) -> Tiles:
        """Return sides and cross moments of two tiles."""
        of_left, of_right = (self.layout.patterns_of(columns) for columns in (left, right))
        own = self.side(left, of_right)
        sides = (own, own if left[0] == right[0] else self.side(right, of_left))
        return Tiles(sides, self._cross(left, right), self._totals(of_left, of_right))

    def _cross(self, left: Integers, right: Integers) -> Floats:
        if self.cross is not None and self.layout.is_number(right):  # all numbers are in one tile
            cross, self.cross = self.cross[1:, 1:], None
            return cross
        return cross_sums(self.layout, self.batch, left, right)

    def _totals(self, left: Integers, right: Integers) -> Floats:
        """Return sums of weights over the rows that two patterns share."""
        if self.features.weights is None:
            return self.shared[np.ix_(left, right)].astype(np.float64)
        return shared_weights(self.batch, left, right)

    def _errors(self, pairs: TilePairs) -> Floats:
        """Return standard errors of the pairs of two tiles."""
        features = [self._rows_of(pairs.left)]
        features += [self._rows_of(pairs.right)] if pairs.left[0] != pairs.right[0] else features
        return standard_errors(
            pairs.functions,
            features,
            pairs.value,
            pairs.total,
            self.features,
            self.patterns,
            pairs.patterns,
        )

    def _rows_of(self, columns: Integers) -> Block:
        """Return the features ``(width, c, rows)`` of a tile at some rows."""
        if self.layout.is_number(columns):
            own = self.functions.take(columns)
            return lambda rows: own(rows)[1:]
        column, level, _ = self.layout.levels_of(columns)
        codes, double = self.features.codes, np.dtype(np.float64)

        def held(rows: slice) -> Floats:
            found = level_features(codes[rows], (column, level), double)
            return filled(self.layout, columns, found)

        return held

    def side(self, columns: Integers, others: Integers) -> Side:
        """Whiten the features of ``columns`` on the rows of each of some patterns."""
        number = self.layout.is_number(columns)
        # On the rows of all columns, which are the same, the bases are near-orthonormal.
        fitted = number and self.alike
        own: Floats = (
            self.moments[..., columns, None]
            if fitted
            else own_sums(self.layout, self.batch, columns, others)
        )
        explained = None if fitted else self._explained(columns, others, own)
        if not number:
            return side_of_levels(self.layout, columns, own, explained)
        in_span = self.in_span[:, columns]
        return side_of_numbers(self.layout, own, in_span, explained, fitted=fitted)

    def _explained(self, columns: Integers, others: Integers, sums: Floats) -> Explained | None:
        """Return what is explained by what is given, of columns of such `own_sums`."""
        known = self.features.known
        if known is None:
            return None
        weights = self.batch.weights_of(others)
        if self.layout.is_number(columns):
            assert self._kept is not None
            functions, total = self.functions.take(columns), sums[0, 0]
            moments = known_moments(functions, self._kept, weights, len(others))
        else:
            column, level, _ = self.layout.levels_of(columns)
            codes, total = self.features.codes, filled(self.layout, columns, sums).sum(axis=0)
            moments = level_moments(codes, (column, level), known, weights, len(others))
            moments = filled(self.layout, columns, moments)
        own, place = np.unique(self.layout.patterns[columns], return_inverse=True)
        present = self.patterns.present

        def rows_of(rows: slice) -> Floats:
            return np.ascontiguousarray(present[rows][:, own].T, np.float64)

        maps = known_maps(known, rows_of, weights, (len(own), len(others)))
        return explained_share(moments, maps[:, :, place], total)


def estimate_pairs(
    features: Features,
    kernels: Kernels,
    pairs: Integers,
    memory: int,
    progress: Callable[[int], None] = lambda done: None,
    *,
    errors: bool = False,
) -> tuple[Estimates, NDArray[np.bool_]]:
    """Estimate ``pairs (N, 2)``, and say of which numeric columns ``(p,)`` the basis is fine.

    ``errors`` asks for standard errors too.
    """
    if kernels.plain:
        engine = Engine(features, kernels, memory, errors=errors)
        return engine.estimate(pairs, progress), engine.well_conditioned
    of_lines = Engine(features, Kernels(1, 1), memory).estimate(pairs)
    each = doubled(features, pairs) if kernels.differ else (features, pairs)
    found = Engine(each[0], kernels, memory, errors=errors).estimate(each[1], progress)
    lost = np.isnan(found.correlation)
    lines = {
        name: np.where(lost, np.nan, getattr(of_lines, name)) for name in ("pearson", "linear")
    }
    return dataclasses.replace(found, **lines), np.ones(features.n_numeric, bool)


def doubled(features: Features, pairs: Integers) -> tuple[Features, Integers]:
    """Return every number twice, with the kernel of the first side and of the second.

    And the positions of ``pairs (N, 2)`` among these columns.
    """
    numbers = features.n_numeric
    twice = np.concatenate([features.x, features.x], axis=1)
    found = dataclasses.replace(features, x=twice, unrounded=None)
    beyond = np.array([[0, numbers]])
    return found, pairs + np.where(pairs < numbers, beyond, numbers)


def estimate_measure(
    features: Features,
    measure: Callable[[Any, Any], Any],
    pairs: Integers,
    memory: int,
    progress: Callable[[int], None] = lambda done: None,
) -> Estimates:
    """Estimate |``measure``| of every pair of numeric columns, on the rows where both are present.

    The measures of this package have programs for few numbers of rows; another function has one
    for every number that occurs, and pairs without missing values share one.

    Raises:
      ValueError: for weights, which a measure of two vectors cannot take.
    """
    if features.weights is not None:
        raise ValueError("weights are for method='kb' or 'sk'.")
    x = features.x
    patterns = patterns_of(features)
    of = patterns.pattern_index[pairs]
    value, pearson = np.full(len(pairs), np.nan), np.full(len(pairs), np.nan)
    rows = patterns.shared_rows()[of[:, 0], of[:, 1]]
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
        value[part] = np.asarray(several(a, b))
        progress(min(at_once, len(whole) - start))
    single = one if ours else jax.jit(one)
    for index in np.flatnonzero(~complete & (rows >= 2)):
        keep = patterns.present[:, of[index]].all(axis=1)
        a, b = (jax.device_put(x[keep, column]) for column in pairs[index])
        value[index] = float(single(a, b))
        progress(1)
    for place, (i, j) in enumerate(pairs):
        keep = patterns.present[:, of[place]].all(axis=1)
        first, second = (x[keep, column].astype(np.float64) for column in (i, j))
        if len(first) >= 2:
            varies = np.ptp(first) > 0 and np.ptp(second) > 0
            pearson[place] = abs(np.corrcoef(first, second)[0, 1]) if varies else 0.0
    directions = np.ones((len(pairs), 2), np.intp)
    absent = np.full(len(pairs), np.nan)
    pivot = np.ones(len(pairs))
    return Estimates(value, pearson, pearson, directions, rows, pivot, absent)
