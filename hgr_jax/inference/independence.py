"""Tests of independence, and of independence given other variables, of two variables.

* `independence_test`: by the law of ranks (`rank_law`), by permutations (`orders`), by shifts of
  series and within groups (`dependent_rows`), of categories (`level_tests`), or given other
  variables (`conditional`);
* `ConditionalTests`: many tests given other variables in one table.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hgr_jax._arrays import Floats, Integers
from hgr_jax._checks import (
    as_host_weights,
    as_lags,
    check_choice,
    check_count,
    check_indexes,
    warn_of_counts,
)
from hgr_jax._texts import counted, near_matches
from hgr_jax._threads import one_blas_thread
from hgr_jax.core.host.conditioning import (
    LEAST_GIVEN_ROWS,
    ConditionalResiduals,
    Conditioning,
    Variable,
)
from hgr_jax.core.host.estimates import HGREstimate
from hgr_jax.core.host.explained import MAX_SHARE_EXPLAINED, GivenVariables
from hgr_jax.core.host.ranks import MOST_FUNCTIONS, RankedColumn, effective_row_count
from hgr_jax.inference.conditional import compare_residuals
from hgr_jax.inference.dependent_rows import (
    DRAWS,
    TOO_SLOW,
    RowDesign,
    order_tests,
    shift_test,
)
from hgr_jax.inference.level_tests import functions_of_column, test_levels, test_levels_by_orders
from hgr_jax.inference.orders import (
    fixed_and_moved,
    most_draws,
    orders_at,
    rarest_order,
    scores_of_untied,
    seed_of,
    test_by_orders,
)
from hgr_jax.inference.rank_law import (
    MIN_TABULATED_ROWS,
    BlockTest,
    Combined,
    combined,
    combined_pvalues,
    cross_moments,
    fisher_log_pvalues,
    log_probability,
    test_long_blocks,
    top_values,
)
from hgr_jax.inference.results import OF_CONSTANT, OF_EXPLAINED, OF_MISSING, IndependenceTest
from hgr_jax.tables.variables import read_given, read_pair

CACHED_BYTES = 2**28
"""Bytes of the designs that `ConditionalTests` keeps."""

MOST_AT_ONCE = 64
"""Largest number of columns whose tests with one column `ConditionalTests` does together."""

TEST_METHODS = ("auto", "permutation")


@one_blas_thread()
def independence_test(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    weights: npt.ArrayLike | None = None,
    given: Any = None,
    order: npt.ArrayLike | None = None,
    lags: int | Iterable[int] | None = None,
    groups: npt.ArrayLike | None = None,
    method: str = "auto",
    permutations: int | None = None,
    key: Any = None,
) -> IndependenceTest:
    """Test whether two variables are independent, by correlations of functions of their ranks.

    The functions are those of `hgr_jax.hgr`, from slow to fast ones.  With p_hk the p-value, by the
    law of Roy's largest root, of the largest correlation of combinations of the first h functions
    of a and the first k of b, and B = {(1, 1), (2, 2), (3, 3), (8, 2), (2, 8), (16, 2), (2, 16),
    (32, 1), (1, 32)},

        T = mean over (h, k) in B of tan((1/2 - p_hk) pi),      p-value = P(T' >= T)

    where T' is the statistic T of independent variables, whose law depends on the number of rows
    alone, and was simulated.  Only ranks count: outliers do not matter, and an increasing
    transformation of a variable changes nothing.  Where ties or large weights leave no functions
    that follow the law, or with fewer than 20 rows of numbers, b is permuted; two variables of two
    values have the exact law of their table.

    With ``given`` the hypothesis is that a and b are independent given c: products of residuals of
    functions of a and of b, given functions of c, are compared with their standard errors.  A
    p-value that is not small does not show conditional independence.

    All this supposes that rows are exchangeable.  With ``order`` they are a series, and b is
    shifted along it, in a circle, by each number of rows r:

        p-value = #{r : max over lags of T(r + lag) >= max over lags of T(lag)} / n

    With ``groups``, rows of one group are alike, and b is permuted, or with ``order`` shifted,
    within groups; where a or b is constant in each group, each group is a row.  The guide on
    p-values says which of these suits which rows, and how few permutations or shifts are continued
    by a tail.

    Args:
      a, b: real arrays ``(n,)``, dates, text or categorical series (levels in fewer than 5 rows,
        or 1%, are pooled, as in `scan`).
      weights: non-negative observation weights ``(n,)`` or None; a row of weight 0 is dropped.
      given: c, ``(n,)``, several columns ``(n, p)`` or a data frame, or None: numbers, text or
        categorical series.
      order: True where the rows are in order as they stand, or numbers or dates ``(n,)`` to sort
        them by, all different (with groups, in each group); None for exchangeable rows.
      lags: of one series, by how many rows b follows a (negative: precedes it), an int or several,
        shorter than half of it; None for 0.  The p-value allows for their number.
      groups: labels ``(n,)`` of any type, or None.
      method: "auto", as above, or "permutation".  With ``given`` it must be "auto".
      permutations: largest number of random orders, int >= 1; None for 9,999, of fewer than 20
        rows 199,999, and of rows in groups 999.
      key: a random key for the permutations; None for ``jax.random.key(0)``.

    Returns:
      An `IndependenceTest`, of Python numbers.

    Raises:
      TypeError, ValueError: for shapes, dtypes or options other than the above.

    Degenerate data: a constant variable, and one that c explains to the last digits, have the
    statistic 0 and the p-value 1; columns of c that are constant are left out; NaN, infinity and a
    missing level give NaN, as do fewer than 10 effective rows with ``given``.

    Cost: a host function, not to be traced.  About 4 ms at n = 500, 15 ms at n = 10,000; 0.1 s at
    n = 100,000.

    Source: Liu & Xie, "Cauchy combination test" (2020), for T; Besag & Clifford, "Sequential Monte
    Carlo p-values" (1991); Chwialkowski & Gretton, "A kernel independence test for random
    processes" (2014), for shifts.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 60)
      >>> found = hgr_jax.independence_test(a, a**2 + 0.1 * jnp.cos(9 * a))
      >>> found.degrees, found.source, found.pvalue < 1e-20
      ((8, 2), 'rank', True)
      >>> a = jnp.sin(jnp.arange(60.0) ** 2)
      >>> hgr_jax.independence_test(a, jnp.roll(a, 2) ** 2, order=True, lags=range(4)).lag
      2
    """
    beside = {"weights": weights, "given": given}
    check_indexes(a=a, b=b, **beside, order=order, groups=groups)
    if lags is not None and (order is None or groups is not None):
        raise ValueError(
            "lags are of one series in order: name the order, order=True or order=dates, and leave"
            " groups= out."
        )
    if order is not None or groups is not None:
        refuse_with_design({**beside, "method": None if method == "auto" else method})
    check_choice("method", method, TEST_METHODS)
    if permutations is not None:
        check_count("permutations", permutations)
    seed = seed_of(key)
    w = as_host_weights(weights, len(np.asarray(a)))
    if w is not None:
        warn_of_counts(weights)
    if given is not None:
        if method != "auto":
            raise ValueError(f"method={method!r} is for tests without given variables.")
        return _test_given(a, b, given, w)
    (x, y), is_level = read_pair(a, b)
    if w is not None:
        weighted = w > 0
        x, y, w = x[weighted], y[weighted], w[weighted]
        w = w if np.ptp(w) > 0 else None
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return OF_MISSING
    if order is not None or groups is not None:
        design = RowDesign.of(len(x), order, groups)
        if groups is not None and any(map(design.is_constant, (x, y))):
            of_levels = zip((x, y), is_level, strict=True)
            if any(of and not design.is_constant(codes) for codes, of in of_levels):
                raise ValueError(
                    "a category that varies within groups has no value for a group, as the other"
                    " variable has: give indicators of its levels, as numbers."
                )
            one, other = design.of_groups(x), design.of_groups(y)
            if any(is_level):
                test = test_levels((one, other), is_level, None, permutations, key)
            else:
                test = independence_test(one, other, permutations=permutations, key=key)
            return dataclasses.replace(test, source="between")
        lags = as_lags(0 if lags is None else lags, len(x))
        draws = DRAWS if permutations is None else permutations
        return _test_of_design((x, y), is_level, design, lags, draws, np.random.default_rng(seed))
    if any(is_level):
        test_of = test_levels if method == "auto" else test_levels_by_orders
        return test_of((x, y), is_level, w, permutations, key)
    sides = RankedColumn.of_values(x, w), RankedColumn.of_values(y, w)
    if method == "auto" and w is None and all(side.is_binary for side in sides):
        return _fisher_test(*sides)
    if not all(side.count for side in sides):
        return OF_CONSTANT
    if method == "auto" and _follows_rank_law(*sides, w):
        return _tests_by_law(sides[0], [sides[1]], w)[0]
    return _test_of_orders((x, y), sides, w, most_draws(len(x), permutations), seed)


def _test_of_orders(
    columns: tuple[Floats, Floats],
    sides: tuple[RankedColumn, RankedColumn],
    weights: Floats | None,
    most: int,
    seed: tuple[int, ...],
) -> IndependenceTest:
    """Test two numbers by orders of the rows of the second."""
    f, g = (side.functions() for side in sides)
    rows, count = effective_row_count(f.shape[1], weights), f.shape[1]
    if weights is not None:
        # Ranks without weights, as the ranks of b must not change when its rows are permuted.
        f, g = (
            RankedColumn.of_values(z).functions()[: len(old)]
            for z, old in zip(columns, (f, g), strict=True)
        )
    fixed, moved, turned = fixed_and_moved([side.codes for side in sides], (f, g), weights)

    def combined_in(orders: Integers) -> Combined:
        parts = fixed.parts_of(orders, len(moved))
        moments = [cross_moments(fixed.functions, moved.take(part, axis=1)) for part in parts]
        m = np.concatenate(moments, axis=2)
        return combined_pvalues(m.swapaxes(0, 1) if turned else m, rows)

    def scores(place: int) -> Floats:
        return combined_in(orders_at(count, seed, place, most)).log_p

    if weights is None and count < MIN_TABULATED_ROWS and all(z.of_levels is None for z in sides):
        scores = functools.partial(scores_of_untied, count, seed)
    data = combined_in(np.arange(count)[None])
    found = test_by_orders(scores, float(data.log_p[0]), count, rarest_order(sides), most)
    return IndependenceTest.of_blocks(data.values[0], *found, data.degrees[:, 0], rows)


def _follows_rank_law(x: RankedColumn, y: RankedColumn, weights: Floats | None) -> bool:
    """Return whether two variables have the law of ranks, and not that of two values each."""
    if weights is None and x.is_binary and y.is_binary:
        return False
    rows = effective_row_count(len(x.codes), weights)
    return min(x.reliable, y.reliable) > 0 and rows >= MIN_TABULATED_ROWS


def refuse_with_design(options: Mapping[str, Any]) -> None:
    """Raise if an option is set that tests of rows in an order, or in groups, do not have."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(
                f"{name} is for exchangeable rows, and not for rows in an order or in groups"
                " (order=, groups=): leave one of them out."
            )


