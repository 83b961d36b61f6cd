"""The file of a scan: its matrices, and its metadata as JSON, in one ``.npz`` without pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._files import atomic_write
from hgr_jax.scanning.pvalues import SOURCES

FORMAT = 2

ARRAYS = (
    "correlation",
    "rank_correlation",
    "pearson",
    "spearman",
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
METADATA = ("skipped", "notes", "settings")


def write_scan(path: str | Path, scan: Any) -> None:
    """Keep everything but the data of a `Scan`."""
    metadata = {name: dict(getattr(scan, name)) for name in METADATA}
    text = json.dumps({"format": FORMAT, "names": list(scan.names)} | metadata)
    arrays = {name: getattr(scan, name) for name in ARRAYS}
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
                arrays = {name: kept[name] for name in ARRAYS}
            if metadata["format"] != FORMAT:
                raise ValueError(f"format {metadata['format']}, where {FORMAT} was expected")
            names = tuple(metadata["names"])
            _check(arrays, len(names))
            return {"names": names} | {name: metadata[name] for name in METADATA} | arrays
        except Exception as error:  # of whatever a damaged archive makes its readers do
            reason = "it is damaged" if "pickle" in str(error) else error
            raise ValueError(f"{path} does not hold a scan: {reason}") from error


def _check(arrays: Mapping[str, NDArray[Any]], count: int) -> None:
    """Check that arrays are as `write_scan` writes them: shapes, kinds and ranges."""
    kinds = {"n_obs": "i", "degrees": "i", "source": "i", "pairs": "i"}
    for name, array in arrays.items():
        square = (count, count, 2) if name == "degrees" else (count, count)
        shape = (len(array), 2) if name == "pairs" else square
        if array.shape != shape or array.dtype.kind != kinds.get(name, "f"):
            raise ValueError(f"{name} has shape {array.shape} and dtype {array.dtype}")
    for name, end in (("pairs", count), ("source", len(SOURCES))):
        if not ((arrays[name] >= 0) & (arrays[name] < end)).all():
            raise ValueError(f"{name} has values outside of 0 to {end - 1}")
