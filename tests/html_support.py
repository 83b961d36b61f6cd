"""Pages that tests of the report share."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hgr_jax.scanning.html.page import Curve, Detail, HtmlPage, write_html

HEADERS = ("column a", "column b", "KB", "|Pearson|", "p-value", "n", "p-value from")


TIMES = "\N{MULTIPLICATION SIGN}"


def detail(a: str, b: str, n: int = 200) -> Detail:
    angle = np.linspace(0, 6.28, n)
    x, y = np.cos(angle), np.sin(angle)
    grid = np.linspace(-1, 1, 50)
    curve = Curve(grid.tolist(), (2 * grid**2 - 1).tolist())
    return Detail(a, b, list(zip(x, y, strict=True)), curve, curve, "HGR 1.000")


def category(a: str, b: str, levels: Sequence[str]) -> Detail:
    values = [(levels[i % len(levels)], float(i % 7)) for i in range(100)]
    f = Curve(levels, np.linspace(-1, 1, len(levels)).tolist())
    g = Curve([0.0, 3.0, 6.0], [-1.0, 0.0, 1.0])
    return Detail(a, b, values, f, g)


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
    rows = []
    for k in best:
        kb, source = float(correlation[i[k], j[k]]), "permutations" if k % 3 else "F"
        figures = kb, kb / 2 if k % 10 else None, float(10.0 ** -rng.uniform(0, 20))
        rows.append((names[i[k]], names[j[k]], *figures, 1000 + int(k), source))
    return HtmlPage(
        title=title,
        summary={"rows": "1,993", "columns": str(p)},
        names=names,
        correlation=correlation,
        below=-correlation / 2,
        columns=HEADERS,
        rows=rows,
        details=details,
        skipped=[("fold", "constant"), ("state", "a text")],
        probabilities=("p-value",),
        ordered_by="KB",
    )


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
    """Opens a report, or a file; in the end nothing may have been logged, loaded or popped up."""
    contexts, complaints = [], []

    def open_report(report: HtmlPage | Path, **options: Any) -> Any:
        path = report if isinstance(report, Path) else tmp_path / "report.html"
        if isinstance(report, HtmlPage):
            write_html(report, path)
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}} | options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        address = path.as_uri()
        page.on("request", lambda r: r.url.startswith(address) or complaints.append(r.url))
        page.goto(address)
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert complaints == []


def texts(page: Any, column: int) -> list[str]:
    return page.locator(f"#pairs td:nth-child({column + 1})").all_text_contents()


def full_names(page: Any, column: int) -> list[str]:
    """The texts of a column of the table, whose middle may be left out of what is shown."""
    cells = page.locator(f"#pairs td:nth-child({column + 1})")
    return cells.evaluate_all("cells => cells.map(cell => cell.title)")


def cell(page: Any, i: int, j: int) -> tuple[float, float]:
    """The middle of a cell of the heat map, in pixels of its canvas."""
    state = page.locator("#map").evaluate("canvas => ({...canvas.dataset})")
    margin, size = float(state["margin"]), float(state["cell"])
    return margin + (j + 0.5) * size, margin + (i + 0.5) * size


def click_cell(page: Any, i: int, j: int) -> None:
    x, y = cell(page, i, j)
    page.locator("#map").click(position={"x": x, "y": y})


def count(page: Any) -> str:
    """How many pairs the table says that it lists."""
    return page.locator("#count").text_content()


NAMES = [f"column {i:02d}" for i in range(30)]
