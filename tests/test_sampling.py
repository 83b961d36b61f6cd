"""Scans of tables with more rows than memory takes: of a sample, and otherwise as of any table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest

import hgr_jax
from tests.sources_support import mixed, parts_of, same

ROWS = 30_000
LITTLE = hgr_jax.Execution(memory=2**20)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return mixed(rows=ROWS)


@pytest.fixture(scope="module")
def folder(table: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parts")
    for place, part in enumerate(parts_of(table, 9000, 10_000)):
        part.to_parquet(path / f"part-{place}.parquet")
    (path / "_SUCCESS").write_text("")
    (path / ".part-9.parquet").write_text("being written")
    return path


@pytest.fixture(scope="module")
def whole(table: pd.DataFrame) -> hgr_jax.Scan:
    return hgr_jax.scan(table, test=None)


@pytest.fixture(scope="module")
def sampled(table: pd.DataFrame) -> hgr_jax.Scan:
    return hgr_jax.scan(table, execution=LITTLE, test=None)


class Stream:
    """What only has Arrow's stream of a table."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(schema)


def optional(library: str) -> Any:
    return pytest.importorskip(library, reason=f"{library} is not installed")


def source(kind: str, table: pd.DataFrame, folder: Path, tmp_path: Path) -> Any:
    """The table as something that a scan reads."""
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    if kind == "csv":
        table.to_csv(tmp_path / "t.csv", index=False)
        return tmp_path / "t.csv"
    if kind == "parquet":
        table.to_parquet(tmp_path / "t.parquet", row_group_size=7000)
        return tmp_path / "t.parquet"
    if kind == "csv parts":
        for place, part in enumerate(parts_of(table, 20_000, 20_001)):
            part.to_csv(tmp_path / f"{place}.csv", index=False)
        return tmp_path
    makers = {
        "folder": lambda: folder,
        "dataset": lambda: pyarrow.dataset.dataset(folder, exclude_invalid_files=True),
        "stream": lambda: Stream(arrow),
        "batches": lambda: iter(parts_of(table, 1, 25_000)),
        "mapping": lambda: {name: table[name].to_numpy() for name in table},
        "polars": lambda: optional("polars").from_pandas(table),
        "lazy": lambda: optional("polars").scan_parquet(folder / "part-*.parquet"),
        "duckdb": lambda: optional("duckdb").read_parquet(f"{folder}/part-*.parquet"),
        "dask": lambda: optional("dask.dataframe").from_pandas(table, npartitions=7, sort=False),
    }
    return makers[kind]()


