"""The kernel of a category, for arrays of JAX or NumPy."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Indicators:
    """The kernel of a category: ``x (n,)`` of codes 0, 1, ... to one-hot features ``(n, count)``.

    They span all functions of the category; KB of two categories is the first correlation of
    correspondence analysis.  Other codes belong to no level; NaN and infinity make NaN.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> from hgr_jax.kernels import Indicators
      >>> species, size = jnp.array([0, 1, 2, 0, 1, 2]), jnp.array([3.0, 9.0, 3.1, 2.9, 9.0, 3.0])
      >>> print(f"{hgr_jax.kb(species, size, h=Indicators(3), k=1):.3f}")
      1.000
    """

    count: int

    def __call__(self, x: Any) -> Any:
        """Return the features of the codes ``x``."""
        levels = np.arange(self.count).astype(x.dtype)
        return (x[:, None] == levels[None, :]).astype(x.dtype) + 0 * x[:, None]
