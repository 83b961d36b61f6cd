"""Rare levels are pooled; columns without a value are named."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hgr_jax import scan


def taxis(rows: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    zone = np.minimum(rng.geometric(0.05, rows), 150)  # many of them in less than 1% of the rows
    borough = zone % 4
    return pd.DataFrame(
        {
            "zone": [f"zone {z}" for z in zone],
            "borough": [f"borough {b}" for b in borough],
            "fare": borough + rng.standard_normal(rows),
            "color": rng.choice(["yellow", "green"], rows),
        }
    )


def test_rare_levels_are_pooled_beside_every_column() -> None:
    found = scan(taxis(), h=3, k=3)
    assert "rare levels" in found.notes["zone"]
    pooled = found.category("zone")
    assert pooled is not None
    assert pooled.levels[-1] == "(other levels)"
    assert len(pooled.levels) + len(pooled.pooled) - 1 == taxis()["zone"].nunique()
    assert 0.9 < found["zone", "borough"].correlation < 1


def test_a_rare_label_is_one_of_the_other_levels() -> None:
    table = taxis()
    found = scan(table, target="fare", h=2, k=2, test=None)
    rare = table["zone"].value_counts().index[-1]
    f = found.fit("zone", "fare").f
    pooled = found.category("zone")
    assert pooled is not None
    assert rare not in pooled.levels
    np.testing.assert_array_equal(f([rare, "zone 1"]), f([pooled.levels[-1], "zone 1"]))
    with pytest.raises(ValueError, match="no level 'zone 151'"):
        f(["zone 151"])


def test_identifiers_are_still_left_out() -> None:
    table = taxis()
    table["name"] = [f"driver {i}" for i in range(len(table))]
    found = scan(table, test=None)
    assert "name" in found.skipped


def test_a_pair_of_which_one_does_not_vary_has_no_value() -> None:
    rng = np.random.default_rng(1)
    x, y, z = rng.standard_normal((3, 60))
    x[:30] = np.nan
    y[30:] = 2
    found = scan({"x": x, "y": y, "z": z})
    assert np.isnan(found.correlation[0, 1])
    assert np.isnan(found.pvalue[0, 1])
    assert np.isfinite(found.correlation[[0, 1], 2]).all()
    assert found.notes["y"] == (
        "does not vary on the rows that it shares with 1 other column: no value there"
    )
    assert len(found) == len(found.top()) == 2
