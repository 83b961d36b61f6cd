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
        ("correlation", changed(7), "correlation has 7, outside of 0 to 1"),
        ("correlation", lambda values: values[:2], "pairs has "),
        ("correlation", lambda values: values.astype(str), "correlation has "),
        ("spearman", changed(-0.1), "spearman has -0.1, outside"),
        ("pvalue", changed(-1e-3), "pvalue has -0.001, outside"),
        ("pvalue", lambda values: values[1:], "pvalue has "),
        ("corrected", changed(-1), "corrected has -1, outside"),
        ("null_95", changed(3), "null_95 has 3, outside"),
        ("n_obs", changed(31), "n_obs has 31, outside of 0 to 30"),
        ("degrees", changed(-1), "degrees has -1, outside"),
        ("degrees", lambda degrees: degrees[..., 0], "degrees has "),
        ("source", changed(10), "source has 10, outside of 0 to 9"),
        ("pairs", changed(3, (0, 0)), "pairs has 3, outside of 0 to 2"),
        ("pairs", changed(1, (0, 0)), "pairs has a column with itself"),
        ("pairs", lambda pairs: pairs * 1.5, "pairs has "),
        ("pairs", np.ravel, "pairs has "),
        ("pairs", lambda pairs: pairs[[0, 0, 2]], "pairs has a pair twice"),
        ("numbers", changed(3), "numbers has 3, outside of 0 to 2"),
        ("numbers", lambda numbers: numbers[None], "numbers has "),
    ],
)
def test_arrays_that_no_scan_has(
    kept: dict[str, np.ndarray],
    tmp_path: Path,
    name: str,
    change: Callable[[np.ndarray], np.ndarray],
    message: str,
) -> None:
    np.savez(tmp_path / "s.npz", **(kept | {name: change(kept[name])}))
    with pytest.raises(ValueError, match=f"does not hold a scan: {message}"):
        Scan.load(tmp_path / "s.npz")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"names": ["a", "b", "a"]}, "names are not texts, each another"),
        ({"names": ["a", "b", 3]}, "names are not texts, each another"),
        ({"skipped": {"a": 3}}, "skipped holds what is no text"),
        ({"settings": {"measure": "kb", "rows": 0}}, "the number of rows is 0"),
    ],
)
def test_words_that_no_scan_has(
    kept: dict[str, np.ndarray], tmp_path: Path, words: dict[str, Any], message: str
) -> None:
    about = json.loads(str(kept["about"]))
    text = json.dumps(about | {"settings": about["settings"] | words})
    np.savez(tmp_path / "s.npz", **(kept | {"about": np.array(text)}))
    with pytest.raises(ValueError, match=message):
        Scan.load(tmp_path / "s.npz")


def test_other_measures_have_other_ranges(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(30, 2))
    scan(x, measure=lambda a, b: -7.0 + 0 * a.sum() + 0 * b.sum(), test=None).save(
        tmp_path / "s.npz"
    )
    assert Scan.load(tmp_path / "s.npz").correlation[0, 1] == 7
