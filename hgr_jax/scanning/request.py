"""[options] Which options of a scan go together.

[stream_options] The options of a scan of a table that is read in parts, by one process or on a cluster.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from jax import Array

from hgr_jax import measures
from hgr_jax._checks import check_choice, check_count, check_degree, check_kernel
from hgr_jax._texts import shortened
from hgr_jax.core.kernels import KernelLike
from hgr_jax.scanning.features import Kernels
from hgr_jax.scanning.pairs import MEMORY, as_positions
from hgr_jax.tables.arrow_columns import NUMBER
from hgr_jax.tables.faults import TableError, printable

Measure = Callable[[Any, Any], Any]

KERNEL_LETTERS = 60
"""Of a kernel among the settings of a scan."""


def check_streamed(asked: Mapping[str, bool], *, of_files: Mapping[str, bool]) -> None:
    """Raise for an option that only tables in memory have, or those and files."""
    wrong = [name for name, there in asked.items() if there]
    if wrong:
        raise ValueError(
            f"{wrong[0]}: not for a table that is read batch by batch. Leave it out, or read the"
            " table (or a sample of its rows) into a data frame and scan that."
        )
    wrong = [name for name, there in of_files.items() if there]
    if wrong:
        raise ValueError(
            f"{wrong[0]}: not for a table on a cluster, whose engine says which parts it computes"
            " again and where. Leave it out, or write the table to Parquet files and scan these."
        )


def checkpoint_folder(checkpoint: Any) -> Path | None:
    """Return the folder of a checkpoint, which is made, or None."""
    if checkpoint is None:
        return None
    if not isinstance(checkpoint, str | Path) or not str(checkpoint):
        raise TypeError(f"checkpoint must be the path of a folder; got {checkpoint!r}.")
    try:
        Path(checkpoint).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TableError(
            f"checkpoint must be a folder that can be written to; got {printable(str(checkpoint))}"
            f" ({error.strerror})"
        ) from error
    return Path(checkpoint)


def check_devices(devices: Any) -> None:
    """Raise unless this is a sequence of JAX's devices, or None."""
    if devices is None:
        return
    if (
        not isinstance(devices, Sequence)
        or not devices
        or not all(isinstance(device, jax.Device) for device in devices)
    ):
        raise TypeError(f"devices must be a sequence of jax.Device, or None; got {devices!r}.")


def as_measure(method: Any) -> Measure | None:
    """Return a function of two vectors; None for those that the engine does."""
    if callable(method):
        return method
    if isinstance(method, str) and method in ("kb", "sk"):
        return None
    known = [n for n in measures.__all__ if n.islower() and not n.endswith("_fit")]
    known = [n for n in known if _takes_two_vectors(getattr(measures, n))]
    if not isinstance(method, str) or method not in known:
        raise ValueError(
            f"method must be a function of two vectors or one of {', '.join(sorted(known))};"
            f" got {method!r}."
        )
    found: Measure = getattr(measures, method)
    return found


def checked_kernels(h: Any, k: Any, method: Any, pvalues: str | None) -> Kernels:
    """Return the kernels of both sides, if the other options go with them."""
    h, k = (
        kernel if callable(check_kernel(name, kernel)) else check_degree(name, kernel)
        for name, kernel in (("h", h), ("k", k))
    )
    kernels = Kernels(h, k, single=method == "sk")
    if not kernels.plain and method != "kb":
        raise ValueError(f"kernels are for method='kb'; got method={method!r}: take degrees.")
    if not kernels.plain and pvalues in ("rank", "asymptotic"):
        raise ValueError(
            f"pvalues={pvalues!r} is Roy's law at degrees h and k, which other kernels have not:"
            " take 'auto', 'permutation' or None."
        )
    return kernels


def named_kernel(kernel: KernelLike) -> int | str:
    """Return a kernel as a setting: a degree, or the words of it."""
    if not callable(kernel):
        return kernel
    return shortened(getattr(kernel, "__name__", repr(kernel)), KERNEL_LETTERS)


def check_beside_given(method: Any, pvalues: str | None) -> None:
    """Raise unless the other options go with given columns."""
    if method not in ("kb", "sk"):
        raise ValueError(f"given is for method='kb' or 'sk'; got method={method!r}.")
    if pvalues not in ("auto", None):
        raise ValueError(
            f"pvalues={pvalues!r} is not for given columns, as neither those laws nor permutations"
            " hold beside them: take 'auto', by random signs, or None."
        )


def check_beside_top(measure: Measure | None, given: Any, pvalues: str | None, by: str) -> None:
    """Raise unless the other options go with keeping the first pairs only."""
    if measure is not None:
        raise ValueError("top is for method='kb' or 'sk'.")
    if given is not None:
        raise ValueError("top is for scans without given columns: leave one of them out.")
    if pvalues is None and by == "pvalue":
        raise ValueError("by='pvalue' takes p-values: take by='correlation' with pvalues=None.")


def _takes_two_vectors(measure: Measure) -> bool:
    parameters = inspect.signature(measure).parameters.values()
    return sum(p.default is p.empty and p.kind != p.VAR_KEYWORD for p in parameters) == 2


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
