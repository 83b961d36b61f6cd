"""What makes a dependence other than a relation: single rows, copies, the order, marks, a sum.

A p-value says that a dependence is more than chance in rows that are independent of each other.  A
`Remark` says what else may have made it; where it `explains` the dependence, the pair is no
finding.

* `few rows`: a single row, a handful, or the rows with one value;
* `copies`: rows that repeat other rows;
* `order`: rows that resemble the rows before them, as those of a series do;
* `mark`: a far, repeated value, as -200 or 999 for a missing one;
* `construction`: a column that is computed from the other one;
* `values`: a column of few values, or one value against all others.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers, in_unit
from hgr_jax._texts import counted, pvalue_as_text
from hgr_jax.core.host.linalg import top_singular_values
from hgr_jax.core.host.ranks import ranks
from hgr_jax.core.kernels import Indicators
from hgr_jax.inference.dependent_rows import SeriesFunctions, shift_test
from hgr_jax.inference.independence import independence_test
from hgr_jax.inference.roys_root.law import log_survival_of_many
from hgr_jax.scanning.fits import HostPair, PairDetails
from hgr_jax.tables.columns import Columns

MAX_LEFT, MIN_PART_OF_ROWS = 0.5, 0.5
"""Largest share of HGR that is left without the rows that explain it, and smallest share of the
correlation that they make."""

ROWS_PER_FEW, MOST_FEW = 50, 10
"""Of this many rows one belongs to a handful, of at most so many."""

MAX_VALUE_SHARE = 0.05
"""Largest share of the rows with one value that counts as few."""

MIN_PART_OF_VALUE, MIN_CHANGE = 0.25, 0.03
"""Smallest share of the correlation that the rows with one value make, and change of HGR without
them, for a remark."""

MIN_DISTINCT = 10
"""Smallest number of values of a column of which one value may be a special one."""

MAX_EXAMINED_ROWS, MAX_SAMPLE_ERROR = 100_000, 0.1
"""Number of rows above which a sample of so many is examined, and the largest relative difference
of HGR there."""

MIN_COPIED_SHARE, MIN_COPIED_ROWS = 0.1, 5
"""Smallest share and number of rows that repeat others, for a remark."""

MAX_COLUMNS_COMPARED = 64
"""Largest number of columns that are compared to find copies of rows."""

MIN_ORDERED_ROWS = 30
"""Smallest number of rows for a remark on their order."""

LAGS, MIN_AUTOCORRELATION, MIN_AUTOCORRELATIONS = 4, 0.15, 0.35
"""Number of rows before a row that it is compared with, and smallest correlations of residuals with
the first and with all of them, summed, for a remark on the order."""

ROWS_OF_LOCAL_MEAN = 8
"""Number of rows whose mean is the value of one column given the other."""

MIN_TREND, MIN_OF_RANKS = 0.99, 0.6
"""Smallest correlation with the order of a column that just rises or falls, and of successive ranks
of a slow series."""

MIN_OF_DIFFERENCES = -0.2
"""Smallest correlation of successive differences of a slow series beside a column that just rises
or falls."""

MIN_MEDIAN_POSITION = 0.1
"""Smallest distance of the median of identifiers from the ends of their range, as a share of it:
amounts, which are mostly small, have a smaller one."""

NAME_OF_IDENTIFIER = re.compile(
    r"(^|[_\W])(id|idx|index|key|nr|no|num|number|row|serial)$|(?-i:[a-z]I[dD]$)", re.IGNORECASE
)
"""Names of columns that number the rows and are nothing else."""

MIN_RUN = 8
"""Smallest mean length of the runs of a column by which a table is sorted."""

MAX_SERIES_VALUE = 0.998
"""Largest HGR that series which have nothing to do with each other reach."""

MAX_SHIFT_PVALUE = 0.01
"""Largest p-value by circular shifts of a pair that the order of the rows does not explain."""

SHIFTED_FUNCTIONS = 4
"""Number of functions of either column that are shifted: a test of all takes a second of 100,000
rows."""

MIN_MARK_ROWS = 3
MIN_GAP, MIN_GAP_OF_MARK = 1.0, 0.5
"""Smallest distance of a repeated value from all others, in units of their central range: of any
value, and of one that often stands for a missing value."""

FEW_VALUES = 5
"""Largest number of values of a number that is called one of few values."""

ALL_LEVELS = 0.999
"""Smallest HGR of a category that determines the other column."""

ONE_LEVEL = 0.9
"""Smallest share of the variance of a transformation that one level against all others explains,
for a remark."""

MAX_PARTS, MAX_ROWS_SUMMED, MAX_COLUMNS_SUMMED, MAX_SUMMED = 6, 2000, 300, 1e100
"""Largest number of parts of a total, and of rows, columns and size of what is summed."""


@dataclasses.dataclass(frozen=True)
class Remark:
    """What may make a dependence.

    Attributes:
      kind: a word of the module's list.
      text: a part of a sentence.
      explains: whether little is left of the dependence without it.
    """

    kind: str
    text: str
    explains: bool = False


@dataclasses.dataclass(frozen=True)
class ExaminedPair:
    """A pair of columns that is examined.

    Attributes:
      names: of the columns.
      pair: the rows where both are present.
      details: its transformations, and the influence of its rows.
      value: HGR.
      f, g: values of the transformations, ``(n,)``.
    """

    names: tuple[str, str]
    pair: HostPair
    details: PairDetails
    value: float
    f: Floats
    g: Floats

    @classmethod
    def of(cls, scan: Any, names: tuple[str, str], value: float) -> ExaminedPair | None:
        """Examine two columns of a `Scan`; None where there is no correlation.

        Of very many rows a sample, if HGR is nearly the same there.
        """
        pair = HostPair.of_ranks(scan, *names)
        rows = len(pair.rows)
        if rows > MAX_EXAMINED_ROWS:
            chosen = np.zeros(rows, bool)
            chosen[np.random.default_rng(0).choice(rows, MAX_EXAMINED_ROWS, replace=False)] = True
            sample = pair.restricted(chosen)
            if abs(sample.value - value) <= MAX_SAMPLE_ERROR * value:
                pair = sample
        details = pair.details()
        if details is None:
            return None
        f, g = details.f(pair.columns[0]), details.g(pair.columns[1])
        if details.residuals is not None:
            f, g = (side[pair.rows] for side in details.residuals)
        return cls(names, pair, details, value, f, g)


@dataclasses.dataclass(frozen=True)
class CopiedRows:
    """Rows that repeat other rows: how many of how many, and which rows ``(n,)`` remain."""

    count: int
    rows: int
    remaining: NDArray[np.bool_]


class RemarkFinder:
    """What is known of a table, for remarks on its pairs."""

    def __init__(self, scan: Any) -> None:
        self.scan = scan
        self.columns: Columns = scan.data
        used = set(scan.used)
        places = zip(self.columns.number_positions.tolist(), self.columns.numbers.T, strict=True)
        names = self.columns.names
        self.numbers: dict[str, Floats] = {
            names[i]: values for i, values in places if names[i] in used
        }
        categories = zip(
            self.columns.category_positions.tolist(), self.columns.categories, strict=True
        )
        self.codes = {names[i]: c.codes for i, c in categories if names[i] in used}

    def remarks(self, examined: ExaminedPair) -> list[Remark]:
        """Return the remarks on a pair, those that explain it first."""
        makers = (
            self._on_construction,
            self._on_marks,
            self._on_few_rows,
            self._on_copies,
            self._on_order,
            self._on_values,
        )
        found = [remark for make in makers for remark in make(examined)]
        if any(remark.explains for remark in found):
            found = [remark for remark in found if remark.explains or remark.kind != "values"]
        return sorted(found, key=lambda remark: not remark.explains)

    @functools.cached_property
    def marks(self) -> dict[str, dict[float, int]]:
        """Values that may stand for a missing one, and their numbers of rows, by column."""
        found = {}
        step = max(1, self.columns.rows // MAX_EXAMINED_ROWS)
        for name, values in self.numbers.items():
            marks = marks_of(values[::step]) if name not in self.columns.dates else {}
            if marks:
                found[name] = {mark: int(np.sum(values == mark)) for mark in marks}
        return found

    @functools.cached_property
    def copies(self) -> CopiedRows | None:
        """Rows that repeat others, if they are more than values of few digits make."""
        marked = [np.isin(self.numbers[name], list(marks)) for name, marks in self.marks.items()]
        kept = np.flatnonzero(
            ~np.any(marked, axis=0) if marked else np.ones(self.columns.rows, bool)
        )
        columns = [np.asarray(values, np.float64)[kept] for values in self.numbers.values()]
        columns += [codes.astype(np.float64)[kept] for codes in self.codes.values()]
        step = max(1, len(columns) // MAX_COLUMNS_COMPARED)
        columns = columns[::step]
        rows = len(columns[0]) if columns else 0
        if len(columns) < 2 or rows < 2 * MIN_COPIED_ROWS:
            return None
        _, first = np.unique(_hashes(columns), return_index=True)
        count = rows - len(first)
        if count < max(MIN_COPIED_ROWS, MIN_COPIED_SHARE * rows):
            return None
        if not _chance_makes_no_copies(columns, len(first)):
            return None
        remaining = np.zeros(self.columns.rows, bool)
        remaining[kept[first]] = True
        return CopiedRows(count, rows, remaining)

    @functools.cached_property
    def order(self) -> Integers:
        """The rows ``(n,)`` by a column of dates that are mostly distinct, or as they are."""
        for name in self.columns.dates:
            values = self.numbers.get(name)
            if values is None:
                continue
            present = values[~np.isnan(values)]
            if len(np.unique(present)) > len(values) / 2:
                return np.argsort(values, kind="stable")
        return np.arange(self.columns.rows)

    @functools.cached_property
    def runs(self) -> Integers:
        """The run ``(n,)`` that each row is in, of a column of few values that sorts the table.

        Within a run, the order of the rows is not that of the column.
        """
        order, rows = self.order, self.columns.rows
        best, most = np.zeros(rows, np.intp), 1
        for values in (*self.numbers.values(), *self.codes.values()):
            ordered = values[order]
            starts = np.r_[True, ordered[1:] != ordered[:-1]]
            runs = int(starts.sum())
            if most < runs <= rows // MIN_RUN and runs == len(np.unique(ordered)):
                best, most = np.empty(rows, np.intp), runs
                best[order] = np.cumsum(starts)
        return best

    def _on_few_rows(self, examined: ExaminedPair) -> Iterator[Remark]:
        """Remark on a single row, a handful, or the rows with one value."""
        pair, influence = examined.pair, examined.details.influence
        rows = len(pair.rows)
        most = max(1, min(MOST_FEW, rows // ROWS_PER_FEW))
        for count in range(1, most + 1):
            if not np.nansum(influence.shares[:count]) >= MIN_PART_OF_ROWS:
                continue
            left = pair.restricted(~np.isin(pair.rows, influence.rows[:count]))
            if left.value <= MAX_LEFT * examined.value:
                positions = self.columns.positions_of(sorted(influence.rows[:count]))
                listed = ", ".join(map(str, positions))
                what = f"row {listed} makes it" if count == 1 else f"rows {listed} make it"
                # A rare value is one that few rows have, and may well matter.
                explains = count == 1 or left.varies
                yield Remark("few rows", f"{what}: {left.value:.3f} without", explains)
                return
        yield from self._on_one_value(examined)

    def _on_one_value(self, examined: ExaminedPair) -> Iterator[Remark]:
        """Remark on the rows with one value of many, if these are few and make the dependence."""
        pair, rows = examined.pair, len(examined.pair.rows)
        products = examined.f * examined.g * pair.fitted.shares
        total = products.sum()
        for name, column in zip(examined.names, pair.columns, strict=True):
            if name in self.codes or not total > 0:
                continue
            values, codes = np.unique(column, return_inverse=True)
            counts, parts = np.bincount(codes), np.bincount(codes, products) / total
            top = int(np.argmax(parts))
            if 1 < counts[top] <= MAX_VALUE_SHARE * rows and len(values) > MIN_DISTINCT:
                if parts[top] < MIN_PART_OF_VALUE:
                    continue
                left = pair.restricted(codes != top)
                what = f"the {counts[top]:,} rows where {name} is {values[top]:g}"
                if left.value <= MAX_LEFT * examined.value:
                    yield Remark("few rows", f"{what} make it: {left.value:.3f} without", True)
                    return
                if left.value <= examined.value - MIN_CHANGE:
                    yield Remark("few rows", f"{left.value:.3f} without {what}")
                    return

    def _on_copies(self, examined: ExaminedPair) -> Iterator[Remark]:
        """Remark on copies of rows, with the p-value without them."""
        if self.copies is None:
            return
        left = examined.pair.restricted(self.copies.remaining[examined.pair.rows])
        pvalue = pvalue_of(left)
        text = f"{left.value:.3f} (p = {pvalue_as_text(pvalue)}) without copies of rows"
        yield Remark("copies", text, not pvalue <= 0.05)

    def _on_order(self, examined: ExaminedPair) -> Iterator[Remark]:
        """Remark on a pair whose residuals resemble those of the rows before."""
        pair = examined.pair
        if len(pair.rows) < MIN_ORDERED_ROWS or examined.value > MAX_SERIES_VALUE:
            return
        if self.copies is not None:  # they often follow one another
            return
        if self.scan.settings.get("order"):  # its p-value is by shifts
            return
        order = np.argsort(np.argsort(self.order)[pair.rows], kind="stable")
        f, g = examined.f[order], examined.g[order]
        x, y = (column[order] for column in pair.columns)
        runs = self.runs[pair.rows][order]
        # In rows that are independent given one column, the residuals are not alike.
        residuals = [_autocorrelations(_local_residuals(*side), runs) for side in ((g, x), (f, y))]
        alike = all(
            r[0] > MIN_AUTOCORRELATION and r.sum() > MIN_AUTOCORRELATIONS for r in residuals
        )
        of_ranks = [ranks(column[:, None])[:, 0] for column in (x, y)]
        trends = [abs(_signed_pearson(r, np.arange(float(len(r))))) > MIN_TREND for r in of_ranks]
        if any(trends):
            # Differences of independent rows have the correlation -1/2, those of a walk have 0.
            slow = any(
                trend and _autocorrelations(np.diff(other), runs[1:])[0] > MIN_OF_DIFFERENCES
                for trend, other in zip(trends, of_ranks[::-1], strict=True)
            )
        else:
            slow = all(_autocorrelations(r, runs)[0] > MIN_OF_RANKS for r in of_ranks)
        if not alike and not slow:
            return
        pvalue = shift_pvalue(pair, order)
        text = f"both are slow series: p = {pvalue:.2g} by circular shifts"
        # The smallest of n shifts has p = 1 / n.
        largest = max(MAX_SHIFT_PVALUE, 1.5 / len(order))
        yield Remark("order", text, alike and pvalue > largest)

    def _on_marks(self, examined: ExaminedPair) -> Iterator[Remark]:
        """Remark on values that may stand for a missing one."""
        for name, column in zip(examined.names, examined.pair.columns, strict=True):
            marks = self.marks.get(name)
            if not marks:
                continue
            marked = np.isin(column, list(marks))
            if not marked.any():
                continue
            left = examined.pair.restricted(~marked)
            if len(left.rows) and left.value <= examined.value - MIN_CHANGE:
                listed = " and ".join(f"{value:g}" for value in marks)
                what = f"{listed} in {counted(int(marked.sum()), 'row')} of {name}"
                text = f"{what} (a missing value?): {left.value:.3f} without"
                usual = any(is_usual_mark(value) for value in marks)
                yield Remark("mark", text, usual and left.value <= MAX_LEFT * examined.value)

    def _on_values(self, examined: ExaminedPair) -> Iterator[Remark]:
        """Remark on a column of few values, and on one level against all others."""
        shares = examined.pair.fitted.shares
        sides = zip(examined.names, examined.pair.columns, (examined.f, examined.g), strict=True)
        for name, column, heights in sides:
            values, codes = np.unique(column, return_inverse=True)
            if name not in self.codes:
                if name not in self.columns.dates and self._is_index(name):
                    is_named_so = NAME_OF_IDENTIFIER.search(name) is not None
                    yield Remark("values", f"{name} numbers the rows: an identifier?", is_named_so)
                if len(values) <= FEW_VALUES:
                    yield Remark("values", f"{name} has {counted(len(values), 'value')}")
                continue
            weight, variance = np.bincount(codes, shares), np.bincount(codes, shares * heights**2)
            explained = variance / np.maximum(1 - weight, 1e-12)  # of it and the others
            top = int(np.argmax(explained))
            if examined.value > ALL_LEVELS or len(values) < 3:
                continue  # any functions of the levels will do
            if explained[top] >= ONE_LEVEL * variance.sum():
                category = self.scan.category(name)
                level, rows = category.levels[int(values[top])], int((codes == top).sum())
                text = f"{name} {level!r} ({counted(rows, 'row')}) against all others"
                yield Remark("values", text)

    def _on_construction(self, examined: ExaminedPair) -> Iterator[Remark]:
        """Remark on a column that is computed from the other one."""
        names, columns = examined.names, examined.pair.columns
        for (a, x), (b, y) in (
            ((names[0], columns[0]), (names[1], columns[1])),
            ((names[1], columns[1]), (names[0], columns[0])),
        ):
            both_levels = a in self.codes and b in self.codes
            if both_levels and is_function(x, y) and len(np.unique(y)) < len(np.unique(x)):
                yield Remark("construction", f"each {a} has one {b}", True)
                return
            parts = self.parts_of(a)
            if b in parts:
                yield Remark("construction", f"{a} = {' + '.join(parts)}", True)
                return
        if all(self._is_index(name) for name in names):
            text = "both count the rows in their order"
            yield Remark("construction", text, True)

    def _is_index(self, name: str) -> bool:
        """Return whether a column numbers the rows in their order, or is a date that does."""
        values = self.numbers.get(name)
        if values is None or np.isnan(values).any() or len(values) < MIN_ORDERED_ROWS:
            return False
        before, after = values[:-1], values[1:]
        if name in self.columns.dates:
            return bool((before <= after).all() or (before >= after).all())
        rising = (before < after).all() or (before > after).all()
        if not rising:
            return False
        unit, _ = in_unit(values)
        position = (np.median(unit) - unit.min()) / np.ptp(unit)
        evenly = abs(position - 0.5) <= 0.5 - MIN_MEDIAN_POSITION
        return bool(evenly and (values == np.floor(values)).all())

    @functools.cached_property
    def _complete(self) -> tuple[list[str], Floats]:
        """Names of nearly complete numbers, and their values in rows that have all of them."""
        step = max(1, self.columns.rows // (2 * MAX_ROWS_SUMMED))
        columns = {
            name: values[::step].astype(np.float64)
            for name, values in self.numbers.items()
            if name not in self.columns.dates and np.isnan(values).mean() < 0.2
        }
        columns = {n: x for n, x in columns.items() if np.nanmax(np.abs(x)) < MAX_SUMMED}
        names = [*columns][:MAX_COLUMNS_SUMMED]
        matrix = np.array([columns[name] for name in names]).reshape(len(names), -1).T
        matrix = matrix[~np.isnan(matrix).any(axis=1)][:MAX_ROWS_SUMMED]
        return (names, matrix) if len(matrix) >= MIN_ORDERED_ROWS else ([], matrix)

    @functools.cache  # noqa: B019 - a finder lives as long as one list of findings
    def parts_of(self, name: str) -> tuple[str, ...]:
        """Return the columns that add up to a column, but for rounding; none if it is no total."""
        names, values = self._complete
        if name not in names:
            return ()
        total = values[:, names.index(name)]
        rounding = 32 * float(np.finfo(self.numbers[name].dtype).eps) * float(np.abs(total).max())
        free = np.abs(values - total[:, None]).max(axis=0) > rounding
        for _ in range(MAX_PARTS):
            parts, rest = _largest_parts(total, values, free, rounding)
            if not parts or np.abs(rest).max() <= rounding:
                return tuple(names[place] for place in parts)
            free[parts[0]] = False  # a column that is near to the total, but no part of it
        return ()


def _largest_parts(
    total: Floats, values: Floats, free: NDArray[np.bool_], rounding: float
) -> tuple[list[int], Floats]:
    """Return which free columns leave the least of a total, one after the other, and the rest."""
    parts, rest, free = list[int](), total, free.copy()
    while free.any() and len(parts) < MAX_PARTS and np.abs(rest).max() > rounding:
        left = np.where(free, (rest[:, None] - values).var(axis=0), np.inf)
        part = int(np.argmin(left))
        if left[part] >= rest.var():
            break
        parts.append(part)
        free[part], rest = False, rest - values[:, part]
    return parts, rest


def marks_of(values: Floats) -> dict[float, int]:
    """Return values at the ends of a column that may stand for a missing one, and their counts.

    Each is far from all values between them, and is repeated or a usual one.
    """
    present = values[~np.isnan(values)]
    distinct, counts = np.unique(present, return_counts=True)
    found: dict[float, int] = {}
    low, high = 0, len(distinct)
    while high - low > 3:
        low_gap, high_gap = (
            distinct[low + 1] - distinct[low],
            distinct[high - 1] - distinct[high - 2],
        )
        at_low = low_gap > high_gap
        place = low if at_low else high - 1
        inside = slice(low + 1, high) if at_low else slice(low, high - 1)
        first, last = _central_range(distinct[inside], counts[inside])
        value = float(distinct[place])
        is_mark = _may_be_missing(value, float(distinct[inside][0]))
        few = high - low <= MIN_DISTINCT + 2
        needed = MIN_GAP_OF_MARK if is_mark else MIN_GAP
        far = max(low_gap, high_gap) > needed * (last - first)
        repeated = (is_mark and abs(value) > 9) or counts[place] >= max(
            MIN_MARK_ROWS, 0.002 * len(present)
        )
        if not (far and repeated and (is_mark or not few)) or len(found) == 3:
            break
        found[value] = int(counts[place])
        low, high = low + at_low, high - (not at_low)
    return found if 2 * sum(found.values()) < len(present) else {}


def is_usual_mark(value: float) -> bool:
    """Return whether a value often stands for a missing one, and seldom for itself."""
    return value < 0 or (value >= 99 and set(f"{value:.0f}") == {"9"})


def _may_be_missing(value: float, least: float) -> bool:
    """Return whether a value often stands for a missing one: -1, 9.99, 999, -200."""
    digits = f"{abs(value):g}".replace(".", "").strip("0")
    return set(digits) == {"9"} or (value < 0 <= least and len(digits) < 3)


def _central_range(values: Floats, counts: Integers) -> tuple[float, float]:
    """Return the 1% and 99% quantiles."""
    shares = np.cumsum(counts) / counts.sum()
    return float(values[shares >= 0.01][0]), float(values[shares >= 0.99][0])


def is_function(x: Floats, y: Floats) -> bool:
    """Return whether ``y`` is one value for each value of ``x``, most of which are repeated."""
    distinct = len(np.unique(x))
    return 2 * distinct <= len(x) and len(np.unique([x, y], axis=1).T) == distinct


def shift_pvalue(pair: HostPair, order: Integers) -> float:
    """Return the p-value of independence by circular shifts of the rows in their order."""
    a, b = (
        SeriesFunctions.of(
            side[:SHIFTED_FUNCTIONS, order], of_levels=isinstance(kernel, Indicators)
        )
        for side, kernel in zip(pair.sides, pair.kernels, strict=True)
    )
    return shift_test(a, b).pvalue


def pvalue_of(pair: HostPair) -> float:
    """Return the p-value of independence of a pair: of ranks, or of a category by Roy's law."""
    if not pair.varies:
        return 1.0
    if not pair.has_category and pair.conditioning is None:
        return independence_test(*pair.columns, weights=pair.weights).pvalue
    m = pair.moments
    sizes = [np.array([[size]]) for size in m.shape]
    value = np.minimum(top_singular_values(m[..., None]), 1)[None]
    return float(np.exp(log_survival_of_many(value, pair.estimate.rows, *sizes)[0, 0]))


