"""A progress bar on stderr."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from hgr_jax._optional import require


@contextlib.contextmanager
def progress_bar(shown: bool, total: int | None, unit: str) -> Iterator[Callable[[int], Any]]:
    """Yield a function of the units done since the last call; it shows nothing unless ``shown``.

    ``total`` is None if unknown.  The bar goes when the work is done.
    """
    if not shown:
        yield lambda done: None
        return
    with require("tqdm").tqdm(desc=f"{unit}s", total=total, unit=unit, leave=False) as bar:
        yield bar.update
