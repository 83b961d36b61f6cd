"""The test of independence by ranks: its law, its sources, and what it must not depend on."""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import hgr_jax
from hgr_jax import independence_test
from hgr_jax.inference import IndependenceTest, _rank_law
from hgr_jax.inference._rank_blocks import (
    BLOCKS,
    combined_pvalues,
    cross_moments,
)
from hgr_jax.inference._ranked import RankedColumn
from hgr_jax.inference.roys_root import survival


def ranks(x: Any) -> np.ndarray:
    return stats.rankdata(x)


def polynomials(x: np.ndarray) -> np.ndarray:
    return RankedColumn.of_values(x).polynomials()


def trusted(x: np.ndarray) -> tuple[int, float]:
    column = RankedColumn.of_values(x)
    return column.trusted, column.worth


@pytest.mark.usefixtures("x64")
class TestStatistic:
    def test_it_is_kb_of_ranks_at_the_block_of_the_least_pvalue(
        self, rng: np.random.Generator
    ) -> None:
        a = rng.standard_normal(60)
        b = np.round(np.cos(3 * a) + rng.standard_normal(60), 1)
        found = independence_test(a, b)
        values = {(h, k): float(hgr_jax.kb(ranks(a), ranks(b), h, k)) for h, k in BLOCKS}
        pvalues = {block: float(survival(value, 60, *block)) for block, value in values.items()}
        assert found.degrees == min(pvalues, key=lambda block: pvalues[block])
        assert found.statistic == pytest.approx(values[found.degrees], abs=1e-9)
        mean = np.mean([math.tan((0.5 - min(p, 0.99)) * math.pi) for p in pvalues.values()])
        f, g = polynomials(a), polynomials(b)
        log_p, *_ = combined_pvalues(cross_moments(f, g[:, None]), 60)
        assert np.exp(log_p[0]) == pytest.approx(0.5 - math.atan(mean) / math.pi, rel=1e-7)


