"""Estimates of pairs with any kernels, from the engine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Integers
from hgr_jax.scanning.engine import Engine
from hgr_jax.scanning.features import Estimates, Features, Kernels


def estimate_pairs(
    features: Features,
    kernels: Kernels,
    pairs: Integers,
    memory: int,
    progress: Callable[[int], None] = lambda done: None,
    *,
    errors: bool = False,
) -> tuple[Estimates, NDArray[np.bool_]]:
    """Estimate ``pairs (N, 2)``, and say of which numeric columns ``(p,)`` the basis is fine.

    ``errors`` asks for standard errors too.
    """
    if kernels.plain:
        engine = Engine(features, kernels, memory, errors=errors)
        return engine.estimate(pairs, progress), engine.well_conditioned
    of_lines = Engine(features, Kernels(1, 1), memory).estimate(pairs)
    each = doubled(features, pairs) if kernels.differ else (features, pairs)
    found = Engine(each[0], kernels, memory, errors=errors).estimate(each[1], progress)
    lost = np.isnan(found.correlation)
    lines = {
        name: np.where(lost, np.nan, getattr(of_lines, name)) for name in ("pearson", "linear")
    }
    return dataclasses.replace(found, **lines), np.ones(features.n_numeric, bool)


def doubled(features: Features, pairs: Integers) -> tuple[Features, Integers]:
    """Return every number twice, with the kernel of the first side and of the second.

    And the positions of ``pairs (N, 2)`` among these columns.
    """
    numbers = features.n_numeric
    twice = np.concatenate([features.x, features.x], axis=1)
    found = dataclasses.replace(features, x=twice, unrounded=None)
    beyond = np.array([[0, numbers]])
    return found, pairs + np.where(pairs < numbers, beyond, numbers)
