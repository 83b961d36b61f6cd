"""Which options of a scan go together."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from hgr_jax import measures
from hgr_jax._checks import check_degree, check_kernel
from hgr_jax._texts import shortened
from hgr_jax.core.kernels import KernelLike
from hgr_jax.scanning.features import Kernels
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
