"""Values that one row makes do not lead a scan, and are told."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest

import hgr_jax
from hgr_jax import Scan

scan = functools.partial(hgr_jax.scan, measure="kb")

ROWS = 1000


def with_an_outlier() -> np.ndarray:
    """Independent columns, two of them with one row far out, and a relation of two others."""
    x = np.random.default_rng(0).standard_normal((ROWS, 6))
    x[41, 0], x[41, 1] = 12, 9
    x[:, 3] = x[:, 2] ** 2 + x[:, 3]
    x[:, 5] = x[:, 4] + 0.1 * x[:, 5]
    return x


@pytest.fixture(scope="module")
def found() -> Scan:
    return scan(dict(zip("abcdef", with_an_outlier().T, strict=True)))


def test_a_real_pair_comes_before_the_one_that_a_row_makes(found: Scan) -> None:
    by_value = found.top(1, by="correlation")[0]
    assert {by_value.a, by_value.b} in ({"a", "b"}, {"e", "f"})
    assert found.correlation[0, 1] > 0.99
    first, second, *others = found.top()
    assert (first.a, first.b) == ("c", "d")  # not monotone, and real
    assert (second.a, second.b) == ("e", "f")  # real, and monotone
    assert others[-1].rank_correlation < 0.2
    one_row = next(pair for pair in others if (pair.a, pair.b) == ("a", "b"))
    assert one_row.ranks_disagree
    assert not first.ranks_disagree
    assert not second.ranks_disagree


def test_the_row_is_named(found: Scan) -> None:
    influence = found.influence("b", "a")
    assert influence is not None
    assert influence.row == 41
    assert influence.rows[0] == 41
    fit = found.fit("a", "b")
    np.testing.assert_allclose(influence.share, fit.leverage, rtol=1e-3)
    assert influence.share > 0.9
    x = with_an_outlier()
    rest = np.arange(ROWS) != 41
    without = hgr_jax.kb(x[rest, 0], x[rest, 1])
    np.testing.assert_allclose(influence.value_without, without, atol=1e-4)
    assert influence.value_without < 0.2
    real = found.influence("e", "f")
    assert real is not None
    assert real.value_without > 0.98


def test_rows_count_in_the_table_also_where_some_are_missing_or_dropped() -> None:
    x = with_an_outlier()
    x[:10, 0] = np.nan
    weights = np.ones(ROWS)
    weights[20:30] = 0
    influence = scan(x, weights=weights, target=0).influence("x0", "x1")
    assert influence is not None
    assert influence.row == 41


def test_of_categories_of_one_kernel_and_of_nothing() -> None:
    x = with_an_outlier()
    kind = np.where(x[:, 4] > 1, "high", np.where(x[:, 4] > 0, "middle", "low"))
    table = pd.DataFrame({"x": x[:, 0], "kind": kind, "other": kind[::-1], "e": x[:, 4]})
    mixed = scan(table, measure="kb", test=hgr_jax.Test(permutations=19))
    for a, b in (("kind", "e"), ("kind", "other"), ("x", "e")):
        influence = mixed.influence(a, b)
        assert influence is not None
        correlation = mixed.correlation[mixed.names.index(a), mixed.names.index(b)]
        fit = mixed.fit(a, b)
        np.testing.assert_allclose(fit.correlation, correlation, atol=1e-4)
        np.testing.assert_allclose(influence.share, fit.leverage, rtol=5e-3)
        rest = np.arange(ROWS) != influence.row
        again = scan(table[rest], measure="kb", test=None)
        value = again.correlation[again.names.index(a), again.names.index(b)]
        np.testing.assert_allclose(influence.value_without, value, atol=1e-4)
    little = scan({"p": np.array([1.0, 2.0, np.nan, np.nan]), "q": np.array([np.nan, 1, 2, 3])})
    assert little.influence("p", "q") is None
    with pytest.raises(ValueError, match="fit is for a scan of 'hgr', 'kb'"):
        scan(x[:50], measure="pearson", test=None).influence("x0", "x1")
