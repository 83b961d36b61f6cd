"""Findings of a scan: what is listed, in which order, and what is said to explain it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hgr_jax
from hgr_jax import scan
from hgr_jax.scanning import findings
from hgr_jax.scanning.facts import TableFacts
from hgr_jax.scanning.findings import Finding, Findings
from hgr_jax.scanning.remarks import ExaminedPair, RemarkFinder

Rng = np.random.Generator

FEWER = hgr_jax.Test(permutations=999)
"""Of pairs that no law is for."""


def pairs(findings: Any) -> list[set[str]]:
    return [{finding.a, finding.b} for finding in findings]


def finding(found: Findings, a: str, b: str) -> Finding:
    every = (*found, *found.explained)
    return next(each for each in every if {each.a, each.b} == {a, b})


def kinds(of: Finding) -> set[str]:
    return {remark.kind for remark in of.remarks}


def walk(rng: Rng, rows: int) -> np.ndarray:
    return np.cumsum(rng.normal(size=rows))


def autoregression(rng: Rng, rows: int, factor: float) -> np.ndarray:
    x = rng.normal(size=rows + 50)
    for i in range(1, len(x)):
        x[i] += factor * x[i - 1]
    return x[50:]


NON_MONOTONE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "square": lambda x: x**2,
    "faint": lambda x: 0.22 * x**2,
    "wave": lambda x: np.sin(5 * x),
    "steps": lambda x: (np.abs(x) > 0.6) * 1.0,
}


@pytest.mark.parametrize("name", NON_MONOTONE)
@pytest.mark.parametrize("in_order", [False, True])
def test_a_relation_that_is_not_monotone_is_listed_first(name: str, in_order: bool) -> None:
    rng = np.random.default_rng(1)
    x, noise = rng.uniform(-1.5, 1.5, 250), rng.normal(size=250)
    x = np.sort(x) if in_order else x
    y = NON_MONOTONE[name](x) + 0.3 * noise
    others = {f"u{i}": rng.normal(size=250) for i in range(8)}
    others["near u0"] = others["u0"] + 0.4 * rng.normal(size=250)
    found = scan({**others, "x": x, "y": y}).findings()
    assert pairs(found.not_monotone)[0] == {"x", "y"}
    assert {"u0", "near u0"} in pairs(found.strongest)
    first = found.not_monotone[0]
    assert first.interval[0] <= first.hgr <= first.interval[1]
    assert first.spearman < first.interval[0]
    assert not first.explained
    # The lines have it first, and all numbers.
    lines = repr(found).split("Not monotone: HGR above |Spearman|\n")[1].splitlines()
    assert "x and y" in lines[1]
    assert f"{first.hgr:.3f}" in lines[1]


def test_no_finding_among_independent_columns() -> None:
    table = np.random.default_rng(2).normal(size=(200, 6))
    found = scan(table).findings()
    assert list(found) == list(found.explained) == []
    assert repr(found).startswith("No finding")
    assert (found.pairs, found.tested, found.significant) == (15, 15, 0)


def test_without_pvalues_and_of_other_measures() -> None:
    rng = np.random.default_rng(3)
    x, noise = rng.normal(size=(2, 300))
    table = {"x": x, "y": x**2 + noise, "z": noise}
    untested = scan(table, test=None).findings(2)
    assert len(untested.strongest) == 2
    assert untested.tested == 0
    of_kb = scan(table, h=3, k=3)
    assert of_kb.findings().strongest[0].hgr == of_kb["x", "y"].rank_correlation
    of_pearson = scan(table, measure="pearson", test=None).findings()
    assert pairs(of_pearson.strongest)[0] == {"y", "z"}
    given = scan(table, given="z").findings()
    assert pairs(given.strongest) == [{"x", "y"}]
    assert given.strongest[0].interval == pytest.approx(
        scan(table, given="z").interval("x", "y"), abs=1e-6
    )


def test_near_copies_count_as_one() -> None:
    rng = np.random.default_rng(4)
    size = rng.normal(170, 8, 300)
    weight = size + 4 * rng.normal(size=300)
    effect = np.round((size - 170) ** 2 + 30 * rng.normal(size=300))
    colour = rng.integers(0, 4, 300)
    table = {
        "size_cm": size.round(2),
        "size_in": (size / 2.54).round(2),
        "minus": -(size**3),
        "weight": weight,
        "effect": effect,
        "colour": np.array(list("rgbk"))[colour],
        "code": np.array([7.0, 3.0, 9.0, 5.0])[colour],
    }
    found = scan(table).findings()
    assert found.copies == (("size_cm", "size_in", "minus"), ("colour", "code"))
    assert {"size_cm", "weight"} in pairs(found.strongest)
    assert finding(found, "size_cm", "weight").remark == ""
    assert "(nearly) the same ranks: size_cm, size_in, minus" in repr(found)
    assert "(nearly) the same ranks: colour, code" in repr(found)
    assert not any({"size_in", "minus"} & pair for pair in pairs(found))
    assert pairs(found.not_monotone)[0] == {"size_cm", "effect"}


@pytest.mark.parametrize("rows", [100, 400])
def test_single_rows_and_values(rows: int) -> None:
    rng = np.random.default_rng(rows)
    x, y = (rng.poisson(5, rows) * (rng.random(rows) < 0.02) * 1.0 for _ in range(2))
    x[7] = y[7] = 40.0
    found = scan({"x": x, "y": y, "z": rng.normal(size=rows)}, test=FEWER).findings()
    assert {"x", "y"} not in pairs(found)
    if found.explained:
        of = finding(found, "x", "y")
        assert "few rows" in kinds(of)
        assert "row 7 makes it" in of.remark or "rows" in of.remark
    # Rows with one value of many.
    x, y = rng.normal(size=(2, rows))
    x[: rows // 40] = y[: rows // 40] = 0.25
    rows_of_value = scan({"x": x, "y": y, "w": x + rng.normal(size=rows)}).findings()
    if {"x", "y"} in pairs((*rows_of_value, *rows_of_value.explained)):
        of = finding(rows_of_value, "x", "y")
        assert of.explained
        assert "is 0.25 make it" in of.remark or "make it" in of.remark


def test_another_unit_with_fewer_digits_is_a_copy() -> None:
    rng = np.random.default_rng(27)
    size = rng.normal(170, 9, 500)
    table = {
        "cm": size.round(1),
        "m": (size / 100).round(2),
        "weight": (0.9 * size - 80 + 8 * rng.normal(size=500)).round(1),
    }
    table["cm"][::9] = np.nan
    found = scan(table).findings()
    assert found.copies == (("cm", "m"),)
    assert pairs(found.strongest) == [{"cm", "weight"}]
    # Nearly as close, but no rounding.
    table["m"] += 0.003 * rng.normal(size=500)
    assert scan(table).findings().copies == ()


def test_values_of_few_pairs_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many columns are near copies: what their ranks say costs nothing."""
    rng = np.random.default_rng(33)
    table = rng.normal(size=(100, 1)) + 0.05 * rng.normal(size=(100, 30))
    compared = []
    monkeypatch.setattr(findings, "_correspond", lambda *of: compared.append(of) or False)
    monkeypatch.setattr(findings, "MOST_COMPARED", 20)
    found = scan(table).findings()
    assert len(compared) <= 20
    assert found.copies == ()


