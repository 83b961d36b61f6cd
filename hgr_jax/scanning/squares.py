"""Squares of pairs: the tasks of a scan, computed here or by an executor.

A square holds the pairs of two parts of the columns.  Squares do not depend on who computes them,
and so neither do results.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np

from hgr_jax._arrays import Integers, groups
from hgr_jax._threads import one_blas_thread

WAITING = 32
"""Largest number of tasks that an executor has at a time."""

SquareTask = Callable[[], Any]
"""Computes a square; can be pickled."""


def squares_of(pairs: Integers, side: int) -> list[Integers]:
    """Return the places of ``pairs (N, 2)`` of columns in each square of ``side`` columns."""
    used, local = np.unique(pairs, return_inverse=True)
    parts = np.sort(local.reshape(-1, 2) // side, axis=1)
    count = 1 + len(used) // side
    return [places for _, places in groups(parts[:, 0] * count + parts[:, 1])]


def spread(executor: Executor | None, tasks: Iterable[SquareTask]) -> Iterator[Any]:
    """Yield the results of tasks, in their order."""
    if executor is None:
        yield from (task() for task in tasks)
        return
    jax = sys.modules.get("jax")
    x64 = jax is not None and jax.config.jax_enable_x64
    waiting: collections.deque[Future[Any]] = collections.deque()
    try:
        for task in tasks:
            waiting.append(executor.submit(_run_square, task, x64))
            if len(waiting) >= WAITING:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


@one_blas_thread()
def _run_square(task: SquareTask, x64: bool) -> Any:
    """Run a task where the executor has its workers, with the precision of the caller."""
    if not x64:
        return task()
    import jax  # measures that are functions of two vectors need it

    with jax.enable_x64(True):
        return task()
