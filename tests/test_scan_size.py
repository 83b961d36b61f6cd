"""A scan takes the memory of its pairs, and says so before it begins if these would not fit."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hgr_jax
from hgr_jax import Scan, scan
from hgr_jax.cli.main import main
from hgr_jax.scanning import size
from hgr_jax.scanning.report import heat_map_columns
from hgr_jax.scanning.request import request_of
from hgr_jax.scanning.result import MATRICES


def test_a_table_that_is_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "available_memory", lambda: 50 * 10**9)
    x = np.random.default_rng(0).normal(size=(4, 20_000)).astype(np.float32)
    with pytest.raises(ValueError, match="20,000 columns has 199,990,000 pairs") as caught:
        scan(x)
    assert "take 134.1 GB of memory, and 50.0 GB are available" in str(caught.value)
    assert "--columns" in str(caught.value)
    assert "target=" in str(caught.value)
    assert "all pairs of 10,000 columns would fit" in str(caught.value)


def test_bytes_of_a_pair() -> None:
    found = scan(np.random.default_rng(0).normal(size=(20, 3)))
    assert sum(array.nbytes for array in found._rows.columns.values()) == 121 * 3


WIDE = 2500
"""Number of columns whose square takes 6 MB as bytes, and 50 MB as numbers."""


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
        ({"target": ["x0", "x2000"], "among": range(1000)}, False, 1999),
        ({"target": "x0", "h": 2, "k": 2, "test": None}, True, WIDE - 1),
        ({"target": "x0", "top": WIDE - 1}, False, WIDE - 1),
        ({"target": "x0", "top": hgr_jax.Top(200, "correlation"), "test": None}, True, 200),
    ],
    ids=["all", "among", "of degrees", "top", "some"],
)
def test_a_wide_table_with_a_target(
    options: dict[str, Any], gaps: bool, pairs: int, tmp_path: Path
) -> None:
    """Neither the scan nor what is done with it makes anything of all pairs of the columns."""
    x = wide(gaps)
    scan(x[:, :30], **(options | {"target": "x0", "among": None}))  # loads modules
    tracemalloc.start()
    try:
        found = scan(x, **options)
        best = found.top(1, by="correlation")[0]
        assert {best.a, best.b} == {"x0", "x7"}
        assert found[best.b, best.a].n_obs == best.n_obs
        assert best.b in repr(found)
        assert len(found.to_frame()) == len(list(found)) == len(found) == len(found.pairs) == pairs
        assert [found.names[i] for i in found.order("correlation")[0]] == [best.a, best.b]
        found.save(tmp_path / "scan.npz")
        loaded = Scan.load(tmp_path / "scan.npz")
        assert repr(loaded.top(3)) == repr(found.top(3))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 48e6
    assert float(found.fit("x0", "x7").correlation) == pytest.approx(best.correlation, abs=1e-4)
    assert found.interval("x0", "x7")[1] > 0.9
    assert not {*vars(found), *vars(loaded)} & {*MATRICES, "rank_linear", "degrees", "source"}


def test_a_picture_and_a_report_of_a_wide_table(tmp_path: Path) -> None:
    """They show the columns of the first pairs."""
    found = scan(wide(False)[:, :1100], target="x0", test=None)
    columns = heat_map_columns(found)
    assert len(columns) == 1000
    assert {0, 7} <= {*columns.tolist()}
    found.report(tmp_path / "report.html")
    assert "The heat map is of 1,000 columns" in (tmp_path / "report.html").read_text()
    assert "correlation" not in vars(found)


def columns(count: int, used: int | None = None) -> Any:
    """As many columns, of which only the positions are read."""
    positions = np.arange(count if used is None else used)
    return SimpleNamespace(
        names=range(count),
        used=positions,
        numbers=np.zeros((2, 1)),
        categories=(),
        rows=2,
    )


def check(table: Any, targets: list[int] | None = None, **options: Any) -> None:
    request = request_of(**options)
    size.check_size(table, size.PairSelection(targets, None), request)


def test_targets_and_pvalues_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "available_memory", lambda: 3 * 10**9)
    check(columns(4000), [0])
    with pytest.raises(ValueError, match="7,998,000 pairs"):
        check(columns(4000))
    check(columns(4000, 1000))
    check(columns(3200), test=None)
    with pytest.raises(ValueError, match="pairs"):
        check(columns(3200))
    check(columns(10**6), [0])
    with pytest.raises(ValueError, match="1,000,000 columns has 9,999,945 pairs") as caught:
        check(columns(10**6), list(range(10)), test=None)
    assert "target=" not in str(caught.value)  # it has some
    monkeypatch.setattr(size, "available_memory", lambda: None)
    check(columns(10**6))


def test_first_pairs_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of these, no more than are there, and the columns that they may have."""
    monkeypatch.setattr(size, "available_memory", lambda: 2 * 10**9)
    check(columns(20_000), top=1000)
    check(columns(20_000), top=10**6)
    with pytest.raises(ValueError, match="5,000,000 pairs of up to 20,000 columns take"):
        check(columns(20_000), top=5 * 10**6)
    check(columns(4000), [0], top=10**9)
    with pytest.raises(ValueError, match="7,998,000 pairs of up to 4,000"):
        check(columns(4000), top=10**9)
    monkeypatch.setattr(size, "available_memory", lambda: 10**6)
    with pytest.raises(ValueError, match="pairs of up to 300 columns"):
        scan(np.arange(900.0).reshape(3, 300), top=200)


