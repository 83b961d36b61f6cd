"""The command line: run the command that the options name, and report errors in one line."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import io
import os
import sys
import traceback
from pathlib import Path
from typing import Any, TextIO

from hgr_jax._files import WritingError
from hgr_jax.cli.options import AuditOptions, ScanOptions, command_parser
from hgr_jax.tables.faults import TableError, printable

# NumPy is loaded by the commands that compute, once their options are known to be right, and JAX by
# those that need it.


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 if it worked, 2 with one line on stderr if it could not.

    1 if an audit does not certify what was asked.
    """
    _open_closed_streams()
    options = command_parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _run(options)
        sys.stdout.flush()
        return status
    except (TableError, ImportError, FloatingPointError) as error:
        return _refuse(str(error))
    except MemoryError:
        return _refuse("out of memory: take fewer rows or columns (--columns, --target)")
    except BrokenPipeError:  # the reader of stdout is gone
        _discard(sys.stdout)
        return 1
    except WritingError as error:
        return _refuse(f"cannot write {error.filename}: {error.strerror}")
    except OSError as error:
        if error.filename is None:
            _discard(sys.stdout)
            return _refuse(f"cannot write the output: {error.strerror or error}")
        return _refuse(f"cannot use {error.filename}: {error.strerror}")
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        name, line = _last_place(error)
        return _refuse(
            f"this is a fault of hgr-jax, in {name}, line {line} ({type(error).__name__}: {error});"
            " please report it; python -X dev -m hgr_jax shows more"
        )


def _refuse(message: str) -> int:
    """Print why a command cannot be done in one line on stderr, and return its status."""
    try:
        print(f"hgr-jax: error: {printable(message)}", file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)
    return 2


def _open_closed_streams() -> None:
    """Open the streams with which a process was started closed, which Python leaves None."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - until the process ends


def _discard(stream: TextIO) -> None:
    """Discard what a stream still holds, of which the interpreter would complain at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _last_place(error: Exception) -> tuple[str, int]:
    """Return the file, within the package, and the line in it from which an error came."""
    package = Path(__file__).parents[1]
    frames = traceback.extract_tb(error.__traceback__)
    place = next(f for f in reversed(frames) if package in Path(f.filename).parents)
    return str(Path(place.filename).relative_to(package)), place.lineno or 0


def _run(options: argparse.Namespace) -> int:
    from hgr_jax.cli import outputs
    from hgr_jax.tables.reading import Reading

    command = importlib.import_module(f"hgr_jax.cli.{options.command}")

    if options.command != "demo":
        options.types = dict(options.types)
    reading = _options_of(options, Reading)
    if options.command == "audit":
        chosen = _options_of(options, AuditOptions)
        return 0 if command.report_audit(options.file, chosen, reading) else 1
    outputs.check_folder(options.out)
    for name in outputs.WRITTEN[options.command]:
        if options.command != "demo":
            outputs.check_not_read(options.out / name, options.file)
        outputs.check_replaceable(options.out / name, force=options.force)

    chosen = _options_of(options, ScanOptions)
    if options.command == "demo":
        command.report_demo(chosen, options.out)
    elif options.command == "scan":
        title = options.file.name if str(options.file) != "-" else "standard input"
        command.report_scan(options.file, title, chosen, options.out, reading)
    else:
        columns = (options.column_a, options.column_b)
        command.report_pair(options.file, columns, chosen, options.out, reading)
    if chosen.open:
        outputs.open_in_browser(options.out / "report.html")
    return 0


def _options_of(options: argparse.Namespace, kind: Any) -> Any:
    """Return the options that are fields of a dataclass, as an instance of it."""
    names = [field.name for field in dataclasses.fields(kind) if hasattr(options, field.name)]
    try:
        return kind(**{name: getattr(options, name) for name in names})
    except ValueError as error:
        raise TableError(str(error)) from None
