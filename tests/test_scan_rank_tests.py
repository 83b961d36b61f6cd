"""p-values of the pairs of a scan are those of the test by ranks of each pair."""

from __future__ import annotations

import jax
import numpy as np
import pandas as pd
import pytest
from scan_support import is_the_test_of_each_pair, upper
from scipy import stats

import hgr_jax
from hgr_jax import scan
from hgr_jax.core.host import ranks as host_ranks
from hgr_jax.scanning import products, rank_tests


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", ["nowhere", "in the same rows", "in other rows"])
def test_pvalues_are_those_of_the_test_of_each_pair(
    weighted: bool, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_ranks, "LEVELS_AT_ONCE", 700)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(500, 9))
    x[:, 1] = np.sin(4 * x[:, 0]) + 0.5 * x[:, 1]
    x[:, 2] += 0.2 * x[:, 3]
    x[:, 4] = np.round(x[:, 4])
    x[:, 5] = rng.geometric(0.3, 500)
    x[:, 6] = x[:, 3] > 0.3
    x[:, 7] = rng.random(500) < 0.3
    x[:, 8] = np.round(x[:, 8], 2)
    if missing == "in the same rows":
        x[rng.random(500) < 0.1] = np.nan
    elif missing == "in other rows":
        x[rng.random(x.shape) < 0.1] = np.nan
    weights = rng.uniform(0.8, 1, 500) if weighted else None
    found = scan(x.astype(np.float32), weights=weights, test=hgr_jax.Test(permutations=19))
    assert "rank" in set(upper(found.pvalue_source))
    assert found.pvalue_source[6, 7] == ("rank" if weighted else "exact")
    assert found.pvalue[0, 1] < 1e-20
    is_the_test_of_each_pair(found, x.astype(np.float32), weights)


def test_targets_have_the_same_pvalues_in_any_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_tests, "TILE", 2)
    monkeypatch.setattr(products, "SUMMED_ROWS", 50)
    rng = np.random.default_rng(2)
    x = rng.normal(size=(120, 5)).astype(np.float32)
    x[:, 4] += x[:, 0]
    x[:, 3] = np.sin(30 * x[:, 0]) + 0.1 * x[:, 3]  # that only waves find
    x[:, 2] = np.round(x[:, 2], 1)  # and a column without
    is_the_test_of_each_pair(scan(x), x)
    is_the_test_of_each_pair(scan(x, target="x1"), x)
    is_the_test_of_each_pair(scan(x, target="x4"), x)
    weights = rng.uniform(0.8, 1, 120)
    is_the_test_of_each_pair(scan(x, target="x4", weights=weights), x, weights)


def of_many_patterns(rows: int) -> pd.DataFrame:
    """Numbers and a category, each missing where another column is large, and here and there."""
    rng = np.random.default_rng(rows)
    x = np.exp(rng.normal(size=(rows, 3)) @ rng.normal(size=(3, 6)) + rng.normal(size=(rows, 6)))
    x[:, 1] = np.round(x[:, 1])
    lost = rng.random(x.shape) < 0.1
    lost |= (np.roll(x, 1, axis=1) > np.median(x, axis=0)) & (rng.random(x.shape) < 0.8)
    level = np.array(list("abc"), object)[np.digitize(x[:, 5], np.quantile(x[:, 5], [0.3, 0.6]))]
    level[lost[:, 5]] = None
    x[lost] = np.nan
    return pd.DataFrame(x[:, :5], columns=list("vwxyz")).assign(level=level)


@pytest.mark.parametrize(("rows", "weighted"), [(400, True), (40_000, False)])
def test_ranks_are_among_the_rows_that_a_pair_shares(rows: int, weighted: bool) -> None:
    """In whole columns they are off by up to .13 here."""
    table = of_many_patterns(rows)
    weights = np.random.default_rng(0).uniform(0.5, 1, rows) if weighted else None
    found = scan(table, weights=weights, test=None)
    assert "missing values" not in found.notes
    for i, j in found.pairs:
        pair = table.iloc[:, [i, j]].dropna()
        w = None if weights is None else weights[pair.index]
        a, b = pair.iloc[:, 0].to_numpy(), pair.iloc[:, 1]
        with jax.enable_x64(True):
            expected = float(hgr_jax.hgr(a, b if j == 5 else b.to_numpy(), weights=w))
        assert found.correlation[i, j] == pytest.approx(expected, abs=0.02)  # of fewer moments
        if not weighted:
            assert found.rank_linear[i, j] == pytest.approx(linear_of_ranks(a, b), abs=2e-6)


def linear_of_ranks(a: np.ndarray, b: pd.Series) -> float:
    """|Spearman| of two numbers; the correlation ratio of the ranks of a with a category."""
    if b.name != "level":
        return float(abs(stats.spearmanr(a, b).statistic))
    rank = pd.Series(stats.rankdata(a), index=b.index)
    return float(rank.groupby(b).transform("mean").std(ddof=0) / rank.std(ddof=0))


def test_two_values_with_gaps_of_their_own_are_tested_exactly() -> None:
    rng = np.random.default_rng(5)
    x = (rng.random((61, 3)) < 0.3).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    found = scan(x)
    assert set(upper(found.pvalue_source)) == {"exact"}
    is_the_test_of_each_pair(found, x)
