"""What the columns of inputs mean: numbers, or levels of a category, learned on training rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import LARGEST_NUMBER
from hgr_jax._texts import near_matches
from hgr_jax.tables.columns import as_frame, as_numbers_in_days, from_frame, parse_column
from hgr_jax.tables.levels import Category, Unusable, encode_by_levels
from hgr_jax.tables.number_texts import is_number
from hgr_jax.tables.texts import MISSING_LEVEL

MISSING_CHOICES = ("raise", "drop", "level")
"""What becomes of missing values: an error, rows that are left out, or levels of their own."""

MAX_INPUT_LEVELS = 100

DAY = np.timedelta64(1, "D")

Masks = dict[str, NDArray[np.bool_]]
"""Where values are missing, by the name of what lacks them."""


@dataclasses.dataclass(frozen=True)
class InputColumn:
    """A column of a table of inputs.

    Attributes:
      name: its name in messages.
      levels: of a category, each an input of zeros and ones; None for numbers.
      first_date: of dates, from which days are counted, as ISO text.
      filler: the number in place of missing ones, beside an input that says where they are; None
        where missing numbers are none of the inputs.
    """

    name: str
    levels: tuple[str, ...] | None = None
    first_date: str | None = None
    filler: float | None = None

    @classmethod
    def learn(cls, name: str, values: NDArray[Any] | Category, missing: str) -> Self:
        """Learn a parsed column of training rows."""
        as_level = missing == "level"
        if isinstance(values, Category):
            lacking = values.codes < 0
            most = min(MAX_INPUT_LEVELS, len(lacking) // 2)
            if len(values.levels) > most:
                texts = (level for level in values.levels if not is_number(level))
                example = next(texts, values.levels[0])  # a stray text makes text of numbers
                raise ValueError(
                    f"column {name!r} of X holds text of {len(values.levels):,} different values in"
                    f" {len(lacking):,} rows, for example {example[:40]!r}: too many for a"
                    f" category, at most {most}; leave it out, or merge levels."
                )
            added = [MISSING_LEVEL] if as_level and lacking.any() else []
            return cls(name, tuple(sorted([*values.levels, *added])))
        first = None
        if values.dtype.kind == "M":
            first = None if np.isnat(values).all() else str(values[~np.isnat(values)].min())
        numbers = cls(name, None, first)._numbers(values)
        filler = None
        if as_level and np.isnan(numbers).any():
            filler = float(np.nanmean(numbers)) if not np.isnan(numbers).all() else 0.0
        return cls(name, None, first, filler)

    @property
    def inputs(self) -> int:
        """The number of inputs."""
        return 1 + (self.filler is not None) if self.levels is None else len(self.levels)

    @property
    def takes_missing(self) -> bool:
        """Whether a missing value is an input of its own."""
        return self.filler is not None or MISSING_LEVEL in (self.levels or ())

    def encode(self, values: NDArray[Any] | Category) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return inputs ``(n, inputs)`` of a parsed column, and the rows that lack a value."""
        self._check_kind(values)
        if self.levels is None:
            if isinstance(values, Category):  # without any value
                values = np.full(len(values.codes), np.nan)
            numbers = self._numbers(values)
            lacking = np.isnan(numbers)
            if self.filler is None:
                return numbers[:, None], lacking
            filled = np.where(lacking, self.filler, numbers)
            return np.stack([filled, lacking.astype(np.float64)], axis=1), np.zeros_like(lacking)
        if not isinstance(values, Category):
            values = Category(np.full(len(values), -1), self.levels)
        new = [level for level in values.levels if level not in self.levels]
        if new:
            raise ValueError(
                f"column {self.name!r} of X has the value(s) {', '.join(new[:5])}, which the"
                f" training rows do not have; known are {', '.join(self.levels)}."
            )
        places = encode_by_levels(np.array(values.levels, object), self.levels)
        codes = np.where(values.codes < 0, -1, np.append(places, -1)[values.codes])
        if MISSING_LEVEL in self.levels:
            codes = np.where(codes < 0, self.levels.index(MISSING_LEVEL), codes)
        return Category(codes, self.levels).one_hot(), codes < 0

    def _check_kind(self, values: NDArray[Any] | Category) -> None:
        """Raise for a column of another kind than in training, unless it has no value."""
        if isinstance(values, Category):
            got, example = "text", values.levels[:1]
        else:
            got = "dates" if values.dtype.kind == "M" else "numbers"
            example = tuple(values[~np.isnan(as_numbers_in_days(values))][:1].tolist())
        expected = "numbers" if self.first_date is None else "dates"
        if self.levels is not None:
            expected = "text"
        if example and got != expected:
            known = f" ({', '.join(self.levels[:5])})" if self.levels else ""
            raise ValueError(
                f"column {self.name!r} of X holds {got}, for example {str(example[0])[:40]!r}; the"
                f" model was trained on {expected}{known}."
            )

    def _numbers(self, values: NDArray[Any]) -> NDArray[np.float64]:
        if self.first_date is not None and values.dtype.kind == "M":
            days = (values - np.datetime64(self.first_date)) / DAY
            return np.where(np.isnat(values), np.nan, days)
        return as_numbers_in_days(values).astype(np.float64)


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The columns of the inputs that a model was trained on, in their order.

    Text and categories become indicators of levels, booleans 0 and 1, and dates days.
    """

    columns: tuple[InputColumn, ...]

    @classmethod
    def learn(cls, table: Any, missing: str) -> Self:
        """Learn the columns of a data frame of training rows (pandas, polars, pyarrow)."""
        parsed = _parse_table(table)
        return cls(tuple(InputColumn.learn(n, values, missing) for n, values in parsed.items()))

    def encode(self, table: Any) -> tuple[NDArray[np.float64], Masks]:
        """Return inputs ``(n, inputs)`` of a data frame, and where columns lack values."""
        parsed, blocks, masks = _parse_table(table), [], {}
        for column in self.columns:
            if column.name not in parsed:
                near = near_matches(column.name, parsed)
                raise ValueError(f"X lacks the column {column.name!r} of the training rows{near}.")
            block, masks[column.name] = column.encode(parsed[column.name])
            blocks.append(block)
        return np.concatenate(blocks, axis=1), masks

    @property
    def names(self) -> list[str]:
        """A name for each input: of the column, with the level of a category."""
        names: list[str] = []
        for column in self.columns:
            if column.levels is not None:
                names += [f"{column.name} = {level}" for level in column.levels]
            else:
                names += [column.name, f"{column.name} = {MISSING_LEVEL}"][: column.inputs]
        return names

    def as_json(self) -> list[dict[str, Any]]:
        """Return the columns as a list for JSON."""
        return [dataclasses.asdict(column) for column in self.columns]

    @classmethod
    def from_json(cls, columns: Sequence[Mapping[str, Any]]) -> Self:
        """Return the columns that `as_json` wrote, or raise for anything else."""
        made = []
        for entry in columns:
            column = InputColumn(**entry)
            levels, filler = column.levels, column.filler
            if not isinstance(column.name, str) or not isinstance(column.first_date, str | None):
                raise TypeError("a column's name or first date is no text")
            if levels is not None and not all(isinstance(level, str) for level in levels):
                raise TypeError(f"a level of {column.name!r} is no text")
            made.append(
                InputColumn(
                    column.name,
                    None if levels is None else tuple(levels),
                    column.first_date,
                    None if filler is None else float(filler),
                )
            )
        if len({column.name for column in made}) < len(made):
            raise ValueError("a column stands twice")
        return cls(tuple(made))


def column_names(x: Any) -> list[Any]:
    """Return the names of the columns of a data frame; none of anything else."""
    return list(getattr(x, "column_names", getattr(x, "columns", ())))


def _parse_table(table: Any) -> dict[str, NDArray[Any] | Category]:
    """Return the columns of a data frame by name, as numbers, dates or categories."""
    frame, names = as_frame(table)
    columns: dict[str, NDArray[Any] | Category] = {}
    for position, name in enumerate(map(str, names)):
        if name in columns:
            raise ValueError(f"X has two columns that are called {name!r}; rename one of them.")
        values = parse_column(from_frame(frame, position)).values
        if isinstance(values, Unusable):
            raise ValueError(f"column {name!r} of X cannot be used: {values.reason}.")
        if not isinstance(values, Category):
            _check_finite(name, values)
        columns[name] = values
    return columns


def _check_finite(name: str, values: NDArray[Any]) -> None:
    if values.dtype.kind == "f" and (beyond := np.abs(values) > LARGEST_NUMBER).any():
        raise ValueError(
            f"column {name!r} of X has {int(beyond.sum())} value(s) that are infinite or larger"
            f" than {LARGEST_NUMBER:.3g}, the first in row {int(beyond.argmax())}: replace them, or"
            " leave out these rows."
        )
