"""Pairs of columns that share nothing with others: each with bases of its own rows."""

from __future__ import annotations

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax.inference._polynomials import centred_indicators, polynomials_at
from hgr_jax.inference._small_problems import top_correlations
from hgr_jax.scanning.features import Features, Kernels


def estimate_separately(
    features: Features, kernels: Kernels, pairs: Integers
) -> tuple[Floats, Floats, Integers]:
    """Estimate HGR, |Pearson| and directions ``(N, 2)`` of ``pairs (N, 2)``, each on its own."""
    value, pearson = np.full(len(pairs), np.nan), np.full(len(pairs), np.nan)
    degrees = np.zeros((len(pairs), 2), np.intp)
    numbers = features.n_numeric
    for place, pair in enumerate(pairs):
        both = np.ones(features.rows, bool)
        for column in pair:
            both &= (
                ~np.isnan(features.x[:, column])
                if column < numbers
                else features.codes[:, column - numbers] >= 0
            )
        rows = np.flatnonzero(both)
        if len(rows) < 2:
            continue
        w = np.ones(len(rows)) if features.weights is None else features.weights[rows]
        w = w.astype(np.float64) / w.sum(dtype=np.float64)
        sides, linear = [], []
        for side, (column, degree) in enumerate(zip(pair, (kernels.h, kernels.k), strict=True)):
            if column < numbers:
                found = polynomials_at(features.x[rows, column], w, degree)
                linear.append(1)
            else:
                found = centred_indicators(
                    features.codes[rows, column - numbers], w, features.levels[column - numbers]
                )
                linear.append(len(found))
            sides.append(found)
            degrees[place, side] = len(found) - (column >= numbers)
        m = (sides[0] * w) @ sides[1].T
        if m.size:
            counts = np.array([m.shape])
            value[place] = top_correlations(
                m[..., None], counts, np.array([linear]), single=kernels.single
            )[0]
        else:
            value[place] = 0
        if (pair < numbers).all():
            pearson[place] = min(abs(m[0, 0]), 1) if m.size else 0
    return value, pearson, degrees
