"""Measures over relationships, noise levels, data seeds and algorithm seeds: cached, resumable.

One part is one measure on one relationship at one noise level: all seeds of it run in one
compiled program.  A finished part is kept in a file, so that an interrupted run goes on where it
stopped.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

import hgr_jax
from bench.paper.output import Output, sources
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

    def run(self, output: Output) -> Mapping[tuple[str, str], NDArray[np.float64]]:
        """Values ``(noise, data seed, algorithm seed)`` of every relationship and measure."""
        parts = [
            (relationship, measure, noise)
            for measure in self.measures
            for relationship in self.relationships
            for noise in self.noises
        ]
        done: dict[tuple[str, str, float], NDArray[np.float64]] = {}
        for part in parts:
            values = output.cached(self._key(part))
            if values is not None and values.shape == (self.data_seeds, self.algorithm_seeds):
                done[part] = values
        todo = [part for part in parts if part not in done]
        if done:
            print(f"{len(done)} of {len(parts)} parts are there from an earlier run", flush=True)
        for part in tqdm(todo, unit="part", disable=not todo):
            done[part] = self._part(part, output)
        return {
            (relationship, measure): np.stack(
                [done[relationship, measure, noise] for noise in self.noises]
            )
            for relationship in self.relationships
            for measure in self.measures
        }

    def _key(self, part: tuple[str, str, float]) -> str:
        relationship, measure, noise = part
        settings = (
            self.data_seeds,
            self.algorithm_seeds,
            self.size,
            self.neural_steps if measure == "HGR-NN" else None,
            sources("grid"),
            jax.__version__,
            jax.default_backend(),
            str(jnp.result_type(float)),
        )
        digest = hashlib.sha256(repr(settings).encode()).hexdigest()[:8]
        return f"{relationship}-{measure}-{noise:.1f}-{digest}".lower()

    def _part(self, part: tuple[str, str, float], output: Output) -> NDArray[np.float64]:
        relationship, measure, noise = part
        data_keys = jax.random.split(jax.random.key(0), self.data_seeds)
        keys = jax.random.split(jax.random.key(1), self.algorithm_seeds)
        program = _program(relationship, measure, self.size, self.neural_steps)
        if measure in RANDOM:
            values = np.asarray(program(data_keys, keys, noise), np.float64)
        else:
            # A run for each algorithm seed, although none of them is used: that is the claim.
            runs = [program(data_keys, keys[i : i + 1], noise) for i in range(len(keys))]
            values = np.asarray(jnp.concatenate(runs, axis=1), np.float64)
        output.keep(self._key(part), values)
        return values


@functools.cache
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
