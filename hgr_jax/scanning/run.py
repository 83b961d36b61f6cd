"""The pipeline from a table to a `Scan`: estimates, tests, notes on columns, result."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._progress import progress_bar
from hgr_jax.core.ranks import LEAST_ROWS
from hgr_jax.inference.dependent_rows import TOO_SLOW, RowDesign
from hgr_jax.inference.intervals import adjust, corrected_on_host
from hgr_jax.scanning.design_tests import DesignTests, of_groups, with_later
from hgr_jax.scanning.features import Estimates
from hgr_jax.scanning.memory import MemoryTable
from hgr_jax.scanning.pairs import skipped_columns
from hgr_jax.scanning.rank_tests import RankResults, estimate_by_ranks
from hgr_jax.scanning.request import Test
from hgr_jax.scanning.result import PairRows, Scan
from hgr_jax.scanning.significance import SOURCES, Significance, test_pairs
from hgr_jax.tables.columns import add_note

SAME_CORRELATION = 1 - 1e-6
"""Smallest |Pearson|, or HGR of two categories, of columns that are functions of each other."""


@dataclasses.dataclass(frozen=True)
class Examined:
    """Estimates and tests of pairs ``(N, 2)``.

    Attributes:
      table: the table of the pairs.
      values: estimates of the measure.
      of_ranks: HGR, of ranks.
      rows: ``(N,)``, effective sample sizes.
      tests: p-values.
      skipped, notes: as of `Scan`.
    """

    table: MemoryTable
    values: Estimates
    of_ranks: Estimates
    rows: Floats
    tests: Significance
    skipped: dict[str, str]
    notes: dict[str, str]


def scan_pairs(table: MemoryTable) -> Scan:
    """Scan the pairs of a table."""
    return as_scan(examine(table))


def examine(table: MemoryTable) -> Examined:
    """Estimate and test the pairs of a table."""
    columns, request, count = table.columns, table.request, len(table.pairs)
    skipped = skipped_columns(columns, request)
    shown = request.execution.progress
    bar = functools.partial(progress_bar, shown, count, unit="pair", leave=False)
    with bar(label="values") as advance:
        values, well_conditioned = table.estimate(advance)
    notes = dict(columns.notes)
    rows = table.effective_rows()
    conditioning = table.features.conditioning
    if conditioning is not None:
        rows = np.maximum(rows - (len(conditioning) - 1), 2)
    by_ranks, tests = RankResults.none(count), Significance.none(count)
    of_hgr, test = request.measure.kernels.ranked, request.test
    with bar(label="ranks") as advance:
        if request.measure.function is None and (of_hgr or test is not None):
            by_law = test is not None and test.kind == "auto" and request.design is None
            if table.given is None:
                by_ranks = estimate_by_ranks(table, rows, advance, tested=by_law)
            else:
                by_ranks.estimates.put(np.arange(count), table.estimate_ranks_given(advance))
    of_ranks = by_ranks.estimates
    if of_hgr:
        values = dataclasses.replace(of_ranks, pearson=values.pearson, linear=values.linear)
        well_conditioned[:] = True  # whatever the values are, ranks are
    _note_conditioning(table, values, well_conditioned, notes)
    if request.measure.function is None:
        _note_constants(table, values, notes)
        _note_same_values(table, values, notes)
    if test is not None:
        with bar(label="p-values") as advance:
            if request.design is None:
                tests = test_pairs(table, test, values, by_ranks, rows, advance)
            else:
                tests = _test_by_design(table, test, request.design, values.varies, notes, advance)
                _estimate_at_lags(table, request.design, tests.lag, values, of_ranks, rows)
    return Examined(table, values, of_ranks, rows, tests, skipped, notes)


def _test_by_design(
    table: MemoryTable,
    test: Test,
    design: RowDesign,
    usable: NDArray[np.bool_],
    notes: dict[str, str],
    progress: Callable[[int], None],
) -> Significance:
    """Test pairs whose rows are in an order or in groups; note series that are too slow."""
    tests, by_design = Significance.none(len(table.pairs)), DesignTests(table, design, test)
    by_design.test(usable, progress)
    tests.pvalue[:] = by_design.pvalue
    tests.source[:] = [SOURCES.index(source) for source in by_design.source]
    tests.lag[:] = by_design.lag
    slow = by_design.slow_columns()
    for column in slow if len(slow) > 1 else ():
        add_note(notes, table.columns.names[table.columns.number_positions[column]], TOO_SLOW)
    between = np.flatnonzero(usable & by_design.between)
    if len(between):
        request = dataclasses.replace(
            table.request, order=None, lags=None, groups=None, design=None
        )
        columns = of_groups(table.columns, design)
        of_one_row = examine(MemoryTable(columns, request, table.positions[between])).tests
        tests.pvalue[between] = of_one_row.pvalue
        tests.log_of_law[between] = of_one_row.log_of_law
        tests.source[between] = np.where(of_one_row.source > 0, SOURCES.index("between"), 0)
    return tests


def _estimate_at_lags(
    table: MemoryTable,
    design: RowDesign,
    lag: Integers,
    values: Estimates,
    of_ranks: Estimates,
    rows: Floats,
) -> None:
    """Replace the estimates, and numbers of rows, of pairs by those at their lags ``(N,)``."""

    def progress(done: int) -> None:
        """Show nothing: few pairs depend most at the same lag."""

    for each in np.unique(lag[lag != 0]).tolist():
        places = np.flatnonzero(lag == each)
        columns = with_later(table.columns, design, each)
        pairs = table.positions[places] + np.array([0, len(table.columns.names)])
        lagged = MemoryTable(columns, table.request, pairs)
        estimates, _ = lagged.estimate(progress)
        rows[places] = lagged.effective_rows()
        by_ranks = estimate_by_ranks(lagged, rows[places], progress, tested=False).estimates
        if table.kernels.ranked:
            estimates = dataclasses.replace(
                by_ranks, pearson=estimates.pearson, linear=estimates.linear
            )
        of_ranks.put(places, by_ranks)
        values.put(places, estimates)


def _note_conditioning(
    table: MemoryTable,
    values: Estimates,
    well_conditioned: NDArray[np.bool_],
    notes: dict[str, str],
) -> None:
    """Note ill-conditioned columns."""
    columns = table.columns
    ill = columns.number_positions[~well_conditioned]
    for position in ill:
        remark = (
            "ill conditioned (far outliers, or values that only their last digits tell apart): take"
            " ranks, lower degrees, or float64"
        )
        add_note(notes, columns.names[position], remark)


def _note_constants(table: MemoryTable, values: Estimates, notes: dict[str, str]) -> None:
    """Note columns that, or whose residuals, do not vary on the rows they share with another."""
    lost = (values.degrees == 0) & (values.rows >= 2)[:, None]
    what = "is explained by what is given, or constant," if table.given else "does not vary"
    _note_pairs(table, lost, f"{what} on the rows that it shares with", notes)
    if table.kernels.ranked:
        few = (values.rows >= 2) & (values.rows < LEAST_ROWS)
        both = np.stack([few, few], axis=1) & ~lost
        _note_pairs(table, both, f"shares fewer than {LEAST_ROWS} rows with", notes)


def _note_pairs(
    table: MemoryTable, chosen: NDArray[np.bool_], what: str, notes: dict[str, str]
) -> None:
    """Note what keeps columns, the ``chosen`` sides of pairs ``(N, 2)``, from having a value."""
    positions, counts = np.unique(table.positions[chosen], return_counts=True)
    for position, count in zip(positions, counts, strict=True):
        others = f"{count} other column{'s' if count > 1 else ''}"
        add_note(notes, table.columns.names[position], f"{what} {others}: no value there")


def _note_same_values(table: MemoryTable, values: Estimates, notes: dict[str, str]) -> None:
    """Note columns that are functions of an earlier column."""
    columns = table.columns
    position_of = dict(zip(columns.category_positions.tolist(), columns.categories, strict=True))
    noted: set[int] = set()
    for place in np.flatnonzero(values.value >= SAME_CORRELATION):
        first, second = sorted(table.positions[place].tolist())
        categories = [position_of.get(first), position_of.get(second)]
        if second in noted:
            continue
        if values.pearson[place] >= SAME_CORRELATION:
            remark = f"a linear function of {columns.names[first]!r}"
        elif categories[0] and categories[1] and np.ptp(values.degrees[place]) == 0:
            remark = f"one-to-one with {columns.names[first]!r}"
        else:
            continue
        noted.add(second)
        add_note(notes, columns.names[second], remark)


def as_scan(examined: Examined, adjusted: Floats | None = None) -> Scan:
    """Return estimates and tests as a scan.

    ``adjusted`` are the adjusted p-values ``(N,)``; default: adjusted for these pairs.
    """
    if adjusted is None:
        adjusted = adjust(examined.tests.pvalue, examined.table.request.fdr)
    table, values, of_ranks = examined.table, examined.values, examined.of_ranks
    request, columns, tests = table.request, table.columns, examined.tests
    parameters = np.maximum(values.degrees.sum(axis=1) - 1, 1)
    corrected = corrected_on_host(values.value, examined.rows, parameters)
    if request.measure.kernels.ranked:
        corrected = np.asarray(values.value, np.float64)
    elif request.measure.name != "kb":
        corrected = np.full(len(corrected), np.nan)
    rows = PairRows(
        pairs=table.positions,
        correlation=values.value,
        rank_correlation=of_ranks.value,
        pearson=values.pearson,
        spearman=of_ranks.pearson,
        rank_linear=of_ranks.linear,
        pvalue=tests.pvalue,
        adjusted_pvalue=adjusted,
        corrected=corrected,
        null_mean=tests.null_mean,
        null_95=tests.null_95,
        n_obs=values.rows,
        degrees=values.degrees,
        source=tests.source,
        lag=None if request.lags in (None, (0,)) else tests.lag,
    )
    given = [columns.names[i] for i in table.given_positions]
    settings = request.settings(columns.rows_of_table, given)
    if columns.drawn is not None:
        settings["sample_rows"] = columns.rows
    skipped = [columns.names[i] in examined.skipped for i in columns.number_positions]
    return Scan(
        names=columns.names,
        skipped=examined.skipped,
        notes=examined.notes,
        settings=settings,
        _rows=rows,
        _numbers=columns.number_positions[~np.array(skipped, bool)],
        _columns=columns,
        _weights=request.row_weights,
        _conditioning=(
            table.in_ranks if request.measure.kernels.ranked else table.features
        ).conditioning,
        _kernels=request.measure.kernels,
        _design=request.design,
    )
