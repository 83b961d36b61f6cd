"""The HTML report of a scan: what is in the file, and what a real browser makes of it."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hgr_jax.cli.html.page import Curve, Detail, HtmlPage, render, write_html

HEADERS = ("column a", "column b", "KB", "|Pearson|", "p-value", "n", "p-value from")
TIMES = "\N{MULTIPLICATION SIGN}"
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


def detail(a: str, b: str, n: int = 200) -> Detail:
    angle = np.linspace(0, 6.28, n)
    x, y = np.cos(angle), np.sin(angle)
    grid = np.linspace(-1, 1, 50)
    curve = Curve(grid.tolist(), (2 * grid**2 - 1).tolist())
    transformed = list(zip(2 * x**2 - 1, 1 - 2 * y**2, strict=True))
    return Detail(a, b, list(zip(x, y, strict=True)), curve, curve, transformed, f"f({a}) = {a}^2")


def category(a: str, b: str, levels: Sequence[str]) -> Detail:
    values = [(levels[i % len(levels)], float(i % 7)) for i in range(100)]
    f = Curve(levels, np.linspace(-1, 1, len(levels)).tolist())
    g = Curve([0.0, 3.0, 6.0], [-1.0, 0.0, 1.0])
    return Detail(a, b, values, f, g, [(float(i % 3), float(i % 7)) for i in range(100)])


def scan(
    names: Sequence[str], *, details: Sequence[Detail] = (), title: str = "A scan"
) -> HtmlPage:
    """All pairs of some columns, with made-up values, best first."""
    p = len(names)
    rng = np.random.default_rng(p)
    correlation = np.triu(rng.uniform(0.2, 1, (p, p)), 1)
    correlation += correlation.T + np.eye(p)
    i, j = np.triu_indices(p, 1)
    best = np.argsort(-correlation[i, j], kind="stable")
    rows = [
        (
            names[i[k]],
            names[j[k]],
            float(correlation[i[k], j[k]]),
            float(correlation[i[k], j[k]] / 2) if k % 10 else None,
            float(10.0 ** -rng.uniform(0, 20)),
            1000 + int(k),
            "permutations" if k % 3 else "F",
        )
        for k in best
    ]
    return HtmlPage(
        title=title,
        summary={"rows": "1,993", "columns": str(p)},
        names=names,
        correlation=correlation,
        pearson=-correlation / 2,
        columns=HEADERS,
        rows=rows,
        details=details,
        skipped=[("fold", "constant"), ("state", "a text")],
    )


def embedded(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


class TestFile:
    def test_written_whole_or_not_at_all(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "some" / "folder" / "report.html"
        write_html(scan(["x", "y"]), path)
        before = path.read_bytes()
        assert before.startswith(b"<!DOCTYPE html>")
        assert [file.name for file in path.parent.iterdir()] == ["report.html"]

        def full(*_: object) -> None:
            raise OSError("disk full")

        monkeypatch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="disk full"):
            write_html(scan(["x", "z"]), path)
        assert path.read_bytes() == before
        assert [file.name for file in path.parent.iterdir()] == ["report.html"]

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

    def test_lone_surrogates_are_written(self, tmp_path: Path) -> None:
        name = "half \ud83d of a pair"
        write_html(scan([name, "x"], title=name, details=[detail(name, "x")]), tmp_path / "r.html")
        page = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert embedded(page)["names"] == [name, "x"]

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

    def test_values_of_arrays(self) -> None:
        row = ("x", "y", np.float32(0.5), np.float64(0.123456789), np.bool_(True), np.int64(7), "F")
        columns = embedded(render(dataclasses.replace(scan(["x", "y"]), rows=[row])))["columns"]
        assert columns[3]["values"] == [0.123457]
        assert columns[4]["levels"] == ["yes"]
        assert columns[5] == {"name": "n", "values": [7], "integer": True}

    def test_pictures_keep_their_resolution(self) -> None:
        seconds = [1_700_000_000.0 + i for i in range(50)]
        curve = Curve(seconds, [1e-9 * i for i in range(50)])
        points = [(s, 0.0) for s in seconds]
        pair = Detail("t", "y", points, curve, curve, [(0.0, 0.0)] * 50)
        side = embedded(render(scan(["t", "y"], details=[pair])))["details"][0]["sides"][0]
        assert side["values"] == seconds
        np.testing.assert_allclose(side["y"], curve.y, atol=1e-12)

    def test_size_of_a_hundred_columns(self) -> None:
        names = [f"a column's name {i}" for i in range(100)]
        details = [detail(names[0], name, 1000) for name in names[1:21]]
        assert len(render(scan(names, details=details)).encode()) < 2_000_000

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"correlation": np.eye(3)}, r"correlation must be \(p, p\) for the p = 2 names"),
            ({"pearson": np.ones(2)}, r"pearson must be .* got \(2,\)"),
            ({"columns": ("a",)}, "columns must start with two of names"),
            ({"rows": [("x", "y")]}, "row 0 has 2 entries for 7 columns"),
            ({"details": [dataclasses.replace(detail("x", "y"), transformed=[])]}, "200 rows"),
            (
                {"details": [dataclasses.replace(detail("x", "y"), g=Curve([1.0], []))]},
                "curve of 'y' must have the 1 entries of x; got 0",
            ),
        ],
    )
    def test_parts_that_do_not_fit(self, change: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            render(dataclasses.replace(scan(["x", "y"]), **change))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield found
        found.close()


Open = Callable[..., Any]


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens a report; in the end nothing may have been logged, loaded or popped up."""
    contexts, complaints = [], []
    path = tmp_path / "report.html"

    def open_report(report: HtmlPage, **options: Any) -> Any:
        write_html(report, path)
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}} | options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        page.on(
            "request",
            lambda request: (
                None if request.url.startswith(path.as_uri()) else complaints.append(request.url)
            ),
        )
        page.goto(path.as_uri())
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert complaints == []


