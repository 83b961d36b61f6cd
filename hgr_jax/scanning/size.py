"""Refuse a scan that cannot fit in memory, before it begins."""

from __future__ import annotations

from hgr_jax._limits import available_memory
from hgr_jax.scanning.pairs import PairSelection
from hgr_jax.scanning.request import Request
from hgr_jax.tables.columns import Columns

PAIR, VALUE, BASE = 300, 40, 50_000_000
"""Bytes that a pair, a value of the table, and any scan take at least."""


class TooLargeError(ValueError):
    """A scan takes more memory than there is."""


def check_size(columns: Columns, selection: PairSelection, request: Request) -> None:
    """Raise a `TooLargeError`, with advice, if a scan takes more than the available memory."""
    free, count = available_memory(), len(columns.used)
    pairs = selection.count(columns.used)
    if request.top is not None:
        pairs = min(request.top.count, pairs)
    need = PAIR * pairs + VALUE * columns.rows * count + BASE
    if free is not None and need > free:
        raise TooLargeError(
            f"{pairs:,} pairs of {count:,} columns take {need / 1e9:,.1f} GB of memory or more, and"
            f" {free / 1e9:,.1f} GB are available: scan fewer columns (--columns or --drop of the"
            " command), or only the pairs with one of them (target=), or keep only the first pairs"
            " (top=1000, --keep 1000)."
        )
