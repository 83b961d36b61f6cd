"""Standard errors of many pairs, from the functions that a scan has of its columns.

As `hgr_jax.core.uncertainty` has them of one: with f, g standardised and of correlation s, the root
of the sum of ``(w psi)^2``, with ``psi = f g - s (f^2 + g^2) / 2`` and weights of sum 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax.scanning.features import Features, Patterns, chunks, groups
from hgr_jax.scanning.sides import Side

NUMBERS_AT_ONCE = 2**20
"""Values of the functions of some pairs at some rows that are in memory at a time."""

ROWS_OF_BLOCK = 1024


@dataclasses.dataclass(frozen=True)
class PairFunctions:
    """The optimal functions of one side of N pairs: combinations of its column's features.

    Attributes:
      column: ``(N,)``, in the tile.
      coefficients: ``(width, N)``.
      constant: ``(N,)``, taken off.
      known: ``(1 + r, N)``, of the known functions, taken off too, the constant among them; None
        for none.
    """

    column: Integers
    coefficients: Floats
    constant: Floats
    known: Floats | None

    def at(self, features: Floats, known: Floats | None) -> Floats:
        """Return values ``(N, rows)`` from features ``(width, c, rows)`` of the tile."""
        found = np.empty((len(self.column), features.shape[-1]))
        for column, places in groups(self.column):
            found[places] = self.coefficients[:, places].T @ features[:, column]
        if known is None or self.known is None:
            found -= self.constant[:, None]
        else:
            found -= self.known.T @ known
        return found

    @staticmethod
    def joined(parts: Sequence[PairFunctions]) -> PairFunctions:
        """Return those of all pairs, from those of parts of them."""
        known = [part.known for part in parts if part.known is not None]
        return PairFunctions(
            np.concatenate([part.column for part in parts]),
            np.concatenate([part.coefficients for part in parts], axis=1),
            np.concatenate([part.constant for part in parts]),
            np.concatenate(known, axis=1) if known else None,
        )

    def take(self, places: Integers) -> PairFunctions:
        """Return those of some of the pairs."""
        known = None if self.known is None else self.known[:, places]
        return PairFunctions(
            self.column[places], self.coefficients[:, places], self.constant[places], known
        )


def combination(side: Side, column: Integers, pattern: Integers, vector: Floats) -> PairFunctions:
    """Return combinations ``vector (width, N)`` of the whitened features of columns of a tile."""
    mean, transform = side.on(column, pattern)
    if transform.ndim == 3:
        coefficients = np.einsum("in,ijn->jn", vector, transform)
    else:
        coefficients = vector * transform
    known = None
    if side.explained is not None:
        known = side.explained.as_they_are[:, :, column, pattern]
        known = np.einsum("jn,kjn->kn", coefficients, known)
    return PairFunctions(column, coefficients, np.sum(coefficients * mean, axis=0), known)


def top_vectors(
    m: Floats, degrees: Integers, linear: Integers, *, single: bool
) -> tuple[Floats, Floats]:
    """Return the singular vectors ``(r, N)`` and ``(s, N)`` of the values of `top_correlations`."""

    def within(rows: Integers, columns: Integers) -> tuple[Floats, Floats, Floats]:
        kept = np.arange(len(m))[:, None] < rows
        part = m * (kept[:, None] & (np.arange(m.shape[1])[:, None] < columns))
        u, s, v = np.linalg.svd(np.moveaxis(np.nan_to_num(part), -1, 0), full_matrices=False)
        return s[:, 0], u[:, :, 0].T, v[:, 0].T

    if not single:
        return within(degrees[:, 0], degrees[:, 1])[1:]
    first, second = within(degrees[:, 0], linear[:, 1]), within(linear[:, 0], degrees[:, 1])
    larger = first[0] >= second[0]
    return np.where(larger, first[1], second[1]), np.where(larger, first[2], second[2])


def standard_errors(
    sides: Sequence[PairFunctions],
    functions: Sequence[Callable[[slice], Floats]],
    value: Floats,
    total: Floats,
    table: Features,
    patterns: Patterns,
    places: Integers,
) -> Floats:
    """Return the standard errors ``(N,)`` of correlations ``value (N,)``.

    Args:
      sides: the functions of both sides of the pairs.
      functions: features of both tiles at some rows, ``(width, c, rows)``; the same one twice for
        a tile with itself.
      value, total: ``(N,)``, correlations, and sums of the weights of the rows of each pair.
      table: with the weights, and what is given.
      patterns: of the rows.
      places: ``(2, N)``, the patterns of the columns of each pair.
    """
    sums = np.zeros(len(value))
    present, weights, known = patterns.present, table.weights, table.known
    alike = present.shape[1] == 1
    for start in range(0, table.rows, ROWS_OF_BLOCK):
        rows = slice(start, min(start + ROWS_OF_BLOCK, table.rows))
        left = functions[0](rows)
        right = left if functions[0] is functions[1] else functions[1](rows)
        z = None if known is None else known[:, rows]
        there = present[rows].T
        for part in chunks(np.arange(len(value)), NUMBERS_AT_ONCE // ROWS_OF_BLOCK):
            f, g = (side.take(part).at(x, z) for side, x in zip(sides, (left, right), strict=True))
            psi = f * g - value[part, None] / 2 * (f * f + g * g)
            psi *= there if alike else there[places[0, part]] & there[places[1, part]]
            psi *= 1 if weights is None else weights[rows]
            sums[part] += np.einsum("pn,pn->p", psi, psi)
    return np.sqrt(sums) / np.where(total > 0, total, 1)


def error_of_pair(
    f: Floats, g: Floats, shares: Floats, counts: Integers, linear: Integers, *, single: bool
) -> float:
    """Return the standard error of one pair, of orthonormal functions ``(d, n)`` at its rows."""
    m = ((f * shares) @ g.T)[..., None]
    u, v = top_vectors(m, counts[None], linear[None], single=single)
    a, b = u[:, 0] @ f, v[:, 0] @ g
    value = np.sum(shares * a * b)
    return float(np.sqrt(np.sum((shares * (a * b - value / 2 * (a * a + b * b))) ** 2)))
