"""The findings of a scan: the strongest pairs and those that are not monotone, a line each.

1. Near copies of a column form a group (`groups_of`); pairs of the same two groups are one finding,
   and so are pairs whose columns are closely related.
2. In the order of their HGR, and then of HGR less |Spearman|, pairs that are more than chance are
   examined (`remarks`).  Those that a remark explains are listed apart.
3. `Findings` holds the lists, and counts of all that is not listed.
"""

from __future__ import annotations

import collections
import dataclasses
import html
import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, in_unit
from hgr_jax._checks import check_count
from hgr_jax._texts import (
    counted,
    first_names,
    grouped,
    html_table,
    pvalue_as_text,
    shortened,
)
from hgr_jax._threads import one_blas_thread
from hgr_jax.core.describe import nearly_monotone
from hgr_jax.scanning.facts import MIN_DISTINCT, TableFacts
from hgr_jax.scanning.fits import PairDetails, fit_given
from hgr_jax.scanning.missing_values import missing_remarks
from hgr_jax.scanning.remarks import (
    ALMOST_ONE,
    ExaminedPair,
    Remark,
    RemarkFinder,
    listed_in_words,
)
from hgr_jax.scanning.request import SOLVED

FALSE_DISCOVERY_RATE = 0.05
"""Largest adjusted p-value of pairs that count as more than chance."""

FINDINGS = 5
"""Default number of findings in a list."""

MIN_ROWS = 20
"""Default of the smallest number of rows of a finding."""

MIN_HGR = 0.1
"""Smallest HGR of a finding."""

NEAR_COPY, ROUNDED = 0.95, 0.99
"""Smallest |Spearman| of near copies, and of columns that may differ by rounding alone."""

MOST_COMPARED = 200
"""Largest number of pairs whose values are compared, those with the largest HGR."""

RELATED = 0.9
"""Smallest |Spearman| of columns whose pairs with one column, or with related ones, are shown
once."""

MIN_EXCESS, MIN_SHARE_OF_STEP = 0.05, 0.5
"""Smallest excess of HGR over |Spearman| of a pair that is not monotone, and smallest share of HGR
that |Spearman| is of a relation by steps, which is monotone."""

MOST_OF_GROUPS = 3
"""Number of pairs of the same two groups that are examined, at most, until one is listed."""

MOST_LOOKED_AT = 2000
"""Number of pairs that are looked at for a list, at most."""

MOST_EXAMINED = 8
"""Number of pairs that are examined for each one that is listed, at most."""

