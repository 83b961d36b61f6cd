"""Measures that are functions of two vectors: their values of pairs, and permutations of these."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hgr_jax._arrays import Integers
from hgr_jax.core.arrays import as_estimate
from hgr_jax.inference.permutation import PermutationTest, permutation_test
from hgr_jax.measures.kb import kb
from hgr_jax.scanning.features import Estimates, Features
from hgr_jax.scanning.polynomials import pearson_of_pairs
from hgr_jax.scanning.request import Measure, Test

PERMUTATIONS = 999
"""Default number of permutations of the values of a measure."""


def estimate_function(
    features: Features,
    measure: Callable[[Any, Any], Any],
    pairs: Integers,
    memory: int,
) -> Estimates:
    """Estimate |``measure``| of every pair of numeric columns, on the rows where both are present.

    The measures of this package have programs for few numbers of rows; another function has one
    for every number that occurs, and pairs without missing values share one.
    """
    x, patterns = features.x, features.patterns
    pattern = patterns.index[pairs]
    estimates = Estimates.none(len(pairs))
    estimates.degrees[:] = 1
    rows = estimates.rows
    rows[:] = features.over_shared_rows(pairs, 0)
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
        estimates.value[part] = np.asarray(several(a, b))
    single = one if ours else jax.jit(one)
    for index in np.flatnonzero(~complete & (rows >= 2)):
        keep = patterns.present[:, pattern[index]].all(axis=1)
        a, b = (jax.device_put(x[keep, column]) for column in pairs[index])
        estimates.value[index] = float(single(a, b))
    estimates.pearson[:] = pearson_of_pairs(features, pairs, memory)
    return estimates


def permute_pair(
    features: Features, measure: Measure, pair: tuple[int, int], test: Test
) -> PermutationTest:
    """Test two columns by permutations of the rows that they share."""
    keep = features.present(pair[0]) & features.present(pair[1])
    options: dict[str, Any] = {}
    if features.weights is not None:
        weights = np.asarray(features.weights)
        keep &= weights > 0
        options["weights"] = weights[keep]
    a, b = (features.values(column)[keep] for column in pair)
    if measure.function is None:
        statistic: Callable[..., Array] = kb
        degrees = measure.kernels.h, measure.kernels.k
        h, k = (features.kernel(column, d) for column, d in zip(pair, degrees, strict=True))
        options |= {"h": h, "k": k}
    else:
        statistic = _absolute(measure.function)
    count = PERMUTATIONS if test.permutations is None else test.permutations
    return permutation_test(a, b, statistic, key=test.key, permutations=count, **options)


@functools.lru_cache(maxsize=4)
def _absolute(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return |function|, the same object each time, so that it is compiled once."""

    def absolute(a: Array, b: Array, **options: Any) -> Array:
        return jnp.abs(function(a, b, **options))

    return absolute
