"""One pair of a scan in full, on the host: its transformations, and what one row makes of it.

`hgr_jax.kb_fit` gives the same as JAX functions, of which every number of rows and kind of column
would be a program; the pairs that are shown are few and all different.
"""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.basis import PolynomialBasis
from hgr_jax.core.canonical import Transformation
from hgr_jax.core.fits import is_dominant
from hgr_jax.core.formulas import formula
from hgr_jax.core.host.polynomials import (
    PolynomialPair,
    Polynomials,
    fit_pair,
    stieltjes,
    tolerance,
)
from hgr_jax.core.kernels import Encoder, Indicators
from hgr_jax.core.partial import EXPLAINED
from hgr_jax.scanning.given import known_on, left_of


@dataclasses.dataclass(frozen=True)
class Influence:
    """Of one pair: the largest part of the correlation that a row makes, and which rows make most.

    Attributes:
      part: ``max_i w_i f(a_i) g(b_i) / correlation``; 1 / n where all rows make the same.
      row: its position in the table, from 0.
      without: the correlation without that row.
      rows: positions of the rows that make most, most first.
      dominates: whether the row makes a large part, as `Status.ONE_ROW` of a fit says.
    """

    part: float
    row: int
    without: float
    rows: tuple[int, ...]
    dominates: bool


@dataclasses.dataclass(frozen=True)
class HostTransformation:
    """A transformation as NumPy knows it: a polynomial, or a value for each level."""

    kernel: int | Indicators
    coefficients: Floats
    basis: Polynomials | None
    levels: Floats

    def __call__(self, x: Floats) -> Floats:
        """Return the transformation at ``x (n,)``, of levels their codes."""
        if self.basis is None:
            return np.asarray(self.levels[x.astype(int)])
        p = self.basis(np.asarray(x, np.float64)[None])[1:, 0]
        return np.asarray(self.coefficients @ p[: len(self.coefficients)])

    def of_levels(self, places: Integers | None) -> HostTransformation:
        """Return this of levels, of which each is at a place ``(levels,)``, or nowhere: -1."""
        if places is None:
            return self
        return dataclasses.replace(self, levels=np.where(places < 0, 0, self.levels[places]))

    def formula(self, name: str, digits: int = 3) -> str:
        """Return the polynomial as text, as `hgr_jax.CopulaTransform.formula` does."""
        assert self.basis is not None
        basis, degree = self.basis.pruned(), self.basis.degree
        scale, center = basis.scale[0], basis.center[0] * basis.scale[0]
        rows = (basis.diagonal, basis.coupling, basis.step)
        recurrence = np.concatenate(
            [np.stack([row[:, 0] for row in rows]), basis.correction[..., 0].T]
        )
        coefficients = np.zeros(1 + degree)
        coefficients[1 : 1 + len(self.coefficients)] = self.coefficients
        fitted = cast(Any, PolynomialBasis)(np.array([scale, center]), recurrence)
        side = cast(Any, Transformation)(fitted, coefficients)  # text needs no arrays of JAX
        return formula(Encoder(degree), side, [name], digits)


@dataclasses.dataclass(frozen=True)
class SinglePair:
    """A pair in full; None of the parts is where there is no correlation.

    With given columns, ``left`` is what they leave of f and of g, ``(n,)`` each, NaN in rows that
    are not used; None without.
    """

    f: HostTransformation
    g: HostTransformation
    influence: Influence
    left: tuple[Floats, Floats] | None = None

    def of_levels(self, first: Integers | None, second: Integers | None) -> SinglePair:
        """Return this of levels at places in those that were fitted; None for the same."""
        return dataclasses.replace(self, f=self.f.of_levels(first), g=self.g.of_levels(second))