def test_exact_for_few_rows(rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((2, 7))
    f, g = polynomials(a), polynomials(b)
    every = np.array(list(itertools.permutations(range(7))))
    all_p, *_ = combined_pvalues(cross_moments(f, g[:, every]), 7)
    observed, *_ = combined_pvalues(cross_moments(f, g[:, None]), 7)
    exact = np.mean(all_p <= observed[0] + 1e-9)
    found = independence_test(a, b)
    assert found.source == "permutation"
    assert found.pvalue == pytest.approx(exact, abs=4 * math.sqrt(exact / 100))


@pytest.mark.parametrize("rows", [25, 90, 400])
def test_the_law_agrees_with_permutations(rows: int, rng: np.random.Generator) -> None:
    for strength in (0.0, 2 / math.sqrt(rows)):
        a = rng.standard_normal(rows)
        b = strength * a**2 + rng.standard_normal(rows)
        law = independence_test(a, b)
        drawn = independence_test(a, b, method="permutation", key=jax.random.key(3))
        assert (law.source, drawn.source) == ("rank", "permutation")
        assert law.statistic == pytest.approx(drawn.statistic)
        # 100 permutations reach the statistic, or 9,999 are drawn.
        error = max(law.pvalue / 10, math.sqrt(law.pvalue / 9999))
        assert drawn.pvalue == pytest.approx(law.pvalue, abs=4 * error + 0.05 * law.pvalue)


@pytest.mark.parametrize(
    "kind", ["untied", "dice", "geometric", "zero-inflated", "dice and zero-inflated"]
)
def test_rejections_of_independent_variables(kind: str, rng: np.random.Generator) -> None:
    def draw(kind: str) -> np.ndarray:
        x = rng.random(100)
        if kind == "dice":
            return np.floor(6 * x)
        if kind == "geometric":
            return rng.geometric(0.5, 100)
        return np.where(rng.random(100) < 0.5, 0, x) if kind == "zero-inflated" else x

    first, *second = kind.split(" and ")
    pvalues = [
        independence_test(draw(first), draw(second[0] if second else "untied")).pvalue
        for _ in range(400)
    ]
    reached = np.sum(np.array(pvalues) <= 0.05)
    low, high = stats.binom.ppf([0.001, 0.999], 400, [0.03, 0.06])
    assert low <= reached <= high


@settings(max_examples=30, deadline=None)
@given(
    table=st.tuples(*[st.integers(0, 40)] * 4).filter(
        lambda t: min(t[0] + t[1], t[2] + t[3], t[0] + t[2], t[1] + t[3]) > 0
    )
)
def test_two_by_two_is_fisher_s(table: tuple[int, int, int, int]) -> None:
    cells = np.repeat(np.arange(4), table)
    found = independence_test(cells // 2, cells % 2)
    assert found.source == "exact"
    # By distance from what is expected, not by probability: one tail where they are alike.
    counts = stats.hypergeom(sum(table), table[2] + table[3], table[1] + table[3])
    low, high = (int(x) for x in counts.support())
    k = np.arange(low, high + 1)
    far = np.abs(k - counts.mean()) >= abs(table[3] - counts.mean()) - 1e-9
    assert found.pvalue == pytest.approx(float(np.sum(counts.pmf(k)[far])), rel=1e-9)
    assert found.statistic == pytest.approx(abs(np.corrcoef(cells // 2, cells % 2)[0, 1]))


class TestWhatItDoesNotDependOn:
    def test_increasing_transformations_order_and_sides(self, rng: np.random.Generator) -> None:
        a = rng.standard_normal(80)
        b = a**2 + rng.standard_normal(80)
        order = rng.permutation(80)
        found = independence_test(a, b)
        for x, y in ((np.exp(a), b), (-a, b), (a[order], b[order])):
            same = independence_test(x, y)
            assert same.pvalue == pytest.approx(found.pvalue, rel=1e-6)
        swapped = independence_test(b, a)
        assert swapped.pvalue == pytest.approx(found.pvalue, rel=1e-6)
        assert swapped.degrees == found.degrees[::-1]

    def test_one_outlier(self, rng: np.random.Generator) -> None:
        a, b = rng.standard_normal((2, 300))
        a[0] = b[0] = 1e6
        assert independence_test(a, b).pvalue > 0.01

    def test_the_kind_of_array(self, rng: np.random.Generator) -> None:
        a, b = rng.integers(0, 50, (2, 70))
        found = independence_test(a, b)
        for x, y in (
            (a.tolist(), b.tolist()),
            (pd.Series(a), pd.Series(b)),
            (jnp.asarray(a), jnp.asarray(b)),
            (a.astype(np.float32), b.astype(np.float64)),
        ):
            assert independence_test(x, y) == found

    def test_digits_that_float32_has_not(self, rng: np.random.Generator) -> None:
        a = rng.permutation(100)
        assert independence_test(a + 2**50, a).pvalue == independence_test(a, a).pvalue < 1e-50


class TestPermutations:
    def test_they_stop_where_many_reach(self, rng: np.random.Generator) -> None:
        a, b = rng.standard_normal((2, 40))
        found = independence_test(a, b, method="permutation")
        assert found == independence_test(a, b, method="permutation", key=jax.random.key(0))
        other = independence_test(a, b, method="permutation", key=jax.random.key(1))
        assert found.pvalue != other.pvalue
        assert found.pvalue == pytest.approx(other.pvalue, rel=0.6)

    def test_the_tail_goes_below_their_number(self, rng: np.random.Generator) -> None:
        a = rng.standard_normal(100)
        b = a + 0.8 * rng.standard_normal(100)
        found = independence_test(a, b, method="permutation")
        law = independence_test(a, b)
        assert found.source == "tail"
        assert found.pvalue < 1e-6
        assert np.log(found.pvalue) == pytest.approx(np.log(law.pvalue), rel=0.4)

    def test_not_below_what_the_rarest_order_has(self) -> None:
        a = np.arange(9)
        found = independence_test(a, a)
        assert found.pvalue >= 1 / math.factorial(9)

    def test_exact_for_a_rare_level(self) -> None:
        pairs = list(itertools.combinations(range(60), 2))
        found = independence_test(np.arange(60) < 2, np.arange(60))
        assert found.source == "permutation"
        f, g = (polynomials(x) for x in (-np.sign(np.arange(60.0) // 2), np.arange(60.0)))
        orders = np.stack([np.r_[pair, np.delete(np.arange(60), pair)] for pair in pairs])
        every, *_ = combined_pvalues(cross_moments(f[:1], g[:, orders]), 60)
        exact = np.mean(every <= every[0] + 1e-9)  # every pair of rows is as probable
        assert found.pvalue == pytest.approx(exact, abs=4 * math.sqrt(exact / 9999))

    def test_few_of_them_have_no_tail(self, rng: np.random.Generator) -> None:
        a = rng.standard_normal(30)
        found = independence_test(a, a, method="permutation", permutations=99)
        assert (found.pvalue, found.source) == (0.01, "permutation")


class TestTies:
    def test_a_rare_level_is_not_trusted(self, rng: np.random.Generator) -> None:
        rare = (np.arange(300) < 5).astype(float)
        assert trusted(rare) == (0, 0.0)
        found = independence_test(rare, rng.standard_normal(300))
        assert found.source == "permutation"
        by_law = independence_test(rare, rng.standard_normal(300), method="rank")
        assert by_law.source == "rank"

    def test_degrees_are_those_that_ties_leave(self, rng: np.random.Generator) -> None:
        dice = rng.integers(0, 6, 500)
        assert trusted(dice.astype(float))[0] == 5
        assert trusted(rng.standard_normal(500)) == (16, 1.0)
        skewed = rng.geometric(0.7, 500).astype(float)
        degree, worth = trusted(skewed)
        assert 0 < degree < len(np.unique(skewed)) - 1
        assert 50 <= 500 * worth**2 <= 500


class TestDegenerateData:
    def test_constants(self) -> None:
        nothing = IndependenceTest(0.0, 1.0, "exact", (0, 0), 0.0)
        assert independence_test(np.ones(20), np.arange(20)) == nothing
        assert independence_test([1.0], [2.0]) == nothing

    def test_two_rows(self) -> None:
        assert independence_test([0, 1], [3, 2]).pvalue == 1

    def test_nan(self) -> None:
        found = independence_test([0, 1, np.nan], [3, 2, 1])
        assert np.isnan([found.statistic, found.pvalue, found.null_mean]).all()

    def test_infinity_is_the_largest_rank(self, rng: np.random.Generator) -> None:
        a, b = rng.standard_normal((2, 50))
        far = np.where(a == a.max(), np.inf, a)
        assert independence_test(far, b) == independence_test(a, b)

    @pytest.mark.parametrize(
        ("arguments", "options", "message"),
        [
            (([1, 2, 3], [1, 2]), {}, "same number of rows"),
            ((np.ones((3, 2)), np.ones(3)), {}, "must have shape"),
            (([1, 2], [1, 2]), {"method": "exact"}, "method must be"),
            (([1, 2], [1, 2]), {"permutations": 0}, "permutations"),
            (([1, 2], [1, 2]), {"key": 0}, "key"),
            ((["x", "y"], [1, 2]), {}, "a must hold real numbers"),
        ],
    )
    def test_errors(self, arguments: Any, options: Any, message: str) -> None:
        with pytest.raises((TypeError, ValueError), match=message):
            independence_test(*arguments, **options)


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
