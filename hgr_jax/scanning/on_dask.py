"""Tables of Dask: data frames, and matrices of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hgr_jax._optional import require
from hgr_jax.scanning.passes import Pass
from hgr_jax.tables.arrow_columns import as_arrow


class DaskTable:
    """The partitions of a Dask data frame, or the blocks of rows of a Dask array.

    Whatever scheduler Dask has computes them: threads, or the cluster of the present client.
    """

    def __init__(self, table: Any) -> None:
        """Take a frame, or an array ``(n, p)`` whose blocks of rows then have all columns."""
        self._dask = require("dask", "dask")
        if hasattr(table, "npartitions") and hasattr(table, "columns"):
            self.name = "the Dask data frame"
            self._parts = list(table.to_delayed())
        else:
            self.name = "the Dask array"
            if table.ndim != 2 or table.dtype.kind not in "fiub":
                raise TypeError(
                    "a Dask array must be a matrix (n, p) of numbers; got shape"
                    f" {tuple(table.shape)} and dtype {table.dtype}."
                )
            self._parts = list(table.rechunk({1: -1}).to_delayed().ravel())

    def each(self, made: Pass) -> list[Any]:
        """Return what every part gives, in their order."""
        return list(self._dask.compute(*self._made(made)))

    def total(self, made: Pass, join: Callable[[Any, Any], Any]) -> Any:
        """Return what all parts give, joined in their order, two neighbours at a time."""
        found, joined = self._made(made), self._dask.delayed(join, pure=False)
        while len(found) > 1:
            pairs = zip(found[::2], found[1::2], strict=False)
            found = [joined(*pair) for pair in pairs] + found[len(found) // 2 * 2 :]
        return self._dask.compute(found[0])[0]

    def _made(self, made: Pass) -> list[Any]:
        # The pass holds the plan: sent once, not with every part.
        shared = self._dask.delayed(made, pure=False)
        one = self._dask.delayed(_of_partition, pure=False)
        return [one(shared, part, place) for place, part in enumerate(self._parts)]


def _of_partition(made: Pass, part: Any, place: int) -> Any:
    return made([as_arrow(part)], place)
