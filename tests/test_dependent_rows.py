"""Tests of rows in an order or in groups, against naive loops over shifts and permutations."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import hgr_jax
from hgr_jax import Test, independence_test, scan
from hgr_jax.cli.main import main
from hgr_jax.core.host.ranks import BLOCKS, RankedColumn
from hgr_jax.inference.dependent_rows import (
    RowDesign,
)


def autoregressions(rng: np.random.Generator, rows: int, phi: float, count: int) -> np.ndarray:
    e = rng.normal(size=(rows + 100, count))
    x = np.zeros_like(e)
    for t in range(1, len(e)):
        x[t] = phi * x[t - 1] + e[t]
    return x[100:]


def functions(x: np.ndarray) -> np.ndarray:
    return RankedColumn.of_values(x).functions()


def naive_statistics(moments: np.ndarray) -> np.ndarray:
    """The statistic of the module's docstring, from moments ``(h, k, R)``, block by block."""
    h, k, _ = moments.shape
    z = moments / np.sqrt(np.mean(moments**2, axis=-1, keepdims=True))
    total = 0.0
    for i, j in dict.fromkeys((min(i, h), min(j, k)) for i, j in BLOCKS):
        s = np.sum(z[:i, :j] ** 2, axis=(0, 1))
        v = np.var(s) / (9 * np.mean(s) ** 2)
        total = total + 1 / stats.norm.sf((np.cbrt(s / np.mean(s)) - 1 + v) / np.sqrt(v))
    return np.asarray(np.log(total))


def rolled_moments(f: np.ndarray, g: np.ndarray) -> np.ndarray:
    rows = f.shape[1]
    rolls = [f @ np.roll(g, -lag, axis=1).T / rows for lag in range(rows)]
    return np.stack(rolls, axis=-1)


@pytest.mark.parametrize("rows", [40, 61])
def test_shifts_are_those_of_roll(rows: int) -> None:
    x, y = autoregressions(np.random.default_rng(1), rows, 0.7, 2).T
    y[::5] = y[0]  # ties leave fewer functions
    statistics = naive_statistics(rolled_moments(functions(x), functions(y)))
    found = independence_test(x, y, order=True)
    assert found.pvalue == np.mean(statistics >= statistics[0] - 1e-9)
    assert (found.source, found.smallest_pvalue, found.lag) == ("shifts", 1 / rows, 0)
    order = np.random.default_rng(2).permutation(rows)
    assert independence_test(x[order], y[order], order=np.arange(rows)[order]) == found
    # In the other direction of time, the shifts are the same ones.
    assert independence_test(y, x, order=-np.arange(rows)).pvalue == found.pvalue


def test_lags_are_the_largest_of_each_shift() -> None:
    rng = np.random.default_rng(3)
    x, y = autoregressions(rng, 120, 0.5, 2).T
    lags = range(-3, 6)
    for b in (y, np.roll(x, 4) ** 2 + 0.4 * y):
        statistics = naive_statistics(rolled_moments(functions(x), functions(b)))
        largest = [max(statistics[(r + lag) % 120] for lag in lags) for r in range(120)]
        found = independence_test(x, b, order=True, lags=lags)
        rank = np.mean(np.array(largest) >= largest[0] - 1e-9)
        assert found.lag == max(lags, key=lambda lag: statistics[lag])
        assert found.smallest_pvalue == 9 / 120
        assert found.pvalue == rank if rank > 9 / 120 else found.pvalue < 9 / 120
    # b follows a by 4 rows, and a precedes b.
    assert (found.lag, found.source) == (4, "tail")
    alone = independence_test(b, x, order=True, lags=-4)
    assert alone.pvalue == pytest.approx(found.pvalue / 9)


def test_a_tail_is_no_smaller_than_the_shifts_with_few_values() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=200)
    found = independence_test(x, x**2, order=True)
    assert 1e-8 <= found.pvalue < 1e-6
    rare = np.zeros(200)
    rare[[3, 50, 120]] = 1
    found = independence_test(rare, rare, order=True)
    assert (found.pvalue, found.source) == (1 / 200, "shifts")


