"""Blocks of the cross moments of functions of ranks, and one p-value of all of them.

A pair whose ranks have orthonormal polynomials f and g has the matrix M = mean of f g^T.  Under
independence the top singular value of any leading block of it follows the law of Roy's largest
root.  Small blocks find plain relations with few rows; long and narrow ones, those that oscillate
in one variable.  Where they oscillate faster than a polynomial of 16 degrees does, waves find them:
sines and cosines of the ranks of one variable beside the first polynomial of the other.  So
several blocks are tested at once:

    T = mean over the blocks of tan((1/2 - p) pi),      P = 1/2 - arctan(T) / pi

Source: Liu & Xie, "Cauchy combination test: a powerful test with analytic p-value calculation
under arbitrary dependency structures" (2020).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.linalg import top_singular_values
from hgr_jax.inference.roys_root.interpolation import log_survival_of_many

BLOCKS = ((1, 1), (3, 3), (8, 2), (2, 8), (16, 2), (2, 16))
"""Degrees of the blocks of polynomials, found by the power on relations of many kinds
(`bench.power`).  Two more are of waves: those of the first variable, and those of the second."""

NARROW = 3
"""The largest smaller side of a block."""

LARGEST_PVALUE = 0.99
"""Of a block: one that is all but 1 would outweigh what the others have found."""


def in_blocks(h: int, k: int) -> npt.NDArray[np.bool_]:
    """Return which entries of M ``(h, k)`` are in a block."""
    return np.minimum.outer(np.arange(h), np.arange(k)) < NARROW


class Moments(NamedTuple):
    """What blocks are made of, of N pairs.

    Attributes:
      m: ``(h, k, N)``, of polynomials; entries beyond the degrees of a pair are 0, and so are those
        beyond the blocks.
      waves: ``(2, N)``, norms of the moments of the waves of a with the first polynomial of b, and
        of the waves of b with that of a.
      counts: ``(2, N)`` or ``(2, 1)``, how many waves each side has, 0 for none.
    """

    m: Floats
    waves: Floats
    counts: Integers

    def select(self, chosen: npt.NDArray[np.bool_]) -> Moments:
        """Return those of some of the pairs."""
        counts = np.broadcast_to(self.counts, self.waves.shape)
        return Moments(self.m[..., chosen], self.waves[:, chosen], counts[:, chosen])

    @staticmethod
    def of_polynomials(m: Floats) -> Moments:
        """Return those of pairs without waves."""
        return Moments(m, np.zeros((2, m.shape[2])), np.zeros((2, 1), np.intp))


class Combined(NamedTuple):
    """The p-value of all blocks of N pairs, and the block that alone has the least.

    Attributes:
      log_p: ``(N,)``.
      degrees: ``(2, N)``, how many functions of both sides are in that block.
      values: ``(N,)``, its top singular value.
      of_waves: ``(N,)``, whether those of the longer side are waves.
    """

    log_p: Floats
    degrees: Integers
    values: Floats
    of_waves: npt.NDArray[np.bool_]


def cross_moments(
    f: Floats,
    g: Floats,
    share: Floats | None = None,
    *,
    waves: tuple[Floats, Floats] | None = None,
) -> Moments:
    """Return moments of polynomials ``f (h, n)`` and ``g (k, N, n)``.

    ``share (n,)``, of sum 1, is that of each row; None for equal ones.  ``waves``, ``(v, n)`` of
    the first and ``(w, N, n)`` of the second variable, or None.
    """
    h, (k, count, rows) = len(f), g.shape
    of_rows = 1 / rows if share is None else share
    scaled = f * of_rows
    m = np.zeros((h, k, count))
    m[:NARROW] = (scaled[:NARROW] @ g.reshape(-1, rows).T).reshape(-1, k, count)
    m[:, :NARROW] = (scaled @ g[:NARROW].reshape(-1, rows).T).reshape(h, -1, count)
    if waves is None:
        return Moments.of_polynomials(m)
    of_f, of_g = waves
    left, right = (of_f * of_rows) @ g[0].T, of_g @ scaled[0]
    sizes = np.array([[len(of_f)], [len(of_g)]])
    return Moments(m, np.sqrt([np.sum(x * x, axis=0) for x in (left, right)]), sizes)


def top_values(found: Moments) -> Floats:
    """Return the top singular value of each block ``(blocks, N)``, those of waves last."""
    m = found.m
    values = [top_singular_values(m[:h, :k]) for h, k in BLOCKS]
    return np.minimum([*values, *found.waves], 1)


def combined_pvalues(found: Moments, rows: npt.ArrayLike) -> Combined:
    """Return what `combined` does, of pairs whose degrees are the sides of ``found.m``."""
    h, k, _ = found.m.shape
    return combined(top_values(found), rows, np.array([[h], [k]]), found.counts)


def combined(values: Floats, rows: npt.ArrayLike, degrees: Integers, waves: Integers) -> Combined:
    """Return the one p-value of all `top_values`.

    Args:
      values: ``(blocks, N)``.
      rows: of each, ``(N,)`` or a number.
      degrees: ``(2, N)`` or ``(2, 1)``, to which the polynomials of the two sides go.
      waves: the same, how many of them each side has.
    """
    degrees, waves = np.broadcast_arrays(degrees, waves)
    limits = np.minimum(np.array(BLOCKS).T[:, :, None], degrees[:, None])
    # With few degrees some blocks are the same, and count once.
    new = np.stack(
        [
            ~(limits[:, :i] == limits[:, i : i + 1]).all(axis=0).any(axis=0)
            for i in range(len(BLOCKS))
        ]
    )
    one = np.ones_like(waves[0])
    of_waves = np.array([[waves[0], one], [one, waves[1]]])
    limits = np.concatenate([limits, np.maximum(of_waves, 1)], axis=1)
    new = np.concatenate([new, waves > 0])
    log_p = np.where(new, log_survival_of_many(values, rows, *limits), np.inf)
    best = np.argmin(log_p, axis=0)
    each = np.arange(values.shape[1])
    limits = np.broadcast_to(limits, (2, *log_p.shape))
    return Combined(
        _combined(log_p, new.sum(axis=0)),
        limits[:, best, each],
        values[best, each],
        best >= len(BLOCKS),
    )


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