def _test_of_design(
    columns: tuple[Floats, Floats],
    is_level: tuple[bool, bool],
    design: RowDesign,
    lags: Sequence[int],
    draws: int,
    generator: np.random.Generator,
) -> IndependenceTest:
    """Test two variables by shifts of one, or by orders of its rows within groups."""
    f, g = (
        functions_of_column(values[design.rows], of, most=MOST_FUNCTIONS)
        for values, of in zip(columns, is_level, strict=True)
    )
    slow = [not of and design.is_slow(x) for x, of in zip(columns, is_level, strict=True)]
    if design.source == "shifts" and all(slow):
        warnings.warn(f"a and b are {TOO_SLOW}.", UserWarning, stacklevel=3)
    if design.is_shifted:
        one, other = (
            design.transformed(side, of_levels=of)
            for side, of in zip((f, g), is_level, strict=True)
        )
        test = shift_test(one, other, lags)
    else:
        f, g = (design.in_cells(design.within(side)) for side in (f, g))
        (test,) = order_tests([f], g, design, draws=draws, generator=generator, levels=[is_level])
    return test


def _test_given(a: Any, b: Any, given: Any, weights: Floats | None) -> IndependenceTest:
    """Test two variables given others, ``(n,)``, ``(n, p)`` or a frame."""
    columns, levels = read_given(a, b, given)
    kept = slice(None) if weights is None else weights > 0
    arrays = [x[kept] for x in columns]
    if not all(np.isfinite(x).all() for x in arrays):
        return OF_MISSING
    tests = ColumnTests(
        arrays.__getitem__, levels, len(arrays[0]), None if weights is None else weights[kept]
    )
    return tests.test(0, 1, tuple(range(2, len(arrays))))


