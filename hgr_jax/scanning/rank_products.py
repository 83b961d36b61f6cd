"""Products of the functions of ranks of many columns, as a test of all their pairs needs them.

What it needs is narrow: cross moments of the first two polynomials of one column with all of the
other, the other way round, and those of both third ones; and of the first polynomial with the waves
of the other.  With those of both up to the degrees of a scan, the same product has HGR of the
ranks.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.ranks import LARGEST_DEGREE, RankedColumn, wave_count, wave_table
from hgr_jax.inference._rank_blocks import NARROW, Moments
from hgr_jax.scanning.features import chunks, groups
from hgr_jax.scanning.products import sum_in_blocks

FIRST = 2
"""Polynomials of one column that are in a block with all of the other."""

TILE = 128
"""Columns of which the products are taken at a time."""

SETTLED_AT_ONCE = 2**11
"""Pairs whose moments are handed on at a time."""


def products_of_pairs(
    columns: list[RankedColumn],
    pairs: Integers,
    weights: Floats | None,
    wanted: Integers,
    both: int,
    dtype: np.dtype,
) -> Iterator[tuple[Integers, Moments]]:
    """Yield positions of some of the ``wanted`` pairs, and their moments, of degrees up to 16.

    Of polynomials of either column of degrees up to ``both``, M has all, also those not trusted.
    """
    tiles = pairs[wanted] // TILE
    most = max(both, NARROW)
    waves = wave_count(len(columns[0].codes))
    counts = np.array([waves * column.has_waves for column in columns])
    for _, group in groups(tiles[:, 0] * len(columns) + tiles[:, 1]):
        chosen = wanted[group]
        left, right = (np.unique(pairs[chosen, side]) for side in (0, 1))
        if tiles[group[0], 0] == tiles[group[0], 1]:
            left = right = np.union1d(left, right)
        inner, one, there = _narrow_products(columns, left, right, weights, both, dtype)
        other, back = one, there
        if left is not right:
            _, other, back = _narrow_products(
                columns, right, left, weights, both, dtype, all_with_all=False
            )
        for part in chunks(chosen, SETTLED_AT_ONCE):
            i = np.searchsorted(left, pairs[part, 0])
            j = np.searchsorted(right, pairs[part, 1])
            m = np.zeros((LARGEST_DEGREE, LARGEST_DEGREE, len(part)))
            m[:most, :most] = np.moveaxis(inner[i, :, j], 0, -1)
            m[:FIRST, most:] = np.moveaxis(one[i, :, j], 0, -1)
            m[most:, :FIRST] = np.moveaxis(other[j, :, i], 0, -1).swapaxes(0, 1)
            yield part, Moments(m, np.stack([back[j, i], there[i, j]]), counts[pairs[part]].T)


def _narrow_products(
    columns: list[RankedColumn],
    left: Integers,
    right: Integers,
    weights: Floats | None,
    both: int,
    dtype: np.dtype,
    *,
    all_with_all: bool = True,
) -> tuple[Floats, Floats, Floats]:
    """Return mean products of the functions of some columns with those of others.

    Of polynomials up to degree d, the larger of 3 and ``both``, of all with all, ``(len(left), d,
    len(right), d)``, empty if that is not asked for; of the first two with those beyond,
    ``(len(left), 2, len(right), 16 - d)``; and of the first with the waves, the norm ``(len(left),
    len(right))``.
    """
    rows, p, q = len(columns[0].codes), len(left), len(right)
    waved = np.array([place for place, c in enumerate(right) if columns[c].has_waves], np.intp)
    # Waves are those of untied ranks, the same for all columns that have some.
    waves = wave_table(rows, dtype) if len(waved) else np.zeros((0, 0), dtype)
    d, count = max(both, NARROW), waves.shape[1]
    table, codes = _lookup(columns, right, both, dtype)
    of_left, codes_left = (table, codes) if left is right else _lookup(columns, left, both, dtype)
    # A product of one array with itself takes half as long.
    low = np.ascontiguousarray(table[:, :d])
    low_left = low if left is right else np.ascontiguousarray(of_left[:, :d])

    def product(values: Floats, others: Floats) -> NDArray[np.float64]:
        k, m = values.shape[1], others.shape[1]
        wide_columns = len(waved) if others is waves else q

        def block(part: slice) -> Floats:
            places = codes[part]
            if others is waves:
                places = np.stack([columns[c].codes[part] for c in right[waved]], axis=1)
            side = wide = others.take(places, axis=0).reshape(-1, wide_columns * m)
            if values is not others:
                side = values.take(codes_left[part], axis=0).reshape(-1, p * k)
            if weights is not None:
                side = side * weights[part, None].astype(dtype)
            return side.T @ wide

        return sum_in_blocks(block, rows, p * k + wide_columns * m)

    inner = product(low_left, low) if all_with_all else np.zeros((0, 0))
    first, second = (np.ascontiguousarray(of_left[:, :k]) for k in (FIRST, 1))
    outer = product(first, np.ascontiguousarray(table[:, d:]))
    beside = product(second, waves) if len(waved) else np.zeros((p, 0))
    scale = rows if weights is None else weights.sum()
    found = np.zeros((p, q))
    found[:, waved] = np.linalg.norm(beside.reshape(p, len(waved), count), axis=2)
    return (
        (inner / scale).reshape((p, d, q, d) if all_with_all else (0, 0, 0, 0)),
        (outer / scale).reshape(p, FIRST, q, LARGEST_DEGREE - d),
        found / scale,
    )


def _lookup(
    columns: list[RankedColumn], chosen: Integers, both: int, dtype: np.dtype
) -> tuple[Floats, NDArray[np.intp]]:
    """Return polynomials of all levels of some columns, ``(levels, 16)``.

    They are those that are trusted and those up to degree ``both``, and 0 beyond.  And which of
    the levels each row has, ``(rows, columns)``.  Columns without ties share theirs.
    """
    known: dict[tuple[int, int], int] = {}
    parts: list[Floats] = []
    codes = np.empty((len(columns[0].codes), len(chosen)), np.intp)
    levels = 0
    for place, c in enumerate(chosen):
        table = columns[c].table
        degree = min(max(columns[c].trusted, both), len(table))
        if (id(table), degree) not in known:
            part = np.zeros((table.shape[1], LARGEST_DEGREE), dtype)
            part[:, :degree] = table[:degree].T
            known[id(table), degree] = levels
            levels += len(part)
            parts.append(part)
        codes[:, place] = columns[c].codes + known[id(table), degree]
    return np.concatenate(parts), codes
