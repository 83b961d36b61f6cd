"""Ranks of columns with missing values and ties."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def ranks(x: NDArray[np.floating]) -> NDArray[Any]:
    """Rank the values of every column of ``x (n, p)``, in [-1, 1]; NaN stays NaN.

    Equal values have the mean of their ranks.
    """
    found = np.full(x.shape, np.nan, x.dtype)
    for column in range(x.shape[1]):
        values = x[:, column]
        present = ~np.isnan(values)
        rows = None if present.all() else np.flatnonzero(present)
        values = values if rows is None else values[rows]
        order = np.argsort(values, kind="stable" if len(values) < 2 else None)
        ordered = values[order]
        new = np.empty(len(values), bool)
        new[:1] = True
        np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
        starts = np.flatnonzero(new)
        ends = np.append(starts[1:], len(values))
        middle = (starts + ends - len(values)) / max(len(values), 1)
        rank = np.empty(len(values), x.dtype)
        rank[order] = np.repeat(middle, ends - starts) if len(starts) < len(values) else middle
        found[slice(None) if rows is None else rows, column] = rank
    return found
