"""A uniform sample of the rows of a table that is read once, part by part.

Each row has a random key, a hash of its position; the rows with the smallest keys are the sample.
It does not depend on how the table is cut, and the samples of parts join to that of the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Integers
from hgr_jax.tables.arrow_columns import ZONED, arrow, count_missing
from hgr_jax.tables.columns import Frame
from hgr_jax.tables.meanings import is_missing

Keys = NDArray[np.uint64]

BATCH_ROWS = 2**16
"""Largest number of rows that are read at a time."""


def random_keys(positions: Integers) -> Keys:
    """Return a pseudo-random number for each position (SplitMix64; Steele, Lea & Flood, 2014)."""
    with np.errstate(over="ignore"):
        z = (positions.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def drawn_positions(rows: int, most: int) -> Integers:
    """Return the rising positions of at most ``most`` of ``rows`` rows."""
    positions = np.arange(rows)
    if rows > most:
        positions = np.sort(np.argpartition(random_keys(positions), most - 1)[:most])
    return positions


class RowSample:
    """A sample of at most ``most`` rows of the rows so far.

    Attributes:
      rows: number of rows so far.
      missing: number of missing values so far, by column.
    """

    def __init__(self, most: int, rows: int | None = None) -> None:
        """Begin without rows; ``rows`` is the number of rows of the table, if it is known."""
        self.most, self.rows = most, 0
        self.missing: dict[str, int] = {}
        self._parts: list[tuple[Keys, Integers, Any]] = []
        self._limit = 2**64 - 1
        if rows is not None and rows > most:
            # Few more keys than needed are below this: parts of a cluster send few rows.
            share = (most + 8 * math.sqrt(most)) / rows
            self._limit = min(self._limit, int(share * 2**64))

    def add(self, table: Any, first: int) -> None:
        """Add an Arrow table whose first row has the position ``first``."""
        self.rows += table.num_rows
        for name in table.column_names:
            count = self.missing.get(name, 0) + count_missing(table.column(name))
            self.missing[name] = count
        positions = first + np.arange(table.num_rows)
        keys = random_keys(positions)
        chosen = np.flatnonzero(keys <= np.uint64(self._limit))
        if len(chosen) < table.num_rows:
            table = table.take(arrow().array(chosen))
        self._keep([(keys[chosen], positions[chosen], table)])

    def join(self, other: RowSample) -> None:
        """Add the rows of another part of the table."""
        self.rows += other.rows
        for name, count in other.missing.items():
            self.missing[name] = self.missing.get(name, 0) + count
        self._keep(other._parts)

    def _keep(self, parts: Sequence[tuple[Keys, Integers, Any]]) -> None:
        self._parts += [part for part in parts if len(part[0])]
        if sum(len(keys) for keys, _, _ in self._parts) > 2 * self.most:
            self._shrink()

    def _shrink(self) -> None:
        """Keep the rows with the smallest keys."""
        keys = np.concatenate([np.zeros(0, np.uint64), *(keys for keys, _, _ in self._parts)])
        if len(keys) <= self.most:
            return
        self._limit = int(np.partition(keys, self.most - 1)[self.most - 1])
        parts = []
        for keys, positions, table in self._parts:
            chosen = np.flatnonzero(keys <= np.uint64(self._limit))
            parts.append((keys[chosen], positions[chosen], table.take(arrow().array(chosen))))
        self._parts = parts

    def result(self, kinds: Mapping[str, str]) -> tuple[Any, Integers]:
        """Return the rows as an Arrow table with columns of these kinds, and their positions."""
        self._shrink()
        parts = sorted(self._parts, key=lambda part: part[1][0] if len(part[1]) else -1)
        utc, tables = arrow().timestamp("us", "UTC"), []
        for _, _, table in parts:
            for place, name in enumerate(table.column_names):
                if kinds[name] == ZONED:  # tables may be in different time zones
                    zoned = table.column(place).cast(utc, safe=False)
                    table = table.set_column(place, name, zoned)
            tables.append(table)
        whole = arrow().concat_tables(tables, promote_options="permissive") if tables else None
        positions = np.concatenate([np.zeros(0, np.intp), *(each for _, each, _ in parts)])
        return whole, positions


def missing_of_all(
    read: Callable[[Sequence[str], int], Iterator[Any]],
    sample: Any,
    parsed: Frame,
    missing: Mapping[str, int],
) -> dict[str, int]:
    """Count the missing values of all rows of a table of texts, of which a ``sample`` was parsed.

    ``read`` yields all rows of some columns, in batches; ``missing`` counts texts that mean a
    missing value.  Those of another kind than their column, as ``parsed``, are missing too.
    """
    compute, counts, odd = arrow().compute, dict(missing), {}
    for name in parsed.columns:
        if not parsed.is_text(name):
            texts = sample[name].filter(arrow().array(parsed.missing(name))).unique()
            trimmed = [text.strip() for text in texts.drop_null().to_pylist()]
            odd[name] = [text for text in trimmed if not is_missing(text)]
    odd = {name: texts for name, texts in odd.items() if texts}
    for batch in read([*odd], BATCH_ROWS) if odd else ():
        for name, texts in odd.items():
            trim = compute.utf8_trim_whitespace(batch.column(name))
            found = compute.sum(compute.is_in(trim, arrow().array(texts))).as_py()
            counts[name] = counts.get(name, 0) + (found or 0)
    return counts
