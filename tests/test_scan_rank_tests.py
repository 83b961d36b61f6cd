"""p-values of the pairs of a scan are those of the test by ranks of each pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scan_support import is_the_test_of_each_pair, upper
from scipy import stats

import hgr_jax
from hgr_jax import scan
from hgr_jax.core.host import ranks as host_ranks
from hgr_jax.core.host.ranks import RankedColumn
from hgr_jax.inference.independence import combined, cross_moments, log_probability, top_values
from hgr_jax.scanning import rank_tests, sums


def test_values_that_are_missing_by_the_other_column_are_permuted() -> None:
    """Present where the other column is low, and in a few rows elsewhere, which decide."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (4000, 3)).astype(np.float32)
    x[(x[:, 0] > -0.8) & (rng.random(4000) > 0.002), 1] = np.nan
    x[rng.random(4000) < 0.5, 2] = np.nan
    found = scan(x, h=3, k=3, test=hgr_jax.Test(permutations=19))
    # By ranks among each column's own rows, those are not trusted.
    assert found.pvalue_source[0, 1] == "permutation"
    assert found.pvalue_source[0, 2] == found.pvalue_source[1, 2] == "rank"


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_pvalues_are_those_of_the_test_of_each_pair(
    weighted: bool, missing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of columns that are present in the same rows."""
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
    x[rng.random(500) < missing] = np.nan
    weights = rng.uniform(0.8, 1, 500) if weighted else None
    found = scan(x.astype(np.float32), weights=weights, test=hgr_jax.Test(permutations=19))
    assert "rank" in set(upper(found.pvalue_source))
    assert found.pvalue_source[6, 7] == ("rank" if weighted else "exact")
    assert found.pvalue[0, 1] < 1e-20
    is_the_test_of_each_pair(found, x.astype(np.float32), weights)


def test_targets_have_the_same_pvalues_in_any_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_tests, "TILE", 2)
    monkeypatch.setattr(sums, "TILE_ROWS", 50)
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


def test_ranks_among_the_own_rows_of_columns() -> None:
    """Of columns that are missing here and there: nearly those among the rows of each pair."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2000, 6))
    x[:, 1] = x[:, 0] ** 2 + 3 * x[:, 1]
    x[:, 2] += 0.1 * x[:, 3]
    x[:, 4] = np.round(2 * x[:, 4])
    x[rng.random(x.shape) < 0.02] = np.nan
    table = x.astype(np.float32)
    found = scan(table)
    assert set(upper(found.pvalue_source)) == {"rank"}
    for i, j in found.pairs:
        keep = ~np.isnan(x[:, i] + x[:, j])
        f, g = (RankedColumn.of_values(x[keep, c]) for c in (i, j))
        degrees = np.minimum([[f.reliable], [g.reliable]], 8)
        m = cross_moments(f.functions()[: degrees[0, 0]], g.functions()[: degrees[1, 0], None])
        log_p = combined(top_values(m), keep.sum(), degrees).log_p
        expected = log_probability(log_p, keep.sum() * f.effective_share * g.effective_share)[0]
        # Which functions of a rare level are left out may differ.
        near = 0.3 if 4 in (i, j) else 0.1
        assert np.log(found.pvalue[i, j]) == pytest.approx(expected, rel=0.1, abs=near)


@pytest.mark.parametrize("options", [{}, {"h": 2, "k": 7}, {"target": "x1"}])
def test_estimates_are_those_of_each_pair(options: dict[str, Any]) -> None:
    """HGR of ranks: with ties, constants, and columns of the same gaps, of any measure."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(300, 8))
    x[:, 1] += x[:, 0] ** 2
    x[:, 2] = np.round(x[:, 2])
    x[:, 3] = x[:, 3] > 2  # too few for the law, not for a value
    x[:, 4] = 7
    x[rng.random(300) < 0.2, 5:7] = np.nan
    x[rng.random(300) < 0.2, 7] = np.nan
    found = scan(x, test=hgr_jax.Test(permutations=19), **options)
    for i, j in found.pairs:
        keep = ~np.isnan(x[:, i] + x[:, j])
        a, b = x[keep, i], x[keep, j]
        one_pattern = np.array_equal(np.isnan(x[:, i]), np.isnan(x[:, j]))
        near = {"abs": 2e-3 if one_pattern else 0.02}
        assert found.rank_correlation[i, j] == pytest.approx(float(hgr_jax.hgr(a, b)), **near)
        spearman = abs(stats.spearmanr(a, b).statistic)
        assert found.spearman[i, j] == pytest.approx(spearman, abs=1e-5 if one_pattern else 0.02)


def test_two_values_with_gaps_of_their_own_are_tested_exactly() -> None:
    rng = np.random.default_rng(5)
    x = (rng.random((61, 3)) < 0.3).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    found = scan(x)
    assert set(upper(found.pvalue_source)) == {"exact"}
    is_the_test_of_each_pair(found, x)
