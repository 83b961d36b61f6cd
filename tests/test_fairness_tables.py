"""Tables of every kind in trainings, reports and post-processing: text, weights, missing values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from fairness_support import untrained as untrained
from flax import nnx
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hgr_jax
from hgr_jax import kb
from hgr_jax.fairness import (
    HGR,
    KB,
    MLP,
    SK,
    CheckpointError,
    FairMLPClassifier,
    FairMLPRegressor,
    FairnessScorer,
    FairPostprocessor,
    FairTrainer,
    Penalty,
    certify,
    didi,
    report,
)
from hgr_jax.fairness.networks import auc_or_accuracy, log_loss, r2, squared_error

ROWS = 240
RNG = np.random.default_rng(0)
X = pd.DataFrame(
    {
        "age": RNG.uniform(20, 70, ROWS).round(),
        "sex": RNG.choice(["f", "m"], ROWS),
        "job": pd.Categorical(RNG.choice(["cook", "smith", "tailor"], ROWS)),
        "own": RNG.choice([True, False], ROWS),
        "since": pd.date_range("2020-01-01", periods=ROWS),
    },
    index=[f"r{i}" for i in range(ROWS)],
)
Y = 0.05 * X.age + 2 * (X.sex == "m") + pd.Series(RNG.normal(size=ROWS), X.index)
WEIGHTS = pd.Series(RNG.integers(0, 4, ROWS).astype(float), X.index)
NUMBERS = np.column_stack([X.age, (X.sex == "m") * 1.0, RNG.normal(size=ROWS)])
MALE = (X.sex == "m").to_numpy(float)


def regressor(**options: Any) -> FairMLPRegressor:
    options = {"penalty": KB(2, 2), "threshold": 0.3, "steps": 10, "random_state": 0} | options
    return FairMLPRegressor((4,), **options)


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.reset_index(drop=True)


class TestInputs:
    def test_columns_of_any_kind_are_inputs(self) -> None:
        model = regressor().fit(X, Y, protected="sex")
        assert list(model.feature_names_in_) == list(X.columns)
        assert model.coefs_[0].shape[0] == 1 + 2 + 3 + 1 + 1
        coded = np.column_stack(
            [X.age, X.sex == "f", X.sex == "m", *(X.job == j for j in X.job.cat.categories), X.own]
        ).astype(float)
        coded = np.column_stack([coded, np.arange(ROWS)])
        expected = regressor().fit(coded, Y.to_numpy(), protected=X.sex.to_numpy())
        np.testing.assert_allclose(model.predict(X), expected.predict(coded), rtol=1e-5)

    @pytest.mark.parametrize("kind", [pl.DataFrame, pa.Table.from_pandas])
    def test_frames_of_other_libraries(self, kind: Any) -> None:
        frame = kind(plain(X))
        model = regressor().fit(frame, Y.to_numpy(), protected=["sex", "age"])
        expected = regressor().fit(plain(X), Y.to_numpy(), protected=["sex", "age"])
        np.testing.assert_array_equal(model.predict(frame), expected.predict(plain(X)))
        assert model.history_.thresholds == {"sex": 0.3, "age": 0.3}

    def test_names_of_any_kind(self) -> None:
        named = X.rename(columns={"age": 3, "own": ("a", 1)})
        model = regressor().fit(named, Y, protected=3)
        assert list(model.history_.thresholds) == ["3"]
        np.testing.assert_array_equal(
            model.predict(named), regressor().fit(X, Y, protected="age").predict(X)
        )

    def test_a_table_that_lacks_a_column_is_refused(self) -> None:
        model = regressor().fit(X, Y, protected="sex")
        with pytest.raises(ValueError, match="now missing:\n- job"):
            model.predict(X.drop(columns="job"))
        with pytest.raises(ValueError, match="same order"):
            model.predict(X[X.columns[::-1]])
        with pytest.raises(ValueError, match=r"column 'job' .* value\(s\) king.* known are cook, "):
            model.predict(X.assign(job="king"))
        with pytest.raises(ValueError, match=r"column .age. of X holds text.* trained on numbers"):
            model.predict(X.assign(age="old"))
        day = pd.Timestamp("2024-01-05")
        with pytest.raises(ValueError, match=r"'age' of X holds dates, .* trained on numbers"):
            model.predict(X.assign(age=day))
        dated = regressor().fit(X.assign(age=day + pd.to_timedelta(X.age, "D")), Y, protected="sex")
        with pytest.raises(ValueError, match=r"'age' of X holds numbers, .* trained on dates"):
            dated.predict(X)
        with pytest.raises(ValueError, match=r"'sex' of X holds numbers.* trained on text \(f, m"):
            model.predict(X.assign(sex=1.0))
        with (
            pytest.warns(UserWarning, match="feature names"),
            pytest.raises(ValueError, match="X must be a data frame"),
        ):
            model.predict(np.zeros((3, 5)))
        with pytest.raises(ValueError, match=r"'name' of X holds text of 240 .* too many"):
            regressor().fit(X.assign(name=X.index), Y, protected="sex")
        with pytest.raises(ValueError, match=r"'age' of X has 1 value\(s\) that are infinite"):
            regressor().fit(X.assign(age=np.r_[np.inf, X.age[1:]]), Y)

    @pytest.mark.usefixtures("untrained")
    def test_a_saved_model_remembers_them(self, tmp_path: Path) -> None:
        gaps = X.assign(age=X.age.where(X.age > 30))
        model = regressor(missing="level").fit(gaps, Y, protected="sex")
        model.save(tmp_path / "model.npz")
        loaded = FairMLPRegressor.load(tmp_path / "model.npz")
        np.testing.assert_array_equal(loaded.predict(gaps), model.predict(gaps))


class TestMissingValues:
    GAPS = X.assign(
        age=X.age.where(np.arange(ROWS) != 3),
        job=X.job.where(np.arange(ROWS) >= 20),
    )

    def test_they_raise(self) -> None:
        with pytest.raises(ValueError, match=r"'age' of X has 1 missing value\(s\), .* in row 3"):
            regressor().fit(self.GAPS, Y, protected="sex")
        with pytest.raises(ValueError, match=r"column 'age' of X has 1 missing"):
            regressor().fit(X, Y, protected="sex").predict(self.GAPS)

    def test_their_rows_are_left_out(self) -> None:
        with pytest.warns(UserWarning, match=r"20 of 240 rows .* left out: column 'job' .*\(20\)"):
            model = regressor(missing="drop").fit(self.GAPS, Y, protected="sex")
        kept = self.GAPS.dropna()
        expected = regressor().fit(kept, Y.loc[kept.index], protected="sex")
        np.testing.assert_array_equal(model.predict(kept), expected.predict(kept))

    @pytest.mark.usefixtures("untrained")
    def test_rows_of_an_array_are_left_out(self) -> None:
        holes = np.where(NUMBERS.max() - 0.5 < NUMBERS, np.nan, NUMBERS)
        with pytest.warns(UserWarning, match="are left out"):
            regressor(missing="drop").fit(holes, Y.to_numpy(), protected=1 - MALE)

    def test_they_are_a_level(self) -> None:
        model = regressor(missing="level").fit(self.GAPS, Y, protected="job")
        assert model.coefs_[0].shape[0] == 2 + 2 + 4 + 1 + 1
        assert np.isfinite(model.predict(self.GAPS)).all()
        filled = self.GAPS.assign(
            age=self.GAPS.age.fillna(self.GAPS.age.mean()),
            job=self.GAPS.job.astype(object).fillna("(missing)"),
        )
        filled.insert(1, "no age", self.GAPS.age.isna())
        expected = regressor().fit(filled, Y, protected="job")
        np.testing.assert_allclose(model.predict(self.GAPS), expected.predict(filled), rtol=1e-5)

    @pytest.mark.usefixtures("untrained")
    def test_of_targets_and_attributes(self) -> None:
        gaps = Y.where(np.arange(ROWS) != 7)
        sex = X.sex.where(np.arange(ROWS) > 11)
        for fit in (
            lambda **o: regressor(**o).fit(X, gaps, protected=sex),
            lambda **o: FairPostprocessor(LinearRegression(), random_state=0, **o).fit(
                NUMBERS, gaps, protected=sex
            ),
        ):
            with pytest.raises(ValueError, match="sex has 12 missing"):
                fit()
            with pytest.warns(UserWarning, match=r"12 of 240 rows .*: sex \(12\), y \(1\)"):
                fit(missing="drop")
            with pytest.warns(UserWarning, match=r"1 of 240 rows .*: y \(1\)"):
                fit(missing="level")
        with pytest.raises(ValueError, match="missing must be one of"):
            regressor(missing="fill").fit(X, Y, protected="sex")


class TestWeights:
    def test_of_losses_and_scores(self) -> None:
        p, y, w = RNG.uniform(size=(3, 50))
        label, counts = (y > 0.5).astype(float), RNG.integers(1, 4, 50)
        repeat = np.repeat(np.arange(50), counts)
        codes = RNG.integers(0, 3, 50).astype(float)
        logits = RNG.normal(size=(50, 3))
        both = np.stack([y, w], axis=1)
        for measure, a, b in (
            (squared_error, p, y),
            (squared_error, both, both[::-1]),
            (r2, p, y),
            (r2, both, both[::-1]),
            (log_loss, p, label),
            (log_loss, logits, codes),
            (auc_or_accuracy, p.round(1), label),
            (auc_or_accuracy, logits, codes),
        ):
            a, b = jnp.asarray(a), jnp.asarray(b)
            weighted = measure(a, b, weights=jnp.asarray(counts, a.dtype))
            assert float(weighted) == pytest.approx(float(measure(a[repeat], b[repeat])), rel=1e-5)
            ones = measure(a, b, weights=jnp.ones(50))
            assert float(ones) == pytest.approx(float(measure(a, b)), rel=1e-5)

    @pytest.mark.parametrize("estimator", [FairMLPRegressor, FairMLPClassifier])
    def test_a_row_of_weight_two_is_two_rows(self, estimator: Any) -> None:
        y = Y if estimator is FairMLPRegressor else np.where(Y.median() < Y, "high", "low")
        y = pd.Series(y, X.index)
        model = estimator((4,), penalty=KB(2, 2), threshold=0.3, alpha=1.0, random_state=0)
        model.set_params(steps=20)
        weighted = model.fit(X, y, "age", sample_weight=WEIGHTS)
        values = weighted.history_.steps["value_age"]
        order = np.repeat(np.arange(ROWS), WEIGHTS.astype(int))
        repeated = model.set_params().fit(plain(X.iloc[order]), plain(y.iloc[order]), "age")
        np.testing.assert_allclose(values, repeated.history_.steps["value_age"], rtol=0.01)

    def test_of_penalties(self) -> None:
        w = jnp.asarray(WEIGHTS.to_numpy() + 0.5)
        order = np.repeat(np.arange(ROWS), 2 * WEIGHTS.astype(int) + 1)
        z, p = (jnp.asarray(v) for v in (X.age.to_numpy(), Y.to_numpy()))
        group = jnp.asarray(MALE, jnp.int32)
        for statistic in (KB(2, 3), SK(2)):
            penalty = Penalty(statistic, given="classes")
            state = penalty.init(z, p)
            values, _ = penalty.values(state, z, p, group, 2, w)
            repeated, _ = penalty.values(state, z[order], p[order], group[order], 2)
            np.testing.assert_allclose(values, repeated, atol=1e-5)
        penalty = Penalty(HGR(), given="classes")  # of effective rows, not of repeated ones
        values, _ = penalty.values(penalty.init(z, p), z, p, group, 2, w)
        for level, value in enumerate(values):
            kept = np.asarray(group == level)
            alone = hgr_jax.hgr(z[kept], p[kept], weights=w[kept])
            assert value == pytest.approx(float(alone), abs=1e-5)
        penalty = Penalty(KB(2, 3), bias_corrected=True)
        even = 2 * jnp.ones(ROWS)
        np.testing.assert_allclose(
            penalty.values(penalty.init(z, p), z, p, weights=even)[0],
            penalty.values(penalty.init(z, p), z, p)[0],
            rtol=1e-5,
        )

    def test_of_reports_scores_and_transports(self) -> None:
        model = LinearRegression().fit(NUMBERS, Y)
        order = np.repeat(np.arange(ROWS), WEIGHTS.astype(int))
        y, age = Y.to_numpy(), X.age.to_numpy()
        w = WEIGHTS.to_numpy()
        for given in (None, "target"):
            weighted = report(model, NUMBERS, y, age, sample_weight=w, given=given).figures["model"]
            repeated = report(model, NUMBERS[order], y[order], age[order], given=given)
            for name, value in weighted.items():
                if name not in ("kb_corrected", "kb_given"):
                    assert value == pytest.approx(repeated.figures["model"][name], rel=1e-5), name
        prediction = model.predict(NUMBERS)
        assert didi(prediction, X.sex, sample_weight=WEIGHTS) == pytest.approx(
            didi(prediction[order], X.sex.to_numpy()[order])
        )
        scorer = FairnessScorer(1.0, protected=0)
        assert scorer(model, NUMBERS, y, sample_weight=w) == pytest.approx(
            scorer(model, NUMBERS[order], y[order])
        )
        post = FairPostprocessor(LinearRegression(), threshold=1.0, cv=[(np.arange(ROWS),) * 2])
        moved = post.fit(NUMBERS, y, MALE, sample_weight=w + 1)
        twice = np.repeat(np.arange(ROWS), w.astype(int) + 1)
        again = FairPostprocessor(
            LinearRegression(), threshold=1.0, cv=[(np.arange(len(twice)),) * 2]
        )
        again.fit(NUMBERS[twice], y[twice], MALE[twice])
        p = moved.estimator_.predict(NUMBERS)
        found = [model.transport_(2 * MALE - 1, p) for model in (moved, again)]
        np.testing.assert_allclose(*found, rtol=1e-6)

    def test_what_takes_none_is_refused(self) -> None:
        for penalty in (Penalty("hsic"), Penalty(KB(2, 2), memory=2)):
            with pytest.raises(ValueError, match="sample_weight needs penalties without memory"):
                regressor(penalty=penalty, batch_size=80).fit(X, Y, "age", sample_weight=WEIGHTS)
        trainer = FairTrainer(MLP(3, rngs=nnx.Rngs(0)), task=lambda p, y: jnp.mean((p - y) ** 2))
        with pytest.raises(ValueError, match="sample_weight needs a loss with a keyword"):
            trainer.fit(NUMBERS, Y, steps=1, sample_weight=WEIGHTS.to_numpy())
        for model in (
            regressor(guarantee=0.9),
            FairPostprocessor(LinearRegression(), guarantee=0.9),
        ):
            with pytest.raises(ValueError, match="in which rows count the same"):
                model.fit(NUMBERS, Y, MALE, sample_weight=WEIGHTS)
        for weights, message in (
            (-WEIGHTS, "must not be negative"),
            (0 * WEIGHTS, "nor zero in every row"),
            (WEIGHTS.to_numpy()[:-1], r"expected \(240,\)|one value for each"),
        ):
            with pytest.raises(ValueError, match=message):
                regressor().fit(X, Y, "age", sample_weight=weights)


class TestSeveralAttributes:
    def test_reports(self) -> None:
        model = LinearRegression().fit(NUMBERS, Y)
        found = report(model, NUMBERS, Y.to_numpy(), {"age": X.age.to_numpy(), "sex": MALE})
        assert list(found) == ["age", "sex", "age x sex"]
        single = report(model, NUMBERS, Y.to_numpy(), X.age.to_numpy())
        assert found["age"].figures["model"] == single.figures["model"]
        joint = found["age x sex"].figures["model"]
        assert joint["kb"] > found["sex"].figures["model"]["kb"]
        values = didi(model.predict(NUMBERS), X[["age", "sex"]].to_numpy(object)[:, 1])
        both = didi(model.predict(NUMBERS), {"sex": X.sex, "own": X.own})
        assert both["sex"] == values

    def test_the_score_is_of_the_largest_excess(self) -> None:
        model = LinearRegression().fit(NUMBERS, Y)
        values = [
            float(kb(NUMBERS[:, i], model.predict(NUMBERS), *d))
            for i, d in ((0, (5, 5)), (1, (1, 5)))
        ]
        scorer = FairnessScorer(0.05, protected=[0, 1])
        score = scorer(model, NUMBERS, Y.to_numpy())
        assert score == pytest.approx(-200 - (max(values) - 0.05), abs=1e-3)
        assert (
            cross_val_score(
                model, NUMBERS, Y.to_numpy(), scoring=FairnessScorer(1.0, protected=[0, 1])
            ).mean()
            > 0
        )

    def test_post_processing(self) -> None:
        settings: dict[str, Any] = {"penalty": KB(2, 2), "threshold": 0.25, "random_state": 0}
        model = FairPostprocessor(LinearRegression(), **settings)
        model.fit(X[["age", "own"]].assign(male=MALE), Y, protected=["age", "male"])
        table = X[["age", "own"]].assign(male=MALE)
        before, after = model.estimator_.predict(table), model.predict(table)
        for name in ("age", "male"):
            values = table[name].to_numpy()
            assert kb(values, after, 1, 2) < 0.3 < kb(values, before, 1, 2)
        np.testing.assert_array_equal(after, model.predict(table, table[["male", "age"]]))
        with pytest.raises(ValueError, match="protected lacks 'male'"):
            model.predict(table, {"age": table.age, "own": table.own})
        joint = FairPostprocessor(LinearRegression(), **settings)
        joint.set_params(intersections=True).fit(table, Y, protected=["age", "male"])
        group = (table.age >= table.age.quantile(0.75)) & (table.male == 1)
        assert kb(group.to_numpy(float), joint.predict(table), 1, 2) < 0.3

    def test_intersections(self) -> None:
        model = regressor(
            intersections=True, steps=150, threshold=0.2, multiplier_learning_rate=0.02
        )
        model.fit(X, Y, protected=["sex", "own"])
        assert list(model.history_.thresholds) == ["sex x own"]
        joint = X.sex + X.own.astype(str)
        assert float(kb(pd.get_dummies(joint).to_numpy(float), model.predict(X), 1, 2)) < 0.3
        with pytest.raises(ValueError, match="intersections need several attributes"):
            model.fit(X, Y, protected="sex")

    @pytest.mark.usefixtures("untrained")
    def test_a_rare_combination_is_pooled_with_the_next_smallest(self) -> None:
        first = np.array(["a", "b"], object)[np.arange(ROWS) * 2 // ROWS]
        second = np.array(["c", "d"], object)[(np.arange(ROWS) >= 59) * 1]
        first[0] = "b"
        z = {"first": first, "second": second}
        pooled = r"'a, c' \(58\), 'b, c' \(1\)$"
        with pytest.warns(UserWarning, match=f"small levels of first x second are .* {pooled}"):
            regressor(intersections=True, steps=5).fit(X, Y, protected=z)

    @pytest.mark.usefixtures("untrained")
    def test_small_levels_are_pooled_or_refused(self) -> None:
        rare = np.array(["usual", "other"], object)[np.arange(ROWS) % 2]
        rare[:4], rare[4:12] = "a", "b"
        with pytest.warns(UserWarning, match=r"small levels of z .* rows: 'a' \(4\), 'b' \(8\)$"):
            regressor().fit(X, Y, protected=rare)
        rare[4:12] = "usual"
        for attribute in (rare, (np.arange(ROWS) < 9) * 1.0, np.eye(2)[(np.arange(ROWS) < 9) * 1]):
            with pytest.raises(ValueError, match="z has levels of fewer than 10 rows"):
                regressor().fit(X, Y, protected=attribute)

    def test_what_cannot_be_protected(self) -> None:
        for fit in (regressor().fit, FairPostprocessor(LinearRegression()).fit):
            with pytest.raises(ValueError, match="protected 'z' is the target itself"):
                fit(NUMBERS, Y, protected=Y.to_numpy())
        with pytest.raises(ValueError, match="protected names 'sex' twice"):
            regressor().fit(X, Y, protected=["sex", "sex"])


class TestGiven:
    @pytest.mark.usefixtures("untrained")
    def test_columns(self) -> None:
        model = regressor(given="job").fit(X, Y, protected="sex")
        names = ["sex | job=cook", "sex | job=smith", "sex | job=tailor"]
        assert list(model.history_.thresholds) == names
        both = regressor(given=["own", "sex"]).fit(X, Y, protected="age").history_.thresholds
        assert "age | own x sex=0, m" in both
        assert len(both) == 4
        cut = regressor(given="age").fit(X, Y, protected="sex").history_.thresholds
        assert len(cut) == 5
        assert next(iter(cut)).startswith("sex | age < ")

    @pytest.mark.usefixtures("untrained")
    def test_the_target(self) -> None:
        label = np.where(Y.median() < Y, "high", "low")
        model = FairMLPClassifier((4,), given="target", steps=5, random_state=0)
        assert list(model.fit(X, label, "sex").history_.thresholds) == [
            "sex | y=high",
            "sex | y=low",
        ]
        assert len(regressor(given="target").fit(X, Y, "sex").history_.thresholds) == 5

    def test_it_is_kept_within_groups(self) -> None:
        options: dict[str, Any] = {
            "steps": 250,
            "threshold": 0.25,
            "multiplier_learning_rate": 0.02,
        }
        model = regressor(given="own", **options).fit(X, Y, protected="sex")
        for own in (True, False):
            rows = X.own == own
            found = kb(
                (X.sex[rows] == "m").to_numpy(float), model.predict(X)[rows.to_numpy()], 1, 2
            )
            assert found < 0.35

    def test_reports_and_scores(self) -> None:
        model = LinearRegression().fit(NUMBERS, Y)
        table = pd.DataFrame(NUMBERS, columns=["age", "male", "noise"])
        figures = report(model, NUMBERS, Y.to_numpy(), NUMBERS[:, 1], given=NUMBERS[:, 0] > 40)
        inside = [
            float(kb(NUMBERS[rows, 1], model.predict(NUMBERS[rows]), 1, 5))
            for rows in (NUMBERS[:, 0] > 40, NUMBERS[:, 0] <= 40)
        ]
        assert figures.figures["model"]["kb_given"] == pytest.approx(max(inside), rel=1e-4)
        assert "kb given" in str(figures)
        scorer = FairnessScorer(0.05, protected="male", given="over")
        named = LinearRegression().fit(table.assign(over=table.age > 40), Y)
        score = scorer(named, table.assign(over=table.age > 40), Y.to_numpy())
        assert score == pytest.approx(-200 - (max(inside) - 0.05), abs=0.02)

    def test_what_it_determines_is_refused(self) -> None:
        with pytest.raises(ValueError, match="sex must vary within groups of what is given"):
            regressor(given="sex").fit(X, Y, protected="sex")


class TestNames:
    @pytest.mark.usefixtures("untrained")
    def test_an_attribute_called_z_is_one_of_several(self) -> None:
        both = {"z": X.age, "w": MALE}
        assert regressor().fit(X, Y, both).history_.thresholds == {"z": 0.3, "w": 0.3}
        assert [found.name for found in certify(Y, both, 0.9)] == ["z", "w"]

    @pytest.mark.usefixtures("untrained")
    def test_a_list_of_penalties_goes_by_the_order_of_attributes(self) -> None:
        model = regressor(penalty=[KB(2, 2), SK(2)], threshold=0.4).fit(X, Y, ["age", "sex"])
        assert model.history_.thresholds == {"age": 0.4, "sex": 0.4}
        with pytest.raises(ValueError, match="there is no attribute 'rase' for its penalty"):
            certify(Y, {"sex": X.sex, "age": X.age}, [Penalty(name="sex"), Penalty(name="rase")])

    def test_names_stand_once(self) -> None:
        with pytest.raises(ValueError, match="has the name '1' twice"):
            didi(Y, {1: MALE, "1": X.age})
        with pytest.raises(ValueError, match="X has the name 'age' twice"):
            regressor().fit(pd.concat([X, X[["age"]]], axis=1), Y, MALE)
        with pytest.raises(ValueError, match="there is no table here"):
            didi(Y, ["sex", "age"])

    def test_predictions_are_matched_by_their_labels(self) -> None:
        prediction = pd.Series(Y + RNG.normal(size=ROWS), X.index)
        expected = report(prediction, X, Y, "age").figures
        turned = prediction.sample(frac=1, random_state=0)
        assert report(turned, X, Y, "age").figures == expected
        weighted = report(turned, X, Y, "age", sample_weight=WEIGHTS).figures
        kept = WEIGHTS > 0
        part = report(prediction[kept], X[kept], Y[kept], "age", sample_weight=WEIGHTS[kept])
        assert weighted == part.figures
        model = regressor().fit(X, Y, MALE)
        with pytest.raises(ValueError, match="different indexes"):
            model.score(X, Y.sample(frac=1, random_state=0))


def test_a_missing_attribute_is_no_other_row_at_prediction() -> None:
    model = FairPostprocessor(LinearRegression(), penalty=KB(2, 2), missing="level", random_state=0)
    model.set_params(threshold=0.9).fit(NUMBERS, Y, NUMBERS[:, 0])
    holes = np.where(np.arange(ROWS) == 3, np.nan, NUMBERS[:, 0])
    with pytest.raises(ValueError, match=r"z has 1 value\(s\) that are NaN"):
        model.predict(NUMBERS, holes)


@pytest.mark.usefixtures("untrained")
def test_given_with_missing_values_is_refused_or_left_out() -> None:
    given = pd.DataFrame({"g": X.job.astype(object).where(np.arange(ROWS) > 5), "own": X.own})
    with pytest.raises(ValueError, match="g has 6 missing"):
        regressor(given=given).fit(X, Y, "sex")
    with pytest.warns(UserWarning, match="6 of 240 rows"):
        model = regressor(given=given, missing="drop").fit(X, Y, "sex")
    assert "sex | g x own=cook, 0" in model.history_.thresholds
    with pytest.raises(ValueError, match="g has 6 missing"):
        report(Y.to_numpy(), X, Y, "sex", given=given["g"])


def test_weights_go_to_the_last_step_of_a_pipeline() -> None:
    steps = make_pipeline(StandardScaler(), LinearRegression())
    options: dict[str, Any] = {"threshold": 1.0, "random_state": 0}
    found = FairPostprocessor(steps, **options).fit(NUMBERS, Y, MALE, sample_weight=WEIGHTS + 1)
    plain_model = LinearRegression().fit(NUMBERS, Y, WEIGHTS + 1)
    np.testing.assert_allclose(found.estimator_.predict(NUMBERS), plain_model.predict(NUMBERS))
    with pytest.raises(ValueError, match="KNeighborsRegressor takes no sample_weight"):
        FairPostprocessor(KNeighborsRegressor()).fit(NUMBERS, Y, MALE, sample_weight=WEIGHTS)


def test_a_training_with_weights_goes_on_from_its_file(tmp_path: Path) -> None:
    def made() -> FairTrainer:
        network = MLP(3, (4,), rngs=nnx.Rngs(0))
        return FairTrainer(network, penalties=Penalty(KB(2, 2), 0.5, given=2))

    rows = NUMBERS, Y.to_numpy(), MALE
    conditions: dict[str, Any] = {"sample_weight": WEIGHTS.to_numpy() + 1, "given": NUMBERS[:, 0]}
    first = made()
    first.fit(*rows, steps=5, **conditions)
    first.save(tmp_path / "kept")
    second = made().resume(tmp_path / "kept", *rows, **conditions)
    np.testing.assert_array_equal(second.predict(NUMBERS), first.predict(NUMBERS))
    with pytest.raises(CheckpointError):
        made().resume(tmp_path / "kept", *rows, given=NUMBERS[:, 0])
