"""Damaged files of scans: an error that names the file, or no difference.

The damage is of bytes (cut off, cut out, flipped, zeros), which checksums show, and of contents
with right checksums: other arrays, other words.
"""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hgr_jax
from hgr_jax import Scan

SEEDS = range(12)
MANY = range(1000, 1250)
"""Seeds of the larger version."""


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


VALUES: tuple[Any, ...] = (None, -1, 10**400, 1e400, "", "x", [], {}, [[]], {"a": None}, True)


def damaged_words(words: Any, rng: np.random.Generator) -> Any:
    """Replace a value somewhere in JSON, or leave it out."""
    if isinstance(words, dict) and words and rng.random() < 0.8:
        name = list(words)[rng.integers(len(words))]
        if rng.random() < 0.15:
            return {other: value for other, value in words.items() if other != name}
        return words | {name: damaged_words(words[name], rng)}
    if isinstance(words, list) and words and rng.random() < 0.8:
        place = rng.integers(len(words))
        return [damaged_words(v, rng) if i == place else v for i, v in enumerate(words)]
    return VALUES[rng.integers(len(VALUES))]


def damaged_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Another shape, dtype, byte order, or other values."""
    changes: list[Callable[[], np.ndarray]] = [
        lambda: array[..., None],
        lambda: array.ravel()[:-1],
        lambda: array.astype(object),
        lambda: array.astype("U3"),
        lambda: array.astype(np.complex64),
        lambda: np.zeros((0, 3)),
        lambda: array.astype(array.dtype.newbyteorder(">")),
        lambda: np.full_like(array, np.nan if array.dtype.kind == "f" else 0),
        lambda: np.concatenate([array, array]),
    ]
    return changes[rng.integers(len(changes))]()


def damaged_contents(content: bytes, rng: np.random.Generator) -> bytes:
    """Change an array, or the words of an archive, and write it anew."""
    with zipfile.ZipFile(io.BytesIO(content)) as members:
        files = {name: members.read(name) for name in members.namelist()}
    words = [name for name in files if name == "about.npy"]
    chosen = words if rng.random() < 0.5 else list(files)
    name = chosen[rng.integers(len(chosen))]
    array = np.lib.format.read_array(io.BytesIO(files[name]))
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # complex to real
        try:
            if name in words:
                array = np.array(json.dumps(damaged_words(json.loads(str(array)), rng)))
            else:
                array = damaged_array(array, rng)
            np.lib.format.write_array(out, array)
        except (ValueError, TypeError):
            out.write(b"no array")
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as members:
        for other, body in files.items():
            members.writestr(other, out.getvalue() if other == name else body)
    return written.getvalue()


DAMAGE = (damaged_bytes, damaged_contents)


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


def check_damage(folder: Path, damage: Any, seed: int) -> None:
    """Load a damaged file: it works as before, or a ValueError names it."""
    path = folder / "damaged.npz"
    path.write_bytes(damage((folder / "scan.npz").read_bytes(), np.random.default_rng(seed)))
    try:
        loaded_scan(path)
    except ValueError as error:
        assert str(path) in str(error) or "damaged" in str(error), error  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files_are_named(files: Path, damage: Any) -> None:
    for seed in SEEDS:
        check_damage(files, damage, seed)


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
def test_many_damaged_files_are_named(files: Path, damage: Any) -> None:
    for seed in MANY:
        check_damage(files, damage, seed)


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
