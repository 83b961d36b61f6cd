"""Ranks of columns with missing values and ties."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._threads import in_threads

IN_THREADS = 2**18
"""Of so many numbers or more, columns are sorted by several threads."""


def ranks(x: NDArray[np.floating]) -> NDArray[Any]:
    """Rank the values of every column of ``x (n, p)``, in [-1, 1]; NaN stays NaN.

    Equal values have the mean of their ranks.  Columns of the result are contiguous.
    """
    columns = np.ascontiguousarray(x.T)
    found = np.empty_like(columns)

    def rank(column: int) -> None:
        found[column] = _ranks_of_one(columns[column])

    if x.size < IN_THREADS:
        for column in range(len(columns)):
            rank(column)
    else:
        in_threads(rank, range(len(columns)))
    return found.T


def _ranks_of_one(x: NDArray[np.floating]) -> NDArray[Any]:
    present = ~np.isnan(x)
    rows = None if present.all() else np.flatnonzero(present)
    values = x if rows is None else x[rows]
    order = np.argsort(values, kind="stable" if len(values) < 2 else None)
    ordered = values[order]
    new = ordered[1:] != ordered[:-1]
    count = len(values)
    if new.all():
        rank = np.arange(1 - count, count, 2) / max(count, 1)
    else:
        starts = np.concatenate([[0], 1 + np.flatnonzero(new)])
        ends = np.append(starts[1:], count)
        rank = np.repeat((starts + ends - count) / count, ends - starts)
    found = np.full(x.shape, np.nan, x.dtype)
    found[order if rows is None else rows[order]] = rank
    return found
