"""What `hgr-jax pair` prints of categories."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hgr_jax.cli.pair import report_pair


def test_rare_levels_are_pooled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zone = np.minimum(np.random.default_rng(0).geometric(0.05, 1000), 90)  # most of them are rare
    rows = "".join(f"z{z},b{z % 4}\n" for z in zone)
    (tmp_path / "t.csv").write_text("zone,borough\n" + rows)
    report_pair(tmp_path / "t.csv", ("zone", "borough"), 2, 2, tmp_path / "out")
    printed = capsys.readouterr().out
    assert "note: zone: 48 rare levels (180 rows) are pooled" in printed
    assert "(other levels)" in printed.partition("f of zone:\n")[2]


def test_many_levels_are_not_all_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    zone = [*range(50)] * 40
    rows = "".join(f"z{z},b{z % 4}\n" for z in zone)
    (tmp_path / "t.csv").write_text("zone,borough\n" + rows)
    monkeypatch.setattr("hgr_jax.cli.pair.LEVELS_LISTED", 20)
    report_pair(tmp_path / "t.csv", ("zone", "borough"), 2, 2, tmp_path / "out")
    printed = capsys.readouterr().out
    shown = printed.partition("f of zone:\n")[2].partition("g of borough")[0].splitlines()
    assert len(shown) == 21
    assert shown[-1] == "  ... and 30 other levels"
