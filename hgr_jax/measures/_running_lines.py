"""A running-lines smoother: the conditional mean of one variable along another.

Sums over all windows of w neighbours cost O(n).  The order is cut in blocks of w places, so that a
window is the end of one block and the beginning of the next: cumulative sums need not run over
the whole of the data, where float32 would lose the digits of a window in their difference.

Rows may be padded: only the first ``count`` places are data then, and w, which follows from the
count, is traced.  So blocks are gathered, in an array of a static shape that holds any w.
"""

from __future__ import annotations

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from hgr_jax.core.linalg import matmul
from hgr_jax.core.numerics import fill_padding, safe_divide

CUMULATED_AT_ONCE = 32
"""So many entries are cumulated by one matrix product."""


def half_window(span: float, rows: int) -> int:
    """Return how many neighbours on each side a fraction ``span`` of the rows is."""
    half = max(1, round(span * rows / 2)) if span > 0 else 0
    return min(half, rows - 1)


@dataclasses.dataclass(frozen=True)
class Runs:
    """The runs of equal values in a sorted variable ``(n,)``, for each of its places.

    Attributes:
      first, last: first and last place of the run, ``(n,)``.
      tied: whether any has more than one place (of the data).
    """

    first: Array
    last: Array
    tied: Array

    @classmethod
    def from_sorted(cls, x: Array, count: Array | None = None) -> Runs:
        """Return the runs of a sorted, finite ``x (n,)``; padded places must hold infinity."""
        first, past = (jnp.searchsorted(x, x, side=side) for side in ("left", "right"))
        return cls(first, past - 1, jnp.any(fill_padding(past - first, count, 1) > 1))

    def mean(self, z: Array) -> Array:
        """Return ``z (..., n)`` with the mean over its run in each place."""

        def mean(z: Array) -> Array:
            total = jnp.zeros_like(z).at[..., self.first].add(z, indices_are_sorted=True)
            size = (self.last - self.first + 1).astype(z.dtype)
            return total[..., self.first] / _like(size, z)

        return lax.cond(self.tied, mean, lambda z: z, z)


@dataclasses.dataclass(frozen=True)
class Smoother:
    """``smoother(z)`` estimates E[z | x] for ``z (..., n)`` in increasing order of x.

    A line is fitted by least squares to z on the normal scores of x in a window of ``half``
    neighbours on each side, fewer at the ends; equal x share their mean before and after.

    Attributes:
      runs: of equal x.
      ranks: mean ranks of x, from -1 to 1, ``(n,)``; 0 in padded places.
      half: neighbours on each side; 0 leaves the mean over equal values only.
      windows: where lines are fitted; None leaves the mean over equal values only.
    """

    runs: Runs
    ranks: Array
    half: Array | int
    windows: _Windows | None

    @classmethod
    def along(
        cls, x: Array, span: float, count: Array | None = None, half: Array | None = None
    ) -> Smoother:
        """Return the smoother along ``x (n,)``, sorted and finite, over a fraction of its rows.

        Args:
          x: the data; padded places hold infinity.
          span: the fraction, static.
          count: see the module.
          half: `half_window` of the count, traced; needed with it.
        """
        size = x.shape[0]
        rows = size if count is None else count
        runs = Runs.from_sorted(x, count)
        ranks = (runs.first + runs.last + 1).astype(x.dtype)
        ranks = fill_padding(ranks / jnp.asarray(rows, x.dtype) - 1, count)
        widest = half_window(span, size)
        reach = widest if half is None else half
        windows = _Windows.from_ranks(ranks, span, rows, reach, widest) if widest else None
        return cls(runs, ranks, reach, windows)

    def __call__(self, z: Array) -> Array:
        """Return the fit ``(..., n)``; without meaning in padded places."""
        z = self.runs.mean(z)
        return z if self.windows is None else self.runs.mean(self.windows.fit(z))


