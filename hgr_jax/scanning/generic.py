"""Any measure of two vectors on many pairs of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hgr_jax._arrays import Integers
from hgr_jax._checks import as_estimate
from hgr_jax.scanning.features import Estimates, Features, patterns_of


def estimate_measure(
    features: Features,
    measure: Callable[[Any, Any], Any],
    pairs: Integers,
    memory: int,
    progress: Callable[[int], None] = lambda done: None,
) -> Estimates:
    """Estimate |``measure``| of every pair of numeric columns, on the rows where both are present.

    The measures of this package have programs for few numbers of rows; another function has one
    for every number that occurs, and pairs without missing values share one.

    Raises:
      ValueError: for weights, which a measure of two vectors cannot take.
    """
    if features.weights is not None:
        raise ValueError("weights are for method='kb' or 'sk'.")
    x = features.x
    patterns = patterns_of(features)
    of = patterns.pattern_index[pairs]
    value, pearson = np.full(len(pairs), np.nan), np.full(len(pairs), np.nan)
    rows = patterns.shared_rows()[of[:, 0], of[:, 1]]
    complete = rows == features.rows

    def one(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.abs(as_estimate(measure, a, b, {}))

    ours = str(getattr(measure, "__module__", "")).startswith("hgr_jax.")
    several = jax.jit(jax.vmap(one))
    at_once = int(np.clip(memory // (64 * features.rows * x.dtype.itemsize), 1, 64))
    whole = np.flatnonzero(complete)
    for start in range(0, len(whole), at_once):
        part = whole[np.minimum(np.arange(start, start + at_once), len(whole) - 1)]
        a, b = (jax.device_put(x[:, pairs[part, side]].T) for side in (0, 1))
        value[part] = np.asarray(several(a, b))
        progress(min(at_once, len(whole) - start))
    single = one if ours else jax.jit(one)
    for index in np.flatnonzero(~complete & (rows >= 2)):
        keep = patterns.present[:, of[index]].all(axis=1)
        a, b = (jax.device_put(x[keep, column]) for column in pairs[index])
        value[index] = float(single(a, b))
        progress(1)
    for place, (i, j) in enumerate(pairs):
        keep = patterns.present[:, of[place]].all(axis=1)
        first, second = (x[keep, column].astype(np.float64) for column in (i, j))
        if len(first) >= 2:
            varies = np.ptp(first) > 0 and np.ptp(second) > 0
            pearson[place] = abs(np.corrcoef(first, second)[0, 1]) if varies else 0.0
    directions = np.ones((len(pairs), 2), np.intp)
    absent = np.full(len(pairs), np.nan)
    pivot = np.ones(len(pairs))
    return Estimates(value, pearson, pearson, directions, rows, pivot, absent)
