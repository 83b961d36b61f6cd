"""From the sums of a stream to a `Scan`."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from hgr_jax._arrays import Integers
from hgr_jax._checks import as_key, check_count
from hgr_jax.inference.multiplicity import adjust
from hgr_jax.scanning.choice import as_positions, pairs_of
from hgr_jax.scanning.features import Estimates
from hgr_jax.scanning.gather import as_scan
from hgr_jax.scanning.notes import note_constants, with_ill_conditioned
from hgr_jax.scanning.plan import Plan
from hgr_jax.scanning.pvalues import Significance
from hgr_jax.scanning.reread import Reread
from hgr_jax.scanning.result import Scan
from hgr_jax.scanning.stream_sums import (
    StreamSums,
    blurred_numbers,
    estimated,
    of_fine,
    spans,
    unresolved,
)
from hgr_jax.scanning.streamed_tests import effective_rows_of, sample_features, tests_of_pairs
from hgr_jax.scanning.survey import OF_WEIGHTS
from hgr_jax.tables.arrow_columns import DATES
from hgr_jax.tables.columns import OTHER, Columns
from hgr_jax.tables.convert import add_note
from hgr_jax.tables.encoding import Category

SECONDS = 86_400.0

CURE = "pairs without a value take files and more memory (memory=), or a scan in memory"
"""Of columns that are ill conditioned on the sums."""


def scan_of(
    plan: Plan,
    sums: StreamSums | None,
    *,
    target: str | int | Sequence[str | int] | None,
    permutations: int,
    key: Array | None,
    memory: int,
    reread: Reread | None = None,
) -> Scan:
    """Return the scan of sums; see `ScanState.result`.

    With ``reread``, pairs of which they say too little are estimated from the rows themselves.
    """
    if sums is None:
        raise ValueError("this state has no rows yet: update it first.")
    targets = as_positions("target", target, plan.names)
    permutations = check_count("permutations", permutations)
    key = jax.random.key(0) if key is None else as_key(key)
    columns = sample_columns(plan)
    pairs, positions = pairs_of(columns, targets)
    found, lost = estimated(plan, sums, pairs)
    in_span, wrong = spans(plan, sums)
    wanting = unresolved(plan, in_span)
    blur = blurred_numbers(plan)
    fine = ~(wrong | wanting | blur)
    doubtful = lost | ~of_fine(~blur, pairs)
    if reread is not None and doubtful.any():
        by_sums = ~doubtful
        doubtful = _reread(reread, plan, found, pairs, doubtful)
        fine |= ~np.isin(np.arange(len(fine)), pairs[doubtful | by_sums])
        lost &= doubtful
    for values in (found.correlation, found.pearson, found.linear):
        values[doubtful] = np.nan
    notes = with_ill_conditioned(columns, fine, CURE)
    _note_lost(columns, positions[lost & of_fine(fine, pairs)], notes)
    for name, count in zip(plan.levels, sums.strange.tolist(), strict=True):
        if count and plan.expected is None:
            remark = f"{count:,} rows have texts that the sample does not have: {OTHER!r}"
            add_note(notes, name, remark)
    note_constants(columns, positions[~lost], found.select(~lost), notes, given=False)
    rows = effective_rows_of(plan, sums, pairs)
    tests, of_ranks = Significance.none(len(pairs)), Estimates.none(len(pairs))
    if plan.tested:
        tests, of_ranks = tests_of_pairs(
            plan, sums, pairs, found, rows, permutations=permutations, key=key, memory=memory
        )
    settings = {
        "h": plan.kernels.h,
        "k": plan.kernels.k,
        "method": "sk" if plan.kernels.single else "kb",
        "transform": None,
        "pvalues": "auto" if plan.tested else None,
        "permutations": permutations,
        "weighted": plan.weights is not None,
        "given": [],
        "given_degree": 5,
        "rows": sums.seen,
        "sample_rows": columns.rows,
        "dtype": str(plan.dtype),
    }
    weights = None if plan.weights is None else plan.sample[OF_WEIGHTS]
    return as_scan(
        columns,
        positions,
        found,
        of_ranks,
        rows,
        tests,
        adjust(tests.pvalue),
        weights,
        plan.skipped,
        notes,
        settings,
        kernels=plan.kernels,
    )


def _reread(
    reread: Reread, plan: Plan, found: Estimates, pairs: Integers, lost: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Put new estimates of pairs that are lost, and return those that were not read again."""
    fits, (value, linear, degrees, _) = reread(plan, pairs[lost], found.rows[lost])
    places = np.flatnonzero(lost)[fits]
    value, linear = (np.where((degrees > 0).all(axis=1), x, np.nan) for x in (value, linear))
    numbers = (pairs[places] < len(plan.numbers)).all(axis=1)
    found.correlation[places], found.linear[places], found.degrees[places] = value, linear, degrees
    found.pearson[places] = np.where(numbers, linear, np.nan)
    left = lost.copy()
    left[places] = False
    return left


def sample_columns(plan: Plan) -> Columns:
    """Return the rows of the sample as the columns of a table."""
    sample = sample_features(plan)
    position = {name: place for place, name in enumerate(plan.names)}
    numbers, dates = sample.x, dict[str, float]()
    for place, name in enumerate(plan.numbers):
        if plan.kinds[name] in DATES and not np.isnan(numbers[:, place]).all():
            first = float(np.nanmin(numbers[:, place]))
            numbers[:, place] -= first
            dates[name] = first * SECONDS
    return Columns(
        names=plan.names,
        numbers=numbers,
        number_positions=np.array([position[name] for name in plan.numbers], np.intp),
        categories=tuple(
            Category(codes, levels)
            for codes, levels in zip(sample.codes.T, plan.levels.values(), strict=True)
        ),
        category_positions=np.array([position[name] for name in plan.levels], np.intp),
        skipped=dict(plan.skipped),
        notes=dict(plan.notes),
        dates=dates,
    )


def _note_lost(columns: Columns, pairs: Integers, notes: dict[str, str]) -> None:
    """Add a remark on columns with pairs whose rows leave their bases ill conditioned."""
    for first, second in pairs.tolist():
        if first in columns.category_positions:
            first, second = second, first
        remark = (
            f"beside {columns.names[second]} it has other values than elsewhere, on which its"
            " polynomials are ill conditioned: no value; scan these two in memory"
        )
        add_note(notes, columns.names[first], remark)
