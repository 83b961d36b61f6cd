"""Scans of files, folders, datasets and queries: their columns, and what cannot be read."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset, parquet

import hgr_jax
from hgr_jax import scan
from tests.sources_support import mixed, parts_of, same


def test_a_file_of_rows_without_weight(tmp_path: Path) -> None:
    table = mixed(rows=900).assign(w=1.0)
    table.loc[300:599, "w"] = 0
    for place, part in enumerate(parts_of(table, 300, 600)):
        part.to_parquet(tmp_path / f"{place}.parquet")
    found = scan(tmp_path, weights="w", test=None)
    expected = scan(table[table["w"] > 0].drop(columns="w"), test=None)
    np.testing.assert_array_equal(found.n_obs, expected.n_obs)
    np.testing.assert_allclose(found.correlation, expected.correlation, atol=1e-6)


def test_columns_that_say_nothing(tmp_path: Path) -> None:
    pd.DataFrame({"a": np.ones(50), "b": ["same"] * 50}).to_parquet(tmp_path / "t.parquet")
    assert len(scan(tmp_path)) == 0


def test_a_part_without_any_text(tmp_path: Path) -> None:
    """Arrow has the type null for its column."""
    days = pd.date_range("2020-01-01", periods=300).strftime("%d.%m.%Y").tolist()
    table = pa.table({"x": np.arange(300.0) ** 2, "day": days})
    parquet.write_table(table, tmp_path / "a.parquet")
    parquet.write_table(table.set_column(1, "day", pa.nulls(300)), tmp_path / "b.parquet")
    found = scan(tmp_path, test=None)
    assert found["x", "day"].n_obs == 300
    np.testing.assert_allclose(found["x", "day"].correlation, 1, atol=1e-5)


def test_weights_of_a_dataset(tmp_path: Path) -> None:
    table = mixed(rows=300)
    table.to_parquet(tmp_path / "t.parquet")
    files = dataset.dataset(tmp_path)
    found = scan(files, weights=np.arange(300.0), test=None)
    expected = scan(table, weights=np.arange(300.0), test=None)
    np.testing.assert_array_equal(found.correlation, expected.correlation)


def test_a_folder_in_partitions(tmp_path: Path) -> None:
    table = mixed(rows=900)
    arrow = pa.Table.from_pandas(table.assign(part=np.arange(900) % 3), preserve_index=False)
    by = dataset.partitioning(pa.schema([("part", pa.int32())]), flavor="hive")
    dataset.write_dataset(arrow, tmp_path, format="parquet", partitioning=by)
    with pytest.raises(ValueError, match=r"'part=0'.*partitioning='hive'"):
        scan(tmp_path)
    found = scan(dataset.dataset(tmp_path, partitioning="hive"), test=None)
    assert found.names[-1] == "part"
    i, expected = slice(0, len(table.columns)), scan(table, test=None)
    np.testing.assert_allclose(found.correlation[i, i], expected.correlation, atol=1e-6)


def test_kinds_of_columns() -> None:
    rng = np.random.default_rng(8)
    n = 400
    x = rng.normal(size=n)
    days = np.datetime64("2020-01-01") + np.round(20 * x + 100).astype("m8[D]")
    table = {
        "x": x,
        "whole": np.round(3 * x).astype(np.int64),
        "flag": rng.random(n) < 1 / (1 + np.exp(-x)),
        "day": days.astype("M8[us]"),
        "span": (days - days[0]).astype("m8[ns]"),
        "single": x.astype(np.float32) ** 2,
        "code": rng.integers(0, 3, n),
        "infinite": np.where(x > 2, np.inf, x + rng.normal(size=n)),
        "constant": np.full(n, 3.5),
        "rare": np.where(x < 0, "low", "high").astype(object),
        "unique": np.array([f"id {i}" for i in range(n)]),
    }
    table["rare"][:3], table["rare"][5:8] = "once", "again"
    whole = scan(table, categories=["code"], test=None)
    exact = {name: pa.array(values) for name, values in table.items()}
    exact["cents"] = pa.array([decimal.Decimal(int(v)) / 100 for v in 100 * x])
    exact["hour"] = pa.array([datetime.time(int(v) % 24) for v in 10 + 3 * x])
    exact["list"] = pa.array([[1]] * n)
    exact["none"] = pa.nulls(n)
    exact["rare"] = exact["rare"].dictionary_encode()
    found = scan(iter([pa.table(exact)]), categories=["code"], test=None)
    common = [found.names.index(name) for name in whole.names]
    i = np.ix_(common, common)
    np.testing.assert_allclose(found.correlation[i], whole.correlation, atol=2e-5)
    assert found.skipped["list"] == "neither numbers nor text"
    assert found.skipped["none"] == "no value is present"
    for name in ("constant", "unique"):
        assert found.skipped[name] == whole.skipped[name]
    for name in ("infinite", "rare"):
        assert found.notes[name] == whole.notes[name]
    assert found["x", "cents"].correlation > 0.999
    assert found["x", "hour"].correlation > 0.9
    assert found.category("code").levels[:3] == ("0", "1", "2")


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    for place in range(2):
        mixed(place, 300).to_parquet(tmp_path / f"p{place}.parquet")
    return tmp_path


def test_files_of_other_columns(parts: Path) -> None:
    def write(table: pd.DataFrame) -> None:
        table.to_parquet(parts / "p2.parquet")

    table = mixed(2, 300)
    for other, message in (
        (table.assign(far="high"), r"p2.parquet: column 'far' holds text, and numbers"),
        (
            table.drop(columns="square"),
            r"p2.parquet has no column 'square', which .*p0.parquet has",
        ),
        (table.assign(more=1.0), r"p0.parquet has no column 'more', which .*p2.parquet has"),
        (table.assign(few=table["few"].isna()), "p2.parquet: column 'few' holds true and false"),
    ):
        write(other)
        with pytest.raises(ValueError, match=message):
            scan(parts)
    write(table.assign(few=np.nan, far=table["far"].round()))  # no value is no kind
    assert scan(parts, test=None).settings["rows"] == 900
    table.to_csv(parts / "p2.csv", index=False)
    with pytest.raises(ValueError, match="one table in several files only if all are of one kind"):
        scan(parts)


def test_files_that_break_off(parts: Path) -> None:
    whole = (parts / "p1.parquet").read_bytes()
    (parts / "p1.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"p1.parquet cannot be read"):
        scan(parts)
    damaged = bytearray(whole)
    damaged[8:2000] = bytes(1992)
    (parts / "p1.parquet").write_bytes(damaged)
    with pytest.raises(ValueError, match=r"p1.parquet cannot be read"):
        scan(parts)


def test_utf_16_that_breaks_off(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("x,y\n1,2\n3,4\n".encode("utf-16")[:-1])
    with pytest.raises(ValueError, match=r"t.csv breaks off or is damaged: it begins as UTF-16"):
        scan(tmp_path)


def test_what_is_no_source(tmp_path: Path) -> None:
    for missing in (tmp_path / "none.parquet", str(tmp_path / "*.parquet")):
        with pytest.raises(ValueError, match="no such file"):
            scan(missing)
    with pytest.raises(ValueError, match="Is a directory without a Parquet or CSV file"):
        scan(tmp_path)
    file = tmp_path / "t.parquet"
    for table, source, message in (
        (pa.table({"x": np.zeros(0)}), file, "holds no records"),
        (pa.table({"x": np.zeros(0)}), tmp_path, "has no rows"),
        (pa.table({"x": [[1], [2]]}), file, "no column holds numbers or text"),
        (pa.table({"x": [[1], [2]]}), tmp_path, "has no column of numbers or text"),
        (pa.table([[1.0], [2.0]], names=["x", "x"]), tmp_path, "two columns that are called 'x'"),
    ):
        parquet.write_table(table, file)
        with pytest.raises(ValueError, match=message):
            scan(source)


@pytest.mark.parametrize(
    "options",
    [{"given": "a"}, {"measure": "kb", "test": None}, {"order": True}, {"groups": "few"}],
    ids=str,
)
def test_options_are_those_of_a_frame(parts: Path, options: dict[str, Any]) -> None:
    table = pd.concat([mixed(place, 300) for place in range(2)], ignore_index=True)
    same(scan(parts, **options), scan(table, **options))


def test_dates_in_a_time_zone_are_no_others(tmp_path: Path) -> None:
    when = pd.date_range("2020-01-01", periods=200, freq="h")
    table = pd.DataFrame({"when": when, "x": np.random.default_rng(0).normal(size=200)})
    for place, zone in enumerate(["UTC", "Europe/Rome", None]):
        zoned = table.assign(when=when.tz_localize("UTC").tz_convert(zone) if zone else when)
        zoned.to_parquet(tmp_path / f"{place}.parquet")
        if zone:
            assert scan(tmp_path, test=None).settings["rows"] == 200 * (1 + place)
    with pytest.raises(ValueError, match=r"2.parquet: column 'when' holds dates, and dates in"):
        scan(tmp_path)


def test_columns_asked_for_that_cannot_be_used(parts: Path) -> None:
    for path in parts.iterdir():
        pd.read_parquet(path).assign(one=3.0).to_parquet(path)
    for options in ({"target": "one"}, {"categories": ["one"]}):
        name = next(iter(options))
        with pytest.raises(ValueError, match=f"{name} column 'one' cannot be used: every value"):
            scan(parts, **options)


def test_a_lazy_frame_of_categories() -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    words = ["low", None, "high", "low"] * 50
    frame = polars.DataFrame({"kind": words, "y": np.arange(200) % 4 // 2}).with_columns(
        polars.col("kind").cast(polars.Categorical)
    )
    found = scan(frame.lazy(), h=1, k=1, test=None)
    assert found["kind", "y"].n_obs == 150
    assert found["kind", "y"].correlation == pytest.approx(0.5, abs=1e-6)


def test_what_is_no_table() -> None:
    polars = pytest.importorskip("polars")
    message = r"a table was expected; got a Series, a single column: .to_frame\(\)"
    with pytest.raises(TypeError, match=message):
        scan(polars.Series([1.0, 2.0, 3.0]))


def test_a_reading_of_a_folder(parts: Path) -> None:
    found = scan(parts, reading=hgr_jax.Reading(columns=["a", "few"]), test=None)
    assert found.names == ("a", "few")
