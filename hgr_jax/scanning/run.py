"""The pipeline from a table to a `Scan`: estimates, tests, notes on columns, result."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._progress import progress_bar
from hgr_jax.core.bias import ezekiel
from hgr_jax.core.ranks import LEAST_ROWS
from hgr_jax.inference.dependent_rows import TOO_SLOW, RowDesign
from hgr_jax.inference.multiplicity import adjust
from hgr_jax.scanning.design_tests import DesignTests
from hgr_jax.scanning.features import Estimates
from hgr_jax.scanning.given import GivenColumns
from hgr_jax.scanning.memory import MemoryTable
from hgr_jax.scanning.pairs import selected, skipped_columns
from hgr_jax.scanning.rank_tests import RankResults, estimate_by_ranks
from hgr_jax.scanning.request import Request, Test
from hgr_jax.scanning.result import PairRows, Scan
from hgr_jax.scanning.significance import SOURCES, Significance, test_pairs
from hgr_jax.scanning.squares import spread, squares_of
from hgr_jax.tables.columns import Columns, add_note

CONSTANT_IN_GROUPS = (
    "constant in each group, and so without p-values by orders within these: independence_test(...,"
    " groups=) tests a pair by whole groups"
)
"""Note on columns that orders within groups do not change."""

SQUARE_SIDE, SIDE_OF_SLOW = 128, 32
"""Number of columns of a part of a square; where a pair takes a millisecond or more."""


@dataclasses.dataclass(frozen=True)
class Examined:
    """Estimates and tests of pairs ``(N, 2)``.

    Attributes:
      columns: the columns of the table.
      request: options of the scan.
      positions: ``(N, 2)``, positions of the columns of each pair.
      given: the given columns, or None.
      values: estimates of the measure.
      of_ranks: HGR, of ranks.
      rows: ``(N,)``, effective sample sizes.
      tests: p-values.
      notes: as of `Scan`.
    """

    columns: Columns
    request: Request
    positions: Integers
    given: GivenColumns | None
    values: Estimates
    of_ranks: Estimates
    rows: Floats
    tests: Significance
    notes: dict[str, str]


class Square(NamedTuple):
    """What was found of the pairs of a square.

    Attributes:
      values, of_ranks, rows, tests: as of `Examined`.
    """

    values: Estimates
    of_ranks: Estimates
    rows: Floats
    tests: Significance


def examine(
    columns: Columns, request: Request, pairs: Integers, given: GivenColumns | None = None
) -> Examined:
    """Estimate and test pairs ``(N, 2)`` of columns, square by square."""
    if request.measure.function is not None:  # which takes numbers only
        pairs = pairs[np.isin(pairs, columns.number_positions).all(axis=1)]
    count = len(pairs)
    values, of_ranks, rows = Estimates.none(count), Estimates.none(count), np.zeros(count)
    tests = Significance.none(count)
    squares = squares_of(pairs, _side_of(request))
    execution = request.execution
    alone = dataclasses.replace(request, execution=dataclasses.replace(execution, executor=None))
    tasks = (
        functools.partial(examine_square, *selected(columns, pairs[places]), alone, given)
        for places in squares
    )
    with progress_bar(execution.progress, count, "pair") as advance:
        for places, found in zip(squares, spread(execution.executor, tasks), strict=True):
            values.put(places, found.values)
            of_ranks.put(places, found.of_ranks)
            tests.put(places, found.tests)
            rows[places] = found.rows
            advance(len(places))
    examined = Examined(
        columns, request, pairs, given, values, of_ranks, rows, tests, dict(columns.notes)
    )
    _note_all(examined)
    return examined


def _side_of(request: Request) -> int:
    kind = None if request.test is None else request.test.kind
    slow = request.measure.function is not None or request.given is not None
    return SIDE_OF_SLOW if slow or request.design or kind == "permutation" else SQUARE_SIDE


def examine_square(
    columns: Columns, pairs: Integers, request: Request, given: GivenColumns | None
) -> Square:
    """Estimate and test the pairs ``(N, 2)`` of a square, of which all columns are."""
    table = MemoryTable(columns, request, pairs, given)
    count, test, of_hgr = len(pairs), request.test, request.measure.kernels.ranked
    values = table.estimate()
    rows = table.effective_rows()
    if table.features.conditioning is not None:
        rows = np.maximum(rows - (len(table.features.conditioning) - 1), 2)
    by_ranks, tests = RankResults.none(count), Significance.none(count)
    if request.measure.function is None and (of_hgr or test is not None):
        by_law = test is not None and test.kind == "auto" and request.design is None
        if given is None:
            by_ranks = estimate_by_ranks(table, rows, tested=by_law)
        else:
            by_ranks.estimates.put(np.arange(count), table.estimate_ranks_given())
    of_ranks = by_ranks.estimates
    if of_hgr:
        values = dataclasses.replace(of_ranks, pearson=values.pearson)
    if test is not None and request.design is None:
        tests = test_pairs(table, test, values, by_ranks, rows)
    elif test is not None:
        assert request.design is not None
        tests = _test_by_design(table, test, request.design, values.varies)
    return Square(values, of_ranks, rows, tests)


def _note_all(examined: Examined) -> None:
    """Note what is to be said of columns."""
    if examined.request.measure.function is None:
        _note_constants(examined)
    if examined.request.design is not None:
        _note_dependent_rows(examined, examined.request.design)


def _test_by_design(
    table: MemoryTable, test: Test, design: RowDesign, usable: NDArray[np.bool_]
) -> Significance:
    """Test pairs whose rows are in an order or in groups."""
    tests, by_design = Significance.none(len(table.pairs)), DesignTests(table, design, test)
    by_design.test(usable)
    tests.pvalue[:] = by_design.pvalue
    tests.source[:] = [SOURCES.index(source) for source in by_design.source]
    return tests


def _note_dependent_rows(examined: Examined, design: RowDesign) -> None:
    """Note columns that are constant in each group, or too slow for the length of a series."""
    columns, slow = examined.columns, list[str]()
    used = set(np.unique(examined.positions).tolist())
    numbers = zip(columns.number_positions.tolist(), columns.numbers.T, strict=True)
    sides = [(position, np.asarray(x, np.float64)) for position, x in numbers]
    categories = zip(columns.category_positions.tolist(), columns.categories, strict=True)
    levels = [(i, np.where(each.codes < 0, np.nan, each.codes)) for i, each in categories]
    for position, values in sides + levels:
        if position not in used:
            continue
        if len(design.sizes) > 1 and design.is_constant(values):
            add_note(examined.notes, columns.names[position], CONSTANT_IN_GROUPS)
        elif (
            design.source == "shifts"
            and position in columns.number_positions
            and design.is_slow(values)
        ):
            slow.append(columns.names[position])
    for name in slow if len(slow) > 1 else ():
        add_note(examined.notes, name, TOO_SLOW)


def _note_constants(examined: Examined) -> None:
    """Note columns that, or whose residuals, do not vary on the rows they share with another."""
    values = examined.values
    lost = (values.degrees == 0) & (values.rows >= 2)[:, None]
    what = "is explained by what is given, or constant," if examined.given else "does not vary"
    _note_pairs(examined, lost, f"{what} on the rows that it shares with")
    if examined.request.measure.kernels.ranked:
        few = (values.rows >= 2) & (values.rows < LEAST_ROWS)
        both = np.stack([few, few], axis=1) & ~lost
        _note_pairs(examined, both, f"shares fewer than {LEAST_ROWS} rows with")


def _note_pairs(examined: Examined, chosen: NDArray[np.bool_], what: str) -> None:
    """Note what keeps columns, the ``chosen`` sides of pairs ``(N, 2)``, from having a value."""
    positions, counts = np.unique(examined.positions[chosen], return_counts=True)
    for position, count in zip(positions, counts, strict=True):
        others = f"{count} other column{'s' if count > 1 else ''}"
        name = examined.columns.names[position]
        add_note(examined.notes, name, f"{what} {others}: no value there")


def as_scan(examined: Examined, adjusted: Floats | None = None) -> Scan:
    """Return estimates and tests as a scan.

    ``adjusted`` are the adjusted p-values ``(N,)``; default: adjusted for these pairs.
    """
    if adjusted is None:
        adjusted = adjust(examined.tests.pvalue, examined.request.fdr)
    values, of_ranks, tests = examined.values, examined.of_ranks, examined.tests
    request, columns, given = examined.request, examined.columns, examined.given
    left_out = skipped_columns(columns, request)
    corrected = np.full(len(values.value), np.nan)
    if request.measure.kernels.ranked:
        corrected = np.asarray(values.value, np.float64)
    elif request.measure.name == "kb":
        parameters = np.maximum(values.degrees.sum(axis=1) - 1, 1)
        corrected = ezekiel(np, values.value, examined.rows, parameters)
    rows = PairRows(
        pairs=examined.positions,
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
    )
    settings = request.settings(columns.rows_of_table, () if given is None else given.names)
    if columns.drawn is not None:
        settings["sample_rows"] = columns.rows
    skipped = [columns.names[i] in left_out for i in columns.number_positions]
    conditioning = None
    if given is not None:
        of = given.ranked() if request.measure.kernels.ranked else given
        conditioning = of.functions()
    return Scan(
        names=columns.names,
        skipped=left_out,
        notes=examined.notes,
        settings=settings,
        _rows=rows,
        _numbers=columns.number_positions[~np.array(skipped, bool)],
        _columns=columns,
        _weights=request.row_weights,
        _given=given,
        _conditioning=conditioning,
        _kernels=request.measure.kernels,
    )
