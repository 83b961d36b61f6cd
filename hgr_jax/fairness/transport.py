"""Transport along conditional quantiles: what makes predictions alike for every attribute."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

RESOLUTION = 1e-9
"""Share of the range of predictions by which two of them have to differ to have two ranks."""


@dataclasses.dataclass(frozen=True)
class Transport:
    """Predictions in the order of an attribute, and the map that they define.

        T(z, p) = Q(U(z, p))

    with U the rank, from 0 to 1, of p among the predictions of the neighbours of z, and Q the
    quantile function of all predictions.  Both are linear between distinct values, whose rank is
    the middle of those that they take, and constant beyond them.  So where everybody has the same
    neighbours, predictions stay as they are.

    The neighbours of z are the nearest rows (of two as near the one below), and those that have
    the attribute of one of these.  So a category, by the positions of its levels, has one neighbour
    and with it all rows of the level.  Beyond all rows the outermost are the nearest.  Before they
    are ranked, predictions of neighbours are moved to z along their least-squares line: at the ends
    of the attribute, and beyond, all neighbours are on one side.  Where z is farther from the mean
    of its neighbours than half of their width, ranks are drawn to the middle, 1/2, and are there at
    a whole width.

    Attributes:
      z: the attribute ``(n,)``, in increasing order.
      p: predictions ``(n,)``, in the order of z.
      neighbors: how many there are at least, at most n.

    Source: Chzhen, Denis, Hebiri, Oneto & Pontil, "Fair regression with Wasserstein barycenters"
    (2020), for groups.
    """

    z: Vector
    p: Vector
    neighbors: int

    @classmethod
    def learn(cls, z: NDArray[Any], p: NDArray[Any], neighbors: int | None = None) -> Transport:
        """Learn the map from rows whose predictions the model was not fitted to.

        Args:
          z: finite numbers ``(n,)``, or one-hot ``(n, c)``, a category.
          p: predictions ``(n,)``, finite.
          neighbors: of a number, None for the root of n.  More than n are n.
        """
        if z.ndim == 2:
            neighbors = 1
        elif neighbors is None:
            neighbors = round(np.sqrt(len(z)))
        z = _as_numbers(z)
        order = np.argsort(z, kind="stable")
        return cls(z[order], np.asarray(p, np.float64)[order], min(neighbors, len(z)))

    def __call__(self, z: NDArray[Any], p: Vector) -> Vector:
        """Return T(z, p) of each row, ``(m,)``; non-decreasing in p where z is the same."""
        values, ranks = _middle_ranks(self.p)
        return np.interp(self.rank(z, p), ranks, values)

    def rank(self, z: NDArray[Any], p: Vector) -> Vector:
        """Return U(z, p) of each row, ``(m,)``."""
        z = _as_numbers(z)
        first, end = self._windows(z)
        # Rows with the same neighbours at once: few sorts where the attribute has few values.
        windows, window = np.unique(first * (len(self.z) + 1) + end, return_inverse=True)
        order = np.argsort(window, kind="stable")
        together = np.split(order, np.searchsorted(window[order], np.arange(1, len(windows))))
        found, unit = np.empty(len(p)), RESOLUTION * (np.ptp(self.p) or 1.0)
        for rows in together:
            near = slice(first[rows[0]], end[rows[0]])
            center, slope = _line(self.z[near], self.p[near])
            ranked = (self.p[near] - slope * (self.z[near] - center)) / unit
            # Rounded, so that predictions that are a line of the attribute have ties, not noise.
            asked = np.round((p[rows] - slope * (z[rows] - center)) / unit)
            ranks = np.interp(asked, *_middle_ranks(np.round(ranked)))
            width = self.z[near.stop - 1] - self.z[near.start]
            found[rows] = 0.5 + _trust(z[rows] - center, width) * (ranks - 0.5)
        return found

    def _windows(self, z: Vector) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return where the neighbours of each value begin and end, in the order of the attribute.

        The k nearest of a sorted attribute are the rows i, ..., i + k - 1 with the first i whose
        row is no farther than the row i + k: z is at most the middle of these two.
        """
        k = self.neighbors
        middles = self.z[:-k] / 2 + self.z[k:] / 2
        nearest = np.searchsorted(middles, z)
        first = np.searchsorted(self.z, self.z[nearest], side="left")
        end = np.searchsorted(self.z, self.z[nearest + k - 1], side="right")
        return first, end


def mixed(p: Vector, transported: Vector, strength: float) -> Vector:
    """Return predictions that are moved a part of the way; at 0 and 1 they are one or the other."""
    return (1 - strength) * p + strength * transported


def _as_numbers(z: NDArray[Any]) -> Vector:
    return np.asarray(z.argmax(axis=1) if z.ndim == 2 else z, np.float64)


def _middle_ranks(values: Vector) -> tuple[Vector, Vector]:
    """Return the distinct values in order, and the middle of the ranks that each takes."""
    distinct, counts = np.unique(values, return_counts=True)
    return distinct, (np.cumsum(counts) - counts / 2) / len(values)


def _line(z: Vector, p: Vector) -> tuple[float, float]:
    """Return the mean of z and the slope of the least-squares line, 0 where z hardly varies."""
    if z[0] == z[-1]:
        return float(z[0]), 0.0
    center = z.mean()
    centered = z - center
    square = centered @ centered
    slope = centered @ p / square if square >= np.finfo(np.float64).tiny else 0.0
    return float(center), float(slope)


def _trust(away: Vector, width: float) -> Vector:
    """Return how much of a rank is kept, from 0 to 1, so far from the mean of the neighbours.

    All of it in the middle of their width and up to its end, about; nothing a width from the mean.
    Where the line does not reach, a rank is 0 or 1 whatever the prediction, and a few such rows of
    a tail would make a dependence that other rows do not show.
    """
    if width == 0:
        return np.asarray(away == 0, np.float64)
    return np.clip(2 - 2 * np.abs(away) / width, 0.0, 1.0)
