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
import pyarrow as pa
import pytest

import hgr_jax
from hgr_jax import Scan, scan
from hgr_jax.scanning import survey as surveys
from hgr_jax.scanning.survey import Survey
from hgr_jax.tables.arrow_columns import as_arrow, decoded, kind_of
from tests.stream_support import mixed, near, of_batches, parts_of, same

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


def survey_of(table: pd.DataFrame, first: int = 0) -> Survey:
    arrow = as_arrow(table)
    kinds = {field.name: kind_of(field.type) or "" for field in arrow.schema}
    survey = Survey(kinds, categories=["few"], weights="w", first=first)
    for batch in arrow.to_batches(400):
        survey.update(decoded(pa.Table.from_batches([batch]), kinds, "here"), "here")
    return survey


@pytest.mark.parametrize("sample", [100, 10_000])
@pytest.mark.parametrize("most_texts", [100_000, 2])
def test_surveys_of_parts_join_to_that_of_all(
    table: pd.DataFrame, sample: int, most_texts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveys, "SAMPLE_ROWS", sample)
    monkeypatch.setattr(surveys, "MAX_LEVELS", most_texts)
    expected = survey_of(table)
    ends = (0, 10, 1000, 1001, 2500)
    parts = [survey_of(p, first) for p, first in zip(parts_of(table, *ends[1:]), ends, strict=True)]
    left = parts[0].joined(parts[1]).joined(parts[2]).joined(parts[3].joined(parts[4]))
    right = parts[0].joined(parts[1].joined(parts[2].joined(parts[3].joined(parts[4]))))
    for found in (left, right):
        assert (found.rows, found.counted) == (expected.rows, expected.counted)
        assert found.infinite == expected.infinite
        np.testing.assert_allclose(found.weights, expected.weights)
        used = [
            place for place, n in enumerate(expected.kinds) if expected.levels.get(n, 0) is not None
        ]
        both = np.ix_(used, used)
        np.testing.assert_array_equal(found.shared[both], expected.shared[both])
        for name, levels in expected.levels.items():
            joined = found.levels[name]
            assert (joined is None) == (levels is None)
            if levels is not None and joined is not None:
                assert list(joined.place) == list(levels.place)
                np.testing.assert_array_equal(joined.counts, levels.counts)
        for name, values in expected.sample().items():
            if expected.levels.get(name, 0) is not None:
                np.testing.assert_array_equal(found.sample()[name], values)
        for name in expected.lowest:
            np.testing.assert_array_equal(found.lowest[name], expected.lowest[name])
            np.testing.assert_array_equal(found.highest[name], expected.highest[name])


@pytest.mark.parametrize("partitions", [1, 7, 50])
def test_partitions_change_nothing(table: pd.DataFrame, whole: Scan, partitions: int) -> None:
    found = scan(frames.from_pandas(table, npartitions=partitions, sort=False))
    near(found, whole)
    same(found, scan(frames.from_pandas(table, npartitions=2, sort=False)), 2e-6)


def test_double_precision_is_asked_for_where_the_rows_are(table: pd.DataFrame) -> None:
    with jax.enable_x64(True):
        expected = scan(table, weights=table["w"].to_numpy(), test=None)
        of_dask = frames.from_pandas(table, npartitions=3, sort=False)
        found = scan(of_dask, weights="w", test=None, categories=["few"], target="square")
    place = expected.names.index("square")
    for name in ("a", "skewed", "far", "kind"):
        other = expected.names.index(name)
        column = found.names.index(name), found.names.index("square")
        assert found.correlation[column] == pytest.approx(
            expected.correlation[other, place], abs=1e-9
        )
    assert "few" in [found.names[i] for i in np.unique(found.pairs)]


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

    def test_few_integers_are_categories(self, table: pd.DataFrame) -> None:
        for up_to in (3, 2):
            categories = hgr_jax.Categories((), up_to)
            parts = frames.from_pandas(table, npartitions=4, sort=False)
            found = scan(parts, categories=categories, test=None, h=2, k=2)
            near(found, scan(table, categories=categories, test=None, h=2, k=2))
            assert (found.category("few") is not None) == (up_to == 3)

    def test_standard_errors(self, table: pd.DataFrame) -> None:
        parts = frames.from_pandas(table, npartitions=4, sort=False)
        found = scan(parts, errors=True, test=None, h=2, k=2, weights="w")
        whole = scan(table, errors=True, test=None, h=2, k=2, weights="w")
        np.testing.assert_allclose(found.standard_error, whole.standard_error, rtol=1e-4)

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


@pytest.mark.parametrize("partitions", [1, 3, 7])
def test_a_small_table_is_that_of_memory(
    table: pd.DataFrame, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hgr_jax.scanning.passes.is_small", surveys.is_small)
    same(scan(frames.from_pandas(table, npartitions=partitions, sort=False)), scan(table))


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
    for name in ("correlation", "pearson"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), atol=2e-6)


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
    np.testing.assert_allclose(correlation, whole.correlation, atol=2e-6)
    np.testing.assert_allclose(pearson, whole.pearson, atol=2e-6)
