"""`independence_test` of many pairs of columns, and HGR of their ranks, from the same products."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.linalg import top_correlations
from hgr_jax.core.host.ranks import (
    LARGEST_DEGREE,
    RankedColumn,
    codes_of,
    is_worth,
    ranked_columns,
)
from hgr_jax.inference._rank_blocks import Moments, combined, in_blocks, top_values
from hgr_jax.inference._rank_law import LEAST_ROWS, log_probability
from hgr_jax.scanning.engine import Engine
from hgr_jax.scanning.exact_tests import exact_log_pvalues
from hgr_jax.scanning.features import Estimates, Features, Kernels, groups, patterns_of
from hgr_jax.scanning.rank_products import products_of_pairs

RANKED_AGAIN = 500_000
"""Rows, in all, up to which columns of different gaps are ranked again among those they share."""

OTHER_DEGREE = 8
"""The largest degree for the other pairs, by the ranks among each column's own rows."""

MIN_PIVOT = 0.3
"""Of polynomials of ranks on the rows of a pair: below, those are another kind of rows than those
of the column."""


class TestedPairs(NamedTuple):
    """Of some of the pairs: which; the values of their blocks; the degrees to which these go; how
    many waves both sides have; how many rows without ties they are worth; and the log of the least
    p-value that ranks can have.
    """

    places: Integers
    values: Floats
    degrees: Integers
    waves: Integers
    worth: Floats
    rarest: Floats


