"""Categories: levels, the level of every row, and indicators of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax.core.host.polynomials import memberships


@dataclasses.dataclass(frozen=True)
class Category:
    """A category: the level ``(n,)`` of every row, -1 where it is missing, and the levels.

    ``pooled`` are the rare levels that the last one stands for, if any.
    """

    codes: NDArray[np.integer]
    levels: tuple[str, ...]
    pooled: tuple[str, ...] = ()

    def one_hot(self) -> NDArray[np.float64]:
        """Return a column of zeros and ones for each level, ``(n, levels)``."""
        return memberships(self.codes, len(self.levels)).T.astype(np.float64)


def encode_texts(
    texts: Sequence[Any] | NDArray[Any], missing: NDArray[np.bool_] | None = None
) -> Category:
    """Return texts (of other objects, their texts) as a category; its levels are sorted.

    Args:
      texts: of n rows, without those that are missing.
      missing: ``(n,)``, which rows are; none if None.
    """
    # An empty one more keeps an array of texts where there is none.
    levels, codes = np.unique(np.array([*map(str, texts), ""])[:-1], return_inverse=True)
    return _category(levels.tolist(), codes, missing)


def encode_numbers(array: NDArray[Any]) -> Category:
    """Return the distinct values of a column of numbers as levels; infinite ones are missing."""
    missing = ~np.isfinite(array)
    levels, codes = np.unique(array[~missing], return_inverse=True)
    return _category([number_as_text(level) for level in levels], codes, missing)


def encode_known(texts: NDArray[Any], levels: Sequence[str]) -> NDArray[np.intp]:
    """Return the positions of texts among levels, -1 for one that is not there."""
    position = {level: i for i, level in enumerate(levels)}
    return np.array([position.get(text, -1) for text in texts.tolist()], np.intp)


def _category(
    levels: list[str], codes: NDArray[np.intp], missing: NDArray[np.bool_] | None
) -> Category:
    if missing is None:
        return Category(codes, tuple(levels))
    of_all = np.full(len(missing), -1, np.intp)
    of_all[~missing] = codes
    return Category(of_all, tuple(levels))


def number_as_text(number: Any) -> str:
    """Return a NumPy number in the few digits that tell it from all others of its type."""
    short = f"{float(number):g}"
    read = number.dtype.type(short) if number.dtype.kind == "f" else float(short)
    return short if read == number.item() else str(number).removesuffix(".0")
