"""Archives: arrays, and settings as JSON, in one ``.npz`` file that cannot execute code."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._files import atomic_write
from hgr_jax._version import __version__

FORMAT = 1

ABOUT = "about"
"""Name of the array that holds the JSON: kind, format, version and settings."""


def save_archive(
    path: str | Path,
    kind: str,
    settings: Mapping[str, Any],
    arrays: Mapping[str, Any],
    *,
    compress: bool = False,
) -> None:
    """Write arrays of numbers or texts, and settings that JSON can hold, by `atomic_write`.

    ``kind``, such as "scan", names the contents; `load_archive` checks it.

    Example:
      >>> import pathlib, tempfile
      >>> import numpy as np
      >>> from hgr_jax._archive import load_archive, save_archive
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = pathlib.Path(folder, "pair.npz")
      ...     save_archive(path, "pair", {"h": 5}, {"value": np.array(0.5)})
      ...     load_archive(path, "pair")
      ({'h': 5}, {'value': array(0.5)})
    """
    about = {"kind": kind, "format": FORMAT, "version": __version__, "settings": dict(settings)}
    text = np.array(json.dumps(about | {"arrays": list(arrays)}))
    write = np.savez_compressed if compress else np.savez
    with atomic_write(path) as partial, partial.open("wb") as file:
        write(file, allow_pickle=False, **{ABOUT: text}, **arrays)


def load_archive(path: str | Path, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the settings and arrays that `save_archive` wrote; a ValueError for any other file."""
    with Path(path).open("rb") as file:
        try:
            with zipfile.ZipFile(file) as members, warnings.catch_warnings():
                warnings.simplefilter("error")  # NumPy warns of headers that it never writes
                # zipfile compares the checksum of a member only if it is read whole.
                arrays = {
                    n.removesuffix(".npy"): _array(members.read(n)) for n in members.namelist()
                }
            about = json.loads(str(arrays.pop(ABOUT)))
            actual, version, settings = about["kind"], about["format"], dict(about["settings"])
            if about.get("arrays", list(arrays)) != list(arrays):
                raise ValueError("a member of the archive is lost")
        except Exception as error:  # a damaged file may raise anything
            raise ValueError(f"{path} is not a saved {kind}, or is damaged") from error
    if actual != kind:
        raise ValueError(f"{path} holds a saved {actual}, not a {kind}")
    if version != FORMAT:
        raise ValueError(f"{path} has format {version!r}, where {FORMAT} was expected")
    return settings, arrays


def _array(content: bytes) -> NDArray[Any]:
    """Return the array of a ``.npy`` file, in the byte order of this machine."""
    array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    return np.asarray(array.astype(array.dtype.newbyteorder("="), copy=False))
