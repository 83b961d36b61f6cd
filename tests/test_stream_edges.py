"""Scans of batches at their edges: names, weights of 0, odd types, columns that say nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset, parquet

import hgr_jax
from hgr_jax import ScanState, scan
from tests.stream_support import mixed, near, of_batches, parts_of, same


def test_a_file_of_rows_without_weight(tmp_path: Path) -> None:
    table = mixed(rows=900).assign(w=1.0)
    table.loc[300:599, "w"] = 0
    for place, part in enumerate(parts_of(table, 300, 600)):
        part.to_parquet(tmp_path / f"{place}.parquet")
    found = scan(tmp_path, weights="w", test=None)
    kept = table[table["w"] > 0].drop(columns="w")
    near(found, scan(kept, test=None))
    state = ScanState.prepare(table, weights="w")
    assert state.update(table.assign(w=0.0)).rows == 900


def test_columns_that_say_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd.DataFrame({"a": np.ones(50), "b": ["same"] * 50}).to_parquet(tmp_path / "t.parquet")
    assert len(scan(tmp_path)) == 0
    of_batches(20, monkeypatch)
    with pytest.raises(ValueError, match="no column of the table can be used: 'a': "):
        scan(tmp_path)


def test_a_part_without_any_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow has the type null for its column, for which it has no functions of texts."""
    days = pd.date_range("2020-01-01", periods=300).strftime("%d.%m.%Y").tolist()
    table = pa.table({"x": np.arange(300.0) ** 2, "day": days})
    parquet.write_table(table, tmp_path / "a.parquet")
    empty = table.set_column(1, "day", pa.nulls(300))
    parquet.write_table(empty, tmp_path / "b.parquet")
    of_batches(100, monkeypatch)
    found = scan(tmp_path, test=None)
    assert found["x", "day"].n_obs == 300
    np.testing.assert_allclose(found["x", "day"].correlation, 1, atol=1e-5)


def test_equal_weights_of_a_dataset(tmp_path: Path) -> None:
    table = mixed(rows=300)
    table.to_parquet(tmp_path / "t.parquet")
    files = dataset.dataset(tmp_path)
    near(scan(files, weights=np.full(300, 2.0), test=None), scan(table, test=None))
    names = [name.upper() for name in table]
    found = scan(files, weights=np.arange(300.0), names=names, test=None)
    expected = scan(table, weights=np.arange(300.0), test=None)
    np.testing.assert_allclose(found.correlation, expected.correlation, atol=2e-6)


def test_two_columns_of_one_name() -> None:
    column = pa.array(np.arange(9.0))
    table = pa.table([column, column, column], names=["a", "b", "b"])
    for each in (table, table.to_pandas()):
        with pytest.raises(ValueError, match="two columns that are called 'b': rename one of them"):
            ScanState.prepare(each)


def test_another_precision_is_another_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_batches(100, monkeypatch)
    (tmp_path / "parts").mkdir()
    mixed(rows=600).to_parquet(tmp_path / "parts" / "t.parquet")
    checkpoint = tmp_path / "checkpoint"
    scan(tmp_path / "parts", test=None, execution=hgr_jax.Execution(checkpoint=checkpoint))
    with jax.enable_x64(True):
        with pytest.raises(ValueError, match="its products are of float32"):
            ScanState.load(checkpoint / "state.npz")
        with pytest.raises(ValueError, match=r"products are of float32|checkpoint of another scan"):
            scan(
                tmp_path / "parts",
                test=None,
                execution=hgr_jax.Execution(checkpoint=checkpoint),
            )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "nothing"}, "target 'nothing' is not a column"),
        ({"weights": "nothing"}, "'nothing' is no column"),
        ({"weights": "kind"}, "'kind' is text"),
        ({"categories": ["none"]}, "name no column"),
    ],
)
def test_options_are_refused_before_the_rows_are_read(
    options: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed(rows=100).to_parquet(tmp_path / "t.parquet")
    of_batches(50, monkeypatch)
    monkeypatch.setattr("hgr_jax.scanning.streaming.BatchExecutor.total", None)  # no pass begins
    with pytest.raises(ValueError, match=message):
        scan(tmp_path, **options)


def test_what_is_no_table() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(
        TypeError, match=r"a table was expected; got a Series, a single column: .to_frame\(\)"
    ):
        scan(polars.Series([1.0, 2.0, 3.0]))


def test_a_query_begins_its_sums_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows may come in another order the next time."""
    of_batches(100, monkeypatch)

    class Shuffled:
        def __init__(self, table: pd.DataFrame) -> None:
            self.table, self.reads = table, 0

        def __arrow_c_stream__(self, schema: Any = None) -> Any:
            self.reads += 1
            some = self.table.sample(frac=1, random_state=self.reads)
            return pa.Table.from_pandas(some, preserve_index=False).__arrow_c_stream__(schema)

    table = mixed(rows=600)
    checkpoint = tmp_path / "checkpoint"
    first = scan(Shuffled(table), test=None, execution=hgr_jax.Execution(checkpoint=checkpoint))
    again = scan(Shuffled(table), test=None, execution=hgr_jax.Execution(checkpoint=checkpoint))
    same(first, again, 2e-6)


def test_columns_with_the_same_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said as in memory, whatever the batches."""
    rng = np.random.default_rng(2)
    x = np.where(rng.random(500) < 0.1, np.nan, rng.integers(0, 9, 500).astype(float))
    kind = np.array(["low", "high", "even"], object)[rng.integers(0, 3, 500)]
    near = x.copy()
    near[300] = 10.0
    table = pd.DataFrame(
        {
            "x": x,
            "kind": kind,
            "near": near,
            "again": x,
            "kind too": pd.Categorical(kind, ["even", "low", "high"]),
            "moved": np.roll(x, 1),
        }
    )
    whole = scan(table, test=None).notes
    assert whole == {"again": "a linear function of 'x'", "kind too": "one-to-one with 'kind'"}
    arrow = pa.Table.from_pandas(table)
    for rows in (64, 1000):
        of_batches(rows, monkeypatch)
        notes = dict(scan(dataset.dataset(arrow), test=None).notes)
        assert "of 11 pairs are approximate" in notes.pop("missing values")
        assert notes == whole


def test_integers_that_lose_digits_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.arange(200)
    ids, large = 2**53 + rows, np.uint64(2**63) + 4096 * rows.astype(np.uint64)
    table = pa.table({"id": ids, "large": large, "y": rows % 7, "far": 1e300 * rows})
    parquet.write_table(table, tmp_path / "t.parquet")
    whole = scan(tmp_path, h=1, k=1, test=None).notes
    note = "integers beyond 2^53 lose digits as float64, in 100 rows, for example 9007199254740993"
    assert note in whole["id"]
    of_batches(100, monkeypatch)
    assert scan(tmp_path, h=1, k=1, test=None).notes == whole


def test_a_lazy_frame_of_categories() -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    words = ["low", None, "high", "low"] * 50
    frame = polars.DataFrame({"kind": words, "y": np.arange(200) % 4 // 2}).with_columns(
        polars.col("kind").cast(polars.Categorical)
    )
    found = scan(frame.lazy(), h=1, k=1, test=None)
    assert found["kind", "y"].n_obs == 150
    assert found["kind", "y"].correlation == pytest.approx(0.5, abs=1e-6)
