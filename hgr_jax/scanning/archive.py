"""The file of a scan: its matrices, and its metadata as JSON, in one ``.npz`` without pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._files import atomic_write
from hgr_jax.scanning.pvalues import SOURCES

FORMAT = 3

ARRAYS = (
    "correlation",
    "rank_correlation",
    "pearson",
    "spearman",
    "rank_linear",
    "pvalue",
    "adjusted_pvalue",
    "corrected",
    "null_mean",
    "null_95",
    "n_obs",
    "degrees",
    "source",
    "pairs",
)
OPTIONAL = ("standard_error",)
"""Arrays that are there where they were asked for."""

ROUNDING = 1e-5
"""By which a correlation in float32 may exceed 1."""

METADATA = ("skipped", "notes", "settings")


def write_scan(path: str | Path, scan: Any) -> None:
    """Keep everything but the data of a `Scan`."""
    metadata = {name: dict(getattr(scan, name)) for name in METADATA}
    text = json.dumps({"format": FORMAT, "names": list(scan.names)} | metadata)
    arrays = {name: getattr(scan, name) for name in (*ARRAYS, *OPTIONAL)}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    with atomic_write(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays, words=np.array(text))


def read_scan(path: str | Path) -> dict[str, Any]:
    """Return the fields of a `Scan`.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: for a file that is none of a scan.
    """
    with Path(path).open("rb") as file:
        try:
            with np.load(file, allow_pickle=False) as kept:
                metadata = json.loads(str(kept["words"]))
                there = [name for name in OPTIONAL if name in kept]
                arrays = {name: kept[name] for name in (*ARRAYS, *there)}
            if metadata["format"] != FORMAT:
                raise ValueError(f"format {metadata['format']}, where {FORMAT} was expected")
            names = tuple(metadata["names"])
            _check_words(names, metadata)
            _check(arrays, len(names), metadata["settings"])
            return {"names": names} | {name: metadata[name] for name in METADATA} | arrays
        except Exception as error:  # of whatever a damaged archive makes its readers do
            reason = "it is damaged" if "pickle" in str(error) else error
            raise ValueError(f"{path} does not hold a scan: {reason}") from error


def _check_words(names: Sequence[Any], metadata: Mapping[str, Any]) -> None:
    """Check that names and remarks are as `write_scan` writes them."""
    if len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise ValueError("names are not texts, each another")
    for field in ("skipped", "notes"):
        if not all(isinstance(text, str) for text in metadata[field].values()):
            raise ValueError(f"{field} holds what is no text")
    rows = metadata["settings"]["rows"]
    if not isinstance(rows, int) or rows < 1:
        raise ValueError(f"the number of rows is {rows!r}")


def _check(arrays: Mapping[str, NDArray[Any]], count: int, settings: Mapping[str, Any]) -> None:
    """Check that arrays are as `write_scan` writes them: shapes, kinds and ranges."""
    kinds = {"n_obs": "i", "degrees": "i", "source": "i", "pairs": "i"}
    for name, array in arrays.items():
        square = (count, count, 2) if name == "degrees" else (count, count)
        shape = (len(array), 2) if name == "pairs" else square
        if array.shape != shape or array.dtype.kind != kinds.get(name, "f"):
            raise ValueError(f"{name} has shape {array.shape} and dtype {array.dtype}")
    for name, (low, high) in _ranges(count, settings).items():
        if name not in arrays:
            continue
        values = arrays[name][~np.isnan(arrays[name])]
        wrong = values[(values < low) | (values > high)]
        if len(wrong):
            raise ValueError(f"{name} has {wrong[0]:.7g}, outside of {low} to {high:.10g}")
    for name, array in arrays.items():
        turned = array[..., ::-1] if name == "degrees" else array
        is_float = array.dtype.kind == "f"
        if name != "pairs" and not np.array_equal(array.swapaxes(0, 1), turned, is_float):
            raise ValueError(f"{name} is not symmetric")
    if (arrays["pairs"][:, 0] == arrays["pairs"][:, 1]).any():
        raise ValueError("pairs has a column with itself")


def _ranges(count: int, settings: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Return the least and the largest value of every array."""
    share = (0, 1 + ROUNDING)
    measure = share if settings["method"] in ("kb", "sk") else (0, np.inf)
    ranges: dict[str, tuple[float, float]] = dict.fromkeys(
        ("correlation", "corrected", "null_mean", "null_95"), measure
    )
    of_ranks = ("rank_correlation", "spearman", "rank_linear")
    ranges |= dict.fromkeys((*of_ranks, "pearson", "pvalue", "adjusted_pvalue"), share)
    largest = {"n_obs": settings["rows"], "source": len(SOURCES) - 1, "pairs": count - 1}
    ranges |= {name: (0, high) for name, high in largest.items()}
    return ranges | dict.fromkeys(("degrees", "standard_error"), (0, np.inf))
