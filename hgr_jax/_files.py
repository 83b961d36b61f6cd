"""Files that appear only when they are complete."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path

_partial: set[Path] = set()
"""Temporary files that are being written."""


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path to write to; the file is renamed to ``path`` when the block ends.

    Folders are created.  After an error or Ctrl-C the temporary file is removed, and an earlier
    file at ``path`` is unchanged.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{secrets.token_hex(8)}{path.suffix}")
    _partial.add(partial)
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
        _partial.discard(partial)


def remove_partial() -> None:
    """Remove the temporary files of `atomic_write`, in a process that ends without unwinding."""
    for partial in list(_partial):
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
