"""Scans of tables of Dask and Spark, on real schedulers, workers and executors."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hgr_jax
from hgr_jax import Scan, scan
from tests.sources_support import mixed, parts_of, same

frames = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
arrays = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    found = mixed()
    found["w"] = np.random.default_rng(1).integers(0, 4, len(found))
    return found


@pytest.fixture(scope="module")
def whole(table: pd.DataFrame) -> Scan:
    return scan(table)


def test_blocks_of_an_array() -> None:
    x = np.random.default_rng(0).normal(size=(3000, 4))
    x[:, 1] += x[:, 0] ** 2
    found = scan(arrays.from_array(x, chunks=(700, 3)))
    same(found, scan(x), 1e-9)
    with pytest.raises(TypeError, match=r"must be a matrix \(n, p\) of numbers; got shape \(9,\)"):
        scan(arrays.ones(9))


class TestFaults:
    def test_a_column_of_two_kinds(self) -> None:
        parts = [pd.DataFrame({"a": [1.0, 2.0]}), pd.DataFrame({"a": ["x", "y"]})]

        def part(place: int) -> pd.DataFrame:
            return parts[place]

        table = frames.from_map(part, [0, 1], meta=parts[0], enforce_metadata=False)
        with pytest.raises(
            ValueError, match="part 1 of the Dask data frame: column 'a' holds text"
        ):
            scan(table)

    def test_no_rows(self, table: pd.DataFrame) -> None:
        with pytest.raises(ValueError, match="the Dask data frame has no rows"):
            scan(frames.from_pandas(table.iloc[:0], npartitions=1))

    def test_empty_parts_are_none(self, table: pd.DataFrame, whole: Scan) -> None:
        delayed = pytest.importorskip("dask").delayed
        parts = [delayed(part) for part in parts_of(table, 0, 800, 800)]
        same(scan(frames.from_delayed(parts, meta=table.iloc[:0])), whole)

    def test_a_table_that_is_another_each_time(self, table: pd.DataFrame) -> None:
        lengths = iter((900, 800))

        def part(place: int) -> pd.DataFrame:
            return table.iloc[: next(lengths)]

        changing = frames.from_map(part, [0], meta=table.iloc[:0])
        with pytest.raises(ValueError, match="900 rows at first, and 800 when it was read again"):
            scan(changing, test=None)


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as workers,
        distributed.Client(workers),
    ):
        yield


def test_a_worker_that_is_killed_changes_nothing(
    table: pd.DataFrame, whole: Scan, cluster: None, tmp_path: Path
) -> None:
    plain = frames.from_pandas(table, npartitions=7, sort=False)
    flag = str(tmp_path / "died")

    def die_once(part: pd.DataFrame) -> pd.DataFrame:
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return part
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    found = scan(plain.map_partitions(die_once, meta=table.iloc[:0]))
    assert Path(flag).exists()
    same(found, whole)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("there is no Java, which Spark needs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", str(Path(hgr_jax.__file__).parents[1]))
        session = (
            sql.SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "3")
            .getOrCreate()
        )
        yield session
        session.stop()


@pytest.mark.slow  # the workers of Dask have the same path
@pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of the gateway to Java
def test_a_table_of_spark(table: pd.DataFrame, whole: Scan, spark: Any, tmp_path: Path) -> None:
    for place, part in enumerate(parts_of(table, 900, 1000)):
        part.to_parquet(tmp_path / f"part-{place}.parquet")
    frame = spark.read.parquet(str(tmp_path)).orderBy("far").repartition(3, "side")
    found = scan(frame)
    assert found.names == whole.names
    np.testing.assert_array_equal(found.n_obs, whole.n_obs)
    for name in ("correlation", "pearson"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), atol=1e-6)
