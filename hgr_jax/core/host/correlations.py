"""Pearson's, Spearman's and distance correlation of two columns, on the host."""

from __future__ import annotations

import math

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.ranks import ranks

FEW_ROWS = 256
"""Largest number of rows whose pairs are all looked at."""

MAX_BLOCK_ROWS = 16
"""Largest number of rows of a block whose pairs are all looked at, of more rows."""

LEAST_REMAINDER = 1e-7
"""Smallest share of a sum that remains where parts cancel, for some eight correct digits."""

MAX_ENTRIES = 2**16
"""Number of pairs of rows of blocks that are looked at together."""


def pearson_of(a: Floats, b: Floats) -> float:
    """Return Pearson's correlation of ``a`` and ``b (n,)``; 0 for a constant, NaN for NaN."""
    with np.errstate(invalid="ignore", over="ignore"):
        # One array, as two of a megabyte would be given back to the system at each call.
        xx, xy, yy = _product_sums(np.stack([a, b], dtype=np.float64))
        if not (1e-200 < xx < 1e200 and 1e-200 < yy < 1e200):
            xx, xy, yy = _product_sums(np.stack([_shifted_and_scaled(x) for x in (a, b)]))
        size = math.sqrt(xx) * math.sqrt(yy)
    return 0.0 if size == 0 else float(min(max(xy / size, -1), 1))


def _product_sums(both: Floats) -> tuple[float, float, float]:
    """Return the sums of centred products, xx, xy and yy, of ``both (2, n)``, which changes."""
    both -= both[:, :1].copy()
    both -= both.mean(axis=1, keepdims=True)
    x, y = both
    return _inner(x, x), _inner(x, y), _inner(y, y)


def spearman_of(a: Floats, b: Floats) -> float:
    """Return Spearman's rank correlation of ``a`` and ``b (n,)``; NaN if one is not finite."""
    both = np.stack([a, b], axis=1, dtype=np.float64)
    if not np.isfinite(both.sum()) and not np.isfinite(both).all():
        return math.nan
    return pearson_of(*ranks(both).T)


