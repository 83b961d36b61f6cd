"""Scans of HGR, the default: beside `hgr_jax.hgr` and references."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import hgr_jax
from bench.laws import oscillating_laws
from hgr_jax import scan

ROWS = 600


def frame(seed: int = 0) -> pd.DataFrame:
    """Numbers, few values, categories, and gaps."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(ROWS)
    return pd.DataFrame(
        {
            "x": x,
            "square": x**2 + 0.5 * rng.standard_normal(ROWS),
            "steps": np.floor(2 * x) + rng.integers(0, 2, ROWS),
            "positive": x + rng.standard_normal(ROWS) > 0,
            "noise": rng.standard_normal(ROWS),
            "kind": np.select([x < -1, x > 1], ["low", "high"], "middle"),
            "letter": rng.choice(list("uvwxyz"), ROWS),
            "gaps": np.where(rng.random(ROWS) < 0.2, np.nan, np.exp(x)),
            "zeros": np.where(rng.random(ROWS) < 0.95, 0, x),
            "rare": np.where(np.arange(ROWS) < 6, "rare", "usual"),
        }
    )


def test_naming_a_degree_chooses_kb() -> None:
    table = frame()[["x", "square"]]
    assert scan(table, h=3).settings["measure"] == "kb"
    assert scan(table, measure="kb").settings["h"] == 5
    assert scan(table, measure="kb")["x", "square"].rank_correlation == pytest.approx(
        scan(table)["x", "square"].correlation
    )


def test_fast_relations_have_all_functions() -> None:
    """A checkerboard of 6 x 6 fields, beside noise: blocks of 8 functions show a part of it."""
    rng = np.random.default_rng(1)
    x, y = rng.random((2, 4000))
    same = np.floor(6 * x) % 2 == np.floor(6 * y) % 2
    table = np.stack([x, np.where(same, y, (y + 1 / 6) % 1), rng.random(4000)], axis=1)
    found = scan(table)
    for i, j in found.pairs:
        expected = float(hgr_jax.hgr(table[:, i], table[:, j]))
        assert found.correlation[i, j] == pytest.approx(expected, abs=0.02)
    assert found.correlation[0, 1] > 0.9


def test_fits_and_influence() -> None:
    table = frame()
    found = scan(table[["x", "square", "kind", "gaps"]])
    fit = found.fit("x", "square")
    assert isinstance(fit, hgr_jax.HGRFit)
    assert fit.correlation == pytest.approx(found["x", "square"].correlation, abs=1e-6)
    assert isinstance(fit.g, hgr_jax.inference.RankTransform)
    influence = found.influence("x", "square")
    assert influence is not None
    without = scan(table[["x", "square"]].drop(index=influence.row))
    assert influence.value_without == pytest.approx(without.correlation[0, 1], abs=2e-3)
    of_kind = found.fit("x", "kind")
    assert isinstance(of_kind, hgr_jax.HGRFit)
    assert isinstance(of_kind.g, hgr_jax.inference.LevelTransform)
    levels = of_kind.g.levels
    assert sorted(levels) == ["high", "low", "middle"]
    g = dict(zip(levels, of_kind.g(levels), strict=True))
    assert abs(g["high"] - g["low"]) > abs(g["high"] - g["middle"])
    np.testing.assert_array_equal(of_kind.g(np.arange(3)), of_kind.g(levels))
    assert of_kind.g("low") == g["low"]
    with pytest.raises(ValueError, match="the category has no level 'lo'"):
        of_kind.g(["lo"])
    weights = np.arange(ROWS) / ROWS
    weighted = scan(table[["x", "square", "kind", "gaps"]], weights=weights)
    of_pair = weighted.fit("square", "x")
    expected = weighted["x", "square"].correlation
    assert float(of_pair.correlation) == pytest.approx(expected, abs=1e-3)
    low, high = weighted.interval("gaps", "square")
    assert low < weighted["gaps", "square"].correlation < high
    of_kind = weighted.fit("x", "kind")  # of a number and a category
    assert of_kind.correlation == pytest.approx(weighted["x", "kind"].correlation, abs=1e-3)
    assert of_kind.pvalue == weighted["x", "kind"].pvalue
    share = weights / weights.sum()
    f, g = of_kind.f(table["x"]), of_kind.g(table["kind"])
    np.testing.assert_allclose([share @ f, share @ g], 0, atol=1e-6)
    np.testing.assert_allclose([share @ f**2, share @ g**2], 1, atol=1e-6)
    assert share @ (f * g) > of_kind.correlation