class RankTests:
    """Tests of pairs of numeric columns, and HGR of their ranks where the same product has it.

    Attributes:
      log_p: ``(N,)``.
      known: ``(N,)``, False where only permutations would do.
      exact: ``(N,)``, which are Fisher's of two columns of two values.
      estimated: ``(N,)``, of which pairs ``of_ranks`` is known.
      of_ranks: estimates of the columns' ranks.
    """

    def __init__(
        self,
        in_ranks: Features,
        kernels: Kernels,
        pairs: Integers,
        rows: Floats,
        found: Estimates,
        *,
        again: bool | None = None,
    ) -> None:
        """Prepare tests of those of ``pairs (N, 2)``, of estimates ``found``, that are of numbers.

        ``rows (N,)`` of even weight they are worth.  ``again``: whether columns of different gaps
        are ranked again among the rows that they share; None to tell it from these pairs.
        """
        self.in_ranks, self.kernels, self.rows = in_ranks, kernels, rows
        numbers = (pairs < in_ranks.n_numeric).all(axis=1)
        self.wanted = np.flatnonzero(numbers & found.varies)
        self.flips = pairs[:, 0] > pairs[:, 1]
        self.pairs = np.sort(pairs, axis=1)
        self.log_p, self.known = np.full(len(pairs), np.nan), np.zeros(len(pairs), bool)
        self.exact, self.estimated = self.known.copy(), self.known.copy()
        self.of_ranks = Estimates.none(len(pairs))
        self.patterns = patterns_of(in_ranks)
        count = self.patterns.present.shape[1]
        one, other = np.sort(self.patterns.pattern_index[self.pairs], axis=1).T
        self.gaps, self.unlike = one * count + other, one != other
        if again is None:
            differences = np.unique(self.gaps[numbers & self.unlike])
            again = len(differences) * in_ranks.rows <= RANKED_AGAIN
        self.again = again
        x = in_ranks.x
        self.codes: Integers = np.zeros(x.shape, np.int32, order="F")
        for column in np.unique(pairs[self.wanted]):
            there = self.patterns.present[:, self.patterns.pattern_index[column]]
            own = slice(None) if there.all() else there
            self.codes[own, column] = codes_of(x[own, column])

    def run(self, memory: int, progress: Callable[[int], None]) -> None:
        """Test all; ``progress`` is called with the number of pairs that a step has estimated."""
        direct: list[Integers] = []
        rest: list[Integers] = []
        for _, places in groups(self.gaps[self.wanted]):
            group = self.wanted[places]
            (direct if self.again or not self.unlike[group[0]] else rest).append(group)
        tested = [each for group in direct for each in self._among_shared(group, progress)]
        if tested:
            self._settle(joined(tested))
        if rest:
            self._among_own(np.concatenate(rest), memory)

    def completed(self, memory: int, progress: Callable[[int], None]) -> Estimates:
        """Return estimates of the ranks of all pairs, those that the tests have not made too."""
        rest = np.flatnonzero(~self.estimated)
        if len(rest):
            pairs = np.where(self.flips[:, None], self.pairs[:, ::-1], self.pairs)[rest]
            engine = Engine(self.in_ranks, self.kernels, memory)
            self.of_ranks.put(rest, engine.estimate(pairs, progress))
        return self.of_ranks

    def _settle(self, found: TestedPairs) -> None:
        self.log_p[found.places] = log_pvalues(found, self.rows[found.places])
        self.known[found.places] = True

    def _rows_of(self, columns: Integers) -> NDArray[np.bool_]:
        """Return the rows where all of some columns are present."""
        present = self.patterns.present[:, self.patterns.pattern_index[columns]]
        return np.asarray(present.all(axis=1))

    def _ranked(
        self, columns: Integers, there: NDArray[np.bool_]
    ) -> tuple[list[RankedColumn], Floats | None]:
        """Return columns by their ranks among some rows, and the weights of these if uneven."""
        weights = self.in_ranks.weights
        if weights is not None:
            there = there & (weights > 0)
            weights = weights[there].astype(np.float64)
            weights = weights if np.ptp(weights) else None
        rows = slice(None) if there.all() else there
        return ranked_columns([self.codes[rows, c] for c in columns], weights), weights

    def _among_shared(
        self, group: Integers, progress: Callable[[int], None]
    ) -> Iterator[TestedPairs]:
        """Yield what pairs of the same rows have, by ranks among those; test tables of 2 x 2."""
        there = self._rows_of(self.pairs[group[0]])
        used, local = np.unique(self.pairs[group], return_inverse=True)
        pairs = local.reshape(-1, 2)
        columns, weights = self._ranked(used, there)
        count = len(columns[0].codes)
        if count < 2:
            return
        if weights is None:
            self._exactly(group, columns, pairs)
        trusted, directions = (
            np.array(each)[pairs].T
            for each in ([c.trusted for c in columns], [len(c.table) for c in columns])
        )
        sure = (trusted > 0).all(axis=0) & (self.rows[group] >= LEAST_ROWS) & ~self.known[group]
        share = np.array([column.worth for column in columns])[pairs].prod(axis=1)
        orders = np.array([column.log_orders for column in columns])[pairs].max(axis=1)
        rarest = orders - special.gammaln(count + 1)
        # HGR of ranks is of those among each column's own rows, without weights.
        of_own = weights is None and np.ptp(self.patterns.pattern_index[self.pairs[group[0]]]) == 0
        both = self.kernels.largest if of_own and self.kernels.largest <= LARGEST_DEGREE else 0
        wanted = np.arange(len(group)) if both else np.flatnonzero(sure)
        beyond = bool((trusted < np.minimum(directions, both)).any())
        for part, moments in products_of_pairs(
            columns, pairs, weights, wanted, both, self.in_ranks.x.dtype
        ):
            if both:
                self._estimate(group[part], directions[:, part], moments.m)
                progress(len(part))
                if not sure[part].all():
                    moments, part = moments.select(sure[part]), part[sure[part]]
            if beyond:
                h, k = np.arange(LARGEST_DEGREE)[:, None] < trusted[:, part][:, None]
                moments = moments._replace(m=moments.m * (h[:, None] & k))
            values, waves = top_values(moments), moments.counts
            worth = self.rows[group[part]] * share[part]
            yield TestedPairs(group[part], values, trusted[:, part], waves, worth, rarest[part])

    def _estimate(self, places: Integers, directions: Integers, m: Floats) -> None:
        """Keep HGR of ranks of some pairs, of which each side ``(2, N)`` has so many directions."""
        kernels, found = self.kernels, self.of_ranks
        limits = np.array([[kernels.h, kernels.k]])
        degrees = np.minimum(
            np.where(self.flips[places, None], limits[:, ::-1], limits), directions.T
        )
        m = m[: kernels.largest, : kernels.largest]
        value = top_correlations(m, degrees, np.ones_like(degrees), single=kernels.single)
        linear = np.minimum(np.abs(m[0, 0]), 1)
        varies = (degrees > 0).all(axis=1)
        found.correlation[places] = np.where(varies, value, np.nan)
        found.linear[places] = found.pearson[places] = np.where(varies, linear, np.nan)
        found.degrees[places] = np.where(self.flips[places, None], degrees[:, ::-1], degrees)
        found.rows[places], found.pivot[places] = self.rows[places], 1
        self.estimated[places] = True

    def _exactly(self, group: Integers, columns: list[RankedColumn], pairs: Integers) -> None:
        """Test those pairs of which both columns have two values on the rows of all."""
        of_two = np.array([len(column.table) == 1 for column in columns])
        binary = np.flatnonzero(of_two[pairs].all(axis=1))
        places = group[binary]
        self.log_p[places] = exact_log_pvalues([column.codes for column in columns], pairs[binary])
        self.known[places] = self.exact[places] = True

    def _among_own(self, group: Integers, memory: int) -> None:
        """Test pairs of columns that are missing in many different rows.

        By ranks among the rows of each column, whose polynomials are made orthonormal on the rows
        of a pair.
        """
        pairs, rows = self.pairs[group], self.rows[group]
        used = {
            c: self._ranked(np.array([c]), self._rows_of(np.array([c])))[0][0]
            for c in np.unique(pairs)
        }
        engine = Engine(self.in_ranks, Kernels(OTHER_DEGREE, OTHER_DEGREE), memory)

        def estimate(blocks: Callable[[Integers, Floats], None]) -> Estimates:
            return engine.estimate(pairs, blocks=blocks)

        _, self.log_p[group], self.known[group] = among_own(used, pairs, rows, estimate)
        for place in group:
            if all(len(used[c].table) == 1 for c in self.pairs[place]):
                columns, weights = self._ranked(self.pairs[place], self._rows_of(self.pairs[place]))
                if weights is None and len(columns[0].codes) >= 2:
                    self._exactly(np.array([place]), columns, np.array([[0, 1]]))


