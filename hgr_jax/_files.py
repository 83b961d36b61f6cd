"""Files that appear when they are complete, or not at all."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path

_partial: set[Path] = set()
"""Of the files that are being written."""


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield the name under which to write a file that takes its own name once it is complete.

    Folders on the way are created.  After an error or Ctrl-C nothing of it is left, and a file
    that was there before is as it was.

    Args:
      path: of the file.

    Raises:
      OSError: if it cannot be written.

    Example:
      >>> import pathlib, tempfile
      >>> from hgr_jax._files import atomic_write
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = pathlib.Path(folder, "tables", "pairs.csv")
      ...     with atomic_write(path) as partial:
      ...         print(partial.write_text("a,b"), path.exists())
      ...     path.exists()
      3 False
      True
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
    """Remove what `atomic_write` has begun, in a process that ends without unwinding."""
    for partial in list(_partial):
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
