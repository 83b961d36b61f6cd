"""Pairs of which the sums of a stream say too little: read again, and fitted on their own rows."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

import hgr_jax
from hgr_jax import ScanState, kb
from hgr_jax.scanning import batches as in_batches
from tests.stream_support import of_batches, same

scan = functools.partial(hgr_jax.scan, measure="kb")

ROWS = 6000


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    of_batches(2000, monkeypatch)
    return


def of_two_kinds() -> pd.DataFrame:
    """Rows of small values beside rows of far ones, where ``y`` and ``side`` are missing."""
    rng = np.random.default_rng(0)
    small = rng.random(ROWS) < 0.05
    x = np.where(small, rng.normal(size=ROWS) * 1e-3, 1e4 * (1 + rng.random(ROWS)))
    y = np.where(small, (x * 1e3) ** 2 + 0.3 * rng.normal(size=ROWS), np.nan)
    side = np.where(x > 0, "right", "left").astype(object)
    side[~small] = None
    weight = rng.uniform(0.5, 2, ROWS)
    return pd.DataFrame({"side": side, "x": x, "y": y, "z": rng.normal(size=ROWS), "w": weight})


@pytest.mark.parametrize("weights", [None, "w"])
def test_rows_of_another_kind(tmp_path: Path, weights: str | None) -> None:
    table = of_two_kinds()
    table.loc[:9, "w"] = 0
    table = table if weights else table.drop(columns="w")
    table.to_parquet(tmp_path / "t.parquet")
    found = scan(tmp_path, h=4, k=3, weights=weights)
    there = table["y"].notna()
    one_hot = (table.loc[there, "side"] == "right").to_numpy(float)
    x, y = (table.loc[there, name].to_numpy() for name in "xy")
    w = table.loc[there, "w"].to_numpy() if weights else None
    with jax.enable_x64(True):
        assert found["x", "y"].correlation == pytest.approx(float(kb(x, y, h=4, k=3, weights=w)))
        value = float(kb(one_hot, x, h=1, k=3, weights=w))
    assert found["side", "x"].correlation == pytest.approx(value)
    assert found["x", "y"].pvalue == found["side", "x"].pvalue == 0.001
    assert found["x", "y"].pvalue_source == "sampled permutation"
    assert found["x", "y"].n_obs == int(
        (there & (table["w"] > 0)).sum() if weights else there.sum()
    )
    assert not {"x", "y", "side"} & set(found.notes)
    by_itself = ScanState.prepare(table, h=4, k=3, weights=weights).update(table).result()
    assert np.isnan(by_itself.correlation[1, [0, 2]]).all()
    assert "scan these two in memory" in by_itself.notes["x"]


def test_no_more_pairs_than_memory_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = of_two_kinds().drop(columns="w")
    table.to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(in_batches, "EXTRA_VALUES_PER_ROW", 10**6)
    found = scan(tmp_path, test=None)
    assert np.isnan(found.correlation[1, [0, 2]]).all()
    assert np.isfinite(found["x", "z"].correlation)
    assert found.notes["x"].count("ill conditioned: no value") == 2


def test_pairs_of_fewest_rows_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory is for one of two pairs, it is that of fewer rows."""
    table = of_two_kinds().drop(columns=["w", "z"])
    there = np.flatnonzero(table["side"].notna())
    table.loc[there[:200], "side"] = None
    table.to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(in_batches, "EXTRA_VALUES_PER_ROW", 700)
    found = scan(tmp_path, test=None, execution=hgr_jax.Execution(memory=2**20))
    assert np.isfinite(found.correlation[0, 1])
    assert np.isnan(found.correlation[1, 2])


def test_of_a_cluster(tmp_path: Path) -> None:
    """As of a file, of however many partitions: the rows of such pairs travel."""
    frames = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
    table = of_two_kinds()
    table.to_parquet(tmp_path / "t.parquet")
    expected = scan(tmp_path, weights="w", h=4, k=3)
    for partitions in (1, 5):
        found = scan(frames.from_pandas(table, npartitions=partitions), weights="w", h=4, k=3)
        same(found, expected, 2e-6)


@pytest.mark.parametrize("unknown", [1e6, 999_999_999.0, None])
def test_values_that_far_ones_hide(tmp_path: Path, unknown: float | None) -> None:
    """A number for what is unknown, or values close together: float32 has too few digits."""
    rng = np.random.default_rng(0)
    x, noise, z = rng.normal(size=(3, ROWS))
    y = x**2 + 0.5 * noise
    if unknown is None:
        y = np.sin(2 * (1e6 + x)) + 0.1 * noise
        x = np.where(rng.random(ROWS) < 0.5, 1e6 + x, 0.1 * z)
    else:
        x[:5] = unknown
    table = pd.DataFrame({"x": x, "y": y, "z": z})
    table.to_parquet(tmp_path / "t.parquet")
    with jax.enable_x64(True):
        expected = float(kb(x, y, h=4, k=4))
    for source in (table, tmp_path):
        found = hgr_jax.scan(source, h=4, k=4, test=None)
        assert found["x", "y"].correlation == pytest.approx(expected, abs=1e-4)
        assert not found.notes
    state = ScanState.prepare(table, h=4, k=4, test=None).update(table)
    by_itself = state.repaired().update(table).result()
    assert set(by_itself.notes) == {"x"}
    assert "ill conditioned" in by_itself.notes["x"]
    assert "pairs without a value take files" in by_itself.notes["x"]
    assert np.isnan(by_itself.correlation[0, 1:]).all()
    assert np.isfinite(by_itself.correlation[1, 2])