def _local_residuals(values: Floats, column: Floats) -> Floats:
    """Return values less their means among rows that are next to each other in a column."""
    rank = np.argsort(np.argsort(column, kind="stable"), kind="stable")
    part = rank // ROWS_OF_LOCAL_MEAN
    return values - (np.bincount(part, values) / np.bincount(part))[part]


def _autocorrelations(x: Floats, runs: Integers) -> Floats:
    """Return the correlations ``(LAGS,)`` of rows with those before them in their run."""
    _, codes = np.unique(runs, return_inverse=True)
    residual = x - (np.bincount(codes, x) / np.bincount(codes))[codes]
    variance = residual @ residual
    if variance <= 1e-12 * (x @ x):
        return np.zeros(LAGS)
    products = [
        (residual[lag:] * residual[:-lag]) @ (runs[lag:] == runs[:-lag])
        for lag in range(1, LAGS + 1)
    ]
    return np.array(products) / variance


def _signed_pearson(x: Floats, y: Floats) -> float:
    x, y = x - x.mean(), y - y.mean()
    scale = np.sqrt((x @ x) * (y @ y))
    return float(x @ y / scale) if scale > 0 else 0.0


def _hashes(columns: Sequence[Floats]) -> NDArray[np.uint64]:
    """Return a number for each row: the same for rows with the same values."""
    total = np.zeros(len(columns[0]), np.uint64)
    for values in columns:
        bits = np.where(np.isnan(values), np.nan, values + 0.0).view(np.uint64)
        total = (total ^ bits) * np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(29)
    return total


def _chance_makes_no_copies(columns: Sequence[Floats], distinct_rows: int) -> bool:
    """Return whether columns have so many possible values that chance makes no copies of rows."""
    rows, together = len(columns[0]), 0.0
    for values in columns:
        present = values[~np.isnan(values)]
        distinct, counts = np.unique(present, return_counts=True)
        if len(distinct) < 2:
            continue
        together += np.log(np.sum((counts / len(present)) ** 2))
        distinct, _ = in_unit(distinct)
        with np.errstate(over="ignore"):
            steps = (distinct[-1] - distinct[0]) / np.diff(distinct).min()
        sparse = steps > MIN_DISTINCT * len(distinct) and len(distinct) > MIN_DISTINCT
        if sparse and distinct_rows <= 1.5 * len(distinct):
            return True
    return bool(together + np.log(rows) < np.log(0.01))
