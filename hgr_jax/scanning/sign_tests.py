"""P-values of pairs given other columns, by random signs of what their rows add."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import numpy as np
from jax import Array
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.linalg import residuals, top_singular_values
from hgr_jax.core.host.polynomials import centred_indicators
from hgr_jax.core.host.ranks import RankedColumn, rows_worth
from hgr_jax.core.kernels import Indicators
from hgr_jax.inference.independence import (
    REACHED,
    conditional_test,
    polynomials_given,
    random_signs,
)
from hgr_jax.scanning.features import Features, Kernels
from hgr_jax.scanning.given import GivenColumns

MOST = 9999
"""The largest number of signs of a pair of numbers, as of `independence_test`."""

TIED = 1e-6
"""Relative difference below which two values count as equal."""


class SignTests:
    """Tests of pairs of columns given others: of numbers, by `independence_test`."""

    def __init__(
        self, features: Features, given: GivenColumns, kernels: Kernels, key: Array | None
    ) -> None:
        """Prepare tests of columns, of which numbers may be replaced by their ranks."""
        self.features, self.given, self.kernels, self.key = features, given, kernels, key
        # Of the rows of the last pair, which in most tables are those of all.
        self.key_of_rows, self.basis = b"", cast(Floats, np.zeros((0, 0)))
        self.ranked: dict[int, RankedColumn] = {}

    def pvalue(self, pair: Integers, permutations: int) -> float:
        """Return the p-value of two columns on the rows where both are present.

        ``permutations`` is how many signs a pair with a category has at most.
        """
        features, numbers = self.features, self.features.n_numeric
        there = features.present(pair[0]) & features.present(pair[1])
        w = features.weights
        if w is not None:
            there &= w > 0
            w = w[there].astype(np.float64)
            w = w if np.ptp(w) else None
        key = np.packbits(there).tobytes()
        if key != self.key_of_rows:
            self.key_of_rows, self.basis, self.ranked = key, self._basis_on(there, w), {}
        basis = self.basis
        if (pair < numbers).all():
            sides = self._ranks(pair[0], there, w), self._ranks(pair[1], there, w)
            return conditional_test(sides, basis, w, key=self.key, most=MOST).pvalue
        rows = int(there.sum())
        shares = np.full(rows, 1 / rows) if w is None else w / w.sum()
        left = []
        for column, degree in zip(pair, (self.kernels.h, self.kernels.k), strict=True):
            kernel = features.kernel(column, degree)
            if isinstance(kernel, Indicators):
                x = features.values(column)[there]
                functions = centred_indicators(x, shares, kernel.count)
            else:
                functions = self._ranks(column, there, w).polynomials()[:degree]
            left.append(residuals(functions, basis, w))
        if not all(len(side) for side in left):
            return 1.0
        worth = max(rows_worth(rows, w) - len(basis), 2.0)
        drawn = random_signs(self.key, rows, permutations, worth, len(basis))
        return _reaching(left[0] * shares, left[1], drawn, permutations)

    def _ranks(self, column: int, there: NDArray[np.bool_], weights: Floats | None) -> RankedColumn:
        """Return a column of numbers by its ranks among the rows of the last pair."""
        if column not in self.ranked:
            x = self.features.values(column)[there].astype(np.float64)
            self.ranked[column] = RankedColumn.of_values(x, weights)
        return self.ranked[column]

    def _basis_on(self, there: NDArray[np.bool_], weights: Floats | None) -> Floats:
        """Return orthonormal functions ``(r, m)`` of the given columns on some rows."""
        numbers, codes = self.given.features.x[there], self.given.features.codes[there]
        w = np.ones(len(codes)) if weights is None else weights
        parts: list[Floats] = [np.zeros((0, len(codes)))]
        if numbers.shape[1]:
            parts.append(polynomials_given(numbers.astype(np.float64), None, weights))
        parts += [centred_indicators(c, w / w.sum(), int(c.max()) + 1) for c in codes.T]
        basis = np.concatenate(parts)
        return residuals(basis, np.zeros((0, len(codes))), weights) if codes.shape[1] else basis


def _reaching(f: Floats, g: Floats, drawn: Iterator[Floats], most: int) -> float:
    """Return the p-value of the largest correlation of functions ``f`` and ``g``.

    Until 100 of the values under signs, of at most so many, reach it.
    """
    values = np.zeros(0)
    for signs in drawn:
        m = np.matmul(f[None] * signs[:, None], g.T)
        values = np.concatenate([values, top_singular_values(np.moveaxis(m, 0, -1))])
        reached = np.flatnonzero(values[1 : 1 + most] >= values[0] * (1 - TIED))
        if len(reached) >= REACHED:
            return float(REACHED / (1 + reached[REACHED - 1]))
    return float((1 + len(reached)) / (1 + most))


def sign_tests(
    features: Features,
    given: GivenColumns,
    kernels: Kernels,
    pairs: Integers,
    usable: NDArray[np.bool_],
    *,
    permutations: int,
    key: Array | None,
    progress: Callable[[int], None],
) -> Floats:
    """Return p-values ``(N,)`` of ``pairs (N, 2)``, NaN of those that are not ``usable``."""
    found = np.full(len(pairs), np.nan)
    tests = SignTests(features, given, kernels, key)
    for place in np.flatnonzero(usable):
        found[place] = tests.pvalue(pairs[place], permutations)
        progress(1)
    return found
