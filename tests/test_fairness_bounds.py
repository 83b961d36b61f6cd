"""Upper bounds: their parts against references and simulations, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bench import reference
from hgr_jax.fairness import HGR, KB, SK, Certificate, DemographicParity, Penalty, certify
from hgr_jax.fairness.bounds import in_groups, mean_limit, share_limits, table_limit

ROWS = 600
PARITY = DemographicParity()


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An attribute, a prediction, and labels of pairs of rows."""
    rng = np.random.default_rng(0)
    z = np.repeat(rng.normal(size=ROWS // 2), 2)
    own = np.repeat(rng.normal(size=ROWS // 2), 2)
    return z, 0.3 * z + 0.8 * own + 0.6 * rng.normal(size=ROWS), np.arange(ROWS) // 2


@pytest.fixture(scope="module")
def decisions() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A category, decisions of 0 and 1, and an outcome."""
    rng = np.random.default_rng(1)
    level = rng.choice(["a", "b", "c"], ROWS, p=[0.5, 0.3, 0.2])
    outcome = rng.integers(0, 2, ROWS)
    rate = 0.2 + 0.3 * outcome + 0.1 * (level == "c")
    return level, (rng.random(ROWS) < rate).astype(float), outcome


def rates(level: np.ndarray, decision: np.ndarray) -> dict[str, tuple[int, int]]:
    """Successes and trials of every level."""
    return {
        str(each): (int(decision[level == each].sum()), int((level == each).sum()))
        for each in np.unique(level)
    }


class TestParts:
    def test_shares_are_those_of_clopper_and_pearson(self) -> None:
        counts = np.array([0, 1, 7, 19, 20])
        low, high = share_limits(counts, 20, 0.03)
        for x, below, above in zip(counts.tolist(), low, high, strict=True):
            interval = stats.binomtest(x, 20).proportion_ci(0.94, method="exact")
            assert (below, above) == pytest.approx((interval.low, interval.high), abs=1e-9)

    def test_the_limit_of_a_mean_covers_it(self) -> None:
        """Of 400 samples of a skewed law; a limit that forgot its margin covers half of them."""
        rng, covered = np.random.default_rng(2), 0
        limits = []
        for _ in range(400):
            limits.append(mean_limit(rng.beta(0.3, 2, size=60), 0.1))
            covered += limits[-1] >= 0.3 / 2.3
        assert 0.9 <= covered / 400 <= 1
        assert np.mean(limits) < 0.3 / 2.3 + 0.12
        assert mean_limit(np.array([0.0, 1.0, 1.0]), 0.05) == share_limits(2, 3, 0.05)[1]
        assert mean_limit(np.full(5, 0.5), 0.05) > 0.8  # of so few

    def test_a_table_is_bounded_in_a_simulation(self) -> None:
        """HGR of a table of known probabilities, which the limit is below in at most 10%."""
        shares = np.array([[0.3, 0.1, 0.1], [0.1, 0.1, 0.3]])
        expected = np.outer(shares.sum(axis=1), shares.sum(axis=0))
        truth = np.linalg.svd((shares - expected) / np.sqrt(expected))[1][0]
        rng = np.random.default_rng(3)
        found = [
            table_limit(rng.multinomial(500, shares.ravel()).reshape(2, 3).astype(float), 0.9)
            for _ in range(300)
        ]
        values, limits = np.array(found).T
        assert (limits < truth).mean() <= 0.1
        assert np.median(values) == pytest.approx(truth, abs=0.02)
        assert np.median(limits) < truth + 0.25
        wide, narrow = (table_limit(shares * rows, 0.95)[1] for rows in (300, 30_000))
        assert truth < narrow < wide < 1
        assert table_limit(np.array([[5.0, 5.0], [0.0, 0.0]]), 0.9)[1] == 1

    def test_groups_are_between_quantiles_or_values(self) -> None:
        seen = np.arange(100.0)
        np.testing.assert_array_equal(
            in_groups(np.array([-9.0, 30, 60, 999]), seen, 3), [0, 0, 1, 2]
        )
        few = np.array([0.0, 0, 1, 1])
        np.testing.assert_array_equal(in_groups(np.array([0.0, 1, 0]), few, 3), [0, 1, 0])
        np.testing.assert_array_equal(in_groups(np.array([0.0, 1]), np.ones(3), 2), [0, 0])


class TestAsymptotic:
    def test_errors_of_groups_are_those_of_a_jackknife(self, rows: Any) -> None:
        """Leaving out one pair of rows at a time."""
        z, prediction, label = rows
        found = certify(prediction, z, Penalty(KB(1, 2), 0.9), groups=label)
        values = np.array(
            [reference.kb(z[label != i], prediction[label != i], 1, 2) for i in range(ROWS // 2)]
        )
        count = ROWS // 2
        error = np.sqrt((count - 1) / count * ((values - values.mean()) ** 2).sum())
        assert found.standard_error == pytest.approx(error, rel=0.05)
        alone = certify(prediction, z, Penalty(KB(1, 2), 0.9))
        assert found.standard_error > 1.1 * alone.standard_error
        assert (found.groups, alone.groups, found.rows) == (ROWS // 2, None, ROWS)
        assert "if the 300 groups of rows are drawn independently" in str(found)
        text = certify(prediction, z, Penalty(KB(1, 2), 0.9), groups=[f"p{i}" for i in label])
        assert text.bound == found.bound

    def test_every_measure_has_its_own_bound(self, rows: Any) -> None:
        z, prediction, _ = rows
        single = certify(prediction, z, Penalty(SK(3), 0.9))
        expected = max(reference.kb(z, prediction, 3, 1), reference.kb(z, prediction, 1, 3))
        assert (single.value, single.measure) == (pytest.approx(expected, abs=1e-6), "HGR-SK(3)")
        assert expected < single.bound
        ranked = certify(prediction, z, Penalty(HGR(), 0.9))
        assert (ranked.measure, ranked.degrees) == ("HGR(5, 5)", (5, 5))
        again = certify(np.exp(9 * prediction), np.exp(9 * z), Penalty(HGR(), 0.9))
        assert again.bound == pytest.approx(ranked.bound, abs=1e-9)

    def test_demographic_parity_is_welchs(self, decisions: Any) -> None:
        level, decision, _ = decisions
        found = certify(decision, level, Penalty(PARITY, 0.5, name="job"))
        means = {name: x / n for name, (x, n) in rates(level, decision).items()}
        assert found.value == pytest.approx(max(means.values()) - min(means.values()))
        pair = max(means, key=lambda n: means[n]), min(means, key=lambda n: means[n])
        two = [decision[level == name] for name in pair]
        error = np.sqrt(sum(part.var(ddof=1) / len(part) for part in two))
        assert found.standard_error == pytest.approx(error, rel=0.02)
        assert found.bound == pytest.approx(found.value + 1.66 * error, abs=0.02)
        assert "demographic parity of job and the prediction" in str(found)
        numbers = certify(decision, np.where(level == "a", 7, 3), Penalty(PARITY, 0.5))
        assert numbers.value == pytest.approx(
            abs(decision[level == "a"].mean() - decision[level != "a"].mean())
        )

    def test_groups_of_y(self, decisions: Any, rows: Any) -> None:
        level, decision, outcome = decisions
        penalty = Penalty(PARITY, 0.5, given="classes")
        found = certify(decision, level, penalty, y=np.where(outcome, "yes", "no"))
        parts = [
            certify(decision[outcome == i], level[outcome == i], Penalty(PARITY, 0.5))
            for i in (0, 1)
        ]
        assert found.bound == pytest.approx(max(part.bound for part in parts))
        assert found.given == ("y=no", "y=yes")
        assert found.worst == found.given[int(parts[1].bound > parts[0].bound)]
        z, prediction, _ = rows
        binned = certify(prediction, z, Penalty(KB(1, 1), 0.9, given=3), y=prediction + z)
        assert len(binned.given) == 3
        lacking = level == "c"
        some = certify(decision, level, penalty, y=np.where(lacking, 1, outcome))
        assert (some.bound, some.worst) == (1, "y=0")
        assert "fewer than 10 rows of the level(s) 'c' (0)" in some.reason

    def test_attributes_and_measures_share_the_level(self, rows: Any) -> None:
        z, prediction, _ = rows
        sex = np.where(z + prediction > 1, "f", "m")
        table = pd.DataFrame({"age": z, "sex": sex})
        both = certify(prediction, table, Penalty(KB(1, 1), 0.9), 0.9)
        assert [each.name for each in both] == ["age", "sex"]
        assert both[0].bound == certify(prediction, z, Penalty(KB(1, 1), 0.9), 0.95).bound
        for found in both:
            assert found.level == pytest.approx(0.95)
        measures = certify(
            prediction, table[["age"]], [Penalty(KB(1, 1), 0.9), Penalty(HGR(), 0.8)]
        )
        assert [each.threshold for each in measures] == [0.9, 0.8]
        assert [each.name for each in measures] == ["age", "age"]
        named = [Penalty(KB(1, 1), 0.9, name="age"), Penalty(PARITY, 0.8, name="sex")]
        assert [each.measure for each in certify(prediction, table, named)] == [
            "HGR-KB(1, 1)",
            "demographic parity",
        ]

    def test_rows_are_matched_by_their_labels(self, rows: Any) -> None:
        z, prediction, label = rows
        order = np.random.default_rng(5).permutation(ROWS)
        p, attribute = pd.Series(prediction), pd.Series(z, name="age")
        penalty = Penalty(KB(1, 1), 0.9)
        found = certify(p, attribute[order], penalty)
        assert (found.bound, found.name) == (certify(prediction, z, penalty).bound, "age")
        with pytest.raises(ValueError, match="groups have different indexes"):
            certify(p, attribute, penalty, groups=pd.Series(label)[order])

    @pytest.mark.parametrize("share", [0.03, 0.08])
    def test_a_small_group_is_seldom_bounded_below_its_dependence(self, share: float) -> None:
        """Of 300 tables of 200 rows; 70 of them by the normal law of all."""
        truth = np.sqrt(share * (1 - share)) / np.sqrt(1 + share * (1 - share))
        rng, below = np.random.default_rng(6), 0
        for _ in range(300):
            z = (rng.random(200) < share).astype(float)
            found = certify(z + rng.normal(size=200), z, Penalty(KB(1, 3), 0.9))
            below += found.bound < truth
        assert below <= 300 * (0.05 + 2 * np.sqrt(0.05 * 0.95 / 300))


class TestFiniteSample:
    def test_decisions_have_limits_of_clopper_and_pearson(self, decisions: Any) -> None:
        level, decision, _ = decisions
        found = certify(decision, level, Penalty(PARITY, 0.5), method="finite_sample")
        ends = {
            name: stats.binomtest(x, n).proportion_ci(0.95, method="exact")
            for name, (x, n) in rates(level, decision).items()
        }
        expected = max(ends[a].high - ends[b].low for a in ends for b in ends if a != b)
        assert found.bound == pytest.approx(expected, abs=1e-9)
        assert found.method == "finite_sample"
        assert "whatever their number and their law" in str(found)
        assert found.bound > certify(decision, level, Penalty(PARITY, 0.5)).bound
        # Of probabilities the mean's limit is of bets.
        share = certify(decision / 2 + 0.1, level, Penalty(PARITY, 0.5), method="finite_sample")
        assert share.value == pytest.approx(found.value / 2)
        assert share.value < share.bound < 0.5
        beyond = certify(3 * decision, level, Penalty(PARITY, 1.0), method="finite_sample")
        assert not beyond.holds
        assert "needs predictions between 0 and 1" in beyond.reason

    def test_one_row_of_each_group_counts(self, decisions: Any) -> None:
        level, decision, _ = decisions
        penalty = Penalty(PARITY, 0.9)
        twice = certify(
            np.tile(decision, 2),
            np.tile(level, 2),
            penalty,
            groups=np.tile(np.arange(ROWS), 2),
            method="finite_sample",
        )
        once = certify(decision, level, penalty, method="finite_sample")
        assert twice.bound == pytest.approx(once.bound)
        assert "of each group one row counts" in str(twice)

    def test_hgr_of_groups_of_ranks_is_less_than_what_was_asked(self, rows: Any) -> None:
        z, prediction, _ = rows
        found = certify(prediction, z, Penalty(HGR(), 0.9), method="finite_sample")
        assert found.measure == "HGR(2 groups, 2 groups)"
        assert found.value < found.bound < 0.9
        assert not found.holds
        assert "HGR(2 groups, 2 groups) is at most HGR, so this bounds no HGR" in str(found)
        again = certify(np.exp(prediction), z**3, Penalty(HGR(), 0.9), method="finite_sample")
        assert again.bound == pytest.approx(found.bound)

    def test_few_values_are_groups_of_their_own(self) -> None:
        """HGR of a table of three by three values, which no certificate is below in 5%."""
        shares = np.array([[0.2, 0.05, 0.05], [0.05, 0.05, 0.2], [0.1, 0.2, 0.1]])
        expected = np.outer(shares.sum(axis=1), shares.sum(axis=0))
        truth = np.linalg.svd((shares - expected) / np.sqrt(expected))[1][0]
        rng, below = np.random.default_rng(8), 0
        for _ in range(100):
            cell = rng.choice(9, 2000, p=shares.ravel())
            z, prediction = cell // 3 + 0.5, cell % 3 / 2
            penalty = Penalty(HGR(), truth - 0.01)
            found = certify(prediction, z, penalty, method="finite_sample")
            assert found.measure == "HGR(3 values, 3 values)"
            below += found.holds
        assert below <= 5
        assert certify(prediction, z, Penalty(HGR(), truth + 0.2), method="finite_sample").holds

    def test_functions_of_values_are_bounded_only_of_few_values(
        self, rows: Any, decisions: Any
    ) -> None:
        level, decision, _ = decisions
        found = certify(decision, level, Penalty(KB(5, 1), 0.9), method="finite_sample")
        assert found.value == pytest.approx(certify(decision, level, Penalty(KB(5, 1), 0.9)).value)
        assert found.value < found.bound < 1
        z, prediction, _ = rows
        for statistic in (KB(), SK()):
            refused = certify(prediction, z, Penalty(statistic, 0.9), method="finite_sample")
            assert refused.bound == 1
            assert "no largest value that holds for every population" in refused.reason


class TestRefusals:
    """Rows that cannot say: the bound is 1, with a reason that names what is lacking."""

    @pytest.mark.parametrize("method", ["asymptotic", "finite_sample"])
    def test_levels_of_few_rows(self, method: str) -> None:
        rng = np.random.default_rng(7)
        level = np.array(["a"] * 90 + ["b"] * 5 + ["c"] * 105)
        decision = rng.integers(0, 2, 200).astype(float)
        found = certify(decision, level, Penalty(PARITY, 0.9, name="race"), method=method)
        assert (found.bound, found.rows_needed, found.holds) == (1, None, False)
        assert "fewer than 10 rows of the level(s) 'b' (5)" in found.reason
        one_hot = np.eye(3)[rng.integers(0, 2, 200)]
        assert "'column 2' (0)" in certify(decision, one_hot, 0.9, method=method).reason
        label = np.where(level == "a", 0, np.arange(200))  # all rows of a level in one group
        grouped = certify(decision, np.where(level == "a", "a", "c"), 0.9, groups=label)
        assert "fewer than 10 groups of rows of the level(s) 'a' (1)" in grouped.reason

    def test_rates_near_0(self) -> None:
        level = np.array(["a", "b"] * 100)
        found = certify(np.r_[np.ones(6), np.zeros(194)], level, Penalty(PARITY, 0.9))
        assert "carry the variance of the predictions of the level 'a'" in found.reason
        exact = Penalty(PARITY, 0.9)
        some = certify(np.r_[np.ones(6), np.zeros(194)], level, exact, method="finite_sample")
        assert some.bound < 0.15

    def test_too_few_rows(self) -> None:
        z = np.linspace(-1, 1, 11)
        assert "too few rows for the degrees" in certify(z, z**3, 0.9).reason
        constant = certify(np.ones(50), np.arange(50.0), 0.9, method="finite_sample")
        assert "all predictions are equal" in constant.reason
        unbounded = certify(np.full(50, 9.0), np.resize(["a", "b"], 50), Penalty(PARITY, 1.0))
        assert not unbounded.holds

    def test_a_certificate_of_a_threshold_1_holds_for_hgr(self) -> None:
        assert isinstance(certify(np.ones(50), np.arange(50.0), 1.0), Certificate)
