"""Pairs of columns that tests of penalties share."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hgr_jax
from bench import reference
from hgr_jax.fairness import Penalty

ROWS = 48
Pair = tuple[jax.Array, jax.Array]
kb = functools.partial(hgr_jax.kb, h=2, k=2)
exact_kb = functools.partial(reference.kb, h=2, k=2)


def some_pair(seed: int, rows: int = ROWS, columns: int | None = None) -> Pair:
    rng = np.random.default_rng(seed)
    z = rng.standard_normal(rows)
    shape = (rows,) if columns is None else (rows, columns)
    noise = rng.standard_normal(shape)
    prediction = (z**2 - z / 2).reshape(rows, *(1,) * (len(shape) - 1)) + noise
    return jnp.asarray(z, jnp.float32), jnp.asarray(prediction, jnp.float32)


# Not under jit: so the compiled measures are those of the other tests.
def measured(
    penalty: Penalty, z: jax.Array, prediction: jax.Array, group: Any = None, groups: int = 1
) -> jax.Array:
    return penalty.values(penalty.init(z, prediction), z, prediction, group, groups)[0]
