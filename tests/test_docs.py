"""The documentation: it builds without a warning, its links hold, and its examples run."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import io
import re
import runpy
import shlex
import subprocess
import sys
import urllib.parse
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import scipy.stats
from matplotlib.figure import Figure

import hgr_jax

for needed in ("sphinx", "myst_nb", "sphinx_book_theme", "sphinx_copybutton"):
    pytest.importorskip(needed, reason=f"the extra dev is not installed: {needed} is missing")
if importlib.util.find_spec("sphinx-mathjax-offline") is None:
    pytest.skip("the extra dev is not installed: MathJax is missing", allow_module_level=True)

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
EXAMPLES = [DOCS / "index.md", *sorted(DOCS.glob("guides/*.md")), *sorted(DOCS.glob("theory/*.md"))]
NEEDED = {"causal_graphs": ("causallearn",)}
LONG = {"training_under_a_constraint", "degrees_and_kernels", "measure_in_a_loss"}
LONG |= {"index", "a_table_that_does_not_fit"}
"""Pages whose examples take long, and are near to those of the README and of docstrings."""

ROOMS = ("measures", "inference", "inference.roys_root", "fairness", "datasets", "kernels")
ROOMS += ("datasets.synthetic", "plotting", "sklearn", "torch", "causal")
MODULES = ("hgr_jax", *(f"hgr_jax.{room}" for room in ROOMS))


BUILD = """
import sys
from sphinx.application import Sphinx

docs, html, kept = sys.argv[1:]
bare = {"html_sidebars": {"**": []}}  # the list of all pages, on each page, takes half the time
app = Sphinx(docs, docs, html, kept, "html", bare, None, freshenv=True, warningiserror=True)
app.build()
sys.exit(app.statuscode)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built once, with warnings as errors."""
    html, kept = (tmp_path_factory.mktemp(name) for name in ("site", "doctrees"))
    command = [sys.executable, "-c", BUILD, str(DOCS), str(html), str(kept)]
    built = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert built.returncode == 0, built.stderr
    return html


# --- The reference -----------------------------------------------------------


def inventory(site: Path) -> dict[str, str]:
    """Where every documented name is: ``PAGE#ANCHOR`` by name."""
    header, packed = (site / "objects.inv").read_bytes().split(b"zlib.\n", 1)
    assert header.startswith(b"# Sphinx inventory version 2")
    places = {}
    for line in zlib.decompress(packed).decode().splitlines():
        name, kind, _, place, _ = line.split(maxsplit=4)
        if kind.startswith("py:"):
            places[name] = place.replace("$", name)
    return places


def public_names(module: Any) -> list[str]:
    """What ``__all__`` has, or else the functions and classes that a module defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def resolved(name: str) -> Any:
    """The object of a dotted name."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        with contextlib.suppress(ImportError):
            value = importlib.import_module(".".join(parts[:cut]))
            for part in parts[cut:]:
                value = getattr(value, part, None)
            return value
    return None


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_a_page(site: Path, module: str) -> None:
    places = inventory(site)
    documented = {id(resolved(name)): place for name, place in places.items() if "." in name}
    found = importlib.import_module(module)
    names = public_names(found)
    if module == "hgr_jax.datasets.synthetic":
        names.append("RELATIONSHIPS")
    assert len(names) > (1 if module == "hgr_jax.sklearn" else 2)
    for name in names:
        place = places.get(f"{module}.{name}") or documented.get(id(getattr(found, name)))
        assert place, f"{module}.{name} is not in the reference"
        page, anchor = place.split("#")
        assert f'id="{anchor}"' in (site / page).read_text(encoding="utf-8"), place


def test_the_code_that_theory_points_to_is_there() -> None:
    """As in ```core/solvers.py```, seen from the package."""
    text = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("theory/*.md"))
    files = set(re.findall(r"`([a-z]+/[a-z_/]*(?:\.py)?)`", text))
    assert len(files) > 10
    assert not [name for name in files if not (ROOT / "hgr_jax" / name).exists()]