def test_size_and_power_of_shifts() -> None:
    rng = np.random.default_rng(5)
    rows, count = 500, 45
    x = autoregressions(rng, rows, 0.9, 2 * count)
    tested = scan(x, order=True, target=range(count), among=range(count, 2 * count))
    p = tested.pvalue[tuple(tested.pairs.T)]
    assert len(p) == count**2
    assert 0.035 < np.mean(p <= 0.05) < 0.065
    assert 0.004 < np.mean(p <= 0.01) < 0.018
    assert np.mean(p <= 1e-4) < 0.002
    plain = [independence_test(*autoregressions(rng, rows, 0.9, 2).T).pvalue for _ in range(20)]
    assert np.mean(np.array(plain) <= 0.05) > 0.6
    # A relation that is not monotone, three rows later.
    a, noise = (autoregressions(rng, rows, 0.9, 15).T for _ in range(2))
    b = np.roll(a, 3, axis=1) ** 2 / 6 + noise
    found = [
        independence_test(*pair, order=True, lags=range(-5, 6)) for pair in zip(a, b, strict=True)
    ]
    assert np.mean([test.pvalue <= 0.05 for test in found]) > 0.7


def test_series_that_are_too_slow() -> None:
    rng = np.random.default_rng(6)
    walks = np.cumsum(rng.normal(size=(300, 2)), axis=0)
    with pytest.warns(UserWarning, match="too slow for the length of the series"):
        independence_test(*walks.T, order=True)
    table = {"a": walks[:, 0], "b": walks[:, 1], "c": rng.normal(size=300)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        independence_test(walks[:, 0], table["c"], order=True)
        found = scan(table, order=True)
    assert {n for n, note in found.notes.items() if "too slow" in note} == {"a", "b"}


def naive_pvalue(f: np.ndarray, g: np.ndarray, orders: list[np.ndarray]) -> float:
    moments = np.stack([f @ g[:, order].T / f.shape[1] for order in orders], axis=-1)
    statistics = naive_statistics(moments)
    return float(np.mean(statistics >= statistics[0] - 1e-9))


@pytest.mark.parametrize("ordered", [False, True])
def test_orders_within_groups_are_all_of_them(ordered: bool) -> None:
    """With few orders, draws of these have the p-value of their list."""
    rng = np.random.default_rng(8)
    sizes = [7, 8, 7] if ordered else [4, 4, 4]
    groups = np.repeat([4, 1, 7], sizes)
    rows = len(groups)
    x, y = rng.normal(size=(2, rows)) + groups
    y += x - groups
    design = RowDesign.of(rows, True if ordered else None, groups)
    f, g = (design.within(functions(z[design.rows])) for z in (x, y))
    each = [
        [np.roll(np.arange(s, s + n), r) for r in range(n)]
        if ordered
        else [np.array(p) for p in itertools.permutations(range(s, s + n))]
        for s, n in zip(design.starts, design.sizes, strict=True)
    ]
    listed = [np.concatenate(parts) for parts in itertools.product(*each)]
    drawn = {tuple(order) for order in design.drawn(np.random.default_rng(0), 30_000).tolist()}
    every = {tuple(order.tolist()) for order in listed}
    assert drawn == every if ordered else len(drawn & every) == len(drawn) > 10_000
    found = independence_test(x, y, groups=groups, order=True if ordered else None)
    expected = naive_pvalue(f, g, sorted(listed, key=lambda o: tuple(o) != tuple(range(rows))))
    assert 0.002 < expected < 0.35
    assert found.pvalue == pytest.approx(expected, abs=0.02)
    assert found.source == ("shifts" if ordered else "within")
    assert found.smallest_pvalue == pytest.approx(1 / len(listed) if ordered else 1e-3)


def panel(rng: np.random.Generator, times: int, sites: int) -> tuple[np.ndarray, ...]:
    """Series of sites that share one slow series, another one for each variable."""
    time, site = np.repeat(np.arange(times), sites), np.tile(np.arange(sites), times)
    slow = autoregressions(rng, times, 0.9, 2)
    own = rng.normal(size=(2, sites))[:, site] + rng.normal(size=(2, len(site)))
    x, y = slow.T[:, time] + own
    return time, site, x, y


@pytest.mark.parametrize(("times", "sites", "source"), [(90, 6, "shifts"), (10, 30, "exchanges")])
@pytest.mark.parametrize("missing", [False, True])
def test_sites_that_share_slow_series(times: int, sites: int, source: str, missing: bool) -> None:
    rng = np.random.default_rng(times + missing)
    pvalues = []
    for _ in range(60):
        time, site, x, y = panel(rng, times, sites)
        kept = rng.permutation(len(x))[: int(len(x) * (0.9 if missing else 1))]
        x, y, time, site = x[kept], y[kept], time[kept], site[kept]
        found = independence_test(x, y, order=time, groups=site, permutations=199)
        assert found.source in (source, "tail")
        pvalues.append(found.pvalue)
    assert np.mean(np.array(pvalues) <= 0.05) <= 0.13
    assert np.mean(np.array(pvalues) <= 0.5) >= (0.15 if missing else 0.3)
    strong = independence_test(x, y + 2 * (x - x.mean()) ** 2, order=time, groups=site)
    assert strong.pvalue <= 0.02
    names = np.array(["a", "b"])[(y > np.median(y)) * 1]
    table = {"x": x, "y": y, "name": names, "time": time, "site": site}
    scanned = hgr_jax.scan(table, order="time", groups="site")
    for b, other in (("y", y), ("name", names)):
        alone = independence_test(x, other, order=time, groups=site)
        assert scanned["x", b].pvalue == pytest.approx(alone.pvalue)
    law = {"shifts": "all groups of site together", "exchanges": "by exchanges of whole groups"}
    assert law[source] in scanned.settings["law"]


def grouped(rng: np.random.Generator, count: int, size: int) -> tuple[np.ndarray, ...]:
    groups = np.repeat(np.arange(count), size)
    x, y = 2 * rng.normal(size=(2, count))[:, groups] + rng.normal(size=(2, count * size))
    return groups, x, y, rng.normal(size=count)[groups]


def test_size_of_groups() -> None:
    """Persons that differ in level: plain tests reject, orders within and between do not."""
    rng = np.random.default_rng(9)
    within, between, plain = [], [], []
    for _ in range(120):
        groups, x, y, constant = grouped(rng, 25, 8)
        within.append(independence_test(x, y, groups=groups, permutations=99).pvalue)
        between.append(independence_test(constant, y, groups=groups).pvalue)
        plain.append(independence_test(constant, y).pvalue)
    for pvalues in (within, between):
        assert 0.02 < np.mean(np.array(pvalues) <= 0.05) < 0.095
    assert np.mean(np.array(plain) <= 0.05) > 0.4


def test_designs_of_groups() -> None:
    rng = np.random.default_rng(10)
    groups, x, y, constant = grouped(rng, 40, 6)
    inside = independence_test(x, y + x**2, groups=groups)
    assert (inside.source, inside.pvalue < 1e-6) == ("tail", True)
    other = y + 2 * constant**2
    found = independence_test(constant, other, groups=groups)
    ranks = stats.rankdata(other).reshape(40, 6).mean(axis=1)
    by_hand = independence_test(constant[::6], ranks)
    assert (found.pvalue, found.source) == (by_hand.pvalue, "between")
    # Labels of any kind, in any order of the rows.
    order = rng.permutation(240)
    for labels in (np.array(list("abcdefgh") * 5)[groups // 1 % 40], groups.astype(float)):
        names = [f"{label}{group}" for label, group in zip(labels, groups, strict=True)]
        same = independence_test(constant[order], other[order], groups=np.array(names)[order])
        assert same.pvalue == pytest.approx(found.pvalue)


def test_float32_and_degenerate_variables() -> None:
    x, y = autoregressions(np.random.default_rng(11), 80, 0.5, 2).astype(np.float32).T
    groups = np.repeat(np.arange(8), 10)
    for options in ({"order": True}, {"groups": groups}):
        in_float64 = independence_test(x.astype(float), y.astype(float), **options)
        assert independence_test(x, y, **options) == in_float64
        assert np.isnan(independence_test(np.where(x > 1, np.nan, x), y, **options).pvalue)
    flat = independence_test(np.ones(80), y, order=True)
    assert (flat.pvalue, flat.statistic, flat.degrees) == (1, 0, (0, 0))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"lags": 2}, "lags are of one series in order"),
        ({"order": [1, 2] * 30}, "rows 0 and 2 have the same value: name the series"),
        ({"order": [1] * 60, "groups": [0, 1] * 30}, "have the same value and group"),
        ({"order": [1, 2]}, r"order must have shape \(60,\); got shape \(2,\)"),
        ({"order": False}, "order must be True, where"),
        ({"order": ["a"] * 60}, "got text"),
        ({"order": [np.nan, *range(59)]}, "order has 1 missing value.* the first in row 0"),
        ({"order": [None, *range(59)]}, "order has 1 missing"),
        ({"groups": [1] * 60}, "all rows have the same label"),
        ({"groups": range(60)}, "each row has its own label"),
        ({"groups": [1, 2]}, r"groups must have shape \(60,\)"),
        ({"groups": ["", "a", "b"] * 20}, "groups has 20 missing"),
        ({"groups": [pd.NA, "a", "b"] * 20}, "groups has 20 missing"),
        ({"order": True, "lags": 30}, "shorter than half of a series, of 60 rows; got 30"),
        ({"order": True, "groups": [0, 1] * 30, "lags": -1}, "leave groups= out"),
        ({"order": True, "lags": []}, "at least one"),
        ({"order": True, "lags": [1, 1]}, "each another"),
        ({"order": True, "lags": "soon"}, "lags must be an int or several"),
        ({"order": True, "weights": range(60)}, "weights is for exchangeable rows"),
        ({"groups": [0, 1] * 30, "given": range(60)}, "given is for exchangeable rows"),
        ({"order": True, "method": "permutation"}, "method is for exchangeable rows"),
    ],
)
def test_refusals(options: dict[str, Any], what: str) -> None:
    x, y = np.random.default_rng(12).normal(size=(2, 60))
    with pytest.raises((ValueError, TypeError), match=what):
        independence_test(x, y, **options)


