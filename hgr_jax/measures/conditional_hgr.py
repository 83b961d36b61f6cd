"""HGR of two variables given others: read, regressed, and fitted, on the host."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hgr_jax._arrays import is_traced
from hgr_jax._checks import as_host_weights, check_indexes, warn_of_counts
from hgr_jax._threads import one_blas_thread
from hgr_jax.core.host.conditional_hgr import (
    ConditionalHGRFit,
    fit_of_residuals,
    residuals_of,
    unknown_fit,
)
from hgr_jax.core.host.conditioning import LEAST_GIVEN_ROWS, Conditioning, Variable
from hgr_jax.core.host.explained import MAX_SHARE_EXPLAINED, GivenVariables
from hgr_jax.core.host.ranks import effective_row_count
from hgr_jax.tables.variables import read_given


@one_blas_thread()
def conditional_hgr_fit(a: Any, b: Any, given: Any, weights: ArrayLike | None) -> ConditionalHGRFit:
    """Fit HGR of two variables given others; see `hgr_jax.hgr`."""
    if is_traced(a, b, given, weights):
        raise TypeError(
            "hgr given other variables is for the host: a, b, given and weights must not be traced."
            " hgr_jax.kb(a, b, given=c) can be traced."
        )
    check_indexes(a=a, b=b, weights=weights, given=given)
    columns, levels = read_given(a, b, given)
    w = as_host_weights(weights, len(columns[0]))
    if w is not None:
        warn_of_counts(weights)
        columns, w = [x[w > 0] for x in columns], w[w > 0]
        w = w if np.ptp(w) else None
    rows = effective_row_count(len(columns[0]), w)
    if rows < LEAST_GIVEN_ROWS or not all(np.isfinite(x).all() for x in columns):
        return unknown_fit("a value is missing or infinite, or there are fewer than 10 rows", rows)
    variables = [
        Variable.of_levels(x.astype(np.int64), w) if i in levels else Variable.of_number(x, w)
        for i, x in enumerate(columns)
    ]
    others = [z for z in variables[2:] if len(z.functions)]
    conditioning = Conditioning(others, len(columns[0]), w)
    sides = residuals_of(variables[0], conditioning), residuals_of(variables[1], conditioning)
    fit = fit_of_residuals(*sides, conditioning)
    if math.isnan(fit.correlation) or max(fit.explained) < 1 - MAX_SHARE_EXPLAINED:
        return fit
    places = range(2, len(columns))
    numbers = [columns[i] for i in places if i not in levels]
    known = GivenVariables(numbers, [columns[i] for i in places if i in levels])
    for i, name in enumerate("ab"):
        if fit.explained[i] and known.explains(columns[i], is_level=i in levels):
            return unknown_fit(f"{name} is a function of what is given", rows, fit.explained)
    return fit
