"""Scans that keep the first pairs only."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from scipy.stats import spearmanr

import hgr_jax
from hgr_jax import Scan, independence_test, kb, scan
from hgr_jax.scanning import screen
from hgr_jax.scanning import top as first_pairs

ROWS = 300
MATRICES = ("correlation", "rank_correlation", "pearson", "corrected", "null_95", "n_obs")


def table() -> dict[str, Any]:
    """Columns of all kinds: related, tied, of two values, constant, with gaps, and a category."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 20))
    x[:, 1] = x[:, 0] ** 2 + 0.1 * x[:, 1]
    x[:, 3], x[:, 4] = np.round(x[:, 3] * 3), np.round(x[:, 4] * 3 + x[:, 0])
    x[:, 7] = np.sin(6 * x[:, 6]) + 0.3 * x[:, 7]
    x[:, 9] = x[:, 9] > 0
    x[:, 10] = x[:, 9] + (x[:, 10] > 1.5)
    x[:, 11] = 1
    x[:, 12] = rng.poisson(0.3, ROWS)
    x[:50, [5, 8]] = np.nan
    x[:, 13:16][np.random.default_rng(1).random((ROWS, 3)) < 0.15] = np.nan
    columns: dict[str, Any] = {f"c{i}": column for i, column in enumerate(x.T)}
    return columns | {"text": np.array(list("abcdef"))[rng.integers(0, 6, ROWS)]}


@pytest.fixture(autouse=True)
def small_squares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_pairs, "TESTED_SIDE", 8)
    monkeypatch.setattr(screen, "PRODUCT_ROWS", 64)


@pytest.fixture(scope="module")
def whole() -> Scan:
    return scan(table(), test=hgr_jax.Test(permutations=99))


def names_of(found: Scan, count: int, by: str) -> list[tuple[str, str]]:
    return [(pair.a, pair.b) for pair in found.top(count, by=by)]


def assert_same(found: Scan, expected: Scan) -> None:
    """Raise unless each pair of a scan is as in another one of more columns."""
    order = [expected.names.index(name) for name in found.names]
    part = np.ix_(order, order)
    first, second = found.pairs.T
    permuted = found.pvalue_source[first, second] == "permutation"
    for name in (*MATRICES, "pvalue"):
        ours, theirs = (
            m[first, second] for m in (getattr(found, name), getattr(expected, name)[part])
        )
        if name in ("pvalue", "null_95"):  # of other permutations
            np.testing.assert_allclose(ours[permuted], theirs[permuted], atol=0.25)
            ours, theirs = ours[~permuted], theirs[~permuted]
        atol = 0 if name == "pvalue" else 1e-6
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=atol, err_msg=name)


def test_all_pairs_are_those_of_the_scan(whole: Scan) -> None:
    found = scan(table(), top=1000, test=hgr_jax.Test(permutations=99))
    assert found.names == whole.used
    assert len(found) == len(whole) == 190
    assert_same(found, whole)
    told = {"most": 1000, "by": "pvalue", "columns": 20, "pairs": 190, "tested": 190}
    assert told.items() <= found.settings["top"].items()
    assert (
        abs(found.settings["top"]["discoveries"] - np.sum(found.adjusted_pvalue <= 0.05) / 2) <= 1
    )
    assert found.skipped == whole.skipped
    for pair in whole.top(4):  # of the others p-values are from other permutations
        adjusted = found[pair.a, pair.b].adjusted_pvalue
        np.testing.assert_allclose(adjusted, pair.adjusted_pvalue, rtol=2e-3)


@pytest.mark.parametrize("by", ["pvalue", "correlation", "excess"])
def test_the_first_pairs_come_first(whole: Scan, by: str) -> None:
    found = scan(table(), top=hgr_jax.Top(4, by), test=hgr_jax.Test(permutations=99))
    assert names_of(found, 9, by) == names_of(whole, 4, by)
    assert_same(found, whole)
    assert set(found.names) == {name for pair in names_of(whole, 4, by) for name in pair}
    for pair in found.top(2):  # among all pairs, not among those that were kept
        expected = whole[pair.a, pair.b].adjusted_pvalue
        np.testing.assert_allclose(pair.adjusted_pvalue, expected, rtol=2e-3)


