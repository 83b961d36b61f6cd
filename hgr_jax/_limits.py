"""Limits: of degrees and p-values, without loading JAX, and of the machine."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

MAX_DEGREE = 50
"""Largest degree in a scan and in the command line."""

SMALLEST_OF_TAIL = 1e-8
"""Smallest p-value by a tail beyond permutations, signs or shifts.  Where the law is known, tails
that are fitted to draws are within a factor of some 10 down to it, and of 1,000 at 1e-12."""


def available_memory() -> int | None:
    """Return the bytes of free memory, at most a container's limit; None if unknown."""
    limits = []
    with contextlib.suppress(OSError):
        free = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        limits += [int(free[1]) * 1024] if free else []
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):  # of a container
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(Path("/sys/fs/cgroup", limit).read_text()))
    if not limits:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(limits, default=None)
