"""Tests of independence for packages that search for causes (the extra ``causal``).

Each function gives a package what it takes as its test of "x is independent of y given z", and the
answer is that of `hgr_jax.independence_test`: of any dependence between ranks, and of numbers and
categories alike.  Text is a category wherever the package lets it through.

    causallearn   pc(data, indep_test=causal_learn_test())
    pgmpy         PC(ci_test=pgmpy_test(table)).fit(table)
    tigramite     PCMCI(series, cond_ind_test=tigramite_test())
    DoWhy         falsify_graph(graph, table, independence_test=dowhy_test,
                                conditional_independence_test=dowhy_test)

A graph says no more than its tests: the guide on causal graphs has what it supposes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hgr_jax._checks import check_choice
from hgr_jax._optional import require
from hgr_jax.inference.independence import ConditionalTests, independence_test
from hgr_jax.inference.results import IndependenceTest

__all__ = ["causal_learn_test", "dowhy_test", "pgmpy_test", "tigramite_test"]


def _with_pvalue(test: IndependenceTest) -> IndependenceTest:
    """Raise for a p-value of NaN, which searches would take for a dependence or for none."""
    if math.isnan(test.pvalue):
        raise ValueError(
            "a test has no p-value, as there are missing numbers or fewer than 10 rows: drop the"
            " rows with missing numbers, or replace these."
        )
    return test


def causal_learn_test() -> str:
    """Register the test of `ConditionalTests` with causal-learn, and return its name, "hgr".

    It is for ``pc``, ``fci`` and ``cdnod``, whose data are an array ``(n, p)``: of numbers, or of
    objects where some columns are categories, as ``frame.to_numpy()`` is.  There a column of text
    is a category, as are numbers that were converted to text.  What belongs to a column, or to a
    set of given columns, is computed once for all tests.

    Returns:
      The name, for ``indep_test`` or ``independence_test_method``.

    Raises:
      ImportError: without causal-learn.
      ValueError: by causal-learn's search, for columns that are constant or have missing numbers,
        and for fewer than 10 rows.

    Source: causal-learn's ``register_ci_test``; the test: see `hgr_jax.independence_test`.

    Example:
      >>> import numpy as np
      >>> from causallearn.search.ConstraintBased.PC import pc
      >>> from hgr_jax.causal import causal_learn_test
      >>> x, y, z = np.random.default_rng(0).normal(size=(3, 300))
      >>> data = np.stack([x, y, x**2 + y**2 + 0.3 * z], axis=1)
      >>> graph = pc(data, indep_test=causal_learn_test(), show_progress=False).G
      >>> [str(edge) for edge in graph.get_graph_edges()]
      ['X1 --> X3', 'X2 --> X3']
    """
    require("causallearn.utils.cit").register_ci_test("hgr", _causal_learn_class())
    return "hgr"


@functools.cache
def _causal_learn_class() -> Any:
    cit = require("causallearn.utils.cit")

    class CausalLearnTest(cit.CIT_Base):  # type: ignore[misc,name-defined]
        def __init__(self, data: Any, cache_path: str | None = None) -> None:
            super().__init__(data, cache_path)
            self.check_cache_method_consistent("hgr", cit.NO_SPECIFIED_PARAMETERS_MSG)
            self.tests = ConditionalTests(data)

        def __call__(self, X: int, Y: int, condition_set: Any = None) -> float:  # noqa: N803
            (x,), (y,), given, key = self.get_formatted_XYZ_and_cachekey(X, Y, condition_set)
            if key not in self.pvalue_cache:
                self.pvalue_cache[key] = _with_pvalue(self.tests(x, y, given)).pvalue
            pvalue: float = self.pvalue_cache[key]
            return pvalue

    return CausalLearnTest


def pgmpy_test(table: Any) -> Callable[..., bool]:
    """Return the test of `ConditionalTests` of one table, for pgmpy's ``PC``.

    Give it the table that is fitted: pgmpy passes the names of the columns only.  What belongs to
    a column, or to a set of given columns, is computed once for all tests.

    Args:
      table: as in `ConditionalTests`, usually a data frame: numbers, text, categorical columns.

    Returns:
      A function ``(X, Y, Z, significance_level) -> bool``, for ``ci_test``: whether the p-value is
      at least the level.  After a call it has the attributes ``statistic_``, ``effect_size_``
      (equal to it) and ``p_value_``, by which ``orient_rule`` compares tests.  It may be pickled.

    Raises:
      TypeError, ValueError: as `ConditionalTests` does; by pgmpy's search, for fewer than 10 rows.

    Source: pgmpy's ``PC``, of `pgmpy.causal_discovery` and of the older `pgmpy.estimators`; the
    test: see `hgr_jax.independence_test`.

    Example:
      >>> import numpy as np, pandas as pd
      >>> from pgmpy.causal_discovery import PC
      >>> from hgr_jax.causal import pgmpy_test
      >>> x, y, z = np.random.default_rng(0).normal(size=(3, 300))
      >>> level = np.where(x**2 + y**2 + 0.3 * z > 1.4, "high", "low")
      >>> table = pd.DataFrame({"x": x, "y": y, "level": level})
      >>> search = PC(ci_test=pgmpy_test(table), show_progress=False).fit(table)
      >>> sorted(search.causal_graph_.edges())
      [('x', 'level'), ('y', 'level')]
    """
    return _PgmpyTest(table)


class _PgmpyTest:
    def __init__(self, table: Any) -> None:
        self._table, self._tests = table, ConditionalTests(table)

    def __call__(
        self,
        X: Any,
        Y: Any,  # noqa: N803
        Z: Any = (),  # noqa: N803
        significance_level: float = 0.01,
        **_: Any,  # the older `PC` passes its data too
    ) -> bool:
        found = _with_pvalue(self._tests(str(X), str(Y), [str(name) for name in Z]))
        self.statistic_ = self.effect_size_ = found.statistic
        self.p_value_ = found.pvalue
        return found.pvalue >= significance_level

    def __reduce__(self) -> Any:
        return _PgmpyTest, (self._table,)  # a process keeps its own residuals


def tigramite_test(**options: Any) -> Any:
    """Return a test of lagged variables, for tigramite's ``PCMCI`` and its kin.

    Given others, it is `hgr_jax.independence_test` of the rows as if these were exchangeable: with
    the pasts of both variables among the given ones, as PCMCI has them, little of what successive
    rows have in common is left.  Where nothing is given nothing takes it out, and circular shifts
    do (``order=True``): one of the two series must be stationary.  A variable of the data type 1 is
    a category; beside one, rows count as exchangeable even where nothing is given.

    Args:
      options: those of ``tigramite.independence_tests.independence_tests_base.CondIndTest``,
        such as ``mask_type`` and ``verbosity``; of the kinds of ``significance`` it has
        ``"analytic"``, the p-value of `hgr_jax.independence_test`, and ``"fixed_thres"``.

    Returns:
      An instance of a subclass of ``CondIndTest``, for ``cond_ind_test``.  Its values are the
      ``statistic`` of `IndependenceTest`, in [0, 1] and without a sign.

    Raises:
      ImportError: without tigramite.
      ValueError: for another kind of significance; by tigramite's search, for x or y of several
        variables, and fewer than 10 rows.

    Source: Runge et al., "Detecting and quantifying causal associations in large nonlinear time
    series datasets" (2019); the test: see `hgr_jax.independence_test`.

    Example:
      >>> import numpy as np
      >>> from tigramite.data_processing import DataFrame
      >>> from tigramite.pcmci import PCMCI
      >>> from hgr_jax.causal import tigramite_test
      >>> x, noise = np.random.default_rng(0).normal(size=(2, 300))
      >>> y = np.roll(x, 2) ** 2 + 0.3 * noise
      >>> search = PCMCI(DataFrame(np.stack([x, y], axis=1)), cond_ind_test=tigramite_test())
      >>> pvalues = search.run_pcmci(tau_max=2, pc_alpha=0.05)["p_matrix"]
      >>> np.argwhere(pvalues < 0.001).tolist()  # variable 0 drives variable 1 at lag 2
      [[0, 1, 2]]
    """
    if "significance" in options:
        check_choice("significance", options["significance"], ("analytic", "fixed_thres"))
    return _tigramite_class()(**options)


@functools.cache
def _tigramite_class() -> Any:
    base = require("tigramite.independence_tests.independence_tests_base").CondIndTest

    class TigramiteTest(base):  # type: ignore[misc,valid-type]
        measure = "hgr"
        two_sided = False

        def get_dependence_measure(self, array: Any, xyz: Any, data_type: Any = None) -> float:
            if np.sum(xyz == 0) != 1 or np.sum(xyz == 1) != 1:
                raise ValueError("x and y must each be one variable; test one after the other.")
            coded = np.zeros(len(array), bool) if data_type is None else np.any(data_type, axis=1)
            columns = [c.astype(str) if k else c for c, k in zip(array, coded, strict=True)]
            (x,), (y,), given = (
                [c for c, at in zip(columns, xyz, strict=True) if at == role] for role in range(3)
            )
            if given or coded.any():
                found = independence_test(x, y, given=dict(enumerate(given)))
            else:
                found = independence_test(x, y, order=True)
            self.pvalue = _with_pvalue(found).pvalue
            return found.statistic

        def get_analytic_significance(self, value: Any, T: Any, dim: Any, xyz: Any) -> float:  # noqa: N803
            return self.pvalue  # of the last measure, which tigramite has just asked for

    return TigramiteTest


def dowhy_test(X: Any, Y: Any, Z: Any = None) -> float:  # noqa: N803
    """Return the p-value of `hgr_jax.independence_test`, for the graph falsification of DoWhy.

    It is ``independence_test`` and ``conditional_independence_test`` of
    ``dowhy.gcm.falsify.falsify_graph``.  DoWhy passes values without names, and so nothing is kept
    from one test to the next; with ``n_jobs=1`` no processes have to start.

    Args:
      X, Y: numbers, text or categories, ``(n,)`` or ``(n, 1)``.
      Z: the given variables ``(n,)`` or ``(n, p)``, or None.  In an array of several, categories
        are those of text, as everywhere in DoWhy.

    Returns:
      The p-value.

    Raises:
      TypeError, ValueError: as `hgr_jax.independence_test` does, and for missing numbers or, given
        Z, fewer than 10 rows.

    Source: Eulig et al., "Toward falsifying causal graphs using a permutation-based test" (2023);
    the test: see `hgr_jax.independence_test`.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.causal import dowhy_test
      >>> cause, e, f = np.random.default_rng(0).normal(size=(3, 300))
      >>> x, y = cause**2 + e, cause**2 + f
      >>> dowhy_test(x, y) < 0.001, dowhy_test(x, y, cause) > 0.05
      (True, True)
    """
    x, y = (np.asarray(v)[:, 0] if np.shape(v)[1:] == (1,) else v for v in (X, Y))
    return _with_pvalue(independence_test(x, y, given={} if Z is None else Z)).pvalue
