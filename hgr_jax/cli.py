"""The command line: ``hgr-jax demo`` and ``hgr-jax pair FILE.csv COL_A COL_B``."""

from __future__ import annotations

import argparse
import io
import os
import sys
from pathlib import Path

import hgr_jax
from hgr_jax.interruption import leaving_on_interrupt
from hgr_jax.tables import TableError, printable

LARGEST_DEGREE = 50


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 if it worked, 2 with one line on stderr if it could not, 130 on Ctrl-C."""
    options = _parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with leaving_on_interrupt("hgr-jax: interrupted"):
            return _run(options)
    except (TableError, ImportError) as error:
        print(f"hgr-jax: error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of our output has gone; keep the interpreter from saying so at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f" {printable(str(error.filename))}" if error.filename else ""
        print(f"hgr-jax: error: cannot write{where}: {error.strerror}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    import jax

    from hgr_jax import reports

    with jax.enable_x64(True):
        if options.command == "demo":
            table = reports.breast_cancer()
            reports.report_table(table, options.h, options.k, options.top, options.out)
        else:
            names = (options.column_a, options.column_b)
            reports.report_pair(options.file, names, options.h, options.k, options.out)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hgr-jax",
        description="HGR maximal correlation with polynomial kernels.",
    )
    parser.add_argument("--version", action="version", version=f"hgr-jax {hgr_jax.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    demo = commands.add_parser(
        "demo",
        help="all pairs of a real table",
        description=(
            "All pairs of the breast-cancer table that scikit-learn ships (30 measurements of"
            " 569 patients): which pairs depend on each other in ways that Pearson misses."
        ),
    )
    demo.add_argument("--top", type=_positive, default=10, help="pairs to list (default 10)")
    demo.add_argument(
        "--out", type=Path, default=Path("hgr-jax-demo"), help="folder for the pictures"
    )

    pair = commands.add_parser(
        "pair",
        help="two columns of a CSV file",
        description="HGR-KB, HGR-SK and Pearson of two columns of a CSV file, with a picture.",
    )
    pair.add_argument("file", type=Path, metavar="FILE.csv", help="a CSV file with a header line")
    pair.add_argument("column_a", metavar="COL_A", help="name of the first column")
    pair.add_argument("column_b", metavar="COL_B", help="name of the second column")
    pair.add_argument(
        "--out", type=Path, default=Path("hgr-jax-pair"), help="folder for the picture"
    )

    for command, degree in ((demo, 3), (pair, 5)):
        for option, which in (("--h", "first"), ("--k", "second")):
            command.add_argument(
                option,
                type=_degree,
                default=degree,
                help=f"degree for the {which} column (default {degree})",
            )
    return parser


def _positive(text: str, largest: int = 10**6) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value <= largest:
        raise argparse.ArgumentTypeError(f"expected an integer from 1 to {largest}, got {text!r}")
    return value


def _degree(text: str) -> int:
    return _positive(text, LARGEST_DEGREE)


if __name__ == "__main__":
    sys.exit(main())
