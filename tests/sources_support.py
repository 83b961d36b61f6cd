"""Tables for scans of files, queries and clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hgr_jax import Scan

ROWS = 3000


def mixed(seed: int = 0, rows: int = ROWS) -> pd.DataFrame:
    """Numbers, one of them far from 0 and one skewed, and categories, with holes of their own."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=rows)
    kinds = np.array(["one", "two", "three"], object)
    table = pd.DataFrame(
        {
            "a": a,
            "square": a**2 + rng.normal(size=rows),
            "skewed": rng.lognormal(size=rows),
            "few": rng.integers(0, 3, rows),
            "kind": kinds[(a > 0).astype(int) + rng.integers(0, 2, rows)],
            "far": 1e6 + 10 * a + rng.normal(size=rows),
            "side": np.array(["left", "right"], object)[(rng.random(rows) < 0.3).astype(int)],
        }
    )
    for name in ("a", "skewed", "kind", "far"):
        table.loc[rng.random(rows) < 0.05, name] = None
    return table


def same(one: Scan, other: Scan, tolerance: float = 0) -> None:
    """All that two scans say is the same."""
    assert (one.names, one.skipped, one.notes) == (other.names, other.skipped, other.notes)
    for name in ("n_obs", "degrees", "pvalue_source", "pairs"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
    for name in ("correlation", "pearson", "rank_correlation", "spearman", "pvalue", "null_95"):
        first, second = getattr(one, name), getattr(other, name)
        np.testing.assert_allclose(first, second, atol=tolerance, rtol=0, err_msg=name)


def parts_of(table: Any, *ends: int) -> list[Any]:
    """The rows of a frame between some positions."""
    return [table.iloc[i:j] for i, j in zip([0, *ends], [*ends, len(table)], strict=True)]


def same_meaning(found: Scan, expected: Scan) -> None:
    """Columns hold the same, notes say the same, and values agree, whoever read the table."""
    assert found.names == expected.names
    assert found.skipped == expected.skipped
    of_columns = [
        {name: note for name, note in scan.notes.items() if name in scan.names}
        for scan in (found, expected)
    ]
    assert of_columns[0] == of_columns[1]  # notes on files are of files only
    for column in expected.used:
        one, other = found.category(column), expected.category(column)
        assert (one and one.levels) == (other and other.levels)
    np.testing.assert_array_equal(found.n_obs, expected.n_obs)
    np.testing.assert_allclose(found.correlation, expected.correlation, atol=1e-6)
    np.testing.assert_allclose(found.pearson, expected.pearson, atol=1e-6)