def test_copies_of_rows() -> None:
    rng = np.random.default_rng(5)
    table = pd.DataFrame(rng.normal(size=(24, 3)).round(3), columns=list("abc"))
    copied = table.loc[table.index.repeat(12)].sample(frac=1, random_state=0)
    found = scan(copied.reset_index(drop=True)).findings()
    assert "264 of 288 rows are copies of other rows" in repr(found)
    assert all("copies" in kinds(of) for of in (*found, *found.explained))
    assert len(found.explained) >= 2
    # A relation that is there without copies stays, with the remark.
    table["d"] = table["a"] ** 2
    copied = table.loc[table.index.repeat(12)]
    kept = finding(scan(copied.reset_index(drop=True)).findings(), "a", "d")
    assert not kept.explained
    assert kinds(kept) == {"copies"}
    # Values of few digits repeat by chance.
    likert = rng.integers(1, 6, (500, 3)) * 1.0
    assert scan(likert).findings().remarks == ()


@pytest.mark.parametrize("rows", [150, 500])
@pytest.mark.parametrize("kind", ["walk", "autoregression"])
def test_series(rows: int, kind: str) -> None:
    rng = np.random.default_rng(rows)
    table = {
        f"s{i}": walk(rng, rows) if kind == "walk" else autoregression(rng, rows, 0.9)
        for i in range(10 if rows == 500 else 6)
    }
    found = scan(table).findings(10)
    every = (*found, *found.explained)
    assert every
    assert all("order" in kinds(of) for of in every)
    assert len(found.explained) >= len(found.strongest)
    assert any("successive rows are alike in" in text for text in found.remarks)
    assert "by circular shifts" in every[0].remark