def _tests_by_law(
    x: RankedColumn, others: Sequence[RankedColumn], weights: Floats | None
) -> list[IndependenceTest]:
    """Test a variable with each of the others by the law of ranks, by their reliable functions."""
    rows = effective_row_count(len(x.codes), weights)
    f, *of_others = (z.functions(z.reliable) for z in (x, *others))
    g = np.zeros((max(map(len, of_others)), len(others), f.shape[1]))
    for place, functions in enumerate(of_others):
        g[: len(functions), place] = functions
    degrees = np.array([[len(f)] * len(others), [*map(len, of_others)]])
    share = 1 / f.shape[1] if weights is None else weights / weights.sum()
    found = combined(top_values(cross_moments(f * share, g)), rows, degrees)
    effective_rows = rows * x.effective_share * np.array([z.effective_share for z in others])
    law = log_probability(found.log_p, np.maximum(effective_rows, MIN_TABULATED_ROWS))
    of_x = x.functions(x.available(rows))
    tests = []
    for place, z in enumerate(others):
        test = BlockTest(law[place], found.values[place], tuple(found.degrees[:, place].tolist()))
        estimate = HGREstimate.of_columns((x, z), (of_x, z.functions(z.available(rows))), weights)
        counts = (x.reliable, z.reliable)
        long = test_long_blocks(estimate, counts, float(effective_rows[place]))
        if long is not None and long.log_p < test.log_p:
            test = long
        pvalue = math.exp(max(test.log_p, rarest_order((x, z))))
        tests.append(IndependenceTest.of_blocks(test.value, pvalue, "rank", test.degrees, rows))
    return tests


