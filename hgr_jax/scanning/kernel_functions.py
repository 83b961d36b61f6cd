"""Kernels of columns in a scan: their features at some rows, and pairs whose sides have another."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from jax import Array

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.kernels import encode
from hgr_jax.core.padding import jitted
from hgr_jax.scanning.bases import MeasuredBy, polynomials_of
from hgr_jax.scanning.features import Features, Kernels, width_of
from hgr_jax.scanning.functions import OfColumns, RowFunctions

VALUES_AT_ONCE = 2**16
"""Values of which the features are made by one call of a program."""


@functools.partial(jitted, static=("kernel", "name"))
def _kernel_features(x: Array, *, kernel: Callable[[Array], Array], name: str) -> Array:
    return encode(kernel, x, None, name)[1]


@dataclasses.dataclass(frozen=True)
class KernelFeatures(OfColumns):
    """The features of a callable kernel of the columns, as they are."""

    kernel: Callable[[Array], Array]
    name: str

    @property
    def count(self) -> int:
        """The number of features of a column."""
        return width_of(self.kernel, self.name)

    def take(self, columns: Integers) -> KernelFeatures:
        """Return the features of some columns."""
        if np.array_equal(columns, np.arange(self.shape[1])):
            return self
        return dataclasses.replace(self, x=self.x[:, columns])

    @functools.cached_property
    def anywhere(self) -> Floats:
        """A value ``(c,)`` that each column has: a kernel need not know what 0 is."""
        first = np.argmax(~np.isnan(self.x), axis=0)
        return np.nan_to_num(self.x[first, np.arange(self.shape[1])])

    def __call__(self, rows: slice) -> Floats:
        """Return ``(1 + d, c, rows)``, 1 first; all 0 where a column is missing."""
        x = self.x[rows].T
        there = ~np.isnan(x)
        values = np.where(there, x, self.anywhere[:, None]).ravel()
        found = np.empty((1 + self.count, *x.shape), self.dtype)
        found[0] = there
        flat = found[1:].reshape(self.count, -1)
        for start in range(0, len(values), VALUES_AT_ONCE):
            part = values[start : start + VALUES_AT_ONCE]
            size = 1 << max(7, (len(part) - 1).bit_length())  # so that there are few programs
            padded = np.pad(part, (0, size - len(part)), mode="edge")
            made = np.asarray(_kernel_features(padded, kernel=self.kernel, name=self.name))
            flat[:, start : start + len(part)] = made[: len(part)].T
        found[1:] *= there
        return found


@dataclasses.dataclass(frozen=True)
class Joined:
    """Functions of the columns of one after those of the other; of the narrower, 0 more."""

    parts: tuple[RowFunctions, RowFunctions]

    @property
    def count(self) -> int:
        """The number of functions of a column."""
        return max(part.count for part in self.parts)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of columns."""
        return self.parts[0].shape[0], sum(part.shape[1] for part in self.parts)

    @property
    def dtype(self) -> np.dtype:
        """That of the values."""
        return self.parts[0].dtype

    def take(self, columns: Integers) -> Joined:
        """Return the functions of some columns, in rising order."""
        first = self.parts[0].shape[1]
        split = np.searchsorted(columns, first)
        chosen = columns[:split], columns[split:] - first
        one, other = (part.take(c) for part, c in zip(self.parts, chosen, strict=True))
        return Joined((one, other))

    def __call__(self, rows: slice) -> Floats:
        """Return ``(1 + d, c, rows)``, 1 first; all 0 where a column is missing."""
        found = [part(rows) for part in self.parts if part.shape[1]]
        size = 1 + self.count
        padded = [np.pad(f, ((0, size - len(f)), (0, 0), (0, 0))) for f in found]
        return padded[0] if len(padded) == 1 else np.concatenate(padded, axis=1)


def features_of_kernels(
    features: Features, kernels: Kernels, memory: int, measure: MeasuredBy
) -> RowFunctions:
    """Return the features of both kernels of all columns: of `doubled` ones, if they differ."""
    x, weights = features.x, features.weights
    sides = [(kernels.h, "h"), (kernels.k, "k")][: 1 + kernels.differ]
    parts: list[RowFunctions] = []
    for kernel, name in sides:
        own = np.ascontiguousarray(x[:, : x.shape[1] // len(sides)])  # the same in both halves
        if callable(kernel):
            parts.append(KernelFeatures(own, kernel, name))
        else:
            nothing = own[:, :0].T  # beside them, so that they are measured alone
            parts.append(polynomials_of(own, weights, kernel, memory, measure, nothing)[0])
    return parts[0] if len(parts) == 1 else Joined((parts[0], parts[1]))
