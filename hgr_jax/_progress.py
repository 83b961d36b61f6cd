"""A bar that shows how far long work is, on stderr."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

from hgr_jax._optional import require

Advance = Callable[..., None]
"""``(done, figures=None)``: so much more is done, and figures to show beside the bar."""


@contextlib.contextmanager
def progress_bar(
    shown: bool, total: int | None, *, unit: str, extra: str, label: str = "", leave: bool = True
) -> Iterator[Advance]:
    """Yield what to call as the work goes on; it does nothing if no bar is shown.

    Args:
      shown: whether there is a bar.
      total: of ``unit``, when all is done; None where no one knows.
      unit: what is counted.
      extra: of the package, that installs tqdm.
      label: before the bar.
      leave: whether the bar stays when the work is done.

    Raises:
      ImportError: without tqdm, naming the command that installs it.
    """
    if not shown:
        yield lambda done, figures=None: None
        return
    with require("tqdm", extra).tqdm(
        desc=label or None, total=total, unit=unit, leave=leave
    ) as bar:

        def advance(done: int, figures: Mapping[str, str] | None = None) -> None:
            if figures:
                bar.set_postfix(figures, refresh=False)
            bar.update(done)

        yield advance
