"""What is known of a table as a whole, for remarks on its pairs and for its findings.

* columns that are no variables: those that number the rows, and indicators of a value of another;
* values that may stand for a missing one, and rows that repeat other rows;
* the order of the rows: that of dates, or as they stand; a panel of units at the same times;
* totals: columns that are sums of others.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers, in_unit
from hgr_jax.inference.dependent_rows import RowDesign
from hgr_jax.tables.columns import Columns

MAX_EXAMINED_ROWS = 100_000
"""Number of rows above which a sample of so many is examined."""

MIN_COPIED_SHARE, MIN_COPIED_ROWS = 0.1, 5
"""Smallest share and number of rows that repeat others, for a remark."""

MAX_COLUMNS_COMPARED, MAX_MISSING_COMPARED = 64, 0.2
"""Largest number of columns that are compared to find copies of rows, and their largest share of
missing values: rows that lack the same values are no copies."""

MIN_DISTINCT = 10
"""Smallest number of values of a column of which one value may be a special one."""

NAME_OF_IDENTIFIER = re.compile(
    r"(^|[_\W])((p|row|rec|record|case|obs|user)?id|idx|index|key|nr|no|num|number|row|rownames"
    r"|serial|x|column 1)$|^unnamed: \d+$|^#$|(?-i:[a-z]I[dD]$)",
    re.IGNORECASE,
)
"""Names of columns that number the rows and are nothing else."""

NAME_OF_COUNT = re.compile(
    r"(^|[_\W])(obs|observation|case|record|sample|entry|item|seq|subject|participant|patient"
    r"|respondent|line|count|counter|n)$",
    re.IGNORECASE,
)
"""Other names of columns that number the rows, if they count them from 0 or 1."""

MIN_NUMBERED_ROWS = 10
"""Smallest number of rows that a column is said to number."""

NAME_OF_TIME = re.compile(
    r"(^|[_\W])(date|day|time|week|month|quarter|year|yr|wave|round|period|season|visit)s?$", re.I
)
FIRST_YEAR, LAST_YEAR = 1800, 2200
"""Names and values of whole numbers that may be times."""

MIN_PANEL_SHARE = 0.5
"""Smallest share of the cells of units and times of a panel that have a row."""

MOST_VALUES_INDICATED = 100
"""Largest number of values of a column that others may be indicators of."""

MAX_SHARES, MAX_SPREAD_OF_SUM = 30, 0.05
"""Largest number of shares of a whole, and standard deviation of their sum, in units of theirs."""

MIN_RUN = 8
"""Smallest mean length of the runs of a column by which a table is sorted."""

MIN_MARK_ROWS, MOST_MARKS, MOST_NEIGHBOURS = 3, 6, 3
"""Smallest number of rows with marks, and largest numbers of marks of a column, and of neighbouring
ones, as 97, 98 and 99."""

MIN_GAP, MIN_GAP_OF_MARK = 1.0, 0.5
"""Smallest distance of a repeated value from all others, in units of their central range: of any
value, and of one that often stands for a missing value."""

MIN_RATIO = 3
"""Smallest ratio of all amounts to negative marks that may stand below them."""

MAX_SHARE_OF_RARE = 0.5
"""Largest share that neighbouring codes have of the rows of the rarest answer of a scale."""

MAX_PARTS, LEAST_SUMMED, MAX_ROWS_SUMMED, MAX_COLUMNS_SUMMED, MAX_SUMMED = 6, 30, 2000, 300, 1e100
"""Largest number of parts of a total, smallest and largest number of rows, largest number of
columns, and size of what is summed."""


@dataclasses.dataclass(frozen=True)
class CopiedRows:
    """Rows that repeat other rows: how many of how many, and which rows ``(n,)`` remain."""

    count: int
    rows: int
    remaining: NDArray[np.bool_]


@dataclasses.dataclass(frozen=True)
class Panel:
    """Rows of units at the same times: names of both columns, and the design of the rows."""

    time: str
    unit: str
    design: RowDesign


class TableFacts:
    """What is known of the table of a `Scan`.

    Attributes:
      columns: its columns.
      numbers, codes: those that were used, by name, ``(n,)``: NaN, and -1, where missing.
    """

    def __init__(self, scan: Any) -> None:
        self.columns: Columns = scan.data
        names, used = self.columns.names, set(scan.used)
        numbers = zip(self.columns.number_positions.tolist(), self.columns.numbers.T, strict=True)
        self.numbers: dict[str, Floats] = {names[i]: x for i, x in numbers if names[i] in used}
        places = self.columns.category_positions.tolist()
        categories = zip(places, self.columns.categories, strict=True)
        self.codes = {names[i]: c.codes for i, c in categories if names[i] in used}

    @functools.cached_property
    def numbering(self) -> dict[str, str]:
        """Columns that number the rows, or the units of a panel, and what they do, in words."""
        found = {}
        for name, values in self.numbers.items():
            if name in self.columns.dates or not _numbers_rows(values):
                continue
            counts = values.min() in (0, 1) and bool((np.abs(np.diff(values)) == 1).all())
            if NAME_OF_IDENTIFIER.search(name) or (counts and NAME_OF_COUNT.search(name)):
                found[name] = "numbers the rows"
        panel = self.panel
        if panel is not None and panel.unit in self.numbers:
            found[panel.unit] = f"numbers the rows of each {panel.time}"
        return found

    @functools.cached_property
    def indicators(self) -> dict[str, tuple[str, float]]:
        """Columns of two values, one of them where another column has a certain value."""
        masks: dict[bytes, tuple[str, float]] = {}
        two = {}
        for name, values in (self.numbers | self.codes).items():
            if np.isnan(values).any() or (name in self.codes and (values < 0).any()):
                continue
            first = np.unique(values[:1000])
            if len(first) > MOST_VALUES_INDICATED:
                continue
            distinct = np.unique(values)
            if len(distinct) == 2:
                two[name] = values == distinct[0]
            elif len(distinct) <= MOST_VALUES_INDICATED:
                for value in distinct:
                    masks.setdefault(np.packbits(values == value).tobytes(), (name, float(value)))
        keys = {n: [np.packbits(m).tobytes() for m in (mask, ~mask)] for n, mask in two.items()}
        found = {name: masks.get(key) or masks.get(other) for name, (key, other) in keys.items()}
        return {name: source for name, source in found.items() if source is not None}

    @functools.cached_property
    def shares(self) -> dict[str, list[str]]:
        """Sets of neighbouring columns whose sum is the same in each row, by column."""
        if not self.numbers:
            return {}
        some = np.stack([x[:200] for x in self.numbers.values()], axis=1, dtype=np.float64)
        usable = (some.min(axis=0) >= 0) & (some.max(axis=0) < MAX_SUMMED)
        names, some = [*itertools.compress(self.numbers, usable)], some[:, usable]
        found: dict[str, list[str]] = {}
        for start, first in enumerate(names):
            ends = np.flatnonzero(_sums_are_constant(some[:, start : start + MAX_SHARES]))[:1] + 1
            if len(ends) == 0 or first in found:
                continue
            chosen = names[start : start + int(ends[0])]
            whole = np.stack([self.numbers[name] for name in chosen], axis=1, dtype=np.float64)
            if whole.max() < MAX_SUMMED and _sums_are_constant(whole)[-1]:
                found |= dict.fromkeys(chosen, chosen)
        return found

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
        columns = [np.asarray(values, np.float64) for values in self.numbers.values()]
        levels = [*self.codes.values(), *self.columns.names_of_rows.values()]
        columns += [np.where(codes < 0, np.nan, codes) for codes in levels]
        columns = columns[:: max(1, len(columns) // MAX_COLUMNS_COMPARED)]
        columns = [x for x in columns if np.isnan(x).mean() <= MAX_MISSING_COMPARED]
        if len(columns) < 2:
            return None
        kept = np.flatnonzero(~np.any([*marked, *map(np.isnan, columns)], axis=0))
        columns, rows = [x[kept] for x in columns], len(kept)
        if rows < 2 * MIN_COPIED_ROWS:
            return None
        _, first = np.unique(_hashes(columns), return_index=True)
        count = rows - len(first)
        if count < max(MIN_COPIED_ROWS, MIN_COPIED_SHARE * rows):
            return None
        if not _chance_makes_no_copies(columns, len(first)):
            return None
        remaining = np.ones(self.columns.rows, bool)
        remaining[np.setdiff1d(kept, kept[first])] = False
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

    @functools.cached_property
    def times(self) -> list[str]:
        """The columns that may be times: dates, and whole numbers by their names, or of years."""
        numbers = self.numbers.items()
        whole = [name for name, x in numbers if _is_whole(x) and _may_be_times(name, x)]
        return [name for name in self.numbers if name in self.columns.dates or name in whole]

    @functools.cached_property
    def panel(self) -> Panel | None:
        """The panel that the rows are: each unit at most once at each time."""
        rows = self.columns.rows
        whole = {
            name: values
            for name, values in self.numbers.items()
            if name not in self.columns.dates and _is_whole(values)
        }
        numbered = {name: x for name, x in whole.items() if name not in self.times}
        candidates = [*(self.codes | dict(self.columns.names_of_rows) | numbered).items()]
        for time in self.times:
            for unit, units in candidates:
                moments = self.numbers[time]
                if np.isnan(moments).any() or np.isnan(units).any() or units.min() < 0:
                    continue
                at, of = (np.unique(x, return_inverse=True)[1] for x in (moments, units))
                series, length = 1 + int(of.max()), 1 + int(at.max())
                cells = len(np.unique(at * series + of))
                full = cells == rows >= MIN_PANEL_SHARE * series * length
                if full and min(series, length) > 1 and rows >= 2 * max(series, length):
                    return Panel(time, unit, RowDesign.of(rows, at, of))
        return None

    @functools.cached_property
    def _complete(self) -> tuple[list[str], Floats]:
        """Names of nearly complete numbers, and their values in rows that have all of them."""
        step = max(1, self.columns.rows // (2 * MAX_ROWS_SUMMED))
        columns = {
            name: values[::step].astype(np.float64)
            for name, values in self.numbers.items()
            if name not in self.columns.dates and np.isnan(values).mean() < MAX_MISSING_COMPARED
        }
        columns = {n: x for n, x in columns.items() if np.nanmax(np.abs(x)) < MAX_SUMMED}
        names = [*columns][:MAX_COLUMNS_SUMMED]
        if not names:
            return [], np.zeros((0, 0))
        matrix = np.stack([columns[name] for name in names], axis=1)
        matrix = matrix[~np.isnan(matrix).any(axis=1)][:MAX_ROWS_SUMMED]
        return (names, matrix) if len(matrix) >= LEAST_SUMMED else ([], matrix)

    @functools.cache  # noqa: B019 - facts live as long as one list of findings
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


def _numbers_rows(values: Floats) -> bool:
    """Return whether a column holds a whole number of its own in each row, as identifiers do.

    They are in the order of the rows, or fill their range evenly, as amounts do not.
    """
    if len(values) < MIN_NUMBERED_ROWS or not _is_whole(values):
        return False
    before, after = values[:-1], values[1:]
    if (before < after).all() or (before > after).all():
        return True
    return len(np.unique(values)) == len(values) and is_spread_out(values)


def is_function(x: Floats, y: Floats) -> bool:
    """Return whether ``y`` is one value for each value of ``x``, most of which are repeated."""
    distinct = len(np.unique(x))
    return 2 * distinct <= len(x) and len(np.unique([x, y], axis=1).T) == distinct


def is_spread_out(values: Floats) -> bool:
    """Return whether values fill their range evenly: their median is far from its ends."""
    unit, _ = in_unit(values)
    position = (np.median(unit) - unit.min()) / np.ptp(unit)
    return bool(0.1 <= position <= 0.9)


def _is_whole(values: Floats) -> bool:
    return not np.isnan(values).any() and bool((values == np.floor(values)).all())


def _may_be_times(name: str, values: Floats) -> bool:
    of_years = values.min() >= FIRST_YEAR and values.max() <= LAST_YEAR
    return NAME_OF_TIME.search(name) is not None or bool(of_years)


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


_ENDS = [
    parts for n in (1, 2, 3) for parts in ((slice(-n, None), slice(-n)), (slice(n), slice(n, None)))
]
"""The last and first few values, and the others."""


def marks_of(values: Floats) -> dict[float, int]:
    """Return values at the ends of a column that may stand for a missing one, and their counts.

    Each is far from all values between them, and is repeated or a usual one; or it is one of up to
    three codes, as 97, 98 and 99, or 88 and 99.
    """
    present = values[~np.isnan(values)]
    distinct, counts = np.unique(present, return_counts=True)
    found: dict[float, int] = {}
    while len(distinct) > MOST_NEIGHBOURS and len(found) < MOST_MARKS:
        for marks, inside in _ENDS:
            if _are_marks(distinct, counts, marks, inside, len(present)):
                break
        else:
            break
        found |= dict(zip(distinct[marks].tolist(), counts[marks].tolist(), strict=True))
        distinct, counts = distinct[inside], counts[inside]
    return found if 2 * sum(found.values()) < len(present) else {}


def _are_marks(distinct: Floats, counts: Integers, marks: slice, inside: slice, rows: int) -> bool:
    """Return whether the values at an end may be marks, given those inside."""
    ends, values, of_values = distinct[marks], distinct[inside], counts[inside]
    if len(values) < MOST_NEIGHBOURS:
        return False
    gap = ends[0] - values[-1] if ends[0] > values[-1] else values[0] - ends[-1]
    first, last = _central_range(values, of_values)
    # Between a negative mark and amounts, the range of these says nothing.
    spread = 0.0 if ends[-1] < 0 and values[0] / MIN_RATIO >= -ends[0] else last - first
    if len(ends) == 1:
        value = float(ends[0])
        usual = _may_be_missing(value, float(values[0]))
        far = gap > (MIN_GAP_OF_MARK if usual else MIN_GAP) * spread
        enough = max(MIN_MARK_ROWS, 0.002 * rows)
        repeated = (usual and abs(value) > 9) or counts[marks][0] >= enough
        many = len(distinct) > MIN_DISTINCT + 2
        return bool(far and repeated and (usual or many or _is_code(value)))
    nines = ends[0] > values[-1] and set(f"{ends[-1]:g}") == {"9"}
    coded = all(map(_is_code, ends))
    alike = (np.diff(ends) == 1).all() or all(len(set(f"{abs(x):g}")) == 1 for x in ends)
    if not (nines or coded or ends[-1] < 0 <= values[0]) or not alike:
        return False
    far = gap > (MIN_GAP if coded and not nines else MIN_GAP_OF_MARK) * spread
    scale = len(values) <= 7 and (np.diff(values) == 1).all() and gap > 1
    rare = scale and counts[marks].max() <= MAX_SHARE_OF_RARE * of_values.min()
    return bool((far or rare) and counts[marks].sum() >= MIN_MARK_ROWS)


def _sums_are_constant(parts: Floats) -> NDArray[np.bool_]:
    """Return whether the first 1, 2, ... columns sum to one number but for rounding, ``(m,)``.

    Sums of at least three columns only: of two, one is a copy of the other.
    """
    spread = np.minimum.accumulate(np.std(parts, axis=0))
    constant = np.std(np.cumsum(parts, axis=1), axis=0) < MAX_SPREAD_OF_SUM * spread
    return constant & (np.arange(parts.shape[1]) > 1)


def is_usual_mark(value: float) -> bool:
    """Return whether a value often stands for a missing one, and seldom for itself."""
    return value < 0 or _is_code(value)


def _is_code(value: float) -> bool:
    """Return whether a value is one that questionnaires have for no answer: 77, 88, 96, 998."""
    return re.fullmatch(r"([78])\1+|9+[6-9]", f"{value:g}") is not None


def _may_be_missing(value: float, least: float) -> bool:
    """Return whether a value often stands for a missing one: -1, 9.99, 999, -200."""
    digits = f"{abs(value):g}".replace(".", "").strip("0")
    return set(digits) == {"9"} or (value < 0 <= least and len(digits) < 3)


def _central_range(values: Floats, counts: Integers) -> tuple[float, float]:
    """Return the 1% and 99% quantiles."""
    shares = np.cumsum(counts) / counts.sum()
    return float(values[shares >= 0.01][0]), float(values[shares >= 0.99][0])


def _hashes(columns: Sequence[Floats]) -> NDArray[np.uint64]:
    """Return a number for each row: the same for rows with the same values."""
    total = np.zeros(len(columns[0]), np.uint64)
    for values in columns:
        total = (total ^ (values + 0.0).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(29)
    return total


def _chance_makes_no_copies(columns: Sequence[Floats], distinct_rows: int) -> bool:
    """Return whether columns have so many possible values that chance makes no copies of rows."""
    rows, together = len(columns[0]), 0.0
    apart = list[Floats]()
    for values in sorted(columns, key=lambda values: -len(np.unique(values))):
        distinct, counts = np.unique(values, return_counts=True)
        some = values[:MAX_ROWS_SUMMED]
        # A function of another column makes no difference.
        if len(distinct) < 2 or any(is_function(one, some) for one in apart):
            continue
        apart.append(some)
        together += np.log(np.sum((counts / rows) ** 2))
        distinct, _ = in_unit(distinct)
        with np.errstate(over="ignore"):
            steps = (distinct[-1] - distinct[0]) / np.diff(distinct).min()
        sparse = steps > MIN_DISTINCT * len(distinct) and len(distinct) > MIN_DISTINCT
        if sparse and distinct_rows <= 1.5 * len(distinct):
            return True
    return bool(together + np.log(rows) < np.log(0.01))
