"""Tests of many pairs where rows are in an order or in groups, by a `RowDesign`.

Two columns of one series are tested by its circular shifts, and of rows in groups by orders within
these.  A column that is constant in each group has no p-value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers, groups
from hgr_jax.core.host.ranks import MOST_FUNCTIONS
from hgr_jax.inference.dependent_rows import (
    RowDesign,
    SeriesFunctions,
    order_tests,
    shift_test,
)
from hgr_jax.inference.level_tests import functions_of_column
from hgr_jax.inference.orders import seed_of
from hgr_jax.inference.results import IndependenceTest
from hgr_jax.scanning.memory import MemoryTable
from hgr_jax.scanning.request import Test


class DesignTests:
    """Tests of the pairs of a table by its design.

    Attributes:
      pvalue, source: ``(N,)``, of the pairs that were tested.
    """

    def __init__(self, table: MemoryTable, design: RowDesign, test: Test) -> None:
        self.features, self.design, self.options = table.features, design, test
        self.pairs, self.memory = table.pairs, table.memory
        self.pvalue = np.full(len(self.pairs), np.nan)
        self.source = np.full(len(self.pairs), "", object)

    def test(self, chosen: NDArray[np.bool_]) -> None:
        """Set the p-values of the chosen pairs."""
        places = np.flatnonzero(chosen)
        if self.design.is_shifted:
            series: dict[int, SeriesFunctions] = {}
            bytes_of_one = 8 * MOST_FUNCTIONS * len(self.design.rows)
            for place in places:
                pair = self.pairs[place].tolist()
                if len(series) * bytes_of_one > self.memory:
                    series = {c: side for c, side in series.items() if c in pair}
                for column in pair:
                    if column not in series:
                        series[column] = self._series(column)
                self._set(np.array([place]), [shift_test(series[pair[0]], series[pair[1]])])
            return
        patterns = np.sort(self.features.patterns.index[self.pairs[places]], axis=1)
        keys = patterns[:, 0] * (1 + patterns.max(initial=0)) + patterns[:, 1]
        for _, part in groups(keys):
            present = self.features.patterns.present[:, patterns[part[0]]]
            self._test_pattern(places[part], np.asarray(present.all(axis=1)))

    def _set(self, places: Integers, tests: Sequence[IndependenceTest]) -> None:
        self.pvalue[places] = [test.pvalue for test in tests]
        self.source[places] = [test.source for test in tests]

    def _test_pattern(self, places: Integers, present: NDArray[np.bool_]) -> None:
        """Test pairs of columns that share the ``present`` rows, and vary within groups."""
        design = self.design.restricted(present)
        if len(design.rows) < 2:
            return
        functions = {
            c: design.in_cells(design.within(self._functions(c, design.rows)))
            for c in np.unique(self.pairs[places]).tolist()
            if not design.is_constant(self.features.values(c))
        }
        places = places[np.isin(self.pairs[places], [*functions]).all(axis=1)]
        for moved, part in groups(self.pairs[places, 1]):
            others = self.pairs[places[part], 0].tolist()
            tests = order_tests(
                [functions[c] for c in others],
                functions[moved],
                design,
                draws=self.options.draws,
                generator=np.random.default_rng(seed_of(self.options.key)),
                levels=[(self._is_level(c), self._is_level(moved)) for c in others],
            )
            self._set(places[part], tests)

    def _series(self, column: int) -> SeriesFunctions:
        """Return a column as a series, on the rows where it is present."""
        present, rows = self.features.present(column), self.design.rows
        functions = self._functions(column, rows[present[rows]])
        return self.design.transformed(functions, present, of_levels=self._is_level(column))

    def _is_level(self, column: int) -> bool:
        return column >= self.features.n_numeric

    def _functions(self, column: int, rows: Integers) -> Floats:
        """Return orthonormal functions ``(d, m)`` of ranks, or of levels, on some rows."""
        values = self.features.values(column)[rows].astype(np.float64)
        return functions_of_column(values, self._is_level(column), most=MOST_FUNCTIONS)
