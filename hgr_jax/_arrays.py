"""Helpers for arrays that may be traced or concrete, on the host or on a device."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Integers = NDArray[np.intp]


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
