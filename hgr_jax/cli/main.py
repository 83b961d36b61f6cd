"""The command line: run the command that the options name, and report errors in one line."""

from __future__ import annotations

import argparse
import dataclasses
import io
import os
import sys
from typing import Any

from hgr_jax._optional import require
from hgr_jax.cli.interrupts import leaving_on_interrupt
from hgr_jax.cli.options import FairOptions, ScanOptions, command_parser
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.files import check_readable
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.sources import names_several


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 if it worked, 2 with one line on stderr if it could not, 130 on Ctrl-C."""
    options = command_parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with leaving_on_interrupt("hgr-jax: interrupted"):
            status = _run(options)
            sys.stdout.flush()
            return status
    except (TableError, ImportError, FloatingPointError) as error:
        print(f"hgr-jax: error: {error}", file=sys.stderr)
        return 2
    except MemoryError:
        print(
            "hgr-jax: error: out of memory: take fewer rows or columns (--columns, --target)",
            file=sys.stderr,
        )
        return 2
    except BrokenPipeError:
        # The reader of stdout is gone; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f" {printable(str(error.filename))}" if error.filename else ""
        print(f"hgr-jax: error: cannot write{where}: {error.strerror}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    if options.command == "completion":  # fast, as a shell runs it when it starts
        shtab = require("shtab", "cli")
        print(shtab.complete(command_parser(), options.shell))
        return 0

    import jax

    from hgr_jax.cli import outputs

    inputs = [getattr(options, name) for name in ("model", "file") if hasattr(options, name)]
    for path in inputs:
        if options.command != "scan" or not names_several(path):
            check_readable(path)
    if options.command in outputs.WRITTEN:
        written = [options.out / name for name in outputs.WRITTEN[options.command]]
        for path in written:
            outputs.check_not_read(path, inputs, another="folder")
        if not options.force:
            outputs.check_absent(written, "of an earlier run", "folder")
    reading = _options_of(options, Reading)
    if options.command == "fair":
        from hgr_jax.cli import fair

        chosen = _options_of(options, FairOptions)
        fair.report_training(options.file, chosen, reading, options.out)
        return 0
    if options.command == "predict":
        from hgr_jax.cli import predict

        if options.out:
            outputs.check_not_read(options.out, [*inputs, predict.description_of(options.model)])
            if not options.force:
                outputs.check_absent([options.out], "there already", "file")
        predict.report_predictions(options.model, options.file, reading, options.out)
        return 0

    from hgr_jax.cli import pair, scan

    with jax.enable_x64(True):
        if options.command == "demo":
            pair.report_scan_demo(_options_of(options, ScanOptions), options.out)
        elif options.command == "scan":
            chosen = _options_of(options, ScanOptions)
            scan.report_file(options.file, chosen, options.out, reading)
        else:
            columns = (options.column_a, options.column_b)
            chosen = _options_of(options, ScanOptions)
            pair.report_pair(options.file, columns, chosen, options.out, reading)
    if options.command == "demo":
        from hgr_jax.cli import fair

        fair.report_training_demo(options.out)
    return 0


def _options_of(options: argparse.Namespace, kind: Any) -> Any:
    """Return the options that are fields of a dataclass, as an instance of it."""
    names = [field.name for field in dataclasses.fields(kind) if hasattr(options, field.name)]
    return kind(**{name: getattr(options, name) for name in names})
