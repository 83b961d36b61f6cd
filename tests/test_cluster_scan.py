"""Scans of tables of Dask and Spark, on real schedulers, workers and executors."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest

import hgr_jax
from hgr_jax import Scan, scan
from tests.stream_support import OF_RANKS_OF_COLUMNS, mixed, near, of_batches, parts_of, same

frames = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
arrays = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    found = mixed()
    found["w"] = np.random.default_rng(1).integers(0, 4, len(found))
    return found


@pytest.fixture(autouse=True)
def partitions_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    of_batches(400, monkeypatch)


@pytest.fixture(scope="module")
def whole(table: pd.DataFrame) -> Scan:
    return scan(table)


@pytest.mark.parametrize("sample", [100, 65_536])
@pytest.mark.parametrize("most_levels", [100_000, 2])
def test_partitions_change_nothing(
    table: pd.DataFrame, sample: int, most_levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Surveys of parts join to that of all, where they sample rows, or give up counting levels."""
    of_batches(400, monkeypatch, sample=sample)
    monkeypatch.setattr("hgr_jax.scanning.survey.MAX_LEVELS", most_levels)
    one, *others = (
        scan(frames.from_pandas(table, npartitions=partitions, sort=False), weights="w")
        for partitions in (1, 7, 50)
    )
    assert ("kind" in one.skipped) == (most_levels == 2)
    for found in others:
        same(found, one, 2e-6)
        for name in one.used:
            np.testing.assert_array_equal(found.values(name), one.values(name), name)


def test_double_precision_is_asked_for_where_the_rows_are(table: pd.DataFrame) -> None:
    options: dict[str, Any] = {"weights": "w", "test": None, "target": "square"}
    with jax.enable_x64(True):
        found = scan(frames.from_pandas(table, npartitions=3, sort=False), **options)
        near(found, scan(table, **options), 1e-9)


def test_few_integers_are_categories_and_standard_errors_take_another_pass(
    table: pd.DataFrame,
) -> None:
    options: dict[str, Any] = {"errors": True, "test": None, "h": 2, "k": 2, "weights": "w"}
    parts = frames.from_pandas(table, npartitions=4, sort=False)
    for up_to in (3, 2):
        options["categories"] = hgr_jax.Categories((), up_to, missing="level")
        found, whole = scan(parts, **options), scan(table, **options)
        near(found, whole)
        np.testing.assert_allclose(found.standard_error, whole.standard_error, rtol=1e-4)
        assert (found.category("few") is not None) == (up_to == 3)


def test_blocks_of_an_array(whole: Scan) -> None:
    x = np.random.default_rng(0).normal(size=(3000, 4))
    x[:, 1] += x[:, 0] ** 2
    found = scan(arrays.from_array(x, chunks=(700, 3)))
    near(found, scan(x))
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
        near(scan(frames.from_delayed(parts, meta=table.iloc[:0])), whole)

    def test_a_table_that_is_another_each_time(self, table: pd.DataFrame) -> None:
        lengths = iter((900, 900, 900, 800))  # rows, texts, a survey, sums

        def part(place: int) -> pd.DataFrame:
            return table.iloc[: next(lengths)]

        changing = frames.from_map(part, [0], meta=table.iloc[:0])
        with pytest.raises(ValueError, match="900 rows at first, and 800 when it was read again"):
            scan(changing, test=None)

    def test_options_that_need_all_rows(self, table: pd.DataFrame) -> None:
        """They are gathered where they fit, else refused; a checkpoint is the engine's."""
        parts = frames.from_pandas(table, npartitions=2, sort=False)
        same(scan(parts, given="a", test=None), scan(table, given="a", test=None))
        with pytest.raises(ValueError, match="checkpoint: a cluster's engine says"):
            scan(parts, execution=hgr_jax.Execution(checkpoint="here"))
        many = frames.from_pandas(pd.concat([table] * 20), npartitions=2, sort=False)
        with pytest.raises(ValueError, match=r"given: residuals .*takes more than memory"):
            scan(many, given="a", execution=hgr_jax.Execution(memory=2**20))


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
    expected = scan(plain)
    near(expected, whole)
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
    same(found, expected)


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
            .config("spark.sql.shuffle.partitions", "3")  # of 200 each pass starts as many tasks
            .getOrCreate()
        )
        yield session
        session.stop()


@pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of the gateway to Java
def test_a_table_of_spark(table: pd.DataFrame, whole: Scan, spark: Any, tmp_path: Path) -> None:
    for place, part in enumerate(parts_of(table, 900, 1000)):
        part.to_parquet(tmp_path / f"part-{place}.parquet")
    found = scan(spark.read.parquet(str(tmp_path)).orderBy("far").repartition(3, "side"))
    assert found.names == whole.names
    np.testing.assert_array_equal(found.n_obs, whole.n_obs)
    for name, most in (("correlation", OF_RANKS_OF_COLUMNS), ("pearson", 2e-6)):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), atol=most)


CONNECTED = """
import sys
import numpy as np
from pyspark.sql import SparkSession
import hgr_jax

session = SparkSession.builder.remote("local[2]").getOrCreate()
found = hgr_jax.scan(session.read.parquet(sys.argv[1]).repartition(3, "side"))
assert "connect" in type(session).__module__, type(session)
np.savez(sys.argv[2], found.correlation, found.pearson, found.n_obs)
"""


@pytest.mark.slow
def test_a_table_of_spark_connect(table: pd.DataFrame, whole: Scan, tmp_path: Path) -> None:
    """In a process of its own, as one has either kind of session."""
    pytest.importorskip("grpc", reason="the client of Spark Connect is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("there is no Java, which Spark needs")
    (tmp_path / "parts").mkdir()
    for place, part in enumerate(parts_of(table, 900, 1000)):
        part.to_parquet(tmp_path / "parts" / f"part-{place}.parquet")
    told = [str(tmp_path / name) for name in ("parts", "found.npz")]
    subprocess.run(
        [sys.executable, "-c", CONNECTED, *told],
        check=True,
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(Path(hgr_jax.__file__).parents[1]),
        },
    )
    with np.load(told[1]) as found:
        correlation, pearson, n_obs = found.values()
    np.testing.assert_array_equal(n_obs, whole.n_obs)
    np.testing.assert_allclose(correlation, whole.correlation, atol=OF_RANKS_OF_COLUMNS)
    np.testing.assert_allclose(pearson, whole.pearson, atol=2e-6)
