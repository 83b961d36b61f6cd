"""A file of a scan is read only if it holds what a scan can be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hgr_jax import Scan, scan


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The arrays in the file of a scan of three columns."""
    x = np.random.default_rng(0).normal(size=(30, 3))
    path = tmp_path_factory.mktemp("kept") / "scan.npz"
    scan(x, h=2, k=1).save(path)
    with np.load(path) as arrays:
        return dict(arrays)


def changed(value: float, place: Any = 0) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array[place] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("correlation", lambda values: values[:2], r"pairs has shape \(3, 2\)"),
        ("pvalue", lambda values: values[1:], r"pvalue has shape \(2,\)"),
        ("pairs", changed(3, (0, 0)), "pairs are not of positions of its 3 columns"),
        ("pairs", lambda pairs: pairs * 1.5, "pairs has shape .* float64"),
        ("numbers", changed(3), "pairs are not of positions"),
        ("names", None, "names"),
    ],
)
def test_arrays_that_no_scan_has(
    kept: dict[str, np.ndarray],
    tmp_path: Path,
    name: str,
    change: Callable[[np.ndarray], np.ndarray] | None,
    message: str,
) -> None:
    if change is None:
        about = json.loads(str(kept["about"]))
        del about["settings"][name]
        other = {"about": np.array(json.dumps(about))}
    else:
        other = {name: change(kept[name])}
    np.savez(tmp_path / "s.npz", **(kept | other))
    with pytest.raises(ValueError, match=f"does not hold a scan: .*{message}"):
        Scan.load(tmp_path / "s.npz")
