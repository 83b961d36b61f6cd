"""How much memory a scan takes, and whether it is there.

    bytes = (500 + 170 tested) N + (40, with missing values 80) n p + 110 MB

for N pairs of p columns and n rows: the pairs while they are estimated and tested (the result has
121 bytes of a pair), the columns, and the programs and buffers of all scans.  These were measured
on tables of 50 to 1,000 rows and 450 to 30,000 columns, and are right within a quarter where a scan
takes 200 MB or more; a wide table with a target may take half of that.
"""

from __future__ import annotations

import numpy as np

from hgr_jax._limits import available_memory
from hgr_jax.scanning.pairs import PairSelection
from hgr_jax.scanning.request import Request
from hgr_jax.tables.columns import Columns

PAIR, TEST = 500, 170
"""Bytes of a pair while it is estimated, and while it is tested."""

VALUE, VALUE_WITH_GAPS = 40, 80
"""Bytes of a value of the table, and of one of a table with missing values."""

BASE = 110_000_000
"""Bytes of a scan of any size."""


class TooLargeError(ValueError):
    """A scan takes more memory than there is."""


def check_size(columns: Columns, selection: PairSelection, request: Request) -> None:
    """Raise a `TooLargeError`, with advice, if a scan takes more than the available memory."""
    free, used = available_memory(), columns.used
    if free is None:
        return
    pairs, count = selection.count(used), len(columns.names)
    rows, has_gaps = columns.rows, _has_gaps(columns)
    tested = request.test is not None

    def need(width: int, pairs: int) -> int:
        return bytes_of_scan(width, pairs, rows, tested=tested, has_gaps=has_gaps)

    if request.top is not None:
        kept = min(request.top.count, pairs)
        widest = 2 * kept if selection.targets is None else kept + len(selection.targets)
        of_kept = need(min(len(used), widest), kept)
        if of_kept > free:
            raise TooLargeError(
                f"{kept:,} pairs of up to {min(len(used), widest):,} columns take"
                f" {_gigabytes(of_kept)} of memory, and {_gigabytes(free)} are available: keep"
                " fewer pairs (top=, --keep of the command)."
            )
        return
    of_all = need(count, pairs)
    if of_all <= free:
        return
    advice = "scan fewer columns (--columns or --drop of the command)"
    if selection.targets is None and need(count, len(used)) <= free:
        advice += ", or only the pairs with one of them (target=)"
    if need(2000, 1000) <= free:
        advice += ", or keep only the first pairs of all (top=1000, --keep 1000 of the command)"
    most = count
    while most > 1 and need(most, most * (most - 1) // 2) > free:
        most //= 2
    raise TooLargeError(
        f"a scan of {count:,} columns has {pairs:,} pairs, which take {_gigabytes(of_all)} of"
        f" memory, and {_gigabytes(free)} are available: {advice}; all pairs of {most:,} columns"
        " would fit."
    )


def bytes_of_scan(columns: int, pairs: int, rows: int, *, tested: bool, has_gaps: bool) -> int:
    """Estimate the bytes of memory that a scan takes, beside its table."""
    of_values = rows * columns * (VALUE_WITH_GAPS if has_gaps else VALUE)
    return (PAIR + TEST * tested) * pairs + of_values + BASE


def _has_gaps(columns: Columns) -> bool:
    """Return whether a column has a missing value."""
    numbers = np.asarray(columns.numbers)
    return bool(np.isnan(numbers.min(initial=0.0))) or any(
        (category.codes < 0).any() for category in columns.categories
    )


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"
