"""Parts of a work side by side on threads, with BLAS on one thread in each."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

Found = TypeVar("Found")

_PREFIX = "hgr_jax"
"""What the names of the threads begin with."""

_LIMITING = threading.Lock()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Give BLAS one thread within, where threadpoolctl is there to do so.

    BLAS's own threads wait for each other, and for the next call, by spinning: beside threads of
    ours, each call on as many as there are cores, all take several times as long.  Their number is
    one of the process: who comes while another has changed it leaves it alone, so that it is
    restored as it was.
    """
    blas = _blas()
    if blas is None or not _LIMITING.acquire(blocking=False):
        yield
        return
    try:
        with blas.limit(limits=1):
            yield
    finally:
        _LIMITING.release()


def in_threads(work: Callable[..., Found], *parts: Iterable[Any]) -> list[Found]:
    """Return ``work`` of each part, in their order, as ``map`` would."""
    if threading.current_thread().name.startswith(
        _PREFIX
    ):  # waiting for itself, it would never end
        return list(map(work, *parts))
    x64 = jnp.result_type(float) == jnp.float64

    def there(*part: Any) -> Found:
        with jax.enable_x64(x64):  # which is one thread's own, where it is a context
            return work(*part)

    with one_blas_thread():
        # In the caller's context: of NumPy's errstate, for one.
        waiting = [
            _pool().submit(copy_context().run, there, *part) for part in zip(*parts, strict=False)
        ]
        try:
            return [part.result() for part in waiting]
        finally:
            for part in waiting:
                part.cancel()


@functools.cache
def _pool() -> ThreadPoolExecutor:
    """Return threads that stay: new ones would ask the system for all their memory again."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix=_PREFIX)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of the threads


def can_limit_blas() -> bool:
    """Return whether `in_threads` gives BLAS one thread: whether threadpoolctl is there."""
    return _blas() is not None


@functools.cache
def _blas() -> Any:
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController().select(user_api="blas")
