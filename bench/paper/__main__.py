"""The command: ``python -m bench.paper NAME [--quick] [--out DIR] [options]``."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from pathlib import Path
from typing import Any

from bench.machine import describe
from bench.paper.options import OPTIONS, add_options, flag, taken
from bench.paper.output import UNSTEADY, ExperimentError, Output
from bench.report import MarkdownReport

EXPERIMENTS = (
    "overfitting",
    "lstsq",
    "example",
    "monotonicity",
    "determinism",
    "correlations",
    "copulas",
    "properties",
    "importance",
    "causality",
    "results",
    "heldout",
    "calibration",
    "history",
    "usecase",
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
    parser.add_argument(
        "--formats", nargs="+", choices=tuple(UNSTEADY), default=["png"], help="of the figures"
    )
    add_options(parser)
    options = parser.parse_args(arguments)
    given = {name: value for name, value in vars(options).items() if name in OPTIONS}
    names = EXPERIMENTS if options.name == "all" else (options.name,)
    for name in given:
        takers = [known for known in EXPERIMENTS if name in taken(_experiment(known).run)]
        if not set(takers) & set(names):
            parser.error(f"{flag(name)} is an option of {', '.join(takers)}; not of {options.name}")
    folder = RESULTS / "quick" if options.quick else RESULTS / "other" if given else RESULTS
    output = Output(options.out or folder, tuple(options.formats))
    try:
        output.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"cannot write into {output.folder}: {error.strerror}", file=sys.stderr)
        return 2
    print(describe(), flush=True)
    status = 0
    for name in names:
        experiment = _experiment(name)
        those = {option: given[option] for option in taken(experiment.run) if option in given}
        try:
            line = experiment.run(output, quick=options.quick, **those)
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


def _experiment(name: str) -> Any:
    return importlib.import_module(f"bench.paper.{name}")


def _keep(output: Output) -> None:
    """Show every result that there is in the README of this folder."""
    report = MarkdownReport(quiet=True)
    report.say(describe())
    for name in EXPERIMENTS:
        path = output.folder / f"{name}.txt"
        if path.is_file():
            line = path.read_text(encoding="utf-8").strip()
            for text in ("", f"## {name}", "", line, "", f"![{name}](results/{name}.png)"):
                report.say(text)
    report.keep("paper", README)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # XLA compiles in other threads
    sys.exit(main())
