"""Archives: what comes back, what damage is noticed, and files that appear whole or not at all."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hgr_jax import _archive
from hgr_jax._archive import load_archive, save_archive

ARRAYS = {
    "none": np.zeros((0, 3), np.float32),
    "number": np.array(2.5),
    "flags": np.array([True, False]),
    "texts": np.array(["a", "\N{GREEK SMALL LETTER ALPHA}"]),
    "columns of a/b": np.asfortranarray(np.arange(6).reshape(2, 3)),
}


@pytest.mark.parametrize(("compress", "arrays"), [(False, ARRAYS), (True, ARRAYS), (True, {})])
def test_arrays_and_settings_come_back(tmp_path: Path, arrays: Any, compress: bool) -> None:
    path, settings = tmp_path / "new" / "kept.npz", {"seed": 3, "names": ["a"], "none": None}
    save_archive(path, "scan", settings, arrays, compress=compress)
    found = load_archive(path, "scan")
    assert found[0] == settings
    assert found[1].keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[1][name], array)
        assert found[1][name].dtype == array.dtype
    assert [p.name for p in path.parent.iterdir()] == ["kept.npz"]


def test_files_of_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept.npz"
    with pytest.raises(FileNotFoundError):
        load_archive(path, "scan")
    save_archive(path, "scan", {}, ARRAYS)
    whole = path.read_bytes()
    with pytest.raises(ValueError, match="holds a saved scan, not a model"):
        load_archive(path, "model")
    for content in (b"", b"text", b"PK\x03\x04", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is not a saved scan, or is damaged"):
            load_archive(path, "scan")
    for about in (np.array("[1]"), np.array("{}"), np.array({"a": 1}, dtype=object)):
        np.savez(path, about=about, allow_pickle=True)
        with pytest.raises(ValueError, match="is not a saved scan, or is damaged"):
            load_archive(path, "scan")
    monkeypatch.setattr(_archive, "FORMAT", 2)
    save_archive(path, "scan", {}, {})
    monkeypatch.undo()
    with pytest.raises(ValueError, match="has format 2, where 1 was expected"):
        load_archive(path, "scan")


def test_nothing_that_executes_is_written(tmp_path: Path) -> None:
    path = tmp_path / "kept.npz"
    save_archive(path, "scan", {}, ARRAYS)
    whole = path.read_bytes()
    for settings, arrays in (({"f": print}, {}), ({}, {"object": np.array([print])})):
        with pytest.raises((TypeError, ValueError)):
            save_archive(path, "scan", settings, arrays)
        assert path.read_bytes() == whole
    with zipfile.ZipFile(path) as members:
        assert all(members.read(name).startswith(b"\x93NUMPY") for name in members.namelist())
