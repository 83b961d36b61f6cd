"""The state of a scan: sums of parts are those of the whole, in whatever order."""

from __future__ import annotations

import functools
import itertools
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import hgr_jax
from hgr_jax import ScanState
from tests.scan_support import agrees
from tests.stream_support import OF_RANKS_OF_COLUMNS, mixed, near, parts_of, same


def summed(empty: ScanState, parts: list[Any]) -> ScanState:
    return functools.reduce(ScanState.update, parts, empty)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return mixed()


@pytest.fixture(scope="module")
def empty(table: pd.DataFrame) -> ScanState:
    return ScanState.prepare(table.iloc[:1200])


def test_every_value_is_that_of_the_reference(table: pd.DataFrame) -> None:
    small = table.iloc[:400]
    state = ScanState.prepare(small, h=3, k=2)
    found = summed(state, parts_of(small, 11, 250)).result()
    assert found.settings["sample_rows"] == len(small)
    agrees(found)


@pytest.mark.parametrize(("x64", "seed", "tolerance"), [(False, 0, 2e-6), (True, 0, 1e-9)])
def test_values_are_those_of_the_table_in_memory(x64: bool, seed: int, tolerance: float) -> None:
    table = mixed(seed)
    with jax.enable_x64(x64):
        empty = ScanState.prepare(table.iloc[:1200])
        found = summed(empty, parts_of(table, 1, 1500, 2900)).result()
        near(found, hgr_jax.scan(table), tolerance)
    assert found.settings["rows"] == len(table)


def test_batches_add_up_in_any_order_and_grouping(table: pd.DataFrame, empty: ScanState) -> None:
    parts = parts_of(table, 500, 1100, 1800, 2500)
    each = [empty.update(part) for part in parts]
    whole = summed(empty, parts)
    for order in itertools.islice(itertools.permutations(range(5)), 0, 120, 17):
        one, two, three, four, five = (each[i] for i in order)
        tree = one.merge(two.merge(three)).merge(four.merge(five))
        for tile, sums in whole.parts[1].values.items():
            other = tree.parts[1].values[tile]
            pairs = zip((sums.cross, *sums.own), (other.cross, *other.own), strict=True)
            for first, second in pairs:
                np.testing.assert_allclose(first, second, rtol=1e-12, atol=1e-12 * len(table))
        same(tree.result(), whole.result(), 1e-11)
    with pytest.raises(TypeError, match="other must be a ScanState; got int"):
        one.merge(3)  # type: ignore[arg-type]
    assert one.merge(empty) is one
    assert empty.merge(one) is one


@pytest.mark.parametrize("ends", [(1500,), (100, 300, 1000, 1001, 2000)])
def test_other_batches_differ_by_rounding(
    table: pd.DataFrame, empty: ScanState, ends: tuple[int, ...]
) -> None:
    one, other = (summed(empty, parts_of(table, *e)).result() for e in ((), ends))
    same(one, other, 2e-6)


def test_weights(table: pd.DataFrame) -> None:
    rng = np.random.default_rng(2)
    w = np.where(rng.random(len(table)) < 0.1, 0, rng.uniform(0.5, 2, len(table)))
    state = ScanState.prepare(table.assign(w=w).iloc[:1200], weights="w")
    found = summed(state, parts_of(table.assign(w=w), 900, 2000)).result()
    whole = hgr_jax.scan(table, weights=w)
    near(found, whole)
    agree = found.source == whole.source  # laws with weights need no permutations here
    assert agree[:3, :3].all()
    small = table.iloc[:300].assign(w=w[:300])
    of_sample = ScanState.prepare(small, measure="kb", weights="w").update(small).result()
    agrees(of_sample, of_sample._weights, 1e-4)


def test_single_kernel_and_targets(table: pd.DataFrame) -> None:
    state = ScanState.prepare(table.iloc[:1200], h=2, k=4, measure="sk", test=None)
    found = summed(state, parts_of(table, 1000)).result(target=["kind", 1])
    near(found, hgr_jax.scan(table, h=2, k=4, measure="sk", test=None, target=["kind", 1]))
    assert len(found.pairs) == 11
    assert np.isnan(found.rank_correlation[0, 1])


