"""The law of the combined p-value of blocks of ranks without ties, from a table of simulations.

How often P is at most a level depends on the number of rows alone.  Where the table ends, the
logarithm of the probability goes on as a line in that of the level.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path

import numpy as np

from hgr_jax._arrays import Floats

LEVELS = np.array([0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5])
"""Of the table, whose last line is of so many rows that the cross moments are Gaussian."""

TABLE = Path(__file__).with_name("_rank_law.csv")
"""Written by ``python -m bench.rank_law --write``."""

LEAST_ROWS = 20
"""Of the table."""

TAIL = slice(-5, None)
"""The levels by which the law goes on beyond the least."""


@functools.cache
def _table() -> tuple[Floats, Floats]:
    """Return reciprocals of the numbers of rows, rising, and log probabilities of the levels."""
    table = np.loadtxt(TABLE, delimiter=",", skiprows=1)[::-1]
    return 1 / table[:, 0], np.log(table[:, 1:])


@functools.lru_cache(maxsize=4096)
def _law(rows: float) -> Floats:
    reciprocals, logs = _table()
    return np.array([np.interp(1 / rows, reciprocals, column) for column in logs.T])


def log_probability(log_p: Floats, rows: float) -> Floats:
    """Return the logarithm of the probability of a combined p-value as small, ``log_p (N,)``.

    Args:
      log_p: of as many rows as ``rows``, at the least 20; it may be -inf.
      rows: real.
    """
    law, levels = _law(round(rows, 1)), np.log(LEVELS)
    inside = np.interp(log_p, levels[::-1], law[::-1])
    slope = min(1.0, float(np.polyfit(levels[TAIL], law[TAIL], 1)[0]))
    beyond = law[-1] + slope * (log_p - levels[-1])
    # Above the largest level the line to P = 1.
    share = np.clip(log_p / levels[0], 0, 1)
    found = np.where(log_p < levels[-1], beyond, inside)
    found = np.where(log_p > levels[0], share * law[0], found)
    # No order of the ranks is rarer than this.
    return np.maximum(found, -math.lgamma(rows + 1))
