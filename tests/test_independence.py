"""Independence of ranks: the combined test, its law, Fisher's exact law of two by two."""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import hypergeom

import hgr_jax
from bench.conditional import DESIGNS
from hgr_jax import independence_test, scan
from hgr_jax.core.host.ranks import BLOCKS, RankedColumn
from hgr_jax.inference import IndependenceTest, roys_root
from hgr_jax.inference.rank_law import (
    combined_pvalues,
    cross_moments,
    fisher_log_pvalues,
)


def functions(x: np.ndarray) -> np.ndarray:
    return RankedColumn.of_values(x).functions()


def canonical_correlation(a: np.ndarray, b: np.ndarray, h: int, k: int) -> float:
    """The largest correlation of the first functions of ranks, by QR and SVD."""
    sides = []
    for x, count in ((a, h), (b, k)):
        u = (stats.rankdata(x) - 0.5) / len(x)
        raw = [np.sin(np.arcsin(2 * u - 1) / 3), u**2 - u]
        raw += [np.cos(j * np.pi * u) for j in range(3, count + 1)]
        matrix = np.stack(raw[:count], axis=1)
        sides.append(np.linalg.qr(matrix - matrix.mean(axis=0))[0])
    return float(np.linalg.norm(sides[0].T @ sides[1], 2))


