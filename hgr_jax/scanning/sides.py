"""The columns of a tile of pairs, made orthonormal on the rows that they share with others."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.linalg import whitenings
from hgr_jax.core.partial import EXPLAINED
from hgr_jax.scanning.given import Explained, less_explained, orthonormalising
from hgr_jax.scanning.layout import Layout


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


def side_of_numbers(
    layout: Layout,
    moments: Floats,
    in_span: NDArray[np.bool_],
    explained: Explained | None = None,
    *,
    fitted: bool = False,
) -> Side:
    """Whiten the functions of some numbers on the rows of each of some patterns.

    Args:
      layout: of all columns.
      moments: as of `own_sums`.
      in_span: ``(d, c)``, directions that the data support.
      explained: what known functions explain of them.
      fitted: whether the functions are known to be near-orthonormal on these very rows.
    """
    kept: Floats = np.ones(())
    if explained is not None:
        moments, kept = less_explained(moments, explained.orthonormal)
    span = np.broadcast_to(in_span[:, :, None], moments[0, 1:].shape)
    mean, inverse, pivot = whitenings(moments, span)
    least = np.ones(pivot.shape) if fitted else pivot * kept
    count = moments.shape[2]
    feature = np.arange(layout.degree)[:, None] * count + np.arange(count)[None, :]
    return Side(mean, inverse, feature, least, span, 0, explained)


def filled(layout: Layout, columns: Integers, sums: Floats) -> Floats:
    """Return sums ``(m, ...)`` of the levels of categories by column, ``(width, c, ...)``."""
    _, _, index = layout.levels_of(columns)
    return np.concatenate([sums, np.zeros_like(sums[:1])])[index]


def side_of_levels(
    layout: Layout, columns: Integers, counts: Floats, explained: Explained | None = None
) -> Side:
    """Whiten the indicators of categories, of so many rows ``(m, u)``, on those of patterns."""
    _, _, index = layout.levels_of(columns)
    share = filled(layout, columns, counts)
    total = share.sum(axis=0)
    share = share / np.where(total > 0, total, 1)
    supported = share > 0
    scale = np.where(supported, 1 / np.sqrt(np.where(supported, share, 1)), 0)
    least = np.ones(total.shape)
    if explained is None:
        return Side(share, scale, index, least, supported, redundant=1)
    left = np.eye(layout.width)[:, :, None, None] * share[None] - share[:, None] * share[None]
    coordinates = explained.orthonormal
    left -= np.einsum("kicu,kjcu->ijcu", coordinates, coordinates)
    transform, alive = orthonormalising(left, share, EXPLAINED[str(layout.dtype)])
    return Side(share, transform, index, least, alive, 0, explained)
