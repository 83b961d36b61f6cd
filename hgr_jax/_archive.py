"""Archives: arrays, and settings as JSON, in one ``.npz`` file in which nothing executes."""

from __future__ import annotations

import io
import json
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
"""Array of an archive that holds its JSON: kind, format, version and settings."""


def save_archive(
    path: str | Path,
    kind: str,
    settings: Mapping[str, Any],
    arrays: Mapping[str, Any],
    *,
    compress: bool = False,
) -> None:
    """Write arrays and settings to one file, whole or not at all.

    Args:
      path: of the file; folders on the way are created.
      kind: what is kept, as "scan"; `load_archive` asks for the same.
      settings: what JSON can hold.
      arrays: by name; numbers or texts, no objects.
      compress: whether arrays are compressed.

    Raises:
      OSError: if it cannot be written.
      TypeError, ValueError: for settings that JSON cannot hold, and arrays of objects.

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
    text = np.array(json.dumps(about))
    write = np.savez_compressed if compress else np.savez
    with atomic_write(path) as partial, partial.open("wb") as file:
        write(file, allow_pickle=False, **{ABOUT: text}, **arrays)


def load_archive(path: str | Path, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the settings and arrays that `save_archive` wrote.

    Args:
      path: of the file.
      kind: what it must hold.

    Raises:
      FileNotFoundError, OSError: if it cannot be opened.
      ValueError: for a damaged file, or one of another kind, naming it.
    """
    with Path(path).open("rb") as file:
        try:
            with zipfile.ZipFile(file) as members:
                # Read whole: only then does zipfile compare their checksums.
                found = {n.removesuffix(".npy"): members.read(n) for n in members.namelist()}
            arrays = {name: _as_array(content) for name, content in found.items()}
            about = json.loads(str(arrays.pop(ABOUT)))
            held, version, settings = about["kind"], about["format"], dict(about["settings"])
        except Exception as error:  # whatever a damaged file makes its readers raise
            raise ValueError(f"{path} is not a saved {kind}, or is damaged") from error
    if held != kind:
        raise ValueError(f"{path} holds a saved {held}, not a {kind}")
    if version != FORMAT:
        raise ValueError(f"{path} has format {version!r}, where {FORMAT} was expected")
    return settings, arrays


def _as_array(content: bytes) -> NDArray[Any]:
    found: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
    return found
