"""Two tables against each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from hgr_jax import scan

ROWS = 300


def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    a = rng.normal(size=ROWS)
    kinds = np.array(["low", "high"], object)[(a + rng.normal(size=ROWS) > 0).astype(int)]
    one = pd.DataFrame({"a": a, "b": rng.normal(size=ROWS), "kind": kinds})
    other = pd.DataFrame({"c": a**2 + 0.1 * rng.normal(size=ROWS), "d": rng.normal(size=ROWS)})
    other["few"], other["constant"] = rng.integers(0, 3, ROWS), 7
    one.loc[rng.random(ROWS) < 0.05, "a"] = np.nan
    return one, other


@pytest.mark.parametrize(
    "options", [{}, {"categories": ["few"]}, {"method": "sk", "pvalues": None}]
)
def test_pairs_are_those_of_one_table_with_the_columns_of_both(options: dict[str, Any]) -> None:
    one, other = frames()
    found = scan(one, other=other, permutations=99, **options)
    both = scan(pd.concat([one, other], axis=1), permutations=99, **options)
    assert found.names == both.names
    expected = [pair for pair in both.pairs.tolist() if pair[0] < 3 <= pair[1]]
    assert sorted(found.pairs.tolist()) == sorted(expected)
    for i, j in expected:
        for name in ("correlation", "pearson", "rank_correlation", "n_obs", "pvalue"):
            first, second = getattr(found, name)[i, j], getattr(both, name)[i, j]
            np.testing.assert_allclose(first, second, rtol=1e-5, err_msg=name)
    assert np.isnan(found.correlation[0, 1])
    assert np.isnan(found.correlation[3, 4])
    assert {found.top(1)[0].a, found.top(1)[0].b} == {"a", "c"}
    assert len(found.to_frame()) == len(expected)


def test_matrices_have_names_of_their_own() -> None:
    x = np.random.default_rng(0).normal(size=(ROWS, 5)).astype(np.float32)
    found = scan(x[:, :2], other=x[:, 2:], pvalues=None)
    assert found.names == ("x0", "x1", "y0", "y1", "y2")
    whole = scan(x, pvalues=None)
    np.testing.assert_allclose(found.correlation[:2, 2:], whole.correlation[:2, 2:], atol=1e-6)
    with_given = scan(x[:, :2], other=x[:, 2:], given="y2", pvalues=None)
    alone = scan(x, given="x4", pvalues=None)
    np.testing.assert_allclose(with_given.correlation[0, 2], alone.correlation[0, 2], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"other": np.ones((9, 2))}, "other must have the rows of the table, 300; got 9"),
        ({"other": pd.DataFrame({"a": np.ones(ROWS)})}, "'a' is in both tables: rename them"),
        ({"target": "a"}, "target and other exclude each other"),
        ({"categories": ["nothing"]}, "categories name no column of either table"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    one, other = frames()
    with pytest.raises(ValueError, match=message):
        scan(one, **{"other": other, **options})
