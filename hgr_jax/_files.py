"""Files that appear only when they are complete, alone or together."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

if sys.platform != "win32":
    import fcntl

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

_waiting: ContextVar[list[tuple[Path | None, Path]] | None] = ContextVar("waiting", default=None)
"""Temporary files of `written_together` and their places; None for a file to remove."""


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
        waiting = _waiting.get()
        try:
            yield partial
            if waiting is not None:
                waiting.append((partial, place))
                return
            partial.replace(place)
        except BaseException:
            _forget(partial)
            raise


@contextlib.contextmanager
def written_together() -> Iterator[None]:
    """Let the files of `atomic_write` appear when the block ends: all, or none after an error."""
    if _waiting.get() is not None:  # part of a larger block
        yield
        return
    waiting: list[tuple[Path | None, Path]] = []
    token, moved = _waiting.set(waiting), []
    try:
        yield
        for partial, place in waiting:
            with naming_file(place):
                if partial is None:
                    place.unlink(missing_ok=True)
                else:
                    partial.replace(place)
                    moved.append(place)
    except BaseException:
        for place in moved:
            place.unlink(missing_ok=True)
        raise
    finally:
        _waiting.reset(token)
        for partial, _ in waiting:
            if partial is not None:
                _forget(partial)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Yield whether no other process has a folder; none gets it while the block runs.

    On Windows, and where a file system has no locks, every process gets it.
    """
    if sys.platform == "win32":
        yield True
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        alone = True
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            alone = False
        except OSError:  # a file system without locks
            pass
        yield alone
    finally:
        os.close(place)  # which unlocks it


def remove_file(path: Path) -> None:
    """Remove a file, if it is there; within `written_together`, when the others appear."""
    waiting = _waiting.get()
    if waiting is None:
        path.unlink(missing_ok=True)
    else:
        waiting.append((None, path))


def is_partial(path: Path) -> bool:
    """Return whether a file has the name of a temporary file of `atomic_write`."""
    return re.fullmatch(r"\.[0-9a-f]{16}(\.\w+)?", path.name) is not None


@contextlib.contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Make a folder, and remove it when the block ends if it is new and nothing is in it."""
    is_new = not folder.exists()
    with naming_file(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _forget(partial: Path) -> None:
    with contextlib.suppress(OSError):
        partial.unlink(missing_ok=True)
