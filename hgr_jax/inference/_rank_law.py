"""The law of the combined p-value of blocks of ranks without ties, from a table of simulations.

How often P is at most a level depends on the number of rows alone.  Where the table ends, the
logarithm of the probability goes on as a line in that of the level.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import special

from hgr_jax._arrays import Floats

LEVELS = np.array(
    [
        *(0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 3e-3, 1e-3),
        *(3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 3e-7),
    ]
)
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


def log_probability(log_p: Floats, rows: npt.ArrayLike) -> Floats:
    """Return the logarithm of the probability of a combined p-value as small, ``log_p (N,)``.

    Args:
      log_p: of as many rows as ``rows``, at the least 20; it may be -inf.
      rows: real, a number or ``(N,)``.
    """
    reciprocals, logs = _table()
    rows = np.asarray(rows, np.float64)
    law = np.stack([np.interp(1 / rows, reciprocals, column) for column in logs.T])
    levels = np.log(LEVELS)
    # Between two levels a line; above the largest the line to P = 1.
    known = np.clip(log_p, levels[-1], levels[0])
    i = np.clip(np.searchsorted(-levels, -known, side="right"), 1, len(levels) - 1)
    at = law[:, None] if law.ndim == 1 else law
    each = np.zeros(1, np.intp) if law.ndim == 1 else np.arange(law.shape[1])
    low, high = at[i - 1, each], at[i, each]
    found = low + (high - low) * (known - levels[i - 1]) / (levels[i] - levels[i - 1])
    far = levels[TAIL] - levels[TAIL].mean()
    slope = np.minimum(np.tensordot(far, law[TAIL], 1) / np.sum(far**2), 1)
    with np.errstate(invalid="ignore"):
        found = np.where(log_p < levels[-1], law[-1] + slope * (log_p - levels[-1]), found)
    found = np.where(log_p > levels[0], np.clip(log_p / levels[0], 0, 1) * law[0], found)
    # No order of the ranks is rarer than this.
    return np.maximum(found, -special.gammaln(rows + 1))
