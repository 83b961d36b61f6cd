"""Tables in trainings, reports and post-processing: pipelines, weights, several attributes."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from fairness_support import untrained as untrained
from flax import nnx
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import hgr_jax
from hgr_jax import kb
from hgr_jax.fairness import (
    HGR,
    KB,
    MLP,
    SK,
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
from hgr_jax.fairness.networks import log_loss, squared_error

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


ENCODED = make_column_transformer(
    (OneHotEncoder(sparse_output=False), ["sex", "job"]),
    (SimpleImputer(), ["age"]),
    (FunctionTransformer(lambda days: (days - days.min()) / pd.Timedelta("1D")), ["since"]),
    remainder="passthrough",
)


class TestInputs:
    def test_frames_of_numbers_are_inputs(self) -> None:
        frame = X[["age", "own"]]
        expected = regressor().fit(frame.to_numpy(float), Y.to_numpy(), X.sex.to_numpy())
        for kind in (pd.DataFrame, lambda f: pl.from_pandas(plain(f))):
            model = regressor().fit(kind(frame), Y.to_numpy(), X.sex.to_numpy())
            np.testing.assert_array_equal(
                model.predict(kind(frame)), expected.predict(frame.to_numpy(float))
            )
            assert list(model.feature_names_in_) == ["age", "own"]
        model = regressor().fit(frame, Y, protected="age")
        assert model.history_.thresholds == {"age": 0.3}
        with pytest.raises(ValueError, match="now missing:\n- own"):
            model.predict(frame[["age"]])

    def test_other_columns_go_through_a_pipeline(self) -> None:
        gaps = X.assign(age=X.age.where(np.arange(ROWS) != 3))
        pipeline = make_pipeline(ENCODED, regressor(steps=60))
        pipeline.fit(gaps, Y, fairmlpregressor__protected=X.sex)
        model = pipeline[-1]
        assert model.n_features_in_ == 2 + 3 + 1 + 1 + 1
        assert model.history_.kept == {"sex": True}
        coded = pipeline[0].transform(gaps)
        np.testing.assert_array_equal(pipeline.predict(gaps), model.predict(coded))
        again = clone(pipeline).fit(gaps, Y, fairmlpregressor__protected=X.sex)
        np.testing.assert_array_equal(again.predict(gaps), pipeline.predict(gaps))
        scored = FairnessScorer(Penalty(KB(2, 2), 0.3), protected="sex")
        assert -1 < scored(pipeline, X, Y) < 1  # by the name of a column that is no number

    def test_set_output(self) -> None:
        pipeline = make_pipeline(clone(ENCODED), regressor()).set_output(transform="pandas")
        pipeline.fit(X, Y, fairmlpregressor__protected=X.sex)
        assert "onehotencoder__job_smith" in pipeline[-1].feature_names_in_

    @sklearn.config_context(enable_metadata_routing=True)
    def test_searches_pass_attributes_and_weights_on(self) -> None:
        made = regressor(steps=30).set_fit_request(protected=True, sample_weight=True)
        scorer = FairnessScorer(Penalty(KB(1, 1), 0.9))
        scorer.set_score_request(protected=True, sample_weight=True)
        metadata = {"protected": X.sex, "sample_weight": WEIGHTS + 1}
        pipeline = make_pipeline(ENCODED, made)
        rows = np.arange(ROWS)
        folds = [(rows[:120], rows[120:])]
        found = cross_validate(
            pipeline, X, Y, scoring=scorer, cv=folds, params=metadata, return_estimator=True
        )
        part = {name: values.iloc[:120] for name, values in metadata.items()}
        alone = clone(pipeline).fit(X.iloc[:120], Y.iloc[:120], **part)
        (kept,) = found["estimator"]
        np.testing.assert_array_equal(kept.predict(X), alone.predict(X))
        search = GridSearchCV(
            pipeline, {"fairmlpregressor__threshold": [0.2, 0.9]}, scoring=scorer, cv=folds
        )
        search.fit(X, Y, **metadata)
        assert search.cv_results_["mean_test_score"][1] == pytest.approx(
            scorer.score(
                clone(pipeline)
                .set_params(fairmlpregressor__threshold=0.9)
                .fit(X.iloc[:120], Y.iloc[:120], **part),
                X.iloc[120:],
                Y.iloc[120:],
                *(values.iloc[120:] for values in metadata.values()),
            )
        )

    def test_a_table_vectorizer(self) -> None:
        skrub = pytest.importorskip("skrub", reason="skrub is not installed")
        pipeline = make_pipeline(skrub.TableVectorizer(), SimpleImputer(), regressor())
        pipeline.fit(X, Y, fairmlpregressor__protected=X.sex)
        assert np.isfinite(pipeline.predict(X)).all()


def test_missing_values_are_refused() -> None:
    gaps, sex = X.age.where(np.arange(ROWS) != 3), X.sex.where(np.arange(ROWS) > 11)
    for fit in (regressor().fit, FairPostprocessor(LinearRegression()).fit):
        with pytest.raises(ValueError, match="sex has 12 missing"):
            fit(NUMBERS, Y, sex)
        with pytest.raises(ValueError, match=r"age has 1 value\(s\) that are NaN"):
            fit(NUMBERS, Y, gaps)
        with pytest.raises(ValueError, match="contains NaN"):
            fit(NUMBERS, Y.where(np.arange(ROWS) != 7), MALE)
    with pytest.raises(ValueError, match="contains NaN"):
        regressor().fit(gaps.to_frame(), Y, MALE)


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
            (log_loss, p, label),
            (log_loss, logits, codes),
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
        rows = X[["age", "own"]]
        weighted = model.fit(rows, y, "age", sample_weight=WEIGHTS)
        values = weighted.history_.steps["value_age"]
        order = np.repeat(np.arange(ROWS), WEIGHTS.astype(int))
        repeated = model.fit(plain(rows.iloc[order]), plain(y.iloc[order]), "age")
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

    def test_of_reports_scores_and_transports(self) -> None:
        model = LinearRegression().fit(NUMBERS, Y)
        order = np.repeat(np.arange(ROWS), WEIGHTS.astype(int))
        y, age = Y.to_numpy(), X.age.to_numpy()
        w = WEIGHTS.to_numpy()
        for given in (None, "target"):
            weighted = report(model, NUMBERS, y, age, sample_weight=w, given=given)
            repeated = report(model, NUMBERS[order], y[order], age[order], given=given)
            for name in ("R2", "HGR-KB(5, 5)", "pearson", "didi"):
                expected = repeated[name].iloc[0]
                assert weighted[name].iloc[0] == pytest.approx(expected, rel=1e-5), name
        prediction = model.predict(NUMBERS)
        assert didi(prediction, X.sex, sample_weight=WEIGHTS) == pytest.approx(
            didi(prediction[order], X.sex.to_numpy()[order])
        )
        score = FairnessScorer(1.0).score
        assert score(model, NUMBERS, y, age, w) == pytest.approx(
            score(model, NUMBERS[order], y[order], age[order])
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
        with pytest.raises(ValueError, match="sample_weight needs a statistic that takes weights"):
            regressor(penalty="hsic").fit(NUMBERS, Y, MALE, sample_weight=WEIGHTS)
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
                regressor().fit(X[["age"]], Y, "age", sample_weight=weights)


class TestSeveralAttributes:
    def test_didi(self) -> None:
        prediction = LinearRegression().fit(NUMBERS, Y).predict(NUMBERS)
        both = didi(prediction, X[["sex", "own"]])
        assert both["sex"] == didi(prediction, X.sex)

    def test_the_score_is_of_the_largest_excess(self) -> None:
        model = LinearRegression().fit(NUMBERS, Y)
        values = [
            float(kb(NUMBERS[:, i], model.predict(NUMBERS), *d))
            for i, d in ((0, (5, 5)), (1, (1, 5)))
        ]
        table = pd.DataFrame(NUMBERS, columns=["age", "male", "noise"])
        model = LinearRegression().fit(table, Y.to_numpy())
        scorer = FairnessScorer(0.05, protected=["age", "male"])
        with pytest.warns(ConvergenceWarning, match="above the threshold 0.05"):
            score = scorer(model, table, Y.to_numpy())
        assert score == pytest.approx(-200 - (max(values) - 0.05), abs=1e-3)
        assert (
            cross_val_score(
                model, table, Y.to_numpy(), scoring=FairnessScorer(1.0, protected=["age", "male"])
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
            model.predict(table, table[["age", "own"]])

    def test_combinations_are_joined_texts(self) -> None:
        joint = X.sex + X.own.astype(str)
        model = regressor(steps=150, threshold=0.2, multiplier_learning_rate=0.02)
        model.fit(NUMBERS, Y, protected=joint)
        found = kb(pd.get_dummies(joint).to_numpy(float), model.predict(NUMBERS), 1, 2)
        assert found < 0.3

    @pytest.mark.usefixtures("untrained")
    def test_small_levels_are_pooled_or_refused(self) -> None:
        rare = np.array(["usual", "other"], object)[np.arange(ROWS) % 2]
        rare[:4], rare[4:12] = "a", "b"
        with pytest.warns(UserWarning, match=r"small levels of z .* rows: 'a' \(4\), 'b' \(8\)$"):
            regressor().fit(NUMBERS, Y, protected=rare)
        rare[4:12] = "usual"
        for attribute in (rare, (np.arange(ROWS) < 9) * 1.0, np.eye(2)[(np.arange(ROWS) < 9) * 1]):
            with pytest.raises(ValueError, match="z has levels of fewer than 10 rows"):
                regressor().fit(NUMBERS, Y, protected=attribute)

    def test_what_cannot_be_protected(self) -> None:
        for fit in (regressor().fit, FairPostprocessor(LinearRegression()).fit):
            with pytest.raises(ValueError, match="protected 'z' is the target itself"):
                fit(NUMBERS, Y, protected=Y.to_numpy())


class TestGiven:
    CODED = pd.DataFrame(NUMBERS, X.index, ["age", "male", "noise"]).assign(own=X.own)

    @pytest.mark.usefixtures("untrained")
    def test_columns(self) -> None:
        model = regressor(given="own").fit(self.CODED, Y, protected=X.sex)
        assert list(model.history_.thresholds) == ["sex | own=False", "sex | own=True"]
        model = regressor(given=X.job).fit(self.CODED, Y, protected=X.sex)
        names = ["sex | job=cook", "sex | job=smith", "sex | job=tailor"]
        assert list(model.history_.thresholds) == names
        cut = regressor(given="age").fit(self.CODED, Y, protected=X.sex).history_.thresholds
        assert len(cut) == 5
        assert next(iter(cut)).startswith("sex | age < ")

    @pytest.mark.usefixtures("untrained")
    def test_the_target(self) -> None:
        label = np.where(Y.median() < Y, "high", "low")
        model = FairMLPClassifier((4,), given="target", steps=5, random_state=0)
        names = list(model.fit(self.CODED, label, X.sex).history_.thresholds)
        assert names == ["sex | y=high", "sex | y=low"]
        model = regressor(given="target").fit(self.CODED, Y, X.sex)
        assert len(model.history_.thresholds) == 5

    def test_it_is_kept_within_groups(self) -> None:
        options: dict[str, Any] = {
            "steps": 250,
            "threshold": 0.25,
            "multiplier_learning_rate": 0.02,
        }
        model = regressor(given="own", **options).fit(self.CODED, Y, protected="male")
        prediction = model.predict(self.CODED)
        for own in (True, False):
            rows = (X.own == own).to_numpy()
            assert kb(MALE[rows], prediction[rows], 1, 2) < 0.35
        assert model.history_.kept == {"male | own=False": True, "male | own=True": True}

    def test_reports_and_scores(self) -> None:
        table = self.CODED.assign(over=self.CODED.age > 40)
        model = LinearRegression().fit(table, Y)
        found = report(model, table, Y, "male", given="over")
        inside = [
            float(kb(MALE[rows], model.predict(table)[rows], 1, 5))
            for rows in ((table.over == over).to_numpy() for over in (True, False))
        ]
        assert found["HGR-KB(5, 5) given over"].iloc[0] == pytest.approx(max(inside), rel=1e-4)
        scorer = FairnessScorer(0.05, protected="male", given="over")
        with pytest.warns(ConvergenceWarning, match="above the threshold 0.05"):
            score = scorer(model, table, Y)
        assert score == pytest.approx(-200 - (max(inside) - 0.05), abs=0.02)

    def test_what_it_determines_is_refused(self) -> None:
        with pytest.raises(ValueError, match="male must vary within groups of what is given"):
            regressor(given="male").fit(self.CODED, Y, protected="male")


class TestNames:
    @pytest.mark.usefixtures("untrained")
    def test_an_attribute_called_z_is_one_of_several(self) -> None:
        both = pd.DataFrame({"z": X.age, "w": MALE})
        assert regressor().fit(NUMBERS, Y, both).history_.thresholds == {"z": 0.3, "w": 0.3}
        assert [found.name for found in certify(Y, both, 0.9)] == ["z", "w"]

    @pytest.mark.usefixtures("untrained")
    def test_a_list_of_penalties_goes_by_the_order_of_attributes(self) -> None:
        two = X[["age", "sex"]]
        model = regressor(penalty=[KB(2, 2), SK(2)], threshold=0.4).fit(NUMBERS, Y, two)
        assert model.history_.thresholds == {"age": 0.4, "sex": 0.4}
        assert model.history_.measures == {"age": "HGR-KB(2, 2)", "sex": "HGR-SK(2)"}
        with pytest.raises(ValueError, match="there is no attribute 'rase' for its penalty"):
            certify(Y, two, [Penalty(name="sex"), Penalty(name="rase")])

    def test_predictions_are_matched_by_their_labels(self) -> None:
        prediction = pd.Series(Y + RNG.normal(size=ROWS), X.index)
        expected = report(prediction, X, Y, "age")
        turned = prediction.sample(frac=1, random_state=0)
        assert report(turned, X, Y, "age").equals(expected)
        weighted = report(turned, X, Y, "age", sample_weight=WEIGHTS)
        kept = WEIGHTS > 0
        part = report(prediction[kept], X[kept], Y[kept], "age", sample_weight=WEIGHTS[kept])
        assert weighted.equals(part)
        model = regressor().fit(X[["age"]], Y, MALE)
        with pytest.raises(ValueError, match="different indexes"):
            model.score(X[["age"]], Y.sample(frac=1, random_state=0))


def test_weights_go_to_the_last_step_of_a_pipeline() -> None:
    steps = make_pipeline(StandardScaler(), LinearRegression())
    options: dict[str, Any] = {"threshold": 1.0, "random_state": 0}
    found = FairPostprocessor(steps, **options).fit(NUMBERS, Y, MALE, sample_weight=WEIGHTS + 1)
    plain_model = LinearRegression().fit(NUMBERS, Y, WEIGHTS + 1)
    np.testing.assert_allclose(found.estimator_.predict(NUMBERS), plain_model.predict(NUMBERS))
    with pytest.raises(ValueError, match="KNeighborsRegressor takes no sample_weight"):
        FairPostprocessor(KNeighborsRegressor()).fit(NUMBERS, Y, MALE, sample_weight=WEIGHTS)
