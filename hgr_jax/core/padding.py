"""Any number of rows with few compiled programs.

XLA compiles a program for every shape.  A function called on concrete arrays therefore pads their
rows to one of few lengths and says how many of them count; under a caller's `jax.jit` (or
another transformation) nothing is padded, and the exact shape is compiled once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hgr_jax._arrays import is_traced, on_host

SMALLEST = 128
"""Up to so many rows all lengths share a program."""

STEPS = 4
"""Lengths from one power of two to the next: at most a quarter of the rows is padding."""

Result = TypeVar("Result")


def padded_length(rows: int, smallest: int = SMALLEST) -> int:
    """Return the least of the few lengths that holds so many rows."""
    if rows <= smallest:
        return smallest
    step = (1 << (rows - 1).bit_length()) // (2 * STEPS)
    return -(-rows // step) * step


def pad_rows(x: Any, length: int, *, fill: Any = None) -> Any:
    """Return a concrete ``x (n, ...)`` with ``length`` rows.

    The new ones repeat the last one, which changes neither the range nor whether all is finite,
    or hold ``fill``.
    """
    if x is None or x.shape[0] in (0, length):
        return x
    if isinstance(x, Array) and not on_host(x):
        return _padded_on_device(x, fill, length=length)
    host = np.asarray(x)
    padded = np.empty((length, *host.shape[1:]), host.dtype)
    padded[: len(host)] = host
    padded[len(host) :] = host[-1:] if fill is None else fill
    return padded


def first_rows(x: Array, rows: int) -> Array:
    """Return the first ``rows`` of a result ``(n, ...)``, without a program for each length."""
    if x.shape[0] == rows:
        return x
    return jax.device_put(np.asarray(x)[:rows]) if on_host(x) else x[:rows]


@functools.partial(jax.jit, static_argnames="length")
def _padded_on_device(x: Array, fill: Any, *, length: int) -> Array:
    extra = [(0, length - x.shape[0])] + [(0, 0)] * (x.ndim - 1)
    if fill is None:
        return jnp.pad(x, extra, mode="edge")
    return jnp.pad(x, extra, constant_values=fill)


def over_rows(
    *, columns: int, static: Sequence[str] = (), weights: int | None = None
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Compile a function of columns of data for few numbers of rows.

    The function takes a keyword ``count``: None where all rows count (inside a transformation of
    JAX), else an int32 array ``()``, and then the rows from ``count`` on must not.

    Args:
      columns: its first so many arguments are arrays ``(n, ...)``, or None.
      static: names of its keywords that are static.
      weights: which of the columns holds weights; it is padded with 0.
    """

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        inside = jax.jit(function, static_argnames=tuple(static))
        outside = jitted(function, static=static)

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Result:
            if is_traced(arguments, options):
                return inside(*arguments, count=None, **options)
            rows = arguments[0].shape[0]
            length = padded_length(rows)
            padded = [
                pad_rows(x, length, fill=0 if i == weights else None)
                for i, x in enumerate(arguments[:columns])
            ]
            return outside(*padded, *arguments[columns:], count=np.int32(rows), **options)

        return call

    return decorate


def jitted(function: Callable[..., Any], *, static: Sequence[str] = ()) -> Callable[..., Any]:
    """Return `jax.jit` of a function that is only called on concrete arrays.

    A program that XLA splits in many parts, to compile them at the same time, takes many memory
    maps, of which a process has some 65,000; ours are small and compile faster in one part.  (Such
    options are for the outermost `jax.jit` alone: see `over_rows`.)
    """
    return jax.jit(
        function, static_argnames=tuple(static), compiler_options=dict(_compiler_options())
    )


@functools.cache
def _compiler_options() -> tuple[tuple[str, Any], ...]:
    options: list[tuple[str, Any]] = [("xla_cpu_parallel_codegen_split_count", 1)]
    if jax.__version_info__ < (0, 10):
        # These releases emit a part of a program for every kernel; later ones lack the option.
        options.append(("xla_cpu_use_fusion_emitters", False))
    return tuple(options)
