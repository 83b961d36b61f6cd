"""Categories: their levels and codes, and the pooling of rare levels; why a column is left out.

The only encoder of categories.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._texts import OTHER_LEVELS, near_matches
from hgr_jax.core.host.linalg import memberships
from hgr_jax.tables.meanings import MISSING_LEVEL

MIN_LEVEL_ROWS = 5

MIN_LEVEL_SHARE = 0.01

MAX_POOLED_SHARE = 0.5

MANY_NAMES = 0.9
"""Share of rows with texts of their own of a column of names."""

MAX_LEVELS = 100_000
"""Largest number of levels of a category; a column of text with more is left out."""

MAX_ROUNDING_STEPS = 4
"""Largest range of values that differ by rounding only, in units in the last place."""

LARGEST_ROUNDING, ROUNDING_BITS = 1e-9, 12
"""Largest absolute value of differences that rounding made, and number of their digits in base 2: a
number of any other origin has 20 or more."""


@dataclasses.dataclass(frozen=True)
class Category:
    """A category: codes ``(n,)``, positions in ``levels``, -1 where missing.

    ``pooled`` are the rare levels, if any, that the last level replaces.
    """

    codes: NDArray[np.integer]
    levels: tuple[str, ...]
    pooled: tuple[str, ...] = ()

    def one_hot(self) -> NDArray[np.float64]:
        """Return the indicators of the levels, ``(n, levels)``."""
        return memberships(self.codes, len(self.levels)).T.astype(np.float64)


def object_array(values: Sequence[Any]) -> NDArray[Any]:
    """Return values of any types and lengths as an array of objects."""
    return np.array([*values, None], dtype=object)[:-1]


def positions_among(values: Iterable[Any], distinct: dict[Any, int]) -> NDArray[np.intp]:
    """Return the positions of values among the ``distinct`` ones, to which new ones are added."""
    return np.array([distinct.setdefault(value, len(distinct)) for value in values], np.intp)


def encode_texts(
    texts: Sequence[Any] | NDArray[Any], missing: NDArray[np.bool_] | None = None
) -> Category:
    """Encode the present values as a category, with sorted levels.

    ``missing (n,)`` is the mask of the rows without a value; None if there are none.
    """
    # Not an array of texts: NumPy gives each the length of the longest.
    values = list(map(str, texts))
    levels = sorted(set(values))
    place = {level: i for i, level in enumerate(levels)}
    return _category(levels, positions_among(values, place), missing)


def encode_numbers(array: NDArray[Any]) -> Category:
    """Encode the distinct numbers of a column as a category; infinite values are missing."""
    missing = ~np.isfinite(array)
    levels, codes = np.unique(array[~missing], return_inverse=True)
    return _category([number_as_text(level) for level in levels], codes, missing)


def encode_by_levels(texts: NDArray[Any], levels: Sequence[str]) -> NDArray[np.intp]:
    """Encode texts by given levels, -1 for any other text."""
    position = {level: i for i, level in enumerate(levels)}
    return np.array([position.get(text, -1) for text in texts.tolist()], np.intp)


def _category(
    levels: list[str], codes: NDArray[np.intp], missing: NDArray[np.bool_] | None
) -> Category:
    if missing is None:
        return Category(codes, tuple(levels))
    all_codes = np.full(len(missing), -1, np.intp)
    all_codes[~missing] = codes
    return Category(all_codes, tuple(levels))


def number_as_text(number: Any) -> str:
    """Write a NumPy number in as few digits as identify it among the numbers of its type."""
    short = f"{float(number):g}"
    value = number.dtype.type(short) if number.dtype.kind == "f" else float(short)
    return short if value == number.item() else str(number).removesuffix(".0")


@dataclasses.dataclass(frozen=True)
class Unusable:
    """Why a column cannot be used."""

    reason: str


def missing_as_level(column: Category) -> Category:
    """Make the missing values a level, the last one, unless they are rare."""
    missing, levels = column.codes < 0, column.levels
    if missing.all() or missing.sum() < max(MIN_LEVEL_ROWS, MIN_LEVEL_SHARE * len(missing)):
        return column
    if MISSING_LEVEL not in levels:
        levels = (*levels, MISSING_LEVEL)
    return Category(np.where(missing, levels.index(MISSING_LEVEL), column.codes), levels)


def differ_by_rounding(values: NDArray[np.floating]) -> bool:
    """Return whether finite values ``(n,)``, n >= 1, are equal but for rounding.

    Their range is a few units in the last place of the largest, or they are differences of such
    numbers: tiny multiples of a power of 2, as ``0.1 + 0.2 - 0.3`` is.
    """
    low, high = float(values.min()), float(values.max())
    largest = max(abs(low), abs(high))
    if high - low <= MAX_ROUNDING_STEPS * float(np.finfo(values.dtype).eps) * largest:
        return True
    if largest > max(LARGEST_ROUNDING, 16 * float(np.finfo(values.dtype).eps)):
        return False
    digits = np.ldexp(np.frexp(values)[0], ROUNDING_BITS)
    return bool((digits == np.floor(digits)).all())


def rounding_reason(values: NDArray[np.floating]) -> str:
    """Say why a column whose values `differ_by_rounding` is left out."""
    if values.min() == values.max():
        return constant_reason(values[0])
    low, high = float(values.min()), float(values.max())
    return f"its values differ by rounding only: {low!r} to {high!r}"


def pool_rare_levels(column: Category) -> tuple[Category | Unusable, str]:
    """Pool the rare levels of a category into one; return it, or why it is left out, and a note.

    A level is rare below `MIN_LEVEL_ROWS` rows or `MIN_LEVEL_SHARE` of the present rows.  The
    column is left out if rare levels hold more than `MAX_POOLED_SHARE` of the rows.
    """
    counts = np.bincount(column.codes[column.codes >= 0], minlength=len(column.levels))
    present, distinct = counts.sum(), np.count_nonzero(counts)
    if distinct < 2:
        single = column.levels[int(counts.argmax())] if present else np.nan
        return Unusable(constant_reason(single)), ""
    if distinct > MAX_LEVELS:
        return Unusable(f"text with more than {MAX_LEVELS:,} levels"), ""
    least = max(MIN_LEVEL_ROWS, int(np.ceil(MIN_LEVEL_SHARE * present)))
    rare = np.flatnonzero((counts > 0) & (counts < least))
    pooled_rows = counts[rare].sum()
    if pooled_rows > MAX_POOLED_SHARE * present:
        if distinct >= MANY_NAMES * present:
            reason = f"names or identifiers: {distinct:,} different texts in {present:,} rows"
        else:
            reason = f"text with {distinct} levels, most of them in fewer than {least} rows"
        return Unusable(reason), ""
    if len(rare) < 2:
        rare = rare[:0]
    kept = np.setdiff1d(np.flatnonzero(counts), rare)
    new_codes = np.full(len(counts) + 1, -1, np.int32)
    new_codes[kept], new_codes[rare] = np.arange(len(kept)), len(kept)
    levels = [column.levels[i] for i in kept] + [OTHER_LEVELS] * bool(len(rare))
    pooled = tuple(column.levels[i] for i in rare)
    note = f"{len(rare)} rare levels ({pooled_rows} rows) are pooled" if pooled else ""
    return Category(new_codes[column.codes], tuple(levels), pooled), note


def constant_reason(value: float | str) -> str:
    """Say why a constant column is left out; ``value`` is NaN if every value is missing."""
    if isinstance(value, str):
        return f"every value that is present is {value!r}"
    return "no value is present" if np.isnan(value) else f"every value that is present is {value:g}"


def as_codes(x: Any) -> Any:
    """Return numbers as they are, and the codes of a `Category`, NaN where missing."""
    return np.where(x.codes < 0, np.nan, x.codes) if isinstance(x, Category) else x


def codes_of_labels(labels: Any, levels: Sequence[str], pooled: Sequence[str]) -> NDArray[Any]:
    """Return the positions of labels ``(n,)`` in levels; those pooled are in the last one.

    Raises a ValueError for a label that is in neither.
    """
    texts = np.array([str(text) for text in labels.tolist()], object)
    codes = encode_by_levels(texts, levels)
    if pooled:
        codes[encode_by_levels(texts, pooled) >= 0] = len(levels) - 1
    if (codes < 0).any():
        unknown = texts[codes < 0][0]
        raise ValueError(f"the category has no level {unknown!r}{near_matches(unknown, levels)}")
    return codes
