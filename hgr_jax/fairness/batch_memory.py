"""The batches before this one, over which a penalty may be measured."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array, lax


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Past:
    """``z (m, n, ...)``, predictions ``columns (m, c, n)`` and groups ``(m, n)`` of m batches."""

    z: Array
    columns: Array
    group: Array
    count: Array


def empty_past(memory: int, z: Array, columns: Array) -> Past:
    """Make room for ``memory - 1`` batches like this, of ``z (n, ...)`` and ``columns (c, n)``."""
    slots = memory - 1
    return Past(
        z=jnp.zeros((slots, *z.shape), z.dtype),
        columns=jnp.zeros((slots, *columns.shape), columns.dtype),
        group=jnp.zeros((slots, z.shape[0]), jnp.int32),
        count=jnp.zeros((), jnp.int32),
    )


def remembered(
    past: Past, z: Array, columns: Array, group: Array | None
) -> tuple[Array, Array, Array | None, Past, Array]:
    """Return this batch and those before it as one, the next past, and the share not repeated.

    Until there have been enough batches, this one stands for those that are missing.
    """
    slots = past.z.shape[0]
    still = lax.stop_gradient((z, columns, jnp.zeros(z.shape[0], jnp.int32)))
    if group is not None:
        still = (*still[:2], group.astype(jnp.int32))
    known = jnp.arange(slots) < past.count
    kept = (past.z, past.columns, past.group)
    old = [
        jnp.where(known.reshape(-1, *(1,) * new.ndim), before, new[None])
        for before, new in zip(kept, still, strict=True)
    ]
    slot = past.count % slots
    after = [before.at[slot].set(new) for before, new in zip(kept, still, strict=True)]
    # The value is that of all batches; its derivative, as if all of them were this one.
    moving = columns + slots * (columns - still[1])
    all_columns = jnp.moveaxis(jnp.concatenate([moving[None], old[1]]), 1, 0)
    all_z = jnp.concatenate([z[None], old[0]]).reshape(-1, *z.shape[1:])
    all_groups = None
    if group is not None:
        all_groups = jnp.concatenate([still[2][None], old[2]]).ravel()
    share = (1 + jnp.minimum(past.count, slots)).astype(columns.dtype) / (slots + 1)
    return (
        all_z,
        all_columns.reshape(columns.shape[0], -1),
        all_groups,
        Past(z=after[0], columns=after[1], group=after[2], count=past.count + 1),
        share,
    )
