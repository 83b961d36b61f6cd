"""Scores for scikit-learn: against `hgr_jax.hgr`, in pipelines, under chance."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.stats

pytest.importorskip("sklearn", reason="the extra cli is not installed")
from sklearn.feature_selection import SelectKBest, SelectPercentile
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import hgr_jax
from hgr_jax.sklearn import HGRSelector, hgr_classif, hgr_regression

ROWS = 240
CLASSES = np.array(["low", "middle", "high"])


@pytest.fixture
def table(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Columns of many kinds, and a target that is a function of the third but for noise."""
    x = rng.standard_normal((ROWS, 6))
    x[:, 1] = rng.exponential(size=ROWS) * 1e4 + 1e6
    x[:, 3] = 0.1
    x[:, 4] = rng.integers(0, 3, ROWS)
    x[:, 5] = rng.permutation(x[:, 2])
    return x, x[:, 2] ** 2 + 0.3 * rng.standard_normal(ROWS)


def classes_of(y: np.ndarray) -> np.ndarray:
    return CLASSES[np.digitize(y, np.quantile(y, [0.3, 0.6]))]


@pytest.mark.usefixtures("x64")
def test_scores_are_hgr_column_by_column(table: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = table
    for score, target in ((hgr_regression, y), (hgr_classif, classes_of(y))):
        scores, pvalues = score(x, target)
        expected = [float(hgr_jax.hgr(column, target)) for column in x.T]
        np.testing.assert_allclose(scores, expected, atol=1e-5)
        assert scores.dtype == pvalues.dtype == np.float64
        tests = [hgr_jax.independence_test(column, target) for column in x.T]
        np.testing.assert_allclose(pvalues, [test.pvalue for test in tests], rtol=1e-3)
        assert (scores[3], pvalues[3]) == (0, 1)
        assert pvalues[2] < 1e-9


def test_selection_in_a_pipeline_and_a_search(table: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = table
    pipeline = make_pipeline(SelectKBest(hgr_regression, k=1), KNeighborsRegressor())
    assert pipeline.fit(x, y).score(x, y) > 0.9
    assert pipeline[0].get_support(indices=True).tolist() == [2]
    labels = classes_of(y)
    select = SelectPercentile(hgr_classif)
    search = GridSearchCV(
        make_pipeline(select, LogisticRegression()),
        {"selectpercentile__percentile": [20, 50]},
        cv=2,
    )
    search.fit(x, labels)
    assert search.best_estimator_[0].get_support()[2]


X, Y = np.random.default_rng(0).standard_normal((2, 20))
X, PARTS = X[:, None], np.arange(20) % 2
BOTH = (hgr_regression, hgr_classif)


@pytest.mark.parametrize("score", BOTH)
def test_constants(score: Callable[..., Any], table: tuple[np.ndarray, np.ndarray]) -> None:
    found = score(table[0], np.ones(ROWS, int))
    np.testing.assert_array_equal(found, [np.zeros(6), np.ones(6)])


@pytest.mark.parametrize(
    ("scores", "error", "message", "arguments"),
    [
        (BOTH, TypeError, "Sparse data was passed", (scipy.sparse.csr_matrix(X), PARTS)),
        (BOTH, ValueError, "Input X contains", (np.where(X > 1, np.nan, X), PARTS)),
        (BOTH, ValueError, "inconsistent numbers of samples", (X, PARTS[:-1])),
        (BOTH[1:], ValueError, "Unknown label type: continuous", (X, Y)),
        (BOTH[:1], ValueError, "could not convert string", (X, np.array([*"ab"] * 10, object))),
    ],
)
def test_refused(scores: Any, error: Any, message: str, arguments: Any) -> None:
    for score in scores:
        with pytest.raises(error, match=message):
            score(*arguments)


def of_twelve(rng: np.random.Generator, rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    """A target that depends on a, b and c; copies of a and b; and others."""
    table = pd.DataFrame(rng.normal(size=(rows, 12)), columns=list("abcdefghijkl"))
    table["d"], table["e"] = table["a"] ** 3, table["b"] + 0.1 * table["e"]
    y = table["a"] ** 2 + np.cos(2 * table["b"]) + table["c"] + 0.2 * rng.normal(size=rows)
    return table, y.to_numpy()


def test_a_feature_that_others_explain_is_not_taken(rng: np.random.Generator) -> None:
    table, y = of_twelve(rng, 600)
    selector = HGRSelector(fdr=0.01).fit(table, y)
    assert set(selector.get_feature_names_out()) in ({*"abc"}, {*"bcd"})
    assert selector.redundant_[[0, 3]].sum() == 1
    assert selector.redundant_[4]
    assert not selector.redundant_[5:].any()
    expected = [hgr_jax.independence_test(column, y).pvalue for column in table.to_numpy().T]
    np.testing.assert_array_equal(selector.pvalues_, expected)
    alone = SelectKBest(hgr_regression, k=4).fit(table, y)  # has no sense of it
    assert set("ad") <= set(alone.get_feature_names_out())


def test_k_features_in_order(rng: np.random.Generator) -> None:
    table, y = of_twelve(rng, 400)
    orders = [HGRSelector(k=k).fit(table, y).order_.tolist() for k in (1, 3, 99)]
    assert [len(order) for order in orders] == [1, 3, 12]
    assert orders[2][:3] == orders[1]
    assert orders[1][:1] == orders[0]
    assert not {*"ad"} <= {table.columns[i] for i in orders[1]}


def test_the_rate_of_false_discoveries(rng: np.random.Generator) -> None:
    chosen = []
    for _ in range(10):
        x = rng.normal(size=(100, 8))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "No features were selected")
            chosen.append(HGRSelector(fdr=0.2).fit(x, rng.normal(size=100)).order_.size)
    assert 0 < np.sum(chosen) < 8  # of 80


def test_classes_and_numbers_as_targets(rng: np.random.Generator) -> None:
    x = rng.uniform(-1, 1, (300, 3))
    inner = np.abs(x[:, 1]) < 0.5
    for y in (inner, np.where(inner, "in", "out"), inner.astype(int), inner * 2.0):
        assert HGRSelector(fdr=0.01).fit(x, y).order_.tolist() == [1]
    counts = rng.poisson(np.exp(2 * x[:, 0]))
    by_kind = [HGRSelector(k=1, discrete_target=d).fit(x, counts) for d in (False, True)]
    assert by_kind[0].pvalues_[0] != by_kind[1].pvalues_[0]
    assert [s.order_.tolist() for s in by_kind] == [[0], [0]]


def test_a_selector_in_a_pipeline_of_frames(rng: np.random.Generator) -> None:
    table, y = of_twelve(rng, 300)
    pipeline = make_pipeline(HGRSelector(k=3), KNeighborsRegressor()).set_output(transform="pandas")
    search = GridSearchCV(pipeline, {"hgrselector__k": [1, 3]}, cv=2).fit(table, y)
    assert search.best_params_ == {"hgrselector__k": 3}
    frame = search.best_estimator_[0].transform(table)
    assert list(frame.columns) == list(search.best_estimator_[0].get_feature_names_out())
    assert frame.index.equals(table.index)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 2, "fdr": 0.1}, "k and fdr are alternatives"),
        ({"k": 0}, "k must be"),
        ({"fdr": 1.5}, r"fdr must be in \(0, 1\); got 1.5"),
    ],
)
def test_options_that_a_selector_refuses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HGRSelector(**options).fit(np.eye(30), np.arange(30))


@pytest.mark.filterwarnings("ignore:No features were selected")
@pytest.mark.parametrize("options", [{}, {"k": 1}])
def test_a_selector_passes_the_checks_of_scikit_learn(options: dict[str, Any]) -> None:
    check_estimator(HGRSelector(**options), on_skip=None)
