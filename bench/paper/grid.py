"""Measures over relationships, noise levels, data seeds and algorithm seeds: cached, resumable.

One part is one measure on one relationship at one noise level: all seeds of it run in one
compiled program.  A finished part is kept in a file, so that an interrupted run goes on where it
stopped.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

import hgr_jax
from bench.paper.output import ExperimentError, Output, sources
from hgr_jax.datasets import synthetic

NOISES = tuple(round(0.2 * step, 1) for step in range(16))

Pair = tuple[jax.Array, jax.Array]

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
        "CHI^2": lambda a, b, _: hgr_jax.chi2(a, b),
        "Pearson": lambda a, b, _: jnp.abs(hgr_jax.pearson(a, b)),
    }


def fits(*, neural_steps: int = 1000) -> dict[str, Callable[[Pair, Pair, jax.Array], jax.Array]]:
    """``(sample, fresh sample, key) -> value`` of those that have transformations.

    They are fitted to the first sample, and their correlation is that on the fresh one.
    """
    return {
        "HGR-KB": lambda pair, fresh, _: hgr_jax.kb_fit(*pair, h=5, k=5).score(*fresh),
        "HGR-SK": lambda pair, fresh, _: hgr_jax.sk_fit(*pair, d=5).score(*fresh),
        "HGR-NN": lambda pair, fresh, key: hgr_jax.neural_fit(
            *pair, key=key, steps=neural_steps
        ).score(*fresh),
    }


RANDOM = {"HGR-NN", "RDC"}

DEGREE = re.compile(r"HGR-(KB|SK)-(\d+)")
"""KB and SK of another degree than 5."""


def contestant(
    relationship: str, name: str, *, neural_steps: int = 1000, test: bool = False
) -> Callable[[Pair, Pair, jax.Array], jax.Array]:
    """Return ``(sample, fresh sample, key) -> value``: on the sample, or with ``test`` on fresh.

    Raises:
      ExperimentError: for another name, and with ``test`` for a measure without transformations.
    """
    match = DEGREE.fullmatch(name)
    if match:
        kind, degree = match[1], int(match[2])
        if kind == "KB":
            fit: Callable[..., Any] = functools.partial(hgr_jax.kb_fit, h=degree, k=degree)
        else:
            fit = functools.partial(hgr_jax.sk_fit, d=degree)
        if test:
            return lambda pair, fresh, _: fit(*pair).score(*fresh)
        return lambda pair, fresh, _: fit(*pair).correlation
    known = estimates(relationship, neural_steps=neural_steps)
    if name not in known:
        raise ExperimentError(
            f"measures are {', '.join(known)}, and HGR-KB-N, HGR-SK-N of degree N; got {name!r}"
        )
    if test and name not in WITHOUT_FIT:
        fitted = fits(neural_steps=neural_steps)
        if name not in fitted:
            raise ExperimentError(f"{name} has no transformations to take to a fresh sample")
        return fitted[name]
    estimate = known[name]
    return lambda pair, fresh, key: estimate(*(fresh if test else pair), key)


WITHOUT_FIT = ("ORACLE", "Pearson")
"""Whose transformations are known: on a fresh sample they are what they are there."""


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
    test: bool = False

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
            self.test,
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
        program = _program(relationship, measure, self.size, self.neural_steps, self.test)
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
    relationship: str, measure: str, size: int, neural_steps: int, test: bool
) -> Callable[[jax.Array, jax.Array, float], jax.Array]:
    estimate = contestant(relationship, measure, neural_steps=neural_steps, test=test)

    def one(data_key: jax.Array, key: jax.Array, noise: jax.Array) -> jax.Array:
        pair = synthetic.sample(relationship, data_key, noise=noise, size=size)
        fresh_key = jax.random.fold_in(data_key, 1)
        fresh = synthetic.sample(relationship, fresh_key, noise=noise, size=size)
        return estimate(pair, fresh, key)

    # All algorithm seeds at once, data seeds in turn: more would not fit in a core's cache.
    def all_seeds(data_keys: jax.Array, keys: jax.Array, noise: jax.Array) -> jax.Array:
        over_keys = jax.vmap(one, in_axes=(None, 0, None))
        return jax.lax.map(lambda data_key: over_keys(data_key, keys, noise), data_keys)

    return jax.jit(all_seeds)
