"""A running-lines smoother: the conditional mean of one variable along another.

Sums over all windows of w neighbours cost O(n).  The order is cut in blocks of w places, so that a
window is the end of one block and the beginning of the next: cumulative sums need not run over
the whole of the data, where float32 would lose the digits of a window in their difference.
"""

from __future__ import annotations

import dataclasses
import math

import jax.numpy as jnp
from jax import Array, lax


@dataclasses.dataclass(frozen=True)
class Smoother:
    """``smoother(z)`` estimates E[z | x] for ``z (..., n)`` in increasing order of x.

    A line is fitted by least squares to z on the normal scores of x in a window of ``half``
    neighbours on each side, fewer at the ends; equal x share their mean before and after.

    Attributes:
      half: neighbours on each side; 0 leaves the mean over equal values only.
      ranks: mean ranks of x, from -1 to 1, ``(n,)``.
      group: for each place the number of its group of equal x, ``(n,)``.
      size: for each group how many places it has, ``(n,)``.
      scores: normal scores less the first one of their block, ``(blocks, w)``.
      shift: that first one less the next block's, ``(blocks, 1)``.
      level, slope: the fit is ``level * sum(z) + slope * sum(s z)`` over the window, s the
        normal scores less the first one of the block in which the window ends.
    """

    half: int
    ranks: Array
    group: Array
    size: Array
    scores: Array
    shift: Array
    level: Array
    slope: Array

    @classmethod
    def of(cls, x: Array, span: float) -> Smoother:
        """The smoother along ``x (n,)``, sorted and finite, over a fraction of its rows."""
        rows = x.shape[0]
        half = max(1, round(span * rows / 2)) if span > 0 else 0
        half = min(half, rows - 1)
        first, last = group_bounds(x)
        ranks = (first + last + 1).astype(x.dtype) / rows - 1
        group = jnp.cumsum(first == jnp.arange(rows, dtype=first.dtype)) - 1
        size = jnp.maximum(_group_sum(jnp.ones_like(x), group), 1)
        if half == 0:
            nothing = jnp.zeros(0, x.dtype)
            return cls(0, ranks, group, size, nothing, nothing, nothing, nothing)
        scores = math.sqrt(2) * lax.erf_inv(ranks * (rows / (rows + 1)))
        blocks = _blocks(jnp.pad(scores, (half, _padding(rows, half)), mode="edge"), half)
        origin = blocks[:, :1]
        following = jnp.concatenate([origin[1:], origin[-1:]])
        scores_in_block, shift = blocks - origin, origin - following
        inside = _blocks(_padded(jnp.ones_like(x), half), half)
        powers = jnp.stack([inside * scores_in_block**power for power in range(3)])
        count, total, square = _windows(powers, shift, rows)
        here = scores - jnp.repeat(following, 2 * half + 1, axis=1).reshape(-1)[:rows]
        mean = total / count
        spread = square - mean * total
        varies = spread > 64 * jnp.finfo(x.dtype).eps * square
        slope = jnp.where(varies, (here - mean) / jnp.where(varies, spread, 1), 0)
        return cls(
            half, ranks, group, size, scores_in_block, shift, 1 / count - mean * slope, slope
        )

    def __call__(self, z: Array) -> Array:
        """The fit ``(..., n)``."""
        z = self._group_mean(z)
        if self.half == 0:
            return z
        blocks = _blocks(_padded(z, self.half), self.half)
        moments = jnp.stack([blocks, blocks * _like(self.scores, blocks)])
        total, moment = _windows(moments, self.shift, z.shape[-1])
        return self._group_mean(_like(self.level, z) * total + _like(self.slope, z) * moment)

    def _group_mean(self, z: Array) -> Array:
        def mean(z: Array) -> Array:
            return (_group_sum(z, self.group) / _like(self.size, z))[..., self.group]

        return lax.cond(self.group[-1] == z.shape[-1] - 1, lambda z: z, mean, z)


def group_bounds(x: Array) -> tuple[Array, Array]:
    """First and last place of each place's run of equal values in a sorted ``x (n,)``."""
    places = jnp.arange(x.shape[0])
    differs = x[1:] != x[:-1]
    edge = jnp.ones(1, bool)
    first = lax.cummax(jnp.where(jnp.concatenate([edge, differs]), places, 0))
    ends = jnp.where(jnp.concatenate([differs, edge]), places, x.shape[0] - 1)
    return first, lax.cummin(ends, reverse=True)


def _group_sum(z: Array, group: Array) -> Array:
    return jnp.zeros_like(z).at[..., group].add(z, indices_are_sorted=True)


def _like(row: Array, z: Array) -> Array:
    return row.reshape((1,) * (z.ndim - row.ndim) + row.shape)


def _padding(rows: int, half: int) -> int:
    width = 2 * half + 1
    return (-(-rows // width) + 1) * width - rows - half


def _padded(z: Array, half: int) -> Array:
    ends = (half, _padding(z.shape[-1], half))
    return jnp.pad(z, [(0, 0)] * (z.ndim - 1) + [ends])


def _blocks(z: Array, half: int) -> Array:
    return z.reshape(*z.shape[:-1], -1, 2 * half + 1)


def _windows(moments: Array, shift: Array, rows: int) -> Array:
    """Sums over the windows of the first ``rows`` places of ``(power, ..., blocks, w)``.

    The window that begins at a place of a block is the block from there on, and the next block
    up to the same place.  Entry k holds products with the k-th power of a score, which is taken
    relative to its own block; ``shift`` carries the sums of the first part over to the next.
    """
    sums = lax.cumsum(moments, axis=moments.ndim - 1)
    before = sums - moments
    rest = sums[..., -1:] - before
    shift = _like(shift, rest[0])
    moved = [
        sum(math.comb(k, j) * shift ** (k - j) * rest[j] for j in range(k + 1))
        for k in range(moments.shape[0])
    ]
    sums = jnp.stack(moved)[..., :-1, :] + before[..., 1:, :]
    return sums.reshape(*sums.shape[:-2], -1)[..., :rows]
