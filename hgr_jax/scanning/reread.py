"""Pairs of which a stream's sums say too little: their columns read again, fitted as in memory.

Rows that two columns share may be another kind of rows than those of each, and values may reach so
far out that no polynomials that a sample leads to are well conditioned.  Such pairs are few, and
of most tables there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

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

Chunks = Callable[[dict[str, str]], Iterator[tuple[str, Chunk]]]
"""Reads columns of these kinds again, batch by batch, each with its name."""

COPIES = 4
"""Of the functions of one side (of levels twice as many), while a pair is fitted."""

BESIDE = 12
"""Further numbers of a row of that pair."""


class Reread:
    """Estimates of pairs from their own rows, as many as fit in memory.

    Attributes:
      chunks: read the table again.
      memory: bytes that the rows may take, and the functions of the pair that is fitted.
    """

    def __init__(self, chunks: Chunks, memory: int) -> None:
        self.chunks, self.memory = chunks, memory

    def __call__(
        self, plan: Plan, pairs: Integers, rows: Integers
    ) -> tuple[NDArray[np.bool_], Again]:
        """Return which of ``pairs (N, 2)`` were read again, and their estimates.

        Args:
          plan: of the sums.
          pairs: positions of columns, numbers before categories.
          rows: how many each pair shares.
        """
        widest = max(map(len, plan.levels.values()), default=0)
        width = BESIDE + COPIES * max(plan.kernels.largest, 2 * widest)
        held = 8 * (3 * np.cumsum(rows) + width * np.maximum.accumulate(rows))
        fits = np.asarray(held <= self.memory)
        return fits, self._estimated(plan, pairs[fits])

    def _estimated(self, plan: Plan, pairs: Integers) -> Again:
        names = [*plan.numbers, *plan.levels]
        kinds = {names[column]: plan.read[names[column]] for column in np.unique(pairs).tolist()}
        if plan.weights is not None:
            kinds[plan.weights] = NUMBER
        kept: list[list[Floats]] = [[] for _ in pairs]
        for where, chunk in self.chunks(kinds) if len(pairs) else ():
            w = weights_of(chunk, plan.weights, where)
            columns = {c: _read_column(plan, chunk, c) for c in np.unique(pairs).tolist()}
            for own, (first, second) in zip(kept, pairs.tolist(), strict=True):
                whole = np.stack([columns[first], columns[second], np.ones(chunk.rows)])
                if w is not None:
                    whole[2] = w
                own.append(whole[:, ~np.isnan(whole).any(axis=0) & (whole[2] > 0)])
        none = np.zeros(0)
        found: list[Again] = [(none, none, np.zeros((0, 2), np.intp), none)]
        for pair, own in zip(pairs, kept, strict=True):
            found.append(_estimated_alone(plan, pair, np.concatenate(own, axis=1)))
            own.clear()
        value, linear, directions, error = (np.concatenate(x) for x in zip(*found, strict=True))
        return value, linear, directions, error


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