LEVEL = 0.95
"""Level of the intervals."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """A pair of columns, and what may make its dependence.

    Attributes:
      a, b: names of the columns.
      hgr: HGR; in a scan without it, the measure of the scan.
      interval: a 95% interval for it, NaN where there is none.
      spearman: |Spearman|, NaN with a category.
      adjusted_pvalue: as in the scan.
      rows: rows where both columns are present.
      sentence: what the relation is, in units of the columns.
      remarks: what may make the dependence, those that explain it first.
      details: transformations of ranks, and the influence of rows.
    """

    a: str
    b: str
    hgr: float
    interval: tuple[float, float]
    spearman: float
    adjusted_pvalue: float
    rows: int
    sentence: str = ""
    remarks: tuple[Remark, ...] = ()
    details: PairDetails | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def explained(self) -> bool:
        """Whether a remark explains the dependence."""
        return any(remark.explains for remark in self.remarks)

    @property
    def remark(self) -> str:
        """All remarks as one text."""
        return "; ".join(remark.text for remark in self.remarks)


@dataclasses.dataclass(frozen=True)
class Findings:
    """What a scan found: a result of `Scan.findings`.

    Attributes:
      strongest: pairs with the largest HGR.
      not_monotone: pairs whose HGR exceeds |Spearman| most, by at least 0.05, where |Spearman| is
        below an interval for HGR whose level allows for all pairs (Bonferroni).
      explained: pairs that would be in one of the lists, but for a remark.
      copies: groups of columns with |Spearman| of 0.9995 or more, or whose values correspond.
      few_rows: number of pairs that are more than chance and share fewer than ``min_rows`` rows.
      pairs, tested, significant: numbers of pairs estimated, with a p-value, and more than chance.
      repeated: number of pairs that are not listed, as they go with a pair that is: of near copies,
        or of related columns.
      skipped: names of the columns that were left out, by reason.
      remarks: remarks on the table as a whole.
      law: what the p-values suppose of the rows, as the end of a sentence.
    """

    strongest: tuple[Finding, ...]
    not_monotone: tuple[Finding, ...]
    explained: tuple[Finding, ...]
    copies: tuple[tuple[str, ...], ...]
    few_rows: int
    pairs: int
    tested: int
    significant: int
    repeated: int
    skipped: Mapping[str, tuple[str, ...]]
    remarks: tuple[str, ...]
    law: str

    def __iter__(self) -> Iterator[Finding]:
        """Yield the findings of both lists, each once."""
        yield from dict.fromkeys((*self.strongest, *self.not_monotone))

    @property
    def sections(self) -> list[tuple[str, tuple[Finding, ...]]]:
        """The lists that are not empty, with their titles."""
        titled = [
            ("Strongest", self.strongest),
            ("Not monotone: HGR above |Spearman|", self.not_monotone),
            ("Explained: not a relation of the two, as far as the table shows", self.explained),
        ]
        return [(title, findings) for title, findings in titled if findings]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as lists and texts, with None for NaN, as JSON takes it."""
        return _without_nan(self)

    def __repr__(self) -> str:
        skipped = [f"skipped {first_names(of, 28)}: {why}" for why, of in self.skipped.items()]
        return "\n".join([*self.lines(), *skipped])

    @property
    def why_none(self) -> str:
        """Why there is no finding, where there is none."""
        if self.explained:
            return "No finding: what was examined is explained"
        if self.copies and self.significant:
            return "No finding: only copies of columns depend on each other"
        weak = "pairs that are more than chance are weak, or have few rows"
        return f"No finding: {weak if self.significant else 'no pair is more than chance'}"

    def lines(self, longest_name: int = 28) -> list[str]:
        """Return the lists and the counts, in lines of text."""
        lines: list[str] = []
        if not any(True for _ in self):
            lines.append(self.why_none)
        for group in self.copies[:MOST_COPIES]:
            lines.append(f"(nearly) the same ranks: {first_names(group, longest_name)}")
        if len(self.copies) > MOST_COPIES:
            lines.append(f"... and {counted(len(self.copies) - MOST_COPIES, 'other group')}")
        for title, findings in self.sections:
            rows = [finding_cells(finding, longest_name) for finding in findings]
            widths = [max(map(len, column)) for column in zip(FINDING_HEADERS, *rows, strict=True)]
            lines += ["", title]
            for place, row in enumerate([FINDING_HEADERS, *rows]):
                number = f"{place:>3}" if place else "   "
                cells = [
                    cell.ljust(width) if i in (0, len(row) - 1) else cell.rjust(width)
                    for i, (cell, width) in enumerate(zip(row, widths, strict=True))
                ]
                lines.append(f"{number}  {'  '.join(cells)}".rstrip())
                if place and findings[place - 1].sentence:
                    lines.append(f"     {findings[place - 1].sentence}")
        return [*lines[not lines[0] :], "", *self.counts()]

    def counts(self) -> list[str]:
        """Return the counts in words."""
        lines = []
        if self.tested:
            verb = "is" if self.significant == 1 else "are"
            lines.append(
                f"{self.significant:,} of {counted(self.tested, 'pair')} {verb} more than chance,"
                f" at a false discovery rate of {FALSE_DISCOVERY_RATE:.0%}, {self.law}"
            )
        if self.repeated:
            pairs = counted(self.repeated, "pair")
            lines.append(f"not listed: {pairs} of near copies of the columns listed, or related")
        if self.few_rows:
            pairs = counted(self.few_rows, "pair")
            lines.append(f"not listed: {pairs} of columns that share few rows")
        return [*lines, *self.remarks]

    def _repr_html_(self) -> str:
        """Return the lists as small tables, for notebooks."""
        tables = [
            html_table(title, FINDING_HEADERS, [finding_cells(finding, 40) for finding in findings])
            for title, findings in self.sections
        ]
        return "".join(tables) + "".join(f"<p>{html.escape(line)}</p>" for line in self.counts())


FINDING_HEADERS = ("columns", "HGR", "95% interval", "|Spearman|", "adj. p", "rows", "remark")

MOST_COPIES = 3
"""Number of groups of copies that are listed."""