def test_intervals() -> None:
    table = frame()
    found = scan(table[["x", "square", "noise", "kind", "gaps"]])
    for a, b in (("x", "square"), ("noise", "x"), ("gaps", "square"), ("x", "kind")):
        low, high = found.interval(a, b)
        assert 0 <= low <= found[a, b].correlation <= high <= 1
        assert (low == 0) == (found[a, b].pvalue >= 0.05)
        wider = found.interval(a, b, level=0.99)
        assert wider[0] <= low < high <= wider[1]
    # It is that of a fit, whatever the measure of the scan.
    of_kb = scan(table[["x", "square"]], measure="kb")
    fit = hgr_jax.hgr_fit(*(table[name].to_numpy() for name in ("x", "square")))
    np.testing.assert_allclose(of_kb.interval("x", "square"), fit.interval(), atol=1e-5)
    found = scan(table[["x", "square", "noise"]], given="noise")
    fit = hgr_jax.hgr_fit(table["x"], table["square"], given=table["noise"])
    assert found.interval("x", "square") == pytest.approx(fit.interval(), abs=1e-6)


@pytest.mark.parametrize(
    "name", ["7 half waves", "20 half waves", "season", "sine of a normal", "sawtooth of 8"]
)
def test_a_pair_has_one_number_inside_its_intervals(name: str) -> None:
    (law,) = [law for law in oscillating_laws() if law.name == name]
    x, y = law.sample(np.random.default_rng(0), 1300)
    found, fit = scan({"x": x, "y": y}), hgr_jax.hgr_fit(x, y)
    values = [hgr_jax.hgr(x, y), fit.correlation, found["x", "y"].correlation]
    values.append(found.fit("x", "y").correlation)
    np.testing.assert_allclose(values, fit.correlation, atol=1e-5)
    assert law.hgr - 0.1 < fit.correlation < law.hgr + 0.03
    for low, high in (fit.interval(), found.interval("x", "y"), found.fit("x", "y").interval()):
        assert 0 < low <= fit.correlation <= high


@pytest.mark.parametrize(("days", "rows"), [(30, 900), (150, 1500)])
def test_a_wave_of_days_has_one_number(days: int, rows: int) -> None:
    rng, day = np.random.default_rng(days), np.arange(rows)
    level = np.sin(2 * np.pi * day / days) + 0.5 * rng.standard_normal(rows)
    found = scan({"day": np.datetime64("2019-01-01") + day, "level": level})
    value = float(hgr_jax.hgr(day, level))
    assert found["day", "level"].correlation == pytest.approx(value, abs=1e-5)
    low, high = found.interval("day", "level")
    assert low <= value <= high
    assert value == pytest.approx(0.839, abs=0.05)  # of a wave with half as much noise
    assert found["day", "level"].pvalue < 1e-20


def test_a_column_of_which_weights_leave_one_row() -> None:
    table = {"a": [0.5, np.nan, 2.0, np.nan, 7.0], "b": [1.0, 4.0, 3.0, 8.0, 0.0]}
    found = scan(pd.DataFrame(table), weights=np.array([2.0, 2.0, 0.0, 2.0, 0.0]))
    assert np.isnan(found.correlation[0, 1])


@pytest.mark.parametrize(
    ("rows", "degrees", "weighted"),
    [
        (60, {}, True),
        (600, {}, False),
        (60, {"h": 3, "k": 2}, False),
        (600, {"h": 3, "k": 2}, True),
    ],
)
def test_a_pair_has_one_number_and_one_p_value(
    rows: int, degrees: dict[str, int], weighted: bool
) -> None:
    rng = np.random.default_rng(1)
    table = frame().iloc[:rows].copy()
    table["holes"] = table["letter"].where(rng.random(rows) > 0.3)
    weights = rng.uniform(0.1, 2, rows) ** 2 if weighted else None
    for pair in scan(table, weights=weights, **degrees):
        kept = table[[pair.a, pair.b]].notna().all(axis=1)
        a, b = (table.loc[kept, name].to_numpy() for name in (pair.a, pair.b))
        own = None if weights is None else weights[kept]
        test = hgr_jax.independence_test(a, b, weights=own)
        # A scan's products are of single precision until a pair is a finding.
        np.testing.assert_allclose(pair.pvalue, test.pvalue, rtol=2e-3, err_msg=str(pair))
        assert pair.pvalue_source == test.source, pair
        np.testing.assert_allclose(
            pair.rank_correlation, hgr_jax.hgr(a, b, weights=own), atol=1e-5, err_msg=str(pair)
        )
