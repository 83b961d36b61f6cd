"""Feature selection for scikit-learn (the extra ``cli``).

`HGRSelector` chooses features one after the other, and leaves out those that chosen ones explain.
`hgr_regression` and `hgr_classif` score each feature on its own: they take the place of
``f_regression`` and ``f_classif`` in ``SelectKBest``, ``SelectPercentile``, ``SelectFdr`` and their
kin.  All find features on which the target depends in ways that are not monotone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._arrays import Floats
from hgr_jax._checks import check_count, check_indexes
from hgr_jax._optional import require
from hgr_jax._threads import one_blas_thread
from hgr_jax.inference.independence import ColumnTests
from hgr_jax.inference.multiplicity import adjust
from hgr_jax.scanning.request import request_of
from hgr_jax.scanning.run import examine
from hgr_jax.tables.columns import Columns
from hgr_jax.tables.levels import Category

__all__ = ["HGRSelector", "hgr_classif", "hgr_regression"]

estimator = require("sklearn.base").BaseEstimator
checks = require("sklearn.utils.validation")
targets = require("sklearn.utils.multiclass")
mixin = require("sklearn.feature_selection").SelectorMixin

MAX_CLASSES = 20
"""Largest number of different whole numbers that are classes."""

REDUNDANCY_LEVEL = 0.05
"""Level of the tests of `HGRSelector` given chosen features, and its default rate."""


class HGRSelector(mixin, estimator):  # type: ignore[misc,valid-type]
    """Choose features on which the target depends, except those that chosen ones explain.

    The first feature is the one with the smallest p-value of `hgr_jax.independence_test` with y,
    the next the one with the smallest p-value given those that are chosen,

        j(m + 1) = argmin_j  p(X[:, j], y | X[:, j(1)], ..., X[:, j(m)])

    (where p-values are at the smallest that is given, the one with the largest correlation).  Any
    form of dependence counts, and a copy or a function of chosen features does not, nor what only
    they have to do with y.

    Args:
      k: number of features to choose, fewer if there are not so many.
      fdr: rate of false discoveries (Benjamini & Hochberg) at which a feature must depend on y on
        its own; of those, the ones are chosen whose p-value given the chosen ones is at most 0.05.
        Without k and fdr it is 0.05.
      discrete_target: whether y is classes; by default texts, booleans, and whole numbers of at
        most 20 values are.

    Attributes:
      pvalues_: p-value of each feature with y, on its own, ``(p,)``.
      order_: positions of the chosen features, the first first.
      redundant_: which features depend on y at ``fdr`` and are left out, ``(p,)``; with ``k`` none.

    Raises:
      ValueError: for both k and fdr, for NaN or infinity, and other options than the above.

    Degenerate data: constant features have the p-value 1, and so has every feature in fewer than 10
    rows.  The rate is that of the features on their own: those that are left out are mostly true
    ones, so that among the chosen the share of false ones may be larger.  A feature that matters
    only together with another one is not found.

    Cost: a test of some milliseconds for each feature that is left, at each step.

    Source: as `hgr_jax.independence_test`; Margaritis & Thrun, "Bayesian network induction via
    local neighborhoods" (1999), for the growing of a set.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.sklearn import HGRSelector
      >>> x = np.random.default_rng(0).normal(size=(300, 4))
      >>> x[:, 3] = x[:, 1] ** 3  # says nothing new
      >>> y = x[:, 1] ** 2 + np.cos(x[:, 2])
      >>> HGRSelector(fdr=0.01).fit(x, y).get_support(indices=True).size
      2
    """

    def __init__(
        self,
        *,
        k: int | None = None,
        fdr: float | None = None,
        discrete_target: bool | None = None,
    ) -> None:
        """Keep the options, as scikit-learn's estimators do."""
        self.k, self.fdr, self.discrete_target = k, fdr, discrete_target

    def fit(self, X: Any, y: Any) -> HGRSelector:
        """Choose features of ``X (n, p)`` for ``y (n,)``; return self."""
        if self.k is not None and self.fdr is not None:
            raise ValueError(f"k and fdr are alternatives; got k={self.k} and fdr={self.fdr}.")
        k = None if self.k is None else check_count("k", self.k)
        rate = REDUNDANCY_LEVEL if self.fdr is None else self.fdr
        if not 0 < rate < 1:
            raise ValueError(f"fdr must be in (0, 1); got {rate!r}.")
        check_indexes(X=X, y=y)
        X, y = checks.validate_data(self, X, y, dtype=np.float64)
        targets.type_of_target(y, input_name="y", raise_unknown=True)
        discrete = _holds_classes(y) if self.discrete_target is None else self.discrete_target
        target = np.unique(y, return_inverse=True)[1] if discrete else y.astype(np.float64)
        width = X.shape[1]
        columns = np.column_stack([X, target])
        levels = frozenset([width]) if discrete else frozenset[int]()
        tests = ColumnTests(lambda i: columns[:, i], levels, len(X), None)

        def test(feature: int, given: list[int]) -> tuple[float, float]:
            found = tests.test(feature, width, tuple(sorted(given)))
            return (1.0, 0.0) if np.isnan(found.pvalue) else (found.pvalue, -found.statistic)

        alone = [test(feature, []) for feature in range(width)]
        self.pvalues_ = np.array([pvalue for pvalue, _ in alone])
        relevant = adjust(self.pvalues_, "bh") <= rate if k is None else np.ones(width, bool)
        left, found = np.flatnonzero(relevant).tolist(), dict(enumerate(alone))
        chosen: list[int] = []
        while left and (k is None or len(chosen) < k):
            best = min(left, key=found.__getitem__)
            chosen.append(best)
            left.remove(best)
            found = {feature: test(feature, chosen) for feature in left}
            if k is None:  # what chosen features explain, more of them explain too
                left = [feature for feature in left if found[feature][0] <= REDUNDANCY_LEVEL]
        self.order_ = np.array(chosen, np.intp)
        self._chosen = np.isin(np.arange(width), chosen)
        self.redundant_ = relevant & ~self._chosen if k is None else np.zeros(width, bool)
        return self

    def _get_support_mask(self) -> NDArray[np.bool_]:
        """Return which features are chosen, as scikit-learn asks for it."""
        checks.check_is_fitted(self)
        return self._chosen

    def __sklearn_tags__(self) -> Any:
        """Say that a target is needed."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _holds_classes(y: NDArray[Any]) -> bool:
    """Return whether a target is classes, by its values."""
    if y.dtype.kind not in "iuf":
        return True
    return bool((y == np.rint(y)).all()) and len(np.unique(y)) <= MAX_CLASSES


def hgr_regression(X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Score each column by its HGR with a target of numbers, and test each for independence.

        scores[j] = hgr(X[:, j], y)
        pvalues[j] = p-value of independence_test(X[:, j], y)

    Args:
      X: array or data frame of numbers, ``(n, p)``.
      y: numbers, ``(n,)``.

    Returns:
      ``(scores, pvalues)``, both arrays of NumPy ``(p,)``, float64; scores are in [0, 1].

    Raises:
      ValueError: for NaN or infinity, series of pandas with different indexes, and shapes other
        than the above.
      TypeError: for sparse matrices.
      ImportError: without scikit-learn.

    Degenerate data: a constant column or y gives score 0 and p-value 1.

    Cost: a host function, not to be traced; that of a scan with a target.

    Source: as `hgr_jax.hgr` and `hgr_jax.independence_test`.

    Example:
      >>> import numpy as np
      >>> from sklearn.feature_selection import SelectKBest
      >>> from hgr_jax.sklearn import hgr_regression
      >>> x = np.random.default_rng(0).uniform(-1, 1, (300, 4))
      >>> y = x[:, 2] ** 2  # not correlated with x[:, 2]
      >>> SelectKBest(hgr_regression, k=1).fit(x, y).get_support(indices=True).tolist()
      [2]
    """
    x, y = _validated(X, y, numeric=True)
    return _scores(np.column_stack([x, y]), None)


