"""Pairs of columns that share nothing with others: each with bases of its own rows."""

from __future__ import annotations

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax.inference._pairs import fit_pair
from hgr_jax.inference._small_problems import top_correlations
from hgr_jax.scanning.features import Features, Kernels


def estimate_separately(
    features: Features, kernels: Kernels, pairs: Integers
) -> tuple[Floats, Floats, Integers]:
    """Estimate HGR, HGR of linear functions and directions ``(N, 2)`` of ``pairs (N, 2)``.

    Each on its own; see `Estimates`.
    """
    value, of_linear = np.full(len(pairs), np.nan), np.full(len(pairs), np.nan)
    degrees = np.zeros((len(pairs), 2), np.intp)
    for place, (i, j) in enumerate(pairs):
        rows = np.flatnonzero(features.present(i) & features.present(j))
        if len(rows) < 2:
            continue
        w = np.ones(len(rows)) if features.weights is None else features.weights[rows]
        kernel_of_each = features.kernel(i, kernels.h), features.kernel(j, kernels.k)
        fitted = fit_pair(features.values(i)[rows], features.values(j)[rows], w, kernel_of_each)
        category = pairs[place] >= features.n_numeric
        counts = np.array(fitted.directions)
        # Of the indicators of a category one depends on the others.
        degrees[place] = counts - category
        m = (fitted.functions[1 : counts[0] + 1] * fitted.shares) @ fitted.functions[
            counts[0] + 1 :
        ].T
        value[place] = of_linear[place] = 0
        if m.size:
            linear = np.where(category, counts, 1)[None]
            value[place] = top_correlations(
                m[..., None], counts[None], linear, single=kernels.single
            )[0]
            of_linear[place] = top_correlations(m[..., None], linear, linear, single=False)[0]
    return value, of_linear, degrees
