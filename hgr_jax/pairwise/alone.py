"""Pairs of columns that share nothing with others: each with bases of its own rows."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hgr_jax.canonical import SINGLE_KERNEL, Problem, normalised, solve, without_dropped_rows
from hgr_jax.pairwise.features import Features, Floats, Integers, Kernels, chunks


def estimate_alone(
    features: Features, kernels: Kernels, pairs: Integers, memory: int
) -> tuple[Floats, Floats, Integers]:
    """HGR, |Pearson| and directions ``(N, 2)`` of ``pairs (N, 2)``, as `hgr_jax.kb` has them."""
    value, pearson = np.full(len(pairs), np.nan), np.full(len(pairs), np.nan)
    degrees = np.zeros((len(pairs), 2), np.intp)
    numbers, width = features.numbers, max(features.levels, default=0)
    each = features.rows * features.x.dtype.itemsize * (20 + 8 * width)
    size = int(np.clip(memory // each, 1, 32))
    kinds = pairs >= numbers
    for kind in np.unique(kinds, axis=0):
        chosen = np.flatnonzero((kinds == kind).all(axis=1))
        for part in chunks(chosen, size):
            a, b = pairs[part].T
            sides = [
                (features.codes[:, c - numbers] if category else features.x[:, c]).T
                for c, category in zip((a, b), kind, strict=True)
            ]
            found = _one_by_one(
                *sides,
                features.weights,
                kernels=kernels,
                levels=tuple(width if category else 0 for category in kind),
            )
            value[part], pearson[part], degrees[part] = (np.asarray(x) for x in found)
    return value, pearson, degrees


@functools.partial(jax.jit, static_argnames=("kernels", "levels"))
def _one_by_one(
    a: Array,
    b: Array,
    weights: Array | None,
    *,
    kernels: Kernels,
    levels: tuple[int, int],
) -> tuple[Array, Array, Array]:
    """HGR, |Pearson| and directions of pairs ``(N, n)``, by `canonical.solve` on their rows."""

    def present(x: Array, count: int) -> Array:
        return x >= 0 if count else ~jnp.isnan(x)

    def side(x: Array, count: int, w: Array) -> Array:
        if count:
            x = (x[:, None] == jnp.arange(count, dtype=x.dtype)[None, :]).astype(w.dtype)
        return without_dropped_rows(x, w)

    def one(a: Array, b: Array) -> tuple[Array, Array, Array]:
        both = present(a, levels[0]) & present(b, levels[1])
        dtype = b.dtype if levels[0] else a.dtype
        w = jnp.ones(both.shape, dtype) if weights is None else weights
        w = normalised(jnp.where(both, w, 0))
        sides = side(a, levels[0], w), side(b, levels[1], w)
        degrees = None if levels[0] else kernels.h, None if levels[1] else kernels.k
        linear = levels[0] or 1, levels[1] or 1
        method = SINGLE_KERNEL if kernels.single else "svd"
        solution = solve(Problem(degrees, method, linear), *sides, w, None)
        directions = jnp.stack([jnp.sum(s.basis.alive) for s in (solution.f, solution.g)])
        pearson = jnp.full((), jnp.nan, dtype)
        if not any(levels):
            pearson = solve(Problem((1, 1), "svd", (1, 1)), *sides, w, None).correlation
        return solution.correlation, pearson, directions

    return jax.vmap(one)(a, b)
