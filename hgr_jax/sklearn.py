"""Feature selection for scikit-learn (the extra ``cli``).

`HGRSelector` chooses features one after the other, and leaves out those that chosen ones explain.
`hgr_regression` and `hgr_classif` score each feature on its own: they take the place of
``f_regression`` and ``f_classif`` in ``SelectKBest``, ``SelectPercentile``, ``SelectFdr`` and their
kin.  All find features on which the target depends in ways that are not monotone.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from hgr_jax._arrays import Floats
from hgr_jax._checks import check_count, check_degree, check_indexes
from hgr_jax._forks import refuse_forked
from hgr_jax._optional import require
from hgr_jax.core.canonical import correlation, prepare
from hgr_jax.core.rows import over_rows
from hgr_jax.inference.independence import ColumnTests, independence_test
from hgr_jax.inference.intervals import adjust
from hgr_jax.scanning.features import within_range
from hgr_jax.scanning.request import MEMORY, Test, request_of
from hgr_jax.scanning.run import examine
from hgr_jax.tables.columns import Columns
from hgr_jax.tables.levels import Category

__all__ = ["HGRSelector", "hgr_classif", "hgr_regression"]

estimator = require("sklearn.base").BaseEstimator
checks = require("sklearn.utils.validation")
targets = require("sklearn.utils.multiclass")
mixin = require("sklearn.feature_selection").SelectorMixin

COLUMNS_AT_ONCE = 64

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


def hgr_regression(
    X: ArrayLike, y: ArrayLike, *, h: int = 5, k: int = 5
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Score each column by its HGR with a target of numbers, and test each for independence.

        scores[j] = HGR-KB(X[:, j], y; h, k)
        pvalues[j] = p-value of the test by ranks of X[:, j] and y

    The test, `hgr_jax.independence_test`, does not depend on h and k, and its p-values may order
    the columns differently than the scores do.  Pass other degrees with `functools.partial`, as in
    ``SelectKBest(partial(hgr_regression, h=3, k=3))``.

    Args:
      X: array or data frame of numbers, ``(n, p)``.
      y: numbers, ``(n,)``.
      h, k: degrees of the columns and of y, static ints from 1 to 50.

    Returns:
      ``(scores, pvalues)``, both arrays of NumPy ``(p,)``, float64: scores in [0, 1], computed in
      JAX's default floating dtype.

    Raises:
      ValueError: for NaN or infinity, series of pandas with different indexes, and shapes or
        degrees other than the above.
      TypeError: for sparse matrices, and degrees that are not ints.
      ImportError: without scikit-learn.

    Degenerate data: a constant column or y gives score 0 and p-value 1.  Scores are biased upward
    in few rows, less so for a column with few distinct values, which lower its degree.

    Cost: a host function, not to be traced.  A p-value takes about 4 ms at n = 500.

    Source: as `hgr_jax.kb` and `hgr_jax.independence_test`.

    Example:
      >>> import numpy as np
      >>> from sklearn.feature_selection import SelectKBest
      >>> from hgr_jax.sklearn import hgr_regression
      >>> x = np.random.default_rng(0).uniform(-1, 1, (300, 4))
      >>> y = x[:, 2] ** 2  # not correlated with x[:, 2]
      >>> SelectKBest(hgr_regression, k=1).fit(x, y).get_support(indices=True).tolist()
      [2]
    """
    h, k = check_degree("h", h), check_degree("k", k)
    x, y = _validated(X, y, numeric=True)
    columns = np.column_stack([x, y]).astype(np.float64)
    # float32 has too few digits for values far from 0; no affine map changes a correlation.
    columns = within_range(columns - columns.mean(axis=0), least=0)
    scores = _scores(columns[:, :-1], columns[:, -1], h, k)
    pvalues = np.array([independence_test(column, y).pvalue for column in x.T])
    return scores, pvalues


