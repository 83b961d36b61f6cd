"""Roy's law at many values, interpolated between some."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hgr_jax.inference.roys_root.distribution import log_survival
from hgr_jax.inference.roys_root.interpolation import MANY, log_survival_of_many


@pytest.mark.parametrize(
    ("n", "p", "q", "error"),
    [(20, 1, 1, 1e-6), (1000, 3, 3, 1e-6), (10**6, 16, 2, 1e-6), (10**6, 16, 16, 2e-5)],
)
def test_many_values_are_interpolated(n: int, p: int, q: int, error: float) -> None:
    """Of one law and of several at once, from 0 to a dependence without noise."""
    rng = np.random.default_rng(0)
    bulk = np.abs(rng.normal(size=2 * MANY)) * (math.sqrt(p) + math.sqrt(q)) / math.sqrt(n)
    c = np.concatenate([np.minimum(bulk, 0.999), rng.uniform(0, 1, MANY), [0, 1e-200, 1, np.nan]])
    expected, found = log_survival(c, n, p, q), log_survival_of_many(c, n, p, q)
    np.testing.assert_allclose(found, expected, rtol=error, atol=error)
    assert not np.array_equal(found, expected, equal_nan=True)
    rows = np.where(np.arange(len(c)) % 3, n, 50)
    of_two = log_survival_of_many(c, rows, p, q)
    np.testing.assert_allclose(of_two, log_survival(c, rows, p, q), rtol=error, atol=error)
    few = log_survival_of_many(c[:9].reshape(3, 3), rows[:9].reshape(3, 3), p, q)
    np.testing.assert_array_equal(few, log_survival(c[:9], rows[:9], p, q).reshape(3, 3))


def test_many_values_where_there_is_one_or_nothing_to_correlate() -> None:
    c = np.full(MANY, 0.3)
    for n, p, q in ((100, 2, 3), (5, 3, 3), (100, 0, 3)):
        np.testing.assert_allclose(log_survival_of_many(c, n, p, q), log_survival(0.3, n, p, q))
