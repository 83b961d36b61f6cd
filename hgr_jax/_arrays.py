"""Helpers for arrays that may be traced or concrete, on the host or on a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Integers = NDArray[np.intp]


LARGEST_NUMBER, LEAST_SPREAD = 1e150, 1e-150
"""Size and range of numbers whose squares neither overflow nor vanish in double precision."""


def size_fault(values: NDArray[Any]) -> str:
    """Say what makes the squares of finite numbers overflow or vanish; nothing if they do not."""
    if not values.size:
        return ""
    low, high = float(values.min()), float(values.max())
    if max(high, -low) > LARGEST_NUMBER:
        return f"it holds {high if high > -low else low:g}, beyond {LARGEST_NUMBER:g}"
    if 0 < high - low < LEAST_SPREAD:
        return f"its range is {high - low:.3g}, below {LEAST_SPREAD:g}"
    return ""


def in_unit(x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Divide columns by powers of two, so that squares neither overflow nor vanish; exact.

    Returns:
      The columns ``x / 2**power``, of sizes up to 1, and ``power``.
    """
    power = np.frexp(np.abs(x).max(axis=0))[1]
    return np.ldexp(x, -power), power


def is_traced(*trees: Any) -> bool:
    """Return whether any array in the trees is a tracer of JAX."""
    return any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(trees))


def on_host(x: Array) -> bool:
    """Return whether a concrete ``x`` is on the CPU, where NumPy can read it."""
    return all(device.platform == "cpu" for device in x.devices())


def as_dtype(x: Array, dtype: DTypeLike) -> Array:
    """Return ``x`` as ``dtype``; NumPy converts a concrete array on the CPU.

    JAX would compile a program for every shape.
    """
    if x.dtype == dtype:
        return x
    if isinstance(x, jax.core.Tracer) or not on_host(x):
        return x.astype(dtype)
    with np.errstate(over="ignore"):
        return jax.device_put(np.asarray(x).astype(dtype))


def as_vector(x: Array) -> Array:
    """Return one column ``(n, 1)`` as ``(n,)``, without a compiled program, as `as_dtype` does."""
    if isinstance(x, jax.core.Tracer) or not on_host(x):
        return x.reshape(x.shape[0])
    return jax.device_put(np.asarray(x).reshape(x.shape[0]))


def scalar_of(value: float, dtype: DTypeLike) -> Array:
    """Return a number as a scalar of JAX, in a quarter of the time of `jax.device_put`."""
    with jax.transfer_guard_host_to_device("allow"):  # explicit, as device_put is
        return _identity(np.asarray(value, dtype))


@jax.jit
def _identity(x: Array) -> Array:
    return x


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
