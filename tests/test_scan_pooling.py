"""Pooling rare levels does not hide that a category determines another."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hgr_jax import scan
from hgr_jax.scanning.fits import columns_of
from hgr_jax.scanning.run import exact_pairs


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


def test_a_zone_lies_in_one_borough() -> None:
    table = taxis()
    found = scan(table, h=3, k=3)
    assert "rare levels" in found.notes["zone"]
    assert "beside borough its rare levels are not pooled" in found.notes["zone"]
    zone_borough = found.correlation[0, 1]
    assert zone_borough == found.correlation[1, 0] == found.rank_correlation[0, 1] == 1
    assert found.pvalue[0, 1] <= 0.001
    assert found.correlation[0, 3] < 0.3  # beside others they are pooled
    levels = found.category("zone", beside="borough")
    pooled = found.category("zone")
    assert levels is not None
    assert pooled is not None
    assert len(levels.levels) == table["zone"].nunique() > len(pooled.levels)
    for a, b in (("zone", "borough"), ("borough", "zone")):
        np.testing.assert_allclose(found.fit(a, b).correlation, 1, atol=1e-5)
        assert found.in_full(a, b) is not None
    assert found.top(1)[0].correlation == 1


def many_levels() -> pd.DataFrame:
    """Return 20,000 rows, a quarter of them in 2,000 rare streets, each of one zone."""
    rng = np.random.default_rng(0)
    street = np.where(np.arange(20_000) % 4 == 0, rng.integers(3, 2003, 20_000), 0)
    street += np.where(street == 0, np.arange(20_000) % 3, 0)
    zone = np.where(street < 3, street, 3 + street % 1000)
    return pd.DataFrame({"street": [f"s{s}" for s in street], "zone": [f"z{z}" for z in zone]})


def test_exact_relations_of_many_levels_need_no_matrix_of_them() -> None:
    table = many_levels()
    found = scan(table, h=2, k=2, pvalues=None)
    assert found.correlation[0, 1] == 1
    fine, coarse = found.category("street", beside="zone"), found.category("zone", beside="street")
    assert fine is not None
    assert coarse is not None
    assert len(fine.levels) > 1500
    assert len(coarse.levels) > 800
    tracemalloc.start()
    assert fine.determines(coarse)
    assert not coarse.determines(fine)
    pair = found.in_full("zone", "street")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * len(fine.levels) * len(coarse.levels)
    assert pair is not None
    of_street, of_zone = pair.g(fine.codes), pair.f(coarse.codes)
    np.testing.assert_allclose(of_street, of_zone, atol=1e-6)
    np.testing.assert_allclose([of_zone.mean(), of_zone.std()], [0, 1], atol=1e-6)
    fit = found.fit("street", "zone")
    np.testing.assert_allclose(fit.correlation, 1, atol=1e-5)
    np.testing.assert_allclose(fit.f(table["street"]), fit.g(table["zone"]), atol=1e-5)
    np.testing.assert_array_equal(fit.f(table["street"]), fit.f(fine.codes))


def test_a_rare_label_is_one_of_the_other_levels() -> None:
    table = taxis()
    found = scan(table, target="fare", h=2, k=2, pvalues=None)
    rare = table["zone"].value_counts().index[-1]
    f = found.fit("zone", "fare").f
    pooled = found.category("zone")
    assert pooled is not None
    assert rare not in pooled.levels
    np.testing.assert_array_equal(f([rare, "zone 1"]), f([pooled.levels[-1], "zone 1"]))
    with pytest.raises(ValueError, match="no level 'zone 151'"):
        f(["zone 151"])


def test_only_pairs_of_categories_are_looked_at() -> None:
    table = taxis()
    table["zone too"] = table["zone"]
    categories = scan(table, target="fare", h=2, k=2, pvalues=None)
    assert not categories._exact
    plain = scan(table[["fare", "color"]], pvalues=None)
    nothing: Any = None  # what was estimated is not looked at either
    assert exact_pairs(columns_of(plain), np.array([[0, 1]]), nothing) == []


def test_one_exception_is_not_exact() -> None:
    table = taxis()
    often = table["zone"].mode()[0]
    table.loc[table.index[table["zone"] == often][0], "borough"] = "elsewhere"
    found = scan(table[["zone", "borough"]], pvalues=None)
    assert found.correlation[0, 1] < 1
    assert "beside" not in found.notes["zone"]


def test_identifiers_are_still_left_out() -> None:
    table = taxis()
    table["name"] = [f"driver {i}" for i in range(len(table))]
    found = scan(table, pvalues=None)
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
