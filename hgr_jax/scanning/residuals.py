"""Residuals of functions of columns, given other columns: conditioning of many columns at once.

As in `hgr_jax.core.partial`.  The conditioning functions ``(1 + r, n)`` are 1 and orthonormal
functions of the given columns, 0 in rows that are dropped.  The functions of each column are
replaced, once, by their residuals on the column's own rows (`ResidualFunctions`).  On the rows of a
pair the conditioning functions still explain a small part of them, which is subtracted from the
pair's moments (`Explained`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.linalg import orthonormalise, orthonormalising_maps, residuals
from hgr_jax.core.host.polynomials import centred_indicators, polynomials_at
from hgr_jax.core.kernels import check_monomials, products_of_functions
from hgr_jax.core.partial import EXPLAINED
from hgr_jax.core.ranks import OF_BOTH, rank_functions
from hgr_jax.scanning.features import Features, RowFunctions, within_range
from hgr_jax.scanning.sums import Block, level_features, sum_in_blocks

DEPENDENCE_TOLERANCE = 1e-10
"""Share of a conditioning function's residual, given the earlier ones, that counts as rounding."""


@dataclasses.dataclass(frozen=True)
class GivenColumns:
    """Given columns, and the total degree of their polynomials.

    Numbers that are ``ranked`` have functions of ranks in place of polynomials.
    """

    features: Features
    degree: int
    is_ranked: bool = False

    def ranked(self) -> GivenColumns:
        """Replace numbers by their ranks."""
        # A column that is a function of one given column is then explained.
        degree = max(self.degree, OF_BOTH) if self.features.n_numeric == 1 else self.degree
        return GivenColumns(self.features.ranked(), degree, is_ranked=True)

    def functions(self) -> NDArray[np.float64]:
        """Return 1 and orthonormal functions, ``(1 + r, n)``, 0 in rows that are dropped.

        Polynomials of total degree ``degree`` of all the numbers, and an indicator of each level
        of every category.
        """
        numbers, codes, w = self.features.x, self.features.codes, self.features.weights
        if self.features.float64_values is not None:
            numbers = within_range(self.features.float64_values)
        check_monomials("given degree", self.degree, cast(Any, numbers))  # it reads the shape only
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


@dataclasses.dataclass(frozen=True)
class ResidualFunctions:
    """Residuals of functions given ``conditioning``, near-orthonormal on each column's rows.

    Attributes:
      functions: functions of the columns.
      conditioning: ``(1 + r, n)``, the conditioning functions.
      maps: ``(c, d, d)``, applied to the functions.
      shares: ``(c, d, 1 + r)``, coefficients of the conditioning functions, which are subtracted.
    """

    functions: RowFunctions
    conditioning: Floats
    maps: Floats
    shares: Floats

    @property
    def count(self) -> int:
        """The number of functions of a column."""
        return self.functions.count

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of columns."""
        return self.functions.shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the values."""
        return self.functions.dtype

    def take(self, columns: Integers) -> ResidualFunctions:
        """Select columns."""
        inner = self.functions.take(columns)
        if inner is self.functions:
            return self
        return ResidualFunctions(inner, self.conditioning, self.maps[columns], self.shares[columns])

    def __call__(self, rows: slice) -> Floats:
        """Return ``(1 + d, c, rows)``, 1 first; all 0 where a column is missing."""
        p = self.functions(rows)
        residual = np.matmul(self.maps, p[1:].swapaxes(0, 1))
        # Small products, column by column: in large ones, BLAS's threads and XLA's, which work at
        # the same time, would wait for each other.
        residual -= np.matmul(self.shares, self.conditioning[:, rows])
        missing = p[0] == 0
        if missing.any():
            residual[np.broadcast_to(missing[:, None], residual.shape)] = 0
        p[1:] = residual.swapaxes(0, 1)
        return p


def residual_functions(
    functions: RowFunctions,
    moments: Floats,
    conditioning: NDArray[np.float64],
    present: NDArray[np.bool_],
    pattern: Integers,
    weights: Floats | None,
) -> tuple[ResidualFunctions, NDArray[np.bool_]]:
    """Return the residuals of functions, and the mask ``(d, c)`` of those beyond rounding.

    Args:
      functions: near-orthonormal functions.
      moments: ``(1 + d, 2 + d + r, c)``, their `own_moments` with the conditioning functions.
      conditioning: ``(1 + r, n)``.
      present: ``(n, u)``, mask of the rows of each pattern of missing values.
      pattern: ``(c,)``, the pattern of each column.
      weights: ``(n,)`` or None.
    """
    dtype = functions.dtype
    total = np.where(moments[0, 0] > 0, moments[0, 0], 1)

    def row_weights(rows: slice) -> Floats:
        return np.ones_like(conditioning[:1, rows]) if weights is None else weights[None, rows]

    def rows_of_patterns(rows: slice) -> Floats:
        return np.ascontiguousarray(present[rows].T, np.float64)

    count = functions.count
    maps: Floats = np.eye(len(conditioning))[..., None]  # on all rows they are orthonormal
    if present.shape[1] > 1:
        counts = (present.shape[1], 1)
        maps = conditioning_maps(conditioning, rows_of_patterns, row_weights, counts)
        maps = maps[:, :, pattern, 0]
    maps = np.broadcast_to(maps, (len(conditioning), len(conditioning), len(pattern)))
    gram, cross = moments[1:, 1 : 1 + count] / total, moments[1:, 1 + count :] / total
    explained = np.einsum("jlc,klc->kjc", cross, maps)
    diag = np.arange(count)
    covariance = gram - np.einsum("kic,kjc->ijc", explained, explained)
    transform, alive = orthonormalising_maps(covariance, gram[diag, diag], EXPLAINED[str(dtype)])
    shares = np.einsum("ijc,kjc,klc->cil", transform, explained, maps, optimize=True)
    of_functions = np.moveaxis(transform, -1, 0)
    parts = (part.astype(dtype) for part in (conditioning, of_functions, shares))
    return ResidualFunctions(functions, *parts), alive