def texts(page: Any, column: int) -> list[str]:
    return page.locator(f"#pairs td:nth-child({column + 1})").all_text_contents()


def exact(page: Any, column: int) -> list[float]:
    cells = page.locator(f"#pairs td:nth-child({column + 1})")
    titles = cells.evaluate_all("cells => cells.map(cell => cell.title)")
    return [math.nan if title == "none" else float(title) for title in titles]


def cell(page: Any, i: int, j: int) -> tuple[float, float]:
    """The middle of a cell of the heat map, in pixels of its canvas."""
    state = page.locator("#map").evaluate("canvas => ({...canvas.dataset})")
    left, top, size = (float(state[name]) for name in ("left", "top", "cell"))
    return left + (j + 0.5) * size, top + (i + 0.5) * size


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


def zoom(page: Any) -> float:
    return float(page.locator("#map").get_attribute("data-zoom"))


def click_cell(page: Any, i: int, j: int) -> None:
    x, y = cell(page, i, j)
    page.locator("#map").click(position={"x": x, "y": y})


NAMES = [f"column {i:02d}" for i in range(30)]


class TestTable:
    def test_first_page(self, show: Open) -> None:
        page = show(scan(NAMES))
        assert page.title() == "A scan"
        assert page.locator("h1").text_content() == "A scan"
        assert page.locator("#summary dd").all_text_contents() == ["1,993", "30"]
        assert page.locator("#count").text_content() == "435 of 435 pairs"
        assert len(texts(page, 0)) == 200
        assert page.locator("th").all_text_contents() == [f"{header} " for header in HEADERS]
        values = exact(page, 2)
        assert values == sorted(values, reverse=True)
        assert texts(page, 2)[0] == f"{values[0]:.3f}"
        assert texts(page, 5)[0] == f"{int(exact(page, 5)[0]):,}"
        small = next(i for i, value in enumerate(exact(page, 4)) if value < 1e-6)
        assert texts(page, 4)[small] == f"{exact(page, 4)[small]:.1e}"

    def test_sorts_numbers_with_none_last(self, show: Open) -> None:
        page = show(scan(NAMES))
        header = page.locator("th").nth(4)
        header.locator("button").click()
        assert header.get_attribute("aria-sort") == "ascending"
        values = exact(page, 4)
        assert values == sorted(values)
        assert values[0] < 1e-15
        header.locator("button").press("Enter")
        assert header.get_attribute("aria-sort") == "descending"
        values = exact(page, 4)
        assert values == sorted(values, reverse=True)
        pearson = page.locator("th").nth(3)
        for direction in ("ascending", "descending"):
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

    def test_sorts_names(self, show: Open) -> None:
        page = show(scan([f"x{i}" for i in range(12)]))
        page.locator("th button").first.click()
        numbers = [int(text[1:]) for text in texts(page, 0)]
        assert numbers == sorted(numbers)
        assert numbers[-1] == 10

    def test_filters_as_one_types(self, show: Open) -> None:
        page = show(scan(["Median Income", "income of women", "age", "Women, share", "Größe"]))
        for typed, count in (("INCOME", 7), ("income women", 5), ("größe age", 1), ("absent", 0)):
            page.locator("#search").fill(typed)
            assert page.locator("#count").text_content() == f"{count} of 10 pairs"
            for pair in zip(texts(page, 0), texts(page, 1), strict=True):
                together = " ".join(pair).lower()
                assert all(word in together for word in typed.lower().split())
        assert page.locator("#none").is_visible()
        page.locator("#search").fill("")
        assert len(texts(page, 0)) == 10

    def test_pages(self, show: Open) -> None:
        page = show(scan(NAMES))
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
        assert page.locator("#count").text_content() == "29 of 435 pairs"
        assert page.locator("#pager").is_hidden()

    def test_a_hundred_thousand_rows(self, show: Open) -> None:
        names = [f"column {i:03d}" for i in range(448)]
        page = show(scan(names))
        assert page.locator("#count").text_content() == "100,128 of 100,128 pairs"
        assert page.evaluate("performance.now()") < 8000
        assert len(texts(page, 0)) == 200
        timed = "work => { const t = performance.now(); work(); return performance.now() - t; }"
        search = (
            "search => { search.value = '447 column'; search.dispatchEvent(new Event('input')) }"
        )
        assert (
            page.evaluate(f"({timed})(() => ({search})(document.querySelector('#search')))") < 2000
        )
        assert page.locator("#count").text_content() == "447 of 100,128 pairs"
        click = "document.querySelectorAll('th button')[4].click()"
        assert page.evaluate(f"({timed})(() => {click})") < 3000
        values = exact(page, 4)
        assert values == sorted(values)