@pytest.mark.parametrize(
    ("options", "by", "pairs"),
    [
        ({"target": "c8"}, "pvalue", 19),
        ({"target": ["c0", "text"]}, "pvalue", 37),
        ({"target": ["c1", "c4", "c8"], "among": ["c0", "c2", "text"]}, "pvalue", 9),
        ({"test": None}, "correlation", 190),
        ({"weights": np.repeat([1.0, 1.01, 0], 100)}, "pvalue", 190),
        ({"categories": ["c3"], "test": hgr_jax.Test(permutations=19)}, "pvalue", 190),
    ],
)
def test_other_options(options: dict[str, Any], by: str, pairs: int) -> None:
    options = {"test": hgr_jax.Test(permutations=49), **options}
    found = scan(table(), top=hgr_jax.Top(25, by), **options)
    expected = scan(table(), **options)
    assert found.settings["top"]["pairs"] == pairs
    assert len(found) == min(25, pairs)
    if getattr(options["test"], "permutations", 0) != 19:  # the least of these is that of many
        assert names_of(found, 3, by) == names_of(expected, 3, by)
    assert np.isnan(found.top(1)[0].pvalue) == (options["test"] is None)
    assert_same(found, expected)


@pytest.mark.parametrize(("options", "by"), [({}, "pvalue"), ({"target": [1, 20]}, "correlation")])
def test_columns_of_two_values(options: dict[str, Any], by: str) -> None:
    """Alone or beside others, also where one value is too rare for a law of ranks."""
    rng = np.random.default_rng(9)
    x = rng.normal(size=(120, 22))
    x[:, 1] += 0.5 * x[:, 9]
    x[:, 10] += x[:, 20]
    x[:, 5:15] = x[:, 5:15] > 0.2
    x[:, 15:21] = x[:, 15:21] > 1.6
    x[:9, 14] = np.nan
    few = hgr_jax.Test(permutations=19)
    whole = scan(x, test=few, **options)
    found = scan(x, test=few, top=hgr_jax.Top(400, by), **options)
    assert len(found) == len(whole)
    assert_same(found, whole)
    assert set(whole.pvalue_source[tuple(whole.pairs.T)]) == {"rank", "exact", "permutation"}


def test_what_is_kept_can_be_used(whole: Scan, tmp_path: Path) -> None:
    found = scan(table(), top=4, measure="kb")
    assert "the first of 190 pairs of 20 columns; " in repr(found)
    assert found.fit("c0", "c1").correlation == pytest.approx(
        found["c0", "c1"].correlation, abs=1e-5
    )
    assert next(iter(found.to_frame()["a"])) == "c0"
    with pytest.raises(KeyError, match="'c11' was skipped: every value"):
        found["c11", "c0"]
    found.save(tmp_path / "scan.npz")
    assert repr(Scan.load(tmp_path / "scan.npz")) == repr(found)


