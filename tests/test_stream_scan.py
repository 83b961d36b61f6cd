"""Scans of files, folders, datasets and queries, batch by batch."""

from __future__ import annotations

import datetime
import decimal
import importlib
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

import hgr_jax
from hgr_jax.core.host.ranks import ranks
from hgr_jax.scanning import streaming
from hgr_jax.scanning.plan import KNOTS, RankMap
from hgr_jax.scanning.state import ScanState
from hgr_jax.tables.sources import as_source
from tests.stream_support import OF_RANKS_OF_COLUMNS, mixed, near, of_batches, parts_of, same


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return mixed()


@pytest.fixture(scope="module")
def folder(table: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parts")
    for place, part in enumerate(parts_of(table, 900, 1000)):
        part.to_parquet(path / f"part-{place}.parquet")
    (path / "_SUCCESS").write_text("")
    (path / ".part-9.parquet").write_text("being written")
    return path


@pytest.fixture(scope="module")
def whole(table: pd.DataFrame) -> hgr_jax.Scan:
    return hgr_jax.scan(table)


class Stream:
    """What only has Arrow's stream of a table, as often as it is asked for."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(schema)


def sources(folder: Path, table: pd.DataFrame) -> dict[str, Any]:
    found: dict[str, Any] = {
        "folder": folder,
        "pattern": str(folder / "part-*.parquet"),
        "dataset": pyarrow.dataset.dataset(folder, exclude_invalid_files=True),
        "stream": Stream(pa.Table.from_pandas(table, preserve_index=False)),
    }
    for library in ("polars", "duckdb"):
        try:
            module = importlib.import_module(library)
        except ImportError:
            continue
        query = f"{folder}/part-*.parquet"
        scans = {"polars": "scan_parquet", "duckdb": "read_parquet"}
        found[library] = getattr(module, scans[library])(query)
    return found


@pytest.mark.parametrize("kind", ["folder", "pattern", "dataset", "stream", "polars", "duckdb"])
def test_every_source_is_scanned_as_the_table_is(
    kind: str,
    folder: Path,
    table: pd.DataFrame,
    whole: hgr_jax.Scan,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = sources(folder, table)
    if kind not in known:
        pytest.skip(f"{kind} is not installed")
    same(hgr_jax.scan(known[kind]), whole)  # a small table is scanned in memory
    of_batches(1000, monkeypatch)
    found = hgr_jax.scan(sources(folder, table)[kind])
    near(found, whole)
    ranks = found.rank_correlation, whole.rank_correlation
    np.testing.assert_allclose(*ranks, atol=OF_RANKS_OF_COLUMNS)
    assert found.settings["rows"] == found.settings["sample_rows"] == len(table)


def test_a_folder_in_partitions(tmp_path: Path, table: pd.DataFrame, whole: hgr_jax.Scan) -> None:
    arrow = pa.Table.from_pandas(table.assign(part=np.arange(len(table)) % 3), preserve_index=False)
    schema = pa.schema([("part", pa.int32())])
    by = pyarrow.dataset.partitioning(schema, flavor="hive")
    pyarrow.dataset.write_dataset(arrow, tmp_path, format="parquet", partitioning=by)
    with pytest.raises(ValueError, match=r"'part=0'.*partitioning='hive'"):
        hgr_jax.scan(tmp_path)
    found = hgr_jax.scan(pyarrow.dataset.dataset(tmp_path, partitioning="hive"))
    assert found.names[-1] == "part"
    i = slice(0, len(whole.names))
    np.testing.assert_allclose(found.correlation[i, i], whole.correlation, atol=2e-6)


def test_small_batches_and_a_sample_that_is_not_the_table(
    monkeypatch: pytest.MonkeyPatch, folder: Path, table: pd.DataFrame, whole: hgr_jax.Scan
) -> None:
    """The sample does not depend on the batches, and is of all rows alike."""
    scans = []
    for rows in (100, 777):
        of_batches(rows, monkeypatch, sample=800)
        scans.append(hgr_jax.scan(folder))
    for found in scans:
        near(found, whole)
        assert found.settings["sample_rows"] == 800
        apart = np.abs(found.spearman - whole.spearman)
        assert 1e-6 < np.nanmax(apart) < 0.01
        np.testing.assert_array_equal(found.values("square"), scans[0].values("square"))
    places = np.flatnonzero(np.isin(table["square"], scans[0].values("square")))
    assert len(places) == 800
    assert 1380 < places.mean() < 1620  # of 3,000 rows, standard error 30


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
    whole = hgr_jax.scan(table, categories=["code"], test=None)
    exact = {name: pa.array(values) for name, values in table.items()}
    exact["cents"] = pa.array([decimal.Decimal(int(v)) / 100 for v in 100 * x])
    exact["hour"] = pa.array([datetime.time(int(v) % 24) for v in 10 + 3 * x])
    exact["list"] = pa.array([[1]] * n)
    exact["none"] = pa.nulls(n)
    exact["rare"] = exact["rare"].dictionary_encode()
    found = hgr_jax.scan(Stream(pa.table(exact)), categories=["code"], test=None)
    common = [found.names.index(name) for name in whole.names]
    i = np.ix_(common, common)
    np.testing.assert_allclose(found.correlation[i], whole.correlation, atol=2e-5)
    assert found.skipped["list"] == "neither numbers nor text"
    assert found.skipped["none"] == "no value is present"
    for name in ("constant", "unique"):
        assert found.skipped[name] == whole.skipped[name]
    for name in ("infinite", "rare"):
        assert found.notes[name] == whole.notes[name]
    assert found["x", "cents"].correlation > 0.9999
    assert found["x", "hour"].correlation > 0.9
    assert found.category("code").levels[:3] == ("0", "1", "2")


def test_weights_targets_and_no_pvalues(
    tmp_path: Path, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = np.random.default_rng(9).uniform(0, 2, len(table))
    table.assign(w=w).to_parquet(tmp_path / "t.parquet")
    options: dict[str, Any] = {"h": 3, "k": 2, "test": None, "target": "kind"}
    whole = hgr_jax.scan(table, weights=w, **options)
    same(hgr_jax.scan(table.assign(w=w), weights="w", **options), whole, 1e-6)
    found = hgr_jax.scan(tmp_path, weights=w, **options)
    assert found["a", "kind"].correlation == pytest.approx(whole["a", "kind"].correlation)
    of_batches(1000, monkeypatch)
    found = hgr_jax.scan(tmp_path, weights="w", **options)
    near(found, whole)
    assert found.settings["weighted"]
    assert "w" not in found.names


def test_far_outliers_take_another_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_batches(1000, monkeypatch, sample=200)
    monkeypatch.setattr("hgr_jax.scanning.survey.EXTREMES_KEPT", 2)
    rng = np.random.default_rng(10)
    x = rng.normal(size=4000)
    x[::400] *= 60
    table = pd.DataFrame({"x": x, "y": np.abs(x) / 10 + rng.normal(size=4000)})
    table.to_parquet(tmp_path / "t.parquet")
    passes = []
    batches = type(as_source(Stream(pa.table({"x": [1.0]})))).batches
    monkeypatch.setattr(
        "hgr_jax.tables.sources.Source.batches",
        lambda *args, **options: (passes.append(1), batches(*args, **options))[1],
    )
    kb = {"measure": "kb", "test": None}
    near(hgr_jax.scan(tmp_path, **kb), hgr_jax.scan(table, **kb), 1e-5)
    assert 3 <= len(passes) <= 4  # a survey, and sums more than once


@pytest.mark.parametrize("weights", [None, "w"])
def test_standard_errors_take_another_pass(
    weights: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = mixed(3).assign(w=np.random.default_rng(1).integers(0, 3, 3000))
    table.to_parquet(tmp_path / "t.parquet")
    whole = hgr_jax.scan(table, weights=weights, errors=True, test=None, h=3, k=2)
    of_batches(700, monkeypatch)
    found = hgr_jax.scan(tmp_path, weights=weights, errors=True, test=None, h=3, k=2)
    assert np.isfinite(whole.standard_error[tuple(whole.pairs.T)]).all()
    np.testing.assert_allclose(found.standard_error, whole.standard_error, rtol=1e-4)


@pytest.mark.parametrize("by", ["pvalue", "correlation", "excess"])
def test_first_pairs_of_batches(by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = mixed(3)
    table.to_parquet(tmp_path / "t.parquet")
    of_batches(700, monkeypatch)
    top = hgr_jax.Top(4, by)
    all_pairs = hgr_jax.scan(tmp_path, h=3, k=3)
    found = hgr_jax.scan(tmp_path, h=3, k=3, top=top, target="square")
    whole = hgr_jax.scan(table, h=3, k=3, top=top, target="square")
    if by == "pvalue":  # those of batches are by ranks of fewer degrees
        asked = [pair for pair in all_pairs.top(21, by="pvalue") if "square" in (pair.a, pair.b)]
        assert max(pair.pvalue for pair in found) <= asked[3].pvalue
    else:
        assert [(pair.a, pair.b) for pair in found] == [(pair.a, pair.b) for pair in whole]
    assert found.settings["top"] == whole.settings["top"] | {
        "discoveries": found.settings["top"]["discoveries"]
    }
    for pair in found:
        other = all_pairs[pair.a, pair.b]
        assert pair.correlation == pytest.approx(other.correlation, abs=1e-6)
        assert pair.pvalue == pytest.approx(other.pvalue)
        assert pair.adjusted_pvalue >= pair.pvalue


@pytest.mark.parametrize("kind", ["asymptotic", "permutation", "of a single kernel"])
def test_every_test_of_batches(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The laws are of all rows, as in memory; permutations are of the sample, and say so."""
    table = mixed(3)[["a", "square", "skewed", "kind", "side"]]
    table.to_parquet(tmp_path / "t.parquet")
    single = kind == "of a single kernel"
    options: dict[str, Any] = {"measure": "sk"} if single else {"test": kind}
    whole = hgr_jax.scan(table, h=3, k=3, **options)
    of_batches(700, monkeypatch)
    found = hgr_jax.scan(tmp_path, h=3, k=3, **options)
    if single or kind == "permutation":
        assert {pair.pvalue_source for pair in found} == {"sampled permutation"}
        for pair in found:
            other = whole[pair.a, pair.b].pvalue
            assert (pair.pvalue == 0.001) == (other == 0.001)
            assert abs(pair.pvalue - other) < 0.1
    else:
        np.testing.assert_array_equal(found.source, whole.source)
        np.testing.assert_allclose(found.pvalue, whole.pvalue, rtol=1e-3, atol=1e-300)


def test_few_integers_are_categories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = mixed(3).assign(whole=lambda t: t["few"] * 1.0, flag=lambda t: t["few"] > 1)
    table.loc[5, "whole"] = np.nan
    table.to_parquet(tmp_path / "t.parquet")
    of_batches(700, monkeypatch, sample=1000)
    for up_to, names in ((3, {"few", "whole"}), (2, set())):
        categories = hgr_jax.Categories((), up_to)
        whole = hgr_jax.scan(table, categories=categories, h=2, k=2, test=None)
        found = hgr_jax.scan(tmp_path, categories=categories, h=2, k=2, test=None)
        near(found, whole)
        of_numbers = {name for name in names if found.category(name).levels == ("0", "1", "2")}
        assert of_numbers == names
        assert found.category("flag") is None
        if names:  # and so are the rows of the sample
            few, whole_codes = (found.category(name).codes for name in ("few", "whole"))
            assert set(few) == {0, 1, 2}
            np.testing.assert_array_equal(few[whole_codes >= 0], whole_codes[whole_codes >= 0])


@pytest.mark.parametrize("weights", [None, "w"])
def test_missing_values_are_a_level(
    weights: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = mixed(3).assign(w=np.random.default_rng(0).uniform(0.5, 1, 3000))
    table.loc[table["a"] > 1, ["few", "side"]] = None
    table.loc[:9, "kind"] = None
    table.to_parquet(tmp_path / "t.parquet")
    options: dict[str, Any] = {"weights": weights, "h": 2, "k": 2}
    options["categories"] = hgr_jax.Categories((), 3, missing="level")
    whole = hgr_jax.scan(table, **options)
    of_batches(700, monkeypatch, sample=1000)
    found = hgr_jax.scan(tmp_path, **options)
    near(found, whole)
    for name, levels in {"few": "012", "kind": ("one", "three", "two")}.items():
        levels = (*levels, "(missing)")
        assert found.category(name).levels == whole.category(name).levels == levels
    assert found.n_obs[found.names.index("few"), found.names.index("side")] == 3000
    state = ScanState.prepare(table, **options)
    state = state.update(table[:50]).merge(state.update(table[50:]))
    state.save(tmp_path / "state.npz")
    levels = ScanState.load(tmp_path / "state.npz").result().category("side").levels
    assert levels == ("left", "right", "(missing)", "(other levels)")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_an_array_of_weights(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [mixed(place, rows) for place, rows in enumerate((900, 1, 1200))]
    for place, part in enumerate(tables):
        path = tmp_path / f"{place}.{suffix}"
        part.to_csv(path, index=False) if suffix == "csv" else part.to_parquet(path)
    table = pd.concat(tables, ignore_index=True)
    weights = np.random.default_rng(0).integers(0, 4, len(table)).astype(float)
    whole = hgr_jax.scan(table, weights=weights, h=3, k=3, test=None)
    for rows in (400, 10**6):
        of_batches(rows, monkeypatch)
        found = hgr_jax.scan(tmp_path, weights=weights, h=3, k=3, test=None)
        near(found, whole)
        assert found.names == whole.names
    with pytest.raises(ValueError, match="weights must have shape"):
        hgr_jax.scan(tmp_path, weights=weights[1:])
    checkpoint = hgr_jax.Execution(checkpoint=tmp_path / "checkpoint")
    hgr_jax.scan(tmp_path, weights=weights, execution=checkpoint, test=None)
    with pytest.raises(ValueError, match="checkpoint of another scan"):
        hgr_jax.scan(tmp_path, weights=weights + 1, execution=checkpoint, test=None)


class KilledError(Exception):
    pass


@pytest.mark.parametrize("after", [1, 60, 64, 90])
def test_a_run_that_is_killed_goes_on(
    after: int, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_batches(100, monkeypatch, sample=800)
    monkeypatch.setattr(streaming, "CHECKPOINT_SECONDS", -1)
    expected = hgr_jax.scan(folder)
    source = type(as_source(Stream(pa.table({"x": [1.0]}))))
    batches, taken = source.batches, []

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        for each in batches(self, *args, **options):
            taken.append(1)
            if len(taken) == after:
                raise KilledError
            yield each

    with monkeypatch.context() as patch:
        patch.setattr(source, "batches", counted)
        with pytest.raises(KilledError):
            hgr_jax.scan(folder, execution=hgr_jax.Execution(checkpoint=tmp_path))
        del taken[:]
        taken += [1] * after
        same(hgr_jax.scan(folder, execution=hgr_jax.Execution(checkpoint=tmp_path)), expected)
        done = len(taken) - after
    # 30 of each pass (texts, levels, sums), but those whose sums were kept.
    assert done == (90 if after <= 60 else 30 + 91 - after)
    with pytest.raises(ValueError, match="checkpoint of another scan"):
        hgr_jax.scan(folder, execution=hgr_jax.Execution(checkpoint=tmp_path), h=2)


@pytest.mark.slow
def test_a_process_that_is_killed_goes_on(tmp_path: Path, folder: Path) -> None:
    program = (
        "import sys, hgr_jax\nfrom hgr_jax.scanning import passes, streaming\n"
        "passes.BATCH_ROWS, passes.MIN_BATCH_ROWS = 20, 1\n"
        "streaming.CHECKPOINT_SECONDS = -1\n"
        "passes.is_small = streaming.is_small = lambda rows: False\n"
        "execution = hgr_jax.Execution(checkpoint=sys.argv[2])\n"
        "hgr_jax.scan(sys.argv[1], execution=execution).save(sys.argv[3])\n"
    )

    def started(checkpoint: str, out: str) -> subprocess.Popen[bytes]:
        arguments = [str(folder), str(tmp_path / checkpoint), str(tmp_path / out)]
        return subprocess.Popen([sys.executable, "-c", program, *arguments])

    assert started("whole", "whole.npz").wait() == 0
    killed = started("part", "part.npz")
    state = tmp_path / "part" / streaming.STATE_CHECKPOINT
    while not state.exists():
        time.sleep(0.01)
    time.sleep(0.2)
    killed.kill()
    assert killed.wait() != 0
    assert 0 < ScanState.load(state).rows < 3000
    assert started("part", "part.npz").wait() == 0
    loaded = [hgr_jax.Scan.load(tmp_path / name) for name in ("whole.npz", "part.npz")]
    same(*loaded)


def test_a_bar_of_rows(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    of_batches(1000, monkeypatch)
    near(
        hgr_jax.scan(folder, execution=hgr_jax.Execution(progress=True), test=None),
        hgr_jax.scan(mixed(), test=None),
    )
    shown = capsys.readouterr().err
    assert "levels and a sample" in shown
    assert "sums" in shown
    assert "0/3000" in shown


def ranked(rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=rows)
    return {
        "untied": x,
        "skewed": np.exp(3 * x),
        "few values": np.round(2 * x),
        "an atom": np.where(rng.random(rows) < 0.3, 0, x),
        "rounded": np.round(x, 3),
        "with holes": np.where(rng.random(rows) < 0.2, np.nan, x),
    }


@pytest.mark.parametrize("name", list(ranked(10)))
def test_ranks_by_a_sample_are_near_and_never_fall(name: str) -> None:
    x = ranked(200_000)[name]
    sample = x[:65_536]
    to_rank = RankMap.of(sample, np.nanmin(x), np.nanmax(x))
    assert len(to_rank.values) <= 4 * KNOTS
    of_none = RankMap.of(np.full(3, np.nan), 2.0, 4.0)  # linear between the extremes
    np.testing.assert_allclose(of_none(np.array([2.0, 3.0, 4.0, np.nan])), [-1, 0, 1, np.nan])
    found, exact = to_rank(x), ranks(x[:, None])[:, 0]
    assert np.nanmax(np.abs(found - exact)) < 2 * 2 / np.sqrt(65_536)
    order = np.argsort(x)
    assert (np.diff(found[order][: np.isfinite(x).sum()]) >= 0).all()
    assert (np.isnan(found) == np.isnan(x)).all()
    assert np.nanmin(found) >= -1
    assert np.nanmax(found) <= 1
    if name == "an atom":  # a value of many rows keeps its step
        assert abs(to_rank(np.zeros(1))[0] - exact[x == 0][0]) < 0.01