def test_values_far_beyond_the_sample_are_repaired(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    table = {"x": rng.normal(size=4000), "y": rng.normal(size=4000)}
    table["x"][2000::40] *= 30
    table["y"] += np.abs(table["x"]) / 10
    part = {name: values[:1000] for name, values in table.items()}
    state = ScanState.prepare(part, measure="kb", test=None).update(table)
    assert not state.well_conditioned
    again = state.repaired()
    assert again.rows == 0
    assert again.well_conditioned
    again = again.update(table)
    assert again.well_conditioned
    near(again.result(), hgr_jax.scan(table, measure="kb", test=None), 1e-5)
    again.save(tmp_path / "state.npz")
    same(ScanState.load(tmp_path / "state.npz").result(), again.result())
    # Without, it has no wrong value but none.
    found = state.result()
    assert np.isnan(found.correlation[0, 1])
    assert "ill conditioned" in found.notes["x"]


def test_pairs_on_other_rows_than_their_columns_have_a_remark() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=4000)
    table = {"x": x, "y": np.where(np.abs(x) < 0.05, rng.normal(size=4000), np.nan)}
    found = ScanState.prepare(table, measure="kb", test=None).update(table).result()
    assert np.isnan(found.correlation[0, 1])
    assert "beside y it has other values than elsewhere" in found.notes["x"]
    assert np.isfinite(hgr_jax.scan(table, measure="kb", test=None).correlation[0, 1])


def test_texts_that_the_sample_does_not_have() -> None:
    rng = np.random.default_rng(5)
    kind = rng.choice(np.array(["a", "b", "c"], object), 900)
    x = rng.normal(size=900) + 0.2 * (kind == "c")
    table = {"x": x, "kind": kind}
    sample = {name: values[kind != "c"] for name, values in table.items()}
    found = ScanState.prepare(sample, test=None).update(table).result()
    near(found, hgr_jax.scan(table, test=None))
    count = (kind == "c").sum()
    assert found.notes["kind"].startswith(f"{count} rows have texts that the sample does not have")


def test_ranks_and_pvalues_are_those_of_the_table_where_the_sample_is_all_of_it() -> None:
    rng = np.random.default_rng(6)
    table = mixed(6, 1500).assign(rarely=(rng.random(1500) < 0.004).astype(float))
    for name in table.columns:
        table.loc[rng.random(len(table)) < 0.02, name] = None  # a pattern for each
    found = ScanState.prepare(table).update(table.iloc[:800]).update(table.iloc[800:]).result()
    whole = hgr_jax.scan(table)
    for name in ("rank_correlation", "spearman"):
        values = getattr(found, name), getattr(whole, name)
        np.testing.assert_allclose(*values, atol=OF_RANKS_OF_COLUMNS)
    by_law = np.isin(whole.pvalue_source, ("rank", "asymptotic"))
    assert by_law.sum() >= 30
    assert (found.pvalue_source[by_law] == whole.pvalue_source[by_law]).all()
    logs = [np.log(np.maximum(each.pvalue[by_law], 1e-300)) for each in (found, whole)]
    # Batches are ranked among the rows of each column, a table among those of each pair.
    np.testing.assert_allclose(*logs, rtol=0.05, atol=1)
    other = whole.pvalue_source == "permutation"
    assert other.any()
    # Tables of counts are the same; the law of other ranks is by permutation of a sample.
    assert set(found.pvalue_source[other]) == {"permutation", "sampled permutation"}
    assert np.abs(found.pvalue[other] - whole.pvalue[other]).max() < 0.05


def test_what_is_fitted_and_drawn_is_of_the_sample(table: pd.DataFrame, empty: ScanState) -> None:
    found = empty.update(table).result()
    assert found.values("a").shape == (1200,)
    fit = found.fit("a", "square")
    assert abs(float(fit.correlation) - found["a", "square"].correlation) < 0.03


