"""A progress bar on stderr."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

from hgr_jax._optional import require

Advance = Callable[..., None]
"""``(done, figures=None)``: units done since the last call, and figures to show beside the bar."""


@contextlib.contextmanager
def progress_bar(
    shown: bool, total: int | None, *, unit: str, label: str = "", leave: bool = True
) -> Iterator[Advance]:
    """Yield the function that advances the bar; it does nothing unless the bar is ``shown``.

    ``total`` is None if unknown, and ``leave`` keeps the bar when the work is done.
    """
    if not shown:
        yield lambda done, figures=None: None
        return
    with require("tqdm").tqdm(desc=label or None, total=total, unit=unit, leave=leave) as bar:

        def advance(done: int, figures: Mapping[str, str] | None = None) -> None:
            if figures:
                bar.set_postfix(figures, refresh=False)
            bar.update(done)

        yield advance
