"""The findings in the report, and the pictures of the data, in a real browser."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import jax
import numpy as np
import pytest
from html_support import NAMES, Open, click_cell, count, scan

import hgr_jax
from hgr_jax.scanning.html.page import HtmlPage, Sample, render
from hgr_jax.scanning.remarks import Remark
from hgr_jax.scanning.report import as_report

ROWS = 2000
COPIES = ("km", "miles", "furlongs", "leagues", "paces", "yards")
WIDTHS = pytest.mark.parametrize("width", [390, 1400])


@pytest.fixture(scope="module")
def found() -> hgr_jax.Scan:
    """A table with copies, categories, and a relation that is not monotone."""
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(2, ROWS))
    level = rng.integers(0, 3, ROWS)
    table: dict[str, Any] = {name: (i + 1) * x + i for i, name in enumerate(COPIES)}
    table |= {f"a column with a long name, {i}": rng.normal(size=ROWS) for i in range(2)}
    table |= {"square": x**2 + 0.3 * noise, "size": level + 0.5 * rng.normal(size=ROWS)}
    table["species"] = np.array(["Adelie", "Gentoo", "Chinstrap"], object)[level]
    table["island"] = np.where((level == 1) | (noise > 1), "Biscoe", "Dream").astype(object)
    with jax.enable_x64(True):
        return hgr_jax.scan(table)


@pytest.fixture(scope="module")
def page(found: hgr_jax.Scan) -> HtmlPage:
    with jax.enable_x64(True):
        return as_report(found, "penguins")


def is_in_view(node: Any) -> bool:
    box = node.evaluate("node => node.getBoundingClientRect().toJSON()")
    return bool(box["bottom"] > 0 and box["top"] < node.evaluate("() => innerHeight"))


class TestFindings:
    @WIDTHS
    def test_rows_link_to_their_pictures(self, show: Open, page: HtmlPage, width: int) -> None:
        opened = show(page, viewport={"width": width, "height": 844})
        links = opened.locator("#findings-section tbody a")
        findings = [finding for _, listed in page.findings for finding in listed]
        assert links.all_text_contents() == [f"{of.a} and {of.b}" for of in findings]
        for i, press in ((len(findings) - 1, "click"), (2, "Enter")):
            links.nth(i).click() if press == "click" else links.nth(i).press(press)
            card = opened.locator(links.nth(i).get_attribute("href"))
            assert is_in_view(card)
            assert findings[i].a in card.locator("h3").text_content()

    def test_nothing_is_clipped(self, show: Open, page: HtmlPage) -> None:
        width = 1400  # on a phone the tables scroll
        opened = show(page, viewport={"width": width, "height": 844})
        cells = opened.locator("#findings-section :is(th, td):visible")
        clipped = "all => all.filter(node => node.scrollWidth > node.clientWidth + 1).length"
        assert cells.count() > 40
        assert cells.evaluate_all(clipped) == 0
        right = "all => Math.max(...all.map(node => node.getBoundingClientRect().right))"
        assert cells.evaluate_all(right) <= width
        clipped = "node => node.scrollWidth > node.clientWidth"
        assert not opened.locator("#scroll").evaluate(clipped)
        assert opened.evaluate("document.documentElement.scrollHeight") <= 6 * 844

    def test_texts_are_never_markup(self, page: HtmlPage) -> None:
        _, (first, *_) = page.findings[0]
        bad = dataclasses.replace(first, a="<tt>", remarks=(Remark("order", "<em>"),))
        html = render(dataclasses.replace(page, findings=[("<big>", [bad])], copies=[("<s>",)]))
        assert not re.search("<(tt|em|big|s)>", html)


class TestPictures:
    def test_kinds_of_pictures(self, show: Open, page: HtmlPage) -> None:
        opened = show(page)
        for pair, marks in (
            ({"km", "square"}, {"median": 2, "band": 1, "points": 10}),
            ({"species", "size"}, {"box": 3, "whisker": 3, "curve": 3}),
            ({"species", "island"}, {"share": 6}),
        ):
            at = next(i for i, of in enumerate(page.details) if {of.a, of.b} == pair)
            data = opened.locator(f"#detail-{at} figure").first
            kinds = ("median", "band", "points", "box", "whisker", "curve", "share")
            found = {kind: data.locator(f".{kind}").count() for kind in kinds}
            assert {kind: number for kind, number in found.items() if number} == marks
        pair = page.details[at]
        one, other = pair.f.x[0], pair.g.x[0]
        of_one = [b for a, b in pair.points if a == one]
        both = of_one.count(other)
        turns = [sum(len(side.turns) for side in (of.f, of.g)) for of in page.details]
        drawn = [opened.locator(f"#detail-{i} .turn").count() for i in range(len(turns))]
        assert drawn == turns
        assert sum(turns) > 0
        told = data.locator(".share title").first.text_content()
        assert told == f"{other} in {one}: {both} ({both / len(of_one):.0%})"

    def test_the_picture_of_a_cell_is_in_view(self, show: Open, page: HtmlPage) -> None:
        for width, height in ((1400, 900), (390, 844)):
            opened = show(page, viewport={"width": width, "height": height})
            i, j = sorted(page.names.index(name) for name in ("km", "square"))
            click_cell(opened, i, j)
            opened.wait_for_timeout(900)
            assert count(opened).startswith("1 of ")
            facts = opened.locator("#any-facts").text_content()
            hgr, below = (np.asarray(m)[i, j] for m in (page.correlation, page.below))
            assert facts == f"HGR {hgr:.3f} · monotone part {below:.3f} f and g"
            names = opened.locator("#any-picture .label > title").all_text_contents()
            assert set(names) == {"km", "square"}
            assert is_in_view(opened.locator("#any-picture svg"))
            label = opened.locator("#any-picture svg").get_attribute("aria-label")
            assert re.match(r"600 rows; across (km|square), up (km|square)", label)
            card = opened.locator("#any-facts a").get_attribute("href")
            opened.locator("#any-facts a").click()
            assert is_in_view(opened.locator(card))

    def test_a_row_of_the_table_shows_its_picture(self, show: Open) -> None:
        samples = [Sample(name, list(range(9))) for name in NAMES[:4]]
        opened = show(dataclasses.replace(scan(NAMES[:4]), samples=samples), color_scheme="dark")
        row = opened.locator("#pairs tr").nth(4)
        names = [row.locator("td").nth(i).get_attribute("title") for i in (0, 1)]
        row.locator("a").press("Enter")
        chosen = [opened.locator(f"#any-{side}").input_value() for side in "ab"]
        assert [NAMES[int(place)] for place in chosen] == names
