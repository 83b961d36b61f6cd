"""Tables in trainings, reports and post-processing: pipelines, weights, several attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from fairness_support import untrained as untrained
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from hgr_jax import kb
from hgr_jax.fairness import (
    KB,
    SK,
    FairMLPClassifier,
    FairMLPRegressor,
    FairnessScorer,
    FairPostprocessor,
    Penalty,
    certify,
    didi,
    report,
)

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


class TestWeights:
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

    def test_of_reports_and_scores(self) -> None:
        model = LinearRegression().fit(NUMBERS, Y)
        order = np.repeat(np.arange(ROWS), WEIGHTS.astype(int))
        y, age = Y.to_numpy(), X.age.to_numpy()
        w = WEIGHTS.to_numpy()
        weighted = report(model, NUMBERS, y, age, sample_weight=w)
        repeated = report(model, NUMBERS[order], y[order], age[order])
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

    def test_what_takes_none_is_refused(self) -> None:
        with pytest.raises(ValueError, match="sample_weight needs a statistic that takes weights"):
            regressor(penalty="hsic").fit(NUMBERS, Y, MALE, sample_weight=WEIGHTS)
        with pytest.raises(ValueError, match="in which rows count the same"):
            regressor(guarantee=0.9).fit(NUMBERS, Y, MALE, sample_weight=WEIGHTS)
        for weights, message in (
            (-WEIGHTS, "weights must be finite and not negative"),
            (0 * WEIGHTS, "zero in every row"),
            (WEIGHTS.to_numpy()[:-1], r"weights must have shape \(240,\)"),
        ):
            with pytest.raises(ValueError, match=message):
                regressor().fit(X[["age"]], Y, "age", sample_weight=weights)


class TestSeveralAttributes:
    def test_post_processing_takes_one(self) -> None:
        with pytest.raises(ValueError, match="takes one attribute: join several as"):
            FairPostprocessor(LinearRegression()).fit(NUMBERS, Y, X[["age", "sex"]])


class TestGiven:
    CODED = pd.DataFrame(NUMBERS, X.index, ["age", "male", "noise"]).assign(own=X.own)
    LABEL = np.where(Y.median() < Y, "high", "low")

    def test_it_is_kept_within_groups(self) -> None:
        options: dict[str, Any] = {"threshold": 0.25, "multiplier_learning_rate": 0.02}
        penalty = Penalty(KB(2, 2), given="classes")
        model = FairMLPClassifier((4,), penalty=penalty, steps=250, random_state=0, **options)
        prediction = model.fit(self.CODED, self.LABEL, "male").predict_proba(self.CODED)[:, 1]
        inside = [kb(MALE[rows], prediction[rows], 1, 2) for rows in self._parts()]
        assert max(inside) < 0.35
        assert model.history_.kept == {"male | y=high": True, "male | y=low": True}

    def _parts(self) -> list[np.ndarray]:
        return [label == self.LABEL for label in ("high", "low")]


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
        with pytest.raises(ValueError, match="there is none for 'rase'"):
            certify(Y, two, [Penalty(name="sex"), Penalty(name="rase")])