def test_the_command_keeps_the_first_pairs_of_a_wide_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.random.default_rng(0).normal(size=(30, 60))
    x[:, 1] = x[:, 0] ** 2
    names = [f"c{i}" for i in range(60)]
    np.savetxt(tmp_path / "t.csv", x, delimiter=",", header=",".join(names), comments="")
    command = ["scan", str(tmp_path / "t.csv"), "--out", str(tmp_path / "out")]
    monkeypatch.setattr(size, "available_memory", lambda: size.bytes_of_scan(60, 1000, 30, **MORE))
    assert main(command) == 0
    said = capsys.readouterr()
    assert "the pairs do not fit in memory: only the first 1,000 are kept" in said.err
    assert Scan.load(tmp_path / "out" / "scan.npz").settings["top"]["pairs"] == 60 * 59 // 2
    # Where not even these fit, or there are given columns, it is an error of one line.
    for free, more in ((10**6, []), (size.bytes_of_scan(60, 1000, 30, **MORE), ["--given", "c2"])):
        monkeypatch.setattr(size, "available_memory", lambda free=free: free)
        assert main([*command, "--force", *more]) == 2
        said = capsys.readouterr()
        assert said.err.splitlines()[-1].startswith("hgr-jax: error: ")


MORE = {"tested": True, "has_gaps": False}


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="not Linux")
@pytest.mark.parametrize("has_gaps", [False, True])
def test_the_estimate_is_what_a_scan_takes(has_gaps: bool) -> None:
    """Of a process of its own, as memory that is freed is used again."""
    code = (
        "import re, pathlib, numpy as np, hgr_jax\n"
        "x = np.random.default_rng(0).normal(size=(100, 450))\n"
        f"x[x > {2 if has_gaps else 99}] = np.nan\n"
        "hgr_jax.scan(x[:, :20])\n"
        "pathlib.Path('/proc/self/clear_refs').write_text('5')\n"  # the peak begins anew
        "peak = lambda: 1024 * int(re.search(r'VmHWM:\\s+(\\d+)',"
        " pathlib.Path('/proc/self/status').read_text())[1])\n"
        "before = peak(); hgr_jax.scan(x); print(peak() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said = size.bytes_of_scan(450, 450 * 449 // 2, 100, tested=True, has_gaps=has_gaps)
    assert 0.75 * said < int(done.stdout) < 1.33 * said