@pytest.mark.parametrize(("rows", "noise"), [(40, 1.0), (200, 1.0), (200, 0.2)])
def test_it_is_the_block_of_the_least_pvalue(
    rows: int, noise: float, rng: np.random.Generator
) -> None:
    a = rng.standard_normal(rows)
    b = np.cos(3 * a) + noise * rng.standard_normal(rows)
    found = independence_test(a, b)
    most = min(rows // 3, 32)
    blocks = dict.fromkeys((min(h, most), min(k, most)) for h, k in BLOCKS)
    values = {block: canonical_correlation(a, b, *block) for block in blocks}
    pvalues = {
        block: float(np.exp(roys_root.log_survival(value, rows, *block)))
        for block, value in values.items()
    }
    assert found.degrees == min(pvalues, key=lambda block: pvalues[block])
    assert found.statistic == pytest.approx(values[found.degrees], abs=1e-9)
    mean = np.mean([1 / math.tan(math.pi * min(p, 0.99)) for p in pvalues.values()])
    f, g = functions(a), functions(b)
    log_p = combined_pvalues(cross_moments(f / len(a), g[:, None]), rows).log_p
    # Near 0 as the first term of the series of the arctangent.
    expected = 0.5 - math.atan(mean) / math.pi if mean < 1e3 else 1 / (math.pi * mean)
    assert log_p[0] == pytest.approx(math.log(expected), abs=1e-6)


def test_exact_for_few_rows(rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((2, 7))
    f, g = functions(a), functions(b)
    every = np.array(list(itertools.permutations(range(7))))
    all_p = combined_pvalues(cross_moments(f / len(a), g[:, every]), 7).log_p
    observed = combined_pvalues(cross_moments(f / len(a), g[:, None]), 7).log_p
    exact = np.mean(all_p <= observed[0] + 1e-9)
    found = independence_test(a, b)
    assert found.source == "exact"
    assert found.pvalue == pytest.approx(exact)


@pytest.mark.parametrize("rows", [8, pytest.param(11, marks=pytest.mark.slow)])
def test_few_rows_agree_with_a_million_permutations(rows: int) -> None:
    """Of few rows no tail is fitted: a perfect order is as rare as it is."""
    x = np.arange(rows)
    for tied in (x, np.minimum(x, rows - 3)):
        many = independence_test(tied, x**2, permutations=999_999).pvalue
        for seed in (1, 2):
            found = independence_test(tied, x**2, key=jax.random.key(seed))
            assert found.source == ("exact" if rows == 8 else "permutation")
            assert many / 2.5 < found.pvalue < max(2.5 * many, 2e-5)


def test_a_category_has_a_pvalue_beyond_permutations(rng: np.random.Generator) -> None:
    """Levels of few rows, for which no law holds, beside a number that they nearly determine."""
    group = rng.permutation(np.repeat(list("abcdefgh"), [40, 40, 25, 15, 6, 5, 5, 4]))
    size = rng.exponential(size=140) ** 3
    size[group == "e"] += 1e4
    found = independence_test(group, size)
    assert found.source in ("tail", "rank", "permutation")
    assert found.pvalue < 1e-5
    assert independence_test(rng.permutation(group), size).pvalue > 0.01


@pytest.mark.parametrize("rows", [25, 400])
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


@pytest.mark.parametrize("kind", ["untied", "geometric", "dice and zero-inflated"])
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


def test_rare_values_of_independent_variables_are_no_evidence(rng: np.random.Generator) -> None:
    """Two columns that are 0 in most rows share few others, whose functions may agree."""
    count, rows = 60, 300
    values = rng.standard_normal((2, count, rows))
    a, b = np.where(rng.random(values.shape) < 0.93, 0, values)
    p = np.array([hgr_jax.hgr_fit(*pair).pvalue for pair in zip(a, b, strict=True)])
    for level in (0.001, 0.01, 0.05):
        assert np.sum(p < level) <= stats.binom.ppf(0.999, count, level)


@settings(max_examples=20, deadline=None)
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


class TestWeights:
    def test_statistic(self, rng: np.random.Generator, x64: None) -> None:
        a = rng.standard_normal(90)
        b = np.round(a**2 + rng.standard_normal(90), 1)
        weights = rng.integers(1, 3, 90)
        with pytest.warns(UserWarning, match="weights are whole numbers above 1"):
            assert independence_test(a, b, weights=weights) is not None
        found = independence_test(a, b, weights=weights / 2)
        again = [np.repeat(x, weights) for x in (a, b)]
        expected = canonical_correlation(*again, *found.degrees)
        assert found.statistic == pytest.approx(expected, abs=1e-9)
        rows = np.sum(weights) ** 2 / np.sum(weights**2)
        assert found.null_mean == pytest.approx(roys_root.mean(rows, *found.degrees))
        # Copies are not taken for rows.
        assert independence_test(*again).pvalue < found.pvalue

    def test_even_weights_and_zeros(self, rng: np.random.Generator) -> None:
        a, b = rng.standard_normal((2, 60))
        few = np.arange(60) < 50
        expected = independence_test(a[:50], b[:50])
        assert independence_test(a, b, weights=0.3 * few) == expected
        with_nan = np.where(few, a, np.nan)
        assert independence_test(with_nan, b, weights=few) == expected

    def test_uneven_weights_are_permuted(self, rng: np.random.Generator) -> None:
        options = {"permutations": 199}
        pvalues = []
        for _ in range(100):
            a, b, weights = rng.standard_normal((3, 60))
            found = independence_test(a, b, weights=np.exp(2 * weights), **options)
            if found.source == "permutation":
                pvalues.append(found.pvalue)
        assert len(pvalues) > 90
        low, high = stats.binom.ppf([0.001, 0.999], len(pvalues), 0.1)
        assert low <= np.sum(np.array(pvalues) <= 0.1) <= high


class TestGiven:
    @pytest.mark.parametrize(
        ("name", "dim"),
        [
            *(("curved", 1), ("levels", 1), ("one step", 1), ("levels, square", 1)),
            *(("scale", 3), ("binary x", 3), ("step of the sum", 3)),
        ],
    )
    def test_designs(self, name: str, dim: int) -> None:
        (design,) = [each for each in DESIGNS if each.name == name]
        rng = np.random.default_rng([dim, *name.encode()])
        pvalues = []
        for _ in range(40):
            x, y, z = design.draw(rng, 300, dim)
            pvalues.append(independence_test(x, y, given=z).pvalue)
        reached = np.mean(np.array(pvalues) <= 0.05)
        most = 0.3 if name == "step of the sum" else 0.15
        assert reached > 0.9 if design.kind == "alternative" else reached <= most

    def test_weights(self, rng: np.random.Generator) -> None:
        c, e, f = rng.standard_normal((3, 150))
        few = np.arange(150) < 100
        expected = independence_test((c + e)[:100], (c + f)[:100], given=c[:100])
        assert independence_test(c + e, c + f, given=c, weights=0.3 * few) == expected
        pvalues = []
        for _ in range(60):
            c, e, f = rng.standard_normal((3, 150))
            weights = rng.uniform(0.2, 1, 150)
            pvalues.append(independence_test(c + e, c + f, given=c, weights=weights).pvalue)
        assert np.mean(np.array(pvalues) <= 0.1) <= 0.2
        assert independence_test(c + e, c + e + f, given=c, weights=weights).pvalue < 1e-4

    @pytest.mark.parametrize("columns", [1, 2])
    def test_codes_without_an_order_are_levels(self, columns: int) -> None:
        """Given codes whose effects follow no order, 25 independent pairs are not rejected."""
        rng, rejected = np.random.default_rng(5), 0
        for _ in range(25):
            codes = rng.integers(0, 30, (columns, 300))
            x, y = rng.standard_normal((2, 300))
            for code in codes:
                of_x, of_y = rng.standard_normal((2, 30))
                x, y = x + of_x[code], y + of_y[code]
            given = np.stack([*codes, rng.standard_normal(300)], axis=1)
            rejected += independence_test(x, y, given=given).pvalue < 0.05
        assert rejected <= 4

    def test_text_and_frames(self, rng: np.random.Generator) -> None:
        n = 300
        kind, c = rng.choice(["oak", "elm", "ash"], n), rng.standard_normal(n)
        x = c + 2 * (kind == "elm") + rng.standard_normal(n)
        y = c - 2 * (kind == "elm") + rng.standard_normal(n)
        one_hot = np.stack([kind == level for level in ("ash", "elm", "oak")], axis=1)
        frame = pd.DataFrame({"kind": kind, "c": c})
        found = independence_test(x, y, given=frame)
        assert found.pvalue > 0.01 > independence_test(x, y, given=kind).pvalue
        assert independence_test(x, y, given=dict(frame)) == found
        assert independence_test(x, y, given=frame.astype({"kind": "category"})) == found
        of_indicators = independence_test(x, y, given=one_hot[:, :2])
        assert of_indicators.pvalue < 0.01
        table = scan({"x": x, "y": y, "kind": kind, "c": c}, given=["kind", "c"])
        assert table["x", "y"].pvalue == pytest.approx(found.pvalue, rel=0.2)
        # A category beside a number: what c explains of both is no dependence.
        assert independence_test(kind, x - 2 * (kind == "elm"), given=c).pvalue > 0.01
        assert independence_test(kind, x, given=c).pvalue < 1e-6
        gaps = np.where(rng.random(n) < 0.1, None, kind)
        assert np.isnan(independence_test(x, y, given=gaps).pvalue)

    def test_degenerate(self, rng: np.random.Generator) -> None:
        a, b = rng.standard_normal((2, 30))
        plain = independence_test(a, b)
        assert independence_test(a, b, given=np.ones(30)) == plain
        assert independence_test(np.ones(30), b, given=a).pvalue == 1
        assert independence_test(a, b, given=a).source == "explained"
        many = independence_test(a, b, given=rng.standard_normal((30, 20)))
        assert 0 < many.pvalue <= 1
        missing = np.where(np.arange(30) == 3, np.nan, a)
        assert np.isnan(independence_test(a, b, given=missing).pvalue)
        assert np.isnan(independence_test(a[:9], b[:9], given=a[:9] ** 2).pvalue)
        with pytest.raises(ValueError, match="without given"):
            independence_test(a, b, given=a, method="permutation")

    def test_many_linear_columns_cost_little_power(self) -> None:
        found = partial = 0
        for seed in range(60):
            rng = np.random.default_rng(seed)
            z = rng.normal(size=(200, 8))
            a, b = (z @ rng.normal(size=8) * 0.4 + rng.normal(size=200) for _ in "ab")
            b += 0.25 * a
            found += independence_test(a, b, given=z).pvalue < 0.05
            design = np.column_stack([np.ones(200), z])
            left = [x - design @ np.linalg.lstsq(design, x, rcond=None)[0] for x in (a, b)]
            r = np.corrcoef(*left)[0, 1]
            partial += 2 * stats.t.sf(abs(r) * math.sqrt(190 / (1 - r * r)), 190) < 0.05
        assert found > 0.5 * partial > 25

    @pytest.mark.parametrize("speed", [3, 5])
    def test_waves_of_one_column_are_taken_out(self, speed: float) -> None:
        rejected = 0
        for seed in range(60):
            c, e, f = np.random.default_rng(seed).normal(size=(3, 1000))
            rejected += (
                independence_test(np.sin(speed * c) + e, np.sin(speed * c) + f, given=c).pvalue
                < 0.05
            )
        assert rejected <= 8  # 3 are expected, and more than 8 once in 200 times


class TestConditionalTests:
    def test_a_category_given_nothing_has_the_test_of_the_pair(
        self, rng: np.random.Generator
    ) -> None:
        kind, side = rng.choice(list("abc"), 300), rng.choice(list("xy"), 300)
        x = 0.8 * (kind == "a") + rng.normal(size=300)
        tests = hgr_jax.ConditionalTests({"kind": kind, "side": side, "x": x})
        assert tests("kind", "x") == independence_test(kind, x)
        assert tests("x", "kind") == independence_test(x, kind)
        assert tests("kind", "side") == independence_test(kind, side)
        few = hgr_jax.ConditionalTests({"x": x[:9], "y": x[9:18]})
        assert few("x", "y") == independence_test(x[:9], x[9:18])
        assert np.isnan(
            hgr_jax.ConditionalTests({"x": x[:9], "y": x[9:18], "z": x[18:27]})(
                "x", "y", "z"
            ).pvalue
        )

    def test_are_those_of_single_calls(self, rng: np.random.Generator) -> None:
        n = 200
        c = rng.standard_normal(n)
        frame = pd.DataFrame(
            {"x": c + rng.standard_normal(n), "y": c**2 + rng.standard_normal(n), "c": c}
        )
        frame["kind"] = np.where(frame.x + rng.standard_normal(n) > 0, "up", "down")
        weights = rng.uniform(0.5, 1, n)
        for w in (None, weights):
            tests = hgr_jax.ConditionalTests(frame, weights=w)
            for x, y, c in (("x", "y", ["c"]), ("x", "y", ["kind", "c"]), ("kind", "x", ["c"])):
                single = independence_test(frame[x], frame[y], given=frame[c], weights=w)
                assert tests(x, y, c).pvalue == pytest.approx(single.pvalue, rel=1e-9)
            places = [frame.columns.get_loc(name) for name in ("x", "y", "c")]
            assert tests(places[0], places[1], places[2]) == tests("x", "y", "c")
            alone, single = tests("x", "y"), independence_test(frame.x, frame.y, weights=w)
            assert (alone.source, alone.degrees) == (single.source, single.degrees) != ("", (0, 0))
            assert alone.statistic == pytest.approx(single.statistic, rel=1e-12)
            assert alone.pvalue == pytest.approx(single.pvalue, rel=1e-9)
            assert tests("kind", "x").pvalue < 1e-4

    def test_of_a_wide_table_are_those_of_single_calls(self, rng: np.random.Generator) -> None:
        table = rng.standard_normal((150, 70))  # more than one block
        table[:, 1] = table[:, 0] ** 2 + table[:, 1]
        table[:, 2:4] = table[:, 2:4] > 0
        table[:, 4] = np.round(table[:, 0])
        table[:, 5] = rng.random(150) < 0.04  # too few ones for the law
        weights = rng.integers(0, 3, 150) / 2
        for w in (None, weights):
            tests = hgr_jax.ConditionalTests(table, weights=w)
            for x, y in ((0, 1), (1, 0), (2, 3), (4, 1), (1, 5), (5, 1), (0, 66), (66, 0), (3, 4)):
                single = independence_test(table[:, x], table[:, y], weights=w)
                found = tests(x, y)
                assert (found.source, found.degrees) == (single.source, single.degrees)
                assert found.pvalue == pytest.approx(single.pvalue, rel=1e-9)

    def test_refusals(self, rng: np.random.Generator) -> None:
        table = {"x": rng.standard_normal(40), "y": np.ones(40), "z": np.arange(40.0)}
        with pytest.raises(ValueError, match="'y' cannot be used"):
            hgr_jax.ConditionalTests(table)
        gaps = {**table, "y": np.where(np.arange(40) < 4, np.nan, table["z"])}
        with pytest.raises(ValueError, match="'y' has 4 missing values"):
            hgr_jax.ConditionalTests(gaps)
        tests = hgr_jax.ConditionalTests({**table, "y": table["x"] ** 2})
        for arguments, text in (
            (("x", "yy"), "no column 'yy'; did you mean 'y'"),
            (("x", 5), "from 0 to 2; got 5"),
            (("x", "y", "x"), "different columns"),
        ):
            with pytest.raises(ValueError, match=text):
                tests(*arguments)


class TestPermutations:
    def test_the_tail_goes_below_their_number(self, rng: np.random.Generator) -> None:
        a = rng.standard_normal(100)
        noise = rng.standard_normal(100)
        found = independence_test(a, a + 1.4 * noise, method="permutation")
        law = independence_test(a, a + 1.4 * noise)
        assert found.source == "tail"
        assert found.pvalue < 1e-6
        assert np.log(found.pvalue) == pytest.approx(np.log(law.pvalue), rel=0.4)
        certain = independence_test(a, a + 0.1 * noise, method="permutation")
        assert (certain.source, certain.pvalue) == ("tail", pytest.approx(1e-8))


def test_degenerate_data(rng: np.random.Generator) -> None:
    nothing = IndependenceTest(0.0, 1.0, "exact", (0, 0), null_mean=0.0)
    assert independence_test(np.ones(20), np.arange(20)) == nothing
    assert independence_test([1.0], [2.0]) == nothing
    assert independence_test([0, 1], [3, 2]).pvalue == 1
    for far in (np.nan, np.inf):
        found = independence_test([0, 1, far], [3, 2, 1])
        assert np.isnan([found.statistic, found.pvalue, found.null_mean]).all()
    a = rng.permutation(100)  # digits that float32 has not
    assert independence_test(a + 2**50, a).pvalue == independence_test(a, a).pvalue < 1e-50
    found = independence_test(a[:30], a[:30], method="permutation", permutations=99)
    assert (found.pvalue, found.source) == (0.01, "permutation")  # too few for a tail


class TestFunctions:
    @pytest.mark.parametrize("turned", [False, True])
    def test_they_find_what_oscillates_fast(self, turned: bool, rng: np.random.Generator) -> None:
        a = rng.uniform(-1, 1, 200)
        b = np.sin(14 * np.pi * a) + 0.3 * rng.standard_normal(200)
        found = independence_test(b, a) if turned else independence_test(a, b)
        assert found.degrees == ((1, 32) if turned else (32, 1))
        assert found.pvalue < 1e-10
        found = independence_test(a, np.sin(14 * np.pi * a) > 0)
        assert (found.degrees, found.source) == ((32, 1), "rank")
        assert found.pvalue < 1e-10

    def test_a_few_ties_among_many_rows_change_nothing(self, rng: np.random.Generator) -> None:
        a = np.arange(3000.0)
        b = np.sin(20 * np.pi * a / 3000) + 2 * rng.standard_normal(3000)
        untied = independence_test(a, b)
        a[7] = a[8]
        tied = independence_test(a, b)
        assert np.log(tied.pvalue) == pytest.approx(np.log(untied.pvalue), rel=1e-3)


@pytest.mark.parametrize("rows", [1000, 200_000])
def test_large_tables(rows: int) -> None:
    rng = np.random.default_rng(0)
    ones, others = (rng.integers(1, rows, 200) for _ in range(2))
    others[:20], ones[10:30] = 1 + others[:20] % 20, 1 + ones[10:30] % 20
    law = hypergeom(rows, ones, others)
    both = law.rvs(random_state=rng)
    both[::3] = np.clip(both[::3] + rng.integers(-90, 90, 67), *(e[::3] for e in law.support()))
    mean = ones * others / rows
    far = np.abs(both - mean) * (1 - 1e-9)
    upper, lower = law.sf(np.ceil(mean + far) - 1), law.cdf(np.floor(mean - far))
    expected = np.minimum(upper + lower, 1)
    known = expected > 1e-300
    found = fisher_log_pvalues(rows, both, ones, others)
    assert known.sum() > 150
    np.testing.assert_allclose(found[known], np.log(expected[known]), rtol=1e-7, atol=1e-7)
    assert (np.isfinite(found) & (found <= 0)).all()
    assert (found[~known] < -680).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "functions_of_c",
    [
        (lambda c: c, lambda c: c),
        (np.square, np.exp),
        (np.square, lambda c: np.sin(3 * c)),
        (lambda c: c + 1e-9 * np.cos(1e6 * c), lambda c: 2 * c + 1),
    ],
)
def test_functions_of_what_is_given_have_nothing_left_to_test(
    functions_of_c: tuple[Any, Any], weighted: bool
) -> None:
    rng = np.random.default_rng(1301)
    c = rng.uniform(-1, 1, 300)
    a, b = (f(c) for f in functions_of_c)
    weights = rng.uniform(0.5, 1.5, 300) if weighted else None
    found = independence_test(a, b, given=c, weights=weights)
    assert found == IndependenceTest(0.0, 1.0, "explained", (0, 0), null_mean=0.0)
    noise = rng.normal(size=300)
    tested = independence_test(a + 0.1 * noise, b + 0.1 * noise, given=c, weights=weights)
    assert tested.source == "residuals"
    assert tested.pvalue < 0.01


@pytest.mark.parametrize("seed", [0, 1])
def test_levels_that_are_a_function_of_what_is_given_have_nothing_left(seed: int) -> None:
    """Of given levels, of codes, of two columns together, or of intervals of a number."""
    rng = np.random.default_rng(seed)
    district, age = rng.integers(0, 6, 600), rng.uniform(18, 90, 600)
    floor = rng.integers(0, 3, 600)
    names = np.array(list("abcdef"))
    coin = rng.choice(["heads", "tails"], 600)
    for level, of in (
        (np.array(list("NNSSWW"))[district], names[district]),
        (np.array(list("NNSSWW"))[district], district),
        (np.array(["young", "old"])[(age > 40) * 1], age),
        (np.array(list("uvw"))[(district + floor) % 3], {"d": names[district], "f": floor}),
    ):
        for other in (coin, rng.normal(size=600)):
            found = independence_test(level, other, given=of)
            assert (found.source, found.pvalue) == ("explained", 1.0)
        table = {"level": level, "coin": coin}
        table |= of if isinstance(of, dict) else {"given": of}
        names_given = [name for name in table if name not in ("level", "coin")]
        tests = hgr_jax.ConditionalTests(table)
        assert tests("level", "coin", names_given).pvalue == 1
        left_out = scan(table, given=names_given).skipped["level"]
        assert left_out.startswith("a function of what is given")
    nearly = np.where(rng.random(600) < 0.8, np.array(list("NNSSWW"))[district], "N")
    assert independence_test(nearly, coin, given=names[district]).source == "residuals"


class TestLevelsGivenOthers:
    """Two discrete variables given a third: rare pairs of levels make no evidence."""

    @pytest.mark.parametrize("name", ["20 levels", "rare", "20 levels, rare", "rare, logit"])
    def test_hold_the_level(self, name: str) -> None:
        rng = np.random.default_rng([*name.encode()])

        def draw(c: np.ndarray, kind: str) -> np.ndarray:
            if kind == "20 levels":
                return np.array([f"level {i}" for i in rng.integers(0, 20, len(c))])
            slope = 1.0 if kind == "logit" else 0.0
            return (rng.random(len(c)) < 1 / (1 + np.exp(3.2 - slope * c))).astype(float)

        kinds = name.split(", ")
        pvalues = []
        for _ in range(50):
            c = rng.standard_normal(600)
            a, b = draw(c, kinds[0] if "logit" not in name else "logit"), draw(c, kinds[-1])
            pvalues.append(independence_test(a, b, given=c).pvalue)
        assert np.mean(np.array(pvalues) <= 0.05) <= 0.12
        assert min(pvalues) > 1e-5

    def test_are_found(self, rng: np.random.Generator) -> None:
        c = rng.standard_normal(600)
        a = rng.integers(0, 5, 600)
        b = np.where(rng.random(600) < 0.25, a, rng.integers(0, 5, 600))
        texts = [np.array(list("vwxyz"))[x] for x in (a, b)]
        assert independence_test(*texts, given=c).pvalue < 1e-4
        assert independence_test(texts[0], b.astype(float), given=c).pvalue < 1e-4
        assert independence_test(a == 1, b == 1, given=c).pvalue < 0.01

    def test_rare_levels_are_pooled_as_in_tables(self, rng: np.random.Generator) -> None:
        c, e = rng.standard_normal((2, 500))
        kind = np.where(rng.random(500) < 0.9, "common", rng.choice(list("abcdefgh"), 500))
        single = independence_test(kind, c + e, given=c)
        table = hgr_jax.ConditionalTests({"kind": kind, "y": c + e, "c": c})
        assert table("kind", "y", "c").pvalue == pytest.approx(single.pvalue, rel=1e-9)
        with pytest.raises(ValueError, match="a cannot be used: names or identifiers"):
            independence_test([f"name {i}" for i in range(500)], c, given=e)


def test_weights_of_few_effective_rows(rng: np.random.Generator) -> None:
    pvalues = []
    for _ in range(50):
        c, e, f = rng.standard_normal((3, 400))
        w = np.exp(1.5 * rng.standard_normal(400))
        pvalues.append(
            independence_test(np.sin(2 * c) + e / 2, c**2 + f / 2, given=c, weights=w).pvalue
        )
    assert np.mean(np.array(pvalues) <= 0.05) <= 0.12
    c, e, f = rng.standard_normal((3, 300))
    few = np.r_[np.ones(300), np.full(300, 1e-9)]
    kept = independence_test(np.sign(c) + e / 2, np.sign(c) + f / 2, given=c).pvalue
    with_others = independence_test(
        *(np.r_[np.sign(c) + x / 2, 50 * rng.standard_normal(300)] for x in (e, f)),
        given=np.r_[c, rng.standard_normal(300)],
        weights=few,
    )
    assert with_others.pvalue == pytest.approx(kept, abs=0.2)


def test_between_groups_a_category_has_levels(rng: np.random.Generator) -> None:
    """Not numbers in the order of the alphabet, in which the middle one stands out."""
    kind = np.array(["b", "a", "c"])[np.arange(60) % 3]
    size = 2.0 * (kind == "b") + rng.normal(size=60)
    groups = np.repeat(np.arange(60), 4)
    sizes = np.repeat(size, 4) + 0.01 * rng.normal(size=240)
    found = independence_test(np.repeat(kind, 4), sizes, groups=groups)
    assert found.source == "between"
    assert found.pvalue < 1e-4
    assert found.degrees[0] == 2
    with pytest.raises(ValueError, match="varies within groups has no value for a group"):
        independence_test(rng.permutation(np.repeat(kind, 4)), np.repeat(size, 4), groups=groups)
