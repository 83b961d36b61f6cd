"""What leads a scan of numbers and categories."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from hgr_jax import scan


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