def finding_cells(finding: Finding, longest: int) -> tuple[str, ...]:
    """Return the texts of a finding below `FINDING_HEADERS`."""
    names = (shortened(name, longest, "...") for name in (finding.a, finding.b))
    low, high = finding.interval
    return (
        " and ".join(names),
        f"{finding.hgr:.3f}",
        "-" if math.isnan(low) else f"{low:.2f} to {high:.2f}",
        "-" if math.isnan(finding.spearman) else f"{finding.spearman:.3f}",
        pvalue_as_text(finding.adjusted_pvalue),
        f"{finding.rows:,}",
        finding.remark,
    )


def _without_nan(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = [field.name for field in dataclasses.fields(value) if field.name != "details"]
        return {name: _without_nan(getattr(value, name)) for name in fields}
    if isinstance(value, Mapping):
        return {str(name): _without_nan(of) for name, of in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(of) for of in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def groups_of(
    scan: Any, least: float = NEAR_COPY, rows: Any = slice(None)
) -> dict[str, tuple[str, ...]]:
    """Return, for each used column, the names of the column and its near copies, in order.

    A group is a column, the first of them, and all others that are not in a group yet and are near
    copies of it: |Spearman| and HGR are at least ``least``, or in ``rows`` levels or few values
    correspond one to one, or values are those of another unit, rounded.
    """
    pairs = scan._rows
    monotone, value = monotone_of(pairs), hgr_of(pairs)
    are_near = monotone >= least
    compared = np.flatnonzero(~are_near & ((monotone >= ROUNDED) | (value >= ALMOST_ONE)))
    compared = compared[np.argsort(-value[compared], kind="stable")[:MOST_COMPARED]]
    near: dict[int, list[tuple[int, int]]] = {}
    for row in [*np.flatnonzero(are_near).tolist(), *compared.tolist()]:
        i, j = sorted(pairs.pairs[row].tolist())
        near.setdefault(i, []).append((j, row))
    group: dict[str, tuple[str, ...]] = {}
    for i, name in enumerate(scan.names):
        if name in group or name in scan.skipped:
            continue
        members = [name]
        for j, row in sorted(near.get(i, ())):
            other = scan.names[j]
            if other in group:
                continue
            a, b = scan.values(name)[rows], scan.values(other)[rows]
            if are_near[row] or _correspond(a, b, monotone[row]):
                members.append(other)
        group |= dict.fromkeys(members, tuple(members))
    return group


def _correspond(a: Floats, b: Floats, monotone: float) -> bool:
    """Return whether levels, or few values, go one by one, or numbers are the same but rounded.

    ``monotone`` is |Spearman|, NaN with levels.
    """
    few = math.isnan(monotone) or len(np.unique(a)) <= MIN_DISTINCT
    return (few and _one_to_one(a, b)) or (monotone >= ROUNDED and _differ_by_rounding(a, b))


def _one_to_one(a: Floats, b: Floats) -> bool:
    """Return whether values correspond one to one; False if most of them are distinct."""
    present = ~(np.isnan(a) | np.isnan(b))
    (u, x), (v, y) = (np.unique(c[present], return_inverse=True) for c in (a, b))
    if len(u) != len(v) or 2 * len(u) > len(x):
        return False
    return len(np.unique(x * len(v) + y)) == len(u)


@np.errstate(over="ignore", invalid="ignore")  # of a range that is next to nothing
def _differ_by_rounding(a: Floats, b: Floats) -> bool:
    """Return whether each column is a multiple of the other, plus a number, but for rounding."""
    present = ~(np.isnan(a) | np.isnan(b))
    x, y = (in_unit(column[present])[0] for column in (a, b))
    steps = [np.diff(np.unique(z)).min(initial=np.inf) for z in (x, y)]
    slope, start = np.polynomial.polynomial.polyfit(x, y, 1)[::-1]
    off = np.abs(y - start - slope * x).max()
    return bool(off <= 0.6 * (steps[1] + abs(slope) * steps[0]))


def is_of_hgr(scan: Any) -> bool:
    """Return whether the measure of a scan is HGR, and not HGR-KB."""
    return bool(scan.settings["measure"] == "hgr")


def hgr_of(rows: Any) -> Floats:
    """Return HGR of the rows of a `Scan`; the measure of one that has none."""
    return np.where(np.isfinite(rows.rank_correlation), rows.rank_correlation, rows.correlation)


def monotone_of(rows: Any) -> Floats:
    """Return the smaller of |Spearman| and HGR of the rows of a `Scan`, NaN with a category."""
    return np.asarray(np.minimum(rows.spearman, hgr_of(rows)))


@one_blas_thread()
def findings_of(scan: Any, n: int, min_rows: int) -> Findings:
    """Return the findings of a `Scan`, as `Scan.findings` says."""
    n, min_rows = check_count("n", n), check_count("min_rows", min_rows)
    maker = _Lists(scan, n, least_rows(min_rows, scan.settings["rows"]))
    strongest = maker.first(maker.hgr, maker.is_candidate)
    excess = maker.rows.rank_excess
    beyond = maker.is_candidate & (excess >= MIN_EXCESS)
    not_monotone = maker.first(excess, beyond, of=maker.is_not_monotone)
    return Findings(
        strongest=strongest,
        not_monotone=not_monotone,
        explained=maker.explained(),
        copies=tuple(dict.fromkeys(g for g in maker.copies.values() if len(g) > 1)),
        few_rows=int(np.sum(maker.significant & (maker.rows.n_obs < maker.min_rows))),
        pairs=len(scan),
        tested=maker.tested,
        significant=maker.discoveries,
        repeated=len(maker.repeated),
        skipped=grouped(scan.skipped),
        remarks=tuple(maker.remarks_on_table()),
        law=scan.settings["law"],
    )


def least_rows(min_rows: int, rows: int) -> float:
    """Return the smallest number of rows of a finding in a table of ``rows``."""
    return min_rows if min_rows > MIN_ROWS else min(min_rows, rows / 2)


def monotone_correlation(f: Floats, g: Floats, columns: Sequence[Floats]) -> float:
    """Return the correlation of monotone functions that are near to ``f`` and ``g (n,)``."""
    sides = []
    for values, column in zip((f, g), columns, strict=True):
        order = np.argsort(column, kind="stable")
        monotone = np.empty(len(order))
        monotone[order] = nearly_monotone(values[order])
        sides.append(monotone - monotone.mean())
    scale = math.sqrt(float(sides[0] @ sides[0]) * float(sides[1] @ sides[1]))
    return abs(float(sides[0] @ sides[1])) / scale if scale > 0 else 0.0


class _Lists:
    """The pairs of a scan, and those of them that were examined."""

    def __init__(self, scan: Any, n: int, min_rows: float) -> None:
        self.scan, self.n, self.min_rows = scan, n, min_rows
        self.rows = scan._rows.take(scan._rows.estimated)
        self.hgr, self.monotone = hgr_of(self.rows), monotone_of(self.rows)
        adjusted = self.rows.adjusted_pvalue
        totals = scan.settings.get("top")
        self.significant = adjusted <= FALSE_DISCOVERY_RATE
        self.tested = int(np.isfinite(adjusted).sum())
        self.discoveries = int(np.sum(self.significant))
        if totals:
            self.tested, self.discoveries = totals["tested"], totals["discoveries"]
        known = self.significant if self.tested else np.ones(len(self.hgr), bool)
        self.facts = TableFacts(scan)
        self.finder = RemarkFinder(scan, self.facts)
        self.is_candidate = known & (self.rows.n_obs >= min_rows) & (self.hgr >= MIN_HGR)
        self.is_candidate &= ~self._is_built()
        copies = self.facts.copies
        rows = slice(None) if copies is None else copies.remaining
        self.groups = groups_of(scan, rows=rows)
        for name, (source, _) in self.facts.indicators.items():
            self.groups[name] = self.groups[source]  # a pair with either is listed once
        self.copies = groups_of(scan, ALMOST_ONE, rows)
        self.examined: dict[tuple[str, str], Finding] = {}
        self.low_for_all: dict[tuple[str, str], float] = {}
        self.monotone_parts: dict[tuple[str, str], float] = {}
        self.monotone_given: set[tuple[str, str]] = set()
        self.repeated: set[int] = set()
        self.has_intervals = scan.settings["measure"] in SOLVED

    def _is_built(self) -> NDArray[np.bool_]:
        """Return which pairs have a column that numbers rows, or are of indicators of a column."""
        family = {name: source for name, (source, _) in self.facts.indicators.items()}
        family |= {source: source for source in family.values()}
        numbers = np.array([name in self.facts.numbering for name in self.scan.names], bool)
        place = {source: i for i, source in enumerate(dict.fromkeys(family.values()))}
        families = np.array([place.get(family.get(n, ""), -1) for n in self.scan.names], int)
        first, second = self.rows.pairs.T
        same = (families[first] == families[second]) & (families[first] >= 0)
        return np.asarray(numbers[first] | numbers[second] | same)

    def first(self, value: Floats, among: Any, of: Any = None) -> tuple[Finding, ...]:
        """Return the first findings by ``value`` that nothing explains, one of related pairs."""
        places = np.flatnonzero(among)
        places = places[np.argsort(-value[places], kind="stable")[:MOST_LOOKED_AT]]
        found: dict[int, Finding] = {}
        shown: list[tuple[int, int]] = []
        listed: set[frozenset[str]] = set()
        examined: collections.Counter[frozenset[str]] = collections.Counter()
        related: list[int] = []
        # Pairs that are related to others come after these, if there is room.
        waiting = collections.deque((place, False) for place in places.tolist())
        while waiting or related:
            if len(found) == self.n or examined.total() == MOST_EXAMINED * self.n:
                break
            if not waiting:
                waiting.extend((place, True) for place in related)
                related = []
            place, is_second = waiting.popleft()
            i, j = self.rows.pairs[place].tolist()
            key = self._groups_of_pair(i, j)
            if self.copies[self.scan.names[i]] == self.copies[self.scan.names[j]]:
                continue  # among the copies
            if key in listed:
                self.repeated.add(place)
                continue
            if not is_second and any(self._is_related((i, j), pair) for pair in shown):
                related.append(place)
                continue
            if examined[key] == MOST_OF_GROUPS:
                continue
            examined[key] += 1
            finding = self._examine(place if examined[key] > 1 else self._of_first_columns(place))
            if not finding.explained and (of is None or of(finding)):
                found[place] = finding
                shown.append((i, j))
                listed.add(key)
        self.repeated.update(related)
        return tuple(found[place] for place in places.tolist() if place in found)

    def _groups_of_pair(self, i: int, j: int) -> frozenset[str]:
        """Return what two columns stand for: their groups, or a total, beside one of its parts."""
        a, b = self.scan.names[i], self.scan.names[j]
        for total, part in ((a, b), (b, a)):
            if part in self.facts.parts_of(total):
                return frozenset([f"parts of {total}"])
        return frozenset(self.groups[self.scan.names[column]][0] for column in (i, j))

    def _of_first_columns(self, place: int) -> int:
        """Return the place of the pair of the first columns of both groups, if it is listed."""
        groups = (self.groups[self.scan.names[column]] for column in self.rows.pairs[place])
        first = int(self.rows.find(*(self.scan._position(group[0]) for group in groups)))
        return first if first >= 0 and self.is_candidate[first] else place

    def _is_related(self, pair: tuple[int, int], other: tuple[int, int]) -> bool:
        """Return whether each column of a pair is related to another column of the other pair."""
        rows = self.rows.find(*np.meshgrid(pair, other, indexing="ij"))
        near = (rows >= 0) & (self.monotone[rows] >= RELATED)
        near |= np.equal.outer(pair, other)
        return bool(near.diagonal().all() or near[::-1].diagonal().all())

    def explained(self) -> tuple[Finding, ...]:
        """Return the examined pairs that a remark explains, the largest of each two groups."""
        found: dict[frozenset[str], Finding] = {}
        ordered = sorted(self.examined.values(), key=lambda finding: -finding.hgr)
        for finding in ordered:
            if finding.explained:
                i, j = (self.scan._position(name) for name in (finding.a, finding.b))
                found.setdefault(self._groups_of_pair(i, j), finding)
        return tuple(found.values())[: self.n]

    def remarks_on_table(self) -> Iterable[str]:
        """Yield remarks on the table as a whole."""
        copies = self.facts.copies
        if copies is not None:
            yield (
                f"{copies.count:,} of {copies.rows:,} rows are copies of other rows; p-values take"
                " rows as independent: leave copies out, or name the column of those that belong"
                " together, groups= (--groups)"
            )
        ordered = {
            name: None
            for finding in self.examined.values()
            if any(remark.kind == "order" for remark in finding.remarks)
            for name in (finding.a, finding.b)
        }
        panel = self.facts.panel
        if panel is not None and not self.scan.settings["order"]:
            series, times = panel.design.shape
            options = f"order={panel.time!r}, groups={panel.unit!r}"
            command = shlex.join(["--order", panel.time, "--groups", panel.unit])
            yield (
                f"rows are a panel, {series:,} {panel.unit} by {times:,} {panel.time}; p-values"
                f" take rows as independent: {options} ({command}) keeps the rows of one time"
                " together"
            )
        elif ordered:
            names = [name for name in self.scan.names if name in ordered]
            yield (
                f"successive rows are alike in {first_names(names, 28)}; p-values take"
                " rows as independent: order= (--order) tests all pairs as series"
            )
        columns: dict[tuple[float, ...], list[str]] = {}
        for name, marks in self.facts.marks.items():
            columns.setdefault(tuple(marks), []).append(
                f"{name} ({counted(sum(marks.values()), 'row')})"
            )
        for values, texts in columns.items():
            listed = [f"{value:g}" for value in values]
            options = " ".join(f"--na {value}" for value in listed)
            yield (
                f"{listed_in_words(listed)} far from all other values of {first_names(texts, 40)}:"
                f" {options}, where missing values are meant"
            )
        for name, what in self.facts.numbering.items():
            yield f"{name} {what}: its pairs are not listed"
        sources: dict[str, list[str]] = {}
        for name, (source, _) in self.facts.indicators.items():
            sources.setdefault(source, []).append(name)
        for source, names in sources.items():
            say = "say" if len(names) > 1 else "says"
            said = f"{first_names(names, 28)} {say} where {source} has one value"
            yield f"{said}: pairs of these are not listed"
        yield from missing_remarks(self.scan.data, self.facts.numbers, self.facts.codes)

    def is_not_monotone(self, finding: Finding) -> bool:
        """Return whether |Spearman| is below an interval for HGR, at a level for all pairs."""
        names = finding.a, finding.b
        if names in self.monotone_given:
            return False
        low = self.low_for_all.get(names, math.nan)
        if math.isnan(low):
            return True
        # What |Spearman| misses of a step is no other shape.
        is_step = self.monotone_parts[names] > finding.hgr - MIN_EXCESS
        is_step &= not finding.spearman < MIN_SHARE_OF_STEP * finding.hgr  # NaN with a category
        return not is_step and not finding.spearman >= low

    def _intervals(self, examined: ExaminedPair, place: int) -> list[tuple[float, float]]:
        """Return intervals at `LEVEL`, of the pair alone and of all pairs together."""
        levels = LEVEL, 1 - (1 - LEVEL) / max(self.tested, 1)
        if self.scan.settings["given"]:
            fit = fit_given(self.scan, *examined.names)
            return [fit.interval(level) for level in levels]
        pair, pvalue = examined.pair, float(self.rows.pvalue[place])
        pvalue = pair.pvalue if math.isnan(pvalue) else pvalue
        return [pair.interval(pvalue, level) for level in levels]

    def _examine(self, place: int) -> Finding:
        """Return a pair as a finding, with its interval and its remarks."""
        scan, of_rows = self.scan, self.rows
        i, j = of_rows.pairs[place]
        a, b = names = scan.names[i], scan.names[j]
        if names in self.examined:
            return self.examined[names]
        rows, hgr = int(of_rows.n_obs[place]), float(self.hgr[place])
        spearman = float(of_rows.spearman[place])
        interval = (math.nan, math.nan)
        examined = ExaminedPair.of(scan, names, hgr)
        if examined is not None and self.has_intervals:
            (low, high), (self.low_for_all[names], _) = self._intervals(examined, place)
            interval = min(low, hgr), max(high, hgr)  # it may be of a sample of the rows
            self.monotone_parts[names] = monotone_correlation(
                examined.f, examined.g, examined.pair.columns
            )
        if examined is not None and examined.mean_given and not examined.mean_given[1].turns:
            self.monotone_given.add(names)
        remarks = [] if examined is None else self.finder.remarks(examined)
        finding = Finding(
            a=a,
            b=b,
            hgr=hgr,
            interval=interval,
            spearman=spearman,
            adjusted_pvalue=float(of_rows.adjusted_pvalue[place]),
            rows=rows,
            sentence="" if examined is None else examined.sentence(scan),
            remarks=tuple(remarks),
            details=None if examined is None else examined.details,
        )
        self.examined[names] = finding
        return finding
