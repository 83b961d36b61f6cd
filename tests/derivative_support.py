"""Derivatives against finite differences, in both modes, by one compiled program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

STEP = 1e-5


def _along(one: Any, other: Any) -> Any:
    products = jax.tree.map(lambda x, y: np.sum(np.asarray(x) * np.asarray(y)), one, other)
    return sum(jax.tree.leaves(products))


def check_derivatives(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    order: int = 1,
    *,
    tolerance: float = 1e-6,
) -> None:
    """Compare derivatives of float64 data, along random directions, with central differences.

    Those of the second order are derivatives, in both modes, of derivatives in both modes.
    """
    rng = np.random.default_rng(0)
    data = jax.tree.map(np.asarray, arguments)

    def draw(like: Any) -> Any:
        return jax.tree.map(lambda x: np.asarray(rng.standard_normal(x.shape)), like)

    def derivatives_of(function: Callable[..., Any], tangents: Any, weights: Any) -> Any:
        def derivatives(*arguments: Any) -> Any:
            value, push = jax.linearize(function, *arguments)  # traced once for both modes
            return value, push(*tangents), jax.linear_transpose(push, *arguments)(weights)

        return derivatives

    for _ in range(order):
        tangents, weights = draw(data), draw(jax.eval_shape(function, *data))
        function = derivatives_of(function, tangents, weights)
    compiled = jax.jit(function)
    _, forward, backward = compiled(*data)
    ends = [
        compiled(*jax.tree.map(lambda x, d, side=side: x + side * STEP * d, data, tangents))[0]
        for side in (1, -1)
    ]
    expected = jax.tree.map(lambda x, y: (np.asarray(x) - np.asarray(y)) / (2 * STEP), *ends)
    for found, slope in zip(jax.tree.leaves(forward), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(found, slope, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(
        _along(backward, tangents), _along(expected, weights), rtol=tolerance, atol=tolerance
    )