def among_own(
    columns: Mapping[int, RankedColumn],
    pairs: Integers,
    rows: Floats,
    estimate: Callable[[Callable[[Integers, Floats], None]], Estimates],
) -> tuple[Estimates, Floats, NDArray[np.bool_]]:
    """Test ``pairs (N, 2)`` by ranks among the rows of each column, orthonormal on those of a pair.

    Args:
      columns: each by its ranks.
      pairs: of columns in rising order.
      rows: ``(N,)``, of even weight that they are worth.
      estimate: calls its argument as `Engine.estimate` does ``blocks``, of polynomials of the ranks
        of degree `OTHER_DEGREE` or more, and returns their estimates.

    Returns:
      The estimates; logarithms of p-values ``(N,)``; and which of these can be trusted ``(N,)``.
    """
    size = 1 + int(pairs.max(initial=-1))
    degree, worth = np.zeros(size, np.intp), np.zeros(size)
    for c, column in columns.items():
        degree[c], worth[c] = min(column.trusted, OTHER_DEGREE), column.worth
    narrow = in_blocks(OTHER_DEGREE, OTHER_DEGREE)
    tested: list[TestedPairs] = []

    def settle(part: Integers, m: Floats) -> None:
        h, k = degree[pairs[part]].T
        within = np.arange(OTHER_DEGREE)[:, None]
        m = m[:OTHER_DEGREE, :OTHER_DEGREE]
        m = np.where(narrow[..., None] & (within < h)[:, None] & (within < k), m, 0)
        share = worth[pairs[part]].prod(axis=1)
        rarest = -special.gammaln(rows[part] + 1)
        values, degrees = top_values(Moments.of_polynomials(m)), np.stack([h, k])
        none = np.zeros_like(degrees)
        tested.append(TestedPairs(part, values, degrees, none, rows[part] * share, rarest))

    found, log_p = estimate(settle), np.full(len(pairs), np.nan)
    if tested:
        every = joined(tested)
        log_p[every.places] = log_pvalues(every, rows[every.places])
    sure = (found.pivot >= MIN_PIVOT) & (found.degrees > 0).all(axis=1) & (rows >= LEAST_ROWS)
    sure &= (degree[pairs] > 0).all(axis=1) & is_worth(rows, worth[pairs].min(axis=1))
    return found, log_p, sure


def joined(parts: Sequence[TestedPairs]) -> TestedPairs:
    """Return many pairs as one: their law costs as much for some hundreds as for all."""
    return TestedPairs(*(np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)))


def log_pvalues(found: TestedPairs, rows: Floats) -> Floats:
    """Return the logarithms of the p-values ``(N,)`` of pairs of so many rows."""
    log_p = combined(found.values, rows, found.degrees, found.waves).log_p
    log_p = log_probability(log_p, np.maximum(found.worth, LEAST_ROWS))
    return np.maximum(log_p, found.rarest)
