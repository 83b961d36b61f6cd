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
    print(describe())
    holds = True
    for name in options.only:
        report = MarkdownReport()
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

    def keep(self, name: str) -> None:
        """Write the lines to a result file, which `bench.figures` puts into pages."""
        result = {
            "date": datetime.date.today().isoformat(),
            "commit": _commit(),
            "machine": describe(),
            "text": "\n".join(self.lines).strip(),
        }
        text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
        result_file(name).write_text(text, encoding="utf-8")


def result_file(name: str) -> Path:
    """The file of a result."""
    return RESULTS / f"{name.replace(' ', '_')}.json"


def kept(name: str) -> dict[str, str]:
    """A result: its ``text``, and the ``date``, ``commit`` and ``machine`` that it is of."""
    found: dict[str, str] = json.loads(result_file(name).read_text(encoding="utf-8"))
    return found


def measured(name: str) -> str:
    """When and where a result was measured."""
    result = kept(name)
    machine = result["machine"].partition(" backend;")[0]
    return f"Measured on {result['date']}, at commit {result['commit']} ({machine})."


def shown(name: str) -> str:
    """What a page shows of a result: its tables, and when they were measured."""
    text = kept(name)["text"]
    first, gap, others = text.partition("\n\n")
    if first.startswith(("|", "#")):
        return f"{text}\n\n{measured(name)}"
    return f"{first} {measured(name)}{gap}{others}"


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