def test_series_that_do_depend() -> None:
    """Rows are independent given one of the series: the p-value is right."""
    rng = np.random.default_rng(6)
    x = autoregression(rng, 400, 0.9)
    found = scan({"x": x, "y": np.abs(x) + 0.5 * rng.normal(size=400)}).findings()
    assert kinds(finding(found, "x", "y")) == set()


def test_rows_in_the_order_of_dates_or_of_a_group() -> None:
    rng = np.random.default_rng(70)
    days = pd.date_range("2024-01-01", periods=300)
    table = pd.DataFrame({"day": days, "a": walk(rng, 300), "b": walk(rng, 300)})
    shuffled = table.sample(frac=1, random_state=1).reset_index(drop=True)
    assert "order" in kinds(finding(scan(shuffled).findings(), "a", "b"))
    # In a table that is sorted by a group, rows of a group are alike because of the group.
    group = np.repeat([0, 1, 2], 60)
    table = {name: group * 2.0 + rng.normal(size=180) for name in "xy"}
    found = scan({**table, "group": np.array(list("abc"))[group]}).findings()
    assert found.remarks == ()


def test_marks_of_missing_values() -> None:
    rng = np.random.default_rng(8)
    table = {
        "co": rng.normal(20, 4, 300),
        "no": rng.normal(70, 9, 300),
        "score": rng.uniform(1, 4, 300).round(2),
        "depth": rng.uniform(30, 50, 300),
        "ozone": rng.normal(9, 1, 300),
    }
    table["ozone"] += (table["co"] - 20) ** 2 / 4
    missing = rng.random(300) < 0.08
    table["co"][missing] = table["no"][missing] = -200
    table["score"][::30], table["depth"][5::40] = 9.99, 0
    found = scan(table).findings()
    of = finding(found, "co", "no")
    assert of.explained
    assert "mark" in kinds(of)
    assert "-200" in of.remark
    assert pairs(found.not_monotone)[0] == {"co", "ozone"}
    said = "\n".join(found.remarks)
    for name, mark in (("co", "-200"), ("no", "-200"), ("score", "9.99"), ("depth", "0")):
        assert f"{name}" in said
        assert f"--na {mark}" in said
    assert "ozone" not in said


def test_a_copy_is_no_slow_series() -> None:
    celsius = np.random.default_rng(32).normal(20, 5, 1000).round(1)
    found = scan({"celsius": celsius, "fahrenheit": (32 + 1.8 * celsius).round(2)})
    examined = ExaminedPair.of(found, ("celsius", "fahrenheit"), 1.0)
    assert examined is not None
    assert RemarkFinder(found, TableFacts(found)).remarks(examined) == []


def test_negative_marks_below_amounts() -> None:
    """However wide the amounts range, -1 and -2 are none of them."""
    rng = np.random.default_rng(28)
    income = np.exp(rng.normal(10, 0.6, 400)).round()
    hours = rng.normal(38, 9, 400).round().clip(6)
    gone = rng.random(400) < 0.1
    income[gone], hours[gone], income[::40] = -1, -1, -2
    found = scan({"income": income, "hours": hours}).findings()
    assert list(found) == []
    assert "-2 and -1 in" in finding(found, "income", "hours").remark
    # Amounts that go on below 0 have no marks.
    change = rng.normal(3, 2, 400).round()
    assert scan({"change": change, "hours": hours}).findings().remarks == tuple(
        remark for remark in found.remarks if "hours" in remark
    )


def test_codes_of_nested_categories() -> None:
    """A town has one region, and so has its postcode; rows of few digits are no copies."""
    rng = np.random.default_rng(29)
    town = rng.integers(0, 20, 800)
    table = {
        "town": np.array([f"t{i}" for i in range(20)])[town],
        "region": np.array(list("abcd"))[town % 4],
        "sales": (10 * (town % 4) + 5 * rng.normal(size=800)).round(1),
        "postcode": 10_000.0 + 7 * town,
    }
    found = scan(table).findings()
    listed = {frozenset(pair) for pair in pairs(found)}
    assert listed == {frozenset({"town", "sales"}), frozenset({"region", "sales"})}
    assert "each town has one region" in finding(found, "town", "region").remark
    assert found.remarks == ()


def test_what_is_weak_but_more_than_chance_is_no_finding() -> None:
    x, y = np.random.default_rng(30).normal(size=(2, 9000))
    found = scan({"x": x, "y": y + 0.05 * x}).findings()
    assert found.significant == 1
    assert "more than chance are weak" in repr(found)


