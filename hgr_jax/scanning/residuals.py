"""[given] What functions of given columns leave of those of the others.

As in `hgr_jax.core.partial`, of many columns at once.  ``known (1 + r, n)`` are 1 and orthonormal
functions of the given columns, 0 in rows that are dropped.  Each column's functions are replaced,
once, by what those leave of them on the column's own rows (`Rest`): the products of all pairs are
then those of any functions.  On the rows of a pair, where the known functions are not quite
orthonormal, the little that they still explain is taken off the small matrices.

"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.linalg import inverse_choleskies, residuals
from hgr_jax.core.host.polynomials import centred_indicators, polynomials_at
from hgr_jax.core.kernels import check_monomials, monomial_exponents
from hgr_jax.core.partial import EXPLAINED
from hgr_jax.scanning.features import Features, RowFunctions, within_range
from hgr_jax.scanning.sums import Block, level_features, sum_in_blocks

RANK = 1e-10
"""Share of a known function beside those before it, below which it is theirs on some rows."""


@dataclasses.dataclass(frozen=True)
class GivenColumns:
    """Given columns, and the total degree of their polynomials."""

    features: Features
    degree: int

    def ranked(self) -> GivenColumns:
        """Return these, numbers replaced by their ranks."""
        return GivenColumns(self.features.ranked(), self.degree)

    def functions(self) -> NDArray[np.float64]:
        """Return 1 and orthonormal functions, ``(1 + r, n)``, 0 in rows that are dropped.

        Polynomials of total degree ``degree`` of all the numbers, and an indicator of each level
        of every category.
        """
        numbers, codes, w = self.features.x, self.features.codes, self.features.weights
        if self.features.unrounded is not None:
            numbers = within_range(self.features.unrounded)
        columns = cast(Any, numbers)  # of which only the shape is read
        check_monomials("given_degree", self.degree, columns)
        there = np.asarray(~np.isnan(numbers).any(axis=1) & (codes >= 0).all(axis=1))
        w = np.ones(there.sum()) if w is None else w[there].astype(np.float64)
        shares = w / w.sum()
        parts = [centred_indicators(c, shares, int(c.max()) + 1) for c in codes[there].T]
        if numbers.shape[1]:
            factors = [_factor_of(x, shares, self.degree) for x in numbers[there].T]
            powers = np.array(monomial_exponents(len(factors), self.degree))
            several = np.ones((len(powers), len(shares)))
            for factor, power in zip(factors, powers.T, strict=True):
                several *= factor[power]
            parts.insert(0, several)
        some = np.concatenate(parts)
        if numbers.shape[1] != 1 or codes.shape[1]:
            some = residuals(some, np.zeros((0, len(w))), w)
        some = some[some.any(axis=1)]
        known = np.zeros((1 + len(some), len(there)))
        known[0, there], known[1:, there] = 1, some
        return known


def _factor_of(x: Floats, shares: Floats, degree: int) -> Floats:
    """Return 1 and orthonormal polynomials of ``x (n,)``, 0 where it has no such direction."""
    found = np.zeros((1 + degree, len(x)))
    p = polynomials_at(x, shares, degree)
    found[0], found[1 : 1 + len(p)] = 1, p
    return found


@dataclasses.dataclass(frozen=True)
class Rest:
    """What ``known`` leaves of ``functions``, near-orthonormal on the rows of each column.

    Attributes:
      maps: ``(c, d, d)``, of the functions.
      shares: ``(c, d, 1 + r)``, of the known ones, to be taken off.
    """

    functions: RowFunctions
    known: Floats
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
        """That of the values."""
        return self.functions.dtype

    def take(self, columns: Integers) -> Rest:
        """Return the functions of some columns."""
        inner = self.functions.take(columns)
        if inner is self.functions:
            return self
        return Rest(inner, self.known, self.maps[columns], self.shares[columns])

    def __call__(self, rows: slice) -> Floats:
        """Return ``(1 + d, c, rows)``, 1 first; all 0 where a column is missing."""
        p = self.functions(rows)
        left = np.matmul(self.maps, p[1:].swapaxes(0, 1))
        # Small products, column by column: those of BLAS's threads and of XLA's, which work at the
        # same time, wait for each other.
        left -= np.matmul(self.shares, self.known[:, rows])
        missing = p[0] == 0
        if missing.any():
            left[np.broadcast_to(missing[:, None], left.shape)] = 0
        p[1:] = left.swapaxes(0, 1)
        return p


def rest_of(
    functions: RowFunctions,
    moments: Floats,
    known: NDArray[np.float64],
    present: NDArray[np.bool_],
    pattern: Integers,
    weights: Floats | None,
) -> tuple[Rest, NDArray[np.bool_]]:
    """Return what known functions leave of others, and which of these ``(d, c)`` are alive.

    Args:
      functions: near-orthonormal.
      moments: ``(1 + d, 2 + d + r, c)``, of them and of the known ones, as `own_moments` has them.
      known: ``(1 + r, n)``.
      present: ``(n, u)``, the rows of each pattern of missing values.
      pattern: ``(c,)``, which of them a column has.
      weights: ``(n,)`` or None.
    """
    dtype = functions.dtype
    total = np.where(moments[0, 0] > 0, moments[0, 0], 1)

    def whole(rows: slice) -> Floats:
        """Return the weights ``(1, rows)`` of rows."""
        return np.ones_like(known[:1, rows]) if weights is None else weights[None, rows]

    def own(rows: slice) -> Floats:
        return np.ascontiguousarray(present[rows].T, np.float64)

    count = functions.count
    maps: Floats = np.eye(len(known))[..., None]  # on all rows they are orthonormal
    if present.shape[1] > 1:
        maps = known_maps(known, own, whole, (present.shape[1], 1))[:, :, pattern, 0]
    maps = np.broadcast_to(maps, (len(known), len(known), len(pattern)))
    gram, cross = moments[1:, 1 : 1 + count] / total, moments[1:, 1 + count :] / total
    explained = np.einsum("jlc,klc->kjc", cross, maps)
    each = np.arange(count)
    left = gram - np.einsum("kic,kjc->ijc", explained, explained)
    transform, alive = orthonormalising(left, gram[each, each], EXPLAINED[str(dtype)])
    shares = np.einsum("ijc,kjc,klc->cil", transform, explained, maps, optimize=True)
    mapped = np.moveaxis(transform, -1, 0)
    return Rest(functions, known.astype(dtype), mapped.astype(dtype), shares.astype(dtype)), alive


def orthonormalising(left: Floats, norms: Floats, least: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Return what makes features orthonormal in order, ``(d, d, ...)``, from their moments.

    And which of them ``(d, ...)`` are more than ``least`` of their ``norms``, squared, beside
    those before them; the others' rows are 0.
    """
    each = np.arange(len(left))
    variance = left[each, each]
    clear = variance > least * norms
    both = clear[:, None] & clear[None, :]
    scale = np.sqrt(np.where(clear, variance, 1))
    identity = np.eye(len(left)).reshape(*both.shape[:2], *[1] * (left.ndim - 2))
    correlation = np.where(both, left / scale[:, None] / scale[None, :], identity)
    inverse, pivots = inverse_choleskies(correlation, least * norms / scale**2)
    alive = clear & (pivots > 0)
    return np.where(alive[:, None] & alive[None, :], inverse / scale[None, :], 0), alive


