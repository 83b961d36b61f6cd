"""The options of a scan of a table that is read in parts, by one process or on a cluster."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jax import Array

from hgr_jax._checks import check_choice, check_count, check_degree
from hgr_jax.scanning.choice import as_positions
from hgr_jax.scanning.size import MEMORY
from hgr_jax.tables.arrow_columns import NUMBER
from hgr_jax.tables.faults import printable


@dataclasses.dataclass(frozen=True, eq=False)
class StreamOptions:
    """Options of `hgr_jax.scan`, those that it has of a table that is read in parts.

    They are as they were given until `check` has seen them.
    """

    h: int = 5
    k: int = 5
    method: str = "kb"
    target: str | int | Sequence[str | int] | None = None
    weights: str | None = None
    pvalues: str | None = "auto"
    permutations: int = 999
    key: Array | None = None
    categories: Collection[str] = ()
    memory: int = MEMORY

    def check(self, kinds: Mapping[str, str], names: Sequence[str]) -> None:
        """Raise for options that do not suit a table of such columns, before hours of work.

        Args:
          kinds: of the columns that are read, by name.
          names: of all columns, in order.
        """
        for name, degree in (("h", self.h), ("k", self.k)):
            if callable(degree):
                raise ValueError(
                    f"{name} must be a degree where a table is read batch by batch; got a kernel:"
                    " read the table, or a sample of it, into memory."
                )
            check_degree(name, degree)
        check_choice("method", self.method, ("kb", "sk"))
        if self.pvalues is not None:
            check_choice("pvalues", self.pvalues, ("auto",))
            if self.method == "sk":
                raise ValueError(
                    "p-values of batches are of method='kb'; take pvalues=None with 'sk'."
                )
        self._check_columns(kinds)
        as_positions("target", self.target, [name for name in names if name != self.weights])
        check_count("permutations", self.permutations)

    def _check_columns(self, kinds: Mapping[str, str]) -> None:
        categories, weights = self.categories, self.weights
        if isinstance(categories, str) or not isinstance(categories, Collection):
            raise TypeError(f"categories must be a sequence of names; got {categories!r}.")
        unknown = sorted(set(categories) - set(kinds))
        if unknown:
            raise ValueError(f"categories name no column of the table: {unknown}.")
        if weights is None:
            return
        if not isinstance(weights, str):
            raise TypeError(
                "weights of a table that is read batch by batch must be the name of a column; got"
                f" {type(weights).__name__}."
            )
        if kinds.get(weights) != NUMBER:
            raise ValueError(
                f"weights must name a column of numbers; {printable(weights)!r} is"
                f" {kinds.get(weights) or 'no column'}."
            )

    @property
    def of_sums(self) -> list[Any]:
        """Those that the sums depend on, as JSON can hold them."""
        categories = sorted(self.categories)
        return [self.h, self.k, self.method, self.weights, self.pvalues, categories, self.memory]

    @property
    def of_result(self) -> dict[str, Any]:
        """Those of `ScanState.result`."""
        names = ("target", "permutations", "key", "memory")
        return {name: getattr(self, name) for name in names}
