"""The first pass over a table that is read batch by batch, from which the sums are planned.

A `Survey` has counts, levels, extremes, numbers of shared rows, and a sample.  The sample depends
on the positions of rows alone, so it is the same however the table is cut into batches.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats
from hgr_jax.tables.arrow_columns import NUMBER, TEXT, Chunk
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.levels import MAX_LEVELS, encode_numbers

SAMPLE_ROWS = 2**16
"""Number of rows of the sample, to which bases and maps to ranks are fitted."""

EXTREMES_KEPT = 64
"""Number of largest, and of smallest, values that are kept: a sample may miss far outliers."""

WEIGHTS_KEY = "\0weights"
"""Reserved name of the weights of a sample's rows."""


def is_small(rows: int | None) -> bool:
    """Return whether a table has no more rows than a sample."""
    return rows is not None and rows <= SAMPLE_ROWS


@dataclasses.dataclass
class Levels:
    """The distinct texts of a category, in order of appearance, and the number of rows of each."""

    place: dict[str, int]
    counts: NDArray[np.int64]

    @classmethod
    def none(cls) -> Levels:
        """Return no text."""
        return cls({}, np.zeros(0, np.int64))

    def count(self, codes: NDArray[np.integer], levels: list[str]) -> NDArray[np.intp]:
        """Count further rows; return their positions ``(n,)`` among all texts."""
        mapped = [self.place.setdefault(text, len(self.place)) for text in levels]
        places = np.array([*mapped, -1], np.intp)[codes]
        self._add(np.bincount(places[places >= 0], minlength=len(self.place)))
        return places

    def join(self, other: Levels) -> NDArray[np.intp]:
        """Add the counts of other texts; return the position of each of these."""
        place = np.array([self.place.setdefault(t, len(self.place)) for t in other.place], np.intp)
        counts = np.zeros(len(self.place), np.int64)
        counts[place] += other.counts
        self._add(counts)
        return place

    def _add(self, counts: NDArray[np.int64]) -> None:
        counts[: len(self.counts)] += self.counts
        self.counts = counts


