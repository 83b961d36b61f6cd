"""Files that appear only when they are complete."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

FILE, FOLDER, PIPE, DEVICE = "file", "folder", "pipe", "device"
"""What `kind_of_place` tells apart, beside ``"socket"`` and ``"disk"``."""

STREAMS = (PIPE, DEVICE)
"""What is written to as it is: to replace it by a file would destroy it."""

_KINDS = {
    stat.S_IFREG: FILE,
    stat.S_IFDIR: FOLDER,
    stat.S_IFIFO: PIPE,
    stat.S_IFCHR: DEVICE,
    stat.S_IFSOCK: "socket",
    stat.S_IFBLK: "disk",
}


class WritingError(OSError):
    """A file that cannot be written; ``filename`` and ``strerror`` say which, and why."""


@contextlib.contextmanager
def naming_file(path: str | Path) -> Iterator[None]:
    """Turn errors of writing into a `WritingError` with the path, not that of a temporary file."""
    try:
        yield
    except (BrokenPipeError, WritingError):  # a reader that is gone has its own meaning
        raise
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise WritingError(error.errno, reason, str(path)) from error


def kind_of_place(path: str | Path) -> str:
    """Return what is at a path, whatever links lead there: a word, empty for nothing."""
    try:
        return _KINDS.get(stat.S_IFMT(os.stat(path).st_mode), "")
    except (FileNotFoundError, NotADirectoryError):
        return ""


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path to write to; the file is renamed to ``path`` when the block ends.

    Folders are created.  After an error the temporary file is removed, and an earlier
    file at ``path`` is unchanged.  A link stays: the file that it leads to is replaced.  A pipe or
    a device is written to as it is.

    Raises:
      WritingError: if the file cannot be written.
    """
    with naming_file(path):
        kind = kind_of_place(path)
        if kind in STREAMS:
            yield Path(path)
            return
        if kind not in ("", FILE):
            raise OSError(None, f"it is a {kind}")
        place = Path(os.path.realpath(path))
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
        partial = place.with_name(f".{secrets.token_hex(8)}{place.suffix}")
        try:
            yield partial
            partial.replace(place)
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
