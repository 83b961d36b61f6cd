"""Options of a scan: measures, ranks, weights; and its categories, with their rare levels."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scan_support import ROWS, agrees, plain, present_rows
from scipy import stats

import hgr_jax
from hgr_jax import scan


def gap(a: jax.Array, b: jax.Array) -> jax.Array:
    """A measure with a sign, of which a scan takes the size."""
    return jnp.mean((a - jnp.mean(a)) * (b - jnp.mean(b))) - 3


def bends(a: jax.Array, b: jax.Array) -> jax.Array:
    """A measure with a kernel, as the guide says."""
    return hgr_jax.kb(a, b, h=hgr_jax.kernels.splines([-1.0, 0.0, 1.0], 1), k=2)


@pytest.mark.parametrize(("holes", "far"), [(False, 1e8), (True, 1e30)])
def test_rows_of_weight_zero_are_dropped(rng: np.random.Generator, holes: bool, far: float) -> None:
    x = plain(rng, 3).astype(np.float32)
    if holes:
        x[20:40, 2] = np.nan
    weights = np.ones(ROWS)
    weights[0] = 0
    without = scan(x, h=3, k=2, weights=weights, test=None)
    x[0] = far
    found = scan(x, h=3, k=2, weights=weights, test=None)
    np.testing.assert_allclose(found.correlation, without.correlation, atol=1e-6)
    agrees(found, weights)


def test_other_measures(rng: np.random.Generator) -> None:
    x = plain(rng, 4).astype(np.float32)
    x[:30, 3] = np.nan
    table = {**{f"x{i}": x[:, i] for i in range(4)}, "text": np.array(["a", "b"] * (ROWS // 2))}
    for method, measure in (
        ("hsic", hgr_jax.hsic),
        ("spearman", hgr_jax.spearman),
        (bends, lambda a, b: float(bends(a, b))),
        (gap, lambda a, b: abs(gap(a, b))),
    ):
        found = scan(table, measure=method, test=None)
        assert found.skipped == {"text": "a category; this measure takes numbers"}
        assert found.settings["measure"] == getattr(method, "__name__", method)
        for i, j in found.pairs:
            a, b, _ = present_rows(found, i, j)
            value = float(measure(jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32)))
            assert found.correlation[i, j] == pytest.approx(value, rel=1e-4)
            assert found.pearson[i, j] == pytest.approx(abs(np.corrcoef(a, b)[0, 1]), abs=1e-5)
        assert found.n_obs[0, 3] == ROWS - 30


def test_scans_of_any_array(rng: np.random.Generator) -> None:
    x = plain(rng).astype(np.float32)
    known = scan(x, h=3, k=2, test=None)
    read_only = x.copy()
    read_only.flags.writeable = False
    for same in (jnp.asarray(x), np.asfortranarray(x), read_only, np.repeat(x, 2, axis=1)[:, ::2]):
        found = scan(same, h=3, k=2, test=None)
        np.testing.assert_array_equal(found.correlation, known.correlation)


def test_progress_is_shown_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).standard_normal((150, 4))
    shown = scan(x, h=3, k=2, execution=hgr_jax.Execution(progress=True))
    printed = capsys.readouterr().err
    assert "pairs: " in printed
    assert f"0/{len(shown)}" in printed
    np.testing.assert_array_equal(scan(x, h=3, k=2).pvalue, shown.pvalue)
    assert capsys.readouterr().err == ""


def test_pairs_of_one_group_with_another(rng: np.random.Generator) -> None:
    table = pd.DataFrame(rng.normal(size=(100, 5)), columns=[*"abcde"])
    whole = scan(table, h=2, k=2, test=None)

    def pairs_of(**options: Any) -> set[frozenset[str]]:
        found = scan(table, h=2, k=2, test=None, **options)
        for pair in found:
            assert pair.correlation == pytest.approx(whole[pair.a, pair.b].correlation, abs=1e-6)
        return {frozenset((pair.a, pair.b)) for pair in found}

    assert pairs_of(target=["d", "e"], among=["a", 1]) == set(
        map(frozenset, ("da", "db", "ea", "eb"))
    )
    assert pairs_of(among=["a", "b", "c"]) == set(map(frozenset, ("ab", "ac", "bc")))
    assert pairs_of(target="a", among="b") == {frozenset("ab")}


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


def test_what_a_category_shows_beyond_the_means_of_its_levels() -> None:
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(2, 600))
    table = {
        "x": x,
        "parabola": x**2 + 0.1 * noise,
        "third": np.digitize(x, [-0.5, 0.5]).astype(str),
        "half": np.where(x + 0.2 * noise > 0, "high", "low"),
        "outer": np.where(np.abs(x + 0.1 * noise) > 0.7, "yes", "no"),
    }
    table["copy"] = np.char.add("is ", table["third"])
    found = scan(table, h=4, k=4)
    ranks = stats.rankdata(x)
    for name in ("third", "half", "outer"):
        groups = [ranks[table[name] == level] for level in np.unique(table[name])]
        between = sum(len(group) * (group.mean() - ranks.mean()) ** 2 for group in groups)
        ratio = np.sqrt(between / np.sum((ranks - ranks.mean()) ** 2))
        assert found.rank_linear[0, found.names.index(name)] == pytest.approx(ratio, abs=1e-5)
    half = stats.spearmanr(x, table["half"] == "high").statistic
    assert found["x", "half"].rank_excess < found["x", "half"].rank_correlation - abs(half) + 1e-5
    assert found.rank_linear[0, 1] == found.spearman[0, 1]
    first = [{pair.a, pair.b} for pair in found.top(2)]
    assert {"x", "parabola"} in first
    assert {"x", "outer"} in first
    assert found["third", "copy"].rank_excess == 0
    assert found["third", "copy"].correlation == pytest.approx(1)
    categories = {"third", "half", "outer", "copy"}
    values = [pair.correlation for pair in found.top() if {pair.a, pair.b} <= categories]
    assert len(values) == 6
    sure = [value for value in values if value > 0.3]
    assert values[: len(sure)] == sorted(sure, reverse=True)


def test_whole_numbers_as_weights_are_noted(rng: np.random.Generator) -> None:
    table = {"x": rng.normal(size=60), "y": rng.normal(size=60), "count": rng.integers(1, 4, 60)}
    note = "repeat the rows"
    assert note in scan(table, weights="count").notes["weights"]
    weights = table.pop("count")
    assert note in scan(table, weights=weights).notes["weights"]
    assert not scan(table, weights=weights / 2 + 0.1).notes
    assert not scan(table, weights=(weights > 2) * 1.0).notes
