"""Parts of a work side by side on threads, with BLAS on one thread in each."""

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

Found = TypeVar("Found")

_PREFIX = "hgr_jax"
"""What the names of the threads begin with."""


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Give BLAS one thread within, where threadpoolctl is there to do so.

    BLAS's own threads wait for each other, and for the next call, by spinning: beside threads of
    ours, each call on as many as there are cores, all take several times as long.
    """
    limit = _limit()
    if limit is None:
        yield
        return
    limit.enter()
    try:
        yield
    finally:
        limit.leave()


class _Limit:
    """BLAS on one thread while anybody is within.

    The number of its threads is one of the process, and threadpoolctl lets one thread change it: of
    calls that overlap the first would restore it while others compute, whose digits then differ.
    """

    def __init__(self, libraries: Sequence[Any]) -> None:
        self.libraries, self.lock = libraries, threading.Lock()
        self.within, self.before = 0, list[int]()

    def enter(self) -> None:
        with self.lock:
            if self.within == 0:
                self.before = [library.num_threads for library in self.libraries]
                self._set([1] * len(self.libraries))
            self.within += 1

    def leave(self) -> None:
        with self.lock:
            self.within -= 1
            if self.within == 0:
                self._set(self.before)

    def _set(self, counts: Sequence[int]) -> None:
        for library, count in zip(self.libraries, counts, strict=True):
            let_go = getattr(library, "clear_controlling_thread", lambda force: None)
            let_go(force=True)
            library.set_num_threads(count)
            let_go(force=True)


def in_threads(work: Callable[..., Found], *parts: Iterable[Any]) -> list[Found]:
    """Return ``work`` of each part, in their order, as ``map`` would; some by the caller itself."""
    some = list(zip(*parts, strict=False))
    # A thread of the pool that waits for the pool may wait for ever.
    if threading.current_thread().name.startswith(_PREFIX):
        return [work(*part) for part in some]
    x64 = jnp.result_type(float) == jnp.float64
    found: dict[int, Found] = {}
    errors: dict[int, Exception] = {}
    places = deque(range(len(some)))

    def take_up() -> None:
        while places:
            try:
                place = places.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                found[place] = work(*some[place])
            except Exception as error:
                errors[place] = error
                places.clear()

    def there() -> None:
        with jax.enable_x64(x64):  # which is one thread's own, where it is a context
            take_up()

    with one_blas_thread():
        # In the caller's context: of NumPy's errstate, for one.
        helpers = [
            _pool().submit(copy_context().run, there)
            for _ in range(min(os.cpu_count() or 1, len(some)) - 1)
        ]
        try:
            # Two threads that wake up at once may be put on one core, for milliseconds.
            take_up()
            for helper in helpers:
                if not helper.cancel():
                    helper.result()
        finally:
            places.clear()
    if errors:  # the first in order: those before it were taken up earlier
        raise errors[min(errors)]
    return [found[place] for place in range(len(some))]


@functools.cache
def _pool() -> ThreadPoolExecutor:
    """Return threads that stay: new ones would ask the system for all their memory again."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix=_PREFIX)


def can_limit_blas() -> bool:
    """Return whether `in_threads` gives BLAS one thread: whether threadpoolctl is there."""
    return _limit() is not None


@functools.cache
def _limit() -> _Limit | None:
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return _Limit(ThreadpoolController().select(user_api="blas").lib_controllers)


def _forget() -> None:
    """Begin anew in a forked process: it has none of the threads, and a lock may be held by one."""
    _pool.cache_clear()
    _limit.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