def test_few_shared_rows() -> None:
    rng = np.random.default_rng(9)
    x, y, z = rng.normal(size=(3, 90))
    x[30:] = np.nan
    y[np.r_[:12, 36:90]] = np.nan  # 18 rows in common
    table = {"x": x, "y": np.where(np.isnan(y), y, x), "z": z}
    table["z"] = z + 2 * np.nan_to_num(x)
    found = scan(table)
    assert found["x", "y"].n_obs == 18
    assert {"x", "y"} not in pairs(found.findings())
    assert found.findings().few_rows == 2  # y has no more rows with z
    assert "not listed: 2 pairs of columns that share few rows" in repr(found.findings())
    few = found.findings(min_rows=10)
    assert {"x", "y"} in pairs(few) or few.copies
    last = [{p.a, p.b} for p in found.top(by="correlation")][-2:]
    assert {"x", "y"} in last  # though its value is the largest
    # Of a table that is short, pairs with half of its rows are listed.
    short = {name: values[12:30] for name, values in table.items() if name != "z"}
    assert scan(short).findings().few_rows == 0


def test_columns_that_number_the_rows_make_no_finding() -> None:
    rng = np.random.default_rng(10)
    size = np.linspace(0, 1, 200) ** 2 + rng.lognormal(8, 0.5, 200) / 9e4
    weight = size + rng.normal(size=200) / 4
    numbers = 100 + 2.0 * np.arange(200)
    for name in ("id", "customerId", "order_no", "rownames", "Unnamed: 0", "#", "PID", "rowid"):
        for values in (numbers, rng.permutation(numbers)):
            found = scan({name: values, "size": size, "weight": weight}).findings()
            assert not any(name in pair for pair in pairs((*found, *found.explained)))
            assert f"{name} numbers the rows: its pairs are not listed" in found.remarks
    for name in ("obs", "Subject", "case"):  # numbers them where it counts them, up or down
        count = np.arange(1.0, 201)
        counted = {name: count[::-1] if name == "case" else count, "size": size, "weight": weight}
        assert f"{name} numbers the rows" in " ".join(scan(counted).findings().remarks)
    for name in ("dose", "paid"):  # it is in order, but its name is that of a variable
        found = scan({name: numbers, "size": size}).findings()
        assert "just rises or falls" in finding(found, name, "size").remark
        assert not finding(found, name, "size").explained
    # Not numbered: values that repeat, and amounts.
    amounts = np.sort(rng.lognormal(8, 2, 200).round())[rng.permutation(200)]
    assert scan({"no": amounts, "size": size}).findings().remarks == ()


def test_indicators_of_a_column_that_is_not_there_make_no_finding() -> None:
    rng = np.random.default_rng(31)
    kind = rng.integers(0, 4, 300)
    table: dict[str, Any] = {f"is_{i}": kind == i for i in range(4)}
    table |= {"x": kind + rng.normal(size=300), "apart": rng.random(300) < 0.1 * kind}
    found = scan(table).findings(10)
    listed = [{of.a, of.b} for of in found.strongest]
    assert {"x", "is_0"} in listed
    assert {"apart", "is_0"} in listed
    assert not any({f"is_{i}", f"is_{j}"} in listed for i in range(4) for j in range(i))
    assert "is_0, is_1, is_2, is_3 have the same sum in each row" in "\n".join(found.lines())


def test_shares_of_a_whole_are_said_to_be_shares() -> None:
    rng = np.random.default_rng(32)
    table = dict(zip("abc", (100 * rng.dirichlet(np.ones(3), 400)).round(1).T, strict=True))
    table["y"] = (table["a"] - 40) ** 2 + rng.normal(size=400)
    found = scan(table).findings(10).strongest
    remarks = {frozenset((of.a, of.b)): of.remark for of in found}
    assert remarks[frozenset("bc")] == "a, b, c have the same sum in each row"
    assert remarks[frozenset("ay")] == ""
    # Columns that hardly vary, beside those that do, are no shares.
    near = {
        name: 1000 + values for name, values in zip("pqr", rng.normal(size=(3, 400)), strict=True)
    }
    near["s"] = near["p"] + near["q"]
    assert not any("sum" in of.remark for of in scan(near).findings().strongest)