def hgr_classif(
    X: ArrayLike, y: ArrayLike, *, h: int = 5, permutations: int = 999
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Score each column by its HGR with a target of classes, and test each for independence.

        scores[j] = max over alpha, beta of rho(P_{X[:, j]}^h alpha, 1[y = c] beta)

    with the indicators of all classes c: the square root of the largest share of a polynomial's
    variance that lies between the classes.  Names and order of the classes do not matter.

    The p-values are those of `hgr_jax.scan` for a category: from the law of Roy's largest root for
    the ranks of the column if every class has enough rows for the degree and the ties, otherwise
    from permutations of the ranks.

    Args:
      X: array or data frame of numbers, ``(n, p)``.
      y: classes, ``(n,)``: ints, booleans or strings.
      h: degree of the columns, static int from 1 to 50.
      permutations: largest number of permutations, int >= 1; a p-value from permutations is at
        least ``1 / (1 + permutations)``.

    Returns:
      ``(scores, pvalues)``, both arrays of NumPy ``(p,)``, float64: scores in [0, 1], computed in
      JAX's default floating dtype.  Permutations have a fixed key.

    Raises:
      ValueError: for NaN or infinity, a y of continuous numbers, and shapes or options other than
        the above.
      TypeError: for sparse matrices, and options that are not ints.
      ImportError: without scikit-learn.

    Degenerate data: a constant column, or a single class, gives score 0 and p-value 1.  Scores are
    biased upward in few rows, and with many classes.

    Cost: a host function, not to be traced.

    Source: as `hgr_jax.scan`.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.sklearn import hgr_classif
      >>> x = np.random.default_rng(0).uniform(-1, 1, (300, 3))
      >>> y = np.where(abs(x[:, 1]) > 0.5, "outer", "inner")
      >>> scores, pvalues = hgr_classif(x, y)
      >>> scores.argmax(), (pvalues < 1e-9).tolist()
      (np.int64(1), [False, True, False])
    """
    h = check_degree("h", h)
    permutations = check_count("permutations", permutations)
    x, y = _validated(X, y, numeric=False)
    levels, codes = np.unique(y, return_inverse=True)
    category = Category(codes.astype(np.int32), tuple(map(str, levels)))
    request = request_of(h, h, test=Test(permutations=permutations))
    width = x.shape[1]
    pairs = np.stack([np.arange(width), np.full(width, width)], axis=1)
    examined = examine(_columns(x, category), request, pairs)
    value, pvalue = examined.values.value, examined.tests.pvalue
    varies = np.isfinite(value)
    return np.where(varies, value, 0.0), np.where(varies, pvalue, 1.0)


def _validated(x: Any, y: Any, *, numeric: bool) -> tuple[Floats, NDArray[Any]]:
    """Check data as scikit-learn's own scores do."""
    refuse_forked()
    check_indexes(X=x, y=y)
    x, y = checks.check_X_y(x, y, dtype=[np.float64, np.float32], y_numeric=numeric)
    if not numeric:
        targets.check_classification_targets(y)
    return x, y


def _columns(x: Floats, category: Category | None = None) -> Columns:
    width = x.shape[1]
    names = tuple(map(str, range(width + (category is not None))))
    categories = () if category is None else (category,)
    return Columns(names, x, np.arange(width), categories, np.arange(width, len(names)), {}, {})


def _scores(x: Floats, y: Floats, h: int, k: int) -> NDArray[np.float64]:
    """Return HGR-KB of every column of ``x (n, p)`` with ``y``, ``(p,)``, in blocks of columns."""
    rows, width = x.shape
    fitting = int(np.clip(MEMORY // (64 * rows * x.dtype.itemsize), 1, COLUMNS_AT_ONCE))
    size = min(fitting, 1 << (width - 1).bit_length())  # powers of two: few compiled programs
    scores = []
    for start in range(0, width, size):
        part = np.minimum(np.arange(start, start + size), width - 1)
        scores.append(np.asarray(_kb_of_columns(x[:, part], y, h=h, k=k), np.float64))
    return np.concatenate(scores)[:width]


@over_rows(columns=2, static=("h", "k"))
def _kb_of_columns(x: Array, y: Array, *, h: int, k: int, count: Array | None) -> Array:
    def correlation_with_y(column: Array) -> Array:
        pair = prepare((h, k), "svd", column, y, None, count)
        return correlation(pair.problem, pair.a, pair.b, None, None, pair.count)

    return jax.vmap(correlation_with_y, in_axes=1)(x)
