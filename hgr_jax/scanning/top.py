"""The scan of a table in memory: of all requested pairs, or of the first pairs by some order.

For the first pairs of very many columns, all pairs are tested, in squares of two parts of the
columns, so that memory is bounded.  Two numbers without missing values are tested by `screen`, two
binary columns exactly, and all other pairs like the pairs of a small table.  A histogram of the
p-values (`PValueHistogram`) and the first pairs so far (`FirstPairs`) are kept; only these pairs
are estimated in full at the end.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hgr_jax._arrays import Floats, Integers, chunks
from hgr_jax._checks import look_like_counts
from hgr_jax._progress import progress_bar
from hgr_jax.core.host.ranks import MOST_FUNCTIONS, RankedColumn, codes_of, ranked_columns, ranks
from hgr_jax.inference.multiplicity import PValueHistogram
from hgr_jax.inference.rank_law import MIN_TABULATED_ROWS, above_diagonal, exact_log_pvalues
from hgr_jax.scanning.features import as_features
from hgr_jax.scanning.findings import FALSE_DISCOVERY_RATE
from hgr_jax.scanning.given import GivenColumns
from hgr_jax.scanning.pairs import (
    PairSelection,
    selected,
    skipped_columns,
    split_given,
)
from hgr_jax.scanning.request import Request, Top, positions_of
from hgr_jax.scanning.result import Scan
from hgr_jax.scanning.run import Square, as_scan, examine, examine_square
from hgr_jax.scanning.size import check_size
from hgr_jax.scanning.squares import SquareTask, spread
from hgr_jax.tables.columns import Columns

TESTED_SIDE = 512
"""Number of columns of a part; a square holds the pairs of two parts."""

MIN_SCREENED_SHARE = 1 / 50
"""Smallest share of the pairs of a square for which it is screened: to examine a pair takes some 50
times as long as to screen it."""

LIKE_COUNTS = (
    "weights are whole numbers, some above 1: if they say how often a row occurred, repeat the rows"
    " in their place"
)
"""Note on weights that look like counts."""

RANKED_AT_ONCE = 2**9
"""Number of columns that are ranked at a time."""


def scan_columns(columns: Columns, request: Request, table: Any = None) -> Scan:
    """Scan a table in memory.

    Args:
      columns: columns of the table.
      request: options of the scan.
      table: the original table, whose labels the weights must have.
    """
    request = request.with_row_weights(columns.rows, table)
    if request.row_weights is not None and look_like_counts(np.asarray(request.weights)):
        columns.notes["weights"] = LIKE_COUNTS
    skipped = skipped_columns(columns, request)
    selection = PairSelection.of(request, columns.names, skipped)
    check_size(columns, selection, request)
    if request.top is not None:
        return _scan_first(columns, request, selection, request.top)
    given = None
    if request.given is not None:
        positions = positions_of("given", request.given.columns, columns.names) or []
        names = [columns.names[position] for position in positions]
        if positions:
            columns, conditioning = split_given(columns, positions, selection.targets)
            features = as_features(conditioning, request.row_weights)
            given = GivenColumns(features, request.given.degree, names)
    return as_scan(examine(columns, request, selection.listed(columns.used), given))


def _scan_first(columns: Columns, request: Request, selection: PairSelection, top: Top) -> Scan:
    """Test all pairs of a table square by square, and scan the first pairs."""
    search = _Search(columns, request, selection, top)
    search.run()
    best, histogram = search.best, search.histogram
    part, pairs = selected(columns, selection.in_order(best.pairs))
    examined = examine(part, request, pairs)
    # Where float32 hardly tells a correlation from 1, the screen's p-value has no correct digit.
    tests = examined.tests
    histogram.recount(best.log_p, tests.log_pvalue)
    scan = as_scan(examined, histogram.adjusted(tests.pvalue))
    of_all = {
        "most": top.count,
        "by": top.by,
        "columns": len(columns.used),
        "pairs": search.pairs,
        "tested": histogram.size,
        "discoveries": histogram.discoveries(FALSE_DISCOVERY_RATE),
    }
    return dataclasses.replace(scan, settings={**scan.settings, "top": of_all})


class _Search:
    """A search for the first pairs of a table, square by square.

    Attributes:
      pairs: number of pairs of all squares.
      histogram, best: p-values and first pairs of the squares so far.
    """

    def __init__(
        self, columns: Columns, request: Request, selection: PairSelection, top: Top
    ) -> None:
        self.columns, self.selection, self.top = columns, selection, top
        self.shown = request.execution.progress
        self.executor = request.execution.executor
        execution = dataclasses.replace(request.execution, progress=False, executor=None)
        self.request = dataclasses.replace(request, execution=execution)
        self.histogram, self.best = PValueHistogram(request.fdr), FirstPairs(top.count)
        kinds = _screened(columns, request)
        screened = np.concatenate([positions for positions, _ in kinds])
        others = np.setdiff1d(columns.used, screened)
        self.parts: list[Integers] = []
        ranked_parts: list[list[list[RankedColumn]]] = []
        for positions, ranked in (*kinds, (others, [])):
            places = _in_parts(positions, selection.targets)
            self.parts += [positions[part] for part in places]
            ranked_parts.append([[ranked[i] for i in part] for part in places if ranked])
        more, two, rare, _ = ranked_parts
        self.of_ranks = range(len(more) + len(two)) if more else range(0)
        self.of_two = range(len(more), len(more) + len(two) + len(rare))
        # The side of a small square is a multiple of 64, so that tables share compiled programs.
        side = min(TESTED_SIDE, -(-sum(map(len, more + two)) // 64) * 64)
        self.least_screened = MIN_SCREENED_SHARE * side**2
        self.screen = _screen_of([*more, *two], side) if more else None
        self.exact = [[column.codes for column in part] for part in [*two, *rare]]
        squares = [(i, j) for i in range(len(self.parts)) for j in range(i, len(self.parts))]
        counts = [self._count(*square) for square in squares]
        self.squares = [square for square, count in zip(squares, counts, strict=True) if count]
        self.counts = [count for count in counts if count]
        self.pairs = sum(counts)

    def run(self) -> None:
        """Test all squares."""
        with progress_bar(self.shown, self.pairs, "pair") as advance:
            for place, (log_p, found) in enumerate(self._scored()):
                self._keep(log_p, found, *self.squares[place])
                advance(self.counts[place])

    def _scored(self) -> Iterator[tuple[Floats | None, Square | None]]:
        """Yield log p-values ``(s, s)`` of each square, if it is screened, and its estimates."""
        if self.executor is not None:
            yield from spread(self.executor, map(self._task, range(len(self.squares))))
            return
        for log_p, square in self._tested():
            estimate = self._estimation(square, screened=log_p is not None)
            yield log_p, None if estimate is None else estimate()

    def _task(self, place: int) -> SquareTask:
        """Return what computes a square where an executor has its workers."""
        square = self.squares[place]
        test: SquareTask | None = None
        if self._is_exact(square):
            test = self._exact_test(square)
        elif self.screen is not None and self._is_screened(place):
            parts = [self.screen.parts[part] for part in dict.fromkeys(square)]
            test = functools.partial(
                _screened_log_pvalues, parts, self.screen.side, self.screen.laws
            )
        return functools.partial(
            _score_square, test, self._estimation(square, screened=test is not None)
        )

    def _estimation(self, square: tuple[int, int], *, screened: bool) -> SquareTask | None:
        """Return what estimates the pairs of a square; None where p-values are enough."""
        if screened and self.top.by == "pvalue":
            return None
        request = dataclasses.replace(self.request, test=None) if screened else self.request
        part, pairs = selected(self.columns, self.selection.in_order(self._pairs_of(*square)))
        return functools.partial(examine_square, part, pairs, request, None)

    def _pairs_of(self, left: int, right: int) -> Integers:
        """Return the requested pairs ``(N, 2)`` of a square."""
        first, second = self.parts[left][:, None], self.parts[right][None, :]
        is_requested = self.selection.contains(first, second)
        i, j = np.nonzero(np.triu(is_requested) if left == right else is_requested)
        return np.stack([self.parts[left][i], self.parts[right][j]], axis=1)

    def _is_exact(self, square: tuple[int, int]) -> bool:
        return all(part in self.of_two for part in square)

    def _exact_test(self, square: tuple[int, int]) -> SquareTask:
        codes = [self.exact[part - self.of_two.start] for part in square]
        return functools.partial(_exact_log_pvalues, *codes, same=square[0] == square[1])

    def _is_screened(self, place: int) -> bool:
        square = self.squares[place]
        of_ranks = all(part in self.of_ranks for part in square)
        enough = self.counts[place] >= self.least_screened
        return of_ranks and not self._is_exact(square) and enough

    def _tested(self) -> Iterator[tuple[Floats | None, tuple[int, int]]]:
        """Yield the squares, with log p-values ``(s, s)``, None if not screened."""
        next_products: Any = None
        for place, square in enumerate(self.squares):
            if self._is_exact(square):
                yield self._exact_test(square)(), square
                continue
            products = self._start(place) if next_products is None else next_products
            if self.screen is None or products is None:
                yield None, square
                continue
            # Computes the next products while the p-values of this square are evaluated.
            next_products = self._start(place + 1)
            yield self.screen.log_pvalues(*square, products), square

    def _start(self, place: int) -> Any:
        """Start the products of a square that is tested by ranks; None for any other square."""
        if self.screen is None or place >= len(self.squares) or not self._is_screened(place):
            return None
        return self.screen.start(*self.squares[place])

    def _keep(self, log_p: Floats | None, found: Square | None, left: int, right: int) -> None:
        """Count the p-values of a square, and keep its pairs that are among the first so far."""
        first, second = self.parts[left][:, None], self.parts[right][None, :]
        if log_p is not None:
            is_requested = self.selection.contains(first, second)
            log_p = log_p if is_requested.all() else np.where(is_requested, log_p, np.nan)
            self.histogram.add(log_p.ravel())
        if found is None:
            assert log_p is not None
            self.best.add(log_p, log_p, first, second)
            return
        pairs = self._pairs_of(left, right)
        if log_p is None:
            logs = found.tests.log_pvalue
            self.histogram.add(logs)
        else:
            rows, columns = (
                np.searchsorted(self.parts[part], side)
                for part, side in zip((left, right), pairs.T, strict=True)
            )
            logs = log_p[rows, columns]
        self.best.add(_sort_key(found, logs, self.top.by), logs, *pairs.T)

    def _count(self, left: int, right: int) -> int:
        is_requested = self.selection.contains(
            self.parts[left][:, None], self.parts[right][None, :]
        )
        return int(is_requested.sum()) // (2 if left == right else 1)


def _score_square(
    test: SquareTask | None, estimate: SquareTask | None
) -> tuple[Floats | None, Square | None]:
    """Test and estimate the pairs of a square."""
    return None if test is None else test(), None if estimate is None else estimate()


def _exact_log_pvalues(f: Sequence[Integers], g: Sequence[Integers], *, same: bool) -> Floats:
    log_p = exact_log_pvalues(f, g, np.ix_(np.arange(len(f)), np.arange(len(g))))
    return above_diagonal(log_p) if same else log_p


def _screen_of(parts: Sequence[Sequence[RankedColumn]], side: int, laws: Any = None) -> Any:
    """Return a `RankScreen`, which needs JAX."""
    from hgr_jax.scanning.screen import RankScreen

    return RankScreen(parts, side, laws)


def _screened_log_pvalues(parts: Sequence[Sequence[RankedColumn]], side: int, laws: Any) -> Floats:
    screen, right = _screen_of(parts, side, laws), len(parts) - 1
    return screen.log_pvalues(0, right, screen.start(0, right))


def _screened(columns: Columns, request: Request) -> list[tuple[Integers, list[RankedColumn]]]:
    """Return positions and ranks of three kinds of numbers whose pairs are screened.

    All are without missing values: numbers of more than two values, binary numbers, and binary
    numbers with a value too rare for the law of ranks, which Fisher's exact test alone can screen.
    No column is screened if kernels have higher degrees than the test: a pair may then have no
    value, which the screen does not notice.
    """
    kinds: list[tuple[list[int], list[RankedColumn]]] = [([], []) for _ in range(3)]
    kernels = request.measure.kernels
    of_test = request.test is not None and request.test.kind == "auto"
    of_test &= request.measure.name in ("hgr", "kb")
    of_test &= max(kernels.h, kernels.k) <= MOST_FUNCTIONS
    if of_test and request.row_weights is None and columns.rows >= MIN_TABULATED_ROWS:
        x = np.asarray(columns.numbers)
        whole = np.flatnonzero(~np.isnan(x).any(axis=0))
        for start in range(0, len(whole), RANKED_AT_ONCE):
            chosen = whole[start : start + RANKED_AT_ONCE]
            rank = ranks(x[:, chosen])
            for place, column in zip(chosen, ranked_columns([*map(codes_of, rank.T)]), strict=True):
                binary = column.is_binary
                if column.reliable or binary:
                    kind = (1 if column.reliable else 2) if binary else 0
                    positions, ranked = kinds[kind]
                    positions.append(int(place))
                    ranked.append(column.as_float32())
    return [(columns.number_positions[positions], ranked) for positions, ranked in kinds]


def _in_parts(positions: Integers, targets: list[int] | None) -> list[Integers]:
    """Return the places of columns in parts; those of targets are in parts of their own."""
    is_target = np.isin(positions, [] if targets is None else targets)
    kinds = (np.flatnonzero(each) for each in (is_target, ~is_target))
    return [part for places in kinds for part in chunks(places, TESTED_SIDE)]


def _sort_key(square: Square, log_p: Floats, by: str) -> Floats:
    """Return keys ``(N,)``, smallest for the first pairs; NaN for pairs without a value."""
    value = square.values.value
    if by == "pvalue":
        return log_p - 1e-9 * value  # of equal p-values, as permutations have, the largest value
    return -value if by == "correlation" else square.values.pearson - value


@dataclasses.dataclass
class FirstPairs:
    """The pairs with the smallest scores so far; of equal scores, the earliest pairs.

    Attributes:
      size: largest number of pairs.
      scores, log_p, pairs: ``(N,)``, ``(N,)`` and ``(N, 2)``.
    """

    size: int
    scores: Floats = dataclasses.field(default_factory=lambda: np.zeros(0))
    log_p: Floats = dataclasses.field(default_factory=lambda: np.zeros(0))
    pairs: Integers = dataclasses.field(default_factory=lambda: np.zeros((0, 2), np.intp))

    @property
    def worst_kept(self) -> float:
        """The score below which a new pair is among the first."""
        return float(self.scores[-1]) if len(self.scores) >= self.size else np.inf

    def add(self, scores: Floats, log_p: Floats, first: Integers, second: Integers) -> None:
        """Add pairs of columns with scores (NaN: none); columns broadcast to the scores' shape."""
        chosen = scores < self.worst_kept
        sides = [np.broadcast_to(side, scores.shape)[chosen] for side in (first, second)]
        scores = np.concatenate([self.scores, scores[chosen]])
        log_p = np.concatenate([self.log_p, log_p[chosen]])
        pairs = np.concatenate([self.pairs, np.stack(sides, axis=1)])
        order = np.argsort(scores, kind="stable")[: self.size]
        self.scores, self.log_p, self.pairs = scores[order], log_p[order], pairs[order]
