"""The columns in the report, in a real browser: axes of dates, copies, summaries, any two."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from html_support import Open, detail, scan

import hgr_jax
from hgr_jax.scanning.html.page import HtmlPage, Sample
from hgr_jax.scanning.report import as_report, profiles_of

ROWS = 400
HOSTILE = "</script><img src=x onerror=alert(1)>"


def day(text: str) -> float:
    return datetime.datetime.fromisoformat(f"{text}+00:00").timestamp()


def table() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=ROWS)
    species = rng.choice(["Adelie", "Gentoo", "Chinstrap"], ROWS).astype(object)
    return {
        "day": np.datetime64("2020-03-01") + np.arange(ROWS).astype("m8[D]"),
        "km": 10 * x,
        "miles": 6.2 * x + 1,
        "pace": np.exp(x),
        "cost": x**2 + 0.1 * rng.normal(size=ROWS),
        "age": np.where(np.arange(ROWS) % 50 == 3, -99.0, rng.integers(18, 80, ROWS)),
        "code": rng.integers(1, 5, ROWS),
        "id": 1000 + rng.permutation(ROWS),
        "species": species,
        "Art": np.array([{"Adelie": "A", "Gentoo": "B"}.get(s, "C") for s in species], object),
        "note": np.array([f"text {i}" for i in range(ROWS)], object),
        "planet": np.full(ROWS, 3.0),
        HOSTILE: rng.normal(size=ROWS),
    }


@pytest.fixture(scope="module")
def found() -> hgr_jax.Scan:
    with jax.enable_x64(True):
        return hgr_jax.scan(table(), h=2, k=2, test=hgr_jax.Test(permutations=19))


@pytest.fixture(scope="module")
def page(found: hgr_jax.Scan) -> HtmlPage:
    with jax.enable_x64(True):
        return as_report(found, "columns")


def ticks(page: Any, figure: int) -> list[str]:
    """The labels of the axis across."""
    marks = page.locator(".detail figure").nth(figure).locator('text[text-anchor="middle"] title')
    return marks.all_text_contents()[:-2]  # the names of the axes


def test_a_page_of_very_many_pairs_has_the_first(
    found: hgr_jax.Scan, show: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hgr_jax.scanning.report.MAX_LISTED", 30)
    monkeypatch.setattr("hgr_jax.scanning.report.MAX_MAPPED", 6)
    with jax.enable_x64(True):
        page = as_report(found, "columns")
    ordered = [(pair.a, pair.b) for pair in found.top(len(found))]
    assert [tuple(row[:2]) for row in page.rows] == ordered[:30]
    first = dict.fromkeys(name for pair in ordered for name in pair)
    assert set(page.names) == set(list(first)[:6])
    assert np.shape(page.correlation) == (6, 6)
    i, j = (found.names.index(name) for name in page.names[:2])
    assert page.correlation[0, 1] == found.correlation[i, j]  # type: ignore[index,call-overload]
    opened = show(page)
    listed, mapped = opened.locator("#left-out p").all_text_contents()
    assert listed.startswith(f"The table has the first 30 of {len(found)} ")
    assert mapped == "The heat map is of 6 columns, those of the first pairs."
    count = f"30 of 30 pairs, the first of {len(found)}"
    assert opened.locator("#count").text_content() == count
    for part, other in zip(("a", "b"), ordered[-1], strict=True):
        opened.locator(f"#any-{part}").select_option(label=other)
    opened.locator("#any-table").click()
    assert opened.locator("#none").text_content() == (
        "This pair is not listed here, or was not measured."
    )


@pytest.mark.parametrize(
    ("first", "days", "expected"),
    [
        ("2000-01-01", 7305, ["2001-05-12", "2010-01-01", "2018-08-22"]),
        ("2020-02-20", 20, ["2020-02-21", "2020-03-01", "2020-03-10"]),
        ("2024-05-01", 1.5, ["05-01 02:26", "05-01 18:00", "05-02 09:33"]),
    ],
)
def test_axes_of_dates(show: Open, first: str, days: float, expected: list[str]) -> None:
    pair = detail("when", "y")
    points = [((x + 1) / 2 * days, y) for x, y in pair.points]
    f = dataclasses.replace(pair.f, x=[(x + 1) / 2 * days for x in pair.f.x])
    pair = dataclasses.replace(pair, points=points, f=f, dates=(day(first), None))
    opened = show(scan(["when", "y"], details=[pair]))
    assert ticks(opened, 0) == expected
    assert ticks(opened, 1) == expected  # of f


def test_pictures_are_of_the_findings(show: Open, page: HtmlPage) -> None:
    pairs = [frozenset((one.a, one.b)) for one in page.details]
    listed = {frozenset((one.a, one.b)) for _, findings in page.findings for one in findings}
    assert len(set(pairs)) == len(pairs)
    assert set(pairs) == listed
    assert sum("cost" in pair and bool(pair & {"km", "miles", "pace"}) for pair in pairs) == 1
    assert len(page.rows) == page.pairs == 55  # all pairs are in the table
    assert page.left_out == []
    opened = show(page)
    assert opened.locator("#left-out p").count() == 0
    assert not any("null" in cell for cell in opened.locator("#pairs td").all_text_contents())


def test_profiles(page: HtmlPage) -> None:
    of = {profile.name: profile for profile in page.profiles}
    assert list(of) == list(table())
    assert (of["day"].kind, of["day"].values) == ("date", "2020-03-01 to 2021-04-04")
    assert (of["km"].kind, of["km"].alerts) == ("number", [])
    assert of["age"].alerts == ["-99 in 8 rows, far from the rest: a missing value?"]
    assert "--categories code makes levels" in of["code"].alerts[0]
    assert "an identifier?" in of["id"].alerts[0]
    assert (of["note"].kind, of["note"].alerts) == (
        "left out",
        ["names or identifiers: 400 different texts in 400 rows"],
    )
    assert of["planet"].alerts == ["every value that is present is 3"]
    species = of["species"]
    assert (species.kind, species.distinct, len(species.bars)) == ("category", 3, 3)
    assert sum(species.bars) == sum(of["km"].bars) == ROWS
    # Amounts are no identifiers.
    people = np.unique(np.exp(np.random.default_rng(0).normal(10, 2, 300)).round())
    data = {"people": people, "number": 1e5 + np.arange(len(people))}
    amounts, numbers = profiles_of(hgr_jax.scan(data, h=1, k=1, test=None))
    assert amounts.alerts == []
    assert "an identifier?" in numbers.alerts[0]
    assert numbers.values == f"100,000 to {99_999 + len(people):,}"


def test_profiles_beside_weights() -> None:
    """A column that is in no pair does not shift the others."""
    rng = np.random.default_rng(0)
    columns = {
        "weight": rng.uniform(1, 2, 60),
        "name": [f"n{i}" for i in range(60)],
        "x": rng.normal(size=60),
        "kind": rng.choice(["a", "b", "c"], 60),
    }
    table = pd.DataFrame(columns)
    for options in ({}, {"weights": "weight"}, {"weights": "weight", "target": "x"}):
        found = hgr_jax.scan(table, **options)
        of = {each.name: each for each in profiles_of(found)}
        assert (of["name"].kind, of["kind"].distinct) == ("left out", 3)


def test_the_summary_of_columns(show: Open, page: HtmlPage) -> None:
    opened = show(page)
    rows = opened.locator("#profiles tr")
    assert rows.count() == len(table())
    assert opened.locator("#profiles th").all_text_contents()[-1].startswith("</script>")
    assert opened.locator("img").count() == 0
    assert rows.nth(1).locator(".bars rect").count() == 16
    opened.locator("#profiles-section > summary").click()
    opened.locator("#only-alerts").check()
    assert rows.nth(1).is_hidden()
    assert rows.nth(5).is_visible()
    assert "with something to look at" in opened.locator("#profiles-count").text_content()


def test_any_two_columns(show: Open, page: HtmlPage) -> None:
    opened = show(page)
    picture = opened.locator("#any-picture")
    opened.locator("#any-a").select_option(label="km")
    opened.locator("#any-b").select_option(label="miles")
    assert picture.locator("figcaption").text_content() == f"{ROWS} rows"
    marks = picture.locator(".points").evaluate_all("all => all.map(m => m.getAttribute('d'))")
    assert "".join(marks).count("h.01") == ROWS
    opened.locator("#any-b").select_option(label="species")
    assert picture.locator("figcaption").text_content() == f"{ROWS} rows"
    assert picture.locator(".box").count() == 3
    opened.locator("#any-a").select_option(label="day")
    assert "2021-02-26" in picture.locator("text > title").all_text_contents()
    opened.locator("#any-table").click()
    assert opened.locator("#count").text_content() == "1 of 55 pairs"
    labels = opened.locator("#any-a option").all_text_contents()
    assert HOSTILE in labels
    assert "note" not in labels  # it was left out
    nan = float("nan")
    samples = [Sample("x", [1.0, nan, 3.0]), Sample("c", ["b", "a", ""], ("a", "b"))]
    opened = show(dataclasses.replace(scan(["x", "c"]), samples=samples))
    assert opened.locator("#any-picture figcaption").text_content() == "1 row"
