"""Scores for scikit-learn's feature selection: against `hgr_jax.kb`, in pipelines, under chance."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import scipy.sparse
import scipy.stats

pytest.importorskip("sklearn", reason="the extra cli is not installed")
from sklearn.feature_selection import SelectKBest, SelectPercentile
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline

import hgr_jax
from hgr_jax import sklearn as scores_of
from hgr_jax.sklearn import hgr_classif, hgr_regression

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


def one_hot(y: np.ndarray) -> np.ndarray:
    return (y[:, None] == np.unique(y)).astype(np.float64)


@pytest.mark.usefixtures("x64")
def test_scores_are_kb_column_by_column(table: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = table
    for h, k in ((5, 5), (2, 3)):
        scores, pvalues = hgr_regression(x, y, h=h, k=k)
        expected = [float(hgr_jax.kb(column, y, h, k)) for column in x.T]
        np.testing.assert_allclose(scores, expected, atol=1e-8)
        assert scores.dtype == pvalues.dtype == np.float64
        expected = [hgr_jax.independence_test(column, y).pvalue for column in x.T]
        np.testing.assert_array_equal(pvalues, expected)
    assert (scores[3], pvalues[3]) == (0, 1)
    labels = classes_of(y)
    for h in (5, 2):
        scores, pvalues = hgr_classif(x, labels, h=h)
        expected = [float(hgr_jax.kb(column, one_hot(labels), h, 1)) for column in x.T]
        np.testing.assert_allclose(scores, expected, atol=1e-8)
        assert scores.dtype == pvalues.dtype == np.float64
        assert (scores[3], pvalues[3]) == (0, 1)
        assert pvalues[2] < 1e-9


def test_more_columns_than_one_call_takes(rng: np.random.Generator) -> None:
    x = rng.standard_normal((50, scores_of.COLUMNS_AT_ONCE + 3)).astype(np.float32)
    y = x[:, -1] ** 2 + rng.standard_normal(50).astype(np.float32)
    expected = jax.vmap(lambda column: hgr_jax.kb(column, y, 2, 2))(x.T)
    np.testing.assert_allclose(hgr_regression(x, y, h=2, k=2)[0], expected, atol=1e-4)


def test_what_leaves_scores_as_they_are(table: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = table
    labels = classes_of(y)
    order = np.random.default_rng(1).permutation(ROWS)
    for score, target in ((hgr_regression, y), (hgr_classif, labels)):
        expected = score(x, target)
        for moved in (score(x * -1e-3 + 70, target), score(x[order], target[order])):
            np.testing.assert_allclose(moved[0], expected[0], atol=1e-4)
            np.testing.assert_allclose(moved[1], expected[1], rtol=0.05, atol=0.01)
        swapped = [values[::-1] for values in score(x[:, ::-1], target)]
        np.testing.assert_allclose(swapped, expected, atol=1e-5)
    expected = hgr_classif(x, labels)
    for names in (["x", "z", "y"], [7, -1, 3]):
        renamed = np.asarray(names)[np.unique(labels, return_inverse=True)[1]]
        np.testing.assert_allclose(hgr_classif(x, renamed), expected, atol=1e-5)
    far = hgr_regression(x, 1e9 + y)  # float32 holds only a few digits of it
    np.testing.assert_allclose(far[0], hgr_regression(x, y)[0], atol=1e-4)


def test_tests_of_rare_classes_keep_their_size(rng: np.random.Generator) -> None:
    x = np.exp(rng.standard_normal((30, 300)))
    labels = np.repeat(CLASSES, [24, 4, 2])
    _, pvalues = hgr_classif(x, labels, permutations=199)
    for level in (0.02, 0.1, 0.3):
        allowed = level + 3 * np.sqrt(level * (1 - level) / 300)
        assert np.mean(pvalues <= level) <= allowed
    x[:, 7] = (labels == "low") + 0.1 * x[:, 7]
    assert hgr_classif(x, labels, permutations=9999)[1].argmin() == 7


def test_selection_in_a_pipeline_and_a_search(table: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = table
    pipeline = make_pipeline(SelectKBest(hgr_regression, k=1), KNeighborsRegressor())
    assert pipeline.fit(x, y).score(x, y) > 0.9
    assert pipeline[0].get_support(indices=True).tolist() == [2]
    labels = classes_of(y)
    select = SelectPercentile(functools.partial(hgr_classif, h=2))
    search = GridSearchCV(
        make_pipeline(select, LogisticRegression()),
        {"selectpercentile__percentile": [20, 50]},
        cv=2,
    )
    search.fit(x, labels)
    assert search.best_estimator_[0].get_support()[2]


def test_data_frames(table: tuple[np.ndarray, np.ndarray]) -> None:
    pandas = pytest.importorskip("pandas", reason="data frames need pandas")
    x, y = table
    frame = pandas.DataFrame(x, columns=list("abcdef"))
    np.testing.assert_array_equal(hgr_regression(frame, pandas.Series(y)), hgr_regression(x, y))
    select = SelectKBest(hgr_classif, k=1).set_output(transform="pandas")
    chosen = select.fit_transform(frame, pandas.Series(classes_of(y), dtype="category"))
    assert list(chosen.columns) == ["c"]


X, Y = np.random.default_rng(0).standard_normal((2, 20))
X, PARTS = X[:, None], np.arange(20) % 2
BOTH = (hgr_regression, hgr_classif)


@pytest.mark.parametrize("score", BOTH)
def test_constants(score: Callable[..., Any], table: tuple[np.ndarray, np.ndarray]) -> None:
    found = score(table[0], np.ones(ROWS, int))
    np.testing.assert_array_equal(found, [np.zeros(6), np.ones(6)])


@pytest.mark.parametrize(
    ("scores", "error", "message", "arguments", "options"),
    [
        (BOTH, TypeError, "Sparse data was passed", (scipy.sparse.csr_matrix(X), PARTS), {}),
        (BOTH, ValueError, "Input X contains", (np.where(X > 1, np.nan, X), PARTS), {}),
        (BOTH, ValueError, "Input X contains", (np.where(X > 1, np.inf, X), PARTS), {}),
        (BOTH, ValueError, "inconsistent numbers of samples", (X, PARTS[:-1]), {}),
        (BOTH, ValueError, "h must be at most 50; got 51", (X, PARTS), {"h": 51}),
        (BOTH, TypeError, "h must be an int >= 1", (X, PARTS), {"h": 2.0}),
        (BOTH[1:], ValueError, "Unknown label type: continuous", (X, Y), {}),
        (BOTH[1:], TypeError, "permutations must be an int", (X, PARTS), {"permutations": 1.5}),
        (BOTH[:1], ValueError, "k must be at least 1", (X, Y), {"k": 0}),
        (
            BOTH[:1],
            ValueError,
            "could not convert string to float",
            (X, np.array([*"ab"] * 10, object)),
            {},
        ),
    ],
)
def test_refused(scores: Any, error: Any, message: str, arguments: Any, options: Any) -> None:
    for score in scores:
        with pytest.raises(error, match=message):
            score(*arguments, **options)


def test_other_numbers_of_rows_and_columns_compile_nothing(
    rng: np.random.Generator, compilations: Any
) -> None:
    x, y = rng.standard_normal((110, 8)), rng.standard_normal(110)
    hgr_regression(x, y, h=2, k=2)
    with compilations() as programs:
        hgr_regression(x[:100, :7], y[:100], h=2, k=2)
    assert programs == []


def test_scikit_learn_is_loaded_when_a_score_is_called() -> None:
    code = "import hgr_jax, sys; hgr_jax.sklearn.hgr_classif; sys.exit('sklearn' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.utils.validation", None)
    with pytest.raises(ImportError, match=r"pip install 'hgr_jax\[sklearn\]'"):
        hgr_regression(np.ones((3, 1)), np.ones(3))
