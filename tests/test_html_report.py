"""The HTML report of a scan: what is in the file, and what a real browser makes of it."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from typing import Any

import numpy as np
import pytest
from html_support import (
    HEADERS,
    NAMES,
    TIMES,
    Open,
    category,
    cell,
    click_cell,
    count,
    detail,
    full_names,
    scan,
)

from hgr_jax.scanning.html.page import Curve, Detail, HtmlPage, render

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "-->]]><!--<script>",
    "&lt;b&gt; & \"quoted\" 'too'",
    "javascript:alert(1)",
    "${alert(1)} $data {{x}} \u2028\u2029",
    f"ünïcode {TIMES} 名前 \u202e right to left",
    "__proto__",
)


def embedded(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


class TestFile:
    def test_loads_nothing(self) -> None:
        page = render(scan(["x", "y"]))
        assert "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'" in page
        assert not re.findall(r"(?:src|href)\s*=\s*[\"']?\w+:|url\(|@import|<link|<img", page)
        addresses = set(re.findall(r"https?://[\w./]+", page))
        assert addresses <= {"http://www.w3.org/2000/svg"}  # the name of a namespace
        assert "innerHTML" not in page
        assert "insertAdjacent" not in page

    def test_no_text_ends_the_script_or_becomes_markup(self) -> None:
        report = scan(HOSTILE, title=HOSTILE[1], details=[detail(*HOSTILE[:2])])
        page = render(report)
        assert page.count("</script>") == 2
        assert "alert(1)>" not in page
        assert "&lt;/script&gt;&lt;img" in page  # the title
        block = page.partition('id="data">')[2].partition("</script>")[0]
        assert not set("<>&\u2028\u2029") & set(block)
        data = embedded(page)
        assert data["names"] == list(HOSTILE)
        assert data["columns"][0]["levels"] == list(dict.fromkeys(row[0] for row in report.rows))

    def test_what_is_not_finite_becomes_null(self) -> None:
        nan, infinity = math.nan, math.inf
        report = dataclasses.replace(
            scan(["x", "y", "z"]),
            correlation=[[1, nan, 0.5], [0.25, 1, nan], [nan, infinity, 1]],
            rows=[("x", "y", nan, infinity, -infinity, None, None)],
            details=[
                Detail("x", "y", [(nan, 1.0)], Curve([0.0], [nan]), Curve([], []), [(1.0, nan)])
            ],
        )
        data = embedded(render(report))
        assert data["above"] == [0.25, 0.5, None]  # (x, y) only below the diagonal
        assert [column["values"] for column in data["columns"]] == [[0], [0], *[[None]] * 5]
        assert data["details"][0]["sides"][0]["values"] == [None]

    def test_headers_say_what_they_mean(self) -> None:
        page = dataclasses.replace(
            scan(["x", "y"]),
            explanations={"KB": "the <measure>"},
            probabilities=("p-value",),
            ordered_by="KB",
        )
        columns = {column["name"]: column for column in embedded(render(page))["columns"]}
        assert columns["KB"]["help"] == "the <measure>"
        assert columns["KB"]["ordering"]
        assert columns["p-value"]["smallest"] == 1e-12
        assert not columns["p-value"]["ordering"]
        assert columns["KB"]["smallest"] is None


class TestSafety:
    def test_names_are_text_everywhere(self, show: Open) -> None:
        details = [detail(HOSTILE[0], HOSTILE[1]), category(HOSTILE[2], HOSTILE[3], HOSTILE[:3])]
        report = dataclasses.replace(
            scan(HOSTILE, details=details, title=HOSTILE[1]),
            skipped=[(name, name) for name in HOSTILE],
            summary={HOSTILE[0]: HOSTILE[1]},
            columns=(*HEADERS[:-1], HOSTILE[1]),
            measure=HOSTILE[0],
        )
        page = show(report)
        assert page.title() == page.locator("h1").text_content() == HOSTILE[1]
        assert page.locator("#summary dd").text_content() == HOSTILE[1]
        assert set(full_names(page, 0)) | set(full_names(page, 1)) == set(HOSTILE)
        assert page.locator("#headers th").last.text_content() == f"{HOSTILE[1]} "
        for i, j in ((0, 1), (2, 3), (7, 5)):
            x, y = cell(page, i, j)
            page.locator("#map").hover(position={"x": x, "y": y})
            first, second = sorted((i, j))
            names = page.locator("#tip p").first.text_content()
            assert names == f"{HOSTILE[first]} {TIMES} {HOSTILE[second]}"
            click_cell(page, i, j)
            assert count(page) == "1 of 28 pairs"
            assert page.locator("#pair").text_content().startswith(names)
        assert page.locator("h3").first.text_content() == f"{HOSTILE[0]} {TIMES} {HOSTILE[1]}"
        for part in ("dt", "dd"):
            assert page.locator(f"#skipped {part}").all_text_contents() == list(HOSTILE)
        for tag, expected in (("img", 0), ("script", 2), ("[onerror]", 0)):
            assert page.locator(tag).count() == expected

    def test_lone_surrogates_are_written_and_shown(self, show: Open) -> None:
        name = "half \ud83d of a pair"
        report = scan([name, "x", "y"], title=name, details=[detail(name, "x")])
        assert embedded(render(report))["names"] == [name, "x", "y"]
        page = show(report)
        page.locator("#search").fill("half")
        assert count(page) == "2 of 3 pairs"
        assert page.locator(".detail svg").count() == 4


class TestShapes:
    def test_nothing_measured(self, show: Open) -> None:
        page = show(HtmlPage("Nothing", {}, [], [], np.zeros((0, 0)), HEADERS, []))
        assert count(page) == "0 of 0 pairs"
        assert page.locator("#none").text_content() == "No pair was measured."
        page.locator("#headers button").nth(2).click()
        page.locator("#search").fill("x")
        for part in ("map", "details", "skipped"):
            assert page.locator(f"#{part}-section").is_hidden()
        page = show(dataclasses.replace(scan(["only"]), skipped=[("other", "constant")]))
        assert page.locator("#map-section").is_hidden()
        assert page.locator("#skipped dt").all_text_contents() == ["other"]

    @pytest.mark.parametrize("width", [320, 800, 2000])
    def test_fits_its_window(self, show: Open, width: int) -> None:
        long = "a_very_long_name_without_any_space_" * 4
        names = [long, *NAMES[:5]]
        details = [detail(long, NAMES[0]), category(long, NAMES[1], [long, "b"])]
        report = dataclasses.replace(
            scan(names, details=details, title=long), summary={long: long}, skipped=[(long, long)]
        )
        page = show(report, viewport={"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        click_cell(page, 0, 1)
        page.wait_for_timeout(800)  # the page scrolls to the row, softly
        assert page.locator("#count").evaluate(
            "node => node.getBoundingClientRect().bottom <= innerHeight"
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.set_viewport_size({"width": 360, "height": 800})
        page.wait_for_function("document.querySelector('#map').clientWidth < 360")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
