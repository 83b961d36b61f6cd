"""Measures over relationships, noise levels, data seeds and algorithm seeds.

All seeds of one measure on one relationship run in one compiled program.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

import hgr_jax
from hgr_jax.datasets import synthetic

NOISES = tuple(round(0.2 * step, 1) for step in range(16))

Estimate = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
"""``(a, b, key) -> value``; the deterministic ones ignore the key."""


def estimates(relationship: str, *, neural_steps: int = 1000) -> dict[str, Estimate]:
    """The contestants of the paper, with its settings."""
    known = synthetic.RELATIONSHIPS[relationship]
    return {
        "ORACLE": lambda a, b, _: hgr_jax.oracle(a, b, f=known.f, g=known.g),
        "HGR-KB": lambda a, b, _: hgr_jax.kb(a, b, h=5, k=5),
        "HGR-SK": lambda a, b, _: hgr_jax.sk(a, b, d=5),
        "HGR-NN": lambda a, b, key: hgr_jax.neural(a, b, key=key, steps=neural_steps),
        "HGR-KDE": lambda a, b, _: hgr_jax.kde(a, b),
        "RDC": lambda a, b, key: hgr_jax.rdc(a, b, key=key),
    }


RANDOM = {"HGR-NN", "RDC"}


@dataclasses.dataclass(frozen=True)
class Grid:
    """What to run."""

    relationships: Sequence[str]
    measures: Sequence[str]
    noises: Sequence[float] = NOISES
    data_seeds: int = 10
    algorithm_seeds: int = 10
    size: int = 1001
    neural_steps: int = 1000

    def run(self) -> Mapping[tuple[str, str], NDArray[np.float64]]:
        """Values ``(noise, data seed, algorithm seed)`` of every relationship and measure."""
        cases = list(itertools.product(self.relationships, self.measures))
        return {case: self._of(*case) for case in tqdm(cases, unit="case")}

    def _of(self, relationship: str, measure: str) -> NDArray[np.float64]:
        data_keys = jax.random.split(jax.random.key(0), self.data_seeds)
        keys = jax.random.split(jax.random.key(1), self.algorithm_seeds)
        program = _program(relationship, measure, self.size, self.neural_steps)
        # A run for each algorithm seed of what uses none: that it uses none is the claim.
        runs = [keys] if measure in RANDOM else [keys[i : i + 1] for i in range(len(keys))]
        return np.array(
            [
                np.concatenate([program(data_keys, run, noise) for run in runs], axis=1)
                for noise in self.noises
            ],
            np.float64,
        )


def _program(
    relationship: str, measure: str, size: int, neural_steps: int
) -> Callable[[jax.Array, jax.Array, float], jax.Array]:
    estimate = estimates(relationship, neural_steps=neural_steps)[measure]

    def one(data_key: jax.Array, key: jax.Array, noise: jax.Array) -> jax.Array:
        a, b = synthetic.sample(relationship, data_key, noise=noise, size=size)
        return estimate(a, b, key)

    # All algorithm seeds at once, data seeds in turn: more would not fit in a core's cache.
    def all_seeds(data_keys: jax.Array, keys: jax.Array, noise: jax.Array) -> jax.Array:
        over_keys = jax.vmap(one, in_axes=(None, 0, None))
        return jax.lax.map(lambda data_key: over_keys(data_key, keys, noise), data_keys)

    return jax.jit(all_seeds)
