"""The report of a scan: what is in the file, and what a real browser makes of it."""

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
    texts,
)

from hgr_jax.scanning.html.page import Curve, Detail, HtmlPage, render


def exact(page: Any, column: int) -> list[float]:
    cells = page.locator(f"#pairs td:nth-child({column + 1})")
    titles = cells.evaluate_all("cells => cells.map(cell => cell.title)")
    return [math.nan if title == "none" else float(title) for title in titles]


class TestTable:
    def test_pages(self, show: Open) -> None:
        page = show(scan(NAMES))
        assert page.title() == "A scan"
        assert page.locator("h1").text_content() == "A scan"
        assert page.locator("#summary dd").all_text_contents() == ["1,993", "30"]
        assert count(page) == "435 of 435 pairs"
        assert page.locator("#headers th").all_text_contents() == [
            f"{header} " for header in HEADERS
        ]
        values = exact(page, 2)
        assert values == sorted(values, reverse=True)
        assert texts(page, 2)[0] == f"{values[0]:.3f}"
        assert texts(page, 5)[0] == f"{int(exact(page, 5)[0]):,}"
        small = next(i for i, value in enumerate(exact(page, 4)) if value < 1e-6)
        assert float(texts(page, 4)[small]) == float(f"{exact(page, 4)[small]:.1e}")
        seen = [texts(page, 5)]
        assert page.locator("#previous").is_disabled()
        for _ in range(2):
            page.locator("#next").click()
            seen.append(texts(page, 5))
        assert page.locator("#page").text_content() == "page 3 of 3"
        assert page.locator("#next").is_disabled()
        assert [len(rows) for rows in seen] == [200, 200, 35]
        assert len({n for rows in seen for n in rows}) == 435
        page.locator("#search").fill("column 07")
        assert count(page) == "29 of 435 pairs"
        assert page.locator("#pager").is_hidden()

    def test_pvalues_at_the_floor_of_their_method_are_below_it(self, show: Open) -> None:
        made = scan(["x", "y", "z"])
        rows = [
            [*row[:4], p, *row[5:]] for row, p in zip(made.rows, (1e-8, 2e-8, 1e-20), strict=True)
        ]
        page = show(dataclasses.replace(made, rows=rows))
        assert sorted(texts(page, 4)) == ["2.0e-8", "<1e-12", "<1e-8"]

    def test_sorts_numbers_with_none_last(self, show: Open) -> None:
        page = show(scan(NAMES))
        header = page.locator("#headers th").nth(4)
        header.locator("button").click()
        assert header.get_attribute("aria-sort") == "ascending"  # p-values
        values = exact(page, 4)
        assert values == sorted(values)
        assert values[0] < 1e-15
        header.locator("button").press("Enter")
        assert header.get_attribute("aria-sort") == "descending"
        values = exact(page, 4)
        assert values == sorted(values, reverse=True)
        pearson = page.locator("#headers th").nth(3)
        for direction in ("descending", "ascending"):
            pearson.locator("button").click()
            assert pearson.get_attribute("aria-sort") == direction
            assert header.get_attribute("aria-sort") is None
            assert not np.isnan(exact(page, 3)).any()
            page.locator("#last").click()
            missing = np.isnan(exact(page, 3))
            assert (missing.sum(), missing.size) == (35, 35)
            page.locator("#previous").click()
            missing = np.isnan(exact(page, 3))
            assert (missing[:-9].sum(), missing[-9:].sum()) == (0, 9)
            assert texts(page, 3)[-1] == "\N{EN DASH}"
            page.locator("#first").click()


class TestHeatMap:
    def test_tells_values_and_filters_the_table(self, show: Open) -> None:
        report = scan(NAMES)
        page = show(report)
        x, y = cell(page, 5, 11)
        page.locator("#map").hover(position={"x": x, "y": y})
        value = np.asarray(report.correlation)[5, 11]
        assert page.locator("#tip p").all_text_contents() == [
            f"column 05 {TIMES} column 11",
            f"KB {value:.3f}",
            f"|Pearson| {value / 2:.3f}",
        ]
        page.mouse.move(2, 2)
        assert page.locator("#tip").is_hidden()
        click_cell(page, 21, 4)
        assert count(page) == "1 of 435 pairs"
        assert (texts(page, 0), texts(page, 1)) == ([NAMES[4]], [NAMES[21]])
        click_cell(page, 7, 7)  # on the diagonal: all pairs of a column
        assert count(page) == "29 of 435 pairs"
        page.locator("#pair").click()
        assert count(page) == "435 of 435 pairs"


class TestDetails:
    def test_marks_are_drawn(self, show: Open) -> None:
        page = show(scan(NAMES, details=[detail(NAMES[0], NAMES[1])]))
        card = page.locator(".detail")
        assert card.locator("h3").text_content() == f"column 00 {TIMES} column 01"
        assert card.locator(".measures").text_content() == "HGR 1.000"
        captions = card.locator("figcaption").all_text_contents()
        assert captions == ["Data", "f(column 00)", "g(column 01)"]
        for panel, kind in enumerate(("points", "curve", "curve")):
            marks = card.locator("figure").nth(panel).locator(f".{kind}")
            paths = marks.evaluate_all("marks => marks.map(mark => mark.getAttribute('d'))")
            assert "".join(paths).count("h.01") == (200 if kind == "points" else 0)
            box = marks.first.bounding_box()
            assert min(box["width"], box["height"]) > 50
        click_cell(page, 0, 1)
        assert count(page) == "1 of 435 pairs"
        assert page.locator("#pairs a").get_attribute("href") == "#detail-0"

    def test_categories(self, show: Open) -> None:
        levels = ["low", "</svg><script>alert(1)</script>", "high"]
        page = show(scan(["level", "value"], details=[category("level", "value", levels)]))
        bars = page.locator("figure").nth(1).locator("rect")
        assert bars.count() == 3
        assert bars.first.locator("title").text_content() == "low: -1.000"
        names = page.locator("figure").nth(0).locator("text > title").all_text_contents()
        assert set(levels) <= set(names)
        boxes = page.locator("figure").nth(0).locator(".box title").all_text_contents()
        assert boxes[0] == "low: median 3.000, middle half 1.000 to 5.000, 90% 0.000 to 6.000"
        assert len(boxes) == 3

    def test_awkward_values(self, show: Open) -> None:
        nan, huge = math.nan, 1e308
        curve = Curve([-huge, huge], [nan, 1.0])
        points = [(-huge, 1e-300), (huge, 2e-300), (nan, 1e-300)]
        constant = Curve([5.0], [0.0])
        pairs = [
            Detail("x", "y", points, curve, Curve([1e-300, 2e-300], [0.0, 1.0])),
            Detail("x", "y", [(5.0, 5.0)] * 3, constant, constant),
            Detail("x", "y", [], Curve([], []), Curve([], [])),
        ]
        page = show(scan(["x", "y"], details=pairs))
        assert page.locator(".detail").count() == 3
        assert "NaN" not in page.locator("#details").evaluate("node => node.outerHTML")


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
            details=[Detail("x", "y", [(nan, 1.0)], Curve([0.0], [nan]), Curve([], []))],
        )
        data = embedded(render(report))
        assert data["above"] == [0.25, 0.5, None]  # (x, y) only below the diagonal
        assert [column["values"] for column in data["columns"]] == [[0], [0], *[[None]] * 5]
        assert data["details"][0]["sides"][0]["values"] == [None]


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
        assert page.locator(".detail svg").count() == 3


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
