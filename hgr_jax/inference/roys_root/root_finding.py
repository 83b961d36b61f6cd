"""Zeros of many functions of one variable at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hgr_jax._arrays import Floats

_MOST_STEPS = 200
ROOT_TOLERANCE = 4 * np.finfo(np.float64).eps


def bracketed_root(
    function: Callable[[Floats, npt.NDArray[np.intp]], Floats],
    low: Floats,
    low_value: Floats,
    high: Floats,
    high_value: Floats,
    tolerance: float = ROOT_TOLERANCE,
) -> Floats:
    """Find a zero of each function between ``low`` and ``high`` (N,), where it changes sign.

    Chandrupatla (1997): inverse quadratic interpolation where three points allow it, else
    bisection.  ``function(x, chosen)`` evaluates those of the indices ``chosen`` at ``x``; the
    zeros are found to a relative ``tolerance``.
    """
    root = np.where(np.abs(low_value) < np.abs(high_value), low, high)
    chosen = np.arange(low.size)
    newest, newest_value, other, other_value = high, high_value, low, low_value
    fraction = np.full(low.size, 0.5)
    for _ in range(_MOST_STEPS):
        x = newest + fraction * (other - newest)
        value = function(x, chosen)
        same = (value > 0) == (newest_value > 0)
        third = np.where(same, newest, other)
        third_value = np.where(same, newest_value, other_value)
        other = np.where(same, other, newest)
        other_value = np.where(same, other_value, newest_value)
        newest, newest_value = x, value

        best = np.where(np.abs(newest_value) < np.abs(other_value), newest, other)
        root[chosen] = best
        width = np.abs(other - newest)
        allowed = tolerance * np.abs(best)
        going = (width > 2 * allowed) & (newest_value != 0)
        if not np.any(going):
            break
        chosen, third, third_value = chosen[going], third[going], third_value[going]
        newest, newest_value = newest[going], newest_value[going]
        other, other_value = other[going], other_value[going]
        least = (allowed / np.where(going, width, 1.0))[going]
        interpolated = _interpolate(newest, newest_value, other, other_value, third, third_value)
        fraction = np.clip(interpolated, least, 1 - least)
    return root


def _interpolate(
    a: Floats,
    a_value: Floats,
    b: Floats,
    b_value: Floats,
    c: Floats,
    c_value: Floats,
) -> Floats:
    """Choose where between a (0) and b (1) to look next: by interpolation if trusted, or 1/2."""
    with np.errstate(divide="ignore", invalid="ignore"):
        position = (a - b) / (c - b)
        level = (a_value - b_value) / (c_value - b_value)
        quadratic = a_value / (b_value - a_value) * c_value / (b_value - c_value) + (
            (c - a) / (b - a) * a_value / (c_value - a_value) * b_value / (c_value - b_value)
        )
    trusted = (level**2 < position) & ((1 - level) ** 2 < 1 - position) & np.isfinite(quadratic)
    return np.where(trusted, quadratic, 0.5)