class TestHeatMap:
    def test_zooms(self, show: Open) -> None:
        page = show(scan(NAMES))
        assert zoom(page) == 1
        x, y = cell(page, 10, 20)
        page.locator("#map").hover(position={"x": x, "y": y})
        page.mouse.wheel(0, -300)
        page.wait_for_function("document.querySelector('#map').dataset.zoom > 1.3")
        np.testing.assert_allclose(cell(page, 10, 20), (x, y), atol=1)  # the pointer stays there
        before = cell(page, 0, 0)
        page.mouse.down()
        corner = page.locator("#map").bounding_box()
        page.mouse.move(corner["x"] + x - 40, corner["y"] + y - 40, steps=4)
        page.mouse.up()
        np.testing.assert_allclose(cell(page, 0, 0), np.subtract(before, 40), atol=1.5)
        assert page.locator("#pair").is_hidden()  # a drag is no click
        page.locator("#map").dblclick(position={"x": x, "y": y})
        assert zoom(page) == 1
        assert page.locator("#pair").is_hidden()
        for button, expected in (("#zoom-in", 1.5), ("#zoom-out", 1), ("#zoom-in", 1.5)):
            page.locator(button).click()
            assert zoom(page) == pytest.approx(expected)
        page.locator("#map").press("+")
        assert zoom(page) == pytest.approx(2.25)
        page.locator("#zoom-reset").click()
        assert zoom(page) == 1

    def test_click_filters_the_table(self, show: Open) -> None:
        page = show(scan(NAMES))
        click_cell(page, 21, 4)
        assert page.locator("#count").text_content() == "1 of 435 pairs"
        assert (texts(page, 0), texts(page, 1)) == ([NAMES[4]], [NAMES[21]])
        click_cell(page, 7, 7)  # on the diagonal: all pairs of a column
        assert page.locator("#count").text_content() == "29 of 435 pairs"
        page.locator("#pair").click()
        assert page.locator("#count").text_content() == "435 of 435 pairs"

    def test_tooltip_shows_both_values(self, show: Open) -> None:
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

    @pytest.mark.parametrize(("scheme", "grey"), [("light", 0xB4), ("dark", 0x5A)])
    def test_colours(self, show: Open, scheme: str, grey: int) -> None:
        correlation = np.array([[1, 0.1, np.nan], [0.1, 1, 0.9], [np.nan, 0.9, 1]])
        pearson = np.array([[1, 0.5, 0.5], [0.5, 1, np.nan], [0.5, np.nan, 1]])
        report = dataclasses.replace(scan(list("abc")), correlation=correlation, pearson=pearson)
        page = show(report, color_scheme=scheme)
        assert pixel(page, 0, 2) == pixel(page, 2, 1) == [grey] * 3
        brightness = [sum(pixel(page, *place)) for place in ((0, 1), (1, 0), (1, 2))]
        assert brightness == sorted(set(brightness))  # 0.1, 0.5, 0.9
        assert pixel(page, 1, 0) == pixel(page, 2, 0)
        click_cell(page, 0, 2)
        assert page.locator("#count").text_content() == "1 of 3 pairs"

    def test_lightness_grows_evenly(self, show: Open) -> None:
        colors = np.array(show(scan(NAMES)).evaluate("ramp")) / 255
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
        assert page.locator("#count").text_content() == "1 of 435 pairs"
        assert page.locator("#pairs a").get_attribute("href") == "#detail-0"

    def test_categories(self, show: Open) -> None:
        levels = ["low", "</svg><script>alert(1)</script>", "high"]
        page = show(scan(["level", "value"], details=[category("level", "value", levels)]))
        bars = page.locator("figure").nth(1).locator("rect")
        assert bars.count() == 3
        assert bars.first.locator("title").text_content() == "low: -1.000"
        names = page.locator("figure").nth(0).locator("text > title").all_text_contents()
        assert set(levels) <= set(names)
        points = page.locator("figure").nth(0).locator(".points").first.get_attribute("d")
        places = {float(x) for x in re.findall(r"M([\d.]+) ", points)}
        assert len(places) == 10  # each point of a level at its own place

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


