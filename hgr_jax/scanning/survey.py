"""[rank_maps] Ranks of a column that is too long to be sorted: a fixed map that never falls, from a sample.

Equal values have one rank, so ties stay ties; other values have the rank that lies between.  A
sample of m rows knows the share of the rows below a value to some ``0.5 / sqrt(m)`` (0.2% for
2^16).  No test rests on that: whatever the map, it is a function of one column alone, and its
polynomials are made orthonormal on all rows.


[survey] The first pass over a table that is read batch by batch: what a plan of the sums needs to know.

Counts, levels, the ends of every column, rows in which two columns are present, and a sample.
Which rows are in the sample depends on their positions alone, so it is the same however the table
is cut into batches.

"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import itertools
from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats
from hgr_jax.core.host.ranks import ranks
from hgr_jax.tables.arrow_columns import TEXT, Chunk
from hgr_jax.tables.encoding import number_as_text
from hgr_jax.tables.faults import TableError, printable

KNOTS = 2048
"""Values of a column at which its ranks are kept, beside those that many rows hold."""


@dataclasses.dataclass(frozen=True)
class RankMap:
    """Values of a column, rising, and their ranks in [-1, 1]; between two, along a line."""

    values: NDArray[np.float64]
    ranks: NDArray[np.float64]

    @classmethod
    def of(cls, sample: NDArray[np.float64], low: float, high: float) -> RankMap:
        """Return the map of a column with a sample ``(m,)``, NaN where missing, and its ends."""
        present = np.sort(sample[~np.isnan(sample)])
        values, places = np.unique(present, return_index=True)
        if not len(values):
            return cls(np.array([low, high]), np.array([-1.0, 1.0]))
        rank = ranks(present[:, None])[places, 0]
        share = np.diff(np.append(places, len(present))) / len(present)
        tied = np.flatnonzero(share > 1 / KNOTS)
        steps = np.concatenate([np.nextafter(values[tied], end) for end in (-np.inf, np.inf)])
        sides = np.concatenate([rank[tied] - share[tied], rank[tied] + share[tied]])
        if len(values) > 2 * KNOTS:
            even = np.searchsorted(rank, np.linspace(-1, 1, KNOTS)).clip(max=len(values) - 1)
            kept = np.union1d(tied, even)
            values, rank = values[kept], rank[kept]
        # A value that many rows hold has a step on both of its sides.
        values, rank = np.concatenate([values, steps]), np.concatenate([rank, sides])
        beyond = [end for end in (low, high) if not values.min() <= end <= values.max()]
        rank = np.concatenate([rank, np.sign(np.array(beyond) - values[0])])
        values = np.concatenate([values, beyond])
        order = np.argsort(values)
        return cls(values[order], rank[order])

    def __call__(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the ranks of values, NaN of NaN."""
        return np.asarray(np.interp(x, self.values, self.ranks), np.float64)


SAMPLE_ROWS = 2**16
"""Rows of the sample: on them bases are fitted, and ranks found."""

ENDS = 64
"""Largest and smallest values of a column that are kept: a sample has too few far outliers."""

ABSENT = np.uint64(0x7FF8000000000001)
"""In digests of columns, a value that is missing."""

OF_WEIGHTS = "\0weights"
"""In a sample, the weights of its rows: what no column is called."""

MAX_TEXTS = 100_000
"""Texts of a column that are counted; one with more is left out."""


@dataclasses.dataclass
class Levels:
    """The texts of a category, in the order in which they came, and the rows and digest of each."""

    place: dict[str, int]
    counts: NDArray[np.int64]
    digests: NDArray[np.uint64]

    @classmethod
    def none(cls) -> Levels:
        """Return no text."""
        return cls({}, np.zeros(0, np.int64), np.zeros(0, np.uint64))

    def codes_of(self, codes: NDArray[np.integer], levels: list[str]) -> NDArray[np.intp]:
        """Return positions ``(n,)`` among all texts, from those among ``levels``; count them."""
        mapped = [self.place.setdefault(text, len(self.place)) for text in levels]
        self._digest()
        found = np.array([*mapped, -1], np.intp)[codes]
        counts = np.bincount(found[found >= 0], minlength=len(self.place))
        counts[: len(self.counts)] += self.counts
        self.counts = counts
        return found

    def added(self, other: Levels) -> NDArray[np.intp]:
        """Count the rows of other texts, and return the position here of each."""
        place = np.array([self.place.setdefault(t, len(self.place)) for t in other.place], np.intp)
        self._digest()
        counts = np.zeros(len(self.place), np.int64)
        counts[: len(self.counts)] = self.counts
        counts[place] += other.counts
        self.counts = counts
        return place

    def _digest(self) -> None:
        """Let new texts have their digests."""
        new = itertools.islice(self.place, len(self.digests), None)
        found = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in new]
        self.digests = np.append(self.digests, np.frombuffer(b"".join(found), np.uint64))


