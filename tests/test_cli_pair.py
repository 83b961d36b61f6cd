"""What `hgr-jax pair` prints of categories."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hgr_jax.cli.pair import report_pair


def heights(printed: str, title: str) -> dict[str, float]:
    """Return the height of each level that is printed below a title."""
    lines = printed.partition(f"{title}:\n")[2].splitlines()
    shown = [line.split(maxsplit=1) for line in lines]
    count = next((i for i, line in enumerate(lines) if not line.startswith("  ")), len(lines))
    return {level: float(height) for height, level in shown[:count]}


@pytest.mark.parametrize("names", [("zone", "borough"), ("borough", "zone")])
def test_levels_that_are_not_pooled_have_their_own_heights(
    names: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zone = np.minimum(np.random.default_rng(0).geometric(0.05, 1000), 90)  # most of them are rare
    rows = "".join(f"z{z},b{z % 4}\n" for z in zone)
    (tmp_path / "t.csv").write_text("zone,borough\n" + rows)
    report_pair(tmp_path / "t.csv", names, 2, 2, tmp_path / "out")
    printed = capsys.readouterr().out
    assert "HGR-KB(2, 2) 1.0000" in printed
    both = {
        name: heights(printed, f"{side} of {name}") for side, name in zip("fg", names, strict=True)
    }
    assert set(both["zone"]) == {f"z{z}" for z in zone}
    for z in set(zone.tolist()):
        assert abs(both["zone"][f"z{z}"] - both["borough"][f"b{z % 4}"]) <= 0.002


def test_many_levels_are_not_all_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zone = [*range(130)] * 3 + [0, 1, 2, 3] * 500  # most of them are rare
    rows = "".join(f"z{z},b{z % 4}\n" for z in zone)
    (tmp_path / "t.csv").write_text("zone,borough\n" + rows)
    report_pair(tmp_path / "t.csv", ("zone", "borough"), 2, 2, tmp_path / "out")
    printed = capsys.readouterr().out
    shown = printed.partition("f of zone:\n")[2].partition("g of borough")[0].splitlines()
    assert len(shown) == 101
    assert shown[-1] == "  ... and 30 other levels"
