"""Whether the result of a scan fits in memory, before the work begins."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

MEMORY = 2**29
"""Bytes that features and their products may take, unless a caller says otherwise."""

BYTES_OF_AN_ENTRY = 105
"""Bytes that the matrices of a `Scan` take for each two columns, in either order."""

PAIR = 165
TEST = 70
"""Bytes of a pair beside them while it is estimated, and more while it is tested; as measured."""


def check_size(
    columns: int, used: int, targets: int | None, *, tested: bool, others: int | None = None
) -> None:
    """Raise for a scan whose result takes more than the memory that is available.

    Args:
      columns: of the table.
      used: those that are not skipped.
      targets: how many of them are targets; None for all pairs.
      tested: whether there are p-values.
      others: how many of those that are used are in another table, of which each is in a pair with
        all of the first; None for no such table.

    Raises:
      ValueError: with the number of pairs, what they take, and what can be done.
    """
    free = available_memory()
    pairs = _pairs_of(used, targets, others)
    need = BYTES_OF_AN_ENTRY * columns**2 + (PAIR + TEST * tested) * pairs
    if free is None or need <= free:
        return
    advice = "scan fewer columns (--columns or --drop of the command)"
    if targets is None and others is None and _bytes_of(columns, used, 1, tested=tested) <= free:
        advice += ", or only the pairs with one of them (target=)"
    if targets is None and _bytes_of(2000, 2000, None, tested=tested) <= free:
        advice += ", or keep only the first pairs of all (top=1000, --keep 1000 of the command)"
    most = columns
    while _bytes_of(most, most, None, tested=tested) > free:
        most //= 2
    raise ValueError(
        f"a scan of {columns:,} columns has {pairs:,} pairs, which take {_gigabytes(need)} of"
        f" memory, and {_gigabytes(free)} are available: {advice}; all pairs of {most:,} columns"
        " would fit."
    )


def check_size_of_first(
    most: int, used: int, targets: int | None, *, tested: bool, others: int | None = None
) -> None:
    """Raise for a scan of which only the ``most`` first pairs are kept, as `check_size` does."""
    free = available_memory()
    columns = min(used, 2 * most if targets is None else most + targets)
    pairs = min(most, _pairs_of(used, targets, others))
    need = BYTES_OF_AN_ENTRY * columns**2 + (PAIR + TEST * tested) * pairs
    if free is None or need <= free:
        return
    raise ValueError(
        f"{pairs:,} pairs of up to {columns:,} columns take {_gigabytes(need)} of memory, and"
        f" {_gigabytes(free)} are available: keep fewer pairs (top=, --keep of the command)."
    )


def available_memory() -> int | None:
    """Return the bytes that are free, at most a container's limit; None where no one tells."""
    found = []
    with contextlib.suppress(OSError):
        told = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        found += [int(told[1]) * 1024] if told else []
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):  # of a container
        with contextlib.suppress(OSError, ValueError):
            found.append(int(Path("/sys/fs/cgroup", limit).read_text()))
    if not found:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(found, default=None)


def _pairs_of(used: int, targets: int | None, others: int | None = None) -> int:
    if others is not None:
        return others * (used - others)
    if targets is None:
        return used * (used - 1) // 2
    return targets * max(used - targets, 0) + targets * (targets - 1) // 2


def _bytes_of(columns: int, used: int, targets: int | None, *, tested: bool) -> int:
    return BYTES_OF_AN_ENTRY * columns**2 + (PAIR + TEST * tested) * _pairs_of(used, targets)


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"
