"""[family] What is kept of many p-values: how many there are of each size, and the pairs that come first.

[wide] Tables of very many columns: all pairs are tested, and only those that come first are kept.

Columns are taken in parts, and pairs in squares of two parts, so that memory is bounded.  Two
numbers without missing values are tested by `screen`, two of two values by `exact_tests`; all
others, and values by which pairs are kept, by what examines the pairs of a small table.  What is
left of a square is how many p-values there are of each size (`Family`) and which pairs come first
(`FirstPairs`); these alone are examined in full at the end.

"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._files import atomic_write
from hgr_jax._progress import progress_bar
from hgr_jax.core.host.ranks import LARGEST_DEGREE, RankedColumn, codes_of, ranked_columns, ranks
from hgr_jax.core.kernels import encode
from hgr_jax.inference._rank_law import LEAST_ROWS
from hgr_jax.scanning.pairs import check_size_of_first, selected
from hgr_jax.scanning.rank_tests import RANKED_AGAIN, ExactScreen
from hgr_jax.scanning.result import FALSE_DISCOVERY_RATE, Scan
from hgr_jax.scanning.run import Examined, Request, as_result, examine
from hgr_jax.scanning.screen import RankScreen, light
from hgr_jax.tables.columns import Columns
from hgr_jax.tables.faults import TableError

BINS_OF_E = 2**11
"""Bins for each factor e of a p-value: what is read off them is at most 0.05% too large."""

SLACK = 1e-6
"""Of a bin: a logarithm may have been rounded across its edge on the way through a p-value."""

LEAST = -800.0
"""Of the logarithms that are told apart; e to this is no longer a double."""


@dataclasses.dataclass
class Family:
    """How many p-values of a family there are in each of many bins of their logarithm.

    Attributes:
      counts: from the largest p-values to the least.
    """

    counts: NDArray[np.int64] = dataclasses.field(
        default_factory=lambda: np.zeros(1 - int(LEAST * BINS_OF_E), np.int64)
    )

    @property
    def size(self) -> int:
        """The number of p-values."""
        return int(self.counts.sum())

    def add(self, log_p: Floats) -> None:
        """Count some more, by their logarithms ``(N,)``, of which NaN are none."""
        self._count(log_p, 1)

    def replace(self, old: Floats, new: Floats) -> None:
        """Count some, with logarithms ``old (N,)``, by ``new`` ones."""
        self._count(old, -1)
        self._count(new, 1)

    def _count(self, log_p: Floats, times: int) -> None:
        log_p = log_p[~np.isnan(log_p)]
        if len(log_p):
            found = np.bincount(self._bins(log_p))
            self.counts[: len(found)] += times * found

    def adjusted(self, pvalues: Floats) -> Floats:
        """Return p-values ``(N,)`` of the family as Benjamini and Hochberg adjust them.

        Of the p-values in a bin the largest is taken to be as large as the bin allows: what is
        returned is too large by 0.05% at most.
        """
        known = ~np.isnan(pvalues)
        with np.errstate(divide="ignore"):
            bins = self._bins(np.log(pvalues[known]) - SLACK / BINS_OF_E)
        found = np.full(len(pvalues), np.nan)
        found[known] = np.exp(np.minimum(np.minimum.accumulate(self._by_bin()[0])[bins], 0))
        return np.maximum(found, pvalues)

    def discoveries(self, rate: float) -> int:
        """Return how many have an adjusted p-value of at most ``rate``."""
        adjusted, at_most = self._by_bin()
        fine = adjusted <= np.log(rate)
        return int(at_most[np.argmax(fine)]) if fine.any() else 0

    def _by_bin(self) -> tuple[Floats, Integers]:
        """Return log(p m / j) of the largest p-value that a bin may hold, inf if it holds none.

        And j, how many p-values are no larger.
        """
        at_most = np.cumsum(self.counts[::-1])[::-1]
        held = np.flatnonzero(self.counts)
        found = np.full(len(self.counts), np.inf)
        found[held] = np.log(max(self.size, 1)) - held / BINS_OF_E - np.log(at_most[held])
        return found, at_most

    @staticmethod
    def _bins(logs: Floats) -> Integers:
        return np.floor(-np.maximum(logs, LEAST) * BINS_OF_E).astype(np.intp)


@dataclasses.dataclass
class FirstPairs:
    """The pairs of the least scores so far.

    Attributes:
      most: how many are kept.
      scores, log_p, pairs: ``(N,)``, ``(N,)`` and ``(N, 2)`` of these; of equal scores, those that
        came first.
    """

    most: int
    scores: Floats = dataclasses.field(default_factory=lambda: np.zeros(0))
    log_p: Floats = dataclasses.field(default_factory=lambda: np.zeros(0))
    pairs: Integers = dataclasses.field(default_factory=lambda: np.zeros((0, 2), np.intp))

    @property
    def bound(self) -> float:
        """A score that is no longer among the first."""
        return float(self.scores[-1]) if len(self.scores) >= self.most else np.inf

    def add(self, scores: Floats, log_p: Floats, first: Integers, second: Integers) -> None:
        """Keep those of some pairs that are among the first; of a NaN score, none.

        Args:
          scores, log_p: of one shape.
          first, second: columns of each; they broadcast to this shape.
        """
        chosen = scores < self.bound
        found = [np.broadcast_to(side, scores.shape)[chosen] for side in (first, second)]
        scores = np.concatenate([self.scores, scores[chosen]])
        log_p = np.concatenate([self.log_p, log_p[chosen]])
        pairs = np.concatenate([self.pairs, np.stack(found, axis=1)])
        order = np.argsort(scores, kind="stable")[: self.most]
        self.scores, self.log_p, self.pairs = scores[order], log_p[order], pairs[order]


ORDERS_OF_ALL = ("pvalue", "correlation", "excess")
"""By which the pairs that come first can be told from the others one by one."""

SQUARE_SIDE = 512
"""Columns of a part: pairs are looked at in squares of two parts."""

KEPT_EVERY = 20.0
"""Seconds between two checkpoints."""

WIDE_CHECKPOINT = "wide.npz"

KEPT_ARRAYS = ("scores", "log_p", "pairs")
"""Of `FirstPairs`, in a checkpoint."""

STAMPED_VALUES = 2**10
"""By which the kernels of a checkpoint are known."""

RANKED_AT_ONCE = 2**9
"""Columns that are ranked at a time."""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """Which pairs are kept: the first so many by an order, of all that are asked for.

    Attributes:
      targets: positions; a pair has one of them.  None for all pairs.
      split: position where a second table begins, if any; a pair has a column of either.
    """

    most: int
    by: str
    targets: list[int] | None = None
    split: int | None = None

    def asked(self, first: Integers, second: Integers) -> NDArray[np.bool_]:
        """Return which pairs of columns, at positions of any shape, are asked for."""
        found = np.asarray(first != second)
        if self.targets is not None:
            found &= np.isin(first, self.targets) | np.isin(second, self.targets)
        if self.split is not None:
            found &= (first < self.split) != (second < self.split)
        return found

    def in_order(self, pairs: Integers) -> Integers:
        """Return pairs ``(N, 2)`` as a scan has them: as in the table, but with a target second."""
        pairs = np.sort(pairs, axis=1)
        if self.targets is None:
            return pairs
        turned = np.isin(pairs, self.targets) @ [2, 1] == 2
        return np.where(turned[:, None], pairs[:, ::-1], pairs)


def scan_best(columns: Columns, request: Request, wanted: Wanted, checkpoint: Path | None) -> Scan:
    """Examine all pairs of a table, and return the scan of those that come first."""
    used = np.sort(np.concatenate([columns.number_positions, columns.category_positions]))
    check_size_of_first(
        wanted.most,
        len(used),
        None if wanted.targets is None else len(wanted.targets),
        tested=request.pvalues is not None,
        others=None if wanted.split is None else int(np.sum(used >= wanted.split)),
    )
    request = dataclasses.replace(request, ranked_again=_ranked_again(columns, request, wanted))
    search = _Search(columns, request, wanted)
    search.run(None if checkpoint is None else checkpoint / WIDE_CHECKPOINT)
    best, family = search.best, search.family
    part, pairs, positions = selected(columns, wanted.in_order(best.pairs))
    examined = examine(part, request, pairs, positions)
    # Of a correlation that float32 hardly tells from 1 the screen knows no digit of the p-value.
    family.replace(best.log_p, examined.tests.log_pvalue)
    found = as_result(part, request, examined, family.adjusted)
    told = {
        "most": wanted.most,
        "by": wanted.by,
        "columns": len(used),
        "pairs": search.pairs,
        "tested": family.size,
        "discoveries": family.discoveries(FALSE_DISCOVERY_RATE),
    }
    return dataclasses.replace(found, settings={**found.settings, "top": told})


class _Search:
    """The squares of a table, and what is kept of those that are done.

    Attributes:
      pairs: how many there are.
    """

    def __init__(self, columns: Columns, request: Request, wanted: Wanted) -> None:
        self.columns, self.wanted = columns, wanted
        self.request = dataclasses.replace(request, progress=False, standard_errors=False)
        self.shown = request.progress
        self.family, self.best = Family(), FirstPairs(wanted.most)
        kinds = _screened(columns, request)
        used = np.concatenate([columns.number_positions, columns.category_positions])
        rest = np.setdiff1d(used, np.concatenate([positions for positions, _ in kinds]))
        self.parts = [part for each in (*(p for p, _ in kinds), rest) for part in _in_parts(each)]
        more, two, rare = (_in_parts(ranked) for _, ranked in kinds)
        self.of_ranks = range(len(more) + len(two)) if more else range(0)
        self.of_two = range(len(more), len(more) + len(two) + len(rare))
        # Of few columns a square is no larger than they need, up to a multiple that programs share.
        side = min(SQUARE_SIDE, -(-sum(map(len, more + two)) // 64) * 64)
        self.screen = RankScreen([*more, *two], side) if more else None
        self.exact = ExactScreen([[column.codes for column in part] for part in [*two, *rare]])
        squares = [(i, j) for i in range(len(self.parts)) for j in range(i, len(self.parts))]
        counts = [self._count(*square) for square in squares]
        self.squares = [square for square, count in zip(squares, counts, strict=True) if count]
        self.counts = [count for count in counts if count]
        self.pairs = sum(counts)

    def run(self, path: Path | None) -> None:
        """Do all squares; those that an earlier run has kept at ``path`` are done."""
        stamp = self._stamp() if path is not None else ""
        done = self._resumed(path, stamp)
        saved = time.monotonic()
        with progress_bar(
            self.shown, self.pairs, unit="pair", extra="table", label="pairs", leave=False
        ) as advance:
            advance(sum(self.counts[:done]))
            for log_p, square in self._tested(done):
                self._keep(log_p, *square)
                advance(self.counts[done])
                done += 1
                if path is not None and time.monotonic() - saved > KEPT_EVERY:
                    self._save(path, done, stamp)
                    saved = time.monotonic()
        if path is not None:
            self._save(path, done, stamp)

    def _tested(self, done: int) -> Iterator[tuple[Floats | None, tuple[int, int]]]:
        """Yield squares from one on, with log p-values ``(s, s)`` of those that are screened."""
        ahead: Any = None
        for place in range(done, len(self.squares)):
            square = self.squares[place]
            if all(part in self.of_two for part in square):
                yield self.exact.log_pvalues(*(part - self.of_two.start for part in square)), square
                continue
            started = self._start(place) if ahead is None else ahead
            if self.screen is None or started is None:
                yield None, square
                continue
            # The next products are under way while those of this one are looked at.
            ahead = self._start(place + 1)
            yield self.screen.log_pvalues(*square, started), square

    def _start(self, place: int) -> Any:
        """Begin with a square of those to be tested by ranks; None for any other."""
        if self.screen is None or place >= len(self.squares):
            return None
        square = self.squares[place]
        of_ranks = all(part in self.of_ranks for part in square)
        of_two = all(part in self.of_two for part in square)
        return self.screen.start(*square) if of_ranks and not of_two else None

    def _keep(self, log_p: Floats | None, left: int, right: int) -> None:
        """Count the p-values of a square, and keep its pairs that are among the first."""
        first, second = self.parts[left][:, None], self.parts[right][None, :]
        if log_p is not None:
            asked = self.wanted.asked(first, second)
            log_p = log_p if asked.all() else np.where(asked, log_p, np.nan)
            self.family.add(log_p.ravel())
            if self.wanted.by == "pvalue":
                self.best.add(log_p, log_p, first, second)
                return
        asked = self.wanted.asked(first, second)
        i, j = np.nonzero(np.triu(asked) if left == right else asked)
        pairs = np.stack([self.parts[left][i], self.parts[right][j]], axis=1)
        request = self.request if log_p is None else dataclasses.replace(self.request, pvalues=None)
        part, of_part, positions = selected(self.columns, self.wanted.in_order(pairs))
        found = examine(part, request, of_part, positions)
        logs = found.tests.log_pvalue if log_p is None else log_p[i, j]
        if log_p is None:
            self.family.add(logs)
        self.best.add(_order_of(found, logs, self.wanted.by), logs, *pairs.T)

    def _count(self, left: int, right: int) -> int:
        asked = self.wanted.asked(self.parts[left][:, None], self.parts[right][None, :])
        return int(asked.sum()) // (2 if left == right else 1)

    def _stamp(self) -> str:
        """Return what the table and the options are, so that no other run goes on from this one."""
        request, wanted = self.request, self.wanted
        x = np.asarray(self.columns.numbers)
        kernels = [_told_of_kernel(each, x) for each in (request.kernels.h, request.kernels.k)]
        key = None if request.key is None else jax.random.key_data(request.key).tolist()
        dtype = str(jnp.result_type(float))
        options = [request.settings(self.columns, dtype), kernels, key, SQUARE_SIDE]
        told = [*options, dataclasses.astuple(wanted), self.columns.names]
        found = hashlib.sha256(json.dumps(told, default=str).encode())
        for array in [x, request.weights, *(each.codes for each in self.columns.categories)]:
            found.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
        return found.hexdigest()

    def _resumed(self, path: Path | None, stamp: str) -> int:
        if path is None or not path.exists():
            return 0
        try:
            with np.load(path, allow_pickle=False) as kept:
                words = json.loads(str(kept["words"]))
                arrays = {name: kept[name] for name in ("bins", "counts", *KEPT_ARRAYS)}
            same, done = words["stamp"] == stamp, int(words["done"])
        except Exception as error:  # of whatever a damaged archive makes its readers do
            raise TableError(
                f"{path} does not hold the checkpoint of a scan, or is damaged: remove it"
            ) from error
        if not same:
            raise TableError(
                f"{path.parent} holds the checkpoint of another scan (another table, or other"
                " options): remove it, or name another folder"
            )
        self.family.counts[arrays["bins"]] = arrays["counts"]
        for name in KEPT_ARRAYS:
            setattr(self.best, name, arrays[name])
        return done

    def _save(self, path: Path, done: int, stamp: str) -> None:
        bins = np.flatnonzero(self.family.counts)
        words = np.array(json.dumps({"stamp": stamp, "done": done}))
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as partial, partial.open("wb") as file:
            np.savez(
                file,
                allow_pickle=False,
                words=words,
                bins=bins,
                counts=self.family.counts[bins],
                **{name: getattr(self.best, name) for name in KEPT_ARRAYS},
            )


def _screened(columns: Columns, request: Request) -> list[tuple[Integers, list[RankedColumn]]]:
    """Return positions of the columns whose pairs are screened, and these by their ranks.

    They are numbers without missing values: those of more than two values, of two values, and of
    two of which one is too rare for a law of ranks, so that only the law of two of two is known.
    With kernels of higher degrees than the test's a pair may have no value, which a screen would
    not know.
    """
    found: list[tuple[list[int], list[RankedColumn]]] = [([], []) for _ in range(3)]
    of_test = request.pvalues == "auto" and request.method == "kb"
    of_test &= request.kernels.plain and request.kernels.largest <= LARGEST_DEGREE
    if of_test and request.weights is None and columns.rows >= LEAST_ROWS:
        x = np.asarray(columns.numbers)
        whole = np.flatnonzero(~np.isnan(x).any(axis=0))
        for start in range(0, len(whole), RANKED_AT_ONCE):
            chosen = whole[start : start + RANKED_AT_ONCE]
            rank = ranks(x[:, chosen])
            for place, column in zip(chosen, ranked_columns([*map(codes_of, rank.T)]), strict=True):
                two = len(column.table) == 1
                if column.trusted or two:
                    positions, ranked = found[(1 if column.trusted else 2) if two else 0]
                    positions.append(int(place))
                    ranked.append(light(column))
    return [(columns.number_positions[positions], ranked) for positions, ranked in found]


def _ranked_again(columns: Columns, request: Request, wanted: Wanted) -> bool:
    """Return what `RankTests` would tell from all pairs: whether some are ranked again."""
    there = ~np.isnan(np.asarray(columns.numbers))
    if request.weights is not None:
        there &= (request.weights > 0)[:, None]
    positions = columns.number_positions
    _, gaps = np.unique(np.packbits(there, axis=0), axis=1, return_inverse=True)
    target = np.isin(positions, wanted.targets or ())
    second = positions >= (wanted.split or 0)
    # Columns of the same gaps, of which the same is asked, are as one.
    kinds, some = np.unique(
        np.stack([gaps.ravel(), target, second], axis=1), axis=0, return_index=True
    )
    gaps, positions = kinds[:, 0], positions[some]
    unlike: set[tuple[int, int]] = set()
    for gap, position in zip(gaps.tolist(), positions, strict=True):
        others = gaps[wanted.asked(position, positions)]
        unlike.update((min(gap, each), max(gap, each)) for each in others.tolist() if each != gap)
        if len(unlike) * columns.rows > RANKED_AGAIN:
            return False
    return True


def _in_parts(columns: Any) -> list[Any]:
    return [columns[i : i + SQUARE_SIDE] for i in range(0, len(columns), SQUARE_SIDE)]


def _told_of_kernel(kernel: Any, x: Floats) -> Any:
    """Return what tells a kernel from another: of a function, its values on some of the data."""
    if not callable(kernel):
        return kernel
    some = x[: -(-STAMPED_VALUES // max(x.shape[1], 1))].ravel()
    some = some[np.isfinite(some)][:STAMPED_VALUES]
    return np.asarray(encode(kernel, jnp.asarray(some), None, "of this scan")[1]).tolist()


def _order_of(found: Examined, log_p: Floats, by: str) -> Floats:
    """Return what is least for the pairs that come first ``(N,)``; NaN for those of no value."""
    value = found.found.correlation
    if by == "pvalue":
        return np.where(np.isfinite(value), log_p, np.nan)
    return -value if by == "correlation" else found.found.pearson - value
