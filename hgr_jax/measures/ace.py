"""ACE: maximal correlation by alternating conditional expectations.

A running-lines smoother (`Smoother`) estimates conditional means.  Sums over all windows of w
neighbours cost O(n): the order is cut in blocks of w places, so that a window is the end of one
block and the beginning of the next.  (A cumulative sum over all the data would lose the digits of a
window in float32.)  With padded rows w is traced; so blocks are gathered in an array of a static
shape that holds any w.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike

from hgr_jax._arrays import as_dtype, is_traced
from hgr_jax._checks import (
    as_nonnegative,
    as_pair,
    as_real_array,
    check_count,
    check_fraction,
    one_or_pair,
)
from hgr_jax.core.fits import TransformedPair, check_single, takes_one_value
from hgr_jax.core.linalg import matmul, right_singular, symmetric_eigen
from hgr_jax.core.numerics import (
    equal_weights,
    extremes,
    fill_padding,
    row_count,
    row_mean,
    safe_divide,
    safe_rsqrt,
    standardise,
)
from hgr_jax.core.rows import first_rows, over_rows, pad_rows, padded_length, row_by_row

STARTS = 4
"""Number of functions that are iterated together before the best pair is iterated alone."""

START_SWEEPS = 6
"""Number of sweeps of the functions together."""

Spans = tuple[float, float]


def ace(
    a: ArrayLike,
    b: ArrayLike,
    *,
    span: float | Spans = 0.2,
    max_iterations: int = 100,
    tolerance: ArrayLike = 1e-5,
) -> Array:
    """Return HGR by alternating conditional expectations (ACE), with a running-lines smoother.

        repeat   f <- S_a[g(b)] / |S_a[g(b)]|,   g <- S_b[f(a)] / |S_b[f(a)]|
        value = rho(f(a), g(b))

    where S_x[z] estimates E[z | x] by lines: at each row a least-squares line is fitted to z on
    the normal scores of x, over the ``span`` fraction of the rows that are nearest in the order
    of x (half of them on each side; fewer at the two ends); rows of equal x share the mean of z
    before, and the mean of the fit after.  Only the order of x enters: increasing maps of ``a`` or
    ``b`` change nothing, and outliers weigh no more than other rows.

    To escape lower stationary pairs, orthonormal polynomials of degrees 1 to 4 of the ranks of b
    are iterated together first; the most correlated pair in their spans is then iterated alone.

    Args:
      a, b: real arrays ``(n,)``, traced.
      span: fraction of the rows that one line is fitted to, from 0 to 1, static; one number, or
        a pair (for a, for b).  Smaller follows finer relations, and more of the noise.  0 is the
        plain mean over equal values, exact for categories and other discrete variables.  (A
        continuous variable with span 0 interpolates.)
      max_iterations: largest number of sweeps, static, int >= 1.
      tolerance: change of the correlation in a sweep at which the iteration ends, >= 0, traced.

    Returns:
      A scalar in [0, 1], of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for shapes, dtypes or static arguments other than the above.

    Derivatives: the first, forward and reverse, with respect to ``a`` and ``b``: that of the
    correlation with the two fitted curves held fixed (for large n the gradient of HGR, by the
    envelope theorem).  The slope of a curve at a row is that of the chord over its window.

    Degenerate data: a constant ``a`` or ``b`` gives 0, with zero derivatives; NaN or infinity
    gives NaN.  The sample value is biased upward: between independent variables it has mean
    0.14 at n = 1,000 and 0.045 at 10,000 with the default span.

    Cost: two sorts, then O(n) for each sweep; O(n) memory.

    Source: Breiman & Friedman, "Estimating optimal transformations for multiple regression and
    correlation" (1985).

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> angle = jnp.linspace(0, 2 * jnp.pi, 500, endpoint=False)
      >>> print(f"{hgr_jax.ace(jnp.cos(angle), jnp.sin(angle)):.2f}")  # a circle
      1.00
      >>> size, fits = jnp.array([0, 0, 1, 2, 2, 1]), jnp.array([0, 0, 1, 0, 0, 1])
      >>> print(f"{hgr_jax.ace(size, fits, span=0):.2f}")  # categories
      1.00
    """
    a, b = as_pair(a, b, max_ndim=1)
    return _check_and_fit(a, b, span, max_iterations, tolerance).correlation


def ace_fit(
    a: ArrayLike,
    b: ArrayLike,
    *,
    span: float | Spans = 0.2,
    max_iterations: int = 100,
    tolerance: ArrayLike = 1e-5,
) -> AceFit:
    """Fit ACE: its transformations, and how its iteration ended.

    Degenerate data, cost and source as in `ace`, whose value is the ``correlation`` of the
    result.

    Args:
      a, b, span, max_iterations, tolerance: as in `ace`.

    Returns:
      An `AceFit`.  ``correlation`` is differentiable as in `ace`; ``f`` and ``g`` are constants
      with respect to the data of the fit.

    Raises:
      TypeError, ValueError: as `ace` does.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 401)
      >>> fit = hgr_jax.ace_fit(a, a**2)
      >>> bool(fit.converged)
      True
      >>> print(f"{fit.score(a / 2, a**2 / 4):.2f}")
      1.00
    """
    a, b = as_pair(a, b, max_ndim=1)
    fit = _check_and_fit(a, b, span, max_iterations, tolerance)
    f, g = jax.tree.map(lambda x: first_rows(x, a.shape[0]), (fit.f, fit.g))
    return dataclasses.replace(fit, f=f, g=g)


def _check_and_fit(
    a: Array, b: Array, span: Any, max_iterations: Any, tolerance: ArrayLike
) -> AceFit:
    spans = one_or_pair("span", span, check_fraction)
    halves = np.array([half_window(part, a.shape[0]) for part in spans], np.int32)
    tolerance = as_nonnegative("tolerance", tolerance, a.dtype)
    steps = check_count("max_iterations", max_iterations)
    return _fit(a, b, halves, tolerance, spans=spans, steps=steps)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class AceCurve:
    """A transformation fitted by `ace_fit`: piecewise linear, constant outside the data.

    It has zero mean and unit variance on the data of the fit; if the correlation is 0, it may be 0.
    Differentiable in ``x``.

    Attributes:
      knots: the data in increasing order, ``(n,)``.
      values: the transformation there, ``(n,)``.
    """

    knots: Array
    values: Array

    @takes_one_value
    def __call__(self, x: ArrayLike) -> Array:
        """Return values ``(m,)`` at ``x (m,)``; a scalar at one number."""
        check_single(self.knots.shape[:-1])
        x = as_dtype(as_real_array("x", x, max_ndim=1), self.knots.dtype)
        curve = self
        if not is_traced(self, x):
            curve = jax.tree.map(lambda leaf: pad_rows(leaf, padded_length(leaf.shape[0])), self)
        return _interpolate(x, curve)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class AceFit(TransformedPair):
    """A fit of ACE.

    Attributes:
      correlation: the value of the measure, in [0, 1].
      f, g: the transformations of a and of b, callable on new data.  The sign of the pair makes f
        correlate positively with the ranks of a.
      iterations: number of sweeps.
      converged: whether the last sweep changed the correlation by at most the tolerance.
    """

    f: AceCurve = dataclasses.field(repr=False)
    g: AceCurve = dataclasses.field(repr=False)
    iterations: Array
    converged: Array


@dataclasses.dataclass(frozen=True)
class _Ordered:
    """One variable in increasing order; functions of it are ``(..., n)`` in that order.

    ``rank`` maps rows to places in the order, ``order`` places to rows.  Padded rows come last.
    """

    values: Array
    order: Array
    rank: Array
    smoother: Smoother
    count: Array | None

    @classmethod
    def from_values(cls, x: Array, span: float, half: Array, count: Array | None) -> _Ordered:
        index = lax.iota(jnp.int32, x.shape[0])
        values, order = lax.sort((fill_padding(x, count, jnp.inf), index), num_keys=1)
        rank = jnp.zeros_like(order).at[order].set(index, unique_indices=True)
        smoother = Smoother.along(values, span, count, None if count is None else half)
        return cls(values, order, rank, smoother, count)

    def unit(self, z: Array) -> Array:
        """Standardise functions ``z (..., n)``; 0 for constant ones."""
        w = equal_weights(self.count, self.values)
        z = jnp.where(w > 0, z, 0)
        z = jnp.where(w > 0, z - matmul(z, w)[..., None], 0)
        return z * safe_rsqrt(matmul(z * z, w))[..., None]

    def orthonormal(self, z: Array) -> Array:
        """Return an orthonormal basis ``(m, n)`` of ``z`` less its means, padded by rows of 0."""
        z = self.unit(z)
        values, vectors = symmetric_eigen(matmul(z, z.T) / row_count(self.count, self.values))
        keep = values > 32 * z.shape[0] * jnp.finfo(z.dtype).eps * jnp.max(values)
        scale = safe_rsqrt(jnp.where(keep, values, 0))
        return matmul(scale[:, None] * vectors.T, z)

    def along(self, values: Array, x: Array) -> Array:
        """Return ``values`` at the rows of ``x``, whose derivative by ``x`` is the slope."""
        reach = jnp.maximum(self.smoother.half, 1)
        last_row = (x.shape[0] if self.count is None else self.count) - 1
        left = jnp.maximum(self.smoother.runs.first - reach, 0)
        right = jnp.minimum(self.smoother.runs.last + reach, last_row)
        run = self.values[right] - self.values[left]
        # Division by the smallest numbers would overflow.
        safe = jnp.isfinite(run) & (run > 2**20 * float(jnp.finfo(run.dtype).tiny))
        slope = safe_divide(values[right] - values[left], jnp.where(safe, run, 0))
        return values[self.rank] + slope[self.rank] * (x - lax.stop_gradient(x))


@over_rows(columns=2, static=("spans", "steps"))
def _fit(
    a: Array,
    b: Array,
    halves: Array,
    tolerance: Array,
    *,
    spans: Spans,
    steps: int,
    count: Array | None,
) -> AceFit:
    finite = jnp.isfinite(jnp.stack(extremes(jnp.stack([a, b], axis=1)))).all()
    a, b = jnp.where(finite, a, 0), jnp.where(finite, b, 0)
    side_a, side_b = (
        _Ordered.from_values(lax.stop_gradient(x), span, halves[i], count)
        for i, (x, span) in enumerate(zip((a, b), spans, strict=True))
    )
    f, g, iterations, change = _iterate(side_a, side_b, tolerance, steps)
    sign = jnp.where(jnp.dot(f, side_a.smoother.ranks) < 0, -1, 1).astype(f.dtype)
    f, g = sign * f, sign * g
    moved = [side_a.along(f, a), side_b.along(g, b)]
    unit = standardise(jnp.stack(moved, axis=1), count)
    product = row_mean(unit[:, 0] * unit[:, 1], count)
    correlation = product / jnp.maximum(lax.stop_gradient(jnp.abs(product)), 1)
    correlation = jnp.where(correlation > 0, correlation, 0)
    f, g, correlation = (jnp.where(finite, z, jnp.nan) for z in (f, g, correlation))
    return AceFit(
        correlation,
        AceCurve(side_a.values, f),
        AceCurve(side_b.values, g),
        iterations,
        finite & (change <= tolerance),
    )


def _iterate(
    side_a: _Ordered, side_b: _Ordered, tolerance: Array, steps: int
) -> tuple[Array, Array, Array, Array]:
    """Return f and g, each in the order of its variable, number of sweeps, and last change."""
    to_a, to_b = side_b.rank[side_a.order], side_a.rank[side_b.order]
    dtype = side_a.values.dtype
    rows = row_count(side_a.count, side_a.values)

    def together(_: Any, pair: tuple[Array, Array]) -> tuple[Array, Array]:
        f = side_a.orthonormal(side_a.smoother(pair[1][:, to_a]))
        return f, side_b.orthonormal(side_b.smoother(f[:, to_b]))

    def unfinished(state: tuple[Array, ...]) -> Array:
        _, _, _, iterations, change = state
        return (iterations < steps) & (change > tolerance)

    def sweep(state: tuple[Array, ...]) -> tuple[Array, ...]:
        _, g, before, iterations, _ = state
        f = side_a.unit(side_a.smoother(g[to_a]))
        g = side_b.unit(side_b.smoother(f[to_b]))
        value = jnp.dot(f[to_b], g) / rows
        return f, g, value, iterations + 1, jnp.abs(value - before)

    ranks = side_b.smoother.ranks
    g = jnp.stack([ranks**degree for degree in range(1, STARTS + 1)])
    f, g = lax.fori_loop(0, START_SWEEPS, together, (jnp.zeros_like(g), g))
    values, vectors, largest, _ = right_singular(matmul(f[:, to_b], g.T) / rows)
    g = matmul(vectors[jnp.argmax(values)], g)
    infinite = jnp.full((), jnp.inf, dtype)
    none = jnp.zeros((), jnp.int32)
    start: tuple[Array, ...] = (jnp.zeros_like(g), g, largest, none, infinite)
    f, g, _, iterations, change = lax.while_loop(unfinished, sweep, start)
    return f, g, iterations, change


@row_by_row(columns=1)
def _interpolate(x: Array, curve: AceCurve) -> Array:
    knots, values = curve.knots, curve.values
    if knots.shape[0] == 1:
        return jnp.where(jnp.isnan(x), x, values[0])
    place = jnp.searchsorted(knots, x, side="right") - 1
    place = jnp.clip(place, 0, knots.shape[0] - 2)
    left, gap = knots[place], knots[place + 1] - knots[place]
    fraction = jnp.where(gap > 0, safe_divide(x - left, gap), x - x)
    fraction = jnp.clip(fraction, 0, 1)
    return values[place] + fraction * (values[place + 1] - values[place])


MAX_SUMMED_AT_ONCE = 32
"""Largest number of entries whose cumulative sums are one matrix product, halved."""


def half_window(span: float, rows: int) -> int:
    """Return the number of neighbours on each side in a fraction ``span`` of the rows."""
    half = max(1, round(span * rows / 2)) if span > 0 else 0
    return min(half, rows - 1)


@dataclasses.dataclass(frozen=True)
class Runs:
    """The runs of equal values in a sorted x: first and last place of each; whether any is tied."""

    first: Array
    last: Array
    tied: Array

    @classmethod
    def from_sorted(cls, x: Array, count: Array | None = None) -> Runs:
        """Return the runs of a sorted, finite ``x (n,)``; padded places must hold infinity."""
        first, past = (jnp.searchsorted(x, x, side=side) for side in ("left", "right"))
        return cls(first, past - 1, jnp.any(fill_padding(past - first, count, 1) > 1))

    def mean(self, z: Array) -> Array:
        """Return the means of ``z (..., n)`` over the run of each place."""

        def mean(z: Array) -> Array:
            total = jnp.zeros_like(z).at[..., self.first].add(z, indices_are_sorted=True)
            size = (self.last - self.first + 1).astype(z.dtype)
            return total[..., self.first] / _with_ndim_of(size, z)

        return lax.cond(self.tied, mean, lambda z: z, z)


@dataclasses.dataclass(frozen=True)
class Smoother:
    """``smoother(z)`` estimates E[z | x] for ``z (..., n)`` in increasing order of x.

    Attributes:
      runs: of equal x.
      ranks: mean ranks of x, from -1 to 1, ``(n,)``; 0 in padded places.
      half: neighbours on each side of a line; 0 for the mean over equal values.
      windows: the windows that lines are fitted to; None for the mean over equal values.
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

        Padded places of x hold infinity; with a ``count``, ``half`` is its traced `half_window`.
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
      place: place of each entry of the blocks ``(blocks, width)``; w entries of a row are used.
      inside: 1 for used entries, 0 for others.
      scores: normal scores less the first score of their block.
      shift: first score of a block less that of the next, ``(blocks, 1)``.
      begins: entry of the flattened blocks at which the window of each place begins, ``(n,)``.
      level, slope: the fit is ``level * sum(z) + slope * sum(s z)`` over the window, with s the
        normal scores less the first score of the block in which the window ends; ``(n,)``.
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
        blocks = z[..., self.place] * _with_ndim_of(self.inside, z[..., None])
        moments = jnp.stack([blocks, blocks * _with_ndim_of(self.scores, blocks)])
        total, moment = _window_sums(moments, self.shift, self.begins)
        return _with_ndim_of(self.level, z) * total + _with_ndim_of(self.slope, z) * moment


