"""Run tasks in parallel on threads, with BLAS on one thread in each."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

Returned = TypeVar("Returned")

_THREAD_PREFIX = "hgr_jax"
"""Prefix of the names of the pool's threads."""


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
    """Return ``list(map(work, *parts))``, computed by the pool and the calling thread."""
    tasks = list(zip(*parts, strict=False))
    # A thread of the pool that waited for the pool could wait for ever.
    if threading.current_thread().name.startswith(_THREAD_PREFIX):
        return [work(*task) for task in tasks]
    x64 = jnp.result_type(float) == jnp.float64
    results: dict[int, Returned] = {}
    errors: dict[int, Exception] = {}
    waiting = deque(range(len(tasks)))

    def run_tasks() -> None:
        while waiting:
            try:
                position = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                results[position] = work(*tasks[position])
            except Exception as error:
                errors[position] = error
                waiting.clear()

    def run_in_pool() -> None:
        with jax.enable_x64(x64):  # as a context it holds for the calling thread only
            run_tasks()

    with one_blas_thread():
        # The context of the caller holds NumPy's errstate, for example.
        helpers = [
            _pool().submit(copy_context().run, run_in_pool)
            for _ in range(min(os.cpu_count() or 1, len(tasks)) - 1)
        ]
        try:
            # The caller works too: two threads that wake up at once may share a core for a while.
            run_tasks()
            for helper in helpers:
                if not helper.cancel():
                    helper.result()
        finally:
            waiting.clear()
    if errors:  # the first in order, as tasks before it started earlier
        raise errors[min(errors)]
    return [results[position] for position in range(len(tasks))]


@functools.cache
def _pool() -> ThreadPoolExecutor:
    """Return a pool that stays: new threads would allocate all their memory again."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix=_THREAD_PREFIX)


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


def _reset_after_fork() -> None:
    """Drop the pool and the lock in a forked process, which has none of the threads."""
    _pool.cache_clear()
    _blas_limit.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
