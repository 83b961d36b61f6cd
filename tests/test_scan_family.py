"""What a scan that keeps the first pairs knows of all of them."""

from __future__ import annotations

import numpy as np

from hgr_jax.inference import adjust
from hgr_jax.scanning.consumers import BINS_OF_E, FirstPairs, PValueHistogram


class TestPValueHistogram:
    def test_adjusted_is_that_of_all(self) -> None:
        rng = np.random.default_rng(0)
        p = np.concatenate([rng.uniform(size=5000), rng.uniform(size=300) ** 9, [0.0, 1.0]])
        family = PValueHistogram()
        for part in np.array_split(p, 7):
            with np.errstate(divide="ignore"):
                family.add(np.append(np.log(part), np.nan))
        assert family.size == len(p)
        found, expected = family.adjusted(p), adjust(p)
        assert (found >= p).all()
        np.testing.assert_allclose(found, expected, rtol=1.01 / BINS_OF_E)
        for rate in (1e-9, 0.01, 0.05, 0.3):
            assert abs(family.discoveries(rate) - np.sum(expected <= rate)) <= 1
        assert np.isnan(family.adjusted(np.array([np.nan])))

    def test_replaced(self) -> None:
        """Those that are kept, which were counted by what float32 knows of them."""
        rng = np.random.default_rng(0)
        logs = np.sort(np.log(rng.uniform(size=3000)) * np.repeat([80.0, 1.0], [100, 2900]))
        rough = logs * (1 + rng.uniform(-1e-5, 1e-5, size=3000) * np.where(logs < -50, 1000, 1))
        family = PValueHistogram()
        family.add(rough)
        family.recount(rough[:500], logs[:500])
        p = np.exp(np.maximum(logs, -700))
        assert family.size == 3000
        found = family.adjusted(p[:500])
        np.testing.assert_allclose(found, adjust(p)[:500], rtol=1.01 / BINS_OF_E)

    def test_of_none(self) -> None:
        assert PValueHistogram().discoveries(0.05) == PValueHistogram().size == 0
        assert np.isnan(PValueHistogram().adjusted(np.array([np.nan]))).all()

    def test_best_are_the_least(self) -> None:
        rng = np.random.default_rng(0)
        scores, best = np.round(rng.normal(size=(40, 30)), 1), FirstPairs(25)
        scores[3, 4] = np.nan
        for rows in np.array_split(np.arange(40), 9):
            best.add(scores[rows], -scores[rows], rows[:, None], np.arange(30)[None])
        order = np.argsort(scores.ravel(), kind="stable")[:25]
        np.testing.assert_array_equal(best.scores, scores.ravel()[order])
        np.testing.assert_array_equal(best.log_p, -best.scores)
        np.testing.assert_array_equal(best.pairs, np.stack(np.divmod(order, 30), axis=1))
