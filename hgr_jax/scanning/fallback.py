"""Pairs of columns that share nothing with others: each with bases of its own rows."""

from __future__ import annotations

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.linalg import top_correlations
from hgr_jax.core.host.polynomials import fit_pair
from hgr_jax.core.partial import EXPLAINED
from hgr_jax.scanning.errors import error_of_pair
from hgr_jax.scanning.features import Features, Kernels, within_range
from hgr_jax.scanning.given import known_on, left_of


def estimate_separately(
    features: Features, kernels: Kernels, pairs: Integers, *, errors: bool = False
) -> tuple[Floats, Floats, Integers, Floats]:
    """Estimate HGR, HGR of linear functions and directions ``(N, 2)`` of ``pairs (N, 2)``.

    And, with ``errors``, standard errors.  Each on its own; see `Estimates`.
    """
    value, of_linear, error = (np.full(len(pairs), np.nan) for _ in range(3))
    degrees = np.zeros((len(pairs), 2), np.intp)
    for place, (i, j) in enumerate(pairs):
        rows = np.flatnonzero(features.present(i) & features.present(j))
        if len(rows) < 2:
            continue
        w = np.ones(len(rows)) if features.weights is None else features.weights[rows]
        kernel_of_each = features.kernel(i, kernels.h), features.kernel(j, kernels.k)
        # Of values near each other among far ones, the features may have no digit left.
        a, b = (features.digits(column)[rows] for column in (i, j))
        if kernels.plain:
            a, b = (within_range(x[:, None])[:, 0] for x in (a, b))
        fitted = fit_pair(a, b, w, kernel_of_each)
        category = pairs[place] >= features.n_numeric
        counts = np.array(fitted.directions)
        f, g = fitted.functions[1 : counts[0] + 1], fitted.functions[counts[0] + 1 :]
        if features.known is not None:
            known = known_on(features.known, rows, w)
            least = EXPLAINED[str(features.x.dtype)]
            f, g = (left_of(side, known, fitted.shares, least)[0] for side in (f, g))
        # Those that depend on others, as one of the indicators of a category does, are 0.
        degrees[place] = f.any(axis=1).sum(), g.any(axis=1).sum()
        m = (f * fitted.shares) @ g.T
        value[place] = of_linear[place] = 0
        if m.size:
            linear = np.where(category, counts, 1)[None]
            value[place] = top_correlations(
                m[..., None], counts[None], linear, single=kernels.single
            )[0]
            of_linear[place] = top_correlations(m[..., None], linear, linear, single=False)[0]
            if errors:
                error[place] = error_of_pair(
                    f, g, fitted.shares, counts, linear[0], single=kernels.single
                )
    return value, of_linear, degrees, error
