"""HGR from the cross moments of functions of the ranks of two variables: written once.

`rank_functions` are the functions.  `Blocks` lists the leading blocks of the matrix M of their
cross moments; `average_of_blocks` turns the squared top singular values of blocks into an estimate.
It is made in three looks, wherever it is made, each where the largest blocks of the one before
have a say (`look_again`):

* the first at few moments: blocks of up to 8 functions of both variables, 16 of one and 3 of the
  other, or 32 of one and 1 of the other (`Blocks.first`);
* the second at all blocks of up to 32 functions;
* the last at all blocks, and at *long* ones, of ever more cosines of one variable and up to three
  functions of the other (`cosine_moments`): also where neighbours in the order of one variable,
  some and then all, are more alike than the first look explains (`alike_beyond`).

How, and what of it is proved, is in the theory page "HGR of ranks".  Arrays are of JAX, traced or
not, or of NumPy, and so are results; this module imports neither.

Source: Bao, Hu, Pan & Zhou, "Canonical correlation coefficients of high-dimensional Gaussian
vectors" (2019), for the bias.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Any

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of functions of one variable in a block."""

THIN = 3
"""Blocks with at most so many functions of one variable are looked at for every size of the other;
thicker ones only with as many functions of both."""

OF_BOTH, OF_FEW, OF_ONE = 8, 16, 32
"""Largest numbers of functions of a variable in the first look: beside as many of the other, beside
up to three, and beside one."""

LONG_SIZES = tuple(round(2 ** (place / 4)) for place in range(17, 37))
"""Numbers of cosines of one variable in a long block, from 19 to 512."""

SIZE_PER_ROOT = 9.0
"""Largest size of a block, as a multiple of the fourth root of the number of rows."""

ROWS_PER_SIZE = 8
"""Smallest number of rows for each function of one variable."""

LEAST_ROWS = 5
"""Smallest number of rows for which there is a value."""

PENALTY, PENALTY_OF_STRONG = 4.0, 2.0
"""Penalty of each function for weak and for strong dependence, in units of a block's statistic."""

STRONG_SCORE = 20.0
"""Score above independence at which most of the way to `PENALTY_OF_STRONG` is gone."""

INDEPENDENCE = -1.0
"""Score of independence; that of one function of each variable is the statistic less 4."""

LOOK_AGAIN_ABOVE = (0.03, 0.3)
"""Look at larger blocks if the largest ones of the first and of the second look have more than this
of the weight."""

NEIGHBOURS = 256
"""Number of neighbouring rows, in the order of one variable, that are compared first."""

MUCH_ALIKE = 3.0
"""Standard errors by which neighbours are more alike than the first look explains, to take the last
look."""

EXACT = 1 - 1e-4
"""Square from which on a variable is a function of the values of the other one, even rare ones."""

MOST_CELLS = 4096
"""Largest number of cells of equal share in which functions are summed before their cosines."""


def rank_functions(share: Any, degree: int) -> Any:
    """Return functions ``(degree, ...)`` of shares of the rows below, of mean near 0, variance 1.

    In this order: a bounded quantile function, ``(u - 1/2)^2``, and ``cos(pi j u)`` from j = 3 on.
    All are bounded: no corner of the square of the ranks has a say of its own, as it has with
    polynomials.
    """
    xp = share.__array_namespace__()
    quantile = math.sqrt(12.6) * xp.sin(xp.arcsin(xp.clip(2 * share - 1, -1, 1)) / 3)
    square = math.sqrt(180) * ((share - 0.5) ** 2 - 1 / 12)
    if degree < 3:
        return xp.stack([quantile, square])[:degree]
    if xp.__name__ == "numpy":  # in one array, as it may be large
        functions = _waves(share, degree)
        functions[0], functions[1] = quantile, square
        functions[2:] *= math.sqrt(2)
        return functions
    from hgr_jax.core.numerics import cosines  # of JAX

    waves = cosines(share, range(3, degree + 1))
    return xp.concatenate([quantile[None], square[None], math.sqrt(2) * waves])


def _waves(share: Any, degree: int) -> Any:
    """Return ``cos(pi j u)`` in row j - 1, for j = 3 .. ``degree``; the first two rows are free."""
    xp = share.__array_namespace__()
    waves = xp.empty((degree, *share.shape), dtype=share.dtype)
    first = xp.cos(math.pi * share)
    last, wave = first, 2 * first * first - 1
    for place in range(2, degree):
        last, wave = wave, xp.subtract(2 * first * wave, last, out=waves[place])
    return waves


