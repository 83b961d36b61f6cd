"""Get the files of the real tables: from a folder, the cache, or their publishers (pooch)."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import re
import types
from pathlib import Path

from hgr_jax._checks import check_flag
from hgr_jax._files import atomic_write
from hgr_jax._optional import require
from hgr_jax.tables.faults import printable

FOLDER_VARIABLE = "HGR_JAX_DATA"

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_TIDYTUESDAY = "https://raw.githubusercontent.com/rfordatascience/tidytuesday/main/data/2018"


class DatasetError(RuntimeError):
    """A file of a data set is unavailable, or differs from the published file."""


@dataclasses.dataclass(frozen=True)
class PublishedFile:
    """A file, its publisher's address, and the checksum of its contents."""

    name: str
    url: str
    sha256: str


_PUBLISHED = {
    "adult.data": (
        f"{_UCI}/adult/adult.data",
        "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    ),
    "adult.test": (
        f"{_UCI}/adult/adult.test",
        "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    ),
    "CommViolPredUnnormalizedData.txt": (
        f"{_UCI}/00211/CommViolPredUnnormalizedData.txt",
        "383a9530b2802b4457986095b13af8f02a802a2504feaef45783f9c129e003f1",
    ),
    "acs2015_county_data.csv": (
        f"{_TIDYTUESDAY}/2018-04-30/week5_acs2015_county_data.csv",
        "daa3d82910b99fb5925d0a78e2909c0d88195a7a75bf849bdd4aaebd515acf72",
    ),
}
REGISTRY = types.MappingProxyType({n: PublishedFile(n, *about) for n, about in _PUBLISHED.items()})
"""The files by name, read-only."""


def fetch(
    name: str,
    *,
    folder: str | Path | None = None,
    cache: str | Path | None = None,
    address: str | None = None,
    progress: bool = False,
) -> Path:
    """Return the path of a file in ``folder``, or in the cache, downloaded if need be."""
    file = REGISTRY[name]
    progress = check_flag("progress", progress)
    url = file.url if address is None else _mirror_url(address, file.name)
    place = folder if folder is not None else os.environ.get(FOLDER_VARIABLE) or None
    if place is not None:
        path = Path(place).expanduser() / file.name
        if _is_in_folder(path, file):
            return path
    pooch = require("pooch")
    cache = Path(pooch.os_cache("hgr_jax") if cache is None else cache).expanduser()
    path = cache / file.name
    try:
        if not _is_in_cache(path, file):
            body = _download(file, url, place, progress=progress)
            with atomic_write(path) as partial:
                partial.write_bytes(body)
    except OSError as error:
        raise DatasetError(
            f"cannot keep {file.name} in the cache folder {printable(str(cache))}:"
            f" {error.strerror or error}. Name a folder that can be written with cache=,"
            " or one that holds the file with folder="
        ) from error
    return path


def _mirror_url(address: str, name: str) -> str:
    if not isinstance(address, str):
        raise TypeError(f"address must be text, as in 'https://...'; got {address!r}.")
    if not address.lower().startswith(("http://", "https://")):
        raise ValueError(
            f"address must start with http:// or https://; got {address!r}."
            " For a folder of this machine, use folder=."
        )
    return f"{address.rstrip('/')}/{name}"


def _is_in_folder(path: Path, file: PublishedFile) -> bool:
    """Return whether a folder has the file; a `DatasetError` if its contents are wrong."""
    another = f"name another folder with folder= or the variable {FOLDER_VARIABLE}"
    try:
        body = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        text = f"cannot read {printable(str(path))}: {error.strerror}; {another}"
        raise DatasetError(text) from error
    if _sha256(body) != file.sha256:
        raise DatasetError(
            f"{printable(str(path))} {_differs(body, file)}. Replace it by the file of {file.url},"
            f" or {another}"
        )
    return True


def _is_in_cache(path: Path, file: PublishedFile) -> bool:
    """Return whether the cache has the file; remove one with other contents."""
    try:
        body = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return False
    if _sha256(body) == file.sha256:
        return True
    path.unlink(missing_ok=True)
    return False


def _download(file: PublishedFile, url: str, place: str | Path | None, *, progress: bool) -> bytes:
    """Return the contents in memory, so that no file exists before its checksum is verified."""
    if progress:
        require("tqdm")
    absent = "" if place is None else f" It is not in {printable(str(place))} either."
    advice = (
        f"{absent} Try again later; or get the file of {file.url} another way and name its folder"
        f" with folder= or the variable {FOLDER_VARIABLE}, or name a mirror with address="
    )
    body = io.BytesIO()
    try:
        require("pooch").HTTPDownloader(progressbar=progress)(url, body, None)
    except (OSError, ValueError) as error:
        raise DatasetError(
            f"cannot download {file.name} from {printable(url)}: {_reason(error)}.{advice}"
        ) from error
    if _sha256(body.getvalue()) != file.sha256:
        raise DatasetError(
            f"{file.name} from {printable(url)} {_differs(body.getvalue(), file)}; it was not"
            f" kept.{advice}"
        )
    return body.getvalue()


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _differs(body: bytes, file: PublishedFile) -> str:
    return (
        f"is not the published file: expected SHA-256 {file.sha256},"
        f" got {_sha256(body)} ({len(body):,} bytes)"
    )


def _reason(error: Exception) -> str:
    """Return the cause of an error without the wrappings of requests and urllib3."""
    response = getattr(error, "response", None)
    if response is not None:
        response.close()  # which pooch leaves to the garbage collector
        return f"the server answered {response.status_code} {response.reason}"
    text = str(error)
    cause = re.search(r"\[Errno[^'\")]*|\d+ bytes read, \d+ more expected", text)
    return printable(cause.group() if cause else text).rstrip(".")
