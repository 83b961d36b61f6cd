"""What makes a dependence other than a relation: single rows, copies, the order, marks, a sum.

A p-value says that a dependence is more than chance in rows that are independent of each other.  A
`Remark` says what else may have made it; where it `explains` the dependence, the pair is no
finding.

* `few rows`: a single row, a handful, or the rows with one value;
* `copies`: rows that repeat other rows;
* `order`: rows that resemble the rows before them, as those of a series do, or a panel;
* `mark`: a far, repeated value, as -200 or 999 for a missing one;
* `construction`: a column that is computed from the other one, or numbers the rows.

A pair that may be made by the order of the rows, or as a part of a total, is explained only if the
test that fits the rows does not reject its independence.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax._texts import as_date, counted, first_names, pvalue_as_text
from hgr_jax.core.describe import (
    LEAST_SHARE_OF_MEAN,
    MAX_PVALUE,
    Format,
    Levels,
    Means,
    Shape,
    describe,
    in_full,
    in_other_ways,
    levels_in_words,
    mean_in_words,
    number_in_words,
)
from hgr_jax.core.host.ranks import ranks
from hgr_jax.inference.dependent_rows import RowDesign, order_tests, shift_test
from hgr_jax.inference.independence import independence_test
from hgr_jax.inference.orders import seed_of
from hgr_jax.scanning.facts import (
    MAX_EXAMINED_ROWS,
    MIN_DISTINCT,
    TableFacts,
    is_function,
    is_usual_mark,
)
from hgr_jax.scanning.fits import HostPair, PairDetails

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

MAX_SAMPLE_ERROR = 0.1
"""Largest relative difference of HGR in a sample of the rows that is examined in place of all."""

MIN_ORDERED_ROWS, MIN_ROWS_OF_RESIDUALS = 15, 30
"""Smallest numbers of rows for a remark on their order, by ranks and by residuals."""

LAGS, MIN_AUTOCORRELATION, MIN_AUTOCORRELATIONS = 4, 0.15, 0.35
"""Number of rows before a row that it is compared with, and smallest correlations of residuals with
the first and with all of them, summed, for a remark on the order."""

ALMOST_ONE = 0.9995
"""Smallest correlation that is shown as 1.000."""

ROWS_OF_LOCAL_MEAN = 8
"""Number of rows whose mean is the value of one column given the other."""

MIN_TREND, MIN_OF_RANKS = 0.99, 0.6
"""Smallest correlation with the order of a column that just rises or falls, and of successive ranks
of a slow series."""

MIN_OF_DIFFERENCES = -0.2
"""Smallest correlation of successive differences of a slow series beside a column that just rises
or falls."""

MOST_IN_PERIOD, PERIODS = 400, 3
"""Largest number of rows of a period, and smallest number of periods of a calendar column."""

MIN_REPEATED = 0.98
"""Smallest share of the rows of a calendar column that repeat those of the period before."""

SHIFTED_FUNCTIONS = 4
"""Number of functions of either column that are shifted: a test of all takes a second of 100,000
rows."""

MAX_GIVEN_SHOWN = 40
"""Largest number of letters of the names of given columns in a sentence."""

EXCHANGES = 199
"""Number of exchanges of the units of a panel."""


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

    def sentence(self, scan: Any) -> str:
        """Say what the relation is, in units of the columns; given others, of what these leave."""
        levels, formats = self.units(scan)
        both = (self.f, self.g)
        if self.details.residuals is None:
            return describe(self.names, self.pair.columns, levels, both, self.means, formats)
        given = first_names(scan.settings["given"], MAX_GIVEN_SHOWN)
        if all(self.pair.of_levels):
            said = levels_in_words(self.names, self.pair.columns, levels, both)
        elif any(self.pair.of_levels):
            a, b = (
                (name, column) if of_levels else (f"what is left of {name}", left)
                for name, column, of_levels, left in zip(
                    self.names, self.pair.columns, self.pair.of_levels, self.left, strict=True
                )
            )
            in_sd = "{:.2g} sd".format
            sides = (a[0], b[0]), (a[1], b[1])
            said = describe(*sides, levels, both, self.means, (in_sd, in_sd))
        elif self.mean_given is None:
            said = in_other_ways(self.names)
        else:
            side, shape = self.mean_given
            said = mean_in_words(self.names[side], self.names[1 - side], shape, formats[side])
        return f"given {given}, {said}"

    def in_full(self, scan: Any) -> list[str]:
        """Return lines with the values of both transformations; none given other columns."""
        if self.details.residuals is not None:
            return []
        levels, formats = self.units(scan)
        return in_full(self.names, self.pair.columns, levels, (self.f, self.g), formats)

    def units(self, scan: Any) -> tuple[tuple[Levels, Levels], tuple[Format, Format]]:
        """Return the levels of categories, and how numbers are written."""
        first = [scan.data.dates.get(name) for name in self.names]
        a, b = (
            number_in_words if date is None else functools.partial(as_date, date) for date in first
        )
        levels = [None if c is None else c.levels for c in map(scan.category, self.names)]
        return (levels[0], levels[1]), (a, b)

    @functools.cached_property
    def means(self) -> Means:
        """The mean of either column given the other; of residuals, along the columns themselves."""
        if self.details.residuals is None:
            return Means.of(*self.pair.sides, self.pair.shares)
        f, g = (m @ f for m, f in zip(self.pair.maps, self.pair.fitted.sides, strict=True))
        return Means.of(*self.pair.sides, self.pair.shares, (f, g))

    @property
    def left(self) -> tuple[Floats, Floats]:
        """What given columns leave of the ranks of each number, and of f or g of a category."""
        sides = zip(self.pair.sides, self.pair.of_levels, (self.f, self.g), strict=True)
        one, other = (f if is_level else side[0] for side, is_level, f in sides)
        return one, other

    @functools.cached_property
    def mean_given(self) -> tuple[int, Shape] | None:
        """Along which of two numbers the mean says more given other columns, and its shape.

        None where it does not say much, with a category, and where no columns are given.
        """
        if self.details.residuals is None or any(self.pair.of_levels):
            return None
        side = self.means.side
        if self.means[side].share < LEAST_SHARE_OF_MEAN * self.value:
            return None
        return side, self.means[side].along(self.pair.columns[side])

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


class RemarkFinder:
    """Finds the remarks on the pairs of a `Scan`, given what is known of its table."""

    def __init__(self, scan: Any, facts: TableFacts) -> None:
        self.scan, self.facts = scan, facts

    def remarks(self, examined: ExaminedPair) -> list[Remark]:
        """Return the remarks on a pair, those that explain it first."""
        makers = (
            self._on_construction,
            self._on_marks,
            self._on_few_rows,
            self._on_copies,
            self._on_order,
        )
        found = [remark for make in makers for remark in make(examined)]
        return sorted(found, key=lambda remark: not remark.explains)

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
                positions = self.facts.columns.positions_of(sorted(influence.rows[:count]))
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
        products = examined.f * examined.g * pair.shares
        total = products.sum()
        for name, column in zip(examined.names, pair.columns, strict=True):
            if name in self.facts.codes or not total > 0:
                continue
            values, codes = np.unique(column, return_inverse=True)
            counts, parts = np.bincount(codes), np.bincount(codes, products) / total
            top = int(np.argmax(parts))
            few = 1 < counts[top] <= MAX_VALUE_SHARE * rows and len(values) > MIN_DISTINCT
            if few and parts[top] >= MIN_PART_OF_VALUE:
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
        copies = self.facts.copies
        if copies is None:
            return
        left = examined.pair.restricted(copies.remaining[examined.pair.rows])
        if self.scan.settings["given"]:
            yield Remark("copies", f"{left.value:.3f} without copies of rows")
            return
        pvalue = left.pvalue
        text = f"{left.value:.3f} (p = {pvalue_as_text(pvalue)}) without copies of rows"
        yield Remark("copies", text, not pvalue <= MAX_PVALUE)

    def _on_order(self, examined: ExaminedPair) -> Iterator[Remark]:
        """Remark on a pair whose rows resemble the rows before, or are those of a panel."""
        # Copies often follow one another; with an order or groups p-values are of such rows.
        asked = self.scan.settings.get("order") or self.scan.settings.get("groups")
        if self.facts.copies is not None or asked:
            return
        if self.facts.panel is not None:
            yield from self._on_panel(examined)
            return
        pair = examined.pair
        if len(pair.rows) < MIN_ORDERED_ROWS:
            return
        order = np.argsort(np.argsort(self.facts.order)[pair.rows], kind="stable")
        runs = self.facts.runs[pair.rows][order]
        of_ranks = [ranks(column[order][:, None])[:, 0] for column in pair.columns]
        trends = [abs(np.corrcoef(r, np.arange(len(r)))[0, 1]) > MIN_TREND for r in of_ranks]
        decided = examined.value >= ALMOST_ONE  # there are no residuals
        alike = not decided and self._has_alike_residuals(examined, order, runs)
        if any(trends):
            # Differences of independent rows have the correlation -1/2, those of a walk have 0.
            slow = any(
                trend
                and (
                    name in self.facts.times
                    or _autocorrelations(np.diff(other), runs[1:])[0] > MIN_OF_DIFFERENCES
                )
                for name, trend, other in zip(examined.names, trends, of_ranks[::-1], strict=True)
            )
        else:
            slow = all(_autocorrelations(r, runs)[0] > MIN_OF_RANKS for r in of_ranks)
        if not alike and not slow:
            return
        names = zip(examined.names, trends, of_ranks, strict=True)
        for name, trend, ranked in names:
            period = _period(ranked)
            if period or trend:
                text = "just rises or falls: not separable from the order of the rows"
                text = f"repeats every {period} rows: a season" if period else text
                yield Remark("order", f"{name} {text}")
                return
        pvalue = pvalue_in_design(pair, RowDesign.of(len(order), np.argsort(order)))
        text = f"both are slow series: p = {pvalue:.2g} by circular shifts"
        # The smallest of n shifts has p = 1 / n.
        yield Remark("order", text, pvalue > max(MAX_PVALUE, 1.5 / len(order)))

    def _has_alike_residuals(self, examined: ExaminedPair, order: Integers, runs: Integers) -> bool:
        """Return whether residuals of either column given the other resemble those before.

        In rows that are independent given one column they do not.
        """
        if len(order) < MIN_ROWS_OF_RESIDUALS:
            return False
        f, g = examined.f[order], examined.g[order]
        x, y = (column[order] for column in examined.pair.columns)
        found = [_autocorrelations(_local_residuals(*side), runs) for side in ((g, x), (f, y))]
        return all(r[0] > MIN_AUTOCORRELATION and r.sum() > MIN_AUTOCORRELATIONS for r in found)

    def _on_panel(self, examined: ExaminedPair) -> Iterator[Remark]:
        """Remark on a pair of a panel, with the p-value that keeps the rows of a time together."""
        panel, pair = self.facts.panel, examined.pair
        assert panel is not None
        if panel.unit in examined.names:
            return
        if panel.time in examined.names:
            text = (
                f"a panel of {panel.unit} by {panel.time}: rows of one {panel.time} may be alike,"
                " and successive ones"
            )
            yield Remark("order", text)
            return
        present = np.zeros(self.facts.columns.rows, bool)
        present[pair.rows] = True
        design = panel.design.restricted(present)
        design = dataclasses.replace(design, rows=np.searchsorted(pair.rows, design.rows))
        shifted, text = design.is_shifted, f"a panel of {panel.unit} by {panel.time}"
        pvalue = pvalue_in_design(pair, design, within=shifted)
        how = "shifts in time" if shifted else f"exchanges of whole {panel.unit} series"
        text += f": p = {pvalue:.2g} by {how}"
        largest = max(MAX_PVALUE, 1.5 * design.smallest_pvalue(EXCHANGES))
        if not shifted and pvalue <= largest:
            within = pvalue_in_design(pair, design, within=True)
            text += f", {within:.2g} within {panel.unit}" if within > largest else ""
        yield Remark("order", text, pvalue > largest)

    def _on_marks(self, examined: ExaminedPair) -> Iterator[Remark]:
        """Remark on values that may stand for a missing one."""
        for name, column in zip(examined.names, examined.pair.columns, strict=True):
            marks = self.facts.marks.get(name)
            if not marks:
                continue
            marked = np.isin(column, list(marks))
            if not marked.any():
                continue
            left = examined.pair.restricted(~marked)
            if len(left.rows) and left.value <= examined.value - MIN_CHANGE:
                listed = listed_in_words([f"{value:g}" for value in marks])
                what = f"{listed} in {counted(int(marked.sum()), 'row')} of {name}"
                text = f"{what} (a missing value?): {left.value:.3f} without"
                usual = len(marks) > 1 or any(is_usual_mark(value) for value in marks)
                yield Remark("mark", text, usual and left.value <= MAX_LEFT * examined.value)

    def _on_construction(self, examined: ExaminedPair) -> Iterator[Remark]:
        """Remark on a column that is computed from the other one, or numbers the rows."""
        names, columns, facts = examined.names, examined.pair.columns, self.facts
        for name in names:
            if name in facts.numbering:
                yield Remark("construction", f"{name} {facts.numbering[name]}", True)
                return
        shares = facts.shares.get(names[0], [])
        if names[1] in shares:
            text = f"{first_names(shares, 20)} have the same sum in each row"
            indicators = all(len(np.unique(x)) == 2 for x in columns)
            yield Remark("construction", text, indicators)
            return
        sides = sorted(zip(names, columns, strict=True), key=lambda side: len(np.unique(side[1])))
        for (a, x), (b, y) in itertools.permutations(sides):
            source, value = facts.indicators.get(a, ("", 0.0))
            if source == b:
                category = self.scan.category(b)
                label = f"{value:g}" if category is None else category.levels[int(value)]
                yield Remark("construction", f"{a} says where {b} is {label}", True)
                return
            ends = None if {b} & {*facts.codes, *self.scan.data.dates} else range_of(y, x)
            if ends is not None:  # of several values it may be more than a name
                said = " to ".join(dict.fromkeys(map(number_in_words, ends)))
                text = f"{a} says where {b} is {said}"
                yield Remark("construction", text, ends[0] == ends[1])
                return
            fewer = is_function(x, y) and len(np.unique(y)) < len(np.unique(x))
            if fewer and (b in facts.codes or facts.copies is None):
                yield Remark("construction", f"each {a} has one {b}", b in facts.codes)
                return
            parts = facts.parts_of(a)
            if b in parts:
                # A part that goes with the rest of the total is related to it all the same.
                rest = independence_test(y, x - y).pvalue if np.ptp(x - y) else 1.0
                text = f"{a} = {' + '.join(parts)}"
                if rest <= MAX_PVALUE:
                    text += f"; without {b} too: p = {pvalue_as_text(rest)}"
                yield Remark("construction", text, rest > MAX_PVALUE)
                return


def listed_in_words(texts: list[str]) -> str:
    """Return texts as a list: a, b and c."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def range_of(x: Floats, y: Floats) -> tuple[float, float] | None:
    """Return the ends of the range of ``x`` in which just one of two values of ``y`` is."""
    values, counts = np.unique(y, return_counts=True)
    if len(values) != 2 or len(np.unique(x)) < 3 or counts.min() < MIN_DISTINCT:
        return None
    for value in values[::-1]:
        low, high = np.min(x[y == value]), np.max(x[y == value])
        if not np.any((low <= x) & (x <= high) & (y != value)):
            return float(low), float(high)
    return None


