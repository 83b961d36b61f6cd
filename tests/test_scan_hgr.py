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
        }
    )


def debiased(matrix: np.ndarray, h: int, k: int, rows: int) -> float:
    """The population correlation that gives the top singular value, found by bisection."""
    square = np.linalg.norm(matrix, 2) ** 2
    a, b = (h - 1) / rows, (k - 1) / rows
    low, high = np.sqrt(a * b) + 1e-12, 1.0

    def limit(r: float) -> float:
        return (r * (1 - a) + a) * (r * (1 - b) + b) / r

    if limit(low) > square:
        return 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if limit(middle) < square else (low, middle)
    return float(np.sqrt(low))


def test_it_is_hgr_of_each_pair() -> None:
    table = frame()
    numbers = table[["x", "square", "steps", "positive", "noise"]].astype(float)
    found = scan(numbers)
    assert found.settings["measure"] == "hgr"
    for i, j in found.pairs:
        a, b = (numbers.iloc[:, c].to_numpy() for c in (i, j))
        assert found.correlation[i, j] == pytest.approx(float(hgr_jax.hgr(a, b)), abs=1e-3)
        test = hgr_jax.independence_test(a, b)
        assert found.pvalue[i, j] == pytest.approx(test.pvalue, rel=1e-3, abs=1e-300)
    np.testing.assert_array_equal(found.rank_correlation, found.correlation)
    without = scan(numbers, test=None)
    np.testing.assert_array_equal(without.correlation, found.correlation)
    assert np.isnan(without.pvalue).all()


def test_monotone_maps_change_nothing() -> None:
    table = frame()[["x", "square", "steps", "noise"]]
    recoded = table.assign(x=np.exp(table["x"]), steps=-(table["steps"] ** 3), noise=table["noise"])
    one, other = scan(table), scan(recoded)
    np.testing.assert_allclose(one.correlation, other.correlation, atol=1e-6)
    np.testing.assert_allclose(one.pvalue, other.pvalue, rtol=1e-4)


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


def test_categories() -> None:
    table = frame()
    found = scan(table[["x", "kind", "letter"]])
    codes = [pd.factorize(table[name])[0] for name in ("kind", "letter")]
    counts = pd.crosstab(*codes).to_numpy()
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    expected = np.outer(rows, columns) / ROWS
    residual = (counts - expected) / np.sqrt(np.outer(rows, columns))
    value = debiased(residual, 2, 5, ROWS)
    square = np.linalg.norm(residual, 2) ** 2
    score = -ROWS * np.log1p(-square) - 4 * (2 + 5 - 1)
    dependence = 1 / (1 + np.exp((-1 - score) / 2))
    assert found["kind", "letter"].correlation == pytest.approx(dependence * value, abs=1e-6)
    assert found["x", "kind"].correlation > 0.95
    assert found["x", "letter"].correlation < 0.1
    # A category of two levels, and a number of two values, are one variable.
    two = np.where(table["x"] > 0.3, "b", "a")
    both = {"two": two, "number": (two == "b") * 1.0, "x": table["x"].to_numpy()}
    of_two = scan(both)
    assert of_two["x", "two"].correlation == pytest.approx(
        of_two["x", "number"].correlation, abs=0.02
    )


@pytest.mark.parametrize("seed", range(3))
def test_every_level_of_a_category_counts(seed: int) -> None:
    """The levels carry the whole relation, so that leaving out any one of them shows."""
    rng = np.random.default_rng(seed)
    i = rng.integers(0, 4, ROWS)
    j = (i + rng.integers(0, 3, ROWS) * (rng.random(ROWS) < 0.6)) % 5
    table = pd.DataFrame({"i": np.array(list("badc"))[i], "j": np.array(list("vuxyw"))[j]})
    counts = pd.crosstab(table["i"], table["j"]).to_numpy()
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0))
    residual = (counts - expected / ROWS) / np.sqrt(expected)
    value = debiased(residual, 3, 4, ROWS)
    assert scan(table)["i", "j"].correlation == pytest.approx(value, abs=1e-5)
    # The best function of a level is the mean of a number in it.
    table["sum"] = i + rng.standard_normal(ROWS)
    assert scan(table)["i", "sum"].correlation == pytest.approx(np.sqrt(5 / 9), abs=0.05)


