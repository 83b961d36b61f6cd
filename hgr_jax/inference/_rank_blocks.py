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

import numpy as np
import numpy.typing as npt

from hgr_jax._arrays import Floats, Integers
from hgr_jax.inference._small_problems import top_singular_values
from hgr_jax.inference.roys_root.interpolation import log_survival_of_many

BLOCKS = ((1, 1), (3, 3), (8, 2), (2, 8), (16, 2), (2, 16))
"""Degrees of the blocks: found by the power on relations of many kinds (`bench.power`)."""

NARROW = 3
"""The largest smaller side of a block."""

LARGEST_PVALUE = 0.99
"""Of a block: one that is all but 1 would outweigh what the others have found."""


def in_blocks(h: int, k: int) -> npt.NDArray[np.bool_]:
    """Return which entries of M ``(h, k)`` are in a block."""
    return np.minimum.outer(np.arange(h), np.arange(k)) < NARROW


def cross_moments(f: Floats, g: Floats, share: Floats | None = None) -> Floats:
    """Return M ``(h, k, N)`` of ``f (h, n)`` and ``g (k, N, n)``, 0 beyond the blocks.

    ``share (n,)``, of sum 1, is that of each row; None for equal ones.
    """
    h, (k, count, rows) = len(f), g.shape
    f = f / rows if share is None else f * share
    m = np.zeros((h, k, count))
    m[:NARROW] = (f[:NARROW] @ g.reshape(-1, rows).T).reshape(-1, k, count)
    m[:, :NARROW] = (f @ g[:NARROW].reshape(-1, rows).T).reshape(h, -1, count)
    return m


def top_values(m: Floats) -> Floats:
    """Return the top singular value of each block ``(blocks, N)`` of ``m (h, k, N)``.

    Entries beyond the degrees of a pair are 0, and so are those beyond the blocks.
    """
    return np.stack([np.minimum(top_singular_values(m[:h, :k]), 1) for h, k in BLOCKS])


def combined_pvalues(m: Floats, rows: npt.ArrayLike) -> tuple[Floats, Integers, Floats]:
    """Return what `combined` does, of matrices ``m (h, k, N)`` that are 0 beyond the blocks."""
    return combined(top_values(m), rows, np.array([[len(m)], [m.shape[1]]]))


def combined(
    values: Floats, rows: npt.ArrayLike, degrees: Integers
) -> tuple[Floats, Integers, Floats]:
    """Return log P of `top_values`; the block with the least p-value, and its value.

    Args:
      values: ``(blocks, N)``.
      rows: of each, ``(N,)`` or a number.
      degrees: ``(2, N)`` or ``(2, 1)``, to which the two sides go.

    Returns:
      ``(N,)``; degrees ``(2, N)``; and top singular values ``(N,)``.
    """
    limits = np.minimum(np.array(BLOCKS).T[:, :, None], degrees[:, None])
    # With few degrees some blocks are the same, and count once.
    new = np.stack(
        [
            ~(limits[:, :i] == limits[:, i : i + 1]).all(axis=0).any(axis=0)
            for i in range(len(BLOCKS))
        ]
    )
    log_p = np.where(new, log_survival_of_many(values, rows, *limits), np.inf)
    best = np.argmin(log_p, axis=0)
    each = np.arange(values.shape[1])
    limits = np.broadcast_to(limits, (2, *log_p.shape))
    return _combined(log_p, new.sum(axis=0)), limits[:, best, each], values[best, each]


def _combined(log_p: Floats, count: Integers) -> Floats:
    """Return the logarithm of P for ``count (N,)`` p-values, in ``(blocks, N)`` among inf."""
    least = np.min(log_p, axis=0)
    p = np.exp(np.clip(log_p, -30, np.log(LARGEST_PVALUE)))
    mean = np.sum(np.where(log_p < np.inf, 1 / np.tan(np.pi * p), 0), axis=0) / count
    near = np.arctan2(1, mean) / np.pi  # 1/2 - arctan(T) / pi, without cancellation
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.log(np.sum(np.exp(least - log_p), axis=0))
    far = least + np.log(count) - np.where(np.isfinite(least), tail, 0)
    return np.where(least > -25, np.log(near), far)
