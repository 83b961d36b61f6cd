"""A scan takes the memory of its pairs, and says so before it begins if these would not fit."""

from __future__ import annotations

import functools
import gc
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hgr_jax
from hgr_jax import Scan, scan
from hgr_jax.cli.main import main
from hgr_jax.scanning import size
from hgr_jax.scanning.report import MAX_MAPPED, heat_map_columns
from hgr_jax.scanning.result import MATRICES


def test_a_table_that_is_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "available_memory", lambda: 50 * 10**9)
    x = np.random.default_rng(0).normal(size=(4, 20_000)).astype(np.float32)
    with pytest.raises(ValueError, match="199,990,000 pairs of 20,000 columns take") as caught:
        scan(x)
    assert "60.1 GB of memory or more, and 50.0 GB are available" in str(caught.value)
    assert "--columns" in str(caught.value)
    assert "target=" in str(caught.value)


WIDE = 2500
"""Number of columns whose square takes 6 MB as bytes, and 50 MB as numbers."""


slow = functools.partial(pytest.param, marks=pytest.mark.slow)


def wide(gaps: bool) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(40, WIDE))
    x[:, 7] = x[:, 0] ** 2
    if gaps:  # each column has a pattern of its own
        rows = np.random.default_rng(1).integers(0, 40, (5, WIDE))
        x[rows, np.arange(WIDE)] = np.nan
    return x


@pytest.mark.parametrize(
    ("options", "gaps", "pairs"),
    [
        ({"target": "x0"}, False, WIDE - 1),
        slow({"target": ["x0", "x2000"], "among": range(1000)}, False, 1999),
        slow({"target": "x0", "h": 2, "k": 2, "test": None}, True, WIDE - 1),
        slow({"target": "x0", "top": WIDE - 1}, False, WIDE - 1),
        slow({"target": "x0", "top": hgr_jax.Top(200, "correlation"), "test": None}, True, 200),
    ],
    ids=["all", "among", "of degrees", "top", "some"],
)
def test_a_wide_table_with_a_target(
    options: dict[str, Any], gaps: bool, pairs: int, tmp_path: Path
) -> None:
    """Neither the scan nor what is done with it makes anything of all pairs of the columns."""
    x = wide(gaps)
    scan(x[:, :30], **(options | {"target": "x0", "among": None}))  # loads modules
    threshold = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # Python's own
    tracemalloc.start()
    try:
        found = scan(x, **options)
        best = found.top(1, by="correlation")[0]
        assert {best.a, best.b} == {"x0", "x7"}
        assert found[best.b, best.a].n_obs == best.n_obs
        assert best.b in repr(found)
        assert len(found.to_frame()) == len(list(found)) == len(found) == len(found.pairs) == pairs
        found.save(tmp_path / "scan.npz")
        loaded = Scan.load(tmp_path / "scan.npz")
        assert repr(loaded.top(3)) == repr(found.top(3))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.set_threshold(*threshold)
    assert peak < 48e6
    assert float(found.fit("x0", "x7").correlation) == pytest.approx(best.correlation, abs=1e-4)
    assert found.interval("x0", "x7")[1] > 0.9
    assert not {*vars(found), *vars(loaded)} & {*MATRICES, "rank_linear", "degrees", "source"}


def test_a_picture_and_a_report_of_a_wide_table(tmp_path: Path) -> None:
    """They show the columns of the first pairs."""
    found = scan(wide(False)[:, :1100], target="x0", test=None)
    columns = heat_map_columns(found)
    assert len(columns) == MAX_MAPPED
    assert {0, 7} <= {*columns.tolist()}
    found.report(tmp_path / "report.html")
    assert f"The heat map is of {MAX_MAPPED} columns" in (tmp_path / "report.html").read_text()
    assert "correlation" not in vars(found)


def test_the_pairs_that_are_kept_count(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(30, 400))
    monkeypatch.setattr(size, "available_memory", lambda: size.BASE + 10**6)
    with pytest.raises(ValueError, match="79,800 pairs of 400 columns"):
        scan(x, test=None)
    assert len(scan(x, target="x0", test=None)) == 399
    assert len(scan(x, top=200)) == 200
    with pytest.raises(ValueError, match="20,000 pairs of 400 columns"):
        scan(x, top=20_000)
    monkeypatch.setattr(size, "available_memory", lambda: None)
    assert len(scan(x[:, :20], test=None)) == 190


def test_the_command_keeps_the_first_pairs_of_a_wide_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.random.default_rng(0).normal(size=(30, 60))
    x[:, 1] = x[:, 0] ** 2
    names = [f"c{i}" for i in range(60)]
    np.savetxt(tmp_path / "t.csv", x, delimiter=",", header=",".join(names), comments="")
    command = ["scan", str(tmp_path / "t.csv"), "--out", str(tmp_path / "out")]
    monkeypatch.setattr(size, "available_memory", lambda: size.BASE + 400_000)
    assert main(command) == 0
    said = capsys.readouterr()
    assert "the pairs do not fit in memory: only the first 1,000 are kept" in said.err
    assert Scan.load(tmp_path / "out" / "scan.npz").settings["top"]["pairs"] == 60 * 59 // 2
    # Where not even these fit, or there are given columns, it is an error of one line.
    for free, more in ((10**6, []), (size.BASE + 400_000, ["--given", "c2"])):
        monkeypatch.setattr(size, "available_memory", lambda free=free: free)
        assert main([*command, "--force", *more]) == 2
        said = capsys.readouterr()
        assert said.err.splitlines()[-1].startswith("hgr-jax: error: ")
