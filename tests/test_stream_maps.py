"""Ranks by a sample: maps that never fall, exact where the sample is the column."""

from __future__ import annotations

import numpy as np
import pytest

from hgr_jax.core.host.ranks import ranks
from hgr_jax.scanning.plan import KNOTS, RankMap


def columns(rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=rows)
    return {
        "untied": x,
        "skewed": np.exp(3 * x),
        "few values": np.round(2 * x),
        "an atom": np.where(rng.random(rows) < 0.3, 0, x),
        "rounded": np.round(x, 3),
        "with holes": np.where(rng.random(rows) < 0.2, np.nan, x),
    }


@pytest.mark.parametrize("name", list(columns(10)))
def test_maps_of_samples_are_near_and_never_fall(name: str) -> None:
    x = columns(200_000)[name]
    sample = x[:65_536]
    to_rank = RankMap.of(sample, np.nanmin(x), np.nanmax(x))
    assert len(to_rank.values) <= 4 * KNOTS
    found, exact = to_rank(x), ranks(x[:, None])[:, 0]
    assert np.nanmax(np.abs(found - exact)) < 2 * 2 / np.sqrt(65_536)
    order = np.argsort(x)
    assert (np.diff(found[order][: np.isfinite(x).sum()]) >= 0).all()
    assert (np.isnan(found) == np.isnan(x)).all()
    assert np.nanmin(found) >= -1
    assert np.nanmax(found) <= 1
    if name == "an atom":  # a value of many rows keeps its step
        assert abs(to_rank(np.zeros(1))[0] - exact[x == 0][0]) < 0.01
