"""HGR of one pair from functions of both variables: the estimate and its interval, on the host.

`HGREstimate` takes any functions: of ranks, indicators of levels, or residuals of either.  Scans
take the first looks (`hgr_jax.core.ranks`) at many pairs at once, by `average_of_moments`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hgr_jax._arrays import Floats, Integers
from hgr_jax._checks import as_host_weights, warn_of_counts
from hgr_jax.core.host.linalg import orthonormalise, top_eigenvalues, top_singular_triples
from hgr_jax.core.host.polynomials import PolynomialPair, centred_indicators
from hgr_jax.core.host.ranks import (
    RankedColumn,
    RankOrder,
    block_squares,
    effective_row_count,
    effective_shares,
    is_reliable,
    leading,
    scale_to_effective_rows,
)
from hgr_jax.core.ranks import (
    EXACT,
    LEAST_ROWS,
    MUCH_ALIKE,
    OF_BOTH,
    OF_FEW,
    OF_ONE,
    ROWS_PER_SIZE,
    SIZES,
    THIN,
    Average,
    Blocks,
    alike_beyond,
    average_of_blocks,
    cell_count,
    cosine_moments,
    largest_size,
    long_sizes,
    look_again,
)

FOLDS = 5
"""Number of parts of the rows, each of which is held out once for an interval."""

LOW_WIDTH, HIGH_WIDTH = 1.1, 1.35
"""Standard errors at the ends of an interval, in units of the normal quantile: for the choice of
the numbers of functions, and for what bounded functions miss."""

RESOLVED_PER_ROOT = 5.0
"""Largest number of functions at the high end, as a multiple of the fourth root of the rows: with
as many as an estimate looks at, chance hides too much."""

LEAST_SIZE = 4
"""Smallest number of functions that may show what further functions would add."""

MOST_INDICATORS = 16
"""Largest number of functions of a category that long blocks have."""

Numbers = tuple[bool, bool]
"""Whether either side has functions of ranks; the indicators of a category, which have no order,
are all in every block."""


LAST_LOOK = 2
"""The looks at a pair are numbered from 0."""


def blocks_of(shape: tuple[int, int], numbers: Numbers, look: int) -> Blocks:
    """Return the blocks of a look at moments ``(h, k)``."""
    if all(numbers):
        most = min(size for size in SIZES if size >= max(shape))
        return Blocks.all(most) if look else Blocks.first(most)
    return Blocks.of_levels(shape, numbers, look)


@dataclasses.dataclass(frozen=True)
class LongBlocks:
    """Long blocks of N pairs, of cosines of one variable and few functions of the other.

    Attributes:
      squares: squared top singular values, ``(blocks, N)``.
      cosines, functions: their numbers, ``(blocks, N)``; 0 where a block does not count.
    """

    squares: Floats
    cosines: Integers
    functions: Integers

    @classmethod
    def joined(cls, parts: Sequence[LongBlocks]) -> LongBlocks:
        """Join the blocks of several pairs."""
        every = zip(*map(dataclasses.astuple, parts), strict=True)
        return cls(*(np.concatenate(each, axis=1) for each in every))

    def take(self, pairs: Integers) -> LongBlocks:
        """Select pairs."""
        return LongBlocks(*(each[:, pairs] for each in dataclasses.astuple(self)))


def long_blocks(
    order: RankOrder, g: Floats, size: Integers, reliable: Integers, rows: float, *, number: bool
) -> LongBlocks:
    """Return the long blocks of functions of one variable beside N others.

    Sizes are those above the largest one of other blocks, up to one for every 8 rows.  The last
    block has all functions of the variable, if it has few enough values, of at least 5 rows each:
    of a value of few rows chance may make more than it does on average, unless all is explained.

    Args:
      order: the rows in the order of the variable.
      g: functions ``(f, N, n)`` of the others.
      size: ``(N,)``, the number of functions of the variable in other blocks.
      reliable: ``(N,)``, numbers of functions of the others that do not single out a few rows,
        beside which chance would make more than it does on average.
      rows: effective number of rows.
      number: whether the others are numbers.
    """
    count, pairs, _ = g.shape
    few = range(1, count + 1) if number else range(count, count + 1)
    sizes = np.array(long_sizes(rows), np.intp)
    sums = order.sums(g.reshape(count * pairs, -1))
    m = cosine_moments(order.cells(sums), int(sizes.max(initial=1)))[0].reshape(count, pairs, -1)
    share = np.diff(order.edges)
    of_levels = (sums / np.sqrt(share)).reshape(count, pairs, -1)
    grams = np.empty((count, count, len(sizes) + 1, pairs))
    for a in range(count):
        for b in range(a, count):
            partial = np.cumsum(m[a] * m[b], axis=1)[:, sizes - 1]
            whole = np.einsum("pl,pl->p", of_levels[a], of_levels[b])
            grams[a, b] = grams[b, a] = np.concatenate([partial, whole[:, None]], axis=1).T
    squares = [top_eigenvalues(grams[:h, :h].reshape(h, h, -1)) for h in few]
    all_sizes = np.append(sizes, order.levels - 1)[:, None]
    counts = (all_sizes > size) & (all_sizes <= rows / ROWS_PER_SIZE)
    squares = np.minimum(np.reshape(squares, (len(few), -1, pairs)), 1)
    cosines = np.tile(np.where(counts, all_sizes, 0), (len(few), 1, 1))
    if share.min() * rows < LEAST_ROWS - 1e-3:  # for rounding
        cosines[:, -1] *= squares[:, -1] >= EXACT
    return LongBlocks(
        squares.reshape(-1, pairs),
        cosines.reshape(-1, pairs),
        np.minimum(np.repeat(few, len(all_sizes))[:, None], reliable),
    )


def average_of_moments(
    m: Floats,
    available: tuple[Integers, Integers],
    rows: Floats,
    numbers: Numbers,
    blocks: Blocks,
    long: Sequence[LongBlocks] = (),
) -> Average:
    """Average the blocks of moments ``(h, k, N)``, and the long blocks of both sides, if any.

    Args:
      m: moments of orthonormal functions.
      available: numbers of independent functions of both sides, ``(N,)``.
      rows: numbers of rows, ``(N,)``.
      numbers: kinds of the sides.
      blocks: of `blocks_of`.
      long: long blocks, of functions of the first side, and of the second.
    """
    counts = counts_in_blocks(available, rows, numbers)
    # The indicators of a category may depend on one another: then all are needed.
    used = [
        count if number else np.full_like(count, size)
        for count, number, size in zip(counts, numbers, m.shape, strict=False)
    ]
    padding = [max(most - size, 0) for most, size in zip(blocks.shape, m.shape, strict=False)]
    squares = block_squares(
        np.pad(leading(m, *used), [(0, extra) for extra in padding] + [(0, 0)]), blocks
    )
    h, k = (
        np.minimum(np.array(sizes)[:, None], count)
        for sizes, count in zip((blocks.rows, blocks.columns), counts, strict=True)
    )
    for side, each in enumerate(long):
        sizes = (each.cosines, each.functions)[:: 1 - 2 * side]
        squares = np.concatenate([squares, each.squares])
        h, k = (np.concatenate(both) for both in zip((h, k), sizes, strict=True))
    return average_of_blocks(squares, h, k, rows)


def counts_in_blocks(
    available: tuple[Integers, Integers], rows: Floats, numbers: Numbers
) -> tuple[Integers, Integers]:
    """Return the numbers of functions of both sides ``(N,)`` in the largest block."""
    limit = largest_size(np.maximum(rows, 1.0)).astype(np.intp)
    h, k = (
        np.minimum(count, limit) if number else np.asarray(count)
        for count, number in zip(available, numbers, strict=True)
    )
    return h, k


def explained_by_first(m: Floats, size: Integers, *, number: bool) -> tuple[Floats, Integers]:
    """Return the explained variance of functions of one side, and by how many of the other.

    Both are ``(f, N)``: of up to three functions of a number, and of all of a category.

    Args:
      m: moments ``(h, k, N)`` of the first look, whose rows belong to the side of the functions.
      size: ``(N,)``, number of functions of the other side in blocks.
      number: whether the side is a number.
    """
    m = m[:THIN] if number else m
    most = [OF_ONE, *[OF_FEW] * (THIN - 1)][: len(m)] if number else [OF_BOTH] * len(m)
    counts = np.minimum(np.array(most)[:, None], size)
    inside = np.arange(m.shape[1])[:, None] < counts[:, None]
    return np.sum(m**2 * inside, axis=1), counts


def is_alike(order: RankOrder, g: Floats, explained: Floats, counts: Integers, rows: float) -> bool:
    """Return whether neighbours are alike beyond what is ``explained (m,)`` of ``g (m, n)``.

    Some neighbours first, and then all.
    """
    beyond = np.ones(len(g), bool)
    for every in (False, True):
        found = order.alike(g[beyond], every=every)
        beyond[beyond] = alike_beyond(*found, explained[beyond], counts[beyond], rows)
        if not beyond.any():
            return False
    return True


@dataclasses.dataclass(frozen=True)
class HGREstimate:
    """An estimate of HGR.

    Attributes:
      pair: 1, and functions of both variables, of the first look.
      numbers: whether a side has functions of ranks, in order.
      rows: the effective number of rows.
      columns: the ranked numbers, of which there are more functions; None for others.
      weights: of the rows ``(n,)``, as the columns were ranked with; None for equal ones.
      noise: variance that is added to each function of `pair`, ``(1 + h + k, 1)``: residuals that
        are small beside it are no evidence.
    """

    pair: PolynomialPair
    numbers: Numbers
    rows: float
    columns: tuple[RankedColumn | None, RankedColumn | None] = (None, None)
    weights: Floats | None = None
    noise: Floats | float = 0.0

    @classmethod
    def of(
        cls, variables: Sequence[Floats], levels: Sequence[int | None], weights: Floats | None
    ) -> HGREstimate:
        """Take two variables ``(n,)``: finite numbers, or codes of categories.

        Args:
          variables: both of them.
          levels: numbers of levels of categories; None for numbers.
          weights: positive weights ``(n,)``; None for equal ones.
        """
        w = None if weights is None or not np.ptp(weights) else weights
        columns, sides = zip(
            *(
                column_and_functions(x, of_levels, w)
                for x, of_levels in zip(variables, levels, strict=True)
            ),
            strict=True,
        )
        return cls.of_columns(columns, sides, w)

    @classmethod
    def of_rows(
        cls, variables: Sequence[Floats], is_level: Sequence[bool], weights: ArrayLike | None
    ) -> HGREstimate | None:
        """Take two variables ``(n,)``, numbers or codes, where these are known.

        None for values that are not finite, and of too few rows.
        """
        columns: list[Any] = [*variables]
        w = as_host_weights(weights, len(variables[0]))
        if w is not None:
            warn_of_counts(weights)
            columns, w = [x[w > 0] for x in columns], w[w > 0]
        for name, x, of_levels in zip("ab", columns, is_level, strict=True):
            if of_levels and np.isnan(x).any():
                raise ValueError(
                    f"{name} is a category that misses a level in {np.isnan(x).sum()} row(s): leave"
                    " these out, or use hgr_jax.scan, which takes the rows where both columns are"
                    " present."
                )
        known = all(np.isfinite(x).all() for x in columns)
        if not known or effective_row_count(len(columns[0]), w) < LEAST_ROWS:
            return None
        levels: list[int | None] = [None, None]
        for place in np.flatnonzero(is_level):
            distinct, columns[place] = np.unique(columns[place], return_inverse=True)
            levels[place] = len(distinct)
        return cls.of(columns, levels, w)

    @classmethod
    def of_columns(
        cls,
        columns: Sequence[RankedColumn | None],
        functions: Sequence[Floats],
        weights: Floats | None,
    ) -> HGREstimate:
        """Take ranked numbers, None for categories, and functions of both."""
        count = functions[0].shape[1]
        shares = np.full(count, 1 / count) if weights is None else weights / weights.sum()
        pair = PolynomialPair((functions[0], functions[1]), shares)
        one, other = columns
        return cls(
            pair,
            (one is not None, other is not None),
            effective_row_count(count, weights),
            (one, other),
            weights,
        )

    @functools.cached_property
    def moments(self) -> Floats:
        """Means of the products of orthonormalised functions of both variables, ``(h, k)``."""
        if self.columns == (None, None):
            functions = self.pair.functions
            gram = (functions * self.pair.shares) @ functions.T
            return np.asarray(self._whitened(gram[..., None])[0][..., 0])
        return self.pair.cross_moments()

    @functools.cached_property
    def look(self) -> int:
        """The number of the look that decides."""
        if not self._has_many:
            return 0
        if self.is_alike:
            return LAST_LOOK
        for look in range(LAST_LOOK):
            blocks = blocks_of(self._moments_of(look).shape, self.numbers, look)
            if not look_again(self._average_in(look), blocks, look)[0]:
                return look
        return LAST_LOOK

    @property
    def _has_many(self) -> bool:
        """Whether a number has more functions than the square blocks of the first look."""
        sizes = zip(self._sizes(0), self.numbers, strict=True)
        return any(number and size > OF_BOTH for size, number in sizes)

    @functools.cached_property
    def is_alike(self) -> bool:
        """Whether neighbours in the order of a variable are alike beyond the first look."""
        return self._has_many and any(map(self._is_alike, (0, 1)))

    @functools.cached_property
    def _averages(self) -> dict[int, Average]:
        return {}

    def _average_in(self, look: int) -> Average:
        """The average of the blocks of a look, made when it is asked for."""
        if look not in self._averages:
            m, available = self._moments_of(look), self._available(look)
            blocks = blocks_of(m.shape, self.numbers, look)
            self._averages[look] = average_of_moments(
                m[..., None],
                available,
                np.array([self.rows]),
                self.numbers,
                blocks,
                self.long if look == LAST_LOOK else (),
            )
        return self._averages[look]

    def _moments_of(self, look: int) -> Floats:
        return self.moments if look < LAST_LOOK else self.wide_moments

    def _is_alike(self, side: int) -> bool:
        """Whether neighbours in the order of a side are alike beyond the first look."""
        order, g = self.orders[side], self.pair.sides[1 - side]
        if order is None or not self.numbers[side]:
            return False
        number = self.numbers[1 - side]
        g = g[:THIN] if number else g
        m = (self.moments if side else self.moments.T)[..., None]
        size = np.array([self._sizes(0)[side]])
        explained, counts = explained_by_first(m, size, number=number)
        return is_alike(order, g, explained[:, 0], counts[:, 0], self.rows)

    @functools.cached_property
    def orders(self) -> tuple[RankOrder | None, RankOrder | None]:
        """The rows in the order of each column."""
        one, other = (
            None if column is None else RankOrder(column.codes, self.pair.shares)
            for column in self.columns
        )
        return one, other

    @functools.cached_property
    def wide(self) -> PolynomialPair:
        """Functions of both variables, of the last look."""
        if self.columns == (None, None):
            return self.pair
        one, other = (
            functions if column is None else column.wide_functions(self.rows, self.weights).T
            for column, functions in zip(self.columns, self.pair.sides, strict=True)
        )
        return PolynomialPair((one, other), self.pair.shares)

    @functools.cached_property
    def long(self) -> list[LongBlocks]:
        """Long blocks of functions of the first variable, and of the second."""
        found = []
        for side, order in enumerate(self.orders):
            other = self.pair.sides[1 - side]
            number = self.numbers[1 - side]
            g = other[:THIN] if number else other
            if order is None or not len(g) or len(g) > MOST_INDICATORS:
                found.append(LongBlocks(*np.zeros((3, 0, 1))))
                continue
            size = np.array([self._sizes(LAST_LOOK)[side]])
            reliable = np.array([self._reliable(1 - side, g)])
            found.append(long_blocks(order, g[:, None], size, reliable, self.rows, number=number))
        return found

    def _reliable(self, side: int, g: Floats) -> int:
        """Return how many of the functions ``g`` of a side do not single out a few rows."""
        column = self.columns[side]
        if column is not None:
            return min(column.reliable, len(g))
        heaviest = 1.0 if self.weights is None else scale_to_effective_rows(self.weights)
        share = effective_shares(g, heaviest)[-1]
        return len(g) if is_reliable(self.rows, share) else 0

    @functools.cached_property
    def wide_moments(self) -> Floats:
        """Moments of the functions of the last look."""
        if self.columns == (None, None):
            return self.moments
        return self.wide.cross_moments()

    @property
    def average(self) -> Average:
        """The average of the blocks of the look that decides."""
        return self._average_in(self.look)

    def _pair_of(self, look: int) -> PolynomialPair:
        return self.wide if look == LAST_LOOK else self.pair

    def _sizes(self, look: int) -> tuple[int, int]:
        """The numbers of functions of both sides in the largest block of a look."""
        h, k = counts_in_blocks(self._available(look), np.array([self.rows]), self.numbers)
        return int(h[0]), int(k[0])

    def _available(self, look: int) -> tuple[Integers, Integers]:
        """The numbers of functions of both sides in a look that are not 0, ``(1,)``."""
        h, k = self._pair_of(look).varying
        return np.array([h]), np.array([k])

    @property
    def value(self) -> float:
        """The estimate."""
        return float(self.average.value[0])

    @functools.cached_property
    def functions(self) -> tuple[Floats, Floats]:
        """Both functions of the block with the highest score, ``(n,)``, of variance 1.

        That of the first variable correlates positively with the first of its functions.
        """
        best, shares = np.zeros(len(self.average.weights)), self.pair.shares
        best[int(self.average.best[0])] = 1
        f, g = (each[0] for each in self._fitted(best, np.ones((1, len(shares)), bool)))
        f, g = (x / np.sqrt(max(float(shares @ x**2), 1e-300)) for x in (f, g))
        first = self.pair.functions[1:2]
        sign = -1 if (first @ (f * shares) < 0).any() else 1
        return sign * f, sign * g

    @property
    def degrees(self) -> tuple[int, int]:
        """The numbers of functions of the block with the highest score."""
        best = int(self.average.best[0])
        h, k = (int(number[best, 0]) for number in self.average.functions)
        return h, k

    @functools.cached_property
    def held_out(self) -> tuple[float, float]:
        """Correlation, on rows held out, of functions found on the others; its standard error."""
        part = parts_of_rows(len(self.pair.shares))
        f, g = self._fitted(self.average.weights[:, 0], part != np.arange(FOLDS)[:, None])
        rows = np.arange(len(part))
        return correlation_of(f[part, rows], g[part, rows], self.pair.shares)

    def _fitted(self, weights: Floats, kept: Any) -> tuple[Floats, Floats]:
        """Return the top functions ``(N, n)`` of both variables, found on rows ``kept (N, n)``.

        Of the kind of blocks, ordinary or long, that has most of the ``weights (blocks,)``.
        """
        counts = [len(each.squares) for each in self.long] if self.look == LAST_LOOK else []
        kinds = np.split(weights, np.cumsum([len(weights) - sum(counts), *counts])[:-1])
        most = int(np.argmax([each.sum() for each in kinds]))
        if not most:
            return self._fitted_blocks(kinds[0], kept)
        f, g = self._fitted_long(most - 1, kinds[most], kept)
        return (f, g) if most == 1 else (g, f)

    def _fitted_blocks(self, weights: Floats, kept: Any) -> tuple[Floats, Floats]:
        pair = self._pair_of(self.look)
        blocks = blocks_of(self._moments_of(self.look).shape, self.numbers, self.look)
        shape = self._moments_of(self.look).shape
        entries = np.zeros([max(sizes) for sizes in zip(blocks.shape, shape, strict=True)])
        for weight, h, k in zip(weights, blocks.rows, blocks.columns, strict=True):
            entries[:h, :k] += weight
        count, functions = pair.directions[0], pair.functions
        weighted = functions * pair.shares
        grams = np.stack([(weighted * rows) @ functions.T for rows in kept], axis=-1)
        m, map_a, map_b = self._whitened(grams, pair)
        _, u, v = top_singular_triples(m * entries[: len(m), : m.shape[1], None])
        means = grams[0] / np.maximum(grams[0, 0], 1e-300)
        f, g = np.empty((2, len(kept), len(pair.shares)))
        for i in range(len(kept)):
            centred = functions[1:] - means[1:, i, None]
            f[i] = (map_a[..., i].T @ u[:, i]) @ centred[:count]
            g[i] = (map_b[..., i].T @ v[:, i]) @ centred[count:]
        return f, g

    def _fitted_long(self, side: int, weights: Floats, kept: Any) -> tuple[Floats, Floats]:
        """Return functions of a side by many cosines, or by its values, and of the other."""
        order, long = self.orders[side], self.long[side]
        assert order is not None
        other = self.pair.sides[1 - side]
        g = other[:THIN] if self.numbers[1 - side] else other
        best = int(np.argmax(weights))
        count, cosines = int(long.functions[best, 0]), int(long.cosines[best, 0])
        of_side, of_other = [], []
        for rows in kept:
            sums = order.sums(g[:count] * rows)
            if cosines == order.levels - 1:
                share = np.maximum(order.sums(rows[None] * 1.0), 1e-300)
                m = sums / np.sqrt(share)
            else:
                m = cosine_moments(order.cells(sums), cosines)[0]
            u, _, v = np.linalg.svd(m, full_matrices=False)
            of_other.append(u[:, 0] @ g[:count])
            if cosines == order.levels - 1:
                of_side.append(order.at_levels(v[0] / np.sqrt(share[0])))
            else:
                cells = cell_count(len(order.order))
                angles = np.pi * (np.arange(cells) + 0.5) / cells
                waves = np.cos(np.arange(1, cosines + 1)[:, None] * angles)
                of_side.append(order.spread(np.sqrt(2) * v[0] @ waves))
        return np.array(of_side), np.array(of_other)

    @functools.cached_property
    def highest(self) -> float:
        """The largest value that the rows support, before the sampling error.

        That is the value of the largest block whose functions the rows resolve (or what chance
        hides there), and what its last doubling gained, as further functions may gain it too; 1
        where there are too few functions to say so.  Where a block of many functions of one
        variable and few of the other wins, as of an oscillation, gains are of such blocks, and the
        likeness of neighbours bounds them.
        """
        average = self._average_in(LAST_LOOK)
        sizes = growing(blocks_of(self.wide_moments.shape, self.numbers, LAST_LOOK))
        h, k = (number[:, 0] for number in average.functions)
        resolved = min(RESOLVED_PER_ROOT * self.rows**0.25, self.rows / ROWS_PER_SIZE)
        few = all(self.numbers) and max(s for s in SIZES if s <= max(resolved, 1)) < LEAST_SIZE
        last = min((size for size in sizes if size >= resolved), default=max(sizes))
        half = max((size for size in sizes if size <= last / 2), default=min(sizes))
        at_last, at_half = sizes[last], sizes[half]
        if few or not h[at_last] or not k[at_last]:
            return 1.0
        values = average.values[:, 0]
        a, b = ((number[at_last] - 1) / self.rows for number in (h, k))
        hidden = (a * b / max((1 - a) * (1 - b), 1e-300)) ** 0.25  # looks like noise
        value = max(values[at_last], hidden)
        fewer, more = sorted(self.degrees)
        if fewer <= THIN and more > half:
            value = max(value, self._highest_of_thin(average))
        else:
            value += max(values[at_last] - values[at_half], 0)
        mean = self.average.weights[:, 0] @ self.average.values[:, 0]
        return float(min(max(value, mean, self._shown_by_neighbours), 1))

    def _highest_of_thin(self, average: Average) -> float:
        """The largest value of blocks with as few functions of one variable as the best one."""
        side = int(self.degrees[1] > self.degrees[0])
        many, few = (average.functions[i][:, 0] for i in (side, 1 - side))
        chosen = np.flatnonzero((few == min(self.degrees)) & (many > 0))
        last = chosen[np.argmax(many[chosen])]
        half = chosen[np.argmin(np.abs(many[chosen] - many[last] / 2))]
        values = average.values[:, 0]
        value = values[last] + max(values[last] - values[half], 0)
        order = self.orders[side]
        if order is not None and self.numbers[1 - side]:
            alike, error = order.alike(self.pair.sides[1 - side][:THIN])
            value = min(value, max((alike + 2 * error).max(), 0) ** 0.5)
        return float(max(value, values[last]))

    @property
    def _shown_by_neighbours(self) -> float:
        """What neighbours show where they are more alike than the value explains, else 0.

        The mean product of a function of one variable at neighbours in the order of the other
        estimates a share of its variance that is at most the square of HGR.
        """
        shown = 0.0
        for side, order in enumerate(self.orders):
            g = self.pair.sides[1 - side]
            if order is None or not len(g):
                continue
            alike, error = order.alike(g[:THIN])
            beyond = alike - self.value**2 > MUCH_ALIKE * error
            shown = max(shown, np.sqrt(np.max((alike + 2 * error) * beyond)))
        return shown

    def interval(self, pvalue: float, level: float) -> tuple[float, float]:
        """Return an interval, as `hgr_jax.HGRFit.interval` does; ``pvalue`` is of independence."""
        if np.isnan(self.value):
            return np.nan, np.nan
        z = NormalDist().inv_cdf((1 + level) / 2)
        held_out, error = self.held_out
        error = z * error / (1 - held_out**2) if abs(held_out) < 1 else 0.0
        agreeing = 2 * ((1 - level) / 2) ** (1 / self.rows) - 1
        low = min(_moved(held_out, -LOW_WIDTH * error), agreeing, self.value)
        low = max(low, float(np.finfo(float).eps)) if pvalue < 1 - level else 0.0
        high = max(_moved(self.highest, HIGH_WIDTH * error), self.value)
        return low, max(low, high) if high < 1 - 1 / self.rows else 1.0

    def _whitened(
        self, grams: Floats, pair: PolynomialPair | None = None
    ) -> tuple[Floats, Floats, Floats]:
        """Return `PolynomialPair.whitened` of moments ``(m, m, N)`` with the noise."""
        if np.any(self.noise):
            diagonal, grams = np.arange(len(grams)), grams.copy()
            grams[diagonal, diagonal] += self.noise * grams[0, 0]
        return (pair or self.pair).whitened(grams)


def column_and_functions(
    x: Floats, levels: int | None, weights: Floats | None
) -> tuple[RankedColumn | None, Floats]:
    """Return the ranks of a number, None for a category, and functions ``(d, n)``.

    Arguments are those of `HGREstimate.of`, of one variable; weights are not all equal.
    """
    count = len(x)
    if levels is None:
        column = RankedColumn.of_values(x, weights)
        return column, column.functions(column.available(effective_row_count(count, weights)))
    shares = np.full(count, 1 / count) if weights is None else weights / weights.sum()
    return None, orthonormalise(centred_indicators(x, shares, levels), shares)[0]


def growing(blocks: Blocks) -> dict[int, int]:
    """Return the places of blocks whose two sides grow together, by their size.

    Those with as many rows as columns; where one side has a single size, all.
    """
    single = [min(sizes) == max(sizes) for sizes in (blocks.rows, blocks.columns)]
    sizes = enumerate(zip(blocks.rows, blocks.columns, strict=True))
    return {(k if single[0] else h): place for place, (h, k) in sizes if h == k or any(single)}


def _moved(correlation: float, step: float) -> float:
    """Return ``tanh(atanh(correlation) + step)``."""
    shift = float(np.tanh(step))
    return (correlation + shift) / (1 + correlation * shift)


def parts_of_rows(rows: int) -> Integers:
    """Return the part of each row ``(n,)``, from 0, one of `FOLDS`.

    Of every `FOLDS` rows that follow each other, each part has one.  Which one changes from group
    to group, as if at random, whatever the values and however many rows follow.
    """
    group, place = np.divmod(np.arange(rows, dtype=np.uint32), np.uint32(FOLDS))
    turn = ((group * np.uint32(0x9E3779B9) >> np.uint32(16)) * np.uint32(FOLDS)) >> np.uint32(16)
    return (place.astype(np.int64) - turn) % FOLDS


def correlation_of(f: Floats, g: Floats, shares: Floats) -> tuple[float, float]:
    """Return the correlation of functions of mean near 0, and its standard error."""
    f, g = (x / np.sqrt(max(float(shares @ (x * x)), 1e-300)) for x in (f, g))
    correlation = np.clip(shares @ (f * g), -1, 1)
    psi = shares * (f * g - correlation * (f * f + g * g) / 2)
    return float(correlation), float(np.sqrt(np.sum(psi**2)))
