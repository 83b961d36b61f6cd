"""Waves of ranks, and the law of the combined test of blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hgr_jax import independence_test
from hgr_jax.core.host import ranks
from hgr_jax.inference import _rank_law


class TestWaves:
    @pytest.mark.parametrize(("rows", "count"), [(17, 4), (50, 16), (96, 32), (333, 32)])
    def test_they_are_orthonormal_on_the_ranks(self, rows: int, count: int) -> None:
        waves = ranks.waves_at(2 * np.arange(rows), rows)
        assert waves.shape == (count, rows)
        np.testing.assert_allclose(waves @ waves.T / rows, np.eye(count), atol=1e-13)
        np.testing.assert_allclose(waves.mean(axis=1), 0, atol=1e-13)

    @pytest.mark.parametrize("turned", [False, True])
    def test_they_find_what_oscillates_fast(self, turned: bool, rng: np.random.Generator) -> None:
        a = rng.uniform(-1, 1, 200)
        b = np.sin(14 * np.pi * a) + 0.3 * rng.standard_normal(200)
        found = independence_test(b, a) if turned else independence_test(a, b)
        assert found.waves
        assert found.degrees == ((1, 32) if turned else (32, 1))
        assert found.pvalue < 1e-10
        # Polynomials, to which ties on both sides leave the test, do not.
        tied = independence_test(np.round(a, 2), np.round(b, 1))
        assert not tied.waves
        assert tied.pvalue > 1e-4

    def test_a_variable_with_ties_has_none_and_the_other_has(
        self, rng: np.random.Generator
    ) -> None:
        a = rng.uniform(-1, 1, 200)
        b = np.sin(14 * np.pi * a) > 0
        found = independence_test(a, b)
        assert (found.waves, found.degrees, found.source) == (True, (32, 1), "rank")
        assert found.pvalue < 1e-10

    def test_a_few_ties_among_many_rows_change_nothing(self, rng: np.random.Generator) -> None:
        a = np.arange(3000.0)
        b = np.sin(20 * np.pi * a / 3000) + 2 * rng.standard_normal(3000)
        untied = independence_test(a, b)
        a[7] = a[8]
        tied = independence_test(a, b)
        assert tied.waves
        assert np.log(tied.pvalue) == pytest.approx(np.log(untied.pvalue), rel=1e-3)


class TestLaw:
    @given(rows=st.floats(20, 1e9), log_p=st.floats(-1e4, 0))
    def test_it_is_a_law(self, rows: float, log_p: float) -> None:
        grid = np.linspace(log_p, 0, 50)
        found = _rank_law.log_probability(grid, rows)
        assert (np.diff(found) >= -1e-12).all()
        assert found[-1] == 0
        assert found[0] >= -math.lgamma(rows + 1) - 1e-9
        # It exceeds its level somewhat, the more the smaller the level and the number of rows.
        assert (found >= np.maximum(grid, -math.lgamma(rows + 1)) + np.log(0.9)).all()

    def test_zero(self) -> None:
        rarest = -math.lgamma(31)
        assert _rank_law.log_probability(np.array([-np.inf]), 30) == pytest.approx(rarest)
