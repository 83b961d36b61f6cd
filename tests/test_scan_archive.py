"""A file is read as a scan only if it holds what a scan can be; the error names any other."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hgr_jax
from hgr_jax import Scan, scan


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The arrays in the file of a scan of three columns."""
    x = np.random.default_rng(0).normal(size=(30, 3))
    path = tmp_path_factory.mktemp("kept") / "scan.npz"
    scan(x, h=2, k=1).save(path)
    with np.load(path) as arrays:
        return dict(arrays)


def test_a_file_that_lacks_what_a_scan_has(kept: dict[str, np.ndarray], tmp_path: Path) -> None:
    about = json.loads(str(kept["about"]))
    del about["settings"]["names"]
    np.savez(tmp_path / "s.npz", **(kept | {"about": np.array(json.dumps(about))}))
    with pytest.raises(ValueError, match=r"does not hold a scan: .*names"):
        Scan.load(tmp_path / "s.npz")


class Runs:
    """Makes a folder where it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


def test_nothing_in_a_file_is_run(kept: dict[str, np.ndarray], tmp_path: Path) -> None:
    for name in kept:
        array = np.array([Runs(tmp_path / "made")], dtype=object)
        np.savez(tmp_path / "s.npz", **(kept | {name: array}))
        with pytest.raises(ValueError, match="is not a saved scan, or is damaged"):
            Scan.load(tmp_path / "s.npz")
        assert not (tmp_path / "made").exists()


def damaged_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """Cut off the end, cut out bytes, insert zeros or flip bits."""
    start, size = int(rng.integers(len(content))), int(rng.integers(1, 40))
    kind = rng.integers(4)
    if kind == 0:
        return content[:start]
    if kind == 1:
        return content[:start] + content[start + size :]
    if kind == 2:
        return content[:start] + bytes(size) + content[start:]
    changed = bytearray(content)
    for bit in rng.integers(8 * len(content), size=size):
        changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of a scan."""
    folder = tmp_path_factory.mktemp("kept")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    hgr_jax.scan(x, h=2, k=2).save(folder / "scan.npz")
    return folder


def loaded_scan(path: Path) -> None:
    found = Scan.load(path)
    repr(found)
    found.to_frame()


@pytest.mark.parametrize("seed", range(20))
def test_damaged_files_are_named(files: Path, seed: int) -> None:
    """A damaged file works as before, or a ValueError names it."""
    path = files / "damaged.npz"
    content = (files / "scan.npz").read_bytes()
    path.write_bytes(damaged_bytes(content, np.random.default_rng(seed)))
    try:
        loaded_scan(path)
    except ValueError as error:
        assert str(path) in str(error) or "damaged" in str(error), error  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017


def header(shape: str, dtype: str = "<f8") -> bytes:
    """The head of a ``.npy`` file, which says more than the file holds."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def archive(compression: int = zipfile.ZIP_STORED, **members: bytes) -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", compression) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return body.getvalue()


def words(text: str) -> bytes:
    body = io.BytesIO()
    np.lib.format.write_array(body, np.array(text))
    return body.getvalue()


def special(body: bytes, place: int, value: int) -> bytes:
    """Change the two bytes at a place of each head of a member: flags, or how it is packed."""
    for mark, offset in ((b"PK\x03\x04", place), (b"PK\x01\x02", place + 2)):
        at = body.index(mark) + offset
        body = body[:at] + value.to_bytes(2, "little") + body[at + 2 :]
    return body


CRAFTED: dict[str, Callable[[], bytes]] = {
    "nested": lambda: archive(about=words("[" * 100_000)),
    "long number": lambda: archive(about=words("1" * 10_000)),
    "huge": lambda: archive(about=header("(1000000000000000,)")),
    "larger": lambda: archive(about=header("(10000000000000000000000,)")),
    "negative": lambda: archive(about=header("(-3,)")),
    "no shape": lambda: archive(about=header("('x',)")),
    "code": lambda: archive(about=header("(__import__('os').getcwd(),)")),
    "objects": lambda: archive(about=header("(1,)", "|O") + b"\x80\x04N."),
    "archive in archive": lambda: archive(about=archive(about=words("{}"))),
    "bad escape": lambda: archive(about=header("(1,)", r"<f8\q")),
    "unknown packing": lambda: special(archive(about=words("{}")), 8, 99),
    "encrypted": lambda: special(archive(about=words("{}")), 6, 1),
    "packed damage": lambda: archive(zipfile.ZIP_LZMA, about=words("{}" * 99)).replace(
        b"{}", b"[]"
    ),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", CRAFTED)
def test_contents_that_readers_choke_on(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "kept.npz"
    path.write_bytes(CRAFTED[kind]())
    with pytest.raises(ValueError, match=r"kept\.npz is not a saved .*, or is damaged"):
        loaded_scan(path)