@dataclasses.dataclass(frozen=True)
class _Windows:
    """Lines in windows of w places.

    Attributes:
      place: which place each entry of the blocks ``(blocks, width)`` holds, w in use of each.
      inside: whether it holds any, as a number.
      scores: normal scores less the first one of their block.
      shift: that first one less the next block's, ``(blocks, 1)``.
      begins: the entry of the (flat) blocks at which the window of each place begins, ``(n,)``.
      level, slope: the fit is ``level * sum(z) + slope * sum(s z)`` over the window, s the
        normal scores less the first one of the block in which the window ends; ``(n,)``.
    """

    place: Array
    inside: Array
    scores: Array
    shift: Array
    begins: Array
    level: Array
    slope: Array

    @classmethod
    def from_ranks(
        cls, ranks: Array, span: float, rows: Array | int, half: Array | int, widest: int
    ) -> _Windows:
        size, dtype = ranks.shape[0], ranks.dtype
        # w is at least span * rows, and 3 where there are two rows or more.
        blocks = min(math.ceil(1 / span), -(-size // 3)) + 1
        window, width = 2 * half + 1, 2 * widest + 1
        entry = lax.iota(jnp.int32, width)[None, :]
        place = lax.iota(jnp.int32, blocks)[:, None] * window + entry - half
        inside = ((entry < window) & (place >= 0) & (place < rows)).astype(dtype)
        place = jnp.clip(place, 0, rows - 1)
        index = lax.iota(jnp.int32, size)
        block = jnp.minimum(index // window, blocks - 2)
        begins = block * width + index % window

        number = jnp.asarray(rows, dtype)
        scores = math.sqrt(2) * lax.erf_inv(ranks * (number / (number + 1)))
        in_blocks = scores[place]
        origin = in_blocks[:, :1]
        following = jnp.concatenate([origin[1:], origin[-1:]])
        in_blocks, shift = in_blocks - origin, origin - following
        powers = jnp.stack([inside * in_blocks**power for power in range(3)])
        total, first, second = _window_sums(powers, shift, begins)
        mean = safe_divide(first, total)
        spread = second - mean * first
        varies = spread > 64 * jnp.finfo(dtype).eps * second
        here = scores - following[block, 0]
        slope = safe_divide(jnp.where(varies, here - mean, 0), jnp.where(varies, spread, 0))
        level = safe_divide(1, total) - mean * slope
        return cls(place, inside, in_blocks, shift, begins, level, slope)

    def fit(self, z: Array) -> Array:
        """Return the lines through ``z (..., n)`` at its places."""
        blocks = z[..., self.place] * _like(self.inside, z[..., None])
        moments = jnp.stack([blocks, blocks * _like(self.scores, blocks)])
        total, moment = _window_sums(moments, self.shift, self.begins)
        return _like(self.level, z) * total + _like(self.slope, z) * moment


def _window_sums(moments: Array, shift: Array, begins: Array) -> Array:
    """Return sums over the windows of ``(power, ..., blocks, width)``, ``(power, ..., n)``.

    The window that begins at a place of a block is the block from there on, and the next block
    up to the same place.  Entry k holds products with the k-th power of a score, which is taken
    relative to its own block; ``shift`` carries the sums of the first part over to the next.
    """
    sums = _cumulated(moments)
    before = sums - moments
    rest = sums[..., -1:] - before
    shift = _like(shift, rest[0])
    moved = [
        sum(math.comb(k, j) * shift ** (k - j) * rest[j] for j in range(k + 1))
        for k in range(moments.shape[0])
    ]
    sums = jnp.stack(moved)[..., :-1, :] + before[..., 1:, :]
    return sums.reshape(*sums.shape[:-2], -1)[..., begins]


def _cumulated(x: Array) -> Array:
    """Return cumulative sums along the last axis, by matrix products: faster than `jnp.cumsum`."""
    size = x.shape[-1]
    if size <= 2 * CUMULATED_AT_ONCE:
        return matmul(x, np.triu(np.ones((size, size), x.dtype)))
    chunks = -(-size // CUMULATED_AT_ONCE)
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, chunks * CUMULATED_AT_ONCE - size)])
    inside = _cumulated(x.reshape(*x.shape[:-1], chunks, CUMULATED_AT_ONCE))
    totals = inside[..., -1]
    sums = inside + (_cumulated(totals) - totals)[..., None]
    return sums.reshape(*x.shape)[..., :size]


def _like(row: Array, z: Array) -> Array:
    return row.reshape((1,) * (z.ndim - row.ndim) + row.shape)
