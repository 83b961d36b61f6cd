"""Protect files of earlier runs from commands, check columns, and show the steps of commands."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import warnings
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hgr_jax._arrays import size_fault
from hgr_jax._files import FILE, FOLDER, atomic_write, kind_of_place, naming_file
from hgr_jax._texts import first_names, grouped, shortened
from hgr_jax.tables.columns import Frame
from hgr_jax.tables.faults import TableError, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCAN_FILES = ("report.html", "pairs.csv", "pairs.parquet", "scan.npz")
WRITTEN: dict[str, Sequence[str]] = {
    "scan": SCAN_FILES,
    "pair": (),  # each picture has another name
    "demo": (*SCAN_FILES, "fairness.png"),
}
"""Files that each command may write into its folder."""

MAX_STEP_WIDTH = 78

MAX_NAME_WIDTH = 32
"""Largest number of letters of a name in a table."""


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


def check_replaceable(path: Path, *, force: bool) -> None:
    """Raise a TableError unless nothing is at a path, or a file that may be replaced."""
    with naming_file(path):
        kind = kind_of_place(path)
    if kind not in ("", FILE):
        raise TableError(
            f"{printable(str(path))} is a {kind}, which no file replaces: write to another folder"
            " by --out"
        )
    if os.path.lexists(path) and not force:
        raise TableError(
            f"{printable(str(path))} is of an earlier run: write to another folder by --out, or"
            " over it by --force"
        )


def check_not_read(out: Path, read: Path) -> None:
    """Raise a TableError if a file to be written is also read."""
    if os.path.realpath(out) == os.path.realpath(read) or (
        out.exists() and read.exists() and out.samefile(read)  # two names of one file
    ):
        raise TableError(
            f"{printable(str(out))} is read, or may be, as {printable(str(read))}: write to"
            " another folder by --out"
        )


def check_sizes(frame: Frame, names: Sequence[str]) -> None:
    """Raise a TableError for columns of numbers whose squares overflow or vanish."""
    for name in names:
        column = frame.column(name)
        if column.dtype.kind in "OM":  # texts and dates
            continue
        if fault := size_fault(column[np.isfinite(column)]):
            raise TableError(
                f"{frame.source}: column {name!r} cannot be used: {fault}; change its unit, or name"
                " by --na what stands for a missing value"
            )


def unused_path(path: Path) -> Path:
    """Return the first of the path, ``name-2``, ``name-3``, ... that does not exist."""
    others = (path.with_stem(f"{path.stem}-{i}") for i in itertools.count(2))
    return next(p for p in itertools.chain([path], others) if not os.path.lexists(p))


def print_messages(label: str, messages: Mapping[str, str]) -> None:
    """Print a line for each message, with the columns or files that have it."""
    for message, names in grouped(messages).items():
        shown = first_names([printable(name) for name in names], MAX_NAME_WIDTH)
        print(f"{label}: {shown}: {printable(message)}")


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
    """Draw a picture, save it as a whole file or not at all, and say where it is.

    Characters that the font lacks are drawn as boxes, without a warning.
    """
    with show_step(f"drawing {path.name}"), warnings.catch_warnings(), atomic_write(path) as part:
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        draw().savefig(part, dpi=130)
    return f"picture: {printable(str(path))}"


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