class TestSafety:
    def test_names_are_text_everywhere(self, show: Open) -> None:
        details = [
            detail(HOSTILE[0], HOSTILE[1]),
            category(HOSTILE[2], HOSTILE[3], HOSTILE[:3]),
        ]
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
        assert set(texts(page, 0)) | set(texts(page, 1)) == set(HOSTILE)
        assert page.locator("th").last.text_content() == f"{HOSTILE[1]} "
        for i, j in ((0, 1), (2, 3), (7, 5)):
            x, y = cell(page, i, j)
            page.locator("#map").hover(position={"x": x, "y": y})
            first, second = sorted((i, j))
            names = page.locator("#tip p").first.text_content()
            assert names == f"{HOSTILE[first]} {TIMES} {HOSTILE[second]}"
            click_cell(page, i, j)
            assert page.locator("#count").text_content() == "1 of 28 pairs"
            assert page.locator("#pair").text_content().startswith(names)
        assert page.locator("h3").first.text_content() == f"{HOSTILE[0]} {TIMES} {HOSTILE[1]}"
        assert page.locator("#skipped dt").all_text_contents() == list(HOSTILE)
        assert page.locator("#skipped dd").all_text_contents() == list(HOSTILE)
        assert page.locator("img").count() == 0
        assert page.locator("script").count() == 2
        assert page.locator("[onerror]").count() == 0

    def test_lone_surrogates_are_shown(self, show: Open) -> None:
        name = "half \ud83d of a pair"
        page = show(scan([name, "x", "y"], title=name, details=[detail(name, "x")]))
        page.locator("#search").fill("half")
        assert page.locator("#count").text_content() == "2 of 3 pairs"
        assert page.locator(".detail svg").count() == 4


class TestShapes:
    def test_nothing_measured(self, show: Open) -> None:
        page = show(HtmlPage("Nothing", {}, [], [], np.zeros((0, 0)), HEADERS, []))
        assert page.locator("#count").text_content() == "0 of 0 pairs"
        assert page.locator("#none").text_content() == "No pair was measured."
        page.locator("th button").nth(2).click()
        page.locator("#search").fill("x")
        for part in ("map", "details", "skipped"):
            assert page.locator(f"#{part}-section").is_hidden()

    def test_one_column_and_none_left(self, show: Open) -> None:
        report = dataclasses.replace(scan(["only"]), skipped=[("other", "constant")])
        page = show(report)
        assert page.locator("#map-section").is_hidden()
        assert page.locator("#skipped dt").all_text_contents() == ["other"]

    @pytest.mark.parametrize("width", [320, 400, 800, 1200, 2000])
    def test_fits_its_window(self, show: Open, width: int) -> None:
        long = "a_very_long_name_without_any_space_" * 4
        names = [long, *NAMES[:5]]
        details = [detail(long, NAMES[0]), category(long, NAMES[1], [long, "b"])]
        report = dataclasses.replace(
            scan(names, details=details, title=long),
            summary={long: long},
            skipped=[(long, long)],
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