def _window_sums(moments: Array, shift: Array, begins: Array) -> Array:
    """Return sums over the windows of ``(power, ..., blocks, width)``, ``(power, ..., n)``.

    A window is the end of a block and the beginning of the next.  Entry k holds products with the
    k-th power of the scores of a block; ``shift`` converts them to the scores of the next block.
    """
    sums = _cumulative_sums(moments)
    before = sums - moments
    after = sums[..., -1:] - before
    shift = _with_ndim_of(shift, after[0])
    shifted = [
        sum(math.comb(k, j) * shift ** (k - j) * after[j] for j in range(k + 1))
        for k in range(moments.shape[0])
    ]
    sums = jnp.stack(shifted)[..., :-1, :] + before[..., 1:, :]
    return sums.reshape(*sums.shape[:-2], -1)[..., begins]


def _cumulative_sums(x: Array) -> Array:
    """Return cumulative sums along the last axis, by matrix products, faster than `jnp.cumsum`."""
    size = x.shape[-1]
    if size <= 2 * MAX_SUMMED_AT_ONCE:
        return matmul(x, np.triu(np.ones((size, size), x.dtype)))
    chunks = -(-size // MAX_SUMMED_AT_ONCE)
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, chunks * MAX_SUMMED_AT_ONCE - size)])
    inside = _cumulative_sums(x.reshape(*x.shape[:-1], chunks, MAX_SUMMED_AT_ONCE))
    totals = inside[..., -1]
    sums = inside + (_cumulative_sums(totals) - totals)[..., None]
    return sums.reshape(*x.shape)[..., :size]


def _with_ndim_of(row: Array, z: Array) -> Array:
    """Prepend axes of length 1 to ``row``, to broadcast with ``z``."""
    return row.reshape((1,) * (z.ndim - row.ndim) + row.shape)
