"""The columns of a tile of pairs, made orthonormal on the rows that they share with others."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.scanning.given import Explained


@dataclasses.dataclass(frozen=True)
class Side:
    """One tile, whitened on the rows of each of some patterns.

    Attributes:
      mean: ``(width, c, u)``.
      map: ``(width, width, c, u)``; of indicators, whose map is diagonal, the diagonal.
      feature: ``(width, c)``, where a column's features stand in the matrix of cross moments.
      pivot: ``(c, u)``, the smallest of the map: near 0 where it is ill conditioned.
      supported: ``(width, c, u)``, which features vary there.
      redundant: directions that the supported features have too many (1 for indicators).
      explained: what the known functions explain; None for nothing.
    """

    mean: Floats
    map: Floats
    feature: Integers
    pivot: Floats
    supported: NDArray[np.bool_]
    redundant: int
    explained: Explained | None = None

    @property
    def width(self) -> int:
        """The number of features of a column."""
        return len(self.mean)

    def on(self, column: Integers, pattern: Integers) -> tuple[Floats, Floats]:
        """Return means and maps, the batch last, of columns on the rows of patterns."""
        return self.mean[:, column, pattern], self.map[..., column, pattern]

    def known_on(self, column: Integers, pattern: Integers) -> Floats | None:
        """Return coordinates ``(r, width, N)`` on the known functions, orthonormal there."""
        if self.explained is None:
            return None
        return self.explained.orthonormal[:, :, column, pattern]

    def directions(self, column: Integers, pattern: Integers, limit: Integers) -> Integers:
        """Return the number of directions that a pattern's rows support of a column's kernel."""
        used = self.supported[:, column, pattern]
        if not self.redundant:
            used = used & (np.arange(self.width)[:, None] < limit)
        return np.maximum(used.sum(axis=0) - self.redundant, 0)