def test_a_state_is_kept_without_pickle(
    tmp_path: Path, table: pd.DataFrame, empty: ScanState
) -> None:
    one, other = (empty.update(part) for part in parts_of(table, 1700))
    for name, state in (("one", one), ("empty", empty)):
        state.save(tmp_path / f"{name}.npz")
    loaded = ScanState.load(tmp_path / "one.npz")
    assert loaded.rows == one.rows
    same(loaded.merge(other).result(), one.merge(other).result())
    again = ScanState.load(tmp_path / "empty.npz").update(table.iloc[:1700])
    same(again.result(), one.result())
    found = loaded.result()
    found.save(tmp_path / "scan.npz")
    same(hgr_jax.Scan.load(tmp_path / "scan.npz"), found)


def test_damaged_files(tmp_path: Path, table: pd.DataFrame, empty: ScanState) -> None:
    path = tmp_path / "state.npz"
    empty.update(table).save(path)
    whole = path.read_bytes()
    with np.load(path) as kept:
        arrays = {name: kept[name] for name in kept.files}
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="is not a saved state of a scan, or is damaged"):
        ScanState.load(path)
    for change, message in (
        ({"sums.rows": np.zeros((1, 1))}, "rows has shape"),
        ({"values:numbers:cross": arrays["values:numbers:cross"] * np.nan}, "no finite numbers"),
        ({"about": np.array(json.dumps({"format": 99}))}, "damaged"),
        ({"center": np.array([None, {}], object)}, "damaged"),
    ):
        np.savez(path, **{**arrays, **change})
        with pytest.raises(ValueError, match=message):
            ScanState.load(path)
    with pytest.raises(FileNotFoundError):
        ScanState.load(tmp_path / "none.npz")


def test_states_of_another_sample_do_not_merge(table: pd.DataFrame, empty: ScanState) -> None:
    other = ScanState.prepare(table.iloc[:1100])
    with pytest.raises(ValueError, match="same prepare"):
        empty.update(table).merge(other.update(table))


def test_batches_of_every_kind(table: pd.DataFrame, empty: ScanState) -> None:
    expected = empty.update(table).result()
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    columns = {name: table[name].to_numpy() for name in table}
    for batch in (
        arrow,
        arrow.combine_chunks().to_batches()[0],
        columns,
        table.set_axis(np.arange(len(table)) + 7),
        table[table.columns[::-1]],
    ):
        same(empty.update(batch).result(), expected)
    x = table[["a", "square"]].to_numpy()
    of_matrix = ScanState.prepare(x, test=None)
    assert of_matrix.columns == {"x0": "numbers", "x1": "numbers"}
    near(of_matrix.update(x).result(), hgr_jax.scan(x, test=None))
    near(of_matrix.update(x.astype(np.float32)).result(), hgr_jax.scan(x, test=None), 1e-5)
    assert empty.update(table.iloc[:0]) is empty
    assert repr(of_matrix.update(x)) == "ScanState(3,000 rows, 2 columns)"


def test_faults(table: pd.DataFrame, empty: ScanState) -> None:
    with pytest.raises(ValueError, match="update it first"):
        empty.result()
    with pytest.raises(ValueError, match="day 3 has no column 'far', which others have"):
        empty.update(table.drop(columns="far"), name="day 3")
    with pytest.raises(ValueError, match="column 'far' holds text, and numbers in what was read"):
        empty.update(table.assign(far="low"))
    with pytest.raises(TypeError, match="a batch must be a matrix"):
        empty.update("table")
    with pytest.raises(ValueError, match="sample must have rows"):
        ScanState.prepare(table.iloc[:0])
    with pytest.raises(ValueError, match="'skewed' of weights has missing values"):
        ScanState.prepare(table, weights="skewed").update(table)


def test_negative_weights(table: pd.DataFrame) -> None:
    w = np.ones(len(table))
    state = ScanState.prepare(table.assign(w=w), weights="w")
    w[7] = -2
    with pytest.raises(ValueError, match="part 9: weights must not be negative; got -2 in column"):
        state.update(table.assign(w=w), name="part 9")
