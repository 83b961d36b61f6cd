"""Tables in Markdown: printed, and kept in ``bench/results`` with what they were measured on."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import jax

RESULTS = Path(__file__).with_name("results")
PAGE = Path(__file__).with_name("README.md")


PACKAGES = (
    *("jax", "jaxlib", "jaxopt", "flax", "optax", "numpy", "scipy", "maxcorr", "torch", "dcor"),
    *("hyppo", "scikit-learn", "causal-learn", "tigramite"),
)
"""Whose versions are kept with a result."""

PLATFORMS = {"cpu": "cpu", "gpu": "cuda,cpu", "tpu": "tpu,cpu"}
"""Platforms of JAX of each device; what is placed on the host by name needs its CPU too."""


Part = Callable[["MarkdownReport", bool], object]
"""Reports tables, small ones if quick; returns False where a bound is exceeded."""


def run_bench(doc: str | None, parts: Mapping[str, Part], arguments: Sequence[str] | None) -> int:
    """Run the parts of a benchmark, each a result of its own.

    Returns:
      1 if a bound is exceeded, else 0.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a small version, to see it work")
    parser.add_argument(
        "--device", choices=PLATFORMS, type=_on_device, help="where JAX computes (default: its own)"
    )
    parser.add_argument("--write", action="store_true", help="keep the tables in bench/results")
    parser.add_argument("--only", nargs="+", choices=parts, default=[*parts], help="of the parts")
    options = parser.parse_args(arguments)
    if options.write:
        for name in options.only:
            section(PAGE.read_text(encoding="utf-8"), name)  # before hours of work
    holds = True
    for name in options.only:
        report = MarkdownReport()
        report.say(describe())
        report.say()
        holds &= parts[name](report, options.quick) is not False
        if options.write:
            report.keep(name)
    return 0 if holds else 1


def _on_device(name: str) -> str:
    """Have this process, and those that it starts, compute on a device."""
    if name in PLATFORMS:
        os.environ["JAX_PLATFORMS"] = PLATFORMS[name]
        jax.config.update("jax_platforms", PLATFORMS[name])
    return name


class MarkdownReport:
    """Lines of Markdown, printed as they come."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str = "") -> None:
        """One line."""
        print(line, flush=True)
        self.lines.append(line)

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """A table, each row printed when it is ready; all columns but the first to the right."""
        self.say()
        self.say(_row(header))
        self.say(_row(["---"] + ["---:"] * (len(header) - 1)))
        for row in rows:
            self.say(_row(row))
        self.say()

    def judged_table(
        self, header: Sequence[str], rows: Iterable[tuple[Sequence[str], bool | None]]
    ) -> bool:
        """A table that says of each row whether its bound holds (None: none); whether all do."""
        verdicts = {True: "yes", False: "EXCEEDED", None: ""}
        every = True

        def judged() -> Iterator[list[str]]:
            nonlocal every
            for cells, holds in rows:
                every &= holds is not False
                yield [*cells, verdicts[holds]]

        self.table([*header, "holds"], judged())
        return every

    def keep(self, name: str, page: Path = PAGE, folder: Path = RESULTS) -> None:
        """Write the lines to a result file, and put them into their section of a page."""
        text = page.read_text(encoding="utf-8")
        section(text, name)
        result = {
            "date": datetime.date.today().isoformat(),
            "commit": _commit(),
            "machine": describe(),
            "text": "\n".join(self.lines).strip(),
        }
        folder.mkdir(exist_ok=True)
        path = result_file(name, folder)
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        page.write_text(replaced(text, name, shown(name, folder)), encoding="utf-8")


def result_file(name: str, folder: Path = RESULTS) -> Path:
    """The file of a result."""
    return folder / f"{name.replace(' ', '_')}.json"


def shown(name: str, folder: Path = RESULTS) -> str:
    """What a page shows of a result: its tables, and when they were measured."""
    result = json.loads(result_file(name, folder).read_text(encoding="utf-8"))
    return f"{result['text']}\n\nMeasured on {result['date']}, at commit {result['commit']}."


def section(text: str, name: str) -> tuple[int, int]:
    """Where the text between ``<!-- name -->`` and ``<!-- end name -->`` begins and ends."""
    start, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
    if start not in text or end not in text:
        raise ValueError(f"the page has no section between {start.strip()} and {end}")
    first = text.index(start) + len(start)
    return first, text.index(end, first)


def replaced(text: str, name: str, new: str) -> str:
    """A page with another text in a section."""
    first, last = section(text, name)
    return f"{text[:first]}{new}\n{text[last:]}"


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        cwd=RESULTS.parent,
    )
    return done.stdout.strip() or "unknown"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def describe() -> str:
    """One line: processor, cores, Python and the versions of what was compared."""
    installed = {found.name: found.version for found in importlib.metadata.distributions()}
    versions = [f"{name} {installed.get(name, 'not installed')}" for name in PACKAGES]
    return (
        f"{_processor()}, {os.cpu_count()} cores, {jax.devices()[0].platform.upper()} backend;"
        f" Python {platform.python_version()}, {', '.join(versions)}"
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
