"""The command: ``python -m bench.paper NAME [--quick] [--out DIR]``."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from bench.machine import describe
from bench.paper.output import Output
from bench.paper.tables import NoTablesError

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
)
RESULTS = Path(__file__).with_name("results")


def main(arguments: list[str] | None = None) -> int:
    """Run the experiments that are asked for; 0 if all ran, 1 if one could not, 130 on Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m bench.paper", description=__doc__)
    parser.add_argument("name", choices=(*EXPERIMENTS, "all"), help="an experiment, or all of them")
    parser.add_argument("--quick", action="store_true", help="a small version, to see it work")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder to write to")
    options = parser.parse_args(arguments)
    names = EXPERIMENTS if options.name == "all" else (options.name,)
    output = Output(options.out)
    print(describe(), flush=True)
    status = 0
    for name in names:
        experiment = importlib.import_module(f"bench.paper.{name}")
        try:
            line = experiment.run(output, quick=options.quick)
        except NoTablesError as error:
            print(f"{name}: skipped: {error}", file=sys.stderr)
            status = 1
        except KeyboardInterrupt:
            print(
                f"\n{name}: interrupted; run the same command again to go on from there",
                file=sys.stderr,
            )
            return 130
        else:
            print(f"{name}: {line}", flush=True)
    if status == 0:
        print(f"figures and tables are in {options.out}")
    return status


if __name__ == "__main__":
    sys.exit(main())