def test_indicators_make_no_finding() -> None:
    rng = np.random.default_rng(11)
    level = rng.integers(0, 5, 400)
    table = {f"is_{name}": (level == i) * 1.0 for i, name in enumerate("abcde")}
    table |= {"kind": np.array(list("abcde"))[level], "band": level // 2 * 1.0}
    table["size"] = 5.0 * (level == 2) + rng.normal(size=400)
    found = scan(table).findings(10)
    said = " ".join(found.remarks)  # the last level is a value of both
    assert "is_a, is_b, is_c, is_d say where kind has one value" in said
    assert "is_e says where band has one value" in said
    of_size = [pair for pair in pairs((*found, *found.explained)) if "size" in pair]
    assert len(of_size) == 2  # with the kind, or an indicator of it, and with the band
    # Of codes as of text, and of a step that is no indicator there is a finding.
    year = rng.integers(2001, 2009, 400) * 1.0
    late = {"late": (year > 2004) * 1.0, "first": (year == 2001) * 1.0}
    found = scan({"year": year, **late}).findings()
    assert pairs(found) == [{"year", "late"}]
    assert found.strongest[0].remark == "late says where year is 2005 to 2008"
    # One value of many, as of those who earn nothing.
    pay = np.where(rng.random(400) < 0.6, rng.lognormal(size=400), 0)
    found = scan({"pay": pay, "idle": (pay == 0) * 1.0, "x": rng.normal(size=400)}).findings()
    assert not found.strongest
    assert found.explained[0].remark == "idle says where pay is 0"


def test_what_codes_have_is_said_to_be_theirs() -> None:
    """The tax of a state is that of its code, in each row."""
    rng = np.random.default_rng(13)
    state = rng.integers(1, 40, 500) * 1.0
    table = {"state": state, "tax": rng.integers(5, 20, 40)[state.astype(int)] * 1.0}
    (found,) = scan(table).findings().strongest
    assert found.remark == "each state has one tax"


def test_a_sorted_column_is_no_season() -> None:
    """Rows of one kind, and then those of another, repeat the row before the last."""
    rng = np.random.default_rng(14)
    kind = np.repeat([0.0, 1.0], 150)
    table = {"kind": kind, "size": 2 * kind + np.sort(rng.normal(size=300))}
    (found,) = scan(table).findings().strongest
    assert "repeats" not in found.remark


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("as_table", [False, True])
def test_values_that_differ_by_rounding_only(dtype: type, as_table: bool) -> None:
    rng = np.random.default_rng(12)
    x = rng.normal(size=(60, 4)).astype(dtype)
    up = x[:, 0] > 0
    eps = np.finfo(dtype).eps
    x[:, 1] = np.where(up, dtype(1), dtype(1) + eps)
    x[:, 2] = np.where(up, 0, eps / 4)
    x[:, 3] *= 1e-12  # tiny, but not made by rounding
    found = scan({f"x{i}": x[:, i] for i in range(4)} if as_table else x)
    assert set(found.skipped) == {"x1", "x2"}
    assert all("differ by rounding only" in reason for reason in found.skipped.values())


def test_results_as_data() -> None:
    rng = np.random.default_rng(14)
    x, noise = rng.normal(size=(2, 300))
    kind = np.where(x > 0, "a", "b")
    result = scan({"x": x, "y": x**2 + noise, "kind": kind, "one": np.ones(300)})
    found = result.findings()
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["strongest"][0]["a"] == found.strongest[0].a
    assert data["skipped"] == {"every value that is present is 1": ["one"]}
    assert "Strongest" in found._repr_html_()
    frame = result.to_frame()
    for of in found:
        row = frame[(frame.a == of.a) & (frame.b == of.b)].iloc[0]
        assert (row.low, row.high, row.remark) == (*of.interval, of.remark)
    whole = result.to_frame(intervals=True)
    assert whole[["low", "high"]].notna().all(axis=None)
    assert (whole.low <= whole.correlation).all()
    assert (whole.correlation <= whole.high).all()
    assert tuple(whole.loc[0, ["low", "high"]]) == result.interval(*whole.loc[0, ["a", "b"]])
    with pytest.raises(ValueError, match="n must be"):
        result.findings(0)
    with pytest.raises(ValueError, match="min_rows must be"):
        result.findings(min_rows=0)


def test_a_report_from_python(tmp_path: Any) -> None:
    rng = np.random.default_rng(23)
    x, noise = rng.normal(size=(2, 300))
    result = scan({"x": x, "y": x**2 + 0.5 * noise, "z": 2 * x + 0.1 * noise})
    texts = {}
    for by in ("rank_excess", "correlation"):
        result.report(tmp_path / "page.html", title="<my> page", by=by)
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert "<title>&lt;my&gt; page</title>" in page
        assert "Strongest" in page
        texts[by] = json.loads(page.split('id="data">')[1].split("</script>")[0])
    first = {by: [column["values"][0] for column in of["columns"][:2]] for by, of in texts.items()}
    levels = {by: [column["levels"] for column in of["columns"][:2]] for by, of in texts.items()}
    pair = {by: {levels[by][i][first[by][i]] for i in range(2)} for by in texts}
    assert pair == {"rank_excess": {"x", "y"}, "correlation": {"x", "z"}}
    result.report(tmp_path / "other.html")
    assert "<title>other.html</title>" in (tmp_path / "other.html").read_text(encoding="utf-8")


def test_a_loaded_scan_has_no_findings(tmp_path: Any) -> None:
    scan(np.random.default_rng(0).normal(size=(30, 3))).save(tmp_path / "scan.npz")
    with pytest.raises(ValueError, match="loaded from a file, which holds no data"):
        hgr_jax.Scan.load(tmp_path / "scan.npz").findings()


def test_findings_of_files_and_first_pairs(tmp_path: Any) -> None:
    rng = np.random.default_rng(15)
    x = rng.normal(size=(300, 6))
    x[:, 1] = x[:, 0] ** 2 + 0.1 * x[:, 1]
    pd.DataFrame(x, columns=list("abcdef")).to_csv(tmp_path / "t.csv", index=False)
    for found in (scan(tmp_path / "t.csv"), scan(x, top=5), scan(x, target="x0")):
        assert found.findings().not_monotone[0].hgr > 0.9


def test_what_missing_values_depend_on() -> None:
    rng = np.random.default_rng(22)
    age, other, area = rng.normal(size=(3, 1000))
    city = np.array([*"abcd"], object)[rng.integers(0, 4, 1000)]
    table = {"age": age, "area": area, "rent": area + other, "income": other, "city": city}
    complete = {name: column.copy() for name, column in table.items()}
    table["income"][age > 1] = np.nan
    table["city"][rng.random(1000) < 0.3] = None  # of nothing
    lost = (table["city"] == "a") & (rng.random(1000) < 0.5)
    table["rent"][lost] = table["area"][lost] = np.nan
    found = scan(table).findings()
    indicator = hgr_jax.hgr(age, np.isnan(table["income"]) * 1.0)
    first, second = found.remarks
    start = f"income is missing in {(age > 1).sum()} of 1,000 rows, and where it is depends on age"
    assert first.startswith(start)
    assert abs(float(first[-5:-1]) - indicator) < 0.1
    assert second.startswith(f"area and rent are missing in the same {lost.sum()} of 1,000 rows")
    assert "and where they are depends on city (HGR 0." in second
    assert first in repr(found)
    # A level of missing values is a value like the others.
    levels = scan(table, categories=hgr_jax.Categories(missing="level")).findings()
    assert [text[:-6] for text in levels.remarks] == [text[:-6] for text in found.remarks]
    assert not scan(complete).findings().remarks


def test_missing_values_of_no_reason_are_not_told() -> None:
    rng = np.random.default_rng(23)
    for rows in (60, 500):
        table = rng.normal(size=(rows, 12)).round(1)
        table[rng.random(table.shape) < rng.uniform(0, 0.5, 12)] = np.nan
        named: dict[str, Any] = dict(zip("abcdefghijkl", table.T, strict=True))
        named["rare"] = np.array([*"uv"])[rng.integers(0, 2, rows)]
        named["rare"][7] = "w"  # once
        assert not scan(named, test=None).findings().remarks
    few = np.where(np.arange(500) < 19, np.nan, rng.normal(size=500))
    assert not scan({"few": few, "place": np.arange(500.0) ** 2}).findings().remarks


def test_values_that_may_be_missing_ones_and_may_not() -> None:
    rng = np.random.default_rng(16)
    # Without the mark the other column is constant.
    boss = rng.random(300) < 0.1
    salary = np.where(boss, 250_000.0, rng.normal(30_000, 4_000, 300).round())
    table = {"salary": salary, "staff": np.where(boss, rng.integers(3, 30, 300), 0.0)}
    of = finding(scan(table).findings(), "salary", "staff")
    assert "250000 in" in of.remark
    assert not of.explained  # no usual mark: a boss may well have that salary
    # A price may be 9.99, and a guest may spend 0.
    price = np.where(rng.random(300) < 0.1, 9.99, rng.uniform(2, 4, 300).round(2))
    sold = 20.0 * (price == 9.99) + rng.poisson(9, 300)
    assert not finding(scan({"price": price, "sold": sold}).findings(), "price", "sold").explained


def test_steps_are_monotone() -> None:
    rng = np.random.default_rng(18)
    age = rng.integers(18, 80, 400) * 1.0
    table = {"age": age, "band": np.floor(age / 20), "adult": (age > 30) * 1.0}
    found = scan({**table, "wave": np.sin(age / 5)}).findings()
    assert pairs(found.not_monotone)[0] == {"age", "wave"}
    assert not any({"age", "band"} == pair for pair in pairs(found.not_monotone))
    assert not any({"age", "adult"} == pair for pair in pairs(found.not_monotone))


def test_a_part_that_goes_with_the_rest_of_a_total_is_related() -> None:
    rng = np.random.default_rng(23)
    mood, noise = rng.normal(size=300), rng.normal(size=(3, 300))
    items = np.clip(np.rint(3 + mood + noise), 1, 5)
    table = {f"q{i}": item for i, item in enumerate(items)} | {"score": items.sum(axis=0)}
    found = scan(table).findings(10)
    with_score = [of for of in found.strongest if "score" in (of.a, of.b)]
    assert len(with_score) == 1  # one of a total and its parts
    assert "too: p = " in with_score[0].remark
    assert sum({of.a, of.b} <= {"q0", "q1", "q2"} for of in found.strongest) >= 2


def test_sets_of_codes_are_told_from_answers() -> None:
    rng = np.random.default_rng(24)
    silent = rng.random(500) < 0.12
    far = [((97, 98, 99), 7), ((97, 98), 7), ((88,), 7), ((77, 88), 6), ((88, 99), 6)]
    for codes, high in (*far, ((-9, -8, -7), 7), ((7, 8, 9), 5)):
        share = 0.3 if high == 5 else 1  # codes next to the answers are told by their frequencies
        answers = rng.integers(1, high + 1, (2, 500)) * 1.0
        chosen = silent & (rng.random(500) < share)
        answers[:, chosen] = rng.choice(codes, (2, chosen.sum()))
        found = scan({"a": answers[0], "b": answers[1]}).findings()
        assert not any(True for _ in found)
        assert " ".join(f"--na {code}" for code in sorted(codes)) in " ".join(found.remarks)
    scale = rng.integers(1, 10, 500) * 1.0
    assert scan({"a": scale, "b": rng.normal(size=500)}).findings().remarks == ()


def test_a_panel() -> None:
    rng = np.random.default_rng(25)
    time, unit = np.repeat(np.arange(60), 8), np.tile(np.arange(8), 60)
    slow = [autoregression(rng, 60, 0.95)[time] for _ in range(2)]
    table = pd.DataFrame(
        {
            "month": pd.date_range("2001-01-01", periods=60, freq="MS")[time],
            "site": np.array(list("abcdefgh"))[unit],
            "moisture": slow[0] + 0.5 * rng.normal(size=480),
            "turbidity": slow[1] + 0.5 * rng.normal(size=480),
        }
    )
    table["algae"] = (table.turbidity - 1) ** 2 + rng.normal(size=480)
    found = scan(table.sample(frac=1, random_state=0)).findings()
    of = finding(found, "moisture", "turbidity")
    assert of.explained
    assert "by shifts in time" in of.remark
    assert "--order month --groups site" in " ".join(found.remarks)
    both = scan(table, order="month", groups="site")
    assert both["moisture", "turbidity"].pvalue > 0.05 > both["turbidity", "algae"].pvalue
    # Codes that number the units make no finding; few times, and many units, are exchanged.
    years = pd.DataFrame(
        {"year": np.tile(np.arange(2001, 2009), 60), "worker": np.repeat(np.arange(60), 8)}
    )
    years["hours"], years["pay"] = (
        rng.normal(size=(2, 60))[:, years.worker] + rng.normal(size=(2, 480)) / 4
    )
    years["bonus"] = years.pay**2 + rng.normal(size=480) / 4
    found = scan(years).findings()
    assert not any("worker" in pair for pair in pairs((*found, *found.explained)))
    assert not finding(found, "pay", "bonus").explained
    assert all({"hours", "pay"} != pair for pair in pairs(found))


def test_names_of_rows_that_are_left_out_tell_units_and_copies() -> None:
    rng = np.random.default_rng(28)
    country, year = np.repeat(np.arange(130), 8), np.tile(np.arange(2001, 2009), 130)
    level = rng.normal(size=(2, 130))[:, country]
    wealth, other = level + 0.1 * rng.normal(size=(2, 1040))
    table = pd.DataFrame({"country": [f"Land {i}" for i in country], "year": year})
    table = table.assign(
        wealth=wealth, other=other, life=level[0] ** 2 + 0.3 * rng.normal(size=1040)
    )
    result = scan(table)
    assert "country" in result.skipped
    found = result.findings()
    assert any("rows are a panel, 130 country by 8 year" in text for text in found.remarks)
    between = finding(found, "wealth", "life")  # it is of countries, and not of years
    assert not between.explained
    assert re.search(r"by exchanges of whole country series, 0\.\d+ within country", between.remark)
    assert all({"wealth", "other"} != pair for pair in pairs(found))
    # Rows that differ in their names alone are no copies.
    values = table[["wealth", "life"]].iloc[:30]
    twice = pd.concat([values, values]).assign(name=[f"n{i}" for i in range(60)])
    assert not any("copies" in text for text in scan(twice).findings().remarks)


def test_a_season_is_a_finding() -> None:
    rng = np.random.default_rng(26)
    month = np.tile(np.arange(1.0, 13), 30)
    warmth = 3 * np.sin(month / 2) + autoregression(rng, 360, 0.9)
    found = scan({"month": month, "warmth": warmth}).findings()
    of = finding(found, "month", "warmth")
    assert "month repeats every 12 rows" in of.remark
    assert not of.explained


def test_rows_that_lack_the_same_values_are_no_copies() -> None:
    rng = np.random.default_rng(27)
    table = {"year": np.tile(np.arange(6.0), 100), "x": rng.normal(size=600)}
    table["x"][rng.random(600) < 0.4] = np.nan
    table["y"] = np.where(np.isnan(table["x"]), np.nan, rng.normal(size=600))
    assert not any("copies" in text for text in scan(table).findings().remarks)


def test_totals_are_exact() -> None:
    rng = np.random.default_rng(19)
    x, y, z, noise = rng.normal(50, 9, (4, 300)).round(1)
    table = {"x": x, "y": y, "z": z, "all": (x + y + z).round(1), "near": x + y + 0.02 * noise}
    found = scan(table).findings(10)
    (of,) = (each for each in found.explained if "all" in (each.a, each.b))
    total, _, parts = of.remark.partition(" = ")
    assert (total, sorted(parts.split(" + "))) == ("all", ["x", "y", "z"])
    assert not any("near =" in each.remark for each in (*found, *found.explained))
    # Factors make no total, and a copy, in other units or not, does not hide one.
    found = scan({"x": x, "y": y, "score": x + 2 * y}).findings(10)
    assert not any("score =" in each.remark for each in (*found, *found.explained))
    table = {"men": x, "women": y, "people": x + y, "same": x + y, "thousands": (x + y) / 1000}
    found = scan(table).findings(10)
    assert any({"people", "same"} & {each.a, each.b} for each in found.explained)


def test_trends_and_short_series() -> None:
    said = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        table = {"trend": np.arange(300) + rng.normal(size=300), "walk": walk(rng, 300)}
        said += "order" in kinds(finding(scan(table).findings(), "trend", "walk"))
    assert said >= 4
    # The smallest of 36 shifts has p = 0.028, and explains nothing.
    rng = np.random.default_rng(20)
    x = autoregression(rng, 36, 0.9)
    y = x + 0.3 * autoregression(rng, 36, 0.9)
    assert not finding(scan({"x": x, "y": y}).findings(), "x", "y").explained


def test_an_explained_pair_hides_no_other_of_its_groups() -> None:
    rng = np.random.default_rng(21)
    men, women, noise = rng.normal(size=(3, 300)) * [[9], [2], [9]]
    table = pd.DataFrame({"people": men + women, "men": men, "women": women})
    for noisy in (1, 3):
        found = scan(table.assign(sales=men + noisy * noise)).findings(10)
        assert finding(found, "people", "men").explained
        assert any("sales" in pair for pair in pairs(found))


def test_a_level_of_many_and_a_value_of_one_row() -> None:
    rng = np.random.default_rng(22)
    city = rng.integers(0, 12, 300)
    nested = {"city": np.array([f"c{i}" for i in city]), "code": city // 4 * 1.0}
    found = scan({**nested, "x": rng.normal(size=300)}).findings()
    assert "against all others" not in repr(found)
    one = np.zeros(300)
    x = rng.normal(size=300)
    one[5], x[5] = 1.0, 40.0
    table = {"one": one, "x": x, "y": np.where(np.arange(300) == 5, 99.0, x)}
    found = scan(table, test=FEWER).findings()
    assert all({"one"} - pair for pair in pairs(found))