def distance_correlation_of(a: Floats, b: Floats) -> float | None:
    """Return the distance correlation of ``a`` and ``b (n,)``.

    None where so much of the sums cancels that rounding would show, as of single far rows.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        a, b = _shifted_and_scaled(a), _shifted_and_scaled(b)
        if not math.isfinite(a.sum() + b.sum()):
            return math.nan
        if not (a.any() and b.any()):
            return 0.0
        products = _centred_products(a, b)
    if products is None:
        return None
    ab, aa, bb = products
    return math.sqrt(min(max(ab, 0) / math.sqrt(aa) / math.sqrt(bb), 1))


def _inner(x: Floats, y: Floats | Integers) -> float:
    """Return ``x . y`` without BLAS, whose threads wait for each other."""
    return float(np.einsum("i,i->", x, y))


def _shifted_and_scaled(x: Floats) -> Floats:
    """Return ``x`` less its first value, in units with safe squares."""
    x = x.astype(np.float64)
    low, high = float(x.min()), float(x.max())
    if high - low == math.inf:
        x, low, high = x / 2, low / 2, high / 2
    x -= x[0]
    reach = high - low
    if 0 < reach < 1e-100 or 1e100 < reach < math.inf:
        x = np.ldexp(x, -math.frexp(reach)[1])
    return x


def _centred_products(a: Floats, b: Floats) -> tuple[float, float, float] | None:
    """Return mean products of the centred distance matrices of ``a`` and ``b``: AB, AA and BB.

    None where one is less than `LEAST_REMAINDER` of its parts.

    With row sums A_i and B_i of the distances, and sums A and B of these, the sum of the products
    of the centred distances is

        sum_ij |a_i - a_j| |b_i - b_j| - 2 / n  sum_i A_i B_i + A B / n^2
    """
    rows = len(a)
    order = np.argsort(a)
    a, b = a[order] - a.mean(), b[order] - b.mean()
    by_b = np.argsort(b)
    of_a, of_b = _distance_sums(a), np.empty(rows)
    of_b[by_b] = _distance_sums(b[by_b])
    total_a, total_b = float(of_a.sum()), float(of_b.sum())

    def centred(products: float, of_rows: float, of_all: float) -> float:
        whole = products - 2 * of_rows / rows + of_all / rows**2
        clear = abs(whole) > LEAST_REMAINDER * products
        return whole / rows**2 if clear else math.nan

    ab = centred(_products_of_distances(a, b, by_b), _inner(of_a, of_b), total_a * total_b)
    aa = centred(2 * rows * _inner(a, a), _inner(of_a, of_a), total_a**2)
    bb = centred(2 * rows * _inner(b, b), _inner(of_b, of_b), total_b**2)
    if math.isnan(ab + aa + bb):
        return None
    return ab, aa, bb


def _distance_sums(x: Floats) -> Floats:
    """Return the sums of the distances of each row of rising ``x (n,)`` to all rows."""
    sums = np.cumsum(x)
    return np.asarray((2 * np.arange(1, len(x) + 1) - len(x)) * x + (sums[-1] - 2 * sums))


def _products_of_distances(a: Floats, b: Floats, by_b: Integers) -> float:
    """Return ``sum_ij |a_i - a_j| |b_i - b_j|``, of rising ``a`` and the order of ``b``.

    Rows in the order of ``a`` are split in halves, again and again.  Of a row j of the left half
    and i of the right one, ``(a_i - a_j) |b_i - b_j|`` is twice ``(a_i - a_j) (b_i - b_j)`` where
    b_j comes first, less the same of every pair.  Blocks list their rows in the order of ``b``, so
    that the sums over the rows that come first are cumulative sums over the left half.
    """
    rows = len(a)
    if rows <= FEW_ROWS:
        return 2 * _products_in_blocks(a, b, rows)[1]
    levels = (rows // MAX_BLOCK_ROWS).bit_length()
    smallest = -(-rows >> levels)
    filled = smallest << levels  # padding comes last in both orders
    listed = np.concatenate([by_b, np.arange(rows, filled)])
    a, b = (np.pad(x, (0, filled - rows)) for x in (a, b))
    x, y = a[listed], b[listed]
    xy = x * y
    first = 0.0
    for level in range(levels - 1, -1, -1):
        half = smallest << level
        right = listed // half % 2 == 1
        at_left, at_right = np.flatnonzero(~right), np.flatnonzero(right)
        # Every block of two halves begins with the sum of none.
        block = np.repeat(np.arange(filled // half // 2), half)
        before = at_right - np.arange(len(at_right)) - block * half  # left rows before each
        place = before + block * (half + 1)
        of_x, of_y, of_xy = (_sums_of_first(z[at_left], half)[place] for z in (x, y, xy))
        real = listed[at_right] < rows
        x_right, y_right = x[at_right], y[at_right]
        first += _inner(x_right * y_right, before) - _inner(x_right, of_y) - _inner(y_right, of_x)
        first += float(np.sum(of_xy, where=real))
        both = np.concatenate(
            [at_left.reshape(-1, 1, half), at_right.reshape(-1, 1, half)], axis=1
        ).reshape(-1)
        listed, x, y, xy = listed[both], x[both], y[both], xy[both]
    every = rows * _inner(a, b) - float(a.sum()) * float(b.sum())
    in_blocks, absolute = _products_in_blocks(a[:rows], b[:rows], smallest)
    return 2 * (2 * first - (every - in_blocks) + absolute)


def _sums_of_first(x: Floats, count: int) -> Floats:
    """Return the sums of the first 0, 1, ..., ``count`` numbers of each so many, in a row."""
    sums = np.zeros((len(x) // count, count + 1))
    np.cumsum(x.reshape(-1, count), axis=1, out=sums[:, 1:])
    return sums.reshape(-1)


def _products_in_blocks(a: Floats, b: Floats, size: int) -> tuple[float, float]:
    """Return the sum of ``(a_i - a_j) (b_i - b_j)`` over pairs within blocks, and of its sizes."""
    products = sizes = 0.0
    step = max(1, MAX_ENTRIES // size**2) * size
    for start in range(0, len(a), step):
        x, y = a[start : start + step], b[start : start + step]
        whole = len(x) - len(x) % size
        for part, width in ((slice(0, whole), size), (slice(whole, len(x)), len(x) - whole)):
            if width == 0:
                continue
            of_x, of_y = (z[part].reshape(-1, width) for z in (x, y))
            both = of_x[:, :, None] - of_x[:, None, :]
            both *= of_y[:, :, None] - of_y[:, None, :]
            products += float(both.sum()) / 2
            sizes += float(np.abs(both, out=both).sum()) / 2
    return products, sizes