def test_far_outlier_leaves_ranks_as_they_are() -> None:
    """Beside 1e9 the other values of a column are all but one in float32."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    x[:, 1] += x[:, 0]
    x[0, 0] = 1e9
    whole, found = scan(x), scan(x, top=3)
    pair = whole["x0", "x1"]
    assert pair.pvalue == pytest.approx(independence_test(x[:, 0], x[:, 1]).pvalue, rel=1e-3)
    assert pair.spearman == pytest.approx(spearmanr(x[:, 0], x[:, 1])[0], abs=1e-6)
    np.testing.assert_allclose(
        [p.adjusted_pvalue for p in found.top(3, by="pvalue")],
        [p.adjusted_pvalue for p in whole.top(3, by="pvalue")],
        rtol=2e-3,
    )


@pytest.mark.parametrize("missing", [[6], slice(None)])
def test_pvalues_of_zero_are_told_apart(missing: Any) -> None:
    rng = np.random.default_rng(0)
    shared, other = rng.normal(size=(2, 4000, 1))
    x = np.concatenate([shared + 0.35 * rng.normal(size=(4000, 6)), other, other], axis=1)
    x[:, 7] += 0.001 * rng.normal(size=4000)
    x[0, missing] = np.nan
    found = scan(x, top=3)
    assert found["x6", "x7"].pvalue == found.top(3)[1].pvalue == 0


@pytest.mark.parametrize("by", ["pvalue", "correlation"])
def test_relations_that_are_all_but_exact(by: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 90))
    x[:, 1], x[:, 3], x[:, 5] = x[:, 0] ** 2, x[:, 2] ** 3, x[:, 4] + 1e-4 * x[:, 5]
    whole, found = scan(x), scan(x, top=hgr_jax.Top(4, by))
    for i in (0, 2, 4):
        pair = f"x{i}", f"x{i + 1}"
        assert found[pair].adjusted_pvalue == pytest.approx(whole[pair].adjusted_pvalue, rel=1e-3)
        assert found[pair].adjusted_pvalue < 1e-190


def test_strong_relations_of_many_rows() -> None:
    """The table of the law reaches as far as float32 does: these are e to -40,000 and less."""
    x = np.random.default_rng(0).normal(size=(100_000, 4)).astype(np.float32)
    for place, rho in ((1, 0.75), (3, 0.9)):
        x[:, place] = rho * x[:, place - 1] + np.sqrt(1 - rho**2) * x[:, place]
    (first,) = scan(x, top=1).top(1)
    assert (first.a, first.b) == ("x2", "x3")


def test_degrees_beyond_those_of_the_test() -> None:
    """In float32 no recurrence follows them to the end: such columns are fitted in float64."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 8))
    x[:, 1] = x[:, 0] ** 2
    whole, found = scan(x, h=50, k=50), scan(x, h=50, k=50, top=2)
    assert len(whole) == found.settings["top"]["tested"] == 28
    with jax.enable_x64(True):
        expected = np.array([kb(x[:, i], x[:, j], h=50, k=50) for i, j in whole.pairs])
    values = whole.correlation[tuple(whole.pairs.T)]
    np.testing.assert_allclose(values, expected, atol=1e-6)
    assert not whole.notes
    first = {(pair.a, pair.b) for pair in whole.top(2, by="pvalue")}
    assert {(pair.a, pair.b) for pair in found.top(2)} == first


def test_pairs_that_were_not_kept_are_said_to_be() -> None:
    found = scan(table(), top=3)
    kept = {(pair.a, pair.b) for pair in found.top(3)}
    left = next(
        pair for pair in itertools.permutations(found.used, 2) if not {pair, pair[::-1]} & kept
    )
    with pytest.raises(KeyError, match="was not kept"):
        found[left]
    with pytest.raises(KeyError, match="no column 'x50' is in a pair that was kept"):
        found[found.used[0], "x50"]


def test_a_false_discovery_rate_whatever_depends_on_what() -> None:
    x = np.random.default_rng(2).normal(size=(100, 12))
    x[:, 1] += x[:, 0]
    test = hgr_jax.Test(fdr="by")
    plain, found, first = scan(x), scan(x, test=test), scan(x, test=test, top=20)
    factor = np.sum(1 / np.arange(1, 67))
    pairs = tuple(found.pairs.T)
    expected = np.minimum(plain.adjusted_pvalue[0, 1] * factor, 1)
    assert found.adjusted_pvalue[0, 1] == pytest.approx(expected)
    assert (found.adjusted_pvalue[pairs] >= plain.adjusted_pvalue[pairs]).all()
    kept = first["x0", "x1"]
    assert kept.adjusted_pvalue == pytest.approx(expected, rel=1e-3)
    assert (found.settings["fdr"], plain.settings["fdr"]) == ("by", "bh")
    with pytest.raises(ValueError, match="fdr must be one of 'bh', 'by'"):
        hgr_jax.Test(fdr="holm")
