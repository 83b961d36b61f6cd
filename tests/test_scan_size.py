"""A scan whose result would not fit in memory says so before it begins."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hgr_jax import scan
from hgr_jax.cli.main import main
from hgr_jax.scanning import pairs as size
from hgr_jax.scanning.request import request_of
from hgr_jax.scanning.result import ARRAYS


def test_a_table_that_is_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "available_memory", lambda: 50 * 10**9)
    x = np.random.default_rng(0).normal(size=(4, 20_000)).astype(np.float32)
    with pytest.raises(ValueError, match="20,000 columns has 199,990,000 pairs") as caught:
        scan(x)
    assert "take 89.0 GB of memory, and 50.0 GB are available" in str(caught.value)
    assert "--columns" in str(caught.value)
    assert "target=" in str(caught.value)
    assert "all pairs of 10,000 columns would fit" in str(caught.value)


def test_bytes_of_an_entry() -> None:
    found = scan(np.random.default_rng(0).normal(size=(20, 3)))
    matrices = (getattr(found, name) for name in ARRAYS if name != "pairs")
    assert sum(matrix.nbytes for matrix in matrices) == size.BYTES_OF_AN_ENTRY * 3**2


def columns(count: int, used: int | None = None) -> Any:
    """As many columns, of which only the positions are read."""
    positions = np.arange(count if used is None else used)
    return SimpleNamespace(
        names=range(count), number_positions=positions, category_positions=positions[:0]
    )


def check(table: Any, targets: list[int] | None = None, **options: Any) -> None:
    request = request_of(**options)
    size.check_size(table, size.PairSelection(targets, None), request)


def test_targets_and_pvalues_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "available_memory", lambda: 2 * 10**9)
    check(columns(4000), [0])
    with pytest.raises(ValueError, match="7,998,000 pairs"):
        check(columns(4000))
    check(columns(4000, 1000))
    check(columns(3200), test=None)
    with pytest.raises(ValueError, match="pairs"):
        check(columns(3200))
    with pytest.raises(ValueError, match="1,000,000 columns has 999,999 pairs") as caught:
        check(columns(10**6), [0], test=None)
    assert "target=" not in str(caught.value)  # its matrices do not fit either
    monkeypatch.setattr(size, "available_memory", lambda: None)
    check(columns(10**6))


def test_first_pairs_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of these, no more than are there, and the columns that they may have."""
    monkeypatch.setattr(size, "available_memory", lambda: 2 * 10**9)
    check(columns(20_000), top=1000)
    with pytest.raises(ValueError, match="5,000 pairs of up to 10,000 columns take"):
        check(columns(20_000), top=5000)
    check(columns(4000), [0], top=10**9)
    with pytest.raises(ValueError, match="7,998,000 pairs of up to 4,000"):
        check(columns(4000), top=10**9)
    monkeypatch.setattr(size, "available_memory", lambda: 10**6)
    with pytest.raises(ValueError, match="pairs of up to 300 columns"):
        scan(np.arange(900.0).reshape(3, 300), top=200)


def test_a_wide_file_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(size, "available_memory", lambda: 10**8)
    lines = [",".join(f"c{i}" for i in range(3000))]
    lines += [",".join(str((i * j) % 97) for i in range(3000)) for j in range(1, 4)]
    (tmp_path / "t.csv").write_text("\n".join([*lines, ""]))
    assert main(["scan", str(tmp_path / "t.csv"), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("hgr-jax: error: a scan of 3,000 columns has ")
    assert said.err.count("\n") == 1
    assert not (tmp_path / "out").exists()
