"""From what was found of each pair to the matrices of a scan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax.typing import DTypeLike
from numpy.typing import ArrayLike

from hgr_jax._arrays import Floats, Integers
from hgr_jax.inference.bias import corrected_on_host
from hgr_jax.scanning.features import Estimates, Kernels
from hgr_jax.scanning.pvalues import Significance
from hgr_jax.scanning.result import Scan
from hgr_jax.tables.columns import Columns


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
