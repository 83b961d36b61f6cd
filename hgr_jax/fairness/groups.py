"""A measure of one prediction, mapped over the columns of a prediction and over groups of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def within(
    measure: Callable[..., Array],
    z: Array,
    prediction: Array,
    group: Array,
    groups: int,
) -> Array:
    """Measure within each group of rows: the conditional dependence of equalised odds.

    Args:
      measure: ``(z, prediction, weights=...) -> scalar``, static: `hgr_jax.kb`, `hgr_jax.sk`, or
        one of your own that takes observation weights.
      z, prediction: ``(n,)`` or ``(n, p)``, traced.
      group: ``(n,)`` integers from 0 to ``groups - 1``, traced; any other value is in no group.
      groups: how many there are, static.

    Returns:
      Values ``(groups,)``; 0, with zero derivatives, for a group of fewer than two rows here.

    Raises:
      TypeError, ValueError: as the measure does.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> from hgr_jax.fairness import within
      >>> z = jnp.linspace(-1, 1, 100)
      >>> group = (jnp.arange(100) % 2 == 0).astype(jnp.int32)
      >>> prediction = jnp.where(group == 1, z, 0.0)
      >>> print(within(hgr_jax.kb, z, prediction, group, 2).round(3))
      [0. 1.]
    """

    def value(label: Array) -> Array:
        mask = group == label
        enough = jnp.sum(mask) >= 2
        weights = jnp.where(enough, mask, True).astype(prediction.dtype)
        return jnp.where(enough, measure(z, prediction, weights=weights), 0)

    return jax.vmap(value)(jnp.arange(groups))


def over_columns(function: Callable[..., Any], columns: Array, *carried: Any) -> Any:
    """Map `function` over columns (and what is carried for each); one without `jax.vmap`."""
    if columns.shape[0] > 1:
        return jax.vmap(function)(columns, *carried)
    first = jax.tree.map(lambda leaf: leaf[0], (columns, *carried))
    return jax.tree.map(lambda leaf: leaf[None], function(*first))


def prediction_columns(prediction: Array) -> Array:
    """Return predictions ``(columns, n)``."""
    return prediction[None, :] if prediction.ndim == 1 else prediction.T
