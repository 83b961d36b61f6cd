"""Near-orthonormal functions of many columns, each on the rows where it is present.

As in `hgr_jax.core`: polynomials are made orthonormal on a sketch of the rows, and their moments
are taken over all rows.  Bases that are ill conditioned there are fitted again to all rows of their
column.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers, chunks
from hgr_jax.core.host.linalg import inverse_choleskies
from hgr_jax.core.host.polynomials import Polynomials, stieltjes, tolerance
from hgr_jax.core.host.ranks import maps_to_orthonormal
from hgr_jax.core.orthonormal import MAX_NORM, MIN_REMAINDER, SKETCH_GROUPS, SKETCH_ROWS
from hgr_jax.scanning.features import (
    ColumnPolynomials,
    RowFunctions,
)
from hgr_jax.scanning.sums import own_moments

SKETCH_NOISE = 32 * float(np.finfo(np.float64).eps)
"""Relative size of a direction of a sketch that is rounding."""

LOST_REMAINDER, LOST_NORM = 0.05, 1e3
"""Bounds like `MIN_REMAINDER` and `MAX_NORM`, beyond which whitening is inexact."""

MeasuredBy = Callable[[RowFunctions], Floats]
"""Returns moments of functions of columns; see `own_moments`."""


def sketched(x: Floats, weights: Floats | None, *, degree: int) -> Polynomials:
    """Return polynomials of every column of ``x (n, c)``, orthonormal on a sketch of its rows."""
    rows = len(x)
    w: Floats = np.ones(rows) if weights is None else weights
    if rows <= 2 * SKETCH_ROWS:
        return fit_on_sample(x, w, None, rows, degree=degree)
    stride = rows // SKETCH_ROWS
    sample = slice(None, stride * SKETCH_ROWS, stride)
    grouped = rows // SKETCH_GROUPS * SKETCH_GROUPS
    groups = x[:grouped].reshape(-1, SKETCH_GROUPS, x.shape[1])
    extra = np.concatenate([np.fmax.reduce(groups), np.fmin.reduce(groups), x[grouped:]])
    return fit_on_sample(x[sample], w[sample], extra, rows, degree=degree)


def fit_on_sample(
    x: Floats,
    weights: Floats,
    extra: Floats | None,
    rows: int,
    *,
    degree: int,
) -> Polynomials:
    """Return polynomials of every column, orthonormal on a sample ``x (m, c)`` of the rows.

    ``extra (e, c)`` are extreme values that join the sample, each with the weight of one row.
    Directions below `SKETCH_NOISE`, relative to the largest, count as rounding and are left out.
    """
    points, shares = _filled_columns(x, weights)
    center: Floats = np.einsum("cn,cn->c", np.broadcast_to(shares, points.shape), points)
    if extra is not None:
        beyond, extra_shares = _filled_columns(extra, np.ones(len(extra)))
        ends = np.fmax.reduce(extra), np.fmin.reduce(extra)
        middle = np.nan_to_num(ends[0] / 2 + ends[1] / 2).astype(np.float64)
        center = np.where(shares.sum(axis=1) > 0, center, middle)
        extra_shares = (extra_shares > 0) / rows
        points = np.concatenate([points, beyond], axis=1)
        shape = (len(shares) if len(extra_shares) == 1 else len(extra_shares), -1)
        shares, extra_shares = (
            np.broadcast_to(v, (shape[0], v.shape[1])) for v in (shares, extra_shares)
        )
        shares = np.concatenate([shares, extra_shares], axis=1)
        shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
    return stieltjes(points, shares, degree, tolerance=SKETCH_NOISE, passes=0, center=center)[0]


def assessed(
    basis: Polynomials, moments: Floats, x: Floats
) -> tuple[Polynomials, NDArray[np.bool_]]:
    """Drop directions that are rounding; return the bases, and the mask ``(c,)`` of bad ones.

    Rounding is a residual below the `tolerance` of the dtype of x.

    A basis must be repaired if it is ill conditioned on all rows (moments ``(d + 1, d + 1, c)``),
    or has fewer directions than the distinct values of a sample ``x (m, c)`` allow.
    """
    total = moments[0, 0]
    gram = moments / np.where(total > 0, total, 1)
    finite = np.isfinite(gram).all(axis=(0, 1))
    gram = np.where(finite, gram, 0)
    diagonal = np.arange(len(gram))
    norms = np.sqrt(np.maximum(gram[diagonal, diagonal], 0))
    # A direction is dead if the residual of x p_j after projection is only rounding.
    residual = norms[1:] / basis.step
    product = np.sqrt(basis.diagonal**2 + basis.coupling**2 + residual**2)
    least = tolerance(x.dtype)
    in_span = np.logical_and.accumulate(residual > least * product, axis=0)
    wrong = np.asarray(
        _ill_conditioned(gram, in_span, MIN_REMAINDER, MAX_NORM).any(axis=0) | ~finite
    )
    directions = in_span.sum(axis=0)
    few = np.flatnonzero((directions < basis.degree) & (total > 0))
    expected = np.minimum(count_distinct(x[:, few]) - 1, basis.degree)
    wrong[few] |= directions[few] < expected
    return dataclasses.replace(basis, in_span=in_span).pruned(), wrong & (total > 0)


def _ill_conditioned(
    gram: Floats, in_span: NDArray[np.bool_], remainder: float, norm: float
) -> NDArray[np.bool_]:
    """Return the mask ``(d, c)`` of unusable directions of Gram matrices ``(d + 1, d + 1, c)``.

    A direction is unusable if at most the share ``remainder`` of its norm is orthogonal to earlier
    directions, or if its norm differs from 1 by more than the factor ``norm``.
    """
    diagonal = np.arange(len(gram))
    kept = np.concatenate([np.ones_like(in_span[:1]), in_span])
    scale = np.where(kept, np.sqrt(np.maximum(gram[diagonal, diagonal], 0)), 1)
    both = kept[:, None] & kept[None, :]
    divisor = np.where(scale > 0, scale, 1)
    identity = np.eye(len(gram))[..., None]
    correlation = np.where(both, gram / divisor[:, None] / divisor[None, :], identity)
    _, pivots = inverse_choleskies(correlation)
    bad = (pivots < remainder**2) | (scale > norm) | (scale < 1 / norm)
    return np.asarray(bad[1:])


def repaired(
    x: Floats, weights: Floats | None, *, degree: int
) -> tuple[Polynomials, NDArray[np.bool_]]:
    """Fit bases to all rows of every column; return the mask ``(c,)`` of success too.

    A fit fails where an outlier is so far out that the dtype cannot tell the other values apart.
    """
    points, shares = _filled_columns(x, np.ones(len(x)) if weights is None else weights)
    basis, _ = stieltjes(points, shares, degree, tolerance=tolerance(x.dtype))
    expected = np.minimum(count_distinct(x) - 1, degree)
    return basis.pruned(), basis.in_span.sum(axis=0) >= expected


class FittedColumns(NamedTuple):
    """Polynomials of many columns.

    Attributes:
      functions: the polynomials, near-orthonormal on the rows of each column.
      moments: moments of the polynomials.
      well_conditioned: ``(c,)``, whether a column has such polynomials.
      repaired: whether a column was fitted to all of its rows.
    """

    functions: ColumnPolynomials
    moments: Floats
    well_conditioned: NDArray[np.bool_]
    repaired: bool


@np.errstate(over="ignore", invalid="ignore")
def fit_columns(
    x: Floats,
    weights: Floats | None,
    degree: int,
    memory: int,
    measure: MeasuredBy,
) -> FittedColumns:
    """Fit polynomials to every column of ``x (n, c)``, near-orthonormal on its rows.

    Args:
      x: NaN where missing.
      weights: ``(n,)`` or None.
      degree: degree of the polynomials.
      memory: bytes that a repair may take.
      measure: returns the moments of functions.
    """
    basis = sketched(x, weights, degree=degree)
    moments = measure(ColumnPolynomials(x, basis))
    basis, wrong = assessed(basis, moments, x)
    well_conditioned = np.ones(x.shape[1], bool)
    if wrong.any():
        bytes_of_column = 16 * degree * len(x)
        at_once = int(np.clip(memory // bytes_of_column, 1, 64))
        for part in chunks(np.flatnonzero(wrong), at_once):
            better, well_conditioned[part] = repaired(x[:, part], weights, degree=degree)
            part_moments = own_moments(ColumnPolynomials(x[:, part], better), weights)
            gram = part_moments / np.where(part_moments[0, 0] > 0, part_moments[0, 0], 1)
            # A recurrence of dozens of degrees may lose the points that it was fitted to.
            gram = np.where(np.isfinite(gram), gram, 0)
            lost = _ill_conditioned(gram, better.in_span, LOST_REMAINDER, LOST_NORM)
            lost = np.logical_or.accumulate(lost, axis=0) & better.in_span
            if lost.any():
                well_conditioned[part] &= ~lost.any(axis=0)
                better = dataclasses.replace(better, in_span=better.in_span & ~lost).pruned()
                part_moments = own_moments(ColumnPolynomials(x[:, part], better), weights)
            basis, moments[..., part] = basis.replaced(part, better), part_moments
    return FittedColumns(ColumnPolynomials(x, basis), moments, well_conditioned, bool(wrong.any()))


class BasisMaps(NamedTuple):
    """Linear maps that make functions of columns orthonormal.

    Attributes:
      maps: ``(c, d, d)``, applied to the functions.
      shares: ``(c, d, 1)``, constants that are subtracted.
      in_span: ``(d, c)``, mask of the directions that the rows support.
    """

    maps: Floats
    shares: Floats
    in_span: NDArray[np.bool_]


def fit_rank_functions(moments: Floats, share: float = 1.0) -> BasisMaps:
    """Return maps to orthonormal functions of ranks, from moments ``(d + 1, d + 1, c)``.

    ``share`` is the effective number of rows for each unit of weight.
    """
    total = moments[0, 0]
    gram = moments / np.where(total > 0, total, 1)
    mean = gram[0, 1:]
    covariance = gram[1:, 1:] - mean[:, None] * mean[None, :]
    maps, _, kept = maps_to_orthonormal(covariance, total * share)
    shares = np.einsum("cij,jc->ci", maps, mean)[..., None]
    return BasisMaps(maps, shares, np.arange(len(mean))[:, None] < kept)


def count_distinct(x: Floats) -> Integers:
    """Count the values of a sample of each column of ``x (n, c)`` that differ beyond rounding."""
    sample = np.sort(x[:: max(1, len(x) // SKETCH_ROWS)], axis=0)  # NaN last
    low, high = sample[:-1], sample[1:]
    rounding = tolerance(x.dtype) * np.maximum(np.abs(low), np.abs(high))
    return 1 + (high - low > rounding).sum(axis=0)


def _filled_columns(x: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Fill missing values with the column's mean; return ``(c, n)`` and weights, 0 where missing.

    The weights of a column sum to 1; they are ``(1, n)`` if no value is missing.
    """
    points = np.array(x.T, np.float64, order="C")
    missing = np.isnan(points)
    shares = np.asarray(weights, np.float64)[None, :]
    any_missing = missing.any()
    if any_missing:
        shares = np.where(missing, 0, shares)
    total = shares.sum(axis=1, keepdims=True)
    shares = shares / np.where(total > 0, total, 1)
    if any_missing:
        points[missing] = 0
        mean = np.einsum("cn,cn->c", shares, points)
        points[missing] = np.broadcast_to(mean[:, None], points.shape)[missing]
    return points, shares