def in_full(
    a: Floats,
    b: Floats,
    weights: Floats | None,
    kernels: tuple[int | Indicators, int | Indicators],
    *,
    single: bool,
    listed: int = 20,
    known: Floats | None = None,
) -> SinglePair | None:
    """Fit ``a`` and ``b (n,)``, and find the rows that make most of their correlation.

    Args:
      a, b: NaN where missing.
      weights: ``(n,)`` or None.
      kernels: of a and of b.
      single: whether one side is linear, as in HGR-SK.
      listed: how many rows are named.
      known: ``(1 + r, n)``, 1 and orthonormal functions of given columns, or None.

    Returns:
      None where there is no correlation.
    """
    usable = ~(np.isnan(a) | np.isnan(b))
    if weights is not None:
        usable &= weights > 0
    rows = np.flatnonzero(usable)
    if len(rows) < 2:
        return None
    w = np.ones(len(rows)) if weights is None else weights[rows].copy()
    columns = a[rows], b[rows]
    fitted = fit_pair(*columns, w, kernels)
    count = fitted.directions[0]
    f, g = fitted.functions[1 : 1 + count], fitted.functions[1 + count :]
    if not (len(f) and len(g)):
        return None
    maps: tuple[Floats, Floats] = np.eye(len(f)), np.eye(len(g))
    functions = f, g
    if known is not None:
        (f, of_f), (g, of_g) = _left(functions, known_on(known, rows, w), fitted.shares)
        maps = of_f, of_g
    linear = [
        len(part) if isinstance(kernel, Indicators) else 1
        for part, kernel in zip((f, g), kernels, strict=True)
    ]
    blocks = [(len(f), linear[1]), (linear[0], len(g))] if single else [(len(f), len(g))]
    correlation, u, v = _best((f * fitted.shares) @ g.T, blocks)
    if not correlation > 0:
        return None
    sign = 1 if u[np.argmax(np.abs(u))] > 0 else -1  # as a fit has it
    both = sign * u @ f[: len(u)], sign * v @ g[: len(v)]
    u, v = (x @ of[: len(x)] for x, of in zip((u, v), maps, strict=True))
    parts = fitted.shares * both[0] * both[1]
    most = np.argsort(-parts)[:listed]
    w[most[0]] = 0
    part = float(parts[most[0]] / correlation)
    if known is None:
        without = _value_with(fitted, w, blocks)
    else:
        others = np.arange(len(rows)) != most[0]
        without = _value_given(functions, known[:, rows], w, others, blocks)
    influence = Influence(
        part=part,
        row=int(rows[most[0]]),
        without=without,
        rows=tuple(rows[most].tolist()),
        dominates=bool(is_dominant(part, fitted.shares[most[0]], correlation)),
    )
    sides = [
        _transformation(
            x, sign * vector @ basis[: len(vector)], fitted.shares, sign * vector, kernel
        )
        for x, basis, vector, kernel in zip(columns, functions, (u, v), kernels, strict=True)
    ]
    left = None
    if known is not None:
        left = np.full(len(a), np.nan), np.full(len(b), np.nan)
        left[0][rows], left[1][rows] = both
    return SinglePair(sides[0], sides[1], influence, left)


def _left(
    functions: tuple[Floats, Floats], known: Floats, shares: Floats
) -> list[tuple[Floats, Floats]]:
    """Return what known functions leave of both variables', and the maps that make it."""
    return [left_of(side, known, shares, EXPLAINED["float64"]) for side in functions]


def _value_given(
    functions: tuple[Floats, Floats],
    known: Floats,
    weights: Floats,
    chosen: NDArray[np.bool_],
    blocks: list[tuple[int, int]],
) -> float:
    """Return the correlation of what is left on some of the rows."""
    rows = np.flatnonzero(chosen)
    if len(rows) < 2:
        return 0.0
    shares = weights[rows] / weights[rows].sum()
    sides = functions[0][:, rows], functions[1][:, rows]
    (f, _), (g, _) = _left(sides, known_on(known, rows, weights[rows]), shares)
    return min(_best((f * shares) @ g.T, blocks)[0], 1.0)


def _value_with(fitted: PolynomialPair, weights: Floats, blocks: list[tuple[int, int]]) -> float:
    """Return the correlation with other weights ``(n,)``."""
    if not weights.any():
        return 0.0
    gram = (fitted.functions * weights) @ fitted.functions.T
    return min(_best(fitted.whitened(gram[..., None])[0][..., 0], blocks)[0], 1.0)


def _transformation(
    x: Floats, values: Floats, shares: Floats, vector: Floats, kernel: int | Indicators
) -> HostTransformation:
    if isinstance(kernel, Indicators):
        levels = np.zeros(kernel.count)
        levels[x.astype(int)] = values
        return HostTransformation(kernel, vector, None, levels)
    noise = tolerance(x.dtype)
    basis, _ = stieltjes(x[None].astype(np.float64), shares[None], kernel, tolerance=noise)
    return HostTransformation(kernel, vector, basis, np.zeros(0))


def _best(m: Floats, blocks: list[tuple[int, int]]) -> tuple[float, Floats, Floats]:
    """Return the largest of the top singular values of leading blocks of ``m``, and its vectors."""
    solved = [np.linalg.svd(m[:h, :k], full_matrices=False) for h, k in blocks]
    u, values, v = max(solved, key=lambda found: found[1][0])
    return float(values[0]), u[:, 0], v[0]
