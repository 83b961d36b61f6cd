"""What pages take from elsewhere in the repository: texts, notebooks, the command line's help."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import os
import re
import shutil
from pathlib import Path
from unittest import mock

from sphinx.application import Sphinx

COMMANDS = ("demo", "scan", "pair", "audit")

PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "bench/README.md": "benchmarks.md",
    "bench/paper/README.md": "experiments.md",
}
"""Where the texts of the repository are on the site."""


def generate(app: Sphinx) -> None:
    """Copy the notebooks, and write what each command says of itself."""
    docs, root = Path(app.srcdir), Path(app.srcdir).parent
    # What is generated of names that are gone would be a page in no table of contents.
    for folder in (docs / "api" / "generated", docs / "_generated"):
        shutil.rmtree(folder, ignore_errors=True)
    for old in (docs / "gallery").glob("*.ipynb"):
        old.unlink()
    for notebook in (root / "notebooks").glob("*.ipynb"):
        shutil.copy2(notebook, docs / "gallery")
    (docs / "_generated").mkdir()
    for command in COMMANDS:
        (docs / "_generated" / f"{command}.txt").write_text(help_of(command), encoding="utf-8")


def help_of(command: str) -> str:
    """Return what ``hgr-jax COMMAND --help`` prints."""
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="hgr-jax")
    printed = io.StringIO()
    with (
        mock.patch.dict(os.environ, COLUMNS="80", NO_COLOR="1"),
        mock.patch("sys.argv", ["hgr-jax", command, "--help"]),
        contextlib.redirect_stdout(printed),
        contextlib.suppress(SystemExit),
    ):
        script.load()()
    return printed.getvalue()


def relink(app: Sphinx, path: Path, parent: str, content: list[str]) -> None:
    """Make links of an included text, which are relative to it, relative to the page.

    Every page that includes one is at the top level.
    """
    docs, root = Path(app.srcdir), Path(app.srcdir).parent
    source = (docs / path).resolve().relative_to(root)

    def relinked(link: re.Match[str]) -> str:
        target = os.path.normpath(source.parent / link["path"])
        page = PAGES.get(target) or os.path.relpath(root / target, docs)
        return f"]({page.replace('../notebooks/', 'gallery/')}{link['anchor']})"

    content[0] = re.sub(
        r"\]\((?!\w+:)(?P<path>[^)#\s]+)(?P<anchor>#?[^)\s]*)\)", relinked, content[0]
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Generate before Sphinx looks for pages."""
    app.connect("config-inited", lambda app, config: generate(app))
    app.connect("include-read", relink)
    return {"parallel_read_safe": True}
