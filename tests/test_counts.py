"""Tables of counts: rows that occurred several times give what these rows give one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hgr_jax
from hgr_jax import scan
from hgr_jax._checks import as_repeats
from hgr_jax.cli.main import main


def full_and_counted() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(1101)
    steps = rng.integers(0, 5, 420)
    mood = np.clip(steps // 2 + rng.integers(-1, 3, 420), 0, 4)
    rain = np.where(rng.random(420) < 0.3 + 0.08 * steps, "wet", "dry")
    full = pd.DataFrame({"steps": steps, "mood": mood, "rain": rain})
    counted = full.value_counts().reset_index()
    order = as_repeats(counted["count"], len(counted))
    expanded = counted.iloc[order].drop(columns="count")
    return expanded.reset_index(drop=True), counted


def is_the_same(one: Any, other: Any) -> None:
    assert one.names == other.names
    assert one.settings["rows"] == other.settings["rows"] == 420
    for name in ("correlation", "pvalue", "n_obs", "rank_correlation", "null_95"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)


@pytest.mark.parametrize("options", [{}, {"h": 2, "k": 2}, {"given": "mood"}])
def test_counts_are_repeated_rows(options: dict[str, Any]) -> None:
    full, counted = full_and_counted()
    found = scan(counted, counts="count", **options)
    is_the_same(found, scan(full, **options))
    as_array = scan(counted.drop(columns="count"), counts=counted["count"], **options)
    is_the_same(as_array, found)


@pytest.mark.parametrize("library", ["polars", "pyarrow", "mapping", "csv", "parquet"])
def test_tables_of_all_kinds(library: str, tmp_path: Path) -> None:
    full, counted = full_and_counted()
    table: Any = {
        "polars": lambda: pl.from_pandas(counted),
        "pyarrow": lambda: pa.Table.from_pandas(counted),
        "mapping": lambda: {name: counted[name].to_numpy() for name in counted},
        "csv": lambda: tmp_path / "t.csv",
        "parquet": lambda: tmp_path / "t.parquet",
    }[library]()
    counted.to_csv(tmp_path / "t.csv", index=False)
    counted.to_parquet(tmp_path / "t.parquet", index=False)
    is_the_same(scan(table, counts="count"), scan(full))


def test_matrices_weights_and_dropped_rows() -> None:
    rng = np.random.default_rng(0)
    x, counts, weights = rng.normal(size=(90, 3)), rng.integers(0, 4, 90), rng.uniform(1, 2, 90)
    order = as_repeats(counts, 90)
    np.testing.assert_array_equal(np.bincount(order, minlength=90), counts)
    found = scan(x, counts=counts, weights=weights)
    again = scan(x[order], weights=weights[order])
    np.testing.assert_array_equal(found.pvalue, again.pvalue)
    named = scan(np.column_stack([x, counts]), counts="n", names=["a", "b", "c", "n"])
    np.testing.assert_array_equal(named.pvalue, scan(x[order]).pvalue)
    assert named.names == ("a", "b", "c")


def test_pairs() -> None:
    full, counted = full_and_counted()
    a, b, counts = counted["steps"], counted["mood"], counted["count"]
    whole = full["steps"], full["mood"]
    assert hgr_jax.independence_test(a, b, counts=counts) == hgr_jax.independence_test(*whole)
    assert hgr_jax.hgr(a, b, counts=counts) == hgr_jax.hgr(*whole)
    of_text = hgr_jax.hgr(counted["rain"], b, counts=counts)
    assert of_text == hgr_jax.hgr(full["rain"], full["mood"])
    fit, again = hgr_jax.hgr_fit(a, b, counts=counts), hgr_jax.hgr_fit(*whole)
    assert fit.interval() == again.interval()
    given = hgr_jax.independence_test(a, b, counts=counts, given=np.sqrt(a))
    assert given == hgr_jax.independence_test(*whole, given=np.sqrt(full["steps"]))


def test_parts_that_are_held_out_are_no_copies_of_each_other() -> None:
    """All correlations tie, so that functions of the sample alone would be far too good."""
    rng, low, truth = np.random.default_rng(3), [], 0.3
    law = truth * np.diag(np.full(6, 1 / 6)) + (1 - truth) / 36
    a, b = (x.ravel().astype(float) for x in np.indices((6, 6)))
    for counts in rng.multinomial(300, law.ravel(), 60):
        fit = hgr_jax.hgr_fit(a, b, counts=counts)
        low.append(fit.interval()[0])
        order = np.repeat(np.arange(36), counts)
        assert hgr_jax.hgr(a[order], b[order]) == pytest.approx(float(fit.correlation), rel=1e-5)
    assert np.mean(np.array(low) <= truth) > 0.8


@pytest.mark.parametrize(
    ("counts", "what"),
    [
        ([1, 2, -1], "at least 0; got -1"),
        ([1, 2, 1.5], "whole numbers of at least 0; got 1.5"),
        ([1, np.nan, 1], "got nan"),
        (pd.array([1, None, 2], "Int64"), "whole numbers"),
        ([0, 0, 0], "add up to 1 to 10,000,000 rows; got 0"),
        ([1, 2, 10**8], "add up to 1 to 10,000,000 rows; got 100,000,003"),
        ([1, 2], r"shape \(3,\)"),
        ("coutn", "counts 'coutn' is not a column"),
    ],
)
def test_counts_that_are_none(counts: Any, what: str) -> None:
    table = {"x": np.arange(3.0), "y": np.arange(3.0) ** 2, "count": np.arange(3)}
    with pytest.raises((ValueError, TypeError), match=what):
        scan(table, counts=counts)
    if not isinstance(counts, str):
        with pytest.raises((ValueError, TypeError), match=what):
            hgr_jax.independence_test(table["x"], table["y"], counts=counts)


def test_traced_data_have_no_counts() -> None:
    x = np.arange(30.0)
    with pytest.raises(TypeError, match="repeat the rows before tracing"):
        jax.jit(lambda a: hgr_jax.hgr(a, x, counts=np.ones(30)))(x)


def test_whole_weights_are_noted() -> None:
    _, counted = full_and_counted()
    assert "take counts=" in scan(counted, weights="count").notes["count"]
    weights = counted.pop("count").to_numpy()
    assert "take counts=" in scan(counted, weights=weights).notes["weights"]
    assert not scan(counted, weights=weights / 2 + 0.1).notes
    assert not scan(counted, weights=(weights > 2) * 1.0).notes


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full, counted = full_and_counted()
    monkeypatch.chdir(tmp_path)
    counted.to_csv("t.csv", index=False)
    assert main(["scan", "t.csv", "--counts", "count", "--out", "out"]) == 0
    assert "420 rows" in capsys.readouterr().out
    written = pd.read_csv("out/pairs.csv").set_index(["a", "b"])["pvalue"].to_dict()
    assert written == pytest.approx({(p.a, p.b): p.pvalue for p in scan(full)}, rel=1e-3)


@pytest.mark.parametrize("option", ["weights", "counts", "given"])
def test_rows_of_other_labels_are_refused(option: str, rng: np.random.Generator) -> None:
    a, b, other = (pd.Series(rng.integers(1, 5, 40)) for _ in range(3))
    other.index = other.index[::-1]
    with pytest.raises(ValueError, match=f"a and {option} have different indexes"):
        hgr_jax.independence_test(a, b, **{option: other})
