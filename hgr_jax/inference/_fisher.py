"""Fisher's exact law of two variables of two values each."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from hgr_jax._arrays import Floats


def fisher_log_pvalues(rows: int, both: Any, ones: Any, others: Any) -> Floats:
    """Return logarithms of two-sided p-values of tables of 2 x 2, of counts that broadcast.

    The probability, given how often each variable is 1, that the rows where both are count as far
    from the expectation as they do, or farther.

    Args:
      rows: of all tables.
      both: rows where both variables are 1.
      ones: rows where the first is.
      others: rows where the second is.
    """
    both, ones, others = (np.asarray(each, np.int64) for each in (both, ones, others))
    # In whole numbers, as counts on either side may be equally far.
    expected = ones * others
    far = np.abs(both * rows - expected)
    above, below = -((-expected - far) // rows), (expected - far) // rows
    upper = _log_upper_tail(rows, above, ones, others)
    # As many fewer of both, as there are more of the second alone.
    lower = _log_upper_tail(rows, others - below, rows - ones, others)
    return np.minimum(np.logaddexp(upper, lower), 0)


def _log_upper_tail(rows: int, least: Any, ones: Any, others: Any) -> Floats:
    """Return log P(both >= least), for a ``least`` that is no less than expected."""
    largest = np.minimum(ones, others)
    there = least <= largest
    count = np.minimum(least, largest).astype(np.float64)
    neither = rows - ones - others + count
    log_p = (
        _log_choices(ones, count)
        + _log_choices(rows - ones, others - count)
        - _log_choices(rows, others)
    )
    total, term = np.ones(count.shape), np.ones(count.shape)
    while (term > total * 1e-17).any():
        term *= (ones - count) * (others - count) / ((count + 1) * (neither + 1))
        total += term
        count += 1
        neither += 1
    return np.where(there, log_p + np.log(total), -np.inf)


def _log_choices(n: Any, k: Any) -> Floats:
    found = special.gammaln(n + 1.0) - special.gammaln(k + 1.0) - special.gammaln(n - k + 1.0)
    return np.asarray(found)
