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
from hgr_jax.inference.results import IndependenceTest

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
      cells: of one series and of a panel, ``(n,)``, the place of each row in a grid ``(S, T)`` of
        series and times, flat; None of other rows.
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
        if order is None or (len(sizes) > 1 and ROWS_PER_TIME * times > rows):
            return cls(positions, sizes, order is not None)
        cells = codes[positions] * times + place[positions]
        return cls(positions, sizes, True, cells, (len(sizes), times))

    @property
    def is_shifted(self) -> bool:
        """Whether all circular shifts, of one series or of a panel, are its orders."""
        return 0 < self.shape[0] <= self.shape[1]

    @property
    def is_panel(self) -> bool:
        """Whether the rows are several series at the same times."""
        return self.shape[0] > 1

    @property
    def source(self) -> str:
        """What the orders are, in a word."""
        if not self.ordered:
            return "within"
        return "shifts" if self.is_shifted or self.cells is None else "exchanges"

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
            return 1 / self.shape[1]
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
        row = np.arange(len(self.rows))
        if self.ordered:
            shifts = generator.integers(0, self.sizes, (count, len(self.sizes)))
            start, size = (np.repeat(each, self.sizes) for each in (self.starts, self.sizes))
            later = row - start + np.repeat(shifts, self.sizes, axis=1)
            return np.asarray(later % size + start)
        group = np.repeat(np.arange(len(self.sizes)), self.sizes)
        keys = generator.random((count, len(row)), np.float64) + group
        return np.asarray(np.argsort(keys, axis=1))

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
        # Rounded, so that equal means stay equal.
        return np.round(self._group_means(ranks(ordered[:, None])[:, 0]), 12)

    def _group_means(self, values: Floats) -> Floats:
        """Return the mean of the sorted rows of each group ``(G,)`` that are not NaN."""
        count = np.add.reduceat((~np.isnan(values)).astype(np.float64), self.starts)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.add.reduceat(np.nan_to_num(values), self.starts) / count)

    def is_slow(self, values: Floats) -> bool:
        """Return whether a variable ``(n,)`` is too slow for the length of the series."""
        ordered = values[self.rows]
        ranked = ranks(np.where(np.isfinite(ordered), ordered, np.nan)[:, None])[:, 0]
        centred = np.nan_to_num(ranked - np.repeat(self._group_means(ranked), self.sizes))
        variance = float(centred @ centred)
        if variance <= 1e-12 * np.nansum(ranked**2):
            return False
        later = np.delete(np.arange(len(centred)), self.starts)
        r = float(centred[later] @ centred[later - 1]) / variance
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
        """Return functions ``(d, m)`` of the sorted rows as series, of those that are ``present``.

        Those of a panel lose the means of each series.
        """
        design = self if present is None else self.restricted(present)
        if self.is_panel:
            functions = design.within(functions)
        whole = np.zeros((len(functions) + 1, math.prod(self.shape)))
        whole[:-1, design.cells], whole[-1, design.cells] = functions, 1
        transforms = fft.rfft(whole.reshape(-1, *self.shape), axis=-1)
        return SeriesFunctions(
            effective_shares(functions),
            self.shape,
            transforms[:-1],
            transforms[-1],
            bool(whole[-1].all()),
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


@dataclasses.dataclass(frozen=True)
class SeriesFunctions:
    """Orthonormal functions of a variable in the order of S series of T times, and transforms.

    Attributes:
      shares: ``(d,)``, as of `effective_shares`.
      shape: S and T; 1 and the number of rows of one series.
      transforms: ``(d, S, m)``, discrete Fourier transforms of the functions, 0 where missing.
      presence: ``(S, m)``, transform of the mask of the cells where the variable is present.
      is_complete: whether it is present in all.
      of_levels: whether they are functions of a category.
    """

    shares: Floats
    shape: tuple[int, int]
    transforms: NDArray[np.complexfloating]
    presence: NDArray[np.complexfloating]
    is_complete: bool
    of_levels: bool

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
        if self.is_complete and other.is_complete:
            return products(f, g) / cells
        here, there = self.presence, other.presence
        count = np.maximum(np.rint(products(here, there)), 1)
        means_f, means_g = products(f, there) / count, products(here, g) / count
        return (products(f, g) / count - means_f * means_g) * _share_weights(count, cells)


def _share_weights(count: Floats, cells: int) -> Floats:
    """Return the roots of the shares of the cells that count, none above the typical one.

    The rows as they are may lack the same cells on both sides: more cells count than in any other
    order, and what is slow in both would say more there.
    """
    return np.sqrt(np.minimum(count, np.median(count)) / cells)


def shift_test(
    a: SeriesFunctions, b: SeriesFunctions, lags: Sequence[int] = (0,)
) -> IndependenceTest:
    """Test two series by all circular shifts of one, for the largest statistic over ``lags``."""
    times = a.shape[1]
    entries = entries_of(len(a.shares), len(b.shares), (a.of_levels, b.of_levels))
    smallest = len(lags) / times
    if not entries.blocks:
        return IndependenceTest(0.0, 1.0, "shifts", (0, 0), smallest_pvalue=smallest)
    sums, at_lags, largest_square = np.zeros((len(entries.blocks), times)), [], 0.0
    for part in entries.parts(max(1, SHIFTS_AT_ONCE // math.prod(a.shape))):
        moments = a.moments_of_shifts(b, part)
        sums += block_sums(moments, part.inside)
        largest_square = max(largest_square, float(np.max(np.mean(moments**2, axis=1))))
        at_lags.append(moments[:, lags])
    scores = normal_scores(sums)
    statistics = statistics_of(scores)
    place = max(range(len(lags)), key=lambda place: (statistics[lags[place]], -abs(lags[place])))
    value, degrees = _strongest_block(
        scores[:, lags[place]], np.concatenate(at_lags)[:, place], entries
    )
    largest = np.max([np.roll(statistics, -lag) for lag in lags], axis=0)
    least = SMALLEST_OF_TAIL if _is_normal(largest_square, a.shares, b.shares) else smallest
    pvalue = _pvalue(largest, len(entries.blocks) * len(lags), smallest, least)
    source = "tail" if pvalue < smallest else "shifts"
    return IndependenceTest(value, pvalue, source, degrees, lags[place], smallest)


def _pvalue(statistics: Floats, terms: int, smallest: float, least: float) -> float:
    """Return the p-value of the first of the statistics ``(R,)`` of R orders.

    Where no more orders reach it than is ``smallest``, the tail of the largest of so many ``terms``
    goes on, down to ``least``.
    """
    reached = statistics >= statistics[0] * (1 - STATISTIC_TOLERANCE)
    pvalue = max(float(np.mean(reached)), smallest)
    if pvalue > smallest:
        return pvalue
    # Of a large statistic the mean of Q over the blocks and lags is nearly the law.
    return min(pvalue, max(terms * math.exp(-statistics[0]), least))


def _strongest_block(
    scores: Floats, moments: Floats, entries: BlockEntries
) -> tuple[float, tuple[int, int]]:
    """Return the top singular value of the block with the largest of ``scores (B,)``, and its size.

    ``moments (E,)`` are of the data.
    """
    best = int(np.argmax(scores))
    matrix = moments[entries.inside[best] > 0].reshape(*entries.blocks[best], 1)
    return min(float(top_singular_values(matrix)[0]), 1.0), entries.blocks[best]


def order_tests(
    others: Sequence[Floats],
    moved: Floats,
    design: RowDesign,
    *,
    draws: int,
    generator: np.random.Generator,
    levels: Sequence[tuple[bool, bool]],
) -> list[IndependenceTest]:
    """Test several variables against one, by random orders of the rows of that one.

    Args:
      others, moved: functions ``(d, n)`` of each variable, by `RowDesign.within` and `in_cells`.
      design: of the rows.
      draws: largest number of random orders.
      generator: of these.
      levels: for each of the others, whether it and the moved one are categories.
    """
    entries = [entries_of(len(f), len(moved), of) for f, of in zip(others, levels, strict=True)]
    smallest, of_moved = design.smallest_pvalue(draws), effective_shares(moved)
    none = IndependenceTest(0.0, 1.0, design.source, (0, 0), smallest_pvalue=smallest)
    results = [none for _ in others]
    active = [place for place, each in enumerate(entries) if each.blocks]
    moments: dict[int, list[Floats]] = {place: [] for place in active}
    present: Floats = np.any(moved, axis=0).astype(float)  # cells of a panel without a row are 0
    counts: list[Floats] = []
    at_once = max(1, RANKS_AT_ONCE // moved.shape[1])
    orders, done = np.arange(moved.shape[1])[None], 0  # the rows as they are come first
    first = min(FIRST_DRAWS, draws)
    while active:
        counts.append(present[orders] @ present)
        for place, part in _moments_in_orders(
            others, moved, entries, active, orders, design
        ).items():
            moments[place].append(part)
        for place in [*active] if done in (first, draws) else ():
            all_moments = np.concatenate(moments[place], axis=1)
            if not present.all():
                counted = np.concatenate(counts)
                all_moments *= _share_weights(counted, len(present)) * len(present) / counted
            scores = normal_scores(block_sums(all_moments, entries[place].inside))
            largest_square = float(np.max(np.mean(all_moments**2, axis=1)))
            least = smallest
            if _is_normal(largest_square, effective_shares(others[place]), of_moved):
                least = max(SMALLEST_OF_TAIL, design.smallest_pvalue())
            pvalue = _pvalue(statistics_of(scores), len(scores), smallest, least)
            value, degrees = _strongest_block(scores[:, 0], all_moments[:, 0], entries[place])
            source = "tail" if pvalue < smallest else design.source
            results[place] = IndependenceTest(value, pvalue, source, degrees, 0, smallest)
            if pvalue > STOP_SHARE:
                active.remove(place)
        if done == draws:
            break
        orders = design.drawn(generator, min(at_once, (first if done < first else draws) - done))
        done += len(orders)
    return results


def _moments_in_orders(
    others: Sequence[Floats],
    moved: Floats,
    entries: Sequence[BlockEntries],
    active: Sequence[int],
    orders: Integers,
    design: RowDesign,
) -> dict[int, Floats]:
    """Return moments ``(E, R)`` of the active others and the moved variable in R orders."""
    moments = {
        place: np.empty((len(entries[place].left), len(orders)), moved.dtype) for place in active
    }
    for j, one in enumerate(moved):
        # The functions that meet this one, of all others in one product.
        used = {place: entries[place].left[entries[place].right == j] for place in active}
        sides = [others[place][used[place]] for place in active]
        if not any(map(len, sides)):
            continue
        if design.cells is None:
            products = np.concatenate(sides) @ one[orders].T / len(one)
        else:  # series are exchanged: their products are taken once
            series, times = design.shape
            of_series = np.concatenate(sides).reshape(-1, series, times)
            of_series = of_series @ one.reshape(series, times).T
            cells = orders[:, ::times] // times + np.arange(series) * series
            taken = of_series.reshape(len(of_series), -1).take(cells, axis=1)
            products = taken @ np.full(series, 1 / len(one))
        ends = np.cumsum([len(side) for side in sides])[:-1]
        for place, part in zip(active, np.split(products, ends), strict=True):
            moments[place][entries[place].right == j] = part
    return moments


def _is_normal(largest_square: float, *shares: Floats) -> bool:
    """Return whether moments of functions with such effective shares are near normal.

    ``largest_square`` is the largest mean square of a moment; of n independent rows it is 1 / n.
    """
    return all(bool((share**2 >= MIN_NORMAL_ROWS * largest_square).all()) for share in shares)