class Survey:
    """Statistics of the columns over the rows so far.

    Attributes:
      kinds: kinds of the columns but the weights, by name.
      notes: notes on how columns and files were read, by name.
      names: names of all columns in order, including unusable columns.
      rows: number of rows, including rows of weight 0.
      counted: number of rows of positive weight.
      weights: sum of the weights, sum of their squares, and the largest.
      shared: ``(c, c)``, number of rows in which two columns are present.
      infinite: number of infinite values of each column.
      rounded: number of integers of each column that float64 does not hold, and the first.
      levels: levels of each category; None for too many.
      integers: levels of each column of few distinct integers; None for other numbers.
      lowest, highest: the extremes of each column of numbers, sorted.
    """

    def __init__(
        self,
        kinds: Mapping[str, str],
        *,
        categories: Collection[str] = (),
        integers_up_to: int = 0,
        weights: str | None = None,
        sample_rows: int | None = None,
        first: int = 0,
        notes: Mapping[str, str] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        """Begin with no row; numbers among ``categories`` are counted as texts.

        Columns of at most ``integers_up_to`` distinct integers are categories too.
        ``first`` is the position in the table of the first row to come.
        """
        self.kinds = {name: kind for name, kind in kinds.items() if name != weights}
        self.as_text = frozenset(
            name for name, kind in self.kinds.items() if kind == TEXT or name in categories
        )
        self.weights_name, self.integers_up_to = weights, integers_up_to
        self.notes = dict(notes or {})
        self.names = [name for name in names or kinds if name != weights]
        self.sample_rows = SAMPLE_ROWS if sample_rows is None else sample_rows
        self.first, self.rows, self.counted = first, 0, 0
        self.weights = np.zeros(3)
        count = len(self.kinds)
        self.shared = np.zeros((count, count))
        self.infinite = dict.fromkeys(self.kinds, 0)
        self.rounded = dict.fromkeys(self.kinds, (0, ""))
        self.levels: dict[str, Levels | None] = {name: Levels.none() for name in self.as_text}
        numbers = [name for name in self.kinds if name not in self.as_text]
        self.integers: dict[str, Levels | None] = {
            name: Levels.none() for name in numbers if integers_up_to and kinds[name] == NUMBER
        }
        self.lowest = {name: np.zeros(0) for name in numbers}
        self.highest = {name: np.zeros(0) for name in numbers}
        self._keys = np.zeros(0, np.uint64)
        self._places = np.zeros(0, np.intp)
        self._values = {name: np.zeros(0) for name in [*self.kinds, WEIGHTS_KEY]}

    def update(self, chunk: Chunk, where: str) -> None:
        """Add rows to the statistics."""
        w = weights_of(chunk, self.weights_name, where)
        places = self.first + self.rows + np.arange(chunk.rows)
        self.rows += chunk.rows
        if w is not None:
            places, chunk, w = places[w > 0], chunk.take(w > 0), w[w > 0]
            heaviest = max(self.weights[2], w.max(initial=0))
            self.weights = np.array([self.weights[0] + w.sum(), self.weights[1] + w @ w, heaviest])
        self.counted += chunk.rows
        present = np.empty((len(self.kinds), chunk.rows), np.float32)
        columns: dict[str, NDArray[np.floating]] = {}
        for place, name in enumerate(self.kinds):
            if name in self.as_text:
                codes = self._count_levels(name, chunk)
                columns[name] = np.where(codes >= 0, codes, np.nan)
            else:
                columns[name] = chunk.numbers[name]
                self._keep_extremes(name, columns[name])
                if (integers := self.integers.get(name)) is not None:
                    present_values = columns[name][~np.isnan(columns[name])]
                    are_integers = np.array_equal(present_values, np.floor(present_values))
                    if are_integers:
                        integers.count(*texts_of(chunk, name))
                    if not are_integers or len(integers.place) > self.integers_up_to:
                        self.integers[name] = None
            np.logical_not(np.isnan(columns[name]), out=present[place], casting="unsafe")
            self.infinite[name] += chunk.infinite.get(name, 0)
            self.rounded[name] = _added(self.rounded[name], chunk.rounded.get(name, (0, "")))
        counts = present.sum(axis=1, dtype=np.float64)
        whole = counts == chunk.rows
        holes = np.flatnonzero(~whole)
        shared = np.where(whole[:, None], counts, counts[:, None])
        shared[np.ix_(holes, holes)] = present[holes] @ present[holes].T
        self.shared += shared
        self._draw(places, columns, np.ones(chunk.rows) if w is None else w)

    def _count_levels(self, name: str, chunk: Chunk) -> NDArray[np.intp]:
        levels = self.levels[name]
        if levels is None:
            return np.full(chunk.rows, -1)
        places = levels.count(*texts_of(chunk, name))
        if len(levels.place) > MAX_LEVELS:
            self.levels[name] = None
        return places

    def _keep_extremes(self, name: str, values: Floats) -> None:
        low, high = self.lowest[name], self.highest[name]
        full = len(low) >= EXTREMES_KEPT
        below = values[values < low[-1]] if full else values[~np.isnan(values)]
        above = values[values > high[0]] if full else below
        if len(below) > EXTREMES_KEPT:
            below = np.partition(below, EXTREMES_KEPT - 1)[:EXTREMES_KEPT]
        if len(above) > EXTREMES_KEPT:
            above = np.partition(above, -EXTREMES_KEPT)[-EXTREMES_KEPT:]
        self.lowest[name] = np.sort(np.concatenate([low, below]))[:EXTREMES_KEPT]
        self.highest[name] = np.sort(np.concatenate([high, above]))[-EXTREMES_KEPT:]

    def _draw(
        self, places: NDArray[np.intp], columns: Mapping[str, Floats], weights: Floats
    ) -> None:
        """Draw the rows with the smallest random keys into the sample."""
        keys = random_keys(places)
        drawn = np.arange(len(keys))
        if len(self._keys) >= self.sample_rows:
            drawn = np.flatnonzero(keys < self._keys.max())
        if len(drawn):
            values = {
                name: column[drawn] for name, column in {**columns, WEIGHTS_KEY: weights}.items()
            }
            self._keep(keys[drawn], places[drawn], values)

    def _keep(
        self, keys: NDArray[np.uint64], places: NDArray[np.intp], values: Mapping[str, Floats]
    ) -> None:
        """Add rows to the sample, and keep those with the smallest keys."""
        whole = np.concatenate([self._keys, keys])
        kept = np.arange(len(whole))
        if len(whole) > self.sample_rows:
            kept = np.argpartition(whole, self.sample_rows - 1)[: self.sample_rows]
        self._keys = whole[kept]
        self._places = np.concatenate([self._places, places])[kept]
        for name, column in values.items():
            self._values[name] = np.concatenate([self._values[name], column])[kept]

    def joined(self, other: Survey) -> Survey:
        """Return the survey of these rows and the later rows of another survey."""
        whole = copy.copy(self)
        whole.rows, whole.counted = self.rows + other.rows, self.counted + other.counted
        heaviest = max(self.weights[2], other.weights[2])
        whole.weights = np.append((self.weights + other.weights)[:2], heaviest)
        whole.shared = self.shared + other.shared
        whole.infinite = {n: count + other.infinite[n] for n, count in self.infinite.items()}
        whole.rounded = {n: _added(lost, other.rounded[n]) for n, lost in self.rounded.items()}
        whole.lowest = {
            n: np.sort(np.concatenate([kept, other.lowest[n]]))[:EXTREMES_KEPT]
            for n, kept in self.lowest.items()
        }
        whole.highest = {
            n: np.sort(np.concatenate([kept, other.highest[n]]))[-EXTREMES_KEPT:]
            for n, kept in self.highest.items()
        }
        whole.integers = {
            name: _joined_levels(levels, other.integers[name], self.integers_up_to)
            for name, levels in self.integers.items()
        }
        whole.levels, values = {}, dict(other._values)
        for name, levels in self.levels.items():
            added = other.levels[name]
            whole.levels[name] = None
            if levels is None or added is None:
                values[name] = np.full(len(values[name]), np.nan)
                continue
            joined = Levels(dict(levels.place), levels.counts)
            place = joined.join(added)
            if len(joined.place) <= MAX_LEVELS:
                whole.levels[name] = joined
            codes = np.nan_to_num(values[name], nan=-1).astype(np.intp)
            values[name] = np.append(place, np.nan)[codes]
        whole._values = dict(self._values)
        whole._keep(other._keys, other._places, values)
        return whole

    def categories(self) -> dict[str, Levels | None]:
        """Return the levels of each category; None for too many."""
        few = {name: levels for name, levels in self.integers.items() if levels is not None}
        return self.levels | few

    def sample(self) -> dict[str, NDArray[np.float64]]:
        """Return the sample in the order of its rows, by name, weights under `WEIGHTS_KEY`.

        Categories are positions of their texts.
        """
        order = np.argsort(self._places)
        sample = {name: values[order] for name, values in self._values.items()}
        for name, levels in self.integers.items():
            if levels is not None:
                numbers = np.array([*map(float, levels.place), np.nan])
                rising = np.argsort(numbers[:-1])
                place = np.searchsorted(numbers[rising], sample[name])
                sample[name] = np.where(
                    np.isnan(sample[name]), np.nan, np.append(rising, -1)[place]
                )
        return sample


def _joined_levels(one: Levels | None, other: Levels | None, most: int) -> Levels | None:
    """Join levels; None if there are more than ``most``."""
    if one is None or other is None:
        return None
    joined = Levels(dict(one.place), one.counts)
    joined.join(other)
    return joined if len(joined.place) <= most else None


def _added(one: tuple[int, str], other: tuple[int, str]) -> tuple[int, str]:
    """Add up two counts of texts, each with its first text."""
    return one[0] + other[0], one[1] or other[1]


def random_keys(places: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Return a pseudo-random number for each position (SplitMix64; Steele, Lea & Flood, 2014)."""
    with np.errstate(over="ignore"):
        z = (places.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def texts_of(chunk: Chunk, name: str) -> tuple[NDArray[np.integer], list[str]]:
    """Return codes and texts of a column, whose numbers are written as texts."""
    if name in chunk.texts:
        return chunk.texts[name]
    category = encode_numbers(chunk.numbers[name])  # infinite values are NaN already
    return category.codes, list(category.levels)


def weights_of(chunk: Chunk, name: str | None, where: str) -> NDArray[np.float64] | None:
    """Return the weights of rows; None if no column holds them."""
    if name is None:
        return None
    values = chunk.numbers[name]
    if (values < 0).any():
        low = values[values < 0][0]
        raise TableError(
            f"{where}: weights must not be negative; got {low:g} in column {printable(name)!r}"
        )
    if chunk.infinite.get(name):
        raise TableError(f"{where}: column {printable(name)!r} of weights holds infinite values")
    if np.isnan(values).any():
        raise TableError(
            f"{where}: column {printable(name)!r} of weights has missing values: give those rows 0"
        )
    return values
