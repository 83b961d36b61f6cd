"""Helpers for arrays of NumPy."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Integers = NDArray[np.intp]


LARGEST_NUMBER, SMALLEST_RANGE = 1e150, 1e-150
"""Size and range of numbers whose squares neither overflow nor vanish in double precision."""


def size_fault(values: NDArray[Any]) -> str:
    """Say what makes the squares of finite numbers overflow or vanish; nothing if they do not."""
    if not values.size:
        return ""
    low, high = float(values.min()), float(values.max())
    if max(high, -low) > LARGEST_NUMBER:
        return f"it holds {high if high > -low else low:g}, beyond {LARGEST_NUMBER:g}"
    if 0 < high - low < SMALLEST_RANGE:
        return f"its range is {high - low:.3g}, below {SMALLEST_RANGE:g}"
    return ""


def in_unit(x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Divide columns by powers of two, so that squares neither overflow nor vanish; exact.

    Returns:
      The columns ``x / 2**power``, of sizes up to 1, and ``power``.
    """
    power = np.frexp(np.abs(x).max(axis=0))[1]
    return np.ldexp(x, -power), power


def is_traced(*trees: Any) -> bool:
    """Return whether any array in the trees is a tracer of JAX, which may not be loaded yet."""
    jax = sys.modules.get("jax")
    return jax is not None and any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(trees))


def is_of_jax(value: Any) -> bool:
    """Return whether a value is an array of JAX, which may not be loaded yet."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def is_array(value: Any) -> bool:
    """Return whether a value is an array of NumPy or of JAX."""
    return isinstance(value, np.ndarray) or is_of_jax(value)


def chunks(chosen: Integers, size: int) -> Iterator[Integers]:
    """Yield parts of at most ``size`` entries."""
    for start in range(0, len(chosen), max(size, 1)):
        yield chosen[start : start + max(size, 1)]


def groups(keys: Integers) -> Iterator[tuple[int, Integers]]:
    """Yield each distinct key of ``(N,)``, rising, and its positions."""
    order = np.argsort(keys, kind="stable")
    distinct, starts = np.unique(keys[order], return_index=True)
    stops = np.append(starts, len(keys))[1:]
    for key, start, stop in zip(distinct, starts, stops, strict=True):
        yield int(key), order[start:stop]
