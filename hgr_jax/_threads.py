"""Run tasks in parallel on threads, with BLAS on one thread in each."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

Returned = TypeVar("Returned")


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread in the block, if threadpoolctl is installed.

    Its threads wait by spinning: in each thread of the pool they would take several times as long.
    """
    with _blas_limit() or contextlib.nullcontext():
        yield


class _BlasLimit:
    """Limits BLAS to one thread in the process, until the last of overlapping blocks ends."""

    def __init__(self, libraries: Sequence[Any]) -> None:
        self.libraries, self.lock = libraries, threading.Lock()
        self.within, self.before = 0, list[int]()

    def __enter__(self) -> None:
        with self.lock:
            if self.within == 0:
                self.before = [library.num_threads for library in self.libraries]
                self._set([1] * len(self.libraries))
            self.within += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.within -= 1
            if self.within == 0:
                self._set(self.before)

    def _set(self, counts: Sequence[int]) -> None:
        for library, count in zip(self.libraries, counts, strict=True):
            release = getattr(library, "clear_controlling_thread", lambda force: None)
            release(force=True)
            library.set_num_threads(count)
            release(force=True)


def in_threads(work: Callable[..., Returned], *parts: Iterable[Any]) -> list[Returned]:
    """Return ``list(map(work, *parts))``, computed on threads; ``work`` is of NumPy alone."""
    tasks = list(zip(*parts, strict=False))
    with one_blas_thread(), ThreadPoolExecutor(os.cpu_count()) as pool:
        # The context of the caller holds NumPy's errstate.
        found = [pool.submit(copy_context().run, work, *task) for task in tasks]
        return [future.result() for future in found]


def can_limit_blas() -> bool:
    """Return whether `in_threads` can limit BLAS: whether threadpoolctl is installed."""
    return _blas_limit() is not None


@functools.cache
def _blas_limit() -> _BlasLimit | None:
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return _BlasLimit(ThreadpoolController().select(user_api="blas").lib_controllers)
