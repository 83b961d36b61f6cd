"""The report of a scan in a real browser: table, heat map, details."""

from __future__ import annotations

import dataclasses
import math
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
    scan,
    texts,
)

from hgr_jax.scanning.html.page import Curve, Detail


def exact(page: Any, column: int) -> list[float]:
    cells = page.locator(f"#pairs td:nth-child({column + 1})")
    titles = cells.evaluate_all("cells => cells.map(cell => cell.title)")
    return [math.nan if title == "none" else float(title) for title in titles]


def pixel(page: Any, i: int, j: int) -> list[int]:
    """The colour of a cell, near a corner, where no number is written."""
    x, y = cell(page, i, j)
    size = cell(page, i, j + 1)[0] - x
    code = """(canvas, [x, y]) => {
        const copy = new OffscreenCanvas(1, 1).getContext("2d");
        copy.drawImage(canvas, -x, -y);
        return [...copy.getImageData(0, 0, 1, 1).data].slice(0, 3);
    }"""
    return page.locator("#map").evaluate(code, [round(x - 0.4 * size), round(y - 0.4 * size)])


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
        assert texts(page, 4)[small] == f"{exact(page, 4)[small]:.1e}"
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

    def test_filters_as_one_types(self, show: Open) -> None:
        page = show(scan(["Median Income", "income of women", "age", "Women, share", "Größe"]))
        for typed, pairs in (("INCOME", 7), ("income women", 5), ("größe age", 1), ("absent", 0)):
            page.locator("#search").fill(typed)
            assert count(page) == f"{pairs} of 10 pairs"
            for pair in zip(texts(page, 0), texts(page, 1), strict=True):
                together = " ".join(pair).lower()
                assert all(word in together for word in typed.lower().split())
        assert page.locator("#none").is_visible()
        page.locator("#search").fill("")
        assert len(texts(page, 0)) == 10
        page = show(scan([f"x{i}" for i in range(12)]))  # names with numbers, in their order
        page.locator("#headers button").first.click()
        numbers = [int(text[1:]) for text in texts(page, 0)]
        assert numbers == sorted(numbers)
        assert numbers[-1] == 10

    def test_long_names_keep_both_ends(self, show: Open) -> None:
        long = [f"first {'x' * 300} last {i}" for i in range(3)]
        page = show(scan(long, details=[detail(long[0], long[1])]))
        seen = {*texts(page, 0), *texts(page, 1)}
        assert seen == {f"first xxxxx…xxx last {i}" for i in range(3)}
        labels = page.locator(".detail svg .label").evaluate_all(
            "labels => labels.map(label => label.firstChild.textContent)"
        )
        heads = [page.locator(".detail h3").text_content(), *labels]
        assert all("…" in text and len(text) < 130 for text in heads if text not in "fg")
        assert heads[1].startswith("first ")
        assert heads[1].endswith(" last 0")
        assert page.locator(".detail svg .label title").first.text_content() == long[0]
        click_cell(page, 0, 1)
        assert len(page.locator("#pair").text_content()) < 130
        assert count(page) == "1 of 3 pairs"


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

    @pytest.mark.parametrize(("scheme", "grey"), [("light", 0xB4), ("dark", 0x5A)])
    def test_colours(self, show: Open, scheme: str, grey: int) -> None:
        correlation = np.array([[1, 0.1, np.nan], [0.1, 1, 0.9], [np.nan, 0.9, 1]])
        pearson = np.array([[1, 0.5, 0.5], [0.5, 1, np.nan], [0.5, np.nan, 1]])
        report = dataclasses.replace(scan(list("abc")), correlation=correlation, below=pearson)
        page = show(report, color_scheme=scheme)
        assert pixel(page, 0, 2) == pixel(page, 2, 1) == [grey] * 3
        brightness = [sum(pixel(page, *place)) for place in ((0, 1), (1, 0), (1, 2))]
        assert brightness == sorted(set(brightness))  # 0.1, 0.5, 0.9
        assert pixel(page, 1, 0) == pixel(page, 2, 0)
        click_cell(page, 0, 2)
        assert count(page) == "1 of 3 pairs"
        # Lightness grows evenly.
        colors = np.array(page.evaluate("ramp")) / 255
        linear = np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)
        lightness = np.cbrt(linear @ [0.2126, 0.7152, 0.0722])  # of CIELAB, but for its scale
        assert (np.diff(lightness[::5]) > 0).all()
        np.testing.assert_allclose(lightness, np.linspace(*lightness[[0, -1]], 256), atol=0.05)


class TestDetails:
    def test_marks_are_drawn(self, show: Open) -> None:
        page = show(scan(NAMES, details=[detail(NAMES[0], NAMES[1])]))
        card = page.locator(".detail")
        assert card.locator("h3").text_content() == f"column 00 {TIMES} column 01"
        assert card.locator("svg").count() == 4
        captions = card.locator("figcaption").all_text_contents()
        assert captions[0].startswith("Data: r = ")
        assert captions[1:3] == ["f(column 00)", "g(column 01)"]
        assert captions[3] == "Transformed: r = 1.000"
        assert card.locator(".note").text_content() == "f(column 00) = column 00^2"
        for panel, kind in enumerate(("points", "curve", "curve", "points")):
            marks = card.locator("figure").nth(panel).locator(f".{kind}")
            paths = marks.evaluate_all("marks => marks.map(mark => mark.getAttribute('d'))")
            assert "".join(paths).count("h.01") == (200 if kind == "points" else 0)
            box = marks.first.bounding_box()
            assert min(box["width"], box["height"]) > 50
        card.locator("button").click()
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
            Detail("x", "y", points, curve, Curve([1e-300, 2e-300], [0.0, 1.0]), [(nan, 0.0)] * 3),
            Detail("x", "y", [(5.0, 5.0)] * 3, constant, constant, [(0.0, 0.0)] * 3),
            Detail("x", "y", [], Curve([], []), Curve([], []), []),
        ]
        page = show(scan(["x", "y"], details=pairs))
        assert page.locator(".detail").count() == 3
        assert "NaN" not in page.locator("#details").evaluate("node => node.outerHTML")
