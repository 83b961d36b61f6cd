"""The last batches of a training, on which a penalty measures beside the present one."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax


class Past(NamedTuple):
    """``z (m, n, ...)``, predictions ``(m, c, n)``, groups ``(m, n)`` of m of ``seen`` batches.

    The group is y itself where polynomials of it are given.
    """

    z: Array
    columns: Array
    group: Array
    seen: Array


def empty_past(memory: int, z: Array, columns: Array, group: Array) -> Past:
    """Make room for ``memory - 1`` batches like this, of ``z (n, ...)`` and ``columns (c, n)``."""
    batch = (z, columns, group)
    empty = (jnp.zeros((memory - 1, *leaf.shape), leaf.dtype) for leaf in batch)
    return Past._make((*empty, jnp.zeros((), jnp.int32)))


def remembered(
    past: Past, z: Array, columns: Array, group: Array | None
) -> tuple[Array, Array, Array | None, Past, Array]:
    """Return this batch and those before it as one, the next past, and the share not repeated.

    Until there have been enough batches, this one stands for those that are missing.
    """
    slots = past.z.shape[0]
    kind = past.group.dtype
    codes = jnp.zeros(z.shape[0], kind) if group is None else group.astype(kind)
    still = lax.stop_gradient((z, columns, codes))
    # The value is that of all batches; its derivative, as if all of them were this one.
    moving = columns + slots * (columns - still[1])
    known, slot = jnp.arange(slots) < past.seen, past.seen % slots
    together, after = [], []
    for before, new, now in zip(past[:3], still, (z, moving, codes), strict=True):
        old = jnp.where(known.reshape(-1, *(1,) * new.ndim), before, new[None])
        together.append(jnp.concatenate([now[None], old]))
        after.append(before.at[slot].set(new))
    all_z, all_columns, all_groups = together
    share = (1 + jnp.minimum(past.seen, slots)).astype(columns.dtype) / (slots + 1)
    return (
        all_z.reshape(-1, *z.shape[1:]),
        jnp.moveaxis(all_columns, 1, 0).reshape(columns.shape[0], -1),
        None if group is None else all_groups.ravel(),
        Past._make((*after, past.seen + 1)),
        share,
    )
