"""What is computed of the parts of a table, where they are; see `distributed`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import jax

from hgr_jax._arrays import Floats, Integers
from hgr_jax.scanning.plan import Plan
from hgr_jax.scanning.reread import kinds_of_pairs, rows_of_pairs
from hgr_jax.scanning.stream_sums import StreamSums
from hgr_jax.scanning.survey import Survey
from hgr_jax.tables.arrow_columns import decoded, kinds_of

Tables = Iterable[Any]
"""The rows of one part, as Arrow tables of any size."""


class Pass(Protocol):
    """What is computed of a part, by its position, on the machine that holds it; pickled there."""

    def __call__(self, tables: Tables, part: int) -> Any:
        """Return what the rows of a part give; None if nothing."""


class Cluster(Protocol):
    """A table in parts, of an engine that runs passes over them.

    Attributes:
      name: of the table, for messages.
    """

    name: str

    def each(self, made: Pass) -> list[Any]:
        """Return what every part gives, in their order."""

    def total(self, made: Pass, join: Callable[[Any, Any], Any]) -> Any:
        """Return what all parts give, joined in their order; None if none gives anything."""


def rows_and_kinds(tables: Tables, part: int) -> tuple[int, dict[str, str | None]]:
    """Return the number of rows of a part, and the kinds of its columns."""
    rows, kinds = 0, dict[str, str | None]()
    for table in tables:
        rows += table.num_rows
        kinds = kinds or kinds_of(table.schema)
    return rows, kinds


@dataclasses.dataclass(frozen=True)
class FirstPass:
    """Counts, levels, ends and a sample; see `Survey`.

    Attributes:
      first: the position of the first row of each part.
      kinds, categories, weights: as `Survey` takes them.
      rows: that are taken at a time.
    """

    first: Sequence[int]
    kinds: Mapping[str, str]
    categories: Collection[str]
    weights: str | None
    rows: int

    def __call__(self, tables: Tables, part: int) -> Survey:
        """Return the survey of a part."""
        found = Survey(
            self.kinds, categories=self.categories, weights=self.weights, first=self.first[part]
        )
        for table in _cut(tables, self.rows):
            where = f"part {part}"
            found.update(decoded(table, self.kinds, where), where)
        return found


@dataclasses.dataclass(frozen=True)
class SecondPass:
    """Sums over rows; see `StreamSums`.

    Attributes:
      plan: of the sums.
      x64: whether JAX's default dtype is double precision where the scan was asked for.
      rows: that are taken at a time.
    """

    plan: Plan
    x64: bool
    rows: int

    def __call__(self, tables: Tables, part: int) -> StreamSums | None:
        """Return the sums over the rows of a part, None if it has none."""
        found: StreamSums | None = None
        with jax.enable_x64(self.x64):
            for table in _cut(tables, self.rows):
                where = f"part {part}"
                some = StreamSums.of(self.plan, decoded(table, self.plan.read, where), where)
                found = some if found is None else found + some
        return found


@dataclasses.dataclass(frozen=True)
class LastPass:
    """The rows of pairs of which the sums say too little; see `Reread`.

    Attributes:
      plan: of the sums.
      pairs: ``(N, 2)``, positions of columns.
      rows: that are taken at a time.
    """

    plan: Plan
    pairs: Integers
    rows: int

    def __call__(self, tables: Tables, part: int) -> list[Floats]:
        """Return the rows of the pairs in a part."""
        kinds, where = kinds_of_pairs(self.plan, self.pairs), f"part {part}"
        chunks = ((where, decoded(table, kinds, where)) for table in _cut(tables, self.rows))
        return rows_of_pairs(self.plan, self.pairs, chunks)


def _cut(tables: Tables, rows: int) -> Iterator[Any]:
    """Yield tables of at most so many rows, and of some."""
    for table in tables:
        for start in range(0, table.num_rows, rows):
            yield table.slice(start, rows)