class Survey:
    """What is known of the rows so far.

    Attributes:
      kinds: of the columns by name, without that of the weights.
      rows: their number, with those of weight 0.
      counted: rows of positive weight.
      weights: of the rows: their sum, that of their squares, and the largest.
      shared: ``(c, c)``, rows in which two columns are present.
      infinite: infinite values of each column.
      rounded: integers of each column that float64 does not hold.
      levels: of each category; None of one that has too many.
      lowest, highest: the ends of each column of numbers, sorted.
      digests: of each column ``(c,)``, by its values and their rows, in whatever order these come.
    """

    def __init__(
        self,
        kinds: Mapping[str, str],
        *,
        categories: Collection[str] = (),
        weights: str | None = None,
        sample_rows: int | None = None,
        first: int = 0,
    ) -> None:
        """Begin with no row; numbers among ``categories`` are counted as texts.

        ``first`` is the position of the first row to come, in the whole table.
        """
        self.kinds = {name: kind for name, kind in kinds.items() if name != weights}
        self.as_text = frozenset(
            name for name, kind in self.kinds.items() if kind == TEXT or name in categories
        )
        self.weights_name = weights
        self.sample_rows = SAMPLE_ROWS if sample_rows is None else sample_rows
        self.first, self.rows, self.counted = first, 0, 0
        self.weights = np.zeros(3)
        count = len(self.kinds)
        self.shared = np.zeros((count, count))
        self.infinite = dict.fromkeys(self.kinds, 0)
        self.rounded = dict.fromkeys(self.kinds, 0)
        self.digests = np.zeros(count, np.uint64)
        self.levels: dict[str, Levels | None] = {name: Levels.none() for name in self.as_text}
        numbers = [name for name in self.kinds if name not in self.as_text]
        self.lowest = {name: np.zeros(0) for name in numbers}
        self.highest = {name: np.zeros(0) for name in numbers}
        self._keys = np.zeros(0, np.uint64)
        self._places = np.zeros(0, np.intp)
        self._values = {name: np.zeros(0) for name in [*self.kinds, OF_WEIGHTS]}

    def update(self, chunk: Chunk, where: str) -> None:
        """Take some more rows into account."""
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
        keys, found = random_keys(places), np.empty_like(self.digests)
        for place, name in enumerate(self.kinds):
            if name in self.as_text:
                codes = self._codes(name, chunk)
                columns[name] = np.where(codes >= 0, codes, np.nan)
                known = self.levels[name]
                if known is None:
                    bits = np.zeros(chunk.rows, np.uint64)
                else:
                    bits = np.append(known.digests, ABSENT)[codes]
            else:
                columns[name] = chunk.numbers[name]
                self._widen(name, columns[name])
                bits = (columns[name].astype(np.float64) + 0.0).view(np.uint64)  # one zero, not two
                bits[np.isnan(columns[name])] = ABSENT
            found[place] = mix_bits(keys ^ bits).sum()
            np.logical_not(np.isnan(columns[name]), out=present[place], casting="unsafe")
            self.infinite[name] += chunk.infinite.get(name, 0)
            self.rounded[name] += chunk.rounded.get(name, 0)
        self.digests = self.digests + found  # modulo 2^64
        counts = present.sum(axis=1, dtype=np.float64)
        whole = counts == chunk.rows
        holes = np.flatnonzero(~whole)
        shared = np.where(whole[:, None], counts, counts[:, None])
        shared[np.ix_(holes, holes)] = present[holes] @ present[holes].T
        self.shared += shared
        self._draw(keys, places, columns, np.ones(chunk.rows) if w is None else w)

    def _codes(self, name: str, chunk: Chunk) -> NDArray[np.intp]:
        levels = self.levels[name]
        if levels is None:
            return np.full(chunk.rows, -1)
        found = levels.codes_of(*texts_of(chunk, name))
        if len(levels.place) > MAX_TEXTS:
            self.levels[name] = None
        return found

    def _widen(self, name: str, values: Floats) -> None:
        """Keep the ends of a column."""
        for ends, sign in ((self.lowest, 1), (self.highest, -1)):
            known = ends[name]
            beyond = values[~np.isnan(values)] if len(known) < ENDS else values
            if len(known) >= ENDS:
                last = known[-1] if sign == 1 else known[0]
                beyond = values[values < last] if sign == 1 else values[values > last]
            if len(beyond):
                if len(beyond) > ENDS:
                    beyond = np.partition(sign * beyond, ENDS - 1)[:ENDS] * sign
                both = np.sort(np.concatenate([known, beyond]))
                ends[name] = both[:ENDS] if sign == 1 else both[-ENDS:]

    def _draw(
        self,
        keys: NDArray[np.uint64],
        places: NDArray[np.intp],
        columns: Mapping[str, Floats],
        weights: Floats,
    ) -> None:
        """Keep the rows of the sample: those of the smallest keys."""
        if len(self._keys) >= self.sample_rows:
            some = np.flatnonzero(keys < self._keys.max())
        else:
            some = np.arange(len(keys))
        if len(some):
            values = {name: each[some] for name, each in {**columns, OF_WEIGHTS: weights}.items()}
            self._keep(keys[some], places[some], values)

    def _keep(
        self, keys: NDArray[np.uint64], places: NDArray[np.intp], values: Mapping[str, Floats]
    ) -> None:
        """Keep the rows of the smallest keys, of those of the sample and of others."""
        whole = np.concatenate([self._keys, keys])
        kept = np.arange(len(whole))
        if len(whole) > self.sample_rows:
            kept = np.argpartition(whole, self.sample_rows - 1)[: self.sample_rows]
        self._keys = whole[kept]
        self._places = np.concatenate([self._places, places])[kept]
        for name, each in values.items():
            self._values[name] = np.concatenate([self._values[name], each])[kept]

    def joined(self, other: Survey) -> Survey:
        """Return what is known of these rows and of those that come after them."""
        found = copy.copy(self)
        found.rows, found.counted = self.rows + other.rows, self.counted + other.counted
        heaviest = max(self.weights[2], other.weights[2])
        found.weights = np.append((self.weights + other.weights)[:2], heaviest)
        found.shared = self.shared + other.shared
        found.digests = self.digests + other.digests
        found.infinite = {n: count + other.infinite[n] for n, count in self.infinite.items()}
        found.rounded = {n: count + other.rounded[n] for n, count in self.rounded.items()}
        found.lowest = {
            n: np.sort(np.concatenate([ends, other.lowest[n]]))[:ENDS]
            for n, ends in self.lowest.items()
        }
        found.highest = {
            n: np.sort(np.concatenate([ends, other.highest[n]]))[-ENDS:]
            for n, ends in self.highest.items()
        }
        found.levels, values = {}, dict(other._values)
        for name, levels in self.levels.items():
            added = other.levels[name]
            found.levels[name] = None
            if levels is None or added is None:
                values[name] = np.full(len(values[name]), np.nan)
                continue
            joined = Levels(dict(levels.place), levels.counts, levels.digests)
            place = joined.added(added)
            if len(joined.place) <= MAX_TEXTS:
                found.levels[name] = joined
            codes = np.nan_to_num(values[name], nan=-1).astype(np.intp)
            values[name] = np.append(place, np.nan)[codes]
        found._values = dict(self._values)
        found._keep(other._keys, other._places, values)
        return found

    def alike(self) -> dict[str, str]:
        """Return the first column with the same values, of each that has one before it."""
        first: dict[tuple[bool, int], str] = {}
        found = {}
        for name, digest in zip(self.kinds, self.digests.tolist(), strict=True):
            if self.levels.get(name, True) is None:
                continue
            other = first.setdefault((name in self.as_text, digest), name)
            if other != name:
                found[name] = other
        return found

    def sample(self) -> dict[str, NDArray[np.float64]]:
        """Return the rows of the sample in their order: numbers, positions of texts, by name.

        And under `OF_WEIGHTS` the weights.
        """
        order = np.argsort(self._places)
        return {name: values[order] for name, values in self._values.items()}


def random_keys(places: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Return a pseudo-random number for each position (SplitMix64; Steele, Lea & Flood, 2014)."""
    with np.errstate(over="ignore"):
        return mix_bits((places.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))


def mix_bits(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers whose every bit depends on every bit of the given ones, as SplitMix64 does."""
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def texts_of(chunk: Chunk, name: str) -> tuple[NDArray[np.integer], list[str]]:
    """Return a column as texts: those of `Chunk`, or its numbers as texts."""
    if name in chunk.texts:
        return chunk.texts[name]
    values = chunk.numbers[name]
    there = ~np.isnan(values)
    found, codes = np.unique(values[there], return_inverse=True)
    whole = np.full(len(values), -1)
    whole[there] = codes
    return whole, [number_as_text(value) for value in found]


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
