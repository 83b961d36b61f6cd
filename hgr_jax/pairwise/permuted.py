"""HGR of many pairs under permutations of the rows of one of their columns.

A permutation changes neither the basis of a column nor what whitens it, so all pairs of columns
that are present in the same rows take one matrix product a permutation.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray
from scipy.stats import random_table

from hgr_jax.pairwise import blocks
from hgr_jax.pairwise.engine import Engine
from hgr_jax.pairwise.features import Features, Floats, Integers, Kernels
from hgr_jax.pairwise.whitened import correlations

TOLERANCE = 1e-5
"""Difference below which two values count as equal, relative to the larger of the data's value and
the mean under independence.  (Orthonormal features in float32 are exact enough for that.)"""

PAIRS_AT_ONCE = 8192

FEW_VALUES = 128
"""Pairs of columns of at most so many values, and no more than the root of their rows, are permuted
as tables of counts."""


def null_values(
    features: Features,
    kernels: Kernels,
    memory: int,
    pairs: Integers,
    permutations: int,
    seed: NDArray[np.uint32],
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[Floats, Floats, Integers, Floats]:
    """The statistic of ``pairs (N, 2)`` under independence, by permutation.

    Returns:
      Its mean ``(N,)`` and 95% point ``(N,)``; how many of the values are at least as large as
      that of the data ``(N,)``, which is computed in the same way; and this one ``(N,)``.
    """
    mean, point = np.full(len(pairs), np.nan), np.full(len(pairs), np.nan)
    exceed, observed = np.zeros(len(pairs), np.intp), np.full(len(pairs), np.nan)
    whole = Engine(features, kernels, memory)
    of = np.sort(whole.patterns.of[pairs], axis=1)
    keys = of[:, 0] * (whole.patterns.of.max() + 1) + of[:, 1]
    generator = np.random.default_rng(seed)
    for key in np.unique(keys):
        group = np.flatnonzero(keys == key)
        both = np.asarray(whole.patterns.present[:, of[group[0]]].all(axis=1))
        rows = np.flatnonzero(both)
        if len(rows) < 2:
            continue
        engine, local = whole, pairs[group]
        if not whole.alike:
            columns, local = np.unique(pairs[group], return_inverse=True)
            local = local.reshape(-1, 2)
            engine = Engine(_within(features, both, columns), kernels, memory)
        values_of = _few_values(engine.features, local, rows)
        counted = np.array([a in values_of and b in values_of for a, b in local])
        for chosen, tables in _parts(local, counted, _columns_at_once(engine, memory)):
            part = group[chosen]
            draws = _Draws(engine, local[chosen], memory)
            values = draws(np.arange(features.rows)[None, :])[0]
            if tables:
                found = draws.of_tables(local[chosen], values_of, permutations, generator)
            else:
                found = draws.of_orders(rows, permutations, generator)
            progress(len(part))
            observed[part] = values
            mean[part] = found.mean(axis=0, dtype=np.float64)
            least = values - TOLERANCE * np.maximum(values, mean[part])
            exceed[part] = (found >= least[None, :]).sum(axis=0)
            point[part] = np.quantile(found, 0.95, axis=0)
    return mean, point, exceed, observed


def _columns_at_once(engine: Engine, memory: int) -> int:
    """How many columns a side may have for their features to take a quarter of the budget."""
    width = max(engine.kernels.largest if engine.features.numbers else 0, engine.width)
    return max(1, memory // (16 * engine.features.rows * width))


def _parts(
    pairs: Integers, counted: NDArray[np.bool_], columns: int
) -> Iterator[tuple[Integers, bool]]:
    """Positions of pairs of both kinds, not too many at a time, of so many columns a side."""
    blocks_of = pairs // columns
    keys = blocks_of[:, 0] * (1 + blocks_of.max(initial=0)) + blocks_of[:, 1]
    for kind in (True, False):
        for key in np.unique(keys[counted == kind]):
            chosen = np.flatnonzero((counted == kind) & (keys == key))
            for start in range(0, len(chosen), PAIRS_AT_ONCE):
                yield chosen[start : start + PAIRS_AT_ONCE], kind


def _few_values(
    features: Features, pairs: Integers, rows: Integers
) -> dict[int, tuple[Integers, Integers]]:
    """Of columns with few values: a row with each value, and which one a row has."""
    found = {}
    few = min(FEW_VALUES, math.isqrt(len(rows)))
    for column in np.unique(pairs):
        if column < features.numbers:
            values = np.asarray(features.x[:, column])[rows]
        else:
            values = np.asarray(features.codes[:, column - features.numbers])[rows]
        if len(np.unique(values[: 4 * few])) > few:
            continue
        _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
        if len(first) <= few:
            found[int(column)] = rows[first], inverse
    return found


def _within(features: Features, rows: NDArray[np.bool_], columns: Integers) -> Features:
    """Some columns, missing outside of ``rows``, in all of which they are present."""
    keep = jnp.asarray(rows)[:, None]
    numbers = columns[columns < features.numbers]
    categories = columns[columns >= features.numbers] - features.numbers
    return Features(
        x=jnp.where(keep, features.x[:, numbers], jnp.nan),
        codes=jnp.where(keep, features.codes[:, categories], -1),
        levels=tuple(features.levels[c] for c in categories),
        weights=features.weights,
    )


class _Draws:
    """Values of the statistic of some pairs for any orders of the rows of the second columns."""

    def __init__(self, engine: Engine, pairs: Integers, memory: int) -> None:
        self.single = engine.kernels.single
        sides = []
        for side, degree in ((0, engine.kernels.h), (1, engine.kernels.k)):
            columns, position = np.unique(pairs[:, side], return_inverse=True)
            features, index, counts, linear = _whitened_features(engine, columns, degree)
            sides.append((features, index[position], counts[position], linear[position]))
        (self.left, self.index_a, *_), (self.right, self.index_b, *_) = sides
        self.counts = np.stack([sides[0][2], sides[1][2]], axis=1)
        self.linear = np.stack([sides[0][3], sides[1][3]], axis=1)
        self.rows = float(engine.shared[0, 0])
        each = 4 * (self.right.size + self.left.shape[1] * self.right.shape[1])
        self.at_once = int(np.clip(memory // (4 * max(each, 1)), 1, 32))

    def of_orders(
        self, rows: Integers, permutations: int, generator: np.random.Generator
    ) -> Floats:
        """Values ``(permutations, N)`` for random orders of ``rows``."""
        parts = []
        for first in range(0, permutations, self.at_once):
            count = min(self.at_once, permutations - first)
            orders = np.tile(np.arange(len(self.left), dtype=np.int32), (self.at_once, 1))
            orders[:count, rows] = generator.permuted(
                np.tile(rows.astype(np.int32), (count, 1)), axis=1
            )
            parts.append(self(orders)[:count])
        return np.concatenate(parts)

    def of_tables(
        self,
        pairs: Integers,
        values_of: dict[int, tuple[Integers, Integers]],
        permutations: int,
        generator: np.random.Generator,
    ) -> Floats:
        """The same for pairs of columns of few values, from random tables of their counts.

        Under permutations a contingency table is a random one with the margins of the data, which
        is drawn in a time that does not depend on the rows (Patefield 1981).
        """
        found = []
        left, right = np.asarray(self.left), np.asarray(self.right)
        for place, (a, b) in enumerate(pairs):
            (rows_a, which_a), (rows_b, which_b) = values_of[a], values_of[b]
            margins = np.bincount(which_a), np.bincount(which_b)
            tables = random_table(*margins, seed=generator).rvs(permutations)
            f = left[rows_a[:, None], self.index_a[place][None, :]]
            g = right[rows_b[:, None], self.index_b[place][None, :]]
            m = np.einsum("ra,prs,sb->pab", f, tables / self.rows, g, optimize=True)
            counts, linear = (
                np.broadcast_to(x[place], (permutations, 2)) for x in (self.counts, self.linear)
            )
            value = correlations(m.astype(f.dtype), counts, linear, single=self.single, rough=True)
            found.append(np.asarray(value))
        return np.stack(found, axis=1)

    def __call__(self, orders: NDArray[np.integer]) -> Floats:
        """Values ``(m, N)`` for orders ``(m, n)``."""
        values = _permuted_values(
            self.left,
            self.right,
            orders,
            (self.index_a, self.index_b),
            self.counts,
            self.linear,
            self.rows,
            single=self.single,
        )
        return np.asarray(values)


def _whitened_features(
    engine: Engine, columns: Integers, degree: int
) -> tuple[Array, Integers, Integers, Integers]:
    """Orthonormal features ``(n, m)`` of some columns, 0 where missing and in the last column.

    And, of every column, where its features stand (filled up with the last), how many they are,
    and how many of them span its linear functions.
    """
    numbers = columns[columns < engine.features.numbers]
    categories = columns[columns >= engine.features.numbers]
    width = max(degree if len(numbers) else 0, engine.width if len(categories) else 0)
    parts, places, start = [], [], 0
    for chosen in (numbers, categories):
        if len(chosen):
            values, size = engine.whitened(chosen)
            parts.append(values)
            place = start + np.arange(len(chosen))[:, None] * size + np.arange(size)[None, :]
            places.append(
                np.pad(place[:, :width], ((0, 0), (0, max(0, width - size))), constant_values=-1)
            )
            start += values.shape[1]
    index = np.concatenate(places)
    parts.append(jnp.zeros((len(parts[0]), 1), jnp.float32))
    features = jnp.concatenate([part.astype(jnp.float32) for part in parts], axis=1)
    index = np.where(index < 0, features.shape[1] - 1, index)
    category = np.arange(len(columns)) >= len(numbers)
    counts = np.where(category, engine.width, degree)
    return features, index, counts, np.where(category, engine.width, 1)


@functools.partial(jax.jit, static_argnames=("single",))
def _permuted_values(
    left: Array,
    right: Array,
    orders: Array,
    index: tuple[Array, Array],
    counts: Array,
    linear: Array,
    rows: Array,
    *,
    single: bool,
) -> Array:
    def value(order: Array) -> Array:
        cross = blocks.row_product(left, right[order]) / rows.astype(left.dtype)
        m = cross[index[0][:, :, None], index[1][:, None, :]]
        return correlations(m, counts, linear, single=single, rough=True)

    return lax.map(value, orders)