KINDS = ["csv", "csv parts", "parquet", "folder", "dataset", "stream", "batches", "mapping"]
KINDS += ["polars", "lazy", "duckdb", "dask"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_source_is_the_same_table(
    kind: str,
    table: pd.DataFrame,
    folder: Path,
    whole: hgr_jax.Scan,
    sampled: hgr_jax.Scan,
    tmp_path: Path,
) -> None:
    """However it is cut, and whoever reads it: of all rows, and of the same sample of them."""
    for expected, execution in ((whole, hgr_jax.Execution()), (sampled, LITTLE)):
        read = source(kind, table, folder, tmp_path)
        found = hgr_jax.scan(read, execution=execution, test=None)
        same(found, expected, 1e-9)
        for option in ("rows", "sample_rows"):
            assert found.settings.get(option) == expected.settings.get(option)


class TestSample:
    def test_says_how_many_rows_and_within_what_values_are(
        self, whole: hgr_jax.Scan, sampled: hgr_jax.Scan
    ) -> None:
        assert "rows" not in whole.notes
        note = "18,724 of 30,000 rows, drawn at random: values are within 0.02"
        assert sampled.notes["rows"] == note
        assert np.nanmax(np.abs(sampled.correlation - whole.correlation)) < 0.02
        assert np.nanmax(np.abs(sampled.pearson - whole.pearson)) < 0.02

    def test_counts_missing_values_of_all_rows(
        self, table: pd.DataFrame, sampled: hgr_jax.Scan, tmp_path: Path
    ) -> None:
        missing = int(table["skewed"].isna().sum())
        sampled.report(tmp_path / "page.html")
        assert f'"missing":{missing}' in (tmp_path / "page.html").read_text(encoding="utf-8")
        table = table[["square", "few"]].assign(late=np.where(table["few"] > 1, np.nan, 1))
        table["late"] *= np.arange(ROWS)
        for place, part in enumerate(parts_of(table, 100)):
            part.to_parquet(tmp_path / f"{place}.parquet")
        little = hgr_jax.scan(tmp_path, execution=LITTLE).findings()
        count = int(table["late"].isna().sum())
        assert f"late is missing in {count:,} of 30,000 rows" in " ".join(little.remarks)

    def test_counts_odd_texts_of_all_rows(self, tmp_path: Path) -> None:
        """Texts among numbers are missing values, also in the rows that were not drawn."""
        rng = np.random.default_rng(8)
        odd = rng.random(ROWS) < 0.05
        numbers = rng.normal(size=ROWS).round(4)
        cells = ["refused" if gap else f"{x}" for gap, x in zip(odd, numbers, strict=True)]
        table = pd.DataFrame({"a": cells, "b": numbers, "c": rng.normal(size=ROWS)})
        table.to_csv(tmp_path / "t.csv", index=False)
        found = hgr_jax.scan(tmp_path / "t.csv", execution=LITTLE, test=None)
        found.report(tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert f'"missing":{int(odd.sum())}' in page

    def test_takes_all_options(self, table: pd.DataFrame, folder: Path) -> None:
        """Arrays have a value for each row of the table; columns are named as ever."""
        drawn = hgr_jax.scan(folder, execution=LITTLE, test=None).values("square")
        chosen = np.flatnonzero(np.isin(table["square"], drawn))
        weights = np.random.default_rng(0).uniform(size=ROWS)
        part = table.iloc[chosen].reset_index(drop=True)
        groups, pair = np.arange(ROWS) // 50, ["a", "square"]
        cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
            ({"weights": weights, "target": "a"}, {"weights": weights[chosen], "target": "a"}),
            ({"given": "far", "target": "a"}, {"given": "far", "target": "a"}),
            ({"top": 3, "target": "a"}, {"top": 3, "target": "a"}),
            ({"groups": groups, "among": pair}, {"groups": groups[chosen], "among": pair}),
        ]
        for options, of_part in cases:
            found = hgr_jax.scan(folder, execution=LITTLE, **options)
            expected = hgr_jax.scan(part, **of_part)
            np.testing.assert_array_equal(found.correlation, expected.correlation)
            np.testing.assert_array_equal(found.pvalue, expected.pvalue)
        with pytest.raises(ValueError, match=r"weights must have shape \(30000,\); got shape \(9,"):
            hgr_jax.scan(folder, weights=np.ones(9), execution=LITTLE)


def test_rows_are_those_of_the_table(tmp_path: Path) -> None:
    """Findings and influence name the rows of the files, counted through."""
    rng = np.random.default_rng(201)
    table = pd.DataFrame(rng.normal(size=(ROWS, 7)), columns=[*"abcdefg"])
    found = hgr_jax.scan(table, execution=LITTLE, test=None)
    drawn = np.flatnonzero(np.isin(table["a"], found.values("a")))
    far = int(drawn[len(drawn) // 2])
    table.loc[far, ["a", "b"]] = 1e4
    for place, part in enumerate(parts_of(table, ROWS // 4)):
        part.to_csv(tmp_path / f"{place}.csv", index=False)
    options: dict[str, Any] = {"h": 3, "k": 3, "test": None, "execution": LITTLE}
    influence = hgr_jax.scan(tmp_path, **options).influence("a", "b")
    assert influence is not None
    assert influence.row == influence.rows[0] == far


def test_batches_are_refused_where_they_are_no_table() -> None:
    with pytest.raises(ValueError, match="the batches have no rows"):
        hgr_jax.scan(iter(()))
    with pytest.raises(TypeError, match="a batch must be a matrix"):
        hgr_jax.scan(iter(["x", "y"]))
    one, other = pd.DataFrame({"x": [1.0, 2.0]}), pd.DataFrame({"x": ["u", "v"]})
    with pytest.raises(ValueError, match="column 'x' holds text, and numbers in what was read"):
        hgr_jax.scan(iter([one, other]))