def hgr_classif(X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Score each column by its HGR with a target of classes, and test each for independence.

    Names and order of the classes do not matter.

    Args:
      X: array or data frame of numbers, ``(n, p)``.
      y: classes, ``(n,)``: ints, booleans or strings.

    Returns:
      As `hgr_regression`, of y as a category.

    Raises:
      ValueError: for NaN or infinity, a y of continuous numbers, and shapes other than the above.
      TypeError: for sparse matrices.
      ImportError: without scikit-learn.

    Degenerate data: a constant column, or a single class, gives score 0 and p-value 1.

    Cost: as `hgr_regression`.

    Source: as `hgr_jax.hgr` and `hgr_jax.independence_test`.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.sklearn import hgr_classif
      >>> x = np.random.default_rng(0).uniform(-1, 1, (300, 3))
      >>> y = np.where(abs(x[:, 1]) > 0.5, "outer", "inner")
      >>> scores, pvalues = hgr_classif(x, y)
      >>> scores.argmax(), (pvalues < 1e-9).tolist()
      (np.int64(1), [False, True, False])
    """
    x, y = _validated(X, y, numeric=False)
    levels, codes = np.unique(y, return_inverse=True)
    return _scores(x, Category(codes.astype(np.int32), tuple(map(str, levels))))


def _validated(x: Any, y: Any, *, numeric: bool) -> tuple[Floats, NDArray[Any]]:
    """Check data as scikit-learn's own scores do."""
    check_indexes(X=x, y=y)
    x, y = checks.check_X_y(x, y, dtype=np.float64, y_numeric=numeric)
    if not numeric:
        targets.check_classification_targets(y)
    return x, y


@one_blas_thread()
def _scores(numbers: Floats, category: Category | None) -> tuple[Floats, Floats]:
    """Return HGR and p-values of numbers with a category, or with the last of the numbers."""
    categories = () if category is None else (category,)
    width, count = numbers.shape[1], numbers.shape[1] + len(categories)
    columns = Columns(
        tuple(map(str, range(count))),
        numbers,
        np.arange(width),
        categories,
        np.arange(width, count),
        {},
        {},
    )
    pairs = np.stack([np.arange(count - 1), np.full(count - 1, count - 1)], axis=1)
    examined = examine(columns, request_of(), pairs)
    varies = np.isfinite(examined.values.value)
    return (
        np.where(varies, examined.values.value, 0.0),
        np.where(varies, examined.tests.pvalue, 1.0),
    )
