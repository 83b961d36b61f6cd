"""Tables for scans that read batch by batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from hgr_jax import Scan
from hgr_jax.scanning import passes, streaming, survey

ROWS = 3000


def mixed(seed: int = 0, rows: int = ROWS, *, holes: bool = True) -> pd.DataFrame:
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
    if holes:
        for name in ("a", "skewed", "kind", "far"):
            table.loc[rng.random(rows) < 0.05, name] = None
    return table


def of_batches(rows: int, monkeypatch: pytest.MonkeyPatch, sample: int | None = None) -> None:
    """Read so many rows at a time, however few there are, and keep a sample of so many."""
    monkeypatch.setattr(passes, "BATCH_ROWS", rows)
    monkeypatch.setattr(passes, "MIN_BATCH_ROWS", 1)
    for module in (passes, streaming):
        monkeypatch.setattr(module, "is_small", lambda rows: False)
    if sample is not None:
        monkeypatch.setattr(survey, "SAMPLE_ROWS", sample)


def same(one: Scan, other: Scan, tolerance: float = 0) -> None:
    """All matrices of two scans are the same."""
    assert (one.names, one.skipped, one.notes) == (other.names, other.skipped, other.notes)
    for name in ("n_obs", "degrees", "source", "pairs"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
    for name in ("correlation", "pearson", "rank_correlation", "spearman", "pvalue", "null_95"):
        first, second = getattr(one, name), getattr(other, name)
        np.testing.assert_allclose(first, second, atol=tolerance, rtol=0, err_msg=name)


OF_SAMPLED_RANKS = 0.03
"""Largest difference of HGR of ranks that are those of a sample."""


OF_RANKS_OF_COLUMNS = 5e-3
"""Largest difference of HGR of columns with other missing rows, ranked among their own rows."""


def near(found: Scan, whole: Scan, tolerance: float = 2e-6) -> None:
    """Values of a scan of batches are those of a scan of the whole table in memory."""
    rows = found.settings["rows"]
    is_sampled = (found.settings.get("sample_rows") or rows) < rows
    of_ranks = OF_SAMPLED_RANKS if is_sampled else tolerance
    if "missing values" in found.notes:
        of_ranks = max(of_ranks, OF_RANKS_OF_COLUMNS)
    of_hgr = found.settings["measure"] == "hgr"
    assert found.names == whole.names
    np.testing.assert_array_equal(found.n_obs, whole.n_obs)
    np.testing.assert_array_equal(found.degrees, whole.degrees)
    for name in ("correlation", "pearson", "corrected", "null_mean", "null_95"):
        first, second = getattr(found, name), getattr(whole, name)
        near = of_ranks if of_hgr and name != "pearson" else tolerance
        np.testing.assert_allclose(first, second, atol=near, rtol=0, err_msg=name)


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
    near = OF_RANKS_OF_COLUMNS if "missing values" in found.notes else 1e-6
    np.testing.assert_allclose(found.correlation, expected.correlation, atol=near)
    np.testing.assert_allclose(found.pearson, expected.pearson, atol=1e-6)