def conditioning_maps(
    conditioning: NDArray[np.float64],
    rows_of_patterns: Block,
    weights_of_others: Block,
    counts: tuple[int, int],
) -> Floats:
    """Return maps that make conditioning functions orthonormal on the rows that two patterns share.

    Lower triangular, ``(1 + r, 1 + r, o, u)``, for ``counts`` patterns; 0 in the rows of functions
    that depend on others there.
    """
    size = len(conditioning)
    left, right = np.triu_indices(size)

    def block(rows: slice) -> Floats:
        z = conditioning[:, rows]
        products = (z[left] * z[right])[:, None] * rows_of_patterns(rows)[None]
        return products.reshape(-1, products.shape[-1]) @ weights_of_others(rows).T

    width = len(left) * counts[0]
    sums = sum_in_blocks(block, conditioning.shape[1], width).reshape(-1, *counts)
    gram = np.empty((size, size, *counts))
    gram[left, right] = gram[right, left] = sums
    total = gram[0, 0]
    gram = gram / np.where(total > 0, total, 1)
    return orthonormalising_maps(gram, np.ones(gram.shape[1:]), DEPENDENCE_TOLERANCE)[0]


def conditioning_moments(
    functions: RowFunctions, conditioning: Floats, patterns: Block, count: int
) -> Floats:
    """Sum ``w_u p_a z_k`` of each column over rows, ``(d, c, 1 + r, u)``."""
    return _moments_with(lambda rows: functions(rows)[1:], conditioning, patterns, count)


def level_moments(
    codes: Integers,
    levels: tuple[Integers, Integers],
    conditioning: Floats,
    patterns: Block,
    count: int,
) -> Floats:
    """Sum ``w_u [level l] z_k`` over rows, ``(m, 1 + r, u)``."""

    def indicators(rows: slice) -> Floats:
        return level_features(codes[rows], levels, conditioning.dtype)

    return _moments_with(indicators, conditioning, patterns, count)


def _moments_with(
    features: Callable[[slice], Floats], conditioning: Floats, patterns: Block, count: int
) -> Floats:
    shape: tuple[int, ...] = features(slice(0, 1)).shape[:-1]

    def block(rows: slice) -> Floats:
        f, z, w = features(rows), conditioning[:, rows], patterns(rows)
        weighted = (z[:, None] * w[None]).reshape(-1, z.shape[1])
        return f.reshape(-1, f.shape[-1]) @ weighted.T

    width = int(np.prod(shape)) + len(conditioning) * count
    sums = sum_in_blocks(block, conditioning.shape[1], width)
    return sums.reshape(*shape, len(conditioning), count)


class Explained(NamedTuple):
    """Projections of features on the conditioning functions, on the rows of some patterns.

    Attributes:
      orthonormal: ``(r, d, c, u)``, coordinates on the orthonormalised functions, without 1.
      unwhitened: ``(1 + r, d, c, u)``, coefficients of the functions themselves.
    """

    orthonormal: Floats
    unwhitened: Floats


def explained_share(sums: Floats, maps: Floats, total: Floats) -> Explained:
    """Project features on the conditioning functions.

    Args:
      sums: ``(d, c, 1 + r, u)``, `conditioning_moments`.
      maps: ``(1 + r, 1 + r, c, u)``, `conditioning_maps`.
      total: ``(c, u)``, the sums of weights.
    """
    means = sums / np.where(total > 0, total, 1)[None, :, None]
    orthonormal = np.einsum("dclu,klcu->kdcu", means, maps, optimize=True)
    return Explained(
        orthonormal[1:], np.einsum("kdcu,klcu->ldcu", orthonormal, maps, optimize=True)
    )


def less_explained(moments: Floats, explained: Floats) -> tuple[Floats, Floats]:
    """Subtract the explained part ``(r, d, c, u)`` from moments ``(1 + d, 1 + d, c, u)``.

    Also return the smallest residual share ``(c, u)`` of a function.
    """
    remaining = moments.copy()
    remaining[1:, 1:] -= np.einsum("kicu,kjcu->ijcu", explained, explained) * moments[0, 0]
    diagonal = np.arange(1, len(moments))
    before, after = moments[diagonal, diagonal], remaining[diagonal, diagonal]
    kept = np.where(before > 0, after / np.where(before > 0, before, 1), 1)
    return remaining, np.clip(kept.min(axis=0, initial=1), 0, 1)


def without_explained(block: Floats, left: Floats | None, right: Floats | None) -> Floats:
    """Subtract the explained parts ``(r, d or e, N)`` from cross moments ``(d, e, N)``."""
    if left is None or right is None:
        return block
    return block - np.einsum("kin,kjn->ijn", left, right, optimize=True)


def conditioning_on(conditioning: Floats, rows: Integers, weights: Floats) -> Floats:
    """Return 1 and orthonormal functions ``(1 + r, len(rows))`` of given columns on some rows."""
    functions = conditioning[1:, rows].astype(np.float64)
    basis = residuals(functions, np.zeros((0, len(rows))), weights)
    return np.concatenate([np.ones((1, len(rows))), basis])