def _fisher_test(x: RankedColumn, y: RankedColumn) -> IndependenceTest:
    """Test two variables of two values by Fisher's exact test."""
    statistic = float(abs(np.mean(x.functions() * y.functions())))
    both, ones, others = (np.sum(codes) for codes in (x.codes & y.codes, x.codes, y.codes))
    pvalue = float(np.exp(fisher_log_pvalues(len(x.codes), both, ones, others)))
    return IndependenceTest.of_blocks(statistic, pvalue, "exact", (1, 1), len(x.codes))


def kept_columns(rows: int) -> int:
    """Return the number of columns whose residuals `ColumnTests` keeps, 16 for each design."""
    return 16 * max(CACHED_BYTES // (8 * rows * 256), 4)


class ColumnTests:
    """Tests of columns by position, given others; what belongs to a column is computed once.

    The numbers or codes of a column ``(rows,)`` are ``values(column)``; ``levels`` are positions of
    categories, and ``weights (rows,)`` are above 0, or None.
    """

    def __init__(
        self,
        values: Callable[[int], Floats],
        levels: frozenset[int],
        rows: int,
        weights: Floats | None,
    ) -> None:
        self._values, self._levels, self._rows = values, levels, rows
        self._weights = None if weights is None or not np.ptp(weights) else weights
        many = kept_columns(rows)
        self._variable = functools.lru_cache(many)(self._make_variable)
        self._conditioning = functools.lru_cache(many // 16)(self._make_conditioning)
        self._residuals = functools.lru_cache(many)(self._make_residuals)
        self._is_explained = functools.lru_cache(many)(self._make_is_explained)
        self._given = functools.lru_cache(1)(self._make_given)

    def _make_variable(self, column: int) -> Variable:
        x = self._values(column)
        if column in self._levels:
            return Variable.of_levels(x.astype(np.int64), self._weights)
        return Variable.of_number(x, self._weights)

    def _make_conditioning(self, given: tuple[int, ...]) -> Conditioning:
        return Conditioning([self._variable(i) for i in given], self._rows, self._weights)

    def _make_residuals(self, column: int, given: tuple[int, ...]) -> ConditionalResiduals:
        return self._conditioning(given).of_variable(self._variable(column))

    def _make_given(self, given: tuple[int, ...]) -> GivenVariables:
        numbers = [self._values(i) for i in given if i not in self._levels]
        return GivenVariables(numbers, [self._values(i) for i in given if i in self._levels])

    def _make_is_explained(self, column: int, given: tuple[int, ...]) -> bool:
        """Return whether a column is a function of the given ones, but for rounding."""
        is_level = column in self._levels
        if not is_level and self._residuals(column, given).share > MAX_SHARE_EXPLAINED:
            return False
        return self._given(given).explains(self._values(column), is_level=is_level)

    def _independence(self, x: int, y: int) -> IndependenceTest:
        """Return the test of two columns that is given nothing."""
        is_level, columns = (
            (x in self._levels, y in self._levels),
            (self._values(x), self._values(y)),
        )
        if any(is_level):
            return test_levels(columns, is_level, self._weights, None, None)
        return independence_test(*columns, weights=self._weights)

    def test(self, x: int, y: int, given: tuple[int, ...]) -> IndependenceTest:
        """Return the test of two columns by position; ``given`` is in order."""
        given = tuple(i for i in given if len(self._variable(i).functions))
        sides = [self._variable(i) for i in (x, y)]
        if not all(len(side.functions) for side in sides):
            return OF_CONSTANT
        if not given:
            return self._independence(x, y)
        if effective_row_count(self._rows, self._weights) < LEAST_GIVEN_ROWS:
            return OF_MISSING
        if any(self._is_explained(column, given) for column in (x, y)):
            return OF_EXPLAINED
        a, b = (self._residuals(column, given) for column in (x, y))
        return compare_residuals(a, b, self._conditioning(given))


class ConditionalTests(ColumnTests):
    """Tests of conditional independence in one table: what belongs to a column is computed once.

    ``ConditionalTests(table)(x, y, given)`` is `independence_test` of these columns.  The designs
    of given columns, and the residuals of columns given them, are kept for later tests, up to some
    256 MB of either: many tests of a search for causes share them.

    Attributes:
      names: names of the columns.
    """

    names: tuple[str, ...]

    def __init__(self, table: Any, *, weights: npt.ArrayLike | None = None) -> None:
        """Read the columns of a table.

        Args:
          table: an array ``(n, p)`` (names ``x0, x1, ...``), a mapping of names to columns, or a
            data frame: numbers, text or categorical columns, as `hgr_jax.scan` reads them.
          weights: non-negative observation weights ``(n,)`` or None; a row of weight 0 is dropped.

        Raises:
          TypeError: for what is no table.
          ValueError: for a column with missing or infinite values, and a column that can't be
            used: a constant one, and names or identifiers.

        Source: see `independence_test`.

        Example:
          >>> import numpy as np, hgr_jax
          >>> cause, e, f = np.random.default_rng(0).normal(size=(3, 300))
          >>> tests = hgr_jax.ConditionalTests({"cause": cause, "x": cause**2 + e, "y": cause + f})
          >>> tests("x", "y").pvalue < 0.001, tests("x", "y", ["cause"]).pvalue > 0.05
          (True, True)
        """
        from hgr_jax.tables.columns import as_columns

        check_indexes(table=table, weights=weights)
        columns = as_columns(table)
        for name, reason in columns.skipped.items():
            raise ValueError(f"column {name!r} cannot be used: {reason}.")
        codes = [np.where(c.codes < 0, np.nan, c.codes) for c in columns.categories]
        places = [*columns.category_positions, *columns.number_positions]
        values: dict[int, Floats] = {}
        for place, column in zip(places, [*codes, *np.asarray(columns.numbers).T], strict=True):
            values[int(place)] = column.astype(np.float64)
            if missing := int((~np.isfinite(column)).sum()):
                raise ValueError(
                    f"column {columns.names[place]!r} has {counted(missing, 'missing value')}: drop"
                    " their rows, or replace them."
                )
        w = as_host_weights(weights, columns.rows)
        kept = slice(None) if w is None else w > 0
        levels = frozenset(map(int, columns.category_positions))
        rows = columns.rows if w is None else int(np.sum(w > 0))
        super().__init__(lambda i: values[i][kept], levels, rows, w if w is None else w[kept])
        self.names = columns.names
        self._ranked = functools.lru_cache(kept_columns(rows))(self._make_ranked)
        self._blocks = functools.lru_cache(len(self.names))(self._make_block)

    def _make_ranked(self, column: int) -> RankedColumn:
        return RankedColumn.of_values(self._values(column), self._weights)

    def _make_block(self, x: int, block: range) -> dict[int, IndependenceTest]:
        """Return tests of a number and those of a block of columns to which the law applies."""
        side, w = self._ranked(x), self._weights
        numbers = {i: self._ranked(i) for i in block if i != x and i not in self._levels}
        others = {i: z for i, z in numbers.items() if _follows_rank_law(side, z, w)}
        if not others:
            return {}
        return dict(zip(others, _tests_by_law(side, [*others.values()], w), strict=True))

    def _independence(self, x: int, y: int) -> IndependenceTest:
        if {x, y} & self._levels:
            return super()._independence(x, y)
        size = max(1, min(MOST_AT_ONCE, CACHED_BYTES // (8 * MOST_FUNCTIONS * self._rows)))
        start = y - y % size
        block = range(start, min(start + size, len(self.names)))
        return self._blocks(x, block).get(y) or super()._independence(x, y)

    @one_blas_thread()
    def __call__(
        self, x: int | str, y: int | str, given: Sequence[int | str] | int | str = ()
    ) -> IndependenceTest:
        """Return the test of two columns, by name or position, given others.

        Raises:
          ValueError: for a column that the table does not have, and for one that stands twice.
        """
        given = [given] if isinstance(given, int | str | np.integer) else [*given]
        places = [self._place(name) for name in (x, y, *given)]
        if len({*places}) < len(places):
            raise ValueError(f"x, y and given must be different columns; got {[x, y, *given]}.")
        return self.test(places[0], places[1], tuple(sorted(places[2:])))

    def _place(self, name: int | str) -> int:
        if isinstance(name, str):
            if name not in self.names:
                raise ValueError(f"no column {name!r}{near_matches(name, self.names)}")
            return self.names.index(name)
        if not 0 <= operator.index(name) < len(self.names):
            raise ValueError(f"positions are from 0 to {len(self.names) - 1}; got {name}.")
        return operator.index(name)