def test_gaps_of_its_own() -> None:
    table = frame()
    found = scan(table[["x", "square", "gaps", "kind"]])
    kept = table.dropna()
    expected = float(hgr_jax.hgr(kept["square"].to_numpy(), kept["gaps"].to_numpy()))
    assert found["square", "gaps"].correlation == pytest.approx(expected, abs=0.03)
    assert found["square", "gaps"].n_obs == len(kept)
    alone = scan(kept[["gaps", "kind"]])["gaps", "kind"].correlation
    assert found["gaps", "kind"].correlation == pytest.approx(alone, abs=1e-3)


def test_weights() -> None:
    table = frame()[["x", "square", "noise"]]
    half = np.arange(ROWS) < ROWS // 2
    expected = scan(table[half])
    found = scan(table, weights=half * 2.0)
    np.testing.assert_allclose(found.correlation, expected.correlation, atol=1e-3)
    uneven = scan(table, weights=np.random.default_rng(0).uniform(0.5, 1, ROWS))
    assert uneven["x", "square"].correlation == pytest.approx(
        scan(table)["x", "square"].correlation, abs=0.03
    )


def test_given_columns() -> None:
    rng = np.random.default_rng(2)
    c = rng.standard_normal(1000)
    table = {
        "c": c,
        "a": c + rng.standard_normal(1000),
        "b": np.exp(c) * rng.exponential(size=1000),
    }
    plain, found = scan(table), scan(table, given="c")
    assert plain["a", "b"].correlation > 0.3
    assert found["a", "b"].correlation < 0.15
    assert found["a", "b"].pvalue > 0.01


def test_the_first_of_many() -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((300, 40))
    x[:, 7] = x[:, 3] ** 2 + 0.3 * x[:, 7]
    whole = scan(x)
    for by in ("pvalue", "correlation"):
        first = next(iter(scan(x, top=hgr_jax.Top(3, by))))
        assert {first.a, first.b} == {"x3", "x7"}
        assert first.correlation == pytest.approx(whole["x3", "x7"].correlation, abs=1e-6)


def test_fits_and_details() -> None:
    table = frame()
    found = scan(table[["x", "square", "kind", "gaps"]])
    fit = found.fit("x", "square")
    assert isinstance(fit, hgr_jax.HGRFit)
    assert fit.correlation == pytest.approx(found["x", "square"].correlation, abs=1e-6)
    assert isinstance(fit.g, hgr_jax.inference.RankTransform)
    details = found.details("x", "square")
    f, g = details.f(table["x"].to_numpy()), details.g(table["square"].to_numpy())
    assert abs(np.corrcoef(f, g)[0, 1]) == pytest.approx(float(fit.raw), abs=1e-4)
    influence = details.influence
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
    assert share @ (f * g) == pytest.approx(of_kind.raw, abs=1e-6)


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
    with pytest.raises(ValueError, match="this scan is given others"):
        scan(table[["x", "square", "noise"]], given="noise").interval("x", "square")


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "name", ["7 half waves", "20 half waves", "season", "sine of a normal", "sawtooth of 8"]
)
def test_a_pair_has_one_number_inside_its_intervals(name: str, seed: int) -> None:
    (law,) = [law for law in oscillating_laws() if law.name == name]
    x, y = law.sample(np.random.default_rng(seed), 1300)
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


def test_degenerate_columns() -> None:
    rng = np.random.default_rng(4)
    table = {
        "x": rng.standard_normal(50),
        "once": np.arange(50) == 3,
        "few": np.where(np.arange(50) < 3, rng.standard_normal(50), np.nan),
        "same": np.where(np.arange(50) < 40, 1.0, np.nan),
    }
    found = scan(table)
    assert "same" in found.skipped
    for pair in found:
        assert 0 <= pair.correlation <= 1


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("degrees", [{}, {"h": 3, "k": 2}])
@pytest.mark.parametrize("rows", [60, 600])
def test_a_pair_has_one_number_and_one_p_value(rows, degrees, weighted):
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


def test_categories_have_an_interval_without_tests():
    scanned = scan(frame(), test=None)
    low, high = scanned.interval("kind", "letter")
    assert low <= scanned["kind", "letter"].rank_correlation <= high
