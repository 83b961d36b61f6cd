"""The command: ``python -m bench.paper NAME [--quick] [--out DIR]``."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from pathlib import Path

from bench.paper.output import ExperimentError, Output
from bench.report import MarkdownReport, describe

EXPERIMENTS = (
    "overfitting",
    "lstsq",
    "example",
    "monotonicity",
    "determinism",
    "correlations",
    "copulas",
    "importance",
    "causality",
    "results",
)
RESULTS = Path(__file__).with_name("results")
README = Path(__file__).with_name("README.md")


def main(arguments: list[str] | None = None) -> int:
    """Run the experiments that are asked for.

    Returns:
      0 if all ran, 1 if one could not, 2 if there is nowhere to write.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.paper", description=__doc__)
    parser.add_argument("name", choices=(*EXPERIMENTS, "all"), help="an experiment, or all of them")
    parser.add_argument("--quick", action="store_true", help="a small version, to see it work")
    parser.add_argument("--out", type=Path, help="folder to write to; default: results, here")
    options = parser.parse_args(arguments)
    names = EXPERIMENTS if options.name == "all" else (options.name,)
    output = Output(options.out or (RESULTS / "quick" if options.quick else RESULTS))
    try:
        output.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"cannot write into {output.folder}: {error.strerror}", file=sys.stderr)
        return 2
    print(describe(), flush=True)
    status = 0
    for name in names:
        try:
            line = importlib.import_module(f"bench.paper.{name}").run(output, quick=options.quick)
        except ExperimentError as error:
            print(f"{name}: {error}", file=sys.stderr)
            status = 1
        else:
            print(f"{name}: {line}", flush=True)
            output.line(name, line)
    if output.folder == RESULTS:
        _keep(output)
    if status == 0:
        print(f"figures and tables are in {output.folder}")
    return status


def _keep(output: Output) -> None:
    """Keep every result that there is for the README of this folder."""
    report = MarkdownReport()
    for name in EXPERIMENTS:
        path = output.folder / f"{name}.txt"
        if path.is_file():
            line = path.read_text(encoding="utf-8").strip()
            report.lines += [f"## {name}", "", line, f"![{name}](results/{name}.png)", ""]
    report.keep("paper")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # XLA compiles in other threads
    sys.exit(main())
