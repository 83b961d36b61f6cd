"""Tests of rows that are not independent: series in an order, and rows in groups.

A law of independent rows is that of all orders of the rows of one variable.  Where rows are alike,
fewer orders are as likely as the given one under independence; a `RowDesign` says which:

* of a series, its n circular shifts, all computed by FFT (`shift_test`);
* of rows in groups, the orders within each group, or, of series in groups that share no times, the
  shifts of each (`order_tests`); draws of these;
* of a panel, S series at the same T times, what leaves the rows of one time together, as all series
  may share what is slow: the T shifts of all series at once, or, if S > T, exchanges of whole
  series.

With v_ij(r) the mean product of the functions f_i of one variable and g_j of the other in the order
r, z_ij(r) = v_ij(r) / rms of v_ij, and B blocks of (h, k) functions, the statistic is

    S_hk(r) = sum of z_ij(r)^2 over i <= h, j <= k,   T(r) = log of the sum over B of 1 / Q(t_hk(r))

where t_hk is S_hk made normal by its own mean and variance (Wilson & Hilferty), and Q(t) the
probability that a normal variable exceeds t.  Dividing by the rms makes up for slow functions,
whose products vary more in a series than fast ones.

Sources: Wilson & Hilferty, "The distribution of chi-square" (1931); Liu & Xie, "Cauchy combination
test" (2020); Chwialkowski & Gretton, "A kernel independence test for random processes" (2014).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft, special

from hgr_jax._arrays import Floats, Integers
from hgr_jax._checks import as_groups, as_order
from hgr_jax._limits import SMALLEST_OF_TAIL
from hgr_jax.core.host.linalg import residuals, top_singular_values
from hgr_jax.core.host.ranks import BLOCKS, effective_shares, ranks
from hgr_jax.core.ranks import OF_BOTH

ROWS_PER_TIME = 2
"""Smallest number of rows at each time, on average, of a panel."""

FIRST_DRAWS, STOP_SHARE = 199, 0.2
"""Number of random orders after which a pair stops, if this share of them reaches its statistic."""

MIN_NORMAL_ROWS = 20
"""Smallest number of effective rows, times the square of a column's share, with which moments are
taken to be near normal: where the law is known, their tail is then no lighter than it."""

DRAWS = 999
"""Default number of random orders: below their smallest p-value there is the tail."""

SHIFTS_AT_ONCE = 2_000_000
"""Number of moments of shifts that are in memory at a time."""

RANKS_AT_ONCE = 1_000_000
"""Number of permuted ranks whose functions are in memory at a time: 0.3 GB."""

STATISTIC_TOLERANCE = 1e-9
"""Relative difference of two statistics that counts as none."""

MAX_NULL_ORDERS = 1000
"""Largest number of orders that the mean of a correlation under independence is taken over."""

MIN_SERIES = 7.0
"""Smallest n (1 - r) / (1 + r) of a series that is not too slow for its length, with r the
correlation of successive ranks: near 1 half of n (1 - r), whose 5% point for random walks is 14
(Dickey & Fuller 1979)."""


TOO_SLOW = (
    "too slow for the length of the series (a trend, or a random walk): shifts suppose that one"
    " variable of a pair is stationary; take differences of successive rows"
)
"""What is said of variables that shifts do not suit."""


@dataclasses.dataclass(frozen=True)
class RowDesign:
    """Which orders of the rows are equally likely where two variables are independent.

    Attributes:
      rows: ``(n,)``, positions of the rows, sorted by group and then by their order.
      sizes: ``(G,)``, numbers of rows of the groups; of one series, n.
      ordered: whether the groups are series, which are shifted; otherwise rows are permuted.
      cells: of a panel, ``(n,)``, the place of each row in a grid ``(S, T)`` of series and times,
        flat; None of other rows.
      shape: of the grid.
    """

    rows: Integers
    sizes: Integers
    ordered: bool
    cells: Integers | None = None
    shape: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, rows: int, order: Any = None, groups: Any = None) -> RowDesign:
        """Return the design of rows in an order, in groups, or both.

        Raises:
          TypeError, ValueError: for arguments that `_checks.as_order` and `as_groups` refuse, and
            for rows of one series with the same place in the order.
        """
        codes = np.zeros(rows, np.intp) if groups is None else as_groups(groups, rows)
        place = np.arange(rows) if order is None else as_order(order, rows)
        positions = np.lexsort([place, codes])
        if order is not None:
            both = np.stack([codes, place])[:, positions]
            same = (both[:, 1:] == both[:, :-1]).all(axis=0)
            if same.any():
                first, second = positions[np.argmax(same) :][:2]
                raise ValueError(
                    f"order must tell the rows of a series apart; rows {first} and {second} have"
                    " the same value"
                    + (" and group." if groups is not None else ": name the series, groups=.")
                )
        sizes, times = np.bincount(codes), 1 + int(place.max())
        if order is None or len(sizes) == 1 or ROWS_PER_TIME * times > rows:
            return cls(positions, sizes, order is not None)
        cells = codes[positions] * times + place[positions]
        return cls(positions, sizes, True, cells, (len(sizes), times))

    @property
    def is_shifted(self) -> bool:
        """Whether all circular shifts, of one series or of a panel, are its orders."""
        series, times = self.shape
        return self.ordered and (
            len(self.sizes) == 1 or (self.cells is not None and series <= times)
        )

    @property
    def source(self) -> str:
        """What the orders are, in a word."""
        if not self.ordered:
            return "within"
        return "shifts" if self.is_shifted or self.cells is None else "exchanges"

    @property
    def times(self) -> int:
        """The number of shifts: of rows of one series, or of times of a panel."""
        return len(self.rows) if self.cells is None else self.shape[1]

    @property
    def starts(self) -> Integers:
        """The first of the rows of each group, ``(G,)``."""
        return np.cumsum(self.sizes) - self.sizes

    def restricted(self, present: NDArray[np.bool_]) -> RowDesign:
        """Return the design of the rows that are ``present (n,)``, of the same positions."""
        kept = present[self.rows]
        sizes = np.add.reduceat(kept.astype(np.intp), self.starts)
        cells = None if self.cells is None else self.cells[kept]
        return dataclasses.replace(self, rows=self.rows[kept], sizes=sizes[sizes > 0], cells=cells)

    def smallest_pvalue(self, draws: float = math.inf) -> float:
        """Return the smallest p-value by so many draws of the orders; by all shifts, if these."""
        if self.is_shifted:
            return 1 / self.times
        logs = np.log(self.sizes) if self.ordered else special.gammaln(self.sizes + 1.0)
        if self.cells is not None:
            logs = special.gammaln(self.shape[0] + 1.0)
        return max(1 / (1 + draws), math.exp(-float(logs.sum())))

    def drawn(self, generator: np.random.Generator, count: int) -> Integers:
        """Draw orders ``(count, n)`` of the sorted rows; of a panel, of its cells."""
        if self.cells is not None:
            series, times = self.shape
            plain = np.broadcast_to(np.arange(series), (count, series))
            cells = generator.permuted(plain, axis=1)[..., None] * times + np.arange(times)
            return np.asarray(cells.reshape(count, -1))
        starts = np.repeat(self.starts, self.sizes)
        if self.ordered:
            shifts = generator.integers(0, self.sizes, (count, len(self.sizes)))
            return self.shifted(np.repeat(shifts, self.sizes, axis=1))
        group = np.repeat(np.arange(len(self.sizes)), self.sizes)
        keys = generator.random((count, len(starts)), np.float64) + group
        return np.asarray(np.argsort(keys, axis=1))

    def shifted(self, shifts: Any) -> Integers:
        """Return the sorted rows, each so many rows later in its group, in a circle."""
        if self.cells is not None:
            series, times = self.shape
            return np.add.outer(
                np.arange(series) * times, (np.arange(times) + shifts) % times
            ).ravel()
        starts, sizes = (np.repeat(each, self.sizes) for each in (self.starts, self.sizes))
        return np.asarray((np.arange(len(starts)) - starts + shifts) % sizes + starts)

    def is_constant(self, values: Floats) -> bool:
        """Return whether a variable ``(n,)`` is constant in each group, where it is present."""
        ordered = values[self.rows]
        least, most = (np.asarray(f.reduceat(ordered, self.starts)) for f in (np.fmin, np.fmax))
        return bool((np.isnan(least) | (least == most)).all())

    def of_groups(self, values: Floats) -> Floats:
        """Return a value of each group ``(G,)``: the constant, or the mean of the ranks."""
        ordered = values[self.rows]
        if self.is_constant(values):
            return np.asarray(np.fmax.reduceat(ordered, self.starts))
        ranked = ranks(ordered[:, None])[:, 0]
        count = np.add.reduceat((~np.isnan(ranked)).astype(np.float64), self.starts)
        total = np.add.reduceat(np.nan_to_num(ranked), self.starts)
        with np.errstate(invalid="ignore"):
            return np.round(total / count, 12)  # equal means stay equal

    def is_slow(self, values: Floats) -> bool:
        """Return whether a variable ``(n,)`` is too slow for the length of the series."""
        ordered = values[self.rows]
        ranked = ranks(np.where(np.isfinite(ordered), ordered, np.nan)[:, None])[:, 0]
        present = ~np.isnan(ranked)
        if present.sum() < 2:
            return False
        total, count = (
            np.add.reduceat(x, self.starts) for x in (np.nan_to_num(ranked), present.astype(float))
        )
        centred = np.where(present, ranked - np.repeat(total / np.maximum(count, 1), self.sizes), 0)
        inside = np.delete(np.arange(len(centred)), self.starts)
        variance, whole = float(centred @ centred), np.nan_to_num(ranked)
        if variance <= 1e-12 * float(whole @ whole):
            return False
        r = float(centred[inside] @ centred[inside - 1]) / variance
        length = len(centred) / len(self.sizes)
        return 2 / math.sqrt(len(centred)) < r and length * (1 - r) < MIN_SERIES * (1 + r)

    def within(self, functions: Floats) -> Floats:
        """Return orthonormal functions ``(d, n)`` of the sorted rows less their group means."""
        means = np.add.reduceat(functions, self.starts, axis=1) / self.sizes
        centred = functions - np.repeat(means, self.sizes, axis=1)
        return residuals(centred, np.zeros((0, len(self.rows))), None)

    def in_cells(self, functions: Floats) -> Floats:
        """Return the first functions of the rows in the cells of a panel, 0 where there is none."""
        if self.cells is None:
            return functions
        functions = functions[:OF_BOTH]
        whole = np.zeros((len(functions), math.prod(self.shape)), functions.dtype)
        whole[:, self.cells] = functions
        return whole

    def transformed(
        self,
        functions: Floats,
        present: NDArray[np.bool_] | None = None,
        *,
        of_levels: bool = False,
    ) -> SeriesFunctions:
        """Return functions ``(d, m)`` of those sorted rows that are ``present (n,)`` as series.

        Those of a panel lose the means of each series.
        """
        present = np.ones(len(self.rows), bool) if present is None else present
        shape, cells = (1, len(self.rows)), np.arange(len(self.rows))
        if self.cells is not None:
            there = np.empty(len(self.rows), bool)
            there[self.rows] = present
            shape, cells = self.shape, self.cells
            functions = self.restricted(there).within(functions)
        whole, mask = np.zeros((len(functions), math.prod(shape))), np.zeros(math.prod(shape))
        whole[:, cells[present]], mask[cells[present]] = functions, 1
        return SeriesFunctions(
            effective_shares(functions),
            shape,
            fft.rfft(whole.reshape(-1, *shape), axis=-1),
            None if mask.all() else fft.rfft(mask.reshape(shape), axis=-1),
            of_levels,
        )


class BlockEntries(NamedTuple):
    """The products of functions that enter the statistic of a pair.

    Attributes:
      blocks: numbers of functions of both sides, ``(B, 2)``.
      left, right: ``(E,)``, the functions of each product.
      inside: ``(B, E)``, 1 where a product is in a block, and 0 elsewhere.
    """

    blocks: tuple[tuple[int, int], ...]
    left: Integers
    right: Integers
    inside: Floats

    def parts(self, size: int) -> Iterator[BlockEntries]:
        """Yield at most ``size`` products at a time."""
        for start in range(0, len(self.left), size):
            part = slice(start, start + size)
            yield BlockEntries(self.blocks, self.left[part], self.right[part], self.inside[:, part])


@functools.lru_cache(maxsize=256)
def entries_of(h: int, k: int, levels: tuple[bool, bool]) -> BlockEntries:
    """Return the products of ``h`` and ``k`` functions; those of ``levels`` have no order."""
    few = [block for block in BLOCKS if max(block) <= OF_BOTH] if any(levels) else BLOCKS
    sized = ((h if levels[0] else min(i, h), k if levels[1] else min(j, k)) for i, j in few)
    blocks = tuple(dict.fromkeys(sized)) if h and k else ()
    left, right = np.indices((h, k)).reshape(2, -1)
    inside = np.zeros((len(blocks), h * k), bool)
    for place, (i, j) in enumerate(blocks):
        inside[place] = (left < i) & (right < j)
    used = inside.any(axis=0)
    return BlockEntries(blocks, left[used], right[used], inside[:, used].astype(np.float64))


def block_sums(moments: Floats, inside: Floats) -> Floats:
    """Return S of each block ``(B, R)`` from moments ``(E, R)`` in R orders."""
    squares = moments.astype(np.float64) ** 2
    mean = squares.mean(axis=1, keepdims=True)
    return np.asarray(inside @ (squares / np.where(mean > 0, mean, 1)))


def normal_scores(sums: Floats) -> Floats:
    """Return the score t of each block from its sums S ``(B, R)`` in R orders."""
    mean = sums.mean(axis=1, keepdims=True)
    # Of chi-square over its mean, the cube root is near normal: mean 1 - v, variance v.
    v = sums.var(axis=1, keepdims=True) / np.where(mean > 0, 9 * mean**2, 1)
    roots = np.cbrt(sums / np.where(mean > 0, mean, 1))
    return np.asarray(np.where(v > 0, roots - 1 + v, 0) / np.sqrt(np.where(v > 0, v, 1)))


def statistics_of(scores: Floats) -> Floats:
    """Return the statistic T ``(R,)`` from the scores ``(B, R)`` of the blocks."""
    return np.asarray(special.logsumexp(-special.log_ndtr(-scores), axis=0))


class DesignTest(NamedTuple):
    """A test by a `RowDesign`.

    Attributes:
      pvalue: of the hypothesis that the variables are independent.
      smallest: the smallest p-value that so many orders support; below it, by the tail of T.
      lag: rows by which the second variable follows the first, where they depend most.
      degrees: numbers of functions of the block that says most.
      value, null_mean: top singular value of the moments of that block, and its mean in all orders.
    """

    pvalue: float
    smallest: float
    lag: int
    degrees: tuple[int, int]
    value: float
    null_mean: float

    @property
    def is_tail(self) -> bool:
        """Whether the p-value is by the tail."""
        return self.pvalue < self.smallest


@dataclasses.dataclass(frozen=True)
class SeriesFunctions:
    """Orthonormal functions of a variable in the order of S series of T times, and transforms.

    Attributes:
      shares: ``(d,)``, as of `effective_shares`.
      shape: S and T; 1 and the number of rows of one series.
      transforms: ``(d, S, m)``, discrete Fourier transforms of the functions, 0 where missing.
      presence: ``(S, m)``, transform of the mask of the cells where the variable is present; None
        if it is in all.
      of_levels: whether they are functions of a category.
    """

    shares: Floats
    shape: tuple[int, int]
    transforms: NDArray[np.complexfloating]
    presence: NDArray[np.complexfloating] | None = None
    of_levels: bool = False

    def moments_of_shifts(self, other: SeriesFunctions, entries: BlockEntries) -> Floats:
        """Return moments ``(E, T)``: at r, of these functions and the others' r times later.

        With missing values, covariances on the cells that both have, times `_share_weights`.
        """
        times, cells = self.shape[1], math.prod(self.shape)

        def products(left: Any, right: Any) -> Floats:
            return np.asarray(
                fft.irfft(np.einsum("...st,...st->...t", np.conj(left), right), times)
            )

        f, g = self.transforms[entries.left], other.transforms[entries.right]
        if self.presence is None and other.presence is None:
            return products(f, g) / cells
        one = np.zeros(self.transforms.shape[1:], complex)
        one[:, 0] = times
        here, there = (one if each.presence is None else each.presence for each in (self, other))
        count = np.maximum(np.rint(products(here, there)), 1)
        means_f, means_g = products(f, there) / count, products(here, g) / count
        return (products(f, g) / count - means_f * means_g) * _share_weights(count, cells)


def _share_weights(count: Floats, cells: int) -> Floats:
    """Return the roots of the shares of the cells that count, none above the typical one.

    The rows as they are may lack the same cells on both sides: more cells count than in any other
    order, and what is slow in both would say more there.
    """
    return np.sqrt(np.minimum(count, np.median(count)) / cells)


def shift_test(a: SeriesFunctions, b: SeriesFunctions, lags: Sequence[int] = (0,)) -> DesignTest:
    """Test two series by all circular shifts of one, for the largest statistic over ``lags``."""
    times = a.shape[1]
    entries = entries_of(len(a.shares), len(b.shares), (a.of_levels, b.of_levels))
    smallest = len(lags) / times
    if not entries.blocks:
        return DesignTest(1.0, smallest, 0, (0, 0), 0.0, 0.0)
    sums, kept, largest_square = np.zeros((len(entries.blocks), times)), [], 0.0
    # Moments of the lags, and of some other shifts for their mean, are kept.
    shifts = np.r_[np.array(lags) % times, : times : max(1, times // MAX_NULL_ORDERS)]
    for part in entries.parts(max(1, SHIFTS_AT_ONCE // math.prod(a.shape))):
        moments = a.moments_of_shifts(b, part)
        sums += block_sums(moments, part.inside)
        largest_square = max(largest_square, float(np.max(np.mean(moments**2, axis=1))))
        kept.append(moments[:, shifts])
    scores = normal_scores(sums)
    one = statistics_of(scores)
    statistics = np.stack([np.roll(one, -lag) for lag in lags], axis=1)
    least = SMALLEST_OF_TAIL if _is_normal(largest_square, a.shares, b.shares) else smallest
    moments = np.concatenate(kept)
    return _decide(statistics, scores[:, np.array(lags)], moments, entries, lags, smallest, least)


def _decide(
    statistics: Floats,
    scores: Floats,
    moments: Floats,
    entries: BlockEntries,
    lags: Sequence[int],
    smallest: float,
    least: float,
) -> DesignTest:
    """Decide by the statistics ``(R, L)`` of R orders, that of the data first, at L lags.

    ``scores (B, L)`` of the blocks and the first L ``moments (E, L + m)`` are of the data.  Where
    no more orders reach its statistic than is ``smallest``, the tail goes on, down to ``least``.
    """
    largest = statistics.max(axis=1)
    reached = largest >= largest[0] * (1 - STATISTIC_TOLERANCE)
    place = max(range(len(lags)), key=lambda place: (statistics[0, place], -abs(lags[place])))
    best = int(np.argmax(scores[:, place]))
    values = _top_values(moments, entries, best)
    pvalue = max(float(np.mean(reached)), smallest)
    if pvalue <= smallest:
        # Of a large statistic the mean of Q over the blocks and lags is nearly the law.
        tail = scores.size * math.exp(-largest[0])
        pvalue = min(pvalue, max(tail, least))
    value, mean = float(values[place]), float(values[len(lags) :].mean())
    return DesignTest(pvalue, smallest, lags[place], entries.blocks[best], value, mean)


def order_tests(
    others: Sequence[Floats],
    moved: Floats,
    design: RowDesign,
    *,
    draws: int,
    generator: np.random.Generator,
    levels: Sequence[tuple[bool, bool]],
    lags: Sequence[int] = (0,),
) -> list[DesignTest]:
    """Test several variables against one, by random orders of the rows of that one.

    Args:
      others, moved: functions ``(d, n)`` of each variable, by `RowDesign.within` and `in_cells`.
      design: of the rows.
      draws: largest number of random orders.
      generator: of these.
      levels: for each of the others, whether it and the moved one are categories.
      lags: of series, rows by which the moved variable may follow the others.
    """
    entries = [entries_of(len(f), len(moved), of) for f, of in zip(others, levels, strict=True)]
    smallest, of_moved = design.smallest_pvalue(draws), effective_shares(moved)
    results = [DesignTest(1.0, smallest, 0, (0, 0), 0.0, 0.0) for _ in others]
    active = [place for place, each in enumerate(entries) if each.blocks]
    moments: dict[int, list[Floats]] = {place: [] for place in active}
    present: Floats = np.any(moved, axis=0).astype(float)  # cells of a panel without a row are 0
    counts: list[Floats] = []
    done = 0
    at_once = max(1, RANKS_AT_ONCE // (moved.shape[1] * len(lags)))
    for stop in sorted({min(FIRST_DRAWS, draws), draws}):
        while done < stop and active:
            orders = design.drawn(generator, min(at_once, stop - done))
            done += len(orders)
            if not counts:
                orders = np.concatenate([np.arange(orders.shape[1])[None], orders])
            if design.ordered:
                orders = np.stack([design.shifted(lag)[orders] for lag in lags], axis=1)
                orders = orders.reshape(-1, orders.shape[-1])
            counts.append(present[orders] @ present)
            shape = design.shape if design.cells is not None and tuple(lags) == (0,) else None
            found = _moments_in_orders(others, moved, entries, active, orders, shape)
            for place, part in found.items():
                moments[place].append(part)
        for place in [*active]:
            all_moments = np.concatenate(moments[place], axis=1)
            if not present.all():
                counted = np.concatenate(counts)
                all_moments *= _share_weights(counted, len(present)) * len(present) / counted
            scores = normal_scores(block_sums(all_moments, entries[place].inside))
            statistics = statistics_of(scores).reshape(-1, len(lags))
            largest_square = float(np.max(np.mean(all_moments**2, axis=1)))
            least = smallest
            if _is_normal(largest_square, effective_shares(others[place]), of_moved):
                least = max(SMALLEST_OF_TAIL, design.smallest_pvalue())
            few = all_moments[:, : len(lags) + MAX_NULL_ORDERS]
            results[place] = _decide(
                statistics, scores[:, : len(lags)], few, entries[place], lags, smallest, least
            )
            if results[place].pvalue > STOP_SHARE:
                active.remove(place)
    return results


def _moments_in_orders(
    others: Sequence[Floats],
    moved: Floats,
    entries: Sequence[BlockEntries],
    active: Sequence[int],
    orders: Integers,
    shape: tuple[int, int] | None,
) -> dict[int, Floats]:
    """Return moments ``(E, R)`` of the active others and the moved variable in R orders.

    Orders of a panel of this ``shape`` exchange its series: their products are taken once.
    """
    moments = {
        place: np.empty((len(entries[place].left), len(orders)), moved.dtype) for place in active
    }
    for j, one in enumerate(moved):
        # The functions that meet this one, of all others in one product.
        used = {place: entries[place].left[entries[place].right == j] for place in active}
        sides = [others[place][used[place]] for place in active]
        if not any(map(len, sides)):
            continue
        if shape is None:
            products = np.concatenate(sides) @ one[orders].T / len(one)
        else:
            of_series = np.concatenate(sides).reshape(-1, *shape) @ one.reshape(shape).T
            cells = orders[:, :: shape[1]] // shape[1] + np.arange(shape[0]) * shape[0]
            taken = of_series.reshape(len(of_series), -1).take(cells, axis=1)
            products = taken @ np.full(shape[0], 1 / len(one))
        ends = np.cumsum([len(side) for side in sides])[:-1]
        for place, part in zip(active, np.split(products, ends), strict=True):
            moments[place][entries[place].right == j] = part
    return moments


def _is_normal(largest_square: float, *shares: Floats) -> bool:
    """Return whether moments of functions with such effective shares are near normal.

    ``largest_square`` is the largest mean square of a moment; of n independent rows it is 1 / n.
    """
    return all(bool((share**2 >= MIN_NORMAL_ROWS * largest_square).all()) for share in shares)


def _top_values(moments: Floats, entries: BlockEntries, block: int) -> Floats:
    """Return the top singular value ``(R,)`` of a block of moments ``(E, R)``."""
    matrices = moments[entries.inside[block] > 0].reshape(*entries.blocks[block], -1)
    return np.minimum(top_singular_values(matrices), 1)
