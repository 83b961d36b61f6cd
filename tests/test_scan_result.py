"""What can be done with the result of a scan: lists, frames, fits, pictures, files, influence."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hgr_jax
from hgr_jax import Scan, scan
from hgr_jax.scanning.result import Pair

ROWS = 150
NAMES = ["speed", "drag", "noise", "load", "flat"]


def raw() -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(ROWS, 5))
    x[:, 1] = x[:, 0] ** 2 + 0.3 * x[:, 1]
    x[:, 3] = x[:, 0] + 0.5 * x[:, 3]
    x[:10, 3] = np.nan
    x[:, 4] = 2
    return x.astype(np.float32)


COLUMNS = [field.name for field in dataclasses.fields(Pair)]
EXAMINED = ["low", "high", "remark"]
"""Further columns of frames."""


@pytest.fixture(scope="module")
def found() -> Scan:
    return scan(dict(zip(NAMES, raw().T, strict=True)), h=3, k=2)


@pytest.fixture(scope="module")
def mixed() -> Scan:
    x = raw().astype(np.float64)
    kind = np.where(x[:, 0] > 0.5, "high", np.where(x[:, 2] > 0, "even", "odd"))
    table = pl.DataFrame({"speed": x[:, 0], "load": x[:, 3], "kind": kind})
    return scan(table, h=3, k=2, test="asymptotic")


def test_top(found: Scan) -> None:
    best = found.top(1)[0]
    assert isinstance(best, Pair)
    assert (best.a, best.b) == ("speed", "drag")
    assert best.correlation == found.correlation[0, 1]
    assert best.pearson == found.pearson[0, 1]
    assert best.excess == pytest.approx(best.correlation - best.pearson)
    assert best.pvalue == found.pvalue[0, 1] <= best.adjusted_pvalue
    assert best.pvalue_source == "rank"
    assert 0 < best.null_mean < best.null_95 < best.corrected < best.correlation < 1
    assert (best.n_obs, best.degrees_a, best.degrees_b) == (ROWS, 3, 2)
    everything = found.top()
    assert len(everything) == len(found) == 6
    assert "flat" not in {name for pair in everything for name in (pair.a, pair.b)}
    assert best.spearman == found.spearman[0, 1]
    assert best.rank_correlation == found.rank_correlation[0, 1]
    known = [pair.adjusted_pvalue <= 0.05 for pair in everything]
    assert known == sorted(known, reverse=True)
    for which in (True, False):
        beyond = [p.rank_excess for p, sure in zip(everything, known, strict=True) if sure == which]
        assert beyond == sorted(beyond, reverse=True)
    values = [pair.correlation for pair in found.top(by="correlation")]
    assert values == sorted(values, reverse=True)
    excess = [pair.excess for pair in found.top(by="excess")]
    assert excess == sorted(excess, reverse=True)
    pvalues = [pair.pvalue for pair in found.top(by="pvalue")]
    assert pvalues == sorted(pvalues)
    assert {pair.n_obs for pair in everything if "load" in (pair.a, pair.b)} == {ROWS - 10}
    with pytest.raises(ValueError, match="by must be one of 'rank_excess', 'correlation', 'ex"):
        found.top(by="size")
    for n, error in ((0, ValueError), (2.5, TypeError)):
        with pytest.raises(error, match="n must be"):
            found.top(n)  # type: ignore[arg-type]


def test_the_name_of_a_pair_with_a_category(mixed: Scan) -> None:
    pair = next(pair for pair in mixed.top() if "kind" in (pair.a, pair.b))
    assert np.isnan(pair.pearson)
    assert np.isnan(pair.excess)
    assert np.isnan(pair.spearman)
    assert 0 < pair.rank_excess < pair.rank_correlation
    listed = mixed.top(by="excess")
    with_category = [bool(np.isnan(pair.excess)) for pair in listed]
    assert with_category == sorted(with_category)  # last
    assert True in with_category
    assert False in with_category
    assert (pair.degrees_a, pair.degrees_b) == (3, 2)
    assert np.isnan(mixed.pearson[2, 2])
    assert mixed.correlation[2, 2] == 1


@pytest.mark.parametrize("by", ["rank_excess", "correlation", "excess", "pvalue"])
def test_frames(found: Scan, by: str) -> None:
    listed = [{name: getattr(pair, name) for name in COLUMNS} for pair in found.top(by=by)]
    for library, rows_of in (
        ("pandas", lambda frame: pd.DataFrame.to_dict(frame, "records")),
        ("polars", pl.DataFrame.to_dicts),
        ("pyarrow", pa.Table.to_pylist),
    ):
        table = rows_of(found.to_frame(by=by, library=library))
        assert list(table[0]) == [*COLUMNS, *EXAMINED], library
        rows = [{name: row[name] for name in COLUMNS} for row in table]
        assert rows == listed, library
    assert isinstance(found.to_frame(), pd.DataFrame)
    assert set(found.to_dict()) == {*COLUMNS, *EXAMINED}
    with pytest.raises(ValueError, match="library must be one of"):
        found.to_frame(library="numpy")


def test_a_frame_is_of_the_library_of_the_table(mixed: Scan) -> None:
    assert isinstance(mixed.to_frame(), pl.DataFrame)
    assert mixed.to_frame()["pearson"].is_nan().sum() == 2


def test_fits_of_pairs(found: Scan, mixed: Scan) -> None:
    fit = found.fit("speed", "load")
    x = raw()
    keep = ~np.isnan(x[:, 3])
    assert float(fit.correlation) == pytest.approx(found.correlation[0, 3], abs=1e-5)
    f, g = np.asarray(fit.f(x[keep, 0])), np.asarray(fit.g(x[keep, 3]))
    assert np.corrcoef(f, g)[0, 1] == pytest.approx(found.correlation[0, 3], abs=1e-5)
    values = found.values("load")
    np.testing.assert_array_equal(values, x[:, 3])

    category = mixed.category("kind")
    assert category is not None
    assert category.levels == ("even", "high", "odd")
    positions = mixed.values("kind")
    assert set(positions) == {0, 1, 2}
    np.testing.assert_array_equal(positions == 1, x[:, 0] > 0.5)
    assert mixed.category("speed") is None
    fit = mixed.fit("speed", "kind")
    assert float(fit.correlation) == pytest.approx(mixed.correlation[0, 2], abs=1e-5)

    with pytest.raises(KeyError, match="no column 'mass' was scanned"):
        found.fit("speed", "mass")
    with pytest.raises(KeyError, match="'flat' was skipped: every value that is present is 2"):
        found.fit("flat", "speed")


def test_the_fit_follows_the_order_of_the_pair() -> None:
    """The degree of a column in a pair is that of the scan, in whichever order it is asked for."""
    x = raw()[:, :4]
    for target in (None, "x0"):
        found = scan(x, h=3, k=2, target=target, test=None)
        for a, b in (("x0", "x1"), ("x1", "x0")):
            i, j = int(a[1]), int(b[1])
            fit = found.fit(a, b)
            assert float(fit.correlation) == pytest.approx(found.correlation[0, 1], abs=1e-5)
            degrees = [len(side.coefficients) for side in (fit.f, fit.g)]
            assert degrees == found.degrees[i, j].tolist()


def test_files(found: Scan, tmp_path: Path) -> None:
    path = tmp_path / "new" / "scan.npz"
    found.save(path)
    assert [file.name for file in path.parent.iterdir()] == ["scan.npz"]
    loaded = Scan.load(path)
    for field in dataclasses.fields(Scan):
        if field.name.startswith("_"):
            continue
        one, two = getattr(found, field.name), getattr(loaded, field.name)
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, two)
            assert one.dtype == two.dtype, field.name
        else:
            assert one == two, field.name
    assert loaded.top() == found.top()
    pd.testing.assert_frame_equal(loaded.to_frame()[COLUMNS], found.to_frame()[COLUMNS])
    assert set(loaded.to_frame().remark) == {""}
    assert loaded.plot() is not None
    for call in (lambda: loaded.fit("speed", "drag"), lambda: loaded.values("speed")):
        with pytest.raises(ValueError, match="loaded from a file, which holds no data"):
            call()
    found.save(str(path))  # over itself
    assert len(Scan.load(str(path))) == 6


def test_names_of_any_text(tmp_path: Path) -> None:
    names = ["a,b\n", "Größe €", "", "$x_1^{", "<b>&"]
    found = scan(dict(zip(names, raw().T, strict=True)), h=3, k=2)
    found.save(tmp_path / "scan.npz")
    names[2] = "column 3"
    assert found.notes["column 3"] == "it has no name"
    assert Scan.load(tmp_path / "scan.npz").names == tuple(names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.plot().savefig(tmp_path / "scan.png")


def test_results_without_a_pair(tmp_path: Path) -> None:
    tables: list[tuple[Any, dict[str, Any]]] = [
        (raw()[:, :1], {}),
        (raw()[:, 4:], {}),
        (np.full((3, 2), np.nan), {}),
        ({"a": ["x", "y"] * 10, "b": ["x"] * 20}, {}),
        ({"a": ["x", "y"] * 10, "b": ["u", "v", "v", "u"] * 5}, {"measure": "pearson"}),
    ]
    for table, options in tables:
        found = scan(table, h=3, k=2, **options)
        assert len(found) == 0
        assert found.top() == []
        frame = found.to_frame()
        assert (len(frame), list(frame.columns)) == (0, [*COLUMNS, *EXAMINED])
        found.save(tmp_path / "scan.npz")
        assert len(Scan.load(tmp_path / "scan.npz")) == 0


def test_a_fit_that_runs_out_of_digits_is_told() -> None:
    rng = np.random.default_rng(0)
    a = 1e9 + rng.uniform(size=ROWS)
    found = scan({"a": a, "b": (a - 1e9) ** 2}, h=2, k=2, test=None)
    assert found.correlation[0, 1] == pytest.approx(1, abs=1e-3)
    with pytest.warns(UserWarning, match=r"where the scan found 1\.0000: float32 has too few"):
        found.fit("a", "b")


MANY = 1000


def with_an_outlier() -> np.ndarray:
    """Independent columns, two of them with one row far out, and a relation of two others."""
    x = np.random.default_rng(0).standard_normal((MANY, 6))
    x[41, 0], x[41, 1] = 12, 9
    x[:, 3] = x[:, 2] ** 2 + x[:, 3]
    x[:, 5] = x[:, 4] + 0.1 * x[:, 5]
    return x


@pytest.fixture(scope="module")
def outlying() -> Scan:
    return scan(dict(zip("abcdef", with_an_outlier().T, strict=True)), measure="kb")


def test_a_real_pair_comes_before_the_one_that_a_row_makes(outlying: Scan) -> None:
    by_value = outlying.top(1, by="correlation")[0]
    assert {by_value.a, by_value.b} in ({"a", "b"}, {"e", "f"})
    assert outlying.correlation[0, 1] > 0.99
    first, second, *others = outlying.top()
    assert (first.a, first.b) == ("c", "d")  # not monotone, and real
    assert (second.a, second.b) == ("e", "f")  # real, and monotone
    assert others[-1].rank_correlation < 0.2


def test_the_row_is_named(outlying: Scan) -> None:
    influence = outlying.influence("b", "a")
    assert influence is not None
    assert influence.row == 41
    assert influence.rows[0] == 41
    fit = outlying.fit("a", "b")
    np.testing.assert_allclose(influence.share, fit.leverage, rtol=1e-3)
    assert influence.share > 0.9
    x = with_an_outlier()
    rest = np.arange(MANY) != 41
    without = hgr_jax.kb(x[rest, 0], x[rest, 1])
    np.testing.assert_allclose(influence.value_without, without, atol=1e-4)
    assert influence.value_without < 0.2
    real = outlying.influence("e", "f")
    assert real is not None
    assert real.value_without > 0.98


def test_rows_count_in_the_table_also_where_some_are_missing_or_dropped() -> None:
    x = with_an_outlier()
    x[:10, 0] = np.nan
    weights = np.ones(MANY)
    weights[20:30] = 0
    influence = scan(x, measure="kb", weights=weights, target=0).influence("x0", "x1")
    assert influence is not None
    assert influence.row == 41


def test_of_categories_of_one_kernel_and_of_nothing() -> None:
    x = with_an_outlier()
    kind = np.where(x[:, 4] > 1, "high", np.where(x[:, 4] > 0, "middle", "low"))
    table = pd.DataFrame({"x": x[:, 0], "kind": kind, "other": kind[::-1], "e": x[:, 4]})
    mixed = scan(table, measure="kb", test=hgr_jax.Test(permutations=19))
    for a, b in (("kind", "e"), ("kind", "other"), ("x", "e")):
        influence = mixed.influence(a, b)
        assert influence is not None
        correlation = mixed.correlation[mixed.names.index(a), mixed.names.index(b)]
        fit = mixed.fit(a, b)
        np.testing.assert_allclose(fit.correlation, correlation, atol=1e-4)
        np.testing.assert_allclose(influence.share, fit.leverage, rtol=5e-3)
        rest = np.arange(MANY) != influence.row
        again = scan(table[rest], measure="kb", test=None)
        value = again.correlation[again.names.index(a), again.names.index(b)]
        np.testing.assert_allclose(influence.value_without, value, atol=1e-4)
    apart = {"p": np.array([1.0, 2.0, np.nan, np.nan]), "q": np.array([np.nan, 1, 2, 3])}
    little = scan(apart, measure="kb")
    assert little.influence("p", "q") is None
    with pytest.raises(ValueError, match="fit is for a scan of 'hgr', 'kb'"):
        scan(x[:50], measure="pearson", test=None).influence("x0", "x1")
