"""Blocks of the cross moments of polynomials of ranks, and one p-value of all of them.

A pair whose ranks are orthonormal polynomials f and g has the matrix M = mean of f g^T.  Under
independence the top singular value of any leading block of it follows the law of Roy's largest
root.  Small blocks find plain relations with few rows; long and narrow ones, those that oscillate
in one variable.  So several are tested at once:

    T = mean over the blocks of tan((1/2 - p) pi),      P = 1/2 - arctan(T) / pi

Source: Liu & Xie, "Cauchy combination test: a powerful test with analytic p-value calculation
under arbitrary dependency structures" (2020).
"""

from __future__ import annotations

import functools

import numpy as np

from hgr_jax._arrays import Floats
from hgr_jax.inference import roys_root
from hgr_jax.inference._polynomials import polynomials_at
from hgr_jax.inference._ranks import ranks
from hgr_jax.inference._small_problems import top_singular_values

BLOCKS = ((1, 1), (3, 3), (8, 2), (2, 8), (16, 2), (2, 16))
"""Degrees of the blocks: found by the power on relations of many kinds (`bench.power`)."""

LARGEST_DEGREE = 16
NARROW = 3
"""The largest smaller side of a block."""

LEAST_WORTH = 50
"""Rows without ties that a column with ties must be worth, for a degree of it to be trusted."""

LARGEST_PVALUE = 0.99
"""Of a block: one that is all but 1 would outweigh what the others have found."""


@functools.lru_cache(maxsize=16)
def _untied(rows: int) -> Floats:
    x = (np.arange(rows) + 0.5) * 2 / rows - 1
    found = polynomials_at(x, np.full(rows, 1 / rows), LARGEST_DEGREE)
    found.flags.writeable = False
    return found


def rank_polynomials(x: Floats) -> Floats:
    """Return orthonormal polynomials of the ranks of finite ``x (n,)``, ``(directions, n)``."""
    rank, rows = ranks(x[:, None])[:, 0], len(x)
    place = np.rint(((rank + 1) * rows - 1) / 2).astype(np.intp)
    if np.bincount(place).max() == 1:  # rows of equal values would be in one place
        return _untied(rows)[:, place]
    return polynomials_at(rank, np.full(rows, 1 / rows), LARGEST_DEGREE)


def trusted_degree(f: Floats) -> tuple[int, float]:
    """Return up to which degree polynomials ``f (d, n)`` behave as those of untied ranks do.

    Of one row ``L = max sum_j f_j^2`` is at most ``(d + 1)^2 - 1`` without ties.  A row of r times
    that leaves a column to be worth n / r rows without ties, and n / r^2 beside another such one:
    at least `LEAST_WORTH`, or all n.

    Returns:
      The degree, 0 where not even the first is trusted, and 1 / r for it.
    """
    degrees = np.arange(1, len(f) + 1)
    largest = np.max(np.cumsum(f**2, axis=0), axis=1, initial=0)
    worth = np.minimum(((degrees + 1) ** 2 - 1) / largest, 1)
    rows = f.shape[1]
    trusted = rows * worth**2 >= min(LEAST_WORTH, rows)
    degree = len(f) if trusted.all() else int(np.argmin(trusted))
    return degree, float(worth[degree - 1]) if degree else 0.0


def cross_moments(f: Floats, g: Floats) -> Floats:
    """Return M ``(h, k, N)`` of ``f (h, n)`` and ``g (k, N, n)``, 0 beyond the blocks."""
    h, (k, count, rows) = len(f), g.shape
    m = np.zeros((h, k, count))
    narrow_f, narrow_g = f[:NARROW] / rows, g[:NARROW].reshape(-1, rows)
    m[:NARROW] = (narrow_f @ g.reshape(-1, rows).T).reshape(-1, k, count)
    m[:, :NARROW] = (f / rows @ narrow_g.T).reshape(h, -1, count)
    return m


def combined_pvalues(m: Floats, rows: int) -> tuple[Floats, Floats, Floats]:
    """Return log P of matrices ``m (h, k, N)``; the block with the least p-value, and its value.

    Returns:
      ``(N,)``; degrees ``(2, N)``; and top singular values ``(N,)``.
    """
    blocks = list(dict.fromkeys((min(h, len(m)), min(k, m.shape[1])) for h, k in BLOCKS))
    values = np.stack([np.minimum(top_singular_values(m[:h, :k]), 1) for h, k in blocks])
    degrees = np.array(blocks)
    log_p = roys_root.log_survival(values, rows, degrees[:, :1], degrees[:, 1:])
    best = np.argmin(log_p, axis=0)
    each = np.arange(m.shape[2])
    return _combined(log_p), degrees[best].T, values[best, each]


def _combined(log_p: Floats) -> Floats:
    """Return the logarithm of P for those of p-values ``(blocks, N)``."""
    count, least = len(log_p), np.min(log_p, axis=0)
    p = np.exp(np.clip(log_p, -30, np.log(LARGEST_PVALUE)))
    mean = np.mean(1 / np.tan(np.pi * p), axis=0)
    near = np.arctan2(1, mean) / np.pi  # 1/2 - arctan(T) / pi, without cancellation
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.log(np.sum(np.exp(least - log_p), axis=0))
    far = least + np.log(count) - np.where(np.isfinite(least), tail, 0)
    return np.where(least > -25, np.log(near), far)
