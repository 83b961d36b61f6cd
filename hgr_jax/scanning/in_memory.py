"""Pairs of the columns of a table in memory: values, those of their ranks, and tests."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import Array

from hgr_jax._arrays import Floats, Integers
from hgr_jax._progress import progress_bar
from hgr_jax.inference.multiplicity import adjust
from hgr_jax.scanning.choice import numeric_only
from hgr_jax.scanning.engine import Engine
from hgr_jax.scanning.estimate import estimate_pairs
from hgr_jax.scanning.features import Estimates, Features, Kernels, as_features
from hgr_jax.scanning.gather import as_scan
from hgr_jax.scanning.generic import estimate_measure
from hgr_jax.scanning.given import GivenColumns
from hgr_jax.scanning.notes import note_constants, with_ill_conditioned
from hgr_jax.scanning.options import Measure, named_kernel
from hgr_jax.scanning.products import on_devices
from hgr_jax.scanning.pvalues import Significance, effective_rows, significance
from hgr_jax.scanning.rank_tests import RankTests
from hgr_jax.scanning.result import Scan
from hgr_jax.scanning.unpooled import exact_pairs, with_exact
from hgr_jax.tables.columns import Columns


@dataclasses.dataclass(frozen=True)
class Request:
    """What is asked of the pairs of a table; options are those of `hgr_jax.scan`, checked.

    Attributes:
      measure: of ``method``, None where the engine has it.
      known: the given columns, if any, and ``given`` their names.
      ranked_again: as ``again`` of `RankTests`, of a table whose pairs are examined in parts.
    """

    kernels: Kernels
    method: str | Measure
    measure: Measure | None
    ranked: bool
    weights: Floats | None
    pvalues: str | None
    standard_errors: bool
    permutations: int
    key: Array | None
    memory: int
    devices: Sequence[jax.Device] | None
    progress: bool
    given_degree: int
    known: GivenColumns | None = None
    given: tuple[str, ...] = ()
    ranked_again: bool | None = None

    def settings(self, columns: Columns, dtype: str) -> dict[str, Any]:
        """Return what a `Scan` keeps of this."""
        method = self.method
        return {
            "h": named_kernel(self.kernels.h),
            "k": named_kernel(self.kernels.k),
            "method": method if isinstance(method, str) else getattr(method, "__name__", "measure"),
            "transform": "rank" if self.ranked else None,
            "pvalues": self.pvalues,
            "permutations": self.permutations,
            "weighted": self.weights is not None,
            "given": [*self.given],
            "given_degree": self.given_degree,
            "rows": columns.rows,
            "dtype": dtype,
        }


@dataclasses.dataclass(frozen=True)
class Examined:
    """What was found of pairs ``(N, 2)``, with the columns that they are of.

    Attributes:
      positions: of the columns of each in the table.
      rows: of even weight that each is worth.
      exact: pairs whose relation pooling would hide.
    """

    features: Features
    positions: Integers
    found: Estimates
    of_ranks: Estimates
    rows: Floats
    tests: Significance
    skipped: Mapping[str, str]
    notes: Mapping[str, str]
    exact: Sequence[tuple[int, int]]


def examine(columns: Columns, request: Request, pairs: Integers, positions: Integers) -> Examined:
    """Estimate and test pairs, as `hgr_jax.scanning.choice.pairs_of` has them."""
    kernels, measure, known = request.kernels, request.measure, request.known
    as_they_are = measure is not None or not kernels.plain
    features = as_features(columns, request.weights, ranked=request.ranked, as_they_are=as_they_are)
    if known is not None:
        features = dataclasses.replace(features, known=known.functions())
    show = functools.partial(
        progress_bar, request.progress, len(pairs), unit="pair", extra="table", leave=False
    )
    with show(label="values") as advance, on_devices(request.devices):
        if measure is None:
            found, fine = estimate_pairs(
                features, kernels, pairs, request.memory, advance, errors=request.standard_errors
            )
            notes = with_ill_conditioned(columns, fine)
            note_constants(columns, positions, found, notes, given=known is not None)
        else:
            pairs, positions = numeric_only(columns, pairs, positions)
            found = estimate_measure(features, measure, pairs, request.memory, advance)
            notes = columns.notes
    skipped = dict(columns.skipped)
    if measure is not None:
        left_out = [columns.names[i] for i in columns.category_positions]
        skipped |= dict.fromkeys(left_out, "a category; this measure takes numbers")
    rows = effective_rows(features, pairs, found)
    if features.known is not None:
        rows = np.maximum(rows - (len(features.known) - 1), 2)
    tests, of_ranks = Significance.none(len(pairs)), Estimates.none(len(pairs))
    in_ranks, by_ranks = features, None
    if request.pvalues is not None and measure is None:
        if not request.ranked or not kernels.plain:
            in_ranks = features.ranked()
            if known is not None:
                in_ranks = dataclasses.replace(in_ranks, known=known.ranked().functions())
        with show(label="ranks") as advance:
            if request.pvalues == "auto" and request.method == "kb" and known is None:
                by_ranks = RankTests(
                    in_ranks, kernels.of_ranks(), pairs, rows, found, again=request.ranked_again
                )
                by_ranks.run(request.memory, advance)
            if in_ranks is features:
                of_ranks = found
            elif by_ranks is not None:
                of_ranks = by_ranks.completed(request.memory, advance)
            else:
                engine = Engine(in_ranks, kernels.of_ranks(), request.memory)
                of_ranks = engine.estimate(pairs, advance)
    if request.pvalues is not None:
        with show(label="p-values") as advance:
            tests = significance(
                features,
                in_ranks,
                kernels,
                measure,
                pairs,
                found,
                of_ranks,
                rows,
                by_ranks,
                source=request.pvalues if request.method == "kb" else "permutation",
                permutations=request.permutations,
                key=request.key,
                memory=request.memory,
                progress=advance,
                given=known,
            )
    exact = exact_pairs(columns, positions, found) if measure is None else []
    if exact:
        notes = dict(notes)
        found, of_ranks = with_exact(columns, positions, exact, notes, found, of_ranks)
    return Examined(features, positions, found, of_ranks, rows, tests, skipped, notes, exact)


def as_result(
    columns: Columns,
    request: Request,
    examined: Examined,
    adjusted: Callable[[Floats], Floats] = adjust,
) -> Scan:
    """Return the scan of pairs; ``adjusted`` makes their p-values those of their family."""
    return as_scan(
        columns,
        examined.positions,
        examined.found,
        examined.of_ranks,
        examined.rows,
        examined.tests,
        adjusted(examined.tests.pvalue),
        request.weights,
        examined.skipped,
        examined.notes,
        request.settings(columns, str(examined.features.x.dtype)),
        examined.exact,
        examined.features.known,
        request.kernels,
        errors=request.standard_errors,
    )
