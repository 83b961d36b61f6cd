"""[notes] Remarks of a scan on columns of which there is no value, or none to rely on.

[gather] From what was found of each pair to the matrices of a scan.

[unpooled] Exact relations of categories that pooling their rare levels would hide.

Every zone lies in one borough, but not the pool of all rare zones.


[in_memory] Pairs of the columns of a table in memory: values, those of their ranks, and tests.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from numpy.typing import ArrayLike, NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._progress import progress_bar
from hgr_jax.inference.bias import corrected_on_host
from hgr_jax.inference.multiplicity import adjust
from hgr_jax.scanning.engine import Engine, estimate_measure, estimate_pairs
from hgr_jax.scanning.features import Estimates, Features, Kernels, as_features
from hgr_jax.scanning.pairs import numeric_only
from hgr_jax.scanning.rank_tests import RankTests
from hgr_jax.scanning.request import Measure, named_kernel
from hgr_jax.scanning.residuals import GivenColumns
from hgr_jax.scanning.result import Scan
from hgr_jax.scanning.significance import Significance, effective_rows, significance
from hgr_jax.scanning.sums import on_devices
from hgr_jax.tables.columns import Columns
from hgr_jax.tables.convert import add_note


def note_constants(
    columns: Columns, pairs: Integers, found: Estimates, notes: dict[str, str], *, given: bool
) -> None:
    """Add a remark on columns that do not vary on the rows that they share with another.

    Or of which nothing is left there beside ``given`` ones.
    """
    lost = (found.degrees == 0) & (found.rows >= 2)[:, None]
    positions, counts = np.unique(pairs[lost], return_counts=True)
    for position, count in zip(positions, counts, strict=True):
        pairs_of = f"{count} other column{'s' if count > 1 else ''}"
        what = "is explained by what is given, or constant," if given else "does not vary"
        remark = f"{what} on the rows that it shares with {pairs_of}: no value there"
        add_note(notes, columns.names[position], remark)


def with_ill_conditioned(
    columns: Columns,
    fine: NDArray[np.bool_],
    cure: str = "take ranks, lower degrees, or float64",
) -> dict[str, str]:
    """Return the remarks on columns, and one on those of which the basis is not ``fine (p,)``."""
    notes = dict(columns.notes)
    for position in columns.number_positions[~fine]:
        what = "ill conditioned (far outliers, or values that only their last digits tell apart)"
        add_note(notes, columns.names[position], f"{what}: {cure}")
    return notes


def as_scan(
    columns: Columns,
    pairs: Integers,
    found: Estimates,
    of_ranks: Estimates,
    rows: Floats,
    tests: Significance,
    adjusted: Floats,
    weights: ArrayLike | None,
    skipped: Mapping[str, str],
    notes: Mapping[str, str],
    settings: Mapping[str, Any],
    exact: Sequence[tuple[int, int]] = (),
    known: Floats | None = None,
    kernels: Kernels | None = None,
    *,
    errors: bool = False,
) -> Scan:
    """Gather estimates and tests of ``pairs (N, 2)`` of columns, worth ``rows`` rows each.

    ``adjusted`` are the p-values among their family, ``of_ranks`` the estimates of the columns'
    ranks, ``exact`` the pairs whose relation pooling would hide, ``known`` the functions that are
    given, ``kernels`` those of both sides; ``errors`` says whether there are standard errors.
    """
    count = len(columns.names)
    used = [i for i, name in enumerate(columns.names) if name not in skipped]

    def square(values: Any, diagonal: float, dtype: DTypeLike = np.float64) -> Any:
        whole = np.full((count, count), 0 if dtype != np.float64 else np.nan, dtype)
        whole[pairs[:, 0], pairs[:, 1]] = whole[pairs[:, 1], pairs[:, 0]] = values
        whole[used, used] = diagonal
        return whole

    value = found.correlation
    parameters = np.maximum(found.degrees.sum(axis=1) - 1, 1)
    less = corrected_on_host(value, rows, parameters)
    if settings["method"] != "kb":
        less = np.full(len(value), np.nan)
    degrees = np.zeros((count, count, 2), np.intp)
    degrees[pairs[:, 0], pairs[:, 1]] = found.degrees
    degrees[pairs[:, 1], pairs[:, 0]] = found.degrees[:, ::-1]
    numbers = np.isin(used, columns.number_positions)
    numeric = np.array(used, np.intp)[numbers]
    linear = [square(each.pearson, np.nan) for each in (found, of_ranks)]
    for matrix in linear:
        matrix[numeric, numeric] = 1
    return Scan(
        names=columns.names,
        correlation=square(value, 1.0),
        rank_correlation=square(of_ranks.correlation, 1.0),
        pearson=linear[0],
        spearman=linear[1],
        rank_linear=square(of_ranks.linear, np.nan),
        pvalue=square(tests.pvalue, np.nan),
        adjusted_pvalue=square(adjusted, np.nan),
        corrected=square(less, np.nan),
        null_mean=square(tests.null_mean, np.nan),
        null_95=square(tests.null_95, np.nan),
        n_obs=square(found.rows, 0, np.intp),
        degrees=degrees,
        source=square(tests.source, 0, np.int8),
        skipped=skipped,
        notes=notes,
        settings=settings,
        pairs=pairs,
        standard_error=square(found.error, np.nan) if errors else None,
        _columns=columns,
        _weights=weights,
        _known=known,
        _kernels=kernels,
        _exact=frozenset((columns.names[i], columns.names[j]) for i, j in exact),
    )


def exact_pairs(columns: Columns, pairs: Integers, found: Estimates) -> list[tuple[int, int]]:
    """Return the pairs ``(N, 2)`` of which one column, before pooling, determines the other.

    Both are categories, one was pooled, and both vary on the rows of the pair.  The first of each
    returned pair of positions in the table determines the second.
    """
    if not any(category.unpooled for category in columns.categories):
        return []
    place = dict(zip(columns.category_positions.tolist(), columns.categories, strict=True))
    both = np.isin(pairs, columns.category_positions).all(axis=1)
    both &= np.asarray((found.degrees > 0).all(axis=1))
    exact = []
    for i, j in pairs[both].tolist():
        for first, second in ((i, j), (j, i)):
            fine = place[first].unpooled
            if fine is not None and fine.determines(place[second].unpooled or place[second]):
                exact.append((first, second))
                break
    return exact


def with_exact(
    columns: Columns,
    pairs: Integers,
    exact: list[tuple[int, int]],
    notes: dict[str, str],
    *estimates: Estimates,
) -> list[Estimates]:
    """Return estimates whose value is 1 for `exact_pairs`, and say so in ``notes``."""
    for i, j in exact:
        add_note(
            notes,
            columns.names[i],
            f"beside {columns.names[j]} its rare levels are not pooled: each of its levels lies in"
            " one level of that",
        )
    count = len(columns.names)
    known = [min(pair) * count + max(pair) for pair in exact]
    ones = np.isin(pairs.min(axis=1) * count + pairs.max(axis=1), known)
    return [
        dataclasses.replace(
            each,
            correlation=np.where(ones, 1.0, each.correlation),
            error=np.where(ones & ~np.isnan(each.error), 0.0, each.error),
        )
        for each in estimates
    ]


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
    """Estimate and test pairs, as `hgr_jax.scanning.pairs.pairs_of` has them."""
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
