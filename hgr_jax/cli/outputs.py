"""Protect files of earlier runs from commands, and show the steps of commands."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import sys
import warnings
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from hgr_jax._files import (
    FILE,
    FOLDER,
    STREAMS,
    is_partial,
    kind_of_place,
    locked,
    made_folder,
    naming_file,
)
from hgr_jax._texts import first_names, grouped, shortened
from hgr_jax.plotting import save_figure
from hgr_jax.tables.faults import TableError, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCAN_FILES = ("report.html", "pairs.csv", "pairs.parquet", "scan.npz", "heat_map.png")
FAIR_FILES = (
    "model.npz",
    "model.json",
    "model.card.md",
    "model.unguaranteed.npz",
    "history.csv",
    "history.png",
    "predictions.png",
    "certificate.png",
    "frontier.png",
)
WRITTEN: dict[str, Sequence[str]] = {
    "scan": SCAN_FILES,
    "pair": (),  # each picture has another name
    "demo": (*SCAN_FILES, "top_pair.png", "fairness.png", "certificate.png"),
    "fair": FAIR_FILES,
}
"""Files that each command may write into its folder."""

STANDARD_STREAM = "-"
"""The name, among those of files, of standard input and output."""

MAX_STEP_WIDTH = 78

MAX_NAME_WIDTH = 32
"""Largest number of letters of a name in a table."""


def is_stream(out: Path) -> bool:
    """Return whether an output is a pipe or a device, which is written to as it is."""
    with naming_file(out):
        return kind_of_place(out) in STREAMS


def check_folder(folder: Path) -> None:
    """Raise a TableError unless a folder is there, or can be made, and files can be made in it."""
    with naming_file(folder):
        places = [folder, *folder.parents]
        place = next(place for place in places if kind_of_place(place) or place == places[-1])
        kind = kind_of_place(place)
    if kind != FOLDER:
        which = "it" if place == folder else printable(str(place))
        raise TableError(f"cannot write to {printable(str(folder))}: {which} is a {kind}")
    if not os.access(place, os.W_OK | os.X_OK):
        reason = f"no permission to write in {printable(str(place))}"
        raise TableError(f"cannot write to {printable(str(folder))}: {reason}")


def check_replaceable(path: Path, what: str, another: str, *, force: bool) -> None:
    """Raise a TableError unless nothing is at a path, or a file that may be replaced.

    ``what`` and ``another`` are for the message.
    """
    with naming_file(path):
        kind = kind_of_place(path)
    if kind not in ("", FILE):
        raise TableError(
            f"{printable(str(path))} is a {kind}, which no file replaces: write to another"
            f" {another} by --out"
        )
    if os.path.lexists(path) and not force:
        raise TableError(
            f"{printable(str(path))} is {what}: write to another {another} by --out, or over it by"
            " --force"
        )


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other runs from a folder, and remove what a killed run left there half written.

    Raises:
      TableError: if another run writes to the folder.
    """
    with made_folder(folder), locked(folder) as alone:
        if not alone:
            raise TableError(
                f"another run writes to {printable(str(folder))}: wait for its end, or write to"
                " another folder by --out"
            )
        for path in folder.iterdir():
            if is_partial(path):
                path.unlink(missing_ok=True)
        yield


def check_not_read(out: Path, read: Sequence[Path], another: str = "file") -> None:
    """Raise a TableError if a file to be written is also read."""
    for path in read:
        if str(path) == STANDARD_STREAM:
            continue
        if os.path.realpath(out) == os.path.realpath(path) or (
            out.exists() and path.exists() and out.samefile(path)  # two names of one file
        ):
            raise TableError(
                f"{printable(str(out))} is read, or may be, as {printable(str(path))}: write to"
                f" another {another} by --out"
            )


def unused_path(path: Path) -> Path:
    """Return the first of the path, ``name-2``, ``name-3``, ... that does not exist."""
    others = (path.with_stem(f"{path.stem}-{i}") for i in itertools.count(2))
    return next(p for p in itertools.chain([path], others) if not os.path.lexists(p))


def print_messages(label: str, messages: Mapping[str, str], file: TextIO | None = None) -> None:
    """Print a line for each message, with the columns or files that have it."""
    for message, names in grouped(messages).items():
        shown = first_names([printable(name) for name in names], MAX_NAME_WIDTH)
        print(f"{label}: {shown}: {printable(message)}", file=file)


@contextlib.contextmanager
def show_step(text: str) -> Iterator[None]:
    """Show ``text`` on stderr while the block runs, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    line = shortened(printable(text), MAX_STEP_WIDTH, mark="...")
    print(line, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(f"\r{' ' * len(line)}\r", end="", file=sys.stderr, flush=True)


def save_picture(draw: Callable[[], Figure], path: Path) -> str:
    """Draw a picture and save it by `save_figure`, show this step, and return what it prints."""
    with show_step(f"drawing {path.name}"), contextlib.redirect_stdout(io.StringIO()) as message:
        save_figure(draw(), path)
    return printable(message.getvalue().strip())


def open_in_browser(page: Path) -> None:
    """Open a page in the browser, or print that no browser was found."""
    if not webbrowser.open(page.resolve().as_uri()):
        print(f"hgr-jax: no browser was found; open {printable(str(page))} in one", file=sys.stderr)


def escape_formula(name: str) -> str:
    """Put a quote before a name that a spreadsheet would evaluate as a formula."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name


@contextlib.contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print what the package warns of in the meantime, each once, as notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        print(f"note: {printable(text)}", flush=True)
