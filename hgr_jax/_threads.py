"""Parts of a work side by side on threads, with BLAS on one thread in each."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

Found = TypeVar("Found")

_LIMITING = threading.Lock()


def in_threads(work: Callable[..., Found], *parts: Iterable[Any]) -> list[Found]:
    """Return ``work`` of each part, in their order, as ``map`` would."""
    x64 = jnp.result_type(float) == jnp.float64

    def there(*part: Any) -> Found:
        with jax.enable_x64(x64):  # which is one thread's own, where it is a context
            return work(*part)

    with _one_blas_thread(), ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(there, *parts))


@contextlib.contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Give BLAS one thread within, where threadpoolctl is there to do so.

    BLAS's own threads wait for each other by spinning: several calls at once, each on as many
    threads as there are cores, take several times as long.  Their number is one of the process:
    who comes while another has changed it leaves it alone, so that it is restored as it was.
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
