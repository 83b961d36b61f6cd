"""Pairs of which a stream's sums say too little: their columns read again, fitted as in memory.

Rows that two columns share may be another kind of rows than those of each, and values may reach so
far out that no polynomials that a sample leads to are well conditioned.  Such pairs are few, and
of most tables there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.scanning.fallback import estimate_separately
from hgr_jax.scanning.features import as_features
from hgr_jax.scanning.plan import Plan
from hgr_jax.scanning.solve import Again
from hgr_jax.scanning.survey import weights_of
from hgr_jax.tables.arrow_columns import NUMBER, Chunk
from hgr_jax.tables.columns import Columns
from hgr_jax.tables.encoding import Category

Gather = Callable[[Plan, Integers], list[Floats]]
"""Reads the columns of some pairs again, and returns of each what `rows_of_pairs` does."""

COPIES = 4
"""Of the functions of one side (of levels twice as many), while a pair is fitted."""

BESIDE = 12
"""Further numbers of a row of that pair."""


class Reread:
    """Estimates of pairs from their own rows, as many as fit in memory."""

    def __init__(self, gather: Gather, memory: int) -> None:
        """Take the bytes that the rows may have, with the functions of the pair that is fitted."""
        self.gather, self.memory = gather, memory

    def __call__(
        self, plan: Plan, pairs: Integers, rows: Integers
    ) -> tuple[NDArray[np.bool_], Again]:
        """Return which of ``pairs (N, 2)`` were read again, and their estimates.

        Those of fewest rows first, so that they are as many as can be.

        Args:
          plan: of the sums.
          pairs: positions of columns, numbers before categories.
          rows: how many each pair shares.
        """
        widest = max(map(len, plan.levels.values()), default=0)
        width = BESIDE + COPIES * max(plan.kernels.largest, 2 * widest)
        order = np.argsort(rows, kind="stable")
        held = 8 * (3 * np.cumsum(rows[order]) + width * rows[order])
        fits = np.zeros(len(pairs), bool)
        fits[order[held <= self.memory]] = True
        none = np.zeros(0)
        found: list[Again] = [(none, none, np.zeros((0, 2), np.intp), none)]
        if fits.any():
            kept = self.gather(plan, pairs[fits])
            found += [_estimated_alone(plan, *each) for each in zip(pairs[fits], kept, strict=True)]
        value, linear, directions, error = (np.concatenate(x) for x in zip(*found, strict=True))
        return fits, (value, linear, directions, error)


def kinds_of_pairs(plan: Plan, pairs: Integers) -> dict[str, str]:
    """Return the kinds of the columns that ``pairs (N, 2)`` are of, with that of the weights."""
    names = [*plan.numbers, *plan.levels]
    kinds = {names[column]: plan.read[names[column]] for column in np.unique(pairs).tolist()}
    return kinds if plan.weights is None else kinds | {plan.weights: NUMBER}


def rows_of_pairs(plan: Plan, pairs: Integers, chunks: Iterable[tuple[str, Chunk]]) -> list[Floats]:
    """Return both columns of each pair and the weights, ``(3, n)``, on the rows that it shares."""
    kept: list[list[Floats]] = [[np.zeros((3, 0))] for _ in pairs]
    for where, chunk in chunks:
        w = weights_of(chunk, plan.weights, where)
        weights = np.ones(chunk.rows) if w is None else w
        columns = {c: _read_column(plan, chunk, c) for c in np.unique(pairs).tolist()}
        for own, (first, second) in zip(kept, pairs.tolist(), strict=True):
            whole = np.stack([columns[first], columns[second], weights])
            own.append(whole[:, ~np.isnan(whole).any(axis=0) & (weights > 0)])
    whole_pairs = []
    while kept:  # so that the parts of one pair are held beside its whole, not those of all
        whole_pairs.append(np.concatenate(kept.pop(0), axis=1))
    return whole_pairs


def joined_rows(one: list[Floats], other: list[Floats]) -> list[Floats]:
    """Return the rows of both, those of ``other`` after those of ``one``."""
    return [np.concatenate(both, axis=1) for both in zip(one, other, strict=True)]


def _read_column(plan: Plan, chunk: Chunk, column: int) -> Floats:
    """Return a column ``(n,)``: numbers, or positions of levels; NaN where missing."""
    if column < len(plan.numbers):
        return chunk.numbers[plan.numbers[column]]
    codes, _ = plan.codes_of(chunk, list(plan.levels)[column - len(plan.numbers)])
    return np.where(codes < 0, np.nan, codes)


def _estimated_alone(plan: Plan, pair: Integers, rows: Floats) -> Again:
    """Estimate one pair of ``rows (3, n)``: both columns, and weights."""
    numbers = pair < len(plan.numbers)
    levels = list(plan.levels.values())
    categories = tuple(
        Category(rows[place].astype(np.int32), levels[pair[place] - len(plan.numbers)])
        for place in np.flatnonzero(~numbers)
    )
    features = as_features(
        Columns(
            names=("a", "b"),
            numbers=rows[:2][numbers].T,
            number_positions=np.flatnonzero(numbers),
            categories=categories,
            category_positions=np.flatnonzero(~numbers),
            skipped={},
            notes={},
        ),
        None if plan.weights is None else rows[2],
        ranked=False,
    )
    local = np.array([[0, 1]]) if numbers[0] or not numbers[1] else np.array([[1, 0]])
    return estimate_separately(features, plan.kernels, local)