def pvalue_in_design(pair: HostPair, design: RowDesign, *, within: bool = True) -> float:
    """Return the p-value of independence by the orders of a design of the rows of a pair.

    ``within`` groups, whose means are then taken out, or also between them.
    """
    f, g = (side[:SHIFTED_FUNCTIONS, design.rows] for side in pair.sides)
    levels = pair.of_levels
    if design.is_shifted:
        sides = zip((f, g), levels, strict=True)
        one, other = (design.transformed(x, of_levels=of) for x, of in sides)
        return shift_test(one, other).pvalue
    if within:
        f, g = design.within(f), design.within(g)
    f, g = design.in_cells(f), design.in_cells(g)
    tests = order_tests(
        [f],
        g,
        design,
        draws=EXCHANGES,
        generator=np.random.default_rng(seed_of(None)),
        levels=[levels],
    )
    return tests[0].pvalue


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


def _period(ranked: Floats) -> int:
    """Return after how many rows a column repeats itself, as months do; 0 where it does not."""
    most = min(MOST_IN_PERIOD, len(ranked) // PERIODS)
    for period in np.flatnonzero(ranked[1 : most + 1] == ranked[0]) + 1:
        if np.mean(ranked[period:] == ranked[:-period]) >= MIN_REPEATED:
            return int(period) if period > 1 else 0  # as the rows of a sorted table do
    return 0
