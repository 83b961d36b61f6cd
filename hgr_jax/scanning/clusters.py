"""Columns of a scan, similar ones side by side."""

from __future__ import annotations

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax._optional import require


def clustered_columns(correlation: Floats) -> Integers:
    """Return the positions of the columns with a 1 on the diagonal of ``(p, p)``, clustered."""
    used = np.flatnonzero(np.isfinite(np.diagonal(correlation)))
    if len(used) < 3:
        return used
    hierarchy = require("scipy.cluster.hierarchy", "table")
    apart = 1 - np.nan_to_num(correlation[np.ix_(used, used)])
    first, second = np.triu_indices(len(used), 1)
    tree = hierarchy.linkage(np.maximum(apart[first, second], 0), "average")
    return used[hierarchy.leaves_list(tree)]
