"""What chance, and single rows, add to a correlation; for arrays of JAX or NumPy."""

from __future__ import annotations

from typing import Any

DOMINANT_SHARE = 0.3
"""Share of a correlation above which one row dominates it, with the two conditions below."""

DOMINANT_MULTIPLE = 10
"""Smallest ratio of the share to the row's weight: among few rows every share is large."""

DOMINANT_CORRELATION = 0.1
"""Smallest correlation that the row makes: near 0 every row makes a large share."""


def is_dominant(leverage: Any, weight: Any, correlation: Any) -> Any:
    """Return whether a row makes a large share of a correlation; weights have the sum 1."""
    large = (leverage > DOMINANT_SHARE) & (leverage > DOMINANT_MULTIPLE * weight)
    return large & (leverage * correlation > DOMINANT_CORRELATION)


def ezekiel(xp: Any, value: Any, rows: Any, parameters: Any) -> Any:
    """Return `hgr_jax.inference.corrected`, with the functions of ``xp``, JAX's or NumPy's."""
    freedom = rows - 1 - parameters
    enough = freedom > 0
    squared = 1 - (1 - value * value) * (rows - 1) / xp.where(enough, freedom, 1)
    positive = enough & ~(squared <= 0)
    return xp.where(positive, xp.sqrt(xp.where(positive, squared, 1)), 0)