def known_maps(
    known: NDArray[np.float64], own: Block, others: Block, counts: tuple[int, int]
) -> Floats:
    """Return what makes known functions orthonormal on the rows that two patterns share.

    Lower triangular, ``(1 + r, 1 + r, o, u)``, for ``counts`` patterns; 0 of those that others
    determine there.
    """
    size = len(known)
    left, right = np.triu_indices(size)

    def block(rows: slice) -> Floats:
        z = known[:, rows]
        each = (z[left] * z[right])[:, None] * own(rows)[None]
        return each.reshape(-1, each.shape[-1]) @ others(rows).T

    sums = sum_in_blocks(block, known.shape[1], len(left) * counts[0]).reshape(-1, *counts)
    gram = np.empty((size, size, *counts))
    gram[left, right] = gram[right, left] = sums
    total = gram[0, 0]
    gram = gram / np.where(total > 0, total, 1)
    return orthonormalising(gram, np.ones(gram.shape[1:]), RANK)[0]


def known_moments(functions: RowFunctions, known: Floats, patterns: Block, count: int) -> Floats:
    """Sum ``w_u p_a z_k`` of each column over rows, ``(d, c, 1 + r, u)``."""
    return _sums_with(lambda rows: functions(rows)[1:], known, patterns, count)


def level_moments(
    codes: Integers,
    levels: tuple[Integers, Integers],
    known: Floats,
    patterns: Block,
    count: int,
) -> Floats:
    """Sum ``w_u [level l] z_k`` over rows, ``(m, 1 + r, u)``."""

    def held(rows: slice) -> Floats:
        return level_features(codes[rows], levels, known.dtype)

    return _sums_with(held, known, patterns, count)