@dataclasses.dataclass(frozen=True)
class Blocks:
    """Blocks of a matrix: block i has its first ``rows[i]`` rows and ``columns[i]`` columns.

    ``at_edge`` tells which of them are the largest of their kind in a look.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    at_edge: tuple[bool, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """The largest numbers of rows and of columns."""
        return max(self.rows), max(self.columns)

    def places(self, others: Blocks) -> list[int]:
        """Return the places here of others that are here too."""
        sizes = list(zip(self.rows, self.columns, strict=True))
        return [sizes.index(each) for each in zip(others.rows, others.columns, strict=True)]

    @classmethod
    @functools.cache
    def all(cls, most: int) -> Blocks:
        """Return thin blocks of all `SIZES`, and square ones, of a square matrix.

        At the edge are those of the second look, of 32 functions.
        """
        sizes = [size for size in SIZES if size <= most]
        pairs = [(i, j) for i in sizes for j in sizes if min(i, j) <= THIN or i == j]
        rows, columns = zip(*pairs, strict=True)
        return cls(rows, columns, tuple(max(pair) == OF_ONE for pair in pairs))

    @classmethod
    @functools.cache
    def first(cls, most: int) -> Blocks:
        """Return the blocks of the first look at a square matrix."""
        largest = {1: OF_ONE, 2: OF_FEW, 3: OF_FEW}
        every = cls.all(most)
        pairs = [
            (i, j)
            for i, j in zip(every.rows, every.columns, strict=True)
            if max(i, j) <= largest.get(min(i, j), OF_BOTH)
        ]
        rows, columns = zip(*pairs, strict=True)
        at_edge = [max(pair) == largest.get(min(pair), OF_BOTH) for pair in pairs]
        return cls(rows, columns, tuple(at_edge))

    @classmethod
    def of_levels(cls, sides: tuple[int, int], numbers: tuple[bool, bool], look: int) -> Blocks:
        """Return blocks of a look where a side is a category, which has all of its functions."""
        most = OF_ONE if look else OF_BOTH
        sizes = []
        for last, number in zip(sides, numbers, strict=True):
            last = min(last, most) if number and not look else last
            sizes.append([size for size in SIZES if number and size < last] + [last])
        pairs = list(itertools.product(*sizes))
        rows, columns = zip(*pairs, strict=True)
        of_number = 0 if numbers[0] else 1
        return cls(rows, columns, tuple(pair[of_number] == most for pair in pairs))


def long_sizes(rows: float) -> tuple[int, ...]:
    """Return numbers of cosines in long blocks for a number of rows."""
    return tuple(size for size in LONG_SIZES if size <= rows / ROWS_PER_SIZE)


def largest_size(rows: Any) -> Any:
    """Return the largest size of a block for numbers of rows ``(...)``."""
    xp = rows.__array_namespace__()
    allowed = xp.minimum(SIZE_PER_ROOT * rows**0.25, rows / ROWS_PER_SIZE)
    sizes = xp.asarray(SIZES, dtype=allowed.dtype)
    return sizes[xp.maximum(xp.searchsorted(sizes, allowed, side="right"), 1) - 1]


def cell_count(rows: int) -> int:
    """Return the number of cells for a number of rows: a power of two, whose transform is fast."""
    return min(MOST_CELLS, 1 << (rows - 1).bit_length())


def cosine_moments(cells: Any, most: int) -> tuple[Any, Any]:
    """Return moments ``(..., most)`` of a function with ``sqrt(2) cos(pi j u)`` and the sine.

    For j = 1 .. ``most`` at once, by one Fourier transform.  ``cells (..., c)`` are sums, over the
    rows in each of c cells of equal share, of the function times the share of the row.
    """
    xp = cells.__array_namespace__()
    count = cells.shape[-1]
    turns = xp.arange(1, most + 1, dtype=cells.dtype) * (math.pi / (2 * count))
    turns = xp.reshape(turns, (*[1] * (cells.ndim - 1), most))
    wave = xp.fft.rfft(cells, 2 * count)[..., 1 : most + 1]
    cosine, sine = math.sqrt(2) * xp.cos(turns), math.sqrt(2) * xp.sin(turns)
    return wave.real * cosine + wave.imag * sine, wave.real * sine - wave.imag * cosine


def alike_beyond(alike: Any, error: Any, explained: Any, functions: Any, rows: Any) -> Any:
    """Return whether neighbours are more alike than functions of the variable explain.

    A function g of one variable has the mean product ``alike`` of neighbours in the order of the
    other, x: it estimates the variance of E[g | x], whatever the speed at which that varies.

    Args:
      alike, error: mean products, and their standard errors, ``(...)``.
      explained: sums of the squared moments of g with functions of x, ``(...)``.
      functions: numbers of these functions.
      rows: numbers of rows.
    """
    chance = functions.astype(explained.dtype) / rows
    explained = (explained - chance) / (1 - chance)
    # A function that is 0 has no error.
    return (alike - explained > MUCH_ALIKE * error) & (error > 0)


@dataclasses.dataclass(frozen=True)
class Average:
    """Estimates of HGR.

    Attributes:
      value: ``(...)``, the estimates.
      squares: ``(blocks, ...)``, the squared top singular values of the blocks.
      values: ``(blocks, ...)``, the debiased values of single blocks.
      score: ``(...)``, the highest scores.
      best: ``(...)``, places of the blocks with the highest scores.
      weights: ``(blocks, ...)``, of sum 1, or all 0.
      functions: numbers of functions of both variables in each block ``(blocks, ...)``.
      dependence: ``(...)``, weight of dependence beside independence.
    """

    value: Any
    squares: Any
    values: Any
    score: Any
    best: Any
    weights: Any
    functions: tuple[Any, Any]
    dependence: Any


def average_of_blocks(squares: Any, h: Any, k: Any, rows: Any) -> Average:
    """Average the debiased values of blocks by their scores.

    Block (h, k) has the score ``-n log(1 - sigma^2) - 4 (h + k - 1)``, and independence, with the
    value 0, has one of its own.  Where the best score is high, the penalty falls from 4 to 2.  The
    estimate is the average of the debiased values by weights ``exp(score / 2)``.

    Args:
      squares: squared top singular values of the blocks, ``(blocks, ...)``.
      h, k: numbers of functions in the blocks, ``(blocks, ...)``.  A block with none does not
        count, and of blocks with the same functions the first one does.
      rows: number of rows, ``(...)``.
    """
    xp = squares.__array_namespace__()
    values = debias(squares, h, k, rows)
    listed = first_of_its_sizes(h, k) & (h > 0) & (k > 0)

    below_1 = xp.minimum(squares, 1 - float(xp.finfo(squares.dtype).eps))
    statistic, further = -rows * xp.log1p(-below_1), (h + k - 1).astype(squares.dtype)
    score = xp.where(listed, statistic - PENALTY * further, -math.inf)
    best, place = xp.max(score, axis=0), xp.argmax(score, axis=0)
    top = xp.maximum(best, INDEPENDENCE)
    total = xp.sum(xp.exp((score - top) / 2), axis=0)
    dependence = total / (total + xp.exp((INDEPENDENCE - top) / 2))

    weak = xp.exp(-xp.maximum(best, 0.0) / STRONG_SCORE)
    penalty = weak * PENALTY + (1 - weak) * PENALTY_OF_STRONG
    second = xp.where(listed, statistic - penalty * further, -math.inf)
    highest = xp.where(xp.any(listed, axis=0), xp.max(second, axis=0), 0.0)
    weights = xp.exp((second - highest) / 2)
    whole = xp.sum(weights, axis=0)
    weights = weights / xp.where(whole > 0, whole, 1.0)
    value = xp.minimum(dependence * xp.sum(weights * values, axis=0), 1.0)  # for rounding
    return Average(value, squares, values, best, place, weights, (h, k), dependence)


def look_again(average: Average, blocks: Blocks, look: int) -> Any:
    """Return where the largest ``blocks`` of a look, from 0, have a say."""
    xp = average.weights.__array_namespace__()
    edge = xp.reshape(xp.asarray(blocks.at_edge), (-1, *[1] * (average.weights.ndim - 1)))
    return xp.sum(xp.where(edge, average.weights, 0.0), axis=0) > LOOK_AGAIN_ABOVE[look]


def first_of_its_sizes(h: Any, k: Any) -> Any:
    """Return which blocks ``(blocks, ...)`` of sizes h and k are the first of their sizes.

    Where functions are left out, blocks have the same others; only the first of these counts.
    """
    xp = h.__array_namespace__()
    if xp.__name__ == "numpy":  # in few passes over many pairs
        sizes = h.astype(xp.int64) * (1 + k.max(initial=0)) + k
        if (sizes == sizes[:, :1]).all():
            first = xp.zeros(len(h), dtype=bool)
            first[xp.unique(sizes[:, 0], return_index=True)[1]] = True
            return xp.broadcast_to(first[:, None], h.shape)
    same = (h[:, None] == h[None, :]) & (k[:, None] == k[None, :])
    earlier = xp.tri(len(h), k=-1, dtype=bool).reshape(*same.shape[:2], *[1] * (h.ndim - 1))
    return ~xp.any(same & earlier, axis=1)


def debias(square: Any, h: Any, k: Any, n: Any) -> Any:
    """Return the correlation whose sample value among h and k functions tends to this one.

    The limit of a squared canonical correlation r is (Bao, Hu, Pan & Zhou 2019)

        (r (1 - h/n) + h/n) (r (1 - k/n) + k/n) / r,

    here with h - 1 and k - 1: one function of each variable has no bias to remove.  The result is
    0, with zero derivatives, below what chance alone reaches.
    """
    xp = square.__array_namespace__()
    a, b = (h.astype(square.dtype) - 1) / n, (k.astype(square.dtype) - 1) / n
    c, d = 1 - a, 1 - b
    p = square - c * b - d * a
    discriminant = p * p - 4 * c * d * a * b
    above = (discriminant >= 0) & (p > 0)
    root = _root(xp.where(above, discriminant, 0.0))
    r = xp.where(above, (p + root) / (2 * c * d), 0.0)
    return _root(xp.minimum(r, 1.0))


def _root(x: Any) -> Any:
    """Return the square root of ``x >= 0``, with zero derivatives where it is 0."""
    xp = x.__array_namespace__()
    return xp.where(x > 0, xp.sqrt(xp.where(x > 0, x, 1.0)), 0.0)
