"""HGR-KB of one pair on many weightings of its rows, on the host.

A basis is only a choice of coordinates: polynomials that are orthonormal on all rows span the same
functions on some of them, or with other weights.  There they are whitened again, which keeps them
nested: the first d whitened functions span the polynomials of degree d.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats
from hgr_jax.core.kernels import Indicators, KernelLike, encode
from hgr_jax.inference._polynomials import (
    centred_indicators,
    polynomials_at,
)
from hgr_jax.inference._small_problems import top_singular_values, whitened_blocks, whitenings

ROWS_AT_ONCE = 2**14


@dataclasses.dataclass(frozen=True)
class PolynomialPair:
    """Orthonormal polynomials of both variables, as many as each has directions for.

    Attributes:
      functions: ``[1, f_1 .. , g_1 .. ]``, ``(m, n)``.
      directions: how many f and how many g there are.
      shares: weights ``(n,)``, of sum 1, that they are orthonormal with.
    """

    functions: Floats
    directions: tuple[int, int]
    shares: Floats

    def grams(self, weights: NDArray[np.number]) -> Floats:
        """Return the moments ``(m, m, N)`` of the functions with weights ``(n, N)``."""
        size = len(self.functions)
        left, right = np.triu_indices(size)
        sums = np.zeros((len(left), weights.shape[1]))
        for start in range(0, len(weights), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            f = self.functions[:, part]
            sums += (f[left] * f[right]) @ weights[part].astype(np.float64)
        found = np.empty((size, size, weights.shape[1]))
        found[left, right] = found[right, left] = sums
        return found

    def values(self, weights: NDArray[np.number]) -> Floats:
        """Return HGR-KB with weights ``(n, N)``, ``(N,)``."""
        return np.minimum(top_singular_values(self.whitened(self.grams(weights))[0]), 1)

    def whitened(self, grams: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the whitened cross moments ``(h, k, N)`` of `grams`, and the two maps."""
        h = self.directions[0]
        first, second = np.arange(h + 1), np.r_[0, h + 1 : len(grams)]
        total = np.where(grams[0, 0] > 0, grams[0, 0], 1)
        left, right = (whitenings(grams[np.ix_(place, place)])[:2] for place in (first, second))
        m = whitened_blocks(grams[1 : h + 1, h + 1 :] / total, left, right)
        return m, left[1], right[1]


def orthonormal(functions: Floats, shares: Floats) -> Floats:
    """Make functions ``(m, n)`` orthonormal one after the other; 0 where nothing is left."""
    both = np.concatenate([np.ones((1, len(shares))), functions])
    moments = ((both * shares) @ both.T)[..., None]
    mean, transform, _ = whitenings(moments)
    return transform[..., 0] @ (functions - mean)


def _functions_at(x: Floats, shares: Floats, kernel: KernelLike) -> Floats:
    if isinstance(kernel, Indicators):
        return orthonormal(centred_indicators(x, shares, kernel.count), shares)
    if callable(kernel):
        features = np.asarray(encode(kernel, jnp.asarray(x), None, "h or k")[1], np.float64)
        return orthonormal(features.T, shares)
    return polynomials_at(x, shares, kernel)


def fit_pair(
    a: Floats, b: Floats, weights: Floats, kernels: tuple[KernelLike, KernelLike]
) -> PolynomialPair:
    """Return the functions of finite ``a`` and ``b (n,)``, with weights that are not all 0.

    Of categories they are indicators, of which one is a combination of the others and 1: nothing
    is left of it when they are whitened.
    """
    shares = np.asarray(weights, np.float64)
    shares = shares / shares.sum()
    f, g = (_functions_at(x, shares, kernel) for x, kernel in zip((a, b), kernels, strict=True))
    functions = np.concatenate([np.ones((1, len(shares))), f, g])
    return PolynomialPair(functions, (len(f), len(g)), shares)