def _sums_with(
    features: Callable[[slice], Floats], known: Floats, patterns: Block, count: int
) -> Floats:
    shape: tuple[int, ...] = features(slice(0, 1)).shape[:-1]

    def block(rows: slice) -> Floats:
        f, z, w = features(rows), known[:, rows], patterns(rows)
        weighted = (z[:, None] * w[None]).reshape(-1, z.shape[1])
        return f.reshape(-1, f.shape[-1]) @ weighted.T

    width = int(np.prod(shape)) + len(known) * count
    return sum_in_blocks(block, known.shape[1], width).reshape(*shape, len(known), count)


class Explained(NamedTuple):
    """Coordinates of features on the known functions, on the rows of some patterns.

    ``(r, d, c, u)`` on those but 1 as they are ``orthonormal`` there; ``(1 + r, d, c, u)`` on those
    ``as_they_are``.
    """

    orthonormal: Floats
    as_they_are: Floats


def explained_share(sums: Floats, maps: Floats, total: Floats) -> Explained:
    """Return what known functions explain of features.

    Args:
      sums: ``(d, c, 1 + r, u)``, as `known_moments` has them.
      maps: ``(1 + r, 1 + r, c, u)``.
      total: ``(c, u)``, the sums of weights.
    """
    means = sums / np.where(total > 0, total, 1)[None, :, None]
    found = np.einsum("dclu,klcu->kdcu", means, maps, optimize=True)
    return Explained(found[1:], np.einsum("kdcu,klcu->ldcu", found, maps, optimize=True))


def less_explained(moments: Floats, explained: Floats) -> tuple[Floats, Floats]:
    """Return moments ``(1 + d, 1 + d, c, u)`` less what is explained, ``(r, d, c, u)``.

    And the least share ``(c, u)`` of a function that this leaves.
    """
    left = moments.copy()
    left[1:, 1:] -= np.einsum("kicu,kjcu->ijcu", explained, explained) * moments[0, 0]
    each = np.arange(1, len(moments))
    before, after = moments[each, each], left[each, each]
    kept = np.where(before > 0, after / np.where(before > 0, before, 1), 1)
    return left, np.clip(kept.min(axis=0, initial=1), 0, 1)


def without_explained(block: Floats, left: Floats | None, right: Floats | None) -> Floats:
    """Return cross moments ``(d, e, N)`` less those of what is explained, ``(r, d or e, N)``."""
    if left is None or right is None:
        return block
    return block - np.einsum("kin,kjn->ijn", left, right, optimize=True)


def left_of(
    functions: Floats, known: Floats, shares: Floats, least: float
) -> tuple[Floats, Floats]:
    """Return what known functions leave of orthonormal ``functions (d, n)``, orthonormal in order.

    And the maps ``(d, d)`` that make it of what is left of each; 0 where nothing is.

    Args:
      known: ``(1 + r, n)``, orthonormal.
      shares: ``(n,)``, weights of sum 1.
      least: share of the variance of a function below which what is left is rounding.
    """
    left = functions - ((functions * shares) @ known.T) @ known
    gram = ((left * shares) @ left.T)[..., None]
    transform, _ = orthonormalising(gram, np.ones(gram.shape[1:]), least)
    found = transform[..., 0] @ left
    # Twice, as the first pass loses digits where little is left.
    found -= ((found * shares) @ known.T) @ known
    again, _ = orthonormalising(
        ((found * shares) @ found.T)[..., None], np.ones(gram.shape[1:]), 0.5
    )
    return again[..., 0] @ found, again[..., 0] @ transform[..., 0]


def known_on(known: Floats, rows: Integers, weights: Floats) -> Floats:
    """Return 1 and orthonormal functions ``(1 + r, len(rows))`` of given columns on some rows."""
    some = residuals(known[1:, rows].astype(np.float64), np.zeros((0, len(rows))), weights)
    return np.concatenate([np.ones((1, len(rows))), some])
