"""What is said of sources that cannot be scanned batch by batch: never a wrong number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import hgr_jax
from hgr_jax._files import locked
from hgr_jax.scanning.request import NEEDS_ROWS
from tests.stream_support import mixed, of_batches, same


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    for place in range(2):
        mixed(place, 300).to_parquet(tmp_path / f"p{place}.parquet")
    return tmp_path


def written(folder: Path, name: str, table: pd.DataFrame) -> None:
    if name.endswith("csv"):
        table.to_csv(folder / name, index=False)
    else:
        table.to_parquet(folder / name)


@pytest.mark.parametrize("name", ["p2.csv", "p2.parquet"])
def test_files_of_other_columns(parts: Path, name: str) -> None:
    table = mixed(2, 300)
    written(parts, name, table.assign(far="high"))
    with pytest.raises(ValueError, match=rf"{name}: column 'far' holds text, and numbers"):
        hgr_jax.scan(parts)
    written(parts, name, table.drop(columns="square"))
    with pytest.raises(ValueError, match=rf"{name} has no column 'square', which .*p0.parquet has"):
        hgr_jax.scan(parts)
    written(parts, name, table.assign(more=1.0))
    with pytest.raises(ValueError, match=rf"p0.parquet has no column 'more', which .*{name} has"):
        hgr_jax.scan(parts)
    written(parts, name, table.assign(few=table["few"].isna()))
    with pytest.raises(
        ValueError, match=rf"{name}: column 'few' holds true and false, and numbers"
    ):
        hgr_jax.scan(parts)
    written(parts, name, table.assign(few=np.nan, far=table["far"].round()))  # no value is no kind
    assert hgr_jax.scan(parts, test=None).settings["rows"] == 900


def test_files_that_break_off(parts: Path) -> None:
    whole = (parts / "p1.parquet").read_bytes()
    (parts / "p1.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"p1.parquet cannot be read"):
        hgr_jax.scan(parts)
    damaged = bytearray(whole)
    damaged[8:2000] = bytes(1992)
    (parts / "p1.parquet").write_bytes(damaged)
    with pytest.raises(ValueError, match=r"p1.parquet cannot be read"):
        hgr_jax.scan(parts)


def test_utf_16_that_breaks_off(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("x,y\n1,2\n3,4\n".encode("utf-16")[:-1])
    with pytest.raises(ValueError, match=r"t.csv breaks off, or holds text that is not UTF-16"):
        hgr_jax.scan(tmp_path)


def test_what_is_no_source(tmp_path: Path) -> None:
    for missing in (tmp_path / "none.parquet", str(tmp_path / "*.parquet")):
        with pytest.raises(ValueError, match="no such file"):
            hgr_jax.scan(missing)
    with pytest.raises(ValueError, match="Is a directory without a Parquet or CSV file"):
        hgr_jax.scan(tmp_path)
    file = tmp_path / "t.parquet"
    for table, source, message in (
        (pa.table({"x": np.zeros(0)}), file, "has 0 rows and 1 columns"),
        (pa.table({"x": [[1], [2]]}), file, "no column holds numbers or text"),
        (pa.table([[1.0], [2.0]], names=["x", "x"]), tmp_path, "two columns that are called 'x'"),
    ):
        pa.parquet.write_table(table, file)
        with pytest.raises(ValueError, match=message):
            hgr_jax.scan(source)


class Once:
    """A stream that has its rows the first three times: for its columns, texts, and a survey."""

    def __init__(self, table: pa.Table, *, then: pa.Table) -> None:
        self.tables = [table, table, table, then]

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        return self.tables.pop(0).__arrow_c_stream__(schema)


def test_sources_that_are_another_table_when_they_are_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_batches(100, monkeypatch)
    table = pa.Table.from_pandas(mixed(3, 300), preserve_index=False)
    with pytest.raises(TypeError, match="a RecordBatchReader can be read once"):
        hgr_jax.scan(table.to_reader())
    with pytest.raises(ValueError, match="had 300 rows at first, and 0 when it was read again"):
        hgr_jax.scan(Once(table, then=table.slice(0, 0)))
    place = table.column_names.index("square")
    fewer = pa.array([None, *table["square"].to_pylist()[1:]])
    moved = table.set_column(place, "square", fewer)
    with pytest.raises(ValueError, match="is missing in other rows than when it was first read"):
        hgr_jax.scan(Once(table, then=moved))


NEED_ROWS: dict[str, dict[str, Any]] = {
    "given": {"given": "a"},
    "kernels as h or k": {"h": hgr_jax.kernels.hats([0.0, 1.0, 2.0]), "test": None},
    "measure": {"measure": "rank_kb", "test": None},
    "order": {"order": True},
    "groups": {"groups": "few"},
}


@pytest.mark.parametrize("name", NEED_ROWS)
def test_options_that_need_all_rows(parts: Path, name: str, monkeypatch: Any) -> None:
    """The rows are gathered where they fit; else the scan is refused, with the reason."""
    of_batches(100, monkeypatch)
    table = pd.concat([mixed(place, 300) for place in range(2)], ignore_index=True)
    found = hgr_jax.scan(parts, **NEED_ROWS[name])
    whole = hgr_jax.scan(table, **NEED_ROWS[name])
    same(found, whole)
    mixed(5, 30_000).to_parquet(parts / "p2.parquet")
    little = hgr_jax.Execution(memory=2**20)
    with pytest.raises(ValueError, match=rf"{name}: {NEEDS_ROWS[name].split('(')[0]}.*takes more"):
        hgr_jax.scan(parts, execution=little, **NEED_ROWS[name])


def test_dates_in_a_time_zone_are_no_others(tmp_path: Path) -> None:
    when = pd.date_range("2020-01-01", periods=200, freq="h")
    table = pd.DataFrame({"when": when, "x": np.random.default_rng(0).normal(size=200)})
    for place, zone in enumerate(["UTC", "Europe/Rome", None]):
        zoned = table.assign(when=when.tz_localize("UTC").tz_convert(zone) if zone else when)
        zoned.to_parquet(tmp_path / f"{place}.parquet")
        if zone:
            assert hgr_jax.scan(tmp_path, test=None).settings["rows"] == 200 * (1 + place)
    with pytest.raises(ValueError, match=r"2.parquet: column 'when' holds dates, and dates in"):
        hgr_jax.scan(tmp_path)


def test_one_run_at_a_time_uses_a_checkpoint(parts: Path) -> None:
    execution = hgr_jax.Execution(checkpoint=parts / "kept")
    (parts / "kept").mkdir()
    with locked(parts / "kept"):
        message = r"another run uses the checkpoint in .*kept: wait for its end, or name another"
        with pytest.raises(ValueError, match=message):
            hgr_jax.scan(parts, test=None, execution=execution)
    for _ in range(2):
        assert hgr_jax.scan(parts, test=None, execution=execution).settings["rows"] == 600


def test_columns_asked_for_that_cannot_be_used(
    parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is known after the first pass, and said before the others."""
    for path in parts.iterdir():
        pd.read_parquet(path).assign(one=3.0).to_parquet(path)
    of_batches(100, monkeypatch)
    for options in ({"target": "one"}, {"categories": ["one"]}):
        name = next(iter(options))
        with pytest.raises(ValueError, match=f"{name} column 'one' cannot be used: every value"):
            hgr_jax.scan(parts, **options)
    sample = hgr_jax.ScanState.prepare(pd.read_parquet(parts))
    with pytest.raises(ValueError, match="target column 'one' cannot be used"):
        sample.update(pd.read_parquet(parts)).result(target="one")