def table_of(rng: np.random.Generator, rows: int = 240) -> pd.DataFrame:
    x = autoregressions(rng, rows, 0.6, 4)
    x[:, 1] = x[:, 0] ** 2 + x[:, 1] / 2
    table = pd.DataFrame(x, columns=list("abcd"))
    table["kind"] = np.where(x[:, 0] > 0.8, "high", np.where(x[:, 3] > 0, "mid", "low"))
    table["day"] = pd.date_range("2023-01-01", periods=rows)
    table["person"] = [f"p{i // 12}" for i in range(rows)]
    table["age"] = [i // 12 * 7 % 20 for i in range(rows)]
    return table


def test_a_scan_has_the_p_values_of_its_pairs() -> None:
    rng = np.random.default_rng(14)
    table = table_of(rng)
    shuffled = table.sample(frac=1, random_state=1).reset_index(drop=True)
    found = scan(shuffled.drop(columns=["person", "age"]), order="day")
    assert found.names == ("a", "b", "c", "d", "kind")
    for a, b in itertools.combinations("abcd", 2):
        alone = independence_test(table[a], table[b], order=True)
        assert found[a, b].pvalue == pytest.approx(alone.pvalue)
        assert found[a, b].pvalue_source == alone.source
    assert found["a", "kind"].pvalue < 1e-6
    assert found["c", "kind"].pvalue > 0.01
    assert np.isnan(found.null_mean).all()
    assert found.settings["smallest_pvalue"] == 1 / 240
    assert "by circular shifts in the order of day (p below 0.0042" in found.findings().counts()[0]
    np.testing.assert_array_equal(
        found.adjusted_pvalue[0, 1:],
        hgr_jax.inference.adjust(found.pvalue[np.triu_indices(5, 1)])[:4],
    )


def test_a_scan_of_groups() -> None:
    table = table_of(np.random.default_rng(15))
    shuffled = table.sample(frac=1, random_state=1).reset_index(drop=True)
    found = scan(shuffled.drop(columns="day"), groups="person", test=Test(permutations=499))
    assert "person" not in found.names
    sources = {pair: found[pair].pvalue_source for pair in itertools.combinations(found.names, 2)}
    assert {s for pair, s in sources.items() if "age" in pair} == {""}
    assert np.isnan(found["c", "age"].pvalue)
    assert found["c", "age"].correlation > 0
    assert "groups=) tests a pair by whole groups" in found.notes["age"]
    assert [name for name, note in found.notes.items() if "constant in each group" in note] == [
        "age"
    ]
    assert {s for pair, s in sources.items() if "age" not in pair} <= {"within", "tail"}
    assert sources["a", "b"] == sources["a", "kind"] == "tail"
    for a, b in (("a", "c"), ("c", "d")):
        alone = independence_test(table[a], table[b], groups=table.person, permutations=499)
        assert found[a, b].pvalue == pytest.approx(alone.pvalue, abs=0.1)
    both = scan(shuffled, order="day", groups="person")
    assert both.names == ("a", "b", "c", "d", "kind", "age")
    assert "within groups of person" in both.findings().counts()[0]
    assert both["b", "kind"].pvalue_source in ("shifts", "tail")


def naive_missing(f: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Covariances under each roll on the rows that both have, times the root of their number, which
    counts up to its median.
    """
    rows, moments, counts = f.shape[1], [], []
    for lag in range(rows):
        moved = np.roll(g, -lag, axis=1)
        both = ~np.isnan(f[0]) & ~np.isnan(moved[0])
        x, y = (z[:, both] - z[:, both].mean(axis=1, keepdims=True) for z in (f, moved))
        moments.append(x @ y.T / both.sum())
        counts.append(both.sum())
    return np.stack(moments, axis=-1) * np.sqrt(np.minimum(counts, np.median(counts)) / rows)


def test_missing_values() -> None:
    rng = np.random.default_rng(16)
    x, y = autoregressions(rng, 90, 0.5, 2).T
    x[10:25] = np.nan
    y[rng.random(90) < 0.2] = np.nan
    sides = []
    for z in (x, y):
        whole = np.full((32, 90), np.nan)
        f = functions(z[~np.isnan(z)])
        whole[: len(f), ~np.isnan(z)] = f
        sides.append(whole[: len(f)])
    statistics = naive_statistics(naive_missing(*sides))
    found = scan({"x": x, "y": y}, order=True)
    assert found.pvalue[0, 1] == np.mean(statistics >= statistics[0] - 1e-9)
    # Within groups, rows that lack either are left out.
    groups, z = np.repeat(np.arange(9), 10), x**2 + rng.normal(size=90) / 3
    for column in (y, z):
        there = ~np.isnan(x) & ~np.isnan(column)
        of_scan = scan({"x": x, "y": column}, groups=groups, test=Test(permutations=999))
        alone = independence_test(x[there], column[there], groups=groups[there], permutations=999)
        assert of_scan.pvalue[0, 1] == pytest.approx(alone.pvalue, abs=0.06)
        assert of_scan.pvalue_source[0, 1] == alone.source


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"order": "dai"}, "order 'dai' is not a column; did you mean 'day'"),
        ({"order": "kind"}, "order must be a column of numbers or dates; 'kind' holds text"),
        ({"order": "age"}, "have the same value: name the series"),
        ({"groups": "a"}, "each row has its own label"),
        ({"order": True, "weights": "age"}, "weights is for exchangeable rows"),
        ({"order": True, "given": "age"}, "given is for exchangeable rows"),
        ({"groups": "person", "top": 3}, "top is for exchangeable rows"),
        ({"order": True, "test": None}, "for p-values by test='auto'; got None"),
        ({"order": True, "test": "permutation"}, "got 'permutation'"),
        ({"order": True, "measure": "hsic"}, "order and groups are for the measures"),
    ],
)
def test_refusals_of_a_scan(options: dict[str, Any], what: str) -> None:
    with pytest.raises((ValueError, TypeError), match=what):
        scan(table_of(np.random.default_rng(18)), **options)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = table_of(np.random.default_rng(20))
    path = tmp_path / "t.csv"
    table.sample(frac=1, random_state=3).to_csv(path, index=False)
    out = ["--out", str(tmp_path / "out"), "--force"]
    assert main(["scan", str(path), "--order", "day", "--groups", "person", *out]) == 0
    assert "in the order of day within groups of person" in capsys.readouterr().out
    assert main(["scan", str(path), "--order", "rows", "--columns", "a", *out]) == 0
    assert main(["scan", str(path), "--groups", "person", "--columns", "a", "c", *out]) == 0
    assert "by orders of the rows within groups of person" in capsys.readouterr().out
    assert main(["scan", str(path), *out]) == 0
    assert "if rows are exchangeable" in capsys.readouterr().out
    pair = ["--out", str(tmp_path / "pair")]
    assert main(["pair", str(path), "a", "c", "--order", "day", *pair]) == 0
    printed = capsys.readouterr().out
    expected = independence_test(table.a, table.c, order=True).pvalue
    assert f"p-value      {expected:.3f}   of independence, by circular shifts" in printed
    assert main(["pair", str(path), "a", "kind", "--groups", "person", *pair]) == 0
    assert "of independence, by orders of the rows within groups" in capsys.readouterr().out
    for options in (["--order", "kind"], ["--groups", "a"], ["--order", "day", "--keep", "3"]):
        assert main(["scan", str(path), *options, *out]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert main(["pair", str(path), "a", "day", "--order", "day", *pair]) == 2
    assert "expected columns that differ" in capsys.readouterr().err