@pytest.mark.parametrize("rows", [5, 100, 300])
def test_the_measure_of_the_first_change(rng: np.random.Generator, rows: int) -> None:
    page = DOCS.joinpath("first_change.md").read_text(encoding="utf-8")
    (measure,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(measure.splitlines()) < 60
    exec(measure, added := {})
    a = rng.permutation(rows) / rows
    for b in (a**2 + 0.1 * rng.normal(size=rows), np.round(3 * a)):
        expected = max(scipy.stats.chatterjeexi(a, b).statistic, 0)
        with jax.enable_x64(True):
            assert added["chatterjee"](a, b) == pytest.approx(expected)


@pytest.mark.parametrize("path", sorted(DOCS.glob("gallery/*.py")), ids=lambda path: path.stem)
def test_a_picture_of_the_gallery_has_a_short_script(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path.stem == "causal_graph":
        pytest.importorskip("causallearn", reason="the extra causal is not installed")
    drawn: list[Path] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, place, **options: drawn.append(place))
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        runpy.run_path(str(path))
    assert drawn == [path.with_suffix(".png")]
    assert drawn[0].exists()
    assert len(path.read_text(encoding="utf-8").splitlines()) < 30
    assert f"literalinclude}} {path.name}" in path.with_name("index.md").read_text(encoding="utf-8")
    assert f"gallery/{path.stem}.png" in DOCS.joinpath("index.md").read_text(encoding="utf-8")


def test_the_version_to_cite_is_this_one() -> None:
    for name in ("CITATION.cff", "docs/citing.md"):
        assert hgr_jax.__version__ in (ROOT / name).read_text(encoding="utf-8")


# --- Links, and what pages load ----------------------------------------------


class Page(HTMLParser):
    """Anchors, links, and what a browser loads by itself."""

    LOADED = dict.fromkeys(("script", "img", "iframe", "source", "video", "audio", "embed"), "src")
    LOADED["object"] = "data"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and values.get("rel") not in ("next", "prev", "canonical", "author"):
            self.loaded.append(values["href"])
        if tag in self.LOADED and self.LOADED[tag] in values:
            self.loaded.append(values[self.LOADED[tag]])


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def test_internal_links_lead_somewhere(pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path.parent / urllib.parse.unquote(parts.path) if parts.path else path
            target, anchor = target.resolve(), urllib.parse.unquote(parts.fragment)
            known = pages[target].anchors if target in pages else set()
            if not target.exists() or (anchor and anchor not in known):
                broken.append((path.name, link))
    assert not broken


def test_nothing_is_loaded_from_the_network(site: Path, pages: dict[Path, Page]) -> None:
    loaded = {link for page in pages.values() for link in page.loaded}
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        loaded |= set(re.findall(r"""(?:url\(|@import)\s*['"]?([^'")\s]+)""", text))
    assert loaded
    assert not [link for link in loaded if re.match(r"(\w+:)?//", link)]


# --- Examples ----------------------------------------------------------------

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


def differences(shown: str, printed: str) -> list[Any]:
    """What a page shows and its code does not print, but for spaces and what rounding changes."""
    texts = [NUMBER.sub("#", text).split() for text in (shown, printed)]
    if texts[0] != texts[1]:
        return [shown, printed]
    numbers = [
        [float(x.replace(",", "")) for x in NUMBER.findall(text)] for text in (shown, printed)
    ]
    return [
        pair for pair in zip(*numbers, strict=True) if pair[1] != pytest.approx(pair[0], 0.1, 0.03)
    ]


def run(language: str, code: str, path: Path, namespace: dict[str, Any]) -> str | None:
    """What a block prints; None for one that is not an example."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), pytest.MonkeyPatch.context() as patch:
        if language == "python":
            exec(compile(code, str(path), "exec"), namespace)
        elif language == "sh" and code.startswith("hgr-jax ") and "FILE" not in code:
            (script,) = importlib.metadata.entry_points(group="console_scripts", name="hgr-jax")
            patch.setattr(sys, "argv", shlex.split(code))
            assert script.load()() == 0
        else:
            return None
    return printed.getvalue()


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] * (p.stem in LONG)) for p in EXAMPLES],
)
def test_examples(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block runs, one after the other; a text block after one is what it prints."""
    for package in NEEDED.get(path.stem, ()):
        pytest.importorskip(package, reason=f"{package} is not installed", exc_type=ImportError)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "example"}
    printed = None
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        for language, code in FENCE.findall(path.read_text(encoding="utf-8")):
            if language == "text" and printed is not None:
                assert differences(code, printed) == []
                printed = None
            else:
                assert not printed, f"{path} does not show what it prints: {printed}"
                printed = run(language, code, path, namespace)
    assert not printed


# --- A browser ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["index.html", "theory/envelope_theorem.html"])
def test_pages_open_in_a_browser(site: Path, browser: Any, name: str) -> None:
    page = browser.new_page()
    trouble: list[str] = []
    requests: list[str] = []
    page.on("console", lambda m: trouble.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("requestfailed", lambda request: trouble.append(request.url))
    page.on("request", lambda request: requests.append(request.url))
    page.goto((site / name).as_uri())
    page.wait_for_selector(".math mjx-container svg")
    written = page.locator(".math").count()
    page.wait_for_function(f"document.querySelectorAll('.math mjx-container').length == {written}")
    assert page.locator("mjx-merror, [data-mjx-error]").count() == 0
    assert page.locator("img:not([src=''])").evaluate_all("all => all.every(i => i.naturalWidth)")
    assert not trouble
    assert all(url.startswith(("file:", "data:")) for url in requests)
    page.close()
